#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::type_complexity, reason = "tests and what they share")]

use super::{Binary, CallOptions, McpServer, Server, ServerState, ServerUse};
use opcell_types::{Failure, Source, Value};
use std::{fmt::Write as _, time::Duration};
use tokio::time::timeout;

/// A server that lists `tools` and answers `tools/call` with these results, in order.
fn listing_server(
    tools: &str,
    results: &[&str],
    config: impl FnOnce(McpServer) -> McpServer,
) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut calls = String::new();
    for (index, result) in results.iter().enumerate() {
        let _ = writeln!(calls, "      {index}) {result} ;;");
    }
    let list = answer(&format!(r#"{{"tools":{}}}"#, tools.replace('$', "\\$").replace("@ID@", "$id")));
    let script = format!(
        r#"calls=0
while read -r line; do
  id=${{line#*\"id\":}}; id=${{id%%[,\}}]*}}
  case $line in
    *'"method":"initialize"'*)
      echo x >> starts
      echo "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{{\"tools\":{{\"listChanged\":true}}}},\"serverInfo\":{{\"name\":\"test\",\"version\":\"1\"}}}}}}" ;;
    *'"method":"tools/list"'*)
      echo x >> lists
      {list} ;;
    *'"method":"tools/call"'*)
      case $calls in
{calls}      esac
      calls=$((calls + 1)) ;;
  esac
done
"#
    );
    std::fs::write(folder.path().join("server.sh"), script).unwrap();
    let config = config(McpServer { result_bytes: 4096, ..scripted(folder.path()) });
    (Server::new("test".to_owned(), config), folder)
}

/// The configuration of a server that is the script `server.sh` of a folder.
pub(super) fn scripted(folder: &std::path::Path) -> McpServer {
    McpServer {
        program: "sh".to_owned(),
        arguments: vec!["server.sh".to_owned()],
        directory: folder.to_owned(),
        env: Vec::new(),
        call_time: Duration::from_secs(20),
        result_bytes: 1 << 20,
        remote: None,
        confine: false,
        read: Vec::new(),
        write: Vec::new(),
        network: false,
    }
}

fn server(results: &[&str], config: impl FnOnce(McpServer) -> McpServer) -> (Server, tempfile::TempDir) {
    listing_server("[]", results, config)
}

fn answer(result: &str) -> String {
    format!(r#"echo "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{}}}""#, result.replace('"', "\\\""))
}

fn nothing() -> Value {
    Value::object::<&str>([])
}

async fn call(server: &Server) -> Result<Value, Failure> {
    server.call("t", &nothing(), CallOptions::new(Binary::Keep)).await.map(|called| called.value)
}

/// The number of times the script noted something.
fn count(folder: &tempfile::TempDir, what: &str) -> usize {
    std::fs::read_to_string(folder.path().join(what)).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn results_become_data_and_errors_may_be_retried() {
    let results = [
        answer(r#"{"content":[{"type":"text","text":"plain"}]}"#),
        answer(r#"{"content":[{"type":"text","text":"[1, 2]"}]}"#),
        answer(r#"{"content":[],"structuredContent":{"n":7}}"#),
        answer(r#"{"content":[{"type":"text","text":"busy"}],"isError":true}"#),
    ];
    let results: Vec<&str> = results.iter().map(String::as_str).collect();
    let (server, _folder) = server(&results, |config| config);
    assert_eq!(call(&server).await.unwrap(), Value::from("plain"));
    assert_eq!(call(&server).await.unwrap().to_json(), "[1,2]");
    assert_eq!(call(&server).await.unwrap().to_json(), r#"{"n":7}"#);
    let failure = call(&server).await.unwrap_err();
    assert_eq!((failure.source, failure.message.as_str(), failure.retriable), (Source::Tool, "busy", true));
}

#[tokio::test]
async fn a_step_gets_an_image_whole_and_a_model_is_told_what_it_was() {
    let image = answer(
        r#"{"content":[{"type":"text","text":"here"},{"type":"image","data":"AAAAAAAA","mimeType":"image/png"}]}"#,
    );
    let (server, _folder) = server(&[&image, &image, &image], |config| config);
    let kept = server.call("t", &nothing(), CallOptions::new(Binary::Keep)).await.unwrap().value;
    assert_eq!(kept.as_array().unwrap()[1].get("data"), Some(&Value::from("AAAAAAAA")));
    let seen = server.call("t", &nothing(), CallOptions::new(Binary::Attachments)).await.unwrap().value;
    assert_eq!(seen, kept);
    let reported = server.call("t", &nothing(), CallOptions::new(Binary::Omit)).await.unwrap().value.to_json();
    assert!(reported.contains(r#""mimeType":"image/png""#) && reported.contains(r#""bytes":6"#), "{reported}");
    assert!(!reported.contains("AAAA") && reported.contains("here"), "{reported}");
}

#[tokio::test]
async fn a_model_is_shown_sound_and_documents_and_told_of_other_binary_content() {
    let blob = |kind: &str| {
        format!(r#"{{"type":"resource","resource":{{"uri":"r://1","mimeType":"{kind}","blob":"AAAAAAAA"}}}}"#)
    };
    let sound = r#"{"type":"audio","data":"AAAAAAAA","mimeType":"audio/wav"}"#;
    let parts = [sound.to_owned(), blob("application/pdf"), blob("audio/mpeg"), blob("application/zip")].join(",");
    let content = answer(&format!(r#"{{"content":[{parts}]}}"#));
    let (server, _folder) = server(&[&content, &content], |config| config);
    let seen = server.call("t", &nothing(), CallOptions::new(Binary::Attachments)).await.unwrap().value;
    let text = |at: usize, key: &str| seen.as_array().unwrap()[at].get(key).and_then(Value::as_str).map(str::to_owned);
    let types: Vec<_> = (0..4).map(|at| (text(at, "type").unwrap(), text(at, "data").is_some())).collect();
    let expected = [("audio", true), ("file", true), ("audio", true), ("resource", false)];
    assert_eq!(types, expected.map(|(kind, has_data)| (kind.to_owned(), has_data)), "{}", seen.to_json());
    let reported = server.call("t", &nothing(), CallOptions::new(Binary::Omit)).await.unwrap().value.to_json();
    assert!(!reported.contains("AAAA"), "{reported}");
}

#[tokio::test]
async fn tools_come_with_their_descriptions_and_weighed_schemas_and_are_listed_once() {
    let tools = r#"[
        {"name":"add","description":"Adds.\u202e","inputSchema":{"type":"object","required":["a"]}},
        {"name":"bad","description":"Breaks.","inputSchema":{"$ref":"https://example.com/schema.json"}}
    ]"#;
    let (server, folder) = listing_server(&tools.replace('\n', ""), &[], |config| config);
    let add = server.tool("add").await.unwrap();
    assert_eq!(add.description, "Adds.\u{fffd}");
    assert_eq!(add.parameters.get("required").unwrap().to_json(), r#"["a"]"#);
    assert!(add.schema.check(&serde_json::json!({})).is_err());
    let refused = server.tool("bad").await.unwrap_err();
    assert_eq!(refused.reason.as_ref(), "mcp-unusable-tool", "{refused}");
    let unknown = server.tool("ad").await.unwrap_err();
    assert!(unknown.message.contains("did you mean `add`?"), "{unknown}");
    assert_eq!((count(&folder, "starts"), count(&folder, "lists")), (1, 1));
}

#[tokio::test]
async fn a_list_without_end_is_asked_for_until_it_is_too_long() {
    let tools =
        format!(r#"[{{"name":"t","description":"{}","inputSchema":{{}}}}],"nextCursor":"n@ID@""#, "x".repeat(1 << 20));
    let (server, folder) = listing_server(&tools, &[], |config| McpServer { result_bytes: 4 << 20, ..config });
    let listing = server.tools().await.unwrap();
    assert!(listing.truncated);
    assert_eq!(count(&folder, "lists"), 8, "of the 64 pages that a short list may have");
}

/// It never reads the answers: kept, they would fill memory.
#[tokio::test]
async fn a_server_that_asks_without_end_and_does_not_listen_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"read -r line
echo '{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"no such method"}}'
read -r line
echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"}}}'
yes '{"jsonrpc":"2.0","id":7,"method":"ping"}'
"#;
    std::fs::write(folder.path().join("server.sh"), script).unwrap();
    let (other, _folder) = server(&[], |config| McpServer { directory: folder.path().to_owned(), ..config });
    let failure = timeout(Duration::from_secs(15), other.tools()).await.unwrap().unwrap_err();
    assert!(matches!(failure.reason.as_ref(), "mcp-disconnected" | "mcp-not-started"), "{failure}");
}

#[tokio::test]
async fn a_list_that_changed_is_asked_for_again() {
    let changed = r#"echo "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}"; "#.to_owned()
        + &answer(r#"{"content":[]}"#);
    let (server, folder) = listing_server(r#"[{"name":"a","inputSchema":{}}]"#, &[&changed], |config| config);
    server.tools().await.unwrap();
    call(&server).await.unwrap();
    for _ in 0..200 {
        server.tools().await.unwrap();
        if count(&folder, "lists") == 2 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the list was asked for {} times", count(&folder, "lists"));
}

#[tokio::test]
async fn a_server_gets_no_more_of_the_environment_than_was_listed() {
    let secret = answer(r#"{"content":[{"type":"text","text":"[$HOME][$CARGO_MANIFEST_DIR]"}]}"#);
    let (server, _folder) =
        server(&[&secret], |config| McpServer { env: vec!["CARGO_MANIFEST_DIR".to_owned()], ..config });
    let home = call(&server).await.unwrap();
    assert_eq!(home.as_str().unwrap(), format!("[][{}]", std::env::var("CARGO_MANIFEST_DIR").unwrap()));
}

#[tokio::test]
async fn a_server_that_is_slow_or_talks_too_much_fails_the_call() {
    let quick = |config| McpServer { call_time: Duration::from_millis(1500), ..config };
    let flood = "head -c 100000 /dev/zero | tr '\\0' x; echo";
    for answer in ["sleep 30", flood] {
        let (server, _folder) = server(&[answer], quick);
        let failure = call(&server).await.unwrap_err();
        assert_eq!((failure.reason.as_ref(), failure.retriable), ("timeout", true), "{answer}");
    }
}

#[tokio::test]
async fn a_server_that_ends_says_why_and_is_started_again() {
    let (server, folder) = server(&["echo out of paper >&2; exit 3"], |config| config);
    for starts in 1..=2 {
        let failure = call(&server).await.unwrap_err();
        assert_eq!((failure.reason.as_ref(), failure.retriable), ("mcp-disconnected", true));
        assert!(failure.message.contains("exit status: 3") && failure.message.contains("out of paper"), "{failure}");
        assert_eq!(count(&folder, "starts"), starts);
    }
}

#[tokio::test]
async fn a_program_that_is_not_a_server_is_refused_with_its_exit_status_and_the_end_of_its_standard_error() {
    let cases: [(&str, &[&str], &[&str]); 4] = [
        ("/no/such/program", &[], &["cannot be started", "No such file"]),
        ("true", &[], &["exit status: 0"]),
        ("echo", &["hello"], &["exit status: 0"]),
        ("sh", &["-c", "echo 'no module named x' >&2; exit 127"], &["exit status: 127", "no module named x"]),
    ];
    for (program, arguments, said) in cases {
        let arguments = arguments.iter().map(|text| (*text).to_owned()).collect();
        let (server, _folder) = server(&[], |config| McpServer { program: program.to_owned(), arguments, ..config });
        let failure = call(&server).await.unwrap_err();
        assert_eq!((failure.reason.as_ref(), failure.retriable), ("mcp-not-started", false), "{program}");
        assert!(said.iter().all(|words| failure.message.contains(words)), "{failure}");
    }
}

#[tokio::test]
async fn callers_share_one_handshake_that_hangs_and_all_end_with_it() {
    let hangs = |config| McpServer {
        arguments: vec!["-c".to_owned(), "echo x >> starts; echo waiting >&2; sleep 60".to_owned()],
        call_time: Duration::from_millis(800),
        ..config
    };
    let (server, folder) = server(&[], hangs);
    // One gives up early and takes nothing from the others.
    let impatient = timeout(Duration::from_millis(50), call(&server));
    let (given_up, first, second) = tokio::join!(impatient, call(&server), call(&server));
    assert!(given_up.is_err());
    for failure in [first.unwrap_err(), second.unwrap_err()] {
        assert!(failure.message.contains("no handshake within 800 ms"), "{failure}");
        assert!(failure.message.contains("waiting"), "{failure}");
    }
    assert_eq!(count(&folder, "starts"), 1, "one process for all who wait");
}

#[tokio::test]
async fn dropping_a_server_ends_its_process() {
    let (server, folder) =
        server(&["echo $$ > pid"], |config| McpServer { call_time: Duration::from_secs(1), ..config });
    let _ = call(&server).await;
    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    drop(server);
    for _ in 0..100 {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        if status.is_empty() || status.contains(") Z ") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the server still runs");
}

/// It leaves its process group, its session and its parent.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn nothing_that_a_server_started_outlives_it() {
    let daemon = "setsid sh -c '(echo $$ > daemon; exec sleep 300) &' </dev/null >/dev/null 2>&1\n";
    let wait = "while ! [ -s daemon ]; do sleep 0.02; done\n";
    let done = answer(r#"{"content":[{"type":"text","text":"done"}]}"#);
    let (stays, ends) = (format!("{daemon}{wait}{done}"), format!("{daemon}{wait}exit 3"));
    let confined = |config: McpServer| {
        let write = vec![config.directory.clone()];
        McpServer { confine: true, write, ..config }
    };
    let trials: [(&str, &dyn Fn(McpServer) -> McpServer); 3] =
        [(&stays, &|config| config), (&ends, &|config| config), (&stays, &confined)];
    for (script, config) in trials {
        let (server, folder) = server(&[script], config);
        match call(&server).await {
            Ok(said) => assert_eq!(said, Value::from("done")),
            Err(failure) if failure.message.contains("Landlock") => continue,
            Err(failure) => assert!(failure.message.contains("exit status: 3"), "{failure}"),
        }
        let daemon = std::fs::read_to_string(folder.path().join("daemon")).unwrap();
        drop(server);
        let mut runs = true;
        for _ in 0..200 {
            let status = std::fs::read_to_string(format!("/proc/{}/stat", daemon.trim())).unwrap_or_default();
            runs = !status.is_empty() && !status.contains(") Z ");
            if !runs {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(!runs, "{script}");
    }
}

/// A lock in memory.
#[derive(Default)]
struct Held(std::sync::Mutex<Option<super::ToolDigests>>);

impl super::AcceptedTools for Held {
    fn accepted(&self, _server: &str) -> Option<super::ToolDigests> {
        self.0.lock().unwrap().clone()
    }

    fn first_look(&self, _server: &str, listing: &super::Listing) -> Result<(), String> {
        *self.0.lock().unwrap() = Some(listing.digests());
        Ok(())
    }
}

#[tokio::test]
async fn a_tool_that_changed_or_appeared_is_not_called_before_it_was_accepted() {
    let listed = |about: &str, name: &str| {
        format!(
            r#"[{{"name":"t","description":"{about}","inputSchema":{{"type":"object"}}}},{{"name":"{name}","inputSchema":{{}}}}]"#
        )
    };
    let done = answer(r#"{"content":[{"type":"text","text":"done"}]}"#);
    let pins = std::sync::Arc::new(Held::default());
    let (first, _folder) = listing_server(&listed("Reads.", "a"), &[&done, &done], |config| config);
    let first = first.pinned(pins.clone());
    assert_eq!(call(&first).await.unwrap(), Value::from("done"));
    assert_eq!(call(&first).await.unwrap(), Value::from("done"));

    let (second, _folder) = listing_server(&listed("Reads, and sends.", "b"), &[&done], |config| config);
    let second = second.pinned(pins.clone());
    let changed = call(&second).await.unwrap_err();
    assert_eq!(&*changed.reason, "mcp-tool-not-accepted");
    assert!(changed.message.contains("has changed since"), "{}", changed.message);
    let renamed = second.call("b", &nothing(), CallOptions::new(Binary::Keep)).await.unwrap_err();
    assert!(renamed.message.contains("is new"), "{}", renamed.message);
    *pins.0.lock().unwrap() = Some(second.tools().await.unwrap().digests());
    assert_eq!(call(&second).await.unwrap(), Value::from("done"));
}

/// A server whose tool says what one command of the shell does.
fn trying(command: &str, config: impl FnOnce(McpServer) -> McpServer) -> (Server, tempfile::TempDir) {
    let said = format!(
        "if ({command}) >/dev/null 2>&1; then said=yes; else said=no; fi\n{}",
        answer(r#"{"content":[{"type":"text","text":"$said"}]}"#)
    );
    server(&[&said], config)
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_refusal_of_the_system_names_what_opens_more_to_a_confined_server() {
    let refused = answer(r#"{"content":[{"type":"text","text":"EACCES: cannot open /notes"}],"isError":true}"#);
    let told = "the server is confined: `read`, `write` and `network` of [mcp.test]";
    let (confined, _folder) = server(&[&refused], |config| McpServer { confine: true, ..config });
    let failure = call(&confined).await.unwrap_err();
    assert!(failure.message.contains(told), "{}", failure.message);
    let (free, _folder) = server(&[&refused], |config| config);
    let failure = call(&free).await.unwrap_err();
    assert!(!failure.message.contains("confined"), "{}", failure.message);
    let ends = |config: McpServer| {
        let script = "echo 'cannot open /notes: Permission denied' >&2; exit 1";
        McpServer { confine: true, arguments: vec!["-c".to_owned(), script.to_owned()], ..config }
    };
    let (ended, _folder) = server(&[], ends);
    for failure in [ended.tools().await.unwrap_err(), call(&ended).await.unwrap_err()] {
        assert_eq!(failure.message.matches(told).count(), 1, "{}", failure.message);
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_confined_server_reaches_its_folder_and_what_was_listed_and_nothing_else() {
    let outside = tempfile::tempdir().unwrap();
    let (secret, shared) = (outside.path().join("secret"), outside.path().join("shared"));
    std::fs::write(&secret, "s").unwrap();
    std::fs::create_dir(&shared).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let read = |path: &std::path::Path| format!("cat {}", path.display());
    let connect = format!("command -v bash && bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'");
    let confined = |config: McpServer| McpServer { confine: true, write: vec![shared.clone()], ..config };
    let online = |config: McpServer| McpServer { network: true, ..confined(config) };
    let free = |config: McpServer| config;
    let write = format!("echo x > {}/new", shared.display());
    let agent = outside.path().join("agent");
    let _agent = std::os::unix::net::UnixListener::bind(&agent).unwrap();
    let socket = format!(
        "perl -e 'use Socket; socket(S, AF_UNIX, SOCK_STREAM, 0) or exit 1; connect(S, pack_sockaddr_un(q({}))) or exit 1'",
        agent.display()
    );
    let pair = |kind: &str| format!("perl -e 'use Socket; socketpair(A, B, AF_UNIX, {kind}, 0) or exit 1'");
    let (stream, datagram) = (pair("SOCK_STREAM"), pair("SOCK_DGRAM"));
    // TIOCSTI and TIOCLINUX: a pipe is no terminal (ENOTTY), and here it is not even asked (EPERM).
    let types = |request: &str| format!("perl -e '$c = q(x); ioctl(STDIN, {request}, $c); exit($! + 0 == 1 ? 0 : 1)'");
    let (stuffs, pastes) = (types("0x5412"), types("0x541c"));
    let host = std::process::id();
    let (environment, others) = (format!("cat /proc/{host}/environ"), format!("cat /proc/{host}/cmdline"));
    let reads = read(&secret);
    let perl = |expression: &str| format!("perl -MFcntl -e '{expression} or exit 1'");
    let victim = secret.display();
    let (opens_up, touches) = (perl(&format!("chmod(0666, q({victim}))")), perl(&format!("utime(1, 1, q({victim}))")));
    let gives_away = perl(&format!("chown(1, 1, q({victim}))"));
    let marks = |mode: &str| perl(&format!("sysopen(F, q({}/{mode}), O_CREAT | O_WRONLY, {mode})", shared.display()));
    let (plain, as_owner) = (marks("0755"), marks("04755"));
    let other = tokio::process::Command::new("sleep").arg("600").kill_on_drop(true).spawn().unwrap();
    let other_id = other.id().unwrap();
    let slows = format!("renice -n 1 -p {other_id}");
    let limits = format!("prlimit --pid {other_id} --cpu=1000:1000");
    let table: Vec<(&str, &dyn Fn(McpServer) -> McpServer, &str)> = vec![
        (&socket, &free, "yes"),
        (&socket, &confined, "no"),
        (&socket, &online, "no"),
        (&stream, &confined, "yes"),
        (&datagram, &free, "yes"),
        (&datagram, &confined, "no"),
        (&stuffs, &free, "no"),
        (&stuffs, &confined, "yes"),
        (&pastes, &confined, "yes"),
        (&environment, &free, "yes"),
        (&environment, &confined, "no"),
        (&others, &confined, "no"),
        ("read -r line < /proc/$$/status", &confined, "yes"),
        ("cat /proc/cpuinfo", &confined, "yes"),
        ("echo x > /dev/tty", &confined, "no"),
        ("kill -0 1", &confined, "no"),
        (&reads, &free, "yes"),
        (&reads, &confined, "no"),
        (&opens_up, &free, "yes"),
        (&opens_up, &confined, "no"),
        (&touches, &free, "yes"),
        (&touches, &confined, "no"),
        (&gives_away, &confined, "no"),
        (&plain, &confined, "yes"),
        (&as_owner, &confined, "no"),
        (&slows, &free, "yes"),
        (&slows, &confined, "no"),
        (&limits, &free, "yes"),
        (&limits, &confined, "no"),
        ("cat server.sh && ls /usr", &confined, "yes"),
        ("echo x > here", &confined, "no"),
        (&write, &confined, "yes"),
        ("unshare -r true", &confined, "no"),
        (&connect, &free, "yes"),
        (&connect, &confined, "no"),
        (&connect, &online, "yes"),
    ];
    // Older kernels keep signals in no bounds, and say so.
    let whole = super::confinement().is_ok_and(|held| held.gaps().is_none());
    for (command, config, expected) in table.into_iter().filter(|(command, ..)| whole || !command.starts_with("kill")) {
        let (server, _folder) = trying(command, config);
        match call(&server).await {
            Ok(said) => assert_eq!(said, Value::from(expected), "{command}"),
            Err(failure) if failure.message.contains("Landlock") => {
                eprintln!("SKIPPED: {}", failure.message);
                return;
            }
            Err(failure) => panic!("{command}: {}", failure.message),
        }
    }
}

/// The status of an answer that does not come, or not to its end.
#[cfg(feature = "http")]
const NEVER: &str = "never";

/// A server over HTTP that answers what `answer` says to the body of each POST: status, headers, body.
#[cfg(feature = "http")]
async fn over_http(
    private: bool,
    answer: impl Fn(&str, &str) -> (&'static str, &'static str, String) + Send + Sync + 'static,
) -> Server {
    use crate::http::{Credential, HttpRule, SecretSource};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let answer = std::sync::Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
                let whole = |request: &[u8]| {
                    let text = String::from_utf8_lossy(request).into_owned();
                    let (head, body) =
                        text.split_once("\r\n\r\n").map(|(head, body)| (head.to_owned(), body.to_owned()))?;
                    let length = head
                        .to_lowercase()
                        .lines()
                        .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
                    (body.len() >= length.unwrap_or(0)).then_some((head, body))
                };
                let (head, body) = loop {
                    match stream.read(&mut buffer).await {
                        Ok(count @ 1..) => request.extend_from_slice(&buffer[..count]),
                        _ => return,
                    }
                    if let Some(found) = whole(&request) {
                        break found;
                    }
                };
                let (status, headers, body) =
                    if head.starts_with("POST") { answer(&head, &body) } else { ("405 No", "", String::new()) };
                if status == NEVER {
                    // An answer that begins and does not end, or none.
                    let _ = stream.write_all(body.as_bytes()).await;
                    std::future::pending::<()>().await;
                }
                let length = body.len();
                let text = format!(
                    "HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
                );
                let _ = stream.write_all(text.as_bytes()).await;
            });
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.keep().join("token");
    std::fs::write(&file, "s3cret").unwrap();
    let rule = HttpRule {
        origins: vec![origin.parse().unwrap()],
        methods: vec![http::Method::GET, http::Method::POST, http::Method::DELETE],
        private,
        credential: Some(Credential {
            header: "authorization".to_owned(),
            prefix: "Bearer ".to_owned(),
            source: SecretSource::File(file),
        }),
    };
    let url = format!("{origin}/mcp").parse().unwrap();
    let config = McpServer {
        program: String::new(),
        arguments: Vec::new(),
        directory: std::env::temp_dir(),
        env: Vec::new(),
        call_time: Duration::from_secs(20),
        result_bytes: 4096,
        remote: Some(super::Remote { url, rule }),
        confine: false,
        read: Vec::new(),
        write: Vec::new(),
        network: false,
    };
    Server::new("test".to_owned(), config)
}

/// The messages of a server that has one tool, `t`, which answers `result`.
#[cfg(feature = "http")]
fn conversation(head: &str, body: &str, result: &str) -> (&'static str, &'static str, String) {
    const JSON: &str = "content-type: application/json\r\nmcp-session-id: one\r\n";
    if !head.to_lowercase().contains("authorization: bearer s3cret") {
        return ("401 Unauthorized", "", String::new());
    }
    let message: serde_json::Value = serde_json::from_str(body).unwrap();
    let of = |result: &str| format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}", message["id"]);
    match message["method"].as_str().unwrap() {
        "initialize" => {
            let about = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"}}"#;
            ("200 OK", JSON, of(about))
        }
        "tools/list" => ("200 OK", JSON, of(r#"{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}"#)),
        "tools/call" => ("200 OK", "content-type: text/event-stream\r\n", format!("data: {}\n\n", of(result))),
        method if method.starts_with("notifications/") => ("202 Accepted", "", String::new()),
        method => {
            let error = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{{\"code\":-32601,\"message\":\"{method}\"}}}}",
                message["id"]
            );
            ("200 OK", JSON, error)
        }
    }
}

#[cfg(feature = "http")]
#[tokio::test]
async fn a_server_over_http_is_called_with_its_credential_and_answers_in_json_or_events() {
    let done = r#"{"content":[{"type":"text","text":"done"}]}"#;
    let server = over_http(true, move |head, body| conversation(head, body, done)).await;
    assert_eq!(server.tools().await.unwrap().tools.len(), 1);
    assert_eq!(call(&server).await.unwrap(), Value::from("done"));
}

#[cfg(feature = "http")]
#[tokio::test]
async fn a_server_over_http_that_never_answers_discovery_gets_the_handshake() {
    let done = r#"{"content":[{"type":"text","text":"done"}]}"#;
    let begun = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n: wait\n\n";
    for begun in ["", begun] {
        let server = over_http(true, move |head, body| match body.contains("server/discover") {
            true => (NEVER, "", begun.to_owned()),
            false => conversation(head, body, done),
        });
        assert_eq!(call(&server.await).await.unwrap(), Value::from("done"), "{begun}");
    }
}

/// As a process that takes its time to start.
#[cfg(feature = "http")]
#[tokio::test]
async fn a_server_over_http_that_is_slow_and_has_no_handshake_is_asked_again_with_the_whole_time() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let asked = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let server = over_http(true, move |head, body| {
        const JSON: &str = "content-type: application/json\r\n";
        let message: serde_json::Value = serde_json::from_str(body).unwrap();
        let of = |rest: &str| format!("{{\"jsonrpc\":\"2.0\",\"id\":{},{rest}}}", message["id"]);
        match message["method"].as_str().unwrap() {
            "server/discover" if counted.fetch_add(1, Ordering::Relaxed) == 0 => (NEVER, "", String::new()),
            "server/discover" => {
                let spoken = r#""result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0}"#;
                ("200 OK", JSON, of(spoken))
            }
            "initialize" => ("200 OK", JSON, of(r#""error":{"code":-32601,"message":"no such method"}"#)),
            _ => conversation(head, body, r#"{"resultType":"complete","content":[{"type":"text","text":"noon"}]}"#),
        }
    });
    assert_eq!(call(&server.await).await.unwrap(), Value::from("noon"));
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn the_calls_of_a_server_are_counted_and_the_changes_of_its_tools_named() {
    let results = [
        answer(r#"{"content":[{"type":"text","text":"plain"}]}"#),
        answer(r#"{"content":[{"type":"text","text":"busy"}],"isError":true}"#),
    ];
    let results: Vec<&str> = results.iter().map(String::as_str).collect();
    let tools = r#"[{"name":"a","description":"Adds.","inputSchema":{"type":"object"}}]"#;
    let (server, _folder) = listing_server(tools, &results, |config| config);
    let standing = server.standing();
    assert_eq!(
        (standing.state, standing.used, standing.listing.is_none()),
        (ServerState::Idle, ServerUse::default(), true)
    );
    call(&server).await.unwrap();
    call(&server).await.unwrap_err();
    let listing = server.tools().await.unwrap();
    let standing = server.standing();
    assert_eq!((standing.state, standing.used.calls, standing.used.failures), (ServerState::Running, 2, 1));
    assert_eq!((standing.used.bytes_sent, standing.used.bytes_received), (4, 7), "two `{{}}` and one `\"plain\"`");
    assert!(standing.used.longest <= standing.used.time && standing.used.mean().is_some());
    assert!(server.is_current(&listing));
    assert_eq!(listing.description_size(), (23, 8), "`a`, `Adds.` and the schema");

    let changes = |accepted: &[(&str, &str)]| {
        let digest = |text: &str| match text {
            "" => listing.tools["a"].digest.clone(),
            text => opcell_types::Digest::of_hash(blake3::hash(text.as_bytes())),
        };
        let accepted = accepted.iter().map(|(tool, text)| ((*tool).to_owned(), digest(text))).collect();
        let shown = |change: super::ToolChange| format!("{} {}", change.tool, change.kind.name());
        listing.changes(&accepted).into_iter().map(shown).collect::<Vec<_>>()
    };
    assert!(changes(&[("a", "")]).is_empty());
    assert_eq!(changes(&[("a", "other"), ("b", "x")]), ["a changed", "b gone"]);
    assert_eq!(changes(&[]), ["a new"]);
}

#[cfg(feature = "http")]
#[tokio::test]
async fn a_server_in_a_private_network_a_redirect_and_an_answer_without_end_are_refused() {
    let done = r#"{"content":[]}"#;
    let private = over_http(false, move |head, body| conversation(head, body, done)).await;
    let failure = call(&private).await.unwrap_err();
    assert!(failure.message.contains("loopback address"), "{failure}");

    let leading = over_http(true, |_, _| ("307 Elsewhere", "location: http://10.0.0.1/\r\n", String::new())).await;
    let failure = call(&leading).await.unwrap_err();
    assert!(failure.message.contains("redirects"), "{failure}");

    let long = "x".repeat(8192);
    let talking = over_http(true, move |head, body| {
        let (status, headers, said) = conversation(head, body, done);
        let large = body.contains("tools/list").then(|| format!("{said}{}", " ".repeat(long.len())));
        (status, headers, large.unwrap_or(said))
    })
    .await;
    let failure = talking.tools().await.unwrap_err();
    assert!(failure.message.contains("more than 4096 bytes"), "{failure}");
}
