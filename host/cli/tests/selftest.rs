//! Every hostile case is contained by the build under test, through the command that people run.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

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

fn selftest(arguments: &[&str], folder: &Path) -> (Output, serde_json::Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_opcell"));
    let output = command.args(["selftest", "--json", "--quiet"]).args(arguments).arg(folder).output().unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output, report)
}

fn put(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn problem<'a>(report: &'a serde_json::Value, name: &str) -> &'a str {
    let case = report["cases"].as_array().unwrap().iter().find(|case| case["name"] == name).unwrap();
    case["problem"].as_str().unwrap_or("")
}

#[test]
fn cases_of_ones_own_are_run_and_one_that_is_none_stalls_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let hostile = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/hostile/loop-in-export");
    let guest = fs::read_to_string(Path::new(hostile).join("guest.wat")).unwrap();
    let looping = |expect: &str, more: &str| {
        format!("title = \"Loops\"\nexpect = \"{expect}\"\nlimits = {{ wall-time = \"100ms\" }}\n{more}")
    };
    put(
        folder.path(),
        &[
            ("a-not-a-case/case.toml", "titel = 1"),
            ("b-not-a-guest/case.toml", &looping("timeout", "")),
            ("b-not-a-guest/guest.wat", "(component"),
            ("c-loops/case.toml", &looping("timeout", "")),
            ("c-loops/guest.wat", &guest),
            ("d-other-end/case.toml", &looping("trap", "")),
            ("d-other-end/guest.wat", &guest),
            ("e-takes-memory/case.toml", &looping("timeout", "rss-at-most = \"1 KiB\"")),
            ("e-takes-memory/guest.wat", &guest),
        ],
    );
    let (output, report) = selftest(&["--cases"], folder.path());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(problem(&report, "c-loops"), "");
    for (name, expected) in [
        ("a-not-a-case", "not a case"),
        ("b-not-a-guest", "not a case"),
        ("d-other-end", "expected trap"),
        ("e-takes-memory", "of host memory, more than 1 KiB"),
    ] {
        assert!(problem(&report, name).contains(expected), "{name}: {report:#}");
    }
    assert!(report["cases"][2]["rss_peak_kib"].is_i64(), "{report:#}");
}

#[test]
fn hostile_projects_are_contained_and_one_that_gets_through_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let shell = "[sessions.bash]\ndangerous = true\n";
    let hello = r#"{:name "w" :description "d" :steps [{:name "s" :type :exit :status :success :output "the word"}]}"#;
    let case = |more: &str| format!("title = \"t\"\ncommands = [[\"run\", \"w.edn\"]]\n{more}\n");
    put(
        folder.path(),
        &[
            ("asks-for-a-shell/case.toml", &case("exit = [2]\nsays = [\"consent-needed\"]\nkept = [\"opcell.toml\"]")),
            ("asks-for-a-shell/opcell.toml", shell),
            ("asks-for-a-shell/w.edn", hello),
            ("made-a-file/case.toml", &case("absent = [\"w.edn\"]")),
            ("made-a-file/w.edn", hello),
            ("said-it/case.toml", &case("hides = [\"the word\"]")),
            ("said-it/w.edn", hello),
            ("takes-memory/case.toml", &case("rss-at-most = \"1 MiB\"")),
            ("takes-memory/w.edn", hello),
            ("takes-time/case.toml", &case("within = \"1 ms\"")),
            ("takes-time/w.edn", hello),
            ("leaves/case.toml", &case("absent = [\"../x\"]")),
            ("leaves/w.edn", hello),
        ],
    );
    let (output, report) = selftest(&["--project"], folder.path());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(problem(&report, "asks-for-a-shell"), "");
    for (name, expected) in [
        ("made-a-file", "`w.edn` was made"),
        ("said-it", "`the word` was printed"),
        ("takes-memory", "more than 1024 KiB"),
        ("takes-time", "still running after 1 ms"),
        ("leaves", "not a path below the case"),
    ] {
        assert!(problem(&report, name).contains(expected), "{name}: {report:#}");
    }
}

/// The adapters of other hosts do what their pages say, as far as this machine has those hosts: a loop ends, and
/// nothing is read outside of the directory that was opened.
#[test]
fn adapters_of_other_hosts_hold_a_loop_and_an_escape() {
    let built = |path: &str| root().join(path).display().to_string();
    let [wasmi, extism] =
        ["benches/adapters/wasmi/target/release/wasmi-adapter", "benches/extism/target/release/extism-adapter"]
            .map(built);
    let python = "python3 benches/adapters/wasmtime_python.py";
    let node = "node --no-warnings benches/adapters/node.mjs";
    let there = |program: &str, arguments: &[&str]| {
        Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
    };
    let adapters = [
        (node, there("node", &["--version"]), "Node"),
        (python, there("python3", &["-c", "import wasmtime"]), "pip install wasmtime"),
        (&wasmi, Path::new(&wasmi).is_file(), "cargo xtask against"),
        (&extism, Path::new(&extism).is_file(), "cargo xtask against"),
    ];
    for (adapter, is_there, needs) in adapters {
        if !is_there {
            eprintln!("SKIPPED: `{adapter}` is not tried: it needs {needs}");
            continue;
        }
        for (twin, by) in [("loop", "time, fuel or a signal"), ("path-escape", "a refusal")] {
            let mut selftest = Command::new(env!("CARGO_BIN_EXE_opcell"));
            let output = selftest
                .args(["selftest", twin, "--json", "--quiet", "--against", adapter])
                .current_dir(root())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(0), "`{adapter}` does not hold {twin} by {by}: {said}");
            assert!(said.contains(&format!("\"{twin}\"")), "{said}");
        }
    }
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
