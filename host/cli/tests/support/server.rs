//! `opcell serve` as a process, and requests over real sockets.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::panic, clippy::indexing_slicing, reason = "a failed test")]

use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Far more than anything here takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn opcell(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_opcell"));
    command.current_dir(folder).env("HOME", folder).env_remove("XDG_STATE_HOME").stdin(Stdio::null());
    command
}

/// A server that is stopped at the end of its test.
pub struct Server {
    child: Child,
    pub address: String,
    /// The token that it started with, where the project has none of its own.
    pub token: Option<String>,
}

impl Server {
    /// The ID of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn start(folder: &Path) -> Self {
        Self::start_with(folder, &[])
    }

    pub fn start_with(folder: &Path, arguments: &[&str]) -> Self {
        Self::start_logged(folder, arguments, Stdio::inherit())
    }

    pub fn start_logged(folder: &Path, arguments: &[&str], log: impl Into<Stdio>) -> Self {
        let mut command = opcell(folder);
        command.args(["serve", "--listen", "127.0.0.1:0", "--json"]).args(arguments);
        Self::spawn(command, log)
    }

    /// Starts a server whose user has another home than the project's folder.
    pub fn start_as(folder: &Path, home: &Path) -> Self {
        let mut command = opcell(folder);
        command.env("HOME", home).args(["serve", "--listen", "127.0.0.1:0", "--json"]);
        Self::spawn(command, Stdio::inherit())
    }

    fn spawn(mut command: Command, log: impl Into<Stdio>) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        let address = said["listening"].as_str().unwrap().split_once("://").unwrap().1.to_owned();
        let token = said["token"].as_str().map(str::to_owned);
        Self { child, address, token }
    }

    pub fn open(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head += &format!("Host: {}\r\n", self.address);
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        BufReader::new(stream)
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String, String) {
        let mut text = String::new();
        self.open(method, path, headers, body).read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let body = if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
            unchunked(body)
        } else {
            body.to_owned()
        };
        (status, head.to_owned(), body)
    }

    pub fn get(&self, path: &str) -> (u16, Value) {
        let (status, _, body) = self.send("GET", path, &[], "");
        (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }

    pub fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> (u16, Value) {
        let mut all = vec![("Content-Type", "application/json")];
        all.extend(headers);
        let (status, _, body) = self.send("POST", path, &all, &body.to_string());
        (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }

    pub fn wait_for(&self, run: &str, status: &str) -> Value {
        let began = Instant::now();
        loop {
            let (_, found) = self.get(&format!("/v1/default/runs/{run}"));
            if found["status"] == status {
                return found;
            }
            assert!(began.elapsed() < PATIENCE, "{found}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn terminate(mut self) -> Option<i32> {
        Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn unchunked(mut body: &str) -> String {
    let mut text = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let Ok(size) = usize::from_str_radix(size.trim(), 16) else { break };
        if size == 0 {
            break;
        }
        text += rest.get(..size).unwrap_or(rest);
        body = rest.get(size + 2..).unwrap_or_default();
    }
    text
}
