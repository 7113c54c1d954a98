//! `opcell:javascript/handles`: closes files and directories of `opcell:plugin/files`. The engine of JavaScript plugins has
//! no way to drop a handle that it was given, and the open handles of a call are limited.

use super::{
    View,
    files::{OpenDirectory, OpenFile},
};
use crate::{bindings::opcell::plugin0_1_0::files as wit, state::CellState};
use wasmtime::component::{Linker, Resource};

/// The only version.
pub(crate) const SERVED: &str = "opcell:javascript/handles@0.1.0";

/// Links the interface; once per engine. Closing is what dropping a handle is in other languages: it costs no call.
pub(crate) fn link(linker: &mut Linker<CellState>) -> wasmtime::Result<()> {
    let mut instance = linker.instance(SERVED)?;
    instance.func_wrap_async("close-file", |mut store, (file,): (Resource<OpenFile>,)| {
        Box::new(async move { wit::HostFile::drop(&mut View(store.data_mut()), file).await })
    })?;
    instance.func_wrap_async("close-directory", |mut store, (directory,): (Resource<OpenDirectory>,)| {
        Box::new(async move { wit::HostDirectory::drop(&mut View(store.data_mut()), directory).await })
    })
}
