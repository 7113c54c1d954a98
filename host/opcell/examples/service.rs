//! A service that calls plugins for many clients, and does not fall over when there are too many: each request has a
//! deadline, a plugin that has no cell left says so, a plugin is replaced without losing a call, and the end is in
//! order.
//!
//! Requests are lines `OPERATION ARGUMENTS` of standard input, answers are lines of standard output; `reload NAME`
//! loads a plugin again. Build the plugins once with `cargo xtask guests`, then
//! `echo 'echo/echo {"text":"hello"}' | cargo run -p opcell --example service example-operations/dist/echo.wasm`.

use opcell::prelude::*;
use std::{
    io::{BufRead as _, Write as _},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
};

/// Requests that the service has taken and not answered. One more is not read before one of them is answered: whoever
/// sends it waits, and that is what back-pressure is.
const TAKEN: usize = 256;

/// The time that a client waits.
const PATIENCE: Duration = Duration::from_secs(2);

/// The time that runs have when the service ends.
const GRACE: Duration = Duration::from_secs(10);

/// The host of the moment. A request takes it once, and ends with the plugins that it began with.
type Current = Arc<Mutex<Host>>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // First of all: plugins are compiled in children of this program, and in such a child this compiles one and ends.
    opcell::prepare();
    opcell::runtime()?.block_on(async {
        let mut builder = Host::builder().cells(16);
        for path in std::env::args().skip(1) {
            let name = Path::new(&path).file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            // Few wait for a cell: what cannot begin soon had better fail soon, and be sent to another machine.
            let limits = LimitRequest { concurrent_cells: Some(8), waiting_cells: Some(64), ..LimitRequest::default() };
            builder = builder.plugin(PluginConfig::new(name, path).limits(limits));
        }
        serve(builder.build().await?, lines(), say).await;
        Ok(())
    })
}

/// Answers requests until there are no more, then ends the host.
pub async fn serve(host: Host, mut requests: mpsc::Receiver<String>, say: fn(&str)) {
    let current: Current = Arc::new(Mutex::new(host));
    let room = Arc::new(Semaphore::new(TAKEN));
    let mut answers = JoinSet::new();
    while let Some(line) = requests.recv().await {
        if let Some(name) = line.strip_prefix("reload ") {
            say(&reload(&current, name.trim()).await);
            continue;
        }
        let Ok(taken) = Arc::clone(&room).acquire_owned().await else { break };
        let host = now(&current);
        answers.spawn(async move {
            say(&answer(&host, &line).await);
            drop(taken);
        });
        while answers.try_join_next().is_some() {}
    }
    // Requests that were taken are answered, then the host ends.
    while answers.join_next().await.is_some() {}
    let host = now(&current);
    host.close(GRACE).await;
}

fn now(current: &Current) -> Host {
    current.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

async fn answer(host: &Host, line: &str) -> String {
    let (operation, arguments) = line.split_once(' ').unwrap_or((line, "{}"));
    match serde_json::from_str::<serde_json::Value>(arguments) {
        Err(error) => format!("bad-request {error}"),
        Ok(arguments) => {
            let called = host.invoke(operation, arguments).timeout(PATIENCE).await;
            match called.as_ref().map_err(CallError::kind) {
                Ok(called) => format!("ok {}", called.data),
                // Nothing has run: the client may try again, here later or elsewhere now. A plugin that says `busy` has
                // run, and is of another kind.
                Err(FailureKind::Busy) => "busy retry-after=1".to_owned(),
                Err(FailureKind::Plugin(reason)) => format!("failed plugin {reason}: {}", shown(&called)),
                Err(_) => format!("failed {}", shown(&called)),
            }
        }
    }
}

fn shown(called: &Result<CallOutput, CallError>) -> String {
    called.as_ref().err().map(|error| format!("{}: {error}", error.failure.reason)).unwrap_or_default()
}

/// Calls under way end with the plugin that they began with; the old host ends when the last of them has.
async fn reload(current: &Current, name: &str) -> String {
    let host = now(current);
    let Some(plugin) = host.plugin_config(name).cloned() else { return format!("unknown-plugin {name}") };
    match host.reload(plugin).await {
        Ok(new) => {
            let old = std::mem::replace(&mut *current.lock().unwrap_or_else(PoisonError::into_inner), new);
            tokio::spawn(async move { old.close(GRACE).await });
            format!("reloaded {name}")
        }
        Err(error) => format!("not-reloaded {name}: {error}"),
    }
}

fn say(line: &str) {
    // A client that has gone away needs no answer.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// Lines of standard input, read on a thread of their own and no faster than they are taken.
fn lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}
