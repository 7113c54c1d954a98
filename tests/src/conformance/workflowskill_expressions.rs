//! WorkflowSkill's expressions: single cases, the table of operators, and generated expressions.

use super::{
    Adapter, Failure, Outcome, cases, check,
    encoding::{decode, same, show},
    field, first_case, text,
};
use opcell_ir::{
    expr::{Context, ExprError, Expression},
    interpolate::{Interpolation, stringify},
};
use opcell_types::Value;

/// `{contexts, cases: [{fn, expression, outcome, …}]}`
pub(super) const EXPRESSIONS: Adapter = Adapter {
    name: "WorkflowSkill expressions",
    recognizes: |document| {
        first_case(document).is_some_and(|case| case.get("fn").is_some() && case.get("outcome").is_some())
    },
    run: expressions,
};

/// `{names, context, not, ops: [{op, rows}]}`
pub(super) const OPERATOR_MATRIX: Adapter = Adapter {
    name: "WorkflowSkill operator matrix",
    recognizes: |document| document.get("ops").is_some() && document.get("names").is_some(),
    run: operator_matrix,
};

/// `{cases: [{e, o, v?, err?}]}`, in context A of the expression cases.
pub(super) const FUZZ: Adapter = Adapter {
    name: "WorkflowSkill expression fuzz",
    recognizes: |document| first_case(document).is_some_and(|case| case.get("e").is_some() && case.get("o").is_some()),
    run: fuzz,
};

/// A context as a case writes it, which borrows nothing.
struct Owned {
    inputs: Value,
    steps: Value,
    item: Value,
    index: Option<usize>,
    result: Value,
}

impl Owned {
    fn of(context: &Value) -> Self {
        let part = |key: &str| context.get(key).map_or(Value::Undefined, decode);
        let index = match context.get("index") {
            Some(Value::Number(n)) => n.as_u64().and_then(|n| usize::try_from(n).ok()),
            _ => None,
        };
        let object = |key: &str| context.get(key).map_or_else(|| Value::object::<&str>([]), decode);
        Self { inputs: object("inputs"), steps: object("steps"), item: part("item"), index, result: part("result") }
    }

    fn borrow(&self) -> Context<'_> {
        Context {
            inputs: &self.inputs,
            steps: &self.steps,
            item: &self.item,
            index: self.index,
            result: &self.result,
            work: None,
        }
    }
}

fn show_result(result: &Result<Value, ExprError>) -> String {
    match result {
        Ok(value) => show(value),
        Err(error) => show_error(error.kind.name(), &error.message, error.position),
    }
}

fn show_error(name: &str, message: &str, position: Option<usize>) -> String {
    match position {
        Some(position) => format!("{name} at {position}: {message}"),
        None => format!("{name}: {message}"),
    }
}

fn position_of(value: Option<&Value>) -> Option<usize> {
    match value {
        Some(Value::Number(n)) => n.as_u64().and_then(|n| usize::try_from(n).ok()),
        _ => None,
    }
}

fn expect_value(expected: &Value, result: &Result<Value, ExprError>) -> Result<(), Failure> {
    check(result.as_ref().is_ok_and(|value| same(value, expected)), show(expected), show_result(result))
}

fn expect_error(
    name: &str,
    message: Option<&str>,
    position: Option<usize>,
    result: &Result<Value, ExprError>,
) -> Result<(), Failure> {
    let matches = result.as_ref().is_err_and(|error| {
        error.kind.name() == name
            && error.position == position
            && message.is_none_or(|message| error.message == message)
    });
    check(matches, show_error(name, message.unwrap_or("(any message)"), position), show_result(result))
}

fn expressions(document: &Value) -> Result<Vec<Outcome>, String> {
    let empty = Value::object::<&str>([]);
    cases(document)?
        .iter()
        .map(|case| {
            let context = match (case.get("context"), case.get("context_ref").and_then(Value::as_str)) {
                (Some(context), _) => context,
                (None, Some(name)) => document
                    .get("contexts")
                    .and_then(|all| all.get(name))
                    .ok_or_else(|| format!("there is no context `{name}`"))?,
                (None, None) => &empty,
            };
            let context = Owned::of(context);
            let result = match text(case, "fn")? {
                "resolveExpression" => Expression::new(text(case, "expression")?).evaluate(&context.borrow()),
                "resolveTemplate" => Interpolation::new(text(case, "expression")?).resolve(&context.borrow()),
                "containsTemplate" => Ok(Value::Bool(Interpolation::is_in(text(case, "expression")?))),
                "stringify" => Ok(stringify(&decode(field(case, "arg")?)).into_owned().into()),
                other => return Err(format!("there is no function `{other}`")),
            };
            let outcome = match text(case, "outcome")? {
                "value" => expect_value(&decode(field(case, "value")?), &result),
                "undefined" => expect_value(&Value::Undefined, &result),
                _ => {
                    let error = field(case, "error")?;
                    let message =
                        if error.get("lossy_message").is_some() { None } else { Some(text(error, "message")?) };
                    expect_error(text(error, "name")?, message, position_of(error.get("position")), &result)
                }
            };
            Ok(Outcome::new(text(case, "id")?, outcome))
        })
        .collect()
}

fn operator_matrix(document: &Value) -> Result<Vec<Outcome>, String> {
    let context = Owned::of(field(document, "context")?);
    let names: Vec<&str> =
        field(document, "names")?.as_array().unwrap_or_default().iter().filter_map(Value::as_str).collect();
    let evaluate = |expression: String, expected: bool| {
        let result = Expression::new(expression.as_str()).evaluate(&context.borrow());
        Outcome::new(expression, expect_value(&Value::Bool(expected), &result))
    };
    let mut outcomes = Vec::new();
    for (name, expected) in field(document, "not")?.as_object().into_iter().flatten() {
        outcomes.push(evaluate(format!("!$inputs.{name}"), matches!(expected, Value::Number(n) if n.as_f64() == 1.0)));
    }
    for operator in field(document, "ops")?.as_array().unwrap_or_default() {
        let symbol = text(operator, "op")?;
        for (left, row) in field(operator, "rows")?.as_object().into_iter().flatten() {
            for (right, cell) in names.iter().zip(row.as_str().unwrap_or_default().chars()) {
                outcomes.push(evaluate(format!("$inputs.{left} {symbol} $inputs.{right}"), cell == '1'));
            }
        }
    }
    Ok(outcomes)
}

/// The context that generated expressions run in is in the file of single cases.
const EXPRESSION_CASES: &str = include_str!("../../conformance/workflowskill/expressions.json");

fn fuzz(document: &Value) -> Result<Vec<Outcome>, String> {
    let single_cases = Value::from_json(EXPRESSION_CASES).map_err(|error| error.to_string())?;
    let context = document.get("contexts").or_else(|| single_cases.get("contexts")).and_then(|all| all.get("A"));
    let context = Owned::of(context.ok_or("there is no context A")?);
    cases(document)?
        .iter()
        .enumerate()
        .map(|(index, case)| {
            let expression = text(case, "e")?;
            let result = Expression::new(expression).evaluate(&context.borrow());
            let outcome = match text(case, "o")? {
                "v" => expect_value(&decode(field(case, "v")?), &result),
                "u" => expect_value(&Value::Undefined, &result),
                _ => match field(case, "err")?.as_array() {
                    Some([Value::String(name), Value::String(message), position @ ..]) => {
                        // Half of a surrogate pair is written as U+FFFD.
                        let message =
                            Some(message.as_ref()).filter(|message| !message.contains(char::REPLACEMENT_CHARACTER));
                        expect_error(name, message, position_of(position.first()), &result)
                    }
                    _ => return Err("`err` is not [name, message, position]".to_owned()),
                },
            };
            Ok(Outcome::new(format!("{index}: {expression}"), outcome))
        })
        .collect()
}
