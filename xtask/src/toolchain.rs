//! Finds, or else installs, what compiles Rust to `wasm32-unknown-unknown`.
//!
//! In this order: a toolchain that has the target; rustup, which can add it; an installed source tree of the standard
//! library, to be built along; on Debian as root, the packages that bring one.

use crate::process::{output, root, run, succeeds_within};
use anyhow::{Result, bail};
use opcell_author::toolchain::{TARGET, Toolchain, clean};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const DEBIAN_PACKAGES: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "lld-19"];

/// The time for which rustup may try to download the target before the next way is taken.
const DOWNLOAD: Duration = Duration::from_secs(120);

/// Finds one, installing if need be.
pub fn find() -> Result<Toolchain> {
    let found = Toolchain::installed(root());
    if let Some(Toolchain::Installed) = found {
        return Ok(Toolchain::Installed);
    }
    if output(&mut rustup(&["--version"])).is_some() {
        eprintln!("guests: adding {TARGET} with rustup");
        let added = succeeds_within(DOWNLOAD, &mut rustup(&["target", "add", TARGET]));
        if let (true, Some(Toolchain::Installed)) = (added, Toolchain::installed(root())) {
            return Ok(Toolchain::Installed);
        }
        eprintln!("guests: rustup cannot add it; looking for a standard library to build");
    }
    if let Some(source) = found {
        return Ok(source);
    }
    if Path::new("/etc/debian_version").exists() && is_root() {
        eprintln!("guests: installing {} with apt-get", DEBIAN_PACKAGES.join(" "));
        run(Command::new("apt-get").arg("update"))?;
        let install = ["install", "--yes", "--no-install-recommends"];
        run(Command::new("apt-get").args(install).args(DEBIAN_PACKAGES).env("DEBIAN_FRONTEND", "noninteractive"))?;
        if let Some(source) = Toolchain::installed(root()) {
            return Ok(source);
        }
    }
    bail!(
        "no Rust compiler for {TARGET}. Either of these brings one:\n  \
         rustup target add {TARGET}\n  \
         sudo apt-get install {}    (Debian 12 or newer)",
        DEBIAN_PACKAGES.join(" ")
    )
}

fn rustup(arguments: &[&str]) -> Command {
    let mut command = clean("rustup");
    // In the repository its toolchain file applies; without a network one refusal says as much as five.
    command.args(arguments).current_dir(root()).env("RUSTUP_MAX_RETRIES", "0");
    command
}

fn is_root() -> bool {
    output(Command::new("id").arg("-u")).is_some_and(|id| id.trim() == "0")
}
