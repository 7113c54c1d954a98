//! What a component says about itself: its manifest, and the surface of any bytes at all.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcell_sandbox::{
    grants::{Grants, Kind, Policy},
    inspect,
    manifest::Manifest,
};

fuzz_target!(|bytes: &[u8]| {
    if bytes.starts_with(b"\0asm") {
        let _ = inspect::inspect(bytes);
        return;
    }
    let Ok(manifest) = Manifest::parse(bytes) else { return };
    let policy = Policy::new("fuzz".into(), manifest.requests(), Grants::default());
    // Whatever a manifest says, it grants nothing.
    for (kind, requests) in [(Kind::Tool, &manifest.tools), (Kind::Skill, &manifest.skills), (Kind::Files, &manifest.files)] {
        for request in requests {
            let denial = policy.allows(kind, &request.name, None).expect_err("nothing is granted");
            assert!(!denial.to_string().chars().any(|c| c.is_control()), "{denial:?}");
        }
    }
});
