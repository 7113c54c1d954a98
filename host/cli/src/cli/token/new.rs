//! `opcell token new`.

use super::tokens::store;
use crate::cli::{Exit, Failure, Terminal};
use clap::{Args, ValueEnum};
use opcell::Config;
use opcell_ir::{Diagnostic, diagnostic::did_you_mean};
use opcell_server::{Tenant, access::tokens::Scope};
use serde_json::json;

#[derive(Debug, Args)]
pub struct NewArgs {
    /// Name of the token in lists, logs and events.
    #[arg(value_name = "NAME")]
    name: String,
    /// The tenant that it is bound to.
    #[arg(long, value_name = "TENANT", default_value = Tenant::DEFAULT)]
    tenant: String,
    /// Scope of the token (repeatable).
    #[arg(long, value_name = "SCOPE", default_value = "read")]
    scope: Vec<ScopeName>,
}

/// The rights that a token gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ScopeName {
    /// Look at everything of the tenant.
    Read,
    /// Start runs, call operations, send messages.
    Run,
    /// Approve and refuse what runs ask for.
    Approve,
    /// All of these, and change what the server has loaded.
    Admin,
    /// Read the metrics of all tenants, and nothing else.
    Metrics,
}

impl ScopeName {
    fn scope(self) -> Scope {
        match self {
            Self::Read => Scope::Read,
            Self::Run => Scope::Run,
            Self::Approve => Scope::Approve,
            Self::Admin => Scope::Admin,
            Self::Metrics => Scope::Metrics,
        }
    }
}

/// A token of a tenant that the project does not declare would open nothing.
fn known(config: &Config, tenant: &str) -> Result<(), Failure> {
    let names = || std::iter::once(Tenant::DEFAULT).chain(config.tenants.iter().map(|tenant| tenant.name.as_str()));
    if names().any(|name| name == tenant) {
        return Ok(());
    }
    let help = match did_you_mean(tenant, names()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("its tenants are: {}", names().collect::<Vec<_>>().join(", ")),
    };
    Err(Diagnostic::error("unknown-tenant", format!("the project has no tenant `{tenant}`")).help(help).into())
}

pub fn new(config: &Config, args: &NewArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let (store, NewArgs { name, tenant, scope }) = (store(config)?, args);
    known(config, tenant)?;
    let scopes: Vec<Scope> = scope.iter().map(|scope| scope.scope()).collect();
    let token = store.create(name, tenant, &scopes)?;
    if terminal.json {
        terminal.json(&json!({"token": token, "name": name, "tenant": tenant, "scopes": scopes}))?;
    } else {
        let project = config.file.as_deref().unwrap_or(&config.root).display();
        terminal.note(&format!(
            "a server of {project} that this user runs needs a token for every request from now on, also one that \
             runs already; one that another user runs, or that was started with `--open`, does not know it"
        ));
        terminal.note("this token is shown only now; the server keeps a hash of it:");
        terminal.line(&token)?;
    }
    Ok(Exit::Done)
}
