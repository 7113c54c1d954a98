//! The content of a case file.

use super::places::Places;
use opcell_sandbox::limits::LimitRequest;
use opcell_types::suggest::reader_message;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

/// The largest case file.
const MAX_BYTES: u64 = 4 << 20;

/// A call and its expected result.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Case {
    /// The operation to invoke; a case has this or `judge`.
    pub operation: Option<String>,
    /// The judge to ask.
    pub judge: Option<String>,
    /// Its arguments.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// The place of the call in a run.
    #[serde(default)]
    pub context: CaseContext,
    /// Calls that are made before it, in this order, in cells of their own; none may fail.
    #[serde(default)]
    pub before: Vec<EarlierCall>,
    /// Limits of its cell, above or below those that the plugin has otherwise.
    #[serde(default)]
    pub limits: LimitRequest,
    /// Stores by name.
    #[serde(default)]
    pub stores: BTreeMap<String, StoreDouble>,
    /// The settings that it reads through `wasi:config/store`.
    #[serde(default)]
    pub config: BTreeMap<String, String>,
    /// Doubles of the host's tools; the first that fits answers.
    #[serde(default)]
    pub tools: Vec<ToolDouble>,
    /// Skills by name.
    #[serde(default)]
    pub skills: BTreeMap<String, SkillDouble>,
    /// File roots by name.
    #[serde(default)]
    pub files: BTreeMap<String, Tree>,
    /// The expected result of the call.
    pub expect: Expect,
    /// The places of its file.
    #[serde(skip)]
    pub(super) places: Places,
}

/// A call that is made before the one of the case, with the same doubles, files and stores.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct EarlierCall {
    /// The operation to invoke.
    pub operation: String,
    /// Its arguments.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

/// A store, made anew for the case.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct StoreDouble {
    /// Entries at first: key to text.
    pub entries: BTreeMap<String, String>,
    /// Entries that must be there afterwards: key to text, `null` where there must be none.
    pub after: BTreeMap<String, Option<String>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct CaseContext {
    pub run: String,
    pub step: String,
    pub visit: Option<u32>,
    pub attempt: Option<u32>,
    pub idempotency_key: String,
}

/// An answer to calls of a tool. With none of `arguments`, `like` and `matching` it answers every call.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ToolDouble {
    /// The tool.
    pub name: String,
    /// Answers only these arguments.
    pub arguments: Option<Value>,
    /// Answers only arguments like these: members that are named must fit, and `*` in a text matches any characters.
    pub like: Option<Value>,
    /// Answers only arguments that this JSON Schema accepts.
    pub matching: Option<Value>,
    /// The result of the call.
    pub returns: Option<Value>,
    /// The failure of the call.
    pub fails: Option<FailureDouble>,
    /// `true` if the operator has not granted the tool.
    #[serde(default)]
    pub denied: bool,
    /// Milliseconds before the answer.
    #[serde(default)]
    pub delay_ms: u64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FailureDouble {
    pub reason: String,
    #[serde(default)]
    pub message: String,
    pub details: Option<Value>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct SkillDouble {
    pub description: String,
    pub body: String,
    /// `true` if the operator has not granted the skill.
    pub denied: bool,
    /// Files of the skill: path to text.
    pub resources: BTreeMap<String, String>,
}

/// A root, made anew for the case.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Tree {
    /// `true` if the plugin may write.
    pub writable: bool,
    /// The files that are there: path to text.
    pub tree: BTreeMap<String, String>,
    /// The files that must be different afterwards: path to text, `null` where there must be nothing any more.
    pub after: BTreeMap<String, Option<String>>,
}

/// The expected result of a call. What is not named is not looked at, except that a call must not fail unless `failure`
/// says so.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Expect {
    /// The operation's data.
    pub data: Option<Value>,
    /// The operation's summary.
    pub summary: Option<String>,
    /// The operation's details.
    pub details: Option<Value>,
    /// The judge's outcome; `:name` is a keyword.
    pub outcome: Option<String>,
    /// Why the judge chose it.
    pub rationale: Option<String>,
    /// The failure of the call.
    pub failure: Option<ExpectedFailure>,
    /// Capabilities that are denied, such as `tool http.fetch`, in this order.
    pub denials: Option<Vec<String>>,
    /// Texts that lines of the log contain, in this order.
    pub log: Option<Vec<String>>,
    /// Bounds on what the cell uses.
    pub at_most: Bounds,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ExpectedFailure {
    /// The reason that the plugin gives, or the name of what the cell ran into, such as `trap`.
    pub reason: Option<String>,
    /// A text that the message contains.
    pub message: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Bounds {
    /// Bytes of linear memory.
    pub memory: Option<u64>,
    /// Calls of host functions.
    pub host_calls: Option<u64>,
    /// Ticks of computing, 10 ms each.
    pub ticks: Option<u64>,
}

/// Why a case file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// It does not say what a case says.
    #[error("{}: {message}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The expectation.
        message: String,
    },
}

/// A case with the file that it stands in.
#[derive(Debug, Clone)]
pub struct CaseFile {
    /// The file's name without its extension.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The case in the file.
    pub case: Case,
}

/// Reads the case files of a folder, in the order of their names.
///
/// # Errors
/// When the folder or one of them cannot be used.
pub fn read(folder: &Path) -> Result<Vec<CaseFile>, CaseError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| CaseError::File { path: folder.to_owned(), error })?,
    };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|kind| kind == "yaml" || kind == "yml"))
        .collect();
    paths.sort();
    paths.into_iter().map(one).collect()
}

fn one(path: PathBuf) -> Result<CaseFile, CaseError> {
    let file = |error| CaseError::File { path: path.clone(), error };
    // Whoever names the folder has not named what its links lead to, and a message would show a line of it.
    if opcell_types::files::leads_out(&path, path.parent().unwrap_or(Path::new(""))).is_some() {
        return Err(CaseError::Wrong { path, message: "it is a link that leads out of its folder".to_owned() });
    }
    let text = opcell_types::files::read_text_bounded(&path, MAX_BYTES).map_err(file)?;
    let mut case = parse(&text).map_err(|message| CaseError::Wrong { path: path.clone(), message })?;
    case.places = Places::new(&path, &text);
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(CaseFile { name, path, case })
}

/// Keys of `expect`, which are easily written beside it.
const OF_EXPECT: [&str; 9] =
    ["data", "summary", "details", "outcome", "rationale", "failure", "denials", "log", "at-most"];

/// A message about an unknown key, with the place where it is known.
fn with_place(message: String) -> String {
    let key = message.split_once("unknown key `").and_then(|(_, rest)| rest.split('`').next());
    match key {
        Some(key) if OF_EXPECT.contains(&key) => format!("{message}; `{key}` is a key of `expect`"),
        _ => message,
    }
}

/// Reads a case.
///
/// # Errors
/// What is wrong with it, and where.
pub fn parse(text: &str) -> Result<Case, String> {
    let case: Case = serde_saphyr::from_str(text).map_err(|error| with_place(reader_message(&error.to_string())))?;
    match (&case.operation, &case.judge) {
        (Some(_), Some(_)) => return Err("it has `operation` and `judge`; a case calls one of them".to_owned()),
        (None, None) => return Err("`operation` or `judge` is missing: it says what is called".to_owned()),
        (Some(_), None) if case.expect.outcome.is_some() || case.expect.rationale.is_some() => {
            return Err("`expect.outcome` and `expect.rationale` are for judges; an operation has `data`".to_owned());
        }
        (None, Some(_)) if case.expect.data.is_some() || case.expect.summary.is_some() => {
            return Err("`expect.data` and `expect.summary` are for operations; a judge has `outcome`".to_owned());
        }
        _ => {}
    }
    for double in &case.tools {
        let answers = [double.returns.is_some(), double.fails.is_some(), double.denied];
        if answers.into_iter().filter(|answer| *answer).count() != 1 {
            return Err(format!("the double of tool `{}` needs one of: returns, fails, denied", double.name));
        }
        let conditions = [&double.arguments, &double.like, &double.matching];
        if conditions.into_iter().filter(|condition| condition.is_some()).count() > 1 {
            return Err(format!("the double of tool `{}` needs one of: arguments, like, matching", double.name));
        }
    }
    Ok(case)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_case_is_said() {
        for (text, expected) in [
            ("arguments: {}\nexpect: {}\n", "`operation` or `judge` is missing"),
            ("operation: a/b\njudge: a/c\nexpect: {}\n", "a case calls one of them"),
            ("operation: a/b\nexpect: { outcome: x }\n", "are for judges"),
            ("judge: a/b\nexpect: { data: 1 }\n", "are for operations"),
            ("operation: a/b\nexpct: {}\n", "did you mean `expect`?"),
            ("operation: a/b\nat-most: { ticks: 5 }\nexpect: {}\n", "`at-most` is a key of `expect`"),
            ("operation: a/b\ndata: 1\nexpect: {}\n", "`data` is a key of `expect`"),
            ("operation: a/b\ntools: { t: 1 }\nexpect: {}\n", "expected a list"),
            ("operation: a/b\nexpect: { summry: x }\n", "did you mean `summary`?"),
            ("operation: a/b\nlimits: { memry: 1 }\nexpect: {}\n", "did you mean `memory`?"),
            ("operation: a/b\ntools: [{ name: t }]\nexpect: {}\n", "needs one of: returns, fails, denied"),
            (
                "operation: a/b\ntools: [{ name: t, like: {}, matching: {}, returns: 1 }]\nexpect: {}\n",
                "needs one of: arguments, like, matching",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains('\n') && !error.contains("<input>"), "the place is said once: {error}");
        }
        let error = parse("operation: a/b\nexpct: {}\n").unwrap_err();
        assert!(error.starts_with("line 2 column 1: unknown key `expct`"), "{error}");
    }

    #[test]
    fn a_case_that_would_grow_without_bound_is_refused() {
        let mut bomb = "operation: a/b\nexpect: {}\narguments:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for at in 1..12 {
            let before = vec![format!("*a{}", at - 1); 10].join(", ");
            bomb.push_str(&format!("  a{at}: &a{at} [{before}]\n"));
        }
        assert!(parse(&bomb).is_err());
        let deep = format!(
            "operation: a/b\nexpect: {{}}\narguments: {{ a: {}{} }}\n",
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        assert!(parse(&deep).is_err());
    }

    #[test]
    fn the_published_schema_knows_every_key_and_accepts_what_is_read() {
        let schema: Value = serde_json::from_str(super::super::SCHEMA).unwrap();
        let compiled = opcell_schema::Schema::compile(&schema).unwrap();
        let whole = json(
            r#"{"operation":"a/b","arguments":{},"context":{"run":"r","step":"s","visit":1,"attempt":1,"idempotency-key":"k"},
                "tools":[{"name":"t","arguments":{},"returns":1,"delay-ms":5},{"name":"t","like":{},"fails":{"reason":"x","message":"m","details":1}},
                         {"name":"t","matching":{},"denied":true}],
                "skills":{"s":{"description":"d","body":"b","denied":false,"resources":{"a":"b"}}},
                "before":[{"operation":"a/c","arguments":{"n":1}}],"limits":{"memory":"128 MiB","ticks":5},
                "stores":{"s":{"entries":{"k":"v"},"after":{"k":"w","gone":null}}},
                "files":{"w":{"writable":true,"tree":{"a":"b"},"after":{"a":null}}},
                "expect":{"data":1,"summary":"s","details":{},"failure":{"reason":"r","message":"m"},"denials":["tool t"],"log":["l"],
                          "at-most":{"memory":1,"host-calls":1,"ticks":1}}}"#,
        );
        compiled.check(&whole).unwrap();
        parse(&whole.to_string()).unwrap();
        let judge = json(r#"{"judge":"a/b","expect":{"outcome":":x","rationale":"r"}}"#);
        compiled.check(&judge).unwrap();
        parse(&judge.to_string()).unwrap();
        compiled.check(&json(r#"{"operation":"a/b","expct":{}}"#)).unwrap_err();
    }

    fn json(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }
}
