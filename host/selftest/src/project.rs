//! Hostile projects against this program: each case is a folder with commands, which must not do what its files try.
//!
//! A case runs in a copy of its folder, with a home, a cache and a state of its own. It may go on after a command
//! fails: only the demands of `case.toml` say what counts.

#![expect(clippy::disallowed_methods, reason = "all of it is in a temporary folder that this process has made")]

use super::{MILLIS, Report};
use anyhow::{Context as _, Result, ensure};
use opcell_sandbox::limits::Unit;
use opcell_types::files::{read_bounded, read_text_bounded};
use serde::Deserialize;
use std::{
    fs,
    io::Read,
    os::unix::process::CommandExt as _,
    path::{Component, Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// The file that makes a folder a case.
pub const FILE: &str = "case.toml";

/// The longest file of a case, and the most files.
const MAX_FILE: u64 = 64 << 20;
const MAX_FILES: usize = 10_000;

/// Memory that one command may take, unless the case says otherwise.
const RSS: u64 = 1 << 30;

/// As much of what the commands print is looked at.
const MAX_OUTPUT: usize = 16 << 20;

/// The interval at which a command's memory is looked at.
const MEMORY_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The content of `case.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct CaseFile {
    /// The attempt of the project.
    title: String,
    /// Arguments of `opcell`, one list per command.
    commands: Vec<Vec<String>>,
    /// Exit codes that the last command may have; any if there are none.
    #[serde(default)]
    exit: Vec<i32>,
    /// Text that must be printed.
    #[serde(default)]
    says: Vec<String>,
    /// Text that must not be printed.
    #[serde(default)]
    hides: Vec<String>,
    /// Files that must be as they were.
    #[serde(default)]
    kept: Vec<PathBuf>,
    /// Files that must not appear.
    #[serde(default)]
    absent: Vec<PathBuf>,
    /// Variables that the commands see.
    #[serde(default)]
    env: std::collections::BTreeMap<String, String>,
    /// The time that all commands together may take.
    #[serde(default)]
    within: Option<String>,
    /// The most memory of one command.
    #[serde(default)]
    rss_at_most: Option<String>,
    /// Files that are too large to be kept.
    #[serde(default)]
    make: Vec<Made>,
    /// The file that every command has as its standard input.
    #[serde(default)]
    input: Option<PathBuf>,
}

/// A file that is made for a case.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Made {
    /// Its place, below the case.
    file: PathBuf,
    /// Its pieces.
    text: Vec<Piece>,
}

/// A piece of a text.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Piece {
    /// As it is.
    Text(String),
    /// Again and again; `#` is the number of each.
    Repeated {
        /// The text.
        of: String,
        /// The number of times.
        times: usize,
    },
}

impl Made {
    fn text(&self) -> Result<String> {
        let mut text = String::new();
        for piece in &self.text {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Repeated { of, times } => {
                    let numbered = of.contains('#');
                    // Numbers of seven digits.
                    let most = of.len().saturating_add(if numbered { 8 } else { 0 }).saturating_mul(*times);
                    let room = usize::try_from(MAX_FILE).unwrap_or(usize::MAX);
                    ensure!(text.len().saturating_add(most) <= room, "`{}` is too large", self.file.display());
                    if numbered {
                        (0..*times).for_each(|at| text.push_str(&of.replace('#', &at.to_string())));
                    } else {
                        text.push_str(&of.repeat(*times));
                    }
                }
            }
        }
        Ok(text)
    }
}

/// The cases below a folder, by name.
///
/// # Errors
/// When the folder cannot be read.
pub fn all(folder: &Path) -> Result<Vec<PathBuf>> {
    let shown = || format!("cannot read the cases in `{}`", folder.display());
    let mut cases = Vec::new();
    for entry in fs::read_dir(folder).with_context(shown)? {
        let path = entry.with_context(shown)?.path();
        if path.join(FILE).is_file() {
            cases.push(path);
        }
    }
    cases.sort();
    Ok(cases)
}

/// Runs one case with this program. Blocks.
#[must_use]
pub fn run(folder: &Path) -> Report {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let started = Instant::now();
    let mut report = Report {
        name,
        title: String::new(),
        contained: false,
        by: "nothing".to_owned(),
        message: String::new(),
        ms: 0.0,
        rss_growth_kib: 0,
        rss_peak_kib: None,
        problem: None,
    };
    if let Err(error) = attempt(folder, &mut report) {
        report.problem = Some(format!("{error:#}"));
    }
    report.contained = report.problem.is_none();
    report.ms = (started.elapsed().as_secs_f64() * MILLIS).round() / 1e3;
    report
}

fn attempt(folder: &Path, report: &mut Report) -> Result<()> {
    let text = read_text_bounded(&folder.join(FILE), MAX_FILE).with_context(|| format!("cannot read {FILE}"))?;
    let case: CaseFile = toml_edit::de::from_str(&text).with_context(|| format!("{FILE} is not that of a project"))?;
    report.title.clone_from(&case.title);
    let limit = |unit: Unit, key, text: &Option<String>, default| match text {
        Some(text) => unit.parse(key, text),
        None => Ok(default),
    };
    let within = Duration::from_millis(limit(Unit::Milliseconds, "within", &case.within, 20_000)?);
    let rss_at_most = limit(Unit::Bytes, "rss-at-most", &case.rss_at_most, RSS)?;
    let made = case.make.iter().map(|made| &made.file);
    for path in case.kept.iter().chain(&case.absent).chain(made).chain(&case.input) {
        let leaves = path.components().any(|part| !matches!(part, Component::Normal(_)));
        ensure!(!leaves, "`{}` is not a path below the case", path.display());
    }
    let place = tempfile::tempdir()?;
    // What lies above a project is its surroundings: a case reaches for it with `..`.
    let (root, home) = (place.path().join("project"), place.path().join("home"));
    let mut files = 0;
    copy(folder, &root, &mut files)?;
    fs::create_dir(&home)?;
    for made in &case.make {
        fs::write(root.join(&made.file), made.text()?).with_context(|| format!("`{}`", made.file.display()))?;
    }
    let until = Instant::now() + within;
    let mut printed = Vec::new();
    let (mut last, mut peak) = (None, 0);
    for arguments in &case.commands {
        let mut command = Command::new(std::env::current_exe().context("this program's path")?);
        command.args(arguments).current_dir(&root).env_clear().envs(&case.env);
        command.env("HOME", &home).env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.stdin(match &case.input {
            Some(input) => fs::File::open(root.join(input))?.into(),
            None => Stdio::null(),
        });
        let ended = watched(command, until, rss_at_most)?;
        printed.extend_from_slice(&ended.printed);
        peak = peak.max(ended.peak);
        report.rss_peak_kib = i64::try_from(peak >> 10).ok();
        ensure!(ended.status.is_some(), "still running after {} ms", within.as_millis());
        ensure!(peak <= rss_at_most, "it took {} KiB of memory, more than {} KiB", peak >> 10, rss_at_most >> 10);
        last = ended.status;
    }
    let printed = String::from_utf8_lossy(&printed);
    report.message = opcell_types::text::printable(&printed, 400);
    let Some(status) = last else { anyhow::bail!("the case has no command") };
    // A program that a signal ends was not contained by this one.
    let Some(code) = status.code() else { anyhow::bail!("it ended with {status}") };
    report.by = format!("exit {code}");
    ensure!(case.exit.is_empty() || case.exit.contains(&code), "the exit code is {code}, expected {:?}", case.exit);
    for text in &case.says {
        ensure!(printed.contains(text), "`{text}` was not printed");
    }
    for text in &case.hides {
        ensure!(!printed.contains(text), "`{text}` was printed");
    }
    for path in &case.kept {
        let read = |root: &Path| read_bounded(&root.join(path), MAX_FILE).map_err(|error| error.to_string());
        ensure!(read(folder) == read(&root), "`{}` was changed", path.display());
    }
    for path in &case.absent {
        ensure!(root.join(path).symlink_metadata().is_err(), "`{}` was made", path.display());
    }
    Ok(())
}

/// Copies a folder without following links, which are copied as such.
fn copy(from: &Path, to: &Path, files: &mut usize) -> Result<()> {
    let mut waiting = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = waiting.pop() {
        fs::create_dir(&to)?;
        for entry in fs::read_dir(&from)? {
            let entry = entry?;
            *files += 1;
            ensure!(*files <= MAX_FILES, "the case has more than {MAX_FILES} files");
            let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
            if kind.is_dir() {
                waiting.push((entry.path(), target));
            } else if kind.is_symlink() {
                std::os::unix::fs::symlink(fs::read_link(entry.path())?, target)?;
            } else if kind.is_file() {
                ensure!(entry.metadata()?.len() <= MAX_FILE, "`{}` is too large", entry.path().display());
                fs::copy(entry.path(), target)?;
            }
        }
    }
    Ok(())
}

/// The end of a command.
struct Ended {
    /// None of one that was stopped because its time was up, or because it took too much.
    status: Option<ExitStatus>,
    printed: Vec<u8>,
    /// In bytes, of the command and what it started.
    peak: u64,
}

fn watched(mut command: Command, until: Instant, rss_at_most: u64) -> Result<Ended> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn()?;
    let printed = Arc::new(Mutex::new(Vec::new()));
    let readers: Vec<_> = [
        child.stdout.take().map(|out| Box::new(out) as Box<dyn Read + Send>),
        child.stderr.take().map(|err| Box::new(err) as Box<dyn Read + Send>),
    ]
    .into_iter()
    .flatten()
    .map(|stream| {
        let printed = Arc::clone(&printed);
        thread::spawn(move || keep(stream, &printed))
    })
    .collect();
    let mut peak = 0;
    let status = loop {
        peak = peak.max(resident(child.id()));
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() >= until || peak > rss_at_most {
            end(&mut child);
            break (peak > rss_at_most).then(ExitStatus::default);
        }
        thread::sleep(MEMORY_POLL_INTERVAL);
    };
    // Whatever it left behind has its pipes.
    end(&mut child);
    for reader in readers {
        let _ = reader.join();
    }
    let printed = std::mem::take(&mut *printed.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Ended { status, printed, peak })
}

fn keep(mut stream: impl Read, printed: &Mutex<Vec<u8>>) {
    let mut chunk = [0; 8 << 10];
    while let Ok(read @ 1..) = stream.read(&mut chunk) {
        let mut printed = printed.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_OUTPUT.saturating_sub(printed.len()).min(read);
        printed.extend_from_slice(chunk.get(..room).unwrap_or_default());
    }
}

/// Ends a command and everything of its process group.
fn end(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.wait();
}

/// The peak of a process's resident memory, in bytes; 0 where the system does not say.
fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|peak| peak.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).map_or(0, |kib| kib << 10)
}
