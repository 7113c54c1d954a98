//! The store of what was fetched, by digest: in the user's data directory, and in the folder that a project carries
//! along.
//!
//! Every read checks the digest: a store is a convenience, never a reason to believe bytes.

use crate::{
    MAX_COMPONENT, artifact,
    signature::{Digests, MAX_SIGNATURE, SignatureFile},
};
use opcell_types::{
    Digest,
    files::{Folder, Readers},
};
use std::{
    fs, io,
    io::Read as _,
    path::{Path, PathBuf},
};

/// The folder of a project that holds what it fetched, for hosts without a network.
pub const VENDOR_FOLDER: &str = "opcell-vendor";

const COMPONENT: &str = "component.wasm";
const MANIFEST: &str = "manifest.json";
const SIGNATURE: &str = "signature.json";
const SBOM: &str = "sbom.cdx.json";

/// The largest bill of materials.
pub const MAX_SBOM: u64 = 8 << 20;

/// Folders that hold components; the first that has one is read.
#[derive(Debug, Clone, Default)]
pub struct Store {
    folders: Vec<PathBuf>,
}

/// A component with what came along.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stored {
    /// The component.
    pub component: Vec<u8>,
    /// The manifest under which the registry had it, byte for byte.
    pub manifest: Vec<u8>,
    /// Its signature, if there is one.
    pub signature: Option<SignatureFile>,
    /// Its bill of materials, if there is one: CycloneDX in JSON.
    pub sbom: Option<Vec<u8>>,
}

/// A component as a registry gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pulled {
    /// The digest of the manifest, `sha256:…`: what a tag stood for.
    pub manifest: String,
    /// The component with what came along.
    pub stored: Stored,
    /// The component's digests.
    pub digests: Digests,
}

/// Why nothing can be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No folder has it.
    #[error("it is not on this machine: no store has a component with the digest {}…", .0.short())]
    Missing(Digest),
    /// Its bytes are not those of its digest.
    #[error("{} is damaged: its digest is {}…, expected {}…", .file.display(), .found.short(), .expected.short())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// The digest of what is there.
        found: Digest,
        /// The digest under which it is stored.
        expected: Digest,
    },
    /// The signature beside it is not one.
    #[error("{}: {error}", .file.display())]
    Signature {
        /// The file.
        file: PathBuf,
        /// The problem.
        error: crate::signature::SignatureError,
    },
    /// It cannot be read or written.
    #[error("{}: {error}", .file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
}

impl Store {
    /// A store of these folders; the first that has a component is read.
    #[must_use]
    pub fn new(folders: Vec<PathBuf>) -> Self {
        Self { folders }
    }

    /// Returns the path of a component with a BLAKE3 digest, or the one it would have in the last folder.
    #[must_use]
    pub fn path(&self, digest: &Digest) -> Option<PathBuf> {
        let there = |folder: &PathBuf| folder.join(digest.as_str()).join(COMPONENT);
        self.folders.iter().map(there).find(|path| path.exists()).or_else(|| self.folders.last().map(there))
    }

    /// Reads a component by its BLAKE3 digest, and checks it.
    ///
    /// # Errors
    /// See [`StoreError`]. A damaged copy in the first folder is an error also when another folder has a good one.
    pub fn read(&self, digest: &Digest) -> Result<Stored, StoreError> {
        let missing = || StoreError::Missing(digest.clone());
        let file = self.path(digest).ok_or_else(missing)?;
        let component = match read(&file, MAX_COMPONENT) {
            Ok(component) => component,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing()),
            Err(error) => return Err(StoreError::Io { file, error }),
        };
        let found = Digest::of_hash(blake3::hash(&component));
        if found != *digest {
            return Err(StoreError::Damaged { file, found, expected: digest.clone() });
        }
        let signature_file = file.with_file_name(SIGNATURE);
        let signature = match optional(&signature_file, MAX_SIGNATURE)? {
            Some(bytes) => Some(
                SignatureFile::parse(&bytes).map_err(|error| StoreError::Signature { file: signature_file, error })?,
            ),
            None => None,
        };
        let sbom = optional(&file.with_file_name(SBOM), MAX_SBOM)?;
        let manifest = optional(&file.with_file_name(MANIFEST), artifact::MAX_MANIFEST)?.unwrap_or_default();
        Ok(Stored { component, manifest, signature, sbom })
    }

    /// Keeps a component under its digest, in the last folder. Replaces a damaged copy.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn keep(&self, stored: &Stored) -> Result<PathBuf, StoreError> {
        let folder = self.folders.last().ok_or_else(|| StoreError::Io {
            file: PathBuf::new(),
            error: io::Error::other("there is no home directory to keep it in; set HOME or XDG_DATA_HOME"),
        })?;
        let digest = Digest::of_hash(blake3::hash(&stored.component));
        let folder = make(folder, &digest).map_err(|error| StoreError::Io { file: folder.clone(), error })?;
        let signature = stored.signature.as_ref().map(|file| file.to_json().into_bytes());
        let files = [
            (MANIFEST, Some(stored.manifest.as_slice())),
            (SIGNATURE, signature.as_deref()),
            (SBOM, stored.sbom.as_deref()),
        ];
        for (name, bytes) in files.into_iter().chain([(COMPONENT, Some(stored.component.as_slice()))]) {
            let written = match bytes {
                Some(bytes) => folder.replace(name, bytes, Readers::Shared),
                None => match folder.remove(name) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                },
            };
            written.map_err(|error| StoreError::Io { file: folder.path().join(name), error })?;
        }
        Ok(folder.path().join(COMPONENT))
    }
}

impl Stored {
    /// A component with what came along.
    #[must_use]
    pub fn new(component: Vec<u8>, manifest: Vec<u8>, signature: Option<SignatureFile>, sbom: Option<Vec<u8>>) -> Self {
        Self { component, manifest, signature, sbom }
    }
}

fn read(file: &Path, most: u64) -> io::Result<Vec<u8>> {
    // A pipe in its place would wait forever.
    if !fs::metadata(file)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    fs::File::open(file)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(bytes)
}

fn optional(file: &Path, most: u64) -> Result<Option<Vec<u8>>, StoreError> {
    match read(file, most) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::Io { file: file.to_owned(), error }),
    }
}

/// The folder of a component. Where the store is, the user says; what is in a project's, a checkout may have brought.
fn make(store: &Path, digest: &Digest) -> io::Result<Folder> {
    let (above, name) = (store.parent().unwrap_or(Path::new("")), store.file_name().unwrap_or_default());
    let above = Folder::open_or_make(above, Readers::Shared)?;
    above.make_below(&Path::new(name).join(digest.as_str()), Readers::Shared)
}

#[cfg(test)]
mod tests {
    use super::{Digest, Store, StoreError, Stored};

    #[test]
    fn a_stored_component_is_read_back_and_a_flipped_byte_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(vec![folder.path().join("vendor"), folder.path().join("user")]);
        let digest = Digest::of_hash(blake3::hash(b"component"));
        assert!(matches!(store.read(&digest), Err(StoreError::Missing(_))));
        let kept = Stored::new(b"component".to_vec(), b"{}".to_vec(), None, Some(b"{}".to_vec()));
        let file = store.keep(&kept).unwrap();
        assert_eq!(store.read(&digest).unwrap(), kept);
        std::fs::write(&file, b"Component").unwrap();
        assert!(matches!(store.read(&digest), Err(StoreError::Damaged { .. })));
        store.keep(&kept).unwrap();
        assert_eq!(store.read(&digest).unwrap(), kept);
    }

    #[test]
    fn links_of_a_checkout_in_the_place_of_a_stores_files_lead_nowhere() {
        use std::os::unix::fs::symlink;
        let ground = tempfile::tempdir().unwrap();
        let victim = ground.path().join("bashrc");
        std::fs::write(&victim, "mine").unwrap();
        let kept = Stored::new(b"component".to_vec(), b"{}".to_vec(), None, Some(b"{}".to_vec()));
        let digest = Digest::of_hash(blake3::hash(b"component"));
        let vendor = ground.path().join("project/opcell-vendor");
        let folder = vendor.join(digest.as_str());
        std::fs::create_dir_all(&folder).unwrap();
        for name in
            ["sbom.cdx.json", "manifest.json", "component.wasm", &format!("sbom.cdx.{}.tmp", std::process::id())]
        {
            symlink(&victim, folder.join(name)).unwrap();
        }
        Store::new(vec![vendor.clone()]).keep(&kept).unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"mine");
        // The folders themselves.
        std::fs::remove_dir_all(&folder).unwrap();
        symlink(ground.path(), &folder).unwrap();
        assert!(matches!(Store::new(vec![vendor.clone()]).keep(&kept), Err(StoreError::Io { .. })));
        std::fs::remove_dir_all(ground.path().join("project")).unwrap();
        std::fs::create_dir(ground.path().join("project")).unwrap();
        symlink(ground.path(), &vendor).unwrap();
        assert!(matches!(Store::new(vec![vendor]).keep(&kept), Err(StoreError::Io { .. })));
        assert!(!ground.path().join("component.wasm").exists());
    }
}
