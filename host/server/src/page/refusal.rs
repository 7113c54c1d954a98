//! Problems as pages, for whoever looks at them with a browser.

use super::{News, POLICY, door, whole};
use axum::{
    body,
    extract::Request,
    http::{HeaderValue, StatusCode, header},
    middleware::Next,
    response::Response,
};
use maud::html;
use serde_json::Value;

/// Bytes of a problem.
const MAX_PROBLEM: usize = 64 << 10;

/// Answers a browser that opens an address with a page where the answer would be a problem as JSON. Programs, which ask
/// for no HTML, get what they would get without this.
pub(crate) async fn for_browsers(request: Request, next: Next) -> Response {
    let accepts = |accept: &HeaderValue| accept.to_str().is_ok_and(|accept| accept.contains("text/html"));
    let is_browser = request.headers().get(header::ACCEPT).is_some_and(accepts);
    let is_page = !request.uri().path().starts_with("/v1/");
    let response = next.run(request).await;
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_problem = kind.is_some_and(|kind| kind.as_bytes() == b"application/problem+json");
    if !is_browser || !is_page || !is_problem {
        return response;
    }
    let (parts, body) = response.into_parts();
    let read = body::to_bytes(body, MAX_PROBLEM).await.unwrap_or_default();
    let problem: Value = serde_json::from_slice(&read).unwrap_or_default();
    let text = |key: &str| problem.get(key).and_then(Value::as_str).unwrap_or_default();
    let is_login = parts.status == StatusCode::UNAUTHORIZED;
    let main = html! {
        h1 { @if is_login { "Log in" } @else { (capitalized(text("title"))) } }
        div.box.denied {
            p { (text("detail")) "." }
            // A browser sends no headers that its user writes.
            @if is_login { p { "Open the address that " code { "opcell serve" } " printed, or paste a valid token." } }
            @else if !text("remedy").is_empty() { p { "To solve it: " (text("remedy")) "." } }
        }
        @if is_login { (door::login()) } @else { p { a href="/" { "Runs" } } }
        p.quiet { "HTTP " (parts.status.as_u16()) ", " code { (text("code")) } }
    };
    let mut page = whole(text("title"), None, None, News::default(), main);
    *page.status_mut() = parts.status;
    let headers = page.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    for kept in [header::RETRY_AFTER, header::WWW_AUTHENTICATE, header::SET_COOKIE] {
        if let Some(value) = parts.headers.get(&kept) {
            headers.insert(kept, value.clone());
        }
    }
    page
}

fn capitalized(title: &str) -> String {
    let mut rest = title.chars();
    rest.next().map(|first| first.to_uppercase().chain(rest).collect()).unwrap_or_default()
}
