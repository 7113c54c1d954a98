//! The world of the [journey](crate::journey) as the simulated processes reach it; it remembers what was done under
//! which key.

use super::store::Process;
use crate::journey::{self, Witness, effects};
use async_trait::async_trait;
use opcell_engine::{effect::Task, ports::Effects};
use opcell_types::CallContext;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub type World = journey::World<Deeds>;

/// The deeds of one process, which may stop on the way.
#[derive(Default)]
pub struct Deeds {
    done: Arc<Mutex<Done>>,
    process: Option<Process>,
}

/// By run, operation and key: how often.
type Done = BTreeMap<(Arc<str>, String, Arc<str>), usize>;

impl Deeds {
    /// The same deeds, seen by a process.
    pub fn of(&self, process: &Process) -> Self {
        Self { done: self.done.clone(), process: Some(process.clone()) }
    }

    fn done(&self) -> MutexGuard<'_, Done> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn has_done(&self, key: &str) -> bool {
        self.done().keys().any(|(.., done)| **done == *key)
    }

    /// Returns the number of keys that each operation that is not pure was given in a run.
    pub fn keys(&self, run: &str) -> Vec<(String, usize)> {
        let mut keys: BTreeMap<String, usize> = BTreeMap::new();
        for (of, what, _) in self.done().keys() {
            if **of == *run && effects(what) != Effects::Pure {
                *keys.entry(what.clone()).or_default() += 1;
            }
        }
        keys.into_iter().collect()
    }

    /// Returns the deeds that happened more often than they may.
    pub fn repeated(&self, run: &str) -> Vec<String> {
        let done = self.done();
        let twice =
            done.iter().filter(|((of, what, _), times)| **of == *run && effects(what) == Effects::Once && **times > 1);
        twice.map(|((_, what, key), times)| format!("{what} happened {times} times under {key}")).collect()
    }
}

#[async_trait]
impl Witness for Deeds {
    async fn sees(&self, context: &CallContext, what: &str, _with: String) {
        if let Some(process) = &self.process {
            process.gate().await;
        }
        let deed = (context.run.clone(), what.to_owned(), context.idempotency_key.clone());
        *self.done().entry(deed).or_default() += 1;
        if let Some(process) = &self.process {
            process.gate().await;
        }
    }
}

/// The idempotency key of what an effect calls.
pub fn key(task: &Task) -> Option<Arc<str>> {
    match task {
        Task::Invoke(call) | Task::Judge(call) => Some(call.context.idempotency_key.clone()),
        Task::Tool(call) => Some(call.context.idempotency_key.clone()),
        _ => None,
    }
}
