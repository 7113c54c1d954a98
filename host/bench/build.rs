//! Tells the program which compiler and which engine it was built with: a report of measurements names them.

use std::{env, fs, path::Path, process::Command};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=OPCELL_COMMIT");
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let told = Command::new(rustc).arg("--version").output();
    let rustc = told.map(|told| String::from_utf8_lossy(&told.stdout).trim().to_owned()).unwrap_or_default();
    println!("cargo:rustc-env=OPCELL_RUSTC={rustc}");
    // The lock file is the workspace's; a package of this crate alone has its own.
    let manifest = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let lock = Path::new(&manifest).ancestors().map(|folder| folder.join("Cargo.lock")).find(|file| file.is_file());
    if let Some(lock) = &lock {
        println!("cargo:rerun-if-changed={}", lock.display());
    }
    let text = lock.and_then(|lock| fs::read_to_string(lock).ok()).unwrap_or_default();
    let wasmtime = text.split("[[package]]").find(|package| package.contains("\nname = \"wasmtime\"\n"));
    let version = wasmtime.and_then(|package| package.split("version = \"").nth(1)?.split('"').next());
    println!("cargo:rustc-env=OPCELL_WASMTIME={}", version.unwrap_or("unknown"));
}
