//! Whole programs that embed Opcell: a service with ten thousand tenants, and an app with a window.

use super::{builder, component, shop, tool};
use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use opcell::{LiveHost, ResumeOptions, Tenant, prelude::*};
use serde_json::{Value as Body, json};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{Notify, mpsc},
};

const TENANTS: usize = 10_000;

/// A call on behalf of the tenant that the request names. A failure is a status that its kind decides.
async fn price(State(host): State<Host>, headers: HeaderMap, Json(asked): Json<Body>) -> (StatusCode, Json<Body>) {
    let Some(tenant) = headers.get("x-tenant").and_then(|name| name.to_str().ok()) else {
        return (StatusCode::UNAUTHORIZED, Json(json!({"error": "no tenant"})));
    };
    match host.invoke("test/run", Value::from(asked)).tenant(tenant).timeout(Duration::from_secs(30)).await {
        Ok(output) => (StatusCode::OK, Json(Body::from(&output.data))),
        Err(error) => {
            let status = match error.kind() {
                FailureKind::Host("unknown-tenant") => StatusCode::UNAUTHORIZED,
                FailureKind::Busy | FailureKind::Closing => StatusCode::SERVICE_UNAVAILABLE,
                FailureKind::InvalidArguments => StatusCode::BAD_REQUEST,
                FailureKind::Timeout => StatusCode::GATEWAY_TIMEOUT,
                _ => StatusCode::UNPROCESSABLE_ENTITY,
            };
            (status, Json(json!({"error": &*error.failure.reason})))
        }
    }
}

/// Makes a request, and returns the status and the body of its answer.
async fn request(address: SocketAddr, tenant: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /price HTTP/1.1\r\nhost: service\r\ncontent-type: application/json\r\nx-tenant: {tenant}\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_has_ten_thousand_tenants_over_the_cells_of_one_host() {
    let price_of = tool(async |_, input: ToolInput| Ok(input.context.tenant.map_or(0, |name| name.len() as i64)));
    let plugin = PluginConfig::from_bytes("shop", component());
    let host = builder().plugin(plugin).tool(price_of).cells(4).build().await.unwrap();
    for number in 0..TENANTS {
        let tenant = Tenant::new(format!("tenant-{number}"));
        // Every third one has not paid.
        let tenant = if number % 3 == 0 { tenant } else { tenant.grant("shop", Grant::tool("shop.price")) };
        host.set_tenant(tenant).await.unwrap();
    }

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = Router::new().route("/price", post(price)).with_state(host.clone());
    let over = Arc::new(Notify::new());
    let stop = over.clone();
    let serving = tokio::spawn(async move {
        axum::serve(listener, service).with_graceful_shutdown(async move { stop.notified().await }).await.unwrap();
    });

    let asked = r#"{"article": 7}"#;
    let names = (0..60).map(|number| format!("tenant-{}", number * (TENANTS / 60)));
    let requests = names.map(|name| async move { (request(address, &name, asked).await, name) });
    for ((status, body), name) in futures_util::future::join_all(requests).await {
        let number: usize = name.strip_prefix("tenant-").unwrap().parse().unwrap();
        match number % 3 {
            0 => assert_eq!((status, body.contains("tool shop.price")), (422, true), "{name}: {body}"),
            _ => assert_eq!((status, body), (200, name.len().to_string()), "{name}"),
        }
    }
    assert_eq!(request(address, "stranger", asked).await.0, 401);
    assert_eq!(request(address, "tenant-1", "{").await.0, 400);

    // A tenant that leaves is refused from its next request on.
    assert!(host.remove_tenant("tenant-1"));
    assert_eq!(request(address, "tenant-1", asked).await.0, 401);

    // The service ends in order: the host first, so that what still comes is told to come again.
    host.close(Duration::from_secs(5)).await;
    assert_eq!(request(address, "tenant-2", asked).await.0, 503);
    over.notify_one();
    serving.await.unwrap();
}

/// A command of the window.
enum Command {
    Install(Box<PluginConfig>),
    Start,
    Approve(String),
    Quit,
}

/// A message to the window.
#[derive(Debug, PartialEq)]
enum Message {
    Installed,
    Refused(String),
    Asked(String),
    Ended(String),
}

const BUYING: &str = r#"{:name "buying" :description "Asks before it buys"
 :steps [{:name "price" :type :invoke :operation "test/run" :args {:article 7}}
         {:name "ask" :type :wait :signal "buy" :approval true :question "Buy it?"}
         {:name "end" :type :exit :status :success :output {:from {:step "price" :output :data}}}]}"#;

/// Tells the window about a run. A run that this process releases says nothing more here.
fn follow(run: Run, messages: mpsc::UnboundedSender<Message>) {
    tokio::spawn(async move {
        let mut updates = run.updates().await.unwrap();
        while let Some(update) = updates.next().await {
            if let RunUpdate::Suspended(_) = update {
                let _ = messages.send(Message::Asked(run.id().to_owned()));
            }
        }
        if let Ok(opcell::Outcome::Ended(end)) = run.outcome().await {
            let _ = messages.send(Message::Ended(end.result.to_string()));
        }
    });
}

/// The part of an app that is not its window: commands come in, messages go out, and runs survive the app.
async fn app(
    journal: std::path::PathBuf,
    mut commands: mpsc::UnboundedReceiver<Command>,
    messages: mpsc::UnboundedSender<Message>,
    installed: Vec<PluginConfig>,
) {
    let mut building = builder().sqlite(journal).tool(tool(async |_, _| Ok(1_250)));
    for plugin in installed {
        building = building.plugin(plugin);
    }
    let live = LiveHost::new(building.build().await.unwrap());
    for resumed in live.now().resume_all(ResumeOptions::default()).await.unwrap() {
        follow(resumed.run.unwrap(), messages.clone());
    }
    while let Some(command) = commands.recv().await {
        match command {
            Command::Install(plugin) => {
                let message =
                    live.add(*plugin).await.map_or_else(|e| Message::Refused(e.to_string()), |_| Message::Installed);
                messages.send(message).unwrap();
            }
            Command::Start => {
                match live.now().start(&Workflow::compile("buying.edn", BUYING).unwrap(), Value::Null).await {
                    Ok(run) => follow(run, messages.clone()),
                    Err(error) => messages.send(Message::Refused(error.to_string())).unwrap(),
                }
            }
            Command::Approve(run) => {
                live.now().run(&run).approve("buy", Decision::approve().by("user")).await.unwrap();
            }
            Command::Quit => break,
        }
    }
    live.close(Duration::ZERO).await;
}

/// The window: it has a thread of its own, and waits for messages as a person does.
struct Window {
    commands: mpsc::UnboundedSender<Command>,
    messages: mpsc::UnboundedReceiver<Message>,
}

impl Window {
    fn open(journal: &std::path::Path, installed: Vec<PluginConfig>) -> (Self, tokio::task::JoinHandle<()>) {
        let ((commands, received), (send, messages)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        (Self { commands, messages }, tokio::spawn(app(journal.to_owned(), received, send, installed)))
    }

    fn click(&mut self, command: Command) {
        assert!(self.commands.send(command).is_ok());
    }

    fn shown(&mut self) -> Message {
        self.messages.blocking_recv().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_installs_a_plugin_asks_its_user_and_resumes_after_it_was_closed() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("runs.db");
    let (mut window, running) = Window::open(&journal, Vec::new());
    let person = std::thread::spawn(move || {
        window.click(Command::Start);
        assert!(matches!(window.shown(), Message::Refused(why) if why.contains("test/run")));
        window.click(Command::Install(Box::new(shop())));
        assert_eq!(window.shown(), Message::Installed);
        window.click(Command::Install(Box::new(shop())));
        assert!(matches!(window.shown(), Message::Refused(_)), "it is installed already");
        window.click(Command::Start);
        let Message::Asked(run) = window.shown() else { panic!("the run asks nothing") };
        window.click(Command::Quit);
        run
    });
    running.await.unwrap();
    let run = tokio::task::spawn_blocking(move || person.join().unwrap()).await.unwrap();

    // The next day.
    let (mut window, running) = Window::open(&journal, vec![shop()]);
    let person = std::thread::spawn(move || {
        assert_eq!(window.shown(), Message::Asked(run.clone()));
        window.click(Command::Approve(run));
        assert_eq!(window.shown(), Message::Ended("1250".to_owned()));
        window.click(Command::Quit);
    });
    running.await.unwrap();
    tokio::task::spawn_blocking(move || person.join().unwrap()).await.unwrap();
}
