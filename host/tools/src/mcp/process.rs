//! The process of a server, with the end of what it writes to its standard error.

use super::{McpServer, python};
use opcell_types::text::printable;
use std::{
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    time::timeout,
};

/// Bytes of a server's standard error that are kept: its end, where the reason of a failure is.
const STDERR_BYTES: usize = 4 << 10;

/// Time that a server that broke off may take to end, before its exit status is given up.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A process and everything that it started. Dropping it ends them.
pub(super) struct Process {
    child: tokio::sync::Mutex<Child>,
    stderr: Arc<Mutex<Vec<u8>>>,
}

impl Drop for Process {
    fn drop(&mut self) {
        opcell_process::end(self.child.get_mut());
    }
}

impl Process {
    /// Starts a server.
    ///
    /// # Errors
    /// With the reason, as a sentence.
    pub(super) fn spawn(config: &McpServer) -> Result<(Self, ChildStdout, ChildStdin), String> {
        let mut command = Command::new(&config.program);
        let cache = python::cache();
        command
            .args(python::options(&config.program, &config.arguments, &cache))
            .args(&config.arguments)
            .current_dir(&config.directory)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for name in std::iter::once("PATH").chain(config.env.iter().map(String::as_str)) {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        // Compiled files of a checkout say what they like about their sources, so that Python looks for them elsewhere.
        let is_given = config.env.iter().any(|name| name == python::CACHE_VARIABLE);
        if std::env::var_os(python::CACHE_VARIABLE).is_none() || !is_given {
            command.env(python::CACHE_VARIABLE, cache);
        }
        opcell_process::watched(&mut command);
        if config.confine {
            confine(&mut command, config)?;
        }
        let mut child = command.spawn().map_err(|error| format!("it cannot be started: {error}"))?;
        let pipes = child.stdout.take().zip(child.stdin.take());
        let process = Self::new(child);
        let (stdout, stdin) = pipes.ok_or_else(|| "it has no pipes".to_owned())?;
        Ok((process, stdout, stdin))
    }

    fn new(mut child: Child) -> Self {
        let stderr = Arc::new(Mutex::default());
        if let Some(pipe) = child.stderr.take() {
            // Read to its end, so that a server that writes much never waits for a reader. The pipe ends with the
            // last process that holds it.
            drop(tokio::spawn(keep_end::<ChildStderr>(pipe, stderr.clone())));
        }
        Self { child: tokio::sync::Mutex::new(child), stderr }
    }

    /// Its exit status, where it ends within a moment.
    pub(super) async fn ended(&self) -> Option<ExitStatus> {
        let ended = timeout(LAST_WORDS, async { self.child.lock().await.wait().await }).await;
        // What it wrote last may still be in the pipe.
        tokio::time::sleep(Duration::from_millis(20)).await;
        ended.ok()?.ok()
    }

    /// The end of its standard error, as the end of a message.
    pub(super) fn last_words(&self) -> String {
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let text = printable(String::from_utf8_lossy(&kept).trim(), STDERR_BYTES);
        if text.is_empty() { String::new() } else { format!("; its standard error ends with:\n{text}") }
    }
}

/// Confines what the command starts.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "what happens between fork and exec")]
fn confine(command: &mut Command, config: &McpServer) -> Result<(), String> {
    let mut confinement = super::confine::Confinement::of(config)?;
    // SAFETY: everything was made before; entering is a handful of system calls, which allocate nothing unless they
    // fail.
    unsafe { command.pre_exec(move || confinement.enter()) };
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn confine(_command: &mut Command, _config: &McpServer) -> Result<(), String> {
    Err("`confine` takes Linux".to_owned())
}

/// Reads to the end and keeps the last bytes.
async fn keep_end<R: AsyncRead + Unpin>(mut pipe: R, kept: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(buffer.get(..count).unwrap_or_default());
        let excess = kept.len().saturating_sub(STDERR_BYTES);
        kept.drain(..excess);
    }
}
