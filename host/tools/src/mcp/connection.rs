//! A connection to a server: its process with what that writes to its standard error, or its address; the handshake.

use super::{Listing, McpServer, Remote, StartCheck, ask, failed, patience::Patient};
use opcell_types::{Failure, text::printable};
use rmcp::{
    ClientHandler, RoleClient, ServiceError, ServiceExt as _,
    service::{NotificationContext, Peer, RunningService},
    transport::async_rw::AsyncRwTransport,
};
use std::{
    process::Stdio,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, ChildStderr, Command},
    time::timeout,
};

/// Bytes of a server's standard error that are kept: its end, where the reason of a failure is.
const STDERR_BYTES: usize = 4 << 10;

/// How long a server that broke off may take to end, before no one asks for its exit status any more.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A server that runs. Dropping it ends its process.
pub(super) struct Connection {
    service: RunningService<RoleClient, Handler>,
    process: Option<Process>,
    changed: Arc<AtomicBool>,
    listing: Mutex<Option<Arc<Listing>>>,
}

/// What the server sends this client unasked.
struct Handler {
    changed: Arc<AtomicBool>,
}

impl ClientHandler for Handler {
    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.store(true, Ordering::Release);
    }
}

impl Connection {
    /// Starts the server, or connects to it, and does the handshake.
    pub(super) async fn start(
        name: String,
        config: McpServer,
        check: Option<Arc<dyn StartCheck>>,
    ) -> Result<Arc<Self>, Failure> {
        if let Some(remote) = &config.remote {
            return Self::connect(&name, remote, &config).await;
        }
        if let Some(check) = check {
            // It reads files.
            let checked = tokio::task::spawn_blocking(move || check.check()).await;
            checked.unwrap_or_else(|error| Err(error.to_string())).map_err(|why| {
                failed("mcp-not-started", format!("MCP server `{name}` ({}): {why}", config.program), false)
            })?;
        }
        Self::spawn(name, config).await
    }

    #[cfg(feature = "http")]
    async fn connect(name: &str, remote: &Remote, config: &McpServer) -> Result<Arc<Self>, Failure> {
        let failed = |what: String| {
            let message = format!("MCP server `{name}` ({}): {}", remote.url, printable(&what, 500));
            failed("mcp-not-started", message, false)
        };
        let transport = super::remote::transport(remote, config.result_bytes).await.map_err(failed)?;
        let changed = Arc::new(AtomicBool::new(false));
        match timeout(config.call_time, Handler { changed: changed.clone() }.serve(Patient::new(transport))).await {
            Ok(Ok(service)) => Ok(Arc::new(Self { service, process: None, changed, listing: Mutex::default() })),
            Ok(Err(error)) => Err(failed(format!("the handshake failed: {error}"))),
            Err(_) => Err(failed(format!("no handshake within {} ms", config.call_time.as_millis()))),
        }
    }

    #[cfg(not(feature = "http"))]
    async fn connect(name: &str, remote: &Remote, _config: &McpServer) -> Result<Arc<Self>, Failure> {
        let message =
            format!("MCP server `{name}` ({}): this program is built without HTTP (feature `http`)", remote.url);
        Err(failed("not-built-in", message, false))
    }

    async fn spawn(name: String, config: McpServer) -> Result<Arc<Self>, Failure> {
        let not_started = |what: String| {
            failed("mcp-not-started", format!("MCP server `{name}` ({}): {what}", config.program), false)
        };
        let mut command = Command::new(&config.program);
        command
            .args(&config.arguments)
            .current_dir(&config.directory)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        for name in std::iter::once("PATH").chain(config.env.iter().map(String::as_str)) {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        tie(&mut command);
        if config.confine {
            confine(&mut command, &config).map_err(not_started)?;
        }
        let mut child = command.spawn().map_err(|error| not_started(format!("it cannot be started: {error}")))?;
        let pipes = child.stdout.take().zip(child.stdin.take());
        let process = Process::new(child);
        let (stdout, stdin) = pipes.ok_or_else(|| not_started("it has no pipes".to_owned()))?;
        let longest = usize::try_from(config.result_bytes).unwrap_or(usize::MAX);
        let transport = AsyncRwTransport::<RoleClient, _, _>::new(stdout, stdin).with_max_line_length(longest);
        let transport = Patient::new(transport);
        let changed = Arc::new(AtomicBool::new(false));
        let handshake = timeout(config.call_time, Handler { changed: changed.clone() }.serve(transport)).await;
        let service = match handshake {
            Ok(Ok(service)) => service,
            Ok(Err(error)) => {
                let why = process.why_it_ended().await;
                return Err(not_started(format!("the handshake failed: {}{why}", printable(&error.to_string(), 500))));
            }
            Err(_) => {
                let ms = config.call_time.as_millis();
                return Err(not_started(format!("no handshake within {ms} ms{}", process.last_words())));
            }
        };
        Ok(Arc::new(Self { service, process: Some(process), changed, listing: Mutex::default() }))
    }

    pub(super) fn is_open(&self) -> bool {
        !self.service.is_transport_closed()
    }

    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    /// Its exit status and the end of its standard error, as the end of a message.
    pub(super) async fn why_it_ended(&self) -> String {
        match &self.process {
            Some(process) => process.why_it_ended().await,
            None => String::new(),
        }
    }

    /// The tools that it lists; asked for again only after it said that they changed.
    pub(super) async fn tools(&self) -> Result<Arc<Listing>, ServiceError> {
        let kept = || self.listing.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = self.changed.swap(false, Ordering::AcqRel);
        if let Some(listing) = kept().clone().filter(|_| !changed) {
            return Ok(listing);
        }
        match ask::ask(self.peer()).await {
            Ok(listing) => {
                let listing = Arc::new(listing);
                *kept() = Some(listing.clone());
                Ok(listing)
            }
            Err(error) => {
                self.changed.store(true, Ordering::Release);
                Err(error)
            }
        }
    }
}

/// Ends the process with this one, however that ends.
#[allow(unsafe_code, reason = "what happens between fork and exec")]
fn tie(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        let parent = rustix::process::getpid();
        let die_with_the_host = move || -> std::io::Result<()> {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            // It may have ended before the kernel knew.
            if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(std::io::ErrorKind::BrokenPipe.into()) }
        };
        // SAFETY: two system calls; nothing is allocated and no lock is taken.
        unsafe { command.pre_exec(die_with_the_host) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
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

struct Process {
    child: tokio::sync::Mutex<Child>,
    group: Option<rustix::process::Pid>,
    stderr: Arc<Mutex<Vec<u8>>>,
}

impl Drop for Process {
    /// What the server itself started (`npx` starts another program) is in its process group.
    fn drop(&mut self) {
        if let Some(group) = self.group {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

impl Process {
    fn new(mut child: Child) -> Self {
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        let stderr = Arc::new(Mutex::default());
        if let Some(pipe) = child.stderr.take() {
            // Read to its end, so that a server that writes much never waits for a reader. The pipe ends with the
            // process group.
            drop(tokio::spawn(keep_end::<ChildStderr>(pipe, stderr.clone())));
        }
        Self { child: tokio::sync::Mutex::new(child), group, stderr }
    }

    async fn why_it_ended(&self) -> String {
        let ended = timeout(LAST_WORDS, async { self.child.lock().await.wait().await }).await;
        let status = match ended {
            Ok(Ok(status)) => format!("; the process ended: {status}"),
            Ok(Err(_)) | Err(_) => String::new(),
        };
        // What it wrote last may still be in the pipe.
        tokio::time::sleep(Duration::from_millis(20)).await;
        format!("{status}{}", self.last_words())
    }

    fn last_words(&self) -> String {
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        let text = printable(String::from_utf8_lossy(&kept).trim(), STDERR_BYTES);
        if text.is_empty() { String::new() } else { format!("; its standard error ends with:\n{text}") }
    }
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
