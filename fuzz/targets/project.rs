//! The project file: what it grants, and what granting more makes of it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcell::config::{
    Config,
    edit::{self, NewGrant},
};
use std::path::Path;

fuzz_target!(|text: &str| {
    // Names of files that exist would make a finding depend on the machine.
    let root = Path::new("/nonexistent");
    let parsed = Config::parse("fuzz.toml", text.to_owned(), root);
    let grant = NewGrant::Tool("http.fetch".to_owned());
    if let Ok(once) = edit::grant(text, "fuzz", &grant) {
        assert_eq!(edit::grant(&once, "fuzz", &grant).ok().as_ref(), Some(&once), "granting twice changes the file");
    } else {
        assert!(parsed.is_err() || text.contains("plugins"), "a project that cannot be granted to: {text:?}");
    }
});
