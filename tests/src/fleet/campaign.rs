//! Rounds, one after the other.

use super::{
    balancer,
    checks::{self, Remains, Shown},
    clock::Clock,
    network::{Loss, Networks},
    proxy::Network,
    recorder::Recorder,
    workers::{Ground, Restate, Worker},
    world::{self, DOCUMENTS, SIGNAL},
};
use anyhow::{Context as _, Result, bail};
use opcell::{Config, Host, consent::Requests, places::Places};
use opcell_engine::{Engine, Message, RunOptions, event::Answer, outcome::Question};
use opcell_journal::RunId;
use opcell_journal_postgres::scratch::Server;
use opcell_restate::scratch::{RestateServer, free_port};
use opcell_sandbox::CompileMode;
use opcell_types::{NewRunId, Value};
use rustix::process::Signal;
use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::{Duration, Instant},
};

/// The name under which the campaign's program is the command.
pub const COMMAND: &str = "opcell";

/// Workers of the fleet.
const WORKERS: usize = 3;

/// Runs of each language in a round.
const RUNS: usize = 2;

/// The lease, in seconds.
const LEASE: u64 = 2;

/// The time that the runs of a round may take before they count as runs that never end.
const PATIENCE: Duration = Duration::from_secs(120);

/// The time after the last fault at which an effect in doubt counts as done or not done: whoever might still have
/// performed it is stopped by then.
const CALM: Duration = Duration::from_millis(1_500);

/// The interval at which the campaign looks.
const LOOK: Duration = Duration::from_millis(200);

/// A fault.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// Kills this many workers without warning.
    Kill(usize),
    /// A worker, for longer than its lease; then it continues.
    Stop,
    /// A worker's connections break, and none is made for a while.
    Cut,
    /// A worker's connections carry nothing for longer than its lease.
    Silence,
    /// The server, as an administrator does.
    Restart,
    /// The server, as a power failure does.
    PowerFailure,
    /// A worker's clock, by this many seconds.
    Clock(i64),
    /// A worker is asked to stop, and another takes its place.
    Drain,
    /// The Restate server, as a power failure does; without one, a worker.
    Restate,
    /// A worker's network, for longer than its lease.
    Partition(Loss),
    /// A worker's machine, which never returns: the server hears nothing of it, not even that its connections ended.
    Machine,
}

impl Fault {
    fn of(round: u64, networks: Networks, chance: &mut Chance) -> Self {
        let far = i64::try_from(60 + chance.below(600)).unwrap_or(60);
        match round % 13 {
            10 if networks.are_there() => Self::Partition(Loss::Both),
            11 if networks.are_there() => Self::Partition(if chance.below(2) == 0 { Loss::There } else { Loss::Back }),
            12 if networks.are_there() => Self::Machine,
            0 | 5 | 10 | 12 => Self::Kill(1 + chance.index(WORKERS)),
            1 | 11 => Self::Stop,
            2 => Self::Cut,
            3 => Self::Silence,
            4 => Self::Restart,
            6 => Self::PowerFailure,
            7 => Self::Clock(if chance.below(2) == 0 { far } else { -far }),
            8 => Self::Drain,
            _ => Self::Restate,
        }
    }
}

/// SplitMix64: the same round does the same, as far as processes do.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).unwrap_or(0)
    }

    fn time(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.below(most))
    }
}

/// Fights `rounds` rounds from number `first` on, and gives the number of runs that differ; `None`, after a word on
/// stderr, where no PostgreSQL is installed, or no Restate server that shall give turns.
///
/// # Errors
/// When there could be no campaign.
pub fn run(
    first: u64,
    rounds: u64,
    with_restate: bool,
    networks: Networks,
    tell: impl Fn(String),
) -> Result<Option<usize>> {
    let Some(server) = Server::start_without_flush()? else { return Ok(None) };
    let restate = match with_restate {
        true => match RestateServer::start(&programs_folder()?)? {
            Some(server) => Some(server),
            None => return Ok(None),
        },
        false => None,
    };
    let folder = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let fought = runtime.block_on(fight(server, restate, networks, folder.path(), first, rounds, &tell));
    if !matches!(fought, Ok(0)) {
        let folder = folder.keep();
        tell(format!("the workers' logs are in {}", folder.display()));
    }
    fought.map(Some)
}

/// Returns the folder in which programs that are installed for tests outlast them: `target/tmp`.
fn programs_folder() -> Result<std::path::PathBuf> {
    let program = std::env::current_exe()?;
    Ok(program.ancestors().nth(2).context("a build folder")?.join("tmp"))
}

/// Returns the server that gives turns to the workers.
async fn take_turns_from(server: &RestateServer) -> Result<Restate> {
    let ports: Vec<u16> = (0..WORKERS).map(|_| free_port()).collect();
    let advertise = format!("http://127.0.0.1:{}", balancer::start(ports.clone()).await?);
    Ok(Restate { admin: server.admin(), ingress: server.ingress(), advertise, ports })
}

/// The store and the workers of a campaign.
struct Field<'a> {
    folder: &'a Path,
    host: &'a Host,
    recorder: &'a Recorder,
    tell: &'a dyn Fn(String),
    /// Cleared while something is wrong, and set to the moment when it was put right.
    calm: Cell<Option<Instant>>,
}

/// The servers of a campaign.
struct Servers {
    journal: Server,
    restate: Option<RestateServer>,
}

async fn fight(
    server: Server,
    restate: Option<RestateServer>,
    networks: Networks,
    folder: &Path,
    first: u64,
    rounds: u64,
    tell: &dyn Fn(String),
) -> Result<usize> {
    let recorder = Recorder::default();
    world::write(folder, recorder.start(networks.recorder()).await?)?;
    let opcell = folder.join(COMMAND);
    let program = std::env::current_exe()?;
    if fs::hard_link(&program, &opcell).is_err() {
        fs::copy(&program, &opcell)?;
    }
    let config = Config::load(folder.join("opcell.toml")).map_err(|rejected| anyhow::anyhow!("{rejected}"))?;
    let trust = Requests::of(&config).digest().to_owned();
    let journal = format!("{}&schema=fleet&lease={LEASE}&connections=6", server.url());
    let through = journal.replace(&format!("127.0.0.1:{}/", server.port()), "ADDRESS/");
    let clock = Clock::build(folder)?;
    let turns = match &restate {
        Some(server) => Some(take_turns_from(server).await?),
        None => None,
    };
    let (clock, turns) = (clock.as_ref(), turns.as_ref());
    let ground = Ground { folder, opcell: &opcell, trust: &trust, journal: &through, networks, clock, restate: turns };
    let mut servers = Servers { journal: server, restate };

    let mut places = Places::default();
    places.cache = Some(folder.join("home/campaign/components"));
    places.state = Some(folder.join("home/campaign/state"));
    let store = opcell_journal_postgres::PostgresJournal::open(journal.parse()?).await?;
    let host = Host::builder().config(config).places(places).journal(store).compile(CompileMode::TrustedInProcess);
    let host = host.build().await?;
    let mut workers = Vec::new();
    for number in 0..WORKERS {
        workers.push(Worker::start(number, servers.journal.port(), &ground).await?);
    }

    let field = Field { folder, host: &host, recorder: &recorder, tell, calm: Cell::new(Some(Instant::now())) };
    let undisturbed = field.undisturbed().await?;
    let mut differences = 0;
    for round in first..first + rounds {
        let mut chance = Chance(round);
        let fault = Fault::of(round, networks, &mut chance);
        let runs = field.start(&format!("round-{round}")).await.with_context(|| format!("round {round}"))?;
        let began = Instant::now();
        let disturb = field.disturb(fault, &mut chance, &mut workers, &mut servers, &ground);
        let (disturbed, found) = tokio::join!(disturb, field.finish(&runs, &undisturbed));
        disturbed.with_context(|| format!("round {round}, {fault:?}"))?;
        let found = found?;
        differences += found.len();
        for (run, what) in &found {
            tell(format!("round {round}, {fault:?}, run {run}:\n  {}", what.join("\n  ")));
        }
        tell(format!("round {round}: {fault:?}, {} runs, {:.1} s", runs.len(), began.elapsed().as_secs_f64()));
        for what in checks::stored(&servers.journal, &recorder)? {
            differences += 1;
            tell(format!("round {round}, {fault:?}, stores: {what}"));
        }
        for (number, worker) in workers.iter_mut().enumerate() {
            if worker.is_gone()? {
                differences += 1;
                tell(format!("round {round}: worker {number} ended by itself"));
                worker.launch(&ground)?;
            }
        }
    }
    Ok(differences)
}

impl Field<'_> {
    fn engine(&self) -> &Engine {
        self.host.engine()
    }

    /// Returns the remains of one run of each document when nothing goes wrong.
    async fn undisturbed(&self) -> Result<BTreeMap<&'static str, Remains>> {
        let runs = self.start("undisturbed").await?;
        self.finish(&runs, &BTreeMap::new()).await?;
        let mut undisturbed = BTreeMap::new();
        for (run, language) in runs {
            let remains = Remains::of(self.engine(), self.recorder, &run).await?;
            if !remains.is_whole() {
                bail!("the undisturbed run {run}: {}", remains.describe());
            }
            (self.tell)(format!("undisturbed {language}: {}", remains.describe()));
            undisturbed.insert(language, remains);
        }
        Ok(undisturbed)
    }

    /// Makes the runs of a round, and leaves them to the workers.
    async fn start(&self, name: &str) -> Result<BTreeMap<RunId, &'static str>> {
        let mut runs = BTreeMap::new();
        for (language, document, input) in DOCUMENTS {
            let path = self.folder.join(document).display().to_string();
            let workflow = self.host.open(&path).map_err(|error| anyhow::anyhow!("{error}"))?;
            for number in 0..RUNS {
                let run: RunId = format!("{name}-{language}-{number}").into();
                let options =
                    RunOptions { run: Some(NewRunId::derived(run.clone())), detach: true, ..RunOptions::default() };
                options.release.cancel();
                let input = Value::from_json(input).context("the input")?;
                self.host.start_with(&workflow, input, options).await?.finished().await?;
                runs.insert(run, language);
            }
        }
        Ok(runs)
    }

    /// Does something, and puts it right.
    async fn disturb(
        &self,
        fault: Fault,
        chance: &mut Chance,
        workers: &mut [Worker],
        servers: &mut Servers,
        ground: &Ground<'_>,
    ) -> Result<()> {
        tokio::time::sleep(chance.time(3_000)).await;
        let at = chance.index(workers.len());
        let lease = Duration::from_secs(LEASE);
        self.calm.set(None);
        let all = workers.len();
        let chosen: BTreeSet<usize> = match fault {
            Fault::Kill(count) => (at..at + count).map(|at| at % all).collect(),
            _ => BTreeSet::from([at]),
        };
        for (_, worker) in workers.iter_mut().enumerate().filter(|(number, _)| chosen.contains(number)) {
            match fault {
                Fault::Restate if servers.restate.is_some() => {
                    tokio::task::block_in_place(|| match &mut servers.restate {
                        Some(server) => server.restart(),
                        None => Ok(()),
                    })?
                }
                Fault::Kill(_) | Fault::Restate => {
                    tokio::task::block_in_place(|| worker.end(true))?;
                    tokio::time::sleep(chance.time(500)).await;
                    worker.launch(ground)?;
                }
                Fault::Stop => {
                    worker.signal(Signal::STOP)?;
                    tokio::time::sleep(lease + chance.time(3_000)).await;
                    worker.signal(Signal::CONT)?;
                }
                Fault::Cut => {
                    worker.proxy.set(Network::Cut);
                    tokio::time::sleep(chance.time(4_000)).await;
                    worker.proxy.set(Network::Whole);
                }
                Fault::Silence => {
                    worker.proxy.set(Network::Silent);
                    tokio::time::sleep(lease + chance.time(3_000)).await;
                    worker.proxy.set(Network::Whole);
                }
                Fault::Partition(loss) => {
                    let link = worker.link.as_ref().context("the worker has no network of its own")?;
                    link.fail(loss)?;
                    tokio::time::sleep(lease + chance.time(3_000)).await;
                    link.heal(loss)?;
                }
                Fault::Machine => {
                    tokio::task::block_in_place(|| worker.lose_machine())?;
                    tokio::time::sleep(chance.time(1_000)).await;
                    worker.launch(ground)?;
                }
                Fault::Restart | Fault::PowerFailure => {
                    tokio::task::block_in_place(|| match fault {
                        Fault::Restart => servers.journal.stop(),
                        _ => servers.journal.kill(),
                    })?;
                    tokio::time::sleep(chance.time(2_000)).await;
                    tokio::task::block_in_place(|| servers.journal.launch())?;
                }
                // It stays wrong until it jumps again.
                Fault::Clock(seconds) => worker.set_clock(seconds)?,
                Fault::Drain => {
                    worker.signal(Signal::TERM)?;
                    tokio::task::block_in_place(|| worker.end(false))?;
                    worker.launch(ground)?;
                }
            }
        }
        self.calm.set(Some(Instant::now()));
        Ok(())
    }

    /// Does what the operator of these runs does until all have ended, and gives what differs.
    async fn finish(
        &self,
        runs: &BTreeMap<RunId, &'static str>,
        undisturbed: &BTreeMap<&'static str, Remains>,
    ) -> Result<Vec<(RunId, Vec<String>)>> {
        let until = Instant::now() + PATIENCE;
        let mut open: BTreeSet<RunId> = runs.keys().cloned().collect();
        let mut shown = Shown::default();
        let mut told = BTreeSet::new();
        let mut found = Vec::new();
        while !open.is_empty() && Instant::now() < until {
            tokio::time::sleep(LOOK).await;
            for run in open.clone() {
                // A server that is away answers later.
                match self.look(&run, &mut shown, &mut told).await {
                    Ok(true) => drop(open.remove(&run)),
                    Ok(false) => {}
                    Err(error) => tracing::warn!(%run, %error, "the campaign cannot look"),
                }
            }
        }
        for run in &open {
            let status = self.engine().state_at(run, None).await.map(|state| state.status().to_string());
            found.push((run.clone(), vec![format!("has not ended: {status:?}")]));
        }
        for (run, language) in runs.iter().filter(|(run, _)| !open.contains(*run)) {
            let mut what = match undisturbed.get(language) {
                Some(undisturbed) => Remains::of(self.engine(), self.recorder, run).await?.differences(undisturbed),
                None => Vec::new(),
            };
            let records = self.engine().journal().read(run, 0, u64::MAX).await?;
            what.extend(shown.lost(run, &records));
            if !what.is_empty() {
                found.push((run.clone(), what));
            }
        }
        Ok(found)
    }

    /// Looks at a run; whether it has ended. Answers its questions as an operator does who looks at the world first.
    async fn look(&self, run: &RunId, shown: &mut Shown, told: &mut BTreeSet<RunId>) -> Result<bool> {
        let records = self.engine().journal().read(run, shown.len(run), u64::MAX).await?;
        shown.note(run, &records);
        let state = self.engine().state_at(run, None).await?;
        if state.status().has_ended() {
            return Ok(true);
        }
        let calm = self.calm.get().is_some_and(|since| since.elapsed() >= CALM);
        for question in state.questions() {
            match question {
                Question::Signal { .. } if told.insert(run.clone()) => {
                    let sent = self.engine().signal(run, &SIGNAL.into(), Value::Null, Some("operator".into())).await;
                    if let Err(error) = sent {
                        // No one knows whether it arrived: who looks first does not say it twice.
                        let arrived = self.engine().journal().inbox(run).await;
                        if arrived.map_or(true, |inbox| inbox.is_empty()) {
                            told.remove(run);
                        }
                        return Err(error.into());
                    }
                }
                Question::Doubt { effect, .. } if calm => {
                    let key = state.effect(effect, None).map(|effect| effect.task).and_then(|task| key(&task));
                    let key = key.with_context(|| format!("effect {} in doubt has no key", effect.0))?;
                    let done = self.recorder.of(run).keys().any(|deed| *deed.key == *key);
                    let answer = if done { Answer::Skip } else { Answer::Retry };
                    self.engine().send(run, &Message::Answer { effect: Some(effect), answer, by: None }).await?;
                    // Until it is taken, the same question would be answered again.
                    tokio::time::sleep(LOOK).await;
                }
                _ => {}
            }
        }
        Ok(false)
    }
}

fn key(task: &opcell_engine::effect::Task) -> Option<std::sync::Arc<str>> {
    use opcell_engine::effect::Task;
    match task {
        Task::Invoke(call) | Task::Judge(call) => Some(call.context.idempotency_key.clone()),
        Task::Tool(call) => Some(call.context.idempotency_key.clone()),
        _ => None,
    }
}
