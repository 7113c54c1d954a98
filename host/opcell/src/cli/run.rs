//! `opcell run`.

use super::{Exit, Failure, Global, Terminal, follow, graph, skill, stream};
use crate::{
    config::{Config, JournalSettings},
    graph::{Drawing, Path},
    host::Host,
    report,
    run::Workflow,
};
use clap::Args;
use opcell_engine::{RunOptions, ports::RunText};
use std::{path::PathBuf, sync::Arc};

#[derive(Debug, Args)]
pub struct RunArgs {
    /// A document, or the name of a workflow of the project.
    #[arg(value_name = "WORKFLOW")]
    workflow: String,
    /// What the run is given: JSON, a text, `@FILE`, `-`, or `key=value`, repeated.
    #[arg(long, short, value_name = "INPUT")]
    input: Vec<String>,
    /// Inputs as a JSON object; they win over those of `--input`.
    #[arg(long, value_name = "JSON")]
    json_input: Option<String>,
    /// Writes WorkflowSkill's run log instead of the result, whatever became of the run.
    #[arg(long)]
    output_json: bool,
    /// Shows what models say, as they say it, on stderr.
    #[arg(long)]
    stream: bool,
    /// Draws the workflow with the way that the run took; the ending (.svg, .dot, .mmd) says how.
    #[arg(long, value_name = "FILE")]
    graph: Option<PathBuf>,
    /// Takes warnings for errors.
    #[arg(long)]
    strict: bool,
    /// Keeps the run in a journal, so that it survives this process: in the project's, in `.opcell/runs.db`, or in this file.
    #[arg(long, value_name = "PATH", require_equals = true)]
    journal: Option<Option<PathBuf>>,
    /// Keeps the run in memory even if the project has a journal.
    #[arg(long, conflicts_with = "journal")]
    no_journal: bool,
    /// Names the run; a name that is taken is refused. Without it, a name is made up.
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
}

pub async fn run(global: &Global, args: &RunArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let format = args.graph.as_deref().map(graph::format_of).transpose()?;
    let mut config = global.config()?;
    choose_journal(&mut config, args);
    let journaled = config.journal.is_some();
    let host = Host::builder().config(config).build().await?;
    let refused = |rejected: Failure| match args.output_json {
        true => skill::write_refusal(global, &args.workflow, &host, terminal).err().unwrap_or(rejected),
        false => rejected,
    };
    let workflow = host.open(&args.workflow).map_err(|rejected| refused(rejected.into()))?;
    let given = skill::run_input(&workflow, &args.input, args.json_input.as_deref())?;
    if args.strict
        && let Some(rejected) = workflow.document().and_then(|document| document.rejection(true))
    {
        return Err(rejected.into());
    }
    show_warnings(&workflow, terminal);
    if let Some(missing) = skill::missing_inputs(&workflow, &given) {
        terminal.note(&missing);
    }

    // What waits for somebody can be taken up again, if it is kept anywhere.
    let name = args.name.as_deref().map(Into::into);
    let (sink, text) = if args.stream { Some(stream::text()) } else { None }.unzip();
    let sink = sink.map(|sink| Arc::new(sink) as Arc<dyn RunText>);
    let options = RunOptions { run: name, detach: journaled, sink, ..RunOptions::default() };
    let run = host.start_with(&workflow, given, options).await.map_err(|error| refused(error.into()))?;
    if journaled && !terminal.json {
        terminal.note(&format!("run {}", run.id()));
    }
    let log = skill::LogWriter::new(&workflow, args.output_json, terminal);
    let exit = follow::follow(&run, workflow.step_names(), 0, text, log, terminal).await?;
    if let (Some(file), Some(format)) = (&args.graph, format) {
        let history = host.engine().history(&run.id().into()).await?;
        graph::write(file, &graph::text(&Drawing::of(workflow.ir(), Some(&Path::of(&history))), format)?)?;
    }
    Ok(exit)
}

fn choose_journal(config: &mut Config, args: &RunArgs) {
    match &args.journal {
        Some(Some(path)) => config.journal = Some(JournalSettings::at(path.clone())),
        Some(None) => {
            let default = config.root.join(JournalSettings::DEFAULT_PATH);
            config.journal.get_or_insert_with(|| JournalSettings::at(default));
        }
        None if args.no_journal => config.journal = None,
        None => {}
    }
}

fn show_warnings(workflow: &Workflow, terminal: &Terminal) {
    if terminal.json {
        return;
    }
    if let Some(document) = workflow.document() {
        for warning in &document.diagnostics {
            terminal.note(report::render(Some(&document.source), warning, terminal.color).trim_end());
        }
    }
}
