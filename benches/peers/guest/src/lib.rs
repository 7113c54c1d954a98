//! Echo as a plain module: parses its arguments and writes them out again, as `example-operations/echo` does.

use serde_json::{Map, Value};

/// Room for arguments of this length.
#[unsafe(no_mangle)]
pub extern "C" fn make_room(length: usize) -> *mut u8 {
    Box::leak(vec![0; length].into_boxed_slice()).as_mut_ptr()
}

/// The arguments as they are: where they lie, and their length in the lower half.
///
/// # Safety
/// They lie in what `make_room` gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn echo(at: *mut u8, length: usize) -> u64 {
    // SAFETY: the host hands back what it was given.
    let arguments = unsafe { Vec::from_raw_parts(at, length, length) };
    let read: Option<Map<String, Value>> = serde_json::from_slice(&arguments).ok();
    let answer = read.and_then(|arguments| serde_json::to_vec(&arguments).ok()).unwrap_or_default();
    let answer: &'static mut [u8] = Box::leak(answer.into_boxed_slice());
    ((answer.as_mut_ptr() as usize as u64) << 32) | answer.len() as u64
}
