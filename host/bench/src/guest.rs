//! The guest that is measured: a component, one of its operations, and arguments.

use anyhow::Result;
use opcell_sandbox::{Exports, Grants, LoadRequest, PluginSource};
use opcell_selftest::component_from_wat;
use std::{collections::BTreeMap, sync::Arc};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// Fifty bytes of JSON.
const ARGUMENTS: &str = r#"{"text":"hello world","numbers":[1,2,3],"flag":10}"#;

/// A component with the call to measure.
#[derive(Debug, Clone)]
pub struct Guest {
    /// For the report.
    pub name: String,
    /// The component.
    pub component: Arc<[u8]>,
    /// The operation that is called.
    pub operation: String,
    /// Its arguments, JSON text.
    pub arguments: String,
    /// `true` if the operation returns its arguments, as the native peers do.
    pub echo: bool,
    /// The grants.
    pub grants: Grants,
    /// The rule by which its exports become operations.
    pub exports: Exports,
}

impl Guest {
    /// The echo that this crate brings: written by hand, some hundred instructions a call.
    ///
    /// # Errors
    /// When it does not fit the contract, which a test rules out.
    pub fn built_in() -> Result<Self> {
        let component = component_from_wat(include_str!("echo.wat"), None, "operation-plugin", None)?;
        Ok(Self::echo("built-in echo", component))
    }

    /// The same echo as a component that was not written for the contract, written by hand as well: its operation
    /// `echo/echo` is the function `echo` of an interface `echo`, with a parameter for each member. To be loaded with
    /// [`Exports::Typed`](opcell_sandbox::Exports::Typed).
    ///
    /// # Errors
    /// When it does not fit its interface, which a test rules out.
    pub fn typed() -> Result<Self> {
        let mut resolve = Resolve::default();
        let package = resolve.push_str("echo.wit", include_str!("echo-typed.wit"))?;
        let world = resolve.select_world(&[package], None)?;
        let mut module = wat::parse_str(include_str!("echo-typed.wat"))?;
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false)?;
        let component = ComponentEncoder::default().module(&module)?.encode()?;
        Ok(Self { exports: Exports::Typed(BTreeMap::new()), ..Self::echo("built-in echo by its types", component) })
    }

    /// Another echo: a component whose `echo/echo` returns its arguments.
    #[must_use]
    pub fn echo(name: &str, component: Vec<u8>) -> Self {
        Self {
            name: name.to_owned(),
            component: component.into(),
            operation: "echo/echo".to_owned(),
            arguments: ARGUMENTS.to_owned(),
            echo: true,
            grants: Grants::default(),
            exports: Exports::Contract,
        }
    }

    /// The request that loads it.
    #[must_use]
    pub fn load_request(&self) -> LoadRequest {
        LoadRequest {
            grants: self.grants.clone(),
            exports: self.exports.clone(),
            ..LoadRequest::new(self.plugin_name(), PluginSource::Bytes(Arc::clone(&self.component)))
        }
    }

    /// Returns the name of the plugin in receipts and denials: its name in the project, or its file's without the
    /// extension.
    #[must_use]
    pub fn plugin_name(&self) -> String {
        let stem = std::path::Path::new(&self.name).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        stem.unwrap_or_else(|| self.name.clone())
    }

    /// The same call with arguments of this many bytes of JSON, of which most is text.
    #[must_use]
    pub fn sized(&self, bytes: usize) -> Self {
        const FRAME: usize = r#"{"text":""}"#.len();
        let text = "x".repeat(bytes.saturating_sub(FRAME));
        Self { arguments: format!(r#"{{"text":"{text}"}}"#), ..self.clone() }
    }
}

/// Does natively what every echo does: parses an object and writes it out again.
///
/// # Errors
/// When the text is not JSON object.
pub fn native_echo(arguments: &str) -> serde_json::Result<String> {
    let arguments: serde_json::Map<String, serde_json::Value> = serde_json::from_str(arguments)?;
    serde_json::to_string(&arguments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcell_sandbox::{CellRequest, CompileMode, Sandbox, SandboxConfig};

    #[tokio::test]
    async fn the_guest_that_is_called_by_its_types_does_the_same() {
        let guest = Guest::typed().unwrap();
        let sandbox = Sandbox::new(SandboxConfig::new(CompileMode::TrustedInProcess)).unwrap();
        let plugin = sandbox.load(guest.load_request()).await.unwrap();
        let cell = plugin.invoke(CellRequest::new("echo/echo", ARGUMENTS)).await;
        assert_eq!(cell.result.unwrap().data.to_json(), native_echo(ARGUMENTS).unwrap());
    }

    #[tokio::test]
    async fn the_built_in_guest_does_what_the_native_echo_does() {
        let guest = Guest::built_in().unwrap();
        assert_eq!(guest.arguments.len(), 50);
        let sandbox = Sandbox::new(SandboxConfig::new(CompileMode::TrustedInProcess)).unwrap();
        let plugin = sandbox.load(LoadRequest::new("echo", PluginSource::Bytes(guest.component))).await.unwrap();
        let cell = plugin.invoke(CellRequest::new("echo/echo", ARGUMENTS)).await;
        assert_eq!(cell.result.unwrap().data.to_json(), native_echo(ARGUMENTS).unwrap());
        let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(1 << 20));
        let cell = plugin.invoke(CellRequest::new("echo/echo", &large)).await;
        assert_eq!(cell.result.unwrap().data.to_json(), large);
        let cell = plugin.invoke(CellRequest::new("echo/log", "{}")).await;
        assert_eq!(cell.receipt.host_calls.log, 100);
        assert!(cell.result.is_ok());
    }
}
