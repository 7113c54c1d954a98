//! Kills at every event of runs whose models write programs: programs that loop, call several tools at once, fail, are
//! refused and ask a person, in JavaScript and in Python.
//!
//! Each program runs undisturbed once. Then, in each round, the process that drives its run is killed before or after one
//! of the writes of its journal, or at some moment; the next one continues with the recorded answers. At the end the
//! result of the program, the answer of the run, and what was done to the world are compared with the undisturbed run:
//! nothing is missing, what must not be repeated was done once, and what was repeated was the same call, with the same
//! key and the same random number. Nothing was done before its request was durable, or after its answer was.

use super::{
    campaign::{self, block_on},
    child::{RUN, Report, taken},
    compare,
    deadly::{Deadly, Death, Side},
    kills::{self, Lives, Subject},
    recorder::{Deed, Line, Recorder},
};
use anyhow::{Context as _, Result, bail, ensure};
use async_trait::async_trait;
use opcell::{Config, Host, places::Places};
use opcell_engine::{
    Engine, Message, Program,
    event::{Answer, CallAnswer, EffectReply, Event, Recorded},
    outcome::Question,
    ports::{Effects, Failure},
    state::State,
    tool::{Tool, ToolInput},
};
use opcell_journal::{Journal as _, SqliteJournal};
use opcell_sandbox::CompileMode;
use opcell_types::{ToolDescription, Value};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, atomic::Ordering},
};

/// The sides of a write.
const SIDES: [Side; 2] = [Side::Before, Side::After];

/// The tools of the session, and the effect of repeating a call of each.
const TOOLS: [(&str, Effects); 5] = [
    ("double", Effects::Pure),
    ("put", Effects::Idempotent),
    ("fail", Effects::Idempotent),
    ("send", Effects::Once),
    ("ask", Effects::Once),
];

/// The programs, by what they do: in JavaScript and in Python.
const PROGRAMS: [(&str, &str, &str); 5] = [
    ("loop", include_str!("programs/loop.js"), include_str!("programs/loop.py")),
    ("join", include_str!("programs/join.js"), include_str!("programs/join.py")),
    ("fail", include_str!("programs/fail.js"), include_str!("programs/fail.py")),
    ("refused", include_str!("programs/refused.js"), include_str!("programs/refused.py")),
    ("ask", include_str!("programs/ask.js"), include_str!("programs/ask.py")),
];

/// A program, and its run that was not disturbed.
struct Scenario {
    title: String,
    language: &'static str,
    source: &'static str,
    remains: Remains,
    lives: Lives,
}

/// The end of a run: what does not depend on where it was interrupted.
#[derive(Debug, Clone, PartialEq, Default)]
struct Remains {
    /// Status and result of the run, then the result of the program.
    outcome: String,
    /// The calls that were made, each under keys of its own: the tool, the arguments but for the random number, and the
    /// number of keys. Of calls at once, the one that ends first decides which the next is, so that keys may be others.
    calls: BTreeMap<(String, String), usize>,
    /// The answers that the journal has, each with its number.
    answers: BTreeMap<String, usize>,
    /// The questions that people answered.
    answered: usize,
}

/// Kills `kills` times, reports what differs, and returns the number of runs with a difference. `python` is the runtime
/// for Python, without which only the programs in JavaScript run.
///
/// # Errors
/// When an undisturbed run does not end as it should, or processes cannot be started.
pub fn run(kills: usize, python: Option<&Path>, tell: impl Fn(String) + Sync) -> Result<usize> {
    let directory = tempfile::tempdir()?;
    let cache = directory.path().join("cache");
    // Compiled code is only taken from a folder that is no one else's.
    std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700).create(&cache)?;
    match python {
        Some(runtime) => {
            let place = places(&cache).python_runtime().context("a place for the runtime")?;
            std::fs::create_dir_all(place.parent().context("a folder")?)?;
            std::fs::copy(runtime, place)?;
        }
        None => tell("no runtime for Python is installed: its programs are left out".to_owned()),
    }
    let field = |language, source| Field { directory: directory.path(), cache: &cache, language, source };
    let mut scenarios = Vec::new();
    for (what, javascript, in_python) in PROGRAMS {
        let with_python = python.map(|_| ("python", in_python));
        for (language, source) in [("javascript", javascript)].into_iter().chain(with_python) {
            let title = format!("{what} in {language}");
            // The first run compiles; its times say nothing.
            let field = field(language, source);
            let _ = field.undisturbed(&format!("warm-{what}-{language}")).context(title.clone())?;
            let (remains, lives) = field.undisturbed(&format!("{what}-{language}"))?;
            tell(format!("undisturbed: {title}: {:?}: {}", lives.0, remains.outcome));
            scenarios.push(Scenario { title, language, source, remains, lives });
        }
    }
    let moments: usize = scenarios.iter().map(|scenario| scenario.lives.moments(&SIDES).count()).sum();
    tell(format!("{moments} moments before and after a write"));
    campaign::each(kills, &tell, |number| {
        let Some(scenario) = scenarios.get(number % scenarios.len().max(1)) else { return (String::new(), Ok(vec![])) };
        let kill = scenario.lives.kill(number / scenarios.len().max(1), &SIDES);
        let title = format!("kill {number}, {}, {kill:?}", scenario.title);
        let field = field(scenario.language, scenario.source);
        let place = |attempt| field.place(&format!("kill-{number}-{attempt}"));
        let faults = |place: &Path, _| {
            let (remains, mut found) = block_on(remains(place))?;
            found.extend(differences(&remains, &scenario.remains));
            Ok(found)
        };
        (title, kills::disturbed(&field, kill, place, faults))
    })
}

/// A program in the place of the campaign.
struct Field<'a> {
    directory: &'a Path,
    cache: &'a Path,
    language: &'static str,
    source: &'static str,
}

impl Field<'_> {
    /// The folder of a run whose model writes the program.
    fn place(&self, name: &str) -> Result<PathBuf> {
        let place = self.directory.join(name);
        std::fs::create_dir(&place)?;
        let call = json!({"name": "run_code", "arguments": {"source": self.source}});
        let script = json!({"version": 1, "order": "any", "turns": [
            {"when": {"round": 0}, "tool-calls": [call]}, {"when": {"round": 1}, "repeat": true, "text": "Done."},
        ]});
        std::fs::write(place.join("script.yaml"), script.to_string())?;
        Ok(place)
    }

    fn undisturbed(&self, name: &str) -> Result<(Remains, Lives)> {
        let place = self.place(name)?;
        let lives = kills::undisturbed(self, &place)?;
        let (remains, faults) = block_on(remains(&place))?;
        ensure!(faults.is_empty(), "the undisturbed run: {}", faults.join("; "));
        Ok((remains, lives))
    }
}

impl Subject for Field<'_> {
    fn process(&self, place: &Path, death: Option<Death>) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("program").arg(place).arg(self.cache).arg(self.language);
        command.args(death.map(|death| death.to_string()));
        Ok(command)
    }

    fn help(&self, place: &Path) -> Result<()> {
        block_on(help(place))
    }
}

/// A tool that tells the recorder of each call.
struct Witnessed {
    description: ToolDescription,
    effects: Effects,
    recorder: Arc<Recorder>,
}

#[async_trait]
impl Tool for Witnessed {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    fn effects(&self) -> Effects {
        self.effects
    }

    async fn call(&self, input: &ToolInput) -> Result<Value, Failure> {
        let (name, context) = (self.description.name.as_str(), &input.context);
        self.recorder.deed(Deed {
            key: context.idempotency_key.as_ref().to_owned(),
            step: context.step.as_ref().to_owned(),
            visit: context.visit,
            attempt: context.attempt,
            what: name.to_owned(),
            with: input.arguments.to_json(),
        });
        let number = input.arguments.get("n").and_then(|n| n.to_json().parse::<i64>().ok()).unwrap_or_default();
        match name {
            "fail" => Err(Failure::host("no-luck", format!("{number} is not lucky"))),
            "double" => Ok(opcell::json!({"n": number * 2})),
            _ => Ok(opcell::json!({"ok": true})),
        }
    }
}

fn places(cache: &Path) -> Places {
    let mut places = Places::default();
    places.cache = Some(cache.join("components"));
    places.state = Some(cache.join("state"));
    places
}

/// The process that drives the run, and dies.
///
/// # Errors
/// When the host or the journal cannot be opened, or the run cannot be driven.
pub async fn live(directory: &Path, cache: &Path, language: &str, death: Option<&str>) -> Result<Report> {
    let death = death.map(str::parse::<Death>).transpose().map_err(anyhow::Error::msg)?;
    let recorder = Arc::new(Recorder::open(directory)?);
    let (journal, writes) = Deadly::open(&directory.join("runs.db"), recorder.clone(), death)?;
    let mut config = Config::empty(directory.to_owned());
    config.sessions.script = Some(directory.join("script.yaml"));
    let mut builder =
        Host::builder().config(config).places(places(cache)).compile(CompileMode::TrustedInProcess).journal(journal);
    let schema = opcell::json!({"type": "object"});
    for (name, effects) in TOOLS {
        let description = ToolDescription::new(name, "Does it.", schema.clone());
        builder = builder.document_tool(Witnessed { description, effects, recorder: recorder.clone() });
    }
    let host = builder.build().await?;
    let names = TOOLS.map(|(name, _)| name);
    let program = json!({
        "version": "workflow-ir/v1",
        "name": "writes",
        "steps": [{
            "name": "talk", "type": "session",
            "session": {
                "tools": names, "code": language, "approve": [{"ask": "always", "tools": ["ask"]}],
                "contributions": [{"type": "template", "text": "work", "vars": {}}],
            },
            "outputs": {"final-llm-reply": {"source": "session/final-llm-reply"}},
            "yields": {"type": "text", "text": "final-llm-reply"},
        }],
    });
    let program = Program::new(Arc::new(serde_json::from_value(program)?))?;
    let outcome = taken(host.engine(), program, Value::Null, true).await?.finished().await?;
    Ok(Report { writes: writes.load(Ordering::SeqCst), ended: outcome.status.has_ended() })
}

/// Does what the operator of a suspended run does: answers about calls, each always the same, and looks at the world
/// before saying whether a call was made.
async fn help(place: &Path) -> Result<()> {
    let engine = Engine::builder().journal(Arc::new(SqliteJournal::open(place.join("runs.db"))?)).build();
    let run: Arc<str> = RUN.into();
    let state = engine.state_at(&run, None).await?;
    for question in state.questions() {
        match question {
            Question::Call { id, arguments, .. } => {
                let answer = match arguments.get("to").and_then(Value::as_str) {
                    Some("ann") => CallAnswer::approve(),
                    Some("bob") => CallAnswer::Approve { arguments: opcell::json!({"to": "cyd"}), run: false },
                    _ => CallAnswer::Refuse { reason: Some("not this one".into()) },
                };
                engine.answer_call(&run, &id, answer, Some("operator".into()), None).await?;
            }
            Question::Doubt { effect, .. } => {
                let keys: BTreeSet<String> = open_calls(&state).collect();
                let lines = Recorder::lines(place)?;
                let mut deeds = lines.iter().filter_map(|line| match line {
                    Line::Deed(deed) if is_once(&deed.what) => Some(&deed.key),
                    _ => None,
                });
                let answer = if deeds.any(|key| keys.contains(key)) { Answer::Skip } else { Answer::Retry };
                engine.send(&run, &Message::Answer { effect: Some(effect), answer, by: None }).await?;
            }
            _ => bail!("the run asks for something else"),
        }
    }
    Ok(())
}

/// The keys of the calls of programs that have begun and have no answer.
fn open_calls(state: &State) -> impl Iterator<Item = String> {
    let effects = state.all_effects().filter_map(|effect| {
        let key = match state.effect(effect, None)?.task {
            opcell_engine::effect::Task::Tool(call) => call.context.idempotency_key.clone(),
            _ => return None,
        };
        Some((key, state.inner_calls(effect)?))
    });
    effects.flat_map(|(key, inner)| {
        let open = inner.calls.iter().filter(|call| call.reply.is_none() && !call.request.waits);
        open.map(move |call| format!("{key}/{}", call.request.place + 1))
    })
}

fn effects_of(tool: &str) -> Effects {
    TOOLS.iter().find(|(name, _)| *name == tool).map_or(Effects::Once, |(_, effects)| *effects)
}

fn is_once(tool: &str) -> bool {
    effects_of(tool) == Effects::Once
}

/// The remains of a run, and the faults that no run may have.
async fn remains(place: &Path) -> Result<(Remains, Vec<String>)> {
    let journal = SqliteJournal::open(place.join("runs.db"))?;
    let run: Arc<str> = RUN.into();
    let kept = journal.read(&run, 0, u64::MAX).await?.iter().map(compare::digest).collect();
    let engine = Engine::builder().journal(Arc::new(journal)).build();
    let history = engine.history(&run).await?;
    let end = engine.state_at(&run, None).await?.outcome();
    let lines = Recorder::lines(place)?;
    let is_wanted = |state: &State, deed: &Deed| open_calls(state).any(|key| key == deed.key);
    let is_pure = |tool: &str| effects_of(tool) == Effects::Pure;
    let mut faults = compare::broken_by(&lines, &history, &kept, is_pure, is_wanted)?;
    if engine.replay(&run).await?.is_some() {
        faults.push("the journal decides otherwise when it is decided again".to_owned());
    }
    let mut remains = Remains { outcome: format!("{} {}", end.status, end.result.to_json()), ..Remains::default() };
    read_events(&history, &mut remains);
    read_deeds(&lines, &mut remains, &mut faults);
    Ok((remains, faults))
}

fn read_events(history: &[Recorded], remains: &mut Remains) {
    for recorded in history.iter().flat_map(Recorded::parts) {
        match &recorded.event {
            Event::Replied { reply, .. } => {
                if let EffectReply::Tool(reply) = &**reply {
                    let result = reply.result.as_ref();
                    let said = result
                        .map_or_else(|failure| format!("{}: {}", failure.reason, failure.message), Value::to_json);
                    remains.outcome.push_str(&format!(" {said}"));
                }
            }
            Event::InnerReplied { reply, .. } => {
                let result = reply.result.as_ref();
                let answer = result.map_or_else(|failure| failure.reason.to_string(), Value::to_json);
                *remains.answers.entry(answer).or_default() += 1;
            }
            Event::CallAnswered { .. } => remains.answered += 1,
            _ => {}
        }
    }
}

fn read_deeds(lines: &[Line], remains: &mut Remains, faults: &mut Vec<String>) {
    let mut arguments: BTreeMap<&str, &str> = BTreeMap::new();
    let (mut once, mut keys) = (BTreeSet::new(), BTreeSet::new());
    for line in lines {
        let Line::Deed(deed) = line else { continue };
        if is_once(&deed.what) && !once.insert(&deed.key) {
            faults.push(format!("{deed:?} was done again"));
        }
        let first = *arguments.entry(&deed.key).or_insert(&deed.with);
        if first != deed.with {
            faults.push(format!("{deed:?} was done before with {first}"));
        }
        if !keys.insert(&deed.key) {
            continue;
        }
        let mut with: serde_json::Value = serde_json::from_str(&deed.with).unwrap_or_default();
        if let Some(with) = with.as_object_mut() {
            with.remove("luck");
        }
        *remains.calls.entry((deed.what.clone(), with.to_string())).or_default() += 1;
    }
}

/// The differences of a run from the undisturbed one.
fn differences(found: &Remains, undisturbed: &Remains) -> Vec<String> {
    let mut differences = Vec::new();
    if found.outcome != undisturbed.outcome {
        differences.push(format!("outcome: {} instead of {}", found.outcome, undisturbed.outcome));
    }
    if found.calls != undisturbed.calls {
        differences.push(format!("calls: {:?} instead of {:?}", found.calls, undisturbed.calls));
    }
    // A person who has said that a call was made gave the answer that got lost.
    let most = |answer: &str| undisturbed.answers.get(answer).copied().unwrap_or_default();
    let others = found.answers.iter().filter(|(answer, count)| **count > most(answer));
    differences.extend(
        others.map(|(answer, count)| format!("{count} times the answer {answer}, at most {} expected", most(answer))),
    );
    if found.answered != undisturbed.answered {
        differences.push(format!("{} answered questions instead of {}", found.answered, undisturbed.answered));
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deed(key: &str, what: &str, with: &str) -> Line {
        let (key, what, with) = (key.to_owned(), what.to_owned(), with.to_owned());
        Line::Deed(Deed { key, step: "talk".to_owned(), visit: 1, attempt: 1, what, with })
    }

    fn read(lines: &[Line]) -> (Remains, Vec<String>) {
        let (mut remains, mut faults) = (Remains::default(), Vec::new());
        read_deeds(lines, &mut remains, &mut faults);
        (remains, faults)
    }

    #[test]
    fn what_is_repeated_is_the_same_call_and_what_must_not_be_is_not_repeated() {
        let put = |luck| deed("r/1/1", "put", &format!(r#"{{"n":1,"luck":{luck}}}"#));
        let (first, faults) = read(&[put(2), put(2)]);
        assert!(faults.is_empty(), "{faults:?}");
        assert_eq!(read(&[put(2), put(3)]).1.len(), 1);
        assert_eq!(read(&[deed("r/1/1", "send", "{}"), deed("r/1/1", "send", "{}")]).1.len(), 1);
        assert!(differences(&read(&[put(7)]).0, &first).is_empty(), "the luck of a run is its own");
        assert_eq!(differences(&read(&[]).0, &first).len(), 1);
        assert_eq!(differences(&read(&[deed("r/1/1", "put", r#"{"n":2}"#)]).0, &first).len(), 1);
    }

    #[test]
    fn another_result_or_answer_is_a_difference() {
        let undisturbed =
            Remains { outcome: "completed".to_owned(), answers: [("1".to_owned(), 1)].into(), ..Remains::default() };
        let answered = |answer: &str| Remains { answers: [(answer.to_owned(), 1)].into(), ..undisturbed.clone() };
        assert!(differences(&answered("1"), &undisturbed).is_empty());
        assert_eq!(differences(&answered("2"), &undisturbed).len(), 1);
        assert_eq!(
            differences(&Remains { outcome: "failed".to_owned(), ..undisturbed.clone() }, &undisturbed).len(),
            1
        );
        assert_eq!(differences(&Remains { answered: 1, ..undisturbed.clone() }, &undisturbed).len(), 1);
    }
}
