//! One hostile case, as its folder says it.

use anyhow::{Context as _, Result};
use include_dir::{Dir, include_dir};
use opcell_sandbox::{LimitRequest, limits::Unit};
use serde::Deserialize;
use std::{
    borrow::Cow,
    collections::BTreeMap,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    time::Duration,
};

static CASES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/hostile");

/// The longest file of a case.
const MAX_FILE: u64 = 64 << 20;

/// Host memory that a case may take, unless it says otherwise: a cell and what the host makes of its answer, several
/// times over.
const RSS: u64 = 1 << 30;

/// The stage at which a guest must be stopped.
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

/// The content of `case.toml`.
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
    grant_store: Option<String>,
    #[serde(default)]
    files_quota: Option<String>,
    #[serde(default)]
    race: bool,
    #[serde(default)]
    calls: Option<usize>,
    #[serde(default)]
    concurrency: Option<usize>,
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
    #[serde(default)]
    rss_at_most: Option<String>,
}

/// One hostile case, ready to run.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its folder.
    pub name: String,
    /// The attempt of the guest.
    pub title: String,
    /// The stage at which it must be stopped.
    pub at: Stage,
    /// The kinds of error that may stop it; `ok` when the call may return.
    pub expect: Vec<String>,
    /// `true` if the guest is a judge.
    pub judge: bool,
    /// Limits other than the defaults.
    pub limits: LimitRequest,
    /// The longest that the whole case may take.
    pub within: Duration,
    /// Tools that the guest is granted.
    pub grant_tools: Vec<String>,
    /// The store that the guest is granted, if any.
    pub grant_store: Option<String>,
    /// The guest's access to the root `workspace`, if it has any.
    pub grant_files: Option<opcell_sandbox::Access>,
    /// Bytes that the guest may write there.
    pub files_quota: u64,
    /// `true` if another thread keeps swapping a directory there for a link that leads out of it.
    pub race: bool,
    /// The number of times it is called, one call after the other; each must end as expected.
    pub calls: usize,
    /// Cells of it that run at the same time, in each of these calls.
    pub concurrency: usize,
    /// Refusals that the receipt must show.
    pub denials_at_least: usize,
    /// Bytes of the error's message.
    pub message_at_most: Option<usize>,
    /// `true` if the error's message must be free of control characters.
    pub message_without_control: bool,
    /// Bytes of log that the receipt may keep.
    pub log_at_most: Option<usize>,
    /// `true` if the log must be free of control characters.
    pub log_without_control: bool,
    /// Bytes that may be on disk afterwards.
    pub files_at_most: Option<u64>,
    /// Bytes of host memory that the case may take at its peak, beyond what the host has before.
    pub rss_at_most: u64,
    /// The component.
    pub component: Vec<u8>,
}

/// A case that has not been read yet: its guest may be slow to parse, and a folder of one's own may hold anything.
#[derive(Debug, Clone)]
pub struct CaseFolder {
    /// Its name.
    pub name: String,
    place: Place,
}

#[derive(Debug, Clone)]
enum Place {
    BuiltIn(&'static Dir<'static>),
    Disk(PathBuf),
}

impl CaseFolder {
    /// Every case that was built into this program, or every one below a folder on disk, by name.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn all(folder: Option<&Path>) -> Result<Vec<Self>> {
        let mut cases = match folder {
            None => {
                let is_case = |folder: &&Dir<'_>| folder.get_file(folder.path().join("case.toml")).is_some();
                let case = |folder: &'static Dir<'static>| Self {
                    name: folder.path().to_string_lossy().into_owned(),
                    place: Place::BuiltIn(folder),
                };
                CASES.dirs().filter(is_case).map(case).collect()
            }
            Some(folder) => {
                let shown = || format!("cannot read the cases in `{}`", folder.display());
                let mut cases = Vec::new();
                for entry in std::fs::read_dir(folder).with_context(shown)? {
                    let path = entry.with_context(shown)?.path();
                    if path.join("case.toml").exists() {
                        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                        cases.push(Self { name, place: Place::Disk(path) });
                    }
                }
                cases
            }
        };
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(cases)
    }

    /// Reads the case and makes its component.
    ///
    /// # Errors
    /// When the folder is not a case; the message names it.
    pub fn read(&self) -> Result<Case> {
        Case::read(self).with_context(|| format!("hostile case `{}`", self.name))
    }

    fn file(&self, name: &str) -> Result<Option<Cow<'static, [u8]>>> {
        match &self.place {
            Place::BuiltIn(folder) => {
                Ok(folder.get_file(folder.path().join(name)).map(|file| Cow::Borrowed(file.contents())))
            }
            Place::Disk(folder) => {
                let path = folder.join(name);
                match std::fs::metadata(&path) {
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                    Err(error) => return Err(error).with_context(|| format!("cannot read {name}")),
                    Ok(status) => anyhow::ensure!(status.is_file(), "{name} is not a regular file"),
                }
                let mut bytes = Vec::new();
                File::open(&path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
                anyhow::ensure!(bytes.len() as u64 <= MAX_FILE, "{name} has more than {MAX_FILE} bytes");
                Ok(Some(Cow::Owned(bytes)))
            }
        }
    }

    fn text(&self, name: &str) -> Result<Option<String>> {
        let text = |bytes: Cow<'static, [u8]>| {
            String::from_utf8(bytes.into_owned()).map_err(|_| anyhow::anyhow!("{name} is not UTF-8"))
        };
        self.file(name)?.map(text).transpose()
    }
}

impl Case {
    /// Every case that was built into this program, by name.
    ///
    /// # Errors
    /// When a folder is not a case; the message names it.
    pub fn all() -> Result<Vec<Self>> {
        CaseFolder::all(None)?.iter().map(CaseFolder::read).collect()
    }

    /// Returns `true` if an error of this kind contains it.
    #[must_use]
    pub fn expects(&self, kind: &str) -> bool {
        self.expect.iter().any(|expected| expected == kind)
    }

    fn read(folder: &CaseFolder) -> Result<Self> {
        let toml = folder.text("case.toml")?.context("there is no case.toml")?;
        let file: CaseFile = toml_edit::de::from_str(&toml)?;
        let mut limits = LimitRequest::default();
        for (key, value) in &file.limits {
            limits.set_text(key, value)?;
        }
        let quantity = |unit: Unit, key, text: &Option<String>, default| match text {
            Some(text) => unit.parse(key, text),
            None => Ok(default),
        };
        let within = Duration::from_millis(quantity(Unit::Milliseconds, "within", &file.within, 10_000)?);
        let files_quota =
            quantity(Unit::Bytes, "files-quota", &file.files_quota, opcell_sandbox::FilesGrant::DEFAULT_WRITE_QUOTA)?;
        let rss_at_most = quantity(Unit::Bytes, "rss-at-most", &file.rss_at_most, RSS)?;
        let manifest = manifest(&file);
        let world = file.world.as_deref().unwrap_or("operation-plugin");
        let component = match (folder.text("guest.wat")?, folder.file("guest.wasm")?, folder.text("guest.js")?) {
            (Some(wat), None, None) => {
                let wit = folder.text("guest.wit")?;
                super::guest::component_from_wat(&wat, wit.as_deref(), world, manifest.as_deref())?
            }
            (None, Some(wasm), None) => wasm.into_owned(),
            (None, None, Some(source)) => {
                let manifest = folder.text("guest.toml")?.unwrap_or_default();
                let made = opcell::source::component("guest.js", &source, "hostile", &manifest);
                made.map_err(anyhow::Error::msg)?
            }
            _ => anyhow::bail!("expected exactly one of guest.wat, guest.wasm and guest.js"),
        };
        Ok(Self {
            name: folder.name.clone(),
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
            grant_store: file.grant_store,
            grant_files: file.grant_files,
            files_quota,
            race: file.race,
            calls: file.calls.unwrap_or(1),
            concurrency: file.concurrency.unwrap_or(1),
            denials_at_least: file.denials_at_least,
            message_at_most: file.message_at_most,
            message_without_control: file.message_without_control,
            log_at_most: file.log_at_most,
            log_without_control: file.log_without_control,
            files_at_most: file.files_at_most,
            rss_at_most,
            component,
        })
    }
}

/// A guest that is granted something must have asked for it.
fn manifest(file: &CaseFile) -> Option<String> {
    if file.grant_tools.is_empty() && file.grant_files.is_none() && file.grant_store.is_none() {
        return None;
    }
    let tools: Vec<_> =
        file.grant_tools.iter().map(|name| serde_json::json!({"name": name, "reason": "to misuse it"})).collect();
    let files: Vec<_> = file
        .grant_files
        .iter()
        .map(|access| serde_json::json!({"name": "workspace", "access": access, "reason": "to leave it"}))
        .collect();
    let stores: Vec<_> =
        file.grant_store.iter().map(|name| serde_json::json!({"name": name, "reason": "to flood it"})).collect();
    Some(
        serde_json::json!({
            "schema": 1, "name": "hostile", "version": "0.0.0",
            "capabilities": {"tools": tools, "skills": [], "files": files, "stores": stores}, "limits": {}
        })
        .to_string(),
    )
}
