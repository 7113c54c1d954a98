//! The HTTP API of Opcell, its page, and operations as MCP tools.
//!
//! **Owns** what a surface over a network needs: addresses, TLS, tokens, tenants, limits per tenant, problems as data,
//! event streams. What a run is and how it is driven, a plugin's grants, documents: all that is [`opcell`]'s, and this
//! crate only asks for it.
//!
//! **Must not know** a terminal, a project file, or how a cell is limited.
//!
//! **In**: tenants, each with its [`opcell::Host`] ([`tenant`]), an address, perhaps TLS and tokens ([`serve`]).
//! **Out**: responses, in the order in which a request meets the modules: [`access`], then [`api`], [`mcp`] or the
//! page, the run's [`feed`], and a [`problem`] where something is wrong.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test makes what it looks at"))]
#![allow(clippy::result_large_err, reason = "a problem is made once per refused request, and then written")]

pub mod access;
mod answers;
pub mod api;
mod audit;
mod certificate;
mod content;
pub mod export;
pub mod feed;
mod genai;
pub mod mcp;
pub mod metrics;
mod otlp;
mod page;
mod peer;
pub mod probes;
pub mod problem;
mod schedule;
pub mod serve;
pub mod spans;
mod stall;
pub mod telemetry;
pub mod tenant;
mod threads;
mod view;

pub use content::{CAPTURE_VARIABLE, is_captured};
pub use metrics::Meter;
pub use otlp::Collector;
pub use probes::Probes;
pub use serve::{ServeError, Serving, Settings, Tls};
pub use tenant::{Project, Tenant, Tenants};
