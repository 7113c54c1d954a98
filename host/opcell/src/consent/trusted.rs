//! The user's consent, kept among the user's own state.

use super::{Request, Requests};
use crate::{
    config::lock::write_whole,
    places::{Places, real},
    report::Rejected,
};
use opcell_ir::Diagnostic;
use opcell_types::{
    Digest,
    files::{Folder, Readers, lock, read_text_bounded},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs::File,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The most that is read: consent to thousands of projects.
const MAX_BYTES: u64 = 64 << 20;

const HEADER: &str = "# What `opcell trust` accepted. `opcell trust --revoke` takes an entry out.\n";

/// The consent of one user to all projects.
#[derive(Debug, Clone, Default)]
pub struct Trusted {
    file: Option<PathBuf>,
    text: TrustedText,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustedText {
    /// By the canonical path of the project file.
    #[serde(default)]
    projects: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    digest: Digest,
    requests: Vec<String>,
    /// Digests of each request, with what its line leaves out; absent in files of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    whole: Vec<String>,
}

impl TrustedText {
    fn read(file: &Path) -> Result<Self, Rejected> {
        let wrong = |what: String| {
            let message = format!("{} {what}", file.display());
            Rejected::plain(Diagnostic::error("trust-unreadable", message).help("remove it; projects then ask again"))
        };
        let text = match read_text_bounded(file, MAX_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => return Err(wrong(format!("cannot be read: {error}"))),
        };
        let status = file.symlink_metadata().map_err(|error| wrong(format!("cannot be read: {error}")))?;
        if !status.is_file() || status.uid() != rustix::process::geteuid().as_raw() || status.mode() & 0o022 != 0 {
            return Err(wrong("could have been written by another user".to_owned()));
        }
        toml_edit::de::from_str(&text).map_err(|error| wrong(format!("cannot be read: {error}")))
    }
}

/// The user's earlier answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Before {
    /// Nothing.
    New,
    /// They allowed a request with the same line, but a program that it starts has changed.
    Changed,
    /// They allowed it.
    Same,
}

impl Trusted {
    /// Reads the file of this user; there may be none yet.
    ///
    /// # Errors
    /// When it cannot be read, or someone else could have written it.
    pub fn read(places: &Places) -> Result<Self, Rejected> {
        match places.state.as_ref().map(|state| state.join("trusted")) {
            Some(file) => Ok(Self { text: TrustedText::read(&file)?, file: Some(file) }),
            None => Ok(Self::default()),
        }
    }

    /// Returns `true` if the user consented to exactly this.
    #[must_use]
    pub fn has(&self, project: &Path, requests: &Requests) -> bool {
        self.text.projects.get(&key(project)).is_some_and(|entry| entry.digest == *requests.digest())
    }

    /// Returns the user's earlier answer to a request, whatever else the project then requested.
    #[must_use]
    pub fn before(&self, project: &Path, request: &Request) -> Before {
        let Some(entry) = self.text.projects.get(&key(project)) else { return Before::New };
        let line = request.to_string();
        match entry.requests.contains(&line) {
            false => Before::New,
            true if entry.whole.is_empty() || entry.whole.contains(&request.digest()) => Before::Same,
            true => Before::Changed,
        }
    }

    /// Returns `true` if the user consented to anything of this project.
    #[must_use]
    pub fn knows(&self, project: &Path) -> bool {
        self.text.projects.contains_key(&key(project))
    }

    /// Remembers consent.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn allow(&mut self, project: &Path, requests: &Requests) -> io::Result<()> {
        let entry = Entry {
            digest: requests.digest().clone(),
            requests: requests.iter().map(ToString::to_string).collect(),
            whole: requests.iter().map(Request::digest).collect(),
        };
        let _turn = self.newest()?;
        self.text.projects.insert(key(project), entry);
        self.write()
    }

    /// Forgets consent; false when there was none.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn revoke(&mut self, project: &Path) -> io::Result<bool> {
        let _turn = self.newest()?;
        if self.text.projects.remove(&key(project)).is_none() {
            return Ok(false);
        }
        self.write().map(|()| true)
    }

    fn file(&self) -> io::Result<&Path> {
        let no_home = || io::Error::other("there is no home directory to keep it in; set HOME or XDG_STATE_HOME");
        self.file.as_deref().ok_or_else(no_home)
    }

    /// Takes in what others have written since, and keeps them from writing meanwhile: consent that is revoked must not
    /// come back with that to another project.
    fn newest(&mut self) -> io::Result<File> {
        let file = self.file()?.to_owned();
        if let Some(folder) = file.parent() {
            Folder::open_or_make(folder, Readers::Owner)?;
        }
        let turn = lock(&file.with_extension("lock"))?;
        self.text = TrustedText::read(&file).map_err(io::Error::other)?;
        Ok(turn)
    }

    fn write(&self) -> io::Result<()> {
        let file = self.file()?;
        let text = toml_edit::ser::to_string_pretty(&self.text).map_err(io::Error::other)?;
        write_whole(file, &format!("{HEADER}\n{text}"), Readers::Owner)
    }
}

fn key(project: &Path) -> String {
    real(project).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use std::os::unix::fs::PermissionsExt as _;

    fn places(folder: &Path) -> Places {
        Places { state: Some(folder.join("state")), ..Places::default() }
    }

    fn requests(text: &str, root: &Path) -> Requests {
        Requests::of(&Config::parse("opcell.toml", text.to_owned(), root).unwrap())
    }

    #[test]
    fn consent_is_to_one_list_at_one_path_and_can_be_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("opcell.toml");
        let asks = requests("[sessions]\nrecord = \"r.yaml\"", folder.path());
        Trusted::read(&places(folder.path())).unwrap().allow(&project, &asks).unwrap();
        let mut trusted = Trusted::read(&places(folder.path())).unwrap();
        assert!(trusted.has(&project, &asks));
        assert!(!trusted.has(&folder.path().join("copy/opcell.toml"), &asks));
        let more = requests("[sessions]\nrecord = \"r.yaml\"\n[sessions.bash]\ndangerous = true", folder.path());
        assert!(!trusted.has(&project, &more) && trusted.knows(&project));
        let mode = std::fs::metadata(folder.path().join("state/trusted")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(trusted.revoke(&project).unwrap());
        assert!(!Trusted::read(&places(folder.path())).unwrap().has(&project, &asks));
    }

    #[test]
    fn what_changed_since_consent_is_told_request_by_request() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("opcell.toml");
        let before = |text: &str| {
            let trusted = Trusted::read(&places(folder.path())).unwrap();
            requests(text, folder.path()).iter().map(|request| trusted.before(&project, request)).collect::<Vec<_>>()
        };
        std::fs::write(folder.path().join("server.sh"), "one").unwrap();
        let server = "[mcp.m]\ncommand = [\"sh\", \"server.sh\"]";
        assert_eq!(before(server), [Before::New]);
        let asks = requests(server, folder.path());
        Trusted::read(&places(folder.path())).unwrap().allow(&project, &asks).unwrap();
        assert_eq!(before(server), [Before::Same]);
        assert_eq!(before(&format!("{server}\nenv = [\"X\"]")), [Before::Same, Before::New]);
        std::fs::write(folder.path().join("server.sh"), "two").unwrap();
        assert_eq!(before(server), [Before::Changed]);
    }

    #[test]
    fn of_several_that_are_written_at_once_none_is_lost_and_none_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let project = |name: &str| folder.path().join(name).join("opcell.toml");
        let asks = requests("[sessions]\nrecord = \"r.yaml\"", folder.path());
        let mut first = Trusted::read(&places(folder.path())).unwrap();
        let mut second = first.clone();
        first.allow(&project("a"), &asks).unwrap();
        second.allow(&project("b"), &asks).unwrap();
        assert!(first.revoke(&project("b")).unwrap(), "it was read before that was written");
        second.allow(&project("c"), &asks).unwrap();
        let now = Trusted::read(&places(folder.path())).unwrap();
        assert!(now.knows(&project("a")) && !now.knows(&project("b")) && now.knows(&project("c")));
    }

    #[test]
    fn consent_that_others_may_write_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("opcell.toml");
        let asks = requests("[sessions]\nrecord = \"r.yaml\"", folder.path());
        Trusted::read(&places(folder.path())).unwrap().allow(&project, &asks).unwrap();
        let file = folder.path().join("state/trusted");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(Trusted::read(&places(folder.path())).is_err());
    }
}
