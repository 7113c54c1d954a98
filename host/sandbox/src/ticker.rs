//! The clock that interrupts guests: an operating system thread, because a busy runtime would starve a task.

use std::{io, thread, time::Duration};
use wasmtime::EngineWeak;

/// How long a busy guest keeps its thread before it lets others run, and how late it may notice its deadline.
pub(crate) const SLICE: Duration = Duration::from_millis(1);

/// Slices of one tick, the unit in which limits and receipts count.
pub(crate) const SLICES_PER_TICK: u64 = 10;

/// Starts the clock of `engines`. The thread ends by itself once the last of them is gone.
pub(crate) fn start(engines: Vec<EngineWeak>) -> io::Result<()> {
    thread::Builder::new().name("opcell-ticker".to_owned()).stack_size(64 << 10).spawn(move || {
        let mut alive = true;
        while alive {
            thread::sleep(SLICE);
            alive = false;
            for engine in engines.iter().filter_map(EngineWeak::upgrade) {
                engine.increment_epoch();
                alive = true;
            }
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmtime::{Config, Engine, Instance, Module, Store, Trap};

    #[test]
    fn a_busy_guest_is_interrupted_although_nothing_else_runs() {
        let engine = Engine::new(Config::new().epoch_interruption(true)).unwrap();
        start(vec![engine.weak()]).unwrap();
        let module =
            Module::new(&engine, wat::parse_str("(module (func (export \"run\") (loop br 0)))").unwrap()).unwrap();
        let mut store = Store::new(&engine, ());
        store.set_epoch_deadline(2);
        let instance = Instance::new(&mut store, &module, &[]).unwrap();
        let run = instance.get_typed_func::<(), ()>(&mut store, "run").unwrap();
        let error = run.call(&mut store, ()).unwrap_err();
        assert_eq!(error.downcast_ref::<Trap>(), Some(&Trap::Interrupt));
    }
}
