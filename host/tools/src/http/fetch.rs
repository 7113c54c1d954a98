//! `http.fetch`: one request, its redirects followed and checked hop by hop.

use super::{
    FetchError, FetchLimits, MissingRule,
    address::AddressClass,
    credential::Secret,
    request::FetchRequest,
    rule::{HttpRule, is_private, literal_address},
};
use base64::Engine as _;
use opcell_process::outbound;
use opcell_types::{TouchLog, Value};
use reqwest::{
    Method, StatusCode, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{HeaderMap, HeaderName, HeaderValue, LOCATION},
    redirect,
};
use std::{
    error::Error,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};
use tokio::sync::OnceCell;

/// Hops after the first request; browsers stop at 20, tools at 10.
const MAX_REDIRECTS: usize = 5;

/// Resolves names; replaced in tests, where names must resolve to what the test says.
pub type Lookup =
    Arc<dyn Fn(String) -> futures_util::future::BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// Performs requests for every plugin of a host.
///
/// Clients are made when they are first needed: reading the system's certificates takes longer than most commands.
pub struct HttpClient {
    public: OnceCell<reqwest::Client>,
    private: OnceCell<reqwest::Client>,
    lookup: Lookup,
    limits: FetchLimits,
}

impl std::fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpClient").finish_non_exhaustive()
    }
}

impl HttpClient {
    /// A client that resolves names as the system does.
    #[must_use]
    pub fn new(limits: FetchLimits) -> Self {
        Self::with_lookup(
            limits,
            Arc::new(|name| {
                Box::pin(
                    async move { Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect()) },
                )
            }),
        )
    }

    /// A client that resolves names through `lookup`.
    #[must_use]
    pub fn with_lookup(limits: FetchLimits, lookup: Lookup) -> Self {
        Self { public: OnceCell::new(), private: OnceCell::new(), lookup, limits }
    }

    /// The client for public addresses, or for private ones too.
    pub(crate) async fn client(&self, private: bool) -> Result<&reqwest::Client, FetchError> {
        let cell = if private { &self.private } else { &self.public };
        let resolver = Arc::new(CheckedResolver { lookup: self.lookup.clone(), private });
        let make = || {
            reqwest::Client::builder()
                .dns_resolver(resolver)
                .redirect(redirect::Policy::none())
                .no_proxy()
                .referer(false)
                .user_agent(concat!("opcell/", env!("CARGO_PKG_VERSION")))
                .build()
                .map_err(|error| {
                    format!("cannot create an HTTP client, because the system's certificates cannot be loaded: {error}")
                })
        };
        let made = async {
            let made = tokio::task::spawn_blocking(make).await;
            let made = made.unwrap_or_else(|_| Err("cannot create an HTTP client".to_owned()));
            made.map_err(|message| FetchError::Failed { reason: "http-failed", message })
        };
        cell.get_or_try_init(|| made).await
    }

    /// Performs one `http.fetch` call under some rules. Each hop is noted in `touched` before it is sent.
    ///
    /// `arguments` is `{method?, url, headers?, body?, timeout_ms?}`; the answer is `{status, url, headers, body}` with
    /// the body as text, or `{…, body_base64}` when it is not UTF-8.
    ///
    /// # Errors
    /// See [`FetchError`]. Dropping the future cancels the request.
    pub async fn fetch(&self, rules: &[HttpRule], arguments: &Value, touched: &TouchLog) -> Result<Value, FetchError> {
        let request = FetchRequest::parse(arguments)?;
        let timeout = request.timeout.map_or(self.limits.timeout, |asked| asked.min(self.limits.timeout));
        tokio::time::timeout(timeout, self.follow(rules, request, touched)).await.unwrap_or_else(|_| {
            Err(FetchError::Failed {
                reason: "http-timeout",
                message: format!("no complete response within {} ms", timeout.as_millis()),
            })
        })
    }

    async fn follow(&self, rules: &[HttpRule], request: FetchRequest, touched: &TouchLog) -> Result<Value, FetchError> {
        let FetchRequest { mut method, mut url, mut headers, mut body, .. } = request;
        let mut secrets = Vec::new();
        for _ in 0..=MAX_REDIRECTS {
            let rule = permitted(rules, &method, &url)?;
            let client = self.client(rule.private).await?;
            let mut hop = headers.clone();
            if let Some(credential) = &rule.credential {
                let secret = Secret::read(credential).await?;
                hop.insert(secret.header.clone(), secret.value.clone());
                secrets.push(secret);
            }
            let mut builder = client.request(method.clone(), url.clone()).headers(hop);
            if let Some(body) = &body {
                builder = builder.body(body.clone());
            }
            let sent = body.as_ref().map_or(0, |body| body.len() as u64);
            let origin = url.origin().ascii_serialization();
            let noted = touched.note(|touched| touched.request(method.as_str(), &origin, url.path(), sent));
            let response = outbound(builder.send()).await.map_err(|error| failure(&error, &url, &secrets))?;
            let status = response.status().as_u16();
            touched.note(|touched| touched.response(noted, status, 0));
            let Some(next) = redirect_target(response.status(), response.headers(), &url) else {
                return self
                    .answer(response, &url, &secrets, |received| {
                        touched.note(|touched| touched.response(noted, status, received));
                    })
                    .await;
            };
            let next = next?;
            if next.origin() != url.origin() {
                headers = neutral_headers(&headers);
            }
            if becomes_get(response.status(), &method) {
                method = Method::GET;
                body = None;
                headers.remove(reqwest::header::CONTENT_TYPE);
            }
            url = next;
        }
        Err(FetchError::Failed { reason: "http-redirects", message: format!("more than {MAX_REDIRECTS} redirects") })
    }

    async fn answer(
        &self,
        mut response: reqwest::Response,
        url: &Url,
        secrets: &[Secret],
        received: impl Fn(u64),
    ) -> Result<Value, FetchError> {
        let status = response.status().as_u16();
        let headers = response_headers(response.headers(), secrets);
        let cap = self.limits.response_bytes;
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| failure(&error, url, secrets))? {
            received((bytes.len() + chunk.len()) as u64);
            if (bytes.len() + chunk.len()) as u64 > cap {
                return Err(FetchError::Failed {
                    reason: "http-too-large",
                    message: format!("the response's body is larger than {cap} bytes"),
                });
            }
            bytes.extend_from_slice(&chunk);
        }
        let body = match String::from_utf8(bytes) {
            Ok(text) => ("body", Value::from(Secret::scrub_all(secrets, text))),
            Err(error) => {
                let bytes = Secret::scrub_bytes_all(secrets, error.into_bytes());
                ("body_base64", Value::from(base64::engine::general_purpose::STANDARD.encode(bytes)))
            }
        };
        Ok(Value::object([
            ("status", Value::from(i64::from(status))),
            ("url", Value::from(Secret::scrub_all(secrets, url.to_string()))),
            ("headers", headers),
            body,
        ]))
    }
}

/// The first rule that allows the hop, by name and, for an address written into the URL, by address.
pub(crate) fn permitted<'a>(rules: &'a [HttpRule], method: &Method, url: &Url) -> Result<&'a HttpRule, FetchError> {
    let origin = url.origin().ascii_serialization();
    let Some(rule) = rules.iter().find(|rule| rule.allows(method, url)) else {
        let rule = if rules.is_empty() {
            "there are no http rules".to_owned()
        } else if rules.iter().any(|rule| rule.reaches(url)) {
            format!("the http rules for {origin} do not list the method {method}")
        } else {
            format!("no http rule names {origin}")
        };
        let capability = format!("http {method} {origin}");
        let missing =
            MissingRule { origin, method: Some(method.to_string()), private: url.host_str().is_some_and(is_private) };
        return Err(FetchError::Denied { missing: Some(missing), capability, rule });
    };
    if let Some(address) = literal_address(url) {
        check_address(address, rule.private).map_err(|denied| denied.into_error(url))?;
    }
    Ok(rule)
}

/// An address that a request may not reach.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("{address} is {}", .class.describe())]
struct DeniedAddress {
    address: IpAddr,
    class: AddressClass,
}

impl DeniedAddress {
    fn into_error(self, url: &Url) -> FetchError {
        let origin = url.origin().ascii_serialization();
        let grantable = self.class.permitted(true);
        FetchError::Denied {
            capability: format!("http {origin} at {}", self.address),
            rule: if grantable {
                format!("{self}, but the grant for {origin} does not allow private addresses")
            } else {
                format!("{self}, which no grant allows")
            },
            missing: grantable.then(|| MissingRule { origin: origin.clone(), method: None, private: true }),
        }
    }
}

fn check_address(address: IpAddr, private: bool) -> Result<(), DeniedAddress> {
    let class = AddressClass::of(address);
    if class.permitted(private) { Ok(()) } else { Err(DeniedAddress { address, class }) }
}

/// Resolves a name once and hands over only checked addresses; the connection goes to one of exactly these, so that a
/// second answer of the name server changes nothing.
struct CheckedResolver {
    lookup: Lookup,
    private: bool,
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (lookup, private) = (self.lookup.clone(), self.private);
        Box::pin(async move {
            let addresses = lookup(name.as_str().to_owned()).await?;
            for address in &addresses {
                check_address(*address, private)?;
            }
            if addresses.is_empty() {
                return Err(io::Error::new(io::ErrorKind::NotFound, "the name does not resolve").into());
            }
            let addresses: Addrs = Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

/// Turns a transport error into a denial where our resolver refused, else into a failure that names no secret.
fn failure(error: &reqwest::Error, url: &Url, secrets: &[Secret]) -> FetchError {
    let mut source: Option<&(dyn Error + 'static)> = Some(error);
    let mut innermost = String::new();
    while let Some(current) = source {
        if let Some(denied) = current.downcast_ref::<DeniedAddress>() {
            return denied.into_error(url);
        }
        innermost = current.to_string();
        source = current.source();
    }
    let reason = if error.is_connect() { "http-connect" } else { "http-failed" };
    let message = format!("{}: {innermost}", url.origin().ascii_serialization());
    FetchError::Failed { reason, message: Secret::scrub_all(secrets, message) }
}

/// Returns the target of a redirect; `None` when the response is not one.
fn redirect_target(status: StatusCode, headers: &HeaderMap, url: &Url) -> Option<Result<Url, FetchError>> {
    let redirects = [
        StatusCode::MOVED_PERMANENTLY,
        StatusCode::FOUND,
        StatusCode::SEE_OTHER,
        StatusCode::TEMPORARY_REDIRECT,
        StatusCode::PERMANENT_REDIRECT,
    ];
    if !redirects.contains(&status) {
        return None;
    }
    let location = headers.get(LOCATION)?;
    let refused = |message: &str| FetchError::Failed { reason: "http-redirects", message: message.to_owned() };
    let target = location
        .to_str()
        .ok()
        .and_then(|location| url.join(location).ok())
        .ok_or_else(|| refused("the redirect has no valid location"))
        .and_then(|next| match (url.scheme(), next.scheme()) {
            (_, "https") | ("http", "http") => Ok(next),
            ("https", "http") => Err(refused("a redirect leads from https to http")),
            _ => Err(refused("a redirect leads neither to http nor to https")),
        });
    Some(target)
}

/// As browsers do it: 303 always, 301 and 302 after a POST.
fn becomes_get(status: StatusCode, method: &Method) -> bool {
    match status {
        StatusCode::SEE_OTHER => *method != Method::HEAD,
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => *method == Method::POST,
        _ => false,
    }
}

/// Returns the headers that may follow a redirect to another origin: none that could identify or authorise.
fn neutral_headers(headers: &HeaderMap) -> HeaderMap {
    use reqwest::header::{ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, USER_AGENT};
    let kept: [HeaderName; 4] = [ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, USER_AGENT];
    headers.iter().filter(|(name, _)| kept.contains(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Names in lower case; repeated headers are joined as RFC 9110 says.
fn response_headers(headers: &HeaderMap, secrets: &[Secret]) -> Value {
    let text = |value: &HeaderValue| Secret::scrub_all(secrets, String::from_utf8_lossy(value.as_bytes()).into_owned());
    Value::object(headers.keys().map(|name| {
        let joined = headers.get_all(name).iter().map(text).collect::<Vec<_>>().join(", ");
        (name.as_str().to_owned(), Value::from(joined))
    }))
}

#[cfg(test)]
mod tests;
