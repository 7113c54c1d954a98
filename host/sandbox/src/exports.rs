//! The exports of a plugin, and the way a cell calls them.
//!
//! Operations and judges are two interfaces of one shape: `describe` lists what there is, and one other function takes
//! the id of an entry, its arguments and a context, and answers or fails.

use crate::{
    bindings::{
        exports::opcell::plugin0_1_0::{judges, operations},
        opcell::plugin0_1_0::types::Failure,
    },
    cell::Export,
    error::LoadError,
    inspect::{EXPORTS, Surface},
    plugin::Linked,
    state::CellState,
};
use opcell_types::CallContext;
use std::{
    marker::PhantomData,
    sync::{Arc, OnceLock},
};
use wasmtime::{
    Store,
    component::{Component, ComponentExportIndex, ComponentType, Instance, Lift, Lower},
};

/// Operations or judges.
pub(crate) trait Interface: Send + 'static {
    /// Its name in `opcell:plugin`.
    const NAME: &'static str;
    /// Its function beside `describe`.
    const ASK: &'static str;
    /// One entry of what `describe` lists.
    type Description: Lift + Send + Sync + 'static;
    /// The result of the other function when it does not fail.
    type Answer: Lift + Send + Sync + 'static;

    /// Returns the plugin's export, if it has it.
    fn of(linked: &Linked) -> Option<&Exported>;

    /// Returns the size of an answer, for the limit of bytes over the boundary.
    fn bytes(answer: &Self::Answer) -> usize;
}

/// `opcell:plugin/operations`.
pub(crate) struct Operations;

impl Interface for Operations {
    const NAME: &'static str = "operations";
    const ASK: &'static str = "invoke";
    type Description = operations::OperationDescription;
    type Answer = operations::Success;

    fn of(linked: &Linked) -> Option<&Exported> {
        linked.operations.as_ref()
    }

    fn bytes(success: &operations::Success) -> usize {
        success.data.len() + length(&success.summary) + length(&success.details)
    }
}

/// `opcell:plugin/judges`.
pub(crate) struct Judges;

impl Interface for Judges {
    const NAME: &'static str = "judges";
    const ASK: &'static str = "judge";
    type Description = judges::JudgeDescription;
    type Answer = judges::Verdict;

    fn of(linked: &Linked) -> Option<&Exported> {
        linked.judges.as_ref()
    }

    fn bytes(verdict: &judges::Verdict) -> usize {
        let (judges::Outcome::Text(outcome) | judges::Outcome::Keyword(outcome)) = &verdict.outcome;
        outcome.len() + length(&verdict.rationale)
    }
}

fn length(text: &Option<String>) -> usize {
    text.as_ref().map_or(0, String::len)
}

/// The functions of one interface in a component, looked up once.
#[derive(Clone, Copy)]
pub(crate) struct Exported {
    describe: ComponentExportIndex,
    ask: ComponentExportIndex,
}

impl Exported {
    /// Looks `I` up; `None` when the component does not export it.
    pub(crate) fn find<I: Interface>(component: &Component, surface: &Surface) -> Result<Option<Self>, LoadError> {
        surface.exports_interface(I::NAME).then(|| Self::of::<I>(component)).transpose()
    }

    /// Looks `I` up in a component that exports it.
    pub(crate) fn of<I: Interface>(component: &Component) -> Result<Self, LoadError> {
        let interface = component.get_export_index(None, format!("opcell:plugin/{}@{EXPORTS}", I::NAME));
        let function = |name: &str| {
            component
                .get_export_index(interface.as_ref(), name)
                .ok_or_else(|| LoadError::Link { message: format!("the component does not export `{name}`") })
        };
        Ok(Self { describe: function("describe")?, ask: function(I::ASK)? })
    }
}

fn exported<I: Interface>(linked: &Linked) -> wasmtime::Result<&Exported> {
    I::of(linked).ok_or_else(|| wasmtime::Error::msg(format!("no {} are exported", I::NAME)))
}

/// `types.context`, of texts that the caller has: nothing is copied but into the guest.
#[derive(ComponentType, Lower)]
#[component(record)]
struct Context<'a> {
    run: &'a str,
    step: &'a str,
    visit: u32,
    attempt: u32,
    #[component(name = "idempotency-key")]
    idempotency_key: &'a str,
}

type Question<'a> = (&'a str, &'a str, Context<'a>);
type Reply<I> = Result<<I as Interface>::Answer, Failure>;

/// `describe`.
pub(crate) struct Describe<I>(PhantomData<fn() -> I>);

impl<I> Describe<I> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<I: Interface> Export for Describe<I> {
    type Output = Vec<I::Description>;

    async fn call(
        self,
        linked: &Linked,
        store: &mut Store<CellState>,
        instance: &Instance,
    ) -> wasmtime::Result<Self::Output> {
        let exported = exported::<I>(linked)?;
        // Both types are checked now, so that no plugin is loaded whose every call would fail.
        instance.get_typed_func::<Question<'_>, (Reply<I>,)>(&mut *store, &exported.ask)?;
        let describe = instance.get_typed_func::<(), (Self::Output,)>(&mut *store, &exported.describe)?;
        let (described,) = describe.call_async(store, ()).await?;
        Ok(described)
    }
}

/// The text of a call's arguments, which its check may write anew.
#[derive(Clone)]
pub(crate) struct Arguments {
    text: Arc<str>,
    written: Option<Arc<OnceLock<Arc<str>>>>,
}

impl Arguments {
    /// A text; `checked` if it is known to fit as it is.
    pub(crate) fn new(text: Arc<str>, checked: bool) -> Self {
        Self { text, written: (!checked).then(Arc::default) }
    }

    /// The text as the caller wrote it.
    pub(crate) fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Gives the plugin another text.
    pub(crate) fn write(&self, text: Arc<str>) {
        if let Some(written) = &self.written {
            // A call's arguments are checked once.
            let _ = written.set(text);
        }
    }

    /// The text that the plugin gets.
    pub(crate) fn get(&self) -> &Arc<str> {
        self.written.as_ref().and_then(|written| written.get()).unwrap_or(&self.text)
    }
}

/// `invoke` or `judge`.
pub(crate) struct Ask<I> {
    id: Arc<str>,
    arguments: Arguments,
    context: Arc<CallContext>,
    interface: PhantomData<fn() -> I>,
}

impl<I> Ask<I> {
    pub(crate) fn new(id: Arc<str>, arguments: Arguments, context: Arc<CallContext>) -> Self {
        Self { id, arguments, context, interface: PhantomData }
    }
}

impl<I: Interface> Export for Ask<I> {
    type Output = Reply<I>;

    async fn call(
        self,
        linked: &Linked,
        store: &mut Store<CellState>,
        instance: &Instance,
    ) -> wasmtime::Result<Self::Output> {
        let arguments = self.arguments.get();
        store.data_mut().budget.give(arguments.len())?;
        let ask = instance.get_typed_func::<Question<'_>, (Reply<I>,)>(&mut *store, &exported::<I>(linked)?.ask)?;
        let context = Context {
            run: &self.context.run,
            step: &self.context.step,
            visit: self.context.visit,
            attempt: self.context.attempt,
            idempotency_key: &self.context.idempotency_key,
        };
        let (reply,) = ask.call_async(&mut *store, (&self.id, arguments, context)).await?;
        let bytes = match &reply {
            Ok(answer) => I::bytes(answer),
            Err(failure) => failure.reason.len() + failure.message.len() + length(&failure.details),
        };
        store.data_mut().budget.take(bytes)?;
        Ok(reply)
    }
}
