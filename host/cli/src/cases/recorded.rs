//! A case file of a recorded call: doubles that answer as the host did, and what came of it.

use super::case::CaseError;
use opcell::replay::{Caller, RecordedCall};
use opcell_sandbox::{HostCall, recording::bytes_of};
use opcell_types::files::{Readers, create, make_folder};
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::Path,
};

/// The text of a case file. What a case cannot say is in comments at its head.
#[must_use]
pub fn case_of(call: &RecordedCall) -> String {
    let mut draft = Draft::default();
    for made in &call.recording.calls {
        draft.add(made);
    }
    if let Some(left_out) = call.left_out() {
        draft.notes.insert(format!("not everything is in the record: {left_out}"));
    }
    draft.text(call)
}

/// Writes it into a folder, as a file that must not be there yet.
///
/// # Errors
/// When there is such a file, or it cannot be written.
pub fn write(path: &Path, text: &str) -> Result<(), CaseError> {
    let failed = |error| CaseError::File { path: path.to_owned(), error };
    if let Some(folder) = path.parent() {
        make_folder(folder, Readers::Shared).map_err(failed)?;
    }
    let mut file = create(path, Readers::Shared).map_err(failed)?;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)
}

#[derive(Default)]
struct Draft {
    config: BTreeMap<String, Value>,
    tools: Vec<Value>,
    skills: BTreeMap<String, Skill>,
    roots: BTreeMap<String, Root>,
    notes: BTreeSet<String>,
}

#[derive(Default)]
struct Skill {
    members: Map<String, Value>,
    resources: Map<String, Value>,
}

#[derive(Default)]
struct Root {
    writable: bool,
    /// Files as they were, with what was read of them: pieces by their offset.
    read: BTreeMap<String, BTreeMap<u64, Vec<u8>>>,
    after: BTreeMap<String, Option<Vec<u8>>>,
}

impl Draft {
    fn add(&mut self, made: &HostCall) {
        let given: Vec<&Value> = made.given.as_array().map(|given| given.iter().collect()).unwrap_or_default();
        let text = |at: usize| given.get(at).and_then(|value| value.as_str()).map(str::to_owned);
        let ok = made.answer.as_ref().and_then(|answer| answer.get("Ok"));
        if made.call == "config.get-all" {
            let all: Vec<(String, Value)> =
                ok.and_then(|all| serde_json::from_value(all.clone()).ok()).unwrap_or_default();
            self.config.extend(all);
            return;
        }
        let Some(first) = text(0) else {
            if made.given.is_object() {
                self.notes.insert(format!("what {} was given is too large for the record", made.call));
            }
            return;
        };
        let error = made.answer.as_ref().and_then(|answer| answer.get("Err"));
        let denied = error.is_some_and(|error| error.get("Denied").or_else(|| error.get("denial")).is_some());
        match made.call.as_str() {
            "tools.call" => self.tool(made, &first, given.get(1).copied(), ok, denied),
            "tools.is-granted" if made.answer == Some(json!(false)) => self.denied_tool(&first),
            "config.get" => {
                self.config.extend(ok.filter(|value| value.is_string()).map(|value| (first, value.clone())))
            }
            "skills.read" | "skills.read-resource" if denied => {
                self.skills.entry(first).or_default().members.insert("denied".to_owned(), json!(true));
            }
            "skills.read" => {
                if let Some(body) = ok.and_then(Value::as_str) {
                    self.skills.entry(first).or_default().members.insert("body".to_owned(), json!(body));
                }
            }
            "skills.read-resource" => self.resource(&first, text(1), ok),
            "files.open-root" if ok.is_some() => drop(self.roots.entry(first).or_default()),
            _ => {
                if let (Some(path), Some(_)) = (text(1), ok) {
                    self.file(made, &first, path, &given, ok);
                }
            }
        }
    }

    fn denied_tool(&mut self, name: &str) {
        let double = json!({ "name": name, "denied": true });
        if !self.tools.contains(&double) {
            self.tools.push(double);
        }
    }

    fn tool(&mut self, made: &HostCall, name: &str, arguments: Option<&Value>, ok: Option<&Value>, denied: bool) {
        if denied {
            return self.denied_tool(name);
        }
        let mut double = Map::from_iter([("name".to_owned(), json!(name))]);
        if let Some(arguments) = arguments {
            double.insert("arguments".to_owned(), arguments.clone());
        }
        if self
            .tools
            .iter()
            .any(|known| known.get("name") == double.get("name") && known.get("arguments") == double.get("arguments"))
        {
            self.notes.insert(format!("tool `{name}` was called more than once with the same arguments; its double always answers as it did first"));
            return;
        }
        // A request through `wasi:http` fails as the host says it, every other call as the contract does.
        let error = made.answer.as_ref().and_then(|answer| answer.get("Err"));
        let failure = error.map(|error| error.get("Failed").unwrap_or(error));
        match (ok.and_then(Value::as_str), failure) {
            (Some(text), _) => {
                let answer = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
                double.insert("returns".to_owned(), answer);
            }
            (None, Some(failure)) => {
                let text = |name: &str| failure.get(name).and_then(Value::as_str).unwrap_or_default();
                let mut fails = Map::new();
                fails.insert("reason".to_owned(), json!(text("reason")));
                fails.insert("message".to_owned(), json!(text("message")));
                let details = match failure.get("details") {
                    None | Some(Value::Null) => None,
                    Some(Value::String(text)) => Some(serde_json::from_str(text).unwrap_or_else(|_| json!(text))),
                    Some(details) => Some(details.clone()),
                };
                fails.extend(details.map(|details| ("details".to_owned(), details)));
                double.insert("fails".to_owned(), Value::Object(fails));
            }
            (None, None) => {
                self.notes.insert(format!("the answer of tool `{name}` is not in the record; write what it returns"));
                double.insert("returns".to_owned(), json!({}));
            }
        }
        self.tools.push(Value::Object(double));
    }

    fn resource(&mut self, name: &str, path: Option<String>, ok: Option<&Value>) {
        let (Some(path), Some(answer)) = (path, ok) else { return };
        match answer.as_str() {
            Some(text) => drop(self.skills.entry(name.to_owned()).or_default().resources.insert(path, json!(text))),
            None => {
                self.notes.insert(format!("`{path}` of skill `{name}` is not text, and a case has only text"));
            }
        }
    }

    fn file(&mut self, made: &HostCall, root: &str, path: String, given: &[&Value], ok: Option<&Value>) {
        let entry = self.roots.entry(root.to_owned()).or_default();
        match made.call.as_str() {
            "files.open" if !entry.after.contains_key(&path) => drop(entry.read.entry(path).or_default()),
            "files.read" if !entry.after.contains_key(&path) => {
                let offset = given.get(2).and_then(|offset| offset.as_u64()).unwrap_or_default();
                if let Some(bytes) = ok.and_then(bytes_of) {
                    entry.read.entry(path).or_default().insert(offset, bytes);
                }
            }
            "files.create" => {
                entry.writable = true;
                entry.after.insert(path, Some(Vec::new()));
            }
            "files.write" => match given.get(2).and_then(|bytes| bytes_of(bytes)) {
                Some(bytes) => entry.after.entry(path).or_default().get_or_insert_default().extend(bytes),
                None => {
                    self.notes.insert(format!("what was written to `{root}/{path}` is too large for the record"));
                }
            },
            "files.remove" => {
                entry.writable = true;
                entry.read.entry(path.clone()).or_default();
                entry.after.insert(path, None);
            }
            "files.create-directory" => entry.writable = true,
            "files.entries" | "files.metadata" => {
                self.notes.insert(
                    "the plugin looked at directories or at files that it did not read; add what it expects to `tree`"
                        .to_owned(),
                );
            }
            _ => {}
        }
    }

    fn text(mut self, call: &RecordedCall) -> String {
        let files: Vec<(String, Value)> = std::mem::take(&mut self.roots)
            .into_iter()
            .map(|(name, root)| (name.clone(), self.tree(&name, root)))
            .collect();
        let context = &call.context;
        let head = format!("Recorded: run {}, step {}, visit {}.", context.run, context.step, context.visit);
        let mut text = String::new();
        // A line break in a name would end the comment.
        for note in std::iter::once(&head).chain(&self.notes) {
            let _ = writeln!(text, "# {}", opcell_types::text::one_line(note, 500));
        }
        // JSON is YAML.
        let _ = writeln!(text, "{}: {}", if call.judge { "judge" } else { "operation" }, json!(call.id));
        let _ = writeln!(text, "arguments: {}", call.arguments.to_json());
        let _ = writeln!(
            text,
            "context: {}",
            json!({
                "run": context.run, "step": context.step, "visit": context.visit, "attempt": context.attempt,
                "idempotency-key": context.idempotency_key,
            })
        );
        list(&mut text, "config", self.config.iter().map(|(key, value)| format!("{}: {value}", json!(key))));
        list(&mut text, "tools", self.tools.iter().map(|double| format!("- {double}")));
        let skills = self.skills.into_iter().map(|(name, Skill { mut members, resources })| {
            if !resources.is_empty() {
                members.insert("resources".to_owned(), Value::Object(resources));
            }
            format!("{}: {}", json!(name), Value::Object(members))
        });
        list(&mut text, "skills", skills);
        list(&mut text, "files", files.into_iter().map(|(name, tree)| format!("{}: {tree}", json!(name))));
        if call.result.is_none() {
            text.push_str("# The journal has only the beginning of the result.\n");
        }
        let expected = expected(call);
        if expected.is_empty() {
            text.push_str("expect: {}\n");
        }
        list(&mut text, "expect", expected.into_iter().map(|(name, value)| format!("{name}: {value}")));
        text
    }

    fn tree(&mut self, name: &str, root: Root) -> Value {
        let mut tree = Map::new();
        for (path, pieces) in root.read {
            let mut bytes = Vec::new();
            for (offset, piece) in pieces {
                let offset = usize::try_from(offset).unwrap_or(usize::MAX);
                if offset != bytes.len() && !piece.is_empty() {
                    self.notes
                        .insert(format!("only a part of `{name}/{path}` was read; the rest of it is not in the case"));
                    continue;
                }
                bytes.extend(piece);
            }
            tree.insert(path.clone(), self.file_text(name, &path, bytes));
        }
        let mut after = Map::new();
        for (path, bytes) in root.after {
            let text = bytes.map_or(Value::Null, |bytes| self.file_text(name, &path, bytes));
            after.insert(path, text);
        }
        json!({ "writable": root.writable, "tree": tree, "after": after })
    }

    fn file_text(&mut self, root: &str, path: &str, bytes: Vec<u8>) -> Value {
        match String::from_utf8(bytes) {
            Ok(text) => json!(text),
            Err(_) => {
                self.notes.insert(format!("`{root}/{path}` is not text, and a case has only text"));
                json!("")
            }
        }
    }
}

fn list(text: &mut String, key: &str, lines: impl Iterator<Item = String>) {
    let lines: Vec<String> = lines.map(|line| format!("  {line}\n")).collect();
    if lines.is_empty() {
        return;
    }
    let _ = write!(text, "{key}:\n{}", lines.concat());
}

fn expected(call: &RecordedCall) -> Vec<(String, Value)> {
    let mut members = Vec::new();
    let mut result = call.result.clone().unwrap_or_default();
    let failed = result.get("failure").is_some();
    match call.caller {
        Caller::Model if call.result.is_some() && !failed => {
            let both = result
                .as_object()
                .is_some_and(|it| it.len() == 2 && it.contains_key("summary") && it.contains_key("data"));
            result = if both { result } else { json!({ "data": result }) };
        }
        Caller::Routing if !failed => {
            let outcome = result.get("outcome").cloned().unwrap_or_default();
            let data = outcome.get("text").cloned().unwrap_or(outcome);
            result = json!({ "data": data, "summary": result.get("rationale") });
        }
        _ => {}
    }
    match (result.get("failure"), call.judge) {
        (Some(failure), _) => {
            let reason = match call.receipt.get("error").and_then(Value::as_str) {
                Some("plugin-failure") => failure.get("reason").cloned(),
                Some(kind) => Some(json!(kind)),
                // The cell did well; what became of its result did not.
                None => None,
            };
            members.extend(reason.map(|reason| ("failure".to_owned(), json!({ "reason": reason }))));
        }
        (None, true) => {
            let outcome = result.get("outcome").cloned().unwrap_or_default();
            let outcome = match outcome.get("keyword").and_then(Value::as_str) {
                Some(keyword) => json!(format!(":{keyword}")),
                None => outcome.get("text").cloned().unwrap_or(outcome),
            };
            members.push(("outcome".to_owned(), outcome));
            members.extend(
                result
                    .get("rationale")
                    .filter(|text| !text.is_null())
                    .map(|text| ("rationale".to_owned(), text.clone())),
            );
        }
        (None, false) => {
            let named =
                |name: &str| Some((name.to_owned(), result.get(name).filter(|value| !value.is_null())?.clone()));
            members.extend(["data", "summary", "details"].into_iter().filter_map(named));
        }
    }
    let denials = call.receipt.get("denials").and_then(Value::as_array).into_iter().flatten();
    let denials: Vec<&Value> = denials.filter_map(|denial| denial.get("capability")).collect();
    if !denials.is_empty() {
        members.push(("denials".to_owned(), json!(denials)));
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcell::{Recorded, replay};
    use opcell_engine::event::Timestamp;

    fn recorded(calls: &Value, reply: &str, result: &Value, judge: bool) -> RecordedCall {
        let record = json!({
            "id": "a/b", "judge": judge, "arguments": {"n": 1}, "calls": calls, "preopens": true,
            "context": {"run": "r", "step": "s", "visit": 2, "attempt": 1, "idempotency-key": "k"},
        });
        let receipt = json!({
            "plugin": "p", "digest": "d", "operation": "a/b", "host-calls": {"tools": 4}, "recorded": record,
            "error": result.get("Err").map(|_| "plugin-failure"),
            "denials": [{"capability": "tool shell", "rule": "r", "remedy": "nothing"}],
        });
        let events = [
            json!({"step-entered": {"frame": 1, "parent": 0, "step": 0, "name": "s", "visit": 2}}),
            json!({"requested": {"effect": 1, "frame": 1, "request": {reply: {"arguments": {"n": 1}}}}}),
            json!({"replied": {"effect": 1, "reply": {reply: {"result": result, "receipt": receipt}}}}),
        ];
        let events: Vec<Recorded> = (1..)
            .zip(events)
            .map(|(seq, event)| Recorded::new(seq, Timestamp(0), serde_json::from_value(event).unwrap()))
            .collect();
        replay::calls("r", &events, "s").unwrap().remove(0)
    }

    fn call(name: &str, given: Value, answer: Value) -> Value {
        json!({"call": name, "given": given, "answer": answer})
    }

    #[test]
    fn a_recorded_call_becomes_a_case_that_is_one() {
        let ok = |value: &str| json!({"Ok": value});
        let denied = json!({"Err": {"Denied": {"capability": "tool shell", "rule": "r", "remedy": "m"}}});
        let failed = json!({"Err": {"Failed": {"reason": "timeout", "message": "m", "details": null}}});
        let calls = json!([
            call("tools.call", json!(["http.fetch", {"url": "a"}]), ok("{\"status\":200}")),
            call("tools.call", json!(["http.fetch", {"url": "a"}]), ok("{\"status\":500}")),
            call("tools.call", json!(["http.fetch", {"url": "b"}]), failed),
            call("tools.call", json!(["shell", {}]), denied),
            {"call": "tools.call", "given": ["large", {}], "answer-left-out": 2_000_000},
            call("config.get", json!(["region"]), ok("eu-north")),
            call("config.get", json!(["zone"]), json!({"Ok": null})),
            call("config.get-all", json!([]), json!({"Ok": [["replicas", "3"]]})),
            call("skills.read", json!(["how"]), ok("body # not a comment\n")),
            call("skills.read-resource", json!(["how", "x.txt"]), ok("resource")),
            call("files.open-root", json!(["w"]), json!({"Ok": null})),
            call("files.open", json!(["w", "a.md"]), json!({"Ok": null})),
            call("files.read", json!(["w", "a.md", 0, 4]), ok("some")),
            call("files.read", json!(["w", "a.md", 4, 4]), ok("text")),
            call("files.create", json!(["w", "b.md"]), json!({"Ok": null})),
            call("files.write", json!(["w", "b.md", "new: \n"]), json!({"Ok": null})),
            call("files.remove", json!(["w", "c.md"]), json!({"Ok": null})),
            {"call": "files.write", "given": {"bytes": 100_000, "blake3": "0"}, "answer": {"Ok": null}},
        ]);
        let text = case_of(&recorded(&calls, "invoke", &json!({"Ok": {"data": {"x": [1]}, "summary": "done"}}), false));
        let case = super::super::case::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let schema: Value = serde_json::from_str(super::super::SCHEMA).unwrap();
        let whole: Value = serde_saphyr::from_str(&text).unwrap();
        opcell_schema::Schema::compile(&schema).unwrap().check(&whole).unwrap();
        assert_eq!((case.operation.as_deref(), case.context.visit), (Some("a/b"), Some(2)));
        let names: Vec<&str> = case.tools.iter().map(|double| double.name.as_str()).collect();
        assert_eq!(names, ["http.fetch", "http.fetch", "shell", "large"]);
        assert_eq!(case.tools[0].returns, Some(json!({"status": 200})));
        assert_eq!(case.tools[1].fails.as_ref().unwrap().reason, "timeout");
        assert!(case.tools[2].denied);
        let config: Vec<(&str, &str)> = case.config.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!(config, [("region", "eu-north"), ("replicas", "3")]);
        assert_eq!(case.skills["how"].body, "body # not a comment\n");
        assert_eq!(case.skills["how"].resources["x.txt"], "resource");
        let root = &case.files["w"];
        assert!(root.writable);
        assert_eq!(root.tree["a.md"], "sometext");
        assert_eq!((root.after["b.md"].as_deref(), root.after["c.md"].as_deref()), (Some("new: \n"), None));
        assert_eq!((case.expect.data, case.expect.summary.as_deref()), (Some(json!({"x": [1]})), Some("done")));
        assert_eq!(case.expect.denials.unwrap(), ["tool shell"]);
        for note in ["more than once", "`large` is not in the record", "WASI", "files.write was given"] {
            assert!(text.lines().any(|line| line.starts_with("# ") && line.contains(note)), "{note}: {text}");
        }
    }

    #[test]
    fn a_verdict_and_a_failure_are_what_the_case_expects() {
        let verdict = json!({"Ok": {"outcome": {"keyword": "go"}, "rationale": "why"}});
        let case = case_of(&recorded(&json!([]), "judge", &verdict, true));
        let case = super::super::case::parse(&case).unwrap_or_else(|error| panic!("{error}\n{case}"));
        assert_eq!((case.judge.as_deref(), case.expect.outcome.as_deref()), (Some("a/b"), Some(":go")));
        let failure = json!({"Err": {"source": "plugin", "reason": "no-luck", "message": "m", "retriable": true}});
        let case = case_of(&recorded(&json!([]), "invoke", &failure, false));
        let case = super::super::case::parse(&case).unwrap_or_else(|error| panic!("{error}\n{case}"));
        assert_eq!(case.expect.failure.unwrap().reason.as_deref(), Some("no-luck"));
    }

    #[test]
    fn calls_made_at_once_are_numbered_as_they_were_asked_for() {
        let requested = |effect: u64| json!({"requested": {"effect": effect, "frame": 1, "request": {"invoke": {"arguments": {"n": effect}}}}});
        let replied = |effect: u64| {
            let record = json!({
                "id": "a/b", "judge": false, "calls": [], "arguments": {"n": effect},
                "context": {"run": "r", "step": "s", "visit": 1, "attempt": 1, "idempotency-key": "k"},
            });
            let receipt =
                json!({"plugin": "p", "digest": "d", "operation": "a/b", "host-calls": {}, "recorded": record});
            json!({"replied": {"effect": effect, "reply": {"invoke": {"result": {"Ok": {}}, "receipt": receipt}}}})
        };
        let entered = json!({"step-entered": {"frame": 1, "parent": 0, "step": 0, "name": "s", "visit": 1}});
        let events: Vec<Recorded> = (1..)
            .zip([entered, requested(1), requested(2), replied(2), replied(1)])
            .map(|(seq, event)| Recorded::new(seq, Timestamp(0), serde_json::from_value(event).unwrap()))
            .collect();
        let calls = replay::calls("r", &events, "s").unwrap();
        let given: Vec<Value> = calls.iter().map(|call| serde_json::to_value(&call.arguments).unwrap()).collect();
        assert_eq!(given, [json!({"n": 1}), json!({"n": 2})]);
    }
}
