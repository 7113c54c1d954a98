//! The files of a project that decide what runs and what it may reach, for [`opcell_types::control`].

use super::{Config, JournalPlace, PluginConfig, PluginGrants, tools::ToolTarget};
use crate::{
    consent::Cover,
    document,
    http::{HttpRule, SecretSource},
    places::{Places, real},
    stores,
};
use opcell_session::models::{self, ProviderConfig};
use opcell_types::control::{ControlFiles, Listed};
use std::path::{Path, PathBuf};

/// The files that grants of this project do not extend to.
pub(crate) fn control_files(config: &Config, places: &Places) -> ControlFiles {
    let mut control = ControlFiles::default();
    control.project = Some(real(&config.root));
    control.sealed = places.sealed();
    control.secrets = secrets(config);
    control.fixed = fixed(config, places);
    control.listed = listed(config);
    control.loaded = config.covers().values().flat_map(Cover::loaded).collect();
    control
}

/// The journal and the stores of plugins with the files beside them, and the files that keys are read from.
fn secrets(config: &Config) -> Vec<PathBuf> {
    let mut secrets = Vec::new();
    let journal = config.journal.as_ref();
    if let Some(path) = journal.and_then(|journal| journal.place.file()) {
        for path in [real(path), real(&stores::file_beside(path)), real(&stores::former_file_beside(path))] {
            secrets.extend(["-wal", "-shm", "-journal"].map(|ending| {
                let mut name = path.clone().into_os_string();
                name.push(ending);
                PathBuf::from(name)
            }));
            secrets.push(path);
        }
    }
    if let Some(JournalPlace::Server(server)) = journal.map(|journal| &journal.place)
        && let Some(SecretSource::File(file)) = &server.password
    {
        secrets.push(real(file));
    }
    let rules = config.plugins.values().flat_map(|plugin| &plugin.grants.http).chain(&config.sessions.http);
    let bound = config.tools.values().flat_map(ToolTarget::rules);
    let bound = bound.chain(config.servers.values().filter_map(|server| Some(&server.remote.as_ref()?.rule)));
    secrets.extend(rules.chain(bound).filter_map(key_file).map(real));
    for secret in config.sessions.models.providers.values().flat_map(ProviderConfig::secrets) {
        if let models::SecretSource::File(file) = secret {
            secrets.push(real(&config.root.join(file)));
        }
    }
    secrets
}

/// The files that a plugin's credentials are read from, as they stand among the secrets.
pub(crate) fn key_files(plugin: &PluginConfig) -> impl Iterator<Item = PathBuf> {
    key_files_of(&plugin.grants)
}

/// As [`key_files`], of grants that are no project's.
pub(crate) fn key_files_of(grants: &PluginGrants) -> impl Iterator<Item = PathBuf> {
    grants.http.iter().filter_map(key_file).map(real)
}

fn key_file(rule: &HttpRule) -> Option<&Path> {
    match &rule.credential.as_ref()?.source {
        SecretSource::File(file) => Some(file),
        SecretSource::Env(_) => None,
    }
}

/// Extensions of documents of workflows, of skills that are one file, and of plugins.
const DOCUMENTS: &[&str] = &["edn", "md", "json", "yaml", "yml"];
const SKILLS: &[&str] = &["md"];
const PLUGINS: &[&str] = &["wasm", "wat"];

/// Folders whose documents are found by name, and so take no new ones from those who are granted the folder.
fn listed(config: &Config) -> Vec<Listed> {
    let of = |folders: &[PathBuf], extensions| -> Vec<Listed> {
        folders.iter().map(|folder| Listed::new(real(folder), extensions)).collect()
    };
    let workflows = of(&config.workflows, DOCUMENTS).into_iter().chain(of(&config.default_workflows, DOCUMENTS));
    workflows.chain(of(&config.skills, SKILLS)).chain(of(&config.plugin_folders, PLUGINS)).collect()
}

/// Returns the files that are loaded, read as instructions, or started.
fn fixed(config: &Config, places: &Places) -> Vec<PathBuf> {
    let mut fixed: Vec<PathBuf> = config.file.iter().map(|file| real(file)).collect();
    fixed.extend(config.file.iter().map(|file| real(&file.with_extension("lock"))));
    let in_files = config.plugins.values().filter(|plugin| plugin.component.is_none());
    fixed.extend(in_files.flat_map(|plugin| crate::source::files_of(&plugin.path)).map(|file| real(&file)));
    let root = real(&config.root);
    let folders = config.workflows.iter().chain(&config.skills).chain(&config.plugin_folders);
    let folders = folders.chain(&config.default_workflows);
    for folder in folders.map(|folder| real(folder)) {
        // A project whose own folder holds its workflows is not read-only as a whole: what is there now is in force.
        match root.starts_with(&folder) {
            true => fixed.extend(document::in_folder(&folder)),
            false => fixed.push(folder),
        }
    }
    fixed.extend(config.sessions.script.iter().map(|script| real(script)));
    fixed.extend(config.covers().values().flat_map(Cover::fixed));
    fixed.extend(config.in_force.iter().map(|file| real(file)));
    fixed.extend(places.config.iter().map(|folder| real(folder)));
    fixed
}
