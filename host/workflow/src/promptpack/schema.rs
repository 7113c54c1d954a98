//! The check that a document has the shape of a pack.

use crate::json::pointer_part;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use opcell_ir::diagnostic::{Diagnostic, did_you_mean};
use opcell_types::text::one_line;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The JSON Schema of packs.
pub const PACK_SCHEMA: &str = include_str!("pack.schema.json");

/// Whose idea of a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Edition {
    /// The published schema, 1.4 to 1.9.
    #[default]
    Published,
    /// The copy inside the reference implementation, which calls itself 1.5.0: it refuses what later versions added,
    /// wants `on_event` in every state that is not terminal, and does not look into the budget.
    Reference,
}

/// Keys that versions after 1.5 added, as places in the schema.
const AFTER_1_5: [&str; 14] = [
    "/properties/requires",
    "/properties/metadata/properties/governance",
    "/$defs/prompt/properties/provider",
    "/$defs/prompt/properties/extensions",
    "/$defs/tool/properties/action_scope",
    "/$defs/tool/properties/extensions",
    "/$defs/validator/properties/id",
    "/$defs/validator/properties/extensions",
    "/$defs/eval/properties/extensions",
    "/$defs/workflow/properties/engine/properties/budget",
    "/$defs/state/properties/control",
    "/$defs/state/properties/extensions",
    "/$defs/composition/properties/extensions",
    "/$defs/step/oneOf/5",
];

/// The name of the document itself as a field.
const ROOT: &str = "(root)";

/// Bytes of a key or value that a message repeats.
const MAX_SHOWN: usize = 200;

/// An error of a document's shape: its place and its text, in the reference's words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SchemaError {
    /// JSON pointer into the document.
    pub pointer: String,
    /// Dotted path, `(root)` for the document itself.
    pub field: String,
    /// The error.
    pub description: String,
    /// `true` if it is about the key at this place and not about its value.
    pub of_key: bool,
    /// The key or value that was probably meant.
    pub meant: Option<String>,
}

impl std::fmt::Display for SchemaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.description)
    }
}

impl SchemaError {
    /// As a diagnostic, without its place.
    #[must_use]
    pub fn diagnostic(&self) -> Diagnostic {
        let at = if self.field == ROOT { String::new() } else { format!("{}: ", self.field) };
        let error = Diagnostic::error("pack-schema", format!("{at}{}", self.description)).path(self.field.clone());
        match self.description.as_str() {
            _ if self.meant.is_some() => {
                error.help(format!("did you mean `{}`?", self.meant.as_deref().unwrap_or_default()))
            }
            "termination is required" => {
                error.help("say when the agent is done: `\"termination\": {\"max_steps\": 10}`, or `tool_called` with a tool's name")
            }
            _ => error,
        }
    }
}

/// Everything that is wrong with the shape of a pack, sorted; nothing, if it is valid.
#[must_use]
pub fn check_pack(pack: &Json, edition: Edition) -> Vec<SchemaError> {
    static PUBLISHED: LazyLock<Validator> = LazyLock::new(|| compile(&schema(Edition::Published)));
    static REFERENCE: LazyLock<Validator> = LazyLock::new(|| compile(&schema(Edition::Reference)));
    match edition {
        Edition::Published => without_consequences(errors(&PUBLISHED, pack, Words::Own)),
        Edition::Reference => errors(&REFERENCE, pack, Words::Reference),
    }
}

/// Everything that is wrong with the arguments of a tool call, in the order in which the schema states its rules.
///
/// # Errors
/// When the schema itself is not one.
pub fn check_arguments(schema: &Json, arguments: &Json) -> Result<Vec<SchemaError>, String> {
    let validator = jsonschema::validator_for(schema).map_err(|error| error.to_string())?;
    Ok(errors(&validator, arguments, Words::Reference))
}

/// The form in which alternatives that do not hold are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Words {
    /// As the reference does: that none holds, and what keeps the one from holding that has least against the document.
    Reference,
    /// The errors of the alternative that the document's own `kind` chooses.
    Own,
}

#[expect(clippy::expect_used, reason = "the document is part of this crate, and a test compiles both editions")]
fn schema(edition: Edition) -> Json {
    let mut schema: Json = serde_json::from_str(PACK_SCHEMA).expect("pack.schema.json is JSON");
    if edition == Edition::Reference {
        for pointer in AFTER_1_5 {
            remove(&mut schema, pointer);
        }
        if let Some(state) = schema.pointer_mut("/$defs/state").and_then(Json::as_object_mut) {
            state.remove("else");
            let terminal = serde_json::json!({"required": ["terminal"], "properties": {"terminal": {"const": true}}});
            state.insert("if".to_owned(), serde_json::json!({"not": terminal}));
            state.insert("then".to_owned(), serde_json::json!({"required": ["on_event"]}));
        }
    }
    schema
}

/// The errors without those that a misspelt key explains: the key that was meant is missing because of it.
fn without_consequences(mut errors: Vec<SchemaError>) -> Vec<SchemaError> {
    let misspelt: BTreeSet<(String, String)> = errors
        .iter()
        .filter(|error| error.of_key)
        .filter_map(|error| Some((error.pointer.rsplit_once('/')?.0.to_owned(), error.meant.clone()?)))
        .collect();
    let is_explained = |error: &SchemaError| {
        let missing = error.description.strip_suffix(" is required");
        missing.is_some_and(|key| misspelt.contains(&(error.pointer.clone(), key.to_owned())))
    };
    errors.retain(|error| !is_explained(error));
    errors
}

fn remove(schema: &mut Json, pointer: &str) {
    let Some((parent, key)) = pointer.rsplit_once('/') else { return };
    match schema.pointer_mut(parent) {
        Some(Json::Object(entries)) => {
            entries.shift_remove(key);
        }
        Some(Json::Array(items)) => {
            if let Some(index) = key.parse().ok().filter(|index: &usize| *index < items.len()) {
                items.remove(index);
            }
        }
        _ => {}
    }
}

#[expect(clippy::expect_used, reason = "the document is part of this crate, and a test compiles both editions")]
fn compile(schema: &Json) -> Validator {
    jsonschema::options().should_validate_formats(true).build(schema).expect("pack.schema.json is a JSON Schema")
}

fn errors(validator: &Validator, document: &Json, words: Words) -> Vec<SchemaError> {
    let found: Vec<ValidationError<'_>> = validator.iter_errors(document).collect();
    let wrong_types = wrong_types(&found);
    let mut reported = BTreeSet::new();
    found.iter().for_each(|error| tell(error, &wrong_types, words, &mut reported));
    reported.into_iter().collect()
}

/// Places whose value has the wrong type: nothing else about them is worth telling.
fn wrong_types(errors: &[ValidationError<'_>]) -> BTreeSet<String> {
    errors
        .iter()
        .filter(|error| matches!(error.kind(), ValidationErrorKind::Type { .. }))
        .map(|error| error.instance_path().to_string())
        .collect()
}

/// Recursion is bounded by the depth of our own schema along one document place: alternatives nest, but each level
/// descends into the document, whose depth JSON parsing bounds.
fn tell(
    error: &ValidationError<'_>,
    wrong_types: &BTreeSet<String>,
    words: Words,
    reported: &mut BTreeSet<SchemaError>,
) {
    let pointer = error.instance_path().to_string();
    if wrong_types.contains(&pointer) && !matches!(error.kind(), ValidationErrorKind::Type { .. }) {
        return;
    }
    let field = if pointer.is_empty() { ROOT.to_owned() } else { pointer.trim_start_matches('/').replace('/', ".") };
    let plain = |description| SchemaError {
        pointer: pointer.clone(),
        field: field.clone(),
        description,
        of_key: false,
        meant: None,
    };
    let mut say = |description: String| {
        reported.insert(plain(description));
    };
    let rule = error.evaluation_path().to_string();
    if let Some(outcome) = rule.split('/').find_map(|part| match part {
        "then" => Some("Must validate \"then\" as \"if\" was valid"),
        "else" => Some("Must validate \"else\" as \"if\" was not valid"),
        _ => None,
    }) {
        say(outcome.to_owned());
    }
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } if words == Words::Own => {
            let keys = unexpected.iter().map(|key| SchemaError {
                pointer: format!("{pointer}/{}", pointer_part(key)),
                of_key: true,
                meant: known_key(key, error),
                ..plain(format!("unknown key `{}`", one_line(key, MAX_SHOWN)))
            });
            reported.extend(keys);
        }
        ValidationErrorKind::Enum { options } if words == Words::Own => {
            let names: Vec<&str> = options.as_array().into_iter().flatten().filter_map(Json::as_str).collect();
            let given = error.instance().as_str().unwrap_or_default();
            let meant = did_you_mean(given, names.iter().copied()).map(str::to_owned);
            let expected = format!("`{}`", names.join("`, `"));
            let given = one_line(&error.instance().to_string(), MAX_SHOWN);
            reported.insert(SchemaError { meant, ..plain(format!("{given} is not one of {expected}")) });
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            unexpected.iter().for_each(|key| say(format!("Additional property {key} is not allowed")));
        }
        ValidationErrorKind::OneOfNotValid { context } | ValidationErrorKind::AnyOf { context }
            if words == Words::Own =>
        {
            match chosen(&pointer, context) {
                Chosen::One(errors) => {
                    errors.iter().for_each(|error| tell(error, &BTreeSet::new(), words, reported));
                }
                Chosen::Said { at, description } => {
                    let field = at.trim_start_matches('/').replace('/', ".");
                    reported.insert(SchemaError { pointer: at, field, ..plain(description) });
                }
            }
        }
        ValidationErrorKind::OneOfNotValid { context } => {
            say("Must validate one and only one schema (oneOf)".to_owned());
            nearest(context).iter().for_each(|error| tell(error, &BTreeSet::new(), words, reported));
        }
        ValidationErrorKind::AnyOf { context } => {
            say("Must validate at least one schema (anyOf)".to_owned());
            nearest(context).iter().for_each(|error| tell(error, &BTreeSet::new(), words, reported));
        }
        kind => say(description(kind, &field, error.instance()).unwrap_or_else(|| error.to_string())),
    }
}

/// The key that an unknown one was probably meant for, among those beside it in the schema.
fn known_key(key: &str, error: &ValidationError<'_>) -> Option<String> {
    static SCHEMA: LazyLock<Json> = LazyLock::new(|| schema(Edition::Published));
    let (around, _) = error.schema_path().as_str().rsplit_once('/')?;
    let known = SCHEMA.pointer(around)?.get("properties")?.as_object()?;
    did_you_mean(key, known.keys().map(String::as_str)).map(str::to_owned)
}

/// The report on alternatives of which none holds.
enum Chosen<'e> {
    /// The errors of one of them.
    One(&'e [ValidationError<'static>]),
    /// The requirement that they all share.
    Said { at: String, description: String },
}

/// Alternatives that differ in a `kind` are chosen by it; those that ask for one thing each are told together.
fn chosen<'e>(pointer: &str, alternatives: &'e [Vec<ValidationError<'static>>]) -> Chosen<'e> {
    let kind = format!("{pointer}/kind");
    let of_another_kind = |errors: &&Vec<ValidationError<'static>>| {
        let says = |error: &ValidationError<'static>| {
            matches!(error.kind(), ValidationErrorKind::Constant { .. } | ValidationErrorKind::Pattern { .. })
        };
        errors.iter().any(|error| says(error) && error.instance_path().as_str() == kind)
    };
    if alternatives.iter().any(|errors| of_another_kind(&errors)) {
        if let Some(errors) = alternatives.iter().find(|errors| !of_another_kind(errors)) {
            return Chosen::One(errors);
        }
        let kinds = alternatives.iter().flatten().filter_map(|error| match error.kind() {
            ValidationErrorKind::Constant { expected_value } if error.instance_path().as_str() == kind => {
                Some(expected_value.to_string())
            }
            _ => None,
        });
        let description = format!("must be one of the following: {}", kinds.collect::<Vec<_>>().join(", "));
        return Chosen::Said { at: kind, description };
    }
    let said = |description| Chosen::Said { at: pointer.to_owned(), description };
    let alone = alternatives.iter().map(|errors| match errors.as_slice() {
        [error] if error.instance_path().as_str() == pointer => Some(error),
        _ => None,
    });
    let alone: Option<Vec<&ValidationError<'static>>> = alone.collect();
    let alone = alone.unwrap_or_default();
    let required: Option<Vec<&str>> = alone
        .iter()
        .map(|error| match error.kind() {
            ValidationErrorKind::Required { property } => property.as_str(),
            _ => None,
        })
        .collect();
    if let Some(keys) = required.filter(|keys| keys.len() > 1) {
        return said(format!("one of {} is required", keys.join(", ")));
    }
    let types: Option<Vec<String>> = alone
        .iter()
        .map(|error| match error.kind() {
            ValidationErrorKind::Type { kind } => Some(expected(kind)),
            _ => None,
        })
        .collect();
    match (types.filter(|types| types.len() > 1), alone.first()) {
        (Some(types), Some(error)) => {
            said(format!("Invalid type. Expected: {}, given: {}", types.join("/"), given(error.instance())))
        }
        _ => {
            // What is of the right type lacks something else.
            let of_another_type = |errors: &&Vec<ValidationError<'static>>| {
                let is_type =
                    |error: &ValidationError<'static>| matches!(error.kind(), ValidationErrorKind::Type { .. });
                errors.iter().any(|error| is_type(error) && error.instance_path().as_str() == pointer)
            };
            let fitting = alternatives.iter().filter(|errors| !of_another_type(errors));
            Chosen::One(fitting.min_by_key(|errors| errors.len()).map_or_else(|| nearest(alternatives), Vec::as_slice))
        }
    }
}

/// The alternative that has least against the document.
fn nearest<'e>(alternatives: &'e [Vec<ValidationError<'static>>]) -> &'e [ValidationError<'static>] {
    alternatives.iter().min_by_key(|errors| errors.len()).map_or(&[], Vec::as_slice)
}

fn description(kind: &ValidationErrorKind, field: &str, instance: &Json) -> Option<String> {
    Some(match kind {
        ValidationErrorKind::Required { property } => {
            format!("{} is required", property.as_str().map_or_else(|| property.to_string(), str::to_owned))
        }
        ValidationErrorKind::Type { kind } => {
            format!("Invalid type. Expected: {}, given: {}", expected(kind), given(instance))
        }
        ValidationErrorKind::Enum { options } => {
            let allowed: Vec<String> = options.as_array()?.iter().map(Json::to_string).collect();
            format!("{field} must be one of the following: {}", allowed.join(", "))
        }
        ValidationErrorKind::Constant { expected_value } => format!("{field} does not match: {expected_value}"),
        ValidationErrorKind::Pattern { pattern } => format!("Does not match pattern '{pattern}'"),
        ValidationErrorKind::Format { format } => format!("Does not match format '{format}'"),
        ValidationErrorKind::MinLength { limit } => format!("String length must be greater than or equal to {limit}"),
        ValidationErrorKind::MaxLength { limit } => format!("String length must be less than or equal to {limit}"),
        ValidationErrorKind::Minimum { limit } => format!("Must be greater than or equal to {limit}"),
        ValidationErrorKind::Maximum { limit } => format!("Must be less than or equal to {limit}"),
        ValidationErrorKind::MinItems { limit } => format!("Array must have at least {limit} items"),
        ValidationErrorKind::MinProperties { limit } => format!("Must have at least {limit} properties"),
        ValidationErrorKind::MaxProperties { limit } => format!("Must have at most {limit} properties"),
        ValidationErrorKind::OneOfMultipleValid { .. } => "Must validate one and only one schema (oneOf)".to_owned(),
        _ => return None,
    })
}

fn expected(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => one.to_string(),
        TypeKind::Multiple(set) => set.iter().map(|one| one.to_string()).collect::<Vec<_>>().join("/"),
    }
}

fn given(instance: &Json) -> &'static str {
    match instance {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(n) if n.is_f64() => "number",
        Json::Number(_) => "integer",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}
