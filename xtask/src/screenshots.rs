//! `cargo xtask screenshots`: the server's page in its main states, as pictures for the book.

use crate::{
    guests,
    process::{cargo, root, run, target_directory},
};
use anyhow::{Context as _, Result, bail};
use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// Name, path below the tenant, width and height.
const PICTURES: [(&str, &str, u32, u32); 5] = [
    ("runs", "", 1280, 420),
    ("run", "/runs/review", 1280, 1220),
    ("approval", "/runs/release", 1280, 1000),
    ("denial", "/runs/health", 1280, 1390),
    ("compare", "/compare?a=review&b=review-again", 1280, 570),
];

/// The folder of the pictures.
const FOLDER: &str = "docs/images";

/// Runs some examples, serves their journal, and has a browser show it.
pub fn screenshots() -> Result<()> {
    let browser = browser()?;
    guests::build()?;
    run(cargo().args(["build", "--package", "opcell-cli", "--bin", "opcell"]).current_dir(root()))?;
    let target = target_directory()?;
    let scratch = target.join("screenshots");
    if scratch.exists() {
        fs::remove_dir_all(&scratch)?;
    }
    fs::create_dir_all(&scratch)?;
    let opcell = |folder: &str| {
        let mut command = Command::new(target.join("debug/opcell"));
        command.current_dir(root().join(folder)).env("HOME", &scratch).env_remove("XDG_STATE_HOME");
        command
    };
    let journal = format!("--journal={}", scratch.join("runs.db").display());
    let runs: [(&str, &[&str], i32); 4] = [
        ("examples/review", &["run", "review", "--input", "pr=7", "--as", "review"], 0),
        ("examples/review", &["run", "review", "--input", "pr=8", "--as", "review-again"], 0),
        (".", &["--without-grant", "repo:files", "run", "repo-health", "--as", "health"], 1),
        ("examples/ship", &["run", "w.edn", "--as", "release"], 3),
    ];
    for (folder, arguments, expected) in runs {
        let ended = opcell(folder).args(arguments).arg(&journal).status()?;
        if ended.code() != Some(expected) {
            bail!("`opcell {}` ended with {ended}, not with {expected}", arguments.join(" "));
        }
    }
    let mut serve = opcell("examples/review");
    serve.args(["serve", "--listen", "127.0.0.1:0", "--json"]).arg(&journal).stdout(Stdio::piped());
    let mut server = Server(serve.spawn().context("cannot start the server")?);
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().context("the server has no output")?).read_line(&mut line)?;
    let said: serde_json::Value = serde_json::from_str(&line).context("what the server printed")?;
    let url = said
        .get("listening")
        .and_then(serde_json::Value::as_str)
        .context("the server does not say where it listens")?;
    let images = root().join(FOLDER);
    fs::create_dir_all(&images)?;
    for (name, path, width, height) in PICTURES {
        let picture = images.join(format!("{name}.png"));
        take(&browser, &scratch, &picture, &format!("{url}/t/default{path}"), (width, height))?;
        eprintln!("{}", picture.display());
    }
    Ok(())
}

fn take(browser: &Path, scratch: &Path, picture: &Path, url: &str, (width, height): (u32, u32)) -> Result<()> {
    let mut command = Command::new(browser);
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--timeout=5000"])
        .arg(format!("--user-data-dir={}", scratch.join("browser").display()))
        .arg(format!("--window-size={width},{height}"))
        .arg(format!("--screenshot={}", picture.display()))
        .arg(url)
        .env("HOME", scratch);
    let output = command.output().context("cannot start the browser")?;
    if !picture.is_file() {
        bail!("the browser took no picture of {url}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

fn browser() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name)));
    found.into_iter().find(|at| at.is_file()).context("no Chromium is on the path (Debian: apt-get install chromium)")
}

/// Ends with this.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
