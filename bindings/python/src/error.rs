//! Errors as the exceptions of the package.

use crate::value;
use opcell::Value;
use opcell_bindings::error::Raised;
use pyo3::{
    exceptions::{PyRuntimeError, PyTypeError},
    prelude::*,
};

/// Makes an exception of the package: `_errors.make(kind, fields)` chooses the class.
pub(crate) fn exception(py: Python<'_>, raised: &Raised) -> PyErr {
    let made = |fields: &Value| -> PyResult<PyErr> {
        let fields = value::to_python(py, fields)?;
        Ok(PyErr::from_value(py.import("opcell._errors")?.getattr("make")?.call1((raised.kind, fields))?))
    };
    made(&raised.fields).unwrap_or_else(|error| error)
}

/// An exception of a code and a message.
pub(crate) fn plain(kind: &'static str, code: &str, message: &str) -> PyErr {
    let made = Python::try_attach(|py| exception(py, &Raised::new(kind, code, message)));
    made.unwrap_or_else(|| PyRuntimeError::new_err(message.to_owned()))
}

/// A value of the caller's that is not JSON.
pub(crate) fn unfit(what: &str, problem: &str) -> PyErr {
    PyTypeError::new_err(format!("{what}: {problem}"))
}
