//! Plugins whose component is missing or is not a plugin.

#![allow(clippy::unwrap_used, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

use opcell::{UnusablePlugins, host::runtime, places::Places, prelude::*};
use std::{fs, path::Path};

const PROJECT: &str = "workflows = [\"workflows\"]\n
[plugins.gone]\npath = \"gone.wasm\"\n
[plugins.text]\npath = \"text.wasm\"\n";

/// A project with a plugin that is missing, one that is no component, a workflow without plugins, and one that uses the
/// missing plugin.
fn project(root: &Path) -> Config {
    let steps = [
        ("free", r#"{:name "end" :type :exit :status :success}"#),
        ("bound", r#"{:name "call" :type :invoke :operation "gone/run" :args {}}"#),
    ];
    fs::create_dir(root.join("workflows")).unwrap();
    for (name, step) in steps {
        let text = format!(r#"{{:name "{name}" :description "A test" :steps [{step}]}}"#);
        fs::write(root.join(format!("workflows/{name}.edn")), text).unwrap();
    }
    fs::write(root.join("text.wasm"), "not a component").unwrap();
    fs::write(root.join("opcell.toml"), PROJECT).unwrap();
    Config::load(root.join("opcell.toml")).unwrap()
}

#[test]
fn a_plugin_that_cannot_be_used_is_a_finding_and_workflows_without_it_run() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let config = project(&root);
    runtime().unwrap().block_on(async {
        let builder = Host::builder().config(config).places(Places::default()).compile(CompileMode::TrustedInProcess);
        let host = builder.unusable_plugins(UnusablePlugins::LeaveOut).build().await.unwrap();
        let left_out: Vec<_> = host.left_out().iter().map(|error| (&*error.plugin, error.error.kind())).collect();
        assert_eq!(left_out, [("gone", "plugin-not-found"), ("text", "not-a-component")]);

        let free = host.open("free").unwrap();
        assert_eq!(host.check(&free), []);
        let outcome = host.start(&free, opcell::json!({})).await.unwrap().finished().await.unwrap();
        assert_eq!(outcome.status, Status::Completed);

        let bound = host.open("bound").unwrap();
        let help = host.check(&bound).remove(0).help.unwrap();
        assert!(help.starts_with("plugins `gone`, `text` are not loaded, because their components"), "{help}");
        assert!(host.start(&bound, opcell::json!({})).await.is_err());
    });
}

#[test]
fn unless_it_is_left_out_a_missing_plugin_prevents_a_host() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let config = project(&root);
    let build = Host::builder().config(config).places(Places::default()).compile(CompileMode::TrustedInProcess).build();
    let error = runtime().unwrap().block_on(build).unwrap_err().to_string();
    assert_eq!(error, format!("the file `{}` of plugin `gone` does not exist", root.join("gone.wasm").display()));
}
