//! `opcell plugin diff`: what an upgrade requests in addition.

use super::{Component, Exit, Failure, Global, Terminal, update};
use clap::Args;
use opcell_sandbox::{inspect::Surface, limits::TABLE, manifest::Request};
use opcell_types::Capability as Kind;
use serde::Serialize;
use serde_json::json;
use std::fmt;

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// Version in use: name of a plugin of the project, as the lock holds it, or a file. Alone, what lies at its path
    /// is compared with the lock.
    old: String,
    /// Other version: a file.
    new: Option<String>,
}

/// One difference between two versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "change")]
enum Difference {
    /// The new version requests something more.
    Asks { capability: String, reason: String },
    /// The new version requests write access where the old one only read.
    Widens { capability: String, reason: String },
    /// The new version no longer requests something.
    Drops { capability: String },
    /// An import, export or limit was added, removed or changed.
    Surface { what: String },
}

impl Difference {
    fn wants_more(&self) -> bool {
        matches!(self, Self::Asks { .. } | Self::Widens { .. })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asks { capability, reason } => write!(f, "+ requests {capability}: {reason}"),
            Self::Widens { capability, reason } => write!(f, "+ requests write access to {capability}: {reason}"),
            Self::Drops { capability } => write!(f, "- no longer requests {capability}"),
            Self::Surface { what } => write!(f, "  {what}"),
        }
    }
}

pub async fn diff(global: &Global, args: &DiffArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let Some(new) = &args.new else { return update::diff_with_lock(global, &args.old, terminal).await };
    let new = Component::find(global, new)?;
    if update::differs_from_lock(global, &args.old)? {
        // What lies at its path is not what is in use.
        return update::diff_new_with_lock(global, &args.old, &new, terminal);
    }
    let old = Component::find(global, &args.old)?;
    let differences = differences(&old.surface, &new.surface);
    let more = differences.iter().any(Difference::wants_more);
    if terminal.json {
        terminal.json(&json!({"asks_for_more": more, "differences": differences}))?;
        return Ok(Exit::Done);
    }
    for difference in &differences {
        terminal.line(&opcell::report::printable(&difference.to_string()))?;
    }
    terminal.line(if more {
        "the new version requests more; an upgrade grants nothing of it"
    } else {
        "the new version requests nothing more"
    })?;
    Ok(Exit::Done)
}

/// What two versions differ in beside what they ask for, a line each.
pub(super) fn of_surfaces(old: &Surface, new: &Surface) -> Vec<String> {
    differences(old, new)
        .iter()
        .filter(|found| !found.wants_more())
        .map(|found| format!("  {}", found.to_string().trim()))
        .collect()
}

fn differences(old: &Surface, new: &Surface) -> Vec<Difference> {
    let mut found = Vec::new();
    let kinds = [
        (Kind::Tool, &old.manifest.tools, &new.manifest.tools),
        (Kind::Skill, &old.manifest.skills, &new.manifest.skills),
        (Kind::Files, &old.manifest.files, &new.manifest.files),
        (Kind::Store, &old.manifest.stores, &new.manifest.stores),
    ];
    for (kind, before, after) in kinds {
        let find = |list: &[Request], name: &str| list.iter().find(|request| request.name == name).cloned();
        for request in after {
            let capability = format!("{} {}", kind.word(), request.name);
            let reason = request.reason.clone();
            match find(before, &request.name) {
                None => found.push(Difference::Asks { capability, reason }),
                Some(earlier) if earlier.access < request.access => {
                    found.push(Difference::Widens { capability, reason })
                }
                Some(_) => {}
            }
        }
        for request in before.iter().filter(|request| find(after, &request.name).is_none()) {
            found.push(Difference::Drops { capability: format!("{} {}", kind.word(), request.name) });
        }
    }
    let mut names = |before: &[String], after: &[String], what: &str| {
        let added = after.iter().filter(|name| !before.contains(name)).map(|name| format!("{what} added: {name}"));
        let removed = before.iter().filter(|name| !after.contains(name)).map(|name| format!("{what} removed: {name}"));
        found.extend(added.chain(removed).map(|what| Difference::Surface { what }));
    };
    names(&old.exports, &new.exports, "export");
    names(&old.imports, &new.imports, "import");
    for spec in TABLE {
        let show = |value: Option<u64>| value.map_or("the operator's".to_owned(), |value| spec.unit.show(value));
        let (before, after) = (old.manifest.limits.get(spec.key), new.manifest.limits.get(spec.key));
        if before != after {
            found
                .push(Difference::Surface { what: format!("limit {}: {} -> {}", spec.key, show(before), show(after)) });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Difference, differences};
    use opcell_sandbox::{inspect::Surface, manifest::Manifest};

    fn surface(manifest: &str) -> Surface {
        Surface { manifest: Manifest::parse(manifest.as_bytes()).unwrap(), ..Surface::default() }
    }

    fn with(capabilities: &str) -> Surface {
        surface(&format!(r#"{{"schema":1,"name":"p","version":"1","capabilities":{capabilities}}}"#))
    }

    #[test]
    fn a_new_request_and_a_wider_access_want_more() {
        let old =
            with(r#"{"files":[{"name":"repo","access":"read","reason":"r"}],"tools":[{"name":"a","reason":"r"}]}"#);
        let new = with(
            r#"{"files":[{"name":"repo","access":"read-write","reason":"w"}],"tools":[{"name":"b","reason":"n"}]}"#,
        );
        let found = differences(&old, &new);
        let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            ["+ requests tool b: n", "- no longer requests tool a", "+ requests write access to files repo: w"]
        );
        assert!(found.iter().any(Difference::wants_more));
    }

    #[test]
    fn the_same_requests_are_no_difference() {
        let one = with(r#"{"tools":[{"name":"a","reason":"r"}]}"#);
        assert_eq!(differences(&one, &one), []);
        assert!(!differences(&one, &with("{}")).iter().any(Difference::wants_more));
    }
}
