//! The journal of a project's runs, and their retention.

use crate::{http::SecretSource, places::real, report::Rejected};
use opcell_ir::Diagnostic;
use opcell_types::FollowUp;
use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

/// The journal of a project's runs, and their retention.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalSettings {
    /// The store.
    pub place: JournalPlace,
    /// The maximum number of ended runs that are kept; all by default.
    pub keep: Option<u64>,
    /// The time for which an ended run is kept; forever by default.
    pub max_age: Option<Duration>,
    /// The folder of the project that chose the place; absent where the user named it.
    pub project: Option<PathBuf>,
}

impl JournalSettings {
    /// The path of the journal of a project that names none.
    pub const DEFAULT_PATH: &str = ".opcell/runs.db";

    /// A store that keeps everything.
    #[must_use]
    pub fn at(place: impl Into<JournalPlace>) -> Self {
        Self { place: place.into(), keep: None, max_age: None, project: None }
    }

    /// The store of a project in `root` that does not say where.
    ///
    /// # Errors
    /// When it leads out of the folder: a checkout may bring a link to the runs of another project.
    pub fn usual(root: &Path) -> Result<Self, Rejected> {
        let path = root.join(Self::DEFAULT_PATH);
        let leads_to = real(&path);
        if leads_to.starts_with(real(root)) {
            return Ok(Self { project: Some(root.to_owned()), ..Self::at(path) });
        }
        let message = format!("{} leads out of its folder, to {}", path.display(), leads_to.display());
        let name_journal = FollowUp::NameJournal;
        let help = format!("name it if you mean it, {name_journal}, or remove the link");
        Err(Rejected::plain(Diagnostic::error("link-leads-out", message).help(help)))
    }
}

/// A store of runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum JournalPlace {
    /// An SQLite file, for one machine.
    File(PathBuf),
    /// A PostgreSQL server, for many machines.
    Server(JournalServer),
}

impl JournalPlace {
    /// The file, unless it is on a server.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Server(_) => None,
        }
    }

    /// Returns the text by which the user's state tells journals apart.
    pub(crate) fn identity(&self) -> String {
        match self {
            Self::File(path) => format!("file {}", real(path).display()),
            Self::Server(server) => format!("server {server}"),
        }
    }
}

impl From<PathBuf> for JournalPlace {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

impl fmt::Display for JournalPlace {
    /// Without a user or a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Server(server) => server.fmt(f),
        }
    }
}

impl FromStr for JournalPlace {
    type Err = String;

    /// A path, or the URL of a PostgreSQL server.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once("://") {
            Some(_) => JournalServer::new(text).map(Self::Server),
            None if text.is_empty() => Err("expected a path or a URL".to_owned()),
            None => Ok(Self::File(text.into())),
        }
    }
}

/// A PostgreSQL server, as its URL says. Whatever prints it leaves out the user and the password.
#[derive(Clone, PartialEq, Eq)]
pub struct JournalServer {
    url: String,
    /// The source of the password, if not the URL.
    pub password: Option<SecretSource>,
    /// `true` if `PGPASSWORD` may give the password: when the user named the server, never when a project did.
    pub usual_password: bool,
}

impl JournalServer {
    /// Reads `postgres://USER@HOST:PORT/DATABASE`.
    ///
    /// # Errors
    /// When it is the URL of something else. The message does not quote what may be a password.
    pub fn new(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        if !matches!(scheme, "postgres" | "postgresql") {
            return Err(format!(
                "`{scheme}://` is not a journal; expected a path or postgres://USER@HOST:PORT/DATABASE"
            ));
        }
        if rest.is_empty() {
            return Err("the URL names no server; expected postgres://USER@HOST:PORT/DATABASE".to_owned());
        }
        Ok(Self { url: url.to_owned(), password: None, usual_password: false })
    }

    /// The URL as it was given, perhaps with a password.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns `true` if the URL itself holds a password.
    #[must_use]
    pub fn holds_password(&self) -> bool {
        let in_query = self.query().split('&').any(|pair| pair.split('=').next() == Some("password"));
        in_query || self.authority().rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
    }

    fn authority(&self) -> &str {
        let rest = self.url.split_once("://").map_or("", |(_, rest)| rest);
        rest.split(['/', '?']).next().unwrap_or_default()
    }

    fn query(&self) -> &str {
        self.url.split_once('?').map_or("", |(_, query)| query)
    }
}

impl fmt::Display for JournalServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.authority().rsplit('@').next().unwrap_or_default();
        let rest = self.url.split_once("://").map_or("", |(_, rest)| rest);
        let path = rest.split_once('/').map_or("", |(_, path)| path);
        write!(f, "postgres://{host}/{}", path.split('?').next().unwrap_or_default())?;
        // `host` in the query names another server than the one before it.
        let mut separator = '?';
        for pair in self.query().split('&') {
            if matches!(pair.split('=').next(), Some("host" | "hostaddr" | "port" | "schema" | "dbname" | "sslmode")) {
                write!(f, "{separator}{pair}")?;
                separator = '&';
            }
        }
        Ok(())
    }
}

impl fmt::Debug for JournalServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JournalServer").field("url", &self.to_string()).field("password", &self.password).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_names_a_file_unless_it_is_a_url() {
        assert_eq!("a/b.db".parse(), Ok(JournalPlace::File("a/b.db".into())));
        assert!(matches!("postgres://h/d".parse(), Ok(JournalPlace::Server(_))));
        let error = "mysql://ada:hunter2@h/d".parse::<JournalPlace>().unwrap_err();
        assert!(error.contains("`mysql://` is not a journal") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn a_server_is_shown_without_user_and_password_but_with_every_host() {
        let server = JournalServer::new("postgres://ada:hunter2@db.test:6000/runs?schema=s1&password=x&host=evil.test");
        let server = server.unwrap();
        assert_eq!(server.to_string(), "postgres://db.test:6000/runs?schema=s1&host=evil.test");
        assert!(!format!("{server:?}").contains("hunter2"));
        assert!(server.holds_password());
        assert!(!JournalServer::new("postgres://ada@db.test/runs").unwrap().holds_password());
    }
}
