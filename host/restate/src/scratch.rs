//! A real Restate server on a scratch folder, for tests. Its program comes from the npm package of its makers.

#![expect(clippy::disallowed_methods, reason = "a server for tests, in a folder of its own")]

use std::{
    collections::hash_map::RandomState,
    fs,
    hash::{BuildHasher as _, Hasher as _},
    io,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The package that is installed, where npm is there.
const PACKAGE: &str = "@restatedev/restate-server-linux-x64@1.7.12";

/// The time that the package may take to download, and a server to start.
const START_TIMEOUT: Duration = Duration::from_secs(180);

/// A server of its own; it stops, and its folder goes, when this is dropped.
#[derive(Debug)]
pub struct RestateServer {
    program: PathBuf,
    folder: tempfile::TempDir,
    ports: [u16; 3],
    process: Option<Child>,
}

impl RestateServer {
    /// Starts a server, or says on stderr, where no one misses it, that there is none to start. `kept` is a folder that
    /// outlasts tests, where its program is installed once.
    ///
    /// # Errors
    /// When the program is there and does not start.
    pub fn start(kept: &Path) -> io::Result<Option<Self>> {
        let Some(program) = program(kept) else {
            eprintln!("SKIPPED: no Restate server: `npm install {PACKAGE}` failed; nothing was tested on one");
            return Ok(None);
        };
        let mut tries = 0..5;
        loop {
            let ports = [free_port(), free_port(), free_port()];
            let mut server = Self { program: program.clone(), folder: tempfile::tempdir()?, ports, process: None };
            match server.launch() {
                Ok(()) => return Ok(Some(server)),
                // Another test was faster.
                Err(error) if error.to_string().contains("in use") && tries.next().is_some() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The URL of its admin API.
    #[must_use]
    pub fn admin(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    /// The URL where it takes calls.
    #[must_use]
    pub fn ingress(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[1])
    }

    /// Kills the server and starts it again with what it has on disk.
    ///
    /// # Errors
    /// When it does not start.
    pub fn restart(&mut self) -> io::Result<()> {
        self.stop();
        self.launch()
    }

    fn launch(&mut self) -> io::Result<()> {
        let [admin, ingress, node] = self.ports.map(|port| format!("127.0.0.1:{port}"));
        let log = fs::File::create(self.folder.path().join("log"))?;
        let child = Command::new(&self.program)
            .arg("--node-name=test")
            .arg("--base-dir")
            .arg(self.folder.path().join("data"))
            .args(["--listen-mode=tcp", "--auto-provision=true"])
            .env("RESTATE_ADMIN__BIND_ADDRESS", admin)
            .env("RESTATE_INGRESS__BIND_ADDRESS", ingress)
            .env("RESTATE_BIND_ADDRESS", node)
            .env("RESTATE_DISABLE_TELEMETRY", "true")
            // A killed process loses nothing without them, and a disk that other programs keep busy delays no turn.
            .env("RESTATE_LOG_SERVER__ROCKSDB_DISABLE_WAL_FSYNC", "true")
            .env("RESTATE_BIFROST__LOCAL__ROCKSDB_DISABLE_WAL_FSYNC", "true")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        self.process = Some(child);
        let until = Instant::now() + START_TIMEOUT;
        while !(self.answers(self.ports[0], "/health") && self.answers(self.ports[1], "/restate/health")) {
            let ended = self.process.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)));
            if ended || Instant::now() > until {
                let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                let end: Vec<&str> = log.lines().rev().take(20).collect();
                return Err(io::Error::other(format!("the Restate server does not start:\n{}", end.join("\n"))));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn answers(&self, port: u16, path: &str) -> bool {
        use io::{Read as _, Write as _};
        let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", port)) else { return false };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let mut answer = [0; 12];
        stream.write_all(request.as_bytes()).is_ok()
            && stream.read_exact(&mut answer).is_ok()
            && answer.starts_with(b"HTTP/1.1 200")
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.process.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for RestateServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A port that nothing listens on: below those that the system gives to outgoing connections, which would take it
/// before a server that starts a moment later.
#[must_use]
pub fn free_port() -> u16 {
    loop {
        let chance = RandomState::new().build_hasher().finish();
        let port = 20_000 + u16::try_from(chance % 12_000).unwrap_or(0);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// The server's program, installed if it is not there yet.
fn program(kept: &Path) -> Option<PathBuf> {
    let folder = kept.join("restate");
    fs::create_dir_all(&folder).ok()?;
    // One test at a time: a program that npm still writes is there already, and cannot be run.
    let lock = fs::File::create(folder.join("lock")).ok()?;
    lock.lock().ok()?;
    let (program, complete) =
        (folder.join("node_modules/@restatedev/restate-server-linux-x64/bin/restate-server"), folder.join("complete"));
    if !complete.is_file() {
        let mut install = Command::new("npm");
        install.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]).arg(&folder).arg(PACKAGE);
        let mut child = install.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        let until = Instant::now() + START_TIMEOUT;
        let ended = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status.success(),
                Ok(None) if Instant::now() < until => thread::sleep(Duration::from_millis(50)),
                _ => {
                    let _ = child.kill();
                    break false;
                }
            }
        };
        if !ended || !program.is_file() {
            return None;
        }
        fs::write(complete, "").ok()?;
    }
    Some(program)
}
