//! `docs/errors.md` has every code that the program can give, with what it says: read from the source, so that none is
//! left out. `SNAPSHOTS=overwrite cargo test -p opcell-tests --test error_codes` writes it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test")]

use regex::Regex;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

/// The codes of one kind, each with the texts that it comes with.
type Codes = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// The sources of the host, without their tests.
fn sources() -> Vec<String> {
    let (mut open, mut found) = (vec![root().join("host")], Vec::new());
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
            if path.is_dir() && !["tests", "examples", "target"].contains(&name.as_str()) {
                open.push(path);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                let text = fs::read_to_string(path).unwrap();
                found.push(text.split("\n#[cfg(test)]\nmod tests {").next().unwrap().to_owned());
            }
        }
    }
    found
}

/// A text of the source as people read it, what is put in as `…`.
fn said(literal: &str) -> String {
    let joined = Regex::new(r"\\\n\s*").unwrap().replace_all(literal, "").replace("\\\"", "\"").replace("\\n", " ");
    let filled = Regex::new(r"\{[^{}]*\}").unwrap().replace_all(&joined, "…").replace("{{", "{").replace("}}", "}");
    filled.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// Calls that are given a code, and then a text.
fn of_calls(call: &str, sources: &[String]) -> Codes {
    let code = Regex::new(&format!(r#"{call}\(\s*(?:StatusCode::\w+,\s*)?"([a-z][a-z0-9-]+)",\s*"#)).unwrap();
    let text = Regex::new(r#"^(?:format!\(\s*)?"((?:[^"\\]|\\[\s\S])*)""#).unwrap();
    let name = Regex::new(r"^&?(\w+)").unwrap();
    let mut found = Codes::new();
    for source in sources {
        for call in code.captures_iter(source) {
            let texts = found.entry(call[1].to_owned()).or_default();
            let (before, after) = source.split_at(call.get(0).unwrap().end());
            if let Some(literal) = text.captures(after) {
                texts.insert(said(&literal[1]));
            } else if let Some(name) = name.captures(after) {
                texts.extend(named(before, &name[1]));
            }
        }
    }
    found
}

/// The text that a name was given last: `let name = "…"`, `let name = format!("…")`, or one of several.
fn named(before: &str, name: &str) -> Vec<String> {
    // In the same function.
    let start = Regex::new(r"\n *(?:pub(?:\([a-z]+\))? )?(?:async )?fn ").unwrap().find_iter(before).last();
    let before = &before[start.map_or(0, |start| start.end())..];
    let Some((_, given)) = before.rsplit_once(&format!("let {name} = ")) else { return Vec::new() };
    let given = given.split("\n    }\n").next().unwrap_or(given);
    let end = given.find(";\n").unwrap_or(given.len());
    let text = Regex::new(r#"(?:format!\(\s*|=> |else \{\s*|if [^\{]*\{\s*|^)"((?:[^"\\]|\\[\s\S])*)""#).unwrap();
    text.captures_iter(&given[..end]).map(|literal| said(&literal[1])).collect()
}

/// Errors that name their own kind: what `kind` gives for each variant, with the text above the variant.
fn of_kinds(sources: &[String]) -> Codes {
    let kind = Regex::new(
        r#"Self::(\w+)(?:\s*\{[^}]*\}|\s*\([^)]*\))?(?:\s*\|\s*Self::\w+[^=]*)?\s*=>\s*"([a-z][a-z0-9-]+)""#,
    )
    .unwrap();
    let text = Regex::new(r##"#\[error\(\s*"((?:[^"\\]|\\[\s\S])*)"[\s\S]*?\]\s*\n\s*(\w+)\s*[\{\(,]"##).unwrap();
    let mut found = Codes::new();
    for source in sources.iter().filter(|source| source.contains("#[error(")) {
        let texts: BTreeMap<&str, String> =
            text.captures_iter(source).map(|found| (found.get(2).unwrap().as_str(), said(&found[1]))).collect();
        for part in source.split("fn kind(&self) -> &'static str").skip(1) {
            let body = part.split("\n    }\n").next().unwrap();
            for one in kind.captures_iter(body) {
                found.entry(one[2].to_owned()).or_default().extend(texts.get(&one[1]).cloned());
            }
        }
    }
    found
}

fn section(page: &mut String, title: &str, about: &str, codes: &Codes) {
    let _ = write!(page, "\n## {title}\n\n{about}\n\n| code | says |\n| --- | --- |\n");
    for (code, texts) in codes {
        let texts: Vec<&str> = texts.iter().map(String::as_str).filter(|text| !matches!(*text, "" | "…")).collect();
        let texts = if texts.is_empty() { "the message has the details".to_owned() } else { texts.join("<br>") };
        let _ = writeln!(page, "| `{code}` | {texts} |");
    }
}

#[test]
fn the_page_of_error_codes_has_all_of_them() {
    let sources = sources();
    let mut findings = of_calls(r"Diagnostic::error", &sources);
    for (code, texts) in of_calls(r"Diagnostic::warning", &sources) {
        findings.entry(code).or_default().extend(texts);
    }
    let mut problems = of_calls(r"Problem::new", &sources);
    for call in ["Problem::bad_request", "Problem::not_found"] {
        for (code, texts) in of_calls(call, &sources) {
            problems.entry(code).or_default().extend(texts);
        }
    }
    let reasons = of_calls(r"(?:Failure::host|Fault::new|Fault::of_answer|[^\w.:]failure)", &sources);
    let kinds = of_kinds(&sources);
    assert!(findings.len() > 100 && problems.len() > 20 && reasons.len() > 20 && kinds.len() > 20);
    let mut page = "# Error codes\n\nEvery code that Opcell gives, with what it says; `…` is what it says it of. Codes never change their meaning. This\npage is made from the source, and a test fails when it is not complete.\n".to_owned();
    section(
        &mut page,
        "Findings",
        "Of documents, project files and commands: errors end with exit code 2, warnings with `--strict` only. `code` in `--json`.",
        &findings,
    );
    section(
        &mut page,
        "Failures of calls and runs",
        "`reason` of a failure whose `source` is `host`; `:on-error`, routes and callers see them.",
        &reasons,
    );
    section(
        &mut page,
        "Cells, plugins and journals",
        "`error` in a cell's receipt, the code of a plugin that is not loaded, and of a run that cannot go on.",
        &kinds,
    );
    section(
        &mut page,
        "Problems of the server",
        "`code` of an RFC 9457 problem. Findings and failures come under their own codes.",
        &problems,
    );
    let path = root().join("docs/errors.md");
    if std::env::var("SNAPSHOTS").is_ok_and(|value| value == "overwrite") {
        fs::write(&path, &page).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == page, "`SNAPSHOTS=overwrite cargo test -p opcell-tests --test error_codes` writes docs/errors.md");
}
