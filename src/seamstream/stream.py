"""`EventStream`: the items of any source of bytes, with `for` or `async for`.

How it works. An `_Intake` holds the source, the decoder, what is counted, and what an error does.
One generator, and one asynchronous generator, give the chunks of its source as they come: these
note the times, keep the limits of time, and close the source, however they end. Without parsing,
what iterates is the decoder's own iterator over these chunks, and no Python code runs for an event;
otherwise, and for batches, generators feed the decoder with them.

No reference leads from the intake or the generators back to the `EventStream`, so that what is
dropped is freed at once.
"""

# pyright: reportPrivateUsage=false, reportUnnecessaryIsInstance=false

from __future__ import annotations

import os
import sys
from collections import namedtuple
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager, aclosing, closing, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from inspect import iscoroutinefunction
from operator import methodcaller
from time import perf_counter_ns
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, TypeVar, cast, final, overload

from ._backend import JSONStreamDecoder, SSEDecoder, _exclusive
from .errors import (
    ContentTypeError,
    DecodeError,
    IdleTimeoutError,
    JSONDecodeError,
    SchemaError,
    SeamstreamError,
    StreamStateError,
    TornError,
)
from .limits import Limits
from .quarantine import JSONLinesSink, Sink, make_entry
from .sources import (
    DRAIN_BYTES,
    DRAIN_SECONDS,
    Adapter,
    Reads,
    adapt,
    as_media_ranges,
    content_type_of,
    is_among,
    is_timeout,
    names_framing,
    usual_types,
)
from .validation import event_loader, frame_loader
from .waiting import NEVER_NS, TURN_NS, Alarm, Turns, running_loop

if TYPE_CHECKING:
    from types import TracebackType
    from typing import NamedTuple, TypedDict

    from pydantic import TypeAdapter
    from typing_extensions import Buffer, Self, Unpack
    from typing_extensions import TypeVar as TypeVarWithDefault

    from ._backend import Event, Frame
    from .profiles import Profile
    from .sources import Source
    from .stats import JSONErrorCounts

    ValueT = TypeVar("ValueT")
    FrameOrEventT = TypeVarWithDefault("FrameOrEventT", bound=Event | Frame, default=Event)

    class _Options(TypedDict, total=False):
        """What takes part in no overload of `EventStream`."""

        quarantine: Sink | str | os.PathLike[str] | None
        done: str | bytes | None
        limits: Limits
        on_limit: Literal["error", "skip"]
        on_torn: Literal["report", "flush"] | None
        profile: Profile
        loads: Callable[[bytes], Any] | None
        last_event_id: str
        labels: Mapping[str, str] | None
        content_type: str | Collection[str] | None
        excerpt_bytes: int
        idle_timeout: float | None
        idle_resets_on: Literal["bytes", "items"]


__all__ = ["Batches", "EventStream", "Parsed", "Report"]

ItemT = TypeVar("ItemT")
JSONFraming = Literal["ndjson", "concatenated", "array", "json-seq"]
OnError = Literal["flag", "raise", "quarantine", "skip"]

FRAMINGS = ("sse", "ndjson", "concatenated", "array", "json-seq")
JSON_SPACE = b" \t\n\r"
SENTINEL = b"[DONE]"
NO_CHUNK = cast("bytes", None)
"""What a decoder's iterator refuses, and then ends; at an end it would take the input for whole."""
MAX_SECONDS = 1e9  # a socket takes no more than 2^63 ns
PIECE_BYTES = 16 << 10  # what is handed to the decoder at a time, when others wait for their turn


# --- What comes out -------------------------------------------------------------------------

if TYPE_CHECKING:

    @final
    class Parsed(NamedTuple, Generic[ValueT, FrameOrEventT]):
        event: FrameOrEventT
        value: ValueT
        error: JSONDecodeError | SchemaError | TornError | None

else:
    # A generic typing.NamedTuple needs Python 3.11.
    @final
    class Parsed(namedtuple("Parsed", ("event", "value", "error"))):
        """Hold an item of a stream and what its payload was parsed to.

        `Parsed[Model]` is its type over event streams, `Parsed[Model, Frame]` over JSON.

        Attributes:
            event: The `Event` or `Frame`.
            value: The parsed value or model; None when there is an error.
            error: None, or a `JSONDecodeError`, `SchemaError` or `TornError`.
        """

        __slots__ = ()
        __class_getitem__ = classmethod(GenericAlias)

        def __init_subclass__(cls) -> NoReturn:
            raise TypeError("type 'Parsed' is not an acceptable base type")


# The constructor of a named tuple is a Python function; this is twice as fast.
_new_parsed: Callable[[tuple[Any, Any, Any]], Parsed[Any, Any]] = partial(
    cast("Any", tuple).__new__, Parsed
)


@dataclass(frozen=True, slots=True)
class Report:
    """Say how a stream went so far, in a snapshot that does not change.

    What a framing does not have is 0. Times are those of `time.perf_counter_ns()`, and None until
    the thing has happened.

    Attributes:
        bytes: Bytes consumed. What came after the sentinel in its chunk may be in this and the
            other counts.
        events: Events of an event stream, the sentinel included, the torn one not.
        comments: See `Stats`, as for the next four.
        ignored_lines: Lines with an unknown field name.
        invalid_fields: Fields whose value was ignored.
        empty_blocks: Blocks without data.
        replaced: U+FFFD put in for ill-formed UTF-8.
        frames: Whole values of a JSON stream.
        errors: Error frames of a JSON stream by kind, a sentinel that is no JSON included; None
            for an event stream.
        skipped: What outgrew the limit and was left out (`on_limit="skip"`).
        torn: 1 if the stream ended inside an event or a value, else 0.
        parse_errors: Items that are not JSON though they should be; None when nothing is parsed.
        schema_errors: Items that their model refused; None when nothing is parsed.
        quarantined: Items taken out of the stream and given to the sink.
        sink_errors: How many of these the sink raised an exception for.
        done_seen: Whether the sentinel ended the stream.
        array_closed: Whether the array's own bracket was read; None in other framings.
        opened_ns: When the `EventStream` was made.
        first_byte_ns: When the first chunk with bytes came.
        first_event_ns: When the first item was complete: when the chunk came that completed it.
        last_byte_ns: When the last chunk with bytes came.
    """

    bytes: int
    events: int
    comments: int
    ignored_lines: int
    invalid_fields: int
    empty_blocks: int
    replaced: int
    frames: int
    errors: JSONErrorCounts | None
    skipped: int
    torn: int
    parse_errors: int | None
    schema_errors: int | None
    quarantined: int
    sink_errors: int
    done_seen: bool
    array_closed: bool | None
    opened_ns: int
    first_byte_ns: int | None
    first_event_ns: int | None
    last_byte_ns: int | None


# --- The stream without its source ----------------------------------------------------------


class _Intake:
    """What is between a source and items, and counts them; for the decoder, a source of chunks."""

    __slots__ = (
        "adapter",
        "chunks",
        "content_type",
        "decoder",
        "delegated",
        "done",
        "done_seen",
        "ended_ns",
        "excerpt_bytes",
        "failure",
        "first_byte_ns",
        "first_event_ns",
        "framing",
        "has_ended",
        "has_logged",
        "idle_resets_on",
        "idle_timeout",
        "is_checked",
        "is_event_stream",
        "is_over",
        "is_source_closed",
        "keeps_text",
        "labels",
        "last_byte_ns",
        "limits_reads",
        "load",
        "looks_at_is_done",
        "needs_a_look",
        "on_error",
        "opened_ns",
        "owned_sink",
        "parse_errors",
        "quarantined",
        "safe_bytes",
        "schema_errors",
        "sink",
        "sink_errors",
        "unlimit",
    )

    def __init__(
        self,
        adapter: Adapter,
        decoder: SSEDecoder | JSONStreamDecoder,
        *,
        framing: str,
        done: bytes | None,
        max_event_bytes: int,
    ) -> None:
        self.adapter = adapter
        self.chunks: Any = None  # its iterator, when it has been asked for one
        self.delegated: Any = None  # what is known of the chunks that others take from it
        self.is_checked = False  # the content type
        self.is_source_closed = False
        self.content_type: tuple[str, ...] | None = None
        self.excerpt_bytes = 0
        self.idle_timeout: float | None = None
        self.idle_resets_on = "bytes"
        self.limits_reads = False  # the source itself sees to the time-out
        self.unlimit: Callable[[], object] | None = None
        self.decoder = decoder
        self.framing = framing
        self.is_event_stream = is_event_stream = framing == "sse"
        self.done = done
        # A slot of the event, which says the same in a tenth of the time.
        self.looks_at_is_done = is_event_stream and done == SENTINEL
        # A chunk of an event stream that is no longer gives no error after the events in it: the
        # error would be within an event that begins after them.
        self.safe_bytes = max_event_bytes if is_event_stream else -1
        self.load: Callable[[Any], Any] | None = None  # None: nothing is parsed
        self.keeps_text: Callable[[Any], bool] = _is_text
        self.on_error: OnError = "flag"
        self.sink: Sink | None = None
        self.owned_sink: AbstractContextManager[Any] = nullcontext()
        self.labels: Mapping[str, str] = {}

        self.parse_errors = 0
        self.schema_errors = 0
        self.quarantined = 0
        self.sink_errors = 0
        self.has_logged = False
        self.is_over = False  # no further chunk is to be taken
        self.needs_a_look = True  # at this, or at whether there was a first item
        self.failure: BaseException | None = None  # of the decoder
        self.has_ended = False  # by the end of the source or the sentinel
        self.done_seen = False
        self.opened_ns = perf_counter_ns()
        self.first_byte_ns: int | None = None
        self.first_event_ns: int | None = None
        self.last_byte_ns: int | None = None
        self.ended_ns: int | None = None

    # What the decoder's iterators ask for.

    def __iter__(self) -> Iterator[Buffer]:
        return _chunks_of(self, for_iterator=True)

    def __aiter__(self) -> AsyncIterator[Buffer]:
        return _async_chunks_of(self, for_iterator=True, may_cut=True)

    def _delegating(self, delegated: Any) -> AsyncIterator[Any]:
        """Do as `__aiter__`, for an iterator that takes chunks past the generator when told to."""
        self.delegated = delegated
        return _async_chunks_of(self, for_iterator=True, may_cut=True, delegates=True)

    def _on_stop(self, failure: BaseException | None) -> None:
        """Note why no further chunk is to be taken: the sentinel, or a failure of the decoder."""
        if self.is_over:  # closed: what failed is `NO_CHUNK`
            return
        self.is_over = self.needs_a_look = True
        self.failure = failure
        if failure is None:
            self.done_seen = self.has_ended = True

    def stop(self) -> None:
        """Have no further chunk taken."""
        self.is_over = self.needs_a_look = True
        if self.delegated is not None:
            self.delegated.stop()

    # Items.

    def until_done(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        """Give the items before the sentinel, and note that it came."""
        done = self.done
        if done is not None:
            for index, item in enumerate(items):
                if item.raw.strip(JSON_SPACE) == done and not item.torn:
                    self._on_stop(None)
                    return items[:index]
        return items

    def finish(self) -> tuple[Any, ...]:
        """Give what the end of the source settles."""
        return self.until_done(self.decoder.close())

    # Values.

    def parse_each(self, items: Iterable[Any]) -> Iterator[Parsed[Any, Any]]:
        """Parse items one by one as they are taken; leave out what is not to be handed out."""
        load = self.load
        assert load is not None
        for item in items:
            try:
                value = load(item)
            except DecodeError as error:  # noqa: PERF203 - each item's own
                parsed = self._settle_error(item, error)
                if parsed is not None:
                    yield parsed
            else:
                yield _new_parsed((item, value, None))

    def parse_together(self, items: Iterable[Any]) -> Iterator[list[Parsed[Any, Any]]]:
        """Parse items; give them as one list, if there are any, and then raise what comes."""
        batch: list[Parsed[Any, Any]] = []
        failure = None
        try:
            # Not list(): that would lose what came before an exception.
            for parsed in self.parse_each(items):
                batch.append(parsed)  # noqa: PERF402
        except Exception as error:
            failure = error
        if batch:
            yield batch
        if failure is not None:
            raise failure

    def _settle_error(self, item: Any, error: DecodeError) -> Parsed[Any, Any] | None:
        """Do with an item that gave an error as `on_error` says."""
        if isinstance(error, JSONDecodeError):
            if self.is_event_stream and self.keeps_text(item):
                return _new_parsed((item, item.data, None))
            self.parse_errors += 1
        elif isinstance(error, SchemaError):
            self.schema_errors += 1
        if self.on_error == "raise":
            raise error
        if self.on_error == "flag":
            _forget_frames(error)
            return _new_parsed((item, None, error))
        if self.sink is not None:
            self._quarantine(self.sink, item, error)
        return None

    def _quarantine(self, sink: Sink, item: Any, error: DecodeError) -> None:
        self.quarantined += 1
        try:
            sink(make_entry(item, error, self.labels))
        except Exception as failure:
            self.sink_errors += 1
            if not self.has_logged:
                self.has_logged = True
                _log_sink_error(failure)

    # The source.

    def begin(self) -> Iterator[Buffer]:
        """Check the source, and give its chunks."""
        self.check()
        chunks = self.chunks
        if chunks is None:
            self.limit_reads()
            if self.idle_timeout is not None and not self.limits_reads:
                raise ValueError(
                    "idle_timeout cannot be kept for this source: set the read time-out of what it "
                    "reads from, or use an asynchronous one"
                )
            self.chunks = chunks = self.adapter.chunks()
        return cast("Iterator[Buffer]", chunks)

    async def abegin(self) -> AsyncIterator[Any]:
        await self.acheck()
        chunks = self.chunks
        if chunks is None:
            self.limit_reads()
            self.chunks = chunks = self.adapter.async_chunks()
        return cast("AsyncIterator[Any]", chunks)

    def limit_reads(self) -> None:
        if self.idle_timeout is not None:
            self.unlimit = self.adapter.limit_reads(self.idle_timeout)
            self.limits_reads = self.unlimit is not None

    def check(self) -> None:
        """Check the content type.

        Raises:
            ContentTypeError: It is not one of this framing.
        """
        error = self._content_type_error()
        if error is not None:
            if self.excerpt_bytes:
                self.chunks = self.adapter.chunks()
                error.excerpt = bytes(next(self.chunks, b""))[: self.excerpt_bytes]
            raise error

    async def acheck(self) -> None:
        """Do as `check`, with an asynchronous source."""
        error = self._content_type_error()
        if error is not None:
            if self.excerpt_bytes:
                self.chunks = self.adapter.async_chunks()
                error.excerpt = bytes(await anext(self.chunks, b""))[: self.excerpt_bytes]
            raise error

    def _content_type_error(self) -> ContentTypeError | None:
        given = None if self.is_checked else content_type_of(self.adapter.source)
        if given is None:
            self.is_checked = True
            return None
        if self.content_type is None:
            expected = usual_types(self.framing)
            self.is_checked = names_framing(given, self.framing)
        else:
            expected = self.content_type
            self.is_checked = is_among(given, expected)
        return None if self.is_checked else ContentTypeError(given, expected)

    def raise_failure(self) -> None:
        """Raise what the decoder failed with, if it did."""
        failure, self.failure = self.failure, None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # whose frames this one is among

    def idle_error(self) -> IdleTimeoutError:
        assert self.idle_timeout is not None
        return IdleTimeoutError(self.idle_timeout, self.idle_resets_on)

    def close_source(self) -> None:
        source, chunks = self.adapter.source, self.chunks
        if self.is_source_closed or _is_running(source):
            return  # who runs it closes it
        self.is_source_closed = True
        if self.unlimit is not None:
            self.unlimit()
        try:
            if not (chunks is None or chunks is source or _is_running(chunks)):
                close = getattr(chunks, "close", None)
                if callable(close):
                    close()
        finally:
            self.adapter.close()

    async def aclose_source(self) -> None:
        source, chunks = self.adapter.source, self.chunks
        if self.is_source_closed or _is_running(source):
            return
        self.is_source_closed = True
        if self.unlimit is not None:
            self.unlimit()
        try:
            if not (chunks is None or chunks is source or _is_running(chunks)):
                close: Any = getattr(chunks, "aclose", None)
                if callable(close):
                    closing: Any = close()
                    await closing
        finally:
            await self.adapter.aclose()

    def close_quietly(self) -> None:
        """Close a source of which the bytes, or the error, are what counts."""
        with suppress(Exception):
            self.close_source()

    async def aclose_quietly(self) -> None:
        with suppress(Exception):
            await self.aclose_source()

    # The report.

    def count_items(self, stats: Any) -> int:
        """Count what is complete."""
        if self.is_event_stream:
            return cast("int", stats.events)
        errors = stats.errors
        return cast(
            "int",
            stats.frames
            + errors.syntax
            + errors.garbage
            + errors.separator
            + errors.truncated
            + errors.oversize,
        )

    def note_firsts(self) -> None:
        """Note the times of the first byte and item: those of the chunk in hand, or of the end."""
        if self.first_byte_ns is None:
            self.first_byte_ns = self.last_byte_ns
        if self.first_event_ns is None and self.count_items(self.decoder.stats):
            self.first_event_ns = self.ended_ns or self.last_byte_ns
            self.needs_a_look = self.is_over

    def report(self) -> Report:
        stats: Any = self.decoder.stats
        is_parsed = self.load is not None
        self.note_firsts()
        last_byte_ns = self.last_byte_ns
        if self.delegated is not None:
            last_byte_ns = max(last_byte_ns or 0, self.delegated.last_byte_ns) or None
        return Report(
            bytes=stats.bytes,
            events=getattr(stats, "events", 0),
            comments=getattr(stats, "comments", 0),
            ignored_lines=getattr(stats, "ignored_lines", 0),
            invalid_fields=getattr(stats, "invalid_fields", 0),
            empty_blocks=getattr(stats, "empty_blocks", 0),
            replaced=getattr(stats, "replaced", 0),
            frames=getattr(stats, "frames", 0),
            errors=getattr(stats, "errors", None),
            skipped=stats.skipped,
            torn=stats.torn,
            parse_errors=self.parse_errors if is_parsed else None,
            schema_errors=self.schema_errors if is_parsed else None,
            quarantined=self.quarantined,
            sink_errors=self.sink_errors,
            done_seen=self.done_seen,
            array_closed=getattr(self.decoder, "array_closed", None),
            opened_ns=self.opened_ns,
            first_byte_ns=self.first_byte_ns,
            first_event_ns=self.first_event_ns,
            last_byte_ns=last_byte_ns,
        )


def _as_bytes(chunk: Buffer) -> bytes:
    """Copy a chunk that is not exact `bytes`; what refuses it says so as a decoder does."""
    if isinstance(chunk, str):
        raise TypeError("a bytes-like object is required, not str: encode() the text first")
    with memoryview(chunk) as view:
        if not view.c_contiguous:
            raise BufferError("the buffer is not C-contiguous")
        return view.tobytes()


def _is_running(chunks: Any) -> bool:
    """Tell whether a generator cannot be closed: it is what asks for that, or somebody else's."""
    return bool(getattr(chunks, "gi_running", False) or getattr(chunks, "ag_running", False))


def _forget_frames(error: BaseException) -> None:
    """Take from an error, and its causes, what would keep the stream and its callers alive."""
    cause: BaseException | None = error
    while cause is not None and cause.__traceback__ is not None:
        cause.__traceback__ = None
        cause = cause.__cause__ or cause.__context__


def _is_text(event: Event) -> bool:
    """Tell whether a payload that is not JSON was not meant to be: it is text."""
    return event.is_done or not event.raw.lstrip(JSON_SPACE).startswith((b"{", b"["))


def _is_never_text(event: Event) -> bool:
    return False


def _log_sink_error(error: Exception) -> None:
    from logging import getLogger  # noqa: PLC0415 - hardly ever needed

    # What an exception of somebody else's says may hold payload text; that of the system does not.
    what = type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        what += f": {error.strerror}"
    getLogger("seamstream").error(
        "a quarantine sink failed (%s); the stream goes on, and further failures are only counted",
        what,
    )


# --- The stream with its source -------------------------------------------------------------


# The next two do the same for each chunk, in place: to call a common function would take as long
# as the decoder does.


def _chunks_of(intake: _Intake, *, for_iterator: bool = False) -> Generator[bytes, None, None]:
    """Give the chunks of a source, to an iterator of the decoder or not; close it in any case."""
    clock = perf_counter_ns
    resets_on_items = intake.idle_timeout is not None and intake.idle_resets_on == "items"
    try:
        watch = _ItemWatch(intake) if resets_on_items else None
        for chunk in intake.begin():
            now = clock()
            if type(chunk) is not bytes:
                chunk = _as_bytes(chunk)
            if chunk:
                intake.last_byte_ns = now
            yield chunk
            if intake.needs_a_look:
                if intake.is_over:
                    break
                intake.note_firsts()
            if watch is not None:
                watch.look(now)
        else:
            intake.has_ended = True
            intake.ended_ns = clock()
            return
        intake.raise_failure()
        if intake.done_seen:
            intake.adapter.drain(intake.chunks)
        elif for_iterator:
            yield NO_CHUNK
    except Exception as error:
        if intake.limits_reads and is_timeout(error) and not isinstance(error, SeamstreamError):
            raise intake.idle_error() from error
        raise
    finally:
        intake.close_quietly()


async def _async_chunks_of(
    intake: _Intake, *, for_iterator: bool = False, may_cut: bool, delegates: bool = False
) -> AsyncGenerator[Any, Any]:
    """Do so asynchronously; give large chunks in pieces if they may be cut, for others' turns.

    What delegates has the iterator take the chunks of the source itself, with the same outcome,
    and is left to do what that leaves: the first ones, large ones, turns, errors, the end.
    """
    clock = perf_counter_ns
    loop = running_loop()
    turns = Turns(loop)
    due_ns = turns.due_ns
    turn_ns = TURN_NS if loop is not None else NEVER_NS
    piece_bytes = PIECE_BYTES if may_cut and loop is not None else sys.maxsize
    watched: Any = None
    try:
        chunks = await intake.abegin()
        if intake.idle_timeout is not None:
            if loop is None:
                raise RuntimeError("idle_timeout needs a running event loop of asyncio")
            chunks = watched = _watched(intake, chunks, Alarm(loop, intake.idle_timeout))
        source: Any = chunks.read if isinstance(chunks, Reads) else chunks
        while True:
            try:
                if delegates and not intake.needs_a_look:
                    chunk = yield source, clock, due_ns, turn_ns, piece_bytes
                    if intake.is_over and chunk is None:
                        break
                    if source is not chunks and not chunk:
                        raise StopAsyncIteration
                else:
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                intake.has_ended = True
                intake.ended_ns = clock()
                return
            now = clock()
            if type(chunk) is not bytes:
                chunk = _as_bytes(chunk)
            size = len(chunk)
            if 0 < size <= piece_bytes:
                intake.last_byte_ns = now
                yield chunk
            elif size:
                intake.last_byte_ns = now
                at = 0
                while at < size and not intake.is_over:
                    yield chunk[at : at + piece_bytes]
                    at += piece_bytes
                    began, now = now, clock()
                    # As much as is handed out within a turn.
                    if now - began > TURN_NS:
                        piece_bytes = max(piece_bytes >> 1, 256)
                    elif piece_bytes < PIECE_BYTES and now - began < TURN_NS >> 2:
                        piece_bytes <<= 1
                    if now >= due_ns:
                        await turns.give()
                        due_ns = turns.due_ns
            if intake.needs_a_look:
                if intake.is_over:
                    break
                intake.note_firsts()
            if now >= due_ns:
                await turns.give()
                due_ns = turns.due_ns
        intake.raise_failure()
        if intake.done_seen:
            if intake.adapter.is_reusable and loop is not None:
                await _drain(intake.chunks, Alarm(loop, DRAIN_SECONDS))
        elif for_iterator:
            yield NO_CHUNK
    except Exception as error:
        if intake.limits_reads and is_timeout(error) and not isinstance(error, SeamstreamError):
            raise intake.idle_error() from error
        raise
    finally:
        try:
            if watched is not None:
                await watched.aclose()
        finally:
            await intake.aclose_quietly()


class _ItemWatch:
    """See to it that items come, where the source itself sees to it that bytes do."""

    def __init__(self, intake: _Intake) -> None:
        assert intake.idle_timeout is not None
        self.intake = intake
        self.limit_ns = int(intake.idle_timeout * 1e9)
        self.items = 0
        self.since: int = intake.opened_ns

    def look(self, now: int) -> None:
        """Raise if there was no item for too long, which is noticed when other bytes come."""
        intake = self.intake
        items = intake.count_items(intake.decoder.stats)
        if items != self.items:
            self.items, self.since = items, perf_counter_ns()
        elif now - self.since > self.limit_ns:
            raise intake.idle_error()


async def _watched(
    intake: _Intake, chunks: AsyncIterator[Buffer], alarm: Alarm
) -> AsyncGenerator[bytes, None]:
    """Give the chunks; raise if they, or items, do not come in time."""
    by_items = intake.idle_resets_on == "items"
    items = 0
    try:
        while True:
            alarm.begin(perf_counter_ns())
            try:
                chunk = await chunks.__anext__()
            except StopAsyncIteration:
                return
            except BaseException as error:
                if alarm.has_rung():
                    cause = error if isinstance(error, Exception) else None
                    raise intake.idle_error() from cause
                raise
            finally:
                alarm.end()
            if type(chunk) is not bytes:
                chunk = _as_bytes(chunk)
            if chunk and not by_items:
                alarm.forget()
            yield chunk
            if by_items:
                before, items = items, intake.count_items(intake.decoder.stats)
                if items != before:
                    alarm.forget()
    finally:
        alarm.cancel()


async def _drain(chunks: AsyncIterator[Buffer], alarm: Alarm) -> None:
    """Read to the end of a response if that is there: then its connection can be used again."""
    left = DRAIN_BYTES
    try:
        while left > 0:
            alarm.begin(perf_counter_ns())
            try:
                chunk = await anext(chunks, None)
            except BaseException as error:
                if alarm.has_rung() or isinstance(error, Exception):
                    return  # nothing of it matters any more
                raise
            finally:
                alarm.end()
            if chunk is None:
                return
            left -= len(_as_bytes(chunk))
    finally:
        alarm.cancel()


def _batches_of(intake: _Intake) -> Generator[tuple[Any, ...], None, None]:
    """Give what each chunk completes."""
    feed = intake.decoder.feed
    looks_at_is_done, safe_bytes = intake.looks_at_is_done, intake.safe_bytes
    with closing(_chunks_of(intake)) as chunks:
        for chunk in chunks:
            items: tuple[Any, ...] = feed(chunk)
            if not items:
                continue
            if looks_at_is_done:
                for item in items:
                    if item.is_done:
                        items = intake.until_done(items)
                        break
            else:
                items = intake.until_done(items)
            if items:
                yield items
            if not intake.is_over and len(chunk) > safe_bytes:
                feed(b"")  # raises an error that came after the items
    if not intake.is_over:
        items = intake.finish()
        if items:
            yield items
            intake.decoder.close()  # raises an error that came after the items


async def _async_items_of(
    intake: _Intake, arrange: Callable[[tuple[Any, ...]], Iterable[Any]], *, may_cut: bool
) -> AsyncGenerator[Any, None]:
    """Do so asynchronously, and give the items as `arrange` does."""
    feed = intake.decoder.feed
    looks_at_is_done, safe_bytes = intake.looks_at_is_done, intake.safe_bytes
    try:
        async with aclosing(_async_chunks_of(intake, may_cut=may_cut)) as chunks:
            async for chunk in chunks:
                items: tuple[Any, ...] = feed(chunk)
                if not items:
                    continue
                if looks_at_is_done:
                    for item in items:
                        if item.is_done:
                            items = intake.until_done(items)
                            break
                else:
                    items = intake.until_done(items)
                for item in arrange(items):
                    yield item
                if not intake.is_over and len(chunk) > safe_bytes:
                    feed(b"")  # raises an error that came after the items
        if not intake.is_over:
            items = intake.finish()
            for item in arrange(items):
                yield item
            if items:
                intake.decoder.close()  # raises an error that came after the items
    finally:
        intake.owned_sink.__exit__(None, None, None)


def _arranged(
    intake: _Intake, arrange: Callable[[tuple[Any, ...]], Iterable[Any]]
) -> Generator[Any, None, None]:
    with closing(_batches_of(intake)) as batches, intake.owned_sink:
        for items in batches:
            yield from arrange(items)


def _together(items: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...]:
    return (items,) if items else ()


@final
class Batches(Generic[ItemT]):
    """Iterate over what the chunks of an `EventStream` complete, one chunk at a time."""

    __slots__ = ("_stream",)

    def __init__(self, stream: EventStream[ItemT]) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[Sequence[ItemT]]:
        return self._stream._iterate("batches")

    def __aiter__(self) -> AsyncIterator[Sequence[ItemT]]:
        return self._stream._iterate_asynchronously("batches")


@final
class EventStream(Generic[ItemT]):
    """Read the items of any source of bytes, with `for` or `async for`.

        with httpx.stream("POST", url, json=question) as response:
            for event in seamstream.EventStream(response):
                ...

        async with seamstream.EventStream(aiohttp_response, model=Completion) as stream:
            async for event, completion, error in stream:
                ...

    Each item comes out with the chunk that completes it, before the next chunk is asked for. What
    the end of the source cut comes last, as a torn item. When the source fails, its exception
    comes after everything complete, and `report` can still be read.

    In `with` or `async with` the source is closed however the block is left; otherwise it is
    closed at its end, at the sentinel, on an error, and when the stream is dropped (then an
    asynchronous one by the event loop, as any asynchronous generator).

    After the sentinel of a response, what is left of it is read if it is there at once, so that its
    connection can be used again: for 50 ms and 64 KiB at most, then it is closed.

    There is one iteration: `iter()` a second time, after a `break` for instance, goes on with it.
    It is for one task or thread at a time: another one that asks while the first one waits for the
    source gets a `StreamStateError`, and the first one what it waits for.

    An `async for` gives the others on the event loop of asyncio their turns, every 10 ms or so,
    also when the source always has data ready and never waits; only a batch is parsed as a whole.
    Where asyncio does not run, under trio say, it reads and closes in the same way, but gives no
    turns, has no `idle_timeout`, and closes a response after the sentinel without reading on, so
    that its connection is not used again.

    Args:
        source: A response of httpx, httpx2, requests, urllib3, aiohttp or niquests, its body not
            read before (`stream=True`, `preload_content=False`); an iterable or asynchronous
            iterable of bytes-like chunks, cut anywhere; a file opened as binary, or what
            `makefile("rb")` of a socket gives; a `StreamReader` of asyncio. The content of a
            response is decoded (gzip, br, deflate) as far as its library can. The exceptions of a
            source pass through. The HTTP status is not looked at.
        framing: "sse" for event streams, whose items are `Event`; "ndjson", "concatenated",
            "array" or "json-seq" for JSON, whose items are `Frame`.
        model: Validate the payloads: a pydantic model, a `TypeAdapter`, or a type one can be made
            for. In event streams also a mapping from event names to these; the payloads of other
            events are parsed as with `parse`. The items are then `Parsed`.
        parse: Parse the payloads as JSON, each once. The items are then `Parsed`. In event
            streams a payload that begins neither with `{` nor with `[` and is not JSON is its
            own text, and no error.
        on_error: What an item does that is not the JSON it should be, that its model refuses, or
            that the end of the stream cut: "flag" hands it out with `error` set; "raise" raises
            that error and ends the stream; "quarantine" gives it to the sink and goes on; "skip"
            only counts it. Other than "flag" it needs `model` or `parse`.
        quarantine: The sink, for `on_error="quarantine"`: a callable that takes a
            `QuarantineEntry`, or a path, for a `JSONLinesSink` that is closed with the stream. An
            exception of a sink is counted, and the first one logged.
        done: The payload that ends the stream without being handed out, JSON white space around
            it ignored. None: none does.
        limits: How large an item may grow, and how deep the JSON of a JSON stream may be nested.
        on_limit: "error" raises `LimitExceededError` for an item that outgrows the limit, and ends
            the stream; "skip" leaves it out. In a JSON stream an error frame is in its place.
        on_torn: As for `SSEDecoder`: "report" or "flush". Only for event streams.
        profile: As for `SSEDecoder`: whose behaviour to follow. Only for event streams.
        loads: What parses JSON in place of `orjson.loads`; models do not use it.
        last_event_id: The last event ID to begin with. Only for event streams.
        labels: Texts to find an entry by in the quarantine, the name of the upstream say.
        content_type: What the Content-Type of a source with headers may be: a media range
            ("text/plain", "text/*") or several; "*/*" for any. None: that of the framing, which is
            `text/event-stream` for event streams; for JSON any type with `json` in its name but
            those of another framing, and what says nothing (`text/plain`,
            `application/octet-stream`). Letter case and parameters do not count, `charset` neither:
            event streams and JSON are UTF-8. A source without this header is accepted. It is
            checked on entering the block, or else before the first chunk is taken.
        excerpt_bytes: How many bytes of the body of a source with another content type to put in
            `ContentTypeError.excerpt`, out of its first chunk.
        idle_timeout: How many seconds the source may give nothing, while it is waited for; then
            `IdleTimeoutError` is raised, after all that was complete. With `async for`, of any
            source, under asyncio; with `for`, of responses and sockets: it is then the read
            time-out of their transport. None: as the source does.
        idle_resets_on: "bytes": any byte is a sign of life, comments included; "items": only a
            complete item. With `for`, that no item came is noticed when the next bytes come.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value that it cannot have, or not with the others.
        ImportError: There is a `model`, and pydantic 2 is not installed.
        PydanticUserError: `model` is nothing that pydantic can validate.

    Entering the block, or else the iteration, also raises:
        ContentTypeError: The source says that it is something else; it is closed.
        IdleTimeoutError: The source gave nothing for `idle_timeout` seconds.
        LimitExceededError: An item outgrew the limit.
        StreamStateError: The body of the response was read or closed before, and is not kept in
            it. (Those of httpx, requests and niquests raise their own exceptions for it.)
        ValueError: `idle_timeout` cannot be kept for this source.
        RuntimeError: `idle_timeout` needs a running event loop of asyncio.
    """

    __slots__ = (
        "__weakref__",
        "_intake",
        "_is_closed",
        "_iterator",
        "_style",
    )

    @overload
    def __init__(
        self: EventStream[Event],
        source: Source,
        *,
        framing: Literal["sse"] = "sse",
        model: None = None,
        parse: Literal[False] = False,
        on_error: Literal["flag"] = "flag",
        **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self: EventStream[Frame],
        source: Source,
        *,
        framing: JSONFraming,
        model: None = None,
        parse: Literal[False] = False,
        on_error: Literal["flag"] = "flag",
        **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self: EventStream[Parsed[Any, Event]],
        source: Source,
        *,
        framing: Literal["sse"] = "sse",
        model: None = None,
        parse: Literal[True],
        on_error: OnError = "flag",
        **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self: EventStream[Parsed[Any, Frame]],
        source: Source,
        *,
        framing: JSONFraming,
        model: None = None,
        parse: Literal[True],
        on_error: OnError = "flag",
        **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self: EventStream[Parsed[ValueT | None, Event]],
        source: Source,
        *,
        framing: Literal["sse"] = "sse",
        model: type[ValueT] | TypeAdapter[ValueT],
        parse: bool = False,
        on_error: Literal["flag"] = "flag",
        **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self: EventStream[Parsed[ValueT, Event]],
        source: Source,
        *,
        framing: Literal["sse"] = "sse",
        model: type[ValueT] | TypeAdapter[ValueT],
        parse: bool = False,
        on_error: Literal["raise", "quarantine", "skip"],
        **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self: EventStream[Parsed[ValueT | None, Frame]],
        source: Source,
        *,
        framing: JSONFraming,
        model: type[ValueT] | TypeAdapter[ValueT],
        parse: bool = False,
        on_error: Literal["flag"] = "flag",
        **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self: EventStream[Parsed[ValueT, Frame]],
        source: Source,
        *,
        framing: JSONFraming,
        model: type[ValueT] | TypeAdapter[ValueT],
        parse: bool = False,
        on_error: Literal["raise", "quarantine", "skip"],
        **options: Unpack[_Options],
    ) -> None: ...
    @overload
    def __init__(
        self: EventStream[Parsed[Any, Event]],
        source: Source,
        *,
        framing: Literal["sse"] = "sse",
        model: Mapping[str, Any],
        parse: bool = False,
        on_error: OnError = "flag",
        **options: Unpack[_Options],
    ) -> None: ...

    def __init__(
        self,
        source: Source,
        *,
        framing: Literal["sse"] | JSONFraming = "sse",
        model: Any = None,
        parse: bool = False,
        on_error: OnError = "flag",
        quarantine: Sink | str | os.PathLike[str] | None = None,
        done: str | bytes | None = "[DONE]",
        limits: Limits = Limits(),  # noqa: B008 - immutable
        on_limit: Literal["error", "skip"] = "error",
        on_torn: Literal["report", "flush"] | None = None,
        profile: Profile = "whatwg",
        loads: Callable[[bytes], Any] | None = None,
        last_event_id: str = "",
        labels: Mapping[str, str] | None = None,
        content_type: str | Collection[str] | None = None,
        excerpt_bytes: int = 0,
        idle_timeout: float | None = None,
        idle_resets_on: Literal["bytes", "items"] = "bytes",
    ) -> None:
        adapter = adapt(source)
        _check_choice("framing", framing, FRAMINGS)
        _check_choice("on_error", on_error, ("flag", "raise", "quarantine", "skip"))
        if not isinstance(parse, bool):
            raise TypeError(f"parse must be bool, not {type(parse).__name__}")
        decoder: SSEDecoder | JSONStreamDecoder
        if framing == "sse":
            decoder = SSEDecoder(
                limits=limits,
                on_limit=on_limit,
                on_torn=on_torn,
                profile=profile,
                last_event_id=last_event_id,
                loads=loads,
            )
        else:
            for name, is_given in (
                ("on_torn", on_torn is not None),
                ("profile", profile != "whatwg"),
                ("last_event_id", last_event_id != ""),
                ("a model for each event name", isinstance(model, Mapping)),
            ):
                if is_given:
                    raise ValueError(f"{name} needs framing='sse'")
            decoder = JSONStreamDecoder(
                framing=framing, limits=limits, on_limit=on_limit, loads=loads
            )
        intake = _Intake(
            adapter,
            decoder,
            framing=framing,
            done=_as_payload(done),
            max_event_bytes=limits.max_event_bytes,
        )
        intake.on_error = on_error
        intake.labels = _as_labels(labels)
        if content_type is not None:
            intake.content_type = as_media_ranges(content_type)
        intake.excerpt_bytes = _as_count("excerpt_bytes", excerpt_bytes)
        intake.idle_timeout = _as_seconds("idle_timeout", idle_timeout)
        _check_choice("idle_resets_on", idle_resets_on, ("bytes", "items"))
        intake.idle_resets_on = idle_resets_on
        if model is not None:
            intake.load, intake.keeps_text = _as_loader(model, intake.is_event_stream)
        elif parse:
            intake.load = methodcaller("json")
        if on_error != "flag" and intake.load is None:
            raise ValueError(f"on_error={on_error!r} needs parse=True or a model")
        if (on_error == "quarantine") != (quarantine is not None):
            raise ValueError("on_error='quarantine' and a sink, in quarantine, need each other")
        if callable(quarantine):
            intake.sink = _check_sink(quarantine)
        elif quarantine is not None:
            intake.sink = intake.owned_sink = _make_sink(quarantine)
        self._intake = intake
        self._style: str | None = None  # what is iterated over, once it is
        self._iterator: Any = None
        self._is_closed = False

    # Iteration.

    def __iter__(self) -> Iterator[ItemT]:
        return self._iterate("items")

    def __aiter__(self) -> AsyncIterator[ItemT]:
        return self._iterate_asynchronously("items")

    def batches(self) -> Batches[ItemT]:
        """Iterate over batches: the items that one chunk completes, for each that completes any.

        A batch is the tuple of `Event` or `Frame`, or the list of `Parsed`. With `for` or
        `async for`, in place of an iteration over the items.
        """
        return Batches(self)

    def _iterate(self, what: str) -> Iterator[Any]:
        if self._begins(what):
            intake = self._intake
            if not intake.adapter.is_sync:
                raise TypeError("the source is asynchronous: use `async for`")
            if intake.load is not None:
                self._iterator = _exclusive(_arranged(intake, self._arrangement(what)))
            elif what == "batches":
                self._iterator = _exclusive(_batches_of(intake))
            else:
                self._iterator = intake.decoder.iter(intake, done=intake.done)
            self._style = what
        return cast("Iterator[Any]", self._iterator)

    def _iterate_asynchronously(self, what: str) -> AsyncIterator[Any]:
        style = "asynchronous " + what
        if self._begins(style):
            intake = self._intake
            if not intake.adapter.is_async:
                raise TypeError("the source is not asynchronous: use `for`")
            if intake.load is not None:
                arrange = self._arrangement(what)
                self._iterator = _exclusive(
                    _async_items_of(intake, arrange, may_cut=what == "items")
                )
            elif what == "batches":
                self._iterator = _exclusive(_async_items_of(intake, _together, may_cut=False))
            else:
                self._iterator = intake.decoder.aiter(intake, done=intake.done)
            self._style = style
        return cast("AsyncIterator[Any]", self._iterator)

    def _arrangement(self, what: str) -> Callable[[tuple[Any, ...]], Iterable[Any]]:
        intake = self._intake
        return intake.parse_together if what == "batches" else intake.parse_each

    def _begins(self, style: str) -> bool:
        """Tell whether this is the begin of the iteration, or its continuation."""
        if self._is_closed and not self._intake.has_ended:
            raise StreamStateError("the stream was closed before its end")
        if self._style not in (None, style):
            raise StreamStateError(f"the stream is already iterated over, by its {self._style}")
        return self._style is None

    # Closing.

    def close(self) -> None:
        """Close the source, and the sink if it was given as a path; end the iteration.

        An iterator that is still held gives what is complete in its chunk, and ends.

        Raises:
            TypeError: The source is asynchronous; use `aclose`.
        """
        if not self._intake.adapter.is_sync:
            raise TypeError("the source is asynchronous: use `await stream.aclose()`")
        self._is_closed = True
        self._intake.stop()
        with self._intake.owned_sink:
            self._intake.close_source()

    async def aclose(self) -> None:
        """Close an asynchronous source; otherwise as `close`."""
        self._is_closed = True
        self._intake.stop()
        with self._intake.owned_sink:
            await self._intake.aclose_source()

    def __enter__(self) -> Self:
        if not self._intake.adapter.is_sync:
            raise TypeError("the source is asynchronous: use `async with`")
        try:
            self._intake.check()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self._intake.close_quietly()  # that error is the one to see
        self.close()

    async def __aenter__(self) -> Self:
        if not self._intake.adapter.is_async:
            raise TypeError("the source is not asynchronous: use `with`")
        try:
            await self._intake.acheck()
        except BaseException as error:
            await self.__aexit__(type(error), error, None)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            await self._intake.aclose_quietly()
        await self.aclose()

    # What is known.

    @property
    def report(self) -> Report:
        """How the stream went so far; it can be read at any time, also after an error."""
        return self._intake.report()

    @property
    def last_event_id(self) -> str:
        """The last event ID, for the `Last-Event-ID` header; empty for JSON."""
        return getattr(self._intake.decoder, "last_event_id", "")

    @property
    def reconnection_time_ms(self) -> int | None:
        """The last valid `retry` of the event stream, in milliseconds, or None."""
        return getattr(self._intake.decoder, "reconnection_time_ms", None)

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "ended" if self._intake.has_ended else "open"
        return f"<EventStream of {type(self._intake.adapter.source).__name__}, {state}>"


# --- Arguments ------------------------------------------------------------------------------


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be str, not {type(value).__name__}")
    if value not in choices:
        allowed = ", ".join(map(repr, choices))
        raise ValueError(f"{name} must be one of {allowed}, not {value[:80]!r}")


def _as_payload(done: str | bytes | None) -> bytes | None:
    if isinstance(done, str):
        done = done.encode()
    if not (done is None or isinstance(done, bytes)):
        raise TypeError(f"done must be str, bytes or None, not {type(done).__name__}")
    return None if done is None else done.strip(JSON_SPACE)


def _as_count(name: str, count: int) -> int:
    if type(count) is not int:
        raise TypeError(f"{name} must be int, not {type(count).__name__}")
    if count < 0:
        raise ValueError(f"{name} must not be negative, not {count}")
    return count


def _as_seconds(name: str, seconds: float | None) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"{name} must be a number of seconds or None, not {type(seconds).__name__}")
    if not 0 < seconds <= MAX_SECONDS:
        raise ValueError(
            f"{name} must be above 0 and at most {MAX_SECONDS:.0f} seconds, not {seconds!r}"
        )
    return float(seconds)


def _as_labels(labels: Mapping[str, str] | None) -> dict[str, str]:
    if labels is None:
        return {}
    if not isinstance(labels, Mapping):
        raise TypeError(f"labels must be a mapping, not {type(labels).__name__}")
    for item in labels.items():
        for text in item:
            if not isinstance(text, str):
                raise TypeError(f"labels must map str to str, not {type(text).__name__}")
    return dict(labels)


def _check_sink(sink: Sink) -> Sink:
    if iscoroutinefunction(sink) or iscoroutinefunction(getattr(sink, "__call__", None)):  # noqa: B004
        raise TypeError("a quarantine sink cannot be a coroutine function: it is not awaited")
    return sink


def _make_sink(path: Any) -> JSONLinesSink:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"quarantine must be callable or a path, not {type(path).__name__}")
    return JSONLinesSink(cast("str", path))


def _as_loader(
    model: Any, is_event_stream: bool
) -> tuple[Callable[[Any], Any], Callable[[Any], bool]]:
    """Give what parses an item, and what tells whether one that is not JSON may be text."""
    if not is_event_stream:
        return frame_loader(model), _is_never_text
    if isinstance(model, Mapping):
        return _as_loader_by_name(model)  # pyright: ignore[reportUnknownArgumentType]
    return event_loader(model), _is_never_text


def _as_loader_by_name(
    models: Mapping[Any, Any],
) -> tuple[Callable[[Any], Any], Callable[[Any], bool]]:
    loaders: dict[str | None, Callable[[Event], Any]] = {}
    for name, target in models.items():
        if not isinstance(name, str):
            raise TypeError(f"an event name must be str, not {type(name).__name__}")
        loaders[name] = event_loader(target)

    def load(event: Event) -> Any:
        loader = loaders.get(event.event)
        return event.json() if loader is None else loader(event)

    return load, lambda event: event.event not in loaders and _is_text(event)
