//! Adapter of `opcell selftest --against`: wasmi, configured for code that no one trusts.
//!
//! ```sh
//! (cd benches/adapters/wasmi && cargo build --release)
//! opcell selftest --against benches/adapters/wasmi/target/release/wasmi-adapter
//! ```
//!
//! The guest gets fuel by the slice, with a look at the clock between two of them; the start function gets one slice. A
//! store limiter bounds memories and tables, wasmi's own limit the stack, and a writer of ours the output. A wait
//! inside of a host function takes no fuel, so a second thread ends the process when the deadline is long over.

use anyhow::{Context as _, Result};
use std::{
    env, fs,
    io::{self, Write},
    process::exit,
    thread,
    time::{Duration, Instant},
};
use wasmi::{Config, Engine, Linker, Module, Store, StoreLimits, StoreLimitsBuilder, TypedResumableCall};
use wasmi_wasi::{WasiCtx, WasiCtxBuilder, ambient_authority, wasi_common::pipe::WritePipe};

const STOPPED: i32 = 10;

/// Some tenths of a second.
const SLICE: u64 = 50_000_000;

struct Guest {
    wasi: WasiCtx,
    limits: StoreLimits,
}

/// Keeps nothing, and ends the guest that writes more than it may.
struct Output {
    left: usize,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.left.checked_sub(bytes.len()) {
            Some(left) => self.left = left,
            None => stop("the guest had written more than it may"),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn main() {
    if let Err(error) = guest() {
        stop(&format!("{error:#}"));
    }
}

fn guest() -> Result<()> {
    let time = Duration::from_millis(number("SELFTEST_TIME_MS")? as u64);
    let deadline = Instant::now() + time;
    thread::spawn(move || {
        thread::sleep(2 * time);
        stop("the process was ended: the guest was still in a host function")
    });
    let mut config = Config::default();
    config.consume_fuel(true);
    let engine = Engine::new(&config);
    let module = Module::new(&engine, fs::read(variable("SELFTEST_MODULE")?)?)?;
    let mut wasi = WasiCtxBuilder::new();
    wasi.stdout(Box::new(WritePipe::new(Output { left: number("SELFTEST_OUTPUT_BYTES")? })));
    let directory = variable("SELFTEST_DIRECTORY")?;
    if !directory.is_empty() {
        wasi.preopened_dir(wasmi_wasi::Dir::open_ambient_dir(directory, ambient_authority())?, "/")?;
    }
    let limits = StoreLimitsBuilder::new()
        .memory_size(number("SELFTEST_MEMORY_BYTES")?)
        .table_elements(number("SELFTEST_TABLE_ELEMENTS")?)
        .instances(10)
        .memories(10)
        .tables(10)
        .build();
    let mut store = Store::new(&engine, Guest { wasi: wasi.build(), limits });
    store.limiter(|guest| &mut guest.limits);
    let mut linker = Linker::new(&engine);
    wasmi_wasi::add_to_linker(&mut linker, |guest: &mut Guest| &mut guest.wasi)?;
    store.set_fuel(SLICE)?;
    let instance = linker.instantiate_and_start(&mut store, &module)?;
    let run = instance.get_typed_func::<(), ()>(&store, &variable("SELFTEST_FUNCTION")?)?;
    let mut call = run.call_resumable(&mut store, ())?;
    loop {
        call = match call {
            TypedResumableCall::Finished(()) => return Ok(()),
            TypedResumableCall::HostTrap(trap) => anyhow::bail!("{}", trap.host_error()),
            TypedResumableCall::OutOfFuel(_) if Instant::now() > deadline => stop("the guest was out of time"),
            TypedResumableCall::OutOfFuel(paused) => {
                store.set_fuel(SLICE)?;
                paused.resume(&mut store)?
            }
        };
    }
}

fn variable(name: &str) -> Result<String> {
    env::var(name).with_context(|| format!("{name} is not set"))
}

fn number(name: &str) -> Result<usize> {
    variable(name)?.parse().with_context(|| format!("{name} is not a number"))
}

fn stop(reason: &str) -> ! {
    eprintln!("{}", reason.lines().next().unwrap_or_default());
    exit(STOPPED)
}
