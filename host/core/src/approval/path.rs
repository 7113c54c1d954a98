//! Paths as they are written: links are not followed here, for nothing here reads a disk.

use opcell_ir::ir::matches_word;
use opcell_types::text::is_invisible;

/// The most parts of a path that are compared.
const MAX_PARTS: usize = 1_000;

/// The parts of a path without `.` and with `..` taken back where something is before it; a `..` that leads out stays.
fn parts(path: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match (part, parts.last()) {
            ("..", Some(last)) if *last != ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts
}

/// Compares parts with a pattern in which `**` stands for any parts.
fn fits(pattern: &[&str], parts: &[&str], is: impl Fn(&str, &str) -> bool) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut stars: Option<(usize, usize)> = None;
    while from < parts.len() {
        match (pattern.get(at), parts.get(from)) {
            (Some(&"**"), _) => {
                stars = Some((at, from));
                at += 1;
            }
            (Some(wanted), Some(part)) if is(wanted, part) => {
                at += 1;
                from += 1;
            }
            _ => match stars {
                Some((place, taken)) => {
                    (at, from) = (place + 1, taken + 1);
                    stars = Some((place, taken + 1));
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(at).all(|part| *part == "**")
}

/// Returns `true` if a path may be one that a pattern names: wherever it starts, whatever its case, with or without
/// what it goes through by `..`, with names that a shell completes (`/e*/passwd`), and below a home (`~/.ssh`).
pub(super) fn may_be(path: &str, pattern: &str) -> bool {
    let fold = |text: &str| text.chars().filter(|c| !is_invisible(*c)).flat_map(char::to_lowercase).collect::<String>();
    let (path, pattern) = (fold(path), fold(pattern));
    let wanted: Vec<&str> = std::iter::once("**").chain(parts(&pattern)).collect();
    let own = wanted.get(1..).unwrap_or_default();
    let completes = |wanted: &str, part: &str| {
        matches_word(wanted, part) || (part.contains(['*', '?']) && matches_word(part, wanted))
    };
    let completed = |parts: &[&str]| match (pattern.starts_with('/'), path.starts_with('/')) {
        (true, true) => fits(own, parts, completes),
        (true, false) if parts.first() != Some(&"..") => false,
        _ => fits(&wanted, parts, completes),
    };
    let below_home = |parts: &[&str]| {
        let Some((_, below)) = parts.split_first().filter(|(home, _)| home.starts_with('~')) else { return false };
        // How many folders of the pattern the home stands for is not known.
        let named = |from: &usize| own.get(*from).is_some_and(|part| part.contains(|c: char| !matches!(c, '*' | '?')));
        let mut rests = (0..own.len()).filter(named).filter_map(|from| own.get(from..));
        rests.any(|rest| fits(rest, below, completes))
    };
    let anywhere = |parts: Vec<&str>| {
        parts.len() > MAX_PARTS || fits(&wanted, &parts, matches_word) || completed(&parts) || below_home(&parts)
    };
    let plain: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    anywhere(parts(&path)) || anywhere(plain)
}

/// Returns `true` if a path is certainly one that a pattern names.
pub(super) fn is_covered(path: &str, pattern: &str) -> bool {
    let is_plain = !path.is_empty()
        && path.starts_with('/') == pattern.starts_with('/')
        && path.split('/').all(|part| part != "..")
        && !path.contains(|c: char| is_invisible(c) || c.is_control() || c == '\\');
    let (path, pattern) = (parts(path), parts(pattern));
    is_plain && path.len() <= MAX_PARTS && fits(&pattern, &path, matches_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_whatever_it_goes_through_and_whatever_its_case() {
        for path in [
            "/etc/passwd",
            "/ETC/passwd",
            "/etc/./passwd",
            "/tmp/../etc/passwd",
            "../../etc/passwd",
            "//etc//passwd",
            "/etc",
            "/etc/../home/x",
            "/e\u{200b}tc/passwd",
            "/e*/passwd",
            "/et?/passwd",
        ] {
            assert!(may_be(path, "/etc/**"), "{path}");
        }
        for path in ["/home/x", "etcetera", "/tmp/x", "/home/*/x", "~/x"] {
            assert!(!may_be(path, "/etc/**"), "{path}");
        }
        assert!(may_be("src/.env", "**/.env") && may_be(".env", ".env") && may_be("a/b/.ENV", ".env"));
        assert!(may_be("~/.ssh/id", "/home/ann/.ssh/**") && !may_be("~/src/x", "/home/ann/.ssh/**"));
    }

    #[test]
    fn a_path_is_covered_only_as_it_is_written() {
        for path in ["docs/a.md", "docs/b/c.md", "docs/./a.md"] {
            assert!(is_covered(path, "docs/**"), "{path}");
        }
        for path in
            ["docs/../src/a", "/docs/a", "Docs/a", "src/docs/a", "docs/\u{202e}a", "", "docs\\..\\a", "../docs/a"]
        {
            assert!(!is_covered(path, "docs/**"), "{path}");
        }
        assert!(is_covered("/srv/a", "/srv/*") && !is_covered("/srv/a/b", "/srv/*"));
    }
}
