//! Exceptions. Their classes are Python's, in `seamstream.errors`, one for both backends.

use crate::raw::{Object, Raised, held};
use pyo3::exceptions::{PyMemoryError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// The exception `seamstream.errors.<name>(*args)`, or the error of making it.
pub(crate) fn new<'py>(
    py: Python<'py>,
    name: &str,
    args: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
) -> PyErr {
    let made = || -> PyResult<PyErr> {
        let class = py.import("seamstream.errors")?.getattr(name)?;
        Ok(PyErr::from_value(class.call1(args.into_pyobject(py)?)?))
    };
    made().unwrap_or_else(|error| error)
}

pub(crate) fn state(py: Python<'_>, message: &str) -> PyErr {
    new(py, "StreamStateError", (message,))
}

pub(crate) fn busy(py: Python<'_>) -> PyErr {
    state(py, "the decoder is in use by another call")
}

/// Why a parser stopped, as an exception; a sink's error is taken from the indicator.
pub(crate) fn from_core(
    py: Python<'_>,
    error: seamstream::sse::Error<Raised>,
    limit: usize,
) -> PyErr {
    use seamstream::sse::Error;
    match error {
        Error::Limit { offset } => {
            new(py, "LimitExceededError", (limit, limit.saturating_add(1), offset))
        }
        Error::OutOfMemory => PyMemoryError::new_err(()),
        Error::Sink(Raised) => PyErr::fetch(py),
    }
}

/// Sets the `TypeError` for a chunk that is no buffer.
pub(crate) fn not_bytes(object: Object) -> Raised {
    held(|py| {
        // SAFETY: the callers' objects are live.
        let object = unsafe { Bound::from_borrowed_ptr(py, object) };
        type_error(&object).restore(py);
    });
    Raised
}

fn type_error(object: &Bound<'_, PyAny>) -> PyErr {
    if object.is_instance_of::<pyo3::types::PyString>() {
        return PyTypeError::new_err(
            "a chunk is bytes, not str: take the response's bytes, or encode the text",
        );
    }
    let name = object.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string());
    PyTypeError::new_err(format!("a chunk is a bytes-like object, not {name}"))
}

/// Sets the exception that a panic of the core becomes.
#[cold]
pub(crate) fn panicked() {
    held(|py| {
        // SAFETY: the GIL is held. Whatever is set belongs to the call that panicked, and Python
        // code is not to run with it.
        unsafe { ffi::PyErr_Clear() };
        let message = "internal error: the parser panicked; please report it";
        new(py, "SeamstreamError", (message,)).restore(py);
    });
}
