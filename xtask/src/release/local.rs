//! A registry of folders, as cargo's directory source reads it: the packaged crates beside everything that they need
//! from crates.io.

use crate::process::{cargo, root};
use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

/// A crate as a registry has it.
pub struct Published {
    /// Its folder, `NAME-VERSION`.
    pub folder: PathBuf,
    /// SHA-256 of its archive, in hexadecimal.
    pub digest: String,
}

/// Resolves a program that depends on these crates, with `work` as scratch space; returns how many packages it needs.
/// Nothing is fetched: what the crates need must be among them or in `others`.
///
/// # Errors
/// If cargo does not find a crate, a version or a feature that one of them names.
pub fn resolve(
    work: &Path,
    names: &[&str],
    version: &str,
    crates: &[Published],
    others: &[Published],
) -> Result<usize> {
    let registry = work.join("registry");
    for published in crates.iter().chain(others) {
        add(&registry, published)?;
    }
    let program = work.join("program");
    fs::create_dir_all(program.join("src"))?;
    fs::create_dir_all(program.join(".cargo"))?;
    fs::write(program.join("src/main.rs"), "fn main() {}\n")?;
    let registry = json!(registry.display().to_string());
    fs::write(
        program.join(".cargo/config.toml"),
        format!("[source.crates-io]\nreplace-with = \"packaged\"\n\n[source.packaged]\ndirectory = {registry}\n"),
    )?;
    let mut manifest =
        "[package]\nname = \"program\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n".to_owned();
    for name in names {
        writeln!(manifest, "{name} = \"={version}\"")?;
    }
    fs::write(program.join("Cargo.toml"), manifest)?;
    let resolved = cargo().args(["metadata", "--format-version", "1", "--offline"]).current_dir(&program).output()?;
    ensure!(resolved.status.success(), "{}", String::from_utf8_lossy(&resolved.stderr).trim());
    let resolved: serde_json::Value = serde_json::from_slice(&resolved.stdout)?;
    let packages = resolved.get("packages").and_then(serde_json::Value::as_array);
    Ok(packages.context("`cargo metadata` lists no packages")?.len())
}

/// Links a crate into the registry.
fn add(registry: &Path, published: &Published) -> Result<()> {
    let name = published.folder.file_name().context("a crate without a name")?;
    let folder = registry.join(name);
    fs::create_dir_all(&folder)?;
    let files = fs::read_dir(&published.folder);
    for entry in files.with_context(|| format!("cannot list {}", published.folder.display()))? {
        let entry = entry?;
        symlink(entry.path(), folder.join(entry.file_name()))?;
    }
    let sums = json!({"files": {}, "package": published.digest});
    fs::write(folder.join(".cargo-checksum.json"), sums.to_string())?;
    Ok(())
}

/// Returns the crates of crates.io that Cargo.lock names, where cargo has unpacked them.
pub fn of_lock() -> Result<Vec<Published>> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let sources = home.context("neither CARGO_HOME nor HOME is set")?.join("registry/src");
    let indexes: Vec<PathBuf> = fs::read_dir(&sources)
        .with_context(|| format!("cannot list {}", sources.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    let lock = fs::read_to_string(root().join("Cargo.lock"))?;
    let mut found = Vec::new();
    for package in lock.split("[[package]]") {
        let value = |key: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""))?;
            line.strip_suffix('"').map(str::to_owned)
        };
        let (Some(name), Some(version), Some(digest)) = (value("name"), value("version"), value("checksum")) else {
            continue;
        };
        let folder = format!("{name}-{version}");
        let folder = indexes.iter().map(|index| index.join(&folder)).find(|folder| folder.is_dir());
        let folder = folder.with_context(|| format!("{name} {version} is not unpacked: run `cargo fetch --locked`"))?;
        found.push(Published { folder, digest });
    }
    Ok(found)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;

    fn published(folder: &Path, name: &str, dependencies: &str) -> Published {
        let folder = folder.join(format!("{name}-0.1.0"));
        fs::create_dir_all(folder.join("src")).unwrap();
        fs::write(folder.join("src/lib.rs"), "").unwrap();
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[features]\nmore = []\n\n[dependencies]\n{dependencies}"
        );
        fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        Published { folder, digest: "0".repeat(64) }
    }

    #[test]
    fn a_program_resolves_against_the_crates_and_a_missing_crate_or_feature_is_named() {
        let home = tempfile::tempdir().unwrap();
        let a = || published(home.path(), "a", "b = { version = \"0.1.0\", features = [\"more\"] }\n");
        let b = || published(home.path(), "b", "");
        let resolved =
            |work: &str, crates: &[Published]| resolve(&home.path().join(work), &["a"], "0.1.0", crates, &[]);
        assert_eq!(resolved("whole", &[a(), b()]).unwrap(), 3);
        let missing = resolved("missing", &[a()]).unwrap_err().to_string();
        assert!(missing.contains("`b`"), "{missing}");
        let c = published(home.path(), "a", "b = { version = \"0.1.0\", features = [\"else\"] }\n");
        let feature = resolved("feature", &[c, b()]).unwrap_err().to_string();
        assert!(feature.contains("else"), "{feature}");
    }
}
