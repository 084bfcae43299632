//! `SSEDecoder`: the state of one stream, and `feed`.

use crate::errors;
use crate::event::{self, Facts, Shared, method, new_event, new_retry, shared};
use crate::pull;
use crate::raw::{
    Batch, BytesBuf, Chunk, Object, Raised, Strong, bytes_of, guard, new_bytes, new_text,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyString;
use seamstream::sse::{Block, Error, Flow, Options, Payload, Sink, SseParser};
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Events came out before an error; the next call raises it.
    Held,
    Failed,
    Closed,
}

/// What an iterator has not taken yet of its chunk.
#[derive(Default)]
struct Rest {
    /// The iterator; 0 when there is none.
    owner: u64,
    /// An exact `bytes` chunk, or the tuple of events of another buffer.
    chunk: Option<Strong>,
    /// What of it is used.
    pos: usize,
    /// The next event, when somebody had to look whether there is one.
    ahead: Option<Strong>,
}

/// What is behind the busy flag.
pub(crate) struct Inner {
    parser: SseParser<BytesBuf>,
    state: State,
    last_event_id: Strong,
    /// The event type seen last, which mostly is the next one too.
    last_name: Option<Strong>,
    /// Given to each event when there is a `loads`.
    context: Option<Strong>,
    failure: Option<Box<PyErr>>,
    rest: Rest,
    closed_at_boundary: bool,
}

/// Makes events out of blocks.
struct Maker<'a> {
    shared: &'static Shared,
    last_event_id: &'a mut Strong,
    last_name: &'a mut Option<Strong>,
    context: Option<&'a Strong>,
}

impl Maker<'_> {
    #[inline(always)]
    fn commit_id(&mut self, id: &[u8]) -> Result<(), Raised> {
        *self.last_event_id = new_text(id)?;
        Ok(())
    }

    #[inline(always)]
    fn name(&mut self, name: &[u8]) -> Result<Strong, Raised> {
        if let Some(last) = self.last_name {
            let mut len = 0;
            // SAFETY: a live `str`; the pointer is valid as long as it lives.
            let text = unsafe {
                let text = ffi::PyUnicode_AsUTF8AndSize(last.as_ptr(), &raw mut len);
                if text.is_null() {
                    ffi::PyErr_Clear();
                    &[][..]
                } else {
                    std::slice::from_raw_parts(text.cast::<u8>(), len.unsigned_abs())
                }
            };
            if text == name {
                return Ok(last.clone());
            }
        }
        let found = match self.shared.well_known(name) {
            Some(known) => known.clone(),
            None => new_text(name)?,
        };
        *self.last_name = Some(found.clone());
        Ok(found)
    }

    #[inline(always)]
    fn event(&mut self, block: Block<'_, BytesBuf>) -> Result<Strong, Raised> {
        #[inline(always)]
        fn finish(payload: Payload<'_, BytesBuf>) -> Result<Strong, Raised> {
            match payload {
                Payload::Slice(bytes) => new_bytes(bytes),
                Payload::Owned(buffer) => std::mem::take(buffer).into_bytes(),
            }
        }
        let event = if block.event.is_empty() {
            self.shared.message.clone()
        } else {
            self.name(block.event)?
        };
        let raw = finish(block.payload)?;
        let wire = block.wire.map(finish).transpose()?;
        let retry = new_retry(self.shared, block.retry)?;
        let facts = Facts { torn: block.torn, replaced: block.replaced, offset: block.offset };
        let references = [event, self.last_event_id.clone(), retry, raw];
        new_event(self.shared, references, [wire, self.context.cloned()], &facts)
    }
}

/// Takes all events of a chunk.
struct All<'a> {
    maker: Maker<'a>,
    /// Borrowed: it is too large to be moved about.
    batch: &'a mut Batch,
}

impl Sink<BytesBuf> for All<'_> {
    type Error = Raised;

    #[inline(always)]
    fn commit_id(&mut self, id: &[u8]) -> Result<(), Raised> {
        self.maker.commit_id(id)
    }

    #[inline(always)]
    fn event(&mut self, block: Block<'_, BytesBuf>) -> Result<Flow, Raised> {
        self.batch.push(self.maker.event(block)?);
        Ok(Flow::Continue)
    }
}

/// Takes one event and stops there.
struct One<'a> {
    maker: Maker<'a>,
    event: Option<Strong>,
}

impl Sink<BytesBuf> for One<'_> {
    type Error = Raised;

    #[inline(always)]
    fn commit_id(&mut self, id: &[u8]) -> Result<(), Raised> {
        self.maker.commit_id(id)
    }

    #[inline(always)]
    fn event(&mut self, block: Block<'_, BytesBuf>) -> Result<Flow, Raised> {
        self.event = Some(self.maker.event(block)?);
        Ok(Flow::Stop)
    }
}

/// The parser and what makes its events, borrowed apart.
macro_rules! parser_and_maker {
    ($inner:expr) => {{
        let Inner { parser, last_event_id, last_name, context, .. } = $inner;
        let maker = Maker { shared: shared(), last_event_id, last_name, context: context.as_ref() };
        (parser, maker)
    }};
}

impl Inner {
    /// Feeds a chunk and gives its events as a tuple.
    #[inline(always)]
    fn feed(&mut self, chunk: &[u8]) -> Result<Strong, Raised> {
        let (parser, maker) = parser_and_maker!(self);
        let mut batch = Batch::new();
        match parser.feed(chunk, &mut All { maker, batch: &mut batch }) {
            Ok(_) if batch.is_empty() => Ok(shared().empty_tuple.clone()),
            Ok(_) => batch.take_tuple(),
            Err(error) => self.stopped(error, &mut batch),
        }
    }

    /// The parser cannot go on: nothing complete is lost, so events come before the error.
    #[cold]
    fn stopped(&mut self, error: Error<Raised>, batch: &mut Batch) -> Result<Strong, Raised> {
        let failure = self.fail(error);
        if batch.is_empty() {
            Python::attach(|py| failure.restore(py));
            return Err(Raised);
        }
        self.state = State::Held;
        self.failure = Some(Box::new(failure));
        batch.take_tuple()
    }

    #[cold]
    fn fail(&mut self, error: Error<Raised>) -> PyErr {
        let limit = self.parser.options().max_event_bytes;
        let failure = Python::attach(|py| errors::from_core(py, error, limit));
        self.parser.abandon();
        self.state = State::Failed;
        failure
    }

    /// Raises what keeps the stream from going on.
    #[inline(always)]
    fn check_open(&mut self) -> Result<(), Raised> {
        if self.state == State::Open { Ok(()) } else { self.not_open() }
    }

    #[cold]
    fn not_open(&mut self) -> Result<(), Raised> {
        let failure = self.failure.take();
        let closed = self.state == State::Closed;
        if self.state == State::Held {
            self.state = State::Failed;
        }
        Python::attach(|py| match failure {
            Some(failure) => failure.restore(py),
            None if closed => {
                errors::state(py, "the decoder is closed; reset() opens it for a new connection")
                    .restore(py);
            }
            None => {
                errors::state(py, "the decoder has failed; reset() opens it for a new connection")
                    .restore(py);
            }
        });
        Err(Raised)
    }

    /// The end of the stream: a tuple of no or one event.
    fn close(&mut self) -> Result<Strong, Raised> {
        if self.state == State::Held {
            self.not_open()?;
        }
        if self.state != State::Open {
            return Ok(shared().empty_tuple.clone());
        }
        self.state = State::Closed;
        self.closed_at_boundary = self.parser.at_boundary();
        let (parser, maker) = parser_and_maker!(self);
        let mut batch = Batch::new();
        match parser.close(&mut All { maker, batch: &mut batch }) {
            Ok(()) => batch.take_tuple(),
            Err(error) => self.stopped(error, &mut batch),
        }
    }

    /// Parses on in an iterator's chunk, to its next event.
    #[inline(always)]
    fn parse_rest(&mut self) -> Result<Option<Strong>, PyErr> {
        let Some(chunk) = &self.rest.chunk else { return Ok(None) };
        // SAFETY: `rest.chunk` is exact `bytes` here and stays until the busy flag is given
        // back, which is after the slice's last use.
        let bytes = unsafe { bytes_of(chunk.as_ptr()) };
        let rest = &bytes[self.rest.pos..];
        let (parser, maker) = parser_and_maker!(&mut *self);
        let mut sink = One { maker, event: None };
        let fed = parser.feed(rest, &mut sink);
        let event = sink.event;
        match fed {
            Ok(used) => {
                self.rest.pos += used;
                if self.rest.pos == bytes.len() {
                    self.rest = Rest::default();
                }
                Ok(event)
            }
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Raises when another iterator than `owner` has events left.
    #[inline(always)]
    pub fn check_turn(&mut self, owner: u64) -> Result<(), Raised> {
        if self.rest.owner == owner { Ok(()) } else { self.settle() }
    }

    /// The next event of what iterator `owner` has in hand.
    #[inline(always)]
    pub fn next_of(&mut self, owner: u64) -> Result<Option<Strong>, Raised> {
        if self.rest.owner != owner {
            return Ok(None);
        }
        if let Some(event) = self.rest.ahead.take() {
            if self.rest.chunk.is_none() {
                self.rest = Rest::default();
            }
            return Ok(Some(event));
        }
        if let Some(event) = self.take_from_tuple() {
            return Ok(Some(event));
        }
        if self.state == State::Held {
            self.rest = Rest::default();
            self.not_open()?;
        }
        self.parse_rest().map_err(|failure| {
            self.rest = Rest::default();
            Python::attach(|py| failure.restore(py));
            Raised
        })
    }

    /// The next of the events that were parsed on arrival. The tuple ends as no chunk.
    #[inline(always)]
    fn take_from_tuple(&mut self) -> Option<Strong> {
        let chunk = self.rest.chunk.as_ref()?;
        // SAFETY: a live object; a tuple's items are read within its size.
        unsafe {
            if ffi::PyTuple_CheckExact(chunk.as_ptr()) == 0 {
                return None;
            }
            let at = self.rest.pos.cast_signed();
            if at < ffi::PyTuple_GET_SIZE(chunk.as_ptr()) {
                self.rest.pos += 1;
                return Some(Strong::borrowed(ffi::PyTuple_GET_ITEM(chunk.as_ptr(), at)));
            }
        }
        self.rest.chunk = None;
        if self.state != State::Held {
            self.rest = Rest::default();
        }
        None
    }

    /// Uses up what an iterator has left, unless there is an event or an error in it.
    #[inline(always)]
    fn settle(&mut self) -> Result<(), Raised> {
        if self.rest.owner == 0 { Ok(()) } else { self.settle_rest() }
    }

    #[cold]
    fn settle_rest(&mut self) -> Result<(), Raised> {
        if self.rest.ahead.is_none() {
            if let Some(event) = self.take_from_tuple() {
                self.rest.ahead = Some(event);
            } else if self.state != State::Held {
                let owner = self.rest.owner;
                match self.parse_rest() {
                    Ok(None) => return Ok(()),
                    Ok(event) => {
                        self.rest.ahead = event;
                        self.rest.owner = owner;
                    }
                    Err(failure) => {
                        self.rest.chunk = None;
                        self.state = State::Held;
                        self.failure = Some(Box::new(failure));
                    }
                }
            }
        }
        Python::attach(|py| {
            errors::state(py, "an iterator has events left in its chunk").restore(py);
        });
        Err(Raised)
    }

    /// Iterator `owner` goes away or is done: what it has left must not be lost in silence.
    pub fn release(&mut self, owner: u64) {
        if self.rest.owner == owner && self.settle().is_err() {
            // SAFETY: an exception is set, and nobody is there to take it.
            unsafe { ffi::PyErr_Clear() };
            self.rest = Rest::default();
            self.failure = None;
            self.parser.abandon();
            self.state = State::Failed;
        }
    }

    /// Gives iterator `owner` its next chunk.
    #[inline(always)]
    pub fn take_chunk(&mut self, owner: u64, chunk: Strong) -> Result<(), Raised> {
        self.settle()?;
        self.check_open()?;
        // SAFETY: a live object.
        if unsafe { ffi::PyBytes_CheckExact(chunk.as_ptr()) } != 0 {
            self.rest = Rest { owner, chunk: Some(chunk), pos: 0, ahead: None };
            return Ok(());
        }
        // SAFETY: `chunk` outlives the view.
        let view = unsafe { Chunk::new(chunk.as_ptr())? };
        let events = self.feed(view.bytes())?;
        self.rest = Rest { owner, chunk: Some(events), pos: 0, ahead: None };
        Ok(())
    }

    /// The source of an iterator has ended.
    pub fn end(&mut self) -> Result<Option<Strong>, Raised> {
        self.settle()?;
        let events = self.close()?;
        // SAFETY: `close` gives a tuple.
        unsafe {
            if ffi::PyTuple_GET_SIZE(events.as_ptr()) == 0 {
                return Ok(None);
            }
            Ok(Some(Strong::borrowed(ffi::PyTuple_GET_ITEM(events.as_ptr(), 0))))
        }
    }
}

/// Decode one event stream, whatever way it is cut into chunks.
///
/// WHATWG HTML "9.2.6 Interpreting an event stream", over WHATWG Encoding "UTF-8 decode". Any
/// fragmentation of the same bytes gives the same events, errors, flags, counters and offsets,
/// and each event comes out with the chunk that completes it.
///
/// Args:
///     limits: Caps on what is kept of an unfinished event.
///     on_limit: At an event past `limits.max_event_bytes`: `"error"` raises, `"skip"` goes on
///         after its empty line and counts it in `stats.skipped`.
///     on_torn: An event that the end of the stream cuts: `"report"` gives it with `torn=True`,
///         `"flush"` takes it as complete. None: as the profile does, `"report"`.
///     profile: Only `"whatwg"`.
///     keep_wire: Whether each event keeps its block as it came, as `wire`.
///     last_event_id: The last event ID that an earlier connection ended with.
///     loads: A JSON parser that takes `bytes`, used by the events; orjson by default.
///
/// Raises:
///     TypeError: An argument has the wrong type.
///     ValueError: An argument names nothing that exists.
#[pyclass(frozen, module = "seamstream")]
pub(crate) struct SSEDecoder {
    busy: AtomicBool,
    inner: UnsafeCell<Inner>,
}

// SAFETY: `inner` is reached through `enter`, which lets one user in at a time.
unsafe impl Sync for SSEDecoder {}
// SAFETY: `Strong` and `SseParser` are used with the GIL held only.
unsafe impl Send for SSEDecoder {}

/// The one user of a decoder, until dropped.
pub(crate) struct Entered<'a>(&'a SSEDecoder);

impl Deref for Entered<'_> {
    type Target = Inner;

    #[inline(always)]
    fn deref(&self) -> &Inner {
        // SAFETY: the busy flag keeps all others out.
        unsafe { &*self.0.inner.get() }
    }
}

impl DerefMut for Entered<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Inner {
        // SAFETY: as above.
        unsafe { &mut *self.0.inner.get() }
    }
}

impl Drop for Entered<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Half-done work must not be gone on with.
            self.state = State::Failed;
            self.rest = Rest::default();
            self.parser.abandon();
        }
        self.0.busy.store(false, Ordering::Release);
    }
}

impl SSEDecoder {
    /// Lets the caller in, or sets the exception that says who is in.
    #[inline(always)]
    pub fn enter(&self) -> Result<Entered<'_>, Raised> {
        // With the GIL no two threads are here at once: a plain read and write is exact.
        #[cfg(not(Py_GIL_DISABLED))]
        let free = !self.busy.load(Ordering::Relaxed);
        #[cfg(Py_GIL_DISABLED)]
        let free = !self.busy.swap(true, Ordering::Acquire);
        if !free {
            return Err(Self::busy());
        }
        self.busy.store(true, Ordering::Relaxed);
        Ok(Entered(self))
    }

    #[cold]
    fn busy() -> Raised {
        Python::attach(|py| errors::busy(py).restore(py));
        Raised
    }

    fn enter_py(&self, py: Python<'_>) -> PyResult<Entered<'_>> {
        self.enter().map_err(|Raised| PyErr::fetch(py))
    }

    /// The decoder behind an object.
    ///
    /// # Safety
    /// `object` is an `SSEDecoder` that stays alive as long as the reference.
    #[inline(always)]
    pub unsafe fn of<'a>(object: Object) -> &'a SSEDecoder {
        // SAFETY: the caller's promise; the GIL is held wherever objects are passed.
        unsafe {
            let py = Python::assume_attached();
            let decoder = Bound::from_borrowed_ptr(py, object);
            let decoder = ManuallyDrop::new(decoder);
            // The count went up by one and the reference is not kept.
            ffi::Py_DECREF(object);
            let decoder: *const SSEDecoder = decoder.cast_unchecked::<SSEDecoder>().get();
            &*decoder
        }
    }

    #[inline(always)]
    fn feed_object(&self, chunk: Object) -> Result<Strong, Raised> {
        let mut inner = self.enter()?;
        inner.settle()?;
        inner.check_open()?;
        // SAFETY: the caller of `feed` keeps its argument alive.
        let chunk = unsafe { Chunk::new(chunk)? };
        inner.feed(chunk.bytes())
    }
}

/// Chunks up to this size are worth a look before the general path.
const TINY: usize = 16;

unsafe extern "C" fn feed(decoder: Object, chunk: Object) -> Object {
    // SAFETY: Python's method descriptor has checked `decoder`, and keeps both alive. The fast
    // path runs no Python code, so nobody comes in between.
    let decoder = unsafe {
        let decoder = SSEDecoder::of(decoder);
        if ffi::PyBytes_CheckExact(chunk) != 0
            && ffi::Py_SIZE(chunk) <= TINY.cast_signed()
            && !decoder.busy.load(Ordering::Acquire)
        {
            let inner = &mut *decoder.inner.get();
            if inner.state == State::Open
                && inner.rest.owner == 0
                && inner.parser.feed_inside_data(bytes_of(chunk))
            {
                return shared().empty_tuple.clone().into_ptr();
            }
        }
        decoder
    };
    guard(|| decoder.feed_object(chunk))
}

const FEED_DOC: &CStr = c"feed($self, chunk, /)\n--\n\n\
Consume one chunk and return the events it completes.\n\n\
Args:\n    chunk: A C-contiguous buffer; it is not kept.\n\n\
Returns:\n    Completed events, oldest first; often none.\n\n\
Raises:\n    LimitExceededError: An event outgrew `limits.max_event_bytes`. If events were completed\n        \
before it in the same chunk, they are returned, and the next call raises.\n    \
StreamStateError: The decoder is closed, has failed, or is in use.\n    \
TypeError: `chunk` is not bytes.\n    BufferError: `chunk` is not contiguous.\n";

fn one_of(name: &str, value: &str, allowed: &[&str]) -> PyResult<()> {
    if allowed.contains(&value) {
        return Ok(());
    }
    let allowed: Vec<_> = allowed.iter().map(|value| format!("'{value}'")).collect();
    let shown = value.chars().take(80).collect::<String>();
    Err(PyValueError::new_err(format!("{name} must be {}, not '{shown}'", allowed.join(" or "))))
}

#[pymethods]
impl SSEDecoder {
    #[new]
    #[pyo3(signature = (
        *, limits=Argument(None), on_limit="error", on_torn=None, profile="whatwg",
        keep_wire=false, last_event_id=Argument(None), loads=None
    ))]
    #[pyo3(text_signature = "(*, limits=..., on_limit='error', on_torn=None, \
                             profile='whatwg', keep_wire=False, last_event_id='', loads=None)")]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        limits: Argument<'_>,
        on_limit: &str,
        on_torn: Option<&str>,
        profile: &str,
        keep_wire: bool,
        last_event_id: Argument<'_>,
        loads: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        one_of("on_limit", on_limit, &["error", "skip"])?;
        one_of("on_torn", on_torn.unwrap_or("report"), &["report", "flush"])?;
        one_of("profile", profile, &["whatwg"])?;
        let max_event_bytes = match limits.0 {
            None => 8 << 20,
            Some(limits) => {
                let class = py.import("seamstream.limits")?.getattr("Limits")?;
                if !limits.is_instance(&class)? {
                    let given = limits.get_type().name()?;
                    let message = format!("limits must be Limits, not {given}");
                    return Err(PyTypeError::new_err(message));
                }
                limits.getattr("max_event_bytes")?.extract()?
            }
        };
        let context = match loads {
            None => None,
            Some(loads) if loads.is_callable() => {
                let context = event::new_context(Strong::from_bound(loads));
                Some(context.map_err(|Raised| PyErr::fetch(py))?)
            }
            Some(loads) => {
                let message =
                    format!("loads must be callable or None, not {}", loads.get_type().name()?);
                return Err(PyTypeError::new_err(message));
            }
        };
        let options = Options {
            max_event_bytes,
            skip_oversize: on_limit == "skip",
            keep_wire,
            flush_torn: on_torn == Some("flush"),
        };
        Ok(SSEDecoder {
            busy: AtomicBool::new(false),
            inner: UnsafeCell::new(Inner {
                parser: SseParser::new(options),
                state: State::Open,
                last_event_id: exact_text(&last_event_id)?,
                last_name: None,
                context,
                failure: None,
                rest: Rest::default(),
                closed_at_boundary: false,
            }),
        })
    }

    /// End the stream: give its unfinished event, if there is one.
    ///
    /// Returns:
    ///     `()`, or one event: torn, or ordinary with `on_torn="flush"`. Again: `()`.
    ///
    /// Raises:
    ///     LimitExceededError: An error that `feed` held back.
    ///     StreamStateError: The decoder is in use.
    fn close<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut inner = self.enter_py(py)?;
        let closed = inner.settle().and_then(|()| inner.close());
        Ok(closed.map_err(|Raised| PyErr::fetch(py))?.bind(py))
    }

    /// Start on a new connection.
    ///
    /// Offsets and stats start again, the reconnection time stays, whatever was open, held or
    /// failed is forgotten.
    ///
    /// Args:
    ///     last_event_id: The last event ID to go on from.
    #[pyo3(signature = (last_event_id=Argument(None)))]
    #[pyo3(text_signature = "($self, last_event_id='')")]
    fn reset(&self, py: Python<'_>, last_event_id: Argument<'_>) -> PyResult<()> {
        let last_event_id = exact_text(&last_event_id)?;
        let mut inner = self.enter_py(py)?;
        // A context belongs to one connection.
        let context = match &inner.context {
            None => None,
            Some(old) => {
                let new = event::new_context(event::loads(old));
                Some(new.map_err(|Raised| PyErr::fetch(py))?)
            }
        };
        inner.parser.reset();
        inner.state = State::Open;
        inner.last_event_id = last_event_id;
        inner.context = context;
        // Dropped when nobody is inside any more: it may run the caller's code.
        let failure = inner.failure.take();
        let rest = std::mem::take(&mut inner.rest);
        drop(inner);
        drop((failure, rest));
        Ok(())
    }

    /// Pull events out of an iterable of chunks.
    ///
    /// A chunk is pulled, its events are handed out one by one, then the next. At the source's
    /// end `close()` is called and its event comes last. If the source raises, that exception
    /// passes through and the decoder stays open. The source is never closed.
    ///
    /// While events are left in the chunk in hand, `feed`, `close` and another `iter` raise
    /// `StreamStateError`; an iterator dropped there leaves the decoder failed until `reset()`.
    ///
    /// Args:
    ///     chunks: An iterable of C-contiguous buffers.
    ///     done: A payload that ends the stream and is not handed out; white space around it is
    ///         ignored.
    ///
    /// Raises:
    ///     TypeError: `chunks` or `done` has the wrong type.
    ///     StreamStateError: Another iterator has events left in its chunk.
    #[pyo3(signature = (chunks, *, done=None))]
    fn iter<'py>(
        slf: &Bound<'py, Self>,
        chunks: &Bound<'py, PyAny>,
        done: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.get().check_free(slf.py())?;
        pull::iterator(slf, chunks, done)
    }

    /// Pull events out of an async iterable of chunks: `iter`, for `async for`.
    ///
    /// Args:
    ///     chunks: An async iterable of C-contiguous buffers.
    ///     done: As in `iter`.
    ///
    /// Raises:
    ///     TypeError: `chunks` or `done` has the wrong type.
    ///     StreamStateError: Another iterator has events left in its chunk.
    #[pyo3(signature = (chunks, *, done=None))]
    fn aiter<'py>(
        slf: &Bound<'py, Self>,
        chunks: &Bound<'py, PyAny>,
        done: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.get().check_free(slf.py())?;
        pull::async_iterator(slf, chunks, done)
    }

    /// The last event ID that an empty line committed.
    #[getter]
    fn last_event_id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.enter_py(py)?.last_event_id.bind(py))
    }

    /// The last `retry` of the stream in milliseconds, or None.
    #[getter]
    fn reconnection_time_ms(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        Ok(self.enter_py(py)?.parser.reconnection_time_ms())
    }

    /// Bytes of the open block, as they count against the limit.
    #[getter]
    fn pending_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.enter_py(py)?.parser.pending_bytes())
    }

    /// Whether a comment may be written here without breaking an event.
    ///
    /// Nothing was fed yet, or the last byte ended a line and no field line is in the open
    /// block. After `close()` it stays as it was; after an error it is False.
    #[getter]
    fn at_boundary(&self, py: Python<'_>) -> PyResult<bool> {
        let inner = self.enter_py(py)?;
        Ok(match inner.state {
            State::Open => inner.parser.at_boundary(),
            State::Closed => inner.closed_at_boundary,
            State::Held | State::Failed => false,
        })
    }

    /// Counters since the stream began, as they stand now.
    #[getter]
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let stats = self.enter_py(py)?.parser.stats();
        py.import("seamstream.stats")?.getattr("Stats")?.call1((
            stats.bytes,
            stats.events,
            stats.comments,
            stats.ignored_lines,
            stats.invalid_fields,
            stats.empty_blocks,
            stats.replaced,
            stats.skipped,
            u64::from(stats.torn),
        ))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // SAFETY: one pointer is read; traversal runs with the GIL held and changes nothing.
        let context = unsafe { (*self.inner.get()).context.as_ref() };
        if let Some(loads) = context.and_then(event::sole_loads) {
            // SAFETY: a live object; the reference that is made of it is not given back.
            let loads = unsafe {
                ManuallyDrop::new(Bound::from_owned_ptr(Python::assume_attached(), loads).unbind())
            };
            visit.call(&*loads)?;
        }
        Ok(())
    }

    fn __clear__(&self) {
        if let Ok(inner) = self.enter()
            && let Some(context) = &inner.context
        {
            event::clear_loads(context);
        }
    }
}

impl SSEDecoder {
    fn check_free(&self, py: Python<'_>) -> PyResult<()> {
        self.enter_py(py)?.settle().map_err(|Raised| PyErr::fetch(py))
    }
}

/// An argument with a default that is no Rust value; None, when given, is a value like any other.
struct Argument<'py>(Option<Bound<'py, PyAny>>);

impl<'a, 'py> FromPyObject<'a, 'py> for Argument<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Argument(Some(object.to_owned())))
    }
}

fn exact_text(argument: &Argument<'_>) -> PyResult<Strong> {
    let Some(given) = &argument.0 else { return Ok(shared().empty_text.clone()) };
    let text = given.cast::<PyString>().map_err(|_| {
        let name = given.get_type().name().map_or_else(|_| String::new(), |name| name.to_string());
        PyTypeError::new_err(format!("last_event_id must be str, not {name}"))
    })?;
    // SAFETY: a live `str`; gives a new reference to an exact one.
    let exact = unsafe { Strong::owned(ffi::PyUnicode_FromObject(text.as_ptr())) };
    exact.map_err(|Raised| PyErr::fetch(text.py()))
}

/// Panics while the decoder is in use, as a fault in the parser would.
pub(crate) fn provoke_panic(decoder: &Bound<'_, SSEDecoder>) -> PyResult<()> {
    let object = guard(|| {
        let inner = decoder.get().enter()?;
        assert!(inner.parser.options().max_event_bytes == 0, "provoked by a test");
        Ok(shared().empty_tuple.clone())
    });
    if object.is_null() {
        return Err(PyErr::fetch(decoder.py()));
    }
    // SAFETY: the reference that `guard` gave.
    unsafe { ffi::Py_DECREF(object) };
    Ok(())
}

/// Gives `SSEDecoder` its `feed`, past the safe layer.
pub(crate) fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let kind = py.get_type::<SSEDecoder>();
    let definition = Box::leak(Box::new(method(c"feed", feed, ffi::METH_O, FEED_DOC)));
    // SAFETY: the type is live and the definition lives for good.
    let feed = unsafe {
        Bound::from_owned_ptr_or_err(py, ffi::PyDescr_NewMethod(kind.as_type_ptr(), definition))?
    };
    kind.setattr("feed", feed)?;
    Ok(())
}
