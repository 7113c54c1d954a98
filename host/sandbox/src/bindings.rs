//! Rust types for `wit/`, generated; nothing outside this crate sees them.
//!
//! The world is that of the newest version of the contract. It has the interfaces of older versions under their own
//! names, so that a plugin which was built against one of those finds them.

#![allow(missing_docs, clippy::indexing_slicing, reason = "generated from wit/")]

wasmtime::component::bindgen!({
    path: "wit",
    world: "plugin",
    imports: { "opcell:plugin/log@0.1.0": trappable, default: async | trappable },
    exports: { default: async },
    // As recordings hold answers.
    additional_derives: [serde::Serialize, serde::Deserialize],
    with: {
        "opcell:plugin/files@0.1.0.directory": crate::imports::files::OpenDirectory,
        "opcell:plugin/files@0.1.0.file": crate::imports::files::OpenFile,
    },
});
