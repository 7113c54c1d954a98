//! The JavaScript runtime: quickjs-ng, a C library and the plugin `code` as one component, which the library embeds.
//!
//! The repository holds the component, so that nothing else needs clang. The record beside it names the compiler: only
//! the same one gives the same bytes.

use crate::process::{output, root, run};
use anyhow::{Context, Result, bail};
use opcell_author::{
    Project, component,
    toolchain::{clean, on_path},
};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The folder of the component, its record and the licences.
const BUILTIN: &str = "host/opcell/builtin";

/// The crate that has the sources of the engine.
const SOURCES: &str = "rquickjs-sys";

const LINKERS: [&str; 7] =
    ["wasm-ld", "wasm-ld-19", "wasm-ld-18", "wasm-ld-17", "wasm-ld-16", "wasm-ld-15", "wasm-ld-14"];

/// The units of the engine, the one of ours that includes the rest of it, and our others.
const ENGINE: [&str; 3] = ["libregexp", "libunicode", "dtoa"];
const WITH_ENGINE: &str = "frames";
/// The engine is compiled for speed: what turns the module into native code puts no function into another.
const ENGINE_OPTIONS: [&str; 2] = ["-O2", "-w"];
const OWN: [&str; 5] = ["code", "source", "text", "libc", "memory"];

/// Scripts that are evaluated in each cell, with the names under which the sources have them.
const SCRIPTS: [(&str, &str); 2] = [("boot", "BOOT"), ("source", "SOURCE")];

/// As quickjs-ng is configured where there are no threads and no directions of rounding.
const DEFINES: [&str; 7] = [
    "-DNDEBUG",
    "-DEMSCRIPTEN=1",
    "-DFE_DOWNWARD=0",
    "-DFE_UPWARD=0",
    "-D_GNU_SOURCE",
    "-DOPCELL_LIBC",
    "-DOPCELL_DYNAMIC",
];

/// Bytes of the stack in linear memory; the engine leaves room above its own limit, see `STACK_BYTES` of `code.c`.
const STACK: &str = "stack-size=262144";

/// Builds the component into the repository, with a record of its digest and compiler.
pub fn build() -> Result<()> {
    let clang = on_path("clang").context("there is no clang: sudo apt-get install clang lld")?;
    let folder = root().join(BUILTIN);
    let target = crate::process::target_directory()?;
    let scratch = target.join("javascript-runtime");
    let module = module(&clang, &scratch)?;
    let started = started(&module, &scratch, &target)?;
    let component = component(&started)?;
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("code.wasm"), &component)?;
    let record = serde_json::json!({
        "clang": version(&clang)?,
        "module-sha256": digest(&fs::read(&module)?),
        "sha256": digest(&component),
    });
    fs::write(folder.join("code.json"), format!("{record:#}\n"))?;
    eprintln!("javascript-runtime: {} bytes", component.len());
    Ok(())
}

/// The version of a compiler, such as `14.0.6`.
fn version(clang: &Path) -> Result<String> {
    let printed = output(Command::new(clang).arg("-dumpversion")).context("`clang -dumpversion` fails")?;
    Ok(printed.trim().to_owned())
}

fn digest(bytes: &[u8]) -> String {
    use sha2::{Digest as _, Sha256};
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Builds the core module: the engine, a C library and the plugin.
fn module(clang: &Path, scratch: &Path) -> Result<PathBuf> {
    let package = root().join("guest-sdk/javascript-runtime");
    let sources = sources(&package)?;
    fs::create_dir_all(scratch)?;
    for (script, name) in SCRIPTS {
        let bytes = fs::read(package.join(script).with_extension("js"))?;
        let bytes: Vec<String> = bytes.iter().map(ToString::to_string).collect();
        let header = format!("static const unsigned char {name}[] = {{{},0}};\n", bytes.join(","));
        fs::write(scratch.join(script).with_extension("h"), header)?;
    }
    let mut objects = Vec::new();
    for unit in ENGINE {
        let source = sources.join("quickjs").join(unit).with_extension("c");
        objects.push(compile(clang, &sources, scratch, &source, &ENGINE_OPTIONS)?);
    }
    let with_engine = package.join(WITH_ENGINE).with_extension("c");
    objects.push(compile(clang, &sources, scratch, &with_engine, &ENGINE_OPTIONS)?);
    let own = OWN.iter().map(|unit| package.join(unit).with_extension("c"));
    for source in own.chain([root().join("guest-sdk/c/opcell.c")]) {
        objects.push(compile(
            clang,
            &sources,
            scratch,
            &source,
            &["-Wall", "-Wextra", "-Werror", "-fno-builtin-malloc", "-fno-builtin-calloc"],
        )?);
    }
    link(&sources, &objects, scratch)
}

/// The module with the memory of an engine that has been started, which takes most of the time of a short program.
fn started(module: &Path, scratch: &Path, target: &Path) -> Result<PathBuf> {
    let tool = root().join("guest-sdk/javascript-runtime/snapshot/Cargo.toml");
    let started = scratch.join("started.wasm");
    let mut command = clean("cargo");
    command.args(["run", "--locked", "--manifest-path"]).arg(tool);
    command.env("CARGO_TARGET_DIR", target.join("javascript-snapshot")).arg("--").arg(module).arg(&started);
    run(&mut command)?;
    Ok(started)
}

/// Makes a component of the module.
fn component(module: &Path) -> Result<Vec<u8>> {
    let package = root().join("guest-sdk/javascript-runtime");
    let mut bytes = fs::read(module)?;
    let world = fs::read_to_string(package.join("runtime.wit"))?;
    component::describe_as(&mut bytes, &world, "runtime").map_err(anyhow::Error::msg)?;
    Ok(component::finish(&Project::read(&package)?, module, &bytes)?)
}

/// The folder of the sources, which cargo has checked against their checksum.
fn sources(package: &Path) -> Result<PathBuf> {
    let manifest = package.join("sources/Cargo.toml");
    let mut command = clean("cargo");
    command.args(["metadata", "--format-version", "1", "--locked", "--manifest-path"]).arg(&manifest);
    let metadata = output(&mut command)
        .with_context(|| format!("cargo cannot fetch the sources that {} pins", manifest.display()))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata.get("packages").and_then(Value::as_array).into_iter().flatten();
    let of = |package: &&Value| package.get("name").and_then(Value::as_str) == Some(SOURCES);
    let found = packages.filter(of).find_map(|package| package.get("manifest_path")?.as_str());
    let Some(folder) = found.and_then(|path| Path::new(path).parent()) else {
        bail!("{} does not pin {SOURCES}", manifest.display())
    };
    Ok(folder.to_owned())
}

fn compile(clang: &Path, sources: &Path, scratch: &Path, source: &Path, warnings: &[&str]) -> Result<PathBuf> {
    let object = scratch.join(source.file_stem().unwrap_or_default()).with_extension("o");
    let mut command = Command::new(clang);
    command.args(["--target=wasm32-unknown-unknown", "-std=gnu11", "-Os"]).args(DEFINES).args(warnings);
    command.arg("-isystem").arg(sources.join("vendor/wasi-libc/include")).arg("-I").arg(sources.join("quickjs"));
    command.arg("-I").arg(root().join("guest-sdk/c")).arg("-I").arg(scratch);
    run(command.arg("-c").arg(source).arg("-o").arg(&object))?;
    Ok(object)
}

fn link(sources: &Path, objects: &[PathBuf], scratch: &Path) -> Result<PathBuf> {
    let linker =
        LINKERS.into_iter().find_map(on_path).context("there is no wasm-ld: sudo apt-get install clang lld")?;
    let module = scratch.join("module.wasm");
    let mut command = Command::new(linker);
    command.args(["--no-entry", "--gc-sections", "--strip-all", "--stack-first", "-z", STACK]);
    command.args(objects).arg(sources.join("vendor/wasi-libc/lib/libc.a")).arg("-o").arg(&module);
    run(&mut command)?;
    Ok(module)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test")]

    use super::*;

    fn record() -> Value {
        serde_json::from_slice(&fs::read(root().join(BUILTIN).join("code.json")).unwrap()).unwrap()
    }

    #[test]
    fn the_component_of_the_repository_is_the_recorded_one() {
        let component = fs::read(root().join(BUILTIN).join("code.wasm")).unwrap();
        assert_eq!(record().get("sha256").unwrap(), digest(&component).as_str());
    }

    #[test]
    fn the_same_compiler_builds_the_same_module() {
        let record = record();
        let recorded = record.get("clang").unwrap().as_str().unwrap();
        let Some(clang) = on_path("clang") else {
            eprintln!("SKIPPED: the JavaScript runtime was not built again: there is no clang");
            return;
        };
        let installed = version(&clang).unwrap();
        if installed != recorded || sources(&root().join("guest-sdk/javascript-runtime")).is_err() {
            eprintln!(
                "SKIPPED: the JavaScript runtime was not built again: it takes clang {recorded} (here: {installed}) and \
                 the crate {SOURCES}"
            );
            return;
        }
        let scratch = tempfile::tempdir().unwrap();
        // Starting it takes an engine to be built, which is more than this test is worth.
        let built = fs::read(module(&clang, scratch.path()).unwrap()).unwrap();
        let message = "build it again: cargo xtask javascript-runtime";
        assert_eq!(record.get("module-sha256").unwrap(), digest(&built).as_str(), "{message}");
    }
}
