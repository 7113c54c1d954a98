//! PromptPack's cases: what the reference implementation was seen to do, kind by kind.
//!
//! Each kind drives the part of the library that is the counterpart of the reference's, and compares everything the
//! case states.

#![allow(clippy::indexing_slicing, reason = "JSON by key: what is absent reads as null")]

mod composition;
mod machine;
mod scenario;

use super::{Adapter, Failure, Outcome};
use opcell_types::Value as Data;
use opcell_workflow::promptpack::composition::{Available, Composition, validate_all};
use opcell_workflow::promptpack::schema::{Edition, check_pack};
use opcell_workflow::promptpack::template::{Variables, render_nested};
use opcell_workflow::promptpack::{Spec, validate};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

/// State machines, validation, templates, schemas and compositions.
pub(super) const CASES: Adapter = Adapter {
    name: "promptkit-conformance/1",
    recognizes: |document| document.get("format").and_then(Data::as_str) == Some("promptkit-conformance/1"),
    run: |document| Ok(super::cases(document)?.iter().map(|case| outcome(&Json::from(case), run)).collect()),
};

/// Whole conversations over real packs' workflows.
pub(super) const SCENARIOS: Adapter = Adapter {
    name: "PromptPack scenarios",
    recognizes: |document| {
        super::first_case(document).and_then(|case| case.get("kind")).and_then(Data::as_str) == Some("scenario")
    },
    run: |document| Ok(super::cases(document)?.iter().map(|case| outcome(&Json::from(case), scenario::run)).collect()),
};

fn outcome(case: &Json, run: fn(&Json) -> Result<(), Failure>) -> Outcome {
    Outcome::new(case["name"].as_str().unwrap_or("a case without a name"), run(case))
}

fn run(case: &Json) -> Result<(), Failure> {
    let observed = match case["kind"].as_str().unwrap_or_default() {
        "machine" | "descriptors" => return machine::run(case),
        "composition_run" => return composition::run(case),
        "validate" => observe_validate(case)?,
        "parse" => observe_parse(case),
        "template" => observe_template(case),
        "schema" => observe_schema(case),
        "composition_validate" => observe_composition_validate(case)?,
        other => return Err(broken(format!("unknown kind of case: {other}"))),
    };
    compare_with_case(case, &observed)
}

/// The case itself cannot be run.
fn broken(why: impl ToString) -> Failure {
    Failure { expected: "a case that can be run".to_owned(), got: why.to_string() }
}

/// Compares with `expected`, or with any one of `expected_one_of`.
fn compare_with_case(case: &Json, observed: &Json) -> Result<(), Failure> {
    match case.get("expected_one_of").and_then(Json::as_array) {
        Some(alternatives) if case["expected"].is_null() => {
            any_of(alternatives.iter().map(|expected| compare("expected", expected, observed)))
        }
        _ => compare("expected", &case["expected"], observed),
    }
}

/// Checks whether one of several alternatives held; else says how the first one differs.
fn any_of(alternatives: impl Iterator<Item = Result<(), Failure>>) -> Result<(), Failure> {
    let mut first = None;
    for alternative in alternatives {
        match alternative {
            Ok(()) => return Ok(()),
            Err(failure) => first = first.or(Some(failure)),
        }
    }
    Err(first.unwrap_or_else(|| broken("the case has no alternatives")))
}

/// Checks whether everything that `expected` states is `observed`: an object may have more keys than stated at its top.
fn compare(place: &str, expected: &Json, observed: &Json) -> Result<(), Failure> {
    match expected {
        Json::Object(entries) => entries.iter().try_for_each(|(key, expected)| {
            let found = observed.get(key).unwrap_or(&Json::Null);
            match (same(expected, found), observed.get("error")) {
                (true, _) => Ok(()),
                (false, Some(error)) if key != "error" => Err(differ(&format!("{place}.{key}"), expected, error)),
                (false, _) => Err(differ(&format!("{place}.{key}"), expected, found)),
            }
        }),
        _ if same(expected, observed) => Ok(()),
        _ => Err(differ(place, expected, observed)),
    }
}

fn differ(place: &str, expected: &Json, observed: &Json) -> Failure {
    Failure { expected: format!("{place}: {expected}"), got: observed.to_string() }
}

/// Structural equality; numbers by value, objects without regard to order.
fn same(a: &Json, b: &Json) -> bool {
    let (a, b) = (Data::from(a.clone()), Data::from(b.clone()));
    a == b
}

fn strings(list: &Json) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Json::as_str).map(str::to_owned).collect()
}

fn read_spec(case: &Json) -> Result<Spec, Failure> {
    Spec::from_config(&Data::from(case["spec"].clone()))
        .map_err(broken)?
        .ok_or_else(|| broken("the case has no workflow"))
}

fn observe_validate(case: &Json) -> Result<Json, Failure> {
    let found = validate(&read_spec(case)?, &strings(&case["prompt_keys"]));
    Ok(json!({"errors": found.errors, "warnings": found.warnings}))
}

fn observe_parse(case: &Json) -> Json {
    match Spec::from_config(&Data::from(case["spec"].clone())) {
        Ok(spec) => json!({"spec": spec.map(|spec| spec.reference_form())}),
        Err(error) => json!({"parse_error": error.to_string()}),
    }
}

fn observe_template(case: &Json) -> Json {
    let variables: Variables = case["vars"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect();
    match render_nested(case["template"].as_str().unwrap_or_default(), &variables) {
        Ok(rendered) => {
            let unused = if rendered.unused.is_empty() { Json::Null } else { json!(rendered.unused) };
            json!({"text": rendered.text, "detailed_text": rendered.text, "unused": unused})
        }
        Err(error) => json!({"error": error.to_string(), "detailed_error": error.to_string()}),
    }
}

fn observe_schema(case: &Json) -> Json {
    let mut errors: Vec<String> =
        check_pack(&case["spec"], Edition::Reference).iter().map(ToString::to_string).collect();
    errors.sort();
    json!({"valid": errors.is_empty(), "errors": errors})
}

fn observe_composition_validate(case: &Json) -> Result<Json, Failure> {
    let mut compositions = BTreeMap::new();
    for (name, value) in case["compositions"].as_object().into_iter().flatten() {
        let composition = Composition::from_value(&Data::from(value.clone())).map_err(broken)?;
        compositions.insert(name.clone(), composition);
    }
    let keys = |field: &str| -> BTreeSet<String> { strings(&case[field]).into_iter().collect() };
    let available = Available { prompts: keys("prompt_keys"), tools: keys("tool_keys"), evals: keys("eval_keys") };
    let found = validate_all(&compositions, &available);
    Ok(json!({"errors": found.errors, "warnings": found.warnings}))
}
