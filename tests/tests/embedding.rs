//! Guarantees for programs that embed Opcell. The page on embedding shows pieces of these programs.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test")]

#[path = "embedding/answers.rs"]
mod answers;
#[path = "embedding/building.rs"]
mod building;
#[path = "embedding/calls.rs"]
mod calls;
#[path = "embedding/models.rs"]
mod models;
#[path = "embedding/page.rs"]
mod page;
#[path = "embedding/products.rs"]
mod products;
#[path = "embedding/programs.rs"]
mod programs;
#[path = "embedding/projects.rs"]
mod projects;
#[path = "embedding/tenants.rs"]
mod tenants;

use opcell::{CompileMode, ToolFn, prelude::*};
use opcell_cli::selftest::component_from_wat;

/// The component of `plugin.wat`, which asks for the tool `shop.price`.
fn component() -> Vec<u8> {
    component_asking(&["shop.price"])
}

/// The same, asking for these tools.
fn component_asking(tools: &[&str]) -> Vec<u8> {
    let tools = tools.iter().map(|name| serde_json::json!({"name": name, "reason": "to say what a thing costs"}));
    let capabilities = serde_json::json!({"tools": tools.collect::<Vec<_>>()});
    let manifest = serde_json::json!({"schema": 1, "name": "shop", "version": "1.0.0", "capabilities": capabilities});
    let wat = include_str!("embedding/plugin.wat");
    component_from_wat(wat, None, "operation-plugin", Some(&manifest.to_string())).unwrap()
}

fn shop() -> PluginConfig {
    PluginConfig::from_bytes("shop", component()).grant(Grant::tool("shop.price"))
}

/// A host whose plugins are compiled here: children of the compiler have tests of their own.
fn builder() -> opcell::HostBuilder {
    Host::builder().compile(CompileMode::TrustedInProcess)
}

/// The tool `shop.price`, as a closure.
fn tool<F, Fut>(price: F) -> ToolFn<F, Value>
where
    F: Fn(Value, ToolInput) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<i64, Failure>> + Send + 'static,
{
    opcell::tool_fn_with_schema("shop.price", "Returns a price.", opcell::json!({"type": "object"}), price)
}
