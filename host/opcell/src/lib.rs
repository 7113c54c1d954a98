//! Placeholder.

pub mod http;
pub mod report;
