//! The workflows that a host knows by name.

use crate::{
    document::{self, Companion, Stamp, stamp},
    governance::PackPolicy,
    places::real,
    report::Rejected,
    run::Workflow,
};
use opcell_engine::ports::Workflows;
use opcell_ir::{Diagnostic, WorkflowIr, diagnostic::did_you_mean};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// Workflows by name, read from folders, and read again where a file has changed since. A run under way keeps the
/// definitions that it started with: it has them in its journal.
#[derive(Default)]
pub struct Library {
    /// Later ones take the place of earlier ones; within one, a name is defined once.
    layers: Vec<Vec<PathBuf>>,
    known: RwLock<Arc<Known>>,
    /// The number of changes.
    changes: AtomicU64,
    /// The project's answer to the governance of packs.
    policy: PackPolicy,
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library").finish_non_exhaustive()
    }
}

/// The content of the folders when they were last read.
#[derive(Default, Clone)]
struct Known {
    /// Every document as it was, with what it was compiled to.
    files: BTreeMap<PathBuf, KnownFile>,
    /// Documents by name; a document that does not compile has the name of its file, and a name that two
    /// documents have is an error.
    names: BTreeMap<Arc<str>, Read>,
    /// The workflows that an embedder added; no folder takes their place.
    added: BTreeMap<Arc<str>, Workflow>,
}

type Read = Result<Workflow, Rejected>;

/// A document as it was when it was read.
#[derive(Clone)]
struct KnownFile {
    stamp: Stamp,
    companions: Arc<[Companion]>,
    read: Read,
}

impl KnownFile {
    fn read(file: &Path, stamp: Stamp) -> Self {
        let document = document::read_listed(file);
        let companions = document.as_ref().map(|document| document.companions.clone()).unwrap_or_default().into();
        Self { stamp, companions, read: document.and_then(Workflow::of) }
    }

    /// Returns `true` if the file and everything that it was compiled from are as they were.
    fn is_unchanged(&self, file: &Path, now: Stamp) -> bool {
        now.is_some() && self.stamp == now && self.companions.iter().all(|companion| companion.is_unchanged(file))
    }
}

/// The folders in which psi keeps the workflows of a user. The project's own take their place.
#[must_use]
pub fn folders_of_user(home: &Path) -> Vec<PathBuf> {
    [".psi/workflows", ".psi/agent/workflows"].map(|folder| home.join(folder)).to_vec()
}

/// The folders in which psi and Opcell keep the workflows of a project.
#[must_use]
pub fn folders_of_project(project: &Path) -> Vec<PathBuf> {
    [".psi/workflows", ".opcell/workflows"].map(|folder| project.join(folder)).to_vec()
}

impl Library {
    /// Reads the documents of folders. Where two have a name in common, neither has it, broken or not: whoever can add
    /// a document to a folder must not take the place of another. A folder that is not there has none.
    #[must_use]
    pub fn read(folders: &[PathBuf]) -> Self {
        Self::read_with_defaults(&[], folders)
    }

    /// As [`Self::read`]; a document of these folders takes the place of one with its name in one of the defaults,
    /// broken or not: a mistake must not bring back what it was meant to replace. So does one of a later default.
    #[must_use]
    pub fn read_with_defaults(defaults: &[PathBuf], folders: &[PathBuf]) -> Self {
        let layers = defaults.iter().map(|folder| vec![folder.clone()]).chain([folders.to_vec()]).collect();
        let library =
            Self { layers, known: RwLock::default(), changes: AtomicU64::default(), policy: PackPolicy::default() };
        library.refresh();
        library
    }

    /// The same workflows under a project's answer to the governance of packs.
    #[must_use]
    pub fn under(self, policy: PackPolicy) -> Self {
        Self { policy, ..self }
    }

    /// The reason why no run of a workflow may start: governance of its pack to which the project does not agree.
    pub(crate) fn refusal(&self, ir: &WorkflowIr) -> Option<Diagnostic> {
        self.policy.refusal(ir)
    }

    /// Adds a workflow, or takes the place of the one that has its name.
    pub fn add(&self, workflow: Workflow) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let known = Arc::make_mut(&mut known);
        known.added.insert(workflow.ir().name.clone(), workflow);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// A number that differs whenever the workflows may: after one was added, and after a look at the folders that
    /// found another document than the look before.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Reads what has changed in the folders since they were last looked at. Blocks.
    pub fn refresh(&self) {
        let before = self.known();
        let mut files = BTreeMap::new();
        let mut names: BTreeMap<Arc<str>, Read> = BTreeMap::new();
        let mut is_changed = false;
        for layer in &self.layers {
            let mut here: BTreeMap<Arc<str>, (PathBuf, Read)> = BTreeMap::new();
            // A project may name one folder many times.
            let mut seen = BTreeSet::new();
            let folders = layer.iter().filter(|folder| seen.insert(real(folder)));
            for file in folders.flat_map(|folder| document::in_folder(folder)) {
                let stamp = stamp(&file);
                let known = match before.files.get(&file) {
                    Some(known) if known.is_unchanged(&file, stamp) => known.clone(),
                    _ => {
                        is_changed = true;
                        KnownFile::read(&file, stamp)
                    }
                };
                let read = known.read.clone();
                files.insert(file.clone(), known);
                let name = match &read {
                    Ok(workflow) => workflow.ir().name.clone(),
                    Err(_) => file.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default().as_ref().into(),
                };
                let read = match here.get(&name) {
                    // The same document under another name of its file.
                    Some((other, _)) if real(other) == real(&file) => continue,
                    Some((other, _)) => Err(defined_twice(&name, other, &file)),
                    None => read,
                };
                here.insert(name, (file, read));
            }
            names.extend(here.into_iter().map(|(name, (_, read))| (name, read)));
        }
        is_changed |= files.len() != before.files.len();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        *known = Arc::new(Known { files, names, added: known.added.clone() });
        if is_changed {
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Every workflow as it was when the folders were last looked at, by name; those that do not compile among them.
    #[must_use]
    pub fn listed(&self) -> Vec<(Arc<str>, Result<Workflow, Rejected>)> {
        let known = self.known();
        let mut all = known.names.clone();
        all.extend(known.added.iter().map(|(name, workflow)| (name.clone(), Ok(workflow.clone()))));
        all.into_iter().collect()
    }

    /// The workflow of this name as it was when the folders were last looked at; never a file by its path.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<Result<Workflow, Rejected>> {
        let known = self.known();
        known.added.get(name).map(|workflow| Ok(workflow.clone())).or_else(|| known.names.get(name).cloned())
    }

    fn known(&self) -> Arc<Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A document by its path, or a workflow of the folders by its name, as it is now. Blocks.
    ///
    /// # Errors
    /// When there is neither, or it does not compile.
    pub fn open(&self, target: &str) -> Result<Workflow, Rejected> {
        self.refresh();
        let path = Path::new(target);
        let is_path = path.extension().is_some() || target.contains(['/', '\\']);
        let known = self.known();
        // A file without an extension, which a model may have written, does not take a workflow's name.
        let is_name = !is_path && (known.added.contains_key(target) || known.names.contains_key(target));
        if is_path || path.is_file() && !is_name {
            return Workflow::load(path);
        }
        if let Some(workflow) = known.added.get(target) {
            return Ok(workflow.clone());
        }
        if let Some(read) = known.names.get(target) {
            return read.clone();
        }
        let names = self.names();
        let mut diagnostic = Diagnostic::error("unknown-workflow", format!("there is no workflow or file `{target}`"));
        diagnostic.help = match did_you_mean(target, names.iter().map(String::as_str)) {
            Some(meant) => Some(format!("did you mean `{meant}`?")),
            None if let Some(file) = beside(target) => Some(format!("`{file}` is a file here: give its name")),
            None if names.is_empty() => Some("give a file, or add its folder to `workflows` in opcell.toml".to_owned()),
            None => Some(format!("the project's workflows are: {}", names.join(", "))),
        };
        Err(Rejected::plain(diagnostic))
    }
}

/// A document in the current folder that has this name, which is not where workflows are looked for.
fn beside(target: &str) -> Option<String> {
    let names = ["md", "edn", "json", "yaml", "yml"].map(|extension| format!("{target}.{extension}"));
    names.into_iter().find(|name| Path::new(name).is_file())
}

impl Workflows for Library {
    fn find(&self, name: &str) -> Option<Arc<WorkflowIr>> {
        let known = self.known();
        let named = || known.names.get(name)?.as_ref().ok();
        let found = known.added.get(name).or_else(named)?;
        if let Some(refusal) = self.refusal(found.ir()) {
            tracing::warn!("the workflow `{name}` is not called: {}", refusal.message);
            return None;
        }
        Some(found.ir().clone())
    }

    fn names(&self) -> Vec<String> {
        let known = self.known();
        let read = known.names.iter().filter_map(|(name, read)| Some((name, read.as_ref().ok()?)));
        let callable = read.chain(&known.added).filter(|(_, workflow)| self.refusal(workflow.ir()).is_none());
        let names: BTreeSet<&Arc<str>> = callable.map(|(name, _)| name).collect();
        names.into_iter().map(|name| name.as_ref().to_owned()).collect()
    }
}

/// A finding about a name that two documents have: neither counts.
#[must_use]
pub fn defined_twice(name: &str, one: &Path, other: &Path) -> Rejected {
    let is_psi = |extension: &str| [one, other].iter().any(|file| file.extension().is_some_and(|own| own == extension));
    // In the words of psi, where the rule is psi's.
    let message = match is_psi("md") && is_psi("edn") {
        true => format!("Workflow name `{name}` is defined by both `.md` and `.edn` files"),
        false => format!("the workflow name `{name}` is defined by two files"),
    };
    let help = format!("rename or remove {} or {}", one.display(), other.display());
    Rejected::plain(Diagnostic::error("duplicate-workflow", message).help(help))
}

#[cfg(test)]
mod tests;
