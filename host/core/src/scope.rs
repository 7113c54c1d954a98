//! The values that a step can refer to, as the functions of the IR request them.

use crate::state::{Accepted, Instance, Raw};
use opcell_ir::{
    expr::{Context, ExprError, Expression},
    interpolate::{self, Interpolation},
    ir::{Printing, References, Step, ValueSpec, Yields},
    print, reference,
    resolve::{self, ResolveError, Scope},
};
use opcell_types::{
    Value,
    value::{Map, Object, Shape},
};
use std::sync::Arc;

static UNDEFINED: Value = Value::Undefined;

/// The view of one step, or of one element of it.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub instance: &'a Instance,
    pub artifacts: &'a Map,
    item: Option<(&'a Value, usize)>,
    result: &'a Value,
}

impl<'a> View<'a> {
    pub fn new(instance: &'a Instance, artifacts: &'a Map, item: Option<(&'a Value, usize)>) -> Self {
        Self { instance, artifacts, item, result: &UNDEFINED }
    }

    /// The same with an executor's result.
    pub fn with_result(self, result: &'a Value) -> Self {
        Self { result, ..self }
    }

    pub fn context(&self) -> Context<'a> {
        let context = Context::new(&self.instance.inputs, &self.instance.outputs).with_result(self.result);
        match self.item {
            Some((item, index)) => context.with_item(item, index),
            None => context,
        }
    }

    /// Returns the scope of references by path.
    pub fn paths(&self) -> reference::Scope<'a> {
        reference::Scope { input: &self.instance.input, steps: &self.instance.outputs }
    }

    /// A single value; a failure as the sequential lifecycle words it, without its place.
    pub fn value(&self, spec: &ValueSpec) -> Result<Value, ResolveError> {
        resolve::value(spec, self)
    }

    fn accepted(&self, step: &str) -> Option<(&'a Step, &'a Accepted)> {
        let index = self.instance.program.index(step)?;
        let accepted = self.instance.memory.get(index as usize)?.accepted.as_ref()?;
        Some((self.instance.program.step(index)?, accepted))
    }
}

fn failed(text: &str, error: ExprError) -> ResolveError {
    ResolveError::Expression { text: text.to_owned(), problem: error.message }
}

impl Scope for View<'_> {
    fn input(&self) -> &Value {
        match &self.instance.input {
            // With the defaults of what is declared and was not given.
            Value::Object(_) => &self.instance.inputs,
            input => input,
        }
    }

    fn original(&self) -> &Value {
        &self.instance.original
    }

    fn handover(&self) -> Value {
        let mut fields = self.instance.input.as_object().map(Object::to_map).unwrap_or_default();
        let said = self.instance.log.last_of_user();
        let said = said.map(|message| message.content.as_str()).or(self.instance.input.as_str());
        match said.map(|said| (said, Value::from_json(said))) {
            Some((_, Ok(Value::Object(entries)))) => {
                fields.extend(entries.iter().map(|(name, value)| (name.clone(), value.clone())));
            }
            Some((said, _)) => drop(fields.insert("text".into(), Value::from(said))),
            None => {}
        }
        Value::from(fields)
    }

    fn output(&self, step: &str, prompt: Option<&str>, key: &str) -> Option<Value> {
        let accepted = self.accepted(step).filter(|(_, accepted)| !matches!(accepted.raw, Raw::Nothing));
        accepted.map(|(step, accepted)| accepted.output(step, prompt, key))
    }

    fn yielded(&self, step: &str, field: &str) -> Option<Value> {
        let accepted = self.accepted(step).filter(|(_, accepted)| !matches!(accepted.raw, Raw::Nothing));
        accepted.map(|(step, accepted)| accepted.yielded(step, field))
    }

    fn yields(&self, step: &str) -> Option<&'static str> {
        match self.accepted(step)? {
            (Step { yields: Some(Yields::Delegated) | None, .. }, Accepted { raw: Raw::Delegate(end), .. }) => {
                Some(if end.is_text { "text" } else { "data" })
            }
            _ => None,
        }
    }

    fn artifact(&self, name: &str) -> Option<Value> {
        self.artifacts.get(name).cloned()
    }

    fn is_structured(&self, step: &str, key: &str) -> bool {
        let declared = self.instance.program.index(step).and_then(|index| self.instance.program.step(index));
        declared.and_then(|step| step.outputs.get(key)).is_some_and(|spec| spec.structured.is_some())
    }

    fn print(&self, value: &Value) -> String {
        match self.instance.program.ir().dialect.printing {
            Printing::Edn => print::edn(value),
            Printing::Javascript => interpolate::stringify(value).into_owned(),
            Printing::Go => print::json(value),
        }
    }

    fn expression(&self, expression: &Expression) -> Result<Value, ResolveError> {
        expression.evaluate(&self.context()).map_err(|error| failed(expression.text(), error))
    }

    fn interpolation(&self, text: &Interpolation) -> Result<Value, ResolveError> {
        if self.instance.program.ir().dialect.references == References::Paths {
            return Ok(reference::resolve(text.text(), self.paths())?);
        }
        text.resolve(&self.context()).map_err(|error| failed(text.text(), error))
    }
}

/// Named values, as the arguments of a call; an error names the argument. `shape`: their names, where they are known.
pub(crate) fn arguments(
    view: &View<'_>,
    specs: &indexmap::IndexMap<Arc<str>, ValueSpec>,
    shape: Option<&Shape>,
) -> Result<Value, (Arc<str>, ResolveError)> {
    let mut made = resolve::ValueBudget::default();
    let mut value = |(name, spec): (&Arc<str>, &ValueSpec)| {
        view.value(spec).and_then(|value| made.counted(spec, value)).map_err(|error| (name.clone(), error))
    };
    let shape = shape.filter(|shape| shape.len() == specs.len());
    Ok(Value::Object(match (shape, specs.first()) {
        (Some(shape), Some(only)) if specs.len() == 1 => Object::of_slots(shape.clone(), [value(only)?]),
        (Some(shape), _) => Object::of_shape(shape.clone(), specs.iter().map(&mut value).collect::<Result<_, _>>()?),
        (None, _) => {
            let entries = specs.iter().map(|spec| Ok((spec.0, value(spec)?)));
            entries.collect::<Result<_, (Arc<str>, ResolveError)>>()?
        }
    }))
}
