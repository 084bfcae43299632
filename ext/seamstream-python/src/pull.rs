//! Iterators over the events of a source of chunks, for `for` and `async for`.
//!
//! No tuple for a chunk, no generator frame, and no coroutine for an event that is ready:
//! `__anext__` answers with an awaitable that is used again once it is done.

use crate::errors;
use crate::frame;
use crate::machine::Pulled;
use crate::raw::{Object, Raised, Strong, guard};
use crate::types::{method, new_type, table};
use pyo3::exceptions::{PyRuntimeError, PyStopIteration, PyTypeError};
use pyo3::ffi;
use pyo3::ffi::PySendResult;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};
use seamstream::sse::trim_json_whitespace;
use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Iterators are told apart by number: an address may be used again.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

struct Types {
    iterator: Strong,
    async_iterator: Strong,
    anext: Strong,
}

static TYPES: OnceLock<Types> = OnceLock::new();

fn types() -> &'static Types {
    TYPES.get().expect("the module has been initialised")
}

/// Tells what an iterator can ask of its decoder, which is given as an object.
pub(crate) type Ask = unsafe fn(Object) -> &'static dyn Pulled;

/// What both kinds of iterator have.
struct Pull {
    decoder: Strong,
    ask: Ask,
    /// None when nothing more is to be pulled.
    source: Option<Strong>,
    done: Option<Strong>,
    /// What the end of the stream settled, oldest last.
    last: Vec<Strong>,
    number: u64,
    /// The source is being asked; it must not ask back.
    asking: bool,
}

/// Sets the exception for a second one that asks.
#[cold]
fn already_asking<T>() -> Result<T, Raised> {
    raise(|py| errors::state(py, "this iterator is waiting for its source"))
}

impl Pull {
    #[inline(always)]
    fn decoder(&self) -> &dyn Pulled {
        // SAFETY: `ask` was given together with `decoder`, which is kept.
        unsafe { (self.ask)(self.decoder.as_ptr()) }
    }

    /// The next item of the chunk in hand. Another iterator's turn is no reason to end.
    #[inline(always)]
    fn ready(&mut self) -> Result<Option<Strong>, Raised> {
        if self.source.is_none() {
            return Ok(self.last.pop());
        }
        match self.decoder().next(self.number)? {
            Ok(Some(item)) => Ok(self.unless_done(item)),
            Ok(None) => Ok(None),
            Err(Raised) => {
                self.source = None;
                Err(Raised)
            }
        }
    }

    /// The event, or None when it is the one that ends the stream.
    #[inline(always)]
    fn unless_done(&mut self, event: Strong) -> Option<Strong> {
        let Some(done) = &self.done else { return Some(event) };
        // SAFETY: `done` is exact `bytes`.
        let done = unsafe { crate::raw::bytes_of(done.as_ptr()) };
        if frame::whole_payload(&event).map(trim_json_whitespace) != Some(done) {
            return Some(event);
        }
        self.source = None;
        self.release();
        None
    }

    #[inline(always)]
    fn take_chunk(&mut self, chunk: Strong) -> Result<(), Raised> {
        let taken = self.decoder().take_chunk(self.number, chunk);
        if taken.is_err() {
            self.source = None;
        }
        taken
    }

    /// The source has ended: the first of what that settles.
    fn end(&mut self) -> Result<Option<Strong>, Raised> {
        self.source = None;
        let items = self.decoder().end()?;
        // SAFETY: `end` gives a tuple.
        let size = unsafe { ffi::PyTuple_GET_SIZE(items.as_ptr()) };
        for at in 0..size {
            // SAFETY: within the tuple's size.
            let item = unsafe { Strong::borrowed(ffi::PyTuple_GET_ITEM(items.as_ptr(), at)) };
            match self.unless_done(item) {
                Some(item) => self.last.push(item),
                None => break,
            }
        }
        self.last.reverse();
        Ok(self.last.pop())
    }

    fn release(&mut self) {
        self.decoder().release(self.number);
    }
}

/// Runs `body` with the exception that is set put aside.
fn with_no_exception(body: impl FnOnce()) {
    // SAFETY: fetched and restored once, with the GIL held.
    unsafe {
        let (mut kind, mut value, mut traceback) =
            (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        #[allow(deprecated)] // its successor is there from 3.12 on
        ffi::PyErr_Fetch(&raw mut kind, &raw mut value, &raw mut traceback);
        body();
        #[allow(deprecated)]
        ffi::PyErr_Restore(kind, value, traceback);
    }
}

/// Shows an object's type and what else it refers to to the garbage collector.
///
/// # Safety
/// The arguments are those of `tp_traverse`, and what `object` refers to.
unsafe fn show<const N: usize>(
    object: Object,
    referred: [Option<&Strong>; N],
    visit: ffi::visitproc,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let mut stop = visit(ffi::Py_TYPE(object).cast(), arg);
        for reference in referred.into_iter().flatten() {
            if stop == 0 {
                stop = visit(reference.as_ptr(), arg);
            }
        }
        stop
    }
}

/// Frees an object whose fields have been dropped.
///
/// # Safety
/// The last use of `object`, which is untracked and of a type made here.
unsafe fn free(object: Object) {
    // SAFETY: the caller's promise; a type has one reference for each of its objects.
    unsafe {
        let kind = ffi::Py_TYPE(object);
        ffi::PyObject_GC_Del(object.cast());
        ffi::Py_DECREF(kind.cast());
    }
}

/// A new object of a garbage-collected type made here, with `fields` in it.
///
/// # Safety
/// `T` is the layout of `kind`: the object header, then `F`.
unsafe fn allocate<T, F>(
    kind: &Strong,
    fields: F,
    place: impl FnOnce(*mut T) -> *mut F,
) -> Result<Strong, Raised> {
    // SAFETY: the caller's promise; the fields are written before the collector sees them.
    unsafe {
        let object = ffi::PyObject_GC_New::<T>(kind.as_ptr().cast());
        let made = Strong::owned(object.cast())?;
        place(object).write(fields);
        ffi::PyObject_GC_Track(object.cast());
        Ok(made)
    }
}

// --- for ---------------------------------------------------------------------------------

#[repr(C)]
struct EventIterator {
    base: ffi::PyObject,
    pull: Pull,
}

/// What `iter` answers.
pub(crate) fn iterator<'py>(
    decoder: &Bound<'py, PyAny>,
    ask: Ask,
    chunks: &Bound<'py, PyAny>,
    done: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    refuse_one_chunk(chunks)?;
    let source = chunks.try_iter()?.into_any();
    let pull = new_pull(decoder, ask, source, done)?;
    // SAFETY: the layout is the type's.
    let made =
        unsafe { allocate::<EventIterator, _>(&types().iterator, pull, |it| &raw mut (*it).pull) };
    Ok(made.map_err(|Raised| PyErr::fetch(decoder.py()))?.bind(decoder.py()))
}

fn new_pull(
    decoder: &Bound<'_, PyAny>,
    ask: Ask,
    source: Bound<'_, PyAny>,
    done: Option<Bound<'_, PyAny>>,
) -> PyResult<Pull> {
    let done = match done.filter(|done| !done.is_none()) {
        None => None,
        Some(done) => {
            let done = done.cast::<PyBytes>().map_err(|_| {
                PyTypeError::new_err("done must be bytes: a payload, b\"[DONE]\" say")
            })?;
            let trimmed = trim_json_whitespace(done.as_bytes());
            Some(Strong::from_bound(PyBytes::new(decoder.py(), trimmed).into_any()))
        }
    };
    Ok(Pull {
        decoder: Strong::from_bound(decoder.clone()),
        ask,
        last: Vec::new(),
        source: Some(Strong::from_bound(source)),
        done,
        number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
        asking: false,
    })
}

/// A single chunk is iterable too, but as numbers.
fn refuse_one_chunk(chunks: &Bound<'_, PyAny>) -> PyResult<()> {
    if chunks.is_instance_of::<PyString>()
        || chunks.is_instance_of::<PyBytes>()
        || chunks.is_instance_of::<PyByteArray>()
        || chunks.is_instance_of::<PyMemoryView>()
    {
        let name = chunks.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "chunks must be an iterable of bytes, not {name}: wrap a single chunk in a list"
        )));
    }
    Ok(())
}

impl EventIterator {
    #[inline(always)]
    fn next(&mut self) -> Result<Option<Strong>, Raised> {
        loop {
            if let Some(event) = self.pull.ready()? {
                return Ok(Some(event));
            }
            // Held: the source may run any code, this iterator's own end included.
            let Some(source) = self.pull.source.clone() else { return Ok(None) };
            if std::mem::replace(&mut self.pull.asking, true) {
                return already_asking();
            }
            // SAFETY: an iterator, which `try_iter` has checked.
            let chunk = unsafe {
                let next = (*ffi::Py_TYPE(source.as_ptr())).tp_iternext;
                Strong::owned(next.map_or(ptr::null_mut(), |next| next(source.as_ptr())))
            };
            self.pull.asking = false;
            match chunk {
                Ok(chunk) => self.pull.take_chunk(chunk)?,
                Err(Raised) => {
                    if iteration_has_ended() {
                        return self.pull.end();
                    }
                    self.pull.source = None;
                    return Err(Raised);
                }
            }
        }
    }
}

fn exception_is(kind: Object) -> bool {
    // SAFETY: called with an exception set.
    unsafe { ffi::PyErr_ExceptionMatches(kind) != 0 }
}

/// Whether a source without a next item has ended, and not failed.
fn iteration_has_ended() -> bool {
    // SAFETY: looks at the indicator, and clears what says that the iteration has ended.
    unsafe {
        if ffi::PyErr_Occurred().is_null() {
            return true;
        }
        let ended = exception_is(ffi::PyExc_StopIteration);
        if ended {
            ffi::PyErr_Clear();
        }
        ended
    }
}

unsafe extern "C" fn iterator_next(object: Object) -> Object {
    // SAFETY: Python calls this with an `EventIterator`, which it keeps alive. Null without an
    // exception is the end.
    guard(|| unsafe { &mut *object.cast::<EventIterator>() }.next()?.ok_or(Raised))
}

unsafe extern "C" fn itself(object: Object) -> Object {
    // SAFETY: a live object.
    unsafe { Strong::borrowed(object).into_ptr() }
}

unsafe extern "C" fn iterator_traverse(
    object: Object,
    visit: ffi::visitproc,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: Python calls this with an `EventIterator`.
    unsafe {
        let pull = &(*object.cast::<EventIterator>()).pull;
        show(object, [Some(&pull.decoder), pull.source.as_ref()], visit, arg)
    }
}

unsafe extern "C" fn iterator_clear(object: Object) -> c_int {
    // SAFETY: as above. The source is dropped after it is out of reach.
    drop(unsafe { (*object.cast::<EventIterator>()).pull.source.take() });
    0
}

unsafe extern "C" fn iterator_dealloc(object: Object) {
    // SAFETY: called once, by the last reference.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        let pull = &raw mut (*object.cast::<EventIterator>()).pull;
        with_no_exception(|| (*pull).release());
        ptr::drop_in_place(pull);
        free(object);
    }
}

// --- async for ---------------------------------------------------------------------------

struct AsyncFields {
    pull: Pull,
    /// What the source's `__anext__` gave and has not finished yet.
    waiting: Option<Strong>,
    /// The awaitable that waits for it; never followed.
    waiter: Object,
    /// An awaitable to use again.
    spare: Option<Strong>,
}

#[repr(C)]
struct AsyncEventIterator {
    base: ffi::PyObject,
    fields: AsyncFields,
}

/// What `AsyncEventIterator.__anext__` answers.
#[repr(C)]
struct Anext {
    base: ffi::PyObject,
    /// None when it has been awaited.
    iterator: Option<Strong>,
}

/// What `aiter` answers.
pub(crate) fn async_iterator<'py>(
    decoder: &Bound<'py, PyAny>,
    ask: Ask,
    chunks: &Bound<'py, PyAny>,
    done: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = decoder.py();
    refuse_one_chunk(chunks)?;
    // SAFETY: a live object; gives a new reference, or null with TypeError set.
    let source =
        unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyObject_GetAIter(chunks.as_ptr()))? };
    let pull = new_pull(decoder, ask, source, done)?;
    let fields = AsyncFields { pull, waiting: None, waiter: ptr::null_mut(), spare: None };
    // SAFETY: the layout is the type's.
    let made = unsafe {
        allocate::<AsyncEventIterator, _>(&types().async_iterator, fields, |it| {
            &raw mut (*it).fields
        })
    };
    Ok(made.map_err(|Raised| PyErr::fetch(py))?.bind(py))
}

/// What an awaitable does next.
enum Sent {
    /// The event loop is to wait for this.
    Yield(Strong),
    Event(Strong),
}

fn raise<T>(make: impl FnOnce(Python<'_>) -> PyErr) -> Result<T, Raised> {
    Python::attach(|py| make(py).restore(py));
    Err(Raised)
}

/// Drives the source's `__anext__` until an event is ready.
///
/// # Safety
/// `iterator` and `anext` are live objects of these types, and stay so.
#[inline(always)]
unsafe fn send(iterator: Object, anext: Object, value: Object) -> Result<Sent, Raised> {
    // SAFETY: the caller's promise. No reference into the iterator is held while the source runs.
    let fields = unsafe { &raw mut (*iterator.cast::<AsyncEventIterator>()).fields };
    let mut value = value;
    loop {
        // SAFETY: as above; `waiting` is kept by a reference of its own while it runs.
        unsafe {
            if let Some(waiting) = (*fields).waiting.clone() {
                let mut result = ptr::null_mut();
                match ffi::PyIter_Send(waiting.as_ptr(), value, &raw mut result) {
                    PySendResult::PYGEN_NEXT => return Ok(Sent::Yield(Strong::owned(result)?)),
                    sent => {
                        (*fields).waiting = None;
                        (*fields).waiter = ptr::null_mut();
                        if sent == PySendResult::PYGEN_RETURN {
                            (*fields).pull.take_chunk(Strong::owned(result)?)?;
                        } else {
                            return ended(fields);
                        }
                    }
                }
                value = ffi::Py_None();
            }
            if let Some(event) = (*fields).pull.ready()? {
                return Ok(Sent::Event(event));
            }
            let Some(source) = (*fields).pull.source.clone() else { return end_of_iteration() };
            (*fields).waiter = anext;
            match start(&source) {
                Ok(waiting) => (*fields).waiting = Some(waiting),
                Err(Raised) => {
                    (*fields).waiter = ptr::null_mut();
                    return ended(fields);
                }
            }
        }
    }
}

fn end_of_iteration<T>() -> Result<T, Raised> {
    // SAFETY: a static of the interpreter.
    unsafe { ffi::PyErr_SetNone(ffi::PyExc_StopAsyncIteration) };
    Err(Raised)
}

/// The source has ended, or raised.
///
/// # Safety
/// `fields` are those of a live iterator, and an exception is set.
#[cold]
unsafe fn ended(fields: *mut AsyncFields) -> Result<Sent, Raised> {
    // SAFETY: the caller's promise.
    unsafe {
        if exception_is(ffi::PyExc_StopAsyncIteration) {
            ffi::PyErr_Clear();
            return match (*fields).pull.end()? {
                Some(event) => Ok(Sent::Event(event)),
                None => end_of_iteration(),
            };
        }
        (*fields).pull.source = None;
        Err(Raised)
    }
}

/// Asks an async iterator for its next item: an iterator to send to.
fn start(source: &Strong) -> Result<Strong, Raised> {
    let refuse =
        || raise(|_| PyTypeError::new_err("the source's __anext__() gave something not awaitable"));
    // SAFETY: live objects; slots are called as Python calls them.
    unsafe {
        let slots = (*ffi::Py_TYPE(source.as_ptr())).tp_as_async;
        let Some(next) = slots.as_ref().and_then(|slots| slots.am_anext) else { return refuse() };
        let awaitable = Strong::owned(next(source.as_ptr()))?;
        if ffi::PyCoro_CheckExact(awaitable.as_ptr()) != 0 {
            return Ok(awaitable);
        }
        let slots = (*ffi::Py_TYPE(awaitable.as_ptr())).tp_as_async;
        match slots.as_ref().and_then(|slots| slots.am_await) {
            Some(await_) => {
                let iterator = Strong::owned(await_(awaitable.as_ptr()))?;
                if ffi::PyIter_Check(iterator.as_ptr()) == 0 { refuse() } else { Ok(iterator) }
            }
            // A generator that `types.coroutine` has marked.
            None if ffi::PyGen_CheckExact(awaitable.as_ptr()) != 0 => Ok(awaitable),
            None => refuse(),
        }
    }
}

unsafe extern "C" fn async_next(object: Object) -> Object {
    guard(|| {
        // SAFETY: Python calls this with an `AsyncEventIterator`. A spare awaitable that only
        // the iterator has is not in use.
        unsafe {
            let fields = &raw mut (*object.cast::<AsyncEventIterator>()).fields;
            if let Some(spare) = &(*fields).spare
                && ffi::Py_REFCNT(spare.as_ptr()) == 1
            {
                let anext = spare.as_ptr().cast::<Anext>();
                (*anext).iterator = Some(Strong::borrowed(object));
                return Ok(spare.clone());
            }
            let iterator = Some(Strong::borrowed(object));
            let anext =
                allocate::<Anext, _>(&types().anext, iterator, |it| &raw mut (*it).iterator)?;
            (*fields).spare = Some(anext.clone());
            Ok(anext)
        }
    })
}

/// One step of an awaitable; what is sent or thrown in comes as `step`.
///
/// # Safety
/// `object` is an `Anext`.
#[inline(always)]
unsafe fn advance(
    object: Object,
    step: impl FnOnce(Object) -> Result<Sent, Raised>,
) -> Result<Sent, Raised> {
    let anext = object.cast::<Anext>();
    // SAFETY: the caller's promise. A reference of its own keeps the iterator meanwhile.
    unsafe {
        let Some(iterator) = (*anext).iterator.clone() else {
            return raise(|_| PyRuntimeError::new_err("cannot reuse already awaited __anext__()"));
        };
        let fields = &raw mut (*iterator.as_ptr().cast::<AsyncEventIterator>()).fields;
        if !(*fields).waiter.is_null() && (*fields).waiter != object {
            return already_asking();
        }
        let sent = step(iterator.as_ptr());
        if !matches!(sent, Ok(Sent::Yield(_))) {
            (*anext).iterator = None;
        }
        sent
    }
}

unsafe extern "C" fn anext_send(
    object: Object,
    value: Object,
    result: *mut Object,
) -> PySendResult {
    let mut outcome = PySendResult::PYGEN_ERROR;
    let sent = guard(|| {
        // SAFETY: Python calls this with an `Anext`, which it keeps alive.
        let sent = unsafe { advance(object, |iterator| send(iterator, object, value)) }?;
        let (kind, value) = match sent {
            Sent::Yield(value) => (PySendResult::PYGEN_NEXT, value),
            Sent::Event(event) => (PySendResult::PYGEN_RETURN, event),
        };
        outcome = kind;
        Ok(value)
    });
    // SAFETY: Python gives room for one object.
    unsafe { *result = sent };
    if sent.is_null() { PySendResult::PYGEN_ERROR } else { outcome }
}

/// As a generator answers: what is yielded, or `StopIteration` with the event.
fn as_generator(body: impl FnOnce() -> Result<Sent, Raised>) -> Object {
    guard(|| match body()? {
        Sent::Yield(value) => Ok(value),
        Sent::Event(event) => {
            Python::attach(|py| {
                PyStopIteration::new_err((event.bind(py).unbind(),)).restore(py);
            });
            Err(Raised)
        }
    })
}

unsafe extern "C" fn anext_next(object: Object) -> Object {
    // SAFETY: as in `anext_send`; None is a singleton.
    as_generator(|| unsafe { advance(object, |iterator| send(iterator, object, ffi::Py_None())) })
}

unsafe extern "C" fn anext_send_method(object: Object, value: Object) -> Object {
    // SAFETY: as in `anext_send`.
    as_generator(|| unsafe { advance(object, |iterator| send(iterator, object, value)) })
}

unsafe extern "C" fn anext_throw(object: Object, args: Object) -> Object {
    // SAFETY: as in `anext_send`; `args` is a tuple.
    as_generator(|| unsafe { advance(object, |iterator| throw(iterator, object, args)) })
}

/// Throws into what is waited for, then goes on with what that gives.
///
/// # Safety
/// As for [`send`]; `args` is a tuple.
unsafe fn throw(iterator: Object, anext: Object, args: Object) -> Result<Sent, Raised> {
    // SAFETY: the caller's promise.
    let (fields, args) = unsafe {
        let fields = &raw mut (*iterator.cast::<AsyncEventIterator>()).fields;
        (fields, Strong::borrowed(args))
    };
    // SAFETY: as above; the source is kept while it runs.
    let waiting = unsafe { (*fields).waiting.clone() };
    let thrown = Python::attach(|py| -> Result<Thrown, PyErr> {
        let args = args.bind(py).cast_into::<pyo3::types::PyTuple>()?;
        let target = match &waiting {
            Some(waiting) => waiting.bind(py).getattr_opt("throw")?,
            None => None,
        };
        let Some(throw) = target else { return Err(given(&args)?) };
        match throw.call1(args) {
            Ok(value) => Ok(Thrown::Yield(Strong::from_bound(value))),
            Err(error) if error.is_instance_of::<PyStopIteration>(py) => {
                let value = error.value(py).getattr("value")?;
                Ok(Thrown::Chunk(Strong::from_bound(value)))
            }
            Err(error) => Err(error),
        }
    });
    if let Ok(Thrown::Yield(value)) = thrown {
        return Ok(Sent::Yield(value));
    }
    // SAFETY: as above.
    unsafe {
        (*fields).waiting = None;
        (*fields).waiter = ptr::null_mut();
        match thrown {
            Ok(Thrown::Chunk(chunk)) => {
                (*fields).pull.take_chunk(chunk)?;
                send(iterator, anext, ffi::Py_None())
            }
            Err(error) => {
                Python::attach(|py| error.restore(py));
                if waiting.is_some() { ended(fields) } else { Err(Raised) }
            }
            Ok(Thrown::Yield(value)) => Ok(Sent::Yield(value)),
        }
    }
}

enum Thrown {
    Yield(Strong),
    Chunk(Strong),
}

/// The exception that the arguments of `throw` name.
fn given(args: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<PyErr> {
    let kind = args.get_item(0)?;
    match args.get_item(1) {
        Ok(value) if kind.is_callable() && !value.is_none() => Ok(PyErr::from_value(value)),
        _ => Ok(PyErr::from_value(kind)),
    }
}

unsafe extern "C" fn anext_close(object: Object, _: Object) -> Object {
    // SAFETY: Python calls this with an `Anext`, which it keeps alive.
    unsafe {
        let anext = object.cast::<Anext>();
        guard(|| {
            let Some(iterator) = (*anext).iterator.take() else { return none() };
            let fields = &raw mut (*iterator.as_ptr().cast::<AsyncEventIterator>()).fields;
            if (*fields).waiter != object {
                return none();
            }
            (*fields).waiter = ptr::null_mut();
            (*fields).pull.source = None;
            let Some(waiting) = (*fields).waiting.take() else { return none() };
            Python::attach(|py| match waiting.bind(py).getattr_opt("close") {
                Ok(None) => none(),
                Ok(Some(close)) => close.call0().map(Strong::from_bound).map_err(|error| {
                    error.restore(py);
                    Raised
                }),
                Err(error) => {
                    error.restore(py);
                    Err(Raised)
                }
            })
        })
    }
}

fn none() -> Result<Strong, Raised> {
    // SAFETY: a singleton.
    unsafe { Ok(Strong::borrowed(ffi::Py_None())) }
}

unsafe extern "C" fn async_traverse(
    object: Object,
    visit: ffi::visitproc,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: Python calls this with an `AsyncEventIterator`.
    unsafe {
        let fields = &(*object.cast::<AsyncEventIterator>()).fields;
        let pull = &fields.pull;
        let referred = [
            Some(&pull.decoder),
            pull.source.as_ref(),
            fields.waiting.as_ref(),
            fields.spare.as_ref(),
        ];
        show(object, referred, visit, arg)
    }
}

unsafe extern "C" fn async_clear(object: Object) -> c_int {
    // SAFETY: as above. What is dropped is out of reach before.
    unsafe {
        let fields = &raw mut (*object.cast::<AsyncEventIterator>()).fields;
        (*fields).waiter = ptr::null_mut();
        let dropped =
            ((*fields).pull.source.take(), (*fields).waiting.take(), (*fields).spare.take());
        drop(dropped);
    }
    0
}

unsafe extern "C" fn async_dealloc(object: Object) {
    // SAFETY: called once, by the last reference.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        let fields = &raw mut (*object.cast::<AsyncEventIterator>()).fields;
        with_no_exception(|| (*fields).pull.release());
        ptr::drop_in_place(fields);
        free(object);
    }
}

unsafe extern "C" fn anext_traverse(
    object: Object,
    visit: ffi::visitproc,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: Python calls this with an `Anext`.
    unsafe { show(object, [(*object.cast::<Anext>()).iterator.as_ref()], visit, arg) }
}

unsafe extern "C" fn anext_clear(object: Object) -> c_int {
    // SAFETY: as above.
    drop(unsafe { (*object.cast::<Anext>()).iterator.take() });
    0
}

unsafe extern "C" fn anext_dealloc(object: Object) {
    // SAFETY: called once, by the last reference. What it waited for goes with it: nobody
    // can ask for that any more.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        let anext = object.cast::<Anext>();
        if let Some(iterator) = (*anext).iterator.take() {
            let fields = &raw mut (*iterator.as_ptr().cast::<AsyncEventIterator>()).fields;
            if (*fields).waiter == object {
                (*fields).waiter = ptr::null_mut();
                (*fields).pull.source = None;
                drop((*fields).waiting.take());
            }
        }
        ptr::drop_in_place(&raw mut (*anext).iterator);
        free(object);
    }
}

// --- types -------------------------------------------------------------------------------

const ITERATOR_DOC: &CStr = c"Events of an iterable of chunks, from `SSEDecoder.iter`.";
const ASYNC_DOC: &CStr = c"Events of an async iterable of chunks, from `SSEDecoder.aiter`.";
const ANEXT_DOC: &CStr = c"The next event, to be awaited.";

fn doc(text: &'static CStr) -> (c_int, *mut c_void) {
    (ffi::Py_tp_doc, text.as_ptr().cast_mut().cast())
}

/// Makes the types; they are reached through `SSEDecoder` alone.
pub(crate) fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let flags = ffi::Py_TPFLAGS_HAVE_GC
        | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION
        | ffi::Py_TPFLAGS_IMMUTABLETYPE;
    let iterator = new_type(
        py,
        c"seamstream._core.EventIterator",
        size_of::<EventIterator>(),
        flags,
        &[
            doc(ITERATOR_DOC),
            (ffi::Py_tp_iter, itself as *mut c_void),
            (ffi::Py_tp_iternext, iterator_next as *mut c_void),
            (ffi::Py_tp_traverse, iterator_traverse as *mut c_void),
            (ffi::Py_tp_clear, iterator_clear as *mut c_void),
            (ffi::Py_tp_dealloc, iterator_dealloc as *mut c_void),
        ],
    )?;
    let async_iterator = new_type(
        py,
        c"seamstream._core.AsyncEventIterator",
        size_of::<AsyncEventIterator>(),
        flags,
        &[
            doc(ASYNC_DOC),
            (ffi::Py_am_aiter, itself as *mut c_void),
            (ffi::Py_am_anext, async_next as *mut c_void),
            (ffi::Py_tp_traverse, async_traverse as *mut c_void),
            (ffi::Py_tp_clear, async_clear as *mut c_void),
            (ffi::Py_tp_dealloc, async_dealloc as *mut c_void),
        ],
    )?;
    // SAFETY: all zeros is the end of the table.
    let no_method = unsafe { std::mem::zeroed::<ffi::PyMethodDef>() };
    let methods = vec![
        method(c"send", anext_send_method, ffi::METH_O, c"send($self, value, /)\n--\n\n"),
        method(c"throw", anext_throw, ffi::METH_VARARGS, c"Throw an exception in."),
        method(c"close", anext_close, ffi::METH_NOARGS, c"close($self, /)\n--\n\n"),
    ];
    let anext = new_type(
        py,
        c"seamstream._core.Anext",
        size_of::<Anext>(),
        flags,
        &[
            doc(ANEXT_DOC),
            (ffi::Py_am_await, itself as *mut c_void),
            (ffi::Py_am_send, anext_send as *mut c_void),
            (ffi::Py_tp_iter, itself as *mut c_void),
            (ffi::Py_tp_iternext, anext_next as *mut c_void),
            (ffi::Py_tp_methods, table(methods, no_method)),
            (ffi::Py_tp_traverse, anext_traverse as *mut c_void),
            (ffi::Py_tp_clear, anext_clear as *mut c_void),
            (ffi::Py_tp_dealloc, anext_dealloc as *mut c_void),
        ],
    )?;
    TYPES
        .set(Types { iterator, async_iterator, anext })
        .map_err(|_| PyRuntimeError::new_err("seamstream._core is loaded twice"))
}
