//! What a plugin hands over: a schema, and a result that the schema is about, with `---` on a line between them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcell_types::Value;
use std::sync::LazyLock;
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().build().expect("a runtime without drivers starts"));

fuzz_target!(|text: &str| {
    let (schema, result) = text.split_once("\n---\n").unwrap_or(("{}", text));
    let Some(checked) = RUNTIME.block_on(opcell_sandbox::fuzzing::result(schema, result)) else { return };
    let value = Value::from(checked);
    let again = Value::from_json(&value.to_json()).expect("what was accepted can be written and read");
    assert_eq!(again, value, "changed by writing and reading");
});
