//! Components that were not written for `opcell:plugin`: each function that one exports is an operation, described by
//! its types.
//!
//! Nothing of the component runs to describe it. Calls run in cells like all others: the same limits, grants and
//! receipts.

mod json;
mod schema;

use crate::{
    bindings::{exports::opcell::plugin0_1_0::operations, opcell::plugin0_1_0::types::Failure},
    cell::Export,
    error::LoadError,
    exports::{Ask, Operations},
    plugin::Linked,
    state::CellState,
};
use opcell_types::Effects;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};
use wasmtime::{
    Engine, Store,
    component::{
        Component, ComponentExportIndex, Instance, Type, Val,
        types::{ComponentFunc, ComponentItem},
    },
};

/// How a component's exports become operations and judges.
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
pub(crate) struct Typed {
    functions: HashMap<Arc<str>, Arc<Function>>,
}

/// One exported function.
struct Function {
    index: ComponentExportIndex,
    parameters: Vec<(String, Type)>,
    result: Option<Type>,
}

/// A function while ids are given out.
struct Found {
    /// Such as `acme:math/adder@1.0.0`; nothing for a function of the world itself.
    interface: Option<String>,
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
    ) -> Result<(Self, Vec<operations::OperationDescription>), LoadError> {
        let found = functions(component, engine);
        let mut typed = Self { functions: HashMap::new() };
        let (mut described, mut refused) = (Vec::new(), Vec::new());
        for function in &found {
            let id: Arc<str> = id(function, &found, plugin).into();
            let shown = opcell_types::text::one_line(
                &format!("{}/{}", function.interface.as_deref().unwrap_or(plugin), function.name),
                200,
            );
            let schemas = match schema::of_function(&function.of_type) {
                Ok(_) if id.parse::<opcell_types::OperationId>().is_err() => {
                    Err(format!("`{}` cannot be the id of an operation", opcell_types::text::one_line(&id, 100)))
                }
                schemas => schemas,
            };
            match schemas {
                Ok((arguments, data)) => {
                    let once = operations::Effects::Once;
                    described.push(operations::OperationDescription {
                        id: id.to_string(),
                        summary: format!("The exported function `{shown}`."),
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
                    typed.functions.insert(id, Arc::new(Function { index: function.index, parameters, result }));
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
        for function in refused {
            tracing::warn!(plugin, "a function is not offered as an operation: {function}");
        }
        Ok((typed, described))
    }
}

/// Exported functions in the order of the component, those of exported interfaces included.
fn functions(component: &Component, engine: &Engine) -> Vec<Found> {
    let mut found = Vec::new();
    for (name, item) in component.component_type().exports(engine) {
        match item.ty {
            ComponentItem::ComponentFunc(of_type) => {
                let Some(index) = component.get_export_index(None, name) else { continue };
                found.push(Found { interface: None, name: name.to_owned(), index, of_type });
            }
            ComponentItem::ComponentInstance(instance) => {
                let Some(parent) = component.get_export_index(None, name) else { continue };
                for (function, item) in instance.exports(engine) {
                    let ComponentItem::ComponentFunc(of_type) = item.ty else { continue };
                    let Some(index) = component.get_export_index(Some(&parent), function) else { continue };
                    found.push(Found { interface: Some(name.to_owned()), name: function.to_owned(), index, of_type });
                }
            }
            _ => {}
        }
    }
    found
}

/// `interface/function`, or `plugin/function` for a function of the world itself. The package comes first where two
/// interfaces have one name.
fn id(function: &Found, all: &[Found], plugin: &str) -> String {
    let Some(interface) = &function.interface else {
        return format!("{plugin}/{}", function.name.to_ascii_lowercase());
    };
    let (package, short) = parts(interface);
    let same = |other: &Found| {
        other.interface.as_ref().is_some_and(|other| other != interface && parts(other).1 == short)
            || short == plugin && other.interface.is_none()
    };
    let namespace =
        if all.iter().any(same) { format!("{}-{short}", package.replace(':', "-")) } else { short.to_owned() };
    format!("{namespace}/{}", function.name).to_ascii_lowercase()
}

/// `acme:math/adder@1.0.0` as `acme:math` and `adder`.
fn parts(interface: &str) -> (&str, &str) {
    let name = interface.split_once('@').map_or(interface, |(name, _)| name);
    name.split_once('/').unwrap_or(("", name))
}

/// A call of an operation, by whichever way the plugin offers it.
pub(crate) enum AskOperation {
    Contract(Ask<Operations>),
    Typed { id: Arc<str>, arguments: Arc<str> },
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
        store.data_mut().budget.give(arguments.len())?;
        let function = linked.typed.as_ref().and_then(|typed| typed.functions.get(&id));
        let function = Arc::clone(function.ok_or_else(|| wasmtime::Error::msg("the function is not exported"))?);
        let parameters = match json::arguments(&arguments, &function.parameters) {
            Ok(parameters) => parameters,
            Err(message) => {
                return Ok(Err(Failure { reason: "invalid-arguments".to_owned(), message, details: None }));
            }
        };
        drop(arguments);
        let callee = instance.get_func(&mut *store, function.index);
        let callee = callee.ok_or_else(|| wasmtime::Error::msg("the function is not exported"))?;
        let mut results = vec![Val::Bool(false); usize::from(function.result.is_some())];
        callee.call_async(&mut *store, &parameters, &mut results).await?;
        let reply = json::reply(results.pop());
        let bytes = match &reply {
            Ok(success) => success.data.len(),
            Err(failure) => failure.message.len() + failure.details.as_ref().map_or(0, String::len),
        };
        store.data_mut().budget.take(bytes)?;
        Ok(reply)
    }
}
