//! The committed description of the API is the one that the server serves.

#![allow(clippy::unwrap_used, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

use std::{fs, path::Path};

#[test]
fn the_committed_description_of_the_api_is_what_the_server_serves() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas/openapi.json");
    let served = opcell_server::api::openapi_text();
    if std::env::var("SNAPSHOTS").is_ok_and(|mode| mode == "overwrite") {
        fs::write(&path, &served).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let at = committed.lines().zip(served.lines()).position(|(committed, served)| committed != served);
    assert!(
        committed == served,
        "docs/schemas/openapi.json differs from line {:?} on; `SNAPSHOTS=overwrite cargo test -p opcell-server --test openapi` writes it",
        at.map(|at| at + 1)
    );
}
