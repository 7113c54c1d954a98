//! The example plugins as layouts, each with its bill of materials and its signature.

use super::{Made, Release, registry::Registry, sha256};
use crate::{guests, process::root};
use anyhow::{Context as _, Result, anyhow, ensure};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The key of a release for which no other key was named.
const KEY: &str = "release";

/// Builds the plugins, and has the command push them to a registry on loopback.
pub fn pack(release: &Release) -> Result<Made> {
    guests::build()?;
    let home = Home::new("plugins")?;
    let opcell = |arguments: &[&str]| {
        let mut command = Command::new(release.binary()?);
        command.args(arguments).current_dir(&home.0);
        // A key that was named is in the home of the person who releases.
        if release.key.is_none() {
            command.env("HOME", &home.0);
            for variable in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"] {
                command.env_remove(variable);
            }
        }
        said(&mut command)
    };
    let name = release.key.as_deref().unwrap_or(KEY);
    if release.key.is_none() {
        eprintln!("plugins: no --key: a new key signs them and is deleted afterwards");
        opcell(&["key", "new", KEY])?;
    }
    let listed: serde_json::Value = serde_json::from_str(&opcell(&["key", "list", "--json"])?)?;
    let public =
        public_half(&listed, name).with_context(|| format!("there is no key {name:?}: opcell key new {name}"))?;

    let registry = Registry::start(BTreeMap::new())?;
    let lock = fs::read_to_string(root().join("example-operations/Cargo.lock"))?;
    for component in components()? {
        let plugin = component.file_stem().and_then(|stem| stem.to_str()).context("a plugin without a name")?;
        let bill =
            opcell_author::sbom::of_cargo_lock(plugin, release.version(), &sha256(&fs::read(&component)?), &lock);
        let file = home.0.join("bill.json");
        fs::write(&file, bill.map_err(|error| anyhow!(error))?)?;
        let reference = registry.reference(plugin, release.version());
        let (component, file) = (component.display().to_string(), file.display().to_string());
        opcell(&["plugin", "push", &reference, &component, "--key", name, "--sbom", &file])?;
    }

    let folder = release.out.join("plugins");
    fs::create_dir_all(&folder)?;
    let mut files = Vec::new();
    for (plugin, layout) in registry.take() {
        let file = folder.join(format!("{plugin}-{}.oci.tar", release.version()));
        fs::write(&file, layout.archive()?)?;
        files.push(file);
    }
    let publisher = folder.join("PUBLISHER");
    fs::write(&publisher, format!("{public}\n"))?;
    files.push(publisher);
    Ok(Made::Files(files))
}

fn components() -> Result<Vec<PathBuf>> {
    let folder = root().join("example-operations/dist");
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "wasm"));
    ensure!(!files.is_empty(), "{} has no components", folder.display());
    files.sort();
    Ok(files)
}

/// Finds the key with a name in the output of `opcell key list --json`.
fn public_half(listed: &serde_json::Value, name: &str) -> Option<String> {
    let keys = listed.get("keys").unwrap_or(listed).as_array()?;
    let key = keys.iter().find(|key| key.get("name").is_some_and(|found| found == name))?;
    Some(key.get("public")?.as_str()?.to_owned())
}

/// Runs a command; returns what it printed, or an error with what it complained about.
pub fn said(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}");
    let output =
        command.stdin(std::process::Stdio::null()).output().with_context(|| format!("cannot start {shown}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{shown} ended with {}: {}", output.status, complaint.trim());
    Ok(String::from_utf8(output.stdout)?)
}

/// An empty folder, removed when it is dropped.
pub struct Home(pub PathBuf);

impl Home {
    /// Makes one.
    pub fn new(name: &str) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("opcell-release-{name}-{}", std::process::id()));
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self(folder))
    }

    /// Returns a path in it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Whatever is left is in the system's folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}
