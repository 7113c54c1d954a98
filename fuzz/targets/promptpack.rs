//! PromptPack: JSON, checked against the schema of the format, its templates and compositions.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| opcell_fuzz::document("fuzz.json", text));
