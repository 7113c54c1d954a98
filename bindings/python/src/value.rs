//! Python objects as JSON values, and back.
//!
//! No Python code runs here: the types are read as the interpreter stores them, whatever methods a subclass has, so
//! that nothing changes while it is read.

use opcell::Value;
use opcell::layers::types::value::{MAX_BYTES, MAX_DEPTH, NumberKind};
use pyo3::{
    prelude::*,
    types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple},
};

/// Bytes that the smallest value counts: parts that are shared count wherever they appear.
const NODE_BYTES: u64 = 16;

/// Returns the JSON value of an object: `None`, `bool`, `int`, `float`, `str`, `list`, `tuple` or `dict`.
///
/// # Errors
/// With the problem: another type, a key that is not a text, a number or a text that JSON does not have, too deep, or
/// too large.
pub(crate) fn from_python(object: &Bound<'_, PyAny>) -> Result<Value, String> {
    Reader { left: MAX_BYTES }.read(object, 0)
}

struct Reader {
    /// Bytes that may still be read.
    left: u64,
}

impl Reader {
    fn take(&mut self, bytes: u64) -> Result<(), String> {
        self.left = self
            .left
            .checked_sub(bytes.saturating_add(NODE_BYTES))
            .ok_or_else(|| format!("it is larger than {} MiB", MAX_BYTES >> 20))?;
        Ok(())
    }

    fn text(&mut self, text: &Bound<'_, PyString>) -> Result<Value, String> {
        let text = text.to_str().map_err(|_| "a text has a surrogate, which JSON does not have".to_owned())?;
        self.take(text.len() as u64)?;
        Ok(Value::from(text))
    }

    fn read(&mut self, object: &Bound<'_, PyAny>, depth: u32) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err(format!("it is nested more than {MAX_DEPTH} levels deep, or contains itself"));
        }
        if let Ok(text) = object.cast::<PyString>() {
            return self.text(text);
        }
        self.take(0)?;
        if object.is_none() {
            return Ok(Value::Null);
        }
        if let Ok(flag) = object.cast::<PyBool>() {
            return Ok(Value::Bool(flag.is_true()));
        }
        if let Ok(number) = object.cast::<PyInt>() {
            let signed = number.extract::<i64>().map(Value::from);
            return signed
                .or_else(|_| number.extract::<u64>().map(Value::from))
                .map_err(|_| "an int has more than 64 bits".to_owned());
        }
        if let Ok(number) = object.cast::<PyFloat>() {
            let number = number.value();
            return match number.is_finite() {
                true => Ok(Value::from(number)),
                false => Err(format!("JSON has no {number}")),
            };
        }
        if let Ok(entries) = object.cast::<PyDict>() {
            let mut read = Vec::with_capacity(entries.len().min(1_024));
            for (key, entry) in entries.iter() {
                let Ok(key) = key.cast::<PyString>() else {
                    return Err(format!("a key is a `{}` and not a str", type_name(&key)));
                };
                let Value::String(key) = self.text(key)? else { continue };
                read.push((key, self.read(&entry, depth.saturating_add(1))?));
            }
            return Ok(Value::object(read));
        }
        if let Ok(items) = object.cast::<PyList>() {
            return self.items(items.iter(), depth);
        }
        if let Ok(items) = object.cast::<PyTuple>() {
            return self.items(items.iter(), depth);
        }
        Err(format!("a `{}` is not JSON; give None, bool, int, float, str, list, tuple or dict", type_name(object)))
    }

    fn items<'py>(&mut self, items: impl Iterator<Item = Bound<'py, PyAny>>, depth: u32) -> Result<Value, String> {
        let items = items.map(|item| self.read(&item, depth.saturating_add(1)));
        Ok(Value::from(items.collect::<Result<Vec<_>, _>>()?))
    }
}

/// The name of an object's type, for messages.
fn type_name(object: &Bound<'_, PyAny>) -> String {
    let name = object.get_type().name().ok();
    opcell::layers::types::text::one_line(name.as_ref().and_then(|name| name.to_str().ok()).unwrap_or("?"), 100)
}

/// Returns the Python object of a value.
///
/// # Errors
/// When the interpreter is out of memory.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Undefined | Value::Null => py.None().into_bound(py),
        Value::Bool(flag) => PyBool::new(py, *flag).to_owned().into_any(),
        Value::Number(number) => match number.kind() {
            NumberKind::Integer(number) => number.into_pyobject(py)?.into_any(),
            NumberKind::Unsigned(number) => number.into_pyobject(py)?.into_any(),
            NumberKind::Float(number) => PyFloat::new(py, number).into_any(),
        },
        Value::String(text) => PyString::new(py, text.as_str()).into_any(),
        Value::Array(items) => {
            let list = PyList::empty(py);
            for item in items.iter() {
                list.append(to_python(py, item)?)?;
            }
            list.into_any()
        }
        Value::Object(entries) => {
            let dict = PyDict::new(py);
            for (key, entry) in entries.iter().filter(|(_, entry)| !matches!(entry, Value::Undefined)) {
                dict.set_item(key.as_str(), to_python(py, entry)?)?;
            }
            dict.into_any()
        }
    })
}
