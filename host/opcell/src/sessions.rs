//! Model conversations of a project: its models, its skills, the tools that a model may call.

use crate::{
    catalog::{Catalog, Offer},
    config::SessionSettings,
    library::Library,
    report::Rejected,
};
use opcell_engine::{conversation::ToolSpec, ports::Operations};
use opcell_session::{
    HostSessions,
    models::{Models, ScriptedModel},
    sessions::Extension,
    skills::SkillLibrary,
    tools::{FileRoots, HostTool, OperationTool, ToolDescription, file_tools},
};
use opcell_workflow::{Diagnostic, Value};
use std::sync::Arc;

/// Puts a project's sessions together. Models may call every operation of the plugins as a tool (a step's `tools` narrow that), read
/// and, where the project says so, write in its file roots, and read its skills.
pub(crate) fn build(
    settings: SessionSettings,
    catalog: &Arc<Catalog>,
    library: &Arc<Library>,
    skills: &Arc<SkillLibrary>,
) -> Result<HostSessions, Rejected> {
    let wrong = |error: String| Rejected::plain(Diagnostic::error("invalid-sessions", error));
    let models = match &settings.script {
        Some(script) => Models::only(Arc::new(ScriptedModel::load(script).map_err(|error| wrong(error.to_string()))?)),
        None => Models::new(settings.models).map_err(|error| wrong(error.to_string()))?,
    };
    let roots = FileRoots::open(&settings.files).map_err(|error| wrong(error.to_string()))?;
    let mut builder = HostSessions::builder()
        .models(models)
        .skills(skills.clone())
        .tools(file_tools(roots, skills.clone()))
        .tools(operation_tools(catalog))
        .workflows(library.clone())
        .profiles(settings.profiles)
        .defaults(settings.defaults)
        .missing_tools(settings.missing_tools);
    for plugin in catalog.plugins() {
        builder = builder.extension(Extension {
            name: plugin.name().to_owned(),
            description: format!("Operations of the plugin {}", plugin.name()),
            ..Extension::default()
        });
    }
    if let Some(record) = settings.record {
        builder = builder.record_to(record);
    }
    builder.build().map_err(|error| wrong(error.to_string()))
}

fn operation_tools(catalog: &Arc<Catalog>) -> Vec<Arc<dyn HostTool>> {
    let tool = |entry: &crate::catalog::Entry| {
        let Offer::Operation { effects, .. } = entry.offer else { return None };
        let description = ToolDescription {
            spec: ToolSpec {
                name: entry.id.as_ref().to_owned(),
                description: entry.summary.clone(),
                parameters: Value::from(entry.arguments_schema.clone()),
            },
            lambda: None,
            effects,
            extension: Some(entry.plugin.as_ref().to_owned()),
        };
        let operations: Arc<dyn Operations> = catalog.clone();
        Some(Arc::new(OperationTool::new(operations, description)) as Arc<dyn HostTool>)
    };
    catalog.entries().into_iter().filter_map(tool).collect()
}
