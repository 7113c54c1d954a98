//! The workflows that a host knows by name.

use crate::{
    document::{self, Document},
    report::Rejected,
};
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
    workflows: RwLock<BTreeMap<Arc<str>, Arc<WorkflowIr>>>,
    broken: BTreeMap<String, Rejected>,
}

impl Library {
    /// Reads the documents of folders; where two have a name in common, the later one wins.
    #[must_use]
    pub fn read(folders: &[PathBuf]) -> Self {
        let mut library = Self::default();
        for file in folders.iter().flat_map(|folder| document::in_folder(folder)) {
            let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            match document::read(&file) {
                Ok(document) => match (document.rejection(false), &document.ir) {
                    (None, Some(ir)) => library.add(ir.clone()),
                    (rejection, _) => library.broken.extend(rejection.map(|rejected| (stem, rejected))),
                },
                Err(rejected) => {
                    library.broken.insert(stem, rejected);
                }
            }
        }
        library
    }

    /// Adds a workflow, or takes the place of the one that has its name.
    pub fn add(&self, workflow: Arc<WorkflowIr>) {
        self.workflows.write().unwrap_or_else(PoisonError::into_inner).insert(workflow.name.clone(), workflow);
    }

    /// A document by its path, or a workflow of the folders by its name.
    ///
    /// # Errors
    /// When there is neither, or it does not compile.
    pub fn open(&self, target: &str) -> Result<(Arc<WorkflowIr>, Option<Document>), Rejected> {
        let path = Path::new(target);
        if path.is_file() || path.extension().is_some() || target.contains(['/', '\\']) {
            let document = document::read(path)?;
            return match (document.rejection(false), &document.ir) {
                (None, Some(ir)) => Ok((ir.clone(), Some(document))),
                (Some(rejected), _) => Err(rejected),
                (None, None) => Err(Rejected::in_source(document.source, document.diagnostics)),
            };
        }
        if let Some(workflow) = self.find(target) {
            return Ok((workflow, None));
        }
        if let Some(rejected) = self.broken.get(target) {
            return Err(rejected.clone());
        }
        let names = self.names();
        let mut diagnostic = Diagnostic::error("unknown-workflow", format!("there is no workflow and no file `{target}`"));
        diagnostic.help = match did_you_mean(target, names.iter().map(String::as_str)) {
            Some(meant) => Some(format!("did you mean `{meant}`?")),
            None if names.is_empty() => Some("name a file, or list folders under `workflows` in opcell.toml".to_owned()),
            None => Some(format!("the project's workflows are: {}", names.join(", "))),
        };
        Err(Rejected::plain(diagnostic))
    }
}

impl Workflows for Library {
    fn find(&self, name: &str) -> Option<Arc<WorkflowIr>> {
        self.workflows.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    fn names(&self) -> Vec<String> {
        self.workflows.read().unwrap_or_else(PoisonError::into_inner).keys().map(|name| name.as_ref().to_owned()).collect()
    }
}
