//! Debian's `docker-registry`, one per test.

#![allow(clippy::unwrap_used, reason = "a failed test")]

use opcell_registry::Reference;
use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// A registry of its own, on a free port; killed when it is dropped.
pub struct Registry {
    child: Child,
    pub port: u16,
    folder: tempfile::TempDir,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `secret`, as `htpasswd -B` writes it.
const PASSWORD: &str = "ada:$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";

impl Registry {
    /// Starts one; nothing where it is not installed.
    pub fn start(authenticated: bool, certificate: Option<(&str, &str)>) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}/data}}}}\nhttp:\n  addr: 127.0.0.1:{port}\n",
            root.display()
        );
        if let Some((cert, key)) = certificate {
            fs::write(root.join("cert.pem"), cert).unwrap();
            fs::write(root.join("key.pem"), key).unwrap();
            config += &format!("  tls: {{certificate: {0}/cert.pem, key: {0}/key.pem}}\n", root.display());
        }
        if authenticated {
            fs::write(root.join("htpasswd"), PASSWORD).unwrap();
            config += &format!("auth: {{htpasswd: {{realm: test, path: {}/htpasswd}}}}\n", root.display());
        }
        fs::write(root.join("config.yml"), config).unwrap();
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(root.join("config.yml")).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(child) = command.spawn() else {
            eprintln!("SKIPPED: docker-registry is not installed (Debian: apt install docker-registry)");
            return None;
        };
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < Duration::from_secs(30), "docker-registry does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Self { child, port, folder })
    }

    pub fn reference(&self, name: &str) -> Reference {
        format!("oci://localhost:{}/{name}", self.port).parse().unwrap()
    }

    /// Every file below its storage, so that a test can change what it has.
    pub fn files(&self) -> Vec<PathBuf> {
        fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
            for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() { walk(&path, found) } else { found.push(path) }
            }
        }
        let mut found = Vec::new();
        walk(&self.folder.path().join("data"), &mut found);
        found
    }
}
