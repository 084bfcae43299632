//! `Event`: laid out so that the payload is copied once and nothing else is made per event.
//!
//! Attributes that users read are object slots (`T_OBJECT_EX`: 4 ns, a getter is 16). There
//! is no GC header: an event refers to exact `str`, `bytes`, `int`, `bool` and None, and to
//! the stream context, which refers neither to events nor to the decoder.

use crate::get::{self, Functions, Memos};
use crate::raw::{Object, Raised, Spares, Strong, bytes_of, drop_bytes, guard, guard_py, new_text};
use crate::types::{
    compare_by, copy, fast_method, freeze, getter, hash_by, member, method, new_type, table,
};
use crate::value::{Text, VALIDATE_TEXT, Validation, raise_torn};
use pyo3::exceptions::{PyImportError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyInt, PyString, PyTuple};
use seamstream::json_stream::names_non_finite;
use seamstream::sse::{is_done, trim_json_whitespace};
use seamstream::utf8::count_replaced;
use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::mem::offset_of;
use std::ptr;
use std::sync::OnceLock;

/// How much of the data `repr` shows, in characters.
const REPR_CHARACTERS: usize = 80;

/// `Event.parse_error`, cached.
const UNKNOWN: u8 = 0;
const NOTHING: u8 = 1;
const SYNTAX: u8 = 2;
const TORN: u8 = 3;
const LOADS: u8 = 4;

#[repr(C)]
struct Event {
    base: ffi::PyObject,
    event: Object,
    id: Object,
    retry: Object,
    raw: Object,
    is_done: Object,
    /// Null until `data` is first read.
    data: Cell<Object>,
    /// Null without `keep_wire`.
    wire: Object,
    /// Null when the decoder has no `loads`, and by hand.
    context: Object,
    offset: u64,
    replaced: u32,
    torn: bool,
    parse_error: Cell<u8>,
}

/// What the events of one stream share.
#[repr(C)]
struct StreamContext {
    base: ffi::PyObject,
    /// Null for orjson.
    loads: Object,
    memos: Memos,
}

/// What an event is made of besides its references.
pub(crate) struct Facts {
    pub torn: bool,
    pub replaced: u64,
    pub offset: u64,
}

/// Objects that are made once, at import.
pub(crate) struct Shared {
    event_type: Strong,
    context_type: Strong,
    pub message: Strong,
    pub empty_text: Strong,
    pub empty_tuple: Strong,
    pub none: Strong,
    yes: Strong,
    no: Strong,
    /// Event types that the big APIs send, so that they cost no new `str`.
    names: Vec<(&'static str, Strong)>,
    /// The kinds of error frames, as `seamstream::json_stream::Kind` has them.
    pub kinds: [Strong; 5],
}

static SHARED: OnceLock<Shared> = OnceLock::new();

const WELL_KNOWN: [&str; 24] = [
    "message",
    "content_block_delta",
    "response.output_text.delta",
    "ping",
    "error",
    "delta",
    "message_start",
    "message_delta",
    "message_stop",
    "content_block_start",
    "content_block_stop",
    "response.created",
    "response.in_progress",
    "response.completed",
    "response.output_item.added",
    "response.output_item.done",
    "response.content_part.added",
    "response.content_part.done",
    "response.output_text.done",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "thread.message.delta",
    "completion",
    "done",
];

#[inline(always)]
pub(crate) fn shared() -> &'static Shared {
    SHARED.get().expect("the module has been initialised")
}

impl Shared {
    /// The `str` of a well-known event type.
    pub fn well_known(&self, name: &[u8]) -> Option<&Strong> {
        self.names.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, object)| object)
    }
}

/// A new event. `retry` is None without one, `wire` and `context` may be absent.
#[inline(always)]
pub(crate) fn new_event(
    shared: &Shared,
    [event, id, retry, raw]: [Strong; 4],
    [wire, context]: [Option<Strong>; 2],
    facts: &Facts,
) -> Result<Strong, Raised> {
    let done = !facts.torn && is_done(payload_of(&raw));
    // SAFETY: `Event` is what the type's size was taken from, so every field written lies in the
    // new object; all are written before anybody sees it. Each reference is given away once.
    unsafe {
        let object = match SHELLS.take() {
            Some(shell) => Strong::borrowed(shell.as_ptr()),
            None => new_shell(shared)?,
        };
        let made = object.as_ptr().cast::<Event>();
        (*made).event = event.into_ptr();
        (*made).id = id.into_ptr();
        (*made).retry = retry.into_ptr();
        (*made).raw = raw.into_ptr();
        (*made).is_done = if done { &shared.yes } else { &shared.no }.clone().into_ptr();
        (*made).data = Cell::new(ptr::null_mut());
        (*made).wire = wire.map_or(ptr::null_mut(), Strong::into_ptr);
        (*made).context = context.map_or(ptr::null_mut(), Strong::into_ptr);
        (*made).offset = facts.offset;
        (*made).replaced = u32::try_from(facts.replaced).unwrap_or(u32::MAX);
        (*made).torn = facts.torn;
        (*made).parse_error = Cell::new(if facts.torn { TORN } else { UNKNOWN });
        Ok(object)
    }
}

/// An event of which no field has been written.
#[inline(never)]
fn new_shell(shared: &Shared) -> Result<Strong, Raised> {
    let kind = shared.event_type.as_ptr().cast::<ffi::PyTypeObject>();
    // SAFETY: a live type; a new object or null.
    unsafe { Strong::owned(ffi::PyObject_New::<ffi::PyObject>(kind)) }
}

/// A time in milliseconds as an `int`, or None.
#[inline(always)]
pub(crate) fn new_retry(shared: &Shared, time: Option<u64>) -> Result<Strong, Raised> {
    match time {
        None => Ok(shared.none.clone()),
        // SAFETY: a plain number; null on failure.
        Some(time) => unsafe { Strong::owned(ffi::PyLong_FromUnsignedLongLong(time)) },
    }
}

/// What a decoder gives its events; without `loads` they parse with orjson.
#[cold]
pub(crate) fn new_context(loads: Option<Strong>) -> Result<Strong, Raised> {
    let shared = shared();
    // SAFETY: as in `new_event`.
    unsafe {
        let object = Strong::owned(ffi::PyObject_New::<ffi::PyObject>(
            shared.context_type.as_ptr().cast::<ffi::PyTypeObject>(),
        ))?;
        let context = object.as_ptr().cast::<StreamContext>();
        (*context).loads = loads.map_or(ptr::null_mut(), Strong::into_ptr);
        (&raw mut (*context).memos).write(Memos::default());
        Ok(object)
    }
}

/// The context of a decoder, made when its first event is.
#[inline(always)]
pub(crate) fn context_in(slot: &mut Option<Strong>) -> Result<Strong, Raised> {
    if slot.is_none() {
        *slot = Some(new_context(None)?);
    }
    slot.clone().ok_or(Raised)
}

/// The memos of a context, if there is one.
///
/// # Safety
/// `context` is null or a live context that outlives the reference.
#[inline(always)]
pub(crate) unsafe fn memos_of<'a>(context: Object) -> Option<&'a Memos> {
    // SAFETY: the caller's promise.
    unsafe { context.cast::<StreamContext>().as_ref() }.map(|context| &context.memos)
}

/// The `loads` of a context, or null when there is none.
///
/// # Safety
/// `context` is null or a live context.
#[inline(always)]
pub(crate) unsafe fn loads_of(context: Object) -> Object {
    if context.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the caller's promise.
    unsafe { (*context.cast::<StreamContext>()).loads }
}

/// `loads`, if nobody but the caller has this context: what a garbage collector may be told.
pub(crate) fn sole_loads(context: &Strong) -> Option<Object> {
    // SAFETY: a live context.
    unsafe {
        (ffi::Py_REFCNT(context.as_ptr()) == 1)
            .then(|| loads_of(context.as_ptr()))
            .filter(|loads| !loads.is_null())
    }
}

/// The context for a new connection: the same `loads`, nothing remembered.
pub(crate) fn renewed_context(old: Option<&Strong>) -> Result<Option<Strong>, Raised> {
    // SAFETY: null, or live contexts and what they own.
    unsafe {
        let loads = loads_of(old.map_or(ptr::null_mut(), Strong::as_ptr));
        if loads.is_null() {
            Ok(None)
        } else {
            new_context(Some(Strong::borrowed(loads))).map(Some)
        }
    }
}

/// Takes the `loads` out of a context that nobody but the caller has, for the garbage collector;
/// what comes is to be dropped where its end may run the caller's code.
pub(crate) fn take_loads(context: &Strong) -> Option<Strong> {
    sole_loads(context)?;
    // SAFETY: a live context, whose `loads` is owned by it.
    unsafe {
        let slot = &raw mut (*context.as_ptr().cast::<StreamContext>()).loads;
        Strong::owned(slot.replace(shared().none.clone().into_ptr())).ok()
    }
}

/// The payload of an event, as `pull` compares it with its sentinel; a torn one has none.
pub(crate) fn whole_payload(event: &Strong) -> Option<&[u8]> {
    // SAFETY: a live event, whose payload is exact `bytes` and lives as long.
    unsafe {
        let event = event.as_ptr().cast::<Event>();
        (!(*event).torn).then(|| bytes_of((*event).raw))
    }
}

fn payload_of(raw: &Strong) -> &[u8] {
    // SAFETY: every `raw` is made as exact `bytes`.
    unsafe { bytes_of(raw.as_ptr()) }
}

unsafe extern "C" fn event_dealloc(object: Object) {
    // SAFETY: called once, by the last reference, with an event. The type has one reference
    // for each of its objects; memory that becomes a shell is nobody's.
    unsafe {
        let event = object.cast::<Event>();
        for field in [(*event).event, (*event).id, (*event).retry, (*event).is_done] {
            ffi::Py_DECREF(field);
        }
        for field in [(*event).data.get(), (*event).wire] {
            ffi::Py_XDECREF(field);
        }
        if (*event).context.is_null() {
            ffi::Py_DECREF((*event).raw); // a caller has made it
        } else {
            drop_bytes((*event).raw);
            ffi::Py_DECREF((*event).context);
        }
        // With its type: a shell is an event again when its count is no longer 0.
        if !SHELLS.keep(object) {
            let kind = ffi::Py_TYPE(object);
            ffi::PyObject_Free(object.cast());
            ffi::Py_DECREF(kind.cast());
        }
    }
}

/// Memory of events that are gone: 8 of the 50 ns that an event may cost, for 6 KiB.
static SHELLS: Spares = Spares::new();

unsafe extern "C" fn context_dealloc(object: Object) {
    // SAFETY: as in `event_dealloc`.
    unsafe {
        let context = object.cast::<StreamContext>();
        ffi::Py_XDECREF((*context).loads);
        ptr::drop_in_place(&raw mut (*context).memos);
        let kind = ffi::Py_TYPE(object);
        ffi::PyObject_Free(object.cast());
        ffi::Py_DECREF(kind.cast());
    }
}

/// An event as the safe layer below sees it.
#[derive(Clone, Copy)]
struct Ref(*mut Event);

impl Ref {
    /// # Safety
    /// `object` is an event that stays alive meanwhile.
    unsafe fn new(object: Object) -> Self {
        Ref(object.cast())
    }

    fn get(&self) -> &Event {
        // SAFETY: `new` was promised a live event, of which only the two caches change.
        unsafe { &*self.0 }
    }

    fn slot<'py>(py: Python<'py>, field: Object) -> Bound<'py, PyAny> {
        // SAFETY: the callers' slots hold live objects, or null for none.
        unsafe { Bound::from_borrowed_ptr_or_opt(py, field) }
            .unwrap_or_else(|| py.None().into_bound(py))
    }

    /// The payload as text, made once.
    fn data(self) -> Result<Strong, Raised> {
        let slot = &self.get().data;
        if slot.get().is_null() {
            // To make a text runs no code that could have made it meanwhile.
            slot.set(new_text(self.text().raw())?.into_ptr());
        }
        // SAFETY: an object that the event owns from now on.
        Ok(unsafe { Strong::borrowed(slot.get()) })
    }

    /// The payload and its parser.
    #[inline(always)]
    fn text(&self) -> Text {
        let event = self.get();
        // SAFETY: an event's payload is exact `bytes`, and its context null or live.
        unsafe { Text::new(event.raw, loads_of(event.context)) }
    }

    /// What `json` gives or raises.
    fn value_of_json(self) -> Result<Strong, Raised> {
        if self.get().torn {
            return self.json_failure();
        }
        self.text().parse().or_else(|Raised| self.json_failure())
    }

    /// What `json` raises: there is no payload, or the parser's exception is set.
    #[cold]
    fn json_failure(self) -> Result<Strong, Raised> {
        if self.get().torn {
            raise_torn(self.get().offset);
        } else {
            self.text().explain_refusal();
        }
        Err(Raised)
    }

    fn value(self) -> Result<Strong, Raised> {
        if self.get().torn {
            return self.data();
        }
        self.text().parse().or_else(|Raised| {
            if !Text::is_refusal() {
                return Err(Raised);
            }
            // SAFETY: an exception is set, and it is not wanted.
            unsafe { ffi::PyErr_Clear() };
            self.data()
        })
    }

    fn parse_error(self) -> Result<Strong, Raised> {
        let known = &self.get().parse_error;
        if known.get() == UNKNOWN {
            known.set(self.find_parse_error()?);
        }
        let text = match known.get() {
            SYNTAX => "syntax",
            TORN => "torn",
            LOADS => "loads",
            _ => return Ok(shared().none.clone()),
        };
        new_text(text.as_bytes())
    }

    fn find_parse_error(self) -> Result<u8, Raised> {
        let text = self.text();
        let payload = trim_json_whitespace(text.raw());
        if !matches!(payload.first(), Some(b'{' | b'[')) || payload == b"[DONE]" {
            return Ok(NOTHING);
        }
        if self.text().parse().is_ok() {
            return Ok(NOTHING);
        }
        let found = if Text::is_refusal() { SYNTAX } else { LOADS };
        // Not what ends a program: KeyboardInterrupt, say.
        // SAFETY: an exception is set; cleared when it is an `Exception`.
        unsafe {
            if ffi::PyErr_ExceptionMatches(ffi::PyExc_Exception) == 0 {
                return Err(Raised);
            }
            ffi::PyErr_Clear();
        }
        Ok(found)
    }

    /// What equality and hash are over.
    fn key<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let event = self.get();
        let [kind, raw, id, retry] =
            [event.event, event.raw, event.id, event.retry].map(|field| Self::slot(py, field));
        (kind, raw, id, retry, event.torn).into_pyobject(py)
    }

    fn repr(self, py: Python<'_>) -> PyResult<String> {
        let event = self.get();
        let text = self.data().map_err(|Raised| PyErr::fetch(py))?.bind(py);
        let text = text.cast::<PyString>()?.to_cow()?.into_owned();
        let cut = text.char_indices().nth(REPR_CHARACTERS).map(|(at, _)| at);
        let shown = PyString::new(py, cut.map_or(&text[..], |at| &text[..at])).repr()?;
        Ok(format!(
            "Event(event={}, id={}, data={shown}{}{})",
            Self::slot(py, event.event).repr()?,
            Self::slot(py, event.id).repr()?,
            if cut.is_some() { "..." } else { "" },
            if event.torn { ", torn=True" } else { "" },
        ))
    }
}

/// Makes a C entry that takes an event out of a safe function.
macro_rules! entry {
    ($name:ident, $method:ident) => {
        unsafe extern "C" fn $name(object: Object, _: *mut c_void) -> Object {
            // SAFETY: Python calls this with an event, which it keeps alive.
            guard(|| unsafe { Ref::new(object) }.$method())
        }
    };
}

entry!(get_data, data);
entry!(get_value, value);
entry!(get_parse_error, parse_error);

unsafe extern "C" fn get_torn(object: Object, _: *mut c_void) -> Object {
    // SAFETY: as in `entry`.
    let torn = unsafe { Ref::new(object) }.get().torn;
    let shared = shared();
    if torn { &shared.yes } else { &shared.no }.clone().into_ptr()
}

unsafe extern "C" fn get_replaced(object: Object, _: *mut c_void) -> Object {
    // SAFETY: as in `entry`.
    unsafe { ffi::PyLong_FromUnsignedLong(Ref::new(object).get().replaced.into()) }
}

unsafe extern "C" fn get_offset(object: Object, _: *mut c_void) -> Object {
    // SAFETY: as in `entry`.
    unsafe { ffi::PyLong_FromUnsignedLongLong(Ref::new(object).get().offset) }
}

unsafe extern "C" fn get_wire(object: Object, _: *mut c_void) -> Object {
    // SAFETY: as in `entry`; null is None.
    unsafe {
        let wire = Ref::new(object).get().wire;
        let wire = if wire.is_null() { ffi::Py_None() } else { wire };
        Strong::borrowed(wire).into_ptr()
    }
}

unsafe extern "C" fn json(object: Object, _: Object) -> Object {
    // SAFETY: as in `entry`. Nothing here can panic, so a success needs no guard.
    let event = unsafe { Ref::new(object) };
    if !event.get().torn
        && let Ok(value) = event.text().parse()
    {
        return value.into_ptr();
    }
    guard(|| event.json_failure())
}

unsafe extern "C" fn validate(object: Object, target: Object) -> Object {
    static VALIDATE_EVENT: Validation = Validation::new("validate_event");
    // SAFETY: as in `entry`.
    let event = unsafe { Ref::new(object) };
    if event.get().torn || names_non_finite(event.text().raw()) {
        return VALIDATE_EVENT.call(object, target);
    }
    VALIDATE_TEXT.call(event.get().raw, target)
}

unsafe extern "C" fn get(
    object: Object,
    args: *const Object,
    count: ffi::Py_ssize_t,
    names: Object,
) -> Object {
    // SAFETY: as in `entry`; the arguments are Python's, and stay alive.
    guard(|| unsafe {
        let (path, default) = get::arguments("get() takes a path", args, count, names)?;
        let event = Ref::new(object);
        let context = event.get().context;
        if event.get().torn || !loads_of(context).is_null() {
            return get::walk(|| event.value_of_json(), Functions::of_one, path, default);
        }
        // What a decoder has made it has looked at, if it counted nothing there.
        let is_utf8 = !context.is_null() && event.get().replaced == 0;
        get::get(event.text(), is_utf8, memos_of(context), path, default)
    })
}

unsafe extern "C" fn get_many(
    object: Object,
    args: *const Object,
    count: ffi::Py_ssize_t,
    names: Object,
) -> Object {
    // SAFETY: as in `entry`; the arguments are Python's, and stay alive.
    guard(|| unsafe {
        let (paths, default) = get::arguments("get_many() takes paths", args, count, names)?;
        let event = Ref::new(object);
        let context = event.get().context;
        if event.get().torn || !loads_of(context).is_null() {
            return get::walk(|| event.value_of_json(), Functions::of_many, paths, default);
        }
        // What a decoder has made it has looked at, if it counted nothing there.
        let is_utf8 = !context.is_null() && event.get().replaced == 0;
        get::get_many(event.text(), is_utf8, memos_of(context), paths, default)
    })
}

unsafe extern "C" fn event_repr(object: Object) -> Object {
    // SAFETY: as in `entry`.
    let event = unsafe { Ref::new(object) };
    guard_py(|py| Ok(event.repr(py)?.into_pyobject(py)?.into_any()))
}

unsafe extern "C" fn event_hash(object: Object) -> ffi::Py_hash_t {
    // SAFETY: as in `entry`.
    hash_by(|py| unsafe { Ref::new(object) }.key(py))
}

unsafe extern "C" fn event_compare(one: Object, other: Object, op: c_int) -> Object {
    // SAFETY: as in `entry`; the key is asked of events alone.
    unsafe { compare_by(|py, event| Ref::new(event).key(py), one, other, op) }
}

unsafe extern "C" fn reduce(object: Object, _: Object) -> Object {
    // SAFETY: as in `entry`.
    let reference = unsafe { Ref::new(object) };
    guard_py(|py| {
        let event = reference.get();
        let [kind, id, retry, raw, wire] =
            [event.event, event.id, event.retry, event.raw, event.wire]
                .map(|field| Ref::slot(py, field));
        let restore = py.import("seamstream._backend")?.getattr("_restore_event")?;
        let state = (kind, id, retry, raw, event.torn, event.replaced, event.offset, wire);
        Ok((restore, state).into_pyobject(py)?.into_any())
    })
}

/// Checks an argument's type; an instance of a subclass becomes one of the type itself.
pub(crate) fn exact<'py, T: pyo3::PyTypeInfo>(
    name: &str,
    wanted: &str,
    value: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    let kind = py.get_type::<T>();
    if value.get_type().is(&kind) {
        return Ok(value.clone());
    }
    if !value.is_instance_of::<T>() || value.is_instance_of::<PyBool>() {
        let given = value.get_type().name()?;
        return Err(PyTypeError::new_err(format!("{name} must be {wanted}, not {given}")));
    }
    // The type's own conversion, not one that the subclass may have changed.
    if let Ok(text) = value.cast::<PyString>() {
        // SAFETY: a live `str`; gives a new reference or null.
        return unsafe {
            Bound::from_owned_ptr_or_err(py, ffi::PyUnicode_FromObject(text.as_ptr()))
        };
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(PyBytes::new(py, bytes.as_bytes()).into_any());
    }
    py.get_type::<PyInt>().call_method1("__add__", (value, 0))
}

/// The arguments of a constructor that takes keywords only.
pub(crate) fn keywords<'py, const N: usize>(
    class: &str,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
    names: [&str; N],
) -> PyResult<[Option<Bound<'py, PyAny>>; N]> {
    if !args.is_empty() {
        return Err(PyTypeError::new_err(format!("{class}() takes keyword arguments only")));
    }
    let mut found = [const { None }; N];
    for (name, value) in kwargs.into_iter().flatten() {
        let name = name.extract::<String>()?;
        let Some(at) = names.iter().position(|known| *known == name) else {
            let message = format!("{class}() got an unexpected keyword argument '{name}'");
            return Err(PyTypeError::new_err(message));
        };
        found[at] = Some(value);
    }
    Ok(found)
}

fn construct<'py>(
    py: Python<'py>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let [data, event, id, retry, torn] =
        keywords("Event", args, kwargs, ["data", "event", "id", "retry", "torn"])?;
    let data = data.ok_or_else(|| {
        PyTypeError::new_err("Event() is missing the required keyword argument 'data'")
    })?;
    let raw = if data.is_instance_of::<PyString>() {
        let text = exact::<PyString>("data", "str or bytes", &data)?;
        // SAFETY: an exact `str`; gives a new reference or null (a lone surrogate).
        unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyUnicode_AsUTF8String(text.as_ptr()))? }
    } else {
        exact::<PyBytes>("data", "str or bytes", &data)?
    };
    let shared = shared();
    let event = match event {
        None => shared.message.clone(),
        Some(event) if event.is_none() => shared.none.clone(),
        Some(event) => Strong::from_bound(exact::<PyString>("event", "str or None", &event)?),
    };
    let id = match id {
        None => shared.empty_text.clone(),
        Some(id) => Strong::from_bound(exact::<PyString>("id", "str", &id)?),
    };
    let retry = match retry {
        Some(retry) if !retry.is_none() => Some(exact::<PyInt>("retry", "int or None", &retry)?),
        _ => None,
    };
    if let Some(retry) = &retry
        && retry.lt(0)?
    {
        return Err(PyValueError::new_err("retry must be 0 or more milliseconds"));
    }
    let torn = match torn {
        None => false,
        Some(torn) => {
            torn.cast::<PyBool>().map_err(|_| PyTypeError::new_err("torn must be bool"))?.is_true()
        }
    };
    let replaced = count_replaced(raw.cast::<PyBytes>()?.as_bytes());
    let raw = Strong::from_bound(raw);
    build(py, event, id, retry, raw, torn, replaced, 0, None)
}

/// An event from its whole state; `retry` may be of any size.
#[allow(clippy::too_many_arguments)]
fn build<'py>(
    py: Python<'py>,
    event: Strong,
    id: Strong,
    retry: Option<Bound<'py, PyAny>>,
    raw: Strong,
    torn: bool,
    replaced: u64,
    offset: u64,
    wire: Option<Strong>,
) -> PyResult<Bound<'py, PyAny>> {
    let shared = shared();
    let retry = retry.map_or_else(|| shared.none.clone(), Strong::from_bound);
    let facts = Facts { torn, replaced, offset };
    let made = new_event(shared, [event, id, retry, raw], [wire, None], &facts);
    Ok(made.map_err(|Raised| PyErr::fetch(py))?.bind(py))
}

unsafe extern "C" fn event_new(_: *mut ffi::PyTypeObject, args: Object, kwargs: Object) -> Object {
    guard_py(|py| {
        // SAFETY: Python calls this with a tuple, and a dict or null.
        let (args, kwargs) = unsafe {
            (Bound::from_borrowed_ptr(py, args), Bound::from_borrowed_ptr_or_opt(py, kwargs))
        };
        let kwargs = kwargs.as_ref().map(|kwargs| kwargs.cast::<PyDict>()).transpose()?;
        construct(py, args.cast::<PyTuple>()?, kwargs)
    })
}

type Any<'py> = Bound<'py, PyAny>;

unsafe extern "C" fn restore(_: Object, args: Object) -> Object {
    guard_py(|py| {
        // SAFETY: Python calls this with a tuple.
        let args = unsafe { Bound::from_borrowed_ptr(py, args) };
        let (event, id, retry, raw, torn, replaced, offset, wire) =
            args.extract::<(Any<'_>, Any<'_>, _, Any<'_>, bool, u64, u64, _)>()?;
        let (retry, wire): (Option<Any<'_>>, Option<Any<'_>>) = (retry, wire);
        let event = if event.is_none() {
            event
        } else {
            exact::<PyString>("event", "str or None", &event)?
        };
        let retry = retry.map(|retry| exact::<PyInt>("retry", "int", &retry)).transpose()?;
        let wire = wire.map(|wire| exact::<PyBytes>("wire", "bytes", &wire)).transpose()?;
        build(
            py,
            Strong::from_bound(event),
            Strong::from_bound(exact::<PyString>("id", "str", &id)?),
            retry,
            Strong::from_bound(exact::<PyBytes>("raw", "bytes", &raw)?),
            torn,
            replaced,
            offset,
            wire.map(Strong::from_bound),
        )
    })
}

const DOC: &CStr = c"Event(*, data, event='message', id='', retry=None, torn=False)\n--\n\n\
One event of an event stream. It is immutable.\n\n\
Equality and hash are over `(event, raw, id, retry, torn)`. Pickles load on either backend;\n\
`loads` is not part of them.\n\n\
Args:\n    data: The payload; `str` is encoded as UTF-8.\n    event: The event type.\n    \
id: The last event ID.\n    retry: The reconnection time in milliseconds, 0 or more.\n    \
torn: Whether the stream ended inside this event.\n\n\
Raises:\n    TypeError: An argument has the wrong type.\n    ValueError: `retry` is negative.\n    \
UnicodeEncodeError: `data` is a `str` that UTF-8 cannot hold.\n";

fn event_type(py: Python<'_>) -> PyResult<Strong> {
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
            c"event",
            offset_of!(Event, event),
            c"Event type; when the block named none `\"message\"`, or None if the profile says so.",
        ),
        member(
            c"id",
            offset_of!(Event, id),
            c"Last event ID at the dispatch, from this block or an earlier one.",
        ),
        member(
            c"retry",
            offset_of!(Event, retry),
            c"Reconnection time that this block set, in milliseconds, or None.",
        ),
        member(
            c"raw",
            offset_of!(Event, raw),
            c"Payload exactly as sent: the data lines joined by LF.",
        ),
        member(
            c"is_done",
            offset_of!(Event, is_done),
            c"Whether the payload is the sentinel `[DONE]`, white space around it ignored.",
        ),
    ];
    let getters = vec![
        getter(
            c"data",
            get_data,
            c"The payload as text, with U+FFFD for its ill-formed parts.\n\nDecoded on first access.",
        ),
        getter(c"torn", get_torn, c"Whether the stream ended inside this event."),
        getter(
            c"replaced",
            get_replaced,
            c"How many U+FFFD decoding puts into the data, the event type and the id of this block; \
              those that were sent do not count.",
        ),
        getter(
            c"offset",
            get_offset,
            c"Absolute position in the stream of the first line that is neither empty nor a \
              comment, in bytes; of the empty line when there is none.",
        ),
        getter(
            c"parse_error",
            get_parse_error,
            c"What is wrong with a payload that should be JSON; None when nothing is.\n\n\
              \"torn\" for a torn event. A payload that begins, after white space, with `{` or `[` \
              and\nis not the sentinel should be JSON: \"syntax\" when it is not, \"loads\" when \
              the decoder's\n`loads` raised something that is neither `ValueError` nor \
              `RecursionError`. It never\nraises, parses on first access, and is cached.",
        ),
        getter(
            c"value",
            get_value,
            c"The payload parsed as JSON, or `data` when it is not JSON or torn.\n\n\
              Parses on every access.",
        ),
        getter(c"wire", get_wire, c"The whole block as it came, with `keep_wire`; else None."),
    ];
    let methods = vec![
        method(
            c"json",
            json,
            ffi::METH_NOARGS,
            c"json($self, /)\n--\n\n\
              Parse the payload as JSON, anew on every call.\n\n\
              orjson on `raw`: RFC 8259, well-formed UTF-8, no NaN; integers beyond 64 bits become\n\
              floats (`loads=json.loads` keeps them).\n\n\
              Raises:\n    JSONDecodeError: The payload is not JSON: `loads` raised `ValueError` \
              or\n        `RecursionError`, which is the cause. Its `offset` is within `raw`.\n    \
              TornError: The stream ended inside this event.\n",
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
              Raises:\n    JSONDecodeError: The payload is not JSON, in whatever part of it.\n    \
              TornError: The stream ended inside this event.\n    \
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
              Raises:\n    JSONDecodeError: The payload is not JSON, in whatever part of it.\n    \
              TornError: The stream ended inside this event.\n    \
              TypeError: `paths` is no tuple or list, or a path, or a part of it, has the wrong\n        type.\n    \
              ValueError: An index is negative, or a name is not Unicode text.\n",
        ),
        method(
            c"validate",
            validate,
            ffi::METH_O,
            c"validate($self, target, /)\n--\n\n\
              Validate the payload with pydantic, straight from its bytes, on every call.\n\n\
              Args:\n    target: A subclass of `pydantic.BaseModel`, a `pydantic.TypeAdapter`, or \
              a type that one\n        can be made for.\n\n\
              Raises:\n    JSONDecodeError: The payload is not JSON, as for `json()`.\n    \
              SchemaError: It is JSON that the model refuses. pydantic's error is the cause.\n    \
              TornError: The stream ended inside this event.\n    \
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
            c"_restore($type, event, id, retry, raw, torn, replaced, offset, wire, /)\n--\n\n\
              Build an event from its whole state.",
        ),
    ];
    let kind = new_type(
        py,
        c"seamstream.Event",
        size_of::<Event>(),
        0,
        &[
            (ffi::Py_tp_doc, DOC.as_ptr().cast_mut().cast()),
            (ffi::Py_tp_members, table(members, no_member)),
            (ffi::Py_tp_getset, table(getters, no_getter)),
            (ffi::Py_tp_methods, table(methods, no_method)),
            (ffi::Py_tp_new, event_new as *mut c_void),
            (ffi::Py_tp_dealloc, event_dealloc as *mut c_void),
            (ffi::Py_tp_repr, event_repr as *mut c_void),
            (ffi::Py_tp_hash, event_hash as *mut c_void),
            (ffi::Py_tp_richcompare, event_compare as *mut c_void),
        ],
    )?;
    kind.bind(py).setattr("__match_args__", ("event", "data", "id", "retry"))?;
    freeze(&kind);
    Ok(kind)
}

/// Makes the types and the shared objects, and adds `Event`.
pub(crate) fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let context_type = new_type(
        py,
        c"seamstream._core.StreamContext",
        size_of::<StreamContext>(),
        ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION,
        &[(ffi::Py_tp_dealloc, context_dealloc as *mut c_void)],
    )?;
    let text = |text: &str| Strong::from_bound(PyString::intern(py, text).into_any());
    let truth = |is: bool| Strong::from_bound(PyBool::new(py, is).to_owned().into_any());
    let made = Shared {
        event_type: event_type(py)?,
        context_type,
        message: text("message"),
        empty_text: text(""),
        empty_tuple: Strong::from_bound(PyTuple::empty(py).into_any()),
        none: Strong::from_bound(py.None().into_bound(py)),
        yes: truth(true),
        no: truth(false),
        kinds: ["syntax", "garbage", "separator", "truncated", "oversize"].map(text),
        names: WELL_KNOWN.iter().map(|&name| (name, text(name))).collect(),
    };
    module.add("Event", made.event_type.bind(py))?;
    SHARED
        .set(made)
        .map_err(|_| PyImportError::new_err("seamstream._core can be loaded once in a process"))
}
