//! `opcell tools show NAME`, and the same as the page `docs/tools.md`.

use crate::cli::{Exit, Failure, Global, Terminal};
use clap::Args;
use opcell::{http::request::FetchRequest, report::printable};
use opcell_ir::Diagnostic;
use opcell_session::tools::descriptions;
use opcell_types::suggest::did_you_mean;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// A tool of the host, as its reference has it.
struct HostTool {
    name: String,
    description: String,
    arguments: Value,
    /// The rest, which no schema has.
    more: Option<&'static More>,
}

/// Results, failures and limits: a schema of arguments does not say them.
struct More {
    result: &'static str,
    failures: &'static [(&'static str, &'static str)],
    limits: &'static [&'static str],
    example: &'static str,
    grant: &'static str,
}

const HTTP_FETCH: More = More {
    result: "An object with `status`, `url` (after redirects), `headers` (names in lower case), and `body` as text, or \
             `body_base64` where the body is not UTF-8. Any status is a result, 404 and 500 too.",
    failures: &[
        ("denied", "no grant allows the host, the method or the address; the receipt names the command that allows it"),
        ("invalid-arguments", "the arguments are not a request: an unknown key, a header that only the host sets"),
        ("credential-missing", "the grant names a secret that the host does not have"),
        ("http-connect", "the name is unknown, or nothing answers there"),
        ("http-timeout", "no complete response in time"),
        ("http-redirects", "more than 5 redirects, or one that leads nowhere"),
        ("http-too-large", "the body exceeds the limit"),
        ("http-failed", "any other failure"),
    ],
    limits: &[
        "30 seconds for all hops and the body together; `timeout_ms` asks for less",
        "8 MiB of body; in a cell it counts toward `boundary-bytes`",
        "every hop of a redirect needs a grant of its own",
        "private and loopback addresses need a grant with `--private`",
        "Opcell sets `host`, `content-length`, `connection` and other headers of the transport; it adds secrets, and removes \
         them from the answer",
    ],
    example: "tools.call(\"http.fetch\", { url: \"https://api.example.com/v1/items\", headers: { accept: \"application/json\" } })",
    grant: "opcell plugin grant NAME tool http.fetch && opcell plugin grant NAME http https://api.example.com",
};

fn all() -> Vec<HostTool> {
    let arguments: Value = serde_json::from_str(FetchRequest::SCHEMA).unwrap_or_default();
    let fetch = HostTool {
        name: "http.fetch".to_owned(),
        description: "Performs an HTTP request to a host that the operator allows.".to_owned(),
        arguments,
        more: Some(&HTTP_FETCH),
    };
    let of_sessions = descriptions().into_iter().map(|tool| HostTool {
        name: tool.name,
        description: tool.description,
        arguments: serde_json::to_value(&tool.parameters).unwrap_or_default(),
        more: None,
    });
    std::iter::once(fetch).chain(of_sessions).collect()
}

/// The whole reference.
#[cfg(test)]
pub fn page() -> String {
    let mut page = "# Host tools\n\nThe tools that Opcell itself implements, as `opcell tools show NAME` prints them. \
                    Their arguments and results are in snake_case, as those of most tools are; files of Opcell are in \
                    kebab-case. A plugin calls `http.fetch` once `plugin.toml` requests it and the operator has granted \
                    it. Sessions have the tools over files, in the folders of `[sessions.files]`.\n"
        .to_owned();
    for tool in all() {
        let _ = write!(page, "\n{}", text(&tool));
    }
    page
}

fn text(tool: &HostTool) -> String {
    let mut text = format!("## {}\n\n{}\n\n", tool.name, tool.description.trim());
    text.push_str("| argument | type | meaning |\n| --- | --- | --- |\n");
    let required: Vec<&str> = tool
        .arguments
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = tool.arguments.get("properties").and_then(Value::as_object);
    for (name, schema) in properties.into_iter().flatten() {
        let kind = match schema.get("type") {
            Some(Value::String(kind)) => kind.clone(),
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
            _ => "any".to_owned(),
        };
        let mut meaning =
            schema.get("description").and_then(Value::as_str).unwrap_or_default().trim_end_matches('.').to_owned();
        if required.contains(&name.as_str()) {
            meaning = if meaning.is_empty() { "required".to_owned() } else { format!("{meaning}; required") };
        }
        if let Some(default) = schema.get("default") {
            let separator = if meaning.is_empty() { "" } else { "; " };
            let _ = write!(meaning, "{separator}`{default}` unless given");
        }
        let meaning = meaning.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(text, "| `{name}` | {kind} | {meaning} |");
    }
    let Some(more) = tool.more else { return text };
    let _ = write!(text, "\n**Result.** {}\n\n| fails with | when |\n| --- | --- |\n", more.result);
    for (reason, when) in more.failures {
        let _ = writeln!(text, "| `{reason}` | {when} |");
    }
    text.push_str("\nLimits:\n\n");
    for limit in more.limits {
        let _ = writeln!(text, "- {limit}");
    }
    let _ = write!(text, "\n```javascript\n{}\n```\n\n```sh\n{}\n```\n", more.example, more.grant);
    text
}

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The tool, such as `http.fetch`.
    #[arg(value_name = "TOOL")]
    name: String,
}

pub(super) async fn show(global: &Global, args: &ShowArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let name = args.name.as_str();
    let tools = all();
    if let Some(tool) = tools.iter().find(|tool| tool.name == name) {
        if terminal.json {
            terminal.json(&json!({
                "name": tool.name, "description": tool.description, "arguments": tool.arguments,
                "result": tool.more.map(|more| more.result),
                "failures": tool.more.map(|more| more.failures.iter().map(|(reason, _)| *reason).collect::<Vec<_>>()),
            }))?;
        } else {
            terminal.line(text(tool).trim_end())?;
        }
        return Ok(Exit::Done);
    }
    let host = global.looking(terminal).await?;
    let entry = host.catalog().entries().into_iter().find(|entry| entry.id.as_str() == name);
    if let Some(entry) = entry {
        let shown = json!({
            "name": entry.id, "kind": entry.kind(), "plugin": entry.plugin, "description": entry.summary,
            "arguments": entry.arguments_schema,
        });
        if terminal.json {
            terminal.json(&shown)?;
        } else {
            let schema = serde_json::to_string_pretty(&entry.arguments_schema).unwrap_or_default();
            terminal.line(&printable(&format!(
                "{}  {} of plugin {}\n{}\n\n{schema}",
                entry.id,
                entry.kind(),
                entry.plugin,
                entry.summary
            )))?;
        }
        return Ok(Exit::Done);
    }
    let names: Vec<String> = tools.into_iter().map(|tool| tool.name).chain(host.catalog().names()).collect();
    let mut finding = Diagnostic::error("unknown-tool", format!("there is no tool `{name}`"));
    finding.help = Some(match did_you_mean(name, names.iter().map(String::as_str)) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("the host has {}", names.join(", ")),
    });
    Err(finding.into())
}
