//! Rust types for `wit/`, generated; nothing outside this crate sees them.

#![allow(missing_docs, clippy::indexing_slicing, reason = "generated from wit/")]

wasmtime::component::bindgen!({
    path: "wit",
    world: "plugin",
    imports: { "opcell:plugin/log": trappable, default: async | trappable },
    exports: { default: async },
    // As recordings hold answers.
    additional_derives: [serde::Serialize, serde::Deserialize],
    with: {
        "opcell:plugin/files.directory": crate::imports::files::OpenDirectory,
        "opcell:plugin/files.file": crate::imports::files::OpenFile,
    },
});
