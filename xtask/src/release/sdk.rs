//! Packages for authors of plugins and for programs in other languages, and the book.

use super::{
    Made, Release,
    plugins::said,
    tar::{Tar, gzip},
};
use crate::{
    bindings, book,
    process::{output, root, target_directory},
};
use anyhow::{Context as _, Result};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Packs the SDKs of JavaScript, Python and C.
pub fn pack(release: &Release) -> Result<Made> {
    let version = release.version();
    let archives = [
        (format!("opcell-sdk-{version}.tgz"), javascript(version)?),
        (format!("opcell_sdk-{version}.tar.gz"), python(version)?),
        (format!("opcell-sdk-c-{version}.tar.gz"), c(version)?),
    ];
    let mut files = Vec::new();
    for (name, archive) in archives {
        let file = release.out.join(name);
        fs::write(&file, gzip(&archive.finish())?)?;
        files.push(file);
    }
    Ok(Made::Files(files))
}

/// The package of npm: the files that its `package.json` lists.
fn javascript(version: &str) -> Result<Tar> {
    let folder = root().join("guest-sdk/javascript");
    let manifest: Value = serde_json::from_slice(&fs::read(folder.join("package.json"))?)?;
    same_version(&folder.join("package.json"), manifest.get("version").and_then(Value::as_str), version)?;
    let mut archive = Tar::default();
    archive.copy("package/package.json", &folder.join("package.json"))?;
    archive.copy("package/README.md", &folder.join("README.md"))?;
    archive.copy("package/LICENSE", &root().join("LICENSE"))?;
    for file in manifest.get("files").and_then(Value::as_array).context("package.json has no `files`")? {
        let file = file.as_str().context("expected names in `files` of package.json")?;
        archive.copy(&format!("package/{file}"), &folder.join(file))?;
    }
    Ok(archive)
}

/// The source archive of Python, with the metadata of its `pyproject.toml`.
fn python(version: &str) -> Result<Tar> {
    let folder = root().join("guest-sdk/python");
    let project = fs::read_to_string(folder.join("pyproject.toml"))?;
    let value = |key: &str| {
        let line = project.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"'));
        line.with_context(|| format!("{}/pyproject.toml has no `{key}`", folder.display()))
    };
    same_version(&folder.join("pyproject.toml"), Some(value("version")?), version)?;
    let about = format!(
        "Metadata-Version: 2.4\nName: {}\nVersion: {version}\nSummary: {}\nLicense-Expression: {}\nLicense-File: LICENSE\n\
         Requires-Python: {}\nDescription-Content-Type: text/markdown\n\n{}",
        value("name")?,
        value("description")?,
        value("license")?,
        value("requires-python")?,
        fs::read_to_string(folder.join("README.md"))?
    );
    let top = format!("{}-{version}", value("name")?.replace('-', "_"));
    let mut archive = Tar::default();
    archive.file(&format!("{top}/PKG-INFO"), 0o644, about.as_bytes())?;
    archive.copy(&format!("{top}/pyproject.toml"), &folder.join("pyproject.toml"))?;
    archive.copy(&format!("{top}/README.md"), &folder.join("README.md"))?;
    archive.copy(&format!("{top}/LICENSE"), &root().join("LICENSE"))?;
    for file in sources(&folder.join("opcell"), &["py", "typed"])? {
        let name = file.file_name().and_then(|name| name.to_str()).context("a file without a name")?;
        archive.copy(&format!("{top}/opcell/{name}"), &file)?;
    }
    Ok(archive)
}

/// Header, source, and the contract that both follow.
fn c(version: &str) -> Result<Tar> {
    let top = format!("opcell-sdk-c-{version}");
    let mut archive = Tar::default();
    archive.copy(&format!("{top}/LICENSE"), &root().join("LICENSE"))?;
    archive.copy_all(&top, &root().join("guest-sdk/c"))?;
    archive.copy_all(&format!("{top}/wit"), &root().join("wit"))?;
    Ok(archive)
}

/// Returns the files of a folder with one of these extensions, sorted by name.
fn sources(folder: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    let extension = |file: &PathBuf| file.extension().and_then(|extension| extension.to_str()).map(str::to_owned);
    files.retain(|file| extension(file).is_some_and(|extension| extensions.contains(&extension.as_str())));
    files.sort();
    Ok(files)
}

fn same_version(file: &Path, found: Option<&str>, expected: &str) -> Result<()> {
    anyhow::ensure!(found == Some(expected), "{} has the version {found:?}, expected {expected:?}", file.display());
    Ok(())
}

/// Builds the wheel of the Python package: in a trial, an unoptimised one.
pub fn wheel(release: &Release) -> Result<Made> {
    binding(release, "python", "wheels", "whl")
}

/// Builds the npm package: in a trial, an unoptimised one.
pub fn npm(release: &Release) -> Result<Made> {
    if output(Command::new("npm").arg("--version")).is_none() {
        return Ok(Made::Skipped("npm is missing: it is a part of Node.js, https://nodejs.org".to_owned()));
    }
    binding(release, "node", "npm", "tgz")
}

/// Builds the package for a language, and copies its files of this extension.
fn binding(release: &Release, language: &str, folder: &str, extension: &str) -> Result<Made> {
    let profile = if release.is_trial() { None } else { Some("--release") };
    let arguments: Vec<String> = ["--only", language].into_iter().chain(profile).map(str::to_owned).collect();
    bindings::bindings(&arguments)?;
    let mut files = Vec::new();
    for built in sources(&target_directory()?.join("bindings").join(folder), &[extension])? {
        let file = release.out.join(built.file_name().context("a package without a name")?);
        fs::copy(&built, &file)?;
        files.push(file);
    }
    Ok(Made::Files(files))
}

/// Packs the book as HTML.
pub fn book(release: &Release) -> Result<Made> {
    if output(Command::new("mdbook").arg("--version")).is_none() {
        return Ok(Made::Skipped("mdbook is missing: cargo install --locked mdbook@0.5.4".to_owned()));
    }
    book::book(&[])?;
    let mut archive = Tar::default();
    archive.copy_all(&format!("opcell-book-{}", release.version()), &root().join("target/book"))?;
    let file = release.out.join(format!("opcell-book-{}.tar.gz", release.version()));
    fs::write(&file, gzip(&archive.finish())?)?;
    Ok(Made::Files(vec![file]))
}

/// Unpacks an archive into a folder.
pub fn unpack(archive: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    said(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(folder)).map(drop)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;

    fn names(archive: Tar) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.tar");
        fs::write(&file, archive.finish()).unwrap();
        let listed = said(Command::new("tar").arg("-tf").arg(&file)).unwrap();
        listed.lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_sdks_have_their_sources_and_their_licence_and_nothing_of_a_build() {
        let version = env!("CARGO_PKG_VERSION");
        let javascript = names(javascript(version).unwrap());
        for file in ["package.json", "LICENSE", "README.md", "opcell.js", "opcell.d.ts", "runtime.js"] {
            assert!(javascript.contains(&format!("package/{file}")), "{javascript:?}");
        }
        let python = names(python(version).unwrap());
        for file in ["PKG-INFO", "pyproject.toml", "LICENSE", "opcell/__init__.py", "opcell/py.typed"] {
            assert!(python.contains(&format!("opcell_sdk-{version}/{file}")), "{python:?}");
        }
        assert!(python.iter().all(|name| !name.contains("__pycache__")), "{python:?}");
        let c = names(c(version).unwrap());
        assert!(
            c.iter().any(|name| name.ends_with("/opcell.h")) && c.iter().any(|name| name.ends_with(".wit")),
            "{c:?}"
        );
    }

    #[test]
    fn an_sdk_of_another_version_is_refused() {
        let refused = javascript("9.9.9").map(drop).unwrap_err().to_string();
        assert!(refused.contains("package.json has the version") && refused.contains("9.9.9"), "{refused}");
    }
}
