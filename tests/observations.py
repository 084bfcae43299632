"""What a decoder did with a stream, in a form that can be compared with ``==``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from seamstream import LimitExceededError, SeamstreamError, StreamStateError


class SeenEvent(NamedTuple):
    """Everything that an event says about itself."""

    event: str | None
    data: str
    id: str
    retry: int | None
    raw: bytes
    is_done: bool
    torn: bool
    replaced: int
    offset: int
    wire: bytes | None


class State(NamedTuple):
    """Everything that a decoder says about itself."""

    last_event_id: str
    reconnection_time_ms: int | None
    pending_bytes: int
    at_boundary: bool
    stats: tuple[int, ...]


class Outcome(NamedTuple):
    """A whole stream: its events, its error, and the decoder's state at the end."""

    events: list[SeenEvent]
    error: tuple[str, int, int, int] | None
    state: State


def seen(event: Any) -> SeenEvent:
    return SeenEvent(*(getattr(event, name) for name in SeenEvent._fields))


def state_of(decoder: Any) -> State:
    stats = decoder.stats
    return State(
        decoder.last_event_id,
        decoder.reconnection_time_ms,
        decoder.pending_bytes,
        decoder.at_boundary,
        tuple(getattr(stats, name) for name in STATS),
    )


STATS = (
    "bytes",
    "events",
    "comments",
    "ignored_lines",
    "invalid_fields",
    "empty_blocks",
    "replaced",
    "skipped",
    "torn",
)


def stats_of(decoder: Any) -> dict[str, int]:
    """The counters that are not zero."""
    values = {name: getattr(decoder.stats, name) for name in STATS}
    return {name: value for name, value in values.items() if value}


def error_of(error: SeamstreamError) -> tuple[str, int, int, int]:
    assert type(error) is LimitExceededError, error
    return ("LimitExceededError", error.limit, error.observed, error.offset)


def described(error: SeamstreamError) -> tuple[Any, ...]:
    """Type, attributes and, but for a wrong use, the words."""
    words = None if isinstance(error, StreamStateError) else str(error)
    return (type(error), words, vars(error))


def attempt(call: Callable[..., Any], *arguments: Any) -> tuple[Any, SeamstreamError | None]:
    """The result of a call, or the error of ours that it raised."""
    try:
        return call(*arguments), None
    except SeamstreamError as error:
        return None, error


def observe(decoder: Any, chunks: Iterable[Any]) -> Outcome:
    """Feed all chunks and close, as a caller does who stops at the first error."""
    events: list[SeenEvent] = []
    try:
        for chunk in chunks:
            events.extend(map(seen, decoder.feed(chunk)))
        events.extend(map(seen, decoder.close()))
    except SeamstreamError as error:
        return Outcome(events, error_of(error), state_of(decoder))
    return Outcome(events, None, state_of(decoder))


def decode(implementation: Any, *chunks: bytes, **options: Any) -> list[SeenEvent]:
    """The events of a stream that has no error, the torn one included."""
    outcome = observe(implementation.SSEDecoder(**options), chunks)
    assert outcome.error is None
    return outcome.events
