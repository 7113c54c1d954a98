//! Steps, and the workflow that holds them.

use super::{
    control::{self, Outputs, required},
    fields::{self, Fields},
    own,
    report::{Place, Report},
    session::{self, Owner},
    source_spec::{self, Allowed, transpose},
};
use crate::edn::Node;
use opcell_ir::{
    diagnostic::did_you_mean,
    ir::{
        Contribution, Delegate, DelegateTarget, Dialect, Form, OutputSpec, PromptString, Step, Version, WorkflowIr,
        Yields,
    },
    names::MAX_NAME_BYTES,
};
use std::sync::Arc;

/// The whole workflow. The root has passed [`super::load`]: `:name`, `:description` and `:steps` have the right types.
pub(super) fn workflow(root: &Node, report: &mut Report) -> Option<WorkflowIr> {
    let mut fields = Fields::of(root)?;
    let place = Place::default();
    let (name, description) = (fields.get("name").and_then(Node::as_str), fields.get("description"));
    // psi registers a workflow under its definition id.
    let name = fields.get("definition-id").and_then(Node::as_str).or(name)?;
    fields.know(&["summary", "workflow-file-meta"]);
    let advertise = fields.get("advertise").is_none_or(|node| {
        if node.as_bool().is_none() {
            report.warn(
                "invalid-advertise",
                node.span,
                &place.key("advertise"),
                "only `:advertise false` has an effect",
            );
        }
        node.as_bool() != Some(false)
    });
    let contract = fields
        .get("terminal-contract")
        .map(|node| control::terminal_contract(node, &place.key("terminal-contract"), report));
    let framing = fields.get("system-prompt").map(|node| fields::string(node, &place.key("system-prompt"), report));
    let own = own::workflow(&mut fields, &place, report);
    let steps = fields.get("steps")?;
    report.stands(&place.key("steps"), steps.span);
    fields.finish(report, &place, "a workflow");

    let items = steps.as_vector()?;
    let steps_place = place.key("steps");
    if items.is_empty() {
        report.invalid(steps.span, &steps_place, "expected at least one step");
        return None;
    }
    // They stand in the prompt of each step.
    if let Some(Some(framing)) = &framing
        && framing.len().saturating_mul(items.len()) > MAX_FRAMING_BYTES
    {
        let expected = format!(
            "expected instructions that are shorter: in {} steps they take more than {MAX_FRAMING_BYTES} bytes",
            items.len()
        );
        report.invalid(steps.span, &place.key("system-prompt"), expected);
        return None;
    }
    let steps: Vec<Option<Step>> = items
        .iter()
        .enumerate()
        .map(|(index, node)| {
            report.enter_step(node.get("name").and_then(Node::as_str).map(AsRef::as_ref), index);
            step(node, &steps_place.index(index), report)
        })
        .collect();
    report.enter_step(None, 0);
    let own = own?;
    let mut steps: Vec<Step> = steps.into_iter().collect::<Option<_>>()?;
    own::mark_grouped(&mut steps);
    if let Some(framing) = transpose(framing)? {
        steps.iter_mut().for_each(|step| frame(step, &framing));
    }
    Some(WorkflowIr {
        workflows: Vec::new(),
        result: None,
        version: Version::V1,
        name: name.clone(),
        description: description.and_then(Node::as_str).map(|text| text.as_ref().to_owned()),
        advertise,
        dialect: Dialect::default(),
        input_schema: own::input_schema(&own.inputs),
        inputs: own.inputs,
        outputs: Outputs::new(),
        output_schema: None,
        entry: None,
        steps,
        terminal_contract: transpose(contract)?.flatten(),
        limits: own.limits,
        governance: opcell_ir::ir::Governance::default(),
        artifacts: own.artifacts,
    })
}

/// Puts the workflow's own instructions before those of a step, and before those that a delegate hands on.
fn frame(step: &mut Step, framing: &str) {
    let session = match &mut step.form {
        // A step that says nothing of its own is refused, framed or not.
        Form::Session { session } if session.contributions.is_empty() && session.prompts.is_empty() => return,
        Form::Session { session } => session,
        Form::Delegate { delegate } => &mut delegate.session,
        _ => return,
    };
    session.system_prompt = Some(match session.system_prompt.take() {
        Some(own) => format!("{framing}\n\n{own}"),
        None => framing.to_owned(),
    });
}

/// Bytes of a workflow's own instructions, counted for each step.
const MAX_FRAMING_BYTES: usize = 64 << 20;

/// The forms of a step that the language has.
const FORMS: [&str; 3] = ["invoke", "session", "delegate"];

/// The forms that `:each` does once for each element: those that have a result of their own.
const REPEATED: [&str; 4] = ["invoke", "session", "delegate", "transform"];

fn step(node: &Node, place: &Place, report: &mut Report) -> Option<Step> {
    let mut fields = fields::map(node, "a step", place, report)?;
    let kind = fields.raw("type");
    let name = required(&mut fields, "name", fields::string, place, report);
    if name.as_ref().is_some_and(|name| name.is_empty()) {
        report.invalid(node.span, &place.key("name"), "expected a name that is not empty");
        return None;
    }
    if name.as_ref().is_some_and(|name| name.len() > MAX_NAME_BYTES) {
        let expected = format!("expected a name of at most {MAX_NAME_BYTES} bytes");
        report.invalid(node.span, &place.key("name"), expected);
        return None;
    }
    let form = match kind.and_then(Node::as_keyword) {
        Some("invoke") => {
            control::invoke(&mut fields, &place.key("invoke"), report).map(|invoke| Form::Invoke { invoke })
        }
        Some("session") => session_form(&mut fields, &place.key("session"), report),
        Some("delegate") => delegate_form(&mut fields, &place.key("delegate"), report),
        Some(other) if own::is_form(other) => own::form(other, &mut fields, place, report),
        _ => {
            let found = kind.map_or_else(|| "nothing".to_owned(), ToString::to_string);
            let written = kind.and_then(Node::as_keyword).unwrap_or_default();
            let forms = || FORMS.iter().chain(&own::FORMS).copied();
            let meant = did_you_mean(written, forms()).map(|name| format!("; did you mean :{name}?"));
            let listed: Vec<String> = forms().map(|name| format!(":{name}")).collect();
            let help = format!("expected one of {}, found {found}{}", listed.join(", "), meant.unwrap_or_default());
            report.compile_error(
                kind.map_or(node.span, |kind| kind.span),
                place,
                "Unsupported target workflow step type",
                help,
            );
            return None;
        }
    };
    let outputs = fields.get("outputs").map(|node| control::outputs(node, &place.key("outputs"), report));
    let yields = fields.get("yields").map(|node| control::yields(node, &place.key("yields"), report));
    let judge = fields.get("judge").map(|node| control::judge(node, &place.key("judge"), report));
    let on = fields.get("on").map(|node| control::routes(node, &place.key("on"), report));
    let max_iterations =
        fields.get("max-iterations").map(|node| fields::positive(node, &place.key("max-iterations"), report));
    let own = own::step(&mut fields, place, report);
    let what = kind.and_then(Node::as_keyword).unwrap_or_default();
    if let Some(each) = fields.get("each").filter(|_| !REPEATED.contains(&what)) {
        let help = format!(
            "steps of the types {} take :each; to do more for each element, delegate to a workflow that does it",
            REPEATED.map(|form| format!(":{form}")).join(", ")
        );
        let message = format!("A step of the type :{what} is not done for each element");
        report.compile_error(each.span, &place.key("each"), &message, help);
    }
    fields.finish(report, place, &format!("{} {what} step", if what == "invoke" { "an" } else { "a" }));

    let (form, own) = (form?, own?);
    let (default_outputs, default_yields) = defaults(&form);
    Some(Step {
        description: own.description,
        when: own.when,
        each: own.each,
        retry: own.retry,
        on_error: own.on_error,
        timeout_ms: own.timeout_ms,
        limits: own.limits,
        capabilities: own.capabilities,
        outputs: transpose(outputs)?.unwrap_or(default_outputs),
        yields: transpose(yields)?.or(default_yields),
        judge: transpose(judge)?,
        on: transpose(on)?.unwrap_or_default(),
        max_iterations: transpose(max_iterations)?,
        max_visits: own.max_visits,
        on_max_visits: own.on_max_visits,
        ..Step::new(name?, form)
    })
}

/// Returns the outputs and yields of a step when its author gives none.
fn defaults(form: &Form) -> (Outputs, Option<Yields>) {
    let outputs = |keys: &[(&str, &str)]| {
        keys.iter()
            .map(|(key, source)| {
                (Arc::from(*key), OutputSpec { source: Some(Arc::from(*source)), ..OutputSpec::default() })
            })
            .collect()
    };
    match form {
        Form::Invoke { .. } => (
            outputs(&[("data", "invoke/data"), ("summary", "invoke/summary"), ("result", "invoke/result")]),
            Some(Yields::Data { data: "data".into() }),
        ),
        Form::Session { .. } => (
            outputs(&[
                ("final-llm-reply", "session/final-llm-reply"),
                ("transcript", "session/transcript"),
                ("result", "session/result"),
            ]),
            Some(Yields::Text { text: "final-llm-reply".into() }),
        ),
        Form::Delegate { .. } => (outputs(&[("handoff", "delegate/handoff")]), Some(Yields::Delegated)),
        Form::Transform { .. }
        | Form::Branch { .. }
        | Form::Parallel { .. }
        | Form::Exit { .. }
        | Form::Wait { .. } => own::defaults(form, outputs),
    }
}

fn session_form(fields: &mut Fields<'_>, place: &Place, report: &mut Report) -> Option<Form> {
    let settings = session::settings(fields, Owner::Step, place, report);
    let mut session = settings.clone().unwrap_or_default();
    session::prompts(fields, &mut session, place, report)?;
    settings.map(|_| Form::Session { session: Box::new(session) })
}

fn delegate_form(fields: &mut Fields<'_>, place: &Place, report: &mut Report) -> Option<Form> {
    let target = target(fields, place, report);
    let prompt_string = match fields.raw("prompt-string") {
        Some(node) => prompt_string(node, &place.key("prompt-string"), report),
        None => {
            let expected = "say what the workflow is asked: :prompt-string \"…\"";
            report.missing(fields.span, &place.key("prompt-string"), expected);
            None
        }
    };
    let context: Option<Option<Vec<Contribution>>> = fields
        .get("context")
        .map(|node| source_spec::contributions(node, Allowed::Sources, &place.key("context"), report));
    let session = session::settings(fields, Owner::Delegate, &place.key("session"), report);
    Some(Form::Delegate {
        delegate: Delegate {
            target: target?,
            prompt_string: prompt_string?,
            context: transpose(context)?.unwrap_or_default(),
            session: Box::new(session?),
        },
    })
}

fn target(fields: &mut Fields<'_>, place: &Place, report: &mut Report) -> Option<DelegateTarget> {
    let place = place.key("target");
    let node = fields.raw("target");
    if let Some(node) = node {
        report.stands(&place, node.span);
        if let Some(name) = node.as_str() {
            return Some(DelegateTarget::Name(name.clone()));
        }
        if node.get("from").is_some() {
            return source_spec::source_spec(node, &place, report).map(DelegateTarget::Dynamic);
        }
    }
    let found = node.map_or_else(|| "nothing".to_owned(), ToString::to_string);
    report.compile_error(
        node.map_or(fields.span, |node| node.span),
        &place,
        "Delegate target must be a workflow name string or workflow source-spec",
        format!("expected a workflow's name or {{:from …}}, found {found}"),
    );
    None
}

fn prompt_string(node: &Node, place: &Place, report: &mut Report) -> Option<PromptString> {
    report.stands(place, node.span);
    if let Some(text) = node.as_str() {
        return Some(PromptString::Text(text.clone()));
    }
    match node.get("type").and_then(Node::as_keyword) {
        Some("template") => source_spec::template(node, place, report).map(PromptString::Template),
        Some("map") => {
            let mut fields = Fields::of(node)?;
            fields.know(&["type"]);
            let entries = required(
                &mut fields,
                "fields",
                |node, place, report| source_spec::value_specs(node, false, place, report),
                place,
                report,
            );
            fields.finish(report, place, "a :map prompt-string");
            entries.map(|fields| PromptString::Fields { fields })
        }
        _ => {
            let expected = "expected a string, {:type :template …} or {:type :map :fields {…}}";
            report.invalid(node.span, place, format!("{expected}, found {}", node.noun()));
            None
        }
    }
}
