//! `cargo xtask release`: everything that a person installs, in `dist/`.
//!
//! Every file depends on the commit and the binary alone: archives hold no times, users or orders of this machine.
//! Publishing is not part of it.

mod command;
pub mod crates;
mod image;
mod layout;
mod local;
mod plugins;
mod registry;
mod sdk;
mod tar;
mod verify;

use crate::process::{cargo, output, root, run, target_directory};
use anyhow::{Context as _, Result, bail, ensure};
use sha2::{Digest as _, Sha256};
use std::{
    cell::OnceCell,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

const USAGE: &str = "\
usage: cargo xtask release [--binary PATH] [--only PART]... [--key NAME]
       cargo xtask release --verify [--only PART]...

  --binary PATH  package this `opcell`, with the `opcell-compile` beside it, instead of building them: a trial
  --only PART    archive, deb, sbom, crates, wheel, npm, sdk, plugins, image or book; repeatable
  --key NAME     sign the plugins with this key of yours (`opcell key new NAME`), not with one of this release alone
  --verify       install what `dist/` has into empty folders, and run the main job of each part";

/// The parts, in the order in which they are built.
const PARTS: [Part; 10] = [
    Part { name: "archive", pack: command::archive, verify: verify::archive },
    Part { name: "deb", pack: command::package, verify: verify::package },
    Part { name: "sbom", pack: command::bill, verify: verify::bill },
    Part { name: "crates", pack: crates::pack, verify: verify::crates },
    Part { name: "wheel", pack: sdk::wheel, verify: verify::wheel },
    Part { name: "npm", pack: sdk::npm, verify: verify::npm },
    Part { name: "sdk", pack: sdk::pack, verify: verify::sdk },
    Part { name: "plugins", pack: plugins::pack, verify: verify::plugins },
    Part { name: "image", pack: image::pack, verify: verify::image },
    Part { name: "book", pack: sdk::book, verify: verify::book },
];

struct Part {
    name: &'static str,
    pack: fn(&Release) -> Result<Made>,
    verify: fn(&Release) -> Result<Verified>,
}

/// The outcome of building a part.
pub enum Made {
    /// Its files.
    Files(Vec<PathBuf>),
    /// The program that this machine lacks for it, and the command that installs it.
    Skipped(String),
}

/// The outcome of installing a part.
pub enum Verified {
    /// The job that it did.
    Passed(String),
    /// The program or the file that is missing.
    Skipped(String),
}

/// One release.
pub struct Release {
    /// The folder of its files.
    pub out: PathBuf,
    /// The name of the key that signs the plugins; none makes one.
    pub key: Option<String>,
    given: Option<PathBuf>,
    built: OnceCell<PathBuf>,
}

impl Release {
    /// Returns the version of every part.
    pub fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// Returns `true` if it packages a binary of another build: then the working tree may have changes.
    pub fn is_trial(&self) -> bool {
        self.given.is_some()
    }

    /// Returns the command, which is built first if no binary was given.
    pub fn binary(&self) -> Result<&Path> {
        if let Some(binary) = self.given.as_ref().or_else(|| self.built.get()) {
            return Ok(binary);
        }
        let mut build = cargo();
        build.args(["build", "--locked", "--profile", "dist", "--package", "opcell-cli", "--bin", "opcell"]);
        build.args(["--package", "opcell-sandbox", "--bin", "opcell-compile"]);
        run(build.current_dir(root()))?;
        let binary = target_directory()?.join("dist/opcell");
        checked(&binary)?;
        Ok(self.built.get_or_init(|| binary))
    }
}

/// Checks that a binary is of this version, with the compiler beside it.
fn checked(binary: &Path) -> Result<()> {
    let printed = output(Command::new(binary).arg("--version")).unwrap_or_default();
    let expected = format!("opcell {}", env!("CARGO_PKG_VERSION"));
    ensure!(
        printed.trim() == expected,
        "{} --version prints {:?}, expected {expected:?}",
        binary.display(),
        printed.trim()
    );
    let compiler = binary.with_file_name("opcell-compile");
    ensure!(compiler.is_file(), "{} does not exist: build it beside `opcell`", compiler.display());
    Ok(())
}

/// Builds the parts, or verifies them.
pub fn release(rest: &[String]) -> Result<()> {
    let mut release = Release { out: root().join("dist"), key: None, given: None, built: OnceCell::new() };
    let (mut only, mut verify) = (Vec::new(), false);
    let mut options = rest.iter();
    while let Some(option) = options.next() {
        let mut value = || options.next().with_context(|| format!("{option} needs a value\n\n{USAGE}"));
        match option.as_str() {
            "--binary" => {
                let path = value()?;
                release.given = Some(fs::canonicalize(path).with_context(|| path.clone())?);
            }
            "--only" => only.push(value()?.clone()),
            "--key" => release.key = Some(value()?.clone()),
            "--verify" => verify = true,
            _ => bail!("unknown option {option:?}\n\n{USAGE}"),
        }
    }
    if let Some(unknown) = only.iter().find(|name| PARTS.iter().all(|part| part.name != *name)) {
        bail!("unknown part {unknown:?}\n\n{USAGE}");
    }
    if let Some(binary) = &release.given {
        checked(binary)?;
    }
    let parts: Vec<&Part> =
        PARTS.iter().filter(|part| only.is_empty() || only.iter().any(|name| name == part.name)).collect();
    if verify { verified(&release, &parts) } else { packed(&release, &parts, only.is_empty()) }
}

fn packed(release: &Release, parts: &[&Part], whole: bool) -> Result<()> {
    if whole && release.out.exists() {
        fs::remove_dir_all(&release.out)?;
    }
    fs::create_dir_all(&release.out)?;
    let mut rows = Vec::new();
    for part in parts {
        eprintln!("== {}", part.name);
        let started = Instant::now();
        let made = (part.pack)(release).with_context(|| format!("cannot make the part `{}`", part.name))?;
        rows.push((part.name, made, started.elapsed()));
    }
    fs::write(release.out.join("VERSION"), format!("{}\n", release.version()))?;
    fs::write(release.out.join("SHA256SUMS"), checksums(&release.out)?)?;
    print!("{}", table(&release.out, &rows)?);
    Ok(())
}

fn verified(release: &Release, parts: &[&Part]) -> Result<()> {
    let sums = release.out.join("SHA256SUMS");
    let expected =
        fs::read_to_string(&sums).with_context(|| format!("{}: run `cargo xtask release` first", sums.display()))?;
    ensure!(
        expected == checksums(&release.out)?,
        "{} does not match the files beside it: build them again",
        sums.display()
    );
    let mut failed = Vec::new();
    for part in parts {
        eprintln!("== {}", part.name);
        let started = Instant::now();
        let said = match (part.verify)(release) {
            Ok(Verified::Passed(job)) => format!("ok       {job}"),
            Ok(Verified::Skipped(missing)) => format!("SKIPPED  {missing}"),
            Err(error) => {
                failed.push(part.name);
                format!("FAILED   {error:#}")
            }
        };
        println!("{:<8} {:>6.1} s  {said}", part.name, started.elapsed().as_secs_f64());
    }
    ensure!(failed.is_empty(), "these parts cannot be installed: {}", failed.join(", "));
    Ok(())
}

/// One line per file: its name, size, digest, and the time of its part.
fn table(out: &Path, rows: &[(&str, Made, Duration)]) -> Result<String> {
    let mut text = format!("{:<48} {:>11}  {:<64}  {:>7}\n", "file", "bytes", "sha256", "seconds");
    for (part, made, time) in rows {
        match made {
            Made::Skipped(missing) => writeln!(text, "SKIPPED {part}: {missing}")?,
            Made::Files(files) => {
                for (at, file) in files.iter().enumerate() {
                    let bytes = fs::read(file).with_context(|| file.display().to_string())?;
                    let name = file.strip_prefix(out).unwrap_or(file).display().to_string();
                    // Files of one part are made together.
                    let time = if at == 0 { format!("{:.1}", time.as_secs_f64()) } else { String::new() };
                    writeln!(text, "{name:<48} {:>11}  {:<64}  {time:>7}", bytes.len(), sha256(&bytes))?;
                }
            }
        }
    }
    Ok(text)
}

/// In hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// As `sha256sum` writes them, for every file below the folder except the list itself, sorted by name.
fn checksums(folder: &Path) -> Result<String> {
    let (mut files, mut pending) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = pending.pop() {
        for entry in fs::read_dir(&next).with_context(|| format!("cannot list {}", next.display()))? {
            let path = entry?.path();
            if path.is_dir() { pending.push(path) } else { files.push(path) }
        }
    }
    files.retain(|file| file.file_name().is_none_or(|name| name != "SHA256SUMS"));
    files.sort();
    let line = |file: &PathBuf| -> Result<String> {
        let name = file.strip_prefix(folder).unwrap_or(file).display();
        Ok(format!("{}  {name}\n", sha256(&fs::read(file)?)))
    };
    files.iter().map(line).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_part_or_option_is_refused_with_the_usage() {
        for wrong in [["--only", "wheels"], ["--binry", "x"]] {
            let refused = release(&wrong.map(str::to_owned)).unwrap_err().to_string();
            assert!(refused.contains("unknown") && refused.contains("usage:"), "{refused}");
        }
    }

    #[test]
    fn the_checksums_are_those_of_sha256sum_in_every_folder() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("crates")).unwrap();
        for (name, content) in [("b", "two"), ("crates/a", "one"), ("SHA256SUMS", "of before")] {
            fs::write(folder.path().join(name), content).unwrap();
        }
        let sums = checksums(folder.path()).unwrap();
        assert_eq!(sums.lines().count(), 2);
        fs::write(folder.path().join("SHA256SUMS"), sums).unwrap();
        let check =
            Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(folder.path()).output();
        assert!(check.unwrap().status.success());
    }

    #[test]
    fn the_table_has_a_line_for_each_file_and_each_part_that_was_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.tgz");
        fs::write(&file, "abc").unwrap();
        let rows = [
            ("sdk", Made::Files(vec![file]), Duration::from_millis(1500)),
            ("book", Made::Skipped("mdbook".to_owned()), Duration::ZERO),
        ];
        let table = table(folder.path(), &rows).unwrap();
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            lines,
            [
                vec!["file", "bytes", "sha256", "seconds"],
                vec!["a.tgz", "3", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "1.5"],
                vec!["SKIPPED", "book:", "mdbook"],
            ]
        );
    }
}
