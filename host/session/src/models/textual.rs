//! Calls of tools in the text of an answer: local servers leave them there that do not know their model's form. Only a
//! model that is configured so is read like this, and only what is a call by the letter of the form: anything that
//! begins as one and is none is a malformed answer, and no text.

use super::answer::{Answer, Call, Fault, Finish};
use super::wire::WireNames;
use opcell_types::{ToolDescription, Value, value::Map};

const BEGIN: &str = "<tool_call>";
const END: &str = "</tool_call>";

/// The most calls of one answer.
const MAX_CALLS: usize = 1_024;

/// An answer whose calls are taken out of its text. One that has calls in their own place stays as it is.
pub(super) fn with_calls(mut answer: Answer, tools: &[ToolDescription], names: &WireNames) -> Result<Answer, Fault> {
    if !answer.calls.is_empty() || !answer.text.contains(BEGIN) {
        return Ok(answer);
    }
    let Some((said, blocks)) = split(&answer.text) else {
        // An answer that was cut says so itself.
        return match answer.ending.finish {
            Finish::TokenLimit => Ok(answer),
            _ => Err(malformed("it has no end (`</tool_call>`)")),
        };
    };
    if blocks.len() > MAX_CALLS {
        return Err(malformed(&format!("there are more than {MAX_CALLS}")));
    }
    answer.calls = blocks.into_iter().map(|block| call(block, tools, names)).collect::<Result<_, _>>()?;
    if !answer.calls.is_empty() {
        answer.text = said.trim().to_owned();
    }
    Ok(answer)
}

fn malformed(why: &str) -> Fault {
    Fault::malformed(format!("a call of a tool in its text (`<tool_call>`) cannot be read: {why}"))
}

/// The text outside of calls, and the calls: those that begin a line outside of thoughts and code blocks. `None` if one
/// has no end.
fn split(text: &str) -> Option<(String, Vec<&str>)> {
    let thoughts = text.rfind("</think>").map_or(0, |at| at + "</think>".len());
    let (before, mut rest) = text.split_at(thoughts);
    let mut said = before.to_owned();
    let (mut blocks, mut is_code) = (Vec::new(), false);
    if rest.trim_start().starts_with("<think>") {
        return Some((text.to_owned(), blocks));
    }
    while !rest.is_empty() {
        let line = rest.split_inclusive('\n').next().unwrap_or(rest);
        let start = line.trim_start();
        if !is_code && start.starts_with(BEGIN) {
            let inside = rest.trim_start().strip_prefix(BEGIN)?;
            let (block, after) = inside.split_once(END)?;
            blocks.push(block);
            rest = after;
            continue;
        }
        let is_fence = line.matches("```").count() % 2 == 1 || start.starts_with("~~~");
        is_code ^= is_fence;
        said.push_str(line);
        rest = rest.split_at(line.len()).1;
    }
    Some((said, blocks))
}

fn call(block: &str, tools: &[ToolDescription], names: &WireNames) -> Result<Call, Fault> {
    let block = block.trim();
    if block.starts_with('{') {
        return of_json(block);
    }
    let function = block.strip_prefix("<function=").and_then(|rest| rest.strip_suffix("</function>"));
    let (name, mut rest) = function
        .and_then(|function| function.split_once('>'))
        .ok_or_else(|| malformed("expected `{\"name\": …}` or `<function=NAME>…</function>`"))?;
    let ours = names.to_ours(name);
    let schema = tools.iter().find(|tool| tool.name == ours).map(|tool| &tool.parameters);
    let mut arguments = Map::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            break;
        }
        let parameter = rest.strip_prefix("<parameter=").and_then(|rest| rest.split_once('>'));
        let (key, after) = parameter.ok_or_else(|| malformed("expected `<parameter=KEY>VALUE</parameter>`"))?;
        let (value, after) = after.split_once("</parameter>").ok_or_else(|| {
            malformed(&format!("the parameter `{}` has no end", opcell_types::text::one_line(key, 64)))
        })?;
        let value = value.strip_prefix('\n').unwrap_or(value);
        let value = argument(key, value.strip_suffix('\n').unwrap_or(value), schema)?;
        if arguments.insert(key.into(), value).is_some() {
            let key = opcell_types::text::one_line(key, 64);
            return Err(malformed(&format!("the parameter `{key}` is there twice")));
        }
        rest = after;
    }
    Ok(Call { id: String::new(), name: name.to_owned(), arguments: Value::from(arguments) })
}

/// A value as the tool's schema has it: JSON where it says another type than a text, the text itself otherwise.
fn argument(key: &str, text: &str, schema: Option<&Value>) -> Result<Value, Fault> {
    let property = schema.and_then(|schema| schema.get("properties")?.get(key));
    let is_json = match property.and_then(|property| property.get("type")) {
        Some(Value::String(kind)) => kind.as_str() != "string",
        Some(Value::Array(kinds)) => !kinds.iter().any(|kind| kind.as_str() == Some("string")),
        _ => false,
    };
    if !is_json {
        return Ok(Value::from(text));
    }
    Value::from_json(text.trim()).map_err(|error| {
        malformed(&format!("the parameter `{}` is not JSON: {error}", opcell_types::text::one_line(key, 64)))
    })
}

fn of_json(block: &str) -> Result<Call, Fault> {
    let call = Value::from_json(block).map_err(|error| malformed(&format!("it is not JSON: {error}")))?;
    let entries = call.as_object().ok_or_else(|| malformed("it is no object"))?;
    if let Some((other, _)) = entries.iter().find(|(key, _)| !["name", "arguments"].contains(&key.as_str())) {
        let other = opcell_types::text::one_line(other.as_str(), 64);
        return Err(malformed(&format!("it has a key `{other}`; expected `name` and `arguments`")));
    }
    let Some(name) = call.get("name").and_then(Value::as_str) else {
        return Err(malformed("it has no `name`"));
    };
    let arguments = call.get("arguments").cloned().unwrap_or_else(|| Value::object::<&str>([]));
    Ok(Call { id: String::new(), name: name.to_owned(), arguments })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;
    use crate::models::answer::AnswerEnd;
    use serde_json::json;

    fn read(text: &str) -> Result<Answer, Fault> {
        let properties =
            json!({"path": {"type": "string"}, "depth": {"type": "integer"}, "all": {"type": ["boolean", "null"]}});
        let parameters = Value::from(json!({"type": "object", "properties": properties}));
        let tools = [ToolDescription::new("fs/list", "Lists.", parameters)];
        let names = WireNames::new(tools.iter().map(|tool| tool.name.as_str()));
        let answer = Answer { text: text.to_owned(), ending: AnswerEnd::of("stop"), ..Answer::default() };
        with_calls(answer, &tools, &names)
    }

    fn calls(text: &str) -> (String, Vec<(String, String)>) {
        let answer = read(text).unwrap();
        let calls = answer.calls.into_iter().map(|call| (call.name, call.arguments.to_json())).collect();
        (answer.text, calls)
    }

    fn one(name: &str, arguments: &str) -> Vec<(String, String)> {
        vec![(name.to_owned(), arguments.to_owned())]
    }

    #[test]
    fn both_forms_of_a_call_are_read_and_the_text_beside_them_stays() {
        let json = "I look.\n<tool_call>\n{\"name\": \"fs_list\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>\n";
        assert_eq!(calls(json), ("I look.".to_owned(), one("fs_list", r#"{"path":"a"}"#)));
        let xml = "<tool_call>\n<function=fs_list>\n<parameter=path>\n12\n</parameter>\n<parameter=depth>\n3\n</parameter>\n\
                   <parameter=all>\ntrue\n</parameter>\n</function>\n</tool_call>";
        assert_eq!(calls(xml), (String::new(), one("fs_list", r#"{"path":"12","depth":3,"all":true}"#)));
        let two = "<tool_call>{\"name\":\"a\"}</tool_call><tool_call>{\"name\":\"b\"}</tool_call>";
        assert_eq!(calls(two).1.len(), 2);
        // A text is taken as it is, without the line ends around it.
        let text =
            "<tool_call><function=fs_list><parameter=path>\n\n {\"x\": 1}\n\n</parameter></function></tool_call>";
        assert_eq!(calls(text).1, one("fs_list", r#"{"path":"\n {\"x\": 1}\n"}"#));
    }

    #[test]
    fn what_is_quoted_or_thought_is_no_call() {
        for text in [
            "Write ```\n<tool_call>\n{\"name\": \"x\"}\n</tool_call>\n``` there.",
            "```xml\n<tool_call>{\"name\": \"x\"}</tool_call>\n```\n",
            "The mark is `<tool_call>`, as in <tool_call>{}</tool_call>.",
            "<think>\n<tool_call>{\"name\": \"x\"}</tool_call>\n</think>\nDone.",
            "<think>\n<tool_call>{\"name\": \"x\"}",
        ] {
            assert_eq!(calls(text), (text.to_owned(), Vec::new()), "{text}");
        }
        let thought = "hm <tool_call>\n</think>\n<tool_call>{\"name\": \"x\"}</tool_call>";
        assert_eq!(calls(thought).1, one("x", "{}"));
    }

    #[test]
    fn what_begins_as_a_call_and_is_none_is_malformed() {
        for (text, why) in [
            ("<tool_call>{\"name\": \"x\"", "has no end"),
            ("<tool_call>{\"name\": \"x\"</tool_call>", "not JSON"),
            ("<tool_call>[]</tool_call>", "expected `{"),
            ("<tool_call>{\"arguments\": {}}</tool_call>", "no `name`"),
            ("<tool_call>{\"name\": \"x\", \"args\": {}}</tool_call>", "a key `args`"),
            (
                "<tool_call><function=fs_list><parameter=depth>three</parameter></function></tool_call>",
                "`depth` is not JSON",
            ),
            ("<tool_call><function=fs_list><parameter=path>a</function></tool_call>", "`path` has no end"),
            ("<tool_call><function=fs_list>text</function></tool_call>", "expected `<parameter="),
            (
                "<tool_call><function=fs_list><parameter=path>a</parameter><parameter=path>b</parameter></function></tool_call>",
                "twice",
            ),
            ("<tool_call><function=fs_list></tool_call>", "expected `{"),
        ] {
            let fault = read(text).unwrap_err();
            assert!(fault.reason == "malformed-reply" && fault.said.contains(why), "{text}: {}", fault.said);
        }
        let many = "<tool_call>{\"name\":\"a\"}</tool_call>\n".repeat(MAX_CALLS + 1);
        assert!(read(&many).unwrap_err().said.contains("more than"));
    }
}
