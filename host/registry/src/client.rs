//! Pulls and pushes.
//!
//! One [`Client`] speaks to any registry. Every answer is bounded in size and time, every digest is computed here,
//! every hop of a redirect is checked: a registry can refuse to answer, and that is all that it can do.

mod auth;
mod error;
mod hops;

pub use error::RegistryError;

use crate::{
    MAX_COMPONENT, Reference,
    artifact::{self, Descriptor, Index, Manifest},
    signature::{Digests, MAX_SIGNATURE, PublicKey, SignatureFile},
    store::{MAX_SBOM, Pulled, Stored},
};
use hops::{Body, Connection};
use reqwest::{Method, StatusCode};
use std::time::Duration;

/// The credentials that may be looked up in the user's Docker configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Credentials {
    /// Credentials for the registry's host, as `docker login` wrote them.
    #[default]
    OfDocker,
    /// No credentials.
    Anonymous,
}

/// Longest pull or push, altogether.
const TOTAL_TIME: Duration = Duration::from_secs(300);

/// Referrers that are looked at: whoever may push to a repository can add any number.
const MAX_REFERRERS: usize = 32;

/// Speaks to registries.
#[derive(Debug, Clone, Default)]
pub struct Client {
    credentials: Credentials,
    roots: Vec<Vec<u8>>,
    total_time: Option<Duration>,
}

/// A plugin to push.
#[derive(Debug, Clone)]
pub struct Push {
    /// The component.
    pub component: Vec<u8>,
    /// Names of what it imports.
    pub imports: Vec<String>,
    /// Names of what it exports.
    pub exports: Vec<String>,
    /// The publisher's signature.
    pub signature: Option<SignatureFile>,
    /// The bill of materials, CycloneDX in JSON.
    pub sbom: Option<Vec<u8>>,
}

/// The result of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pushed {
    /// The digest of the manifest, `sha256:…`.
    pub manifest: String,
    /// The component's digests.
    pub digests: Digests,
}

impl Client {
    /// A client with the system's certificates and the user's Docker credentials.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With other credentials.
    #[must_use]
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = credentials;
        self
    }

    /// Trusts one more certificate authority, in PEM.
    #[must_use]
    pub fn root(mut self, pem: Vec<u8>) -> Self {
        self.roots.push(pem);
        self
    }

    /// Longest pull or push, altogether. Default: 5 minutes.
    #[must_use]
    pub fn total_time(mut self, time: Duration) -> Self {
        self.total_time = Some(time);
        self
    }

    async fn timed<T>(
        &self,
        reference: &Reference,
        work: impl Future<Output = Result<T, RegistryError>>,
    ) -> Result<T, RegistryError> {
        let time = self.total_time.unwrap_or(TOTAL_TIME);
        let late = || RegistryError::Timeout { host: reference.host().to_owned(), seconds: time.as_secs() };
        tokio::time::timeout(time, work).await.unwrap_or_else(|_| Err(late()))
    }

    /// Fetches a component with its signature and bill of materials. Where several publishers signed it, the signature
    /// by `expected` is taken, if there is one.
    ///
    /// # Errors
    /// See [`RegistryError`]. Dropping the future stops the requests.
    pub async fn pull(&self, reference: &Reference, expected: Option<&PublicKey>) -> Result<Pulled, RegistryError> {
        self.timed(reference, async {
            let connection = Connection::open(self, reference).await?;
            let (manifest_bytes, manifest) = connection.plugin_manifest(reference.version()).await?;
            let manifest_digest = artifact::digest(&manifest_bytes);
            let shape = |what: String| RegistryError::Shape { what: format!("{reference}: {what}") };
            let layer = manifest.component().map_err(shape)?;
            let component = connection.blob(layer, MAX_COMPONENT).await?;
            let digests = Digests::of(&component);
            let referrers = connection.referrers(&manifest_digest).await?;
            let signature = connection.signature(&referrers, &digests, expected).await?;
            let sbom = connection.sbom(&referrers).await?;
            Ok(Pulled {
                manifest: manifest_digest,
                stored: Stored::new(component, manifest_bytes, signature, sbom),
                digests,
            })
        })
        .await
    }

    /// Returns the present target of a tag: the digest of its manifest.
    ///
    /// # Errors
    /// As [`Self::pull`].
    pub async fn resolve(&self, reference: &Reference) -> Result<String, RegistryError> {
        self.timed(reference, async {
            let connection = Connection::open(self, reference).await?;
            Ok(artifact::digest(&connection.plugin_manifest(reference.version()).await?.0))
        })
        .await
    }

    /// Pushes a component under a tag, and what is said about it. The tag is moved last.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn push(&self, reference: &Reference, push: &Push) -> Result<Pushed, RegistryError> {
        self.timed(reference, async {
            let Some(tag) = reference.tag() else {
                return Err(RegistryError::Shape { what: format!("{reference} has no tag to push to") });
            };
            let connection = Connection::open_for_pushing(self, reference).await?;
            let config = artifact::config(&push.component, &push.imports, &push.exports);
            connection.upload(&config).await?;
            connection.upload(&push.component).await?;
            let bytes = Manifest::of_component(&config, &push.component).to_bytes();
            let subject = Descriptor::of(artifact::MANIFEST, &bytes);
            connection.put_manifest(&subject.digest, artifact::MANIFEST, &bytes).await?;
            let signature = push.signature.as_ref().map(|file| file.to_json().into_bytes());
            let about = [(artifact::SIGNATURE, signature.as_ref()), (artifact::SBOM, push.sbom.as_ref())];
            for (kind, content) in about {
                if let Some(content) = content {
                    connection.refer(&subject, kind, content).await?;
                }
            }
            connection.put_manifest(tag, artifact::MANIFEST, &bytes).await?;
            Ok(Pushed { manifest: subject.digest, digests: Digests::of(&push.component) })
        })
        .await
    }

    /// Reads a file from a URL that a person named, such as an index of plugins.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn read(&self, url: &str, most: u64) -> Result<Vec<u8>, RegistryError> {
        let (connection, url) = Connection::to(self, url)?;
        let time = self.total_time.unwrap_or(TOTAL_TIME);
        let read = connection.get(&url, "application/json", most);
        let late =
            || RegistryError::Timeout { host: url.host_str().unwrap_or_default().to_owned(), seconds: time.as_secs() };
        let answer = tokio::time::timeout(time, read).await.unwrap_or_else(|_| Err(late()))?;
        answer.ok_or_else(|| RegistryError::NotFound { what: url.to_string() })
    }
}

impl Connection<'_> {
    /// A plugin's manifest and its bytes. Of an image list, which `docker buildx` pushes, its one WebAssembly manifest.
    async fn plugin_manifest(&self, version: &str) -> Result<(Vec<u8>, Manifest), RegistryError> {
        let bytes = self.manifest_bytes(version).await?;
        // Where a list is pinned by its digest, the lock could not tell later what was pinned.
        let listed = artifact::read::<Index>(&bytes).ok().filter(|_| !version.starts_with("sha256:"));
        match listed {
            None => self.parsed(version, bytes),
            Some(index) => {
                let what = |why: String| RegistryError::Shape {
                    what: format!("{}/{} at `{version}`: {why}", self.host(), self.repository()),
                };
                let chosen = index.wasm().map_err(what)?;
                if !crate::reference::is_digest(&chosen.digest) {
                    let digest = opcell_types::text::printable(&chosen.digest, 100);
                    return Err(what(format!("`{digest}` is not a SHA-256 digest")));
                }
                self.manifest(&chosen.digest).await
            }
        }
    }

    /// A manifest and its bytes, checked where they were asked for by digest.
    async fn manifest(&self, version: &str) -> Result<(Vec<u8>, Manifest), RegistryError> {
        let bytes = self.manifest_bytes(version).await?;
        self.parsed(version, bytes)
    }

    async fn manifest_bytes(&self, version: &str) -> Result<Vec<u8>, RegistryError> {
        let url = self.url(&format!("manifests/{version}"))?;
        let kinds = [artifact::MANIFEST, artifact::INDEX, artifact::DOCKER_MANIFEST, artifact::DOCKER_LIST];
        let accept = kinds.join(", ");
        let what = || format!("{}/{} at `{version}`", self.host(), self.repository());
        let bytes = self.get(&url, &accept, artifact::MAX_MANIFEST).await?;
        let bytes = bytes.ok_or_else(|| RegistryError::NotFound { what: what() })?;
        let digest = artifact::digest(&bytes);
        if version.starts_with("sha256:") && version != digest {
            return Err(RegistryError::Digest { what: what(), expected: version.to_owned(), found: digest });
        }
        Ok(bytes)
    }

    fn parsed(&self, version: &str, bytes: Vec<u8>) -> Result<(Vec<u8>, Manifest), RegistryError> {
        let manifest = artifact::read::<Manifest>(&bytes);
        let manifest = manifest.map_err(|error| {
            let index = artifact::read::<Index>(&bytes).ok();
            let why = match index.as_ref().map(Index::wasm) {
                Some(Ok(chosen)) => format!("it is a list of manifests; name its plugin, `@{}`", chosen.digest),
                Some(Err(why)) => why,
                None => artifact::mistake(&bytes, &error),
            };
            let why = opcell_types::text::printable(&why, 300);
            RegistryError::Shape { what: format!("{}/{} at `{version}`: {why}", self.host(), self.repository()) }
        })?;
        Ok((bytes, manifest))
    }

    /// Bytes by their digest.
    async fn blob(&self, descriptor: &Descriptor, most: u64) -> Result<Vec<u8>, RegistryError> {
        let what = || format!("{} of {}/{}", descriptor.digest, self.host(), self.repository());
        if !crate::reference::is_digest(&descriptor.digest) {
            let digest = opcell_types::text::printable(&descriptor.digest, 100);
            return Err(RegistryError::Shape { what: format!("`{digest}` is not a SHA-256 digest") });
        }
        let url = self.url(&format!("blobs/{}", descriptor.digest))?;
        let bytes = self.get(&url, "*/*", most.min(descriptor.size)).await?;
        let bytes = bytes.ok_or_else(|| RegistryError::NotFound { what: what() })?;
        let found = artifact::digest(&bytes);
        if found != descriptor.digest {
            return Err(RegistryError::Digest { what: what(), expected: descriptor.digest.clone(), found });
        }
        Ok(bytes)
    }

    /// Returns the referrers of a manifest, from the referrers API or else from the tag that replaces it. An answer that
    /// is not a list counts as an empty one: a registry can leave out referrers anyway.
    async fn referrers(&self, manifest: &str) -> Result<Vec<Descriptor>, RegistryError> {
        let read = |bytes: Vec<u8>| artifact::read::<Index>(&bytes).ok().map(|index| index.manifests);
        let url = self.url(&format!("referrers/{manifest}"))?;
        let listed = match self.get(&url, artifact::INDEX, artifact::MAX_MANIFEST).await {
            Ok(listed) => listed.and_then(read),
            // Registries without the API.
            Err(RegistryError::Status { status: 400 | 405 | 406 | 500 | 501, .. }) => None,
            Err(error) => return Err(error),
        };
        if let Some(listed) = listed {
            return Ok(listed);
        }
        let url = self.url(&format!("manifests/{}", fallback_tag(manifest)))?;
        Ok(self.get(&url, artifact::INDEX, artifact::MAX_MANIFEST).await?.and_then(read).unwrap_or_default())
    }

    /// The referrers of a kind.
    fn about<'d>(&self, referrers: &'d [Descriptor], kind: &'d str) -> impl Iterator<Item = &'d Descriptor> {
        referrers.iter().filter(move |found| found.artifact_type.as_deref() == Some(kind)).take(MAX_REFERRERS)
    }

    /// The content of a referrer.
    async fn content(&self, referrer: &Descriptor, most: u64) -> Result<Vec<u8>, RegistryError> {
        let (_, manifest) = self.manifest(&referrer.digest).await?;
        let shape = |what: &str| RegistryError::Shape { what: format!("{}: {what}", referrer.digest) };
        let [layer] = manifest.layers.as_slice() else { return Err(shape("expected one layer")) };
        if layer.size > most {
            return Err(RegistryError::TooLarge { what: layer.digest.clone(), most });
        }
        self.blob(layer, most).await
    }

    /// The first bill of materials that can be read.
    async fn sbom(&self, referrers: &[Descriptor]) -> Result<Option<Vec<u8>>, RegistryError> {
        let mut unread = None;
        for referrer in self.about(referrers, artifact::SBOM) {
            match self.content(referrer, MAX_SBOM).await {
                Ok(content) => return Ok(Some(content)),
                Err(error) if error.is_of_content() => unread = unread.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        unread.map_or(Ok(None), Err)
    }

    async fn signature(
        &self,
        referrers: &[Descriptor],
        digests: &Digests,
        expected: Option<&PublicKey>,
    ) -> Result<Option<SignatureFile>, RegistryError> {
        let mut first = None;
        let mut broken = None;
        for referrer in self.about(referrers, artifact::SIGNATURE) {
            let bytes = match self.content(referrer, MAX_SIGNATURE).await {
                Ok(bytes) => bytes,
                Err(error) if error.is_of_content() => {
                    broken = broken.or(Some(error));
                    continue;
                }
                Err(error) => return Err(error),
            };
            match SignatureFile::parse(&bytes).and_then(|file| Ok((file.signer_of(digests)?, file))) {
                Ok((signer, file)) if expected.is_none_or(|expected| *expected == signer) => return Ok(Some(file)),
                Ok((_, file)) => first = first.or(Some(file)),
                Err(error) => broken = broken.or(Some(RegistryError::Signature(error))),
            }
        }
        match (first, broken) {
            (Some(file), _) => Ok(Some(file)),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(None),
        }
    }

    async fn upload(&self, bytes: &[u8]) -> Result<(), RegistryError> {
        let digest = artifact::digest(bytes);
        let there = self.url(&format!("blobs/{digest}"))?;
        if self.send(Method::HEAD, &there, Body::None).await?.status() == StatusCode::OK {
            return Ok(());
        }
        let begun = self.send(Method::POST, &self.url("blobs/uploads/")?, Body::None).await?;
        let begun = self.expect(begun, &[StatusCode::ACCEPTED, StatusCode::CREATED]).await?;
        let mut location = self.location(&begun)?;
        location.query_pairs_mut().append_pair("digest", &digest);
        let stored = self.send(Method::PUT, &location, Body::Bytes("application/octet-stream", bytes)).await?;
        self.expect(stored, &[StatusCode::CREATED, StatusCode::NO_CONTENT]).await.map(drop)
    }

    async fn put_manifest(&self, version: &str, kind: &str, bytes: &[u8]) -> Result<reqwest::Response, RegistryError> {
        let url = self.url(&format!("manifests/{version}"))?;
        let stored = self.send(Method::PUT, &url, Body::Bytes(kind, bytes)).await?;
        self.expect(stored, &[StatusCode::CREATED, StatusCode::OK, StatusCode::ACCEPTED]).await
    }

    /// Says something about a manifest; where the registry does not list referrers itself, in the tag that stands in
    /// for it.
    async fn refer(&self, subject: &Descriptor, kind: &str, content: &[u8]) -> Result<(), RegistryError> {
        self.upload(b"{}").await?;
        self.upload(content).await?;
        let bytes = Manifest::about(subject.clone(), kind, content).to_bytes();
        let mut referrer = Descriptor::of(artifact::MANIFEST, &bytes);
        let stored = self.put_manifest(&referrer.digest, artifact::MANIFEST, &bytes).await?;
        if stored.headers().contains_key("oci-subject") {
            return Ok(());
        }
        referrer.artifact_type = Some(kind.to_owned());
        let tag = fallback_tag(&subject.digest);
        let url = self.url(&format!("manifests/{tag}"))?;
        let listed = self.get(&url, artifact::INDEX, artifact::MAX_MANIFEST).await?;
        let listed = listed.and_then(|bytes| artifact::read::<serde_json::Value>(&bytes).ok());
        match artifact::with_referrer(listed, &referrer) {
            Some(index) => self.put_manifest(&tag, artifact::INDEX, index.to_string().as_bytes()).await.map(drop),
            None => Ok(()),
        }
    }
}

/// Returns the tag under which registries without a referrers API keep the list.
fn fallback_tag(manifest: &str) -> String {
    manifest.replace(':', "-")
}
