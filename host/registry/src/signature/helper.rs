//! A key that a keyring of the system keeps, through the helpers that `docker login` uses: `docker-credential-NAME`,
//! one for each keyring, with a protocol of JSON on standard input and output.

use super::{PublicKey, SecretKey};
use ed25519_dalek::SigningKey;
use serde::{Deserialize, Serialize};
use std::{
    io::{self, Read as _, Write as _},
    process::{Command, Stdio},
};

/// Far more than a helper says about one key.
const MAX_OUTPUT_BYTES: u64 = 64 << 10;

/// A helper by its name: `secretservice` for GNOME and KDE, `pass`, `osxkeychain`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Helper(String);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Credential {
    #[serde(rename = "ServerURL")]
    server_url: String,
    username: String,
    secret: String,
}

impl Helper {
    /// A helper that the user has installed.
    ///
    /// # Errors
    /// When the name could be that of another program.
    pub fn new(name: &str) -> io::Result<Self> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
            let message = "a helper's name has up to 64 letters, digits, `_` and `-`: `secretservice`, `pass`";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Ok(Self(name.to_owned()))
    }

    /// Returns its name after `docker-credential-`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }

    pub(super) fn store(&self, key: &str, secret: &SecretKey) -> io::Result<()> {
        let seed: String = secret.0.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let credential = Credential { server_url: url(key), username: secret.public().to_string(), secret: seed };
        self.ask("store", &serde_json::to_string(&credential)?).map(drop)
    }

    pub(super) fn get(&self, key: &str, public: &PublicKey) -> io::Result<SecretKey> {
        let answer: Credential = serde_json::from_str(&self.ask("get", &url(key))?)
            .map_err(|error| self.failed(&format!("does not answer as it should: {error}")))?;
        let seed = blake3::Hash::from_hex(answer.secret.trim()).map_err(|_| self.failed("has something else there"))?;
        let secret = SecretKey(SigningKey::from_bytes(seed.as_bytes()));
        match secret.public() == *public {
            true => Ok(secret),
            false => Err(self.failed(&format!("has the key {} there, not {public}", secret.public()))),
        }
    }

    fn ask(&self, verb: &str, said: &str) -> io::Result<String> {
        let mut command = Command::new(self.program());
        let child = command.arg(verb).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
        let mut child = child.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let message = format!("{} is not installed; it is a part of docker-credential-helpers", self.program());
                io::Error::new(io::ErrorKind::NotFound, message)
            }
            _ => error,
        })?;
        // A helper that ends before it has read all says why below.
        let _ = child.stdin.take().map(|mut input| input.write_all(said.as_bytes()));
        let mut answer = String::new();
        if let Some(output) = child.stdout.take() {
            output.take(MAX_OUTPUT_BYTES).read_to_string(&mut answer)?;
        }
        let status = child.wait()?;
        match status.success() {
            true => Ok(answer),
            // As docker shows it: helpers say on standard output what is wrong.
            false => Err(self.failed(&format!("refuses to {verb} it: {}", answer.trim()))),
        }
    }

    fn program(&self) -> String {
        format!("docker-credential-{}", self.0)
    }

    fn failed(&self, what: &str) -> io::Error {
        io::Error::other(opcell_types::text::printable(&format!("{} {what}", self.program()), 500))
    }
}

/// The place of a key: helpers keep what belongs to an address.
fn url(key: &str) -> String {
    format!("https://keys.opcell.invalid/{key}")
}
