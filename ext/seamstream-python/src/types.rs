//! Types made from slots, past the safe layer: what has no GC header, or must cost nothing per call.

use crate::raw::{Object, Raised, Strong, guard_py};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyTuple};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;

/// An attribute that is an object slot.
pub(crate) fn member(name: &'static CStr, offset: usize, doc: &'static CStr) -> ffi::PyMemberDef {
    ffi::PyMemberDef {
        name: name.as_ptr(),
        type_code: ffi::Py_T_OBJECT_EX,
        offset: offset.cast_signed(),
        flags: ffi::Py_READONLY,
        doc: doc.as_ptr(),
    }
}

/// An attribute that is computed.
pub(crate) fn getter(
    name: &'static CStr,
    get: ffi::getter,
    doc: &'static CStr,
) -> ffi::PyGetSetDef {
    ffi::PyGetSetDef {
        name: name.as_ptr(),
        get: Some(get),
        set: None,
        doc: doc.as_ptr(),
        closure: ptr::null_mut(),
    }
}

/// A method.
pub(crate) fn method(
    name: &'static CStr,
    function: ffi::PyCFunction,
    flags: c_int,
    doc: &'static CStr,
) -> ffi::PyMethodDef {
    ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunction: function },
        ml_flags: flags,
        ml_doc: doc.as_ptr(),
    }
}

/// A method that takes its arguments as an array.
pub(crate) fn fast_method(
    name: &'static CStr,
    function: ffi::PyCFunctionFastWithKeywords,
    doc: &'static CStr,
) -> ffi::PyMethodDef {
    ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: function },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: doc.as_ptr(),
    }
}

/// Gives a table to a type for good, ended as C wants it.
pub(crate) fn table<T>(mut rows: Vec<T>, end: T) -> *mut c_void {
    rows.push(end);
    Box::leak(rows.into_boxed_slice()).as_mut_ptr().cast()
}

/// A type made from slots.
pub(crate) fn new_type(
    py: Python<'_>,
    name: &'static CStr,
    size: usize,
    flags: std::ffi::c_ulong,
    slots: &[(c_int, *mut c_void)],
) -> PyResult<Strong> {
    let mut slots: Vec<_> =
        slots.iter().map(|&(slot, pfunc)| ffi::PyType_Slot { slot, pfunc }).collect();
    slots.push(ffi::PyType_Slot::default());
    let mut spec = ffi::PyType_Spec {
        name: name.as_ptr().cast::<c_char>(),
        basicsize: c_int::try_from(size)?,
        itemsize: 0,
        flags: c_uint::try_from(ffi::Py_TPFLAGS_DEFAULT | flags)?,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the spec and its slots are valid during the call, which copies them; names, docs
    // and tables live for good.
    unsafe { Strong::owned(ffi::PyType_FromSpec(&raw mut spec)) }.map_err(|Raised| PyErr::fetch(py))
}

/// Nobody changes the type from now on.
pub(crate) fn freeze(kind: &Strong) {
    // SAFETY: a type that this module has made and not handed out.
    unsafe {
        let kind = kind.as_ptr().cast::<ffi::PyTypeObject>();
        let flag = ffi::Py_TPFLAGS_IMMUTABLETYPE;
        #[cfg(not(Py_GIL_DISABLED))]
        {
            (*kind).tp_flags |= flag;
        }
        #[cfg(Py_GIL_DISABLED)]
        (*kind).tp_flags.fetch_or(flag, std::sync::atomic::Ordering::Relaxed);
        ffi::PyType_Modified(kind);
    }
}

/// `__hash__`, by what equality is over.
pub(crate) fn hash_by(
    key: impl FnOnce(Python<'_>) -> PyResult<Bound<'_, PyTuple>>,
) -> ffi::Py_hash_t {
    let mut hash = -1;
    let done = guard_py(|py| {
        hash = key(py)?.hash()?;
        Ok(py.None().into_bound(py))
    });
    if done.is_null() {
        return -1;
    }
    // SAFETY: the None that `guard_py` gave.
    unsafe { ffi::Py_DECREF(done) };
    hash
}

/// `__eq__` and `__ne__` of two objects of one type that cannot be subclassed.
///
/// # Safety
/// Both objects are live, and one of them is of that type.
pub(crate) unsafe fn compare_by(
    key: impl for<'py> Fn(Python<'py>, Object) -> PyResult<Bound<'py, PyTuple>>,
    one: Object,
    other: Object,
    op: c_int,
) -> Object {
    // SAFETY: the caller's promise.
    let same_type = unsafe { ffi::Py_TYPE(one) == ffi::Py_TYPE(other) };
    if !same_type || !matches!(op, ffi::Py_EQ | ffi::Py_NE) {
        // SAFETY: a live singleton.
        return unsafe { Strong::borrowed(ffi::Py_NotImplemented()).into_ptr() };
    }
    guard_py(|py| {
        let equal = key(py, one)?.eq(key(py, other)?)?;
        Ok(PyBool::new(py, equal == (op == ffi::Py_EQ)).to_owned().into_any())
    })
}

/// `__copy__` and `__deepcopy__` of what is immutable: the object itself.
pub(crate) unsafe extern "C" fn copy(object: Object, _: Object) -> Object {
    // SAFETY: Python keeps its argument alive.
    unsafe { Strong::borrowed(object).into_ptr() }
}
