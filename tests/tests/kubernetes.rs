//! The manifests for Kubernetes are what Kubernetes and KEDA take: `kubernetes-validate` of PyPI and
//! `@kubernetes-models/keda` of npm, which bring their schemas along, read them. The question that the scaler asks is
//! asked of a real journal in `host/journal-postgres/tests/manifest.rs`.

#![allow(clippy::unwrap_used, reason = "a failed test")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const PACKAGE: &str = "kubernetes-validate==1.37.0";

/// KEDA's schemas, and what reads YAML.
const KEDA: [&str; 2] = ["@kubernetes-models/keda@2.0.0", "yaml@2.9.1"];

/// Reads the scaler of a manifest as KEDA's custom resource definition says; a wrong one ends it with what is wrong.
const KEDA_VALIDATOR: &str = r#"
import { readFileSync } from "node:fs";
import { parseAllDocuments } from "yaml";
import { ScaledObject } from "@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject";

const documents = parseAllDocuments(readFileSync(process.argv[2], "utf8")).map((document) => document.toJS());
const scalers = documents.filter((document) => document.apiVersion === "keda.sh/v1alpha1");
for (const scaler of scalers) {
  new ScaledObject(scaler).validate();
  console.log(`${scaler.kind} ${scaler.metadata.name} is valid`);
}
"#;

/// The validator, installed once into a folder that outlasts tests; nothing where Python or the package is not there.
fn validator() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubernetes-validate");
    let program = folder.join("bin/kubernetes-validate");
    let ran = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    if !program.is_file()
        && (!ran(Command::new("python3").args(["-m", "venv"]).arg(&folder))
            || !ran(Command::new(folder.join("bin/pip")).args(["install", "--quiet", "--timeout", "20", PACKAGE])))
    {
        eprintln!("SKIPPED: the manifests for Kubernetes were not validated: `pip install {PACKAGE}` failed");
        return None;
    }
    Some(program)
}

fn validated(program: &Path, manifest: &Path) -> (bool, String) {
    let output = Command::new(program).arg("--strict").arg(manifest).output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (output.status.success(), said)
}

#[test]
fn the_manifests_are_what_kubernetes_takes() {
    let Some(program) = validator() else { return };
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/kubernetes/worker.yaml");
    let (taken, said) = validated(&program, &manifest);
    assert!(taken, "{said}");
    for resource in ["deployment/opcell-worker", "poddisruptionbudget/opcell-worker"] {
        assert!(said.contains(&format!("passed for resource {resource}")), "{said}");
    }
    // It would notice a mistake.
    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("wrong.yaml");
    let text = fs::read_to_string(manifest).unwrap().replace("terminationGracePeriodSeconds", "terminationGracePeriod");
    fs::write(&wrong, text).unwrap();
    let (taken, said) = validated(&program, &wrong);
    assert!(!taken && said.contains("terminationGracePeriod"), "{said}");
}

/// A folder with the validator of KEDA's resources, installed once; nothing where Node or the packages are not there.
fn keda_validator() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("keda-validate");
    let script = folder.join("validate.mjs");
    fs::create_dir_all(&folder).unwrap();
    if !folder.join("node_modules/@kubernetes-models/keda/package.json").is_file() {
        // A package of its own: npm would install into the next one above.
        fs::write(folder.join("package.json"), r#"{"name": "validate", "private": true, "type": "module"}"#).unwrap();
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts"]).args(KEDA).current_dir(&folder);
        if !npm.output().is_ok_and(|output| output.status.success()) {
            eprintln!("SKIPPED: the scaler of KEDA was not validated: `npm install {}` failed", KEDA.join(" "));
            return None;
        }
    }
    fs::write(&script, KEDA_VALIDATOR).unwrap();
    Some(script)
}

#[test]
fn the_scaler_is_what_keda_takes() {
    let Some(script) = keda_validator() else { return };
    let validated = |manifest: &Path| {
        let output = Command::new("node").arg(&script).arg(manifest).output().unwrap();
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (output.status.success(), said)
    };
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/kubernetes/worker.yaml");
    let (taken, said) = validated(&manifest);
    assert!(taken && said.contains("ScaledObject opcell-worker is valid"), "{said}");
    // It would notice a mistake.
    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("wrong.yaml");
    let text = fs::read_to_string(manifest).unwrap();
    for (right, mistake, complaint) in [
        (r#"port: "5432""#, "port: 5432", "port must be string"),
        ("maxReplicaCount: 50", "maxReplicaCount: many", "maxReplicaCount must be integer"),
        ("type: postgresql", "kind: postgresql", "must have required property type"),
    ] {
        assert!(text.contains(right), "{right}");
        fs::write(&wrong, text.replace(right, mistake)).unwrap();
        let (taken, said) = validated(&wrong);
        assert!(!taken && said.contains(complaint), "{mistake}: {said}");
    }
}
