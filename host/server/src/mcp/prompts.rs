//! Workflows as prompts: a person picks one in their client, fills in its inputs, and the client's model is asked to
//! call the tool. A prompt has the name of its tool without `run_`.
//!
//! The protocol has strings as arguments of prompts. An input of another type is written as JSON.

use super::tools::{RUN_PREFIX, Target, ToolList};
use opcell_types::{suggest::hint, text::printable};
use rmcp::{
    ErrorData,
    model::{
        ArgumentInfo, CompleteResult, CompletionInfo, GetPromptResult, JsonObject, Prompt, PromptArgument,
        PromptMessage, Role, Tool,
    },
};
use serde_json::{Value as Json, json};

/// Characters of an argument's name that a message repeats.
const NAME_CHARS: usize = 64;

/// Returns a page of the prompts after a name, and `true` if it is the last one.
pub(super) fn page(list: &ToolList, after: Option<&str>, most: usize) -> (Vec<Prompt>, bool) {
    let mut rest = workflows(list).filter(|tool| after.is_none_or(|after| *name_of(tool) > *after)).map(prompt);
    let page = rest.by_ref().take(most).collect();
    (page, rest.next().is_none())
}

/// Returns the message that asks a model to call a workflow's tool with these arguments.
pub(super) fn get(list: &ToolList, name: &str, arguments: &JsonObject) -> Result<GetPromptResult, ErrorData> {
    let tool = find(list, name)?;
    let mut given = JsonObject::new();
    for (argument, value) in arguments {
        let Some(schema) = properties(tool).and_then(|properties| properties.get(argument)) else {
            let names = properties(tool).into_iter().flat_map(|properties| properties.keys().map(String::as_str));
            return Err(wrong(argument, &format!("is not one of the prompt{}", hint(argument, names))));
        };
        given.insert(argument.clone(), read(argument, value, schema)?);
    }
    if let Some(missing) = required(tool).find(|name| !given.contains_key(*name)) {
        return Err(wrong(missing, "is missing"));
    }
    let call = serde_json::to_string_pretty(&Json::Object(given)).unwrap_or_default();
    let text = format!("Call the tool `{}` with these arguments:\n\n```json\n{call}\n```", tool.name);
    let mut result = GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]);
    result.description = tool.description.as_ref().map(|description| description.clone().into_owned());
    Ok(result)
}

/// Returns the values of an argument that begin like the one that a person types: those of the schema's `enum`.
pub(super) fn complete(list: &ToolList, prompt: &str, argument: &ArgumentInfo) -> Result<CompleteResult, ErrorData> {
    let tool = find(list, prompt)?;
    let Some(schema) = properties(tool).and_then(|properties| properties.get(&argument.name)) else {
        return Err(wrong(&argument.name, "is not one of the prompt"));
    };
    let texts = schema.get("enum").and_then(Json::as_array).into_iter().flatten().map(|value| match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    });
    let mut values: Vec<String> = texts.filter(|text| text.starts_with(&argument.value)).collect();
    let total = u32::try_from(values.len()).ok();
    let has_more = values.len() > CompletionInfo::MAX_VALUES;
    values.truncate(CompletionInfo::MAX_VALUES);
    let completion = CompletionInfo::with_pagination(values, total, has_more);
    completion.map(CompleteResult::new).map_err(|error| ErrorData::internal_error(error, None))
}

fn find<'a>(list: &'a ToolList, name: &str) -> Result<&'a Tool, ErrorData> {
    let found = workflows(list).find(|tool| name_of(tool) == name);
    found.ok_or_else(|| ErrorData::invalid_params(format!("there is no prompt `{}`", crate::api::shown(name)), None))
}

/// The name of a workflow's prompt.
fn name_of(tool: &Tool) -> &str {
    tool.name.strip_prefix(RUN_PREFIX).unwrap_or(&tool.name)
}

fn workflows(list: &ToolList) -> impl Iterator<Item = &Tool> {
    list.all().filter(|tool| matches!(list.target(&tool.name), Some(Target::Workflow(_))))
}

fn properties(tool: &Tool) -> Option<&JsonObject> {
    tool.input_schema.get("properties").and_then(Json::as_object)
}

fn required(tool: &Tool) -> impl Iterator<Item = &str> {
    tool.input_schema.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str)
}

fn prompt(tool: &Tool) -> Prompt {
    let arguments = properties(tool).into_iter().flatten().map(|(name, schema)| {
        let mut argument = PromptArgument::new(name).with_required(required(tool).any(|needed| needed == name));
        let said = schema.get("description").and_then(Json::as_str).unwrap_or_default();
        let form = match kinds(schema).as_slice() {
            [] => None,
            kinds if kinds.contains(&"string") => None,
            kinds => Some(format!("{}, as JSON", kinds.join(" or "))),
        };
        argument.description = match (said, form) {
            ("", None) => None,
            ("", Some(form)) => Some(form),
            (said, None) => Some(said.to_owned()),
            (said, Some(form)) => Some(format!("{said} ({form})")),
        };
        argument
    });
    let arguments: Vec<PromptArgument> = arguments.collect();
    let mut prompt = Prompt::new(name_of(tool), tool.description.as_deref(), Some(arguments));
    prompt.title.clone_from(&tool.title);
    prompt
}

/// The types that a schema names.
fn kinds(schema: &Json) -> Vec<&str> {
    match schema.get("type") {
        Some(Json::String(kind)) => vec![kind],
        Some(Json::Array(kinds)) => kinds.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Reads an argument: text where a string fits, else JSON. Clients that send JSON as it is are understood.
fn read(name: &str, value: &Json, schema: &Json) -> Result<Json, ErrorData> {
    let Some(text) = value.as_str() else { return Ok(value.clone()) };
    let kinds = kinds(schema);
    if kinds.is_empty() || kinds.contains(&"string") {
        return Ok(json!(text));
    }
    serde_json::from_str(text).map_err(|_| wrong(name, &format!("is not {} written as JSON", article(&kinds))))
}

/// Types with their article: "a number", "an array or null".
fn article(kinds: &[&str]) -> String {
    let named = kinds.iter().map(|kind| match *kind {
        "null" => (*kind).to_owned(),
        "array" | "integer" | "object" => format!("an {kind}"),
        kind => format!("a {kind}"),
    });
    named.collect::<Vec<_>>().join(" or ")
}

fn wrong(name: &str, what: &str) -> ErrorData {
    ErrorData::invalid_params(format!("the argument `{}` {what}", printable(name, NAME_CHARS)), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn list() -> ToolList {
        let schema = json!({
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city to ask about"},
                "days": {"type": "integer"},
                "unit": {"type": "string", "enum": ["celsius", "centigrade", "kelvin"]},
            },
            "required": ["city"],
        });
        let Json::Object(schema) = schema else { unreachable!() };
        let tool = Tool::new("", "Reports the weather", Arc::new(schema));
        let operation = Tool::new("", "An operation", Arc::new(JsonObject::new()));
        ToolList::named(
            None,
            vec![
                ("run_weather".to_owned(), tool, Target::Workflow("weather".into())),
                ("text/count".to_owned(), operation, Target::Operation("text/count".into())),
            ],
        )
    }

    fn told(arguments: Json) -> Result<String, String> {
        let Json::Object(arguments) = arguments else { unreachable!() };
        match get(&list(), "weather", &arguments) {
            Ok(result) => Ok(result.messages[0].content.as_text().unwrap().text.clone()),
            Err(error) => Err(error.message.into_owned()),
        }
    }

    #[test]
    fn a_workflow_is_a_prompt_with_its_inputs_and_nothing_else_is_one() {
        let (page, is_last) = page(&list(), None, 10);
        assert!(is_last);
        let names: Vec<&str> = page.iter().map(|prompt| prompt.name.as_str()).collect();
        assert_eq!(names, ["weather"]);
        let arguments = page[0].arguments.as_deref().unwrap();
        let shown: Vec<_> = arguments
            .iter()
            .map(|argument| (argument.name.as_str(), argument.required, argument.description.as_deref()))
            .collect();
        assert_eq!(
            shown,
            [
                ("city", Some(true), Some("The city to ask about")),
                ("days", Some(false), Some("integer, as JSON")),
                ("unit", Some(false), None)
            ]
        );
    }

    #[test]
    fn an_argument_is_completed_with_the_values_of_its_schema() {
        let completed = |argument: &str, value: &str| {
            let argument = ArgumentInfo::new(argument, value);
            complete(&list(), "weather", &argument).map(|result| result.completion.values)
        };
        assert_eq!(completed("unit", "ce").unwrap(), ["celsius", "centigrade"]);
        assert_eq!(completed("city", "").unwrap(), Vec::<String>::new());
        assert!(completed("none", "").is_err());
    }

    #[test]
    fn a_prompt_asks_for_the_call_with_arguments_of_the_schemas_types() {
        let text = told(json!({"city": "Ulm\n```", "days": "3"})).unwrap();
        assert!(text.starts_with("Call the tool `run_weather` with these arguments:"), "{text}");
        assert!(text.contains("\"city\": \"Ulm\\n```\"") && text.contains("\"days\": 3"), "{text}");
    }

    #[test]
    fn wrong_arguments_are_refused_with_a_sentence() {
        assert_eq!(told(json!({})).unwrap_err(), "the argument `city` is missing");
        let typo = told(json!({"city": "Ulm", "dais": "3"})).unwrap_err();
        assert_eq!(typo, "the argument `dais` is not one of the prompt; did you mean `days`?");
        let kind = told(json!({"city": "Ulm", "days": "three"})).unwrap_err();
        assert_eq!(kind, "the argument `days` is not an integer written as JSON");
    }
}
