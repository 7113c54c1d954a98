//! `opcell token list`.

use super::tokens::store;
use crate::cli::{Exit, Failure, Terminal};
use opcell::Config;
use opcell_engine::event::Timestamp;
use serde_json::json;

/// When a token was made, as people read it.
fn created(seconds: u64) -> String {
    Timestamp(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000)).to_text()
}

pub fn list(config: &Config, terminal: &Terminal) -> Result<Exit, Failure> {
    let tokens = store(config)?.list()?;
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
    Ok(Exit::Done)
}
