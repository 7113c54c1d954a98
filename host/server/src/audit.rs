//! The audit log: each request that may change something, with who sent it, from where, and the answer.

use crate::{api::App, peer::Peer};
use axum::{
    extract::{Request, State},
    http::{Extensions, Method, StatusCode, header},
    middleware::Next,
    response::Response,
};
use std::{
    net::IpAddr,
    sync::{Arc, OnceLock},
};

/// The name of whoever sends a request, once it is known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sender(Arc<OnceLock<Arc<str>>>);

impl Sender {
    /// Returns the caller of a request.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// It is known now.
    pub(crate) fn named(&self, name: &Arc<str>) {
        let _ = self.0.set(name.clone());
    }
}

/// A request that may change something. One that is dropped before its answer, because its client went away or its
/// handler panicked, is logged all the same: what it began may have been done.
struct Pending {
    sender: Sender,
    address: IpAddr,
    method: Method,
    path: String,
    is_answered: bool,
}

impl Drop for Pending {
    fn drop(&mut self) {
        // Whoever is not known yet was not let in.
        if let (false, Some(caller)) = (self.is_answered, self.sender.0.get()) {
            tracing::info!(target: "opcell::audit", caller = %caller, address = %self.address, method = %self.method,
                path = self.path, "the request was abandoned before it was answered");
        }
    }
}

/// Logs what was asked for and the answer. Whoever may not ask, and asks often, does not fill the log. Webhooks have
/// lines of their own.
pub(crate) async fn audited(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let sender = Sender::default();
    request.extensions_mut().insert(sender.clone());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let address = Peer::of(request.extensions()).address();
    let is_hook = path.starts_with("/v1/") && path.split('/').nth(3) == Some("hooks");
    let mut pending = (!is_hook && !method.is_safe()).then(|| Pending {
        sender: sender.clone(),
        address,
        method: method.clone(),
        path: path.clone(),
        is_answered: false,
    });
    let response = next.run(request).await;
    if let Some(pending) = &mut pending {
        pending.is_answered = true;
    }
    let status = response.status();
    let is_refused = status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN;
    if is_hook || (method.is_safe() && !is_refused) {
        return response;
    }
    let caller = sender.0.get().map_or("", |name| name.as_ref());
    let outcome = status.as_u16();
    if is_refused {
        if app.refusals.check().is_ok() {
            tracing::warn!(target: "opcell::audit", caller, %address, %method, path, status = outcome, "refused");
        }
        return response;
    }
    // What was made, or where a form leads to.
    let place = response.headers().get(header::LOCATION).and_then(|place| place.to_str().ok()).unwrap_or_default();
    tracing::info!(target: "opcell::audit", caller, %address, %method, path, status = outcome, place, "request");
    response
}
