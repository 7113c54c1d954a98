//! The table of psi's behaviours names tests and projects that exist.

use std::path::Path;

#[test]
fn every_test_and_project_of_the_table_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let table = std::fs::read_to_string(root.join("tests/conformance/psi/README.md")).unwrap();
    let mut named = 0;
    // The last column of every row: `file`: `test`, `test`; …; projects `folder`, `folder`.
    for row in table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---")) {
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
            let text = std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            for test in names {
                assert!(text.contains(&format!("fn {test}()")), "{file} has no test `{test}`");
                named += 1;
            }
        }
    }
    assert!(named > 50, "the table names only {named} tests");
}
