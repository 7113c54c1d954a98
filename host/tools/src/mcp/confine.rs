//! `confine = true`: what a server that runs as a child process may still reach.
//!
//! It reads the system's programs and libraries and its own folder, and what was listed; it writes what was listed; it
//! opens no network connection unless that was allowed, and no socket of this machine ever, beside pairs; it has no
//! terminal, and types into none; of other processes it sees nothing, and neither signals nor slows one; it does
//! nothing that administrators and debuggers do, root or not. Landlock decides about files, TCP and signals, a filter
//! of system calls about the rest, and capabilities are dropped. Everything that it starts is confined as well.
//!
//! Landlock has no say about modes, owners, times and extended attributes: a path leads to them whatever the rules. So
//! the filter refuses each call that changes them by a path. By a descriptor they can be changed, for opening one was
//! Landlock's decision.

use super::{ConfinementReport, McpServer};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, Scope,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
};

/// Programs, libraries, certificates, names: nothing of a user.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl",
    "/etc/timezone",
    // Nothing of processes: the server's own folder is added when it starts.
    "/proc/cgroups",
    "/proc/cpuinfo",
    "/proc/devices",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/swaps",
    "/proc/sys",
    "/proc/uptime",
    "/proc/version",
    "/proc/vmstat",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
];

/// Devices that hold nothing. A terminal is none of them: what is written there is read as the host's own words, and
/// what is typed there is typed by its user.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Newest Landlock that is used where the kernel has it.
const NEWEST: ABI = ABI::V10;

/// Capabilities that root keeps: to open files, which Landlock bounds, and ports.
const ROOT_CAPABILITIES: &[u32] = &[
    1,  // CAP_DAC_OVERRIDE
    10, // CAP_NET_BIND_SERVICE
];

/// Capabilities that a kernel may have.
const CAPABILITIES: u32 = 64;

/// The rules that a confined process starts under. Made before the process is, for nothing may be allocated between
/// fork and exec.
pub(super) struct Confinement {
    files: OwnedFd,
    calls: [BpfProgram; 2],
}

impl Confinement {
    /// For a server.
    ///
    /// # Errors
    /// When the kernel cannot confine: an operator who asked for it gets no unconfined process.
    pub(super) fn of(server: &McpServer) -> Result<Self, String> {
        let files = files(server).map_err(|error| format!("the kernel cannot confine it by Landlock: {error}"))?;
        let files = Option::from(files).ok_or_else(|| "the kernel cannot confine it: it has no Landlock".to_owned())?;
        let calls = calls(server.network).map_err(|error| format!("its system calls cannot be filtered: {error}"))?;
        Ok(Self { files, calls })
    }

    /// Takes effect for this thread and everything that it starts.
    pub(super) fn enter(&mut self) -> io::Result<()> {
        drop_capabilities()?;
        restrict(&self.files)?;
        for calls in &self.calls {
            seccompiler::apply_filter(calls).map_err(|_| io::Error::from(io::ErrorKind::PermissionDenied))?;
        }
        Ok(())
    }
}

/// Takes from root what no server needs. Anyone else has none of it, and gets none by starting a program.
#[allow(unsafe_code, reason = "capabilities have no other interface")]
fn drop_capabilities() -> io::Result<()> {
    // SAFETY: system calls on numbers and on values of this frame.
    unsafe {
        for capability in (0..CAPABILITIES).filter(|capability| !ROOT_CAPABILITIES.contains(capability)) {
            // Fails beyond the last capability of the kernel, and for those who have none to hand on.
            libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(capability), 0, 0, 0);
        }
        let kept = ROOT_CAPABILITIES.iter().fold(0_u32, |kept, capability| kept | 1 << capability);
        let mut header = CapabilityHeader { version: CAPABILITY_VERSION, pid: 0 };
        let mut held = [CapabilitySets::default(); 2];
        if libc::syscall(libc::SYS_capget, &raw mut header, held.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        for (sets, kept) in held.iter_mut().zip([kept, 0]) {
            *sets =
                CapabilitySets { effective: sets.effective & kept, permitted: sets.permitted & kept, inheritable: 0 };
        }
        if libc::syscall(libc::SYS_capset, &raw mut header, held.as_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Version of the kernel's interface with sets of 64 capabilities.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: libc::c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapabilitySets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Puts this thread under the rules, with one more: the folder of this very process in `/proc`, which programs read
/// about themselves.
#[allow(unsafe_code, reason = "the library allocates where it adds a rule, and this is between fork and exec")]
fn restrict(rules: &OwnedFd) -> io::Result<()> {
    #[repr(C, packed)]
    struct Beneath {
        allowed: u64,
        parent: libc::c_int,
    }
    const BENEATH: libc::c_int = 1;
    const READ_FILE: u64 = 1 << 2;
    const READ_FOLDER: u64 = 1 << 3;
    let checked = |result: libc::c_long| if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    // SAFETY: system calls on values of this frame.
    unsafe {
        let own = libc::open(c"/proc/self".as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
        if own >= 0 {
            let rule = Beneath { allowed: READ_FILE | READ_FOLDER, parent: own };
            let added = libc::syscall(libc::SYS_landlock_add_rule, rules.as_raw_fd(), BENEATH, &raw const rule, 0);
            libc::close(own);
            checked(added)?;
        }
        checked(libc::c_long::from(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)))?;
        checked(libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0))
    }
}

/// The version of Landlock that the kernel has; 0 where it has none.
#[allow(unsafe_code, reason = "the library tells no version")]
fn version() -> i64 {
    const VERSION: u32 = 1;
    // SAFETY: a system call without a pointer.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0, 0, VERSION) };
    version.max(0)
}

/// Returns the bounds that this kernel can hold a server in, and those that it cannot.
pub(super) fn holds() -> Result<ConfinementReport, String> {
    let version = version();
    if version == 0 {
        return Err("the kernel has no Landlock".to_owned());
    }
    if calls(false).is_err() {
        return Err("system calls cannot be filtered on this processor".to_owned());
    }
    let mut holds = vec!["files", "terminals", "the network", "sockets of this machine", "other processes' memory"];
    let mut lacks = Vec::new();
    for (since, kernel, what) in NEWER {
        if version >= since { holds.push(what) } else { lacks.push((what, kernel)) }
    }
    Ok(ConfinementReport { version, holds, lacks })
}

/// Bounds of newer versions of Landlock, and the first kernels that have them.
const NEWER: [(i64, &str, &str); 3] = [
    (3, "6.2", "truncating files that it may only read"),
    (5, "6.10", "requests to devices"),
    (6, "6.12", "signals to other processes"),
];

fn files(server: &McpServer) -> Result<RulesetCreated, landlock::RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))?
        // Newer kernels confine more.
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?;
    if !server.network {
        rules = rules.handle_access(AccessNet::from_all(NEWEST))?;
    }
    let mut created = rules.create()?;
    let beneath = |folder: &Path| server.directory.join(folder);
    let readable = SYSTEM.iter().map(PathBuf::from).chain([server.directory.clone()]).chain(installed(server));
    let readable = readable.chain(server.read.iter().map(|path| beneath(path)));
    let writable = DEVICES.iter().map(PathBuf::from).chain(server.write.iter().map(|path| beneath(path)));
    let rights =
        [(AccessFs::from_read(NEWEST), readable.collect::<Vec<_>>()), (AccessFs::from_all(NEWEST), writable.collect())];
    for (access, paths) in rights {
        for path in paths {
            // What does not exist needs no permission.
            let Ok(opened) = PathFd::new(&path) else { continue };
            let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
            created = created.add_rule(PathBeneath::new(opened, access))?;
        }
    }
    Ok(created)
}

/// The place of the program itself, when that is not among the system's folders: `…/bin/node` is read with
/// `…/lib`.
fn installed(server: &McpServer) -> Option<PathBuf> {
    let program = Path::new(&server.program);
    let found = if program.components().count() > 1 {
        Some(server.directory.join(program))
    } else {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join(program)).find(|candidate| candidate.is_file())
    };
    let real = found?.canonicalize().ok()?;
    let folder = real.parent()?;
    match folder.file_name() {
        Some(name) if name == "bin" => folder.parent().map(Path::to_owned),
        // One file, so that a program in a home does not open the home.
        _ => Some(real),
    }
}

/// Calls that no server needs: the calls of administrators and debuggers, and sockets when there is no network.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// Calls that change a file by its path in ways that Landlock does not see, or that tell of files that it hides.
const BY_PATH: &[libc::c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    SYS_SETXATTRAT,
    SYS_REMOVEXATTRAT,
    SYS_FILE_SETATTR,
    libc::SYS_fanotify_init,
    libc::SYS_inotify_add_watch,
];

/// Calls with which processes of one user reach each other beside files.
const SHARED: &[libc::c_long] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_mq_open,
    libc::SYS_kcmp,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
];

/// Calls about a process by its number, as their first argument, which may only be the caller itself: 0.
const OF_PROCESS: &[libc::c_long] =
    &[libc::SYS_sched_setaffinity, libc::SYS_sched_setattr, libc::SYS_sched_setparam, libc::SYS_sched_setscheduler];

/// Calls that are newer than the library's list of them; their numbers are the same on every processor.
const SYS_FCHMODAT2: libc::c_long = 452;
const SYS_SETXATTRAT: libc::c_long = 463;
const SYS_REMOVEXATTRAT: libc::c_long = 466;
const SYS_FILE_SETATTR: libc::c_long = 469;

/// The same calls by their numbers of x32, another way into a kernel of x86-64 that has it.
#[cfg(target_arch = "x86_64")]
const X32: (libc::c_long, &[(libc::c_long, libc::c_long)]) = (
    0x4000_0000,
    &[
        (libc::SYS_ioctl, 514),
        (libc::SYS_ptrace, 521),
        (libc::SYS_kexec_load, 528),
        (libc::SYS_process_vm_readv, 539),
        (libc::SYS_process_vm_writev, 540),
    ],
);

/// Ways to type into a terminal, and to take one.
const TERMINAL_REQUESTS: [u64; 3] = [
    0x5412, // TIOCSTI
    0x541c, // TIOCLINUX
    0x540e, // TIOCSCTTY
];

/// Namespaces of its own, in which a process would be root.
const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn calls(network: bool) -> Result<[BpfProgram; 2], seccompiler::Error> {
    use SeccompCmpArgLen::Dword;
    let rule = |conditions: Vec<SeccompCondition>| SeccompRule::new(conditions);
    let unsigned = |number: libc::c_int| u64::from(number.cast_unsigned());
    let mut rules: Rules = [REFUSED, BY_PATH, SHARED].concat().iter().map(|call| (*call, Vec::new())).collect();
    let differs = |argument, value| SeccompCondition::new(argument, Dword, SeccompCmpOp::Ne, value);
    // Times are set by a descriptor where there is no path.
    let path = SeccompCondition::new(1, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    rules.insert(libc::SYS_utimensat, vec![rule(vec![path])?]);
    // A program that runs as its owner whoever starts it.
    let as_owner = |argument| {
        [libc::S_ISUID, libc::S_ISGID]
            .map(u64::from)
            .into_iter()
            .map(|bit| rule(vec![SeccompCondition::new(argument, Dword, SeccompCmpOp::MaskedEq(bit), bit)?]))
            .collect::<Result<Vec<_>, _>>()
    };
    rules.insert(libc::SYS_fchmod, as_owner(1)?);
    rules.insert(libc::SYS_mknodat, as_owner(2)?);
    #[cfg(target_arch = "x86_64")]
    rules.extend([(libc::SYS_creat, as_owner(1)?), (libc::SYS_mknod, as_owner(1)?)]);
    // And one that is made so at once.
    let creates = unsigned(libc::O_CREAT);
    let opens: &[(libc::c_long, u8)] = &[
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, 1),
        (libc::SYS_openat, 2),
    ];
    let made_for_owner = |flags, bit| {
        rule(vec![
            SeccompCondition::new(flags, Dword, SeccompCmpOp::MaskedEq(creates), creates)?,
            SeccompCondition::new(flags + 1, Dword, SeccompCmpOp::MaskedEq(bit), bit)?,
        ])
    };
    for (call, flags) in opens {
        let rules_of = [libc::S_ISUID, libc::S_ISGID].map(|bit| made_for_owner(*flags, u64::from(bit)));
        rules.insert(*call, rules_of.into_iter().collect::<Result<_, _>>()?);
    }
    for call in OF_PROCESS {
        rules.insert(*call, vec![rule(vec![differs(0, 0)?])?]);
    }
    // It may read the limits of other processes, but not set them.
    let new = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    rules.insert(libc::SYS_prlimit64, vec![rule(vec![differs(0, 0)?, new])?]);
    // A group of processes, and all of a user's.
    rules.insert(libc::SYS_setpriority, vec![rule(vec![differs(0, 0)?])?, rule(vec![differs(1, 0)?])?]);
    rules.insert(libc::SYS_ioprio_set, vec![rule(vec![differs(0, 1)?])?, rule(vec![differs(1, 0)?])?]);
    let requests = TERMINAL_REQUESTS
        .iter()
        .map(|request| rule(vec![SeccompCondition::new(1, Dword, SeccompCmpOp::Eq, *request)?]));
    rules.insert(libc::SYS_ioctl, requests.collect::<Result<_, _>>()?);
    // A socket of this machine leads to whoever listens: an agent with keys, a daemon that starts containers.
    let sockets = if network {
        let internet = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
        let others = internet.map(|domain| SeccompCondition::new(0, Dword, SeccompCmpOp::Ne, unsigned(domain)));
        vec![rule(others.into_iter().collect::<Result<_, _>>()?)?]
    } else {
        Vec::new()
    };
    rules.insert(libc::SYS_socket, sockets);
    // One of a pair of datagrams may be connected to another address.
    let kind = SeccompCondition::new(1, Dword, SeccompCmpOp::MaskedEq(0xf), unsigned(libc::SOCK_DGRAM))?;
    rules.insert(libc::SYS_socketpair, vec![rule(vec![kind])?]);
    let namespaces = (0..i32::BITS).map(|bit| 1_u64 << bit).filter(|bit| unsigned(NAMESPACES) & bit != 0);
    let namespaces =
        namespaces.map(|bit| rule(vec![SeccompCondition::new(0, Dword, SeccompCmpOp::MaskedEq(bit), bit)?]));
    rules.insert(libc::SYS_clone, namespaces.collect::<Result<_, _>>()?);
    // What these calls ask for lies in memory, which a filter cannot see: libraries use the older calls then.
    let newer: Rules = [libc::SYS_clone3, libc::SYS_openat2].map(|call| (call, Vec::new())).into();
    Ok([filter(rules, libc::EPERM)?, filter(newer, libc::ENOSYS)?])
}

fn filter(mut rules: Rules, error: libc::c_int) -> Result<BpfProgram, seccompiler::Error> {
    #[cfg(target_arch = "x86_64")]
    {
        let (bit, others) = X32;
        let other = |call: i64| others.iter().find(|(usual, _)| *usual == call).map_or(call, |(_, other)| *other);
        let again: Rules = rules.iter().map(|(call, rules)| (other(*call) | bit, rules.clone())).collect();
        rules.extend(again);
    }
    let refuse = SeccompAction::Errno(error.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, std::env::consts::ARCH.try_into()?)?;
    Ok(filter.try_into()?)
}
