//! Confinement of the compiling process once it has its input: it may compute, and write its answer.
//!
//! A component is compiled by a large program from untrusted bytes. Should a mistake in the compiler let these bytes
//! decide what the process does, then there is nothing that it could reach: no file, no network, no other program. Each
//! layer holds by itself, and a kernel that lacks one runs with the other.

/// Shuts this thread, and those that it starts, off from files, networks and programs, as far as the kernel can.
#[cfg(target_os = "linux")]
pub(super) fn confine() {
    layers();
}

/// Other systems have nothing like it.
#[cfg(not(target_os = "linux"))]
pub(super) fn confine() {}

/// The layers that the kernel has put in force.
#[cfg(target_os = "linux")]
fn layers() -> Vec<&'static str> {
    let layers = [("landlock", landlock().is_some()), ("seccomp", seccomp().is_some())];
    layers.into_iter().filter(|(_, holds)| *holds).map(|(name, _)| name).collect()
}

/// No path may be opened, no port reached, no process outside be signalled.
#[cfg(target_os = "linux")]
fn landlock() -> Option<()> {
    use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetStatus, Scope};
    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(ABI::V6))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(ABI::V6)))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(ABI::V6)))
        .and_then(Ruleset::create)
        .ok()?;
    let status = ruleset.restrict_self().ok()?;
    (status.ruleset != RulesetStatus::NotEnforced).then_some(())
}

/// Only the system calls that compiling needs; others fail as if they were not permitted.
#[cfg(target_os = "linux")]
fn seccomp() -> Option<()> {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
    let rules = NEEDED.iter().map(|call| (*call, Vec::new())).collect();
    let refuse = SeccompAction::Errno(u32::try_from(libc::EPERM).ok()?);
    let arch = std::env::consts::ARCH.try_into().ok()?;
    let filter = SeccompFilter::new(rules, refuse, SeccompAction::Allow, arch).ok()?;
    let program: BpfProgram = filter.try_into().ok()?;
    seccompiler::apply_filter(&program).ok()
}

/// Memory, threads, time, the pipes that are open, and ending.
#[cfg(target_os = "linux")]
const NEEDED: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_ppoll,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_set_tid_address,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_prlimit64,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_membarrier,
    libc::SYS_getcpu,
    libc::SYS_prctl,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;
    use std::{fs::File, net::TcpStream, process::Command, thread};

    /// On a thread of its own: both layers hold for it alone.
    fn confined<T: Send + 'static>(work: impl FnOnce(Vec<&'static str>) -> T + Send + 'static) -> T {
        thread::spawn(|| work(layers())).join().unwrap()
    }

    #[test]
    fn the_compiling_process_opens_no_file_reaches_no_network_and_starts_no_program() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (layers, file, network, program) = confined(move |layers| {
            let program = Command::new("/bin/true").status();
            (layers, File::open("/etc/hostname").is_ok(), TcpStream::connect(address).is_ok(), program.is_ok())
        });
        if layers.is_empty() {
            eprintln!("SKIPPED: this kernel has neither Landlock nor seccomp");
            return;
        }
        assert!(!file, "{layers:?}");
        if layers.contains(&"seccomp") {
            assert!(!network && !program, "{layers:?}");
        }
    }

    #[test]
    fn a_confined_process_compiles() {
        let compiled = confined(|_| {
            let engine = crate::engine::compiler(crate::engine::Metering::Ticks, crate::engine::Room::Plenty).unwrap();
            let component = wat::parse_str("(component (core module (func (export \"f\") (loop br 0))))").unwrap();
            engine.precompile_component(&component).is_ok()
        });
        assert!(compiled);
    }
}
