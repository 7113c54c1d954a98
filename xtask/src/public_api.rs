//! `cargo xtask public-api`: the public items of the embedding library, compared with the list that was reviewed.
//!
//! `cargo-public-api` prints one line for each item of the crate `opcell`, as rustdoc sees it with every feature.
//! The list is in `host/opcell/public-api.txt`: whoever changes the API sees each line of the change, and reviews it as a
//! promise. Rustdoc writes the JSON that the tool reads only with a switch that is not stable; the crates are built with
//! it into a folder of their own.

use crate::process::{self, cargo, output, root, run};
use anyhow::{Context as _, Result, bail};
use std::{collections::BTreeSet, fmt::Write as _, fs};

const LIST: &str = "host/opcell/public-api.txt";

/// The version of the tool that made the list: another one may write the same item in another way.
const VERSION: &str = "0.52.0";

/// Compares; `--save` writes the list instead.
pub fn public_api(rest: &[String]) -> Result<()> {
    let saves = match rest {
        [] => false,
        [save] if save == "--save" => true,
        _ => bail!("usage: cargo xtask public-api [--save]"),
    };
    let found = output(cargo().args(["public-api", "--version"])).unwrap_or_default();
    if found.trim().rsplit(' ').next() != Some(VERSION) {
        let install = format!("cargo install --locked cargo-public-api@{VERSION}");
        match found.trim() {
            "" => {
                eprintln!("public-api: SKIPPED, nothing was compared: cargo-public-api is not installed; `{install}`")
            }
            found => eprintln!("public-api: SKIPPED, nothing was compared: {found} is installed; `{install}`"),
        }
        return Ok(());
    }
    let folder = process::target_directory()?.join("public-api");
    let mut document = cargo();
    document
        .args(["rustdoc", "--locked", "--package", "opcell", "--lib", "--all-features", "--target-dir"])
        .arg(&folder);
    document.args(["--", "-Zunstable-options", "--output-format", "json"]);
    run(document.env("RUSTC_BOOTSTRAP", "1").current_dir(root()))?;
    let mut list = cargo();
    // Neither blanket and auto traits nor derived ones: those are most lines, and follow from the types.
    list.args(["public-api", "-sss", "--color", "never", "--rustdoc-json"]).arg(folder.join("doc/opcell.json"));
    let list = output(list.current_dir(root())).context("`cargo public-api` cannot read what rustdoc wrote")?;
    let path = root().join(LIST);
    if saves {
        fs::write(&path, &list)?;
        eprintln!("public-api: {} items in {LIST}", list.lines().count());
        return Ok(());
    }
    let reviewed = fs::read_to_string(&path).with_context(|| format!("cannot read {LIST}"))?;
    let changes = changes(&reviewed, &list);
    if !changes.is_empty() {
        bail!(
            "the public API is not the one that was reviewed:\n{changes}review each line, then `cargo xtask public-api \
             --save` and commit {LIST}"
        );
    }
    eprintln!("public-api: {} items, as reviewed", list.lines().count());
    Ok(())
}

/// The lines that only one of two lists has.
fn changes(reviewed: &str, found: &str) -> String {
    let (before, now): (BTreeSet<&str>, BTreeSet<&str>) = (reviewed.lines().collect(), found.lines().collect());
    let mut changes = String::new();
    for line in before.difference(&now) {
        let _ = writeln!(changes, "- {line}");
    }
    for line in now.difference(&before) {
        let _ = writeln!(changes, "+ {line}");
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::changes;

    #[test]
    fn a_changed_item_is_one_that_is_gone_and_one_that_is_new() {
        let (before, now) = ("pub fn a()\npub fn b()\n", "pub fn a()\npub fn b(u8)\n");
        assert_eq!(changes(before, now), "- pub fn b()\n+ pub fn b(u8)\n");
        assert_eq!(changes(now, now), "");
    }
}
