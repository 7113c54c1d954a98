//! Components that are in no file: bytes in memory, a store of the embedding program, and those of the library itself.

use async_trait::async_trait;
use opcell_sandbox::PluginSource;
use std::{fmt, sync::Arc};

/// A store of components that the embedding program implements, such as a database of what its users installed.
///
/// It is asked each time that the plugin is loaded: when the host is built, and when the plugin is reloaded.
///
/// ```
/// use opcell::{prelude::*, ComponentStore, StoreFailure};
///
/// struct Installed;
///
/// #[async_trait]
/// impl ComponentStore for Installed {
///     async fn component(&self, plugin: &str) -> Result<Vec<u8>, StoreFailure> {
///         Err(format!("{plugin} is not installed").into())
///     }
/// }
///
/// let builder = Host::builder().plugin(PluginConfig::stored("spelling", Installed));
/// ```
#[async_trait]
pub trait ComponentStore: Send + Sync {
    /// The bytes of the component of a plugin, by the plugin's name.
    ///
    /// # Errors
    /// When there is none, or it cannot be read; the host is not built, or stays as it is.
    async fn component(&self, plugin: &str) -> Result<Vec<u8>, StoreFailure>;
}

/// A store that several owners share.
#[async_trait]
impl<S: ComponentStore + ?Sized> ComponentStore for Arc<S> {
    async fn component(&self, plugin: &str) -> Result<Vec<u8>, StoreFailure> {
        (**self).component(plugin).await
    }
}

/// Why a store has no component.
pub type StoreFailure = Box<dyn std::error::Error + Send + Sync>;

/// A component that is in no file.
#[derive(Clone)]
pub(crate) enum Component {
    Builtin(&'static [u8]),
    Bytes(Arc<[u8]>),
    Stored(Arc<dyn ComponentStore>),
}

impl Component {
    /// The bytes, as a sandbox loads them.
    pub(crate) async fn source(&self, plugin: &str) -> Result<PluginSource, StoreFailure> {
        Ok(PluginSource::Bytes(self.bytes(plugin).await?))
    }

    /// The bytes.
    pub(crate) async fn bytes(&self, plugin: &str) -> Result<Arc<[u8]>, StoreFailure> {
        match self {
            Self::Builtin(bytes) => Ok((*bytes).into()),
            Self::Bytes(bytes) => Ok(bytes.clone()),
            Self::Stored(store) => Ok(store.component(plugin).await?.into()),
        }
    }

    /// Its place, for people.
    pub(crate) fn place(&self) -> &'static str {
        match self {
            Self::Builtin(_) => "(part of Opcell)",
            Self::Bytes(_) => "(in memory)",
            Self::Stored(_) => "(in a store of the program)",
        }
    }
}

impl PartialEq for Component {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Builtin(a), Self::Builtin(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Stored(a), Self::Stored(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Eq for Component {}

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Builtin(bytes) => write!(f, "Builtin({})", bytes.len()),
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Self::Stored(_) => f.write_str("Stored"),
        }
    }
}
