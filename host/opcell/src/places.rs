//! The user's places that no project and no grant reaches: keys, compiled code, consent, policy.

use opcell_registry::{
    signature::Keys,
    store::{Store, VENDOR_FOLDER},
};
use opcell_sandbox::cache::CachePlace;
use std::path::{Path, PathBuf};

/// The policy that the machine's owner wrote for all its users.
pub const MACHINE_POLICY: &str = "/etc/opcell/policy.toml";

/// The user's own directories of Opcell; absent where the environment names no home.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Places {
    /// Compiled components: `$OPCELL_CACHE`, or `opcell/components` in `$XDG_CACHE_HOME` or `~/.cache`.
    pub cache: Option<PathBuf>,
    /// Keys and consent: `opcell` in `$XDG_STATE_HOME` or `~/.local/state`.
    pub state: Option<PathBuf>,
    /// Plugins that were fetched: `opcell` in `$XDG_DATA_HOME` or `~/.local/share`.
    pub data: Option<PathBuf>,
    /// The user's policy: `opcell` in `$XDG_CONFIG_HOME` or `~/.config`.
    pub config: Option<PathBuf>,
}

impl Places {
    /// As the environment of this process says. Relative paths count as absent: they would lie in whatever project is
    /// open.
    #[must_use]
    pub fn of_user() -> Self {
        let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = |name: &str, below_home: &str| {
            Some(absolute(name).or_else(|| absolute("HOME").map(|home| home.join(below_home)))?.join("opcell"))
        };
        Self {
            cache: absolute("OPCELL_CACHE").or_else(|| Some(base("XDG_CACHE_HOME", ".cache")?.join("components"))),
            state: base("XDG_STATE_HOME", ".local/state"),
            data: base("XDG_DATA_HOME", ".local/share"),
            config: base("XDG_CONFIG_HOME", ".config"),
        }
    }

    /// Returns the places of compiled components and of the key that vouches for them; `None` where either has none.
    #[must_use]
    pub fn compiled(&self) -> Option<CachePlace> {
        Some(CachePlace { directory: self.cache.clone()?, keys: self.state.as_ref()?.join("keys") })
    }

    /// Returns the store of plugins that were fetched for a project: the folder that it carries along, then the user's.
    #[must_use]
    pub fn store(&self, project: &Path) -> Store {
        let own = self.data.as_ref().map(|data| data.join("plugins"));
        Store::new([project.join(VENDOR_FOLDER)].into_iter().chain(own).collect())
    }

    /// Returns the component that runs programs in Python, once it is installed. It lies where no grant reaches.
    #[must_use]
    pub fn python_runtime(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("runtimes").join("python.wasm"))
    }

    /// The publisher's keys of this user.
    #[must_use]
    pub fn signing_keys(&self) -> Option<Keys> {
        Some(Keys::new(self.state.as_ref()?.join("signing")))
    }

    /// The directories that no grant reaches.
    #[must_use]
    pub fn sealed(&self) -> Vec<PathBuf> {
        self.cache.iter().chain(&self.state).map(|path| real(path)).collect()
    }
}

/// A path without links; of what does not exist as [`opcell_types::files::real`] says.
pub fn real(path: &Path) -> PathBuf {
    opcell_types::files::real(path)
}
