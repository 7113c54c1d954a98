//! Why there is no host, and why a run does not start.

use crate::{remedy, report::Rejected, similar::similar_path};
use opcell_engine::RunError;
use opcell_ir::{Diagnostic, SourceFile, Span};
use opcell_journal::JournalError;
use opcell_sandbox::{LoadError, SandboxError};
use opcell_types::FollowUp;
use std::{fmt, path::PathBuf, sync::Arc};

/// Why there is no host. Its `Debug` is its sentence: `fn main() -> Result<(), Box<dyn Error>>` prints it so.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// Something that the operator wrote is wrong.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// A plugin is not loaded. What is wrong with it is in [`PluginError::error`].
    #[error(transparent)]
    Plugin(#[from] Box<PluginError>),
    /// The sandbox cannot be set up.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The project asks for something that this program is built without.
    #[error("this program is built without {what} (feature `{feature}` of the crate `opcell`)")]
    NotBuiltIn {
        /// The requested thing.
        what: &'static str,
        /// The feature that brings it.
        feature: &'static str,
    },
    /// The journal cannot be opened.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Two parts of the host have one name, or a setting is there twice. Which one counts must not depend on an order.
    #[error(transparent)]
    Duplicate(#[from] Duplicate),
    /// The calling thread is in no Tokio runtime with time and I/O enabled.
    #[error("a host needs a multi-threaded Tokio runtime with time and I/O enabled, such as `opcell::runtime()` makes")]
    NoRuntime,
}

impl fmt::Debug for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Parts of a host that are there twice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Duplicate {
    /// Two plugins of one name, of the project or of the program.
    #[error("there are two plugins named `{0}`; give one of them another name")]
    Plugin(String),
    /// Two tools of one name for plugins, the host's own among them.
    #[error("there are two tools named `{name}` for plugins: the program's own, and {other}; rename the program's")]
    Tool {
        /// The name.
        name: String,
        /// The other one.
        other: &'static str,
    },
    /// Two tools, or a tool and an operation, that documents and models would call by one name.
    #[error("there are two tools named `{name}` for documents: the program's own, and {other}; rename the program's")]
    DocumentTool {
        /// The name.
        name: String,
        /// The other one.
        other: String,
    },
    /// Something of one plugin that the program says twice, with different values.
    #[error("{what} of plugin `{plugin}` is set twice, with different values; set it once")]
    OfPlugin {
        /// The plugin.
        plugin: String,
        /// The part, for people.
        what: String,
    },
    /// Something of one tenant that the program says twice.
    #[error("{what} of tenant `{tenant}` is set twice; set it once")]
    OfTenant {
        /// The tenant.
        tenant: String,
        /// The part, for people.
        what: String,
    },
    /// A setting that the program makes twice, or that the project makes as well.
    #[error("`{setting}` is set twice: {places}; set it once")]
    Setting {
        /// The method of [`HostBuilder`](super::HostBuilder) that sets it.
        setting: &'static str,
        /// The places.
        places: &'static str,
    },
}

/// Why a run did not start. Its `Debug` is its sentence, as that of [`HostError`].
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The workflow cannot run on this host.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// The journal does not take the run.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl fmt::Debug for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a plugin is not loaded.
#[derive(Debug)]
#[non_exhaustive]
pub struct PluginError {
    /// Its name.
    pub plugin: String,
    /// The component's file.
    pub path: PathBuf,
    /// The error.
    pub error: LoadError,
    /// The place at which the project file names it, or sets the limit that it does not fit.
    pub(crate) place: Option<(Arc<SourceFile>, Span)>,
}

impl PluginError {
    /// The finding as a person reads it, with its place in the project file.
    #[must_use]
    pub fn to_rejected(&self) -> Rejected {
        let mut finding = Diagnostic::error(self.error.kind(), self.to_string());
        if self.is_missing() {
            finding = finding.help(similar_path(&self.path).map_or_else(
                || "build the plugin first, or correct its `path`".to_owned(),
                |meant| format!("did you mean `{}`? Else build the plugin first", meant.display()),
            ));
        }
        if let Some(help) = remedy::of_load_error(&self.error, &self.path) {
            finding = finding.help(help);
        }
        if let LoadError::Changed { .. } = self.error {
            finding = finding.help(format!(
                "look at it with {}, accept it with {}; for a plugin that you are building, set `dev = true` in \
                 [plugins.{}]",
                FollowUp::DiffPlugin(Some(self.plugin.clone())),
                FollowUp::AcceptPlugin(Some(self.plugin.clone())),
                self.plugin
            ));
        }
        if let Some(limit) = self.error.limit() {
            finding = finding.help(format!(
                "it has to describe itself before it can be called: raise `{limit}`, in [limits] or in [plugins.{}.limits]",
                self.plugin
            ));
        }
        match &self.place {
            Some((source, span)) => Rejected::in_source(source.clone(), vec![finding.at(*span)]),
            None => Rejected::plain(finding),
        }
    }

    /// Returns `true` if its file does not exist.
    fn is_missing(&self) -> bool {
        matches!(&self.error, LoadError::Read { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }
}

impl fmt::Display for PluginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_missing() {
            return write!(f, "the file `{}` of plugin `{}` does not exist", self.path.display(), self.plugin);
        }
        write!(f, "plugin `{}` ({}): {}", self.plugin, self.path.display(), remedy::load_error(&self.error))
    }
}

impl std::error::Error for PluginError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
