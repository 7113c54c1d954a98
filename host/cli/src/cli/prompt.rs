//! `opcell prompt`: what models would receive.

mod cache;

use super::{
    Exit, Failure, Global, Terminal,
    args::PackArgs,
    skill,
    units::{Align, columns},
};
use clap::{Args, ValueEnum};
use opcell::{
    prompts::{PromptRequest, StepPrompt},
    report::printable,
};
use opcell_ir::ir::PromptMode;
use opcell_session::prompt::tokens;
use serde_json::json;
use std::fmt::Write as _;

#[derive(Debug, Args)]
pub struct PromptArgs {
    /// Document file, or name of a workflow of the project.
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// Show this step only.
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// Input of the run, as for `opcell run`. Without it, references to the input are shown unresolved.
    #[arg(long, short, value_name = "INPUT")]
    input: Vec<String>,
    #[command(flatten)]
    part: PackArgs,
    /// Prompt mode to use instead of the sessions' own.
    #[arg(long, value_name = "MODE")]
    mode: Option<Mode>,
    /// Show the parts that later requests repeat, which providers read from their cache.
    #[arg(long)]
    cache: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Mode {
    Lambda,
    Prose,
}

pub async fn prompt(global: &Global, args: &PromptArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let host = global.looking(terminal).await?;
    crate::cli::warn_of_skills(&host);
    let workflow = args.part.open(&host, &args.workflow)?;
    let request = PromptRequest {
        step: args.step.clone(),
        input: if args.input.is_empty() { None } else { Some(skill::run_input(&workflow, &args.input, None)?) },
        mode: args.mode.map(|mode| match mode {
            Mode::Lambda => PromptMode::Lambda,
            Mode::Prose => PromptMode::Prose,
        }),
    };
    let prompts = host.prompts(&workflow, &request)?;
    if terminal.json && args.cache {
        let prompts: Vec<_> = prompts.iter().map(cache::json).collect();
        terminal.json(&json!({"workflow": workflow.ir().name, "prompts": prompts}))?;
    } else if terminal.json {
        terminal.json(&json!({"workflow": workflow.ir().name, "prompts": prompts}))?;
    } else if prompts.is_empty() {
        terminal.note("no step of this workflow uses a model");
    }
    if !terminal.json {
        for prompt in &prompts {
            terminal.line(&if args.cache { cache::text(prompt, title(prompt)) } else { text(prompt) })?;
        }
    }
    Ok(Exit::Done)
}

/// A table of the parts, then the parts.
fn text(prompt: &StepPrompt) -> String {
    let mut rows = vec![[String::new(), "bytes".to_owned(), "tokens".to_owned()].to_vec()];
    let mut parts = String::new();
    for section in &prompt.system.sections {
        rows.push(row(&format!("  {}", section.component.name()), section.bytes, section.tokens));
        let _ = write!(parts, "\n--- {}\n{}\n", section.component.name(), section.text);
    }
    let system = prompt.system.text();
    rows.push(row("system prompt", system.len(), tokens(&system)));
    let parameters = prompt.tools.iter().map(|tool| (tool.name.as_str(), tool.parameters.to_json()));
    let parameters: Vec<(&str, String)> = parameters.collect();
    if !parameters.is_empty() {
        let count = |of: fn(&str) -> usize| parameters.iter().map(|(_, text)| of(text)).sum::<usize>();
        rows.push(row("tool parameters", count(str::len), count(tokens)));
    }
    for (tool, text) in &parameters {
        let _ = write!(parts, "\n--- parameters of {tool}\n{text}\n");
    }
    for message in &prompt.conversation {
        let group = message.prompt.as_ref().map(|group| format!(" ({group})")).unwrap_or_default();
        rows.push(row(&format!("{}{group}", message.role), message.bytes, message.tokens));
        let _ = write!(parts, "\n--- {}{group}\n{}\n", message.role, message.text);
    }
    let mut text = title(prompt);
    for line in columns(&rows, &[Align::Left, Align::Right, Align::Right]) {
        let _ = writeln!(text, "{line}");
    }
    for note in &prompt.system.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text.push_str(&parts);
    printable(&text).into_owned()
}

/// The step whose prompt it is, as a line.
fn title(prompt: &StepPrompt) -> String {
    let mode = match prompt.system.mode {
        PromptMode::Lambda => "lambda",
        PromptMode::Prose => "prose",
    };
    let whose = if prompt.judge { "judge of step" } else { "step" };
    let workflow = prompt.workflow.as_ref().map(|name| format!(" of {name}")).unwrap_or_default();
    let caller = prompt.called_by.as_ref().map(|step| format!(", called by {step}")).unwrap_or_default();
    format!("{whose} {}{workflow}{caller}, mode {mode}\n", prompt.step)
}

fn row(name: &str, bytes: usize, tokens: usize) -> Vec<String> {
    vec![name.to_owned(), bytes.to_string(), format!("~{tokens}")]
}
