//! Kills, one after the other, on as many processors as there are.

use super::{
    child::{RUN, Report},
    compare::Remains,
    deadly::{Death, Side},
    recorder::{Line, Recorder},
};
use anyhow::{Context as _, Result, bail};
use opcell_engine::{
    Engine, Message,
    effect::Task,
    event::{Answer, CallAnswer, EffectId},
    outcome::Question,
    state::State,
};
use opcell_journal::SqliteJournal;
use opcell_types::Value;
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Processes that one run may take before it counts as one that never ends.
pub(super) const MOST_LIVES: usize = 12;

/// The number of times a run may end before its kill comes.
pub(super) const ATTEMPTS: usize = 20;

/// When a process is killed.
#[derive(Debug, Clone, Copy)]
enum Kill {
    /// By itself, at a write, counted through the undisturbed run's processes: in the `life`th of them.
    AtWrite { life: usize, death: Death },
    /// From outside.
    At { life: usize, after: Duration },
}

impl Kill {
    fn sooner(self) -> Self {
        match self {
            Self::AtWrite { life, death } => {
                Self::AtWrite { life, death: Death { write: death.write.saturating_sub(1).max(1), ..death } }
            }
            Self::At { life, after } => Self::At { life, after: after / 2 },
        }
    }
}

/// An undisturbed run.
struct Undisturbed {
    remains: Remains,
    /// Per process: its writes and how long it lived.
    lives: Vec<(u64, Duration)>,
}

/// Kills `kills` runs, reports what differs, and gives the number of runs with a difference.
///
/// # Errors
/// When the undisturbed run does not end as it should, or processes cannot be started.
pub fn run(kills: usize, tell: impl Fn(String) + Sync) -> Result<usize> {
    let directory = tempfile::tempdir()?;
    let cache = directory.path().join("cache");
    // Compiled code is only taken from a folder that is no one else's.
    std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700).create(&cache)?;
    let component =
        opcell_cli::selftest::component_from_wat(include_str!("plugin.wat"), None, "operation-plugin", None)?;
    std::fs::write(cache.join("test.wasm"), component)?;
    let field = Field { directory: directory.path(), cache: &cache };
    // The first run compiles; its times say nothing.
    field.undisturbed("warm")?;
    let undisturbed = field.undisturbed("undisturbed")?;
    tell(format!("undisturbed: {:?}", undisturbed.lives));
    if !undisturbed.remains.broken().is_empty() {
        bail!("the undisturbed run: {}", undisturbed.remains.broken().join("; "));
    }

    each(kills, &tell, |number| {
        let kill = undisturbed.kill(number);
        let title = format!("kill {number}, {kill:?}");
        (title, field.killed(number, kill, &undisturbed.remains))
    })
}

/// Does every one of `count` things on as many threads as there are processors, reports what is wrong with each, and
/// returns the number of those with which something is. `work` returns a title and the faults.
pub(super) fn each(
    count: usize,
    tell: &(impl Fn(String) + Sync),
    work: impl Fn(usize) -> (String, Result<Vec<String>>) + Sync,
) -> Result<usize> {
    let (next, wrong) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failure = Mutex::new(None);
    let threads = thread::available_parallelism().map_or(1, usize::from).min(count.max(1));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= count || failure.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
                        return;
                    }
                    match work(number) {
                        (_, Ok(faults)) if faults.is_empty() => {}
                        (title, Ok(faults)) => {
                            wrong.fetch_add(1, Ordering::SeqCst);
                            tell(format!("{title}:\n  {}", faults.join("\n  ")));
                        }
                        (title, Err(error)) => {
                            *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.context(title));
                        }
                    }
                }
            });
        }
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(wrong.into_inner()),
    }
}

impl Undisturbed {
    /// Cycles through every write of every process: before it, after it, and on a disk that is full from then on. Every
    /// fifth kill comes at a random moment instead.
    fn kill(&self, number: usize) -> Kill {
        let lives = self.lives.iter().enumerate();
        if number % 5 == 4
            && let Some((life, (_, lasted))) = lives.clone().cycle().nth(number / 5)
        {
            // Knuth's multiplicative hash: moments spread over the life, the same in every campaign.
            let share = u32::try_from(number).unwrap_or(u32::MAX).wrapping_mul(2_654_435_761) >> 16;
            return Kill::At { life, after: lasted.mul_f64(f64::from(share) / f64::from(u16::MAX)) };
        }
        let sides = [Side::Before, Side::After, Side::Full];
        let mut moments = lives.flat_map(|(life, (writes, _))| {
            (1..=*writes).flat_map(move |write| sides.map(|side| Kill::AtWrite { life, death: Death { write, side } }))
        });
        let all = moments.clone().count().max(1);
        // Those in between were random.
        let turn = number - number / 5;
        moments.nth(turn % all).unwrap_or(Kill::At { life: 0, after: Duration::ZERO })
    }
}

/// The store and the documents of the campaign.
struct Field<'a> {
    directory: &'a Path,
    cache: &'a Path,
}

impl Field<'_> {
    fn place(&self, name: &str) -> Result<PathBuf> {
        let place = self.directory.join(name);
        std::fs::create_dir(&place)?;
        Ok(place)
    }

    fn undisturbed(&self, name: &str) -> Result<Undisturbed> {
        let place = self.place(name)?;
        let mut lives = Vec::new();
        loop {
            let started = Instant::now();
            let Some(report) = self.live(&place, None, None)? else { bail!("it died, and was not killed") };
            lives.push((report.writes, started.elapsed()));
            if report.ended {
                return Ok(Undisturbed { remains: block_on(Remains::of(&place))?, lives });
            }
            block_on(help(&place))?;
        }
    }

    /// The differences of a run that was killed indeed: one that was faster than the kill is killed sooner.
    fn killed(&self, number: usize, mut kill: Kill, undisturbed: &Remains) -> Result<Vec<String>> {
        for attempt in 0..ATTEMPTS {
            if let Some(differences) = self.disturbed(&format!("kill-{number}-{attempt}"), kill, undisturbed)? {
                return Ok(differences);
            }
            kill = kill.sooner();
        }
        bail!("the run always ends before it is killed")
    }

    /// `None` when the run had ended before the kill came.
    fn disturbed(&self, name: &str, kill: Kill, undisturbed: &Remains) -> Result<Option<Vec<String>>> {
        let place = self.place(name)?;
        let mut kills = 0;
        for life in 0..MOST_LIVES {
            let (death, after) = match kill {
                Kill::AtWrite { life: at, death } if at == life => (Some(death), None),
                Kill::At { life: at, after } if at == life => (None, Some(after)),
                _ => (None, None),
            };
            match self.live(&place, death, after)? {
                None => kills += 1,
                Some(report) if report.ended => {
                    let found = block_on(Remains::of(&place))?.differences(undisturbed, kills);
                    if found.is_empty() {
                        std::fs::remove_dir_all(&place)?;
                    }
                    return Ok((kills > 0 || !found.is_empty()).then_some(found));
                }
                Some(_) => block_on(help(&place))?,
            }
        }
        Ok(Some(vec![format!("the run has not ended after {MOST_LIVES} processes")]))
    }

    /// One process; `None` when it was killed.
    fn live(&self, place: &Path, death: Option<Death>, after: Option<Duration>) -> Result<Option<Report>> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("child").arg(place).arg(self.cache).args(death.map(|death| death.to_string()));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        if let Some(after) = after {
            thread::sleep(after);
            child.kill()?;
        }
        let output = child.wait_with_output()?;
        match output.status.code() {
            Some(0) => Ok(Some(serde_json::from_slice(&output.stdout).context("a child's report")?)),
            Some(code) => bail!("a child ended with {code}: {}", String::from_utf8_lossy(&output.stderr)),
            None => Ok(None),
        }
    }
}

/// Does what the operator of a suspended run does: looks at the world before saying whether something was done, and
/// gives the signal.
async fn help(place: &Path) -> Result<()> {
    let journal = SqliteJournal::open(place.join("runs.db"))?;
    let engine = Engine::builder().journal(Arc::new(journal)).build();
    let run: Arc<str> = RUN.into();
    let state = engine.state_at(&run, None).await?;
    for question in state.questions() {
        match question {
            Question::Signal { name, .. } => {
                engine.signal(&run, &name, Value::from("now"), Some("operator".into())).await?;
            }
            Question::Doubt { effect, .. } => settle(place, &engine, &state, effect).await?,
            // No plugin of the campaign is set up to ask.
            Question::Grant { step, .. } => bail!("step {step} asks for a grant"),
            // The campaign has no MCP server.
            Question::Input { step, .. } => bail!("step {step} asks for input"),
            // One call is approved as it is, and the other one with other arguments.
            Question::Call { id, arguments, .. } => {
                let answer = match arguments.get("file").and_then(Value::as_str) {
                    Some("a") => CallAnswer::approve(),
                    _ => CallAnswer::Approve { arguments: Value::object([("file", Value::from("c"))]), run: false },
                };
                engine.answer_call(&run, &id, answer, Some("operator".into()), None).await?;
            }
        }
    }
    Ok(())
}

/// Looks into the world, and says whether an effect in doubt is to be executed again.
pub(super) async fn settle(place: &Path, engine: &Engine, state: &State, effect: EffectId) -> Result<()> {
    let task = state.effect(effect, None).map(|effect| effect.task);
    let key = match task {
        Some(Task::Invoke(call) | Task::Judge(call)) => call.context.idempotency_key,
        Some(Task::Tool(call)) => call.context.idempotency_key.clone(),
        _ => bail!("effect {effect} is in doubt, and not a call"),
    };
    let lines = Recorder::lines(place)?;
    let done = lines.iter().any(|line| matches!(line, Line::Deed(deed) if deed.key == key.as_ref()));
    let answer = if done { Answer::Skip } else { Answer::Retry };
    Ok(engine.send(&RUN.into(), &Message::Answer { effect: Some(effect), answer, by: None }).await?)
}

pub(super) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
