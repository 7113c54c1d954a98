//! The GitHub REST API over `http.fetch`.

use crate::repository::Repository;
use opcell_sdk::{Failure, tools};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Everything that RFC 3986 does not reserve stays readable.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What may stand in one path segment or query value.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// One repository's part of the API.
pub struct Api {
    base: String,
}

#[derive(Serialize)]
struct Request<'a> {
    method: &'a str,
    url: &'a str,
    headers: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

/// What `http.fetch` answers, as far as it is needed.
#[derive(Deserialize)]
pub struct Response {
    pub status: u16,
    #[serde(default)]
    headers: Map<String, Value>,
    #[serde(default)]
    pub body: Option<String>,
}

impl Response {
    /// Whether the server says that there is another page.
    pub fn has_next(&self) -> bool {
        let link = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("link"));
        link.is_some_and(|(_, value)| value.to_string().replace('\\', "").contains("rel=\"next\""))
    }

    fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// What GitHub says went wrong.
    pub fn message(&self) -> Option<String> {
        let body: Value = serde_json::from_str(self.body.as_deref()?).ok()?;
        Some(body.get("message")?.as_str()?.to_owned())
    }
}

impl Api {
    /// The API of a repository; `base` is the given root, if any, instead of its host's own.
    pub fn of(base: Option<&str>, repository: &Repository) -> Self {
        let root = base.unwrap_or(&repository.api).trim_end_matches('/');
        Self { base: format!("{root}/repos/{}/{}", encode(&repository.owner), encode(&repository.name)) }
    }

    /// Performs a request below the repository; the path is encoded already.
    pub fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Response, Failure> {
        let url = format!("{}{path}", self.base);
        let mut headers = json!({
            "accept": "application/vnd.github+json",
            "x-github-api-version": "2022-11-28",
            "user-agent": concat!("opcell-github/", env!("CARGO_PKG_VERSION")),
        });
        if let (Some(_), Value::Object(headers)) = (body, &mut headers) {
            headers.insert("content-type".to_owned(), "application/json".into());
        }
        let request = Request { method, url: &url, headers, body: body.map(Value::to_string) };
        Ok(tools::call("http.fetch", &request)?)
    }

    /// The failure of a request that the server refused.
    pub fn refused(&self, method: &str, path: &str, response: &Response) -> Failure {
        let said = response.message().unwrap_or_else(|| "no message".to_owned());
        let message = format!("{method} {}{path} answered {}: {said}", self.base, response.status);
        Failure::new("github/http-error", message).with_details(json!({ "status": response.status, "message": said }))
    }

    /// Reads JSON.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<(T, Response), Failure> {
        let response = self.send("GET", path, None)?;
        if !response.is_success() {
            return Err(self.refused("GET", path, &response));
        }
        let parsed = serde_json::from_str(response.body.as_deref().unwrap_or_default()).map_err(|error| {
            Failure::new(
                "github/malformed-response",
                format!("GET {}{path} answered something unexpected: {error}", self.base),
            )
        })?;
        Ok((parsed, response))
    }

    /// Sends JSON for its effect.
    pub fn post(&self, path: &str, body: &Value) -> Result<(), Failure> {
        let response = self.send("POST", path, Some(body))?;
        if response.is_success() { Ok(()) } else { Err(self.refused("POST", path, &response)) }
    }

    /// Deletes; `absent` is what the server says when there is nothing to delete, which is as good.
    pub fn delete(&self, path: &str, absent: &str) -> Result<(), Failure> {
        let response = self.send("DELETE", path, None)?;
        let was_absent = response.status == 404 && response.message().as_deref() == Some(absent);
        if response.is_success() || was_absent { Ok(()) } else { Err(self.refused("DELETE", path, &response)) }
    }
}
