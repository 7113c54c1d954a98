//! Tokens: made by the command, shown once, kept as hashes in a file of the user that no project and no grant reaches.

use super::Caller;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use opcell_types::files::{Folder, Readers, lock};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};
use subtle::ConstantTimeEq;

/// The time for which the file is taken to be unchanged: a revoked token works at most that much longer.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The prefix of every token, so that scanners recognise one that was published.
pub(super) const PREFIX: &str = "opcell_";

/// A permission of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Look at everything of the tenant.
    Read,
    /// Start runs, call operations, send messages.
    Run,
    /// Approve and refuse what runs ask for.
    Approve,
    /// All of these, and change what the server has loaded.
    Admin,
    /// Read `/metrics` of all tenants, and nothing else. Not part of [`Self::Admin`], which one tenant has.
    Metrics,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Read, Self::Run, Self::Approve, Self::Admin, Self::Metrics];

    /// As the command line and files have it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Run => "run",
            Self::Approve => "approve",
            Self::Admin => "admin",
            Self::Metrics => "metrics",
        }
    }
}

/// A token as it is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StoredToken {
    /// Public part of the token; names it in lists, logs and events.
    pub id: Arc<str>,
    /// The operator's name for it.
    pub name: String,
    /// The tenant that it is bound to.
    pub tenant: Arc<str>,
    /// The scopes of the token.
    pub scopes: Vec<Scope>,
    /// SHA-256 of the secret part, hexadecimal. The secret has 256 random bits, so nothing slower is needed.
    pub hash: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    tokens: Vec<StoredToken>,
}

/// The tokens of one project.
#[derive(Debug, Clone)]
pub struct TokenStore {
    file: PathBuf,
    /// Files that say that the project had a token once, wherever its list has gone.
    marks: Vec<PathBuf>,
    read: Arc<Mutex<Read>>,
}

#[derive(Debug, Default)]
struct Read {
    looked: Option<Instant>,
    tokens: Arc<Vec<StoredToken>>,
    is_in_use: bool,
}

/// A token that no file holds, for the time that a server runs.
pub(super) fn secret() -> io::Result<String> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(io::Error::other)?;
    Ok(format!("{PREFIX}start_{}", URL_SAFE_NO_PAD.encode(secret)))
}

impl TokenStore {
    /// The store of a project, below the user's own `state` directory: of the project file, or of its folder where
    /// there is no file. Two project files of one folder are two projects.
    #[must_use]
    pub fn of_project(state: &Path, project: &Path) -> Self {
        let project = project.canonicalize().unwrap_or_else(|_| project.to_owned());
        let key = |path: &Path| {
            let name = hex(&Sha256::digest(path.as_os_str().as_encoded_bytes()));
            name.get(..32).unwrap_or(&name).to_owned()
        };
        let (tokens, name) = (state.join("tokens"), key(&project));
        let mut marks = vec![state.join("tokens-required").join(&name)];
        if let (Some(folder), Some(file)) = (project.parent(), project.file_name()) {
            marks.push(folder.join(".opcell").join(format!("tokens-required-{}", file.to_string_lossy())));
            // Where tokens of the whole folder were kept: they open nothing any more, and nothing is open for it.
            marks.push(tokens.join(format!("{}.json", key(folder))));
        }
        Self { file: tokens.join(format!("{name}.json")), marks, read: Arc::default() }
    }

    /// Returns `true` if the project has tokens, or had one once: then every request needs one, also when the list is
    /// empty or gone. What cannot be looked up counts as yes.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.current();
        self.read.lock().unwrap_or_else(PoisonError::into_inner).is_in_use
    }

    /// Every token.
    ///
    /// # Errors
    /// When the file cannot be read, or is not one of ours.
    pub fn list(&self) -> io::Result<Vec<StoredToken>> {
        match fs::read(&self.file) {
            Ok(bytes) => Ok(serde_json::from_slice::<Contents>(&bytes).map_err(io::Error::other)?.tokens),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Makes a token and returns it: the only time that it can be seen.
    ///
    /// # Errors
    /// When the file cannot be read or written, or there is no randomness.
    pub fn create(&self, name: &str, tenant: &str, scopes: &[Scope]) -> io::Result<String> {
        let _turn = self.turn()?;
        let mut tokens = self.list()?;
        let (mut id, mut secret) = ([0; 6], [0; 32]);
        getrandom::fill(&mut id).map_err(io::Error::other)?;
        getrandom::fill(&mut secret).map_err(io::Error::other)?;
        let (id, secret) = (hex(&id), URL_SAFE_NO_PAD.encode(secret));
        let created = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        tokens.push(StoredToken {
            id: id.as_str().into(),
            name: name.to_owned(),
            tenant: tenant.into(),
            scopes: scopes.to_vec(),
            hash: hash(&secret),
            created,
        });
        self.mark()?;
        self.write(tokens)?;
        Ok(format!("{PREFIX}{id}_{secret}"))
    }

    /// Removes the token with this ID; whether there was one.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn revoke(&self, id: &str) -> io::Result<bool> {
        let _turn = self.turn()?;
        let mut tokens = self.list()?;
        let before = tokens.len();
        tokens.retain(|token| *token.id != *id);
        let found = tokens.len() < before;
        if found {
            self.write(tokens)?;
        }
        Ok(found)
    }

    /// Keeps others from changing the list meanwhile: a token that is revoked must not come back with one that is made.
    fn turn(&self) -> io::Result<fs::File> {
        if let Some(folder) = self.file.parent() {
            Folder::open_or_make(folder, Readers::Owner)?;
        }
        lock(&self.file.with_extension("lock"))
    }

    /// Remembers that the project has tokens: among the user's files, and in the project's own folder if it has one.
    fn mark(&self) -> io::Result<()> {
        let place = |mark: &PathBuf| Some((mark.parent()?.to_owned(), mark.file_name()?.to_owned()));
        let mut marks = self.marks.iter().filter_map(place);
        if let Some((folder, name)) = marks.next() {
            Folder::open_or_make(&folder, Readers::Owner)?.replace(name, b"", Readers::Owner)?;
        }
        // A folder that is not there, or cannot be written, only loses the second of two marks.
        if let Some((folder, name)) = marks.next()
            && let (Some(root), Some(inner)) = (folder.parent(), folder.file_name())
            && let Ok(folder) = Folder::open(root).and_then(|root| root.below(Path::new(inner)))
            && let Err(error) = folder.replace(name, b"", Readers::Owner)
        {
            tracing::debug!(%error, "the project's folder does not say that it has tokens");
        }
        Ok(())
    }

    fn write(&self, tokens: Vec<StoredToken>) -> io::Result<()> {
        let (folder, name) = (self.file.parent().unwrap_or(Path::new("")), self.file.file_name().unwrap_or_default());
        let text = serde_json::to_vec_pretty(&Contents { tokens }).map_err(io::Error::other)?;
        Folder::open_or_make(folder, Readers::Owner)?.replace(name, &text, Readers::Owner)
    }

    /// Whose token this is. Takes the same time whatever is wrong with one that has a known ID.
    pub(crate) fn verify(&self, token: &str) -> Option<Caller> {
        let (id, secret) = token.strip_prefix(PREFIX)?.split_once('_')?;
        let tokens = self.current();
        let known = tokens.iter().find(|kept| *kept.id == *id);
        let expected = known.map_or("", |kept| kept.hash.as_str());
        let matches: bool = hash(secret).as_bytes().ct_eq(expected.as_bytes()).into();
        let kept = known.filter(|_| matches)?;
        Some(Caller {
            name: format!("token {} ({})", kept.name, kept.id).into(),
            tenant: Some(kept.tenant.clone()),
            scopes: Some(kept.scopes.clone()),
        })
    }

    /// The tokens as they were a moment ago at the latest. A file that cannot be read holds none.
    fn current(&self) -> Arc<Vec<StoredToken>> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.looked.is_none_or(|looked| looked.elapsed() >= CHECK_INTERVAL) {
            let tokens = self.list().unwrap_or_else(|error| {
                tracing::error!(file = %self.file.display(), %error, "the tokens cannot be read: no request is admitted");
                Vec::new()
            });
            let is_there = |path: &PathBuf| !matches!(path.try_exists(), Ok(false));
            let is_in_use = is_there(&self.file) || self.marks.iter().any(is_there);
            *read = Read { looked: Some(Instant::now()), tokens: Arc::new(tokens), is_in_use };
        }
        read.tokens.clone()
    }
}

fn hash(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_works_until_it_is_revoked_and_is_stored_as_a_hash_only() {
        let folder = tempfile::tempdir().unwrap();
        let store = || TokenStore::of_project(folder.path(), Path::new("/project"));
        let token = store().create("ci", "acme", &[Scope::Run]).unwrap();
        let caller = store().verify(&token).unwrap();
        assert_eq!(caller.tenant.as_deref(), Some("acme"));
        assert!(caller.may(Scope::Run) && !caller.may(Scope::Read) && !caller.may(Scope::Approve));
        assert!(caller.reaches("acme") && !caller.reaches("default"));
        let (_, secret) = token.strip_prefix(PREFIX).unwrap().split_once('_').unwrap();
        assert!(!fs::read_to_string(&store().file).unwrap().contains(secret));
        let mut wrong = token.clone();
        let last = wrong.pop().unwrap();
        wrong.push(if last == 'A' { 'B' } else { 'A' });
        assert!(store().verify(&wrong).is_none());
        assert!(store().verify("").is_none() && store().verify("opcell__").is_none());
        let id = store().list().unwrap().first().unwrap().id.clone();
        assert!(store().revoke(&id).unwrap());
        assert!(store().verify(&token).is_none());
        assert!(!store().revoke(&id).unwrap());
    }

    #[test]
    fn a_project_that_had_a_token_once_stays_closed() {
        let (state, project) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = project.path().join("opcell.toml");
        fs::write(&file, "").unwrap();
        let store = || TokenStore::of_project(state.path(), &file);
        assert!(!store().is_in_use());
        store().create("ci", "default", &[Scope::Run]).unwrap();
        let id = store().list().unwrap().first().unwrap().id.clone();
        store().revoke(&id).unwrap();
        assert!(store().is_in_use(), "the list is empty");
        fs::remove_file(&store().file).unwrap();
        assert!(store().is_in_use(), "the list is gone");
        fs::write(&store().file, "broken").unwrap();
        assert!(store().is_in_use(), "the list cannot be read");
        fs::create_dir(project.path().join(".opcell")).unwrap();
        store().list().unwrap_err();
        fs::remove_file(&store().file).unwrap();
        store().create("ci", "default", &[Scope::Run]).unwrap();
        fs::remove_dir_all(state.path().join("tokens")).unwrap();
        fs::remove_dir_all(state.path().join("tokens-required")).unwrap();
        assert!(store().is_in_use(), "the project's folder says so");
    }

    #[test]
    fn a_token_belongs_to_a_project_file_and_not_to_its_folder() {
        let (state, project) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = |name: &str| {
            fs::write(project.path().join(name), "").unwrap();
            TokenStore::of_project(state.path(), &project.path().join(name))
        };
        let token = store("opcell.toml").create("ci", "default", &[Scope::Run]).unwrap();
        assert!(store("opcell.toml").verify(&token).is_some());
        assert!(store("b.toml").verify(&token).is_none() && !store("b.toml").is_in_use());
        // A list of the folder, as earlier versions kept it.
        TokenStore { marks: Vec::new(), ..TokenStore::of_project(state.path(), project.path()) }
            .create("old", "default", &[Scope::Run])
            .unwrap();
        assert!(store("b.toml").is_in_use());
    }

    #[test]
    fn the_file_is_its_users_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let store = TokenStore::of_project(folder.path(), Path::new("/project"));
        store.create("ci", "acme", &Scope::ALL).unwrap();
        assert_eq!(fs::metadata(&store.file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(store.file.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
