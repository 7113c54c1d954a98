//! JSON Schemas of the files that authors write. A new plugin has them in `sdk/`, where its files name them for
//! editors.

/// Case files of `opcell plugin test`.
pub const CASE: &str = include_str!("../schemas/case.json");

/// `plugin.toml`.
pub const PLUGIN: &str = include_str!("../schemas/plugin.json");
