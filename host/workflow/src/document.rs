//! Any document: finds out its language and hands it to that language's compiler.
//!
//! The name decides, then the text: `.edn` is psi; `.md` is WorkflowSkill when it holds a `workflow` fence, or what can
//! only have been meant for one, and psi otherwise; `.yaml` and `.yml` are bare WorkflowSkill; `.json` is the IR itself
//! when its `version` is one of `workflow-ir`, or it has `steps` and nothing of a pack, and a PromptPack otherwise.
//!
//! [`Language::of`] is the only place that decides, and a text that it takes for one language is never read as another.

use crate::{
    companions::Companions,
    json::{Document, pointer_part},
    promptpack, psi, workflowskill,
};
use opcell_ir::{
    checks,
    compiled::Compiled,
    diagnostic::{self, Diagnostic, Severity, did_you_mean},
    ir::{PathSegment, Projection, SourceRef, WorkflowIr},
    source::{SourceFile, SourceMap, Span},
    validate,
};
use serde::Deserialize as _;
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

/// The beginning of every IR's version.
const IR_FAMILY: &str = "workflow-ir";
const IR_VERSION: &str = "workflow-ir/v1";

impl Language {
    /// The language of a document; `None` when neither the name nor the text decides.
    #[must_use]
    pub fn of(source: &SourceFile) -> Option<Self> {
        match Path::new(source.name()).extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "edn" => Some(Self::PsiEdn),
            "md" | "markdown" if workflowskill::is_meant(source.text()) => Some(Self::WorkflowSkill),
            "md" | "markdown" => Some(Self::PsiMarkdown),
            "yaml" | "yml" => Some(Self::WorkflowSkill),
            "json" if says_ir(source.text()) => Some(Self::Ir),
            "json" => Some(Self::PromptPack),
            _ => None,
        }
    }
}

/// Returns `true` if a JSON text is an IR by its root: by its version, whichever, or by steps without the prompts of a
/// pack. Everything else in it is skipped, not kept.
fn says_ir(text: &str) -> bool {
    use serde::de::IgnoredAny;
    #[derive(serde::Deserialize)]
    struct Root {
        #[serde(default)]
        version: serde_json::Value,
        steps: Option<IgnoredAny>,
        prompts: Option<IgnoredAny>,
        template_engine: Option<IgnoredAny>,
    }
    serde_json::from_str::<Root>(text).is_ok_and(|root| {
        let version = root.version.as_str().unwrap_or_default();
        version.starts_with(IR_FAMILY)
            || (root.steps.is_some() && root.prompts.is_none() && root.template_engine.is_none())
    })
}

/// Compiles a document of any language.
#[must_use]
pub fn compile(source: &SourceFile, companions: &dyn Companions) -> Compiled {
    described(|| compile_as(Language::of(source), source, companions))
}

/// Compiles within the bounds of suggestions and of findings.
fn described(compile: impl FnOnce() -> Compiled) -> Compiled {
    let compiled = opcell_types::suggest::bounded(|| diagnostic::bounded(compile));
    Compiled { diagnostics: diagnostic::listed(compiled.diagnostics), ..compiled }
}

fn compile_as(language: Option<Language>, source: &SourceFile, companions: &dyn Companions) -> Compiled {
    match language {
        Some(Language::PsiEdn) => with_flow_checks(psi::compile_edn(source, companions)),
        Some(Language::PsiMarkdown) => {
            let mut compiled = with_flow_checks(psi::compile_markdown(source));
            compiled.diagnostics.extend(workflowskill::doubt(source.text()));
            compiled
        }
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

/// Compiles one prompt of a PromptPack, asked by itself.
#[must_use]
pub fn compile_prompt(source: &SourceFile, companions: &dyn Companions, prompt: &str) -> Compiled {
    if Language::of(source) == Some(Language::PromptPack) {
        return described(|| promptpack::compile_prompt(source, companions, prompt));
    }
    let message = format!("`{}` is not a PromptPack, and has no prompts to choose from", source.name());
    refused(Diagnostic::error("not-a-pack", message))
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

/// The message about a value of an IR that has none of the forms of values.
const NO_VALUE: &str = "before this place is a value of no known form: expected `value`, `expression`, `interpolation`, \
                        `fields`, `items`, a template, or a source: `from` (\"workflow-input\", \"workflow-original\", a \
                        step's output or yield, an artifact) with `path` or `projection`";

/// Reads an IR and checks it.
fn compile_ir(source: &SourceFile) -> Compiled {
    let failed = |diagnostics| Compiled { ir: None, spans: SourceMap::default(), diagnostics };
    let document = match Document::read(source) {
        Ok(document) => document,
        Err(diagnostics) => return failed(diagnostics),
    };
    let version = document.json.get("version").and_then(serde_json::Value::as_str);
    if version != Some(IR_VERSION) {
        let message = match version {
            Some(version) => format!("there is no version `{version}` of the IR"),
            None => "an IR says which version it is".to_owned(),
        };
        let place = document.value_span("/version").or_else(|| document.value_span(""));
        let help = format!("expected \"version\": \"{IR_VERSION}\"");
        return failed(vec![Diagnostic::error("unknown-version", message).at(place).help(help)]);
    }
    let unknown = unknown_step_keys(&document);
    if !unknown.is_empty() {
        return failed(unknown);
    }
    let ir: WorkflowIr = match serde_json::from_str(source.text()) {
        Ok(ir) => ir,
        Err(error) => {
            if let Some(found) = wrong_source(&document) {
                return failed(vec![found]);
            }
            let offset = source.offset(error.line(), error.column());
            let message =
                error.to_string().replace("data did not match any variant of untagged enum ValueSpec", NO_VALUE);
            return failed(vec![Diagnostic::error("invalid-ir", message).at(Span::new(offset, offset))]);
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

/// The first source of an IR that cannot be read. The reader says of a value only that it has none of its forms, at the
/// end of its step.
fn wrong_source(document: &Document) -> Option<Diagnostic> {
    /// The last part of a pointer.
    enum Part<'d> {
        Key(&'d str),
        Item(usize),
    }
    // Of each value its key or number, and the length of the pointer to what it is in: a pointer of its own for each
    // would repeat the keys around it.
    let mut open = vec![(0, None, &document.json)];
    let mut pointer = String::new();
    while let Some((length, part, value)) = open.pop() {
        pointer.truncate(length);
        match part {
            Some(Part::Key(key)) => pointer.push_str(&format!("/{}", pointer_part(key))),
            Some(Part::Item(at)) => pointer.push_str(&format!("/{at}")),
            None => {}
        }
        match value {
            serde_json::Value::Object(entries) => {
                if let Some(problem) = entries.get("from").and_then(|from| source_problem(from, entries)) {
                    let help = "expected `from` (\"workflow-input\", \"workflow-original\", \"handover\", {\"step\", \"output\"}, \
                                {\"step\", \"yield\"} or {\"artifact\"}) with `path` or `projection`";
                    let found = Diagnostic::error("invalid-ir", problem).at(document.value_span(&pointer));
                    return Some(found.path(pointer).help(help));
                }
                // A literal may hold anything.
                let inner = entries.iter().rev().filter(|(key, _)| *key != "value");
                open.extend(inner.map(|(key, value)| (pointer.len(), Some(Part::Key(key)), value)));
            }
            serde_json::Value::Array(items) => {
                let items = items.iter().enumerate().rev();
                open.extend(items.map(|(at, item)| (pointer.len(), Some(Part::Item(at)), item)));
            }
            _ => {}
        }
    }
    None
}

fn source_problem(from: &serde_json::Value, entries: &serde_json::Map<String, serde_json::Value>) -> Option<String> {
    if let Err(error) = SourceRef::deserialize(from) {
        // Its sentence is about variants of a type, unless the source is a word.
        return Some(match from.as_str() {
            Some(word) => format!("there is no source `{}`", opcell_types::text::one_line(word, 60)),
            None => format!("`from` names no source: {error}").replace(UNTAGGED, "it has none of the known forms"),
        });
    }
    match (entries.get("path"), entries.get("projection")) {
        (Some(_), Some(_)) => Some("a source has `path` or `projection`, and not both".to_owned()),
        (_, Some(projection)) => {
            let projection = Projection::deserialize(projection).err();
            projection
                .map(|_| "`projection` must be an object whose `type` is \"none\", \"full\" or \"tail\"".to_owned())
        }
        (Some(path), None) => {
            let path = Vec::<PathSegment>::deserialize(path).err();
            path.map(|_| "`path` must be an array of keys and indexes".to_owned())
        }
        (None, None) => None,
    }
}

/// The end of serde's sentence about a value of no known form.
const UNTAGGED: &str = "data did not match any variant of untagged enum SourceRef";

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
    use crate::companions::NoCompanions;
    use opcell_ir::source::SourceFile;

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
        assert_eq!(language("b.json", r#"{"version":"workflow-ir/v2"}"#), Some(Language::Ir));
        assert_eq!(language("b.json", r#"{"steps":[]}"#), Some(Language::Ir));
        assert_eq!(language("b.json", r#"{"version":"1.0"}"#), Some(Language::PromptPack));
        assert_eq!(language("b.json", r#"{"steps":[],"prompts":{}}"#), Some(Language::PromptPack));
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
    fn a_source_that_cannot_be_read_is_named_at_its_place() {
        let ir = |source: &str| {
            format!(
                r#"{{"version":"workflow-ir/v1","name":"w","steps":[{{"name":"a","type":"invoke","invoke":{{"operation":"x/y","args":{{"q":{source}}}}}}}]}}"#
            )
        };
        for (source, words) in [
            (r#"{"from":"workflow-runtime"}"#, "there is no source `workflow-runtime`"),
            (r#"{"from":{"stpe":"a"}}"#, "`from` names no source"),
            (r#"{"from":"workflow-input","path":["a"],"projection":"none"}"#, "and not both"),
            (r#"{"from":"workflow-input","projection":"none"}"#, "`projection` must be an object"),
            (r#"{"from":"workflow-input","path":"a"}"#, "an array of keys and indexes"),
        ] {
            let text = ir(source);
            let compiled = compile(&SourceFile::new("w.json", text.as_str()), &NoCompanions);
            let [found] = compiled.diagnostics.as_slice() else { panic!("{source}: {:?}", compiled.diagnostics) };
            assert!(found.message.contains(words) && !found.message.contains("untagged"), "{}", found.message);
            let span = found.span.unwrap();
            assert_eq!(&text[span.start..span.end], source);
        }
    }

    #[test]
    fn an_ir_of_another_version_is_told_so() {
        assert_eq!(codes("w.json", r#"{"version":"workflow-ir/v2","steps":[]}"#), ["unknown-version"]);
        assert_eq!(codes("w.json", r#"{"name":"w","steps":[]}"#), ["unknown-version"]);
    }

    #[test]
    fn markdown_that_was_meant_as_a_workflow_is_one_or_is_refused_and_never_a_prompt() {
        let text = |fence: &str| {
            format!("---\nname: w\ndescription: d\n---\n{fence}\nsteps:\n  - {{ id: a, type: tool, tool: t }}\n```\n")
        };
        for fence in ["``` workflow", "```Workflow", "```yaml", "> ``` workflow", "```workflow x=1"] {
            let source = SourceFile::new("w.md", text(fence));
            assert_eq!(Language::of(&source), Some(Language::WorkflowSkill), "{fence}");
            let compiled = compile(&source, &NoCompanions);
            assert!(compiled.ir.is_none(), "{fence}");
            let [found] = compiled.diagnostics.as_slice() else { panic!("{fence}: {:?}", compiled.diagnostics) };
            assert_eq!(found.code, "workflow-fence");
            assert!(found.span.is_some_and(|span| span.start > 0), "{fence}");
        }
        let other = text("```yaml").replace("{ id: a, type: tool, tool: t }", "command: make");
        assert_eq!(codes("w.md", &other), ["looks-like-a-workflow"]);
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
