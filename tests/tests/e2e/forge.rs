//! As much of the GitHub REST API as triage needs, on loopback.

use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

struct Issue {
    title: String,
    labels: Vec<String>,
    /// Of a pull request.
    branch: Option<String>,
}

impl Issue {
    fn new(title: &str, labels: &[&str], branch: Option<&str>) -> Self {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        Self { title: title.to_owned(), labels, branch: branch.map(str::to_owned) }
    }
}

#[derive(Default)]
struct State {
    issues: BTreeMap<u64, Issue>,
    authorised: Vec<bool>,
}

/// A server with the issues of `acme/rocket`.
pub struct Forge {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    token: tempfile::NamedTempFile,
}

impl Forge {
    /// The token that requests must carry.
    pub const TOKEN: &str = "ghx_5ecr3t-5ecr3t";

    pub async fn start(issues: &[(u64, &str, &[&str])]) -> Self {
        let issue = |(number, title, labels): &(u64, &str, &[&str])| (*number, Issue::new(title, labels, None));
        let state = Arc::new(Mutex::new(State { issues: issues.iter().map(issue).collect(), ..State::default() }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, shared.clone()));
            }
        });
        let token = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(token.path(), Self::TOKEN).unwrap();
        Self { address, state, token }
    }

    /// Opens a pull request.
    pub fn opens(&self, number: u64, title: &str, labels: &[&str], branch: &str) {
        self.state.lock().unwrap().issues.insert(number, Issue::new(title, labels, Some(branch)));
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn token_file(&self) -> &Path {
        self.token.path()
    }

    pub fn labels(&self, issue: u64) -> Vec<String> {
        self.state.lock().unwrap().issues[&issue].labels.clone()
    }

    pub fn every_request_was_authorised(&self) -> bool {
        let state = self.state.lock().unwrap();
        !state.authorised.is_empty() && state.authorised.iter().all(|authorised| *authorised)
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> usize {
        self.state.lock().unwrap().authorised.len()
    }

    pub fn was_not_asked(&self) -> bool {
        self.state.lock().unwrap().authorised.is_empty()
    }
}

async fn serve(stream: TcpStream, state: Arc<Mutex<State>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            if line.trim().is_empty() {
                break;
            }
            head.push(line.trim().to_owned());
        }
        let header = |name: &str| {
            let lines = head.iter().skip(1).filter_map(|line| line.split_once(':'));
            lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned()).next()
        };
        let mut body = vec![0; header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0)];
        stream.read_exact(&mut body).await.unwrap();
        let authorised = header("authorization") == Some(format!("Bearer {}", Forge::TOKEN));
        let (status, answer) = {
            let mut state = state.lock().unwrap();
            state.authorised.push(authorised);
            let mut words = head[0].split(' ');
            let (method, target) = (words.next().unwrap(), words.next().unwrap());
            if authorised {
                answer(&mut state, method, target, &body)
            } else {
                (401, json!({"message": "Bad credentials"}))
            }
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

fn answer(state: &mut State, method: &str, target: &str, body: &[u8]) -> (u16, Value) {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    // Where a GitHub Enterprise Server has its API.
    let path = path.strip_prefix("/api/v3").unwrap_or(path);
    let pull = path.strip_prefix("/repos/acme/rocket/pulls/").and_then(|number| number.parse().ok());
    if let Some(branch) = pull.and_then(|number: u64| state.issues.get(&number)?.branch.as_ref()) {
        return (200, json!({"head": {"ref": branch}, "base": {"ref": "main"}}));
    }
    let Some(path) = path.strip_prefix("/repos/acme/rocket/issues") else {
        return (404, json!({"message": "Not Found"}));
    };
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let issue =
        parts.first().and_then(|number| number.parse().ok()).and_then(|number: u64| state.issues.get_mut(&number));
    match (method, parts.as_slice(), issue) {
        ("GET", [], _) => {
            let wanted: Vec<&str> = query
                .split('&')
                .find_map(|pair| pair.strip_prefix("labels="))
                .map(|labels| labels.split(',').collect())
                .unwrap_or_default();
            let has_all = |issue: &Issue| wanted.iter().all(|label| issue.labels.iter().any(|have| have == label));
            let found = state.issues.iter().filter(|(_, issue)| has_all(issue)).map(|(number, issue)| {
                let labels: Vec<Value> = issue.labels.iter().map(|label| json!({"name": label})).collect();
                let segment = if issue.branch.is_some() { "pull" } else { "issues" };
                let mut listed = json!({
                    "number": number, "title": issue.title, "state": "open", "labels": labels,
                    "html_url": format!("https://forge.test/acme/rocket/{segment}/{number}"),
                });
                if issue.branch.is_some() {
                    listed["pull_request"] = json!({});
                }
                listed
            });
            (200, found.collect())
        }
        ("POST", [_, "labels"], Some(issue)) => {
            let request: Value = serde_json::from_slice(body).unwrap();
            let new = request["labels"].as_array().unwrap().iter().map(|label| label.as_str().unwrap().to_owned());
            issue.labels.extend(new);
            (200, json!(issue.labels))
        }
        ("DELETE", [_, "labels", label], Some(issue)) => {
            issue.labels.retain(|have| have != label);
            (200, json!(issue.labels))
        }
        _ => (404, json!({"message": "Not Found"})),
    }
}
