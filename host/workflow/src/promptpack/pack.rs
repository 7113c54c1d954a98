//! A pack as authored: prompts, fragments, tool shapes, agents, skills, a workflow and compositions.

use super::composition::Composition;
use super::decode::DecodeError;
use super::spec::{Spec, SpecError};
use indexmap::IndexMap;
use opcell_ir::ir::Generation;
use opcell_types::value::{Map, Value};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A pack. What it says that these types have no field for is kept in `rest`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct Pack {
    /// Lower case, with hyphens.
    pub id: String,
    /// For people.
    pub name: String,
    /// Semantic version of the whole pack.
    pub version: String,
    /// For people.
    #[serde(default)]
    pub description: Option<String>,
    /// By the key that states name.
    pub prompts: IndexMap<String, Prompt>,
    /// Texts that templates may use by name.
    #[serde(default)]
    pub fragments: BTreeMap<String, String>,
    /// Shapes of tools; the host binds them.
    #[serde(default)]
    pub tools: IndexMap<String, Tool>,
    /// Evals of the whole pack.
    #[serde(default)]
    pub evals: Vec<Eval>,
    /// The prompts that are agents, and the one that is asked first.
    #[serde(default)]
    pub agents: Option<Agents>,
    /// The sources of skills.
    #[serde(default)]
    pub skills: Vec<SkillSource>,
    /// The state machine.
    #[serde(skip)]
    pub workflow: Option<Spec>,
    /// Step graphs by name.
    #[serde(skip)]
    pub compositions: BTreeMap<String, Composition>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map,
}

/// One prompt.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct Prompt {
    /// For people.
    pub name: String,
    /// For people.
    #[serde(default)]
    pub description: Option<String>,
    /// The system prompt, with `{{name}}` tokens.
    pub system_template: String,
    /// The variables behind the tokens.
    #[serde(default)]
    pub variables: Vec<Variable>,
    /// Tools by key.
    #[serde(default)]
    pub tools: Vec<String>,
    /// The rules for the use of tools.
    #[serde(default)]
    pub tool_policy: ToolPolicy,
    /// The parameters of generation.
    #[serde(default)]
    pub parameters: Parameters,
    /// The pack's provider that speaks it; the host has a session profile of that name.
    #[serde(default)]
    pub provider: Option<String>,
    /// Evals of this prompt.
    #[serde(default)]
    pub evals: Vec<Eval>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map,
}

/// A declared variable of a template.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct Variable {
    /// As in `{{name}}`.
    pub name: String,
    /// `string`, `number`, `boolean`, `object`, `array` or the host's own.
    #[serde(rename = "type")]
    pub kind: String,
    /// A run without a value for it is refused.
    pub required: bool,
    /// Used when the host gives none.
    #[serde(default)]
    pub default: Option<Value>,
    /// For people.
    #[serde(default)]
    pub description: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map,
}

/// The rules for a prompt's use of its tools.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct ToolPolicy {
    /// `auto`, `required` or `none`.
    #[serde(default)]
    pub tool_choice: Option<String>,
    /// Model rounds of one turn.
    #[serde(default)]
    pub max_rounds: Option<u32>,
    /// Tool calls of one turn.
    #[serde(default)]
    pub max_tool_calls_per_turn: Option<u32>,
    /// Tools that must not be called whatever the list says.
    #[serde(default)]
    pub blocklist: Vec<String>,
}

impl ToolPolicy {
    /// Returns `true` if a tool must not be called under this name.
    #[must_use]
    pub fn is_blocked(&self, tool: &str) -> bool {
        self.tool_choice.as_deref() == Some("none") || self.blocklist.iter().any(|blocked| blocked == tool)
    }
}

/// The parameters by which a model generates.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct Parameters {
    /// From 0 to 2.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// The most tokens of one answer.
    #[serde(default)]
    pub max_tokens: Option<u32>,
    /// From 0 to 1.
    #[serde(default)]
    pub top_p: Option<f64>,
    /// From 1.
    #[serde(default)]
    pub top_k: Option<u32>,
    /// From -2 to 2.
    #[serde(default)]
    pub frequency_penalty: Option<f64>,
    /// From -2 to 2.
    #[serde(default)]
    pub presence_penalty: Option<f64>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map,
}

impl Parameters {
    /// Returns the generation of a session with these parameters.
    pub(super) fn generation(&self, tool_required: bool) -> Generation {
        Generation {
            max_tokens: self.max_tokens,
            top_p: self.top_p,
            top_k: self.top_k,
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            tool_required,
        }
    }
}

/// The shape of a tool.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct Tool {
    /// The name that the model calls.
    pub name: String,
    /// The description of its effect.
    pub description: String,
    /// JSON Schema of its arguments.
    #[serde(default)]
    pub parameters: Option<Value>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map,
}

/// An eval, of which only the name matters here.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct Eval {
    /// Unique in its list.
    pub id: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map,
}

/// The prompts that are agents.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct Agents {
    /// The one that is asked first.
    pub entry: String,
    /// By prompt key.
    pub members: IndexMap<String, Agent>,
}

/// One agent.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct Agent {
    /// Asking this agent starts the workflow in this state (RFC 0011).
    #[serde(default)]
    pub state: Option<String>,
    /// Description for other agents; absent: the prompt's.
    #[serde(default)]
    pub description: Option<String>,
    /// MIME types that it takes; empty: `text/plain`.
    #[serde(default)]
    pub input_modes: Vec<String>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Map,
}

/// A source of skills.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum SkillSource {
    /// A folder, a file or a package.
    Location(String),
    /// The same, with settings.
    Path {
        /// A folder, a file or a package.
        path: String,
        /// Read at the start rather than when asked for.
        #[serde(default)]
        preload: bool,
    },
    /// In the pack itself.
    Inline {
        /// Its name.
        name: String,
        /// One sentence.
        description: String,
        /// The instructions.
        instructions: String,
    },
}

/// Why a document that has the shape of a pack is none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// A field does not fit.
    #[error("{0}")]
    Shape(#[from] serde_json::Error),
    /// The workflow does not fit.
    #[error("{0}")]
    Workflow(#[from] SpecError),
    /// A composition does not fit.
    #[error("compositions[{}]: {error}", opcell_ir::print::go::quote(.name))]
    Composition {
        /// Name of the composition.
        name: String,
        /// Error of the decoder.
        error: DecodeError,
    },
}

impl Pack {
    /// Reads a document that has passed the schema.
    ///
    /// # Errors
    /// When a field does not fit; after the schema, only what the schema leaves open.
    pub fn from_json(json: &serde_json::Value) -> Result<Self, PackError> {
        let mut pack = Self::deserialize(json)?;
        if let Some(workflow) = pack.rest.shift_remove("workflow") {
            pack.workflow = Spec::from_config(&workflow)?;
        }
        if let Some(compositions) = pack.rest.shift_remove("compositions") {
            for (name, value) in compositions.as_object().into_iter().flatten() {
                let composition = Composition::from_value(value)
                    .map_err(|error| PackError::Composition { name: name.to_string(), error })?;
                pack.compositions.insert(name.to_string(), composition);
            }
        }
        Ok(pack)
    }

    /// The keys of the providers that the pack requires (RFC 0012).
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        let listed = self.rest.get("requires").and_then(|requires| requires.get("providers"));
        let entries = listed.and_then(Value::as_array).into_iter().flatten();
        entries.filter_map(|entry| entry.as_str().or_else(|| entry.get("key").and_then(Value::as_str)))
    }

    /// The agent that a prompt calls under this name: a member, and not the prompt itself (RFC 0007).
    #[must_use]
    pub fn agent_tool(&self, prompt: &str, tool: &str) -> Option<&Agent> {
        self.agents.as_ref()?.members.get(tool).filter(|_| tool != prompt && self.prompts.contains_key(tool))
    }

    /// Returns `true` if a prompt that is an agent lists itself among its tools: it is none of them.
    #[must_use]
    pub fn is_itself(&self, prompt: &str, tool: &str) -> bool {
        prompt == tool && self.agents.as_ref().is_some_and(|agents| agents.members.contains_key(tool))
    }

    /// The ids of all evals, the prompts' included.
    pub fn eval_ids(&self) -> impl Iterator<Item = &str> {
        self.evals.iter().chain(self.prompts.values().flat_map(|prompt| &prompt.evals)).map(|eval| eval.id.as_str())
    }
}
