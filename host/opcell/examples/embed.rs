//! Opcell inside another program: a plugin with one grant, a run that is followed, its receipts.
//!
//! Build the plugins once with `cargo xtask guests`, then `cargo run -p opcell --example embed [DIRECTORY]`.

use futures_util::StreamExt as _;
use opcell::{
    Host, Value, Workflow,
    config::{PluginConfig, PluginGrants},
    run::receipt,
};
use opcell_sandbox::{CompileMode, FilesGrant, Grants, LimitRequest};
use std::path::PathBuf;

const WORKFLOW: &str = r#"
{:name "markers"
 :description "Counts what was left for later"
 :steps [{:name "find" :type :invoke :operation "repo/find-markers" :args {:max-files 200}
          :yields {:type :text :text :summary}}]}"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let capabilities =
        Grants { files: [("workspace".to_owned(), FilesGrant::read(&directory))].into(), ..Grants::default() };
    let host = Host::builder()
        .plugin(PluginConfig {
            name: "repo".to_owned(),
            path: PathBuf::from("example-operations/dist/repo.wasm"),
            span: None,
            grants: PluginGrants { capabilities, http: Vec::new() },
            limits: LimitRequest { memory: Some(16 << 20), ..LimitRequest::default() },
        })
        // Our own plugin; somebody else's is compiled in a child process with limits.
        .compile(CompileMode::TrustedInProcess)
        .build()
        .await?;

    let run = host.start(&Workflow::compile("markers.edn", WORKFLOW)?, Value::Null).await?;
    let mut events = run.events().await?;
    while let Some(recorded) = events.next().await {
        eprintln!("{:>3} {}", recorded.seq, recorded.event.kind());
        if let Some(receipt) = receipt(&recorded.event) {
            eprintln!("    {}", receipt.to_json());
        }
    }
    let outcome = run.outcome().await?;
    println!("{}: {}", outcome.status, outcome.result.to_json());
    Ok(())
}
