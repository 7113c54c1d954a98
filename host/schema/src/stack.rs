//! Room for recursion: the validator builds and checks recursively, and a stack that is too short ends the process.

use std::thread;

/// Schemas inside one another for which every thread has room: a few hundred bytes of stack each, and some of them
/// several times.
const SHALLOW: u64 = 300;

/// Address space for the deepest recursion that is let through; only what is used of it takes memory.
const ROOM: usize = 512 << 20;

/// Returns `true` if this number of schemas inside one another needs more stack than every thread has.
pub(crate) fn needs_room_for(nesting: u64) -> bool {
    nesting > SHALLOW
}

/// Does work that recurses through at most this many schemas, where there is room for it.
///
/// # Errors
/// When no workers are lent, there is no thread for it, or the work panics.
pub(crate) fn with_room_for<T: Send>(nesting: u64, work: impl FnOnce() -> T + Send) -> Result<T, String> {
    if !needs_room_for(nesting) {
        return Ok(work());
    }
    thread::scope(|scope| {
        let named = thread::Builder::new().name("opcell-schema".to_owned()).stack_size(ROOM);
        let thread = named.spawn_scoped(scope, work).map_err(|error| format!("no thread for the schema: {error}"))?;
        thread.join().map_err(|_| "the validator failed".to_owned())
    })
}
