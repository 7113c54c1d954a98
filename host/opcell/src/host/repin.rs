//! Moving a run to the versions of plugins that its project has now.

use super::Host;
use crate::{
    catalog::{Entry, Offer},
    pins::{self, Pins},
};
use indexmap::IndexMap;
use opcell_engine::{
    Divergence, RunError,
    event::{EffectReply, Event},
};
use opcell_ir::{
    WorkflowIr,
    ir::{Form, Judge},
};
use opcell_journal::RunId;
use serde::Serialize;
use std::{collections::BTreeMap, sync::Arc};

/// One plugin of a run that was moved to another version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct MovedPin {
    /// The pinned name.
    pub name: Arc<str>,
    /// The digest that the run pinned; absent for a plugin that only the new version of another one can call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Arc<str>>,
    /// The digest that it pins now.
    pub to: Arc<str>,
}

/// The reason why a run stays with the versions that it pinned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepinError {
    /// The run cannot be moved, whatever the version.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The project has no version that is loaded.
    #[error("run `{run}` needs {name}, which this host has not loaded")]
    NotLoaded {
        /// ID of the run.
        run: RunId,
        /// The pinned name.
        name: Arc<str>,
    },
    /// The core decides another event than the journal has.
    #[error("run `{run}` is decided otherwise by this program: event {} differs", .divergence.recorded.seq)]
    Diverges {
        /// ID of the run.
        run: RunId,
        /// The event.
        divergence: Box<Divergence>,
    },
    /// The new version does not offer what the run calls as the earlier one did.
    #[error("run `{run}` would be decided otherwise: {}", .differences.join("; "))]
    Differs {
        /// ID of the run.
        run: RunId,
        /// Each difference, as a clause.
        differences: Vec<String>,
    },
    /// Another process drove the run during the check.
    #[error("run `{run}` continued during the check; try again")]
    Continued {
        /// ID of the run.
        run: RunId,
    },
}

impl Host {
    /// Moves a run to the versions of plugins that this host has, and records who did it. Returns what was moved; a run
    /// that pinned these versions stays as it is.
    ///
    /// Calls that were recorded are not made again. What the run calls must be offered as before: the same operations
    /// with the same effects, and judges with the same outcomes. Without the earlier version only the names are compared.
    ///
    /// # Errors
    /// When the run has ended or is driven, a plugin is not loaded, or the run would be decided otherwise.
    pub async fn repin(&self, run: &RunId, by: Option<Arc<str>>) -> Result<Vec<MovedPin>, RepinError> {
        let state = self.engine.shown_state(run, None).await?;
        let status = state.status();
        if status.has_ended() {
            return Err(RunError::Ended { run: run.clone(), status }.into());
        }
        let moved = self.moves(run, state.pins())?;
        if moved.is_empty() {
            return Ok(moved);
        }
        if let Some(divergence) = self.engine.replay(run).await? {
            return Err(RepinError::Diverges { run: run.clone(), divergence: Box::new(divergence) });
        }
        let differences = self.differences_for(run, &moved).await?;
        if !differences.is_empty() {
            return Err(RepinError::Differs { run: run.clone(), differences });
        }
        let pins: IndexMap<_, _> = moved.iter().map(|moved| (moved.name.clone(), moved.to.clone())).collect();
        match self.engine.repin(run, state.seq(), pins, by).await? {
            true => Ok(moved),
            false => Err(RepinError::Continued { run: run.clone() }),
        }
    }

    /// The plugins that a run pinned in another version, and those that only the new versions can call.
    fn moves(&self, run: &RunId, pinned: &Pins) -> Result<Vec<MovedPin>, RepinError> {
        let (all, mut moved) = (pins::all(&self.catalog), Vec::new());
        for (name, from) in pinned {
            let Some(to) = all.get(name) else {
                return Err(RepinError::NotLoaded { run: run.clone(), name: name.clone() });
            };
            if from != to {
                moved.push(MovedPin { name: name.clone(), from: Some(from.clone()), to: to.clone() });
            }
        }
        if !moved.is_empty() {
            let reached = pins::reached_from(&self.catalog, pinned);
            let new = reached.into_iter().filter(|(name, _)| !pinned.contains_key(name));
            moved.extend(new.map(|(name, to)| MovedPin { name, from: None, to }));
        }
        Ok(moved)
    }

    /// Compares what the run calls of plugins that are moved.
    async fn differences_for(&self, run: &RunId, moved: &[MovedPin]) -> Result<Vec<String>, RepinError> {
        let earlier = moved.iter().filter_map(|moved| Some((moved.name.clone(), moved.from.clone()?)));
        let wanted: BTreeMap<_, _> = earlier.collect();
        let earlier = self.with_versions(&wanted).await.ok();
        let is_moved =
            |entry: &Entry| moved.iter().any(|moved| pins::plugin_of(&moved.name) == Some(entry.plugin.as_ref()));
        let mut differences = Vec::new();
        for (name, by_step) in self.called_by(run).await? {
            let now = self.catalog.resolve(&name).map(|(entry, _)| entry);
            let Some(earlier) = &earlier else {
                // A tool of a session may be one of the host.
                if now.is_none() && by_step && self.catalog.document_tool(&name).is_none() {
                    differences.push(format!("no plugin offers `{name}`"));
                }
                continue;
            };
            let before = earlier.catalog.resolve(&name).map(|(entry, _)| entry).filter(|entry| is_moved(entry));
            differences.extend(before.and_then(|before| difference(&name, before, now)));
        }
        Ok(differences)
    }

    /// The names that the definitions of a run call, and whether a step or a judge does.
    async fn called_by(&self, run: &RunId) -> Result<BTreeMap<String, bool>, RunError> {
        let mut called = BTreeMap::new();
        for recorded in self.engine.shown_history(run, None).await? {
            match recorded.event {
                Event::RunStarted(started) => names(started.program.ir(), &mut called),
                Event::DefinitionPinned { program: Some(program), .. } => names(program.ir(), &mut called),
                // The model was told of these tools, and may still call them.
                Event::Replied { reply, .. } => {
                    let opened = match *reply {
                        EffectReply::Open(Ok(session)) => Some(session),
                        _ => None,
                    };
                    for tool in opened.iter().flat_map(|session| &session.tools) {
                        called.entry(tool.name.to_string()).or_default();
                    }
                }
                _ => {}
            }
        }
        Ok(called)
    }
}

/// Collects the names that a workflow and those that it brings along call.
fn names(ir: &Arc<WorkflowIr>, called: &mut BTreeMap<String, bool>) {
    let mut add = |name: &str, by_step: bool| *called.entry(name.to_owned()).or_default() |= by_step;
    let mut open = vec![ir.clone()];
    while let Some(ir) = open.pop() {
        open.extend(ir.workflows.iter().cloned());
        for step in &ir.steps {
            let of_form = match &step.form {
                Form::Invoke { invoke } => {
                    add(&invoke.operation, true);
                    None
                }
                Form::Session { session, .. } => Some(session),
                Form::Delegate { delegate } => Some(&delegate.session),
                _ => None,
            };
            let of_judge = match &step.judge {
                Some(Judge::Invoke { invoke }) => {
                    add(&invoke.operation, true);
                    None
                }
                Some(Judge::Llm { session, .. }) => Some(session),
                _ => None,
            };
            let sessions = of_form.into_iter().chain(of_judge);
            sessions.flat_map(|session| session.tools.iter().flatten()).for_each(|tool| add(tool, false));
        }
    }
}

/// The difference between two offers under a name.
fn difference(name: &str, before: &Entry, now: Option<&Entry>) -> Option<String> {
    let Some(now) = now else { return Some(format!("the new version does not offer `{name}`")) };
    match (&before.offer, &now.offer) {
        (Offer::Operation { effects: old, .. }, Offer::Operation { effects: new, .. }) => {
            (old != new).then(|| format!("`{name}` is {}, was {}", new.as_str(), old.as_str()))
        }
        (Offer::Judge { outcomes: old }, Offer::Judge { outcomes: new }) => {
            let gone = old.iter().filter(|outcome| !new.contains(outcome)).map(|outcome| format!("`{outcome}`"));
            let gone: Vec<String> = gone.collect();
            (!gone.is_empty()).then(|| format!("`{name}` no longer has the outcome {}", gone.join(", ")))
        }
        _ => Some(format!("`{name}` is of another kind")),
    }
}
