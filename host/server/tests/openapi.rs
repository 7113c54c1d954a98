//! The committed OpenAPI file is what the server serves.

#![allow(clippy::unwrap_used, reason = "a failed test")]

use std::{fs, path::Path};

#[test]
fn the_committed_openapi_file_is_what_is_served() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    let served = opcell_server::api::openapi_text();
    if std::env::var_os("SNAPSHOTS").is_some_and(|value| value == "overwrite") {
        fs::write(&file, &served).unwrap();
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == served, "{} is out of date: SNAPSHOTS=overwrite writes it", file.display());
}
