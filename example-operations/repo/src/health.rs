//! Whether a repository is healthy: when the search for markers is complete, by how many there are.

use crate::counted;
use crate::inventory::Inventory;
use crate::markers::Markers;
use opcell_sdk::Verdict;
use schemars::JsonSchema;
use serde::Deserialize;

const MAX_MARKERS: u64 = 25;

/// What the judge takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct HealthArguments {
    /// The data of `repo/find-markers`.
    markers: Markers,
    /// The data of `repo/inventory`, if file sizes matter.
    #[serde(default)]
    inventory: Option<Inventory>,
    /// Markers that a healthy repository has at most; 25 unless given.
    #[serde(default)]
    max_markers: Option<u64>,
    /// Bytes that a file of a healthy repository has at most; any number unless given.
    #[serde(default)]
    max_file_bytes: Option<u64>,
}

pub fn decide(arguments: &HealthArguments) -> Verdict {
    let markers = &arguments.markers;
    let allowed = arguments.max_markers.unwrap_or(MAX_MARKERS);
    // More files can only add markers: too many is certain before all are read.
    if markers.total > allowed {
        return Verdict::text("UNHEALTHY").because(format!("{}, {allowed} allowed", counted(markers.total, "marker")));
    }
    let largest = arguments.inventory.as_ref().and_then(|inventory| inventory.largest.first());
    if let (Some(largest), Some(limit)) = (largest, arguments.max_file_bytes)
        && largest.bytes > limit
    {
        let bytes = counted(largest.bytes, "byte");
        return Verdict::text("UNHEALTHY").because(format!("{} has {bytes}, {limit} allowed", largest.path));
    }
    if markers.files_left > 0 {
        return Verdict::text("DEEPER").because(format!("{} not read yet", counted(markers.files_left, "file")));
    }
    let (total, read) = (counted(markers.total, "marker"), counted(markers.files_read, "file"));
    Verdict::text("HEALTHY").because(format!("{total} in {read}, {allowed} allowed"))
}

#[cfg(test)]
mod tests {
    use crate::health_gate;
    use opcell_sdk::Outcome;
    use opcell_sdk::testing::judge;
    use serde_json::{Value, json};

    fn decide(total: u64, files_left: u64, more: Value) -> String {
        let markers =
            json!({ "matches": [], "counts": {}, "total": total, "files-read": 10, "files-left": files_left });
        let mut arguments = json!({ "markers": markers });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        match judge::<health_gate>(&arguments).unwrap().outcome {
            Outcome::Text(outcome) => outcome,
            Outcome::Keyword(keyword) => panic!(":{keyword}"),
        }
    }

    #[test]
    fn an_unfinished_search_goes_deeper_until_too_many_are_certain() {
        assert_eq!(decide(0, 1, json!({})), "DEEPER");
        assert_eq!(decide(26, 1, json!({})), "UNHEALTHY");
        assert_eq!(decide(25, 0, json!({})), "HEALTHY");
        assert_eq!(decide(1, 0, json!({ "max-markers": 0 })), "UNHEALTHY");
    }

    #[test]
    fn a_file_that_is_too_large_is_not_healthy() {
        let inventory = json!({
            "files": 1, "directories": 0, "bytes": 9, "by-extension": [], "truncated": false,
            "largest": [{ "path": "a", "bytes": 9 }],
        });
        assert_eq!(decide(0, 0, json!({ "inventory": inventory, "max-file-bytes": 8 })), "UNHEALTHY");
        assert_eq!(decide(0, 0, json!({ "inventory": inventory, "max-file-bytes": 9 })), "HEALTHY");
    }

    #[test]
    fn a_judge_without_its_evidence_fails() {
        assert_eq!(judge::<health_gate>(&json!({ "markers": null })).unwrap_err().reason, "invalid-arguments");
    }
}
