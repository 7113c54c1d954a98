//! Refusals: what was asked for, the rule that refused it, and what would change that, as data.
//!
//! A [`Remedy`] says who has to do what. It names no command and no file: the command line renders it as a command to
//! copy, a page as a button, an embedder as it likes. [`Remedy`]'s own text is for logs and for plugins.

use crate::text::one_line;
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// Longest name of a guest or a document that a denial repeats, in bytes.
const MAX_NAME_CHARS: usize = 200;

/// The access to a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Listing and reading.
    Read,
    /// Creating, writing and removing as well.
    ReadWrite,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::ReadWrite => "read-write",
        })
    }
}

/// A kind of capability that a plugin asks for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// A tool of the host.
    Tool,
    /// A skill.
    Skill,
    /// A granted directory.
    Files,
    /// The store in which a plugin keeps values from one call to the next.
    Store,
}

impl Capability {
    /// The word in messages and denials: `tool`, `skill`, `files`, `store`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Skill => "skill",
            Self::Files => "files",
            Self::Store => "store",
        }
    }

    /// The key in a manifest and in a step's `capabilities`: `tools`, `skills`, `files`, `stores`.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Tool => "tools",
            Self::Skill => "skills",
            Self::Files => "files",
            Self::Store => "stores",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Whose rules for HTTP requests refused one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum HttpScope {
    /// A plugin's, by the plugin's name.
    Plugin(Arc<str>),
    /// A document tool's, by the tool's name.
    Tool(Arc<str>),
    /// Those of the host's model sessions.
    Sessions,
}

/// A part that a session of a model lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SessionPart {
    /// A tool.
    Tool,
    /// A skill.
    Skill,
    /// A workflow.
    Workflow,
}

impl SessionPart {
    /// `tool`, `skill` or `workflow`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Skill => "skill",
            Self::Workflow => "workflow",
        }
    }
}

/// The change that would allow a refused action, and the role that has to make it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Remedy {
    /// The operator grants a capability to a plugin.
    Grant {
        /// The plugin.
        plugin: Arc<str>,
        /// The kind of what is granted.
        capability: Capability,
        /// The tool, skill or file root.
        name: String,
        /// For files: how the plugin wants to use them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        access: Option<Access>,
    },
    /// The operator allows HTTP requests.
    AllowHttp {
        /// Whose rules have to allow them.
        scope: HttpScope,
        /// Scheme, host and port, such as `https://api.example.com`.
        origin: String,
        /// The method that is missing, where it is the method.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        method: Option<String>,
        /// `true` if private addresses have to be allowed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        private: bool,
    },
    /// The operator widens the patterns of a file grant.
    CoverPath {
        /// The plugin.
        plugin: Arc<str>,
        /// The file root.
        name: String,
    },
    /// The plugin's author asks for the capability in the manifest, and builds the plugin again.
    AskInManifest {
        /// The plugin.
        plugin: Arc<str>,
        /// The kind of what is asked for.
        capability: Capability,
        /// The tool, skill or file root.
        name: String,
        /// For files: the access to ask for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        access: Option<Access>,
    },
    /// The document's author leaves the capability in the step's `capabilities`.
    LeaveInStep {
        /// The kind of what the step narrows.
        capability: Capability,
        /// The tool, skill or file root.
        name: String,
    },
    /// The document's author declares it for the session.
    DeclareInSession {
        /// The missing part.
        part: SessionPart,
        /// Its name.
        name: String,
    },
    /// The operator opens a folder to the file tools of models.
    OpenFolder,
    /// The operator lets models write in one of their folders.
    WriteFolder {
        /// The folder's name among the file roots.
        name: String,
    },
    /// The operator extends a grant of files to the files that decide what runs and to secrets.
    ControlFiles {
        /// The plugin that has the grant; `None` for a folder of sessions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plugin: Option<Arc<str>>,
        /// The file root.
        name: String,
    },
    /// A person approves one call of a tool by a plugin: these arguments and no others.
    ApproveCall {
        /// The plugin.
        plugin: Arc<str>,
        /// The tool.
        tool: String,
        /// The arguments as JSON.
        arguments: String,
    },
    /// Nothing allows it.
    Nothing,
}

impl Remedy {
    /// The plugin that would be granted something.
    #[must_use]
    pub fn plugin(&self) -> Option<&str> {
        match self {
            Self::Grant { plugin, .. }
            | Self::AllowHttp { scope: HttpScope::Plugin(plugin), .. }
            | Self::CoverPath { plugin, .. }
            | Self::ApproveCall { plugin, .. }
            | Self::ControlFiles { plugin: Some(plugin), .. } => Some(plugin),
            _ => None,
        }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grant { plugin, capability, name, access } => {
                let writing = if *access == Some(Access::ReadWrite) { " for writing" } else { "" };
                write!(f, "the operator has to grant {capability} `{name}`{writing} to plugin `{plugin}`")
            }
            Self::AllowHttp { scope, origin, method, private } => {
                let method = method.as_deref().map(|method| format!("{method} ")).unwrap_or_default();
                let private = if *private { ", at private addresses too," } else { "" };
                write!(f, "the operator has to allow {method}requests to {origin}{private} for ")?;
                match scope {
                    HttpScope::Plugin(plugin) => write!(f, "plugin `{plugin}`"),
                    HttpScope::Tool(tool) => write!(f, "the tool `{tool}`"),
                    HttpScope::Sessions => f.write_str("sessions"),
                }
            }
            Self::CoverPath { plugin, name } => {
                write!(f, "the operator has to add a pattern to the grant `{name}` of plugin `{plugin}`")
            }
            Self::AskInManifest { capability, access: Some(access), .. } => {
                write!(f, "ask for `{access}` in `capabilities.{}` of the plugin's manifest", capability.key())
            }
            Self::AskInManifest { capability, .. } => {
                let key = capability.key();
                write!(f, "add it, with a reason, to `capabilities.{key}` in the plugin's manifest and build it again")
            }
            Self::LeaveInStep { capability, name } => {
                write!(f, "add `{name}` to `capabilities.{}` of the step", capability.key())
            }
            Self::DeclareInSession { part, .. } => write!(f, "declare it among the session's {}s", part.word()),
            Self::ControlFiles { name, .. } => {
                write!(f, "the operator has to set `control-files = true` for the file root `{name}`")
            }
            Self::OpenFolder => f.write_str("the operator has to open a folder to sessions"),
            Self::WriteFolder { name } => write!(f, "the operator has to make the file root `{name}` writable"),
            Self::ApproveCall { tool, .. } => write!(f, "a person has to approve this call of `{tool}`"),
            Self::Nothing => f.write_str("nothing can allow it"),
        }
    }
}

/// A refusal: what was asked for, the rule that refused it, and what would change that.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Denial {
    /// Such as `tool http.fetch` or `http GET https://example.com`.
    pub capability: String,
    /// The rule that denied it, as a clause.
    pub rule: String,
    /// The change that would allow it.
    pub remedy: Remedy,
}

impl Denial {
    /// The refusal of `capability` by `rule`. What others chose in it is made printable and cut.
    #[must_use]
    pub fn new(capability: impl AsRef<str>, rule: impl Into<String>, remedy: Remedy) -> Self {
        Self { capability: one_line(capability.as_ref(), MAX_NAME_CHARS), rule: rule.into(), remedy }
    }

    /// The refusal of something by its kind and name, such as `skill` and the skill's.
    #[must_use]
    pub fn of(kind: &str, name: &str, rule: impl Into<String>, remedy: Remedy) -> Self {
        Self::new(format!("{kind} {name}"), rule, remedy)
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is denied: {}", self.capability, self.rule)
    }
}

impl std::error::Error for Denial {}
