//! The schemas that servers of the official MCP SDKs list for types of zod 3, zod 4, valibot and pydantic: all of them
//! load. They are made by the real libraries, from npm and PyPI.

#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]

use opcell_schema::Schema;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const NPM: [&str; 8] = [
    "@modelcontextprotocol/sdk@1.32.2",
    "@modelcontextprotocol/server@2.4.0",
    "zod@4.6.7",
    "zod40@npm:zod@4.0.17",
    "zod3@npm:zod@3.25.76",
    "zod-to-json-schema@3.25.2",
    "valibot@1.5.0",
    "@valibot/to-json-schema@1.8.0",
];

const PYPI: [&str; 2] = ["mcp==2.3.0", "pydantic==2.14.4"];

/// A folder that these packages are installed into once, by one test at a time.
fn installed(name: &str, packages: &[&str], install: impl Fn(&Path) -> Result<(), String>) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    let lock = fs::File::create(folder.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    let complete = folder.join("complete");
    if fs::read_to_string(&complete).unwrap_or_default() != packages.join(" ") {
        if let Err(error) = install(&folder) {
            eprintln!("SKIPPED: {} could not be installed: {error}", packages.join(" "));
            return None;
        }
        fs::write(complete, packages.join(" ")).unwrap();
    }
    Some(folder)
}

fn run(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/generators").join(name)
}

/// Compiles each schema of each tool; returns how many, and those that are not fully checked.
fn load(made: &Value) -> (usize, Vec<String>) {
    let (mut loaded, mut warned, mut refused) = (0, Vec::new(), Vec::new());
    for (by, tools) in made.as_object().unwrap() {
        for (name, schemas) in tools.as_object().unwrap() {
            for (kind, schema) in schemas.as_object().unwrap() {
                match Schema::compile_leniently(schema) {
                    Ok(compiled) => {
                        loaded += 1;
                        warned.extend(compiled.warnings().iter().map(|why| format!("{by}, {name}: {why}")));
                    }
                    Err(why) => refused.push(format!("{by}, {name}, {kind}: {why}\n  {schema}")),
                }
            }
        }
    }
    assert!(refused.is_empty(), "{} of {} are refused:\n{}", refused.len(), refused.len() + loaded, refused.join("\n"));
    (loaded, warned)
}

#[test]
fn every_schema_of_zod_and_valibot_through_the_typescript_sdks_loads() {
    let install = |folder: &Path| {
        fs::write(folder.join("package.json"), r#"{"name": "generators", "private": true, "type": "module"}"#).unwrap();
        let mut npm = Command::new("npm");
        run(npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts"]).args(NPM).current_dir(folder))
            .map(drop)
    };
    let Some(folder) = installed("generators-npm", &NPM, install) else { return };
    // Modules are looked up from the folder of the script.
    fs::copy(script("schemas.mjs"), folder.join("schemas.mjs")).unwrap();
    let made =
        run(Command::new("node").arg("schemas.mjs").current_dir(&folder)).unwrap_or_else(|error| panic!("{error}"));
    let made: Value = serde_json::from_slice(&made).unwrap();
    let (loaded, warned) = load(&made);
    assert!(loaded > 1_500, "{loaded}");
    // Only patterns are left to the servers, and the empty `anyOf` that zod writes for a tuple without items.
    let expected = ["the pattern", "depends on", "it is [], expected a list of schemas"];
    let others = warned.iter().filter(|warning| !expected.iter().any(|expected| warning.contains(expected)));
    let others: Vec<_> = others.collect();
    assert!(others.is_empty(), "{others:?}");
    eprintln!("{loaded} schemas of the TypeScript SDKs loaded, {} keywords are not checked", warned.len());
    let takes = |by: &str, name: &str, value: &Value| {
        let schema = Schema::compile_leniently(&made[by][name]["inputSchema"]).unwrap();
        schema.check(&json!({"at": value})).is_ok()
    };
    for by in [
        "sdk 1, zod 3",
        "sdk 1, zod 4",
        "sdk 1, zod 4.0",
        "sdk 2, zod 4",
        "zod 4 draft-4 ref",
        "zod 4 openapi-3.0 inline",
    ] {
        assert!(takes(by, "email", &json!("ada@example.com")), "{by}");
        assert!(takes(by, "tuple", &json!([1, 2])) && !takes(by, "tuple", &json!(["a", 2])), "{by}");
        assert!(takes(by, "positive", &json!(0.5)) && !takes(by, "positive", &json!(0)), "{by}");
        assert!(takes(by, "nullable", &json!(null)) && !takes(by, "nullable", &json!(5)), "{by}");
    }
}

#[test]
fn every_schema_of_pydantic_through_the_python_sdk_loads() {
    let install = |folder: &Path| {
        run(Command::new("python3").args(["-m", "venv", "."]).current_dir(folder))?;
        run(Command::new("bin/pip").args(["install", "--quiet"]).args(PYPI).current_dir(folder)).map(drop)
    };
    let Some(folder) = installed("generators-pypi", &PYPI, install) else { return };
    let made = run(Command::new(folder.join("bin/python")).arg(script("schemas.py")));
    let made: Value = serde_json::from_slice(&made.unwrap_or_else(|error| panic!("{error}"))).unwrap();
    let (loaded, warned) = load(&made);
    assert!(loaded > 180, "{loaded}");
    assert!(warned.iter().all(|warning| warning.contains("the pattern")), "{warned:?}");
    eprintln!("{loaded} schemas of the Python SDK loaded, {} keywords are not checked", warned.len());
    let tree = Schema::compile_leniently(&made["mcp"]["tree"]["inputSchema"]).unwrap();
    assert!(tree.check(&json!({"at": {"name": "a", "kids": [{"name": "b"}]}})).is_ok());
    assert!(tree.check(&json!({"at": {"name": "a", "kids": [{"name": 5}]}})).is_err());
}
