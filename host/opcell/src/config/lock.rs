//! The lock beside the project file: what each plugin asked for when it was last loaded.
//!
//! It is how an upgrade is noticed. A version that asks for more than the lock and the grants together is not loaded until the project
//! file grants it; a plugin that the lock does not know is new, may ask for anything, and gets what is granted. The lock grants nothing.

use super::PluginConfig;
use crate::report::Rejected;
use indexmap::IndexMap;
use opcell_sandbox::grants::Requests;
use opcell_workflow::Diagnostic;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    io::Write as _,
    path::{Path, PathBuf},
};

const HEADER: &str = "\
# What each plugin requested when it was last loaded. Written by opcell; keep it beside the project file, under version control.
# A version that requests more is not loaded until the project file grants it.
";

/// A lock as it was read, and what it means together with the grants.
#[derive(Debug, Clone, Default)]
pub struct Lock {
    file: PathBuf,
    asked: BTreeMap<String, Requests>,
    agreed: BTreeMap<String, Requests>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockText {
    #[serde(default)]
    plugins: BTreeMap<String, Requests>,
}

impl Lock {
    /// Reads the lock of a project file, `opcell.lock` beside `opcell.toml`; there may be none yet.
    ///
    /// # Errors
    /// When there is one that cannot be read: without it every upgrade would look like a new plugin.
    pub fn beside(project: &Path, plugins: &IndexMap<String, PluginConfig>) -> Result<Self, Rejected> {
        Self::open(project.with_extension("lock"), plugins)
    }

    /// Reads a lock; there may be none yet.
    ///
    /// # Errors
    /// As [`Self::beside`].
    pub fn open(file: PathBuf, plugins: &IndexMap<String, PluginConfig>) -> Result<Self, Rejected> {
        let broken = |what: String| {
            let finding = Diagnostic::error("lock-unreadable", format!("{}: {what}", file.display()));
            Rejected::plain(
                finding.help("restore it from version control; without it an upgrade cannot be told from a new plugin"),
            )
        };
        let asked = match std::fs::read_to_string(&file) {
            Ok(text) => toml_edit::de::from_str::<LockText>(&text).map_err(|error| broken(error.to_string()))?.plugins,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(broken(error.to_string())),
        };
        let agreed = plugins.values().filter_map(|plugin| {
            let asked = asked.get(&plugin.name)?.clone();
            Some((plugin.name.clone(), asked.and_granted(&plugin.grants.capabilities)))
        });
        Ok(Self { agreed: agreed.collect(), asked, file })
    }

    /// What a plugin may ask for and still be loaded; `None` when it is new.
    #[must_use]
    pub fn agreed(&self, plugin: &str) -> Option<&Requests> {
        self.agreed.get(plugin)
    }

    /// Writes what the project's plugins ask for, when that is not what the lock says already. What it says about `left_out` stays.
    ///
    /// # Errors
    /// When it cannot be written; then the next upgrade is compared with what was written before.
    pub fn remember<'a>(
        &self,
        mut asked: BTreeMap<String, Requests>,
        left_out: impl IntoIterator<Item = &'a str>,
    ) -> std::io::Result<()> {
        for plugin in left_out {
            if let Some(before) = self.asked.get(plugin) {
                asked.insert(plugin.to_owned(), before.clone());
            }
        }
        if asked == self.asked {
            return Ok(());
        }
        let text = toml_edit::ser::to_string_pretty(&LockText { plugins: asked }).map_err(std::io::Error::other)?;
        write_whole(&self.file, &format!("{HEADER}\n{text}"), None)
    }

    /// Writes what a plugin asks for that is looked at for the first time.
    ///
    /// # Errors
    /// As [`Self::remember`].
    pub fn remember_new(&self, plugin: &str, asks: Requests) -> std::io::Result<()> {
        let mut asked = self.asked.clone();
        asked.entry(plugin.to_owned()).or_insert(asks);
        self.remember(asked, [])
    }
}

/// Writes the whole file or nothing.
pub fn write_whole(file: &Path, text: &str, permissions: Option<std::fs::Permissions>) -> std::io::Result<()> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let temporary = file.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = (|| {
        let mut out = std::fs::File::create_new(&temporary)?;
        out.write_all(text.as_bytes())?;
        if let Some(permissions) = permissions {
            out.set_permissions(permissions)?;
        }
        out.sync_all()?;
        std::fs::rename(&temporary, file)
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::Lock;
    use crate::config::{PluginConfig, PluginGrants};
    use indexmap::IndexMap;
    use opcell_sandbox::{
        grants::{FilesGrant, Grants, Requests},
        limits::LimitRequest,
    };
    use opcell_types::Access;

    fn plugins(grants: Grants) -> IndexMap<String, PluginConfig> {
        let plugin = PluginConfig {
            name: "repo".to_owned(),
            path: "/repo.wasm".into(),
            span: None,
            grants: PluginGrants { capabilities: grants, http: Vec::new() },
            limits: LimitRequest::default(),
        };
        [("repo".to_owned(), plugin)].into()
    }

    #[test]
    fn what_was_remembered_and_what_is_granted_is_agreed_to() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("opcell.toml");
        let new = Lock::beside(&project, &plugins(Grants::default())).unwrap();
        assert_eq!(new.agreed("repo"), None);
        let asks = Requests { files: [("work".to_owned(), Access::Read)].into(), ..Requests::default() };
        new.remember([("repo".to_owned(), asks.clone())].into(), []).unwrap();
        insta::assert_snapshot!(std::fs::read_to_string(folder.path().join("opcell.lock")).unwrap());
        let again = Lock::beside(&project, &plugins(Grants::default())).unwrap();
        assert_eq!(again.agreed("repo"), Some(&asks));
        let granted = Grants {
            tools: ["http.fetch".to_owned()].into(),
            files: [("work".to_owned(), FilesGrant::read_write("/"))].into(),
            ..Grants::default()
        };
        let agreed = Lock::beside(&project, &plugins(granted)).unwrap().agreed("repo").unwrap().clone();
        assert!(agreed.tools.contains("http.fetch") && agreed.files["work"] == Access::ReadWrite);
    }

    #[test]
    fn a_lock_that_cannot_be_read_stops_the_project() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("opcell.toml");
        for text in ["plugins = 3", "[plugins.repo]\ntols = []", "x ="] {
            std::fs::write(folder.path().join("opcell.lock"), text).unwrap();
            assert!(Lock::beside(&project, &IndexMap::new()).is_err(), "{text}");
        }
    }
}
