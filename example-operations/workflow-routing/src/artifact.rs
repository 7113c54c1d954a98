//! Operations that read an artifact of a task, a file such as `munera/open/012-tidy-up/steps.md` of the workspace.

use crate::block::Shape;
use crate::{Routed, route, text};
use opcell_sdk::Failure;
use opcell_sdk::files::{self, FileErrorKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The granted root that tasks live in.
const WORKSPACE: &str = "workspace";

/// What `workflow/task-artifact-content-read` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct TaskArtifactArguments {
    /// `munera/open/NNN-slug`, or `NNN-slug`.
    #[serde(default)]
    pub task_path: Value,
    /// The artifact's file name.
    pub artifact: String,
}

/// The content of an artifact; `None` when the task is none, or there is no such file.
///
/// Only absence is taken for absence: a file that cannot be read for another reason is a failure.
pub fn read(task: Option<&str>, artifact: &str) -> Result<Option<String>, Failure> {
    let Some(folder) = task.and_then(text::open_task_folder) else { return Ok(None) };
    match files::open_root(WORKSPACE)?.read_to_string(&format!("{folder}/{artifact}")) {
        Ok(content) => Ok(Some(content)),
        Err(error) if matches!(error.kind, FileErrorKind::NotFound | FileErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What `workflow/scope-question-gate-routing` takes; every key is a string.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ScopeGateArguments {
    /// `munera/open/NNN-slug`, or `NNN-slug`.
    #[serde(default)]
    task_path: Value,
    /// The artifact's file name.
    #[serde(default)]
    artifact: Value,
    /// What an item's text begins with, such as `SCOPE_QUESTION:`.
    #[serde(default)]
    marker: Value,
    /// The route without open items.
    #[serde(default)]
    proceed_route: Value,
    /// The route with open items.
    #[serde(default)]
    open_route: Value,
}

pub fn scope_gate(arguments: &ScopeGateArguments) -> Result<Routed, Failure> {
    let ScopeGateArguments { task_path, artifact, marker, proceed_route, open_route } = arguments;
    let (Some(task_path), Some(artifact), Some(marker), Some(proceed_route), Some(open_route)) =
        (task_path.as_str(), artifact.as_str(), marker.as_str(), proceed_route.as_str(), open_route.as_str())
    else {
        let named = [
            ("task-path", task_path),
            ("artifact", artifact),
            ("marker", marker),
            ("proceed-route", proceed_route),
            ("open-route", open_route),
        ];
        let wrong = named.iter().filter(|(_, value)| !value.is_string());
        let errors: Vec<Value> = wrong.map(|(field, _)| json!({ "field": field, "reason": "non-string" })).collect();
        let message = "workflow/scope-question-gate-routing args are invalid";
        return Err(Failure::new("invalid-scope-question-gate-args", message).with_details(json!({ "errors": errors })));
    };
    let content = read(Some(task_path), artifact)?.unwrap_or_default();
    let open: Vec<&str> = content.lines().filter_map(|line| open_question(line, marker)).collect();
    if open.is_empty() {
        return Ok(route(proceed_route));
    }
    Ok(route(open_route).with_details(json!({ "open-questions": open })))
}

/// What an unchecked item asks, if its text begins with the marker.
fn open_question<'a>(line: &'a str, marker: &str) -> Option<&'a str> {
    let item = text::trim_start(line).strip_prefix("- [ ]")?;
    text::trim_start(item).strip_prefix(marker).map(text::trim)
}

/// What `workflow/final-complete-block-routing` takes.
#[derive(Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct BlockArguments {
    /// `munera/open/NNN-slug`, or `NNN-slug`.
    #[serde(default)]
    task_path: Value,
    /// The artifact's file name.
    #[serde(default)]
    artifact: Value,
    /// The line that begins a block.
    #[serde(default)]
    start_delimiter: Value,
    /// What the line of each field begins with, in order.
    #[serde(default)]
    field_prefixes: Value,
    /// The line that ends a block.
    #[serde(default)]
    end_delimiter: Value,
    /// The route with a complete block, `[A-Z_]+`.
    #[serde(default)]
    valid_route: Value,
    /// Labels, `[A-Z_]+`, under which the fields are repeated as `details.required-fields-text`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    output_field_labels: Value,
}

/// What `workflow/fresh-final-complete-block-routing` takes.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct FreshBlockArguments {
    /// The artifact as it was, a string.
    #[serde(default)]
    before_content: Value,
    /// The block.
    #[serde(flatten)]
    block: BlockArguments,
}

/// Arguments that were checked.
struct BlockRequest {
    task_path: String,
    artifact: String,
    start: String,
    prefixes: Vec<String>,
    end: String,
    route: String,
    labels: Option<Vec<String>>,
}

impl BlockRequest {
    fn check(arguments: &BlockArguments) -> Result<Self, Failure> {
        Self::read(arguments).ok_or_else(|| {
            Failure::new(
                "invalid-final-complete-block-routing-args",
                "workflow/final-complete-block-routing args are invalid",
            )
            .with_details(json!({ "args": arguments }))
        })
    }

    fn read(arguments: &BlockArguments) -> Option<Self> {
        let request = Self {
            task_path: not_blank(&arguments.task_path)?,
            artifact: not_blank(&arguments.artifact)?,
            start: not_blank(&arguments.start_delimiter)?,
            prefixes: distinct(&arguments.field_prefixes, |prefix| !text::is_blank(prefix))?,
            end: not_blank(&arguments.end_delimiter)?,
            route: arguments.valid_route.as_str().filter(|route| text::is_token(route))?.to_owned(),
            labels: match &arguments.output_field_labels {
                Value::Null => None,
                labels => Some(distinct(labels, text::is_token)?),
            },
        };
        let one_label_each = request.labels.as_ref().is_none_or(|labels| labels.len() == request.prefixes.len());
        one_label_each.then_some(request)
    }

    fn shape(&self) -> Shape<'_> {
        Shape { start: &self.start, prefixes: &self.prefixes, end: &self.end }
    }

    fn content(&self) -> Result<String, Failure> {
        Ok(read(Some(&self.task_path), &self.artifact)?.unwrap_or_default())
    }

    fn missing(&self, reason: &str, message: &str) -> Failure {
        Failure::new(reason, message).with_details(json!({ "task-path": self.task_path, "artifact": self.artifact }))
    }

    /// Routes by the last complete block.
    fn route(&self, content: &str) -> Result<Routed, Failure> {
        let blocks = self.shape().blocks(content);
        let Some(values) = blocks.last() else {
            return Err(self.missing("missing-final-complete-block", "Required complete artifact block is missing"));
        };
        let record: Map<String, Value> =
            self.prefixes.iter().cloned().zip(values.iter().map(|value| Value::from(*value))).collect();
        let mut details = json!({ "record": record });
        if let (Some(labels), Value::Object(details)) = (&self.labels, &mut details) {
            let lines: Vec<String> =
                labels.iter().zip(values).map(|(label, value)| format!("{label}: {value}")).collect();
            details.insert("required-fields-text".to_owned(), lines.join("\n").into());
        }
        Ok(route(&self.route).with_details(details))
    }
}

fn not_blank(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text::is_blank(text)).map(str::to_owned)
}

/// A list of at least one string, all valid and no two the same.
fn distinct(value: &Value, valid: impl Fn(&str) -> bool) -> Option<Vec<String>> {
    let mut strings: Vec<String> = Vec::new();
    for item in value.as_array()? {
        let string = item.as_str().filter(|string| valid(string) && !strings.iter().any(|other| other == string))?;
        strings.push(string.to_owned());
    }
    (!strings.is_empty()).then_some(strings)
}

pub fn final_block(arguments: &BlockArguments) -> Result<Routed, Failure> {
    let request = BlockRequest::check(arguments)?;
    request.route(&request.content()?)
}

pub fn fresh_final_block(arguments: &FreshBlockArguments) -> Result<Routed, Failure> {
    let request = BlockRequest::check(&arguments.block)?;
    let Some(before) = arguments.before_content.as_str() else {
        return Err(Failure::new(
            "invalid-fresh-final-complete-block-routing-args",
            "workflow/fresh-final-complete-block-routing args are invalid",
        )
        .with_details(json!({ "args": arguments })));
    };
    let content = request.content()?;
    let appended = content.strip_prefix(before).map_or(0, |appended| request.shape().blocks(appended).len());
    if appended != 1 {
        let message = "Required complete artifact block was not newly appended";
        return Err(request.missing("missing-fresh-final-complete-block", message));
    }
    request.route(&content)
}

#[cfg(test)]
mod tests {
    use crate::{
        final_complete_block_routing, fresh_final_complete_block_routing, scope_question_gate_routing,
        task_artifact_content_read,
    };
    use opcell_sdk::testing::{Host, HostGuard, invoke};
    use serde_json::{Value, json};

    const STEPS: &str = "munera/open/012-tidy/steps.md";

    fn workspace(content: &str) -> HostGuard {
        Host::new().strict().files("workspace", [(STEPS, content)]).install()
    }

    fn gate(task: Value) -> Value {
        json!({
            "task-path": task, "artifact": "steps.md", "marker": "SCOPE_QUESTION:",
            "proceed-route": "PLAN", "open-route": "ASK",
        })
    }

    #[test]
    fn an_unchecked_question_keeps_the_gate_shut() {
        let _host = workspace("- [x] SCOPE_QUESTION: old\n  - [ ]  SCOPE_QUESTION: which one? \n- [ ] other\n");

        let success = invoke::<scope_question_gate_routing>(&gate(json!("012-tidy"))).unwrap();

        assert_eq!((success.data, success.summary), (json!("ASK"), Some("ASK".to_owned())));
        assert_eq!(success.details.unwrap(), json!({ "open-questions": ["which one?"] }));
    }

    #[test]
    fn without_an_open_question_the_gate_lets_pass() {
        let _host = workspace("- [x] SCOPE_QUESTION: old\n- [ ] SCOPE: no\nSCOPE_QUESTION: loose");

        for task in [json!("munera/open/012-tidy"), json!("munera/open/013-absent"), json!("anything at all")] {
            assert_eq!(invoke::<scope_question_gate_routing>(&gate(task.clone())).unwrap().data, "PLAN", "{task}");
        }
    }

    #[test]
    fn a_gate_lists_every_argument_that_is_no_string() {
        let failure =
            invoke::<scope_question_gate_routing>(&json!({ "task-path": 1, "artifact": "steps.md" })).unwrap_err();

        assert_eq!(failure.reason, "invalid-scope-question-gate-args");
        let fields: Vec<_> =
            failure.details.unwrap()["errors"].as_array().unwrap().iter().map(|e| e["field"].clone()).collect();
        assert_eq!(fields, ["task-path", "marker", "proceed-route", "open-route"]);
    }

    #[test]
    fn a_gate_without_its_files_is_shut_by_the_denial() {
        let _host = Host::new().install();

        let failure = invoke::<scope_question_gate_routing>(&gate(json!("012-tidy"))).unwrap_err();

        assert_eq!(failure.reason, "denied");
        assert_eq!(failure.details.unwrap()["capability"], "files workspace");
    }

    #[test]
    fn an_artifact_is_read_as_it_is_and_null_when_absent() {
        let _host = workspace("one\n");
        let read = |task: Value, artifact: &str| {
            invoke::<task_artifact_content_read>(&json!({ "task-path": task, "artifact": artifact })).unwrap()
        };

        assert_eq!(read(json!("012-tidy"), "steps.md").data, "one\n");
        assert_eq!(read(json!("012-tidy"), "steps.md").summary.as_deref(), Some("DONE"));
        assert_eq!(read(json!("012-tidy"), "plan.md").data, Value::Null);
        assert_eq!(read(json!(null), "steps.md").data, Value::Null);
    }

    #[test]
    fn an_artifact_outside_the_workspace_is_denied() {
        let _host = workspace("");

        let arguments = json!({ "task-path": "012-tidy", "artifact": "../../../../etc/passwd" });

        assert_eq!(invoke::<task_artifact_content_read>(&arguments).unwrap_err().reason, "denied");
    }

    fn block() -> Value {
        json!({
            "task-path": "012-tidy", "artifact": "steps.md", "start-delimiter": "BEGIN", "end-delimiter": "END",
            "field-prefixes": ["- why: ", "- who: "], "valid-route": "BLOCKED",
        })
    }

    const ONE: &str = "BEGIN\n- why: rain\n- who: me\nEND\n";
    const TWO: &str = "BEGIN\n- why: snow\n- who: you\nEND\n";

    #[test]
    fn the_last_complete_block_is_the_record() {
        let _host = workspace(&format!("{ONE}{TWO}BEGIN\n- why: broken\n"));
        let mut arguments = block();
        arguments["output-field-labels"] = json!(["WHY", "WHO"]);

        let success = invoke::<final_complete_block_routing>(&arguments).unwrap();

        assert_eq!(success.data, "BLOCKED");
        assert_eq!(
            success.details.unwrap(),
            json!({ "record": { "- why: ": "snow", "- who: ": "you" }, "required-fields-text": "WHY: snow\nWHO: you" })
        );
    }

    #[test]
    fn without_a_complete_block_there_is_no_route() {
        let _host = workspace("BEGIN\nEND\n");

        let failure = invoke::<final_complete_block_routing>(&block()).unwrap_err();

        assert_eq!(failure.reason, "missing-final-complete-block");
        assert_eq!(failure.details.unwrap(), json!({ "task-path": "012-tidy", "artifact": "steps.md" }));
    }

    #[test]
    fn arguments_that_describe_no_block_are_refused() {
        for (key, value) in [
            ("task-path", json!(" ")),
            ("artifact", json!(null)),
            ("start-delimiter", json!("")),
            ("field-prefixes", json!([])),
            ("field-prefixes", json!(["a", "a"])),
            ("field-prefixes", json!("a")),
            ("end-delimiter", json!(3)),
            ("valid-route", json!("blocked")),
            ("output-field-labels", json!(["WHY"])),
            ("output-field-labels", json!(["WHY", "WHY"])),
            ("output-field-labels", json!(["why", "who"])),
        ] {
            let mut arguments = block();
            arguments[key] = value;
            let failure = invoke::<final_complete_block_routing>(&arguments).unwrap_err();
            assert_eq!(failure.reason, "invalid-final-complete-block-routing-args", "{arguments}");
        }
    }

    #[test]
    fn a_fresh_block_was_appended_alone_to_what_was_there() {
        let fresh = |before: &str| {
            let mut arguments = block();
            arguments["before-content"] = json!(before);
            invoke::<fresh_final_complete_block_routing>(&arguments)
        };

        let host = workspace(&format!("{ONE}{TWO}"));
        assert_eq!(fresh(ONE).unwrap().details.unwrap()["record"]["- why: "], "snow");
        for (before, why) in
            [("", "two were appended"), (TWO, "not what was there"), (&*format!("{ONE}{TWO}"), "none was appended")]
        {
            assert_eq!(fresh(before).unwrap_err().reason, "missing-fresh-final-complete-block", "{why}");
        }
        drop(host);

        let failure = invoke::<fresh_final_complete_block_routing>(&block()).unwrap_err();
        assert_eq!(failure.reason, "invalid-fresh-final-complete-block-routing-args");
    }
}
