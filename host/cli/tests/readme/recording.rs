//! The recording of a terminal on the first page: made from a run, so that it shows what the command prints. Lines
//! appear one after the other; a viewer without animations shows all of them.

use super::{page::shell, root};
use regex::Regex;
use std::{fmt::Write as _, fs};

/// The commands that are shown; the others of the first run are in the tour.
const COMMANDS: [&str; 3] =
    ["opcell run today --as one", "opcell plugin grant notes files notes=notes", "opcell run today --as two"];

/// The width of the picture, in characters.
const COLUMNS: usize = 92;

const LINE_HEIGHT: usize = 20;

/// The time before a command and before another line, in tenths of a second.
const PAUSES: (usize, usize) = (14, 1);

const STYLE: &str = "<style>
  text { font: 14px ui-monospace, \"DejaVu Sans Mono\", monospace; fill: #1f2328; white-space: pre; animation: appear 0.2s both; }
  @keyframes appear { from { opacity: 0; } }
  .page { fill: #f6f8fa; stroke: #d0d7de; }
  .command { font-weight: 700; }
  .denied { fill: #cf222e; }
  .remedy { fill: #1a7f37; font-weight: 700; }
  .waits { fill: #9a6700; }
  .dim { fill: #57606a; }
  @media (prefers-reduced-motion: reduce) { text { animation: none; } }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .page { fill: #161b22; stroke: #30363d; }
    .denied { fill: #ff7b72; }
    .remedy { fill: #7ee787; }
    .waits { fill: #e3b341; }
    .dim { fill: #9198a1; }
  }
</style>";

/// The class of a line, by its beginning.
fn class(line: &str) -> &'static str {
    let start = |beginnings: &[&str]| beginnings.iter().any(|beginning| line.trim_start().starts_with(beginning));
    match line {
        line if line.starts_with("$ ") => "command",
        _ if start(&["opcell "]) => "remedy",
        _ if start(&["denied", "failed"]) => "denied",
        _ if start(&["suspended", "step `", "Send this list?"]) => "waits",
        _ if start(&["run ", "> ", "+ ", "x ", "cells:"]) => "dim",
        _ => "",
    }
}

fn drawn(lines: &[String]) -> String {
    let (width, height) = (COLUMNS * 17 / 2 + 40, lines.len() * LINE_HEIGHT + 40);
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"title\">\n<title id=\"title\">A call is denied, with the command that allows it; after the grant it runs and waits for a person</title>\n{STYLE}\n<rect class=\"page\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n",
        width - 1,
        height - 1
    );
    let mut tenths = 0;
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        if at > 0 {
            tenths += if line.starts_with("$ ") { PAUSES.0 } else { PAUSES.1 };
        }
        let text = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let class = class(line);
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let y = 32 + at * LINE_HEIGHT;
        let _ = writeln!(
            picture,
            "<text{class} x=\"20\" y=\"{y}\" xml:space=\"preserve\" style=\"animation-delay: {}.{}s\">{text}</text>",
            tenths / 10,
            tenths % 10
        );
    }
    picture + "</svg>\n"
}

/// A line without what differs from run to run and from machine to machine.
fn comparable(line: &str) -> String {
    let time = Regex::new(r"\d+(?:\.\d+)? (?:µs|ms|s)\b").unwrap();
    time.replace_all(line, "…").into_owned()
}

#[test]
fn the_picture_of_the_first_page_shows_what_the_first_run_prints() {
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let made = shell("opcell init try --example notes --quiet", folder.path(), home.path()).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let mut lines = Vec::new();
    for command in COMMANDS {
        let script = format!("{command} 2>&1");
        let output = shell(&script, &folder.path().join("try"), home.path()).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        // Paths begin at the project.
        let places = [folder.path().canonicalize().unwrap(), folder.path().to_owned()];
        let printed = places.iter().fold(printed, |text, place| text.replace(&format!("{}/try/", place.display()), ""));
        lines.push(format!("$ {command}"));
        lines.extend(printed.lines().map(|line| comparable(line).chars().take(COLUMNS).collect()));
        lines.push(String::new());
    }
    lines.pop();
    let (path, made) = (root().join("docs/images/denial.svg"), drawn(&lines));
    if std::env::var("SNAPSHOTS").is_ok_and(|how| how == "overwrite") {
        fs::write(&path, &made).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let stale = "SNAPSHOTS=overwrite cargo test -p opcell-cli --test readme";
    assert!(kept == made, "`{stale}` draws docs/images/denial.svg anew:\n{}", lines.join("\n"));
}
