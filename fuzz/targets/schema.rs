//! A schema that someone else wrote, and a value of theirs, with `---` on a line between them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcell_schema::Schema;
use opcell_types::Value;

/// Steps that the sandbox allows where others wait.
const STEPS: u64 = 1_000_000;

fuzz_target!(|text: &str| {
    let (schema, value) = text.split_once("\n---\n").unwrap_or((text, "null"));
    let schema = match Schema::parse(schema) {
        Ok((_, schema)) => schema,
        Err(error) => return assert_shown(&error),
    };
    let Ok(value) = Value::from_json(value) else { return };
    let value = serde_json::Value::from(&value);
    if let Err(error) = schema.check_cost(&value, STEPS) {
        return assert_shown(&error);
    }
    // Bounded by the promise of `check_cost`; libFuzzer's own limits of time and memory find what it misses.
    let violations = schema.violations(&value, 8);
    assert!(violations.len() <= 8, "{} violations", violations.len());
    assert_eq!(schema.check(&value).is_ok(), violations.is_empty(), "yes-or-no and the reasons disagree");
    violations.iter().for_each(|violation| assert_shown(violation));
});

fn assert_shown(text: &str) {
    assert!(text.len() < 8 << 10, "{} bytes", text.len());
    assert!(!text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')), "{text:?}");
}
