//! `cargo xtask package`: what crates.io would get, used as a stranger would: outside of this repository.

use crate::{
    guests,
    process::{cargo, output, root, run, target_directory},
    release::crates::{self, Package},
};
use anyhow::{Context as _, Result, ensure};
use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Runs one cell of the plugin that it is given, as README shows it.
const PROGRAM: &str = r#"use opcell::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    opcell::prepare();
    let component = std::env::args().nth(1).ok_or("no component")?;
    opcell::runtime()?.block_on(async {
        let host = Host::builder().plugin(PluginConfig::new("echo", component)).build().await?;
        let called = host.invoke("echo/echo", opcell::json!({"text": "hello"})).await?;
        println!("{}", called.data);
        Ok(())
    })
}
"#;

/// Packages every published crate, then builds a crate of its own against the packages and runs a cell with it.
pub fn package() -> Result<()> {
    guests::build()?;
    let target = target_directory()?;
    let packages = crates::in_publish_order()?;
    let mut command = cargo();
    command.args(["package", "--locked", "--no-verify"]).current_dir(root());
    for package in &packages {
        command.args(["--package", &package.name]);
    }
    run(&mut command)?;

    let scratch = std::env::temp_dir().join(format!("opcell-package-{}", std::process::id()));
    fs::create_dir_all(scratch.join("src"))?;
    let used = use_them(&scratch, &target, &packages);
    fs::remove_dir_all(&scratch).with_context(|| scratch.display().to_string())?;
    used
}

fn use_them(scratch: &Path, target: &Path, packages: &[Package]) -> Result<()> {
    let mut manifest = "[package]\nname = \"scratch\"\nedition = \"2024\"\n\n[dependencies]\n".to_owned();
    manifest.push_str("opcell = { version = \"*\", default-features = false }\n\n[workspace]\n\n[patch.crates-io]\n");
    for Package { name, version, .. } in packages {
        let folder = unpack(scratch, &target.join("package"), name, version)?;
        writeln!(manifest, "{name} = {{ path = {:?} }}", folder.display().to_string())?;
    }
    fs::write(scratch.join("Cargo.toml"), manifest)?;
    fs::write(scratch.join("src/main.rs"), PROGRAM)?;
    // The versions that were tested, not the newest ones.
    fs::copy(root().join("Cargo.lock"), scratch.join("Cargo.lock"))?;

    let echo = root().join("example-operations/dist/echo.wasm");
    run(cargo().arg("build").arg("--target-dir").arg(target.join("scratch")).current_dir(scratch))?;
    let printed = output(Command::new(target.join("scratch/debug/scratch")).arg(echo).current_dir(scratch));
    let printed = printed.context("the program that was built against the packages fails")?;
    ensure!(printed.trim() == r#"{"text":"hello"}"#, "the cell gave {printed:?}");
    eprintln!("{} packages; a crate outside of the repository builds against them and runs a cell", packages.len());
    Ok(())
}

fn unpack(scratch: &Path, packages: &Path, name: &str, version: &str) -> Result<PathBuf> {
    let archive = packages.join(format!("{name}-{version}.crate"));
    run(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(scratch))?;
    Ok(scratch.join(format!("{name}-{version}")))
}
