//! The report, in Markdown.

use crate::counted;
use crate::inventory::Inventory;
use crate::markers::Markers;
use crate::outline::Outline;
use opcell_sdk::Success;
use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt::Write;

/// What `report/render` takes; a part that is not given is left out.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ReportArguments {
    /// The heading; `Repository health` unless given.
    #[serde(default)]
    title: Option<String>,
    /// One sentence on top, such as a verdict.
    #[serde(default)]
    verdict: Option<String>,
    /// The data of `repo/inventory`.
    #[serde(default)]
    inventory: Option<Inventory>,
    /// The data of `repo/outline`.
    #[serde(default)]
    outline: Option<Outline>,
    /// The data of `repo/find-markers`.
    #[serde(default)]
    markers: Option<Markers>,
}

pub fn render(arguments: &ReportArguments) -> Success<String> {
    let mut report = format!("# {}\n", one_line(arguments.title.as_deref().unwrap_or("Repository health")));
    if let Some(verdict) = &arguments.verdict {
        line(&mut report, format_args!("\n**{}**", one_line(verdict)));
    }
    if let Some(inventory) = &arguments.inventory {
        render_inventory(&mut report, inventory);
    }
    if let Some(markers) = &arguments.markers {
        render_markers(&mut report, markers);
    }
    if let Some(outline) = &arguments.outline {
        render_outline(&mut report, outline);
    }
    let lines = report.lines().count();
    Success::new(report).with_summary(format!("a report of {}", counted(lines as u64, "line")))
}

fn render_inventory(report: &mut String, inventory: &Inventory) {
    let (files, folders) = (counted(inventory.files, "file"), counted(inventory.directories, "folder"));
    line(report, format_args!("\n## Inventory\n\n{files} in {folders}, {}.", size(inventory.bytes)));
    if inventory.truncated {
        line(report, format_args!("There is more than was looked at."));
    }
    line(report, format_args!("\n| extension | files | size |\n| --- | ---: | ---: |"));
    for count in &inventory.by_extension {
        let extension = if count.extension.is_empty() { "(none)" } else { &count.extension };
        line(report, format_args!("| {} | {} | {} |", cell(extension), count.files, size(count.bytes)));
    }
    line(report, format_args!("\n| largest files | size |\n| --- | ---: |"));
    for file in &inventory.largest {
        line(report, format_args!("| `{}` | {} |", cell(&file.path), size(file.bytes)));
    }
}

fn render_markers(report: &mut String, markers: &Markers) {
    let (total, read) = (counted(markers.total, "marker"), counted(markers.files_read, "file"));
    line(report, format_args!("\n## Markers\n\n{total} in {read}."));
    if markers.files_left > 0 {
        line(report, format_args!("{} left unread.", counted(markers.files_left, "file")));
    }
    line(report, format_args!(""));
    for (marker, count) in markers.counts.iter().filter(|(_, count)| **count > 0) {
        line(report, format_args!("- {}: {count}", one_line(marker)));
    }
    if !markers.matches.is_empty() {
        line(report, format_args!("\n| place | line |\n| --- | --- |"));
    }
    // A line with several markers is shown once.
    let mut shown = None;
    for found in &markers.matches {
        let place = (found.path.as_str(), found.line);
        if shown.replace(place) == Some(place) {
            continue;
        }
        line(report, format_args!("| `{}:{}` | `{}` |", cell(&found.path), found.line, cell(&found.text)));
    }
}

fn render_outline(report: &mut String, outline: &Outline) {
    line(report, format_args!("\n## Outline"));
    for file in &outline.files {
        line(report, format_args!("\n`{}`\n", cell(&file.path)));
        for item in &file.items {
            // Headings nest as deep as they are; items of sources are all at the top.
            let depth = item.kind.strip_prefix('h').and_then(|level| level.parse::<usize>().ok());
            let kind = if depth.is_some() { String::new() } else { format!("{} ", item.kind) };
            line(
                report,
                format_args!("{}- {kind}{}", "  ".repeat(depth.unwrap_or(1).saturating_sub(1)), one_line(&item.name)),
            );
        }
    }
    if outline.truncated {
        line(report, format_args!("\nThere is more than was listed."));
    }
}

fn line(report: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(report, "{text}");
}

/// Text of a file cannot break out of its line.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Text of a file cannot break out of its cell.
fn cell(text: &str) -> String {
    one_line(text).replace('|', "\\|").replace('`', "'")
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{}.{} KiB", bytes / 1024, bytes % 1024 * 10 / 1024),
        _ => format!("{}.{} MiB", bytes / 1_048_576, bytes % 1_048_576 * 10 / 1_048_576),
    }
}

#[cfg(test)]
mod tests {
    use crate::render_report;
    use opcell_sdk::testing::invoke;
    use serde_json::json;

    #[test]
    fn a_report_shows_what_it_was_given() {
        let arguments = json!({
            "title": "Health of rocket",
            "verdict": "HEALTHY",
            "inventory": {
                "files": 2, "directories": 1, "bytes": 1536, "truncated": false,
                "by-extension": [{ "extension": "rs", "files": 1, "bytes": 1535 }, { "extension": "", "files": 1, "bytes": 1 }],
                "largest": [{ "path": "src/a.rs", "bytes": 1535 }],
            },
            "markers": {
                "matches": [
                    { "path": "src/a.rs", "line": 3, "marker": "TODO", "text": "// TODO `a` | b XXX" },
                    { "path": "src/a.rs", "line": 3, "marker": "XXX", "text": "// TODO `a` | b XXX" },
                ],
                "counts": { "TODO": 1, "XXX": 1, "HACK": 0 }, "total": 2, "files-read": 2, "files-left": 1,
            },
            "outline": {
                "files": [
                    { "path": "README.md", "items": [{ "line": 1, "kind": "h1", "name": "Rocket" }, { "line": 5, "kind": "h2", "name": "Use" }] },
                    { "path": "src/a.rs", "items": [{ "line": 1, "kind": "fn", "name": "launch" }] },
                ],
                "truncated": true,
            },
        });

        let report = invoke::<render_report>(&arguments).unwrap();

        let expected = "\
# Health of rocket

**HEALTHY**

## Inventory

2 files in 1 folder, 1.5 KiB.

| extension | files | size |
| --- | ---: | ---: |
| rs | 1 | 1.4 KiB |
| (none) | 1 | 1 B |

| largest files | size |
| --- | ---: |
| `src/a.rs` | 1.4 KiB |

## Markers

2 markers in 2 files.
1 file left unread.

- TODO: 1
- XXX: 1

| place | line |
| --- | --- |
| `src/a.rs:3` | `// TODO 'a' \\| b XXX` |

## Outline

`README.md`

- Rocket
  - Use

`src/a.rs`

- fn launch

There is more than was listed.
";
        assert_eq!(report.data, expected);
    }

    #[test]
    fn an_empty_report_is_a_title() {
        assert_eq!(invoke::<render_report>(&json!({})).unwrap().data, "# Repository health\n");
    }
}
