//! The stores of plugins, beside the journal: in a file, or on its server.
//!
//! A store belongs to one plugin of one project, under the name that it was granted by, and to one run where the grant
//! says so. A write and the record of it are one transaction: a call that is made again with the same idempotency key
//! gets the recorded answers up to its last write, and writes nothing twice.

use crate::{config::JournalPlace, places::real};
use async_trait::async_trait;
#[cfg(feature = "postgres")]
use opcell_journal::JournalError;
use opcell_sandbox::{
    StoreGrant,
    store::{StoreAnswer, StoreError, StoreRequest, Stores},
};
use opcell_types::CallContext;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    expect(dead_code, reason = "used where stores are kept")
)]
mod call;

#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(feature = "postgres")]
mod postgres;

#[cfg(not(feature = "sqlite"))]
mod sqlite {
    use super::{Question, StoreAnswer, StoreError, call::Memory};

    #[derive(Debug)]
    pub(super) struct Connection;

    pub(super) fn serve(
        _connection: &mut Option<Connection>,
        _memory: &mut Memory,
        _question: Question,
    ) -> Result<(StoreAnswer, bool), StoreError> {
        Err(StoreError::Failed("this program is built without stores in files (feature `sqlite`)".to_owned()))
    }
}

#[cfg(not(feature = "postgres"))]
mod postgres {
    use super::{Arc, Question, StoreAnswer, StoreError, call::Memory};

    /// There are none: a journal on a server cannot be opened.
    #[derive(Debug, Clone)]
    pub(super) enum Stores {}

    impl Stores {
        pub(super) fn owner(&self) -> Arc<str> {
            match *self {}
        }
    }

    pub(super) async fn serve(
        stores: &Stores,
        _memory: &mut Memory,
        _question: Question,
    ) -> Result<(StoreAnswer, bool), StoreError> {
        match *stores {}
    }
}

/// The place of stores.
#[derive(Debug, Clone)]
enum Place {
    /// In the file beside this journal, which this user alone can read.
    File { journal: PathBuf },
    /// In this process.
    Memory,
    /// In the schema of the journal, once it is open.
    Server(Arc<OnceLock<postgres::Stores>>),
}

/// The stores of a project's plugins. Clones share them.
#[derive(Debug, Clone)]
pub struct PluginStores {
    place: Place,
    /// The project, among those that share the file.
    project: Arc<str>,
    /// In turn, in the order in which cells ask: one that floods its store delays others by one request at a time.
    connection: Arc<tokio::sync::Mutex<Option<sqlite::Connection>>>,
}

impl PluginStores {
    /// Stores that are gone with the process.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::at(Place::Memory, "")
    }

    /// The stores of the project in `root`, beside its journal; in memory, where the journal is.
    #[must_use]
    pub fn beside(journal: Option<&JournalPlace>, root: &Path) -> Self {
        match journal {
            None => Self::in_memory(),
            // A journal on a server is one project's, wherever its workers have the project file.
            Some(JournalPlace::Server(_)) => Self::at(Place::Server(Arc::default()), ""),
            Some(JournalPlace::File(journal)) => {
                let (file, root) = (file_beside(journal), real(root));
                // A project that is moved with its journal keeps its stores.
                let own = real(&file).starts_with(&root);
                Self::at(
                    Place::File { journal: journal.clone() },
                    &if own { ".".into() } else { root.to_string_lossy() },
                )
            }
        }
    }

    /// Keeps stores in the schema of this journal, if they are to be on a server.
    #[cfg(feature = "postgres")]
    pub(crate) fn serve_from(&self, journal: &opcell_journal_postgres::PostgresJournal) -> Result<(), JournalError> {
        if let Place::Server(server) = &self.place {
            // The first journal stays: a host has one.
            let _ = server.set(postgres::Stores::new(journal.beside()?));
        }
        Ok(())
    }

    fn at(place: Place, project: &str) -> Self {
        Self { place, project: project.into(), connection: Arc::default() }
    }

    /// The stores of a plugin, for one call of it.
    #[must_use]
    pub fn of(&self, plugin: &str, context: &CallContext) -> Box<dyn Stores> {
        // A call outside of runs has a run's ID of its own, which no journal knows, and no step.
        let run = if context.step.is_empty() { "" } else { context.run.as_ref() };
        let repeatable = !run.is_empty() && !context.idempotency_key.is_empty();
        let owner = match &self.place {
            Place::Server(server) => server.get().map(postgres::Stores::owner),
            Place::File { .. } | Place::Memory => None,
        };
        Box::new(Session {
            stores: self.clone(),
            caller: Arc::new(Caller {
                project: Arc::clone(&self.project),
                plugin: plugin.into(),
                run: run.to_owned(),
                owner,
                call: repeatable.then(|| format!("{run}\n{}", context.idempotency_key)),
            }),
            memory: Some(call::Memory::default()),
        })
    }
}

/// `runs.db` has `runs.db.stores` beside it: journals whose names differ have different files.
#[must_use]
pub fn file_beside(journal: &Path) -> PathBuf {
    let mut name = journal.as_os_str().to_owned();
    name.push(".stores");
    PathBuf::from(name)
}

/// The name of that file before 0.2, which `runs.db` and `runs.sqlite` had in common.
pub(crate) fn former_file_beside(journal: &Path) -> PathBuf {
    journal.with_extension("stores.db")
}

/// Whose call it is.
#[derive(Debug)]
#[cfg_attr(not(all(feature = "sqlite", feature = "postgres")), allow(dead_code, reason = "read where stores are kept"))]
struct Caller {
    project: Arc<str>,
    plugin: Arc<str>,
    run: String,
    /// Under which name this process drives the run, where others may drive it next.
    owner: Option<Arc<str>>,
    /// The key by which the call is recognised when it is made again; `None` for a call outside of runs.
    call: Option<String>,
}

/// One request with everything that decides on it.
#[cfg_attr(not(all(feature = "sqlite", feature = "postgres")), allow(dead_code, reason = "read where stores are kept"))]
struct Question {
    place: Place,
    caller: Arc<Caller>,
    store: String,
    grant: StoreGrant,
    request: StoreRequest,
}

const ABANDONED: &str = "an earlier request of this call took too long, and its end is not known";

/// The stores of one plugin, as one call of it uses them.
struct Session {
    stores: PluginStores,
    caller: Arc<Caller>,
    /// The call's recorded answers; `None` while a request is in flight, and after one that was abandoned.
    memory: Option<call::Memory>,
}

#[async_trait]
impl Stores for Session {
    async fn ask(
        &mut self,
        store: &str,
        grant: &StoreGrant,
        request: StoreRequest,
    ) -> Result<(StoreAnswer, bool), StoreError> {
        let failed = |message: &str| StoreError::Failed(message.to_owned());
        if grant.per_run && self.caller.run.is_empty() {
            let message = format!("the store `{store}` belongs to a run, and this call is not part of one");
            return Err(StoreError::Failed(message));
        }
        let question = Question {
            place: self.stores.place.clone(),
            caller: Arc::clone(&self.caller),
            store: store.to_owned(),
            grant: *grant,
            request,
        };
        if let Place::Server(server) = &self.stores.place {
            let Some(server) = server.get() else {
                return Err(failed(
                    "this host keeps no stores: its journal is not the one on a server that its project names",
                ));
            };
            let mut memory = self.memory.take().ok_or_else(|| failed(ABANDONED))?;
            let answer = postgres::serve(server, &mut memory, question).await;
            self.memory = Some(memory);
            return answer;
        }
        let mut connection = Arc::clone(&self.stores.connection).lock_owned().await;
        let mut memory = self.memory.take().ok_or_else(|| failed(ABANDONED))?;
        let work = tokio::task::spawn_blocking(move || {
            let answer = sqlite::serve(&mut connection, &mut memory, question);
            (answer, memory)
        });
        let (answer, memory) = work.await.map_err(|_| failed("the store was abandoned"))?;
        self.memory = Some(memory);
        answer
    }
}

#[cfg(test)]
#[cfg(feature = "sqlite")]
mod tests;
