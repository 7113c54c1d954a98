//! Stands where the client would be, in a program that is built without one.

use super::{FetchError, FetchLimits, HttpRule};
use opcell_types::{TouchLog, Value};

/// Performs no requests.
pub struct HttpClient;

impl std::fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpClient").finish_non_exhaustive()
    }
}

impl HttpClient {
    /// A client that refuses every request.
    #[must_use]
    pub fn new(_limits: FetchLimits) -> Self {
        Self
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub async fn fetch(
        &self,
        _rules: &[HttpRule],
        _arguments: &Value,
        _touched: &TouchLog,
    ) -> Result<Value, FetchError> {
        Err(FetchError::Failed {
            reason: "not-built-in",
            message: "this program is built without HTTP (feature `http`)".to_owned(),
        })
    }
}
