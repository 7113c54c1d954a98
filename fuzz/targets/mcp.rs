//! What an MCP server sends: the list of its tools, or the result of a call.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcell_tools::mcp::fuzzing;
use opcell_types::Value;

fuzz_target!(|text: &str| {
    if let Some(listing) = fuzzing::tools(text) {
        for (name, tool) in &listing.tools {
            for shown in [name, &tool.description] {
                assert!(!shown.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')), "a terminal would obey {shown:?}");
                assert!(shown.len() <= 5 << 10, "{} bytes", shown.len());
            }
            assert!(!listing.refused.contains_key(name), "both used and refused: {name:?}");
        }
    }
    match fuzzing::result(text) {
        Some(Ok(value)) => {
            let again = Value::from_json(&value.to_json()).expect("what a tool returned can be written and read");
            assert_eq!(again, value, "changed by writing and reading");
        }
        Some(Err(failure)) => assert!(failure.message.len() < 16 << 10, "{} bytes", failure.message.len()),
        None => {}
    }
});
