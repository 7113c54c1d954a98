//! `cargo xtask against [--opcell PROGRAM] [HOST…]`: the neutral twins of the hostile suite in other hosts, as the
//! table and the picture of `docs/comparison.md`.
//!
//! What each host did is kept in `benches/adapters/results.json` with its day. Without names every host that can be had
//! is asked; with names (parts of them) these are, and the others stay as they were.

use crate::process::{cargo, output, root, run, target_directory};
use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// The path of the picture.
const PICTURE: &str = "docs/images/against.svg";

/// The results of every host when it was last measured.
const RESULTS: &str = "benches/adapters/results.json";

/// One host's results.
#[derive(Serialize, Deserialize)]
struct Measured {
    host: String,
    /// The day, as `YYYY-MM-DD`.
    date: String,
    cases: Vec<Verdict>,
}

/// A host beside Opcell: its name in the table, and how its adapter is started, if it can be had here.
struct Host {
    name: &'static str,
    adapter: fn() -> Result<String>,
}

const HOSTS: [Host; 5] = [
    Host { name: "wasmtime, Python package", adapter: wasmtime_python },
    Host { name: "wasmi, Rust library", adapter: || built("benches/adapters/wasmi", "wasmi-adapter") },
    Host { name: "Wasmer, Rust library", adapter: || built("benches/adapters/wasmer", "wasmer-adapter") },
    Host { name: "Extism, Rust library", adapter: || built("benches/extism", "extism-adapter") },
    Host { name: "Node, one worker", adapter: || Ok("node --no-warnings benches/adapters/node.mjs".to_owned()) },
];

/// The name of Opcell's own column.
const OWN: &str = "Opcell, its own cases";

/// The twins, and Opcell's own case of the same attack. Its cases are written for its WIT world and have limits of their
/// own, so their times compare with no other column.
const OWN_CASES: [(&str, &str); 9] = [
    ("loop", "loop-in-export"),
    ("loop-in-start", "loop-in-start"),
    ("memory-bomb", "memory-bomb"),
    ("table-bomb", "table-bomb"),
    ("deep-recursion", "deep-recursion"),
    ("output-flood", "wasi-output-flood"),
    ("host-sleep", "sleeping-host-call"),
    ("compile-bomb", "compile-bomb"),
    ("path-escape", "path-escapes"),
];

/// The report of `opcell selftest`.
#[derive(Deserialize)]
struct Report {
    cases: Vec<Own>,
}

/// The end of one of Opcell's own cases.
#[derive(Deserialize)]
struct Own {
    name: String,
    contained: bool,
    by: String,
    ms: f64,
}

#[derive(Deserialize)]
struct Comparison {
    cases: Vec<Verdict>,
}

#[derive(Serialize, Deserialize)]
struct Verdict {
    name: String,
    contained: bool,
    by: String,
    elapsed_ms: u64,
    /// Absent of results from before it was kept.
    peak_bytes: Option<u64>,
}

/// The end of a portable case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Contained,
    /// By ending the host's process.
    WithTheProcess,
    GotThrough,
}

impl Verdict {
    fn end(&self) -> End {
        match (self.contained, self.by.contains("process")) {
            (false, _) => End::GotThrough,
            (true, true) => End::WithTheProcess,
            (true, false) => End::Contained,
        }
    }
}

pub fn against(rest: &[String]) -> Result<()> {
    let (opcell, names) = match rest {
        [flag, program, names @ ..] if flag == "--opcell" => (PathBuf::from(program), names),
        names => {
            run(cargo().args(["build", "--locked", "--package", "opcell-cli", "--bin", "opcell"]).current_dir(root()))?;
            (target_directory()?.join("debug/opcell"), names)
        }
    };
    let is_asked = |host: &str| names.is_empty() || names.iter().any(|name| host.to_lowercase().contains(name));
    let mut stored = stored_results()?;
    let mut before = |host: &str| stored.iter().position(|measured| measured.host == host).map(|at| stored.remove(at));
    let mut columns: Vec<Measured> = Vec::new();
    let own = if is_asked(OWN) { Some(own(&opcell)?) } else { None };
    columns.extend(own.or_else(|| before(OWN)));
    for host in HOSTS {
        let before = before(host.name);
        let measured = match is_asked(host.name) {
            true => measured(&host, &opcell)?,
            false => None,
        };
        columns.extend(measured.or(before));
    }
    ensure!(!columns.is_empty(), "no other host can be had here");
    fs::write(root().join(RESULTS), format!("{}\n", serde_json::to_string_pretty(&columns)?))?;
    print!("{}", table(&columns));
    let picture = root().join(PICTURE);
    fs::write(&picture, drawing(&columns))?;
    eprintln!("{}", picture.display());
    Ok(())
}

fn stored_results() -> Result<Vec<Measured>> {
    match fs::read_to_string(root().join(RESULTS)) {
        Ok(text) => serde_json::from_str(&text).with_context(|| format!("{RESULTS} cannot be read")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("{RESULTS} cannot be read")),
    }
}

/// Nothing where the host cannot be had here.
fn measured(host: &Host, opcell: &Path) -> Result<Option<Measured>> {
    let adapter = match (host.adapter)() {
        Ok(adapter) => adapter,
        Err(error) => {
            eprintln!("against: SKIPPED {}: {error:#}", host.name);
            return Ok(None);
        }
    };
    eprintln!("$ opcell selftest --against {adapter:?}");
    let mut selftest = Command::new(opcell);
    // It ends with 1 when something got through.
    let ran = selftest.args(["selftest", "--json", "--against", &adapter]).current_dir(root()).output()?;
    let read = serde_json::from_slice::<Comparison>(&ran.stdout);
    let compared = read.with_context(|| String::from_utf8_lossy(&ran.stderr).into_owned())?;
    Ok(Some(Measured { host: host.name.to_owned(), date: today(), cases: compared.cases }))
}

fn today() -> String {
    output(Command::new("date").arg("+%F")).unwrap_or_default().trim().to_owned()
}

/// Opcell's own cases of the same attacks.
fn own(opcell: &Path) -> Result<Measured> {
    let mut cases = Vec::new();
    for (twin, name) in OWN_CASES {
        eprintln!("$ opcell selftest {name}");
        let ran = Command::new(opcell).args(["selftest", "--json", name]).current_dir(root()).output()?;
        let read = serde_json::from_slice::<Report>(&ran.stdout);
        let report = read.with_context(|| String::from_utf8_lossy(&ran.stderr).into_owned())?;
        // The name is a filter: there may be longer ones.
        let case = report.cases.into_iter().find(|case| case.name == name);
        let Own { contained, by, ms, .. } = case.with_context(|| format!("`opcell selftest` has no case `{name}`"))?;
        let elapsed_ms = Duration::from_secs_f64(ms / 1000.0).as_millis().try_into()?;
        cases.push(Verdict { name: twin.to_owned(), contained, by, elapsed_ms, peak_bytes: None });
    }
    Ok(Measured { host: OWN.to_owned(), date: today(), cases })
}

fn wasmtime_python() -> Result<String> {
    output(Command::new("python3").args(["-c", "import wasmtime"])).context("`pip install wasmtime` installs it")?;
    Ok("python3 benches/adapters/wasmtime_python.py".to_owned())
}

/// A crate of its own, whose first build takes minutes.
fn built(package: &str, program: &str) -> Result<String> {
    let package: PathBuf = root().join(package);
    let target = package.join("target");
    run(cargo().args(["build", "--release", "--locked", "--target-dir"]).arg(&target).current_dir(&package))?;
    Ok(target.join("release").join(program).display().to_string())
}

/// The twins, in the order of the suite, with each host's verdict.
fn rows(columns: &[Measured]) -> impl Iterator<Item = (&str, Vec<&Verdict>)> {
    let names = columns.first().map_or(&[][..], |of| &of.cases).iter().map(|case| case.name.as_str());
    names.map(|name| (name, columns.iter().filter_map(|of| of.cases.iter().find(|case| case.name == name)).collect()))
}

fn table(columns: &[Measured]) -> String {
    let names: Vec<String> = columns.iter().map(|of| format!("{}, {}", of.host, of.date)).collect();
    let mut text = format!("| twin | {} |\n|{}\n", names.join(" | "), " --- |".repeat(names.len() + 1));
    for (name, verdicts) in rows(columns) {
        let cells = verdicts.iter().map(|case| {
            let end = if case.contained { "contained" } else { "**got through**" };
            let peak = case.peak_bytes.map_or_else(String::new, |bytes| format!(", {} MiB", bytes >> 20));
            format!("{end}: {}; {} ms{peak}", case.by, case.elapsed_ms)
        });
        let _ = writeln!(text, "| `{name}` | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    text
}

/// The colours of the picture, in light and dark.
const STYLE: &str = "<style>
  text { font: 13px system-ui, 'DejaVu Sans', sans-serif; fill: #1f2328; text-anchor: middle; }
  .name { font-weight: 700; }
  .twin { text-anchor: end; }
  .page { fill: #ffffff; }
  .contained { fill: #d4f0dc; }
  .process { fill: #fff3c4; }
  .through { fill: #f8d0d0; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .page { fill: #0d1117; }
    .contained { fill: #04361a; }
    .process { fill: #4a3500; }
    .through { fill: #5c1010; }
  }
</style>";

/// A row for each twin, a column for each host. The table beside it has the figures.
fn drawing(columns: &[Measured]) -> String {
    const LEFT: usize = 130;
    const TOP: usize = 50;
    const WIDTH: usize = 130;
    const HEIGHT: usize = 30;
    let mut shapes = String::new();
    for (column, Measured { host: name, .. }) in columns.iter().enumerate() {
        let x = LEFT + column * WIDTH + WIDTH / 2;
        let (name, kind) = name.split_once(", ").unwrap_or((name, ""));
        let _ =
            writeln!(shapes, r#"<text class="name" x="{x}" y="22">{name}</text><text x="{x}" y="40">{kind}</text>"#);
    }
    let mut bottom = TOP;
    for (row, (name, verdicts)) in rows(columns).enumerate() {
        let y = TOP + row * HEIGHT;
        bottom = y + HEIGHT;
        let _ = writeln!(shapes, r#"<text class="twin" x="{}" y="{}">{name}</text>"#, LEFT - 10, y + 20);
        for (column, case) in verdicts.into_iter().enumerate() {
            let (class, end) = match case.end() {
                End::Contained => ("contained", "contained"),
                End::WithTheProcess => ("process", "with its process"),
                End::GotThrough => ("through", "got through"),
            };
            let x = LEFT + column * WIDTH;
            let _ = writeln!(
                shapes,
                r#"<rect class="{class}" x="{}" y="{}" width="{}" height="{}" rx="4"/><text x="{}" y="{}">{end}</text>"#,
                x + 2,
                y + 2,
                WIDTH - 4,
                HEIGHT - 4,
                x + WIDTH / 2,
                y + 20
            );
        }
    }
    let width = LEFT + columns.len() * WIDTH + 10;
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{0}" viewBox="0 0 {width} {0}" role="img" aria-labelledby="title">
<title id="title">The end of each attack in each host</title>
{STYLE}
<rect class="page" width="100%" height="100%"/>
{shapes}</svg>
"#,
        bottom + 10
    )
}
