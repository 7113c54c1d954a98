//! The Python package as a wheel.

use super::{
    Built, Language, PATH_WITHOUT_RUST, Tests,
    adapters::{self, Installer, TEST_TIME, within},
};
use crate::process::{output, root, run, target_directory};
use anyhow::{Context as _, Result, bail};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// Time for the installation of the libraries of all adapters.
const INSTALL_TIME: Duration = Duration::from_secs(140);

/// The oldest Python that the package is for.
const OLDEST: (u32, u32) = (3, 10);

/// Checks that there is a Python that the package is for, and for tests that it makes virtual environments.
pub fn missing(tests: bool) -> Result<()> {
    let version = output(Command::new("python3").args(["-c", "import sys; print(*sys.version_info[:2])"]));
    let version = version.context("there is no `python3` on the PATH: sudo apt-get install python3-venv")?;
    let mut numbers = version.split_whitespace().filter_map(|number| number.parse::<u32>().ok());
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found < OLDEST {
        bail!("`python3` is {}.{}, and the package is for {}.{} or later", found.0, found.1, OLDEST.0, OLDEST.1);
    }
    if tests { environment(&target_directory()?.join("bindings/empty")) } else { Ok(()) }
}

/// Makes an empty virtual environment.
fn environment(folder: &Path) -> Result<()> {
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))
        .context("`python3` makes no virtual environment with pip: sudo apt-get install python3-venv")
}

/// Packs the wheel, and tests it if asked.
pub fn package(built: &Built, folder: &Path, tests: Tests) -> Result<()> {
    let wheel = wheel(built, &folder.join("wheels"))?;
    eprintln!("bindings: {} bytes  {}", fs::metadata(&wheel)?.len(), wheel.display());
    let home = folder.join("home");
    fs::create_dir_all(&home)?;
    if tests.package {
        tested(&wheel, &folder.join("empty"), &home)?;
    }
    if tests.adapters { adapted(&wheel, &folder.join("adapters"), &home, tests.newest) } else { Ok(()) }
}

fn wheel(built: &Built, wheels: &Path) -> Result<PathBuf> {
    if wheels.exists() {
        fs::remove_dir_all(wheels)?;
    }
    fs::create_dir_all(wheels)?;
    let mut pack = Command::new("python3");
    pack.arg(root().join("bindings/python/wheel.py")).arg(built.library(Language::Python)).arg(built.compiler());
    run(pack.arg(env!("CARGO_PKG_VERSION")).arg(wheels))?;
    let packed = fs::read_dir(wheels)?.next().context("there is no wheel")??;
    Ok(packed.path())
}

/// Installs the wheel into an empty environment, and runs the tests there, with nothing of Rust on the path.
fn tested(wheel: &Path, environment: &Path, home: &Path) -> Result<()> {
    let python = environment.join("bin/python");
    installed(&python, wheel)?;
    let tests = Command::new(&python);
    discovered(tests, &root().join("bindings/python/tests"), "test*.py", home)
}

fn installed(python: &Path, wheel: &Path) -> Result<()> {
    run(Command::new(python).args(["-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]).arg(wheel))
}

/// Runs the tests of a folder, with nothing of Rust on the path.
fn discovered(mut tests: Command, folder: &Path, pattern: &str, home: &Path) -> Result<()> {
    tests.args(["-m", "unittest", "discover", "--pattern", pattern, "--start-directory"]).arg(folder);
    tests.env_clear().env("HOME", home).env("PATH", PATH_WITHOUT_RUST).env("PYTHONDONTWRITEBYTECODE", "1");
    tests.env("OPCELL_REPOSITORY", root());
    run(tests.current_dir(home))
}

/// Installs the wheel and the libraries of the adapters into an environment of their own, and tests each adapter there.
fn adapted(wheel: &Path, folder: &Path, home: &Path, is_newest: bool) -> Result<()> {
    environment(folder)?;
    let python = folder.join("bin/python");
    installed(&python, wheel)?;
    let installer = Installer::start(INSTALL_TIME);
    for adapter in adapters::listed("python")? {
        let packages = adapters::packages(&adapter, is_newest);
        let what = format!("the adapter `opcell.{}`", adapter.name);
        let options = ["-m", "pip", "install", "--quiet", "--no-compile", "--retries=1", "--timeout=15"];
        let install = |left| {
            let mut install = within(left, &python);
            install.args(options);
            install
        };
        if installer.install(&what, &packages, install) {
            let test = format!("test_{}.py", adapter.name);
            discovered(within(TEST_TIME, &python), &root().join("bindings/python/adapters"), &test, home)?;
        }
    }
    Ok(())
}
