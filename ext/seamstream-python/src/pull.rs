//! Iterators over the events of a source of chunks, for `for` and `async for`.
//!
//! No tuple for a chunk, no generator frame, and no coroutine for an event that is ready:
//! `__anext__` answers with an awaitable that is used again once it is done.
//!
//! A source that has to be closed can be told when the iteration ends before it does: `chunks` may
//! have a method `_on_stop`, which is called with None at `done`, or with the exception that the
//! decoder raised. The source is then asked once more. It ends, or raises: that comes out.
//!
//! A source that is a generator of Python need not run for each chunk. Where the class of `chunks`
//! has a method `_delegating`, `aiter` calls it with a [`Delegated`] and iterates over what it
//! gives. In place of a chunk that may yield a tuple: its own source, which is an asynchronous
//! iterator or a coroutine function that reads; a clock; a time of that clock; a length of time; and
//! a number of bytes. Then chunks are taken from that source, past the generator, and the time of
//! the last one that is not empty is in the `Delegated`. The generator goes on when the source gives
//! what is not `bytes`, or is larger, or comes from that time on, or that length of time after one
//! that had to be waited for, or is what a function read and empty: this is what its `yield` gives;
//! when the source ends or raises: this is what its `yield` raises; when `stop` was called, or the
//! iteration ends: then its `yield` gives None.
//!
//! What is looked at for each chunk is together in one place: between two chunks the event loop and
//! the system take the caches, and to read or set an attribute then costs as much as ten events.

use crate::errors;
use crate::frame;
use crate::machine::Pulled;
use crate::raw::{Object, Raised, Strong, bytes_of, guard, guard_py, held};
use crate::types::{method, new_type, table};
use pyo3::exceptions::{
    PyBaseException, PyImportError, PyRuntimeError, PyStopIteration, PyTypeError,
};
use pyo3::ffi;
use pyo3::ffi::PySendResult;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString, PyTuple};
use seamstream::sse::trim_json_whitespace;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

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

/// A reference that may be given up at any time: what runs when it is dropped, and what it runs,
/// finds the slot empty already.
struct Slot(Cell<Option<Strong>>);

impl Slot {
    fn new(object: Option<Strong>) -> Self {
        Slot(Cell::new(object))
    }

    /// A second reference to what is in it, to be held while it is used.
    #[inline(always)]
    fn get(&self) -> Option<Strong> {
        let object = self.0.take();
        let second = object.clone();
        self.0.set(object);
        second
    }

    fn is_empty(&self) -> bool {
        self.as_ptr().is_null()
    }

    /// What is in it, borrowed, or null.
    fn as_ptr(&self) -> Object {
        let object = self.0.take();
        let pointer = object.as_ref().map_or(ptr::null_mut(), Strong::as_ptr);
        self.0.set(object);
        pointer
    }

    #[inline(always)]
    fn set(&self, object: Strong) {
        drop(self.0.replace(Some(object)));
    }

    #[inline(always)]
    fn take(&self) -> Option<Strong> {
        self.0.take()
    }

    fn clear(&self) {
        drop(self.0.take());
    }
}

/// What both kinds of iterator have. Shared references only: any call of Python may come back.
struct Pull {
    /// None when what the source gives are the items.
    decoder: Strong,
    ask: Option<Ask>,
    /// Empty when nothing more is to be pulled.
    source: Slot,
    done: Option<Strong>,
    /// What the end of the stream settled, oldest last; without a decoder, what the source gave.
    last: RefCell<Vec<Strong>>,
    number: u64,
    /// The source is being asked; it must not ask back.
    asking: Cell<bool>,
    /// What is told when the iteration ends before the source, if it wants to know.
    chunks: Slot,
    /// It has been told, and the source is asked for its end.
    stopping: Cell<bool>,
}

/// Sets the exception for a second one that asks.
#[cold]
fn already_asking<T>() -> Result<T, Raised> {
    raise(|py| errors::state(py, "this iterator is waiting for its source"))
}

impl Pull {
    #[inline(always)]
    fn decoder(&self) -> Option<&dyn Pulled> {
        // SAFETY: `ask` was given together with `decoder`, which is kept.
        self.ask.map(|ask| unsafe { ask(self.decoder.as_ptr()) })
    }

    /// The next item of the chunk in hand. Another iterator's turn is no reason to end.
    #[inline(always)]
    fn ready(&self) -> Result<Option<Strong>, Raised> {
        if self.source.is_empty() {
            return Ok(self.last.borrow_mut().pop());
        }
        if self.stopping.get() {
            return Ok(None);
        }
        let Some(decoder) = self.decoder() else { return Ok(self.last.borrow_mut().pop()) };
        match decoder.next(self.number)? {
            Ok(Some(item)) => self.unless_done(item),
            Ok(None) => Ok(None),
            Err(Raised) => self.fail().map(|()| None),
        }
    }

    /// The item, or None when it is the one that ends the stream.
    #[inline(always)]
    fn unless_done(&self, item: Strong) -> Result<Option<Strong>, Raised> {
        let Some(done) = &self.done else { return Ok(Some(item)) };
        // SAFETY: `done` is exact `bytes`.
        let done = unsafe { bytes_of(done.as_ptr()) };
        let Some(payload) = frame::whole_payload(&item) else { return Ok(Some(item)) };
        // Nearly every payload is told apart by its first byte.
        if let (Some(first), Some(of_done)) = (payload.first(), done.first())
            && first != of_done
            && *first > b' '
        {
            return Ok(Some(item));
        }
        if trim_json_whitespace(payload) != done {
            return Ok(Some(item));
        }
        self.release();
        self.stop(None).map(|()| None)
    }

    #[inline(always)]
    fn take_chunk(&self, chunk: Strong) -> Result<(), Raised> {
        if self.stopping.get() {
            self.source.clear(); // it was to end
            return Ok(());
        }
        let Some(decoder) = self.decoder() else {
            self.last.borrow_mut().push(chunk);
            return Ok(());
        };
        match decoder.take_chunk(self.number, chunk) {
            Ok(()) => Ok(()),
            Err(Raised) => self.fail(),
        }
    }

    /// The decoder has raised: an exception is set.
    #[cold]
    fn fail(&self) -> Result<(), Raised> {
        self.stop(Some(held(PyErr::fetch)))
    }

    /// Ends the iteration before the source has ended.
    #[cold]
    fn stop(&self, error: Option<PyErr>) -> Result<(), Raised> {
        let chunks = self.chunks.take();
        let stopped = held(|py| {
            let on_stop = match &chunks {
                Some(chunks) => chunks.bind(py).getattr_opt(intern!(py, "_on_stop"))?,
                None => None,
            };
            let Some(on_stop) = on_stop else {
                self.source.clear();
                return error.map_or(Ok(()), Err);
            };
            self.stopping.set(true);
            let error = error.map(|error| error.into_value(py));
            on_stop.call1((error,)).map(drop)
        });
        stopped.map_err(|error: PyErr| {
            self.source.clear();
            held(|py| error.restore(py));
            Raised
        })
    }

    /// The source has ended: the first of what that settles.
    fn end(&self) -> Result<Option<Strong>, Raised> {
        self.source.clear();
        if self.stopping.get() {
            return Ok(None);
        }
        let Some(decoder) = self.decoder() else { return Ok(None) };
        let items = decoder.end()?;
        // SAFETY: `end` gives a tuple.
        let size = unsafe { ffi::PyTuple_GET_SIZE(items.as_ptr()) };
        let mut last = Vec::new();
        for at in 0..size {
            // SAFETY: within the tuple's size.
            let item = unsafe { Strong::borrowed(ffi::PyTuple_GET_ITEM(items.as_ptr(), at)) };
            match self.unless_done(item)? {
                Some(item) => last.push(item),
                None => break,
            }
        }
        self.chunks.clear();
        last.reverse();
        let first = last.pop();
        self.last.replace(last);
        Ok(first)
    }

    fn release(&self) {
        if let Some(decoder) = self.decoder() {
            decoder.release(self.number);
        }
    }

    /// As `release`, from a deallocator: nothing can be raised, and no panic may pass.
    fn release_at_last(&self) {
        with_no_exception(|| {
            let released = guard(|| {
                self.release();
                none()
            });
            // SAFETY: the None that `guard` gave, or null with an exception that is nobody's.
            unsafe {
                ffi::Py_XDECREF(released);
                ffi::PyErr_Clear();
            }
        });
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
/// The arguments are those of `tp_traverse`, and what `object` refers to, or null.
unsafe fn show<const N: usize>(
    object: Object,
    referred: [Object; N],
    visit: ffi::visitproc,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let mut stop = visit(ffi::Py_TYPE(object).cast(), arg);
        for reference in referred {
            if stop == 0 && !reference.is_null() {
                stop = visit(reference, arg);
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
    new_iterator(decoder.py(), new_pull(decoder, Some(ask), chunks, source, done)?)
}

fn new_iterator(py: Python<'_>, pull: Pull) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: the layout is the type's.
    let made =
        unsafe { allocate::<EventIterator, _>(&types().iterator, pull, |it| &raw mut (*it).pull) };
    Ok(made.map_err(|Raised| PyErr::fetch(py))?.bind(py))
}

/// An iterator over what another one gives, asynchronous or not, that says what is wrong where two
/// tasks or threads ask at once: a generator raises what only the interpreter knows the meaning of.
pub(crate) fn exclusive<'py>(items: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = items.py();
    let pull = new_pull(&py.None().into_bound(py), None, items, items.clone(), None)?;
    // SAFETY: a live object.
    if unsafe { ffi::PyIter_Check(items.as_ptr()) } != 0 {
        new_iterator(py, pull)
    } else {
        new_async_iterator(py, pull, None)
    }
}

fn new_pull(
    decoder: &Bound<'_, PyAny>,
    ask: Option<Ask>,
    chunks: &Bound<'_, PyAny>,
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
    // Only a class can have the method, and to look for what is not there costs as much as 4 events.
    // SAFETY: a live object.
    let may_want_to_know = unsafe {
        ffi::PyType_HasFeature(ffi::Py_TYPE(chunks.as_ptr()), ffi::Py_TPFLAGS_HEAPTYPE) != 0
    };
    Ok(Pull {
        decoder: Strong::from_bound(decoder.clone()),
        ask,
        last: RefCell::new(Vec::new()),
        source: Slot::new(Some(Strong::from_bound(source))),
        done,
        number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
        asking: Cell::new(false),
        chunks: Slot::new(may_want_to_know.then(|| Strong::from_bound(chunks.clone()))),
        stopping: Cell::new(false),
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
            "chunks must be an iterable of chunks, not {name}: wrap it in a list"
        )));
    }
    // They give no chunks, and a long chain of them would be freed by a long chain of calls.
    let types = types();
    for own in [&types.iterator, &types.async_iterator] {
        if chunks.get_type().as_ptr() == own.as_ptr() {
            return Err(PyTypeError::new_err(
                "chunks must be an iterable of chunks, not of events",
            ));
        }
    }
    Ok(())
}

impl EventIterator {
    #[inline(always)]
    fn next(&self) -> Result<Option<Strong>, Raised> {
        let pull = &self.pull;
        loop {
            if let Some(item) = pull.ready()? {
                return Ok(Some(item));
            }
            let Some(source) = pull.source.get() else { return Ok(None) };
            if pull.asking.replace(true) {
                return already_asking();
            }
            // SAFETY: an iterator, which `try_iter` has checked, and which is held meanwhile.
            let chunk = unsafe {
                let next = (*ffi::Py_TYPE(source.as_ptr())).tp_iternext;
                Strong::owned(next.map_or(ptr::null_mut(), |next| next(source.as_ptr())))
            };
            pull.asking.set(false);
            match chunk {
                Ok(chunk) => pull.take_chunk(chunk)?,
                Err(Raised) => {
                    if iteration_has_ended() {
                        return pull.end();
                    }
                    pull.source.clear();
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
    guard(|| unsafe { &*object.cast::<EventIterator>() }.next()?.ok_or(Raised))
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
        let referred = [pull.decoder.as_ptr(), pull.source.as_ptr(), pull.chunks.as_ptr()];
        show(object, referred, visit, arg)
    }
}

unsafe extern "C" fn iterator_clear(object: Object) -> c_int {
    // SAFETY: as above.
    let pull = unsafe { &(*object.cast::<EventIterator>()).pull };
    pull.source.clear();
    pull.chunks.clear();
    0
}

unsafe extern "C" fn iterator_dealloc(object: Object) {
    // SAFETY: called once, by the last reference.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        let pull = &raw mut (*object.cast::<EventIterator>()).pull;
        (*pull).release_at_last();
        ptr::drop_in_place(pull);
        free(object);
    }
}

// --- async for ---------------------------------------------------------------------------

struct AsyncFields {
    pull: Pull,
    /// What the source's `__anext__` gave and has not finished yet.
    waiting: Slot,
    /// The awaitable that waits for it; never followed.
    waiter: Cell<Object>,
    /// An awaitable that is done, to be used again.
    spare: Slot,
    delegation: Delegation,
}

/// What a generator, of which chunks are taken past it, and those that take them tell each other.
#[pyclass(frozen, module = "seamstream._core")]
struct Delegated {
    is_stopped: AtomicBool,
    last_byte_ns: AtomicI64,
}

#[pymethods]
impl Delegated {
    /// When the last chunk with bytes came, by the clock that was given; 0 if none did.
    #[getter]
    fn last_byte_ns(&self) -> i64 {
        self.last_byte_ns.load(Ordering::Relaxed)
    }

    /// Have no further chunk taken.
    fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }
}

/// What the source has yielded to have its own source asked in its place.
struct Delegation {
    /// None when the source cannot delegate.
    delegated: Option<(Strong, *const Delegated)>,
    /// Empty when there is no delegation.
    source: Slot,
    /// The least that a chunk has: a function says by an empty one that there is nothing more.
    min_bytes: Cell<ffi::Py_ssize_t>,
    clock: Slot,
    due_ns: Cell<i64>,
    turn_ns: Cell<i64>,
    max_bytes: Cell<ffi::Py_ssize_t>,
    /// The event loop had to wait for the chunk that comes next.
    has_waited: Cell<bool>,
}

impl Delegation {
    fn new(delegated: Option<Bound<'_, Delegated>>) -> Self {
        Delegation {
            delegated: delegated.map(|delegated| {
                let fields = ptr::from_ref(delegated.get());
                (Strong::from_bound(delegated.into_any()), fields)
            }),
            source: Slot::new(None),
            min_bytes: Cell::new(0),
            clock: Slot::new(None),
            due_ns: Cell::new(0),
            turn_ns: Cell::new(0),
            max_bytes: Cell::new(0),
            has_waited: Cell::new(false),
        }
    }

    #[inline(always)]
    fn delegated(&self) -> Option<&Delegated> {
        // SAFETY: the fields of an object that does not move, and is held beside the pointer.
        self.delegated.as_ref().map(|(_, fields)| unsafe { &**fields })
    }

    #[cold]
    fn begin(&self, terms: &Strong) -> Result<(), Raised> {
        let begun = held(|py| -> PyResult<()> {
            let (source, clock, due_ns, turn_ns, max_bytes) = terms.bind(py).extract()?;
            self.due_ns.set(due_ns);
            self.turn_ns.set(turn_ns);
            self.max_bytes.set(max_bytes);
            self.has_waited.set(false);
            self.clock.set(Strong::from_bound(clock));
            let source = Strong::from_bound(source);
            self.min_bytes.set(anext_of(&source).is_none().into());
            self.source.set(source);
            Ok(())
        });
        begun.map_err(|error| {
            held(|py| error.restore(py));
            Raised
        })
    }

    fn end(&self) {
        self.source.clear();
        self.clock.clear();
    }

    /// Whether a chunk may be taken past the generator; its time is noted then.
    #[inline(always)]
    fn takes(&self, chunk: &Strong) -> Result<bool, Raised> {
        let (Some(clock), Some(delegated)) = (self.clock.get(), self.delegated()) else {
            return Ok(false);
        };
        // SAFETY: live objects, the clock held while it is called; exact `bytes` have a size.
        let (size, now) = unsafe {
            if ffi::PyBytes_CheckExact(chunk.as_ptr()) == 0 {
                return Ok(false);
            }
            let size = ffi::Py_SIZE(chunk.as_ptr());
            if size > self.max_bytes.get() || size < self.min_bytes.get() {
                return Ok(false);
            }
            let now = Strong::owned(ffi::PyObject_CallNoArgs(clock.as_ptr()))?;
            let now = ffi::PyLong_AsLongLong(now.as_ptr());
            if now == -1 && !ffi::PyErr_Occurred().is_null() {
                return Err(Raised);
            }
            (size, now)
        };
        if self.has_waited.replace(false) {
            self.due_ns.set(now.saturating_add(self.turn_ns.get()));
        }
        if now >= self.due_ns.get() {
            return Ok(false);
        }
        if size > 0 {
            delegated.last_byte_ns.store(now, Ordering::Relaxed);
        }
        Ok(true)
    }
}

impl AsyncFields {
    /// What is to be asked for the next chunk, if anything is.
    #[inline(always)]
    fn source(&self) -> Option<Strong> {
        let source = self.pull.source.get();
        if self.delegation.source.is_empty() || source.is_none() {
            return source;
        }
        let delegated = self.delegation.delegated();
        let is_stopped = delegated.is_none_or(|it| it.is_stopped.load(Ordering::Relaxed));
        if !self.pull.stopping.get() && !is_stopped {
            return self.delegation.source.get();
        }
        self.delegation.end();
        source
    }

    /// Takes what was waited for: a chunk, or the exception that is set. What comes of it, if
    /// there is nothing to go on with.
    #[inline(always)]
    fn take(&self, anext: Object, got: Result<Strong, Raised>) -> Result<Option<Sent>, Raised> {
        if self.delegation.source.is_empty() {
            return match got {
                Ok(terms) if self.delegation.delegated.is_some() && is_tuple(&terms) => {
                    self.delegation.begin(&terms).map(|()| None)
                }
                Ok(chunk) => self.pull.take_chunk(chunk).map(|()| None),
                Err(Raised) => ended(self).map(Some),
            };
        }
        match got {
            Ok(chunk) if self.delegation.takes(&chunk)? => {
                self.pull.take_chunk(chunk)?;
            }
            got => self.give_back(anext, got)?,
        }
        Ok(None)
    }

    /// Ends a delegation: the generator goes on with a chunk, or the exception that is set, and is
    /// waited for.
    #[cold]
    fn give_back(&self, anext: Object, got: Result<Strong, Raised>) -> Result<(), Raised> {
        self.delegation.end();
        let Some(generator) = self.pull.source.get() else { return got.map(drop) };
        let resumed = held(|py| {
            let generator = generator.bind(py);
            match got {
                Ok(chunk) => generator.call_method1(intern!(py, "asend"), (chunk.bind(py),)),
                Err(Raised) => {
                    let error = PyErr::fetch(py).into_value(py);
                    generator.call_method1(intern!(py, "athrow"), (error,))
                }
            }
            .map(Strong::from_bound)
            .map_err(|error| {
                error.restore(py);
                Raised
            })
        })?;
        self.waiting.set(awaited(resumed)?);
        self.waiter.set(anext);
        Ok(())
    }

    /// Nothing more is to be had; what was waited for goes before what waited in it.
    fn give_up(&self) {
        let source = self.pull.source.take();
        self.stop_waiting();
        self.delegation.end();
        drop(source);
    }

    /// Nobody waits for the source any more; what was waited for goes.
    fn stop_waiting(&self) {
        self.waiter.set(ptr::null_mut());
        self.waiting.clear();
    }
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
    /// Empty when it has been awaited.
    iterator: Slot,
}

impl Anext {
    /// Awaited no more: what it waited for is not to be had any other way.
    fn abandon(&self, this: Object) {
        let Some(iterator) = self.iterator.take() else { return };
        // SAFETY: an `AsyncEventIterator`, held here.
        let fields = unsafe { &(*iterator.as_ptr().cast::<AsyncEventIterator>()).fields };
        if fields.waiter.get() == this {
            fields.give_up();
        }
    }
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
    let delegating = intern!(py, "_delegating");
    let (source, delegated) = if class_has(chunks, delegating) {
        let nothing = Delegated { is_stopped: false.into(), last_byte_ns: 0.into() };
        let delegated = Bound::new(py, nothing)?;
        (chunks.call_method1(delegating, (&delegated,))?, Some(delegated))
    } else {
        // SAFETY: a live object; gives a new reference, or null with TypeError set.
        let source = unsafe { ffi::PyObject_GetAIter(chunks.as_ptr()) };
        // SAFETY: as above.
        (unsafe { Bound::from_owned_ptr_or_err(py, source)? }, None)
    };
    new_async_iterator(py, new_pull(decoder, Some(ask), chunks, source, done)?, delegated)
}

fn new_async_iterator<'py>(
    py: Python<'py>,
    pull: Pull,
    delegated: Option<Bound<'py, Delegated>>,
) -> PyResult<Bound<'py, PyAny>> {
    let fields = AsyncFields {
        pull,
        waiting: Slot::new(None),
        waiter: Cell::new(ptr::null_mut()),
        spare: Slot::new(None),
        delegation: Delegation::new(delegated),
    };
    // SAFETY: the layout is the type's.
    let made = unsafe {
        allocate::<AsyncEventIterator, _>(&types().async_iterator, fields, |it| {
            &raw mut (*it).fields
        })
    };
    Ok(made.map_err(|Raised| PyErr::fetch(py))?.bind(py))
}

/// Whether the class of an object has an attribute, and not only a class that it is made from: to
/// ask for what is not there costs as much as 4 events.
fn class_has(object: &Bound<'_, PyAny>, name: &Bound<'_, PyString>) -> bool {
    // SAFETY: a live object; its type has a dictionary, and to look up a text in it raises nothing.
    unsafe {
        let names = (*ffi::Py_TYPE(object.as_ptr())).tp_dict;
        !names.is_null() && !ffi::PyDict_GetItemWithError(names, name.as_ptr()).is_null()
    }
}

/// What an awaitable does next.
enum Sent {
    /// The event loop is to wait for this.
    Yield(Strong),
    Event(Strong),
}

fn raise<T>(make: impl FnOnce(Python<'_>) -> PyErr) -> Result<T, Raised> {
    held(|py| make(py).restore(py));
    Err(Raised)
}

/// Drives the source's `__anext__` until an item is ready.
#[inline(always)]
fn send(fields: &AsyncFields, anext: Object, value: Object) -> Result<Sent, Raised> {
    let mut value = value;
    loop {
        if let Some(waiting) = fields.waiting.get() {
            if fields.pull.asking.replace(true) {
                return already_asking();
            }
            let mut result = ptr::null_mut();
            // SAFETY: `waiting` is held while it runs; there is room for the result.
            let sent = unsafe { ffi::PyIter_Send(waiting.as_ptr(), value, &raw mut result) };
            fields.pull.asking.set(false);
            if sent == PySendResult::PYGEN_NEXT {
                fields.delegation.has_waited.set(true);
                // SAFETY: a new reference.
                return Ok(Sent::Yield(unsafe { Strong::owned(result)? }));
            }
            fields.stop_waiting();
            // SAFETY: a new reference, or null with an exception set; None is a singleton.
            let got = unsafe {
                value = ffi::Py_None();
                Strong::owned(result)
            };
            if let Some(sent) = fields.take(anext, got)? {
                return Ok(sent);
            }
            continue;
        }
        if let Some(item) = fields.pull.ready()? {
            return Ok(Sent::Event(item));
        }
        let Some(source) = fields.source() else { return end_of_iteration() };
        fields.waiter.set(anext);
        match start(&source) {
            Ok(waiting) => fields.waiting.set(waiting),
            Err(Raised) => {
                fields.waiter.set(ptr::null_mut());
                if let Some(sent) = fields.take(anext, Err(Raised))? {
                    return Ok(sent);
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

/// The source has ended, or raised: an exception is set.
#[cold]
fn ended(fields: &AsyncFields) -> Result<Sent, Raised> {
    // SAFETY: statics of the interpreter.
    if exception_is(unsafe { ffi::PyExc_StopAsyncIteration }) {
        // SAFETY: what is set says that the iteration has ended.
        unsafe { ffi::PyErr_Clear() };
        return match fields.pull.end()? {
            Some(item) => Ok(Sent::Event(item)),
            None => end_of_iteration(),
        };
    }
    fields.pull.source.clear();
    Err(Raised)
}

fn not_awaitable<T>() -> Result<T, Raised> {
    raise(|_| PyTypeError::new_err("the source's __anext__() gave something not awaitable"))
}

/// What an async iterator is asked by; a function has no such thing.
fn anext_of(source: &Strong) -> Option<ffi::unaryfunc> {
    // SAFETY: a live object, of which the type is.
    unsafe { (*ffi::Py_TYPE(source.as_ptr())).tp_as_async.as_ref()?.am_anext }
}

/// Asks an async iterator, or calls a function, for the next item: an iterator to send to.
fn start(source: &Strong) -> Result<Strong, Raised> {
    // SAFETY: a live object; a slot is called as Python calls it.
    let awaitable = unsafe {
        match anext_of(source) {
            Some(next) => Strong::owned(next(source.as_ptr()))?,
            None => Strong::owned(ffi::PyObject_CallNoArgs(source.as_ptr()))?,
        }
    };
    awaited(awaitable)
}

/// What to send to, to await something.
fn awaited(awaitable: Strong) -> Result<Strong, Raised> {
    // SAFETY: live objects; slots are called as Python calls them.
    unsafe {
        if ffi::PyCoro_CheckExact(awaitable.as_ptr()) != 0 {
            return Ok(awaitable);
        }
        let slots = (*ffi::Py_TYPE(awaitable.as_ptr())).tp_as_async;
        match slots.as_ref().and_then(|slots| slots.am_await) {
            Some(await_) => {
                let iterator = Strong::owned(await_(awaitable.as_ptr()))?;
                if ffi::PyIter_Check(iterator.as_ptr()) == 0 {
                    not_awaitable()
                } else {
                    Ok(iterator)
                }
            }
            None if is_generator_coroutine(&awaitable) => Ok(awaitable),
            None => not_awaitable(),
        }
    }
}

/// Whether this is a generator that `types.coroutine` has marked.
#[cold]
fn is_generator_coroutine(awaitable: &Strong) -> bool {
    const CO_ITERABLE_COROUTINE: u32 = 0x100;
    held(|py| {
        let flags = awaitable
            .bind(py)
            .getattr("gi_code")
            .and_then(|code| code.getattr("co_flags")?.extract::<u32>());
        flags.is_ok_and(|flags| flags & CO_ITERABLE_COROUTINE != 0)
    })
}

unsafe extern "C" fn async_next(object: Object) -> Object {
    guard(|| {
        // SAFETY: Python calls this with an `AsyncEventIterator`.
        let fields = unsafe { &(*object.cast::<AsyncEventIterator>()).fields };
        // SAFETY: live objects; an awaitable that nobody else has is not in use.
        unsafe {
            let iterator = Strong::borrowed(object);
            if let Some(spare) = fields.spare.take()
                && ffi::Py_REFCNT(spare.as_ptr()) == 1
            {
                (*spare.as_ptr().cast::<Anext>()).iterator.set(iterator);
                return Ok(spare);
            }
            let iterator = Slot::new(Some(iterator));
            allocate::<Anext, _>(&types().anext, iterator, |it| &raw mut (*it).iterator)
        }
    })
}

/// One step of an awaitable; what is sent or thrown in comes as `step`.
///
/// # Safety
/// `object` is an `Anext` that is kept alive.
#[inline(always)]
unsafe fn advance(
    object: Object,
    step: impl FnOnce(&AsyncFields) -> Result<Sent, Raised>,
) -> Result<Sent, Raised> {
    // SAFETY: the caller's promise.
    let anext = unsafe { &*object.cast::<Anext>() };
    let Some(iterator) = anext.iterator.get() else {
        return raise(|_| PyRuntimeError::new_err("cannot reuse already awaited __anext__()"));
    };
    // SAFETY: an `AsyncEventIterator`, held here.
    let fields = unsafe { &(*iterator.as_ptr().cast::<AsyncEventIterator>()).fields };
    let waiter = fields.waiter.get();
    if fields.pull.asking.get() || !(waiter.is_null() || waiter == object) {
        return already_asking();
    }
    let sent = step(fields);
    if !matches!(sent, Ok(Sent::Yield(_))) {
        anext.iterator.clear();
        // SAFETY: a live object.
        fields.spare.set(unsafe { Strong::borrowed(object) });
        if sent.is_err() {
            refuse_stop_iteration();
        }
    }
    sent
}

/// A `StopIteration` that comes out of the source must not pass for the end of the awaitable
/// (PEP 479).
#[cold]
fn refuse_stop_iteration() {
    // SAFETY: a static of the interpreter; an exception is set.
    if exception_is(unsafe { ffi::PyExc_StopIteration }) {
        held(|py| {
            let cause = PyErr::fetch(py);
            let error = PyRuntimeError::new_err("the source raised StopIteration");
            error.set_cause(py, Some(cause));
            error.restore(py);
        });
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
        let sent = unsafe { advance(object, |fields| send(fields, object, value)) }?;
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
            held(|py| {
                PyStopIteration::new_err((event.bind(py).unbind(),)).restore(py);
            });
            Err(Raised)
        }
    })
}

unsafe extern "C" fn anext_next(object: Object) -> Object {
    // SAFETY: as in `anext_send`; None is a singleton.
    as_generator(|| unsafe { advance(object, |fields| send(fields, object, ffi::Py_None())) })
}

unsafe extern "C" fn anext_send_method(object: Object, value: Object) -> Object {
    // SAFETY: as in `anext_send`.
    as_generator(|| unsafe { advance(object, |fields| send(fields, object, value)) })
}

unsafe extern "C" fn anext_throw(object: Object, args: Object) -> Object {
    // SAFETY: as in `anext_send`; `args` is a tuple.
    as_generator(|| unsafe {
        advance(object, |fields| throw(fields, object, Strong::borrowed(args)))
    })
}

/// Throws into what is waited for, then goes on with what that gives.
fn throw(fields: &AsyncFields, anext: Object, args: Strong) -> Result<Sent, Raised> {
    let waiting = fields.waiting.get();
    let is_waiting = waiting.is_some();
    fields.pull.asking.set(is_waiting);
    let thrown = held(|py| -> Result<Thrown, PyErr> {
        let args = args.bind(py).cast_into::<PyTuple>()?;
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
    fields.pull.asking.set(false);
    let got = match thrown {
        Ok(Thrown::Yield(value)) => return Ok(Sent::Yield(value)),
        Ok(Thrown::Chunk(chunk)) => Ok(chunk),
        Err(error) => {
            held(|py| error.restore(py));
            Err(Raised)
        }
    };
    fields.stop_waiting();
    if !is_waiting {
        return Err(Raised);
    }
    match fields.take(anext, got)? {
        Some(sent) => Ok(sent),
        // SAFETY: a singleton.
        None => send(fields, anext, unsafe { ffi::Py_None() }),
    }
}

enum Thrown {
    Yield(Strong),
    Chunk(Strong),
}

/// The exception that the arguments of `throw` name: one, or a class and what it is made of.
fn given(args: &Bound<'_, PyTuple>) -> PyResult<PyErr> {
    let kind = args.get_item(0)?;
    let value = args.get_item(1).ok().filter(|value| !value.is_none());
    Ok(match value {
        Some(value) if value.is_instance_of::<PyBaseException>() => PyErr::from_value(value),
        Some(value) if kind.is_callable() => PyErr::from_value(kind.call1((value,))?),
        _ => PyErr::from_value(kind),
    })
}

unsafe extern "C" fn anext_close(object: Object, _: Object) -> Object {
    // SAFETY: Python calls this with an `Anext`, which it keeps alive.
    let anext = unsafe { &*object.cast::<Anext>() };
    guard_py(|py| {
        let none = py.None().into_bound(py);
        let Some(iterator) = anext.iterator.take() else { return Ok(none) };
        // SAFETY: an `AsyncEventIterator`, held here.
        let fields = unsafe { &(*iterator.as_ptr().cast::<AsyncEventIterator>()).fields };
        if fields.waiter.get() != object {
            return Ok(none);
        }
        let (source, waiting) = (fields.pull.source.take(), fields.waiting.take());
        fields.give_up();
        if let Some(waiting) = waiting
            && let Some(close) = waiting.bind(py).getattr_opt("close")?
        {
            close.call0()?;
        }
        drop(source); // after what waited for it, or in its place
        Ok(none)
    })
}

fn is_tuple(object: &Strong) -> bool {
    // SAFETY: a live object.
    unsafe { ffi::PyTuple_CheckExact(object.as_ptr()) != 0 }
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
        let referred = [
            fields.pull.decoder.as_ptr(),
            fields.pull.source.as_ptr(),
            fields.pull.chunks.as_ptr(),
            fields.waiting.as_ptr(),
            fields.spare.as_ptr(),
            fields.delegation.source.as_ptr(),
            fields.delegation.clock.as_ptr(),
        ];
        show(object, referred, visit, arg)
    }
}

unsafe extern "C" fn async_clear(object: Object) -> c_int {
    // SAFETY: as above.
    let fields = unsafe { &(*object.cast::<AsyncEventIterator>()).fields };
    fields.give_up();
    fields.pull.chunks.clear();
    fields.spare.clear();
    0
}

unsafe extern "C" fn async_dealloc(object: Object) {
    // SAFETY: called once, by the last reference.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        let fields = &raw mut (*object.cast::<AsyncEventIterator>()).fields;
        (*fields).pull.release_at_last();
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
    unsafe { show(object, [(*object.cast::<Anext>()).iterator.as_ptr()], visit, arg) }
}

unsafe extern "C" fn anext_clear(object: Object) -> c_int {
    // SAFETY: as above.
    unsafe { &*object.cast::<Anext>() }.abandon(object);
    0
}

unsafe extern "C" fn anext_dealloc(object: Object) {
    // SAFETY: called once, by the last reference.
    unsafe {
        ffi::PyObject_GC_UnTrack(object.cast());
        let anext = object.cast::<Anext>();
        (*anext).abandon(object);
        ptr::drop_in_place(&raw mut (*anext).iterator);
        free(object);
    }
}

// --- types -------------------------------------------------------------------------------

const ITERATOR_DOC: &CStr = c"Items one by one, as `SSEDecoder.iter` gives them.";
const ASYNC_DOC: &CStr = c"Items one by one, as `SSEDecoder.aiter` gives them.";
const ANEXT_DOC: &CStr = c"The next item, to be awaited.";

fn doc(text: &'static CStr) -> (c_int, *mut c_void) {
    (ffi::Py_tp_doc, text.as_ptr().cast_mut().cast())
}

/// Makes the types; they are reached through what gives their objects alone.
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
        .map_err(|_| PyImportError::new_err("seamstream._core can be loaded once in a process"))
}
