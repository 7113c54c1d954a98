//! The workflows that a host knows by name.

use crate::{document, report::Rejected, run::Workflow};
use opcell_engine::ports::Workflows;
use opcell_workflow::{Diagnostic, WorkflowIr, diagnostic::did_you_mean};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

/// Workflows by name. A document that does not compile is known by its file name and refused when it is asked for.
#[derive(Default)]
pub struct Library {
    workflows: RwLock<BTreeMap<Arc<str>, Workflow>>,
    broken: BTreeMap<String, Rejected>,
}

impl Library {
    /// Reads the documents of folders; where two have a name in common, the later one wins.
    #[must_use]
    pub fn read(folders: &[PathBuf]) -> Self {
        let mut library = Self::default();
        for file in folders.iter().flat_map(|folder| document::in_folder(folder)) {
            let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            match Workflow::load(&file) {
                Ok(workflow) => library.add(workflow),
                Err(rejected) => drop(library.broken.insert(stem, rejected)),
            }
        }
        library
    }

    /// Adds a workflow, or takes the place of the one that has its name.
    pub fn add(&self, workflow: Workflow) {
        self.workflows.write().unwrap_or_else(PoisonError::into_inner).insert(workflow.ir().name.clone(), workflow);
    }

    /// A document by its path, or a workflow of the folders by its name.
    ///
    /// # Errors
    /// When there is neither, or it does not compile.
    pub fn open(&self, target: &str) -> Result<Workflow, Rejected> {
        let path = Path::new(target);
        if path.is_file() || path.extension().is_some() || target.contains(['/', '\\']) {
            return Workflow::load(path);
        }
        if let Some(workflow) = self.workflows.read().unwrap_or_else(PoisonError::into_inner).get(target) {
            return Ok(workflow.clone());
        }
        if let Some(rejected) = self.broken.get(target) {
            return Err(rejected.clone());
        }
        let names = self.names();
        let mut diagnostic =
            Diagnostic::error("unknown-workflow", format!("there is no workflow and no file `{target}`"));
        diagnostic.help = match did_you_mean(target, names.iter().map(String::as_str)) {
            Some(meant) => Some(format!("did you mean `{meant}`?")),
            None if names.is_empty() => {
                Some("name a file, or list folders under `workflows` in opcell.toml".to_owned())
            }
            None => Some(format!("the project's workflows are: {}", names.join(", "))),
        };
        Err(Rejected::plain(diagnostic))
    }
}

impl Workflows for Library {
    fn find(&self, name: &str) -> Option<Arc<WorkflowIr>> {
        self.workflows.read().unwrap_or_else(PoisonError::into_inner).get(name).map(|workflow| workflow.ir().clone())
    }

    fn names(&self) -> Vec<String> {
        self.workflows
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .keys()
            .map(|name| name.as_ref().to_owned())
            .collect()
    }
}
