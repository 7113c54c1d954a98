//! Opcell's additions to psi's grammar. Every key here is Opcell's own: psi ignores the settings and refuses the forms.
//!
//! | key | value |
//! | --- | --- |
//! | `:description` | a sentence for people |
//! | `:when` | an expression; the step is skipped unless it holds |
//! | `:each` | `{:over "expression" :delay ms :concurrency n}` |
//! | `:retry` | `{:max n :delay ms :backoff factor}` |
//! | `:on-error` | `:fail` or `:ignore` |
//! | `:timeout` | milliseconds of one attempt |
//! | `:limits` of a step | `{:tool-calls n :wall-time-seconds n :tokens n :cost x :host-calls n}`, over all entries into it |
//! | `:capabilities` | `{:tools […] :skills […] :files […] :stores […]}`, narrower than the plugin's grant |
//! | `:approve` of a session | `:never`, `:unless-pure`, `:always`, a map such as `{:when {:commands ["rm"]}}`, or a vector of these |
//! | `:code` of a session | `{:language :js}`, or `:off` |
//! | `:max-visits`, `:on-max-visits` | entries into the step, and the step entered instead |
//! | judge `:expression` | `{:type :expression :expression "…"}` |
//! | judge `:event` | `{:type :event :orchestration :external :control :agent}` |
//! | form `:exit` | `:status :success` or `:failed`, `:output value` |
//! | form `:branch` | `:condition "expression" :then ["step" …] :else ["step" …]` |
//! | form `:parallel` | `:branches [["step" …] …] :reduce :append :into :key :concurrency n` |
//! | form `:transform` | `:inputs {…} :operation :filter :where "…"`, `:map :expression …`, `:sort :field "…" :descending true` |
//! | form `:wait` | `:signal "name" :question template :approval true` |
//! | workflow `:inputs` | `{:name {:type "string" :default … :description "…"}}` |
//! | workflow `:limits` | `{:total-visits n :tool-calls n :wall-time-seconds n :tokens n :cost x :host-calls n}` |
//! | workflow `:artifacts` | `{:name {:type "text/plain" :mode :append}}` |

use super::{
    control::{Outputs, required},
    fields::{self, Fields},
    report::{Place, Report},
    source_spec::{self, transpose},
    value,
};
use crate::edn::{Kind, Node};
use indexmap::IndexMap;
use opcell_ir::{
    diagnostic::{Diagnostic, did_you_mean},
    expr::Expression,
    ir::{
        Artifact, ArtifactMode, Branch, CapabilityNarrowing, Condition, Control, Each, Exit, ExitStatus, Form, Input,
        Judge, OnError, Orchestration, Parallel, Reduce, Retry, RunLimits, Step, StepLimits, StepName, Template,
        Transform, TransformOperation, Wait, Yields,
    },
};
use opcell_types::value::{Object, Value};
use std::{collections::HashSet, sync::Arc};

/// Opcell's settings of a step.
#[derive(Default)]
pub(super) struct Settings {
    pub(super) description: Option<String>,
    pub(super) when: Option<Expression>,
    pub(super) each: Option<Each>,
    pub(super) retry: Option<Retry>,
    pub(super) on_error: OnError,
    pub(super) timeout_ms: Option<u64>,
    pub(super) limits: StepLimits,
    pub(super) capabilities: Option<CapabilityNarrowing>,
    pub(super) max_visits: Option<u64>,
    pub(super) on_max_visits: Option<StepName>,
}

/// Opcell's settings of a workflow.
#[derive(Default)]
pub(super) struct Interface {
    pub(super) inputs: IndexMap<Arc<str>, Input>,
    pub(super) limits: RunLimits,
    pub(super) artifacts: IndexMap<Arc<str>, Artifact>,
}

pub(super) fn step(fields: &mut Fields<'_>, place: &Place, report: &mut Report) -> Option<Settings> {
    let description = fields.get("description").map(|node| text(node, &place.key("description"), report));
    let when = fields.get("when").map(|node| expression(node, &place.key("when"), report));
    let each = fields.get("each").map(|node| each(node, &place.key("each"), report));
    let retry = fields.get("retry").map(|node| retry(node, &place.key("retry"), report));
    let on_error = fields.get("on-error").map(|node| {
        fields::choice(node, &[("fail", OnError::Fail), ("ignore", OnError::Ignore)], &place.key("on-error"), report)
    });
    let timeout = fields.get("timeout").map(|node| fields::positive(node, &place.key("timeout-ms"), report));
    let limits = fields.get("limits").map(|node| step_limits(node, &place.key("limits"), report));
    let capabilities = fields.get("capabilities").map(|node| capabilities(node, &place.key("capabilities"), report));
    let max_visits = fields.get("max-visits").map(|node| fields::positive(node, &place.key("max-visits"), report));
    let on_max_visits =
        fields.get("on-max-visits").map(|node| fields::string(node, &place.key("on-max-visits"), report));
    Some(Settings {
        description: transpose(description)?,
        when: transpose(when)?,
        each: transpose(each)?,
        retry: transpose(retry)?,
        on_error: transpose(on_error)?.unwrap_or_default(),
        timeout_ms: transpose(timeout)?,
        limits: transpose(limits)?.unwrap_or_default(),
        capabilities: transpose(capabilities)?,
        max_visits: transpose(max_visits)?,
        on_max_visits: transpose(on_max_visits)?,
    })
}

fn text(node: &Node, place: &Place, report: &mut Report) -> Option<String> {
    fields::string(node, place, report).map(|text| text.as_ref().to_owned())
}

/// An expression as a string; one that does not parse is an error here, not when a run reaches it.
fn expression(node: &Node, place: &Place, report: &mut Report) -> Option<Expression> {
    let expression = Expression::new(fields::string(node, place, report)?);
    if let Some(problem) = expression.syntax_error() {
        let error = Diagnostic::error("invalid-expression", format!("expression `{}`: {problem}", expression.text()));
        report.push(error.at(node.span).path(place.ir()));
        return None;
    }
    Some(expression)
}

/// A number that is not negative.
fn number(node: &Node, place: &Place, report: &mut Report) -> Option<f64> {
    report.stands(place, node.span);
    let found = match node.kind {
        Kind::Integer(n) => u32::try_from(n).ok().map(f64::from),
        Kind::Float(n) if n.is_finite() && n >= 0.0 => Some(n),
        _ => None,
    };
    if found.is_none() {
        report.invalid(node.span, place, format!("expected a number from 0, found {node}"));
    }
    found
}

fn small(node: &Node, place: &Place, report: &mut Report) -> Option<u32> {
    fields::positive(node, place, report).map(|n| u32::try_from(n).unwrap_or(u32::MAX))
}

fn each(node: &Node, place: &Place, report: &mut Report) -> Option<Each> {
    let mut fields = fields::map(node, "{:over \"expression\"}", place, report)?;
    let over = required(&mut fields, "over", expression, place, report);
    let delay = fields.get("delay").map(|node| number(node, &place.key("delay-ms"), report));
    let concurrency = fields.get("concurrency").map(|node| small(node, &place.key("concurrency"), report));
    fields.finish(report, place, "an :each");
    Some(Each { over: over?, delay_ms: transpose(delay)?, concurrency: transpose(concurrency)? })
}

fn retry(node: &Node, place: &Place, report: &mut Report) -> Option<Retry> {
    let mut fields = fields::map(node, "{:max 3 :delay 1000 :backoff 2.0}", place, report)?;
    let max = required(&mut fields, "max", small, place, report);
    let delay = fields.get("delay").map(|node| number(node, &place.key("delay-ms"), report));
    let backoff = fields.get("backoff").map(|node| number(node, &place.key("backoff"), report));
    fields.finish(report, place, "a :retry");
    Some(Retry { max: max?, delay_ms: transpose(delay)?.unwrap_or(0.0), backoff: transpose(backoff)?.unwrap_or(1.0) })
}

fn capabilities(node: &Node, place: &Place, report: &mut Report) -> Option<CapabilityNarrowing> {
    let mut fields =
        fields::map(node, "{:tools [\"…\"] :skills [\"…\"] :files [\"…\"] :stores [\"…\"]}", place, report)?;
    let mut names = |key| fields.raw(key).map(|node| fields::strings(node, &place.key(key), report));
    let (tools, skills) = (names("tools"), names("skills"));
    let (files, stores) = (names("files"), names("stores"));
    fields.finish(report, place, "a :capabilities");
    let (tools, skills) = (transpose(tools)?, transpose(skills)?);
    Some(CapabilityNarrowing { tools, skills, files: transpose(files)?, stores: transpose(stores)? })
}

pub(super) fn expression_judge(fields: &mut Fields<'_>, place: &Place, report: &mut Report) -> Option<Judge> {
    required(fields, "expression", expression, place, report).map(|expression| Judge::Expression { expression })
}

pub(super) fn event_judge(fields: &mut Fields<'_>, place: &Place, report: &mut Report) -> Option<Judge> {
    const ORCHESTRATIONS: &[(&str, Orchestration)] = &[
        ("internal", Orchestration::Internal),
        ("external", Orchestration::External),
        ("hybrid", Orchestration::Hybrid),
    ];
    const CONTROLS: &[(&str, Control)] = &[("user", Control::User), ("agent", Control::Agent)];
    let orchestration = required(
        fields,
        "orchestration",
        |node, place, report| fields::choice(node, ORCHESTRATIONS, place, report),
        place,
        report,
    );
    let control = fields.get("control").map(|node| fields::choice(node, CONTROLS, &place.key("control"), report));
    Some(Judge::Event { orchestration: orchestration?, control: transpose(control)?.unwrap_or_default() })
}

/// The forms of a step that are Opcell's own.
pub(super) const FORMS: [&str; 5] = ["wait", "exit", "branch", "parallel", "transform"];

/// Returns `true` if a step's type is one of Opcell's own.
pub(super) fn is_form(name: &str) -> bool {
    FORMS.contains(&name)
}

pub(super) fn form(name: &str, fields: &mut Fields<'_>, place: &Place, report: &mut Report) -> Option<Form> {
    let place = place.key(name);
    match name {
        "exit" => exit(fields, &place, report).map(|exit| Form::Exit { exit }),
        "branch" => branch(fields, &place, report).map(|branch| Form::Branch { branch }),
        "parallel" => parallel(fields, &place, report).map(|parallel| Form::Parallel { parallel }),
        "transform" => transform(fields, &place, report).map(|transform| Form::Transform { transform }),
        _ => wait(fields, &place, report).map(|wait| Form::Wait { wait }),
    }
}

fn exit(fields: &mut Fields<'_>, place: &Place, report: &mut Report) -> Option<Exit> {
    const STATUSES: &[(&str, ExitStatus)] = &[("success", ExitStatus::Success), ("failed", ExitStatus::Failed)];
    let status =
        required(fields, "status", |node, place, report| fields::choice(node, STATUSES, place, report), place, report);
    let output = fields.raw("output").map(|node| source_spec::value_spec(node, &place.key("output"), report));
    Some(Exit { status: status?, output: transpose(output)?, inputs: IndexMap::new() })
}

fn steps(node: &Node, place: &Place, report: &mut Report) -> Option<Vec<StepName>> {
    fields::strings(node, place, report).map(|names| names.into_iter().map(Arc::from).collect())
}

fn branch(fields: &mut Fields<'_>, place: &Place, report: &mut Report) -> Option<Branch> {
    let condition = required(fields, "condition", expression, place, report);
    let then = required(fields, "then", steps, place, report);
    let otherwise = fields.get("else").map(|node| steps(node, &place.key("else"), report));
    Some(Branch {
        condition: Condition::Expression(condition?),
        inputs: IndexMap::new(),
        then: then?,
        otherwise: transpose(otherwise)?.unwrap_or_default(),
        in_place: false,
    })
}

fn parallel(fields: &mut Fields<'_>, place: &Place, report: &mut Report) -> Option<Parallel> {
    const REDUCTIONS: &[(&str, Reduce)] =
        &[("append", Reduce::Append), ("replace", Reduce::Replace), ("barrier", Reduce::Barrier)];
    let branches = required(
        fields,
        "branches",
        |node, place, report| {
            let items = fields::vector(node, "vectors of step names", place, report)?;
            if items.len() < 2 {
                report.invalid(node.span, place, "expected at least two branches");
                return None;
            }
            let branches: Vec<_> =
                items.iter().enumerate().map(|(i, item)| steps(item, &place.index(i), report)).collect();
            branches.into_iter().collect()
        },
        place,
        report,
    );
    let reduce = required(
        fields,
        "reduce",
        |node, place, report| fields::choice(node, REDUCTIONS, place, report),
        place,
        report,
    );
    let into = required(fields, "into", fields::keyword, place, report);
    let concurrency = fields.get("concurrency").map(|node| small(node, &place.key("concurrency"), report));
    Some(Parallel { branches: branches?, reduce: reduce?, into: into?, concurrency: transpose(concurrency)? })
}

fn transform(fields: &mut Fields<'_>, place: &Place, report: &mut Report) -> Option<Transform> {
    #[derive(Clone, Copy)]
    enum Kind {
        Filter,
        Map,
        Sort,
    }
    const KINDS: &[(&str, Kind)] = &[("filter", Kind::Filter), ("map", Kind::Map), ("sort", Kind::Sort)];
    let inputs = fields.get("inputs").map(|node| source_spec::value_specs(node, true, &place.key("inputs"), report));
    let kind =
        required(fields, "operation", |node, place, report| fields::choice(node, KINDS, place, report), place, report)?;
    let operation = match kind {
        Kind::Filter => required(fields, "where", expression, place, report)
            .map(|condition| TransformOperation::Filter { condition }),
        Kind::Map => required(fields, "expression", value::value, place, report)
            .map(|expression| TransformOperation::Map { expression: expression.into() }),
        Kind::Sort => {
            fields.advise(
                &["direction", "order", "ascending", "reverse", "desc"],
                "a sort is ascending unless it has `:descending true`",
            );
            let field = required(fields, "field", text, place, report);
            let descending =
                fields.get("descending").map(|node| fields::boolean(node, &place.key("descending"), report));
            let descending = transpose(descending)?.unwrap_or(false);
            field.map(|field| TransformOperation::Sort { field, descending })
        }
    };
    Some(Transform { inputs: transpose(inputs)?.unwrap_or_default(), operation: operation? })
}

fn wait(fields: &mut Fields<'_>, place: &Place, report: &mut Report) -> Option<Wait> {
    let signal = required(fields, "signal", fields::string, place, report);
    let question = fields.get("question").map(|node| {
        let place = place.key("question");
        match node.as_str() {
            Some(text) => Some(Template { text: text.clone(), vars: IndexMap::new() }),
            None => source_spec::template(node, &place, report),
        }
    });
    let approval = fields.get("approval").map(|node| fields::boolean(node, &place.key("approval"), report));
    Some(Wait { signal: signal?, question: transpose(question)?, approval: transpose(approval)?.unwrap_or(false) })
}

/// Returns the outputs and yields of Opcell's forms when their author gives none.
pub(super) fn defaults(form: &Form, outputs: impl Fn(&[(&str, &str)]) -> Outputs) -> (Outputs, Option<Yields>) {
    let data = || Some(Yields::Data { data: "data".into() });
    match form {
        Form::Transform { .. } => (outputs(&[("data", "transform/data")]), data()),
        Form::Wait { .. } => (outputs(&[("data", "wait/data")]), data()),
        Form::Parallel { parallel } => {
            (outputs(&[(&parallel.into, "parallel/data")]), Some(Yields::Data { data: parallel.into.clone() }))
        }
        _ => (Outputs::new(), None),
    }
}

/// Marks the steps that a branch or a parallel step runs: the main sequence passes them by.
pub(super) fn mark_grouped(steps: &mut [Step]) {
    let mut grouped: HashSet<StepName> = HashSet::new();
    for step in steps.iter() {
        match &step.form {
            Form::Branch { branch } => grouped.extend(branch.then.iter().chain(&branch.otherwise).cloned()),
            Form::Parallel { parallel } => grouped.extend(parallel.branches.iter().flatten().cloned()),
            _ => {}
        }
    }
    for step in steps {
        step.grouped = grouped.contains(&step.name);
    }
}

pub(super) fn workflow(fields: &mut Fields<'_>, place: &Place, report: &mut Report) -> Option<Interface> {
    let inputs = fields.get("inputs").map(|node| named(node, input, &place.key("inputs"), report));
    let limits = fields.get("limits").map(|node| limits(node, &place.key("limits"), report));
    let artifacts = fields.get("artifacts").map(|node| named(node, artifact, &place.key("artifacts"), report));
    Some(Interface {
        inputs: transpose(inputs)?.unwrap_or_default(),
        limits: transpose(limits)?.unwrap_or_default(),
        artifacts: transpose(artifacts)?.unwrap_or_default(),
    })
}

/// A map of keyword to something.
fn named<T>(
    node: &Node,
    read: impl Fn(&Node, &Place, &mut Report) -> Option<T>,
    place: &Place,
    report: &mut Report,
) -> Option<IndexMap<Arc<str>, T>> {
    fields::map(node, "a map with keyword keys", place, report)?;
    let entries: Vec<Option<(Arc<str>, T)>> = node
        .as_map()?
        .iter()
        .map(|(key, entry)| {
            let name = fields::keyword(key, place, report)?;
            read(entry, &place.key(&name), report).map(|entry| (name, entry))
        })
        .collect();
    entries.into_iter().collect()
}

/// The types that an input may be declared with, and what JSON Schema calls them.
const TYPES: [(&str, &str); 6] = [
    ("string", "string"),
    ("int", "integer"),
    ("float", "number"),
    ("boolean", "boolean"),
    ("array", "array"),
    ("object", "object"),
];

fn input(node: &Node, place: &Place, report: &mut Report) -> Option<Input> {
    let mut fields = fields::map(node, "an input like {:type \"string\"}", place, report)?;
    let kind = required(&mut fields, "type", kind, place, report);
    let default = fields.raw("default").map(|node| value::value(node, &place.key("default"), report));
    let description = fields.get("description").map(|node| text(node, &place.key("description"), report));
    let schema = fields.get("schema").map(|node| value::value(node, &place.key("schema"), report));
    fields.finish(report, place, "an input");
    Some(Input {
        kind: kind?,
        default: transpose(default)?,
        description: transpose(description)?,
        schema: transpose(schema)?,
    })
}

fn kind(node: &Node, place: &Place, report: &mut Report) -> Option<String> {
    let kind = text(node, place, report)?;
    if TYPES.iter().all(|(name, _)| *name != kind) {
        let names = TYPES.map(|(name, _)| name);
        let meant = did_you_mean(&kind, names).map(|name| format!("; did you mean \"{name}\"?")).unwrap_or_default();
        report.invalid(node.span, place, format!("expected one of {}, found {node}{meant}", names.join(", ")));
        return None;
    }
    Some(kind)
}

/// Returns the schema of a run's input, where the workflow declares its inputs.
pub(super) fn input_schema(inputs: &IndexMap<Arc<str>, Input>) -> Option<Value> {
    if inputs.is_empty() {
        return None;
    }
    let property = |(name, input): (&Arc<str>, &Input)| {
        let kind = TYPES.iter().find(|(kind, _)| *kind == input.kind).map_or("object", |(_, kind)| *kind);
        let mut schema = input.schema.as_ref().and_then(Value::as_object).map(Object::to_map).unwrap_or_default();
        schema.entry("type".into()).or_insert_with(|| Value::from(kind));
        (name.clone(), Value::from(schema))
    };
    let required = inputs.iter().filter(|(_, input)| input.default.is_none());
    let required = Value::array(required.map(|(name, _)| Value::from(name.as_ref())));
    let properties = Value::object(inputs.iter().map(property));
    Some(Value::object([("type", Value::from("object")), ("properties", properties), ("required", required)]))
}

fn limits(node: &Node, place: &Place, report: &mut Report) -> Option<RunLimits> {
    let mut fields = fields::map(node, "limits like {:total-visits 100}", place, report)?;
    let mut count = |key| fields.get(key).map(|node| fields::positive(node, &place.key(key), report));
    let (total_visits, tool_calls) = (count("total-visits"), count("tool-calls"));
    let (wall_time_seconds, tokens) = (count("wall-time-seconds"), count("tokens"));
    let host_calls = count("host-calls");
    let cost = fields.get("cost").map(|node| number(node, &place.key("cost"), report));
    fields.finish(report, place, "limits");
    Some(RunLimits {
        total_visits: transpose(total_visits)?,
        tool_calls: transpose(tool_calls)?,
        wall_time_seconds: transpose(wall_time_seconds)?,
        tokens: transpose(tokens)?,
        cost: transpose(cost)?,
        host_calls: transpose(host_calls)?,
    })
}

fn step_limits(node: &Node, place: &Place, report: &mut Report) -> Option<StepLimits> {
    let mut fields = fields::map(node, "limits like {:tool-calls 10}", place, report)?;
    let mut count = |key| fields.get(key).map(|node| fields::positive(node, &place.key(key), report));
    let (tool_calls, wall_time_seconds) = (count("tool-calls"), count("wall-time-seconds"));
    let (tokens, host_calls) = (count("tokens"), count("host-calls"));
    let cost = fields.get("cost").map(|node| number(node, &place.key("cost"), report));
    fields.finish(report, place, "limits of a step");
    Some(StepLimits {
        tool_calls: transpose(tool_calls)?,
        wall_time_seconds: transpose(wall_time_seconds)?,
        tokens: transpose(tokens)?,
        cost: transpose(cost)?,
        host_calls: transpose(host_calls)?,
    })
}

fn artifact(node: &Node, place: &Place, report: &mut Report) -> Option<Artifact> {
    const MODES: &[(&str, ArtifactMode)] = &[("replace", ArtifactMode::Replace), ("append", ArtifactMode::Append)];
    let mut fields = fields::map(node, "an artifact like {:type \"text/plain\"}", place, report)?;
    let kind = required(&mut fields, "type", text, place, report);
    let description = fields.get("description").map(|node| text(node, &place.key("description"), report));
    let mode = fields.get("mode").map(|node| fields::choice(node, MODES, &place.key("mode"), report));
    fields.finish(report, place, "an artifact");
    Some(Artifact { kind: kind?, description: transpose(description)?, mode: transpose(mode)?.unwrap_or_default() })
}
