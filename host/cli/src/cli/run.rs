//! `opcell run`.

use super::{
    Exit, Failure, Global, Terminal,
    args::{Approve, JournalArgs, PackArgs, StopArgs},
    conversation::{self, Approval},
    follow::Steps,
    graph,
    lines::Lines,
    project::{put_in_force, show_warnings},
    skill,
    stop::Stop,
    stream,
};
use crate::graph::{Drawing, Path};
use clap::Args;
use opcell::{Host, run::Workflow};
use opcell_engine::{RunOptions, Status, ports::RunText};
use opcell_ir::{Diagnostic, handoff};
use opcell_types::Value;
use opcell_workflow::document::Language;
use std::{path::PathBuf, sync::Arc};

#[derive(Debug, Args)]
pub struct RunArgs {
    /// Document file, or name of a workflow of the project.
    #[arg(value_name = "WORKFLOW", id = "document")]
    document: String,
    /// Input of the run: JSON, text, `@FILE`, `-` for standard input, or `key=value` (repeatable).
    #[arg(long, short, value_name = "INPUT")]
    input: Vec<String>,
    /// Inputs as a JSON object; overrides `--input`.
    #[arg(long, value_name = "JSON")]
    json_input: Option<String>,
    /// Print WorkflowSkill's run log instead of the result, even if the run fails.
    #[arg(long)]
    output_json: bool,
    /// Stream the text and tool calls of models to stderr.
    #[arg(long)]
    stream: bool,
    /// With `--stream`: the reasoning of models as well.
    #[arg(long, requires = "stream")]
    reasoning: bool,
    /// Write the graph with the path taken highlighted; format from the extension (.svg, .dot, .mmd).
    #[arg(long, value_name = "FILE")]
    graph: Option<PathBuf>,
    /// Treat warnings as errors.
    #[arg(long)]
    strict: bool,
    /// Require that the PromptPack has a workflow, instead of running a pack without one as a single conversation.
    #[arg(long)]
    workflow: bool,
    #[command(flatten)]
    part: PackArgs,
    /// User message to send each time the run waits (repeatable); `/event NAME [CONTEXT]` raises an external event.
    #[arg(long, value_name = "TEXT")]
    say: Vec<String>,
    /// Answer for calls that wait for a person: `ask` in a terminal at once, `deny`, or `yes`.
    #[arg(long, value_name = "ANSWER", default_value = "ask")]
    approve: Approve,
    /// Leave the run to the workers of the journal: print its ID and return at once.
    #[arg(long, conflicts_with_all = ["no_journal", "say", "stream", "graph", "output_json"])]
    queue: bool,
    #[command(flatten)]
    journal: JournalArgs,
    #[command(flatten)]
    stop: StopArgs,
}

pub async fn run(global: &Global, args: &RunArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let format = args.graph.as_deref().map(graph::format_of).transpose()?;
    let mut config = global.trusted()?;
    args.journal.choose(&mut config)?;
    put_in_force(&mut config, &args.document);
    let journaled = config.journal.is_some();
    let host = crate::cli::host(config, terminal).await?;
    crate::cli::warn_of_skills(&host);
    let refused = |rejected: Failure| match args.output_json {
        true => skill::write_refusal(global, &args.document, &host, terminal).err().unwrap_or(rejected),
        false => rejected,
    };
    let workflow = args.part.open(&host, &args.document).map_err(|rejected| refused(rejected.into()))?;
    let given = skill::run_input(&workflow, &args.input, args.json_input.as_deref())?;
    if args.strict
        && let Some(rejected) = workflow.document().and_then(|document| document.rejection(true))
    {
        return Err(rejected.into());
    }
    if args.workflow {
        require_workflow(&workflow)?;
    }
    if !args.say.is_empty() {
        conversation::require_states(&workflow)?;
    }
    let (given, say) = conversation::first_said(&workflow, given, args.say.clone());
    show_warnings(&workflow, terminal);
    if let Some(misspelt) = skill::misspelt_inputs(&workflow, &given) {
        terminal.note(&misspelt);
    }
    if let Some(missing) = skill::missing_inputs(&workflow, &given) {
        terminal.note(&missing);
    }

    let (sink, text) = stream::piece_kinds(args.stream, args.reasoning, terminal).map(stream::text).unzip();
    let sink = sink.map(|sink| Arc::new(sink) as Arc<dyn RunText>);
    let stop = Stop::listen(args.stop, journaled, terminal)?;
    if args.queue {
        return queue(&host, &workflow, given, args, journaled, terminal).await;
    }
    // A run that waits for a signal or an answer ends this command, which prints what it waits for and how to continue.
    let options = RunOptions { run: args.journal.name(), detach: true, sink: sink.clone(), ..RunOptions::default() };
    let run = host.start_with(&workflow, given, options).await.map_err(|error| refused(error.into()))?;
    if journaled && !terminal.json {
        terminal.note(&format!("run {}", run.id()));
    }
    let log = skill::LogWriter::new(&workflow, args.output_json, terminal);
    let mut steps = Steps::new(terminal, workflow.step_names(), text, args.stream, log);
    let mut said = Lines::Scripted(say.into_iter());
    let approval = Approval { approve: args.approve, global, terminal };
    let outcome = conversation::converse(&host, &workflow, run, &mut said, &mut steps, sink, &stop, &approval).await?;
    let exit = steps.end(&outcome, journaled, terminal)?;
    if let Some(text) = stop.resumable(&outcome) {
        terminal.note(&text);
    }
    if outcome.status == Status::Completed
        && let Some(unkept) = handoff::unkept(workflow.ir(), outcome.handoff.as_ref())
    {
        terminal.note(unkept);
    }
    if let (Some(file), Some(format)) = (&args.graph, format) {
        let history = host.engine().history(&outcome.run).await?;
        graph::write(file, &graph::text(&Drawing::of(workflow.ir(), Some(&Path::of(&history))), format)?)?;
    }
    if !journaled {
        // The process ends now: giving back what the run made, value by value, would only take time.
        std::mem::forget(Arc::clone(host.engine().journal()));
    }
    Ok(exit)
}

/// Makes the run, and drives nothing of it.
async fn queue(
    host: &Host,
    workflow: &Workflow,
    given: Value,
    args: &RunArgs,
    journaled: bool,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    if !journaled {
        let help = "add `[journal]` to opcell.toml, or `--journal`";
        return Err(Diagnostic::error("no-journal", "a run that is left to workers needs a journal").help(help).into());
    }
    let options = RunOptions { run: args.journal.name(), detach: true, ..RunOptions::default() };
    options.release.cancel();
    let run = host.start_with(workflow, given, options).await?;
    let outcome = run.finished().await?;
    if terminal.json {
        terminal.json(&serde_json::json!({"run": outcome.run, "status": outcome.status}))?;
    } else {
        terminal.line(&outcome.run)?;
    }
    Ok(Exit::Done)
}

/// A pack that only has prompts is not a workflow.
fn require_workflow(workflow: &Workflow) -> Result<(), Failure> {
    let document = workflow.document();
    let has_workflow = document.is_some_and(|document| {
        let json: Option<serde_json::Value> = serde_json::from_str(document.source.text()).ok();
        document.language == Some(Language::PromptPack) && json.is_some_and(|json| json.get("workflow").is_some())
    });
    if has_workflow {
        return Ok(());
    }
    let message = format!("`{}` is not a PromptPack with a workflow", workflow.ir().name);
    Err(Diagnostic::error("no-workflow", message).help("omit `--workflow` to run it as a single conversation").into())
}
