//! Credentials and tokens.

use super::{Credentials, RegistryError};
use docker_credential::{CredentialRetrievalError, DockerCredential};
use opcell_types::text::printable;

/// The user's credentials for a registry. Helpers are programs: they are run off the runtime's threads.
pub(super) async fn of_docker(host: &str, from: Credentials) -> Result<Option<(String, String)>, RegistryError> {
    if from == Credentials::Anonymous {
        return Ok(None);
    }
    let server = host.to_owned();
    let found = tokio::task::spawn_blocking(move || docker_credential::get_credential(&server)).await;
    let wrong = |why: String| RegistryError::Credentials { host: host.to_owned(), why: printable(&why, 300) };
    match found.map_err(|_| wrong("the credential helper failed".to_owned()))? {
        Ok(DockerCredential::UsernamePassword(user, password)) => Ok(Some((user, password))),
        Ok(DockerCredential::IdentityToken(_)) => Err(wrong("identity tokens are not supported".to_owned())),
        Err(
            CredentialRetrievalError::NoCredentialConfigured
            | CredentialRetrievalError::ConfigNotFound
            | CredentialRetrievalError::ConfigReadError,
        ) => Ok(None),
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// A registry's challenge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    Basic,
    Bearer { realm: String, service: Option<String> },
}

impl Challenge {
    /// Reads `WWW-Authenticate`: `Basic realm="…"` or `Bearer realm="…",service="…",scope="…"`. The scope is ours to
    /// choose.
    pub(super) fn parse(header: &str) -> Option<Self> {
        let (scheme, mut rest) = header.trim().split_once(' ').unwrap_or((header, ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service) = (None, None);
        while let Some((name, after)) = rest.split_once('=') {
            let after = after.trim_start();
            let (value, after) = match after.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"')?,
                None => after.split_once([' ', ',']).unwrap_or((after, "")),
            };
            match name.trim_matches([' ', ',']).to_ascii_lowercase().as_str() {
                "realm" => realm = Some(value.to_owned()),
                "service" => service = Some(value.to_owned()),
                _ => {}
            }
            rest = after;
        }
        Some(Self::Bearer { realm: realm?, service })
    }
}

#[cfg(test)]
mod tests {
    use super::Challenge;

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        let bearer = "Bearer realm=\"https://auth.example/token\",service=\"r.example\",scope=\"repository:a/b:pull\"";
        let expected =
            Challenge::Bearer { realm: "https://auth.example/token".to_owned(), service: Some("r.example".to_owned()) };
        assert_eq!(Challenge::parse(bearer), Some(expected.clone()));
        let loosely =
            "bearer Realm = \"https://auth.example/token\" , service=r.example, scope=\"repository:a/b:pull\"";
        assert_eq!(Challenge::parse(loosely), Some(expected));
        assert_eq!(Challenge::parse("Basic realm=\"Registry\""), Some(Challenge::Basic));
        assert_eq!(Challenge::parse("Negotiate"), None);
        assert_eq!(Challenge::parse("Bearer realm=\"x"), None);
    }
}
