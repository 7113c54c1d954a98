//! The content of the page of a run.

use super::{
    answers,
    form::{self, FormPlace},
    panel::Panel,
};
use crate::{
    access::{Caller, tokens::Scope},
    page::{brief, cut, duration, moment, value},
    spans::{Span, SpanKind},
    tenant::Tenant,
    view::Said,
};
use maud::{Markup, html};
use opcell::{Capability, Denial, Remedy, remedy, standing::Standing};
use opcell_engine::{
    RunError, RunOutcome,
    call::{ModelReply, Summary},
    event::{EffectReply, Event, ForkOrigin, Recorded, Timestamp},
    outcome::Question,
};
use opcell_ir::ir::RunLimits;
use opcell_journal::RunId;
use opcell_types::Value;
use std::{collections::BTreeMap, sync::Arc};

/// Spans on one page, and events of conversations.
pub(super) const SPANS: usize = 200;
pub(super) const SAID: usize = 50;

/// The actions that the visitor may take; a button that would be refused is not there.
pub(super) struct May {
    pub(super) run: bool,
    approve: bool,
    admin: bool,
}

impl May {
    pub(super) fn of(caller: &Caller) -> Self {
        let may = |scope| caller.may(scope);
        Self { run: may(Scope::Run), approve: may(Scope::Approve), admin: may(Scope::Admin) }
    }
}

/// A part of something long.
pub(super) struct Window {
    pub from: usize,
    pub all: usize,
    pub failed: bool,
}

/// The part of a run that has been read while reading continues.
pub(super) struct Partly {
    /// As its journal knows it.
    status: String,
    events: u64,
}

/// A run, and the parts of it that are shown.
pub(super) struct Shown {
    pub here: String,
    pub compare: String,
    pub proof: String,
    pub may: May,
    pub workflow: Option<Arc<str>>,
    pub outcome: RunOutcome,
    /// There while the run has not been read to its end.
    pub partly: Option<Partly>,
    pub limits: RunLimits,
    pub seq: u64,
    pub began: Timestamp,
    pub last: Timestamp,
    /// Spans that failed.
    pub failures: usize,
    pub timeline: Window,
    /// `true` if the run has more spans than the timeline.
    pub is_cut: bool,
    pub spans: Vec<Span>,
    /// The chosen row.
    pub panel: Option<Panel>,
    /// The ID of a row that was asked for and that the run does not have.
    pub no_row: Option<String>,
    /// Events that have the data of the chosen row, the answers, and the first one.
    pub data: BTreeMap<u64, Recorded>,
    /// Numbers of the events with answers and other messages.
    pub answers: Vec<u64>,
    /// The run's input.
    pub input: Option<Value>,
    pub denials: Vec<Denial>,
    pub forked: Option<ForkOrigin>,
    /// The last event before the call with which it failed.
    pub before_failure: Option<u64>,
    pub standing: Option<Standing>,
    pub talk: Window,
    /// `true` if a part of the conversation was asked for.
    pub is_reading_talk: bool,
    pub said: Vec<(Said, Recorded)>,
}

impl Shown {
    /// Finds out the run's standing, as lists have it.
    ///
    /// # Errors
    /// The journal's.
    pub(super) async fn stands(&mut self, tenant: &Tenant, run: &RunId) -> Result<(), RunError> {
        if !self.outcome.status.has_ended() {
            let Some(entry) = tenant.entry(run).await? else { return Ok(()) };
            let standing = tenant.standing(&entry, None).await?;
            self.standing = Some(standing).filter(|standing| standing.agrees_with(self.outcome.status));
        }
        Ok(())
    }

    /// Says of a run that has not been read to its end what can be known without: its status, and how it ended.
    ///
    /// # Errors
    /// The journal's.
    pub(super) async fn partly_read(&mut self, tenant: &Tenant, run: &RunId) -> Result<(), RunError> {
        let engine = tenant.host.engine();
        let Some(entry) = tenant.entry(run).await? else { return Ok(()) };
        let now = engine.ports().timer.now();
        self.partly = Some(Partly { status: entry.status(now.0).to_owned(), events: entry.records });
        self.outcome.questions.clear();
        if entry.state.ended {
            self.last = Timestamp(entry.updated_at);
            let last = engine.events_after(run, entry.records.saturating_sub(1), 1).await?;
            if let Some(Event::RunFinished(end)) = last.into_iter().next().map(|last| last.event) {
                let outcome = &mut self.outcome;
                (outcome.status, outcome.reason, outcome.message) = (end.status, end.reason, end.message);
                (outcome.step, outcome.denial, outcome.result) = (end.step, end.denial, end.result);
            }
        }
        Ok(())
    }

    fn status(&self) -> &str {
        let standing = || self.standing.as_ref().map_or(self.outcome.status.as_str(), |standing| &standing.status);
        self.partly.as_ref().map_or_else(standing, |partly| &partly.status)
    }

    /// Renders what it waits for besides an answer, who drives it, and where it comes from.
    fn standing(&self) -> Markup {
        html! {
            @if let Some(standing) = &self.standing { p.quiet {
                @if !standing.waits_for.is_empty() { "Waits for " (standing.waits_for()) ". " }
                @match &standing.driven_by { Some(driver) => { "Driven by " (driver) "." } None => { "No process drives it." } }
                @if standing.is_stuck { " " b { "It will not continue by itself." } }
            } }
            @if let Some(origin) = &self.forked { p.quiet {
                "Forked from " a href={ "./" (crate::api::encoded(&origin.run)) } { (origin.run) } " after event " (origin.seq)
                @if let Some(by) = &origin.by { " by " (by) } "."
            } }
        }
    }

    /// Renders the part that has been read, where that is not everything.
    fn reading(&self) -> Markup {
        html! { @if let Some(partly) = &self.partly {
            p.box role="status" { "Reading the run: " (self.seq) " of " (partly.events) " events so far. What follows is "
                "of these; the page goes on by itself." }
        } }
    }

    pub(super) fn render(&self, run: &str) -> Markup {
        let (outcome, used) = (&self.outcome, &self.outcome.used);
        html! {
            h1 { (run) }
            p { span class={ "status " (self.status()) } { (self.status()) }
                " · " @if let Some(workflow) = &self.workflow { (workflow) }
                " · " (moment(&self.began.to_text())) " UTC · " (duration(self.last.ms_since(self.began))) }
            (self.standing())
            @if let Some(reason) = &outcome.reason {
                p { b { (reason) } @if let Some(step) = &outcome.step { " at step " code { (step) } }
                    @if let Some(message) = outcome.message.as_ref().filter(|_| outcome.denial.is_none()) { ": " (message) } }
            }
            @if let Some(denial) = &outcome.denial { (self.denied(denial)) }
            @for question in &outcome.questions { (self.question(question)) }
            (self.calls_together())
            (self.reading())
            ul.facts {
                (fact("Visits", used.visits, self.limits.total_visits)) (fact("Cells", used.cells, None))
                (fact("Tool calls", used.tool_calls, self.limits.tool_calls)) (fact("Model rounds", used.rounds, None))
                (fact("Tokens", used.tokens, self.limits.tokens))
                @if used.cache_read_tokens > 0 { (fact("Tokens from the cache", used.cache_read_tokens, None)) }
                (fact("Host calls", used.host_calls, self.limits.host_calls))
                @if used.cost > 0.0 { li { b { "Cost " } (format!("${:.4}", used.cost)) } }
            }
            div.pair {
                @if let Some(input) = &self.input { section { h2 { "Input" } (brief(input, &format!("{}/events/1", self.here))) } }
                @if !matches!(outcome.result, Value::Null | Value::Undefined) { section { h2 { "Result" } (value(&outcome.result)) } }
            }
            (answers::shown(self.answers.iter().filter_map(|seq| self.data.get(seq)), &self.here))
            div.beside {
                section {
                    h2 id="timeline" { "Timeline" }
                    @if self.failures > 0 { p {
                        @if self.timeline.failed { a href={ (self.here) "#timeline" } { "All" } " · " b { "Failed (" (self.failures) ")" } }
                        @else { b { "All" } " · " a href={ (self.here) "?failed=true#timeline" } { "Failed (" (self.failures) ")" } }
                    } }
                    (self.timeline())
                    (self.pages(&self.timeline, "from", SPANS, "timeline"))
                    @if self.is_cut { p.quiet { "The run has more spans than these; its export has all of its events." } }
                }
                div #side.side {
                    @if let Some(panel) = &self.panel { (self.panel(panel)) }
                    @else if let Some(row) = &self.no_row { p.quiet #panel { "The run has no row " code { (crate::api::shown(row)) } "." } }
                    @else { p.quiet #panel { "Choose a row to see its input, its result and everything else that is known of it." } }
                    h2 { "Graph" }
                    img.graph src={ (self.here) "/graph.svg?" (self.seq) } alt="The steps of the workflow with the path taken";
                }
            }
            @let denials: Vec<&Denial> = self.denials.iter().filter(|denial| outcome.denial.as_deref() != Some(denial)).collect();
            @if !denials.is_empty() { h2 { "Denials" } @for denial in denials { (self.denied(denial)) } }
            (self.conversation())
            @if outcome.artifacts.as_object().is_some_and(|artifacts| !artifacts.is_empty()) { h2 { "Artifacts" } (value(&outcome.artifacts)) }
            (self.control(run))
        }
    }

    fn control(&self, run: &str) -> Markup {
        html! {
            h2 { "Control" }
            @if self.may.run && self.before_failure.is_some() {
                form.row method="post" action={ (self.here) "/retry" } {
                    input type="hidden" name="proof" value=(self.proof);
                    button { "Retry from the failed step" }
                    span.quiet { "starts a new run with all that came before" }
                }
            }
            @if self.may.run {
                form.row method="post" action={ (self.here) "/fork" } {
                    input type="hidden" name="proof" value=(self.proof);
                    label for="at" { "Fork after event" }
                    input id="at" name="at" type="number" min="1" max=(self.partly.as_ref().map_or(self.seq, |partly| partly.events)) value=(self.before_failure.unwrap_or_else(|| self.seq.saturating_sub(1).max(1)));
                    button { "Fork" }
                }
                // The buttons of the timeline belong to this one.
                form id="fork" method="post" action={ (self.here) "/fork" } { input type="hidden" name="proof" value=(self.proof); }
            }
            form.row method="get" action=(self.compare) {
                input type="hidden" name="a" value=(run);
                label for="with" { "Compare with run" }
                input id="with" name="b" required;
                button { "Compare" }
            }
            p { a href={ (self.here) "/events" } { "All events" } }
            p { "Export: " a href={ (self.here) "/export" } download={ (run) ".jsonl" } { "events" } " · "
                a href={ (self.here) "/export?otlp=true" } download={ (run) ".trace.json" } { "trace (OTLP)" } }
            @if self.may.run && !self.outcome.status.has_ended() {
                form.row method="post" action={ (self.here) "/cancel" } {
                    input type="hidden" name="proof" value=(self.proof);
                    button.no { "Cancel the run" }
                }
            }
        }
    }

    fn question(&self, question: &Question) -> Markup {
        match question {
            Question::Signal { name, step, question, approval: true, id, path, visit, .. } => html! {
                div.box {
                    p { b { @match question { Some(question) => (question), None => { "Approve " (name) "?" } } } }
                    p.quiet { "Approval " code { (name) } " of step " code { @if path.is_empty() { (step) } @else { (path) } }
                        @if *visit > 1 { ", visit " (visit) } }
                    @if self.may.approve { form.row method="post" action={ (self.here) "/answer" } {
                        input type="hidden" name="proof" value=(self.proof);
                        input type="hidden" name="question" value=(id);
                        label for={ "why-" (id) } { "Reason" }
                        input id={ "why-" (id) } name="why";
                        button.yes name="approved" value="true" { "Approve" }
                        button.no name="approved" value="false" { "Refuse" }
                    } } @else { p.quiet { "Your token does not have the scope " code { "approve" } "." } }
                }
            },
            Question::Signal { name, step, question, .. } => html! {
                div.box { p { "Step " code { (step) } " waits for the signal " code { (name) } }
                    @if let Some(question) = question { p { (question) } } }
            },
            Question::Grant { step, what, denial, why, id, .. } => html! {
                div.box {
                    p { b { "Grant " code { (denial.capability) } "?" } }
                    p { "Step " code { (step) } " was denied it for " (what) ": " (prose(&denial.rule)) "."
                        @if let Some(why) = why { " The plugin says why: " q { (why) } } }
                    @if self.may.admin { form.row method="post" action={ (self.here) "/grant" } {
                        input type="hidden" name="proof" value=(self.proof);
                        input type="hidden" name="question" value=(id);
                        button.yes name="grant" value="once" { "Grant once" }
                        button.yes name="grant" value="run" { "Grant for this run" }
                        button.yes name="grant" value="always" { "Grant always" }
                        button.no name="grant" value="refuse" { "Refuse" }
                    } } @else { p.quiet { "Your token does not have the scope " code { "admin" } "." } }
                    @if let Some(written) = remedy::render(&denial.remedy).filter(|_| self.may.admin) {
                        p.quiet { "Grant always writes it into the project file, for every run: " code { (written) } }
                    }
                    @if !remedy::fits(denial) { p { b { "It cannot be granted" } ": what would be written is something else." } }
                }
            },
            Question::Call { .. } => self.call(question),
            Question::Input { .. } => {
                let place = FormPlace { here: &self.here, proof: &self.proof, may_answer: self.may.approve };
                form::shown(question, &place)
            }
            Question::Doubt { effect, step, what } => html! {
                div.box { p { b { "In doubt: " } (what) " of step " code { (step) } }
                    p.quiet { code { "opcell runs resume " (self.outcome.run) " --effect " (effect) " --retry | --skip | --fail" } } }
            },
        }
    }

    /// A call that waits for a person: all that the digest covers, and the answers.
    fn call(&self, question: &Question) -> Markup {
        let Question::Call {
            id,
            step,
            path,
            visit,
            tool,
            effects,
            shown,
            arguments,
            said,
            rule,
            budget,
            due,
            people,
            approved_by,
        } = question
        else {
            return html! {};
        };
        html! {
            div.box id={ "q-" (id) } {
                p { b { "Call " code { (tool) } "?" } " " span.quiet { (effects.as_str()) } }
                p.quiet { "Step " code { @if path.is_empty() { (step) } @else { (path) } } @if *visit > 1 { ", visit " (visit) }
                    " · asked because of: " (rule)
                    @if let Some(budget) = budget { " · used so far: " (budget) }
                    @if let Some(due) = due { " · to be answered before " (due.to_text()) } }
                @match &shown.difference { Some(difference) => pre tabindex="0" { (difference) }, None => pre tabindex="0" { (shown.text) } }
                @for note in &shown.notes { p { b { "Note: " } (note) } }
                @if shown.left_out > 0 || shown.difference.is_some() {
                    details id={ "w-" (id) } { summary { "All arguments, " (shown.bytes) " bytes" } (value(arguments)) }
                }
                @if let Some(said) = said { p { "The model says: " q { (said) } } }
                @if *people > 1 { p { (people) " people must approve it"
                    @if !approved_by.is_empty() { "; so far: " (approved_by.join(", ")) } } }
                @if self.may.approve { form.row method="post" action={ (self.here) "/call" } {
                    input type="hidden" name="proof" value=(self.proof);
                    input type="hidden" name="questions" value=(id);
                    label for={ "why-" (id) } { "Reason for the model" }
                    input id={ "why-" (id) } name="why";
                    button.yes name="answer" value="approve" { "Approve" }
                    @if *people < 2 { button.yes name="answer" value="run" { "Approve for this run" } }
                    button.no name="answer" value="refuse" { "Refuse" }
                } } @else { p.quiet { "Your token does not have the scope " code { "approve" } "." } }
                @if self.may.approve && *people < 2 { details id={ "c-" (id) } { summary { "Change the arguments" }
                    form method="post" action={ (self.here) "/call" } {
                        input type="hidden" name="proof" value=(self.proof);
                        input type="hidden" name="questions" value=(id);
                        label for={ "a-" (id) } { "Arguments as JSON" }
                        textarea id={ "a-" (id) } name="arguments" rows="6" { (arguments.to_json()) }
                        button.yes name="answer" value="approve" { "Approve with these" }
                    }
                } }
            }
        }
    }

    /// Buttons that answer every call that is shown, where there are several.
    fn calls_together(&self) -> Markup {
        let ids: Vec<&str> = self
            .outcome
            .questions
            .iter()
            .filter_map(|question| match question {
                Question::Call { id, .. } => Some(id.as_ref()),
                _ => None,
            })
            .collect();
        html! { @if self.may.approve && ids.len() > 1 { form.row method="post" action={ (self.here) "/call" } {
            input type="hidden" name="proof" value=(self.proof);
            input type="hidden" name="questions" value=(ids.join(" "));
            label for="why-all" { "All " (ids.len()) " calls above. Reason for the model" }
            input id="why-all" name="why";
            button.yes name="answer" value="approve" { "Approve all" }
            button.no name="answer" value="refuse" { "Refuse all" }
        } } }
    }

    /// A denial, the command that would lift it, and a button where that needs nothing but a word.
    pub(super) fn denied(&self, denial: &Denial) -> Markup {
        html! { div.box.denied {
            p { b { (denial.capability) } " was denied: " (prose(&denial.rule)) }
            @if let Some(remedy) = remedy::render(&denial.remedy) { p { "To allow it: " code { (remedy) } } }
            @if let Some(plugin) = denial.remedy.plugin().filter(|_| self.may.admin && is_granted_by_name(&denial.remedy)) {
                form.row method="post" action={ (self.here) "/allow" } {
                    input type="hidden" name="proof" value=(self.proof);
                    input type="hidden" name="plugin" value=(plugin);
                    input type="hidden" name="capability" value=(denial.capability);
                    button { "Grant always" }
                    span.quiet { "writes the project file; later runs have it" }
                }
            }
        } }
    }

    fn pages(&self, window: &Window, key: &str, most: usize, place: &str) -> Markup {
        let Window { from, all, failed } = *window;
        let (from, next) = (from.min(all), from.saturating_add(most));
        let at = |from: usize| {
            let failed = if failed { "&failed=true" } else { "" };
            format!("{}?{key}={from}{failed}#{place}", self.here)
        };
        html! { @if all > most || from > 0 { p {
            @if from > 0 { a href=(at(0)) { "First" } " · " a href=(at(from.saturating_sub(most))) { "Earlier" } " · " }
            ((from + 1).min(all)) "–" (next.min(all)) " of " (all)
            @if next < all { " · " a href=(at(next)) { "Later" } " · " a href=(at((all - 1) / most * most)) { "Last" } }
        } } }
    }

    /// Renders the requests to models, and their answers.
    fn conversation(&self) -> Markup {
        html! { @if self.talk.all > 0 {
            details #conversation open[self.is_reading_talk] { summary { h2 { "Conversation" } span.quiet { " of all steps" } }
            @for (at, (said, recorded)) in self.said.iter().enumerate() {
                @let before = at.checked_sub(1).and_then(|before| self.said.get(before)).map(|(before, _)| &before.step);
                @if before != Some(&said.step) && !said.step.is_empty() { h3 { "Step " code { (said.step) } } }
                (part(said, recorded))
            }
            (self.pages(&self.talk, "said", SAID, "conversation"))
            }
        } }
    }
}

/// The label of a span's kind on the timeline.
pub(super) fn word(span: &Span) -> &'static str {
    match (span.kind, span.name.as_str()) {
        (SpanKind::Cell, _) => "operation",
        (SpanKind::Round, _) => "model",
        (SpanKind::Part, _) => "",
        (SpanKind::Wait, "session") => "open",
        (SpanKind::Wait, "pause" | "timeout") => "timer",
        (SpanKind::Wait, _) => "look up",
        (kind, _) => kind.as_str(),
    }
}

/// Renders one event of a conversation.
pub(super) fn part(of: &Said, recorded: &Recorded) -> Markup {
    let at = recorded.seq;
    match &recorded.event {
        Event::Replied { reply, .. } if let EffectReply::Open(Ok(opened)) = reply.as_ref() => html! {
            details id={ "prompt-" (at) } { summary { "Prompt, " (opened.system.len()) " bytes, for " (opened.models.join(", ")) }
                (sections(&opened.sections)) }
        },
        Event::TurnStarted { messages, .. } => html! {
            @for message in messages.iter() { (said(message.role, &message.content)) }
        },
        Event::Interjected { message, .. } => said(message.role, &message.content),
        Event::Replied { reply, .. }
            if let EffectReply::Round(Ok(reply)) = reply.as_ref()
                && let Some(summary) = &reply.summary =>
        {
            summarised(reply, summary)
        }
        Event::Replied { reply, .. } if let EffectReply::Round(Ok(reply)) = reply.as_ref() => html! {
            (said(reply.message.role, &reply.message.content))
            @for call in &reply.message.tool_calls { div.said { span.kind { "calls " } code { (call.name) } (value(&call.arguments)) } }
            p.quiet { (reply.model) ": " (reply.usage.input_tokens) " tokens in"
                @if reply.usage.cache_read_tokens > 0 { " (" (reply.usage.cache_read_tokens) " from the cache)" }
                ", " (reply.usage.output_tokens) " out"
                @if let Some(compacted) = &reply.compacted {
                    "; sent without " (compacted.results) " older tool results and " (compacted.rounds) " older rounds, about "
                    (compacted.tokens_after) " tokens instead of " (compacted.tokens_before)
                } }
            @for warning in &reply.warnings { p.quiet { "Warning: " (warning) } }
        },
        Event::Replied { reply, .. } if let EffectReply::Invoke(reply) = reply.as_ref() => html! {
            div.said { span.kind { "augmenter " code { (of.tool.as_deref().unwrap_or("?")) } }
                @match &reply.result {
                    Ok(success) => (value(&success.data)),
                    Err(failure) => p { b { (failure.reason) } ": " (failure.message) },
                }
            }
        },
        Event::Replied { reply, .. } if let EffectReply::Tool(reply) = reply.as_ref() => html! {
            div.said { span.kind { "tool " code { (of.tool.as_deref().unwrap_or("?")) } }
                @match &reply.result {
                    Ok(result) => (value(result)),
                    Err(failure) => p { b { (failure.reason) } ": " (failure.message) },
                }
            }
        },
        _ => html! {},
    }
}

/// A summary of older messages, or why there is none.
fn summarised(reply: &ModelReply, summary: &Summary) -> Markup {
    let messages = format!("messages {} to {}", summary.from + 1, summary.to);
    html! {
        @match &summary.failure {
            Some(failure) => p { "No summary of " (messages) "; older parts are left out by rule. " b { (failure.reason) } ": " (failure.message) },
            None => details { summary { "Summary of " (messages) ", about " (summary.tokens_after) " tokens instead of " (summary.tokens_before) }
                pre tabindex="0" { (cut(&summary.text)) } },
        }
        p.quiet { (reply.model) ": " (reply.usage.input_tokens) " tokens in, " (reply.usage.output_tokens) " out" }
    }
}

fn said(role: opcell_engine::conversation::Role, content: &str) -> Markup {
    html! { @if !content.is_empty() { div.said { span.kind { (format!("{role:?}").to_lowercase()) } pre tabindex="0" { (cut(content)) } } } }
}

fn sections(of: &Value) -> Markup {
    let sections = of.get("sections").unwrap_or(of).as_array().unwrap_or_default();
    html! { @for section in sections {
        h3 { (section.get("component").and_then(Value::as_str).unwrap_or("section")) " "
            span.kind { (section.get("bytes").map(Value::to_json).unwrap_or_default()) " bytes, about "
                (section.get("tokens").map(Value::to_json).unwrap_or_default()) " tokens" } }
        pre tabindex="0" { (cut(section.get("text").and_then(Value::as_str).unwrap_or_default())) }
    } }
}

/// Returns `true` if a grant needs nothing but a name: a directory needs a path, and private addresses more than a
/// word.
fn is_granted_by_name(remedy: &Remedy) -> bool {
    match remedy {
        Remedy::Grant { capability, .. } => {
            matches!(capability, Capability::Tool | Capability::Skill | Capability::Store)
        }
        Remedy::AllowHttp { private, .. } => !private,
        _ => false,
    }
}

/// A sentence whose names are between backticks.
pub(super) fn prose(text: &str) -> Markup {
    html! { @for (at, part) in text.split('`').enumerate() {
        @if at % 2 == 1 { code { (part) } } @else { (part) }
    } }
}

fn fact(name: &str, used: u64, limit: Option<u64>) -> Markup {
    html! { @if used > 0 || limit.is_some() { li { b { (name) " " } (used) @if let Some(limit) = limit { " of " (limit) } } } }
}
