//! The cost of isolation on this machine: one operation as a native function, in the bare engine, in a cell, in
//! processes, measured alternately.
//!
//! Every peer does the same work for the same arguments, a few milliseconds at a time and in an order that changes from
//! round to round, so that whatever else the machine does slows all of them. What comes out are medians, spread and
//! ratios; of the figures of a busy machine only the ratios between peers within this process hold, and
//! [`Report::noise`] says how busy it was.
//!
//! **In**: a [`Guest`] and [`Options`]. **Out**: a [`Report`], or from [`contain`] what it takes to stop a guest. More
//! peers can be added ([`Bench::add`]): the `opcell-benches` package adds those that are too heavy for this crate.
//! [`pictures`] draws a report where the feature `plots` is on; a drawing library is built for nothing else.
//!
//! **Must not** know terminals or options: `opcell bench` renders the reports.

#[cfg(feature = "plots")]
mod chart;
pub mod compare;
pub mod contain;
mod figures;
mod guest;
pub mod interval;
mod origin;
pub mod peer;
#[cfg(feature = "plots")]
mod plots;
mod profile;
mod sample;
mod sizes;
mod text;

pub use figures::{Figures, Phases, Threads, Throughput, WaitingCells};
pub use guest::Guest;
pub use opcell_selftest::{Machine, resident_kib};
pub use origin::{Origin, WASMTIME};
pub use peer::Peer;
pub use profile::{Part, Profile, Sampled, Share};
pub use sample::{Quantile, Row, Samples};
pub use sizes::{Size, SizeRow};
pub use text::{cut, digits};

use anyhow::{Context as _, Result, anyhow};
use opcell_sandbox::{
    CellRequest, CompileMode, Exports, LoadRequest, Plugin, PluginSource, Sandbox, SandboxConfig, bare::Bare,
    cache::CachePlace,
};
use opcell_selftest::load_average;
use serde::Serialize;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// The time for which a peer runs before the next one's turn.
const PEER_SLICE: Duration = Duration::from_millis(20);

/// The options of a measurement.
#[derive(Debug, Clone)]
pub struct Options {
    /// For all peers together, which alternate.
    pub time: Duration,
    /// The place in which components are compiled.
    pub compile: CompileMode,
    /// Bytes that a pool cleans by hand; `None` is the sandbox's default.
    pub keep_resident: Option<usize>,
    /// Programs to measure beside the others: a name, and a shell command that answers lines with lines.
    pub peers: Vec<(String, String)>,
    /// Programs that call something in their own process and time it: a name, and a shell command
    /// ([`peer::library`]).
    pub libraries: Vec<(String, String)>,
    /// Other components to measure beside the guest, each in fresh cells and as one instance for all calls: a name, and
    /// the component.
    pub components: Vec<(String, Arc<[u8]>)>,
    /// `true` to profile the time of a cell.
    pub profile: bool,
    /// `true` to keep every single call for the report.
    pub samples: bool,
    /// `true` to measure arguments of other sizes as well.
    pub sizes: bool,
}

impl Options {
    /// The usual peers for this long, without what takes longer or more room.
    #[must_use]
    pub fn new(time: Duration, compile: CompileMode) -> Self {
        Self {
            time,
            compile,
            keep_resident: None,
            peers: Vec::new(),
            libraries: Vec::new(),
            components: Vec::new(),
            profile: false,
            samples: false,
            sizes: false,
        }
    }
}

/// Everything that one run of `opcell bench` found.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Report {
    /// The guest that was called.
    pub guest: String,
    /// The operation.
    pub operation: String,
    /// Bytes of its arguments.
    pub argument_bytes: usize,
    /// One per peer, in the order in which they were added.
    pub rows: Vec<Row>,
    /// The parts of a cell's time, and its other costs.
    pub figures: Figures,
    /// Ratios of medians.
    pub ratios: Ratios,
    /// The machine.
    pub machine: Machine,
    /// The trustworthiness of the machine.
    pub noise: String,
    /// Medians by the size of the arguments, if they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<Size>,
    /// The profile of a cell's time, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// The origin of the report.
    pub origin: Origin,
    /// The measurements that could not be made here, and why.
    pub notes: Vec<String>,
    /// Every call, if they were asked for: lines of peer, round and nanoseconds. Too much for the report itself.
    #[serde(skip)]
    pub samples: String,
}

/// Medians against each other; absent where a peer is.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Ratios {
    /// The cost of a cell relative to the engine alone.
    pub cell_to_bare_wasmtime: Option<f64>,
    /// The ratio of a process per call.
    pub process_to_cell: Option<f64>,
    /// The ratio of a long-lived process.
    pub pipe_to_cell: Option<f64>,
    /// The ratio of a fresh Node worker.
    pub node_worker_to_cell: Option<f64>,
    /// Cells per second on all cores and on one.
    pub all_cores_to_one: Option<f64>,
}

/// A guest, loaded both ways, and the peers that are measured beside it.
pub struct Bench {
    guest: Guest,
    sandbox: Sandbox,
    plugin: Arc<Plugin>,
    bare: Option<Arc<Bare>>,
    cold_load: Duration,
    warm_load: Duration,
    peers: Vec<Peer>,
    notes: Vec<String>,
    time: Duration,
    samples: bool,
    sizes: bool,
    profile: bool,
    origin: Origin,
    /// The directory of compiled components; gone with this.
    _cache: tempfile::TempDir,
}

impl std::fmt::Debug for Bench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench").field("guest", &self.guest.name).finish_non_exhaustive()
    }
}

impl Bench {
    /// Loads the guest cold and warm, calls it once, and lines up the peers that this crate knows.
    ///
    /// # Errors
    /// When the guest does not load, or its operation fails.
    pub async fn new(mut guest: Guest, options: &Options) -> Result<Self> {
        let cache = tempfile::tempdir()?;
        let mut config = SandboxConfig {
            cache: Some(CachePlace { directory: cache.path().join("components"), keys: cache.path().join("keys") }),
            ..SandboxConfig::new(options.compile.clone())
        };
        config.keep_resident = options.keep_resident.unwrap_or(config.keep_resident);
        let sandbox = Sandbox::new(config)?;
        let started = Instant::now();
        let plugin = sandbox.load(guest.load_request()).await?;
        let cold_load = started.elapsed();
        let started = Instant::now();
        sandbox.load(guest.load_request()).await?;
        let warm_load = started.elapsed();
        if guest.operation.is_empty() {
            guest.operation = only_operation(&plugin)?;
        }
        let first = plugin.invoke(CellRequest::new(&guest.operation, &guest.arguments)).await;
        first.result.with_context(|| format!("`{}` cannot be measured", guest.operation))?;
        // The engine alone calls by the contract.
        let bare = match guest.exports {
            Exports::Contract => Some(Arc::new(sandbox.bare(PluginSource::Bytes(Arc::clone(&guest.component))).await?)),
            _ => None,
        };
        let mut bench = Self {
            sandbox,
            plugin,
            bare,
            cold_load,
            warm_load,
            peers: Vec::new(),
            notes: Vec::new(),
            time: options.time,
            samples: options.samples,
            sizes: options.sizes,
            profile: options.profile,
            origin: Origin::of(&guest.component),
            _cache: cache,
            guest,
        };
        bench.line_up(options).await?;
        Ok(bench)
    }

    /// Returns the guest that is measured.
    #[must_use]
    pub fn guest(&self) -> &Guest {
        &self.guest
    }

    /// The plugin that the row `cell` calls.
    #[must_use]
    pub fn plugin(&self) -> &Arc<Plugin> {
        &self.plugin
    }

    /// The sandbox that runs it.
    #[must_use]
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Measures one more peer beside the others.
    pub fn add(&mut self, peer: Peer) {
        self.peers.push(peer);
    }

    /// Says why something is missing from the report.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    async fn line_up(&mut self, options: &Options) -> Result<()> {
        let (id, arguments): (Arc<str>, Arc<str>) =
            (self.guest.operation.as_str().into(), self.guest.arguments.as_str().into());
        if !self.guest.echo {
            self.note("`native` and the processes and Node rows echo the same arguments: they show what each boundary costs, not this operation's own work");
        }
        if peer::echo_program().is_none() {
            self.note("`process` and `pipe` start this program itself, which is slower than a small one: there is no `opcell-echo` beside it");
        }
        self.peers.push(peer::native(Arc::clone(&arguments)));
        if let Some(bare) = self.bare.take() {
            match bare.call(&id, &arguments).await {
                Ok(_) => {
                    self.peers.push(peer::bare(Arc::clone(&bare), Arc::clone(&id), Arc::clone(&arguments)));
                    let reused = bare.reused().await.map_err(|error| anyhow!(error))?;
                    self.peers.push(peer::reused(reused, Arc::clone(&id), Arc::clone(&arguments)));
                    self.bare = Some(bare);
                }
                Err(error) => self.note(format!(
                    "`bare-wasmtime` and `reused-instance` are missing: the operation fails without a host ({})",
                    short(&error)
                )),
            }
        } else {
            self.note("`bare-wasmtime` and `reused-instance` are missing: the component was not written for Opcell");
        }
        self.peers.push(peer::cell(Arc::clone(&self.plugin), Arc::clone(&id), Arc::clone(&arguments)));
        for (name, peer) in [
            ("process", peer::process(&arguments)),
            ("process-pool", peer::process_pool(&arguments)),
            ("bubblewrap", peer::bubblewrap(&arguments)),
            ("python", peer::python(&arguments)),
            ("pipe", peer::pipe(&arguments)),
            ("node-worker", peer::node_worker(&arguments)),
            ("node-warm", peer::node_warm(&arguments)),
        ] {
            match peer {
                Ok(peer) => self.peers.push(peer),
                Err(error) => self.note(format!("`{name}` is missing: {error:#}")),
            }
        }
        // Whoever names one wants it measured.
        for (name, component) in &options.components {
            self.beside(name, component, &arguments).await.with_context(|| format!("component `{name}`"))?;
        }
        for (name, command) in &options.libraries {
            self.peers.push(peer::library(name, command, &arguments).with_context(|| format!("library `{name}`"))?);
        }
        for (name, command) in &options.peers {
            self.peers.push(peer::command(name, command, &arguments).with_context(|| format!("peer `{name}`"))?);
        }
        Ok(())
    }

    /// Another component: a fresh cell for each call, and one instance for all.
    async fn beside(&mut self, name: &str, component: &Arc<[u8]>, arguments: &Arc<str>) -> Result<()> {
        let source = PluginSource::Bytes(Arc::clone(component));
        let plugin = self.sandbox.load(LoadRequest::new(name.to_owned(), source.clone())).await?;
        let same = plugin.operations().iter().find(|operation| &*operation.id == self.guest.operation.as_str());
        let id: Arc<str> = match same {
            Some(operation) => operation.id.as_ref().into(),
            None => only_operation(&plugin)?.into(),
        };
        plugin.invoke(CellRequest::new(&id, arguments)).await.result?;
        let mut fresh = peer::cell(plugin, Arc::clone(&id), Arc::clone(arguments));
        name.clone_into(&mut fresh.name);
        fresh.about = format!("a cell of the component `{name}`, as `cell`");
        self.peers.push(fresh);
        let bare = self.sandbox.bare(source).await?;
        let missing = match bare.reused().await {
            Ok(mut reused) => match reused.call(&id, arguments).await {
                Ok(_) => {
                    let mut peer = peer::reused(reused, id, Arc::clone(arguments));
                    peer.name = format!("{name}-reused");
                    peer.about = format!("one instance of the component `{name}` for all calls, as `reused-instance`");
                    self.peers.push(peer);
                    return Ok(());
                }
                Err(error) => error,
            },
            Err(error) => error,
        };
        self.note(format!("`{name}-reused` is missing: {}", short(&missing)));
        Ok(())
    }

    /// Measures the peers alone, without the other figures of a report.
    ///
    /// # Errors
    /// When a peer that worked at first fails.
    pub async fn rows(mut self, progress: &(dyn Fn(&str) + Sync)) -> Result<Vec<Row>> {
        let (samples, _) = self.alternate(progress).await?;
        Ok(self.to_rows(&samples))
    }

    /// Calls the peers alternately for the time of the options, and returns the samples with the number of rounds.
    async fn alternate(&mut self, progress: &(dyn Fn(&str) + Sync)) -> Result<(Vec<Samples>, usize)> {
        let mut samples: Vec<Samples> = Vec::new();
        for peer in &mut self.peers {
            progress(&format!("warming up {}", peer.name));
            samples.push(Samples::warm_up(peer, PEER_SLICE).await?);
        }
        let count = self.peers.len().max(1);
        let started = Instant::now();
        let mut round = 0;
        while round < 5 || started.elapsed() < self.time {
            if round % 10 == 0 {
                let left = self.time.saturating_sub(started.elapsed()).as_secs();
                progress(&format!("{count} peers alternately, {left} s left"));
            }
            // Another one begins each time: none is always the one after the noisiest.
            for at in 0..count {
                let at = (at + round) % count;
                if let (Some(peer), Some(samples)) = (self.peers.get_mut(at), samples.get_mut(at)) {
                    samples.take(peer).await?;
                }
            }
            round += 1;
        }
        Ok((samples, round))
    }

    fn to_rows(&self, samples: &[Samples]) -> Vec<Row> {
        let none = Samples::default();
        let cell = samples.iter().zip(&self.peers).find(|(_, peer)| peer.name == "cell");
        let cell = cell.map_or(&none, |(samples, _)| samples);
        samples.iter().zip(&self.peers).map(|(samples, peer)| samples.row(peer, cell)).collect()
    }

    /// Measures. `progress` receives the current phase.
    ///
    /// # Errors
    /// When a peer that worked at first fails.
    pub async fn run(mut self, progress: &(dyn Fn(&str) + Sync)) -> Result<Report> {
        let load_before = load_average();
        let (samples, round) = self.alternate(progress).await?;
        let rows = self.to_rows(&samples);
        let mut raw = String::new();
        if self.samples {
            raw.push_str("peer,round,nanoseconds\n");
            samples.iter().zip(&self.peers).for_each(|(samples, peer)| samples.write(&peer.name, &mut raw));
        }
        // Their processes would share the cores with what is measured next.
        self.peers.clear();
        let sizes = match self.sizes {
            true => sizes::measure(&self, self.time, progress).await?,
            false => Vec::new(),
        };
        let figures = figures::measure(&self, progress).await?;
        let profile = match self.profile {
            true => {
                progress("where the time of a cell goes");
                let cell = rows.iter().find(|row| row.name == peer::CELL).map_or(0.0, |row| row.median_us);
                let (profile, missing) = profile::measure(&self, cell, figures.phases.as_ref()).await?;
                self.notes.extend(missing);
                Some(profile)
            }
            false => None,
        };
        let median = |name: &str| rows.iter().find(|row| row.name == name).map(|row| row.median_us);
        let ratio = |over: &str, under: &str| Some(sample::rounded(median(over)? / median(under)?));
        let throughput = &figures.throughput;
        let ratios = Ratios {
            cell_to_bare_wasmtime: ratio("cell", "bare-wasmtime"),
            process_to_cell: ratio("process", "cell"),
            pipe_to_cell: ratio("pipe", "cell"),
            node_worker_to_cell: ratio("node-worker", "cell"),
            all_cores_to_one: (throughput.cores > 1)
                .then(|| sample::rounded(throughput.cells_per_second_all_cores / throughput.cells_per_second_one_core)),
        };
        let machine = Machine::this();
        let noise = noise(round, &rows, load_before, &machine);
        Ok(Report {
            guest: self.guest.name,
            operation: self.guest.operation,
            argument_bytes: self.guest.arguments.len(),
            rows,
            figures,
            ratios,
            machine,
            noise,
            sizes,
            profile,
            origin: self.origin,
            notes: self.notes,
            samples: raw,
        })
    }
}

/// Returns the pictures of a report by file name, as SVG: an empty list in a build without the feature `plots`.
///
/// # Errors
/// When one cannot be drawn.
pub fn pictures(report: &Report) -> Result<Vec<(&'static str, String)>> {
    #[cfg(feature = "plots")]
    {
        let mut pictures = vec![("bench.svg", chart::chart(report)?)];
        pictures.extend(plots::plots(report)?);
        Ok(pictures)
    }
    #[cfg(not(feature = "plots"))]
    {
        let _ = report;
        Ok(Vec::new())
    }
}

/// The engine's message without the functions of the guest on the way there: they mean something to its author only.
fn short(error: &str) -> &str {
    error.rsplit_once(">: ").map_or(error, |(_, cause)| cause)
}

/// The operation of a plugin that has one.
fn only_operation(plugin: &Plugin) -> Result<String> {
    match plugin.operations() {
        [one] => Ok(one.id.to_string()),
        operations => {
            let ids: Vec<&str> = operations.iter().map(|operation| &*operation.id).collect();
            Err(anyhow!("name the operation to measure with `--op`; the plugin offers {}", ids.join(", ")))
        }
    }
}

/// Returns the trustworthiness of the figures, in a line.
fn noise(rounds: usize, rows: &[Row], load_before: f64, machine: &Machine) -> String {
    let spread = |row: &Row| row.round_spread_percent;
    let cell = rows.iter().find(|row| row.name == "cell").map_or(0.0, spread);
    let widest = rows.iter().max_by(|a, b| spread(a).total_cmp(&spread(b)));
    let widest = widest.map(|row| format!(", within {:.0} % for `{}`", spread(row), row.name)).unwrap_or_default();
    let busy = match load_before > 0.15 * machine.cores as f64 {
        true => ": the machine was not idle; only ratios between peers within this process hold then",
        false => "",
    };
    format!(
        "{rounds} rounds; half of the rounds' medians lie within {cell:.0} % for `cell`{widest}; load average {load_before:.1} before \
         and {:.1} after on {} cores{busy}",
        load_average(),
        machine.cores,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_trap_its_cause_is_said_and_not_the_functions_on_the_way() {
        let error = "error while executing at wasm backtrace:\n    0:  0x19d24 - <unknown>!<wasm function 0>\n    \
                     1:   0x6c13 - <unknown>!<wasm function 56>: unknown import: `a` has not been defined";
        assert_eq!(short(error), "unknown import: `a` has not been defined");
        assert_eq!(short("it has ended"), "it has ended");
    }
}
