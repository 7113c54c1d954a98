//! From a pack to the execution model: each state of the workflow becomes a step.

use super::agents;
use super::checks::{check_prompts, checks};
use super::compose::{self, compile_composition};
use super::composition::{Available, Composition, Step as Node, validate_all};
use super::contracts::Contracts;
use super::governance;
use super::pack::Pack;
use super::rules;
use super::schema::{Edition, SchemaError, check_pack};
use super::skills::Skills;
use super::speaker;
use super::spec::State;
use super::validate::{ValidationResult, validate};
use super::weight;
use crate::companions::{Companions, NoCompanions};
use crate::json::{Document, pointer_part};
use indexmap::IndexMap;
use opcell_ir::agent::MESSAGE;
use opcell_ir::compiled::Compiled;
use opcell_ir::diagnostic::{Diagnostic, MAX_FINDINGS, Severity, did_you_mean};
use opcell_ir::ir::{
    Artifact, ArtifactMode, Contribution, Declarations, Dialect, Form, Goto, Judge, Lifecycle, Orchestration,
    PathSegment, Persistence, Printing, References, Route, Session, SourceRef, SourceSpec, Step, Version, WorkflowIr,
};
use opcell_ir::names::Outcome;
use opcell_ir::source::{SourceFile, SourceMap};
use opcell_types::{Value, text::one_line};
use regex::Regex;
use std::{
    borrow::Cow,
    collections::{BTreeSet, HashSet},
    sync::{Arc, LazyLock},
};

/// Bytes of the key of a prompt that a message repeats.
const KEY_BYTES: usize = 200;

/// The rules by which packs and their compositions run.
pub(super) const DIALECT: Dialect = Dialect {
    printing: Printing::Go,
    lifecycle: Lifecycle::Routed,
    references: References::Paths,
    declarations: Declarations::Implied,
};

/// Compiles a pack's workflow. A pack without one becomes a single conversation with its only prompt, or with its entry
/// agent's. One of several prompts has no entry of its own: each is checked, and a run chooses ([`compile_prompt`]).
#[must_use]
pub fn compile(source: &SourceFile) -> Compiled {
    compile_with(source, &NoCompanions)
}

/// The same, with the files beside the pack, of which its skills may be some.
#[must_use]
pub fn compile_with(source: &SourceFile, beside: &dyn Companions) -> Compiled {
    compile_chosen(source, beside, None)
}

/// Compiles one prompt of a pack, asked by itself, whatever else the pack has.
#[must_use]
pub fn compile_prompt(source: &SourceFile, beside: &dyn Companions, prompt: &str) -> Compiled {
    compile_chosen(source, beside, Some(prompt))
}

fn compile_chosen(source: &SourceFile, beside: &dyn Companions, chosen: Option<&str>) -> Compiled {
    let document = match Document::read(source) {
        Ok(document) => document,
        Err(diagnostics) => return Compiled { ir: None, spans: SourceMap::default(), diagnostics },
    };
    let (diagnostics, spans) = (Vec::new(), SourceMap::default());
    let mut compiler = Compiler { document: &document, text: source.text(), beside, chosen, diagnostics, spans };
    let ir = compiler.pack();
    let failed = compiler.diagnostics.iter().any(|found| found.severity == Severity::Error);
    let mut diagnostics = compiler.diagnostics;
    diagnostics.sort_by_key(|found| found.span.map(|span| span.start));
    Compiled { ir: ir.filter(|_| !failed).map(Arc::new), spans: compiler.spans, diagnostics }
}

struct Compiler<'d> {
    document: &'d Document,
    text: &'d str,
    beside: &'d dyn Companions,
    /// The prompt that is asked by itself.
    chosen: Option<&'d str>,
    diagnostics: Vec<Diagnostic>,
    spans: SourceMap,
}

impl Compiler<'_> {
    fn report(&mut self, diagnostic: Diagnostic, pointer: &str) {
        let span = match self.document.json.pointer(pointer) {
            Some(serde_json::Value::Object(_) | serde_json::Value::Array(_)) => self.document.key_span(pointer),
            _ => self.document.value_span(pointer),
        };
        self.diagnostics.push(diagnostic.at(span).path(pointer.to_owned()));
    }

    /// The document without the prompts that have an error, where the chosen one has none and stands by itself. They are
    /// named.
    fn without_others(&mut self, errors: &[SchemaError]) -> Option<serde_json::Value> {
        let chosen = self.chosen?;
        let document: &Document = self.document;
        let is_used = |key: &&str| document.json.get(key).is_some_and(|used| !used.is_null());
        // What these refer to must be there.
        if errors.is_empty() || ["workflow", "agents", "compositions"].iter().any(is_used) {
            return None;
        }
        let of_prompt = |error: &SchemaError| {
            let part = error.pointer.strip_prefix("/prompts/")?.split('/').next()?;
            Some(part.replace("~1", "/").replace("~0", "~")).filter(|key| key != chosen)
        };
        let others: BTreeSet<String> = errors.iter().map(of_prompt).collect::<Option<_>>()?;
        let mut rest = document.json.clone();
        let prompts = rest.get_mut("prompts")?.as_object_mut()?;
        prompts.retain(|key, _| !others.contains(key));
        if !check_pack(&rest, Edition::Published).is_empty() {
            return None;
        }
        for key in &others {
            let message = format!("the prompt `{}` is left out: it is not as packs are", one_line(key, KEY_BYTES));
            let pointer = format!("/prompts/{}", pointer_part(key));
            self.report(
                Diagnostic::warning("pack-schema", message).help("`check` lists what is wrong with it"),
                &pointer,
            );
        }
        Some(rest)
    }

    /// The pack in which a number that is the default of a `string` is the text that was written: a version `1.10` is
    /// not `1.1`.
    fn with_written_defaults(&self, mut pack: Pack) -> Pack {
        for (key, prompt) in &mut pack.prompts {
            for (index, variable) in prompt.variables.iter_mut().enumerate() {
                if variable.kind == "string" && matches!(variable.default, Some(Value::Number(_))) {
                    let pointer = format!("/prompts/{}/variables/{index}/default", pointer_part(key));
                    let place = self.document.value_span(&pointer);
                    let written = place.and_then(|place| self.text.get(place.start..place.end));
                    variable.default = written.map(Value::from).or(variable.default.take());
                }
            }
        }
        pack
    }

    fn pack(&mut self) -> Option<WorkflowIr> {
        let errors = check_pack(&self.document.json, Edition::Published);
        let document = self.document;
        let (json, errors) = match self.without_others(&errors) {
            Some(rest) => (Cow::Owned(rest), Vec::new()),
            None => (Cow::Borrowed(&document.json), errors),
        };
        // That a condition of the schema does not hold helps no one where the rule behind it is reported too.
        let says_nothing =
            |text: &str| text.starts_with("Must validate \"then\"") || text.starts_with("Must validate \"else\"");
        let saying = errors.iter().filter(|error| !says_nothing(&error.description));
        let printed: HashSet<&str> = saying.map(|error| error.pointer.as_str()).collect();
        let is_repeated =
            |error: &SchemaError| says_nothing(&error.description) && printed.contains(error.pointer.as_str());
        for error in errors.iter().filter(|error| !is_repeated(error)) {
            if error.of_key {
                let place = self.document.key_span(&error.pointer);
                self.diagnostics.push(error.diagnostic().at(place).path(error.pointer.clone()));
            } else {
                self.report(error.diagnostic(), &error.pointer);
            }
        }
        if self.diagnostics.iter().any(|found| found.severity == Severity::Error) {
            return None;
        }
        let pack = match Pack::from_json(&json) {
            Ok(pack) => self.with_written_defaults(pack),
            Err(error) => {
                self.report(Diagnostic::error("invalid-pack", error.to_string()), "");
                return None;
            }
        };
        if let Err(message) = weight::check(&pack) {
            self.report(Diagnostic::error("pack-too-large", message), "/prompts");
            return None;
        }
        self.validate(&pack);
        self.unknown_step_keys();
        for finding in checks(&pack) {
            self.report(finding.diagnostic, &finding.pointer);
        }
        let states = match self.chosen {
            Some(key) if pack.prompts.contains_key(key) => States::of_prompt(key),
            Some(key) => {
                let keys: Vec<&str> = pack.prompts.keys().map(String::as_str).collect();
                let near = did_you_mean(key, keys.iter().copied()).map(|near| format!("did you mean `{near}`? "));
                let help = format!("{}the pack's prompts are: {}", near.unwrap_or_default(), keys.join(", "));
                self.report(
                    Diagnostic::error("unknown-prompt", format!("the pack has no prompt `{key}`")).help(help),
                    "",
                );
                return None;
            }
            None if pack.prompts.is_empty() => {
                self.report(Diagnostic::error("no-prompts", "the pack has no prompts"), "/prompts");
                return None;
            }
            None => states(&pack),
        };
        let mut asked = speaker::spoken(&pack, states.states.iter().map(|(_, state)| state));
        if self.chosen.is_none() && pack.workflow.is_none() {
            // A run may ask any of them.
            asked = pack.prompts.iter().map(|(key, prompt)| (key.as_str(), prompt)).collect();
        }
        let called = agents::reached(&pack, asked.iter().map(|(key, _)| *key));
        let called = called.into_iter().filter_map(|key| pack.prompts.get_key_value(key));
        asked.extend(called.map(|(key, prompt)| (key.as_str(), prompt)));
        asked.sort_by_key(|(key, _)| pack.prompts.get_index_of(*key));
        asked.dedup_by_key(|(key, _)| *key);
        for finding in check_prompts(&pack, &asked) {
            self.report(finding.diagnostic, &finding.pointer);
        }
        let (skills, unread) = Skills::read(&pack, self.beside);
        for unread in unread {
            let pointer = format!("/skills/{}", unread.index);
            self.report(Diagnostic::warning("skills-unread", unread.problem), &pointer);
        }
        for (name, state) in states.states.iter().filter(|(_, state)| !matches!(state.skills.as_str(), "" | "none")) {
            // The name of a skill of the host is one, too; a path only means the pack's own.
            if !skills.is_empty() && state.skills.contains(['/', '*']) && skills.filtered(&state.skills).is_empty() {
                let message = format!("state `{name}` sees no skill: none of the pack's is in `{}`", state.skills);
                let help = "name a folder of `skills`, the name of a skill, or \"none\"";
                let pointer = format!("/workflow/states/{}/skills", pointer_part(name));
                self.report(Diagnostic::warning("empty-skill-filter", message).help(help), &pointer);
            }
        }
        let (contracts, unusable) = Contracts::read(&pack, &self.document.json, self.beside);
        for finding in unusable {
            self.report(finding.diagnostic, &finding.pointer);
        }
        Some(self.workflow(&pack, &states, &skills, &contracts))
    }

    fn validate(&mut self, pack: &Pack) {
        if let Some(spec) = &pack.workflow {
            let prompts: Vec<String> = pack.prompts.keys().cloned().collect();
            let names: Vec<&str> = spec.states.keys().chain(&prompts).map(String::as_str).collect();
            self.take(validate(spec, &prompts), "pack-workflow", "/workflow", &names);
        }
        let available = Available {
            prompts: pack.prompts.keys().cloned().collect(),
            tools: pack.tools.keys().cloned().collect(),
            evals: pack.eval_ids().map(str::to_owned).collect(),
        };
        let names: Vec<&str> = available.prompts.iter().chain(&available.tools).map(String::as_str).collect();
        self.take(validate_all(&pack.compositions, &available), "pack-composition", "/compositions", &names);
    }

    /// Keys of composition steps that mean nothing: the reference drops them without a word.
    fn unknown_step_keys(&mut self) {
        const KEYS: [&str; 18] = [
            "id",
            "kind",
            "description",
            "depends_on",
            "modifiers",
            "prompt_task",
            "input",
            "output_schema",
            "tools",
            "termination",
            "tool",
            "args",
            "provider",
            "predicate",
            "then",
            "else",
            "branches",
            "reduce",
        ];
        let json = self.document.json.clone();
        let compositions = json.get("compositions").and_then(serde_json::Value::as_object);
        let mut open: Vec<(String, &serde_json::Value)> = compositions
            .into_iter()
            .flatten()
            .filter_map(|(name, composition)| {
                Some((format!("/compositions/{}/steps", pointer_part(name)), composition.get("steps")?))
            })
            .collect();
        while let Some((pointer, list)) = open.pop() {
            for (index, step) in list.as_array().into_iter().flatten().enumerate() {
                let at = format!("{pointer}/{index}");
                for key in step.as_object().into_iter().flat_map(serde_json::Map::keys) {
                    if KEYS.contains(&key.as_str()) || key == "extensions" || key.starts_with("x-") {
                        continue;
                    }
                    let help = match key.as_str() {
                        "retry" | "eval" => Some(format!("did you mean modifiers.{key}?")),
                        "on_error" | "timeout" => Some("compositions have no such setting".to_owned()),
                        key => did_you_mean(key, KEYS).map(|near| format!("did you mean {near}?")),
                    };
                    let warning = Diagnostic::warning(
                        "unknown-key",
                        format!("Unknown key {key} in a composition's step; it has no effect"),
                    );
                    let warning = help.into_iter().fold(warning, Diagnostic::help);
                    self.report(warning, &format!("{at}/{}", pointer_part(key)));
                }
                if let Some(branches) = step.get("branches") {
                    open.push((format!("{at}/branches"), branches));
                }
            }
        }
    }

    fn take(&mut self, found: ValidationResult, code: &'static str, around: &str, names: &[&str]) {
        let errors = found.errors.into_iter().map(|text| with_near(Diagnostic::error(code, text), names));
        let warnings = found.warnings.into_iter().map(|text| Diagnostic::warning(code, text));
        for (at, diagnostic) in errors.chain(warnings).collect::<Vec<_>>().into_iter().enumerate() {
            // Each looks through the steps of a composition.
            let message = Some(&diagnostic.message).filter(|_| at < 2 * MAX_FINDINGS);
            let found = message
                .and_then(|message| pointer_of(message))
                .map(|pointer| step_pointer(&self.document.json, pointer));
            let pointer = found.unwrap_or_else(|| around.to_owned());
            self.report(diagnostic, &pointer);
        }
    }

    fn workflow(&mut self, pack: &Pack, states: &States, skills: &Skills, contracts: &Contracts) -> WorkflowIr {
        let spoken = speaker::spoken(pack, states.states.iter().map(|(_, state)| state));
        let inputs = speaker::inputs(spoken.into_iter().map(|(_, prompt)| prompt));
        let own = pack.workflow.as_ref().filter(|_| self.chosen.is_none());
        let mut ir = WorkflowIr {
            version: Version::V1,
            name: match self.chosen {
                Some(key) => format!("{}/prompts/{key}", pack.id).into(),
                None => pack.id.as_str().into(),
            },
            description: pack.description.clone(),
            // A workflow that has to be told where it begins is none that a model can call.
            advertise: !states.entry.is_empty(),
            dialect: DIALECT,
            input_schema: rules::input_schema(&inputs),
            inputs,
            outputs: IndexMap::new(),
            output_schema: None,
            entry: Some(states.entry.as_str().into()),
            steps: Vec::new(),
            result: None,
            terminal_contract: None,
            limits: own.map(super::Spec::limits).unwrap_or_default(),
            governance: governance::of(pack),
            artifacts: artifact_slots(own.iter().flat_map(|spec| spec.states.values())),
            workflows: Vec::new(),
        };
        if let Some(span) = self.document.key_span("/metadata/governance") {
            self.spans.insert("governance", span);
        }
        for (name, state) in &states.states {
            let pointer = match own {
                Some(_) => format!("/workflow/states/{}", pointer_part(name)),
                None => format!("/prompts/{}", pointer_part(name)),
            };
            if let Some(span) = self.document.key_span(&pointer) {
                self.spans.insert(format!("steps[{}]", ir.steps.len()), span);
            }
            let composition = pack.compositions.get_key_value(&state.composition).filter(|_| state.is_composition());
            let step = match composition {
                Some((composition, definition)) => {
                    let workflow = format!("{}/{composition}", pack.id);
                    let workflow = compile_composition(&workflow, definition, pack, contracts);
                    let step = compose::state(name, state, &workflow);
                    if ir.workflows.iter().all(|known| known.name != workflow.name) {
                        self.place_steps(ir.workflows.len(), composition, definition);
                        ir.workflows.push(Arc::new(workflow));
                    }
                    step
                }
                None => state_step(pack, name, state, skills),
            };
            ir.steps.push(step);
        }
        let asked = speaker::spoken(pack, states.states.iter().map(|(_, state)| state));
        let called = agents::reached(pack, asked.into_iter().map(|(key, _)| key));
        let called: Vec<_> = called.into_iter().map(|key| agents::workflow(pack, key, &ir, skills)).collect();
        ir.workflows.extend(called.into_iter().map(Arc::new));
        ir
    }
}

impl Compiler<'_> {
    /// Records the places of a composition's steps in the pack, in the order in which they are compiled.
    fn place_steps(&mut self, workflow: usize, name: &str, composition: &Composition) {
        let list = format!("/compositions/{}/steps", pointer_part(name));
        let at = |list: &str, steps: &[Node]| -> Vec<String> {
            (0..steps.len()).rev().map(|index| format!("{list}/{index}")).collect()
        };
        let mut open: Vec<(String, &Node)> =
            at(&list, &composition.steps).into_iter().zip(composition.steps.iter().rev()).collect();
        let mut index = 0;
        while let Some((pointer, node)) = open.pop() {
            if let Some(span) = self.document.value_span(&pointer) {
                self.spans.insert(format!("workflows[{workflow}].steps[{index}]"), span);
            }
            index += 1;
            let branches = at(&format!("{pointer}/branches"), &node.branches);
            open.extend(branches.into_iter().zip(node.branches.iter().rev()));
        }
    }
}

/// A state that speaks: with its prompt's tools, of which some may be agents.
pub(super) fn state_step(pack: &Pack, name: &str, state: &State, skills: &Skills) -> Step {
    let task = &state.prompt_task;
    let tools = pack.prompts.get(task).map(|prompt| prompt.tools.as_slice()).unwrap_or_default();
    let tools = tools.iter().filter(|tool| pack.agent_tool(task, tool).is_none() && !pack.is_itself(task, tool));
    let own = skills.filtered(&state.skills);
    let mut session = Session {
        skills: host_skills(&state.skills, own.is_empty()),
        contributions: vec![Contribution::Source(SourceSpec {
            from: SourceRef::WorkflowInput,
            path: Some(vec![PathSegment::Key(MESSAGE.into())]),
            projection: None,
        })],
        agents: agents::tools_of(pack, task),
        ..speaker::session(pack, task, tools)
    };
    speaker::teach(&mut session, own);
    let mut step = Step::new(name, Form::Session { session: Box::new(session) });
    step.description = Some(state.description.clone()).filter(|text| !text.is_empty());
    route(&mut step, state);
    step
}

/// The states to compile: the workflow's, or one for each prompt that may be asked.
struct States {
    /// Empty where a run has to choose.
    entry: String,
    states: Vec<(String, State)>,
}

impl States {
    fn of_prompt(key: &str) -> Self {
        Self { entry: key.to_owned(), states: vec![(key.to_owned(), alone(key))] }
    }
}

/// A prompt that is asked by itself.
fn alone(key: &str) -> State {
    State { prompt_task: key.to_owned(), terminal: true, ..State::default() }
}

fn states(pack: &Pack) -> States {
    if let Some(spec) = &pack.workflow {
        let states = spec.states.iter().map(|(name, state)| (name.clone(), state.clone())).collect();
        return States { entry: spec.entry.clone(), states };
    }
    let only = pack.prompts.keys().next().filter(|_| pack.prompts.len() == 1);
    match pack.agents.as_ref().map(|agents| &agents.entry).or(only) {
        Some(entry) => States::of_prompt(entry),
        None => {
            let states = pack.prompts.keys().map(|key| (key.clone(), alone(key))).collect();
            States { entry: String::new(), states }
        }
    }
}

/// A pointer that names a composition's step by its id, as a pointer into the list.
fn step_pointer(json: &serde_json::Value, pointer: String) -> String {
    let Some((list, rest)) = pointer.split_once("/steps/").map(|(before, rest)| (format!("{before}/steps"), rest))
    else {
        return pointer;
    };
    let (id, field) = rest.split_once('/').map_or((rest, None), |(id, field)| (id, Some(field)));
    let mut waiting = vec![list];
    while let Some(list) = waiting.pop() {
        for (index, step) in json.pointer(&list).and_then(serde_json::Value::as_array).into_iter().flatten().enumerate()
        {
            if step.get("id").and_then(serde_json::Value::as_str) == Some(id) {
                return [Some(format!("{list}/{index}").as_str()), field]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>()
                    .join("/");
            }
            waiting.push(format!("{list}/{index}/branches"));
        }
    }
    pointer
}

/// Returns the place that a finding of the reference's validation points at: the bracketed names of its text, as a JSON
/// pointer.
fn pointer_of(message: &str) -> Option<String> {
    if let Some((from, _)) =
        message.strip_prefix("workflow contains a cycle: ").and_then(|cycle| cycle.split_once(" -> "))
    {
        return Some(format!("/workflow/states/{}", pointer_part(from)));
    }
    #[expect(clippy::expect_used, reason = "a literal pattern, which every compiled workflow exercises")]
    static PATH: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"^(workflow|compositions)((?:\.[a-z_]+|\["(?:[^"\\]|\\.)*"\])*)"#).expect("a literal pattern")
    });
    #[expect(clippy::expect_used, reason = "a literal pattern, which every compiled workflow exercises")]
    static PART: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"\.([a-z_]+)|\["((?:[^"\\]|\\.)*)"\]"#).expect("a literal pattern"));
    let path = PATH.captures(message)?;
    let mut pointer = format!("/{}", path.get(1)?.as_str());
    for part in PART.captures_iter(path.get(2)?.as_str()) {
        let name = part.get(1).or_else(|| part.get(2))?.as_str();
        pointer.push('/');
        pointer.push_str(&pointer_part(name));
    }
    Some(pointer)
}

/// A finding of the reference about a name that is not there, with the one that was probably meant.
fn with_near(finding: Diagnostic, names: &[&str]) -> Diagnostic {
    let missing = [" does not exist", " does not reference "].iter().find_map(|end| finding.message.split_once(end));
    let missing = missing.and_then(|(before, _)| before.strip_suffix('"')?.rsplit_once('"'));
    match missing.and_then(|(_, name)| did_you_mean(name, names.iter().copied())) {
        Some(near) => finding.help(format!("did you mean `{near}`?")),
        None => finding,
    }
}

/// The artifacts of these states.
pub(super) fn artifact_slots<'s>(states: impl IntoIterator<Item = &'s State>) -> IndexMap<Arc<str>, Artifact> {
    let mut artifacts = IndexMap::new();
    for state in states {
        for (name, def) in &state.artifacts {
            artifacts.entry(name.as_str().into()).or_insert_with(|| Artifact {
                kind: def.kind.clone(),
                description: Some(def.description.clone()).filter(|text| !text.is_empty()),
                mode: if def.appends() { ArtifactMode::Append } else { ArtifactMode::Replace },
            });
        }
    }
    artifacts
}

/// The host's own skills that a state sees beside the pack's: all without a filter, else the one that it names.
fn host_skills(filter: &str, no_own: bool) -> Option<Vec<String>> {
    match filter {
        "" => None,
        name if no_own && name != "none" && !name.contains(['/', '*']) => Some(vec![name.to_owned()]),
        _ => Some(Vec::new()),
    }
}

/// Events, limits and the end, as a state has them.
pub(super) fn route(step: &mut Step, state: &State) {
    step.max_visits = u64::try_from(state.max_visits).ok().filter(|max| *max > 0);
    step.on_max_visits = Some(state.on_max_visits.as_str().into()).filter(|name: &Arc<str>| !name.is_empty());
    step.terminal = state.is_terminal();
    step.persistence = match state.persistence.as_str() {
        "transient" => Some(Persistence::Transient),
        "persistent" => Some(Persistence::Persistent),
        _ => None,
    };
    let orchestration = match state.orchestration.as_str() {
        "external" => Orchestration::External,
        "hybrid" => Orchestration::Hybrid,
        _ => Orchestration::Internal,
    };
    step.judge = Some(Judge::Event { orchestration, control: state.control() });
    if step.terminal {
        return;
    }
    step.on = state
        .on_event
        .iter()
        .map(|(event, target)| Route {
            outcome: Outcome::Text(event.as_str().into()),
            goto: Goto::Step(target.as_str().into()),
            max_iterations: None,
            on_max_iterations: None,
        })
        .collect();
}
