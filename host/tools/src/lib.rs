//! The host's own tools: what the host does for plugins, steps and models outside of any cell.
//!
//! **Owns** allow-listed HTTP requests ([`http`]) and tools of MCP servers ([`mcp`]): what may be reached, how it is
//! bounded, what is never shown (credentials).
//!
//! **Must not know** who calls: the facade makes the engine's `Tool` of a client and the rules of whoever calls it. It
//! names no command and no configuration file.
//!
//! **In**: a request or a call as data, and the rules of the caller. **Out**: data, or a closed error.

#![warn(missing_debug_implementations)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test makes what it looks at"))]

pub mod http;
pub mod mcp;
