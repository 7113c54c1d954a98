//! The timeline: a row for each span, which leads to everything that is known of it.

use super::shown::{Shown, word};
use crate::{page::duration, spans::Span};
use maud::{Markup, html};

impl Shown {
    /// Bars over the time of the run.
    pub(super) fn timeline(&self) -> Markup {
        let whole = self.last.ms_since(self.began).max(0.001);
        html! { ol.timeline { @for span in &self.spans { (self.row(span, whole)) } } }
    }

    fn row(&self, span: &Span, whole: f64) -> Markup {
        let end = span.ended.unwrap_or(self.last);
        let left = (span.began.ms_since(self.began) / whole * 1000.0).min(997.0);
        let width = (end.ms_since(span.began) / whole * 1000.0).max(3.0);
        let class = match (&span.failure, span.ended) {
            (Some(_), _) => "bad",
            (None, None) => "open",
            _ => "",
        };
        let is_chosen = self.panel.as_ref().is_some_and(|panel| panel.is_of(span));
        html! { li id={ "e" (span.id()) } class=(class) {
            a.row href={ (self.with_row(span)) "#panel" } data-row=(span.id()) aria-current=[is_chosen.then_some("true")] {
                span class={ "name d" (span.depth.min(5)) } { span.kind { (word(span)) " " } (span.name)
                    @if let Some(failure) = &span.failure { " " span.failed { (failure) } } }
                span.took { @if span.ended.is_some() { (duration(end.ms_since(span.began))) } @else { "…" } }
                svg viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" {
                    rect x=(format!("{left:.1}")) y="0" width=(format!("{width:.1}")) height="10" {} }
            }
        } }
    }

    /// The address of this page with a chosen row.
    fn with_row(&self, span: &Span) -> String {
        let address = self.without_row();
        let sign = if address.contains('?') { '&' } else { '?' };
        format!("{address}{sign}row={}", span.id())
    }

    /// The address of this page, at the same part of the timeline, without a chosen row.
    pub(super) fn without_row(&self) -> String {
        match (self.timeline.from, self.timeline.failed) {
            (0, false) => self.here.clone(),
            (0, true) => format!("{}?failed=true", self.here),
            (from, false) => format!("{}?from={from}", self.here),
            (from, true) => format!("{}?from={from}&failed=true", self.here),
        }
    }
}
