//! Model conversations: what a model is told, which model is asked, and what it may call.
//!
//! Owns prompt assembly, skills, model providers (a scripted one among them) and host tools. It must not know workflows, runs,
//! journals or plugins: the engine opens a session from what a step declares, then asks for single model rounds and single tool
//! calls; plugins reach it only as injected tools.

mod confined;

mod suggest;

#[cfg(test)]
mod testing;

pub mod context;

pub mod skills;

pub mod prompt;

pub mod models;

pub mod tools;

pub mod sessions;

pub use sessions::HostSessions;
