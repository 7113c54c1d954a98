//! The load balancer in front of workers that take turns from a Restate server: one address for all of them.

use anyhow::Result;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::{TcpListener, TcpStream};

/// Listens, and passes every connection to the next worker that answers; gives the port.
pub async fn start(workers: Vec<u16>) -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        let next = AtomicUsize::new(0);
        while let Ok((mut from, _)) = listener.accept().await {
            let first = next.fetch_add(1, Ordering::Relaxed);
            let order: Vec<u16> =
                (0..workers.len()).filter_map(|at| workers.get((first + at) % workers.len())).copied().collect();
            tokio::spawn(async move {
                for port in order {
                    if let Ok(mut to) = TcpStream::connect(("127.0.0.1", port)).await {
                        let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
                        return;
                    }
                }
            });
        }
    });
    Ok(port)
}
