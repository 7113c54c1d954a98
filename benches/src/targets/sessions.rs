//! Conversations with models: what a round sends, how soon a provider's answer is shown, what its pieces cost, and the
//! memory of a long session with pictures.

use super::{Bound, Target, median};
use crate::{data::peak_of, session::ShowingModel, work::Nothing};
use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use opcell_engine::{
    Engine, RunOptions, Status, call,
    conversation::{Message, ToolCallRequest},
    ports::{ModelRound, OpenedSession, TextSink},
};
use opcell_journal::SqliteJournal;
use opcell_session::models::{Api, Model, ModelConfig, Models, ModelsConfig, ProviderConfig};
use opcell_types::{CallContext, ToolDescription, Value};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

/// Turns of the conversation whose requests are compared, and its tools.
const TURNS: usize = 200;
const TOOLS: usize = 40;

/// Answers whose first byte is waited for.
const ANSWERS: usize = 200;

/// Pieces of one answer.
const PIECES: u32 = 10_000;

/// A model server of this process: it gives every request the same answer.
struct Server {
    url: String,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    bodies: Vec<Vec<u8>>,
    /// When the first byte of an answer was written.
    answered: Vec<Instant>,
}

impl Server {
    async fn start(answer: String) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/v1/", listener.local_addr()?);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (keeps, answer) = (seen.clone(), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, answer.clone(), keeps.clone()));
            }
        });
        Ok(Self { url, seen })
    }

    fn take(&self) -> Seen {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn models(&self) -> Result<Models> {
        let provider = ProviderConfig {
            base_url: Some(self.url.clone()),
            models: vec![ModelConfig { id: "m".to_owned(), ..ModelConfig::default() }],
            ..ProviderConfig::new(Api::OpenaiCompletions, None)
        };
        let providers = [("test".to_owned(), provider)].into_iter().collect();
        Ok(Models::new(ModelsConfig { providers, ..ModelsConfig::default() })?)
    }
}

/// Answers the requests of one connection until it ends.
async fn serve(stream: TcpStream, answer: Arc<String>, seen: Arc<Mutex<Seen>>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut stream = BufReader::new(stream);
    loop {
        let (mut length, mut line) = (0, String::new());
        loop {
            line.clear();
            if stream.read_line(&mut line).await.ok()? == 0 {
                return None;
            }
            let Some((name, value)) = line.trim_end().split_once(':') else {
                if line.trim_end().is_empty() {
                    break;
                }
                continue;
            };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n", answer.len());
        stream.get_mut().write_all(head.as_bytes()).await.ok()?;
        {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.bodies.push(body);
            seen.answered.push(Instant::now());
        }
        stream.get_mut().write_all(answer.as_bytes()).await.ok()?;
    }
}

fn events(pieces: impl Iterator<Item = String>) -> String {
    let event = |delta: serde_json::Value, reason: serde_json::Value| {
        let event = serde_json::json!({"id": "1", "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
        format!("data: {event}\n\n")
    };
    let pieces = pieces.map(|piece| event(serde_json::json!({"content": piece}), serde_json::Value::Null));
    let end = event(serde_json::json!({}), "stop".into());
    pieces.chain([end, "data: [DONE]\n\n".to_owned()]).collect()
}

/// A round of a conversation with forty tools.
fn round(messages: &[Message]) -> ModelRound {
    let properties = ["path", "pattern", "limit"].map(|name| {
        let about = format!("The {name} of what is looked for, as the project writes it.");
        (name, Value::object([("type", Value::from("string")), ("description", Value::from(about))]))
    });
    let parameters = Value::object([("type", Value::from("object")), ("properties", Value::object(properties))]);
    let tool = |number: usize| {
        ToolDescription::new(format!("tools/tool-{number}"), "Looks something up in the project.", parameters.clone())
    };
    let session = OpenedSession {
        system: "You work on a project, with care. ".repeat(200),
        sections: Value::Null,
        models: vec!["test/m".to_owned()],
        tools: (0..TOOLS).map(tool).collect(),
        settings: opcell_ir::ir::Session::default(),
        parallel_tools: Vec::new(),
        narrowing: None,
        approvals: Vec::new(),
        code: None,
        augmenters: Vec::new(),
        windows: Vec::new(),
        result_limit: None,
    };
    let round = call::ModelRound {
        context: CallContext::default(),
        session: Arc::new(session),
        model: "test/m".to_owned(),
        messages: messages.to_vec().into(),
        schema: None,
        window: None,
        summaries: call::Summaries::default(),
    };
    ModelRound::new(round, CancellationToken::new())
}

/// Bytes of each round of a long conversation, and those of them that the round before did not begin with.
async fn bytes_per_round() -> Result<Target> {
    let server = Server::start(events(["done".to_owned()].into_iter())).await?;
    let models = server.models()?;
    let mut messages = vec![Message::user("Find the fault.")];
    for turn in 0..TURNS {
        models.complete(&round(&messages), None).await.map_err(|failed| anyhow::anyhow!("{failed:?}"))?;
        let id = format!("call-{turn}");
        let name = format!("tools/tool-{}", turn % TOOLS);
        let arguments = Value::object([("path", Value::from(format!("src/part-{turn}.rs")))]);
        let calls = vec![ToolCallRequest { id: id.clone(), name, arguments }];
        messages.push(Message { tool_calls: calls, ..Message::assistant("I look.") });
        messages.push(Message::tool(id, "x = 1\n".repeat(50), false));
    }
    let bodies = server.take().bodies;
    ensure!(bodies.len() == TURNS, "{} requests", bodies.len());
    let shared = |before: &[u8], after: &[u8]| before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let rounds_with_before = bodies.iter().zip(bodies.iter().skip(1));
    let fresh: usize = rounds_with_before.map(|(before, after)| after.len() - shared(before, after)).sum();
    let all: usize = bodies.iter().skip(1).map(Vec::len).sum();
    let rounds = (TURNS - 1) as f64;
    let how =
        format!("{TURNS} turns, {TOOLS} tools: {:.0} bytes a round without a shared beginning", all as f64 / rounds);
    Ok(Target::new("bytes of a round that are new", Bound::AtMost, 1_000.0, Some(fresh as f64 / rounds), how))
}

/// Notes when the first piece came.
#[derive(Default)]
struct First(Mutex<Option<Instant>>);

#[async_trait]
impl TextSink for First {
    fn text(&self, _piece: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Instant::now);
    }
}

/// The time from the first byte of a provider's answer to its first piece here.
async fn first_byte() -> Result<Target> {
    let server = Server::start(events(["one ", "two"].map(str::to_owned).into_iter())).await?;
    let models = server.models()?;
    let asked = round(&[Message::user("Say something.")]);
    let mut times = Vec::new();
    for _ in 0..ANSWERS {
        let first = First::default();
        models.complete(&asked, Some(&first)).await.map_err(|failed| anyhow::anyhow!("{failed:?}"))?;
        let shown = first.0.into_inner().unwrap_or_else(PoisonError::into_inner).context("no piece")?;
        let written = server.take().answered.pop().context("no answer")?;
        times.push(shown.saturating_duration_since(written));
    }
    let worst = times.iter().max().map_or(f64::NAN, Duration::as_secs_f64) * 1e6;
    let how = format!("{ANSWERS} streamed answers over HTTP on this machine; the slowest {worst:.0} µs");
    Ok(Target::new("first byte to first piece, µs", Bound::AtMost, 1_000.0, Some(median(times)), how))
}

/// Counts pieces.
#[derive(Default)]
struct Count(std::sync::atomic::AtomicU32);

impl TextSink for Count {
    fn text(&self, _piece: &str) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

/// The cost of a piece of a streamed answer, all of HTTP included.
async fn small_pieces() -> Result<Target> {
    let server = Server::start(events((0..PIECES).map(|piece| format!("p{piece} ")))).await?;
    let models = server.models()?;
    let asked = round(&[Message::user("Say much.")]);
    let mut least = f64::INFINITY;
    for _ in 0..10 {
        let count = Count::default();
        models.complete(&asked, Some(&count)).await.map_err(|failed| anyhow::anyhow!("{failed:?}"))?;
        let answered = server.take().answered.pop().context("no answer")?;
        least = least.min(answered.elapsed().as_secs_f64() * 1e6 / f64::from(PIECES));
        ensure!(count.0.into_inner() == PIECES, "pieces were lost");
    }
    let how = format!("{PIECES} in one answer, from its first byte to the reply; the least of 10");
    Ok(Target::new("a small piece of a stream, µs", Bound::AtMost, 5.0, Some(least), how))
}

/// The memory that a session of a thousand turns takes whose tool shows a new picture each time.
async fn pictures() -> Result<Target> {
    let folder = tempfile::tempdir()?;
    let journal = SqliteJournal::open(folder.path().join("runs.db"))?;
    let engine = Engine::builder()
        .operations(Arc::new(Nothing))
        .sessions(Arc::new(ShowingModel))
        .journal(Arc::new(journal))
        .build();
    let before = peak_of("/proc/self/status");
    let run = engine.start(ShowingModel::program()?, Value::Null, RunOptions::default()).await?;
    let outcome = run.finished().await?;
    ensure!(outcome.status == Status::Completed, "{outcome:?}");
    let grown = peak_of("/proc/self/status").saturating_sub(before) as f64 / 1_024.0;
    let shown = (ShowingModel::TURNS * ShowingModel::PICTURE_BYTES) as f64 / f64::from(1 << 20);
    let how = format!("{} turns, each with a picture: {shown:.0} MiB shown, SQLite", ShowingModel::TURNS);
    Ok(Target::new("memory of a session with pictures, MiB", Bound::AtMost, 100.0, Some(grown), how))
}

/// The figures of conversations.
///
/// # Errors
/// When a model does not answer, or a run does not complete.
pub async fn sessions() -> Result<Vec<Target>> {
    // What this one takes at the most is looked at: nothing else comes before it.
    let memory = pictures().await?;
    Ok(vec![bytes_per_round().await?, first_byte().await?, small_pieces().await?, memory])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test")]

    use super::*;

    #[tokio::test]
    async fn every_figure_can_be_measured_and_rounds_share_their_beginning() {
        let targets = sessions().await.unwrap();
        for target in &targets {
            println!("{} {:?} ({})", target.figure, target.measured, target.how);
            assert!(target.measured.is_some_and(f64::is_finite), "{target:?}");
        }
        // The others depend on the machine and the build.
        assert_eq!(targets.first().and_then(|target| target.met), Some(true), "{:?}", targets.first());
    }
}
