//! What the README shows of `examples/` is what happens there: every `console` block that begins with `cd examples/…` is run in a copy
//! of that folder, what follows `>` is typed in, and everything else of the block must be printed, in order.

#![allow(clippy::unwrap_used, reason = "a failed test")]

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

#[test]
fn every_command_of_the_readme_does_what_the_readme_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let blocks = readme.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut ran = 0;
    for block in blocks {
        let Some(folder) = block.strip_prefix("$ cd examples/").and_then(|rest| rest.lines().next()) else { continue };
        let directory = tempfile::tempdir().unwrap();
        copy(&root.join("examples").join(folder), directory.path());
        for command in block.split("$ ").skip(2) {
            run(command, directory.path());
            ran += 1;
        }
    }
    assert!(ran > 10, "the README shows only {ran} commands of the examples");
}

/// Runs a command and holds what it prints against the lines that the README shows behind it.
fn run(shown: &str, directory: &Path) {
    let (command, rest) = shown.split_once('\n').unwrap();
    let typed: String =
        rest.lines().filter_map(|line| line.strip_prefix("> ")).map(|line| format!("{line}\n")).collect();
    let binary = Path::new(env!("CARGO_BIN_EXE_opcell"));
    // Keys and compiled code lie in the user's own folders, which no project may contain.
    let home = tempfile::tempdir().unwrap();
    let mut path = vec![binary.parent().unwrap().to_owned()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let mut child = Command::new("sh")
        .args(["-c", &format!("{command}\n")])
        .current_dir(directory)
        .env("PATH", std::env::join_paths(path).unwrap())
        .env("HOME", home.path())
        .env_remove("XDG_CACHE_HOME")
        .env_remove("XDG_STATE_HOME")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // What a person sees is both at once; each line must come from one of them, in its order there.
    let (mut from_out, mut from_err) = (out.lines(), err.lines());
    for line in rest.lines().filter(|line| !line.starts_with("> ") && !line.is_empty()) {
        let found = from_out.clone().any(|printed| printed == line);
        let of = if found { &mut from_out } else { &mut from_err };
        assert!(of.any(|printed| printed == line), "`{command}` does not print {line:?}:\n{out}\n{err}");
    }
    let waits = rest.contains("suspended at step");
    assert_eq!(output.status.code(), Some(if waits { 3 } else { 0 }), "`{command}`:\n{out}\n{err}");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}
