//! The Python module `seamstream._core`: types, errors, objects. No logic.

#![allow(clippy::doc_markdown)] // docstrings are written for Python's help()
#![allow(clippy::fn_to_numeric_cast_any)] // slots of a type are void pointers

mod decoder;
mod errors;
mod event;
mod frame;
mod get;
mod json_stream;
mod machine;
mod pull;
mod raw;
mod types;
mod utf8;
mod value;

use pyo3::prelude::*;

/// The compiled backend of seamstream.
#[pymodule(gil_used = true)]
mod _core {
    use super::decoder;
    #[pymodule_export]
    use super::decoder::SSEDecoder;
    #[pymodule_export]
    use super::json_stream::JSONStreamDecoder;
    #[pymodule_export]
    use super::utf8::UTF8Decoder;
    use pyo3::prelude::*;

    /// Panics inside the parser of `decoder`, on purpose: for the test that proves the guard.
    #[pyfunction]
    fn _provoke_panic(decoder: &Bound<'_, SSEDecoder>) -> PyResult<()> {
        decoder::provoke_panic(decoder)
    }

    /// Give the items of an iterator, asynchronous or not, to one task or thread at a time.
    #[pyfunction]
    fn _exclusive<'py>(items: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        super::pull::exclusive(items)
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
        module.add("build_profile", profile)?;
        super::event::init(module)?;
        super::frame::init(module)?;
        super::pull::init(module)?;
        super::json_stream::init(module)?;
        decoder::init(module)
    }
}
