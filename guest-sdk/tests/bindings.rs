//! The bindings in `src/bindings/` are what wit-bindgen makes of `wit/`.
//!
//! After a change of the contract, `OPCELL_UPDATE_BINDINGS=1 cargo test -p opcell-sdk --test bindings` rewrites them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::path::Path;
use wit_bindgen_core::wit_parser::Resolve;
use wit_bindgen_core::{Files, WorldGenerator};
use wit_bindgen_rust::{Opts, WithOption};

/// The interfaces of the imports, which the exporting worlds share, each with the version in which it last changed.
const SHARED: [(&str, &str); 7] = [
    ("types", "0.1.0"),
    ("tools", "0.1.0"),
    ("skills", "0.1.0"),
    ("files", "0.1.0"),
    ("log", "0.1.0"),
    ("store", "0.2.0"),
    ("calls", "0.3.0"),
];

fn check(name: &str, world: &str, exports: bool) {
    // Where it runs, not where it was built.
    let package = Path::new("");
    let mut resolve = Resolve::default();
    let (id, _) = resolve.push_dir(package.join("wit")).unwrap();
    let world = resolve.select_world(&[id], Some(world)).unwrap();

    let mut options = Opts {
        format: true,
        additional_derive_attributes: vec!["PartialEq".to_owned()],
        generate_unused_types: !exports,
        // The interfaces of older versions are packages of their own.
        generate_all: !exports,
        ..Opts::default()
    };
    if exports {
        options.pub_export_macro = true;
        options.export_macro_name = Some(format!("export_{name}"));
        options.default_bindings_module = Some(format!("opcell_sdk::bindings::{name}"));
        let shared = |(interface, version): (&str, &str)| {
            let path = format!("super::imports::opcell::plugin{}::{interface}", version.replace('.', "_"));
            (format!("opcell:plugin/{interface}@{version}"), WithOption::Path(path))
        };
        options.with = SHARED.map(shared).to_vec();
    }
    let mut files = Files::default();
    options.build().generate(&mut resolve, world, &mut files).unwrap();
    let (_, generated) = files.iter().next().unwrap();
    let generated = std::str::from_utf8(generated).unwrap();

    let path = package.join("src/bindings").join(format!("{name}.rs"));
    if std::env::var_os("OPCELL_UPDATE_BINDINGS").is_some() {
        std::fs::write(&path, generated).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    assert!(kept == generated, "src/bindings/{name}.rs is not what wit/ says: OPCELL_UPDATE_BINDINGS=1 rewrites it");
}

#[test]
fn imports_are_what_the_contract_says() {
    check("imports", "imports", false);
}

#[test]
fn operations_are_what_the_contract_says() {
    check("operations", "operation-plugin", true);
}

#[test]
fn judges_are_what_the_contract_says() {
    check("judges", "judge-plugin", true);
}
