//! A registry that lies: it can refuse to answer, and that is all that it can do.

#![cfg(feature = "client")]
#![allow(clippy::unwrap_used, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

use opcell_registry::{
    MAX_COMPONENT, Reference,
    artifact::{self, Manifest},
    client::{Client, Credentials, RegistryError},
};
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// The answer to a request for a path.
enum Answer {
    /// A status, headers and a body.
    Whole(&'static str, String, Vec<u8>),
    /// A body that never ends.
    Endless,
    /// A body that never ends, after a head that gives it this many bytes.
    Claimed(u64),
    /// A body that comes byte by byte.
    Drip,
    /// Nothing at all.
    Silence,
}

fn ok(body: impl Into<Vec<u8>>) -> Answer {
    Answer::Whole("200 OK", String::new(), body.into())
}

fn redirect(to: &str) -> Answer {
    Answer::Whole("307 Temporary Redirect", format!("location: {to}\r\n"), Vec::new())
}

async fn serve(mut stream: TcpStream, answer: Arc<dyn Fn(&str) -> Answer + Send + Sync>) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer).await {
            Ok(count @ 1..) => request.extend_from_slice(buffer.get(..count).unwrap()),
            _ => return,
        }
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let path = request.split(' ').nth(1).unwrap_or_default();
    match answer(path) {
        Answer::Whole(status, headers, body) => {
            let head =
                format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(&body).await;
        }
        Answer::Endless => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
            let chunk = [b"10000\r\n".as_slice(), &vec![b' '; 0x10000], b"\r\n"].concat();
            while stream.write_all(&chunk).await.is_ok() {}
        }
        Answer::Claimed(bytes) => {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).await;
            while stream.write_all(&[b' '; 0x10000]).await.is_ok() {}
        }
        Answer::Drip => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
            while stream.write_all(b"1\r\n \r\n").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Answer::Silence => tokio::time::sleep(Duration::from_secs(3600)).await,
    }
}

/// Starts one. `/v2/` answers as every registry does.
async fn registry(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Reference {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer: Arc<dyn Fn(&str) -> Answer + Send + Sync> =
        Arc::new(move |path| if path == "/v2/" { ok("{}") } else { answer(path) });
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, answer.clone()));
        }
    });
    format!("oci://127.0.0.1:{port}/greet:1").parse().unwrap()
}

async fn refused(reference: &Reference) -> RegistryError {
    let client = Client::new().credentials(Credentials::Anonymous).total_time(Duration::from_secs(20));
    let error = client.pull(reference, None).await.unwrap_err();
    assert!(!error.help().is_empty());
    error
}

fn manifest() -> Vec<u8> {
    Manifest::of_component(b"{}", b"component").to_bytes()
}

#[tokio::test]
async fn other_bytes_under_a_digest_are_refused() {
    let lying = registry(|path| if path.contains("manifests") { ok(manifest()) } else { ok("COMPONENT") }).await;
    assert!(matches!(refused(&lying).await, RegistryError::Digest { .. }));
    // The manifest itself, when it was asked for by digest.
    let pinned = lying.at(&artifact::digest(b"another"));
    assert!(matches!(refused(&pinned).await, RegistryError::Digest { .. }));
}

#[tokio::test]
async fn a_body_without_end_is_cut() {
    let endless = registry(|_| Answer::Endless).await;
    assert!(matches!(refused(&endless).await, RegistryError::TooLarge { most: artifact::MAX_MANIFEST, .. }));
    let endless = registry(|path| if path.contains("manifests") { ok(manifest()) } else { Answer::Endless }).await;
    assert!(matches!(refused(&endless).await, RegistryError::TooLarge { most: 9, .. }));
}

#[tokio::test]
async fn a_size_that_is_too_large_is_not_fetched() {
    let manifest = String::from_utf8(manifest()).unwrap();
    let large = manifest.replace("\"size\":9", &format!("\"size\":{}", MAX_COMPONENT + 1));
    assert_ne!(large, manifest);
    let registry = registry(move |path| {
        assert!(path.contains("manifests"), "{path}");
        ok(large.clone())
    })
    .await;
    assert!(matches!(refused(&registry).await, RegistryError::Shape { .. }));
}

#[tokio::test]
async fn a_million_layers_are_not_read() {
    let text = String::from_utf8(manifest()).unwrap();
    let layer = r#"{"mediaType":"a","digest":"b","size":1}"#;
    let begin = text.find("\"layers\":[").unwrap() + 10;
    let with = |count: usize| format!("{}{}]}}", text.get(..begin).unwrap(), vec![layer; count].join(","));
    let (many, million) = (with(1_000), with(1_000_000));
    let many = registry(move |_| ok(many.clone())).await;
    let error = refused(&many).await;
    assert!(
        matches!(error, RegistryError::Shape { .. }) && error.to_string().contains("more than 16 layers"),
        "{error}"
    );
    let million = registry(move |_| ok(million.clone())).await;
    assert!(matches!(refused(&million).await, RegistryError::TooLarge { .. }));
}

#[tokio::test]
async fn a_redirect_to_this_machine_or_a_private_network_is_not_followed() {
    for target in [
        "http://10.0.0.1/",
        "https://192.168.1.1/x",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/",
        "https://localhost:1/x",
        "http://[::ffff:10.0.0.1]/",
        "file:///etc/passwd",
    ] {
        let leading =
            registry(move |path| if path.contains("manifests") { ok(manifest()) } else { redirect(target) }).await;
        let error = refused(&leading).await;
        assert!(matches!(error, RegistryError::Denied { .. }), "{target}: {error}");
    }
}

#[tokio::test]
async fn a_circle_of_redirects_ends() {
    let circle = registry(redirect).await;
    let error = refused(&circle).await;
    assert!(error.to_string().contains("more than 5 times"), "{error}");
}

#[tokio::test]
async fn a_token_is_not_asked_for_where_a_registry_may_not_send() {
    for realm in ["http://10.0.0.1/token", "https://169.254.169.254/token", "nowhere"] {
        let leading = registry(move |_| {
            let header = format!("www-authenticate: Bearer realm=\"{realm}\",service=\"x\"\r\n");
            Answer::Whole("401 Unauthorized", header, Vec::new())
        })
        .await;
        let error = refused(&leading).await;
        assert!(matches!(error, RegistryError::Denied { .. }), "{realm}: {error}");
    }
}

#[tokio::test]
async fn a_registry_on_this_machine_leads_to_no_other_service_of_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let reached = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let noted = reached.clone();
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            noted.store(true, std::sync::atomic::Ordering::SeqCst);
        }
    });
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        let target = format!("http://{host}:{port}/x");
        let to = target.clone();
        let leading =
            registry(move |path| if path.contains("manifests") { ok(manifest()) } else { redirect(&to) }).await;
        let error = refused(&leading).await;
        assert!(matches!(error, RegistryError::Denied { .. }), "{target}: {error}");
        let realm = target.clone();
        let asking = registry(move |_| {
            let header = format!("www-authenticate: Bearer realm=\"{realm}\",service=\"x\"\r\n");
            Answer::Whole("401 Unauthorized", header, Vec::new())
        })
        .await;
        let error = refused(&asking).await;
        assert!(matches!(error, RegistryError::Denied { .. }), "{target}: {error}");
        let protected = format!("https://{host}:{port}/x");
        let asking = registry(move |_| {
            let header = format!("www-authenticate: Bearer realm=\"{protected}\",service=\"x\"\r\n");
            Answer::Whole("401 Unauthorized", header, Vec::new())
        })
        .await;
        let error = refused(&asking).await;
        assert!(matches!(error, RegistryError::Denied { .. }), "{target} over TLS: {error}");
    }
    assert!(!reached.load(std::sync::atomic::Ordering::SeqCst), "the other service was reached");
}

#[tokio::test]
async fn silence_ends_with_the_time_that_a_pull_may_take() {
    let silent = registry(|_| Answer::Silence).await;
    let client = Client::new().credentials(Credentials::Anonymous).total_time(Duration::from_millis(300));
    assert!(matches!(client.pull(&silent, None).await.unwrap_err(), RegistryError::Timeout { .. }));
}

#[tokio::test]
async fn an_answer_that_comes_byte_by_byte_ends_with_that_time() {
    let slow = registry(|path| if path.contains("manifests") { ok(manifest()) } else { Answer::Drip }).await;
    let client = Client::new().credentials(Credentials::Anonymous).total_time(Duration::from_millis(300));
    // Nine bytes may come: more are too many, whatever the time.
    let error = client.pull(&slow, None).await.unwrap_err();
    assert!(matches!(error, RegistryError::Timeout { .. } | RegistryError::TooLarge { .. }), "{error}");
    let slow = registry(|_| Answer::Drip).await;
    assert!(matches!(client.pull(&slow, None).await.unwrap_err(), RegistryError::Timeout { .. }));
}

/// Each request that a pull can send, answered without end: as chunks, and as 10 GB.
#[tokio::test]
async fn no_answer_to_any_request_of_a_pull_is_read_without_end() {
    let key = opcell_registry::signature::SecretKey::generate().unwrap();
    let signature = key.sign(&opcell_registry::signature::Digests::of(b"component")).to_json().into_bytes();
    for claims in [false, true] {
        for attacked in ["token", "manifest", "component", "list", "tag", "about", "content", "bill"] {
            let subject = artifact::Descriptor::of(artifact::MANIFEST, &manifest());
            let kind = if attacked == "bill" { artifact::SBOM } else { artifact::SIGNATURE };
            let about = Manifest::about(subject, kind, &signature).to_bytes();
            let mut referrer = artifact::Descriptor::of(artifact::MANIFEST, &about);
            referrer.artifact_type = Some(kind.to_owned());
            let (at, blob) = (referrer.digest.clone(), artifact::digest(&signature));
            let list = artifact::Index {
                schema_version: 2,
                media_type: artifact::INDEX.to_owned(),
                manifests: vec![referrer],
            };
            let list = serde_json::to_vec(&list).unwrap();
            let signature = signature.clone();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let answer: Arc<dyn Fn(&str) -> Answer + Send + Sync> = Arc::new(move |path| {
                let (asked, honest) = match path {
                    "/v2/" => ("", ok("{}")),
                    path if path.starts_with("/token") => ("token", ok(r#"{"token":"x"}"#)),
                    path if path.contains("/referrers/") && attacked == "tag" => {
                        return Answer::Whole("404 Not Found", String::new(), Vec::new());
                    }
                    path if path.contains("/referrers/") => ("list", ok(list.clone())),
                    path if path.contains("/manifests/sha256-") => ("tag", ok(list.clone())),
                    path if path.ends_with(&at) => ("about", ok(about.clone())),
                    path if path.ends_with(&blob) => {
                        (if attacked == "bill" { "bill" } else { "content" }, ok(signature.clone()))
                    }
                    path if path.contains("manifests") && attacked == "token" => {
                        let realm = format!("http://127.0.0.1:{port}/token");
                        let header = format!("www-authenticate: Bearer realm=\"{realm}\",service=\"x\"\r\n");
                        return Answer::Whole("401 Unauthorized", header, Vec::new());
                    }
                    path if path.contains("manifests") => ("manifest", ok(manifest())),
                    _ => ("component", ok("component")),
                };
                match (asked == attacked, claims) {
                    (true, true) => Answer::Claimed(10_000_000_000),
                    (true, false) => Answer::Endless,
                    (false, _) => honest,
                }
            });
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream, answer.clone()));
                }
            });
            let error = refused(&format!("oci://127.0.0.1:{port}/greet:1").parse().unwrap()).await;
            assert!(matches!(error, RegistryError::TooLarge { .. }), "{attacked} {claims}: {error}");
        }
    }
}

#[tokio::test]
async fn loopback_is_reached_only_by_a_reference_that_names_it() {
    // A name of the public network that resolves to this machine.
    let Ok(mut found) = tokio::net::lookup_host(("localhost.localdomain", 1)).await else {
        eprintln!("SKIPPED: localhost.localdomain does not resolve here");
        return;
    };
    if !found.any(|address| address.ip().is_loopback()) {
        eprintln!("SKIPPED: localhost.localdomain is not this machine here");
        return;
    }
    let error = refused(&"oci://localhost.localdomain:5000/greet:1".parse().unwrap()).await;
    assert!(error.to_string().contains("loopback"), "{error}");
}

#[tokio::test]
async fn the_webassembly_manifest_of_an_image_list_is_pulled_by_its_digest() {
    let mut listed = artifact::Descriptor::of(artifact::MANIFEST, &manifest());
    listed.platform = Some(artifact::Platform { architecture: "wasm".to_owned(), os: "wasip2".to_owned() });
    let mut native = artifact::Descriptor::of(artifact::MANIFEST, b"native");
    native.platform = Some(artifact::Platform { architecture: "amd64".to_owned(), os: "linux".to_owned() });
    let digest = listed.digest.clone();
    let list = |listed: &artifact::Descriptor| {
        let manifests = vec![native.clone(), listed.clone()];
        serde_json::to_vec(&artifact::Index { schema_version: 2, media_type: artifact::INDEX.to_owned(), manifests })
    };
    let (list, forged) = (list(&listed).unwrap(), {
        let mut forged = listed.clone();
        forged.digest = "sha256:../../v2/other".to_owned();
        list(&forged).unwrap()
    });
    let index_digest = artifact::digest(&list);
    let at = digest.clone();
    let answer = move |list: Vec<u8>| {
        let at = at.clone();
        move |path: &str| match path {
            path if path.contains("/manifests/sha256-") || path.contains("/referrers/") => {
                Answer::Whole("404 Not Found", String::new(), Vec::new())
            }
            path if path.ends_with(&at) => ok(manifest()),
            path if path.contains("manifests") => ok(list.clone()),
            _ => ok("component"),
        }
    };
    let registry_of_list = registry(answer(list)).await;
    let client = Client::new().credentials(Credentials::Anonymous);
    let pulled = client.pull(&registry_of_list, None).await.unwrap();
    assert_eq!(
        (pulled.manifest.as_str(), pulled.stored.component.as_slice()),
        (digest.as_str(), b"component".as_slice())
    );
    assert_eq!(client.resolve(&registry_of_list).await.unwrap(), digest);
    let pinned = refused(&registry_of_list.at(&index_digest)).await.to_string();
    assert!(pinned.contains(&format!("name its plugin, `@{digest}`")), "{pinned}");
    let forged = registry(answer(forged)).await;
    assert!(refused(&forged).await.to_string().contains("not a SHA-256 digest"));
}

#[tokio::test]
async fn referrers_that_are_listed_by_the_registry_itself_are_read() {
    let key = opcell_registry::signature::SecretKey::generate().unwrap();
    let digests = opcell_registry::signature::Digests::of(b"component");
    let signature = key.sign(&digests).to_json().into_bytes();
    let subject = artifact::Descriptor::of(artifact::MANIFEST, &manifest());
    let about = Manifest::about(subject, artifact::SIGNATURE, &signature).to_bytes();
    let mut referrer = artifact::Descriptor::of(artifact::MANIFEST, &about);
    referrer.artifact_type = Some(artifact::SIGNATURE.to_owned());
    let (at, blob) = (referrer.digest.clone(), artifact::digest(&signature));
    let list = artifact::Index { schema_version: 2, media_type: artifact::INDEX.to_owned(), manifests: vec![referrer] };
    let list = serde_json::to_vec(&list).unwrap();
    let registry = registry(move |path| match path {
        path if path.contains("/referrers/") => ok(list.clone()),
        path if path.ends_with(&at) => ok(about.clone()),
        path if path.ends_with(&blob) => ok(signature.clone()),
        path if path.contains("manifests") => ok(manifest()),
        _ => ok("component"),
    })
    .await;
    let pulled = Client::new().credentials(Credentials::Anonymous).pull(&registry, None).await.unwrap();
    assert_eq!(pulled.stored.signature.unwrap().signer_of(&digests).unwrap(), key.public());
}

#[tokio::test]
async fn what_is_no_list_of_referrers_has_none() {
    let cosign = r#"{"manifests":[{"digest":"sha256:0","size":null,"artifactType":"application/vnd.dev.cosign.simplesigning.v1+json"}]}"#;
    let lists = ["<html>", "", r#"{"schemaVersion":2,"manifests":null}"#, r#"{"manifests":[{"digest":5}]}"#, cosign];
    let lists = lists.into_iter().map(|list| ("200 OK", list));
    for (status, list) in lists.chain([("406 Not Acceptable", ""), ("500 Internal Server Error", "")]) {
        let registry = registry(move |path| match path {
            path if path.contains("/referrers/") => Answer::Whole(status, String::new(), list.into()),
            path if path.contains("/manifests/sha256-") => Answer::Whole("404 Not Found", String::new(), Vec::new()),
            path if path.contains("manifests") => ok(manifest()),
            _ => ok("component"),
        })
        .await;
        let pulled = Client::new().credentials(Credentials::Anonymous).pull(&registry, None).await;
        assert!(pulled.is_ok_and(|pulled| pulled.stored.signature.is_none()), "{status} {list}");
    }
}

#[tokio::test]
async fn a_list_as_docker_writes_it_is_read() {
    pulls_from_a_list(&[]).await;
}

#[tokio::test]
async fn a_list_and_a_manifest_may_begin_with_a_byte_order_mark() {
    pulls_from_a_list(b"\xef\xbb\xbf").await;
}

/// Pulls the manifest of a list, with these bytes before both.
async fn pulls_from_a_list(mark: &'static [u8]) {
    let manifest = [mark, &manifest()].concat();
    let mut listed = artifact::Descriptor::of(artifact::DOCKER_MANIFEST, &manifest);
    listed.platform = Some(artifact::Platform { architecture: "wasm".to_owned(), os: "wasi".to_owned() });
    let at = listed.digest.clone();
    let media_type = artifact::DOCKER_LIST.to_owned();
    let list = serde_json::to_vec(&artifact::Index { schema_version: 2, media_type, manifests: vec![listed] }).unwrap();
    let list = [mark, &list].concat();
    let registry = registry(move |path| match path {
        path if path.contains("/manifests/sha256-") || path.contains("/referrers/") => {
            Answer::Whole("404 Not Found", String::new(), Vec::new())
        }
        path if path.ends_with(&at) => ok(manifest.clone()),
        path if path.contains("manifests") => ok(list.clone()),
        _ => ok("component"),
    })
    .await;
    let pulled = Client::new().credentials(Credentials::Anonymous).pull(&registry, None).await.unwrap();
    assert_eq!(pulled.stored.component, b"component");
}
