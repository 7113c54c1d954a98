//! PromptPack: packs of prompts whose workflow is an event-driven state machine (RFC 0005, 0009, 0010).
//!
//! A pack is read ([`pack`]), checked against the published schema ([`schema`]) and by the reference's own rules ([`validate`],
//! [`composition`]) and ours ([`checks`]), and compiled to the execution model. Beside it stands the reference's library in Rust:
//! the state machine ([`machine`], [`context`]) with its two tools ([`tools`]) and templates ([`template`]).
//! Where the reference is unsafe or loses information, the engine's path does better and the type says so.

pub mod composition;
pub mod context;
pub mod decode;
pub mod go;
pub mod machine;
pub mod schema;
pub mod spec;
pub mod template;
pub mod tools;
pub mod validate;

pub use context::Context;
pub use machine::{StateMachine, TransitionError, TransitionResult};
pub use spec::{Spec, State};
pub use validate::{ValidationResult, validate};
