//! The wrapper of every tool: its arguments are checked first, its result is cut after.

use super::{ToolError, failure};
use async_trait::async_trait;
use opcell_engine::conversation::{Attachment, take_attachments};
use opcell_engine::ports::{Effects, Failure};
use opcell_engine::receipt::Provider;
use opcell_engine::tool::{Tool, ToolInput};
use opcell_schema::Schema;
use opcell_types::{ToolDescription, Value};
use std::iter;
use std::sync::{Arc, OnceLock};

/// Problems of a call's arguments that are shown at once.
const PROBLEMS: usize = 5;

/// Steps that checking the arguments of one call may take: some hundredths of a second.
const MAX_STEPS: u64 = 5_000_000;

/// The end of a result that is too long gets the limit divided by this.
const TAIL_SHARE: usize = 4;

/// A tool that sees no arguments but those that match its schema, and whose results have at most this many bytes.
pub struct CheckedTool {
    tool: Arc<dyn Tool>,
    /// The schema of its arguments, or why it cannot be used.
    arguments: OnceLock<Result<Arc<Schema>, String>>,
    result_limit: usize,
}

impl std::fmt::Debug for CheckedTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CheckedTool").finish_non_exhaustive()
    }
}

impl CheckedTool {
    /// The tool, with the most bytes that a result may have; longer ones are cut, and say so.
    ///
    /// # Errors
    /// When the schema of its arguments cannot be used.
    pub fn new(tool: Arc<dyn Tool>, result_limit: usize) -> Result<Self, ToolError> {
        let checked = Self::own(tool, result_limit);
        match checked.arguments() {
            Ok(_) => Ok(checked),
            Err(message) => {
                Err(ToolError::Schema { name: checked.description().name.clone(), message: message.clone() })
            }
        }
    }

    /// The same for a tool whose schema is known to be one: it is compiled when the tool is first called.
    pub(super) fn own(tool: Arc<dyn Tool>, result_limit: usize) -> Self {
        Self { tool, arguments: OnceLock::new(), result_limit }
    }

    pub(super) fn arguments(&self) -> Result<&Arc<Schema>, &String> {
        let compile = || match self.tool.provider() {
            // Its server checks them as well.
            Provider::Mcp(_) => Schema::shared_leniently(&self.tool.description().parameters),
            Provider::Host | Provider::Plugin(_) => compiled(&self.tool.description().parameters),
        };
        self.arguments.get_or_init(compile).as_ref()
    }

    /// The tool itself.
    pub(super) fn tool(&self) -> &dyn Tool {
        &*self.tool
    }

    /// Problems of a call's arguments; none if they match the tool's schema.
    pub(super) fn problems(&self, arguments: &Value) -> Vec<String> {
        match self.arguments() {
            Ok(schema) => problems(schema, arguments),
            Err(message) => vec![message.clone()],
        }
    }
}

#[async_trait]
impl Tool for CheckedTool {
    fn description(&self) -> &ToolDescription {
        self.tool.description()
    }

    fn effects(&self) -> Effects {
        self.tool.effects()
    }

    fn effects_of(&self, arguments: &Value) -> Effects {
        self.tool.effects_of(arguments)
    }

    fn provider(&self) -> Provider {
        self.tool.provider()
    }

    async fn current(&self) -> Result<Option<ToolDescription>, Failure> {
        self.tool.current().await
    }

    fn ends_when_cancelled(&self) -> bool {
        self.tool.ends_when_cancelled()
    }

    async fn call(&self, input: &ToolInput) -> Result<Value, Failure> {
        let problems = self.problems(&input.arguments);
        if !problems.is_empty() {
            return Err(mismatch(&self.description().name, &problems));
        }
        let mut value = self.tool.call(input).await?;
        cut(&mut value, self.result_limit);
        Ok(value)
    }
}

/// A schema that someone else wrote, compiled once.
pub(super) fn compiled(schema: &Value) -> Result<Arc<Schema>, String> {
    Schema::shared(schema)
}

/// The first of what is wrong with arguments.
pub(super) fn problems(schema: &Schema, arguments: &Value) -> Vec<String> {
    schema.problems(arguments, MAX_STEPS, PROBLEMS)
}

/// Refuses arguments that do not match a tool's schema, and says where.
///
/// # Errors
/// `invalid-arguments`.
pub fn check_arguments(name: &str, schema: &Schema, arguments: &Value) -> Result<(), Failure> {
    match problems(schema, arguments) {
        none if none.is_empty() => Ok(()),
        problems => Err(mismatch(name, &problems)),
    }
}

/// The failure of a call whose arguments do not match.
pub(crate) fn mismatch(name: &str, problems: &[String]) -> Failure {
    let message = format!("the arguments of `{name}` do not match its schema: {}", problems.join("; "));
    failure("invalid-arguments", message)
}

/// Cuts the middle of a result that is too long, at characters, and says so: errors, exit codes and sums are at its end.
/// Attachments stay, and do not count. Returns the length that it had.
pub(super) fn cut(value: &mut Value, limit: usize) -> usize {
    let taken = take_attachments(value);
    let text = match taken.as_ref().map_or(&*value, |(rest, _)| rest) {
        Value::String(text) => text.to_string(),
        other => other.to_json(),
    };
    let bytes = text.len();
    if bytes > limit {
        let tail = text.split_at(text.ceil_char_boundary(bytes - limit / TAIL_SHARE)).1;
        let head = text.split_at(text.floor_char_boundary(limit - limit / TAIL_SHARE)).0;
        let left_out = bytes - head.len() - tail.len();
        let text = Value::from(format!("{head}\n[truncated: {left_out} of {bytes} bytes are left out here]\n{tail}"));
        *value = match taken {
            None => text,
            Some((_, attachments)) => {
                Value::array(iter::once(text).chain(attachments.iter().map(Attachment::to_block)))
            }
        };
    }
    bytes
}
