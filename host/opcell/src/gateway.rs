//! The tools of all MCP servers of a project, for whoever offers them further.

mod program;

pub use crate::tools::matches;
pub use opcell_tools::mcp::{Listing, ServerStanding, ServerState, ServerUse, ToolChange, ToolChangeKind};

pub(crate) use program::GatewayProgram;
pub use program::{CallObserver, ProgramTarget, ProgramTargets};

use crate::tools::{Remote, Tools};
use futures_util::future::join_all;
use opcell_engine::tool::Tool;
use opcell_tools::mcp::Server;
use opcell_types::Value;
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// The time for which all servers together wait for one of them.
const LISTING_TIME: Duration = Duration::from_secs(20);

/// One tool of a server. It is as it was accepted.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GatewayTool {
    /// The server's name in the project.
    pub server: Arc<str>,
    /// The server's own name of the tool.
    pub tool: Arc<str>,
    /// As the server says it.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}

/// A server, or one of its tools, that is not offered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// The server's name in the project.
    pub server: Arc<str>,
    /// The tool; absent where it is the whole server.
    pub tool: Option<String>,
    /// The reason, as a sentence.
    pub why: String,
}

/// The tools of all servers, in the order of the project.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct GatewayListing {
    /// Those that can be called.
    pub tools: Vec<GatewayTool>,
    /// Those that cannot.
    pub left_out: Vec<LeftOut>,
    /// The list of each server; none of one that gave none.
    asked: Vec<(Arc<Server>, Option<Arc<Listing>>)>,
    /// The version of what was accepted before the servers were asked.
    acceptance: u64,
}

impl GatewayListing {
    /// Returns `true` if every server would say again what it said: none has told of a change, ended, or said nothing
    /// of changes for so long that it has to be asked; and if nothing else was accepted since. Asks none of them.
    #[must_use]
    pub fn is_current(&self) -> bool {
        let is_accepted = self.asked.iter().all(|(server, _)| server.acceptance() == self.acceptance);
        is_accepted
            && self
                .asked
                .iter()
                .all(|(server, listing)| listing.as_ref().is_none_or(|listing| server.is_current(listing)))
    }

    /// Returns `true` if every server listed its tools.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.asked.iter().all(|(_, listing)| listing.is_some())
    }
}

impl PartialEq for GatewayListing {
    /// Compares what is offered.
    fn eq(&self, other: &Self) -> bool {
        self.tools == other.tools && self.left_out == other.left_out
    }
}

/// Starts every server, all at once, and asks it for its tools.
pub(crate) async fn listing(tools: &Tools) -> GatewayListing {
    let acceptance = tools.servers().map(|server| server.acceptance()).max().unwrap_or_default();
    let mut all = GatewayListing { acceptance, ..GatewayListing::default() };
    for of_server in join_all(tools.servers().map(of)).await {
        all.tools.extend(of_server.tools);
        all.left_out.extend(of_server.left_out);
        all.asked.extend(of_server.asked);
    }
    all
}

async fn of(server: &Arc<Server>) -> GatewayListing {
    let mut found = GatewayListing::default();
    let name: Arc<str> = server.name().into();
    let left_out =
        |tool: Option<&str>, why: String| LeftOut { server: name.clone(), tool: tool.map(str::to_owned), why };
    let listing = match timeout(LISTING_TIME, server.tools()).await {
        Ok(Ok(listing)) => listing,
        Err(_) => {
            // Starting it continues when it is asked for again.
            found
                .left_out
                .push(left_out(None, format!("it has not listed its tools within {} s", LISTING_TIME.as_secs())));
            found.asked.push((server.clone(), None));
            return found;
        }
        Ok(Err(failure)) => {
            found.left_out.push(left_out(None, failure.message));
            found.asked.push((server.clone(), None));
            return found;
        }
    };
    for tool in listing.tools.keys() {
        // Also says whether it is as it was accepted.
        match server.tool(tool).await {
            Ok(tool) => found.tools.push(GatewayTool {
                server: name.clone(),
                tool: tool.name.into(),
                description: tool.description,
                parameters: tool.parameters,
            }),
            Err(failure) => found.left_out.push(left_out(Some(tool), failure.message)),
        }
    }
    found.left_out.extend(listing.refused.iter().map(|(tool, why)| left_out(Some(tool), why.clone())));
    found.asked.push((server.clone(), Some(listing)));
    found
}

/// The standing of every server, by its name in the project. Starts none.
pub(crate) fn standing(tools: &Tools) -> Vec<(Arc<str>, ServerStanding)> {
    tools.servers().map(|server| (server.name().into(), server.standing())).collect()
}

/// One tool of a server, if the project has the server.
pub(crate) fn tool(tools: &Tools, server: &str, tool: &str) -> Option<Arc<dyn Tool>> {
    let server = tools.servers().find(|known| known.name() == server)?;
    Some(Arc::new(Remote::new(server.clone(), tool.to_owned(), &format!("{}/{tool}", server.name()))))
}
