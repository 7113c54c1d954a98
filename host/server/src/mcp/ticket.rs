//! Names of runs that only their caller knows: IDs of tasks, and states of requests.
//!
//! A ticket is random. The ID of the run is a digest of it, of the tenant and of the caller: so the ticket is bound to
//! both, cannot be found from the run's ID, which pages and logs show, and needs no memory of this process. It also
//! holds a moment after which it is refused, which cannot be changed without naming another run.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use opcell_journal::RunId;
use sha2::{Digest as _, Sha256};
use std::io;

/// Random bytes of a ticket.
const NONCE_BYTES: usize = 24;

/// Bytes of the moment, in milliseconds since 1970.
const MOMENT_BYTES: usize = 8;

/// Bytes of the digest that become the ID of a run.
const RUN_BYTES: usize = 16;

/// The use of a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// The ID of a task.
    Task,
    /// The state of a request that waits for input.
    RequestState,
}

impl Use {
    fn prefix(self) -> &'static str {
        match self {
            Self::Task => "task_",
            Self::RequestState => "state_",
        }
    }
}

/// A random name of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ticket {
    of: Use,
    bytes: [u8; NONCE_BYTES + MOMENT_BYTES],
}

impl Ticket {
    /// A new one, refused after this moment.
    ///
    /// # Errors
    /// The system's, when it has no randomness.
    pub(super) fn new(of: Use, expires_ms: u64) -> io::Result<Self> {
        let mut bytes = [0; NONCE_BYTES + MOMENT_BYTES];
        let (nonce, moment) = bytes.split_at_mut(NONCE_BYTES);
        getrandom::fill(nonce).map_err(io::Error::other)?;
        moment.copy_from_slice(&expires_ms.to_be_bytes());
        Ok(Self { of, bytes })
    }

    /// Reads what a client sent; `None` for what this server never gave, and for what has expired.
    pub(super) fn parse(of: Use, text: &str, now_ms: u64) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text.strip_prefix(of.prefix())?).ok()?;
        let bytes: [u8; NONCE_BYTES + MOMENT_BYTES] = bytes.try_into().ok()?;
        let (_, moment) = bytes.split_last_chunk::<MOMENT_BYTES>()?;
        (now_ms <= u64::from_be_bytes(*moment)).then_some(Self { of, bytes })
    }

    /// The text that a client is given.
    pub(super) fn text(&self) -> String {
        format!("{}{}", self.of.prefix(), URL_SAFE_NO_PAD.encode(self.bytes))
    }

    /// The run that it names for this caller.
    pub(super) fn run(&self, tenant: &str, caller: &str) -> RunId {
        let mut hash = Sha256::new();
        for part in [b"opcell-mcp-run".as_slice(), self.of.prefix().as_bytes(), tenant.as_bytes(), caller.as_bytes()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.update(self.bytes);
        let digest = hash.finalize();
        let hex: String = digest.iter().take(RUN_BYTES).map(|byte| format!("{byte:02x}")).collect();
        format!("mcp-{hex}").into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_names_a_run_for_one_tenant_and_one_caller_and_until_it_expires() {
        let ticket = Ticket::new(Use::RequestState, 1_000).unwrap();
        let text = ticket.text();
        let read = |text: &str, now| Ticket::parse(Use::RequestState, text, now);
        assert_eq!(read(&text, 1_000), Some(ticket.clone()));
        assert_eq!(read(&text, 1_001), None);
        let run = ticket.run("t", "ada");
        assert_eq!(ticket.run("t", "ada"), run);
        for (tenant, caller) in [("u", "ada"), ("t", "bob"), ("ta", "da"), ("tad", "a")] {
            assert_ne!(ticket.run(tenant, caller), run, "{tenant} {caller}");
        }
        assert_eq!(Ticket::parse(Use::Task, &text, 0), None, "a state is no task");
        // Whatever of it is changed, it names no run that there is.
        for at in 0..text.len() {
            let mut changed: Vec<char> = text.chars().collect();
            changed[at] = if changed[at] == 'A' { 'B' } else { 'A' };
            let changed: String = changed.into_iter().collect();
            assert!(read(&changed, 0).is_none_or(|other| other.run("t", "ada") != run), "{changed}");
        }
        for wrong in ["", "state_", "task_", "state_AAAA", "state_!", &format!("{text}A"), &text[1..]] {
            assert_eq!(read(wrong, 0), None, "{wrong}");
        }
        assert_ne!(Ticket::new(Use::Task, 1).unwrap(), Ticket::new(Use::Task, 1).unwrap());
    }
}
