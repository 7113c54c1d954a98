//! Content of conversations in traces, which an operator asks for.

use super::Failure;
use opcell_ir::Diagnostic;
use opcell_server::{CAPTURE_VARIABLE, is_captured};

/// Returns `true` if traces have content: by an option, or by the environment.
///
/// # Errors
/// When the variable of the environment has a value that is not known.
pub(super) fn with_content(option: bool) -> Result<bool, Failure> {
    let value = std::env::var(CAPTURE_VARIABLE).unwrap_or_default();
    let by_environment = is_captured(&value).map_err(|message| {
        Diagnostic::error("invalid-capture", message).help("set it to `true` or `false`, or leave it out")
    })?;
    Ok(option || by_environment)
}
