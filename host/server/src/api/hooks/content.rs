//! Bodies of webhooks as senders write them, and the event that a request is about.

use crate::problem::Problem;
use axum::http::{HeaderMap, StatusCode, header};
use opcell::triggers::{EventName, Signature};
use opcell_schema::json::repaired;
use opcell_types::{Value, value::with_exact_integers};

/// Codings of a body that is not read.
const CODINGS: [&str; 7] = ["br", "compress", "deflate", "gzip", "x-compress", "x-gzip", "zstd"];

/// Fields of a form.
const MAX_FIELDS: usize = 1_000;

/// The body as a value: JSON, or a form. Of a form with `payload`, as GitHub sends it by default, the JSON in that
/// field; of any other, its fields as texts, and those that come several times as lists of them.
pub(super) fn document(headers: &HeaderMap, body: &[u8]) -> Result<Value, Problem> {
    let header = |name: header::HeaderName| {
        let text = headers.get(name).and_then(|text| text.to_str().ok()).unwrap_or_default();
        text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    };
    let unsupported = |detail: String| Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid-body", detail);
    let (kind, coding) = (header(header::CONTENT_TYPE), header(header::CONTENT_ENCODING));
    // Senders also write the character set there.
    if CODINGS.contains(&coding.as_str()) {
        return Err(unsupported(format!("the body is compressed (`{coding}`); send it as it is")));
    }
    if kind.starts_with("multipart/") {
        return Err(unsupported("the body is a form of several parts; send JSON, or a form of fields".to_owned()));
    }
    let text = std::str::from_utf8(body).map_err(|_| Problem::bad_request("invalid-body", "the body is not UTF-8"))?;
    if kind != "application/x-www-form-urlencoded" {
        return json(text, "the body");
    }
    let mut fields: Vec<(String, Vec<Value>)> = Vec::new();
    for (count, (key, value)) in url::form_urlencoded::parse(text.as_bytes()).enumerate() {
        if key == "payload" {
            return json(&value, "the form's `payload`");
        }
        if count == MAX_FIELDS {
            let detail = format!("the form has more than {MAX_FIELDS} fields");
            return Err(Problem::bad_request("invalid-body", detail));
        }
        let value = Value::from(value.as_ref());
        match fields.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => fields.push((key.into_owned(), vec![value])),
        }
    }
    // A body of JSON that was labelled as a form is one field with all of it as its name.
    if text.trim_start().starts_with(['{', '[']) {
        return json(text, "the body");
    }
    // A field that comes twice has both of its values.
    let value = |mut values: Vec<Value>| match values.len() {
        1 => values.pop().unwrap_or_default(),
        _ => Value::from(values),
    };
    Ok(Value::object(fields.into_iter().map(|(key, values)| (key, value(values)))))
}

fn json(text: &str, what: &str) -> Result<Value, Problem> {
    // Whoever sends it may have longer integers: they arrive as texts of their digits.
    let exact = with_exact_integers(text.trim_start_matches('\u{feff}').as_bytes());
    // Senders cut texts between the halves of a character.
    let read = opcell_schema::json::from_slice(&exact);
    let read = read.or_else(|error| opcell_schema::json::from_slice(repaired(&exact).as_bytes()).map_err(|_| error));
    read.map_err(|error| {
        let why = match (error.is_eof(), text.trim().is_empty()) {
            (true, true) => "is empty".to_owned(),
            (true, false) => "ends too early to be JSON".to_owned(),
            (false, _) => format!("is not JSON: {error}"),
        };
        Problem::bad_request("invalid-body", format!("{what} {why}"))
            .remedy("choose `application/json` as the content type in the sender's settings")
    })
}

/// The event that a request is about.
pub(super) struct Event {
    /// Its name; empty where the request has none.
    name: String,
    is_ping: bool,
}

impl Event {
    /// Returns the event: of GitHub, `x-github-event` with the body's `action`; of Standard Webhooks, the body's `type`.
    pub(super) fn of(signature: Signature, headers: &HeaderMap, body: &Value) -> Self {
        let text = |key: &str| body.get(key).and_then(Value::as_str);
        match signature {
            Signature::Github => {
                let event = headers.get("x-github-event").and_then(|event| event.to_str().ok()).unwrap_or_default();
                let name = match text("action").filter(|_| !event.is_empty()) {
                    Some(action) => format!("{event}.{action}"),
                    None => event.to_owned(),
                };
                Self { is_ping: event == "ping", name }
            }
            _ => Self { name: text("type").unwrap_or_default().to_owned(), is_ping: false },
        }
    }

    /// The reason why the event sets nothing off; none if it does.
    pub(super) fn ignored(&self, on: &[EventName]) -> Option<String> {
        if on.iter().any(|wanted| wanted.matches(&self.name)) || (on.is_empty() && !self.is_ping) {
            return None;
        }
        let name = super::super::shown(&self.name);
        Some(match (self.is_ping, name.is_empty()) {
            (true, _) => "a ping: the webhook is set up, and this sets nothing off".to_owned(),
            (false, true) => "the request names no event, and the trigger takes certain ones (`on`)".to_owned(),
            (false, false) => format!("the trigger does not take the event `{name}` (`on`)"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn read(kind: &str, body: &str) -> Result<String, String> {
        let value = document(&headers(&[("content-type", kind)]), body.as_bytes());
        value.map(|value| value.to_json()).map_err(|problem| problem.detail)
    }

    const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";

    #[test]
    fn forms_and_json_are_read_whatever_the_sender_calls_them() {
        assert_eq!(read(FORM, "payload=%7B%22n%22%3A+1%7D").unwrap(), r#"{"n":1}"#);
        assert_eq!(read("", r#"{"n": 99999999999999999999}"#).unwrap(), r#"{"n":"99999999999999999999"}"#);
        assert_eq!(read(FORM, "a=1&b=x+y").unwrap(), r#"{"a":"1","b":"x y"}"#);
        assert_eq!(read(FORM, "a=1&b=2&a=3").unwrap(), r#"{"a":["1","3"],"b":"2"}"#);
        assert_eq!(read(FORM, r#"{"n": 1}"#).unwrap(), r#"{"n":1}"#);
        assert!(read("multipart/form-data; boundary=x", "--x").unwrap_err().contains("several parts"));
        let gzip = document(&headers(&[("content-encoding", "gzip")]), b"\x1f\x8b").unwrap_err();
        assert!(gzip.status == 415 && gzip.detail.contains("compressed"));
        for kind in ["application/json", "text/plain", "", "application/vnd.github+json"] {
            assert_eq!(read(kind, "\u{feff}{\"n\": 1}").unwrap(), r#"{"n":1}"#, "{kind}");
        }
        assert!(read(FORM, "payload=oops").unwrap_err().contains("the form's `payload` is not JSON"));
        assert!(read("", " ").unwrap_err().contains("the body is empty"));
        assert!(read(FORM, "payload={").unwrap_err().contains("the form's `payload` ends too early to be JSON"));
        assert_eq!(read("", r#"{"title":"cut \ud83d"}"#).unwrap(), "{\"title\":\"cut \u{fffd}\"}");
        assert!(read("", "payload=%7B%7D").unwrap_err().contains("the body is not JSON"));
        assert!(read(FORM, &"a=1&".repeat(MAX_FIELDS + 1)).unwrap_err().contains("fields"));
    }

    #[test]
    fn only_events_that_a_trigger_names_count() {
        let on = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect::<Vec<EventName>>();
        let body = Value::from_json(r#"{"action":"opened","type":"user.created"}"#).unwrap();
        let issues = Event::of(Signature::Github, &headers(&[("x-github-event", "issues")]), &body);
        assert_eq!(issues.name, "issues.opened");
        for taken in [&[] as &[&str], &["issues"], &["push", "issues.opened"], &["*"]] {
            assert_eq!(issues.ignored(&on(taken)), None, "{taken:?}");
        }
        for other in [&["issues.closed"] as &[&str], &["issue"], &["push"]] {
            assert!(issues.ignored(&on(other)).unwrap().contains("`issues.opened`"), "{other:?}");
        }
        let standard = Event::of(Signature::Standard, &headers(&[("x-github-event", "ping")]), &body);
        assert_eq!((standard.name.as_str(), standard.ignored(&[])), ("user.created", None));
        assert!(standard.ignored(&on(&["user.deleted"])).is_some());
        let ping = Event::of(Signature::Github, &headers(&[("x-github-event", "ping")]), &Value::Null);
        assert!(ping.ignored(&[]).unwrap().contains("ping"));
        assert!(ping.ignored(&on(&["push"])).is_some());
        assert_eq!(ping.ignored(&on(&["ping"])), None, "a trigger may ask for it");
        let unnamed = Event::of(Signature::Github, &headers(&[]), &body);
        assert_eq!(unnamed.ignored(&[]), None, "other senders sign as GitHub does");
        assert!(unnamed.ignored(&on(&["issues"])).is_some());
    }
}
