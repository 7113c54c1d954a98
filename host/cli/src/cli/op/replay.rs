//! `opcell op replay`: a recorded call again, with the host's answers as they were.

use crate::cli::{
    Exit, Failure, Global, Terminal,
    args::{CallArgs, StoreArgs},
    journal::Open,
    plugin::watch::Watch,
    reasons,
    units::counted,
};
use clap::Args;
use opcell::{
    CellReceipt,
    config::Config,
    replay::{self, Difference, RecordedCall, ReplayOptions, Replayed},
    report::printable,
};
use opcell_ir::Diagnostic;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Lines of a difference that are shown.
const LINES: usize = 200;

/// Both values of a difference are shown in one line up to this length.
const SHORT: usize = 100;

/// Host calls of one kind that are listed.
const LISTED: usize = 20;

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Run ID, unique prefix of one, or `last`.
    #[arg(value_name = "RUN")]
    run: String,
    #[command(flatten)]
    which: CallArgs,
    /// Call this component instead of the project's.
    #[arg(long, value_name = "FILE")]
    plugin: Option<PathBuf>,
    /// Replay again whenever the component changes.
    #[arg(long, conflicts_with = "json")]
    watch: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// The recorded call that is meant, with the number of those that the step made.
pub async fn recorded(
    config: &Config,
    run: &str,
    which: &CallArgs,
    terminal: &Terminal,
) -> Result<RecordedCall, Failure> {
    let open = Open::journal(config).await?;
    let run = open.run(run).await?;
    let mut calls = replay::calls(&run, &open.engine.history(&run).await?, &which.step).map_err(|finding| *finding)?;
    let (made, number) = (calls.len(), which.call.unwrap_or(calls.len()));
    if number == 0 || number > made {
        let calls = counted(made as u64, "recorded call");
        let message = format!("step `{}` has {calls}, and none with the number {number}", which.step);
        let help = if made == 1 { "leave out `--call`".to_owned() } else { format!("`--call` takes 1 to {made}") };
        return Err(Diagnostic::error("unknown-call", message).help(help).into());
    }
    if made > 1 && which.call.is_none() {
        terminal
            .note(&format!("step `{}` made {made} calls; this is the last, `--call N` chooses another", which.step));
    }
    let call = calls.swap_remove(number - 1);
    if let Some(left_out) = call.left_out() {
        terminal.note(&format!("not everything is in the record: {left_out}"));
    }
    Ok(call)
}

pub async fn replay(global: &Global, args: &ReplayArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let config = args.store.looking(global)?;
    let call = recorded(&config, &args.run, &args.which, terminal).await?;
    if !args.watch {
        return once(&config, &call, args, terminal).await;
    }
    let file = args.plugin.clone().or_else(|| config.plugins.get(&call.plugin).map(|plugin| plugin.path.clone()));
    let Some(file) = file else { return once(&config, &call, args, terminal).await };
    loop {
        // Before the call: what changes while it runs must not be missed.
        let watch = Watch::of_file(&file)?;
        match once(&config, &call, args, terminal).await {
            Ok(_) => {}
            Err(Failure::Input(rejected)) => terminal.rejected(&rejected),
            Err(Failure::Other(error)) => terminal.failure(&error),
        }
        terminal.note("waiting for changes; Ctrl-C ends this");
        watch.changed().await;
    }
}

async fn once(config: &Config, call: &RecordedCall, args: &ReplayArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let options = ReplayOptions { plugin: args.plugin.clone(), ..ReplayOptions::default() };
    let replayed = replay::replay(config, call, options).await?;
    let same = replayed.differences.is_empty();
    if terminal.json {
        terminal.json(&json!({"ok": same, "recorded": call.to_json(), "replayed": replayed}))?;
    } else {
        show(call, &replayed, terminal)?;
    }
    Ok(if same { Exit::Done } else { Exit::RunFailed })
}

fn show(call: &RecordedCall, replayed: &Replayed, terminal: &Terminal) -> std::io::Result<()> {
    let context = &call.context;
    let made = call.recording.calls.len() as u64 + call.recording.calls_left_out;
    terminal.line(&printable(&format!(
        "{} of step `{}`, visit {}, attempt {}: {}",
        call.id,
        context.step,
        context.visit,
        context.attempt,
        counted(made, "recorded host call")
    )))?;
    if call.digest != replayed.digest.as_str() {
        let then = call.digest.get(..16).unwrap_or(&call.digest);
        let now = replayed.digest.short();
        terminal
            .line(&printable(&format!("plugin `{}` has changed: it was {then}… and is now {now}…", call.plugin)))?;
    }
    if call.result.is_none() {
        terminal.line("the journal has only the beginning of the result, which is therefore not compared")?;
    }
    for difference in &replayed.differences {
        for line in lines(difference).lines() {
            terminal.line(&printable(line))?;
        }
    }
    if !replayed.not_made.is_empty() {
        terminal.line(&format!("{} not made again:", counted(replayed.not_made.len() as u64, "recorded host call")))?;
        for made in replayed.not_made.iter().take(LISTED) {
            terminal.line(&format!("  {}", printable(&made.shown())))?;
        }
        if let Some(more @ 1..) = replayed.not_made.len().checked_sub(LISTED) {
            terminal.line(&format!("  and {more} more"))?;
        }
    }
    // The receipt is of this version: the call was just made.
    let receipt: CellReceipt = serde_json::from_value(replayed.receipt.clone())?;
    for line in reasons::of_failed(&receipt, "", terminal.verbose) {
        terminal.line(&format!("  {line}"))?;
    }
    if replayed.differences.is_empty() {
        terminal.line("the same: result and receipt")?;
    }
    Ok(())
}

/// Both values where they are short, else the lines that differ.
pub fn lines(difference: &Difference) -> String {
    let Difference { what, recorded, replayed, .. } = difference;
    let shown = |value: &Value| if value.is_null() { "nothing".to_owned() } else { value.to_string() };
    let (one, other) = (shown(recorded), shown(replayed));
    if one.len() + other.len() <= SHORT {
        return format!("{what}: recorded {one}, now {other}");
    }
    let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default() + "\n";
    let (one, other) = (pretty(recorded), pretty(replayed));
    let diff = similar::TextDiff::from_lines(&one, &other);
    let mut shown = format!("{what}: recorded (-) and now (+) differ");
    for line in diff.unified_diff().context_radius(2).to_string().lines().take(LINES) {
        shown.push_str("\n  ");
        shown.push_str(line);
    }
    shown
}
