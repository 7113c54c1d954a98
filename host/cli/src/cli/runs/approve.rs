//! `opcell runs approve`: answers to what a run asks, whoever drives it.

use super::{
    Exit, Failure, Global, Open, Terminal, adopt,
    delivery::{going_on, sent},
};
use crate::cli::{approve, args::Sender, fill, follow, input, plugin, units::counted};
use clap::{Args, ValueEnum};
use opcell::remedy;
use opcell_engine::{
    AskedApproval, AskedGrant, Delivery, Message, NotChosen, State, Wanted,
    event::{CallAnswer, GrantScope},
    outcome::Question,
};
use opcell_ir::Diagnostic;
use opcell_journal::RunId;
use opcell_types::{Denial, Value};
use serde_json::json;

#[derive(Debug, Args)]
pub struct ApproveArgs {
    /// Run ID, unique prefix of one, or `last`.
    #[arg(value_name = "RUN")]
    run: String,
    /// Name of the approval, or of what is to be granted, if the run asks for several.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The step that asks, if several ask under one name; its path where steps have one name, such as `a/ask`.
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// ID of the question, as the run prints it where a name does not say which question is meant; of a call, always
    /// (repeatable).
    #[arg(long, value_name = "ID")]
    question: Vec<String>,
    /// Arguments to call the tool with, instead of the model's: a JSON object, or `@FILE`.
    #[arg(long, value_name = "JSON", conflicts_with = "refuse")]
    arguments: Option<String>,
    /// Remember the approval of a call: for this run, or always, after showing what is written into the project file.
    #[arg(long, value_name = "SCOPE", conflicts_with_all = ["refuse", "arguments"])]
    remember: Option<Remember>,
    /// Write into the project file what `--remember always` shows.
    #[arg(long, requires = "remember")]
    write: bool,
    /// Refuse instead: the step that asks fails.
    #[arg(long)]
    refuse: bool,
    /// Grant what a plugin was denied, where it is set up to ask (`on-denied = "ask"`).
    #[arg(long, value_name = "SCOPE", conflicts_with_all = ["refuse", "why"])]
    grant: Option<GrantFor>,
    /// Reason to record with the approval or refusal.
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    #[command(flatten)]
    sender: Sender,
}

/// The duration of a call's approval: for the same tool with the same arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Remember {
    /// This call.
    Once,
    /// This run.
    Run,
    /// Every run: write it into the project file.
    Always,
}

/// The duration of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GrantFor {
    /// The call that was refused.
    Once,
    /// This run.
    Run,
    /// Every run: write it into the project file.
    Always,
}

pub async fn approve(open: &Open, global: &Global, args: &ApproveArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    approve::given_by_a_person()?;
    let run = open.run(&args.run).await?;
    let state = open.engine.shown_state(&run, None).await?;
    let workflow = state.program().map_or_else(|| "?".into(), |program| program.name().clone());
    adopt::ask(open, &run, &workflow, terminal)?;
    let question = args.question.first().map(String::as_str);
    let wanted = Wanted { name: args.name.as_deref(), step: args.step.as_deref(), question };
    let questions = state.questions();
    if let Some(exit) = answer_calls(open, global, args, (&run, &questions), terminal).await? {
        return Ok(exit);
    }
    let forms = fill::forms(&questions);
    let is_form = forms.iter().any(|form| form.id().is_some_and(|id| question == Some(&**id)));
    if is_form || (!forms.is_empty() && forms.len() == questions.len()) {
        let message = format!("run `{run}` asks for input, and not for an approval");
        let shown: Vec<String> = forms.iter().map(|form| fill::ask(&run, form)).collect();
        return Err(Diagnostic::error("nothing-to-approve", message).help(shown.join("\n")).into());
    }
    let asks_approval = questions.iter().any(|question| matches!(question, Question::Signal { approval: true, .. }));
    let asks_grant = questions.iter().any(|question| matches!(question, Question::Grant { .. }));
    if args.grant.is_some() || (!asks_approval && asks_grant) {
        return grant(open, global, args, (&run, &state), &wanted, terminal).await;
    }
    let asked = state.chosen_approval(&wanted).map_err(|why| {
        let what = args.name.as_deref().map_or_else(|| "an approval".to_owned(), |name| format!("approval `{name}`"));
        let nothing = format!("run `{run}` does not wait for {what}; it is {}", state.status());
        let command = |asked: &AskedApproval| {
            let question = questions.iter().find(|question| question.id() == Some(&asked.id));
            question.map_or_else(String::new, |question| follow::approve_command(&run, question, &questions))
        };
        not_chosen(&run, ("approval", nothing), why, |asked| asked.name.to_string(), command)
    })?;
    let mut data = vec![("approved", Value::from(!args.refuse))];
    data.extend(args.why.as_deref().map(|why| ("why", Value::from(why))));
    let by = args.sender.name();
    let delivery = open.engine.answer(&run, &asked.id, Value::object(data), by.clone()).await?;
    if let (Delivery::Now(step), false) = (&delivery, terminal.json) {
        let answer = if args.refuse { "refused" } else { "approved" };
        let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
        terminal.note(&format!("recorded: step `{step}` of run `{run}` was {answer}{by}"));
        return going_on(open, &run, terminal).await;
    }
    sent(open, &run, &delivery, terminal).await
}

/// Answers questions about calls, each by its ID: what was shown is what is approved. `None`: this is for something
/// else that the run asks.
async fn answer_calls(
    open: &Open,
    global: &Global,
    args: &ApproveArgs,
    (run, questions): (&RunId, &[Question]),
    terminal: &Terminal,
) -> Result<Option<Exit>, Failure> {
    let calls = approve::calls(questions);
    let is_meant = |question: &&&Question| question.id().is_some_and(|id| args.question.iter().any(|it| **it == **id));
    let meant: Vec<&Question> = calls.iter().filter(is_meant).copied().collect();
    let for_calls = args.arguments.is_some() || args.remember.is_some() || args.question.len() > 1;
    let asks_else = questions.len() > calls.len();
    if meant.is_empty() && !for_calls && (calls.is_empty() || asks_else || !args.question.is_empty()) {
        return Ok(None);
    }
    if args.question.is_empty() {
        let message = format!(
            "run `{run}` asks about {} and an answer names what was shown",
            counted(calls.len() as u64, "call")
        );
        let shown: Vec<String> = calls.iter().map(|question| approve::ask(run, question)).collect();
        return Err(Diagnostic::error("question-missing", message).help(shown.join("\n")).into());
    }
    if let Some(gone) = args.question.iter().find(|id| !meant.iter().any(|it| it.id().is_some_and(|it| **it == ***id)))
    {
        let message = format!("run `{run}` does not ask `{gone}`: it was answered, or the run has continued");
        let help = format!("see what it asks now: opcell runs show {run}");
        return Err(Diagnostic::error("not-asked", message).help(help).into());
    }
    if args.grant.is_some() {
        return Err(
            Diagnostic::error("invalid-answer", "`--grant` answers what a plugin was denied, and not a call").into()
        );
    }
    if args.why.is_some() && !args.refuse {
        let message = "the approval of a call has no reason: `--why` goes with `--refuse`, and the model is told it";
        return Err(Diagnostic::error("invalid-answer", message).into());
    }
    let arguments = args.arguments.as_deref().map(input::value).transpose()?;
    if arguments.is_some() && meant.len() > 1 {
        return Err(Diagnostic::error("invalid-answer", "`--arguments` are for one call").into());
    }
    if args.remember == Some(Remember::Always) {
        for question in &meant {
            let Question::Call { tool, arguments, .. } = question else { continue };
            let lines = approve::lines_of_always(tool, arguments)?;
            if !args.write {
                let message = "this would be added to the project file, and nothing has been answered yet";
                return Err(Diagnostic::error("not-written", message)
                    .help(format!("{lines}\nto do so, add --write"))
                    .into());
            }
            let file = approve::always(global, tool, arguments)?;
            terminal.note(&format!("written to {file}:\n{lines}"));
        }
    }
    let answer = match args.refuse {
        true => CallAnswer::Refuse { reason: args.why.as_deref().map(Into::into) },
        false => CallAnswer::Approve {
            arguments: arguments.unwrap_or(Value::Undefined),
            run: matches!(args.remember, Some(Remember::Run | Remember::Always)),
        },
    };
    let by = args.sender.name();
    for question in &meant {
        let id = question.id().cloned().unwrap_or_default();
        open.engine.answer_call(run, &id, answer.clone(), by.clone(), Some("command".into())).await?;
        let Question::Call { tool, .. } = question else { continue };
        if !terminal.json {
            let done = if args.refuse { "refused" } else { "approved" };
            terminal.note(&format!("recorded: the call of `{tool}` ({id}) was {done}"));
        }
    }
    if terminal.json {
        let driven = open.engine.runs().await?.iter().any(|entry| entry.run == *run && entry.driven);
        terminal.json(&json!({"ok": true, "run": run, "questions": args.question, "driven": driven}))?;
        return Ok(Some(Exit::Done));
    }
    going_on(open, run, terminal).await.map(Some)
}

/// Why an answer is for no question, with the commands that would answer one.
fn not_chosen<T>(
    run: &RunId,
    (kind, nothing): (&str, String),
    why: NotChosen<T>,
    name: impl Fn(&T) -> String,
    command: impl Fn(&T) -> String,
) -> Diagnostic {
    match why {
        NotChosen::Nothing => Diagnostic::error("nothing-to-approve", nothing),
        NotChosen::Gone => {
            let message = format!("run `{run}` does not ask that any more: it was answered, or the run has continued");
            Diagnostic::error("not-asked", message).help(format!("see what it asks now: opcell runs show {run}"))
        }
        NotChosen::Several(several) => {
            let names: Vec<String> = several.iter().map(|asked| format!("`{}`", name(asked))).collect();
            let commands: Vec<String> = several.iter().map(|asked| format!("  {}", command(asked))).collect();
            let message = format!("run `{run}` waits for {} {kind}s: {}", several.len(), names.join(", "));
            let finding = match kind {
                "grant" => Diagnostic::error("ambiguous-grant", message),
                _ => Diagnostic::error("ambiguous-approval", message),
            };
            finding.help(format!("answer one of them:\n{}", commands.join("\n")))
        }
        NotChosen::Again(asked) => {
            let message = format!(
                "run `{run}` was answered before, and this does not say that it is for what it asks now, {kind} `{}`",
                name(&asked)
            );
            Diagnostic::error("question-missing", message).help(format!("to answer it: {}", command(&asked)))
        }
    }
}

/// Sends what was decided about one thing that a run asks to be granted. What it asks for later is another question.
async fn grant(
    open: &Open,
    global: &Global,
    args: &ApproveArgs,
    (run, state): (&RunId, &State),
    wanted: &Wanted<'_>,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let asked = state.chosen_grant(wanted).map_err(|why| {
        let nothing = format!("run `{run}` does not ask for such a grant; it is {}", state.status());
        let command = |asked: &AskedGrant| {
            let id = asked.calls.first().map_or("", |(_, id)| id);
            format!("opcell runs approve {run} --question {id} --grant once")
        };
        not_chosen(run, ("grant", nothing), why, |asked| asked.denial.capability.clone(), command)
    })?;
    let denial = &asked.denial;
    if args.grant.is_some() {
        allowed(run, state, denial)?;
    }
    let grant = match args.grant {
        Some(GrantFor::Once) => Some(GrantScope::Once),
        Some(GrantFor::Run) => Some(GrantScope::Run),
        Some(GrantFor::Always) => {
            let command = remedy::render(&denial.remedy).unwrap_or_else(|| denial.remedy.to_string());
            let question = format!("run `{run}` was denied {}.\nEvery run gets it: {command}", denial.capability);
            if !terminal.confirms(&question, "Write this into the project file?")? {
                return Err(
                    Diagnostic::error("grant-not-confirmed", "nothing was written, and nothing was granted").into()
                );
            }
            plugin::grant_always(global, &denial.remedy, terminal)?;
            Some(GrantScope::Run)
        }
        None if args.refuse => None,
        None => {
            let message = format!("run `{run}` asks for a grant: {}", denial.capability);
            let help = format!("say for how long: opcell runs approve {run} --grant once|run|always, or --refuse");
            return Err(Diagnostic::error("grant-scope-missing", message).help(help).into());
        }
    };
    for (effect, question) in asked.calls {
        let message = Message::Grant { effect: Some(effect), grant, question: Some(question), by: args.sender.name() };
        open.engine.send(run, &message).await?;
    }
    let driven = open.engine.runs().await?.iter().any(|entry| entry.run == *run && entry.driven);
    if terminal.json {
        terminal.json(&json!({"ok": true, "run": run, "grant": grant, "driven": driven}))?;
        return Ok(Exit::Done);
    }
    terminal.note(if grant.is_some() { "granted: the call is made again" } else { "refused: the call has failed" });
    going_on(open, run, terminal).await
}

/// Refuses a grant that gives something else than what the run says that it was denied.
fn allowed(run: &RunId, state: &State, denial: &Denial) -> Result<(), Failure> {
    let is_pinned = |plugin: &str| state.pins().contains_key(format!("plugin {plugin}").as_str());
    if remedy::fits(denial) && denial.remedy.plugin().is_none_or(is_pinned) {
        return Ok(());
    }
    let message = format!(
        "run `{run}` was denied {}, but what it asks for is something else: {}",
        denial.capability, denial.remedy
    );
    Err(Diagnostic::error("grant-does-not-fit", message).help("refuse it: `--refuse`").into())
}
