//! What a plugin looks like in a registry: a manifest with one layer, in the media types of the CNCF Wasm artifact, and
//! two referrers.
//!
//! `wkg` and `wash` read what is written here. Signature and bill of materials are artifacts of their own that refer to
//! the manifest, so that a reader who wants neither sees an ordinary component.

use crate::MAX_COMPONENT;
use serde::{Deserialize, Serialize};
use sha2::Digest as _;

/// A manifest.
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// A list of manifests.
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// A component.
pub const WASM: &str = "application/wasm";
/// What `wash` wrote before the CNCF agreed on [`WASM`].
const OLD_WASM: &str = "application/vnd.module.wasm.content.layer.v1+wasm";
/// What a component needs to run.
pub const CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// Nothing: `{}`.
pub const EMPTY: &str = "application/vnd.oci.empty.v1+json";
/// A publisher's signature.
pub const SIGNATURE: &str = "application/vnd.opcell.signature.v1+json";
/// A bill of materials.
pub const SBOM: &str = "application/vnd.cyclonedx+json";

/// The largest manifest that is read; registries take four times as much.
pub const MAX_MANIFEST: u64 = 1 << 20;
/// A plugin has one layer; more than this is not a plugin.
const MAX_LAYERS: usize = 16;

/// Of bytes, in hexadecimal.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    sha2::Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut text, byte| {
        use std::fmt::Write as _;
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Of bytes, as registries write it.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", sha256(bytes))
}

/// Something in a registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// What it is.
    pub media_type: String,
    /// `sha256:…`.
    pub digest: String,
    /// Size of what the digest is of, in bytes.
    pub size: u64,
    /// What it is, for a manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
}

impl Descriptor {
    /// Of these bytes.
    #[must_use]
    pub fn of(media_type: &str, bytes: &[u8]) -> Self {
        Self { media_type: media_type.to_owned(), digest: digest(bytes), size: bytes.len() as u64, artifact_type: None }
    }
}

/// A manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Always 2.
    pub schema_version: u32,
    /// [`MANIFEST`].
    #[serde(default)]
    pub media_type: String,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// Its configuration.
    pub config: Descriptor,
    /// Its content.
    #[serde(deserialize_with = "few")]
    pub layers: Vec<Descriptor>,
    /// The manifest that this one says something about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Descriptor>,
}

/// A list of manifests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    /// Always 2.
    pub schema_version: u32,
    /// [`INDEX`].
    #[serde(default)]
    pub media_type: String,
    /// The manifests.
    pub manifests: Vec<Descriptor>,
}

/// Stops at the first layer too many, before the others take memory.
fn few<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Descriptor>, D::Error> {
    struct Few;
    impl<'de> serde::de::Visitor<'de> for Few {
        type Value = Vec<Descriptor>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "at most {MAX_LAYERS} layers")
        }
        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut layers = Vec::new();
            while let Some(layer) = list.next_element()? {
                if layers.len() == MAX_LAYERS {
                    return Err(serde::de::Error::custom(format_args!("it has more than {MAX_LAYERS} layers")));
                }
                layers.push(layer);
            }
            Ok(layers)
        }
    }
    deserializer.deserialize_seq(Few)
}

impl Manifest {
    /// Of a component.
    #[must_use]
    pub fn of_component(config: &[u8], component: &[u8]) -> Self {
        Self {
            schema_version: 2,
            media_type: MANIFEST.to_owned(),
            artifact_type: None,
            config: Descriptor::of(CONFIG, config),
            layers: vec![Descriptor::of(WASM, component)],
            subject: None,
        }
    }

    /// Of something that is said about another manifest.
    #[must_use]
    pub fn about(subject: Descriptor, artifact_type: &str, content: &[u8]) -> Self {
        Self {
            schema_version: 2,
            media_type: MANIFEST.to_owned(),
            artifact_type: Some(artifact_type.to_owned()),
            config: Descriptor::of(EMPTY, b"{}"),
            layers: vec![Descriptor::of(artifact_type, content)],
            subject: Some(subject),
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // Texts and numbers under names: nothing that JSON refuses.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The one component in it.
    ///
    /// # Errors
    /// With what it has instead.
    pub fn component(&self) -> Result<&Descriptor, String> {
        let is_wasm = |layer: &&Descriptor| layer.media_type == WASM || layer.media_type == OLD_WASM;
        let mut found = self.layers.iter().filter(is_wasm);
        match (found.next(), found.next()) {
            (Some(layer), None) if layer.size > 0 && layer.size <= MAX_COMPONENT => Ok(layer),
            (Some(layer), None) => {
                Err(format!("its component has {} bytes; at most {MAX_COMPONENT} are read", layer.size))
            }
            (Some(_), Some(_)) => Err("it has more than one component".to_owned()),
            (None, _) => {
                let kinds: Vec<&str> = self.layers.iter().map(|layer| layer.media_type.as_str()).collect();
                let kinds = opcell_types::text::printable(&kinds.join(", "), 200);
                Err(format!("it holds no component (`{WASM}`), but: {kinds}"))
            }
        }
    }
}

/// The configuration of a component: what it imports and exports.
#[must_use]
pub fn config(component: &[u8], imports: &[String], exports: &[String]) -> Vec<u8> {
    let config = serde_json::json!({
        "architecture": "wasm",
        "os": "wasip2",
        "layerDigests": [digest(component)],
        "component": {"exports": exports, "imports": imports},
    });
    config.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::{Manifest, sha256};

    #[test]
    fn a_component_is_found_by_its_media_type_and_a_million_layers_are_not_read() {
        let manifest = Manifest::of_component(b"{}", b"component");
        let read: Manifest = serde_json::from_slice(&manifest.to_bytes()).unwrap();
        assert_eq!(read.component().unwrap().size, 9);
        let layer = serde_json::to_string(&manifest.layers[0]).unwrap();
        let many = vec![layer.as_str(); 17].join(",");
        let text = String::from_utf8(manifest.to_bytes()).unwrap().replace(&layer, &many);
        let error = serde_json::from_str::<Manifest>(&text).unwrap_err().to_string();
        assert!(error.contains("more than 16 layers"), "{error}");
    }

    #[test]
    fn digests_are_those_of_the_standard() {
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
