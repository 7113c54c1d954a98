//! Consent: what a project asks for that reaches outside of its folder, and what its user said to that.
//!
//! A project file proposes; it may come with a checkout that no one has read. [`Requests::of`] lists what it asks for
//! beyond its own folder: programs, a shell, environment variables, key files, hosts, other folders, a journal
//! elsewhere. A project that asks for none of it needs no consent. Everything else is asked once and remembered in
//! [`Trusted`], per canonical path and digest of the list, among the user's own state and never in the project.
//! [`Policy`] is the machine owner's word: what it forbids, no consent allows.
//!
//! The digest covers the list and the content of what the programs are made of that lies in the project ([`cover`]),
//! not comments, limits or the order of the file.

mod cover;
mod owner;
mod policy;
mod requests;
mod trusted;

pub(crate) use cover::{Cover, Covers, SameAsConsented};
pub use owner::{check_companion, check_owner, is_own, shell};
pub use policy::Policy;
pub(crate) use requests::is_secret;
pub use requests::{Reach, Request, Requests};
pub use trusted::{Before, Trusted};
