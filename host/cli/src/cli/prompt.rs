//! `opcell prompt`: what models would be told.

use super::{Exit, Failure, Global, Terminal, input};
use clap::{Args, ValueEnum};
use opcell::{
    prompts::{PromptRequest, StepPrompt},
    report::printable,
};
use opcell_session::prompt::tokens;
use opcell_workflow::ir::PromptMode;
use serde_json::json;
use std::fmt::Write as _;

#[derive(Debug, Args)]
pub struct PromptArgs {
    /// A document, or the name of a workflow of the project.
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// Only this step.
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// What the run would be given, as `opcell run` takes it; without it, references to the input are shown as such.
    #[arg(long, short, value_name = "INPUT")]
    input: Vec<String>,
    /// In place of the mode that the sessions have.
    #[arg(long, value_name = "MODE")]
    mode: Option<Mode>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Mode {
    Lambda,
    Prose,
}

pub async fn prompt(global: &Global, args: &PromptArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let request = PromptRequest {
        step: args.step.clone(),
        input: if args.input.is_empty() { None } else { Some(input::run_input(&args.input)?) },
        mode: args.mode.map(|mode| match mode {
            Mode::Lambda => PromptMode::Lambda,
            Mode::Prose => PromptMode::Prose,
        }),
    };
    let host = global.host().await?;
    let workflow = host.open(&args.workflow)?;
    let prompts = host.prompts(&workflow, &request)?;
    if terminal.json {
        terminal.json(&json!({"workflow": workflow.ir().name, "prompts": prompts}))?;
    } else if prompts.is_empty() {
        terminal.note("no step of this workflow asks a model");
    }
    if !terminal.json {
        for prompt in &prompts {
            terminal.line(&text(prompt))?;
        }
    }
    Ok(Exit::Done)
}

/// A table of the parts, then the parts.
fn text(prompt: &StepPrompt) -> String {
    let mode = match prompt.system.mode {
        PromptMode::Lambda => "lambda",
        PromptMode::Prose => "prose",
    };
    let whose = if prompt.judge { "the judge of step" } else { "step" };
    let mut text = format!("{whose} {}, mode {mode}\n{:30}{:>9} {:>9}\n", prompt.step, "", "bytes", "tokens");
    let mut parts = String::new();
    for section in &prompt.system.sections {
        text.push_str(&row(&format!("  {}", section.component.name()), section.bytes, section.tokens));
        let _ = write!(parts, "\n--- {}\n{}\n", section.component.name(), section.text);
    }
    let system = prompt.system.text();
    text.push_str(&row("system prompt", system.len(), tokens(&system)));
    for said in &prompt.conversation {
        let group = said.prompt.as_ref().map(|group| format!(" ({group})")).unwrap_or_default();
        text.push_str(&row(&format!("{}{group}", said.role), said.bytes, said.tokens));
        let _ = write!(parts, "\n--- {}{group}\n{}\n", said.role, said.text);
    }
    for note in &prompt.system.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text.push_str(&parts);
    printable(&text).into_owned()
}

fn row(name: &str, bytes: usize, tokens: usize) -> String {
    format!("{name:30}{bytes:>9} {:>9}\n", format!("~{tokens}"))
}
