//! The spans of a run, with a beginning and an end, from its events alone: for the page's timeline and for tracing
//! systems.
//!
//! Nothing of it is made while a run is driven, so it costs the run nothing, and it works for last week's runs.

use crate::{content::Capture, genai};
use opcell_engine::Program;
use opcell_engine::call::OpenedSession;
use opcell_engine::event::{EffectId, EffectReply, Event, FrameId, Recorded, Request, Settled, Timestamp};
use opcell_ir::ir::{Form, Judge};
use opcell_types::{Outcome, Value};
use std::{collections::HashMap, sync::Arc};

/// Attributes of a request to a model, which its rounds share.
type Attributes = Arc<[(&'static str, Value)]>;

/// The kind of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpanKind {
    /// The whole run.
    Run,
    /// A visit of a step.
    Step,
    /// One element of `each`, or a group of a branch or a parallel step.
    Part,
    /// A delegated workflow.
    Workflow,
    /// A call of an operation or a judge, in a cell.
    Cell,
    /// One round of a model.
    Round,
    /// A tool that a model called.
    Tool,
    /// A timer, or a session being opened.
    Wait,
}

impl SpanKind {
    /// In one word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Step => "step",
            Self::Part => "part",
            Self::Workflow => "workflow",
            Self::Cell => "cell",
            Self::Round => "round",
            Self::Tool => "tool",
            Self::Wait => "wait",
        }
    }
}

/// Spans of one run that the server keeps: some 300 bytes each.
const MAX_SPANS: usize = 400_000;

/// The name of a round that no model has answered.
pub(crate) const ANY_MODEL: &str = "model";

/// One span.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Span {
    /// Number of the event that began it.
    pub seq: u64,
    /// Its position among the spans that began with this event, from 0.
    pub place: usize,
    /// Index of the span around it; absent: the whole run.
    pub parent: Option<usize>,
    /// The number of spans around it.
    pub depth: usize,
    /// The kind.
    pub kind: SpanKind,
    /// Name of the step, the operation, the model or the tool.
    pub name: String,
    /// When it began.
    pub began: Timestamp,
    /// When it ended; absent: it has not.
    pub ended: Option<Timestamp>,
    /// Number of the event that brought what it was given.
    pub given_at: Option<u64>,
    /// Number of the event that ended it.
    pub ended_at: Option<u64>,
    /// Why it failed.
    pub failure: Option<String>,
    /// Facts about it: numbers, names, no content.
    pub facts: Vec<(&'static str, Value)>,
    /// Facts about the request that it is, for traces alone; those of a session are shared by its rounds.
    pub(crate) request: Option<Attributes>,
    /// Content, where an operator asked for it.
    pub(crate) content: Vec<(&'static str, String)>,
    /// The receipt of the call, where receipts are kept.
    pub receipt: Option<Value>,
    /// Number of the event that brought the receipt.
    pub receipt_at: Option<u64>,
    /// The call that it is, by the name that requests of the call give as their parent.
    pub(crate) call: Option<CallKey>,
}

impl Span {
    /// The name of the span in its run: the number of its first event, and its place among those that began with it.
    pub(crate) fn id(&self) -> String {
        match self.place {
            0 => self.seq.to_string(),
            place => format!("{}.{place}", self.seq),
        }
    }
}

/// A call within its run: the end of its idempotency key, and its attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallKey {
    frame: FrameId,
    kind: CallKind,
    attempt: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallKind {
    Invoke,
    Judge,
    Other(EffectId),
}

impl CallKey {
    /// As calls name themselves to others.
    pub(crate) fn name(&self, run: &str) -> String {
        let frame = self.frame.0;
        let key = match self.kind {
            CallKind::Invoke => format!("{run}/{frame}"),
            CallKind::Judge => format!("{run}/{frame}/judge"),
            CallKind::Other(effect) => format!("{run}/{frame}/{}", effect.0),
        };
        opcell::trace::call_name(&key, self.attempt)
    }
}

/// The spans of a run, in the order in which they began; the first one is the run. None for a run without events.
#[must_use]
pub fn of<'a>(history: impl IntoIterator<Item = &'a Recorded>) -> Vec<Span> {
    built(history, None)
}

/// The same, with the content of conversations.
pub(crate) fn with_content<'a>(history: impl IntoIterator<Item = &'a Recorded>) -> Vec<Span> {
    built(history, Some(Capture::default()))
}

fn built<'a>(history: impl IntoIterator<Item = &'a Recorded>, capture: Option<Capture>) -> Vec<Span> {
    let mut spans = Spans { keeps_receipts: true, capture, ..Spans::default() };
    history.into_iter().flat_map(Recorded::parts).for_each(|part| spans.observe(&part));
    spans.all
}

/// Indexes of the spans as a tree is read: each after the one around it, and before what began later beside that.
#[must_use]
pub fn nested(all: &[Span]) -> Vec<usize> {
    let mut inner: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut waiting = Vec::new();
    for (index, span) in all.iter().enumerate().rev() {
        match span.parent {
            Some(parent) if parent < index => inner.entry(parent).or_default().push(index),
            _ => waiting.push(index),
        }
    }
    let mut found = Vec::with_capacity(all.len());
    while let Some(index) = waiting.pop() {
        found.push(index);
        waiting.extend(inner.remove(&index).unwrap_or_default());
    }
    found
}

/// Spans while the events come.
#[derive(Default)]
pub(crate) struct Spans {
    keeps_receipts: bool,
    /// `true` if there were more than are kept.
    is_cut: bool,
    all: Vec<Span>,
    /// Attempts at the work of a frame, where there was more than one.
    attempts: HashMap<FrameId, u32>,
    frames: HashMap<FrameId, usize>,
    effects: HashMap<EffectId, usize>,
    instances: HashMap<u32, usize>,
    /// Names of the tools that models called, by the model's name for the call and the frame of the session.
    tools: HashMap<(usize, Arc<str>), Asked>,
    /// The sessions with augmenters, by the spans that they are in.
    augmented: HashMap<usize, Arc<OpenedSession>>,
    /// The run's own workflow.
    program: Option<Arc<Program>>,
    /// The judge that is asked before each transition of a pack.
    authorizer: Option<Arc<str>>,
    /// ID of the run.
    run: Arc<str>,
    /// The requests of each session to its models, in their order, by the spans that the sessions are in.
    requests: HashMap<usize, Vec<Attributes>>,
    /// Takes in content, where an operator asked for it.
    capture: Option<Capture>,
}

/// A call that a model asked for.
struct Asked {
    tool: String,
    /// Number of the event that has the arguments.
    seq: u64,
}

impl Spans {
    /// Remembers which event brought a receipt, and not what it says; and of a run that is longer than anyone reads on
    /// a page, the first spans.
    pub(crate) fn without_receipts() -> Self {
        Self::default()
    }

    /// The same, with content, for a trace.
    pub(crate) fn capturing() -> Self {
        Self { capture: Some(Capture::default()), ..Self::default() }
    }

    /// The span of an effect.
    pub(crate) fn of_effect(&self, effect: EffectId) -> Option<usize> {
        self.effects.get(&effect).copied()
    }

    /// A span and the one around it.
    pub(crate) fn around_of(&self, index: usize) -> Option<(usize, usize)> {
        Some((index, self.all.get(index)?.parent?))
    }

    /// The span of a frame.
    pub(crate) fn index_of(&self, frame: FrameId) -> usize {
        self.frames.get(&frame).copied().unwrap_or(0)
    }

    /// Gives a span content, once for each key.
    pub(crate) fn say_once(&mut self, index: usize, key: &'static str, text: &str) {
        if let Some(span) = self.all.get_mut(index)
            && span.content.iter().all(|(own, _)| *own != key)
        {
            span.content.push((key, text.to_owned()));
        }
    }

    /// In the order in which they began.
    pub(crate) fn all(&self) -> &[Span] {
        &self.all
    }

    /// Returns `true` if the run has more spans than these.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    fn begin(&mut self, recorded: &Recorded, parent: Option<usize>, kind: SpanKind, name: impl Into<String>) -> usize {
        if !self.keeps_receipts && self.all.len() >= MAX_SPANS {
            self.is_cut = true;
            return usize::MAX;
        }
        let depth = parent.and_then(|parent| self.all.get(parent)).map_or(0, |parent| parent.depth + 1);
        let place = self.all.iter().rev().take_while(|before| before.seq == recorded.seq).count();
        self.all.push(Span {
            seq: recorded.seq,
            place,
            parent,
            depth,
            kind,
            name: name.into(),
            began: recorded.at,
            ended: None,
            given_at: None,
            ended_at: None,
            failure: None,
            facts: Vec::new(),
            request: None,
            content: Vec::new(),
            receipt: None,
            receipt_at: None,
            call: None,
        });
        self.all.len() - 1
    }

    fn around(&self, frame: FrameId) -> Option<usize> {
        Some(self.index_of(frame))
    }

    /// The span that an event of a conversation belongs to: that of its step, or of its call.
    pub(crate) fn of_event(&self, event: &Event) -> Option<&Span> {
        let index = match event {
            Event::TurnStarted { frame, .. } | Event::Interjected { frame, .. } => self.frames.get(frame),
            Event::Replied { effect, .. } => self.effects.get(effect),
            _ => None,
        };
        self.all.get(*index?)
    }

    /// The step that a span belongs to, with its element where there are several: `review`, `review each[2]`.
    pub(crate) fn step_of(&self, span: &Span) -> String {
        let (mut at, mut element) = (Some(span), None);
        while let Some(span) = at {
            match span.kind {
                SpanKind::Step => {
                    return [Some(span.name.as_str()), element].into_iter().flatten().collect::<Vec<_>>().join(" ");
                }
                SpanKind::Part if element.is_none() => element = Some(span.name.as_str()),
                _ => {}
            }
            // A parent began before what is in it.
            at = span.parent.and_then(|parent| self.all.get(parent));
        }
        String::new()
    }

    /// Notes the number of the event that brought what a span was given.
    fn given(&mut self, index: usize, seq: u64) {
        if let Some(span) = self.all.get_mut(index) {
            span.given_at = Some(seq);
        }
    }

    /// The operation that a step of the run's own workflow calls, or that judges it. Delegated workflows are not known
    /// here.
    /// Returns `true` if a span is the call of an augmenter.
    pub(crate) fn is_augmenter(&self, span: &Span) -> bool {
        let session = span.parent.and_then(|around| self.augmented.get(&around));
        span.kind == SpanKind::Cell
            && session.is_some_and(|session| session.augmenters.iter().any(|id| **id == *span.name))
    }

    fn operation(&self, within: usize, is_judge: bool) -> Option<&str> {
        let mut at = self.all.get(within)?;
        while at.kind == SpanKind::Part {
            at = self.all.get(at.parent?)?;
        }
        let step = Some(at).filter(|span| span.kind == SpanKind::Step)?;
        let mut above = step.parent;
        while let Some(span) = above.and_then(|above| self.all.get(above)) {
            if span.kind == SpanKind::Workflow {
                return None;
            }
            above = span.parent;
        }
        let ir = self.program.as_ref()?.ir();
        let step = ir.steps.get(ir.step_index(&step.name)?)?;
        match (&step.form, &step.judge) {
            (_, Some(Judge::Invoke { invoke })) if is_judge => Some(invoke.operation.as_ref()),
            (Form::Invoke { invoke }, _) if !is_judge => Some(invoke.operation.as_ref()),
            _ => None,
        }
    }

    fn end(&mut self, index: Option<usize>, recorded: &Recorded, failure: Option<String>) {
        if let Some(span) = index.and_then(|index| self.all.get_mut(index)) {
            span.ended = Some(recorded.at);
            span.ended_at = Some(recorded.seq);
            span.failure = failure;
        }
    }

    fn fact(&mut self, index: Option<usize>, key: &'static str, value: impl Into<Value>) {
        if let Some(span) = index.and_then(|index| self.all.get_mut(index)) {
            span.facts.push((key, value.into()));
        }
    }

    /// Marks the span of a step as that of an agent, once: another attempt opens another session.
    fn becomes_agent(&mut self, around: Option<usize>, frame: FrameId) {
        let Some(span) = around.and_then(|around| self.all.get(around)) else { return };
        if span.facts.iter().any(|(key, _)| *key == genai::AGENT) {
            return;
        }
        let (name, conversation) = (span.name.clone(), format!("{}/{frame}", self.run));
        self.fact(around, genai::AGENT, name);
        self.fact(around, genai::CONVERSATION, conversation);
    }

    pub(crate) fn observe(&mut self, recorded: &Recorded) {
        self.take_in(recorded);
        if let Some(mut capture) = self.capture.take() {
            capture.observe(self, &recorded.event);
            self.capture = Some(capture);
        }
    }

    fn take_in(&mut self, recorded: &Recorded) {
        match &recorded.event {
            Event::RunStarted(started) => {
                let index = self.begin(recorded, None, SpanKind::Run, started.program.name().as_ref());
                self.program = Some(started.program.clone());
                self.authorizer.clone_from(&started.authorizer);
                self.run = started.run.clone();
                self.fact(Some(index), "opcell.run", &started.run);
                self.given(index, recorded.seq);
            }
            Event::StepEntered { frame, parent, name, visit, .. } => {
                let index = self.begin(recorded, self.around(*parent), SpanKind::Step, name.as_ref());
                self.fact(Some(index), "opcell.visit", i64::from(*visit));
                self.frames.insert(*frame, index);
            }
            Event::StepPrepared { frame, .. } => {
                if let Some(index) = self.frames.get(frame).copied() {
                    self.given(index, recorded.seq);
                }
            }
            Event::ElementEntered { frame, parent, index } => {
                // As paths of steps name it.
                let name = format!("each[{index}]");
                let index = self.begin(recorded, self.around(*parent), SpanKind::Part, name);
                self.frames.insert(*frame, index);
            }
            Event::GroupEntered { frame, parent, group } => {
                let index = self.begin(recorded, self.around(*parent), SpanKind::Part, format!("branch {}", group + 1));
                self.frames.insert(*frame, index);
            }
            Event::InstanceStarted { instance, frame, parent, workflow, .. } => {
                let index = self.begin(recorded, self.around(*parent), SpanKind::Workflow, workflow.as_ref());
                self.given(index, recorded.seq);
                self.frames.insert(*frame, index);
                self.instances.insert(instance.0, index);
            }
            Event::Requested { effect, frame, request } => {
                let around = self.around(*frame);
                let operation = |is_judge| around.and_then(|around| self.operation(around, is_judge));
                let mut given_at = recorded.seq;
                let (kind, name) = match request {
                    Request::Invoke { .. } => (SpanKind::Cell, operation(false).unwrap_or("invoke")),
                    Request::Judge { .. } => (SpanKind::Cell, operation(true).unwrap_or("judge")),
                    Request::Open { .. } => (SpanKind::Wait, "session"),
                    Request::Authorize { .. } => (SpanKind::Cell, self.authorizer.as_deref().unwrap_or("authorizer")),
                    Request::Augment { at } => {
                        let session = around.and_then(|around| self.augmented.get(&around));
                        let operation = session.and_then(|session| session.augmenters.get(*at as usize));
                        (SpanKind::Cell, operation.map_or("augmenter", AsRef::as_ref))
                    }
                    Request::Round { .. } => (SpanKind::Round, ANY_MODEL),
                    Request::Tool { call, arguments, .. } => {
                        let asked = around.and_then(|around| self.tools.get(&(around, call.clone())));
                        // Unless a person changed them, the arguments are those of the model's answer.
                        if let Some(asked) = asked.filter(|_| arguments.is_nullish()) {
                            given_at = asked.seq;
                        }
                        (SpanKind::Tool, asked.map_or("tool", |asked| asked.tool.as_str()))
                    }
                    Request::Sleep { .. } => (SpanKind::Wait, "pause"),
                    Request::Timeout { .. } => (SpanKind::Wait, "timeout"),
                    Request::Find { name } => (SpanKind::Wait, name.as_ref()),
                };
                let name = name.to_owned();
                if matches!(request, Request::Open { .. }) {
                    self.becomes_agent(around, *frame);
                }
                let index = self.begin(recorded, around, kind, name);
                self.given(index, given_at);
                let kind = match request {
                    Request::Invoke { .. } => CallKind::Invoke,
                    Request::Judge { .. } => CallKind::Judge,
                    _ => CallKind::Other(*effect),
                };
                let attempt = self.attempts.get(frame).copied().unwrap_or(1);
                let asked = match request {
                    Request::Round { model } => {
                        let requests = around.and_then(|around| self.requests.get(&around));
                        requests.and_then(|requests| requests.get(*model as usize)).cloned()
                    }
                    Request::Tool { call, .. } => Some([(genai::TOOL_CALL, Value::from(call.clone()))].into()),
                    _ => None,
                };
                if let Some(span) = self.all.get_mut(index) {
                    span.call = Some(CallKey { frame: *frame, kind, attempt });
                    span.request = asked;
                }
                self.effects.insert(*effect, index);
            }
            Event::Replied { effect, reply } => self.replied(*effect, reply, recorded),
            Event::Abandoned { effect, reason, receipt } => {
                let index = self.effects.get(effect).copied();
                self.keep(index, receipt.as_deref(), recorded.seq);
                self.end(index, recorded, Some(reason.as_deref().unwrap_or("abandoned").to_owned()));
            }
            Event::Retrying { frame, failure, .. } => {
                *self.attempts.entry(*frame).or_insert(1) += 1;
                let index = self.around(*frame);
                self.fact(index, "opcell.retry", failure.reason.as_ref());
            }
            Event::StepFinished { frame, result } => {
                let failure = result.failure.as_ref().map(|failure| failure.reason.to_string());
                self.end(self.frames.get(frame).copied(), recorded, failure);
            }
            Event::ElementFinished { frame, result } | Event::GroupFinished { frame, result, .. } => {
                let failure = match result {
                    Settled::Ok(_) => None,
                    Settled::Failed(failure) => Some(failure.reason.to_string()),
                };
                self.end(self.frames.get(frame).copied(), recorded, failure);
            }
            Event::InstanceFinished { instance, end } => {
                let failure = end.reason.as_ref().map(|reason| reason.to_string());
                self.end(self.instances.get(&instance.0).copied(), recorded, failure);
            }
            Event::Routed { frame, outcome: Some(outcome), .. } => {
                let index = self.frames.get(frame).copied();
                let outcome = match outcome {
                    Outcome::Text(text) => text.to_string(),
                    Outcome::Keyword(_) => outcome.to_string(),
                };
                self.fact(index, "opcell.outcome", outcome);
            }
            Event::RunFinished(end) => {
                let failure = end.reason.as_ref().map(|reason| reason.to_string());
                self.fact(Some(0), "opcell.status", end.status.as_str());
                self.end(Some(0), recorded, failure);
            }
            Event::DefinitionPinned { .. }
            | Event::StepSkipped { .. }
            | Event::EachStarted { .. }
            | Event::Chosen { .. }
            | Event::StepCalled { .. }
            | Event::ElementCalled { .. }
            | Event::TurnStarted { .. }
            | Event::Interjected { .. }
            | Event::Guarded { .. }
            | Event::TurnFinished { .. }
            | Event::Judged { .. }
            | Event::Routed { .. }
            | Event::EventRaised { .. }
            | Event::ArtifactSet { .. }
            | Event::SignalReceived(_)
            | Event::SignalTaken { .. }
            | Event::WaitStarted { .. }
            | Event::InDoubt { .. }
            | Event::Answered { .. }
            | Event::GrantAsked { .. }
            | Event::GrantAnswered { .. }
            | Event::InputAsked { .. }
            | Event::InnerStarted { .. }
            | Event::InnerRequested { .. }
            | Event::InnerSlept { .. }
            | Event::InnerReplied { .. }
            | Event::InputAnswered { .. }
            | Event::CallsAsked { .. }
            | Event::CallAnswered { .. }
            | Event::CallsExpired { .. }
            | Event::LimitReached { .. }
            | Event::CancelRequested { .. }
            | Event::RunRepinned(_)
            | Event::Ticked => {}
        }
    }

    /// Keeps a receipt, and calls the span as the receipt calls the operation.
    fn keep(&mut self, index: Option<usize>, receipt: Option<&Value>, at: u64) {
        let keeps = self.keeps_receipts;
        let (Some(receipt), Some(span)) = (receipt, index.and_then(|index| self.all.get_mut(index))) else { return };
        if let Some(tool) = receipt.get("tool").and_then(Value::as_str) {
            // A step may call a tool as it calls an operation.
            span.kind = SpanKind::Tool;
            span.name = tool.to_owned();
        } else if let Some(operation) = receipt.get("operation").and_then(Value::as_str) {
            span.name = operation.to_owned();
        }
        span.receipt = keeps.then(|| receipt.clone());
        span.receipt_at = Some(at);
    }

    /// Keeps what the rounds of a session ask for, and gives the agent of the session what the first one does.
    fn opened(&mut self, around: usize, session: &OpenedSession) {
        let conversation = self.all.get(around).and_then(|span| {
            span.facts.iter().find(|(key, _)| *key == genai::CONVERSATION).map(|(_, value)| value.clone())
        });
        let settings = &session.settings;
        let number = |key, number: Option<f64>| Some((key, Value::from(number?)));
        let of_all = [
            conversation.map(|conversation| (genai::CONVERSATION, conversation)),
            settings.generation.max_tokens.map(|most| (genai::REQUEST_MAX_TOKENS, Value::from(i64::from(most)))),
            number(genai::REQUEST_TEMPERATURE, settings.temperature),
            number(genai::REQUEST_TOP_P, settings.generation.top_p),
        ];
        let of_model = |name: &String| -> Attributes {
            let (provider, model) = genai::provider_and_model(name);
            let named = [(genai::PROVIDER, Value::from(provider)), (genai::REQUEST_MODEL, Value::from(model))];
            named.into_iter().chain(of_all.iter().flatten().cloned()).collect()
        };
        let requests: Vec<_> = session.models.iter().map(of_model).collect();
        if let Some(span) = self.all.get_mut(around).filter(|span| span.request.is_none()) {
            span.request = requests.first().cloned();
        }
        self.requests.insert(around, requests);
    }

    fn replied(&mut self, effect: EffectId, reply: &EffectReply, recorded: &Recorded) {
        let seq = recorded.seq;
        let index = self.effects.get(&effect).copied();
        let failed = |failure: &opcell_types::Failure| Some(failure.reason.to_string());
        let failure = match reply {
            EffectReply::Invoke(reply) => {
                self.keep(index, reply.receipt.as_deref(), seq);
                reply.result.as_ref().err().and_then(failed)
            }
            EffectReply::Judge(reply) => {
                self.keep(index, reply.receipt.as_deref(), seq);
                reply.result.as_ref().err().and_then(failed)
            }
            EffectReply::Tool(reply) => {
                self.keep(index, reply.receipt.as_deref(), seq);
                reply.result.as_ref().err().and_then(failed)
            }
            EffectReply::Open(opened) => {
                let around = index.and_then(|index| self.all.get(index)).and_then(|span| span.parent);
                if let (Ok(opened), Some(around)) = (opened, around) {
                    if !opened.augmenters.is_empty() {
                        self.augmented.insert(around, opened.clone());
                    }
                    self.opened(around, opened);
                }
                opened.as_ref().err().and_then(failed)
            }
            EffectReply::Round(Ok(reply)) => {
                if let Some(span) = index.and_then(|index| self.all.get_mut(index)) {
                    span.name.clone_from(&reply.model);
                }
                let tokens = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
                let around = index.and_then(|index| self.all.get(index)).and_then(|span| span.parent);
                for call in &reply.message.tool_calls {
                    let id = (around.unwrap_or(0), call.id.as_str().into());
                    self.tools.insert(id, Asked { tool: call.name.clone(), seq });
                }
                self.fact(index, genai::INPUT_TOKENS, tokens(reply.usage.input_tokens));
                self.fact(index, genai::OUTPUT_TOKENS, tokens(reply.usage.output_tokens));
                let cached = [
                    (genai::CACHE_READ_TOKENS, reply.usage.cache_read_tokens),
                    (genai::CACHE_WRITE_TOKENS, reply.usage.cache_write_tokens),
                ];
                for (name, count) in cached.into_iter().filter(|(_, count)| *count > 0) {
                    self.fact(index, name, tokens(count));
                }
                if let Some(cost) = reply.usage.cost {
                    self.fact(index, "opcell.cost_usd", cost);
                }
                None
            }
            EffectReply::Round(Err(failure)) => failed(failure),
            EffectReply::Slept | EffectReply::Found => None,
        };
        self.end(index, recorded, failure);
    }
}

/// The ID of a run, from its events.
#[must_use]
pub fn run_of(history: &[Recorded]) -> Option<Arc<str>> {
    history.first().and_then(|first| match &first.event {
        Event::RunStarted(started) => Some(started.run.clone()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "a failed test")]

    use super::*;

    impl Span {
        /// A span that has just begun, by itself.
        pub(crate) fn named(kind: SpanKind, name: &str) -> Self {
            Self {
                seq: 1,
                place: 0,
                parent: None,
                depth: 0,
                kind,
                name: name.to_owned(),
                began: Timestamp(0),
                ended: None,
                given_at: None,
                ended_at: None,
                failure: None,
                facts: Vec::new(),
                request: None,
                content: Vec::new(),
                receipt: None,
                receipt_at: None,
                call: None,
            }
        }
    }

    fn span(seq: u64, parent: Option<usize>) -> Span {
        let depth = usize::from(parent.is_some());
        Span { seq, parent, depth, ..Span::named(SpanKind::Step, &seq.to_string()) }
    }

    #[test]
    fn what_is_inside_a_span_follows_it_whatever_began_in_between() {
        let all =
            [span(1, None), span(2, Some(0)), span(3, Some(0)), span(4, Some(1)), span(5, Some(2)), span(6, Some(1))];
        let order: Vec<u64> = nested(&all).iter().map(|at| all[*at].seq).collect();
        assert_eq!(order, [1, 2, 4, 6, 3, 5]);
    }

    #[test]
    fn a_deep_tree_is_read_without_recursion() {
        let all: Vec<Span> = (0..200_000).map(|at: usize| span(at as u64, at.checked_sub(1))).collect();
        assert_eq!(nested(&all).len(), all.len());
    }
}
