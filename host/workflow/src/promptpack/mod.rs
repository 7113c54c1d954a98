//! PromptPack: packs of prompts whose workflow is an event-driven state machine (RFC 0005, 0009, 0010).
//!
//! A pack is read ([`document`], [`mod@pack`]), checked against the published schema ([`schema`]) and by the reference's own rules
//! ([`mod@validate`], [`composition`]) and ours ([`mod@checks`]), and compiled to the execution model ([`mod@compile`], [`compose`]).
//! Beside it stands the reference's library in Rust: the state machine ([`machine`], [`context`]) with its two tools ([`tools`]) and
//! templates ([`template`]). Where the reference is unsafe or loses information, the engine's path does better and the type says so.

pub mod arguments;
pub mod checks;
pub mod compile;
pub mod compose;
pub mod composition;
pub mod context;
pub mod decode;
pub mod document;
pub mod go;
pub mod machine;
pub mod pack;
pub mod schema;
mod speaker;
pub mod spec;
pub mod template;
pub mod tools;
pub mod validate;

pub use compile::compile;
pub use compose::compile_composition;
pub use context::Context;
pub use machine::{StateMachine, TransitionError, TransitionResult};
pub use pack::Pack;
pub use spec::{Spec, State};
pub use validate::{ValidationResult, validate};
