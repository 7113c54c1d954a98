//! `prompt-component-selection`: which parts of a prompt are shown. It filters; it never switches assembly off.

use super::Component;
use opcell_types::Value;
use opcell_types::suggest::hint;
use std::collections::BTreeSet;
use thiserror::Error;

/// The parts of a prompt that are shown (psi's `:prompt-component-selection`, with `extension-names` and
/// `workflow-names` added). An absent key shows everything of its kind; a present empty list shows nothing of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ComponentSelection {
    components: Option<BTreeSet<Component>>,
    agents_md: Option<bool>,
    tool_names: Option<BTreeSet<String>>,
    skill_names: Option<BTreeSet<String>>,
    extension_names: Option<BTreeSet<String>>,
    workflow_names: Option<BTreeSet<String>>,
    contribution_names: Option<BTreeSet<String>>,
}

/// A selection that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SelectionError {
    /// Not an object.
    #[error(
        "`prompt-component-selection` must be an object such as {{\"components\": [\"preamble\", \"tools\"]}}, got {0}"
    )]
    NotAnObject(String),
    /// A value of the wrong shape.
    #[error("`{key}` of `prompt-component-selection` must be {expected}, got {got}")]
    Shape {
        /// Whose value.
        key: String,
        /// The expected type.
        expected: &'static str,
        /// The type that it has.
        got: String,
    },
    /// A key that means nothing.
    #[error("`prompt-component-selection` has no key `{key}`; it has: {}{hint}", KEYS.join(", "))]
    UnknownKey {
        /// The key.
        key: String,
        /// "; did you mean …", or empty.
        hint: String,
    },
    /// A component that does not exist.
    #[error("there is no prompt component `{name}`; there are: {}{hint}", Component::names().join(", "))]
    UnknownComponent {
        /// The name.
        name: String,
        /// "; did you mean …", or empty.
        hint: String,
    },
}

const KEYS: [&str; 7] = [
    "components",
    "agents-md?",
    "tool-names",
    "skill-names",
    "extension-names",
    "workflow-names",
    "extension-prompt-contributions",
];

impl ComponentSelection {
    /// Reads the authored value; `null` is not a selection.
    ///
    /// # Errors
    /// When it is not an object of the known keys.
    pub fn parse(value: &Value) -> Result<Option<Self>, SelectionError> {
        if value.is_nullish() {
            return Ok(None);
        }
        let Some(entries) = value.as_object() else { return Err(SelectionError::NotAnObject(value.to_json())) };
        let mut selection = Self::default();
        for (key, value) in entries {
            if value.is_nullish() {
                continue;
            }
            match key.as_ref() {
                "components" => selection.components = Some(components(key, value)?),
                "agents-md?" | "agents-md" => {
                    let Value::Bool(shown) = value else { return Err(shape(key, "true or false", value)) };
                    selection.agents_md = Some(*shown);
                }
                "tool-names" => selection.tool_names = Some(names(key, value)?),
                "skill-names" => selection.skill_names = Some(names(key, value)?),
                "extension-names" => selection.extension_names = Some(names(key, value)?),
                "workflow-names" => selection.workflow_names = Some(names(key, value)?),
                "extension-prompt-contributions" => selection.contribution_names = Some(names(key, value)?),
                other => {
                    let hint = hint(other, KEYS);
                    return Err(SelectionError::UnknownKey { key: other.to_owned(), hint });
                }
            }
        }
        Ok(Some(selection))
    }

    /// Returns `true` if a component is shown at all. The instruction layer always is: leaving out the workflow's own
    /// text would be replacement by another name. Tools are part of psi's preamble and are left out with it; a list of
    /// names selects its component.
    #[must_use]
    pub fn shows(&self, component: Component) -> bool {
        let Some(listed) = &self.components else { return true };
        let by_name = match component {
            Component::Instructions => return true,
            Component::Tools => self.tool_names.is_some() || listed.contains(&Component::Preamble),
            Component::Skills => self.skill_names.is_some(),
            Component::Extensions => self.extension_names.is_some(),
            Component::Workflows => self.workflow_names.is_some(),
            Component::Contributions => self.contribution_names.is_some(),
            Component::Preamble | Component::ContextFiles | Component::RuntimeMetadata | Component::Replacement => {
                false
            }
        };
        by_name || listed.contains(&component)
    }

    /// Returns `true` if one named part of a component is shown.
    #[must_use]
    pub fn shows_name(&self, component: Component, name: &str) -> bool {
        let listed = match component {
            Component::Tools => &self.tool_names,
            Component::Skills => &self.skill_names,
            Component::Extensions => &self.extension_names,
            Component::Workflows => &self.workflow_names,
            Component::Contributions => &self.contribution_names,
            Component::ContextFiles if self.agents_md == Some(false) => return !is_agents_file(name),
            _ => return true,
        };
        listed.as_ref().is_none_or(|names| names.contains(name))
    }
}

/// The files that `agents-md?` speaks of.
fn is_agents_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.eq_ignore_ascii_case("AGENTS.md") || name.eq_ignore_ascii_case("CLAUDE.md")
}

fn components(key: &str, value: &Value) -> Result<BTreeSet<Component>, SelectionError> {
    names(key, value)?
        .into_iter()
        .map(|name| {
            Component::parse(&name).ok_or_else(|| {
                let hint = hint(&name, Component::names());
                SelectionError::UnknownComponent { name, hint }
            })
        })
        .collect()
}

fn names(key: &str, value: &Value) -> Result<BTreeSet<String>, SelectionError> {
    let items = value.as_array().ok_or_else(|| shape(key, "a list of names", value))?;
    items
        .iter()
        .map(|item| item.as_str().map(str::to_owned).ok_or_else(|| shape(key, "a list of names", value)))
        .collect()
}

fn shape(key: &str, expected: &'static str, got: &Value) -> SelectionError {
    SelectionError::Shape { key: key.to_owned(), expected, got: got.to_json() }
}
