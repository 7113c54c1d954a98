//! Kills, one after the other, on as many processors as there are.

use super::{
    child::RUN,
    compare::Remains,
    deadly::{Death, Side},
    kills::{self, Lives, Subject},
    recorder::{Line, Recorder},
};
use anyhow::{Result, bail};
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
    process::Command,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// An undisturbed run.
struct Undisturbed {
    remains: Remains,
    lives: Lives,
}

/// The sides of a write: the disk may be full from it on as well.
const SIDES: [Side; 3] = [Side::Before, Side::After, Side::Full];

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
    tell(format!("undisturbed: {:?}", undisturbed.lives.0));
    if !undisturbed.remains.broken().is_empty() {
        bail!("the undisturbed run: {}", undisturbed.remains.broken().join("; "));
    }

    each(kills, &tell, |number| {
        let kill = undisturbed.lives.kill(number, &SIDES);
        let title = format!("kill {number}, {kill:?}");
        let place = |attempt| field.place(&format!("kill-{number}-{attempt}"));
        let faults = |place: &Path, kills| Ok(block_on(Remains::of(place))?.differences(&undisturbed.remains, kills));
        (title, kills::disturbed(&field, kill, place, faults))
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
        let lives = kills::undisturbed(self, &place)?;
        Ok(Undisturbed { remains: block_on(Remains::of(&place))?, lives })
    }
}

impl Subject for Field<'_> {
    fn process(&self, place: &Path, death: Option<Death>) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("child").arg(place).arg(self.cache).args(death.map(|death| death.to_string()));
        Ok(command)
    }

    fn help(&self, place: &Path) -> Result<()> {
        block_on(help(place))
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
