//! Plugins that come from a registry: what the project file says, what the lock says, and what the store has.
//!
//! Running a plugin never reaches a registry. The lock names the component by digest, the store has it, and everything
//! that was pinned is checked again each time: reference, digest, manifest, publisher.

use super::{Config, PluginConfig, lock::Locked};
use crate::report::Rejected;
use opcell_ir::{Diagnostic, Span};
use opcell_registry::{
    Reference, artifact,
    store::{Store, StoreError, Stored},
};
use opcell_types::FollowUp;
use std::path::PathBuf;

/// `source` of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Origin {
    /// The reference that it comes from.
    pub reference: Reference,
    /// `true` if it may come without a signature.
    pub unsigned: bool,
}

impl Origin {
    /// A plugin of a registry.
    #[must_use]
    pub fn new(reference: Reference, unsigned: bool) -> Self {
        Self { reference, unsigned }
    }
}

/// Gives plugins of registries the path of the version that the lock holds.
pub(super) fn settle(config: &mut Config) {
    for plugin in config.plugins.values_mut() {
        let Some(origin) = &plugin.origin else { continue };
        let digest = config.lock.as_ref().and_then(|lock| lock.plugin(&plugin.name)?.digest.as_ref());
        let path = digest.and_then(|digest| config.store.path(digest));
        plugin.path = path.unwrap_or_else(|| PathBuf::from(origin.reference.to_string()));
    }
}

/// Returns the lock's entry of a plugin of a registry, checked against everything that was pinned.
///
/// # Errors
/// One finding: what does not match, and the command that mends it.
#[doc(hidden)]
pub fn verified(plugin: &PluginConfig, locked: Option<&Locked>, store: &Store) -> Result<Stored, Box<Diagnostic>> {
    let name = &plugin.name;
    let finding = |code: &'static str, message: String, help: String| {
        let found = Diagnostic::error(code, format!("plugin `{name}`: {message}")).help(help);
        Box::new(found.at(plugin.span.unwrap_or(Span::new(0, 0))))
    };
    let Some(origin) = &plugin.origin else {
        return Err(finding("no-source", "it has no `source`".to_owned(), "it lies at a path".to_owned()));
    };
    let diff_plugin = FollowUp::DiffPlugin(Some(name.clone()));
    let accept_plugin = FollowUp::AcceptPlugin(Some(name.clone()));
    let fetch_plugin = FollowUp::FetchPlugin(name.clone());
    let look = format!("look at it with {diff_plugin}, accept it with {accept_plugin}");
    let again = format!("fetch it again with {fetch_plugin}");
    let (locked, digest) = match locked.and_then(|locked| Some((locked, locked.digest.as_ref()?))) {
        Some(found) => found,
        None => {
            let message = format!("opcell.lock holds no version of {}", origin.reference);
            let help = format!("fetch and accept it with {accept_plugin}");
            return Err(finding("plugin-not-fetched", message, help));
        }
    };
    let reference = origin.reference.to_string();
    if locked.source.as_deref() != Some(reference.as_str()) {
        let held = opcell_types::text::printable(locked.source.as_deref().unwrap_or("a file"), 300);
        let message = format!("the project file names {reference}, opcell.lock holds {held}");
        return Err(finding("plugin-source-changed", message, look));
    }
    let stored = store.read(digest).map_err(|error| match &error {
        StoreError::Missing(_) => finding("plugin-not-fetched", error.to_string(), again.clone()),
        StoreError::Damaged { file, .. } | StoreError::Signature { file, .. } => {
            let folder = file.parent().unwrap_or(file);
            let help = format!("remove {}, then {again}", super::super::consent::shell(folder));
            finding("plugin-damaged", error.to_string(), help)
        }
        _ => finding("plugin-unreadable", error.to_string(), "correct what the system says".to_owned()),
    })?;
    let manifest = artifact::digest(&stored.manifest);
    let size = stored.component.len() as u64;
    if locked.manifest.as_deref() != Some(manifest.as_str())
        || locked.bytes != Some(size)
        || !has_version(&stored, locked)
    {
        let message = "opcell.lock and what was fetched disagree about its manifest, size or version".to_owned();
        let help = format!("restore opcell.lock from version control, or {again}");
        return Err(finding("plugin-damaged", message, help));
    }
    match (locked.publisher.as_deref(), &stored.signature) {
        (Some(publisher), Some(signature)) => {
            let signer = signature.signer(digest).map(|signer| signer.to_string());
            let message = match signer {
                Ok(signer) if signer == publisher => return Ok(stored),
                Ok(signer) => format!("it is signed by {signer}; opcell.lock expects {}", printable(publisher)),
                Err(error) => error.to_string(),
            };
            let help = format!("restore opcell.lock from version control, or {again}");
            Err(finding("signature-invalid", message, help))
        }
        (Some(publisher), None) => {
            let message = format!("its signature by {} is gone", printable(publisher));
            Err(finding("signature-missing", message, again))
        }
        (None, _) if origin.unsigned => Ok(stored),
        (None, _) => {
            let message = "opcell.lock names no publisher, and it may not come unsigned".to_owned();
            let help = format!(
                "accept it with {accept_plugin}, which pins its publisher; if it has none, write \
                 `unsigned = true` in [plugins.{name}]"
            );
            Err(finding("plugin-unsigned", message, help))
        }
    }
}

/// Returns `true` unless the lock names another version than the component's manifest.
fn has_version(stored: &Stored, locked: &Locked) -> bool {
    let version = || opcell_sandbox::inspect::read(&stored.component).ok()?.manifest.version;
    locked.version.is_none() || locked.version == version()
}

fn printable(text: &str) -> String {
    opcell_types::text::printable(text, 80)
}

/// The finding with its place in the project file.
#[must_use]
#[doc(hidden)]
pub fn rejected(config: &Config, plugin: &PluginConfig, finding: Diagnostic) -> Rejected {
    match plugin.span {
        Some(_) => Rejected::in_source(config.source.clone(), vec![finding]),
        None => Rejected::plain(finding),
    }
}
