//! The progress of a call, told while the call lasts. A preview: no journal, receipt or model learns of it.

use crate::text::one_line;
use std::{fmt, sync::Arc};

/// Longest message that is told, in bytes.
const MESSAGE: usize = 200;

/// The progress of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallProgress {
    /// Done so far.
    pub done: f64,
    /// All that is to be done, where it is known.
    pub total: Option<f64>,
    /// One line of printable text; may be empty.
    pub message: String,
}

impl CallProgress {
    /// The progress with its message made printable and cut; `None` if `done` is not a number. A total that is no
    /// number, or not more than zero, is unknown.
    #[must_use]
    pub fn new(done: f64, total: Option<f64>, message: &str) -> Option<Self> {
        let total = total.filter(|total| total.is_finite() && *total > 0.0);
        done.is_finite().then(|| Self { done, total, message: one_line(message, MESSAGE) })
    }
}

/// `3 of 10: copying`, as far as it is known.
impl fmt::Display for CallProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.total {
            Some(total) => write!(f, "{} of {total}", self.done)?,
            // A program that counts nothing has only a message.
            None if self.done == 0.0 && !self.message.is_empty() => return f.write_str(&self.message),
            None => write!(f, "{}", self.done)?,
        }
        if self.message.is_empty() { Ok(()) } else { write!(f, ": {}", self.message) }
    }
}

/// Receives the progress of a call. Must not block.
pub trait ProgressSink: Send + Sync {
    /// The progress as it is now.
    fn progress(&self, progress: CallProgress);
}

/// The place in which a call tells its progress; clones share it. The default tells it to nothing.
///
/// Two are always equal: a call is the same call whoever watches it.
#[derive(Clone, Default)]
pub struct ProgressLog(Option<Arc<dyn ProgressSink>>);

impl ProgressLog {
    /// Tells a sink.
    #[must_use]
    pub fn new(sink: Arc<dyn ProgressSink>) -> Self {
        Self(Some(sink))
    }

    /// Returns `true` if something receives what is reported.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.0.is_some()
    }

    /// Reports progress, as whoever makes the call says it: it is bounded here.
    pub fn report(&self, done: f64, total: Option<f64>, message: &str) {
        if let Some(sink) = &self.0
            && let Some(progress) = CallProgress::new(done, total, message)
        {
            sink.progress(progress);
        }
    }
}

impl fmt::Debug for ProgressLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgressLog").field("is_watched", &self.is_watched()).finish()
    }
}

impl PartialEq for ProgressLog {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ProgressLog {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test")]

    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Told(Mutex<Vec<CallProgress>>);

    impl ProgressSink for Told {
        fn progress(&self, progress: CallProgress) {
            self.0.lock().unwrap().push(progress);
        }
    }

    #[test]
    fn progress_is_one_printable_line_of_numbers_that_are_numbers() {
        let told = Arc::new(Told::default());
        let log = ProgressLog::new(told.clone());
        log.report(3.0, Some(10.0), "copy\u{202e}ing\na file");
        log.report(f64::NAN, None, "dropped");
        log.report(2.5, Some(-1.0), "");
        log.report(0.0, Some(f64::INFINITY), &"é".repeat(10_000));
        ProgressLog::default().report(1.0, None, "told to nothing");
        let told = told.0.lock().unwrap();
        let [first, second, third] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(first.to_string(), "3 of 10: copy\u{fffd}ing a file");
        assert_eq!((second.to_string(), second.total), ("2.5".to_owned(), None));
        assert!(third.total.is_none() && third.message.len() <= MESSAGE + 10, "{}", third.message.len());
        assert!(third.to_string().starts_with('é'), "nothing was counted");
    }
}
