//! Python: componentize-py takes a snapshot of CPython after it has imported the plugin.

use crate::{
    AuthorError, Project,
    process::run_explained,
    template::{put, write_contract},
};
use opcell_types::files::Folder;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The module that is imported: the plugin's own, and what the component exports.
const ENTRY: &str = "opcell_entry";

/// Entries of a package that are looked at for native code.
const MAX_ENTRIES: usize = 20_000;

/// Makes a component of the interpreter and the plugin.
pub(super) fn componentize(project: &Project, tool: &Path, scratch: &Folder) -> Result<PathBuf, AuthorError> {
    let (wit, output) = (write_contract(scratch)?, scratch.path().join("plugin.wasm"));
    let module = project.source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let sources = project.source.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let sites = site_packages(&project.folder);
    // In the component, each folder has the number of its place as its name.
    let mut folders = vec![PathBuf::from("target/opcell/python"), sources.to_owned(), PathBuf::from("sdk")];
    folders.extend(sites.iter().cloned());
    let place = |(at, folder): (usize, &PathBuf)| (format!("/{at}/"), format!("{}/", folder.display()));
    let places: Vec<(String, String)> = folders.iter().enumerate().map(place).collect();
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let names: String =
        places.iter().map(|(mounted, name)| format!("    {}: {},\n", quoted(mounted), quoted(name))).collect();
    let file = quoted(&project.source.display().to_string());
    let entry = format!(
        "# What the component is made of; `opcell plugin build` writes it.\nimport importlib\n\nimport opcell\n\n\
         opcell._PLACES.update({{\n{names}}})\nimportlib.import_module({})\n\
         if not opcell._OPERATIONS and not opcell._JUDGES:\n    \
         raise SystemExit({file} + \" describes no plugin: write a function with @operation(\\\"NAME/OPERATION\\\")\")\n\n\
         Operations, Judges = opcell.Operations, opcell.Judges\n",
        quoted(&module),
    );
    put(scratch, &Path::new("python").join(format!("{ENTRY}.py")), entry.as_bytes())?;
    let mut command = Command::new(tool);
    command.current_dir(&project.folder).arg("-d").arg(wit).args(["-w", "plugin", "componentize", ENTRY]);
    for folder in &folders {
        command.arg("-p").arg(folder);
    }
    command.arg("-o").arg(&output);
    // The interpreter's memory becomes part of the component: the same source must give the same one.
    command.env("PYTHONHASHSEED", "0").env("PYTHONDONTWRITEBYTECODE", "1");
    let sites: Vec<PathBuf> = sites.iter().map(|site| project.folder.join(site)).collect();
    run_explained(&mut command, |messages| explained(messages, &places, &sites))?;
    Ok(output)
}

/// The package folders of the plugin's virtual environment, relative to its folder.
fn site_packages(folder: &Path) -> Vec<PathBuf> {
    let versions = fs::read_dir(folder.join(".venv/lib")).into_iter().flatten();
    let mut found: Vec<PathBuf> = versions
        .filter_map(|version| Some(Path::new(".venv/lib").join(version.ok()?.file_name()).join("site-packages")))
        .filter(|site| folder.join(site).is_dir())
        .collect();
    found.sort();
    found
}

/// The tool's messages with the names of the plugin's own files, without its own frames; and a line that helps.
fn explained(messages: &str, places: &[(String, String)], sites: &[PathBuf]) -> String {
    // The same error follows once more, and then the frames of the tool.
    let end = ["\nCaused by:", "\nStack backtrace:"].iter().filter_map(|mark| messages.find(mark)).min();
    let mut text = messages.get(..end.unwrap_or(messages.len())).unwrap_or_default().to_owned();
    // Its first lines are of the program that starts it.
    if let Some(start) = text.find("AssertionError: Traceback") {
        text = text.get(start + "AssertionError: ".len()..).unwrap_or_default().to_owned();
    }
    let native = native_package(&text, places, sites);
    for (mounted, name) in places {
        text = text.replace(&format!("File \"{mounted}"), &format!("File \"{name}"));
    }
    let mut text = text.trim_end().to_owned();
    if let Some(package) = native {
        text.push_str(&format!(
            "\nhelp: the package `{package}` has native code for this machine, which a component cannot run; use one of \
             pure Python"
        ));
    } else if let Some(module) = quoted_after(&text, "No module named '") {
        let package = module.split('.').next().unwrap_or(module);
        text.push_str(&format!(
            "\nhelp: packages are found in the plugin's own virtual environment: python3 -m venv .venv && \
             .venv/bin/pip install {package}"
        ));
    }
    text
}

/// The last package on the way to an error that has native code.
fn native_package(text: &str, places: &[(String, String)], sites: &[PathBuf]) -> Option<String> {
    let numbered = places.iter().map(|(mounted, _)| mounted).skip(places.len().saturating_sub(sites.len()));
    let mut candidates: Vec<(&PathBuf, &str)> = Vec::new();
    for (mounted, site) in numbered.zip(sites) {
        let mark = format!("File \"{mounted}");
        for after in text.split(mark.as_str()).skip(1) {
            candidates.extend(after.split(['/', '"']).next().map(|package| (site, package)));
        }
        let missing = quoted_after(text, "No module named '").and_then(|module| module.split('.').next());
        candidates.extend(missing.map(|package| (site, package)));
    }
    let found = candidates.into_iter().rev().find(|(site, package)| has_native_code(&site.join(package)));
    found.map(|(_, package)| package.to_owned())
}

fn quoted_after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.rsplit_once(mark).and_then(|(_, after)| after.split('\'').next())
}

/// Returns `true` if a package's folder has libraries of the machine.
fn has_native_code(package: &Path) -> bool {
    let (mut pending, mut seen) = (vec![package.to_owned()], 0);
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            seen += 1;
            let path = entry.path();
            if path.extension().is_some_and(|kind| kind == "so" || kind == "pyd" || kind == "dylib") {
                return true;
            }
            if seen > MAX_ENTRIES {
                return false;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                pending.push(path);
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(site: &str) -> Vec<(String, String)> {
        let of = |mounted: &str, name: &str| (mounted.to_owned(), name.to_owned());
        vec![of("/0/", "target/opcell/python/"), of("/1/", "src/"), of("/2/", "sdk/"), of("/3/", site)]
    }

    const SAID: &str = "Traceback (most recent call last):\n  File \"/usr/bin/componentize-py\", line 8\nAssertionError: \
                        Traceback (most recent call last):\n  File \"/1/plugin.py\", line 2, in <module>\n    import x\n\
                        ModuleNotFoundError: No module named 'geo.inner'\n\n\nCaused by:\n    again\nStack backtrace:\n 0: f\n";

    #[test]
    fn a_failed_import_names_the_plugin_s_own_file_and_how_to_install_what_is_missing() {
        let text = explained(SAID, &places(".venv/lib/python3.14/site-packages/"), &[PathBuf::from("/nowhere")]);
        assert!(text.starts_with("Traceback (most recent call last):\n  File \"src/plugin.py\", line 2"), "{text}");
        assert!(text.ends_with("pip install geo") && !text.contains("backtrace"), "{text}");
    }

    #[test]
    fn a_package_with_native_code_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        let package = scratch.path().join("geo/core");
        fs::create_dir_all(&package).unwrap();
        fs::write(package.join("fast.so"), "").unwrap();
        let text = explained(SAID, &places("site/"), &[scratch.path().to_owned()]);
        assert!(text.contains("the package `geo` has native code"), "{text}");
    }
}
