//! Handoff data: what a workflow's final text gives its caller in a form that programs read.

use crate::ir::WorkflowIr;
use opcell_types::value::{Map, Text, Value};

/// Returns what is wrong with the end of a workflow that completed with this handoff: it has a terminal contract, and
/// its text does not keep it. `None` where there is nothing to say.
#[must_use]
pub fn unkept(ir: &WorkflowIr, handoff: Option<&Value>) -> Option<&'static str> {
    (ir.terminal_contract.is_some() && handoff.is_none()).then_some(
        "the terminal contract is not kept: the text has no `## Handoff Data` section with items, and `handoff` is null",
    )
}

/// The handoff data of a text: the items of its first `## Handoff Data` section, up to the next second-level heading.
///
/// An item is `- key: value` or `* key: value`; the key may stand in backticks or be bold, with the colon inside or
/// outside. Values are strings, or null when blank. The last of several items with one key wins. `None` when there is
/// no item.
#[must_use]
pub fn parse(text: &str) -> Option<Map> {
    let mut lines = text.lines().map(str::trim).skip_while(|line| heading(line) != Some("Handoff Data"));
    lines.next()?;
    let entries: Map = lines.take_while(|line| heading(line).is_none()).filter_map(item).collect();
    (!entries.is_empty()).then_some(entries)
}

/// The text of a second-level heading.
fn heading(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("##")?;
    rest.starts_with(char::is_whitespace).then(|| rest.trim())
}

fn item(line: &str) -> Option<(Text, Value)> {
    let rest = line.strip_prefix(['-', '*'])?;
    if !rest.starts_with(char::is_whitespace) {
        return None;
    }
    let rest = rest.trim_start();
    let mark = ["`", "**"].into_iter().find(|mark| rest.starts_with(mark)).unwrap_or("");
    let rest = rest.get(mark.len()..)?;
    let (key, value) = rest.split_once(':')?;
    // The closing mark is on one side of the colon or the other.
    let (key, value) = match key.strip_suffix(mark) {
        Some(key) => (key, value),
        None => (key, value.strip_prefix(mark)?),
    };
    let (key, value) = (key.trim(), value.trim());
    if key.is_empty() || key.contains('`') {
        return None;
    }
    Some((key.into(), if value.is_empty() { Value::Null } else { value.into() }))
}

#[cfg(test)]
mod tests {
    use super::{WorkflowIr, parse, unkept};

    fn json(text: &str) -> Option<String> {
        parse(text).map(|map| opcell_types::Value::from(map).to_json())
    }

    #[test]
    fn items_become_strings() {
        let text = "Done.\n\n## Handoff Data\n- issue_number: 42\n* issue_url: https://x/y:8080\n";
        assert_eq!(json(text).unwrap(), r#"{"issue_number":"42","issue_url":"https://x/y:8080"}"#);
    }

    #[test]
    fn keys_in_backticks_are_read_whichever_side_the_colon_is() {
        let text = "## Handoff Data\n- `a:` 1\n- `b`: 2\n- **c:** 3\n- **d**: `4`";
        assert_eq!(json(text).unwrap(), r#"{"a":"1","b":"2","c":"3","d":"`4`"}"#);
    }

    #[test]
    fn a_blank_value_is_null() {
        assert_eq!(json("## Handoff Data\n- a:  ").unwrap(), r#"{"a":null}"#);
    }

    #[test]
    fn the_section_ends_at_the_next_second_level_heading() {
        let text = "- before: 0\n  ##   Handoff Data  \n### Details\n- a: 1\nprose\n-no: item\n## Next\n- b: 2";
        assert_eq!(json(text).unwrap(), r#"{"a":"1"}"#);
    }

    #[test]
    fn no_section_or_no_item_is_no_handoff() {
        assert_eq!(json(""), None);
        assert_eq!(json("- a: 1"), None);
        assert_eq!(json("## Handoff Data\nnothing"), None);
        assert_eq!(json("##Handoff Data\n- a: 1"), None);
    }

    #[test]
    fn a_contract_without_a_handoff_is_broken() {
        let ir = |contract: &str| -> WorkflowIr {
            serde_json::from_str(&format!(r#"{{"version":"workflow-ir/v1","name":"w","steps":[]{contract}}}"#)).unwrap()
        };
        let bound = ir(r#","terminal-contract":{"handoff":{"type":"markdown-handoff-data"}}"#);
        assert!(unkept(&bound, None).unwrap().contains("`handoff` is null"));
        assert_eq!(unkept(&bound, parse("## Handoff Data\n- a: 1").map(Into::into).as_ref()), None);
        assert_eq!(unkept(&ir(""), None), None);
    }
}
