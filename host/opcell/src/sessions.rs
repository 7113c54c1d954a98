//! Model conversations of a project: its models, its skills, the tools that a model may call.

mod cleaned;
mod delegation;
mod fetch;
mod remote;

use crate::{
    catalog::{Catalog, Offer},
    config::{SessionSettings, text::ContextFilesText},
    http::HttpClient,
    library::Library,
    report::Rejected,
};
pub(crate) use delegation::ChildRuns;
use fetch::Fetch;
use indexmap::IndexMap;
use opcell_engine::{conversation::ToolSpec, ports::Operations, receipt::Provider};
use opcell_sandbox::Access;
use opcell_session::{
    HostSessions,
    context::project_context,
    models::{Models, ScriptedModel},
    sessions::Extension,
    skills::SkillLibrary,
    tools::{BoundTool, DelegateTool, FileRoots, OperationTool, SessionTool, ShellTool, ToolDescription, file_tools},
};
use opcell_types::{Value, control::ControlFiles, quota::Ledger};
use opcell_workflow::Diagnostic;
use remote::RemoteTool;
use std::{collections::HashSet, path::Path, sync::Arc};

/// What sessions of a project share with the rest of its host.
pub(crate) struct SessionDeps<'a> {
    pub root: &'a Path,
    /// Operations and tools by the names that documents call them by.
    pub bindings: &'a IndexMap<String, String>,
    pub catalog: &'a Arc<Catalog>,
    /// Plugins that may add to prompts.
    pub grants: &'a HashSet<String>,
    pub library: &'a Arc<Library>,
    pub skills: &'a Arc<SkillLibrary>,
    pub child_runs: Arc<ChildRuns>,
    /// What [`own_tools`] gave.
    pub own: Vec<Arc<dyn SessionTool>>,
}

/// The host's own tools, as far as the project enables them: over its file roots, requests, commands.
pub(crate) fn own_tools(
    settings: &SessionSettings,
    skills: &Arc<SkillLibrary>,
    http: &Arc<HttpClient>,
    control: &Arc<ControlFiles>,
    written: &dyn Ledger,
) -> Result<Vec<Arc<dyn SessionTool>>, Rejected> {
    let roots = FileRoots::open(&settings.files, control, written).map_err(|error| wrong(error.to_string()))?;
    let mut tools = file_tools(roots, skills.clone());
    if !settings.http.is_empty() {
        tools.push(Arc::new(Fetch::new(http.clone(), settings.http.clone())));
    }
    if let Some(shell) = &settings.bash {
        tools.push(Arc::new(ShellTool::new(shell.clone())));
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
    let models = match &settings.script {
        Some(script) => Models::only(Arc::new(ScriptedModel::load(script).map_err(|error| wrong(error.to_string()))?)),
        None => Models::new(settings.models).map_err(|error| wrong(error.to_string()))?,
    };
    let context_files = match settings.context_files {
        ContextFilesText::None => Vec::new(),
        ContextFilesText::Project => project_context(around.root).map_err(|error| wrong(error.to_string()))?,
    };
    let mut tools = around.own;
    tools.extend(operation_tools(around.catalog));
    tools.push(Arc::new(DelegateTool::new(around.child_runs)));
    tools.extend(bound(&tools, around.bindings));
    tools.extend(outside_tools(&tools, around.catalog));
    let mut builder = HostSessions::builder()
        .tools(tools)
        .models(models)
        .skills(around.skills.clone())
        .context_files(context_files)
        .workflows(around.library.clone())
        .profiles(settings.profiles)
        .defaults(settings.defaults)
        .missing_tools(settings.missing_tools);
    for extension in extensions(around.catalog, around.grants, settings.contributions) {
        builder = builder.extension(extension);
    }
    if let Some(rounds) = settings.rounds_at_a_time {
        builder = builder.rounds_at_a_time(rounds);
    }
    if let Some(record) = settings.record {
        builder = builder.record_to(record);
    }
    builder.build().map_err(|error| wrong(error.to_string()))
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

/// The tools that documents call by other names. A name without a binding is not a tool, and what declares it says so.
fn bound(tools: &[Arc<dyn SessionTool>], bindings: &IndexMap<String, String>) -> Vec<Arc<dyn SessionTool>> {
    let find = |name: &str| tools.iter().find(|tool| tool.description().spec.name == name);
    let bind = |(name, target): (&String, &String)| {
        let tool = find(target).filter(|_| find(name).is_none())?;
        Some(Arc::new(BoundTool::new(name, tool.clone())) as Arc<dyn SessionTool>)
    };
    bindings.iter().filter_map(bind).collect()
}

/// The tools of documents that no plugin offers and no session has by itself: requests under rules of their own, the
/// embedder's tools, those of MCP servers. A session that declares one by its name has it.
fn outside_tools(tools: &[Arc<dyn SessionTool>], catalog: &Arc<Catalog>) -> Vec<Arc<dyn SessionTool>> {
    let is_taken = |name: &str| tools.iter().any(|tool| tool.description().spec.name == name);
    let tool = |description: ToolDescription| -> Arc<dyn SessionTool> {
        match catalog.remote_tool(&description.spec.name) {
            Some((server, tool)) => Arc::new(RemoteTool::new(server.clone(), tool.to_owned(), description)),
            None => Arc::new(OperationTool::new(catalog.clone(), description)),
        }
    };
    catalog.outside_tools().filter(|tool| !is_taken(&tool.spec.name)).map(tool).collect()
}

/// Whether what a plugin was granted lets it write, or reach the network or tools of the host: then a model gets its
/// operations only where they are declared.
fn reaches(catalog: &Catalog, plugin: &str) -> bool {
    let granted = catalog.plugins().find(|known| known.name() == plugin).map(|known| known.policy().grants().clone());
    granted.is_some_and(|granted| {
        let writes = granted.files.values().any(|files| files.access == Access::ReadWrite);
        writes || !granted.tools.is_empty() || !granted.dangerous_preopens.is_empty()
    })
}

fn operation_tools(catalog: &Arc<Catalog>) -> Vec<Arc<dyn SessionTool>> {
    let tool = |entry: &crate::catalog::Entry| {
        let Offer::Operation { effects, .. } = entry.offer else { return None };
        let description = ToolDescription {
            spec: ToolSpec {
                name: entry.id.as_ref().to_owned(),
                description: cleaned::text(&entry.summary),
                parameters: Value::from(cleaned::schema(&entry.arguments_schema)),
            },
            lambda: None,
            effects,
            provider: Provider::Plugin(entry.plugin.clone()),
            extension: Some(entry.plugin.as_ref().to_owned()),
            by_declaration: reaches(catalog, &entry.plugin),
        };
        let operations: Arc<dyn Operations> = catalog.clone();
        Some(Arc::new(OperationTool::new(operations, description)) as Arc<dyn SessionTool>)
    };
    catalog.entries().into_iter().filter_map(tool).collect()
}
