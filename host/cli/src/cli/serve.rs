//! `opcell serve`: the HTTP API and the page, with a worker that drives the runs.

use super::{
    Exit, Failure, Global, Terminal,
    args::{StopArgs, journal_place},
    consent::Asked,
    content::with_content,
    graph::{self, Format},
    live, plugin,
    stop::Stop,
};
use crate::graph::{Drawing, Path};
use clap::Args;
use futures_util::future::join_all;
use opcell::{
    Host, HostBuilder, LiveHost, Rejected, Remedy, SharedPools,
    config::{Config, JournalPlace, JournalSettings, TenantShare, lock::Lock},
    consent,
    places::Places,
    triggers::{Trigger, TriggerAction, TriggerSource},
};
use opcell_engine::Event;
use opcell_engine::worker::WorkerOptions;
use opcell_ir::{Diagnostic, WorkflowIr, diagnostic::did_you_mean};
use opcell_server::{
    Collector, Meter, Project, ServeError, Serving, Settings, Tenant, Tenants, Tls,
    access::{Access, Own, tokens::TokenStore},
    api::{self, GraphFormat},
    mcp::{Face, Gateway},
    tenant::TenantLimits,
};
use serde_json::json;
use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf};

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Address on which to listen. Beyond this machine, TLS and tokens are required.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7878")]
    listen: SocketAddr,
    /// Certificate chain in PEM; read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Journal file or `postgres://` URL; by default the project's, else `.opcell/runs.db`.
    #[arg(long, value_name = "PATH|URL", conflicts_with = "no_journal", value_parser = journal_place)]
    journal: Option<JournalPlace>,
    /// Keep runs in memory only: they are lost when the server stops.
    #[arg(long)]
    no_journal: bool,
    /// Maximum number of resumed runs to drive concurrently.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    concurrency: u16,
    /// Maximum number of cells that run at once, of all tenants together; 64 by default, and 128 with `[tenants]`.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    cells: Option<u32>,
    /// Offer this workflow as a tool to MCP clients, beside the operations of the plugins (repeatable).
    #[arg(long, value_name = "NAME")]
    mcp_workflow: Vec<String>,
    /// Offer the tools of a tenant's own MCP servers to MCP clients as well, as `SERVER__TOOL`.
    #[arg(long)]
    mcp_gateway: bool,
    /// With `--mcp-gateway`: offer a search over all tools, the description of one, and a call by name, in place of the
    /// tools.
    #[arg(long, requires = "mcp_gateway")]
    mcp_search: bool,
    /// With `--mcp-gateway`: offer only tools like this, such as `notes/*` (repeatable).
    #[arg(long, value_name = "SERVER/TOOL", requires = "mcp_gateway")]
    mcp_tool: Vec<String>,
    /// Send the traces of runs that have ended to this collector of OpenTelemetry, by OTLP over HTTP. Without prompts,
    /// inputs and results, unless `--otlp-content` is given. Defaults to what `OTEL_EXPORTER_OTLP_ENDPOINT` says.
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
    /// Send the content of conversations to the collector as well, within bounds: prompts, messages, arguments and
    /// results of tools. `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true` has the same effect.
    #[arg(long)]
    otlp_content: bool,
    /// Ask no one for a token: everyone who reaches the address is the operator, other users of this machine included.
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    stop: StopArgs,
}

pub async fn serve(global: &Global, args: &ServeArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut config = global.trusted()?;
    let mut settings = Settings::new(args.listen);
    settings.tls = args.tls_cert.clone().zip(args.tls_key.clone()).map(|(certificate, key)| Tls { certificate, key });
    settings.access = access(&config, args.open, terminal)?;
    settings.draw = Some(|| Box::new(Drawn(None)));
    settings.mcp_workflows.clone_from(&args.mcp_workflow);
    settings.mcp_gateway = args.mcp_gateway.then(|| {
        let face = if args.mcp_search { Face::Search } else { Face::Tools };
        Gateway::new(face, args.mcp_tool.clone())
    });
    let mut worker = WorkerOptions::default();
    worker.concurrency = usize::from(args.concurrency);
    worker.grace = args.stop.grace();
    settings.worker = worker;
    let endpoint = args.otlp.clone().or_else(|| std::env::var("OTEL_EXPORTER_OTLP_ENDPOINT").ok());
    if let Some(endpoint) = endpoint.as_deref().filter(|endpoint| !endpoint.is_empty()) {
        let headers = std::env::var("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
        let collector = Collector::new(endpoint, &headers).map_err(|message| {
            Diagnostic::error("invalid-collector", message).help("write an address such as `http://localhost:4318`")
        })?;
        settings.collector = Some(collector.with_content(with_content(args.otlp_content)?));
    }
    let missing = settings.missing();
    if !missing.is_empty() {
        return Err(ServeError::Unprotected { address: args.listen, missing }.into());
    }
    match (&args.journal, args.no_journal) {
        (Some(place), _) => config.journal = Some(JournalSettings::at(place.clone())),
        (None, true) => config.journal = None,
        (None, false) if config.journal.is_none() => config.journal = Some(JournalSettings::usual(&config.root)?),
        (None, false) => {}
    }
    let (tenants, lives) = tenants(global, args, config, terminal).await?;
    let requires_token = settings.access.requires_token();
    let start_token = match &settings.access {
        Access::Own(own) => Some(own.start_token().to_owned()),
        _ => None,
    };
    let serving = Serving::bind(settings, tenants).await?;
    let url = serving.url()?;
    let stop = Stop::listen(args.stop, true, terminal)?;
    if terminal.json {
        terminal.line(&json!({"listening": url, "tokens": requires_token, "token": start_token}).to_string())?;
    } else {
        terminal.note(&format!("listening on {url}"));
        if let Some(token) = start_token {
            terminal.note(&format!("open {url}/?token={token}"));
            terminal.note("programs of this user need no token; others send it as `Authorization: Bearer TOKEN`");
        }
    }
    let following = join_all(lives.into_iter().map(|(host, file)| {
        let project = ReadAgain { global: global.clone(), file };
        async move { live::follow(&host, move || project.config(), terminal, terminal.json).await }
    }));
    tokio::select! { served = serving.run(stop.token()) => served?, _ = following => {} }
    Ok(Exit::Done)
}

/// Cells that run at once where tenants share the pools: each has at most half of them, unless its share says otherwise,
/// and so as many as a project that is served alone.
const SHARED_CELLS: u32 = 128;

/// The pools of cells.
enum Cells {
    /// Of the only tenant, with this number of cells if the command gives one.
    Own(Option<u32>),
    /// Of all tenants.
    Shared(SharedPools),
}

/// Hosts whose plugins are exchanged, each with the project file of its tenant; none for the project that is served.
type Lives = Vec<(LiveHost, Option<PathBuf>)>;

/// The project itself, and the projects that it declares as tenants.
async fn tenants(
    global: &Global,
    args: &ServeArgs,
    own: Config,
    terminal: &Terminal,
) -> Result<(Tenants, Lives), Failure> {
    let declared = own.tenants.clone();
    let pools = match declared.is_empty() {
        true => Cells::Own(args.cells),
        false => Cells::Shared(SharedPools::builder().cells(args.cells.unwrap_or(SHARED_CELLS)).build()),
    };
    let again = |file: Option<PathBuf>| ReadAgain { global: global.clone(), file };
    let mut journals = BTreeMap::new();
    journals.extend(places_of(&own).into_iter().map(|place| (place, Tenant::DEFAULT.to_owned())));
    let (first, live) = tenant(Tenant::DEFAULT, own, &TenantShare::default(), &pools, terminal).await?;
    let (mut tenants, mut lives) = (vec![first.with_project(again(None))], vec![(live, None)]);
    for declared in declared {
        let mut config = global.of_tenant(&declared.project, Asked::require)?;
        if !config.tenants.is_empty() {
            let message = format!("the project of tenant `{}` declares tenants of its own", declared.name);
            let help = "declare them in the project that is served";
            return Err(Diagnostic::error("invalid-tenant", message).help(help).into());
        }
        config.journal = match config.journal.take() {
            _ if args.no_journal => None,
            Some(journal) => Some(journal),
            None => Some(JournalSettings::usual(&config.root)?),
        };
        let places = places_of(&config);
        let shared = places.iter().find_map(|place| journals.get(place));
        if let Some(other) = shared {
            let message = format!("the tenants `{other}` and `{}` have one journal", declared.name);
            let help = "give each project a journal of its own: a tenant sees every run of its journal";
            return Err(Diagnostic::error("shared-journal", message).help(help).into());
        }
        journals.extend(places.into_iter().map(|place| (place, declared.name.clone())));
        let (tenant, live) = tenant(&declared.name, config, &declared.share, &pools, terminal).await?;
        tenants.push(tenant.with_project(again(Some(declared.project.clone()))));
        lives.push((live, Some(declared.project)));
    }
    Ok((Tenants::new(tenants), lives))
}

/// One tenant, with its share of the server.
async fn tenant(
    name: &str,
    mut config: Config,
    share: &TenantShare,
    pools: &Cells,
    terminal: &Terminal,
) -> Result<(Tenant, LiveHost), Failure> {
    let triggers = config.triggers.clone();
    config.sessions.rounds_at_a_time = share.model_rounds;
    let meter = Meter::default();
    let with = |builder: HostBuilder| {
        let builder = builder.log(meter.clone()).journal_log(meter.clone());
        let (builder, cells) = match pools {
            Cells::Own(cells) => (builder, *cells),
            Cells::Shared(pools) => (builder.shared_pools(pools), share.cells),
        };
        match cells {
            Some(cells) => builder.cells(cells),
            None => builder,
        }
    };
    let host = crate::cli::host_with(config, with, terminal).await?;
    crate::cli::warn_of_skills(&host);
    check_triggers(&triggers, &host)?;
    warn_of_secrets(&triggers).await;
    let mut limits = TenantLimits::default();
    let size = |share: Option<u32>, default: usize| share.map_or(default, |share| share as usize);
    limits.requests_per_second = share.requests_per_second.unwrap_or(limits.requests_per_second);
    limits.started_runs = size(share.started_runs, limits.started_runs);
    limits.calls = size(share.calls, limits.calls);
    limits.readers = size(share.readers, limits.readers);
    let live = LiveHost::new(host);
    Ok((Tenant::new(name, live.clone(), limits).with_triggers(triggers).with_meter(meter), live))
}

/// Returns the places of a project's runs and the stores of its plugins, so that one place under two names is seen as
/// one.
fn places_of(config: &Config) -> Vec<String> {
    let Some(journal) = &config.journal else { return Vec::new() };
    match journal.place.file() {
        Some(file) => {
            let places = [file.to_owned(), opcell::stores::file_beside(file)];
            places.iter().map(|place| opcell::places::real(place).display().to_string()).collect()
        }
        None => vec![journal.place.to_string()],
    }
}

/// Requests need a token as soon as the project has one, and from then on. Before, they come from programs of this user
/// or bring the token that the server starts with.
fn access(config: &Config, open: bool, terminal: &Terminal) -> Result<Access, Failure> {
    let store = token_store(config);
    let in_use = store.as_ref().filter(|store| store.is_in_use());
    match (open, in_use) {
        (true, None) => Ok(Access::Open),
        (true, Some(_)) => {
            terminal.note("the project has tokens, and none is asked for: `--open`");
            Ok(Access::Open)
        }
        (false, Some(store)) => {
            if store.list()?.is_empty() {
                let message = "the project had tokens, and has none now: no request is admitted";
                let help = "make one with `opcell token new`, or serve without tokens: `--open`";
                terminal.warning(&Rejected::plain(Diagnostic::error("no-tokens", message).help(help)));
            }
            Ok(Access::Tokens(store.clone()))
        }
        (false, None) => Ok(Access::Own(Own::new(store)?)),
    }
}

/// The tokens of a project file; none where the environment names no home.
pub fn token_store(config: &Config) -> Option<TokenStore> {
    let project = config.file.as_deref().unwrap_or(&config.root);
    Some(TokenStore::of_project(&Places::of_user().state?, project))
}

/// The project of a tenant, read again in the middle of serving: consent is looked up, and asked of no one.
struct ReadAgain {
    global: Global,
    /// The tenant's project file; none for the project that is served.
    file: Option<PathBuf>,
}

impl ReadAgain {
    fn config(&self) -> Result<Config, Failure> {
        match &self.file {
            Some(file) => self.global.of_tenant(file, |asked| asked.refuse_unless_allowed()),
            None => self.global.unasked(),
        }
    }
}

impl Project for ReadAgain {
    fn read(&self) -> Result<Config, Rejected> {
        self.config().map_err(live::rejected)
    }

    fn grant(&self, remedy: &Remedy) -> Result<PathBuf, Rejected> {
        // Whose project it is and whether it may be used is asked first, as for reading it.
        self.config().map_err(live::rejected)?;
        let of = match &self.file {
            Some(file) => Global { config: Some(file.clone()), ..self.global.clone() },
            None => self.global.clone(),
        };
        plugin::grant_always_unseen(&of, remedy).map_err(live::rejected)
    }
}

/// The path of a run; none of a workflow that is drawn without one.
struct Drawn(Option<Path>);

impl api::Path for Drawn {
    fn observe(&mut self, event: &Event) {
        self.0.get_or_insert_default().observe(event);
    }

    fn draw(&self, workflow: &WorkflowIr, format: GraphFormat) -> Result<String, String> {
        let format = match format {
            GraphFormat::Svg => Format::Svg,
            GraphFormat::Dot => Format::Dot,
            _ => Format::Mermaid,
        };
        graph::text(&Drawing::of(workflow, self.0.as_ref()), format).map_err(|_| "the graph cannot be drawn".to_owned())
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        let (code, help) = match &error {
            ServeError::Unprotected { .. } => (
                "listen-unprotected",
                "give what is missing, or listen on this machine only: `--listen 127.0.0.1:7878`",
            ),
            ServeError::Listen { .. } => ("listen-failed", "choose another port, or end the process that has it"),
            ServeError::Tls { .. } => ("tls-unusable", "both files must be PEM, and the key must be the certificate's"),
            _ => return Self::Other(error.into()),
        };
        Diagnostic::error(code, error.to_string()).help(help).into()
    }
}

impl Global {
    /// The project of a tenant, for running: it must be this user's own, and needs consent like any other. What the
    /// user's own folders hold is not the tenant's.
    fn of_tenant(
        &self,
        file: &std::path::Path,
        require: impl Fn(Asked) -> Result<(), Failure>,
    ) -> Result<Config, Failure> {
        consent::check_owner(file)?;
        let of = Self { config: Some(file.to_owned()), without_grant: Vec::new(), ..self.clone() };
        let mut config = Config::load(file)?;
        require(Asked::of(&of, &config)?)?;
        config.locked = self.locked;
        if self.locked {
            config.lock = config.lock.map(Lock::frozen);
        }
        Ok(config)
    }
}

/// Tells at the start which webhooks will refuse every request, and not when the first one comes.
async fn warn_of_secrets(triggers: &[Trigger]) {
    for trigger in triggers {
        let TriggerSource::Webhook(webhook) = &trigger.source else { continue };
        for secret in &webhook.secrets {
            if let Err(error) = secret.read().await {
                tracing::warn!("webhook `{}` lacks a secret, and takes nothing that it signs: {error}", trigger.name);
            }
        }
    }
}

/// Checks whether every workflow that a trigger starts is there: found out now, and not at night.
fn check_triggers(triggers: &[Trigger], host: &Host) -> Result<(), Failure> {
    for trigger in triggers {
        let TriggerAction::Start { workflow } = &trigger.action else { continue };
        match host.library().named(workflow) {
            Some(read) => drop(read?),
            None => {
                let message = format!("trigger `{}` starts `{workflow}`, and there is no such workflow", trigger.name);
                let listed = host.library().listed();
                let meant = did_you_mean(workflow, listed.iter().map(|(name, _)| name.as_ref()));
                let help = meant.map_or_else(
                    || "`workflows` of the project file names the folders of documents".to_owned(),
                    |meant| format!("did you mean `{meant}`?"),
                );
                return Err(Diagnostic::error("unknown-workflow", message).help(help).into());
            }
        }
    }
    Ok(())
}
