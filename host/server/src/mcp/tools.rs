//! Which tools there are, and what each calls.

use opcell::{
    Host, Workflow,
    catalog::{Entry, Offer},
};
use opcell_engine::ports::Effects;
use opcell_workflow::ir::Input;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value as Json, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The tool that gives a run by its ID.
pub(super) const RUN: &str = "opcell_run";

/// Longest name of a tool that all clients accept.
const NAME: usize = 64;

/// What a tool calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Operation(Arc<str>),
    Workflow(Arc<str>),
    Run,
}

/// The tools by their names.
pub(super) struct ToolList(BTreeMap<String, (Tool, Target)>);

impl ToolList {
    pub(super) fn of(host: &Host, workflows: &BTreeSet<String>) -> Self {
        let mut list = Self(BTreeMap::new());
        let mut offers_workflow = false;
        for (name, read) in host.library().listed() {
            if let (true, Ok(workflow)) = (workflows.contains(name.as_ref()), read) {
                offers_workflow = true;
                list.add(&format!("run_{name}"), workflow_tool(&workflow), Target::Workflow(name));
            }
        }
        if offers_workflow {
            list.add(RUN, run_tool(), Target::Run);
        }
        for entry in host.catalog().entries() {
            if let Offer::Operation { effects, data_schema } = &entry.offer {
                let tool = operation_tool(entry, *effects, data_schema);
                list.add(&entry.id, tool, Target::Operation(entry.id.clone().into()));
            }
        }
        list
    }

    /// Clients and models accept letters, digits, `_` and `-`. Two names that become one get a number.
    fn add(&mut self, name: &str, tool: Tool, target: Target) {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let wanted: String = name.chars().map(plain).take(NAME).collect();
        let mut free = wanted.clone();
        let mut number = 1;
        while self.0.contains_key(&free) {
            number += 1;
            let suffix = format!("_{number}");
            free = wanted.chars().take(NAME - suffix.len()).collect::<String>() + &suffix;
        }
        let mut tool = tool.with_title(name);
        tool.name = free.clone().into();
        self.0.insert(free, (tool, target));
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn page(&self, start: usize, most: usize) -> Vec<Tool> {
        self.0.values().skip(start).take(most).map(|(tool, _)| tool.clone()).collect()
    }

    pub(super) fn target(&self, name: &str) -> Option<Target> {
        self.0.get(name).map(|(_, target)| target.clone())
    }
}

fn object(schema: &Json) -> Arc<JsonObject> {
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    schema.entry("type").or_insert_with(|| json!("object"));
    Arc::new(schema)
}

fn operation_tool(entry: &Entry, effects: Effects, data_schema: &Json) -> Tool {
    let annotations = ToolAnnotations::new().open_world(effects != Effects::Pure);
    let annotations = match effects {
        Effects::Pure => annotations.read_only(true).idempotent(true),
        Effects::Idempotent => annotations.read_only(false).destructive(false).idempotent(true),
        Effects::Once => annotations.read_only(false).destructive(true).idempotent(false),
    };
    let tool = Tool::new("", entry.summary.clone(), object(&entry.arguments_schema)).with_annotations(annotations);
    match data_schema.get("type").and_then(Json::as_str) {
        Some("object") => tool.with_raw_output_schema(object(data_schema)),
        _ => tool,
    }
}

fn workflow_tool(workflow: &Workflow) -> Tool {
    let ir = workflow.ir();
    let schema = match (&ir.input_schema, ir.inputs.is_empty()) {
        (Some(schema), _) => Json::from(schema),
        (None, true) => json!({"type": "object"}),
        (None, false) => {
            let properties: serde_json::Map<String, Json> =
                ir.inputs.iter().map(|(name, input)| (name.to_string(), property(input))).collect();
            let required: Vec<&Arc<str>> =
                ir.inputs.iter().filter(|(_, input)| input.default.is_none()).map(|(name, _)| name).collect();
            json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
        }
    };
    let description = ir.description.clone().unwrap_or_else(|| format!("Runs the workflow {}", ir.name));
    let annotations = ToolAnnotations::new().read_only(false).destructive(true).idempotent(false).open_world(true);
    Tool::new("", description, object(&schema)).with_annotations(annotations)
}

fn property(input: &Input) -> Json {
    let mut schema = match (&input.schema, input.kind.as_str()) {
        (Some(schema), _) => Json::from(schema),
        (None, kind @ ("string" | "number" | "integer" | "boolean" | "array" | "object")) => json!({"type": kind}),
        (None, "int") => json!({"type": "integer"}),
        (None, "float") => json!({"type": "number"}),
        (None, _) => json!({}),
    };
    if let (Some(schema), Some(description)) = (schema.as_object_mut(), &input.description) {
        schema.entry("description").or_insert_with(|| json!(description));
    }
    schema
}

fn run_tool() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "run": {"type": "string", "description": "ID of the run"},
            "message": {"type": "string", "description": "Something to say to a run that waits for a user's message"},
        },
        "required": ["run"],
        "additionalProperties": false,
    });
    let annotations = ToolAnnotations::new().read_only(false).destructive(false).idempotent(false).open_world(false);
    Tool::new("", "Waits for a run that another tool started, and gives its status and result", object(&schema))
        .with_annotations(annotations)
}
