//! A real PostgreSQL server on a scratch folder, for tests. It needs the server's programs (Debian: `apt-get install
//! postgresql`).

#![expect(clippy::disallowed_methods, reason = "a server for tests, in a folder of its own")]

use std::{
    fs,
    io::{self, Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// The time that a server may take to start or to stop.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A server of its own; it stops, and its folder goes, when this is dropped.
#[derive(Debug)]
pub struct Server {
    programs: PathBuf,
    folder: tempfile::TempDir,
    user: Option<u32>,
    port: u16,
    process: Option<Child>,
    flushes: bool,
}

impl Server {
    /// Starts a server that waits for the disk at each commit, or says on stderr, where no one misses it, that there
    /// is none to start.
    ///
    /// # Errors
    /// When a server is installed and does not start.
    pub fn start() -> io::Result<Option<Self>> {
        Self::start_with(true)
    }

    /// Starts a server as [`start`](Self::start) does, but one that leaves flushing to the operating system. A killed
    /// process loses nothing by it, and a disk that other programs keep busy delays no commit.
    ///
    /// # Errors
    /// When a server is installed and does not start.
    pub fn start_without_flush() -> io::Result<Option<Self>> {
        Self::start_with(false)
    }

    fn start_with(flushes: bool) -> io::Result<Option<Self>> {
        let Some(programs) = programs() else {
            eprintln!(
                "SKIPPED: no PostgreSQL server is installed (Debian: apt-get install postgresql); nothing was tested on one"
            );
            return Ok(None);
        };
        let folder = tempfile::tempdir()?;
        // A server refuses to run as root.
        let root = fs::metadata(folder.path()).is_ok_and(|made| std::os::unix::fs::MetadataExt::uid(&made) == 0);
        let user = root.then(unprivileged);
        if let Some(user) = user {
            chown(folder.path(), Some(user), None)?;
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut server = Self { programs, folder, user, port, process: None, flushes };
        let data = server.data();
        let mut initdb = server.command("initdb");
        initdb
            .args(["--no-sync", "--auth=trust", "--username=opcell", "--encoding=UTF8", "--locale=C", "-D"])
            .arg(&data);
        let made = initdb.output()?;
        if !made.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&made.stderr).into_owned()));
        }
        server.launch()?;
        Ok(Some(server))
    }

    /// A URL of the server's database `postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://opcell@127.0.0.1:{}/postgres?sslmode=disable", self.port)
    }

    /// Returns the port at which it listens on this machine.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's process, while it runs.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.process.as_ref().map_or(0, Child::id)
    }

    /// The folder that goes with the server.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts the server again after [`stop`](Self::stop) or [`kill`](Self::kill), on the same port and folder.
    ///
    /// # Errors
    /// When it does not start.
    pub fn launch(&mut self) -> io::Result<()> {
        let log = fs::File::create(self.folder.path().join("server.log"))?;
        let mut command = self.command("postgres");
        command
            .arg("-D")
            .arg(self.data())
            .arg("-k")
            .arg(self.folder.path())
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-c", "max_connections=300"])
            .args(["-c", if self.flushes { "fsync=on" } else { "fsync=off" }])
            .stdout(Stdio::null())
            .stderr(log);
        let mut process = command.spawn()?;
        let until = Instant::now() + START_TIMEOUT;
        loop {
            let mut ready = self.command("pg_isready");
            ready.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
            if ready.status()?.success() {
                self.process = Some(process);
                return Ok(());
            }
            if process.try_wait()?.is_some() || Instant::now() > until {
                let _ = process.kill();
                let said = fs::read_to_string(self.folder.path().join("server.log")).unwrap_or_default();
                return Err(io::Error::other(format!("PostgreSQL does not start: {said}")));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Stops the server as an administrator would: connections are cut, what is committed stays.
    ///
    /// # Errors
    /// When it cannot be signalled.
    pub fn stop(&mut self) -> io::Result<()> {
        self.end("fast")
    }

    /// Stops the server as a power failure would.
    ///
    /// # Errors
    /// When it cannot be signalled.
    pub fn kill(&mut self) -> io::Result<()> {
        self.end("immediate")
    }

    fn end(&mut self, mode: &str) -> io::Result<()> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        let mut stop = self.command("pg_ctl");
        stop.args(["stop", "-s", "-m", mode, "-D"]).arg(self.data());
        let stopped = stop.status()?;
        if !stopped.success() {
            process.kill()?;
        }
        process.wait().map(drop)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A program of the server's package, such as `psql`, as the user that runs the server.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        if let Some(user) = self.user {
            command.uid(user);
        }
        command
    }
}

/// The URL of a server that all tests of this process share, each in a schema of its own; it stops after the process.
/// `None`, after a line on stderr, where none is installed.
///
/// # Errors
/// When a server is installed and does not start.
pub fn shared() -> io::Result<Option<&'static str>> {
    /// The server and its URL; nothing where there is no PostgreSQL.
    type Started = Option<(Mutex<Server>, String)>;
    static SERVER: OnceLock<Result<Started, String>> = OnceLock::new();
    let start = || {
        let Some(server) = Server::start_without_flush()? else { return Ok(None) };
        stop_after_this_process(&server)?;
        let url = server.url();
        Ok(Some((Mutex::new(server), url)))
    };
    let started = SERVER.get_or_init(|| start().map_err(|error: io::Error| error.to_string()));
    match started {
        Ok(started) => Ok(started.as_ref().map(|(_, url)| url.as_str())),
        Err(error) => Err(io::Error::other(error.clone())),
    }
}

/// A way to the server that loses a client in the middle of a transaction, as a power failure of its machine does. While
/// `loses` is set, what a connection sends arrives up to a message with `words`, and nothing after it; no answer to it
/// comes back, and the server's end stays open. Returns the way's port.
///
/// # Errors
/// When no port can be had.
pub fn losing_clients(server: u16, words: &'static str, loses: Arc<AtomicBool>) -> io::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client?, TcpStream::connect(("127.0.0.1", server))?);
            let lost = Arc::new(AtomicBool::new(false));
            let (answered, to_client, silent) = (server.try_clone()?, client.try_clone()?, Arc::clone(&lost));
            thread::spawn(move || pass(answered, to_client, |_| silent.load(Ordering::SeqCst)));
            let loses = Arc::clone(&loses);
            thread::spawn(move || {
                pass(client, server, |sent| {
                    let already = lost.load(Ordering::SeqCst);
                    let now = loses.load(Ordering::SeqCst) && sent.windows(words.len()).any(|w| w == words.as_bytes());
                    lost.fetch_or(now, Ordering::SeqCst);
                    already
                })
            });
        }
        Ok::<_, io::Error>(())
    });
    Ok(port)
}

/// Carries what is not lost; an end that loses hears not even that the other is closed.
fn pass(mut from: TcpStream, mut to: TcpStream, loses: impl Fn(&[u8]) -> bool) -> io::Result<()> {
    let mut piece = vec![0; 16 << 10];
    loop {
        let length = from.read(&mut piece).unwrap_or(0);
        let read = piece.get(..length).unwrap_or_default();
        match (loses(read), length) {
            (true, 0) => loop {
                thread::park();
            },
            (true, _) => {}
            (false, 0) => return to.shutdown(Shutdown::Both),
            (false, _) => to.write_all(read)?,
        }
    }
}

/// A static is never dropped, so the server goes with a watcher that outlives this process by a moment.
fn stop_after_this_process(server: &Server) -> io::Result<()> {
    let watch = format!(
        "while kill -0 {} 2>/dev/null; do sleep 0.2; done; kill -QUIT {} 2>/dev/null; sleep 2; rm -rf '{}'",
        std::process::id(),
        server.process_id(),
        server.folder().display()
    );
    Command::new("sh").args(["-c", &watch]).spawn().map(drop)
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// The folder of the server's programs: on the path, or where Debian keeps them.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).find(|folder| is_server(folder));
    let versions = fs::read_dir("/usr/lib/postgresql").ok().into_iter().flatten().filter_map(Result::ok);
    let mut of_debian: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    of_debian.sort();
    on_path.or_else(|| of_debian.into_iter().rev().find(|folder| is_server(folder)))
}

fn is_server(folder: &Path) -> bool {
    ["initdb", "postgres", "pg_ctl", "pg_isready"].iter().all(|program| folder.join(program).is_file())
}

/// The user `postgres`, or else the one without rights.
fn unprivileged() -> u32 {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let postgres = users.lines().find_map(|line| line.strip_prefix("postgres:")?.split(':').nth(1)?.parse().ok());
    postgres.unwrap_or(65_534)
}
