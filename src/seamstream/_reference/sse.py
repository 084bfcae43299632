"""Event streams, as WHATWG HTML "9.2.6 Interpreting an event stream" has them.

How it works. `SSEDecoder._scan` walks over the lines of one chunk and is the only place that
knows about line endings, the byte order mark and the limit. It calls `_end_field` for each ended
line that is neither empty nor a comment, and `_end_block` for each empty line. A block that lies
in one chunk is never copied but for its payload. Of a block that spans chunks all bytes are held,
once, in one `bytearray`; its payload is read out of them at its end.

Complexity: time is linear in the bytes, whatever the chunks are. Each search for a terminator
begins where the last one ended, the held bytes are appended to in place, and they are read
twice at most. Memory is that of the held bytes, at most the limit, plus the bytearray's spare
eighth.
"""

# The classes of this module share their private parts.
# pyright: reportPrivateUsage=false, reportUnnecessaryIsInstance=false

from __future__ import annotations

import re
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NoReturn, cast, final

import orjson

from seamstream.errors import JSONDecodeError, LimitExceededError, TornError
from seamstream.limits import Limits
from seamstream.paths import Path, Paths, compile_path, compile_paths, walk, walk_all
from seamstream.profiles import Profile
from seamstream.stats import Stats

from .pull import CLOSED, JSON_SPACE, OPEN, AsyncPull, Decoder, Pull, check_source
from .utf8 import BOM, check_choice, count_replacements, first_ill_formed

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Event", "SSEDecoder"]

LF = 0x0A
CR = 0x0D
COLON = 0x3A
SPACE = 0x20
SENTINEL = b"[DONE]"
MAX_RETRY = 2**53 - 1  # the largest integer that every JavaScript client can hold
REPR_CHARACTERS = 80

Loads = Callable[[bytes], Any]
ParseError = Literal["syntax", "torn", "loads"]


# --- Event ----------------------------------------------------------------------------------


class _EventState:
    """Hold what an event is made of."""

    __slots__ = {
        "_loads": "the decoder's parser, None for orjson",
        "_parse_error": "cache of `parse_error`; empty until it is known",
        "_text": "cache of `data`; None until it is known",
        "event": 'Event type; when the block named none `"message"`, or None if the profile says '
        "so.",
        "id": "Last event ID at the dispatch, from this block or an earlier one.",
        "offset": "Absolute position in the stream of the first line that is neither empty "
        "nor a comment, in bytes; of the empty line when there is none.",
        "raw": "Payload exactly as sent: the data lines joined by LF.",
        "replaced": "How many U+FFFD decoding puts into the data, the event type and the id of "
        "this block; those that were sent do not count.",
        "retry": "Reconnection time that this block set, in milliseconds, or None.",
        "torn": "Whether the stream ended inside this event.",
        "wire": "The whole block as it came, with `keep_wire`; else None.",
    }

    event: str | None
    id: str
    retry: int | None
    raw: bytes
    torn: bool
    replaced: int
    offset: int
    wire: bytes | None
    _loads: Loads | None
    _text: str | None
    _parse_error: ParseError | Literal[""] | None


class _Draft(_EventState):
    """Become an `Event` once it is filled in.

    `Event` refuses assignment; to go round that with `object.__setattr__` for each of the eleven
    attributes takes four times as long, 1.0 against 0.25 microseconds.
    """

    __slots__ = ()

    def __init__(
        self,
        event: str | None,
        id: str,
        retry: int | None,
        raw: bytes,
        torn: bool,
        replaced: int,
        offset: int,
        wire: bytes | None,
        loads: Loads | None,
    ) -> None:
        self.event = event
        self.id = id
        self.retry = retry
        self.raw = raw
        self.torn = torn
        self.replaced = replaced
        self.offset = offset
        self.wire = wire
        self._loads = loads
        self._text = None
        self._parse_error = ""
        self.__class__ = Event  # type: ignore[assignment]


# The two caches are written past Event.__setattr__.
_set_text = _EventState.__dict__["_text"].__set__
_set_parse_error = _EventState.__dict__["_parse_error"].__set__


@final
class Event(_EventState):
    """One event of an event stream. It is immutable.

    Equality and hash are over `(event, raw, id, retry, torn)`. Pickles load on either backend;
    `loads` is not part of them.

    Args:
        data: The payload; `str` is encoded as UTF-8.
        event: The event type.
        id: The last event ID.
        retry: The reconnection time in milliseconds, 0 or more.
        torn: Whether the stream ended inside this event.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `retry` is negative.
        UnicodeEncodeError: `data` is a `str` that UTF-8 cannot hold.
    """

    __slots__ = ()
    __match_args__ = ("event", "data", "id", "retry")

    def __new__(
        cls,
        *,
        data: str | bytes,
        event: str | None = "message",
        id: str = "",
        retry: int | None = None,
        torn: bool = False,
    ) -> Event:
        raw = data.encode() if isinstance(data, str) else _exact("data", data, bytes)
        retry = None if retry is None else _exact("retry", retry, int)
        if retry is not None and retry < 0:
            raise ValueError("retry must be 0 or more milliseconds")
        return cls._restore(
            None if event is None else _exact("event", event, str),
            _exact("id", id, str),
            retry,
            raw,
            _exact("torn", torn, bool),
            count_replacements(raw),
            0,
            None,
        )

    @classmethod
    def _restore(
        cls,
        event: str | None,
        id: str,
        retry: int | None,
        raw: bytes,
        torn: bool,
        replaced: int,
        offset: int,
        wire: bytes | None,
        /,
    ) -> Event:
        """Build an event from its whole state, without checks."""
        return cast("Event", _Draft(event, id, retry, raw, torn, replaced, offset, wire, None))

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("type 'Event' is not an acceptable base type")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"cannot set {name!r}: an Event is immutable")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"cannot delete {name!r}: an Event is immutable")

    @property
    def is_done(self) -> bool:
        """Whether the payload is the sentinel `[DONE]`, white space around it ignored."""
        return not self.torn and self.raw.strip(JSON_SPACE) == SENTINEL

    @property
    def data(self) -> str:
        """The payload as text, with U+FFFD for its ill-formed parts.

        Decoded on first access.
        """
        text = self._text
        if text is None:
            text = self.raw.decode("utf-8", "replace")
            _set_text(self, text)
        return text

    @property
    def parse_error(self) -> ParseError | None:
        """What is wrong with a payload that should be JSON; None when nothing is.

        "torn" for a torn event. A payload that begins, after white space, with `{` or `[` and
        is not the sentinel should be JSON: "syntax" when it is not, "loads" when the decoder's
        `loads` raised something that is neither `ValueError` nor `RecursionError`. It never
        raises, parses on first access, and is cached.
        """
        problem = self._parse_error
        if problem == "":
            problem = self._find_parse_error()
            _set_parse_error(self, problem)
        return problem

    def _find_parse_error(self) -> ParseError | None:
        if self.torn:
            return "torn"
        if self.is_done or not self.raw.lstrip(JSON_SPACE).startswith((b"{", b"[")):
            return None
        try:
            self.json()
        except JSONDecodeError:
            return "syntax"
        except Exception:  # whatever the caller's function raises
            return "loads"
        return None

    @property
    def value(self) -> Any:
        """The payload parsed as JSON, or `data` when it is not JSON or torn.

        Parses on every access.
        """
        if self.torn:
            return self.data
        try:
            return self.json()
        except JSONDecodeError:
            return self.data

    def json(self) -> Any:
        """Parse the payload as JSON, anew on every call.

        orjson on `raw`: RFC 8259, well-formed UTF-8, no NaN; integers beyond 64 bits become
        floats (`loads=json.loads` keeps them).

        Raises:
            JSONDecodeError: The payload is not JSON: `loads` raised `ValueError` or
                `RecursionError`, which is the cause. Its `offset` is within `raw`.
            TornError: The stream ended inside this event.
        """
        if self.torn:
            raise TornError(self.offset)
        loads = self._loads
        try:
            return orjson.loads(self.raw) if loads is None else loads(self.raw)
        except (ValueError, RecursionError) as error:
            # The message of a caller's function may hold payload text; orjson's does not.
            message = "loads refused the payload"
            if loads is None:
                message = getattr(error, "msg", "not JSON")
            raise JSONDecodeError(message, self._fault_offset(error)) from error

    def get(self, path: Path, /, default: object = None) -> Any:
        """Return one value out of the JSON, without building the rest.

        All of the payload is checked all the same.

        Args:
            path: `"choices.0.delta.content"`: names and indices joined by dots, where digits are
                an index in an array and a name in an object. Or a tuple, of which each `str` is a
                name and each `int` an index: `("a.b", 0)`. `""` and `()` are the whole value.
            default: What to return where there is no such value.

        Raises:
            JSONDecodeError: The payload is not JSON, in whatever part of it.
            TornError: The stream ended inside this event.
            TypeError: The path, or a part of it, has the wrong type.
            ValueError: An index is negative, or a name is not Unicode text.
        """
        steps = compile_path(path)
        return walk(self.json(), steps, default)

    def get_many(self, paths: Paths, /, default: object = None) -> tuple[Any, ...]:
        """Return several values out of the JSON, in one pass, as a tuple.

        They are in the order of the paths. All of the payload is checked all the same.

        Args:
            paths: A tuple or a list of paths, each as of `get`.
            default: What stands for a value that is not there.

        Raises:
            JSONDecodeError: The payload is not JSON, in whatever part of it.
            TornError: The stream ended inside this event.
            TypeError: `paths` is no tuple or list, or a path, or a part of it, has the wrong type.
            ValueError: An index is negative, or a name is not Unicode text.
        """
        compiled = compile_paths(paths)
        return walk_all(self.json(), compiled, default)

    def validate(self, target: Any, /) -> Any:
        """Validate the payload with pydantic, straight from its bytes, on every call.

        Args:
            target: A subclass of `pydantic.BaseModel`, a `pydantic.TypeAdapter`, or a type that
                one can be made for.

        Raises:
            JSONDecodeError: The payload is not JSON, as for `json()`.
            SchemaError: It is JSON that the model refuses. pydantic's error is the cause.
            TornError: The stream ended inside this event.
            ImportError: pydantic 2 is not installed.
            TypeError: `target` is nothing that pydantic can validate.
        """
        from seamstream.validation import validate_event  # noqa: PLC0415 - not for those who only read

        return validate_event(self, target)

    def _fault_offset(self, error: Exception) -> int:
        """Turn a parser's position, in characters, into bytes of `raw`."""
        ill_formed = first_ill_formed(self.raw)
        if ill_formed is not None:
            return ill_formed
        position = getattr(error, "pos", None)
        if not isinstance(position, int) or position <= 0:
            return 0
        if self.raw.isascii():
            return min(position, len(self.raw))
        return len(self.data[:position].encode())

    def __eq__(self, other: object) -> bool:
        if type(other) is not Event:
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[str | None, bytes, str, int | None, bool]:
        return self.event, self.raw, self.id, self.retry, self.torn

    def __repr__(self) -> str:
        data = self.data
        shown = repr(data[:REPR_CHARACTERS]) + ("..." if len(data) > REPR_CHARACTERS else "")
        torn = ", torn=True" if self.torn else ""
        return f"Event(event={self.event!r}, id={self.id!r}, data={shown}{torn})"

    def __copy__(self) -> Event:
        return self

    def __deepcopy__(self, memo: object) -> Event:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        from seamstream._backend import _restore_event  # noqa: PLC0415 - it imports this package

        return _restore_event, (
            self.event,
            self.id,
            self.retry,
            self.raw,
            self.torn,
            self.replaced,
            self.offset,
            self.wire,
        )


_ALLOWED = {"data": "str or bytes", "event": "str or None", "retry": "int or None"}


def _exact(name: str, value: Any, exact: type[Any]) -> Any:
    """Check an argument's type; an instance of a subclass becomes one of the type itself."""
    if type(value) is exact:
        return value
    if not isinstance(value, exact) or isinstance(value, bool):
        allowed = _ALLOWED.get(name, exact.__name__)
        raise TypeError(f"{name} must be {allowed}, not {type(value).__name__}")
    if exact is bytes:
        return bytes(memoryview(value))
    return str.__str__(value) if exact is str else int.__int__(value)


# --- Lines and fields -----------------------------------------------------------------------

_LINE = re.compile(rb"[^\r\n]+")  # in a block, which has no empty lines


def _split_field(buffer: bytes | bytearray, begin: int, end: int) -> tuple[bytes | bytearray, int]:
    """Give the field name of a line and the index where its value begins.

    A line without a colon is a name with an empty value; one space after the colon is dropped.
    """
    colon = buffer.find(b":", begin, end)
    if colon < 0:
        return buffer[begin:end], end
    value = colon + 1
    if value < end and buffer[value] == SPACE:
        value += 1
    return buffer[begin:colon], value


# --- SSEDecoder -----------------------------------------------------------------------------

_Dataless = Literal["dropped", "any field", "any value"]
# What becomes of a block without data, the default of `event`, and of `on_torn`.
_BEHAVIOURS: dict[Profile, tuple[_Dataless, str | None, Literal["report", "flush"]]] = {
    "whatwg": ("dropped", "message", "report"),
    "httpx_sse": ("any value", "message", "report"),
    "httpx2": ("any field", "message", "report"),
    "openai": ("any value", None, "report"),
    "anthropic": ("any value", None, "report"),
    "sseclient_py": ("dropped", "message", "flush"),
}


@final
class SSEDecoder(Decoder[Event]):
    """Decode an event stream that arrives in chunks (WHATWG HTML 9.2.6).

    Sans-I/O: give the chunks to `feed()` and the end to `close()`, or a source of chunks to
    `iter()` or `aiter()`. Chunk boundaries carry no meaning: any fragmentation of the same
    bytes gives the same events, errors, counters and offsets, and each event comes out with
    the chunk that completes it.

    A decoder is open until `close()` or an error; `reset()` opens it again for a new
    connection. It may be used by one thread at a time.

    Args:
        limits: How large an event may grow. Default: 8 MiB.
        on_limit: What an event that outgrows the limit does: "error" raises
            `LimitExceededError`; "skip" drops it, through its empty line, and counts it.
        on_torn: What becomes of an event that the end of the stream cuts: "report" gives it as
            an event with `torn=True`; "flush" takes it as if an empty line had ended it. None:
            as the profile does.
        profile: Whose behaviour to follow where decoders differ: "whatwg", the standard, or that
            of "httpx_sse", "httpx2", "openai", "anthropic" or "sseclient_py". It says whether a
            block without data is an event with empty data ("httpx2": if it has an `event`, `id`
            or `retry` field, though it be empty; "httpx_sse", "openai", "anthropic": if it has a
            `retry` or an `event` that is not empty, or if `last_event_id` is not empty, and so at
            every empty line from the first id on; the others: never), what `event` is when none
            is named ("openai", "anthropic": None; the others: "message"), and what `on_torn=None`
            means ("sseclient_py": "flush"; the others: "report"). All else is as in the standard.
        keep_wire: Keep the bytes of each block for `Event.wire`. The comments before its first
            field are then held too and count towards the limit.
        last_event_id: The last event ID to begin with.
        loads: What parses JSON in place of `orjson.loads`, from `bytes`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `on_limit`, `on_torn` or `profile` is none of its values.
    """

    __slots__ = (
        "_after_cr",
        "_at_start",
        "_closed_at_boundary",
        "_comments",
        "_dataless",
        "_default_event",
        "_empty_blocks",
        "_event_type_buffer",
        "_events",
        "_field_start",
        "_flush",
        "_had_bom",
        "_has_data",
        "_held",
        "_id_buffer",
        "_ignored_lines",
        "_in_comment",
        "_invalid_fields",
        "_keep_wire",
        "_last_event_id",
        "_limit",
        "_line_start",
        "_loads",
        "_offset",
        "_partial_bom",
        "_reconnection_time_ms",
        "_replaced",
        "_retry",
        "_skip",
        "_skipped",
        "_skipping",
        "_start",
        "_torn",
        "_values",
    )

    def __init__(
        self,
        *,
        limits: Limits = Limits(),  # noqa: B008 - immutable
        on_limit: Literal["error", "skip"] = "error",
        on_torn: Literal["report", "flush"] | None = None,
        profile: Profile = "whatwg",
        keep_wire: bool = False,
        last_event_id: str = "",
        loads: Loads | None = None,
    ) -> None:
        if not isinstance(limits, Limits):
            raise TypeError(f"limits must be Limits, not {type(limits).__name__}")
        check_choice("on_limit", on_limit, "error", "skip")
        if on_torn is not None:
            check_choice("on_torn", on_torn, "report", "flush")
        check_choice("profile", profile, *_BEHAVIOURS)
        if loads is not None and not callable(loads):
            raise TypeError(f"loads must be callable or None, not {type(loads).__name__}")
        self._limit = limits.max_event_bytes
        self._skip = on_limit == "skip"
        self._dataless, self._default_event, torn = _BEHAVIOURS[profile]
        self._flush = (on_torn or torn) == "flush"
        self._keep_wire: bool = _exact("keep_wire", keep_wire, bool)
        self._loads = loads
        self._reconnection_time_ms: int | None = None
        super().__init__()
        self._begin_stream(last_event_id)

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("type 'SSEDecoder' is not an acceptable base type")

    def __reduce__(self) -> NoReturn:
        raise TypeError("cannot pickle 'SSEDecoder' object")

    def _begin_stream(self, last_event_id: str) -> None:
        self._last_event_id: str = _exact("last_event_id", last_event_id, str)
        self._open()
        self._closed_at_boundary = False

        # Where the next byte stands. All positions are absolute.
        self._offset = 0
        self._at_start = True  # the bytes so far, if any, may become a byte order mark:
        self._partial_bom = b""
        self._had_bom = False
        self._line_start: int = 0  # the open line has bytes when this is less than _offset
        self._in_comment = False  # what the open line is, when it has bytes
        self._after_cr = False  # a CR ended the last line at once; an LF now belongs to it
        self._skipping = False  # in a block that outgrew the limit, through its empty line

        # The open block.
        self._start: int | None
        self._held = bytearray()
        self._clear_block()

        self._events = 0
        self._comments = 0
        self._ignored_lines = 0
        self._invalid_fields = 0
        self._empty_blocks = 0
        self._replaced = 0
        self._skipped = 0
        self._torn = 0

    def _clear_block(self) -> None:
        self._start = None  # where its bytes begin to count, and to be held
        self._field_start: int | None = None  # of its first line that is not a comment
        if self._held:  # bytes of it from earlier chunks, from _start on
            self._held = bytearray()
        self._values: list[bytes | bytearray] = []  # of its data lines, while it lies in one chunk
        self._has_data = False
        self._event_type_buffer: bytes | None = None  # None: not sent in this block
        self._id_buffer: bytes | None = None  # None: not set in this block
        self._retry: int | None = None

    # --- What a caller sees

    @property
    def last_event_id(self) -> str:
        """The last event ID that an empty line committed; for the `Last-Event-ID` header."""
        return self._last_event_id

    @property
    def reconnection_time_ms(self) -> int | None:
        """The last valid `retry` of the stream, in milliseconds, at most 2**53 - 1; or None.

        It counts as soon as its line has ended, and survives `reset()`.
        """
        return self._reconnection_time_ms

    @property
    def pending_bytes(self) -> int:
        """How many bytes of the open event have come: what `max_event_bytes` limits."""
        return 0 if self._start is None else self._offset - self._start

    @property
    def at_boundary(self) -> bool:
        """Whether a comment may be written here without breaking an event.

        Nothing was fed yet, or the last byte ended a line and no field line is in the open
        block. After `close()` it stays as it was; after an error it is False.
        """
        if self._state != OPEN:
            return self._state == CLOSED and self._closed_at_boundary
        if self._skipping or self._field_start is not None or self._offset > self._line_start:
            return False
        return not (self._had_bom and self._offset == len(BOM))

    @property
    def stats(self) -> Stats:
        """A snapshot of the counters, the same for every fragmentation."""
        return Stats(
            bytes=self._offset,
            events=self._events,
            comments=self._comments,
            ignored_lines=self._ignored_lines,
            invalid_fields=self._invalid_fields,
            empty_blocks=self._empty_blocks,
            replaced=self._replaced,
            skipped=self._skipped,
            torn=self._torn,
        )

    def feed(self, chunk: Buffer, /) -> tuple[Event, ...]:
        """Consume one chunk and return the events it completes.

        Nothing complete is lost: when an error comes after events of the same chunk, they are
        returned, and the next `feed()` or `close()` raises it.

        Args:
            chunk: Any C-contiguous buffer of bytes; not kept after the call.

        Returns:
            The completed events, oldest first; often empty.

        Raises:
            LimitExceededError: An event outgrew `Limits.max_event_bytes` and `on_limit` is
                "error". The decoder has failed.
            StreamStateError: The decoder is closed or has failed, an iterator has events left
                in its chunk, or another call is in the decoder.
            TypeError: `chunk` is no bytes-like object. Nothing changed.
            BufferError: `chunk` is not contiguous. Nothing changed.
        """
        return self._feed(chunk)

    def close(self) -> tuple[Event, ...]:
        """Signal the end of the stream and return what it cut, if anything.

        Returns:
            One event when the stream ended inside one: after the last empty line came a line,
            ended or not, that is neither empty nor a comment. With on_torn="report" it has
            `torn=True` and `raw` is all from that line on; with "flush" it is an ordinary
            event, if it has data. Else, and when the decoder is closed or has failed: `()`.

        Raises:
            LimitExceededError: An error was held, or two bytes that could have been the begin
                of a byte order mark outgrew the limit. The decoder has failed.
            StreamStateError: An iterator has events left in its chunk, or another call is in
                the decoder.
        """
        return self._close()

    def iter(self, chunks: Iterable[Buffer], *, done: bytes | None = None) -> Iterator[Event]:
        """Pull chunks from an iterable and give their events one by one.

        A chunk's events are given, then its error if it has one, before the next chunk is
        pulled. When the source ends, `close()` is called and the torn event comes last. When
        the source raises, the exception passes through and the decoder stays open. The source
        is never closed.

        A chunk of exact `bytes` is held and parsed as the events are taken. Until all of them
        are, `feed()`, `close()` and another iterator raise `StreamStateError`; an iterator
        dropped before that leaves the decoder failed.

        Args:
            chunks: An iterable of buffers of bytes.
            done: Payload that ends the iteration without being given, JSON white space around
                it ignored; for instance `b"[DONE]"`. Default: none.

        Raises:
            TypeError: `chunks` is no iterable, or is itself bytes or text; `done` is neither
                `bytes` nor None.
            StreamStateError: Another iterator has events left in its chunk.
        """
        self._check_free()
        check_source(chunks, done)
        return Pull(self, chunks, done)

    def aiter(
        self, chunks: AsyncIterable[Buffer], *, done: bytes | None = None
    ) -> AsyncIterator[Event]:
        """Pull chunks from an async iterable and give their events one by one.

        All that `iter()` says holds here too.

        Args:
            chunks: An async iterable of buffers of bytes.
            done: Payload that ends the iteration without being given. Default: none.

        Raises:
            TypeError: `chunks` is no async iterable, or is itself bytes or text; `done` is
                neither `bytes` nor None.
            StreamStateError: Another iterator has events left in its chunk.
        """
        self._check_free()
        check_source(chunks, done)
        return AsyncPull(self, chunks, done)

    def reset(self, last_event_id: str = "") -> None:
        """Open the decoder again for a new connection.

        Offsets and counters start again at 0, what was pending is forgotten, as is what an
        iterator has left of its chunk. The reconnection time stays.

        Args:
            last_event_id: The last event ID to begin with. Default: none.

        Raises:
            TypeError: `last_event_id` is not `str`. Nothing changed.
            StreamStateError: Another call is in the decoder.
        """
        self._enter()
        try:
            self._begin_stream(last_event_id)
        finally:
            self._busy.release()

    # --- The end

    def _forget(self) -> None:
        self._clear_block()

    def _end_stream(self) -> tuple[Event, ...]:
        if self._at_start:
            # The end decides that EF or EF BB is not a byte order mark but a line.
            self._at_start = False
            chunk, self._partial_bom = self._partial_bom, b""
            self._offset = 0
            _, error = self._collect(self._scan(chunk))
            if error is not None:
                self._fail()
                raise error
        self._closed_at_boundary = self.at_boundary
        self._state = CLOSED
        if self._field_start is None:  # only comments, or nothing
            event = None
        elif self._flush:
            if self._offset > self._line_start:
                if self._in_comment:
                    self._comments += 1
                else:
                    assert self._start is not None
                    self._end_field(self._held, self._line_start - self._start, len(self._held))
            event = self._end_block(b"", 0, self._offset)
        else:
            event = self._tear()
        self._clear_block()
        return () if event is None else (event,)

    def _tear(self) -> Event:
        """Report the tail: all from the open block's first field line on, as it came."""
        assert self._start is not None
        assert self._field_start is not None
        tail = bytes(self._held[self._field_start - self._start :])
        wire = bytes(self._held) if self._keep_wire else None
        replaced = count_replacements(tail)
        self._torn = 1
        self._replaced += replaced
        return cast(
            "Event",
            _Draft(
                self._default_event,
                self._last_event_id,
                None,
                tail,
                True,
                replaced,
                self._field_start,
                wire,
                self._loads,
            ),
        )

    # --- The parser

    def _scan(self, chunk: bytes) -> Iterator[Event]:
        """Consume one chunk, giving each event when its empty line is reached.

        At each event, at the end and at an error the decoder's attributes say where the stream
        stands. In between they do not.
        """
        base = self._offset  # of chunk[0]; `position` and other local indices are within chunk
        position = 0
        if self._at_start:
            if self._partial_bom:  # at most 2 bytes, at most twice in a stream
                chunk = self._partial_bom + chunk
                base = 0
            if len(chunk) < len(BOM) and BOM.startswith(chunk):
                self._partial_bom = BOM[: len(chunk)]  # not the chunk: it must not outlive the call
                self._offset = len(chunk)
                return
            self._at_start = False
            self._partial_bom = b""
            if chunk.startswith(BOM):
                self._had_bom = True
                self._line_start = position = len(BOM)

        size = len(chunk)
        lf = cr = -1  # the next of each at or after position, or size: each byte is searched once
        while position < size:
            if self._after_cr:
                self._after_cr = False
                if chunk[position] == LF:
                    if self._start is not None and base + position >= self._start + self._limit:
                        self._exceed(base + position)
                    position += 1
                    self._line_start = base + position
                    continue

            if lf < position:
                lf = chunk.find(b"\n", position)
                if lf < 0:
                    lf = size
            if cr < position:
                cr = chunk.find(b"\r", position)
                if cr < 0:
                    cr = size
            end = lf if lf < cr else cr
            line = self._line_start - base  # negative when the line began in an earlier chunk

            if end == line:
                event = self._end_block(chunk, end, base)
                position = end + 1
                if end == cr:
                    if position == size:
                        self._after_cr = True
                    elif chunk[position] == LF:
                        position += 1
                self._line_start = self._offset = base + position
                if event is not None:
                    yield event
                continue

            if not self._skipping:
                if line == position:  # its first byte says what it is
                    self._in_comment = chunk[position] == COLON
                    if not self._in_comment and self._field_start is None:
                        self._field_start = base + position
                    if self._start is None and (self._keep_wire or not self._in_comment):
                        self._start = base + position
                if self._start is not None:
                    excess = self._start + self._limit - base
                    # The terminator of this line counts as well, if it is here.
                    if excess <= (end if end < size else size - 1):
                        self._exceed(base + excess)
                        position = excess
                        continue
            if end == size:
                break
            if not self._skipping:
                if self._in_comment:
                    self._comments += 1
                elif line >= 0:
                    self._end_field(chunk, line, end)
                else:
                    assert self._start is not None
                    self._hold(chunk, end, base)
                    self._end_field(self._held, self._line_start - self._start, len(self._held))
            position = end + 1
            self._line_start = base + position
            self._after_cr = end == cr

        self._offset = base + size
        if self._start is not None:
            self._hold(chunk, size, base)
            self._values.clear()

    def _hold(self, chunk: bytes, end: int, base: int) -> None:
        """Hold the open block's bytes up to chunk[end]; those it has are not copied again."""
        assert self._start is not None
        self._held += chunk[self._start + len(self._held) - base : end]

    def _exceed(self, offset: int) -> None:
        """Give up the open block at the first byte past the limit."""
        self._offset = offset
        self._clear_block()
        if not self._skip:
            raise LimitExceededError(self._limit, self._limit + 1, offset)
        self._skipped += 1
        self._skipping = True

    def _end_field(self, buffer: bytes | bytearray, begin: int, end: int) -> None:
        """Interpret a line that has ended, is not empty and is not a comment."""
        name, value = _split_field(buffer, begin, end)
        if name == b"data":
            self._has_data = True
            if not self._held:
                self._values.append(buffer[value:end])
        elif name == b"event":
            self._event_type_buffer = bytes(buffer[value:end])
        elif name == b"id":
            identifier = bytes(buffer[value:end])
            if b"\0" in identifier:
                self._invalid_fields += 1
            else:
                self._id_buffer = identifier
        elif name == b"retry":
            digits = bytes(buffer[value:end])
            if digits.isdigit():  # for bytes: not empty, ASCII digits only
                digits = digits.lstrip(b"0")
                # int() refuses numbers of some thousand digits.
                retry = min(int(digits or b"0"), MAX_RETRY) if len(digits) < 20 else MAX_RETRY
                self._retry = self._reconnection_time_ms = retry
            else:
                self._invalid_fields += 1
        else:
            self._ignored_lines += 1

    def _end_block(self, chunk: bytes, end: int, base: int) -> Event | None:
        """Dispatch the open block at the empty line whose terminator is chunk[end]."""
        was_skipping, self._skipping = self._skipping, False
        replaced = 0
        if self._id_buffer is not None:
            self._last_event_id = self._id_buffer.decode("utf-8", "replace")
            replaced = count_replacements(self._id_buffer)
        if not self._has_data:
            if self._field_start is not None:
                self._empty_blocks += 1
            if was_skipping or not self._is_event_without_data():
                self._clear_block()
                return None

        wire = None
        if self._held:
            self._hold(chunk, end + 1, base)
            raw = self._held_payload()
            if self._keep_wire:
                wire = bytes(self._held)
        else:
            raw = b"\n".join(self._values)
            if self._keep_wire:
                begin = end if self._start is None else self._start - base
                # By way of a view: a slice of all of the chunk would be the chunk itself.
                wire = bytes(memoryview(chunk)[begin : end + 1])
        event_type = self._default_event
        if self._event_type_buffer:
            event_type = self._event_type_buffer.decode("utf-8", "replace")
            replaced += count_replacements(self._event_type_buffer)
        replaced += count_replacements(raw)
        self._events += 1
        self._replaced += replaced
        event = _Draft(
            event_type,
            self._last_event_id,
            self._retry,
            raw,
            False,
            replaced,
            base + end if self._field_start is None else self._field_start,
            wire,
            self._loads,
        )
        self._clear_block()
        return cast("Event", event)

    def _is_event_without_data(self) -> bool:
        """Whether the profile makes an event of the open block, which has no data."""
        if self._dataless == "dropped":
            return False
        if self._retry is not None:
            return True
        if self._dataless == "any field":
            return self._event_type_buffer is not None or self._id_buffer is not None
        return bool(self._event_type_buffer or self._last_event_id)

    def _held_payload(self) -> bytes:
        """Read the data lines of a block that spans chunks out of its bytes."""
        payload = bytearray()
        with memoryview(self._held) as held:
            for line in _LINE.finditer(held):
                begin, end = line.span()
                name, value = _split_field(self._held, begin, end)
                if name == b"data":
                    payload += held[value:end]
                    payload.append(LF)
        del payload[-1:]
        return bytes(payload)
