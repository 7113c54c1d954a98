//! References: `oci://HOST[:PORT]/NAME:TAG`, or `@sha256:…` in place of the tag or after it.

use std::{fmt, str::FromStr};

const SCHEME: &str = "oci://";
const MAX_REPOSITORY: usize = 255;
const MAX_TAG: usize = 128;

/// A plugin in a registry. The host is always written out: there is no default registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    host: String,
    repository: String,
    tag: Option<String>,
    digest: Option<String>,
}

/// A text that is not a reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a reference to a plugin: {why}")]
pub struct ReferenceError {
    /// The text, made printable.
    pub text: String,
    /// The problem.
    pub why: String,
}

impl Reference {
    /// Returns `true` if a text means a registry rather than a file.
    #[must_use]
    pub fn is_meant_by(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// The host, with its port if it has one.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The host without its port.
    #[must_use]
    pub fn hostname(&self) -> &str {
        match self.host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, _)) => address,
            None => self.host.split(':').next().unwrap_or_default(),
        }
    }

    /// Returns `true` if the reference itself names this machine.
    #[must_use]
    pub fn names_loopback(&self) -> bool {
        let host = self.hostname();
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// The name in the registry, with its slashes.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The last part of the name: what the plugin is called unless its user says otherwise.
    #[must_use]
    pub fn short_name(&self) -> &str {
        self.repository.rsplit('/').next().unwrap_or_default()
    }

    /// The tag; it may stand for something else tomorrow.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest of the manifest, `sha256:…`, when the reference pins it.
    #[must_use]
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }

    /// Returns the version that a registry is asked for: the digest, else the tag.
    #[must_use]
    pub fn version(&self) -> &str {
        self.digest().or(self.tag()).unwrap_or_default()
    }

    /// The same name at a digest.
    #[must_use]
    pub fn at(&self, digest: &str) -> Self {
        Self { tag: None, digest: Some(digest.to_owned()), ..self.clone() }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.host, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let wrong = |why: &str| ReferenceError { text: opcell_types::text::printable(text, 200), why: why.to_owned() };
        let rest = text
            .strip_prefix(SCHEME)
            .ok_or_else(|| wrong("it begins with `oci://`, as in `oci://registry.example/tools/greet:1.0`"))?;
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (rest, None),
        };
        if digest.is_some_and(|digest| !is_digest(digest)) {
            return Err(wrong("a digest is `sha256:` and 64 lower-case hexadecimal digits"));
        }
        let (host, name) = rest.split_once('/').ok_or_else(|| wrong("a name follows the host, after a slash"))?;
        if !is_host(host) {
            return Err(wrong(
                "it begins with the host of the registry, such as `registry.example` or `localhost:5000`",
            ));
        }
        let (repository, tag) = match name.split_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (name, None),
        };
        if !is_repository(repository) {
            return Err(wrong("a name has lower-case letters, digits and single `.`, `_`, `-` and `/` between them"));
        }
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(wrong("a tag has up to 128 letters, digits, `.`, `_` and `-`"));
        }
        if tag.is_none() && digest.is_none() {
            return Err(wrong("it has no version: add a tag such as `:1.0`, or `@sha256:…`"));
        }
        Ok(Self {
            host: host.to_owned(),
            repository: repository.to_owned(),
            tag: tag.map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }
}

/// Returns `true` if a text is a digest as registries write them; no other algorithm than SHA-256 is taken.
#[must_use]
pub fn is_digest(text: &str) -> bool {
    let hex = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
    text.strip_prefix("sha256:").is_some_and(|digits| digits.len() == 64 && digits.bytes().all(hex))
}

fn is_host(text: &str) -> bool {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) if address.parse::<std::net::Ipv6Addr>().is_ok() => (None, port.strip_prefix(':')),
            _ => return false,
        },
        None => match text.split_once(':') {
            Some((name, port)) => (Some(name), Some(port)),
            None => (Some(text), None),
        },
    };
    if port.is_some_and(|port| port.parse::<u16>().map_or(true, |port| port == 0)) {
        return false;
    }
    let Some(name) = name else { return text.ends_with(']') || port.is_some() };
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
    };
    name.len() <= 253 && name.split('.').all(label) && (name.contains('.') || port.is_some() || name == "localhost")
}

fn is_repository(text: &str) -> bool {
    let part = |part: &str| {
        let plain = |c: Option<u8>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        let allowed = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"._-".contains(&c);
        plain(part.bytes().next()) && plain(part.bytes().last()) && part.bytes().all(allowed) && !part.contains("..")
    };
    text.len() <= MAX_REPOSITORY && text.split('/').all(part)
}

fn is_tag(text: &str) -> bool {
    let word = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    text.len() <= MAX_TAG
        && text.bytes().next().is_some_and(word)
        && text.bytes().all(|c| word(c) || c == b'.' || c == b'-')
}

#[cfg(test)]
mod tests {
    use super::Reference;

    #[test]
    fn a_reference_names_host_name_and_version() {
        let digest = format!("sha256:{}", "ab".repeat(32));
        for text in [
            "oci://registry.example/greet:1.0",
            "oci://localhost:5000/a/b/greet:latest",
            "oci://127.0.0.1:5000/greet:v1",
            "oci://[::1]:5000/greet:v1",
            &format!("oci://r.example/greet@{digest}"),
            &format!("oci://r.example/greet:1@{digest}"),
        ] {
            let reference: Reference = text.parse().unwrap();
            assert_eq!(reference.to_string(), text);
            assert_eq!(reference.short_name(), "greet");
        }
        let both: Reference = format!("oci://r.example/greet:1@{digest}").parse().unwrap();
        assert_eq!(both.version(), digest);
    }

    #[test]
    fn only_a_host_that_is_this_machine_names_it() {
        for (text, expected) in [
            ("oci://localhost:5000/a:1", true),
            ("oci://127.0.0.1/a:1", true),
            ("oci://[::1]:5000/a:1", true),
            ("oci://localhost.example/a:1", false),
            ("oci://10.0.0.1/a:1", false),
        ] {
            assert_eq!(text.parse::<Reference>().unwrap().names_loopback(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_a_reference_is_refused_with_the_reason() {
        for text in [
            "greet:1.0",
            "oci://greet:1.0",
            "oci://greet/x:1",
            "oci://r.example/greet",
            "oci://r.example/Greet:1",
            "oci://r.example/a/../b:1",
            "oci://r.example/a//b:1",
            "oci://r.example/a:1@sha256:abc",
            "oci://r.example/a@md5:abc",
            "oci://user@r.example/a:1",
            "oci://r.example:0/a:1",
            "oci://r.example:x/a:1",
            "oci://[::1/a:1",
            "oci://r.example/a:-1",
            "oci://r.example/a:1?x",
            "https://r.example/a:1",
        ] {
            assert!(text.parse::<Reference>().is_err(), "{text}");
        }
    }
}
