//! Kills between a question about a model's call, its answer and the call, in every order.
//!
//! The model of a session wants two calls, and a person is asked about each. One process drives the run, and others
//! answer: before or after the driver has left the run, once, twice, or contrary to each other at the same time. In each
//! round one of them is killed before or after one of its writes, or at some moment, and all is done again until the run
//! has ended. Afterwards, each question has one answer, which a person gave and which no earlier acknowledged one
//! contradicts; and each call was made at most once, only as its answer says, and not before that answer was durable.

use super::{
    campaign::{self, block_on},
    child::{RUN, Report, taken},
    compare,
    deadly::{Deadly, Death, Side},
    kills::{ATTEMPTS, MOST_LIVES, report},
    recorder::{Line, Recorder},
};
use crate::journey::World;
use anyhow::{Result, bail, ensure};
use opcell_engine::{
    Engine, Event, Message, Program, RunError, Status,
    event::{CallAnswer, EffectId, Recorded, Request},
    outcome::Question,
    state::State,
};
use opcell_journal::{Journal as _, JournalError, SqliteJournal};
use opcell_types::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

/// A process that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Between two looks at a run that is driven.
const LOOK: Duration = Duration::from_millis(10);

/// Calls that the model wants.
const CALLS: usize = 2;

const PROGRAM: &str = r#"{
  "version": "workflow-ir/v1",
  "name": "asks",
  "steps": [
    {"name": "talk", "type": "session",
     "session": {"tools": ["read"], "contributions": [{"type": "template", "text": "work", "vars": {}}]},
     "outputs": {"final-llm-reply": {"source": "session/final-llm-reply"}},
     "yields": {"type": "text", "text": "final-llm-reply"}}
  ]
}"#;

/// The process that is killed, and the moment.
#[derive(Debug, Clone, Copy)]
enum Kill {
    /// The driver of the run, in the `life`th process, at one of its writes.
    Driver { life: usize, death: Death },
    /// The first person's process, at one of its writes.
    Answerer { death: Death },
    /// The driver of the run, from outside.
    At { life: usize, after: Duration },
}

impl Kill {
    fn sooner(self) -> Self {
        let sooner = |death: Death| Death { write: death.write.saturating_sub(1).max(1), ..death };
        match self {
            Self::Driver { life, death } => Self::Driver { life, death: sooner(death) },
            Self::Answerer { death } => Self::Answerer { death: sooner(death) },
            Self::At { life, after } => Self::At { life, after: after / 2 },
        }
    }
}

/// A second person, who answers everything otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contrary {
    Absent,
    After,
    AtOnce,
}

/// One round.
#[derive(Debug, Clone, Copy)]
struct Round {
    /// `true` if the driver keeps the run while people answer; otherwise they find it suspended.
    stays: bool,
    contrary: Contrary,
    kill: Option<Kill>,
}

/// Kills `rounds` times, reports what is wrong afterwards, and returns the number of rounds with a fault.
///
/// # Errors
/// When a round does not end, or processes cannot be started.
pub fn run(rounds: usize, tell: impl Fn(String) + Sync) -> Result<usize> {
    let directory = tempfile::tempdir()?;
    let field = Field { directory: directory.path() };
    let mut lives = Vec::new();
    for stays in [false, true] {
        let place = field.place(&format!("undisturbed-{stays}"))?;
        let played = field.play(&place, Round { stays, contrary: Contrary::Absent, kill: None })?;
        let faults = block_on(faults(&place))?;
        ensure!(faults.is_empty(), "the undisturbed run: {}", faults.join("; "));
        tell(format!("undisturbed, the driver stays: {stays}: {:?}", played.lives));
        lives.push(played.lives);
    }
    campaign::each(rounds, &tell, |number| {
        let stays = number % 2 == 1;
        let round = planned(number, stays, lives.get(usize::from(stays)).map_or(&[][..], Vec::as_slice));
        (format!("round {number}, {round:?}"), field.killed(number, round))
    })
}

/// Every write of every process, before it and after it; every fifth kill comes at some moment instead. A second person
/// answers in two thirds of the rounds.
fn planned(number: usize, stays: bool, lives: &[(u64, Duration)]) -> Round {
    let sides = [Side::Before, Side::After];
    let at_writes = |writes: u64| (1..=writes).flat_map(move |write| sides.map(|side| Death { write, side }));
    let drivers = lives.iter().enumerate();
    let mut kills: Vec<Kill> = drivers
        .flat_map(|(life, (writes, _))| at_writes(*writes).map(move |death| Kill::Driver { life, death }))
        .collect();
    kills.extend(at_writes(CALLS as u64).map(|death| Kill::Answerer { death }));
    let turn = number / 2;
    let contrary = match (turn + turn / kills.len().max(1)) % 3 {
        0 => Contrary::Absent,
        1 => Contrary::After,
        _ => Contrary::AtOnce,
    };
    let kill = match number % 5 {
        4 => {
            let life = turn % lives.len().max(1);
            let lasted = lives.get(life).map_or(Duration::ZERO, |(_, lasted)| *lasted);
            // Knuth's multiplicative hash: moments spread over the life, the same in every campaign.
            let share = u32::try_from(number).unwrap_or(u32::MAX).wrapping_mul(2_654_435_761) >> 16;
            Some(Kill::At { life, after: lasted.mul_f64(f64::from(share) / f64::from(u16::MAX)) })
        }
        _ => kills.get(turn % kills.len().max(1)).copied(),
    };
    Round { stays, contrary, kill }
}

/// The course of a round.
struct Played {
    killed: bool,
    /// The writes of each driver, and the time that it lived.
    lives: Vec<(u64, Duration)>,
}

struct Field<'a> {
    directory: &'a Path,
}

impl Field<'_> {
    fn place(&self, name: &str) -> Result<PathBuf> {
        let place = self.directory.join(name);
        std::fs::create_dir(&place)?;
        Ok(place)
    }

    /// The faults of a round in which someone was killed indeed: if all were faster, the kill comes sooner.
    fn killed(&self, number: usize, mut round: Round) -> Result<Vec<String>> {
        for attempt in 0..ATTEMPTS {
            let place = self.place(&format!("round-{number}-{attempt}"))?;
            let played = self.play(&place, round)?;
            let faults = block_on(faults(&place))?;
            if played.killed || !faults.is_empty() {
                if faults.is_empty() {
                    std::fs::remove_dir_all(&place)?;
                }
                return Ok(faults);
            }
            round.kill = round.kill.map(Kill::sooner);
        }
        bail!("everyone is always done before the kill")
    }

    /// Drives the run to its end, and answers what it asks.
    fn play(&self, place: &Path, round: Round) -> Result<Played> {
        let mut people = People::new(place, round);
        let mut lives = Vec::new();
        let mut killed = false;
        for life in 0..MOST_LIVES {
            let began = Instant::now();
            let death = match round.kill {
                Some(Kill::Driver { life: at, death }) if at == life => Some(death),
                _ => None,
            };
            let due = match round.kill {
                Some(Kill::At { life: at, after }) if at == life => Some(after),
                _ => None,
            };
            let mut driver = process(place, &["drive"], if round.stays { "stays" } else { "leaves" }, death)?;
            while driver.try_wait()?.is_none() {
                if due.is_some_and(|due| began.elapsed() >= due) || began.elapsed() > PATIENCE {
                    driver.kill()?;
                } else if round.stays {
                    block_on(people.answer())?;
                }
                thread::sleep(LOOK);
            }
            ensure!(began.elapsed() < PATIENCE, "the driver hangs");
            match report(&driver.wait_with_output()?)? {
                None => killed = true,
                Some(report) => {
                    lives.push((report.writes, began.elapsed()));
                    if report.ended {
                        return Ok(Played { killed: killed || people.killed, lives });
                    }
                }
            }
            block_on(people.answer())?;
        }
        bail!("the run has not ended after {MOST_LIVES} processes")
    }
}

/// A process of this program, with its role.
fn process(place: &Path, role: &[&str], how: &str, death: Option<Death>) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(role).arg(place).arg(how).args(death.map(|death| death.to_string()));
    Ok(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
}

/// Those who answer.
struct People<'a> {
    place: &'a Path,
    contrary: Contrary,
    /// The death of the first of them that is started.
    death: Option<Death>,
    /// Effects in doubt that were settled.
    settled: BTreeSet<EffectId>,
    killed: bool,
}

impl<'a> People<'a> {
    fn new(place: &'a Path, round: Round) -> Self {
        let death = match round.kill {
            Some(Kill::Answerer { death }) => Some(death),
            _ => None,
        };
        Self { place, contrary: round.contrary, death, settled: BTreeSet::new(), killed: false }
    }

    /// Answers all that the run asks at this moment, until nothing is without an answer.
    async fn answer(&mut self) -> Result<()> {
        while self.looks().await? {
            let first = process(self.place, &["answer"], "first", self.death.take())?;
            let at_once = match self.contrary {
                Contrary::AtOnce => Some(process(self.place, &["answer"], "second", None)?),
                _ => None,
            };
            self.killed |= report(&first.wait_with_output()?)?.is_none();
            let second = match self.contrary {
                Contrary::After => Some(process(self.place, &["answer"], "second", None)?),
                _ => at_once,
            };
            if let Some(second) = second {
                report(&second.wait_with_output()?)?;
            }
        }
        Ok(())
    }

    /// Settles what is in doubt, and returns `true` if a call is without an answer.
    async fn looks(&mut self) -> Result<bool> {
        let Some((engine, state)) = seen(self.place).await? else { return Ok(false) };
        let run: Arc<str> = RUN.into();
        let mut answered = BTreeSet::new();
        for message in engine.journal().inbox(&run).await? {
            if let Ok(Message::Call { question, .. }) = serde_json::from_str(&message.payload) {
                answered.insert(question);
            }
        }
        let mut asks = false;
        for question in state.questions() {
            match question {
                Question::Call { id, .. } => asks |= !answered.contains(&id),
                Question::Doubt { effect, .. } if self.settled.insert(effect) => {
                    campaign::settle(self.place, &engine, &state, effect).await?;
                }
                Question::Doubt { .. } => {}
                Question::Signal { .. } | Question::Grant { .. } | Question::Input { .. } => {
                    bail!("the run asks for something else")
                }
            }
        }
        Ok(asks)
    }
}

/// The run as others see it; `None` before it was made.
async fn seen(place: &Path) -> Result<Option<(Engine, State)>> {
    if !place.join("runs.db").exists() {
        return Ok(None);
    }
    let engine = Engine::builder().journal(Arc::new(SqliteJournal::open(place.join("runs.db"))?)).build();
    match engine.state_at(&RUN.into(), None).await {
        Ok(state) => Ok(Some((engine, state))),
        Err(RunError::Journal(error)) if matches!(*error, JournalError::UnknownRun(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn death(death: Option<&str>) -> Result<Option<Death>> {
    death.map(str::parse::<Death>).transpose().map_err(anyhow::Error::msg)
}

/// The process that drives the run: until it has ended, or until it is suspended.
///
/// # Errors
/// When the journal cannot be opened, or the run cannot be driven.
pub async fn drive(directory: &Path, stays: bool, dies: Option<&str>) -> Result<Report> {
    let recorder = Arc::new(Recorder::open(directory)?);
    let (journal, writes) = Deadly::open(&directory.join("runs.db"), recorder.clone(), death(dies)?)?;
    let world = Arc::new(World::new(recorder, None)?.asking());
    let engine = Engine::builder()
        .operations(world.clone())
        .judges(world.clone())
        .sessions(world.clone())
        .workflows(world)
        .journal(Arc::new(journal))
        .build();
    let program = Program::new(Arc::new(serde_json::from_str(PROGRAM)?))?;
    let outcome = taken(&engine, program, Value::Null, !stays).await?.finished().await?;
    Ok(Report { writes: writes.load(Ordering::SeqCst), ended: outcome.status.has_ended() })
}

/// The process of a person who answers all that the run asks.
///
/// # Errors
/// When the journal cannot be opened, or an answer is refused for another reason than an earlier one.
pub async fn answer(directory: &Path, voice: &str, dies: Option<&str>) -> Result<Report> {
    let recorder = Arc::new(Recorder::open(directory)?);
    let (journal, writes) = Deadly::open(&directory.join("runs.db"), recorder.clone(), death(dies)?)?;
    let engine = Engine::builder().journal(Arc::new(journal)).build();
    let run: Arc<str> = RUN.into();
    for question in engine.state_at(&run, None).await?.questions() {
        let Question::Call { id, arguments, .. } = question else { continue };
        let answer = said(voice, &arguments);
        let (question, text) = (id.to_string(), serde_json::to_string(&answer)?);
        let asked = arguments.to_json();
        recorder.line(Line::Sent { question: question.clone(), asked, answer: text.clone() });
        match engine.answer_call(&run, &id, answer, Some(voice.into()), Some("test".into())).await {
            Ok(()) => recorder.line(Line::Acknowledged { question, answer: text }),
            Err(RunError::NotAsked { .. } | RunError::AlreadyAnswered { .. } | RunError::Ended { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Report { writes: writes.load(Ordering::SeqCst), ended: false })
}

/// A person's answer about a call: the first approves one as it is and the other one with other arguments, the second
/// one refuses and approves.
fn said(voice: &str, arguments: &Value) -> CallAnswer {
    match (voice, arguments.get("file").and_then(Value::as_str)) {
        ("first", Some("a")) | ("second", Some("b")) => CallAnswer::approve(),
        ("first", _) => CallAnswer::Approve { arguments: Value::object([("file", Value::from("c"))]), run: false },
        _ => CallAnswer::Refuse { reason: Some("not this one".into()) },
    }
}

/// The faults that a run left.
async fn faults(place: &Path) -> Result<Vec<String>> {
    let journal = SqliteJournal::open(place.join("runs.db"))?;
    let run: Arc<str> = RUN.into();
    let kept = journal.read(&run, 0, u64::MAX).await?.iter().map(compare::digest).collect();
    let engine = Engine::builder().journal(Arc::new(journal)).build();
    let history = engine.history(&run).await?;
    let lines = Recorder::lines(place)?;
    let mut faults = compare::broken(&lines, &history, &kept)?;
    let status = engine.state_at(&run, None).await?.status();
    if status != Status::Completed {
        faults.push(format!("the run is {status}"));
    }
    if engine.replay(&run).await?.is_some() {
        faults.push("the journal decides otherwise when it is decided again".to_owned());
    }
    faults.extend(faults_of(&history, &lines));
    Ok(faults)
}

/// Compares what was answered, what was decided and what was done.
fn faults_of(history: &[Recorded], lines: &[Line]) -> Vec<String> {
    let (mut faults, mut asked, mut answers) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
    for recorded in history.iter().flat_map(Recorded::parts) {
        match &recorded.event {
            Event::CallsAsked { calls, .. } => asked.extend(calls.iter().map(|call| call.id.clone())),
            Event::CallAnswered { question, answer, .. } => {
                let is_first = answers.insert(question.clone(), answer.clone()).is_none();
                if !is_first || !asked.contains(question) {
                    faults.push(format!("event {}: an answer to what is not asked", recorded.seq));
                }
            }
            Event::Requested { request: Request::Tool { question, arguments, .. }, .. } => {
                let answer = question.as_ref().and_then(|question| answers.get(question));
                let is_approved =
                    matches!(answer, Some(CallAnswer::Approve { arguments: approved, .. }) if approved == arguments);
                if !is_approved {
                    faults.push(format!("event {}: a call that was answered {answer:?}", recorded.seq));
                }
            }
            _ => {}
        }
    }
    if asked.len() != CALLS || answers.len() != CALLS {
        faults.push(format!("{} questions with {} answers", asked.len(), answers.len()));
    }
    let mut wanted = Vec::new();
    for (question, answer) in &answers {
        match counted(question, answer, lines) {
            Ok(call) => wanted.extend(call),
            Err(fault) => faults.push(fault),
        }
    }
    let mut done: Vec<String> = lines.iter().filter_map(read).collect();
    done.sort_unstable();
    wanted.sort_unstable();
    if done != wanted {
        faults.push(format!("calls: {done:?} instead of {wanted:?}"));
    }
    faults
}

/// The arguments of the call that the answer to a question allows. A fault: no one gave the answer, or another one was
/// acknowledged before it was sent.
fn counted(question: &str, answer: &CallAnswer, lines: &[Line]) -> Result<Option<String>, String> {
    let counts = serde_json::to_string(answer).unwrap_or_default();
    let shown = lines.iter().enumerate().find_map(|(at, line)| match line {
        Line::Sent { question: of, asked, answer } if of == question && *answer == counts => Some((at, asked)),
        _ => None,
    });
    let (sent, asked) = shown.ok_or_else(|| format!("no one answered {question} with {counts}"))?;
    let earlier = lines
        .iter()
        .take(sent)
        .any(|line| matches!(line, Line::Acknowledged { question: of, answer } if of == question && *answer != counts));
    if earlier {
        return Err(format!("{question}: another answer than {counts} was acknowledged before"));
    }
    Ok(match answer {
        CallAnswer::Approve { arguments: Value::Undefined, .. } => Some(asked.clone()),
        CallAnswer::Approve { arguments, .. } => Some(arguments.to_json()),
        CallAnswer::Refuse { .. } => None,
    })
}

/// The arguments of a call that was made.
fn read(line: &Line) -> Option<String> {
    match line {
        Line::Deed(deed) if deed.what == "read" => Some(deed.with.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(asked: &str, answer: &CallAnswer) -> Line {
        let answer = serde_json::to_string(answer).unwrap();
        Line::Sent { question: "q".to_owned(), asked: asked.to_owned(), answer }
    }

    #[test]
    fn an_answer_counts_only_if_it_was_given_and_no_earlier_one_was_acknowledged() {
        let (yes, no) = (CallAnswer::approve(), CallAnswer::Refuse { reason: None });
        let acknowledged = Line::Acknowledged { question: "q".to_owned(), answer: serde_json::to_string(&no).unwrap() };
        assert!(counted("q", &yes, &[]).is_err());
        assert_eq!(counted("q", &yes, &[sent("{}", &yes)]), Ok(Some("{}".to_owned())));
        assert_eq!(counted("q", &no, &[sent("{}", &no)]), Ok(None));
        // At the same time, either may win.
        let lines = [sent("{}", &no), sent("{}", &yes), acknowledged.clone()];
        assert!(counted("q", &yes, &lines).is_ok());
        assert!(counted("q", &yes, &[sent("{}", &no), acknowledged, sent("{}", &yes)]).is_err());
    }
}
