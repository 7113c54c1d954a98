//! Judging a step, and routing by what its judge decided.

use super::{At, failure, line::fail_line, session, unresolved};
use crate::{
    call::Verdict,
    event::{Destination, Event, Request},
    failure::Failure,
    scope::arguments,
    state::{Judging, StepFrame},
};
use opcell_ir::{
    ir::{Goto, Judge, Route, Step},
    names::Outcome,
    routing::{Refusal, Routed, admit},
};
use opcell_types::Value;
use std::sync::Arc;

pub(super) fn decide(at: &At<'_>, entry: &StepFrame, step: &Step, judging: &Judging) -> Vec<Event> {
    let Some(judge) = &step.judge else { return Vec::new() };
    match (judging, judge) {
        (Judging::Start, Judge::Invoke { invoke }) => match arguments(&at.view(None), &invoke.args, None) {
            Ok(arguments) => vec![at.request(Request::Judge { arguments })],
            Err((_, error)) => conclude(at, entry, step, Err(unresolved(&error))),
        },
        (Judging::Start, Judge::Expression { expression }) => {
            let verdict = match expression.evaluate(&at.view(None).context()) {
                Ok(value) => outcome_of(&value).map(|outcome| Verdict { outcome, rationale: None }),
                Err(error) => Err(failure("expression-failed", error.message)),
            };
            conclude(at, entry, step, verdict)
        }
        (Judging::Start, Judge::Llm { session, .. }) => match session::prompt(at, session, None) {
            Ok(system_prompt) => vec![at.request(Request::Open { system_prompt })],
            Err(failure) => conclude(at, entry, step, Err(failure)),
        },
        (Judging::Start | Judging::Waiting { .. }, Judge::Event { .. }) => super::event::decide(at, entry, step),
        (Judging::Llm(talk), Judge::Llm { session, projection, outputs }) => session::judge(
            at,
            entry,
            step,
            talk,
            &session::LlmJudge { session, projection: projection.as_ref(), outputs },
        ),
        (Judging::Called(answer, _), Judge::Event { .. }) => super::event::authorized(at, entry, step, answer),
        (Judging::Called(verdict, _), _) => conclude(at, entry, step, verdict.clone()),
        (Judging::Decided(Ok(verdict)), _) => route(at, entry, step, &verdict.outcome),
        (Judging::Decided(Err(failure)), _) => fail_line(at, entry.step, failure.clone()),
        _ => Vec::new(),
    }
}

/// The outcome that a value refers to: a text, or `{"keyword": "name"}`.
///
/// # Errors
/// When it is neither.
pub fn outcome_of(value: &Value) -> Result<Outcome, Failure> {
    match value {
        Value::String(text) => Ok(Outcome::Text(text.into())),
        Value::Object(entries) => match entries.get_index(0) {
            Some((key, Value::String(name))) if key.as_ref() == "keyword" && entries.len() == 1 => {
                Ok(Outcome::Keyword(name.into()))
            }
            _ => Err(malformed(value)),
        },
        _ => Err(malformed(value)),
    }
}

fn malformed(value: &Value) -> Failure {
    failure(
        "malformed-outcome",
        format!("Expected a string or {{\"keyword\": \"name\"}} as the outcome, got {}", value.to_json()),
    )
}

/// Records a decision and follows it.
pub(super) fn conclude(at: &At<'_>, entry: &StepFrame, step: &Step, verdict: Result<Verdict, Failure>) -> Vec<Event> {
    let then = match &verdict {
        Ok(verdict) => route(at, entry, step, &verdict.outcome),
        Err(failure) => fail_line(at, entry.step, failure.clone()),
    };
    std::iter::once(Event::Judged { frame: at.id, verdict }).chain(then).collect()
}

/// The route of an outcome. Exact and case-sensitive, white space around a text aside; a text and a keyword never
/// match.
pub(super) fn matching<'a>(step: &'a Step, outcome: &Outcome) -> Option<&'a Route> {
    let wanted = match outcome {
        Outcome::Text(text) => Outcome::Text(text.trim().into()),
        Outcome::Keyword(_) => outcome.clone(),
    };
    step.on.iter().find(|route| route.outcome == wanted)
}

/// The outcomes that a step knows, for messages: texts as they are, keywords with their colon.
pub(super) fn expected(step: &Step) -> String {
    let mut names: Vec<String> = step
        .on
        .iter()
        .map(|route| match &route.outcome {
            Outcome::Text(text) => text.as_ref().to_owned(),
            Outcome::Keyword(name) => format!(":{name}"),
        })
        .collect();
    names.sort();
    names.join(", ")
}

fn route(at: &At<'_>, entry: &StepFrame, step: &Step, outcome: &Outcome) -> Vec<Event> {
    let Some(route) = matching(step, outcome) else {
        let message = format!("Step '{}': the judge decided {outcome}, expected one of: {}", step.name, expected(step));
        return fail_line(at, entry.step, failure("no-match", message));
    };
    if let (Some(Judge::Event { .. }), Goto::Step(_), None) = (&step.judge, &route.goto, route.max_iterations) {
        return super::event::route(at, entry, step, outcome);
    }
    match follow(at, entry, route) {
        Ok((to, redirected, bounded)) => {
            let original_target = redirected.as_ref().and_then(|_| match &route.goto {
                Goto::Step(name) => Some(name.clone()),
                _ => None,
            });
            vec![Event::Routed {
                frame: at.id,
                outcome: Some(outcome.clone()),
                to,
                redirected,
                original_target,
                bounded,
            }]
        }
        Err(failure) => fail_line(at, entry.step, failure),
    }
}

type Way = (Destination, Option<Arc<str>>, bool);

fn follow(at: &At<'_>, entry: &StepFrame, route: &Route) -> Result<Way, Failure> {
    if at.state.line_of(at.id).is_some_and(|(_, line)| line.group.is_some()) {
        return match &route.goto {
            Goto::Next => Ok((Destination::Step(entry.step), None, true)),
            Goto::Done => Ok((Destination::Done, None, true)),
            _ => Err(failure("goto-in-group", "A step inside a group can route to :next or :done only")),
        };
    }
    let target = destination(at, entry.step, &route.goto)?;
    let Destination::Step(index) = target else { return Ok((target, None, true)) };
    let visits = visits(at, index);
    if let Some(max) = route.max_iterations.filter(|max| u64::from(visits) >= *max) {
        return match &route.on_max_iterations {
            Some(instead) => Ok((destination(at, entry.step, instead)?, Some("max-iterations".into()), true)),
            None => Err(exhausted(&at.state.step_name(at.frame.instance, index), visits, max)),
        };
    }
    let Some(step) = at.instance.program.step(index) else { return Ok((target, None, true)) };
    let (to, redirected) = match admit(at.instance.program.as_ref(), &step.name, visits_by_name(at)) {
        Ok(routed) => reached(at, &routed)?,
        Err(refusal) => return Err(refused(&refusal)),
    };
    if redirected.is_some() {
        return Ok((to, redirected, true));
    }
    let bounded =
        visits == 0 || route.max_iterations.is_some() || step.max_iterations.is_some() || step.max_visits.is_some();
    Ok((to, None, bounded || at.state.limits.total_visits.is_some()))
}

/// Returns the destination of an admitted transition, and the reason for which it is not the route's own.
pub(super) fn reached(at: &At<'_>, routed: &Routed<'_>) -> Result<(Destination, Option<Arc<str>>), Failure> {
    let index = at.instance.program.index(routed.target).ok_or_else(|| unknown_step(routed.target))?;
    Ok((Destination::Step(index), routed.redirect.map(|_| "max-visits".into())))
}

/// A refusal that is the workflow's own.
pub(super) fn refused(refusal: &Refusal<'_>) -> Failure {
    failure(refusal.reason(), refusal.to_string())
}

/// Returns the number of visits of steps.
pub(super) fn visits_by_name<'a>(at: &'a At<'_>) -> impl Fn(&str) -> u64 + use<'a> {
    |step| at.instance.program.index(step).map_or(0, |index| u64::from(visits(at, index)))
}

fn visits(at: &At<'_>, step: u32) -> u32 {
    at.instance.memory.get(step as usize).map_or(0, |memory| memory.visits)
}

fn unknown_step(name: &str) -> Failure {
    failure("unknown-step", format!("The route leads to step '{name}', which does not exist"))
}

fn destination(at: &At<'_>, from: u32, goto: &Goto) -> Result<Destination, Failure> {
    let program = &at.instance.program;
    match goto {
        Goto::Done => Ok(Destination::Done),
        Goto::Next => {
            let next = program.after(from);
            Ok(if program.step(next).is_some() { Destination::Step(next) } else { Destination::Done })
        }
        Goto::Previous => program
            .before(from)
            .map(Destination::Step)
            .ok_or_else(|| failure("no-previous-step", "The route leads to the step before the first one")),
        Goto::Step(name) => program.index(name).map(Destination::Step).ok_or_else(|| unknown_step(name)),
    }
}

/// psi's exhaustion: which step, and how often it was entered.
pub(super) fn exhausted(step: &Arc<str>, visits: u32, max: u64) -> Failure {
    let details =
        Value::object([("step-id", Value::from(step.clone())), ("iteration-count", Value::from(i64::from(visits)))]);
    let message = format!("Step '{step}' has been entered {visits} times; at most {max} are allowed");
    Failure { details: Some(details), ..failure("iteration-exhausted", message) }
}
