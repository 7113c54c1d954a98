//! The page, and the forms on it.

use super::{
    guest, keeper, project,
    server::{PATIENCE, Server, opcell},
    token,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

#[test]
fn the_page_says_what_a_plugin_may_reach_and_what_would_let_it() {
    let folder = tempfile::tempdir().unwrap();
    let asks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cli/shared/asks/test.guest.wat");
    fs::write(folder.path().join("test.wasm"), guest::component(&asks)).unwrap();
    fs::write(folder.path().join("opcell.toml"), "[plugins.test]\npath = \"test.wasm\"\n").unwrap();
    let server = Server::start(folder.path());
    let (status, _, page) = server.send("GET", "/t/default/plugins", &[], "");
    assert_eq!(status, 200, "{page}");
    for part in ["files notes", "<b>no</b>", "opcell plugin grant"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // The API says the same.
    let (status, explained) = server.get("/v1/default/plugins/test");
    assert_eq!(status, 200, "{explained}");
    let capability = &explained["capabilities"][1];
    assert_eq!(
        (&capability["capability"], &capability["allowed"]),
        (&json!("files notes"), &json!(false)),
        "{explained}"
    );
    assert!(capability["remedy"].as_str().unwrap().starts_with("opcell plugin grant"), "{explained}");
    assert!(explained["limits"].as_array().unwrap().iter().any(|limit| limit["key"] == "wall-time"), "{explained}");
    assert_eq!(explained["operations"][0]["plugin"], "test");
    let (status, problem) = server.get("/v1/default/plugins/tset");
    assert_eq!(
        (status, &problem["code"], &problem["remedy"]),
        (404, &json!("unknown-plugin"), &json!("did you mean `test`?"))
    );
}

#[test]
fn what_a_plugin_is_denied_can_be_granted_on_the_page_by_those_who_may() {
    let folder = tempfile::tempdir().unwrap();
    let asks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cli/run-asks-for-a-grant");
    fs::write(folder.path().join("test.wasm"), keeper()).unwrap();
    fs::write(
        folder.path().join("opcell.toml"),
        "workflows = [\".\"]\njournal = \"runs.db\"\n\n[plugins.test]\npath = \"test.wasm\"\non-denied = \"ask\"\n",
    )
    .unwrap();
    fs::copy(asks.join("w.edn"), folder.path().join("w.edn")).unwrap();
    assert!(opcell(folder.path()).arg("trust").status().unwrap().success());
    let open = Server::start(folder.path());
    open.post("/v1/default/runs", &[], &json!({"workflow": "w", "run": "r0"}));
    open.wait_for("r0", "suspended");
    let (_, _, page) = open.send("GET", "/t/default/runs/r0", &[], "");
    assert!(page.contains("Grant for this run") && page.contains("remembers what it was told"), "{page}");
    drop(open);
    let scopes = |scopes: &[&str]| {
        let all: Vec<&str> =
            ["new", "x"].into_iter().chain(scopes.iter().flat_map(|scope| ["--scope", scope])).collect();
        format!("Bearer {}", token(folder.path(), &all))
    };
    let (approver, admin) = (scopes(&["read", "run", "approve"]), scopes(&["admin"]));
    let server = Server::start(folder.path());
    let post = |token: &str, path: &str, body: Value| server.post(path, &[("Authorization", token)], &body);
    assert_eq!(post(&approver, "/v1/default/runs", json!({"workflow": "w", "run": "r1"})).0, 201);
    let wait_for = |status: &str| {
        let began = Instant::now();
        loop {
            let (_, _, body) = server.send("GET", "/v1/default/runs/r1", &[("Authorization", &admin)], "");
            let run: Value = serde_json::from_str(&body).unwrap();
            if run["status"] == status {
                return run;
            }
            assert!(began.elapsed() < PATIENCE, "{run}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    let asked = &wait_for("suspended")["questions"][0]["grant"];
    assert_eq!((&asked["why"], &asked["step"]), (&json!("remembers what it was told"), &json!("first")), "{asked}");
    let approve = "/v1/default/runs/r1/approve";
    let (status, problem) = post(&approver, approve, json!({"grant": "run"}));
    assert_eq!((status, &problem["code"]), (403, &json!("scope-missing")), "an approval is not a grant: {problem}");
    assert_eq!(post(&admin, approve, json!({"grant": "run", "approved": true})).0, 400);
    assert_eq!(post(&admin, approve, json!({"grant": "run"})).0, 200);
    assert_eq!(wait_for("completed")["result"], "done");
    assert_eq!(post(&admin, approve, json!({"grant": "run"})).0, 409);
}

/// Returns the proof that a form of a page carries.
pub fn proof(page: &str) -> String {
    let (_, rest) = page.split_once(r#"name="proof" value=""#).unwrap_or_else(|| panic!("{page}"));
    rest.split_once('"').unwrap().0.to_owned()
}

/// The question that a form of a page is under.
pub fn question(page: &str) -> String {
    let (_, rest) = page.split_once(r#"name="question" value=""#).unwrap_or_else(|| panic!("{page}"));
    rest.split_once('"').unwrap().0.to_owned()
}

/// A workflow that asks twice under one name, about two things.
const TWICE: &str = r#"{:name "twice" :description "Asks twice"
 :steps [{:name "news" :type :wait :signal "ok" :approval true :question "Send the newsletter?"}
         {:name "drop" :type :wait :signal "ok" :approval true :question "Delete the database?"}
         {:name "end" :type :exit :status :success :output {:value "both"}}]}"#;

#[test]
fn an_answer_answers_what_was_shown_and_nothing_that_is_asked_next() {
    let folder = project();
    fs::write(folder.path().join("twice.edn"), TWICE).unwrap();
    let server = Server::start(folder.path());
    let asked = |run: &str, step: &str| {
        let began = Instant::now();
        loop {
            let found = server.get(&format!("/v1/default/runs/{run}")).1;
            if found["questions"][0]["signal"]["step"] == step {
                return found["questions"][0]["signal"].clone();
            }
            assert!(began.elapsed() < PATIENCE, "{found}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    // The form of a page, pressed twice.
    server.post("/v1/default/runs", &[], &json!({"workflow": "twice", "run": "form"}));
    let first = asked("form", "news");
    let page = server.send("GET", "/t/default/runs/form", &[], "").2;
    assert_eq!(question(&page), first["id"].as_str().unwrap());
    let press = || {
        let form = [("Content-Type", "application/x-www-form-urlencoded")];
        let body = format!("proof={}&question={}&approved=true&why=", proof(&page), question(&page));
        server.send("POST", "/t/default/runs/form/answer", &form, &body)
    };
    assert_eq!(press().0, 303);
    let second = asked("form", "drop");
    let (status, _, refused) = press();
    assert!(status == 409 && refused.contains("not-asked"), "{refused}");
    assert_eq!(asked("form", "drop")["id"], second["id"], "the second question has no answer");
    assert_eq!((&first["again"], &second["again"]), (&Value::Null, &json!(true)));
    // The API by name, sent twice; then by the question.
    server.post("/v1/default/runs", &[], &json!({"workflow": "twice", "run": "api"}));
    let first = asked("api", "news");
    let approve = |body: Value| server.post("/v1/default/runs/api/approve", &[], &body);
    assert_eq!(approve(json!({"name": "ok"})).0, 200);
    let second = asked("api", "drop");
    for unsure in [json!({"name": "ok"}), json!({}), json!({"step": "drop"})] {
        let (status, problem) = approve(unsure);
        assert_eq!((status, &problem["code"]), (409, &json!("question-missing")), "{problem}");
    }
    let (status, problem) = approve(json!({"question": first["id"]}));
    assert_eq!((status, &problem["code"]), (409, &json!("not-asked")), "{problem}");
    assert_eq!(approve(json!({"question": second["id"]})).0, 200);
    assert_eq!(server.wait_for("api", "completed")["result"], "both");
}

#[test]
fn the_address_that_is_printed_logs_a_browser_in() {
    let folder = project();
    let server = Server::start(folder.path());
    let token = server.token.clone().unwrap();
    let (status, head, _) = server.send("GET", &format!("/?token={token}"), &[], "");
    assert!(status == 303 && head.contains("HttpOnly; SameSite=Strict") && !head.contains(&token), "{head}");
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap().split(';').next().unwrap();
    let (status, _, page) = server.send("GET", "/t/default", &[("Cookie", cookie)], "");
    assert_eq!(status, 200, "{page}");
    assert_eq!(server.send("GET", "/?token=opcell_start_x", &[], "").0, 401);
}

#[test]
fn a_page_shows_no_text_that_runs_backwards() {
    let folder = project();
    let text = "{:name \"spoof\" :description \"Asks\"\n :steps [{:name \"a\" :type :wait :signal \"ok\" :approval true :question \"Pay \u{202e}001 to Eve?\"}]}";
    fs::write(folder.path().join("spoof.edn"), text).unwrap();
    let server = Server::start(folder.path());
    server.post("/v1/default/runs", &[], &json!({"workflow": "spoof", "run": "r1"}));
    server.wait_for("r1", "suspended");
    let page = server.send("GET", "/t/default/runs/r1", &[], "").2;
    assert!(page.contains("Pay \u{fffd}001 to Eve?") && !page.contains('\u{202e}'), "{page}");
}

#[test]
fn a_grant_for_every_run_is_written_by_the_page_for_an_admin_with_its_own_form() {
    let folder = tempfile::tempdir().unwrap();
    let asks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cli/run-asks-for-a-grant");
    fs::write(folder.path().join("test.wasm"), keeper()).unwrap();
    let file = folder.path().join("opcell.toml");
    let before =
        "workflows = [\".\"]\njournal = \"runs.db\"\n\n[plugins.test]\npath = \"test.wasm\"\non-denied = \"ask\"\n";
    fs::write(&file, before).unwrap();
    fs::copy(asks.join("w.edn"), folder.path().join("w.edn")).unwrap();
    assert!(opcell(folder.path()).arg("trust").status().unwrap().success());
    let made = |scopes: &[&str]| {
        let scopes = scopes.iter().flat_map(|scope| ["--scope", scope]);
        token(folder.path(), &["new", "x"].into_iter().chain(scopes).collect::<Vec<_>>())
    };
    let (approver, admin) = (made(&["read", "run", "approve"]), made(&["admin"]));
    let server = Server::start(folder.path());
    let bearer = format!("Bearer {admin}");
    let status = |run: &str, wanted: &str| {
        let began = Instant::now();
        loop {
            let path = format!("/v1/default/runs/{run}");
            let (_, _, body) = server.send("GET", &path, &[("Authorization", &bearer)], "");
            if serde_json::from_str::<Value>(&body).unwrap()["status"] == wanted {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{body}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    let start = |run: &str| {
        let body = json!({"workflow": "w", "run": run});
        assert_eq!(server.post("/v1/default/runs", &[("Authorization", &bearer)], &body).0, 201);
    };
    start("r1");
    status("r1", "suspended");
    let login = |token: &str| {
        let form = [("Content-Type", "application/x-www-form-urlencoded")];
        let (_, head, _) = server.send("POST", "/login", &form, &format!("token={token}"));
        let cookie = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("set-cookie: ").map(|_| line));
        cookie.unwrap().split_once(": ").unwrap().1.split(';').next().unwrap().to_owned()
    };
    let (of_approver, of_admin) = (login(&approver), login(&admin));
    let page = |cookie: &str| server.send("GET", "/t/default/runs/r1", &[("Cookie", cookie)], "").2;
    let (seen, shown) = (page(&of_approver), page(&of_admin));
    assert!(!seen.contains("Grant always") && seen.contains("does not have the scope"), "{seen}");
    assert!(shown.contains("Grant always"), "{shown}");
    let question = question(&shown);
    let grant = |cookie: &str, proof: &str, headers: &[(&str, &str)]| {
        let mut all = vec![("Cookie", cookie), ("Content-Type", "application/x-www-form-urlencoded")];
        all.extend(headers);
        let form = format!("proof={proof}&question={question}&grant=always");
        server.send("POST", "/t/default/runs/r1/grant", &all, &form).0
    };
    // Not with another scope, not with the form of another session or none, not from another site, not without a login.
    assert_eq!(grant(&of_approver, &proof(&seen), &[]), 403);
    assert_eq!(grant(&of_admin, &proof(&seen), &[]), 403);
    assert_eq!(grant(&of_admin, "", &[]), 403);
    assert_eq!(grant(&of_admin, &proof(&shown), &[("Origin", "https://evil.example")]), 403);
    assert_eq!(grant("opcell=x", &proof(&shown), &[]), 303);
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    status("r1", "suspended");
    assert_eq!(grant(&of_admin, &proof(&shown), &[]), 303);
    status("r1", "completed");
    let written = fs::read_to_string(&file).unwrap();
    assert!(
        written.starts_with(before.trim_end()) && written.contains("[plugins.test.grants.stores.kept]"),
        "{written}"
    );
    // The next run has it without asking, as soon as the plugin has been loaded again.
    let began = Instant::now();
    for next in 2.. {
        let run = format!("r{next}");
        start(&run);
        let (_, _, body) = server.send("GET", "/metrics", &[("Authorization", &bearer)], "");
        assert!(began.elapsed() < PATIENCE, "{body}");
        thread::sleep(Duration::from_millis(500));
        let (_, _, body) = server.send("GET", &format!("/v1/default/runs/{run}"), &[("Authorization", &bearer)], "");
        if serde_json::from_str::<Value>(&body).unwrap()["status"] == "completed" {
            break;
        }
    }
}

#[test]
fn a_denial_that_ended_a_run_is_lifted_for_later_ones_with_a_button() {
    let folder = tempfile::tempdir().unwrap();
    let asks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cli/run-asks-for-a-grant");
    fs::write(folder.path().join("test.wasm"), keeper()).unwrap();
    let file = folder.path().join("opcell.toml");
    fs::write(&file, "workflows = [\".\"]\njournal = \"runs.db\"\n\n[plugins.test]\npath = \"test.wasm\"\n").unwrap();
    fs::copy(asks.join("w.edn"), folder.path().join("w.edn")).unwrap();
    assert!(opcell(folder.path()).arg("trust").status().unwrap().success());
    let server = Server::start(folder.path());
    server.post("/v1/default/runs", &[], &json!({"workflow": "w", "run": "r1"}));
    server.wait_for("r1", "failed");
    let (_, _, page) = server.send("GET", "/t/default/runs/r1", &[], "");
    assert!(page.contains("Grant always") && page.contains(r#"name="capability" value="store kept""#), "{page}");
    let allow = |capability: &str| {
        let form = [("Content-Type", "application/x-www-form-urlencoded")];
        let body = format!("proof={}&plugin=test&capability={capability}", proof(&page));
        server.send("POST", "/t/default/runs/r1/allow", &form, &body)
    };
    // Only what this run was denied.
    let (status, _, refused) = allow("tool+bash");
    assert!(status == 409 && refused.contains("nothing-to-grant"), "{refused}");
    assert_eq!(allow("store+kept").0, 303);
    let written = fs::read_to_string(&file).unwrap();
    assert!(written.contains("[plugins.test.grants.stores.kept]"), "{written}");
}

const ASK_THEN_END: &str = r#"{:name "stuck" :description "Fails at its second step"
 :steps [{:name "first" :type :transform :operation :sort :field "n" :inputs {:items {:value [{:n 2} {:n 1}]}}}
         {:name "second" :type :invoke :operation "test/run"}
         {:name "end" :type :exit :status :success :output {:value "done"}}]}"#;

/// A project with a plugin that keeps something, which it was not granted.
fn denied() -> tempfile::TempDir {
    let folder = project();
    let keeps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cli/shared/keeps/test.guest.wat");
    fs::write(folder.path().join("test.wasm"), guest::component(&keeps)).unwrap();
    fs::write(folder.path().join("stuck.edn"), ASK_THEN_END).unwrap();
    let file = "workflows = [\".\"]\n\n[journal]\npath = \"runs.db\"\n\n[plugins.test]\npath = \"test.wasm\"\n";
    fs::write(folder.path().join("opcell.toml"), file).unwrap();
    folder
}

#[test]
fn a_failed_run_is_retried_before_the_call_with_which_it_failed() {
    let folder = denied();
    let server = Server::start(folder.path());
    let body = json!({"workflow": "stuck", "run": "r1", "wait": true});
    let (status, failed) = server.post("/v1/default/runs", &[], &body);
    assert_eq!((status, &failed["status"], &failed["step"]), (201, &json!("failed"), &json!("second")), "{failed}");
    assert!(failed["denial"]["command"].as_str().unwrap().starts_with("opcell plugin grant"), "{failed}");
    // Nothing at all is as good as an empty object.
    let (status, head, body) = server.send("POST", "/v1/default/runs/r1/retry", &[], "");
    let retried: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &retried["forked"]["run"]), (201, &json!("r1")), "{retried}");
    let run = retried["run"].as_str().unwrap();
    assert!(head.to_ascii_lowercase().contains(&format!("location: /v1/default/runs/{run}")), "{head}");
    // Its worker drives it, and it fails as before; it says where it comes from, and has times of its own.
    let again = server.wait_for(run, "failed");
    assert_eq!((&again["forked"]["run"], &again["forked"]["by"]), (&json!("r1"), &json!("local")), "{again}");
    assert_eq!(again["started-at"], again["forked"]["at"], "{again}");
    let seq = again["forked"]["seq"].as_u64().unwrap();
    let shared = server.get(&format!("/v1/default/runs/r1/events?after={}&limit=1", seq)).1;
    assert_eq!(shared["events"][0]["kind"], "requested", "{shared}");
    let (status, problem) = server.post("/v1/default/runs/r1/retry", &[], &json!({"step": "nosuch"}));
    assert_eq!((status, &problem["code"]), (409, &json!("nothing-to-retry")), "{problem}");
    let (status, fork) = server.post("/v1/default/runs/r1/fork", &[], &json!({"at": 1}));
    assert_eq!((status, &fork["forked"]["seq"]), (201, &json!(1)), "{fork}");
    let (_, _, page) = server.send("GET", "/t/default/runs/r1", &[], "");
    for part in ["Retry from the failed step", "<h2>Input</h2>", "Choose a row"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let (_, _, page) = server.send("GET", "/t/default/runs/r1/events", &[], "");
    assert!(page.contains("run-started") && page.contains("Fork after it"), "{page}");
    let (status, _, event) = server.send("GET", "/t/default/runs/r1/events/1", &[], "");
    assert_eq!((status, serde_json::from_str::<Value>(&event).unwrap()["kind"].clone()), (200, json!("run-started")));
    assert_eq!(server.send("GET", "/t/default/runs/r1/events/9999", &[], "").0, 404);
}

#[test]
fn a_row_opens_with_all_that_is_known_of_it_and_every_element_has_an_id_of_its_own() {
    let folder = denied();
    let server = Server::start(folder.path());
    server.post("/v1/default/runs", &[], &json!({"workflow": "stuck", "run": "r1", "wait": true}));
    let page = |rest: &str| server.send("GET", &format!("/t/default/runs/r1{rest}"), &[], "").2;
    let all = page("");
    let ids: Vec<&str> = all.split(" id=\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0)).collect();
    let distinct: BTreeSet<&&str> = ids.iter().collect();
    assert_eq!(ids.len(), distinct.len(), "{ids:?}");
    let rows: Vec<&str> = all.split("data-row=\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0)).collect();
    // The call by its operation, with its failure, its receipt, and the denial with the button that lifts it.
    let opened: Vec<String> = rows.iter().map(|row| page(&format!("?row={row}"))).collect();
    let panel = |page: &str| {
        page.split_once("<section class=\"panel\" id=\"panel\"")
            .unwrap()
            .1
            .split_once("</section>")
            .unwrap()
            .0
            .to_owned()
    };
    let call = opened.iter().map(|page| panel(page)).find(|panel| panel.contains("operation </span>test/run")).unwrap();
    for part in
        ["<h3>Input</h3>", "<h3>Error</h3>", "<h4>Receipt</h4>", "Grant always", "/t/default/runs/r1/events?after="]
    {
        assert!(call.contains(part), "{part}: {call}");
    }
    // A step has its calls.
    let step = opened.iter().map(|page| panel(page)).find(|panel| panel.contains("step </span>second")).unwrap();
    assert!(step.contains("<code>test/run</code>") && step.contains("<h4>Receipt</h4>"), "{step}");
    let sorted = opened.iter().map(|page| panel(page)).find(|panel| panel.contains("step </span>first")).unwrap();
    assert!(sorted.contains("&quot;n&quot;: 1") && !sorted.contains("Receipt"), "{sorted}");
    assert!(page("?row=999").contains("The run has no row <code>999</code>"));
    assert!(page("?row=%3Cb%3E").contains("The run has no row <code>&lt;b&gt;</code>"));
    let list = server.send("GET", "/t/default", &[], "").2;
    assert!(list.contains("denied at step second"), "the list gives the reason: {list}");
}

#[test]
fn who_answered_is_on_the_page_and_runs_are_found_by_text_and_time() {
    let folder = project();
    let server = Server::start(folder.path());
    server.post("/v1/default/runs", &[], &json!({"workflow": "ask", "run": "r1", "input": {"about": "Zaphod"}}));
    server.wait_for("r1", "suspended");
    server.post("/v1/default/runs/r1/approve", &[], &json!({"approved": true, "why": "all \"green\""}));
    server.wait_for("r1", "completed");
    let page = server.send("GET", "/t/default/runs/r1", &[], "").2;
    assert!(page.contains("<b>ship approved: all &quot;green&quot;</b> by local"), "{page}");
    // The workflow reads the same name.
    let events = server.get("/v1/default/runs/r1/events").1;
    let sent = events["events"].as_array().unwrap().iter().find(|event| event["kind"] == "signal-received").unwrap();
    let data = json!({"approved": true, "why": "all \"green\"", "by": "local"});
    assert_eq!(sent["event"]["signal-received"]["data"], data, "{sent}");
    let listed = |query: &str| {
        let (status, _, page) = server.send("GET", &format!("/t/default?{query}"), &[], "");
        assert_eq!(status, 200, "{page}");
        page.contains("/t/default/runs/r1\"")
    };
    // In the input and in an answer, whatever the case; not in the definition of the workflow.
    assert!(listed("text=zaphod") && listed("text=ALL+%22green") && !listed("text=asks") && !listed("text=none"));
    assert!(listed("text=zaphod&workflow=ask") && !listed("text=zaphod&workflow=greet"));
    assert!(listed("since=2026-01-01T00:00") && !listed("since=2100-01-01") && !listed("until=2026-01-01T00:00:00Z"));
    assert!(listed("since=2026-01-01&until=2100-01-01&text=zaphod"));
    let (status, _, refused) = server.send("GET", "/t/default?since=soon", &[], "");
    assert!(
        status == 400 && refused.contains("is not a time") && refused.contains("2026-01-02T03:04:05Z"),
        "{refused}"
    );
    let (_, found) = server.get("/v1/default/runs?since=2026-01-01&until=2100-01-01T00:00:00Z");
    assert_eq!(found["runs"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(server.get("/v1/default/runs?since=2100-01-01").1["runs"], json!([]));
    let (_, problem) = server.get("/v1/default/runs?until=soon");
    assert_eq!(problem["code"], "invalid-query", "{problem}");
    let workers = server.send("GET", "/t/default/workers", &[], "").2;
    assert!(workers.contains("(this server)") && workers.contains("Runs that requests started"), "{workers}");
}

#[test]
fn a_run_is_described_with_what_it_waits_for_as_lists_have_it() {
    let folder = project();
    let server = Server::start(folder.path());
    server.post("/v1/default/runs", &[], &json!({"workflow": "ask", "run": "r1"}));
    let run = server.wait_for("r1", "suspended");
    assert_eq!((&run["waits-for"], &run["stuck"]), (&json!(["approval ship"]), &json!(false)), "{run}");
    assert_eq!(run["questions"][0]["signal"]["question"], "Ship it?", "{run}");
    let (status, problem) = server.get("/v1/default/runs?status=foo");
    assert_eq!((status, &problem["code"]), (400, &json!("invalid-query")), "{problem}");
    assert!(problem["remedy"].as_str().unwrap().contains("suspended"), "{problem}");
    let (_, problem) = server.get("/v1/default/runs?foo=1");
    assert!(problem["detail"].as_str().unwrap().ends_with("`before`"), "{problem}");
    assert_eq!(server.send("POST", "/v1/default/runs/r1/cancel", &[], "").0, 202);
    server.wait_for("r1", "cancelled");
    let (_, _, found) = server.send("GET", "/t/default?workflow=ask&run=r", &[], "");
    let (_, _, none) = server.send("GET", "/t/default?workflow=greet", &[], "");
    assert!(found.contains("/t/default/runs/r1") && !none.contains("/t/default/runs/r1"), "{found}{none}");
    let (_, _, metrics) = server.send("GET", "/metrics", &[], "");
    let took = "opcell_run_seconds_count{tenant=\"default\",workflow=\"ask\",status=\"cancelled\"} 1";
    for part in [took, "opcell_build_info{version=", "process_start_time_seconds "] {
        assert!(metrics.contains(part), "{part}: {metrics}");
    }
}

#[test]
fn a_browser_gets_problems_as_pages_and_a_program_as_data() {
    let folder = project();
    token(folder.path(), &["new", "ci"]);
    let server = Server::start(folder.path());
    let browser =
        [("Accept", "text/html,application/xhtml+xml"), ("Content-Type", "application/x-www-form-urlencoded")];
    let (status, head, page) = server.send("POST", "/login", &browser, "token=wrong");
    assert_eq!(status, 401, "{page}");
    assert!(
        head.contains("text/html") && page.contains("<h1>Log in</h1>") && page.contains("name=\"token\""),
        "{page}"
    );
    assert!(head.to_ascii_lowercase().contains("style-src 'self'"), "{head}");
    let (_, head, body) = server.send("POST", "/login", &browser[1..], "token=wrong");
    assert!(head.contains("application/problem+json") && body.contains("token-required"), "{body}");
    let (status, _, page) = server.send("GET", "/nowhere", &browser[..1], "");
    assert!(status == 404 && page.contains("unknown-path"), "{page}");
}

/// Takes a name, and says it.
const GREETS: &str = r#"{:name "hello" :description "Greets someone"
 :inputs {:name {:type "string"} :times {:type "int" :default 1}}
 :steps [{:name "end" :type :exit :status :success :output {:from :workflow-input :path [:name]}}]}"#;

#[test]
fn a_run_is_started_by_the_form_of_its_workflow() {
    let folder = project();
    fs::write(folder.path().join("hello.edn"), GREETS).unwrap();
    let server = Server::start(folder.path());
    let (_, _, all) = server.send("GET", "/t/default/workflows", &[], "");
    assert!(all.contains("Greets someone") && all.contains("/t/default/workflows/hello"), "{all}");
    let (_, _, page) = server.send("GET", "/t/default/workflows/hello", &[], "");
    assert!(page.contains(r#"name="input.name""#) && page.contains("Default:"), "{page}");
    let start = |proof: &str, fields: &str| {
        let form = [("Content-Type", "application/x-www-form-urlencoded")];
        server.send("POST", "/t/default/workflows/hello/start", &form, &format!("proof={proof}&{fields}"))
    };
    let proof = proof(&page);
    let (status, head, _) = start(&proof, "input.name=Ada&input.times=&run=by-form");
    assert!(status == 303 && head.contains("/t/default/runs/by-form"), "{head}");
    assert_eq!(server.wait_for("by-form", "completed")["result"], "Ada");
    assert_eq!(start(&proof, "input.name=Ada&input.times=many&run=no").0, 400);
    assert_eq!(start("forged", "input.name=Ada&input.times=&run=no").0, 403);
    assert_eq!(server.get("/v1/default/runs/no").0, 404);
    assert_eq!(server.send("GET", "/t/default/workflows/hello/graph.svg", &[], "").0, 200);
    assert_eq!(server.send("GET", "/t/default/workflows/none", &[], "").0, 404);
}

#[test]
fn selected_runs_are_cancelled_and_deleted_after_a_confirmation() {
    let folder = project();
    fs::write(folder.path().join("twice.edn"), TWICE).unwrap();
    let server = Server::start(folder.path());
    for run in ["a1", "a2", "b1"] {
        server.post("/v1/default/runs", &[], &json!({"workflow": "twice", "run": run}));
        server.wait_for(run, "suspended");
    }
    let select = || server.send("GET", "/t/default/select?run=a", &[], "").2;
    let page = select();
    assert!(
        page.contains(r#"value="a1""#) && page.contains(r#"value="a2""#) && !page.contains(r#"value="b1""#),
        "{page}"
    );
    let proof = proof(&page);
    let press = |verb: &str, fields: &str| {
        let form = [("Content-Type", "application/x-www-form-urlencoded")];
        server.send("POST", &format!("/t/default/selected/{verb}"), &form, fields).0
    };
    assert_eq!(press("cancel", &format!("proof={proof}&run=a1")), 400, "no one said that they are sure");
    assert_eq!(press("cancel", "proof=forged&sure=yes&run=a1"), 403);
    assert_eq!(press("cancel", &format!("proof={proof}&sure=yes&run=a1&run=a2")), 303);
    for run in ["a1", "a2"] {
        server.wait_for(run, "cancelled");
    }
    assert_eq!(press("cancel", &format!("proof={proof}&sure=yes&run=a1")), 303, "one that has ended stays as it is");
    assert!(select().contains("Delete the selected runs"));
    assert_eq!(press("delete", &format!("proof={proof}&sure=yes&run=a1&run=b1")), 303);
    assert_eq!(server.get("/v1/default/runs/a1").0, 404);
    assert_eq!(server.get("/v1/default/runs/a2").1["status"], "cancelled");
    assert_eq!(server.get("/v1/default/runs/b1").1["status"], "suspended", "it has not ended");
}
