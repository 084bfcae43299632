//! `JSONStreamDecoder`: the framings of the core, with the states of every decoder.

use crate::decoder::{Argument, add_feed, context_of, limits_of, one_of, payload, renewed_context};
use crate::event::context_in;
use crate::frame::{kind_object, new_frame};
use crate::machine::{Cell, More, Pulled, Stream};
use crate::pull;
use crate::raw::{Batch, BytesBuf, Object, Raised, Strong, guard, new_bytes};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use seamstream::json_stream::{Frame, Framing, JsonParser, Kind, Options, Sink};
use seamstream::sse::{Error, Flow, Payload};
use std::ffi::CStr;

/// A JSON stream and what its frames need.
struct FrameSource {
    parser: JsonParser<BytesBuf>,
    /// Given to each frame; made with the first one, or before if there is a `loads`.
    context: Option<Strong>,
}

#[inline(always)]
fn make(frame: Frame<'_, BytesBuf>, context: &mut Option<Strong>) -> Result<Strong, Raised> {
    let raw = match frame.payload {
        Payload::Slice(bytes) => new_bytes(bytes)?,
        Payload::Owned(buffer) => std::mem::take(buffer).into_bytes()?,
    };
    let torn = frame.kind == Kind::Torn;
    new_frame(raw, kind_object(frame.kind), torn, frame.offset, Some(context_in(context)?))
}

/// Takes all frames of a chunk.
struct All<'a> {
    context: &'a mut Option<Strong>,
    batch: &'a mut Batch,
}

impl Sink<BytesBuf> for All<'_> {
    type Error = Raised;

    #[inline(always)]
    fn frame(&mut self, frame: Frame<'_, BytesBuf>) -> Result<Flow, Raised> {
        self.batch.push(make(frame, self.context)?);
        Ok(Flow::Continue)
    }
}

/// Takes one frame and stops there; what the same byte settles comes with it.
struct One<'a> {
    context: &'a mut Option<Strong>,
    first: Option<Strong>,
    more: &'a mut More,
}

impl Sink<BytesBuf> for One<'_> {
    type Error = Raised;

    #[inline(always)]
    fn frame(&mut self, frame: Frame<'_, BytesBuf>) -> Result<Flow, Raised> {
        let frame = make(frame, self.context)?;
        if self.first.is_none() {
            self.first = Some(frame);
        } else {
            self.more.get_or_insert_default().push_back(frame);
        }
        Ok(Flow::Stop)
    }
}

impl Stream for FrameSource {
    #[inline(always)]
    fn feed_plain(&mut self, _: &[u8]) -> Result<Option<(usize, Strong)>, Raised> {
        Ok(None)
    }

    #[inline(always)]
    fn feed(&mut self, chunk: &[u8], batch: &mut Batch) -> Result<(), Error<Raised>> {
        let context = &mut self.context;
        self.parser.feed(chunk, &mut All { context, batch }).map(drop)
    }

    #[inline(always)]
    fn feed_one(
        &mut self,
        chunk: &[u8],
        more: &mut More,
    ) -> Result<(usize, Option<Strong>), Error<Raised>> {
        let mut sink = One { context: &mut self.context, first: None, more };
        let used = self.parser.feed(chunk, &mut sink)?;
        Ok((used, sink.first))
    }

    fn close(&mut self, batch: &mut Batch) -> Result<(), Error<Raised>> {
        let context = &mut self.context;
        self.parser.close(&mut All { context, batch })
    }

    fn abandon(&mut self) {
        self.parser.abandon();
    }

    fn max_event_bytes(&self) -> usize {
        self.parser.options().max_event_bytes
    }

    fn at_boundary(&self) -> bool {
        self.parser.is_at_boundary()
    }

    fn context(&self) -> Option<&Strong> {
        self.context.as_ref()
    }
}

/// Put JSON texts that arrive in chunks together again.
///
/// Any fragmentation of the same bytes gives the same frames, errors, counters and offsets, and
/// each frame comes out with the chunk that settles it. What is not one JSON text (RFC 8259, as
/// strict as orjson) is a frame with a `kind`; the stream goes on after it, and no part of it is
/// ever handed out as a value.
///
/// Args:
///     framing: How the stream separates its texts: "concatenated" (one after another, with or
///         without white space between them), "ndjson" (one a line), "array" (the elements of
///         one top-level array) or "json-seq" (RFC 7464).
///     limits: `max_event_bytes` is what an open value, line, element or run of bytes that were
///         given up may have; values nested deeper than `max_depth`, and never more than 1024
///         levels, are "syntax" errors.
///     on_limit: What becomes of what outgrows the limit: "error" raises `LimitExceededError`;
///         "skip" drops it, gives one frame of kind "oversize" without bytes, and goes on.
///     loads: What `Frame.json()` parses with in place of `orjson.loads`, from `bytes`. Which
///         bytes are a value does not depend on it.
///
/// Raises:
///     TypeError: An argument has the wrong type.
///     ValueError: `framing` or `on_limit` is none of its values.
#[pyclass(frozen, module = "seamstream")]
pub(crate) struct JSONStreamDecoder(Cell<FrameSource>);

impl JSONStreamDecoder {
    /// What an iterator asks.
    ///
    /// # Safety
    /// `object` is a `JSONStreamDecoder` that stays alive as long as the reference.
    unsafe fn pulled<'a>(object: Object) -> &'a dyn Pulled {
        // SAFETY: the caller's promise.
        unsafe { &payload::<Self>(object).0 }
    }
}

unsafe extern "C" fn feed(decoder: Object, chunk: Object) -> Object {
    // SAFETY: Python's method descriptor has checked `decoder`, and keeps both alive.
    let decoder = unsafe { payload::<JSONStreamDecoder>(decoder) };
    guard(|| decoder.0.feed_object(chunk))
}

const FEED_DOC: &CStr = c"feed($self, chunk, /)\n--\n\n\
Consume one chunk and return the frames it settles.\n\n\
Nothing settled is lost: when an error comes after frames of the same chunk, they are\n\
returned, and the next `feed()` or `close()` raises it.\n\n\
Args:\n    chunk: Any C-contiguous buffer of bytes; not kept after the call.\n\n\
Returns:\n    Values and errors in the order of the stream; often empty.\n\n\
Raises:\n    LimitExceededError: Something outgrew `Limits.max_event_bytes` and `on_limit` is\n        \
\"error\". The decoder has failed.\n    \
StreamStateError: The decoder is closed or has failed, an iterator has frames left\n        \
in its chunk, or another call is in the decoder.\n    \
TypeError: `chunk` is no bytes-like object. Nothing changed.\n    \
BufferError: `chunk` is not contiguous. Nothing changed.\n";

#[pymethods]
impl JSONStreamDecoder {
    #[new]
    #[pyo3(signature = (
        *, framing="concatenated", limits=Argument(None), on_limit="error", loads=None
    ))]
    #[pyo3(text_signature = "(*, framing='concatenated', limits=..., on_limit='error', \
                             loads=None)")]
    fn new(
        py: Python<'_>,
        framing: &str,
        limits: Argument<'_>,
        on_limit: &str,
        loads: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        one_of("framing", framing, &["concatenated", "ndjson", "array", "json-seq"])?;
        one_of("on_limit", on_limit, &["error", "skip"])?;
        let (max_event_bytes, max_depth) = limits_of(py, &limits)?;
        let options = Options {
            framing: match framing {
                "ndjson" => Framing::Ndjson,
                "array" => Framing::Array,
                "json-seq" => Framing::JsonSeq,
                _ => Framing::Concatenated,
            },
            max_event_bytes,
            max_depth,
            skip_oversize: on_limit == "skip",
        };
        let context = context_of(loads)?;
        let source = FrameSource { parser: JsonParser::new(options), context };
        Ok(JSONStreamDecoder(Cell::new(source)))
    }

    /// Signal the end of the stream and return what it settles.
    ///
    /// Returns:
    ///     Frames, the unfinished value last (`torn=True`); when the decoder is closed or has
    ///     failed: `()`.
    ///
    /// Raises:
    ///     LimitExceededError: An error was held, or two bytes that could have been the begin
    ///         of a byte order mark outgrew the limit. The decoder has failed.
    ///     StreamStateError: An iterator has frames left in its chunk, or another call is in
    ///         the decoder.
    fn close<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.0.close_py(py)
    }

    /// Open the decoder again for a new connection.
    ///
    /// Offsets and counters start again at 0, what was pending is forgotten, as is what an
    /// iterator has left of its chunk.
    ///
    /// Raises:
    ///     StreamStateError: Another call is in the decoder.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        let mut machine = self.0.enter_py(py)?;
        let options = machine.stream.parser.options();
        // A context belongs to one connection.
        let context = renewed_context(py, machine.stream.context.as_ref())?;
        let source = FrameSource { parser: JsonParser::new(options), context };
        let old = machine.reopen(source);
        drop(machine);
        drop(old);
        Ok(())
    }

    /// Pull chunks from an iterable and give their frames one by one.
    ///
    /// A chunk's frames are given, then its error if it has one, before the next chunk is
    /// pulled. When the source ends, `close()` is called and its frames come last. When the
    /// source raises, the exception passes through and the decoder stays open. The source is
    /// never closed.
    ///
    /// A chunk of exact `bytes` is held and parsed as the frames are taken. Until all of them
    /// are, `feed()`, `close()` and another iterator raise `StreamStateError`; an iterator
    /// dropped before that leaves the decoder failed.
    ///
    /// Args:
    ///     chunks: An iterable of buffers of bytes.
    ///     done: Bytes of a frame that ends the iteration without being given, JSON white space
    ///         around them ignored. Default: none.
    ///
    /// Raises:
    ///     TypeError: `chunks` is no iterable, or is itself bytes or text; `done` is neither
    ///         `bytes` nor None.
    ///     StreamStateError: Another iterator has frames left in its chunk.
    #[pyo3(signature = (chunks, *, done=None))]
    fn iter<'py>(
        slf: &Bound<'py, Self>,
        chunks: &Bound<'py, PyAny>,
        done: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.get().0.check_free(slf.py())?;
        pull::iterator(slf.as_any(), Self::pulled, chunks, done)
    }

    /// Pull chunks from an async iterable and give their frames one by one.
    ///
    /// All that `iter()` says holds here too.
    ///
    /// Args:
    ///     chunks: An async iterable of buffers of bytes.
    ///     done: Bytes of a frame that ends the iteration without being given. Default: none.
    ///
    /// Raises:
    ///     TypeError: `chunks` is no async iterable, or is itself bytes or text; `done` is
    ///         neither `bytes` nor None.
    ///     StreamStateError: Another iterator has frames left in its chunk.
    #[pyo3(signature = (chunks, *, done=None))]
    fn aiter<'py>(
        slf: &Bound<'py, Self>,
        chunks: &Bound<'py, PyAny>,
        done: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.get().0.check_free(slf.py())?;
        pull::async_iterator(slf.as_any(), Self::pulled, chunks, done)
    }

    /// How many bytes are held: of the open value, line, element or error run.
    #[getter]
    fn pending_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.0.enter_py(py)?.stream.parser.pending_bytes())
    }

    /// Whether nothing is open: no value, line, element or error run has begun.
    #[getter]
    fn at_boundary(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.0.enter_py(py)?.stream.parser.is_at_boundary())
    }

    /// Whether the array's own closing bracket was read; None in other framings.
    #[getter]
    fn array_closed(&self, py: Python<'_>) -> PyResult<Option<bool>> {
        Ok(self.0.enter_py(py)?.stream.parser.is_array_closed())
    }

    /// A snapshot of the counters, the same for every fragmentation.
    #[getter]
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let stats = *self.0.enter_py(py)?.stream.parser.stats();
        let module = py.import("seamstream.stats")?;
        let errors = module.getattr("JSONErrorCounts")?.call1((
            stats.syntax,
            stats.garbage,
            stats.separator,
            stats.truncated,
            stats.oversize,
        ))?;
        module.getattr("JSONStats")?.call1((
            stats.bytes,
            stats.frames,
            errors,
            stats.oversize,
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

/// Gives `JSONStreamDecoder` its `feed`.
pub(crate) fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_feed::<JSONStreamDecoder>(module.py(), feed, FEED_DOC)
}
