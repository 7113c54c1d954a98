//! Secrets that the host adds to requests, and their removal from everything a plugin or a log could see.

use super::rule::{Credential, SecretSource};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use http::header::{HeaderName, HeaderValue};
use opcell_types::files::read_text_bounded;
use std::path::PathBuf;

/// A secret in use, for one call.
pub struct Secret {
    /// The header that carries it.
    pub header: HeaderName,
    /// Prefix and secret, marked sensitive.
    pub value: HeaderValue,
    text: String,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").field("header", &self.header).finish_non_exhaustive()
    }
}

/// A secret that cannot be used. The messages name the source and never the secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The environment does not have it.
    #[error("the environment variable `{0}`, which holds the credential, is not set")]
    Unset(String),
    /// The file cannot be read.
    #[error("cannot read the credential file {path}: {error}")]
    Unreadable {
        /// Path of the file.
        path: String,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// It is empty or not what a header can carry.
    #[error("the credential from {0} is empty or not printable ASCII text on one line")]
    Unusable(String),
    /// The grant's header name is not one.
    #[error("`{0}` is not a header name")]
    Header(String),
}

/// The text in the place of a secret.
const REDACTED: &str = "[redacted]";

/// Bytes of a secret from which on its encodings are looked for, and of an encoding that is.
const ENCODED_BYTES: usize = 8;

/// The most that is read of a key file.
const KEY_BYTES: u64 = 64 << 10;

async fn key_text(path: PathBuf) -> std::io::Result<String> {
    tokio::task::spawn_blocking(move || read_text_bounded(&path, KEY_BYTES)).await?
}

impl SecretSource {
    /// Reads the secret, without white space around it.
    ///
    /// # Errors
    /// When the variable is not set, or the file cannot be read.
    pub async fn read(&self) -> Result<String, SecretError> {
        let text = match self {
            Self::Env(name) => std::env::var(name).map_err(|_| SecretError::Unset(name.clone()))?,
            Self::File(path) => key_text(path.clone())
                .await
                .map_err(|error| SecretError::Unreadable { path: path.display().to_string(), error })?,
        };
        Ok(text.trim().to_owned())
    }
}

impl Secret {
    /// Reads the secret from its source.
    ///
    /// # Errors
    /// See [`SecretError`]; a request whose credential is missing is not sent.
    pub async fn read(credential: &Credential) -> Result<Self, SecretError> {
        let place = match &credential.source {
            SecretSource::Env(name) => format!("the environment variable `{name}`"),
            SecretSource::File(path) => path.display().to_string(),
        };
        let text = credential.source.read().await?;
        let header = credential.header.parse().map_err(|_| SecretError::Header(credential.header.clone()))?;
        let mut value = HeaderValue::from_str(&format!("{}{text}", credential.prefix))
            .ok()
            .filter(|_| !text.is_empty())
            .ok_or(SecretError::Unusable(place))?;
        value.set_sensitive(true);
        Ok(Self { header, value, text })
    }

    /// Replaces every secret in a text.
    #[must_use]
    pub fn scrub_all(secrets: &[Self], text: String) -> String {
        // Forms are texts, so what is replaced begins and ends with characters.
        let scrubbed = Self::scrub_bytes_all(secrets, text.into_bytes());
        String::from_utf8(scrubbed).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// Replaces every secret in bytes.
    #[must_use]
    pub fn scrub_bytes_all(secrets: &[Self], bytes: Vec<u8>) -> Vec<u8> {
        let forms = secrets.iter().flat_map(|secret| {
            let any_case = secret.text.len() >= ENCODED_BYTES;
            secret.forms().into_iter().map(move |form| (form, any_case))
        });
        forms.fold(bytes, |bytes, (form, any_case)| replace(bytes, form.as_bytes(), any_case))
    }

    /// The secret as services repeat it: as it is, percent-encoded, escaped as in JSON, in hexadecimal, backwards, and
    /// in Base64 wherever it lies in what is encoded. Letters match in either case. Encodings of very short texts would
    /// match by chance.
    fn forms(&self) -> Vec<String> {
        let mut forms = vec![self.text.clone()];
        if self.text.len() >= ENCODED_BYTES {
            let percent: String = self
                .text
                .bytes()
                .map(|byte| match byte {
                    b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
                    other => format!("%{other:02X}"),
                })
                .collect();
            let json = self.text.replace('\\', "\\\\").replace('"', "\\\"");
            let whole = self.value.as_bytes();
            for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
                forms.extend([engine.encode(&self.text), engine.encode(whole)]);
                forms.extend((0..3).filter_map(|before| inside(&engine, self.text.as_bytes(), before)));
            }
            forms.push(self.text.bytes().map(|byte| format!("{byte:02x}")).collect());
            forms.extend([percent, json, self.text.chars().rev().collect()]);
        }
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        forms.dedup();
        forms
    }
}

/// The Base64 of a secret after this number of bytes, modulo three: the characters that the secret alone decides.
/// `None` where they are so few that they would match by chance.
fn inside(engine: &impl Engine, secret: &[u8], before: usize) -> Option<String> {
    let mut padded = vec![0; before];
    padded.extend_from_slice(secret);
    let encoded = engine.encode(&padded);
    let (first, end) = ((before * 8).div_ceil(6), padded.len() * 8 / 6);
    encoded.get(first..end).filter(|own| own.len() >= ENCODED_BYTES).map(str::to_owned)
}

/// Replaces every place of a secret; letters of ASCII match in either case if `any_case`.
fn replace(bytes: Vec<u8>, secret: &[u8], any_case: bool) -> Vec<u8> {
    let is_secret = |part: &[u8]| if any_case { part.eq_ignore_ascii_case(secret) } else { part == secret };
    if secret.is_empty() || !bytes.windows(secret.len()).any(is_secret) {
        return bytes;
    }
    let mut scrubbed = Vec::with_capacity(bytes.len());
    let mut rest = bytes.as_slice();
    while let Some((first, after)) = rest.split_first() {
        match rest.split_at_checked(secret.len()) {
            Some((part, after_secret)) if is_secret(part) => {
                scrubbed.extend_from_slice(REDACTED.as_bytes());
                rest = after_secret;
            }
            _ => {
                scrubbed.push(*first);
                rest = after;
            }
        }
    }
    scrubbed
}

#[cfg(test)]
mod tests {
    use super::{Engine, STANDARD_NO_PAD, Secret, URL_SAFE_NO_PAD};
    use crate::http::rule::{Credential, SecretSource};

    fn credential(file: &tempfile::NamedTempFile) -> Credential {
        Credential {
            header: "authorization".to_owned(),
            prefix: "Bearer ".to_owned(),
            source: SecretSource::File(file.path().to_owned()),
        }
    }

    #[tokio::test]
    async fn a_secret_from_a_file_is_trimmed_sent_with_its_prefix_and_scrubbed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "s3cr3t-token\n").unwrap();
        let secret = Secret::read(&credential(&file)).await.unwrap();
        assert_eq!(secret.value.to_str().unwrap(), "Bearer s3cr3t-token");
        assert_eq!(format!("{:?}", secret.value), "Sensitive");
        let secrets = [secret];
        assert_eq!(Secret::scrub_all(&secrets, "got s3cr3t-token!".to_owned()), "got [redacted]!");
        assert_eq!(Secret::scrub_bytes_all(&secrets, b"\xffs3cr3t-tokens3cr3t".to_vec()), b"\xff[redacted]s3cr3t");
    }

    #[tokio::test]
    async fn a_secret_is_scrubbed_in_the_encodings_that_services_repeat_it_in() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "s3cr3t/to\"ken+").unwrap();
        let secrets = [Secret::read(&credential(&file)).await.unwrap()];
        for form in ["s3cr3t%2Fto%22ken%2B", "s3cr3t/to\\\"ken+", "czNjcjN0L3RvImtlbis=", "czNjcjN0L3RvImtlbis"] {
            let scrubbed = Secret::scrub_all(&secrets, format!("you sent {form}, bad"));
            assert!(!scrubbed.contains(form) && scrubbed.contains("[redacted]"), "{form}: {scrubbed}");
        }
    }

    #[tokio::test]
    async fn a_secret_is_scrubbed_in_hexadecimal_in_either_case_and_in_base64_at_every_offset() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "s3cr3t-Token-5A").unwrap();
        let secrets = [Secret::read(&credential(&file)).await.unwrap()];
        let hex: String = "s3cr3t-Token-5A".bytes().map(|byte| format!("{byte:02x}")).collect();
        let plain = [hex.clone(), hex.to_uppercase(), "S3CR3T-TOKEN-5A".to_owned(), "s3cr3t-token-5a".to_owned()];
        for form in plain {
            let scrubbed = Secret::scrub_all(&secrets, format!("you sent “{form}”"));
            assert_eq!(scrubbed, "you sent “[redacted]”");
        }
        for before in 0..7 {
            for after in 0..4 {
                let sent = format!("{}s3cr3t-Token-5A{}", "x".repeat(before), "y".repeat(after));
                for encoded in [STANDARD_NO_PAD.encode(&sent), URL_SAFE_NO_PAD.encode(&sent)] {
                    let scrubbed = Secret::scrub_all(&secrets, encoded.clone());
                    let left = scrubbed.replace("[redacted]", "");
                    assert!(
                        scrubbed.contains("[redacted]") && left.len() + 18 <= encoded.len(),
                        "{encoded}: {scrubbed}"
                    );
                }
            }
        }
    }

    #[tokio::test]
    async fn a_missing_or_empty_secret_names_its_source() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let message = Secret::read(&credential(&file)).await.err().unwrap().to_string();
        assert!(message.contains(&file.path().display().to_string()), "{message}");
        let unset = Credential { source: SecretSource::Env("OPCELL_NO_SUCH".to_owned()), ..credential(&file) };
        assert!(Secret::read(&unset).await.err().unwrap().to_string().contains("`OPCELL_NO_SUCH`"));
    }
}
