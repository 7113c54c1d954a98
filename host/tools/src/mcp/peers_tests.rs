#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

//! Servers that never end, answer other requests, and list entries that cannot be used.

use super::{Binary, CallOptions, McpServer, Server, tests::scripted};
use opcell_types::{CallProgress, GivenInput, InputAnswer, ProgressLog, ProgressSink, Value};

/// A server of the current revision, with these branches of a shell's `case` over the line that it reads. `say` answers
/// with the rest of a result.
fn server(branches: &str) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        r#"say() {{ echo "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{{\"resultType\":\"complete\",$1}}}}"; }}
while read -r line; do
  id=${{line#*\"id\":}}; id=${{id%%[,\}}]*}}
  case $line in
    *'"method":"server/discover"'*)
      say '"supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{}},"resources":{{}},"prompts":{{}}}},"ttlMs":0,"cacheScope":"private"' ;;
{branches}
  esac
done
"#
    );
    std::fs::write(folder.path().join("server.sh"), script).unwrap();
    let config = scripted(folder.path());
    (Server::new("test".to_owned(), config), folder)
}

fn nothing() -> Value {
    Value::object::<&str>([])
}

fn lines(folder: &tempfile::TempDir, file: &str) -> usize {
    std::fs::read_to_string(folder.path().join(file)).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn a_server_that_wants_the_same_call_again_forever_is_left_after_some_times() {
    let (server, folder) = server(
        r#"    *'"method":"tools/call"'*)
      echo x >>calls
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"resultType\":\"input_required\",\"requestState\":\"s\"}}" ;;"#,
    );
    let options = CallOptions { may_ask: true, ..CallOptions::new(Binary::Keep) };
    let failure = server.call("t", &nothing(), options).await.unwrap_err();
    assert_eq!(&*failure.reason, "mcp-input-required");
    assert!(failure.message.contains("the same call more than 8 times"), "{failure}");
    assert_eq!(lines(&folder, "calls"), 9);
}

/// A program that takes its time to start, and then speaks the current revision alone, as the Python SDK's servers do
/// once they were asked what they speak.
#[tokio::test]
async fn a_server_that_answers_discovery_late_and_refuses_the_handshake_is_started_once_more() {
    // The last one stays silent.
    let refusals = [r#"say '"error":{"code":-32022,"message":"the handshake is not accepted"}'"#, "exit 1", ":"];
    for refusal in refusals {
        started_once_more(refusal).await;
    }
}

async fn started_once_more(refusal: &str) {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"say() { echo "{\"jsonrpc\":\"2.0\",\"id\":$id,$1}"; }
echo x >>starts
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"method":"server/discover"'*)
      # The first time, until the handshake was sent.
      [ "$(wc -l <starts)" -gt 1 ] || sleep 4
      say '"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0}' ;;
    *'"method":"initialize"'*)
      REFUSAL ;;
    *'"method":"tools/call"'*)
      say '"result":{"resultType":"complete","content":[{"type":"text","text":"noon"}]}' ;;
  esac
done
"#;
    std::fs::write(folder.path().join("server.sh"), script.replace("REFUSAL", refusal)).unwrap();
    let server = Server::new("test".to_owned(), scripted(folder.path()));
    let called = server.call("t", &nothing(), CallOptions::new(Binary::Keep)).await.unwrap();
    assert_eq!(called.value, Value::from("noon"));
    assert_eq!(lines(&folder, "starts"), 2);
}

/// A program that knows no discovery, and refuses the handshake by the name of the revision that it speaks, is asked
/// once more and left.
#[tokio::test]
async fn a_server_that_refuses_every_opening_is_started_twice_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"echo x >>starts
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"method":"server/discover"'*) error='"code":-32601,"message":"Method not found"' ;;
    *) error='"code":-32022,"message":"not accepted","data":{"supported":["2026-07-28"]}' ;;
  esac
  echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{$error}}"
done
"#;
    std::fs::write(folder.path().join("server.sh"), script).unwrap();
    let server = Server::new("test".to_owned(), scripted(folder.path()));
    let failure = server.call("t", &nothing(), CallOptions::new(Binary::Keep)).await.unwrap_err();
    assert_eq!(&*failure.reason, "mcp-not-started");
    assert!(failure.message.contains("it answered `initialize` with an error: not accepted"), "{failure}");
    assert_eq!(lines(&folder, "starts"), 2);
}

#[tokio::test]
async fn notifications_without_end_and_answers_to_others_do_not_keep_an_answer_back() {
    let (server, _folder) = server(
        r#"    *'"method":"tools/call"'*)
      n=0
      while [ $n -lt 20000 ]; do
        n=$((n + 1))
        echo '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"again"}}'
        echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
        echo "{\"jsonrpc\":\"2.0\",\"id\":$((id + n)),\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"forged\"}]}}"
      done
      say '"content":[{"type":"text","text":"true"}]'
      yes '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"again"}}' ;;"#,
    );
    let called = server.call("t", &nothing(), CallOptions::new(Binary::Keep)).await.unwrap();
    assert_eq!(called.value, Value::from("true"));
}

#[tokio::test]
async fn resources_and_prompts_are_listed_within_bounds_and_odd_ones_are_said() {
    let (server, folder) = server(
        r#"    *'"method":"resources/list"'*)
      echo x >>lists
      entries=; n=0
      while [ $n -lt 100 ]; do n=$((n + 1)); entries="$entries,{\"uri\":\"r://$id/$n\",\"name\":\"n\"}"; done
      say "\"resources\":[{\"name\":\"no uri\"},{\"uri\":\"r://a\\u001bb\"}$entries],\"nextCursor\":\"$id\"" ;;
    *'"method":"resources/templates/list"'*)
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32603,\"message\":\"no index\"}}" ;;
    *'"method":"prompts/list"'*)
      say '"prompts":[{"name":"p","description":"a\u202eb","arguments":[{"name":"x","required":true},7]}]' ;;"#,
    );
    let offers = server.offers().await.unwrap();
    assert!(offers.truncated);
    assert!(lines(&folder, "lists") <= 6, "{} pages of 102", lines(&folder, "lists"));
    assert!(offers.resources.len() <= 512 && offers.resources.len() > 400, "{}", offers.resources.len());
    assert_eq!(offers.templates, []);
    assert_eq!(offers.prompts.len(), 1);
    assert_eq!(offers.prompts[0].description, "a\u{fffd}b");
    assert_eq!(offers.prompts[0].arguments, [("x".to_owned(), true)]);
    for said in ["has no `uri`", "cannot be printed", "`resourceTemplates` of the server cannot be read: no index"] {
        assert!(offers.refused.iter().any(|why| why.contains(said)), "{said}: {:?}", offers.refused);
    }
}

#[tokio::test]
async fn a_resource_and_a_prompt_are_data_and_their_failures_are_sentences() {
    let (server, _folder) = server(
        r#"    *'"uri":"r://text"'*) say '"contents":[{"uri":"r://text","text":"hi"}]' ;;
    *'"uri":"r://image"'*) say '"contents":[{"uri":"r://image","mimeType":"image/png","blob":"aGVsbG8h"}]' ;;
    *'"uri":"r://odd"'*) say '"contents":7' ;;
    *'"uri":"r://asks"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"resultType\":\"input_required\",\"requestState\":\"s\"}}" ;;
    *'"uri":"r://long"'*) say "\"contents\":[{\"uri\":\"r://long\",\"text\":\"$(head -c 1100000 /dev/zero | tr '\0' x)\"}]" ;;
    *'"method":"resources/read"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32002,\"message\":\"none\"}}" ;;
    *'"name":"p"'*) say '"messages":[{"role":"user","content":{"type":"text","text":"go"}},{"content":{"type":"image","data":"aGVsbG8h","mimeType":"image/png"}}]' ;;"#,
    );
    let read = async |uri: &str, binary| server.read_resource(uri, binary).await;
    assert_eq!(read("r://text", Binary::Omit).await.unwrap(), Value::from("hi"));
    let omitted = read("r://image", Binary::Omit).await.unwrap().to_json();
    assert!(omitted.contains("omitted") && !omitted.contains("aGVsbG8h"), "{omitted}");
    assert!(read("r://image", Binary::Keep).await.unwrap().to_json().contains("aGVsbG8h"));
    for (uri, reason, said) in [
        ("r://odd", "malformed-result", "a number instead of the list `contents`"),
        ("r://asks", "mcp-input-required", "asks for input before it gives resource `r://asks`"),
        ("r://none", "mcp-error", "none"),
        ("r://long", "malformed-result", "bytes"),
    ] {
        let failure = read(uri, Binary::Omit).await.unwrap_err();
        assert!(&*failure.reason == reason && failure.message.contains(said), "{failure:?}");
    }
    let prompt = server.prompt("p", &nothing(), Binary::Omit).await.unwrap().to_json();
    assert!(prompt.starts_with(r#"[{"role":"user","content":"go"},{"role":"user","content":{"#), "{prompt}");
    assert!(prompt.contains("omitted"), "{prompt}");
}

#[tokio::test]
async fn a_server_that_announces_neither_is_asked_for_neither() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"method":"initialize"'*)
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"t\",\"version\":\"1\"}}}" ;;
    *'"method":"resources/'*|*'"method":"prompts/'*) echo x >>asked ;;
  esac
done
"#;
    std::fs::write(folder.path().join("server.sh"), script).unwrap();
    let (like, _other) = server("");
    let config = McpServer { directory: folder.path().to_owned(), ..like.config().clone() };
    let server = Server::new("old".to_owned(), config);
    assert_eq!(server.offers().await.unwrap(), super::Offers::default());
    let failure = server.read_resource("r://a", Binary::Keep).await.unwrap_err();
    assert_eq!(&*failure.reason, "mcp-no-resources");
    let failure = server.prompt("a", &nothing(), Binary::Keep).await.unwrap_err();
    assert_eq!(&*failure.reason, "mcp-no-prompts");
    assert_eq!(lines(&folder, "asked"), 0);
}

/// Answers a call with a task, which works until it was asked for twice, asks with a form and is completed by the answer.
const TASKS: &str = r#"    *'"method":"tools/call"'*)
      echo "$line" >>calls
      case $line in *'io.modelcontextprotocol/tasks'*) ;; *) say '"content":[{"type":"text","text":"\"none\""}]'; continue ;; esac
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"resultType\":\"task\",\"taskId\":\"t 1\",\"status\":\"working\",\"pollIntervalMs\":1}}" ;;
    *'"method":"tasks/update"'*) echo "$line" >>updates; say '"x":1' ;;
    *'"method":"tasks/get"'*)
      echo x >>polls
      if [ -e updates ]; then
        say '"taskId":"t 1","status":"completed","result":{"content":[{"type":"text","text":"done"}]}'
      elif [ "$(wc -l <polls)" -lt 3 ]; then
        say '"taskId":"t 1","status":"working","pollIntervalMs":1'
      else
        say '"taskId":"t 1","status":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}}'
      fi ;;"#;

#[tokio::test]
async fn a_call_that_becomes_a_task_is_polled_and_asks_and_ends() {
    let (server, folder) = server(TASKS);
    let options = CallOptions { may_ask: true, ..CallOptions::new(Binary::Keep) };
    let began = server.call("t", &nothing(), options).await.unwrap_err();
    let request = began.input.unwrap();
    assert_eq!((request.task.as_deref(), request.forms.len()), (Some("t 1"), 0));
    let given = GivenInput { state: None, answers: Vec::new(), task: request.task };
    let continued = CallOptions { given: Some(&given), ..options };
    let asked = server.call("t", &nothing(), continued).await.unwrap_err();
    let request = asked.input.unwrap();
    assert_eq!((&*request.forms[0].message, request.task.as_deref()), ("Who?", Some("t 1")));
    assert_eq!(lines(&folder, "polls"), 3);
    let answers = vec![("who".into(), InputAnswer::Decline)];
    let given = GivenInput { answers, ..given };
    let continued = CallOptions { given: Some(&given), ..options };
    assert_eq!(server.call("t", &nothing(), continued).await.unwrap().value, Value::from("done"));
    assert_eq!((lines(&folder, "calls"), lines(&folder, "updates")), (1, 1));
    // A caller that cannot wait does not say that it has tasks.
    let called = server.call("t", &nothing(), CallOptions::new(Binary::Keep)).await.unwrap();
    assert_eq!(called.value, Value::from("\"none\""));
}

#[tokio::test]
async fn a_task_that_is_lost_failed_or_odd_is_a_failure_with_its_name() {
    let (server, _folder) = server(
        r#"    *'"method":"tools/call"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"resultType\":\"task\",\"taskId\":\"\"}}" ;;
    *'"taskId":"failed"'*) say '"status":"failed","error":{"code":1,"message":"no room"}' ;;
    *'"taskId":"cancelled"'*) say '"status":"cancelled"' ;;
    *'"taskId":"empty"'*) say '"status":"completed"' ;;
    *'"taskId":"odd"'*) say '"status":"asleep"' ;;
    *'"taskId":"asks"'*) say '"status":"input_required"' ;;
    *'"method":"tasks/get"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32602,\"message\":\"no such task\"}}" ;;"#,
    );
    for (task, reason, said) in [
        ("failed", "mcp-error", "task `failed` of tool `t` of MCP server `test` failed: no room"),
        ("cancelled", "mcp-error", "was cancelled by its server"),
        ("empty", "malformed-result", "is completed and has no result"),
        ("odd", "malformed-result", "unknown status `asleep`"),
        ("asks", "mcp-input-required", "does not say for which"),
        ("gone", "mcp-error", "is lost: no such task"),
    ] {
        let given = GivenInput { state: None, answers: Vec::new(), task: Some(task.into()) };
        let options = CallOptions { may_ask: true, given: Some(&given), ..CallOptions::new(Binary::Keep) };
        let failure = server.call("t", &nothing(), options).await.unwrap_err();
        assert!(&*failure.reason == reason && failure.message.contains(said), "{failure:?}");
    }
    let options = CallOptions { may_ask: true, ..CallOptions::new(Binary::Keep) };
    let failure = server.call("t", &nothing(), options).await.unwrap_err();
    assert!(failure.input.is_none() && failure.message.contains("began a task whose name is empty"), "{failure:?}");
}

#[derive(Default)]
struct Reported(std::sync::Mutex<Vec<CallProgress>>);

impl ProgressSink for Reported {
    fn progress(&self, progress: CallProgress) {
        self.0.lock().unwrap().push(progress);
    }
}

/// Calls a tool whose branch is given, and returns all that the server told of its progress.
async fn reported(branch: &str) -> (Value, Vec<CallProgress>) {
    let script = format!(
        r#"    *'"method":"tools/call"'*)
      token=${{line#*\"progressToken\":}}; token=${{token%%[,\}}]*}}
      tell() {{ echo "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{$1}}}}"; }}
{branch}
      say '"content":[{{"type":"text","text":"done"}}]' ;;"#
    );
    let (server, _folder) = server(&script);
    let sink = std::sync::Arc::new(Reported::default());
    let log = ProgressLog::new(sink.clone());
    let options = CallOptions { progress: Some(&log), ..CallOptions::new(Binary::Keep) };
    let called = server.call("t", &nothing(), options).await.unwrap();
    let reported = std::mem::take(&mut *sink.0.lock().unwrap());
    (called.value, reported)
}

#[tokio::test]
async fn the_progress_of_a_call_is_told_in_its_order_and_no_other() {
    let (value, reported) = reported(
        r#"      tell "\"progressToken\":$token,\"progress\":1,\"total\":3,\"message\":\"one\""
      tell "\"progressToken\":\"$token-other\",\"progress\":7"
      tell '"progressToken":999999,"progress":7'
      tell "\"progressToken\":$token,\"progress\":\"many\""
      tell "\"progressToken\":$token"
      tell ""
      tell "\"progressToken\":$token,\"progress\":2.5,\"total\":0,\"message\":7""#,
    )
    .await;
    assert_eq!(value, Value::from("done"));
    let lines: Vec<String> = reported.iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["1 of 3: one", "2.5"]);
}

#[tokio::test]
async fn a_flood_of_progress_is_read_in_order_and_keeps_no_call_from_its_result() {
    let (value, reported) = reported(
        r#"      awk -v token="$token" 'BEGIN {
        message = sprintf("%5000s", "x")
        for (n = 1; n <= 20000; n++)
          printf "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,\"progress\":%d,\"message\":\"%s\"}}\n", token, n, message
      }'"#,
    )
    .await;
    assert_eq!((value, reported.len()), (Value::from("done"), 20_000));
    assert!(reported.windows(2).all(|pair| pair[0].done < pair[1].done));
    assert!(reported.iter().all(|progress| progress.message.len() < 300), "messages are cut");
}
