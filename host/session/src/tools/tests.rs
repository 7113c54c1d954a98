use super::*;
use crate::skills::SkillFolder;
use crate::testing::{context, session};
use async_trait::async_trait;
use opcell_engine::call;
use opcell_engine::conversation::ToolCallRequest;
use opcell_engine::ports::{Effects, Reply, ToolCall};
use opcell_engine::receipt::Provider;
use opcell_engine::tool::{Caller, ToolInput};
use opcell_types::{Value, quota::ThisProcess};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A writable root `work`, a read-only root `docs`, and a file outside of both.
struct World {
    folder: TempDir,
    toolbox: Toolbox,
}

fn put(root: &Path, path: &str, text: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn world() -> World {
    let folder = TempDir::new().unwrap();
    put(folder.path(), "secret.txt", "outside");
    put(folder.path(), "work/a.txt", "one\ntwo\nthree\n");
    put(folder.path(), "work/src/main.rs", "fn main() {}\n// TODO: more\n");
    put(folder.path(), "work/src/deep/lib.rs", "// todo: less\n");
    put(folder.path(), "work/.git/config", "TODO");
    put(folder.path(), "work/image.bin", [0xff, 0xfe, 0x00]);
    put(folder.path(), "docs/guide.md", "Read me. TODO\n");
    put(folder.path(), "skills/tidy/SKILL.md", "---\ndescription: Tidies.\n---\nTidy up.\n");
    put(folder.path(), "skills/tidy/ref/list.md", "a list");
    symlink("../secret.txt", folder.path().join("work/link.txt")).unwrap();
    symlink("..", folder.path().join("work/up")).unwrap();
    symlink("a.txt", folder.path().join("work/inner.txt")).unwrap();
    let root = |name: &str, writable| FileRoot { writable, ..FileRoot::read(name, folder.path().join(name)) };
    let roots = FileRoots::open(&[root("work", true), root("docs", false)], &Arc::default(), &ThisProcess).unwrap();
    let skills = Arc::new(SkillLibrary::discover(&[SkillFolder::required(folder.path().join("skills"))]));
    let mut shell = Shell::new(folder.path().join("work"));
    shell.timeout = Duration::from_secs(1);
    let tools = file_tools(roots, skills).into_iter().chain([shell_tool(shell)]);
    let toolbox = Toolbox::new(tools, RESULT_LIMIT).unwrap();
    World { folder, toolbox }
}

fn prepare(world: &World, name: &str, arguments: serde_json::Value) -> ToolCall {
    let mut opened = session("");
    opened.tools = world.toolbox.tools().map(|tool| tool.description.clone()).collect();
    opened.settings.skills = Some(vec!["tidy".to_owned()]);
    let call = call::ToolCall {
        context: context("s"),
        session: Arc::new(opened),
        request: ToolCallRequest { id: "c".to_owned(), name: name.to_owned(), arguments: Value::from(arguments) },
        left: opcell_ir::ir::RunLimits::default(),
        approved: None,
        given: None,
    };
    ToolCall::new(call, CancellationToken::new())
}

async fn call(world: &World, name: &str, arguments: serde_json::Value) -> Result<Value, Failure> {
    world.toolbox.call(&prepare(world, name, arguments)).await.result
}

async fn text(world: &World, name: &str, arguments: serde_json::Value) -> String {
    call(world, name, arguments).await.unwrap().as_str().unwrap().to_owned()
}

async fn reason(world: &World, name: &str, arguments: serde_json::Value) -> String {
    let failed = call(world, name, arguments).await.unwrap_err();
    assert!(!failed.message.contains(&world.folder.path().display().to_string()), "no host paths: {}", failed.message);
    failed.reason.to_string()
}

#[tokio::test]
async fn read_gives_text_whole_or_in_parts() {
    let world = world();
    assert_eq!(text(&world, "read", json!({"path": "a.txt"})).await, "one\ntwo\nthree\n");
    let part = text(&world, "read", json!({"path": "a.txt", "offset": 2, "limit": 1})).await;
    assert_eq!(part, "two\n[lines 2 to 2 of 3; read on with offset 3]");
    assert_eq!(
        text(&world, "read", json!({"path": "a.txt", "offset": 9})).await,
        "[the file has 3 lines; there is no line 9]"
    );
    assert_eq!(text(&world, "read", json!({"path": "docs:guide.md"})).await, "Read me. TODO\n");
    assert_eq!(text(&world, "read", json!({"path": "inner.txt"})).await, "one\ntwo\nthree\n", "a link inside the root");
    let absolute = world.folder.path().canonicalize().unwrap().join("docs/guide.md");
    assert_eq!(text(&world, "read", json!({"path": absolute})).await, "Read me. TODO\n");
}

#[tokio::test]
async fn read_serves_the_sessions_skills_and_their_files() {
    let world = world();
    assert_eq!(text(&world, "read", json!({"path": "skill:tidy/SKILL.md"})).await, "Tidy up.\n");
    assert_eq!(text(&world, "read", json!({"path": "skill:tidy"})).await, "Tidy up.\n");
    assert_eq!(text(&world, "read", json!({"path": "skill:tidy/ref/list.md"})).await, "a list");
    assert_eq!(reason(&world, "read", json!({"path": "skill:other/SKILL.md"})).await, "skill-refused");
    assert_eq!(reason(&world, "read", json!({"path": "skill:tidy/../../secret.txt"})).await, "skill-failed");
}

#[tokio::test]
async fn no_path_leaves_its_root() {
    let world = world();
    for path in [
        "../secret.txt",
        "src/../../secret.txt",
        "link.txt",
        "up/secret.txt",
        "/etc/passwd",
        "docs:../secret.txt",
        "docs:/etc/passwd",
        "",
    ] {
        assert_eq!(reason(&world, "read", json!({"path": path})).await, "file-refused", "{path}");
        assert_eq!(reason(&world, "write", json!({"path": path, "content": "x"})).await, "file-refused", "{path}");
    }
    assert_eq!(fs::read_to_string(world.folder.path().join("secret.txt")).unwrap(), "outside");
    assert_eq!(reason(&world, "ls", json!({"path": "up"})).await, "file-refused");
    assert_eq!(reason(&world, "glob", json!({"path": "up", "pattern": "**"})).await, "file-refused");
}

#[tokio::test]
async fn what_is_not_a_text_file_is_refused_by_its_kind() {
    let world = world();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        world.folder.path().join("work/pipe"),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    assert_eq!(reason(&world, "read", json!({"path": "pipe"})).await, "file-kind");
    assert_eq!(reason(&world, "read", json!({"path": "src"})).await, "file-kind");
    assert_eq!(reason(&world, "read", json!({"path": "image.bin"})).await, "file-not-text");
    assert_eq!(reason(&world, "read", json!({"path": "gone"})).await, "file-not-found");
    assert_eq!(reason(&world, "write", json!({"path": "src", "content": "x"})).await, "file-kind");
    let big = fs::File::create(world.folder.path().join("work/big")).unwrap();
    big.set_len(files::FILE_LIMIT + 1).unwrap();
    assert_eq!(reason(&world, "read", json!({"path": "big"})).await, "file-too-large");
}

#[tokio::test]
async fn write_creates_and_replaces_where_the_root_is_writable() {
    let world = world();
    let said = text(&world, "write", json!({"path": "new/dir/b.txt", "content": "héllo"})).await;
    assert_eq!(said, "wrote 6 bytes to new/dir/b.txt");
    assert_eq!(fs::read_to_string(world.folder.path().join("work/new/dir/b.txt")).unwrap(), "héllo");
    text(&world, "write", json!({"path": "a.txt", "content": ""})).await;
    assert_eq!(fs::read_to_string(world.folder.path().join("work/a.txt")).unwrap(), "");
    let left: Vec<_> =
        fs::read_dir(world.folder.path().join("work")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".opcell-")), "{left:?}");
    assert_eq!(reason(&world, "write", json!({"path": "docs:x", "content": ""})).await, "file-refused");
}

#[tokio::test]
async fn a_link_is_not_written_to() {
    let world = world();
    assert_eq!(reason(&world, "write", json!({"path": "inner.txt", "content": "new"})).await, "file-refused");
    let edit = json!({"path": "inner.txt", "old_text": "one", "new_text": "1"});
    assert_eq!(reason(&world, "edit", edit).await, "file-refused");
    assert_eq!(text(&world, "read", json!({"path": "inner.txt"})).await, "one\ntwo\nthree\n");
}

#[tokio::test]
async fn edit_replaces_one_place_or_all_when_asked() {
    let world = world();
    let edit = |old: &str, all: bool| json!({"path": "a.txt", "old_text": old, "new_text": "X", "replace_all": all});
    assert_eq!(text(&world, "edit", edit("two", false)).await, "replaced 1 of 1 in a.txt");
    assert_eq!(reason(&world, "edit", edit("two", false)).await, "edit-not-found");
    assert_eq!(reason(&world, "edit", edit("e", false)).await, "edit-ambiguous");
    assert_eq!(text(&world, "edit", edit("e", true)).await, "replaced 3 of 3 in a.txt");
    assert_eq!(fs::read_to_string(world.folder.path().join("work/a.txt")).unwrap(), "onX\nX\nthrXX\n");
    let empty = json!({"path": "a.txt", "old_text": "", "new_text": "X"});
    assert_eq!(reason(&world, "edit", empty).await, "invalid-arguments");
}

#[tokio::test]
async fn ls_tells_kinds_and_sizes() {
    let world = world();
    assert_eq!(text(&world, "ls", json!({})).await, ".git/\na.txt 14\nimage.bin 3\ninner.txt@\nlink.txt@\nsrc/\nup@\n");
    assert_eq!(text(&world, "ls", json!({"path": "docs:"})).await, "guide.md 14\n");
    assert_eq!(reason(&world, "ls", json!({"path": "a.txt"})).await, "file-kind");
}

#[tokio::test]
async fn glob_finds_files_without_following_links() {
    let world = world();
    assert_eq!(text(&world, "glob", json!({"pattern": "**/*.rs"})).await, "src/main.rs\nsrc/deep/lib.rs\n");
    assert_eq!(text(&world, "glob", json!({"pattern": "*.rs", "path": "src"})).await, "src/main.rs\n");
    assert_eq!(text(&world, "glob", json!({"pattern": "*.md", "path": "docs:"})).await, "docs:guide.md\n");
    assert_eq!(text(&world, "glob", json!({"pattern": "*.nothing"})).await, "[nothing found]");
    assert_eq!(reason(&world, "glob", json!({"pattern": "a[", "path": "src"})).await, "bad-pattern");
}

#[tokio::test]
async fn grep_finds_lines_in_text_files() {
    let world = world();
    assert_eq!(text(&world, "grep", json!({"pattern": "TODO"})).await, "src/main.rs:2: // TODO: more\n");
    let both = text(&world, "grep", json!({"pattern": "todo", "ignore_case": true, "glob": "src/**"})).await;
    assert_eq!(both, "src/main.rs:2: // TODO: more\nsrc/deep/lib.rs:1: // todo: less\n");
    assert_eq!(text(&world, "grep", json!({"pattern": "^t", "path": "a.txt"})).await, "a.txt:2: two\na.txt:3: three\n");
    let cut = text(&world, "grep", json!({"pattern": ".", "path": "a.txt", "limit": 1})).await;
    assert_eq!(cut, "a.txt:1: one\n[incomplete: more lines match; narrow the pattern or the path]");
    assert_eq!(reason(&world, "grep", json!({"pattern": "("})).await, "bad-pattern");
    assert_eq!(reason(&world, "grep", json!({"pattern": r"\w{1000}{1000}"})).await, "bad-pattern");
}

#[tokio::test]
async fn bash_gives_exit_and_output_in_the_working_folder_without_the_hosts_environment() {
    let world = world();
    let result = call(&world, "bash", json!({"command": "cat a.txt; echo bad >&2; exit 3"})).await.unwrap();
    assert_eq!(result, Value::from(json!({"exit": 3, "stdout": "one\ntwo\nthree\n", "stderr": "bad\n"})));
    let result = call(&world, "bash", json!({"command": "env"})).await.unwrap();
    let environment = result.get("stdout").and_then(Value::as_str).unwrap().to_owned();
    assert!(
        std::env::var_os("CARGO_MANIFEST_DIR").is_some() && !environment.contains("CARGO_MANIFEST_DIR"),
        "{environment}"
    );
}

#[tokio::test]
async fn bash_is_killed_with_its_children_at_the_deadline_and_when_cancelled() {
    let world = world();
    let began = Instant::now();
    assert_eq!(reason(&world, "bash", json!({"command": "(sleep 30; touch late) & sleep 30"})).await, "timeout");
    let prepared = prepare(&world, "bash", json!({"command": "sleep 30 & sleep 30; touch late"}));
    let cancel = prepared.cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        cancel.cancel();
    });
    assert_eq!(world.toolbox.call(&prepared).await.result.unwrap_err().reason.as_ref(), "cancelled");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test]
async fn bash_does_not_wait_for_what_it_leaves_behind_and_keeps_outputs_bounded() {
    let world = world();
    let result = call(&world, "bash", json!({"command": "sleep 30 & echo done"})).await.unwrap();
    assert_eq!(result.get("stdout"), Some(&Value::from("done\n")));
    // Neither does what left its session, and it ends all the same.
    let left = call(&world, "bash", json!({"command": "setsid sleep 300 & echo $!"})).await.unwrap();
    let left = left.get("stdout").and_then(Value::as_str).unwrap().trim().to_owned();
    assert!(!left.is_empty() && !std::path::Path::new("/proc").join(left).exists());
    let result = call(&world, "bash", json!({"command": "head -c 1000000 /dev/zero | tr '\\0' x"})).await.unwrap();
    let shown = result.as_str().unwrap();
    assert!(shown.len() < RESULT_LIMIT + 100 && shown.contains("[truncated:"), "{}", shown.len());
    let result =
        call(&world, "bash", json!({"command": "head -c 1000000 /dev/zero | tr '\\0' x; echo broken >&2; exit 7"}))
            .await;
    let shown = result.unwrap().as_str().unwrap().to_owned();
    assert!(shown.contains("broken") && shown.contains("[truncated:"), "the end is shown: {}", shown.len());
}

/// The receipt of a call, without its time.
async fn receipt(world: &World, name: &str, arguments: serde_json::Value) -> serde_json::Value {
    let receipt = world.toolbox.call(&prepare(world, name, arguments)).await.receipt.unwrap();
    let mut receipt = serde_json::Value::from(&*receipt);
    assert!(receipt.as_object_mut().unwrap().remove("duration-us").unwrap().is_u64());
    receipt
}

#[tokio::test]
async fn every_call_leaves_a_receipt_that_measures_and_does_not_tell() {
    let world = world();
    let calls = [
        ("read", json!({"path": "a.txt"}), 14),
        ("ls", json!({"path": "src/deep"}), 10),
        ("glob", json!({"pattern": "**/lib.rs"}), 16),
        ("grep", json!({"pattern": "fn main"}), 28),
        ("write", json!({"path": "new.txt", "content": "swordfish"}), 24),
        ("edit", json!({"path": "new.txt", "old_text": "swordfish", "new_text": "marlin"}), 26),
        ("bash", json!({"command": "echo swordfish"}), 45),
    ];
    for (tool, arguments, bytes_out) in calls {
        let bytes_in = arguments.to_string().len();
        let left = receipt(&world, tool, arguments).await;
        let expected = json!({
            "tool": tool, "provider": "host", "status": "completed", "bytes-in": bytes_in, "bytes-out": bytes_out,
        });
        assert_eq!(left, expected);
    }
    let failed = receipt(&world, "read", json!({"path": "swordfish"})).await;
    let expected = json!({
        "tool": "read", "provider": "host", "status": "failed", "error": "file-not-found", "bytes-in": 20, "bytes-out": 0,
    });
    assert_eq!(failed, expected);
}

#[tokio::test]
async fn a_refused_call_leaves_the_rule_and_what_would_allow_it() {
    let world = world();
    let calls = [
        (
            "write",
            json!({"path": "docs:guide.md", "content": "x"}),
            "file-refused",
            "write to files docs",
            "the file root `docs` is read-only",
        ),
        (
            "read",
            json!({"path": "/etc/passwd"}),
            "file-refused",
            "files",
            "the path is not in any file root: work, docs",
        ),
        (
            "read",
            json!({"path": "../secret.txt"}),
            "file-refused",
            "files",
            "`..` is not allowed; give the path from the root",
        ),
        (
            "read",
            json!({"path": "skill:hidden"}),
            "skill-refused",
            "skill hidden",
            "the session does not have the skill",
        ),
        ("launch", json!({}), "unknown-tool", "tool launch", "the session does not have the tool"),
    ];
    for (tool, arguments, error, capability, rule) in calls {
        let left = receipt(&world, tool, arguments).await;
        assert_eq!((&left["status"], &left["error"]), (&json!("denied"), &json!(error)), "{left}");
        let denial = &left["denials"][0];
        assert_eq!((&denial["capability"], &denial["rule"]), (&json!(capability), &json!(rule)), "{left}");
        assert!(denial["remedy"]["kind"].is_string(), "{left}");
        assert!(!left.to_string().contains("passwd") && !left.to_string().contains("guide"), "no paths: {left}");
    }
}

#[tokio::test]
async fn a_call_that_is_cancelled_was_stopped() {
    let world = world();
    let call = prepare(&world, "bash", json!({"command": "sleep 30"}));
    call.cancel.cancel();
    let receipt = world.toolbox.call(&call).await.receipt.unwrap();
    assert_eq!(receipt.get("status"), Some(&Value::from("stopped")));
    assert_eq!(receipt.get("error"), Some(&Value::from("cancelled")));
}

#[tokio::test]
async fn a_search_ends_with_the_call_that_a_timeout_dropped() {
    static ENDED: AtomicBool = AtomicBool::new(false);
    let world = world();
    let files = Arc::new(files::Files {
        roots: FileRoots::open(
            &[FileRoot::read("work", world.folder.path().join("work"))],
            &Arc::default(),
            &ThisProcess,
        )
        .unwrap(),
        skills: Arc::default(),
    });
    // As long as a search of very many files, which looks at this before each of them.
    let search = files::tool(&files, ToolDescription::new("search", "", json!({})), "", Effects::Pure, |_, ask| {
        let begun = Instant::now();
        while !ask.cancel.is_cancelled() && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(1));
        }
        ENDED.store(ask.cancel.is_cancelled(), Ordering::SeqCst);
        Ok(String::new())
    });
    let call = prepare(&world, "read", json!({"path": "a.txt"}));
    tokio::time::timeout(Duration::from_millis(50), search.tool.call(&ToolInput::of_model(&call))).await.unwrap_err();
    let begun = Instant::now();
    while !ENDED.load(Ordering::SeqCst) && begun.elapsed() < Duration::from_secs(10) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(ENDED.load(Ordering::SeqCst), "it went on");
}

#[tokio::test]
async fn a_search_that_is_cancelled_looks_at_no_more_files() {
    let world = world();
    let files = Arc::new(files::Files {
        roots: FileRoots::open(
            &[FileRoot::read("work", world.folder.path().join("work"))],
            &Arc::default(),
            &ThisProcess,
        )
        .unwrap(),
        skills: Arc::default(),
    });
    for (tool, pattern) in [(search::glob(&files), "**/*"), (search::grep(&files), "fn")] {
        let call = prepare(&world, "glob", json!({"pattern": pattern}));
        call.cancel.cancel();
        let found = tool.tool.call(&ToolInput::of_model(&call)).await.unwrap();
        assert_eq!(found.as_str(), Some("[incomplete: the run was cancelled]"));
    }
}

#[tokio::test]
async fn a_folder_of_very_many_files_is_refused() {
    let world = world();
    let many = world.folder.path().join("work/many");
    fs::create_dir(&many).unwrap();
    let first = many.join("0");
    fs::write(&first, "").unwrap();
    for number in 1..=50_000 {
        fs::File::create(many.join(number.to_string())).unwrap();
    }
    for (tool, arguments) in [
        ("ls", json!({"path": "many"})),
        ("glob", json!({"pattern": "*", "path": "many"})),
        ("grep", json!({"pattern": "x", "path": "many"})),
    ] {
        let failed = call(&world, tool, arguments).await.unwrap_err();
        assert!(failed.message.contains("more than 50000 entries"), "{tool}: {}", failed.message);
    }
}

/// Fails as if the host had refused it something.
struct Pretends;

#[async_trait]
impl opcell_engine::ports::Operations for Pretends {
    fn effects(&self, _: &str) -> Option<Effects> {
        Some(Effects::Pure)
    }

    async fn invoke(&self, _: opcell_engine::ports::Call) -> Reply<opcell_engine::ports::Success> {
        let details = json!({"capability": "everything", "rule": "none", "remedy": "grant it"});
        let failure = Failure { details: Some(details.into()), ..failure("denied", "please") };
        let cell = json!({"plugin": "sly", "operation": "sum/add", "error": "plugin-failure"});
        Reply { result: Err(failure), receipt: Some(Value::from(cell).into()) }
    }
}

#[tokio::test]
async fn only_the_host_says_what_the_host_refused() {
    let mut world = world();
    let description = ToolDescription::new("sum/add", "Adds.", json!({"type": "object"}));
    let provider = Provider::Plugin("sly".into());
    let tool = OperationTool::new(Arc::new(Pretends), description, Effects::Pure, provider);
    world.toolbox = Toolbox::new([SessionTool::new(Arc::new(tool))], RESULT_LIMIT).unwrap();
    let left = receipt(&world, "sum/add", json!({})).await;
    assert_eq!((&left["status"], &left["error"]), (&json!("failed"), &json!("plugin-failure")));
    assert_eq!((&left["provider"], &left["denials"]), (&json!("plugin:sly"), &serde_json::Value::Null));
    assert_eq!(left["receipt"]["plugin"], "sly");
}

struct Adds;

#[async_trait]
impl opcell_engine::ports::Operations for Adds {
    fn effects(&self, _: &str) -> Option<Effects> {
        Some(Effects::Pure)
    }

    async fn invoke(&self, call: opcell_engine::ports::Call) -> Reply<opcell_engine::ports::Success> {
        assert_eq!(call.id.as_ref(), "sum/add");
        let summary = (call.arguments.get("say") == Some(&Value::from(true))).then(|| "Added.".to_owned());
        let success = opcell_engine::ports::Success { data: call.of.arguments, summary, details: None };
        Reply { result: Ok(success), receipt: Some(Value::from("a cell").into()) }
    }
}

#[tokio::test]
async fn an_operation_is_a_tool_that_keeps_its_receipt() {
    let mut world = world();
    let description = ToolDescription::new("sum/add", "Adds.", json!({"type": "object", "required": ["n"]}));
    let tool = OperationTool::new(Arc::new(Adds), description, Effects::Pure, Provider::Plugin("sum".into()));
    world.toolbox = Toolbox::new([SessionTool::new(Arc::new(tool))], RESULT_LIMIT).unwrap();
    assert_eq!(call(&world, "sum/add", json!({"n": 1})).await.unwrap(), Value::from(json!({"n": 1})));
    let reply = world.toolbox.call(&prepare(&world, "sum/add", json!({"n": 1, "say": true}))).await;
    assert_eq!(reply.result.unwrap(), Value::from(json!({"summary": "Added.", "data": {"n": 1, "say": true}})));
    assert_eq!(reply.receipt.unwrap().get("receipt"), Some(&Value::from("a cell")));
    assert_eq!(reason(&world, "sum/add", json!({})).await, "invalid-arguments");
}

/// They are compiled when the tools are first called.
#[test]
fn the_schemas_of_our_own_tools_are_schemas() {
    let world = world();
    let mut own = world.toolbox.tools().filter(|tool| tool.own).peekable();
    assert!(own.peek().is_some());
    for tool in own {
        CheckedTool::new(tool.tool.clone(), 20).unwrap();
    }
}

#[tokio::test]
async fn a_tool_serves_steps_with_the_same_checks_and_without_a_session() {
    let world = world();
    let read = CheckedTool::new(world.toolbox.find("read").unwrap().tool.clone(), 20).unwrap();
    let input = |arguments: serde_json::Value| ToolInput {
        caller: Caller::Step,
        ..ToolInput::of_model(&prepare(&world, "read", arguments))
    };
    let ask = async |arguments| read.call(&input(arguments)).await;
    assert_eq!(ask(json!({"path": "docs:guide.md"})).await.unwrap(), Value::from("Read me. TODO\n"));
    assert_eq!(ask(json!({"path": 1})).await.unwrap_err().reason.as_ref(), "invalid-arguments");
    let cut = ask(json!({"path": "src/main.rs"})).await.unwrap();
    let cut = cut.as_str().unwrap();
    assert!(cut.contains("\n[truncated: 7 of 27 bytes are left out here]\n"), "{cut:?}");
    let skill = ask(json!({"path": "skill:tidy/SKILL.md"})).await.unwrap_err();
    assert_eq!(skill.reason.as_ref(), "skill-refused", "a step has no session whose skills it could read");
}

#[test]
fn roots_have_plain_names_once_and_must_exist() {
    let folder = TempDir::new().unwrap();
    let root = |name: &str| FileRoot::read(name, folder.path());
    for bad in ["", "a:b", "skill", "../x"] {
        assert!(
            matches!(FileRoots::open(&[root(bad)], &Arc::default(), &ThisProcess), Err(RootError::Name(_))),
            "{bad}"
        );
    }
    assert!(matches!(FileRoots::open(&[root("a"), root("a")], &Arc::default(), &ThisProcess), Err(RootError::Name(_))));
    let gone = FileRoot { path: "/nowhere/at/all".into(), ..root("gone") };
    assert!(
        FileRoots::open(&[gone], &Arc::default(), &ThisProcess).unwrap_err().to_string().contains("/nowhere/at/all")
    );
}

#[test]
fn without_a_writable_root_there_is_no_write_and_no_edit() {
    let folder = TempDir::new().unwrap();
    let root = FileRoot::read("docs", folder.path());
    let tools = file_tools(FileRoots::open(&[root], &Arc::default(), &ThisProcess).unwrap(), Arc::default());
    let names: Vec<_> = tools.iter().map(SessionTool::name).collect();
    assert_eq!(names, ["read", "ls", "glob", "grep"]);
}
