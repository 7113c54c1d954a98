//! A [`Definition`] to the IR. What the reference decides while it runs (which values are expressions, which durations
//! count) is decided here.

use super::{
    SkillInfo,
    definition::{Body, Definition, Field, StepDefinition},
    duration_ms,
};
use indexmap::IndexMap;
use opcell_ir::{expr::Expression, interpolate::value_spec, ir, source::SourceMap, transform::Shape};
use opcell_types::value::{Map, Value};
use std::{collections::HashSet, sync::Arc};

/// The IR of a valid definition, and where its parts stand.
pub(super) fn compile(definition: &Definition, info: &SkillInfo) -> (ir::WorkflowIr, SourceMap) {
    let grouped: HashSet<&str> =
        definition.steps.iter().flat_map(StepDefinition::branch_steps).map(|name| name.text.as_ref()).collect();
    let mut spans = SourceMap::default();
    let mut steps = Vec::with_capacity(definition.steps.len());
    for (index, step) in definition.steps.iter().enumerate() {
        places(step, &format!("steps[{index}]"), &mut spans);
        steps.push(compile_step(step, grouped.contains(step.id.text.as_ref())));
    }
    for (section, fields) in [("inputs", &definition.inputs), ("outputs", &definition.outputs)] {
        for field in fields {
            spans.insert(format!("{section}.{}", field.name.text), field.name.span.to(field.value_span));
        }
    }
    let ir = ir::WorkflowIr {
        version: ir::Version::V1,
        name: info.name.clone(),
        description: info.description.clone(),
        advertise: true,
        dialect: ir::Dialect {
            printing: ir::Printing::Javascript,
            lifecycle: ir::Lifecycle::Sequential,
            declarations: ir::Declarations::Implied,
            ..ir::Dialect::default()
        },
        inputs: definition.inputs.iter().map(|field| (field.name.text.clone(), input(field))).collect(),
        outputs: outputs(&definition.outputs),
        input_schema: None,
        output_schema: None,
        entry: None,
        steps,
        result: None,
        terminal_contract: None,
        limits: ir::RunLimits::default(),
        governance: ir::Governance::default(),
        artifacts: IndexMap::new(),
        workflows: Vec::new(),
    };
    (ir, spans)
}

fn places(step: &StepDefinition, path: &str, spans: &mut SourceMap) {
    spans.insert(path, step.span);
    spans.insert(format!("{path}.name"), step.id.span);
    let condition_key = if step.kind() == "conditional" { "branch.condition" } else { "when" };
    for (key, text) in [(condition_key, &step.condition), ("each", &step.each), ("on-error", &step.on_error)] {
        if let Some(text) = text {
            spans.insert(format!("{path}.{key}"), text.span);
        }
    }
    if let Some(retry) = &step.retry {
        spans.insert(format!("{path}.retry"), retry.delay.span);
    }
    let inputs = match &step.body {
        Body::Tool { tool } => {
            spans.insert(format!("{path}.invoke.operation"), tool.span);
            "invoke.args"
        }
        Body::Filter { condition } => {
            spans.insert(format!("{path}.transform.where"), condition.span);
            "transform.inputs"
        }
        Body::Map { span, .. } => {
            spans.insert(format!("{path}.transform.expression"), *span);
            "transform.inputs"
        }
        Body::Sort { field, .. } => {
            spans.insert(format!("{path}.transform.field"), field.span);
            "transform.inputs"
        }
        Body::Conditional { then, otherwise } => {
            for (key, names) in [("then", Some(then)), ("else", otherwise.as_ref())] {
                for (index, name) in names.into_iter().flatten().enumerate() {
                    spans.insert(format!("{path}.branch.{key}[{index}]"), name.span);
                }
            }
            "branch.inputs"
        }
        Body::Exit { output_span, .. } => {
            spans.insert(format!("{path}.exit.output"), *output_span);
            "exit.inputs"
        }
    };
    for field in &step.inputs {
        spans.insert(format!("{path}.{inputs}.{}", field.name.text), field.value_span);
    }
    for field in &step.outputs {
        spans.insert(format!("{path}.outputs.{}", field.name.text), field.value_span);
    }
}

fn compile_step(step: &StepDefinition, grouped: bool) -> ir::Step {
    let expression =
        |text: Option<&super::Text>| StepDefinition::present(text).map(|text| Expression::new(text.text.clone()));
    let is_conditional = matches!(step.body, Body::Conditional { .. });
    ir::Step {
        persistence: None,
        name: step.id.text.clone(),
        form: form(step),
        description: step.description.as_ref().map(|text| text.text.as_ref().to_owned()),
        grouped,
        depends_on: Vec::new(),
        when: if is_conditional { None } else { expression(step.condition.as_ref()) },
        each: expression(step.each.as_ref()).map(|over| ir::Each {
            over,
            delay_ms: StepDefinition::present(step.delay.as_ref()).map(|delay| duration_ms(&delay.text).unwrap_or(0.0)),
            concurrency: step.extension.concurrency,
        }),
        // Only tools fail in a way that is retried.
        retry: step.retry.as_ref().filter(|_| matches!(step.body, Body::Tool { .. })).map(|retry| ir::Retry {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "positive and whole; saturates"
            )]
            max: retry.max as u32,
            delay_ms: duration_ms(&retry.delay.text).unwrap_or(0.0),
            backoff: retry.backoff,
        }),
        on_error: match &step.on_error {
            Some(text) if text.text.as_ref() == "ignore" => ir::OnError::Ignore,
            _ => ir::OnError::Fail,
        },
        timeout_ms: step.extension.timeout_ms,
        limits: ir::StepLimits::default(),
        capabilities: None,
        outputs: outputs(&step.outputs),
        yields: None,
        judge: None,
        on: Vec::new(),
        max_iterations: None,
        max_visits: None,
        on_max_visits: None,
        terminal: false,
    }
}

fn form(step: &StepDefinition) -> ir::Form {
    let inputs: IndexMap<Arc<str>, ir::ValueSpec> = step
        .inputs
        .iter()
        .filter_map(|field| Some((field.name.text.clone(), value_spec(field.value.as_ref()?))))
        .collect();
    let transform = |operation| ir::Form::Transform { transform: ir::Transform { inputs: inputs.clone(), operation } };
    let names = |names: &[super::Text]| names.iter().map(|name| name.text.clone()).collect();
    match &step.body {
        Body::Tool { tool } => ir::Form::Invoke { invoke: ir::Invoke { operation: tool.text.clone(), args: inputs } },
        Body::Filter { condition } => {
            transform(ir::TransformOperation::Filter { condition: Expression::new(condition.text.clone()) })
        }
        Body::Map { expression, .. } => {
            transform(ir::TransformOperation::Map { expression: Shape::from(expression.clone()) })
        }
        Body::Sort { field, direction } => transform(ir::TransformOperation::Sort {
            field: field.text.as_ref().to_owned(),
            descending: direction.as_ref().is_some_and(|direction| direction.text.as_ref() == "desc"),
        }),
        Body::Conditional { then, otherwise } => {
            let condition = step.condition.as_ref().map_or("", |text| text.text.as_ref());
            ir::Form::Branch {
                branch: ir::Branch {
                    condition: ir::Condition::Expression(Expression::new(condition)),
                    inputs,
                    then: names(then),
                    otherwise: names(otherwise.as_deref().unwrap_or_default()),
                    in_place: false,
                },
            }
        }
        Body::Exit { status, output, .. } => ir::Form::Exit {
            exit: ir::Exit {
                status: if status.text.as_ref() == "failed" { ir::ExitStatus::Failed } else { ir::ExitStatus::Success },
                output: output.as_ref().and_then(exit_output),
                inputs,
            },
        },
    }
}

/// A string is always an expression, an empty one nothing; an object's own values are read like any other, deeper ones
/// are not.
fn exit_output(output: &Value) -> Option<ir::ValueSpec> {
    match output {
        Value::String(text) if text.is_empty() => None,
        Value::String(text) => Some(ir::ValueSpec::Expression { expression: Expression::new(text.clone()) }),
        Value::Object(entries) => Some(ir::ValueSpec::Fields {
            fields: entries.iter().map(|(key, value)| (key.into(), value_spec(value))).collect(),
        }),
        other => Some(ir::ValueSpec::Literal { value: other.clone() }),
    }
}

fn outputs(fields: &[Field]) -> IndexMap<Arc<str>, ir::OutputSpec> {
    let spec = |field: &Field| ir::OutputSpec {
        source: None,
        value: field.value.as_ref().map(value_spec),
        kind: Some(field.kind.text.as_ref().to_owned()),
        structured: None,
    };
    fields.iter().map(|field| (field.name.text.clone(), spec(field))).collect()
}

fn input(field: &Field) -> ir::Input {
    let has_shape = field.items.is_some() || field.properties.is_some();
    ir::Input {
        kind: field.kind.text.as_ref().to_owned(),
        default: field.value.clone(),
        description: None,
        schema: has_shape.then(|| json_schema(&field.kind.text, field.items.as_ref(), field.properties.as_ref())),
    }
}

/// JSON Schema of a type with its items and properties, one level deep as the language has them.
fn json_schema(kind: &str, items: Option<&Value>, properties: Option<&Value>) -> Value {
    let name = |kind: &str| {
        Value::from(match kind {
            "int" => "integer",
            "float" => "number",
            other => other,
        })
    };
    let nested = |value: &Value| {
        let kind = value.as_str().or_else(|| value.get("type").and_then(Value::as_str));
        Value::object(kind.map(|kind| ("type", name(kind))))
    };
    let mut schema = Map::new();
    schema.insert("type".into(), name(kind));
    if let Some(items) = items {
        schema.insert("items".into(), nested(items));
    }
    if let Some(entries) = properties.and_then(Value::as_object) {
        let entries = entries.iter().map(|(key, value)| (key.clone(), nested(value)));
        schema.insert("properties".into(), Value::object(entries));
    }
    Value::from(schema)
}
