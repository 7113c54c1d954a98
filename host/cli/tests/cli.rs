//! Every folder of `tests/cli` but `shared` is a case of the `opcell` command; `tests/cli/README.md` describes what it
//! holds.
//!
//! `SNAPSHOTS=overwrite cargo test -p opcell-cli --test cli` writes the expectations, `CASE=NAME` chooses cases.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

use regex::Regex;
use snapbox::{Assert, Data, Redactions, assert::Action, data::DataFormat};
use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

#[path = "support/guest.rs"]
mod guest;

use guest::component;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cli");
const EXPECTATIONS: [&str; 4] = ["cmd", "stdout", "stderr", "status"];

/// Files this short say more where they are than in a shared folder.
const SHORT: usize = 32;

fn cases() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = fs::read_dir(CASES)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir() && !path.ends_with("shared"))
        .collect();
    folders.sort();
    folders
}

#[test]
fn two_cases_never_hold_the_same_input() {
    let mut holders: HashMap<Vec<u8>, PathBuf> = HashMap::new();
    for case in cases() {
        for path in fs::read_dir(&case).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() || EXPECTATIONS.iter().any(|name| path.ends_with(name)) {
                continue;
            }
            let content = fs::read(&path).unwrap();
            if content.len() < SHORT {
                continue;
            }
            if let Some(other) = holders.insert(content, path.clone()) {
                let (a, b) = (other.display(), path.display());
                panic!(
                    "{a} and {b} are the same: put the file into tests/cli/shared/NAME and `@shared NAME` into both `cmd`s"
                );
            }
        }
    }
}

#[test]
fn every_shared_folder_is_used() {
    let used: String = cases().iter().map(|case| fs::read_to_string(case.join("cmd")).unwrap()).collect();
    let used: Vec<&str> =
        used.lines().filter_map(|line| line.strip_prefix("@shared ")).flat_map(str::split_whitespace).collect();
    for folder in fs::read_dir(Path::new(CASES).join("shared")).unwrap().map(|entry| entry.unwrap().file_name()) {
        assert!(
            folder == "parts" || used.iter().any(|name| folder == **name),
            "no case uses shared/{}",
            folder.display()
        );
    }
}

#[test]
fn every_case_prints_and_exits_as_it_says() {
    let only = std::env::var("CASE").unwrap_or_default();
    let mut folders = cases();
    folders.retain(|folder| folder.to_string_lossy().contains(&only));
    assert!(!folders.is_empty());
    let failures: Vec<String> = folders.iter().filter_map(|folder| run(folder).err()).collect();
    assert!(failures.is_empty(), "{} of {} cases failed:\n{}", failures.len(), folders.len(), failures.join("\n"));
}

fn run(case: &Path) -> Result<(), String> {
    let name = case.file_name().unwrap().to_string_lossy().into_owned();
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let commands = fs::read_to_string(case.join("cmd")).map_err(|error| format!("{name}: cmd: {error}"))?;
    for shared in commands.lines().filter_map(|line| line.strip_prefix("@shared ")).flat_map(str::split_whitespace) {
        let folder = Path::new(CASES).join("shared").join(shared);
        if !folder.is_dir() {
            return Err(format!("{name}: cmd: there is no folder tests/cli/shared/{shared}"));
        }
        copy(&folder, &root, true);
    }
    copy(case, &root, true);

    if commands.lines().any(|line| line == "@root") && !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED {name}: it gives files away, which only root can");
        return Ok(());
    }

    let mut others = Vec::new();
    let (mut stdout, mut stderr, mut status) = (String::new(), String::new(), Some(0));
    let settings: Vec<(String, String)> = commands
        .lines()
        .filter_map(|line| line.strip_prefix("@env ")?.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.replace("[ROOT]", root.to_str().unwrap())))
        .collect();
    let is_command = |line: &&str| !line.trim().is_empty() && !line.starts_with(['#', '@']);
    for line in commands.lines().filter(is_command) {
        if let ["sql", file, statements @ ..] = words(line).iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            let other = rusqlite::Connection::open(root.join(file)).unwrap();
            other.execute_batch(&statements.join(" ")).unwrap();
            // A transaction that is open stays so; whoever only edits is gone afterwards, and so is their log.
            if !other.is_autocommit() {
                others.push(other);
            }
            continue;
        }
        let (program, arguments) = match line.strip_prefix("$ ") {
            Some(script) => ("sh", vec!["-c".to_owned(), script.to_owned()]),
            None => (env!("CARGO_BIN_EXE_opcell"), words(line)),
        };
        let output = Command::new(program)
            .args(arguments)
            .current_dir(&root)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
            // Not below the case: a grant of its folder would reach the keys, which is refused.
            .env("XDG_STATE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("state"))
            .env("XDG_DATA_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("data"))
            .env("HOME", &root)
            .env("OPCELL", env!("CARGO_BIN_EXE_opcell"))
            .envs(settings.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap();
        stdout.push_str(&stable(&String::from_utf8_lossy(&output.stdout)));
        stderr.push_str(&stable(&String::from_utf8_lossy(&output.stderr)));
        status = output.status.code();
    }

    let mut problems = Vec::new();
    for (file, actual) in [
        ("stdout", stdout),
        ("stderr", stderr),
        ("status", status.map_or("killed".to_owned(), |code| format!("{code}\n"))),
    ] {
        let default = if file == "status" { "0\n" } else { "" };
        if let Err(error) = compare(&case.join(file), &actual, default, &root) {
            problems.push(format!("--- {name}/{file}\n{error}"));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// Times, digests and run identifiers as snapbox's wildcard: no two runs have the same.
fn stable(text: &str) -> String {
    let patterns = [
        (r"STARTED +TOOK", "STARTED  TOOK"),
        (r" +(now|\d+ s ago) +(\d+ µs|\d+\.\d m?s) +(\d+)", " [..] $3"),
        (r" +(\d+ µs|\d+\.\d m?s|\d+ min \d+ s)\b", " [..]"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", "[..]"),
        (r"[0-9a-f]{16}…", "[..]"),
        (r"\b[0-9a-f]{16}\b", "[..]"),
        (r"uid \d+", "uid [..]"),
        (r#""(duration[-_]us)":( ?)\d+"#, r#""$1":$2[..]"#),
        (r#""took":\d+"#, r#""took":[..]"#),
        (r#""elapsed":"[^"]+""#, r#""elapsed":"[..]""#),
        (r"[0-9a-f]{64}", "[..]"),
        (r#"(duration_ms"): \d+"#, r#"$1: [..]"#),
        (r#""\d{4}-\d\d-\d\dT[0-9:.]+Z""#, r#""[..]""#),
        (r"(session[- ]start[- ]date(?: ≡|:)) \d{4}-\d\d-\d\d", "$1 [..]"),
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "[..]"),
    ];
    patterns.iter().fold(text.to_owned(), |text, (pattern, with)| {
        Regex::new(pattern).unwrap().replace_all(&text, *with).into_owned()
    })
}

fn compare(expected: &Path, actual: &str, default: &str, root: &Path) -> Result<(), String> {
    let mut redactions = Redactions::new();
    redactions.insert("[ROOT]", root.to_owned()).unwrap();
    let assert = Assert::new().action(Action::Verify).normalize_paths(false).redact_with(redactions.clone());
    let overwrite = std::env::var("SNAPSHOTS").is_ok_and(|value| value == "overwrite");
    let wanted = match fs::read_to_string(expected) {
        Ok(text) => text,
        Err(_) => default.to_owned(),
    };
    let result = assert
        .try_eq(
            Some(&expected.display()),
            Data::text(actual.to_owned()).coerce_to(DataFormat::Text),
            Data::text(wanted),
        )
        .map_err(|error| error.to_string());
    if result.is_err() && overwrite {
        let text = redactions.redact(actual);
        if text == default {
            fs::remove_file(expected).unwrap_or_default()
        } else {
            fs::write(expected, text).unwrap()
        }
        return Ok(());
    }
    result
}

fn copy(from: &Path, to: &Path, top: bool) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        let path = entry.path();
        if top && EXPECTATIONS.contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            fs::create_dir_all(to.join(&name)).unwrap();
            copy(&path, &to.join(&name), false);
        } else if let Some(stem) = name.strip_suffix(".guest.wat") {
            fs::write(to.join(format!("{stem}.wasm")), component(&path)).unwrap();
        } else if let Some(stem) = name.strip_suffix(".wat") {
            fs::write(to.join(format!("{stem}.wasm")), wat::parse_file(&path).unwrap()).unwrap();
        } else if let Some(stem) = name.strip_suffix(".repeat") {
            let text = fs::read_to_string(&path).unwrap();
            let (count, unit) = text.trim().split_once(' ').unwrap();
            fs::write(to.join(stem), unit.repeat(count.parse().unwrap())).unwrap();
        } else {
            fs::copy(&path, to.join(&name)).unwrap();
        }
    }
}

/// Splits at white space outside of quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}
