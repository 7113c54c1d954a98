//! The entry of the table that a name matches, and what it says of copies, examples and source code.

use super::table::{Holds, TABLE};
use std::{collections::HashMap, sync::LazyLock};

/// Words that say that there is no secret in a file: `.env.example`.
const EXAMPLE_ENDINGS: [&str; 7] = ["example", "sample", "template", "dist", "defaults", "tmpl", "tpl"];

/// Extensions of source code and of texts for people: `token.rs` reads tokens, and holds none. Scripts of a shell often
/// hold them, and are none of these.
const SOURCE_ENDINGS: [&str; 44] = [
    "rs", "go", "py", "pyi", "js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "vue", "svelte", "java", "kt", "kts",
    "scala", "groovy", "c", "h", "cc", "cpp", "hpp", "cs", "fs", "swift", "m", "mm", "rb", "php", "ex", "exs", "erl",
    "hs", "ml", "clj", "edn", "lua", "md", "mdx", "rst", "html", "css", "wat",
];

/// Endings that editors and people add to the name of a copy that they leave beside a file.
const COPY_ENDINGS: [&str; 11] =
    ["~", "#", ".bak", ".backup", ".old", ".orig", ".save", ".copy", ".swp", ".swo", ".tmp"];

struct Pattern {
    /// From the outermost name to the innermost.
    names: Vec<&'static str>,
    is_folder: bool,
    holds: Holds,
}

#[derive(Default)]
struct Index {
    /// By the innermost name, where that has no wildcard.
    plain: HashMap<&'static str, Vec<Pattern>>,
    wild: Vec<Pattern>,
}

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let mut index = Index::default();
    for (holds, pattern) in TABLE.iter().flat_map(|group| group.patterns.iter().map(|pattern| (group.holds, *pattern)))
    {
        let names: Vec<&'static str> = pattern.trim_end_matches('/').split('/').collect();
        let Some(&last) = names.last() else { continue };
        let pattern = Pattern { names, is_folder: pattern.ends_with('/'), holds };
        match last.contains(['*', '?']) {
            true => index.wild.push(pattern),
            false => index.plain.entry(last).or_default().push(pattern),
        }
    }
    index
});

/// The entry of the table for the name at `at`, a part of a path of plain names; the strictest of what applies.
pub(super) fn holds(names: &[String], at: usize) -> Option<Holds> {
    let name = names.get(at)?.as_str();
    let is_last = at + 1 == names.len();
    let originals = originals(name);
    let mut found = None;
    for name in std::iter::once(name).chain(originals.iter().copied()) {
        let known = INDEX.plain.get(name).into_iter().flatten();
        let known = known
            .chain(INDEX.wild.iter().filter(|pattern| pattern.names.last().is_some_and(|last| matches(last, name))));
        for pattern in known {
            // A copy of what decides decides nothing.
            let counts = pattern.holds != Holds::Decisions || name.len() == names.get(at).map_or(0, String::len);
            let is_source = pattern.holds == Holds::Secrets && pattern.names.last() != Some(&name) && is_source(name);
            if (pattern.is_folder || is_last) && counts && !is_source && follows(&pattern.names, names, at) {
                found = Some(strictest(found, pattern.holds));
            }
        }
        if is_last && is_key_without_extension(name) {
            found = Some(strictest(found, Holds::Secrets));
        }
    }
    match found {
        Some(Holds::Secrets) if is_harmless(name) => None,
        found => found,
    }
}

/// Returns `true` if the names before `at` are those of the pattern.
fn follows(pattern: &[&str], names: &[String], at: usize) -> bool {
    let before = names.get(..at).unwrap_or_default();
    let mut wanted = pattern.iter().rev().skip(1);
    let mut found = before.iter().rev();
    wanted.all(|wanted| found.next().is_some_and(|found| matches(wanted, found)))
}

fn strictest(one: Option<Holds>, other: Holds) -> Holds {
    match (one, other) {
        (Some(Holds::Secrets), _) | (_, Holds::Secrets) => Holds::Secrets,
        (Some(Holds::Runs), _) | (_, Holds::Runs) => Holds::Runs,
        _ => Holds::Decisions,
    }
}

/// `id_work` is a key, and `id_map.rs` is not.
fn is_key_without_extension(name: &str) -> bool {
    name.strip_prefix("id_").is_some_and(|rest| !rest.is_empty() && !rest.contains('.'))
}

fn is_source(name: &str) -> bool {
    !name.starts_with('.') && name.rsplit_once('.').is_some_and(|(_, ending)| SOURCE_ENDINGS.contains(&ending))
}

/// An example of a file with secrets, or the public half of a key.
fn is_harmless(name: &str) -> bool {
    if name.ends_with(".pub") {
        return true;
    }
    let last = name.rsplit(['.', '-', '_']).next().unwrap_or_default();
    let words = || name.split(['.', '-', '_']);
    EXAMPLE_ENDINGS.contains(&last) || words().any(|word| matches!(word, "example" | "sample")) && !is_key(name)
}

/// An extension of key files: `example.pem` is a key all the same.
fn is_key(name: &str) -> bool {
    let keys = TABLE.iter().filter(|group| group.title == "keys").flat_map(|group| group.patterns);
    keys.copied().any(|pattern| matches(pattern, name))
}

/// The names of the files that this may be a copy of: what an editor leaves beside a file is as secret as the file.
fn originals(name: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = name;
    for _ in 0..3 {
        let cut = COPY_ENDINGS.iter().find_map(|ending| rest.strip_suffix(ending));
        let cut = cut.or_else(|| rest.strip_prefix('#')).or_else(|| rest.strip_prefix(".#"));
        let Some(cut) = cut.filter(|cut| !cut.is_empty()) else { break };
        rest = cut;
        found.push(rest);
        // Vim puts a dot before the name.
        found.extend(rest.strip_prefix('.').filter(|inner| name.ends_with(".swp") && !inner.is_empty()));
    }
    found
}

/// Matches a name with a pattern: `*` any characters, `?` one. Linear in memory, and in the worst case the product of
/// both lengths in time.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, n));
                p += 1;
            }
            Some(wanted) if *wanted == b'?' || name.get(n) == Some(wanted) => {
                p += 1;
                n += 1;
            }
            _ => match retry {
                Some((after_star, from)) => {
                    retry = Some((after_star, from + 1));
                    p = after_star;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern.get(p..).is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_characters_and_a_question_mark_one() {
        for (pattern, name) in
            [("*.env", "prod.env"), ("*.env", ".env"), ("a*b*c", "axxbyyc"), ("git~?", "git~1"), ("*", "")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("*.env", "env"), ("a*b", "ab.c"), ("git~?", "git~"), ("", "x"), ("abc", "ab")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn every_pattern_is_written_as_names_are_compared() {
        for group in TABLE {
            for pattern in group.patterns {
                assert_eq!(pattern.to_ascii_lowercase(), *pattern, "{}", group.title);
                assert!(!pattern.is_empty() && !pattern.starts_with('/'), "{pattern}");
                let twice = TABLE.iter().flat_map(|group| group.patterns).filter(|other| other == &pattern).count();
                assert_eq!(twice, 1, "{pattern} is in the table {twice} times");
            }
        }
    }
}
