//! The tools, and the target of each.

use opcell::{
    Host, Workflow,
    catalog::{Entry, Offer},
};
use opcell_engine::ports::Effects;
use opcell_ir::ir::Input;
use opcell_schema::shown;
use opcell_types::{
    Digest,
    text::{one_line, printable},
};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::{Arc, Mutex, PoisonError},
};

/// The tool that gives a run by its ID.
pub(super) const RUN: &str = "opcell_run";

/// The begin of the names of workflows' tools.
pub(super) const RUN_PREFIX: &str = "run_";

/// Longest name of a tool that all clients accept.
const MAX_NAME_CHARS: usize = 64;

/// Characters of the digest in a name that is cut, or that two tools would have.
const DIGEST: usize = 8;

/// Bytes of a workflow's description.
const DESCRIPTION: usize = 4 << 10;

/// Bytes of a title.
const TITLE: usize = 200;

/// The target of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Operation(Arc<str>),
    Workflow(Arc<str>),
    Run,
    /// A tool of an MCP server of the project.
    Remote(Arc<str>, Arc<str>),
}

/// The tools by their names.
pub(super) struct ToolList(BTreeMap<String, (Tool, Target)>);

impl ToolList {
    /// The operations of a host, these of its workflows, and tools of others.
    pub(super) fn with(host: &Host, workflows: &BTreeSet<String>, others: Vec<(String, Tool, Target)>) -> Self {
        let mut offered = others;
        for (name, read) in host.library().listed() {
            if let (true, Ok(workflow)) = (workflows.contains(name.as_ref()), read) {
                offered.push((format!("{RUN_PREFIX}{name}"), workflow_tool(&workflow), Target::Workflow(name)));
            }
        }
        let has_runs = offered.iter().any(|(.., target)| matches!(target, Target::Workflow(_)));
        let own = has_runs.then(run_tool);
        for entry in host.catalog().entries() {
            if let Offer::Operation { effects, data_schema } = &entry.offer {
                let tool = operation_tool(entry, *effects, data_schema);
                offered.push((entry.id.to_string(), tool, Target::Operation(entry.id.clone().into())));
            }
        }
        Self::named(own, offered)
    }

    /// Gives each tool a name. A name is always the same tool's: a client that was allowed to call it calls no other by
    /// it, whatever is added later. So what is cut, and what two would have, carries a digest of the whole name.
    pub(super) fn named(own: Option<Tool>, offered: Vec<(String, Tool, Target)>) -> Self {
        let mut wanted: BTreeMap<String, usize> = BTreeMap::from([(RUN.to_owned(), 1)]);
        for (name, ..) in &offered {
            *wanted.entry(plain(name)).or_default() += 1;
        }
        let mut list = BTreeMap::new();
        if let Some(mut tool) = own {
            tool.name = RUN.into();
            list.insert(RUN.to_owned(), (tool, Target::Run));
        }
        for (name, tool, target) in offered {
            let plain = plain(&name);
            let is_shared = wanted.get(&plain).is_some_and(|tools| *tools > 1);
            let free =
                if is_shared || plain.len() > MAX_NAME_CHARS { with_digest(&plain, &name, &target) } else { plain };
            let mut tool = tool.with_title(one_line(&name, TITLE));
            tool.name = free.clone().into();
            list.insert(free, (tool, target));
        }
        Self(list)
    }

    /// The tools after a name, in the order of their names, and `true` if there are no more.
    pub(super) fn page(&self, after: Option<&str>, most: usize) -> (Vec<Tool>, bool) {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.0.range::<str, _>((from, Bound::Unbounded)).map(|(_, (tool, _))| tool.clone());
        let page = rest.by_ref().take(most).collect();
        (page, rest.next().is_none())
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Tool> {
        self.0.values().map(|(tool, _)| tool)
    }

    pub(super) fn tool(&self, name: &str) -> Option<&Tool> {
        self.0.get(name).map(|(tool, _)| tool)
    }

    pub(super) fn target(&self, name: &str) -> Option<Target> {
        self.0.get(name).map(|(_, target)| target.clone())
    }
}

/// The state of a host that its own tools follow from. The host is kept, so that no other one takes its place in memory.
pub(super) struct Basis {
    host: Host,
    workflows: u64,
}

impl Basis {
    /// Read before the tools are: what changes between the two is then noticed.
    pub(super) fn of(host: &Host) -> Self {
        Self { host: host.clone(), workflows: host.library().version() }
    }

    /// Returns `true` if nothing was exchanged, and no workflow changed, since.
    pub(super) fn is_of(&self, host: &Host) -> bool {
        std::ptr::eq(self.host.catalog(), host.catalog()) && self.workflows == host.library().version()
    }
}

/// The tools of a host without those of others, made once for each of its states.
#[derive(Default)]
pub(super) struct OwnTools {
    last: Mutex<Option<(Basis, Arc<ToolList>)>>,
}

impl OwnTools {
    pub(super) fn list(&self, host: &Host, workflows: &BTreeSet<String>) -> Arc<ToolList> {
        // Whoever asks meanwhile would make the same one.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, list)) = last.as_ref().filter(|(basis, _)| basis.is_of(host)) {
            return list.clone();
        }
        let basis = Basis::of(host);
        let list = Arc::new(ToolList::with(host, workflows, Vec::new()));
        *last = Some((basis, list.clone()));
        list
    }
}

/// Clients and models accept letters, digits, `_` and `-`.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

fn with_digest(plain: &str, name: &str, target: &Target) -> String {
    let kind = match target {
        Target::Operation(_) => "operation".to_owned(),
        Target::Workflow(_) => "workflow".to_owned(),
        Target::Run => "run".to_owned(),
        // `a__b` and `c` read as `a` and `b__c` do.
        Target::Remote(server, _) => format!("server of {}", server.len()),
    };
    let digest = Digest::of_hash(Sha256::digest(format!("{kind} {name}").as_bytes()));
    let begin: String = plain.chars().take(MAX_NAME_CHARS - DIGEST - 1).collect();
    format!("{begin}_{}", digest.short().get(..DIGEST).unwrap_or_default())
}

/// A schema as clients are told it, and their models read it.
fn object(schema: &Json) -> Arc<JsonObject> {
    let mut schema = match shown::schema(schema) {
        Json::Object(schema) => schema,
        _ => JsonObject::new(),
    };
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
    let summary = shown::text(&entry.summary);
    let tool = Tool::new("", summary, object(&entry.arguments_schema)).with_annotations(annotations);
    match data_schema {
        // Clients check results against it: one that is not shown as it is would be broken by good results. Clients of
        // revisions before 2026-07-28 are told only of those of objects.
        Json::Object(schema) if !schema.is_empty() && shown::schema(data_schema) == *data_schema => {
            tool.with_raw_output_schema(Arc::new(schema.clone()))
        }
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
    let description = printable(&description, DESCRIPTION);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &[&str]) -> Vec<String> {
        let tool = |name: &&str| {
            let tool = Tool::new("", "", Arc::new(JsonObject::new()));
            ((*name).to_owned(), tool, Target::Operation((*name).into()))
        };
        let list = ToolList::named(None, of.iter().map(tool).collect());
        let find = |name: &&str| {
            let of = list.0.iter().find(|(_, (_, target))| *target == Target::Operation((**name).into()));
            of.map(|(name, _)| name.clone()).unwrap_or_default()
        };
        of.iter().map(find).collect()
    }

    #[test]
    fn a_name_that_is_cut_or_shared_carries_a_digest_and_never_becomes_another_tools() {
        let long = |end: &str| format!("notes/{}{end}", "x".repeat(80));
        let (first, second) = (long("a"), long("b"));
        let alone = names(&[&first]);
        let both = names(&[&second, &first]);
        assert_eq!(alone[0], both[1], "what is added later changes no name");
        assert!(alone[0].len() == MAX_NAME_CHARS && both[0] != both[1], "{both:?}");

        assert_eq!(names(&["a/b", "a/c"]), ["a_b", "a_c"]);
        let shared = names(&["a/b-c", "a_b/c", "a/b_c"]);
        assert_eq!(shared[0], "a_b-c");
        assert!(shared[1] != shared[2] && shared[1..].iter().all(|name| name.starts_with("a_b_c_")), "{shared:?}");
        assert_ne!(names(&["opcell/run"])[0], RUN);
    }

    #[test]
    fn pages_hold_every_tool_once_whatever_comes_and_goes_between_them() {
        let list = |names: &[&str]| {
            let tool = |name: &&str| {
                let tool = Tool::new("", "", Arc::new(JsonObject::new()));
                ((*name).to_owned(), tool, Target::Operation((*name).into()))
            };
            ToolList::named(None, names.iter().map(tool).collect())
        };
        let names = |page: &[Tool]| page.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>();
        let (first, is_last) = list(&["a", "c", "d", "e"]).page(None, 2);
        assert_eq!((names(&first), is_last), (vec!["a".to_owned(), "c".to_owned()], false));
        let (second, is_last) = list(&["b", "d", "e"]).page(Some("c"), 2);
        assert_eq!((names(&second), is_last), (vec!["d".to_owned(), "e".to_owned()], true));
        assert!(list(&["a"]).page(Some("a"), 2).1);
    }

    #[test]
    fn clients_are_told_no_hidden_text_and_no_schema_without_end() {
        let hidden = json!({"type": "object", "properties": {"a": {"description": "x\u{e0041}y"}}});
        assert!(!serde_json::to_string(&*object(&hidden)).unwrap().contains('\u{e0041}'));
        let many: serde_json::Map<String, Json> =
            (0..5_000).map(|number| (format!("p{number}"), json!({"type": "string"}))).collect();
        let text = serde_json::to_string(&*object(&json!({"type": "object", "properties": many}))).unwrap();
        assert!(text.len() <= 32 << 10, "{}", text.len());
    }
}
