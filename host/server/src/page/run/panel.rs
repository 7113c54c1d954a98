//! The row of the timeline that the reader chose, with everything that is known of it in one place: what it was given,
//! its result or failure, its attempts, its conversation with the prompt, its receipts and what it was denied.

use super::{
    data, receipt,
    shown::{Shown, part, word},
};
use crate::{
    page::{duration, moment},
    spans::{Span, SpanKind},
    view::{Said, View},
};
use maud::{Markup, html};
use opcell::{Denial, remedy};
use opcell_engine::{Recorded, receipt::Receipt};

/// Calls of a step, and events of its conversation, that are shown.
const MAX_CALLS: usize = 10;
const MAX_SAID: usize = 50;

/// A chosen row.
pub(super) struct Panel {
    span: Span,
    /// The step that it belongs to.
    step: String,
    /// Calls right below it, the first of them.
    calls: Vec<Span>,
    all_calls: usize,
    said: Vec<Said>,
    all_said: usize,
    /// The index of the first event of its conversation among those of the run.
    first_said: Option<usize>,
}

impl Panel {
    /// The row with this ID; `None` where the run has none.
    pub(super) fn of(view: &View, id: &str) -> Option<Self> {
        let index = view.find(id)?;
        let span = view.spans().get(index)?.clone();
        let said: Vec<(usize, &Said)> = view.said_in(&span).collect();
        // What a session's tools were asked and answered is a part of its conversation.
        let most = if said.is_empty() { MAX_CALLS } else { 0 };
        let (calls, all_calls) = view.calls_of(index, most);
        Some(Self {
            step: view.step_of(&span),
            calls,
            all_calls: if most == 0 { 0 } else { all_calls },
            all_said: said.len(),
            first_said: said.first().map(|(index, _)| *index),
            said: said.into_iter().take(MAX_SAID).map(|(_, said)| said.clone()).collect(),
            span,
        })
    }

    /// Numbers of the events that it needs.
    pub(super) fn wanted(&self) -> Vec<u64> {
        let spans = std::iter::once(&self.span).chain(&self.calls);
        spans.flat_map(data::events_of).chain(self.said.iter().map(|said| said.seq)).collect()
    }

    /// Returns `true` for its own row.
    pub(super) fn is_of(&self, span: &Span) -> bool {
        (span.seq, span.place) == (self.span.seq, self.span.place)
    }
}

impl Shown {
    /// Renders the chosen row.
    pub(super) fn panel(&self, panel: &Panel) -> Markup {
        let span = &panel.span;
        let is_call = matches!(span.kind, SpanKind::Cell | SpanKind::Tool);
        html! {
            section #panel.panel aria-labelledby="panel-name" {
                p.right { a.close href={ (self.without_row()) "#e" (span.id()) } data-row="" { "Close" } }
                h2 #panel-name { span.kind { (word(span)) " " } (span.name) }
                p.quiet {
                    @if !panel.step.is_empty() && span.kind != SpanKind::Step { "Step " code { (panel.step) } " · " }
                    a href={ (self.here) "/events?after=" (span.seq - 1) } { "event " (span.seq) } " · "
                    (moment(&span.began.to_text())) " UTC · "
                    @match span.ended { Some(ended) => (duration(ended.ms_since(span.began))), None => "not ended" }
                    @for (key, fact) in &span.facts {
                        " · " (key.strip_prefix("opcell.").unwrap_or(key)) " "
                        (fact.as_str().map_or_else(|| fact.to_json(), str::to_owned))
                    }
                }
                @if let Some(failure) = &span.failure { p { span.failed { "Failed: " (failure) } } }
                @if self.may.run { p { button.small form="fork" name="at" value=(span.seq) { "Fork after this event" } } }
                (data::shown(span, &self.data, &self.here))
                @if is_call { (self.receipt(span)) }
                @for (at, call) in panel.calls.iter().enumerate() {
                    h3.call { @if panel.all_calls > 1 { "Call " (at + 1) ": " } (word(call)) " " code { (call.name) }
                        @if let Some(ended) = call.ended { " · " (duration(ended.ms_since(call.began))) }
                        @if let Some(failure) = &call.failure { " · " span.failed { (failure) } } }
                    (data::shown(call, &self.data, &self.here))
                    (self.receipt(call))
                }
                @if panel.all_calls > panel.calls.len() {
                    p.quiet { (panel.all_calls - panel.calls.len()) " more calls: each has a row of its own." }
                }
                @if !panel.said.is_empty() { h3 { "Conversation" } }
                @for said in &panel.said { @if let Some(recorded) = self.data.get(&said.seq) { (part(said, recorded)) } }
                @if panel.all_said > panel.said.len() {
                    p { a href={ (self.here) "?said=" (panel.first_said.unwrap_or(0) + panel.said.len()) "#conversation" } {
                        "The rest of it: " (panel.all_said - panel.said.len()) " more" } }
                }
            }
        }
    }

    /// The receipt of a call, and what the call was denied.
    fn receipt(&self, span: &Span) -> Markup {
        let found = span.receipt_at.and_then(|seq| self.data.get(&seq)).and_then(of);
        html! { @if let Some((receipt, denials)) = found {
            h4 { "Receipt" }
            (receipt::shown(receipt))
            @for denial in &denials { (self.denied(denial)) }
        } }
    }
}

fn of(recorded: &Recorded) -> Option<(&Receipt, Vec<Denial>)> {
    let receipt = recorded.event.receipt()?;
    Some((receipt, remedy::of_receipt(receipt)))
}
