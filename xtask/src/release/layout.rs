//! OCI image layouts: blobs by their digests, and a list of the manifests.
//!
//! Images and plugins are written in this form, so that no daemon and no registry takes part.

use super::{sha256, tar::Tar};
use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, path::Path};

/// The media type of a manifest.
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The media type of a list of manifests.
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const TAG: &str = "org.opencontainers.image.ref.name";

/// A layout in memory.
#[derive(Default)]
pub struct Layout {
    blobs: BTreeMap<String, Vec<u8>>,
    manifests: Vec<Value>,
}

impl Layout {
    /// Adds bytes; returns their descriptor.
    pub fn add(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let digest = format!("sha256:{}", sha256(&bytes));
        let descriptor = json!({"mediaType": media_type, "digest": digest, "size": bytes.len()});
        self.blobs.insert(digest, bytes);
        descriptor
    }

    /// Adds a manifest; a tag that is given names it from now on. Returns its descriptor.
    pub fn add_manifest(&mut self, bytes: Vec<u8>, tag: Option<&str>) -> Result<Value> {
        let manifest: Value = serde_json::from_slice(&bytes).context("a manifest is not JSON")?;
        let media_type = manifest.get("mediaType").and_then(Value::as_str).unwrap_or(MANIFEST).to_owned();
        let mut descriptor = self.add(&media_type, bytes);
        for key in ["artifactType", "subject"] {
            // The subject is repeated, so that referrers are found without reading every manifest.
            if let (Some(value), Value::Object(fields)) = (manifest.get(key), &mut descriptor) {
                let value =
                    if key == "subject" { json!({"opcell.subject": value.get("digest")}) } else { value.clone() };
                fields.insert(if key == "subject" { "annotations" } else { key }.to_owned(), value);
            }
        }
        if let (Some(tag), Value::Object(fields)) = (tag, &mut descriptor) {
            fields.insert("annotations".to_owned(), json!({TAG: tag}));
        }
        self.manifests.retain(|known| known.get("digest") != descriptor.get("digest"));
        self.manifests.push(descriptor.clone());
        Ok(descriptor)
    }

    /// Returns the bytes with a digest.
    pub fn blob(&self, digest: &str) -> Option<&[u8]> {
        self.blobs.get(digest).map(Vec::as_slice)
    }

    /// Returns the descriptor of the manifest with a digest or a tag.
    pub fn manifest(&self, name: &str) -> Option<&Value> {
        let tagged =
            |found: &&Value| found.pointer("/annotations").and_then(|all| all.get(TAG)).is_some_and(|tag| tag == name);
        let with_digest = |found: &&Value| found.get("digest").is_some_and(|digest| digest == name);
        self.manifests.iter().find(with_digest).or_else(|| self.manifests.iter().find(tagged))
    }

    /// Returns the descriptors of the manifests that refer to a digest.
    pub fn referrers(&self, digest: &str) -> Vec<Value> {
        let refers =
            |found: &&Value| found.pointer("/annotations/opcell.subject").is_some_and(|subject| subject == digest);
        self.manifests.iter().filter(refers).cloned().collect()
    }

    /// Returns the bytes of an archive of the layout.
    pub fn archive(&self) -> Result<Vec<u8>> {
        let mut manifests = self.manifests.clone();
        manifests.sort_by_key(|descriptor| descriptor.get("digest").map(Value::to_string));
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
        let mut archive = Tar::default();
        archive.file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        archive.file("index.json", 0o644, index.to_string().as_bytes())?;
        for (digest, bytes) in &self.blobs {
            archive.file(&format!("blobs/{}", digest.replace(':', "/")), 0o644, bytes)?;
        }
        Ok(archive.finish())
    }

    /// Reads an unpacked layout; every blob must have its digest.
    pub fn read(folder: &Path) -> Result<Self> {
        let index = folder.join("index.json");
        let index: Value = serde_json::from_slice(&fs::read(&index).with_context(|| index.display().to_string())?)?;
        let manifests = index.get("manifests").and_then(Value::as_array).context("index.json has no manifests")?;
        let mut layout = Self { blobs: BTreeMap::new(), manifests: manifests.clone() };
        for entry in fs::read_dir(folder.join("blobs/sha256"))? {
            let entry = entry?;
            let (name, bytes) = (entry.file_name(), fs::read(entry.path())?);
            ensure!(
                name.to_str() == Some(&sha256(&bytes)),
                "{} has other bytes than its digest",
                entry.path().display()
            );
            layout.blobs.insert(format!("sha256:{}", sha256(&bytes)), bytes);
        }
        Ok(layout)
    }

    /// Reads the JSON of a blob that a descriptor names.
    pub fn json(&self, descriptor: &Value) -> Result<Value> {
        let digest = descriptor.get("digest").and_then(Value::as_str).unwrap_or_default();
        let bytes = self.blob(digest).ok_or_else(|| anyhow!("the layout has no blob {digest:?}"))?;
        serde_json::from_slice(bytes).with_context(|| format!("the blob {digest} is not JSON"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;

    fn sample() -> Layout {
        let mut layout = Layout::default();
        let config = layout.add("application/vnd.oci.empty.v1+json", b"{}".to_vec());
        let image = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": []});
        let image = layout.add_manifest(image.to_string().into_bytes(), Some("0.1.0")).unwrap();
        let signature = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": "signature", "subject": image, "config": config,
            "layers": [],
        });
        layout.add_manifest(signature.to_string().into_bytes(), None).unwrap();
        layout
    }

    #[test]
    fn an_archive_of_a_layout_is_read_as_it_was_and_has_the_same_bytes_each_time() {
        let archive = sample().archive().unwrap();
        assert_eq!(archive, sample().archive().unwrap());
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.tar"), &archive).unwrap();
        let unpacked =
            std::process::Command::new("tar").arg("-xf").arg("a.tar").current_dir(folder.path()).status().unwrap();
        assert!(unpacked.success());
        let read = Layout::read(folder.path()).unwrap();
        let image = read.manifest("0.1.0").unwrap();
        let digest = image.get("digest").unwrap().as_str().unwrap();
        assert_eq!(read.referrers(digest).len(), 1);
        assert_eq!(read.referrers(digest).first().unwrap().get("artifactType").unwrap(), "signature");
        assert_eq!(read.archive().unwrap(), archive);

        let blob = folder.path().join("blobs").join(digest.replace(':', "/"));
        fs::write(&blob, b"changed").unwrap();
        let refused = Layout::read(folder.path()).map(drop).unwrap_err().to_string();
        assert!(refused.contains("other bytes than its digest"), "{refused}");
    }
}
