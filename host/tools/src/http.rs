//! The host tool `http.fetch`: allow-listed requests on behalf of plugins.
//!
//! A plugin hands over a request as data. The host checks method, scheme, host and port against the plugin's grant,
//! resolves the name itself, checks *every* address, connects to exactly the checked addresses, adds the grant's
//! credential, and repeats all of it for each redirect. The plugin never sees a credential, and no proxy or cookie
//! setting of the host's environment applies.

pub mod address;
pub mod credential;
mod error;
#[cfg(feature = "http")]
pub mod fetch;
pub mod request;
pub mod rule;
#[cfg(not(feature = "http"))]
mod unavailable;

pub use error::{FetchError, FetchLimits, MissingRule};
#[cfg(feature = "http")]
pub use fetch::HttpClient;
/// The types of rules.
pub use http::{Method, header::HeaderName};
pub use rule::{Credential, HttpRule, OriginPattern, SecretSource};
#[cfg(not(feature = "http"))]
pub use unavailable::HttpClient;
