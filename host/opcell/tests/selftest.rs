//! Every hostile case is contained by the build under test, through the command that people run.

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
