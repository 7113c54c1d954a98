//! From a prompt to a session: its text and variables, its tools and how they may be used, how the model generates.

use super::composition::Composition;
use super::governance;
use super::governed;
use super::pack::{Pack, Prompt, Tool, Variable};
use super::rules;
use super::spec::State;
use super::template::{Piece, pieces};
use indexmap::IndexMap;
use opcell_ir::expr::Expression;
use opcell_ir::ir::{Input, OwnSkill, PathSegment, PromptMode, Session, SourceRef, SourceSpec, ToolShape, ValueSpec};
use opcell_types::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The beginning of a token that names a fragment.
const FRAGMENTS: &str = "fragments.";
/// The maximum nesting of fragments in fragments.
const MAX_FRAGMENT_DEPTH: usize = 16;
/// The maximum length of a template with its fragments, in bytes.
const MAX_TEMPLATE: usize = 1 << 20;

/// A session that speaks with a prompt and these tools of the pack, by key: without what the prompt's policy blocks,
/// and none at all where it says `none`.
pub(super) fn session<'k>(pack: &Pack, key: &str, tools: impl IntoIterator<Item = &'k String>) -> Session {
    let nothing = Prompt::default();
    let prompt = pack.prompts.get(key).unwrap_or(&nothing);
    let template = expand_fragments(pack, prompt).unwrap_or_else(|_| prompt.system_template.clone());
    let policy = &prompt.tool_policy;
    let choice = policy.tool_choice.as_deref();
    let is_blocked = |key: &str| policy.is_blocked(key) || policy.is_blocked(tool_name(pack, key));
    let tools: Vec<&String> = tools.into_iter().filter(|key| !is_blocked(key)).collect();
    let parameters = &prompt.parameters;
    let (governed, _) = governed::read(key, prompt);
    Session {
        variables: variables(prompt, &template),
        system_prompt: Some(template),
        prompt_mode: Some(PromptMode::Prose),
        // The template is the whole of what a pack's author sends the model.
        prompt_component_selection: Some(Value::object([("components", Value::array([]))])),
        tools: Some(tools.iter().map(|key| tool_name(pack, key).to_owned()).collect()),
        session_profile: prompt.provider.clone(),
        tool_shapes: tools.iter().filter_map(|key| pack.tools.get(*key)).map(shape).collect(),
        max_rounds: policy.max_rounds,
        max_tool_calls: policy.max_tool_calls_per_turn,
        temperature: parameters.temperature,
        generation: parameters.generation(choice == Some("required")),
        approve: governance::approvals(pack, key),
        guards: governed.guards,
        media: governed.media,
        model_overrides: governed.overrides,
        ..Session::default()
    }
}

/// Gives a session the pack's skills: those that are read at the start stand in its text, the others are there when the
/// model asks.
pub(super) fn teach(session: &mut Session, skills: IndexMap<String, OwnSkill>) {
    for (name, skill) in skills.iter().filter(|(_, skill)| skill.preload) {
        let token = format!("skills.{name}");
        let text = session.system_prompt.get_or_insert_default();
        text.push_str(&format!("\n\n# Skill: {name}\n\n{{{{{token}}}}}"));
        let value = Value::from(skill.instructions.as_str());
        session.variables.insert(token.into(), ValueSpec::Literal { value });
    }
    session.own_skills = skills;
}

/// Returns the name under which models and hosts call a tool: its own name, or its key where the pack does not declare
/// it.
pub(super) fn tool_name<'p>(pack: &'p Pack, key: &'p str) -> &'p str {
    pack.tools.get(key).map_or(key, |tool| &tool.name)
}

fn shape(tool: &Tool) -> (String, ToolShape) {
    let anything = || Value::object([("type", Value::from("object"))]);
    let parameters = tool.parameters.clone().unwrap_or_else(anything);
    (tool.name.clone(), ToolShape { description: tool.description.clone(), parameters })
}

/// Returns the values of a template's tokens: what the host gave or its default, artifacts, and what a transition
/// carried over.
fn variables(prompt: &Prompt, template: &str) -> IndexMap<Arc<str>, ValueSpec> {
    let declared = prompt.variables.iter().map(|variable| (variable.name.as_str().into(), input(&variable.name)));
    let mut variables: IndexMap<Arc<str>, ValueSpec> = declared.collect();
    // They come first, whatever tokens are added.
    let declared = variables.len();
    for token in tokens(template) {
        let name = token.trim();
        let stands_for = if let Some(artifact) = name.strip_prefix("artifacts.") {
            let from = SourceRef::Artifact { artifact: artifact.into() };
            ValueSpec::Source(SourceSpec { from, path: None, projection: None })
        } else if name == "workflow_context" {
            ValueSpec::Literal { value: Value::from("") }
        } else if variables.get_index_of(name).is_some_and(|at| at < declared) {
            if token == name {
                continue;
            }
            input(name)
        } else {
            given(name)
        };
        variables.insert(token.into(), stands_for);
    }
    variables
}

/// The insides of a template's tokens, blanks included: `{{ name }}` means `name`, and is replaced as it is written.
fn tokens(template: &str) -> impl Iterator<Item = &str> {
    pieces(template).filter_map(|piece| match piece {
        Piece::Token { name, .. } => Some(name),
        Piece::Text(_) => None,
    })
}

/// Tokens that neither the prompt nor the workflow gives a meaning: every run must give them.
pub(super) fn undeclared<'t>(prompt: &Prompt, template: &'t str) -> BTreeSet<&'t str> {
    let declared = declared_names(prompt);
    tokens(template)
        .map(str::trim)
        .filter(|name| !name.starts_with("artifacts.") && !name.starts_with(FRAGMENTS) && *name != "workflow_context")
        .filter(|name| !declared.contains(name))
        .collect()
}

fn declared_names(prompt: &Prompt) -> BTreeSet<&str> {
    prompt.variables.iter().map(|variable| variable.name.as_str()).collect()
}

/// The fragments that a template, whose fragments are in place, names and the pack does not have.
pub(super) fn unknown_fragments(template: &str) -> BTreeSet<&str> {
    tokens(template).filter_map(|token| token.trim().strip_prefix(FRAGMENTS)).map(str::trim).collect()
}

/// The fragment that a token names: `fragments.tone`, or `tone` alone unless the prompt declares a variable of that
/// name.
fn fragment<'p>(pack: &'p Pack, declared: &BTreeSet<&str>, token: &str) -> Option<&'p String> {
    let name = token.trim();
    match name.strip_prefix(FRAGMENTS) {
        Some(name) => pack.fragments.get(name.trim()),
        None => pack.fragments.get(name).filter(|_| !declared.contains(name)),
    }
}

/// A declared variable: what the host gave, or its default.
fn input(name: &str) -> ValueSpec {
    ValueSpec::Expression { expression: Expression::new(format!("$inputs.{name}")) }
}

/// A variable that no one declared: whatever the host gave under its name.
fn given(name: &str) -> ValueSpec {
    ValueSpec::Source(SourceSpec {
        from: SourceRef::WorkflowInput,
        path: Some(vec![PathSegment::Key(name.into())]),
        projection: None,
    })
}

/// The prompts that states speak with, the steps of their compositions included, in the pack's order.
pub(super) fn spoken<'p>(pack: &'p Pack, states: impl Iterator<Item = &'p State>) -> Vec<(&'p str, &'p Prompt)> {
    let mut keys = BTreeSet::new();
    for state in states {
        match pack.compositions.get(&state.composition).filter(|_| state.is_composition()) {
            Some(composition) => keys.extend(asked(composition)),
            None => drop(keys.insert(state.prompt_task.as_str())),
        }
    }
    pack.prompts.iter().map(|(key, prompt)| (key.as_str(), prompt)).filter(|(key, _)| keys.contains(key)).collect()
}

/// The prompts that a composition asks.
pub(super) fn asked(composition: &Composition) -> BTreeSet<&str> {
    composition.all_steps().into_iter().map(|step| step.prompt_task.as_str()).filter(|key| !key.is_empty()).collect()
}

/// Returns the inputs that the host may give: every variable of these prompts, the first default that one of them has.
pub(super) fn inputs<'p>(prompts: impl IntoIterator<Item = &'p Prompt>) -> IndexMap<Arc<str>, Input> {
    let mut inputs: IndexMap<Arc<str>, Input> = IndexMap::new();
    // Prompts may declare one variable, each with its own rules: all of them hold.
    let mut plain: BTreeSet<&str> = BTreeSet::new();
    let mut further: IndexMap<Arc<str>, IndexMap<String, Value>> = IndexMap::new();
    for variable in prompts.into_iter().flat_map(|prompt| &prompt.variables) {
        let is_plain = variable.rest.get("validation").is_none_or(Value::is_nullish);
        let input = inputs.entry(variable.name.as_str().into()).or_insert_with(|| Input {
            kind: variable.kind.clone(),
            default: None,
            description: variable.description.clone(),
            schema: None,
        });
        // Mostly a variable is declared with the same type and no more.
        let is_known = is_plain && plain.contains(variable.name.as_str()) && input.kind == variable.kind;
        match (&input.schema, if is_known { None } else { rules::schema(variable) }) {
            (None, first) => {
                if is_plain {
                    plain.insert(&variable.name);
                }
                input.schema = first;
            }
            (Some(known), Some(more)) if *known != more => {
                further.entry(variable.name.as_str().into()).or_default().insert(more.to_json(), more);
            }
            (Some(_), _) => {}
        }
        if input.default.is_none() {
            input.default = default_of(variable);
        }
    }
    for (name, further) in further {
        if let Some(input) = inputs.get_mut(&name) {
            let all = input.schema.take().into_iter().chain(further.into_values());
            input.schema = Some(Value::object([("allOf", Value::array(all))]));
        }
    }
    inputs
}

/// A variable that is not required and has no default is empty.
pub(super) fn default_of(variable: &Variable) -> Option<Value> {
    match &variable.default {
        Some(default) if !default.is_nullish() => Some(default.clone()),
        _ if variable.required => None,
        _ => Some(Value::from("")),
    }
}

/// A template with its fragments in place. Fragments are the author's text, so tokens in them count.
///
/// # Errors
/// When fragments never end.
pub(super) fn expand_fragments(pack: &Pack, prompt: &Prompt) -> Result<String, String> {
    let declared = declared_names(prompt);
    let mut text = prompt.system_template.clone();
    for _ in 0..MAX_FRAGMENT_DEPTH {
        let mut changed = false;
        let mut out = String::with_capacity(text.len());
        for piece in pieces(&text) {
            match piece {
                Piece::Text(literal) => out.push_str(literal),
                Piece::Token { name, whole } => match fragment(pack, &declared, name) {
                    Some(fragment) => {
                        out.push_str(fragment);
                        changed = true;
                    }
                    None => out.push_str(whole),
                },
            }
            if out.len() > MAX_TEMPLATE {
                return Err(format!("fragments make the template longer than {MAX_TEMPLATE} bytes"));
            }
        }
        text = out;
        if !changed {
            return Ok(text);
        }
    }
    Err(format!("fragments nest more than {MAX_FRAGMENT_DEPTH} deep, or contain themselves"))
}
