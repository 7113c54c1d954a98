//! `opcell serve` in a folder of its own, and what it takes of the machine.

use crate::client::Connection;
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// One step that calls the echo.
const ONE: &str =
    r#"{:name "one" :description "One step" :steps [{:name "one" :type :invoke :operation "echo/echo" :args {:n 1}}]}"#;

/// Waits for its readers, then calls the echo for each element.
const BUSY: &str = r#"{:name "busy" :description "Measured" :inputs {:xs {:type "array"}} :steps [{:name "go" :type :wait :signal "go"} {:name "all" :type :invoke :operation "echo/echo" :each {:over "$inputs.xs" :concurrency 16} :args {:n 1}}]}"#;

/// Calls the echo for each element.
const EACH: &str = "---\nname: each\ndescription: Measured.\n---\n\n```workflow\ninputs:\n  xs: { type: array }\nsteps:\n  - id: all\n    type: tool\n    tool: echo/echo\n    each: $inputs.xs\n    x-opcell: { concurrency: 16 }\n    inputs:\n      n: { type: int, value: $item }\n```\n";

const WAITS: &str = r#"{:name "waits" :description "Waits" :steps [{:name "go" :type :wait :signal "go"}]}"#;

/// A project in a folder that goes with it.
#[derive(Debug)]
pub struct Project {
    /// The folder.
    pub folder: tempfile::TempDir,
    /// The command.
    pub opcell: PathBuf,
}

impl Project {
    /// A project with the echo, in a new folder of `directory`; tenants beside it, if they are named.
    ///
    /// # Errors
    /// The file system's.
    pub fn new(opcell: &Path, echo: &Path, directory: &Path, tenants: &[(&str, &str)]) -> Result<Self> {
        let folder = tempfile::TempDir::new_in(directory).with_context(|| directory.display().to_string())?;
        let project = Self { folder, opcell: opcell.to_owned() };
        let own = |at: &Path| -> Result<()> {
            fs::create_dir_all(at)?;
            fs::copy(echo, at.join("echo.wasm")).with_context(|| echo.display().to_string())?;
            for (name, text) in [("one.edn", ONE), ("waits.edn", WAITS), ("busy.edn", BUSY), ("each.md", EACH)] {
                fs::write(at.join(name), text)?;
            }
            Ok(fs::write(
                at.join("opcell.toml"),
                "workflows = [\".\"]\n\n[journal]\npath = \"runs.db\"\n\n[plugins.echo]\npath = \"echo.wasm\"\n",
            )?)
        };
        own(project.folder.path())?;
        let mut text = fs::read_to_string(project.folder.path().join("opcell.toml"))?;
        for (name, share) in tenants {
            own(&project.folder.path().join(name))?;
            text += &format!("\n[tenants.{name}]\nproject = \"{name}/opcell.toml\"\n{share}");
        }
        fs::write(project.folder.path().join("opcell.toml"), text)?;
        Ok(project)
    }

    /// Adds a file, or to a file.
    ///
    /// # Errors
    /// The file system's.
    pub fn add(&self, name: &str, text: &str) -> Result<()> {
        let mut file = fs::OpenOptions::new().append(true).create(true).open(self.folder.path().join(name))?;
        Ok(file.write_all(text.as_bytes())?)
    }

    /// The command, in the folder and without anything of the user's.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.opcell);
        command.current_dir(self.folder.path()).env("HOME", self.folder.path()).env_remove("XDG_STATE_HOME");
        command
    }

    /// Serves it.
    ///
    /// # Errors
    /// When the server does not start.
    pub fn serve(&self) -> Result<Served> {
        let mut command = self.command();
        command.args(["serve", "--listen", "127.0.0.1:0", "--json"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| self.opcell.display().to_string())?;
        let mut output = BufReader::new(child.stdout.take().context("no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let Ok(said) = serde_json::from_str::<Value>(&line) else {
            // An error has several lines, after which the server ends.
            output.read_to_string(&mut line)?;
            child.wait()?;
            bail!("the server did not start: {}", line.trim());
        };
        let address = said.get("listening").and_then(Value::as_str).and_then(|url| url.split_once("://"));
        let address = address.context("the server does not say where it listens")?.1.to_owned();
        Ok(Served { child, address })
    }
}

/// A server; it is killed when this is dropped.
#[derive(Debug)]
pub struct Served {
    child: Child,
    /// The address at which it listens.
    pub address: String,
}

impl Served {
    /// A line of `/proc/PID/status` in bytes: `VmRSS` now, `VmHWM` at the most.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn memory(&self, key: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).context("no such line")?;
        Ok(kib.trim().parse::<u64>()? * 1024)
    }

    /// Processor time so far.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn processor_time(&self) -> Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // After the name, which may contain anything, the times are the twelfth and the thirteenth field.
        let fields = stat.rsplit_once(')').map(|(_, fields)| fields).context("no fields")?;
        let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
        // Linux counts a hundred ticks a second for programs.
        Ok(Duration::from_millis(ticks * 10))
    }

    /// Kills it, as a crash would.
    ///
    /// # Errors
    /// The system's.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Returns the number of runs that have a status.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn count(&self, status: &str) -> Result<u64> {
        let mut connection = Connection::open(&self.address).await?;
        let (_, text) = connection.ask("GET", "/metrics", "", "").await?;
        let text = String::from_utf8_lossy(text).into_owned();
        let wanted = format!("opcell_runs{{tenant=\"default\",status=\"{status}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&wanted).map(str::to_owned));
        Ok(line.map_or(Ok(0), |count| count.parse())?)
    }

    /// Starts a run under a name.
    ///
    /// # Errors
    /// When the server does not start it.
    pub async fn start(&self, workflow: &str, run: &str, elements: usize) -> Result<()> {
        let xs: Vec<usize> = (0..elements).collect();
        let body = serde_json::json!({"workflow": workflow, "run": run, "input": {"xs": xs}}).to_string();
        let mut connection = Connection::open(&self.address).await?;
        let (status, answer) = connection.json("POST", "/v1/default/runs", &body).await?;
        if status != 201 {
            bail!("{workflow} was not started: {answer}");
        }
        Ok(())
    }

    /// Waits until a run has a status; the number of events that it has then.
    ///
    /// # Errors
    /// When the run does not have it after two minutes.
    pub async fn wait(&self, run: &str, status: &str) -> Result<u64> {
        let mut connection = Connection::open(&self.address).await?;
        let began = Instant::now();
        loop {
            let (_, found) = connection.json("GET", &format!("/v1/default/runs/{run}"), "").await?;
            if found.get("status").and_then(Value::as_str) == Some(status) {
                return found.get("events").and_then(Value::as_u64).context("no events");
            }
            if began.elapsed() > Duration::from_secs(120) {
                bail!("run {run} is not {status}: {found}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
