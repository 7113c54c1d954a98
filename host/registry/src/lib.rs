//! Plugins from OCI registries.
//!
//! **Owns** references ([`mod@reference`]), what plugins look like in a registry ([`artifact`]), requests to registries
//! ([`client`]), signatures of publishers ([`signature`]), and the store of what was fetched ([`store`]).
//!
//! **Must not know** projects, locks, grants and WebAssembly: the embedding library decides what may be fetched and
//! what is accepted.
//!
//! **In**: a reference that a person named. **Out**: bytes whose digest was checked, with the signature that came
//! along; or a closed error with a remedy. Nothing that a registry says is believed: not a digest, not a size, not a
//! location.
//!
//! The client is ours rather than `oci-client`'s, which follows redirects by itself, reads bodies without a bound and
//! resolves names without a check. Tests hold it against that client in both directions.

#![warn(missing_debug_implementations)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test makes what it looks at"))]

pub mod artifact;
#[cfg(feature = "client")]
pub mod client;
pub mod reference;
pub mod search;
pub mod signature;
pub mod store;

pub use reference::Reference;

/// The largest component that is fetched or pushed, in bytes; what the compiler takes.
pub const MAX_COMPONENT: u64 = 64 << 20;
