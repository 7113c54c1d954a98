//! The granted roots of one plugin, opened when it is loaded and shared by its cells.

use crate::{
    error::LoadError,
    grants::{FilesGrant, Grants},
};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use opcell_types::{
    control::{ControlFiles, Touch, is_in_repository},
    quota::{QuotaStore, ThisProcess, WriterQuota, Written},
};
use rustix::fs::{Mode, OFlags, Stat};
use std::{
    collections::BTreeMap,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
};

/// One granted directory.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) name: String,
    pub(crate) descriptor: Arc<OwnedFd>,
    /// The path of the root, without links.
    path: PathBuf,
    /// The files that the grant does not extend to; `None` when it extends to everything.
    control: Option<Arc<ControlFiles>>,
    patterns: Option<GlobSet>,
    quota: Written,
    account: Arc<dyn WriterQuota>,
}

impl Root {
    fn open(
        plugin: &str,
        name: &str,
        grant: &FilesGrant,
        control: &Arc<ControlFiles>,
        ledger: &dyn QuotaStore,
    ) -> Result<Self, LoadError> {
        // The operator's own path may well go through symbolic links; what lies below it may not.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let failed = |source| LoadError::Grant { name: name.to_owned(), path: grant.path.clone(), source };
        let descriptor = rustix::fs::open(&grant.path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
        let path = grant.path.canonicalize().map_err(failed)?;
        if let Some(place) = control.sealed_by(&path) {
            return Err(LoadError::Sealed { name: name.to_owned(), path: grant.path.clone(), place: place.to_owned() });
        }
        let account = ledger.account(plugin, &path);
        Ok(Self {
            name: name.to_owned(),
            descriptor: Arc::new(descriptor),
            path,
            control: (!grant.control_files).then(|| Arc::clone(control)),
            patterns: patterns(name, &grant.patterns)?,
            quota: Written { bytes: grant.write_quota, entries: grant.created_entries() },
            account,
        })
    }

    /// Returns a directory for the guest to hold while it replays a recording: it leads nowhere.
    pub(crate) fn stand_in(name: String) -> std::io::Result<Self> {
        let descriptor = rustix::fs::open("/dev/null", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self {
            name,
            descriptor: Arc::new(descriptor),
            path: PathBuf::new(),
            control: None,
            patterns: None,
            quota: Written::default(),
            account: ThisProcess.account("", Path::new("")),
        })
    }

    /// Returns `true` if the grant's patterns cover a path from the root.
    pub(crate) fn covers(&self, path: &str) -> bool {
        self.patterns.as_ref().is_none_or(|patterns| patterns.is_match(path))
    }

    /// Why the grant does not extend to a file, by its path from the root and by where an open descriptor says that it
    /// is: a directory may have been renamed since it was opened.
    pub(crate) fn refuses(&self, touch: Touch, path: &str, real: Option<&Path>) -> Option<String> {
        let control = self.control.as_ref()?;
        control.refuses(touch, &self.path.join(path)).or_else(|| control.refuses(touch, real?))
    }

    /// Why nothing is written there, although its name says nothing: it would be a part of a repository. Blocks.
    pub(crate) fn refuses_part_of_repository(&self, real: &Path) -> Option<String> {
        self.control.as_ref().and_then(|_| is_in_repository(real, &self.path))
    }

    /// Refuses a file with several names that is one of those that the grant does not extend to, under another name.
    pub(crate) fn refuses_hard_link(&self, status: &Stat) -> Option<String> {
        let control = self.control.as_ref().filter(|_| status.st_nlink > 1)?;
        control.refuses_hard_link(&self.path, (status.st_dev, status.st_ino))
    }

    /// Books what is about to be written in the account that all cells share; false when the quota does not allow it.
    pub(crate) async fn book(self: &Arc<Self>, wanted: Written) -> bool {
        if !self.account.waits() {
            return self.account.take(wanted, self.quota);
        }
        let root = Arc::clone(self);
        // A task is lost only when the runtime ends.
        tokio::task::spawn_blocking(move || root.account.take(wanted, root.quota)).await.unwrap_or(false)
    }
}

fn patterns(name: &str, patterns: &[String]) -> Result<Option<GlobSet>, LoadError> {
    if patterns.is_empty() {
        return Ok(None);
    }
    let wrong = |pattern: &str, error: globset::Error| LoadError::Pattern {
        name: name.to_owned(),
        pattern: pattern.to_owned(),
        message: error.kind().to_string(),
    };
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(GlobBuilder::new(pattern).literal_separator(true).build().map_err(|error| wrong(pattern, error))?);
    }
    Ok(Some(set.build().map_err(|error| wrong(&patterns.join(", "), error))?))
}

/// The granted directories of one plugin, by name.
#[derive(Debug, Default)]
pub(crate) struct Roots(BTreeMap<String, Arc<Root>>);

impl Roots {
    /// Opens every granted directory; a grant to a path that does not exist is an error.
    pub(crate) fn open(
        plugin: &str,
        grants: &Grants,
        control: &Arc<ControlFiles>,
        ledger: &dyn QuotaStore,
    ) -> Result<Self, LoadError> {
        let open = |(name, grant): (&String, &FilesGrant)| {
            Ok((name.clone(), Arc::new(Root::open(plugin, name, grant, control, ledger)?)))
        };
        grants.files.iter().map(open).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<Root>> {
        self.0.get(name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(grant: FilesGrant) -> Result<Root, LoadError> {
        Root::open("test", "repo", &grant, &Arc::default(), &ThisProcess)
    }

    #[test]
    fn a_star_stays_within_its_segment_and_two_cross_segments() {
        let root =
            open(FilesGrant { patterns: vec!["*.md".to_owned(), "src/**".to_owned()], ..FilesGrant::read("/tmp") })
                .unwrap();
        assert!(root.covers("README.md") && root.covers("src/a/b.rs"));
        assert!(!root.covers("docs/README.md") && !root.covers("secret"));
    }

    #[test]
    fn a_grant_to_a_path_that_does_not_exist_is_an_error() {
        let error = open(FilesGrant::read("/does/not/exist")).unwrap_err().to_string();
        assert!(error.starts_with("cannot open the grant `repo`: `/does/not/exist`"), "{error}");
    }

    #[test]
    fn the_write_quota_pays_for_one_new_file_per_kilobyte_and_for_a_few_in_any_case() {
        for (write_quota, entries) in [(1 << 20, 1_024), (10, 64)] {
            let root = open(FilesGrant { write_quota, ..FilesGrant::read_write("/tmp") }).unwrap();
            assert_eq!(root.quota, Written { bytes: write_quota, entries });
        }
    }
}
