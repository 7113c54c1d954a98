//! Messages for the operator. They reach the receipt, never a model.

use crate::host;
use std::sync::Once;

pub use crate::bindings::imports::opcell::plugin0_1_0::log::Level;

/// Logs one message; [`log!`](crate::log!) formats it.
pub fn log(level: Level, message: &str) {
    host::log::log(level, message);
}

/// Says how far a long call is; a `total` of zero means that it is not known.
pub fn progress(done: u64, total: u64, message: &str) {
    host::log::progress(done, total, message);
}

/// Logs a formatted message: `log!(info, "{} files", count)`. Levels are `trace`, `debug`, `info`, `warn` and `error`.
#[macro_export]
macro_rules! log {
    (trace, $($message:tt)+) => { $crate::log::log($crate::log::Level::Trace, &::std::format!($($message)+)) };
    (debug, $($message:tt)+) => { $crate::log::log($crate::log::Level::Debug, &::std::format!($($message)+)) };
    (info, $($message:tt)+) => { $crate::log::log($crate::log::Level::Info, &::std::format!($($message)+)) };
    (warn, $($message:tt)+) => { $crate::log::log($crate::log::Level::Warn, &::std::format!($($message)+)) };
    (error, $($message:tt)+) => { $crate::log::log($crate::log::Level::Error, &::std::format!($($message)+)) };
}

/// Sends a panic's message to the host just before the trap, so that the receipt says more than `unreachable`.
pub(crate) fn report_panics() {
    static ONCE: Once = Once::new();
    // Native tests have a hook of their own that they rely on.
    if cfg!(target_arch = "wasm32") {
        ONCE.call_once(|| {
            std::panic::set_hook(Box::new(|panic| {
                let message = panic.payload_as_str().unwrap_or("a panic without a message");
                let place = panic.location().map(|location| format!(" at {location}")).unwrap_or_default();
                host::log::panicked(&format!("{message}{place}"));
            }));
        });
    }
}
