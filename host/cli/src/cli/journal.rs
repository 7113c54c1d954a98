//! The journal that a command reads, and its runs.

use super::{
    args::{Global, StoreArgs},
    failure::Failure,
};
use opcell::{
    config::{Config, JournalSettings},
    journals,
    report::Rejected,
};
use opcell_engine::Engine;
use opcell_ir::{Diagnostic, diagnostic::did_you_mean};
use opcell_journal::{JournalError, RunEntry, RunId};

impl StoreArgs {
    /// The project and the chosen journal, which must exist.
    pub fn config(&self, global: &Global) -> Result<Config, Failure> {
        self.with(global.trusted()?)
    }

    /// As [`Self::config`], for looking into a journal and sending messages to its runs. A journal that is named here
    /// is the user's own word; one that the project names takes consent.
    pub(super) fn looking(&self, global: &Global) -> Result<Config, Failure> {
        self.with(self.looking_at(global)?)
    }

    /// As [`Self::looking`], for what only reads. A file that lies in the project's own folder is read without consent
    /// to whatever else the project asks for.
    pub(super) fn reading(&self, global: &Global) -> Result<Config, Failure> {
        if self.journal.is_some() {
            return self.looking(global);
        }
        // Without consent the project has no journal any more: it is the one that the file names.
        let Some(own) = global.proposed()?.own_journal().cloned() else { return self.looking(global) };
        let mut config = global.config()?;
        config.journal = Some(own);
        self.with(config)
    }

    pub(super) fn looking_at(&self, global: &Global) -> Result<Config, Failure> {
        if self.journal.is_some() { global.config() } else { global.trusted() }
    }

    /// The project with the chosen journal, which may be missing.
    pub(super) fn chosen(&self, mut config: Config) -> Result<Config, Failure> {
        config.journal = Some(match (&self.journal, config.journal.take()) {
            (Some(place), _) => JournalSettings::at(place.clone()),
            (None, Some(journal)) => journal,
            (None, None) => JournalSettings::usual(&config.root)?,
        });
        Ok(config)
    }

    fn with(&self, config: Config) -> Result<Config, Failure> {
        let config = self.chosen(config)?;
        let file = config.journal.as_ref().and_then(|settings| settings.place.file());
        if let Some(path) = file.filter(|path| !path.is_file()) {
            let missing = format!("there is no journal `{}`", path.display());
            let help = match &self.journal {
                Some(_) => format!(
                    "`opcell run --journal={} WORKFLOW` creates it; `--journal PATH` chooses another",
                    path.display()
                ),
                None => "`opcell run --journal WORKFLOW` creates it; `--journal PATH` chooses another".to_owned(),
            };
            return Err(Diagnostic::error("no-journal", missing).help(help).into());
        }
        Ok(config)
    }
}

/// A journal with an engine that reads runs and sends messages, and performs no effect.
pub(super) struct Open {
    pub(super) engine: Engine,
}

impl Open {
    pub(super) async fn journal(config: &Config) -> Result<Self, Failure> {
        let settings = config.journal.as_ref().ok_or_else(|| Diagnostic::error("no-journal", "there is no journal"))?;
        Ok(Self { engine: Engine::builder().journal(journals::open(settings).await?).build() })
    }

    /// A run as lists have it.
    pub(super) async fn entry(&self, run: &RunId) -> Result<RunEntry, Failure> {
        let entry = self.engine.runs().await?.into_iter().find(|entry| entry.run == *run);
        Ok(entry.ok_or_else(|| JournalError::UnknownRun(run.clone()))?)
    }

    /// The run that the argument names.
    pub(super) async fn run(&self, named: &str) -> Result<RunId, Failure> {
        Ok(meant(&self.engine.runs().await?, named)?.run.clone())
    }
}

/// The run with this ID, the only one with this prefix, or the `last` one.
pub(super) fn meant<'a>(runs: &'a [RunEntry], named: &str) -> Result<&'a RunEntry, Rejected> {
    if let Some(exact) = runs.iter().find(|run| run.run.as_ref() == named) {
        return Ok(exact);
    }
    if named == opcell::run::NEWEST
        && let Some(newest) = runs.first()
    {
        return Ok(newest);
    }
    let like: Vec<&RunEntry> = runs.iter().filter(|run| !named.is_empty() && run.run.starts_with(named)).collect();
    let unknown =
        |message: String, help: String| Err(Rejected::plain(Diagnostic::error("unknown-run", message).help(help)));
    match like.as_slice() {
        [one] => Ok(one),
        [] => {
            let near = did_you_mean(named, runs.iter().map(|run| run.run.as_ref()));
            let help = near.map_or_else(
                || "`opcell runs list` lists the runs".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            unknown(format!("the journal has no run `{named}`"), help)
        }
        several => {
            let names: Vec<&str> = several.iter().take(5).map(|run| run.run.as_ref()).collect();
            unknown(
                format!("the prefix `{named}` matches {} runs", several.len()),
                format!("such as {}", names.join(", ")),
            )
        }
    }
}
