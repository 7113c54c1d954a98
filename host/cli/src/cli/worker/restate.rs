//! `opcell worker --restate`: a Restate server says which run gets a turn.

use crate::cli::{Exit, Failure, Terminal};
use clap::Args;
use opcell::LiveHost;
use opcell_engine::worker::{WorkerEvent, WorkerOptions};
use opcell_ir::Diagnostic;
use opcell_restate::{RestateOptions, RestateWorker, Url};
use std::net::SocketAddr;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Args)]
pub struct RestateArgs {
    /// Take turns from a Restate server, by the URL of its admin API, such as `http://127.0.0.1:9070`.
    #[arg(long, value_name = "URL", conflicts_with = "until_idle", value_parser = http_url)]
    restate: Option<Url>,
    /// Address at which the Restate server accepts calls. Defaults to port 8080 of the host in `--restate`.
    #[arg(long, value_name = "URL", requires = "restate", value_parser = http_url)]
    restate_ingress: Option<Url>,
    /// Address on which to listen for the Restate server. Beyond 127.0.0.1 only with `--restate-identity-key`.
    #[arg(long, value_name = "ADDRESS:PORT", requires = "restate", default_value = "127.0.0.1:9080")]
    restate_listen: SocketAddr,
    /// Address of the workers for the Restate server: that of a load balancer for HTTP/2 if there are several.
    /// Defaults to the address that this one listens on.
    #[arg(long, value_name = "URL", requires = "restate", value_parser = http_url)]
    restate_advertise: Option<Url>,
    /// The server's public key, `publickeyv1_…`: requests that it did not sign are refused.
    #[arg(long, value_name = "KEY", requires = "restate")]
    restate_identity_key: Option<String>,
}

/// Reads the URL of a server.
fn http_url(text: &str) -> Result<Url, String> {
    match text.parse::<Url>() {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
        _ => Err("expected a URL such as `http://127.0.0.1:9070`".to_owned()),
    }
}

impl RestateArgs {
    /// Returns the options of working for a server, if one is named.
    pub fn options(&self, worker: &WorkerOptions) -> Option<RestateOptions> {
        let mut options = RestateOptions::new(self.restate.clone()?);
        if let Some(ingress) = &self.restate_ingress {
            options.ingress = ingress.clone();
        }
        options.listen = self.restate_listen;
        options.advertise.clone_from(&self.restate_advertise);
        options.identity_key.clone_from(&self.restate_identity_key);
        options.worker = worker.clone();
        Some(options)
    }
}

/// Takes turns until `stop` is cancelled.
pub async fn work(
    host: LiveHost,
    options: RestateOptions,
    stop: CancellationToken,
    report: impl FnMut(WorkerEvent) -> Result<(), Failure>,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let worker = RestateWorker::listen(host, options)
        .await
        .map_err(|error| Diagnostic::error("restate-worker", error.to_string()))?;
    terminal.note(&format!("takes turns from Restate at http://{}", worker.address()));
    worker.run(stop, report).await?;
    Ok(Exit::Done)
}
