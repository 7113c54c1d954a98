//! The program that compiles components: this one, when its `main` is prepared to be started again, or
//! `opcell-compile`.
//!
//! A program that knows nothing of this would, started again, do once more whatever it does, and start itself again. So
//! nothing is started again that has not called [`prepare`], the child must answer the handshake before it is sent
//! anything, and a marker in its environment makes every further sandbox in it fail at once.

use super::{CompileMode, CompileProgram, child};
use crate::error::SandboxError;
use rustix::fs::Access;
use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

/// In the environment of compiling processes, and of nothing else.
pub(super) const MARKER: &str = "OPCELL_COMPILE_CHILD";

/// The program of this crate that does nothing but compile.
const PROGRAM: &str = "opcell-compile";

static PREPARED: AtomicBool = AtomicBool::new(false);

/// Lets this program compile components in children of itself. Call it first in `main`: in such a child it compiles one
/// component and ends the process; otherwise it returns at once, and [`CompileMode::find`] chooses this program.
///
/// Before this call the program must not read standard input nor write to standard output, where the handshake takes
/// place.
///
/// ```no_run
/// // The first line of `main`:
/// opcell_sandbox::compile::prepare();
/// ```
pub fn prepare() {
    // Schemas may be so deep that compiling them needs a stack that only a thread of its own has.
    opcell_workers::install();
    if is_child() {
        std::process::exit(match child::serve_stdio() {
            Ok(()) => 0,
            Err(message) => {
                eprintln!("{message}");
                1
            }
        });
    }
    PREPARED.store(true, Ordering::Relaxed);
}

/// Returns `true` if this process was started to compile a component. One that is still here has not called
/// [`prepare`].
pub(super) fn is_child() -> bool {
    std::env::var_os(MARKER).is_some()
}

impl CompileMode {
    /// In children of this program when it has called [`prepare`]; else of an `opcell-compile` beside it or on the
    /// `PATH`.
    ///
    /// # Errors
    /// [`SandboxError::NoCompiler`] when there is neither. This never chooses [`CompileMode::TrustedInProcess`].
    pub fn find() -> Result<Self, SandboxError> {
        if PREPARED.load(Ordering::Relaxed) {
            return this_program().map(Self::child).map_err(|error| SandboxError::Engine(error.to_string()));
        }
        let beside = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned()));
        let path = std::env::var_os("PATH").unwrap_or_default();
        // A relative entry would run whatever lies in the directory that the user happens to be in.
        let folders = beside.into_iter().chain(std::env::split_paths(&path).filter(|folder| folder.is_absolute()));
        match folders.map(|folder| folder.join(PROGRAM)).find(|program| is_executable(program)) {
            Some(program) => Ok(Self::child(program)),
            None => Err(SandboxError::NoCompiler),
        }
    }

    fn child(path: PathBuf) -> Self {
        Self::Child(CompileProgram { path, args: Vec::new() })
    }
}

/// This very program, even after a newer version has taken its place on disk.
fn this_program() -> std::io::Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if cfg!(target_os = "linux") && running.exists() { Ok(running.to_owned()) } else { std::env::current_exe() }
}

fn is_executable(program: &Path) -> bool {
    program.is_file() && rustix::fs::access(program, Access::EXEC_OK).is_ok()
}
