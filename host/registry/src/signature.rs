//! Signatures of publishers: ed25519 over the digests of a component.
//!
//! The signed text is two lines after a fixed first one: the SHA-256 by which registries know the component, and the
//! BLAKE3 by which locks know it. A host that checked either needs no third hash to check the signature.

mod helper;

use base64::Engine as _;
use ed25519_dalek::{
    Signer as _, SigningKey, VerifyingKey,
    pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _, spki::der::pem::LineEnding},
};
use opcell_types::{
    Digest,
    files::{Folder, Readers},
    text::printable,
};
use serde::{Deserialize, Serialize};
use std::{
    fmt, io,
    io::{Read as _, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    str::FromStr,
};

pub use helper::Helper;

const BASE64: base64::engine::GeneralPurpose = base64::engine::general_purpose::URL_SAFE_NO_PAD;
const PREFIX: &str = "ed25519:";

/// The largest signature file that is read.
pub const MAX_SIGNATURE: u64 = 4 << 10;

/// A publisher's public key: `ed25519:` and 64 hexadecimal digits, which no terminal breaks at a hyphen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        self.0.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for PublicKey {
    type Err = SignatureError;

    fn from_str(text: &str) -> Result<Self, SignatureError> {
        let bytes: Option<[u8; 32]> = text.strip_prefix(PREFIX).and_then(bytes_of_hex);
        let key = bytes.and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok()).filter(|key| !key.is_weak());
        key.map(Self).ok_or_else(|| SignatureError::Key(printable(text, 80)))
    }
}

/// Thirty-two bytes of lower-case digits; one key has one spelling.
fn bytes_of_hex(digits: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if digits.len() != 64 || digits.bytes().any(|c| !c.is_ascii_digit() && !(b'a'..=b'f').contains(&c)) {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// Why a signature says nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// It is not a public key.
    #[error("`{0}` is not a publisher's key: expected `ed25519:` and 64 hexadecimal digits")]
    Key(String),
    /// It is not a signature file.
    #[error("the signature cannot be read: {0}")]
    Shape(String),
    /// It is a signature of another component.
    #[error("the signature is of another component")]
    OtherComponent,
    /// It does not match its key.
    #[error("the signature is not by the key that it names, {0}")]
    Forged(String),
}

/// A component as it is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digests {
    /// In hexadecimal.
    pub sha256: String,
    /// By which Opcell knows the component.
    pub blake3: Digest,
}

impl Digests {
    /// Returns the digests of a component.
    #[must_use]
    pub fn of(component: &[u8]) -> Self {
        Self { sha256: crate::artifact::sha256(component), blake3: Digest::of_hash(blake3::hash(component)) }
    }

    fn signed_text(&self) -> String {
        format!("opcell plugin signature v1\nsha256:{}\nblake3:{}\n", self.sha256, self.blake3)
    }
}

/// A signature as it is stored and transported: a JSON file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignatureFile {
    version: u32,
    key: String,
    sha256: String,
    blake3: Digest,
    signature: String,
}

impl SignatureFile {
    /// Reads a signature file.
    ///
    /// # Errors
    /// [`SignatureError::Shape`].
    pub fn parse(bytes: &[u8]) -> Result<Self, SignatureError> {
        let shape = |what: String| SignatureError::Shape(printable(&what, 200));
        if bytes.len() as u64 > MAX_SIGNATURE {
            return Err(shape(format!("it has more than {MAX_SIGNATURE} bytes")));
        }
        let file: Self = serde_json::from_slice(bytes).map_err(|error| shape(error.to_string()))?;
        if file.version != 1 {
            return Err(shape(format!("version {} is not known, update opcell", file.version)));
        }
        Ok(file)
    }

    /// The file's text.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Five texts and a number under names: nothing that JSON refuses.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Returns the signer of the component with this BLAKE3 digest.
    ///
    /// # Errors
    /// When it is a signature of something else, or of no one.
    pub fn signer(&self, blake3: &Digest) -> Result<PublicKey, SignatureError> {
        let key: PublicKey = self.key.parse()?;
        if self.blake3 != *blake3 {
            return Err(SignatureError::OtherComponent);
        }
        let digests = Digests { sha256: self.sha256.clone(), blake3: self.blake3.clone() };
        let forged = || SignatureError::Forged(key.to_string());
        let bytes = BASE64.decode(&self.signature).map_err(|_| forged())?;
        let signature = ed25519_dalek::Signature::from_slice(&bytes).map_err(|_| forged())?;
        key.0.verify_strict(digests.signed_text().as_bytes(), &signature).map_err(|_| forged())?;
        Ok(key)
    }

    /// As [`Self::signer`], where the SHA-256 digest is known too.
    ///
    /// # Errors
    /// As [`Self::signer`].
    pub fn signer_of(&self, digests: &Digests) -> Result<PublicKey, SignatureError> {
        if self.sha256 != digests.sha256 {
            return Err(SignatureError::OtherComponent);
        }
        self.signer(&digests.blake3)
    }
}

/// A publisher's secret key.
pub struct SecretKey(SigningKey);

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey({})", self.public())
    }
}

impl SecretKey {
    /// A new key from the system's randomness.
    ///
    /// # Errors
    /// When the system has none.
    pub fn generate() -> io::Result<Self> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(io::Error::other)?;
        Ok(Self(SigningKey::from_bytes(&seed)))
    }

    /// Its public half.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Signs a component.
    #[must_use]
    pub fn sign(&self, digests: &Digests) -> SignatureFile {
        let signature = self.0.sign(digests.signed_text().as_bytes());
        SignatureFile {
            version: 1,
            key: self.public().to_string(),
            sha256: digests.sha256.clone(),
            blake3: digests.blake3.clone(),
            signature: BASE64.encode(signature.to_bytes()),
        }
    }
}

/// Secret keys of this user, each a PKCS #8 file that no one else may read, or kept by a [`Helper`] and only named
/// here.
#[derive(Debug, Clone)]
pub struct Keys {
    folder: PathBuf,
}

/// The name of a key for which none is given.
pub const DEFAULT_KEY: &str = "default";

impl Keys {
    /// The keys in a folder.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    fn file(&self, name: &str) -> io::Result<PathBuf> {
        self.path(name, "pem")
    }

    fn path(&self, name: &str, extension: &str) -> io::Result<PathBuf> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
            let message = "a key's name has up to 64 letters, digits, `_` and `-`";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Ok(self.folder.join(format!("{name}.{extension}")))
    }

    /// Makes a key and keeps it; one of the same name is never replaced.
    ///
    /// # Errors
    /// When it exists already, or cannot be written.
    pub fn create(&self, name: &str) -> io::Result<(PublicKey, PathBuf)> {
        let file = self.new_file(name, "pem")?;
        let key = SecretKey::generate()?;
        let pem = key.0.to_pkcs8_pem(LineEnding::LF).map_err(io::Error::other)?;
        write_new(&file, &pem)?;
        Ok((key.public(), file))
    }

    /// Makes a key that a helper keeps; here is only a file that names the helper and the public half.
    ///
    /// # Errors
    /// As [`Self::create`], and when the helper does not take it.
    pub fn create_with(&self, name: &str, helper: &Helper) -> io::Result<(PublicKey, PathBuf)> {
        let file = self.new_file(name, HELPED)?;
        let key = SecretKey::generate()?;
        helper.store(name, &key)?;
        write_new(&file, &format!("{}\n{}\n", helper.name(), key.public()))?;
        Ok((key.public(), file))
    }

    /// Returns the path at which a new key is put, or named.
    fn new_file(&self, name: &str, extension: &str) -> io::Result<PathBuf> {
        for taken in [self.file(name)?, self.path(name, HELPED)?] {
            if taken.exists() {
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{} exists", taken.display())));
            }
        }
        Folder::open_or_make(&self.folder, Readers::Owner)?;
        self.path(name, extension)
    }

    /// The public half of a key, and the helper that keeps the other; nothing is unlocked for that.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn public(&self, name: &str) -> io::Result<(PublicKey, Option<Helper>)> {
        match self.helped(name)? {
            Some((helper, public)) => Ok((public, Some(helper))),
            None => Ok((self.open(name)?.public(), None)),
        }
    }

    fn helped(&self, name: &str) -> io::Result<Option<(Helper, PublicKey)>> {
        let file = self.path(name, HELPED)?;
        let text = match opcell_types::files::read_text_bounded(&file, MAX_SIGNATURE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let broken = || io::Error::other(format!("{} does not name a helper and a public key", file.display()));
        let (helper, public) = text.trim().split_once('\n').ok_or_else(broken)?;
        Ok(Some((Helper::new(helper).map_err(|_| broken())?, public.parse().map_err(|_| broken())?)))
    }

    /// A key by its name.
    ///
    /// # Errors
    /// When there is none, it is not a key, others may read it, or its helper does not give it.
    pub fn open(&self, name: &str) -> io::Result<SecretKey> {
        if let Some((helper, public)) = self.helped(name)? {
            return helper.get(name, &public);
        }
        let file = self.file(name)?;
        let opened = std::fs::File::open(&file)?;
        let status = opened.metadata()?;
        if !status.is_file() || status.mode() & 0o077 != 0 {
            let message = format!("{} may be read by others; run: chmod 600 {0}", file.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        let mut pem = String::new();
        opened.take(MAX_SIGNATURE).read_to_string(&mut pem)?;
        let key = SigningKey::from_pkcs8_pem(&pem);
        key.map(SecretKey).map_err(|_| io::Error::other(format!("{} is not an ed25519 key", file.display())))
    }

    /// Names of the keys, sorted.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let name = |path: &Path| {
            let (name, extension) = path.file_name()?.to_str()?.rsplit_once('.')?;
            ["pem", HELPED].contains(&extension).then(|| name.to_owned())
        };
        let mut names: Vec<String> = entries.flatten().filter_map(|entry| name(&entry.path())).collect();
        names.sort();
        Ok(names)
    }
}

/// The extension of a file that names the helper of a key.
const HELPED: &str = "helper";

/// Writes a file that is not there and that no one else may read.
fn write_new(file: &Path, text: &str) -> io::Result<()> {
    let (folder, name) = (file.parent().unwrap_or(Path::new("")), file.file_name().unwrap_or_default());
    let mut out = Folder::open(folder)?.create(name, Readers::Owner)?;
    out.write_all(text.as_bytes())?;
    out.sync_all()
}

#[cfg(test)]
mod tests {
    use super::{Digests, Keys, PublicKey, SecretKey, SignatureError, SignatureFile};
    use std::os::unix::fs::PermissionsExt as _;

    fn digests() -> Digests {
        Digests { sha256: "a".repeat(64), blake3: "b".repeat(64).parse().unwrap() }
    }

    #[test]
    fn a_signature_names_its_signer_and_no_other_component() {
        let key = SecretKey::generate().unwrap();
        let file = SignatureFile::parse(key.sign(&digests()).to_json().as_bytes()).unwrap();
        assert_eq!(file.signer_of(&digests()).unwrap(), key.public());
        let other = Digests { sha256: "c".repeat(64), ..digests() };
        assert_eq!(file.signer_of(&other), Err(SignatureError::OtherComponent));
        assert_eq!(file.signer(&"c".repeat(64).parse().unwrap()), Err(SignatureError::OtherComponent));
    }

    #[test]
    fn every_byte_of_a_signature_file_counts() {
        let key = SecretKey::generate().unwrap();
        let text = key.sign(&digests()).to_json();
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let signer = SignatureFile::parse(&bytes).and_then(|file| file.signer_of(&digests()));
            // White space and the last bits of base64 carry nothing.
            if let Ok(signer) = signer {
                assert_eq!(signer, key.public(), "byte {at} of {text}");
            }
        }
    }

    #[test]
    fn a_key_is_printed_and_read_back() {
        let key = SecretKey::generate().unwrap().public();
        assert_eq!(key.to_string().parse::<PublicKey>().unwrap(), key);
        // The neutral element, of which everybody knows a signature.
        assert!(format!("ed25519:01{}", "00".repeat(31)).parse::<PublicKey>().is_err());
        assert!("ed25519:x".parse::<PublicKey>().is_err());
    }

    #[test]
    fn a_stored_key_belongs_to_its_user_alone_and_is_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let keys = Keys::new(folder.path().join("keys"));
        let (public, file) = keys.create("release").unwrap();
        assert_eq!(keys.open("release").unwrap().public(), public);
        assert_eq!(keys.names().unwrap(), ["release"]);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(keys.create("release").is_err() && keys.create("../x").is_err());
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(keys.open("release").is_err());
    }
}
