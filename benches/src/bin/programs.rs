//! Programs that models write, each in a fresh cell, beside other ways to run them: `cargo xtask bench --programs`, or
//! `cargo run --release -p opcell-benches --bin programs -- [--peers FOLDER] [--rounds N] [--json]`.
//!
//! Cells and peers alternate in rounds, so that other work on the machine slows all of them. `FOLDER` has the Node packages
//! of the peers, and a copy of `benches/programs`. Programs in Python need their runtime (`opcell code install python`).

use anyhow::{Context as _, Result, bail, ensure};
use opcell::{CallOutput, Grant, Host, PluginConfig, builtin, places::Places, prelude::*, tool_fn_with_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use std::{
    collections::BTreeMap,
    future::IntoFuture as _,
    io::{BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

#[global_allocator]
static ALLOCATOR: opcell_allocator::Allocator = opcell_allocator::Allocator;

/// Rounds in which cells and peers alternate.
const ROUNDS: usize = 10;

/// Calls that warm what is measured.
const WARM: usize = 20;

/// The time of one measurement of programs per second.
const SPAN: Duration = Duration::from_secs(2);

/// Programs that are in progress at once for each thread, when programs per second are counted.
const CONCURRENT: usize = 4;

/// Inner calls of the program that has many.
const MANY_CALLS: usize = 100;

/// A language, and the number of its calls in a round.
struct Language {
    name: &'static str,
    operation: &'static str,
    calls: usize,
    trivial: &'static str,
    fifty: &'static str,
    many: String,
}

fn languages() -> [Language; 2] {
    [
        Language {
            name: "javascript",
            operation: "code/run",
            calls: 200,
            trivial: "return 1 + 1;",
            fifty: include_str!("../../programs/fifty.js"),
            many: format!("for (let at = 0; at < {MANY_CALLS}; at += 1) await tools.echo({{ at }});"),
        },
        Language {
            name: "python",
            operation: "python/run",
            calls: 20,
            trivial: "return 1 + 1",
            fifty: include_str!("../../programs/fifty.py"),
            many: format!("for at in range({MANY_CALLS}):\n    await tools.echo(at=at)"),
        },
    ]
}

/// The command's options.
struct Options {
    peers: Option<PathBuf>,
    rounds: usize,
    json: bool,
}

impl Options {
    fn read() -> Result<Self> {
        let mut options = Self { peers: None, rounds: ROUNDS, json: false };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("`{word}` needs a value"));
            match word.as_str() {
                "--peers" => options.peers = Some(value()?.into()),
                "--rounds" => options.rounds = value()?.parse().context("`--rounds` needs a number")?,
                "--json" => options.json = true,
                other => bail!("no option `{other}`; there are --peers FOLDER, --rounds N and --json"),
            }
        }
        ensure!(options.rounds > 0, "`--rounds` needs at least 1");
        Ok(options)
    }
}

/// The times of one program in one kind of isolation.
#[derive(Default)]
struct Times(Vec<f64>);

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row {
    name: String,
    about: String,
    program: String,
    calls: usize,
    median_us: f64,
    p99_us: f64,
}

/// A figure with its target.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Figure {
    name: String,
    measured: f64,
    unit: &'static str,
    target: String,
    met: bool,
}

impl Times {
    fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let at = (sorted.len() as f64 * share) as usize;
        sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
    }
}

/// The peers, in a process of their own that measures each.
struct Peers {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    about: PeersAbout,
}

/// The first line of the peers' process.
#[derive(Deserialize)]
struct PeersAbout {
    peers: BTreeMap<String, String>,
    missing: BTreeMap<String, String>,
    results: BTreeMap<String, String>,
}

impl Peers {
    fn start(folder: &PathBuf) -> Result<Self> {
        let mut command = Command::new("node");
        command.arg("peers.mjs").current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("the peers need `node`")?;
        let input = child.stdin.take().context("the peers have no input")?;
        let mut output = BufReader::new(child.stdout.take().context("the peers have no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let about = serde_json::from_str(&line).context("the peers do not say which they are")?;
        Ok(Self { child, input, output, about })
    }

    fn times(&mut self, peer: &str, program: &str, count: usize) -> Result<Vec<f64>> {
        writeln!(self.input, "{}", json!({"peer": peer, "program": program, "count": count}))?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("`{peer}` gave no times for `{program}`"))
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls of a peer in a round: those that take long are called less often.
fn calls_of(peer: &str) -> usize {
    match peer {
        "pyodide" => 1,
        "node-process" | "python-process" | "node-worker" => 5,
        "isolated-vm" => 20,
        _ => 100,
    }
}

fn runtime(threads: usize) -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?)
}

async fn host() -> Result<(Host, Vec<Language>)> {
    let echo = tool_fn_with_schema("echo", "Answers with its arguments.", opcell::json!({"type": "object"}), {
        async |given: Value, _| Ok(given)
    });
    let granted = |plugin: PluginConfig| plugin.grant(Grant::tool("echo"));
    let code = PluginConfig::builtin(builtin::CODE).context("the library has no `code`")?;
    let mut builder = Host::builder().tool(echo.effects(Effects::Pure)).plugin(granted(code));
    let mut known: Vec<Language> = languages().into();
    match PluginConfig::python(&Places::of_user()) {
        Ok(python) => builder = builder.plugin(granted(python)),
        Err(error) => {
            eprintln!("programs: without Python: {error}; `opcell code install python` builds its runtime");
            known.truncate(1);
        }
    }
    Ok((builder.build().await?, known))
}

async fn called(host: &Host, language: &Language, source: &str) -> Result<CallOutput> {
    let mut arguments = json!({"source": source});
    if language.operation == "code/run"
        && let Some(arguments) = arguments.as_object_mut()
    {
        arguments.insert("language".to_owned(), Json::from("javascript"));
    }
    Ok(host.invoke(language.operation, Value::from(arguments)).await?)
}

async fn times(host: &Host, language: &Language, source: &str, count: usize) -> Result<Vec<f64>> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let began = Instant::now();
        called(host, language, source).await?;
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(times)
}

/// The option that makes a child of this program measure programs per second.
const THROUGHPUT: &str = "--throughput";

/// Programs per second on a number of cores: in a process that has no others, because cells use the threads of the
/// sandbox as well as those of their caller.
fn on_cores(cores: usize) -> Result<f64> {
    let program = std::env::current_exe()?;
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", &format!("0-{}", cores - 1)]).arg(program).args([THROUGHPUT, &cores.to_string()]);
    let output = command.stderr(Stdio::inherit()).output().context("`taskset` of util-linux, which chooses cores")?;
    ensure!(output.status.success(), "programs per second on {cores} cores: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).trim().parse()?)
}

/// Programs per second on a number of threads.
fn per_second(threads: usize, name: &str) -> Result<f64> {
    runtime(threads)?.block_on(async {
        let (host, languages) = host().await?;
        let language = languages.into_iter().find(|language| language.name == name).context("no such language")?;
        let arguments = match language.operation {
            "code/run" => json!({"source": language.trivial, "language": "javascript"}),
            _ => json!({"source": language.trivial}),
        };
        times(&host, &language, language.trivial, WARM).await?;
        let end = Instant::now() + SPAN;
        let workers: Vec<_> = (0..threads * CONCURRENT)
            .map(|_| {
                let (host, arguments, operation) = (host.clone(), arguments.clone(), language.operation);
                tokio::spawn(async move {
                    let mut made = 0_u64;
                    while Instant::now() < end {
                        host.invoke(operation, Value::from(arguments.clone())).into_future().await?;
                        made += 1;
                    }
                    anyhow::Ok(made)
                })
            })
            .collect();
        let mut made = 0;
        for worker in workers {
            made += worker.await??;
        }
        Ok(made as f64 / SPAN.as_secs_f64())
    })
}

/// The rows of a run, its figures, and the sandboxes that are missing, with the reason.
type Measured = (Vec<Row>, Vec<Figure>, BTreeMap<String, String>);

fn measured(options: &Options) -> Result<Measured> {
    let mut peers = options.peers.as_ref().map(Peers::start).transpose()?;
    let mut all: BTreeMap<(String, String), Times> = BTreeMap::new();
    let (mut abouts, mut memory, mut many): (BTreeMap<String, String>, BTreeMap<String, u64>, BTreeMap<_, Times>) =
        Default::default();
    let names = runtime(2)?.block_on(async {
        let (host, languages) = host().await?;
        for language in &languages {
            let name = format!("cell-{}", language.name);
            abouts.insert(name.clone(), format!("a fresh cell of Opcell, {}", language.name));
            for (program, source) in [("trivial", language.trivial), ("fifty", language.fifty)] {
                times(&host, language, source, WARM).await?;
                let output = called(&host, language, source).await?;
                let result = output.data.get("result").cloned().unwrap_or_default().to_json();
                if let Some(expected) = peers.as_ref().and_then(|peers| peers.about.results.get(program)) {
                    let same = |text: &str| text.replace(".0", "");
                    ensure!(
                        same(&result) == same(expected),
                        "{name}, {program}: {result}, and the peers have {expected}"
                    );
                }
                let receipt = output.receipt().map(serde_json::to_value).transpose()?;
                let peak = receipt.as_ref().and_then(|receipt| receipt.get("peak-memory")).and_then(Json::as_u64);
                memory.insert(format!("{name}, {program}"), peak.unwrap_or_default());
            }
        }
        for _ in 0..options.rounds {
            for language in &languages {
                for (program, source) in [("trivial", language.trivial), ("fifty", language.fifty)] {
                    let key = (format!("cell-{}", language.name), program.to_owned());
                    all.entry(key).or_default().0.extend(times(&host, language, source, language.calls).await?);
                }
                let calls = language.calls.div_ceil(10);
                many.entry(language.name).or_default().0.extend(times(&host, language, &language.many, calls).await?);
            }
            if let Some(peers) = &mut peers {
                for name in peers.about.peers.keys().cloned().collect::<Vec<_>>() {
                    for program in ["trivial", "fifty"] {
                        let times = peers.times(&name, program, calls_of(&name))?;
                        all.entry((name.clone(), program.to_owned())).or_default().0.extend(times);
                    }
                }
            }
        }
        anyhow::Ok(languages.iter().map(|language| language.name).collect::<Vec<_>>())
    })?;
    let missing = peers.as_ref().map(|peers| peers.about.missing.clone()).unwrap_or_default();
    abouts.extend(peers.iter().flat_map(|peers| peers.about.peers.clone()));
    let rows: Vec<Row> = all
        .iter()
        .map(|((name, program), times)| Row {
            name: name.clone(),
            about: abouts.get(name).cloned().unwrap_or_default(),
            program: program.clone(),
            calls: times.0.len(),
            median_us: times.quantile(0.5),
            p99_us: times.quantile(0.99),
        })
        .collect();
    drop(peers);
    let of = |name: &str, program: &str| rows.iter().find(|row| row.name == name && row.program == program);
    let mut figures = Vec::new();
    let mut most = |name: String, measured: f64, unit, target: f64| {
        let met = measured <= target;
        figures.push(Figure { name, measured, unit, target: format!("≤ {target}"), met });
    };
    for name in &names {
        let cell = format!("cell-{name}");
        let is_javascript = *name == "javascript";
        if let (Some(trivial), Some(fifty)) = (of(&cell, "trivial"), of(&cell, "fifty")) {
            if is_javascript {
                most(format!("{cell}: trivial, median"), trivial.median_us, "µs", 50.0);
                most(format!("{cell}: trivial, p99"), trivial.p99_us, "µs", 200.0);
                most(format!("{cell}: fifty lines, three calls, median"), fifty.median_us, "µs", 250.0);
            } else {
                most(format!("{cell}: trivial, median"), trivial.median_us, "µs", 2_000.0);
            }
            let calls = many.get(name).map_or(f64::NAN, |times| times.quantile(0.5));
            let each = (calls - trivial.median_us) / MANY_CALLS as f64;
            most(format!("{cell}: one inner call, beyond the tool"), each, "µs", 20.0);
        }
        for program in ["trivial", "fifty"] {
            let kib = memory.get(&format!("{cell}, {program}")).map_or(f64::NAN, |bytes| *bytes as f64 / 1024.0);
            if is_javascript {
                most(format!("{cell}: {program}, memory of the cell"), kib, "KiB", 1_024.0);
            }
        }
    }
    let (one, two) = (on_cores(1)?, on_cores(2)?);
    let mut least = |name: &str, measured: f64, unit, target: f64| {
        let (name, met) = (name.to_owned(), measured >= target);
        figures.push(Figure { name, measured, unit, target: format!("≥ {target}"), met });
    };
    least("programs per second on one core", one, "/s", 15_000.0);
    least("programs per second on two cores / one", two / one, "×", 1.7);
    let trivial = of("cell-javascript", "trivial").map_or(f64::NAN, |row| row.median_us);
    for (peer, target) in [("quickjs-emscripten", 1.0), ("isolated-vm", 20.0)] {
        if let Some(row) = of(peer, "trivial") {
            least(&format!("{peer} / cell-javascript, trivial"), row.median_us / trivial, "×", target);
        }
    }
    Ok((rows, figures, missing))
}

fn main() -> Result<ExitCode> {
    // In a child that was started to compile a plugin, this is all that happens.
    opcell::prepare();
    if let [_, option, threads] = std::env::args().collect::<Vec<_>>().as_slice()
        && option == THROUGHPUT
    {
        println!("{}", per_second(threads.parse()?, "javascript")?);
        return Ok(ExitCode::SUCCESS);
    }
    let options = Options::read()?;
    if cfg!(debug_assertions) {
        eprintln!("programs: this build is not optimised; its figures mean nothing");
    }
    let (mut rows, figures, missing) = measured(&options)?;
    rows.sort_by(|a, b| {
        (&a.program, a.median_us).partial_cmp(&(&b.program, b.median_us)).unwrap_or(std::cmp::Ordering::Equal)
    });
    if options.json {
        println!("{}", serde_json::to_string_pretty(&json!({"rows": rows, "figures": figures, "missing": missing}))?);
    } else {
        println!("{:<22}{:<10}{:>14}{:>14}{:>8}  one call", "", "program", "median µs", "p99 µs", "calls");
        for Row { name, about, program, calls, median_us, p99_us } in &rows {
            println!("{name:<22}{program:<10}{median_us:>14.1}{p99_us:>14.1}{calls:>8}  {about}");
        }
        for (peer, why) in &missing {
            println!("{peer:<22}not measured: {why}");
        }
        println!();
        for Figure { name, measured, unit, target, met } in &figures {
            println!("{} {name:<52}{measured:>12.1} {unit:<4} {target}", if *met { "met   " } else { "missed" });
        }
    }
    Ok(if figures.iter().all(|figure| figure.met) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
