//! What one tenant may ask of the server, and that another does not notice.

#![allow(clippy::unwrap_used, reason = "a failed test")]

use opcell::Host;
use opcell_server::{Serving, Settings, Tenant, Tenants, tenant::TenantLimits};
use std::collections::BTreeMap;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_util::sync::CancellationToken;

/// Serves two tenants, `busy` with these limits and `quiet` with the usual ones; its address, and what stops it.
async fn serve(limits: TenantLimits) -> (String, CancellationToken) {
    let mut tenants = Vec::new();
    for (name, limits) in [("busy", limits), ("quiet", TenantLimits::default())] {
        tenants.push(Tenant::new(name, Host::builder().build().await.unwrap(), limits));
    }
    let settings = Settings::new("127.0.0.1:0".parse().unwrap());
    let serving = Serving::bind(settings, Tenants::new(tenants)).await.unwrap();
    let address = serving.url().unwrap().replace("http://", "");
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    tokio::spawn(async move { serving.run(stopping).await });
    (address, stop)
}

/// The head of the answer to a GET.
async fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split("\r\n\r\n").next().unwrap_or_default().to_ascii_lowercase()
}

#[tokio::test]
async fn a_tenant_that_floods_is_refused_and_another_is_served() {
    let mut limits = TenantLimits::default();
    limits.requests_per_second = 5;
    let (address, stop) = serve(limits).await;
    let mut statuses: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..60 {
        let head = get(&address, "/v1/busy/runs").await;
        let status = head.split(' ').nth(1).unwrap_or_default().to_owned();
        assert!(status != "429" || head.contains("retry-after: 1"), "{head}");
        *statuses.entry(status).or_default() += 1;
        assert!(get(&address, "/v1/quiet/runs").await.starts_with("http/1.1 200"));
    }
    assert!(statuses.get("200").is_some_and(|served| *served >= 5), "{statuses:?}");
    assert!(statuses.contains_key("429"), "{statuses:?}");
    assert_eq!(statuses.len(), 2, "{statuses:?}");
    stop.cancel();
}

#[tokio::test]
async fn an_unknown_tenant_is_refused_without_a_word_about_the_others() {
    let (address, stop) = serve(TenantLimits::default()).await;
    assert!(get(&address, "/v1/other/runs").await.starts_with("http/1.1 404"));
    assert!(get(&address, "/t/other").await.starts_with("http/1.1 404"));
    stop.cancel();
}
