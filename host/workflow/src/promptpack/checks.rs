//! Checks of a workflow beyond the reference's own: errors where it would panic, drop a rule or run into a dead end at
//! run time, warnings where it runs all the same.

use super::composition::RESERVED_NAMES;
use super::governance;
use super::governed;
use super::pack::{Pack, Prompt};
use super::rules;
use super::speaker;
use super::spec::{Spec, State};
use super::template::{Piece, pieces};
use crate::json::pointer_part;
use opcell_ir::diagnostic::{Diagnostic, Severity, did_you_mean};
use opcell_ir::ir::Control;
use opcell_ir::print::go::quote;
use opcell_schema::Schema;
use opcell_types::Value;
use petgraph::{
    algo::kosaraju_scc,
    graph::{DiGraph, NodeIndex},
};
use std::collections::{BTreeMap, BTreeSet};

/// A finding and the JSON pointer of its place in the pack.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Code, message and help.
    pub diagnostic: Diagnostic,
    /// JSON Pointer into the pack.
    pub pointer: String,
}

struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, severity: Severity, code: &'static str, pointer: String, message: String, help: &str) {
        let diagnostic = match severity {
            Severity::Error => Diagnostic::error(code, message),
            Severity::Warning => Diagnostic::warning(code, message),
        };
        let diagnostic = if help.is_empty() { diagnostic } else { diagnostic.help(help) };
        self.0.push(Finding { diagnostic, pointer });
    }

    fn error(&mut self, code: &'static str, pointer: String, message: String, help: &str) {
        self.add(Severity::Error, code, pointer, message, help);
    }

    fn warning(&mut self, code: &'static str, pointer: String, message: String, help: &str) {
        self.add(Severity::Warning, code, pointer, message, help);
    }
}

/// Checks a pack that the reference's own validation has seen.
#[must_use]
pub fn checks(pack: &Pack) -> Vec<Finding> {
    let mut found = Findings(Vec::new());
    check_template_engine(pack, &mut found);
    found.0.extend(governance::check(pack));
    check_agents(pack, &mut found);
    check_requires(pack, &mut found);
    check_tools(pack, &mut found);
    check_outputs(pack, &mut found);
    check_order(pack, &mut found);
    check_terminations(pack, &mut found);
    if let Some(spec) = &pack.workflow {
        check_budget(spec, &mut found);
        for (name, state) in &spec.states {
            check_state(pack, name, state, &mut found);
        }
        check_artifact_modes(spec, &mut found);
        check_artifact_references(pack, spec, &mut found);
        check_reachability(pack, spec, &mut found);
        check_redirects(spec, &mut found);
        check_agent_loops(spec, &mut found);
    }
    found.0
}

/// Finds schemas of tools against which no call can be checked, and keywords in them that are probably misspelt.
fn check_tools(pack: &Pack, found: &mut Findings) {
    for (key, tool) in &pack.tools {
        let Some(parameters) = tool.parameters.as_ref().filter(|parameters| !parameters.is_nullish()) else { continue };
        let pointer = format!("/tools/{}/parameters", pointer_part(key));
        if let Err(problem) = Schema::shared(parameters) {
            let message = format!("tools[{}].parameters cannot be used: {problem}", quote(key));
            found.warning("pack-schema", pointer, message, "calls of the tool are checked against it, and fail");
            continue;
        }
        for slip in Schema::misspelt_keywords(&parameters.into()) {
            let message =
                format!("tools[{}].parameters: `{}` is not a keyword of JSON Schema", quote(key), slip.keyword);
            let help = format!("did you mean `{}`? It is ignored as it is", slip.meant);
            found.warning("pack-schema", format!("{pointer}{}", slip.pointer), message, &help);
        }
    }
}

/// The names of artifacts that any state declares.
fn artifact_names(spec: &Spec) -> BTreeSet<&str> {
    spec.states.values().flat_map(|state| state.artifacts.keys().map(String::as_str)).collect()
}

/// Finds what a pack asks of its template engine and this one does not do.
fn check_template_engine(pack: &Pack, found: &mut Findings) {
    let Some(engine) = pack.rest.get("template_engine") else { return };
    let text = |key: &str| engine.get(key).and_then(Value::as_str).unwrap_or_default().trim();
    let mut warn = |key: &str, message: String| {
        let help = "only `{{NAME}}` and `{{fragments.NAME}}` are filled in";
        found.warning("no-effect", format!("/template_engine/{key}"), message, help);
    };
    let version = text("version");
    let number = version.trim_start_matches(['v', 'V']);
    if number != "1" && !number.starts_with("1.") {
        warn(
            "version",
            format!("template_engine.version {} is not known: templates are read as \"v1\"", quote(version)),
        );
    }
    // Some packs name a language (`mustache`), and others write an example.
    let syntax = text("syntax");
    let is_example = syntax.contains(['{', '$', '<', '%', '[']);
    if is_example && !(syntax.starts_with("{{") && syntax.ends_with("}}")) {
        warn("syntax", format!("template_engine.syntax {} is not read: such tokens stay in the text", quote(syntax)));
    }
    let features = engine.get("features").and_then(Value::as_array);
    for (index, feature) in features.into_iter().flatten().filter_map(Value::as_str).enumerate() {
        if matches!(feature, "conditionals" | "loops" | "filters") {
            let message = format!("template_engine.features lists {}, which are not run here", quote(feature));
            warn(&format!("features/{index}"), message);
        }
    }
}

/// Returns `true` if a token may be a variable: one that a prompt declares, or that a run is given.
fn is_variable(name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    name.starts_with(|c: char| c.is_alphanumeric() || c == '_') && name.chars().all(is_part) && name != "else"
}

/// Checks the prompts that a workflow speaks with, by key: their fragments, tokens, defaults and tools.
pub(super) fn check_prompts(pack: &Pack, prompts: &[(&str, &Prompt)]) -> Vec<Finding> {
    let mut found = Findings(Vec::new());
    let mut defaults: BTreeMap<&str, Value> = BTreeMap::new();
    for (key, prompt) in prompts {
        let pointer = format!("/prompts/{}", pointer_part(key));
        let template = speaker::expand_fragments(pack, prompt);
        if let Err(message) = &template {
            found.error("fragments", format!("{pointer}/system_template"), message.clone(), "");
        }
        for name in speaker::unknown_fragments(template.as_deref().unwrap_or_default()) {
            let known: Vec<&str> = pack.fragments.keys().map(String::as_str).collect();
            let help = match did_you_mean(name, known.iter().copied()) {
                _ if known.is_empty() => "the pack has no `fragments`".to_owned(),
                Some(near) => format!("did you mean fragments.{near}? the pack has: {}", known.join(", ")),
                None => format!("the pack's fragments are: {}", known.join(", ")),
            };
            let message =
                format!("prompts[\"{key}\"] uses {{{{fragments.{name}}}}}, and the pack has no such fragment");
            found.error("unknown-fragment", format!("{pointer}/system_template"), message, &help);
        }
        for name in speaker::undeclared(prompt, template.as_deref().unwrap_or_default()) {
            let pointer = format!("{pointer}/system_template");
            // Blocks, filters, comments and partials of other template languages.
            if !is_variable(name) {
                let message = format!(
                    "prompts[\"{key}\"] uses {{{{{name}}}}}, which is not a variable: blocks and filters of other \
                     template languages are not run here"
                );
                let help = "write the text without it; only `{{NAME}}` and `{{fragments.NAME}}` are filled in";
                found.warning("undeclared-variable", pointer, message, help);
                continue;
            }
            let message =
                format!("prompts[\"{key}\"] uses {{{{{name}}}}} without declaring it: every run must provide it");
            let fragment = name.strip_prefix("fragment.").filter(|fragment| pack.fragments.contains_key(*fragment));
            let meant = fragment.map(|fragment| format!("fragments.{fragment}")).or_else(|| {
                let artifacts = pack.workflow.iter().flat_map(|spec| artifact_names(spec));
                let artifacts: Vec<String> = artifacts.map(|artifact| format!("artifacts.{artifact}")).collect();
                let given = artifacts.iter().map(String::as_str).chain(["workflow_context"]);
                let given = given.filter(|_| pack.workflow.is_some());
                let declared = prompt.variables.iter().map(|variable| variable.name.as_str());
                did_you_mean(name, declared.chain(given)).map(str::to_owned)
            });
            let help = match meant {
                Some(meant) => format!("add it to `variables`, or did you mean {{{{{meant}}}}}?"),
                None => "add it to `variables`".to_owned(),
            };
            found.warning("undeclared-variable", pointer, message, &help);
        }
        for (index, variable) in prompt.variables.iter().enumerate() {
            let pointer = format!("{pointer}/variables/{index}");
            match rules::problem(variable) {
                Some(rules::Problem::Unenforced(problem)) => {
                    let message = format!("variable {:?} has rules that cannot be kept: {problem}", variable.name);
                    let help =
                        "a rule that guards nothing must not look as if it did: write it another way, or leave it out";
                    found.error("unenforced-validation", format!("{pointer}/validation"), message, help);
                }
                Some(rules::Problem::Default(problem)) => {
                    let message =
                        format!("the default of variable {:?} breaks its own rules: {problem}", variable.name);
                    found.warning("default-breaks-rules", format!("{pointer}/default"), message, "");
                }
                None => {}
            }
            let Some(default) = speaker::default_of(variable) else { continue };
            if *defaults.entry(&variable.name).or_insert_with(|| default.clone()) != default {
                let message =
                    format!("variable {:?} has a different default in an earlier prompt, which applies", variable.name);
                found.warning("conflicting-defaults", pointer, message, "");
            }
        }
        if let Some(provider) = prompt
            .provider
            .as_deref()
            .filter(|key| pack.rest.contains_key("requires") && pack.providers().all(|known| known != *key))
        {
            let meant = did_you_mean(provider, pack.providers());
            let help = meant.map(|meant| format!("did you mean {meant}?")).unwrap_or_default();
            let message = format!("prompts[\"{key}\"].provider {provider:?} is not one of requires.providers");
            found.warning("unknown-provider", format!("{pointer}/provider"), message, &help);
        }
        let (_, refused) = governed::read(key, prompt);
        found.0.extend(
            refused.into_iter().map(|(diagnostic, below)| Finding { diagnostic, pointer: format!("{pointer}{below}") }),
        );
        let validators = prompt.rest.get("validators").and_then(Value::as_array).into_iter().flatten();
        for (index, _) in validators.enumerate().filter(|(_, it)| it.get("fail_on_violation").is_some()) {
            let message = format!("prompts[\"{key}\"].validators[{index}].fail_on_violation means nothing since 1.7");
            let pointer = format!("{pointer}/validators/{index}/fail_on_violation");
            let help = "leave it out; a rule that only observes is an eval, one that does nothing has `enabled: false`";
            found.warning("deprecated-field", pointer, message, help);
        }
        check_agent_tools(pack, key, prompt, &pointer, &mut found);
        // The reference finds out when the model calls one.
        let is_known = |tool: &str| {
            pack.tools.contains_key(tool) || pack.agent_tool(key, tool).is_some() || pack.is_itself(key, tool)
        };
        for (index, tool) in prompt.tools.iter().enumerate().filter(|(_, tool)| !is_known(tool)) {
            let members = pack.agents.iter().flat_map(|agents| agents.members.keys());
            let meant = did_you_mean(tool, pack.tools.keys().chain(members).map(String::as_str));
            let help = match meant {
                _ if pack.agents.is_some() && pack.prompts.contains_key(tool) => {
                    "list it under `agents.members` to call it as an agent".to_owned()
                }
                Some(meant) => format!("did you mean {meant}?"),
                None => "declare its interface under `tools`".to_owned(),
            };
            let message = format!("prompts[\"{key}\"].tools names {tool:?}, which the pack does not declare");
            found.warning("undeclared-tool", format!("{pointer}/tools/{index}"), message, &help);
        }
    }
    found.0
}

/// Checks the agents that a prompt calls (RFC 0007).
fn check_agent_tools(pack: &Pack, key: &str, prompt: &Prompt, pointer: &str, found: &mut Findings) {
    for (index, tool) in prompt.tools.iter().enumerate() {
        let mut reported = |code, what: &str, help: &str| {
            let message = format!("prompts[{}].tools names {}, {what}", quote(key), quote(tool));
            found.warning(code, format!("{pointer}/tools/{index}"), message, help);
        };
        if pack.is_itself(key, tool) {
            reported("agent-of-itself", "the agent itself, which cannot be its own tool", "leave it out");
        }
        let Some(agent) = pack.agent_tool(key, tool) else { continue };
        if pack.tools.contains_key(tool) {
            reported("agent-or-tool", "an agent and a tool; the agent is called", "give one of them a different key");
        }
        let takes_text = |mode: &String| mode.starts_with("text/") || mode == "*/*";
        if !agent.input_modes.is_empty() && !agent.input_modes.iter().any(takes_text) {
            reported("agent-without-text", "an agent that takes no text, the only input that an agent tool has", "");
        }
    }
}

fn state_pointer(name: &str) -> String {
    format!("/workflow/states/{}", pointer_part(name))
}

fn place(name: &str) -> String {
    format!("workflow.states[{}]", quote(name))
}

fn check_agents(pack: &Pack, found: &mut Findings) {
    let Some(agents) = &pack.agents else { return };
    if !agents.members.contains_key(&agents.entry) {
        let message = format!("agents.entry {} is not one of agents.members", quote(&agents.entry));
        found.error("unknown-agent", "/agents/entry".to_owned(), message, "name a member");
    }
    for (name, agent) in &agents.members {
        let pointer = format!("/agents/members/{}", pointer_part(name));
        if !pack.prompts.contains_key(name) {
            let message = format!("agents.members[{}] does not name a prompt", quote(name));
            found.error("unknown-prompt", pointer.clone(), message, "members are named after prompts");
        }
        let Some(state) = &agent.state else { continue };
        if pack.workflow.as_ref().is_none_or(|spec| !spec.states.contains_key(state)) {
            let message = format!("agents.members[{}].state {} does not exist in states", quote(name), quote(state));
            found.error("unknown-state", format!("{pointer}/state"), message, "");
        }
    }
}

/// Reports what a pack requires of a provider beside its key: the operator who binds it has to provide that.
fn check_requires(pack: &Pack, found: &mut Findings) {
    let listed = pack.rest.get("requires").and_then(|requires| requires.get("providers"));
    let by_prompts = pack.prompts.values().filter_map(|prompt| prompt.provider.as_deref());
    let by_steps =
        pack.compositions.values().flat_map(|composition| composition.all_steps()).map(|step| step.provider.as_str());
    let asked: BTreeSet<&str> = by_prompts.chain(by_steps).collect();
    for (index, entry) in listed.and_then(Value::as_array).into_iter().flatten().enumerate() {
        // Whether a session profile is mapped to a provider is known where a prompt names the provider.
        if let Some(key) = entry.as_str().or_else(|| entry.get("key")?.as_str()).filter(|key| !asked.contains(key)) {
            let message = format!(
                "requires.providers[{index}]: no prompt names {}, and whether a session profile is mapped to it is not checked",
                quote(key)
            );
            let help = format!("add `\"provider\": {}` to the prompts that need it", quote(key));
            found.warning("unasked-provider", format!("/requires/providers/{index}"), message, &help);
        }
        let more: Vec<&str> = entry
            .as_object()
            .into_iter()
            .flat_map(|entry| entry.keys())
            .map(AsRef::as_ref)
            .filter(|key| !matches!(*key, "key" | "description" | "name"))
            .collect();
        if !more.is_empty() {
            let message = format!(
                "requires.providers[{index}]: {} is not checked against the session profile mapped to the provider",
                more.join(", ")
            );
            let help = "the operator binds the provider under [sessions.profiles] and sees to it";
            found.warning("no-effect", format!("/requires/providers/{index}"), message, help);
        }
    }
}

/// Checks that a composition returns a step that has an output.
fn check_outputs(pack: &Pack, found: &mut Findings) {
    for (name, composition) in &pack.compositions {
        let step = composition.all_steps().into_iter().find(|step| step.id == composition.output);
        if step.is_some_and(|step| step.kind == "branch") {
            let message = format!(
                "compositions[{}].output {} is a branch, which has no output: every run would fail at its end",
                quote(name),
                quote(&composition.output)
            );
            found.error(
                "branch-as-output",
                format!("/compositions/{}/output", pointer_part(name)),
                message,
                "name a step that it leads to",
            );
        }
    }
}

/// References to steps that cannot have run before the step that reads them.
fn check_order(pack: &Pack, found: &mut Findings) {
    for (name, composition) in &pack.compositions {
        for forward in composition.forward_references() {
            let why = match forward.at_once {
                true => "runs at the same time",
                false if forward.names == forward.step => "is the step itself",
                false => "runs later",
            };
            let message = format!(
                "compositions[{}].steps[{}] reads ${{{}…}}, which {why}: every run would fail there",
                quote(name),
                quote(forward.step),
                forward.names
            );
            let pointer = format!("/compositions/{}{}", pointer_part(name), forward.pointer);
            let help = "a reference names `input` or a step that comes before it in the list";
            found.error("forward-reference", pointer, message, help);
        }
    }
}

/// A tool that ends an agent's step must be one that it has: else only `max_steps` ends it, or nothing does.
fn check_terminations(pack: &Pack, found: &mut Findings) {
    for (name, composition) in &pack.compositions {
        for step in composition.all_steps() {
            let Some(until) = step.termination.as_ref().filter(|until| !until.tool_called.is_empty()) else { continue };
            if step.tools.contains(&until.tool_called) {
                continue;
            }
            let meant = did_you_mean(&until.tool_called, step.tools.iter().map(String::as_str));
            let help = match meant {
                Some(meant) => format!("did you mean {meant}?"),
                None => "add it to the step's `tools`".to_owned(),
            };
            let message = format!(
                "compositions[{}].steps[{}].termination.tool_called names {}, which is not among the step's tools: it can \
                 never be called",
                quote(name),
                quote(&step.id),
                quote(&until.tool_called)
            );
            found.warning("unreachable-termination", format!("/compositions/{}", pointer_part(name)), message, &help);
        }
    }
}

fn check_budget(spec: &Spec, found: &mut Findings) {
    if let Some(key) = spec.engine.keys().find(|key| **key != "budget" && did_you_mean(key, ["budget"]).is_some()) {
        let message = format!("workflow.engine has no key {} that is read here: the run has no limits", quote(key));
        let pointer = format!("/workflow/engine/{}", pointer_part(key));
        found.warning("no-effect", pointer, message, "did you mean `budget`?");
    }
    let Some(raw) = spec.engine.get("budget").filter(|raw| !raw.is_nullish()) else { return };
    let pointer = "/workflow/engine/budget".to_owned();
    let Some(budget) = spec.budget() else {
        let message = "workflow.engine.budget is malformed, and the reference would run without limits";
        return found.error("malformed-budget", pointer, message.to_owned(), "limits are whole numbers above 0");
    };
    let limits = [
        ("max_total_visits", budget.max_total_visits),
        ("max_tool_calls", budget.max_tool_calls),
        ("max_wall_time_sec", budget.max_wall_time_sec),
    ];
    for (key, limit) in limits.into_iter().filter(|(key, limit)| raw.get(key).is_some() && *limit < 1) {
        let message = format!("workflow.engine.budget.{key} is {limit}: a limit is at least 1");
        found.error("malformed-budget", format!("{pointer}/{key}"), message, "leave it out for no limit");
    }
    for key in raw.as_object().into_iter().flat_map(|entries| entries.keys()) {
        if !limits.iter().any(|(known, _)| known == &key.as_ref()) {
            let meant = did_you_mean(key, limits.iter().map(|(known, _)| *known));
            let help = meant.map(|meant| format!("did you mean {meant}?")).unwrap_or_default();
            let message = format!("workflow.engine.budget has no limit {}", quote(key));
            found.error("malformed-budget", format!("{pointer}/{}", pointer_part(key)), message, &help);
        }
    }
    for (name, state) in spec.states.iter().filter(|_| budget.max_total_visits > 0) {
        if state.max_visits > budget.max_total_visits {
            let message = format!(
                "{}.max_visits is {}, and workflow.engine.budget.max_total_visits ends the run at {} before that",
                place(name),
                state.max_visits,
                budget.max_total_visits
            );
            let help = "lower it, or raise the budget (RFC 0009)";
            found.warning("unreachable-limit", format!("{}/max_visits", state_pointer(name)), message, help);
        }
    }
    if budget.max_total_visits == 1 && spec.states.get(&spec.entry).is_some_and(|state| !state.is_terminal()) {
        let message =
            "workflow.engine.budget.max_total_visits is 1: the entry uses it up, and no event can ever happen";
        found.warning("budget-too-small", format!("{pointer}/max_total_visits"), message.to_owned(), "");
    }
}

fn check_state(pack: &Pack, name: &str, state: &State, found: &mut Findings) {
    let pointer = state_pointer(name);
    if state.max_visits < 0 {
        let message = format!("{}.max_visits is {}: a limit is at least 1", place(name), state.max_visits);
        found.error("negative-limit", format!("{pointer}/max_visits"), message, "leave it out for no limit");
    }
    if state.on_event.contains_key("") {
        let message = format!("{}.on_event has an event without a name", place(name));
        found.error("empty-event", format!("{pointer}/on_event/"), message, "");
    }
    if state.is_composition() && !state.composition.is_empty() {
        if !pack.compositions.contains_key(&state.composition) {
            let meant = did_you_mean(&state.composition, pack.compositions.keys().map(String::as_str));
            let help = meant.map(|meant| format!("did you mean {meant}?")).unwrap_or_default();
            let message = format!("{}.composition {} does not exist", place(name), quote(&state.composition));
            found.error("unknown-composition", format!("{pointer}/composition"), message, &help);
        }
        if RESERVED_NAMES.contains(&name) {
            let message = format!("{}: the name is reserved for a tool of the runtime", place(name));
            found.warning("reserved-name", pointer.clone(), message, "");
        }
    }
    if !state.on_max_visits.is_empty() && state.max_visits <= 0 {
        let message = format!("{}.on_max_visits has no effect without max_visits", place(name));
        found.warning("unused-fallback", format!("{pointer}/on_max_visits"), message, "set max_visits");
    }
    for (artifact, def) in &state.artifacts {
        if !matches!(def.mode.as_str(), "" | "replace" | "append") {
            let mode = quote(&def.mode);
            let message =
                format!("{}.artifacts[{}].mode {mode} is not replace or append", place(name), quote(artifact));
            let pointer = format!("{pointer}/artifacts/{}/mode", pointer_part(artifact));
            found.error("unknown-artifact-mode", pointer, message, "the reference would replace");
        }
    }
}

/// Ways back to a state on which no one but models decides and no limit stands (RFC 0014).
fn check_agent_loops(spec: &Spec, found: &mut Findings) {
    if spec.budget().is_some() {
        return;
    }
    let goes_on = |state: &State| state.control() == Control::Agent || state.is_composition();
    let free: Vec<(&String, &State)> = spec
        .states
        .iter()
        .filter(|(_, state)| goes_on(state) && state.max_visits <= 0 && !state.is_terminal())
        .collect();
    let places: BTreeMap<&str, usize> = free.iter().enumerate().map(|(at, (name, _))| (name.as_str(), at)).collect();
    let mut graph: DiGraph<(), ()> = DiGraph::new();
    for _ in &free {
        graph.add_node(());
    }
    for (at, (_, state)) in free.iter().enumerate() {
        for to in state.on_event.values().filter_map(|target| places.get(target.as_str())) {
            graph.add_edge(NodeIndex::new(at), NodeIndex::new(*to), ());
        }
    }
    let is_loop = |states: &Vec<NodeIndex>| states.len() > 1 || states.iter().any(|at| graph.contains_edge(*at, *at));
    let mut loops: Vec<Vec<NodeIndex>> = kosaraju_scc(&graph).into_iter().filter(is_loop).collect();
    loops.iter_mut().for_each(|states| states.sort_unstable());
    loops.sort_unstable();
    for states in loops {
        let names: Vec<&str> =
            states.iter().filter_map(|at| free.get(at.index())).map(|(name, _)| name.as_str()).collect();
        let Some(first) = names.first() else { continue };
        let message = match names.as_slice() {
            [one] => format!("{}: models may route it back to itself forever, without a bound", place(one)),
            all => {
                let all: Vec<String> = all.iter().map(|name| quote(name)).collect();
                format!("models may loop through the states {} forever, without a bound", all.join(", "))
            }
        };
        found.warning("unbounded-agent-loop", state_pointer(first), message, "set max_visits or engine.budget");
    }
}

fn check_artifact_modes(spec: &Spec, found: &mut Findings) {
    let mut first: BTreeMap<&str, (&str, bool)> = BTreeMap::new();
    for (name, state) in &spec.states {
        for (artifact, def) in &state.artifacts {
            let (other, appends) = *first.entry(artifact).or_insert((name, def.appends()));
            if appends != def.appends() {
                let message = format!(
                    "artifact {} is appended in one of the states {} and {} and replaced in the other",
                    quote(artifact),
                    quote(other),
                    quote(name)
                );
                let pointer = format!("{}/artifacts/{}", state_pointer(name), pointer_part(artifact));
                found.error("conflicting-artifact-modes", pointer, message, "an artifact has one mode in all states");
            }
        }
    }
}

fn check_artifact_references(pack: &Pack, spec: &Spec, found: &mut Findings) {
    let declared: BTreeSet<&str> =
        spec.states.values().flat_map(|state| state.artifacts.keys().map(String::as_str)).collect();
    for (key, prompt) in speaker::spoken(pack, spec.states.values()) {
        let template = speaker::expand_fragments(pack, prompt).unwrap_or_else(|_| prompt.system_template.clone());
        let pointer = format!("/prompts/{}/system_template", pointer_part(key));
        let read: BTreeSet<&str> = pieces(&template)
            .filter_map(|piece| match piece {
                Piece::Token { name, .. } => name.trim().strip_prefix("artifacts."),
                Piece::Text(_) => None,
            })
            .collect();
        for artifact in read {
            if !declared.contains(artifact) {
                let meant = did_you_mean(artifact, declared.iter().copied());
                let help = meant.map(|meant| format!("did you mean {meant}?")).unwrap_or_default();
                let message =
                    format!("prompts[{}] uses artifact {}, which no state declares", quote(key), quote(artifact));
                found.error("unknown-artifact", pointer.clone(), message, &help);
                continue;
            }
            let speaks = |state: &State| !state.is_composition() && state.prompt_task == key;
            let without =
                spec.states.iter().filter(|(_, state)| speaks(state) && !state.artifacts.contains_key(artifact));
            for (state, _) in without {
                let message = format!(
                    "{} speaks with prompts[{}], which uses artifact {}, and does not declare it",
                    place(state),
                    quote(key),
                    quote(artifact)
                );
                let help = "declare it in this state as well (RFC 0009); here it is read all the same";
                found.warning("undeclared-artifact", state_pointer(state), message, help);
            }
        }
    }
}

/// States that a run can be in: those it may start in, and what their events and fallbacks lead to.
fn reachable(pack: &Pack, spec: &Spec) -> BTreeSet<String> {
    let agents = pack.agents.iter().flat_map(|agents| agents.members.values()).filter_map(|agent| agent.state.clone());
    let mut waiting: Vec<String> = agents.chain([spec.entry.clone()]).collect();
    let mut seen = BTreeSet::new();
    while let Some(name) = waiting.pop() {
        let Some(state) = spec.states.get(&name).filter(|_| !seen.contains(&name)) else { continue };
        if !state.terminal {
            waiting.extend(state.on_event.values().cloned());
        }
        waiting.extend(Some(state.on_max_visits.clone()).filter(|fallback| !fallback.is_empty()));
        seen.insert(name);
    }
    seen
}

fn check_reachability(pack: &Pack, spec: &Spec, found: &mut Findings) {
    let reached = reachable(pack, spec);
    for name in spec.states.keys().filter(|name| !reached.contains(*name)) {
        let message = format!("{}: unreachable from the entry {}", place(name), quote(&spec.entry));
        found.warning("unreachable-state", state_pointer(name), message, "");
    }
    let ends = can_end(spec);
    for name in spec.states.keys().filter(|name| reached.contains(*name) && !ends.contains(name.as_str())) {
        let message = format!("{}: no path leads from here to a terminal state", place(name));
        found.warning("no-terminal-path", state_pointer(name), message, "");
    }
}

/// States from which a terminal one can be reached, found backwards.
fn can_end(spec: &Spec) -> BTreeSet<&str> {
    let mut before: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, state) in &spec.states {
        for target in state.on_event.values().chain([&state.on_max_visits]) {
            before.entry(target).or_default().push(name);
        }
    }
    let mut waiting: Vec<&str> =
        spec.states.iter().filter(|(_, state)| state.is_terminal()).map(|(name, _)| name.as_str()).collect();
    let mut ends = BTreeSet::new();
    while let Some(name) = waiting.pop() {
        if ends.insert(name) {
            waiting.extend(before.get(name).into_iter().flatten());
        }
    }
    ends
}

/// A fallback is taken once and without asking about its own limit; one that leads back is a guard that guards nothing.
fn check_redirects(spec: &Spec, found: &mut Findings) {
    let fallback = |name: &str| {
        let state = spec.states.get(name)?;
        spec.states.get_key_value(&state.on_max_visits).filter(|_| state.max_visits > 0).map(|(name, _)| name.as_str())
    };
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for start in spec.states.keys() {
        let mut path = Vec::new();
        let mut at = Some(start.as_str());
        while let Some(name) = at.filter(|name| seen.insert(name)) {
            path.push(name);
            at = fallback(name);
        }
        // The path ended in a state that was seen: a cycle if that state is on this very path.
        let Some(entry) = at.and_then(|name| path.iter().position(|on_path| *on_path == name)) else { continue };
        let cycle = path.split_off(entry);
        for name in &cycle {
            let pointer = format!("{}/on_max_visits", state_pointer(name));
            if cycle.len() == 1 {
                let message = format!("{}.on_max_visits names the state itself: max_visits has no effect", place(name));
                found.error("self-fallback", pointer, message, "name another state, or leave it out");
            } else {
                let message = format!("{}.on_max_visits leads back here through other fallbacks", place(name));
                found.warning("redirect-cycle", pointer, message, "change one of them");
            }
        }
    }
}
