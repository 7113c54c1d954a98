//! One entry into a step, one element of it, one attempt.

use super::{At, expression_failed, failure, group, judge, problem, session, unresolved};
use crate::{
    event::{Event, InstanceId, Request, Settled, StepResult},
    failure::Failure,
    program::inputs_of,
    scope::{View, arguments},
    state::{Accepted, Each, Element, Pause, Phase, Raw, Stage, StepFrame, Work},
};
use opcell_ir::{
    diagnostic::did_you_mean,
    expr::ExprErrorKind,
    ir::{Delegate, DelegateTarget, Form, OnError, Step, Wait},
    js, resolve, transform,
};
use opcell_types::{
    Value,
    value::{Object, Shape},
};
use std::sync::Arc;

pub(super) fn decide(at: &At<'_>, entry: &StepFrame, step: &Step) -> Vec<Event> {
    match &entry.phase {
        Phase::Entered if step.each.is_some() => begin_each(at, entry, step),
        Phase::Entered => match &step.form {
            Form::Branch { branch } => group::begin_branch(at, entry, step, branch),
            Form::Parallel { .. } => group::begin_parallel(at, entry),
            _ => begin(at, step, None),
        },
        Phase::Work(work) => self::work(at, step, work, None),
        Phase::Each(each) => self::each(at, step, each),
        Phase::Groups(groups) => group::decide(at, entry, step, groups),
        Phase::Judging(judging) => judge::decide(at, entry, step, judging),
    }
}

pub(super) fn element(at: &At<'_>, element: &Element, step: &Step) -> Vec<Event> {
    work(at, step, &element.work, Some((&element.item, element.index as usize)))
}

fn begin_each(at: &At<'_>, entry: &StepFrame, step: &Step) -> Vec<Event> {
    let Some(each) = &step.each else { return Vec::new() };
    let over = match each.over.evaluate(&at.view(None).context()) {
        Ok(over) => over,
        Err(error) => return at.lifecycle().give_up(at, entry.step, expression_failed(&each.over, error)),
    };
    if !matches!(over, Value::Array(_)) {
        let message = format!("each expression must resolve to an array, got {}", javascript_type(&over));
        return vec![failed(at, step, failure("each-not-an-array", message))];
    }
    let mut events = vec![Event::EachStarted { frame: at.id, items: over }];
    if let (true, Some(inputs)) = (at.lifecycle().resolves_each_up_front(), inputs_of(step)) {
        match arguments(&at.view(None), inputs, at.instance.program.arguments(entry.step)) {
            Ok(inputs) => events.push(Event::StepPrepared { frame: at.id, inputs }),
            Err((name, error)) => return at.lifecycle().unresolved(at, entry.step, step, &name, &error),
        }
    }
    events
}

/// `typeof`, as WorkflowSkill's message has it.
fn javascript_type(value: &Value) -> &'static str {
    match value {
        Value::Undefined => "undefined",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Null | Value::Array(_) | Value::Object(_) => "object",
    }
}

fn each(at: &At<'_>, step: &Step, each: &Each) -> Vec<Event> {
    if each.is_done() {
        let Some(failure) = &each.failure else {
            return vec![Event::StepFinished { frame: at.id, result: Box::default() }];
        };
        return vec![each_failed(at, step, each, failure)];
    }
    if each.pause == Pause::Due {
        let ms = step.each.as_ref().and_then(|each| each.delay_ms).unwrap_or_default();
        return vec![at.request(Request::Sleep { ms })];
    }
    vec![Event::ElementEntered { frame: at.next_frame(), parent: at.id, index: each.next }]
}

/// Returns the failure of a step with `each`. The results of elements that succeeded stay visible, as a list with nulls
/// in it, whatever the failure does to the run.
pub(super) fn each_failed(at: &At<'_>, step: &Step, each: &Each, failure: &Failure) -> Event {
    let results = each.results.iter().map(|result| result.clone().unwrap_or_default());
    let result = StepResult {
        value: Value::array(results),
        failure: Some(failure.clone()),
        ignored: step.on_error == OnError::Ignore,
        ..StepResult::default()
    };
    Event::StepFinished { frame: at.id, result: Box::new(result) }
}

fn work(at: &At<'_>, step: &Step, work: &Work, item: Option<(&Value, usize)>) -> Vec<Event> {
    match &work.stage {
        Stage::Start => begin(at, step, item),
        Stage::Pause { ms } => vec![at.request(Request::Sleep { ms: *ms })],
        Stage::Produced(raw) => vec![produced(at, step, raw, item)],
        Stage::Failed(failure) => vec![retry_or_fail(at, step, work, failure)],
        Stage::Talking(talk) => session::decide(at, step, work, talk, item),
        Stage::Waiting { .. } => match at.state.waiting_signal(at.id) {
            Some(signal) => vec![Event::SignalTaken { frame: at.id, signal: signal.id }],
            None => Vec::new(),
        },
        Stage::Calling(_) | Stage::Pausing(_) | Stage::Delegating(_) => Vec::new(),
    }
}

/// Resolves a step's inputs, or gives what follows from not being able to.
pub(super) fn inputs(at: &At<'_>, step: &Step, item: Option<(&Value, usize)>) -> Result<Value, Vec<Event>> {
    let Some(specs) = inputs_of(step) else { return Ok(Value::Object(Object::default())) };
    let index = at.state.entry_of(at.id).map_or(0, |entry| entry.step);
    arguments(&at.view_of(item), specs, at.instance.program.arguments(index))
        .map_err(|(name, error)| at.lifecycle().unresolved(at, index, step, &name, &error))
}

/// Returns the output that was made under a key. Where the step says by its source which output that is, it is the
/// output itself.
pub(super) fn named_by_source(step: &Step, key: Option<&Arc<str>>, source: &str, made: Value) -> Value {
    let output = key.and_then(|key| Some((key, step.outputs.get(key)?.source.as_deref()?)));
    match output.filter(|(_, named)| *named == source) {
        Some((key, _)) => made.get(key).cloned().unwrap_or_default(),
        None => made,
    }
}

fn begin(at: &At<'_>, step: &Step, item: Option<(&Value, usize)>) -> Vec<Event> {
    match &step.form {
        Form::Invoke { .. } => match inputs(at, step, item) {
            Ok(arguments) => vec![at.request(Request::Invoke { arguments })],
            Err(events) => events,
        },
        Form::Session { session } => session::open(at, step, session, item),
        Form::Delegate { delegate } => self::delegate(at, step, delegate, item),
        Form::Transform { transform } => {
            let inputs = match inputs(at, step, item) {
                Ok(inputs) => inputs,
                Err(events) => return events,
            };
            let empty = Object::default();
            let key = step.outputs.keys().next();
            let inputs_of = inputs.as_object().unwrap_or(&empty);
            // What is somewhat too large is said with its size, after it was made.
            let most = at.state.value_limits.bytes.saturating_mul(2);
            let result = transform::run(transform, inputs_of, key, &at.view_of(item).context(), most);
            let prepared = Event::StepPrepared { frame: at.id, inputs: inputs.clone() };
            let settled = match result {
                Ok(value) => {
                    let value = named_by_source(step, key, "transform/data", value);
                    finished(at, step, &Raw::Value(value.clone()), value, item)
                }
                Err(error) => {
                    let reason = match error.kind {
                        ExprErrorKind::Size => "value-too-large",
                        _ => "expression-failed",
                    };
                    failed(at, step, failure(reason, error.message))
                }
            };
            if item.is_some() { vec![settled] } else { vec![prepared, settled] }
        }
        Form::Exit { exit } => {
            let inputs = match inputs(at, step, item) {
                Ok(inputs) => inputs,
                Err(events) => return events,
            };
            let prepared = Event::StepPrepared { frame: at.id, inputs };
            let output = exit.output.as_ref().map_or(Ok(Value::Null), |output| at.view_of(item).value(output));
            let settled = match output {
                Ok(output) => {
                    let value = if matches!(output, Value::Undefined) { Value::Null } else { output };
                    Event::StepFinished {
                        frame: at.id,
                        result: Box::new(StepResult { value, ..StepResult::default() }),
                    }
                }
                Err(error) => failed(at, step, failure(error.reason(), problem(&error))),
            };
            vec![prepared, settled]
        }
        Form::Wait { wait } => self::wait(at, step, wait, item),
        Form::Branch { .. } | Form::Parallel { .. } => {
            vec![failed(at, step, failure("each-not-valid", "`each` cannot repeat a branch or a parallel step"))]
        }
    }
}

fn wait(at: &At<'_>, step: &Step, wait: &Wait, item: Option<(&Value, usize)>) -> Vec<Event> {
    let question = match wait.question.as_ref().map(|question| resolve::render(question, &at.view_of(item))).transpose()
    {
        Ok(question) => question.map(Arc::from),
        Err(error) => return vec![failed(at, step, unresolved(&error))],
    };
    let mut events = vec![Event::WaitStarted { frame: at.id, question }];
    if let Some(ms) = step.timeout_ms {
        events.push(at.request(Request::Timeout { ms: ms as f64 }));
    }
    events
}

fn delegate(at: &At<'_>, step: &Step, delegate: &Delegate, item: Option<(&Value, usize)>) -> Vec<Event> {
    let view = at.view_of(item);
    let fail = |failure: Failure| vec![failed(at, step, failure)];
    let name = match resolve::target(&delegate.target, &view) {
        Ok(name) => name,
        Err(error) => return fail(unresolved(&error)),
    };
    match at.state.definitions.get(&name) {
        None => return vec![at.request(Request::Find { name })],
        Some(None) => {
            let known = at.state.definitions.iter().filter(|(_, found)| found.is_some()).map(|(name, _)| name.as_ref());
            let hint = did_you_mean(&name, known).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            let dynamic =
                if matches!(delegate.target, DelegateTarget::Dynamic(_)) { " (found at run time)" } else { "" };
            return fail(failure(
                "unknown-workflow",
                format!("Delegated workflow definition not found: `{name}`{dynamic}{hint}"),
            ));
        }
        Some(Some(_)) => {}
    }
    if at.instance.depth >= at.state.max_depth {
        let message = format!(
            "`{name}` would nest {} workflows deep; at most {} are allowed (a workflow that calls itself never ends)",
            at.instance.depth + 1,
            at.state.max_depth
        );
        return fail(failure("delegate-depth", message));
    }
    let input = match resolve::prompt_string(&delegate.prompt_string, &view) {
        Ok(input) => input,
        Err(error) => return fail(unresolved(&error)),
    };
    let original = match resolve::context(&delegate.context, &view) {
        Ok(original) => original,
        Err(error) => return fail(unresolved(&error)),
    };
    let instance = InstanceId(at.state.next_instance);
    vec![Event::InstanceStarted { instance, frame: at.next_frame(), parent: at.id, workflow: name, input, original }]
}

/// The attempt produced something: computed outputs come last, and may fail.
fn produced(at: &At<'_>, step: &Step, raw: &Raw, item: Option<(&Value, usize)>) -> Event {
    finished(at, step, raw, Value::Undefined, item)
}

/// `value`: the result, where the work itself does not hold it.
pub(super) fn finished(at: &At<'_>, step: &Step, raw: &Raw, value: Value, item: Option<(&Value, usize)>) -> Event {
    let mapped = match mapped(at, step, None, || raw.plain(), item) {
        Ok(mapped) => mapped,
        Err(failure) => return failed(at, step, failure),
    };
    if item.is_some() {
        let accepted = Accepted {
            raw: raw.clone(),
            mapped: (!matches!(mapped, Value::Undefined)).then_some(mapped),
            receipt: None,
        };
        let output = at.lifecycle().element_output(&accepted, step);
        return Event::ElementFinished { frame: at.id, result: Settled::Ok(output) };
    }
    let result = StepResult { value, mapped, ..StepResult::default() };
    Event::StepFinished { frame: at.id, result: Box::new(result) }
}

/// Returns `true` if any output is computed from `$result`.
pub(super) fn maps(step: &Step) -> bool {
    step.outputs.values().any(|spec| spec.value.is_some())
        && !matches!(step.form, Form::Exit { .. } | Form::Branch { .. })
}

/// Outputs that are computed from `$result`; `undefined` when none is. `shape`: the names of all outputs, where they
/// are known.
pub(super) fn mapped(
    at: &At<'_>,
    step: &Step,
    shape: Option<&Shape>,
    raw: impl FnOnce() -> Value,
    item: Option<(&Value, usize)>,
) -> Result<Value, Failure> {
    if !maps(step) {
        return Ok(Value::Undefined);
    }
    let result = raw();
    let view = at.view_of(item);
    let mut values = Vec::with_capacity(step.outputs.len());
    let (mut left_out, mut made) = (Vec::new(), resolve::ValueBudget::default());
    for (key, spec) in &step.outputs {
        values.push(match &spec.value {
            Some(value) => View::with_result(view, &result)
                .value(value)
                .and_then(|made_of| made.counted(value, made_of))
                .map_err(|error| failure(error.reason(), problem(&error)))?,
            None => match at.lifecycle().unmapped_output(&result, key) {
                Some(value) => value,
                None => {
                    left_out.push(key);
                    continue;
                }
            },
        });
    }
    Ok(Value::Object(match shape.filter(|_| left_out.is_empty()) {
        Some(shape) => Object::of_all(shape.clone(), &mut values),
        None => step.outputs.keys().filter(|key| !left_out.contains(key)).zip(values).collect(),
    }))
}

pub(super) fn retry_or_fail(at: &At<'_>, step: &Step, work: &Work, failure: &Failure) -> Event {
    match &step.retry {
        Some(retry) if failure.retriable && work.attempt <= retry.max => {
            let factor = retry.backoff.powi(i32::try_from(work.attempt).unwrap_or(i32::MAX) - 1);
            Event::Retrying { frame: at.id, failure: failure.clone(), delay_ms: retry.delay_ms * factor }
        }
        _ => failed(at, step, failure.clone()),
    }
}

/// The step, or the element, failed for good.
pub(super) fn failed(at: &At<'_>, step: &Step, failure: Failure) -> Event {
    if matches!(at.frame.body, crate::state::Body::Element(_)) {
        return Event::ElementFinished { frame: at.id, result: Settled::Failed(failure) };
    }
    let ignored = step.on_error == OnError::Ignore;
    let result = StepResult { failure: Some(failure), ignored, ..StepResult::default() };
    Event::StepFinished { frame: at.id, result: Box::new(result) }
}

/// Returns `true` if a value counts as true where a workflow chooses.
pub(super) fn holds(value: &Value) -> bool {
    js::is_truthy(value)
}
