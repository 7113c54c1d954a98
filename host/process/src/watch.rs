//! A process between the host and a program, so that nothing that the program started outlives it.
//!
//! A program leaves its process group and its session with one call, and its parent by ending. What it cannot leave is
//! the process that adopts orphans: this one. It waits for the program; when that ends, or the host does, or the host
//! asks, it ends whatever descends from the program, and then itself, as the program ended.
//!
//! The kernel tells of the host's end when the thread of the host ends that forked. A thread that ends earlier, as those
//! of a pool do, is told from the host by the parent of this process, which stays the same.
//!
//! It is a copy of the host made by fork, between fork and exec, in a process of many threads: **nothing here may
//! allocate, lock or panic**. It holds no file of the host, and its memory cannot be read by others.

#![allow(unsafe_code, reason = "what happens between fork and exec")]

use libc::{c_int, pid_t};
use std::{io, ptr};
use tokio::process::Command;

/// Bytes of entries of `/proc` that are read at a time.
const ENTRIES_BYTES: usize = 4 << 10;

/// Bytes of `/proc/PID/stat` that reach to the parent's ID.
const STAT_BYTES: usize = 256;

/// Longest wait between two looks at what is left to end, in nanoseconds.
const LOOK_NS: i64 = 20_000_000;

/// Starts what the command starts under a process that watches over it.
pub(crate) fn over(command: &mut Command) {
    // SAFETY: see above; `getpid` is called before the fork.
    unsafe {
        let host = libc::getpid();
        command.pre_exec(move || split(host));
    }
}

/// In the child of the host: becomes the watching process, and returns in its child alone.
///
/// # Safety
/// Between fork and exec only.
unsafe fn split(host: pid_t) -> io::Result<()> {
    // SAFETY: system calls on values of this frame.
    unsafe {
        checked(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM))?;
        // The host may have ended before the kernel knew.
        if libc::getppid() != host {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        checked(libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1))?;
        checked(libc::setsid())?;
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        checked(libc::sigprocmask(libc::SIG_SETMASK, &raw const all, ptr::null_mut()))?;
        let watching = libc::getpid();
        // Not `fork`: its handlers take locks that another thread of the host may have held.
        match libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) {
            0 => become_program(watching),
            program if program > 0 => watch(program as pid_t, host),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Becomes what the command starts: without a terminal, and not without the process that watches.
///
/// # Safety
/// Between fork and exec only.
unsafe fn become_program(watching: pid_t) -> io::Result<()> {
    // SAFETY: system calls on values of this frame.
    unsafe {
        checked(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        if libc::getppid() != watching {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        checked(libc::setsid())?;
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        checked(libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut()))?;
    }
    Ok(())
}

fn checked(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Waits for the end of the program or of the host, or for being asked to end the program; ends everything that is
/// left.
///
/// # Safety
/// In a process of its own only: it does not return.
unsafe fn watch(program: pid_t, host: pid_t) -> ! {
    // SAFETY: system calls on values of this frame; all signals are blocked, and taken one by one.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        if libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) != 0 {
            for file in 0..4096 {
                libc::close(file);
            }
        }
        let mut asked = std::mem::zeroed();
        libc::sigemptyset(&raw mut asked);
        for signal in [libc::SIGUSR1, libc::SIGTERM, libc::SIGCHLD] {
            libc::sigaddset(&raw mut asked, signal);
        }
        let mut status = None;
        while status.is_none() {
            reap(program, &mut status);
            if status.is_some() {
                break;
            }
            match libc::sigtimedwait(&raw const asked, ptr::null_mut(), ptr::null()) {
                libc::SIGUSR1 => break,
                libc::SIGTERM if libc::getppid() != host => break,
                _ => {}
            }
        }
        // What is ended leaves its children to this process, until there are none.
        while reap(program, &mut status) {
            end_children();
            let moment = libc::timespec { tv_sec: 0, tv_nsec: LOOK_NS };
            libc::sigtimedwait(&raw const asked, ptr::null_mut(), &raw const moment);
        }
        end_as(status.unwrap_or(0))
    }
}

/// Takes the status of every child that has ended. `false` when there are no children any more.
///
/// # Safety
/// System calls only; it takes the children of the whole process.
unsafe fn reap(program: pid_t, status: &mut Option<c_int>) -> bool {
    loop {
        let mut ended: c_int = 0;
        // SAFETY: the pointer is to a value of this frame.
        match unsafe { libc::waitpid(-1, &raw mut ended, libc::WNOHANG | libc::__WALL) } {
            0 => return true,
            child if child == program => *status = Some(ended),
            child if child > 0 => {}
            _ => return false,
        }
    }
}

/// Ends as the program did.
///
/// # Safety
/// In a process of its own only.
unsafe fn end_as(status: c_int) -> ! {
    // SAFETY: system calls on values of this frame.
    unsafe {
        if libc::WIFSIGNALED(status) {
            let signal = libc::WTERMSIG(status);
            libc::signal(signal, libc::SIG_DFL);
            let mut none = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
            libc::kill(libc::getpid(), signal);
            libc::_exit(128 + signal);
        }
        libc::_exit(libc::WEXITSTATUS(status))
    }
}

/// Ends every child of this process. The kernel lists them in one file where it is built so, and otherwise in `/proc`.
///
/// # Safety
/// In the watching process only: it ends every child there is.
unsafe fn end_children() {
    // SAFETY: system calls on values of this frame; the kernel writes no more than the buffer has.
    unsafe {
        let own = libc::getpid();
        let folder = libc::open(c"/proc".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC);
        if folder < 0 {
            return;
        }
        let mut entries = Entries([0; ENTRIES_BYTES]);
        loop {
            let read = libc::syscall(libc::SYS_getdents64, folder, entries.0.as_mut_ptr(), ENTRIES_BYTES);
            let Ok(read @ 1..) = usize::try_from(read) else { break };
            let mut rest = entries.0.get(..read).unwrap_or_default();
            // An entry: 8 bytes of inode, 8 of offset, 2 of its length, 1 of its kind, and the name.
            while let (Some([low, high]), Some(name)) = (rest.get(16..18), rest.get(19..)) {
                let length = usize::from(u16::from_ne_bytes([*low, *high]));
                if let Some(process) = number(name)
                    && parent(folder, name) == Some(own)
                {
                    libc::kill(process, libc::SIGKILL);
                }
                match rest.get(length..) {
                    Some(next) if length > 0 => rest = next,
                    _ => break,
                }
            }
        }
        libc::close(folder);
    }
}

/// A buffer that is aligned as the kernel's entries are.
#[repr(C, align(8))]
struct Entries([u8; ENTRIES_BYTES]);

/// The parent of a process, by its folder in `/proc`.
///
/// # Safety
/// System calls only.
unsafe fn parent(folder: c_int, name: &[u8]) -> Option<pid_t> {
    let mut path = [0_u8; 32];
    let digits = name.iter().take_while(|byte| byte.is_ascii_digit());
    let mut length = 0;
    for (place, byte) in path.iter_mut().zip(digits.chain(b"/stat")) {
        *place = *byte;
        length += 1;
    }
    // The last byte stays zero: it ends the text.
    if length >= path.len() {
        return None;
    }
    let mut stat = [0_u8; STAT_BYTES];
    // SAFETY: the path ends with a zero; the kernel writes no more than the buffer has.
    let read = unsafe {
        let file = libc::openat(folder, path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return None;
        }
        let read = libc::read(file, stat.as_mut_ptr().cast(), STAT_BYTES);
        libc::close(file);
        read
    };
    parent_in(stat.get(..usize::try_from(read).ok()?)?)
}

/// The parent in `PID (name) state PPID …`. The name may hold anything.
fn parent_in(stat: &[u8]) -> Option<pid_t> {
    let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
    number(stat.get(name_ends + 4..)?)
}

/// The number that a text begins with.
fn number(text: &[u8]) -> Option<pid_t> {
    let mut digits = text.iter().take_while(|byte| byte.is_ascii_digit()).peekable();
    digits.peek()?;
    digits.try_fold(0, |number: pid_t, digit| number.checked_mul(10)?.checked_add(pid_t::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::{number, parent_in};

    #[test]
    fn a_parent_is_found_behind_any_name() {
        assert_eq!(parent_in(b"12 (a) S 7 8 9"), Some(7));
        assert_eq!(parent_in(b"12 (a) S 1) (x) R 70 8 9"), Some(70));
        assert_eq!(parent_in(b"12 (a"), None);
        assert_eq!((number(b"41x"), number(b"x"), number(b"99999999999")), (Some(41), None, None));
    }
}
