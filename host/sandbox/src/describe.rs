//! A plugin's description of what it offers, checked before anything is built on it.

use crate::bindings::exports::opcell::plugin0_1_0::{judges, operations};
use opcell_schema::Schema;
use opcell_types::{Effects, OperationId, Outcome, text::printable};
use serde::Serialize;
use serde_json::Value;
use std::{collections::HashSet, sync::Arc};

/// Operations or judges that one plugin may offer.
const MAX_ENTRIES: usize = 256;

/// Functions of one component that become operations: generated bindings export more than people describe.
pub(crate) const MAX_FUNCTIONS: usize = 1_024;

/// Longest id of an operation or judge, in bytes.
const MAX_ID: usize = 129;

/// Bytes of schemas that one plugin may bring.
const MAX_SCHEMAS: usize = 2 << 20;

/// The description of an operation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct OperationDescription {
    /// The id that it is called by.
    pub id: OperationId,
    /// One sentence.
    pub summary: String,
    /// JSON Schema 2020-12.
    pub arguments_schema: Value,
    /// JSON Schema 2020-12.
    pub data_schema: Value,
    /// The effect of repeating it.
    pub effects: Effects,
}

impl From<judges::Outcome> for Outcome {
    fn from(outcome: judges::Outcome) -> Self {
        match outcome {
            judges::Outcome::Text(text) => Self::Text(text.into()),
            judges::Outcome::Keyword(name) => Self::Keyword(name.into()),
        }
    }
}

/// The description of a judge.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct JudgeDescription {
    /// The id that it is called by.
    pub id: OperationId,
    /// One sentence.
    pub summary: String,
    /// JSON Schema 2020-12.
    pub arguments_schema: Value,
    /// Every outcome that it can produce; empty when it cannot list them.
    pub outcomes: Arc<[Outcome]>,
}

/// The compiled schemas of one operation.
#[derive(Debug)]
pub(crate) struct OperationSchemas {
    pub(crate) arguments: Arc<Schema>,
    pub(crate) data: Arc<Schema>,
}

/// Checks what `operations.describe` returned.
pub(crate) fn operations(
    described: Vec<operations::OperationDescription>,
) -> Result<(Vec<OperationDescription>, Vec<OperationSchemas>), String> {
    entries(described, MAX_ENTRIES)
}

/// The same for the functions of a component that was not written for Opcell.
pub(crate) fn functions(
    described: Vec<operations::OperationDescription>,
) -> Result<(Vec<OperationDescription>, Vec<OperationSchemas>), String> {
    entries(described, MAX_FUNCTIONS)
}

fn entries(
    described: Vec<operations::OperationDescription>,
    most: usize,
) -> Result<(Vec<OperationDescription>, Vec<OperationSchemas>), String> {
    let ids = ids(described.iter().map(|operation| operation.id.as_str()), most)?;
    check_size(described.iter().map(|operation| operation.arguments_schema.len() + operation.data_schema.len()))?;
    let mut descriptions = Vec::with_capacity(described.len());
    let mut schemas = Vec::with_capacity(described.len());
    for (id, operation) in ids.into_iter().zip(described) {
        let of = |which: &str, error: String| format!("{which} of `{id}`: {error}");
        let (arguments_schema, arguments) =
            Schema::parse(&operation.arguments_schema).map_err(|error| of("arguments schema", error))?;
        let (data_schema, data) = Schema::parse(&operation.data_schema).map_err(|error| of("data schema", error))?;
        schemas.push(OperationSchemas { arguments: Arc::new(arguments), data: Arc::new(data) });
        Schema::check_total(schemas.iter().flat_map(|both| [&*both.arguments, &*both.data]))?;
        descriptions.push(OperationDescription {
            id,
            summary: printable(&operation.summary, 1_000),
            arguments_schema,
            data_schema,
            effects: match operation.effects {
                operations::Effects::Pure => Effects::Pure,
                operations::Effects::Idempotent => Effects::Idempotent,
                operations::Effects::Once => Effects::Once,
            },
        });
    }
    Ok((descriptions, schemas))
}

/// Checks what `judges.describe` returned.
pub(crate) fn judges(
    described: Vec<judges::JudgeDescription>,
) -> Result<(Vec<JudgeDescription>, Vec<Arc<Schema>>), String> {
    let ids = ids(described.iter().map(|judge| judge.id.as_str()), MAX_ENTRIES)?;
    check_size(described.iter().map(|judge| judge.arguments_schema.len()))?;
    let mut descriptions = Vec::with_capacity(described.len());
    let mut schemas = Vec::with_capacity(described.len());
    for (id, judge) in ids.into_iter().zip(described) {
        let (arguments_schema, arguments) =
            Schema::parse(&judge.arguments_schema).map_err(|error| format!("arguments schema of `{id}`: {error}"))?;
        let outcomes: Vec<Outcome> = judge.outcomes.into_iter().map(Outcome::from).collect();
        let mut seen = HashSet::new();
        if let Some(twice) = outcomes.iter().find(|outcome| !seen.insert(*outcome)) {
            return Err(format!("judge `{id}` declares the outcome {} twice", printable(&twice.to_string(), 100)));
        }
        for outcome in &outcomes {
            check_outcome(outcome).map_err(|error| format!("judge `{id}`: {error}"))?;
        }
        schemas.push(Arc::new(arguments));
        Schema::check_total(schemas.iter().map(|schema| &**schema))?;
        descriptions.push(JudgeDescription {
            id,
            summary: printable(&judge.summary, 1_000),
            arguments_schema,
            outcomes: outcomes.into(),
        });
    }
    Ok((descriptions, schemas))
}

/// Longest outcome: it is a name that workflows route by.
const OUTCOME_BYTES: usize = 256;

/// Checks that an outcome is one that people and models may be shown as it is.
pub(crate) fn check_outcome(outcome: &Outcome) -> Result<(), String> {
    let (Outcome::Text(text) | Outcome::Keyword(text)) = outcome;
    if text.len() > OUTCOME_BYTES {
        return Err(format!("an outcome has {} bytes, more than {OUTCOME_BYTES}", text.len()));
    }
    if *printable(text, usize::MAX) != **text {
        return Err(format!("the outcome `{}` has characters that cannot be seen", printable(text, 100)));
    }
    Ok(())
}

fn ids<'a>(described: impl ExactSizeIterator<Item = &'a str>, most: usize) -> Result<Vec<OperationId>, String> {
    if described.len() > most {
        return Err(format!("it describes {} entries; at most {most} are allowed", described.len()));
    }
    let mut seen = HashSet::new();
    let mut ids = Vec::with_capacity(described.len());
    for id in described {
        ids.push(id.parse::<OperationId>().map_err(|error| error.to_string())?);
        if id.len() > MAX_ID {
            return Err(format!("the id `{}` is longer than {MAX_ID} bytes", printable(id, MAX_ID)));
        }
        if !seen.insert(id) {
            return Err(format!("`{id}` is listed twice"));
        }
    }
    Ok(ids)
}

fn check_size(schemas: impl Iterator<Item = usize>) -> Result<(), String> {
    let bytes: usize = schemas.sum();
    if bytes > MAX_SCHEMAS {
        return Err(format!("its schemas have {bytes} bytes together, more than {MAX_SCHEMAS}"));
    }
    Ok(())
}
