//! `opcell runs answer`: the answer to a form of a tool that asks for input.

use super::{Exit, Failure, Open, Terminal, adopt, delivery::going_on};
use crate::cli::{approve, args::Sender, fill, input, units::counted};
use clap::Args;
use opcell_engine::outcome::Question;
use opcell_ir::Diagnostic;
use opcell_types::InputAnswer;
use serde_json::json;

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("answer").required(true))]
pub struct AnswerArgs {
    /// Run ID, unique prefix of one, or `last`.
    #[arg(value_name = "RUN")]
    run: String,
    /// ID of the question, as the run prints it, if several forms are open.
    #[arg(value_name = "QUESTION")]
    question: Option<String>,
    /// Value of a field, such as `project=docs`; with commas between several choices (repeatable).
    #[arg(long, value_name = "NAME=VALUE", group = "answer")]
    value: Vec<String>,
    /// All values: a JSON object, `@FILE` or `-` for standard input.
    #[arg(long, value_name = "JSON", group = "answer")]
    values: Option<String>,
    /// Refuse to give any: the server decides what follows.
    #[arg(long, group = "answer")]
    decline: bool,
    /// Close the form without a decision: the server decides what follows.
    #[arg(long, group = "answer")]
    cancel: bool,
    #[command(flatten)]
    sender: Sender,
}

pub async fn answer(open: &Open, args: &AnswerArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    approve::given_by_a_person()?;
    let run = open.run(&args.run).await?;
    let state = open.engine.shown_state(&run, None).await?;
    let workflow = state.program().map_or_else(|| "?".into(), |program| program.name().clone());
    adopt::ask(open, &run, &workflow, terminal)?;
    let questions = state.questions();
    let forms = fill::forms(&questions);
    let named = |question: &&&Question| {
        args.question.as_deref().is_none_or(|wanted| question.id().is_some_and(|id| **id == *wanted))
    };
    let meant: Vec<&Question> = forms.iter().filter(named).copied().collect();
    let Question::Input { id, schema, server, tool, .. } = (match meant.as_slice() {
        [one] => *one,
        [] => {
            let (message, help) = match &args.question {
                Some(gone) => (
                    format!("run `{run}` does not ask `{gone}`: it was answered, or the run has continued"),
                    format!("see what it asks now: opcell runs show {run}"),
                ),
                None => (
                    format!("no tool of run `{run}` asks for input; the run is {}", state.status()),
                    format!("see what it waits for: opcell runs show {run}"),
                ),
            };
            return Err(Diagnostic::error("not-asked", message).help(help).into());
        }
        several => {
            let message =
                format!("run `{run}` asks for {}, and an answer names one", counted(several.len() as u64, "form"));
            let shown: Vec<String> = several.iter().map(|question| fill::ask(&run, question)).collect();
            return Err(Diagnostic::error("question-missing", message).help(shown.join("\n")).into());
        }
    }) else {
        return Err(Diagnostic::error("not-asked", format!("run `{run}` asks for no input")).into());
    };
    let wrong = |problem: String| Diagnostic::error("invalid-answer", problem);
    let answer = if args.decline {
        InputAnswer::Decline
    } else if args.cancel {
        InputAnswer::Cancel
    } else if let Some(values) = &args.values {
        InputAnswer::Accept(input::value(values)?)
    } else {
        InputAnswer::Accept(fill::values(schema, &args.value).map_err(wrong)?)
    };
    open.engine.answer_input(&run, id, &answer, args.sender.name(), Some("command".into())).await?;
    if terminal.json {
        let driven = open.engine.runs().await?.iter().any(|entry| entry.run == run && entry.driven);
        let action = answer.action();
        terminal.json(&json!({"ok": true, "run": run, "question": id, "action": action, "driven": driven}))?;
        return Ok(Exit::Done);
    }
    let done = match answer {
        InputAnswer::Accept(_) => "was answered",
        InputAnswer::Decline => "was declined",
        InputAnswer::Cancel => "was cancelled",
    };
    terminal.note(&format!("recorded: the form of tool `{tool}` of MCP server `{server}` ({id}) {done}"));
    going_on(open, &run, terminal).await
}
