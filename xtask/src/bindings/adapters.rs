//! The adapters for other libraries, each with its library. The network is not a part of the tree: what cannot be
//! installed is skipped with a sentence, and fails nothing.

use crate::process::{root, run};
use anyhow::{Context as _, Result, ensure};
use std::{
    ffi::OsStr,
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

/// Time for the tests of one adapter, on a machine that has other things to do as well.
pub const TEST_TIME: Duration = Duration::from_secs(300);

/// An adapter, and the libraries that it is for.
#[derive(Debug, PartialEq, Eq)]
pub struct Adapter {
    /// Its name, as its module and its test have it.
    pub name: String,
    /// Packages with their versions, as the language's installer names them.
    pub packages: Vec<String>,
}

/// Reads `adapters/versions.txt` of a package: names of adapters in brackets, then a package a line.
pub fn listed(package: &str) -> Result<Vec<Adapter>> {
    let path = root().join("bindings").join(package).join("adapters/versions.txt");
    parse(&fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?)
}

fn parse(text: &str) -> Result<Vec<Adapter>> {
    let mut adapters: Vec<Adapter> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            adapters.push(Adapter { name: name.to_owned(), packages: Vec::new() });
        } else {
            adapters.last_mut().context("a package before the first adapter")?.packages.push(line.to_owned());
        }
    }
    ensure!(adapters.iter().all(|adapter| !adapter.packages.is_empty()), "an adapter without a package");
    Ok(adapters)
}

/// Returns a package without its version, which is after the last `==` or `@`.
pub fn newest(package: &str) -> &str {
    let without = package.split("==").next().unwrap_or(package);
    match without.rfind('@') {
        Some(at @ 1..) => without.get(..at).unwrap_or(without),
        _ => without,
    }
}

/// A command that is killed after some time.
pub fn within(time: Duration, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("timeout");
    command.arg("--kill-after=5").arg(format!("{}", time.as_secs().max(1))).arg(program);
    command
}

/// Installs libraries, each adapter's for itself, and says which adapters cannot be tested.
pub struct Installer {
    time: Duration,
    until: Instant,
}

impl Installer {
    /// An installer that begins now, and has this time for all libraries of its language: a registry that hardly
    /// answers is one that is missing.
    pub fn start(time: Duration) -> Self {
        Self { time, until: Instant::now() + time }
    }

    /// Runs an installation, which `command` makes for the time that is left. Returns `false` after a sentence if it
    /// failed.
    pub fn install(&self, what: &str, packages: &[String], command: impl FnOnce(Duration) -> Command) -> bool {
        let left = self.until.saturating_duration_since(Instant::now());
        let problem = if left.is_zero() {
            format!("the {} s for installations are over", self.time.as_secs())
        } else {
            match run(command(left).args(packages)) {
                Ok(()) => return true,
                Err(error) => format!("{error:#}"),
            }
        };
        eprintln!("SKIPPED: {what} was not tested: {} cannot be installed here: {problem}", packages.join(" and "));
        false
    }
}

/// Returns the packages of an adapter, with the versions that are known to work unless the newest are asked for.
pub fn packages(adapter: &Adapter, is_newest: bool) -> Vec<String> {
    let packages = adapter.packages.iter();
    packages.map(|package| if is_newest { newest(package).to_owned() } else { package.clone() }).collect()
}

/// Makes an empty folder.
pub fn emptied(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    Ok(fs::create_dir_all(folder)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;

    #[test]
    fn adapters_have_their_packages_and_versions() {
        let adapters = parse("# c\n[a]\nx==1\n@s/y@2\n\n[b]\nz\n").unwrap();
        assert_eq!(adapters.len(), 2);
        assert_eq!(packages(&adapters[0], false), ["x==1", "@s/y@2"]);
        assert_eq!(packages(&adapters[0], true), ["x", "@s/y"]);
        assert_eq!(newest("@s/y"), "@s/y");
        for wrong in ["x==1", "[a]\n[b]\nx"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    /// Every adapter that a package lists has a module and a test, and the other way round.
    #[test]
    fn each_adapter_has_a_module_and_a_test() {
        for (package, test, module) in [("python", "test_{}.py", "opcell/{}.py"), ("node", "{}.test.js", "{}.js")] {
            let folder = root().join("bindings").join(package);
            let adapters = listed(package).unwrap();
            for adapter in &adapters {
                // Types and notebooks are checked as the adapters are, and are no modules.
                let module = (!["types", "notebook"].contains(&adapter.name.as_str())).then(|| module.to_owned());
                for file in module.into_iter().chain([format!("adapters/{test}")]) {
                    let file = folder.join(file.replace("{}", &adapter.name));
                    assert!(file.exists(), "{}", file.display());
                }
            }
            let tests = fs::read_dir(folder.join("adapters")).unwrap();
            let tests = tests.filter(|entry| {
                let name = entry.as_ref().unwrap().file_name().to_string_lossy().into_owned();
                name.starts_with("test_") || name.ends_with(".test.js")
            });
            assert_eq!(tests.count(), adapters.len(), "{package}");
        }
    }

    #[test]
    fn what_cannot_be_installed_is_skipped() {
        let installer = Installer::start(Duration::from_secs(60));
        let packages = ["nothing".to_owned()];
        assert!(!installer.install("it", &packages, |left| within(left, "false")));
        assert!(!installer.install("it", &packages, |_| within(Duration::from_secs(1), "no-such-program")));
        assert!(installer.install("it", &packages, |left| within(left, "true")));
        let over = Installer::start(Duration::ZERO);
        assert!(!over.install("it", &packages, |_| Command::new("true")));
    }
}
