//! Many tools behind one gateway, and many tasks at once: what a client's model must read, what a call costs, and that
//! each task ends once in bounded memory.
//!
//! The figures are printed (`cargo test -p opcell-cli --test mcp_load -- --nocapture`); only what does not depend on the
//! machine is asserted.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

#[path = "support/server.rs"]
mod server;

use serde_json::{Value, json};
use server::{PATIENCE, Server, opcell};
use std::{
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

const REVISION: &str = "2026-07-28";

/// Servers behind the gateway, and tools of each.
const SERVERS: usize = 40;
const TOOLS: usize = 25;

/// Calls whose median is printed.
const CALLS: usize = 200;

/// Tasks that wait at the same time, and the clients that start them.
const TASKS: usize = 1_000;
const CLIENTS: usize = 16;

/// Bytes of memory that 800 more tasks may take in a debug build. They take some 4 MiB.
const MAX_GROWTH_BYTES: u64 = 24 << 20;

fn message(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {
            "elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}},
        },
    });
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

/// A server at the standard input and output of a process.
struct Spoken {
    child: Child,
    write: ChildStdin,
    read: BufReader<ChildStdout>,
}

impl Spoken {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let (write, read) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, write, read }
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let line = self.line(method, params);
        let said: Value = serde_json::from_str(&line).unwrap();
        assert!(said["result"].is_object(), "{said}");
        said["result"].clone()
    }

    /// The text of an answer.
    fn line(&mut self, method: &str, params: Value) -> String {
        writeln!(self.write, "{}", message(method, params)).unwrap();
        loop {
            let mut line = String::new();
            assert!(self.read.read_line(&mut line).unwrap() > 0, "the server has ended");
            if line.contains(r#""id":7"#) {
                return line;
            }
        }
    }

    /// The pages of all tools, unread: reading a megabyte takes an unoptimised client longer than sending it takes.
    fn unread_tools(&mut self) -> usize {
        let (mut bytes, mut cursor) = (0, None);
        loop {
            let params = cursor.map_or_else(|| json!({}), |cursor: String| json!({"cursor": cursor}));
            let page = self.line("tools/list", params);
            bytes += page.len();
            let next = page.split_once(r#""nextCursor":""#).and_then(|(_, rest)| rest.split_once('"'));
            match next {
                Some((next, _)) => cursor = Some(next.to_owned()),
                None => return bytes,
            }
        }
    }

    /// Every tool, page by page.
    fn tools(&mut self) -> Vec<Value> {
        let (mut tools, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
            let page = self.ask("tools/list", params);
            tools.extend(page["tools"].as_array().unwrap().iter().cloned());
            cursor = page["nextCursor"].clone();
            if cursor.is_null() {
                return tools;
            }
        }
    }

    /// The median time of some calls.
    fn median(&mut self, tool: &str) -> Duration {
        let mut times: Vec<Duration> = (0..CALLS)
            .map(|_| {
                let began = Instant::now();
                let found = self.ask("tools/call", json!({"name": tool, "arguments": {"query": "bees"}}));
                assert_eq!(found["content"][0]["text"], "found", "{found}");
                began.elapsed()
            })
            .collect();
        times.sort_unstable();
        times[CALLS / 2]
    }
}

impl Drop for Spoken {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server with tools as servers have them: a description of a few lines, and a schema of four arguments.
const SERVED: &str = r#"while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"method":"server/discover"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}}' ;;
    *'"method":"tools/list"'*) while read -r list; do echo '{"jsonrpc":"2.0","id":'"$id"',"result":'"$list"'}'; done <"$1" ;;
    *'"method":"tools/call"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"resultType":"complete","content":[{"type":"text","text":"found"}]}}' ;;
  esac
done
"#;

fn gateway() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut project = "[journal]\npath = \"runs.db\"\n".to_owned();
    fs::write(folder.path().join("server.sh"), SERVED).unwrap();
    for server in 0..SERVERS {
        let tools: Vec<Value> = (0..TOOLS)
            .map(|tool| {
                let text = |about: &str| json!({"type": "string", "description": about});
                json!({
                    "name": format!("find_{tool}"),
                    "description": format!("Finds entries of the collection {server}-{tool}. Returns at most 50 of them, the newest first, each with its title, its address and the time of its last change. Use it before an entry is read or changed."),
                    "inputSchema": {"type": "object", "required": ["query"], "properties": {
                        "query": text("Words that the entry has, in any order."),
                        "since": text("Only entries that changed after this time, as RFC 3339."),
                        "label": text("Only entries with this label."),
                        "limit": {"type": "integer", "minimum": 1, "maximum": 50, "description": "The most entries that are returned."},
                    }},
                })
            })
            .collect();
        let list = json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": tools});
        fs::write(folder.path().join(format!("{server}.json")), format!("{list}\n")).unwrap();
        let _ = write!(project, "\n[mcp.s{server}]\ncommand = [\"sh\", \"server.sh\", \"{server}.json\"]\n");
    }
    fs::write(folder.path().join("opcell.toml"), project).unwrap();
    let trusted = opcell(folder.path()).arg("trust").output().unwrap();
    assert!(trusted.status.success(), "{trusted:?}");
    folder
}

fn bytes(tools: &[Value]) -> usize {
    tools.iter().map(|tool| tool.to_string().len()).sum()
}

#[test]
fn a_thousand_tools_cost_a_client_of_the_search_little_and_a_call_finds_its_server() {
    let folder = gateway();
    let start = |more: &[&str]| Spoken::start(opcell(folder.path()).args(["mcp", "--gateway"]).args(more));
    let mut all = start(&[]);
    let tools = all.tools();
    let of_servers = tools.iter().filter(|tool| tool["name"].as_str().unwrap().contains("__")).count();
    assert_eq!(of_servers, SERVERS * TOOLS);
    let whole = bytes(&tools);
    let began = Instant::now();
    let rounds = 5;
    for _ in 0..rounds {
        assert!(all.unread_tools() > whole);
    }
    let listing = began.elapsed() / rounds;
    let through = all.median("s7__find_3");
    drop(all);
    let mut direct = Spoken::start(Command::new("sh").args(["server.sh", "7.json"]).current_dir(folder.path()));
    let direct = direct.median("find_3");
    let filtered = bytes(&start(&["--tool", "s7/*"]).tools());
    let mut search = start(&["--search"]);
    let searched = bytes(&search.tools());
    let best = search.ask("tools/call", json!({"name": "search_tools", "arguments": {"query": "collection 31-12"}}));
    let found = best["structuredContent"]["tools"].clone();
    assert!(found.to_string().contains("s31__find_12"), "{best}");
    println!("build: {}", if cfg!(debug_assertions) { "debug" } else { "release" });
    println!("tools/list, {of_servers} tools of {SERVERS} servers, all pages, warm: {} us", listing.as_micros());
    println!("bytes of descriptions: all {whole}, of one server {filtered}, search {searched}");
    println!("bytes with the results of one search: {}", searched + found.to_string().len());
    println!(
        "a call, median of {CALLS}: direct {} us, through the gateway {} us",
        direct.as_micros(),
        through.as_micros()
    );
    // What a model of such a client reads, with the results of a search.
    assert!((searched + found.to_string().len()) * 20 <= whole, "{searched} of {whole}");
    assert!(filtered * 20 <= whole, "{filtered} of {whole}");
}

fn post(server: &Server, method: &str, params: Value) -> Value {
    let message = message(method, params);
    let bearer = format!("Bearer {}", server.token.as_deref().unwrap());
    let name = ["name", "taskId"].iter().find_map(|key| message["params"][*key].as_str());
    let mut headers = vec![
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", REVISION),
        ("Mcp-Method", method),
        ("Authorization", bearer.as_str()),
    ];
    headers.extend(name.map(|name| ("Mcp-Name", name)));
    let (status, _, body) = server.send("POST", "/v1/default/mcp", &headers, &message.to_string());
    let last = body.lines().filter_map(|line| line.strip_prefix("data:")).rfind(|data| data.contains('{'));
    serde_json::from_str(last.unwrap_or(&body).trim()).unwrap_or_else(|_| panic!("{status}: {body}"))
}

/// Does something for each item, as many at a time as there are clients.
fn each<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let (queue, done) = (Mutex::new(items), Mutex::new(Vec::new()));
    thread::scope(|threads| {
        for _ in 0..CLIENTS {
            threads.spawn(|| {
                loop {
                    let Some(item) = queue.lock().unwrap().pop() else { return };
                    let result = work(item);
                    done.lock().unwrap().push(result);
                }
            });
        }
    });
    done.into_inner().unwrap()
}

/// Bytes of memory that a process holds.
fn memory(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().map_or(0, |kib| kib << 10)
}

fn serve(folder: &Path) -> Server {
    Server::start_with(folder, &["--mcp-workflow", "ask"])
}

/// Clients that begin tasks, leave them waiting, and come back after a crash.
#[test]
fn a_thousand_tasks_wait_in_little_memory_survive_their_server_and_end_once_each() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("opcell.toml"), "workflows = [\".\"]\n\n[journal]\npath = \"runs.db\"\n").unwrap();
    fs::write(
        folder.path().join("ask.edn"),
        r#"{:name "ask" :description "Asks" :steps [{:name "ask" :type :wait :signal "ship" :approval true :question "Ship it?"}]}"#,
    )
    .unwrap();
    let server = serve(folder.path());
    let create = |server: &Server, count: usize| {
        each((0..count).collect(), |_| {
            let created = post(server, "tools/call", json!({"name": "run_ask", "arguments": {}}));
            let task = created["result"]["taskId"].clone();
            assert!(task.is_string(), "{created}");
            task
        })
    };
    let waits = |server: &Server, task: &Value| {
        let began = Instant::now();
        loop {
            let now = post(server, "tasks/get", json!({"taskId": task}))["result"].clone();
            match now["status"].as_str() {
                Some("input_required") => return now,
                Some("working") if began.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(20)),
                _ => panic!("{now}"),
            }
        }
    };
    let mut tasks = create(&server, TASKS / 5);
    each(tasks.iter().collect(), |task| waits(&server, task));
    let before = memory(&server);
    tasks.extend(create(&server, TASKS - TASKS / 5));
    each(tasks.iter().collect(), |task| waits(&server, task));
    let after = memory(&server);
    println!("memory of the server: {} KiB with 200 tasks, {} KiB with {TASKS}", before >> 10, after >> 10);
    assert!(after < before + MAX_GROWTH_BYTES, "{before} bytes, then {after}");
    // `kill -9`, while all of them wait.
    drop(server);
    let server = serve(folder.path());
    let began = Instant::now();
    each(tasks.iter().collect(), |task| {
        let asked = waits(&server, task);
        let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        let answer = json!({"action": "accept", "content": {"approved": true}});
        post(&server, "tasks/update", json!({"taskId": task, "inputResponses": {key: answer}}));
    });
    let results = each(tasks.iter().collect(), |task| {
        let began = Instant::now();
        loop {
            let now = post(&server, "tasks/get", json!({"taskId": task}))["result"].clone();
            if now["status"] == "completed" {
                return now["result"]["structuredContent"]["run"].as_str().unwrap().to_owned();
            }
            assert!(began.elapsed() < PATIENCE, "{now}");
            thread::sleep(Duration::from_millis(20));
        }
    });
    println!("{TASKS} tasks answered and ended after the restart in {} ms", began.elapsed().as_millis());
    let mut runs = results.clone();
    runs.sort_unstable();
    runs.dedup();
    assert_eq!((results.len(), runs.len()), (TASKS, TASKS));
    drop(server);
    let listed = opcell(folder.path()).args(["runs", "list", "--json", "--limit", "5000"]).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), TASKS);
    assert!(listed.iter().all(|run| run["status"] == "completed"));
}
