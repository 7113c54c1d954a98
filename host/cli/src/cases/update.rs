//! `opcell plugin test --update`: a case file that expects what the call gave, with everything else as its author wrote
//! it.

use super::{case::Case, run::Got};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// The text of a case file in which `expect`, and what is different in its files, are as the call gave them.
///
/// Bounds stay: they are decisions, not observations.
#[must_use]
pub fn updated(text: &str, case: &Case, got: &Got) -> String {
    let text = replaced(text, "expect", &expected(case, got));
    if got.after.values().all(|after| after.is_empty()) && case.files.values().all(|tree| tree.after.is_empty()) {
        return text;
    }
    let mut files = "files:\n".to_owned();
    for (root, tree) in &case.files {
        let _ = writeln!(files, "  {}:\n    writable: {}\n    tree:", json!(root), tree.writable);
        for (path, text) in &tree.tree {
            let _ = writeln!(files, "      {}: {}", json!(path), json!(text));
        }
        if tree.tree.is_empty() {
            files.truncate(files.trim_end().len());
            files.push_str(" {}\n");
        }
        let after = got.after.get(root).filter(|after| !after.is_empty());
        for (at, (path, text)) in after.into_iter().flatten().enumerate() {
            let key = if at == 0 { "    after:\n" } else { "" };
            let _ = writeln!(files, "{key}      {}: {}", json!(path), json!(text));
        }
    }
    replaced(&text, "files", &files)
}

fn expected(case: &Case, got: &Got) -> String {
    let mut members: Vec<(&str, Value)> = Vec::new();
    match &got.failure {
        Some((reason, message)) => {
            let mut failure = Map::from_iter([("reason".to_owned(), json!(reason))]);
            // The message is compared only where the author asked for it.
            if case.expect.failure.as_ref().is_some_and(|failure| failure.message.is_some()) {
                failure.insert("message".to_owned(), json!(message));
            }
            members.push(("failure", Value::Object(failure)));
        }
        None => {
            let named = |name: &str| match name {
                "data" | "outcome" => true,
                "summary" => case.expect.summary.is_some(),
                "details" => case.expect.details.is_some(),
                _ => case.expect.rationale.is_some(),
            };
            for name in ["data", "summary", "details", "outcome", "rationale"] {
                members.extend(got.result.get(name).filter(|_| named(name)).map(|value| (name, value.clone())));
            }
        }
    }
    if case.expect.denials.is_some() || !got.denials.is_empty() {
        members.push(("denials", json!(got.denials)));
    }
    if case.expect.log.is_some() {
        members.push(("log", json!(got.log)));
    }
    let bounds = &case.expect.at_most;
    let bounds = [("memory", bounds.memory), ("host-calls", bounds.host_calls), ("ticks", bounds.ticks)];
    let bounds: Map<String, Value> =
        bounds.into_iter().filter_map(|(name, bound)| Some((name.to_owned(), json!(bound?)))).collect();
    if !bounds.is_empty() {
        members.push(("at-most", Value::Object(bounds)));
    }
    let mut text = "expect:\n".to_owned();
    for (name, value) in members {
        // JSON is YAML.
        let _ = writeln!(text, "  {name}: {value}");
    }
    text
}

/// A text whose top-level key `key` has another value; at the end where it had none.
fn replaced(text: &str, key: &str, block: &str) -> String {
    let (mut out, mut inside, mut found) = (String::with_capacity(text.len()), false, false);
    for line in text.split_inclusive('\n') {
        let is_key = !line.starts_with([' ', '\t', '#', '-', '\n', '\r', '}', ']']);
        if is_key {
            inside = line.split(':').next().is_some_and(|name| name.trim().trim_matches(['"', '\'']) == key);
            if inside && !found {
                out.push_str(block);
                found = true;
            }
        }
        if !inside {
            out.push_str(line);
        }
    }
    if !found {
        if !out.ends_with('\n') && !out.is_empty() {
            out.push('\n');
        }
        out.push_str(block);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::case::parse;

    #[test]
    fn what_is_expected_changes_and_everything_else_stays() {
        let before =
            "# A comment.\noperation: a/b\nexpect:\n  data: 1 # was\n  at-most: { memory: 5 }\n\narguments: { x: 1 }\n";
        let case = parse(before).unwrap();
        let mut got = Got::default();
        got.result.insert("data".to_owned(), json!({"n": "two\nlines"}));
        let after = updated(before, &case, &got);
        assert_eq!(
            after,
            "# A comment.\noperation: a/b\nexpect:\n  data: {\"n\":\"two\\nlines\"}\n  at-most: {\"memory\":5}\narguments: { x: 1 }\n"
        );
        assert_eq!(parse(&after).unwrap().expect.data, Some(json!({"n": "two\nlines"})));
    }

    #[test]
    fn files_that_were_written_are_expected_afterwards() {
        let before = "operation: a/b\nfiles: { w: { writable: true, tree: { \"a.txt\": \"x\" } } }\nexpect: {}\n";
        let case = parse(before).unwrap();
        let mut got = Got { failure: Some(("late".to_owned(), "m".to_owned())), ..Got::default() };
        let changes = [("a.txt".to_owned(), None), ("b/c.txt".to_owned(), Some("new\n".to_owned()))];
        got.after.insert("w".to_owned(), changes.into_iter().collect());
        let case = parse(&updated(before, &case, &got)).unwrap();
        assert_eq!(case.expect.failure.unwrap().reason.as_deref(), Some("late"));
        assert_eq!(case.files["w"].tree["a.txt"], "x");
        assert_eq!(case.files["w"].after["a.txt"], None);
        assert_eq!(case.files["w"].after["b/c.txt"].as_deref(), Some("new\n"));
    }
}
