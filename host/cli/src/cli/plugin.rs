//! `opcell plugin`: what plugins are, what they may reach, and changes of that.

mod add;
mod bench;
pub(super) mod build;
mod change;
mod check;
pub(super) mod component;
mod dev;
mod diff;
mod explain;
mod fetch;
mod grant;
mod inspect;
mod list;
mod new;
#[cfg(feature = "registry")]
mod push;
mod registry;
mod remove;
mod revoke;
#[cfg(feature = "registry")]
mod search;
mod test;
mod update;
mod vendor;
mod verify;
pub(super) mod watch;

use super::{Exit, Failure, Global, Terminal};
use clap::Subcommand;
use component::{Component, is_changed, name_of_file, named, policy, sandbox};
pub use grant::grant_always;
#[cfg(feature = "server")]
pub use grant::grant_always_unseen;

#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// Create a plugin that builds, passes its tests and runs, in a new folder.
    New(new::NewArgs),
    /// Build the plugin of a folder with its language's tools: a component with its manifest. The tools run with your
    /// rights, as does anything that the folder makes them run, such as build scripts of cargo.
    Build(build::BuildArgs),
    /// Run a plugin's cases in real cells, with doubles for what it reaches. Builds it first, as `build` does.
    Test(test::TestArgs),
    /// Watch a plugin's source and cases: build, as `build` does, and test again on every change.
    Dev(dev::DevArgs),
    /// Check a component as a host would, before its operator does.
    Check(check::CheckArgs),
    /// Measure a plugin's operation in a cell and in the bare engine, and what a call touches.
    Bench(bench::BenchArgs),
    /// List the project's plugins without running them.
    List,
    /// Show the manifest and interface of a component without running it.
    Inspect(inspect::InspectArgs),
    /// Show what a plugin may reach and use, and which setting decides.
    Explain(explain::ExplainArgs),
    /// Grant a capability to a plugin: edits `opcell.toml` and keeps its comments.
    Grant(grant::GrantArgs),
    /// Show what another version of a plugin requests in addition.
    Diff(diff::DiffArgs),
    /// Revoke a grant of a plugin: edits `opcell.toml` and keeps its comments.
    Revoke(revoke::RevokeArgs),
    /// Add a plugin of a registry, or a file, to the project.
    Add(add::AddArgs),
    /// Accept plugins as they are now: write their digests and requests into `opcell.lock`. Plugins of registries are
    /// fetched.
    Update(update::UpdateArgs),
    /// Remove a plugin and its grants from the project.
    Remove(remove::RemoveArgs),
    /// Fetch the versions that `opcell.lock` holds, where they are not on this machine. Changes no version.
    Fetch(fetch::FetchArgs),
    /// Check digests and signatures of the project's plugins, without a network.
    Verify(verify::VerifyArgs),
    /// Copy the plugins of registries into the project, for hosts without a network.
    Vendor,
    /// Push a plugin to a registry: component, bill of materials, signature.
    #[cfg(feature = "registry")]
    Push(push::PushArgs),
    /// Search a static index of plugins.
    #[cfg(feature = "registry")]
    Search(search::SearchArgs),
}

pub async fn plugin(global: &Global, command: &PluginCommand, terminal: &Terminal) -> Result<Exit, Failure> {
    match command {
        PluginCommand::List => list::list(&global.proposed()?, terminal),
        PluginCommand::New(args) => new::new(args, terminal),
        PluginCommand::Build(args) => build::build(global, args, terminal).await,
        PluginCommand::Test(args) => test::test(global, args, terminal).await,
        PluginCommand::Dev(args) => dev::dev(global, args, terminal).await,
        PluginCommand::Check(args) => check::check(global, args, terminal).await,
        PluginCommand::Bench(args) => bench::bench(global, args, terminal).await,
        PluginCommand::Inspect(args) => inspect::inspect(global, args, terminal),
        PluginCommand::Explain(args) => explain::explain(global, args, terminal).await,
        PluginCommand::Grant(args) => grant::grant(global, args, terminal),
        PluginCommand::Revoke(args) => revoke::revoke(global, args, terminal),
        PluginCommand::Add(args) => add::add(global, args, terminal).await,
        PluginCommand::Update(args) => update::update(global, args, terminal).await,
        PluginCommand::Remove(args) => remove::remove(global, args, terminal),
        PluginCommand::Fetch(args) => fetch::fetch(global, args, terminal).await,
        PluginCommand::Verify(args) => verify::verify(global, args, terminal),
        PluginCommand::Vendor => vendor::vendor(global, terminal),
        #[cfg(feature = "registry")]
        PluginCommand::Push(args) => push::push(global, args, terminal).await,
        #[cfg(feature = "registry")]
        PluginCommand::Search(args) => search::search(args, terminal).await,
        PluginCommand::Diff(args) => diff::diff(global, args, terminal).await,
    }
}
