//! JSON Schemas that others bring: plugins for their arguments and results, packs for what their compositions take and
//! give, tools.
//!
//! A schema is a program: its patterns become automata, its references branch and recurse, and a few hundred bytes can
//! ask for more memory and time than there is. Here it is weighed before it is built and before it is used: its
//! patterns match in linear time and are counted, its references stay inside of it, the schemas that the validator
//! makes of it are counted, and the steps that a check of a value may take are known before the check begins.
//!
//! It is not a place for schemas of this project's own making; their cost is known.

#![warn(missing_debug_implementations)]

mod cost;
mod dialect;
mod graph;
mod integers;
pub mod json;
mod keywords;
mod patterns;
mod plain;
#[cfg(test)]
mod promises;
mod shared;
pub mod shown;
mod stack;
mod unique;
mod weight;

use cost::Cost;
use dialect::{Reading, Translated};
use integers::Integers;
use jsonschema::{Draft, PatternOptions, ValidationError, Validator, error::ValidationErrorKind};
pub use keywords::MisspeltKeyword;
use opcell_types::{
    suggest::hint,
    text::{one_line, printable},
};
use patterns::{LAZY_BYTES, MAX_PATTERN_BYTES, Patterns};
use plain::Plain;
use serde_json::Value;
pub use weight::Weight;

/// Longest schema text.
pub const MAX_SCHEMA_BYTES: usize = 256 << 10;

/// Steps that one check may take at most, away from threads on which others wait: some tenths of a second.
pub const MAX_STEPS: u64 = 50_000_000;

/// Steps that a check may take on the runtime's own threads: well below a millisecond.
const QUICK_STEPS: u64 = 50_000;

/// States of the patterns of a schema that may be matched there: what they keep for every thread is small.
const QUICK_STATES: u64 = 4_000;

/// Steps of a check whose failure is explained in full: there are never more reasons than steps.
const REASON_STEPS: u64 = 100_000;

/// Bytes of text that count as one part of a value: looking through them is about as much work as looking at one.
const PART_BYTES: usize = 8;

/// Longest text of a violation.
const VIOLATION_BYTES: usize = 500;

/// The most of a value that a violation shows.
const SHOWN_BYTES: usize = 120;

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    cost: Cost,
    /// States of its patterns, which count against a limit over all schemas of a plugin or a document.
    states: u64,
    /// The same as checks in a row, if it is so simple.
    plain: Option<Plain>,
    /// The places of integers.
    integers: Option<Integers>,
    /// Keywords that are not checked.
    warnings: Vec<String>,
    /// The schema, if it refuses unknown keys: a violation names the known one that was probably meant.
    closed: Option<Value>,
}

impl Schema {
    /// Compiles a schema from its text; the value is the schema as JSON.
    ///
    /// # Errors
    /// When the text is too long or not JSON; else as [`Schema::compile`].
    pub fn parse(text: &str) -> Result<(Value, Self), String> {
        if text.len() > MAX_SCHEMA_BYTES {
            return Err(format!("the schema has {} bytes, more than {MAX_SCHEMA_BYTES}", text.len()));
        }
        let value: Value = serde_json::from_str(text).map_err(|error| format!("the schema is not JSON: {error}"))?;
        let schema = Self::compile(&value)?;
        Ok((value, schema))
    }

    /// Compiles a schema of any draft from draft 4 on, or of OpenAPI 3.0. May take some tenths of a second: not for
    /// threads on which others wait.
    ///
    /// # Errors
    /// When it is not a schema, refers to anything outside of itself, or asks for more memory or time than a schema
    /// may.
    pub fn compile(value: &Value) -> Result<Self, String> {
        Self::build(value, Reading::Strict)
    }

    /// As [`Schema::compile`], for a schema whose owner checks values as well, such as an MCP server. A keyword that
    /// cannot be read or bounded is left to the owner: a value that the owner accepts is never refused for it.
    /// [`Schema::warnings`] names what is not checked.
    ///
    /// # Errors
    /// As [`Schema::compile`], for what is more than one keyword: references that lead outside, too many branches.
    pub fn compile_leniently(value: &Value) -> Result<Self, String> {
        Self::build(value, Reading::Strict).or_else(|_| Self::build(value, Reading::Lenient))
    }

    fn build(value: &Value, reading: Reading) -> Result<Self, String> {
        let unusable = |error| format!("the schema cannot be used: {error}");
        let Translated { schema, warnings } = dialect::read(value, reading).map_err(unusable)?;
        let value = &*schema;
        let (patterns, states) = Patterns::of(value).map_err(unusable)?;
        let cost = Cost::of(value, &patterns).map_err(unusable)?;
        let build = || {
            options()
                .build(value)
                .map_err(|error| format!("not a JSON Schema: {}", printable(&error.to_string(), VIOLATION_BYTES)))
        };
        let validator = stack::with_room_for(cost.compiled, build)??;
        let closed = is_closed(value).then(|| value.clone());
        Ok(Self { validator, cost, states, plain: Plain::of(value), integers: Integers::of(value), warnings, closed })
    }

    /// A schema as [`Schema::compile_leniently`] reads it: of draft 2020-12, without what is not checked.
    ///
    /// # Errors
    /// As [`Schema::compile_leniently`].
    pub fn checked_part(value: &Value) -> Result<Value, String> {
        dialect::read(value, Reading::Lenient).map(|translated| translated.schema.into_owned())
    }

    /// The keywords that are not checked, a sentence each; empty but for [`Schema::compile_leniently`].
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// As [`Schema::compile`], and kept for the next time that the same schema is asked for.
    ///
    /// # Errors
    /// As [`Schema::compile`]; a refusal is kept as well.
    pub fn shared(value: &opcell_types::Value) -> Result<std::sync::Arc<Self>, String> {
        shared::get(value, Reading::Strict)
    }

    /// As [`Schema::compile_leniently`], and kept for the next time that the same schema is asked for.
    ///
    /// # Errors
    /// As [`Schema::compile_leniently`]; a refusal is kept as well.
    pub fn shared_leniently(value: &opcell_types::Value) -> Result<std::sync::Arc<Self>, String> {
        shared::get(value, Reading::Lenient)
    }

    /// Checks whether these schemas may be kept together: the memory that they take is bounded for all of a plugin or a
    /// document.
    ///
    /// # Errors
    /// When they may not.
    pub fn check_total<'a>(schemas: impl Iterator<Item = &'a Self>) -> Result<(), String> {
        let add = |(states, compiled): (u64, u64), schema: &Self| {
            (states.saturating_add(schema.states), compiled.saturating_add(schema.cost.compiled))
        };
        let (states, compiled) = schemas.fold((0, 0), add);
        patterns::check_total(states)?;
        cost::check_total(compiled)
    }

    /// Returns `true` if a value of this text can be checked where others wait.
    #[must_use]
    pub fn is_quick(&self, text: &str, weight: Weight) -> bool {
        // Of two bytes, one is a comma, a colon, a bracket or a quote, except in long texts, where a part has more of
        // them.
        self.states <= QUICK_STATES
            && !stack::needs_room_for(self.cost.nesting(weight.depth))
            && self.cost.worst().saturating_mul(text.len() as u64 / 2 + 1) <= QUICK_STEPS
    }

    /// Checks whether a value can be checked in this number of steps.
    ///
    /// # Errors
    /// When it cannot.
    pub fn check_cost(&self, value: &Value, steps: u64) -> Result<(), String> {
        let (parts, depth) = measure(value, 0);
        if self.steps(parts, depth) > steps {
            return Err(format!(
                "it would take too long to check: {parts} parts, nested {depth} deep, against this schema"
            ));
        }
        Ok(())
    }

    /// Returns `true` if a value fits for certain, found out in one walk over it. `false` says nothing: ask
    /// [`Schema::check`] then.
    #[must_use]
    pub fn surely_fits(&self, value: &opcell_types::Value) -> bool {
        self.plain.as_ref().is_some_and(|plain| plain.fits(value))
    }

    /// Returns `true` if JSON text is one value that fits for certain, found out while it is read; nothing is kept of
    /// it. `false` says nothing.
    #[must_use]
    pub fn surely_fits_text(&self, text: &str) -> bool {
        self.plain.as_ref().is_some_and(|plain| plain.fits_text(text))
    }

    /// Returns `true` if the schema is so simple that [`Schema::surely_fits`] decides, and looks at each part of a
    /// value once.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.plain.is_some()
    }

    /// Writes `5.0` and `1e3` as integers where the schema says integer; returns `true` if there were any. For values
    /// that fit; takes no longer than the check of the value.
    pub fn write_integers(&self, value: &mut Value) -> bool {
        self.integers.as_ref().is_some_and(|integers| integers.write(value))
    }

    /// Checks that a value fits. [`Schema::check_cost`] says whether that ends soon.
    ///
    /// # Errors
    /// The first violation, with its place, what was expected and what is there.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        self.violations(value, 1).into_iter().next().map_or(Ok(()), Err)
    }

    /// The first violations of a value, no more than `most`; empty when it fits. One sentence says so where the check
    /// would take more than `steps`. The validator's own tree is built only for a value that does not surely fit.
    #[must_use]
    pub fn problems(&self, value: &opcell_types::Value, steps: u64, most: usize) -> Vec<String> {
        if self.surely_fits(value) {
            return Vec::new();
        }
        let tree = Value::from(value);
        match self.check_cost(&tree, steps) {
            Ok(()) => self.violations(&tree, most),
            Err(too_large) => vec![too_large],
        }
    }

    /// The first violations of a value, no more than this many; empty when it fits.
    ///
    /// Whether it fits is found out first, which keeps nothing; only then the reasons, which the validator collects for
    /// every branch before it shows the first. A value for which they could be too many gets one that says so.
    #[must_use]
    pub fn violations(&self, value: &Value, most: usize) -> Vec<String> {
        let (parts, depth) = measure(value, 0);
        let find = || {
            if self.validator.is_valid(value) {
                return Vec::new();
            }
            if self.steps(parts, depth) <= REASON_STEPS {
                return self.validator.iter_errors(value).take(most).map(|error| self.show(&error)).collect();
            }
            if !self.cost.lists_reasons {
                return self.validator.validate(value).err().iter().map(|error| self.show(error)).collect();
            }
            vec![format!(
                "it does not match the schema; with {parts} parts it is too large to say where, check a smaller one"
            )]
        };
        match stack::with_room_for(self.cost.nesting(depth), find) {
            Ok(found) => found,
            Err(error) => vec![error],
        }
    }

    fn steps(&self, parts: u64, depth: usize) -> u64 {
        self.cost.at(depth).saturating_mul(parts)
    }

    /// A violation with its place; that of the whole value needs none. A long value is cut, so that what was expected of
    /// it is still shown.
    fn show(&self, error: &ValidationError<'_>) -> String {
        let shown = || error.instance().to_string();
        let message = match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => self.unknown_keys(unexpected, error),
            _ => match shown() {
                long if long.len() > SHOWN_BYTES => error.masked_with(printable(&long, SHOWN_BYTES)).to_string(),
                _ => error.to_string(),
            },
        };
        let place = match error.instance_path().as_str() {
            "" => String::new(),
            path => format!("at `{path}`: "),
        };
        printable(&format!("{place}{message}"), VIOLATION_BYTES)
    }

    /// The first unknown key, with the known one that was probably meant, and the number of the others.
    fn unknown_keys(&self, unexpected: &[String], error: &ValidationError<'_>) -> String {
        let Some(first) = unexpected.first() else { return error.to_string() };
        let rule = error.schema_path().as_str();
        let around = rule.rsplit_once('/').map_or("", |(around, _)| around);
        let known = self.closed.as_ref().and_then(|schema| schema.pointer(around)?.get("properties")?.as_object());
        let near = hint(first, known.into_iter().flat_map(|known| known.keys().map(String::as_str)));
        let others = match unexpected.len() - 1 {
            0 => String::new(),
            others => format!(" (and {others} more)"),
        };
        format!("unknown key `{}`{others}{near}", one_line(first, SHOWN_BYTES))
    }
}

/// Returns `true` if a schema of draft 2020-12 refuses unknown keys somewhere. It goes no deeper than JSON is parsed.
fn is_closed(schema: &Value) -> bool {
    match schema {
        Value::Object(entries) => entries.iter().any(|(key, value)| {
            matches!(key.as_str(), "additionalProperties" | "unevaluatedProperties") && *value == Value::Bool(false)
                || is_closed(value)
        }),
        Value::Array(items) => items.iter().any(is_closed),
        _ => false,
    }
}

fn options<'a>() -> jsonschema::ValidationOptions<'a> {
    let options = jsonschema::options();
    #[cfg(test)]
    let options = options.with_keyword(promises::STEP, promises::counted);
    options
        .with_draft(Draft::Draft202012)
        .should_validate_formats(false)
        .with_keyword("uniqueItems", unique::keyword)
        // Linear in the length of the text, whatever the pattern.
        .with_pattern_options(PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(LAZY_BYTES))
}

/// Returns the number of parts of a value, long texts counting as several, and its nesting. The parser allows 128
/// levels, so this recursion ends.
fn measure(value: &Value, depth: usize) -> (u64, usize) {
    let fold = |(parts, deepest): (u64, usize), inner: &Value| {
        let (more, deeper) = measure(inner, depth + 1);
        (parts + more, deepest.max(deeper))
    };
    match value {
        Value::Array(list) => list.iter().fold((1, depth), fold),
        Value::Object(map) => {
            let names: u64 = map.keys().map(|name| length(name)).sum();
            map.values().fold((1 + names, depth), fold)
        }
        Value::String(text) => (1 + length(text), depth),
        _ => (1, depth),
    }
}

/// The parts that a text counts as beside the value that it belongs to.
fn length(text: &str) -> u64 {
    (text.len() / PART_BYTES) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::{Duration, Instant};

    fn fit(schema: &Schema, text: &str) -> Result<Value, String> {
        let value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
        schema.check_cost(&value, MAX_STEPS)?;
        schema.check(&value).map(|()| value)
    }

    #[test]
    fn a_violation_is_named_with_its_place() {
        let (_, schema) =
            Schema::parse(r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#).unwrap();
        assert_eq!(fit(&schema, r#"{"n": 1}"#), Ok(json!({"n": 1})));
        let error = fit(&schema, r#"{"n": "one"}"#).unwrap_err();
        assert!(error.starts_with("at `/n`:"), "{error}");
        let error = fit(&schema, "{}").unwrap_err();
        assert_eq!(error, "\"n\" is a required property");
        assert!(fit(&schema, "{").unwrap_err().starts_with("it is not JSON"));
    }

    #[test]
    fn an_unknown_key_is_named_with_the_known_one_that_was_probably_meant() {
        let schema = r##"{"type":"object","properties":{"path":{"$ref":"#/$defs/place"}},"additionalProperties":false,
            "$defs":{"place":{"type":"object","properties":{"line":{}},"unevaluatedProperties":false}}}"##;
        let (_, schema) = Schema::parse(schema).unwrap();
        for (value, expected) in [
            (r#"{"pth":1}"#, "unknown key `pth`; did you mean `path`?"),
            (r#"{"path":{"lien":1}}"#, "at `/path`: unknown key `lien`; did you mean `line`?"),
            (r#"{"zzz":1,"yyy":2}"#, "unknown key `zzz` (and 1 more)"),
        ] {
            assert_eq!(fit(&schema, value).unwrap_err(), expected);
        }
        let long = format!(r#"{{"{}":1}}"#, "\\u001b".repeat(1_000));
        let error = fit(&schema, &long).unwrap_err();
        assert!(error.len() <= VIOLATION_BYTES && !error.contains('\u{1b}'), "{error}");
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        for text in [
            "",
            "nonsense",
            "5",
            r#"{"type": 5}"#,
            r#"{"$ref": "https://example.com/schema.json"}"#,
            r#"{"pattern": "("}"#,
        ] {
            assert!(Schema::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_schema_that_would_recurse_for_ever_is_refused() {
        assert!(Schema::parse(r##"{"$ref": "#"}"##).unwrap_err().contains("refers to itself"));
    }

    #[test]
    fn a_check_that_would_take_for_ever_is_refused_and_a_shallow_value_still_passes() {
        let (_, schema) =
            Schema::parse(r##"{"allOf":[{"properties":{"a":{"$ref":"#"}}},{"additionalProperties":{"$ref":"#"}}]}"##)
                .unwrap();
        assert!(fit(&schema, r#"{"a":{"a":1}}"#).is_ok());
        let started = Instant::now();
        let deep = format!("{}1{}", r#"{"a":"#.repeat(100), "}".repeat(100));
        let error = fit(&schema, &deep).unwrap_err();
        assert!(error.contains("nested 100 deep"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    }

    #[test]
    fn automata_are_counted_over_the_whole_schema_used_or_not() {
        let many = |keyword: &dyn Fn(usize) -> String| {
            let schemas: Vec<String> = (0..5_000).map(keyword).collect();
            format!(r#"{{"$defs":{{"unused":{{"anyOf":[{}]}}}}}}"#, schemas.join(","))
        };
        let started = Instant::now();
        for text in [
            many(&|at| format!(r#"{{"pattern":"[0-9a-f]{{30}}x{at}"}}"#)),
            many(&|at| format!(r#"{{"patternProperties":{{"^x{at}":true}}}}"#)),
            many(&|_| r#"{"pattern":"^same$"}"#.to_owned()),
        ] {
            let error = Schema::parse(&text).unwrap_err();
            assert!(error.contains("its patterns together need more than"), "{error}");
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
        let few = r#"{"properties":{"id":{"pattern":"^[a-z0-9-]{1,63}$"},"day":{"pattern":"^\\d{4}-\\d{2}-\\d{2}$"}}}"#;
        assert!(Schema::parse(few).is_ok());
    }

    #[test]
    fn a_text_that_would_take_for_ever_to_match_is_refused_and_a_short_one_still_passes() {
        // Its automaton cannot be made deterministic, so that thousands of states are looked at for every byte.
        let (_, heavy) = Schema::parse(r#"{"pattern": "^[01]*1[01]{3000}[^a]*[01]$"}"#).unwrap();
        let started = Instant::now();
        let error = fit(&heavy, &format!("\"{}\"", "01".repeat(1 << 20))).unwrap_err();
        assert!(error.contains("too long to check"), "{error}");
        assert!(fit(&heavy, &format!("\"{}\"", "1".repeat(3_010))).is_ok());
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());

        let (_, light) = Schema::parse(r#"{"pattern": "\\S"}"#).unwrap();
        assert!(fit(&light, &format!("\"{}\"", " x".repeat(1 << 20))).is_ok());
    }

    #[test]
    fn a_long_value_is_cut_and_what_was_expected_of_it_is_told() {
        let (_, schema) = Schema::parse(r#"{"properties": {"n": {"type": "integer"}}, "required": ["m"]}"#).unwrap();
        let long = json!({"n": "x".repeat(5_000)});
        let reported = schema.violations(&long, 5);
        let [of_m, of_n] = reported.as_slice() else { panic!("{reported:?}") };
        assert!(of_n.starts_with("at `/n`: \"xxx") && of_n.ends_with("… is not of type \"integer\""), "{of_n}");
        assert_eq!(of_m, "\"m\" is a required property");
    }

    #[test]
    fn a_pattern_cannot_backtrack() {
        let (_, schema) = Schema::parse(r#"{"pattern": "^(a+)+$"}"#).unwrap();
        let started = Instant::now();
        assert!(fit(&schema, &format!("\"{}!\"", "a".repeat(5_000))).is_err());
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    }

    #[test]
    fn of_a_large_value_the_first_violation_is_shown_unless_branches_would_collect_too_many() {
        let many = |element: Value| Value::from(vec![element; 200_000]);
        let (_, plain) = Schema::parse(r#"{"items": {"type": "integer"}}"#).unwrap();
        assert_eq!(plain.check(&many(json!("x"))), Err("at `/0`: \"x\" is not of type \"integer\"".to_owned()));
        let (_, branching) = Schema::parse(r#"{"items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}"#).unwrap();
        assert!(branching.check(&json!(["x"])).unwrap_err().starts_with("at `/0`:"));
        assert!(branching.check(&many(json!("x"))).unwrap_err().contains("too large to say where"));
        assert_eq!(branching.check(&many(json!(1))), Ok(()));
    }

    #[test]
    fn reasons_of_branches_are_collected_for_small_values_only() {
        let branches = vec![json!({"required": ["a"]}); 40];
        let schema = Schema::compile(&json!({"items": {"anyOf": branches}})).unwrap();
        let value = Value::from(vec![json!({}); 100_000]);
        let used = allocation_counter::measure(|| assert!(schema.check(&value).is_err()));
        assert!(used.bytes_max < 1 << 20, "{used:?}");
    }

    #[test]
    fn long_chains_of_definitions_overflow_no_stack() {
        let mut defs = serde_json::Map::new();
        for at in 0..15_000 {
            defs.insert(format!("d{at}"), json!({"items": {"$ref": format!("#/$defs/d{}", at + 1)}}));
        }
        defs.insert("d15000".to_owned(), json!({"type": "null"}));
        let chain = json!({"$ref": "#/$defs/d0", "$defs": defs});
        opcell_workers::install();
        // On a stack as small as those of the runtime's threads.
        let check = move || {
            let schema = Schema::compile(&chain).unwrap();
            let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
            assert_eq!(schema.check(&deep), Ok(()));
        };
        std::thread::Builder::new().stack_size(1 << 20).spawn(check).unwrap().join().unwrap();
    }

    #[test]
    fn deep_values_in_deep_schemas_overflow_no_stack() {
        opcell_workers::install();
        let chain = (0..40).fold(json!({"items": {"$ref": "#"}}), |inner, _| json!({"allOf": [inner]}));
        let check = move || {
            let schema = Schema::compile(&chain).unwrap();
            let deep = (0..120).fold(json!(1), |inner, _| json!([inner]));
            assert_eq!(schema.check(&deep), Ok(()));
        };
        std::thread::Builder::new().stack_size(1 << 20).spawn(check).unwrap().join().unwrap();
    }

    #[test]
    fn a_schema_that_is_asked_for_again_is_not_compiled_again() {
        let value = opcell_types::Value::from(json!({"type": "integer", "title": "asked for again"}));
        let first = Schema::shared(&value).unwrap();
        assert!(std::sync::Arc::ptr_eq(&first, &Schema::shared(&value).unwrap()));
        assert!(Schema::shared(&json!({"type": "nothing"}).into()).is_err());
    }

    #[test]
    fn the_problems_of_a_value_are_those_of_its_json_within_the_steps() {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}, "of": {"pattern": "^a"}}});
        let schema = Schema::compile(&schema).unwrap();
        for json in [json!({"n": 1}), json!({"n": 1, "of": "ab"}), json!({"n": "x", "of": "b"}), json!([1])] {
            let problems = schema.problems(&json.clone().into(), 1_000_000, 5);
            assert_eq!(problems, schema.violations(&json, 5), "{json}");
        }
        let refused = schema.problems(&json!({"n": "x"}).into(), 1, 5);
        assert!(refused.len() == 1 && refused[0].contains("too long"), "{refused:?}");
    }

    #[test]
    fn a_pattern_that_is_refused_is_shown_on_one_line() {
        let refused = Schema::compile(&json!({"pattern": "a\\\\\t+\n(?=b)"})).unwrap_err();
        assert!(refused.contains("cannot be used") && !refused.contains(['\t', '\n']), "{refused:?}");
    }

    /// Two hundred and forty patterns and a text that fills what each of them keeps.
    #[test]
    fn what_patterns_keep_is_bounded() {
        let patterns: Vec<Value> = (0..240)
            .map(|at| json!({"pattern": format!("[a-z]*{}[a-z]{{{}}}x", "ab".repeat(at % 7 + 1), at % 40 + 3)}))
            .collect();
        let schema = Schema::compile(&json!({"allOf": [{"not": {"anyOf": patterns}}]})).unwrap();
        let mut state = 12_345_u32;
        let text: String = (0..20_000)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 17;
                state ^= state << 5;
                if state & 1 == 0 { 'a' } else { 'b' }
            })
            .collect();
        let value = json!(text);
        let used = allocation_counter::measure(|| drop(schema.check(&value)));
        assert!(used.bytes_current < 40 << 20, "{used:?}");
    }
}
