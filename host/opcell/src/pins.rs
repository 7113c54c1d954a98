//! The pins of a run, by digest: a run that was started with one plugin does not continue with another.

use crate::{catalog::Catalog, library::Library};
use indexmap::IndexMap;
use opcell_engine::ports::Workflows as _;
use opcell_ir::{
    WorkflowIr,
    ir::{DelegateTarget, Form, Judge},
};
use std::{collections::HashSet, sync::Arc};

/// Digests by name.
pub(crate) type Pins = IndexMap<Arc<str>, Arc<str>>;

/// Every plugin that is here.
pub(crate) fn all(catalog: &Catalog) -> Pins {
    those(catalog, |_| true)
}

/// The plugins that a run may call: those that its workflows name, those whose operations its sessions declare as
/// tools, and those that these plugins are granted to call. Every plugin, if a session may use all tools or a name is
/// known only at run time. A run that a model starts pins its own.
pub(crate) fn of(catalog: &Catalog, library: &Library, ir: &Arc<WorkflowIr>) -> Pins {
    let (mut open, mut seen) = (vec![ir.clone()], HashSet::new());
    let mut named: HashSet<Arc<str>> = HashSet::new();
    while let Some(ir) = open.pop() {
        if !seen.insert(ir.name.clone()) {
            continue;
        }
        open.extend(ir.workflows.iter().cloned());
        for step in &ir.steps {
            let mut called: Vec<&str> = Vec::new();
            match &step.judge {
                Some(Judge::Invoke { invoke }) => called.push(invoke.operation.as_ref()),
                // A judge has nothing to call but what it declares itself.
                Some(Judge::Llm { session, .. }) => called.extend(session.tools.iter().flatten().map(String::as_str)),
                _ => {}
            }
            match &step.form {
                Form::Invoke { invoke } => called.push(invoke.operation.as_ref()),
                Form::Session { session, .. } => match &session.tools {
                    Some(tools) => called.extend(tools.iter().map(String::as_str)),
                    None => return all(catalog),
                },
                Form::Delegate { delegate } => match &delegate.target {
                    DelegateTarget::Name(name) => open.extend(library.find(name)),
                    DelegateTarget::Dynamic(_) => return all(catalog),
                },
                _ => {}
            }
            let entries = called.into_iter().filter_map(|name| catalog.resolve(name));
            named.extend(entries.map(|(entry, _)| entry.plugin.clone()));
        }
    }
    reached(catalog, &mut named);
    those(catalog, |plugin| named.contains(plugin))
}

/// Adds the plugins whose operations the named ones are granted, directly or through another plugin.
fn reached(catalog: &Catalog, named: &mut HashSet<Arc<str>>) {
    let mut open: Vec<Arc<str>> = named.iter().cloned().collect();
    while let Some(plugin) = open.pop() {
        let Some(loaded) = catalog.loaded(&plugin) else { continue };
        for tool in &loaded.plugin.grants().tools {
            if let Some((entry, _)) = catalog.resolve(tool)
                && named.insert(entry.plugin.clone())
            {
                open.push(entry.plugin.clone());
            }
        }
    }
}

fn those(catalog: &Catalog, wanted: impl Fn(&str) -> bool) -> Pins {
    let plugins = catalog.plugins().filter(|plugin| wanted(plugin.name()));
    plugins.map(|plugin| (name_of(plugin.name()).into(), plugin.digest().shared().clone())).collect()
}

/// Returns the pinned name of a plugin.
pub(crate) fn name_of(plugin: &str) -> String {
    format!("plugin {plugin}")
}
