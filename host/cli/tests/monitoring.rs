//! The alerts and the dashboard that ship, against the metrics of a real server and a real Prometheus.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

#[path = "support/server.rs"]
mod server;

use regex::Regex;
use serde_json::{Value, json};
use server::{PATIENCE, Server};
use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A workflow that ends at its limit.
const SPENT: &str = r#"{:name "spent" :description "May enter one step, and has two" :limits {:total-visits 1}
 :steps [{:name "one" :type :transform :operation :filter :where "$item > 0"
          :inputs {:items {:from :workflow-input :path [:items]}}}
         {:name "two" :type :exit :status :success :output {:value 2}}]}"#;

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").canonicalize().unwrap()
}

fn is_installed(program: &str) -> bool {
    let is = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !is {
        eprintln!("SKIPPED: {program} is not installed (Debian: apt-get install prometheus)");
    }
    is
}

/// The expressions of the dashboard, with its variables filled in.
fn dashboard() -> Vec<String> {
    let dashboard: Value =
        serde_json::from_str(&fs::read_to_string(packaging().join("grafana/opcell.json")).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let expressions = targets.map(|target| target["expr"].as_str().unwrap());
    expressions.map(|text| text.replace("$tenant", ".*").replace("$__rate_interval", "1m")).collect()
}

#[test]
fn each_alert_that_ships_fires_and_only_then() {
    if !is_installed("promtool") {
        return;
    }
    for arguments in [["check", "rules", "alerts.yml"], ["test", "rules", "alerts.test.yml"]] {
        let output =
            Command::new("promtool").args(arguments).current_dir(packaging().join("prometheus")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    }
    let alerts = fs::read_to_string(packaging().join("prometheus/alerts.yml")).unwrap();
    let tests = fs::read_to_string(packaging().join("prometheus/alerts.test.yml")).unwrap();
    let names = Regex::new(r"- alert: (\w+)").unwrap();
    for name in names.captures_iter(&alerts) {
        assert!(tests.matches(&format!("alertname: {}\n", &name[1])).count() == 2, "{} is not fired", &name[1]);
    }
}

#[test]
fn alerts_and_dashboard_name_metrics_that_the_server_has() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.get("/v1/default/workflows");
    let (_, _, metrics) = server.send("GET", "/metrics", &[], "");
    let alerts = fs::read_to_string(packaging().join("prometheus/alerts.yml")).unwrap();
    let of_alerts: String = alerts.lines().filter(|line| line.trim_start().starts_with("expr:")).collect();
    let name = Regex::new(r"\b(?:opcell|process)_[a-z_]+\b").unwrap();
    let named: BTreeSet<String> = dashboard()
        .iter()
        .chain([&of_alerts])
        .flat_map(|text| name.find_iter(text).map(|name| name.as_str().to_owned()).collect::<Vec<_>>())
        .collect();
    assert!(named.len() > 20, "{named:?}");
    let has = |name: &str| metrics.contains(&format!("# TYPE {name} "));
    let lacks: Vec<&String> = named.iter().filter(|name| !has(name.strip_suffix("_bucket").unwrap_or(name))).collect();
    assert_eq!(lacks, Vec::<&String>::new(), "{metrics}");
    let counted = "opcell_http_requests_total{tenant=\"default\",method=\"GET\",route=\"/v1/{tenant}/workflows\",status=\"200\"} 1";
    assert!(metrics.contains(counted), "{metrics}");
    if is_installed("promtool") {
        let mut child = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        // 3: it reads them, and would name some otherwise.
        assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    }
}

/// A Prometheus that is stopped at the end of its test.
struct Prometheus {
    child: Child,
    address: String,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    fn start(folder: &Path, target: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = json!({
            "global": { "scrape_interval": "1s", "evaluation_interval": "1s" },
            "rule_files": [packaging().join("prometheus/alerts.yml")],
            "scrape_configs": [{ "job_name": "opcell", "static_configs": [{ "targets": [target] }] }],
        });
        fs::write(folder.join("prometheus.yml"), config.to_string()).unwrap();
        let address = format!("127.0.0.1:{port}");
        let child = Command::new("prometheus")
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
            .arg(format!("--web.listen-address={address}"))
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.join("prometheus.log")).unwrap())
            .spawn()
            .unwrap();
        Self { child, address }
    }

    /// An answer of its API; null while it does not listen yet.
    fn get(&self, path: &str) -> Value {
        let Ok(mut stream) = TcpStream::connect(&self.address) else { return Value::Null };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!("GET /api/v1/{path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address);
        let mut text = String::new();
        if stream.write_all(head.as_bytes()).and_then(|()| stream.read_to_string(&mut text)).is_err() {
            return Value::Null;
        }
        text.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str(body).ok()).unwrap_or(Value::Null)
    }

    fn query(&self, expression: &str) -> Value {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        self.get(&format!("query?query={encoded}"))
    }

    fn until(&self, path: &str, holds: impl Fn(&Value) -> bool) {
        let began = Instant::now();
        loop {
            let answer = self.get(path);
            if holds(&answer) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{answer}");
            thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn a_real_prometheus_answers_the_dashboard_and_fires_an_alert_for_a_fault() {
    if !is_installed("prometheus") {
        return;
    }
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(folder.path().join("opcell.toml"), "workflows = [\".\"]\n").unwrap();
    fs::write(folder.path().join("spent.edn"), SPENT).unwrap();
    let server = Server::start(folder.path());
    let prometheus = Prometheus::start(scratch.path(), &server.address);
    let is_up = |answer: &Value| answer["data"]["activeTargets"][0]["health"] == "up";
    prometheus.until("targets", is_up);
    for expression in dashboard() {
        let answer = prometheus.query(&expression);
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
    }
    let firing = |name: &str| {
        let name = name.to_owned();
        move |answer: &Value| {
            let alerts = answer["data"]["alerts"].as_array();
            alerts.is_some_and(|alerts| {
                alerts.iter().any(|alert| alert["labels"]["alertname"] == *name && alert["state"] == "firing")
            })
        }
    };
    assert!(!firing("OpcellLimitsReached")(&prometheus.get("alerts")));
    let (status, started) =
        server.post("/v1/default/runs", &[], &json!({ "workflow": "spent", "input": { "items": [1] } }));
    assert_eq!(status, 201, "{started}");
    let ended = server.wait_for(started["run"].as_str().unwrap(), "failed");
    assert_eq!(ended["reason"], "budget-exhausted", "{ended}");
    prometheus.until("alerts", firing("OpcellLimitsReached"));
}
