//! What there is: files and bytes by extension, and the largest files.

use crate::counted;
use crate::scan::{Scope, extension};
use opcell_sdk::{Failure, Success};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Rows of each list.
const ROWS: usize = 12;

/// What `repo/inventory` takes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("additionalProperties" = false))]
pub struct InventoryArguments {
    /// Where to look.
    #[serde(flatten)]
    scope: Scope,
}

/// What there is.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Inventory {
    /// Files in all.
    pub files: u64,
    /// Folders in all.
    pub directories: u64,
    /// Bytes in all files.
    pub bytes: u64,
    /// By bytes, the most first.
    pub by_extension: Vec<ExtensionCount>,
    /// By bytes, the most first.
    pub largest: Vec<FileSize>,
    /// Whether there is more than was looked at.
    pub truncated: bool,
}

/// Files of one extension.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ExtensionCount {
    /// In lower case, without its dot; empty without one.
    pub extension: String,
    /// How many.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// One file.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct FileSize {
    /// Relative to the scope.
    pub path: String,
    /// Its bytes.
    pub bytes: u64,
}

pub fn take(arguments: &InventoryArguments) -> Result<Success<Inventory>, Failure> {
    let scan = arguments.scope.scan()?;
    let mut extensions: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for file in &scan.files {
        let (files, bytes) = extensions.entry(extension(file.name())).or_default();
        *files += 1;
        *bytes += file.size;
    }
    let mut by_extension: Vec<ExtensionCount> =
        extensions.into_iter().map(|(extension, (files, bytes))| ExtensionCount { extension, files, bytes }).collect();
    by_extension.sort_by_key(|count| std::cmp::Reverse(count.bytes));
    by_extension.truncate(ROWS);
    let mut largest: Vec<FileSize> =
        scan.files.iter().map(|file| FileSize { path: file.path.clone(), bytes: file.size }).collect();
    largest.sort_by_key(|file| std::cmp::Reverse(file.bytes));
    largest.truncate(ROWS);
    let inventory = Inventory {
        files: scan.files.len() as u64,
        directories: scan.directories,
        bytes: scan.files.iter().map(|file| file.size).sum(),
        by_extension,
        largest,
        truncated: scan.truncated,
    };
    let (files, folders) = (counted(inventory.files, "file"), counted(inventory.directories, "folder"));
    let summary = format!("{files} in {folders}, {}", counted(inventory.bytes, "byte"));
    Ok(Success::new(inventory).with_summary(summary))
}

#[cfg(test)]
mod tests {
    use crate::take_inventory;
    use opcell_sdk::testing::{Host, invoke};
    use serde_json::json;

    #[test]
    fn files_are_counted_by_extension_the_heaviest_first() {
        let files =
            [("Makefile", "12"), ("a/one.rs", "123"), ("a/two.RS", "1234"), ("b/.hidden", ""), ("read.me.md", "1")];
        let _host = Host::new().strict().files("workspace", files).install();

        let inventory = invoke::<take_inventory>(&json!({})).unwrap();

        assert_eq!(
            inventory.data,
            json!({
                "files": 5, "directories": 2, "bytes": 10, "truncated": false,
                "by-extension": [
                    { "extension": "rs", "files": 2, "bytes": 7 },
                    { "extension": "", "files": 2, "bytes": 2 },
                    { "extension": "md", "files": 1, "bytes": 1 },
                ],
                "largest": [
                    { "path": "a/two.RS", "bytes": 4 },
                    { "path": "a/one.rs", "bytes": 3 },
                    { "path": "Makefile", "bytes": 2 },
                    { "path": "read.me.md", "bytes": 1 },
                    { "path": "b/.hidden", "bytes": 0 },
                ],
            })
        );
        assert_eq!(inventory.summary.as_deref(), Some("5 files in 2 folders, 10 bytes"));
    }
}
