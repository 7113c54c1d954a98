//! `cargo xtask prose`: English as the glossary wants it, counted crate by crate. A count may only shrink.
//!
//! Three things are counted: doc comments that begin with a clause (`What …`, `Whether …`), names with a word that the
//! glossary rules out, and texts with one. The ceilings are in `xtask/prose.json`.

use crate::process::root;
use anyhow::{Context as _, Result, bail};
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

const CEILINGS: &str = "xtask/prose.json";

/// Doc comments that begin with a clause, of a hundred, in a crate that has no ceiling.
const NEW_CRATE_PERCENT: usize = 4;

/// The counts of a crate, or of the pages of documentation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Counts {
    /// Doc comments that begin with What, Whether, How, Where, Which or Who.
    clauses: usize,
    /// Declared names with a word that is ruled out in names.
    names: usize,
    /// Comments and pages with a word that is ruled out in texts, by line.
    texts: usize,
}

/// Compares with the ceilings. `--save` lowers them, `--list CRATE` prints each place.
pub fn prose(rest: &[String]) -> Result<()> {
    let rules = Rules::of(&fs::read_to_string(root().join("docs/glossary.md"))?)?;
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    let listed = match rest.as_slice() {
        [] | ["--save"] => None,
        ["--list", name] => Some(*name),
        _ => bail!("usage: cargo xtask prose [--save | --list CRATE]"),
    };
    let mut found = BTreeMap::new();
    for (name, files) in crates()? {
        let mut places = Vec::new();
        let mut comments = 0;
        let counts = files.iter().try_fold(Counts::default(), |mut counts, file| -> Result<Counts> {
            let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            let shown = file.strip_prefix(root()).unwrap_or(file).display().to_string();
            comments += rules.count(&text, &shown, &mut counts, &mut places);
            Ok(counts)
        })?;
        if listed == Some(name.as_str()) {
            places.iter().for_each(|place| println!("{place}"));
        }
        found.insert(name, (counts, comments));
    }
    if listed.is_some() {
        return Ok(());
    }
    let path = root().join(CEILINGS);
    let ceilings: BTreeMap<String, Counts> = match fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text).with_context(|| format!("{CEILINGS} cannot be read"))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
        Err(error) => return Err(error.into()),
    };
    let grown = grown(&found, &ceilings);
    let begins_anew = rest == ["--save"] && ceilings.is_empty();
    if !grown.is_empty() && !begins_anew {
        bail!(
            "{}\n`cargo xtask prose --list CRATE` prints each place; docs/glossary.md, *Style*, says how to write it",
            grown.trim_end()
        );
    }
    if rest == ["--save"] {
        let lowered: BTreeMap<&String, Counts> = found.iter().map(|(name, (counts, _))| (name, *counts)).collect();
        fs::write(&path, format!("{:#}\n", serde_json::json!(lowered)))?;
    }
    let sum = |of: fn(&Counts) -> usize| found.values().map(|(counts, _)| of(counts)).sum::<usize>();
    eprintln!(
        "prose: {} of {} doc comments begin with a clause; {} names and {} texts have a word that is ruled out",
        sum(|counts| counts.clauses),
        found.values().map(|(_, comments)| comments).sum::<usize>(),
        sum(|counts| counts.names),
        sum(|counts| counts.texts)
    );
    Ok(())
}

/// The counts that are above their ceilings, a line each.
fn grown(found: &BTreeMap<String, (Counts, usize)>, ceilings: &BTreeMap<String, Counts>) -> String {
    let mut grown = String::new();
    for (name, (counts, comments)) in found {
        let new = Counts { clauses: comments * NEW_CRATE_PERCENT / 100, names: 0, texts: 0 };
        let ceiling = ceilings.get(name).copied().unwrap_or(new);
        for (what, count, ceiling) in [
            ("doc comments that begin with a clause", counts.clauses, ceiling.clauses),
            ("names with a word that is ruled out", counts.names, ceiling.names),
            ("texts with a word that is ruled out", counts.texts, ceiling.texts),
        ] {
            if count > ceiling {
                let _ = writeln!(grown, "{name}: {count} {what}, at most {ceiling} are allowed");
            }
        }
    }
    grown
}

/// The rules by which texts are counted.
struct Rules {
    names: Vec<String>,
    texts: Vec<Regex>,
    clause: Regex,
    declared: Regex,
}

impl Rules {
    /// The words that the glossary rules out.
    fn of(glossary: &str) -> Result<Self> {
        let words = |start: &str| -> Result<Vec<String>> {
            let (_, list) = glossary.split_once(start).with_context(|| format!("docs/glossary.md has no `{start}`"))?;
            let list = list.split("\n- ").next().unwrap_or(list);
            let words: Vec<String> = list.split('`').skip(1).step_by(2).map(str::to_owned).collect();
            if words.is_empty() {
                bail!("docs/glossary.md names no word after `{start}`")
            }
            Ok(words)
        };
        let texts = words("Ruled out in texts:")?;
        let texts = texts.iter().map(|word| Regex::new(&format!(r"(?i)\b{}\b", regex::escape(word))));
        Ok(Self {
            names: words("Ruled out in names:")?,
            texts: texts.collect::<Result<_, _>>()?,
            clause: Regex::new(r"^(?:What|Whether|How|Where|Which|Who)\b")?,
            declared: Regex::new(r"\b(?:fn|struct|enum|trait|type|const|static|mod)\s+([A-Za-z_]\w*)")?,
        })
    }

    /// Counts one file, and returns the number of its doc comments.
    fn count(&self, text: &str, file: &str, counts: &mut Counts, places: &mut Vec<String>) -> usize {
        let (mut comments, mut in_comment, mut in_block) = (0, false, false);
        let is_page = file.ends_with(".md");
        for (number, line) in text.lines().enumerate() {
            let trimmed = line.trim_start();
            let mut place = |what: &str| places.push(format!("{file}:{}: {what}: {}", number + 1, trimmed.trim_end()));
            if is_page && trimmed.starts_with("```") {
                in_block = !in_block;
                continue;
            }
            let doc = trimmed.strip_prefix("///").or_else(|| trimmed.strip_prefix("//!"));
            if let Some(doc) = doc.filter(|_| !in_comment && !is_page) {
                comments += 1;
                if self.clause.is_match(doc.trim_start()) {
                    counts.clauses += 1;
                    place("clause");
                }
            }
            in_comment = doc.is_some();
            // The words are quoted where they are ruled out.
            let is_text = if is_page { !in_block && !file.ends_with("glossary.md") } else { trimmed.starts_with("//") };
            if is_text && self.texts.iter().any(|word| word.is_match(line)) {
                counts.texts += 1;
                place("text");
            }
            if is_page || trimmed.starts_with("//") {
                continue;
            }
            for name in self.declared.captures_iter(line).filter_map(|found| found.get(1)) {
                if words(name.as_str()).iter().any(|word| self.names.contains(word)) {
                    counts.names += 1;
                    place("name");
                }
            }
        }
        comments
    }
}

/// The words of a name in snake case, camel case or capitals.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let is_camel = name.chars().any(char::is_lowercase);
    for c in name.chars() {
        if c == '_' || (is_camel && c.is_uppercase()) {
            words.push(String::new());
        }
        if c != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The Rust files of each crate, and the pages of documentation as one more.
fn crates() -> Result<BTreeMap<String, Vec<PathBuf>>> {
    let mut crates: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for folder in ["host", "bindings", "tests", "benches", "xtask", "guest-sdk"] {
        let folder = root().join(folder);
        if folder.join("Cargo.toml").is_file() {
            crates.insert(shown(&folder), files(&folder, "rs")?);
            continue;
        }
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.join("Cargo.toml").is_file() {
                crates.insert(shown(&path), files(&path, "rs")?);
            }
        }
    }
    crates.insert("docs".to_owned(), files(&root().join("docs"), "md")?);
    Ok(crates)
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// The files of this kind below a folder, without what is built.
fn files(folder: &Path, kind: &str) -> Result<Vec<PathBuf>> {
    let (mut open, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let (path, is_folder) = (entry.path(), entry.file_type()?.is_dir());
            let name = entry.file_name();
            if is_folder && !["target", "node_modules", "dist", "schemas"].iter().any(|built| name == *built) {
                open.push(path);
            } else if !is_folder && path.extension().is_some_and(|extension| extension == kind) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLOSSARY: &str =
        "- Ruled out in names: `ending`, `talk`.\n- Ruled out in texts: `nobody`, `for ever`.\n- Else.\n";

    fn counted(text: &str, file: &str) -> (Counts, usize) {
        let mut counts = Counts::default();
        let comments = Rules::of(GLOSSARY).unwrap().count(text, file, &mut counts, &mut Vec::new());
        (counts, comments)
    }

    #[test]
    fn clauses_names_and_texts_are_counted_where_they_are() {
        let text = "/// Whether it runs.\n/// What follows is one comment.\nfn is_running() {}\n/// Returns the talk.\nstruct FirstTalk;\n// Kept for ever.\nconst ENDING: u8 = 1;\nlet ending = \"nobody\";\n";
        assert_eq!(counted(text, "a.rs"), (Counts { clauses: 1, names: 2, texts: 1 }, 2));
        let page = "Nobody waits.\n```console\n$ echo nobody\n```\n";
        assert_eq!(counted(page, "a.md").0, Counts { clauses: 0, names: 0, texts: 1 });
    }

    #[test]
    fn a_count_may_shrink_and_not_grow_and_a_new_crate_begins_low() {
        let counts = |clauses| Counts { clauses, names: 0, texts: 0 };
        let ceilings = BTreeMap::from([("a".to_owned(), counts(3))]);
        let found = |name: &str, clauses| BTreeMap::from([(name.to_owned(), (counts(clauses), 100))]);
        assert_eq!(grown(&found("a", 2), &ceilings), "");
        assert!(grown(&found("a", 4), &ceilings).starts_with("a: 4 doc comments"));
        assert_eq!(grown(&found("b", 4), &ceilings), "");
        assert!(grown(&found("b", 5), &ceilings).contains("at most 4"));
    }

    #[test]
    fn a_name_is_read_word_by_word() {
        assert_eq!(words("HTTPEnding"), ["h", "t", "t", "p", "ending"]);
        assert_eq!(words("MAX_ENDING"), ["max", "ending"]);
        assert_eq!(words("file_ending"), ["file", "ending"]);
    }

    #[test]
    fn the_glossary_names_the_words_that_are_ruled_out() {
        let glossary = fs::read_to_string(root().join("docs/glossary.md")).unwrap();
        let rules = Rules::of(&glossary).unwrap();
        assert!(rules.names.len() > 5 && rules.texts.len() > 5);
    }
}
