//! `opcell serve` and `opcell mcp` under clients that others wrote: Schemathesis and the MCP SDK from PyPI, and a
//! browser.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

#[path = "support/python.rs"]
mod python;
#[path = "support/server.rs"]
mod server;

use python::installed;
use serde_json::json;
use server::{Server, opcell};
use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{Arc, Condvar, Mutex},
    thread,
};

/// Readers of descriptions of APIs, from PyPI.
const READERS: [&str; 2] = ["openapi-spec-validator==0.9.0", "openapi-python-client==0.29.1"];

/// A generator of types in TypeScript, the client that uses them, and the compiler that checks both, from npm.
const TYPESCRIPT: [&str; 3] = ["openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9.3"];

/// The package of npm that looks for barriers on pages.
const AXE: [&str; 1] = ["axe-core@4.14.1"];

/// A linter of descriptions of APIs, from npm.
const LINTER: &str = "@redocly/cli@2.77.0";

/// The packages that are installed from PyPI, into the target folder.
const PACKAGES: [&str; 3] = ["schemathesis==4.32.5", "mcp==2.3.0", "playwright==1.65.2"];

/// Text that would be code if a page or a schema took it for some.
const HOSTILE: &str = "<img src=x onerror=alert(1)><script>document.title='taken'</script>";

fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("opcell.toml", "workflows = [\".\"]\n\n[journal]\npath = \"runs.db\"\n");
    write(
        "greet.edn",
        r#"{:name "greet" :description "Greets"
 :steps [{:name "greet" :type :exit :status :success :output {:from :workflow-input :path [:name]}}]}"#,
    );
    let ask = r#"{:name "ask" :description "Asks" :steps [{:name "ask" :type :wait :signal "ship" :approval true :question "Q"}]}"#;
    write("ask.edn", &ask.replace('Q', HOSTILE));
    folder
}

/// A folder with the programs of the packages, made once; `None`, after a line on stderr, where they cannot be had.
fn programs() -> Option<PathBuf> {
    installed(&PACKAGES)
}

/// A folder with packages from npm, made once; `None`, after a line on stderr, where they cannot be had.
fn packages(name: &str, packages: &[&str]) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    // One test at a time: each would remove what the other installs.
    let lock = fs::File::create(folder.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    let complete = folder.join("complete");
    if fs::read_to_string(&complete).unwrap_or_default() == packages.join(" ") {
        return Some(folder);
    }
    // A package of its own: npm would install into the next one above.
    fs::write(folder.join("package.json"), r#"{"name": "clients", "private": true, "type": "module"}"#).unwrap();
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts"]).args(packages).current_dir(&folder);
    let failed = match npm.output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(said(&output)),
        Err(error) => Some(error.to_string()),
    };
    if let Some(error) = failed {
        eprintln!("SKIPPED: {} could not be installed from npm: {error}", packages.join(" and "));
        return None;
    }
    fs::write(complete, packages.join(" ")).unwrap();
    Some(folder)
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn no_request_that_the_description_allows_makes_the_server_fail() {
    let folder = project();
    let server = Server::start(folder.path());
    server.post("/v1/default/runs", &[], &json!({"workflow": "ask", "run": "r1"}));
    server.wait_for("r1", "suspended");
    let Some(bin) = programs() else { return };
    // With names that exist, so that more than the refusal of unknown ones is tried, and with none.
    let known = "[parameters]\n\"path.tenant\" = \"default\"\n\"path.run\" = \"r1\"\n\"path.workflow\" = \"ask\"\n";
    for parameters in [known, ""] {
        fs::write(folder.path().join("schemathesis.toml"), parameters).unwrap();
        let output = Command::new(bin.join("schemathesis"))
            .args(["run", &format!("http://{}/openapi.json", server.address), "--no-color"])
            .args(["--checks", "not_a_server_error,content_type_conformance,response_schema_conformance"])
            .args(["--phases", "coverage,fuzzing", "--max-examples", "15", "--generation-deterministic"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", said(&output));
    }
    assert_eq!(server.get("/ready").0, 200);
}

/// Lists the tools, calls one, and calls one that asks: over HTTP for a URL, else over stdio.
const CLIENT: &str = r#"
import asyncio, json, sys
from mcp import Client, StdioServerParameters
from mcp.types import ElicitResult

async def approve(context, params):
    return ElicitResult(action="accept", content={"approved": True})

async def main():
    mode, target = sys.argv[1], sys.argv[2]
    if not target.startswith("http"):
        target = StdioServerParameters(command=target, args=sys.argv[3:], cwd=".")
    async with Client(target, mode=mode, elicitation_callback=approve) as client:
        tools = (await client.list_tools()).tools
        result = await client.call_tool("run_greet", {"name": "Ada"})
        asked = await client.call_tool("run_ask", {})
        print(json.dumps({"tools": [tool.name for tool in tools], "text": result.content[0].text,
            "error": result.is_error, "asked": asked.structured_content["status"]}))

asyncio.run(main())
"#;

#[test]
fn the_python_sdk_of_mcp_lists_and_calls_over_both_transports() {
    let Some(bin) = programs() else { return };
    let folder = project();
    fs::write(folder.path().join("client.py"), CLIENT).unwrap();
    let server = Server::start_with(folder.path(), &["--mcp-workflow", "greet", "--mcp-workflow", "ask"]);
    let url = format!("http://{}/v1/default/mcp", server.address);
    let stdio = [env!("CARGO_BIN_EXE_opcell"), "mcp", "--workflow", "greet", "--workflow", "ask"];
    // The current revision asks its user what the run asks; those before are told the run, which waits.
    let modes = [("auto", "completed"), ("legacy", "suspended")];
    let targets = [vec![url.as_str()], stdio.to_vec()];
    for (mode, asked, target) in
        modes.iter().flat_map(|(mode, asked)| targets.iter().map(move |target| (mode, asked, target)))
    {
        let mut client = Command::new(bin.join("python"));
        client.arg("client.py").arg(mode).args(target).current_dir(folder.path()).env("HOME", folder.path());
        let output = client.output().unwrap();
        let answer: serde_json::Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
        let tools = ["opcell_run", "run_ask", "run_greet"];
        assert_eq!(answer, json!({"tools": tools, "text": "Ada", "error": false, "asked": asked}), "{mode}");
    }
}

/// A browser; `None`, after a line on stderr, without one.
fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name))).find(|at| at.is_file());
    if found.is_none() {
        eprintln!(
            "SKIPPED: no Chromium is installed (Debian: apt-get install chromium); no page was tried in a browser"
        );
    }
    found
}

/// The page of a path as a browser leaves it, and what it had to say; `None` without one.
fn browse(folder: &Path, url: &str) -> Option<(String, String)> {
    let output = Command::new(browser()?)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--timeout=5000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", folder.join("browser").display()))
        .arg(url)
        .env("HOME", folder)
        .output()
        .unwrap();
    Some((String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

#[test]
fn a_browser_shows_the_pages_without_a_complaint_and_takes_no_text_for_code() {
    let folder = project();
    let server = Server::start(folder.path());
    let greet = json!({"workflow": "greet", "run": "r2", "input": {"name": HOSTILE}});
    server.post("/v1/default/runs", &[], &greet);
    server.wait_for("r2", "completed");
    server.post("/v1/default/runs", &[], &json!({"workflow": "ask", "run": "r1"}));
    server.wait_for("r1", "suspended");
    let pages: [(&str, &[&str]); 9] = [
        ("/", &["r1", "r2", "approval ship", "suspended"]),
        ("/t/default/plugins", &["The project has no plugins."]),
        ("/t/default/triggers", &["The project has no triggers"]),
        ("/t/default/servers", &["The project has no MCP servers"]),
        ("/t/default/workflows", &["greet", "Greets", "Asks"]),
        ("/t/default/workflows/ask", &["Start a run", "ID of the run", "graph.svg"]),
        ("/t/default/runs/r1", &["Approve", "Refuse", "&lt;img src=x", "Timeline", "graph.svg"]),
        ("/t/default/runs/r2", &["completed", "&lt;script&gt;document.title", "Compare with run"]),
        ("/t/default/compare?a=r1&b=r2", &["Two runs"]),
    ];
    for (path, expected) in pages {
        let Some((dom, log)) = browse(folder.path(), &format!("http://{}{path}", server.address)) else { return };
        for text in expected {
            assert!(dom.contains(text), "{path} has no {text:?}:\n{dom}\n{log}");
        }
        assert!(!dom.contains("<title>taken"), "{path} ran what it was given:\n{dom}");
        let complaints: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
        assert!(complaints.is_empty(), "{path}: {complaints:?}");
    }
}

#[test]
fn a_person_uses_the_page_by_keyboard_narrow_dark_and_without_script() {
    let Some(bin) = programs() else { return };
    let Some(browser) = browser() else { return };
    let Some(axe) = packages("clients-axe", &AXE) else { return };
    let folder = project();
    let many = "inputs: { items: { type: array } }\nsteps:\n  - { id: each, type: transform, operation: filter, where: $item.ok, \
                each: $inputs.items, inputs: { items: { type: array, value: [] } }, outputs: { items: { type: array } } }\n";
    fs::write(folder.path().join("many.yaml"), many).unwrap();
    let server = Server::start(folder.path());
    let items: Vec<u32> = (0..300).collect();
    server.post("/v1/default/runs", &[], &json!({"workflow": "many", "run": "many", "input": {"items": items}}));
    server.wait_for("many", "completed");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/page.py");
    let output = Command::new(bin.join("python"))
        .arg(script)
        .arg(browser)
        .arg(format!("http://{}", server.address))
        .arg(axe.join("node_modules/axe-core/axe.min.js"))
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
}

/// A provider of models that begins each answer, and ends it after `GET /more`; its address.
fn slow_provider() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let may_end = Arc::new((Mutex::new(false), Condvar::new()));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let may_end = may_end.clone();
            thread::spawn(move || answer_slowly(&stream.unwrap(), &may_end));
        }
    });
    url
}

fn answer_slowly(stream: &TcpStream, (may_end, news): &(Mutex<bool>, Condvar)) {
    let mut read = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let at = head.len();
        if read.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
        match head[at..].to_ascii_lowercase().strip_prefix("content-length:") {
            Some(value) => length = value.trim().parse().unwrap(),
            None if head[at..].trim().is_empty() => break,
            None => {}
        }
    }
    read.read_exact(&mut vec![0; length]).unwrap();
    let mut write = stream;
    if head.starts_with("GET /more ") {
        *may_end.lock().unwrap() = true;
        news.notify_all();
        write.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").unwrap();
        return;
    }
    let mut say = |choice: serde_json::Value| {
        let event = json!({"model": "m", "choices": [choice]});
        // A reader that is gone is what one of the tests is about.
        write.write_all(format!("data: {event}\n\n").as_bytes()).is_ok()
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    { stream }.write_all(head.as_bytes()).unwrap();
    let half = "half <img src=x onerror=\"document.title='taken'\"> an answer";
    say(json!({"index": 0, "delta": {"reasoning_content": "hm, so"}}));
    say(json!({"index": 0, "delta": {"content": half}}));
    let mut may_end = may_end.lock().unwrap();
    while !*may_end {
        may_end = news.wait(may_end).unwrap();
    }
    *may_end = false;
    say(json!({"index": 0, "delta": {"content": ", and the rest"}}));
    say(json!({"index": 0, "delta": {}, "finish_reason": "stop"}));
    let _ = { stream }.write_all(b"data: [DONE]\n\n");
}

#[test]
fn a_person_sees_on_the_page_what_a_model_says_while_it_says_it() {
    let Some(bin) = programs() else { return };
    let Some(browser) = browser() else { return };
    let provider = slow_provider();
    let folder = project();
    let toml = fs::read_to_string(folder.path().join("opcell.toml")).unwrap();
    let models = format!(
        "\n[sessions]\ncontext-files = \"none\"\n\n[models.providers.slow]\napi = \"openai-completions\"\nbase-url = \"{provider}/v1/\"\n"
    );
    fs::write(folder.path().join("opcell.toml"), toml + &models).unwrap();
    let talk = r#"{:name "talk" :description "Talks" :steps [{:name "talk" :type :session :model "slow/m" :tools []
        :skills [] :contributions [{:type :template :text "Say." :vars {}}]}]}"#;
    fs::write(folder.path().join("talk.edn"), talk).unwrap();
    // The tests' home is the project: what is compiled is kept in it, and consent says that it leaves it out.
    fs::create_dir(folder.path().join(".cache")).unwrap();
    let trusted = opcell(folder.path()).arg("trust").output().unwrap();
    assert!(trusted.status.success(), "{}", said(&trusted));
    let server = Server::start(folder.path());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/live.py");
    let output = Command::new(bin.join("python"))
        .arg(script)
        .arg(browser)
        .arg(format!("http://{}", server.address))
        .arg(&provider)
        .current_dir(folder.path())
        .env("HOME", folder.path())
        .output()
        .unwrap();
    assert!(output.status.success() && said(&output).contains("done"), "{}", said(&output));
    let stopped = server.wait_for("stopped", "cancelled");
    assert_eq!(stopped["status"], "cancelled");
    let (_, events) = server.get("/v1/default/runs/stopped/events");
    assert!(events.to_string().contains(r#""received":"half <img"#), "{events}");
}

#[test]
fn a_client_that_is_generated_from_the_description_starts_approves_and_forks_a_run() {
    let folder = project();
    let server = Server::start(folder.path());
    let (_, _, description) = server.send("GET", "/openapi.json", &[], "");
    let file = folder.path().join("openapi.json");
    fs::write(&file, description).unwrap();
    let Some(bin) = installed(&READERS) else { return };
    let validated = Command::new(bin.join("openapi-spec-validator")).arg(&file).output().unwrap();
    assert!(validated.status.success(), "{}", said(&validated));
    let generated = Command::new(bin.join("openapi-python-client"))
        .args(["generate", "--meta", "none", "--output-path", "generated", "--path", "openapi.json"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(generated.status.success(), "{}", said(&generated));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/client.py");
    let used = Command::new(bin.join("python")).arg(script).arg(folder.path()).arg(&server.address).output().unwrap();
    assert!(used.status.success() && said(&used).contains("done"), "{}", said(&used));
}

#[test]
fn a_typescript_client_that_is_generated_from_the_description_starts_approves_and_forks_a_run() {
    let folder = project();
    let server = Server::start(folder.path());
    let (_, _, description) = server.send("GET", "/openapi.json", &[], "");
    let Some(packages) = packages("clients-typescript", &TYPESCRIPT) else { return };
    // Beside the packages, where their programs find each other; no other test uses these files.
    let sources = packages.join("sources");
    fs::create_dir_all(&sources).unwrap();
    fs::write(sources.join("openapi.json"), description).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/client.ts");
    fs::copy(script, sources.join("client.ts")).unwrap();
    let run = |program: &str, arguments: &[&str]| {
        let program = packages.join("node_modules/.bin").join(program);
        let output = Command::new(program).args(arguments).current_dir(&sources).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
    };
    run("openapi-typescript", &["openapi.json", "-o", "generated.ts"]);
    let checked = ["--strict", "--skipLibCheck", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom"];
    run("tsc", &[&checked[..], &["--outDir", "compiled", "client.ts", "generated.ts"]].concat());
    let used = Command::new("node").arg("compiled/client.js").arg(&server.address).current_dir(&sources).output();
    let used = used.unwrap();
    assert!(used.status.success() && said(&used).contains("done"), "{}", said(&used));
}

#[test]
fn a_linter_finds_nothing_wrong_with_the_description() {
    let folder = project();
    let server = Server::start(folder.path());
    let (_, _, description) = server.send("GET", "/openapi.json", &[], "");
    fs::write(folder.path().join("openapi.json"), description).unwrap();
    // It is a matter of whether npm has it: what it finds comes after.
    let has = Command::new("npx").args(["--yes", LINTER, "--version"]).current_dir(folder.path()).output();
    if !has.is_ok_and(|has| has.status.success()) {
        eprintln!("SKIPPED: {LINTER} could not be had from npm");
        return;
    }
    let linted = Command::new("npx")
        .args(["--yes", LINTER, "lint", "openapi.json"])
        .env("REDOCLY_TELEMETRY", "off")
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(linted.status.success(), "{}", said(&linted));
}
