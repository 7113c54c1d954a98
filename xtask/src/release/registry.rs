//! A registry on loopback, for `opcell plugin push` and `add`: what is pushed becomes a layout, and a layout is served.
//!
//! It implements the part of the OCI distribution specification that the command uses, one request per connection.

use super::{
    layout::{INDEX, Layout},
    sha256,
};
use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::json;
use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

/// Bytes of the head of a request.
const MAX_HEAD: usize = 16 << 10;
/// Bytes of the body of a request: a component.
const MAX_BODY: usize = 64 << 20;
/// A connection on which nothing arrives for so long is closed.
const SILENCE: Duration = Duration::from_secs(30);

type Layouts = Arc<Mutex<BTreeMap<String, Layout>>>;

/// A registry that answers until the process ends.
pub struct Registry {
    port: u16,
    layouts: Layouts,
}

impl Registry {
    /// Starts one on a free port, with a layout for each of its repositories.
    pub fn start(layouts: BTreeMap<String, Layout>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen on loopback")?;
        let port = listener.local_addr()?.port();
        let layouts = Arc::new(Mutex::new(layouts));
        let served = Arc::clone(&layouts);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A broken connection is the client's to report.
                let _ = answer(stream, &served);
            }
        });
        Ok(Self { port, layouts })
    }

    /// Returns the reference of a version.
    pub fn reference(&self, name: &str, version: &str) -> String {
        format!("oci://127.0.0.1:{}/{name}:{version}", self.port)
    }

    /// Returns everything that was pushed.
    pub fn take(&self) -> BTreeMap<String, Layout> {
        std::mem::take(&mut *self.layouts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Request {
    method: String,
    path: String,
    body: Vec<u8>,
}

struct Response {
    status: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Response {
    fn empty(status: &'static str) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn content(media_type: &str, body: Vec<u8>) -> Self {
        Self { status: "200 OK", headers: vec![("Content-Type", media_type.to_owned())], body }
    }
}

fn answer(mut stream: TcpStream, layouts: &Layouts) -> Result<()> {
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    let request = read(&mut stream)?;
    let mut layouts = layouts.lock().unwrap_or_else(PoisonError::into_inner);
    let response = respond(&request, &mut layouts).unwrap_or_else(|_| Response::empty("400 Bad Request"));
    let mut head =
        format!("HTTP/1.1 {}\r\nConnection: close\r\nContent-Length: {}\r\n", response.status, response.body.len());
    for (name, value) in &response.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(head.as_bytes())?;
    stream.write_all(b"\r\n")?;
    if request.method != "HEAD" {
        stream.write_all(&response.body)?;
    }
    Ok(stream.flush()?)
}

fn read(stream: &mut TcpStream) -> Result<Request> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 8192]);
    let mut more = |bytes: &mut Vec<u8>| -> Result<()> {
        let count = stream.read(&mut buffer)?;
        ensure!(count > 0, "the request ends early");
        bytes.extend_from_slice(buffer.get(..count).unwrap_or_default());
        Ok(())
    };
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        ensure!(bytes.len() <= MAX_HEAD, "the head of the request is too long");
        more(&mut bytes)?;
    };
    let mut body = bytes.split_off(end + 4);
    let head = String::from_utf8(bytes)?;
    let mut words = head.split_whitespace();
    let (method, path) = words.next().zip(words.next()).context("a request without a path")?;
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: usize = length.map_or(Ok(0), |(_, value)| value.trim().parse())?;
    ensure!(length <= MAX_BODY, "the body of the request is too long");
    while body.len() < length {
        more(&mut body)?;
    }
    Ok(Request { method: method.to_owned(), path: path.to_owned(), body })
}

fn respond(request: &Request, layouts: &mut BTreeMap<String, Layout>) -> Result<Response> {
    let path = request.path.split_once('?').map_or(request.path.as_str(), |(path, _)| path);
    let path = path.strip_prefix("/v2/").ok_or_else(|| anyhow!("not a path of a registry"))?;
    let Some((repository, rest)) = path.split_once('/') else { return Ok(Response::empty("200 OK")) };
    let (kind, name) = rest.split_once('/').context("not a path of a registry")?;
    let layout = layouts.entry(repository.to_owned()).or_default();
    let missing = || Response::empty("404 Not Found");
    Ok(match (request.method.as_str(), kind) {
        ("POST", "blobs") => {
            Response::empty("202 Accepted").with("Location", format!("/v2/{repository}/blobs/uploads/1"))
        }
        ("PUT", "blobs") => {
            ensure!(request.path.contains(&sha256(&request.body)), "the digest is of other bytes");
            layout.add("application/octet-stream", request.body.clone());
            Response::empty("201 Created")
        }
        ("PUT", "manifests") => {
            let tag = (!name.starts_with("sha256:")).then_some(name);
            layout.add_manifest(request.body.clone(), tag)?;
            // The header says that the referrers API lists it.
            let subject = serde_json::from_slice::<serde_json::Value>(&request.body)?;
            match subject.pointer("/subject/digest").and_then(serde_json::Value::as_str) {
                Some(subject) => Response::empty("201 Created").with("OCI-Subject", subject),
                None => Response::empty("201 Created"),
            }
        }
        ("GET" | "HEAD", "manifests") => {
            let text =
                |found: &serde_json::Value, key| found.get(key).and_then(serde_json::Value::as_str).map(str::to_owned);
            let found = layout.manifest(name).and_then(|found| text(found, "mediaType").zip(text(found, "digest")));
            let found = found.and_then(|(kind, digest)| Some((kind, layout.blob(&digest)?.to_vec(), digest)));
            found.map_or_else(missing, |(kind, bytes, digest)| {
                Response::content(&kind, bytes).with("Docker-Content-Digest", digest)
            })
        }
        ("GET" | "HEAD", "blobs") => {
            let found = layout.blob(name).map(<[u8]>::to_vec);
            found.map_or_else(missing, |bytes| Response::content("application/octet-stream", bytes))
        }
        ("GET", "referrers") => {
            let list = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": layout.referrers(name)});
            Response::content(INDEX, list.to_string().into_bytes())
        }
        _ => Response::empty("405 Method Not Allowed"),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;

    fn ask(registry: &Registry, head: &str, body: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, registry.port)).unwrap();
        write!(stream, "{head} HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_pushed_blob_is_served_and_listed_in_the_layout() {
        let registry = Registry::start(BTreeMap::new()).unwrap();
        assert!(ask(&registry, "GET /v2/", "").starts_with("HTTP/1.1 200"));
        let digest = sha256(b"{}");
        let stored = ask(&registry, &format!("PUT /v2/echo/blobs/uploads/1?digest=sha256%3A{digest}"), "{}");
        assert!(stored.starts_with("HTTP/1.1 201"), "{stored}");
        let refused = ask(&registry, &format!("PUT /v2/echo/blobs/uploads/1?digest=sha256%3A{digest}"), "[]");
        assert!(refused.starts_with("HTTP/1.1 400"), "{refused}");
        assert!(ask(&registry, &format!("GET /v2/echo/blobs/sha256:{digest}"), "").ends_with("\r\n\r\n{}"));
        assert!(ask(&registry, &format!("GET /v2/other/blobs/sha256:{digest}"), "").starts_with("HTTP/1.1 404"));

        ask(&registry, "PUT /v2/echo/manifests/0.1.0", r#"{"config":{}}"#);
        assert!(ask(&registry, "GET /v2/echo/manifests/0.1.0", "").ends_with(r#"{"config":{}}"#));
        let subject = format!("sha256:{}", sha256(br#"{"config":{}}"#));
        let about = format!(r#"{{"artifactType":"signature","subject":{{"digest":"{subject}"}}}}"#);
        let stored = ask(&registry, &format!("PUT /v2/echo/manifests/sha256:{}", sha256(about.as_bytes())), &about);
        assert!(stored.contains(&format!("OCI-Subject: {subject}")), "{stored}");
        assert!(
            ask(&registry, &format!("GET /v2/echo/referrers/{subject}"), "").contains(r#""artifactType":"signature""#)
        );
        assert_eq!(registry.take().get("echo").unwrap().referrers(&subject).len(), 1);
    }
}
