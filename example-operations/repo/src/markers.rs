//! Markers that people leave in sources for later: TODO and its kin.

use crate::counted;
use crate::scan::{Scope, extension};
use opcell_sdk::log::progress;
use opcell_sdk::{Failure, Success};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const MARKERS: [&str; 4] = ["TODO", "FIXME", "HACK", "XXX"];

const EXTENSIONS: [&str; 20] = [
    "c", "clj", "cpp", "cs", "edn", "go", "h", "java", "js", "kt", "md", "py", "rb", "rs", "sh", "swift", "toml", "ts",
    "wit", "yml",
];

const MAX_FILES: u32 = 100;
const MAX_MATCHES: u32 = 100;
const MAX_FILE_BYTES: u64 = 256 * 1024;

/// The longest text shown of a line, in characters.
const SHOWN: usize = 120;

/// What `repo/find-markers` takes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", default)]
#[schemars(extend("additionalProperties" = false))]
pub struct MarkerArguments {
    /// Where to look.
    #[serde(flatten)]
    scope: Scope,
    /// Words to look for, each as a whole word; TODO, FIXME, HACK and XXX unless given.
    markers: Option<Vec<String>>,
    /// Extensions of the files to read; those of common languages unless given.
    extensions: Option<Vec<String>>,
    /// Files to read for every visit of the step so far, at most: the second visit reads twice as many. 100 unless
    /// given.
    max_files: Option<u32>,
    /// Matches to list, at most; all are counted. 100 unless given.
    max_matches: Option<u32>,
    /// Bytes to read of a file, at most; 262144 unless given.
    max_file_bytes: Option<u64>,
}

/// What was found.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Markers {
    /// The first of them.
    pub matches: Vec<Match>,
    /// All of them, by marker.
    pub counts: BTreeMap<String, u64>,
    /// All of them.
    pub total: u64,
    /// Files that were read.
    pub files_read: u64,
    /// Files that a later visit would read.
    pub files_left: u64,
}

/// One marker.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Match {
    /// Relative to the scope.
    pub path: String,
    /// From 1.
    pub line: u64,
    /// Which one.
    pub marker: String,
    /// Its line, trimmed and perhaps cut.
    pub text: String,
}

pub fn find(arguments: &MarkerArguments, visit: u32) -> Result<Success<Markers>, Failure> {
    let markers = arguments.markers.clone().unwrap_or_else(|| MARKERS.map(str::to_owned).to_vec());
    if markers.iter().any(String::is_empty) {
        return Err(Failure::new("invalid-marker", "a marker is at least one character"));
    }
    let scan = arguments.scope.scan()?;
    let wanted = |name: &str| match &arguments.extensions {
        Some(extensions) => extensions.contains(&extension(name)),
        None => EXTENSIONS.contains(&extension(name).as_str()),
    };
    let files: Vec<_> = scan.files.iter().filter(|file| wanted(file.name())).collect();
    let budget = arguments.max_files.unwrap_or(MAX_FILES).max(1).saturating_mul(visit.max(1)) as usize;
    let max_matches = arguments.max_matches.unwrap_or(MAX_MATCHES) as usize;
    let reading = files.get(..budget.min(files.len())).unwrap_or_default();

    let mut found = Markers {
        matches: Vec::new(),
        counts: markers.iter().map(|marker| (marker.clone(), 0)).collect(),
        total: 0,
        files_read: reading.len() as u64,
        files_left: (files.len() - reading.len()) as u64,
    };
    for (index, file) in reading.iter().enumerate() {
        if index % 50 == 0 {
            progress(index as u64, reading.len() as u64, "reading files");
        }
        let Some(text) = scan.text(file, arguments.max_file_bytes.unwrap_or(MAX_FILE_BYTES)) else { continue };
        for (number, line) in text.lines().enumerate() {
            for marker in markers.iter().filter(|marker| has_word(line, marker)) {
                *found.counts.entry(marker.clone()).or_default() += 1;
                found.total += 1;
                if found.matches.len() < max_matches {
                    let text = line.trim().chars().take(SHOWN).collect();
                    let (path, line) = (file.path.clone(), number as u64 + 1);
                    found.matches.push(Match { path, line, marker: marker.clone(), text });
                }
            }
        }
    }
    let (total, read) = (counted(found.total, "marker"), counted(found.files_read, "file"));
    let summary = format!("{total} in {read}, {} left", counted(found.files_left, "file"));
    Ok(Success::new(found).with_summary(summary))
}

/// Whether a line contains a word, with no letter, digit or underscore on either side.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).any(|(start, _)| {
        let before = line.get(..start).and_then(|text| text.chars().next_back());
        let after = line.get(start + word.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcell_sdk::testing::Host;

    fn find_in(files: &[(&str, &str)], arguments: MarkerArguments, visit: u32) -> Markers {
        let _host = Host::new().strict().files("workspace", files.iter().copied()).install();
        find(&arguments, visit).unwrap().data
    }

    #[test]
    fn a_marker_is_a_whole_word_in_a_source() {
        let text = "fn a() {} // TODO: b\n\nlet TODOS = 1; // my_TODO\n  # FIXME, TODO";
        let found = find_in(&[("src/a.rs", text), ("b.bin", "TODO")], MarkerArguments::default(), 1);

        let places: Vec<_> =
            found.matches.iter().map(|found| (found.line, found.marker.as_str(), found.text.as_str())).collect();
        assert_eq!(
            places,
            [(1, "TODO", "fn a() {} // TODO: b"), (4, "TODO", "# FIXME, TODO"), (4, "FIXME", "# FIXME, TODO")]
        );
        assert_eq!((found.total, found.counts["TODO"], found.counts["XXX"]), (3, 2, 0));
    }

    #[test]
    fn every_visit_reads_deeper() {
        let files = [("a.rs", "TODO"), ("b.rs", "TODO"), ("c.rs", "TODO")];
        let read = |visit| {
            let found = find_in(&files, MarkerArguments { max_files: Some(2), ..MarkerArguments::default() }, visit);
            (found.files_read, found.files_left, found.total)
        };

        assert_eq!(read(1), (2, 1, 2));
        assert_eq!(read(2), (3, 0, 3));
    }

    #[test]
    fn matches_are_listed_up_to_a_bound_and_counted_beyond() {
        let found = find_in(
            &[("a.rs", "XXX\nXXX\nXXX")],
            MarkerArguments { max_matches: Some(1), ..MarkerArguments::default() },
            1,
        );

        assert_eq!((found.matches.len(), found.total), (1, 3));
    }

    #[test]
    fn only_so_much_of_a_file_is_read_and_nothing_of_what_is_not_text() {
        let files = [("a.rs", "----\nTODO"), ("b.rs", "\0TODO\nTODO")];
        let found = find_in(&files, MarkerArguments { max_file_bytes: Some(5), ..MarkerArguments::default() }, 1);

        assert_eq!(found.total, 0);
    }

    #[test]
    fn an_empty_marker_is_refused() {
        let arguments = MarkerArguments { markers: Some(vec![String::new()]), ..MarkerArguments::default() };

        assert_eq!(find(&arguments, 1).unwrap_err().reason, "invalid-marker");
    }
}
