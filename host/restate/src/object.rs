//! The virtual object `OpcellRun`: a run of the journal under its ID.

use opcell_engine::{
    Engine, ResumeOptions, RunError, RunOutcome, Sender,
    event::Timestamp,
    worker::{Turns, WorkerEvent, WorkerOptions},
};
use opcell_journal::{JournalError, RunId};
use opcell_types::Value;
use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use std::{future::Future, pin::Pin, sync::Arc, time::Duration};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

/// The object's name.
pub(crate) const NAME: &str = "OpcellRun";

/// The moment of the next turn that was asked for, in microseconds of the journal's clock.
const DUE: &str = "due";

/// Bytes of the ID of an invocation. The journal keeps it with a signal, and a server's own have some 40.
const MAX_INVOCATION_ID_BYTES: usize = 256;

/// When a run is tried again that another worker has, or whose journal does not answer.
const SOON: Duration = Duration::from_secs(1);

/// When a run is tried again that cannot be resumed: someone must change something first.
const LATER: Duration = Duration::from_secs(30);

/// The longest time until a turn; the run's timer may be due later, and then the turn asks for another one.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3_600);

type Driven = Pin<Box<dyn Future<Output = Result<RunOutcome, RunError>> + Send>>;

/// A worker's handler for the runs that it is given.
pub(crate) struct OpcellRun {
    engine: Engine,
    drive: Box<dyn Fn(RunId, ResumeOptions) -> Driven + Send + Sync>,
    slice: Duration,
    park: Duration,
    /// One permit for each run that is driven at a time.
    permits: Semaphore,
    report: mpsc::UnboundedSender<WorkerEvent>,
}

/// The result of a turn that Restate keeps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Turned {
    /// When the run needs its next turn, in microseconds of the journal's clock; it ended or waits for a message if
    /// there is none.
    due: Option<i64>,
    /// The time until then, in milliseconds.
    after: f64,
}

impl Turned {
    /// The time until the next turn, within [`LONGEST`] whatever the number is: the server returns what it kept, and may
    /// have changed it.
    fn delay(self) -> Duration {
        let seconds = self.after.max(0.0) / 1_000.0;
        Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST).min(LONGEST)
    }
}

/// A signal to a run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SignalBody {
    name: Arc<str>,
    #[serde(default)]
    data: serde_json::Value,
}

impl OpcellRun {
    pub(crate) fn new<T: Turns>(turns: T, options: &WorkerOptions, report: mpsc::UnboundedSender<WorkerEvent>) -> Self {
        let engine = turns.engine().clone();
        let drive = move |run: RunId, options: ResumeOptions| -> Driven {
            let turns = turns.clone();
            Box::pin(async move { turns.turn(&run, options).await })
        };
        let permits = Semaphore::new(options.concurrency);
        Self { engine, drive: Box::new(drive), slice: options.slice, park: options.park, permits, report }
    }

    /// Drives the run to its next wait, or for a slice.
    async fn drive(&self, run: RunId) -> Turned {
        // It is never closed.
        let _permit = self.permits.acquire().await;
        let release = CancellationToken::new();
        let park = Some(self.park);
        let options = ResumeOptions { detach: true, park, release: release.clone(), ..ResumeOptions::default() };
        let driven = (self.drive)(run.clone(), options);
        tokio::pin!(driven);
        let ended = tokio::select! {
            ended = &mut driven => ended,
            () = tokio::time::sleep(self.slice) => {
                // Other runs wait for their turns at the server, where this worker does not see them.
                release.cancel();
                driven.await
            }
        };
        match ended {
            Ok(outcome) => {
                let turned = self.next(outcome.due);
                self.say(WorkerEvent::Turn(Box::new(outcome)));
                turned
            }
            Err(error) => self.failed(run, &error),
        }
    }

    fn next(&self, due: Option<Timestamp>) -> Turned {
        let after = due.map_or(0.0, |due| due.ms_since(self.engine.ports().timer.now()).max(0.0));
        Turned { due: due.map(|due| due.0), after }
    }

    fn failed(&self, run: RunId, error: &RunError) -> Turned {
        let pause = match error {
            // Stopping is no failure: Restate gives the turn to another worker.
            RunError::ShuttingDown => SOON,
            RunError::Journal(error) => match &**error {
                JournalError::Held { .. } => SOON,
                JournalError::LeaseLost { .. } | JournalError::Fenced { .. } => {
                    self.say(WorkerEvent::LeaseLost { run });
                    SOON
                }
                // Anyone who reaches the server can name a run that does not exist. A new run is offered when it starts.
                JournalError::UnknownRun(_) => return Turned { due: None, after: 0.0 },
                JournalError::Storage(_) => {
                    self.say(WorkerEvent::Refused { run, why: error.to_string() });
                    SOON
                }
                _ => {
                    self.say(WorkerEvent::Refused { run, why: error.to_string() });
                    LATER
                }
            },
            error => {
                self.say(WorkerEvent::Refused { run, why: error.to_string() });
                LATER
            }
        };
        let at = self.engine.ports().timer.now().plus_ms(pause.as_secs_f64() * 1_000.0);
        self.next(Some(at))
    }

    /// Whoever listens may have gone.
    fn say(&self, event: WorkerEvent) {
        let _ = self.report.send(event);
    }
}

#[object(name = "OpcellRun")]
impl OpcellRun {
    /// Drives the run to its next wait, and asks for its next turn.
    #[handler]
    async fn turn(&self, context: ObjectContext<'_>) -> Result<(), HandlerError> {
        let run: RunId = context.key().into();
        // What the turn came to is kept by the server: what follows is the same when it is given again.
        let Json(turned) = context.run(|| async { Ok(Json(self.drive(run).await)) }).name("turn").await?;
        let asked_for = context.get::<Json<i64>>(DUE).await?.map(|Json(due)| due);
        match turned.due {
            None => context.clear(DUE),
            // A call at that moment is on its way.
            Some(due) if turned.after > 0.0 && asked_for == Some(due) => {}
            Some(due) => {
                context.set(DUE, Json(due));
                let next = context.object_client::<OpcellRunClient>(context.key()).turn();
                next.send_after(turned.delay());
            }
        }
        Ok(())
    }

    /// Sends the run a signal, once per call. Approvals are given to Opcell, which knows who gives them.
    #[handler]
    async fn signal(&self, context: SharedObjectContext<'_>, body: Json<SignalBody>) -> Result<(), HandlerError> {
        let Json(SignalBody { name, data }) = body;
        let run: RunId = context.key().into();
        let id = context.invocation_id();
        if id.len() > MAX_INVOCATION_ID_BYTES {
            let message = format!("the ID of an invocation has at most {MAX_INVOCATION_ID_BYTES} bytes");
            return Err(TerminalError::new_with_code(400, message).into());
        }
        let key: Arc<str> = format!("restate:{id}").into();
        let sender = Sender { by: Some("restate".into()), key: Some(key), may_approve: false };
        self.engine.signal_from(&run, &name, Value::from(data), sender).await.map_err(refused)?;
        context.object_client::<OpcellRunClient>(context.key()).turn().send();
        Ok(())
    }
}

/// A journal that does not answer is asked again by Restate; anything else is the caller's to know.
fn refused(error: RunError) -> HandlerError {
    match &error {
        RunError::MayNotApprove { signal, .. } => {
            let message = format!(
                "`{signal}` is an approval, and who calls through Restate is not known; use {}",
                opcell_types::FollowUp::ApproveRun
            );
            TerminalError::new_with_code(403, message).into()
        }
        RunError::Journal(journal) if matches!(**journal, JournalError::Storage(_)) => error.into(),
        RunError::Journal(journal) if matches!(**journal, JournalError::UnknownRun(_)) => {
            TerminalError::new_with_code(404, error.to_string()).into()
        }
        _ => TerminalError::new_with_code(409, error.to_string()).into(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;
    use opcell_engine::{Program, RunOptions};
    use opcell_journal::{Append, Cut, Journal as _, MemoryJournal};

    const WAITS: &str =
        r#"{"version":"workflow-ir/v1","name":"w","steps":[{"name":"w","type":"wait","wait":{"signal":"go"}}]}"#;

    fn object(journal: &Arc<MemoryJournal>) -> (OpcellRun, mpsc::UnboundedReceiver<WorkerEvent>) {
        let engine = Engine::builder().journal(journal.clone()).build();
        let (report, events) = mpsc::unbounded_channel();
        (OpcellRun::new(engine, &WorkerOptions::default(), report), events)
    }

    async fn waiting(object: &OpcellRun) -> RunId {
        let program = Program::new(Arc::new(serde_json::from_str(WAITS).unwrap())).unwrap();
        let options = RunOptions { run: Some("r".parse().unwrap()), detach: true, ..RunOptions::default() };
        let handle = object.engine.start(program, Value::Null, options).await.unwrap();
        handle.finished().await.unwrap();
        handle.run().clone()
    }

    /// The server keeps the result of a turn and returns it when the turn is repeated: as it was, or forged.
    #[test]
    fn a_forged_result_of_a_turn_gives_a_delay_within_bounds() {
        let kept = |after: &str| serde_json::from_str::<Turned>(&format!(r#"{{"due":1,"after":{after}}}"#));
        for (after, delay) in [
            ("1500.0", Duration::from_millis(1_500)),
            ("0.0", Duration::ZERO),
            ("-1.0", Duration::ZERO),
            ("-1e308", Duration::ZERO),
            ("1e308", LONGEST),
            ("1e22", LONGEST),
        ] {
            assert_eq!(kept(after).unwrap().delay(), delay, "{after}");
        }
        assert_eq!(Turned { due: Some(1), after: f64::NAN }.delay(), Duration::ZERO);
        assert_eq!(Turned { due: Some(1), after: f64::INFINITY }.delay(), LONGEST);
        assert!(kept("1e999").is_err() && kept("\"1\"").is_err());
    }

    #[tokio::test]
    async fn a_turn_of_an_unknown_run_asks_for_no_other_and_reports_nothing() {
        let (object, mut events) = object(&Arc::default());
        for foreign in ["gone", "", "../r", "r\u{1b}]0;x\u{7}", &"r".repeat(1 << 20)] {
            assert_eq!(object.drive(foreign.into()).await, Turned { due: None, after: 0.0 });
        }
        assert!(events.try_recv().is_err());
        assert!(object.engine.journal().runs().await.unwrap().is_empty(), "no run is made of it");
    }

    #[tokio::test]
    async fn turns_out_of_order_and_again_change_nothing() {
        let journal = Arc::new(MemoryJournal::new());
        let (object, mut events) = object(&journal);
        let run = waiting(&object).await;
        let before = journal.read(&run, 0, 1_000).await.unwrap();
        // One after the other, and many at once although the server promised one at a time.
        for _ in 0..3 {
            assert_eq!(object.drive(run.clone()).await.due, None);
        }
        let object = Arc::new(object);
        let mut turns = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let (object, run) = (object.clone(), run.clone());
            turns.spawn(async move { object.drive(run).await });
        }
        assert!(turns.join_all().await.iter().any(|turned| turned.due.is_none()));
        assert_eq!(journal.read(&run, 0, 1_000).await.unwrap(), before);
        while let Ok(event) = events.try_recv() {
            assert!(matches!(event, WorkerEvent::Turn(_)), "{event:?}");
        }
        // Another worker has the run: the turn waits, and the other one loses nothing.
        let owner = journal.acquire(&run, Cut::Tail).await.unwrap();
        assert!(object.drive(run.clone()).await.delay() <= SOON);
        let write = Append {
            run: run.clone(),
            fence: owner.fence,
            records: Vec::new(),
            state: None,
            snapshot: None,
            inbox: None,
        };
        journal.append(write).await.unwrap();
    }

    #[test]
    fn the_body_of_a_signal_is_read_strictly() {
        for forged in [
            r#"{"name":"go","may-approve":true}"#,
            r#"{"name":"go","by":"ann"}"#,
            r#"{"name":1}"#,
            r#"{"data":1}"#,
            "[]",
            "null",
        ] {
            assert!(serde_json::from_str::<SignalBody>(forged).is_err(), "{forged}");
        }
        let deep = format!(r#"{{"name":"go","data":{}{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
        assert!(serde_json::from_str::<SignalBody>(&deep).is_err());
    }
}
