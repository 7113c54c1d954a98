//! Plugins from OCI registries: references, pulls and pushes, signatures.
