//! Nothing: the package pins sources.
