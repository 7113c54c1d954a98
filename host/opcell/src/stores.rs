//! What plugins keep from one call to the next, in a file beside the journal.
//!
//! A store belongs to one plugin of one project, under the name that it was granted by, and to one run where the grant
//! says so. A write and the record of it are one transaction: a call that is made again with the same idempotency key
//! gets the recorded answers up to its last write, and writes nothing twice.

use crate::{config::JournalPlace, places::real};
use async_trait::async_trait;
use opcell_sandbox::{
    StoreGrant,
    store::{StoreAnswer, StoreError, StoreRequest, Stores},
};
use opcell_types::CallContext;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(not(feature = "sqlite"))]
mod sqlite {
    use super::{Question, StoreAnswer, StoreError};

    #[derive(Debug, Default)]
    pub(super) struct Memory;

    #[derive(Debug)]
    pub(super) struct Connection;

    pub(super) fn serve(
        _connection: &mut Option<Connection>,
        _memory: &mut Memory,
        _question: Question,
    ) -> Result<(StoreAnswer, bool), StoreError> {
        Err(StoreError::Failed("this program is built without stores (feature `sqlite`)".to_owned()))
    }
}

/// Where stores are.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// In a file that this user alone can read.
    File(PathBuf),
    /// In this process.
    Memory,
    /// Nowhere: the journal is on a server, and a file of this machine is not what another worker sees.
    None,
}

/// The stores of a project's plugins. Clones share them.
#[derive(Debug, Clone)]
pub struct PluginStores {
    place: Place,
    /// Which project, among those that share the file.
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
            Some(JournalPlace::Server(_)) => Self::at(Place::None, ""),
            Some(JournalPlace::File(journal)) => {
                let (file, root) = (file_beside(journal), real(root));
                // A project that is moved with its journal keeps its stores.
                let own = real(&file).starts_with(&root);
                Self::at(Place::File(file), &if own { ".".into() } else { root.to_string_lossy() })
            }
        }
    }

    fn at(place: Place, project: &str) -> Self {
        Self { place, project: project.into(), connection: Arc::default() }
    }

    /// The stores of a plugin, for one call of it.
    #[must_use]
    pub fn of(&self, plugin: &str, context: &CallContext) -> Box<dyn Stores> {
        let repeatable = !context.run.is_empty() && !context.idempotency_key.is_empty();
        Box::new(Session {
            stores: self.clone(),
            caller: Arc::new(Caller {
                project: Arc::clone(&self.project),
                plugin: plugin.into(),
                run: context.run.to_string(),
                call: repeatable.then(|| format!("{}\n{}", context.run, context.idempotency_key)),
            }),
            memory: Some(sqlite::Memory::default()),
        })
    }
}

/// `runs.db` has `runs.stores.db` beside it.
pub(crate) fn file_beside(journal: &Path) -> PathBuf {
    journal.with_extension("stores.db")
}

/// Whose call it is.
#[derive(Debug)]
#[cfg_attr(not(feature = "sqlite"), expect(dead_code, reason = "read where stores are kept"))]
struct Caller {
    project: Arc<str>,
    plugin: Arc<str>,
    run: String,
    /// What the call is recognised by when it is made again; `None` for a call outside of runs.
    call: Option<String>,
}

/// One request with everything that decides on it.
#[cfg_attr(not(feature = "sqlite"), expect(dead_code, reason = "read where stores are kept"))]
struct Question {
    place: Place,
    caller: Arc<Caller>,
    store: String,
    grant: StoreGrant,
    request: StoreRequest,
}

/// The stores of one plugin, as one call of it uses them.
struct Session {
    stores: PluginStores,
    caller: Arc<Caller>,
    /// What the call was answered; `None` while a request is under way, and after one that was abandoned.
    memory: Option<sqlite::Memory>,
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
        if self.stores.place == Place::None {
            return Err(failed("this host keeps no stores: its journal is on a server"));
        }
        let question = Question {
            place: self.stores.place.clone(),
            caller: Arc::clone(&self.caller),
            store: store.to_owned(),
            grant: *grant,
            request,
        };
        let mut connection = Arc::clone(&self.stores.connection).lock_owned().await;
        let Some(mut memory) = self.memory.take() else {
            return Err(failed("an earlier request of this call took too long, and its end is not known"));
        };
        let work = tokio::task::spawn_blocking(move || {
            let answer = sqlite::serve(&mut connection, &mut memory, question);
            (answer, memory)
        });
        let (answer, memory) = work.await.map_err(|_| failed("the store was abandoned"))?;
        self.memory = Some(memory);
        answer
    }
}
