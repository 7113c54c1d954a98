//! Every target, what was measured, met or not: `cargo xtask bench --targets`.
//!
//! `targets [--json] [--only GROUP,…] [--occasions N] [--opcell COMMAND] [ECHO.wasm] [--default-stack ECHO.wasm] [--extism PROGRAM
//! PLUGIN]`. The `opcell` command is expected beside this program, unless another is named. Built without the feature
//! `cells`, it needs no WebAssembly engine and measures no cell.
//!
//! Every figure is measured on three occasions, or on N: each is a process of its own that measures everything once. A
//! figure is the median of them.

use anyhow::{Context as _, Result, bail};
use opcell_benches::targets::{Bound, Target, commands, in_process, sessions};
#[cfg(feature = "cells")]
use opcell_benches::targets::{
    cells::{self, Extism},
    in_turns,
};
use serde::Deserialize;
use std::{
    path::PathBuf,
    process::{Command, ExitCode, Stdio},
};

#[global_allocator]
static ALLOCATOR: opcell_allocator::Allocator = opcell_allocator::Allocator;

/// The groups that can be measured by themselves, with what they need: `c`ells in this build, an `e`cho, the `o`pcell
/// command.
const GROUPS: [(&str, &str); 10] = [
    ("cells", "ce"),
    ("turns", "ce"),
    ("workflows", "ce"),
    ("start", "eo"),
    ("memory", ""),
    ("commands", "o"),
    ("each-cells", "eo"),
    ("transforms", ""),
    ("engine", ""),
    ("sessions", ""),
];

/// Occasions on which everything is measured.
const OCCASIONS: u32 = 3;

/// The request.
struct Asked {
    json: bool,
    occasions: u32,
    only: Option<Vec<String>>,
    opcell: Option<PathBuf>,
    echo: Option<PathBuf>,
    #[cfg(feature = "cells")]
    default_stack: Option<PathBuf>,
    #[cfg(feature = "cells")]
    extism: Option<Extism>,
}

impl Asked {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let mut asked = Self {
            json: false,
            occasions: OCCASIONS,
            only: None,
            opcell: None,
            echo: None,
            #[cfg(feature = "cells")]
            default_stack: None,
            #[cfg(feature = "cells")]
            extism: None,
        };
        while let Some(word) = words.next() {
            let mut next = |what: &str| words.next().with_context(|| format!("`{word}` needs {what}"));
            match word.as_str() {
                "--json" => asked.json = true,
                "--occasions" => {
                    let number = next("a number")?;
                    asked.occasions = number
                        .parse()
                        .ok()
                        .filter(|number| *number > 0)
                        .with_context(|| format!("`{number}` is not a number of occasions; at least 1"))?;
                }
                "--only" => asked.only = Some(next("groups")?.split(',').map(str::to_owned).collect()),
                "--opcell" => asked.opcell = Some(next("a command")?.into()),
                #[cfg(feature = "cells")]
                "--default-stack" => asked.default_stack = Some(next("a component")?.into()),
                #[cfg(feature = "cells")]
                "--extism" => {
                    let program = next("a program")?;
                    asked.extism = Some(Extism { program, plugin: next("a plugin of Extism's")? });
                }
                option if option.starts_with("--") => bail!("no option `{option}`"),
                _ => asked.echo = Some(word.into()),
            }
        }
        let names = || GROUPS.map(|(name, _)| name).join(", ");
        for name in asked.only.iter().flatten() {
            let Some((_, needs)) = GROUPS.iter().find(|(known, _)| known == name) else {
                bail!("no group `{name}`; there are {}", names());
            };
            if needs.contains('c') && !cfg!(feature = "cells") {
                bail!("`{name}` runs cells, and this program is built without the feature `cells`");
            }
            if needs.contains('e') && asked.echo.is_none() {
                bail!("`{name}` needs an echo component");
            }
        }
        Ok(asked)
    }

    /// Returns `true` if a group is measured: one that is asked for, or, unless some are, every one that can be.
    fn measures(&self, group: &str) -> bool {
        let Some((_, needs)) = GROUPS.iter().find(|(known, _)| *known == group) else { return false };
        match &self.only {
            Some(only) => only.iter().any(|name| name == group),
            None => (self.echo.is_some() || !needs.contains('e')) && (cfg!(feature = "cells") || !needs.contains('c')),
        }
    }
}

fn say(text: &str) {
    eprintln!("targets: {text}");
}

/// The measurements of one occasion.
#[derive(serde::Serialize, Deserialize)]
struct Measured {
    targets: Vec<Target>,
    machine: serde_json::Value,
    notes: Vec<String>,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let asked = Asked::read(std::env::args().skip(1))?;
    let measured = if asked.occasions == 1 { once(&asked).await? } else { several(asked.occasions)? };
    if asked.json {
        println!("{:#}", serde_json::to_value(&measured)?);
    } else {
        show(&measured.targets, &measured.notes);
    }
    let missed = measured.targets.iter().any(|target| target.met == Some(false));
    Ok(if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Measures everything in as many processes, one after the other.
fn several(occasions: u32) -> Result<Measured> {
    let (mut targets, mut notes, mut machine) = (Vec::new(), Vec::new(), serde_json::Value::Null);
    for number in 1..=occasions {
        say(&format!("occasion {number} of {occasions}"));
        let mut command = Command::new(std::env::current_exe()?);
        // The last option counts.
        command.args(std::env::args().skip(1)).args(["--json", "--occasions", "1"]);
        let output = command.stderr(Stdio::inherit()).output()?;
        // It fails when a target is missed, and has measured all the same.
        let measured: Measured = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("occasion {number} was not measured: {}", output.status))?;
        notes.extend(measured.notes.into_iter().map(|note| format!("occasion {number}: {note}")));
        machine = measured.machine;
        targets.push(measured.targets);
    }
    Ok(Measured { targets: Target::merged(targets)?, machine, notes })
}

async fn once(asked: &Asked) -> Result<Measured> {
    let opcell = match &asked.opcell {
        Some(opcell) => opcell.canonicalize().with_context(|| opcell.display().to_string())?,
        None => std::env::current_exe()?.with_file_name("opcell"),
    };
    #[cfg(feature = "cells")]
    let (mut targets, notes, machine) = of_cells(asked).await?;
    #[cfg(not(feature = "cells"))]
    let (mut targets, notes, machine) = (Vec::new(), Vec::<String>::new(), serde_json::Value::Null);
    let echo = asked.echo.as_deref();
    if let Some(echo) = echo.filter(|_| asked.measures("start")) {
        say("from process start to result, beside `node -e 0`");
        targets.push(commands::start_up(&opcell, echo)?);
    }
    if asked.measures("memory") {
        say("each over a hundred thousand elements");
        targets.push(in_process::each().await?);
    }
    if asked.measures("commands") {
        say("the whole command over eight megabytes of rows");
        targets.extend(commands::over_rows(&opcell)?);
    }
    if let Some(echo) = echo.filter(|_| asked.measures("each-cells")) {
        say("the whole command over a hundred thousand cells");
        targets.extend(commands::each_of_cells(&opcell, echo)?);
    }
    if asked.measures("transforms") {
        say("transforms of a hundred thousand rows");
        targets.extend(in_process::transforms()?);
    }
    if asked.measures("engine") {
        say("a chain of a thousand steps, and each over ten thousand elements");
        // On a thread of the runtime, like the requests of a server: from outside, each run would begin with waking
        // one up.
        targets.extend(tokio::spawn(async { in_process::engine().await }).await??);
    }
    if asked.measures("sessions") {
        say("conversations: bytes, first bytes, pieces, pictures");
        targets.extend(tokio::spawn(async { sessions::sessions().await }).await??);
    }
    Ok(Measured { targets, machine, notes })
}

#[cfg(feature = "cells")]
async fn of_cells(asked: &Asked) -> Result<(Vec<Target>, Vec<String>, serde_json::Value)> {
    let (mut targets, mut notes, mut machine) = (Vec::new(), Vec::new(), serde_json::Value::Null);
    let Some(echo) = &asked.echo else { return Ok((targets, notes, machine)) };
    let mut bare = None;
    if asked.measures("cells") || asked.measures("workflows") {
        let (rows, report) = cells::cells(echo, asked.default_stack.as_deref(), asked.extism.as_ref(), &say).await?;
        bare = report.rows.iter().find(|row| row.name == "bare-wasmtime").map(|row| row.median_us);
        let here = opcell_bench::Machine::this();
        notes.push(format!("{}, {} cores, {}, {}; {}", here.cpu, here.cores, here.system, here.date, report.noise));
        notes.extend(report.notes);
        machine = serde_json::to_value(here)?;
        if asked.measures("cells") {
            targets.extend(rows);
        }
    }
    if asked.measures("turns") {
        say("two and eight alternating plugins");
        targets.extend(in_turns::in_turns(echo).await?);
    }
    if asked.measures("workflows") {
        say("a workflow of a hundred cells, and one of a hundred steps without any");
        let component = echo.clone();
        targets.extend(tokio::spawn(async move { cells::steps(&component, bare).await }).await??);
    }
    Ok((targets, notes, machine))
}

fn show(targets: &[Target], notes: &[String]) {
    println!("| figure | target | median | spread | met | of |\n| --- | --- | --- | --- | --- | --- |");
    for target in targets {
        let sign = match target.bound {
            Bound::AtMost => "≤",
            Bound::AtLeast => "≥",
        };
        let measured = target.measured.map_or_else(|| "-".to_owned(), |measured| format!("{measured:.2}"));
        let spread = target.spread.map_or_else(|| "-".to_owned(), |(least, most)| format!("{least:.2} to {most:.2}"));
        let met = target.met.map_or("not measured", |met| if met { "met" } else { "NOT MET" });
        println!(
            "| {} | {sign} {:.2} | {measured} | {spread} | {met} | {} |",
            target.figure, target.target, target.how
        );
    }
    if !notes.is_empty() {
        println!("\n{}", notes.join("\n"));
    }
}
