//! From an empty folder to a plugin that was built, tested and called, with the command and the language's own tools;
//! and the same plugin `kit` in every language against one set of cases. What a machine has no tools for is skipped,
//! and said on stderr.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

/// A folder that is not part of the checkout, with user directories that outlast a run: a component is compiled once.
struct Place {
    folder: tempfile::TempDir,
}

/// The digest that a command asks consent for: on a terminal, an author would answer a question instead.
fn consent(output: &Output) -> Option<String> {
    let said = text(&output.stdout) + &text(&output.stderr);
    let (_, asked) = said.split_once("`--trust ")?;
    asked.split_once('`').map(|(digest, _)| digest.to_owned())
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn opcell(&self, folder: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_opcell"));
        let user = Path::new(env!("CARGO_TARGET_TMPDIR")).join("authors");
        for name in ["XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"] {
            command.env(name, user.join(name));
        }
        // Plugins in Rust have the same dependencies: each is compiled once.
        command.env("CARGO_BUILD_BUILD_DIR", user.join("cargo"));
        command.env_remove("OPCELL_CACHE").current_dir(self.folder.path().join(folder)).args(arguments);
        let output = command.output().unwrap();
        match consent(&output) {
            Some(digest) => command.env("OPCELL_TRUST", digest).output().unwrap(),
            None => output,
        }
    }

    /// Runs a command that must succeed, and gives its stdout.
    fn done(&self, folder: &str, arguments: &[&str]) -> String {
        let output = self.opcell(folder, arguments);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "opcell {}: {}\n{out}\n{err}", arguments.join(" "), output.status);
        out
    }

    fn json(&self, folder: &str, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.done(folder, arguments)).unwrap()
    }

    /// A new plugin, with what its language's package manager brings; nothing where there is no such tool here.
    fn plugin(&self, name: &str, language: &str) -> Option<PathBuf> {
        self.done("", &["plugin", "new", name, "--lang", language]);
        let folder = self.folder.path().join(name);
        let (tool, ready) = match language {
            "rust" => (
                "cargo with the target wasm32-unknown-unknown",
                has("cargo") && opcell_author::toolchain::Toolchain::installed(&folder).is_some(),
            ),
            "javascript" => ("npm, esbuild and componentize-qjs", node_modules(&folder)),
            "python" => ("componentize-py 0.25.1 (pip install componentize-py==0.25.1)", has("componentize-py")),
            _ => ("clang and lld (apt-get install clang lld)", has("clang") && has("wasm-ld")),
        };
        if !ready {
            eprintln!("SKIPPED: plugins in {language} are not tested: this machine has no {tool}");
            return None;
        }
        Some(folder)
    }
}

fn has(program: &str) -> bool {
    opcell_author::toolchain::on_path(program).is_some()
}

/// Installs esbuild and componentize-qjs, from an earlier run's copy where there is one.
fn node_modules(folder: &Path) -> bool {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("authors/node_modules");
    fs::create_dir_all(kept.parent().unwrap()).unwrap();
    // One test at a time: what another still copies is not there yet.
    let lock = fs::File::create(kept.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    if !kept.join(".bin/componentize-qjs").exists() || !kept.join(".bin/esbuild").exists() {
        let npm = Command::new("npm").args(["install", "--no-audit", "--no-fund"]).current_dir(folder).output();
        if !npm.is_ok_and(|output| output.status.success()) {
            return false;
        }
        let _ = fs::remove_dir_all(&kept);
        let copied = Command::new("cp").arg("-r").arg(folder.join("node_modules")).arg(&kept).status();
        return copied.is_ok_and(|status| status.success());
    }
    Command::new("cp")
        .arg("-r")
        .arg(&kept)
        .arg(folder.join("node_modules"))
        .status()
        .is_ok_and(|status| status.success())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `plugin new`, `build`, `test`, `op invoke`, each as the README of the new plugin spells it. Gives what was built, or
/// nothing where the language has no tools here.
fn from_nothing_to_a_call(place: &Place, name: &str, language: &str) -> Option<Value> {
    place.plugin(name, language)?;
    let output = place.opcell(name, &["plugin", "build"]);
    let said = text(&output.stderr);
    assert!(output.status.success() && !said.contains("nothing changed"), "{said}");
    let built = place.json(name, &["plugin", "build", "--json"]);
    let varies = said.contains("a clean build gets a different digest: ");
    assert_eq!(varies, built["reproducible"] == false, "a build that varies says so and why: {said}");
    assert_eq!(built["manifest"]["name"], name);
    assert_eq!(built["operations"][0]["id"], format!("{name}/greet"));
    assert_eq!(built["judges"][0]["id"], format!("{name}/tone"));
    let digest = format!("  {}\n", built["digest"].as_str().unwrap());
    assert!(text(&output.stdout).contains(&digest), "the same source has the same digest: {digest}");
    let tested = place.done(name, &["plugin", "test"]);
    assert!(tested.ends_with("2 passed, 0 failed\n"), "{tested}");
    let data = place.json(name, &["op", "invoke", &format!("{name}/greet"), "--args", "name=Ada"]);
    assert_eq!(data["greeting"], "Hello, Ada!");
    unit_tests(&place.folder.path().join(name), language);
    Some(built)
}

/// The unit tests of a plugin's folder, in JavaScript and Python: with doubles, and without a cell.
fn unit_tests(folder: &Path, language: &str) {
    let (program, arguments): (_, &[&str]) = match language {
        "javascript" => ("node", &["--import", "./sdk/testing.js", "--test"]),
        "python" => ("python3", &["-m", "unittest", "discover", "tests"]),
        _ => return,
    };
    let mut command = Command::new(program);
    let output = command.args(arguments).current_dir(folder).env("PYTHONPATH", "sdk:src").output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    let ran = out.contains("pass 1\n") || ["Ran 1 test in", "Ran 2 tests in"].iter().any(|ran| err.contains(ran));
    assert!(ran, "{out}\n{err}");
}

#[test]
fn doubles_of_unit_tests_serve_what_a_host_serves() {
    for (language, program) in [("javascript", "node"), ("python", "python3")] {
        if !has(program) {
            eprintln!("SKIPPED: unit tests in {language} are not tested: this machine has no {program}");
            continue;
        }
        let place = Place::new();
        place.done("", &["plugin", "new", "kit", "--lang", language]);
        let folder = place.folder.path().join("kit");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/authors").join(language);
        for part in ["src", "tests"] {
            let _ = fs::remove_dir_all(folder.join(part));
            fs::create_dir(folder.join(part)).unwrap();
            for entry in fs::read_dir(sources.join(part)).unwrap() {
                let path = entry.unwrap().path();
                fs::copy(&path, folder.join(part).join(path.file_name().unwrap())).unwrap();
            }
        }
        // A package that a module of the plugin imports.
        fs::create_dir(folder.join("src/small")).unwrap();
        fs::write(folder.join("src/small/__init__.py"), "def double(n):\n    return 2 * n\n").unwrap();
        unit_tests(&folder, language);
    }
}

/// A second build from nothing, in another folder, has the same digest.
fn builds_the_same_elsewhere(name: &str, language: &str, built: &Value) {
    let place = Place::new();
    place.plugin(name, language).unwrap();
    let again = place.json(name, &["plugin", "build", "--json"]);
    assert_eq!((&again["reused"], &again["digest"]), (&Value::Bool(false), &built["digest"]), "{language}");
}

/// One component for each language: what is built is what costs, above all in Python.
#[test]
fn a_plugin_in_each_language_goes_from_nothing_to_a_call_and_into_a_workflow() {
    const LANGUAGES: [&str; 4] = ["rust", "javascript", "python", "c"];
    let place = Place::new();
    let built = std::thread::scope(|scope| {
        let built = LANGUAGES.map(|language| {
            let place = &place;
            scope.spawn(move || from_nothing_to_a_call(place, &format!("in-{language}"), language))
        });
        built.map(|built| built.join().unwrap())
    });
    for (language, built) in LANGUAGES.into_iter().zip(&built) {
        let Some(built) = built else { continue };
        let has_faketime = has("faketime");
        match language {
            "javascript" if !has_faketime => {
                assert_eq!(built["reproducible"], false);
                eprintln!("SKIPPED: JavaScript builds vary: this machine has no faketime (apt-get install faketime)");
            }
            "javascript" | "c" => {
                assert_eq!(built["reproducible"], true, "{language}");
                builds_the_same_elsewhere(&format!("in-{language}"), language, built);
            }
            "python" => assert_eq!(built["reproducible"], false),
            _ => {}
        }
    }
    if built.iter().any(Option::is_none) {
        return;
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/languages");
    for file in ["opcell.toml", "languages.edn"] {
        fs::copy(example.join(file), place.folder.path().join(file)).unwrap();
    }
    let said = place.json("", &["run", "languages", "-i", "name=Ada"]);
    for language in LANGUAGES {
        assert_eq!(said[language]["greeting"], "Hello, Ada!", "{said}");
    }
}

/// The plugin that docs/first-plugin.md writes, from `plugin new` to its call: each file as the page shows it.
fn the_first_plugin_of_the_book(language: &str, source: &str) {
    let place = Place::new();
    let Some(folder) = place.plugin("words", language) else { return };
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/first-plugin.md");
    let page = fs::read_to_string(page).unwrap();
    let shown = |file: &str| {
        let start = page.split_once(&format!(" file=words/{file}\n"));
        let block = start.unwrap_or_else(|| panic!("the page does not show {file}")).1;
        block.split_once("\n```\n").unwrap().0.to_owned() + "\n"
    };
    fs::write(folder.join(source), shown(source)).unwrap();
    let manifest = folder.join("plugin.toml");
    fs::write(&manifest, fs::read_to_string(&manifest).unwrap() + "\n" + &shown("asks.toml")).unwrap();
    fs::remove_dir_all(folder.join("cases")).unwrap();
    fs::create_dir(folder.join("cases")).unwrap();
    for case in ["cases/counts.yaml", "cases/nothing.yaml"] {
        fs::write(folder.join(case), shown(case)).unwrap();
    }
    let tested = place.done("words", &["plugin", "test"]);
    assert!(tested.ends_with("2 passed, 0 failed\n"), "{tested}");
    let call = ["op", "invoke", "words/count", "--args", "extension=.md"];
    let denied = place.opcell("words", &call);
    assert_eq!(denied.status.code(), Some(1));
    assert!(text(&denied.stderr).contains("opcell plugin grant words files texts="), "{}", text(&denied.stderr));
    place.done("words", &["plugin", "grant", "words", "files", "texts=."]);
    assert_eq!(place.json("words", &call)["files"], 1, "the README of the new plugin");
    // As a step, in a project of its own.
    place.done("", &["init", "shop"]);
    place.done("shop", &["plugin", "add", "../words/dist/words.wasm"]);
    place.done("shop", &["plugin", "grant", "words", "files", "texts=."]);
    fs::write(place.folder.path().join("shop/workflows/count.edn"), shown("count.edn")).unwrap();
    fs::write(place.folder.path().join("shop/a.md"), "one two three\n").unwrap();
    let counted = place.json("shop", &["run", "count", "--input", "extension=.md"]);
    assert_eq!(counted, json!({ "files": 1, "words": 3 }));
}

#[test]
fn the_first_plugin_of_the_book_works_in_rust() {
    the_first_plugin_of_the_book("rust", "src/lib.rs");
}

#[test]
fn the_first_plugin_of_the_book_works_in_python() {
    the_first_plugin_of_the_book("python", "src/plugin.py");
}

#[test]
fn the_first_plugin_of_the_book_works_in_javascript() {
    the_first_plugin_of_the_book("javascript", "src/plugin.js");
}

/// A plugin whose main file and cases are those of a folder in `tests/authors`.
fn with_sources(place: &Place, language: &str, from: &str, source: &str) -> Option<PathBuf> {
    let folder = place.plugin("kit", language)?;
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/authors").join(from);
    fs::copy(sources.join(source), folder.join("src").join(source)).unwrap();
    let manifest = fs::read_to_string(folder.join("plugin.toml")).unwrap();
    let build = format!("language = \"{language}\"");
    fs::write(folder.join("plugin.toml"), manifest.replace(&build, &format!("{build}\nsource = \"src/{source}\"")))
        .unwrap();
    fs::remove_dir_all(folder.join("cases")).unwrap();
    fs::create_dir(folder.join("cases")).unwrap();
    for entry in fs::read_dir(sources.join("cases")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.join("cases").join(path.file_name().unwrap())).unwrap();
    }
    Some(folder)
}

#[test]
fn typescript_has_the_globals_of_its_language_and_awaits_what_is_async() {
    let place = Place::new();
    let Some(folder) = with_sources(&place, "javascript", "globals", "plugin.ts") else { return };
    // A package of CommonJS that uses a module of Node.
    let package = folder.join("node_modules/old-style");
    fs::create_dir_all(&package).unwrap();
    fs::write(package.join("package.json"), r#"{"name":"old-style","version":"1.0.0","main":"index.js"}"#).unwrap();
    fs::write(package.join("index.js"), "const fs = require('fs');\nexports.double = (n) => 2 * n;\n").unwrap();
    let said = place.done("kit", &["plugin", "test"]);
    assert!(said.contains(" 0 failed"), "{said}");
    let random = || place.json("kit", &["op", "invoke", "kit/random"]);
    let (one, other) = (random(), random());
    assert!((0..4).all(|at| one[at] != other[at]), "{one} {other}");
    let now = place.json("kit", &["op", "invoke", "kit/now"]);
    assert!(now.as_f64().unwrap() > 1_700_000_000_000.0, "{now}");
    // A package that changes where it is installed is part of the next build.
    let is_repeated = || !text(&place.opcell("kit", &["plugin", "build"]).stderr).contains("nothing changed");
    assert!(!is_repeated());
    fs::write(package.join("index.js"), "const fs = require('fs');\nexports.double = (n) => n + n;\n").unwrap();
    assert!(is_repeated());
}

#[test]
fn an_error_of_javascript_has_its_place_when_it_is_loaded_and_when_it_is_called() {
    let place = Place::new();
    let Some(folder) = place.plugin("my-plugin", "javascript") else { return };
    let source = folder.join("src/plugin.js");
    let text = fs::read_to_string(&source).unwrap();
    let said = |text: &str, command: &[&str]| {
        fs::write(&source, text).unwrap();
        let output = place.opcell("my-plugin", command);
        assert!(!output.status.success());
        self::text(&output.stderr)
    };
    let build = ["plugin", "build"];
    let syntax = said(&text.replace("const tone =", "const tone"), &build);
    assert!(syntax.contains("src/plugin.js:"), "{syntax}");
    let effects = said(&text.replace("\"pure\"", "\"pur\""), &build);
    assert!(effects.contains("did you mean `pure`?") && effects.contains("src/plugin.js:"), "{effects}");
    let key = said(&text.replace("summary: \"Says", "sumary: \"Says"), &build);
    assert!(key.contains("unknown key `sumary`, did you mean `summary`?"), "{key}");
    let thrown = text.replace("({ name }) => ({ greeting", "({ name }) => null.x ?? ({ greeting");
    fs::write(&source, &thrown).unwrap();
    place.done("my-plugin", &build);
    let called = said(&thrown, &["op", "invoke", "my-plugin/greet", "--args", "name=Ada"]);
    assert!(called.contains("TypeError") && called.contains("(src/plugin.js:1"), "{called}");
}

#[test]
fn a_failed_call_shows_the_panic_with_its_place_the_log_and_the_stack_that_was_used_up() {
    let place = Place::new();
    let Some(folder) = place.plugin("my-plugin", "rust") else { return };
    let source = folder.join("src/lib.rs");
    let text = fs::read_to_string(&source).unwrap();
    let greeting = text.lines().find(|line| line.contains("format!(\"Hello")).unwrap().to_owned();
    let hurt = "opcell_sdk::log!(info, \"deep\");\n    let depth = dive(name.len() as u64 + 100_000);\n    \
                if depth == 1 { panic!(\"too deep\") }\n";
    let dive = "\n#[inline(never)]\nfn dive(n: u64) -> u64 {\n    let kept = std::hint::black_box([n; 64]);\n    \
                if n == 0 { 0 } else { dive(n - 1) + kept[(n % 64) as usize] }\n}\n";
    let called = text.replace(&greeting, &format!("    {hurt}{greeting}")) + dive;
    fs::write(&source, called).unwrap();
    place.done("my-plugin", &["plugin", "build", "--debug"]);
    let output = place.opcell("my-plugin", &["op", "invoke", "my-plugin/greet", "--args", "name=Ada"]);
    let said = self::text(&output.stderr);
    assert!(said.contains("failed: stack-overflow") && said.contains("-zstack-size"), "{said}");
    assert!(said.contains("my_plugin::dive") && said.contains("info    deep"), "{said}");
}

/// The sources of `tests/authors` in a new plugin's folder.
fn kit(place: &Place, language: &str) -> Option<PathBuf> {
    let folder = place.plugin("kit", language)?;
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/authors");
    let manifest = fs::read_to_string(sources.join("plugin.toml")).unwrap();
    fs::write(folder.join("plugin.toml"), manifest.replace("{{language}}", language)).unwrap();
    for entry in fs::read_dir(sources.join(language).join("src")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.join("src").join(path.file_name().unwrap())).unwrap();
    }
    Some(sources.join("cases"))
}

/// All four SDKs do the same: data, verdicts, tools, skills, files, denials, log, failures, panics.
fn an_sdk_passes_the_cases(language: &str) {
    let place = Place::new();
    let Some(cases) = kit(&place, language) else { return };
    passes(&place, &cases);
}

/// Builds the plugin `kit` where its source is new, and runs the cases of a folder.
fn passes(place: &Place, cases: &Path) {
    let output = place.opcell("kit", &["plugin", "test", "--cases", cases.to_str().unwrap()]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let cases = fs::read_dir(cases).unwrap().count();
    assert!(out.ends_with(&format!("{cases} passed, 0 failed\n")), "{out}\n{err}");
}

#[test]
fn the_rust_sdk_passes_the_cases_of_all_sdks() {
    an_sdk_passes_the_cases("rust");
}

#[test]
fn the_javascript_sdk_passes_the_cases_of_all_sdks() {
    an_sdk_passes_the_cases("javascript");
}

/// Both with one component: a build takes a minute.
#[test]
fn the_python_sdk_passes_the_cases_of_all_sdks_and_hints_give_the_values_that_they_name() {
    let place = Place::new();
    let Some(cases) = kit(&place, "python") else { return };
    let package = place.folder.path().join("kit/.venv/lib/python3.14/site-packages/small");
    fs::create_dir_all(&package).unwrap();
    fs::write(package.join("__init__.py"), "def double(n):\n    return 2 * n\n").unwrap();
    passes(&place, &cases);
    passes(&place, &cases.with_file_name("hints").join("cases"));
    fs::write(package.with_file_name("late_module.py"), "NAME = 'late'\n").unwrap();
    let late = text(&place.opcell("kit", &["op", "invoke", "kit/imports-late"]).stderr);
    assert!(late.contains("write `import late_module` at the top of a file"), "{late}");
    let output = place.opcell("kit", &["op", "invoke", "kit/breaks"]);
    let said = text(&output.stderr);
    // The last place in the plugin's own files, the traceback, and what was printed before.
    assert!(said.contains("KeyError: 'n' (src/hints.py:"), "{said}");
    assert!(said.contains("File \"src/hints.py\", line ") && said.contains("info    about to break"), "{said}");
}

#[test]
fn the_c_sdk_passes_the_cases_of_all_sdks() {
    an_sdk_passes_the_cases("c");
}

/// A C plugin: the tools that build it are the quickest.
fn quick() -> Option<Place> {
    let place = Place::new();
    place.plugin("my-plugin", "c")?;
    Some(place)
}

fn case(place: &Place, text: &str) {
    fs::write(place.folder.path().join("my-plugin/cases/own.yaml"), text).unwrap();
}

#[test]
fn a_case_that_fails_shows_what_differs_and_ends_with_1() {
    let Some(place) = quick() else { return };
    case(
        &place,
        "operation: my-plugin/greet\narguments: { name: Ada }\nexpect: { data: { greeting: Hi }, at-most: { memory: 1 } }\n",
    );
    let output = place.opcell("my-plugin", &["plugin", "test", "--case", "own", "--junit", "report.xml"]);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert!(out.contains(r#"data: expected {"greeting":"Hi"}, got {"greeting":"Hello, Ada!"}"#), "{out}");
    assert!(out.contains("at-most.memory: the cell used"), "{out}");
    let report = fs::read_to_string(place.folder.path().join("my-plugin/report.xml")).unwrap();
    assert!(report.contains(r#"failures="1""#) && report.contains(r#"name="own""#), "{report}");
}

#[test]
fn update_writes_what_a_call_gave_and_the_case_passes_from_then_on() {
    let Some(place) = quick() else { return };
    case(&place, "# Kept.\noperation: my-plugin/greet\narguments: { name: Ada }\nexpect: { data: { greeting: Hi } }\n");
    place.done("my-plugin", &["plugin", "test", "--case", "own", "--update"]);
    let text = fs::read_to_string(place.folder.path().join("my-plugin/cases/own.yaml")).unwrap();
    assert!(text.starts_with("# Kept.\n") && text.contains(r#"data: {"greeting":"Hello, Ada!"}"#), "{text}");
    place.done("my-plugin", &["plugin", "test", "--case", "own"]);
}

#[test]
fn a_call_without_a_double_fails_with_the_double_to_paste() {
    let place = Place::new();
    let Some(_) = kit(&place, "c") else { return };
    let own = place.folder.path().join("kit/cases");
    for file in fs::read_dir(&own).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    let call = "operation: kit/tool\narguments: { name: weather, input: { city: Ulm } }\nexpect: {}\n";
    fs::write(own.join("tool.yaml"), call).unwrap();
    let read = "operation: kit/read\narguments: { root: work, path: a }\nexpect: { failure: { reason: denied } }\n";
    fs::write(own.join("read.yaml"), read).unwrap();
    let output = place.opcell("kit", &["plugin", "test", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cases = report["cases"].as_array().unwrap().iter().flat_map(|case| case["differences"].as_array().unwrap());
    let differences: String = cases.map(|difference| difference.as_str().unwrap()).collect();
    assert_eq!(output.status.code(), Some(1), "{differences}");
    assert!(
        differences.contains("tools:\n  - name: weather\n    arguments: {\"city\":\"Ulm\"}\n    returns: {}"),
        "{differences}"
    );
    assert!(differences.contains("files:\n  work:\n    tree: {}"), "{differences}");
}

#[test]
fn a_core_module_becomes_a_component_with_the_command_that_the_message_names() {
    let Some(place) = quick() else { return };
    place.done("my-plugin", &["plugin", "build"]);
    let module = "target/opcell/plugin.wasm";
    let output = place.opcell("my-plugin", &["plugin", "inspect", module]);
    let said = text(&output.stderr);
    // What the C compiler makes describes nothing yet; the SDK's contract is added by `plugin build` in the folder.
    assert!(
        said.contains("it is a core module that describes no interface") && said.contains("opcell plugin build"),
        "{said}"
    );
}

#[test]
fn check_says_what_an_operator_would_stumble_over() {
    let Some(place) = quick() else { return };
    place.done("my-plugin", &["plugin", "build"]);
    let good = place.json("my-plugin", &["plugin", "check", "--strict", "--json"]);
    assert_eq!((good["ok"].as_bool(), good["findings"].as_array().map(Vec::len)), (Some(true), Some(0)), "{good}");
    let source = place.folder.path().join("my-plugin/src/plugin.c");
    let text = fs::read_to_string(&source).unwrap();
    fs::write(&source, text.replace("Greets a person by name.", "").replace("my-plugin/tone", "my-plugin/gr33t"))
        .unwrap();
    let manifest = place.folder.path().join("my-plugin/plugin.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("license = \"Apache-2.0\"\n", "") + "\n[limits]\nmemory = \"1 GiB\"\n").unwrap();
    place.done("my-plugin", &["plugin", "build"]);
    let output = place.opcell("my-plugin", &["plugin", "check", "--strict", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let codes: Vec<&str> =
        report["findings"].as_array().unwrap().iter().map(|finding| finding["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["no-license", "limit-above-default", "no-summary"], "{report}");
    assert_eq!(output.status.code(), Some(2));
}

/// Serves `hello` to every request, on this machine, and counts them.
fn server() -> (u16, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests = Arc::<AtomicU32>::default();
    let counted = requests.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::Relaxed);
            let mut reader = BufReader::new(&stream);
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
                line.clear();
            }
            let _ = (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello");
        }
    });
    (port, requests)
}

/// A component of someone else's WIT, in Python, that fetches a page through `wasi:http`.
#[test]
fn a_component_of_another_world_is_offered_by_its_types_and_fetches_what_is_granted() {
    if !has("componentize-py") {
        eprintln!(
            "SKIPPED: a typed component is not tested: this machine has no componentize-py (pip install componentize-py==0.25.1)"
        );
        return;
    }
    let place = Place::new();
    let folder = place.folder.path();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/authors/typed");
    let wit = folder.join("wit/deps");
    fs::create_dir_all(&wit).unwrap();
    let http = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sandbox/wit-http");
    for (from, to) in [
        (source.join("world.wit"), folder.join("wit/world.wit")),
        (http.join("http.wit"), wit.join("http.wit")),
        (http.join("deps/io.wit"), wit.join("io.wit")),
        (http.join("deps/clocks.wit"), wit.join("clocks.wit")),
        (source.join("app.py"), folder.join("app.py")),
    ] {
        fs::copy(from, to).unwrap();
    }
    let built = Command::new("componentize-py")
        .args(["-d", "wit", "-w", "web", "componentize", "app", "-o", "web.wasm"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", text(&built.stderr));
    let project = "[plugins.web]\npath = \"web.wasm\"\nexports = \"typed\"\n\n[plugins.web.effects]\n\"pages/measure\" = \"pure\"\n";
    fs::write(folder.join("opcell.toml"), project).unwrap();

    let entries = place.json("", &["op", "list", "--json"]);
    let ids: Vec<&str> = entries.as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap()).collect();
    // The tool's own export, `exports/init`, is there as well.
    assert!(ids.contains(&"pages/fetch") && ids.contains(&"pages/measure"), "{ids:?}");
    assert_eq!(place.json("", &["op", "invoke", "pages/measure", "--args", "text=four"]), 4);

    let (port, requests) = server();
    let authority = format!("authority=127.0.0.1:{port}");
    let fetch = ["op", "invoke", "pages/fetch", "--args", &authority, "--args", "path=/"];
    let denied = place.opcell("", &fetch);
    let said = text(&denied.stderr);
    assert_eq!(denied.status.code(), Some(1), "{said}");
    assert!(
        said.contains("ErrorCode_HttpRequestDenied") && said.contains("opcell plugin grant web tool http.fetch"),
        "{said}"
    );

    let origin = authority.replace("authority=", "http://");
    place.done("", &["plugin", "grant", "web", "http", &origin, "--private"]);
    place.done("", &["trust", "--quiet"]);
    assert_eq!(place.json("", &fetch), "200 hello");
    replays_without_a_network(&place, &authority, &requests);
}

/// The answers of `wasi:http` in a run are answered again, and no network is reached.
fn replays_without_a_network(place: &Place, authority: &str, requests: &AtomicU32) {
    let folder = place.folder.path();
    let project = fs::read_to_string(folder.join("opcell.toml")).unwrap();
    let journal = "\n[journal]\npath = \"runs.db\"\nrecord-host-calls = true\n";
    fs::write(folder.join("opcell.toml"), format!("workflows = [\".\"]\n{project}{journal}")).unwrap();
    let workflow = "{:name \"get\" :description \"Fetches a page\" :steps [{:name \"get\" :type :invoke \
                    :operation \"pages/fetch\" :args {:authority {:from :workflow-input :path [:authority]} \
                    :path {:from :workflow-input :path [:path]}}}]}";
    fs::write(folder.join("get.edn"), workflow).unwrap();
    let run = |name: &str| {
        let arguments = ["run", "get", "--as", name, "--json", "--input", authority, "--input", "path=/"];
        place.opcell("", &arguments)
    };
    assert!(run("granted").status.success());
    place.done("", &["plugin", "revoke", "web", "http", &authority.replace("authority=", "http://")]);
    assert!(!run("refused").status.success());

    let before = requests.load(Ordering::Relaxed);
    assert!(before > 1, "the run reached the server");
    for name in ["granted", "refused"] {
        let replayed = place.json("", &["op", "replay", name, "--step", "get", "--json"]);
        assert_eq!(
            (&replayed["ok"], &replayed["replayed"]["not-made"]),
            (&Value::Bool(true), &json!([])),
            "{replayed}"
        );
    }
    assert_eq!(requests.load(Ordering::Relaxed), before, "a replay reaches no network");
}

#[test]
fn a_missing_tool_is_named_with_the_command_that_installs_it() {
    let place = Place::new();
    place.done("", &["plugin", "new", "my-plugin", "--lang", "python"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_opcell"));
    let output = command
        .args(["plugin", "build", "my-plugin"])
        .current_dir(place.folder.path())
        .env("PATH", "/nowhere")
        .output();
    let said = text(&output.unwrap().stderr);
    assert!(said.contains("Python plugins are built with componentize-py, which is not installed"), "{said}");
    assert!(
        said.contains("install it: python3 -m venv .venv && .venv/bin/pip install componentize-py==0.25.1"),
        "{said}"
    );
}
