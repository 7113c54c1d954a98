//! What a case file says.

use serde::Deserialize;
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

/// The largest case file.
const MAX_BYTES: u64 = 4 << 20;

/// A call and what it must give.
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
    /// Where in a run the call is.
    #[serde(default)]
    pub context: CaseContext,
    /// Doubles of the host's tools; the first that fits answers.
    #[serde(default)]
    pub tools: Vec<ToolDouble>,
    /// Skills by name.
    #[serde(default)]
    pub skills: BTreeMap<String, SkillDouble>,
    /// File roots by name.
    #[serde(default)]
    pub files: BTreeMap<String, Tree>,
    /// What the call must give.
    pub expect: Expect,
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

/// An answer to calls of a tool. With neither `arguments` nor `matching` it answers every call.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ToolDouble {
    /// The tool.
    pub name: String,
    /// Answers only these arguments.
    pub arguments: Option<Value>,
    /// Answers only arguments that this JSON Schema accepts.
    pub matching: Option<Value>,
    /// What the call gives.
    pub returns: Option<Value>,
    /// How it fails.
    pub fails: Option<FailureDouble>,
    /// Whether the operator has not granted the tool.
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
    /// Files of the skill: path to text.
    pub resources: BTreeMap<String, String>,
}

/// A root, made anew for the case.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Tree {
    /// Whether the plugin may write.
    pub writable: bool,
    /// What is there: path to text.
    pub tree: BTreeMap<String, String>,
    /// What must be there afterwards; files that are not named are not looked at. `null`: must not be there.
    pub after: BTreeMap<String, Option<String>>,
}

/// What a call must give. What is not named is not looked at, except that a call must not fail unless `failure` says so.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Expect {
    /// The operation's data.
    pub data: Option<Value>,
    /// The operation's summary.
    pub summary: Option<String>,
    /// The judge's outcome; `:name` is a keyword.
    pub outcome: Option<String>,
    /// How the call fails.
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
    pub reason: String,
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
        /// Why.
        error: io::Error,
    },
    /// It does not say what a case says.
    #[error("{}: {message}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What was expected.
        message: String,
    },
}

/// Reads the case files of a folder, in the order of their names.
///
/// # Errors
/// When the folder or one of them cannot be used.
pub fn read(folder: &Path) -> Result<Vec<(String, Case)>, CaseError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| CaseError::File { path: folder.to_owned(), error })?,
    };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|kind| kind == "yaml" || kind == "yml"))
        .collect();
    paths.sort();
    paths.into_iter().map(|path| one(&path)).collect()
}

fn one(path: &Path) -> Result<(String, Case), CaseError> {
    let file = |error| CaseError::File { path: path.to_owned(), error };
    let wrong = |message: String| CaseError::Wrong { path: path.to_owned(), message };
    let about = fs::metadata(path).map_err(file)?;
    if !about.is_file() || about.len() > MAX_BYTES {
        return Err(wrong(format!("expected a file of at most {MAX_BYTES} bytes")));
    }
    let text = fs::read_to_string(path).map_err(file)?;
    let case: Case = serde_saphyr::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    match (&case.operation, &case.judge) {
        (Some(_), Some(_)) => return Err(wrong("it has `operation` and `judge`; a case calls one of them".to_owned())),
        (None, None) => return Err(wrong("`operation` or `judge` is missing: it says what is called".to_owned())),
        (Some(_), None) if case.expect.outcome.is_some() => {
            return Err(wrong("`expect.outcome` is for judges; an operation has `data`".to_owned()));
        }
        (None, Some(_)) if case.expect.data.is_some() => {
            return Err(wrong("`expect.data` is for operations; a judge has `outcome`".to_owned()));
        }
        _ => {}
    }
    for double in &case.tools {
        let answers = [double.returns.is_some(), double.fails.is_some(), double.denied];
        if answers.into_iter().filter(|answer| *answer).count() != 1 {
            let message = format!("the double of tool `{}` needs one of: returns, fails, denied", double.name);
            return Err(wrong(message));
        }
    }
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok((name, case))
}
