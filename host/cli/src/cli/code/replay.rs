//! `opcell code run --replay`: a program with the answers, the randomness and the clocks of one that a run has journaled.
//! It makes no call.

use crate::cli::{
    Exit, Failure, Global, Terminal,
    args::{ProgramLanguage, StoreArgs},
    host,
    journal::Open,
    op::{invoke::report, replay::lines},
    units::counted,
};
use clap::Args;
use opcell::{
    builtin,
    replay::{RecordedProgram, programs},
    report::printable,
};
use opcell_ir::Diagnostic;
use opcell_types::Value;
use serde_json::json;

/// The recorded program whose answers a program has.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Answer the program's calls from the record of a run (ID, unique prefix of one, or `last`), and make none.
    ///
    /// The program has the recorded randomness and clocks as well. If it calls something else than its record says, or
    /// ends with another result, both are shown.
    #[arg(long, value_name = "RUN", conflicts_with = "grant")]
    pub(super) replay: Option<String>,
    /// Step whose program is meant. Without it, any step of the run.
    #[arg(long, value_name = "NAME", requires = "replay")]
    step: Option<String>,
    /// Number of the recorded program, from 1; the last one if omitted.
    #[arg(long, value_name = "N", requires = "replay")]
    call: Option<usize>,
    #[command(flatten)]
    store: StoreArgs,
}

pub async fn replay(
    global: &Global,
    args: &ReplayArgs,
    program: Option<(String, ProgramLanguage)>,
    input: Option<Value>,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let mut config = args.store.looking(global)?;
    let open = Open::journal(&config).await?;
    let run = open.run(args.replay.as_deref().unwrap_or_default()).await?;
    let events = open.engine.history(&run).await?;
    let found = programs(&run, &events, args.step.as_deref()).map_err(|finding| *finding)?;
    let recorded = chosen(&run, found, args.call, terminal)?;
    // It reaches nothing: what else the project has is not loaded.
    config.plugins.retain(|name, _| name == builtin::CODE || name == builtin::PYTHON);
    for plugin in config.plugins.values_mut() {
        plugin.grants.capabilities.tools.clear();
    }
    config.servers.clear();
    config.tools.clear();
    config.journal = None;
    let host = host(config, terminal).await?;
    let recorded_language = recorded.language;
    let (source, language) = match program {
        Some((source, ProgramLanguage::Javascript)) => (source, opcell::ProgramLanguage::Javascript),
        Some((source, ProgramLanguage::Python)) => (source, opcell::ProgramLanguage::Python),
        None => (recorded.source.clone(), recorded_language),
    };
    let input = input.unwrap_or_else(|| recorded.input.clone());
    let replayed = host.replay_program(&recorded, language, &source, input).await;
    if let Some(difference) = &replayed.difference {
        let receipt = replayed.output.as_ref().map_or_else(opcell::CallError::receipt, opcell::CallOutput::receipt);
        if terminal.json {
            terminal.json(&json!({"ok": false, "difference": difference, "receipt": receipt}))?;
        } else {
            for line in lines(difference).lines() {
                terminal.line(&printable(line))?;
            }
        }
        if replayed.read_clock_anew {
            terminal.note("the program also read a clock where its record has no reading, such as after its last call");
        }
        return Ok(Exit::RunFailed);
    }
    if recorded.result.is_none() {
        terminal.note("the record has no result, or only a part of it, so that nothing was compared");
    }
    let result = |data: &Value| data.get("result").cloned().unwrap_or(Value::Null);
    report(replayed.output, terminal, result, |_| None)
}

/// The recorded program that is meant.
fn chosen(
    run: &str,
    mut found: Vec<RecordedProgram>,
    number: Option<usize>,
    terminal: &Terminal,
) -> Result<RecordedProgram, Failure> {
    let count = found.len();
    let at = number.unwrap_or(count);
    if at == 0 || at > count {
        let message =
            format!("run {run} has {}, and none with the number {at}", counted(count as u64, "recorded program"));
        let help = if count == 1 { "leave out `--call`".to_owned() } else { format!("`--call` takes 1 to {count}") };
        return Err(Diagnostic::error("unknown-call", message).help(help).into());
    }
    if count > 1 && number.is_none() {
        terminal.note(&format!("run {run} ran {count} programs; this is the last, `--call N` chooses another"));
    }
    Ok(found.swap_remove(at - 1))
}
