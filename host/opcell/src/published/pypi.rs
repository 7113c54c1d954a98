//! Installed packages of PyPI: what stands for exactly their files, and the program that starts one.

use super::{
    MAX_DOCUMENT_BYTES, SHOWN_BYTES,
    packages::{is_package, is_version},
};
use opcell_types::{files::read_text_bounded, text::one_line};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// The folder of packages of PyPI, in the folder of their server.
pub const SITE: &str = "site";

/// Bytes of the report of what `pip` installed, and packages in it.
const MAX_REPORT_BYTES: u64 = 64 << 20;
const MAX_PACKAGES: usize = 1_000;

/// The requirements that stand for exactly the files that `pip` installed, with their digests: the lock file of a
/// package of PyPI. `report` is the file that `pip install --report` writes.
///
/// # Errors
/// With a sentence about the report.
pub fn requirements_of(report: &Path) -> Result<String, String> {
    let text = read_text_bounded(report, MAX_REPORT_BYTES)
        .map_err(|error| format!("the report of `pip` cannot be read: {error}"))?;
    let json: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("the report of `pip` cannot be read: {error}"))?;
    let packages = json.get("install").and_then(serde_json::Value::as_array);
    let packages = packages.filter(|packages| (1..=MAX_PACKAGES).contains(&packages.len()));
    let packages =
        packages.ok_or_else(|| format!("the report of `pip` names no package, or more than {MAX_PACKAGES}"))?;
    let mut lines = BTreeSet::new();
    for package in packages {
        let text = |pointer: &str| package.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default();
        let (name, version) = (text("/metadata/name"), text("/metadata/version"));
        let digest = text("/download_info/archive_info/hashes/sha256");
        if !is_package(name, false) || !is_version(version) || !is_sha256(digest) {
            let name = one_line(name, SHOWN_BYTES);
            return Err(format!("the report of `pip` has no version or no digest of the package `{name}`"));
        }
        lines.insert(format!("{name}=={version} --hash=sha256:{digest}\n"));
    }
    Ok(lines.into_iter().collect())
}

fn is_sha256(digest: &str) -> bool {
    digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A Python program that starts an installed package of PyPI, whose packages are in the folder `site` beside it.
/// `install` is the package as `NAME==VERSION`.
///
/// # Errors
/// With a sentence about the package.
pub fn starter_of(site: &Path, install: &str) -> Result<String, String> {
    let name = install.split("==").next().unwrap_or(install);
    let cannot = |error: &dyn std::fmt::Display| format!("the package `{name}` cannot be read: {error}");
    let folders = std::fs::read_dir(site).map_err(|error| cannot(&error))?;
    let about = folders
        .filter_map(|folder| folder.ok()?.file_name().into_string().ok())
        .find(|folder| {
            let package = folder.strip_suffix(".dist-info").and_then(|package| package.split_once('-'));
            package.is_some_and(|(package, _)| normal(package) == normal(name))
        })
        .ok_or_else(|| cannot(&"it is not among what was installed"))?;
    let file = site.join(about).join("entry_points.txt");
    let text = match read_text_bounded(&file, MAX_DOCUMENT_BYTES as u64) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read.map_err(|error| cannot(&error))?,
    };
    let mut programs = BTreeMap::new();
    let mut is_of_programs = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            is_of_programs = line == "[console_scripts]";
        } else if let Some((program, target)) = line.split_once('=').filter(|_| is_of_programs) {
            programs.insert(normal(program.trim()), target.split('[').next().unwrap_or(target).trim().to_owned());
        }
    }
    let only = programs.values().next().filter(|_| programs.len() == 1);
    let target = programs.get(&normal(name)).or(only);
    let target = target.ok_or_else(|| format!("the package `{name}` names no program, or several"))?;
    let is_path = |path: &str| {
        path.split('.').all(|part| {
            part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
    };
    let named = target.split_once(':').map(|(module, function)| (module.trim(), function.trim()));
    let Some((module, function)) = named.filter(|(module, function)| is_path(module) && is_path(function)) else {
        return Err(format!("the program of `{name}` is not a function of a module"));
    };
    Ok(format!(
        "# Starts {install}; written by Opcell.\nimport importlib\nimport os\nimport sys\n\n\
         sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), \"{SITE}\"))\n\
         start = importlib.import_module(\"{module}\")\n\
         for name in \"{function}\".split(\".\"):\n    start = getattr(start, name)\nsys.exit(start())\n"
    ))
}

/// A name of PyPI as all its spellings have it.
fn normal(name: &str) -> String {
    let parts: Vec<&str> = name.split(['-', '_', '.']).filter(|part| !part.is_empty()).collect();
    parts.join("-").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};

    #[test]
    fn a_package_of_pypi_is_started_by_the_function_that_it_names() {
        let folder = tempfile::tempdir().unwrap();
        let about = folder.path().join("We_ather.Server-2.0.dist-info");
        std::fs::create_dir(&about).unwrap();
        std::fs::create_dir(folder.path().join("we_ather_server_extras-1.0.dist-info")).unwrap();
        let of = |text: &str| {
            std::fs::write(about.join("entry_points.txt"), text).unwrap();
            starter_of(folder.path(), "we-ather-server==2.0")
        };
        let several = "[gui_scripts]\nother = bad:main\n[console_scripts]\nx = y:z\nwe_ather-server = weather.cli : app.main [fast]\n";
        let starter = of(several).unwrap();
        assert!(
            starter.contains("import_module(\"weather.cli\")") && starter.contains("\"app.main\".split"),
            "{starter}"
        );
        assert!(of("[console_scripts]\nonly = weather:main\n").unwrap().contains("\"weather\""));
        for (text, sentence) in [
            ("", "names no program"),
            ("[console_scripts]\na = x:y\nb = x:z\n", "or several"),
            ("[console_scripts]\na = os;evil:main\n", "not a function"),
            ("[console_scripts]\na = weather\n", "not a function"),
            ("[console_scripts]\na = weather:main()\n", "not a function"),
        ] {
            assert!(of(text).unwrap_err().contains(sentence), "{text}");
        }
        assert!(starter_of(folder.path(), "absent==1.0").unwrap_err().contains("not among"));
    }

    #[test]
    fn the_requirements_have_the_version_and_the_digest_of_each_package() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("report.json");
        let of = |packages: Json| {
            std::fs::write(&file, json!({"version": "1", "install": packages}).to_string()).unwrap();
            requirements_of(&file)
        };
        let package = |name: &str, digest: &str| {
            json!({"metadata": {"name": name, "version": "1.0"},
                "download_info": {"archive_info": {"hashes": {"sha256": digest}}}})
        };
        let digest = "0a".repeat(32);
        let lines = of(json!([package("weather", &digest), package("anyio", &digest)])).unwrap();
        assert_eq!(lines, format!("anyio==1.0 --hash=sha256:{digest}\nweather==1.0 --hash=sha256:{digest}\n"));
        for packages in [json!([]), json!([package("weather", "")]), json!([package("a\nb", &digest)]), json!(7)] {
            assert!(of(packages.clone()).is_err(), "{packages}");
        }
        assert!(requirements_of(&folder.path().join("absent")).unwrap_err().contains("cannot be read"));
    }
}
