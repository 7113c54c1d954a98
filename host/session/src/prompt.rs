//! System prompts, assembled from structured state into named sections. Pure: the same parts give the same text.

mod forms;
mod parts;
mod selection;

pub use parts::{CodePart, ContextFile, Entry, PromptContribution, PromptParts};
pub use selection::{ComponentSelection, SelectionError};

use opcell_ir::ir::PromptMode;
use serde::Serialize;

/// A part of a system prompt, in the order in which parts are rendered: what stays the same across sessions first, so
/// that providers can cache it, and the workflow's own text last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Component {
    /// The preamble: the role of the model and its way of working, phrased for the mode.
    Preamble,
    /// The tools that it may call.
    Tools,
    /// The skills that it may read.
    Skills,
    /// Files of the project.
    ContextFiles,
    /// The extensions that are there.
    Extensions,
    /// The workflows that it may delegate to.
    Workflows,
    /// Text that extensions add.
    Contributions,
    /// Facts about this session.
    RuntimeMetadata,
    /// The workflow's own text.
    Instructions,
    /// A literal prompt in place of all others.
    Replacement,
}

impl Component {
    const SELECTABLE: [(&'static str, Self); 9] = [
        ("preamble", Self::Preamble),
        ("tools", Self::Tools),
        ("skills", Self::Skills),
        ("context-files", Self::ContextFiles),
        ("extensions", Self::Extensions),
        ("workflows", Self::Workflows),
        ("contributions", Self::Contributions),
        ("runtime-metadata", Self::RuntimeMetadata),
        ("instructions", Self::Instructions),
    ];

    /// The names that a selection may list.
    #[must_use]
    pub fn names() -> [&'static str; 9] {
        Self::SELECTABLE.map(|(name, _)| name)
    }

    /// Its name, as a selection lists it.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::SELECTABLE.iter().find(|(_, component)| *component == self).map_or("replacement", |(name, _)| name)
    }

    /// Returns `true` for a component that sessions of other steps and other days have as well.
    #[must_use]
    pub fn is_stable(self) -> bool {
        self < Self::RuntimeMetadata
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::SELECTABLE.iter().find(|(known, _)| *known == name).map(|(_, component)| *component)
    }
}

/// One rendered part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Section {
    /// The component.
    pub component: Component,
    /// Its text.
    pub text: String,
    /// The text's length in UTF-8.
    pub bytes: usize,
    /// About how many [`tokens`]. Models count differently; this is for comparing sections.
    pub tokens: usize,
}

impl Section {
    fn new(component: Component, text: String) -> Self {
        Self { component, bytes: text.len(), tokens: tokens(&text), text }
    }
}

/// About how many tokens a text is: a quarter of its bytes, rounded up.
#[must_use]
pub fn tokens(text: &str) -> usize {
    text.len().div_ceil(4)
}

/// A system prompt that a person can inspect, test and diff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SystemPrompt {
    /// The preamble and the forms that it uses.
    pub mode: PromptMode,
    /// In the order of the text; empty parts are left out.
    pub sections: Vec<Section>,
    /// Notes for a person about parts that are not shown.
    pub notes: Vec<String>,
}

impl SystemPrompt {
    /// The whole text.
    #[must_use]
    pub fn text(&self) -> String {
        self.sections.iter().map(|section| section.text.as_str()).collect::<Vec<_>>().join("\n\n")
    }

    /// One part, if it is shown.
    #[must_use]
    pub fn section(&self, component: Component) -> Option<&Section> {
        self.sections.iter().find(|section| section.component == component)
    }
}

/// Builds the prompt. Always from structure: only [`PromptParts::replacement`] takes the place of assembly.
#[must_use]
pub fn assemble(parts: &PromptParts) -> SystemPrompt {
    let mode = parts.mode;
    if let Some(text) = &parts.replacement {
        let sections = vec![Section::new(Component::Replacement, text.clone())];
        return SystemPrompt { mode, sections, notes: Vec::new() };
    }
    let mut prompt = SystemPrompt { mode, sections: Vec::new(), notes: Vec::new() };
    let all = ComponentSelection::default();
    let selection = parts.selection.as_ref().unwrap_or(&all);
    let mut add = |component, text: Option<String>| {
        if let Some(text) = text.filter(|text| selection.shows(component) && !text.is_empty()) {
            prompt.sections.push(Section::new(component, text));
        }
    };
    let listed = |component, entries: &[Entry], form: fn(PromptMode, &[&Entry]) -> String| {
        let shown = named(selection, component, entries);
        (!shown.is_empty()).then(|| form(mode, &shown))
    };

    let code = parts.code.as_ref();
    let can_read = parts.tools.iter().any(|tool| tool.name == "read") || code.is_some_and(|code| code.reads);
    let skills = listed(Component::Skills, &parts.skills, forms::skills).filter(|_| can_read);
    let skills_hidden = !parts.skills.is_empty() && !can_read;
    let files: Vec<_> =
        parts.context_files.iter().filter(|file| selection.shows_name(Component::ContextFiles, &file.path)).collect();
    let mut contributions: Vec<_> = parts
        .contributions
        .iter()
        .filter(|contribution| selection.shows_name(Component::Contributions, &contribution.extension))
        .collect();
    contributions.sort_by(|a, b| (a.priority, &a.extension).cmp(&(b.priority, &b.extension)));
    let layers: Vec<_> =
        parts.instructions.iter().map(|layer| layer.trim()).filter(|layer| !layer.is_empty()).collect();

    add(Component::Preamble, Some(forms::preamble(mode)));
    let tools = named(selection, Component::Tools, &parts.tools);
    let listed_tools = forms::tools(mode, &tools, &parts.unavailable_tools);
    add(Component::Tools, Some(code.map_or(listed_tools.clone(), |code| format!("{listed_tools}\n\n{}", code.text))));
    add(Component::Skills, skills);
    add(Component::ContextFiles, (!files.is_empty()).then(|| forms::context_files(&files)));
    add(Component::Extensions, listed(Component::Extensions, &parts.extensions, forms::extensions));
    add(Component::Workflows, listed(Component::Workflows, &parts.workflows, forms::workflows));
    add(Component::Contributions, (!contributions.is_empty()).then(|| forms::contributions(&contributions)));
    let facts = &parts.runtime_metadata;
    add(Component::RuntimeMetadata, (!facts.is_empty()).then(|| forms::runtime_metadata(mode, facts)));
    add(Component::Instructions, (!layers.is_empty()).then(|| forms::instructions(mode, &layers)));
    // Alone, the workflow's text needs no heading to set it off.
    if let ([only], false) = (prompt.sections.as_mut_slice(), layers.is_empty())
        && only.component == Component::Instructions
    {
        *only = Section::new(Component::Instructions, layers.join("\n\n"));
    }
    if skills_hidden {
        prompt.notes.push("skills are not shown: the session has no `read` tool to read them with".to_owned());
    }
    prompt
}

/// The entries of a part that a selection shows.
fn named<'a>(selection: &ComponentSelection, component: Component, entries: &'a [Entry]) -> Vec<&'a Entry> {
    entries.iter().filter(|entry| selection.shows_name(component, &entry.name)).collect()
}

#[cfg(test)]
mod tests;
