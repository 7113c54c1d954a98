//! Looks at a repository, judges its health and reports on it.
//!
//! Everything is read through the directory grant `workspace`, and everything is bounded: what was left out is said.

mod health;
mod inventory;
mod markers;
mod outline;
mod report;
mod scan;

use health::HealthArguments;
use inventory::{Inventory, InventoryArguments};
use markers::{MarkerArguments, Markers};
use opcell_sdk::{Context, Failure, Success, Verdict, judge, operation, plugin};
use outline::{Outline, OutlineArguments};
use report::ReportArguments;

/// Counts files and bytes by extension, and names the largest files.
#[operation("repo/inventory", effects = idempotent)]
fn take_inventory(arguments: InventoryArguments) -> Result<Success<Inventory>, Failure> {
    inventory::take(&arguments)
}

/// Lists the headings of documents and the top-level items of sources.
#[operation("repo/outline", effects = idempotent)]
fn draw_outline(arguments: OutlineArguments) -> Result<Success<Outline>, Failure> {
    outline::draw(&arguments)
}

/// Finds markers such as TODO in sources; every visit of its step reads more files than the one before.
#[operation("repo/find-markers", effects = idempotent)]
fn find_markers(arguments: MarkerArguments, context: &Context) -> Result<Success<Markers>, Failure> {
    markers::find(&arguments, context.visit)
}

/// Decides whether a search for markers has seen enough, and if so whether the repository is healthy.
#[judge("repo/health-gate", outcomes = ["DEEPER", "HEALTHY", "UNHEALTHY"])]
fn health_gate(arguments: HealthArguments) -> Verdict {
    health::decide(&arguments)
}

/// Renders what was found as Markdown.
#[operation("report/render", effects = pure)]
fn render_report(arguments: ReportArguments) -> Success<String> {
    report::render(&arguments)
}

/// A number and its noun: `1 file`, `2 files`.
fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

plugin! {
    capabilities: {
        files "workspace" read: "reads the repository that the report is about",
    },
    operations: [take_inventory, draw_outline, find_markers, render_report],
    judges: [health_gate],
}
