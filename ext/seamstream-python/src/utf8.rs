//! `UTF8Decoder`: not on the event path, so all in the safe layer.

use crate::errors;
use crate::raw::{Chunk, Raised, new_utf8};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt};
use seamstream::utf8::{Errors, IllFormed, Reason, Utf8Decoder};

/// Decode UTF-8 that arrives in chunks, with characters cut anywhere.
///
/// WHATWG Encoding, "UTF-8 decode": each maximal subpart of an ill-formed sequence becomes one
/// U+FFFD. The duck type of `codecs.IncrementalDecoder`.
///
/// Args:
///     errors: `"replace"`, or `"strict"` to raise at the first ill-formed sequence.
///     skip_bom: Whether one byte order mark at the very start is dropped.
///
/// Raises:
///     ValueError: `errors` is something else.
#[pyclass(module = "seamstream")]
pub(crate) struct UTF8Decoder {
    decoder: Utf8Decoder,
    errors: &'static str,
}

#[pymethods]
impl UTF8Decoder {
    #[new]
    #[pyo3(signature = (errors="replace", *, skip_bom=false))]
    fn new(errors: &str, skip_bom: bool) -> PyResult<Self> {
        let (policy, errors) = match errors {
            "replace" => (Errors::Replace, "replace"),
            "strict" => (Errors::Strict, "strict"),
            _ => {
                let shown = errors.chars().take(80).collect::<String>();
                let message = format!("errors must be 'replace' or 'strict', not '{shown}'");
                return Err(PyValueError::new_err(message));
            }
        };
        Ok(UTF8Decoder { decoder: Utf8Decoder::new(policy, skip_bom), errors })
    }

    /// Decode one chunk, holding back a character that it cuts.
    ///
    /// Args:
    ///     data: A C-contiguous buffer.
    ///     final: Whether nothing follows, so that a cut character is ill-formed.
    ///
    /// Returns:
    ///     The text that is complete now.
    ///
    /// Raises:
    ///     UTF8DecodeError: With `errors="strict"`, at the first ill-formed sequence. Nothing of
    ///         `data` is consumed then.
    ///     StreamStateError: Another call is in this decoder.
    ///     TypeError: `data` is not bytes.
    #[pyo3(signature = (data, r#final=false))]
    fn decode<'py>(
        slf: &Bound<'py, Self>,
        data: &Bound<'py, PyAny>,
        r#final: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = data.py();
        // Before the view: making one may run code of `data`'s type.
        let mut this = enter(slf)?;
        // SAFETY: `data` outlives the view.
        let chunk = unsafe { Chunk::new(data.as_ptr()) }.map_err(|Raised| PyErr::fetch(py))?;
        let text = this.decoder.decode(chunk.bytes(), r#final);
        let text = text.map_err(|error| ill_formed(py, &error))?;
        let text = new_utf8(text.as_bytes()).map_err(|Raised| PyErr::fetch(py))?;
        Ok(text.bind(py))
    }

    /// Return the bytes held back, and 1 once the stream's first character is out, else 0.
    fn getstate<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyBytes>, u8)> {
        let this = enter(slf)?;
        let (pending, started) = this.decoder.state();
        Ok((PyBytes::new(slf.py(), pending), started.into()))
    }

    /// Go on from what `getstate` returned. Offsets of errors count from 0 again.
    ///
    /// Raises:
    ///     TypeError: `state` is not a pair of bytes and int.
    ///     ValueError: Its bytes are not the begin of a character.
    fn setstate(slf: &Bound<'_, Self>, state: &Bound<'_, PyAny>) -> PyResult<()> {
        let wrong = |_| PyTypeError::new_err("state must be what getstate() returned");
        let (pending, flag): (Bound<'_, PyBytes>, Bound<'_, PyInt>) =
            state.extract().map_err(wrong)?;
        if enter(slf)?.decoder.set_state(pending.as_bytes(), flag.is_truthy()?) {
            return Ok(());
        }
        Err(PyValueError::new_err("state must hold the begin of one character, or nothing"))
    }

    /// Start on a new stream.
    fn reset(slf: &Bound<'_, Self>) -> PyResult<()> {
        enter(slf)?.decoder.reset();
        Ok(())
    }

    /// How many U+FFFD stand for ill-formed sequences in what was decoded.
    #[getter]
    fn replaced(slf: &Bound<'_, Self>) -> PyResult<u64> {
        Ok(enter(slf)?.decoder.replaced())
    }

    /// What is done with ill-formed bytes: "replace" or "strict".
    #[getter]
    fn errors(slf: &Bound<'_, Self>) -> PyResult<&'static str> {
        Ok(enter(slf)?.errors)
    }
}

/// Lets one caller in.
fn enter<'py>(decoder: &Bound<'py, UTF8Decoder>) -> PyResult<PyRefMut<'py, UTF8Decoder>> {
    decoder.try_borrow_mut().map_err(|_| errors::busy(decoder.py()))
}

fn ill_formed(py: Python<'_>, error: &IllFormed) -> PyErr {
    let (reason, kind) = match error.reason {
        Reason::InvalidStart => ("invalid start byte", "ill-formed"),
        Reason::UnexpectedEnd => ("unexpected end of data", "truncated"),
        _ => ("invalid continuation byte", "ill-formed"),
    };
    errors::new(
        py,
        "UTF8DecodeError",
        (PyBytes::new(py, error.bytes()), error.offset, reason, kind),
    )
}
