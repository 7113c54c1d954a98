//! `glob` and `grep`.

use super::files::{Ask, FILE_LIMIT, Files, file_failure, tool};
use super::roots::Place;
use super::{SessionTool, failure};
use crate::confined::{EntryKind, Folder};
use globset::{GlobBuilder, GlobMatcher};
use opcell_engine::ports::{Effects, Failure};
use opcell_types::ToolDescription;
use regex::RegexBuilder;
use serde_json::json;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Entries that one search looks at.
const VISITED: usize = 200_000;

/// Folders below each other that one search enters.
const DEPTH: usize = 64;

/// Paths that `glob` gives, and lines that `grep` gives unless asked for fewer.
const FOUND: usize = 500;

/// Characters of a line that `grep` shows.
const LINE_SHOWN: usize = 300;

/// Bytes of compiled program that a pattern may need.
const PATTERN_SIZE: usize = 1 << 20;

/// Folders that hold what no one searches for; naming one in `path` searches it.
const SKIPPED: [&str; 2] = [".git", "node_modules"];

/// The end of a search.
enum End {
    Whole,
    Cut(&'static str),
}

/// Calls `visit` with every file below `from`, in order of path, by its path from the root. Links are not followed.
fn walk(
    folder: &Folder,
    from: &str,
    ask: &Ask,
    mut visit: impl FnMut(&str) -> ControlFlow<End>,
) -> Result<End, Failure> {
    let mut seen = 0;
    let mut open = vec![(from.to_owned(), 0)];
    while let Some((directory, depth)) = open.pop() {
        let entries = match folder.entries(&directory) {
            Ok(entries) => entries,
            Err(error) if depth == 0 => return Err(file_failure(&error)),
            // A folder that the host itself may not read is not there for a model either.
            Err(_) => continue,
        };
        let mut below = Vec::new();
        for entry in entries {
            seen += 1;
            if ask.cancel.is_cancelled() {
                return Ok(End::Cut("the run was cancelled"));
            }
            if seen > VISITED {
                return Ok(End::Cut("there are too many files; search a folder with `path`"));
            }
            let path = if directory == "." { entry.name.clone() } else { format!("{directory}/{}", entry.name) };
            match entry.kind {
                EntryKind::File => {
                    if let ControlFlow::Break(end) = visit(&path) {
                        return Ok(end);
                    }
                }
                EntryKind::Directory if depth < DEPTH && !SKIPPED.contains(&entry.name.as_str()) => {
                    below.push((path, depth + 1));
                }
                EntryKind::Directory | EntryKind::Other => {}
            }
        }
        below.reverse();
        open.extend(below);
    }
    Ok(End::Whole)
}

fn matcher(pattern: &str) -> Result<GlobMatcher, Failure> {
    GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| failure("bad-pattern", error.to_string()))
}

/// The path that a pattern is matched against: from the folder that is searched.
fn below<'a>(place: &Place<'_>, path: &'a str) -> &'a str {
    path.strip_prefix(place.path.as_str()).and_then(|rest| rest.strip_prefix('/')).unwrap_or(path)
}

fn finish(mut text: String, end: &End) -> String {
    match end {
        End::Whole if text.is_empty() => text.push_str("[nothing found]"),
        End::Whole => {}
        End::Cut(why) => {
            let _ = write!(text, "[incomplete: {why}]");
        }
    }
    text
}

pub(super) fn glob(files: &Arc<Files>) -> SessionTool {
    let description = ToolDescription::new(
        "glob",
        "Finds files by a pattern such as `src/**/*.rs`, relative to `path`. `.git` and `node_modules` are left out.",
        json!({
            "type": "object",
            "properties": {"pattern": {"type": "string"}, "path": {"type": "string"}},
            "required": ["pattern"],
            "additionalProperties": false
        }),
    );
    let lambda = "pattern, path? → paths";
    tool(files, description, lambda, Effects::Pure, |files, ask| {
        let place = files.place(ask.text("path").unwrap_or("."))?;
        let matcher = matcher(ask.text("pattern").unwrap_or_default())?;
        let (mut text, mut found) = (String::new(), 0);
        let end = walk(&place.root.folder, &place.path, ask, |path| {
            if !matcher.is_match(below(&place, path)) {
                return ControlFlow::Continue(());
            }
            if found == FOUND {
                return ControlFlow::Break(End::Cut("more files match; narrow the pattern"));
            }
            found += 1;
            let _ = writeln!(text, "{}{path}", place.prefix);
            ControlFlow::Continue(())
        })?;
        Ok(finish(text, &end))
    })
}

pub(super) fn grep(files: &Arc<Files>) -> SessionTool {
    let description = ToolDescription::new(
        "grep",
        "Finds lines that match a regular expression, as `path:line: text`, in a file or in the files below a folder. `glob` \
         limits it to some files, `limit` to some lines. Files that are not text are left out.",
        json!({
            "type": "object",
            "properties": {
                "pattern": {"type": "string"},
                "path": {"type": "string"},
                "glob": {"type": "string"},
                "ignore_case": {"type": "boolean"},
                "limit": {"type": "integer", "minimum": 1, "maximum": FOUND}
            },
            "required": ["pattern"],
            "additionalProperties": false
        }),
    );
    let lambda = "pattern, path?, glob? → path:line: text";
    tool(files, description, lambda, Effects::Pure, |files, ask| {
        let place = files.place(ask.text("path").unwrap_or("."))?;
        let folder = &place.root.folder;
        let pattern = RegexBuilder::new(ask.text("pattern").unwrap_or_default())
            .case_insensitive(ask.flag("ignore_case"))
            .size_limit(PATTERN_SIZE)
            .build()
            .map_err(|error| failure("bad-pattern", error.to_string()))?;
        let glob = ask.text("glob").map(matcher).transpose()?;
        let limit = ask.whole("limit").and_then(|limit| usize::try_from(limit).ok()).unwrap_or(FOUND);
        let (mut text, mut found) = (String::new(), 0);
        let mut search = |path: &str| {
            if glob.as_ref().is_some_and(|glob| !glob.is_match(below(&place, path))) {
                return ControlFlow::Continue(());
            }
            let Ok(content) = folder.read_text(path, FILE_LIMIT) else { return ControlFlow::Continue(()) };
            for (number, line) in content.lines().enumerate().filter(|(_, line)| pattern.is_match(line)) {
                if found == limit {
                    return ControlFlow::Break(End::Cut("more lines match; narrow the pattern or the path"));
                }
                found += 1;
                let shown: String = line.chars().take(LINE_SHOWN).collect();
                let cut = if shown.len() < line.len() { "…" } else { "" };
                let _ = writeln!(text, "{}{path}:{}: {shown}{cut}", place.prefix, number + 1);
            }
            ControlFlow::Continue(())
        };
        let end = match folder.kind(&place.path).map_err(|error| file_failure(&error))? {
            EntryKind::File => match search(&place.path) {
                ControlFlow::Continue(()) => End::Whole,
                ControlFlow::Break(end) => end,
            },
            EntryKind::Directory | EntryKind::Other => walk(folder, &place.path, ask, search)?,
        };
        Ok(finish(text, &end))
    })
}
