"""Streams with one fault in them, made on purpose and made again from their seed.

`inject` puts frames on the wire as a framing does, and damages one place of the stream: a frame is
cut, a quote is lost, a proxy writes its error page in between. What was done is known to the byte,
so a program that reads the stream can be held to it: every frame of `Faulty.intact` is there to be
found, and nothing else is (but see `Fault.BYTE_CHANGED`).

    faulty = inject(frames, Fault.CUT_IN_STRING, seed=7, framing="ndjson")
    for chunk in faulty.chunks(): ...           # cut at random bytes
    async for chunk in faulty.achunks(): ...

The same arguments give the same bytes on every platform and version of Python.
"""

# The arguments are checked for callers without a type checker.
# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple

import orjson

from .fragmentations import random_cuts

__all__ = ["ERROR_OBJECT", "Fault", "Faulty", "Framing", "inject"]

Framing = Literal["concatenated", "ndjson", "array", "json-seq", "sse"]


class Fault(str, Enum):
    """What can go wrong with one frame, or between two.

    All but the last two are in a frame. A fault in a string, key or number befalls only frames that
    are JSON texts and have one. In an event block all this is about the value of its one data line,
    and no CR or LF gets into that; blocks with more or fewer data lines stay as they are.
    """

    CUT = "cut"
    """The frame ends early, at any byte; at least one is left."""
    CUT_IN_STRING = "cut-in-string"
    """The frame ends early, inside a string that is a value."""
    TRUNCATED_KEY = "truncated-key"
    """The frame ends early, inside a key."""
    ERROR_AFTER_CUT = "error-after-cut"
    """The frame ends early, at any byte, and `ERROR_OBJECT` follows as a frame of its own."""
    BROKEN_QUOTE = "broken-quote"
    """A quote at the begin or end of a string is lost, or the backslash before one inside."""
    CONTROL_CHARACTER = "control-character"
    """A raw control character, U+0000 to U+001F, gets into a string or key; half the time one that
    texts have: LF, CR or tab."""
    NAN = "nan"
    """A number becomes NaN, Infinity or -Infinity."""
    BYTE_CHANGED = "byte-changed"
    """One byte becomes another, half the time one that means something to JSON: a bracket, a quote.
    The frame may still be, or begin with, a JSON text."""
    BYTE_REMOVED = "byte-removed"
    """One byte is lost. The frame may still be, or begin with, a JSON text."""
    MISSING_DELIMITER = "missing-delimiter"
    """What separates the frame from the next is lost: white space, LF, a comma, a record separator,
    an empty line."""
    GARBAGE = "garbage"
    """Something that is no JSON stands before the frame: on a line or in a block of its own where
    frames have that; in an array before the comma."""

    def __str__(self) -> str:
        return self.value


ERROR_OBJECT = b'{"error": {"code": 502, "message": "upstream went away", "status": "UNAVAILABLE"}}'

_RECORD_SEPARATOR = b"\x1e"
_GARBAGE = (
    b"<html><head><title>502 Bad Gateway</title></head></html>",
    b'upstream connect error {retried "1" time} [reset: overflow]',
    b"[warn] worker {7} is gone",
    b"1f4",  # the size of a chunk, with the transfer coding left in
    "Ошибка шлюза 🧵".encode(),
)
_NOT_NUMBERS = (b"NaN", b"Infinity", b"-Infinity")

_LF, _CR, _QUOTE = b'\n\r"'
_LIKELY_CONTROL_CHARACTERS = b"\t\n\r"
_LIKELY_BYTES = b'{}[]",:\\'

_DELIMITERS: dict[Framing, re.Pattern[bytes]] = {
    "concatenated": re.compile(rb"[ \t\n\r]*"),
    "ndjson": re.compile(rb"[ \t\r]*\n"),
    "array": re.compile(rb"[ \t\n\r]*,[ \t\n\r]*"),
    "json-seq": re.compile(rb"\n"),
    "sse": re.compile(b""),  # the empty line is part of the block
}
_DEFAULT_DELIMITERS: dict[Framing, bytes] = {
    "concatenated": b"\n",
    "ndjson": b"\n",
    "array": b",\n",
    "json-seq": b"\n",
    "sse": b"",
}

_TOKEN = re.compile(
    rb'(?P<string>"[^"\\]*(?:\\.[^"\\]*)*")(?P<colon>[ \t\n\r]*:)?|(?P<number>-?[0-9][-+.0-9Ee]*)',
    re.DOTALL,
)
_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_BLOCK = re.compile(rb"(?:[^\r\n]+(?:\r\n|\n|\r(?!\n)))+(\r\n|\n|\r)")
_DATA_LINE = re.compile(rb"(?:^|(?<=[\r\n]))data: ?([^\r\n]*)")


@dataclass(frozen=True, slots=True)
class Faulty:
    """A stream with one fault.

    The fault is one replacement: `stream` is `healthy` with `inserted` in the place of `removed`
    at `offset`.
    """

    fault: Fault
    framing: Framing
    seed: int
    frames: tuple[bytes, ...]
    """The frames as they were given."""
    healthy: bytes
    """The stream without the fault."""
    stream: bytes
    """The stream with it."""
    index: int
    """Which frame was damaged; the one before the missing delimiter, the one after the garbage."""
    offset: int
    """Where the damage begins, from the begin of the stream."""
    removed: bytes
    inserted: bytes
    damaged: bytes | None
    """What is left of the frame `index`; None if it is whole."""

    @property
    def intact(self) -> tuple[bytes, ...]:
        """The frames that are whole, in their order; an inserted error object is one of them."""
        after = self.index + (self.damaged is not None)
        error: tuple[bytes, ...] = ()
        if self.fault is Fault.ERROR_AFTER_CUT:
            error = (_error_frame(self.framing),)
        return (*self.frames[: self.index], *error, *self.frames[after:])

    def chunks(self, *, seed: int | None = None, mean: int = 16) -> Iterator[bytes]:
        """Yield the stream cut at random bytes, into chunks of ``mean`` bytes or so.

        Args:
            seed: Decides where to cut; that of the fault by default.
            mean: The mean size of the chunks; 1: byte by byte.
        """
        yield from random_cuts(self.stream, self.seed if seed is None else seed, mean=mean)

    async def achunks(
        self, *, seed: int | None = None, mean: int = 16, delay: float = 0.0
    ) -> AsyncIterator[bytes]:
        """Yield what `chunks` does, and let other tasks run before each chunk.

        Args:
            seed: Decides where to cut; that of the fault by default.
            mean: The mean size of the chunks; 1: byte by byte.
            delay: Seconds to pause before each chunk.
        """
        from asyncio import sleep  # noqa: PLC0415  # a slow import that `inject` has no need of

        for chunk in self.chunks(seed=seed, mean=mean):
            await sleep(delay)
            yield chunk


def inject(
    frames: Iterable[bytes],
    fault: Fault | str,
    *,
    seed: int,
    framing: Framing = "concatenated",
    delimiter: bytes | None = None,
    at: int | None = None,
    cut_delimiter: bool = False,
) -> Faulty:
    """Put frames on the wire, with one fault.

    Args:
        frames: The frames without what separates them: JSON texts, but others may be among them.
            With the framing "sse": whole event blocks, each with its empty line.
        fault: What goes wrong.
        seed: Decides on the frame, on the place in it, and on what is inserted.
        framing: How the frames are separated.
        delimiter: What stands between two frames: white space or nothing ("concatenated", LF by
            default), a line ending ("ndjson"), a comma with white space around it ("array", comma
            and LF by default). The last frame has it too; in an array, a bracket for the comma.
        at: Which frame to damage, instead of one that the seed chooses.
        cut_delimiter: A frame that ends early loses the delimiter after it as well, or the end of
            its event block. What follows is then glued to it.

    Raises:
        TypeError: A frame is not bytes, or the seed not an int.
        ValueError: The fault cannot befall the frames, or the frame `at`; or the framing does not
            allow a frame or the delimiter; or there is no such fault or framing.
    """
    if not isinstance(seed, int):
        raise TypeError(f"seed must be an int, not {type(seed).__name__}")
    chosen = _fault(fault)
    wire = _Wire(_checked(frames, framing), framing, _checked_delimiter(delimiter, framing))
    source = random.Random(seed)
    index, places = _choose(wire, chosen, at, source)
    place = places[_below(len(places), source)]
    splice = _splice(wire, chosen, index, place, source, cut_delimiter=cut_delimiter)
    healthy = wire.stream
    begin, end = wire.spans[index]
    stop = splice.offset + len(splice.removed)
    damaged = None
    if chosen is not Fault.GARBAGE and splice.offset < end:
        inside = splice.inserted[: splice.inside]
        damaged = healthy[begin : splice.offset] + inside + healthy[stop:end]
    return Faulty(
        fault=chosen,
        framing=framing,
        seed=seed,
        frames=wire.frames,
        healthy=healthy,
        stream=healthy[: splice.offset] + splice.inserted + healthy[stop:],
        index=index,
        offset=splice.offset,
        removed=splice.removed,
        inserted=splice.inserted,
        damaged=damaged,
    )


# --- the healthy stream --------------------------------------------------------------------------


class _Wire:
    """Frames as they stand in a healthy stream."""

    def __init__(self, frames: tuple[bytes, ...], framing: Framing, delimiter: bytes) -> None:
        self.frames = frames
        self.framing: Framing = framing
        self.before = _RECORD_SEPARATOR if framing == "json-seq" else b""
        self.after = delimiter
        head, tail = b"", delimiter
        if framing == "array":
            head, tail = b"[", delimiter.translate(_COMMA_TO_BRACKET)
        parts = [head]
        self.spans: list[tuple[int, int]] = []
        at = len(head)
        for index, frame in enumerate(frames):
            after = tail if index == len(frames) - 1 else delimiter
            begin = at + len(self.before)
            self.spans.append((begin, begin + len(frame)))
            at = begin + len(frame) + len(after)
            parts += (self.before, frame, after)
        self.stream = b"".join(parts)

    def payload(self, index: int) -> tuple[int, int]:
        """Give the part of a frame to be damaged; it is empty if there is none."""
        frame = self.frames[index]
        if self.framing != "sse":
            return 0, len(frame)
        data_lines = list(_DATA_LINE.finditer(frame))
        return data_lines[0].span(1) if len(data_lines) == 1 else (0, 0)


_COMMA_TO_BRACKET = bytes.maketrans(b",", b"]")


def _fault(fault: Fault | str) -> Fault:
    try:
        return Fault(fault)
    except ValueError:
        names = ", ".join(known.value for known in Fault)
        raise ValueError(f"fault must be one of {names}, not {fault!r}") from None


def _checked(frames: Iterable[bytes], framing: Framing) -> tuple[bytes, ...]:
    if framing not in _DELIMITERS:
        raise ValueError(f"framing must be one of {', '.join(_DELIMITERS)}, not {framing!r}")
    if isinstance(frames, (bytes, bytearray, memoryview, str)):
        raise TypeError("frames must be an iterable of bytes: wrap one frame in a list")
    checked = tuple(frames)
    for index, frame in enumerate(checked):
        if not isinstance(frame, bytes):
            hint = ": encode it" if isinstance(frame, str) else ""
            raise TypeError(f"frame {index} must be bytes, not {type(frame).__name__}{hint}")
        if framing == "ndjson" and _LF in frame:
            raise ValueError(f"frame {index} holds an LF, which would end its line")
        if framing == "sse" and not _BLOCK.fullmatch(frame):
            raise ValueError(f"frame {index} is not one event block with its empty line")
    return checked


def _checked_delimiter(delimiter: bytes | None, framing: Framing) -> bytes:
    if delimiter is None:
        return _DEFAULT_DELIMITERS[framing]
    if not _DELIMITERS[framing].fullmatch(delimiter):
        raise ValueError(f"{framing} frames cannot have the delimiter {delimiter!r}")
    return delimiter


def _error_frame(framing: Framing) -> bytes:
    return b"event: error\ndata: %b\n\n" % ERROR_OBJECT if framing == "sse" else ERROR_OBJECT


# --- the fault -----------------------------------------------------------------------------------


class _Splice(NamedTuple):
    offset: int
    removed: bytes
    inserted: bytes
    inside: int | None = None
    """How much of what is inserted belongs to the damaged frame; None: all."""


def _below(end: int, source: random.Random) -> int:
    # The only method of Random that gives the same numbers in every version of Python.
    return int(source.random() * end)


def _choose(
    wire: _Wire, fault: Fault, at: int | None, source: random.Random
) -> tuple[int, Sequence[int]]:
    """Choose a frame that the fault can befall; give it with the places for it."""
    count = len(wire.frames)
    if at is not None:
        if not 0 <= at < count:
            raise ValueError(f"there is no frame {at}: there are {count} of them")
        places = _places(wire, fault, at)
        if not places:
            raise ValueError(f"{fault} cannot befall frame {at}")
        return at, places
    left = list(range(count))
    while left:
        index = left.pop(_below(len(left), source))
        places = _places(wire, fault, index)
        if places:
            return index, places
    raise ValueError(f"{fault} cannot befall any of the frames")


def _places(wire: _Wire, fault: Fault, index: int) -> Sequence[int]:
    """Give the offsets in a frame at which the fault can be."""
    if fault is Fault.GARBAGE:
        return [0]
    if fault is Fault.MISSING_DELIMITER:
        is_last = index == len(wire.frames) - 1
        return [] if is_last or not _delimiter_of(wire, index).removed else [0]
    begin, end = wire.payload(index)
    if fault in (Fault.CUT, Fault.ERROR_AFTER_CUT):
        return range(begin + 1, end)
    if fault in (Fault.BYTE_CHANGED, Fault.BYTE_REMOVED):
        return range(begin, end)
    payload = wire.frames[index][begin:end]
    if not _is_json(payload):
        return []
    return [begin + place for place in _places_in_text(payload, fault)]


def _places_in_text(text: bytes, fault: Fault) -> Iterator[int]:
    for token in _TOKEN.finditer(text):
        if token["number"] is not None:
            if fault is Fault.NAN:
                yield token.start()
            continue
        begin, end = token.span("string")
        is_key = token["colon"] is not None
        if fault is Fault.CONTROL_CHARACTER or fault is (
            Fault.TRUNCATED_KEY if is_key else Fault.CUT_IN_STRING
        ):
            yield from range(begin + 1, end)
        elif fault is Fault.BROKEN_QUOTE:
            yield begin
            for escape in _ESCAPE.finditer(text, begin, end):
                if text[escape.end() - 1] == _QUOTE:
                    yield escape.start()
            yield end - 1


def _is_json(payload: bytes) -> bool:
    try:
        orjson.loads(payload)
    except orjson.JSONDecodeError:
        return False
    return True


def _splice(
    wire: _Wire,
    fault: Fault,
    index: int,
    place: int,
    source: random.Random,
    *,
    cut_delimiter: bool,
) -> _Splice:
    """Say what the fault does to the stream."""
    if fault is Fault.MISSING_DELIMITER:
        return _delimiter_of(wire, index)
    if fault is Fault.GARBAGE:
        return _garbage_before(wire, index, source)
    frame = wire.frames[index]
    frame_begin, frame_end = wire.spans[index]
    offset = frame_begin + place
    payload_end = frame_begin + wire.payload(index)[1]
    if fault is Fault.ERROR_AFTER_CUT:
        error = wire.before + _error_frame(wire.framing)
        block_end = b"" if cut_delimiter else wire.stream[payload_end:frame_end]
        after = b"" if cut_delimiter else wire.after
        removed = wire.stream[offset:frame_end]
        return _Splice(offset, removed, block_end + after + error, inside=len(block_end))
    if fault in (Fault.CUT, Fault.CUT_IN_STRING, Fault.TRUNCATED_KEY):
        is_last = index == len(wire.frames) - 1
        end = payload_end
        if cut_delimiter:
            end = len(wire.stream) if is_last else frame_end + len(wire.after)
        return _Splice(offset, wire.stream[offset:end], b"")
    if fault is Fault.CONTROL_CHARACTER:
        byte = _byte(wire, source, likely=_LIKELY_CONTROL_CHARACTERS, end=0x20)
        return _Splice(offset, b"", byte)
    old = frame[place : place + 1]
    if fault is Fault.BYTE_CHANGED:
        byte = _byte(wire, source, likely=_LIKELY_BYTES, end=0x100, other_than=old[0])
        return _Splice(offset, old, byte)
    if fault is Fault.NAN:
        number = _TOKEN.match(frame, place)
        old = number[0] if number else old
        return _Splice(offset, old, _NOT_NUMBERS[_below(len(_NOT_NUMBERS), source)])
    return _Splice(offset, old, b"")  # a byte or a quote is lost


def _byte(
    wire: _Wire, source: random.Random, *, likely: bytes, end: int, other_than: int = -1
) -> bytes:
    """Choose a byte below `end`, half the time a likely one; never a line end of a block."""
    refused = {other_than, _LF, _CR} if wire.framing == "sse" else {other_than}
    candidates = likely if source.random() < 0.5 else range(end)
    allowed = [byte for byte in candidates if byte not in refused]
    return bytes((allowed[_below(len(allowed), source)],))


def _delimiter_of(wire: _Wire, index: int) -> _Splice:
    """Say what to remove between a frame and the next."""
    begin, end = wire.spans[index]
    if wire.framing == "sse":
        block = _BLOCK.fullmatch(wire.frames[index])
        begin += block.start(1) if block else 0
        return _Splice(begin, wire.stream[begin:end], b"")
    # In a sequence the record separator; LF ends a text but separates nothing.
    if wire.before:
        return _Splice(end + len(wire.after), wire.before, b"")
    return _Splice(end, wire.after, b"")


def _garbage_before(wire: _Wire, index: int, source: random.Random) -> _Splice:
    which = _below(len(_GARBAGE) + 1, source)
    if which < len(_GARBAGE):
        garbage = _GARBAGE[which]
    else:  # of another protocol, or compressed
        garbage = bytes(0x80 + _below(0x80, source) for _ in range(8 + _below(17, source)))
    if wire.framing == "array":
        return _Splice(wire.spans[index - 1][1] if index else wire.spans[0][0], b"", garbage)
    after = b"\n\n" if wire.framing == "sse" else wire.after
    return _Splice(wire.spans[index][0] - len(wire.before), b"", garbage + after)
