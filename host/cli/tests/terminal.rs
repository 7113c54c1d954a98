//! The command on a real terminal: the pseudo-terminal that `script` of util-linux makes.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    sync::LazyLock,
};

/// `true` if there is a `script` that makes terminals; says so where there is none.
static HAS_TERMINAL: LazyLock<bool> = LazyLock::new(|| {
    let version = Command::new("script").arg("--version").output();
    let found = version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("util-linux"));
    if !found {
        eprintln!("SKIPPED: there is no `script` of util-linux, so the command was not tested on a terminal");
    }
    found
});

/// Returns what the command shows on a terminal of `columns` columns, and its exit code.
fn on_terminal(directory: &Path, columns: u16, arguments: &[&str], environment: &[(&str, &str)]) -> (String, i32) {
    typed_on_terminal(directory, columns, arguments, environment, "")
}

/// The same, with typed input.
fn typed_on_terminal(
    directory: &Path,
    columns: u16,
    arguments: &[&str],
    environment: &[(&str, &str)],
    typed: &str,
) -> (String, i32) {
    let quoted: Vec<String> = arguments.iter().map(|argument| format!("'{argument}'")).collect();
    let line = format!("stty cols {columns} rows 50; exec {} {}", env!("CARGO_BIN_EXE_opcell"), quoted.join(" "));
    let mut child = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .current_dir(directory)
        .env_clear()
        .envs([("HOME", directory.to_str().unwrap()), ("TERM", "xterm-256color"), ("SHELL", "/bin/sh")])
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n"), output.status.code().unwrap())
}

fn project() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let workflow = r#"{:name "w" :description "Waits" :steps [{:name "ask" :type :wait :signal "go" :approval true}]}"#;
    std::fs::write(directory.path().join("w.edn"), workflow).unwrap();
    std::fs::write(directory.path().join("opcell.toml"), "workflows = [\".\"]\n[journal]\n").unwrap();
    directory
}

#[test]
fn a_command_shows_its_own_lines_and_none_of_a_library() {
    if !*HAS_TERMINAL {
        return;
    }
    let project = project();
    for arguments in [&["plugin", "list"][..], &["op", "list"], &["runs", "--help"], &["check", "w.edn"]] {
        let (shown, code) = on_terminal(project.path(), 80, arguments, &[]);
        assert_eq!(code, 0, "{arguments:?}: {shown}");
        assert!(!shown.contains("tracing"), "{arguments:?}: {shown}");
    }
    assert_eq!(on_terminal(project.path(), 80, &["op", "list"], &[]).0, "", "an empty project has no operations");
}

#[test]
fn help_breaks_lines_between_words_at_the_width_of_the_terminal() {
    if !*HAS_TERMINAL {
        return;
    }
    let project = project();
    for columns in [60, 80] {
        let (shown, _) = on_terminal(project.path(), columns, &["run", "--help"], &[("NO_COLOR", "1")]);
        assert!(shown.lines().all(|line| line.chars().count() <= usize::from(columns)), "{columns}: {shown}");
        // Read without line breaks, every sentence is whole.
        let text = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("Run a workflow and print its result"), "{text}");
        assert!(text.contains("Keep the run in memory only, even if the project has a journal"), "{text}");
    }
}

#[test]
fn colours_follow_the_terminal_the_variable_and_the_option() {
    if !*HAS_TERMINAL {
        return;
    }
    let project = project();
    let colored = |more: &[&str], environment: &[(&str, &str)]| {
        let arguments = [&["check", "missing.edn"][..], more].concat();
        on_terminal(project.path(), 80, &arguments, environment).0.contains('\u{1b}')
    };
    assert!(colored(&[], &[]));
    assert!(!colored(&[], &[("NO_COLOR", "1")]));
    assert!(!colored(&["--color", "never"], &[]));
    assert!(colored(&["--color", "always"], &[("NO_COLOR", "1")]));
}

#[test]
fn the_list_of_runs_keeps_to_the_width_and_says_what_each_run_waits_for() {
    if !*HAS_TERMINAL {
        return;
    }
    let project = project();
    let long = "a-run-with-a-name-of-thirty-six-char";
    for run in ["short", long] {
        let (shown, code) = on_terminal(project.path(), 80, &["run", "w", "--as", run], &[]);
        assert_eq!(code, 3, "{shown}");
    }
    let (shown, code) = on_terminal(project.path(), 80, &["runs", "list"], &[]);
    assert_eq!(code, 0, "{shown}");
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 3, "a heading and two runs, none broken: {shown}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{shown}");
    let column = |line: &str| line.find("suspended").unwrap_or_else(|| line.find("STATUS").unwrap());
    assert!(lines.iter().all(|line| column(line) == column(lines[0])), "{shown}");
    assert!(lines.iter().skip(1).all(|line| line.contains("approval go")), "also on a narrow terminal: {shown}");
}

#[test]
fn a_list_of_runs_without_room_leaves_out_whole_columns() {
    if !*HAS_TERMINAL {
        return;
    }
    let project = project();
    let long = "a-run-with-a-name-of-thirty-six-char";
    on_terminal(project.path(), 80, &["run", "w", "--as", long], &[]);
    let heading = |columns| {
        let (shown, _) = on_terminal(project.path(), columns, &["runs", "list"], &[]);
        shown.lines().next().unwrap().to_owned()
    };
    for (columns, events, started) in [(200, true, true), (80, false, true), (76, false, false)] {
        let heading = heading(columns);
        let has = (heading.contains("EVENTS"), heading.contains("STARTED"));
        assert_eq!(has, (events, started), "{columns}: {heading}");
        assert!(heading.contains("WORKFLOW") && !heading.contains('…'), "{columns}: {heading}");
    }
}

#[test]
fn messages_of_findings_are_broken_between_words_at_the_width_of_the_terminal() {
    if !*HAS_TERMINAL {
        return;
    }
    let project = project();
    let workflow = r#"{:name "w" :description "d" :steps [{:name "a" :type :wait :signal "go" :yields {:type :data :data "nothing that it has"}}]}"#;
    std::fs::write(project.path().join("w.edn"), workflow).unwrap();
    for columns in [60_u16, 120] {
        let (shown, code) = on_terminal(project.path(), columns, &["check", "w.edn"], &[("NO_COLOR", "1")]);
        assert_eq!(code, 2, "{shown}");
        // The excerpt stays as the document has it.
        let of_messages = shown
            .lines()
            .take_while(|line| !line.contains(",-["))
            .chain(shown.lines().filter(|line| line.contains("help:")));
        let widest = of_messages.map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= usize::from(columns), "{columns}: {shown}");
    }
}

#[test]
fn a_command_that_lasts_says_what_it_does_on_one_line_that_moves() {
    if !*HAS_TERMINAL {
        return;
    }
    let project = project();
    let (shown, code) = on_terminal(project.path(), 100, &["selftest", "unreachable"], &[]);
    assert_eq!(code, 0, "{shown}");
    let stays: Vec<&str> = shown.lines().filter(|line| line.contains("unreachable") && !line.contains('\r')).collect();
    assert!(stays.iter().all(|line| line.contains("contained")), "{shown:?}");
    assert!(shown.contains("1 contained, 0 got through"), "{shown}");
}

#[test]
fn many_calls_of_an_operation_are_one_line() {
    if !*HAS_TERMINAL {
        return;
    }
    let project = project();
    let echo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../example-operations/dist/echo.wasm");
    if !echo.exists() {
        eprintln!("SKIPPED: `cargo xtask guests` builds {}", echo.display());
        return;
    }
    std::fs::copy(echo, project.path().join("echo.wasm")).unwrap();
    let file = project.path().join("opcell.toml");
    let text = std::fs::read_to_string(&file).unwrap() + "[plugins.echo]\npath = \"echo.wasm\"\n";
    std::fs::write(file, text).unwrap();
    let workflow = r#"{:name "w" :description "d" :steps
        [{:name "all" :type :invoke :operation "echo/echo" :args {:n 1} :each {:over "$inputs.items" :concurrency 8}}
         {:name "end" :type :exit :status :success :output {:done true}}]}"#;
    std::fs::write(project.path().join("w.edn"), workflow).unwrap();
    let items: Vec<String> = (0..1_000).map(|n| n.to_string()).collect();
    std::fs::write(project.path().join("in.json"), format!("{{\"items\": [{}]}}", items.join(","))).unwrap();
    let run = ["run", "w", "-i", "@in.json"];
    let (shown, code) = on_terminal(project.path(), 120, &run, &[("NO_COLOR", "1")]);
    assert_eq!(code, 0, "{shown}");
    let calls: Vec<&str> = shown.lines().filter(|line| line.contains("echo/echo")).collect();
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert!(["1000 calls", "median", "max"].iter().all(|text| calls[0].contains(text)), "{calls:?}");
    let (shown, _) = on_terminal(project.path(), 120, &[&run[..], &["--verbose"]].concat(), &[("NO_COLOR", "1")]);
    assert_eq!(shown.lines().filter(|line| line.contains("echo/echo")).count(), 1_000, "--verbose has every call");
}

#[test]
fn consent_is_asked_for_on_a_terminal_and_remembered() {
    if !*HAS_TERMINAL {
        return;
    }
    let (project, home) = (project(), tempfile::tempdir().unwrap());
    let file = project.path().join("opcell.toml");
    std::fs::write(&file, "workflows = [\".\"]\n[journal]\n[sessions.bash]\ndangerous = true\n").unwrap();
    let environment = [("HOME", home.path().to_str().unwrap()), ("NO_COLOR", "1")];
    let run = |name: &str, typed: &str| {
        typed_on_terminal(project.path(), 120, &["run", "w", "--as", name], &environment, typed)
    };
    for refusal in ["n\n", "\n", "yess\n", ""] {
        let (shown, code) = run("refused", refusal);
        assert!(code == 2 && shown.contains("Allow this? [y/N]") && shown.contains("run commands"), "{code}: {shown}");
    }
    let (shown, code) = run("allowed", "y\n");
    assert_eq!(code, 3, "{shown}");
    let (shown, code) = run("again", "");
    assert!(code == 3 && !shown.contains("Allow this?"), "{code}: {shown}");
    // Another list is another question.
    let more = std::fs::read_to_string(&file).unwrap() + "path = \"..\"\n";
    std::fs::write(&file, more).unwrap();
    let (shown, code) = run("changed", "n\n");
    assert!(code == 2 && shown.contains("something else than you allowed"), "{code}: {shown}");
}

#[test]
fn lines_of_a_chat_are_edited_and_those_of_earlier_chats_come_back() {
    if !*HAS_TERMINAL {
        return;
    }
    let (directory, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/parcel");
    for file in ["opcell.toml", "parcel.pack.json", "script.yaml", "orders.txt", "rules.txt"] {
        std::fs::copy(example.join(file), directory.path().join(file)).unwrap();
    }
    let chat = |arguments: &[&str], typed: &str| {
        let arguments = [&["chat", "parcel.pack.json"], arguments].concat();
        typed_on_terminal(directory.path(), 80, &arguments, &[("HOME", home.path().to_str().unwrap())], typed)
    };
    // A letter is taken back; a line that begins with a space is kept nowhere; the arrow brings the line before it.
    let (shown, code) = chat(&[], "/statex\x7f\r /artifacts\r\x1b[A\r/quit\r");
    assert_eq!((shown.matches("state `desk`, events:").count(), code), (2, 0), "{shown}");
    let kept = home.path().join(".local/state/opcell/chat-history");
    let lines = std::fs::read_to_string(&kept).unwrap();
    assert!(lines.contains("/state\n/quit\n") && !lines.contains("/artifacts"), "{lines}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&kept.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    // The line before the last one of the chat before.
    let (shown, code) = chat(&[], "\x1b[A\x1b[A\r/quit\r");
    assert_eq!((shown.matches("state `desk`, events:").count(), code), (1, 0), "{shown}");
    let lines = std::fs::read_to_string(&kept).unwrap();
    let (shown, _) = chat(&["--no-history"], "\x1b[A/state\r/quit\r");
    assert_eq!(shown.matches("state `desk`, events:").count(), 1, "{shown}");
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), lines, "nothing is kept, and nothing comes back");
}

#[test]
fn a_person_at_the_terminal_is_asked_about_a_call_before_it_is_made() {
    if !*HAS_TERMINAL {
        return;
    }
    let project = tempfile::tempdir().unwrap();
    std::fs::create_dir(project.path().join("work")).unwrap();
    let at = |name: &str| project.path().join(name);
    let settings = "workflows = [\".\"]\n[sessions]\nscript = \"script.yaml\"\ncontext-files = \"none\"\n\
                    [sessions.defaults]\ntools = [\"write\"]\napprove = \"always\"\n\
                    [sessions.files.work]\npath = \"work\"\naccess = \"read-write\"\n";
    std::fs::write(at("opcell.toml"), settings).unwrap();
    let workflow = r#"{:name "w" :description "d" :steps [{:name "talk" :type :session :contributions [{:type :template :text "Go." :vars {}}]}]}"#;
    std::fs::write(at("w.edn"), workflow).unwrap();
    let script = "version: 1\norder: any\nturns:\n  - when: { round: 0 }\n    tool-calls:\n\
                  \x20     - { name: write, arguments: { path: a.txt, content: one } }\n\
                  \x20     - { name: write, arguments: { path: b.txt, content: two } }\n\
                  \x20 - when: { round: 1 }\n    text: Done.\n";
    std::fs::write(at("script.yaml"), script).unwrap();
    let run = |typed: &str| {
        let _ = (std::fs::remove_file(at("work/a.txt")), std::fs::remove_file(at("work/b.txt")));
        typed_on_terminal(project.path(), 120, &["run", "w"], &[("NO_COLOR", "1")], typed)
    };
    // One is changed, and the other one is made as it is; a word that is no answer is asked again.
    let changed = r#"{"path": "a.txt", "content": "three"}"#;
    let (shown, code) = run(&format!("what\nw\ne\n{changed}\ny\n"));
    assert!(code == 0 && shown.contains("[1 of 2]") && shown.contains("+ one") && shown.contains("Done."), "{shown}");
    assert_eq!(std::fs::read_to_string(at("work/a.txt")).unwrap(), "three");
    assert_eq!(std::fs::read_to_string(at("work/b.txt")).unwrap(), "two");
    // All are refused at once.
    let (shown, code) = run("N\nnot now\n");
    assert!(code == 0 && shown.contains("Done."), "{shown}");
    assert!(!at("work/a.txt").exists() && !at("work/b.txt").exists());
    // No answer: the run stays as it is.
    let (shown, code) = run("q\n");
    assert!(code == 3 && shown.contains("the run is not kept"), "{code}: {shown}");
    assert!(!at("work/a.txt").exists());
    let (shown, code) = run("a\nn\nr\ny\n");
    assert!(code == 0 && shown.contains("[[sessions.approved]]"), "{shown}");
    assert_eq!(std::fs::read_to_string(at("opcell.toml")).unwrap(), settings, "nothing was written");
}

/// A server whose tool tells its progress, and ends a while after.
const COPIER: &str = r#"while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"method":"initialize"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"}}}' ;;
    *'"method":"tools/list"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"tools":[{"name":"copy","inputSchema":{"type":"object"}}]}}' ;;
    *'"method":"tools/call"'*)
      token=${line#*\"progressToken\":}; token=${token%%[,\}]*}
      echo '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":'"$token"',"progress":3,"total":7,"message":"\u001b[2Jnotes.txt"}}'
      sleep 2
      echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"content":[{"type":"text","text":"copied"}]}}' ;;
    *'"method":"server/discover"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"no such method"}}' ;;
  esac
done
"#;

#[test]
fn the_progress_of_a_call_is_in_the_line_of_its_step_and_writes_nothing_else() {
    if !*HAS_TERMINAL {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    write("disk.sh", COPIER);
    write(
        "opcell.toml",
        "[mcp.disk]\ncommand = [\"sh\", \"disk.sh\"]\n\n[tools]\ncopy_files = { mcp = \"disk\", tool = \"copy\" }\n",
    );
    write(
        "w.edn",
        r#"{:name "w" :description "Copies" :steps [{:name "save" :type :invoke :operation "copy_files" :args {}}]}"#,
    );
    let trusted = Command::new(env!("CARGO_BIN_EXE_opcell"))
        .arg("trust")
        .current_dir(directory.path())
        .env("HOME", directory.path())
        .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(trusted.status.success(), "{trusted:?}");
    let (shown, code) = on_terminal(directory.path(), 80, &["run", "w.edn"], &[]);
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("save  3 of 7: ") && shown.contains("notes.txt"), "{shown:?}");
    assert!(!shown.contains("\u{1b}[2J"), "{shown:?}");
    // Elsewhere there are no lines that move, and so none of progress.
    let (plain, code) = on_terminal(directory.path(), 80, &["run", "w.edn", "--quiet"], &[]);
    assert!(code == 0 && !plain.contains("3 of 7"), "{plain:?}");
}
