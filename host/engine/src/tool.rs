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
use opcell_core::receipt::{Provider, Receipt};
use opcell_ir::ir::RunLimits;
use opcell_types::{CallContext, GivenInput, ToolDescription, TouchLog, Value};
use std::sync::{Arc, Mutex, PoisonError};
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
    /// `true` if a program calls that the model wrote: it reads results as data, without remarks for models.
    pub in_program: bool,
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
    /// The place in which a tool that has something performed elsewhere leaves the receipt of it.
    pub receipt: ReceiptSlot,
    /// The answers with which the call continues, where the tool asked for input.
    pub given: Option<Arc<GivenInput>>,
    /// `true` if the calls of the calling cell are journaled, so that it is run again when a person has answered.
    pub is_run_again: bool,
}

/// A place for the receipt of what a tool had performed elsewhere; clones share it.
#[derive(Debug, Clone, Default)]
pub struct ReceiptSlot(Arc<Mutex<Option<Receipt>>>);

impl ReceiptSlot {
    /// Puts a receipt in the place of the one that is there.
    pub fn put(&self, receipt: Option<Receipt>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = receipt;
    }

    /// Takes the receipt out.
    #[must_use]
    pub fn take(&self) -> Option<Receipt> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ToolInput {
    /// A call by this caller, outside of any run and with nothing that cancels it unless they are set.
    #[must_use]
    pub fn new(arguments: Value, caller: Caller) -> Self {
        Self {
            arguments,
            context: CallContext::default(),
            caller,
            cancel: Arc::default(),
            touched: TouchLog::default(),
            receipt: ReceiptSlot::default(),
            given: None,
            is_run_again: false,
        }
    }

    /// The call by a step.
    #[must_use]
    pub fn of_step(call: &Call) -> Self {
        Self {
            context: call.context.clone(),
            cancel: call.cancel.clone(),
            touched: call.touched.clone(),
            given: call.given.clone(),
            ..Self::new(call.arguments.clone(), Caller::Step)
        }
    }

    /// The call by a model.
    #[must_use]
    pub fn of_model(call: &ToolCall) -> Self {
        let caller = ModelCaller {
            called: call.request.name.clone(),
            session: call.session.clone(),
            left: call.left,
            in_program: false,
        };
        Self {
            context: call.context.clone(),
            cancel: call.cancel.clone(),
            touched: call.touched.clone(),
            given: call.given.clone(),
            ..Self::new(call.request.arguments.clone(), Caller::Model(caller))
        }
    }

    /// The call by a program that a model wrote.
    #[must_use]
    pub fn of_program(call: &ToolCall) -> Self {
        let mut input = Self::of_model(call);
        if let Caller::Model(model) = &mut input.caller {
            model.in_program = true;
        }
        input.is_run_again = call.inner.is_some();
        input
    }

    /// Returns `true` if a program calls that a model wrote.
    #[must_use]
    pub fn is_of_program(&self) -> bool {
        self.model().is_some_and(|model| model.in_program)
    }

    /// Returns `true` if the tool may ask a person for input: it fails with
    /// [`Failure::with_input`](opcell_types::Failure::with_input), and the same call comes again with the answers in
    /// [`Self::given`]. A plugin and a model's program can wait for a person if they are run again afterwards.
    #[must_use]
    pub fn may_ask(&self) -> bool {
        match &self.caller {
            Caller::Step => true,
            Caller::Model(model) => !model.in_program || self.is_run_again,
            Caller::Plugin(_) => self.is_run_again,
        }
    }

    /// Keeps the receipt of what the tool had performed elsewhere, such as in a cell: it becomes part of the caller's
    /// receipt, also if the tool fails. The last one counts.
    pub fn keep_receipt(&self, receipt: Option<Receipt>) {
        self.receipt.put(receipt);
    }

    /// Calls a tool with this input, and puts its result and the receipt that it left together.
    pub async fn call(&self, tool: &dyn Tool) -> Reply<Value> {
        let result = tool.call(self).await;
        Reply { result, receipt: self.receipt.take() }
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
///     ports::{Effects, Failure},
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
///     async fn call(&self, _input: &ToolInput) -> Result<Value, Failure> {
///         Ok(Value::from("2026.11"))
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

    /// Returns the effect of repeating a call with these arguments, where they decide it; that of every call by default.
    fn effects_of(&self, _arguments: &Value) -> Effects {
        self.effects()
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

    /// Performs one call. Does not block the runtime ([`tokio::task::spawn_blocking`] is for that), and may be dropped
    /// at any time. A panic is the failure `panicked` of the call.
    ///
    /// # Errors
    /// With a [`Failure::host`] of a reason of the tool's own, which the caller gets.
    async fn call(&self, input: &ToolInput) -> Result<Value, Failure>;
}

/// A tool that several owners share.
#[async_trait]
impl<T: Tool + ?Sized> Tool for Arc<T> {
    fn description(&self) -> &ToolDescription {
        (**self).description()
    }

    fn effects(&self) -> Effects {
        (**self).effects()
    }

    fn effects_of(&self, arguments: &Value) -> Effects {
        (**self).effects_of(arguments)
    }

    fn provider(&self) -> Provider {
        (**self).provider()
    }

    async fn current(&self) -> Result<Option<ToolDescription>, Failure> {
        (**self).current().await
    }

    fn ends_when_cancelled(&self) -> bool {
        (**self).ends_when_cancelled()
    }

    async fn call(&self, input: &ToolInput) -> Result<Value, Failure> {
        (**self).call(input).await
    }
}
