//! Secrets that the host adds to requests, and their removal from everything a plugin or a log could see.

use super::rule::{Credential, SecretSource};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use http::header::{HeaderName, HeaderValue};
use opcell_types::files::read_text_bounded;
use std::path::PathBuf;

/// A secret in use, for one call.
pub struct Secret {
    /// Which header carries it.
    pub header: HeaderName,
    /// Prefix and secret, marked sensitive.
    pub value: HeaderValue,
    text: String,
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

/// What stands where a secret was.
const REDACTED: &str = "[redacted]";

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
        secrets.iter().fold(text, |text, secret| {
            secret
                .forms()
                .into_iter()
                .fold(text, |text, form| if text.contains(&form) { text.replace(&form, REDACTED) } else { text })
        })
    }

    /// Replaces every secret in bytes.
    #[must_use]
    pub fn scrub_bytes_all(secrets: &[Self], bytes: Vec<u8>) -> Vec<u8> {
        let forms = secrets.iter().flat_map(Self::forms);
        forms.fold(bytes, |bytes, form| replace(&bytes, form.as_bytes()))
    }

    /// The secret as services repeat it: as it is, percent-encoded, escaped as in JSON, and in Base64 with what was
    /// sent before it. Encodings of very short texts would match by chance.
    fn forms(&self) -> Vec<String> {
        let mut forms = vec![self.text.clone()];
        if self.text.len() >= 8 {
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
            }
            forms.extend([percent, json, self.text.chars().rev().collect()]);
        }
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        forms.dedup();
        forms
    }
}

fn replace(bytes: &[u8], secret: &[u8]) -> Vec<u8> {
    let mut scrubbed = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        match rest.strip_prefix(secret) {
            Some(after_secret) => {
                scrubbed.extend_from_slice(REDACTED.as_bytes());
                rest = after_secret;
            }
            None => {
                scrubbed.push(*first);
                rest = after;
            }
        }
    }
    scrubbed
}

#[cfg(test)]
mod tests {
    use super::Secret;
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
    async fn a_missing_or_empty_secret_names_its_source() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let message = Secret::read(&credential(&file)).await.err().unwrap().to_string();
        assert!(message.contains(&file.path().display().to_string()), "{message}");
        let unset = Credential { source: SecretSource::Env("OPCELL_NO_SUCH".to_owned()), ..credential(&file) };
        assert!(Secret::read(&unset).await.err().unwrap().to_string().contains("`OPCELL_NO_SUCH`"));
    }
}
