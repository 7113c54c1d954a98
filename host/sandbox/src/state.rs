//! The state of one cell while it lives: the data of its store.

use crate::{
    budget::Budget,
    descriptors::OpenFiles,
    grants::Narrowing,
    host::HostServices,
    imports::{calls::StartedCalls, http::Held},
    limits::Limits,
    memory::Memory,
    plugin::Linked,
    programs::CellProgram,
    receipt::{FileBytes, LogTail},
    recording::Running,
    store::Stores,
    wasi::ClosedWasi,
};
use opcell_types::{CallContext, Capability, Denial, TouchLog};
use std::sync::Arc;
use wasmtime::component::ResourceTable;

/// Refusals that a receipt lists; more are counted.
const LISTED_DENIALS: usize = 32;

/// The refusals that a cell has met.
#[derive(Debug, Default)]
pub(crate) struct Denials {
    pub(crate) listed: Vec<Denial>,
    pub(crate) more: u32,
    /// The newest refusal beyond those listed. A failure of the guest is blamed on the refusal that came last, so it is
    /// kept even where the receipt only counts it.
    unlisted: Option<Denial>,
}

impl Denials {
    /// Notes a refusal for the receipt and hands it on.
    pub(crate) fn note(&mut self, denial: Denial) -> Denial {
        if self.listed.len() < LISTED_DENIALS {
            self.listed.push(denial.clone());
        } else {
            self.more = self.more.saturating_add(1);
            self.unlisted = Some(denial.clone());
        }
        denial
    }

    /// The refusal that the cell met last.
    pub(crate) fn last(&self) -> Option<&Denial> {
        self.unlisted.as_ref().or(self.listed.last())
    }
}

/// The data of a cell's store.
pub(crate) struct CellState {
    pub(crate) memory: Memory,
    pub(crate) budget: Budget,
    /// Slices of the clock in which the guest was seen running.
    pub(crate) slices: u64,
    pub(crate) log: LogTail,
    pub(crate) log_bytes: u64,
    pub(crate) denials: Denials,
    pub(crate) panic: Option<String>,
    pub(crate) file_bytes: FileBytes,
    /// Made when something is touched: most cells touch nothing.
    pub(crate) touched: Option<TouchLog>,
    pub(crate) open_files: OpenFiles,
    pub(crate) resources: ResourceTable,
    pub(crate) limits: Arc<Limits>,
    /// Its plugin: one pointer, so that cells of one plugin count up and down as little as possible that they share.
    pub(crate) linked: Arc<Linked>,
    pub(crate) narrowing: Option<Narrowing>,
    pub(crate) context: Arc<CallContext>,
    /// The export that is called: an operation or judge, or `describe`.
    pub(crate) operation: Arc<str>,
    pub(crate) host: Arc<dyn HostServices>,
    /// Present only when host calls are recorded or replayed.
    pub(crate) tape: Option<Running>,
    /// Its stores; opened when one is first used.
    pub(crate) stores: Option<Box<dyn Stores>>,
    /// Present only when the component imports WASI.
    pub(crate) wasi: Option<Box<ClosedWasi>>,
    /// The memory that its HTTP requests and responses hold; made with the first of them.
    pub(crate) http: Option<Held>,
    /// The calls of tools that it has started; made with the first of them.
    pub(crate) calls: Option<Box<StartedCalls>>,
    /// The program that it runs, where that may be kept.
    pub(crate) program: Option<CellProgram>,
}

impl CellState {
    /// Returns the state of a cell that has not begun.
    pub(crate) fn new(
        linked: Arc<Linked>,
        limits: Arc<Limits>,
        operation: Arc<str>,
        context: Arc<CallContext>,
        host: Arc<dyn HostServices>,
    ) -> Self {
        let mut resources = ResourceTable::new();
        resources.set_max_capacity(usize::try_from(limits.handles).unwrap_or(usize::MAX));
        Self {
            memory: Memory::new(&limits),
            budget: Budget::new(&limits),
            slices: 0,
            log: LogTail::default(),
            log_bytes: 0,
            denials: Denials::default(),
            panic: None,
            file_bytes: FileBytes::default(),
            touched: None,
            open_files: OpenFiles::default(),
            resources,
            limits,
            linked,
            narrowing: None,
            context,
            operation,
            host,
            tape: None,
            stores: None,
            wasi: None,
            http: None,
            calls: None,
            program: None,
        }
    }

    /// Checks that this cell may use `name`; a refusal is noted.
    pub(crate) fn check(&mut self, kind: Capability, name: &str) -> Result<(), Denial> {
        self.linked.policy.allows(kind, name, self.narrowing.as_ref()).map_err(|denial| self.denials.note(denial))
    }

    /// Returns the log in which this cell notes what it touches.
    pub(crate) fn touched(&mut self) -> &TouchLog {
        self.touched.get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{Denials, LISTED_DENIALS};
    use opcell_types::{Denial, Remedy};

    #[test]
    fn the_last_refusal_is_known_beyond_those_that_a_receipt_lists() {
        let mut denials = Denials::default();
        assert_eq!(denials.last(), None);
        for number in 0..=LISTED_DENIALS {
            denials.note(Denial::of("tool", &number.to_string(), "it was not granted", Remedy::Nothing));
            assert_eq!(denials.last().map(|last| last.capability.clone()), Some(format!("tool {number}")));
        }
        assert_eq!((denials.listed.len(), denials.more), (LISTED_DENIALS, 1));
    }
}
