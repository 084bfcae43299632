//! A payload as JSON: the parser is called on the bytes, and its refusals become the library's.

use crate::errors;
use crate::raw::{Object, Raised, Strong, bytes_of, guard_py, held};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::ptr;
use std::sync::OnceLock;

/// `orjson.loads`. The C function behind it is called as the interpreter calls it in a loop, and
/// not by way of what any callable may be.
struct Loads {
    object: Py<PyAny>,
    direct: Option<Direct>,
}

/// The C function of a built-in that takes one positional argument, and its own object if any.
type Direct = (ffi::PyCFunction, Option<Py<PyAny>>);

/// From the first parse on.
static ORJSON_LOADS: OnceLock<Loads> = OnceLock::new();

impl Loads {
    #[cold]
    fn import() -> Result<&'static Self, Raised> {
        held(|py| match py.import("orjson").and_then(|orjson| orjson.getattr("loads")) {
            Ok(object) => {
                let direct = direct(&object);
                Ok(ORJSON_LOADS.get_or_init(|| Loads { object: object.unbind(), direct }))
            }
            Err(error) => {
                error.restore(py);
                Err(Raised)
            }
        })
    }

    #[inline(always)]
    fn call(&self, raw: Object) -> Result<Strong, Raised> {
        // SAFETY: live objects; the function takes its own object and one argument.
        unsafe {
            Strong::owned(match &self.direct {
                Some((function, own)) => {
                    function(own.as_ref().map_or(ptr::null_mut(), Py::as_ptr), raw)
                }
                None => ffi::PyObject_CallOneArg(self.object.as_ptr(), raw),
            })
        }
    }
}

fn direct(callable: &Bound<'_, PyAny>) -> Option<Direct> {
    let object = callable.as_ptr();
    // SAFETY: a live object, of a type that has flags, a function and an object of its own.
    unsafe {
        if ffi::PyCFunction_CheckExact(object) == 0
            || ffi::PyCFunction_GetFlags(object) != ffi::METH_O
        {
            return None;
        }
        let own = Bound::from_borrowed_ptr_or_opt(callable.py(), ffi::PyCFunction_GetSelf(object));
        Some((ffi::PyCFunction_GetFunction(object)?, own.map(Bound::unbind)))
    }
}

/// The exact `bytes` of an event or frame, and the parser for them.
#[derive(Clone, Copy)]
pub(crate) struct Text {
    raw: Object,
    /// Null for orjson.
    loads: Object,
}

impl Text {
    /// # Safety
    /// `raw` is exact `bytes`, `loads` a callable or null; both outlive the text.
    #[inline(always)]
    pub unsafe fn new(raw: Object, loads: Object) -> Self {
        Text { raw, loads }
    }

    /// The bytes.
    #[inline(always)]
    pub fn raw(&self) -> &[u8] {
        // SAFETY: `new` was promised exact `bytes`.
        unsafe { bytes_of(self.raw) }
    }

    /// Calls the parser; its own exception is set on failure.
    #[inline(always)]
    pub fn parse(self) -> Result<Strong, Raised> {
        if self.loads.is_null() {
            return match ORJSON_LOADS.get() {
                Some(loads) => loads.call(self.raw),
                None => Loads::import()?.call(self.raw),
            };
        }
        // SAFETY: live objects.
        unsafe { Strong::owned(ffi::PyObject_CallOneArg(self.loads, self.raw)) }
    }

    /// The same bytes with orjson as their parser.
    pub fn for_orjson(self) -> Self {
        Text { loads: ptr::null_mut(), ..self }
    }

    /// Whether the exception that is set says that the payload is not JSON.
    pub fn is_refusal() -> bool {
        // SAFETY: an exception is set.
        unsafe {
            ffi::PyErr_ExceptionMatches(ffi::PyExc_ValueError) != 0
                || ffi::PyErr_ExceptionMatches(ffi::PyExc_RecursionError) != 0
        }
    }

    /// Makes the exception that is set, if it is a refusal, the one that users know.
    #[cold]
    pub fn explain_refusal(self) {
        if Self::is_refusal() {
            held(|py| {
                let cause = PyErr::fetch(py);
                let error = self.refused(py, &cause);
                error.set_cause(py, Some(cause));
                error.restore(py);
            });
        }
    }

    /// The library's exception for a parser's.
    pub fn refused(self, py: Python<'_>, cause: &PyErr) -> PyErr {
        let value = cause.value(py);
        let offset = self.fault_offset(value.getattr("pos").ok());
        // The message of a caller's function may hold payload text; orjson's does not.
        let message = if self.loads.is_null() {
            value.getattr("msg").and_then(|msg| msg.extract()).unwrap_or("not JSON".to_owned())
        } else {
            "loads refused the payload".to_owned()
        };
        errors::new(py, "JSONDecodeError", (message, offset))
    }

    /// A parser's position, in characters, as bytes of the payload.
    fn fault_offset(self, position: Option<Bound<'_, PyAny>>) -> usize {
        let text = match std::str::from_utf8(self.raw()) {
            Ok(text) => text,
            Err(error) => return error.valid_up_to(),
        };
        let characters = position.and_then(|at| at.extract::<usize>().ok()).unwrap_or(0);
        text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at)
    }
}

/// Raises what says that the stream ended inside the value at `offset`.
#[cold]
pub(crate) fn raise_torn(offset: u64) {
    held(|py| errors::new(py, "TornError", (offset,)).restore(py));
}

/// Validates bytes in which nothing stands that JSON does not have, but other parsers take.
pub(crate) static VALIDATE_TEXT: Validation = Validation::new("validate_text");

/// A function of `seamstream.validation`, looked up once: an import costs half of a validation.
pub(crate) struct Validation {
    name: &'static str,
    function: PyOnceLock<Py<PyAny>>,
}

impl Validation {
    pub const fn new(name: &'static str) -> Self {
        Validation { name, function: PyOnceLock::new() }
    }

    /// Calls `function(item, target)`; `item` is an event or frame, or its bytes.
    pub fn call(&self, item: Object, target: Object) -> Object {
        guard_py(|py| {
            let function = self.function.get_or_try_init(py, || {
                Ok::<_, PyErr>(py.import("seamstream.validation")?.getattr(self.name)?.unbind())
            })?;
            // SAFETY: Python keeps both alive during the call.
            let (item, target) = unsafe {
                (Bound::from_borrowed_ptr(py, item), Bound::from_borrowed_ptr(py, target))
            };
            function.bind(py).call1((item, target))
        })
    }
}
