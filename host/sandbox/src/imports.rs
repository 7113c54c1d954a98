//! The host's side of `opcell:plugin`: one file per interface, each a view over the cell's state.
//!
//! Every function charges the budget before it does anything else.

pub(crate) mod calls;
pub(crate) mod config;
pub(crate) mod files;
pub(crate) mod handles;
pub(crate) mod http;
pub(crate) mod keyvalue;
mod log;
mod skills;
mod store;
mod tools;

use crate::{
    bindings::{
        Plugin,
        opcell::plugin0_1_0::types::{self, Failure as GuestFailure},
    },
    programs,
    state::CellState,
};
use opcell_types::{Denial, Failure, Source, Value, text::printable};
use wasmtime::component::{HasData, Linker};

pub(crate) use log::append_line;

/// The cell's state as an import sees it.
pub(crate) struct View<'a>(pub(crate) &'a mut CellState);

impl HasData for View<'static> {
    type Data<'a> = View<'a>;
}

impl types::Host for View<'_> {}

/// Links all of `opcell:plugin`, and what of WASI is ours; once per engine.
pub(crate) fn link(linker: &mut Linker<CellState>) -> wasmtime::Result<()> {
    Plugin::add_to_linker::<CellState, View<'static>>(linker, |state| View(state))?;
    config::link(linker)?;
    handles::link(linker)?;
    programs::link(linker)?;
    keyvalue::link(linker)
}

impl From<Denial> for types::Denial {
    fn from(denial: Denial) -> Self {
        Self { capability: denial.capability, rule: denial.rule, remedy: denial.remedy.to_string() }
    }
}

/// A failure of the host's services, as the guest gets it.
fn failure_to_guest(failure: Failure) -> GuestFailure {
    GuestFailure {
        reason: failure.reason.as_ref().to_owned(),
        message: failure.message,
        details: failure.details.map(|value| value.to_json()),
    }
}

/// A failure that the guest reports: cut, made printable, details that are not JSON kept as text.
pub(crate) fn failure_from_guest(failure: GuestFailure, limit: u64) -> Failure {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let details = failure.details.filter(|text| text.len() <= limit);
    let reported = Failure::new(Source::Plugin, printable(&failure.reason, 128), printable(&failure.message, limit));
    Failure { details: details.map(|text| Value::from_json(&text).unwrap_or_else(|_| Value::from(text))), ..reported }
}
