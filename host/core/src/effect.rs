//! Effects: what a request asks for, ready to be performed by whoever drives the run.

use crate::{
    augment, authorize,
    call::{Call, EffectContext, ModelRound, OpenSession, ToolCall},
    decide::structured_spec,
    event::Request,
    failure::{Effects, Failure},
    id::{EffectId, FrameId, Timestamp},
    offer,
    receipt::{Provider, Receipt},
    state::{Body, Phase, State},
};
use opcell_ir::ir::{Form, Judge, Session, Step};
use std::{cell::RefCell, sync::Arc};

/// A driver's knowledge of operations, judges and tools, without calling them. None of it changes while a run lasts.
pub trait Catalogue {
    /// Returns the effect of repeating an operation; `None` when there is no such operation.
    fn operation(&self, id: &str) -> Option<Effects>;

    /// Returns `true` if there is a judge of this id.
    fn is_judge(&self, id: &str) -> bool;

    /// Returns the effect of repeating a tool call.
    fn tool(&self, name: &str) -> Effects;

    /// Returns the provider of a tool, where that is known.
    fn tool_provider(&self, name: &str) -> Option<Provider>;

    /// Returns the question to a person before a refusal of this operation's call counts: the plugin's reason for what
    /// it was refused; `None` if no person is asked.
    fn asks(&self, _operation: &str, _refused: &Failure, _receipt: Option<&Receipt>) -> Option<AskedBecause> {
        None
    }
}

/// Why a plugin needs what it was refused, in its own words; empty where it says nothing.
pub type AskedBecause = Arc<str>;

/// An effect, ready to be performed.
#[derive(Debug, Clone)]
pub struct Effect {
    /// Its number.
    pub id: EffectId,
    /// The task.
    pub task: Task,
    /// Milliseconds after which it counts as failed.
    pub timeout_ms: Option<f64>,
}

/// The task of an effect.
#[derive(Debug, Clone)]
pub enum Task {
    /// Run an operation.
    Invoke(Call),
    /// Ask a judge.
    Judge(Call),
    /// Open a session.
    Open(Box<OpenSession>),
    /// Ask a model.
    Round(Box<ModelRound>),
    /// Call a tool.
    Tool(Box<ToolCall>),
    /// Wait.
    Sleep {
        /// The time, in milliseconds; fractions count.
        ms: f64,
    },
    /// Wait unless the signal comes first.
    Timeout {
        /// The time, in milliseconds; fractions count.
        ms: f64,
    },
    /// Find a workflow.
    Find {
        /// Its name.
        name: Arc<str>,
    },
}

impl State {
    /// An effect that is wanted, ready to be performed. `taken_over`: the moment at which a driver takes it over from
    /// another one. Its timers continue from when they were asked for instead of starting again.
    #[must_use]
    pub fn effect(&self, id: EffectId, taken_over: Option<Timestamp>) -> Option<Effect> {
        let pending = self.effects.get(&id)?;
        let (_, step) = self.step_of(pending.frame)?;
        let context = self.context(pending.frame, step, id, &pending.request)?;
        let left = |ms: f64| taken_over.map_or(ms, |now| (ms - now.ms_since(pending.at)).max(0.0).min(ms));
        let mut timeout_ms = self.time_left(pending.frame, step);
        let task = match &pending.request {
            Request::Invoke { arguments } => match &step.form {
                Form::Invoke { invoke } => Task::Invoke(Call {
                    id: invoke.operation.clone(),
                    arguments: arguments.clone(),
                    context,
                    capabilities: step.capabilities.as_ref().map(|own| Box::new(own.clone())),
                    granted: self.granted_to(id),
                    timeout_ms: step.timeout_ms,
                    given: pending.given_input(),
                }),
                _ => return None,
            },
            Request::Judge { arguments } => match &step.judge {
                Some(Judge::Invoke { invoke }) => Task::Judge(Call {
                    id: invoke.operation.clone(),
                    arguments: arguments.clone(),
                    context,
                    capabilities: step.capabilities.as_ref().map(|own| Box::new(own.clone())),
                    granted: self.granted_to(id),
                    timeout_ms: step.timeout_ms,
                    given: pending.given_input(),
                }),
                _ => return None,
            },
            Request::Open { system_prompt } => {
                let (declared, judge) = self.session(pending.frame, step)?;
                let mut session = declared.clone();
                if let Some(prompt) = system_prompt {
                    session.system_prompt = Some(prompt.as_ref().to_owned());
                }
                if judge {
                    // A judge has the tools that it declares, and none by default (psi).
                    session.tools.get_or_insert_default();
                    session.thinking_level.get_or_insert(opcell_ir::ir::ThinkingLevel::Off);
                }
                let inherited =
                    self.frames.get(&pending.frame).and_then(|frame| self.instance(frame.instance)?.inherited.clone());
                let engine_tools = match self.frames.get(&pending.frame).and_then(|frame| self.instance(frame.instance))
                {
                    Some(instance) if !judge => offer::tools(&instance.program, step),
                    _ => Vec::new(),
                };
                Task::Open(Box::new(OpenSession { context, session, judge, engine_tools, inherited }))
            }
            Request::Authorize { event, context: told, by } => Task::Judge(Call {
                id: self.authorizer.clone()?,
                arguments: authorize::arguments(self, pending.frame, event, told, *by)?,
                context,
                capabilities: None,
                granted: self.granted_to(id),
                timeout_ms: None,
                given: None,
            }),
            Request::Augment { at } => {
                let talk = self.conversation(pending.frame)?;
                Task::Invoke(Call {
                    id: talk.opened.as_ref()?.augmenters.get(*at as usize)?.clone(),
                    arguments: augment::arguments(talk, step),
                    context,
                    capabilities: None,
                    granted: self.granted_to(id),
                    timeout_ms: None,
                    given: None,
                })
            }
            Request::Round { model } => {
                let talk = self.conversation(pending.frame)?;
                let session = talk.opened.clone()?;
                let model = session.models.get(*model as usize).cloned().unwrap_or_default();
                let schema = self.round_schema(pending.frame, step);
                let messages = talk.record.messages.clone();
                let window = talk.windows.iter().find(|window| window.model == model).cloned();
                let summaries = talk.kept.summaries.clone();
                Task::Round(Box::new(ModelRound { context, session, model, messages, schema, window, summaries }))
            }
            Request::Tool { call, question, arguments } => {
                let talk = self.conversation(pending.frame)?;
                let asked = talk.call(call)?;
                let (session, mut request) = (talk.opened.clone()?, asked.clone());
                if !arguments.is_nullish() {
                    request.arguments = arguments.clone();
                }
                // Also what was approved for the whole run was approved of this tool.
                let is_approved = question.is_some()
                    || (!self.approved.is_empty() && self.approved.contains(&talk.what_is_run(asked)));
                let approval = session.approvals.iter().find(|approval| approval.tool == request.name);
                let approved = approval.filter(|_| is_approved).map(|approval| approval.identity.clone());
                let left = self.left_of(pending);
                Task::Tool(Box::new(ToolCall {
                    context,
                    session,
                    request,
                    left,
                    approved,
                    given: pending.given_input(),
                }))
            }
            Request::Sleep { ms } => Task::Sleep { ms: left(*ms) },
            Request::Timeout { ms } => Task::Timeout { ms: left(*ms) },
            Request::Find { name } => Task::Find { name: name.clone() },
        };
        if matches!(task, Task::Sleep { .. } | Task::Timeout { .. } | Task::Find { .. }) {
            timeout_ms = None;
        }
        Some(Effect { id, task, timeout_ms })
    }

    fn context(&self, frame: FrameId, step: &Step, id: EffectId, request: &Request) -> Option<EffectContext> {
        let entry = self.entry_of(frame)?;
        let attempt = self.frames.get(&frame)?.work().map_or(1, |work| work.attempt);
        // An attempt that is repeated because its end is unknown must be recognisable as the same piece of work.
        let key = match request {
            Request::Invoke { .. } => self.invocation_key(frame),
            Request::Judge { .. } => format!("{}/{frame}/judge", self.run).into(),
            _ => format!("{}/{frame}/{id}", self.run).into(),
        };
        Some(EffectContext {
            run: self.run.clone(),
            step: step.name.clone(),
            visit: entry.visit,
            attempt,
            idempotency_key: key,
            traceparent: self.traceparent.clone(),
            user: self.user.clone(),
            tenant: self.tenant.clone(),
            nesting: 0,
            progress: opcell_types::ProgressLog::default(),
        })
    }

    /// Returns the key that tells the call of a frame's operation from every other, however often it is repeated.
    pub(crate) fn invocation_key(&self, frame: FrameId) -> Arc<str> {
        thread_local! {
            /// Kept, so that a key is the only allocation.
            static KEY: RefCell<String> = const { RefCell::new(String::new()) };
        }
        let mut number = itoa::Buffer::new();
        let number = number.format(frame.0);
        KEY.with_borrow_mut(|key| {
            key.clear();
            key.push_str(&self.run);
            key.push('/');
            key.push_str(number);
            key.as_str().into()
        })
    }

    /// The session that a frame's conversation belongs to, and whether it is a judge's.
    fn session<'a>(&'a self, frame: FrameId, step: &'a Step) -> Option<(&'a Session, bool)> {
        match (&step.form, &step.judge, self.is_judging(frame)) {
            (_, Some(Judge::Llm { session, .. }), true) => Some((session, true)),
            (Form::Session { session }, _, false) => Some((session, false)),
            _ => None,
        }
    }

    fn is_judging(&self, frame: FrameId) -> bool {
        matches!(self.frames.get(&frame).map(|frame| &frame.body), Some(Body::Step(step)) if matches!(step.phase, Phase::Judging(_)))
    }

    /// Returns the schema of this round's answer; only the last of several prompts has one.
    fn round_schema(&self, frame: FrameId, step: &Step) -> Option<(String, opcell_types::Value)> {
        let spec = match (&step.judge, self.is_judging(frame)) {
            (Some(Judge::Llm { outputs, .. }), true) => structured_spec(outputs)?,
            _ => {
                let Form::Session { session } = &step.form else { return None };
                let done = self.conversation(frame)?.record.turns.len();
                if done + 1 < session.prompts.len() {
                    return None;
                }
                structured_spec(&step.outputs)?
            }
        };
        let name = spec.schema_id.clone().unwrap_or_else(|| "answer".to_owned());
        Some((name, spec.json_schema.clone()?))
    }

    /// Returns the rest of the step's time for this attempt, and of the run's.
    fn time_left(&self, frame: FrameId, step: &Step) -> Option<f64> {
        let since = self.frames.get(&frame)?.work().map_or(self.now, |work| work.since);
        let of_step = step.timeout_ms.map(|ms| (ms as f64 - self.now.ms_since(since)).max(0.0));
        let of_run =
            self.limits.wall_time_seconds.map(|s| (s as f64 * 1000.0 - self.now.ms_since(self.started_at)).max(0.0));
        match (of_step, of_run) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Returns `true` if an effect is a call of a pure operation.
    #[must_use]
    pub fn is_pure_call(&self, id: EffectId, known: &impl Catalogue) -> bool {
        let request = self.request_of(id);
        matches!(request, Some(Request::Invoke { .. } | Request::Judge { .. }))
            && self.repeatable(id, known) == Effects::Pure
    }

    /// Returns the effect of repeating an effect.
    #[must_use]
    pub fn repeatable(&self, id: EffectId, known: &impl Catalogue) -> Effects {
        let Some(pending) = self.effects.get(&id) else { return Effects::Pure };
        if pending.is_task() {
            return Effects::Idempotent;
        }
        let step = self.step_of(pending.frame).map(|(_, step)| step);
        let operation = |id: &str| known.operation(id).unwrap_or_default();
        match (&pending.request, step) {
            (Request::Invoke { .. }, Some(Step { form: Form::Invoke { invoke }, .. })) => operation(&invoke.operation),
            (Request::Judge { .. }, Some(Step { judge: Some(Judge::Invoke { invoke }), .. })) => {
                // A judge decides and changes nothing; an operation that serves as one says what it does.
                if known.is_judge(&invoke.operation) { Effects::Idempotent } else { operation(&invoke.operation) }
            }
            (Request::Tool { call, .. }, _) => {
                let talk = self.conversation(pending.frame);
                let opened = talk.and_then(|talk| talk.opened.as_ref());
                match talk.and_then(|talk| talk.call(call)) {
                    // The call of an agent finds the run that it started.
                    Some(request) if opened.is_some_and(|it| it.settings.agents.contains_key(&request.name)) => {
                        Effects::Idempotent
                    }
                    Some(request) => known.tool(&request.name),
                    None => Effects::Once,
                }
            }
            (Request::Authorize { .. }, _) => match self.authorizer.as_deref() {
                Some(judge) if known.is_judge(judge) => Effects::Idempotent,
                Some(id) => operation(id),
                None => Effects::Once,
            },
            (Request::Augment { at }, _) => {
                let opened = self.conversation(pending.frame).and_then(|talk| talk.opened.as_ref());
                opened.and_then(|opened| opened.augmenters.get(*at as usize)).map_or(Effects::Once, |id| operation(id))
            }
            (Request::Invoke { .. } | Request::Judge { .. }, _) => Effects::Once,
            _ => Effects::Pure,
        }
    }
}
