"""Put fragmented event streams and JSON streams together again, exactly.

Bytes in, events out: feed an `SSEDecoder` the chunks as the transport hands them over and take
the events as they complete; a `JSONStreamDecoder` does so with JSON texts, and an `EventStream`
pulls from any source of bytes. No I/O, no threads.

    decoder = seamstream.SSEDecoder()
    for chunk in response.iter_bytes():
        for event in decoder.feed(chunk):
            print(event.event, event.data)
    for event in decoder.close():
        print("the stream ended inside an event:", event.raw)
"""

from __future__ import annotations

import typing as _typing

from ._backend import Event, Frame, JSONStreamDecoder, SSEDecoder, UTF8Decoder, backend
from .errors import (
    ContentTypeError,
    DecodeError,
    IdleTimeoutError,
    JSONDecodeError,
    LimitExceededError,
    SchemaError,
    SeamstreamError,
    StreamStateError,
    TornError,
    UTF8DecodeError,
)
from .limits import Limits
from .quarantine import JSONLinesSink, LoggingSink, QuarantineEntry
from .stats import JSONErrorCounts, JSONStats, Stats
from .stream import EventStream, Parsed, Report

__all__ = [
    "ContentTypeError",
    "DecodeError",
    "Event",
    "EventStream",
    "Frame",
    "IdleTimeoutError",
    "JSONDecodeError",
    "JSONErrorCounts",
    "JSONLinesSink",
    "JSONStats",
    "JSONStreamDecoder",
    "LimitExceededError",
    "Limits",
    "LoggingSink",
    "Parsed",
    "QuarantineEntry",
    "Report",
    "SSEDecoder",
    "SchemaError",
    "SeamstreamError",
    "Stats",
    "StreamStateError",
    "TornError",
    "UTF8DecodeError",
    "UTF8Decoder",
    "__version__",
    "backend",
]

__version__: str


if not _typing.TYPE_CHECKING:  # a type checker would take every misspelt name for a string

    def __getattr__(name: str) -> str:
        # Reading the metadata costs more than importing all the rest, and few programs ask.
        if name == "__version__":
            from importlib.metadata import version  # noqa: PLC0415

            value = version("seamstream")
            globals()["__version__"] = value
            return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
