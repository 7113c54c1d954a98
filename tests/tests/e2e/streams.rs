//! Answers of models that a limit, or a cancellation, ends while they come: what was received is kept, the connection
//! is closed, and the run knows what it used.

use crate::host_in;
use opcell::{
    AnswerPiece, EffectId, Event, Host, Recorded, RunOptions, RunOutcome, RunText, Status, Value,
    layers::engine::event::EffectReply,
};
use serde_json::json;
use std::{
    fs,
    sync::{Arc, Mutex},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
};

/// A provider that begins every answer and ends none, except to a prompt that says `spend`: once the run has the
/// beginning of another answer, that one is answered at the cost of 1,000 tokens.
struct Stalling {
    url: String,
    /// A permit for each answer whose beginning the run has.
    begun: Arc<Semaphore>,
    /// An entry for each connection that the other side closed.
    closed: mpsc::UnboundedReceiver<()>,
}

impl Stalling {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1/", listener.local_addr().unwrap());
        let (closes, closed) = mpsc::unbounded_channel();
        let begun = Arc::new(Semaphore::new(0));
        let known = Arc::clone(&begun);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(BufReader::new(stream), closes.clone(), known.clone()));
            }
        });
        Self { url, begun, closed }
    }
}

async fn answer(mut stream: BufReader<TcpStream>, closes: mpsc::UnboundedSender<()>, begun: Arc<Semaphore>) {
    let (mut length, mut line) = (0, String::new());
    while stream.read_line(&mut line).await.unwrap_or(0) > 0 && line != "\r\n" {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    let event = |event: serde_json::Value| format!("data: {event}\n\n");
    let delta = |text: &str| event(json!({"model": "m", "choices": [{"index": 0, "delta": {"content": text}}]}));
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    if String::from_utf8_lossy(&body).contains("spend") {
        begun.acquire().await.unwrap().forget();
        let usage = json!({"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1_000});
        let finish = json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]);
        let end = event(json!({"model": "m", "choices": finish, "usage": usage}));
        let all = format!("{head}{}{end}data: [DONE]\n\n", delta("spent"));
        stream.write_all(all.as_bytes()).await.unwrap();
        return;
    }
    stream.write_all(format!("{head}{}{}", delta("half "), delta("an answer")).as_bytes()).await.unwrap();
    // Nothing more is sent, and nothing more comes but the end.
    let mut rest = [0];
    let _ = stream.read(&mut rest).await;
    let _ = closes.send(());
}

/// The pieces of a run, with a permit for each beginning of an answer.
struct Pieces(Mutex<Vec<Value>>, Arc<Semaphore>);

impl RunText for Pieces {
    fn text(&self, _: EffectId, _: &str) {}

    fn piece(&self, effect: EffectId, piece: AnswerPiece<'_>) {
        let piece = piece.to_value(effect);
        let is_beginning = piece.get("text").and_then(Value::as_str).is_some_and(|text| text.contains("answer"));
        self.0.lock().unwrap().push(piece);
        self.1.add_permits(usize::from(is_beginning));
    }
}

impl Pieces {
    fn of(provider: &Stalling) -> Arc<Self> {
        Arc::new(Self(Mutex::default(), Arc::clone(&provider.begun)))
    }

    /// The text, and the number of ends, of the round that was left in the middle.
    fn of_cut_round(&self) -> (String, usize) {
        let pieces = self.0.lock().unwrap();
        let text = |piece: &Value| piece.get("text").and_then(Value::as_str).map(str::to_owned);
        let cut = pieces.iter().find(|piece| text(piece).is_some_and(|text| text.contains("half"))).unwrap();
        let of: Vec<&Value> = pieces.iter().filter(|piece| piece.get("effect") == cut.get("effect")).collect();
        assert!(of.last().unwrap().get("ended").is_some(), "the end comes last: {pieces:?}");
        let ends = of.iter().filter(|piece| piece.get("ended").is_some()).count();
        (of.iter().filter_map(|piece| text(piece)).collect(), ends)
    }
}

async fn host_of(folder: &std::path::Path, provider: &Stalling) -> Host {
    let project = format!(
        "[sessions]\ncontext-files = \"none\"\n[models.providers.house]\napi = \"openai-completions\"\n\
         base-url = {:?}\n[[models.providers.house.models]]\nid = \"m\"\ninput-cost = 1000.0\noutput-cost = 1000.0\n",
        provider.url
    );
    host_in(folder, project).await
}

/// Reasons and details of the rounds that failed.
fn received(history: &[Recorded]) -> Vec<(String, Option<Value>)> {
    let of = |event: &Event| match event {
        Event::Replied { reply, .. } => match reply.as_ref() {
            EffectReply::Round(Err(failure)) => Some((failure.reason.to_string(), failure.details.clone())),
            _ => None,
        },
        _ => None,
    };
    history.iter().filter_map(|recorded| of(&recorded.event)).collect()
}

/// Runs a document until a limit ends it.
async fn limited(document: &str) -> (RunOutcome, Vec<(String, Option<Value>)>, Stalling) {
    let folder = tempfile::tempdir().unwrap();
    let mut provider = Stalling::start().await;
    let host = host_of(folder.path(), &provider).await;
    let file = folder.path().join("w.edn");
    fs::write(&file, document).unwrap();
    let pieces = Pieces::of(&provider);
    let options = RunOptions { sink: Some(pieces.clone()), ..RunOptions::default() };
    let workflow = host.open(file.to_str().unwrap()).unwrap();
    let outcome = host.start_with(&workflow, Value::Null, options).await.unwrap().finished().await.unwrap();
    // The provider learns that no one reads any more.
    provider.closed.recv().await.unwrap();
    assert_eq!(pieces.of_cut_round(), ("half an answer".to_owned(), 1));
    let history = host.engine().history(&outcome.run).await.unwrap();
    (outcome, received(&history), provider)
}

fn session(name: &str, prompt: &str, more: &str) -> String {
    format!(
        "{{:name {name:?} :type :session :model \"house/m\" :tools [] :skills [] {more}\n\
         :contributions [{{:type :template :text {prompt:?} :vars {{}}}}]}}"
    )
}

fn half() -> Value {
    opcell::json!({"received": "half an answer"})
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_step_ends_a_stream_and_its_beginning_stays() {
    let step = session("ask", "Go.", ":timeout 4000");
    let (outcome, received, _provider) =
        limited(&format!("{{:name \"w\" :description \"Waits\" :steps [{step}]}}")).await;
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("timeout")), "{outcome:?}");
    assert_eq!(received, [("timeout".to_owned(), Some(half()))]);
    // No answer came, and so no count of one.
    assert_eq!((outcome.used.tokens, outcome.used.cost), (0, 0.0), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_a_run_ends_a_stream_and_its_beginning_stays() {
    let step = session("ask", "Go.", "");
    let (outcome, received, _provider) =
        limited(&format!("{{:name \"w\" :description \"Waits\" :limits {{:wall-time-seconds 4}} :steps [{step}]}}"))
            .await;
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("budget-exhausted")), "{outcome:?}");
    assert_eq!(received.iter().map(|(_, details)| details.clone()).collect::<Vec<_>>(), [Some(half())], "{received:?}");
    assert_eq!(outcome.used.tokens, 0, "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_and_money_that_one_answer_uses_up_end_a_stream_beside_it() {
    for (limit, kind) in [(":tokens 500", "tokens"), (":cost 0.5", "cost")] {
        let steps = [session("slow", "Go.", ""), session("fast", "Please spend.", "")].join("\n");
        let document = format!(
            "{{:name \"w\" :description \"Spends\" :limits {{{limit}}}\n\
             :steps [{{:name \"both\" :type :parallel :branches [[\"slow\"] [\"fast\"]] :reduce :barrier :into :answers}}\n{steps}]}}"
        );
        let (outcome, received, _provider) = limited(&document).await;
        assert_eq!(outcome.reason.as_deref(), Some("budget-exhausted"), "{kind}: {outcome:?}");
        assert_eq!(outcome.details.as_ref().and_then(|of| of.get("limit")).and_then(Value::as_str), Some(kind));
        assert_eq!(received.iter().map(|(_, details)| details.clone()).collect::<Vec<_>>(), [Some(half())], "{kind}");
        // The receipt has the answer that came, and nothing of the one that did not.
        assert_eq!(outcome.used.tokens, 1_000, "{kind}: {outcome:?}");
        assert!((outcome.used.cost - 1.0).abs() < 1e-9, "{kind}: {outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_cancelled_ends_its_stream_and_keeps_what_came_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut provider = Stalling::start().await;
    let host = host_of(folder.path(), &provider).await;
    let file = folder.path().join("w.edn");
    let step = session("ask", "Go.", "");
    fs::write(&file, format!("{{:name \"w\" :description \"Waits\" :steps [{step}]}}")).unwrap();
    let pieces = Pieces::of(&provider);
    let options = RunOptions { sink: Some(pieces.clone()), ..RunOptions::default() };
    let run = host.start_with(&host.open(file.to_str().unwrap()).unwrap(), Value::Null, options).await.unwrap();
    pieces.1.acquire().await.unwrap().forget();
    run.cancel("enough");
    let outcome = run.finished().await.unwrap();
    assert_eq!(outcome.status, Status::Cancelled, "{outcome:?}");
    provider.closed.recv().await.unwrap();
    assert_eq!(pieces.of_cut_round(), ("half an answer".to_owned(), 1));
    let history = host.engine().history(&outcome.run).await.unwrap();
    assert_eq!(received(&history), [("cancelled".to_owned(), Some(half()))]);
}
