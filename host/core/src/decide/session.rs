//! Conversations: turns, rounds, tool calls, and what a model's answer means to a step or to a judge.

use super::{At, calls, converse, failure, judge, results, step, unresolved};
use crate::{
    call::Verdict,
    conversation::{Message, Role, ToolCallRequest},
    dialogue,
    event::{Event, Request},
    failure::Failure,
    scope::View,
    state::{Conversation, ConversationStage, Raw, StepFrame, Work},
    structured,
};
use indexmap::IndexMap;
use opcell_ir::{
    ir::{
        Contribution, Form, OutputSpec, Projection, Session, SourceRef, SourceSpec, Step, StructuredOutput, ValueSpec,
    },
    names::Outcome,
    resolve::{self, ConversationPart, Scope},
    template,
};
use opcell_types::{Value, value::Object};
use std::sync::Arc;

/// Model rounds of one turn, unless the session says: enough for long work, few enough to end.
const MAX_ROUNDS: u32 = 100;

/// Tool calls of one turn, unless the session says.
const MAX_CALLS: u32 = 1000;

/// The most that the instruction layer of a prompt may take with its variables filled in, in bytes.
const MAX_SYSTEM_PROMPT: u64 = 8 << 20;

/// Answers that an LLM judge may give before its judgement fails (psi: the first and two retries).
const JUDGE_ATTEMPTS: u32 = 3;

pub(super) fn open(at: &At<'_>, step: &Step, session: &Session, item: Option<(&Value, usize)>) -> Vec<Event> {
    match prompt(at, session, item) {
        Ok(system_prompt) => vec![at.request(Request::Open { system_prompt })],
        Err(failure) => vec![step::failed(at, step, failure)],
    }
}

/// The instruction layer with its variables filled in; `None` when it has none.
pub(super) fn prompt(
    at: &At<'_>,
    session: &Session,
    item: Option<(&Value, usize)>,
) -> Result<Option<Arc<str>>, Failure> {
    let Some(text) = session.system_prompt.as_ref().filter(|_| !session.variables.is_empty()) else { return Ok(None) };
    let view = at.view_of(item);
    let mut values: IndexMap<&str, String> = IndexMap::new();
    let mut missing: Vec<&str> = Vec::new();
    for (name, spec) in &session.variables {
        let value = view.value(spec).map_err(|error| unresolved(&error))?;
        if value.is_nullish() && !is_artifact(spec) {
            missing.push(name.as_ref());
        }
        values.insert(name, if value.is_nullish() { String::new() } else { view.print(&value) });
    }
    if !missing.is_empty() {
        return Err(failure("missing-variables", format!("missing required variables: [{}]", missing.join(" "))));
    }
    // What the transition into this state said the state should know.
    if let Some(context) = values.get_mut("workflow_context") {
        *context = at.instance.brief.as_ref().to_owned();
    }
    let value = |name: &str| values.get(name).map(String::as_str);
    let bytes = template::rendered_bytes(text, value);
    if bytes > MAX_SYSTEM_PROMPT {
        let message = format!("the system prompt would take {bytes} bytes; at most {MAX_SYSTEM_PROMPT} are sent");
        return Err(failure("prompt-too-large", message));
    }
    let rendered = template::render(text, value);
    rendered.map(|text| Some(text.into())).map_err(|token| {
        failure(
            "unbound-token",
            format!("The system prompt's token {{{{{token}}}}} is not among the session's variables"),
        )
    })
}

/// A named value that is not set yet is empty, not missing.
fn is_artifact(spec: &ValueSpec) -> bool {
    matches!(spec, ValueSpec::Source(SourceSpec { from: SourceRef::Artifact { .. }, .. }))
}

/// The state of a conversation when nothing is in flight.
pub(super) enum Turn<'a> {
    /// Something must happen first.
    Goes(Vec<Event>),
    /// The model answered and asks for nothing.
    Answered(&'a Message),
    /// It cannot go on.
    Failed(Failure),
}

/// Rewrites the model's last answer by the session's rules; returns `None` when it keeps to them.
fn guarded(at: &At<'_>, session: &Session, talk: &Conversation) -> Option<Event> {
    if session.guards.is_empty() || talk.guarded || talk.rounds == 0 {
        return None;
    }
    let said = talk.record.messages.last().filter(|message| message.role == Role::Assistant)?;
    let mut text: Option<String> = None;
    let mut guards = Vec::new();
    for guard in &session.guards {
        if let Some(rewritten) = guard.rewrite(text.as_deref().unwrap_or(&said.content)) {
            text = Some(rewritten);
            guards.push(guard.name.as_str().into());
        }
    }
    text.map(|text| Event::Guarded { frame: at.id, guards, text: text.into() })
}

fn turn<'a>(at: &At<'_>, session: &Session, timeout: Option<Failure>, talk: &'a Conversation) -> Turn<'a> {
    if let Some(rewritten) = guarded(at, session, talk) {
        return Turn::Goes(vec![rewritten]);
    }
    if let Some(call) = talk.next_call() {
        return match converse::call(at, talk, call).or_else(|| results::call(at, talk, call)) {
            Some(events) => Turn::Goes(events),
            None => tool(at, session, talk, call),
        };
    }
    if let Some(result) = session.final_tool.as_deref().and_then(|tool| talk.result_of(tool)) {
        return Turn::Answered(result);
    }
    if converse::is_committed(talk) {
        let text = converse::last_words(talk);
        return Turn::Goes(vec![Event::TurnFinished { frame: at.id, text, structured: None }]);
    }
    if let Some(answer) = talk.answer() {
        return Turn::Answered(answer);
    }
    if let Some(failure) = timeout {
        return Turn::Failed(failure);
    }
    if talk.opened.as_ref().is_some_and(|opened| (talk.augmented as usize) < opened.augmenters.len()) {
        return Turn::Goes(vec![at.request(Request::Augment { at: talk.augmented })]);
    }
    let max = session.max_rounds.unwrap_or(MAX_ROUNDS);
    if talk.rounds >= max {
        return Turn::Failed(failure("max-rounds", format!("The model gave no final answer within {max} rounds")));
    }
    Turn::Goes(vec![at.request(Request::Round { model: talk.model })])
}

/// A tool call is made only if the session has the tool: what a prompt shows and what a session can do are the same
/// list.
fn tool<'a>(at: &At<'_>, session: &Session, talk: &Conversation, call: &ToolCallRequest) -> Turn<'a> {
    let tools = talk.opened.as_ref().map_or(&[][..], |opened| &opened.tools);
    let has_tool = tools.iter().any(|tool| tool.name == call.name);
    let max = session.max_tool_calls.unwrap_or(MAX_CALLS);
    let text = match talk.turn_calls {
        _ if !has_tool => {
            let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
            let known = if names.is_empty() { "no tools".to_owned() } else { names.join(", ") };
            format!("denied: this session has no tool `{}`; it has: {known}", call.name)
        }
        made if made >= max as usize => {
            format!("denied: this turn has used its {max} tool calls; answer with the information you have")
        }
        _ => return calls::next(at, talk, call),
    };
    Turn::Goes(vec![refused(at, call, text)])
}

/// The answer to a call that is not made.
pub(super) fn refused(at: &At<'_>, call: &ToolCallRequest, text: String) -> Event {
    Event::Interjected { frame: at.id, message: Box::new(Message::tool(call.id.as_str(), text, true)), retry: false }
}

pub(super) fn decide(
    at: &At<'_>,
    step: &Step,
    work: &Work,
    talk: &Conversation,
    item: Option<(&Value, usize)>,
) -> Vec<Event> {
    let Form::Session { session } = &step.form else { return Vec::new() };
    let fail = |failure: Failure| vec![step::retry_or_fail(at, step, work, &in_group(session, talk, failure))];
    match &talk.stage {
        ConversationStage::Closed | ConversationStage::Busy(_) => Vec::new(),
        ConversationStage::Failed(failure) => fail(no_model_answered(talk, failure)),
        ConversationStage::Waiting { .. } => converse::listen(at, talk),
        ConversationStage::Idle if let Some((_, control)) = dialogue::of(step) => {
            converse::idle(at, step, session, talk, control)
        }
        ConversationStage::Idle => {
            let done = talk.record.turns.len();
            let group = session.prompts.get(done);
            let contributions = match (group, done) {
                (Some(group), _) => &group.contributions,
                (None, 0) if session.prompts.is_empty() => &session.contributions,
                _ => {
                    return vec![step::finished(
                        at,
                        step,
                        &Raw::Session(Box::new(talk.record.clone())),
                        Value::Undefined,
                        item,
                    )];
                }
            };
            match messages(contributions, &at.view_of(item)) {
                Ok(messages) if talk.record.messages.is_empty() && asks_nothing(contributions, &messages) => {
                    fail(nothing_asked(step, "its model", contributions))
                }
                Ok(messages) => {
                    let group = group.and_then(|_| u32::try_from(done).ok());
                    vec![Event::TurnStarted { frame: at.id, group, messages }]
                }
                Err(failure) => fail(failure),
            }
        }
        ConversationStage::Turn => match turn(at, session, timed_out(at, step, work), talk) {
            Turn::Goes(events) => events,
            Turn::Failed(failure) => fail(failure),
            Turn::Answered(answer) => {
                let text: Arc<str> = answer.content.as_str().into();
                let is_last = session.prompts.is_empty() || talk.record.turns.len() + 1 >= session.prompts.len();
                let Some(spec) = structured_spec(&step.outputs).filter(|_| is_last) else {
                    return vec![Event::TurnFinished { frame: at.id, text, structured: None }];
                };
                match structured::parse(&answer.content, spec) {
                    Ok(value) => vec![Event::TurnFinished { frame: at.id, text, structured: Some(value) }],
                    Err(structured::Invalid::Schema(problem)) => fail(failure("missing-json-schema", problem)),
                    Err(structured::Invalid::Answer(problem)) if talk.failed_answers + 1 < spec.max_attempts => {
                        let message = Message::user(structured::feedback(&problem));
                        vec![Event::Interjected { frame: at.id, message: Box::new(message), retry: true }]
                    }
                    // Another attempt may be answered otherwise.
                    Err(structured::Invalid::Answer(problem)) => {
                        fail(Failure { retriable: true, ..failure(super::NO_STRUCTURED_OUTPUT, problem) })
                    }
                }
            }
        },
    }
}

/// A failure says at which of several prompts it happened.
fn in_group(session: &Session, talk: &Conversation, mut failure: Failure) -> Failure {
    let at = talk.record.turns.len();
    if let Some(group) = session.prompts.get(at) {
        let place = Value::object([
            ("index", Value::from(i64::try_from(at).unwrap_or(i64::MAX))),
            ("name", Value::from(group.name.clone())),
        ]);
        let mut details = failure.details.as_ref().and_then(Value::as_object).map(Object::to_map).unwrap_or_default();
        details.insert("failed-prompt".into(), place);
        failure.details = Some(Value::from(details));
    }
    failure
}

/// When several models were asked, all of their failures.
fn no_model_answered(talk: &Conversation, last: &Failure) -> Failure {
    if talk.model_failures.len() < 2 {
        return last.clone();
    }
    let models = talk.opened.as_ref().map_or(&[][..], |opened| &opened.models);
    let failures = talk.model_failures.iter().enumerate().map(|(at, failure)| {
        let model = models.get(at).map_or("?", String::as_str);
        Value::object([
            ("model", Value::from(model)),
            ("reason", Value::from(failure.reason.clone())),
            ("message", Value::from(failure.message.as_str())),
        ])
    });
    let details = Value::object([("candidate-failures", Value::array(failures))]);
    let message = "Workflow model-query candidates exhausted".to_owned();
    Failure { retriable: last.retriable, ..failure("ranked-candidate-exhausted", message).with_details(details) }
}

fn timed_out(at: &At<'_>, step: &Step, work: &Work) -> Option<Failure> {
    let ms = step.timeout_ms?;
    let over = at.state.now.ms_since(work.since) >= ms as f64;
    over.then(|| Failure { retriable: true, ..failure("timeout", format!("The step took longer than {ms} ms")) })
}

pub(crate) fn structured_spec(outputs: &IndexMap<Arc<str>, OutputSpec>) -> Option<&StructuredOutput> {
    outputs.values().find_map(|spec| spec.structured.as_ref())
}

pub(super) fn messages(contributions: &[Contribution], view: &View<'_>) -> Result<Vec<Message>, Failure> {
    let parts = resolve::conversation(contributions, view).map_err(|error| unresolved(&error))?;
    let (before, prompt) = resolve::split(parts);
    let mut messages: Vec<Message> = before.iter().map(message).collect();
    // A conversation that ends with someone else's words still has to ask something.
    if !prompt.is_empty() || messages.is_empty() {
        messages.push(Message::user(prompt));
    }
    Ok(messages)
}

/// Returns `true` if a model would get these messages with nothing in them: providers are not sent an empty text. A
/// composition's prompt without an input is asked all the same (PromptPack RFC 0010).
fn asks_nothing(contributions: &[Contribution], messages: &[Message]) -> bool {
    let is_optional = |contribution: &Contribution| matches!(contribution, Contribution::Value { .. });
    let is_blank = |message: &Message| message.content.trim().is_empty() && message.tool_calls.is_empty();
    !contributions.iter().any(is_optional) && messages.iter().all(is_blank)
}

fn nothing_asked(step: &Step, whom: &str, contributions: &[Contribution]) -> Failure {
    let places = contributions.iter().enumerate();
    let empty: Vec<String> = places.map(|(at, it)| format!("contributions[{at}] ({})", resolve::origin(it))).collect();
    let why =
        if empty.is_empty() { "there are no contributions".to_owned() } else { empty.join(", ") + " gave no text" };
    failure("nothing-asked", format!("Step '{}': {whom} would be asked nothing: {why}", step.name))
}

fn message(part: &ConversationPart) -> Message {
    from_value(&part.message).unwrap_or_else(|| {
        Message::user(
            part.text().unwrap_or_else(|| part.message.get("content").map_or_else(String::new, Value::to_json)),
        )
    })
}

/// A message that a transcript gave, unless it has a shape of its own.
fn from_value(value: &Value) -> Option<Message> {
    value.to().ok()
}

/// An LLM judge as declared.
pub(super) struct LlmJudge<'a> {
    pub session: &'a Session,
    pub projection: Option<&'a Projection>,
    pub outputs: &'a IndexMap<Arc<str>, OutputSpec>,
}

pub(super) fn judge(
    at: &At<'_>,
    entry: &StepFrame,
    step: &Step,
    talk: &Conversation,
    judge: &LlmJudge<'_>,
) -> Vec<Event> {
    let conclude = |verdict| judge::conclude(at, entry, step, verdict);
    match &talk.stage {
        ConversationStage::Closed | ConversationStage::Busy(_) | ConversationStage::Waiting { .. } => Vec::new(),
        ConversationStage::Failed(failure) => conclude(Err(no_model_answered(talk, failure))),
        ConversationStage::Idle => match what_a_judge_sees(at, entry, step, judge) {
            Ok(messages) if asks_nothing(&judge.session.contributions, &messages) => {
                conclude(Err(nothing_asked(step, "its judge", &judge.session.contributions)))
            }
            Ok(messages) => vec![Event::TurnStarted { frame: at.id, group: None, messages }],
            Err(failure) => conclude(Err(failure)),
        },
        ConversationStage::Turn => match turn(at, judge.session, None, talk) {
            Turn::Goes(events) => events,
            Turn::Failed(failure) => conclude(Err(failure)),
            Turn::Answered(answer) => match read_answer(step, answer, structured_spec(judge.outputs)) {
                Ok(outcome) => conclude(Ok(Verdict { outcome, rationale: None })),
                Err(Unread::Hopeless(failure)) => conclude(Err(failure)),
                Err(Unread::Again { feedback, .. }) if talk.failed_answers + 1 < JUDGE_ATTEMPTS => {
                    vec![Event::Interjected { frame: at.id, message: Box::new(Message::user(feedback)), retry: true }]
                }
                Err(Unread::Again { failure, .. }) => conclude(Err(failure)),
            },
        },
    }
}

/// The step's conversation, as far as the projection shows it, then the judge's own contributions.
fn what_a_judge_sees(
    at: &At<'_>,
    entry: &StepFrame,
    step: &Step,
    judge: &LlmJudge<'_>,
) -> Result<Vec<Message>, Failure> {
    let view = at.view(None);
    let accepted = at.instance.memory.get(entry.step as usize).and_then(|memory| memory.accepted.as_ref());
    let transcript = match accepted {
        Some(accepted) if matches!(accepted.raw, Raw::Session(_)) => accepted.output(step, None, "session/transcript"),
        // A step without a conversation shows what it yielded.
        Some(accepted) => match accepted.value(step).0 {
            Value::Null | Value::Undefined => Value::array([]),
            value => crate::state::transcript(&[Message::assistant(view.print(&value))]),
        },
        None => Value::array([]),
    };
    let projected = match judge.projection {
        Some(projection) => resolve::project(&transcript, projection).map_err(|error| unresolved(&error))?,
        None => transcript,
    };
    let mut seen: Vec<Message> = projected.as_array().unwrap_or_default().iter().filter_map(from_value).collect();
    seen.extend(messages(&judge.session.contributions, &view)?);
    Ok(seen)
}

/// Why a judge's answer is not an outcome.
enum Unread {
    /// Asking again may help.
    Again { feedback: String, failure: Failure },
    /// It will not.
    Hopeless(Failure),
}

fn read_answer(step: &Step, answer: &Message, spec: Option<&StructuredOutput>) -> Result<Outcome, Unread> {
    debug_assert_eq!(answer.role, Role::Assistant);
    let text = match spec {
        None => answer.content.trim().to_owned(),
        Some(spec) => match structured::parse(&answer.content, spec) {
            Ok(value) => match value.get("decision").unwrap_or(&value) {
                Value::String(text) => text.trim().to_owned(),
                other => return Err(not_an_outcome(&format!("The decision must be a text, got {}", other.to_json()))),
            },
            Err(structured::Invalid::Schema(problem)) => {
                return Err(Unread::Hopeless(failure("missing-json-schema", problem)));
            }
            Err(structured::Invalid::Answer(problem)) => return Err(not_an_outcome(&problem)),
        },
    };
    let as_text = Outcome::Text(text.as_str().into());
    if judge::matching(step, &as_text).is_some() {
        return Ok(as_text);
    }
    if let Some(name) = text.strip_prefix(':') {
        let keyword = Outcome::Keyword(name.into());
        if judge::matching(step, &keyword).is_some() {
            return Ok(keyword);
        }
    }
    let expected = judge::expected(step);
    Err(Unread::Again {
        feedback: format!(
            "Your response '{text}' did not match any expected signal. Expected exactly one of: {expected}. Respond with exactly one of those words, nothing else."
        ),
        failure: failure(
            "no-match",
            format!("Step '{}': the judge said '{text}', expected one of: {expected}", step.name),
        ),
    })
}

fn not_an_outcome(problem: &str) -> Unread {
    Unread::Again { feedback: structured::feedback(problem), failure: failure(super::NO_STRUCTURED_OUTPUT, problem) }
}
