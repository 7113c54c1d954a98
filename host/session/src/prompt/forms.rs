//! The text of a prompt: each component in lambda mode and in prose.

use super::parts::{ContextFile, Entry, PromptContribution};
use opcell_ir::ir::PromptMode;
use opcell_types::text::cleaned;
use std::{borrow::Cow, fmt::Write as _};

const LAMBDA_PREAMBLE: &str = "\
λ engage(opcell). notation ≡ lambda | symbols bind, prose explains
λ identity(agent). worker ∈ step(workflow) | host(opcell) routes | reach ≡ tools ∪ skills ∪ workflows(listed)
λ work. observe → decide → act → verify | repeat until done(step)
λ guidelines. evidence > guess | small(change) > large(change) | unknown → say(unknown)
  final(message) ≡ result(step)";

const PROSE_PREAMBLE: &str = "\
You are an agent that works on one step of a workflow. The Opcell host runs the workflow and decides where it goes next; \
you can reach exactly the tools, skills and workflows listed here.

Guidelines:
- Look before you decide, and check what you did before you answer.
- Prefer what you have seen to what you suppose, and say so where you do not know.
- Prefer small changes to large ones.
- Your last message is the step's result.";

/// The opening of a prompt.
pub(super) fn preamble(mode: PromptMode) -> String {
    match mode {
        PromptMode::Lambda => LAMBDA_PREAMBLE,
        PromptMode::Prose => PROSE_PREAMBLE,
    }
    .to_owned()
}

/// Renders the tools that the model may call. Said even when it is nothing, so that a model does not invent tools.
pub(super) fn tools(mode: PromptMode, tools: &[&Entry], unavailable: &[String]) -> String {
    let mut text = match mode {
        PromptMode::Lambda if tools.is_empty() => "λ tools. ∅".to_owned(),
        PromptMode::Lambda => lambda_list("λ tools.", tools),
        PromptMode::Prose if tools.is_empty() => "Available tools:\n(none)".to_owned(),
        PromptMode::Prose => prose_list("Available tools:", tools),
    };
    if !unavailable.is_empty() {
        let names = unavailable.join(", ");
        let names = one_line(&names);
        text.push_str(&match mode {
            PromptMode::Lambda => format!("\n  ¬available: {names}"),
            PromptMode::Prose => format!("\n\nMentioned by the workflow but not available here: {names}"),
        });
    }
    text
}

/// Renders the skills that the model may read.
pub(super) fn skills(mode: PromptMode, skills: &[&Entry]) -> String {
    match mode {
        PromptMode::Lambda => {
            lambda_list("λ skills. match(task, description) → read(location) → follow | relative(path) ∈ skill", skills)
        }
        PromptMode::Prose => {
            let mut text =
                "When a task matches a skill's description, read the skill with the read tool and follow it. \
                            Paths inside a skill are relative to its folder.\n\n<available_skills>"
                    .to_owned();
            for skill in skills {
                let _ = write!(
                    text,
                    "\n  <skill>\n    <name>{}</name>\n    <description>{}</description>",
                    escape(&skill.name),
                    escape(&skill.description)
                );
                if let Some(location) = &skill.location {
                    let _ = write!(text, "\n    <location>{}</location>", escape(location));
                }
                text.push_str("\n  </skill>");
            }
            text.push_str("\n</available_skills>");
            text
        }
    }
}

/// Renders the extensions that are there.
pub(super) fn extensions(mode: PromptMode, extensions: &[&Entry]) -> String {
    match mode {
        PromptMode::Lambda => lambda_list("λ extensions.", extensions),
        PromptMode::Prose => prose_list("Extensions:", extensions),
    }
}

/// Renders the workflows that the model may delegate to.
pub(super) fn workflows(mode: PromptMode, workflows: &[&Entry]) -> String {
    match mode {
        PromptMode::Lambda => lambda_list("λ workflows. delegate(workflow, prompt) → result", workflows),
        PromptMode::Prose => prose_list("Available workflows, called with the delegate tool:", workflows),
    }
}

/// Files of the project, whole.
pub(super) fn context_files(files: &[&ContextFile]) -> String {
    let mut text = "# Project context".to_owned();
    for file in files {
        let _ = write!(text, "\n\n## {}\n\n{}", one_line(&file.path), lines(file.text.trim_end()));
    }
    text
}

/// Renders the contributions of extensions.
pub(super) fn contributions(contributions: &[&PromptContribution]) -> String {
    let mut text = "# Extension prompt contributions".to_owned();
    for contribution in contributions {
        let _ = write!(text, "\n\n{}", lines(contribution.text.trim()));
    }
    text
}

/// Facts about this session.
pub(super) fn runtime_metadata(mode: PromptMode, facts: &[(String, String)]) -> String {
    let facts = facts.iter().map(|(name, value)| (one_line(name), one_line(value)));
    match mode {
        PromptMode::Lambda => {
            let facts: Vec<_> = facts.map(|(name, value)| format!("{} ≡ {value}", name.replace(' ', "-"))).collect();
            format!("λ runtime. {}", facts.join(" | "))
        }
        PromptMode::Prose => facts.map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join("\n"),
    }
}

/// The workflow's own text, word for word.
pub(super) fn instructions(mode: PromptMode, layers: &[&str]) -> String {
    let heading = match mode {
        PromptMode::Lambda => "λ instructions(workflow).",
        PromptMode::Prose => "# Workflow instructions",
    };
    format!("{heading}\n\n{}", layers.join("\n\n"))
}

fn lambda_list(heading: &str, entries: &[&Entry]) -> String {
    let mut text = heading.to_owned();
    for entry in entries {
        let form = entry.lambda.as_deref().unwrap_or(&entry.description);
        let _ = write!(text, "\n  {}", one_line(&entry.name));
        if !form.is_empty() {
            let _ = write!(text, " → {}", one_line(form));
        }
        if let Some(location) = &entry.location {
            let _ = write!(text, " @ {}", one_line(location));
        }
    }
    text
}

fn prose_list(heading: &str, entries: &[&Entry]) -> String {
    let mut text = heading.to_owned();
    for entry in entries {
        let _ = write!(text, "\n- {}", one_line(&entry.name));
        if !entry.description.is_empty() {
            let _ = write!(text, ": {}", one_line(&entry.description));
        }
    }
    text
}

/// Text of several lines, without what no person sees in it.
fn lines(text: &str) -> Cow<'_, str> {
    match text.contains("\r\n") {
        true => Cow::Owned(cleaned(&text.replace("\r\n", "\n")).into_owned()),
        false => cleaned(text),
    }
}

/// One line of plain text: a description written by a plugin's author must not be able to open a section of its own, or
/// to say something that no person sees. Nearly every text is such a line already.
fn one_line(text: &str) -> Cow<'_, str> {
    if is_plain_line(text) {
        return Cow::Borrowed(text);
    }
    let spaced: String =
        text.chars().map(|c| if c.is_control() || c == '\u{2028}' || c == '\u{2029}' { ' ' } else { c }).collect();
    let spaced = cleaned(&spaced);
    Cow::Owned(spaced.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// `true` if a text is printable ASCII with single blanks between its words, and none around them.
fn is_plain_line(text: &str) -> bool {
    let mut before = b' ';
    for byte in text.as_bytes() {
        match byte {
            b' ' if before == b' ' => return false,
            b' '..=b'~' => before = *byte,
            _ => return false,
        }
    }
    before != b' ' || text.is_empty()
}

fn escape(text: &str) -> String {
    one_line(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
