//! The README and the book show what happens: every command, in the folder and with the files that the page shows,
//! prints what the page says ([`page`]).

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

#[path = "readme/configuration.rs"]
mod configuration;
#[path = "readme/page.rs"]
mod page;
#[path = "readme/recording.rs"]
mod recording;
#[path = "readme/records.rs"]
mod records;

use page::{blocks, shell};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Only pages whose name is in this variable are followed, if it is set.
const ONLY: &str = "PAGE";

#[test]
fn every_command_of_the_readme_does_what_the_readme_says() {
    let followed = page::follow(&root().join("README.md"));
    assert!(followed.problems.is_empty(), "{}", followed.problems.join("\n"));
    assert!(followed.ran >= 4, "the README shows only {} commands", followed.ran);
}

#[test]
fn every_command_of_the_book_does_what_its_page_says() {
    let only = std::env::var(ONLY).unwrap_or_default();
    let pages = pages().into_iter().filter(|page| page.to_str().unwrap().contains(&only));
    let (mut ran, mut problems) = (0, Vec::new());
    for followed in pages.map(|page| page::follow(&page)) {
        ran += followed.ran;
        problems.extend(followed.problems);
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(ran > 80 || !only.is_empty(), "the book shows only {ran} commands");
}

/// Blocks that nothing here runs are written `sh`: what needs a server, another machine or a tool chain.
#[test]
fn every_console_block_of_the_book_is_followed() {
    let shown: usize = pages()
        .iter()
        .map(|page| blocks(&fs::read_to_string(page).unwrap()))
        .map(|blocks| {
            blocks.iter().filter(|block| block.language() == "console" && !block.text.starts_with("$ ")).count()
        })
        .sum();
    assert_eq!(shown, 0, "a console block begins with a command");
}

#[test]
fn every_example_is_on_a_page() {
    let pages: String = pages().iter().map(|page| fs::read_to_string(page).unwrap()).collect();
    for entry in fs::read_dir(root().join("examples")).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        // What needs tool chains of other languages is run by the tests of authors, which skip it where they are not
        // there.
        let elsewhere = name == "languages" && pages.contains("\ncd examples/languages\n");
        let is_run = elsewhere || pages.contains(&format!("$ cd examples/{name}\n"));
        assert!(is_run, "no page runs the example `{name}`");
    }
}

/// The sources of the picture of each example, and its subject: a run, with the path taken, or a workflow. A drawing is
/// a picture of what the example does today, or it is drawn anew: `SNAPSHOTS=overwrite`.
const PICTURES: [(&str, &str); 10] = [
    ("triage", "opcell run triage -i issue=12 --journal"),
    ("review", "opcell run review --input pr=7 --journal"),
    ("release-notes", "opcell run notes.md --input version=1.4 --journal"),
    (
        "parcel",
        "opcell run parcel.pack.json --workflow --journal --as lamp --say 'A lamp, please'; opcell runs signal lamp Shipped && \
         opcell runs resume lamp",
    ),
    ("research", "opcell run research --input plan='split the service' --journal"),
    ("clean-up", "opcell run clean-up.md --input @customers.json --journal"),
    ("report", "opcell run report.md --input @orders.json --journal"),
    (
        "ship",
        "opcell run w.edn --journal --as first --input name=Ada; opcell runs approve first --why green --by ann && \
         opcell runs resume first",
    ),
    ("migrate", "opcell run migrate.edn --journal"),
    // Its plugins are made by tool chains that may not be here; the workflow alone needs none of them.
    ("languages", "rm opcell.toml"),
];

#[test]
fn every_example_has_its_picture_in_the_gallery() {
    let gallery = fs::read_to_string(root().join("docs/gallery.md")).unwrap();
    let overwrite = std::env::var("SNAPSHOTS").is_ok_and(|how| how == "overwrite");
    let home = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(root().join("examples")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(PICTURES.iter().any(|(drawn, _)| *drawn == name), "the example `{name}` has no picture");
    }
    for (name, leads_to_it) in PICTURES {
        let directory = tempfile::tempdir().unwrap();
        copy(&root().join("examples").join(name), directory.path());
        let what = if name == "languages" { "languages.edn" } else { "--run last" };
        let script = format!("{leads_to_it}\nopcell graph {what} -o picture.svg\n");
        let output = shell(&script, directory.path(), home.path()).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let drawn = fs::read_to_string(directory.path().join("picture.svg")).unwrap();
        let picture = root().join(format!("docs/images/gallery/{name}.svg"));
        if overwrite {
            fs::create_dir_all(picture.parent().unwrap()).unwrap();
            fs::write(&picture, &drawn).unwrap();
        }
        let kept = fs::read_to_string(&picture).unwrap_or_default();
        let stale = "SNAPSHOTS=overwrite cargo test -p opcell-cli --test readme";
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(kept == drawn, "{} shows something else; `{stale}` draws it\n{said}\n{drawn}", picture.display());
        assert!(gallery.contains(&format!("](images/gallery/{name}.svg)")), "the gallery does not show `{name}`");
    }
}

#[test]
fn every_page_is_in_the_summary_and_every_link_leads_to_a_file_and_a_heading_in_it() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let link = regex::Regex::new(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)").unwrap();
    let beside = ["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| root().join(name));
    let mut dead = Vec::new();
    for page in pages().into_iter().chain(beside) {
        let name = page.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        if let Some(name) = name.strip_prefix("docs/") {
            assert!(name == "SUMMARY.md" || summary.contains(&format!("({name})")), "SUMMARY.md does not list {name}");
        }
        let text = fs::read_to_string(&page).unwrap();
        for found in link.captures_iter(&page::without_blocks(&text)) {
            let (target, anchor) = (&found[1], found.get(2).map(|anchor| anchor.as_str()));
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let file = if target.is_empty() { page.clone() } else { page.parent().unwrap().join(target) };
            if !file.exists() {
                dead.push(format!("{name}: {target} does not exist"));
            } else if let Some(anchor) = anchor.filter(|_| file.extension().is_some_and(|kind| kind == "md")) {
                let has = page::anchors(&fs::read_to_string(&file).unwrap()).iter().any(|known| known == anchor);
                if !has {
                    dead.push(format!("{name}: {target} has no heading for #{anchor}"));
                }
            }
        }
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

/// Neither GitHub nor mdBook shows what follows the language of a block.
#[test]
fn every_file_of_a_page_has_its_name_above_it() {
    let mut without = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for name in blocks(&text).iter().filter_map(page::Block::file) {
            let (before, _) = text.split_once(&format!("file={name}\n")).unwrap();
            let above = before.rsplit_once("```").map_or(before, |(above, _)| above).trim_end_matches(['`', '\n']);
            let paragraph = above.rsplit("\n\n").next().unwrap();
            if !paragraph.contains(&format!("`{name}")) {
                without.push(format!("{}: {name}", page.display()));
            }
        }
    }
    assert_eq!(without, Vec::<String>::new(), "write the name above the block: `NAME`:");
}

/// The words that people type into the search of the book lead to a page that has them in a heading or a table.
#[test]
fn words_that_people_search_for_are_on_the_page_that_answers() {
    for (word, page) in [
        ("ollama", "how-to/models.md"),
        ("anthropic", "how-to/models.md"),
        ("api-key", "configuration.md"),
        ("docker", "install.md"),
        ("windows", "install.md"),
        ("macos", "install.md"),
        ("claude desktop", "how-to/mcp-client.md"),
        ("cursor", "how-to/mcp-client.md"),
        ("mcpservers", "how-to/mcp-client.md"),
        ("no-model", "errors.md"),
        ("busy", "troubleshooting.md"),
        ("exit code", "reference.md"),
        ("64 mib", "configuration.md"),
        ("langgraph", "migration.md"),
        ("n8n", "migration.md"),
        ("secret", "how-to/secrets.md"),
        ("cron", "how-to/triggers.md"),
        ("webhook", "how-to/triggers.md"),
        ("otlp", "how-to/traces.md"),
        ("prometheus", "how-to/monitor.md"),
        ("kubernetes", "how-to/deploy.md"),
        ("systemd", "how-to/deploy.md"),
    ] {
        let text = fs::read_to_string(root().join("docs").join(page)).unwrap().to_lowercase();
        assert!(text.contains(word), "{page} does not have `{word}`");
    }
}

/// The first page shows the workflow that `opcell init --example notes` writes, and so does the tour.
#[test]
fn the_workflow_of_the_first_run_is_the_one_that_init_writes() {
    let written = fs::read_to_string(root().join("host/cli/templates/notes/today.edn")).unwrap();
    let form = written.split_once('\n').unwrap().1.trim_end();
    for page in ["README.md", "docs/tour.md"] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        assert!(text.contains(form), "{page} shows another workflow than host/cli/templates/notes/today.edn");
    }
    let lines = fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!(lines <= 90, "the README has {lines} lines");
}

/// Each promise names cases that show it: folders of `tests/hostile` or `tests/cli`, or a file of tests.
#[test]
fn every_promise_of_the_security_page_is_shown_by_cases_that_exist() {
    let page = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let promised = page.split("## What is promised").nth(1).unwrap().split("\n## ").next().unwrap();
    let number = regex::Regex::new(r"(?m)^(\d+)\. ").unwrap();
    let starts: Vec<usize> = number.find_iter(promised).map(|found| found.start()).collect();
    assert!(starts.len() >= 18, "only {} promises were found", starts.len());
    let quoted = regex::Regex::new(r"`([^`\s]+)`").unwrap();
    for (at, start) in starts.iter().enumerate() {
        let text = &promised[*start..starts.get(at + 1).copied().unwrap_or(promised.len())];
        let (mut folder, mut shown) = (String::new(), 0);
        for name in quoted.captures_iter(text).map(|found| found[1].to_owned()) {
            let path = match name.rsplit_once('/') {
                Some((parent, _)) if name.starts_with("tests/") || name.starts_with("host/") => {
                    folder = parent.to_owned();
                    name
                }
                // Beside the one before, if it looks like a case.
                _ if ["tests/hostile", "tests/cli"].contains(&folder.as_str())
                    && name.chars().all(|c| c.is_ascii_lowercase() || c == '-') =>
                {
                    format!("{folder}/{name}")
                }
                _ => continue,
            };
            let exists = match path.strip_suffix('*') {
                Some(start) => {
                    let (folder, start) = start.rsplit_once('/').unwrap();
                    let names = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().file_name());
                    names.into_iter().any(|name| name.to_str().is_some_and(|name| name.starts_with(start)))
                }
                None => root().join(&path).exists(),
            };
            assert!(exists, "{path}, which a promise names, does not exist: {text}");
            shown += 1;
        }
        assert!(shown > 0, "no case shows this promise: {text}");
    }
}

/// The keys that the compilers look for, in their own sources: a page that lacks one is not what a user looks up.
#[test]
fn every_key_of_a_language_is_on_its_page() {
    let workflow = root().join("host/workflow/src");
    let missing = |page: &str, keys: BTreeSet<String>, least: usize| {
        let text = fs::read_to_string(root().join("docs").join(page)).unwrap();
        assert!(keys.len() >= least, "only {} keys of {page} were found", keys.len());
        let is_there = |key: &String| {
            let key = regex::Regex::new(&format!(r"(?m)(?:^|[^a-z_-]){}(?:$|[^a-z_?-])", regex::escape(key))).unwrap();
            key.is_match(&text)
        };
        keys.into_iter().filter(|key| !is_there(key)).map(|key| format!("{page}: {key}")).collect::<Vec<_>>()
    };
    let found = |files: &[&str], pattern: &str| -> BTreeSet<String> {
        let pattern = regex::Regex::new(pattern).unwrap();
        let texts = files.iter().map(|file| fs::read_to_string(workflow.join(file)).unwrap());
        let of = |text: String| pattern.captures_iter(&text).map(|key| key[1].to_owned()).collect::<Vec<_>>();
        texts.flat_map(of).collect()
    };
    let psi = found(
        &["psi/own.rs", "psi/step.rs", "psi/session.rs", "psi/control.rs", "psi/source_spec.rs"],
        r#"(?:(?:get|raw|count|names)\(|required\(\s*&?(?:mut )?fields,\s*|read!\()"([a-z][a-z?-]*)""#,
    );
    let schema = |text: &str| -> BTreeSet<String> {
        let schema: serde_json::Value = serde_json::from_str(text).unwrap();
        let (mut open, mut keys) = (vec![&schema], BTreeSet::new());
        while let Some(node) = open.pop() {
            if let Some(properties) = node.get("properties").and_then(serde_json::Value::as_object) {
                keys.extend(properties.keys().cloned());
            }
            match node {
                serde_json::Value::Object(entries) => open.extend(entries.values()),
                serde_json::Value::Array(items) => open.extend(items),
                _ => {}
            }
        }
        keys
    };
    let pack = found(&["promptpack/composition.rs", "promptpack/spec.rs"], r#"^?\s"([a-z][a-z_]*)" => "#);
    let mut skill = schema(opcell_workflow::workflowskill::SCHEMA);
    skill.remove("additionalProperties");
    let mut all = missing("psi.md", psi, 80);
    all.extend(missing("workflowskill.md", skill, 25));
    all.extend(missing("promptpack.md", pack, 35));
    assert_eq!(all, Vec::<String>::new());
}

#[test]
fn every_call_of_an_sdk_is_on_its_page() {
    let page = fs::read_to_string(root().join("docs/sdk.md")).unwrap();
    let rust = ["files", "log", "skills", "store", "tools"].map(|name| format!("src/{name}.rs"));
    let one = |file: &str| vec![file.to_owned()];
    let mut missing = Vec::new();
    for (language, files, declares) in [
        ("Rust", rust.to_vec(), r"(?m)^(?:    )?pub fn (\w+)"),
        ("Python", one("python/opcell/__init__.py"), r"(?m)^    @staticmethod\n    def ([a-z]\w*)\("),
        ("JavaScript and TypeScript", one("javascript/opcell.d.ts"), r"(?m)^  ([a-z]\w*)\("),
        ("C", one("c/opcell.h"), r"(?m)^[a-z_].*?\b(opcell_[a-z_]+)\("),
    ] {
        let section = page.split(&format!("\n## {language}\n")).nth(1).unwrap().split("\n## ").next().unwrap();
        let declares = regex::Regex::new(declares).unwrap();
        let mut calls = 0;
        for file in files {
            let text = fs::read_to_string(root().join("guest-sdk").join(file)).unwrap();
            for call in
                declares.captures_iter(&text).map(|call| call[1].to_owned()).filter(|name| name != "constructor")
            {
                calls += 1;
                if !regex::Regex::new(&format!(r"\b{call}\b")).unwrap().is_match(section) {
                    missing.push(format!("{language}: {call}"));
                }
            }
        }
        assert!(calls > 10, "only {calls} calls of {language} were found");
    }
    assert_eq!(missing, Vec::<String>::new());
}

/// A claim about a neighbour has a link to a file at a commit (or, of documentation that is in no repository, to the
/// pages of one version), or names a command, or says that nothing was read.
#[test]
fn every_claim_about_a_neighbour_can_be_looked_up() {
    let folder = root().join("docs/comparison");
    let neighbours = pages().into_iter().filter(|page| page.starts_with(&folder) && !page.ends_with("references.md"));
    let mut claims = 0;
    for page in neighbours {
        let text = fs::read_to_string(&page).unwrap();
        for row in text.lines().filter(|line| line.starts_with("| ")).skip(2) {
            let said = row.split(" | ").nth(1).unwrap();
            assert!(can_be_looked_up(said) || said.contains("in the pages read"), "{}: {said}", page.display());
            claims += 1;
        }
    }
    assert!(claims > 70, "only {claims} claims were found");
    let text = fs::read_to_string(root().join("docs/comparison.md")).unwrap();
    let table = text.split("## What each one isolates").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(2).collect();
    assert!(rows.len() > 10, "{rows:?}");
    for cell in rows.iter().flat_map(|row| row.trim_matches('|').split(" | ").skip(1)) {
        assert!(cell.trim() == "-" || can_be_looked_up(cell), "{cell}");
    }
}

fn can_be_looked_up(claim: &str) -> bool {
    let pinned = r"https://(github\.com/[^/]+/[^/]+/blob/[0-9a-f]{40}/|learn\.golem\.cloud/v[0-9.]+/)|`(cargo|opcell) ";
    regex::Regex::new(pinned).unwrap().is_match(claim)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages of the book, in order of their names.
fn pages() -> Vec<PathBuf> {
    let folders = ["docs", "docs/comparison", "docs/how-to"].map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let entries = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|kind| kind == "md")).collect();
    pages.sort();
    pages
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}
