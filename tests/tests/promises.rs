//! Promises are kept by cases: each that SECURITY.md makes names some, and whatever it and the threat model name is
//! there.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test reads the project")]

use regex::Regex;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// The files of the project that are written in Rust.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = ["host", "tests", "guest-sdk"].iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() && !entry.ends_with("target") && !entry.ends_with("node_modules") {
                open.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                found.push(entry);
            }
        }
    }
    found
}

/// The tests and files that can be named.
struct Evidence {
    /// Names of functions.
    functions: BTreeSet<String>,
    /// Paths of files in Rust, below the project.
    files: Vec<String>,
}

impl Evidence {
    fn collect() -> Self {
        let function = Regex::new(r"\bfn ([a-z0-9_]+)").unwrap();
        let (mut functions, mut files) = (BTreeSet::new(), Vec::new());
        for path in sources() {
            let text = fs::read_to_string(&path).unwrap();
            functions.extend(function.captures_iter(&text).map(|found| found[1].to_owned()));
            files.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
        }
        Self { functions, files }
    }

    /// Looks for the evidence that a name is; nothing where it is a word of the text.
    fn of(&self, name: &str) -> Option<Result<(), String>> {
        let missing = |what: &str| Some(Err(format!("{what} `{name}` is not there")));
        let is = |pattern: &str| Regex::new(pattern).unwrap().is_match(name);
        if is(r"^(tests|host|docs)/[\w./*-]+$") {
            let (folder, start) = match name.strip_suffix('*') {
                Some(start) => start.rsplit_once('/').unwrap(),
                None => (name, ""),
            };
            let folder = root().join(folder);
            let is_there = match name.ends_with('*') {
                false => folder.exists(),
                true => fs::read_dir(folder).is_ok_and(|mut entries| {
                    entries.any(|entry| entry.unwrap().file_name().to_str().unwrap().starts_with(start))
                }),
            };
            return if is_there { Some(Ok(())) } else { missing("the path") };
        }
        if is(r"^[\w/-]+\.rs$") {
            let is_there = self.files.iter().any(|file| file.ends_with(&format!("/{name}")));
            return if is_there { Some(Ok(())) } else { missing("the file") };
        }
        if is(r"^[a-z0-9]+(_[a-z0-9]+){3,}$") {
            return if self.functions.contains(name) { Some(Ok(())) } else { missing("the test") };
        }
        if is(r"^[a-z0-9]+(-[a-z0-9]+)*\*?$") {
            let start = name.trim_end_matches('*');
            let is_case = ["tests/hostile", "tests/cli"].iter().any(|folder| match name.ends_with('*') {
                false => root().join(folder).join(name).is_dir(),
                true => fs::read_dir(root().join(folder))
                    .unwrap()
                    .any(|entry| entry.unwrap().file_name().to_str().unwrap().starts_with(start)),
            });
            return is_case.then_some(Ok(()));
        }
        None
    }
}

/// Names in a text.
fn names(text: &str) -> Vec<String> {
    let quoted = Regex::new(r"`([^`]+)`").unwrap();
    quoted.captures_iter(&text.replace('\n', " ")).map(|found| found[1].to_owned()).collect()
}

#[test]
fn each_promise_of_security_names_cases_that_are_there() {
    let evidence = Evidence::collect();
    let text = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let promised = text.split_once("## What is promised").unwrap().1.split_once("\n## ").unwrap().0;
    let numbered = Regex::new(r"(?m)^(\d+)\. ").unwrap();
    let starts: Vec<(usize, String)> =
        numbered.captures_iter(promised).map(|found| (found.get(0).unwrap().start(), found[1].to_owned())).collect();
    assert!(starts.len() >= 22, "{}", starts.len());
    let mut wrong = Vec::new();
    for (at, (start, number)) in starts.iter().enumerate() {
        assert_eq!(number, &(at + 1).to_string(), "promises are numbered in order");
        let end = starts.get(at + 1).map_or(promised.len(), |(next, _)| *next);
        let found: Vec<Result<(), String>> =
            names(&promised[*start..end]).iter().filter_map(|name| evidence.of(name)).collect();
        if !found.iter().any(Result::is_ok) {
            wrong.push(format!("promise {number} names no case"));
        }
        wrong.extend(found.into_iter().filter_map(|found| Some(format!("promise {number}: {}", found.err()?))));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_attack_of_the_threat_model_is_shown_by_something_that_is_there() {
    let evidence = Evidence::collect();
    let text = fs::read_to_string(root().join("host/sandbox/THREAT-MODEL.md")).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'));
    let rows: Vec<Vec<&str>> =
        rows.map(|row| row.split('|').collect()).filter(|row: &Vec<&str>| row.len() == 5).skip(2).collect();
    assert!(rows.len() > 30, "{}", rows.len());
    let mut wrong = Vec::new();
    for row in rows {
        let found: Vec<Result<(), String>> = names(row[4]).iter().filter_map(|name| evidence.of(name)).collect();
        if !found.iter().any(Result::is_ok) {
            wrong.push(format!("nothing shows what stops: {}", row[1].trim()));
        }
        wrong.extend(found.into_iter().filter_map(|found| Some(format!("{}: {}", row[1].trim(), found.err()?))));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
