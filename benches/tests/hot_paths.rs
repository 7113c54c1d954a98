//! The program that `cargo xtask bench --instructions` counts is built with the tests, and lists what it can run.

use opcell_benches::hot;
use std::process::Command;

#[test]
fn the_program_lists_every_path() {
    let listed = Command::new(env!("CARGO_BIN_EXE_hot_paths")).output().unwrap();
    assert!(listed.status.success(), "{listed:?}");
    assert_eq!(String::from_utf8_lossy(&listed.stdout).lines().collect::<Vec<_>>(), hot::NAMES);
}

#[test]
fn a_path_that_is_not_there_is_named_with_those_that_are() {
    let refused = Command::new(env!("CARGO_BIN_EXE_hot_paths")).args(["no/path", "1"]).output().unwrap();
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("no path `no/path`; there are compile/psi/100-steps"), "{said}");
}
