//! Secrets that the host adds to requests, and their removal from everything a plugin or a log could see.

use super::rule::{Credential, SecretSource};
use http::header::{HeaderName, HeaderValue};

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
pub enum SecretError {
    /// The environment does not have it.
    #[error("the environment variable `{0}`, from which the grant takes its credential, is not set")]
    Unset(String),
    /// The file cannot be read.
    #[error("cannot read the credential file {path}: {error}")]
    Unreadable {
        /// Which.
        path: String,
        /// Why.
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

impl Secret {
    /// Reads the secret from its source.
    ///
    /// # Errors
    /// See [`SecretError`]; a request whose credential is missing is not sent.
    pub async fn read(credential: &Credential) -> Result<Self, SecretError> {
        let (place, text) = match &credential.source {
            SecretSource::Env(name) => (
                format!("the environment variable `{name}`"),
                std::env::var(name).map_err(|_| SecretError::Unset(name.clone()))?,
            ),
            SecretSource::File(path) => (
                path.display().to_string(),
                tokio::fs::read_to_string(path)
                    .await
                    .map_err(|error| SecretError::Unreadable { path: path.display().to_string(), error })?,
            ),
        };
        let text = text.trim().to_owned();
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
        secrets.iter().fold(
            text,
            |text, secret| if text.contains(&secret.text) { text.replace(&secret.text, REDACTED) } else { text },
        )
    }

    /// Replaces every secret in bytes.
    #[must_use]
    pub fn scrub_bytes_all(secrets: &[Self], bytes: Vec<u8>) -> Vec<u8> {
        secrets.iter().fold(bytes, |bytes, secret| replace(&bytes, secret.text.as_bytes()))
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
    async fn a_missing_or_empty_secret_names_its_source() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let message = Secret::read(&credential(&file)).await.err().unwrap().to_string();
        assert!(message.contains(&file.path().display().to_string()), "{message}");
        let unset = Credential { source: SecretSource::Env("OPCELL_NO_SUCH".to_owned()), ..credential(&file) };
        assert!(Secret::read(&unset).await.err().unwrap().to_string().contains("`OPCELL_NO_SUCH`"));
    }
}
