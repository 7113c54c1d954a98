//! The budget of one cell for its calls of the host. Every import charges here first, and nowhere else.

use crate::limits::Limits;
use serde::{Deserialize, Serialize};

/// An interface of the host that a call is booked under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interface {
    Tools,
    Skills,
    Files,
    Store,
    Log,
    Wasi,
}

/// Calls of host functions by interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostCalls {
    /// `tools`.
    #[serde(skip_serializing_if = "is_zero")]
    pub tools: u64,
    /// `skills`.
    #[serde(skip_serializing_if = "is_zero")]
    pub skills: u64,
    /// `files`.
    #[serde(skip_serializing_if = "is_zero")]
    pub files: u64,
    /// `store`.
    #[serde(skip_serializing_if = "is_zero")]
    pub store: u64,
    /// `log`.
    #[serde(skip_serializing_if = "is_zero")]
    pub log: u64,
    /// Any interface of WASI.
    #[serde(skip_serializing_if = "is_zero")]
    pub wasi: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl HostCalls {
    /// All of them together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.tools + self.skills + self.files + self.store + self.log + self.wasi
    }
}

/// A limit of the budget that a cell has run into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Exceeded {
    #[error("more than {0} host calls")]
    HostCalls(u64),
    #[error("more than {0} bytes over the boundary (limit `boundary-bytes`)")]
    BoundaryBytes(u64),
    #[error("more than {0} bytes of HTTP headers and bodies held at once (limit `boundary-bytes`)")]
    HeldBytes(u64),
}

/// The running account of one cell.
#[derive(Debug)]
pub(crate) struct Budget {
    calls_left: u64,
    bytes_left: u64,
    call_limit: u64,
    byte_limit: u64,
    pub(crate) calls: HostCalls,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    /// Kept so that a guest whose import cannot trap (WASI) is interrupted at the next tick.
    pub(crate) exceeded: Option<Exceeded>,
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            calls_left: limits.host_calls,
            bytes_left: limits.boundary_bytes,
            call_limit: limits.host_calls,
            byte_limit: limits.boundary_bytes,
            calls: HostCalls::default(),
            bytes_in: 0,
            bytes_out: 0,
            exceeded: None,
        }
    }

    /// Books one call that brings `bytes` from the guest to the host.
    pub(crate) fn charge(&mut self, interface: Interface, bytes: usize) -> Result<(), Exceeded> {
        let count = match interface {
            Interface::Tools => &mut self.calls.tools,
            Interface::Skills => &mut self.calls.skills,
            Interface::Files => &mut self.calls.files,
            Interface::Store => &mut self.calls.store,
            Interface::Log => &mut self.calls.log,
            Interface::Wasi => &mut self.calls.wasi,
        };
        *count += 1;
        match self.calls_left.checked_sub(1) {
            Some(left) => self.calls_left = left,
            None => return Err(self.exceed(Exceeded::HostCalls(self.call_limit))),
        }
        self.take(bytes)
    }

    /// Books bytes that the guest hands to the host.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), Exceeded> {
        self.bytes_out += bytes as u64;
        self.spend(bytes)
    }

    /// Books bytes that the host hands to the guest.
    pub(crate) fn give(&mut self, bytes: usize) -> Result<(), Exceeded> {
        self.bytes_in += bytes as u64;
        self.spend(bytes)
    }

    fn spend(&mut self, bytes: usize) -> Result<(), Exceeded> {
        match self.bytes_left.checked_sub(bytes as u64) {
            Some(left) => {
                self.bytes_left = left;
                Ok(())
            }
            None => Err(self.exceed(Exceeded::BoundaryBytes(self.byte_limit))),
        }
    }

    fn exceed(&mut self, what: Exceeded) -> Exceeded {
        *self.exceeded.get_or_insert(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_after_the_last_one_is_refused_and_still_counted() {
        let mut budget = Budget::new(&Limits { host_calls: 2, ..Limits::default() });
        assert!(budget.charge(Interface::Log, 0).is_ok());
        assert!(budget.charge(Interface::Tools, 0).is_ok());
        assert_eq!(budget.charge(Interface::Log, 0), Err(Exceeded::HostCalls(2)));
        assert_eq!((budget.calls.log, budget.calls.total()), (2, 3));
    }

    #[test]
    fn bytes_of_both_directions_share_one_limit() {
        let mut budget = Budget::new(&Limits { boundary_bytes: 10, ..Limits::default() });
        assert!(budget.charge(Interface::Tools, 6).is_ok());
        assert_eq!(budget.give(5), Err(Exceeded::BoundaryBytes(10)));
        assert_eq!(budget.exceeded, Some(Exceeded::BoundaryBytes(10)));
    }
}
