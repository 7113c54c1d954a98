//! Tables of the documentation that name tests name tests that exist.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test")]

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Checks the last column of every row of a page's tables, `file`: `test`, `test`; … or projects `folder`, `folder`,
/// and counts the tests.
fn tests_named_in(page: &str) -> usize {
    let root = root();
    let page = std::fs::read_to_string(root.join(page)).unwrap();
    let mut named = 0;
    for row in page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---")) {
        let tests = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        for entry in tests.split("; ") {
            let mut names = entry.split('`').skip(1).step_by(2);
            if entry.starts_with("project") {
                for project in names {
                    assert!(root.join("tests/e2e/psi").join(project).is_dir(), "there is no project `{project}`");
                }
                continue;
            }
            let Some(file) = names.next() else { continue };
            // A row of another table.
            if !entry.contains("`: `") {
                continue;
            }
            let text = std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            for test in names {
                assert!(text.contains(&format!("fn {test}(")), "{file} has no test `{test}`");
                named += 1;
            }
        }
    }
    named
}

#[test]
fn every_test_and_project_of_the_psi_table_exists() {
    let named = tests_named_in("tests/conformance/psi/README.md");
    assert!(named > 50, "the table names only {named} tests");
}

#[test]
fn every_invariant_of_the_architecture_names_a_test_that_exists() {
    let named = tests_named_in("docs/architecture.md");
    assert!(named > 15, "the table names only {named} tests");
}

#[test]
fn every_file_that_the_architecture_names_exists() {
    let root = root();
    let page = std::fs::read_to_string(root.join("docs/architecture.md")).unwrap();
    let names = page
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|name| name.contains('/') && !name.starts_with('/') && !name.contains([' ', ':', '{']));
    for name in names {
        let found =
            [root.join(name), root.join("host").join(name), in_src(&root, name)].iter().any(|path| path.exists());
        assert!(found, "docs/architecture.md names `{name}`, which does not exist");
    }
}

/// `core/decide/judge.rs` as `host/core/src/decide/judge.rs`.
fn in_src(root: &Path, name: &str) -> PathBuf {
    let (room, rest) = name.split_once('/').unwrap_or((name, ""));
    root.join("host").join(room).join("src").join(rest)
}
