//! Traps as an author reads them: the functions that led to one, and the stacks that were used up.

use opcell_types::text::printable;
use wasmtime::{Trap, WasmBacktrace};

/// The longest name of a function; a longer one is cut.
const NAME_BYTES: usize = 200;

/// The longest name that is demangled.
const MANGLED_BYTES: usize = 4 << 10;

/// Bytes below address 0 in which a fault is taken for a stack that has grown out of the memory. Compilers put the
/// stack below everything else, and addresses are numbers of 32 bits without a sign.
const BELOW_ZERO: u64 = 64 << 20;

/// The size of the address space of a linear memory.
const ADDRESSES: u64 = 1 << 32;

/// Frames that only a few functions fill are a recursion.
const RECURSION: (usize, usize) = (16, 4);

/// The names of the functions that led to an error, innermost first; empty where the component has no names.
pub(crate) fn backtrace(error: &wasmtime::Error) -> Vec<String> {
    let Some(trace) = error.downcast_ref::<WasmBacktrace>() else { return Vec::new() };
    let names: Vec<Option<&str>> = trace.frames().iter().map(wasmtime::FrameInfo::func_name).collect();
    if names.iter().all(Option::is_none) {
        return Vec::new();
    }
    let name = |name: &Option<&str>| match name {
        // Names that demangle to more than they are long have a length before.
        Some(name) if name.len() > MANGLED_BYTES => printable(name, NAME_BYTES),
        // Without the hash that tells instances of one function apart.
        Some(name) => printable(&format!("{:#}", rustc_demangle::demangle(name)), NAME_BYTES),
        None => "a function without a name".to_owned(),
    };
    names.iter().map(name).collect()
}

/// Returns `true` if a trap is the end of a compiler's own stack that is used up: an access below the first address, or
/// out of bounds somewhere in a deep recursion.
pub(crate) fn is_stack_overflow(trap: Trap, error: &wasmtime::Error) -> bool {
    if trap != Trap::MemoryOutOfBounds {
        return false;
    }
    // The engine has no public type for the address of a fault; its words are checked by a test.
    let text = format!("{error:#}");
    if let Some(address) = text.split("wasm address 0x").nth(1) {
        let end = address.find(|letter: char| !letter.is_ascii_hexdigit()).unwrap_or(address.len());
        let address = address.get(..end).and_then(|digits| u64::from_str_radix(digits, 16).ok());
        if address.is_some_and(|address| address >= ADDRESSES - BELOW_ZERO) {
            return true;
        }
    }
    let Some(trace) = error.downcast_ref::<WasmBacktrace>() else { return false };
    let mut functions: Vec<u32> = trace.frames().iter().map(wasmtime::FrameInfo::func_index).collect();
    let frames = functions.len();
    functions.sort_unstable();
    functions.dedup();
    frames >= RECURSION.0 && functions.len() <= RECURSION.1
}
