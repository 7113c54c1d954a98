//! Pushes and pulls against Debian's `docker-registry`, and against the client that other tools are built on.

#![cfg(feature = "client")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

#[path = "support/docker_registry.rs"]
mod docker_registry;

use docker_registry::Registry;
use opcell_registry::{
    client::{Client, Credentials, Push, RegistryError},
    signature::SecretKey,
};
use std::fs;

const COMPONENT: &[u8] = b"\0asm\r\0\x01\0 and some more bytes of a component";

fn signed(key: &SecretKey) -> Push {
    let digests = opcell_registry::signature::Digests::of(COMPONENT);
    Push {
        component: COMPONENT.to_vec(),
        imports: vec!["opcell:plugin/log@0.1.0".to_owned()],
        exports: vec!["opcell:plugin/operations@0.1.0".to_owned()],
        signature: Some(key.sign(&digests)),
        sbom: Some(b"{\"bomFormat\":\"CycloneDX\"}".to_vec()),
    }
}

#[tokio::test]
async fn what_is_pushed_is_pulled_with_its_signature_and_bill_of_materials() {
    let Some(registry) = Registry::start(false, None) else { return };
    let client = Client::new().credentials(Credentials::Anonymous);
    let reference = registry.reference("tools/greet:1.0");
    let (key, other) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
    assert!(matches!(client.pull(&reference, None).await, Err(RegistryError::NotFound { .. })));
    let pushed = client.push(&reference, &signed(&key)).await.unwrap();
    // A second signature stands beside the first, and pushing again changes nothing.
    client.push(&reference, &signed(&other)).await.unwrap();
    client.push(&reference, &signed(&other)).await.unwrap();
    for reference in [reference.clone(), reference.at(&pushed.manifest)] {
        for key in [&key, &other] {
            let pulled = client.pull(&reference, Some(&key.public())).await.unwrap();
            assert_eq!((&pulled.manifest, pulled.stored.component.as_slice()), (&pushed.manifest, COMPONENT));
            assert_eq!(pulled.stored.signature.unwrap().signer_of(&pulled.digests).unwrap(), key.public());
            assert_eq!(pulled.stored.sbom.unwrap(), b"{\"bomFormat\":\"CycloneDX\"}");
        }
    }
}

#[tokio::test]
async fn bytes_that_the_registry_changed_are_refused() {
    let Some(registry) = Registry::start(false, None) else { return };
    let client = Client::new().credentials(Credentials::Anonymous);
    let reference = registry.reference("greet:1");
    client.push(&reference, &signed(&SecretKey::generate().unwrap())).await.unwrap();
    let blob = registry.files().into_iter().find(|file| fs::read(file).unwrap() == COMPONENT).unwrap();
    let mut bytes = COMPONENT.to_vec();
    bytes[20] ^= 1;
    fs::write(blob, bytes).unwrap();
    let error = client.pull(&reference, None).await.unwrap_err();
    assert!(matches!(error, RegistryError::Digest { .. }), "{error}");
}

#[tokio::test]
async fn credentials_are_those_of_the_docker_configuration() {
    let Some(registry) = Registry::start(true, None) else { return };
    let reference = registry.reference("greet:1");
    let push = signed(&SecretKey::generate().unwrap());
    let anonymous = Client::new().credentials(Credentials::Anonymous);
    let error = anonymous.push(&reference, &push).await.unwrap_err();
    assert!(matches!(error, RegistryError::Unauthorized { given: false, .. }), "{error}");
    assert!(error.help().contains("docker login localhost:"), "{}", error.help());

    let folder = tempfile::tempdir().unwrap();
    let docker = |auth: &str| {
        let auths = format!("{{\"auths\":{{\"localhost:{}\":{{\"auth\":\"{auth}\"}}}}}}", registry.port);
        fs::write(folder.path().join("config.json"), auths).unwrap();
    };
    // SAFETY: the only test of this program that reads or sets a variable of the environment.
    unsafe { std::env::set_var("DOCKER_CONFIG", folder.path()) };
    docker("YWRhOndyb25n"); // ada:wrong
    let error = Client::new().push(&reference, &push).await.unwrap_err();
    assert!(matches!(error, RegistryError::Unauthorized { given: true, .. }), "{error}");
    docker("YWRhOnNlY3JldA=="); // ada:secret
    Client::new().push(&reference, &push).await.unwrap();
    assert_eq!(Client::new().pull(&reference, None).await.unwrap().stored.component, COMPONENT);
}

#[tokio::test]
async fn tls_is_checked_against_the_authorities_that_are_trusted() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let Some(registry) = Registry::start(false, Some((&cert, &key))) else { return };
    let reference = registry.reference("greet:1");
    let push = signed(&SecretKey::generate().unwrap());
    let client = Client::new().credentials(Credentials::Anonymous);
    let error = client.push(&reference, &push).await.unwrap_err();
    assert!(matches!(error, RegistryError::Connect { .. }) && error.to_string().contains("certificate"), "{error}");
    let trusting = client.root(cert.into_bytes());
    trusting.push(&reference, &push).await.unwrap();
    assert_eq!(trusting.pull(&reference, None).await.unwrap().stored.component, COMPONENT);
}

#[tokio::test]
async fn other_tools_read_what_is_pushed_and_are_read() {
    use oci_client::{
        client::{ClientConfig, ClientProtocol, Config, ImageLayer},
        secrets::RegistryAuth,
    };
    let Some(registry) = Registry::start(false, None) else { return };
    let config = ClientConfig { protocol: ClientProtocol::Http, ..ClientConfig::default() };
    let theirs = oci_client::Client::new(config);
    let ours = Client::new().credentials(Credentials::Anonymous);
    let named =
        |name: &str| -> oci_client::Reference { format!("localhost:{}/{name}", registry.port).parse().unwrap() };

    let reference = registry.reference("ours:1");
    ours.push(&reference, &signed(&SecretKey::generate().unwrap())).await.unwrap();
    let image = theirs.pull(&named("ours:1"), &RegistryAuth::Anonymous, vec!["application/wasm"]).await.unwrap();
    assert_eq!(image.layers[0].data.as_ref(), COMPONENT);
    assert_eq!(image.config.media_type, "application/vnd.wasm.config.v0+json");

    let layer = ImageLayer::new(COMPONENT.to_vec(), "application/wasm".to_owned(), None);
    let config = Config::new(b"{}".to_vec(), "application/vnd.wasm.config.v0+json".to_owned(), None);
    theirs.push(&named("theirs:1"), &[layer], config, &RegistryAuth::Anonymous, None).await.unwrap();
    let pulled = ours.pull(&registry.reference("theirs:1"), None).await.unwrap();
    assert_eq!((pulled.stored.component.as_slice(), pulled.stored.signature), (COMPONENT, None));
}
