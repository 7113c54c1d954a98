//! The image of a component's memory, which its cells share until they write.
//!
//! The engine makes it for the first cell and seals it. The kernel refuses to seal a file while it holds one of the
//! pages for a moment itself, as it does on a busy machine; the engine gives up then, and the cell would end for nothing.

use std::{thread, time::Duration};
use wasmtime::component::Component;

/// Attempts to make an image, of which each waits until the kernel has looked at the pages several times.
const MAX_ATTEMPTS: u32 = 20;

/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// Returns `true` if a cell was not made because the kernel did not seal the image of its memory.
pub(crate) fn is_refused(error: &wasmtime::Error) -> bool {
    error.chain().any(|cause| cause.to_string().contains("cannot add seals"))
}

/// Makes the image, unless the kernel refuses each attempt: then the next cell fails as this one did.
pub(crate) async fn made(component: &Component) {
    let component = component.clone();
    let make = move || {
        for _ in 0..MAX_ATTEMPTS {
            match component.initialize_copy_on_write_image() {
                Err(error) if is_refused(&error) => thread::sleep(PAUSE),
                _ => return,
            }
        }
    };
    // A task is lost only when the runtime ends.
    let _ = tokio::task::spawn_blocking(make).await;
}

#[cfg(test)]
mod tests {
    use super::is_refused;

    #[test]
    fn only_a_seal_that_was_refused_is_tried_again() {
        let refused = wasmtime::Error::msg("cannot add seals to the memfd");
        assert!(is_refused(&refused) && is_refused(&refused.context("the memory")));
        assert!(!is_refused(&wasmtime::Error::msg("out of memory")));
    }
}
