//! The data of a span: what it was given, and its result or failure, from the events that brought them.

use super::shown::prose;
use crate::{page::brief, spans::Span};
use maud::{Markup, html};
use opcell_engine::event::{EffectReply, Event, Recorded, Request, Settled};
use opcell_types::{Failure, Value};
use std::collections::BTreeMap;

/// Numbers of the events that have the data of a span.
pub(super) fn events_of(span: &Span) -> impl Iterator<Item = u64> {
    [Some(span.seq), span.given_at, span.ended_at, span.receipt_at].into_iter().flatten()
}

/// Shows the data of a span, with a link to what is cut. `here` is the address of the run's page.
pub(super) fn shown(span: &Span, events: &BTreeMap<u64, Recorded>, here: &str) -> Markup {
    let of = |seq: Option<u64>| seq.and_then(|seq| Some((seq, events.get(&seq)?)));
    let given = of(span.given_at).and_then(|(seq, recorded)| Some((seq, given(recorded, asked(span, events))?)));
    let ended = of(span.ended_at).and_then(|(seq, recorded)| Some((seq, result(recorded, span)?)));
    html! {
        @if let Some((seq, value)) = &given { h3 { "Input" } (brief(value, &whole(here, *seq))) }
        @match &ended {
            Some((seq, Ok(value))) => { h3 { "Result" } (brief(value, &whole(here, *seq))) }
            Some((_, Err(failure))) => { h3 { "Error" } p { b { (failure.reason) } ": " (prose(&failure.message)) }
                @if let Some(details) = &failure.details { (brief(details, &whole(here, span.ended_at.unwrap_or(span.seq)))) } }
            None => {}
        }
    }
}

/// The address of an event in full.
fn whole(here: &str, seq: u64) -> String {
    format!("{here}/events/{seq}")
}

/// The model's name for a call of a tool.
fn asked<'a>(span: &Span, events: &'a BTreeMap<u64, Recorded>) -> Option<&'a str> {
    match &events.get(&span.seq)?.event {
        Event::Requested { request: Request::Tool { call, .. }, .. } => Some(call),
        _ => None,
    }
}

fn given(recorded: &Recorded, asked: Option<&str>) -> Option<Value> {
    recorded.parts().find_map(|part| match &part.event {
        Event::Requested { request: Request::Tool { arguments, .. }, .. } if !arguments.is_nullish() => {
            Some(arguments.clone())
        }
        Event::Replied { reply, .. } => match reply.as_ref() {
            EffectReply::Round(Ok(reply)) => {
                let call = reply.message.tool_calls.iter().find(|call| Some(call.id.as_str()) == asked)?;
                Some(call.arguments.clone())
            }
            _ => None,
        },
        Event::RunStarted(started) => Some(started.input.clone()),
        Event::StepPrepared { inputs, .. } => Some(inputs.clone()),
        Event::InstanceStarted { input, .. } => Some(input.clone()),
        Event::Requested { request: Request::Invoke { arguments } | Request::Judge { arguments }, .. } => {
            Some(arguments.clone())
        }
        _ => None,
    })
}

fn result(recorded: &Recorded, span: &Span) -> Option<Result<Value, Failure>> {
    let is_effect = span.call.is_some();
    recorded.parts().find_map(|part| match &part.event {
        Event::Replied { reply, .. } if is_effect => replied(reply),
        Event::StepFinished { result, .. } if !is_effect => match (&result.failure, &result.value, &result.mapped) {
            (Some(failure), ..) => Some(Err(failure.clone())),
            // What the step's effect replied is shown with the effect.
            (None, Value::Undefined, Value::Undefined) => None,
            (None, value, Value::Undefined) => Some(Ok(value.clone())),
            (None, _, mapped) => Some(Ok(mapped.clone())),
        },
        Event::ElementFinished { result, .. } | Event::GroupFinished { result, .. } if !is_effect => match result {
            Settled::Ok(value) => Some(Ok(value.clone())),
            Settled::Failed(failure) => Some(Err(failure.clone())),
        },
        Event::InstanceFinished { end, .. } if !is_effect => Some(Ok(end.result.clone())),
        _ => None,
    })
}

fn replied(reply: &EffectReply) -> Option<Result<Value, Failure>> {
    match reply {
        EffectReply::Invoke(reply) => Some(reply.result.as_ref().map(|done| done.data.clone()).map_err(Clone::clone)),
        EffectReply::Tool(reply) => Some(reply.result.clone()),
        EffectReply::Judge(reply) => Some(match &reply.result {
            Ok(verdict) => Ok(Value::from(verdict.outcome.to_string())),
            Err(failure) => Err(failure.clone()),
        }),
        EffectReply::Open(Err(failure)) | EffectReply::Round(Err(failure)) => Some(Err(failure.clone())),
        EffectReply::Open(Ok(_)) | EffectReply::Round(Ok(_)) | EffectReply::Slept | EffectReply::Found => None,
    }
}
