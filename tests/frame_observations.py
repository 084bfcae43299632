"""What a JSON stream decoder did with a stream, in a form that can be compared with ``==``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from observations import error_of
from seamstream import JSONStats, SeamstreamError

FRAMINGS = ("concatenated", "ndjson", "array", "json-seq")
# Two objects in each framing, with the begin of a third.
TWO = {
    "concatenated": b'{"a":1}{"a":2} {"a":',
    "ndjson": b'{"a":1}\r\n\n{"a":2}\n{"a":',
    "array": b'[{"a":1},\n{"a":2} , {"a":',
    "json-seq": b'\x1e{"a":1}\n\x1e{"a":2}\n\x1e{"a":',
}
KINDS = ("syntax", "garbage", "separator", "truncated", "oversize")


class SeenFrame(NamedTuple):
    """Everything that a frame says about itself without being parsed."""

    raw: bytes
    kind: str | None = None
    offset: int = 0
    torn: bool = False


class State(NamedTuple):
    """Everything that a decoder says about itself."""

    pending_bytes: int
    at_boundary: bool
    array_closed: bool | None
    stats: JSONStats


class Outcome(NamedTuple):
    """A whole stream: its frames, its error, and the decoder's state at the end."""

    frames: list[SeenFrame]
    error: tuple[str, int, int, int] | None
    state: State


def seen(frame: Any) -> SeenFrame:
    assert frame.parse_error == ("torn" if frame.torn else frame.kind)
    return SeenFrame(*(getattr(frame, name) for name in SeenFrame._fields))


def state_of(decoder: Any) -> State:
    return State(*(getattr(decoder, name) for name in State._fields))


def stats_of(decoder: Any) -> dict[str, int]:
    """The counters that are not zero, those of the errors among them."""
    stats = decoder.stats
    assert type(stats) is JSONStats
    values = {name: getattr(stats, name) for name in ("bytes", "frames", "skipped", "torn")}
    values |= {kind: getattr(stats.errors, kind) for kind in KINDS}
    return {name: value for name, value in values.items() if value}


def observe(decoder: Any, chunks: Iterable[Any]) -> Outcome:
    """Feed all chunks and close, as a caller does who stops at the first error."""
    frames: list[SeenFrame] = []
    try:
        for chunk in chunks:
            frames.extend(map(seen, decoder.feed(chunk)))
        frames.extend(map(seen, decoder.close()))
    except SeamstreamError as error:
        return Outcome(frames, error_of(error), state_of(decoder))
    return Outcome(frames, None, state_of(decoder))


def frame_all(implementation: Any, *chunks: bytes, **options: Any) -> list[SeenFrame]:
    """The frames of a stream that has no error, those of `close()` included."""
    outcome = observe(implementation.JSONStreamDecoder(**options), chunks)
    assert outcome.error is None
    return outcome.frames


def brief(frames: Iterable[Any]) -> list[bytes | tuple[bytes, str]]:
    """Values as their bytes alone, the others with what is wrong with them."""
    return [
        (frame.raw, "torn" if frame.torn else frame.kind) if frame.torn or frame.kind else frame.raw
        for frame in frames
    ]
