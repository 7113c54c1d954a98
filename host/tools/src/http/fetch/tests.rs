use super::{FetchError, FetchLimits, HttpClient, Lookup, MissingRule, becomes_get, redirect_target};
use crate::http::{Credential, HttpRule, SecretSource};
use opcell_types::{TouchLog, Value};
use reqwest::{Method, StatusCode, Url, header::HeaderMap};
use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

/// A server on loopback that answers each request head through a function and remembers all heads.
struct Server {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (heads.clone(), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (seen, answer) = (seen.clone(), answer.clone());
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    let mut byte = [0];
                    while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).await.is_ok() {
                        head.push(byte[0]);
                    }
                    let head = String::from_utf8(head).unwrap();
                    let response = answer(&head);
                    seen.lock().unwrap().push(head);
                    stream.write_all(&response).await.unwrap();
                    stream.shutdown().await.ok();
                });
            }
        });
        Self { address, heads }
    }

    async fn saying(body: &'static str) -> Self {
        Self::start(move |_| ok(body.as_bytes())).await
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn rule(&self) -> HttpRule {
        HttpRule { private: true, ..rule(&format!("http://{}", self.address)) }
    }

    fn head(&self, index: usize) -> String {
        self.heads.lock().unwrap()[index].to_ascii_lowercase()
    }
}

fn ok(body: &[u8]) -> Vec<u8> {
    let mut response =
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len()).into_bytes();
    response.extend_from_slice(body);
    response
}

fn redirect(status: u16, to: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} Elsewhere\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        .into_bytes()
}

fn rule(origin: &str) -> HttpRule {
    HttpRule::new(vec![origin.parse().unwrap()], vec![Method::GET, Method::POST])
}

fn client(limits: FetchLimits) -> HttpClient {
    HttpClient::new(limits)
}

/// A client for which every name resolves to these addresses, and how often it asked.
fn client_resolving(addresses: &'static [&'static str]) -> (HttpClient, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let lookup: Lookup = Arc::new(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            if addresses.is_empty() {
                return Err(std::io::Error::other("no such name"));
            }
            Ok(addresses.iter().map(|text| text.parse::<IpAddr>().unwrap()).collect())
        })
    });
    (HttpClient::with_lookup(FetchLimits::default(), lookup), asked)
}

async fn get(client: &HttpClient, rules: &[HttpRule], url: &str) -> Result<Value, FetchError> {
    client.fetch(rules, &Value::object([("url", Value::from(url))]), &TouchLog::default()).await
}

fn denial(result: Result<Value, FetchError>) -> (String, Option<MissingRule>) {
    match result {
        Err(FetchError::Denied { rule, missing, .. }) => (rule, missing),
        other => panic!("not a denial: {other:?}"),
    }
}

fn failure(result: Result<Value, FetchError>) -> &'static str {
    match result {
        Err(FetchError::Failed { reason, .. }) => reason,
        other => panic!("not a failure: {other:?}"),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).unwrap().as_str().unwrap()
}

#[tokio::test]
async fn without_a_grant_every_request_is_denied_and_the_denial_says_what_would_allow_it() {
    let (rule, grant) = denial(get(&client(FetchLimits::default()), &[], "https://api.example.com/x?y").await);
    assert_eq!(rule, "there are no http rules");
    let origin = "https://api.example.com".to_owned();
    assert_eq!(grant, Some(MissingRule { origin, method: Some("GET".to_owned()), private: false }));
}

#[tokio::test]
async fn a_host_or_a_method_that_the_grant_does_not_name_is_denied() {
    let client = client(FetchLimits::default());
    let rules = [rule("api.example.com")];
    assert!(denial(get(&client, &rules, "https://other.example.com/").await).0.contains("no http rule names"));
    let delete = Value::object([("url", Value::from("https://api.example.com/")), ("method", Value::from("DELETE"))]);
    assert!(
        denial(client.fetch(&rules, &delete, &TouchLog::default()).await).0.contains("do not list the method DELETE")
    );
}

#[tokio::test]
async fn loopback_needs_a_grant_that_says_so() {
    let server = Server::saying("hello").await;
    let client = client(FetchLimits::default());
    let public = HttpRule { private: false, ..server.rule() };
    let (rule, grant) = denial(get(&client, &[public], &server.url("/")).await);
    assert!(rule.contains("127.0.0.1 is a loopback address"), "{rule}");
    assert!(grant.unwrap().private);
    let response = get(&client, &[server.rule()], &server.url("/a")).await.unwrap();
    assert_eq!((response.get("status"), text(&response, "body")), (Some(&Value::from(200)), "hello"));
    assert_eq!(text(&response, "url"), server.url("/a"));
}

#[tokio::test]
async fn a_name_is_denied_when_any_of_its_addresses_is() {
    for addresses in [&["127.0.0.1"] as &[_], &["1.1.1.1", "10.0.0.1"], &["::ffff:127.0.0.1"], &["fd00::1"]] {
        let (client, _) = client_resolving(addresses);
        let (rule, grant) =
            denial(get(&client, &[rule("http://rebind.example.com")], "http://rebind.example.com/").await);
        assert!(rule.contains("does not allow private addresses") && grant.is_some(), "{rule}");
    }
}

#[tokio::test]
async fn metadata_services_are_denied_even_where_private_addresses_are_granted() {
    let private = HttpRule { private: true, ..rule("http://metadata.example.com") };
    let (client, _) = client_resolving(&["169.254.169.254"]);
    let (denied, grant) = denial(get(&client, &[private], "http://metadata.example.com/").await);
    assert!(denied.contains("which no grant allows") && grant.is_none(), "{denied}");
    let literal = HttpRule { private: true, ..rule("http://169.254.169.254") };
    assert!(denial(get(&client, &[literal], "http://169.254.169.254/latest").await).0.contains("link-local"));
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_not_reached() {
    let (client, _) = client_resolving(&[]);
    assert_eq!(failure(get(&client, &[rule("http://a.example.com")], "http://a.example.com/").await), "http-connect");
}

#[tokio::test]
async fn the_connection_goes_to_the_address_that_was_checked() {
    let server = Server::saying("pinned").await;
    let (client, asked) = client_resolving(&["127.0.0.1"]);
    let origin = format!("http://pinned.example.com:{}", server.address.port());
    let private = HttpRule { private: true, ..rule(&origin) };
    let response = get(&client, &[private], &origin).await.unwrap();
    assert_eq!(text(&response, "body"), "pinned");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn redirects_are_followed_where_the_grant_allows_them_and_denied_elsewhere() {
    let server = Server::start(|head| match head.split(' ').nth(1) {
        Some("/inside") => redirect(302, "/end"),
        Some("/outside") => redirect(302, "http://127.0.0.1:1/"),
        Some("/metadata") => redirect(307, "http://169.254.169.254/latest/meta-data"),
        Some("/loop") => redirect(302, "/loop"),
        Some("/file") => redirect(302, "file:///etc/passwd"),
        _ => ok(b"end"),
    })
    .await;
    let client = client(FetchLimits::default());
    let rules = [server.rule(), HttpRule { private: true, ..rule("http://169.254.169.254") }];
    let response = get(&client, &rules, &server.url("/inside")).await.unwrap();
    assert_eq!((text(&response, "body"), text(&response, "url")), ("end", server.url("/end").as_str()));
    assert!(denial(get(&client, &rules, &server.url("/outside")).await).0.contains("no http rule"));
    assert!(denial(get(&client, &rules, &server.url("/metadata")).await).0.contains("link-local"));
    assert_eq!(failure(get(&client, &rules, &server.url("/loop")).await), "http-redirects");
    assert_eq!(failure(get(&client, &rules, &server.url("/file")).await), "http-redirects");
}

#[tokio::test]
async fn a_credential_reaches_its_host_only_and_the_plugin_never() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "hunter2-hunter2\n").unwrap();
    let echo = |head: &str| ok(head.as_bytes());
    let other = Server::start(echo).await;
    let target = other.url("/");
    let server =
        Server::start(move |head| if head.contains("/away") { redirect(307, &target) } else { ok(head.as_bytes()) })
            .await;
    let credential = Credential {
        header: "authorization".into(),
        prefix: "Bearer ".into(),
        source: SecretSource::File(secret.path().into()),
    };
    let rules = [HttpRule { credential: Some(credential), ..server.rule() }, other.rule()];
    let client = client(FetchLimits::default());

    let response = get(&client, &rules, &server.url("/echo")).await.unwrap();
    assert!(server.head(0).contains("authorization: bearer hunter2-hunter2"));
    assert!(text(&response, "body").contains("Bearer [redacted]"), "{response:?}");
    assert!(!response.to_json().contains("hunter2"));

    let headers = Value::object([("x-api-key", Value::from("mine")), ("accept", Value::from("text/plain"))]);
    let away = Value::object([("url", Value::from(server.url("/away"))), ("headers", headers)]);
    let log = TouchLog::default();
    client.fetch(&rules, &away, &log).await.unwrap();
    let touched = log.take().http;
    let seen = |at: usize| (touched[at].method.as_str(), touched[at].path.as_str(), touched[at].status.unwrap() / 100);
    assert_eq!((seen(0), seen(1), touched.len()), (("GET", "/away", 3), ("GET", "/", 2), 2), "each hop is noted");
    assert!(touched[1].received > 0 && touched[0].origin != touched[1].origin);
    assert!(server.head(1).contains("x-api-key: mine"));
    let head = other.head(0);
    assert!(
        !head.contains("authorization") && !head.contains("x-api-key") && head.contains("accept: text/plain"),
        "{head}"
    );
}

#[tokio::test]
async fn a_request_whose_credential_is_missing_is_not_sent() {
    let server = Server::saying("never").await;
    let credential = Credential {
        header: "authorization".into(),
        prefix: String::new(),
        source: SecretSource::Env("OPCELL_TEST_UNSET_SECRET".into()),
    };
    let rules = [HttpRule { credential: Some(credential), ..server.rule() }];
    let error = get(&client(FetchLimits::default()), &rules, &server.url("/")).await.unwrap_err();
    assert!(
        matches!(&error, FetchError::Secret(_)) && error.to_string().contains("`OPCELL_TEST_UNSET_SECRET`"),
        "{error}"
    );
    assert!(server.heads.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_body_that_is_too_large_and_a_server_that_is_too_slow_fail() {
    let server = Server::start(|head| {
        if head.contains("/slow") {
            b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab".to_vec()
        } else {
            ok(&[b'x'; 2000])
        }
    })
    .await;
    let small = client(FetchLimits { response_bytes: 1000, ..FetchLimits::default() });
    assert_eq!(failure(get(&small, &[server.rule()], &server.url("/")).await), "http-too-large");

    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", silent.local_addr().unwrap());
    let slow = client(FetchLimits { timeout: Duration::from_millis(200), ..FetchLimits::default() });
    let private = HttpRule { private: true, ..rule(&origin) };
    assert_eq!(failure(get(&slow, &[private], &origin).await), "http-timeout");
    assert_eq!(failure(get(&slow, &[server.rule()], &server.url("/slow")).await), "http-failed");
}

/// A server on a thread of its own that never stops sending `flood`.
fn flooding(flood: &'static [u8]) -> SocketAddr {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        let chunk = flood.repeat(1 + (1 << 20) / flood.len());
        while stream.write_all(&chunk).is_ok() {}
    });
    address
}

#[tokio::test]
async fn interim_responses_without_end_stop_at_the_deadline_and_leave_the_thread_to_others() {
    for flood in ["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"] {
        let origin = format!("http://{}", flooding(flood.as_bytes()));
        let client = client(FetchLimits { timeout: Duration::from_secs(2), ..FetchLimits::default() });
        let ticks = AtomicUsize::new(0);
        // A neighbour on the same thread.
        let neighbour = async {
            loop {
                tokio::time::sleep(Duration::from_millis(5)).await;
                ticks.fetch_add(1, Ordering::Relaxed);
            }
        };
        let private = [HttpRule { private: true, ..rule(&origin) }];
        let fetched = tokio::time::timeout(Duration::from_secs(20), get(&client, &private, &origin));
        let ended = tokio::select! { ended = fetched => ended, () = neighbour => unreachable!() };
        assert_eq!(failure(ended.unwrap()), "http-timeout");
        assert!(ticks.load(Ordering::Relaxed) > 2, "the neighbour ran {ticks:?} times in two seconds");
    }
}

#[tokio::test]
async fn a_body_that_is_not_text_comes_as_base64_and_headers_come_in_lower_case() {
    let server =
        Server::start(|_| b"HTTP/1.1 418 Tea\r\nX-Kind: a\r\nX-Kind: b\r\nContent-Length: 2\r\n\r\n\xff\x00".to_vec())
            .await;
    let response = get(&client(FetchLimits::default()), &[server.rule()], &server.url("/")).await.unwrap();
    assert_eq!((response.get("status"), text(&response, "body_base64")), (Some(&Value::from(418)), "/wA="));
    assert_eq!(text(response.get("headers").unwrap(), "x-kind"), "a, b");
    assert!(response.get("body").is_none());
}

#[test]
fn a_redirect_never_leaves_https() {
    let target = |from: &str, to: &str| {
        let headers = HeaderMap::from_iter([(reqwest::header::LOCATION, to.parse().unwrap())]);
        redirect_target(StatusCode::FOUND, &headers, &Url::parse(from).unwrap()).unwrap().map(String::from)
    };
    assert_eq!(target("https://a.com/x", "y").unwrap(), "https://a.com/y");
    assert_eq!(target("http://a.com/", "https://b.com/").unwrap(), "https://b.com/");
    assert!(target("https://a.com/", "http://a.com/").is_err());
    assert!(target("https://a.com/", "//[bad").is_err());
}

#[test]
fn methods_change_on_redirects_as_in_browsers() {
    assert!(becomes_get(StatusCode::SEE_OTHER, &Method::PUT));
    assert!(becomes_get(StatusCode::FOUND, &Method::POST));
    assert!(!becomes_get(StatusCode::FOUND, &Method::DELETE));
    assert!(!becomes_get(StatusCode::TEMPORARY_REDIRECT, &Method::POST));
    assert!(!becomes_get(StatusCode::SEE_OTHER, &Method::HEAD));
}
