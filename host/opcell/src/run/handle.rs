//! Runs that are driven here, and runs of the journal by their IDs.

use futures_util::{Stream, stream};
use opcell_engine::{
    Decision, Delivery, Engine, Message, Recorded, RunError, RunHandle, RunOutcome, RunUpdate, Status,
    event::{Answer, EffectId},
    outcome::Question,
};
use opcell_journal::{Damage, RunId};
use opcell_types::Value;
use std::{fmt, sync::Arc};

/// A run that this host drives. Dropping it lets the run continue.
#[derive(Clone)]
pub struct Run {
    handle: RunHandle,
    by_id: RunRef,
}

/// A run of the journal, by its ID, whichever process drives it: [`Host::run`](crate::Host::run).
#[derive(Clone)]
pub struct RunRef {
    engine: Arc<Engine>,
    id: RunId,
}

/// A run that [`Host::resume_all`](crate::Host::resume_all) found.
#[derive(Debug)]
#[non_exhaustive]
pub struct ResumedRun {
    /// Its ID.
    pub id: RunId,
    /// The run, or why it is not driven here.
    pub run: Result<Run, RunError>,
}

/// Reasons for which a host no longer drives a run: [`Run::outcome`].
#[derive(Debug, Clone, PartialEq)]
#[must_use]
#[non_exhaustive]
pub enum Outcome {
    /// The run has ended: completed, failed or cancelled.
    Ended(Box<RunOutcome>),
    /// It waits for answers, and was started with [`RunOptions::detach`](crate::RunOptions::detach). It continues when it
    /// is resumed.
    Suspended(Vec<Question>),
    /// It was given back to its journal: the host is closing, the run waits for a time that is far off, or its
    /// `release` was cancelled. It continues when it is resumed.
    Released,
}

/// Why a run has no end yet.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NotEnded {
    /// It waits for answers.
    #[error("the run is suspended: it waits for an answer or a signal")]
    Suspended(Vec<Question>),
    /// It was given back to its journal.
    #[error("the run was released before its end; resume it")]
    Released,
}

impl Outcome {
    /// The end of the run: its status and its result, or why it failed.
    ///
    /// # Errors
    /// When it has not ended.
    pub fn ended(self) -> Result<RunOutcome, NotEnded> {
        match self {
            Self::Ended(outcome) => Ok(*outcome),
            Self::Suspended(questions) => Err(NotEnded::Suspended(questions)),
            Self::Released => Err(NotEnded::Released),
        }
    }
}

impl From<RunOutcome> for Outcome {
    fn from(outcome: RunOutcome) -> Self {
        match outcome.status {
            status if status.has_ended() => Self::Ended(Box::new(outcome)),
            Status::Suspended => Self::Suspended(outcome.questions),
            _ => Self::Released,
        }
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("id", &self.id()).finish_non_exhaustive()
    }
}

impl fmt::Debug for RunRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunRef").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Run {
    pub(crate) fn new(handle: RunHandle, engine: Arc<Engine>) -> Self {
        let by_id = RunRef::new(engine, handle.run().clone());
        Self { handle, by_id }
    }

    /// The run's identifier.
    #[must_use]
    pub fn id(&self) -> &str {
        self.handle.run()
    }

    /// The same run by its ID, which stays good when this host no longer drives it.
    #[must_use]
    pub fn by_id(&self) -> &RunRef {
        &self.by_id
    }

    /// Returns the damage that was found at the end of the journal, and cut, when the run was resumed.
    #[must_use]
    pub fn damage(&self) -> Option<&Damage> {
        self.handle.damage()
    }

    /// The last event that was there when the run was resumed; 0 for one that was started here.
    #[must_use]
    pub fn resumed_at(&self) -> u64 {
        self.handle.resumed_at()
    }

    /// Returns the status of the run when it was durable, before any of its effects, or when it was resumed.
    #[must_use]
    pub fn initial(&self) -> &RunOutcome {
        self.handle.initial()
    }

    /// Every event from the first one, past ones included, as the journal keeps them; ends when the run is no longer
    /// driven here. A page or a program that shows steps reads [`Run::updates`].
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(run: &Run) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut events = run.events().await?;
    /// while let Some(recorded) = events.next().await {
    ///     println!("{} {}", recorded.seq, recorded.event.kind());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn events(&self) -> Result<impl Stream<Item = Arc<Recorded>> + Unpin + Send + use<>, RunError> {
        self.handle.events().await
    }

    /// The events from the first one on, one thing at a time, and whenever the run is suspended, its questions. A
    /// step has the same shape however fast it was. The stream ends when this host stops driving the run.
    ///
    /// ```
    /// use opcell::prelude::*;
    ///
    /// # async fn follow(run: &Run) -> Result<(), RunError> {
    /// let mut updates = run.updates().await?;
    /// while let Some(update) = updates.next().await {
    ///     match update {
    ///         RunUpdate::Happened(recorded) => println!("{} {}", recorded.seq, recorded.event.kind()),
    ///         RunUpdate::Suspended(questions) => println!("waits for {questions:?}"),
    ///         _ => {}
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn updates(&self) -> Result<impl Stream<Item = RunUpdate> + Unpin + Send + use<>, RunError> {
        let updates = self.handle.updates().await?;
        Ok(Box::pin(stream::unfold(updates, |mut updates| async move {
            let update = updates.next().await?;
            Some((update, updates))
        })))
    }

    /// Asks the run to stop: no effect begins any more, those in flight are cancelled, and the run ends as cancelled.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(run: &Run) -> Result<(), Box<dyn std::error::Error>> {
    /// run.cancel("the order was withdrawn");
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel(&self, reason: &str) {
        self.handle.cancel(reason);
    }

    /// Sends a signal; see [`RunRef::signal`].
    ///
    /// # Errors
    /// As [`RunRef::signal`].
    pub async fn signal(&self, name: &str, data: impl Into<Value>, by: Option<&str>) -> Result<Delivery, RunError> {
        self.by_id.signal(name, data, by).await
    }

    /// Answers an open question; see [`RunRef::approve`].
    ///
    /// # Errors
    /// As [`RunRef::approve`].
    pub async fn approve(&self, question: &str, decision: Decision) -> Result<Delivery, RunError> {
        self.by_id.approve(question, decision).await
    }

    /// Answers an effect in doubt; see [`RunRef::settle`].
    ///
    /// # Errors
    /// As [`RunRef::settle`].
    pub async fn settle(&self, effect: EffectId, answer: Answer, by: Option<&str>) -> Result<Delivery, RunError> {
        self.by_id.settle(effect, answer, by).await
    }

    /// Waits until this host no longer drives the run: because it has ended, because it is suspended and was started
    /// with `detach`, or because it was released. A run that is suspended without `detach` is waited for;
    /// [`Run::updates`] says so.
    ///
    /// ```
    /// use opcell::prelude::*;
    ///
    /// # async fn end(run: &Run) -> Result<(), Box<dyn std::error::Error>> {
    /// match run.outcome().await? {
    ///     Outcome::Ended(end) => println!("{}: {}", end.status, end.result),
    ///     Outcome::Suspended(questions) => println!("waits for {} answers", questions.len()),
    ///     _ => println!("resume it later"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the run could not be driven on, such as by a journal that does not write.
    pub async fn outcome(&self) -> Result<Outcome, RunError> {
        Ok(self.finished().await?.into())
    }

    /// As [`Run::outcome`], with how the run stood when this host stopped driving it, whatever the reason: its `status`
    /// says it.
    ///
    /// # Errors
    /// As [`Run::outcome`].
    pub async fn finished(&self) -> Result<RunOutcome, RunError> {
        self.handle.finished().await
    }
}

impl RunRef {
    pub(crate) fn new(engine: Arc<Engine>, id: RunId) -> Self {
        Self { engine, id }
    }

    /// The run's identifier.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The state of the run now: its status, its questions, what it has used, and its result once it has ended.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// let run = host.run("order-17");
    /// println!("{}", run.state().await?.status);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the journal does not have the run, or cannot be read.
    pub async fn state(&self) -> Result<RunOutcome, RunError> {
        Ok(self.engine.state_at(&self.id, None).await?.outcome())
    }

    /// Waits until the run has ended, whichever process drives it. One without a driver does not end.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// let run = host.run("order-17");
    /// println!("{}", run.wait().await?.result);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`RunRef::state`].
    pub async fn wait(&self) -> Result<RunOutcome, RunError> {
        self.engine.wait_for_end(&self.id).await
    }

    /// Every event until now.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// let run = host.run("order-17");
    /// for recorded in run.history().await? {
    ///     println!("{}", recorded.event.kind());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`RunRef::state`].
    pub async fn history(&self) -> Result<Vec<Recorded>, RunError> {
        self.engine.history(&self.id).await
    }

    /// Sends a signal to a step that waits for it, now or later, and says which. A run without a driver takes it when it
    /// is resumed.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// let run = host.run("order-17");
    /// let delivery = run.signal("paid", opcell::json!({"amount": 20}), Some("ann")).await?;
    /// println!("{delivery:?}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the journal does not have the run, the run has ended, no step of it ever waits for such a signal, or it
    /// answers an approval that has an answer already.
    pub async fn signal(&self, name: &str, data: impl Into<Value>, by: Option<&str>) -> Result<Delivery, RunError> {
        self.engine.signal(&self.id, &name.into(), data.into(), by.map(Into::into)).await
    }

    /// Answers an open question: an approval by its ID or its name; a call that was refused something, a call that a
    /// model asks for, or a form of a tool by the ID of its question. If the future is dropped, the answer
    /// may have been sent all the same.
    ///
    /// ```
    /// use opcell::prelude::*;
    ///
    /// # async fn ship(run: &Run, questions: &[Question]) -> Result<(), RunError> {
    /// run.approve("ship", Decision::approve().by("ann").why("paid")).await?;
    /// if let [Question::Call { id, tool, arguments, .. }] = questions {
    ///     println!("{tool} {arguments}");
    ///     // The call, but with less.
    ///     let decision = Decision::approve().by("ann").arguments(opcell::json!({"amount": 20}));
    ///     run.approve(id, decision).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the journal does not have the run, when the run has ended, asks nothing of this ID or name (any more), asks
    /// several questions of this name, or has an answer already; when the decision has a part that the question does
    /// not take, or arguments or values that do not match its schema ([`RunError::AnswerNotTaken`]).
    pub async fn approve(&self, question: &str, decision: Decision) -> Result<Delivery, RunError> {
        self.engine.decide(&self.id, question, &decision).await
    }

    /// Answers an effect in doubt ([`Question::Doubt`]), which may have happened before a crash: repeat it, treat it as
    /// done with the result null, or treat it as failed.
    ///
    /// ```
    /// use opcell::{Answer, prelude::*};
    ///
    /// # async fn settle(run: &Run, questions: &[Question]) -> Result<(), RunError> {
    /// for question in questions {
    ///     if let Question::Doubt { effect, what, .. } = question {
    ///         println!("{what} may have happened");
    ///         run.settle(*effect, Answer::Fail, Some("ann")).await?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the journal does not have the run, the run has ended, or the effect is not in doubt (any more).
    pub async fn settle(&self, effect: EffectId, answer: Answer, by: Option<&str>) -> Result<Delivery, RunError> {
        self.engine.settle(&self.id, effect, answer, by.map(Into::into)).await
    }

    /// Asks the run to stop, whichever process drives it. It ends as cancelled; one without a driver when it is resumed.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// let run = host.run("order-17");
    /// run.cancel("the order was withdrawn", Some("ann")).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the journal does not have the run, or the run has ended.
    pub async fn cancel(&self, reason: &str, by: Option<&str>) -> Result<(), RunError> {
        self.engine.send(&self.id, &Message::Cancel { reason: reason.into(), by: by.map(Into::into) }).await
    }
}
