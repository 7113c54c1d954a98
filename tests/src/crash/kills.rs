//! The kills of a campaign: their moments, and the processes that they end.

use super::{
    child::Report,
    deadly::{Death, Side},
};
use anyhow::{Context as _, Result, bail};
use std::{
    path::Path,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Processes that one run may take before it counts as one that never ends.
pub(super) const MOST_LIVES: usize = 12;

/// The number of times a run may end before its kill comes.
pub(super) const ATTEMPTS: usize = 20;

/// A process that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(300);

/// When a process is killed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kill {
    /// By itself, at a write of the `life`th process.
    AtWrite { life: usize, death: Death },
    /// From outside.
    At { life: usize, after: Duration },
}

/// The processes of an undisturbed run: the writes of each, and how long it lived.
#[derive(Debug)]
pub(super) struct Lives(pub(super) Vec<(u64, Duration)>);

impl Lives {
    /// Every write of every process, on each of these sides of it.
    pub(super) fn moments(&self, sides: &[Side]) -> impl Iterator<Item = Kill> {
        self.0.iter().enumerate().flat_map(move |(life, (writes, _))| {
            let at = move |write, side| Kill::AtWrite { life, death: Death { write, side } };
            (1..=*writes).flat_map(move |write| sides.iter().map(move |side| at(write, *side)))
        })
    }

    /// Cycles through all moments. Every fifth kill comes at a random one instead.
    pub(super) fn kill(&self, number: usize, sides: &[Side]) -> Kill {
        let count = self.moments(sides).count().max(1);
        // Those in between were random.
        let at_write = || self.moments(sides).nth((number - number / 5) % count);
        let random = || {
            let (life, (_, lasted)) = self.0.iter().enumerate().cycle().nth(number / 5)?;
            // Knuth's multiplicative hash: moments spread over the life, the same in every campaign.
            let share = u32::try_from(number).unwrap_or(u32::MAX).wrapping_mul(2_654_435_761) >> 16;
            Some(Kill::At { life, after: lasted.mul_f64(f64::from(share) / f64::from(u16::MAX)) })
        };
        let kill = if number % 5 == 4 { random() } else { at_write() };
        kill.unwrap_or(Kill::At { life: 0, after: Duration::ZERO })
    }
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

    /// The end of the `life`th process: at a write of its own, or after a time.
    fn of(self, life: usize) -> (Option<Death>, Option<Duration>) {
        match self {
            Self::AtWrite { life: at, death } if at == life => (Some(death), None),
            Self::At { life: at, after } if at == life => (None, Some(after)),
            _ => (None, None),
        }
    }
}

/// A kind of run that is killed.
pub(super) trait Subject {
    /// Starts a process that drives the run in this folder, and dies as it is told.
    fn process(&self, place: &Path, death: Option<Death>) -> Result<Command>;

    /// Does what an operator does for a run that waits.
    fn help(&self, place: &Path) -> Result<()>;
}

/// Drives a run to its end without a kill, and returns its processes.
pub(super) fn undisturbed(subject: &impl Subject, place: &Path) -> Result<Lives> {
    let mut lives = Vec::new();
    for _ in 0..MOST_LIVES {
        let started = Instant::now();
        let Some(report) = live(subject.process(place, None)?, None)? else { bail!("it died, and was not killed") };
        lives.push((report.writes, started.elapsed()));
        if report.ended {
            return Ok(Lives(lives));
        }
        subject.help(place)?;
    }
    bail!("the undisturbed run has not ended after {MOST_LIVES} processes")
}

/// The faults of a run that was killed indeed: one that was faster than the kill is killed sooner. Each attempt has a
/// folder of its own, which goes if nothing is wrong; `faults` reads what the run left in it after this many kills.
pub(super) fn disturbed<P: AsRef<Path>>(
    subject: &impl Subject,
    mut kill: Kill,
    place: impl Fn(usize) -> Result<P>,
    faults: impl Fn(&Path, usize) -> Result<Vec<String>>,
) -> Result<Vec<String>> {
    for attempt in 0..ATTEMPTS {
        let place = place(attempt)?;
        let place = place.as_ref();
        let Some(kills) = kills(subject, kill, place)? else {
            return Ok(vec![format!("the run has not ended after {MOST_LIVES} processes")]);
        };
        let found = faults(place, kills)?;
        if found.is_empty() {
            std::fs::remove_dir_all(place)?;
        }
        if kills > 0 || !found.is_empty() {
            return Ok(found);
        }
        kill = kill.sooner();
    }
    bail!("the run always ends before it is killed")
}

/// The number of kills of a run until its end; `None` when it does not end.
fn kills(subject: &impl Subject, kill: Kill, place: &Path) -> Result<Option<usize>> {
    let mut kills = 0;
    for life in 0..MOST_LIVES {
        let (death, after) = kill.of(life);
        match live(subject.process(place, death)?, after)? {
            None => kills += 1,
            Some(report) if report.ended => return Ok(Some(kills)),
            Some(_) => subject.help(place)?,
        }
    }
    Ok(None)
}

/// One process, which is killed after a time; `None` when it was killed.
fn live(mut command: Command, after: Option<Duration>) -> Result<Option<Report>> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let began = Instant::now();
    // A report fits into a pipe: the child never waits for its reader.
    while child.try_wait()?.is_none() {
        if after.is_some_and(|after| began.elapsed() >= after) {
            child.kill()?;
            break;
        }
        if began.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            bail!("a process hangs");
        }
        thread::sleep(Duration::from_millis(2));
    }
    report(&child.wait_with_output()?)
}

/// The report of a process; `None` when it was killed.
pub(super) fn report(output: &Output) -> Result<Option<Report>> {
    match output.status.code() {
        Some(0) => Ok(Some(serde_json::from_slice(&output.stdout).context("a process's report")?)),
        Some(code) => bail!("a process ended with {code}: {}", String::from_utf8_lossy(&output.stderr)),
        None => Ok(None),
    }
}
