//! `cargo xtask bindings`: the Python package as a wheel. With `--test` it is installed where there is no Rust, and the
//! tests in `bindings/python/tests` run there.

use crate::guests;
use crate::process::{cargo, output, root, run, target_directory};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest Python that the package is for.
const OLDEST: (u32, u32) = (3, 10);

/// Folders of programs in which there is no Rust.
const PATH_WITHOUT_RUST: &str = "/usr/bin:/bin";

/// Builds the wheel, and tests it if asked.
pub fn bindings(rest: &[String]) -> Result<()> {
    let (mut release, mut test) = (false, false);
    for option in rest {
        match option.as_str() {
            "--release" => release = true,
            "--test" => test = true,
            _ => bail!("usage: cargo xtask bindings [--release] [--test]"),
        }
    }
    let folder = target_directory()?.join("bindings");
    let empty = folder.join("empty");
    if let Err(missing) = python().and_then(|()| if test { environment(&empty) } else { Ok(()) }) {
        if test {
            eprintln!("SKIPPED: the tests of the Python package: {missing:#}");
            return Ok(());
        }
        return Err(missing);
    }
    if test {
        guests::build()?;
    }
    let wheel = wheel(&folder.join("wheels"), release)?;
    eprintln!("bindings: {} bytes  {}", fs::metadata(&wheel)?.len(), wheel.display());
    if test { tested(&wheel, &empty, &folder.join("home")) } else { Ok(()) }
}

/// Checks that there is a Python that the package is for.
fn python() -> Result<()> {
    let version = output(Command::new("python3").args(["-c", "import sys; print(*sys.version_info[:2])"]));
    let version = version.context("there is no `python3` on the PATH: sudo apt-get install python3-venv")?;
    let mut numbers = version.split_whitespace().filter_map(|number| number.parse::<u32>().ok());
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found < OLDEST {
        bail!("`python3` is {}.{}, and the package is for {}.{} or later", found.0, found.1, OLDEST.0, OLDEST.1);
    }
    Ok(())
}

/// An empty virtual environment.
fn environment(folder: &Path) -> Result<()> {
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))
        .context("`python3` makes no virtual environment with pip: sudo apt-get install python3-venv")
}

fn wheel(wheels: &Path, release: bool) -> Result<PathBuf> {
    let mut build = cargo();
    build.args(["build", "--locked"]);
    if release {
        build.args(["--release", "--package", "opcell-python"]);
    } else {
        // The dependencies have the features that they have for the tests of the workspace, so that none is built once
        // more: a test among the targets brings those that only tests ask for.
        build.args(["--workspace", "--lib", "--bin", "opcell-python-compile", "--test", "shared_cases"]);
    }
    run(build.current_dir(root()))?;
    let built = target_directory()?.join(if release { "release" } else { "debug" });
    if wheels.exists() {
        fs::remove_dir_all(wheels)?;
    }
    fs::create_dir_all(wheels)?;
    let mut pack = Command::new("python3");
    pack.arg(root().join("bindings/python/wheel.py")).arg(built.join("libopcell_python.so"));
    pack.arg(built.join("opcell-python-compile")).arg(env!("CARGO_PKG_VERSION")).arg(wheels);
    run(&mut pack)?;
    let packed = fs::read_dir(wheels)?.next().context("there is no wheel")??;
    Ok(packed.path())
}

/// Installs the wheel into an empty environment, and runs the tests there, with nothing of Rust on the path.
fn tested(wheel: &Path, environment: &Path, home: &Path) -> Result<()> {
    let python = environment.join("bin/python");
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]).arg(wheel))?;
    fs::create_dir_all(home)?;
    let mut tests = Command::new(&python);
    tests.args(["-m", "unittest", "discover", "--start-directory"]).arg(root().join("bindings/python/tests"));
    tests.env_clear().env("HOME", home).env("PATH", PATH_WITHOUT_RUST).env("PYTHONDONTWRITEBYTECODE", "1");
    tests.env("OPCELL_REPOSITORY", root());
    run(tests.current_dir(home))
}
