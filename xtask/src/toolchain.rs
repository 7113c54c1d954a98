//! Finds, or else installs, what compiles Rust to `wasm32-unknown-unknown`.
//!
//! In this order: a toolchain that has the target; rustup, which can add it; an installed source tree of the standard
//! library, to be built along; on Debian as root, the packages that bring one.

use crate::process::{clean, output, root, run, succeeds_within};
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The target of every guest.
pub const TARGET: &str = "wasm32-unknown-unknown";

const DEBIAN_PACKAGES: [&str; 4] = ["rustc-web", "cargo-web", "rust-web-src", "lld-19"];

/// How long rustup may try to download the target before the next way is taken.
const DOWNLOAD: Duration = Duration::from_secs(120);

/// What compiles guests.
#[derive(Debug)]
pub enum Toolchain {
    /// The toolchain on the path has the target.
    Installed,
    /// A compiler whose standard library is built from its source along with the guest.
    Source { cargo: PathBuf, rustc: PathBuf, linker: PathBuf },
}

impl Toolchain {
    /// Finds one, installing if need be.
    pub fn find() -> Result<Self> {
        if has_target() {
            return Ok(Self::Installed);
        }
        if output(&mut rustup(&["--version"])).is_some() {
            eprintln!("guests: adding {TARGET} with rustup");
            if succeeds_within(DOWNLOAD, &mut rustup(&["target", "add", TARGET])) && has_target() {
                return Ok(Self::Installed);
            }
            eprintln!("guests: rustup cannot add it; looking for a standard library to build");
        }
        if let Some(source) = source_tree() {
            return Ok(source);
        }
        if Path::new("/etc/debian_version").exists() && is_root() {
            eprintln!("guests: installing {} with apt-get", DEBIAN_PACKAGES.join(" "));
            run(Command::new("apt-get").arg("update"))?;
            let install = ["install", "--yes", "--no-install-recommends"];
            run(Command::new("apt-get").args(install).args(DEBIAN_PACKAGES).env("DEBIAN_FRONTEND", "noninteractive"))?;
            if let Some(source) = source_tree() {
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

    /// A cargo command that builds for the target.
    pub fn build(&self) -> Command {
        let mut command;
        match self {
            Self::Installed => {
                command = clean("cargo");
                command.args(["build", "--target", TARGET]);
            }
            Self::Source { cargo, rustc, linker } => {
                command = clean(&cargo.to_string_lossy());
                command
                    .env("RUSTC", rustc)
                    // The option below is not stable, and the compiler is.
                    .env("RUSTC_BOOTSTRAP", "1")
                    .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker)
                    .args(["build", "--target", TARGET, "-Zbuild-std=std,panic_abort"]);
            }
        }
        // Panic messages name source files: without this, a component would show on whose machine it was built.
        let flags = [(registry(), "registry"), (root().to_owned(), ".")]
            .map(|(from, to)| format!("\"--remap-path-prefix={}={to}\"", from.display()));
        command.arg("--config").arg(format!("target.{TARGET}.rustflags=[{}]", flags.join(",")));
        // Either would replace the flags of the guests' own `.cargo/config.toml`, the size of their stack among them.
        command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
        command
    }
}

/// Where cargo keeps the sources of dependencies.
fn registry() -> PathBuf {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")));
    home.unwrap_or_default().join("registry/src")
}

fn rustup(arguments: &[&str]) -> Command {
    let mut command = clean("rustup");
    // In the repository its toolchain file applies; without a network one refusal says as much as five.
    command.args(arguments).current_dir(root()).env("RUSTUP_MAX_RETRIES", "0");
    command
}

fn has_target() -> bool {
    sysroot("rustc").is_some_and(|sysroot| sysroot.join("lib/rustlib").join(TARGET).join("lib").is_dir())
}

fn sysroot(rustc: &str) -> Option<PathBuf> {
    let printed = output(clean(rustc).args(["--print", "sysroot"]).current_dir(root()))?;
    Some(PathBuf::from(printed.trim()))
}

/// The first compiler that has its standard library's source, and a linker for it.
fn source_tree() -> Option<Toolchain> {
    let linker = ["wasm-ld-19", "wasm-ld"].into_iter().find_map(on_path);
    for rustc in ["rustc", "/usr/bin/rustc"] {
        let Some(sysroot) = sysroot(rustc) else { continue };
        if !sysroot.join("lib/rustlib/src/rust/library/std/Cargo.toml").is_file() {
            continue;
        }
        let cargo = Path::new(rustc).with_file_name("cargo");
        let own_linker = sysroot.join("lib/rustlib/x86_64-unknown-linux-gnu/bin/gcc-ld/wasm-ld");
        let Some(linker) = linker.clone().or_else(|| own_linker.is_file().then_some(own_linker)) else { continue };
        return Some(Toolchain::Source { cargo, rustc: PathBuf::from(rustc), linker });
    }
    None
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|candidate| candidate.is_file())
}

fn is_root() -> bool {
    output(Command::new("id").arg("-u")).is_some_and(|id| id.trim() == "0")
}
