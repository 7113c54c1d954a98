//! `opcell-javascript-snapshot MODULE OUTPUT`: a module that has been started already.
//!
//! Cells begin with the memory of an engine that is ready, in place of making one each: most of what a short program
//! costs. What the engine would ask the host while it starts, the time, has no say in it.

use std::{env, error::Error, fs, future::Future as _, task};
use wasmtime::{Engine, Linker, Store};
use wasmtime_wizer::Wizer;

/// The function that starts the engine.
const START: &str = "opcell_start";

fn main() -> Result<(), Box<dyn Error>> {
    let [module, output] = env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "MODULE OUTPUT")?;
    let engine = Engine::default();
    let mut store = Store::new(&engine, ());
    let mut wizer = Wizer::new();
    wizer.init_func(START);
    let bytes = fs::read(module)?;
    let snapshot = std::pin::pin!(wizer.run(&mut store, &bytes, async |store, module| {
        let mut linker = Linker::new(store.engine());
        linker.define_unknown_imports_as_default_values(&mut *store, module)?;
        linker.instantiate_async(store, module).await
    }));
    // Nothing in it waits.
    let task::Poll::Ready(made) = snapshot.poll(&mut task::Context::from_waker(task::Waker::noop())) else {
        return Err("the module waits while it starts".into());
    };
    fs::write(output, made?)?;
    Ok(())
}
