//! Builds guests: every library of a guest workspace becomes `dist/<package>.wasm`, a component.

use crate::process::{output, root, run};
use crate::toolchain;
use anyhow::{Context, Result, bail};
use opcell_author::toolchain::{TARGET, clean};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use wit_component::ComponentEncoder;

/// Workspaces of guests; one that does not exist is passed over.
const WORKSPACES: [&str; 2] = ["example-operations", "tests/guests"];

/// The sources of guests besides their own workspace.
const SHARED_SOURCES: [&str; 2] = ["guest-sdk", "wit"];

/// Bytes of the stack that rustc asks for where no one does.
const DEFAULT_STACK: u32 = 1 << 20;

/// Builds what is older than its sources.
pub fn build() -> Result<()> {
    let mut toolchain = None;
    for workspace in WORKSPACES.map(|name| root().join(name)) {
        if !workspace.join("Cargo.toml").is_file() {
            continue;
        }
        let guests = guests(&workspace)?;
        let dist = workspace.join("dist");
        if up_to_date(&workspace, &dist, &guests)? {
            eprintln!("guests: {} is up to date", shown(&dist));
            continue;
        }
        let toolchain = match &toolchain {
            Some(found) => found,
            None => toolchain.insert(toolchain::find()?),
        };
        let target = workspace.join("target");
        run(toolchain.build(root()).arg("--release").arg("--target-dir").arg(&target).current_dir(&workspace))?;
        fs::create_dir_all(&dist)?;
        for guest in &guests {
            let module = target.join(TARGET).join("release").join(format!("{}.wasm", guest.library));
            let component = componentize(&module)?;
            let path = dist.join(format!("{}.wasm", guest.package));
            fs::write(&path, &component).with_context(|| format!("cannot write {}", path.display()))?;
            eprintln!("guests: {:>8} bytes  {}", component.len(), shown(&path));
        }
    }
    Ok(())
}

/// The echo plugin with the shadow stack that the linker gives when no one asks for another: what `bench --targets`
/// compares with.
pub fn echo_with_default_stack() -> Result<PathBuf> {
    let workspace = root().join("example-operations");
    let target = workspace.join("target/default-stack");
    let path = target.join("echo.wasm");
    // The flags of the guests' own configuration come first, and the linker takes the last.
    let stack = format!("target.{TARGET}.rustflags=[\"-C\", \"link-arg=-zstack-size={DEFAULT_STACK}\"]");
    let mut build = toolchain::find()?.build(root());
    build.args(["--release", "--package", "echo", "--config", &stack, "--target-dir"]).arg(&target);
    run(build.current_dir(&workspace))?;
    let component = componentize(&target.join(TARGET).join("release/echo.wasm"))?;
    fs::write(&path, component).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Extism's echo, a plain module: Extism takes no components.
pub fn extism_echo() -> Result<PathBuf> {
    plain_module("benches/extism/guest", "extism_echo.wasm")
}

/// An echo without any import, for engines that take modules only.
pub fn plain_echo() -> Result<PathBuf> {
    plain_module("benches/peers/guest", "plain_echo.wasm")
}

fn plain_module(package: &str, module: &str) -> Result<PathBuf> {
    let package = root().join(package);
    let target = package.join("target");
    let mut build = toolchain::find()?.build(root());
    run(build.args(["--release", "--target-dir"]).arg(&target).current_dir(&package))?;
    Ok(target.join(TARGET).join("release").join(module))
}

struct Guest {
    package: String,
    /// The module's file name without `.wasm`.
    library: String,
}

/// As much of `cargo metadata` as is needed.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    crate_types: Vec<String>,
}

fn guests(workspace: &Path) -> Result<Vec<Guest>> {
    let metadata =
        output(clean("cargo").args(["metadata", "--format-version", "1", "--no-deps"]).current_dir(workspace))
            .with_context(|| format!("`cargo metadata` fails in {}: run it there to see why", workspace.display()))?;
    let metadata: Metadata = serde_json::from_str(&metadata)?;
    let mut guests = Vec::new();
    for package in metadata.packages {
        for target in package.targets.iter().filter(|target| target.crate_types.iter().any(|kind| kind == "cdylib")) {
            guests.push(Guest { package: package.name.clone(), library: target.name.replace('-', "_") });
        }
    }
    if guests.is_empty() {
        bail!("{} has no package with crate-type = [\"cdylib\"]", workspace.display());
    }
    Ok(guests)
}

/// From a core module, which describes its own interface in custom sections, to a component.
fn componentize(module: &Path) -> Result<Vec<u8>> {
    let bytes = fs::read(module).with_context(|| format!("cannot read {}", module.display()))?;
    ComponentEncoder::default()
        .validate(true)
        .module(&bytes)
        .and_then(|encoder| encoder.encode())
        .with_context(|| format!("cannot make a component of {}", module.display()))
}

/// Returns `true` if every component exists and is newer than every source.
fn up_to_date(workspace: &Path, dist: &Path, guests: &[Guest]) -> Result<bool> {
    let mut oldest_component = SystemTime::now();
    for guest in guests {
        match fs::metadata(dist.join(format!("{}.wasm", guest.package))) {
            Ok(metadata) => oldest_component = oldest_component.min(metadata.modified()?),
            Err(_) => return Ok(false),
        }
    }
    let mut newest_source = SystemTime::UNIX_EPOCH;
    let mut pending: Vec<PathBuf> = SHARED_SOURCES.iter().map(|name| root().join(name)).collect();
    pending.push(workspace.to_owned());
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_dir() && ["target", "dist"].iter().any(|built| entry.file_name() == *built) {
                continue;
            }
            // A folder's own time shows that something in it was added or removed; writing `dist` changes the
            // workspace's.
            newest_source = newest_source.max(metadata.modified()?);
            if metadata.is_dir() {
                pending.push(entry.path());
            }
        }
    }
    Ok(newest_source <= oldest_component)
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}
