//! The things that each crate must not know. The map is in `docs/architecture.md`; these tests keep it true.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]

#[path = "architecture/command.rs"]
mod command;

use serde_json::Value as Json;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The product's crates, from the ground floor up. A crate may depend only on crates of lower floors.
const FLOORS: &[&[&str]] = &[
    &["opcell-types", "opcell-allocator", "opcell-process"],
    &["opcell-schema", "opcell-ir", "opcell-journal", "opcell-author", "opcell-workers"],
    &["opcell-core", "opcell-yaml", "opcell-sandbox", "opcell-journal-postgres"],
    &["opcell-workflow", "opcell-engine"],
    &["opcell-session", "opcell-tools", "opcell-restate"],
    &["opcell-registry"],
    &["opcell"],
    &["opcell-server", "opcell-bindings", "opcell-selftest"],
    &["opcell-bench"],
    &["opcell-cli", "opcell-python", "opcell-node"],
];

/// Crates that bring a runtime, a reactor or futures.
const ASYNC: &[&str] = &[
    "tokio",
    "tokio-util",
    "async-trait",
    "async-std",
    "futures",
    "futures-core",
    "futures-util",
    "smol",
    "mio",
    "hyper",
    "opcell-journal",
    "opcell-engine",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Everything that cargo knows of the workspace and what it depends on, on the supported target.
fn metadata() -> Json {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--all-features"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Dependencies of the product's code on the supported target, by crate: those that `build` and `dev` need are not
/// among them.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = metadata();
    let names: BTreeMap<&str, &str> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| (package["id"].as_str().unwrap(), package["name"].as_str().unwrap()))
        .collect();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for node in metadata["resolve"]["nodes"].as_array().unwrap() {
        let is_normal =
            |dependency: &&Json| dependency["dep_kinds"].as_array().unwrap().iter().any(|kind| kind["kind"].is_null());
        let used = node["deps"].as_array().unwrap().iter().filter(is_normal);
        let used = used.map(|dependency| names[dependency["pkg"].as_str().unwrap()].to_owned());
        found.entry(names[node["id"].as_str().unwrap()].to_owned()).or_default().extend(used);
    }
    found
}

/// All Rust text below a package's folder, without packages that lie inside it.
fn sources(package: &Path) -> String {
    let (mut text, mut open) = (String::new(), vec![package.to_owned()]);
    while let Some(path) = open.pop() {
        if path.is_dir() {
            if path == package || !path.join("Cargo.toml").is_file() {
                open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text += &fs::read_to_string(&path).unwrap();
        }
    }
    text
}

/// The lines of code, without comments and tests, of every source file under a folder.
fn code(folder: &str) -> Vec<(String, usize, String)> {
    let (root, mut found) = (root(), Vec::new());
    let mut open = vec![root.join(folder)];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        if !name.ends_with(".rs") || name.ends_with("tests.rs") || name.ends_with("testing.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in (1..).zip(text.lines()) {
            if line == "#[cfg(test)]" {
                break;
            }
            if !line.trim_start().starts_with("//") {
                found.push((name.clone(), number, line.to_owned()));
            }
        }
    }
    assert!(!found.is_empty(), "there is no code in {folder}");
    found
}

/// Everything that a crate builds, itself aside.
fn closure(dependencies: &BTreeMap<String, BTreeSet<String>>, name: &str) -> BTreeSet<String> {
    let (mut open, mut seen) = (vec![name], BTreeSet::new());
    while let Some(name) = open.pop() {
        for used in &dependencies[name] {
            if seen.insert(used.clone()) {
                open.push(used);
            }
        }
    }
    seen
}

#[test]
fn the_core_depends_on_nothing_that_waits() {
    let used = closure(&dependencies(), "opcell-core");
    for name in ASYNC {
        assert!(!used.contains(*name), "opcell-core depends on {name}, perhaps through another crate");
    }
    assert!(used.contains("opcell-ir"), "the graph is not what this test takes it for: {used:?}");
}

#[test]
fn what_runs_workflows_builds_no_language() {
    let dependencies = dependencies();
    // Sessions read the front matter of skills, which is YAML.
    let readers: &[&str] = &["opcell-yaml", "serde-saphyr"];
    for (name, forbidden) in
        [("opcell-ir", readers), ("opcell-core", readers), ("opcell-engine", readers), ("opcell-session", &[])]
    {
        let used = closure(&dependencies, name);
        for other in forbidden.iter().chain(&["opcell-workflow"]) {
            assert!(!used.contains(*other), "{name} depends on {other}, perhaps through another crate");
        }
    }
    assert!(closure(&dependencies, "opcell").contains("opcell-workflow"));
}

#[test]
fn no_crate_depends_on_one_of_its_own_floor_or_above() {
    let floor = |name: &str| FLOORS.iter().position(|crates| crates.contains(&name));
    for (name, used) in dependencies() {
        let Some(at) = floor(&name) else { continue };
        for used in used.iter().filter(|used| used.starts_with("opcell")) {
            let below = floor(used).unwrap_or_else(|| panic!("{name} depends on {used}, which has no floor"));
            assert!(below < at, "{name} depends on {used}, which is not below it");
        }
    }
}

/// The floors as a drawing, the highest first.
fn drawing() -> String {
    let width = FLOORS.len().to_string().len();
    let floors = FLOORS.iter().enumerate().rev().map(|(floor, crates)| {
        let names: Vec<&str> = crates.iter().map(|name| name.trim_start_matches("opcell-")).collect();
        format!("{floor:>width$}  {}\n", names.join("  "))
    });
    floors.collect()
}

/// `SNAPSHOTS=overwrite cargo test -p opcell-tests --test architecture` draws it.
#[test]
fn the_drawing_of_the_crates_is_made_of_their_floors() {
    let path = root().join("docs/architecture.md");
    let page = fs::read_to_string(&path).unwrap();
    let before = "of a higher line depends only on crates of lower lines:\n\n```text\n";
    let (head, rest) = page.split_once(before).unwrap_or_else(|| panic!("docs/architecture.md lacks the drawing"));
    let (drawn, tail) = rest.split_once("```").unwrap();
    if drawn != drawing() && std::env::var("SNAPSHOTS").is_ok_and(|how| how == "overwrite") {
        fs::write(&path, format!("{head}{before}{}```{tail}", drawing())).unwrap();
        return;
    }
    assert_eq!(drawn, drawing(), "the drawing in docs/architecture.md is not that of the floors");
}

#[test]
fn every_dependency_is_named_in_the_code_that_declares_it() {
    let metadata = metadata();
    let members: BTreeSet<&str> =
        metadata["workspace_members"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let folders: BTreeMap<&str, &Path> = packages
        .map(|package| (package["id"].as_str().unwrap(), Path::new(package["manifest_path"].as_str().unwrap())))
        .map(|(id, manifest)| (id, manifest.parent().unwrap()))
        .collect();
    let (mut seen, mut unused) = (0, Vec::new());
    for node in metadata["resolve"]["nodes"].as_array().unwrap() {
        let Some(id) = node["id"].as_str().filter(|id| members.contains(id)) else { continue };
        let text = sources(folders[id]);
        let words: BTreeSet<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        for name in node["deps"].as_array().unwrap().iter().map(|dependency| dependency["name"].as_str().unwrap()) {
            seen += 1;
            if !words.contains(name) {
                unused.push(format!("{}: {name}", folders[id].display()));
            }
        }
    }
    assert!(seen > 200, "cargo told of {seen} dependencies only");
    assert!(unused.is_empty(), "no source file names these dependencies:\n{}", unused.join("\n"));
}

#[test]
fn every_crate_of_the_host_has_a_floor() {
    let folders = fs::read_dir(root().join("host")).unwrap().map(|entry| entry.unwrap().path());
    for folder in folders.filter(|path| path.is_dir()) {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"')).unwrap();
        assert!(FLOORS.iter().any(|crates| crates.contains(&name)), "{name} has no floor");
    }
}

/// Types of the crates beneath are in public signatures of the facade; whoever embeds it depends on it alone.
#[test]
fn the_facade_hands_on_every_crate_that_it_stands_on() {
    let facade = fs::read_to_string(root().join("host/opcell/src/lib.rs")).unwrap();
    let used = dependencies()["opcell"].clone();
    let below = used.iter().filter(|name| name.starts_with("opcell-")).map(|name| name.replace('-', "_"));
    // The journal on a server comes with a feature, and none of its types is in a signature.
    for name in below.filter(|name| name != "opcell_journal_postgres") {
        assert!(facade.contains(&format!("    pub use {name} as ")), "opcell::layers lacks {name}");
    }
}

#[test]
fn what_runs_workflows_names_no_language() {
    for folder in ["host/core/src", "host/engine/src", "host/session/src"] {
        for (file, number, line) in code(folder) {
            let lower = line.to_lowercase();
            let is_psi = lower.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == "psi");
            let names = is_psi || ["workflowskill", "promptpack"].iter().any(|language| lower.contains(language));
            assert!(!names, "{file}:{number} names a language; the rule belongs into the IR's dialect: {line}");
        }
    }
}

#[test]
fn the_core_the_ir_and_schemas_start_no_thread() {
    for folder in ["host/core/src", "host/ir/src", "host/schema/src", "host/types/src"] {
        for (file, number, line) in code(folder) {
            let starts = ["thread::spawn", "thread::scope", "thread::Builder", "spawn_scoped", ".spawn("];
            let started = starts.iter().find(|start| line.contains(**start));
            assert!(started.is_none(), "{file}:{number} starts a thread; the shell lends workers: {line}");
        }
    }
    let dependencies = dependencies();
    for name in ["opcell-core", "opcell-ir", "opcell-schema"] {
        let used = closure(&dependencies, name);
        assert!(!used.contains("opcell-workers"), "{name} depends on opcell-workers");
    }
}

#[test]
fn the_sandbox_and_sessions_name_no_command_and_no_configuration_file() {
    for folder in ["host/sandbox/src", "host/session/src"] {
        for (file, number, line) in code(folder) {
            assert!(
                !line.contains("opcell.toml") && !line.contains("`opcell "),
                "{file}:{number} names the command or its configuration; carry a structured remedy: {line}"
            );
        }
    }
}

/// Options of other programs that Opcell has as well.
const OF_OTHERS: [&str; 3] = ["--version", "--help", "--release"];

/// The options in a text, such as `--input`.
fn options(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("--").filter_map(|(at, _)| {
        let is_first = !text.get(..at)?.ends_with(|before: char| before == '-' || before.is_ascii_alphanumeric());
        let rest = text.get(at + 2..)?;
        let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(rest.len());
        let is_word = rest.starts_with(|first: char| first.is_ascii_lowercase());
        (is_first && is_word).then(|| text.get(at..at + 2 + end))?
    })
}

/// Texts of the library that are for people who have the command: remedies as commands, the project file's own
/// documentation, and the first lines of files that the command reads.
const FOR_THE_COMMAND: &[&str] = &[
    "host/opcell/src/remedy.rs",
    "host/opcell/src/config/schema.rs",
    "host/opcell/src/config/schema/sessions.rs",
    "host/opcell/src/config/lock.rs",
    "host/opcell/src/consent/trusted.rs",
];

#[test]
fn the_library_names_no_command_and_no_option_of_the_command_line() {
    let crates = [
        "types",
        "yaml",
        "ir",
        "core",
        "engine",
        "journal",
        "journal-postgres",
        "process",
        "registry",
        "sandbox",
        "schema",
        "session",
        "tools",
        "workers",
        "workflow",
        "restate",
        "opcell",
    ];
    let commands = fs::read_to_string(root().join("docs/commands.md")).unwrap();
    let own: BTreeSet<&str> = options(&commands).filter(|option| !OF_OTHERS.contains(option)).collect();
    assert!(own.contains("--input") && own.contains("--config"), "{own:?}");
    for (file, number, line) in crates.into_iter().flat_map(|name| code(&format!("host/{name}/src"))) {
        if FOR_THE_COMMAND.contains(&file.as_str()) {
            continue;
        }
        let is_option = options(&line).any(|option| own.contains(option));
        let names = is_option || line.contains("`opcell ") || line.contains("cargo install");
        assert!(!names, "{file}:{number} names a command or an option; write a `FollowUp`: {line}");
    }
}
