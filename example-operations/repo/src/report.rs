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
    /// How many places and files are listed at most, so that the report stays a page; 15 unless given.
    #[serde(default)]
    rows: Option<usize>,
}

/// Rows of a table that do not make a reader scroll.
const ROWS: usize = 15;

/// Sections of one file.
const SECTIONS: usize = 8;

pub fn render(arguments: &ReportArguments) -> Success<String> {
    let mut report = format!("# {}\n", one_line(arguments.title.as_deref().unwrap_or("Repository health")));
    if let Some(verdict) = &arguments.verdict {
        line(&mut report, format_args!("\n**{}**", one_line(verdict)));
    }
    let rows = arguments.rows.unwrap_or(ROWS);
    if let Some(inventory) = &arguments.inventory {
        render_inventory(&mut report, inventory);
    }
    if let Some(markers) = &arguments.markers {
        render_markers(&mut report, markers, rows);
    }
    if let Some(outline) = &arguments.outline {
        render_outline(&mut report, outline, rows);
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

fn render_markers(report: &mut String, markers: &Markers, rows: usize) {
    let (total, read) = (counted(markers.total, "marker"), counted(markers.files_read, "file"));
    let counts: Vec<String> = markers
        .counts
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(marker, count)| format!("{count} {}", one_line(marker)))
        .collect();
    let counts = if counts.is_empty() { String::new() } else { format!(": {}", counts.join(", ")) };
    line(report, format_args!("\n## Markers\n\n{total} in {read}{counts}."));
    if markers.files_left > 0 {
        line(report, format_args!("{} left unread.", counted(markers.files_left, "file")));
    }
    // A line with several markers is shown once.
    let mut places = markers.matches.iter().collect::<Vec<_>>();
    places.dedup_by_key(|found| (found.path.as_str(), found.line));
    if !places.is_empty() {
        line(report, format_args!("\n| place | line |\n| --- | --- |"));
    }
    for found in places.iter().take(rows) {
        line(report, format_args!("| `{}:{}` | `{}` |", cell(&found.path), found.line, cell(&found.text)));
    }
    rest(report, places.len(), rows);
}

/// A row for each file, those near the root first: what it is called, and its sections.
fn render_outline(report: &mut String, outline: &Outline, rows: usize) {
    let mut files: Vec<_> = outline.files.iter().filter(|file| !file.items.is_empty()).collect();
    files.sort_by_key(|file| (file.path.matches('/').count(), &file.path));
    line(report, format_args!("\n## Outline\n\n{}.", counted(files.len() as u64, "file")));
    if !files.is_empty() {
        line(report, format_args!("\n| file | what is in it |\n| --- | --- |"));
    }
    for file in files.iter().take(rows) {
        let mut title = String::new();
        let mut sections = Vec::new();
        for item in &file.items {
            match item.kind.as_str() {
                "h1" if title.is_empty() => title = format!("**{}**", cell(&item.name)),
                // Sections of sections are for whoever opens the file.
                "h3" | "h4" | "h5" | "h6" => {}
                "h1" | "h2" => sections.push(cell(&item.name)),
                kind => sections.push(format!("{} {}", cell(kind), cell(&item.name))),
            }
        }
        let between = if title.is_empty() || sections.is_empty() { "" } else { ": " };
        let more = match sections.len().saturating_sub(SECTIONS) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        sections.truncate(SECTIONS);
        let sections = sections.join(", ");
        line(report, format_args!("| `{}` | {title}{between}{sections}{more} |", cell(&file.path)));
    }
    rest(report, files.len(), rows);
    if outline.truncated {
        line(report, format_args!("\nThere is more than was listed."));
    }
}

/// How many rows a table does not show.
fn rest(report: &mut String, all: usize, rows: usize) {
    if all > rows {
        line(report, format_args!("\nAnd {} more.", all - rows));
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

2 markers in 2 files: 1 TODO, 1 XXX.
1 file left unread.

| place | line |
| --- | --- |
| `src/a.rs:3` | `// TODO 'a' \\| b XXX` |

## Outline

2 files.

| file | what is in it |
| --- | --- |
| `README.md` | **Rocket**: Use |
| `src/a.rs` | fn launch |

There is more than was listed.
";
        assert_eq!(report.data, expected);
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let matches: Vec<_> =
            (1..=5).map(|line| json!({ "path": "src/a.rs", "line": line, "marker": "TODO", "text": "TODO" })).collect();
        let files: Vec<_> = ["deep/in/a.md", "b.md", "c.md"]
            .map(|path| json!({ "path": path, "items": [{ "line": 1, "kind": "h1", "name": "A" }] }))
            .into();
        let report = invoke::<render_report>(&json!({
            "rows": 2,
            "markers": { "matches": matches, "counts": { "TODO": 5 }, "total": 5, "files-read": 1, "files-left": 0 },
            "outline": { "files": files, "truncated": false },
        }))
        .unwrap()
        .data;
        let report = report.as_str().unwrap();
        assert!(
            report.contains("src/a.rs:2") && !report.contains("src/a.rs:3") && report.contains("And 3 more."),
            "{report}"
        );
        assert!(report.contains("c.md") && !report.contains("deep") && report.contains("And 1 more."), "{report}");
    }

    #[test]
    fn an_empty_report_is_a_title() {
        assert_eq!(invoke::<render_report>(&json!({})).unwrap().data, "# Repository health\n");
    }
}
