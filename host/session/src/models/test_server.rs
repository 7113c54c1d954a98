//! A local HTTP server that gives canned answers in order and keeps what it was asked.

use serde_json::Value;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

pub(super) struct Canned {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// `true` if more is announced than ever comes.
    is_unfinished: bool,
}

impl Canned {
    pub(super) fn json(body: Value) -> Self {
        Self::body("application/json", body.to_string())
    }

    pub(super) fn body(content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type", content_type.to_owned())],
            body: body.into(),
            is_unfinished: false,
        }
    }

    /// Server-sent events; each item is `(event, data)`.
    pub(super) fn events(events: &[(&str, Value)]) -> Self {
        let body = events.iter().map(|(event, data)| match (*event, data) {
            ("", Value::String(text)) => format!("data: {text}\n\n"),
            ("", data) => format!("data: {data}\n\n"),
            (event, data) => format!("event: {event}\ndata: {data}\n\n"),
        });
        Self::body("text/event-stream", body.collect::<String>())
    }

    pub(super) fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Sends the body, and nothing more for as long as the client waits.
    pub(super) fn unfinished(mut self) -> Self {
        self.is_unfinished = true;
        self
    }

    /// Adds bytes to the body.
    pub(super) fn followed_by(mut self, more: &str) -> Self {
        self.body.extend_from_slice(more.as_bytes());
        self
    }

    pub(super) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) line: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Value,
}

impl Asked {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

pub(super) struct Server {
    pub(super) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// Answers one request per canned answer, then hangs.
    pub(super) async fn start(answers: Vec<Canned>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        tokio::spawn(async move {
            let mut held = Vec::new();
            let mut answers = answers.into_iter();
            while let Ok((stream, _)) = listener.accept().await {
                let (request, mut stream) = read(stream).await;
                log.lock().unwrap().push(request);
                let Some(answer) = answers.next() else {
                    held.push(stream);
                    continue;
                };
                let mut head = format!(
                    "HTTP/1.1 {} X\r\nconnection: close\r\ncontent-length: {}\r\n",
                    answer.status,
                    answer.body.len() + usize::from(answer.is_unfinished)
                );
                answer.headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
                let _ = stream.write_all(format!("{head}\r\n").as_bytes()).await;
                let _ = stream.write_all(&answer.body).await;
                if answer.is_unfinished {
                    held.push(stream);
                    continue;
                }
                let _ = stream.shutdown().await;
            }
        });
        Self { url, asked }
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn read(stream: TcpStream) -> (Asked, TcpStream) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).await.unwrap();
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).await.unwrap();
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length =
        headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await.unwrap();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    (Asked { line: line.trim_end().to_owned(), headers, body }, reader.into_inner())
}
