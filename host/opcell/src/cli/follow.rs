//! Following a run until it ends or waits for somebody, and showing what came of it.

use super::{Exit, Failure, Terminal, progress::StepProgress, skill::LogWriter, stream::Text};
use crate::run::Run;
use futures_util::StreamExt as _;
use opcell_engine::outcome::{Question, RunOutcome, Status};
use opcell_workflow::Value;
use serde_json::json;
use std::sync::Arc;

/// Shows the steps of a run as they come, and its end. Interrupting cancels it; interrupting twice leaves at once. `past`: events that
/// are nothing new. `text`: what models say, shown as they say it.
pub async fn follow(
    run: &Run,
    steps: Vec<Arc<str>>,
    past: u64,
    mut text: Option<Text>,
    mut log: LogWriter,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let interrupted = {
        let run = run.clone();
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                run.cancel("interrupted");
            }
            // Whoever interrupts twice does not want to wait.
            if tokio::signal::ctrl_c().await.is_ok() {
                std::process::exit(130);
            }
        })
    };
    let mut progress = StepProgress::new(terminal, steps, text.is_some());
    let mut events = run.events().await?;
    loop {
        // What happened before a piece of text is shown before it.
        let recorded = tokio::select! {
            biased;
            recorded = events.next() => recorded,
            () = Text::come(&mut text) => {
                if let Some(text) = &mut text {
                    text.show(&mut progress);
                }
                continue;
            }
        };
        let Some(recorded) = recorded else { break };
        if let Some(text) = &mut text {
            text.observe(&recorded.event, &mut progress);
        }
        log.observe(&recorded)?;
        if recorded.seq > past {
            progress.observe(&recorded);
        } else {
            progress.recall(&recorded);
        }
    }
    let outcome = run.outcome().await?;
    interrupted.abort();
    progress.finish();
    if log.takes_the_results_place() {
        log.write(terminal)?;
    } else {
        show(&outcome, &progress.receipts, log.records()?, terminal)?;
    }
    Ok(match outcome.status {
        Status::Completed => Exit::Done,
        Status::Failed | Status::Cancelled => Exit::RunFailed,
        Status::Pending | Status::Running | Status::Suspended => Exit::Waiting,
    })
}

/// The result on stdout; why there is none, and what the run waits for, on stderr.
fn show(
    outcome: &RunOutcome,
    receipts: &[Value],
    steps: Option<serde_json::Value>,
    terminal: &Terminal,
) -> Result<(), Failure> {
    if terminal.json {
        let mut result = json!({
            "run": outcome.run, "status": outcome.status, "reason": outcome.reason, "message": outcome.message,
            "step": outcome.step, "result": outcome.result, "details": outcome.details, "used": outcome.used,
            "questions": outcome.questions, "receipts": receipts,
        });
        if let (Some(steps), Some(result)) = (steps, result.as_object_mut()) {
            result.insert("steps".to_owned(), steps);
        }
        terminal.json(&result)?;
    } else if outcome.status == Status::Completed {
        match outcome.result.as_str() {
            Some(text) => terminal.line(text)?,
            None => terminal.json(&serde_json::Value::from(&outcome.result))?,
        }
    } else {
        let step = outcome.step.as_ref().map(|step| format!(" at step `{step}`")).unwrap_or_default();
        let reason = outcome.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let message = outcome.message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
        terminal.failed(&format!("{}{reason}{step}{message}", outcome.status));
        for question in &outcome.questions {
            terminal.failed(&ask(&outcome.run, question));
        }
    }
    Ok(())
}

/// What a run waits for, and the command that gives it that.
pub fn ask(run: &str, question: &Question) -> String {
    match question {
        Question::Signal { name, step, question, approval } => {
            let question = question.as_deref().map(|text| format!("{text}\n")).unwrap_or_default();
            let (what, command) = if *approval {
                ("an approval", format!("opcell runs approve {run} {name} --why TEXT"))
            } else {
                ("a signal", format!("opcell runs signal {run} {name} --data JSON"))
            };
            format!("{question}step `{step}` waits for {what}: {command}")
        }
        Question::Doubt { step, what, effect } => format!(
            "step `{step}`: {what} was under way when the run was interrupted, and must not be repeated without your consent: \
             opcell runs resume {run} --retry, --skip or --fail (effect {effect})"
        ),
    }
}
