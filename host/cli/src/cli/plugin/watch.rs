//! Waits until a plugin's source or cases change, and then until they have stopped changing.

use crate::cli::Failure;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher, event::ModifyKind};
use std::{collections::BTreeSet, path::Path, time::Duration};
use tokio::sync::mpsc;

/// The quiet time after which a change counts as whole: editors write a file in several steps.
const QUIET_PERIOD: Duration = Duration::from_millis(200);

/// Folders that are watched one by one; what is built and installed there is not.
const MAX_FOLDERS: usize = 1_000;

/// Watches from the moment it is made.
pub(in crate::cli) struct Watch {
    changes: mpsc::Receiver<()>,
    _watcher: RecommendedWatcher,
}

impl Watch {
    /// Watches the source of a plugin and its cases.
    pub(super) fn over(folder: &Path, cases: Option<&Path>) -> Result<Self, Failure> {
        let (tell, changes) = mpsc::channel(1);
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // One word is enough: who listens looks at everything.
            if event.is_ok_and(|event| matters(&event)) {
                let _ = tell.try_send(());
            }
        })
        .map_err(anyhow::Error::from)?;
        let sources = opcell_author::sources(folder).map_err(|error| super::build::wrong(&error))?.unwrap_or_default();
        let mut folders: BTreeSet<&Path> = sources.iter().filter_map(|path| path.parent()).collect();
        folders.insert(folder);
        let own = folder.join("cases");
        folders.insert(cases.unwrap_or(&own));
        for folder in folders.into_iter().filter(|folder| folder.is_dir()).take(MAX_FOLDERS) {
            watcher.watch(folder, RecursiveMode::NonRecursive).map_err(anyhow::Error::from)?;
        }
        Ok(Self { changes, _watcher: watcher })
    }

    /// Watches one file, and what takes its place.
    pub(in crate::cli) fn of_file(file: &Path) -> Result<Self, Failure> {
        let (tell, changes) = mpsc::channel(1);
        let name = file.file_name().map(ToOwned::to_owned);
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let is_it = |event: &notify::Event| event.paths.iter().any(|path| path.file_name() == name.as_deref());
            if event.is_ok_and(|event| is_change(&event) && is_it(&event)) {
                let _ = tell.try_send(());
            }
        })
        .map_err(anyhow::Error::from)?;
        // A build puts a new file in the place of the old one: only its folder sees that.
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        watcher.watch(folder, RecursiveMode::NonRecursive).map_err(anyhow::Error::from)?;
        Ok(Self { changes, _watcher: watcher })
    }

    /// Returns when something has changed and then nothing more for a moment.
    pub(in crate::cli) async fn changed(mut self) {
        let _ = self.changes.recv().await;
        while tokio::time::timeout(QUIET_PERIOD, self.changes.recv()).await.is_ok() {}
    }
}

fn is_change(event: &notify::Event) -> bool {
    !matches!(event.kind, EventKind::Modify(ModifyKind::Metadata(_)) | EventKind::Access(_))
}

/// Reading is not a change, and neither is what builds leave in the plugin's folder.
fn matters(event: &notify::Event) -> bool {
    let built = ["target", "dist", "opcell.lock", "Cargo.lock", "__pycache__", "node_modules"];
    let own = |path: &std::path::PathBuf| {
        path.file_name().is_none_or(|name| {
            !built.iter().any(|built| name == *built) && !name.as_encoded_bytes().ends_with(b".part")
        })
    };
    is_change(event) && event.paths.iter().any(own)
}
