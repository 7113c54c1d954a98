//! The requests that a grant allows: hosts, ports, schemes and methods.

use super::address::AddressClass;
use http::Method;
use std::{fmt, net::IpAddr, str::FromStr};
use url::Url;

/// One line of a grant: requests of these methods to these hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRule {
    /// Schemes, hosts and ports that may be reached.
    pub origins: Vec<OriginPattern>,
    /// The methods; `GET` and `HEAD` unless the grant says more.
    pub methods: Vec<Method>,
    /// `true` if the hosts may resolve to this machine or to a private network.
    pub private: bool,
    /// The credential that the host adds to each request.
    pub credential: Option<Credential>,
}

/// A header that the host adds; the plugin sees neither it nor its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// Header name, lower case.
    pub header: String,
    /// Written before the secret, such as `Bearer `.
    pub prefix: String,
    /// The source of the secret.
    pub source: SecretSource,
}

/// The source from which a secret is read, each time it is used.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SecretSource {
    /// An environment variable of the host process.
    Env(String),
    /// A file; surrounding white space is not part of the secret.
    File(std::path::PathBuf),
}

impl HttpRule {
    /// The rule's methods without a credential or private addresses.
    #[must_use]
    pub fn new(origins: Vec<OriginPattern>, methods: Vec<Method>) -> Self {
        Self { origins, methods, private: false, credential: None }
    }

    /// Returns `true` if the rule allows a request.
    #[must_use]
    pub fn allows(&self, method: &Method, url: &Url) -> bool {
        self.methods.contains(method) && self.reaches(url)
    }

    /// Returns `true` if the rule names the place, whatever the method.
    #[must_use]
    pub fn reaches(&self, url: &Url) -> bool {
        self.origins.iter().any(|origin| origin.matches(url))
    }
}

/// Scheme, host and port: `api.github.com`, `*.example.com`, `http://localhost:8080`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginPattern {
    /// `https` unless the pattern says `http`.
    scheme: Scheme,
    host: HostPattern,
    /// The scheme's own port unless the pattern says another.
    port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostPattern {
    /// As URLs normalise it: lower case, punycode, canonical addresses.
    Exact(String),
    /// Any name below this one; not the name itself.
    Below(String),
}

/// A text that is not an origin pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a host: {reason}; write `api.example.com`, `*.example.com` or `http://localhost:8080`")]
pub struct InvalidOrigin {
    text: String,
    reason: &'static str,
}

impl OriginPattern {
    /// Returns `true` if its host itself leads to a private address, as [`is_private`].
    #[must_use]
    pub fn is_private(&self) -> bool {
        matches!(&self.host, HostPattern::Exact(host) if is_private(host))
    }

    /// Returns `true` if a URL's scheme, host and port are this pattern's.
    #[must_use]
    pub fn matches(&self, url: &Url) -> bool {
        let Some(host) = url.host_str() else { return false };
        url.scheme() == self.scheme.name()
            && url.port_or_known_default() == Some(self.port)
            && match &self.host {
                HostPattern::Exact(exact) => host == exact,
                HostPattern::Below(parent) => {
                    host.strip_suffix(parent.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
                }
            }
    }
}

/// Returns `true` if a host itself leads to a private address, without a name to resolve, so that everything it needs can
/// be granted at once.
#[must_use]
pub fn is_private(host: &str) -> bool {
    match literal(host) {
        Some(address) => {
            let class = AddressClass::of(address);
            !class.permitted(false) && class.permitted(true)
        }
        None => host == "localhost" || host.ends_with(".localhost"),
    }
}

fn literal(host: &str) -> Option<IpAddr> {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).parse().ok()
}

/// The address that a URL names directly, without a name to resolve.
#[must_use]
pub fn literal_address(url: &Url) -> Option<IpAddr> {
    literal(url.host_str()?)
}

impl fmt::Display for OriginPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (below, host) = match &self.host {
            HostPattern::Exact(host) => ("", host),
            HostPattern::Below(host) => ("*.", host),
        };
        write!(f, "{}://{below}{host}", self.scheme.name())?;
        if self.port == self.scheme.port() { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

impl Scheme {
    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl FromStr for OriginPattern {
    type Err = InvalidOrigin;

    fn from_str(text: &str) -> Result<Self, InvalidOrigin> {
        let invalid = |reason| InvalidOrigin { text: text.to_owned(), reason };
        let (scheme, rest) = match text.split_once("://") {
            None => (Scheme::Https, text),
            Some(("https", rest)) => (Scheme::Https, rest),
            Some(("http", rest)) => (Scheme::Http, rest),
            Some(_) => return Err(invalid("the scheme is neither `http` nor `https`")),
        };
        let (below, authority) = match rest.strip_prefix("*.") {
            Some(parent) => (true, parent),
            None => (false, rest),
        };
        if authority.contains(['/', '@', '?', '#', '*', '\\']) {
            return Err(invalid(
                "only a host and a port may follow the scheme, and `*.` is allowed only at the start of the host",
            ));
        }
        let url =
            Url::parse(&format!("{}://{authority}/", scheme.name())).map_err(|_| invalid("the host is malformed"))?;
        let host =
            url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| invalid("the host is missing"))?.to_owned();
        if below && literal_address(&url).is_some() {
            return Err(invalid("an address has no names below it"));
        }
        let port = url.port().unwrap_or(scheme.port());
        Ok(Self { scheme, host: if below { HostPattern::Below(host) } else { HostPattern::Exact(host) }, port })
    }
}

#[cfg(test)]
mod tests {
    use super::{HttpRule, OriginPattern, literal_address};
    use http::Method;
    use url::Url;

    fn matches(pattern: &str, url: &str) -> bool {
        pattern.parse::<OriginPattern>().unwrap().matches(&Url::parse(url).unwrap())
    }

    #[test]
    fn an_exact_host_is_https_on_its_own_port_unless_it_says_otherwise() {
        let table = [
            ("api.example.com", "https://api.example.com/x", true),
            ("api.example.com", "https://API.EXAMPLE.com:443/x", true),
            ("api.example.com", "http://api.example.com/x", false),
            ("api.example.com", "https://api.example.com:8443/x", false),
            ("api.example.com:8443", "https://api.example.com:8443/", true),
            ("api.example.com", "https://evil-api.example.com/", false),
            ("api.example.com", "https://api.example.com.evil.net/", false),
            ("api.example.com", "https://api.example.com./", false),
            ("http://localhost:8080", "http://localhost:8080/a", true),
            ("http://localhost:8080", "https://localhost:8080/a", false),
            ("http://127.0.0.1:80", "http://2130706433/", true),
            ("http://[::1]:9", "http://[0:0:0:0:0:0:0:1]:9/", true),
        ];
        for (pattern, url, expected) in table {
            assert_eq!(matches(pattern, url), expected, "{pattern} {url}");
        }
    }

    #[test]
    fn a_star_stands_for_names_below_and_not_for_the_name_itself() {
        assert!(matches("*.example.com", "https://a.example.com/"));
        assert!(matches("*.example.com", "https://a.b.example.com/"));
        assert!(!matches("*.example.com", "https://example.com/"));
        assert!(!matches("*.example.com", "https://badexample.com/"));
        assert!(!matches("*.example.com", "https://a.example.com.evil.net/"));
    }

    #[test]
    fn what_is_not_a_host_is_refused_with_the_reason() {
        for text in
            ["", "*", "*.", "ftp://x", "https://a/b", "a@b", "*.*.com", "a*.com", "*.10.0.0.1", "https://x:99999"]
        {
            assert!(text.parse::<OriginPattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_rule_allows_its_methods_only() {
        let rule = HttpRule::new(vec!["a.com".parse().unwrap()], vec![Method::GET]);
        let url = Url::parse("https://a.com/").unwrap();
        assert!(rule.allows(&Method::GET, &url));
        assert!(!rule.allows(&Method::POST, &url));
    }

    #[test]
    fn addresses_in_disguise_are_still_addresses() {
        for url in
            ["http://0x7f.1/", "http://2130706433/", "http://0177.0.0.1/", "http://127.1/", "http://[::ffff:7f00:1]/"]
        {
            assert!(literal_address(&Url::parse(url).unwrap()).is_some(), "{url}");
        }
        assert_eq!(literal_address(&Url::parse("http://localhost/").unwrap()), None);
    }
}
