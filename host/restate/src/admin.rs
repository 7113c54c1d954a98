//! The requests to a Restate server over HTTP.

use reqwest::{Client, Response, StatusCode, redirect::Policy};
use serde_json::{Value as Json, json};
use std::time::Duration;
use url::Url;

/// The time that the server may take to answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The most that is read of an answer.
const MAX_ANSWER: usize = 1 << 20;

/// A server's two addresses, and a client for them.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    client: Client,
    admin: Url,
    ingress: Url,
}

/// The server's answer to a call that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Accepted {
    /// It will be made.
    Now,
    /// The same one was accepted before.
    Before,
    /// The server answers, and does not take this one; why.
    Refused(String),
}

impl Server {
    pub(crate) fn new(admin: Url, ingress: Url) -> Result<Self, String> {
        let client = Client::builder().timeout(REQUEST_TIMEOUT).redirect(Policy::none()).build();
        Ok(Self { client: client.map_err(|error| error.to_string())?, admin, ingress })
    }

    /// Tells the server where the workers are. Again changes nothing.
    pub(crate) async fn register(&self, workers: &Url) -> Result<(), String> {
        let body = json!({"uri": workers.as_str(), "force": true}).to_string();
        let place = at(&self.admin, &["deployments"]);
        let request = self.client.post(place.clone()).header("content-type", "application/json");
        let (status, answer) = answered(&place, request.body(body).send().await).await?;
        match status.is_success() {
            true => Ok(()),
            false => Err(format!("it does not take the workers at {workers}: {}", said(status, &answer))),
        }
    }

    /// Asks for a turn of a run; the same key again asks for nothing more.
    ///
    /// # Errors
    /// When the server does not answer, or fails.
    pub(crate) async fn offer(&self, object: &str, run: &str, key: &str) -> Result<Accepted, String> {
        let place = at(&self.ingress, &[object, run, "turn", "send"]);
        let request = self.client.post(place.clone()).header("idempotency-key", key);
        let (status, answer) = answered(&place, request.send().await).await?;
        // The server that does not know the workers is told of them again.
        if status.is_client_error() && status != StatusCode::NOT_FOUND {
            return Ok(Accepted::Refused(said(status, &answer)));
        }
        if !status.is_success() {
            return Err(format!("the Restate server does not take a turn: {}", said(status, &answer)));
        }
        let accepted = answer.get("status").and_then(Json::as_str);
        Ok(if accepted == Some("PreviouslyAccepted") { Accepted::Before } else { Accepted::Now })
    }
}

/// The address of a resource, each part escaped.
fn at(base: &Url, parts: &[&str]) -> Url {
    let mut url = base.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(parts);
    }
    url
}

async fn answered(place: &Url, sent: reqwest::Result<Response>) -> Result<(StatusCode, Json), String> {
    let unreachable = |error: reqwest::Error| {
        // Not the whole address, which may hold a password; of what went wrong, the last that is known.
        let mut why: &dyn std::error::Error = &error.without_url();
        while let Some(source) = why.source() {
            why = source;
        }
        let host = place.host_str().unwrap_or_default();
        let port = place.port_or_known_default().unwrap_or_default();
        format!("the Restate server at {host}:{port} does not answer: {why}")
    };
    let mut response = sent.map_err(unreachable)?;
    let mut text = Vec::new();
    while let Some(part) = response.chunk().await.map_err(unreachable)? {
        if text.len() + part.len() > MAX_ANSWER {
            return Err(format!("the Restate server answers with more than {MAX_ANSWER} bytes"));
        }
        text.extend_from_slice(&part);
    }
    Ok((response.status(), serde_json::from_slice(&text).unwrap_or(Json::Null)))
}

fn said(status: StatusCode, answer: &Json) -> String {
    let message = answer.get("message").and_then(Json::as_str).unwrap_or_default();
    opcell_types::text::printable(&format!("{status} {message}"), 1_000).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_part_of_an_address() {
        let base: Url = "http://127.0.0.1:8080/proxy/".parse().unwrap();
        assert_eq!(at(&base, &["O", "a/b?c", "turn"]).as_str(), "http://127.0.0.1:8080/proxy/O/a%2Fb%3Fc/turn");
    }
}
