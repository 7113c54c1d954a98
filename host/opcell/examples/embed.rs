//! Opcell inside another program: a plugin with one grant, a run that is followed, its receipts.
//!
//! Build the plugins once with `cargo xtask guests`, then `cargo run -p opcell --example embed [DIRECTORY]`.

use opcell::{TypedReceipt, prelude::*};

const WORKFLOW: &str = r#"
{:name "markers"
 :description "Counts what was left for later"
 :steps [{:name "find" :type :invoke :operation "repo/find-markers" :args {:max-files 200}
          :yields {:type :text :text :summary}}]}"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // First of all: plugins are compiled in children of this program, and in such a child this compiles one and ends.
    opcell::prepare();
    opcell::runtime()?.block_on(markers())
}

async fn markers() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let repo = PluginConfig::new("repo", "example-operations/dist/repo.wasm")
        .grant(Grant::read("workspace", directory))
        .limits(LimitRequest { memory: Some(16 << 20), ..LimitRequest::default() });
    let host = Host::builder().plugin(repo).build().await?;

    let run = host.start(&Workflow::compile("markers.edn", WORKFLOW)?, Value::Null).await?;
    let mut events = run.events().await?;
    while let Some(recorded) = events.next().await {
        eprintln!("{:>3} {}", recorded.seq, recorded.event.kind());
        if let Some(receipt) = recorded.event.receipt() {
            match TypedReceipt::of(receipt)? {
                TypedReceipt::Cell(cell) => {
                    let files = cell.touched.files.len();
                    eprintln!(
                        "    {}: {} µs, {} bytes, {files} files",
                        cell.operation, cell.duration_us, cell.peak_memory
                    );
                    cell.denials.iter().for_each(|denial| eprintln!("    denied: {}", denial.capability));
                }
                other => eprintln!("    {other:?}"),
            }
        }
    }
    let end = run.outcome().await?.ended()?;
    println!("{}: {}", end.status, end.result);
    Ok(())
}
