//! Two reports side by side: which rows differ by more than their rounds vary.

use super::interval::{self, Interval};
use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The largest report that is read.
const MAX_BYTES: u64 = 64 << 20;

/// One peer in two reports.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The peer.
    pub name: String,
    /// Its median in the first report.
    pub before_us: f64,
    /// Its median in the second one.
    pub after_us: f64,
    /// The second against the first.
    pub ratio: f64,
    /// The interval of that ratio; absent where a report has too few rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// The verdict.
    pub verdict: Verdict,
}

/// The verdict on two rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The second is faster.
    Faster,
    /// The second is slower.
    Slower,
    /// No difference is shown.
    Same,
    /// There are too few rounds to say.
    Unknown,
}

impl Verdict {
    /// For people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Same => "no difference shown",
            Self::Unknown => "too few rounds",
        }
    }
}

/// Two reports.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// Rows that both have.
    pub rows: Vec<Change>,
    /// Rows that only one has.
    pub only_in_one: Vec<String>,
    /// The conditions that were not equal although they should be: machine, guest, arguments, compiler, …
    pub different: Vec<String>,
}

#[derive(Deserialize)]
struct Written {
    operation: String,
    argument_bytes: u64,
    rows: Vec<WrittenRow>,
    machine: serde_json::Map<String, serde_json::Value>,
    origin: serde_json::Map<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct WrittenRow {
    name: String,
    median_us: f64,
    round_medians_us: Vec<f64>,
}

fn read(path: &Path) -> Result<Written> {
    let text = opcell_types::files::read_text_bounded(path, MAX_BYTES)
        .with_context(|| format!("cannot read `{}`", path.display()))?;
    let value: serde_json::Value =
        serde_json::from_str(&text).with_context(|| format!("`{}` is not JSON", path.display()))?;
    let schema = value.pointer("/origin/schema").and_then(|schema| schema.as_str());
    if schema != Some(super::origin::SCHEMA) {
        let found = schema.map_or("it names no schema".to_owned(), |found| format!("its schema is {found}"));
        bail!("`{}` is not a report of `{}`: {found}", path.display(), super::origin::SCHEMA);
    }
    serde_json::from_value(value).with_context(|| format!("`{}` is not a whole report", path.display()))
}

/// Compares the report `after` with the report `before`.
///
/// # Errors
/// When a file is not a report of this schema.
pub fn compare(before: &Path, after: &Path) -> Result<Comparison> {
    let (before, after) = (read(before)?, read(after)?);
    let mut different = Vec::new();
    let mut differ = |what: &str, one: String, other: String| {
        if one != other {
            different.push(format!("{what}: {one} and {other}"));
        }
    };
    differ("operation", before.operation.clone(), after.operation.clone());
    differ("bytes of arguments", before.argument_bytes.to_string(), after.argument_bytes.to_string());
    let shown = |value: Option<&serde_json::Value>| value.map_or_else(|| "unknown".to_owned(), ToString::to_string);
    for key in ["cpu", "cores", "system", "optimised", "governor", "affinity"] {
        differ(key, shown(before.machine.get(key)), shown(after.machine.get(key)));
    }
    for key in ["guest", "wasmtime", "rustc", "node"] {
        differ(key, shown(before.origin.get(key)), shown(after.origin.get(key)));
    }
    let mut rows = Vec::new();
    for row in &before.rows {
        let Some(other) = after.rows.iter().find(|other| other.name == row.name) else { continue };
        let interval = interval::of_independent_ratio(&other.round_medians_us, &row.round_medians_us);
        let verdict = match interval {
            None => Verdict::Unknown,
            Some(interval) if interval.high < 1.0 => Verdict::Faster,
            Some(interval) if interval.low > 1.0 => Verdict::Slower,
            Some(_) => Verdict::Same,
        };
        rows.push(Change {
            name: row.name.clone(),
            before_us: row.median_us,
            after_us: other.median_us,
            ratio: super::sample::rounded(other.median_us / row.median_us),
            interval,
            verdict,
        });
    }
    let names = |report: &Written| report.rows.iter().map(|row| row.name.clone()).collect::<Vec<_>>();
    let (first, second) = (names(&before), names(&after));
    let only = first.iter().filter(|name| !second.contains(name));
    let only_in_one = only.chain(second.iter().filter(|name| !first.contains(name))).cloned().collect();
    Ok(Comparison { rows, only_in_one, different })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

    use super::*;
    use serde_json::json;

    fn report(folder: &Path, name: &str, cell: f64, cpu: &str) -> std::path::PathBuf {
        let rounds: Vec<f64> = (0..40).map(|round| cell * (1.0 + f64::from(round % 5) / 100.0)).collect();
        let text = json!({
            "operation": "echo/echo", "argument_bytes": 50,
            "rows": [{"name": "cell", "median_us": cell, "round_medians_us": rounds}],
            "machine": {"cpu": cpu}, "origin": {"schema": "opcell-bench/v1"},
        });
        let path = folder.join(name);
        std::fs::write(&path, text.to_string()).unwrap();
        path
    }

    #[test]
    fn a_difference_counts_when_it_is_larger_than_what_rounds_vary() {
        let folder = tempfile::tempdir().unwrap();
        let base = report(folder.path(), "a", 10.0, "x");
        let verdict = |cell: f64| {
            let other = report(folder.path(), "b", cell, "x");
            compare(&base, &other).unwrap().rows[0].verdict
        };
        assert_eq!(verdict(12.0), Verdict::Slower);
        assert_eq!(verdict(8.0), Verdict::Faster);
        assert_eq!(verdict(10.0), Verdict::Same);
    }

    #[test]
    fn another_machine_is_named_and_another_format_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (report(folder.path(), "a", 10.0, "x"), report(folder.path(), "b", 10.0, "y"));
        assert_eq!(compare(&one, &other).unwrap().different, [r#"cpu: "x" and "y""#]);
        let older = folder.path().join("old");
        std::fs::write(&older, r#"{"rows": []}"#).unwrap();
        assert!(compare(&one, &older).unwrap_err().to_string().contains("it names no schema"));
    }
}
