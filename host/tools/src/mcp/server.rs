//! A server as a child process, and calls of its tools.

use super::McpServer;
use opcell_engine::ports::Failure;
use opcell_types::Value;
use rmcp::{
    RoleClient, ServiceError, ServiceExt as _,
    model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock},
    service::{Peer, RunningService},
    transport::async_rw::AsyncRwTransport,
};
use std::process::Stdio;
use tokio::{
    process::{Child, Command},
    sync::Mutex,
    time::timeout,
};

/// A server of the project, running or not.
pub struct Server {
    name: String,
    config: McpServer,
    connection: Mutex<Option<Connection>>,
}

/// A server that runs. Dropping it ends its process.
struct Connection {
    service: RunningService<RoleClient, ()>,
    _process: Process,
}

struct Process {
    child: Child,
}

impl Drop for Process {
    /// What the server itself started (`npx` starts another program) is in its process group.
    fn drop(&mut self) {
        let group = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(group) = group {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

fn failed(reason: &str, message: String, retriable: bool) -> Failure {
    Failure { reason: reason.into(), message, details: None, retriable }
}

impl Server {
    /// A server that is started when one of its tools is first called.
    #[must_use]
    pub fn new(name: String, config: McpServer) -> Self {
        Self { name, config, connection: Mutex::default() }
    }

    /// Its name in the project.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Calls a tool. What the tool reports as its own error may be retried; what the server refuses to do may not.
    ///
    /// # Errors
    /// With the tool's own failure, or how the server failed.
    pub async fn call(&self, tool: &str, arguments: &Value) -> Result<Value, Failure> {
        let arguments = match serde_json::Value::from(arguments) {
            serde_json::Value::Object(arguments) => arguments,
            _ => {
                return Err(failed(
                    "invalid-arguments",
                    "expected an object as the tool's arguments".to_owned(),
                    false,
                ));
            }
        };
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let peer = self.peer().await?;
        let limit = self.config.call_time;
        match timeout(limit, peer.call_tool_once(request)).await {
            Err(_) => {
                let bytes = self.config.result_bytes;
                let message = format!(
                    "MCP server `{}` sent no answer of at most {bytes} bytes within {} ms",
                    self.name,
                    limit.as_millis()
                );
                Err(failed("timeout", message, true))
            }
            Ok(Ok(CallToolResponse::Complete(result))) => output(result),
            Ok(Ok(_)) => Err(failed(
                "mcp-input-required",
                format!("MCP tool `{tool}` asks for user input, which a run cannot give"),
                false,
            )),
            Ok(Err(ServiceError::McpError(error))) => {
                Err(failed("mcp-error", format!("MCP server `{}`: {}", self.name, error.message), false))
            }
            Ok(Err(error)) => {
                Err(failed("mcp-disconnected", format!("MCP server `{}` has exited: {error}", self.name), true))
            }
        }
    }

    /// The running server; a new process where there is none, or the last one has ended.
    async fn peer(&self) -> Result<Peer<RoleClient>, Failure> {
        let mut connection = self.connection.lock().await;
        if let Some(open) = connection.as_ref().filter(|open| !open.service.is_transport_closed()) {
            return Ok(open.service.peer().clone());
        }
        *connection = None;
        let open = connection.insert(self.start().await?);
        Ok(open.service.peer().clone())
    }

    async fn start(&self) -> Result<Connection, Failure> {
        let not_started = |what: String| {
            failed("mcp-not-started", format!("MCP server `{}` ({}): {what}", self.name, self.config.program), false)
        };
        let mut command = Command::new(&self.config.program);
        command
            .args(&self.config.arguments)
            .current_dir(&self.config.directory)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true);
        for name in std::iter::once("PATH").chain(self.config.env.iter().map(String::as_str)) {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let mut child = command.spawn().map_err(|error| not_started(format!("cannot start it: {error}")))?;
        let pipes = child.stdout.take().zip(child.stdin.take());
        let process = Process { child };
        let (stdout, stdin) = pipes.ok_or_else(|| not_started("it has no pipes".to_owned()))?;
        let longest = usize::try_from(self.config.result_bytes).unwrap_or(usize::MAX);
        let transport = AsyncRwTransport::<RoleClient, _, _>::new(stdout, stdin).with_max_line_length(longest);
        let service = timeout(self.config.call_time, ().serve(transport))
            .await
            .map_err(|_| not_started(format!("no handshake within {} ms", self.config.call_time.as_millis())))?
            .map_err(|error| not_started(format!("the handshake failed: {error}")))?;
        Ok(Connection { service, _process: process })
    }
}

/// What a tool returned: its structured content; else its one text, as data where it is a JSON object or array; else all parts.
fn output(result: CallToolResult) -> Result<Value, Failure> {
    let text = |content: &[ContentBlock]| {
        let texts = content.iter().filter_map(|part| part.as_text()).map(|part| part.text.as_str());
        texts.collect::<Vec<_>>().join("\n")
    };
    if result.is_error == Some(true) {
        return Err(failed("tool-failed", text(&result.content), true));
    }
    if let Some(structured) = result.structured_content {
        return Ok(structured.into());
    }
    if let [ContentBlock::Text(only)] = result.content.as_slice() {
        let is_data = only.text.trim_start().starts_with(['{', '[']);
        let data = is_data.then(|| Value::from_json(&only.text).ok()).flatten();
        return Ok(data.unwrap_or_else(|| only.text.as_str().into()));
    }
    let parts = serde_json::to_value(&result.content)
        .map_err(|error| failed("mcp-error", format!("the result of the tool is not JSON: {error}"), false))?;
    Ok(parts.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fmt::Write as _, time::Duration};

    /// A server that answers `tools/call` with these results, in order.
    fn server(results: &[&str], config: impl FnOnce(McpServer) -> McpServer) -> (Server, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let mut calls = String::new();
        for (index, result) in results.iter().enumerate() {
            let _ = writeln!(calls, "      {index}) {result} ;;");
        }
        let script = format!(
            r#"calls=0
while read -r line; do
  id=${{line#*\"id\":}}; id=${{id%%[,\}}]*}}
  case $line in
    *'"method":"initialize"'*)
      echo "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{{\"tools\":{{}}}},\"serverInfo\":{{\"name\":\"test\",\"version\":\"1\"}}}}}}" ;;
    *'"method":"tools/call"'*)
      case $calls in
{calls}      esac
      calls=$((calls + 1)) ;;
  esac
done
"#
        );
        std::fs::write(folder.path().join("server.sh"), script).unwrap();
        let config = config(McpServer {
            program: "sh".to_owned(),
            arguments: vec!["server.sh".to_owned()],
            directory: folder.path().to_owned(),
            env: Vec::new(),
            call_time: Duration::from_secs(20),
            result_bytes: 4096,
        });
        (Server::new("test".to_owned(), config), folder)
    }

    fn answer(result: &str) -> String {
        format!(r#"echo "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{}}}""#, result.replace('"', "\\\""))
    }

    fn nothing() -> Value {
        Value::object::<&str>([])
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
        assert_eq!(server.call("t", &nothing()).await.unwrap(), Value::from("plain"));
        assert_eq!(server.call("t", &nothing()).await.unwrap().to_json(), "[1,2]");
        assert_eq!(server.call("t", &nothing()).await.unwrap().to_json(), r#"{"n":7}"#);
        let failure = server.call("t", &nothing()).await.unwrap_err();
        assert_eq!((failure.message.as_str(), failure.retriable), ("busy", true));
    }

    #[tokio::test]
    async fn a_server_gets_no_more_of_the_environment_than_was_listed() {
        let secret = answer(r#"{"content":[{"type":"text","text":"[$HOME][$CARGO_MANIFEST_DIR]"}]}"#);
        let (server, _folder) =
            server(&[&secret], |config| McpServer { env: vec!["CARGO_MANIFEST_DIR".to_owned()], ..config });
        let home = server.call("t", &nothing()).await.unwrap();
        assert_eq!(home.as_str().unwrap(), format!("[][{}]", env!("CARGO_MANIFEST_DIR")));
    }

    #[tokio::test]
    async fn a_server_that_is_slow_or_talks_too_much_fails_the_call() {
        let quick = |config| McpServer { call_time: Duration::from_millis(1500), ..config };
        let flood = "head -c 100000 /dev/zero | tr '\\0' x; echo";
        for answer in ["sleep 30", flood] {
            let (server, _folder) = server(&[answer], quick);
            let failure = server.call("t", &nothing()).await.unwrap_err();
            assert_eq!((failure.reason.as_ref(), failure.retriable), ("timeout", true), "{answer}");
        }
    }

    #[tokio::test]
    async fn a_server_that_ends_is_started_again() {
        let (server, _folder) = server(&["exit"], |config| config);
        let failure = server.call("t", &nothing()).await.unwrap_err();
        assert_eq!((failure.reason.as_ref(), failure.retriable), ("mcp-disconnected", true));
        let again = server.call("t", &nothing()).await.unwrap_err();
        assert_eq!(again.reason.as_ref(), "mcp-disconnected", "{again:?}");
    }

    #[tokio::test]
    async fn a_program_that_is_no_server_is_refused() {
        for (program, arguments) in [("/no/such/program", vec![]), ("true", vec![]), ("echo", vec!["hello".to_owned()])]
        {
            let (server, _folder) =
                server(&[], |config| McpServer { program: program.to_owned(), arguments, ..config });
            let failure = server.call("t", &nothing()).await.unwrap_err();
            assert_eq!((failure.reason.as_ref(), failure.retriable), ("mcp-not-started", false), "{program}");
        }
    }

    #[tokio::test]
    async fn dropping_a_server_ends_its_process() {
        let (server, folder) =
            server(&["echo $$ > pid"], |config| McpServer { call_time: Duration::from_secs(1), ..config });
        let _ = server.call("t", &nothing()).await;
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
}
