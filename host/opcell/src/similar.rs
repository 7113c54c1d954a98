//! Paths that were probably meant by one that leads nowhere.

use opcell_types::suggest::did_you_mean;
use std::path::{Path, PathBuf};

/// Entries of a folder that are compared.
const MAX_ENTRIES: usize = 1_000;

/// Returns a path that exists and differs from this one in the spelling of one name. Blocks.
pub(crate) fn similar_path(path: &Path) -> Option<PathBuf> {
    let folder = path.ancestors().skip(1).find(|above| above.is_dir())?;
    let mut missing = path.strip_prefix(folder).ok()?.components();
    let name = missing.next()?.as_os_str().to_str()?.to_owned();
    let entries = std::fs::read_dir(folder).ok()?.take(MAX_ENTRIES).flatten();
    let names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let meant = folder.join(did_you_mean(&name, names.iter().map(String::as_str))?).join(missing.as_path());
    // A path that ends with the name would end with a slash.
    let meant: PathBuf = meant.components().collect();
    meant.exists().then_some(meant)
}

#[cfg(test)]
mod tests {
    use super::similar_path;

    #[test]
    fn a_path_with_one_misspelt_name_is_found_and_another_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plugins/repo.wasm");
        std::fs::create_dir(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "").unwrap();
        for wrong in ["plugins/rpo.wasm", "plugin/repo.wasm", "plugins/Repo.wasm"] {
            assert_eq!(similar_path(&folder.path().join(wrong)), Some(file.clone()), "{wrong}");
        }
        for other in ["plugins/zebra.wasm", "plugin/zebra.wasm", "elsewhere/repo.wasm"] {
            assert_eq!(similar_path(&folder.path().join(other)), None, "{other}");
        }
    }
}
