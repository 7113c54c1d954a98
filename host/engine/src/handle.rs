//! Following a run that is being driven, and telling it things.

use crate::{
    error::RunError,
    record::{Reader, read_history},
    updates::{Suspension, UpdateStream},
};
use futures_util::Stream;
use opcell_core::{Recorded, RunOutcome, message::Message};
use opcell_journal::{Damage, Journal, RunId};
use opcell_types::Value;
use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};
use tokio::sync::{mpsc, watch};

/// The listeners of a run. An event reaches them when it is durable, never before.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    inner: Mutex<Audience>,
}

#[derive(Debug, Default)]
struct Audience {
    /// The last event that every listener has been sent.
    last: u64,
    senders: Vec<mpsc::UnboundedSender<Arc<Recorded>>>,
    /// The run is no longer driven: a new listener receives past events only.
    over: bool,
}

impl Listeners {
    /// A new listener and the last event that it will not get.
    pub(crate) fn join(&self) -> (u64, mpsc::UnboundedReceiver<Arc<Recorded>>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if !inner.over {
            inner.senders.push(sender);
        }
        (inner.last, receiver)
    }

    /// Events up to this one are in the past.
    pub(crate) fn start_at(&self, seq: u64) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).last = seq;
    }

    pub(crate) fn notify(&self, last: u64, events: impl IntoIterator<Item = Recorded>) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.last = last;
        if inner.senders.is_empty() {
            return;
        }
        for event in events {
            let event = Arc::new(event);
            inner.senders.retain(|listener| listener.send(event.clone()).is_ok());
        }
    }

    pub(crate) fn leave(&self) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.senders.clear();
        inner.over = true;
    }
}

/// A run that is being driven. Dropping it changes nothing.
#[derive(Clone)]
pub struct RunHandle {
    pub(crate) run: RunId,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) inbox: mpsc::UnboundedSender<Message>,
    pub(crate) listeners: Arc<Listeners>,
    pub(crate) ended: watch::Receiver<Option<Result<RunOutcome, RunError>>>,
    pub(crate) suspended: watch::Receiver<Suspension>,
    pub(crate) damage: Option<Damage>,
    pub(crate) resumed_at: u64,
    pub(crate) begun: Arc<RunOutcome>,
}

impl std::fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunHandle").field("run", &self.run).finish_non_exhaustive()
    }
}

impl RunHandle {
    /// The run's name.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// Returns the damage that was found at the end of the journal, and cut, when the run was resumed.
    #[must_use]
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    /// The last event that was there when the run was resumed; 0 for a run that was started.
    #[must_use]
    pub fn resumed_at(&self) -> u64 {
        self.resumed_at
    }

    /// Returns the status of the run when it was durable, before any of its effects, or when it was resumed.
    #[must_use]
    pub fn initial(&self) -> &RunOutcome {
        &self.begun
    }

    /// Every event of the run, from its first one: those of the past, then those to come, none twice, none left out.
    ///
    /// # Errors
    /// When the past cannot be read.
    pub async fn events(&self) -> Result<EventStream, RunError> {
        let (last, live) = self.listeners.join();
        let reader = Reader::new(self.journal.as_ref(), &self.run);
        let past = if last == 0 { Vec::new() } else { read_history(reader, last).await? };
        Ok(EventStream { past: past.into_iter().map(Arc::new).collect(), live })
    }

    /// As [`RunHandle::events`], one thing at a time, and whenever the run is suspended, its questions.
    ///
    /// # Errors
    /// When the past cannot be read.
    pub async fn updates(&self) -> Result<UpdateStream, RunError> {
        Ok(UpdateStream::new(self.events().await?, self.suspended.clone()))
    }

    /// Asks the run to stop. It ends as `cancelled` once everything in flight has stopped.
    pub fn cancel(&self, reason: impl Into<Arc<str>>) {
        self.send(Message::Cancel { reason: reason.into(), by: None });
    }

    /// Sends a signal, of a sender who may approve. It is kept until a step waits for it.
    pub fn signal(&self, name: impl Into<Arc<str>>, data: Value, by: Option<Arc<str>>) {
        let (name, may_approve) = (name.into(), true);
        self.send(Message::Signal { name, data, by, key: None, question: None, may_approve });
    }

    /// Sends a message to the run. A run that has ended does not take it.
    pub fn send(&self, message: Message) {
        // The receiver is gone only when the run has ended, and then nothing can be sent any more.
        let _ = self.inbox.send(message);
    }

    /// Waits until the run has ended or, if it was started with `detach`, is suspended.
    ///
    /// # Errors
    /// When it could not be driven to its end. It can then be resumed.
    pub async fn finished(&self) -> Result<RunOutcome, RunError> {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or_else(|| Err(RunError::Gone(self.run.clone()))),
            Err(_) => Err(RunError::Gone(self.run.clone())),
        }
    }
}

/// A run's events; see [`RunHandle::events`]. Ends when the run is no longer driven.
#[derive(Debug)]
pub struct EventStream {
    past: VecDeque<Arc<Recorded>>,
    live: mpsc::UnboundedReceiver<Arc<Recorded>>,
}

impl EventStream {
    /// The next event; `None` at the end.
    pub async fn next(&mut self) -> Option<Arc<Recorded>> {
        match self.past.pop_front() {
            Some(event) => Some(event),
            None => self.live.recv().await,
        }
    }
}

impl Stream for EventStream {
    type Item = Arc<Recorded>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.past.pop_front() {
            Some(event) => Poll::Ready(Some(event)),
            None => self.live.poll_recv(context),
        }
    }
}
