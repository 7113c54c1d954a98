//! The page shows programs that run.

use std::{fs, path::Path};

/// Lines without what they are indented by.
fn dedented(text: &str) -> Vec<String> {
    text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[test]
fn every_piece_of_rust_on_the_page_is_part_of_a_program_that_is_tested() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut programs = Vec::new();
    for folder in ["tests/tests/embedding", "tests/tests", "host/opcell/examples"] {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "rs") {
                programs.push(dedented(&fs::read_to_string(path).unwrap()));
            }
        }
    }
    let page = fs::read_to_string(root.join("docs/embedding.md")).unwrap();
    let mut pieces = 0;
    for piece in page.split("```rust").skip(1) {
        let piece = piece.split_once('\n').unwrap().1.split("```").next().unwrap();
        // `…` leaves out lines.
        for run in piece.split('…') {
            let lines = dedented(run);
            let found = lines.is_empty()
                || programs.iter().any(|program| program.windows(lines.len()).any(|window| window == lines.as_slice()));
            assert!(found, "no program of the tests has these lines:\n{run}");
        }
        pieces += 1;
    }
    assert!(pieces >= 10, "the page has {pieces} pieces of Rust");
}
