//! Tools as their server describes them.

use super::ToolDigests;
use indexmap::IndexMap;
use opcell_schema::Schema;
use opcell_types::{Digest, Value};
use std::sync::Arc;

/// A tool as its server describes it.
#[derive(Debug, Clone)]
pub struct ListedTool {
    /// The server's own name of it.
    pub name: String,
    /// For models, printable.
    pub description: String,
    /// JSON Schema of the arguments, for models: printable and of a bounded size.
    pub parameters: Value,
    /// The schema of the arguments as it was sent, weighed and compiled.
    pub schema: Arc<Schema>,
    /// The schema of structured results, if there is one that can be used.
    pub output: Option<Arc<Schema>>,
    /// The same as JSON, for programs: printable and of a bounded size.
    pub results: Option<Value>,
    /// Oddities, in sentences: it can be called all the same.
    pub warnings: Vec<String>,
    /// Digest of name, description and schema as the server sent them.
    pub digest: Digest,
}

/// Everything that a server lists.
#[derive(Debug, Default)]
pub struct Listing {
    /// Usable tools, by name.
    pub tools: IndexMap<String, ListedTool>,
    /// Reasons why the others cannot be used; by name, or by place in the list.
    pub refused: IndexMap<String, String>,
    /// `true` if the server lists more than is used.
    pub truncated: bool,
    /// Why pages of the list were not read, where the others were.
    pub partial: Option<String>,
}

impl Listing {
    /// The digests that would be accepted.
    #[must_use]
    pub fn digests(&self) -> ToolDigests {
        self.tools.values().map(|tool| (tool.name.clone(), tool.digest.clone())).collect()
    }
}

/// A resource, or a template of resources, as its server describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedResource {
    /// Its URI, or the template of URIs.
    pub uri: String,
    /// Its name, printable; may be empty.
    pub name: String,
    /// Printable; may be empty.
    pub description: String,
    /// The type of its content, if the server says it.
    pub mime_type: Option<String>,
}

/// A prompt as its server describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedPrompt {
    /// The server's own name of it.
    pub name: String,
    /// Printable; may be empty.
    pub description: String,
    /// Names of its arguments; `true` for those that it requires.
    pub arguments: Vec<(String, bool)>,
}

/// The offers of a server beside tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offers {
    /// Its resources.
    pub resources: Vec<ListedResource>,
    /// Its templates of resources.
    pub templates: Vec<ListedResource>,
    /// Its prompts.
    pub prompts: Vec<ListedPrompt>,
    /// Reasons why entries or lists of it are not used, as sentences.
    pub refused: Vec<String>,
    /// `true` if it lists more than is used.
    pub truncated: bool,
}
