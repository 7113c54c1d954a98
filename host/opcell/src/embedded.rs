//! Code of the embedding program inside of a host: its tools, models and sinks. A panic of theirs is a failure of one
//! call or a line of the log, and a tool that blocks its thread does not hold up the deadline of its caller, except for
//! one call of a tool that never did so before.

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
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
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

/// Calls in a row that a tool answers at once before it is trusted to do so with the next one.
const TRUSTED_AFTER: u32 = 8;

/// The longest time of such a call.
const AT_ONCE: Duration = Duration::from_micros(50);

/// The calls in a row that a tool answered without waiting, and within [`AT_ONCE`].
#[derive(Debug, Clone, Default)]
struct Promptness(Arc<AtomicU32>);

impl Promptness {
    fn is_trusted(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= TRUSTED_AFTER
    }

    /// Notes the first poll of a call.
    fn note(&self, is_ready: bool, took: Duration) {
        if is_ready && took < AT_ONCE {
            // Counting further would wrap around at some time.
            if !self.is_trusted() {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        } else {
            self.0.store(0, Ordering::Relaxed);
        }
    }
}

/// A tool of the program.
pub(crate) struct EmbeddedTool {
    tool: Arc<dyn Tool>,
    description: ToolDescription,
    effects: Effects,
    provider: Provider,
    ends_when_cancelled: bool,
    promptness: Promptness,
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
        Ok(Self { tool, description, effects, provider, ends_when_cancelled, promptness: Promptness::default() })
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
        let promptness = self.promptness.clone();
        let work = async move {
            let call = guarded("tool", &name, Some(&owned.touched), async { (*tool).call(&owned).await });
            first_noted(&promptness, call).await
        };
        // On a thread of its own the tool may block, and whoever waits for it still sees the time.
        let runtime =
            Handle::try_current().ok().filter(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
        let Some(runtime) = runtime else { return work.await };
        let mut work = Box::pin(work.in_current_span());
        // A thread of its own takes two hand-overs, which is more than such a tool takes.
        if self.promptness.is_trusted()
            && let Poll::Ready(result) = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await
        {
            return result;
        }
        match AbortOnDropHandle::new(runtime.spawn(work)).await {
            Ok(result) => result,
            // Only a runtime that ends drops a task that is waited for.
            Err(_) => Err(Failure::host("cancelled", "the runtime ended during the call")),
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

/// Awaits a call, and notes how it began.
async fn first_noted<T>(promptness: &Promptness, call: impl Future<Output = T>) -> T {
    let mut call = pin!(call);
    let mut is_noted = false;
    poll_fn(|context| {
        let begun = Instant::now();
        let polled = call.as_mut().poll(context);
        if !std::mem::replace(&mut is_noted, true) {
            promptness.note(polled.is_ready(), begun.elapsed());
        }
        polled
    })
    .await
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::{AT_ONCE, EmbeddedTool, Promptness, TRUSTED_AFTER};
    use crate::tool_fn_with_schema;
    use opcell_engine::tool::{Caller, Tool as _, ToolInput};
    use opcell_types::Value;
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        thread,
        time::Duration,
    };

    #[test]
    fn a_tool_is_trusted_after_calls_in_a_row_and_one_that_waits_or_takes_long_begins_anew() {
        for (is_ready, took) in [(false, Duration::ZERO), (true, AT_ONCE)] {
            let promptness = Promptness::default();
            for call in 0..TRUSTED_AFTER {
                assert!(!promptness.is_trusted(), "after {call} calls");
                promptness.note(true, Duration::ZERO);
            }
            assert!(promptness.is_trusted());
            promptness.note(is_ready, took);
            assert!(!promptness.is_trusted());
        }
    }

    /// On another thread it may block, and its caller still sees the time.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_tool_runs_on_its_callers_thread_once_it_has_answered_at_once_and_until_it_does_not() {
        let (caller, blocks) = (thread::current().id(), Arc::new(AtomicBool::new(false)));
        let tool = tool_fn_with_schema("t", "Says whether it is on the caller's thread.", Value::object::<&str>([]), {
            let blocks = blocks.clone();
            move |_: Value, _| {
                let blocks = blocks.clone();
                async move {
                    if blocks.load(Ordering::Relaxed) {
                        thread::sleep(Duration::from_millis(1));
                    }
                    Ok(thread::current().id() == caller)
                }
            }
        });
        let tool = EmbeddedTool::new(Arc::new(tool)).unwrap();
        let input = ToolInput::new(Value::object::<&str>([]), Caller::Step);
        let is_here = async || tool.call(&input).await.unwrap() == Value::from(true);
        for _ in 0..TRUSTED_AFTER {
            assert!(!is_here().await, "the first calls may block");
        }
        // A busy machine may take a thread away in the middle of a call.
        while !is_here().await {}
        blocks.store(true, Ordering::Relaxed);
        while is_here().await {}
        assert!(!is_here().await);
    }
}
