//! Names that documents use.

pub use opcell_types::Outcome;

/// Bytes of the name of a step and of a key, as YAML has it for keys: each finding about what is below repeats them.
pub const MAX_NAME_BYTES: usize = 1_024;

/// Returns `true` if a text names a session profile: `[A-Za-z0-9][A-Za-z0-9._-]*`, unqualified, and not the command
/// word `clear`.
#[must_use]
pub fn is_profile_name(name: &str) -> bool {
    name != "clear"
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}
