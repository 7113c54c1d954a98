//! WorkflowSkill's parser, schema and validator.
//!
//! The validator's paths and messages must match exactly and in order. The schema's paths must; its texts, and YAML's,
//! are another library's, and advisory.

use super::{
    Adapter, Failure, Outcome, cases, check,
    encoding::{decode, same, show},
    first_case, text,
};
use opcell_types::Value;
use opcell_workflow::workflowskill::{self, Issue, ParseError, Skill};

/// `{cases: [{yaml | content, tools, expected: {parse, valid, errors, skill_result, …}}]}`
pub(super) const VALIDATION: Adapter = Adapter {
    name: "WorkflowSkill validation",
    recognizes: |document| {
        let keys = ["parse", "skill_result", "validateWorkflowSkill", "parseSkillMd"];
        let expected = first_case(document).and_then(|case| case.get("expected"));
        expected.is_some_and(|expected| keys.iter().any(|key| expected.get(key).is_some()))
    },
    run: validation,
};

type Parser = fn(&str) -> Result<Skill, ParseError>;

fn validation(document: &Value) -> Result<Vec<Outcome>, String> {
    cases(document)?.iter().map(|case| Ok(Outcome::new(text(case, "id")?, run(case)?))).collect()
}

fn run(case: &Value) -> Result<Result<(), Failure>, String> {
    let expected = case.get("expected").ok_or("a case expects nothing")?;
    let (content, default_parser): (&str, Parser) = match case.get("yaml").and_then(Value::as_str) {
        Some(yaml) => (yaml, workflowskill::parse_workflow_yaml),
        None => (text(case, "content")?, workflowskill::parse_skill_md),
    };
    let parser: Parser = match case.get("fn").and_then(Value::as_str) {
        Some("parseWorkflowYaml") => workflowskill::parse_workflow_yaml,
        Some("parseWorkflowFromMd") => workflowskill::parse_workflow_from_md,
        Some("parseSkillMd") => workflowskill::parse_skill_md,
        _ => default_parser,
    };
    let registered: Option<Vec<&str>> =
        case.get("tools").and_then(Value::as_array).map(|tools| tools.iter().filter_map(Value::as_str).collect());
    let is_registered = |name: &str| registered.as_ref().is_some_and(|tools| tools.contains(&name));
    let tools = registered.as_ref().map(|_| &is_registered as &dyn Fn(&str) -> bool);

    let mut result = Ok(());
    if expected.get("parse").is_some() {
        result = result.and_then(|()| parse(expected, &parser(content)));
    }
    if expected.get("errors").is_some() {
        result = result.and_then(|()| match parser(content) {
            Ok(skill) => issues(expected.get("errors"), &skill.validate(tools), true),
            Err(error) => check(false, "a workflow", error.message),
        });
    }
    for (key, parser) in [
        ("parseSkillMd", workflowskill::parse_skill_md as Parser),
        ("parseWorkflowFromMd", workflowskill::parse_workflow_from_md),
    ] {
        if let Some(expected) = expected.get(key) {
            result = result.and_then(|()| parse(expected, &parser(content)));
        }
    }
    if let Some(expected) = expected.get("validateWorkflowSkill") {
        result = result.and_then(|()| verdict(expected, content, tools));
    }
    if let Some(expected) = expected.get("skill_result") {
        let content = match case.get("yaml") {
            Some(_) => format!("```workflow\n{content}\n```"),
            None => content.to_owned(),
        };
        result = result.and_then(|()| verdict(expected, &content, tools));
    }
    Ok(result)
}

fn parse(expected: &Value, got: &Result<Skill, ParseError>) -> Result<(), Failure> {
    match (expected.get("parse").and_then(Value::as_str), got) {
        (Some("ok"), Ok(skill)) => match expected.get("parsed") {
            None => Ok(()),
            Some(parsed) => {
                let workflow = skill.definition.to_value();
                let got = match (parsed.get("frontmatter"), &skill.front_matter) {
                    (Some(_), Some(front_matter)) => {
                        Value::object([("frontmatter", front_matter.clone()), ("workflow", workflow)])
                    }
                    _ => workflow,
                };
                let expected = decode(parsed);
                check(same(&expected, &got), show(&expected), show(&got))
            }
        },
        (Some("ok"), Err(error)) => check(false, "a workflow", error.message.clone()),
        (_, Ok(_)) => check(false, show(expected), "a workflow"),
        (_, Err(error)) => {
            let wanted = expected.get("parse_error").and_then(|error| error.get("message")).and_then(Value::as_str);
            let wanted = wanted.unwrap_or_default();
            check(same_message(wanted, &error.message), wanted, error.message.clone())?;
            issues(expected.get("parse_error").and_then(|error| error.get("details")), &error.details, false)
        }
    }
}

/// YAML's own texts are advisory; what precedes them is not.
pub(super) fn same_message(expected: &str, got: &str) -> bool {
    let known = |text: &str| {
        ["Invalid YAML: ", "Invalid frontmatter YAML: "].into_iter().find(|prefix| text.starts_with(prefix))
    };
    match known(expected) {
        Some(prefix) => known(got) == Some(prefix),
        None => expected == got,
    }
}

/// Compares paths in order, and messages where they are the language's own.
pub(super) fn issues(expected: Option<&Value>, got: &[Issue], exact: bool) -> Result<(), Failure> {
    let expected = expected.and_then(Value::as_array).unwrap_or_default();
    let part = |issue: &Value, key: &str| issue.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let matches = expected.len() == got.len()
        && expected.iter().zip(got).all(|(expected, got)| {
            let message = part(expected, "message");
            part(expected, "path") == got.path && (!exact || same_message(&message, &got.message))
        });
    let shown: Vec<String> = got.iter().map(|issue| format!("{}: {}", issue.path, issue.message)).collect();
    let wanted: Vec<String> =
        expected.iter().map(|issue| format!("{}: {}", part(issue, "path"), part(issue, "message"))).collect();
    check(matches, wanted.join(" | "), shown.join(" | "))
}

fn verdict(expected: &Value, content: &str, tools: Option<&dyn Fn(&str) -> bool>) -> Result<(), Failure> {
    let got = workflowskill::validate_workflow_skill(content, tools);
    let from_schema = workflowskill::parse_content(content).is_err_and(|error| !error.details.is_empty());
    issues(expected.get("errors"), &got.errors, !from_schema)?;
    let mut shown = vec![("valid", Value::Bool(got.valid))];
    shown.extend(got.name.map(|name| ("name", Value::from(name))));
    shown.extend(got.step_count.and_then(|n| i64::try_from(n).ok()).map(|n| ("stepCount", Value::from(n))));
    shown.extend(got.step_types.map(|types| ("stepTypes", Value::array(types.into_iter().map(Value::from)))));
    let got = Value::object(shown);
    let wanted = expected.as_object().into_iter().flatten().filter(|(key, _)| key.as_ref() != "errors");
    let wanted = Value::object(wanted.map(|(key, value)| (key.clone(), value.clone())));
    check(same(&wanted, &got), show(&wanted), show(&got))
}
