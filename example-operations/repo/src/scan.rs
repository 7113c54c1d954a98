//! Which files of the workspace an operation looks at.

use opcell_sdk::files::{self, Directory, EntryKind, WalkEntry};
use opcell_sdk::{Failure, log};
use schemars::JsonSchema;
use serde::Deserialize;

/// Folders that hold what tools made, not what people wrote.
const IGNORED: [&str; 8] = [".git", ".opcell", "target", "dist", "build", "node_modules", ".venv", "__pycache__"];

/// Entries that one walk looks at, unless the call says otherwise.
const MAX_ENTRIES: u32 = 20_000;

/// What every operation on files takes.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct Scope {
    /// A folder of the workspace; the whole workspace unless given.
    pub path: Option<String>,
    /// Names of files and folders to pass over; unless given, those that tools make, such as `.git`, `target` and
    /// `node_modules`.
    pub ignore: Option<Vec<String>>,
    /// Files and folders to look at, at most; 20000 unless given.
    pub max_entries: Option<u32>,
}

/// What a walk met.
pub struct Scan {
    pub root: Directory,
    /// Files in the order of their paths, folder by folder.
    pub files: Vec<WalkEntry>,
    pub directories: u64,
    /// Whether there are more entries than were to be looked at.
    pub truncated: bool,
}

impl Scope {
    fn is_ignored(&self, name: &str) -> bool {
        match &self.ignore {
            Some(names) => names.iter().any(|other| other == name),
            None => IGNORED.contains(&name),
        }
    }

    /// Walks the scope. A folder that cannot be listed is logged and passed over.
    pub fn scan(&self) -> Result<Scan, Failure> {
        let workspace = files::open_root("workspace")?;
        let root = match self.path.as_deref() {
            None | Some("" | ".") => workspace,
            Some(path) => workspace.open_directory(path)?,
        };
        // The root itself must be readable: an empty report on a folder that no one could list would be a lie.
        root.entries()?;
        let limit = self.max_entries.unwrap_or(MAX_ENTRIES) as usize;
        let (mut files, mut directories, mut truncated) = (Vec::new(), 0, false);
        for (index, entry) in root.walk_where(|entry| !self.is_ignored(entry.name())).enumerate() {
            if index >= limit {
                truncated = true;
                break;
            }
            match entry {
                Ok(entry) if entry.kind == EntryKind::File => files.push(entry),
                Ok(entry) if entry.kind == EntryKind::Directory => directories += 1,
                Ok(_) => {}
                Err(error) => log!(warn, "passed over: {error}"),
            }
        }
        Ok(Scan { root, files, directories, truncated })
    }
}

impl Scan {
    /// The text of a file up to a size; `None` for what is not text or cannot be read, which is logged.
    pub fn text(&self, file: &WalkEntry, max_bytes: u64) -> Option<String> {
        let bytes = self.root.open(&file.path).and_then(|mut open| open.read_up_to(max_bytes));
        match bytes {
            Ok(bytes) if bytes.contains(&0) => None,
            Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) => {
                log!(warn, "passed over: {error}");
                None
            }
        }
    }
}

/// The extension in lower case; empty without one.
pub fn extension(name: &str) -> String {
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => extension.to_lowercase(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcell_sdk::testing::Host;

    fn workspace() -> Host {
        let paths = [".git/config", "README.md", "src/lib.rs", "src/deep/er/mod.rs", "target/debug/x"];
        Host::new().strict().files("workspace", paths.map(|path| (path, "")))
    }

    fn paths(scope: &Scope) -> Vec<String> {
        scope.scan().unwrap().files.into_iter().map(|file| file.path).collect()
    }

    #[test]
    fn what_tools_make_is_passed_over_unless_the_call_says_otherwise() {
        let _host = workspace().install();

        assert_eq!(paths(&Scope::default()), ["README.md", "src/deep/er/mod.rs", "src/lib.rs"]);
        let own = Scope { ignore: Some(vec!["src".to_owned(), ".git".to_owned()]), ..Scope::default() };
        assert_eq!(paths(&own), ["README.md", "target/debug/x"]);
    }

    #[test]
    fn a_scope_can_be_a_folder() {
        let _host = workspace().install();

        assert_eq!(paths(&Scope { path: Some("src/deep".to_owned()), ..Scope::default() }), ["er/mod.rs"]);
        let missing = Scope { path: Some("nowhere".to_owned()), ..Scope::default() }.scan();
        assert_eq!(missing.err().unwrap().reason, "file-not-found");
        let outside = Scope { path: Some("../secrets".to_owned()), ..Scope::default() }.scan();
        assert_eq!(outside.err().unwrap().reason, "denied");
    }

    #[test]
    fn a_walk_stops_at_its_bound_and_says_so() {
        let _host = workspace().install();

        let scan = Scope { max_entries: Some(2), ..Scope::default() }.scan().unwrap();

        assert!(scan.truncated);
        assert_eq!((scan.files.len(), scan.directories), (1, 1));
    }

    #[test]
    fn without_the_grant_there_is_a_denial() {
        let _host = Host::new().install();

        assert_eq!(Scope::default().scan().err().unwrap().reason, "denied");
    }
}
