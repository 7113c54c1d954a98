//! The reader of the execution model's JSON, its validation and its flow checks.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    // The version at the root is what makes a JSON document an execution model.
    let rest = text.strip_prefix('{').unwrap_or(text);
    opcell_fuzz::document("fuzz.json", &format!(r#"{{"version":"workflow-ir/v1",{rest}"#));
});
