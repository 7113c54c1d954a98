//! The bytes that a model reads where it calls tools one by one, and where it writes programs: `cargo xtask bench
//! --program-tokens [FILE.json…]`. Each file is the answer of `tools/list` of an MCP server; without any, the tools are
//! those of `benches/programs/tools.json`. Of more tools than there are, the same come again under other names.
//!
//! A token is taken for four bytes. No model is asked: the calls of each task are those that it takes at least.

use anyhow::{Context as _, Result};
use opcell_ir::ir::CodeMode;
use opcell_session::code::{MAX_BYTES, declare};
use opcell_types::{ToolDescription, Value};
use serde_json::{Value as Json, json};
use std::fs;

/// Bytes of a token, about.
const TOKEN_BYTES: usize = 4;

const TOOLS: &str = include_str!("../../programs/tools.json");

/// A task, done by calls and by one program.
struct Task {
    name: &'static str,
    /// Rounds of the model, each with its calls and their results.
    rounds: Vec<Vec<(Json, Json)>>,
    /// The program that does the same, and its result.
    program: &'static str,
    result: Json,
}

fn main() -> Result<()> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let mut texts = Vec::new();
    for file in &files {
        texts.push(fs::read_to_string(file).with_context(|| format!("{file} cannot be read"))?);
    }
    if texts.is_empty() {
        texts.push(TOOLS.to_owned());
    }
    let mut known = Vec::new();
    for text in &texts {
        known.extend(tools(&serde_json::from_str(text).context("a file is not JSON")?)?);
    }
    println!(
        "{} tools of {}\n",
        known.len(),
        if files.is_empty() { "benches/programs/tools.json" } else { "the files" }
    );
    println!("{:>6}{:>14}{:>14}{:>14}{:>10}", "tools", "JSON", "TypeScript", "Python", "searched");
    for count in [10, 100, 1_000] {
        let tools = repeated(&known, count);
        let json = json_of(&tools).len();
        let script = declare(CodeMode::Javascript, &tools, MAX_BYTES);
        let python = declare(CodeMode::Python, &tools, MAX_BYTES);
        println!("{count:>6}{json:>14}{:>14}{:>14}{:>10}", script.text.len(), python.text.len(), script.left_out);
    }
    let tools = repeated(&known, 10);
    let (json, declared) = (json_of(&tools).len(), declare(CodeMode::Javascript, &tools, MAX_BYTES).text.len());
    println!(
        "\n{:<34}{:>7}{:>12}{:>10}{:>12}{:>7}",
        "task, with the first 10 tools", "rounds", "by tools", "tokens", "by program", "%"
    );
    for task in tasks() {
        let by_tools = read_by_tools(json, &task.rounds);
        let by_program = read_by_program(declared, task.program, &task.result);
        let share = by_program as f64 * 100.0 / by_tools as f64;
        let rounds = task.rounds.len() + 1;
        println!(
            "{:<34}{rounds:>7}{by_tools:>12}{:>10}{by_program:>12}{share:>7.1}",
            task.name,
            by_tools / TOKEN_BYTES
        );
    }
    Ok(())
}

/// The tools of an answer of `tools/list`, or of its result.
fn tools(answer: &Json) -> Result<Vec<ToolDescription>> {
    let list = ["/result/tools", "/tools"].iter().find_map(|place| answer.pointer(place)).unwrap_or(answer);
    let list = list.as_array().context("a file has no array `tools`")?;
    let tool = |tool: &Json| {
        let name = tool.get("name").and_then(Json::as_str).context("a tool has no name")?;
        let about = tool.get("description").and_then(Json::as_str).unwrap_or_default();
        let schema = tool.get("inputSchema").cloned().unwrap_or_else(|| json!({"type": "object"}));
        let results = tool.get("outputSchema").cloned().map(Value::from);
        Ok(ToolDescription::new(name, about, Value::from(schema)).with_results(results))
    };
    list.iter().map(tool).collect()
}

fn repeated(known: &[ToolDescription], count: usize) -> Vec<ToolDescription> {
    let named = |(at, tool): (usize, &ToolDescription)| match at / known.len() {
        0 => tool.clone(),
        again => tool.clone().named(format!("{}_{again}", tool.name)),
    };
    known.iter().cycle().take(count).enumerate().map(named).collect()
}

/// The tools as providers get them.
fn json_of(tools: &[ToolDescription]) -> String {
    let entry = |tool: &ToolDescription| {
        let parameters = Json::from(&tool.parameters);
        json!({"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": parameters}})
    };
    Json::from(tools.iter().map(entry).collect::<Vec<_>>()).to_string()
}

/// The bytes that a model reads in all rounds: the tools and everything so far, each time.
fn read_by_tools(tools: usize, rounds: &[Vec<(Json, Json)>]) -> usize {
    let (mut so_far, mut read) = (0, tools);
    for round in rounds {
        so_far += round.iter().map(|(call, result)| call.to_string().len() + result.to_string().len()).sum::<usize>();
        read += tools + so_far;
    }
    read
}

/// The same where it writes one program: two rounds.
fn read_by_program(declarations: usize, program: &str, result: &Json) -> usize {
    let call = json!({"name": "run_code", "arguments": {"source": program}}).to_string().len();
    2 * declarations + call + result.to_string().len()
}

fn call(name: &str, arguments: Json) -> Json {
    json!({"name": name, "arguments": arguments})
}

/// Files of a listing, as a server describes them.
fn listing(from: usize, count: usize) -> Json {
    let file = |at: usize| json!({"name": format!("report-{at:04}.md"), "size": 1_000 + at * 37, "modified": format!("2026-11-{:02}", 1 + at % 28), "kind": "file"});
    Json::from((from..from + count).map(file).collect::<Vec<_>>())
}

/// A text of a file.
fn text(bytes: usize) -> Json {
    Json::from("All work and no play makes for a dull report. ".repeat(bytes / 46))
}

/// The tasks: filter a listing, join two sources, paginate, retry, fan out.
fn tasks() -> Vec<Task> {
    let list = |arguments: Json| call("list_directory_with_sizes", arguments);
    let read = |path: String| call("read_text_file", json!({"path": path}));
    vec![
        Task {
            name: "filter a listing of 400 files",
            rounds: vec![vec![(list(json!({"path": "reports"})), listing(0, 400))]],
            program: "const all = await tools.list_directory_with_sizes({ path: \"reports\" });\n\
                      return all.filter((file) => file.size > 15000).map((file) => file.name);",
            result: Json::from((379..400).map(|at| format!("report-{at:04}.md")).collect::<Vec<_>>()),
        },
        Task {
            name: "join two sources of 200 rows",
            rounds: vec![vec![
                (list(json!({"path": "drafts"})), listing(0, 200)),
                (list(json!({"path": "published"})), listing(100, 200)),
            ]],
            program: "const [drafts, published] = await Promise.all([\"drafts\", \"published\"].map((path) => \
                      tools.list_directory_with_sizes({ path })));\nconst out = new Set(published.map(({ name }) => name));\n\
                      return drafts.filter(({ name }) => !out.has(name)).length;",
            result: json!(100),
        },
        Task {
            name: "10 pages of 50 entries",
            rounds: (0..10)
                .map(|page| vec![(list(json!({"path": "reports", "page": page})), listing(page * 50, 50))])
                .collect(),
            program: "let total = 0;\nfor (let page = 0; ; page += 1) {\n  const entries = await \
                      tools.list_directory_with_sizes({ path: \"reports\", page });\n  for (const { size } of entries) total \
                      += size;\n  if (entries.length < 50) return total;\n}",
            result: json!(5_115_750),
        },
        Task {
            name: "retry until it is there, 4 times",
            rounds: (0..4)
                .map(|at| {
                    let ended = if at < 3 {
                        json!({"error": "ENOENT: no such file or directory, open 'build/result.md'"})
                    } else {
                        text(8_000)
                    };
                    vec![(read("build/result.md".to_owned()), ended)]
                })
                .collect(),
            program: "for (let tries = 0; tries < 10; tries += 1) {\n  try {\n    const text = await tools.read_text_file({ path: \
                      \"build/result.md\" });\n    return text.split(\"\\n\").filter((line) => line.startsWith(\"#\"));\n  } \
                      catch {\n    await sleep(60000);\n  }\n}",
            result: json!(["# Result", "## Passed", "## Failed"]),
        },
        Task {
            name: "read 20 files of 4 KB and count",
            rounds: vec![
                vec![(list(json!({"path": "reports"})), listing(0, 20))],
                (0..20).map(|at| (read(format!("reports/report-{at:04}.md")), text(4_000))).collect(),
            ],
            program: "const files = await tools.list_directory_with_sizes({ path: \"reports\" });\nconst texts = await \
                      Promise.all(files.map(({ name }) => tools.read_text_file({ path: `reports/${name}` })));\nreturn \
                      texts.map((text) => text.split(\" \").length).reduce((sum, words) => sum + words, 0);",
            result: json!(17_220),
        },
    ]
}
