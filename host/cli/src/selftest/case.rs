//! One hostile case, as its folder says it.

use anyhow::{Context as _, Result};
use include_dir::{Dir, include_dir};
use opcell_sandbox::LimitRequest;
use serde::Deserialize;
use std::{collections::BTreeMap, time::Duration};

static CASES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/hostile");

/// Where a guest must be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Before it becomes a plugin.
    Load,
    /// When it is called.
    #[default]
    Invoke,
}

/// One kind or several that may contain a case.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Kinds {
    One(String),
    Several(Vec<String>),
}

/// What `case.toml` says.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct CaseFile {
    title: String,
    #[serde(default)]
    at: Stage,
    expect: Kinds,
    #[serde(default)]
    world: Option<String>,
    #[serde(default)]
    limits: BTreeMap<String, String>,
    #[serde(default)]
    within: Option<String>,
    #[serde(default)]
    grant_tools: Vec<String>,
    #[serde(default)]
    grant_files: Option<opcell_sandbox::Access>,
    #[serde(default)]
    files_quota: Option<String>,
    #[serde(default)]
    race: bool,
    #[serde(default)]
    calls: Option<usize>,
    #[serde(default)]
    at_once: Option<usize>,
    #[serde(default)]
    denials_at_least: usize,
    #[serde(default)]
    message_at_most: Option<usize>,
    #[serde(default)]
    message_without_control: bool,
    #[serde(default)]
    log_at_most: Option<usize>,
    #[serde(default)]
    log_without_control: bool,
    #[serde(default)]
    files_at_most: Option<u64>,
}

/// One hostile case, ready to run.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its folder.
    pub name: String,
    /// What the guest tries.
    pub title: String,
    /// Where it must be stopped.
    pub at: Stage,
    /// The kinds of error that may stop it; `ok` when the call may return.
    pub expect: Vec<String>,
    /// Whether the guest is a judge.
    pub judge: bool,
    /// Limits other than the defaults.
    pub limits: LimitRequest,
    /// The longest that the whole case may take.
    pub within: Duration,
    /// Tools that the guest is granted.
    pub grant_tools: Vec<String>,
    /// How the guest may use the root `workspace`, if at all.
    pub grant_files: Option<opcell_sandbox::Access>,
    /// Bytes that the guest may write there.
    pub files_quota: u64,
    /// Whether another thread keeps swapping a directory there for a link that leads out of it.
    pub race: bool,
    /// How often it is called, one call after the other; each must end as expected.
    pub calls: usize,
    /// Cells of it that run at the same time, in each of these calls.
    pub at_once: usize,
    /// Refusals that the receipt must show.
    pub denials_at_least: usize,
    /// Bytes of the error's message.
    pub message_at_most: Option<usize>,
    /// Whether the error's message must be free of control characters.
    pub message_without_control: bool,
    /// Bytes of log that the receipt may keep.
    pub log_at_most: Option<usize>,
    /// Whether the log must be free of control characters.
    pub log_without_control: bool,
    /// Bytes that may be on disk afterwards.
    pub files_at_most: Option<u64>,
    /// The component.
    pub component: Vec<u8>,
}

impl Case {
    /// Every case that was built into this program, by name.
    ///
    /// # Errors
    /// When a folder is not a case; the message names it.
    pub fn all() -> Result<Vec<Self>> {
        let mut cases = Vec::new();
        for folder in CASES.dirs() {
            let name = folder.path().to_string_lossy().into_owned();
            if let Some(file) = folder.get_file(folder.path().join("case.toml")) {
                cases.push(
                    Self::read(&name, folder, file.contents()).with_context(|| format!("hostile case `{name}`"))?,
                );
            }
        }
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(cases)
    }

    /// Whether an error of this kind contains it.
    #[must_use]
    pub fn expects(&self, kind: &str) -> bool {
        self.expect.iter().any(|expected| expected == kind)
    }

    fn read(name: &str, folder: &Dir<'_>, toml: &[u8]) -> Result<Self> {
        let file: CaseFile = toml_edit::de::from_slice(toml)?;
        let mut limits = LimitRequest::default();
        for (key, value) in &file.limits {
            limits.set_text(key, value)?;
        }
        let within = match &file.within {
            Some(text) => Duration::from_millis(opcell_sandbox::limits::Unit::Milliseconds.parse("within", text)?),
            None => Duration::from_secs(10),
        };
        let files_quota = match &file.files_quota {
            Some(text) => opcell_sandbox::limits::Unit::Bytes.parse("files-quota", text)?,
            None => opcell_sandbox::FilesGrant::DEFAULT_WRITE_QUOTA,
        };
        let manifest = manifest(&file);
        let wit = folder
            .get_file(folder.path().join("guest.wit"))
            .map(|wit| wit.contents_utf8().context("guest.wit is not UTF-8"))
            .transpose()?;
        let world = file.world.as_deref().unwrap_or("operation-plugin");
        let component =
            match (folder.get_file(folder.path().join("guest.wat")), folder.get_file(folder.path().join("guest.wasm")))
            {
                (Some(wat), None) => super::guest::component_from_wat(
                    wat.contents_utf8().context("guest.wat is not UTF-8")?,
                    wit,
                    world,
                    manifest.as_deref(),
                )?,
                (None, Some(wasm)) => wasm.contents().to_vec(),
                _ => anyhow::bail!("expected exactly one of guest.wat and guest.wasm"),
            };
        Ok(Self {
            name: name.to_owned(),
            title: file.title,
            at: file.at,
            expect: match file.expect {
                Kinds::One(kind) => vec![kind],
                Kinds::Several(kinds) => kinds,
            },
            judge: world == "judge-plugin",
            limits,
            within,
            grant_tools: file.grant_tools,
            grant_files: file.grant_files,
            files_quota,
            race: file.race,
            calls: file.calls.unwrap_or(1),
            at_once: file.at_once.unwrap_or(1),
            denials_at_least: file.denials_at_least,
            message_at_most: file.message_at_most,
            message_without_control: file.message_without_control,
            log_at_most: file.log_at_most,
            log_without_control: file.log_without_control,
            files_at_most: file.files_at_most,
            component,
        })
    }
}

/// A guest that is granted something must have asked for it.
fn manifest(file: &CaseFile) -> Option<String> {
    if file.grant_tools.is_empty() && file.grant_files.is_none() {
        return None;
    }
    let tools: Vec<_> =
        file.grant_tools.iter().map(|name| serde_json::json!({"name": name, "reason": "to misuse it"})).collect();
    let files: Vec<_> = file
        .grant_files
        .iter()
        .map(|access| serde_json::json!({"name": "workspace", "access": access, "reason": "to leave it"}))
        .collect();
    Some(
        serde_json::json!({
            "schema": 1, "name": "hostile", "version": "0.0.0",
            "capabilities": {"tools": tools, "skills": [], "files": files}, "limits": {}
        })
        .to_string(),
    )
}
