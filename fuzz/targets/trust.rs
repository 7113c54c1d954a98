//! What a project file asks for: shown before anything of it is obeyed, and bound by a digest.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcell::{config::Config, consent::Requests};
use std::path::Path;

fuzz_target!(|text: &str| {
    let root = Path::new("/nonexistent");
    let parse = |text: String| Config::parse("fuzz.toml", text, root).ok();
    let Some(config) = parse(text.to_owned()) else { return };
    let requests = Requests::of(&config);
    for request in requests.iter() {
        let line = request.to_string();
        assert!(!line.chars().any(char::is_control), "a terminal would obey {line:?}");
    }
    assert_eq!(Requests::of(&config).digest(), requests.digest(), "the digest depends on more than the file");
    // A comment asks for nothing.
    let commented = format!("{text}\n# a comment\n");
    if let Some(config) = parse(commented) {
        assert_eq!(Requests::of(&config).digest(), requests.digest(), "a comment needs consent");
    }
    // A program does, whatever was asked for before.
    let more = format!("{text}\n[mcp.fuzz-added]\ncommand = [\"/bin/true\"]\n");
    if let Some(config) = parse(more) {
        let more = Requests::of(&config);
        assert_ne!(more.digest(), requests.digest(), "a program was added without consent");
        assert!(!more.is_named_by(requests.digest()));
    }
});
