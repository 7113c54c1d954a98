//! The arguments of `http.fetch`, read strictly.

use http::{
    Method,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use opcell_types::{Value, suggest::hint};
use std::time::Duration;
use url::Url;

/// A request as the plugin asks for it.
#[derive(Debug, Clone)]
pub struct FetchRequest {
    /// `GET` unless said.
    pub method: Method,
    /// Without a fragment and without a user.
    pub url: Url,
    /// The headers that the plugin may set.
    pub headers: HeaderMap,
    /// Sent as it is.
    pub body: Option<Vec<u8>>,
    /// A shorter time than the host's own.
    pub timeout: Option<Duration>,
}

/// Arguments that are not a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("http.fetch: {0}")]
pub struct InvalidRequest(pub String);

/// The headers that the host alone decides: framing, connection handling and where the request goes.
const HOST_HEADERS: [&str; 11] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

const KEYS: [&str; 6] = ["method", "url", "headers", "body", "body_base64", "timeout_ms"];

impl FetchRequest {
    /// JSON Schema of the arguments.
    pub const SCHEMA: &str = r#"{
  "type": "object",
  "properties": {
    "method": {"type": "string", "default": "GET"},
    "url": {"type": "string", "format": "uri"},
    "headers": {"type": "object", "additionalProperties": {"type": "string"}},
    "body": {"type": "string"},
    "body_base64": {"type": "string"},
    "timeout_ms": {"type": "integer", "minimum": 1}
  },
  "required": ["url"],
  "additionalProperties": false
}"#;

    /// Reads `{method?, url, headers?, body? | body_base64?, timeout_ms?}`. An explicit `null` is an absent key.
    ///
    /// # Errors
    /// For anything else, an unknown key and a header that only the host may set included.
    pub fn parse(arguments: &Value) -> Result<Self, InvalidRequest> {
        let invalid = |message: String| InvalidRequest(message);
        let entries = arguments.as_object().ok_or_else(|| invalid("the arguments are not an object".to_owned()))?;
        if let Some(key) = entries.keys().find(|key| !KEYS.contains(&key.as_ref())) {
            let near = hint(key, KEYS);
            return Err(invalid(format!("unknown argument `{key}`; expected one of {}{near}", KEYS.join(", "))));
        }
        let given = |key: &str| entries.get(key).filter(|value| !value.is_nullish());
        let text = |key: &str| match given(key) {
            None => Ok(None),
            Some(value) => value.as_str().map(Some).ok_or_else(|| invalid(format!("`{key}` is not a string"))),
        };
        let method = text("method")?.unwrap_or("GET");
        let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes())
            .ok()
            .filter(|method| *method != Method::CONNECT && *method != Method::TRACE)
            .ok_or_else(|| invalid(format!("`{method}` is not a method")))?;
        let url = parse_url(text("url")?.ok_or_else(|| invalid("`url` is missing".to_owned()))?)?;
        let headers = given("headers").map_or_else(|| Ok(HeaderMap::new()), parse_headers)?;
        let body = match (text("body")?, text("body_base64")?) {
            (Some(_), Some(_)) => return Err(invalid("`body` and `body_base64` exclude each other".to_owned())),
            (Some(text), None) => Some(text.as_bytes().to_vec()),
            (None, Some(text)) => Some(
                base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text)
                    .map_err(|error| invalid(format!("`body_base64`: {error}")))?,
            ),
            (None, None) => None,
        };
        let timeout = match given("timeout_ms") {
            None => None,
            Some(Value::Number(ms)) if ms.as_i64().is_some_and(|ms| ms > 0) => ms.as_u64().map(Duration::from_millis),
            Some(_) => return Err(invalid("`timeout_ms` is not a positive integer".to_owned())),
        };
        Ok(Self { method, url, headers, body, timeout })
    }
}

fn parse_url(text: &str) -> Result<Url, InvalidRequest> {
    let mut url = Url::parse(text).map_err(|error| InvalidRequest(format!("`url`: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(InvalidRequest(format!("`url`: the scheme `{}` is neither http nor https", url.scheme())));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(InvalidRequest("`url` contains user information; credentials are added by the grant".to_owned()));
    }
    url.set_fragment(None);
    Ok(url)
}

/// More than any service reads; a header map panics when it has no room left.
const MAX_HEADERS: usize = 100;

fn parse_headers(value: &Value) -> Result<HeaderMap, InvalidRequest> {
    let entries = value.as_object().ok_or_else(|| InvalidRequest("`headers` is not an object".to_owned()))?;
    if entries.len() > MAX_HEADERS {
        return Err(InvalidRequest(format!("{} headers; a request has at most {MAX_HEADERS}", entries.len())));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in entries {
        let header: HeaderName = name.parse().map_err(|_| InvalidRequest(format!("`{name}` is not a header name")))?;
        if HOST_HEADERS.contains(&header.as_str()) {
            return Err(InvalidRequest(format!("the header `{header}` is set by the host")));
        }
        let value = value
            .as_str()
            .and_then(|text| HeaderValue::from_str(text).ok())
            .ok_or_else(|| InvalidRequest(format!("the header `{header}` is not printable text")))?;
        headers.try_append(header, value).map_err(|_| InvalidRequest("too many headers".to_owned()))?;
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::FetchRequest;
    use opcell_types::Value;

    fn refusal(json: &str) -> String {
        FetchRequest::parse(&Value::from_json(json).unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn more_headers_than_a_map_holds_are_refused_and_do_not_panic() {
        let headers: Vec<String> = (0..30_000).map(|number| format!("\"x-{number}\":\"\"")).collect();
        let request = format!(r#"{{"url":"https://a.com","headers":{{{}}}}}"#, headers.join(","));
        assert_eq!(refusal(&request), "http.fetch: 30000 headers; a request has at most 100");
    }

    #[test]
    fn a_url_is_enough() {
        let request =
            FetchRequest::parse(&Value::from_json(r#"{"url":"https://a.com/x#frag","headers":null}"#).unwrap())
                .unwrap();
        assert_eq!((request.method.as_str(), request.url.as_str()), ("GET", "https://a.com/x"));
    }

    #[test]
    fn everything_else_is_refused_with_what_is_wrong() {
        let table = [
            (r#"[]"#, "the arguments are not an object"),
            (r#"{}"#, "`url` is missing"),
            (r#"{"url":"https://a.com","hedaers":{}}"#, "unknown argument `hedaers`"),
            (r#"{"url":"file:///etc/passwd"}"#, "neither http nor https"),
            (r#"{"url":"https://me:pw@a.com"}"#, "user information"),
            (r#"{"url":"https://a.com","method":"CONNECT"}"#, "`CONNECT` is not a method"),
            (r#"{"url":"https://a.com","method":"A B"}"#, "`A B` is not a method"),
            (r#"{"url":"https://a.com","headers":{"Host":"b.com"}}"#, "the header `host` is set by the host"),
            (r#"{"url":"https://a.com","headers":{"x":"a\r\nb: c"}}"#, "the header `x` is not printable text"),
            (r#"{"url":"https://a.com","body":"a","body_base64":"YQ=="}"#, "exclude each other"),
            (r#"{"url":"https://a.com","timeout":5}"#, "did you mean `timeout_ms`?"),
            (r#"{"url":"https://a.com","timeout_ms":-1}"#, "`timeout_ms` is not a positive integer"),
        ];
        for (json, expected) in table {
            assert!(refusal(json).contains(expected), "{json}: {}", refusal(json));
        }
    }
}
