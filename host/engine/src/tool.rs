//! Tools: what plugins, steps and models call that runs in no cell of its own.
//!
//! There is one [`Tool`], whoever calls it: a plugin that was granted it, a step that names it as its operation, a
//! model whose session has it. Who that is, a tool reads from [`ToolInput::caller`]; most do not care.
//!
//! Two neighbours are not tools. The sandbox's `HostServices` are everything that a cell can ask of its host, tools by
//! their names among them. [`Sessions::call_tool`](crate::ports::Sessions::call_tool) is how the engine has a model's
//! call performed, by whoever knows the tools.

use crate::ports::{Call, Effects, Failure, OpenedSession, Reply, ToolCall};
use async_trait::async_trait;
use opcell_core::receipt::Provider;
use opcell_ir::ir::RunLimits;
use opcell_types::{CallContext, ToolDescription, TouchLog, Value};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The caller of a tool.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Caller {
    /// The plugin of this name, from a cell. It was granted the tool.
    Plugin(Arc<str>),
    /// A step, which names the tool as its operation.
    Step,
    /// A model.
    Model(ModelCaller),
}

/// A model that calls a tool.
#[derive(Debug, Clone)]
pub struct ModelCaller {
    /// The name that the model called: the tool's, or that of an agent which the tool stands for.
    pub called: String,
    /// Its session.
    pub session: Arc<OpenedSession>,
    /// The rest of the limits around the call: the most that a run may use which the call starts.
    pub left: RunLimits,
}

/// One call of a tool.
#[derive(Debug, Clone)]
pub struct ToolInput {
    /// An object that has passed the schema of the tool's description.
    pub arguments: Value,
    /// The place in the run.
    pub context: CallContext,
    /// The caller.
    pub caller: Caller,
    /// Cancelled when the caller no longer waits.
    pub cancel: Arc<CancellationToken>,
    /// The log in which the tool notes what it touches, before it does: it becomes part of the caller's receipt.
    pub touched: TouchLog,
}

impl ToolInput {
    /// The call by a step.
    #[must_use]
    pub fn of_step(call: &Call) -> Self {
        Self {
            arguments: call.arguments.clone(),
            context: call.context.clone(),
            caller: Caller::Step,
            cancel: call.cancel.clone(),
            touched: call.touched.clone(),
        }
    }

    /// The call by a model.
    #[must_use]
    pub fn of_model(call: &ToolCall) -> Self {
        let caller = ModelCaller { called: call.request.name.clone(), session: call.session.clone(), left: call.left };
        Self {
            arguments: call.request.arguments.clone(),
            context: call.context.clone(),
            caller: Caller::Model(caller),
            cancel: call.cancel.clone(),
            touched: call.touched.clone(),
        }
    }

    /// The model that calls, if one does.
    #[must_use]
    pub fn model(&self) -> Option<&ModelCaller> {
        match &self.caller {
            Caller::Model(model) => Some(model),
            Caller::Plugin(_) | Caller::Step => None,
        }
    }
}

/// Something to call by name with JSON arguments, that the host performs itself.
///
/// ```
/// use async_trait::async_trait;
/// use opcell_engine::{
///     ports::{Effects, Reply},
///     tool::{Tool, ToolInput},
/// };
/// use opcell_types::{ToolDescription, Value};
/// use serde_json::json;
///
/// /// Says which release is served.
/// struct Release(ToolDescription);
///
/// impl Release {
///     fn new() -> Self {
///         let nothing = json!({"type": "object", "additionalProperties": false});
///         Self(ToolDescription::new("release.current", "Returns the release that is served.", nothing))
///     }
/// }
///
/// #[async_trait]
/// impl Tool for Release {
///     fn description(&self) -> &ToolDescription {
///         &self.0
///     }
///
///     fn effects(&self) -> Effects {
///         Effects::Pure
///     }
///
///     async fn call(&self, _input: &ToolInput) -> Reply<Value> {
///         Ok(Value::from("2026.11")).into()
///     }
/// }
///
/// assert_eq!(Release::new().description().name, "release.current");
/// ```
#[async_trait]
pub trait Tool: Send + Sync {
    /// Its name, what it does, and its arguments; the same at every call.
    fn description(&self) -> &ToolDescription;

    /// Returns the effect of repeating a call; unless a tool says otherwise, it must not be repeated.
    fn effects(&self) -> Effects {
        Effects::Once
    }

    /// Returns its provider, for receipts; the host unless a tool says otherwise.
    fn provider(&self) -> Provider {
        Provider::Host
    }

    /// The description as it is now, where someone else gives it; asked when a session that declares the tool opens.
    /// `None`: what [`Self::description`] says.
    ///
    /// # Errors
    /// When the tool cannot be reached, so that the session that declares it learns why.
    async fn current(&self) -> Result<Option<ToolDescription>, Failure> {
        Ok(None)
    }

    /// Returns `true` if a call that is cancelled ends by itself at once, with a receipt of what it used. Any other is
    /// dropped.
    fn ends_when_cancelled(&self) -> bool {
        false
    }

    /// Performs one call. Never panics, never blocks the runtime, and may be dropped at any time.
    async fn call(&self, input: &ToolInput) -> Reply<Value>;
}
