//! A provider of models on loopback that speaks the OpenAI chat format and keeps what it was asked.

use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

/// Answers one text after the other.
pub struct Provider {
    url: String,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Provider {
    pub async fn start(answers: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1/", listener.local_addr().unwrap());
        let answers: Vec<String> = answers.iter().map(|text| (*text).to_owned()).collect();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let shared = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, answers.clone(), shared.clone()));
            }
        });
        Self { url, asked }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The bodies of the requests.
    pub fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(stream: TcpStream, answers: Vec<String>, asked: Arc<Mutex<Vec<Value>>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        let turn = {
            let mut asked = asked.lock().unwrap();
            asked.push(serde_json::from_slice(&body).unwrap());
            asked.len() - 1
        };
        let (status, answer) = match answers.get(turn) {
            Some(text) => (200, answered(text)),
            None => (400, json!({"error": {"message": "asked once too often"}})),
        };
        let answer = answer.to_string();
        let response = format!(
            "HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{answer}",
            answer.len()
        );
        if stream.write_all(response.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn answered(text: &str) -> Value {
    json!({
        "id": "1", "object": "chat.completion", "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    })
}
