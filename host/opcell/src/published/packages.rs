//! Packages of npm and PyPI: their names and versions, and the file that starts an installed package of npm.

use super::{MAX_DOCUMENT_BYTES, values::plain};
use opcell_types::files::read_text_bounded;
use std::path::{Component, Path};

/// The file of an installed npm package that starts it, below the folder that it was installed in.
///
/// # Errors
/// With a sentence about the package.
pub fn program_of(folder: &Path, install: &str) -> Result<String, String> {
    let name = install.rsplit_once('@').map_or(install, |(name, _)| name);
    let package = format!("node_modules/{name}");
    let text = read_text_bounded(&folder.join(&package).join("package.json"), MAX_DOCUMENT_BYTES as u64);
    let text = text.map_err(|error| format!("the package `{name}` cannot be read: {error}"))?;
    let json: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("the package `{name}` cannot be read: {error}"))?;
    let short = name.rsplit('/').next().unwrap_or(name);
    let bin = match json.get("bin") {
        Some(serde_json::Value::String(file)) => Some(file.as_str()),
        Some(serde_json::Value::Object(files)) => {
            let only = files.values().next().filter(|_| files.len() == 1);
            files.get(short).or(only).and_then(serde_json::Value::as_str)
        }
        _ => None,
    };
    let file = bin.ok_or_else(|| format!("the package `{name}` names no program, or several"))?;
    let file = plain(file.trim_start_matches("./").to_owned(), "bin")?;
    let is_below = Path::new(&file).components().all(|part| matches!(part, Component::Normal(_)));
    if is_below { Ok(format!("{package}/{file}")) } else { Err(format!("the program of `{name}` is outside of it")) }
}

/// Returns `true` for a name that no package manager takes for an option, a path or an address.
pub(super) fn is_package(name: &str, is_npm: bool) -> bool {
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
    };
    if name.len() > 214 {
        return false;
    }
    match name.strip_prefix('@').filter(|_| is_npm) {
        Some(scoped) => scoped.split_once('/').is_some_and(|(scope, name)| is_part(scope) && is_part(name)),
        None => is_part(name),
    }
}

/// Returns `true` for one version, and not for a range or a tag.
pub(super) fn is_exact(version: &str) -> bool {
    let has_wildcard = version.split(['.', '-', '+']).any(|part| matches!(part, "x" | "X" | "*"));
    is_version(version) && version.contains('.') && !has_wildcard
}

pub(super) fn is_version(version: &str) -> bool {
    version.len() <= 100
        && version.starts_with(|c: char| c.is_ascii_digit())
        && version.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_' | '!'))
}
