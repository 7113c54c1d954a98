//! The differences between two versions of a plugin: what the newer one requests beyond the older, and what else of its
//! surface has changed.

use opcell_sandbox::{inspect::Surface, limits::TABLE, manifest::Request};
use opcell_types::Capability as Kind;
use serde::Serialize;
use std::fmt;

/// One difference between two versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "change")]
#[non_exhaustive]
pub enum Difference {
    /// The new version requests something more.
    Asks {
        /// The request, such as `tool http.fetch`.
        capability: String,
        /// Why, as it says.
        reason: String,
    },
    /// The new version requests write access where the old one only read.
    Widens {
        /// The request, such as `files repo`.
        capability: String,
        /// Why, as it says.
        reason: String,
    },
    /// The new version no longer requests something.
    Drops {
        /// The request.
        capability: String,
    },
    /// An import, export or limit was added, removed or changed.
    Surface {
        /// The change, in words.
        what: String,
    },
}

impl Difference {
    /// Returns `true` if the newer version requests what the older one did not.
    #[must_use]
    pub fn wants_more(&self) -> bool {
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

/// Returns the differences of a version from an older one.
#[must_use]
pub fn differences(old: &Surface, new: &Surface) -> Vec<Difference> {
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
    #![allow(clippy::unwrap_used, reason = "a failed test")]

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
