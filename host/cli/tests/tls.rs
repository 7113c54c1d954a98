//! `opcell serve` with a certificate: what a client sees of it, and that a new one is used without a restart.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

#[path = "support/server.rs"]
mod server;

use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream, pki_types::CertificateDer};
use server::{PATIENCE, Server};
use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// Writes a new certificate for this machine and its key; the certificate.
fn certify(folder: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
    made.cert.der().clone()
}

/// Asks for `/health` over TLS, trusting one certificate only.
fn health(address: &str, trusted: &CertificateDer<'static>) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    let mut connection = ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut stream = Stream::new(&mut connection, &mut socket);
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn a_new_certificate_is_used_without_a_restart_and_one_that_cannot_be_used_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let first = certify(folder.path());
    let log = folder.path().join("log");
    let options = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    let server = Server::start_logged(folder.path(), &options, fs::File::create(&log).unwrap());
    assert!(health(&server.address, &first).unwrap().starts_with("HTTP/1.1 200"));
    let stranger = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    assert!(health(&server.address, stranger.cert.der()).is_err(), "any certificate is trusted");

    fs::write(folder.path().join("cert.pem"), "not a certificate").unwrap();
    let refusals = || fs::read_to_string(&log).unwrap().matches("the certificate file holds no certificate").count();
    let began = Instant::now();
    while refusals() == 0 {
        assert!(began.elapsed() < PATIENCE, "no word of a certificate that cannot be used");
        thread::sleep(Duration::from_millis(100));
    }
    // It is tried again and again, and told once.
    thread::sleep(Duration::from_secs(5));
    assert_eq!(refusals(), 1);
    assert!(health(&server.address, &first).unwrap().starts_with("HTTP/1.1 200"));
    let second = certify(folder.path());
    let began = Instant::now();
    while health(&server.address, &second).is_err() {
        assert!(began.elapsed() < PATIENCE, "the new certificate is not used");
        thread::sleep(Duration::from_millis(100));
    }
    assert!(health(&server.address, &first).is_err());
}

#[test]
fn a_certificate_that_has_expired_is_served_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2020, 1, 2);
    fs::write(folder.path().join("key.pem"), key.serialize_pem()).unwrap();
    fs::write(folder.path().join("cert.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    let log = folder.path().join("log");
    let _server = Server::start_logged(
        folder.path(),
        &["--tls-cert", "cert.pem", "--tls-key", "key.pem"],
        fs::File::create(&log).unwrap(),
    );
    let began = Instant::now();
    loop {
        let said = fs::read_to_string(&log).unwrap();
        if said.contains("the certificate has expired") && said.contains("2020-01-02") {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{said}");
        thread::sleep(Duration::from_millis(50));
    }
}
