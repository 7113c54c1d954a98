//! The peers of a cell: everything else that could run the same operation.

use super::guest::native_echo;
use anyhow::{Context as _, Result, anyhow, bail};
use async_trait::async_trait;
use opcell_sandbox::{
    CellRequest, Plugin,
    bare::{Bare, Reused},
};
use std::{
    collections::VecDeque,
    hint::black_box,
    io::{BufRead, BufReader, Read as _, Write as _},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Arc,
    time::Instant,
};

/// The hidden subcommand that echoes natively: once from end to end of standard input, or with a second argument line
/// by line.
pub const NATIVE_ECHO: &str = "native-echo";

/// One way to run the operation.
pub struct Peer {
    /// As the report calls it.
    pub name: String,
    /// The description of one call of it.
    pub about: String,
    /// The isolation that its set-up provides, if that is known.
    pub isolates: Option<Vec<Isolates>>,
    turn: Box<dyn Turn>,
}

/// A barrier between a call and everything else. A boundary that holds less is faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Isolates {
    /// It sees nothing that an earlier call left.
    State,
    /// It reads and writes no memory of the host.
    Host,
    /// It is stopped when it does not end.
    Time,
    /// It is given no more memory than it may have.
    Memory,
    /// It reaches no files, network or programs that it was not granted.
    System,
}

impl Isolates {
    /// All of them, as the report lists them.
    pub const ALL: [Self; 5] = [Self::State, Self::Host, Self::Time, Self::Memory, Self::System];

    /// As the report writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Host => "host",
            Self::Time => "time",
            Self::Memory => "memory",
            Self::System => "system",
        }
    }
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peer").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Some calls in a row, each timed. The clock runs around the call alone, not around what makes peers exchangeable.
#[async_trait(?Send)]
trait Turn: Send {
    async fn turn(&mut self, calls: usize, times: &mut Vec<u64>) -> Result<()>;
}

struct Async<F>(F);

#[async_trait(?Send)]
impl<F: AsyncFnMut() -> Result<()> + Send> Turn for Async<F> {
    async fn turn(&mut self, calls: usize, times: &mut Vec<u64>) -> Result<()> {
        for _ in 0..calls {
            let started = Instant::now();
            (self.0)().await?;
            times.push(nanos(started));
        }
        Ok(())
    }
}

struct Blocking<F>(F);

#[async_trait(?Send)]
impl<F: FnMut() -> Result<()> + Send> Turn for Blocking<F> {
    async fn turn(&mut self, calls: usize, times: &mut Vec<u64>) -> Result<()> {
        // The runtime's other threads idle meanwhile: nothing but the measurement runs.
        for _ in 0..calls {
            let started = Instant::now();
            (self.0)()?;
            times.push(nanos(started));
        }
        Ok(())
    }
}

struct Elsewhere<F>(F);

#[async_trait(?Send)]
impl<F: FnMut(usize) -> Result<Vec<u64>> + Send> Turn for Elsewhere<F> {
    async fn turn(&mut self, calls: usize, times: &mut Vec<u64>) -> Result<()> {
        times.append(&mut (self.0)(calls)?);
        Ok(())
    }
}

fn nanos(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

impl Peer {
    /// A peer whose calls are futures.
    pub fn new(name: &str, about: &str, call: impl AsyncFnMut() -> Result<()> + Send + 'static) -> Self {
        Self::of(name, about, Box::new(Async(call)))
    }

    /// A peer whose calls block.
    pub fn blocking(name: &str, about: &str, call: impl FnMut() -> Result<()> + Send + 'static) -> Self {
        Self::of(name, about, Box::new(Blocking(call)))
    }

    /// A peer that another program is and times: asked for this many calls, it gives as many durations in nanoseconds.
    pub fn elsewhere(name: &str, about: &str, turn: impl FnMut(usize) -> Result<Vec<u64>> + Send + 'static) -> Self {
        Self::of(name, about, Box::new(Elsewhere(turn)))
    }

    fn of(name: &str, about: &str, turn: Box<dyn Turn>) -> Self {
        Self { name: name.to_owned(), about: about.to_owned(), isolates: None, turn }
    }

    /// The same, with what its set-up holds.
    #[must_use]
    pub fn isolating(self, isolates: &[Isolates]) -> Self {
        Self { isolates: Some(isolates.to_vec()), ..self }
    }

    pub(super) async fn turn(&mut self, calls: usize, times: &mut Vec<u64>) -> Result<()> {
        self.turn.turn(calls, times).await
    }
}

pub(super) fn native(arguments: Arc<str>) -> Peer {
    Peer::blocking("native", "a function of this process: no isolation at all", move || {
        black_box(native_echo(black_box(&arguments))?);
        Ok(())
    })
    .isolating(&[])
}

/// A fresh store and instance per call, nothing else.
pub fn bare(bare: Arc<Bare>, id: Arc<str>, arguments: Arc<str>) -> Peer {
    Peer::new("bare-wasmtime", "a fresh store of the engine alone, same pool, no limits, no receipt", async move || {
        black_box(bare.call(&id, &arguments).await).map_err(|error| anyhow!(error))?;
        Ok(())
    })
    .isolating(&[Isolates::State, Isolates::Host, Isolates::System])
}

pub(super) fn reused(mut reused: Reused, id: Arc<str>, arguments: Arc<str>) -> Peer {
    let about = "one instance of the bare engine for all calls, for reference: calls see each other's state";
    Peer::new("reused-instance", about, async move || {
        black_box(reused.call(&id, &arguments).await).map_err(|error| anyhow!(error))?;
        Ok(())
    })
    .isolating(&[Isolates::Host, Isolates::System])
}

/// The row of Opcell's cells.
pub(super) const CELL: &str = "cell";

pub(super) fn cell(plugin: Arc<Plugin>, id: Arc<str>, arguments: Arc<str>) -> Peer {
    let about = "an Opcell cell: fresh instance; arguments and result checked, all limits on, receipt kept";
    Peer::new(CELL, about, async move || {
        black_box(plugin.invoke(CellRequest::new(&id, &arguments)).await).result?;
        Ok(())
    })
    .isolating(&Isolates::ALL)
}

/// The program beside this one that is the operation built natively.
pub(super) fn echo_program() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?.with_file_name("opcell-echo");
    program.is_file().then_some(program)
}

/// That program, or where there is none this one, which is larger and starts more slowly.
fn echo_command(arguments: &[&str]) -> Result<Command> {
    let mut command = match echo_program() {
        Some(program) => Command::new(program),
        None => {
            let mut command = Command::new(std::env::current_exe().context("this program's path")?);
            command.arg(NATIVE_ECHO);
            command
        }
    };
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command)
}

pub(super) fn process(arguments: &Arc<str>) -> Result<Peer> {
    let about = "a process spawned per call, arguments on its standard input";
    Ok(spawned("process", about, echo_command(&[])?, arguments)?.isolating(&[Isolates::State, Isolates::Host]))
}

/// A process per call. It has worked once.
fn spawned(name: &str, about: &str, mut command: Command, arguments: &Arc<str>) -> Result<Peer> {
    let arguments = Arc::clone(arguments);
    let mut call = move || {
        let mut child = command.spawn()?;
        answered(&mut child, &arguments)
    };
    call()?;
    Ok(Peer::blocking(name, about, call))
}

/// Namespaces of its own for every process, with nothing in them but the program and what it is linked with.
pub(super) fn bubblewrap(arguments: &Arc<str>) -> Result<Peer> {
    let program = echo_program().context("there is no `opcell-echo` beside this program")?;
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]);
    for folder in ["/usr", "/lib", "/lib64"] {
        command.args(["--ro-bind-try", folder, folder]);
    }
    command.arg("--ro-bind").arg(program).args(["/echo", "/echo"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let about = "an `opcell-echo` per call in namespaces of its own: no network, no files but its libraries";
    spawned("bubblewrap", about, command, arguments)
        .map(|peer| peer.isolating(&[Isolates::State, Isolates::Host, Isolates::System]))
        .context("no working `bwrap` on the path, or no namespaces for users")
}

/// Returns the peer of a host that runs each tool as a script.
pub(super) fn python(arguments: &Arc<str>) -> Result<Peer> {
    const ECHO: &str = "import json, sys
sys.stdout.write(json.dumps(json.loads(sys.stdin.read()), separators=(',', ':'), ensure_ascii=False))";
    // What is on the path may be a script that finds the interpreter first.
    let found = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let found = found.ok().filter(|output| output.status.success()).context("no working `python3` on the path")?;
    let mut command = Command::new(String::from_utf8_lossy(&found.stdout).trim());
    command.args(["-I", "-c", ECHO]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let about = "a Python process spawned per call, arguments on its standard input";
    spawned("python", about, command, arguments).map(|peer| peer.isolating(&[Isolates::State, Isolates::Host]))
}

/// Reads the output of a process for its standard input, to its end.
fn answered(child: &mut Child, arguments: &str) -> Result<()> {
    let (mut input, mut output) = (child.stdin.take().context("no pipe")?, child.stdout.take().context("no pipe")?);
    let mut answer = String::new();
    input.write_all(arguments.as_bytes())?;
    drop(input);
    output.read_to_string(&mut answer)?;
    let status = child.wait()?;
    if !status.success() || answer.len() != arguments.len() {
        bail!("the process ended with {status} and {} bytes", answer.len());
    }
    Ok(())
}

/// A child that answers one line per line, ended when it is dropped.
#[derive(Debug)]
pub struct Lines {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    answer: String,
}

impl Lines {
    /// Starts it.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(command: &mut Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().context("no pipe")?;
        let output = BufReader::new(child.stdout.take().context("no pipe")?);
        Ok(Self { child, input, output, answer: String::new() })
    }

    /// Sends a line, its end included; the answer.
    ///
    /// # Errors
    /// When the child has ended.
    pub fn ask(&mut self, line: &str) -> Result<&str> {
        self.input.write_all(line.as_bytes())?;
        self.answer.clear();
        if self.output.read_line(&mut self.answer)? == 0 {
            bail!("it has ended");
        }
        Ok(&self.answer)
    }

    fn echo(&mut self, line: &str) -> Result<()> {
        let answer = self.ask(line)?;
        if answer.len() != line.len() {
            bail!("it answered {} bytes to {}", answer.len(), line.len());
        }
        Ok(())
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn line_peer(name: &str, about: &str, command: &mut Command, arguments: &str) -> Result<Peer> {
    let line = format!("{arguments}\n");
    let mut lines = Lines::start(command)?;
    lines.echo(&line)?;
    Ok(Peer::blocking(name, about, move || lines.echo(&line)))
}

pub(super) fn pipe(arguments: &str) -> Result<Peer> {
    let about = "one process for all calls over a pipe: calls are isolated from the host but not from each other";
    Ok(line_peer("pipe", about, &mut echo_command(&["lines"])?, arguments)?.isolating(&[Isolates::Host]))
}

/// Processes that wait for their call, and are refilled between calls, outside of the time that is measured.
const POOL: usize = 4;

/// Calls of the pool in one turn: filling it takes longer than the calls.
const POOL_CALLS: usize = 16;

pub(super) fn process_pool(arguments: &Arc<str>) -> Result<Peer> {
    let about = "a process that was spawned ahead of its call, used once: what a pool gives that is never empty";
    let arguments = Arc::clone(arguments);
    let mut command = echo_command(&[])?;
    let mut waiting: VecDeque<Child> = VecDeque::new();
    let turn = move |calls: usize| {
        let mut times = Vec::new();
        for _ in 0..calls.min(POOL_CALLS) {
            while waiting.len() < POOL {
                waiting.push_back(command.spawn()?);
            }
            let mut child = waiting.pop_front().context("an empty pool")?;
            let started = Instant::now();
            answered(&mut child, &arguments)?;
            times.push(nanos(started));
        }
        Ok(times)
    };
    Ok(Peer::elsewhere("process-pool", about, turn).isolating(&[Isolates::State, Isolates::Host]))
}

/// A program of the operator: it answers each line of its standard input with one line.
pub(super) fn command(name: &str, command: &str, arguments: &str) -> Result<Peer> {
    let line = format!("{arguments}\n");
    let mut lines = Lines::start(Command::new("sh").args(["-c", command]))?;
    lines.ask(&line).with_context(|| format!("`{command}` does not answer a line with a line"))?;
    let about = format!("`{command}` over a pipe: a line of arguments, a line of result");
    Ok(Peer::blocking(name, &about, move || lines.ask(&line).map(drop)))
}

/// The description that a program which times its own calls gives of itself.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Library {
    /// The description of one call of it.
    about: String,
    /// The isolation that its set-up provides; unknown where it does not say so.
    isolates: Option<Vec<Isolates>>,
    /// The result of the operation for the arguments.
    answer: String,
}

/// A library in a program of its own, which times each call itself: no pipe is part of it. The first line that it is
/// given are the arguments, and it answers with an object: `about`, perhaps `isolates`, and the operation's `answer`.
/// Each further line is a number of calls, answered with as many durations in nanoseconds, a space between them.
pub(super) fn library(name: &str, command: &str, arguments: &str) -> Result<Peer> {
    let mut lines = Lines::start(Command::new("sh").args(["-c", command]))?;
    let said = lines.ask(&format!("{arguments}\n")).with_context(|| format!("`{command}` does not describe itself"))?;
    let library: Library = serde_json::from_str(said)
        .with_context(|| format!("`{command}` does not answer with `about`, `isolates` and `answer` as JSON"))?;
    if library.answer.is_empty() {
        bail!("`{command}` returned nothing for the arguments");
    }
    let turn = move |calls: usize| {
        let answer = lines.ask(&format!("{calls}\n"))?;
        let times: Vec<u64> = answer.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        if times.len() != calls {
            bail!("it answered {} durations to {calls} calls", times.len());
        }
        Ok(times)
    };
    let peer = Peer::elsewhere(name, &library.about, turn);
    Ok(Peer { isolates: library.isolates, ..peer })
}

/// The function itself in a running Node.js, for reference: calls see each other's state.
const FUNCTION_PER_LINE: &str = "
require('node:readline').createInterface({input: process.stdin}).on('line', line =>
  process.stdout.write(JSON.stringify(JSON.parse(line)) + '\\n'));";

pub(super) fn node_warm(arguments: &str) -> Result<Peer> {
    let about = "a function of a running Node.js, requested over a pipe: no isolation between calls";
    let mut node = Command::new("node");
    line_peer("node-warm", about, node.args(["-e", FUNCTION_PER_LINE]).stderr(Stdio::null()), arguments)
        .map(|peer| peer.isolating(&[Isolates::Host]))
        .context("no working `node` on the path")
}

/// A worker thread of its own for every line.
const WORKER_PER_LINE: &str = "
const {Worker} = require('node:worker_threads');
const work = `const {parentPort, workerData} = require('node:worker_threads');
parentPort.postMessage(JSON.stringify(JSON.parse(workerData)));`;
require('node:readline').createInterface({input: process.stdin}).on('line', line => {
  new Worker(work, {eval: true, workerData: line}).on('message', text => process.stdout.write(text + '\\n'));
});";

pub(super) fn node_worker(arguments: &str) -> Result<Peer> {
    let about = "a fresh worker thread of a running Node.js per call, requested over a pipe";
    let mut node = Command::new("node");
    line_peer("node-worker", about, node.args(["-e", WORKER_PER_LINE]).stderr(Stdio::null()), arguments)
        .map(|peer| peer.isolating(&[Isolates::State, Isolates::Host]))
        .context("no working `node` on the path")
}

/// The other side of the peers `process` and `pipe`. Returns whether it worked.
#[must_use]
pub fn native_echo_main(lines: bool) -> bool {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut text = String::new();
    if !lines {
        return input.read_to_string(&mut text).is_ok()
            && native_echo(&text).is_ok_and(|answer| output.write_all(answer.as_bytes()).is_ok());
    }
    loop {
        text.clear();
        match input.read_line(&mut text) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
        let Ok(mut answer) = native_echo(&text) else { return false };
        answer.push('\n');
        if output.write_all(answer.as_bytes()).and_then(|()| output.flush()).is_err() {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_library_is_timed_by_the_program_that_calls_it() {
        let program = r#"read -r arguments
            echo '{"about": "a constant", "isolates": ["state", "time"], "answer": "{}"}'
            while read -r calls; do
                times=""; while [ "$calls" -gt 0 ]; do times="$times 5"; calls=$((calls - 1)); done; echo $times
            done"#;
        let mut peer = library("own", program, "{}").unwrap();
        assert_eq!(
            (peer.about.as_str(), peer.isolates.clone()),
            ("a constant", Some(vec![Isolates::State, Isolates::Time]))
        );
        let mut times = Vec::new();
        peer.turn(3, &mut times).await.unwrap();
        assert_eq!(times, [5, 5, 5]);
    }

    #[test]
    fn a_program_that_says_something_else_is_no_library() {
        for (program, expected) in [
            ("cat", "does not answer with `about`"),
            ("true", "does not describe itself"),
            (r#"read -r a; echo '{"about": "x", "answer": ""}'"#, "returned nothing"),
        ] {
            let error = format!("{:#}", library("own", program, "{}").unwrap_err());
            assert!(error.contains(expected), "{program}: {error}");
        }
    }
}
