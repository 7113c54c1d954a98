//! Compiling an untrusted component: in a process of its own, which an enemy may exhaust or crash without harm.
//!
//! Some 50 KB of hostile WebAssembly keep the compiler busy for seconds and hundreds of megabytes, and the engine does
//! not count that as a defect. So the child process has limits on address space, CPU time, file size and open files, a
//! deadline, and an empty environment; it gets the bytes through a pipe and answers with native code, both framed by
//! their digests.

mod child;
mod confine;
mod frame;
mod prepared;

pub use child::child_main;
pub use prepared::prepare;

use crate::{
    engine::{Metering, Room},
    error::SandboxError,
};
use frame::{Answer, Request};
use std::{ffi::OsString, path::PathBuf, process::Stdio, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader},
    process::Command,
    sync::Semaphore,
};
use wasmtime::Engine;

/// The time that a program may take until it has answered the handshake.
const HANDSHAKE: Duration = Duration::from_secs(20);

/// A program that calls [`child_main`], or [`prepare`] first in its `main`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileProgram {
    /// The executable.
    pub path: PathBuf,
    /// Its arguments, such as a hidden subcommand.
    pub args: Vec<OsString>,
}

/// The place in which components are compiled. [`CompileMode::find`] finds a program.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompileMode {
    /// In a child process with limits.
    Child(CompileProgram),
    /// In this process, without limits: for components that the embedder trusts.
    TrustedInProcess,
}

/// The resources that one compilation may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileLimits {
    /// Bytes of a component; checked before anything is parsed. Default 64 MiB: components of interpreters have some 40
    /// MB.
    pub component_bytes: u64,
    /// Bytes of native code that are accepted. Default 512 MiB.
    pub compiled_bytes: u64,
    /// Address space of the child in bytes. Default 4 GiB.
    pub address_space: u64,
    /// CPU time of the child in seconds, all its threads together. Default 120.
    pub cpu_seconds: u64,
    /// Wall time from start to answer. Default 600 s: on a busy machine, the CPU time alone ends what compiles for too
    /// long, since a refusal is remembered.
    pub deadline: Duration,
    /// Children at once. Default 2.
    pub parallel: usize,
}

impl Default for CompileLimits {
    fn default() -> Self {
        Self {
            component_bytes: 64 << 20,
            compiled_bytes: 512 << 20,
            address_space: 4 << 30,
            cpu_seconds: 120,
            deadline: Duration::from_secs(600),
            parallel: 2,
        }
    }
}

/// Why there is no native code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The component is invalid, or uses what is switched off.
    #[error("the component does not compile: {message}")]
    Rejected {
        /// The compiler's words.
        message: String,
    },
    /// A limit ended the compilation.
    #[error("compiling the component exceeds a limit: {what}")]
    Limit {
        /// The limit with its value and unit.
        what: String,
    },
    /// The child process did not do its work, for reasons that need not be the component's.
    #[error("the compile process failed: {message}")]
    Process {
        /// The output of the process in place of an answer.
        message: String,
    },
}

impl CompileError {
    /// The stable, kebab-case name of this kind of error.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Rejected { .. } => "compile-rejected",
            Self::Limit { .. } => "compile-limit",
            Self::Process { .. } => "compile-process",
        }
    }

    fn process(what: &str, error: impl std::fmt::Display) -> Self {
        Self::Process { message: format!("{what}: {error}") }
    }
}

/// Turns components into native code for one kind of engine.
pub(crate) struct Compiler {
    mode: CompileMode,
    limits: CompileLimits,
    metering: Metering,
    room: Room,
    engine: Engine,
    compatibility: String,
    permits: Semaphore,
}

impl Compiler {
    pub(crate) fn new(
        mode: CompileMode,
        limits: CompileLimits,
        metering: Metering,
        room: Room,
    ) -> Result<Self, SandboxError> {
        // Whatever this process is, it was started to compile: going on would start the next generation.
        if prepared::is_child() {
            return Err(SandboxError::CompileChild);
        }
        let engine = crate::engine::compiler(metering, room)?;
        let compatibility = crate::engine::compatibility(&engine);
        let permits = Semaphore::new(limits.parallel.max(1));
        Ok(Self { mode, limits, metering, room, engine, compatibility, permits })
    }

    /// Returns the compatibility text of the engines that can load this compiler's output.
    pub(crate) fn compatibility(&self) -> &str {
        &self.compatibility
    }

    /// Returns the limits of a compilation, as a text that differs where a limit does.
    pub(crate) fn limits(&self) -> String {
        format!("{:?}", self.limits)
    }

    /// The largest component that is looked at.
    pub(crate) fn component_bytes(&self) -> u64 {
        self.limits.component_bytes
    }

    /// Native code for `component`.
    pub(crate) async fn compile(&self, component: &Arc<[u8]>) -> Result<Vec<u8>, CompileError> {
        let _permit = self.permits.acquire().await.map_err(|error| CompileError::process("no permit", error))?;
        match &self.mode {
            CompileMode::Child(program) => {
                match tokio::time::timeout(self.limits.deadline, self.in_child(program, component)).await {
                    Ok(result) => result,
                    // The child is killed when its handle is dropped.
                    Err(_) => Err(CompileError::Limit {
                        what: format!("{} s of wall time", self.limits.deadline.as_secs_f32()),
                    }),
                }
            }
            CompileMode::TrustedInProcess => {
                let (engine, component) = (self.engine.clone(), Arc::clone(component));
                tokio::task::spawn_blocking(move || {
                    engine
                        .precompile_component(&component)
                        .map_err(|error| CompileError::Rejected { message: format!("{error:#}") })
                })
                .await
                .map_err(|error| CompileError::process("the compiler panicked", error))?
            }
        }
    }

    async fn in_child(&self, program: &CompileProgram, component: &[u8]) -> Result<Vec<u8>, CompileError> {
        let mut child = Command::new(&program.path)
            .args(&program.args)
            .env_clear()
            .env(prepared::MARKER, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| CompileError::process(&format!("cannot start `{}`", program.path.display()), error))?;
        let (Some(mut stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(CompileError::Process { message: "no pipes to the child".to_owned() });
        };
        let mut stdout = BufReader::new(stdout);
        let request = Request::new(self.metering, self.room, &self.compatibility, component, &self.limits);
        let exchange = async {
            // Nothing is sent to a program that does not know what it was started for, and it ends here.
            match self.handshake(&mut stdout, program).await {
                Ok(Ok(())) => {}
                Ok(Err(stranger)) => {
                    let _ = child.start_kill();
                    return Ok(Err(stranger));
                }
                Err(died) => return Err(died),
            }
            let send = async {
                // A child that dies early breaks the pipe; how it died says more than the broken pipe.
                let _ = stdin.write_all(request.line().as_bytes()).await;
                let _ = stdin.write_all(component).await;
                drop(stdin);
            };
            tokio::join!(send, self.receive(&mut stdout)).1
        };
        let (received, complaint) = tokio::join!(exchange, tail(stderr, 2_048));
        let status = child.wait().await.map_err(|error| CompileError::process("cannot wait for the child", error))?;
        match received {
            Ok(received) => received,
            Err(broken) => Err(self.death(status, &broken, &complaint)),
        }
    }

    /// Waits until the child has said that it compiles components, and is of this version. The outer error says that it
    /// said nothing.
    async fn handshake(
        &self,
        stdout: &mut (impl AsyncBufReadExt + Unpin),
        program: &CompileProgram,
    ) -> Result<Result<(), CompileError>, String> {
        let stranger = |what: &str| CompileError::Process {
            message: format!(
                "`{}` is not a compiler of components: {what}. A program that compiles in children of itself calls \
                 `prepare` first in its `main`",
                program.path.display()
            ),
        };
        let mut line = String::new();
        let mut first = (&mut *stdout).take(frame::MAX_LINE);
        match tokio::time::timeout(HANDSHAKE, first.read_line(&mut line)).await {
            Err(_) => return Ok(Err(stranger(&format!("it has not answered within {} s", HANDSHAKE.as_secs())))),
            Ok(Err(error)) => return Ok(Err(stranger(&error.to_string()))),
            Ok(Ok(0)) => return Err("it gave no answer".to_owned()),
            Ok(Ok(_)) => {}
        }
        Ok(match Answer::parse(&line) {
            Ok(Answer::Ready { version }) if version == frame::VERSION => Ok(()),
            Ok(Answer::Ready { version }) => Err(CompileError::Process {
                message: format!(
                    "`{}` is version {}, this program needs version {}",
                    program.path.display(),
                    opcell_types::text::printable(&version, 100),
                    frame::VERSION
                ),
            }),
            Ok(_) => Err(stranger("it did not say that it is one")),
            Err(what) => Err(stranger(&what)),
        })
    }

    /// The child's answer; the outer error says that there was none.
    async fn receive(&self, mut stdout: impl AsyncBufReadExt + Unpin) -> Result<Result<Vec<u8>, CompileError>, String> {
        let mut line = String::new();
        (&mut stdout).take(frame::MAX_LINE).read_line(&mut line).await.map_err(|error| error.to_string())?;
        match Answer::parse(&line)? {
            Answer::Ready { .. } => Err("the child said twice that it is ready".to_owned()),
            Answer::Rejected { message } => {
                Ok(Err(CompileError::Rejected { message: opcell_types::text::printable(&message, 4_096) }))
            }
            Answer::Compiled { engine, bytes, digest } => {
                if engine != self.compatibility {
                    return Err("the child was built with a different engine than this process".to_owned());
                }
                if bytes > self.limits.compiled_bytes {
                    return Ok(Err(CompileError::Limit { what: format!("{bytes} bytes of native code") }));
                }
                let mut compiled = Vec::new();
                (&mut stdout).take(bytes).read_to_end(&mut compiled).await.map_err(|error| error.to_string())?;
                if compiled.len() as u64 != bytes || blake3::hash(&compiled).to_hex().as_str() != digest {
                    return Err("the native code was truncated or changed in transit".to_owned());
                }
                Ok(Ok(compiled))
            }
        }
    }

    fn death(&self, status: std::process::ExitStatus, broken: &str, complaint: &str) -> CompileError {
        use rustix::process::Signal;
        use std::os::unix::process::ExitStatusExt as _;
        let signal = status.signal();
        let limit = |what: String| CompileError::Limit { what };
        if signal == Some(Signal::XCPU.as_raw()) || signal == Some(Signal::KILL.as_raw()) {
            return limit(format!("{} s of CPU time", self.limits.cpu_seconds));
        }
        // An allocation that fails aborts; threads that cannot be started panic.
        if signal == Some(Signal::ABORT.as_raw())
            || complaint.contains("memory")
            || complaint.contains("Resource temporarily unavailable")
        {
            return limit(format!("{} MiB of address space", self.limits.address_space >> 20));
        }
        CompileError::Process { message: format!("{broken} ({status}) {complaint}").trim_end().to_owned() }
    }
}

/// The last `limit` bytes of a stream, printable.
async fn tail(mut stream: impl AsyncRead + Unpin, limit: usize) -> String {
    let mut kept = Vec::new();
    let mut buffer = [0; 1_024];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        kept.extend_from_slice(buffer.get(..count).unwrap_or_default());
        kept.drain(..kept.len().saturating_sub(limit));
    }
    opcell_types::text::printable(&String::from_utf8_lossy(&kept), limit)
}
