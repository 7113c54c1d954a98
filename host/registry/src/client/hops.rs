//! Requests, hop by hop: which addresses they reach, what they carry, and how much of an answer is read.

use super::{
    Client, RegistryError,
    auth::{self, Challenge},
};
use crate::Reference;
use opcell_tools::http::{address::AddressClass, rule::literal_address};
use opcell_types::text::printable;
use reqwest::{
    Method, Response, StatusCode, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION, WWW_AUTHENTICATE},
    redirect,
};
use std::{
    error::Error,
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

const MAX_REDIRECTS: usize = 5;
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// The time for which a registry may be silent.
const SILENCE: Duration = Duration::from_secs(30);
const MAX_TOKEN: u64 = 64 << 10;
const MAX_MESSAGE: u64 = 4 << 10;

/// The addresses that a request may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// To the host that a person named, which is this machine.
    NamedLoopback,
    /// To the host that a person named.
    Named,
    /// To where the registry leads.
    Elsewhere,
}

impl Reach {
    fn permits(self, class: AddressClass) -> bool {
        match class {
            AddressClass::Public => true,
            AddressClass::Private => self != Self::Elsewhere,
            AddressClass::Loopback => self == Self::NamedLoopback,
            AddressClass::LinkLocal | AddressClass::Metadata | AddressClass::Reserved => false,
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{address} is {}", .class.describe())]
struct DeniedAddress {
    address: IpAddr,
    class: AddressClass,
}

fn check(address: IpAddr, reach: Reach) -> Result<(), DeniedAddress> {
    let class = AddressClass::of(address);
    if reach.permits(class) { Ok(()) } else { Err(DeniedAddress { address, class }) }
}

/// Resolves a name once and hands over only checked addresses.
struct Resolver(Reach);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.0;
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str().to_owned(), 0)).await?.collect();
            for address in &found {
                check(address.ip(), reach)?;
            }
            if found.is_empty() {
                return Err(io::Error::new(io::ErrorKind::NotFound, "the name does not resolve").into());
            }
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}

/// The body of a request.
#[derive(Clone, Copy)]
pub(super) enum Body<'a> {
    None,
    Accept(&'a str),
    Bytes(&'a str, &'a [u8]),
}

/// Requests to one registry about one name.
pub(super) struct Connection<'a> {
    client: &'a Client,
    base: Url,
    repository: String,
    /// The host with its port, as the person wrote it.
    host: String,
    named: Reach,
    pushes: bool,
    named_client: OnceLock<reqwest::Client>,
    other_client: OnceLock<reqwest::Client>,
    authorization: Mutex<Option<HeaderValue>>,
}

impl<'a> Connection<'a> {
    pub(super) async fn open(client: &'a Client, reference: &Reference) -> Result<Self, RegistryError> {
        Self::begin(client, reference, false).await
    }

    pub(super) async fn open_for_pushing(client: &'a Client, reference: &Reference) -> Result<Self, RegistryError> {
        Self::begin(client, reference, true).await
    }

    async fn begin(client: &'a Client, reference: &Reference, pushes: bool) -> Result<Self, RegistryError> {
        let at = |scheme: &str| {
            let base = Url::parse(&format!("{scheme}://{}/v2/", reference.host()));
            base.map_err(|error| RegistryError::Connect { host: reference.host().to_owned(), why: error.to_string() })
        };
        let named = if reference.names_loopback() { Reach::NamedLoopback } else { Reach::Named };
        let mut connection = Self {
            client,
            base: at("https")?,
            repository: reference.repository().to_owned(),
            host: reference.host().to_owned(),
            named,
            pushes,
            named_client: OnceLock::new(),
            other_client: OnceLock::new(),
            authorization: Mutex::default(),
        };
        // On this machine registries often have no certificate. Nothing secret is in this question.
        if named == Reach::NamedLoopback {
            let plain = at("http")?;
            let protected = std::mem::replace(&mut connection.base, plain.clone());
            let answer = connection.client_for(&plain)?.get(plain).send().await;
            if !answer.is_ok_and(|answer| speaks_without_tls(answer.status())) {
                connection.base = protected;
            }
        }
        Ok(connection)
    }

    /// For reading one file from a URL that a person named.
    pub(super) fn to(client: &'a Client, url: &str) -> Result<(Self, Url), RegistryError> {
        let wrong = |why: &str| RegistryError::Shape { what: format!("{}: {why}", printable(url, 200)) };
        let base = Url::parse(url).map_err(|error| wrong(&error.to_string()))?;
        let host = base.host_str().ok_or_else(|| wrong("it names no host"))?.to_owned();
        let bare = host.trim_matches(['[', ']']);
        let loopback = bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        if base.scheme() != "https" && !(base.scheme() == "http" && loopback) {
            return Err(wrong("expected an https:// address"));
        }
        let connection = Self {
            client,
            repository: String::new(),
            named: if loopback { Reach::NamedLoopback } else { Reach::Named },
            pushes: false,
            named_client: OnceLock::new(),
            other_client: OnceLock::new(),
            // No credentials: an index is public, and its host is not a registry.
            authorization: Mutex::new(None),
            host,
            base: base.clone(),
        };
        Ok((connection, base))
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn repository(&self) -> &str {
        &self.repository
    }

    pub(super) fn url(&self, path: &str) -> Result<Url, RegistryError> {
        let url = self.base.join(&format!("{}/{path}", self.repository));
        url.map_err(|error| RegistryError::Shape { what: format!("{}: {error}", printable(path, 200)) })
    }

    fn is_named(&self, url: &Url) -> bool {
        url.origin() == self.base.origin()
    }

    fn client_for(&self, url: &Url) -> Result<&reqwest::Client, RegistryError> {
        // On this machine other ports are other services, and a registry there has no say in what is sent to them.
        let is_same_host = self.named == Reach::Named && url.host() == self.base.host();
        let reach = if self.is_named(url) || is_same_host { self.named } else { Reach::Elsewhere };
        let host = || url.host_str().unwrap_or_default().to_owned();
        if let Some(address) = literal_address(url) {
            check(address, reach).map_err(|denied| RegistryError::Denied { host: host(), why: denied.to_string() })?;
        }
        let cell = if reach == Reach::Elsewhere { &self.other_client } else { &self.named_client };
        if let Some(client) = cell.get() {
            return Ok(client);
        }
        let mut builder = reqwest::Client::builder()
            .dns_resolver(Arc::new(Resolver(reach)))
            .redirect(redirect::Policy::none())
            .no_proxy()
            .referer(false)
            .connect_timeout(CONNECT_TIME)
            .read_timeout(SILENCE)
            .user_agent(concat!("opcell/", env!("CARGO_PKG_VERSION")));
        let failed = |error: reqwest::Error| RegistryError::Connect { host: host(), why: innermost(&error) };
        for pem in &self.client.roots {
            builder = builder.add_root_certificate(reqwest::Certificate::from_pem(pem).map_err(failed)?);
        }
        let client = builder.build().map_err(failed)?;
        Ok(cell.get_or_init(|| client))
    }

    /// Reads a resource; nothing where there is none.
    pub(super) async fn get(&self, url: &Url, accept: &str, most: u64) -> Result<Option<Vec<u8>>, RegistryError> {
        let answer = self.send(Method::GET, url, Body::Accept(accept)).await?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let answer = self.expect(answer, &[StatusCode::OK]).await?;
        self.bytes(answer, most).await.map(Some)
    }

    async fn bytes(&self, mut answer: Response, most: u64) -> Result<Vec<u8>, RegistryError> {
        let too_large = |url: &Url| RegistryError::TooLarge { what: url.to_string(), most };
        if answer.content_length().is_some_and(|length| length > most) {
            return Err(too_large(answer.url()));
        }
        let mut bytes = Vec::new();
        loop {
            let chunk = answer.chunk().await.map_err(|error| self.failure(&error, answer.url()))?;
            let Some(chunk) = chunk else { return Ok(bytes) };
            if (bytes.len() + chunk.len()) as u64 > most {
                return Err(too_large(answer.url()));
            }
            bytes.extend_from_slice(&chunk);
        }
    }

    /// Sends a request; follows redirects, and answers one demand for credentials.
    pub(super) async fn send(&self, method: Method, url: &Url, body: Body<'_>) -> Result<Response, RegistryError> {
        let mut url = url.clone();
        let mut asked = false;
        let mut hops = 0;
        loop {
            let mut request = self.client_for(&url)?.request(method.clone(), url.clone());
            let authorization = self.authorization.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let given = authorization.is_some();
            if let Some(value) = authorization.filter(|_| self.is_named(&url)) {
                request = request.header(AUTHORIZATION, value);
            }
            request = match body {
                Body::None => request,
                Body::Accept(accept) => request.header(ACCEPT, accept),
                Body::Bytes(kind, bytes) => request.header(CONTENT_TYPE, kind).body(bytes.to_vec()),
            };
            let answer = request.send().await.map_err(|error| self.failure(&error, &url))?;
            match answer.status() {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN
                    if !self.is_named(&url) || asked || self.repository.is_empty() =>
                {
                    return Err(RegistryError::Unauthorized { host: origin(&url), given });
                }
                StatusCode::UNAUTHORIZED => {
                    asked = true;
                    let authorization = self.authorize(&answer).await?;
                    *self.authorization.lock().unwrap_or_else(PoisonError::into_inner) = Some(authorization);
                }
                StatusCode::FORBIDDEN => return Err(RegistryError::Unauthorized { host: origin(&url), given }),
                status if status.is_redirection() && matches!(method, Method::GET | Method::HEAD) => {
                    hops += 1;
                    if hops > MAX_REDIRECTS {
                        let why = format!("it redirects more than {MAX_REDIRECTS} times");
                        return Err(RegistryError::Denied { host: self.host.clone(), why });
                    }
                    url = self.location(&answer)?;
                }
                _ => return Ok(answer),
            }
        }
    }

    /// The next address of a redirect: the registry's own origin, or one over a protected connection.
    pub(super) fn location(&self, answer: &Response) -> Result<Url, RegistryError> {
        let from = answer.url();
        let next = answer.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        let next = next.and_then(|next| from.join(next).ok());
        let denied = |why: &str| RegistryError::Denied { host: self.host.clone(), why: why.to_owned() };
        match next {
            None => Err(denied("it redirects to nowhere")),
            Some(next) if next.scheme() == "https" || next.scheme() == "http" && self.is_named(&next) => Ok(next),
            Some(next) => {
                Err(denied(&format!("it leads to {}, which is not protected", printable(&origin(&next), 200))))
            }
        }
    }

    /// Returns the header that authorises the next request.
    async fn authorize(&self, answer: &Response) -> Result<HeaderValue, RegistryError> {
        let refused = |given: bool| RegistryError::Unauthorized { host: self.host.clone(), given };
        let challenges = answer.headers().get_all(WWW_AUTHENTICATE);
        let challenge = challenges.iter().filter_map(|value| Challenge::parse(value.to_str().ok()?)).next();
        let credentials = auth::of_docker(&self.host, self.client.credentials).await?;
        let given = credentials.is_some();
        let secret = |text: String| {
            let mut value = HeaderValue::from_str(&text).map_err(|_| refused(given))?;
            value.set_sensitive(true);
            Ok(value)
        };
        match challenge {
            None => Err(refused(given)),
            Some(Challenge::Basic) => {
                let (user, password) = credentials.ok_or_else(|| refused(false))?;
                use base64::Engine as _;
                let encoded = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
                secret(format!("Basic {encoded}"))
            }
            Some(Challenge::Bearer { realm, service }) => {
                let token = self.token(&realm, service.as_deref(), credentials).await?;
                secret(format!("Bearer {}", token.ok_or_else(|| refused(given))?))
            }
        }
    }

    /// A token from where the registry says.
    async fn token(
        &self,
        realm: &str,
        service: Option<&str>,
        credentials: Option<(String, String)>,
    ) -> Result<Option<String>, RegistryError> {
        let denied = |why: &str| RegistryError::Denied { host: self.host.clone(), why: why.to_owned() };
        let mut url = Url::parse(realm).map_err(|_| denied("it sends to no address for a token"))?;
        // Credentials go where the registry says, as with every client, but never unprotected to another host.
        if url.scheme() != "https" && !self.is_named(&url) {
            return Err(denied("it asks for credentials at an address that is not protected"));
        }
        let actions = if self.pushes { "pull,push" } else { "pull" };
        if let Some(service) = service {
            url.query_pairs_mut().append_pair("service", service);
        }
        url.query_pairs_mut().append_pair("scope", &format!("repository:{}:{actions}", self.repository));
        let mut request = self.client_for(&url)?.get(url.clone());
        if let Some((user, password)) = credentials {
            request = request.basic_auth(user, Some(password));
        }
        let answer = request.send().await.map_err(|error| self.failure(&error, &url))?;
        if matches!(answer.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Ok(None);
        }
        let answer = self.expect(answer, &[StatusCode::OK]).await?;
        let bytes = self.bytes(answer, MAX_TOKEN).await?;
        let answer: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let token = answer.get("token").or_else(|| answer.get("access_token")).and_then(serde_json::Value::as_str);
        Ok(token.map(str::to_owned))
    }

    pub(super) async fn expect(&self, answer: Response, expected: &[StatusCode]) -> Result<Response, RegistryError> {
        if expected.contains(&answer.status()) {
            return Ok(answer);
        }
        let (host, status) = (origin(answer.url()), answer.status().as_u16());
        let message = self.bytes(answer, MAX_MESSAGE).await.unwrap_or_default();
        let message = printable(String::from_utf8_lossy(&message).trim(), 300);
        Err(RegistryError::Status { host, status, message })
    }

    fn failure(&self, error: &reqwest::Error, url: &Url) -> RegistryError {
        let mut source: Option<&(dyn Error + 'static)> = Some(error);
        while let Some(current) = source {
            if let Some(denied) = current.downcast_ref::<DeniedAddress>() {
                return RegistryError::Denied { host: origin(url), why: denied.to_string() };
            }
            source = current.source();
        }
        RegistryError::Connect { host: origin(url), why: innermost(error) }
    }
}

/// Returns `true` if a port that answers a plain request with this status expects plain ones. One for TLS alone refuses
/// them, or sends the sender elsewhere; a registry of its own may be busy or ask for credentials.
fn speaks_without_tls(status: StatusCode) -> bool {
    const OF_TLS: [StatusCode; 3] =
        [StatusCode::BAD_REQUEST, StatusCode::MISDIRECTED_REQUEST, StatusCode::UPGRADE_REQUIRED];
    !status.is_redirection() && !OF_TLS.contains(&status)
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn innermost(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    printable(&innermost.to_string(), 300)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_that_is_busy_is_one_all_the_same_and_a_port_for_tls_is_not_taken_for_a_plain_one() {
        for status in [StatusCode::OK, StatusCode::UNAUTHORIZED, StatusCode::TOO_MANY_REQUESTS, StatusCode::BAD_GATEWAY]
        {
            assert!(speaks_without_tls(status), "{status}");
        }
        for status in [StatusCode::BAD_REQUEST, StatusCode::MOVED_PERMANENTLY, StatusCode::UPGRADE_REQUIRED] {
            assert!(!speaks_without_tls(status), "{status}");
        }
    }
}
