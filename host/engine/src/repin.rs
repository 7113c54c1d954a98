//! Moving a run to other versions of what it pinned.

use crate::{
    Engine, RunError,
    engine::ResumeOptions,
    record::{fold, to_record},
};
use indexmap::IndexMap;
use opcell_core::event::{Event, Recorded, Repinned};
use opcell_journal::{Append, OpenedRun, RunId};
use std::sync::Arc;

impl Engine {
    /// Records that a run continues with other versions of what it pinned. Everything else stays as it is: the run is not
    /// driven, and what it decided is not decided again. Returns `false`, and records nothing, if the run has other
    /// events than the `checked` first ones.
    ///
    /// # Errors
    /// When the run has ended, another process drives it, its events make no sense, or the journal fails.
    pub async fn repin(
        &self,
        run: &RunId,
        checked: u64,
        pins: IndexMap<Arc<str>, Arc<str>>,
        by: Option<Arc<str>>,
    ) -> Result<bool, RunError> {
        let options = ResumeOptions { unpinned: true, ..ResumeOptions::default() };
        let opened = self.journal.acquire(run, options.cut).await?;
        let moved = Event::RunRepinned(Box::new(Repinned { pins, by }));
        let recorded = self.record_move(run, &opened, &options, (checked, moved)).await;
        self.journal.release(run, opened.fence).await?;
        recorded
    }

    async fn record_move(
        &self,
        run: &RunId,
        opened: &OpenedRun,
        options: &ResumeOptions,
        (checked, moved): (u64, Event),
    ) -> Result<bool, RunError> {
        let mut state = self.state_for_resume(run, opened, options).await?;
        let status = state.status();
        if status.has_ended() {
            return Err(RunError::Ended { run: run.clone(), status });
        }
        if state.seq() != checked {
            return Ok(false);
        }
        let recorded = Recorded { seq: state.seq() + 1, at: self.ports.timer.now(), event: moved };
        fold(run, &mut state, &recorded)?;
        let append = Append {
            run: run.clone(),
            fence: opened.fence,
            records: vec![to_record(&recorded, None)],
            state: None,
            snapshot: None,
            inbox: None,
        };
        self.journal.append(append).await?;
        Ok(true)
    }
}
