//! Processes of Opcell, and the processes below them: a person answers, and nothing that Opcell runs.
//!
//! A server of tools or a command of a model runs as the user that runs Opcell, so that the system lets it do whatever
//! that user's programs do. It is told from them by the processes above it. A process of Opcell is known by a file that
//! it has open for as long as it lasts, which no other process can close or remove; by its program, also after that was
//! replaced; and by a program of the same name.

#[cfg(target_os = "linux")]
pub use linux::{adopt_orphans, is_opcell_or_below, mark, of_this_process};

/// The processes above a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lineage {
    /// None of them is a process of Opcell.
    Apart,
    /// Opcell started it.
    BelowOpcell,
    /// The system does not show all of them.
    Unknown,
}

/// Returns `true` if the environment says that a model's call started this process.
fn is_of_a_tool_call() -> bool {
    std::env::var_os(opcell_session::tools::TOOL_CALL_VARIABLE).is_some()
}

/// Other systems do not say which program a process runs.
#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::Lineage;

    /// Marks this process as one of Opcell, where processes can be looked at.
    pub fn mark() {}

    /// Keeps orphans, where that can be asked for.
    pub fn adopt_orphans() {}

    /// Returns `true`: nothing is known of the process.
    #[must_use]
    pub fn is_opcell_or_below(_: u32) -> bool {
        true
    }

    /// The lineage of this process, as far as other systems say.
    #[must_use]
    pub fn of_this_process() -> Lineage {
        if super::is_of_a_tool_call() { Lineage::BelowOpcell } else { Lineage::Apart }
    }
}

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{adopt_orphans, is_opcell_or_below, mark, of_this_process};

#[cfg(target_os = "linux")]
mod linux {
    use super::Lineage;
    use rustix::fs::{MemfdFlags, memfd_create};
    use std::{
        ffi::OsStr,
        fs::{self, File},
        io::{self, Read as _},
        os::{
            fd::OwnedFd,
            unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
        },
        path::Path,
        process,
        sync::OnceLock,
    };

    /// Name of the file that each process of Opcell has open.
    const MARK: &str = "opcell-process";

    /// The target of a link to that file in `/proc/PID/fd`.
    const MARK_LINK: &str = "/memfd:opcell-process (deleted)";

    /// Name of the program.
    const PROGRAM: &str = "opcell";

    /// Appended by the system to the path of a program that was replaced or removed.
    const DELETED: &[u8] = b" (deleted)";

    /// The most processes above one that are looked at.
    const MAX_ANCESTORS: usize = 64;

    /// The most looks at the processes above one: each of them may end meanwhile, and another one adopt its children.
    const LOOKS: usize = 3;

    /// Bytes of two programs that are compared at once.
    const COMPARED_AT_ONCE: usize = 64 << 10;

    /// Programs that begin or hold a person's session, and that the system keeps their own user from looking into.
    const SESSIONS: [&str; 13] = [
        "sshd",
        "sshd-session",
        "login",
        "su",
        "sudo",
        "doas",
        "systemd",
        "(sd-pam)",
        "screen",
        "tmux: server",
        "xterm",
        "bwrap",
        "ssh-agent",
    ];

    /// One process, as far as Opcell is concerned.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Kind {
        Opcell,
        Other,
        /// Its program cannot be read.
        Hidden,
    }

    static MARKED: OnceLock<Option<OwnedFd>> = OnceLock::new();

    /// Marks this process as one of Opcell for as long as it lasts, whatever its program is called. What it starts does
    /// not inherit the mark.
    pub fn mark() {
        let made = MARKED.get_or_init(|| {
            // Some systems refuse a file that could be executed, and old kernels do not know the flag.
            memfd_create(MARK, MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL)
                .or_else(|_| memfd_create(MARK, MemfdFlags::CLOEXEC))
                .inspect_err(|error| tracing::warn!(%error, "this process is known as Opcell only by its program"))
                .ok()
        });
        tracing::trace!(marked = made.is_some(), "a process of Opcell");
    }

    /// Makes this process the parent of what its children leave behind when they end, instead of the first process of the
    /// system: what a command of a model leaves stays below Opcell for as long as Opcell runs, also where the command
    /// ended the process that watched over it. For a program that is Opcell alone.
    pub fn adopt_orphans() {
        if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
            tracing::warn!(%error, "what a command leaves behind may be taken for a person's");
        }
    }

    /// Returns `true` if a process, or one above it, is a process of Opcell, or if that cannot be found out. Blocks.
    #[must_use]
    pub fn is_opcell_or_below(process: u32) -> bool {
        !matches!(kind_of(process), Kind::Other) || lineage(process) != Lineage::Apart
    }

    /// The lineage of this process. Blocks.
    #[must_use]
    pub fn of_this_process() -> Lineage {
        if super::is_of_a_tool_call() { Lineage::BelowOpcell } else { lineage(process::id()) }
    }

    fn lineage(process: u32) -> Lineage {
        let mut looks = (0..LOOKS).map(|_| look_above(process));
        looks.find(|seen| *seen != Lineage::Unknown).unwrap_or(Lineage::Unknown)
    }

    fn look_above(process: u32) -> Lineage {
        let mut at = process;
        for _ in 0..MAX_ANCESTORS {
            match parent_of(at) {
                // The first process of the system or of a container, or one outside the container.
                Some(0 | 1) => return Lineage::Apart,
                Some(above) => at = above,
                None => return Lineage::Unknown,
            }
            match kind_of(at) {
                Kind::Opcell => return Lineage::BelowOpcell,
                Kind::Hidden => return Lineage::Unknown,
                Kind::Other => {}
            }
        }
        Lineage::Unknown
    }

    fn kind_of(process: u32) -> Kind {
        if process == process::id() {
            return Kind::Opcell;
        }
        let own = fs::read_link("/proc/self/exe").ok();
        let own = own.as_deref().and_then(name_of);
        let place = format!("/proc/{process}/exe");
        let Ok(program) = fs::read_link(&place) else { return hidden(process, own) };
        let is_opcell = name_of(&program).is_some_and(|name| name == PROGRAM || Some(name) == own)
            || is_marked(process)
            || hold_the_same(Path::new("/proc/self/exe"), Path::new(&place)).unwrap_or(false);
        if is_opcell { Kind::Opcell } else { Kind::Other }
    }

    /// The name of a program's file, also of one that was replaced while it runs.
    fn name_of(program: &Path) -> Option<&OsStr> {
        let name = program.file_name()?;
        Some(name.as_bytes().strip_suffix(DELETED).map_or(name, OsStr::from_bytes))
    }

    /// A process whose program this user may not see: one of another user, or one that the system keeps to itself.
    fn hidden(process: u32, own: Option<&OsStr>) -> Kind {
        let Ok(name) = fs::read_to_string(format!("/proc/{process}/comm")) else { return Kind::Hidden };
        let Some(user) = user_of(process) else { return Kind::Hidden };
        kind_of_hidden(name.trim_end(), user == rustix::process::geteuid().as_raw(), own)
    }

    /// The system cuts names of processes to 15 bytes.
    fn kind_of_hidden(name: &str, is_own_user: bool, own: Option<&OsStr>) -> Kind {
        let cut = |name: &'_ OsStr| name.as_bytes().get(..15).map_or_else(|| name.as_bytes().to_vec(), <[u8]>::to_vec);
        if name == PROGRAM || own.is_some_and(|own| cut(own) == name.as_bytes()) {
            return Kind::Opcell;
        }
        if is_own_user && !SESSIONS.contains(&name) { Kind::Hidden } else { Kind::Other }
    }

    fn is_marked(process: u32) -> bool {
        let open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().filter_map(Result::ok);
        open.map(|entry| entry.path()).any(|path| fs::read_link(path).is_ok_and(|to| to == Path::new(MARK_LINK)))
    }

    /// Returns `true` if two files hold the same; those of one size are read.
    fn hold_the_same(one: &Path, other: &Path) -> io::Result<bool> {
        let (mut one, mut other) = (File::open(one)?, File::open(other)?);
        let (of_one, of_other) = (one.metadata()?, other.metadata()?);
        if of_one.len() != of_other.len() {
            return Ok(false);
        }
        if (of_one.dev(), of_one.ino()) == (of_other.dev(), of_other.ino()) {
            return Ok(true);
        }
        let (mut left, mut right) = (vec![0; COMPARED_AT_ONCE], vec![0; COMPARED_AT_ONCE]);
        loop {
            let read = one.read(&mut left)?;
            let (Some(left), Some(right)) = (left.get(..read), right.get_mut(..read)) else { return Ok(false) };
            if read == 0 {
                return Ok(true);
            }
            other.read_exact(right)?;
            if left != right {
                return Ok(false);
            }
        }
    }

    /// The process that started another one. The name in parentheses may hold anything.
    fn parent_of(process: u32) -> Option<u32> {
        let status = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        status.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    }

    /// The user as whom a process acts.
    fn user_of(process: u32) -> Option<u32> {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().nth(1)?.parse().ok()
    }

    #[cfg(test)]
    mod tests {
        #![allow(clippy::unwrap_used, reason = "a failed test")]

        use super::*;
        use std::{
            path::PathBuf,
            process::{Child, Command, Stdio},
        };

        /// A program that waits until it is ended; ended when it is dropped.
        struct Waiting(Child);

        impl Waiting {
            fn of(program: &Path) -> Option<Self> {
                // Through its standard input, so that a test that is ended ends it.
                Command::new(program).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().ok().map(Self)
            }
        }

        impl Drop for Waiting {
            fn drop(&mut self) {
                let _ = self.0.kill();
                let _ = self.0.wait();
            }
        }

        fn cat() -> Option<PathBuf> {
            ["/bin/cat", "/usr/bin/cat"].iter().find_map(|path| fs::canonicalize(path).ok())
        }

        #[test]
        fn a_program_is_known_by_its_name_also_after_it_was_replaced() {
            let Some(cat) = cat().filter(|path| path.file_name() == Some(OsStr::new("cat"))) else {
                eprintln!("SKIPPED: there is no cat of its own");
                return;
            };
            let folder = tempfile::tempdir().unwrap();
            let own = fs::read_link("/proc/self/exe").unwrap();
            for name in [OsStr::new(PROGRAM), name_of(&own).unwrap()] {
                let (program, newer) = (folder.path().join(name), folder.path().join("newer"));
                // By another process: a program that this one has open for writing cannot be started.
                for to in [&program, &newer] {
                    assert!(Command::new("cp").arg(&cat).arg(to).status().unwrap().success());
                }
                let waiting = Waiting::of(&program).unwrap();
                assert_eq!(kind_of(waiting.0.id()), Kind::Opcell);
                fs::rename(&newer, &program).unwrap();
                let seen = fs::read_link(format!("/proc/{}/exe", waiting.0.id())).unwrap();
                assert!(seen.as_os_str().as_bytes().ends_with(DELETED), "{seen:?}");
                assert_eq!(kind_of(waiting.0.id()), Kind::Opcell, "{seen:?}");
            }
        }

        #[test]
        fn what_this_process_starts_is_below_it_and_bears_no_mark() {
            mark();
            let Some(waiting) = cat().and_then(|path| Waiting::of(&path)) else {
                eprintln!("SKIPPED: there is no cat");
                return;
            };
            assert!(is_marked(process::id()));
            assert!(!is_marked(waiting.0.id()));
            assert_eq!(kind_of(waiting.0.id()), Kind::Other);
            assert_eq!(lineage(waiting.0.id()), Lineage::BelowOpcell);
            assert!(is_opcell_or_below(waiting.0.id()));
            assert!(is_opcell_or_below(process::id()), "what Opcell itself sends is no person's");
            assert_eq!(look_above(u32::MAX), Lineage::Unknown, "there is no such process");
        }

        /// The process that watches over a model's command is one of the same user, which the command can end.
        #[test]
        fn what_a_child_leaves_behind_stays_below() {
            adopt_orphans();
            let script = "exec 3<&0; cat <&3 >/dev/null & echo $!";
            let mut shell = Command::new("sh");
            let mut shell = shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let held = shell.stdin.take();
            let output = shell.wait_with_output().unwrap();
            let left: u32 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
            assert_eq!(parent_of(left), Some(process::id()));
            assert_eq!(lineage(left), Lineage::BelowOpcell);
            drop(held);
        }

        #[test]
        fn a_program_that_cannot_be_seen_is_no_person_unless_it_holds_a_session() {
            let own = Some(OsStr::new("opcell-of-a-long-name"));
            for (name, is_own_user, kind) in [
                ("sshd", true, Kind::Other),
                ("sshd", false, Kind::Other),
                ("containerd-shim", false, Kind::Other),
                ("tokio-runtime-w", true, Kind::Hidden),
                ("server", true, Kind::Hidden),
                ("opcell", true, Kind::Opcell),
                ("opcell", false, Kind::Opcell),
                ("opcell-of-a-lon", false, Kind::Opcell),
            ] {
                assert_eq!(kind_of_hidden(name, is_own_user, own), kind, "{name} {is_own_user}");
            }
        }
    }
}
