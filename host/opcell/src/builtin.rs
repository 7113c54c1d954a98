//! Plugins that are part of the library: no file and no registry has them, and the lock does not hold their digest,
//! since they change with the program that brings them.

/// The name of the plugin whose operation `code/run` runs programs in JavaScript.
pub const CODE: &str = "code";

/// The name of the plugin whose operation `python/run` runs programs in Python. It is not part of the library, because
/// CPython has some 20 MB: a user installs it once, see [`crate::places::Places::python_runtime`].
pub const PYTHON: &str = "python";

/// The source of a plugin that is part of the library, before its name: `builtin:code`.
pub(crate) const SCHEME: &str = "builtin:";

/// The names, each with its component.
const ALL: [(&str, &[u8]); 1] = [(CODE, include_bytes!("../builtin/code.wasm"))];

/// The component of a plugin that is part of the library.
pub(crate) fn component(name: &str) -> Option<&'static [u8]> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, component)| *component)
}

/// The names of all of them.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}
