//! Reading a component's surface without compiling or running it: imports, exports, contract version, manifest.

use crate::{
    error::LoadError,
    imports::{config, handles, http::TOOL, keyvalue},
    manifest::{self, Manifest, ManifestError, Request},
    programs,
    typed::Exports,
};
use std::{collections::BTreeMap, fmt};
use wasmparser::{Encoding, Parser, Payload};

/// The newest version of `opcell:plugin` that this host serves.
pub const SERVED: &str = "0.3.0";

/// Every version of `opcell:plugin` that this host serves, oldest first.
pub const SERVED_VERSIONS: [&str; 3] = ["0.1.0", "0.2.0", SERVED];

/// The version in which what a plugin exports last changed.
pub(crate) const EXPORTS: &str = "0.1.0";

/// The interfaces of `opcell:plugin` with the version in which each last changed.
const INTERFACES: [(&str, &str); 9] = [
    ("types", "0.1.0"),
    ("tools", "0.1.0"),
    ("skills", "0.1.0"),
    ("files", "0.1.0"),
    ("log", "0.1.0"),
    ("store", "0.2.0"),
    ("calls", "0.3.0"),
    ("operations", EXPORTS),
    ("judges", EXPORTS),
];

/// Deeper nesting than any toolchain makes.
const MAX_NESTING: usize = 16;

/// An import that no plugin gets, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedImport {
    /// As the component names it.
    pub name: String,
    /// The interface to use instead.
    pub instead: &'static str,
}

impl fmt::Display for RefusedImport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.name, self.instead)
    }
}

/// The surface of a component, found without running it.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Surface {
    /// Names of everything it imports.
    pub imports: Vec<String>,
    /// Names of everything it exports.
    pub exports: Vec<String>,
    /// The component's manifest; empty when it has none.
    pub manifest: Manifest,
    /// `true` if it imports any interface of WASI.
    pub wasi: bool,
    /// Bytes of the data segments of its modules: what each cell begins with in its memories.
    #[serde(skip)]
    pub image_bytes: u64,
}

/// Bytes of data from which on a component is an interpreter, or as large as one.
const INTERPRETER_IMAGE: u64 = 128 << 10;

impl Surface {
    /// Returns `true` for a component whose cells are faster in the pool of interpreters, which keeps more of each
    /// memory.
    pub(crate) fn is_interpreter(&self) -> bool {
        self.image_bytes >= INTERPRETER_IMAGE
    }

    /// Returns `true` if it imports anything of `wasi:http`.
    pub(crate) fn http(&self) -> bool {
        self.imports.iter().any(|name| name.starts_with("wasi:http/"))
    }

    /// Returns `true` if it keeps anything through `wasi:keyvalue`.
    pub(crate) fn keyvalue(&self) -> bool {
        self.imports.iter().any(|name| keyvalue::SERVED.contains(&name.as_str()))
    }

    /// The oldest version of the contract that has everything which it imports and exports; `None` when it has nothing
    /// of `opcell:plugin`.
    #[must_use]
    pub fn contract(&self) -> Option<&'static str> {
        let used = self.imports.iter().chain(&self.exports).filter_map(|name| {
            let interface = split(name).0.strip_prefix("opcell:plugin/")?;
            INTERFACES.iter().find(|(known, _)| *known == interface).map(|(_, version)| *version)
        });
        used.max()
    }

    /// Returns `true` if it was written for `opcell:plugin`: exports its operations or judges, of whatever version.
    fn is_of_contract(&self) -> bool {
        self.exports_interface("operations") || self.exports_interface("judges")
    }

    /// Returns `true` if it exports `opcell:plugin/<interface>` in the served version.
    pub(crate) fn exports_interface(&self, interface: &str) -> bool {
        self.exports.iter().any(|name| split(name).0 == format!("opcell:plugin/{interface}"))
    }
}

/// Reads the surface of a component.
///
/// # Errors
/// [`LoadError::NotAComponent`], [`LoadError::Manifest`], [`LoadError::World`], [`LoadError::Version`] or
/// [`LoadError::Imports`].
pub fn inspect(bytes: &[u8]) -> Result<Surface, LoadError> {
    // Of a component that exports something else, the world is wrong, whatever it imports.
    let surface = read(bytes)?;
    let surface = match surface.exports.is_empty() || surface.is_of_contract() {
        true => checked(bytes, |_| false)?,
        false => surface,
    };
    if !surface.is_of_contract() {
        let exports = if surface.exports.is_empty() {
            "nothing".to_owned()
        } else {
            format!("`{}`", surface.exports.join("`, `"))
        };
        return Err(LoadError::World { exports: opcell_types::text::printable(&exports, 1_000), served: SERVED });
    }
    Ok(surface)
}

/// Returns the rule by which a component's exports become operations, where nothing says it: by their types where it
/// exports functions or interfaces, and none of `opcell:plugin`.
#[must_use]
pub fn exports_of(bytes: &[u8]) -> Exports {
    match read(bytes) {
        Ok(surface) if !surface.exports.is_empty() && !surface.is_of_contract() => Exports::Typed(BTreeMap::new()),
        _ => Exports::Contract,
    }
}

/// Reads the surface of a component whose exported functions become operations by their types, whatever its world.
///
/// # Errors
/// [`LoadError::NotAComponent`], [`LoadError::Manifest`], [`LoadError::Version`] or [`LoadError::Imports`].
pub fn inspect_typed(bytes: &[u8]) -> Result<Surface, LoadError> {
    let client = |name: &str| ["wasi:http/types", "wasi:http/outgoing-handler"].contains(&split(name).0);
    let mut surface = checked(bytes, client)?;
    // Such a component has no manifest to ask in; what it imports is what it asks for.
    let requests = surface.imports.iter().any(|name| split(name).0 == "wasi:http/outgoing-handler");
    if requests && !surface.manifest.tools.iter().any(|request| request.name == TOOL) {
        let reason = "imports wasi:http/outgoing-handler".to_owned();
        surface.manifest.tools.push(Request { name: TOOL.to_owned(), access: None, reason });
    }
    if surface.keyvalue() && surface.manifest.stores.is_empty() {
        let reason = "imports wasi:keyvalue/store".to_owned();
        surface.manifest.stores.push(Request { name: keyvalue::DEFAULT.to_owned(), access: None, reason });
    }
    Ok(surface)
}

/// The surface of a component whose imports are all served; `also` are served beside those of every plugin.
fn checked(bytes: &[u8], also: impl Fn(&str) -> bool) -> Result<Surface, LoadError> {
    let surface = read(bytes)?;
    let imports = surface.imports.iter().filter(|name| !also(name) || is_of_wasi_0_3(name));
    let refused: Vec<RefusedImport> = imports.filter_map(|name| refuse(name)).collect();
    if !refused.is_empty() {
        return Err(LoadError::Imports(refused));
    }
    for name in surface.imports.iter().chain(&surface.exports) {
        check_version(name)?;
    }
    Ok(surface)
}

/// Imports and exports of a component, each; what is beyond that is no plugin, and would be kept in memory.
const MAX_NAMES: usize = 10_000;

/// Bytes of the name of an import or export.
const MAX_NAME: usize = 1_024;

fn push(names: &mut Vec<String>, name: &str, what: &str) -> Result<(), LoadError> {
    if names.len() >= MAX_NAMES {
        return Err(not_a_component(&format!("it has more than {MAX_NAMES} {what}")));
    }
    if name.len() > MAX_NAME {
        return Err(not_a_component(&format!(
            "one of its {what} has a name of {} bytes; at most {MAX_NAME}",
            name.len()
        )));
    }
    names.push(name.to_owned());
    Ok(())
}

/// Imports, exports and manifest of any component, whatever its world.
///
/// # Errors
/// [`LoadError::NotAComponent`] or [`LoadError::Manifest`].
pub fn read(bytes: &[u8]) -> Result<Surface, LoadError> {
    if !bytes.starts_with(b"\0asm") {
        return Err(not_a_component("it does not start with the WebAssembly magic number"));
    }
    let mut surface = Surface::default();
    let mut manifest: Option<Manifest> = None;
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(|error| not_a_component(&error.to_string()))?;
        match payload {
            Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => {
                return Err(LoadError::CoreModule { described: is_described(bytes) });
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                depth += 1;
                if depth > MAX_NESTING {
                    return Err(not_a_component("components are nested too deeply"));
                }
            }
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::DataSection(section) => {
                let range = section.range();
                surface.image_bytes = surface.image_bytes.saturating_add(range.end.saturating_sub(range.start));
            }
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    let import = import.map_err(|error| not_a_component(&error.to_string()))?;
                    push(&mut surface.imports, import.name.name, "imports")?;
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    let export = export.map_err(|error| not_a_component(&error.to_string()))?;
                    push(&mut surface.exports, export.name.name, "exports")?;
                }
            }
            Payload::CustomSection(section) if section.name() == manifest::SECTION => {
                let parsed = Manifest::parse(section.data())?;
                if manifest.as_ref().is_some_and(|earlier| *earlier != parsed) {
                    return Err(LoadError::Manifest(ManifestError {
                        at: "manifest".to_owned(),
                        message: "the component has two different manifests".to_owned(),
                    }));
                }
                manifest = Some(parsed);
            }
            _ => {}
        }
    }
    surface.manifest = manifest.unwrap_or_default();
    let own = |name: &str| name == config::SERVED || keyvalue::SERVED.contains(&name);
    surface.wasi = surface.imports.iter().any(|name| name.starts_with("wasi:") && !own(name));
    Ok(surface)
}

/// Returns `true` if a core module carries the description of its interface that bindings leave in it.
fn is_described(module: &[u8]) -> bool {
    Parser::new(0).parse_all(module).map_while(Result::ok).any(|payload| match payload {
        Payload::CustomSection(section) => section.name().starts_with("component-type"),
        _ => false,
    })
}

fn not_a_component(message: &str) -> LoadError {
    LoadError::NotAComponent { message: message.to_owned() }
}

/// `a:b/c@1.2.3` as `a:b/c` and `1.2.3`.
fn split(name: &str) -> (&str, Option<&str>) {
    match name.split_once('@') {
        Some((interface, version)) => (interface, Some(version)),
        None => (name, None),
    }
}

/// Before 1.0, a plugin fits when its version differs from the one that is served of each interface in the patch number
/// only.
fn check_version(name: &str) -> Result<(), LoadError> {
    let (interface, version) = split(name);
    let Some(member) = interface.strip_prefix("opcell:plugin/") else { return Ok(()) };
    let served = INTERFACES.iter().find(|(known, _)| *known == member).map_or(SERVED, |(_, version)| version);
    let found = version.unwrap_or("none");
    let minor = served.rsplit_once('.').map_or(served, |(minor, _)| minor);
    let patch = found.strip_prefix(minor).and_then(|rest| rest.strip_prefix('.'));
    if patch.is_some_and(|patch| !patch.is_empty() && patch.bytes().all(|byte| byte.is_ascii_digit())) {
        return Ok(());
    }
    Err(LoadError::Version {
        interface: opcell_types::text::printable(interface, 200),
        found: opcell_types::text::printable(found, 100),
        served,
    })
}

fn is_of_wasi_0_3(name: &str) -> bool {
    name.starts_with("wasi:") && split(name).1.is_some_and(|version| version.starts_with("0.3"))
}

fn refuse(name: &str) -> Option<RefusedImport> {
    let (interface, _) = split(name);
    let (package, member) = interface.split_once('/').unwrap_or((interface, ""));
    let instead = match (package, member) {
        _ if name == handles::SERVED || name == programs::SERVED => return None,
        ("opcell:plugin", "types" | "tools" | "skills" | "files" | "log" | "store" | "calls") => return None,
        ("opcell:plugin", _) => {
            "the host offers `tools`, `calls`, `skills`, `files`, `log` and `store` of this package, and nothing else"
        }
        _ if is_of_wasi_0_3(name) => {
            "it is built for WASI 0.3, and this host serves WASI 0.2; build it for `wasm32-wasip2`"
        }
        ("wasi:io" | "wasi:cli" | "wasi:clocks" | "wasi:random" | "wasi:filesystem" | "wasi:sockets", _) => {
            return None;
        }
        ("wasi:config", _) if name == config::SERVED => return None,
        ("wasi:config", _) => "this host serves `wasi:config/store@0.2.0-rc.1`, the only version that is out",
        ("wasi:keyvalue", _) if keyvalue::SERVED.contains(&name) => return None,
        ("wasi:keyvalue", _) => {
            "this host serves `store` and `atomics` of `wasi:keyvalue@0.2.0-draft2`, and nothing else"
        }
        ("wasi:http", _) => {
            "plugins have no network; ask for the host tool `http.fetch` and call it through `opcell:plugin/tools`"
        }
        _ if package.starts_with("wasi:") => {
            "this part of WASI is not offered; build for wasm32-unknown-unknown with the SDK"
        }
        _ => "unknown to this host; plugins import `opcell:plugin` and, if their toolchain needs it, WASI 0.2",
    };
    Some(RefusedImport { name: opcell_types::text::printable(name, 200), instead })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inspected(wat: &str) -> Result<Surface, LoadError> {
        inspect(&wat::parse_str(wat).unwrap())
    }

    #[test]
    fn a_core_module_is_not_a_component() {
        let error = inspected("(module)").unwrap_err();
        assert_eq!(error.to_string(), "not a WebAssembly component: it is a core module that describes no interface");
        let described = inspected(r#"(module (@custom "component-type:wit-bindgen" ""))"#).unwrap_err();
        assert!(matches!(described, LoadError::CoreModule { described: true }), "{described}");
    }

    #[test]
    fn empty_and_truncated_files_are_not_components() {
        let whole = wat::parse_str("(component (core module (func)))").unwrap();
        for bytes in [&b""[..], b"\0asm", b"#!/bin/sh\n", whole.get(..whole.len() - 3).unwrap()] {
            assert_eq!(inspect(bytes).unwrap_err().kind(), "not-a-component", "{bytes:?}");
        }
    }

    #[test]
    fn names_of_imports_are_bounded_in_number_and_length() {
        let import = |name: &str| format!(r#"(import "{name}" (instance))"#);
        let many: String = (0..=MAX_NAMES).map(|at| import(&format!("n{at}"))).collect();
        let error = inspected(&format!("(component {many})")).unwrap_err().to_string();
        assert!(error.contains("it has more than 10000 imports"), "{error}");
        let long = import(&"n".repeat(MAX_NAME + 1));
        let error = inspected(&format!("(component {long})")).unwrap_err().to_string();
        assert!(error.contains("one of its imports has a name of 1025 bytes; at most 1024"), "{error}");
    }

    #[test]
    fn every_forbidden_import_is_named_with_what_to_do_instead() {
        let error = inspected(
            r#"(component (import "wasi:http/outgoing-handler@0.2.0" (instance)) (import "env:evil/shell" (instance))
               (import "wasi:cli/exit@0.2.0" (instance)))"#,
        )
        .unwrap_err()
        .to_string();
        assert!(error.contains("`wasi:http/outgoing-handler@0.2.0`: plugins have no network"), "{error}");
        assert!(error.contains("`env:evil/shell`: unknown to this host") && !error.contains("wasi:cli"), "{error}");
    }

    #[test]
    fn settings_are_served_in_the_version_that_is_out() {
        let of = |version: &str| format!(r#"(component (import "wasi:config/store@{version}" (instance)))"#);
        let error = inspected(&of("0.2.0-draft")).unwrap_err().to_string();
        assert!(error.contains("this host serves `wasi:config/store@0.2.0-rc.1`"), "{error}");
        let error = inspected(&of("0.2.0-rc.1")).unwrap_err();
        assert_eq!(error.kind(), "wrong-world", "it exports nothing, and that alone is wrong: {error}");
    }

    #[test]
    fn of_keys_and_values_one_draft_is_served() {
        let of = |import: &str| format!(r#"(component (import "wasi:keyvalue/{import}" (instance)))"#);
        for import in ["store@0.2.0-draft", "batch@0.2.0-draft2"] {
            let error = inspected(&of(import)).unwrap_err().to_string();
            assert!(error.contains("serves `store` and `atomics` of `wasi:keyvalue@0.2.0-draft2`"), "{error}");
        }
        let surface = inspect_typed(&wat::parse_str(of("store@0.2.0-draft2")).unwrap()).unwrap();
        assert_eq!((surface.wasi, surface.manifest.stores[0].name.as_str()), (false, "default"));
    }

    #[test]
    fn a_component_for_wasi_0_3_is_told_so() {
        let error = inspected(r#"(component (import "wasi:cli/stdout@0.3.0" (instance)))"#).unwrap_err().to_string();
        assert!(error.contains("it is built for WASI 0.3, and this host serves WASI 0.2"), "{error}");
    }

    #[test]
    fn a_component_of_another_world_is_told_so_by_its_exports() {
        let error =
            inspected(r#"(component (instance $i) (export "acme:http/handler@1.0.0" (instance $i)))"#).unwrap_err();
        assert_eq!(error.kind(), "wrong-world");
        assert!(error.to_string().contains("`acme:http/handler@1.0.0`"), "{error}");
    }

    #[test]
    fn a_component_of_another_world_is_found_by_its_exports_whatever_it_imports() {
        let foreign = r#"(component (import "wasi:http/types@0.2.0" (instance)) (instance $i)
                         (export "acme:geo/shapes@1.0.0" (instance $i)))"#;
        assert_eq!(inspected(foreign).unwrap_err().kind(), "wrong-world");
        let found = |wat: &str| exports_of(&wat::parse_str(wat).unwrap());
        assert_eq!(found(foreign), Exports::Typed(BTreeMap::new()));
        assert_eq!(found("(component)"), Exports::Contract);
        let own = r#"(component (instance $i) (export "opcell:plugin/judges@0.1.0" (instance $i)))"#;
        assert_eq!((found(own), exports_of(b"no component")), (Exports::Contract, Exports::Contract));
    }

    #[test]
    fn another_version_of_the_contract_is_refused_with_both_versions() {
        for version in ["0.2.0", "1.0.0", "0.1.x"] {
            let wat =
                format!(r#"(component (instance $i) (export "opcell:plugin/operations@{version}" (instance $i)))"#);
            let Ok(bytes) = wat::parse_str(&wat) else { continue };
            let error = inspect(&bytes).unwrap_err();
            assert_eq!(error.kind(), "unsupported-version", "{version}");
            assert!(error.to_string().contains(version) && error.to_string().contains(EXPORTS), "{error}");
        }
    }

    #[test]
    fn a_version_is_of_an_interface_and_the_contract_is_the_newest_of_them() {
        let with = |import: &str| {
            inspected(&format!(
                r#"(component (import "opcell:plugin/{import}" (instance)) (instance $i)
                   (export "opcell:plugin/operations@0.1.0" (instance $i)))"#
            ))
        };
        assert_eq!(with("log@0.1.0").unwrap().contract(), Some("0.1.0"));
        assert_eq!(with("store@0.2.0").unwrap().contract(), Some("0.2.0"));
        assert_eq!(with("calls@0.3.0").unwrap().contract(), Some("0.3.0"));
        let error = with("store@0.1.0").unwrap_err();
        assert!(error.to_string().contains("this host serves 0.2.0"), "{error}");
        assert_eq!(with("log@0.2.0").unwrap_err().kind(), "unsupported-version");
        assert_eq!(Surface::default().contract(), None);
    }

    #[test]
    fn the_manifest_is_found_inside_a_core_module() {
        let manifest = r#"{\"schema\":1,\"name\":\"echo\",\"version\":\"1.0.0\"}"#;
        let wat = format!(r#"(component (core module (@custom "opcell:manifest" "{manifest}")))"#);
        let surface = read(&wat::parse_str(wat).unwrap()).unwrap();
        assert_eq!(surface.manifest.name.as_deref(), Some("echo"));
    }

    #[test]
    fn two_manifests_that_differ_are_an_error() {
        let section =
            |name| format!(r#"(@custom "opcell:manifest" "{{\"schema\":1,\"name\":\"{name}\",\"version\":\"1\"}}")"#);
        let wat = format!("(component (core module {}) (core module {}))", section("a"), section("b"));
        assert_eq!(read(&wat::parse_str(wat).unwrap()).unwrap_err().kind(), "invalid-manifest");
    }

    #[test]
    fn of_a_flood_of_imports_the_first_are_named_and_the_others_counted() {
        let imports: String = (0..1_000).map(|at| format!("(import \"evil:p{at}/x\" (instance))")).collect();
        let error = inspected(&format!("(component {imports})")).unwrap_err().to_string();
        assert!(error.ends_with("\n  and 980 more") && error.contains("evil:p19/x"), "{error}");
    }
}
