//! Finding the workflow in a Markdown document: front matter at the very start, and the first `workflow` fence
//! anywhere.

use crate::js;
use regex::Regex;
use std::{ops::Range, sync::LazyLock};

/// The closing `---` ends the front matter even if more follows on its line; a blank line or a byte order mark before
/// the opening one defeats it.
static FRONT_MATTER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\A---\r?\n((?s:.)*?)\r?\n---").ok());

/// Lower case, and nothing but white space between `workflow` and the end of the line; the closing fence starts a line.
static FENCE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"```workflow[\s\x{FEFF}&&[^\x{85}]]*\n((?s:.)*?)\r?\n```").ok());

fn first_group(pattern: &LazyLock<Option<Regex>>, text: &str) -> Option<Range<usize>> {
    let group = pattern.as_ref()?.captures(text)?.get(1)?;
    Some(group.range()).filter(|range| !range.is_empty())
}

/// Where the front matter's YAML stands.
pub(super) fn front_matter(text: &str) -> Option<Range<usize>> {
    first_group(&FRONT_MATTER, text)
}

/// Where the workflow's YAML stands.
pub(super) fn block(text: &str) -> Option<Range<usize>> {
    first_group(&FENCE, text)
}

/// Where another workflow's YAML stands, behind the first one's.
pub(super) fn block_after(text: &str, at: usize) -> Option<Range<usize>> {
    let rest = text.get(at..)?;
    // The fence that closes the first block opens none.
    let closed = rest.find("```").map(|fence| fence + 3)?;
    let found = block(rest.get(closed..)?)?;
    Some(at + closed + found.start..at + closed + found.end)
}

/// Whether there is nothing but white space.
pub(super) fn is_blank(text: &str) -> bool {
    text.chars().all(js::is_space)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<&str> {
        block(text).map(|range| &text[range])
    }

    #[test]
    fn the_first_workflow_fence_counts() {
        assert_eq!(found("a\n```workflow\nx\n```\n```workflow\ny\n```"), Some("x"));
        assert_eq!(found("````workflow  \r\nx\r\n```` trailing"), Some("x"));
        assert_eq!(found("```workflow\n  ```js\n  ```\n```"), Some("  ```js\n  ```"));
        for text in [
            "```workflow\n```",
            "```Workflow\nx\n```",
            "```workflow x\ny\n```",
            "~~~workflow\nx\n~~~",
            "``` workflow\nx\n```",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn front_matter_stands_at_the_very_start() {
        assert_eq!(front_matter("---\nname: x\n--- more"), Some(4..11));
        for text in ["\n---\nname: x\n---", "\u{feff}---\nname: x\n---", "---\n---", "--- \nname: x\n---"] {
            assert_eq!(front_matter(text), None, "{text:?}");
        }
    }
}
