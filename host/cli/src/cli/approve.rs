//! Questions about calls that models ask for: how they are shown, and how a person at the command line answers them.

use super::{Failure, Global, Terminal, args::Approve, fill, terminal::typed};
use opcell::{
    Diagnostic, Host,
    config::{Config, edit, lock},
    lineage::{self, Lineage},
};
use opcell_engine::{RunOutcome, event::CallAnswer, outcome::Question};
use opcell_types::{Value, files::Readers};
use rustix::fs::OFlags;
use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Everything that is shown of a call, without the command that answers.
pub fn shown(question: &Question) -> String {
    let Question::Call {
        step, path, visit, tool, effects, shown, said, rule, budget, due, people, approved_by, ..
    } = question
    else {
        return String::new();
    };
    let at = if path.is_empty() { step } else { path };
    let visit = if *visit > 1 { format!(", visit {visit}") } else { String::new() };
    let mut text = format!("step `{at}`{visit}: the model wants to call `{tool}` ({})\n", effects.as_str());
    match &shown.difference {
        Some(difference) => indented(&mut text, difference),
        None => indented(&mut text, &shown.text),
    }
    for note in &shown.notes {
        let _ = writeln!(text, "  NOTE: {note}");
    }
    if let Some(said) = said {
        let _ = writeln!(text, "  the model says:");
        said.lines().take(20).for_each(|line| {
            let _ = writeln!(text, "    {line}");
        });
    }
    let _ = writeln!(text, "  asked because of: {rule}");
    if let Some(budget) = budget {
        let _ = writeln!(text, "  used so far: {budget}");
    }
    if let Some(due) = due {
        let _ = writeln!(text, "  to be answered before {}", due.to_text());
    }
    if *people > 1 {
        let by = if approved_by.is_empty() { "none yet".to_owned() } else { approved_by.join(", ") };
        let _ = writeln!(text, "  {people} people must approve it; so far: {by}");
    }
    text
}

fn indented(text: &mut String, block: &str) {
    for line in block.lines() {
        let _ = writeln!(text, "    {line}");
    }
}

/// The question as it is shown, and the command that answers it.
pub fn ask(run: &str, question: &Question) -> String {
    let id = question.id().map_or("", |id| id);
    format!(
        "{}  opcell runs approve {run} --question {id}    # or --refuse --why TEXT, or --arguments JSON",
        shown(question)
    )
}

/// Refuses an answer that a command of a model, or a server that this program started, gives: answers are for people.
pub fn given_by_a_person() -> Result<(), Failure> {
    let refused = match lineage::of_this_process() {
        Lineage::Apart => return Ok(()),
        Lineage::BelowOpcell => {
            let message = "this command was started by Opcell, for a model or a server; only a person answers";
            Diagnostic::error("answer-not-by-a-person", message)
        }
        Lineage::Unknown => {
            let message = "only a person answers, and the system does not show which processes started this command";
            Diagnostic::error("answer-not-by-a-person", message)
                .help("answer on the page of `opcell serve`, or from a shell whose parent processes `ps` shows")
        }
    };
    Err(refused.into())
}

/// The questions of a run about calls.
pub fn calls(questions: &[Question]) -> Vec<&Question> {
    questions.iter().filter(|question| matches!(question, Question::Call { .. })).collect()
}

/// The lines that approve a call for always, as they are written into the project file.
pub fn lines_of_always(tool: &str, arguments: &Value) -> Result<String, Failure> {
    let written = edit::approve("", tool, arguments).map_err(|error| {
        Diagnostic::error("not-written", format!("this call cannot be approved for always: {error}"))
    })?;
    Ok(written)
}

/// Writes into the project file that a call needs no person any more: this tool with these arguments.
pub fn always(global: &Global, tool: &str, arguments: &Value) -> Result<String, Failure> {
    let config = global.proposed()?;
    let Some(file) = &config.file else {
        let help = "`opcell init` makes one";
        return Err(Diagnostic::error("no-project", "there is no project file to write this into").help(help).into());
    };
    let text = edit::approve(config.source.text(), tool, arguments)
        .map_err(|error| Diagnostic::error("not-written", error.to_string()))?;
    // What would be written must mean something before anything is written.
    Config::parse(&file.display().to_string(), text.clone(), &config.root)?;
    let real = file.canonicalize()?;
    lock::write_whole(&real, &text, Readers::of(&real))?;
    Ok(file.display().to_string())
}

/// Questions about calls were asked at this terminal before.
static HAS_ASKED: AtomicBool = AtomicBool::new(false);

/// Answers for a person, or asks them: about calls, and for the input of tools, which has no answer without a person but
/// to decline. Returns `true` if the run can continue with an answer.
pub async fn answer(
    host: &Host,
    global: Option<&Global>,
    outcome: &RunOutcome,
    approve: Approve,
    terminal: &Terminal,
) -> Result<bool, Failure> {
    let questions = calls(&outcome.questions);
    if questions.is_empty() && fill::forms(&outcome.questions).is_empty() {
        return Ok(false);
    }
    let by: Option<Arc<str>> = Some(format!("uid {}", rustix::process::getuid().as_raw()).into());
    let mut all: Option<CallAnswer> = match approve {
        Approve::Yes => {
            given_by_a_person()?;
            Some(CallAnswer::approve())
        }
        Approve::Deny => Some(CallAnswer::Refuse { reason: Some("this run asks no person".into()) }),
        Approve::Ask => None,
    };
    if all.is_none() && !can_ask(terminal) {
        return Ok(false);
    }
    // A line that was typed too much at the last questions says nothing about these.
    if all.is_none() && HAS_ASKED.swap(true, Ordering::Relaxed) {
        discard_typed()?;
    }
    let (from, many) = (if approve == Approve::Ask { "terminal" } else { "--approve" }, questions.len());
    for (at, question) in questions.into_iter().enumerate() {
        let Question::Call { id, .. } = question else { continue };
        let answer = match &all {
            Some(answer) => answer.clone(),
            None => {
                let place = if many > 1 { format!("[{} of {many}] ", at + 1) } else { String::new() };
                terminal.failed(&format!("{place}{}", shown(question)));
                let Some((answer, is_for_all)) = asked(question, many - at, global, terminal)? else {
                    return Ok(false);
                };
                if is_for_all {
                    all = Some(answer.clone());
                }
                answer
            }
        };
        host.engine().answer_call(&outcome.run, id, answer, by.clone(), Some(from.into())).await?;
    }
    if approve == Approve::Yes {
        return Ok(many > 0);
    }
    Ok(fill::answer(host, outcome, (by.as_ref(), from), approve == Approve::Deny, terminal).await? || many > 0)
}

/// A person can be asked where both what is shown and what is typed are at a terminal.
fn can_ask(terminal: &Terminal) -> bool {
    !terminal.json && io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Discards the lines that were typed before a question is shown: a question that was not on the screen has no answer.
fn discard_typed() -> io::Result<()> {
    let stdin = io::stdin();
    let before = rustix::fs::fcntl_getfl(&stdin)?;
    rustix::fs::fcntl_setfl(&stdin, before | OFlags::NONBLOCK)?;
    let mut line = [0; 4096];
    while rustix::io::read(&stdin, &mut line).is_ok_and(|read| read > 0) {}
    Ok(rustix::fs::fcntl_setfl(&stdin, before)?)
}

/// The answer of a person, and whether it is for all that follow; `None` when they give none.
fn asked(
    question: &Question,
    left: usize,
    global: Option<&Global>,
    terminal: &Terminal,
) -> Result<Option<(CallAnswer, bool)>, Failure> {
    let Question::Call { tool, arguments, people, .. } = question else { return Ok(None) };
    let for_all = if left > 1 { ", [N]o to all" } else { "" };
    let more = if *people > 1 { "" } else { ", [e]dit the arguments, [r]emember for this run, [a]lways" };
    loop {
        let Some(word) = typed(&format!("[y]es, [n]o{more}, [w]hole, [q]uit{for_all}: "))? else { return Ok(None) };
        match word.as_str() {
            "y" | "yes" => return Ok(Some((CallAnswer::approve(), false))),
            "N" if left > 1 => {
                let Some(reason) = typed("reason for the model: ")? else { return Ok(None) };
                let reason = Some(reason).filter(|reason| !reason.is_empty()).map(Into::into);
                return Ok(Some((CallAnswer::Refuse { reason }, true)));
            }
            "n" | "no" => {
                let Some(reason) = typed("reason for the model: ")? else { return Ok(None) };
                let reason = Some(reason).filter(|reason| !reason.is_empty()).map(Into::into);
                return Ok(Some((CallAnswer::Refuse { reason }, false)));
            }
            "r" if *people < 2 => {
                return Ok(Some((CallAnswer::Approve { arguments: Value::Undefined, run: true }, false)));
            }
            "e" if *people < 2 => {
                let Some(json) = typed("arguments as JSON: ")? else { return Ok(None) };
                match Value::from_json(&json) {
                    Ok(arguments) => return Ok(Some((CallAnswer::Approve { arguments, run: false }, false))),
                    Err(error) => terminal.failed(&format!("this is not JSON: {error}")),
                }
            }
            "a" if *people < 2 => {
                let Some(global) = global else {
                    terminal.failed("there is no project file here that could be written");
                    continue;
                };
                terminal.failed(&format!(
                    "this is added to the project file; it approves `{tool}` with these arguments and no others:\n{}",
                    lines_of_always(tool, arguments)?
                ));
                if typed("write it? [y/n]: ")?.as_deref() == Some("y") {
                    let file = always(global, tool, arguments)?;
                    terminal.failed(&format!("written to {file}"));
                    return Ok(Some((CallAnswer::Approve { arguments: Value::Undefined, run: true }, false)));
                }
            }
            "w" => terminal.failed(&whole(arguments)),
            "q" => return Ok(None),
            _ => {}
        }
    }
}

/// All of the arguments.
pub fn whole(arguments: &Value) -> String {
    serde_json::to_string_pretty(&serde_json::Value::from(arguments)).unwrap_or_default()
}
