//! When the list of tools changes: plugins are exchanged, workflows are edited.
//!
//! One task for all clients looks, and only while there are clients.

use super::McpServer;
use opcell::LiveHost;
use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{sync::watch, task::JoinHandle};

/// The interval at which the workflows are polled. An exchange of plugins is noticed at once.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Tells whoever listens that the list is another one.
#[derive(Clone, Default)]
pub(super) struct Changes {
    count: Arc<watch::Sender<u64>>,
    looking: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl Changes {
    /// Changes from now on.
    pub(super) async fn listen(&self, server: &McpServer) -> watch::Receiver<u64> {
        let receiver = self.count.subscribe();
        let now = of(server).await;
        let mut looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        if looking.as_ref().is_none_or(JoinHandle::is_finished) {
            *looking = Some(tokio::spawn(look(server.clone(), server.tenant.host.clone(), self.count.clone(), now)));
        }
        receiver
    }
}

/// Returns a number for the list, which differs where the list does.
async fn of(server: &McpServer) -> u64 {
    let mut hasher = DefaultHasher::new();
    for tool in server.tools().await.page(None, usize::MAX).0 {
        serde_json::to_string(&tool).unwrap_or_default().hash(&mut hasher);
    }
    hasher.finish()
}

async fn look(server: McpServer, host: LiveHost, count: Arc<watch::Sender<u64>>, mut known: u64) {
    let mut exchanges = host.exchanges();
    loop {
        tokio::select! {
            _ = exchanges.changed() => {}
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
        if count.receiver_count() == 0 {
            return;
        }
        let now = of(&server).await;
        if now != known {
            known = now;
            count.send_modify(|count| *count += 1);
        }
    }
}
