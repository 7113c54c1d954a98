//! Components that were not written for `opcell:plugin`: each function that one exports is an operation, described by
//! its types.
//!
//! Nothing of the component runs to describe it. Calls run in cells like all others: the same limits, grants and
//! receipts.

mod docs;
mod json;
mod schema;

pub(crate) use docs::Docs;

use crate::{
    bindings::{exports::opcell::plugin0_1_0::operations, opcell::plugin0_1_0::types::Failure},
    cell::Export,
    describe::MAX_FUNCTIONS,
    error::LoadError,
    exports::{Arguments, Ask, Operations},
    plugin::Linked,
    state::CellState,
};
use opcell_types::Effects;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};
use wasmtime::{
    Engine, Store,
    component::{
        Component, ComponentExportIndex, Instance, Type, Val,
        types::{ComponentFunc, ComponentItem},
    },
};

/// The rule by which a component's exports become operations and judges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exports {
    /// It exports `opcell:plugin/operations`, `opcell:plugin/judges` or both.
    #[default]
    Contract,
    /// Each of its functions is an operation. What repeating a call does is `once` unless it is named here by its
    /// operation's id.
    Typed(BTreeMap<String, Effects>),
}

/// The functions of a component by the ids of their operations.
#[derive(Clone)]
pub(crate) struct Typed {
    functions: HashMap<Arc<str>, Arc<Function>>,
    /// Functions that are not operations, each with the reason.
    pub(crate) left_out: Vec<String>,
}

/// Arguments that fit the schema and cannot be values of the function's types: the fault of the caller, not of the
/// plugin.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UnfitArguments(String);

/// Bytes of a function's result that take more of the host's memory than its cell may have.
#[derive(Debug, thiserror::Error)]
#[error(
    "the bytes of the result take more than {limit} bytes of the host's memory, {EACH_BYTE} for each (limit `memory`)"
)]
pub(crate) struct LargeResult {
    limit: u64,
}

/// The host's memory for each byte of a `list<u8>` while it is read.
const EACH_BYTE: usize = size_of::<Val>();

/// One exported function.
struct Function {
    index: ComponentExportIndex,
    parameters: Vec<(String, Type)>,
    result: Option<Type>,
    /// Set if the result has a `list<u8>` and no other list.
    gives_bytes: bool,
}

/// A function while ids are given out.
struct Found {
    /// Such as `acme:math/adder@1.0.0`; nothing for a function of the world itself.
    interface: Option<Arc<str>>,
    name: String,
    index: ComponentExportIndex,
    of_type: ComponentFunc,
}

impl Typed {
    /// The functions that can be operations, and their descriptions. Those whose types JSON cannot hold are left out.
    ///
    /// # Errors
    /// [`LoadError::Typed`] when none is left, or when `effects` names an operation that there is not.
    pub(crate) fn find(
        component: &Component,
        engine: &Engine,
        plugin: &str,
        effects: &BTreeMap<String, Effects>,
        docs: &Docs,
    ) -> Result<(Self, Vec<operations::OperationDescription>), LoadError> {
        let found = functions(component, engine)?;
        let mut typed = Self { functions: HashMap::new(), left_out: Vec::new() };
        let (mut described, mut refused) = (Vec::new(), Vec::new());
        let ids = Ids::of(&found, plugin);
        for function in &found {
            let id: Arc<str> = ids.of_function(function).into();
            let shown = opcell_types::text::one_line(
                &format!("{}/{}", function.interface.as_deref().unwrap_or(plugin), function.name),
                200,
            );
            let schemas = match schema::of_function(&function.of_type) {
                Ok(_) if id.parse::<opcell_types::OperationId>().is_err() => {
                    Err(format!("`{}` cannot be the id of an operation", opcell_types::text::one_line(&id, 100)))
                }
                Ok(_) if typed.functions.contains_key(&id) => {
                    Err(format!("another function is offered as `{}` already", opcell_types::text::one_line(&id, 100)))
                }
                schemas => schemas,
            };
            match schemas {
                Ok((arguments, data)) => {
                    let once = operations::Effects::Once;
                    let interface = function.interface.as_deref().map(|interface| parts(interface).1);
                    let summary = docs.of_function(interface, &function.name);
                    let summary = summary.map_or_else(|| format!("The exported function `{shown}`."), str::to_owned);
                    described.push(operations::OperationDescription {
                        id: id.to_string(),
                        summary,
                        arguments_schema: arguments.to_string(),
                        data_schema: data.to_string(),
                        effects: effects.get(&*id).map_or(once, |effects| match effects {
                            Effects::Pure => operations::Effects::Pure,
                            Effects::Idempotent => operations::Effects::Idempotent,
                            Effects::Once => operations::Effects::Once,
                        }),
                    });
                    let parameters = function.of_type.params().map(|(name, of)| (name.to_owned(), of)).collect();
                    let result = function.of_type.results().next();
                    let gives_bytes = result.as_ref().is_some_and(schema::is_of_bytes);
                    let function = Function { index: function.index, parameters, result, gives_bytes };
                    typed.functions.insert(id, Arc::new(function));
                }
                Err(why) => refused.push(format!("`{shown}`: {why}")),
            }
        }
        if let Some(unknown) = effects.keys().find(|id| !typed.functions.contains_key(id.as_str())) {
            let known: Vec<&str> = described.iter().map(|operation| operation.id.as_str()).collect();
            let unknown = opcell_types::text::one_line(unknown, 100);
            return Err(LoadError::Typed {
                problems: vec![format!("`effects` names `{unknown}`; its operations are: {}", known.join(", "))],
            });
        }
        if described.is_empty() {
            if refused.is_empty() {
                refused.push("it exports no function".to_owned());
            }
            return Err(LoadError::Typed { problems: refused });
        }
        for function in &refused {
            tracing::debug!(plugin, "a function is not offered as an operation: {function}");
        }
        typed.left_out = refused;
        Ok((typed, described))
    }
}

/// Exported functions in the order of the component, those of exported interfaces included.
///
/// # Errors
/// When there are too many: each becomes an operation with its schemas.
fn functions(component: &Component, engine: &Engine) -> Result<Vec<Found>, LoadError> {
    let mut found = Vec::new();
    let mut push = |function: Found| {
        if found.len() >= MAX_FUNCTIONS {
            let problem = format!(
                "it exports more than {MAX_FUNCTIONS} functions; split it into several components, each with the interfaces that belong together"
            );
            return Err(LoadError::Typed { problems: vec![problem] });
        }
        found.push(function);
        Ok(())
    };
    for (name, item) in component.component_type().exports(engine) {
        match item.ty {
            ComponentItem::ComponentFunc(of_type) => {
                let Some(index) = component.get_export_index(None, name) else { continue };
                push(Found { interface: None, name: name.to_owned(), index, of_type })?;
            }
            ComponentItem::ComponentInstance(instance) => {
                let Some(parent) = component.get_export_index(None, name) else { continue };
                let interface: Arc<str> = name.into();
                for (function, item) in instance.exports(engine) {
                    let ComponentItem::ComponentFunc(of_type) = item.ty else { continue };
                    let Some(index) = component.get_export_index(Some(&parent), function) else { continue };
                    let (interface, name) = (Some(Arc::clone(&interface)), function.to_owned());
                    push(Found { interface, name, index, of_type })?;
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

/// The namespaces of operations: of each function's interface, or the plugin for functions of the world itself.
struct Ids<'a> {
    plugin: &'a str,
    /// By the full name of the interface.
    namespaces: HashMap<&'a str, String>,
}

impl<'a> Ids<'a> {
    /// The short name of an interface. Where two have one short name, the package comes first; where two versions of
    /// one interface are exported, each has its version as well.
    fn of(functions: &'a [Found], plugin: &'a str) -> Self {
        let mut short: HashMap<&str, HashSet<&str>> = HashMap::new();
        let mut versions: HashMap<(&str, &str), HashSet<&str>> = HashMap::new();
        for interface in functions.iter().map(|function| function.interface.as_deref()) {
            match interface {
                None => drop(short.entry(plugin).or_default().insert("")),
                Some(interface) => {
                    let (package, name, _) = parts(interface);
                    short.entry(name).or_default().insert(package);
                    versions.entry((package, name)).or_default().insert(interface);
                }
            }
        }
        let is_one = |count: Option<usize>| count.is_none_or(|count| count == 1);
        let namespace = |interface: &'a str| {
            let (package, name, version) = parts(interface);
            let mut namespace = match is_one(short.get(name).map(HashSet::len)) {
                true => name.to_owned(),
                false => format!("{}-{name}", package.replace([':', '/'], "-")),
            };
            if !is_one(versions.get(&(package, name)).map(HashSet::len)) {
                let version = version.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
                namespace = format!("{namespace}-{}", if version.is_empty() { "0" } else { &version });
            }
            (interface, namespace)
        };
        let interfaces = functions.iter().filter_map(|function| function.interface.as_deref());
        let distinct: HashSet<&str> = interfaces.collect();
        Self { plugin, namespaces: distinct.into_iter().map(namespace).collect() }
    }

    fn of_function(&self, function: &Found) -> String {
        let namespace = function.interface.as_deref().and_then(|interface| self.namespaces.get(interface));
        format!("{}/{}", namespace.map_or(self.plugin, String::as_str), function.name).to_ascii_lowercase()
    }
}

/// `acme:math/adder@1.0.0` as `acme:math`, `adder` and `1.0.0`.
fn parts(interface: &str) -> (&str, &str, &str) {
    let (name, version) = interface.split_once('@').unwrap_or((interface, ""));
    let (package, name) = name.rsplit_once('/').unwrap_or(("", name));
    (package, name, version)
}

/// Returns `true` if a result took more of the host's memory than the engine was told to allow. It has no type for
/// this; its words are checked by tests.
pub(crate) fn is_too_large(error: &wasmtime::Error) -> bool {
    error.chain().any(|cause| cause.to_string().contains("fuel allocated for hostcalls has been exhausted"))
}

/// A call of an operation, by whichever way the plugin offers it.
pub(crate) enum AskOperation {
    Contract(Ask<Operations>),
    Typed { id: Arc<str>, arguments: Arguments },
}

impl Export for AskOperation {
    type Output = Result<operations::Success, Failure>;

    async fn call(
        self,
        linked: &Linked,
        store: &mut Store<CellState>,
        instance: &Instance,
    ) -> wasmtime::Result<Self::Output> {
        let (id, arguments) = match self {
            Self::Contract(ask) => return ask.call(linked, store, instance).await,
            Self::Typed { id, arguments } => (id, arguments),
        };
        store.data_mut().budget.give(arguments.get().len())?;
        let function = linked.typed.as_ref().and_then(|typed| typed.functions.get(&id));
        let function = Arc::clone(function.ok_or_else(|| wasmtime::Error::msg("the function is not exported"))?);
        let parameters = json::arguments(arguments.get(), &function.parameters)
            .map_err(|message| wasmtime::Error::from(UnfitArguments(message)))?;
        drop(arguments);
        let callee = instance.get_func(&mut *store, function.index);
        let callee = callee.ok_or_else(|| wasmtime::Error::msg("the function is not exported"))?;
        let mut results = vec![Val::Bool(false); usize::from(function.result.is_some())];
        let limit = store.data().limits.memory;
        if function.gives_bytes {
            // The engine counts the memory that a result takes, which for bytes is much more than what crosses the
            // boundary. Their text is charged below.
            store.set_hostcall_fuel(usize::try_from(limit).unwrap_or(usize::MAX));
        }
        let called = callee.call_async(&mut *store, &parameters, &mut results).await;
        called.map_err(|error| match function.gives_bytes && is_too_large(&error) {
            true => LargeResult { limit }.into(),
            false => error,
        })?;
        let reply = json::reply(results.pop());
        let bytes = match &reply {
            Ok(success) => success.data.len(),
            Err(failure) => failure.message.len() + failure.details.as_ref().map_or(0, String::len),
        };
        store.data_mut().budget.take(bytes)?;
        Ok(reply)
    }
}
