//! `docs/errors.md` and `opcell explain` have every code that the program can give, with its messages and its remedies:
//! read from the source, so that none is left out, and from `remedies.toml` where the source has no remedy.
//! `SNAPSHOTS=overwrite cargo test -p opcell-tests --test error_codes` writes both.

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

/// The reasons that an error's `reason` gives for its variants.
fn of_reasons(sources: &[String]) -> Vec<String> {
    let reason = Regex::new(r#"Self::\w+[^=]*=>\s*"([a-z][a-z0-9-]+)""#).unwrap();
    let bodies = sources.iter().flat_map(|source| source.split("fn reason(&self) -> &'static str").skip(1));
    let bodies = bodies.map(|part| part.split("\n    }\n").next().unwrap());
    bodies.flat_map(|body| reason.captures_iter(body)).map(|found| found[1].to_owned()).collect()
}

/// The texts that `.help(…)` adds to the findings of each code.
fn helps(call: &str, sources: &[String]) -> Codes {
    let code = Regex::new(&format!(r#"{call}\(\s*(?:StatusCode::\w+,\s*)?"([a-z][a-z0-9-]+)",\s*"#)).unwrap();
    let end = Regex::new(r"Diagnostic::|Problem::|\n    \}\n|\n\}\n").unwrap();
    let help = Regex::new(r#"\.help\(\s*(?:format!\(\s*)?"((?:[^"\\]|\\[\s\S])*)""#).unwrap();
    let mut found = Codes::new();
    for source in sources {
        for call in code.captures_iter(source) {
            let after = &source[call.get(0).unwrap().end()..];
            let after = &after[..end.find(after).map_or(after.len(), |end| end.start())];
            let texts = help.captures_iter(after).map(|help| said(&help[1]));
            found.entry(call[1].to_owned()).or_default().extend(texts);
        }
    }
    found
}

/// One code of the page, as `opcell explain` reads it.
#[derive(serde::Serialize, Default)]
struct Code {
    code: String,
    kinds: Vec<&'static str>,
    meaning: Option<String>,
    messages: Vec<String>,
    remedies: Vec<String>,
}

/// `remedies.toml`: what the source does not say.
#[derive(serde::Deserialize)]
struct Written {
    meaning: BTreeMap<String, String>,
    remedy: BTreeMap<String, String>,
}

/// Every code once, in the order of the alphabet, whatever kinds of errors have it.
fn merged(kinds: [(&'static str, Codes); 4], helps: &Codes, written: &Written) -> Vec<Code> {
    let mut merged: BTreeMap<String, Code> = BTreeMap::new();
    for (kind, codes) in kinds {
        for (name, texts) in codes {
            let code = merged.entry(name).or_default();
            code.kinds.push(kind);
            let is_text = |text: &String| text.chars().any(char::is_alphabetic) && !code.messages.contains(text);
            let texts: Vec<String> = texts.into_iter().filter(is_text).collect();
            code.messages.extend(texts);
        }
    }
    for (name, code) in &mut merged {
        code.code.clone_from(name);
        code.meaning = written.meaning.get(name).cloned();
        code.remedies.extend(written.remedy.get(name).cloned());
        code.remedies.extend(
            helps.get(name).into_iter().flatten().filter(|help| help.chars().any(char::is_alphabetic)).cloned(),
        );
        // Escaped for tables, of which there are none here.
        code.messages.iter_mut().chain(&mut code.remedies).for_each(|text| *text = text.replace("\\|", "|"));
    }
    merged.into_values().collect()
}

fn page(codes: &[Code]) -> String {
    let mut page = "# Error codes\n\nEvery code that Opcell gives: the messages that it comes with (`…` marks the variable part) and what to do. `opcell\nexplain CODE` prints the same. Codes never change their meaning. This page is made from the source, and a test fails\nwhen it is not complete.\n\n| kind | where you meet the code |\n| --- | --- |\n".to_owned();
    for (kind, about) in KINDS {
        let _ = writeln!(page, "| {kind} | {about} |");
    }
    for code in codes {
        let _ = write!(page, "\n## {}\n\n*{}.*", code.code, code.kinds.join(", "));
        if let Some(meaning) = &code.meaning {
            let mut letters = meaning.chars();
            let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
            let _ = write!(page, " {first}{}.", letters.as_str());
        }
        page.push('\n');
        if !code.messages.is_empty() {
            page.push_str("\nSays:\n\n");
            for message in &code.messages {
                let _ = writeln!(page, "- {}", escaped(message));
            }
        }
        page.push_str("\nRemedy:\n\n");
        for remedy in &code.remedies {
            let _ = writeln!(page, "- {}", escaped(remedy));
        }
    }
    page
}

/// A text as Markdown: what is in backticks stays, and nothing else is markup.
fn escaped(text: &str) -> String {
    let mut quoted = false;
    let mut escaped = String::new();
    for c in text.chars() {
        quoted ^= c == '`';
        if !quoted && matches!(c, '*' | '_' | '<' | '[' | '{') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

const KINDS: [(&str, &str); 4] = [
    (
        "finding",
        "of documents, project files and commands: errors end with exit code 2, warnings with `--strict` only; `code` in `--json`",
    ),
    (
        "failure of a call or run",
        "`reason` of a failure whose `source` is `host`; `:on-error`, routes and callers see it",
    ),
    (
        "cell, plugin or journal",
        "`error` in a cell's receipt, the code of a plugin that is not loaded, and of a run that cannot continue",
    ),
    ("problem of the server", "`code` of an RFC 9457 problem; findings and failures come under their own codes"),
];

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
    let mut reasons = of_calls(r"(?:Failure::host|Fault::new|Fault::of_answer|[^\w.:]failure)", &sources);
    for code in of_reasons(&sources) {
        reasons.entry(code).or_default();
    }
    let kinds = of_kinds(&sources);
    assert!(findings.len() > 100 && problems.len() > 20 && reasons.len() > 20 && kinds.len() > 20);
    let written: Written =
        toml_edit::de::from_str(&fs::read_to_string(root().join("host/cli/src/cli/explain/remedies.toml")).unwrap())
            .unwrap();
    let mut helped = helps(r"Diagnostic::(?:error|warning)", &sources);
    for (code, texts) in helps(r"Problem::(?:new|bad_request|not_found)", &sources) {
        helped.entry(code).or_default().extend(texts);
    }
    let [finding, failure, cell, problem] = KINDS.map(|(kind, _)| kind);
    let all = merged([(finding, findings), (failure, reasons), (cell, kinds), (problem, problems)], &helped, &written);
    let has = |code: &str| all.iter().any(|known| known.code == code);
    let of_no_code: Vec<&String> =
        written.meaning.keys().chain(written.remedy.keys()).filter(|code| !has(code)).collect();
    assert_eq!(of_no_code, Vec::<&String>::new(), "remedies.toml explains what no source gives");
    let without =
        |lacks: fn(&Code) -> bool| all.iter().filter(|code| lacks(code)).map(|code| &code.code).collect::<Vec<_>>();
    assert_eq!(without(|code| code.remedies.is_empty()), Vec::<&String>::new(), "remedies.toml has no remedy");
    let silent = without(|code| code.messages.is_empty() && code.meaning.is_none());
    assert_eq!(silent, Vec::<&String>::new(), "remedies.toml has no meaning");
    let stale = "SNAPSHOTS=overwrite cargo test -p opcell-tests --test error_codes";
    let codes = format!("{}\n", serde_json::to_string_pretty(&all).unwrap());
    for (name, made) in [("docs/errors.md", page(&all)), ("host/cli/src/cli/explain/codes.json", codes)] {
        let path = root().join(name);
        if std::env::var("SNAPSHOTS").is_ok_and(|value| value == "overwrite") {
            fs::write(&path, &made).unwrap();
        }
        assert!(fs::read_to_string(&path).unwrap_or_default() == made, "`{stale}` writes {name}");
    }
}
