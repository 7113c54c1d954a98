//! `read`, `write`, `edit` and `ls`.

use super::roots::{FileRoots, Place};
use super::{SessionTool, attachments, failure};
use crate::confined::{self, EntryKind, FileError};
use crate::skills::SkillLibrary;
use async_trait::async_trait;
use opcell_engine::ports::{Effects, Failure};
use opcell_engine::tool::{Tool, ToolInput};
use opcell_types::{Denial, Remedy, ToolDescription, Value, denial::SessionPart, text::one_line};
use serde_json::json;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The most that is read of one file, in bytes.
pub(super) const FILE_LIMIT: u64 = 16 << 20;

/// Lines that `read` gives unless asked for fewer.
const LINES: u64 = 2000;

/// Entries that `ls` gives.
const ENTRIES: usize = 1000;

/// Everything that file tools see.
pub(super) struct Files {
    pub(super) roots: FileRoots,
    pub(super) skills: Arc<SkillLibrary>,
}

/// One call, away from the async runtime.
pub(super) struct Ask {
    arguments: Value,
    /// The skills that the session may read.
    skills: Vec<String>,
    pub(super) cancel: CancellationToken,
}

impl Ask {
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.arguments.get(key).and_then(Value::as_str)
    }

    pub(super) fn whole(&self, key: &str) -> Option<u64> {
        match self.arguments.get(key) {
            Some(Value::Number(number)) => number.as_u64(),
            _ => None,
        }
    }

    pub(super) fn flag(&self, key: &str) -> bool {
        matches!(self.arguments.get(key), Some(Value::Bool(true)))
    }
}

type TextRun = fn(&Files, &Ask) -> Result<String, Failure>;

#[derive(Clone, Copy)]
enum Run {
    Text(TextRun),
    /// A text, or an attachment.
    Shown(fn(&Files, &Ask) -> Result<Value, Failure>),
}

impl Run {
    fn call(self, files: &Files, ask: &Ask) -> Result<Value, Failure> {
        match self {
            Self::Text(run) => run(files, ask).map(Value::from),
            Self::Shown(run) => run(files, ask),
        }
    }
}

struct FileTool {
    description: ToolDescription,
    effects: Effects,
    files: Arc<Files>,
    run: Run,
}

pub(super) fn tool(
    files: &Arc<Files>,
    description: ToolDescription,
    lambda: &str,
    effects: Effects,
    run: TextRun,
) -> SessionTool {
    let run = Run::Text(run);
    let tool = SessionTool::own(Arc::new(FileTool { description, effects, files: files.clone(), run }));
    // Who wants a model to change files says so: in the step, or in the project's defaults.
    SessionTool { by_declaration: effects != Effects::Pure, ..tool.with_lambda(lambda) }
}

#[async_trait]
impl Tool for FileTool {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    fn effects(&self) -> Effects {
        self.effects
    }

    async fn call(&self, input: &ToolInput) -> Result<Value, Failure> {
        // A step's timeout drops this future; the search on its thread ends with it.
        let cancel = input.cancel.child_token();
        let _ends_with_the_call = cancel.clone().drop_guard();
        let skills = input.model().and_then(|model| model.session.settings.skills.clone());
        let ask = Ask { arguments: input.arguments.clone(), skills: skills.unwrap_or_default(), cancel };
        let (files, run) = (self.files.clone(), self.run);
        let result = tokio::task::spawn_blocking(move || run.call(&files, &ask)).await;
        result.unwrap_or_else(|error| Err(failure("tool-failed", error.to_string())))
    }
}

impl Files {
    pub(super) fn place(&self, path: &str) -> Result<Place<'_>, Failure> {
        self.roots.place(path).map_err(|message| {
            let rule = format!("the path is not in any file root: {}", self.roots.names());
            failure("file-refused", message).with_denial(Denial::new("files", rule, Remedy::OpenFolder))
        })
    }

    fn writable(&self, path: &str) -> Result<Place<'_>, Failure> {
        let place = self.place(path)?;
        match place.root.writable {
            true => Ok(place),
            false => {
                let name = &place.root.name;
                let rule = format!("the file root `{name}` is read-only");
                let remedy = Remedy::WriteFolder { name: name.clone() };
                let denial = Denial::of("write to files", name, rule.as_str(), remedy);
                Err(failure("file-refused", rule).with_denial(denial))
            }
        }
    }
}

pub(super) fn file_failure(error: &FileError) -> Failure {
    let reason = match error {
        FileError::Refused { why, .. } => {
            let denial = Denial::new("files", *why, Remedy::Nothing);
            return failure("file-refused", error.to_string()).with_denial(denial);
        }
        FileError::ControlFile { rule, root, .. } => {
            let remedy = Remedy::ControlFiles { plugin: None, name: root.clone() };
            let denial = Denial::new("files", rule.clone(), remedy);
            return failure("file-refused", error.to_string()).with_denial(denial);
        }
        FileError::NotFound(_) => "file-not-found",
        FileError::NotAFile(_) | FileError::NotADirectory(_) => "file-kind",
        FileError::TooLarge { .. } => "file-too-large",
        FileError::NotText { .. } | FileError::Utf16(_) => "file-not-text",
        FileError::Failed { .. } => "file-failed",
    };
    failure(reason, error.to_string())
}

pub(super) fn read(files: &Arc<Files>) -> SessionTool {
    let description = ToolDescription::new(
        "read",
        "Reads a text file. `path` is relative to the working folder, `ROOT:path`, or a skill's location such as \
         `skill:NAME/SKILL.md`. Long files are read in parts with `offset` (first line, from 1) and `limit` (lines).",
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "offset": {"type": "integer", "minimum": 1},
                "limit": {"type": "integer", "minimum": 1}
            },
            "required": ["path"],
            "additionalProperties": false
        }),
    );
    let lambda = "path | ROOT:path | skill:NAME/file → text | long(file) → offset, limit";
    let run = Run::Shown(read_shown);
    let tool = FileTool { description, effects: Effects::Pure, files: files.clone(), run };
    SessionTool::own(Arc::new(tool)).with_lambda(lambda)
}

/// A picture, a PDF document or a recording as one; everything else as a text.
fn read_shown(files: &Files, ask: &Ask) -> Result<Value, Failure> {
    let path = ask.text("path").unwrap_or_default();
    let (name, bytes) = match path.strip_prefix("skill:") {
        Some(skill) => {
            let name = skill.split_once('/').map_or(skill, |(_, path)| path);
            (name.to_owned(), read_skill(files, ask, skill)?)
        }
        None => {
            let place = files.place(path)?;
            let bytes = place.root.folder.read(&place.path, FILE_LIMIT).map_err(|error| file_failure(&error))?;
            (place.path.clone(), bytes)
        }
    };
    if let Some(kind) = attachments::kind(&bytes) {
        return Ok(match attachments::attachment(&bytes, kind) {
            Ok(attachment) => Value::array([attachment.to_block()]),
            Err(why) => Value::from(format!("[the {} {path} is not shown: {why}]", kind.noun())),
        });
    }
    let text = confined::text(&name, bytes).map_err(|error| file_failure(&error))?;
    Ok(lines(&text, ask.whole("offset").unwrap_or(1), ask.whole("limit").unwrap_or(LINES)).into())
}

/// A file of one of the session's skills, `NAME/path`; the skill's own text for `NAME` alone.
fn read_skill(files: &Files, ask: &Ask, location: &str) -> Result<Vec<u8>, Failure> {
    let (name, path) = location.split_once('/').unwrap_or((location, ""));
    if !ask.skills.iter().any(|allowed| allowed == name) {
        let allowed = if ask.skills.is_empty() { "none".to_owned() } else { ask.skills.join(", ") };
        let message = format!("this session has no skill `{name}`; it has: {allowed}");
        let remedy = Remedy::DeclareInSession { part: SessionPart::Skill, name: one_line(name, 100) };
        let denial = Denial::of("skill", name, "the session does not have the skill", remedy);
        return Err(failure("skill-refused", message).with_denial(denial));
    }
    let fail = |error: crate::skills::SkillError| failure("skill-failed", error.to_string());
    let skill = files.skills.find(name).map_err(fail)?;
    if path.is_empty() || path == skill.file {
        return files.skills.read(name).map(String::into_bytes).map_err(fail);
    }
    files.skills.read_resource(name, path).map_err(fail)
}

fn lines(text: &str, offset: u64, limit: u64) -> String {
    let skipped = usize::try_from(offset.saturating_sub(1)).unwrap_or(usize::MAX);
    let taken = usize::try_from(limit).unwrap_or(usize::MAX);
    let count = text.split_inclusive('\n').count();
    let mut shown: String = text.split_inclusive('\n').skip(skipped).take(taken).collect();
    let last = skipped.saturating_add(taken);
    if skipped >= count && count > 0 {
        return format!("[the file has {count} lines; there is no line {offset}]");
    }
    if last < count {
        let _ = write!(shown, "[lines {offset} to {last} of {count}; read on with offset {}]", last + 1);
    }
    shown
}

pub(super) fn write(files: &Arc<Files>) -> SessionTool {
    let description = ToolDescription::new(
        "write",
        "Creates or replaces a file, and creates missing parent folders.",
        json!({
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"],
            "additionalProperties": false
        }),
    );
    let lambda = "path, content → file(new | replaced)";
    tool(files, description, lambda, Effects::Idempotent, |files, ask| {
        let place = files.writable(ask.text("path").unwrap_or_default())?;
        let content = ask.text("content").unwrap_or_default();
        replace(&place, content.len() as u64, || content.as_bytes().into())?;
        Ok(format!("wrote {} bytes to {}{}", content.len(), place.prefix, place.path))
    })
}

/// Writes a file whose size is known before its content is made: a few bytes of arguments may stand for gigabytes of
/// text.
fn replace<'a>(place: &Place<'_>, size: u64, content: impl FnOnce() -> Cow<'a, [u8]>) -> Result<(), Failure> {
    if size > FILE_LIMIT {
        let message = format!("{} would have {size} bytes; at most {FILE_LIMIT} are written", place.path);
        return Err(failure("file-too-large", message));
    }
    if !place.root.book(size) {
        let message = format!("the write quota of the file root `{}` is used up", place.root.name);
        return Err(failure("file-quota", message));
    }
    place.root.folder.write(&place.path, &content()).map_err(|error| file_failure(&error))
}

pub(super) fn edit(files: &Arc<Files>) -> SessionTool {
    let description = ToolDescription::new(
        "edit",
        "Replaces `old_text` with `new_text` in a file. `old_text` must occur exactly once, unless `replace_all` is true.",
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "old_text": {"type": "string", "minLength": 1},
                "new_text": {"type": "string"},
                "replace_all": {"type": "boolean"}
            },
            "required": ["path", "old_text", "new_text"],
            "additionalProperties": false
        }),
    );
    let lambda = "path, old_text → new_text | unique(old_text) ∨ replace_all";
    tool(files, description, lambda, Effects::Once, |files, ask| {
        let place = files.writable(ask.text("path").unwrap_or_default())?;
        let folder = &place.root.folder;
        let text = folder.read_text(&place.path, FILE_LIMIT).map_err(|error| file_failure(&error))?;
        let (old, new) = (ask.text("old_text").unwrap_or_default(), ask.text("new_text").unwrap_or_default());
        let found = text.matches(old).count();
        match found {
            0 => {
                return Err(failure(
                    "edit-not-found",
                    format!("`old_text` does not occur in {}; read the file again", place.path),
                ));
            }
            1 => {}
            _ if ask.flag("replace_all") => {}
            _ => {
                let message = format!(
                    "`old_text` occurs {found} times in {}; include more context, or set `replace_all`",
                    place.path
                );
                return Err(failure("edit-ambiguous", message));
            }
        }
        let removed = old.len().saturating_mul(found);
        let size = (text.len() - removed.min(text.len())).saturating_add(new.len().saturating_mul(found)) as u64;
        replace(&place, size, || text.replace(old, new).into_bytes().into())?;
        Ok(format!("replaced {found} of {found} in {}{}", place.prefix, place.path))
    })
}

pub(super) fn ls(files: &Arc<Files>) -> SessionTool {
    let description = ToolDescription::new(
        "ls",
        "Lists a folder: folders end in `/`, links in `@`, files are followed by their size in bytes.",
        json!({"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": false}),
    );
    let lambda = "path? → entries";
    tool(files, description, lambda, Effects::Pure, |files, ask| {
        let place = files.place(ask.text("path").unwrap_or("."))?;
        let entries = place.root.folder.entries(&place.path).map_err(|error| file_failure(&error))?;
        let mut text = String::new();
        for entry in entries.iter().take(ENTRIES) {
            let _ = match entry.kind {
                EntryKind::Directory => writeln!(text, "{}/", entry.name),
                EntryKind::File => writeln!(text, "{} {}", entry.name, entry.bytes),
                EntryKind::Other => writeln!(text, "{}@", entry.name),
            };
        }
        match entries.len() {
            0 => text.push_str("[empty]"),
            count if count > ENTRIES => {
                let _ = write!(text, "[{ENTRIES} of {count} entries are shown]");
            }
            _ => {}
        }
        Ok(text)
    })
}
