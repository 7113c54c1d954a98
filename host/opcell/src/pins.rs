//! The pins of a run, by digest: a run that was started with one plugin does not continue with another.

use crate::{catalog::Catalog, library::Library};
use indexmap::IndexMap;
use opcell_engine::ports::Workflows as _;
use opcell_ir::{
    WorkflowIr,
    ir::{DelegateTarget, Form, Judge, Session},
};
use std::{collections::HashSet, sync::Arc};

/// Digests by name.
pub(crate) type Pins = IndexMap<Arc<str>, Arc<str>>;

/// Every plugin that is loaded.
pub(crate) fn all(catalog: &Catalog) -> Pins {
    those(catalog, |_| true)
}

/// The plugins that a run may call: those that its workflows name, those whose operations its sessions have as tools,
/// and those that these plugins are granted to call. A workflow whose name is known only at run time may be any of the
/// library. A run that a model starts pins its own.
///
/// `inherited`: the settings of the run's caller, whose tools a session has that declares none.
pub(crate) fn of(catalog: &Catalog, library: &Library, ir: &Arc<WorkflowIr>, inherited: Option<&Session>) -> Pins {
    let (mut open, mut seen) = (vec![ir.clone()], HashSet::new());
    let mut named: HashSet<Arc<str>> = HashSet::new();
    let tools_of = |session: &Session| {
        let tools = session.tools.iter().flatten().filter_map(|name| catalog.resolve(name));
        tools.map(|(entry, _)| entry.plugin.clone()).collect::<Vec<_>>()
    };
    named.extend(inherited.into_iter().flat_map(tools_of));
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
                Some(Judge::Event { .. }) => called.extend(catalog.authorizer().map(AsRef::as_ref)),
                Some(Judge::Llm { session, .. }) => named.extend(tools_of(session)),
                _ => {}
            }
            match &step.form {
                Form::Invoke { invoke } => called.push(invoke.operation.as_ref()),
                Form::Session { session, .. } if session.tools.is_some() => {
                    called.extend(catalog.augmenters());
                    named.extend(tools_of(session));
                }
                Form::Session { session, .. } => {
                    called.extend(catalog.session_tools());
                    named.extend(undeclared(catalog, session.extensions.as_deref()));
                }
                Form::Delegate { delegate } => {
                    // Sessions of the callee that declare none have these.
                    named.extend(tools_of(&delegate.session));
                    open.extend(callees(library, &delegate.target));
                }
                _ => {}
            }
            let entries = called.into_iter().filter_map(|name| catalog.resolve(name));
            named.extend(entries.map(|(entry, _)| entry.plugin.clone()));
        }
    }
    reached(catalog, &mut named);
    those(catalog, |plugin| named.contains(plugin))
}

/// The plugins that pinned ones can call, and these themselves.
pub(crate) fn reached_from(catalog: &Catalog, pinned: &Pins) -> Pins {
    let mut named: HashSet<Arc<str>> = pinned.keys().filter_map(|name| plugin_of(name)).map(Into::into).collect();
    reached(catalog, &mut named);
    those(catalog, |plugin| named.contains(plugin))
}

fn callees(library: &Library, target: &DelegateTarget) -> Vec<Arc<WorkflowIr>> {
    match target {
        DelegateTarget::Name(name) => library.find(name).into_iter().collect(),
        DelegateTarget::Dynamic(_) => {
            let known = library.listed().into_iter().filter_map(|(_, workflow)| workflow.ok());
            known.map(|workflow| workflow.ir().clone()).collect()
        }
    }
}

/// The plugins whose operations a session has that declares no tools.
fn undeclared(catalog: &Catalog, extensions: Option<&[String]>) -> impl Iterator<Item = Arc<str>> {
    let offered = catalog.plugins().filter(move |plugin| {
        let is_extension = extensions.is_none_or(|allowed| allowed.iter().any(|name| name == plugin.name()));
        is_extension && !plugin.operations().is_empty() && !catalog.reaches(plugin.name())
    });
    offered.map(|plugin| plugin.name().into())
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

/// Returns the plugin of a pinned name.
pub(crate) fn plugin_of(pinned: &str) -> Option<&str> {
    pinned.strip_prefix("plugin ")
}

/// Returns the pinned name of a plugin.
pub(crate) fn name_of(plugin: &str) -> String {
    format!("plugin {plugin}")
}
