//! The patterns of a schema, weighed: each becomes an automaton that takes memory for as long as it is kept, and that
//! may have to look at every one of its states for every byte of a text.

use regex_automata::nfa::thompson::{Compiler, Config};
use serde_json::Value;
use std::collections::HashMap;

/// Largest automaton of one pattern, in bytes.
pub(crate) const MAX_PATTERN_BYTES: usize = 1 << 20;

/// States of all automata of one schema, or of all schemas of one plugin or document: some hundred bytes each, at worst
/// two thousand.
pub(crate) const MAX_STATES: u64 = 100_000;

/// The number of states that even the simplest pattern takes: with it, no plugin or document has more than 250
/// patterns.
const MIN_STATES: u64 = 400;

/// The states that are made while matching, kept by every pattern for every thread that matches it, in bytes. A pattern
/// that needs more is matched without keeping them.
pub(crate) const LAZY_BYTES: usize = 64 << 10;

/// The reason for patterns that only backtracking matches, and what to do.
const UNBOUNDED: &str =
    "it is not a regular expression that is matched in linear time; write it without lookaround and back-references";

/// The states of every pattern in a schema, wherever it stands and whether or not anything refers to it.
#[derive(Debug, Default)]
pub(crate) struct Patterns<'a>(HashMap<&'a str, u64>);

impl<'a> Patterns<'a> {
    /// Finds and weighs them, without recursion; the second is their weight together.
    pub(crate) fn of(schema: &'a Value) -> Result<(Self, u64), String> {
        let mut patterns = Self::default();
        let mut total = 0;
        let mut left = vec![schema];
        while let Some(value) = left.pop() {
            match value {
                Value::Array(list) => left.extend(list),
                Value::Object(map) => {
                    left.extend(map.values());
                    let one = map.get("pattern").and_then(Value::as_str);
                    let keys = map.get("patternProperties").and_then(Value::as_object);
                    for pattern in
                        one.into_iter().chain(keys.into_iter().flat_map(|map| map.keys().map(String::as_str)))
                    {
                        total += patterns.weigh(pattern)?;
                        check_total(total)?;
                    }
                }
                _ => {}
            }
        }
        Ok((patterns, total))
    }

    /// The states of a pattern of this schema.
    pub(crate) fn states(&self, pattern: &str) -> u64 {
        self.0.get(pattern).copied().unwrap_or(0)
    }

    /// The states that a pattern counts as against the limit.
    pub(crate) fn weigh(&mut self, pattern: &'a str) -> Result<u64, String> {
        Ok(self.cost_of(pattern)?.max(MIN_STATES))
    }

    fn cost_of(&mut self, pattern: &'a str) -> Result<u64, String> {
        if let Some(states) = self.0.get(pattern) {
            return Ok(*states);
        }
        let refused = |why: String| {
            let shown = opcell_types::text::one_line(pattern, 200);
            format!("the pattern `{shown}` cannot be used: {why}")
        };
        let translated = jsonschema_regex::to_rust_regex(pattern).map_err(|()| refused(UNBOUNDED.to_owned()))?;
        let nfa = Compiler::new()
            .configure(Config::new().nfa_size_limit(Some(MAX_PATTERN_BYTES)))
            .build(&translated)
            .map_err(|error| {
            refused(match error.size_limit() {
                Some(_) => format!(
                    "it takes more than {} KiB of memory; write it with smaller counts and fewer classes",
                    MAX_PATTERN_BYTES >> 10
                ),
                None => UNBOUNDED.to_owned(),
            })
        })?;
        let states = nfa.states().len() as u64;
        self.0.insert(pattern, states);
        Ok(states)
    }
}

/// Checks whether this number of states may be kept.
pub(crate) fn check_total(states: u64) -> Result<(), String> {
    if states > MAX_STATES {
        return Err(format!("its patterns together need more than {MAX_STATES} states; use fewer or simpler ones"));
    }
    Ok(())
}
