//! The policy of a plugin: a decision over values, without any effect.
//!
//! Effective capability = requested by the plugin's manifest ∩ granted by the operator ∩ narrowed by the step. Nothing
//! is granted by default, and every refusal says which of the three refused it and what would change that.

use opcell_types::{Access, Capability, Denial, Remedy, text::one_line};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

/// Longest name of a guest that a remedy repeats, in bytes.
const MAX_NAME_CHARS: usize = 200;

/// The request of a plugin that cannot say which tools it calls, such as one that runs programs of others. It gets
/// those that it is granted by name.
pub const ANY_TOOL: &str = "*";

/// A directory on the host that a plugin may use under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesGrant {
    /// The directory on the host; it must exist when the plugin is loaded.
    pub path: PathBuf,
    /// The access to it.
    pub access: Access,
    /// Patterns of paths below the root that may be opened (`*` within a segment, `**` across segments); empty for all.
    pub patterns: Vec<String>,
    /// Bytes that may be written through this grant, all cells together, for as long as the sandbox's ledger counts;
    /// removing a file gives nothing back. As many files and directories may be created as this has KiB, and 64 in any
    /// case: an empty one takes room that no byte counts.
    pub write_quota: u64,
    /// `true` if the grant extends to the files that decide what runs and what it may reach, and to secrets; see
    /// [`opcell_types::control`].
    pub control_files: bool,
}

impl FilesGrant {
    /// Bytes that may be written where the operator says nothing.
    pub const DEFAULT_WRITE_QUOTA: u64 = 256 << 20;

    /// Files and directories that the quota pays for.
    pub(crate) fn created_entries(&self) -> u64 {
        (self.write_quota >> 10).max(64)
    }

    /// Reading everything below a directory.
    #[must_use]
    pub fn read(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            access: Access::Read,
            patterns: Vec::new(),
            write_quota: Self::DEFAULT_WRITE_QUOTA,
            control_files: false,
        }
    }

    /// Reading and writing everything below a directory.
    #[must_use]
    pub fn read_write(path: impl Into<PathBuf>) -> Self {
        Self { access: Access::ReadWrite, ..Self::read(path) }
    }
}

/// A store in which a plugin may keep values from one call to the next under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreGrant {
    /// Bytes of keys and values together; each entry counts [`Self::ENTRY_OVERHEAD`] bytes more.
    pub quota: u64,
    /// Most entries at one time.
    pub entries: u64,
    /// `true` if every run has a store of its own; else the plugin has one in the project.
    pub per_run: bool,
}

impl StoreGrant {
    /// Bytes where the operator says nothing.
    pub const DEFAULT_QUOTA: u64 = 1 << 20;

    /// Entries where the operator says nothing.
    pub const DEFAULT_ENTRIES: u64 = 10_000;

    /// The bytes that an entry counts beside its key and value.
    pub const ENTRY_OVERHEAD: u64 = 64;
}

impl Default for StoreGrant {
    fn default() -> Self {
        Self { quota: Self::DEFAULT_QUOTA, entries: Self::DEFAULT_ENTRIES, per_run: false }
    }
}

/// A directory given to a plugin through WASI, outside of what Opcell meters. Dangerous: prefer [`FilesGrant`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DangerousPreopen {
    /// The directory on the host.
    pub host: PathBuf,
    /// The path under which the guest sees it.
    pub guest: String,
    /// The access to it.
    pub access: Access,
    /// As [`FilesGrant::control_files`]. WASI is not looked at file by file: without it, a writable directory that
    /// holds control files is refused when the plugin is loaded.
    pub control_files: bool,
}

/// The capabilities that the operator grants to one plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// Host tools by name.
    pub tools: BTreeSet<String>,
    /// Skills by name.
    pub skills: BTreeSet<String>,
    /// File roots by name.
    pub files: BTreeMap<String, FilesGrant>,
    /// Stores by name.
    pub stores: BTreeMap<String, StoreGrant>,
    /// WASI preopens, for guests that know nothing of Opcell's `files`.
    pub dangerous_preopens: Vec<DangerousPreopen>,
}

/// The capabilities that the plugin's manifest requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Requests {
    /// Host tools by name.
    pub tools: BTreeSet<String>,
    /// Skills by name.
    pub skills: BTreeSet<String>,
    /// File roots by name.
    pub files: BTreeMap<String, Access>,
    /// Stores by name.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub stores: BTreeSet<String>,
}

impl Requests {
    /// These, and what `grants` would let a plugin reach: asking for that is nothing new.
    #[must_use]
    pub fn and_granted(mut self, grants: &Grants) -> Self {
        self.tools.extend(grants.tools.iter().cloned());
        self.skills.extend(grants.skills.iter().cloned());
        self.stores.extend(grants.stores.keys().cloned());
        for (name, grant) in &grants.files {
            let access = self.files.entry(name.clone()).or_insert(grant.access);
            *access = (*access).max(grant.access);
        }
        self
    }
}

/// The part of the grant that a step leaves; `None` leaves a kind as granted, an empty set takes all of it away.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Narrowing {
    /// Host tools by name.
    pub tools: Option<BTreeSet<String>>,
    /// Skills by name.
    pub skills: Option<BTreeSet<String>>,
    /// File roots by name.
    pub files: Option<BTreeSet<String>>,
    /// Stores by name.
    pub stores: Option<BTreeSet<String>>,
}

impl Narrowing {
    /// Nothing at all.
    #[must_use]
    pub fn to_nothing() -> Self {
        let nothing = || Some(BTreeSet::new());
        Self { tools: nothing(), skills: nothing(), files: nothing(), stores: nothing() }
    }
}

/// The decision for one plugin: its name, what it asked for, what it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    plugin: Arc<str>,
    requests: Requests,
    grants: Grants,
    /// `true` if it cannot say which stores it requests, and so requests whichever it opens.
    any_store: bool,
    /// `true` if the services of each call decide which tools it reaches.
    tools_of_services: bool,
}

impl Policy {
    /// Returns the policy of `plugin`.
    #[must_use]
    pub fn new(plugin: Arc<str>, requests: Requests, grants: Grants) -> Self {
        Self { plugin, requests, grants, any_store: false, tools_of_services: false }
    }

    /// The same for a component that has no manifest to ask for stores in: those that are granted are all that it gets.
    #[must_use]
    pub(crate) fn asking_for_any_store(self) -> Self {
        Self { any_store: true, ..self }
    }

    /// The same for calls whose services decide which tools they reach, as far as the plugin asks for them.
    #[must_use]
    pub(crate) fn with_tools_of_services(self, tools_of_services: bool) -> Self {
        Self { tools_of_services, ..self }
    }

    /// The same plugin, which asks for the same, with other grants.
    #[must_use]
    pub(crate) fn with_grants(&self, grants: Grants) -> Self {
        Self { grants, ..self.clone() }
    }

    /// The plugin's name.
    #[must_use]
    pub fn plugin(&self) -> &str {
        &self.plugin
    }

    /// Returns the operator's grants.
    #[must_use]
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Returns the plugin's requests.
    #[must_use]
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Returns `Ok` if a cell may use `name`; the denial says why not.
    ///
    /// # Errors
    /// [`Denial`] naming the first of manifest, grant and step that refuses.
    pub fn allows(&self, kind: Capability, name: &str, step: Option<&Narrowing>) -> Result<(), Denial> {
        let name_shown = || one_line(name, MAX_NAME_CHARS);
        if !self.is_requested(kind, name) {
            let rule = format!("the manifest of plugin `{}` does not ask for it", self.plugin);
            let plugin = self.plugin.clone();
            let remedy = Remedy::AskInManifest { plugin, capability: kind, name: name_shown(), access: None };
            return Err(Denial::of(kind.word(), name, rule, remedy));
        }
        if !self.is_granted(kind, name) {
            return Err(self.not_granted(kind, name));
        }
        if !Self::is_left_by(kind, name, step) {
            let rule = format!("the step narrows `capabilities.{}` and leaves it out", kind.key());
            return Err(Denial::of(
                kind.word(),
                name,
                rule,
                Remedy::LeaveInStep { capability: kind, name: name_shown() },
            ));
        }
        Ok(())
    }

    /// Returns the access of a cell to the file root `name`.
    ///
    /// # Errors
    /// As [`Self::allows`].
    pub fn file_access(&self, name: &str, step: Option<&Narrowing>) -> Result<Access, Denial> {
        self.allows(Capability::Files, name, step)?;
        let requested = self.requests.files.get(name).copied().unwrap_or(Access::Read);
        let granted = self.grants.files.get(name).map_or(Access::Read, |grant| grant.access);
        Ok(requested.min(granted))
    }

    /// The refusal of a write through a root that may only be read.
    #[must_use]
    pub fn read_only(&self, name: &str) -> Denial {
        let (plugin, capability, shown) = (self.plugin.clone(), Capability::Files, one_line(name, MAX_NAME_CHARS));
        let access = Some(Access::ReadWrite);
        let (rule, remedy) = if self.requests.files.get(name) == Some(&Access::ReadWrite) {
            let rule = format!("the operator granted `{shown}` to plugin `{plugin}` for reading");
            (rule, Remedy::Grant { plugin, capability, name: shown, access })
        } else {
            let rule = format!("the manifest of plugin `{plugin}` asks for `{shown}` for reading");
            (rule, Remedy::AskInManifest { plugin, capability, name: shown, access })
        };
        Denial::of("write to files", name, rule, remedy)
    }

    /// The refusal of a path that the grant's patterns leave out.
    #[must_use]
    pub fn outside_patterns(&self, name: &str, path: &str) -> Denial {
        let patterns = self.grants.files.get(name).map(|grant| grant.patterns.join("`, `")).unwrap_or_default();
        let rule = format!("the grant `{name}` of plugin `{}` covers `{patterns}` only", self.plugin);
        let remedy = Remedy::CoverPath { plugin: self.plugin.clone(), name: one_line(name, MAX_NAME_CHARS) };
        Denial::of("path", &format!("{name}/{path}"), rule, remedy)
    }

    /// The refusal of a path that would leave its directory: absolute, through `..`, or through a link.
    #[must_use]
    pub fn escape(name: &str, path: &str, rule: &str) -> Denial {
        Denial::of("path", &format!("{name}/{path}"), rule, Remedy::Nothing)
    }

    /// The refusal of a file that a grant of its folder does not extend to.
    #[must_use]
    pub fn control_file(&self, name: &str, path: &str, rule: String) -> Denial {
        let remedy = Remedy::ControlFiles { plugin: Some(self.plugin.clone()), name: one_line(name, MAX_NAME_CHARS) };
        Denial::of("control file", &format!("{name}/{path}"), rule, remedy)
    }

    /// Returns the requests that were not granted: `(kind, name)`.
    #[must_use]
    pub fn ungranted(&self) -> Vec<(Capability, &str)> {
        let Requests { tools, skills, files, stores } = &self.requests;
        self.names(tools.iter(), skills.iter(), files.keys(), stores.iter())
            .filter(|(kind, name)| !self.is_granted(*kind, name) && (*kind, *name) != (Capability::Tool, ANY_TOOL))
            .collect()
    }

    /// Returns the plugin's requests beyond what the operator has `agreed` to, each as the refusal of it.
    #[must_use]
    pub fn excess_requests(&self, agreed: &Requests) -> Vec<Denial> {
        let Requests { tools, skills, files, stores } = &self.requests;
        let new = self.names(
            tools.difference(&agreed.tools),
            skills.difference(&agreed.skills),
            files.iter().filter(|(name, _)| !agreed.files.contains_key(*name)).map(|(name, _)| name),
            stores.difference(&agreed.stores),
        );
        let mut excess: Vec<Denial> = new.map(|(kind, name)| self.not_granted(kind, name)).collect();
        let wider = files.iter().filter(|(name, access)| agreed.files.get(*name).is_some_and(|known| known < *access));
        excess.extend(wider.map(|(name, _)| self.read_only(name)));
        excess
    }

    /// Returns the grants without a request, probably made by mistake: `(kind, name)`.
    #[must_use]
    pub fn unused_grants(&self) -> Vec<(Capability, &str)> {
        let Grants { tools, skills, files, stores, .. } = &self.grants;
        self.names(tools.iter(), skills.iter(), files.keys(), stores.keys())
            .filter(|(kind, name)| !self.is_requested(*kind, name))
            .collect()
    }

    fn names<'a>(
        &self,
        tools: impl Iterator<Item = &'a String>,
        skills: impl Iterator<Item = &'a String>,
        files: impl Iterator<Item = &'a String>,
        stores: impl Iterator<Item = &'a String>,
    ) -> impl Iterator<Item = (Capability, &'a str)> {
        let tools = tools.map(|name| (Capability::Tool, name.as_str()));
        let skills = skills.map(|name| (Capability::Skill, name.as_str()));
        let files = files.map(|name| (Capability::Files, name.as_str()));
        tools.chain(skills).chain(files).chain(stores.map(|name| (Capability::Store, name.as_str())))
    }

    fn is_requested(&self, kind: Capability, name: &str) -> bool {
        match kind {
            Capability::Tool => self.requests.tools.contains(name) || self.requests.tools.contains(ANY_TOOL),
            Capability::Skill => self.requests.skills.contains(name),
            Capability::Files => self.requests.files.contains_key(name),
            Capability::Store => self.any_store || self.requests.stores.contains(name),
        }
    }

    fn is_granted(&self, kind: Capability, name: &str) -> bool {
        match kind {
            Capability::Tool => self.tools_of_services || self.grants.tools.contains(name),
            Capability::Skill => self.grants.skills.contains(name),
            Capability::Files => self.grants.files.contains_key(name),
            Capability::Store => self.grants.stores.contains_key(name),
        }
    }

    fn is_left_by(kind: Capability, name: &str, step: Option<&Narrowing>) -> bool {
        let set = step.and_then(|step| match kind {
            Capability::Tool => step.tools.as_ref(),
            Capability::Skill => step.skills.as_ref(),
            Capability::Files => step.files.as_ref(),
            Capability::Store => step.stores.as_ref(),
        });
        set.is_none_or(|set| set.contains(name))
    }

    fn not_granted(&self, kind: Capability, name: &str) -> Denial {
        let rule = format!("the operator has not granted it to plugin `{}`", self.plugin);
        let access = if kind == Capability::Files { self.requests.files.get(name).copied() } else { None };
        let remedy = Remedy::Grant {
            plugin: self.plugin.clone(),
            capability: kind,
            name: one_line(name, MAX_NAME_CHARS),
            access,
        };
        Denial::of(kind.word(), name, rule, remedy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn policy(requested: &[&str], granted: &[&str]) -> Policy {
        let requests = Requests { tools: set(requested), ..Requests::default() };
        let grants = Grants { tools: set(granted), ..Grants::default() };
        Policy::new("triage".into(), requests, grants)
    }

    #[test]
    fn without_any_grant_everything_is_denied() {
        let policy = Policy::new("triage".into(), Requests::default(), Grants::default());
        for kind in [Capability::Tool, Capability::Skill, Capability::Files, Capability::Store] {
            assert!(policy.allows(kind, "anything", None).is_err());
        }
    }

    #[test]
    fn a_request_without_a_grant_is_denied_and_the_denial_says_who_has_to_grant_what() {
        let denial = policy(&["http.fetch"], &[]).allows(Capability::Tool, "http.fetch", None).unwrap_err();
        assert_eq!(denial.capability, "tool http.fetch");
        let (plugin, name) = ("triage".into(), "http.fetch".to_owned());
        assert_eq!(denial.remedy, Remedy::Grant { plugin, capability: Capability::Tool, name, access: None });
    }

    #[test]
    fn services_decide_on_tools_that_the_plugin_asks_for_and_on_nothing_else() {
        let of = |requested: &[&str]| policy(requested, &[]).with_tools_of_services(true);
        assert!(of(&[ANY_TOOL]).allows(Capability::Tool, "bash", None).is_ok());
        assert!(of(&["http.fetch"]).allows(Capability::Tool, "bash", None).is_err());
        assert!(of(&[ANY_TOOL]).allows(Capability::Skill, "bash", None).is_err());
        let nothing = Narrowing::to_nothing();
        assert!(of(&[ANY_TOOL]).allows(Capability::Tool, "bash", Some(&nothing)).is_err());
    }

    #[test]
    fn a_grant_without_a_request_is_denied_and_reported_as_unused() {
        let policy = policy(&[], &["http.fetch"]);
        assert!(policy.allows(Capability::Tool, "http.fetch", None).unwrap_err().rule.contains("does not ask for it"));
        assert_eq!(policy.unused_grants(), [(Capability::Tool, "http.fetch")]);
    }

    #[test]
    fn a_plugin_that_cannot_say_what_it_calls_gets_what_it_is_granted_by_name() {
        let policy = policy(&[ANY_TOOL], &["repo/find"]);
        assert_eq!(policy.allows(Capability::Tool, "repo/find", None), Ok(()));
        let denial = policy.allows(Capability::Tool, "repo/drop", None).unwrap_err();
        assert!(matches!(denial.remedy, Remedy::Grant { ref name, .. } if name == "repo/drop"), "{denial:?}");
        assert!(policy.ungranted().is_empty() && policy.unused_grants().is_empty());
    }

    #[test]
    fn requested_and_granted_is_allowed_unless_the_step_leaves_it_out() {
        let policy = policy(&["http.fetch"], &["http.fetch"]);
        assert!(policy.allows(Capability::Tool, "http.fetch", None).is_ok());
        let nothing = Narrowing { tools: Some(BTreeSet::new()), ..Narrowing::default() };
        assert!(
            policy.allows(Capability::Tool, "http.fetch", Some(&nothing)).unwrap_err().rule.contains("step narrows")
        );
        let unrelated = Narrowing { files: Some(BTreeSet::new()), ..Narrowing::default() };
        assert!(policy.allows(Capability::Tool, "http.fetch", Some(&unrelated)).is_ok());
    }

    #[test]
    fn what_an_upgrade_asks_for_is_beyond_what_was_agreed_until_it_is_granted() {
        let old =
            Requests { tools: set(&["a"]), files: [("repo".to_owned(), Access::Read)].into(), ..Requests::default() };
        let new = Requests {
            tools: set(&["a", "b"]),
            skills: set(&["s"]),
            files: [("repo".to_owned(), Access::ReadWrite), ("out".to_owned(), Access::ReadWrite)].into(),
            stores: set(&["counts"]),
        };
        let upgraded = Policy::new("p".into(), new.clone(), Grants::default());
        let remedies: Vec<Remedy> = upgraded.excess_requests(&old).into_iter().map(|denial| denial.remedy).collect();
        let grant = |capability, name: &str, access| Remedy::Grant {
            plugin: "p".into(),
            capability,
            name: name.to_owned(),
            access,
        };
        assert_eq!(
            remedies,
            [
                grant(Capability::Tool, "b", None),
                grant(Capability::Skill, "s", None),
                grant(Capability::Files, "out", Some(Access::ReadWrite)),
                grant(Capability::Store, "counts", None),
                grant(Capability::Files, "repo", Some(Access::ReadWrite)),
            ]
        );
        let grants = Grants {
            tools: set(&["b"]),
            skills: set(&["s"]),
            files: ["out", "repo"].map(|name| (name.to_owned(), FilesGrant::read_write("/tmp"))).into(),
            stores: [("counts".to_owned(), StoreGrant::default())].into(),
            ..Grants::default()
        };
        assert_eq!(upgraded.excess_requests(&old.clone().and_granted(&grants)), []);
        assert_eq!(
            Policy::new("p".into(), old, Grants::default()).excess_requests(&new),
            [],
            "asking for less is not an upgrade to refuse"
        );
    }

    #[test]
    fn a_step_cannot_widen() {
        let wide = Narrowing { tools: Some(set(&["http.fetch"])), ..Narrowing::default() };
        assert!(policy(&["http.fetch"], &[]).allows(Capability::Tool, "http.fetch", Some(&wide)).is_err());
    }

    #[test]
    fn file_access_is_the_lesser_of_request_and_grant() {
        for (requested, granted, expected) in [
            (Access::Read, Access::ReadWrite, Access::Read),
            (Access::ReadWrite, Access::Read, Access::Read),
            (Access::ReadWrite, Access::ReadWrite, Access::ReadWrite),
        ] {
            let requests = Requests { files: [("repo".to_owned(), requested)].into(), ..Requests::default() };
            let grant = FilesGrant { access: granted, ..FilesGrant::read("/tmp") };
            let grants = Grants { files: [("repo".to_owned(), grant)].into(), ..Grants::default() };
            assert_eq!(Policy::new("p".into(), requests, grants).file_access("repo", None), Ok(expected));
        }
    }

    #[test]
    fn a_denial_of_a_hostile_name_stays_short_and_printable() {
        let name = format!("\u{1b}[31m{}", "x".repeat(10_000));
        let denial = policy(&[], &[]).allows(Capability::Tool, &name, None).unwrap_err();
        assert!(denial.capability.len() < 300 && !denial.capability.contains('\u{1b}'));
    }
}
