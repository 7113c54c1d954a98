//! The form of a plugin in a registry: a manifest with one layer, in the media types of the CNCF Wasm artifact, and two
//! referrers.
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
/// A manifest and a list of manifests, as Docker wrote them first. Their members are those of the others.
pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
/// See [`DOCKER_MANIFEST`].
pub const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
/// A component.
pub const WASM: &str = "application/wasm";
/// The media types that tools wrote before the CNCF agreed on [`WASM`]: `wash`, and those of the first `wasm-to-oci`
/// and its heirs.
const OLD_WASM: [&str; 2] =
    ["application/vnd.module.wasm.content.layer.v1+wasm", "application/vnd.wasm.content.layer.v1+wasm"];
/// The media type of a component's needs.
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

/// Returns the SHA-256 of bytes, in hexadecimal.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    sha2::Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut text, byte| {
        use std::fmt::Write as _;
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the digest of bytes, as registries write it.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", sha256(bytes))
}

/// A value that some write as `null` where they have none.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Something in a registry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// The media type.
    #[serde(default, deserialize_with = "or_default")]
    pub media_type: String,
    /// `sha256:…`.
    pub digest: String,
    /// Size of what the digest is of, in bytes; 0 where a list does not say it.
    #[serde(default, deserialize_with = "or_default")]
    pub size: u64,
    /// The artifact type, for a manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// The machine that a manifest of a list is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
}

/// A machine, as image lists name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// Such as `wasm` or `amd64`.
    #[serde(default, deserialize_with = "or_default")]
    pub architecture: String,
    /// Such as `wasip2`, `wasi` or `linux`.
    #[serde(default, deserialize_with = "or_default")]
    pub os: String,
}

impl Descriptor {
    /// Describes these bytes.
    #[must_use]
    pub fn of(media_type: &str, bytes: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: digest(bytes),
            size: bytes.len() as u64,
            artifact_type: None,
            platform: None,
        }
    }

    /// Returns `true` if a list says of this manifest that it is WebAssembly.
    fn is_wasm(&self) -> bool {
        let of_platform = |platform: &Platform| {
            matches!(platform.architecture.as_str(), "wasm" | "wasm32") || platform.os.starts_with("wasi")
        };
        self.platform.as_ref().is_some_and(of_platform)
            || self.artifact_type.as_deref().is_some_and(|kind| kind == WASM || kind == CONFIG)
    }

    /// Returns `true` if it is for no machine, as `docker buildx` writes of what it attests.
    fn is_attestation(&self) -> bool {
        self.platform.as_ref().is_some_and(|platform| platform.os == "unknown" && platform.architecture == "unknown")
    }
}

impl Index {
    /// The one manifest that is WebAssembly: by its platform or type, or because there is no other.
    ///
    /// # Errors
    /// With what the list has instead.
    pub fn wasm(&self) -> Result<&Descriptor, String> {
        let is_manifest = |listed: &&Descriptor| matches!(listed.media_type.as_str(), MANIFEST | DOCKER_MANIFEST | "");
        let manifests = || self.manifests.iter().filter(is_manifest);
        // One manifest may be listed for several machines.
        let mut digests = std::collections::HashSet::new();
        let wasm: Vec<&Descriptor> =
            manifests().filter(|listed| listed.is_wasm() && digests.insert(&listed.digest)).collect();
        match wasm.as_slice() {
            [] => {}
            [one] => return Ok(one),
            several => {
                let count = several.len();
                return Err(format!("it is a list of {count} WebAssembly manifests; name one by its digest"));
            }
        }
        let mut others = manifests().filter(|listed| !listed.is_attestation());
        match (others.next(), others.next()) {
            // What a list says of its only manifest is not needed: its layers are looked at.
            (Some(one), None) => Ok(one),
            (None, _)
                if self.manifests.iter().any(|listed| [INDEX, DOCKER_LIST].contains(&listed.media_type.as_str())) =>
            {
                Err("it is a list of lists, which are not followed; name a manifest by its digest".to_owned())
            }
            (None, _) => Err("it is a list without a manifest that can be read".to_owned()),
            (Some(_), Some(_)) => {
                let machine = |listed: &Descriptor| match &listed.platform {
                    Some(platform) => format!("{}/{}", platform.os, platform.architecture),
                    None => listed.media_type.clone(),
                };
                let kinds: Vec<String> = manifests().take(8).map(machine).collect();
                let kinds = opcell_types::text::printable(&kinds.join(", "), 200);
                Err(format!("it is a list of manifests, none of which is WebAssembly: {kinds}"))
            }
        }
    }
}

/// A manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Always 2.
    #[serde(default, deserialize_with = "or_default")]
    pub schema_version: u32,
    /// [`MANIFEST`].
    #[serde(default, deserialize_with = "or_default")]
    pub media_type: String,
    /// The artifact type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// Its configuration, which is not read.
    #[serde(default, deserialize_with = "or_default")]
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
    #[serde(default, deserialize_with = "or_default")]
    pub schema_version: u32,
    /// [`INDEX`].
    #[serde(default, deserialize_with = "or_default")]
    pub media_type: String,
    /// The manifests whose descriptors can be read.
    #[serde(deserialize_with = "readable")]
    pub manifests: Vec<Descriptor>,
}

/// Descriptors one by one: whoever may push adds to a list, and an odd one takes nothing from its neighbours.
fn readable<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Descriptor>, D::Error> {
    let listed: Option<Vec<serde_json::Value>> = Option::deserialize(deserializer)?;
    Ok(listed.into_iter().flatten().filter_map(|one| serde_json::from_value(one).ok()).collect())
}

/// A list of referrers with one more; nothing where it has it. What others wrote into the list stays as it is.
#[cfg(any(feature = "client", test))]
pub(crate) fn with_referrer(listed: Option<serde_json::Value>, referrer: &Descriptor) -> Option<serde_json::Value> {
    let is_list = |listed: &serde_json::Value| listed.get("manifests").is_some_and(serde_json::Value::is_array);
    let mut index = listed
        .filter(is_list)
        .unwrap_or_else(|| serde_json::json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": []}));
    let manifests = index.get_mut("manifests")?.as_array_mut()?;
    let is_there = |listed: &serde_json::Value| listed.get("digest").is_some_and(|digest| *digest == *referrer.digest);
    if manifests.iter().any(is_there) {
        return None;
    }
    manifests.push(serde_json::to_value(referrer).ok()?);
    Some(index)
}

/// Reads a manifest or a list of them. A byte-order mark before it is passed over: its digest is of all bytes.
///
/// # Errors
/// When it is something else.
#[cfg(any(feature = "client", test))]
pub(crate) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> serde_json::Result<T> {
    serde_json::from_slice(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes))
}

/// Returns why bytes are not a manifest, as the end of a sentence.
#[cfg(any(feature = "client", test))]
pub(crate) fn mistake(bytes: &[u8], error: &serde_json::Error) -> String {
    match read::<serde_json::Value>(bytes) {
        Err(_) => "it is not JSON".to_owned(),
        Ok(serde_json::Value::Object(entries)) if !entries.contains_key("layers") => {
            "it is not a manifest: it has no `layers`".to_owned()
        }
        Ok(serde_json::Value::Object(_)) => {
            let error = error.to_string();
            let why = error.split_once(" at line ").map_or(error.as_str(), |(why, _)| why);
            format!("it is not a manifest: {why}")
        }
        Ok(_) => "it is not a manifest: it is not an object".to_owned(),
    }
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
    /// Returns the manifest of a component.
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

    /// Returns the manifest of a statement about another manifest.
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
        let is_wasm = |layer: &&Descriptor| layer.media_type == WASM || OLD_WASM.contains(&layer.media_type.as_str());
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
    use super::{
        DOCKER_LIST, DOCKER_MANIFEST, Descriptor, INDEX, Index, MANIFEST, Manifest, OLD_WASM, Platform, WASM, mistake,
        sha256, with_referrer,
    };

    fn listed(name: &str, machine: Option<(&str, &str)>) -> Descriptor {
        let platform = machine.map(|(os, architecture)| Platform { architecture: architecture.into(), os: os.into() });
        Descriptor { platform, ..Descriptor::of(MANIFEST, name.as_bytes()) }
    }

    fn chosen(manifests: &[Descriptor]) -> Result<Descriptor, String> {
        let media_type = INDEX.to_owned();
        Index { schema_version: 2, media_type, manifests: manifests.to_vec() }.wasm().cloned()
    }

    #[test]
    fn the_one_manifest_of_a_list_that_is_webassembly_is_taken() {
        let wasm = listed("wasm", Some(("wasip2", "wasm")));
        let native = listed("native", Some(("linux", "amd64")));
        let attested = listed("attested", Some(("unknown", "unknown")));
        let plain = listed("plain", None);
        let typed = Descriptor { artifact_type: Some(WASM.to_owned()), ..listed("typed", None) };
        assert_eq!(chosen(&[native.clone(), wasm.clone(), attested.clone()]), Ok(wasm.clone()));
        assert_eq!(chosen(&[plain.clone(), typed.clone()]), Ok(typed));
        assert_eq!(chosen(&[plain.clone(), attested]), Ok(plain.clone()));
        assert!(
            chosen(&[wasm.clone(), listed("other", Some(("wasi", "wasm")))]).unwrap_err().contains("2 WebAssembly")
        );
        let same = Descriptor { platform: plain.platform.clone(), ..wasm.clone() };
        let same = Descriptor { artifact_type: Some(WASM.to_owned()), ..same };
        assert_eq!(chosen(&[wasm.clone(), same]), Ok(wasm.clone()), "one manifest for two machines");
        let none = chosen(&[native, listed("arm", Some(("linux", "arm64")))]).unwrap_err();
        assert!(none.contains("linux/amd64, linux/arm64"), "{none}");
        assert!(chosen(&[]).is_err());
        let nested = Descriptor { media_type: INDEX.to_owned(), ..wasm };
        let nested = chosen(&[nested]).unwrap_err();
        assert!(nested.contains("list of lists"), "a list in a list is not followed: {nested}");
    }

    #[test]
    fn descriptors_of_a_list_are_read_one_by_one_in_the_forms_that_tools_write() {
        let digest = format!("sha256:{}", sha256(b"x"));
        let list = |entries: serde_json::Value| serde_json::from_value::<Index>(entries).unwrap().wasm().cloned();
        for entry in [
            serde_json::json!({"mediaType": MANIFEST, "digest": digest}),
            serde_json::json!({"mediaType": MANIFEST, "digest": digest, "size": null}),
            serde_json::json!({"mediaType": DOCKER_MANIFEST, "digest": digest, "size": 1}),
            serde_json::json!({"digest": digest, "size": 1, "platform": {"architecture": "wasm", "os": null}}),
        ] {
            let odd = serde_json::json!({"mediaType": MANIFEST, "digest": 5, "size": "x"});
            let listed = serde_json::json!({"mediaType": DOCKER_LIST, "manifests": [odd, entry]});
            assert_eq!(list(listed).map(|chosen| chosen.digest), Ok(digest.clone()), "{entry}");
        }
        assert!(list(serde_json::json!({"manifests": null})).is_err());
    }

    #[test]
    fn a_referrer_is_added_to_a_list_and_those_of_others_stay() {
        let referrer = Descriptor::of(MANIFEST, b"x");
        let odd = serde_json::json!({"manifests": [{"digest": 5, "annotations": {"a": "b"}}], "subject": null});
        let added = with_referrer(Some(odd.clone()), &referrer).unwrap();
        assert_eq!(added["manifests"][0], odd["manifests"][0]);
        assert_eq!(added["manifests"][1]["digest"], referrer.digest.as_str());
        assert_eq!(with_referrer(Some(added), &referrer), None);
        assert!(with_referrer(None, &referrer).is_some());
    }

    #[test]
    fn a_manifest_without_a_configuration_is_one_and_what_is_none_is_named_without_words_of_a_library() {
        let manifest = serde_json::json!({"schemaVersion": 2, "config": null, "layers": [Descriptor::of(WASM, b"x")]});
        assert!(serde_json::from_value::<Manifest>(manifest).unwrap().component().is_ok());
        let of = |text: &str| mistake(text.as_bytes(), &serde_json::from_str::<Manifest>(text).unwrap_err());
        assert_eq!(of("<html>"), "it is not JSON");
        assert_eq!(of("[]"), "it is not a manifest: it is not an object");
        assert_eq!(of(r#"{"config":{}}"#), "it is not a manifest: it has no `layers`");
    }

    #[test]
    fn older_media_types_of_a_component_are_read() {
        for kind in OLD_WASM {
            let mut manifest = Manifest::of_component(b"{}", b"component");
            manifest.layers = vec![Descriptor::of(kind, b"component")];
            assert!(manifest.component().is_ok(), "{kind}");
        }
    }

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
