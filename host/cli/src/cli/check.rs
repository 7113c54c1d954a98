//! `opcell check`: one verdict per file, with every finding.

use super::{Exit, Failure, Global, Terminal, units::counted};
use clap::Args;
use indicatif::ProgressBar;
use opcell::{
    config::{Config, tools::ToolTarget},
    document::{self, Document},
    host::Host,
    library::defined_twice,
    places::real,
    report,
    run::Workflow,
    triggers::TriggerAction,
};
use opcell_ir::{Diagnostic, Severity, ir::Form};
use opcell_workflow::document::Language;
use serde_json::json;
use std::{
    collections::{HashMap, hash_map::Entry},
    fmt::Write as _,
    io::IsTerminal,
    path::{Path, PathBuf},
    sync::Arc,
};

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Documents, or folders that contain them; the project's workflows if omitted.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Treat warnings as errors. Without it, whatever the reference runtime accepts is at most a warning.
    #[arg(long)]
    strict: bool,
}

pub async fn check(global: &Global, args: &CheckArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    // Operations are looked up in the project's plugins where there is a project.
    let host = match global.has_project()? {
        true => Some(global.looking(terminal).await?),
        false => None,
    };
    if let Some(host) = &host {
        match args.files.is_empty() {
            true => host.skills().findings().iter().for_each(|finding| {
                tracing::warn!("{}: {}", finding.path.display(), finding.message);
            }),
            false => crate::cli::warn_of_skills(host),
        }
    }
    let (mut folders, mut of_project, mut script) = (Vec::new(), Vec::new(), None);
    let (mut others, mut loose) = (String::new(), Vec::new());
    if args.files.is_empty() {
        let config = global.config()?;
        loose = host.as_ref().map(|host| loose_ends(&config, host)).unwrap_or_default();
        others = parts_beside_workflows(&config, host.as_ref());
        script = config.sessions.script.as_deref().map(real);
        folders = config.workflows.clone();
        of_project = config.default_workflows.into_iter().chain(config.workflows).collect();
    }
    if args.files.is_empty() && of_project.is_empty() && others.is_empty() {
        let message =
            "there is nothing to check: no file is named, and no project with workflows, skills or plugins is here";
        return Err(Diagnostic::error("nothing-to-check", message).help("name a document, or a folder of them").into());
    }
    let mut files = document::expand(if args.files.is_empty() { &of_project } else { &args.files });
    // The script of the project's model may be among its workflows, and is none.
    files.retain(|found| script.is_none() || script != Some(real(&found.file)));
    let mut defined: HashMap<(Option<PathBuf>, Arc<str>), PathBuf> = HashMap::new();
    let watched = !terminal.quiet && !terminal.json && std::io::stderr().is_terminal() && files.len() > 20;
    let bar = if watched { ProgressBar::new(files.len() as u64) } else { ProgressBar::hidden() };

    let mut verdicts = Vec::new();
    // Documents that are named are judged by themselves: one that uses such a plugin has a finding of its own.
    let unusable = host.as_ref().map(unusable_plugins).unwrap_or_default();
    let mut all_good = unusable.is_empty() || !args.files.is_empty();
    for finding in &loose {
        let is_error = finding.diagnostics.iter().any(|finding| finding.severity == Severity::Error);
        all_good &= !(is_error || args.strict);
        match (terminal.json, is_error) {
            (true, _) => {}
            (false, true) => terminal.rejected(finding),
            (false, false) => terminal.warning(finding),
        }
    }
    for found in files {
        let (file, name) = (&found.file, found.file.display().to_string());
        let (document, rejected) = match found.read() {
            Err(unreadable) => (None, Some(unreadable)),
            Ok(mut document) => {
                if let (Some(host), Ok(workflow)) = (&host, Workflow::of(document.clone())) {
                    document.diagnostics.extend(host.check(&workflow));
                }
                if let (Some(ir), Some(folder)) = (&document.ir, &found.folder) {
                    // The folders of a project are one.
                    let scope = Some(folder.clone()).filter(|folder| !folders.contains(folder));
                    match defined.entry((scope, ir.name.clone())) {
                        Entry::Vacant(entry) => drop(entry.insert(file.clone())),
                        Entry::Occupied(entry) if real(entry.get()) == real(file) => {}
                        Entry::Occupied(entry) => {
                            document.diagnostics.extend(defined_twice(&ir.name, entry.get(), file).diagnostics);
                        }
                    }
                }
                (Some(document), None)
            }
        };
        let good = document.as_ref().is_some_and(|document| !document.is_rejected(args.strict));
        all_good &= good;
        if terminal.json {
            verdicts.push(verdict_json(&name, good, document.as_ref(), rejected.as_ref()));
        } else {
            bar.suspend(|| {
                terminal.rendered(&verdict_text(
                    &name,
                    good,
                    document.as_ref(),
                    rejected.as_ref(),
                    args.strict,
                    terminal,
                ))
            })?;
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    if args.files.is_empty() && of_project.is_empty() && !terminal.json {
        terminal.rendered(&format!(
            "{} the project, without workflows: {others}\n",
            if all_good { "ok   " } else { "wrong" }
        ))?;
    }
    if terminal.json {
        let mut report = json!({"ok": all_good, "files": verdicts});
        if let (false, Some(report)) = (unusable.is_empty(), report.as_object_mut()) {
            report.insert("plugins".to_owned(), unusable.into());
        }
        if let (false, Some(report)) = (loose.is_empty(), report.as_object_mut()) {
            let findings: Vec<serde_json::Value> = loose.iter().flat_map(report::Rejected::to_json).collect();
            report.insert("project".to_owned(), findings.into());
        }
        terminal.json(&report)?;
    }
    Ok(if all_good { Exit::Done } else { Exit::InputWrong })
}

/// Names of the project file that lead nowhere, although no document uses them yet: operations of tools, and workflows of
/// triggers.
fn loose_ends(config: &Config, host: &Host) -> Vec<report::Rejected> {
    let helped = |finding: Diagnostic, found: report::Rejected| {
        report::Rejected::plain(match found.diagnostics.into_iter().next().and_then(|found| found.help) {
            Some(help) => finding.help(help),
            None => finding,
        })
    };
    let tools = config.tools.iter().filter_map(|(tool, target)| {
        let ToolTarget::Operation(target) = target else { return None };
        let found = host.catalog().find(target).err().filter(|_| !host.catalog().knows_name(tool))?;
        let message = format!("the tool `{tool}` is bound to `{target}`, and no plugin of the project offers that");
        Some(helped(Diagnostic::warning("unknown-operation", message), found))
    });
    let triggers = config.triggers.iter().filter_map(|trigger| {
        let TriggerAction::Start { workflow } = &trigger.action else { return None };
        let found = host.library().open(workflow).err()?;
        // One that is wrong has findings of its own.
        found.diagnostics.iter().find(|finding| finding.code == "unknown-workflow")?;
        let message = format!("the trigger `{}` starts the workflow `{workflow}`, which is not there", trigger.name);
        // A server does not start with it.
        Some(helped(Diagnostic::error("unknown-workflow", message), found))
    });
    tools.chain(triggers).collect()
}

/// The plugins and skills of a project, counted; empty where there are none.
fn parts_beside_workflows(config: &Config, host: Option<&Host>) -> String {
    let skills = host.filter(|_| !config.skills.is_empty()).map(|host| (host.skills().skills().count(), "skill"));
    let plugins = Some((config.plugins.len(), "plugin")).filter(|(count, _)| *count > 0);
    let counts = plugins.into_iter().chain(skills);
    counts.map(|(count, what)| counted(count as u64, what)).collect::<Vec<_>>().join(", ")
}

/// The project's plugins that are missing or cannot be used, with the findings about each.
fn unusable_plugins(host: &Host) -> Vec<serde_json::Value> {
    let unusable = host.left_out().iter().filter(|left_out| left_out.error.is_of_component());
    unusable.map(|left_out| json!({"name": left_out.plugin, "findings": left_out.to_rejected().to_json()})).collect()
}

fn verdict_json(
    name: &str,
    good: bool,
    document: Option<&Document>,
    rejected: Option<&report::Rejected>,
) -> serde_json::Value {
    let diagnostics = match (document, rejected) {
        (Some(document), _) => {
            document.diagnostics.iter().map(|finding| report::to_json(Some(&document.source), finding)).collect()
        }
        (None, Some(rejected)) => rejected.to_json(),
        (None, None) => Vec::new(),
    };
    let language = document.and_then(|document| document.language).map(document::language_name);
    json!({"file": name, "ok": good, "language": language, "diagnostics": diagnostics})
}

/// The kind of document that a text was taken for, unless its name says it. A prompt's power is part of it.
fn taken_for(document: &Document) -> Option<String> {
    let name = document.source.name();
    Some(match document.language? {
        Language::WorkflowSkill if !has_extension(name, &["yaml", "yml"]) => "WorkflowSkill".to_owned(),
        Language::PsiMarkdown => {
            let session = document.ir.as_ref().and_then(|ir| ir.steps.first()).map(|step| &step.form);
            match session {
                Some(Form::Session { session }) => match session.tools.as_deref() {
                    None => "psi: a prompt that a model is sent, with every tool of the project".to_owned(),
                    Some([]) => "psi: a prompt that a model is sent, without tools".to_owned(),
                    Some(tools) => {
                        format!("psi: a prompt that a model is sent, with {}", counted(tools.len() as u64, "tool"))
                    }
                },
                _ => "psi: a prompt that a model is sent".to_owned(),
            }
        }
        Language::Ir => "IR".to_owned(),
        Language::PromptPack if !name.to_ascii_lowercase().ends_with(".pack.json") => "PromptPack".to_owned(),
        Language::PsiEdn | Language::WorkflowSkill | Language::PromptPack => return None,
    })
}

fn has_extension(name: &str, endings: &[&str]) -> bool {
    let ending = Path::new(name).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    endings.iter().any(|known| ending.eq_ignore_ascii_case(known))
}

fn verdict_text(
    name: &str,
    good: bool,
    document: Option<&Document>,
    rejected: Option<&report::Rejected>,
    strict: bool,
    terminal: &Terminal,
) -> String {
    let count = |severity| {
        let findings = document.map_or(&[] as &[_], |document| &document.diagnostics);
        findings.iter().filter(|finding| finding.severity == severity).count()
    };
    let (errors, warnings) = (count(Severity::Error) + usize::from(document.is_none()), count(Severity::Warning));
    let mut text = format!("{} {}", if good { "ok   " } else { "wrong" }, report::printable(name));
    if let Some(taken_for) = document.and_then(taken_for) {
        let _ = write!(text, " ({taken_for})");
    }
    let plural = |n: usize| if n == 1 { "" } else { "s" };
    match (errors, warnings) {
        (0, 0) => {}
        (0, w) => {
            let _ = write!(text, ": {w} warning{}{}", plural(w), if strict { " (strict)" } else { "" });
        }
        (e, 0) => {
            let _ = write!(text, ": {e} error{}", plural(e));
        }
        (e, w) => {
            let _ = write!(text, ": {e} error{}, {w} warning{}", plural(e), plural(w));
        }
    }
    text.push('\n');
    if let Some(document) = document {
        text.push_str(&report::render_all(Some(&document.source), &document.diagnostics, terminal.color_out));
    }
    if let Some(rejected) = rejected {
        text.push_str(&rejected.render(terminal.color_out));
    }
    text
}
