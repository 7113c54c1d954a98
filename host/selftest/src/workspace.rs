//! The directory that a hostile guest is granted, with every way out of it that a disk can have.

#![expect(clippy::disallowed_methods, reason = "all of it is in a temporary folder that this process has made")]

use super::Case;
use opcell_sandbox::Access;
use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

const SECRET: &str = "not for guests";

/// A granted folder, and a secret beside it.
pub(super) struct Workspace {
    folder: tempfile::TempDir,
    pub(super) root: PathBuf,
    _race: Option<Race>,
}

impl Workspace {
    /// A fresh folder; with `race`, another thread keeps swapping its `sub` for a link to its parent.
    pub(super) fn new(race: bool) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let root = folder.path().join("workspace");
        std::fs::create_dir_all(root.join("sub"))?;
        let secret = folder.path().join("secret.txt");
        std::fs::write(&secret, SECRET)?;
        std::fs::write(root.join("plain.txt"), "for guests")?;
        std::fs::hard_link(&secret, root.join("second-name-of-secret"))?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::symlink;
            symlink("../secret.txt", root.join("link-to-secret"))?;
            symlink("..", root.join("link-to-parent"))?;
            symlink("/", root.join("link-to-root"))?;
            symlink("loop", root.join("loop"))?;
            rustix::fs::mknodat(
                rustix::fs::CWD,
                root.join("pipe"),
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::RWXU,
                0,
            )?;
        }
        let race = race.then(|| Race::start(&root)).transpose()?;
        Ok(Self { folder, root, _race: race })
    }

    /// Returns the guest's forbidden effect on the disk.
    pub(super) fn problem(&self, case: &Case) -> Option<String> {
        let secret = std::fs::read_to_string(self.folder.path().join("secret.txt"));
        if secret.ok().as_deref() != Some(SECRET) {
            return Some("the file outside the grant was changed".to_owned());
        }
        let outside: Vec<_> =
            names(self.folder.path()).filter(|name| name != "workspace" && name != "secret.txt").collect();
        if !outside.is_empty() {
            return Some(format!("files appeared outside the grant: {outside:?}"));
        }
        if case.grant_files != Some(Access::ReadWrite) && self.root.join("planted.txt").exists() {
            return Some("a file was created through a read grant".to_owned());
        }
        let bytes = written(&self.root);
        case.files_at_most.filter(|limit| bytes > *limit + 4096).map(|_| format!("{bytes} bytes are on disk"))
    }
}

fn names(folder: &Path) -> impl Iterator<Item = std::ffi::OsString> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name())
}

fn written(root: &Path) -> u64 {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .filter(std::fs::Metadata::is_file)
        .map(|metadata| metadata.len())
        .sum()
}

/// A thread that swaps a directory and a link until this is dropped.
struct Race {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Race {
    fn start(root: &Path) -> io::Result<Self> {
        let (directory, link) = (root.join("sub"), root.join("link-to-parent"));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let swap = move || {
            while !stopped.load(Ordering::Relaxed) {
                exchange(&directory, &link);
            }
        };
        Ok(Self { stop, thread: Some(thread::Builder::new().spawn(swap)?) })
    }
}

/// In one step, so that both names exist at any time; elsewhere than on Linux there is no such step, and nothing is
/// swapped.
fn exchange(a: &Path, b: &Path) {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        let _ = renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (a, b);
}

impl Drop for Race {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
