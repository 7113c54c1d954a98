//! The versions of the contract in `wit/`: what a plugin was built against once, it still finds.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]

mod common;

use common::sandbox;
use opcell_sandbox::{CellRequest, LoadRequest, PluginSource, inspect};
use wit_component::semver_check;
use wit_parser::{Resolve, WorldId};

const WIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit");

const WORLDS: [&str; 4] = ["imports", "operation-plugin", "judge-plugin", "plugin"];

/// A component that was built against 0.1.0 when that was the newest version: `example-operations/echo`.
const OLD_PLUGIN: &[u8] = include_bytes!("old/echo-0.1.0.wasm");

/// BLAKE3 of the frozen files: they never change.
const FROZEN: [(&str, &[(&str, &str)]); 2] = [("0.1.0", &FROZEN_0_1_0), ("0.2.0", &FROZEN_0_2_0)];

const FROZEN_0_1_0: [(&str, &str); 5] = [
    ("host.wit", "88e3aae1ec9d34778dbe9966edd19c43d7d5ab86ea119a5085e3bfc0679e9680"),
    ("judges.wit", "dde610397f9d7eff7c71a0514799f6c0ff6c8ceccdb69d149d62b95357078e15"),
    ("operations.wit", "6f4505984dcb2143228dd6c854a0f5a51b0f9f8c7b47e8ee4ba8efe5c5ba5ae7"),
    ("types.wit", "d6fef4a04f9d9e67822bbdc222332fb42ac0b9dee76d40617cba580a13701321"),
    ("worlds.wit", "94157fdf93823c5033cfce323e1149fa9ab2651a2994e38a40212c5d2f1f5d9c"),
];

const FROZEN_0_2_0: [(&str, &str); 2] = [
    ("store.wit", "8a6750182374104cc2555a704ede10de4214a3c32f2674da25d014e55bb7dcaf"),
    ("worlds.wit", "f15a62a348475cb824639b53e2a732915a84f1b6f524cd088e74b79bfaabf821"),
];

/// A world as two versions have it.
fn worlds(resolve: &mut Resolve, world: &str, versions: [&str; 2]) -> (WorldId, WorldId) {
    resolve.push_dir(WIT).unwrap();
    let [old, new] = versions.map(|version| {
        let is_of = |name: &wit_parser::PackageName| name.version.as_ref().is_some_and(|v| v.to_string() == version);
        resolve.packages.iter().find(|(_, package)| is_of(&package.name)).unwrap().0
    });
    (resolve.select_world(&[old], Some(world)).unwrap(), resolve.select_world(&[new], Some(world)).unwrap())
}

/// The check ignores versions: before 1.0, nothing but this test promises what it promises after 1.0.
#[test]
fn every_world_of_a_version_can_be_upgraded_to_that_of_the_next() {
    let versions = inspect::SERVED_VERSIONS;
    for (old, new) in versions.iter().zip(&versions[1..]) {
        for world in WORLDS {
            let mut resolve = Resolve::default();
            let (older, newer) = worlds(&mut resolve, world, [old, new]);
            let checked = semver_check(resolve, older, newer);
            checked.unwrap_or_else(|error| panic!("{world} of {old} and {new}: {error:#}"));
        }
    }
}

#[test]
fn the_check_sees_what_is_missing() {
    for (versions, what) in [(["0.2.0", "0.1.0"], "store"), (["0.3.0", "0.2.0"], "calls")] {
        let mut resolve = Resolve::default();
        let (newer, older) = worlds(&mut resolve, "imports", versions);
        assert!(semver_check(resolve, newer, older).is_err(), "{} has no {what}", versions[1]);
    }
}

#[test]
fn what_was_released_does_not_change() {
    for (version, files) in FROZEN {
        let folder = format!("{WIT}/deps/plugin-{version}");
        for (file, digest) in files {
            let text = std::fs::read(format!("{folder}/{file}")).unwrap();
            assert_eq!(blake3::hash(&text).to_hex().as_str(), *digest, "{version} of {file} is frozen");
        }
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), files.len());
    }
}

#[tokio::test]
async fn a_plugin_of_0_1_0_loads_and_runs() {
    assert_eq!(inspect::inspect(OLD_PLUGIN).unwrap().contract(), Some("0.1.0"));
    let plugin = sandbox().load(LoadRequest::new("echo", PluginSource::Bytes(OLD_PLUGIN.into()))).await.unwrap();
    let id = plugin.operations()[0].id.to_string();
    let done = plugin.invoke(CellRequest::new(&id, r#"{"text":"as ever"}"#)).await;
    assert!(done.result.unwrap().data.to_json().contains("as ever"));
}
