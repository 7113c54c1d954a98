//! The address of the server, and the way to speak to it.

use rustls::{ClientConfig, RootCertStore};
use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc, time::Duration};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

/// The settings of a journal on PostgreSQL: a URL that libpq would take, with a few options of our own in its query.
///
/// | option | default | meaning |
/// | --- | --- | --- |
/// | `schema` | `opcell` | the schema that holds the tables; made when it is missing |
/// | `pooler` | `none` | `transaction` behind a pooler in transaction mode: no prepared statements, no `LISTEN` |
/// | `connections` | 8 | the most connections of this process |
/// | `lease` | 10 | seconds after which a silent process loses its runs; renewed three times as often |
/// | `versions` | `own` | `shared`: workers take accepted versions of plugins from each other, through a table of the schema |
/// | `sslrootcert` | the system's | a PEM file with the certificates to trust |
///
/// `sslmode` is `require`, with a certificate that leads to a trusted root, unless the server is on this machine or the
/// URL says otherwise.
#[derive(Clone)]
#[non_exhaustive]
pub struct Settings {
    pub(crate) server: tokio_postgres::Config,
    /// The schema that holds the tables.
    pub schema: String,
    /// `true` if there is a pooler in transaction mode: a connection is then ours for one transaction only.
    pub transaction_pooler: bool,
    /// The most connections of this process.
    pub connections: usize,
    /// The time for which a process owns its runs without a sign of life.
    pub lease: Duration,
    /// `true` if workers take accepted versions of plugins from each other.
    pub shares_versions: bool,
    roots: Option<String>,
}

/// Why a URL does not name a journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(String);

impl fmt::Debug for Settings {
    /// Never shows a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Settings({self})")
    }
}

impl fmt::Display for Settings {
    /// Names the server and the database, without a user or a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use tokio_postgres::config::Host;
        let host = match self.server.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            #[cfg(unix)]
            Some(Host::Unix(path)) => path.display().to_string(),
            None => "localhost".to_owned(),
        };
        let port = self.server.get_ports().first().copied().unwrap_or(5432);
        write!(f, "postgres://{host}:{port}/{}?schema={}", self.server.get_dbname().unwrap_or(""), self.schema)
    }
}

impl FromStr for Settings {
    type Err = SettingsError;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        let error = |text: String| SettingsError(text);
        if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
            return Err(error("a PostgreSQL journal is named by a URL: postgres://USER@HOST:PORT/DATABASE".to_owned()));
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let mut ours = BTreeMap::new();
        let mut theirs = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match key {
                "schema" | "pooler" | "connections" | "lease" | "versions" | "sslrootcert" => {
                    ours.insert(key, value);
                }
                _ => theirs.push(pair),
            }
        }
        let libpq = if theirs.is_empty() { base.to_owned() } else { format!("{base}?{}", theirs.join("&")) };
        // What the library says of a URL may quote it, and a URL may hold a password.
        let mut server: tokio_postgres::Config = libpq.parse().map_err(|_| {
            error("the URL of the PostgreSQL journal cannot be read; its query may have an unknown option".to_owned())
        })?;
        server
            .application_name("opcell")
            .connect_timeout(Duration::from_secs(10))
            .keepalives_idle(Duration::from_secs(15))
            .tcp_user_timeout(Duration::from_secs(15));
        if !theirs.iter().any(|pair| pair.starts_with("sslmode=")) {
            // Whoever sits between could take encryption away that is only preferred.
            server.ssl_mode(if is_local(&server) { SslMode::Disable } else { SslMode::Require });
        }
        let schema = ours.get("schema").copied().unwrap_or("opcell");
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if schema.is_empty() || schema.len() > 40 || !schema.chars().all(plain) {
            return Err(error(format!("`schema={schema}`: expected 1 to 40 of a to z, 0 to 9 and _")));
        }
        let transaction_pooler = match ours.get("pooler").copied() {
            None | Some("none") => false,
            Some("transaction") => true,
            Some(other) => return Err(error(format!("`pooler={other}`: expected `none` or `transaction`"))),
        };
        let shares_versions = match ours.get("versions").copied() {
            None | Some("own") => false,
            Some("shared") => true,
            Some(other) => return Err(error(format!("`versions={other}`: expected `own` or `shared`"))),
        };
        let number = |key: &str, default: u64, range: std::ops::RangeInclusive<u64>| match ours.get(key) {
            None => Ok(default),
            Some(text) => text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
                error(format!("`{key}={text}`: expected a number from {} to {}", range.start(), range.end()))
            }),
        };
        let connections = usize::try_from(number("connections", 8, 2..=1_000)?).unwrap_or(8);
        let lease = Duration::from_secs(number("lease", 10, 1..=3_600)?);
        let roots = ours.get("sslrootcert").map(|path| (*path).to_owned());
        Ok(Self { server, schema: schema.to_owned(), transaction_pooler, connections, lease, shares_versions, roots })
    }
}

/// Returns `true` if the connection crosses no network.
fn is_local(server: &tokio_postgres::Config) -> bool {
    use tokio_postgres::config::Host;
    let addresses = server.get_hostaddrs();
    let named = server.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    });
    named && addresses.iter().all(std::net::IpAddr::is_loopback)
}

impl Settings {
    /// Takes a password that stands elsewhere than in the URL, where process lists and logs would show it.
    pub fn password(&mut self, password: &str) {
        self.server.password(password);
    }

    /// Encrypts as `sslmode` says; a server is never trusted without a certificate that leads to a known root.
    pub(crate) fn tls(&self) -> Result<MakeRustlsConnect, SettingsError> {
        let mut roots = RootCertStore::empty();
        if self.server.get_ssl_mode() != SslMode::Disable {
            if let Some(path) = &self.roots {
                let pem = std::fs::read(path)
                    .map_err(|cause| SettingsError(format!("`sslrootcert={path}` cannot be read: {cause}")))?;
                let found = rustls_pki_types(&pem);
                if found.is_empty() {
                    return Err(SettingsError(format!("`sslrootcert={path}` holds no certificate in PEM")));
                }
                roots.add_parsable_certificates(found);
            } else {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|cause| SettingsError(format!("TLS cannot be set up: {cause}")))?;
        Ok(MakeRustlsConnect::new(config.with_root_certificates(roots).with_no_client_auth()))
    }
}

fn rustls_pki_types(pem: &[u8]) -> Vec<rustls::pki_types::CertificateDer<'static>> {
    use rustls::pki_types::pem::PemObject as _;
    rustls::pki_types::CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_of_the_settings_holds_no_password() {
        let settings: Settings = "postgres://ada:hunter2@db.example:6000/runs?schema=s1".parse().unwrap();
        assert_eq!(settings.to_string(), "postgres://db.example:6000/runs?schema=s1");
        assert!(!format!("{settings:?}").contains("hunter2"));
    }

    #[test]
    fn a_schema_that_is_not_a_plain_name_is_refused() {
        for schema in ["", "a-b", "x\"; DROP", "Ä"] {
            let error = format!("postgres://h/d?schema={schema}").parse::<Settings>().unwrap_err();
            assert!(error.to_string().contains("expected 1 to 40"), "{error}");
        }
    }

    #[test]
    fn versions_are_shared_only_where_the_url_says_so() {
        let shares = |url: &str| url.parse::<Settings>().map(|settings| settings.shares_versions);
        assert_eq!(shares("postgres://h/d"), Ok(false));
        assert_eq!(shares("postgres://h/d?versions=own"), Ok(false));
        assert_eq!(shares("postgres://h/d?versions=shared"), Ok(true));
        assert!(shares("postgres://h/d?versions=all").unwrap_err().to_string().contains("expected `own` or `shared`"));
    }

    #[test]
    fn what_crosses_a_network_is_encrypted_unless_the_url_says_otherwise() {
        let mode = |url: &str| url.parse::<Settings>().unwrap().server.get_ssl_mode();
        assert_eq!(mode("postgres://db.test/runs"), SslMode::Require);
        assert_eq!(mode("postgres://localhost/runs"), SslMode::Disable);
        assert_eq!(mode("postgres://127.0.0.1,db.test/runs"), SslMode::Require);
        assert_eq!(mode("postgres://db.test/runs?sslmode=disable"), SslMode::Disable);
    }

    #[test]
    fn an_error_about_a_url_does_not_quote_it() {
        let error = "postgres://ada:hunter2@h/d?no_such_option=1".parse::<Settings>().unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
