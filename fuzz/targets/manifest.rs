//! What a component says about itself: its manifest, and the surface of any bytes at all.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcell_sandbox::{
    grants::{Grants, Policy},
    inspect,
    manifest::Manifest,
};
use opcell_types::Capability;

fuzz_target!(|bytes: &[u8]| {
    if bytes.starts_with(b"\0asm") {
        if let Err(error) = inspect::inspect(bytes) {
            assert_printable(&error);
        }
        return;
    }
    let manifest = match Manifest::parse(bytes) {
        Ok(manifest) => manifest,
        Err(error) => return assert_printable(&error),
    };
    let policy = Policy::new("fuzz".into(), manifest.requests(), Grants::default());
    // Whatever a manifest says, it grants nothing.
    let asked = [
        (Capability::Tool, &manifest.tools),
        (Capability::Skill, &manifest.skills),
        (Capability::Files, &manifest.files),
    ];
    for (kind, requests) in asked {
        for request in requests {
            let denial = policy.allows(kind, &request.name, None).expect_err("nothing is granted");
            assert_printable(&denial);
        }
    }
});

/// Whoever reads it reads what someone else wrote.
fn assert_printable(text: &dyn std::fmt::Display) {
    let text = text.to_string();
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    assert!(text.len() < 16 << 10, "{} bytes", text.len());
}
