//! `bash`: outside every cell, with the rights of the host. Not there unless the operator enables it, and the prompt
//! says so.

use super::{SessionTool, failure};
use async_trait::async_trait;
use opcell_engine::ports::Failure;
use opcell_engine::tool::{Tool, ToolInput};
use opcell_types::{ToolDescription, Value};
use serde_json::json;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

/// The most that is kept of each of a command's two outputs, in bytes.
const OUTPUT_LIMIT: usize = 256 << 10;

/// Variables that a command inherits: without the rest, keys in the host's environment stay there.
const INHERITED: [&str; 8] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TERM", "TMPDIR", "TZ"];

/// The settings of commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shell {
    /// Working directory.
    pub folder: PathBuf,
    /// The time that a command may take unless the model asks for less or more.
    pub timeout: Duration,
    /// The most that a model may ask for.
    pub max_timeout: Duration,
    /// Variables that a command inherits beside the usual ones.
    pub environment: Vec<String>,
}

impl Shell {
    /// Commands in a folder, for two minutes, or ten when asked.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            timeout: Duration::from_secs(120),
            max_timeout: Duration::from_secs(600),
            environment: Vec::new(),
        }
    }
}

/// The tool over a [`Shell`].
#[must_use]
pub fn shell_tool(shell: Shell) -> SessionTool {
    let longest = shell.max_timeout.as_secs();
    let description = ToolDescription::new(
        "bash",
        "Runs a command with bash in the working folder, on the operator's machine and outside every sandbox: the operator \
         has enabled this. Gives the exit code, standard output and standard error.",
        json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "minLength": 1},
                "timeout_seconds": {"type": "integer", "minimum": 1, "maximum": longest}
            },
            "required": ["command"],
            "additionalProperties": false
        }),
    );
    SessionTool::own(Arc::new(ShellTool { shell, description }))
        .with_lambda("command → exit, stdout, stderr | unsandboxed(enabled by operator)")
        .by_declaration()
}

/// Set for commands of models: what they start is told from what a person starts, who alone answers questions.
pub const TOOL_CALL_VARIABLE: &str = "OPCELL_TOOL_CALL";

struct ShellTool {
    shell: Shell,
    description: ToolDescription,
}

impl ShellTool {
    async fn run(&self, arguments: &Value) -> Result<Value, Failure> {
        let arguments = serde_json::Value::from(arguments);
        let text = arguments.get("command").and_then(|command| command.as_str()).unwrap_or_default();
        let asked = arguments.get("timeout_seconds").and_then(serde_json::Value::as_u64).map(Duration::from_secs);
        let timeout = asked.unwrap_or(self.shell.timeout).min(self.shell.max_timeout);
        let inherited = INHERITED.into_iter().chain(self.shell.environment.iter().map(String::as_str));
        let mut command = Command::new("bash");
        command
            .arg("-c")
            .arg(text)
            .current_dir(&self.shell.folder)
            .env_clear()
            .envs(inherited.filter_map(|name| Some((name, std::env::var_os(name)?))))
            .env(TOOL_CALL_VARIABLE, "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        opcell_process::watched(&mut command);
        let started = command.spawn().map_err(|error| failure("bash-failed", format!("cannot start bash: {error}")))?;
        let mut running = Running(started);
        let finished = tokio::time::timeout(timeout, outcome(&mut running.0)).await;
        let (status, stdout, stderr) = match finished {
            Ok(outcome) => outcome.map_err(|error| failure("bash-failed", error.to_string()))?,
            Err(_) => {
                running.end().await;
                let message = format!(
                    "the command was killed after {} s; ask for more with `timeout_seconds`",
                    timeout.as_secs()
                );
                return Err(failure("timeout", message));
            }
        };
        let code = status.code().map_or_else(|| Value::from(status.to_string()), |code| Value::from(i64::from(code)));
        Ok(Value::object([("exit", code), ("stdout", Value::from(stdout)), ("stderr", Value::from(stderr))]))
    }
}

#[async_trait]
impl Tool for ShellTool {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    async fn call(&self, input: &ToolInput) -> Result<Value, Failure> {
        self.run(&input.arguments).await
    }
}

/// The time that the end of a command and of all that it started may take.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// A command with all that it started, which ends with the call, for whatever reason that ends.
struct Running(Child);

impl Running {
    async fn end(&mut self) {
        opcell_process::end(&self.0);
        // The kernel may hold a process in a system call: the call does not wait for that.
        let _ = tokio::time::timeout(END_TIMEOUT, self.0.wait()).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        opcell_process::end(&self.0);
    }
}

async fn outcome(child: &mut Child) -> std::io::Result<(std::process::ExitStatus, String, String)> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let over = CancellationToken::new();
    let ended = async {
        // It ends once everything that the command left in the background has ended.
        let status = child.wait().await;
        over.cancel();
        status
    };
    let (status, stdout, stderr) = tokio::join!(ended, bounded_output(stdout, &over), bounded_output(stderr, &over));
    Ok((status?, stdout?, stderr?))
}

/// The time for which the outputs of a command are read after its end.
const AFTER_THE_END: Duration = Duration::from_millis(500);

/// Reads to the end, so that the command does not wait, and keeps the beginning.
async fn bounded_output(pipe: Option<impl AsyncRead + Unpin>, over: &CancellationToken) -> std::io::Result<String> {
    let Some(mut pipe) = pipe else { return Ok(String::new()) };
    let mut kept = Vec::new();
    let mut buffer = vec![0; 16 << 10];
    let mut dropped = 0;
    loop {
        // What left the process group keeps the pipe open; what the command itself wrote has arrived a moment after its
        // end.
        let read = tokio::select! {
            biased;
            read = pipe.read(&mut buffer) => read?,
            () = async { over.cancelled().await; tokio::time::sleep(AFTER_THE_END).await } => 0,
        };
        if read == 0 {
            break;
        }
        let room = OUTPUT_LIMIT.saturating_sub(kept.len()).min(read);
        kept.extend(buffer.iter().take(room));
        dropped += read - room;
    }
    let mut text = String::from_utf8_lossy(&kept).into_owned();
    if dropped > 0 {
        text.push_str(&format!("\n[truncated: {dropped} more bytes]"));
    }
    Ok(text)
}
