//! Every hostile case is contained by the build under test, through the command that people run.

#![allow(clippy::unwrap_used, reason = "a failed test")]

use std::process::Command;

#[test]
fn every_hostile_case_is_contained() {
    let output = Command::new(env!("CARGO_BIN_EXE_opcell")).args(["selftest", "--json", "--quiet"]).output().unwrap();

    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}\n{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    });
    let cases = report["cases"].as_array().unwrap();
    let escaped: Vec<_> = cases.iter().filter(|case| case["contained"] != true).collect();
    assert!(escaped.is_empty(), "{escaped:#?}");
    assert!(cases.len() > 50, "only {} cases ran", cases.len());
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn the_readme_says_of_every_case_what_it_shows() {
    let readme = include_str!("../../../tests/hostile/README.md");
    let named: Vec<&str> = readme.split('`').skip(1).step_by(2).collect();
    let covers = |name: &str, pattern: &&str| {
        **pattern == *name
            || pattern.strip_suffix('*').is_some_and(|prefix| prefix.ends_with('-') && name.starts_with(prefix))
    };
    for case in opcell_cli::selftest::Case::all().unwrap() {
        assert!(
            named.iter().any(|pattern| covers(&case.name, pattern)),
            "tests/hostile/README.md does not name `{}`",
            case.name
        );
    }
}
