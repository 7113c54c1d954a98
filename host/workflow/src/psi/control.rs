//! The part of a step that says what it yields and where the run continues: outputs, yields, judges, routes.

use super::{
    fields::{self, Fields},
    own,
    report::{Place, Report},
    session::{self, Owner},
    source_spec::{self, Allowed, transpose},
    value,
};
use crate::edn::Node;
use indexmap::IndexMap;
use opcell_ir::{
    ir::{Goto, HandoffContract, Invoke, Judge, OutputSpec, Route, StructuredOutput, TerminalContract, Yields},
    names::Outcome,
};
use std::sync::Arc;

/// `:operation` and `:args` of a step or a judge.
pub(super) fn invoke(fields: &mut Fields<'_>, place: &Place, report: &mut Report) -> Option<Invoke> {
    let (operation, args) = (fields.raw("operation"), fields.get("args"));
    let operation = match operation {
        Some(node) => fields::string(node, &place.key("operation"), report),
        None => {
            report.missing(fields.span, &place.key("operation"), "say which operation: :operation \"namespace/name\"");
            None
        }
    };
    let args = args.map(|node| source_spec::value_specs(node, true, &place.key("args"), report));
    Some(Invoke { operation: operation?, args: transpose(args)?.unwrap_or_default() })
}

pub(super) type Outputs = IndexMap<Arc<str>, OutputSpec>;

/// Authored outputs take the place of the defaults.
pub(super) fn outputs(node: &Node, place: &Place, report: &mut Report) -> Option<Outputs> {
    report.stands(place, node.span);
    let Some(entries) = node.as_map() else {
        report.invalid(
            node.span,
            place,
            format!("expected a map like {{:data {{:source :invoke/data}}}}, found {}", node.noun()),
        );
        return None;
    };
    let mut outputs = Outputs::with_capacity(entries.len());
    let mut complete = true;
    for (key, spec) in entries {
        let Some(name) = key.as_keyword() else {
            report.invalid(key.span, place, format!("expected a keyword as output key, found {key}"));
            complete = false;
            continue;
        };
        match output(spec, &place.key(name), report) {
            Some(spec) => {
                outputs.insert(name.into(), spec);
            }
            None => complete = false,
        }
    }
    complete.then_some(outputs)
}

fn output(node: &Node, place: &Place, report: &mut Report) -> Option<OutputSpec> {
    let mut fields = fields::map(node, "an output like {:source :invoke/data}", place, report)?;
    let source = match fields.raw("source") {
        Some(source) => fields::keyword(source, &place.key("source"), report),
        None => {
            report.missing(
                node.span,
                &place.key("source"),
                "say what the output holds: {:source :session/final-llm-reply}",
            );
            None
        }
    };
    fields.know(&["metadata"]);
    let is_structured = matches!(source.as_deref(), Some("session/structured-output" | "judge/structured-output"));
    let structured = is_structured.then(|| structured(&mut fields, &place.key("structured"), report));
    fields.finish(report, place, "an output");
    Some(OutputSpec { source: Some(source?), structured: transpose(structured)?, ..OutputSpec::default() })
}

fn structured(fields: &mut Fields<'_>, place: &Place, report: &mut Report) -> Option<StructuredOutput> {
    let mut complete = true;
    macro_rules! read {
        ($key:literal, $read:expr) => {
            match fields.get($key).map(|node| $read(node, &place.key($key), report)) {
                Some(None) => {
                    complete = false;
                    None
                }
                found => found.flatten(),
            }
        };
    }
    let choice = |names: &'static [(&'static str, &'static str)]| {
        move |node: &Node, place: &Place, report: &mut Report| fields::choice(node, names, place, report)
    };
    const STRATEGIES: &[(&str, &str)] = &[
        ("provider-native", "provider-native"),
        ("prompted-json", "prompted-json"),
        ("repair-parse", "repair-parse"),
        ("unsupported", "unsupported"),
    ];
    const FALLBACKS: &[(&str, &str)] = &[("prompted-json", "prompted-json"), ("none", "none")];
    read!("mode", choice(&[("structured", "structured")]));
    let schema_id = read!("schema-id", fields::keyword);
    let schema_version = read!("schema-version", fields::positive);
    let json_schema = read!("json-schema", |node: &Node, place: &Place, report: &mut Report| {
        fields::map(node, "a JSON Schema as a map", place, report)?;
        value::value(node, place, report)
    });
    let strategy_preference = read!("strategy-preference", choice(STRATEGIES));
    let fallback = read!("fallback", choice(FALLBACKS));
    let require_native = read!("require-provider-native?", fields::boolean);
    let max_attempts = read!("on-invalid", on_invalid);
    fields.know(&["strategy"]);
    let malli = fields.get("schema").map(ToString::to_string);
    if json_schema.is_none() {
        let message = "a structured output without :json-schema cannot be asked for: every run that reaches it fails";
        report.warn("missing-json-schema", fields.span, place, message);
    }
    complete.then(|| StructuredOutput {
        schema_id: schema_id.map(|id| id.as_ref().to_owned()),
        schema_version,
        json_schema,
        malli_schema: malli,
        strategy_preference: strategy_preference.map(str::to_owned),
        fallback: fallback.map(str::to_owned),
        require_provider_native: require_native.unwrap_or(false),
        max_attempts: max_attempts.unwrap_or(1),
    })
}

/// `{:action :fail-fast}` or `{:action :retry :max-attempts n}`.
fn on_invalid(node: &Node, place: &Place, report: &mut Report) -> Option<u32> {
    let mut fields = fields::map(node, "{:action :fail-fast} or {:action :retry :max-attempts 2}", place, report)?;
    let action = fields
        .raw("action")
        .map(|action| fields::choice(action, &[("fail-fast", false), ("retry", true)], &place.key("action"), report));
    let attempts = fields.get("max-attempts").map(|n| fields::positive(n, &place.key("max-attempts"), report));
    fields.finish(report, place, "an :on-invalid");
    let (action, attempts) = (transpose(action)?, transpose(attempts)?);
    match (action, attempts) {
        (Some(true), Some(attempts)) => Some(u32::try_from(attempts).unwrap_or(u32::MAX)),
        (Some(false), None) => Some(1),
        _ => {
            report.invalid(node.span, place, "expected {:action :fail-fast} or {:action :retry :max-attempts 2}");
            None
        }
    }
}

pub(super) fn yields(node: &Node, place: &Place, report: &mut Report) -> Option<Yields> {
    let mut fields = fields::map(node, "a yield like {:type :data :data :data}", place, report)?;
    let kind = fields.raw("type").and_then(Node::as_keyword);
    let yields = match kind {
        Some("data") => required(&mut fields, "data", fields::keyword, place, report).map(|data| Yields::Data { data }),
        Some("text") => required(&mut fields, "text", fields::keyword, place, report).map(|text| Yields::Text { text }),
        Some("error") => {
            let reason = required(&mut fields, "reason", fields::keyword, place, report);
            let message = required(&mut fields, "message", fields::string, place, report);
            let details = fields.get("details").map(|details| {
                let place = place.key("details");
                fields::map(details, "a map", &place, report)?;
                value::value(details, &place, report)
            });
            match (reason, message, transpose(details)) {
                (Some(reason), Some(message), Some(details)) => Some(Yields::Error { reason, message, details }),
                _ => None,
            }
        }
        Some("delegated") => Some(Yields::Delegated),
        _ => {
            let found = node.get("type").map_or_else(|| "none".to_owned(), ToString::to_string);
            let expected = format!("expected :type :data, :text, :error or :delegated, found {found}");
            report.invalid(node.span, &place.key("type"), expected);
            return None;
        }
    };
    fields.finish(report, place, "a yield");
    yields
}

/// The value of a key that must be there.
pub(super) fn required<T>(
    fields: &mut Fields<'_>,
    key: &'static str,
    read: impl Fn(&Node, &Place, &mut Report) -> Option<T>,
    place: &Place,
    report: &mut Report,
) -> Option<T> {
    match fields.raw(key) {
        Some(node) => read(node, &place.key(key), report),
        None => {
            report.missing(fields.span, &place.key(key), format!("add :{key}"));
            None
        }
    }
}

pub(super) fn judge(node: &Node, place: &Place, report: &mut Report) -> Option<Judge> {
    let mut fields = fields::map(node, "a judge like {:type :invoke :operation \"…\"}", place, report)?;
    let kind = fields.raw("type").and_then(Node::as_keyword);
    let judge = match kind {
        Some("llm") => llm_judge(&mut fields, place, report),
        Some("invoke") => invoke(&mut fields, &place.key("invoke"), report).map(|invoke| Judge::Invoke { invoke }),
        Some("expression") => own::expression_judge(&mut fields, place, report),
        Some("event") => own::event_judge(&mut fields, place, report),
        _ => {
            let help = "expected :type :llm or :type :invoke, or Opcell's own :expression and :event";
            report.compile_error(node.span, place, "Unsupported target workflow judge type", help);
            return None;
        }
    };
    fields.finish(report, place, "a judge");
    judge
}

fn llm_judge(fields: &mut Fields<'_>, place: &Place, report: &mut Report) -> Option<Judge> {
    let within = place.key("session");
    let settings = session::settings(fields, Owner::Judge, &within, report);
    let contributions = fields
        .get("contributions")
        .map(|node| source_spec::contributions(node, Allowed::All, &within.key("contributions"), report));
    let projection =
        fields.get("projection").map(|node| source_spec::projection(node, &place.key("projection"), report));
    let outputs = fields.get("outputs").map(|node| self::outputs(node, &place.key("outputs"), report));
    let mut session = settings?;
    session.contributions = transpose(contributions)?.unwrap_or_default();
    Some(Judge::Llm {
        session: Box::new(session),
        projection: transpose(projection)?,
        outputs: transpose(outputs)?.unwrap_or_default(),
    })
}

/// `{outcome {:goto …}}`.
pub(super) fn routes(node: &Node, place: &Place, report: &mut Report) -> Option<Vec<Route>> {
    report.stands(place, node.span);
    let Some(entries) = node.as_map() else {
        report.invalid(
            node.span,
            place,
            format!("expected a map like {{\"DONE\" {{:goto :done}}}}, found {}", node.noun()),
        );
        return None;
    };
    let routes: Vec<Option<Route>> = entries
        .iter()
        .enumerate()
        .map(|(i, (key, directive))| {
            let outcome = match (key.as_str(), key.as_keyword()) {
                (Some(text), _) => Outcome::Text(text.clone()),
                (None, Some(name)) => Outcome::Keyword(name.into()),
                (None, None) => {
                    report.invalid(key.span, place, format!("an outcome is a string or a keyword, found {key}"));
                    return None;
                }
            };
            route(outcome, directive, &place.entry(i, &key.to_string()), report)
        })
        .collect();
    routes.into_iter().collect()
}

fn route(outcome: Outcome, node: &Node, place: &Place, report: &mut Report) -> Option<Route> {
    let mut fields = fields::map(node, "a transition like {:goto \"step\"}", place, report)?;
    let goto = required(&mut fields, "goto", self::goto, place, report);
    let max = fields.get("max-iterations").map(|n| fields::positive(n, &place.key("max-iterations"), report));
    let on_max =
        fields.get("on-max-iterations").map(|node| (node, self::goto(node, &place.key("on-max-iterations"), report)));
    fields.finish(report, place, "a transition");
    if let (Some((node, _)), None) = (on_max.as_ref(), max) {
        let expected = "`:on-max-iterations` says where to go when `:max-iterations` is used up; add `:max-iterations`";
        report.invalid(node.span, &place.key("on-max-iterations"), expected);
        return None;
    }
    Some(Route {
        outcome,
        goto: goto?,
        max_iterations: transpose(max)?,
        on_max_iterations: transpose(on_max.map(|(_, goto)| goto))?,
    })
}

fn goto(node: &Node, place: &Place, report: &mut Report) -> Option<Goto> {
    report.stands(place, node.span);
    match (node.as_keyword(), node.as_str()) {
        (Some("next"), _) => Some(Goto::Next),
        (Some("previous"), _) => Some(Goto::Previous),
        (Some("done"), _) => Some(Goto::Done),
        (_, Some(step)) => Some(Goto::Step(step.clone())),
        _ => {
            report.invalid(
                node.span,
                place,
                format!("expected :next, :previous, :done or a step's name as a string, found {node}"),
            );
            None
        }
    }
}

/// `{:handoff {:type :markdown-handoff-data}}`; without `:handoff` it asks for nothing.
pub(super) fn terminal_contract(node: &Node, place: &Place, report: &mut Report) -> Option<Option<TerminalContract>> {
    let mut fields = fields::map(node, "{:handoff {:type :markdown-handoff-data}}", place, report)?;
    let handoff = fields.raw("handoff");
    fields.finish(report, place, "a terminal contract");
    let Some(handoff) = handoff else { return Some(None) };
    let place = place.key("handoff");
    let mut fields = fields::map(handoff, "{:type :markdown-handoff-data}", &place, report)?;
    let handoff = required(
        &mut fields,
        "type",
        |node, place, report| {
            fields::choice(node, &[("markdown-handoff-data", HandoffContract::MarkdownHandoffData)], place, report)
        },
        &place,
        report,
    );
    fields.finish(report, &place, "a handoff contract");
    Some(Some(TerminalContract { handoff: handoff? }))
}
