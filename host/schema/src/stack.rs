//! Room for recursion: the validator builds and checks recursively, and a stack that is too short ends the process.

use opcell_types::workers;

/// Schemas inside one another for which every thread has room: a few hundred bytes of stack each, and some of them
/// several times.
const MAX_PLAIN_NESTING: u64 = 300;

/// Address space for the deepest recursion that is let through; only what is used of it takes memory.
const DEEP_STACK_BYTES: usize = 512 << 20;

/// Returns `true` if this number of schemas inside one another needs more stack than every thread has.
pub(crate) fn needs_room_for(nesting: u64) -> bool {
    nesting > MAX_PLAIN_NESTING
}

/// Does work that recurses through this number of schemas at most, where there is room for it.
///
/// # Errors
/// When there is no thread for it, or the work panics.
pub(crate) fn with_room_for<T: Send>(nesting: u64, work: impl FnOnce() -> T + Send) -> Result<T, String> {
    if !needs_room_for(nesting) {
        return Ok(work());
    }
    let workers =
        workers::lent().ok_or("schemas so deep in one another need a stack that this program does not lend")?;
    let (mut work, mut result) = (Some(work), None);
    let run = workers.with_stack(DEEP_STACK_BYTES, &mut || result = work.take().map(|work| work()));
    run.map_err(|error| format!("checking with the schema: {error}"))?;
    result.ok_or_else(|| "the validator did not run".to_owned())
}
