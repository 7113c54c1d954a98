//! The project that a command is for, and a host of it.

use super::{args::Global, consent::Asked, failure::Failure, terminal::Terminal};
use opcell::{
    config::{Config, lock::Lock},
    consent,
    host::{Host, HostBuilder, NewPermissions, UnusablePlugins},
    library::{folders_of_project, folders_of_user},
    run::Workflow,
};
use opcell_ir::Diagnostic;
use opcell_types::files::leads_out;
use std::path::PathBuf;

impl Global {
    /// Returns `true` if there is a project file.
    pub(super) fn has_project(&self) -> Result<bool, Failure> {
        Ok(self.config.is_some() || Config::find(&std::env::current_dir()?).is_some())
    }

    /// The project file as it is written: the named one, or the found one if it is this user's own.
    pub(super) fn written(&self) -> Result<Option<Config>, Failure> {
        let file = match &self.config {
            Some(file) => Some(file.clone()),
            None => Config::find(&std::env::current_dir()?),
        };
        let Some(file) = file else { return Ok(None) };
        if self.config.is_none() {
            consent::check_owner(&file)?;
        }
        Ok(Some(Config::load(&file)?))
    }

    /// The project for looking at: what reaches outside of its folder is there only if its user consented.
    pub(super) fn config(&self) -> Result<Config, Failure> {
        let Some(config) = self.written()? else { return self.complete(Config::empty(std::env::current_dir()?)) };
        let asked = Asked::of(self, &config)?;
        let config = if asked.is_allowed() { config } else { config.without_reach() };
        self.complete(config)
    }

    /// The project as its file says, for showing what it says. Nothing of it is used.
    pub(super) fn proposed(&self) -> Result<Config, Failure> {
        let config = self.written()?;
        self.complete(config.map_or_else(|| std::env::current_dir().map(Config::empty), Ok)?)
    }

    /// The project for running. Asks its user where consent is needed and there is a terminal.
    pub(super) fn trusted(&self) -> Result<Config, Failure> {
        self.if_allowed(Asked::require)
    }

    /// The project for running, read again in the middle of a command that asks no one.
    pub(super) fn unasked(&self) -> Result<Config, Failure> {
        self.if_allowed(|asked| asked.refuse_unless_allowed())
    }

    fn if_allowed(&self, require: impl Fn(Asked) -> Result<(), Failure>) -> Result<Config, Failure> {
        let Some(config) = self.written()? else { return self.complete(Config::empty(std::env::current_dir()?)) };
        require(Asked::of(self, &config)?)?;
        self.complete(config)
    }

    /// The requests of the project, if its user consented to them.
    pub(super) fn consented(&self, config: &Config) -> Result<Option<consent::Requests>, Failure> {
        let asked = Asked::of(self, config)?;
        Ok(asked.is_allowed().then(|| consent::Requests::of(config)))
    }

    /// Remembers consent to what a command has just written at its user's word, beside what there was consent to.
    pub(super) fn consent(
        &self,
        config: &Config,
        before: &consent::Requests,
        also: impl Fn(&consent::Request) -> bool,
        terminal: &Terminal,
    ) -> Result<(), Failure> {
        if !Asked::of(self, config)?.remember(before, also)? {
            terminal.note(
                "the project has changed meanwhile: what it asks for now is not allowed; see `opcell trust --show`",
            );
        }
        Ok(())
    }

    fn complete(&self, mut config: Config) -> Result<Config, Failure> {
        config.locked = self.locked;
        if self.locked {
            config.lock = config.lock.map(Lock::frozen);
        }
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        // In a folder that all may write, `.opcell` may be anybody's, and in a checkout a link to the user's other
        // files.
        let is_own = |folder: &PathBuf| {
            let in_project = folder.starts_with(&config.root) && home.as_ref() != Some(&config.root);
            let elsewhere = leads_out(folder, &config.root).filter(|_| in_project && folder.is_dir());
            if let Some(elsewhere) = &elsewhere {
                let (folder, elsewhere) = (folder.display(), elsewhere.display());
                tracing::warn!(
                    "{folder} is a link to {elsewhere} and is not read: name that in `workflows` of opcell.toml"
                );
            }
            folder.is_dir() && consent::is_own(folder) && elsewhere.is_none()
        };
        let of_user = home.as_deref().map(folders_of_user).unwrap_or_default();
        config.default_workflows = of_user.into_iter().filter(is_own).collect();
        config.workflows.splice(0..0, folders_of_project(&config.root).into_iter().filter(is_own));
        for grant in &self.without_grant {
            config.withdraw(grant).map_err(|message| Diagnostic::error("unknown-grant", message))?;
        }
        Ok(config)
    }

    /// The project's host, its plugins loaded.
    pub(super) async fn host(&self, terminal: &Terminal) -> Result<Host, Failure> {
        host(self.trusted()?, terminal).await
    }

    /// A host for looking at the project: it has no journal, and does without what its user did not consent to.
    pub(super) async fn looking(&self, terminal: &Terminal) -> Result<Host, Failure> {
        let mut config = self.config()?;
        config.journal = None;
        config.lock = config.lock.map(Lock::frozen);
        host(config, terminal).await
    }
}

/// A project's host. A plugin that asks for more than was agreed to, or whose component is missing or unusable, is left
/// out with a warning: whatever does not need it continues.
pub(super) async fn host(config: Config, terminal: &Terminal) -> Result<Host, Failure> {
    host_with(config, |builder| builder.unusable_plugins(UnusablePlugins::LeaveOut), terminal).await
}

/// Warns of what is odd about the project's skills, once and in few lines: for commands whose models are offered them.
pub(super) fn warn_of_skills(host: &Host) {
    for line in host.skills().summary() {
        tracing::warn!("{line}; `opcell check` lists all findings");
    }
}

/// The same, with more than its project says. Unless `with` says otherwise, an unusable plugin is an error: a server or
/// a worker that starts without it would fail runs that no one watches.
pub(super) async fn host_with(
    config: Config,
    with: impl FnOnce(HostBuilder) -> HostBuilder,
    terminal: &Terminal,
) -> Result<Host, Failure> {
    let host = with(Host::builder().config(config).new_permissions(NewPermissions::LeaveOut)).build().await?;
    for left_out in host.left_out() {
        terminal.warning(&left_out.to_rejected());
    }
    Ok(host)
}

/// A document that the command names decides what runs: no grant of its folder extends to writing it.
pub fn put_in_force(config: &mut Config, document: &str) {
    let file = PathBuf::from(document);
    if file.is_file() {
        config.in_force.push(file);
    }
}

pub fn show_warnings(workflow: &Workflow, terminal: &Terminal) {
    if terminal.json {
        return;
    }
    if let Some(document) = workflow.document() {
        terminal.findings(&document.source, &document.diagnostics);
    }
}
