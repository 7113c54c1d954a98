//! Wake-ups: whoever makes a run runnable says so, and workers that wait get it before their next look.

use crate::settings::Settings;
use futures_util::{StreamExt as _, stream};
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;
use tokio_postgres::AsyncMessage;
use tokio_util::sync::CancellationToken;

/// The pause before the server is asked again after a connection that broke.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// The channel of a schema's wake-ups.
pub(crate) fn channel(schema: &str) -> String {
    format!("{schema}_runnable")
}

/// Listens on a connection of its own until the journal is dropped. Wake-ups are a courtesy: workers look now and then
/// anyway.
pub(crate) fn listen(settings: Settings, stop: CancellationToken) -> Arc<Notify> {
    let notify = Arc::new(Notify::new());
    if settings.transaction_pooler {
        return notify;
    }
    let woken = notify.clone();
    tokio::spawn(async move {
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => break,
                () = session(&settings, &woken) => {}
            }
            // What was sent while no one listened is found by looking.
            woken.notify_waiters();
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(RECONNECT_DELAY) => {}
            }
        }
    });
    notify
}

async fn session(settings: &Settings, woken: &Notify) {
    let Ok(tls) = settings.tls() else { return };
    let Ok((client, mut connection)) = settings.server.connect(tls).await else { return };
    let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
    let listen = format!("LISTEN {}", channel(&settings.schema));
    let asked = async {
        if client.batch_execute(&listen).await.is_err() {
            return;
        }
        // The client must live as long as its connection.
        std::future::pending::<()>().await;
    };
    let heard = async {
        while let Some(Ok(message)) = messages.next().await {
            if matches!(message, AsyncMessage::Notification(_)) {
                woken.notify_waiters();
            }
        }
    };
    tokio::select! { () = asked => {}, () = heard => {} }
}
