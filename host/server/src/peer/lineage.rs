//! The processes that hold a socket of this machine, and the processes above them.
//!
//! A server of tools or a command of a model runs as the user that runs this server, and reaches its address. It may do
//! there whatever a program of the user does, except what only a person may: approve.

use std::{collections::HashMap, fs, net::SocketAddr, path::Path, sync::Mutex, sync::PoisonError};

/// Connections that are remembered, so that each is looked up once.
const MAX_REMEMBERED: usize = 1_024;

/// Processes above one that are looked at.
const MAX_ANCESTORS: usize = 64;

/// Connections whose other end was looked up.
#[derive(Debug, Default)]
pub(crate) struct Lineages(Mutex<HashMap<(SocketAddr, u32), bool>>);

impl Lineages {
    /// Returns `true` if an Opcell process started the holder of a socket, or if the holder is unknown.
    /// Blocks.
    pub(super) fn is_below_opcell(&self, peer: SocketAddr, inode: u32) -> bool {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known().get(&(peer, inode)) {
            return *known;
        }
        let holders = holders(inode);
        let found = holders.is_empty() || holders.into_iter().any(is_started_by_opcell);
        let mut known = known();
        if known.len() >= MAX_REMEMBERED {
            known.clear();
        }
        known.insert((peer, inode), found);
        found
    }
}

/// The processes that have a socket open, of those that this user may look into.
fn holders(inode: u32) -> Vec<u32> {
    let socket = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| {
        let open = fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().filter_map(Result::ok);
        open.map(|entry| entry.path()).any(|path| fs::read_link(path).is_ok_and(|to| to == Path::new(&socket)))
    })
    .collect()
}

/// Returns `true` if a process above this one is an Opcell: this server, or another process of the same program.
fn is_started_by_opcell(process: u32) -> bool {
    let own = fs::read_link("/proc/self/exe").ok();
    let name = own.as_deref().and_then(Path::file_name);
    let mut above = parent_of(process);
    for _ in 0..MAX_ANCESTORS {
        let Some(id) = above.filter(|id| *id > 1) else { return false };
        let program = fs::read_link(format!("/proc/{id}/exe")).ok();
        if id == std::process::id() || program.as_deref().and_then(Path::file_name).is_some_and(|it| Some(it) == name) {
            return true;
        }
        above = parent_of(id);
    }
    true
}

/// The process that started another one. The name in parentheses may hold anything.
fn parent_of(process: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    status.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test")]

    use super::*;
    use std::{
        net::TcpListener,
        process::{Command, Stdio},
    };

    #[test]
    fn a_program_that_this_process_started_is_told_from_this_process() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap();
        let ours = std::net::TcpStream::connect(own).unwrap();
        let (_theirs, peer) = listener.accept().unwrap();
        let (_, inode) = super::super::socket_diag::holder_of(peer, own).unwrap();
        assert_eq!(holders(inode), [std::process::id()]);
        assert!(!Lineages::default().is_below_opcell(peer, inode));
        drop(ours);

        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{} && read -r _", own.port());
        let Ok(mut child) = Command::new("bash").args(["-c", &script]).stdin(Stdio::piped()).spawn() else {
            eprintln!("SKIPPED: there is no bash");
            return;
        };
        let (_theirs, peer) = listener.accept().unwrap();
        let (_, inode) = super::super::socket_diag::holder_of(peer, own).unwrap();
        assert!(Lineages::default().is_below_opcell(peer, inode));
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
