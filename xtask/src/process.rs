//! Child processes.

use anyhow::{Context, Result, bail};
use opcell_author::toolchain::clean;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The repository.
pub fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// A cargo that is not influenced by the cargo that runs this program.
pub fn cargo() -> Command {
    clean("cargo")
}

/// Runs to the end, showing everything; an error if it does not succeed.
pub fn run(command: &mut Command) -> Result<()> {
    eprintln!("$ {}", shown(command));
    let status = command.status().with_context(|| format!("cannot start {}", shown(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs silently; what it printed if it succeeded.
pub fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the folder in which cargo builds this workspace.
pub fn target_directory() -> Result<PathBuf> {
    let metadata = output(cargo().args(["metadata", "--format-version", "1", "--no-deps"]).current_dir(root()))
        .context("`cargo metadata` fails: run it to see why")?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    let folder = metadata.get("target_directory").and_then(serde_json::Value::as_str);
    Ok(folder.context("`cargo metadata` names no target directory")?.into())
}

/// Runs silently; whether it succeeded before the deadline.
pub fn succeeds_within(limit: Duration, command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = quiet.spawn() else { return false };
    let deadline = Instant::now() + limit;
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => thread::sleep(Duration::from_millis(50)),
            Err(_) => break,
        }
    }
    // It may have ended just now: then there is nothing left to stop.
    let _ = child.kill();
    let _ = child.wait();
    false
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
