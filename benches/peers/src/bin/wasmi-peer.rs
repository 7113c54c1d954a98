//! wasmi: `wasmi-peer fresh MODULE` makes a store and an instance for each call of a module that was translated once,
//! `wasmi-peer reused MODULE` calls one instance again and again.
//!
//! Both count fuel and bound memory and tables. The module is `guest/`: it parses its arguments and writes them out
//! again, as the cell's echo does, and has the same small stack. Nothing is checked against a schema.

use anyhow::{Context as _, Result, bail};
use bench_peers::serve;
use wasmi::{Config, Engine, Linker, Memory, Module, Store, StoreLimits, StoreLimitsBuilder, TypedFunc};

/// The default memory of a cell.
const MEMORY: usize = 64 << 20;
const TABLE: usize = 20_000;
/// Far more than an echo takes.
const FUEL: u64 = 10_000_000_000;

struct Guest {
    store: Store<StoreLimits>,
    memory: Memory,
    make_room: TypedFunc<u32, u32>,
    echo: TypedFunc<(u32, u32), u64>,
}

impl Guest {
    fn new(engine: &Engine, module: &Module) -> Result<Self> {
        let limits = StoreLimitsBuilder::new().memory_size(MEMORY).table_elements(TABLE).build();
        let mut store = Store::new(engine, limits);
        store.limiter(|limits| limits);
        store.set_fuel(FUEL)?;
        let instance = Linker::new(engine).instantiate_and_start(&mut store, module)?;
        Ok(Self {
            memory: instance.get_memory(&store, "memory").context("no memory")?,
            make_room: instance.get_typed_func(&store, "make_room")?,
            echo: instance.get_typed_func(&store, "echo")?,
            store,
        })
    }

    fn call(&mut self, arguments: &str) -> Result<usize> {
        self.store.set_fuel(FUEL)?;
        let length = u32::try_from(arguments.len())?;
        let at = self.make_room.call(&mut self.store, length)?;
        self.memory.write(&mut self.store, at as usize, arguments.as_bytes())?;
        let answer = self.echo.call(&mut self.store, (at, length))?;
        let (at, length) = ((answer >> 32) as usize, (answer & 0xffff_ffff) as usize);
        let text = self.memory.data(&self.store).get(at..at + length).context("the answer is nowhere")?;
        Ok(text.to_vec().len())
    }
}

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let (how, module) = (words.next(), words.next().context("which module?")?);
    let mut config = Config::default();
    config.consume_fuel(true);
    let engine = Engine::new(&config);
    let module = Module::new(&engine, std::fs::read(module)?)?;
    match how.as_deref() {
        Some("fresh") => serve(
            "a store and an instance of wasmi per call: fuel, memory and tables limited",
            &["state", "host", "time", "memory", "system"],
            |arguments| Ok(move || Guest::new(&engine, &module)?.call(&arguments)),
        ),
        Some("reused") => serve(
            "one instance of wasmi for all calls, for reference: calls see each other's state",
            &["host", "time", "memory", "system"],
            |arguments| {
                let mut guest = Guest::new(&engine, &module)?;
                Ok(move || guest.call(&arguments))
            },
        ),
        _ => bail!("`fresh` or `reused`?"),
    }
}
