//! The threads that the shell lends to the crates which start none: the core, the IR and schemas.
//!
//! Owns: starting and joining them. Must not know: what runs on them. In and out: [`opcell_types::workers::Workers`].
//! Whatever runs workflows or cells, or compiles documents, calls [`install`] first.

#![warn(missing_debug_implementations)]

use opcell_types::workers::{Workers, lend};
use std::{
    num::NonZero,
    panic::resume_unwind,
    sync::LazyLock,
    thread::{self, Builder},
};

/// Processors that this program may use; finding out reads files.
static PROCESSORS: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get));

/// Threads of the system, which live as long as a call.
struct Threads;

/// Lends threads of the system to the crates that start none. Calls after the first one change nothing.
pub fn install() {
    lend(&Threads);
}

impl Workers for Threads {
    fn parallelism(&self) -> usize {
        *PROCESSORS
    }

    fn run(&self, jobs: &[&(dyn Fn() + Sync)]) {
        thread::scope(|scope| {
            let start = |job| Builder::new().name("opcell-worker".to_owned()).spawn_scoped(scope, job);
            let others: Vec<_> = jobs.iter().skip(1).map(|job| (job, start(job))).collect();
            if let Some(first) = jobs.first() {
                first();
            }
            for (job, thread) in others {
                match thread {
                    Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                    // The machine has no thread left for us.
                    Err(_) => job(),
                }
            }
        });
    }

    fn with_stack(&self, bytes: usize, work: &mut (dyn FnMut() + Send)) -> Result<(), String> {
        thread::scope(|scope| {
            let named = Builder::new().name("opcell-worker".to_owned()).stack_size(bytes);
            let thread = named.spawn_scoped(scope, work).map_err(|error| format!("no thread for it: {error}"))?;
            thread.join().map_err(|_| "it failed".to_owned())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_job_runs_once_and_all_have_ended_afterwards() {
        let done = AtomicUsize::new(0);
        let job = || {
            done.fetch_add(1, Ordering::SeqCst);
        };
        Threads.run(&[&job, &job, &job]);
        Threads.run(&[]);
        assert_eq!(done.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn work_on_a_deep_stack_says_when_it_failed() {
        let mut done = false;
        Threads.with_stack(64 << 20, &mut || done = true).unwrap();
        assert!(done);
        assert_eq!(Threads.with_stack(1 << 20, &mut || panic!("as it may")), Err("it failed".to_owned()));
    }
}
