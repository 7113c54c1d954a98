//! The manifests for Kubernetes are what Kubernetes takes: `kubernetes-validate` of PyPI, which brings its schemas
//! along, reads them. It has none of KEDA; the question that its scaler asks is asked of a real journal in
//! `host/journal-postgres/tests/manifest.rs`.

#![allow(clippy::unwrap_used, reason = "a failed test")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const PACKAGE: &str = "kubernetes-validate==1.37.0";

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
