//! What a plugin may reach: a decision over values, without any effect.
//!
//! Effective capability = requested by the plugin's manifest ∩ granted by the operator ∩ narrowed by the step. Nothing is granted
//! by default, and every refusal says which of the three refused it and what would change that.

use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    sync::Arc,
};

/// How a file root may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Listing and reading.
    Read,
    /// Creating, writing and removing as well.
    ReadWrite,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::ReadWrite => "read-write",
        })
    }
}

/// A directory on the host that a plugin may use under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesGrant {
    /// The directory on the host; it must exist when the plugin is loaded.
    pub path: PathBuf,
    /// How it may be used.
    pub access: Access,
    /// Patterns of paths below the root that may be opened (`*` within a segment, `**` across segments); empty for all.
    pub patterns: Vec<String>,
    /// Bytes that may be written through this grant while the plugin is loaded, all cells together; removing a file gives nothing back.
    /// As many files and directories may be created as this has KiB, and 64 in any case: an empty one takes room that no byte counts.
    pub write_quota: u64,
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
        Self { path: path.into(), access: Access::Read, patterns: Vec::new(), write_quota: Self::DEFAULT_WRITE_QUOTA }
    }

    /// Reading and writing everything below a directory.
    #[must_use]
    pub fn read_write(path: impl Into<PathBuf>) -> Self {
        Self { access: Access::ReadWrite, ..Self::read(path) }
    }
}

/// A directory given to a plugin through WASI, outside of what Opcell meters. Dangerous: prefer [`FilesGrant`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DangerousPreopen {
    /// The directory on the host.
    pub host: PathBuf,
    /// The path under which the guest sees it.
    pub guest: String,
    /// How it may be used.
    pub access: Access,
}

/// What the operator lets one plugin reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    /// Host tools by name.
    pub tools: BTreeSet<String>,
    /// Skills by name.
    pub skills: BTreeSet<String>,
    /// File roots by name.
    pub files: BTreeMap<String, FilesGrant>,
    /// WASI preopens, for guests that know nothing of Opcell's `files`.
    pub dangerous_preopens: Vec<DangerousPreopen>,
}

/// What the plugin's manifest asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Requests {
    /// Host tools by name.
    pub tools: BTreeSet<String>,
    /// Skills by name.
    pub skills: BTreeSet<String>,
    /// File roots by name.
    pub files: BTreeMap<String, Access>,
}

impl Requests {
    /// These, and what `grants` would let a plugin reach: asking for that is nothing new.
    #[must_use]
    pub fn and_granted(mut self, grants: &Grants) -> Self {
        self.tools.extend(grants.tools.iter().cloned());
        self.skills.extend(grants.skills.iter().cloned());
        for (name, grant) in &grants.files {
            let access = self.files.entry(name.clone()).or_insert(grant.access);
            *access = (*access).max(grant.access);
        }
        self
    }
}

/// What a step leaves of the grant; `None` leaves a kind as granted, an empty set takes all of it away.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Narrowing {
    /// Host tools by name.
    pub tools: Option<BTreeSet<String>>,
    /// Skills by name.
    pub skills: Option<BTreeSet<String>>,
    /// File roots by name.
    pub files: Option<BTreeSet<String>>,
}

/// A kind of capability that is asked for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A host tool.
    Tool,
    /// A skill.
    Skill,
    /// A file root.
    Files,
}

impl Kind {
    /// The word in messages, in `opcell plugin grant` and in denials.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Skill => "skill",
            Self::Files => "files",
        }
    }

    /// The key in a manifest and in a step's `capabilities`.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Tool => "tools",
            Self::Skill => "skills",
            Self::Files => "files",
        }
    }
}

/// A refusal: what was asked for, the rule that refused it, and what would grant it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{capability} is denied: {rule}; to grant it: {remedy}")]
pub struct Denial {
    /// Such as `tool http.fetch`.
    pub capability: String,
    /// The rule that refused it.
    pub rule: String,
    /// The command or setting that would grant it.
    pub remedy: String,
}

/// The decision for one plugin: its name, what it asked for, what it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    plugin: Arc<str>,
    requests: Requests,
    grants: Grants,
}

impl Policy {
    /// What `plugin` may reach.
    #[must_use]
    pub fn new(plugin: Arc<str>, requests: Requests, grants: Grants) -> Self {
        Self { plugin, requests, grants }
    }

    /// What the operator gave.
    #[must_use]
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// What the plugin asked for.
    #[must_use]
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Whether a cell may use `name`; the denial says why not.
    ///
    /// # Errors
    /// [`Denial`] naming the first of manifest, grant and step that refuses.
    pub fn allows(&self, kind: Kind, name: &str, step: Option<&Narrowing>) -> Result<(), Denial> {
        if !self.is_requested(kind, name) {
            return Err(self.denial(
                kind.word(),
                name,
                format!("the manifest of plugin `{}` does not ask for it", self.plugin),
                format!(
                    "add it, with a reason, to `capabilities.{}` in the plugin's manifest and build the plugin again",
                    kind.key()
                ),
            ));
        }
        if !self.is_granted(kind, name) {
            return Err(self.not_granted(kind, name));
        }
        if !Self::is_left_by(kind, name, step) {
            return Err(self.denial(
                kind.word(),
                name,
                format!("the step narrows `capabilities.{}` and leaves it out", kind.key()),
                format!("add `{name}` to `capabilities.{}` of the step", kind.key()),
            ));
        }
        Ok(())
    }

    /// How a cell may use the file root `name`.
    ///
    /// # Errors
    /// As [`Self::allows`].
    pub fn file_access(&self, name: &str, step: Option<&Narrowing>) -> Result<Access, Denial> {
        self.allows(Kind::Files, name, step)?;
        let requested = self.requests.files.get(name).copied().unwrap_or(Access::Read);
        let granted = self.grants.files.get(name).map_or(Access::Read, |grant| grant.access);
        Ok(requested.min(granted))
    }

    /// The refusal of a write through a root that may only be read.
    #[must_use]
    pub fn read_only(&self, name: &str) -> Denial {
        let requested = self.requests.files.get(name) == Some(&Access::ReadWrite);
        let (rule, remedy) = if requested {
            (
                format!("the operator granted `{name}` to plugin `{}` for reading", self.plugin),
                format!("opcell plugin grant {} files {} --write", self.plugin, shell_word(&format!("{name}=PATH"))),
            )
        } else {
            (
                format!("the manifest of plugin `{}` asks for `{name}` for reading", self.plugin),
                "ask for `read-write` in the plugin's manifest and build the plugin again".to_owned(),
            )
        };
        self.denial("write to files", name, rule, remedy)
    }

    /// The refusal of a path that the grant's patterns leave out.
    #[must_use]
    pub fn outside_patterns(&self, name: &str, path: &str) -> Denial {
        let patterns = self.grants.files.get(name).map(|grant| grant.patterns.join("`, `")).unwrap_or_default();
        self.denial(
            "path",
            &format!("{name}/{path}"),
            format!("the grant `{name}` of plugin `{}` covers `{patterns}` only", self.plugin),
            format!("add a pattern to the grant `{name}` in opcell.toml"),
        )
    }

    /// What was asked for and not granted: `(kind, name)`.
    #[must_use]
    pub fn ungranted(&self) -> Vec<(Kind, &str)> {
        self.names(self.requests.tools.iter(), self.requests.skills.iter(), self.requests.files.keys())
            .filter(|(kind, name)| !self.is_granted(*kind, name))
            .collect()
    }

    /// What the plugin asks for beyond what the operator has `agreed` to, each as the refusal of it.
    #[must_use]
    pub fn beyond(&self, agreed: &Requests) -> Vec<Denial> {
        let Requests { tools, skills, files } = &self.requests;
        let new = self.names(tools.difference(&agreed.tools), skills.difference(&agreed.skills), {
            files.iter().filter(|(name, _)| !agreed.files.contains_key(*name)).map(|(name, _)| name)
        });
        let mut beyond: Vec<Denial> = new.map(|(kind, name)| self.not_granted(kind, name)).collect();
        let wider = files.iter().filter(|(name, access)| agreed.files.get(*name).is_some_and(|known| known < *access));
        beyond.extend(wider.map(|(name, _)| self.read_only(name)));
        beyond
    }

    /// What was granted without having been asked for, probably by mistake: `(kind, name)`.
    #[must_use]
    pub fn unused_grants(&self) -> Vec<(Kind, &str)> {
        self.names(self.grants.tools.iter(), self.grants.skills.iter(), self.grants.files.keys())
            .filter(|(kind, name)| !self.is_requested(*kind, name))
            .collect()
    }

    fn names<'a>(
        &self,
        tools: impl Iterator<Item = &'a String>,
        skills: impl Iterator<Item = &'a String>,
        files: impl Iterator<Item = &'a String>,
    ) -> impl Iterator<Item = (Kind, &'a str)> {
        let tools = tools.map(|name| (Kind::Tool, name.as_str()));
        let skills = skills.map(|name| (Kind::Skill, name.as_str()));
        tools.chain(skills).chain(files.map(|name| (Kind::Files, name.as_str())))
    }

    fn is_requested(&self, kind: Kind, name: &str) -> bool {
        match kind {
            Kind::Tool => self.requests.tools.contains(name),
            Kind::Skill => self.requests.skills.contains(name),
            Kind::Files => self.requests.files.contains_key(name),
        }
    }

    fn is_granted(&self, kind: Kind, name: &str) -> bool {
        match kind {
            Kind::Tool => self.grants.tools.contains(name),
            Kind::Skill => self.grants.skills.contains(name),
            Kind::Files => self.grants.files.contains_key(name),
        }
    }

    fn is_left_by(kind: Kind, name: &str, step: Option<&Narrowing>) -> bool {
        let set = step.and_then(|step| match kind {
            Kind::Tool => step.tools.as_ref(),
            Kind::Skill => step.skills.as_ref(),
            Kind::Files => step.files.as_ref(),
        });
        set.is_none_or(|set| set.contains(name))
    }

    fn not_granted(&self, kind: Kind, name: &str) -> Denial {
        let target = shell_word(&if kind == Kind::Files { format!("{name}=PATH") } else { name.to_owned() });
        let write = match self.requests.files.get(name) {
            Some(Access::ReadWrite) if kind == Kind::Files => " --write",
            _ => "",
        };
        self.denial(
            kind.word(),
            name,
            format!("the operator has not granted it to plugin `{}`", self.plugin),
            format!("opcell plugin grant {} {} {target}{write}", self.plugin, kind.word()),
        )
    }

    fn denial(&self, word: &str, name: &str, rule: String, remedy: String) -> Denial {
        Denial { capability: format!("{word} {}", clip(name)), rule, remedy }
    }
}

/// A word of a command that people copy: a guest chose it, so it must stay one word in their shell.
fn shell_word(text: &str) -> String {
    let text = clip(text);
    let plain = |c: char| c.is_ascii_alphanumeric() || "._/=:@%+-".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// A name as the guest gave it, short enough and clean enough to print.
fn clip(name: &str) -> String {
    crate::text::printable(name, 200)
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
        for kind in [Kind::Tool, Kind::Skill, Kind::Files] {
            assert!(policy.allows(kind, "anything", None).is_err());
        }
    }

    #[test]
    fn a_request_without_a_grant_is_denied_and_the_denial_names_the_command() {
        let denial = policy(&["http.fetch"], &[]).allows(Kind::Tool, "http.fetch", None).unwrap_err();
        assert_eq!(denial.capability, "tool http.fetch");
        assert_eq!(denial.remedy, "opcell plugin grant triage tool http.fetch");
    }

    #[test]
    fn a_grant_without_a_request_is_denied_and_reported_as_unused() {
        let policy = policy(&[], &["http.fetch"]);
        assert!(policy.allows(Kind::Tool, "http.fetch", None).unwrap_err().rule.contains("does not ask for it"));
        assert_eq!(policy.unused_grants(), [(Kind::Tool, "http.fetch")]);
    }

    #[test]
    fn requested_and_granted_is_allowed_unless_the_step_leaves_it_out() {
        let policy = policy(&["http.fetch"], &["http.fetch"]);
        assert!(policy.allows(Kind::Tool, "http.fetch", None).is_ok());
        let nothing = Narrowing { tools: Some(BTreeSet::new()), ..Narrowing::default() };
        assert!(policy.allows(Kind::Tool, "http.fetch", Some(&nothing)).unwrap_err().rule.contains("step narrows"));
        let unrelated = Narrowing { files: Some(BTreeSet::new()), ..Narrowing::default() };
        assert!(policy.allows(Kind::Tool, "http.fetch", Some(&unrelated)).is_ok());
    }

    #[test]
    fn what_an_upgrade_asks_for_is_beyond_what_was_agreed_until_it_is_granted() {
        let old =
            Requests { tools: set(&["a"]), files: [("repo".to_owned(), Access::Read)].into(), ..Requests::default() };
        let new = Requests {
            tools: set(&["a", "b"]),
            skills: set(&["s"]),
            files: [("repo".to_owned(), Access::ReadWrite), ("out".to_owned(), Access::ReadWrite)].into(),
        };
        let upgraded = Policy::new("p".into(), new.clone(), Grants::default());
        let remedies: Vec<String> = upgraded.beyond(&old).into_iter().map(|denial| denial.remedy).collect();
        assert_eq!(
            remedies,
            [
                "opcell plugin grant p tool b",
                "opcell plugin grant p skill s",
                "opcell plugin grant p files out=PATH --write",
                "opcell plugin grant p files repo=PATH --write",
            ]
        );
        let grants = Grants {
            tools: set(&["b"]),
            skills: set(&["s"]),
            files: ["out", "repo"].map(|name| (name.to_owned(), FilesGrant::read_write("/tmp"))).into(),
            ..Grants::default()
        };
        assert_eq!(upgraded.beyond(&old.clone().and_granted(&grants)), []);
        assert_eq!(
            Policy::new("p".into(), old, Grants::default()).beyond(&new),
            [],
            "asking for less is no upgrade to refuse"
        );
    }

    #[test]
    fn a_step_cannot_widen() {
        let wide = Narrowing { tools: Some(set(&["http.fetch"])), ..Narrowing::default() };
        assert!(policy(&["http.fetch"], &[]).allows(Kind::Tool, "http.fetch", Some(&wide)).is_err());
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
    fn a_remedy_stays_one_command_whatever_the_name() {
        let denial = policy(&["x; rm '~'"], &[]).allows(Kind::Tool, "x; rm '~'", None).unwrap_err();
        assert_eq!(denial.remedy, r"opcell plugin grant triage tool 'x; rm '\''~'\'''");
    }

    #[test]
    fn a_denial_of_a_hostile_name_stays_short_and_printable() {
        let name = format!("\u{1b}[31m{}", "x".repeat(10_000));
        let denial = policy(&[], &[]).allows(Kind::Tool, &name, None).unwrap_err();
        assert!(denial.capability.len() < 300 && !denial.capability.contains('\u{1b}'));
    }
}
