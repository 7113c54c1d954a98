//! Triggers as the real server acts on them: schedules whose instants pass, and requests that are signed.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

#[path = "support/server.rs"]
mod server;

use serde_json::json;
use server::{PATIENCE, Server, opcell};
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

const GREET: &str = r#"{:name "greet" :description "Greets"
 :steps [{:name "greet" :type :exit :status :success :output {:from :workflow-input :path [:name]}}]}"#;

const ASK: &str = r#"{:name "ask" :description "Asks"
 :steps [{:name "go" :type :wait :signal "go"}
         {:name "ship" :type :wait :signal "ship" :approval true :question "Ship it?"}
         {:name "end" :type :exit :status :success :output {:value "shipped"}}]}"#;

/// Signed with `correct horse`, as GitHub signs: HMAC-SHA256 over the body.
const ADA: (&str, &str) =
    (r#"{"who":{"name":"Ada"},"run":"r1"}"#, "sha256=cdb41684748ab6596bfafdb79bb208772af28d1c2bf63831339bbd20f021e6ea");
/// [`ADA`], signed with `battery staple`.
const ADA_OTHER: &str = "sha256=16df9bb3cda14e0ae0c5b0ac304e34df727728ff332e346741b394b2d8b5b1aa";
const NAMELESS: (&str, &str) =
    (r#"{"who":{},"run":"r1"}"#, "sha256=dc278a5bca7b7c27a1a1590c340c6ba12143ce40e645cecee5b6ee7655135c84");

fn project(triggers: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("opcell.toml", &format!("workflows = [\".\"]\n\n[journal]\npath = \"runs.db\"\n\n{triggers}"));
    write("greet.edn", GREET);
    write("ask.edn", ASK);
    write("hook.key", "correct horse\n");
    write("other.key", "battery staple\n");
    folder
}

fn trust(folder: &Path) {
    let said = opcell(folder).arg("trust").output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}

/// Seconds after the epoch of every run that the schedule started.
fn started(server: &Server) -> BTreeSet<i64> {
    let runs = server.get("/v1/default/runs?limit=500").1;
    let seconds = runs["runs"].as_array().unwrap().iter().map(|run| {
        assert_eq!(run["workflow"], "greet");
        let instant = run["run"].as_str().unwrap().strip_prefix("cron:tick:").unwrap();
        instant.parse::<jiff::Timestamp>().unwrap().as_second()
    });
    let year_2999 = 32_472_144_000;
    seconds.filter(|second| *second < year_2999).collect()
}

fn wait_for_runs(server: &Server, count: usize) -> BTreeSet<i64> {
    let began = Instant::now();
    loop {
        let seconds = started(server);
        if seconds.len() >= count {
            return seconds;
        }
        assert!(began.elapsed() < PATIENCE, "{seconds:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_schedule_starts_one_run_per_instant_whatever_happens_to_the_servers() {
    let folder = project("[triggers.tick]\ncron = \"* * * * * *\"\nworkflow = \"greet\"\ninput = { name = \"Ada\" }\n");
    // An instant to come was written by no schedule, and keeps it from nothing.
    let future = ["run", "greet", "--as", "cron:tick:2999-01-01T00:00:00Z", "--input", "name=Eve", "--quiet"];
    let made = opcell(folder.path()).args(future).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let server = Server::start(folder.path());
    let first = wait_for_runs(&server, 2);
    // Dropping kills at once, as a power cut would.
    drop(server);
    thread::sleep(Duration::from_millis(2_500));
    let (one, other) = (Server::start(folder.path()), Server::start(folder.path()));
    let all = wait_for_runs(&one, first.len() + 5);
    drop(other);
    assert!(all.is_superset(&first), "{first:?} {all:?}");
    let (from, to) = (*all.first().unwrap(), *all.last().unwrap());
    assert_eq!(all.len() as i64, to - from + 1, "a second is missing: {all:?}");
    let any = format!("cron:tick:{}", jiff::Timestamp::from_second(to - 1).unwrap());
    assert_eq!(one.wait_for(&any, "completed")["result"], "Ada");
    let listed = one.get("/v1/default/triggers").1;
    assert_eq!((&listed["triggers"][0]["name"], &listed["triggers"][0]["source"]), (&json!("tick"), &json!("cron")));
    let taken = json!({"workflow": "greet", "run": "cron:tick:2000-01-01T00:00:00Z"});
    let (status, problem) = one.post("/v1/default/runs", &[], &taken);
    assert_eq!((status, &problem["code"]), (400, &json!("invalid-run-id")), "{problem}");
}

#[test]
fn a_signed_request_starts_one_run_and_any_other_starts_none() {
    let folder = project(
        "[triggers.push]\nworkflow = \"greet\"\nwebhook.signature = \"github\"\nwebhook.secrets = [{ file = \"hook.key\" }]\n\
         webhook.body = { name = \"/who/name\" }\n",
    );
    let refused = opcell(folder.path()).args(["serve", "--listen", "127.0.0.1:0"]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("starts greet for requests that hook.key signs (trigger push)"), "{said}");
    trust(folder.path());
    let server = Server::start(folder.path());
    let post = |hook: &str, (body, signature): (&str, &str)| {
        let headers = [("Content-Type", "application/json"), ("X-Hub-Signature-256", signature)];
        let (status, _, body) = server.send("POST", &format!("/v1/default/hooks/{hook}"), &headers, body);
        (status, serde_json::from_str::<serde_json::Value>(&body).unwrap())
    };
    let (status, first) = post("push", ADA);
    assert_eq!((status, &first["first"]), (202, &json!(true)), "{first}");
    let (status, again) = post("push", ADA);
    assert_eq!((status, &again["first"], &again["run"]), (202, &json!(false), &first["run"]), "{again}");
    assert_eq!(server.wait_for(first["run"].as_str().unwrap(), "completed")["result"], "Ada");
    let (status, problem) = post("push", NAMELESS);
    assert_eq!((status, &problem["code"]), (400, &json!("body-lacks-part")), "{problem}");
    // What does not exist and what is not signed look the same.
    let (status, unsigned) = post("push", (ADA.0, NAMELESS.1));
    assert_eq!((status, post("none", ADA)), (401, (401, unsigned.clone())), "{unsigned}");
    let (status, _, elsewhere) = server.send("POST", "/v1/other/hooks/push", &[], "{}");
    assert_eq!((status, serde_json::from_str::<serde_json::Value>(&elsewhere).unwrap()), (401, unsigned));
    // Neither the size of a body nor a flood tells a tenant that is there from one that is not.
    let large = "x".repeat((4 << 20) + 1);
    let statuses = |tenant: &str, body: &str, times: usize| {
        let path = format!("/v1/{tenant}/hooks/push");
        (0..times).map(|_| server.send("POST", &path, &[], body).0).collect::<BTreeSet<u16>>()
    };
    assert_eq!(statuses("default", &large, 1), statuses("other", &large, 1));
    assert_eq!(server.get("/v1/default/runs").1["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn a_trigger_sends_a_signal_once_and_gives_no_approval() {
    let hook = |name: &str, signal: &str, key: &str| {
        format!(
            "[triggers.{name}]\nsignal = \"{signal}\"\nrun-from = \"/run\"\nwebhook.signature = \"github\"\n\
             webhook.secrets = [{{ file = \"{key}\" }}]\n\n"
        )
    };
    let folder = project(&(hook("go", "go", "hook.key") + &hook("ship", "ship", "other.key")));
    trust(folder.path());
    let server = Server::start(folder.path());
    server.post("/v1/default/runs", &[], &json!({"workflow": "ask", "run": "r1"}));
    server.wait_for("r1", "suspended");
    let post = |hook: &str| {
        let signature = if hook == "ship" { ADA_OTHER } else { ADA.1 };
        let headers = [("Content-Type", "application/json"), ("X-Hub-Signature-256", signature)];
        let (status, _, body) = server.send("POST", &format!("/v1/default/hooks/{hook}"), &headers, ADA.0);
        (status, serde_json::from_str::<serde_json::Value>(&body).unwrap())
    };
    // Not even before the run asks for it.
    let (status, problem) = post("ship");
    assert_eq!((status, &problem["code"]), (403, &json!("approval-by-trigger")), "{problem}");
    assert_eq!(post("go"), (202, json!({"run": "r1", "first": true})));
    let began = Instant::now();
    while server.get("/v1/default/runs/r1").1["questions"][0]["signal"]["name"] != "ship" {
        assert!(began.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(post("go"), (202, json!({"run": "r1", "first": false})));
    let events = server.get("/v1/default/runs/r1/events").1;
    let received: Vec<_> =
        events["events"].as_array().unwrap().iter().filter(|event| event["kind"] == "signal-received").collect();
    assert_eq!(received.len(), 1, "{received:?}");
    assert_eq!(received[0]["event"]["signal-received"]["by"], "trigger:go");
}

/// `payload={"who":{"name":"Ada"},"action":"opened"}`, percent-encoded and signed with `correct horse`.
const FORM: (&str, &str) = (
    "payload=%7B%22who%22%3A%7B%22name%22%3A%22Ada%22%7D%2C%22action%22%3A%22opened%22%7D",
    "sha256=8e6bfbe3ff11be327beec06f8b5c90090886dce26cf321cd097f250edaaa484b",
);

#[test]
fn a_form_starts_a_run_and_a_ping_and_other_events_do_not() {
    let folder = project(
        "[triggers.push]\nworkflow = \"greet\"\nwebhook.signature = \"github\"\nwebhook.secrets = [{ file = \"hook.key\" }]\n\
         webhook.body = { name = \"/who/name\" }\nwebhook.on = [\"issues.opened\"]\n",
    );
    trust(folder.path());
    let server = Server::start(folder.path());
    let post = |event: &str| {
        let headers = [
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("X-GitHub-Event", event),
            ("X-Hub-Signature-256", FORM.1),
        ];
        let (status, _, body) = server.send("POST", "/v1/default/hooks/push", &headers, FORM.0);
        (status, serde_json::from_str::<serde_json::Value>(&body).unwrap())
    };
    for other in ["ping", "push", "issue_comment"] {
        let (status, ignored) = post(other);
        assert!(status == 200 && ignored["ignored"].is_string(), "{other}: {ignored}");
    }
    assert!(server.get("/v1/default/runs").1["runs"].as_array().unwrap().is_empty());
    let (status, started) = post("issues");
    assert_eq!((status, &started["first"]), (202, &json!(true)), "{started}");
    assert_eq!(server.wait_for(started["run"].as_str().unwrap(), "completed")["result"], "Ada");
}

#[test]
fn one_secret_opens_one_webhook() {
    let hook = |name: &str, key: &str| {
        format!(
            "[triggers.{name}]\nworkflow = \"greet\"\nwebhook.signature = \"github\"\nwebhook.secrets = [{{ file = \"{key}\" }}]\n\n"
        )
    };
    let folder = project(&(hook("one", "hook.key") + &hook("two", "hook.key")));
    let refused = opcell(folder.path()).args(["check", "greet.edn"]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("shared-secret"), "{said}");
    // The same under another name is found out when it is read.
    let folder = project(&(hook("one", "hook.key") + &hook("two", "same.key")));
    fs::copy(folder.path().join("hook.key"), folder.path().join("same.key")).unwrap();
    trust(folder.path());
    let server = Server::start(folder.path());
    for name in ["one", "two"] {
        let headers = [("Content-Type", "application/json"), ("X-Hub-Signature-256", ADA.1)];
        assert_eq!(server.send("POST", &format!("/v1/default/hooks/{name}"), &headers, ADA.0).0, 401, "{name}");
    }
}

#[test]
fn a_trigger_without_its_workflow_is_found_out_at_the_start() {
    let folder = project("[triggers.tick]\ncron = \"0 3 * * *\"\nworkflow = \"great\"\n");
    let refused = opcell(folder.path()).args(["serve", "--listen", "127.0.0.1:0"]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("trigger `tick` starts `great`") && said.contains("did you mean `greet`?"), "{said}");
}

#[test]
fn the_page_shows_what_is_due_what_was_missed_and_the_last_runs_but_no_secret() {
    let folder = project(
        "[triggers.hourly]\ncron = \"0 * * * *\"\nzone = \"Europe/Berlin\"\nworkflow = \"greet\"\n\n\
         [triggers.push]\nworkflow = \"greet\"\nwebhook.signature = \"github\"\n\
         webhook.secrets = [{ file = \"hook.key\" }, { env = \"OLD_HOOK_SECRET\" }]\n\
         webhook.body = { name = \"/who/name\" }\n\n\
         [triggers.go]\nsignal = \"go\"\nrun-from = \"/run\"\nwebhook.secrets = [{ file = \"other.key\" }]\n",
    );
    trust(folder.path());
    // The schedule was at work three hours ago, and no server has been there since.
    let hour = jiff::Timestamp::now().as_second() / 3600;
    let instant = |ago: i64| jiff::Timestamp::from_second((hour - ago) * 3600).unwrap();
    let run = format!("cron:hourly:{}", instant(3));
    let made =
        opcell(folder.path()).args(["run", "greet", "--as", &run, "--input", "name=Eve", "--quiet"]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let server = Server::start(folder.path());
    let headers = [("Content-Type", "application/json"), ("X-Hub-Signature-256", ADA.1)];
    let (status, _, body) = server.send("POST", "/v1/default/hooks/push", &headers, ADA.0);
    assert_eq!(status, 202, "{body}");
    let pushed = serde_json::from_str::<serde_json::Value>(&body).unwrap()["run"].as_str().unwrap().to_owned();
    server.wait_for(&pushed, "completed");
    let (status, _, page) = server.send("GET", "/t/default/triggers", &[], "");
    assert_eq!(status, 200, "{page}");
    let shown = |instant: jiff::Timestamp| instant.to_string().replace('T', " ").trim_end_matches('Z').to_owned();
    for part in [
        "<code>0 * * * *</code> in Europe/Berlin",
        "<b>Next </b>",
        "it is skipped",
        "instants were missed",
        &format!("{}, {}", shown(instant(1)), shown(instant(2))),
        "Starts the workflow <b>greet</b>",
        "<code>POST /v1/default/hooks/push</code>",
        "by any of 2 secrets",
        &format!(">{run}</a>"),
        &format!(">{pushed}</a>"),
        "to the run that the body names at <code>/run</code>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    for secret in ["correct horse", "hook.key", "OLD_HOOK_SECRET"] {
        assert!(!page.contains(secret), "{secret}: {page}");
    }
    let (_, _, runs) = server.send("GET", "/t/default", &[], "");
    assert!(runs.contains(r#"<a href="/t/default/triggers">Triggers</a>"#), "{runs}");
}
