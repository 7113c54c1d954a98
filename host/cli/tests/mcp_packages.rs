//! MCP with the programs of its own makers: their inspector, from npm, as a client of `opcell mcp` and of the server,
//! and their example servers, from npm and PyPI, under documents.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

#[path = "support/guest.rs"]
mod guest;
#[path = "support/python.rs"]
mod python;
#[path = "support/server.rs"]
mod server;

use serde_json::{Value, json};
use server::{PATIENCE, Server, opcell};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Instant,
};

/// The packages that are installed from npm, into the target folder.
const PACKAGES: [&str; 5] = [
    "@modelcontextprotocol/client@2.4.0",
    "@modelcontextprotocol/inspector@2.12.0",
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
];

/// Servers of PyPI. Those of 2026.10 speak revision 2026-07-28, and refuse the handshake once they were asked for it.
const PYTHON_SERVERS: [&str; 2] = ["mcp-server-git==2026.10.19", "mcp-server-time==2026.10.19"];

/// The folder of the packages, made once; `None`, after a line on stderr, where they cannot be had.
fn packages() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcp-packages");
    fs::create_dir_all(&folder).unwrap();
    // One test at a time: each would remove what the other installs.
    let lock = fs::File::create(folder.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    let complete = folder.join("complete");
    if fs::read_to_string(&complete).unwrap_or_default() != PACKAGES.join(" ") {
        // A package of its own: npm would install into the next one above.
        fs::write(folder.join("package.json"), r#"{"name": "clients", "private": true}"#).unwrap();
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts"]).args(PACKAGES).current_dir(&folder);
        let failed = match npm.output() {
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = failed {
            eprintln!("SKIPPED: MCP's own programs could not be installed from npm: {error}");
            return None;
        }
        fs::write(complete, PACKAGES.join(" ")).unwrap();
    }
    Some(folder.join("node_modules"))
}

/// The inspector in its command-line mode, with the servers of a file.
struct Inspector {
    program: PathBuf,
    folder: PathBuf,
}

impl Inspector {
    /// Returns the output, and the exit code.
    fn ask(&self, server: &str, arguments: &[&str]) -> (Value, String, Option<i32>) {
        let output = Command::new(&self.program)
            .args(["--cli", "--config", "servers.json", "--server", server])
            .args(arguments)
            .current_dir(&self.folder)
            .env("HOME", &self.folder)
            .env("MCP_INSPECTOR_SECRET_STORE", "memory")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (serde_json::from_slice(&output.stdout).unwrap_or_default(), said, output.status.code())
    }
}

fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let echo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cli/shared/echo/test.guest.wat");
    fs::write(folder.path().join("test.wasm"), guest::component(&echo)).unwrap();
    write(
        "opcell.toml",
        "workflows = [\".\"]\nskill-folders = [\"skills\"]\n\n[journal]\npath = \"runs.db\"\n\n[plugins.test]\n\
         path = \"test.wasm\"\n",
    );
    for (skill, more) in [("bees", ""), ("secret", "disable-model-invocation: true\n")] {
        fs::create_dir_all(folder.path().join("skills").join(skill)).unwrap();
        let head = format!("---\nname: {skill}\ndescription: Knows {skill}\n{more}---\n");
        write(&format!("skills/{skill}/SKILL.md"), &format!("{head}See [the hive](a hive.md).\n"));
        write(&format!("skills/{skill}/a hive.md"), "Six sides.\n");
    }
    write(
        "greet.edn",
        r#"{:name "greet" :description "Greets"
 :steps [{:name "greet" :type :exit :status :success :output {:from :workflow-input :path [:name]}}]}"#,
    );
    write(
        "ask.edn",
        r#"{:name "ask" :description "Asks" :steps [{:name "ask" :type :wait :signal "ship" :approval true}]}"#,
    );
    folder
}

#[test]
fn the_inspector_lists_and_calls_over_both_transports() {
    let Some(modules) = packages() else { return };
    let folder = project();
    let made = opcell(folder.path()).args(["token", "new", "inspector", "--scope", "run", "--scope", "read"]).output();
    let token = String::from_utf8(made.unwrap().stdout).unwrap().trim().to_owned();
    let server = Server::start_with(folder.path(), &["--mcp-workflow", "greet", "--mcp-workflow", "ask"]);
    let url = format!("http://{}/v1/default/mcp", server.address);
    let stdio = ["mcp", "--workflow", "greet", "--workflow", "ask"];
    let command = json!({"command": env!("CARGO_BIN_EXE_opcell"), "args": stdio, "cwd": folder.path()});
    let remote = |token: &str| json!({"type": "streamable-http", "url": url, "headers": {"Authorization": format!("Bearer {token}")}});
    let servers = json!({"mcpServers": {"stdio": command, "http": remote(&token), "stranger": remote("opcell_wrong")}});
    fs::write(folder.path().join("servers.json"), servers.to_string()).unwrap();
    let inspector = Inspector { program: modules.join(".bin/mcp-inspector"), folder: folder.path().to_owned() };
    for transport in ["stdio", "http"] {
        // `--strict` fails for schemas that some client cannot read.
        let (listed, said, code) = inspector.ask(transport, &["--method", "tools/list", "--strict"]);
        let tools = listed["tools"].as_array().unwrap_or_else(|| panic!("{transport}: {said}"));
        let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!((names, code), (vec!["opcell_run", "run_ask", "run_greet", "test_run"], Some(0)), "{said}");
        let call = |tool: &str, arguments: &[&str]| {
            let mut all = vec!["--method", "tools/call", "--tool-name", tool];
            for argument in arguments {
                all.extend(["--tool-arg", argument]);
            }
            inspector.ask(transport, &all)
        };
        let (greeted, said, _) = call("run_greet", &["name=Ada"]);
        assert_eq!(greeted["content"], json!([{"type": "text", "text": "Ada"}]), "{transport}: {said}");
        assert_eq!(greeted["structuredContent"]["status"], "completed");
        // An operation: its result, and the receipt of its cell.
        let (echoed, said, _) = call("test_run", &["n=7"]);
        assert!(echoed["content"][0]["text"].as_str().is_some_and(|text| text.contains('7')), "{echoed} {said}");
        assert!(echoed["_meta"]["opcell/receipt"]["duration-us"].is_number(), "{echoed}");
        // A run that waits is a task, which this client does not poll: it is asked for by its ID.
        let (asked, said, _) = call("run_ask", &[]);
        assert!(asked["taskId"].is_string() && asked["status"] == "working", "{transport}: {asked} {said}");
        let listed = opcell(folder.path()).args(["runs", "list", "--json"]).output().unwrap();
        let runs: Value = serde_json::from_slice(&listed.stdout).unwrap();
        let run =
            runs.as_array().unwrap().iter().find(|run| run["workflow"] == "ask").unwrap()["run"].as_str().unwrap();
        let (looked, said, _) = call("opcell_run", &[&format!("run={run}")]);
        assert_eq!(looked["structuredContent"]["status"], "suspended", "{transport}: {said}");
        let (refused, said, _) = call("opcell_run", &["run=none"]);
        assert_eq!(refused["isError"], true, "{transport}: {refused} {said}");
        let (skills, said, _) = inspector.ask(transport, &["--method", "resources/list"]);
        let uris: Vec<&Value> = skills["resources"].as_array().unwrap().iter().map(|skill| &skill["uri"]).collect();
        assert_eq!(uris, ["skill://bees/SKILL.md"], "{transport}: {said}");
        for (uri, text) in [("skill://bees/SKILL.md", "See [the hive]"), ("skill://bees/a%20hive.md", "Six sides.")] {
            let (read, said, _) = inspector.ask(transport, &["--method", "resources/read", "--uri", uri]);
            assert!(read["contents"][0]["text"].as_str().is_some_and(|found| found.contains(text)), "{read} {said}");
        }
        for uri in ["skill://secret/SKILL.md", "skill://bees/../secret/SKILL.md", "skill://bees/%2e%2e/x"] {
            let (_, said, code) = inspector.ask(transport, &["--method", "resources/read", "--uri", uri]);
            assert!(code != Some(0) && said.contains("there is no resource"), "{uri}: {said}");
        }
        let (_, said, code) = call("none", &[]);
        assert!(code != Some(0) && said.contains("none"), "{transport}: {said}");
    }
    let (_, said, code) = inspector.ask("stranger", &["--method", "tools/list"]);
    // It would log in, and there is no one to do so.
    assert!(code != Some(0) && said.contains("auth_required"), "{code:?} {said}");
}

/// Lists the tools and calls one that asks: over HTTP for a URL, else over stdio.
const CLIENT: &str = r#"
const [modules, mode, target, ...args] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport } = await import(modules + '/@modelcontextprotocol/client/dist/index.mjs');
const { StdioClientTransport } = await import(modules + '/@modelcontextprotocol/client/dist/stdio.mjs');
const options = { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } };
const client = new Client({ name: 'test', version: '1' }, options);
client.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content: { approved: true } }));
const http = target.startsWith('http');
const stdio = () => new StdioClientTransport({ command: target, args, env: process.env, stderr: 'inherit' });
await client.connect(http ? new StreamableHTTPClientTransport(new URL(target)) : stdio());
const tools = (await client.listTools()).tools.map((tool) => tool.name);
const greeted = await client.callTool({ name: 'run_greet', arguments: { name: 'Ada' } });
const asked = await client.callTool({ name: 'run_ask', arguments: {} });
console.log(JSON.stringify({ tools, greeted: greeted.content[0].text, asked: asked.structuredContent.status }));
await client.close();
process.exit(0);
"#;

#[test]
fn the_typescript_sdk_asks_its_user_what_a_run_asks_over_both_transports() {
    let Some(modules) = packages() else { return };
    let folder = project();
    fs::write(folder.path().join("client.mjs"), CLIENT).unwrap();
    let server = Server::start_with(folder.path(), &["--mcp-workflow", "greet", "--mcp-workflow", "ask"]);
    let url = format!("http://{}/v1/default/mcp", server.address);
    let stdio = [env!("CARGO_BIN_EXE_opcell"), "mcp", "--workflow", "greet", "--workflow", "ask"];
    for (mode, asked) in [("auto", "completed"), ("legacy", "suspended")] {
        for target in [&[url.as_str()][..], &stdio[..]] {
            let mut client = Command::new("node");
            client.arg("client.mjs").arg(&modules).arg(mode).args(target);
            let output = client.current_dir(folder.path()).env("HOME", folder.path()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{mode}: {said}"));
            let tools = ["opcell_run", "run_ask", "run_greet", "test_run"];
            assert_eq!(answer, json!({"tools": tools, "greeted": "Ada", "asked": asked}), "{mode}: {said}");
        }
    }
}

/// One of their servers over HTTP, on a port of its own.
struct Everything(Child);

impl Everything {
    fn start(modules: &Path) -> (Self, u16) {
        // Asked for and given back: nothing tells the port that the server would choose.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut child = Command::new("node")
            .arg(modules.join("@modelcontextprotocol/server-everything/dist/index.js"))
            .arg("streamableHttp")
            .env("PORT", port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < PATIENCE && child.try_wait().unwrap().is_none(), "the server does not start");
            thread::sleep(std::time::Duration::from_millis(50));
        }
        (Self(child), port)
    }
}

impl Drop for Everything {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A step for each tool, whose whole result is kept.
fn steps(tools: &[(&str, Value)]) -> String {
    let step = |(tool, arguments): &(&str, Value)| {
        let inputs: serde_json::Map<String, Value> = arguments
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| {
                let kind = match value {
                    Value::String(_) => "string",
                    Value::Number(_) => "int",
                    Value::Array(_) => "array",
                    _ => "object",
                };
                (name.clone(), json!({"type": kind, "value": value}))
            })
            .collect();
        let outputs = json!({"all": {"type": "object", "value": "$result"}});
        json!({"id": tool, "type": "tool", "tool": tool, "inputs": inputs, "outputs": outputs})
    };
    let outputs: serde_json::Map<String, Value> = tools
        .iter()
        .map(|(tool, _)| ((*tool).to_owned(), json!({"type": "object", "value": format!("$steps.{tool}.output.all")})))
        .collect();
    json!({"outputs": outputs, "steps": tools.iter().map(step).collect::<Vec<_>>()}).to_string()
}

#[test]
fn the_example_servers_of_mcp_are_listed_and_called_from_a_document() {
    let Some(modules) = packages() else { return };
    let (_remote, port) = Everything::start(&modules);
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::create_dir(root.join("data")).unwrap();
    fs::write(root.join("data/bees.txt"), "bees\n").unwrap();
    let server = |name: &str| modules.join(format!("@modelcontextprotocol/server-{name}/dist/index.js"));
    let project = format!(
        r#"workflows = ["."]

[mcp.everything]
command = ["node", "{everything}"]

[mcp.remote]
url = "http://127.0.0.1:{port}/mcp"
private = true

[mcp.files]
command = ["node", "{files}", "{data}"]
confine = true
read = ["{modules}"]
write = ["data"]

[mcp.memory]
command = ["node", "{memory}"]
env = ["MEMORY_FILE_PATH"]

[tools]
echo = {{ mcp = "everything", tool = "echo" }}
sum = {{ mcp = "remote", tool = "get-sum" }}
image = {{ mcp = "everything", tool = "get-tiny-image" }}
weather = {{ mcp = "everything", tool = "get-structured-content" }}
reference = {{ mcp = "remote", tool = "get-resource-reference" }}
read = {{ mcp = "files", tool = "read_text_file" }}
write = {{ mcp = "files", tool = "write_file" }}
outside = {{ mcp = "files", tool = "write_file" }}
remember = {{ mcp = "memory", tool = "create_entities" }}
recall = {{ mcp = "memory", tool = "read_graph" }}
"#,
        everything = server("everything").display(),
        files = server("filesystem").display(),
        memory = server("memory").display(),
        data = root.join("data").display(),
        modules = modules.canonicalize().unwrap().display(),
    );
    fs::write(root.join("opcell.toml"), project).unwrap();
    let path = |name: &str| root.join("data").join(name).display().to_string();
    let entity = json!([{"name": "Ada", "entityType": "person", "observations": ["keeps bees"]}]);
    let document = steps(&[
        ("echo", json!({"message": "bees"})),
        ("sum", json!({"a": 2, "b": 3})),
        ("image", json!({})),
        ("weather", json!({"location": "Chicago"})),
        ("reference", json!({"resourceType": "Text", "resourceId": 1})),
        ("write", json!({"path": path("new.txt"), "content": "wasps"})),
        ("read", json!({"path": path("bees.txt")})),
        ("remember", json!({"entities": entity})),
        ("recall", json!({})),
    ]);
    fs::write(root.join("all.yaml"), document).unwrap();
    fs::write(root.join("outside.yaml"), steps(&[("outside", json!({"path": "/etc/wasps", "content": "x"}))])).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = opcell(&root);
        let output = command.args(arguments).env("MEMORY_FILE_PATH", root.join("memory.json")).output().unwrap();
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (said[0].clone(), said[1].clone(), output.status.code())
    };
    assert_eq!(run(&["trust"]).2, Some(0));
    let (listed, said, code) = run(&["mcp", "list", "--json"]);
    assert_eq!(code, Some(0), "{listed} {said}");
    for tool in ["echo", "get-sum", "read_text_file", "create_entities"] {
        assert!(listed.contains(&format!("\"{tool}\"")), "{tool}: {listed}");
    }
    let (printed, said, code) = run(&["run", "all.yaml", "--quiet"]);
    assert_eq!(code, Some(0), "{said}");
    let result: Value = serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}"));
    assert_eq!(result["echo"], "Echo: bees");
    assert!(result["sum"].as_str().is_some_and(|sum| sum.contains("is 5")), "{result}");
    let kinds: Vec<&Value> = result["image"].as_array().unwrap().iter().map(|part| &part["type"]).collect();
    assert_eq!(kinds, ["text", "image", "text"], "{result}");
    assert!(result["weather"]["temperature"].is_number(), "{result}");
    assert!(result["reference"].to_string().contains("\"resource\""), "{result}");
    assert_eq!(result["read"]["content"], "bees\n", "{result}");
    assert_eq!(fs::read_to_string(root.join("data/new.txt")).unwrap(), "wasps");
    assert_eq!(result["recall"]["entities"][0]["name"], "Ada", "{result}");
    let (_, said, code) = run(&["run", "outside.yaml", "--quiet"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("Access denied"), "{said}");
}

#[test]
fn a_package_of_pypi_is_added_with_its_digests_and_starts_confined_and_without_the_network() {
    // Whether PyPI can be reached is found out by itself.
    if python::installed(&PYTHON_SERVERS).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::write(root.join("opcell.toml"), "workflows = [\".\"]\n").unwrap();
    let package = json!({
        "registryType": "pypi", "identifier": "mcp-server-time", "version": "2026.10.19", "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
        "packageArguments": [{"type": "named", "name": "--local-timezone", "value": "UTC"}],
    });
    let described = json!({"name": "io.github.modelcontextprotocol/time", "version": "2026.10.19",
        "description": "Tells the time.", "packages": [package]});
    fs::write(root.join("server.json"), described.to_string()).unwrap();
    let run = |arguments: &[&str]| {
        let output = opcell(&root).args(arguments).output().unwrap();
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (said[0].clone(), said[1].clone(), output.status.code())
    };
    let (added, said, code) = run(&["mcp", "add", "server.json", "--yes"]);
    assert_eq!(code, Some(0), "{added} {said}");
    assert!(added.contains("pinned 2 tools of time"), "{added} {said}");
    let project = fs::read_to_string(root.join("opcell.toml")).unwrap();
    assert!(project.contains("\"opcell_start.py\", \"--local-timezone=UTC\""), "{project}");
    // Exact versions, each with the digest of its file.
    let requirements = fs::read_to_string(root.join("mcp/time/requirements.txt")).unwrap();
    assert!(requirements.lines().any(|line| line.starts_with("mcp-server-time==2026.10.19 --hash=sha256:")));
    assert!(requirements.lines().all(|line| line.split(" --hash=sha256:").nth(1).is_some_and(|sum| sum.len() == 64)));
    if !project.contains("confine = true") {
        eprintln!("SKIPPED: this kernel cannot confine a server");
        return;
    }
    // Nothing is fetched or resolved when it starts.
    let alone = project.replace("network = true", "network = false")
        + "\n[tools]\nnoon = { mcp = \"time\", tool = \"convert_time\" }\n";
    fs::write(root.join("opcell.toml"), alone).unwrap();
    let at = json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    fs::write(root.join("noon.yaml"), steps(&[("noon", at)])).unwrap();
    assert_eq!(run(&["trust"]).2, Some(0));
    let (printed, said, code) = run(&["run", "noon.yaml", "--quiet"]);
    assert!(code == Some(0) && printed.contains("T21:00:00+09:00"), "{printed} {said}");
    // A checkout has no packages: pip brings the same files back.
    fs::remove_dir_all(root.join("mcp/time/site")).unwrap();
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--require-hashes", "--only-binary", ":all:", "--no-compile"]);
    let again = pip.args(["--target", "site", "-r", "requirements.txt"]).current_dir(root.join("mcp/time")).output();
    let again = again.unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    // Consent covers every file of them.
    assert_eq!(run(&["trust"]).2, Some(0));
    let (printed, said, code) = run(&["run", "noon.yaml", "--quiet"]);
    assert!(code == Some(0) && printed.contains("T21:00:00+09:00"), "{printed} {said}");
}

#[test]
fn the_servers_of_the_python_sdk_are_listed_and_called_from_a_document() {
    let Some(bin) = python::installed(&PYTHON_SERVERS) else { return };
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let project = format!(
        r#"workflows = ["."]

[mcp]
git = {{ command = ["{bin}/mcp-server-git"] }}
time = {{ command = ["{bin}/mcp-server-time", "--local-timezone", "UTC"] }}

[tools]
noon = {{ mcp = "time", tool = "convert_time" }}
nowhere = {{ mcp = "time", tool = "convert_time" }}
status = {{ mcp = "git", tool = "git_status" }}
"#,
        bin = bin.display()
    );
    fs::write(root.join("opcell.toml"), project).unwrap();
    let at = |zone: &str| json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": zone});
    let document = steps(&[("noon", at("Asia/Tokyo")), ("status", json!({"repo_path": root.display().to_string()}))]);
    fs::write(root.join("all.yaml"), document).unwrap();
    fs::write(root.join("nowhere.yaml"), steps(&[("nowhere", at("Nowhere/Else"))])).unwrap();
    assert!(
        Command::new("git")
            .args(["init", "--quiet", "--initial-branch=bees"])
            .current_dir(&root)
            .status()
            .unwrap()
            .success()
    );
    let run = |arguments: &[&str]| {
        let output = opcell(&root).args(arguments).output().unwrap();
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (said[0].clone(), said[1].clone(), output.status.code())
    };
    assert_eq!(run(&["trust"]).2, Some(0));
    let (listed, said, code) = run(&["mcp", "list", "--json"]);
    assert_eq!(code, Some(0), "{listed} {said}");
    for tool in ["convert_time", "git_status"] {
        assert!(listed.contains(&format!("\"{tool}\"")), "{tool}: {listed}");
    }
    let (printed, said, code) = run(&["run", "all.yaml", "--quiet"]);
    assert_eq!(code, Some(0), "{said}");
    let result: Value = serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}"));
    assert!(result["noon"].to_string().contains("T21:00:00+09:00"), "{result}");
    assert!(result["status"].to_string().contains("On branch bees"), "{result}");
    let (_, said, code) = run(&["run", "nowhere.yaml", "--quiet"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("Nowhere/Else"), "{said}");
}
