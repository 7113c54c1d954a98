//! Finding the workflow in a Markdown document: front matter at the very start, and the first `workflow` fence
//! anywhere.

use opcell_ir::js;
use std::ops::Range;

const OPENING: &str = "```workflow";
const CLOSING: &str = "\n```";

/// Returns the place of the front matter's YAML, the expression of WorkflowSkill's own runtime being
/// `^---\r?\n([\s\S]*?)\r?\n---`. The closing `---` ends it even if more follows on its line; a blank line or a byte
/// order mark before the opening one defeats it.
pub(super) fn front_matter(text: &str) -> Option<Range<usize>> {
    let rest = text.strip_prefix("---")?;
    let rest = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n'))?;
    let start = text.len() - rest.len();
    before(text, start, "\n---")
}

/// Returns the place of the workflow's YAML, the expression of WorkflowSkill's own runtime being
/// ```` ```workflow\s*\n([\s\S]*?)\r?\n``` ````: lower case, and nothing but white space between `workflow` and the end
/// of the line; the closing fence starts a line. White space is what JavaScript takes for it.
pub(super) fn block(text: &str) -> Option<Range<usize>> {
    let last = text.rfind(CLOSING)?;
    for (at, opening) in text.match_indices(OPENING) {
        let after = at + opening.len();
        let rest = text.get(after..)?;
        let blank = rest.get(..rest.find(|c| !js::is_space(c)).unwrap_or(rest.len()))?;
        // As much white space as leaves a closing fence.
        let starts = blank.rmatch_indices('\n').map(|(newline, _)| after + newline + 1);
        for start in starts {
            if start <= last {
                return before(text, start, CLOSING);
            }
        }
    }
    None
}

/// Returns the text between a place and the next `end`, whose line may end as on Windows; `None` where there is none.
fn before(text: &str, start: usize, end: &str) -> Option<Range<usize>> {
    let found = text.get(start..)?;
    let found = found.get(..found.find(end)?)?;
    let found = found.strip_suffix('\r').unwrap_or(found);
    (!found.is_empty()).then(|| start..start + found.len())
}

/// Returns the place of another workflow's YAML, after the first one's.
pub(super) fn block_after(text: &str, at: usize) -> Option<Range<usize>> {
    let rest = text.get(at..)?;
    // The fence that closes the first block opens none.
    let closed = rest.find("```").map(|fence| fence + 3)?;
    let found = block(rest.get(closed..)?)?;
    Some(at + closed + found.start..at + closed + found.end)
}

/// Returns `true` if there is nothing but white space.
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

    /// As WorkflowSkill's own runtime finds them.
    fn by_expression(pattern: &str, text: &str) -> Option<Range<usize>> {
        let group = regex::Regex::new(pattern).unwrap().captures(text)?.get(1).unwrap();
        Some(group.range()).filter(|range| !range.is_empty())
    }

    proptest::proptest! {
        #[test]
        fn both_are_found_where_the_expressions_find_them(
            parts in proptest::collection::vec(
                proptest::sample::select(vec![
                    "---", "```", "```workflow", "`", "workflow", "\n", "\r\n", "\r", " ", "\t", "x", "\u{feff}", "\u{85}", "\u{2028}", "-",
                ]),
                0..24,
            ),
        ) {
            let text = parts.concat();
            proptest::prop_assert_eq!(front_matter(&text), by_expression(r"\A---\r?\n((?s:.)*?)\r?\n---", &text));
            let fence = r"```workflow[\s\x{FEFF}&&[^\x{85}]]*\n((?s:.)*?)\r?\n```";
            proptest::prop_assert_eq!(block(&text), by_expression(fence, &text));
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
