//! `opcell token`: who may send requests to `opcell serve`.

use super::{Exit, Failure, Global, Terminal, serve};
use clap::{Subcommand, ValueEnum};
use opcell::Config;
use opcell_engine::event::Timestamp;
use opcell_ir::{Diagnostic, diagnostic::did_you_mean};
use opcell_server::{
    Tenant,
    access::tokens::{Scope, TokenStore},
};
use serde_json::json;

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token and print it. It is not shown again.
    New {
        /// Name of the token in lists, logs and events.
        #[arg(value_name = "NAME")]
        name: String,
        /// The tenant that it is bound to.
        #[arg(long, value_name = "TENANT", default_value = Tenant::DEFAULT)]
        tenant: String,
        /// Scope of the token (repeatable).
        #[arg(long, value_name = "SCOPE", default_value = "read")]
        scope: Vec<ScopeName>,
    },
    /// List the tokens of the project, without their secrets.
    List,
    /// Revoke a token. A running server refuses it within a second.
    Revoke {
        /// ID, as `opcell token list` prints it.
        #[arg(value_name = "ID")]
        id: String,
    },
}

/// What a token allows.
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

/// When a token was made, as people read it.
fn created(seconds: u64) -> String {
    Timestamp(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000)).to_text()
}

fn store(config: &Config) -> Result<TokenStore, Failure> {
    serve::token_store(config).ok_or_else(|| {
        Diagnostic::error(
            "no-state-directory",
            "no directory to keep tokens in: neither HOME nor XDG_STATE_HOME is set",
        )
        .help("set one of them to an absolute path")
        .into()
    })
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

pub fn token(global: &Global, command: &TokenCommand, terminal: &Terminal) -> Result<Exit, Failure> {
    let config = global.proposed()?;
    let store = store(&config)?;
    match command {
        TokenCommand::New { name, tenant, scope } => {
            known(&config, tenant)?;
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
        }
        TokenCommand::List => {
            let tokens = store.list()?;
            if terminal.json {
                let shown = tokens.iter().map(|token| {
                    json!({"id": token.id, "name": token.name, "tenant": token.tenant, "scopes": token.scopes,
                        "created": created(token.created)})
                });
                terminal.json(&json!(shown.collect::<Vec<_>>()))?;
                return Ok(Exit::Done);
            }
            if tokens.is_empty() {
                terminal.note("no tokens; `opcell token new NAME` makes one");
            }
            for token in tokens {
                let scopes: Vec<&str> = token.scopes.iter().map(|scope| scope.as_str()).collect();
                let (scopes, made) = (scopes.join(","), created(token.created));
                terminal.line(&format!("{}  {}  {scopes}  {}  {made}", token.id, token.tenant, token.name))?;
            }
        }
        TokenCommand::Revoke { id } => {
            if !store.revoke(id)? {
                let missing = Diagnostic::error("unknown-token", format!("there is no token `{id}`"));
                return Err(missing.help("`opcell token list` lists them").into());
            }
            terminal.note(&format!("token {id} is revoked"));
        }
    }
    Ok(Exit::Done)
}
