//! The shared parts of the commands about registries: pulling, and the rules of signatures.

use super::{Component, Failure};
use opcell::config::lock::Locked;
use opcell_ir::Diagnostic;
#[cfg(feature = "registry")]
use opcell_registry::client::{Client, RegistryError};
use opcell_registry::{Reference, signature::PublicKey, store::Pulled};
use opcell_sandbox::Exports;
#[cfg(feature = "registry")]
use std::path::Path;

/// Returns the failure of a program without the client when it should fetch something.
#[cfg(not(feature = "registry"))]
pub(super) async fn fetch(reference: &Reference, expected: &Expected<'_>) -> Result<Fetched, Failure> {
    let message =
        format!("plugin `{}`: this program was built without the client that fetches {reference}", expected.name);
    let help = "build opcell-cli with its feature `registry`";
    Err(Diagnostic::error("registry-unsupported", message).help(help).into())
}

/// A registry's refusal, as findings are shown.
#[cfg(feature = "registry")]
pub(super) fn wrong(error: &RegistryError) -> Failure {
    Diagnostic::error(error.kind(), error.to_string()).help(error.help()).into()
}

/// The project's expectations of the publisher of a plugin.
#[cfg_attr(not(feature = "registry"), expect(dead_code, reason = "nothing is fetched"))]
pub(super) struct Expected<'a> {
    /// The plugin's name in the project.
    pub(super) name: &'a str,
    /// The key that the lock holds.
    pub(super) pinned: Option<&'a str>,
    /// The key that the command names.
    pub(super) accepted: Option<&'a PublicKey>,
    /// `true` if it may come without a signature.
    pub(super) unsigned: bool,
    /// The rule by which its exports become operations.
    pub(super) exports: &'a Exports,
}

/// A plugin as a registry has it, its signature checked.
pub(super) struct Fetched {
    pub(super) pulled: Pulled,
    pub(super) component: Component,
    pub(super) locked: Locked,
}

/// Fetches a plugin and checks who signed it. Nothing is stored.
#[cfg(feature = "registry")]
pub(super) async fn fetch(reference: &Reference, expected: &Expected<'_>) -> Result<Fetched, Failure> {
    let pinned: Option<PublicKey> = expected.pinned.and_then(|key| key.parse().ok());
    let wanted = expected.accepted.or(pinned.as_ref());
    let pulled = Client::new().pull(reference, wanted).await.map_err(|error| wrong(&error))?;
    let publisher = publisher(reference, &pulled, expected)?;
    let source = reference.to_string();
    let component = Component::from_bytes(Path::new(&source), pulled.stored.component.clone(), expected.exports)?;
    let (digest, bytes) = (pulled.digests.blake3.clone(), component.bytes.len() as u64);
    let locked = Locked::new(Some(digest), Some(bytes), component.surface.manifest.requests());
    let locked = locked.with_version(component.surface.manifest.version.clone());
    let locked = locked.fetched(source, pulled.manifest.clone(), publisher);
    Ok(Fetched { pulled, component, locked })
}

/// Returns the publisher who signed it, if the project allows that.
#[cfg(feature = "registry")]
fn publisher(reference: &Reference, pulled: &Pulled, expected: &Expected<'_>) -> Result<Option<String>, Failure> {
    let name = expected.name;
    let refused = |code: &'static str, message: String, help: String| -> Failure {
        Diagnostic::error(code, format!("plugin `{name}`: {message}")).help(help).into()
    };
    let Some(signature) = &pulled.stored.signature else {
        if let Some(key) = expected.accepted {
            let message = format!("{reference} has no signature, and so none by {key}");
            return Err(refused("plugin-unsigned", message, "ask the publisher for a signed version".to_owned()));
        }
        if expected.unsigned {
            return Ok(None);
        }
        let message = match expected.pinned {
            Some(key) => format!("{reference} has no signature; the version before was signed by {}", printable(key)),
            None => format!("{reference} has no signature"),
        };
        let help = format!(
            "ask the publisher for a signed version; to take this plugin without one, write `unsigned = true` in \
             [plugins.{name}], or add it with `--unsigned`"
        );
        return Err(refused("plugin-unsigned", message, help));
    };
    let signer = signature.signer_of(&pulled.digests);
    let signer = signer.map_err(|error| wrong(&RegistryError::Signature(error)))?.to_string();
    match (expected.accepted.map(ToString::to_string), expected.pinned) {
        (Some(accepted), _) if accepted != signer => {
            let message = format!("{reference} is signed by {signer}, not by {accepted}");
            Err(refused("publisher-changed", message, "ask the publisher which key is theirs".to_owned()))
        }
        (None, Some(pinned)) if pinned != signer => {
            let message =
                format!("{reference} is signed by {signer}; opcell.lock holds the publisher {}", printable(pinned));
            let help = format!(
                "ask the publisher, through a channel other than the registry, whether the new key is theirs; if it is: `opcell plugin \
                 update {name} --publisher {signer}`"
            );
            Err(refused("publisher-changed", message, help))
        }
        _ => Ok(Some(signer)),
    }
}

#[cfg(feature = "registry")]
fn printable(text: &str) -> String {
    opcell_types::text::printable(text, 80)
}

/// A key that a person typed.
pub(super) fn key(text: Option<&str>) -> Result<Option<PublicKey>, Failure> {
    let parsed = text.map(str::parse::<PublicKey>).transpose();
    parsed.map_err(|error| Diagnostic::error("invalid-key", error.to_string()).into())
}
