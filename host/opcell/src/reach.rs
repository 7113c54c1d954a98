//! The reach of a plugin: for people who decide about it, on a terminal or on a page.

use crate::remedy;
use opcell_sandbox::{Manifest, grants::Policy, limits::Unit, manifest::Request};
use opcell_types::Capability;
use serde::Serialize;
use std::path::PathBuf;

/// One capability: requested, granted, both or neither.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Reach {
    /// Its kind and name, such as `files repo`.
    pub capability: String,
    /// `true` if a cell of the plugin may use it.
    pub allowed: bool,
    /// The reason that the plugin gives for its request, if it requests it.
    pub reason: Option<String>,
    /// The grant in detail: access, globs, quota.
    pub granted: Option<String>,
    /// Why it is denied.
    pub denied: Option<String>,
    /// The command that would grant it.
    pub remedy: Option<String>,
}

/// Returns what a plugin requests or is granted, in the order of its manifest.
#[must_use]
pub fn reach(manifest: &Manifest, policy: &Policy) -> Vec<Reach> {
    let grants = policy.grants();
    let kinds: [(Capability, &[Request], Vec<&String>); 4] = [
        (Capability::Tool, &manifest.tools, grants.tools.iter().collect()),
        (Capability::Skill, &manifest.skills, grants.skills.iter().collect()),
        (Capability::Files, &manifest.files, grants.files.keys().collect()),
        (Capability::Store, &manifest.stores, grants.stores.keys().collect()),
    ];
    let mut found = Vec::new();
    for (kind, requests, granted) in kinds {
        let asked = requests.iter().map(|request| &request.name);
        let extra = granted.into_iter().filter(|name| !requests.iter().any(|request| request.name == **name));
        for name in asked.chain(extra) {
            let request = requests.iter().find(|request| request.name == *name);
            let denial = policy.allows(kind, name, None).err();
            let files = grants.files.get(name).filter(|_| kind == Capability::Files).map(|grant| {
                let access = policy.file_access(name, None).unwrap_or(grant.access);
                let patterns = if grant.patterns.is_empty() {
                    String::new()
                } else {
                    format!(", only {}", grant.patterns.join(" "))
                };
                // Without the `.` of a project's own folder.
                let path: PathBuf = grant.path.components().collect();
                format!("{access} of {}{patterns}", path.display())
            });
            let store = grants.stores.get(name).filter(|_| kind == Capability::Store).map(|grant| {
                let per = if grant.per_run { "each run" } else { "this project" };
                format!("{} and {} entries for {per}", Unit::Bytes.show(grant.quota), grant.entries)
            });
            let is_granted = kind == Capability::Tool && grants.tools.contains(name)
                || kind == Capability::Skill && grants.skills.contains(name);
            found.push(Reach {
                capability: format!("{} {name}", kind.word()),
                allowed: denial.is_none(),
                reason: request.map(|request| request.reason.clone()),
                granted: files.or(store).or_else(|| is_granted.then(|| "by opcell.toml".to_owned())),
                remedy: denial.as_ref().and_then(|denial| remedy::render(&denial.remedy)),
                denied: denial.map(|denial| denial.rule),
            });
        }
    }
    found.extend(grants.dangerous_preopens.iter().map(|preopen| Reach {
        capability: format!("preopen {} (dangerous)", preopen.guest),
        allowed: true,
        reason: None,
        granted: Some(format!("{} of {}", preopen.access, preopen.host.display())),
        denied: None,
        remedy: None,
    }));
    found
}
