//! The ports of the engine. Each trait is implemented outside and wired in the `opcell` crate.
//!
//! An implementation may be asked for the same effect twice (a crash between effect and journal): the idempotency key
//! says so.

use crate::inner::InnerJournal;
pub use crate::pieces::{AnswerPiece, MAX_PIECE_BYTES, MAX_ROUND_PIECE_BYTES, RunText, TextSink};
use async_trait::async_trait;
pub use opcell_core::call::{EffectContext, ModelReply, OpenSession, OpenedSession, Reply, Success, Verdict};
pub use opcell_core::failure::{Effects, Failure};
use opcell_core::{
    call,
    effect::{AskedBecause, Catalogue},
    id::Timestamp,
    receipt::{Provider, Receipt},
};
use opcell_ir::WorkflowIr;
use opcell_journal::Journal;
use opcell_types::{TouchLog, Value};
use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio_util::sync::CancellationToken;

/// Something to perform that can be cancelled while it lasts.
#[derive(Debug, Clone)]
pub struct Cancellable<T> {
    /// The request.
    pub of: T,
    /// Cancelled when the run is. Shared, for every clone of a token itself takes a lock.
    pub cancel: Arc<CancellationToken>,
    /// The log in which it notes what it touches; clones note in the same place.
    pub touched: TouchLog,
    /// The journal of the calls that its cell makes, where it can be run again with them.
    pub inner: Option<InnerJournal>,
}

impl<T> Cancellable<T> {
    /// Returns a job for a request, with the token that cancels it.
    #[must_use]
    #[inline]
    pub fn new(of: T, cancel: impl Into<Arc<CancellationToken>>) -> Self {
        Self { of, cancel: cancel.into(), touched: TouchLog::default(), inner: None }
    }

    /// The same with the journal of the calls that its cell makes.
    #[must_use]
    pub fn journaling(self, inner: Option<InnerJournal>) -> Self {
        Self { inner, ..self }
    }
}

impl<T> Deref for Cancellable<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.of
    }
}

impl<T> DerefMut for Cancellable<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.of
    }
}

/// A call of an operation or of an invoke judge, as a port performs it.
pub type Call = Cancellable<call::Call>;

/// One question to a model, as a port performs it.
pub type ModelRound = Cancellable<call::ModelRound>;

/// A tool call by a model, as a port performs it.
pub type ToolCall = Cancellable<call::ToolCall>;

/// Deterministic operations.
#[async_trait]
pub trait Operations: Send + Sync {
    /// Returns the effect of repeating the operation; `None` when there is no such operation.
    fn effects(&self, operation: &str) -> Option<Effects>;

    /// Returns the question to a person before a refusal of the operation's, or the judge's, call counts: the plugin's
    /// reason for what it was refused; `None` if no person is asked. Unless said otherwise, no one is asked.
    /// `is_resumed`: the call continues with the answers that the calls of its cell had, and repeats none of them.
    fn asks(
        &self,
        _operation: &str,
        _refused: &Failure,
        _receipt: Option<&Receipt>,
        _is_resumed: bool,
    ) -> Option<AskedBecause> {
        None
    }

    /// Returns `true` if a call of the operation can be run again with the answers that the calls of its cell had: they
    /// are all that it changes, and each is made through [`Cancellable::inner`]. The answer is the same for all calls of
    /// a run.
    fn is_resumable(&self, _operation: &str) -> bool {
        false
    }

    /// Runs one operation. Never panics, never blocks; ends soon after the call is cancelled.
    async fn invoke(&self, call: Call) -> Reply<Success>;
}

/// Invoke judges: judge exports of plugins. Operations that serve as judges go through [`Operations`].
#[async_trait]
pub trait Judges: Send + Sync {
    /// Returns `true` if there is a judge of this id.
    fn knows(&self, judge: &str) -> bool;

    /// Decides. Every failure ends the run: a judge fails closed.
    async fn judge(&self, call: Call) -> Reply<Verdict>;
}

/// Model conversations. The engine drives them round by round, so that every round and every tool call is journaled
/// singly.
#[async_trait]
pub trait Sessions: Send + Sync {
    /// Assembles the prompt and finds the models and tools.
    async fn open(&self, request: OpenSession) -> Result<OpenedSession, Failure>;

    /// Asks the model once.
    async fn complete(&self, round: ModelRound, sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure>;

    /// Returns the effect of repeating a tool call.
    fn tool_effects(&self, tool: &str) -> Effects;

    /// Returns the provider of a tool; asked for a call that is stopped, which cannot name it itself. `None`: no one
    /// knows.
    fn tool_provider(&self, _tool: &str) -> Option<Provider> {
        None
    }

    /// Returns `true` if a call of a tool of a session can be run again with the answers that the calls of its cell had:
    /// as [`Operations::is_resumable`].
    fn is_resumable(&self, _session: &OpenedSession, _tool: &str) -> bool {
        false
    }

    /// Calls one tool; a failure becomes the answer to the model.
    async fn call_tool(&self, call: ToolCall) -> Reply<Value>;
}

/// Time. Everything that a run waits for goes through here, so that a test can let hours pass at once.
#[async_trait]
pub trait Timer: Send + Sync {
    /// The time that stamps events.
    fn now(&self) -> Timestamp;

    /// Waits for a delay that the workflow asks for, in milliseconds; fractions count.
    async fn sleep(&self, ms: f64);

    /// Ends when something in flight has had `ms` milliseconds. Unlike [`Timer::sleep`] no one asked for this time to
    /// pass.
    async fn deadline(&self, ms: f64);
}

/// A clock that several owners share.
#[async_trait]
impl<T: Timer + ?Sized> Timer for Arc<T> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    async fn sleep(&self, ms: f64) {
        (**self).sleep(ms).await;
    }

    async fn deadline(&self, ms: f64) {
        (**self).deadline(ms).await;
    }
}

/// The computer's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemTimer;

#[async_trait]
impl Timer for SystemTimer {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        Timestamp(seconds.saturating_mul(1_000_000).saturating_add(since.subsec_micros().into()))
    }

    async fn sleep(&self, ms: f64) {
        // Longer than the clock can count is forever, not at once.
        tokio::time::sleep(Duration::try_from_secs_f64(ms.max(0.0) / 1000.0).unwrap_or(Duration::MAX)).await;
    }

    async fn deadline(&self, ms: f64) {
        self.sleep(ms).await;
    }
}

/// The clock of a journal that machines share, or the computer's where the journal has none.
pub(crate) struct JournalTimer(pub Arc<dyn Journal>);

#[async_trait]
impl Timer for JournalTimer {
    fn now(&self) -> Timestamp {
        self.0.now().map_or_else(|| SystemTimer.now(), Timestamp)
    }

    async fn sleep(&self, ms: f64) {
        SystemTimer.sleep(ms).await;
    }

    async fn deadline(&self, ms: f64) {
        SystemTimer.deadline(ms).await;
    }
}

/// The workflows that delegates can call.
pub trait Workflows: Send + Sync {
    /// The newest definition of a name.
    fn find(&self, name: &str) -> Option<Arc<WorkflowIr>>;

    /// Every name, for "did you mean".
    fn names(&self) -> Vec<String>;
}

/// Everything the engine reaches.
#[derive(Clone)]
pub struct Ports {
    /// Operations of plugins.
    pub operations: Arc<dyn Operations>,
    /// Judges of plugins.
    pub judges: Arc<dyn Judges>,
    /// Model conversations.
    pub sessions: Arc<dyn Sessions>,
    /// Workflows that delegates name.
    pub workflows: Arc<dyn Workflows>,
    /// Time.
    pub timer: Arc<dyn Timer>,
}

impl std::fmt::Debug for Ports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ports").finish_non_exhaustive()
    }
}

impl Catalogue for Ports {
    fn operation(&self, id: &str) -> Option<Effects> {
        self.operations.effects(id)
    }

    fn is_judge(&self, id: &str) -> bool {
        self.judges.knows(id)
    }

    fn tool(&self, name: &str) -> Effects {
        self.sessions.tool_effects(name)
    }

    fn tool_provider(&self, name: &str) -> Option<Provider> {
        self.sessions.tool_provider(name)
    }

    fn asks(&self, operation: &str, refused: &Failure, receipt: Option<&Receipt>) -> Option<AskedBecause> {
        self.operations.asks(operation, refused, receipt, false)
    }
}
