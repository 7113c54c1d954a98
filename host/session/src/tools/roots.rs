//! The folders that file tools see, by name.

use crate::confined::{Folder, Guard};
use opcell_types::{
    control::ControlFiles,
    quota::{QuotaStore, WriterQuota, Written},
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// The writer in the account of a folder; no name of a plugin has a space.
const MODELS: &str = "file tools";

/// A folder that an operator opens to file tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRoot {
    /// The name that paths begin with: `NAME:path`.
    pub name: String,
    /// The path of the root.
    pub path: PathBuf,
    /// `true` if tools may write there.
    pub writable: bool,
    /// `true` if the root extends to the files that decide what runs and what it may reach, and to secrets; see
    /// [`opcell_types::control`].
    pub control_files: bool,
    /// Bytes that tools may write there, all sessions together; over what time is the ledger's to say.
    pub write_quota: u64,
}

impl FileRoot {
    /// Bytes that may be written where the operator says nothing.
    pub const DEFAULT_WRITE_QUOTA: u64 = 256 << 20;

    /// A folder whose files may be read.
    #[must_use]
    pub fn read(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        let (name, path) = (name.into(), path.into());
        Self { name, path, writable: false, control_files: false, write_quota: Self::DEFAULT_WRITE_QUOTA }
    }

    /// A folder whose files may be read and written.
    #[must_use]
    pub fn read_write(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self { writable: true, ..Self::read(name, path) }
    }
}

/// A root that cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RootError {
    /// The folder cannot be opened.
    #[error("cannot open the file root `{name}` at {}: {error}", path.display())]
    Open {
        /// The root's name in the project.
        name: String,
        /// The path at which it should be.
        path: PathBuf,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// It holds the user's own keys or compiled code, or lies among them.
    #[error(
        "the file root `{name}` at {} would reach {}, which holds keys or compiled code and is never reached through a grant; \
         name a narrower folder",
        path.display(), place.display()
    )]
    Sealed {
        /// The root's name in the project.
        name: String,
        /// The path of the root.
        path: PathBuf,
        /// The place that it would reach.
        place: PathBuf,
    },
    /// A name that paths could not use.
    #[error("a file root's name is letters, digits, `-` and `_`, not `skill`, and used once; got `{0}`")]
    Name(String),
}

/// All roots of a host. The first is where plain relative paths lead.
#[derive(Debug, Clone, Default)]
pub struct FileRoots {
    roots: Vec<OpenRoot>,
}

#[derive(Debug, Clone)]
pub(super) struct OpenRoot {
    pub(super) name: String,
    pub(super) folder: Folder,
    pub(super) writable: bool,
    quota: Written,
    account: Arc<dyn WriterQuota>,
    host_path: PathBuf,
}

/// The place that a path leads to.
pub(super) struct Place<'a> {
    pub(super) root: &'a OpenRoot,
    pub(super) path: String,
    /// The prefix of a path of this root in an answer: empty in the first root.
    pub(super) prefix: String,
}

impl OpenRoot {
    /// Books what is about to be written in the account that all sessions share; false when the quota does not allow
    /// it. Blocks.
    pub(super) fn book(&self, bytes: u64) -> bool {
        self.account.take(Written::bytes(bytes), self.quota)
    }
}

impl FileRoots {
    /// Opens the folders. Blocks.
    ///
    /// # Errors
    /// When one cannot be opened, would reach the user's own keys, or its name cannot be used.
    pub fn open(roots: &[FileRoot], control: &Arc<ControlFiles>, written: &dyn QuotaStore) -> Result<Self, RootError> {
        let mut opened: Vec<OpenRoot> = Vec::new();
        for root in roots {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            let taken = opened.iter().any(|other| other.name == root.name);
            if root.name.is_empty() || !root.name.chars().all(plain) || root.name == "skill" || taken {
                return Err(RootError::Name(root.name.clone()));
            }
            let open = |error| RootError::Open { name: root.name.clone(), path: root.path.clone(), error };
            let host_path = root.path.canonicalize().map_err(open)?;
            if let Some(place) = control.sealed_by(&host_path) {
                let (name, path) = (root.name.clone(), root.path.clone());
                return Err(RootError::Sealed { name, path, place: place.to_owned() });
            }
            let guard = (!root.control_files).then(|| Guard {
                name: root.name.clone(),
                root: host_path.clone(),
                control: control.clone(),
            });
            opened.push(OpenRoot {
                name: root.name.clone(),
                account: written.account(MODELS, &host_path),
                quota: Written::bytes(root.write_quota),
                host_path,
                folder: Folder::open(&root.path).map_err(open)?.guarded(guard),
                writable: root.writable,
            });
        }
        Ok(Self { roots: opened })
    }

    pub(super) fn any_writable(&self) -> bool {
        self.roots.iter().any(|root| root.writable)
    }

    /// Finds the root of `path`, `NAME:path`, or an absolute path below a root, as models that know the machine write
    /// it.
    pub(super) fn place(&self, path: &str) -> Result<Place<'_>, String> {
        if path.is_empty() {
            return Err("a path must not be empty; `.` is the working folder".to_owned());
        }
        let (index, relative) = if Path::new(path).is_absolute() {
            let below = self.roots.iter().enumerate().filter_map(|(index, root)| {
                Some((index, root, Path::new(path).strip_prefix(&root.host_path).ok()?.to_str()?))
            });
            let nearest = below.max_by_key(|(_, root, _)| root.host_path.as_os_str().len());
            let (index, _, relative) =
                nearest.ok_or_else(|| format!("`{path}` is outside the file roots: {}", self.names()))?;
            (index, relative)
        } else {
            let named = path
                .split_once(':')
                .and_then(|(name, relative)| Some((self.roots.iter().position(|root| root.name == name)?, relative)));
            named.unwrap_or((0, path))
        };
        let root = self.roots.get(index).ok_or_else(|| "there are no file roots".to_owned())?;
        let path = if relative.is_empty() { "." } else { relative };
        let prefix = if index == 0 { String::new() } else { format!("{}:", root.name) };
        Ok(Place { root, path: path.to_owned(), prefix })
    }

    pub(super) fn names(&self) -> String {
        self.roots.iter().map(|root| root.name.as_str()).collect::<Vec<_>>().join(", ")
    }
}
