//! The one Tokio runtime of the process, and the thread that reports to Python.

use crate::error;
use pyo3::prelude::*;
use std::{
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};
use tokio::runtime::{Handle, Runtime};

/// Time that the tasks of the runtime have to end when the interpreter does.
const SHUTDOWN_TIME: Duration = Duration::from_secs(1);

/// Something to do while attached to the interpreter.
pub(crate) type Report = Box<dyn FnOnce(Python<'_>) + Send>;

/// The runtime, for as long as the process lives.
pub(crate) struct Shared {
    handle: Handle,
    /// Taken when the interpreter ends.
    owned: Mutex<Option<Runtime>>,
    is_over: AtomicBool,
    /// The process that started it: threads do not survive a fork.
    process: u32,
    reports: mpsc::Sender<Report>,
}

static SHARED: OnceLock<Shared> = OnceLock::new();

/// The runtime, which the first use starts.
///
/// # Errors
/// When the system gives no threads, after a fork, and while the interpreter ends.
pub(crate) fn shared() -> PyResult<&'static Shared> {
    let shared = match SHARED.get() {
        Some(shared) => shared,
        None => {
            let started = start().map_err(|problem| {
                error::plain("host", "no-threads", &format!("the runtime cannot be started: {problem}"))
            })?;
            SHARED.get_or_init(|| started)
        }
    };
    if shared.process != std::process::id() {
        let message = "this process was forked after Opcell had started its threads, which do not exist here; create \
                       hosts after the fork, or start processes with the method `spawn` or `forkserver`";
        return Err(error::plain("fork", "forked", message));
    }
    if shared.is_over.load(Ordering::Acquire) {
        return Err(error::plain("host", "shutting-down", "the interpreter is ending and accepts no more calls"));
    }
    Ok(shared)
}

fn start() -> std::io::Result<Shared> {
    let runtime = opcell::runtime()?;
    let (reports, received) = mpsc::channel::<Report>();
    std::thread::Builder::new().name("opcell-reports".to_owned()).spawn(move || {
        while let Ok(report) = received.recv() {
            // `None`: the interpreter is gone, and with it whoever waits.
            let attached = Python::try_attach(|py| {
                report(py);
                while let Ok(report) = received.try_recv() {
                    report(py);
                }
            });
            if attached.is_none() {
                return;
            }
        }
    })?;
    Ok(Shared {
        handle: runtime.handle().clone(),
        owned: Mutex::new(Some(runtime)),
        is_over: AtomicBool::new(false),
        process: std::process::id(),
        reports,
    })
}

impl Shared {
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

/// Has something done by the thread that reports to Python. Lost after the end of the interpreter.
pub(crate) fn report(report: Report) {
    if let Some(shared) = SHARED.get() {
        let _ = shared.reports.send(report);
    }
}

/// Ends the runtime: called once, when the interpreter ends, after the hosts were closed.
#[pyfunction]
pub(crate) fn shut_down(py: Python<'_>) {
    let Some(shared) = SHARED.get().filter(|shared| shared.process == std::process::id()) else { return };
    shared.is_over.store(true, Ordering::Release);
    let owned = shared.owned.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(runtime) = owned {
        py.detach(|| runtime.shutdown_timeout(SHUTDOWN_TIME));
    }
}
