//! A fleet in one thread: the real engine and the real worker's loop, several of them, on a simulated store, in
//! simulated time.
//!
//! A seed decides everything: which answers of the store are lost, which requests come twice or late, what a reading
//! without ownership shows, which process stops or dies and when. Hours of a fleet pass in milliseconds, and a seed
//! that fails does so again. What must hold is what the [fleet](crate::fleet) checks with real processes: every run
//! ends as an undisturbed one does, each `once` effect happens at most once and each idempotent one under one key, and
//! no acknowledged append is lost.
//!
//! In: seeds. Out: what is wrong with each of them.

mod chance;
mod store;
mod world;

use crate::journey;
use anyhow::{Context as _, Result};
use chance::Chance;
use opcell_engine::{
    Engine, Message, RunOptions,
    event::Answer,
    outcome::Question,
    worker::{Worker, WorkerOptions},
};
use opcell_journal::RunId;
use opcell_types::{NewRunId, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use store::{Process, Store};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use world::{Deeds, World};

/// Workers.
const WORKERS: usize = 3;

/// Runs.
const RUNS: usize = 2;

/// The time for which things go wrong, and the time that the runs may take altogether, in simulated time.
const TROUBLE: Duration = Duration::from_secs(40);
const PATIENCE: Duration = Duration::from_secs(3_600);

/// The time that an operator waits after a fault before saying whether something was done.
const CALM: Duration = Duration::from_secs(30);

/// A fault that a simulation must find, so that it is known to look: none is planted in a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// Now and then the store acknowledges an append that it does not keep.
    LostAppend,
    /// The operator has what may have happened repeated without looking.
    BlindRetry,
}

impl Planted {
    /// By its name on the command line.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [("lost-append", Self::LostAppend), ("blind-retry", Self::BlindRetry)]
            .into_iter()
            .find_map(|(known, planted)| (known == name).then_some(planted))
    }
}

/// The end of a run that nothing disturbs, with its deeds: (operation, keys).
#[derive(Debug, Clone, PartialEq)]
struct Ended {
    outcome: String,
    keys: Vec<(String, usize)>,
}

/// The run that every seed is compared with.
pub struct Undisturbed(Ended);

impl Undisturbed {
    /// Runs the workflow in a quiet simulation.
    ///
    /// # Errors
    /// When it does not end.
    pub fn find() -> Result<Self> {
        let (ended, wrong) = simulate(0, false, None)?;
        anyhow::ensure!(wrong.is_empty(), "the undisturbed simulation: {}", wrong.join("; "));
        Ok(Self(ended.into_iter().next().context("a run")?))
    }

    /// Returns the differences of a seed; empty, if all is well.
    ///
    /// # Errors
    /// When there could be no simulation.
    pub fn differences(&self, seed: u64, planted: Option<Planted>) -> Result<Vec<String>> {
        let (ended, mut wrong) = simulate(seed, true, planted)?;
        for ended in ended.iter().filter(|ended| **ended != self.0) {
            wrong.push(format!("a run left {ended:?} instead of {:?}", self.0));
        }
        Ok(wrong)
    }
}

fn simulate(seed: u64, faults: bool, planted: Option<Planted>) -> Result<(Vec<Ended>, Vec<String>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(async { Simulation::new(seed, faults, planted)?.run().await })
}

struct Simulation {
    chance: Chance,
    faults: bool,
    planted: Option<Planted>,
    store: Store,
    world: Arc<World>,
    /// The operator's own connection, which nothing disturbs.
    operator: Engine,
    workers: Vec<(Process, CancellationToken)>,
}

impl Simulation {
    fn new(seed: u64, faults: bool, planted: Option<Planted>) -> Result<Self> {
        let chance = Chance::new(seed);
        let store = Store::new(planted == Some(Planted::LostAppend));
        let world = Arc::new(World::new(Deeds::default(), None)?);
        let operator = engine(&world, store.process("operator", Chance::new(seed), false));
        Ok(Self { chance, faults, planted, store, world, operator, workers: Vec::new() })
    }

    fn launch(&mut self) {
        let name = format!("worker-{}", self.workers.len());
        let process = self.store.process(&name, self.chance.split(), self.faults);
        let world = Arc::new(self.world.seen_by(self.world.witness.of(&process)));
        let engine = engine(&world, process.clone());
        let stop = CancellationToken::new();
        let mut options = WorkerOptions::default();
        options.concurrency = 1 + self.chance.index(3);
        options.grace = Duration::from_secs(self.chance.below(5));
        let worker = Worker::new(engine, options);
        let (stopped, gone) = (stop.clone(), process.clone());
        tokio::spawn(async move {
            let _ = worker.run(stopped, |_| Ok::<_, opcell_engine::RunError>(())).await;
            gone.kill();
        });
        self.workers.push((process, stop));
    }

    async fn run(mut self) -> Result<(Vec<Ended>, Vec<String>)> {
        let runs: Vec<RunId> = (0..RUNS).map(|number| format!("run-{number}").into()).collect();
        for run in &runs {
            let options =
                RunOptions { run: Some(NewRunId::derived(run.clone())), detach: true, ..RunOptions::default() };
            options.release.cancel();
            self.operator.start(journey::program()?, journey::input()?, options).await?.finished().await?;
        }
        for _ in 0..WORKERS {
            self.launch();
        }
        let began = Instant::now();
        let (mut calm, mut told) = (began, BTreeSet::new());
        let mut open: BTreeSet<RunId> = runs.iter().cloned().collect();
        // How many records a run had when it was looked at last.
        let mut seen = BTreeMap::new();
        while !open.is_empty() && began.elapsed() < PATIENCE {
            sleep(self.chance.time(2_000)).await;
            if self.faults && began.elapsed() < TROUBLE {
                self.disturb().await;
                calm = Instant::now();
            }
            // The list says which runs need a look: reading a run anew costs as much as driving it.
            for entry in self.operator.runs().await? {
                if entry.state.ended {
                    open.remove(&entry.run);
                } else if &*entry.state.status == "suspended"
                    && (seen.insert(entry.run.clone(), entry.records) != Some(entry.records) || calm.elapsed() > CALM)
                {
                    self.look(&entry.run, calm, &mut told).await?;
                }
            }
        }
        let mut wrong = self.store.broken();
        wrong.extend(open.iter().map(|run| format!("{run} has not ended after {} s", PATIENCE.as_secs())));
        let mut ended = Vec::new();
        for run in runs.iter().filter(|run| !open.contains(*run)) {
            let outcome = self.operator.state_at(run, None).await?.outcome();
            if let Some(divergence) = self.operator.replay(run).await? {
                wrong.push(format!("{run} decides otherwise: {divergence:?}"));
            }
            let outcome = format!("{} {} {}", outcome.status, outcome.result.to_json(), outcome.artifacts.to_json());
            ended.push(Ended { outcome, keys: self.world.witness.keys(run) });
            wrong.extend(self.world.witness.repeated(run));
        }
        Ok((ended, wrong))
    }

    /// One process stops for a while, dies, or is asked to end; another takes the place of one that is gone.
    async fn disturb(&mut self) {
        let at = self.chance.index(self.workers.len());
        let Some((process, stop)) = self.workers.get(at) else { return };
        match self.chance.below(8) {
            0 | 1 => process.kill(),
            2 => stop.cancel(),
            3 | 4 => {
                let (process, pause) = (process.clone(), self.chance.time(25_000));
                process.pause(true);
                sleep(pause).await;
                process.pause(false);
            }
            _ => {}
        }
        self.workers.retain(|(process, _)| !process.is_gone());
        while self.workers.len() < WORKERS {
            self.launch();
        }
    }

    /// Does for a run what an operator does.
    async fn look(&self, run: &RunId, calm: Instant, told: &mut BTreeSet<RunId>) -> Result<()> {
        let state = self.operator.state_at(run, None).await?;
        for question in state.questions() {
            match question {
                Question::Signal { name, .. } if told.insert(run.clone()) => {
                    self.operator.signal(run, &name, Value::from("now"), None).await?;
                }
                Question::Doubt { effect, .. } if calm.elapsed() > CALM => {
                    let task = state.effect(effect, None).map(|effect| effect.task);
                    let key = task.and_then(|task| world::key(&task)).context("an effect in doubt without a key")?;
                    let looks = self.planted != Some(Planted::BlindRetry);
                    let answer = if looks && self.world.witness.has_done(&key) { Answer::Skip } else { Answer::Retry };
                    let unread = self.operator.journal().inbox(run).await?;
                    if unread.is_empty() {
                        self.operator.send(run, &Message::Answer { effect: Some(effect), answer, by: None }).await?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn engine(world: &Arc<World>, process: Process) -> Engine {
    Engine::builder()
        .operations(world.clone())
        .judges(world.clone())
        .sessions(world.clone())
        .workflows(world.clone())
        .journal(Arc::new(process))
        .build()
}
