//! What the README and the book show of `examples/` is what happens there: every `console` block that begins with `cd
//! examples/…` is run in a copy of that folder, what follows `>` is typed in, and everything else of the block must be
//! printed, in order.

#![allow(clippy::unwrap_used, reason = "a failed test")]

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

#[test]
fn every_command_of_the_readme_does_what_the_readme_says() {
    let ran = run_page(&root().join("README.md"));
    assert!(ran > 10, "the README shows only {ran} commands of the examples");
}

#[test]
fn every_command_of_the_book_does_what_its_page_says() {
    let ran: usize = pages().iter().map(|page| run_page(page)).sum();
    assert!(ran > 15, "the book shows only {ran} commands of the examples");
}

/// The commands at the head of the operator's page, one after the other in an empty folder beside `repo.wasm`.
#[test]
fn the_operators_quick_start_works_as_it_stands() {
    let plugin = root().join("example-operations/dist/repo.wasm");
    assert!(plugin.is_file(), "`cargo xtask guests` builds {}", plugin.display());
    let page = fs::read_to_string(root().join("docs/operating.md")).unwrap();
    let block = page.split("```console\n").nth(1).unwrap().split("```").next().unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::copy(plugin, folder.path().join("repo.wasm")).unwrap();
    let mut script = "set -e\n".to_owned();
    let commands = block.lines().filter_map(|line| line.strip_prefix("$ "));
    commands.for_each(|command| script += &format!("{command}\n"));
    let home = tempfile::tempdir().unwrap();
    let done = shell(&script, folder.path(), home.path()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{out}\n{err}");
    assert!(out.contains("\nAda\n") && out.contains("repo/find-markers"), "{out}\n{err}");
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

/// What leads to the picture of each example, and what is drawn: a run, with the way that it took, or a workflow. A
/// drawing is a picture of what the example does today, or it is drawn anew: `SNAPSHOTS=overwrite`.
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
        assert!(kept == drawn, "{} shows something else; `{stale}` draws it", picture.display());
        assert!(gallery.contains(&format!("](images/gallery/{name}.svg)")), "the gallery does not show `{name}`");
    }
}

#[test]
fn every_page_is_in_the_summary_and_every_link_leads_to_a_file() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let link = regex::Regex::new(r"\]\(([^)#\s]+)(#[^)\s]*)?\)").unwrap();
    for page in pages() {
        let name = page.strip_prefix(root().join("docs")).unwrap().to_str().unwrap();
        assert!(name == "SUMMARY.md" || summary.contains(&format!("({name})")), "SUMMARY.md does not list {name}");
        for found in link.captures_iter(&fs::read_to_string(&page).unwrap()) {
            let target = found.get(1).unwrap().as_str();
            if !target.contains("://") {
                assert!(page.parent().unwrap().join(target).exists(), "{name} links to {target}, which does not exist");
            }
        }
    }
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

/// What is said of a neighbour has a link to a file at a commit or names a command, or says that nothing was read.
#[test]
fn every_claim_about_a_neighbour_can_be_looked_up() {
    let folder = root().join("docs/comparison");
    let neighbours = pages().into_iter().filter(|page| page.starts_with(&folder) && !page.ends_with("references.md"));
    let commit = regex::Regex::new(r"https://github\.com/[^/]+/[^/]+/blob/[0-9a-f]{40}/").unwrap();
    for page in neighbours {
        let text = fs::read_to_string(&page).unwrap();
        for row in text.lines().filter(|line| line.starts_with("| ")).skip(2) {
            let said = row.split(" | ").nth(1).unwrap();
            let looked_up = commit.is_match(said) || said.contains("`cargo ") || said.contains("in the pages read");
            assert!(looked_up, "{}: {said}", page.display());
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages of the book, in order of their names.
fn pages() -> Vec<PathBuf> {
    let folders = ["docs", "docs/comparison"].map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let entries = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|kind| kind == "md")).collect();
    pages.sort();
    pages
}

/// Runs the blocks of a page and returns the number of commands.
fn run_page(page: &Path) -> usize {
    let text = fs::read_to_string(page).unwrap();
    let blocks = text.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut ran = 0;
    for block in blocks {
        let Some(folder) = block.strip_prefix("$ cd examples/").and_then(|rest| rest.lines().next()) else { continue };
        let directory = tempfile::tempdir().unwrap();
        copy(&root().join("examples").join(folder), directory.path());
        for command in block.split("$ ").skip(2) {
            run(command, directory.path());
            ran += 1;
        }
    }
    ran
}

/// Runs a command and compares what it prints with the lines that the page shows after it.
fn run(shown: &str, directory: &Path) {
    let (command, rest) = shown.split_once('\n').unwrap();
    let typed: String =
        rest.lines().filter_map(|line| line.strip_prefix("> ")).map(|line| format!("{line}\n")).collect();
    // Keys and compiled code lie in the user's own folders, which no project may contain.
    let home = tempfile::tempdir().unwrap();
    let mut child = shell(&format!("{command}\n"), directory, home.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // What a person sees is both at once; each line must come from one of them, in its order there.
    let (mut from_out, mut from_err) = (out.lines(), err.lines());
    for line in rest.lines().filter(|line| !line.starts_with("> ") && !line.is_empty()) {
        let found = from_out.clone().any(|printed| printed == line);
        let of = if found { &mut from_out } else { &mut from_err };
        assert!(of.any(|printed| printed == line), "`{command}` does not print {line:?}:\n{out}\n{err}");
    }
    let waits = rest.contains("suspended at step");
    assert_eq!(output.status.code(), Some(if waits { 3 } else { 0 }), "`{command}`:\n{out}\n{err}");
}

/// A script in which `opcell` is the command under test, for a user with this home.
fn shell(script: &str, directory: &Path, home: &Path) -> Command {
    let mut path = vec![Path::new(env!("CARGO_BIN_EXE_opcell")).parent().unwrap().to_owned()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let mut shell = Command::new("sh");
    shell
        .args(["-c", script])
        .current_dir(directory)
        .env("PATH", std::env::join_paths(path).unwrap())
        .env("HOME", home)
        .env_remove("XDG_CACHE_HOME")
        .env_remove("XDG_STATE_HOME");
    shell
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
