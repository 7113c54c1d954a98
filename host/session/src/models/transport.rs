//! HTTP to providers: one request, and its answer within a bound.

use super::answer::{Answer, AnswerReader, Fault, error_in, foreign_text, words_of};
use super::coding::Coding;
use super::protocols::Outgoing;
use jiff::{Timestamp, tz::TimeZone};
use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
};
use reqwest::{Client, Response};
use serde_json::Value as Json;
use std::time::{Duration, SystemTime};
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

/// Time to reach a provider at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The most that is read of a response that is an error.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// Seconds from which on a wait is a time since 1970 instead: 2001.
const FIRST_DATE_SECONDS: f64 = 1e9;

/// The content type of Bedrock's own streams.
const AMAZON_EVENTS: &str = "application/vnd.amazon.eventstream";

/// A client for providers. Blocks: it reads the system's certificates.
pub(super) fn client() -> Result<Client, Fault> {
    // A redirect would carry the key, which not every provider sends in the header that HTTP clients protect,
    // elsewhere.
    Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| Fault::unavailable(format!("cannot create an HTTP client: {}", chain(&error))))
}

/// Sends a request, with headers that the operator or the host adds: they replace those of the protocol.
pub(super) async fn send(client: &Client, outgoing: &Outgoing, extra: &[(String, String)]) -> Result<Response, Fault> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    let own = outgoing.headers.iter().map(|(name, value)| (*name, value.as_str()));
    for (name, value) in own.chain(extra.iter().map(|(name, value)| (name.as_str(), value.as_str()))) {
        let unusable = |what: &str| Fault::refused(format!("the header `{name}` {what}"));
        let header = HeaderName::try_from(name).map_err(|_| unusable("has a name that HTTP does not allow"))?;
        let mut value = HeaderValue::try_from(value).map_err(|_| unusable("has a value that HTTP does not allow"))?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    let body = serde_json::to_vec(&outgoing.body).map_err(|error| Fault::refused(error.to_string()))?;
    let request = client.post(outgoing.url.clone()).headers(headers).body(body).send();
    // The client logs what it sends, keys among it.
    let sent = opcell_process::outbound(request.with_subscriber(NoSubscriber::new())).await;
    sent.map_err(|error| Fault::unavailable(chain(&error)))
}

/// Reads a response while it comes.
pub(super) async fn read(mut response: Response, mut reader: AnswerReader<'_>) -> Result<Answer, Fault> {
    let status = response.status();
    if !status.is_success() {
        return Err(refusal(response).await);
    }
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.to_ascii_lowercase().starts_with(AMAZON_EVENTS) {
        return Err(Fault::foreign_stream());
    }
    let mut coding = coding_of(&response)?;
    while let Some(bytes) = response.chunk().await.map_err(|error| Fault::unavailable(chain(&error)))? {
        reader.push(&coding.read(&bytes)?)?;
        if reader.is_over() {
            return reader.end();
        }
    }
    coding.end()?;
    reader.end()
}

/// The coding of a response's body.
fn coding_of(response: &Response) -> Result<Coding, Fault> {
    // Each of several headers counts, as if they were one.
    let named = response.headers().get_all(CONTENT_ENCODING).iter();
    let named: Vec<_> = named.map(|name| String::from_utf8_lossy(name.as_bytes())).collect();
    Coding::of(Some(&named.join(",")))
}

/// A response that is an error, in its own words.
async fn refusal(mut response: Response) -> Fault {
    let status = response.status().as_u16();
    let wait = retry_after(response.headers());
    let target = response.headers().get(LOCATION).map(|target| String::from_utf8_lossy(target.as_bytes()).into_owned());
    let mut coding = coding_of(&response).unwrap_or(Coding::None);
    let mut body = Vec::new();
    while body.len() < MAX_ERROR_BYTES
        && let Ok(Some(bytes)) = response.chunk().await
        && let Ok(bytes) = coding.read(&bytes)
    {
        body.extend_from_slice(bytes.get(..MAX_ERROR_BYTES - body.len()).unwrap_or(&bytes));
    }
    let document = super::answer::parse(&body).ok().and_then(|document| match document {
        // Google's, of a request for a stream.
        Json::Array(errors) => errors.into_iter().next(),
        document => Some(document),
    });
    let known = document.as_ref().and_then(|document| error_in(document, None, false));
    // The body says more than the status: another model may have a larger context, the same one may make no slip again,
    // and an empty account is not a rate.
    let is_finer = |known: &Fault| match known.reason {
        "context-full" | "answer-refused" | "unauthorized" => (400..500).contains(&status),
        "malformed-reply" => true,
        "request-refused" => status == 429,
        _ => false,
    };
    let wait = wait.or_else(|| known.as_ref().and_then(|known| known.wait));
    if let Some(finer) = known.filter(is_finer) {
        return Fault { status: Some(status), wait, ..finer };
    }
    let text = match foreign_text(&body) {
        Some(charset) => format!("its words are in {charset}, which is not read").into(),
        None => String::from_utf8_lossy(&body),
    };
    let words = document.as_ref().and_then(words_of).unwrap_or_else(|| text.trim().to_owned());
    let said = match target {
        Some(target) if (300..400).contains(&status) => {
            format!("it redirects to {target}, which is not followed; set `base-url` to where it is")
        }
        _ => words,
    };
    Fault { wait, ..Fault::of_status(status, said) }
}

/// An error of the HTTP client with its causes.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// `retry-after-ms`, or `Retry-After` in seconds or as a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(millis) = text("retry-after-ms").and_then(|text| text.trim().parse().ok()) {
        return Some(Duration::from_millis(millis));
    }
    let after = text(RETRY_AFTER.as_str())?.trim();
    if let Some(wait) = seconds(after) {
        return Some(wait);
    }
    let now = jiff::Timestamp::try_from(SystemTime::now()).ok()?;
    let date = date(after)?;
    Duration::try_from(date.duration_since(now)).ok().or(Some(Duration::ZERO))
}

/// A date as HTTP has it now and had it once, or as APIs write it.
fn date(text: &str) -> Option<Timestamp> {
    const OLD: [&str; 2] = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
    let current = jiff::fmt::rfc2822::parse(text).ok().map(|date| date.timestamp()).or_else(|| text.parse().ok());
    let old = |format: &&str| jiff::civil::DateTime::strptime(format, text).ok()?.to_zoned(TimeZone::UTC).ok();
    current.or_else(|| OLD.iter().find_map(old).map(|date| date.timestamp()))
}

/// The time in a text of seconds, with or without their unit.
fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.strip_suffix('s').unwrap_or(text).trim().parse().ok()?;
    let seconds = Some(seconds).filter(|seconds| seconds.is_finite() && *seconds >= 0.0)?;
    // Some send the second itself, since 1970.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let asked = Duration::try_from_secs_f64(seconds).ok()?;
    let is_date = seconds > FIRST_DATE_SECONDS;
    Some(if is_date { asked.saturating_sub(now) } else { asked })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_read_in_seconds_and_from_every_form_of_a_date() {
        let of = |value: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_str(value).ok()?)]);
            retry_after(&headers)
        };
        assert_eq!(of("2.5"), Some(Duration::from_millis(2500)));
        assert_eq!(of("90s"), Some(Duration::from_secs(90)));
        let past = ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"];
        for past in past.into_iter().chain(["1994-11-06T08:49:37Z", "1100000000"]) {
            assert_eq!(of(past), Some(Duration::ZERO), "{past}");
        }
        let far = ["Sat, 06 Nov 2088 08:49:37 GMT", "2088-11-06T08:49:37Z", "3751000000", "Sat Nov  6 08:49:37 2088"];
        for far in far {
            assert!(of(far).is_some_and(|wait| wait > Duration::from_secs(1 << 28)), "{far}");
        }
        for none in ["soon", "-5", "", "NaN"] {
            assert_eq!(of(none), None, "{none}");
        }
    }
}
