//! Any document: finds out its language and hands it to that language's compiler.
//!
//! The name decides, then the text: `.edn` is psi; `.md` is WorkflowSkill when it holds a `workflow` fence and psi
//! otherwise; `.yaml` and `.yml` are bare WorkflowSkill; `.json` is the IR itself when it says `"version":
//! "workflow-ir/v1"`, and a PromptPack otherwise.

use crate::{
    checks,
    companions::Companions,
    compiled::Compiled,
    diagnostic::{Diagnostic, Severity, did_you_mean},
    ir::WorkflowIr,
    json::{Document, pointer_part},
    promptpack, psi,
    source::{SourceFile, SourceMap, Span},
    validate, workflowskill,
};
use std::{path::Path, sync::Arc};

/// A language that workflows are written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Language {
    /// psi, several steps in EDN.
    PsiEdn,
    /// psi, one step in Markdown.
    PsiMarkdown,
    /// WorkflowSkill, in Markdown or bare YAML.
    WorkflowSkill,
    /// PromptPack, in JSON.
    PromptPack,
    /// The execution model itself, as JSON.
    Ir,
}

const IR_VERSION: &str = "workflow-ir/v1";

impl Language {
    /// The language of a document; `None` when neither the name nor the text decides.
    #[must_use]
    pub fn of(source: &SourceFile) -> Option<Self> {
        match Path::new(source.name()).extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "edn" => Some(Self::PsiEdn),
            "md" | "markdown" if workflowskill::has_workflow_block(source.text()) => Some(Self::WorkflowSkill),
            "md" | "markdown" => Some(Self::PsiMarkdown),
            "yaml" | "yml" => Some(Self::WorkflowSkill),
            "json" if says_ir(source.text()) => Some(Self::Ir),
            "json" => Some(Self::PromptPack),
            _ => None,
        }
    }
}

/// Whether a JSON text says at its root that it is an IR. Everything else in it is skipped, not kept.
fn says_ir(text: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Root {
        version: String,
    }
    serde_json::from_str::<Root>(text).is_ok_and(|root| root.version == IR_VERSION)
}

/// Compiles a document of any language.
#[must_use]
pub fn compile(source: &SourceFile, companions: &dyn Companions) -> Compiled {
    opcell_types::suggest::bounded(|| compile_as(Language::of(source), source, companions))
}

fn compile_as(language: Option<Language>, source: &SourceFile, companions: &dyn Companions) -> Compiled {
    match language {
        Some(Language::PsiEdn) => with_flow_checks(psi::compile_edn(source, companions)),
        Some(Language::PsiMarkdown) => with_flow_checks(psi::compile_markdown(source)),
        Some(Language::WorkflowSkill) => workflowskill::compile(source),
        Some(Language::PromptPack) => promptpack::compile_with(source, companions),
        Some(Language::Ir) => compile_ir(source),
        None => {
            let message = format!("`{}` is not a workflow document: unknown extension", source.name());
            refused(
                Diagnostic::error("unknown-language", message).help("expected a .edn, .md, .yaml, .yml or .json file"),
            )
        }
    }
}

fn refused(diagnostic: Diagnostic) -> Compiled {
    Compiled { ir: None, spans: SourceMap::default(), diagnostics: vec![diagnostic] }
}

/// Adds what is remarkable about the ways through a workflow. (WorkflowSkill and PromptPack have checks of their own.)
fn with_flow_checks(mut compiled: Compiled) -> Compiled {
    if let Some(ir) = &compiled.ir {
        let found = checks::flow(ir).into_iter().map(|found| compiled.spans.locate(found));
        compiled.diagnostics.extend(found);
    }
    compiled
}

/// Reads an IR and checks it.
fn compile_ir(source: &SourceFile) -> Compiled {
    let failed = |diagnostics| Compiled { ir: None, spans: SourceMap::default(), diagnostics };
    let document = match Document::read(source) {
        Ok(document) => document,
        Err(diagnostics) => return failed(diagnostics),
    };
    let unknown = unknown_step_keys(&document);
    if !unknown.is_empty() {
        return failed(unknown);
    }
    let ir: WorkflowIr = match serde_json::from_str(source.text()) {
        Ok(ir) => ir,
        Err(error) => {
            let offset = source.offset(error.line(), error.column());
            return failed(vec![Diagnostic::error("invalid-ir", error.to_string()).at(Span::new(offset, offset))]);
        }
    };
    let located = |found: Diagnostic| {
        let place = found.path.as_deref().and_then(|path| document.value_span(&pointer(path)));
        found.at(place)
    };
    let mut diagnostics = validate::validate(&ir);
    if diagnostics.is_empty() {
        diagnostics = checks::flow(&ir);
    }
    let diagnostics: Vec<Diagnostic> = diagnostics.into_iter().map(located).collect();
    let ir = diagnostics.iter().all(|found| found.severity != Severity::Error).then(|| Arc::new(ir));
    Compiled { ir, spans: SourceMap::default(), diagnostics }
}

/// `steps[0].invoke.args` as a JSON pointer, `/steps/0/invoke/args`.
fn pointer(path: &str) -> String {
    let parts = path.split(['.', '[', ']']).filter(|part| !part.is_empty());
    parts.map(|part| format!("/{}", pointer_part(part))).collect()
}

/// Keys of steps that mean nothing. The types refuse unknown keys everywhere else; a step's form is flattened into it,
/// which turns that check off.
fn unknown_step_keys(document: &Document) -> Vec<Diagnostic> {
    const KEYS: [&str; 21] = [
        "persistence",
        "name",
        "type",
        "description",
        "grouped",
        "depends-on",
        "when",
        "each",
        "retry",
        "on-error",
        "timeout-ms",
        "limits",
        "capabilities",
        "outputs",
        "yields",
        "judge",
        "on",
        "max-iterations",
        "max-visits",
        "on-max-visits",
        "terminal",
    ];
    let mut found = Vec::new();
    let steps = document.json.get("steps").and_then(serde_json::Value::as_array).into_iter().flatten();
    for (i, step) in steps.enumerate() {
        let form = step.get("type").and_then(serde_json::Value::as_str).unwrap_or_default();
        for key in step.as_object().into_iter().flat_map(serde_json::Map::keys) {
            if KEYS.contains(&key.as_str()) || key == form {
                continue;
            }
            let error = Diagnostic::error("unknown-key", format!("unknown key `{key}` in a step"))
                .path(format!("steps[{i}].{key}"));
            found.push(match did_you_mean(key, KEYS.into_iter().chain([form])) {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None => error,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Language, compile};
    use crate::{companions::NoCompanions, source::SourceFile};

    fn language(name: &str, text: &str) -> Option<Language> {
        Language::of(&SourceFile::new(name, text))
    }

    fn codes(name: &str, text: &str) -> Vec<&'static str> {
        compile(&SourceFile::new(name, text), &NoCompanions).diagnostics.iter().map(|found| found.code).collect()
    }

    #[test]
    fn name_and_text_tell_the_language() {
        assert_eq!(language("a/b.edn", ""), Some(Language::PsiEdn));
        assert_eq!(language("b.md", "---\nname: x\n---\nDo."), Some(Language::PsiMarkdown));
        assert_eq!(language("SKILL.md", "```workflow\nsteps: []\n```"), Some(Language::WorkflowSkill));
        assert_eq!(language("b.YML", ""), Some(Language::WorkflowSkill));
        assert_eq!(language("b.json", r#"{"steps":[],"version":"workflow-ir/v1"}"#), Some(Language::Ir));
        assert_eq!(language("b.json", r#"{"version":"1.0"}"#), Some(Language::PromptPack));
        assert_eq!(language("b.json", "{"), Some(Language::PromptPack));
        assert_eq!(language("b.txt", ""), None);
        assert_eq!(language("b", ""), None);
    }

    #[test]
    fn the_ir_is_a_document_too() {
        let ir = r#"{"version":"workflow-ir/v1","name":"w","steps":[{"name":"a","type":"invoke","invoke":{"operation":"x/y"},
            "outputs":{"data":{"source":"invoke/data"}},"yields":{"type":"data","data":"data"}}]}"#;
        let compiled = compile(&SourceFile::new("w.json", ir), &NoCompanions);
        assert!(compiled.is_clean(), "{:?}", compiled.diagnostics);
        assert_eq!(
            codes("w.json", &ir.replace("\"data\":\"data\"", "\"data\":\"dat\"")),
            ["missing-local-yield-output-key"]
        );
        assert_eq!(codes("w.json", &ir.replace("\"outputs\"", "\"output\"")), ["unknown-key"]);
        assert_eq!(codes("w.json", &ir.replace("\"operation\"", "\"operator\"")), ["invalid-ir"]);
    }

    #[test]
    fn what_is_no_document_says_what_was_expected() {
        assert_eq!(codes("w.json", "{"), ["json-syntax"]);
        assert_eq!(codes("w.json", ""), ["json-syntax"]);
        assert_eq!(codes("w.txt", ""), ["unknown-language"]);
    }

    #[test]
    fn bytes_that_are_no_text_are_refused_with_their_place() {
        let error = SourceFile::from_bytes("w.edn", b"{:a\n \xff}".to_vec()).unwrap_err();
        assert_eq!(error.code, "not-utf-8");
        assert!(error.message.contains("byte 5, on line 2"), "{}", error.message);
    }
}
