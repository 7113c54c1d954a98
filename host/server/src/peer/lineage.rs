//! The processes that hold a socket of this machine, and the processes above them.
//!
//! A server of tools or a command of a model runs as the user that runs this server, and reaches its address, as does
//! what Opcell itself sends for a plugin. It may do there whatever a program of the user does, except what only a
//! person may: approve.

use opcell::lineage::is_opcell_or_below;
use std::{collections::HashMap, fs, net::SocketAddr, path::Path, sync::Mutex, sync::PoisonError};

/// Connections that are remembered, so that each is looked up once.
const MAX_REMEMBERED: usize = 1_024;

/// Connections whose other end was looked up.
#[derive(Debug, Default)]
pub(crate) struct Lineages(Mutex<HashMap<(SocketAddr, u32), bool>>);

impl Lineages {
    /// Returns `true` if the holder of a socket is an Opcell process or one started it, or if the holder is unknown.
    /// Blocks.
    pub(super) fn is_below_opcell(&self, peer: SocketAddr, inode: u32) -> bool {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known().get(&(peer, inode)) {
            return *known;
        }
        let holders = holders(inode);
        let found = holders.is_empty() || holders.into_iter().any(is_opcell_or_below);
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test")]

    use super::*;
    use std::{
        net::TcpListener,
        process::{Command, Stdio},
    };

    #[test]
    fn what_this_process_sends_and_what_it_started_is_no_person() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap();
        let ours = std::net::TcpStream::connect(own).unwrap();
        let (_theirs, peer) = listener.accept().unwrap();
        let (_, inode) = super::super::socket_diag::holder_of(peer, own).unwrap();
        assert_eq!(holders(inode), [std::process::id()]);
        assert!(Lineages::default().is_below_opcell(peer, inode), "as a request of a plugin is");
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
