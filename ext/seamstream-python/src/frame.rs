//! `Frame`: one delimited unit of a JSON stream, laid out like `Event`.

use crate::errors;
use crate::event::{self, exact, keywords, loads_of, memos_of, shared};
use crate::get::{self, Functions};
use crate::raw::{Object, Raised, Strong, bytes_of, guard, guard_py, held, new_text};
use crate::types::{
    compare_by, copy, fast_method, freeze, getter, hash_by, member, method, new_type, table,
};
use crate::value::{Text, VALIDATE_TEXT, Validation, raise_torn};
use pyo3::exceptions::{PyImportError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyString, PyTuple};
use seamstream::json_stream::Kind;
use std::ffi::{CStr, c_int, c_void};
use std::mem::offset_of;
use std::ptr;
use std::sync::OnceLock;

/// How much of the bytes `repr` shows.
const REPR_BYTES: usize = 80;

#[repr(C)]
struct Frame {
    base: ffi::PyObject,
    raw: Object,
    /// A `str`, or None.
    kind: Object,
    /// Null when the decoder has no `loads`, and by hand.
    context: Object,
    offset: u64,
    torn: bool,
}

static TYPE: OnceLock<Strong> = OnceLock::new();

/// A new frame.
#[inline(always)]
pub(crate) fn new_frame(
    raw: Strong,
    kind: Strong,
    torn: bool,
    offset: u64,
    context: Option<Strong>,
) -> Result<Strong, Raised> {
    let class = TYPE.get().expect("the module has been initialised");
    // SAFETY: `Frame` is what the type's size was taken from, so every field written lies in the
    // new object; all are written before anybody sees it. Each reference is given away once.
    unsafe {
        let object = Strong::owned(ffi::PyObject_New::<ffi::PyObject>(class.as_ptr().cast()))?;
        let made = object.as_ptr().cast::<Frame>();
        (*made).raw = raw.into_ptr();
        (*made).kind = kind.into_ptr();
        (*made).context = context.map_or(ptr::null_mut(), Strong::into_ptr);
        (*made).offset = offset;
        (*made).torn = torn;
        Ok(object)
    }
}

/// The `str` of an error's kind, or None.
#[inline(always)]
pub(crate) fn kind_object(kind: Kind) -> Strong {
    let shared = shared();
    let [syntax, garbage, separator, truncated, oversize] = &shared.kinds;
    match kind {
        Kind::Value | Kind::Torn => &shared.none,
        Kind::Syntax => syntax,
        Kind::Garbage => garbage,
        Kind::Separator => separator,
        Kind::Truncated => truncated,
        Kind::Oversize => oversize,
    }
    .clone()
}

/// The payload of an event or frame, as `done` is compared with it; a torn one has none.
pub(crate) fn whole_payload(item: &Strong) -> Option<&[u8]> {
    let class = TYPE.get().expect("the module has been initialised");
    // SAFETY: decoders give events and frames only; a payload is exact `bytes`.
    unsafe {
        if ffi::Py_TYPE(item.as_ptr()).cast() != class.as_ptr() {
            return event::whole_payload(item);
        }
        let frame = item.as_ptr().cast::<Frame>();
        (!(*frame).torn).then(|| bytes_of((*frame).raw))
    }
}

unsafe extern "C" fn dealloc(object: Object) {
    // SAFETY: called once, by the last reference, with a frame. The type has one reference for
    // each of its objects.
    unsafe {
        let frame = object.cast::<Frame>();
        ffi::Py_DECREF((*frame).raw);
        ffi::Py_DECREF((*frame).kind);
        ffi::Py_XDECREF((*frame).context);
        let class = ffi::Py_TYPE(object);
        ffi::PyObject_Free(object.cast());
        ffi::Py_DECREF(class.cast());
    }
}

/// A frame as the safe layer below sees it.
#[derive(Clone, Copy)]
struct Ref(*mut Frame);

impl Ref {
    /// # Safety
    /// `object` is a frame that stays alive meanwhile.
    unsafe fn new(object: Object) -> Self {
        Ref(object.cast())
    }

    fn get(&self) -> &Frame {
        // SAFETY: `new` was promised a live frame, which never changes.
        unsafe { &*self.0 }
    }

    #[inline(always)]
    fn text(&self) -> Text {
        let frame = self.get();
        // SAFETY: a frame's bytes are exact `bytes`, and its context null or live.
        unsafe { Text::new(frame.raw, loads_of(frame.context)) }
    }

    fn slot<'py>(py: Python<'py>, field: Object) -> Bound<'py, PyAny> {
        // SAFETY: the callers' slots hold live objects.
        unsafe { Bound::from_borrowed_ptr(py, field) }
    }

    #[inline(always)]
    fn is_value(&self) -> bool {
        // SAFETY: a singleton.
        !self.get().torn && self.get().kind == unsafe { ffi::Py_None() }
    }

    /// What `json` gives or raises.
    fn value_of_json(self) -> Result<Strong, Raised> {
        if !self.is_value() {
            return self.json_failure();
        }
        self.text().parse().or_else(|Raised| self.json_failure())
    }

    /// What `json` raises: this is no value, or the parser's exception is set.
    #[cold]
    fn json_failure(self) -> Result<Strong, Raised> {
        if self.get().torn {
            raise_torn(self.get().offset);
        } else if self.is_value() {
            self.text().explain_refusal();
        } else {
            held(|py| self.explain(py).unwrap_or_else(|error| error).restore(py));
        }
        Err(Raised)
    }

    /// The error of a frame that is no value.
    fn explain(self, py: Python<'_>) -> PyResult<PyErr> {
        let kind: String = Self::slot(py, self.get().kind).extract()?;
        let raw = self.text();
        let (message, offset) = match &kind[..] {
            "syntax" => {
                if raw.for_orjson().parse().is_err() {
                    let cause = PyErr::fetch(py);
                    return Ok(raw.for_orjson().refused(py, &cause));
                }
                ("nested deeper than max_depth", 0)
            }
            "truncated" => ("the text is cut", raw.raw().len()),
            "separator" if raw.raw().is_empty() => ("missing comma", 0),
            "separator" => ("needless comma", 0),
            "oversize" => ("outgrew max_event_bytes", 0),
            _ => ("no JSON value can be here", 0),
        };
        Ok(errors::new(py, "JSONDecodeError", (message, offset, kind)))
    }

    fn value(self) -> Result<Strong, Raised> {
        if self.is_value() {
            match self.text().parse() {
                Ok(value) => return Ok(value),
                Err(Raised) if !Text::is_refusal() => return Err(Raised),
                // SAFETY: an exception is set, and it is not wanted.
                Err(Raised) => unsafe { ffi::PyErr_Clear() },
            }
        }
        new_text(self.text().raw())
    }

    fn parse_error(self) -> Result<Strong, Raised> {
        if self.get().torn {
            return new_text(b"torn");
        }
        // SAFETY: a live object.
        Ok(unsafe { Strong::borrowed(self.get().kind) })
    }

    /// What equality and hash are over.
    fn key<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let [raw, kind] = [self.get().raw, self.get().kind].map(|field| Self::slot(py, field));
        (raw, kind, self.get().torn).into_pyobject(py)
    }

    fn repr(self, py: Python<'_>) -> PyResult<String> {
        let text = self.text();
        let raw = text.raw();
        let shown = PyBytes::new(py, &raw[..raw.len().min(REPR_BYTES)]).repr()?;
        let more = if raw.len() > REPR_BYTES { "..." } else { "" };
        let kind = Self::slot(py, self.get().kind);
        let kind = if kind.is_none() { String::new() } else { format!(", kind={}", kind.repr()?) };
        let torn = if self.get().torn { ", torn=True" } else { "" };
        Ok(format!("Frame(raw={shown}{more}{kind}{torn})"))
    }
}

unsafe extern "C" fn get_value(object: Object, _: *mut c_void) -> Object {
    // SAFETY: Python calls this with a frame, which it keeps alive. So below.
    guard(|| unsafe { Ref::new(object) }.value())
}

unsafe extern "C" fn get_parse_error(object: Object, _: *mut c_void) -> Object {
    // SAFETY: as in `get_value`.
    guard(|| unsafe { Ref::new(object) }.parse_error())
}

unsafe extern "C" fn get_torn(object: Object, _: *mut c_void) -> Object {
    // SAFETY: as in `get_value`.
    unsafe { ffi::PyBool_FromLong(Ref::new(object).get().torn.into()) }
}

unsafe extern "C" fn get_offset(object: Object, _: *mut c_void) -> Object {
    // SAFETY: as in `get_value`.
    unsafe { ffi::PyLong_FromUnsignedLongLong(Ref::new(object).get().offset) }
}

unsafe extern "C" fn json(object: Object, _: Object) -> Object {
    // SAFETY: as in `get_value`. Nothing here can panic, so a success needs no guard.
    let frame = unsafe { Ref::new(object) };
    if frame.is_value()
        && let Ok(value) = frame.text().parse()
    {
        return value.into_ptr();
    }
    guard(|| frame.json_failure())
}

unsafe extern "C" fn validate(object: Object, target: Object) -> Object {
    static VALIDATE_FRAME: Validation = Validation::new("validate_frame");
    // SAFETY: as in `get_value`.
    let frame = unsafe { Ref::new(object) };
    if frame.is_value() {
        return VALIDATE_TEXT.call(frame.get().raw, target);
    }
    VALIDATE_FRAME.call(object, target)
}

unsafe extern "C" fn get(
    object: Object,
    args: *const Object,
    count: ffi::Py_ssize_t,
    names: Object,
) -> Object {
    // SAFETY: as in `get_value`; the arguments are Python's, and stay alive.
    guard(|| unsafe {
        let (path, default) = get::arguments("get() takes a path", args, count, names)?;
        let frame = Ref::new(object);
        let context = frame.get().context;
        if !frame.is_value() || !loads_of(context).is_null() {
            return get::walk(|| frame.value_of_json(), Functions::of_one, path, default);
        }
        get::get(frame.text(), false, memos_of(context), path, default)
    })
}

unsafe extern "C" fn get_many(
    object: Object,
    args: *const Object,
    count: ffi::Py_ssize_t,
    names: Object,
) -> Object {
    // SAFETY: as in `get_value`; the arguments are Python's, and stay alive.
    guard(|| unsafe {
        let (paths, default) = get::arguments("get_many() takes paths", args, count, names)?;
        let frame = Ref::new(object);
        let context = frame.get().context;
        if !frame.is_value() || !loads_of(context).is_null() {
            return get::walk(|| frame.value_of_json(), Functions::of_many, paths, default);
        }
        get::get_many(frame.text(), false, memos_of(context), paths, default)
    })
}

unsafe extern "C" fn repr(object: Object) -> Object {
    // SAFETY: as in `get_value`.
    let frame = unsafe { Ref::new(object) };
    guard_py(|py| Ok(frame.repr(py)?.into_pyobject(py)?.into_any()))
}

unsafe extern "C" fn hash(object: Object) -> ffi::Py_hash_t {
    // SAFETY: as in `get_value`.
    hash_by(|py| unsafe { Ref::new(object) }.key(py))
}

unsafe extern "C" fn compare(one: Object, other: Object, op: c_int) -> Object {
    // SAFETY: as in `get_value`; the key is asked of frames alone.
    unsafe { compare_by(|py, frame| Ref::new(frame).key(py), one, other, op) }
}

unsafe extern "C" fn reduce(object: Object, _: Object) -> Object {
    // SAFETY: as in `get_value`.
    let reference = unsafe { Ref::new(object) };
    guard_py(|py| {
        let frame = reference.get();
        let [raw, kind] = [frame.raw, frame.kind].map(|field| Ref::slot(py, field));
        let restore = py.import("seamstream._backend")?.getattr("_restore_frame")?;
        Ok((restore, (raw, kind, frame.torn, frame.offset)).into_pyobject(py)?.into_any())
    })
}

fn build<'py>(
    py: Python<'py>,
    raw: &Bound<'py, PyAny>,
    kind: Option<&Bound<'py, PyAny>>,
    torn: bool,
    offset: u64,
) -> PyResult<Bound<'py, PyAny>> {
    let raw = Strong::from_bound(exact::<PyBytes>("raw", "bytes", raw)?);
    let shared = shared();
    let kind = match kind {
        None => shared.none.clone(),
        Some(kind) => {
            let name = kind
                .cast::<PyString>()
                .map_err(|_| PyTypeError::new_err("kind must be str or None"))?;
            let known = shared.kinds.iter().find(|known| known.bind(py).eq(name).unwrap_or(false));
            known.cloned().ok_or_else(|| {
                PyValueError::new_err(
                    "kind must be 'syntax', 'garbage', 'separator', 'truncated' or 'oversize'",
                )
            })?
        }
    };
    let made = new_frame(raw, kind, torn, offset, None);
    Ok(made.map_err(|Raised| PyErr::fetch(py))?.bind(py))
}

unsafe extern "C" fn construct(_: *mut ffi::PyTypeObject, args: Object, kwargs: Object) -> Object {
    guard_py(|py| {
        // SAFETY: Python calls this with a tuple, and a dict or null.
        let (args, kwargs) = unsafe {
            (Bound::from_borrowed_ptr(py, args), Bound::from_borrowed_ptr_or_opt(py, kwargs))
        };
        let kwargs = kwargs.as_ref().map(|kwargs| kwargs.cast::<PyDict>()).transpose()?;
        let [raw, kind, torn] =
            keywords("Frame", args.cast::<PyTuple>()?, kwargs, ["raw", "kind", "torn"])?;
        let raw = raw.ok_or_else(|| {
            PyTypeError::new_err("Frame() is missing the required keyword argument 'raw'")
        })?;
        let torn = match torn {
            None => false,
            Some(torn) => torn
                .cast::<PyBool>()
                .map_err(|_| PyTypeError::new_err("torn must be bool"))?
                .is_true(),
        };
        let kind = kind.filter(|kind| !kind.is_none());
        if torn && kind.is_some() {
            return Err(PyValueError::new_err("a torn frame has no kind"));
        }
        build(py, &raw, kind.as_ref(), torn, 0)
    })
}

unsafe extern "C" fn restore(_: Object, args: Object) -> Object {
    guard_py(|py| {
        // SAFETY: Python calls this with a tuple.
        let args = unsafe { Bound::from_borrowed_ptr(py, args) };
        let (raw, kind, torn, offset): (Bound<'_, PyAny>, Option<Bound<'_, PyAny>>, bool, u64) =
            args.extract()?;
        build(py, &raw, kind.as_ref(), torn, offset)
    })
}

const DOC: &CStr = c"Frame(*, raw, kind=None, torn=False)\n--\n\n\
One delimited unit of a JSON stream: a value, an error, or the torn rest. It is immutable.\n\n\
Equality and hash are over `(raw, kind, torn)`. Pickles load on either backend; `loads` is not\n\
part of them.\n\n\
Args:\n    raw: The bytes exactly as sent.\n    \
kind: None for a value, else why the bytes are no value.\n    \
torn: Whether the stream ended inside this value.\n\n\
Raises:\n    TypeError: An argument has the wrong type.\n    \
ValueError: `kind` is none of its values, or a torn frame has one.\n";

fn frame_type(py: Python<'_>) -> PyResult<Strong> {
    // SAFETY: all zeros is the end of each table.
    let (no_member, no_getter, no_method) = unsafe {
        (
            std::mem::zeroed::<ffi::PyMemberDef>(),
            std::mem::zeroed::<ffi::PyGetSetDef>(),
            std::mem::zeroed::<ffi::PyMethodDef>(),
        )
    };
    let members = vec![
        member(
            c"raw",
            offset_of!(Frame, raw),
            c"The bytes as sent; those of an error without the white space at both ends.",
        ),
        member(
            c"kind",
            offset_of!(Frame, kind),
            c"Why the bytes are no value; None for a value, torn or not.",
        ),
    ];
    let getters = vec![
        getter(c"torn", get_torn, c"Whether the stream ended inside this value."),
        getter(
            c"offset",
            get_offset,
            c"Absolute position in the stream of the first byte, in bytes.",
        ),
        getter(
            c"parse_error",
            get_parse_error,
            c"Why this is no value: its kind, or \"torn\"; None when it is one.",
        ),
        getter(
            c"value",
            get_value,
            c"The parsed value, or the bytes as text when they are no value.\n\n\
              Parses on every access.",
        ),
    ];
    let methods = vec![
        method(
            c"json",
            json,
            ffi::METH_NOARGS,
            c"json($self, /)\n--\n\n\
              Parse the value, anew on every call.\n\n\
              orjson on `raw`; integers beyond 64 bits become floats (`loads=json.loads` keeps \
              them).\n\n\
              Raises:\n    JSONDecodeError: This is an error frame, whose `kind` it has; or \
              `loads` raised\n        `ValueError` or `RecursionError`, which is the cause (kind \
              \"syntax\"). Its `offset`\n        is within `raw`.\n    \
              TornError: The stream ended inside this value.\n",
        ),
        fast_method(
            c"get",
            get,
            c"get($self, path, /, default=None)\n--\n\n\
              Return one value out of the JSON, without building the rest.\n\n\
              All of the payload is checked all the same. In a stream whose payloads are alike, what\n\
              stands around the value is compared, not scanned again.\n\n\
              Args:\n    path: `\"choices.0.delta.content\"`: names and indices joined by dots, where \
              digits are an\n        index in an array and a name in an object. Or a tuple, of which \
              each `str` is a name and\n        each `int` an index: `(\"a.b\", 0)`. `\"\"` and `()` \
              are the whole value.\n    default: What to return where there is no such value.\n\n\
              Raises:\n    JSONDecodeError: This is an error frame, whose `kind` it has.\n    \
              TornError: The stream ended inside this value.\n    \
              TypeError: The path, or a part of it, has the wrong type.\n    \
              ValueError: An index is negative, or a name is not Unicode text.\n",
        ),
        fast_method(
            c"get_many",
            get_many,
            c"get_many($self, paths, /, default=None)\n--\n\n\
              Return several values out of the JSON, in one pass, as a tuple.\n\n\
              They are in the order of the paths. All of the payload is checked all the same.\n\n\
              Args:\n    paths: A tuple or a list of paths, each as of `get`.\n    default: What stands for a \
              value that is not there.\n\n\
              Raises:\n    JSONDecodeError: This is an error frame, whose `kind` it has.\n    \
              TornError: The stream ended inside this value.\n    \
              TypeError: `paths` is no tuple or list, or a path, or a part of it, has the wrong\n        type.\n    \
              ValueError: An index is negative, or a name is not Unicode text.\n",
        ),
        method(
            c"validate",
            validate,
            ffi::METH_O,
            c"validate($self, target, /)\n--\n\n\
              Validate the value with pydantic, straight from its bytes, on every call.\n\n\
              Args:\n    target: A subclass of `pydantic.BaseModel`, a `pydantic.TypeAdapter`, or \
              a type that one\n        can be made for.\n\n\
              Raises:\n    JSONDecodeError: This is an error frame, whose `kind` it has.\n    \
              SchemaError: It is JSON that the model refuses. pydantic's error is the cause.\n    \
              TornError: The stream ended inside this value.\n    \
              ImportError: pydantic 2 is not installed.\n    \
              TypeError: `target` is nothing that pydantic can validate.\n",
        ),
        method(c"__copy__", copy, ffi::METH_NOARGS, c"__copy__($self, /)\n--\n\n"),
        method(c"__deepcopy__", copy, ffi::METH_O, c"__deepcopy__($self, memo, /)\n--\n\n"),
        method(c"__reduce__", reduce, ffi::METH_NOARGS, c"__reduce__($self, /)\n--\n\n"),
        method(
            c"_restore",
            restore,
            ffi::METH_VARARGS | ffi::METH_CLASS,
            c"_restore($type, raw, kind, torn, offset, /)\n--\n\n\
              Build a frame from its whole state.",
        ),
    ];
    let class = new_type(
        py,
        c"seamstream.Frame",
        size_of::<Frame>(),
        0,
        &[
            (ffi::Py_tp_doc, DOC.as_ptr().cast_mut().cast()),
            (ffi::Py_tp_members, table(members, no_member)),
            (ffi::Py_tp_getset, table(getters, no_getter)),
            (ffi::Py_tp_methods, table(methods, no_method)),
            (ffi::Py_tp_new, construct as *mut c_void),
            (ffi::Py_tp_dealloc, dealloc as *mut c_void),
            (ffi::Py_tp_repr, repr as *mut c_void),
            (ffi::Py_tp_hash, hash as *mut c_void),
            (ffi::Py_tp_richcompare, compare as *mut c_void),
        ],
    )?;
    class.bind(py).setattr("__match_args__", ("raw", "kind"))?;
    freeze(&class);
    Ok(class)
}

/// Makes the type, and adds it.
pub(crate) fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let class = frame_type(module.py())?;
    module.add("Frame", class.bind(module.py()))?;
    TYPE.set(class)
        .map_err(|_| PyImportError::new_err("seamstream._core can be loaded once in a process"))
}
