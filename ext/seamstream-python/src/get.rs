//! `get`: one value out of a payload, the rest checked but not built.
//!
//! What a stream's payloads have in common is remembered in its context, for a few paths. Paths
//! are compiled by `seamstream.paths`, and kept by identity: a literal is one object.

use crate::errors;
use crate::raw::{Object, Raised, Strong, guard_py, held, new_ascii, new_bytes, new_utf8};
use crate::value::Text;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use seamstream::get::{Found, Malformed, Memo, Path, Segment, find};
use std::cell::{Cell, RefCell};

/// How many paths a stream remembers, each with what stands around its value.
const MEMOS: usize = 4;

/// How many compiled paths are kept for all streams.
const PATHS: usize = 16;

/// The paths that a stream's events were asked for; nothing while somebody uses them.
///
/// One pointer, as every stream has it.
#[derive(Default)]
#[allow(clippy::box_collection, clippy::type_complexity)]
pub(crate) struct Memos(Cell<Option<Box<Vec<(Strong, Memo)>>>>);

impl Memos {
    /// Looks for a path that was asked for before; None when there is none to be had.
    #[inline(always)]
    fn find<'a>(
        &self,
        text: Payload<'a>,
        path: Object,
    ) -> Option<Result<Option<Found<'a>>, Malformed>> {
        let mut memos = self.0.take()?;
        let memo = memos.iter_mut().find(|(known, _)| known.as_ptr() == path);
        let found = memo.map(|(_, memo)| match text {
            Payload::Any(bytes) => memo.find(bytes),
            Payload::Utf8(bytes) => memo.find_in_utf8(bytes),
        });
        self.0.set(Some(memos));
        found
    }

    /// Remembers a path, in place of the oldest one.
    #[cold]
    fn remember(&self, object: Strong, path: &Path) {
        let mut memos = self.0.take().unwrap_or_default();
        let dropped = if let Some(at) = memos.iter().position(|(_, memo)| memo.path() == path) {
            // An equal path by another object, which is the one to look for from now on.
            Some(std::mem::replace(&mut memos[at].0, object))
        } else {
            let oldest = (memos.len() == MEMOS).then(|| memos.remove(0).0);
            memos.push((object, Memo::new(path.clone())));
            oldest
        };
        drop(self.0.replace(Some(memos)));
        drop(dropped);
    }
}

/// A payload, and whether it has been found to be well-formed UTF-8.
#[derive(Clone, Copy)]
enum Payload<'a> {
    Any(&'a [u8]),
    Utf8(&'a [u8]),
}

/// Compiled paths, oldest first. With the GIL, which keeps all others out.
struct Compiled(RefCell<Vec<(Strong, Path)>>);

// SAFETY: reached with the GIL held only; a second user is told by `RefCell`.
unsafe impl Sync for Compiled {}

static COMPILED: Compiled = Compiled(RefCell::new(Vec::new()));

/// The compiled form of an exact `str` or `tuple`, or of anything else that may be a path.
fn compiled(path: Object) -> Result<Path, Raised> {
    // SAFETY: live objects; exact `str` are compared without running any code.
    let same = |known: Object| unsafe {
        known == path
            || (ffi::PyUnicode_CheckExact(known) != 0
                && ffi::PyUnicode_CheckExact(path) != 0
                && ffi::PyUnicode_Compare(known, path) == 0)
    };
    if let Ok(paths) = COMPILED.0.try_borrow()
        && let Some((_, compiled)) = paths.iter().find(|(known, _)| same(known.as_ptr()))
    {
        return Ok(compiled.clone());
    }
    let compiled = Cell::new(None);
    let done = guard_py(|py| {
        // SAFETY: the caller keeps the path alive.
        let path = unsafe { Bound::from_borrowed_ptr(py, path) };
        let steps = functions(py)?.0.bind(py).call1((path,))?;
        compiled.set(Some(steps.extract::<Vec<(Option<String>, Option<usize>)>>()?));
        Ok(steps)
    });
    // SAFETY: a new reference, or null with an exception set.
    let _steps = unsafe { Strong::owned(done)? };
    let compiled: Path = compiled
        .take()
        .into_iter()
        .flatten()
        .filter_map(|step| match step {
            (Some(name), Some(index)) => Some(Segment::Either(name.into(), index)),
            (Some(name), None) => Some(Segment::Key(name.into())),
            (None, Some(index)) => Some(Segment::Index(index)),
            (None, None) => None,
        })
        .collect();
    if may_be_kept(path) {
        let mut dropped = None;
        if let Ok(mut paths) = COMPILED.0.try_borrow_mut() {
            if paths.len() == PATHS {
                dropped = Some(paths.remove(0));
            }
            // SAFETY: a live object.
            paths.push((unsafe { Strong::borrowed(path) }, compiled.clone()));
        }
        drop(dropped);
    }
    Ok(compiled)
}

/// Whether an object is just a path: one of a subclass may refer to anything, and live too long.
fn may_be_kept(path: Object) -> bool {
    // SAFETY: a live object.
    unsafe { ffi::PyUnicode_CheckExact(path) != 0 || ffi::PyTuple_CheckExact(path) != 0 }
}

/// `seamstream.paths.compile_path` and `walk`.
fn functions(py: Python<'_>) -> PyResult<&'static (Py<PyAny>, Py<PyAny>)> {
    static FUNCTIONS: PyOnceLock<(Py<PyAny>, Py<PyAny>)> = PyOnceLock::new();
    FUNCTIONS.get_or_try_init(py, || {
        let module = py.import("seamstream.paths")?;
        Ok((module.getattr("compile_path")?.unbind(), module.getattr("walk")?.unbind()))
    })
}

/// The value at `path`, or `default`. `is_utf8`: the payload is known to be well-formed.
///
/// # Safety
/// `path` and `default` are live objects, and stay so.
#[inline(always)]
pub(crate) unsafe fn get(
    text: Text,
    is_utf8: bool,
    memos: Option<&Memos>,
    path: Object,
    default: Object,
) -> Result<Strong, Raised> {
    let payload = if is_utf8 { Payload::Utf8(text.raw()) } else { Payload::Any(text.raw()) };
    let found = match memos.and_then(|memos| memos.find(payload, path)) {
        Some(found) => found,
        None => {
            let compiled = compiled(path)?;
            if let Some(memos) = memos
                && may_be_kept(path)
            {
                // SAFETY: a live object.
                memos.remember(unsafe { Strong::borrowed(path) }, &compiled);
            }
            find(text.raw(), &compiled)
        }
    };
    match found {
        Ok(Some(Found::Ascii(content))) => new_ascii(content),
        Ok(Some(Found::Text(content))) => new_utf8(content),
        Ok(Some(Found::Json(json))) => {
            let json = new_bytes(json)?;
            // SAFETY: exact `bytes`, held meanwhile; no other parser.
            unsafe { Text::new(json.as_ptr(), std::ptr::null_mut()) }.parse()
        }
        // SAFETY: a live object.
        Ok(None) => Ok(unsafe { Strong::borrowed(default) }),
        Err(malformed) => Err(refuse(text, malformed)),
    }
}

/// Raises what `json` raises for the same payload.
#[cold]
fn refuse(text: Text, malformed: Malformed) -> Raised {
    match text.parse() {
        Err(Raised) => text.explain_refusal(),
        Ok(_) => held(|py| {
            errors::new(py, "JSONDecodeError", ("not JSON", malformed.offset)).restore(py);
        }),
    }
    Raised
}

/// `walk(json(), compile_path(path), default)`: for another parser than orjson, and for what has
/// no value. A wrong path is told before that.
///
/// # Safety
/// `path` and `default` are live objects, and stay so.
#[cold]
pub(crate) unsafe fn walk(
    json: impl FnOnce() -> Result<Strong, Raised>,
    path: Object,
    default: Object,
) -> Result<Strong, Raised> {
    let walked = guard_py(|py| {
        // SAFETY: the caller's promise.
        let (path, default) =
            unsafe { (Bound::from_borrowed_ptr(py, path), Bound::from_borrowed_ptr(py, default)) };
        let (compile, walk) = functions(py)?;
        let steps = compile.bind(py).call1((path,))?;
        let value = json().map_err(|Raised| PyErr::fetch(py))?;
        walk.bind(py).call1((value.bind(py), steps, default))
    });
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Strong::owned(walked) }
}

/// The arguments of `get(path, /, default=None)`.
///
/// # Safety
/// They are those of a method with `METH_FASTCALL | METH_KEYWORDS`.
#[inline(always)]
pub(crate) unsafe fn arguments(
    args: *const Object,
    count: ffi::Py_ssize_t,
    names: Object,
) -> Result<(Object, Object), Raised> {
    // SAFETY: the caller's promise: `count` positional arguments, then one for each name.
    unsafe {
        let by_name = if names.is_null() { 0 } else { ffi::PyTuple_GET_SIZE(names) };
        match (count, by_name) {
            (1, 0) => Ok((*args, ffi::Py_None())),
            (2, 0) => Ok((*args, *args.add(1))),
            (1, 1) if is_default(ffi::PyTuple_GET_ITEM(names, 0)) => Ok((*args, *args.add(1))),
            _ => {
                held(|py| {
                    PyTypeError::new_err("get() takes a path and, at will, a default").restore(py);
                });
                Err(Raised)
            }
        }
    }
}

/// # Safety
/// `name` is a live `str`.
unsafe fn is_default(name: Object) -> bool {
    // SAFETY: the caller's promise.
    unsafe { ffi::PyUnicode_CompareWithASCIIString(name, c"default".as_ptr()) == 0 }
}
