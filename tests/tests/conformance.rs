//! Every case file under `conformance/` passes whole, and there are some for every language that has case files.

use opcell_tests::conformance;
use std::path::Path;

#[test]
fn every_case_file_passes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance");
    // psi has a table of tests instead: `psi_table.rs`.
    for language in ["workflowskill", "promptpack"] {
        let folder = root.join(language);
        let has_cases = std::fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .flatten()
            .any(|file| file.path().extension().is_some_and(|extension| extension == "json"));
        assert!(has_cases, "{} has no case files", folder.display());
    }
    let mut files = 0;
    let mut failures = Vec::new();
    for language in std::fs::read_dir(&root).unwrap().flatten() {
        for file in std::fs::read_dir(language.path()).unwrap().flatten() {
            if file.path().extension().is_some_and(|extension| extension == "json") {
                files += 1;
                let outcomes = conformance::run_file(&file.path())
                    .unwrap_or_else(|error| panic!("{}: {error}", file.path().display()));
                assert!(!outcomes.is_empty(), "{}: no cases", file.path().display());
                failures.extend(outcomes.into_iter().filter_map(|outcome| {
                    outcome.failure.map(|failure| {
                        format!("{}\n  expected: {}\n  got:      {}", outcome.id, failure.expected, failure.got)
                    })
                }));
            }
        }
    }
    assert!(files > 0, "no case files under {}", root.display());
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}
