//! The processes that hold a socket of this machine, and the processes above them.
//!
//! A server of tools or a command of a model runs as the user that runs this server, and reaches its address, as does
//! what Opcell itself sends for a plugin. It may do there whatever a program of the user does, except what only a
//! person may: approve.

use opcell::lineage::is_opcell_or_below;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Returns `true` if the holder of a socket is an Opcell process or one started it, or if the holder is unknown. Blocks.
pub(super) fn is_below_opcell(inode: u32) -> bool {
    is_held_below(holders(inode), is_opcell_or_below, |process| holds(process, &link_to(inode)))
}

/// Returns `true` if one of a socket's holders is below Opcell and has not lost the socket since it was found, or if no
/// holder is known to be apart from Opcell.
///
/// A process that starts another one is there twice until the new one runs its own program: both hold all of its
/// sockets. A person's program that starts `opcell` in another of its threads would otherwise be taken for Opcell.
fn is_held_below(holders: Vec<u32>, is_below: impl Fn(u32) -> bool, still_holds: impl Fn(u32) -> bool) -> bool {
    let (below, apart): (Vec<u32>, Vec<u32>) = holders.into_iter().partition(|process| is_below(*process));
    apart.is_empty() || below.into_iter().any(still_holds)
}

/// The target of the links to a socket in `/proc/PID/fd`.
fn link_to(inode: u32) -> PathBuf {
    format!("socket:[{inode}]").into()
}

fn holds(process: u32, socket: &Path) -> bool {
    let open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().filter_map(Result::ok);
    open.map(|entry| entry.path()).any(|path| fs::read_link(path).is_ok_and(|to| to == socket))
}

/// The processes that have a socket open, of those that this user may look into.
fn holders(inode: u32) -> Vec<u32> {
    let socket = link_to(inode);
    let processes = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| holds(*id, &socket)).collect()
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
    fn a_process_that_lost_the_socket_to_its_own_program_decides_nothing() {
        let (person, child) = (7, 8);
        let is_below = |process| process == child;
        for (holders, still_holds, expected) in [
            (vec![person], false, false),
            (vec![person, child], false, false),
            (vec![person, child], true, true),
            (vec![child], true, true),
            (vec![child], false, true),
            (vec![], false, true),
        ] {
            let found = is_held_below(holders.clone(), is_below, |_| still_holds);
            assert_eq!(found, expected, "{holders:?} {still_holds}");
        }
    }

    #[test]
    fn what_this_process_sends_and_what_it_started_is_no_person() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap();
        let ours = std::net::TcpStream::connect(own).unwrap();
        let (_theirs, peer) = listener.accept().unwrap();
        let (_, inode) = super::super::socket_diag::holder_of(peer, own).unwrap();
        assert_eq!(holders(inode), [std::process::id()]);
        assert!(is_below_opcell(inode), "as a request of a plugin is");
        drop(ours);

        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{} && read -r _", own.port());
        let Ok(mut child) = Command::new("bash").args(["-c", &script]).stdin(Stdio::piped()).spawn() else {
            eprintln!("SKIPPED: there is no bash");
            return;
        };
        let (_theirs, peer) = listener.accept().unwrap();
        let (_, inode) = super::super::socket_diag::holder_of(peer, own).unwrap();
        assert!(is_below_opcell(inode));
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
