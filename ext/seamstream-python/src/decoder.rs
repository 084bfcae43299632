//! `SSEDecoder`: the state of one stream, and `feed`.

use crate::event::{self, Facts, context_in, new_event, new_retry, shared};
use crate::machine::{Cell, More, Pulled, Stream};
use crate::pull;
use crate::raw::{
    Batch, BytesBuf, Object, Raised, Strong, bytes_of, guard, is_text, new_bytes, new_text,
};
use crate::types::method;
use pyo3::PyClass;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyString;
use seamstream::sse::{Block, Error, Flow, Options, Payload, Profile, Sink, SseParser};
use std::ffi::CStr;
use std::mem::ManuallyDrop;

/// An event stream and what its events need.
pub(crate) struct EventSource {
    parser: SseParser<BytesBuf>,
    maker: Maker,
}

/// The longest event type that is remembered: an idle decoder holds next to nothing.
const NAME_KEPT: usize = 64;

/// Makes events out of blocks.
struct Maker {
    last_event_id: Strong,
    /// The event type seen last, which mostly is the next one too.
    last_name: Option<Strong>,
    /// Given to each event; made with the first one, or before if there is a `loads`.
    context: Option<Strong>,
}

impl Maker {
    #[inline(always)]
    fn commit_id(&mut self, id: &[u8]) -> Result<(), Raised> {
        self.last_event_id = new_text(id)?;
        Ok(())
    }

    fn has_id(&self) -> bool {
        // SAFETY: a live `str`.
        unsafe { ffi::PyUnicode_GetLength(self.last_event_id.as_ptr()) > 0 }
    }

    #[inline(always)]
    fn name(&mut self, name: &[u8]) -> Result<Strong, Raised> {
        if let Some(last) = &self.last_name {
            // SAFETY: a live `str`.
            if unsafe { is_text(last.as_ptr(), name) } {
                return Ok(last.clone());
            }
        }
        self.new_name(name)
    }

    #[cold]
    fn new_name(&mut self, name: &[u8]) -> Result<Strong, Raised> {
        let found = match shared().well_known(name) {
            Some(known) => known.clone(),
            None => new_text(name)?,
        };
        if name.len() <= NAME_KEPT {
            self.last_name = Some(found.clone());
        }
        Ok(found)
    }

    /// An event; `names_message`: whether one that names no type is a "message".
    #[inline(always)]
    fn event(&mut self, block: Block<'_, BytesBuf>, names_message: bool) -> Result<Strong, Raised> {
        #[inline(always)]
        fn finish(payload: Payload<'_, BytesBuf>) -> Result<Strong, Raised> {
            match payload {
                Payload::Slice(bytes) => new_bytes(bytes),
                Payload::Owned(buffer) => std::mem::take(buffer).into_bytes(),
            }
        }
        let shared = shared();
        let context = Some(context_in(&mut self.context)?);
        let raw = finish(block.payload)?;
        let wire = block.wire.map(finish).transpose()?;
        let retry = new_retry(shared, block.retry)?;
        let event = if !block.event.is_empty() {
            self.name(block.event)?
        } else if names_message {
            shared.message.clone()
        } else {
            shared.none.clone()
        };
        let facts = Facts { torn: block.torn, replaced: block.replaced, offset: block.offset };
        let references = [event, self.last_event_id.clone(), retry, raw];
        new_event(shared, references, [wire, context], &facts)
    }
}

/// Takes all events of a chunk.
struct All<'a> {
    maker: &'a mut Maker,
    names_message: bool,
    /// Borrowed: it is too large to be moved about.
    batch: &'a mut Batch,
}

impl Sink<BytesBuf> for All<'_> {
    type Error = Raised;

    #[inline(always)]
    fn commit_id(&mut self, id: &[u8]) -> Result<(), Raised> {
        self.maker.commit_id(id)
    }

    fn has_id(&self) -> bool {
        self.maker.has_id()
    }

    #[inline(always)]
    fn event(&mut self, block: Block<'_, BytesBuf>) -> Result<Flow, Raised> {
        self.batch.push(self.maker.event(block, self.names_message)?);
        Ok(Flow::Continue)
    }
}

/// Takes one event and stops there.
struct One<'a> {
    maker: &'a mut Maker,
    names_message: bool,
    event: Option<Strong>,
}

impl Sink<BytesBuf> for One<'_> {
    type Error = Raised;

    #[inline(always)]
    fn commit_id(&mut self, id: &[u8]) -> Result<(), Raised> {
        self.maker.commit_id(id)
    }

    fn has_id(&self) -> bool {
        self.maker.has_id()
    }

    #[inline(always)]
    fn event(&mut self, block: Block<'_, BytesBuf>) -> Result<Flow, Raised> {
        self.event = Some(self.maker.event(block, self.names_message)?);
        Ok(Flow::Stop)
    }
}

impl EventSource {
    #[inline(always)]
    fn names_message(&self) -> bool {
        self.parser.options().profile.names_message()
    }
}

impl Stream for EventSource {
    #[inline(always)]
    fn feed_plain(&mut self, chunk: &[u8]) -> Result<Option<(usize, Strong)>, Raised> {
        let names_message = self.names_message();
        match self.parser.feed_plain(chunk) {
            Some((block, used)) => Ok(Some((used, self.maker.event(block, names_message)?))),
            None => Ok(None),
        }
    }

    // Not in line, for the sake of what is simple: see `SseParser::feed_plain`.
    #[inline(never)]
    fn feed(&mut self, chunk: &[u8], batch: &mut Batch) -> Result<(), Error<Raised>> {
        let (names_message, maker) = (self.names_message(), &mut self.maker);
        self.parser.feed(chunk, &mut All { maker, names_message, batch }).map(drop)
    }

    #[inline(never)]
    fn feed_one(
        &mut self,
        chunk: &[u8],
        _: &mut More,
    ) -> Result<(usize, Option<Strong>), Error<Raised>> {
        let (names_message, maker) = (self.names_message(), &mut self.maker);
        let mut sink = One { maker, names_message, event: None };
        let used = self.parser.feed(chunk, &mut sink)?;
        Ok((used, sink.event))
    }

    fn close(&mut self, batch: &mut Batch) -> Result<(), Error<Raised>> {
        let (names_message, maker) = (self.names_message(), &mut self.maker);
        self.parser.close(&mut All { maker, names_message, batch })
    }

    fn abandon(&mut self) {
        self.parser.abandon();
    }

    fn max_event_bytes(&self) -> usize {
        self.parser.options().max_event_bytes
    }

    fn at_boundary(&self) -> bool {
        self.parser.at_boundary()
    }

    fn context(&self) -> Option<&Strong> {
        self.maker.context.as_ref()
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
///         `"flush"` takes it as if an empty line had ended it. None: as the profile does.
///     profile: Whose behaviour to follow where decoders differ: `"whatwg"`, the standard, or that
///         of `"httpx_sse"`, `"httpx2"`, `"openai"`, `"anthropic"` or `"sseclient_py"`. It says
///         whether a block without data is an event with empty data (`"httpx2"`: if it has an
///         `event`, `id` or `retry` field, though it be empty; `"httpx_sse"`, `"openai"`,
///         `"anthropic"`: if it has a `retry` or an `event` that is not empty, or if
///         `last_event_id` is not empty, and so at every empty line from the first id on; the
///         others: never), what `event` is when none is named (`"openai"`, `"anthropic"`: None;
///         the others: `"message"`), and what `on_torn=None` means (`"sseclient_py"`: `"flush"`;
///         the others: `"report"`). All else is as in the standard.
///     keep_wire: Whether each event keeps its block as it came, as `wire`.
///     last_event_id: The last event ID that an earlier connection ended with.
///     loads: A JSON parser that takes `bytes`, used by the events; orjson by default. A method
///         of an object that has both the decoder and its events keeps them all alive: the
///         garbage collector does not see through events.
///
/// Raises:
///     TypeError: An argument has the wrong type.
///     ValueError: An argument names nothing that exists.
#[pyclass(frozen, module = "seamstream")]
pub(crate) struct SSEDecoder(Cell<EventSource>);

impl SSEDecoder {
    /// What an iterator asks.
    ///
    /// # Safety
    /// As for [`of`](Self::of).
    unsafe fn pulled<'a>(object: Object) -> &'a dyn Pulled {
        // SAFETY: the caller's promise.
        unsafe { &Self::of(object).0 }
    }

    /// The decoder behind an object.
    ///
    /// # Safety
    /// `object` is an `SSEDecoder` that stays alive as long as the reference.
    #[inline(always)]
    unsafe fn of<'a>(object: Object) -> &'a SSEDecoder {
        // SAFETY: the caller's promise.
        unsafe { payload(object) }
    }
}

/// The Rust value of a frozen class.
///
/// # Safety
/// `object` is of class `T` and stays alive as long as the reference.
#[inline(always)]
pub(crate) unsafe fn payload<'a, T>(object: Object) -> &'a T
where
    T: PyClass<Frozen = pyo3::pyclass::boolean_struct::True> + Sync,
{
    // SAFETY: the caller's promise; the GIL is held wherever objects are passed. The reference
    // that `Bound` owns for a moment is never given back.
    unsafe {
        let object = Bound::from_owned_ptr(Python::assume_attached(), object);
        let object = ManuallyDrop::new(object.cast_into_unchecked::<T>());
        &*std::ptr::from_ref(object.get())
    }
}

/// Chunks up to this size are worth a look before the general path.
const TINY: usize = 16;

unsafe extern "C" fn feed(decoder: Object, chunk: Object) -> Object {
    // SAFETY: Python's method descriptor has checked `decoder`, and keeps both alive.
    let decoder = unsafe { &SSEDecoder::of(decoder).0 };
    // SAFETY: appending to the open data line runs no Python code and cannot panic.
    unsafe {
        if ffi::PyBytes_CheckExact(chunk) != 0
            && bytes_of(chunk).len() <= TINY
            && let Some(stream) = decoder.idle_stream()
            && stream.parser.feed_inside_data(bytes_of(chunk))
        {
            return shared().empty_tuple.clone().into_ptr();
        }
    }
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

/// Which of the allowed values an argument has.
pub(crate) fn one_of(name: &str, value: &str, allowed: &[&str]) -> PyResult<usize> {
    if let Some(at) = allowed.iter().position(|known| *known == value) {
        return Ok(at);
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
        let profile = one_of("profile", profile, &Profile::ALL.map(Profile::name))?;
        let profile = Profile::ALL[profile];
        let (max_event_bytes, _) = limits_of(py, &limits)?;
        let context = context_of(loads)?;
        let options = Options {
            max_event_bytes,
            skip_oversize: on_limit == "skip",
            keep_wire,
            flush_torn: on_torn.map_or(profile.flushes_torn(), |given| given == "flush"),
            profile,
        };
        Ok(SSEDecoder(Cell::new(EventSource {
            parser: SseParser::new(options),
            maker: Maker { last_event_id: exact_text(&last_event_id)?, last_name: None, context },
        })))
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
        self.0.close_py(py)
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
        let mut machine = self.0.enter_py(py)?;
        let old = &mut machine.stream;
        // A context belongs to one connection.
        let context = renewed_context(py, old.maker.context.as_ref())?;
        let parser = old.parser.renewed();
        let last_name = old.maker.last_name.take();
        let maker = Maker { last_event_id, last_name, context };
        let old = machine.reopen(EventSource { parser, maker });
        drop(machine);
        drop(old);
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
        slf.get().0.check_free(slf.py())?;
        pull::iterator(slf.as_any(), SSEDecoder::pulled, chunks, done)
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
        slf.get().0.check_free(slf.py())?;
        pull::async_iterator(slf.as_any(), SSEDecoder::pulled, chunks, done)
    }

    /// The last event ID that an empty line committed.
    #[getter]
    fn last_event_id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.0.enter_py(py)?.stream.maker.last_event_id.bind(py))
    }

    /// The last `retry` of the stream in milliseconds, or None.
    #[getter]
    fn reconnection_time_ms(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        Ok(self.0.enter_py(py)?.stream.parser.reconnection_time_ms())
    }

    /// Bytes of the open block, as they count against the limit.
    #[getter]
    fn pending_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.0.enter_py(py)?.stream.parser.pending_bytes())
    }

    /// Whether a comment may be written here without breaking an event.
    ///
    /// Nothing was fed yet, or the last byte ended a line and no field line is in the open
    /// block. After `close()` it stays as it was; after an error it is False.
    #[getter]
    fn at_boundary(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.0.enter_py(py)?.at_boundary())
    }

    /// Counters since the stream began, as they stand now.
    #[getter]
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let stats = self.0.enter_py(py)?.stream.parser.stats();
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
        self.0.traverse(&visit)
    }

    fn __clear__(&self) {
        self.0.clear();
    }
}

/// The context of a decoder that is opened again.
pub(crate) fn renewed_context(py: Python<'_>, old: Option<&Strong>) -> PyResult<Option<Strong>> {
    event::renewed_context(old).map_err(|Raised| PyErr::fetch(py))
}

/// The context for the argument `loads`, if there is one.
pub(crate) fn context_of(loads: Option<Bound<'_, PyAny>>) -> PyResult<Option<Strong>> {
    match loads {
        None => Ok(None),
        Some(loads) if loads.is_callable() => {
            let py = loads.py();
            let context = event::new_context(Some(Strong::from_bound(loads)));
            context.map(Some).map_err(|Raised| PyErr::fetch(py))
        }
        Some(loads) => {
            let name = loads.get_type().name()?;
            Err(PyTypeError::new_err(format!("loads must be callable or None, not {name}")))
        }
    }
}

/// The argument `limits`; `Limits()` when it is not given.
pub(crate) fn limits_of(py: Python<'_>, limits: &Argument<'_>) -> PyResult<(usize, usize)> {
    let Some(limits) = &limits.0 else { return Ok((8 << 20, 1024)) };
    let class = py.import("seamstream.limits")?.getattr("Limits")?;
    if !limits.is_instance(&class)? {
        let given = limits.get_type().name()?;
        return Err(PyTypeError::new_err(format!("limits must be Limits, not {given}")));
    }
    Ok((limits.getattr("max_event_bytes")?.extract()?, limits.getattr("max_depth")?.extract()?))
}

/// An argument with a default that is no Rust value; None, when given, is a value like any other.
pub(crate) struct Argument<'py>(pub Option<Bound<'py, PyAny>>);

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
        let machine = decoder.get().0.enter()?;
        assert!(machine.stream.max_event_bytes() == 0, "provoked by a test");
        Ok(shared().empty_tuple.clone())
    });
    if object.is_null() {
        return Err(PyErr::fetch(decoder.py()));
    }
    // SAFETY: the reference that `guard` gave.
    unsafe { ffi::Py_DECREF(object) };
    Ok(())
}

/// Gives a decoder its `feed`, past the safe layer.
pub(crate) fn add_feed<T: pyo3::PyTypeInfo>(
    py: Python<'_>,
    feed: ffi::PyCFunction,
    doc: &'static CStr,
) -> PyResult<()> {
    let kind = py.get_type::<T>();
    let definition = Box::leak(Box::new(method(c"feed", feed, ffi::METH_O, doc)));
    // SAFETY: the type is live and the definition lives for good.
    let feed = unsafe {
        Bound::from_owned_ptr_or_err(py, ffi::PyDescr_NewMethod(kind.as_type_ptr(), definition))?
    };
    kind.setattr("feed", feed)
}

pub(crate) fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_feed::<SSEDecoder>(module.py(), feed, FEED_DOC)
}
