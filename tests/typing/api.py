"""The public API as a type checker sees it. Checked by mypy --strict and pyright, never run."""

from __future__ import annotations

import array
import json
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from typing import Any, Literal

from typing_extensions import assert_type

import seamstream
from seamstream import (
    DecodeError,
    Event,
    EventStream,
    Frame,
    JSONDecodeError,
    JSONErrorCounts,
    JSONStats,
    JSONStreamDecoder,
    LimitExceededError,
    Limits,
    SeamstreamError,
    SSEDecoder,
    Stats,
    UTF8DecodeError,
    UTF8Decoder,
)
from seamstream.profiles import Profile

assert_type(seamstream.__version__, str)
assert_type(seamstream.backend, Literal["rust", "reference"])


def push(chunks: list[bytes]) -> None:
    decoder = SSEDecoder()
    for chunk in chunks:
        assert_type(decoder.feed(chunk), tuple[Event, ...])
    assert_type(decoder.close(), tuple[Event, ...])
    assert_type(decoder.last_event_id, str)
    assert_type(decoder.reconnection_time_ms, int | None)
    assert_type(decoder.pending_bytes, int)
    assert_type(decoder.at_boundary, bool)
    assert_type(decoder.stats, Stats)
    decoder.reset()
    decoder.reset("7")
    decoder.feed(bytearray(b"x"))
    decoder.feed(memoryview(b"x"))
    decoder.feed(array.array("B", b"x"))


def refused(decoder: SSEDecoder) -> None:
    decoder.feed("text")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    decoder.iter([1])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    SSEDecoder(on_limit="raise")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    SSEDecoder(on_torn="drop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    SSEDecoder(profile="nobody")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    UTF8Decoder("ignore")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    event = Event(data="x")
    event.data = "y"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def options() -> None:
    SSEDecoder(
        limits=Limits(max_event_bytes=1 << 20, max_depth=100),
        on_limit="skip",
        on_torn="flush",
        profile="whatwg",
        keep_wire=True,
        last_event_id="7",
        loads=json.loads,
    )
    SSEDecoder(on_torn=None, loads=None)
    profiles: list[Profile] = ["httpx_sse", "httpx2", "openai", "anthropic", "sseclient_py"]
    for profile in profiles:
        SSEDecoder(profile=profile)
        EventStream([b""], profile=profile)
    assert_type(Limits().max_event_bytes, int)


def pull(decoder: SSEDecoder, chunks: list[bytes]) -> None:
    assert_type(decoder.iter(chunks), Iterator[Event])
    for event in decoder.iter(iter(chunks), done=b"[DONE]"):
        assert_type(event, Event)


async def pull_asynchronously(decoder: SSEDecoder, chunks: AsyncIterable[bytes]) -> None:
    assert_type(decoder.aiter(chunks), AsyncIterator[Event])
    async for event in decoder.aiter(chunks, done=None):
        assert_type(event, Event)


def members(event: Event) -> None:
    assert_type(event.event, str | None)
    assert_type(event.id, str)
    assert_type(event.retry, int | None)
    assert_type(event.raw, bytes)
    assert_type(event.is_done, bool)
    assert_type(event.data, str)
    assert_type(event.torn, bool)
    assert_type(event.replaced, int)
    assert_type(event.offset, int)
    assert_type(event.parse_error, Literal["syntax", "torn", "loads"] | None)
    assert_type(event.value, Any)
    assert_type(event.wire, bytes | None)
    assert_type(event.json(), Any)
    assert_type(event.get("a.b"), Any)
    assert_type(event.get_many(("a.b", ("c", 0))), tuple[Any, ...])
    assert_type(event.get_many(["a.b", ("c", 0)], default=""), tuple[Any, ...])
    assert_type(hash(event), int)
    assert_type(event == event, bool)  # noqa: PLR0124
    assert_type(Event(data=b"x", event=None, id="1", retry=5, torn=True), Event)


def match(event: Event) -> str:
    match event:
        case Event("delta", data):
            return data
        case Event(id=identifier):
            return identifier


def errors(event: Event) -> None:
    try:
        event.json()
    except JSONDecodeError as error:
        assert_type(error.offset, int)
        assert_type(error.kind, str)
        assert_type(error.doc, str)
    except LimitExceededError as error:
        assert_type((error.limit, error.observed, error.offset), tuple[int, int, int])
    except UTF8DecodeError as error:
        assert_type(error.object, bytes)
    except DecodeError as error:
        value_error: ValueError = error
        print(value_error)
    except SeamstreamError as error:
        print(error)


def text(decoder: UTF8Decoder) -> None:
    assert_type(UTF8Decoder("strict", skip_bom=True), UTF8Decoder)
    assert_type(decoder.decode(b"x"), str)
    assert_type(decoder.decode(b"", final=True), str)
    assert_type(decoder.getstate(), tuple[bytes, int])
    decoder.setstate((b"", 0))
    decoder.reset()
    assert_type(decoder.errors, Literal["replace", "strict"])
    assert_type(decoder.replaced, int)


def counters(stats: Stats) -> None:
    assert_type(stats.bytes, int)
    assert_type(
        (
            *(stats.events, stats.comments, stats.ignored_lines, stats.invalid_fields),
            *(stats.empty_blocks, stats.replaced, stats.skipped, stats.torn),
        ),
        tuple[int, int, int, int, int, int, int, int],
    )


Kind = Literal["syntax", "garbage", "separator", "truncated", "oversize"]


def push_json(chunks: list[bytes]) -> None:
    decoder = JSONStreamDecoder()
    for chunk in chunks:
        assert_type(decoder.feed(chunk), tuple[Frame, ...])
    assert_type(decoder.close(), tuple[Frame, ...])
    assert_type(decoder.pending_bytes, int)
    assert_type(decoder.at_boundary, bool)
    assert_type(decoder.array_closed, bool | None)
    assert_type(decoder.stats, JSONStats)
    assert_type(decoder.stats.errors, JSONErrorCounts)
    decoder.reset()
    decoder.feed(memoryview(b"x"))
    JSONStreamDecoder(
        framing="json-seq", limits=Limits(max_depth=9), on_limit="skip", loads=json.loads
    )
    JSONStreamDecoder(framing="jsonl")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    decoder.reset("7")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def pull_json(decoder: JSONStreamDecoder, chunks: list[bytes]) -> None:
    assert_type(decoder.iter(chunks), Iterator[Frame])
    for frame in decoder.iter(iter(chunks), done=b"[DONE]"):
        assert_type(frame, Frame)


async def pull_json_asynchronously(
    decoder: JSONStreamDecoder, chunks: AsyncIterable[bytes]
) -> None:
    assert_type(decoder.aiter(chunks), AsyncIterator[Frame])
    async for frame in decoder.aiter(chunks, done=None):
        assert_type(frame, Frame)


def frame_members(frame: Frame) -> None:
    assert_type(frame.raw, bytes)
    assert_type(frame.kind, Kind | None)
    assert_type(frame.torn, bool)
    assert_type(frame.offset, int)
    assert_type(frame.parse_error, Kind | Literal["torn"] | None)
    assert_type(frame.value, Any)
    assert_type(frame.json(), Any)
    assert_type(frame.get_many(("a.b", ("c", 0)), ""), tuple[Any, ...])
    assert_type(hash(frame), int)
    assert_type(frame == frame, bool)  # noqa: PLR0124
    assert_type(Frame(raw=b"x", kind="garbage", torn=False), Frame)
    frame.raw = b""  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    Frame(raw="x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Frame(raw=b"x", kind="torn")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def match_frame(frame: Frame) -> bytes:
    match frame:
        case Frame(raw, None):
            return raw
        case Frame(kind=kind):
            assert_type(kind, Kind | None)
            return b""


def json_counters(stats: JSONStats) -> None:
    assert_type((stats.bytes, stats.frames, stats.skipped, stats.torn), tuple[int, int, int, int])
    errors = stats.errors
    assert_type(
        (errors.syntax, errors.garbage, errors.separator, errors.truncated, errors.oversize),
        tuple[int, int, int, int, int],
    )
