//! Model conversations of a project: its models, its skills, the tools that a model may call.

mod delegation;

use crate::{
    catalog::{Catalog, Offer},
    config::{
        OwnModels, SessionSettings, SkillScript,
        text::{ApprovedCall, ContextFiles},
    },
    http::HttpClient,
    library::Library,
    report::Rejected,
    services::{FiguresTo, LogSink},
    tenants::Tenants,
    tools::Fetch,
};
pub(crate) use delegation::ChildRuns;
use indexmap::IndexMap;
use opcell_engine::{ports::Operations, receipt::Provider};
use opcell_ir::{Diagnostic, ir::ApprovalRules};
use opcell_schema::shown;
use opcell_session::{
    HostSessions,
    code::Programs,
    context::project_context,
    models::{Models, ScriptedModel},
    sessions::{Augmenter, Extension},
    skills::SkillLibrary,
    tools::{FileRoots, OperationTool, SessionTool, delegate_tool, file_tools, shell_tool},
};
use opcell_types::{
    Effects, ToolDescription, control::ControlFiles, denial::HttpScope, quota::QuotaStore, suggest::hint,
};
use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
    sync::Arc,
};

/// The parts of the host that a project's sessions share.
pub(crate) struct SessionDeps<'a> {
    pub root: &'a Path,
    /// Operations and tools by the names that documents call them by.
    pub bindings: &'a IndexMap<String, String>,
    pub catalog: &'a Arc<Catalog>,
    /// Plugins that may add to prompts.
    pub grants: &'a HashSet<String>,
    pub library: &'a Arc<Library>,
    pub skills: &'a Arc<SkillLibrary>,
    /// Scripts of skills, by the names of the plugins that they are.
    pub scripts: &'a BTreeMap<String, SkillScript>,
    pub child_runs: Arc<ChildRuns>,
    pub programs: Arc<dyn Programs>,
    /// The result of [`own_tools`].
    pub own: Vec<SessionTool>,
    pub tenants: Arc<Tenants>,
    /// Receives figures of rounds and calls.
    pub sink: Option<Arc<dyn LogSink>>,
}

/// The host's own tools, as far as the project enables them: over its file roots, requests, commands.
pub(crate) fn own_tools(
    settings: &SessionSettings,
    skills: &Arc<SkillLibrary>,
    http: &Arc<HttpClient>,
    control: &Arc<ControlFiles>,
    written: &dyn QuotaStore,
) -> Result<Vec<SessionTool>, Rejected> {
    let roots = FileRoots::open(&settings.files, control, written).map_err(|error| wrong(error.to_string()))?;
    let mut tools = file_tools(roots, skills.clone());
    if !settings.http.is_empty() {
        let fetch = Fetch::new(http.clone(), settings.http.clone(), HttpScope::Sessions);
        let fetch = SessionTool::new(Arc::new(fetch)).by_declaration();
        tools.push(fetch.with_lambda("request → response | hosts(allowed by operator)"));
    }
    if let Some(shell) = &settings.bash {
        tools.push(shell_tool(shell.clone()));
    }
    Ok(tools)
}

fn wrong(error: String) -> Rejected {
    Rejected::plain(Diagnostic::error("invalid-sessions", error))
}

/// Puts a project's sessions together. Models may call every operation of the plugins as a tool (a step's `tools`
/// narrow that), read and, where the project says so, write in its file roots, read its skills, delegate to its
/// workflows, and, where the project says so, fetch and run commands.
pub(crate) fn build(settings: SessionSettings, around: SessionDeps<'_>) -> Result<HostSessions, Rejected> {
    let models = match (settings.model, &settings.script) {
        (Some(OwnModels::Only(model)), _) => Models::only(model),
        (own, Some(script)) => {
            if let Some(OwnModels::Providers(own)) = own
                && let Some((name, _)) = own.first()
            {
                return Err(wrong(format!(
                    "a script answers for every model, and the program has a provider `{name}`"
                )));
            }
            Models::only(Arc::new(ScriptedModel::load(script).map_err(|error| wrong(error.to_string()))?))
        }
        (own, None) => {
            let mut models = Models::new(settings.models).map_err(|error| wrong(error.to_string()))?;
            if let Some(OwnModels::Providers(own)) = own {
                for (name, model) in own {
                    models = models.with_provider(&name, model).map_err(|error| wrong(error.to_string()))?;
                }
            }
            models
        }
    };
    let context_files = match settings.context_files {
        ContextFiles::None => Vec::new(),
        ContextFiles::Project => project_context(around.root).map_err(|error| wrong(error.to_string()))?,
    };
    let mut tools = around.own;
    tools.extend(operation_tools(around.catalog, around.scripts));
    tools.push(delegate_tool(around.child_runs));
    tools.extend(bound(&tools, around.bindings));
    let of_documents: Vec<SessionTool> =
        around.catalog.document_tools().filter(|tool| find(&tools, tool.name()).is_none()).collect();
    tools.extend(of_documents);
    approvals(&mut tools, &settings.tool_approvals, &settings.server_approvals, &settings.approved)?;
    for (name, place) in &settings.in_programs {
        let named = |tool: &&mut SessionTool| tool.name() == name || tool.tool.description().name == *name;
        let mut found = false;
        for tool in tools.iter_mut().filter(named) {
            (tool.in_programs, found) = (*place, true);
        }
        if !found {
            let hint = hint(name, tools.iter().map(SessionTool::name));
            return Err(wrong(format!("`code` of [tools.{name}] is for a tool that sessions do not have{hint}")));
        }
    }
    let augmenters = settings.augmenters.iter().map(|operation| augmenter(around.catalog, operation));
    let mut builder = HostSessions::builder()
        .augmenters(augmenters.collect::<Vec<_>>())
        .tools(tools)
        .programs(around.programs)
        .models(models.with_tenants(around.tenants))
        .skills(around.skills.clone())
        .context_files(context_files)
        .workflows(around.library.clone())
        .profiles(settings.profiles)
        .defaults(settings.defaults)
        .missing_tools(settings.missing_tools)
        .approve(settings.approve);
    for extension in extensions(around.catalog, around.grants, settings.contributions) {
        builder = builder.extension(extension);
    }
    if let Some(sink) = around.sink {
        builder = builder.figures(Arc::new(FiguresTo(sink)));
    }
    if let Some(rounds) = settings.rounds_at_a_time {
        builder = builder.rounds_at_a_time(rounds);
    }
    if let Some(record) = settings.record {
        builder = builder.record_to(record);
    }
    builder.build().map_err(|error| wrong(error.to_string()))
}

/// An augmenter of the project. It is called again where a crash lost its answer, so that it must change nothing that
/// matters when it is repeated.
fn augmenter(catalog: &Catalog, operation: &str) -> Augmenter {
    let problem = match catalog.find(operation).map(|entry| &entry.offer) {
        Ok(Offer::Operation { effects: Effects::Pure | Effects::Idempotent, .. }) => None,
        Ok(Offer::Operation { .. }) => {
            Some("it changes something at each call; use a pure or an idempotent operation".to_owned())
        }
        Ok(_) => Some("it is a judge, and an augmenter is an operation".to_owned()),
        Err(unknown) => Some(unknown.to_string()),
    };
    Augmenter { operation: operation.into(), problem }
}

/// Gives tools the rules that the project has for them, by their names and by their servers.
fn approvals(
    tools: &mut [SessionTool],
    of_tools: &IndexMap<String, ApprovalRules>,
    of_servers: &IndexMap<String, ApprovalRules>,
    approved: &[ApprovedCall],
) -> Result<(), Rejected> {
    for name in of_tools.keys() {
        if !tools.iter().any(|tool| tool.name() == name || tool.tool.description().name == *name) {
            let hint = hint(name, tools.iter().map(SessionTool::name));
            return Err(wrong(format!("`approve` of [tools.{name}] is for a tool that sessions do not have{hint}")));
        }
    }
    for tool in tools {
        let own = tool.tool.description().name.clone();
        for name in [tool.name().to_owned(), own] {
            if let Some(rules) = of_tools.get(&name) {
                tool.approve.add(rules);
            }
        }
        if let Provider::Mcp(server) = tool.tool.provider()
            && let Some(rules) = of_servers.get(server.as_ref())
        {
            tool.approve.add(rules);
        }
        let name = tool.name().to_owned();
        let approved = approved.iter().filter(|call| call.tool == name);
        tool.approved.extend(approved.map(|call| call.arguments.clone()));
    }
    Ok(())
}

/// The plugins that sessions can use, and what the project and granted plugins add to prompts. What the project says
/// under a plugin's name takes the place of what the plugin says; under any other name it is an extension of its own.
fn extensions(
    catalog: &Catalog,
    granted: &HashSet<String>,
    mut contributions: IndexMap<String, (i32, String)>,
) -> Vec<Extension> {
    let mut extensions = Vec::new();
    for plugin in catalog.plugins() {
        let (name, manifest) = (plugin.name().to_owned(), plugin.manifest());
        let own = manifest.prompt.as_ref().filter(|_| granted.contains(&name));
        let contribution = contributions
            .shift_remove(&name)
            .or_else(|| own.map(|prompt| (prompt.priority, prompt.text.clone())))
            .filter(|(_, text)| !text.trim().is_empty());
        // A plugin that only judges has nothing for a session.
        if plugin.operations().is_empty() && contribution.is_none() {
            continue;
        }
        let description = manifest.description.clone();
        extensions.push(Extension {
            description: description.unwrap_or_else(|| format!("Operations of the plugin {name}")),
            name,
            contribution,
            ..Extension::default()
        });
    }
    let own = contributions.into_iter().filter(|(_, (_, text))| !text.trim().is_empty());
    extensions.extend(own.map(|(name, contribution)| Extension {
        name,
        description: "Added by the project".to_owned(),
        contribution: Some(contribution),
        ..Extension::default()
    }));
    extensions
}

fn find<'a>(tools: &'a [SessionTool], name: &str) -> Option<&'a SessionTool> {
    tools.iter().find(|tool| tool.name() == name)
}

/// The tools that documents call by other names. A name without a binding is not a tool, and what declares it says so.
fn bound(tools: &[SessionTool], bindings: &IndexMap<String, String>) -> Vec<SessionTool> {
    let unused = bindings.iter().filter(|(name, _)| find(tools, name).is_none());
    unused.filter_map(|(name, target)| Some(find(tools, target)?.named(name))).collect()
}

/// The operations of plugins under their IDs, and those of scripts of skills as `skill/NAME/SCRIPT`.
fn operation_tools(catalog: &Arc<Catalog>, scripts: &BTreeMap<String, SkillScript>) -> Vec<SessionTool> {
    let entries = catalog.entries();
    let of_plugin = |name: &str| entries.iter().filter(|entry| *entry.plugin == *name).count();
    let tool = |entry: &crate::catalog::Entry| {
        let Offer::Operation { effects, data_schema } = &entry.offer else { return None };
        let schema = shown::schema(&entry.arguments_schema);
        let description = ToolDescription::new(entry.id.as_str(), shown::text(&entry.summary), schema)
            .with_results(Some(shown::schema(data_schema).into()));
        let operations: Arc<dyn Operations> = catalog.clone();
        let provider = Provider::Plugin(entry.plugin.clone());
        let tool = OperationTool::new(operations, description, *effects, provider);
        let by_declaration = catalog.reaches(&entry.plugin);
        let tool = SessionTool::new(Arc::new(tool));
        let Some(script) = scripts.get(entry.plugin.as_ref()) else {
            return Some(SessionTool { extension: Some(entry.plugin.as_ref().to_owned()), by_declaration, ..tool });
        };
        let name = match of_plugin(&entry.plugin) {
            1 => script.tool(),
            _ => format!("{}/{}", script.tool(), entry.id.as_str().rsplit('/').next().unwrap_or_default()),
        };
        Some(SessionTool { skill: Some(script.skill.clone()), by_declaration, ..tool.named(&name) })
    };
    entries.iter().copied().filter_map(tool).collect()
}
