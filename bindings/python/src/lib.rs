//! The native module of the Python package `opcell`, which is `opcell._native` there.
//!
//! The package's public classes are Python (`../opcell`): names, type hints, exceptions, the schemas of tools. This
//! crate has what they stand on: one runtime for the process ([`runtime`]), operations that are waited for by a thread
//! or by an event loop ([`pending`]), values ([`value`]), errors as data ([`error`]), the host and its calls
//! ([`host`]), runs ([`run`]), and tools and models that are Python functions ([`tool`], [`model`]).
//!
//! **Must not know** how a call is performed or what a step means: it translates, and `opcell` does the rest.
//!
//! Every failure reaches Python as an exception or as data. No Python code runs on a thread of the runtime: the result
//! of an operation is translated on the thread that waits for it, or on the one thread that reports to event loops, and
//! a function that is a tool is called on a thread of Python's own.

mod error;
mod host;
mod model;
mod pending;
mod run;
mod runtime;
mod tool;
mod value;

use pyo3::prelude::*;

/// The native part of the package `opcell`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    opcell::layers::workers::install();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<host::NativeHost>()?;
    module.add_class::<host::NativeReply>()?;
    module.add_class::<model::Round>()?;
    module.add_class::<pending::Pending>()?;
    module.add_class::<run::NativeRun>()?;
    module.add_class::<run::NativeUpdates>()?;
    module.add_class::<run::NativeWorkflow>()?;
    module.add_class::<tool::ToolCall>()?;
    module.add_function(wrap_pyfunction!(host::open_host, module)?)?;
    module.add_function(wrap_pyfunction!(host::requests, module)?)?;
    module.add_function(wrap_pyfunction!(run::compile_workflow, module)?)?;
    module.add_function(wrap_pyfunction!(run::load_workflow, module)?)?;
    module.add_function(wrap_pyfunction!(runtime::shut_down, module)?)?;
    Ok(())
}
