//! A publisher, a registry, an operator: from `plugin push` to a run, and every refusal on the way.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

#[path = "../../registry/tests/support/docker_registry.rs"]
#[allow(dead_code, reason = "shared with the tests of the registry's client")]
mod docker_registry;
#[path = "support/guest.rs"]
mod guest;
#[path = "distribution/lying.rs"]
mod lying;

use docker_registry::Registry;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Someone with a home and a folder of their own.
struct Person {
    root: tempfile::TempDir,
}

struct Output {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Output {
    fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        self.out
    }

    /// Wrong input, with a message that has all of these.
    fn refused(self, parts: &[&str]) {
        assert_eq!(self.code, Some(2), "{}{}", self.out, self.err);
        // Messages are wrapped for people.
        let text: String = self.err.split_whitespace().filter(|word| *word != "|").collect::<Vec<_>>().join(" ");
        for part in parts {
            assert!(text.contains(part), "`{part}` is not in: {text}");
        }
    }
}

impl Person {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("work")).unwrap();
        Self { root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join("work").join(name)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.run_with_path(Path::new("/nowhere"), arguments)
    }

    /// With the programs of a folder as well.
    fn run_with_path(&self, folder: &Path, arguments: &[&str]) -> Output {
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new(env!("CARGO_BIN_EXE_opcell"))
            .args(arguments)
            .current_dir(self.root.path().join("work"))
            .env_clear()
            .env("PATH", format!("{path}:{}", folder.display()))
            .env("HOME", self.root.path())
            .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .env("XDG_STATE_HOME", self.root.path().join("state"))
            .env("NO_COLOR", "1")
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Output { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Writes a version of the guest that `tests/cli/shared/upgrade` has.
    fn write_guest(&self, version: &str) {
        let shared = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cli/shared/upgrade");
        let bytes = guest::component(&Path::new(shared).join(format!("{version}.guest.wat")));
        fs::write(self.path("greet.wasm"), bytes).unwrap();
    }

    /// Writes `notes.wasm`, a plugin of this version that requests nothing.
    fn write_notes(&self, version: &str) {
        let manifest = format!("[plugin]\nname = \"notes\"\nversion = \"{version}\"\ndescription = \"Of {version}\"\n");
        fs::write(self.path("notes.toml"), manifest).unwrap();
        fs::write(self.path("notes.js"), "/** Answers. */\nexport function answer() {\n  return 42;\n}\n").unwrap();
        self.run(&["plugin", "build", "notes.js"]).ok();
        fs::rename(self.path("dist/notes.wasm"), self.path("notes.wasm")).unwrap();
    }

    /// The one file of a name in the store of fetched plugins.
    fn stored(&self, name: &str) -> PathBuf {
        let store = self.root.path().join(".local/share/opcell/plugins");
        let mut found = fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path().join(name));
        let file = found.next().unwrap();
        assert!(found.next().is_none(), "more than one version is stored");
        file
    }

    fn edit(&self, name: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.path(name)).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(self.path(name), text.replace(from, to)).unwrap();
    }
}

const INVOKE: [&str; 3] = ["op", "invoke", "test/run"];

/// A publisher who has pushed version 1, signed.
fn published(registry: &Registry) -> (Person, String) {
    let publisher = Person::new();
    publisher.write_guest("old");
    let key = publisher.run(&["key", "new"]).ok().trim().to_owned();
    let reference = registry.reference("tools/greet:1").to_string();
    let pushed = publisher.run(&["plugin", "push", &reference, "greet.wasm"]).ok();
    assert!(pushed.contains(&key), "{pushed}");
    (publisher, key)
}

/// An operator who has added version 1.
fn added(registry: &Registry) -> (Person, Person, String) {
    let (publisher, key) = published(registry);
    let operator = Person::new();
    let reference = registry.reference("tools/greet:1").to_string();
    let text = operator.run(&["plugin", "add", &reference]).ok();
    assert!(text.contains(&key) && text.contains("it asks for files notes: keeps notes"), "{text}");
    (publisher, operator, key)
}

#[test]
fn a_version_that_asks_for_more_runs_only_after_it_was_accepted_and_runs_without_its_registry() {
    let Some(registry) = Registry::start(false, None) else { return };
    let (publisher, operator, key) = added(&registry);
    operator.run(&INVOKE).ok();
    operator.run(&["plugin", "verify"]).ok();

    // The tag moves: nothing changes here until someone looks.
    let reference = registry.reference("tools/greet:1").to_string();
    publisher.write_guest("new");
    publisher.run(&["plugin", "push", &reference, "greet.wasm"]).refused(&["exists already", "--replace"]);
    publisher.run(&["plugin", "push", &reference, "greet.wasm", "--replace"]).ok();
    operator.run(&INVOKE).ok();
    operator.run(&["plugin", "update"]).refused(&[
        "asks for more than opcell.lock holds: tool http.fetch2, write to files notes",
        "opcell plugin diff greet",
        "opcell plugin update greet",
    ]);
    operator.run(&INVOKE).ok();
    let diff = operator.run(&["plugin", "diff", "greet"]).ok();
    assert!(diff.contains("+ requests tool http.fetch2") && diff.contains("- no longer requests"), "{diff}");
    operator.run(&["plugin", "update", "greet"]).ok();
    operator.run(&INVOKE).ok();

    // A reference that is edited is refused until it is accepted, too.
    operator.edit("opcell.toml", "greet:1", "greet:2");
    operator.run(&INVOKE).refused(&["the project file names", "opcell.lock holds", "opcell plugin update greet"]);
    operator.edit("opcell.toml", "greet:2", "greet:1");

    // Without the registry: from the folder that the project carries along, on a machine that never fetched anything.
    operator.run(&["plugin", "vendor"]).ok();
    drop(registry);
    let other = Person::new();
    for name in ["opcell.toml", "opcell.lock", "opcell-vendor"] {
        let copied = Command::new("cp").arg("-r").arg(operator.path(name)).arg(other.path(name)).status();
        assert!(copied.unwrap().success());
    }
    let trust = other.run(&["trust"]).ok();
    assert!(trust.contains("fetches plugin greet from localhost:"), "{trust}");
    other.run(&["--locked", "op", "invoke", "test/run"]).ok();
    let verified = other.run(&["plugin", "verify"]).ok();
    assert!(verified.contains(&key), "{verified}");
    other.run(&["plugin", "update"]).refused(&["cannot be reached", "plugins that were fetched before run without it"]);
}

#[test]
fn a_registry_that_goes_back_to_an_older_version_is_followed_only_by_name() {
    let Some(registry) = Registry::start(false, None) else { return };
    let (publisher, operator) = (Person::new(), Person::new());
    publisher.run(&["key", "new"]).ok();
    let reference = registry.reference("tools/notes:1").to_string();
    for (version, options) in [("0.2.0", [].as_slice()), ("0.1.0", &["--replace"]), ("0.3.0", &["--replace"])] {
        publisher.write_notes(version);
        publisher.run(&[&["plugin", "push", &reference, "notes.wasm"], options].concat()).ok();
        match version {
            "0.2.0" => {
                let added = operator.run(&["plugin", "add", &reference]).ok();
                assert!(added.contains("models of the project read about it: Of 0.2.0"), "{added}");
                assert!(added.contains("operation notes/answer  Answers."), "{added}");
            }
            "0.1.0" => {
                operator.run(&["plugin", "update"]).refused(&[
                    "plugin `notes`: the new version is older than the one in opcell.lock",
                    "accept it with `opcell plugin update notes`",
                ]);
                assert!(fs::read_to_string(operator.path("opcell.lock")).unwrap().contains("version = \"0.2.0\""));
                let told = operator.run(&["plugin", "update", "notes"]).ok();
                assert!(told.contains("! version 0.2.0 -> 0.1.0: the new version is older"), "{told}");
                assert!(told.contains("~ description, which models read: `Of 0.2.0` -> `Of 0.1.0`"), "{told}");
            }
            _ => {
                let told = operator.run(&["plugin", "update"]).ok();
                assert!(told.contains("~ version 0.1.0 -> 0.3.0\n"), "{told}");
            }
        }
    }
}

#[test]
fn one_flipped_byte_anywhere_is_a_sentence_with_a_remedy() {
    let Some(registry) = Registry::start(false, None) else { return };
    let (_publisher, operator, key) = added(&registry);
    operator.run(&INVOKE).ok();

    // Every file that was stored.
    for (name, at) in [("component.wasm", 100), ("signature.json", 40), ("manifest.json", 60)] {
        let file = operator.stored(name);
        let whole = fs::read(&file).unwrap();
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&file, bytes).unwrap();
        operator.run(&INVOKE).refused(&["plugin `greet`", "opcell plugin fetch greet"]);
        operator.run(&["plugin", "verify"]).refused(&["opcell plugin fetch greet"]);
        // The remedy works.
        fs::remove_dir_all(file.parent().unwrap()).unwrap();
        operator.run(&INVOKE).refused(&["it is not on this machine", "opcell plugin fetch greet"]);
        operator.run(&["plugin", "fetch", "greet"]).ok();
        operator.run(&INVOKE).ok();
    }

    // Every line of the lock that says something about the plugin.
    let lock = fs::read_to_string(operator.path("opcell.lock")).unwrap();
    for line in lock.lines().filter(|line| line.contains(" = ")) {
        let (name, value) = line.split_once(" = ").unwrap();
        if name == "tools" || name == "skills" || name == "notes" {
            continue;
        }
        let at = value.len() - 2;
        let flipped = if value.as_bytes()[at] == b'0' { "1" } else { "0" };
        let line_flipped = format!("{name} = {}{flipped}{}", &value[..at], &value[at + 1..]);
        fs::write(operator.path("opcell.lock"), lock.replace(line, &line_flipped)).unwrap();
        operator.run(&INVOKE).refused(&["plugin `greet`", "opcell"]);
    }
    fs::write(operator.path("opcell.lock"), &lock).unwrap();

    // The blob in the registry.
    let component = fs::read(operator.stored("component.wasm")).unwrap();
    let blob = registry.files().into_iter().find(|file| fs::read(file).unwrap() == component).unwrap();
    let mut bytes = component;
    bytes[100] ^= 1;
    fs::write(blob, bytes).unwrap();
    operator.run(&["plugin", "update"]).refused(&["has other bytes than its digest says", "do not use it"]);
    let other = Person::new();
    let reference = registry.reference("tools/greet:1").to_string();
    other.run(&["plugin", "add", &reference, "--publisher", &key]).refused(&["other bytes"]);
    assert!(!other.path("opcell.toml").exists() && !other.path("opcell.lock").exists());
}

#[test]
fn another_key_and_no_key_are_refused_until_the_operator_says_otherwise() {
    let Some(registry) = Registry::start(false, None) else { return };
    let (publisher, operator, key) = added(&registry);
    let reference = registry.reference("tools/greet:1").to_string();
    // A component that differs, so that no old signature is there.
    publisher.write_guest("new");
    let other = publisher.run(&["key", "new", "other"]).ok().trim().to_owned();
    publisher.run(&["plugin", "push", &reference, "greet.wasm", "--key", "other", "--replace"]).ok();
    let remedy = format!("opcell plugin update greet --publisher {other}");
    operator.run(&["plugin", "update", "greet"]).refused(&[&key, &other, &remedy]);
    operator.run(&["plugin", "update", "greet", "--publisher", &key]).refused(&["is signed by"]);
    operator.run(&INVOKE).ok();
    operator.run(&["plugin", "update", "greet", "--publisher", &other]).ok();
    operator.run(&INVOKE).ok();

    // Unsigned.
    let unsigned = registry.reference("tools/unsigned:1").to_string();
    publisher.run(&["plugin", "push", &unsigned, "greet.wasm", "--unsigned"]).ok();
    let careless = Person::new();
    careless.run(&["plugin", "add", &unsigned]).refused(&["has no signature", "unsigned = true", "--unsigned"]);
    careless.run(&["plugin", "add", &unsigned, "--unsigned"]).ok();
    careless.run(&INVOKE).ok();
    careless.edit("opcell.toml", "unsigned = true", "unsigned = false");
    careless.run(&INVOKE).refused(&["names no publisher", "unsigned = true"]);
}

/// A helper as Docker's: it keeps what it is given in a file, and gives it back.
fn helper(person: &Person) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = person.root.path().join("bin");
    fs::create_dir(&folder).unwrap();
    let program = folder.join("docker-credential-test");
    let text = "#!/bin/sh\ncase $1 in\nstore) cat >\"$HOME/kept\" ;;\n\
                get) grep -q \"$(cat)\" \"$HOME/kept\" && cat \"$HOME/kept\" || { echo 'credentials not found'; exit 1; } ;;\n\
                esac\n";
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

#[test]
fn a_key_in_a_keyring_signs_and_is_in_no_file_of_opcell() {
    let person = Person::new();
    let missing = person.run(&["key", "new", "release", "--helper", "test"]);
    missing.refused(&["docker-credential-test is not installed"]);
    let bin = helper(&person);
    let with_helper = |arguments: &[&str]| person.run_with_path(&bin, arguments);
    let public = with_helper(&["key", "new", "release", "--helper", "test"]).ok().trim().to_owned();
    assert!(with_helper(&["key", "list"]).ok().contains(&format!("release  {public}  in docker-credential-test")));
    with_helper(&["key", "new", "release"]).refused(&["a key is never replaced"]);
    let kept: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(person.root.path().join("kept")).unwrap()).unwrap();
    let secret = kept["Secret"].as_str().unwrap();
    let named = fs::read_to_string(person.root.path().join("state/opcell/signing/release.helper")).unwrap();
    assert!(named.contains(&public) && !named.contains(secret), "{named}");

    let Some(registry) = Registry::start(false, None) else { return };
    person.write_guest("old");
    let reference = registry.reference("tools/greet:1").to_string();
    let push = ["plugin", "push", &reference, "greet.wasm", "--key", "release"];
    let pushed = with_helper(&push).ok();
    assert!(pushed.contains(&format!("signed by {public}")), "{pushed}");
    // Another secret under the same name is not what the public half says.
    let other = fs::read_to_string(person.root.path().join("kept")).unwrap().replace(secret, &"7".repeat(64));
    fs::write(person.root.path().join("kept"), other).unwrap();
    with_helper(&push).refused(&["the key `release` cannot be used", "docker-credential-test has the key"]);
    fs::remove_file(person.root.path().join("kept")).unwrap();
    with_helper(&push).refused(&["the key `release` cannot be used", "docker-credential-test refuses to get it"]);
}

#[test]
fn files_are_added_and_removed_and_an_index_is_searched() {
    let person = Person::new();
    person.write_guest("old");
    person.run(&["plugin", "add", "greet.wasm"]).ok();
    assert!(fs::read_to_string(person.path("opcell.toml")).unwrap().contains("path = \"greet.wasm\""));
    person.run(&INVOKE).ok();
    person.run(&["plugin", "add", "greet.wasm"]).refused(&["has a plugin `greet` already", "--name"]);
    person.run(&["plugin", "grant", "greet", "tool", "http.fetch"]).ok();
    person.run(&["plugin", "revoke", "greet", "tool", "http.fetch"]).ok();
    assert!(!fs::read_to_string(person.path("opcell.toml")).unwrap().contains("http.fetch"));
    person.run(&["plugin", "remove", "greet"]).ok();
    assert!(!fs::read_to_string(person.path("opcell.toml")).unwrap().contains("greet"));
    assert!(!fs::read_to_string(person.path("opcell.lock")).unwrap().contains("greet"));

    let entry = r#"{"plugins": [{"name": "greet", "summary": "Greets.", "source": "oci://r.example/greet:1"}]}"#;
    fs::write(person.path("index.json"), entry).unwrap();
    let found = person.run(&["plugin", "search", "greet", "--index", "index.json"]).ok();
    assert!(found.contains("oci://r.example/greet:1"), "{found}");
    person.run(&["plugin", "search"]).refused(&["--index"]);
    person.run(&["plugin", "push", "oci://r.example/x:1", "greet.wasm"]).refused(&["opcell key new"]);
}

/// A registry of one unsigned component, which does something before it gives the manifest.
fn slow_registry(component: Vec<u8>, meanwhile: impl Fn() + Send + 'static) -> String {
    use opcell_registry::artifact::{Manifest, digest};
    use std::io::{BufRead as _, BufReader, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let reference = format!("oci://{}/greet:1", listener.local_addr().unwrap());
    let manifest = Manifest::of_component(b"{}", &component).to_bytes();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let request = lines.next().and_then(Result::ok).unwrap_or_default();
            while lines.next().and_then(Result::ok).is_some_and(|line| !line.is_empty()) {}
            let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
            let body: Option<&[u8]> = match () {
                () if path == "/v2/" => Some(b"{}"),
                () if path.ends_with("/manifests/1") => {
                    meanwhile();
                    Some(&manifest)
                }
                () if path.ends_with(&digest(b"{}")) => Some(b"{}"),
                () if path.ends_with(&digest(&component)) => Some(&component),
                () => None,
            };
            let status = if body.is_some() { "200 OK" } else { "404 Not Found" };
            let body = body.unwrap_or_default();
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        }
    });
    reference
}

#[test]
fn changes_while_a_registry_is_waited_for_stay_and_get_no_consent() {
    for pulled in ["touch PWNED", ""] {
        let person = Person::new();
        person.write_guest("old");
        let component = fs::read(person.path("greet.wasm")).unwrap();
        fs::remove_file(person.path("greet.wasm")).unwrap();
        fs::create_dir(person.path("srv")).unwrap();
        fs::write(person.path("srv/run.sh"), "true").unwrap();
        fs::write(person.path("opcell.toml"), "[mcp.m]\ncommand = [\"sh\", \"srv/run.sh\"]\n").unwrap();
        person.run(&["trust"]).ok();
        let (project, program) = (person.path("opcell.toml"), person.path("srv/run.sh"));
        let reference = slow_registry(component, move || {
            let text = fs::read_to_string(&project).unwrap();
            fs::write(&project, format!("{text}# mine\n")).unwrap();
            if !pulled.is_empty() {
                fs::write(&program, pulled).unwrap();
            }
        });
        let added = person.run(&["plugin", "add", &reference, "--unsigned"]);
        assert_eq!(added.code, Some(0), "{}", added.err);
        let text = fs::read_to_string(person.path("opcell.toml")).unwrap();
        assert!(text.contains("# mine") && text.contains("[plugins.greet]"), "{text}");
        let shown = person.run(&["trust", "--show"]).ok();
        assert_eq!(shown.contains("not allowed"), !pulled.is_empty(), "{shown}{}", added.err);
        assert_eq!(added.err.contains("has changed meanwhile"), !pulled.is_empty(), "{}", added.err);
    }
}
