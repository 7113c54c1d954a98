//! `cargo xtask bindings`: the packages for Python and Node.js. With `--test` each is installed where there is no Rust,
//! and its tests run there; with `--adapters` the adapters for other libraries are tested with these libraries.

mod adapters;
mod node;
mod python;

use crate::{
    guests,
    process::{cargo, root, run, target_directory},
};
use anyhow::{Result, bail};
use std::path::PathBuf;

/// Folders of programs in which there is no Rust.
const PATH_WITHOUT_RUST: &str = "/usr/bin:/bin";

const USAGE: &str = "usage: cargo xtask bindings [--release] [--test] [--adapters [--newest]] [--only python|node]";

/// A language with a package.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    Python,
    Node,
}

/// The tests of a package that are asked for.
#[derive(Clone, Copy, Default)]
struct Tests {
    /// Those of the package itself.
    package: bool,
    /// Those of the adapters, with the libraries that they are for.
    adapters: bool,
    /// The adapters with the newest libraries, and not with those that they are known to work with.
    newest: bool,
}

impl Tests {
    fn any(self) -> bool {
        self.package || self.adapters
    }
}

/// The languages, the profile, and the tests that are asked for.
struct Options {
    languages: Vec<Language>,
    is_release: bool,
    tests: Tests,
}

/// The folder in which cargo built the parts of the packages.
struct Built {
    folder: PathBuf,
}

impl Built {
    /// The native module of a package.
    fn library(&self, language: Language) -> PathBuf {
        self.folder.join(match language {
            Language::Python => "libopcell_python.so",
            Language::Node => "libopcell_node.so",
        })
    }

    /// The program that compiles plugins.
    fn compiler(&self) -> PathBuf {
        self.folder.join("opcell-bindings-compile")
    }
}

fn parse(rest: &[String]) -> Result<Options> {
    let languages = vec![Language::Python, Language::Node];
    let mut options = Options { languages, is_release: false, tests: Tests::default() };
    let mut rest = rest.iter().map(String::as_str);
    while let Some(option) = rest.next() {
        match (option, if option == "--only" { rest.next() } else { None }) {
            ("--release", _) => options.is_release = true,
            ("--test", _) => options.tests.package = true,
            ("--adapters", _) => options.tests.adapters = true,
            ("--newest", _) => options.tests.newest = true,
            ("--only", Some("python")) => options.languages = vec![Language::Python],
            ("--only", Some("node")) => options.languages = vec![Language::Node],
            _ => bail!("{USAGE}"),
        }
    }
    if options.tests.newest && !options.tests.adapters {
        bail!("`--newest` is for `--adapters`\n{USAGE}");
    }
    Ok(options)
}

/// Builds the packages, and tests them if asked.
pub fn bindings(rest: &[String]) -> Result<()> {
    let options = parse(rest)?;
    let mut possible = Vec::new();
    for language in options.languages {
        let (name, missing) = match language {
            Language::Python => ("Python", python::missing(options.tests.any())),
            Language::Node => ("Node.js", node::missing()),
        };
        match missing {
            Ok(()) => possible.push(language),
            Err(missing) if options.tests.any() => {
                eprintln!("SKIPPED: the tests of the package for {name}: {missing:#}")
            }
            Err(missing) => return Err(missing),
        }
    }
    if possible.is_empty() {
        return Ok(());
    }
    if options.tests.any() {
        guests::build()?;
    }
    let built = build(&possible, options.is_release)?;
    let folder = target_directory()?.join("bindings");
    for language in possible {
        match language {
            Language::Python => python::package(&built, &folder, options.tests)?,
            Language::Node => node::package(&built, &folder, options.tests)?,
        }
    }
    Ok(())
}

fn build(languages: &[Language], is_release: bool) -> Result<Built> {
    let mut build = cargo();
    build.args(["build", "--locked"]);
    if is_release {
        build.args(["--release", "--package", "opcell-bindings"]);
        for language in languages {
            build.args(["--package", if *language == Language::Python { "opcell-python" } else { "opcell-node" }]);
        }
    } else {
        // The dependencies have the features that they have for the tests of the workspace, so that none is built once
        // more: a test among the targets brings those that only tests ask for.
        build.args(["--workspace", "--lib", "--bin", "opcell-bindings-compile", "--test", "shared_cases"]);
    }
    run(build.current_dir(root()))?;
    Ok(Built { folder: target_directory()?.join(if is_release { "release" } else { "debug" }) })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;

    #[test]
    fn options_are_known_ones() {
        let given = |options: &[&str]| parse(&options.iter().map(|option| (*option).to_owned()).collect::<Vec<_>>());
        assert_eq!(given(&[]).unwrap().languages.len(), 2);
        let node = given(&["--only", "node", "--test", "--release"]).unwrap();
        assert!(node.languages == [Language::Node] && node.tests.package && !node.tests.adapters && node.is_release);
        let newest = given(&["--adapters", "--newest"]).unwrap();
        assert!(newest.tests.adapters && newest.tests.newest && !newest.tests.package);
        for wrong in [&["--only"][..], &["--only", "ruby"], &["--tests"], &["--newest"]] {
            assert!(given(wrong).is_err(), "{wrong:?}");
        }
    }
}
