//! `cargo xtask dist`: everything that a release has, in `target/dist-files`.

use crate::process::{cargo, root, run};
use anyhow::{Context as _, Result, anyhow, bail};
use sha2::{Digest as _, Sha256};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const USAGE: &str = "usage: cargo xtask dist [--binary PATH]   with a binary that is built already";

/// Builds the binary, then archive, package, bill of materials and checksums.
pub fn dist(rest: &[String]) -> Result<()> {
    let binary = match rest {
        [] => build()?,
        [option, path] if option == "--binary" => fs::canonicalize(path).with_context(|| path.clone())?,
        _ => bail!("{USAGE}"),
    };
    let out = root().join("target/dist-files");
    if out.exists() {
        fs::remove_dir_all(&out)?;
    }
    fs::create_dir_all(&out)?;
    for script in ["archive", "deb"] {
        run(Command::new(root().join("packaging").join(script)).arg(&binary).arg(&out))?;
    }
    let version = version(&binary)?;
    fs::write(out.join("VERSION"), format!("{version}\n"))?;
    fs::write(out.join(format!("opcell-{version}.cdx.json")), bill(&binary, &version)?)?;
    fs::copy(root().join("packaging/install.sh"), out.join("install.sh"))?;
    fs::write(out.join("SHA256SUMS"), checksums(&out)?)?;
    eprintln!("wrote {}", out.display());
    Ok(())
}

fn build() -> Result<PathBuf> {
    run(cargo()
        .args(["build", "--locked", "--profile", "dist", "--package", "opcell-cli", "--bin", "opcell"])
        .current_dir(root()))?;
    Ok(root().join("target/dist/opcell"))
}

fn version(binary: &Path) -> Result<String> {
    let output = Command::new(binary).arg("--version").output()?;
    let text = String::from_utf8(output.stdout)?;
    text.split_whitespace().nth(1).map(str::to_owned).ok_or_else(|| anyhow!("{} has no version", binary.display()))
}

fn bill(binary: &Path, version: &str) -> Result<String> {
    let digest = sha256(&fs::read(binary)?);
    let lock = fs::read_to_string(root().join("Cargo.lock"))?;
    opcell_author::sbom::of_cargo_lock("opcell", version, &digest, &lock).map_err(|error| anyhow!(error))
}

/// In hexadecimal.
fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// As `sha256sum` writes them, sorted by name.
fn checksums(folder: &Path) -> Result<String> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    let line = |file: &PathBuf| -> Result<String> {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        Ok(format!("{}  {name}\n", sha256(&fs::read(file)?)))
    };
    files.iter().map(line).collect()
}
