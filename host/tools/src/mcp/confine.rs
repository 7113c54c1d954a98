//! `confine = true`: what a server that runs as a child process may still reach.
//!
//! It reads the system's programs and libraries and its own folder, and what was listed; it writes what was listed; it
//! opens no network connection unless that was allowed; it does nothing that administrators and debuggers do. Landlock
//! decides about files and TCP, a filter of system calls about the rest. Everything that it starts is confined as well.

use super::McpServer;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, Scope,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::{
    io,
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
    // Of other processes Landlock shows nothing that a debugger would need.
    "/proc",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
];

/// Devices that hold nothing.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// What a confined process starts under. Made before the process is, for nothing may be allocated between fork and
/// exec.
pub(super) struct Confinement {
    files: Option<RulesetCreated>,
    calls: BpfProgram,
}

impl Confinement {
    /// For a server.
    ///
    /// # Errors
    /// When the kernel cannot confine: an operator who asked for it gets no unconfined process.
    pub(super) fn of(server: &McpServer) -> Result<Self, String> {
        let files = files(server).map_err(|error| format!("the kernel cannot confine it by Landlock: {error}"))?;
        let calls = calls(server.network).map_err(|error| format!("its system calls cannot be filtered: {error}"))?;
        Ok(Self { files: Some(files), calls })
    }

    /// Takes effect for this thread and everything that it starts.
    pub(super) fn enter(&mut self) -> io::Result<()> {
        let refused = |_| io::Error::from(io::ErrorKind::PermissionDenied);
        if let Some(files) = self.files.take() {
            files.restrict_self().map_err(refused)?;
        }
        seccompiler::apply_filter(&self.calls).map_err(|_| io::Error::from(io::ErrorKind::PermissionDenied))
    }
}

fn files(server: &McpServer) -> Result<RulesetCreated, landlock::RulesetError> {
    let abi = ABI::V1;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?
        // Newer kernels confine more.
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V5))?
        .scope(Scope::from_all(ABI::V6))?;
    if !server.network {
        rules = rules.handle_access(AccessNet::from_all(ABI::V4))?;
    }
    let mut created = rules.create()?;
    let beneath = |folder: &Path| server.directory.join(folder);
    let readable = SYSTEM.iter().map(PathBuf::from).chain([server.directory.clone()]).chain(installed(server));
    let readable = readable.chain(server.read.iter().map(|path| beneath(path)));
    let writable = DEVICES.iter().map(PathBuf::from).chain(server.write.iter().map(|path| beneath(path)));
    let rights = [
        (AccessFs::from_read(ABI::V5), readable.collect::<Vec<_>>()),
        (AccessFs::from_all(ABI::V5), writable.collect()),
    ];
    for (access, paths) in rights {
        for path in paths {
            // What does not exist needs no permission.
            let Ok(opened) = PathFd::new(&path) else { continue };
            let access = if path.is_dir() { access } else { access & AccessFs::from_file(ABI::V5) };
            created = created.add_rule(PathBeneath::new(opened, access))?;
        }
    }
    Ok(created)
}

/// Where the program itself is installed, when that is not among the system's folders: `…/bin/node` is read with
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

/// What no server needs: the calls of administrators and debuggers, and sockets when there is no network.
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

fn calls(network: bool) -> Result<BpfProgram, seccompiler::Error> {
    let mut rules: std::collections::BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    if !network {
        let other = u64::from(libc::AF_UNIX.cast_unsigned());
        let domain = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, other)?;
        rules.insert(libc::SYS_socket, vec![SeccompRule::new(vec![domain])?]);
    }
    let refuse = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, std::env::consts::ARCH.try_into()?)?;
    Ok(filter.try_into()?)
}
