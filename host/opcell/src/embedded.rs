//! Code of the embedding program inside of a host: its tools, models and sinks. A panic of theirs is a failure of one
//! call or a line of the log, and a tool that blocks its thread does not hold up the deadline of its caller.

use crate::{report::Rejected, services::LogSink};
use async_trait::async_trait;
use opcell_engine::{
    event::EffectId,
    ports::{AnswerPiece, Effects, Failure, ModelReply, ModelRound, RunText, TextSink},
    receipt::Provider,
    tool::{Tool, ToolInput},
};
use opcell_ir::Diagnostic;
use opcell_sandbox::{Receipt as CellReceipt, host::LogEvent};
use opcell_session::{models::Model, sessions::RoundFigures};
use opcell_types::{CallContext, ToolDescription, TouchLog, Value, text::one_line};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

/// Time that code of the program may keep a thread of the runtime before a warning names it. Anything that waits
/// properly gives its thread back within microseconds.
const BLOCKED_THREAD: Duration = Duration::from_millis(100);

/// The longest name in a warning or a failure, in bytes.
const NAME_BYTES: usize = 100;

/// A tool of the program.
pub(crate) struct EmbeddedTool {
    tool: Arc<dyn Tool>,
    description: ToolDescription,
    effects: Effects,
    provider: Provider,
    ends_when_cancelled: bool,
}

impl EmbeddedTool {
    /// Asks the tool for what is the same at every call.
    ///
    /// # Errors
    /// When it panics.
    pub(crate) fn new(tool: Arc<dyn Tool>) -> Result<Self, Rejected> {
        let asked = catch_unwind(AssertUnwindSafe(|| {
            (tool.description().clone(), tool.effects(), tool.provider(), tool.ends_when_cancelled())
        }));
        let (description, effects, provider, ends_when_cancelled) = asked.map_err(|_| {
            Rejected::plain(Diagnostic::error("invalid-tool", "a tool of this program panicked when it was described"))
        })?;
        Ok(Self { tool, description, effects, provider, ends_when_cancelled })
    }
}

#[async_trait]
impl Tool for EmbeddedTool {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    fn effects(&self) -> Effects {
        self.effects
    }

    fn provider(&self) -> Provider {
        self.provider.clone()
    }

    async fn current(&self) -> Result<Option<ToolDescription>, Failure> {
        guarded("tool", &self.description.name, None, self.tool.current()).await
    }

    fn ends_when_cancelled(&self) -> bool {
        self.ends_when_cancelled
    }

    async fn call(&self, input: &ToolInput) -> Result<Value, Failure> {
        let (tool, owned, name) = (self.tool.clone(), input.clone(), self.description.name.clone());
        let work =
            async move { guarded("tool", &name, Some(&owned.touched), async { (*tool).call(&owned).await }).await };
        // On a thread of its own the tool may block, and whoever waits for it still sees the time.
        let runtime =
            Handle::try_current().ok().filter(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
        match runtime {
            Some(runtime) => match AbortOnDropHandle::new(runtime.spawn(work.in_current_span())).await {
                Ok(result) => result,
                // Only a runtime that ends drops a task that is waited for.
                Err(_) => Err(Failure::host("cancelled", "the runtime ended during the call")),
            },
            None => work.await,
        }
    }
}

/// A model of the program.
pub(crate) struct EmbeddedModel {
    name: String,
    model: Arc<dyn Model>,
}

impl EmbeddedModel {
    pub(crate) fn shared(name: &str, model: Arc<dyn Model>) -> Arc<dyn Model> {
        Arc::new(Self { name: name.to_owned(), model })
    }
}

#[async_trait]
impl Model for EmbeddedModel {
    async fn complete(&self, round: &ModelRound, sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        guarded("model", &self.name, None, async { self.model.complete(round, sink).await }).await
    }

    fn lacks_logprobs(&self) -> Option<&'static str> {
        catch_unwind(AssertUnwindSafe(|| self.model.lacks_logprobs())).unwrap_or_default()
    }
}

/// A sink of the program: what it panics at is lost, and the log says so.
pub(crate) struct EmbeddedSink<T: ?Sized>(Arc<T>);

impl<T: ?Sized> EmbeddedSink<T> {
    pub(crate) fn new(sink: Arc<T>) -> Self {
        Self(sink)
    }

    fn tell(&self, what: &'static str, tell: impl FnOnce(&T)) {
        let begun = Instant::now();
        if catch_unwind(AssertUnwindSafe(|| tell(self.0.as_ref()))).is_err() {
            tracing::error!("{what} of this program panicked; what it was told is lost");
        }
        warn_if_blocked("sink", what, begun.elapsed());
    }
}

impl LogSink for EmbeddedSink<dyn LogSink> {
    fn log(&self, plugin: &str, context: &CallContext, event: LogEvent<'_>) {
        self.tell("the log sink", |sink| sink.log(plugin, context, event));
    }

    fn ended(&self, context: &CallContext, receipt: &CellReceipt) {
        self.tell("the log sink", |sink| sink.ended(context, receipt));
    }

    fn answered(&self, round: RoundFigures<'_>) {
        self.tell("the log sink", |sink| sink.answered(round));
    }

    fn called(&self, tool: &str, took: Duration, failure: Option<&Failure>) {
        self.tell("the log sink", |sink| sink.called(tool, took, failure));
    }
}

impl crate::JournalSink for EmbeddedSink<dyn crate::JournalSink> {
    fn wrote(&self, took: Duration, is_durable: bool) {
        self.tell("the journal sink", |sink| sink.wrote(took, is_durable));
    }
}

impl RunText for EmbeddedSink<dyn RunText> {
    fn text(&self, round: EffectId, piece: &str) {
        self.piece(round, AnswerPiece::Text(piece));
    }

    fn piece(&self, round: EffectId, piece: AnswerPiece<'_>) {
        self.tell("the text sink", |sink| sink.piece(round, piece));
    }

    fn takes_answers(&self) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.0.takes_answers())).unwrap_or(true)
    }

    fn takes_back(&self) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.0.takes_back())).unwrap_or_default()
    }
}

/// Awaits work of the program. A panic is a failure, and work that keeps its thread is named in a warning: in the log,
/// and in the receipt of the call.
async fn guarded<T>(
    kind: &'static str,
    name: &str,
    touched: Option<&TouchLog>,
    work: impl Future<Output = Result<T, Failure>> + Send,
) -> Result<T, Failure> {
    Guarded { kind, name, touched, work: Box::pin(work), is_over: false }.await
}

struct Guarded<'a, F> {
    kind: &'static str,
    name: &'a str,
    touched: Option<&'a TouchLog>,
    work: Pin<Box<F>>,
    is_over: bool,
}

impl<T, F: Future<Output = Result<T, Failure>>> Future for Guarded<'_, F> {
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let begun = Instant::now();
        let panicked = |kind: &str, name: &str| {
            let message = format!(
                "the {kind} `{}` of this program panicked; its log has the message",
                one_line(name, NAME_BYTES)
            );
            Poll::Ready(Err(Failure::host(Failure::PANICKED, message)))
        };
        if self.is_over {
            return panicked(self.kind, self.name);
        }
        let polled = catch_unwind(AssertUnwindSafe(|| self.work.as_mut().poll(context)));
        if let Some(ms) = warn_if_blocked(self.kind, self.name, begun.elapsed())
            && let Some(touched) = self.touched
        {
            let name = one_line(self.name, NAME_BYTES);
            touched.note(|touched| touched.warn(&format!("the {} `{name}` blocked its thread for {ms} ms", self.kind)));
        }
        let polled = polled.unwrap_or_else(|_| panicked(self.kind, self.name));
        self.is_over = polled.is_ready();
        polled
    }
}

/// The time in milliseconds, if it was too long.
fn warn_if_blocked(kind: &str, name: &str, took: Duration) -> Option<u64> {
    let ms = (took >= BLOCKED_THREAD).then(|| u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    if let Some(ms) = ms {
        tracing::warn!(
            name = %one_line(name, NAME_BYTES),
            ms,
            "the {kind} blocked a thread of the runtime, so that deadlines are noticed late; do such work in `spawn_blocking`"
        );
    }
    ms
}
