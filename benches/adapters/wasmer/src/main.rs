//! Adapter of `opcell selftest --against`: Wasmer, configured for code that no one trusts.
//!
//! ```sh
//! (cd benches/adapters/wasmer && cargo build --release)
//! opcell selftest --against benches/adapters/wasmer/target/release/wasmer-adapter
//! ```
//!
//! Singlepass compiles, in one pass over the code. The metering middleware counts operators, the start function's
//! included; tunables bound memories and tables, and a writer of ours the output. Points are not time, and neither a
//! host function nor a compilation takes any: a second thread ends the process when the deadline is long over.

use anyhow::{Context as _, Result, anyhow};
use std::{env, fs, process::exit, ptr::NonNull, sync::Arc, thread, time::Duration};
use wasmer::{
    Engine, Instance, MemoryError, MemoryStyle, MemoryType, Module, Pages, Store, TableStyle, TableType,
    sys::{BaseTunables, CompilerConfig as _, EngineBuilder, NativeEngineExt as _, Singlepass, Tunables, vm},
    wasmparser::Operator,
};
use wasmer_middlewares::{
    Metering,
    metering::{MeteringPoints, get_remaining_points},
};
use wasmer_wasix::{
    WasiEnv,
    virtual_fs::{DualWriteFile, NullFile, host_fs::FileSystem},
};

const STOPPED: i32 = 10;

/// About as many operators as such a machine executes in a millisecond: a host that meters chooses that number once.
const POINTS_PER_MS: u64 = 500_000;

/// The size that memories and tables may grow to, whatever the module says.
struct Bounded {
    base: BaseTunables,
    pages: Pages,
    elements: u32,
}

impl Bounded {
    fn memory(&self, asked: &MemoryType) -> MemoryType {
        let maximum = asked.maximum.map_or(self.pages, |most| most.min(self.pages));
        MemoryType { maximum: Some(maximum), ..*asked }
    }

    fn table(&self, asked: &TableType) -> TableType {
        let maximum = asked.maximum.map_or(self.elements, |most| most.min(self.elements));
        TableType { maximum: Some(maximum), ..*asked }
    }
}

impl Tunables for Bounded {
    fn memory_style(&self, memory: &MemoryType) -> MemoryStyle {
        self.base.memory_style(&self.memory(memory))
    }

    fn table_style(&self, table: &TableType) -> TableStyle {
        self.base.table_style(&self.table(table))
    }

    fn create_host_memory(&self, ty: &MemoryType, style: &MemoryStyle) -> Result<vm::VMMemory, MemoryError> {
        self.base.create_host_memory(&self.memory(ty), style)
    }

    unsafe fn create_vm_memory(
        &self,
        ty: &MemoryType,
        style: &MemoryStyle,
        at: NonNull<vm::VMMemoryDefinition>,
    ) -> Result<vm::VMMemory, MemoryError> {
        // SAFETY: the caller's.
        unsafe { self.base.create_vm_memory(&self.memory(ty), style, at) }
    }

    fn create_host_table(&self, ty: &TableType, style: &TableStyle) -> Result<vm::VMTable, String> {
        self.base.create_host_table(&self.table(ty), style)
    }

    unsafe fn create_vm_table(
        &self,
        ty: &TableType,
        style: &TableStyle,
        at: NonNull<vm::VMTableDefinition>,
    ) -> Result<vm::VMTable, String> {
        // SAFETY: the caller's.
        unsafe { self.base.create_vm_table(&self.table(ty), style, at) }
    }
}

fn main() {
    if let Err(error) = guest() {
        stop(&format!("{error:#}"));
    }
    // What else the process keeps running is not waited for.
    exit(0)
}

fn guest() -> Result<()> {
    let time = number("SELFTEST_TIME_MS")?;
    thread::spawn(move || {
        thread::sleep(2 * Duration::from_millis(time));
        stop("the process was ended: the guest was still in a host function, or being compiled")
    });
    let mut compiler = Singlepass::default();
    compiler.push_middleware(Arc::new(Metering::new(time * POINTS_PER_MS, |_: &Operator<'_>| 1)));
    let mut engine: Engine = EngineBuilder::new(compiler).engine().into();
    engine.set_tunables(Bounded {
        base: BaseTunables::new(),
        pages: Pages(u32::try_from(number("SELFTEST_MEMORY_BYTES")? >> 16)?),
        elements: u32::try_from(number("SELFTEST_TABLE_ELEMENTS")?)?,
    });
    let mut store = Store::new(engine.clone());
    let module = Module::new(&store, fs::read(variable("SELFTEST_MODULE")?)?)?;
    // WASI's part of Wasmer waits on a runtime.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let _entered = runtime.enter();
    let mut left = usize::try_from(number("SELFTEST_OUTPUT_BYTES")?)?;
    let output = DualWriteFile::new(Box::new(NullFile::default()), move |bytes| match left.checked_sub(bytes.len()) {
        Some(rest) => left = rest,
        None => stop("the guest had written more than it may"),
    });
    let mut builder = WasiEnv::builder("guest").engine(engine).stdout(Box::new(output));
    let directory = variable("SELFTEST_DIRECTORY")?;
    if !directory.is_empty() {
        // Nothing of the host's file system is there but this directory.
        builder =
            builder.fs(Arc::new(FileSystem::new(runtime.handle().clone(), directory)?) as Arc<_>).map_dir("/", "/")?;
    }
    let mut wasi = builder.finalize(&mut store)?;
    let imports = wasi.import_object_for_all_wasi_versions(&mut store, &module)?;
    let instance = Instance::new(&mut store, &module, &imports)?;
    if instance.exports.get_memory("memory").is_ok() {
        wasi.initialize(&mut store, instance.clone())?;
    }
    let run = instance.exports.get_typed_function::<(), ()>(&store, &variable("SELFTEST_FUNCTION")?)?;
    run.call(&mut store).map_err(|error| match get_remaining_points(&mut store, &instance) {
        MeteringPoints::Exhausted => anyhow!("the guest had used all its points"),
        MeteringPoints::Remaining(_) => error.into(),
    })
}

fn variable(name: &str) -> Result<String> {
    env::var(name).with_context(|| format!("{name} is not set"))
}

fn number(name: &str) -> Result<u64> {
    variable(name)?.parse().with_context(|| format!("{name} is not a number"))
}

fn stop(reason: &str) -> ! {
    eprintln!("{}", reason.lines().next().unwrap_or_default());
    exit(STOPPED)
}
