//! PromptPack where Opcell does better than the reference, and where its own surface must stay as it is.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests are tests")]

mod agents;
mod checks;
mod governance;
mod packs;
mod published;
mod templates;

use opcell_ir::ir::{ArtifactMode, Control, Form, Goto, Judge, Orchestration};
use opcell_ir::{Severity, SourceFile};
use opcell_types::Value;
use opcell_workflow::companions::Companions;
use opcell_workflow::promptpack::template::{self, TemplateError, Variables, render, render_nested};
use opcell_workflow::promptpack::{self, Spec};
use serde_json::{Value as Json, json};

fn spec(json: Json) -> Spec {
    Spec::from_config(&Value::from(json)).unwrap().unwrap()
}

/// A pack with one prompt `p` and this workflow.
fn pack(workflow: Json) -> Json {
    json!({
        "id": "a-pack", "name": "A pack", "version": "1.0.0",
        "template_engine": {"version": "v1", "syntax": "{{variable}}"},
        "prompts": {"p": {"id": "p", "name": "P", "version": "1.0.0", "system_template": "Be brief."}},
        "workflow": workflow,
    })
}

fn compile(pack: &Json) -> opcell_ir::Compiled {
    promptpack::compile(&SourceFile::new("a.pack.json", serde_json::to_string_pretty(pack).unwrap()))
}

/// The codes of all findings of one severity, sorted.
fn codes(pack: &Json, severity: Severity) -> Vec<&'static str> {
    let mut codes: Vec<_> =
        compile(pack).diagnostics.iter().filter(|found| found.severity == severity).map(|found| found.code).collect();
    codes.sort_unstable();
    codes
}
