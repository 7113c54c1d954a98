//! The journal of a host.

use super::{HostBuilder, JournalChoice, set};
use crate::{config::JournalSettings, host::JournalSink};
use opcell_journal::SharedJournal;
#[cfg(feature = "sqlite")]
use std::path::PathBuf;
use std::sync::Arc;

impl HostBuilder {
    /// Keeps runs in this journal. The project must not name one
    /// ([`Config::journal`](crate::config::Config::journal) may be set to `None`).
    ///
    /// ```
    /// use opcell::{MemoryJournal, prelude::*};
    /// use std::sync::Arc;
    ///
    /// let journal: Arc<dyn opcell::Journal> = Arc::new(MemoryJournal::new());
    /// let builder = Host::builder().journal(journal);
    /// ```
    pub fn journal(mut self, journal: impl Into<SharedJournal>) -> Self {
        set(&mut self.journal, JournalChoice::Given(journal.into().0), "journal", &mut self.twice);
        self
    }

    /// Keeps runs in an SQLite file, which is made where there is none, and what plugins store in another one beside
    /// it. Otherwise as [`HostBuilder::journal`].
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// let builder = Host::builder().sqlite("runs.db");
    /// ```
    #[cfg(feature = "sqlite")]
    pub fn sqlite(self, path: impl Into<PathBuf>) -> Self {
        let path: PathBuf = path.into();
        self.journal_at(JournalSettings::at(path))
    }

    /// Keeps runs where these settings say: in a file or on a server, with a rule for how long. Otherwise as
    /// [`HostBuilder::journal`].
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// use opcell::{JournalSettings, config::JournalPlace};
    ///
    /// let place = JournalPlace::File("runs.db".into());
    /// let builder = Host::builder().journal_at(JournalSettings::at(place));
    /// ```
    pub fn journal_at(mut self, settings: JournalSettings) -> Self {
        set(&mut self.journal, JournalChoice::At(settings), "journal", &mut self.twice);
        self
    }

    /// Learns how long each write of the journal takes.
    pub fn journal_log(mut self, sink: impl JournalSink + 'static) -> Self {
        set(&mut self.journal_sink, Arc::new(sink) as Arc<dyn JournalSink>, "journal_log", &mut self.twice);
        self
    }
}
