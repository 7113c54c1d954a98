//! Programs that a runtime has compiled: the engine of a language compiles a source text in one cell, and later cells with
//! the same text begin with the result.
//!
//! These bytes are a guest's word and mean nothing to the host: it never reads them, and gives them to cells alone that
//! would make them by themselves. The host and not the cell decides which they are: cells of the same component, for the
//! same tenant and user, with the same source text. A cell may leave bytes once, for its own text, and only before it has
//! called anything else of the host: nothing but the text and its input can have had a say in them. They cannot do more
//! than the program could, because a cell has the same grants, limits and checks whichever way its code came.
//!
//! Calls that are recorded or replayed, and cells that count fuel, compile for themselves: what they use up is compared.

use crate::{imports::View, plugin::Linked, state::CellState};
use opcell_types::{CallContext, Value};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};
use wasmtime::component::{Linker, WasmList};

/// The only version.
pub(crate) const SERVED: &str = "opcell:programs/kept@0.1.0";

/// The name of the argument that holds the source text of a program.
const SOURCE: &str = "source";

/// Longer texts would fill the memory that all of them have.
const MAX_SOURCE: usize = 64 << 10;

/// The most that one program takes.
const MAX_PROGRAM: usize = 256 << 10;

/// The most that the programs of one plugin take, and how many there are.
const MAX_BYTES: usize = 4 << 20;
const MAX_PROGRAMS: usize = 256;

/// The compiled programs of one plugin.
#[derive(Default)]
pub(crate) struct ProgramCache(Mutex<Cached>);

#[derive(Default)]
struct Cached {
    programs: HashMap<blake3::Hash, CachedProgram>,
    bytes: usize,
    /// Counts uses, for the order of the last ones.
    uses: u64,
}

struct CachedProgram {
    bytes: Arc<[u8]>,
    last_use: u64,
}

impl std::fmt::Debug for ProgramCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgramCache").finish_non_exhaustive()
    }
}

impl ProgramCache {
    fn find(&self, key: &blake3::Hash) -> Option<Arc<[u8]>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.uses += 1;
        let now = kept.uses;
        let program = kept.programs.get_mut(key)?;
        program.last_use = now;
        Some(Arc::clone(&program.bytes))
    }

    /// Keeps a program unless there is one, in place of those that were not used for longest.
    fn keep(&self, key: blake3::Hash, bytes: Arc<[u8]>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes.len() > MAX_PROGRAM || kept.programs.contains_key(&key) {
            return;
        }
        while kept.programs.len() >= MAX_PROGRAMS || kept.bytes + bytes.len() > MAX_BYTES {
            let oldest = kept.programs.iter().min_by_key(|(_, program)| program.last_use).map(|(key, _)| *key);
            let Some(oldest) = oldest.and_then(|oldest| kept.programs.remove(&oldest)) else { return };
            kept.bytes -= oldest.bytes.len();
        }
        kept.uses += 1;
        kept.bytes += bytes.len();
        let last_use = kept.uses;
        kept.programs.insert(key, CachedProgram { bytes, last_use });
    }
}

/// The program of one cell, as far as it may be kept.
pub(crate) struct CellProgram {
    key: blake3::Hash,
    asked: Asked,
}

/// The progress of a cell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    NotYet,
    /// There was none.
    InVain,
    Over,
}

impl CellProgram {
    /// The program that a call runs: `None` where its plugin keeps none, or it is not worth it.
    pub(crate) fn of(linked: &Linked, arguments: Option<&Value>, context: &CallContext) -> Option<Self> {
        linked.programs.as_ref()?;
        let Some(Value::String(source)) = arguments?.get(SOURCE) else { return None };
        let source = source.as_str();
        if source.len() > MAX_SOURCE {
            return None;
        }
        let mut hasher = blake3::Hasher::new_derive_key("opcell 2026 kept program");
        hasher.update(&linked.scope.to_le_bytes());
        for name in [&context.tenant, &context.user] {
            let name = name.as_deref();
            hasher.update(&[u8::from(name.is_some())]);
            hasher.update(&(name.map_or(0, str::len) as u64).to_le_bytes()).update(name.unwrap_or_default().as_bytes());
        }
        hasher.update(source.as_bytes());
        Some(Self { key: hasher.finalize(), asked: Asked::NotYet })
    }
}

/// Links the interface; once per engine. It costs no call: a program has the same budget whichever way its code came.
pub(crate) fn link(linker: &mut Linker<CellState>) -> wasmtime::Result<()> {
    let mut instance = linker.instance(SERVED)?;
    instance.func_wrap("find", |mut store, (): ()| Ok((View(store.data_mut()).find_program(),)))?;
    instance.func_wrap("keep", |mut store, (bytes,): (WasmList<u8>,)| {
        let bytes = match bytes.len() {
            0 => None,
            length if length > MAX_PROGRAM => None,
            _ => Some(Arc::from(bytes.as_le_slice(&store))),
        };
        View(store.data_mut()).keep_program(bytes);
        Ok(())
    })
}

impl View<'_> {
    /// The program; an empty list where there is none and one would be kept, and nothing where none would.
    fn find_program(&mut self) -> Option<Arc<[u8]>> {
        let programs = self.0.linked.programs.as_ref()?;
        let program = self.0.program.as_mut().filter(|program| program.asked == Asked::NotYet)?;
        let found = programs.find(&program.key);
        program.asked = if found.is_some() { Asked::Over } else { Asked::InVain };
        Some(found.unwrap_or_default())
    }

    fn keep_program(&mut self, bytes: Option<Arc<[u8]>>) {
        let Some(program) = self.0.program.as_mut().filter(|program| program.asked == Asked::InVain) else { return };
        program.asked = Asked::Over;
        if self.0.budget.calls.total() == 0
            && let (Some(programs), Some(bytes)) = (&self.0.linked.programs, bytes)
        {
            programs.keep(program.key, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> blake3::Hash {
        blake3::hash(text.as_bytes())
    }

    #[test]
    fn the_first_bytes_of_a_text_stay() {
        let programs = ProgramCache::default();
        programs.keep(key("a"), Arc::from(*b"first"));
        programs.keep(key("a"), Arc::from(*b"second"));
        assert_eq!(programs.find(&key("a")).as_deref(), Some(&b"first"[..]));
        assert_eq!(programs.find(&key("b")), None);
    }

    #[test]
    fn programs_are_bounded_in_size_number_and_bytes() {
        let programs = ProgramCache::default();
        programs.keep(key("large"), vec![0; MAX_PROGRAM + 1].into());
        assert_eq!(programs.find(&key("large")), None);
        let sizes = |programs: &ProgramCache| {
            let kept = programs.0.lock().unwrap();
            let bytes: usize = kept.programs.values().map(|program| program.bytes.len()).sum();
            assert_eq!(bytes, kept.bytes);
            (kept.programs.len(), bytes)
        };
        for number in 0..MAX_PROGRAMS + 10 {
            programs.keep(key(&number.to_string()), vec![0; 10].into());
            // The first is used all the time.
            assert!(programs.find(&key("0")).is_some(), "{number}");
        }
        assert_eq!(sizes(&programs), (MAX_PROGRAMS, 10 * MAX_PROGRAMS));
        assert!(programs.find(&key("1")).is_none());
        for number in 0..20 {
            programs.keep(key(&format!("large {number}")), vec![0; MAX_PROGRAM].into());
        }
        let (count, bytes) = sizes(&programs);
        assert!(bytes <= MAX_BYTES && count >= MAX_BYTES / MAX_PROGRAM, "{count} programs of {bytes} bytes");
    }
}
