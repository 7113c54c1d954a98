//! WorkflowSkill: YAML, Markdown around it, expressions and templates inside it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let name = if text.contains("```") { "fuzz.md" } else { "fuzz.yaml" };
    opcell_fuzz::document(name, text);
});
