//! Session settings: models, tools, skills, sampling, prompts.

use super::{
    fields::{self, Fields},
    report::{Place, Report},
    source_spec::{self, Allowed, transpose},
    value,
};
use crate::edn::{Kind, Node};
use opcell_ir::ir::{
    ApprovalRules, CodeMode, ModelQuery, ModelSelection, PromptGroup, PromptMode, ResponseMode, Session, ThinkingLevel,
};
use std::sync::Arc;

const THINKING_LEVELS: &[(&str, ThinkingLevel)] = &[
    ("off", ThinkingLevel::Off),
    ("minimal", ThinkingLevel::Minimal),
    ("low", ThinkingLevel::Low),
    ("medium", ThinkingLevel::Medium),
    ("high", ThinkingLevel::High),
    ("xhigh", ThinkingLevel::Xhigh),
];

const RESPONSE_MODES: &[(&str, ResponseMode)] =
    &[("streaming", ResponseMode::Streaming), ("non-streaming", ResponseMode::NonStreaming)];

const CODE_LANGUAGES: &[(&str, CodeMode)] = &[
    ("js", CodeMode::Javascript),
    ("javascript", CodeMode::Javascript),
    ("py", CodeMode::Python),
    ("python", CodeMode::Python),
];

const PROMPT_MODES: &[(&str, PromptMode)] = &[("lambda", PromptMode::Lambda), ("prose", PromptMode::Prose)];

/// The owner of the settings: each accepts its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Step,
    Judge,
    Delegate,
}

/// The session settings among a step's or judge's fields. `None` when one of them is wrong.
pub(super) fn settings(fields: &mut Fields<'_>, owner: Owner, place: &Place, report: &mut Report) -> Option<Session> {
    let mut session = Session::default();
    let mut complete = true;
    // Reads one setting: absent stays absent, wrong is reported and remembered.
    macro_rules! setting {
        ($field:ident, $node:expr, $key:literal, $read:expr) => {
            if let Some(node) = $node {
                match $read(node, &place.key($key), report) {
                    Some(value) => session.$field = Some(value),
                    None => complete = false,
                }
            }
        };
    }
    setting!(model, fields.get("model"), "model", model);
    setting!(
        thinking_level,
        fields.raw("thinking-level"),
        "thinking-level",
        |node: &Node, place: &Place, report: &mut Report| { fields::choice(node, THINKING_LEVELS, place, report) }
    );
    if owner != Owner::Judge {
        setting!(session_profile, fields.raw("session-profile"), "session-profile", session_profile);
    }
    setting!(tools, fields.raw("tools"), "tools", fields::strings);
    setting!(skills, fields.raw("skills"), "skills", fields::strings);
    setting!(system_prompt, fields.raw("system-prompt"), "system-prompt", text);
    setting!(
        prompt_component_selection,
        fields.get("prompt-component-selection"),
        "prompt-component-selection",
        component_selection
    );
    setting!(
        response_mode,
        fields.get("response-mode"),
        "response-mode",
        |node: &Node, place: &Place, report: &mut Report| { fields::choice(node, RESPONSE_MODES, place, report) }
    );
    setting!(temperature, fields.get("temperature"), "temperature", temperature);
    setting!(logprobs, fields.raw("logprobs"), "logprobs", fields::boolean);
    setting!(top_logprobs, fields.raw("top-logprobs"), "top-logprobs", top_logprobs);
    // Opcell's own.
    setting!(code, fields.get("code"), "code", code);
    match fields.get("approve").map(|node| approve(node, &place.key("approve"), report)) {
        Some(Some(rules)) => session.approve = rules,
        Some(None) => complete = false,
        None => {}
    }
    setting!(extensions, fields.raw("extensions"), "extensions", fields::strings);
    setting!(workflows, fields.raw("workflows"), "workflows", fields::strings);
    // A delegate adds to the prompts of its callee; it does not take their place.
    if owner != Owner::Delegate {
        setting!(replace_system_prompt, fields.raw("replace-system-prompt"), "replace-system-prompt", text);
    }
    setting!(
        prompt_mode,
        fields.raw("prompt-mode"),
        "prompt-mode",
        |node: &Node, place: &Place, report: &mut Report| { fields::choice(node, PROMPT_MODES, place, report) }
    );
    setting!(max_rounds, fields.raw("max-rounds"), "max-rounds", |node: &Node, place: &Place, report: &mut Report| {
        fields::positive(node, place, report).map(|n| u32::try_from(n).unwrap_or(u32::MAX))
    });
    complete.then_some(session)
}

fn text(node: &Node, place: &Place, report: &mut Report) -> Option<String> {
    fields::string(node, place, report).map(|text| text.as_ref().to_owned())
}

/// The language of programs, `{:language :js}`, or `:off`.
fn code(node: &Node, place: &Place, report: &mut Report) -> Option<CodeMode> {
    if node.as_keyword() == Some("off") {
        return fields::choice(node, &[("off", CodeMode::Off)], place, report);
    }
    let found = Fields::of(node).and_then(|mut fields| fields.get("language").map(|language| (fields, language)));
    let Some((fields, language)) = found else {
        report.invalid(node.span, place, format!("expected a map like {{:language :js}}, or :off, found {node}"));
        return None;
    };
    report.stands(place, node.span);
    let found = fields::choice(language, CODE_LANGUAGES, &place.key("language"), report);
    fields.finish(report, place, "the setting of programs");
    found
}

fn session_profile(node: &Node, place: &Place, report: &mut Report) -> Option<String> {
    report.stands(place, node.span);
    let name = node.as_keyword().filter(|name| opcell_ir::names::is_profile_name(name));
    if name.is_none() {
        let message = "Session profile names must be selectable unqualified non-reserved keywords matching /session-profile token grammar";
        report.compile_error(node.span, place, message, format!("expected a keyword like :careful, found {node}"));
    }
    name.map(str::to_owned)
}

/// Rules for calls: `:always`, a map such as `{:when {:commands ["git push"]}}`, or a vector of these.
fn approve(node: &Node, place: &Place, report: &mut Report) -> Option<ApprovalRules> {
    report.stands(place, node.span);
    let value = value::value(node, place, report)?;
    let rules: Result<ApprovalRules, _> = serde_json::from_value(serde_json::Value::from(&value));
    let problem = match rules {
        Ok(rules) => match rules.problem().or_else(|| rules.schemas().find_map(unusable)) {
            None => return Some(rules.written_in("the step")),
            Some(problem) => problem,
        },
        Err(error) => error.to_string(),
    };
    report.invalid(node.span, place, format!("these rules for calls of tools cannot be used: {problem}"));
    None
}

fn unusable(schema: &opcell_types::Value) -> Option<String> {
    let problem = opcell_schema::Schema::shared(schema).err()?;
    Some(format!("the schema cannot be used: {problem}"))
}

fn component_selection(node: &Node, place: &Place, report: &mut Report) -> Option<opcell_types::Value> {
    fields::map(node, "a map like {:components #{:preamble :skills}}", place, report)?;
    value::value(node, place, report)
}

fn temperature(node: &Node, place: &Place, report: &mut Report) -> Option<f64> {
    report.stands(place, node.span);
    let found = match node.kind {
        Kind::Float(n) if (0.0..=2.0).contains(&n) => Some(n),
        _ => None,
    };
    if found.is_none() {
        let hint = node.as_integer().map(|n| format!("; write {n}.0")).unwrap_or_default();
        report.invalid(node.span, place, format!("expected a double from 0.0 to 2.0, found {node}{hint}"));
    }
    found
}

fn top_logprobs(node: &Node, place: &Place, report: &mut Report) -> Option<u32> {
    report.stands(place, node.span);
    let found = node.as_integer().and_then(|n| u32::try_from(n).ok()).filter(|n| (1..=20).contains(n));
    if found.is_none() {
        report.invalid(node.span, place, format!("expected an integer from 1 to 20, found {node}"));
    }
    found
}

/// A model's id, or `{:type :model-query :require […] :prefer […] :fallback model}`. Recursion through `:fallback` is
/// bounded by the reader's depth limit.
fn model(node: &Node, place: &Place, report: &mut Report) -> Option<ModelSelection> {
    report.stands(place, node.span);
    if let Some(id) = node.as_str() {
        return Some(ModelSelection::Id(id.as_ref().to_owned()));
    }
    let is_query = node.get("type").and_then(Node::as_keyword) == Some("model-query");
    let Some(mut fields) = Fields::of(node).filter(|_| is_query) else {
        report.invalid(node.span, place, format!("expected a model id or {{:type :model-query …}}, found {node}"));
        return None;
    };
    fields.know(&["type"]);
    let require = fields.get("require").map(|node| criteria(node, &place.key("require"), report));
    let prefer = fields.get("prefer").map(|node| criteria(node, &place.key("prefer"), report));
    let fallback = fields.get("fallback").map(|node| model(node, &place.key("fallback"), report));
    fields.finish(report, place, "a model query");
    Some(ModelSelection::Query(ModelQuery {
        require: transpose(require)?.unwrap_or_default(),
        prefer: transpose(prefer)?.unwrap_or_default(),
        fallback: transpose(fallback)?.map(Box::new),
    }))
}

fn criteria(node: &Node, place: &Place, report: &mut Report) -> Option<Vec<opcell_types::Value>> {
    let items = fields::vector(node, "keywords and maps", place, report)?;
    let values: Vec<Option<_>> = items
        .iter()
        .enumerate()
        .map(|(i, item)| {
            let place = place.index(i);
            if item.as_keyword().is_none() && item.as_map().is_none() {
                report.invalid(
                    item.span,
                    &place,
                    format!("expected a keyword or a map like {{:criterion …}}, found {item}"),
                );
                return None;
            }
            value::value(item, &place, report)
        })
        .collect();
    values.into_iter().collect()
}

/// Reads the prompts of a session step: one conversation, or a queue of them.
pub(super) fn prompts(
    fields: &mut Fields<'_>,
    session: &mut Session,
    place: &Place,
    report: &mut Report,
) -> Option<()> {
    let (contributions, prompts) = (fields.get("contributions"), fields.raw("prompts"));
    if let Some(prompts) = prompts {
        session.prompts = prompt_groups(prompts, &place.key("prompts"), report)?;
        return Some(());
    }
    if let Some(node) = contributions {
        session.contributions = source_spec::contributions(node, Allowed::All, &place.key("contributions"), report)?;
    }
    Some(())
}

fn prompt_groups(node: &Node, place: &Place, report: &mut Report) -> Option<Vec<PromptGroup>> {
    let items = fields::vector(node, "prompt groups", place, report)?;
    if items.is_empty() {
        report.invalid(node.span, place, "expected at least one prompt group");
        return None;
    }
    let groups: Vec<Option<PromptGroup>> =
        items.iter().enumerate().map(|(i, item)| prompt_group(item, &place.index(i), report)).collect();
    groups.into_iter().collect()
}

fn prompt_group(node: &Node, place: &Place, report: &mut Report) -> Option<PromptGroup> {
    let mut fields = fields::map(node, "a prompt group like {:name \"…\" :contributions […]}", place, report)?;
    let (name, contributions) = (fields.get("name"), fields.get("contributions"));
    fields.finish(report, place, "a prompt group");
    let contributions =
        contributions.map(|node| source_spec::contributions(node, Allowed::All, &place.key("contributions"), report));
    // A group without a name is refused by name, with its step, when the whole is checked.
    let name: Option<Arc<str>> = match name {
        Some(name) => fields::string(name, &place.key("name"), report),
        None => Some("".into()),
    };
    Some(PromptGroup { name: name?, contributions: transpose(contributions)?.unwrap_or_default() })
}
