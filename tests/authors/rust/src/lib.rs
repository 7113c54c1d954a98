//! The plugin that all SDKs are held to, in Rust.

use opcell_sdk::serde_json::{Map, Value, json};
use opcell_sdk::tools::ToolError;
use opcell_sdk::{Context, Failure, Success, Verdict, files, judge, log, operation, plugin, skills, store, tools};

/// Returns its argument.
#[operation("kit/echo", effects = pure)]
fn echo(value: Value) -> Success<Value> {
    Success::new(json!({ "value": value })).with_summary("echoed").with_details(json!({ "language": "any" }))
}

/// Says whether a text is polite.
#[judge("kit/tone", outcomes = ["polite", "rude", keyword("silent")])]
fn tone(text: String) -> Verdict {
    match text.as_str() {
        "" => Verdict::keyword("silent"),
        text if text.to_lowercase().contains("please") => Verdict::text("polite").because("it says please"),
        _ => Verdict::text("rude"),
    }
}

/// Reads a file.
#[operation("kit/read", effects = pure)]
fn read(root: String, path: String) -> Result<Value, Failure> {
    let text = files::open_root(&root)?.read_to_string(&path)?;
    Ok(json!({ "text": text }))
}

/// Writes a file.
#[operation("kit/write", effects = idempotent)]
fn write(root: String, path: String, text: String) -> Result<Value, Failure> {
    files::open_root(&root)?.write(&path, text.as_bytes())?;
    Ok(json!({ "written": text.len() }))
}

/// Lists a directory, and reads each file in it 20 times.
#[operation("kit/list", effects = pure)]
fn list(root: String, path: String) -> Result<Value, Failure> {
    let root = files::open_root(&root)?;
    let directory = if path.is_empty() { root } else { root.open_directory(&path)? };
    let (mut entries, mut bytes) = (Vec::new(), 0);
    for entry in directory.entries()? {
        let kind = match entry.kind {
            files::EntryKind::File => "file",
            files::EntryKind::Directory => "directory",
            files::EntryKind::Other => "other",
        };
        for _ in 0..if kind == "file" { 20 } else { 0 } {
            bytes += directory.read_to_string(&entry.name)?.len();
        }
        entries.push(json!({ "name": entry.name, "kind": kind, "size": entry.size }));
    }
    Ok(json!({ "entries": entries, "bytes": bytes }))
}

/// Calls a tool; a refusal is a value.
#[operation("kit/tool", effects = once)]
fn tool(name: String, input: Map<String, Value>) -> Result<Value, Failure> {
    match tools::call::<_, Value>(&name, &input) {
        Ok(answer) => Ok(json!({ "answer": answer })),
        Err(ToolError::Denied(denial)) => Ok(json!({ "denied": denial.capability })),
        Err(error) => Err(error.into()),
    }
}

/// Reads a skill.
#[operation("kit/skill", effects = pure)]
fn skill(name: String) -> Result<Value, Failure> {
    Ok(json!({ "body": skills::read(&name)? }))
}

/// Keeps a value, and goes through all that a store can do.
#[operation("kit/keep", effects = idempotent)]
fn keep(name: String, key: String, value: String) -> Result<Value, Failure> {
    let before = store::get(&name, &key)?.is_some();
    let version = store::set(&name, &key, &value)?;
    let conflict = match store::compare_and_set(&name, &key, None, "other")? {
        store::Swap::Conflict(Some(entry)) => String::from_utf8_lossy(&entry.value).into_owned(),
        _ => "none".to_owned(),
    };
    let swapped =
        matches!(store::compare_and_set(&name, &key, Some(version), format!("{value}!"))?, store::Swap::Stored(_));
    store::set(&name, "zz", "")?;
    let first = store::list(&name, "", None, 1)?;
    let rest = store::list(&name, "", Some(&key), 1000)?;
    let kept = store::get(&name, &key)?.map(|entry| String::from_utf8_lossy(&entry.value).into_owned());
    let deleted = [store::delete(&name, &key)?, store::delete(&name, &key)?];
    Ok(json!({
        "before": before, "conflict": conflict, "swapped": swapped, "first": first.keys, "more": first.more,
        "rest": rest.keys, "kept": kept, "deleted": deleted,
    }))
}

/// Logs two lines and its progress.
#[operation("kit/note", effects = pure)]
fn note(text: String) -> Value {
    log!(info, "first {text}");
    log!(warn, "second {text}");
    log::progress(1, 2, "half");
    json!({})
}

/// Fails on purpose.
#[operation("kit/fail", effects = pure)]
fn fail(reason: String) -> Result<Value, Failure> {
    Err(Failure::new(reason, "on purpose").with_details(json!({ "why": [1, 2] })))
}

/// Panics.
#[operation("kit/panic", effects = pure)]
fn panic(message: String) -> Result<Value, Failure> {
    panic!("{message}")
}

/// Says where in a run it is called.
#[operation("kit/where", effects = pure)]
fn whereabouts(context: &Context) -> Value {
    json!({ "run": context.run, "step": context.step, "visit": context.visit, "attempt": context.attempt, "key": context.idempotency_key })
}

plugin! {
    operations: [echo, read, write, list, tool, skill, keep, note, fail, panic, whereabouts],
    judges: [tone],
}
