//! Model queries: `require` filters the catalogue, `prefer` ranks the rest (psi's model selection).

use opcell_ir::ir::ModelQuery;
use opcell_types::Value;
use opcell_types::suggest::hint;
use std::cmp::Ordering;
use thiserror::Error;

/// The criteria of a query, each a configured attribute of a model.
pub const CRITERIA: [&str; 16] = [
    "provider",
    "id",
    "name",
    "api",
    "configured",
    "supports-text",
    "supports-images",
    "supports-reasoning",
    "supports-json-schema",
    "context-window",
    "max-tokens",
    "latency-tier",
    "cost-tier",
    "locality",
    "input-cost",
    "output-cost",
];

const OPERATORS: [&str; 5] = ["match", "equals", "one-of", "at-least", "at-most"];

/// A clause that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum QueryError {
    /// Neither a name nor an object with a criterion.
    #[error(
        "a model query's clause must be a criterion's name or an object such as {{\"criterion\": \"cost-tier\", \"one-of\": [\"zero\", \"low\"]}}, got {0}"
    )]
    Shape(String),
    /// No such criterion.
    #[error("there is no model criterion `{name}`; there are: {}{hint}", CRITERIA.join(", "))]
    Criterion {
        /// The name as it is written.
        name: String,
        /// "; did you mean …", or empty.
        hint: String,
    },
    /// No such operator.
    #[error("a model query's clause has no key `{key}`; it has: criterion, prefer, {}{hint}", OPERATORS.join(", "))]
    Operator {
        /// The key as it is written.
        key: String,
        /// "; did you mean …", or empty.
        hint: String,
    },
    /// A preference for neither less nor more.
    #[error("`prefer` of a model query's clause must be `lower` or `higher`, got {0}")]
    Direction(String),
}

/// A model as queries see it.
pub(super) trait Attributes {
    /// An attribute by its criterion's name; `None` when it is unknown.
    fn attribute(&self, criterion: &str) -> Option<Value>;
}

/// Returns the models that pass, best first; equal ones keep their order.
pub(super) fn rank<'a, M: Attributes>(query: &ModelQuery, models: &'a [M]) -> Result<Vec<&'a M>, QueryError> {
    let required = query.require.iter().map(Clause::parse).collect::<Result<Vec<_>, _>>()?;
    let preferred = query.prefer.iter().map(Clause::parse).collect::<Result<Vec<_>, _>>()?;
    let mut passed: Vec<_> = models.iter().filter(|model| required.iter().all(|clause| clause.holds(*model))).collect();
    passed.sort_by(|a, b| {
        preferred.iter().map(|clause| clause.compare(*a, *b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    Ok(passed)
}

#[derive(Debug)]
struct Clause<'a> {
    criterion: &'a str,
    tests: Vec<(&'a str, &'a Value)>,
    direction: Option<Direction>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Lower,
    Higher,
}

impl<'a> Clause<'a> {
    fn parse(clause: &'a Value) -> Result<Self, QueryError> {
        let shape = || QueryError::Shape(clause.to_json());
        if let Some(name) = clause.as_str() {
            return Ok(Self { criterion: known(name)?, tests: Vec::new(), direction: None });
        }
        let entries = clause.as_object().ok_or_else(shape)?;
        let mut criterion = None;
        let mut tests = Vec::new();
        let mut direction = None;
        for (key, value) in entries {
            match key.as_ref() {
                // psi reads `:attribute` as well.
                "criterion" | "attribute" => criterion = Some(known(value.as_str().ok_or_else(shape)?)?),
                "prefer" => {
                    direction = Some(match value.as_str() {
                        Some("lower") => Direction::Lower,
                        Some("higher") => Direction::Higher,
                        _ => return Err(QueryError::Direction(value.to_json())),
                    });
                }
                operator if OPERATORS.contains(&operator) => tests.push((operator, value)),
                other => {
                    let hint = hint(other, OPERATORS.iter().copied().chain(["criterion", "prefer"]));
                    return Err(QueryError::Operator { key: other.to_owned(), hint });
                }
            }
        }
        Ok(Self { criterion: criterion.ok_or_else(shape)?, tests, direction })
    }

    /// Without a test, the attribute must be there and not be false.
    fn holds(&self, model: &impl Attributes) -> bool {
        let value = model.attribute(self.criterion);
        if self.tests.is_empty() {
            return value.is_some_and(|value| !value.is_nullish() && value != Value::Bool(false));
        }
        self.tests.iter().all(|(operator, expected)| {
            let Some(value) = &value else { return false };
            match *operator {
                "match" => match expected.as_str() {
                    Some("true") => *value == Value::Bool(true),
                    Some("false") => *value == Value::Bool(false),
                    _ => value == *expected,
                },
                "one-of" => expected.as_array().is_some_and(|values| values.contains(value)),
                "at-least" => number(value).zip(number(expected)).is_some_and(|(value, least)| value >= least),
                "at-most" => number(value).zip(number(expected)).is_some_and(|(value, most)| value <= most),
                _ => value == *expected,
            }
        })
    }

    /// With a direction: by value, the unknown last. Otherwise: what holds first.
    fn compare(&self, a: &impl Attributes, b: &impl Attributes) -> Ordering {
        let Some(direction) = self.direction else { return self.holds(b).cmp(&self.holds(a)) };
        let rank = |model: &dyn Attributes| model.attribute(self.criterion).and_then(|value| self.level(&value));
        match (rank(a), rank(b)) {
            (Some(a), Some(b)) if direction == Direction::Lower => a.total_cmp(&b),
            (Some(a), Some(b)) => b.total_cmp(&a),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        }
    }

    fn level(&self, value: &Value) -> Option<f64> {
        let tiers: &[&str] = match self.criterion {
            "latency-tier" => &["low", "medium", "high"],
            "cost-tier" => &["zero", "low", "medium", "high"],
            _ => return number(value).or_else(|| Some(f64::from(u8::from(*value == Value::Bool(true))))),
        };
        let tier = value.as_str()?;
        tiers.iter().zip([0.0, 1.0, 2.0, 3.0]).find(|(name, _)| **name == tier).map(|(_, level)| level)
    }
}

/// psi writes predicates with a question mark (`:configured?`).
fn known(name: &str) -> Result<&str, QueryError> {
    let plain = name.strip_suffix('?').unwrap_or(name);
    let all = || CRITERIA.into_iter();
    match all().any(|known| known == plain) {
        true => Ok(plain),
        false => Err(QueryError::Criterion { name: name.to_owned(), hint: hint(plain, all()) }),
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => Some(number.as_f64()),
        _ => None,
    }
}
