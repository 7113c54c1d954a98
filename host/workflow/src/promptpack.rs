//! PromptPack: packs of prompts whose workflow is an event-driven state machine (RFC 0005, 0007, 0009, 0010).
//!
//! A pack is read ([`crate::json`], [`mod@pack`]), checked against the published schema ([`schema`]) and by the
//! reference's own rules ([`mod@validate`], [`composition`]) and ours ([`mod@checks`]), and compiled to the execution
//! model ([`mod@compile`], [`compose`], with the schemas of [`contracts`] and the [`agents`] that call one another).
//! Prompts are rendered by [`template`].

pub mod agents;
pub mod arguments;
pub mod checks;
pub mod compile;
pub mod compose;
pub mod composition;
pub mod contracts;
pub mod decode;
mod governance;
mod governed;
mod media;
pub mod pack;
mod rules;
pub mod schema;
mod skills;
mod speaker;
pub mod spec;
pub mod template;
pub mod validate;
mod weight;

pub use compile::{compile, compile_prompt, compile_with};
pub use compose::compile_composition;
pub use contracts::Contracts;
pub use pack::Pack;
pub use spec::{Spec, State};
pub use validate::{ValidationResult, validate};
