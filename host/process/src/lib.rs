//! Programs that are started so that nothing they start outlives them, such as servers of tools and commands of models,
//! and threads for connections to servers of others.
//!
//! Owns: the process that watches over a program, how a program is ended with all that descends from it, and the threads
//! that parse what other servers send.
//!
//! Must not know: which program or server it is, what it says, or what it may reach.

mod outbound;
#[cfg(target_os = "linux")]
mod watch;

pub use outbound::outbound;

use rustix::process::{Pid, Signal};
use tokio::process::{Child, Command};

/// Starts what the command starts so that [`end`] and the end of this process reach all that descends from it.
///
/// On Linux the child is a process that watches over the program and ends as the program does, once everything that
/// the program left behind has ended. Elsewhere the child is the program, in a process group of its own.
pub fn watched(command: &mut Command) {
    #[cfg(target_os = "linux")]
    watch::over(command);
    #[cfg(not(target_os = "linux"))]
    command.process_group(0).kill_on_drop(true);
}

/// Asks for the end of a [`watched`] child and of everything that descends from it. A child that has been waited for
/// has ended already.
pub fn end(child: &Child) {
    let Some(id) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) else { return };
    // It fails where the child has just ended, which is what is wanted.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::kill_process(id, Signal::USR1);
    #[cfg(not(target_os = "linux"))]
    let _ = rustix::process::kill_process_group(id, Signal::KILL);
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
