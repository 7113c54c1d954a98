//! An operation that was begun or is about to be: a thread waits for it, or an event loop is told its result.

use crate::runtime;
use pyo3::{exceptions::PyRuntimeError, prelude::*};
use std::{
    pin::Pin,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// The time between two looks at the interpreter's signals while a thread waits.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Time in which an operation that was interrupted may end by itself, so that what it used is written down.
const INTERRUPT_GRACE: Duration = Duration::from_secs(5);

/// Makes the result, attached to the interpreter.
pub(crate) type Finish = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

type Work = Pin<Box<dyn Future<Output = Finish> + Send>>;

/// An operation whose result is waited for once: by `wait`, or by `start`.
#[pyclass(frozen, module = "opcell._native")]
pub(crate) struct Pending {
    work: Mutex<Option<Work>>,
    cancel: CancellationToken,
    /// `true` if the operation ends by itself soon after its token was cancelled; otherwise it is dropped.
    ends_when_cancelled: bool,
}

impl Pending {
    /// An operation that is dropped when no one waits for it any more.
    pub(crate) fn new(work: impl Future<Output = Finish> + Send + 'static) -> Self {
        Self { work: Mutex::new(Some(Box::pin(work))), cancel: CancellationToken::new(), ends_when_cancelled: false }
    }

    /// An operation that this token ends in order.
    pub(crate) fn cancelled_by(cancel: CancellationToken, work: impl Future<Output = Finish> + Send + 'static) -> Self {
        Self { work: Mutex::new(Some(Box::pin(work))), cancel, ends_when_cancelled: true }
    }

    fn take(&self) -> PyResult<Work> {
        let work = self.work.lock().unwrap_or_else(PoisonError::into_inner).take();
        work.ok_or_else(|| PyRuntimeError::new_err("this operation has been waited for already"))
    }
}

#[pymethods]
impl Pending {
    /// Waits on the calling thread, detached from the interpreter, and returns the result. A signal whose handler
    /// raises, such as that of Ctrl-C, cancels the operation.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let shared = runtime::shared()?;
        let mut work = self.take()?;
        loop {
            let waited = py
                .detach(|| shared.handle().block_on(async { tokio::time::timeout(SIGNAL_INTERVAL, &mut work).await }));
            if let Ok(finish) = waited {
                return finish(py);
            }
            // Outside of the runtime: the handler of a signal may call this as well.
            if let Err(raised) = py.check_signals() {
                self.cancel.cancel();
                py.detach(|| {
                    shared.handle().block_on(async move {
                        if self.ends_when_cancelled {
                            let _ = tokio::time::timeout(INTERRUPT_GRACE, &mut work).await;
                        }
                    });
                });
                return Err(raised);
            }
        }
    }

    /// Begins the operation and returns at once. `done(result, error)` is called on a thread of Opcell's with the
    /// result or the exception; not after `cancel`.
    fn start(&self, done: Py<PyAny>) -> PyResult<()> {
        let shared = runtime::shared()?;
        let mut work = self.take()?;
        let (cancel, ends_when_cancelled) = (self.cancel.clone(), self.ends_when_cancelled);
        shared.handle().spawn(async move {
            let finish = tokio::select! {
                biased;
                finish = &mut work => finish,
                () = cancel.cancelled() => {
                    if ends_when_cancelled {
                        let _ = work.await;
                    }
                    return;
                }
            };
            runtime::report(Box::new(move |py| {
                let told = match finish(py) {
                    Ok(result) => done.call1(py, (result, py.None())),
                    Err(error) => done.call1(py, (py.None(), error.into_value(py))),
                };
                // The event loop is closed: no one waits.
                drop(told);
            }));
        });
        Ok(())
    }

    /// Cancels the operation.
    fn cancel(&self) {
        self.cancel.cancel();
    }
}
