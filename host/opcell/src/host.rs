//! A host: plugins with their grants, workflows by name, and the engine that runs them.

mod builder;
mod close;
mod error;
mod invocation;
mod loading;
mod metered;
mod pools;
mod repin;
mod versions;

pub use builder::{HostBuilder, NewPermissions};
pub use error::{Duplicate, HostError, PluginError, StartError};
pub(crate) use invocation::output_of;
pub use invocation::{CallError, CallOutput, Invocation, ProgramLanguage};
pub use loading::UnusablePlugins;
pub(crate) use loading::{Ground, Loader, Parts};
pub use metered::JournalSink;
pub use pools::{SharedPools, SharedPoolsBuilder};
pub use repin::{MovedPin, RepinError};
pub(crate) use versions::WeakHost;

use crate::{
    catalog::Catalog,
    embedded::EmbeddedSink,
    gateway::{GatewayListing, ProgramTargets, ServerStanding},
    library::Library,
    pins,
    programs::SessionPrograms,
    report::Rejected,
    required_inputs,
    run::{ResumedRun, Run, RunRef, Workflow},
    tools::{ServerEntry, ToolEntry},
};
use opcell_engine::{Engine, ResumeOptions, RunError, RunOptions, RunOutcome, ports::RunText, worker::Turns};
use opcell_ir::{Diagnostic, Severity, checks};
use opcell_journal::{RunId, RunQuery};
use opcell_sandbox::PoolUse;
use opcell_session::{HostSessions, skills::SkillLibrary};
use opcell_types::Value;
use opcell_workflow::document::Language;
use std::{fmt, sync::Arc};

/// Runs workflows and single operations. Cheap to clone.
#[derive(Clone)]
pub struct Host {
    catalog: Arc<Catalog>,
    library: Arc<Library>,
    sessions: Arc<HostSessions>,
    engine: Arc<Engine>,
    /// Calls outside of runs.
    open_calls: Arc<close::OpenCalls>,
    /// For [`Host::reload`].
    parts: Arc<Parts>,
    /// This host with earlier versions of its plugins.
    earlier: Arc<versions::EarlierHosts>,
    programs: Arc<SessionPrograms>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plugins: Vec<&str> = self.catalog.plugins().map(|plugin| plugin.name()).collect();
        f.debug_struct("Host").field("plugins", &plugins).finish_non_exhaustive()
    }
}

impl Host {
    /// Starts with nothing: no plugins, no grants, no workflows.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// Every operation and judge of the plugins.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// for entry in host.catalog().entries() {
    ///     println!("{}", entry.id);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The plugins that were left out, because they ask for more than their operator has agreed to
    /// ([`NewPermissions::LeaveOut`]) or cannot be used ([`UnusablePlugins::LeaveOut`]).
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// for left_out in host.left_out() {
    ///     eprintln!("{}: {}", left_out.plugin, left_out.error);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn left_out(&self) -> &[PluginError] {
        self.catalog.left_out()
    }

    /// Every workflow that is known by name.
    #[must_use]
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// The project's skills.
    #[must_use]
    pub fn skills(&self) -> &SkillLibrary {
        &self.parts.ground.skills
    }

    /// The model conversations that steps open.
    #[must_use]
    pub fn sessions(&self) -> &HostSessions {
        &self.sessions
    }

    /// A workflow by the path of its document, or by its name in the project.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// let workflow = host.open("workflows/greet.edn")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When there is none, or it does not compile.
    pub fn open(&self, target: &str) -> Result<Workflow, Rejected> {
        self.library.open(target)
    }

    /// Starts a run, drives it in a task of its own, and returns at once. `input` is the run's `workflow-input`; for a
    /// workflow with declared inputs it is an object of them.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// let workflow = host.open("greet")?;
    /// let run = host.start(&workflow, opcell::json!({"name": "Ada"})).await?;
    /// println!("{}", run.outcome().await?.ended()?.result);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the workflow names operations or judges that no plugin offers, or the journal does not take the run.
    pub async fn start(&self, workflow: &Workflow, input: Value) -> Result<Run, StartError> {
        self.start_with(workflow, input, RunOptions::default()).await
    }

    /// As [`Host::start`], with options. What the run pins is found out here: every plugin that it may call.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// let options = RunOptions { tenant: Some("acme".into()), detach: true, ..RunOptions::default() };
    /// let run = host.start_with(&host.open("greet")?, Value::Null, options).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Host::start`].
    pub async fn start_with(&self, workflow: &Workflow, input: Value, options: RunOptions) -> Result<Run, StartError> {
        let unknown = self.check(workflow).into_iter().filter(|finding| finding.code == checks::UNKNOWN_OPERATION);
        let errors: Vec<_> = unknown.map(|finding| Diagnostic { severity: Severity::Error, ..finding }).collect();
        if !errors.is_empty() {
            return Err(StartError::Rejected(workflow.reject(errors)));
        }
        let wrong = self
            .library
            .refusal(workflow.ir())
            .map(|refusal| workflow.locate(refusal))
            .or_else(|| required_inputs::unchosen(workflow))
            .or_else(|| required_inputs::missing(workflow, &input))
            .or_else(|| required_inputs::unfit(workflow, &input));
        if let Some(wrong) = wrong {
            return Err(StartError::Rejected(workflow.reject(vec![wrong])));
        }
        let program = workflow
            .program()
            .map_err(|error| workflow.reject(vec![Diagnostic::error("invalid-workflow", error.to_string())]))?;
        let pins = pins::of(&self.catalog, &self.library, workflow.ir(), options.session.as_ref());
        let authorizer = self.catalog.authorizer().cloned().or(options.authorizer);
        let options = RunOptions { pins, authorizer, sink: options.sink.map(guarded_text), ..options };
        Ok(Run::new(self.engine.start(program, input, options).await?, self.engine.clone()))
    }

    /// Resumes a run of the journal that has no driver, with its own definition and with the versions of plugins that
    /// it was started with: those of this host, or earlier ones that its lock accepted.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// let run = host.resume("order-17", opcell::ResumeOptions::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the journal does not have the run, another process drives it, or a version that it was started with is
    /// neither loaded nor kept.
    pub async fn resume(&self, run: &str, options: ResumeOptions) -> Result<Run, RunError> {
        let options = ResumeOptions { sink: options.sink.map(guarded_text), ..options };
        let (handle, engine) = self.resume_with_versions(&run.into(), options).await?;
        Ok(Run::new(handle, engine))
    }

    /// Resumes every run of the journal that has not ended and has no driver: after a restart, those that the last
    /// process left. Runs that wait for an answer are driven from now on as well, unless
    /// [`detach`](ResumeOptions::detach) is set; a [`Worker`](opcell_engine::worker::Worker) takes up any number of runs
    /// within bounds of its own.
    ///
    /// ```
    /// use opcell::{ResumeOptions, prelude::*};
    ///
    /// # async fn begin(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// for resumed in host.resume_all(ResumeOptions::default()).await? {
    ///     if let Err(error) = resumed.run {
    ///         eprintln!("run {} stays as it is: {error}", resumed.id);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the journal cannot be read. What keeps a single run from being resumed is beside its ID.
    pub async fn resume_all(&self, options: ResumeOptions) -> Result<Vec<ResumedRun>, RunError> {
        let mut resumed: Vec<ResumedRun> = Vec::new();
        for status in ["interrupted", "pending", "running", "waiting", "suspended"] {
            let query = RunQuery { status: Some(status.into()), ..RunQuery::default() };
            for entry in self.engine.runs_page(query).await? {
                let id = entry.run.clone();
                if entry.driven || entry.state.ended || resumed.iter().any(|known| known.id == id) {
                    continue;
                }
                let run = self.resume(&id, options.clone()).await;
                resumed.push(ResumedRun { id, run });
            }
        }
        Ok(resumed)
    }

    /// A run of the journal by its ID, whichever process drives it: to follow its end, to answer it, to stop it.
    ///
    /// ```
    /// use opcell::prelude::*;
    ///
    /// # async fn answer(host: &Host) -> Result<(), RunError> {
    /// let run = host.run("order-17");
    /// run.approve("ship", Decision::approve().by("ann")).await?;
    /// println!("{}", run.wait().await?.status);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn run(&self, id: &str) -> RunRef {
        RunRef::new(self.engine.clone(), id.into())
    }

    /// The tools that documents may call by a name of the project, and whether they are there. Starts the MCP servers
    /// among them.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// for tool in host.tools().await {
    ///     println!("{tool:?}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn tools(&self) -> Vec<ToolEntry> {
        self.catalog.tool_entries().await
    }

    /// The tools of all MCP servers of the project, as they were accepted, to offer them further. Starts the servers.
    pub async fn gateway(&self) -> GatewayListing {
        self.catalog.gateway().await
    }

    /// Calls a tool of an MCP server of the project, if it is as it was accepted; see [`Host::invoke`].
    pub fn invoke_tool(&self, server: &str, tool: &str, arguments: Value) -> Invocation {
        let found = self.catalog.server_tool(server, tool);
        // No operation has such a name: a server that the project does not have is no operation either.
        Invocation::of_tool(self, &format!("mcp {server}/{tool}"), arguments, found)
    }

    /// Runs a program outside of any run: the body of an async function in a cell of its own, which calls these tools
    /// by their names and reaches nothing else. The data of the call has the program's `result` and its `logs`; see
    /// [`Host::invoke`].
    pub fn run_program(&self, language: ProgramLanguage, source: &str, tools: ProgramTargets) -> Invocation {
        Invocation::of_program(self, language, source, tools)
    }

    pub(crate) fn programs(&self) -> &SessionPrograms {
        &self.programs
    }

    /// The standing of every MCP server of the project, by its name: whether it runs, its calls, its changes. Starts
    /// none.
    #[must_use]
    pub fn mcp_standing(&self) -> Vec<(Arc<str>, ServerStanding)> {
        self.catalog.server_standing()
    }

    /// The MCP servers of the project, started and asked for their tools.
    pub async fn mcp_servers(&self) -> Vec<ServerEntry> {
        self.catalog.server_entries().await
    }

    /// The engine: the runs of the journal, their past, and telling them things.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Calls one operation outside of any run, once what this returns is awaited.
    ///
    /// ```
    /// use opcell::prelude::*;
    /// use std::time::Duration;
    ///
    /// # async fn call(host: &Host) {
    /// let call = host.invoke("greet/hello", opcell::json!({"name": "Ada"})).timeout(Duration::from_millis(250));
    /// match call.await {
    ///     Ok(greeted) => println!("{}", greeted.data),
    ///     Err(error) => match error.kind() {
    ///         // Nothing has run.
    ///         FailureKind::Busy => eprintln!("try again later"),
    ///         FailureKind::Denied(denial) => eprintln!("{}: {:?}", denial, denial.remedy),
    ///         // What the cell used and touched: also of a call that ran out of time.
    ///         _ => eprintln!("{error}; {:?}", error.typed_receipt()),
    ///     },
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// When awaited: with the [`Failure`](crate::Failure) of the call, whose [`kind`](crate::Failure::kind) is for
    /// programs. [`Host::call`] is the same with types of the program's own.
    pub fn invoke(&self, operation: &str, arguments: impl Into<Value>) -> Invocation {
        Invocation::new(self, operation, arguments.into())
    }

    /// Checks the names that a workflow uses, and the outcomes that it routes, against what this host has. Findings are
    /// warnings: the languages' own runtimes only find out when the step is entered.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// for finding in host.check(&host.open("greet")?) {
    ///     eprintln!("{}", finding.message);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn check(&self, workflow: &Workflow) -> Vec<Diagnostic> {
        let mut findings = checks::names(workflow.ir(), self);
        // A pack names tools, and the project file says what they are.
        let is_pack = workflow.document().is_some_and(|document| document.language == Some(Language::PromptPack));
        let usual = is_pack.then_some(
            "say under `[tools]` of opcell.toml what the tool is: an operation, or a tool of the host or of a server",
        );
        for finding in findings.iter_mut().filter(|finding| finding.code == checks::UNKNOWN_OPERATION) {
            let help = || self.catalog.left_out_help().or_else(|| usual.map(str::to_owned));
            finding.help = finding.help.take().or_else(help);
        }
        findings.into_iter().map(|finding| workflow.locate(finding)).collect()
    }

    /// Returns the use of each pool of cells at this moment; none without plugins. Of pools that hosts share, its own
    /// part: [`SharedPools::in_use`] has the whole.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// let busy: usize = host.pools().iter().map(|pool| pool.busy as usize).sum();
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn pools(&self) -> Vec<PoolUse> {
        self.parts.loader.sandbox.opened().map(|sandbox| sandbox.pools()).unwrap_or_default()
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// A plugin that a run was started with may be missing because it was left out: then that is what has to be put
    /// right.
    fn found_instead(&self, name: &str, found: String) -> String {
        let left_out = self.left_out().iter().find(|left_out| *name == *pins::name_of(&left_out.plugin));
        left_out.map_or(found, |left_out| format!("none, for it is not loaded: {}", left_out.error))
    }
}

fn guarded_text(sink: Arc<dyn RunText>) -> Arc<dyn RunText> {
    Arc::new(EmbeddedSink::new(sink))
}

impl Turns for Host {
    fn engine(&self) -> &Engine {
        &self.engine
    }

    async fn turn(&self, run: &RunId, options: ResumeOptions) -> Result<RunOutcome, RunError> {
        self.resume(run, options).await?.finished().await
    }
}

/// A tokio runtime for hosts whose plugins may be hostile. A cell that never waits gives its thread back every
/// millisecond; this runtime then looks at its timers and sockets after a few of those and not after sixty-one, and has
/// threads to spare for guests that sit in one long instruction, which the operating system shares out more finely than
/// any runtime can.
///
/// # Errors
/// When the system gives no threads.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    enough_files()?;
    let threads = std::thread::available_parallelism().map_or(2, usize::from).saturating_mul(2).max(4);
    tokio::runtime::Builder::new_multi_thread().worker_threads(threads).event_interval(4).enable_all().build()
}

/// Descriptors that a runtime and the smallest command open. The runtime panics where the system gives it none.
const MIN_OPEN_FILES: usize = 24;

fn enough_files() -> std::io::Result<()> {
    let open = |_| {
        rustix::fs::open(
            "/dev/null",
            rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )
    };
    match (0..MIN_OPEN_FILES).map(open).collect::<Result<Vec<_>, _>>() {
        Err(error @ (rustix::io::Errno::MFILE | rustix::io::Errno::NFILE)) => {
            let message =
                format!("{error}: at least {MIN_OPEN_FILES} more are needed; raise the limit with `ulimit -n 1024`");
            Err(std::io::Error::other(message))
        }
        _ => Ok(()),
    }
}
