//! The additions of `opcell run` for WorkflowSkill: inputs by their declared types, and the run log.

use super::{Failure, Global, Terminal, input};
use opcell::{
    document::{self, Document},
    host::Host,
    report::Rejected,
    run::Workflow,
};
use opcell_engine::{
    event::Recorded,
    ports::{SystemTimer, Timer as _},
};
use opcell_ir::{
    Diagnostic,
    diagnostic::did_you_mean,
    ir::{Form, Input},
};
use opcell_types::{
    Value,
    text::one_line,
    value::{Map, NumberKind, is_rounded_integer, rounded_message},
};
use opcell_workflow::workflowskill::run_log::{Projection, RunLog};
use opcell_workflow::{document::Language, workflowskill};
use std::{path::Path, sync::Arc};

/// Bytes of an input's name in a warning.
const SHOWN_NAME: usize = 100;

/// Returns the input of a run: `--input` pairs by the types that the workflow declares, and over them `--json-input`.
pub fn run_input(workflow: &Workflow, parts: &[String], json: Option<&str>) -> Result<Value, Rejected> {
    let pairs: Option<Vec<(&str, &str)>> = parts.iter().map(|part| input::written_pair(part)).collect();
    let given = match pairs {
        Some(pairs) if reads_by_type(workflow) => typed(workflow, &pairs)?,
        Some(pairs) => texts(workflow, &pairs, input::run_input(parts)?),
        None => input::run_input(parts)?,
    };
    let Some(json) = json else { return Ok(given) };
    let over = Value::from_json(json).map_err(|error| wrong(format!("`--json-input` is not JSON: {error}")))?;
    let (Value::Object(given), Value::Object(over)) = (given, over) else {
        return Err(wrong("`--json-input` must be a JSON object of inputs, such as '{\"n\": 3}'".to_owned()));
    };
    let mut merged = given.to_map();
    merged.extend(over.iter().map(|(key, value)| (key.clone(), value.clone())));
    Ok(Value::from(merged))
}

/// Returns `true` if all that is not declared otherwise is a text: WorkflowSkill's inputs, and a pack's variables,
/// which a prompt has as they were typed.
fn reads_by_type(workflow: &Workflow) -> bool {
    let language = workflow.document().and_then(|document| document.language);
    matches!(language, Some(Language::WorkflowSkill | Language::PromptPack))
}

fn is_skill(workflow: &Workflow) -> bool {
    workflow.document().is_some_and(|document| document.language == Some(Language::WorkflowSkill))
}

fn wrong(message: String) -> Rejected {
    Rejected::plain(Diagnostic::error("invalid-input", message))
}

/// Texts by declared types. What is not declared is a text: the document cannot say otherwise.
fn typed(workflow: &Workflow, pairs: &[(&str, &str)]) -> Result<Value, Rejected> {
    let mut given = Map::new();
    for (key, text) in pairs {
        let value = match workflow.ir().inputs.get(*key) {
            Some(declared) => read_as(declared, text).ok_or_else(|| {
                let help = match declared.kind.as_str() {
                    "int" | "integer" => format!("such as `{key}=3`"),
                    "number" => format!("such as `{key}=3` or `{key}=0.5`"),
                    "float" => format!("such as `{key}=0.5`"),
                    "boolean" => format!("`{key}=true` or `{key}=false`"),
                    "array" => format!("JSON, such as `'{key}=[1, 2]'`"),
                    _ => format!("JSON, such as `'{key}={{\"a\": 1}}'`"),
                };
                if is_rounded_integer(text.trim()) && matches!(declared.kind.as_str(), "int" | "integer") {
                    let message = format!("input `{key}`: {}", rounded_message(text.trim()));
                    return Rejected::plain(Diagnostic::error("invalid-input", message).help(help));
                }
                let message = format!("input `{key}` is declared `{}`, but `{text}` is not one", declared.kind);
                Rejected::plain(Diagnostic::error("invalid-input", message).help(help))
            })?,
            None if takes_data(workflow) => Value::from_json(text).unwrap_or_else(|_| Value::from(*text)),
            None => Value::from(*text),
        };
        if given.insert((*key).into(), value).is_some() {
            return Err(wrong(format!("`{key}` is given twice")));
        }
    }
    Ok(Value::from(given))
}

/// Returns `true` if a run begins with a composition of a pack, which takes data and declares none of it.
fn takes_data(workflow: &Workflow) -> bool {
    let entry = workflow.ir().entry.as_ref().and_then(|entry| workflow.ir().step(entry));
    entry.is_some_and(|entry| matches!(entry.form, Form::Delegate { .. }))
}

/// Makes values that are declared as texts texts, also where they look like JSON.
fn texts(workflow: &Workflow, pairs: &[(&str, &str)], given: Value) -> Value {
    let is_text = |key: &str| workflow.ir().inputs.get(key).is_some_and(|declared| declared.kind == "string");
    let texts: Vec<_> = pairs.iter().filter(|(key, _)| is_text(key)).collect();
    let (Value::Object(entries), false) = (&given, texts.is_empty()) else { return given };
    let mut entries = entries.to_map();
    entries.extend(texts.into_iter().map(|(key, text)| ((*key).into(), Value::from(*text))));
    Value::from(entries)
}

fn read_as(declared: &Input, text: &str) -> Option<Value> {
    let kind = declared.kind.as_str();
    // A pack may have types of its host's own: their values are texts here.
    if !matches!(kind, "int" | "integer" | "float" | "number" | "boolean" | "array" | "object") {
        return Some(text.into());
    }
    let value = Value::from_json(text).ok()?;
    let fits = match (kind, &value) {
        ("int" | "integer", Value::Number(n)) => match n.kind() {
            NumberKind::Float(n) => n.fract() == 0.0,
            NumberKind::Integer(_) | NumberKind::Unsigned(_) => true,
        },
        ("float" | "number", Value::Number(_))
        | ("boolean", Value::Bool(_))
        | ("array", Value::Array(_))
        | ("object", Value::Object(_)) => true,
        _ => false,
    };
    fits.then_some(value)
}

/// Inputs that are given under a name that is not declared, and close to one that is declared and not given.
pub fn misspelt_inputs(workflow: &Workflow, given: &Value) -> Option<String> {
    let declared = &workflow.ir().inputs;
    let unused = || declared.keys().map(AsRef::as_ref).filter(|name| given.get(name).is_none());
    let entries = given.as_object().into_iter().flat_map(|entries| entries.keys());
    let unknown = entries.filter(|name| !declared.contains_key(&***name));
    let misspelt = unknown.filter_map(|name| {
        let meant = did_you_mean(name, unused())?;
        Some(format!("`{}` is not declared, did you mean `{meant}`?", one_line(name, SHOWN_NAME)))
    });
    let misspelt: Vec<String> = misspelt.collect();
    (!misspelt.is_empty()).then(|| format!("warning: of the inputs, {}", misspelt.join(" ")))
}

/// Inputs that are declared, have no default and are not given: the language then takes them as undefined.
pub fn missing_inputs(workflow: &Workflow, given: &Value) -> Option<String> {
    if !is_skill(workflow) {
        return None;
    }
    let missing = |(name, input): (&Arc<str>, &Input)| {
        (input.default.is_none() && given.get(name).is_none()).then(|| format!("`{name}`"))
    };
    let missing: Vec<String> = workflow.ir().inputs.iter().filter_map(missing).collect();
    (!missing.is_empty()).then(|| {
        format!("warning: these inputs are declared without a default and were not given: {}", missing.join(", "))
    })
}

/// Collects a run's log and records where someone asks for them.
#[derive(Default)]
pub struct LogWriter {
    projection: Option<Projection>,
    instead: bool,
}

impl LogWriter {
    /// `log`: the run log is asked for; a result as JSON has the records of a WorkflowSkill.
    pub fn new(workflow: &Workflow, log: bool, terminal: &Terminal) -> Self {
        let wanted = log || (terminal.json && is_skill(workflow));
        Self { projection: wanted.then(Projection::default), instead: log }
    }

    /// Takes the next event of the run.
    pub fn observe(&mut self, recorded: &Recorded) -> Result<(), Failure> {
        if let Some(projection) = &mut self.projection {
            projection.apply(recorded).map_err(anyhow::Error::from)?;
        }
        Ok(())
    }

    /// Returns the records of every step, of runs that were given up too.
    pub fn records(&self) -> Result<Option<serde_json::Value>, Failure> {
        let records = self.projection.as_ref().map(|projection| serde_json::to_value(projection.records()));
        Ok(records.transpose().map_err(anyhow::Error::from)?)
    }

    /// Returns `true` if the log is written instead of the result.
    pub fn replaces_result(&self) -> bool {
        self.instead
    }

    /// Writes the log; nothing while the run has not ended.
    pub fn write(self, terminal: &Terminal) -> Result<(), Failure> {
        self.projection.and_then(Projection::into_log).map_or(Ok(()), |log| write(&log, terminal))
    }
}

fn write(log: &RunLog, terminal: &Terminal) -> Result<(), Failure> {
    terminal.json(&serde_json::to_value(log).map_err(anyhow::Error::from)?)?;
    Ok(())
}

/// Writes the log of a run that did not begin, if the document is WorkflowSkill and the language has a word for why.
pub fn write_refusal(global: &Global, target: &str, host: &Host, terminal: &Terminal) -> Result<(), Failure> {
    let document = document::read(Path::new(target)).ok().or_else(|| named_document(global, target));
    let log = document.as_ref().and_then(|document| refusal(document, &|tool| host.catalog().knows_name(tool)));
    log.map_or(Ok(()), |log| write(&log, terminal))
}

/// A workflow of the project's folders by its file name: the folders' own reading knows it only as refused.
fn named_document(global: &Global, name: &str) -> Option<Document> {
    let config = global.config().ok()?;
    let folders = config.default_workflows.iter().chain(&config.workflows);
    let mut files = folders.flat_map(|folder| document::in_folder(folder));
    let file = files.rfind(|file| file.file_stem().is_some_and(|stem| stem == name))?;
    document::read_listed(&file).ok()
}

fn refusal(document: &Document, knows: &dyn Fn(&str) -> bool) -> Option<RunLog> {
    if document.language != Some(Language::WorkflowSkill) {
        return None;
    }
    let id: Arc<str> = uuid::Uuid::now_v7().to_string().into();
    let now = SystemTimer.now();
    let stem = Path::new(document.source.name()).file_stem().and_then(|stem| stem.to_str()).unwrap_or("inline");
    match workflowskill::parse_document(document.source.text()) {
        Err(error) => Some(RunLog::of_parse_error(id, stem, &error, now)),
        Ok(skill) => {
            let issues = skill.validate(Some(knows));
            (!issues.is_empty()).then(|| RunLog::of_issues(id, skill.name().unwrap_or(stem), &issues, now))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(parts: &[&str], json: Option<&str>) -> Result<String, String> {
        let text = "inputs:\n  s: {type: string}\n  n: {type: int, default: 1}\n  x: {type: float}\n  b: {type: boolean}\n  l: {type: array}\n  o: {type: object}\nsteps:\n  - {id: a, type: exit, status: success}\n";
        let workflow = Workflow::compile("w.yaml", text).unwrap();
        let parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
        run_input(&workflow, &parts, json).map(|value| value.to_json()).map_err(|rejected| rejected.to_string())
    }

    #[test]
    fn pairs_are_read_by_their_declared_types() {
        assert_eq!(
            given(&["s=007", "n=7", "x=1", "b=true", "l=[1]", "o={}", "other=1"], None).unwrap(),
            r#"{"s":"007","n":7,"x":1,"b":true,"l":[1],"o":{},"other":"1"}"#
        );
        assert_eq!(given(&["s=true", "s2="], None).unwrap(), r#"{"s":"true","s2":""}"#);
        for wrong in ["n=1.5", "n=x", "n=", "x=\"1\"", "b=yes", "b=1", "l={}", "l=1", "o=[]"] {
            assert!(given(&[wrong], None).unwrap_err().contains("is declared"), "{wrong}");
        }
        assert!(given(&["n=1", "n=2"], None).unwrap_err().contains("twice"));
    }

    #[test]
    fn json_input_wins_and_keeps_its_types() {
        assert_eq!(given(&["s=a", "n=7"], Some(r#"{"s": 5, "k": null}"#)).unwrap(), r#"{"s":5,"n":7,"k":null}"#);
        assert_eq!(given(&[r#"{"n": "7"}"#], None).unwrap(), r#"{"n":"7"}"#);
        for wrong in ["[1]", "7", "{"] {
            assert!(given(&[], Some(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_not_given_is_told() {
        let workflow = Workflow::compile(
            "w.yaml",
            "inputs:\n  a: {type: string}\n  b: {type: int, default: 1}\nsteps:\n  - {id: a, type: exit, status: success}\n",
        )
        .unwrap();
        let reported = missing_inputs(&workflow, &Value::object::<&str>([])).unwrap();
        assert!(reported.ends_with("not given: `a`"), "{reported}");
        assert_eq!(missing_inputs(&workflow, &Value::object([("a", Value::Null)])), None);
    }
}
