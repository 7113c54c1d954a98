//! The toolchain that compiles Rust to `wasm32-unknown-unknown`, as it is installed.

use crate::Language;
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The target of every Rust plugin.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// The toolchain that compiles Rust plugins.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Toolchain {
    /// The toolchain on the path has the target.
    Installed,
    /// A compiler whose standard library is built from its source along with the plugin.
    Source {
        /// Its cargo.
        cargo: PathBuf,
        /// Its compiler.
        rustc: PathBuf,
        /// A linker for WebAssembly.
        linker: PathBuf,
    },
}

impl Toolchain {
    /// The toolchain that applies in a folder, if there is one.
    #[must_use]
    pub fn installed(folder: &Path) -> Option<Self> {
        if has_target(folder) { Some(Self::Installed) } else { source_tree(folder) }
    }

    /// A `cargo build` for the target, whose output does not say on whose machine it ran.
    #[must_use]
    pub fn build(&self, folder: &Path) -> Command {
        let mut command;
        match self {
            Self::Installed => {
                command = clean("cargo");
                command.args(["build", "--target", TARGET]);
            }
            Self::Source { cargo, rustc, linker } => {
                command = clean(cargo);
                command
                    .env("RUSTC", rustc)
                    // The option below is not stable, and the compiler is.
                    .env("RUSTC_BOOTSTRAP", "1")
                    .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker)
                    .args(["build", "--target", TARGET, "-Zbuild-std=std,panic_abort"]);
            }
        }
        // Panic messages name source files.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let flags = [(registry(), "registry"), (folder, ".")]
            .map(|(from, to)| format!("\"--remap-path-prefix={}={to}\"", from.display()));
        command.arg("--config").arg(format!("target.{TARGET}.rustflags=[{}]", flags.join(",")));
        // Either would replace the flags of the plugin's own `.cargo/config.toml`, the size of its stack among them.
        command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
        command
    }
}

/// A tool of a language that this machine lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missing {
    /// The tool.
    pub tool: &'static str,
    /// The command that installs it.
    pub install: String,
}

pub(crate) const INSTALL_RUST: &str = "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh";
pub(crate) const INSTALL_CLANG: &str = "sudo apt-get install clang lld";
pub(crate) const INSTALL_LINKER: &str = "sudo apt-get install lld";

/// The part of a Rust toolchain that a machine with cargo may lack.
pub(crate) const LIBRARY: &str = "the standard library of wasm32-unknown-unknown";

/// Returns the first tool that plugins in a language need and this machine does not have; those that a plugin's folder
/// may bring along are not among them.
#[must_use]
pub fn missing(language: Language, folder: &Path) -> Option<Missing> {
    let lacks = |program: &str| on_path(program).is_none();
    let missing = |tool, install: &str| Some(Missing { tool, install: install.to_owned() });
    match language {
        Language::Rust if lacks("cargo") => missing("cargo", INSTALL_RUST),
        Language::Rust if Toolchain::installed(folder).is_none() => missing(LIBRARY, &install_library()),
        Language::Javascript if lacks("node") => missing("node", "sudo apt-get install nodejs npm"),
        Language::Javascript if lacks("npm") => missing("npm", "sudo apt-get install npm"),
        Language::Python if lacks("python3") => missing("python3", "sudo apt-get install python3 python3-venv"),
        Language::C if lacks("clang") => missing("clang", INSTALL_CLANG),
        Language::C if !has_linker() => missing("wasm-ld", INSTALL_LINKER),
        Language::Rust | Language::Javascript | Language::Python | Language::C => None,
    }
}

/// Returns `true` if there is a linker for WebAssembly, under any of its names.
pub(crate) fn has_linker() -> bool {
    let names = ["wasm-ld", "wasm-ld-19", "wasm-ld-18", "wasm-ld-17", "wasm-ld-16", "wasm-ld-15", "wasm-ld-14"];
    names.into_iter().any(|linker| on_path(linker).is_some())
}

/// The command that installs [`LIBRARY`].
pub(crate) fn install_library() -> String {
    const PACKAGES: &str = "sudo apt-get install rustc-web cargo-web rust-web-src lld-19";
    match on_path("rustup") {
        None if Path::new("/etc/debian_version").exists() => PACKAGES.to_owned(),
        // Where rustup cannot download it, Debian's own packages build the library along.
        _ if Path::new("/etc/debian_version").exists() => format!("rustup target add {TARGET}, or {PACKAGES}"),
        _ => format!("rustup target add {TARGET}"),
    }
}

/// A command without what cargo and rustup set for the programs that they start: the folder's own toolchain applies.
#[must_use]
pub fn clean(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let Some(name) = name.to_str() else { continue };
        let package = ["CARGO_PKG_", "CARGO_BIN_", "CARGO_MANIFEST_"].iter().any(|start| name.starts_with(start));
        let tool = ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN", "RUST_RECURSION_COUNT", "OUT_DIR"].contains(&name);
        if package || tool || name == "CARGO_PRIMARY_PACKAGE" {
            command.env_remove(name);
        }
    }
    command
}

/// Returns the path of a program that is found on `PATH`.
#[must_use]
pub fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|candidate| candidate.is_file())
}

/// Returns the folder in which cargo keeps the sources of dependencies.
fn registry() -> PathBuf {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")));
    home.unwrap_or_default().join("registry/src")
}

fn has_target(folder: &Path) -> bool {
    sysroot("rustc", folder).is_some_and(|sysroot| sysroot.join("lib/rustlib").join(TARGET).join("lib").is_dir())
}

fn sysroot(rustc: &str, folder: &Path) -> Option<PathBuf> {
    let mut command = clean(rustc);
    command.args(["--print", "sysroot"]).current_dir(folder).stderr(Stdio::null());
    let printed = command.output().ok().filter(|output| output.status.success())?;
    Some(PathBuf::from(String::from_utf8(printed.stdout).ok()?.trim()))
}

/// The first compiler that has its standard library's source, and a linker for it.
fn source_tree(folder: &Path) -> Option<Toolchain> {
    let linker = ["wasm-ld-19", "wasm-ld"].into_iter().find_map(on_path);
    for rustc in ["rustc", "/usr/bin/rustc"] {
        let Some(sysroot) = sysroot(rustc, folder) else { continue };
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
