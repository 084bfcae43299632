"""`EventStream`: any source of bytes, `for` and `async for`, and what becomes of errors."""

from __future__ import annotations

import array
import asyncio
import gc
import gzip
import io
import json
import pickle
import socket
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import FrozenInstanceError
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import Implementation
from fragmentations import at_cuts, fragmentations
from seamstream import (
    ContentTypeError,
    Event,
    EventStream,
    IdleTimeoutError,
    JSONDecodeError,
    LimitExceededError,
    Limits,
    Parsed,
    Report,
    StreamStateError,
    TornError,
)

pytestmark = pytest.mark.usefixtures("decoders")

DONE = b"data: [DONE]\n\n"
TWO = b"data: a\n\ndata: b\n\n"
MIXED = b'data: {"a": 1}\n\ndata: text\n\ndata: {broken\n\ndata: [2]\n\n: c\n\ndata: to'


class Source:
    """Chunks with a log of what happens to them; an exception among them is raised."""

    def __init__(self, *chunks: Any) -> None:
        self.chunks = iter(chunks)
        self.log: list[Any] = []

    @property
    def closed(self) -> int:
        return self.log.count("closed")

    def pull(self) -> Any:
        chunk = next(self.chunks)
        self.log.append(chunk)
        if isinstance(chunk, BaseException):
            raise chunk
        return chunk


class SyncSource(Source):
    def __iter__(self) -> SyncSource:
        return self

    def __next__(self) -> Any:
        return self.pull()

    def close(self) -> None:
        self.log.append("closed")


class AsyncSource(Source):
    def __aiter__(self) -> AsyncSource:
        return self

    async def __anext__(self) -> Any:
        try:
            return self.pull()
        except StopIteration:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        await asyncio.sleep(0)
        self.log.append("closed")


class Reader:
    """`for` and `async for` behind one interface, so that what holds for both is written once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.loop = asyncio.new_event_loop()

    def source(self, *chunks: Any) -> Any:
        return SyncSource(*chunks) if self.name == "for" else AsyncSource(*chunks)

    def open(self, *chunks: Any, **options: Any) -> EventStream[Any]:
        return EventStream(self.source(*chunks), **options)

    def iterate(self, stream: Any) -> Iterator[Any]:
        """Give the items of a stream, or of its batches, one at a time."""
        if self.name == "for":
            yield from stream
            return
        iterator = stream.__aiter__()
        end = object()

        async def step() -> Any:
            # Inside the loop, which then takes care of the generator.
            return await anext(iterator, end)

        while (item := self.run(step())) is not end:
            yield item

    def run(self, awaitable: Any) -> Any:
        return self.loop.run_until_complete(awaitable)

    def enter(self, stream: EventStream[Any]) -> None:
        if self.name == "for":
            stream.__enter__()
        else:
            self.run(stream.__aenter__())

    def exit(self, stream: EventStream[Any], error: BaseException | None = None) -> None:
        arguments = (type(error), error, None) if error else (None, None, None)
        if self.name == "for":
            stream.__exit__(*arguments)
        else:
            self.run(stream.__aexit__(*arguments))

    def close(self, stream: EventStream[Any]) -> None:
        if self.name == "for":
            stream.close()
        else:
            self.run(stream.aclose())


@pytest.fixture(params=["for", "async for"])
def reader(request: pytest.FixtureRequest) -> Iterator[Reader]:
    reader = Reader(request.param)
    yield reader
    gc.collect()
    reader.run(asyncio.sleep(0))  # generators that were dropped are closed in turns of the loop
    reader.run(asyncio.sleep(0))
    reader.run(reader.loop.shutdown_asyncgens())
    reader.loop.close()


def texts(items: Any) -> list[str]:
    return [item.data for item in items]


def outcomes(items: Any) -> list[tuple[Any, str | None]]:
    return [(item.value, item.error and item.error.kind) for item in items]


# --- items ----------------------------------------------------------------------------------


def test_items_are_those_of_the_decoder_for_every_fragmentation(reader: Reader) -> None:
    stream = b"id: 1\ndata: a\r\n\r\n:c\ndata: b\n\nretry: 5\n"
    for chunks in fragmentations(stream):
        events = list(reader.iterate(reader.open(*chunks)))
        assert [(e.data, e.id, e.torn) for e in events] == [
            ("a", "1", False),
            ("b", "1", False),
            ("retry: 5\n", "1", True),
        ]


@pytest.mark.parametrize(
    ("framing", "stream", "frames"),
    [
        ("ndjson", b'{"a":1}\n{x\n[2]\n3', [(b'{"a":1}', None), (b"{x", "syntax"), (b"[2]", None)]),
        ("concatenated", b'{"a":1}}[2]3', [(b'{"a":1}', None), (b"}", "garbage"), (b"[2]", None)]),
        ("array", b'[{"a":1},,[2],"x', [(b'{"a":1}', None), (b",", "separator"), (b"[2]", None)]),
        (
            "json-seq",
            b'\x1e{"a":1}\n\x1e[1,\x1e[2]\n\x1e[',
            [(b'{"a":1}', None), (b"[1,", "truncated"), (b"[2]", None)],
        ),
    ],
)
def test_json_framings_give_frames_and_the_torn_one_last(
    reader: Reader, framing: Any, stream: bytes, frames: list[Any]
) -> None:
    for chunks in fragmentations(stream):
        opened = reader.open(*chunks, framing=framing)
        *items, torn = reader.iterate(opened)
        assert [(frame.raw, frame.kind) for frame in items] == frames
        assert torn.torn
        report = opened.report
        assert (report.bytes, report.frames, report.torn) == (len(stream), 2, 1)
        assert getattr(report.errors, frames[1][1]) == 1
        assert report.parse_errors is None
        assert (report.events, report.comments) == (0, 0)
        assert report.array_closed is (False if framing == "array" else None)
        assert (opened.last_event_id, opened.reconnection_time_ms) == ("", None)


def test_each_item_comes_out_before_the_next_chunk_is_asked_for(reader: Reader) -> None:
    source = reader.source(b"", TWO, b": c\n", b"data: c\n\n: d\n", b"data: e\n\n")
    pulled = [len(source.log) for _ in reader.iterate(EventStream(source))]
    assert pulled == [2, 2, 4, 5]


def test_chunks_may_be_any_contiguous_buffers(reader: Reader) -> None:
    chunks = [bytearray(b"data: "), memoryview(b"a\n\n"), array.array("h", b"data: b\n")]
    opened = reader.open(*chunks, b"\n", bytearray())
    assert texts(reader.iterate(opened)) == ["a", "b"]
    assert opened.report.bytes == 18


@pytest.mark.parametrize(
    ("chunk", "error", "message"),
    [
        ("data: b\n\n", TypeError, "encode"),
        (5, TypeError, "bytes-like"),
        (None, TypeError, "bytes-like"),
        (memoryview(b"data: b\n\n")[::2], BufferError, "contiguous"),
    ],
)
def test_chunk_that_is_no_bytes_is_an_error_that_ends_the_stream(
    reader: Reader, chunk: Any, error: type[Exception], message: str
) -> None:
    source = reader.source(TWO, chunk)
    items = reader.iterate(EventStream(source))
    assert texts([next(items), next(items)]) == ["a", "b"]
    with pytest.raises(error, match=message):
        next(items)
    assert source.closed == 1


def test_flushed_tail_is_an_ordinary_event(reader: Reader) -> None:
    (event,) = reader.iterate(reader.open(b"data: a", on_torn="flush"))
    assert (event.data, event.torn) == ("a", False)


def test_event_ids_and_reconnection_time_are_those_of_the_stream(reader: Reader) -> None:
    opened = reader.open(b"retry: 7\ndata: a\n\n", b"id: 2\ndata: b\n\n", last_event_id="1")
    items = reader.iterate(opened)
    assert opened.last_event_id == "1"
    assert next(items).id == "1"
    assert opened.reconnection_time_ms == 7
    assert next(items).id == "2"
    assert opened.last_event_id == "2"


# --- the sentinel ---------------------------------------------------------------------------


def test_sentinel_ends_the_stream_without_being_handed_out(reader: Reader) -> None:
    for chunks in fragmentations(TWO + b"id: 5\ndata:\ndata:  [DONE] \n\n"):
        source = reader.source(*chunks, b"data: c\n\n")
        opened = EventStream(source)
        assert texts(reader.iterate(opened)) == ["a", "b"]
        assert opened.report.done_seen
        assert b"data: c\n\n" not in source.log
        assert source.closed == 1


def test_nothing_after_the_sentinel_in_its_chunk_is_handed_out(reader: Reader) -> None:
    limits = Limits(max_event_bytes=20)
    for rest in (TWO, b"data: " + b"x" * 30, b"data: torn"):
        opened = reader.open(TWO + DONE + rest, b"data: c\n\n", limits=limits)
        assert texts(reader.iterate(opened)) == ["a", "b"]
        assert opened.report.done_seen
        assert texts(reader.iterate(opened)) == []


def test_sentinel_may_come_first_or_be_all(reader: Reader) -> None:
    for parse in (False, True):
        opened = reader.open(DONE + TWO, parse=parse)
        assert list(reader.iterate(opened)) == []
        assert opened.report.done_seen


@pytest.mark.parametrize("done", ["b", b"b", " b\n"])
def test_sentinel_may_be_any_payload(reader: Reader, done: str | bytes) -> None:
    opened = reader.open(TWO, DONE, done=done)
    assert texts(reader.iterate(opened)) == ["a"]
    assert opened.report.done_seen


def test_sentinel_may_be_two_lines(reader: Reader) -> None:
    opened = reader.open(b"data: a\n\ndata: b\ndata: c\n\ndata: d\n\n", done="b\nc")
    assert texts(reader.iterate(opened)) == ["a"]


def test_without_a_sentinel_its_payload_is_an_event_like_any(reader: Reader) -> None:
    opened = reader.open(TWO + DONE + b"data: c\n\n", done=None)
    assert texts(reader.iterate(opened)) == ["a", "b", "[DONE]", "c"]
    assert not opened.report.done_seen


def test_flushed_sentinel_at_the_end_is_seen(reader: Reader) -> None:
    opened = reader.open(TWO, b"data: [DONE]", on_torn="flush")
    assert texts(reader.iterate(opened)) == ["a", "b"]
    assert opened.report.done_seen


def test_torn_sentinel_is_none(reader: Reader) -> None:
    opened = reader.open(b"[DONE]", done="[DONE]")
    (torn,) = reader.iterate(opened)
    assert torn.torn
    assert not opened.report.done_seen


def test_sentinel_ends_json_streams_too(reader: Reader) -> None:
    opened = reader.open(b'{"a": 1}\n[DO', b'NE]\n{"b": 2}\n', framing="ndjson", parse=True)
    assert outcomes(reader.iterate(opened)) == [({"a": 1}, None)]
    assert opened.report.done_seen
    assert opened.report.parse_errors == 0


def test_sentinel_is_never_parsed(reader: Reader) -> None:
    seen: list[bytes] = []

    def loads(raw: bytes) -> Any:
        seen.append(raw)
        return json.loads(raw)

    opened = reader.open(b"data: 1\n\n", DONE, parse=True, loads=loads)
    assert outcomes(reader.iterate(opened)) == [(1, None)]
    assert seen == [b"1"]


# --- parsing --------------------------------------------------------------------------------


def test_parsed_items_have_their_value_or_their_error(reader: Reader) -> None:
    opened = reader.open(MIXED, parse=True)
    items = list(reader.iterate(opened))
    assert outcomes(items) == [
        ({"a": 1}, None),
        ("text", None),
        (None, "syntax"),
        ([2], None),
        (None, "torn"),
    ]
    assert all(type(item) is Parsed for item in items)
    assert type(items[2].error) is JSONDecodeError
    assert type(items[4].error) is TornError
    assert items[2].event.data == "{broken"
    report = opened.report
    assert (report.parse_errors, report.schema_errors, report.torn) == (1, 0, 1)


def test_each_item_is_parsed_once(reader: Reader) -> None:
    seen: list[bytes] = []

    def loads(raw: bytes) -> Any:
        seen.append(raw)
        return json.loads(raw)

    list(reader.iterate(reader.open(MIXED, parse=True, loads=loads)))
    assert seen == [b'{"a": 1}', b"text", b"{broken", b"[2]"]


def test_text_is_what_does_not_begin_like_an_object_or_array(reader: Reader) -> None:
    payloads = ["hello", "", " ", "1.50", "nul", '"open', " {", "\t[1,", "[DONE]"]
    stream = "".join(f"data:{payload}\n\n" for payload in payloads).encode()
    items = list(reader.iterate(reader.open(stream, parse=True, done=None)))
    # As Event.value and Event.parse_error have it, which parse again.
    assert [item.value for item in items] == [
        None if item.error else item.event.value for item in items
    ]
    assert [item.error and item.error.kind for item in items] == [
        item.event.parse_error for item in items
    ]
    assert [item.error is None for item in items] == [True] * 6 + [False] * 2 + [True]


def test_nothing_is_parsed_unless_asked_for(reader: Reader) -> None:
    def loads(raw: bytes) -> Any:
        raise AssertionError

    opened = reader.open(MIXED, loads=loads)
    assert len(list(reader.iterate(opened))) == 5
    assert opened.report.parse_errors is None
    assert opened.report.schema_errors is None


def test_exception_of_loads_that_is_no_refusal_passes_through(reader: Reader) -> None:
    def loads(raw: bytes) -> Any:
        raise KeyError(len(raw))

    source = reader.source(TWO)
    with pytest.raises(KeyError):
        next(reader.iterate(EventStream(source, parse=True, loads=loads)))
    assert source.closed == 1


def test_error_frames_are_parse_errors(reader: Reader) -> None:
    opened = reader.open(b'[1,,{x},"y"]z', framing="array", parse=True)
    items = list(reader.iterate(opened))
    assert outcomes(items) == [
        (1, None),
        (None, "separator"),
        (None, "syntax"),
        ("y", None),
        (None, "garbage"),
    ]
    assert opened.report.parse_errors == 3
    assert opened.report.array_closed is True


@pytest.mark.parametrize("on_error", ["skip", "quarantine"])
def test_items_with_errors_are_left_out_and_the_stream_goes_on(
    reader: Reader, on_error: Any
) -> None:
    entries: list[Any] = []
    quarantine = entries.append if on_error == "quarantine" else None
    opened = reader.open(MIXED, parse=True, on_error=on_error, quarantine=quarantine)
    assert outcomes(reader.iterate(opened)) == [({"a": 1}, None), ("text", None), ([2], None)]
    report = opened.report
    assert (report.parse_errors, report.torn) == (1, 1)
    assert report.quarantined == len(entries) == (2 if quarantine else 0)
    assert [entry.kind for entry in entries] == (["syntax", "torn"] if quarantine else [])


def test_first_error_is_raised_after_what_came_before(reader: Reader) -> None:
    for chunks in ([MIXED, b"more"], [MIXED[:30], MIXED[30:], b"more"]):
        source = reader.source(*chunks)
        opened = EventStream(source, parse=True, on_error="raise")
        items = reader.iterate(opened)
        assert outcomes([next(items), next(items)]) == [({"a": 1}, None), ("text", None)]
        with pytest.raises(JSONDecodeError):
            next(items)
        assert source.closed == 1
        assert list(reader.iterate(opened)) == []
        assert opened.report.parse_errors == 1
        assert b"more" not in source.log


def test_torn_item_is_raised_last(reader: Reader) -> None:
    items = reader.iterate(reader.open(b"data: 1\n\ndata: 2\n", parse=True, on_error="raise"))
    assert outcomes([next(items)]) == [(1, None)]
    with pytest.raises(TornError) as caught:
        next(items)
    assert caught.value.offset == 9


def test_flagged_errors_do_not_keep_the_stream(reader: Reader) -> None:
    def loads(raw: bytes) -> Any:
        raise ValueError from KeyError()

    opened = reader.open(b"data: {x\n\n", parse=True, loads=loads)
    (item,) = reader.iterate(opened)
    assert item.error.__traceback__ is None
    assert type(item.error.__cause__) is ValueError
    gc.collect()
    gone = weakref.ref(opened)
    del opened
    gc.collect()
    assert gone() is None


# --- batches --------------------------------------------------------------------------------


def test_batches_are_what_each_chunk_completes(reader: Reader) -> None:
    opened = reader.open(TWO, b"data:", b" c\n\nid: 1\n", b"", b"data: to")
    batches = list(reader.iterate(opened.batches()))
    assert [texts(batch) for batch in batches] == [["a", "b"], ["c"], ["id: 1\ndata: to"]]
    assert all(type(batch) is tuple for batch in batches)


def test_batches_end_before_the_sentinel(reader: Reader) -> None:
    opened = reader.open(TWO, b"data: c\n\n" + DONE + TWO, TWO)
    assert [texts(batch) for batch in reader.iterate(opened.batches())] == [["a", "b"], ["c"]]
    opened = reader.open(TWO, DONE + TWO, TWO)
    assert [texts(batch) for batch in reader.iterate(opened.batches())] == [["a", "b"]]


def test_batches_of_parsed_items_are_lists(reader: Reader) -> None:
    opened = reader.open(MIXED, b"\n\n", parse=True, on_error="skip")
    batches = list(reader.iterate(opened.batches()))
    assert all(type(batch) is list for batch in batches)
    assert [outcomes(batch) for batch in batches] == [
        [({"a": 1}, None), ("text", None), ([2], None)],
        [("to", None)],
    ]


def test_batch_before_an_error_comes_first(reader: Reader) -> None:
    source = reader.source(MIXED)
    batches = reader.iterate(EventStream(source, parse=True, on_error="raise").batches())
    assert outcomes(next(batches)) == [({"a": 1}, None), ("text", None)]
    with pytest.raises(JSONDecodeError):
        next(batches)
    assert source.closed == 1


# --- one iteration --------------------------------------------------------------------------


def test_second_iteration_goes_on_with_the_first(reader: Reader) -> None:
    opened = reader.open(TWO + b"data: c\n\n", b"data: d\n\n")
    assert next(reader.iterate(opened)).data == "a"
    assert texts(reader.iterate(opened)) == ["b", "c", "d"]
    assert texts(reader.iterate(opened)) == []


def test_items_and_batches_do_not_mix(reader: Reader) -> None:
    opened = reader.open(TWO, b"data: c\n\n")
    next(reader.iterate(opened))
    with pytest.raises(StreamStateError, match="items"):
        next(reader.iterate(opened.batches()))
    assert texts(reader.iterate(opened)) == ["b", "c"]


WAYS = ["items", "parsed", "validated", "batches", "parsed batches"]


def opened_by(way: str, source: Any, **options: Any) -> Any:
    """What to iterate over, for each way of iterating."""
    if way.startswith("parsed"):
        options["parse"] = True
    elif way == "validated":
        options["model"] = dict[str, int]
    opened = EventStream(source, **options)
    return opened.batches() if way.endswith("batches") else opened


@pytest.mark.parametrize("way", WAYS)
def test_source_that_asks_the_stream_that_asks_it_gets_a_state_error(
    reader: Reader, way: str
) -> None:
    class Asking(SyncSource):
        def __next__(self) -> Any:
            return next(iterator) if self.log else super().__next__()

    class AsyncAsking(AsyncSource):
        async def __anext__(self) -> Any:
            return await (anext(iterator) if self.log else super().__anext__())

    kind: Any = Asking if reader.name == "for" else AsyncAsking
    source = kind(b'data: {"a": 1}\n\n')
    opened = opened_by(way, source)
    iterator: Any = iter(opened) if reader.name == "for" else aiter(opened)
    items = reader.iterate(iterator)
    next(items)
    with pytest.raises(StreamStateError, match="waiting for its source"):
        next(items)
    assert source.closed == 1
    assert list(reader.iterate(iterator)) == []


@pytest.mark.parametrize("way", WAYS)
def test_two_threads_may_not_wait_for_one_stream(way: str) -> None:
    waiting, go_on = threading.Event(), threading.Event()

    def source() -> Iterator[bytes]:
        yield b'data: {"a": 1}\n\n'
        waiting.set()
        assert go_on.wait(60)
        yield b'data: {"a": 2}\n\n'

    iterator = iter(opened_by(way, source()))
    taken = [next(iterator)]
    thread = threading.Thread(target=lambda: taken.extend(iterator))
    thread.start()
    try:
        assert waiting.wait(60)
        with pytest.raises(StreamStateError, match="waiting for its source"):
            next(iterator)
    finally:
        go_on.set()
        thread.join(60)
    assert len(taken) == 2
    assert next(iterator, None) is None


@pytest.mark.parametrize("way", WAYS)
def test_two_tasks_may_not_wait_for_one_stream(way: str) -> None:
    async def main() -> None:
        go_on = asyncio.Event()

        async def source() -> AsyncIterator[bytes]:
            yield b'data: {"a": 1}\n\n'
            await go_on.wait()
            yield b'data: {"a": 2}\n\n'

        iterator = aiter(opened_by(way, source()))
        await anext(iterator)
        one, other = iterator.__anext__(), iterator.__anext__()  # before either is awaited
        task = asyncio.ensure_future(one)
        await asyncio.sleep(0)
        for second in (other, iterator.__anext__()):
            with pytest.raises(StreamStateError, match="waiting for its source"):
                await second
        go_on.set()
        assert await task is not None
        assert await anext(iterator, None) is None

    asyncio.run(main())


@pytest.mark.parametrize("caller", ["loads", "sink"])
def test_what_a_stream_calls_may_not_ask_it(reader: Reader, caller: str) -> None:
    """Only where no awaiting is needed to ask; elsewhere it is told to whoever awaits."""

    def ask(argument: Any) -> Any:
        if reader.name == "for":
            next(iterator)
        else:
            iterator.__anext__().__await__().__next__()

    options: dict[str, Any] = {"loads": ask}
    if caller == "sink":
        options = {"on_error": "quarantine", "quarantine": ask}
    source = reader.source(b"data: {x\n\n")
    opened = EventStream(source, parse=True, **options)
    iterator: Any = iter(opened) if reader.name == "for" else aiter(opened)
    if caller == "sink":  # what a sink raises is counted
        assert list(reader.iterate(iterator)) == []
        assert (opened.report.sink_errors, opened.report.quarantined) == (1, 1)
    else:
        with pytest.raises(StreamStateError, match="waiting for its source"):
            next(reader.iterate(iterator))
    assert source.closed == 1


def test_source_decides_between_for_and_async_for() -> None:
    with pytest.raises(TypeError, match="async for"):
        iter(EventStream(AsyncSource()))
    with pytest.raises(TypeError, match="async with"):
        EventStream(AsyncSource()).__enter__()
    with pytest.raises(TypeError, match="use `for`"):
        EventStream([]).__aiter__()
    with pytest.raises(TypeError, match="use `with`"):
        asyncio.run(EventStream([]).__aenter__())


def test_source_of_both_kinds_is_read_as_asked(reader: Reader) -> None:
    class Both:
        def __iter__(self) -> Iterator[bytes]:
            yield b"data: sync\n\n"

        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"data: async\n\n"

    expected = "sync" if reader.name == "for" else "async"
    assert texts(reader.iterate(EventStream(Both()))) == [expected]


def test_iteration_after_closing_early_is_an_error(reader: Reader) -> None:
    opened = reader.open(TWO)
    items = reader.iterate(opened)
    next(items)
    reader.close(opened)
    with pytest.raises(StreamStateError, match="closed"):
        next(reader.iterate(opened))
    opened = reader.open(TWO)
    list(reader.iterate(opened))
    reader.close(opened)
    assert list(reader.iterate(opened)) == []


# --- closing --------------------------------------------------------------------------------


def test_block_closes_the_source_on_every_exit(reader: Reader) -> None:
    for taken in range(4):
        for error in (None, ValueError("of the block")):
            source = reader.source(TWO, b"data: to")
            opened = EventStream(source)
            reader.enter(opened)
            items = reader.iterate(opened)
            for _ in range(taken):
                next(items, None)
            assert source.closed == (1 if taken > 2 else 0)
            reader.exit(opened, error)
            assert source.closed == 1
            reader.exit(opened)
            assert source.closed == 1


def test_source_is_closed_at_its_end_before_the_torn_item(reader: Reader) -> None:
    source = reader.source(TWO, b"data: to")
    closed = [source.closed for _ in reader.iterate(EventStream(source))]
    assert closed == [0, 0, 1]


def test_generators_are_closed_with_all_they_hold() -> None:
    log: list[str] = []

    class Response:
        def __iter__(self) -> Iterator[bytes]:
            try:
                yield TWO
                yield TWO
            finally:
                log.append("inner")

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                yield TWO
                yield TWO
            finally:
                await asyncio.sleep(0)
                log.append("inner")

        def close(self) -> None:
            log.append("outer")

    with EventStream(Response()) as opened:
        next(iter(opened))
    assert log == ["inner", "outer"]

    async def main() -> None:
        async with EventStream(Response()) as opened:
            async for _ in opened:
                break

    log.clear()
    asyncio.run(main())
    assert log == ["inner", "outer"]


def test_dropped_stream_closes_its_source_at_once_and_is_freed() -> None:
    for options in ({}, {"parse": True}):
        source = SyncSource(TWO, TWO)
        opened = EventStream(source, **options)  # type: ignore[call-overload]
        gone = weakref.ref(opened)
        gc.disable()
        try:
            next(iter(opened))
            del opened
            assert gone() is None
            assert source.closed == 1
        finally:
            gc.enable()


def test_dropped_asynchronous_stream_is_closed_by_the_event_loop() -> None:
    async def main() -> int:
        source = AsyncSource(TWO, TWO)
        async for _ in EventStream(source):
            break
        for _ in range(10):
            await asyncio.sleep(0)
        return source.closed

    assert asyncio.run(main()) == 1


def test_stream_that_is_never_iterated_closes_its_source(reader: Reader) -> None:
    source = reader.source(TWO)
    opened = EventStream(source)
    reader.enter(opened)
    reader.exit(opened)
    assert (source.closed, source.log) == (1, ["closed"])


def test_transport_error_comes_after_everything_complete(reader: Reader) -> None:
    source = reader.source(TWO + b"data: ha", ConnectionResetError("gone"), b"never")
    opened = EventStream(source)
    items = reader.iterate(opened)
    assert texts([next(items), next(items)]) == ["a", "b"]
    with pytest.raises(ConnectionResetError, match="gone"):
        next(items)
    assert source.closed == 1
    assert list(reader.iterate(opened)) == []
    report = opened.report
    assert (report.bytes, report.events, report.torn, report.done_seen) == (26, 2, 0, False)


class Stubborn(SyncSource):
    def close(self) -> None:
        super().close()
        raise OSError("cannot close")


class AsyncStubborn(AsyncSource):
    async def aclose(self) -> None:
        await super().aclose()
        raise OSError("cannot close")


def test_error_in_closing_does_not_hide_what_matters_more(reader: Reader) -> None:
    kind: Any = Stubborn if reader.name == "for" else AsyncStubborn
    assert texts(reader.iterate(EventStream(kind(TWO, b"data: to")))) == ["a", "b", "data: to"]
    with pytest.raises(ConnectionResetError):
        list(reader.iterate(EventStream(kind(TWO, ConnectionResetError()))))
    opened = EventStream(kind(TWO))
    reader.exit(opened, ValueError("of the block"))
    with pytest.raises(OSError, match="cannot close"):
        reader.close(EventStream(kind(TWO)))


@pytest.mark.parametrize("batches", [False, True])
def test_closing_inside_a_loop_ends_it_with_what_is_complete(reader: Reader, batches: bool) -> None:
    for options in ({}, {"parse": True}):
        source = reader.source(TWO + b"data: c", b"\n\n")
        opened: Any = EventStream(source, **options)  # type: ignore[call-overload]
        taken = 0
        for batch in reader.iterate(opened.batches() if batches else opened):
            taken += len(batch) if batches else 1
            reader.close(opened)
        assert taken == 2
        assert source.closed == 1
        assert (opened.report.events, opened.report.torn) == (2, 0)


def test_close_may_be_called_from_a_sink(reader: Reader) -> None:
    source = SyncSource(b"data: {x\n\n" + TWO, TWO)
    opened: Any = EventStream(
        source, parse=True, on_error="quarantine", quarantine=lambda entry: opened.close()
    )
    assert outcomes(opened) == [("a", None), ("b", None)]
    assert source.closed == 1


def test_closes_asynchronous_sources_that_close_without_waiting() -> None:
    class Response(AsyncSource):
        aclose = None  # type: ignore[assignment]

        def close(self) -> None:
            self.log.append("closed")

    async def main() -> int:
        source = Response(TWO)
        async with EventStream(source) as opened:
            async for _ in opened:
                break
        return source.closed

    assert asyncio.run(main()) == 1


def test_cancellation_reaches_the_source_and_closes_it() -> None:
    log: list[str] = []

    async def main() -> None:
        waiting = asyncio.Event()

        async def source() -> AsyncIterator[bytes]:
            try:
                yield TWO + b"data: ha"
                waiting.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                log.append("cancelled")
                raise
            finally:
                await asyncio.sleep(0)
                log.append("closed")

        opened = EventStream(source())
        taken = []

        async def consume() -> None:
            async with opened:
                async for event in opened:
                    taken.append(event.data)  # noqa: PERF401 - what came before

        task = asyncio.create_task(consume())
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert taken == ["a", "b"]
        assert opened.report.events == 2

    asyncio.run(main())
    assert log == ["cancelled", "closed"]


# --- limits ---------------------------------------------------------------------------------


@pytest.mark.parametrize("framing", ["sse", "ndjson"])
def test_limit_error_comes_at_once_after_the_items_before_it(reader: Reader, framing: Any) -> None:
    item = b"data: 1\n\n" if framing == "sse" else b"[1]\n"
    source = reader.source(item + item + item[:3] + b"1" * 50, b"never")
    opened = EventStream(source, framing=framing, limits=Limits(max_event_bytes=20))
    items = reader.iterate(opened)
    next(items)
    next(items)
    with pytest.raises(LimitExceededError) as caught:
        next(items)
    assert caught.value.offset == 2 * len(item) + 20
    assert source.closed == 1
    assert b"never" not in source.log
    for _ in range(2):
        assert list(reader.iterate(opened)) == []
        assert not opened.report.done_seen


def test_limit_error_may_come_at_the_end(reader: Reader) -> None:
    source = reader.source(b"\xef\xbb")  # could become a byte order mark
    with pytest.raises(LimitExceededError):
        list(reader.iterate(EventStream(source, limits=Limits(max_event_bytes=1))))
    assert source.closed == 1


def test_oversized_items_can_be_left_out(reader: Reader) -> None:
    limits = Limits(max_event_bytes=10)
    stream = b"data: a\n\ndata: " + b"b" * 50 + b"\n\ndata: c\n\n"
    for chunks in fragmentations(stream):
        opened = reader.open(*chunks, limits=limits, on_limit="skip")
        assert texts(reader.iterate(opened)) == ["a", "c"]
        assert opened.report.skipped == 1


# --- the report -----------------------------------------------------------------------------


def test_report_has_the_times_in_their_order(reader: Reader) -> None:
    before = time.perf_counter_ns()
    opened = reader.open(b"", b": c\n", TWO, b": c\n", b"")
    report = opened.report
    assert report.first_byte_ns is report.first_event_ns is report.last_byte_ns is None
    items = reader.iterate(opened)
    next(items)
    first = opened.report
    assert next(items).data == "b"
    assert opened.report.last_byte_ns == first.last_byte_ns
    assert list(items) == []
    last = opened.report
    times = [
        before,
        report.opened_ns,
        first.first_byte_ns,
        first.last_byte_ns,
        first.first_event_ns,
        last.last_byte_ns,
        time.perf_counter_ns(),
    ]
    assert times == sorted(times)  # type: ignore[type-var]
    assert first.last_byte_ns < last.last_byte_ns  # type: ignore[operator]
    assert (first.opened_ns, first.first_byte_ns, first.first_event_ns) == (
        (last.opened_ns, last.first_byte_ns, last.first_event_ns)
    )


def test_first_event_may_be_what_the_end_settles_but_not_the_torn_one(reader: Reader) -> None:
    opened = reader.open(b'{"a": 1}', framing="ndjson")
    assert len(list(reader.iterate(opened))) == 1
    assert opened.report.first_event_ns >= opened.report.last_byte_ns  # type: ignore[operator]
    opened = reader.open(b"data: to")
    assert len(list(reader.iterate(opened))) == 1
    assert opened.report.first_event_ns is None


def test_report_holds_the_decoder_s_counts(reader: Reader) -> None:
    opened = reader.open(b": c\nfoo\nretry: x\ndata: \xff\n\nevent: e\n\ndata: to")
    list(reader.iterate(opened))
    report = opened.report
    assert type(report) is Report
    assert (report.events, report.comments, report.ignored_lines) == (1, 1, 1)
    assert (report.invalid_fields, report.empty_blocks, report.replaced) == (1, 1, 1)
    assert (report.skipped, report.torn, report.frames, report.errors) == (0, 1, 0, None)


def test_report_is_a_snapshot(reader: Reader) -> None:
    opened = reader.open(TWO)
    report = opened.report
    list(reader.iterate(opened))
    assert report.events == 0
    with pytest.raises(FrozenInstanceError):
        report.events = 5  # type: ignore[misc]


def test_repr_names_the_source_and_the_state(reader: Reader) -> None:
    opened = reader.open(TWO)
    name = type(reader.source()).__name__
    assert repr(opened) == f"<EventStream of {name}, open>"
    list(reader.iterate(opened))
    assert repr(opened) == f"<EventStream of {name}, ended>"
    reader.close(opened)
    assert repr(opened) == f"<EventStream of {name}, closed>"


# --- sources --------------------------------------------------------------------------------


def test_files_are_sources(tmp_path: Path) -> None:
    path = tmp_path / "recorded"
    path.write_bytes(TWO + b"data: " + b"x" * 100_000 + b"\n\n")
    packed = tmp_path / "recorded.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    opens: list[Callable[[], Any]] = [
        lambda: path.open("rb"),
        lambda: path.open("rb", buffering=0),
        lambda: gzip.open(packed),  # noqa: SIM115 - the stream closes it
        lambda: io.BytesIO(path.read_bytes()),
    ]
    for open_file in opens:
        file = open_file()
        with EventStream(file) as opened:
            assert [len(text) for text in texts(opened)] == [1, 1, 100_000]
        assert file.closed
    with path.open("r") as file, pytest.raises(TypeError, match="open it as binary"):
        EventStream(file)  # type: ignore[arg-type]


def test_file_of_a_socket_does_not_wait_for_a_full_buffer() -> None:
    here, there = socket.socketpair()
    with here, there, here.makefile("rb") as file:
        there.sendall(TWO + b"data: c")
        items = iter(EventStream(file))
        assert texts([next(items), next(items)]) == ["a", "b"]  # it would hang here
        there.sendall(b"\n\n")
        assert next(items).data == "c"
        there.shutdown(socket.SHUT_WR)
        assert list(items) == []


def test_stream_reader_of_asyncio_is_read_as_it_comes_and_not_by_lines() -> None:
    async def main() -> list[int]:
        source = asyncio.StreamReader(limit=100)
        source.feed_data(b"data: " + b"x" * 1000 + b"\n\ndata: ")
        opened = EventStream(source)
        items = opened.__aiter__()
        lengths = [len((await items.__anext__()).data)]
        source.feed_data(b"12345\n\n")
        source.feed_eof()
        return lengths + [len(event.data) async for event in opened]

    assert asyncio.run(main()) == [1000, 5]


def test_generators_are_sources() -> None:
    async def main() -> list[str]:
        async def source() -> AsyncIterator[bytes]:
            for chunk in (TWO, DONE):
                await asyncio.sleep(0)
                yield chunk

        async with EventStream(source()) as opened:
            return [event.data async for event in opened]

    assert asyncio.run(main()) == ["a", "b"]
    assert texts(EventStream(chunk for chunk in (TWO, DONE))) == ["a", "b"]


def test_only_what_is_there_decides_what_a_source_is(reader: Reader) -> None:
    """The shapes of the responses of httpx, requests, urllib3 and aiohttp, and nothing of them."""

    class Bytes:
        def iter_bytes(self) -> Iterator[bytes]:
            yield TWO

        async def aiter_bytes(self) -> AsyncIterator[bytes]:
            yield TWO

    class Wrapped:
        """As the raw responses of the asynchronous SDKs."""

        async def iter_bytes(self, chunk_size: int | None = None) -> AsyncIterator[bytes]:
            yield TWO

    class Content:
        def iter_any(self) -> Any:
            return AsyncSource(TWO)

    class Response:
        content = Content()

        def release(self) -> None:
            log.append("released")

    log: list[str] = []
    sources: list[Any] = [Bytes()]
    if reader.name == "async for":
        sources += [Wrapped(), Response()]
        with pytest.raises(TypeError, match="async for"):
            iter(EventStream(Wrapped()))
    for source in sources:
        assert texts(reader.iterate(EventStream(source))) == ["a", "b"]
    assert log == ["released"] * (reader.name == "async for")


def test_content_is_never_asked_for_where_asking_could_read_it() -> None:
    class Response:
        def release(self) -> None: ...

        def iter_bytes(self) -> Iterator[bytes]:
            yield TWO

        @property
        def content(self) -> bytes:
            raise AssertionError

    assert texts(EventStream(Response())) == ["a", "b"]


def test_stream_closed_by_another_task_ends_and_its_source_is_closed() -> None:
    class Response(AsyncSource):
        """Waits until it is closed."""

        def __init__(self) -> None:
            super().__init__(TWO)
            self.is_closed = asyncio.Event()

        async def __anext__(self) -> Any:
            try:
                return await super().__anext__()
            except StopAsyncIteration:
                await self.is_closed.wait()
                raise

        async def aclose(self) -> None:
            self.is_closed.set()
            await super().aclose()

    async def generator(log: list[str], go_on: asyncio.Event) -> AsyncIterator[bytes]:
        try:
            yield TWO
            await go_on.wait()
            yield TWO
        finally:
            log.append("closed")

    async def main() -> None:
        go_on, log = asyncio.Event(), list[str]()
        response = Response()
        for source in (response, generator(log, go_on)):
            opened: EventStream[Event] = EventStream(source)
            taken: list[str] = []

            async def consume(opened: EventStream[Event] = opened, taken: Any = taken) -> None:
                async for event in opened:
                    taken.append(event.data)

            task = asyncio.create_task(consume())
            while len(taken) < 2:
                await asyncio.sleep(0)
            await opened.aclose()
            go_on.set()
            await task
            assert taken[:2] == ["a", "b"]
            assert opened.report.torn == 0
        assert response.closed == 1
        assert log == ["closed"]

    asyncio.run(main())


# --- content types --------------------------------------------------------------------------


class WithHeaders(SyncSource):
    def __init__(self, content_type: str | None, *chunks: Any) -> None:
        super().__init__(*chunks)
        self.headers = {} if content_type is None else {"Content-Type": content_type}


PASS = {
    "sse": [
        *("text/event-stream", "TEXT/Event-Stream ; charset=latin-1", "a/b, text/event-stream"),
        *('text/event-stream; a="b, c', 'text/event-stream; a="\\'),
    ],
    "ndjson": ["application/x-ndjson", "application/jsonl", "application/jsonlines"],
    "concatenated": ["application/x-ndjson", "application/stream+json", "application/octet-stream"],
    "array": ["application/json; charset=UTF-8", "application/vnd.api+json", "text/plain"],
    "json-seq": ["application/json-seq", "application/geo+json-seq", "application/json"],
}
FAIL = {
    "sse": ["text/html", "application/json", "text/plain", "text/event-streams", "nonsense", ","],
    "ndjson": ["text/html", "text/event-stream", "application/json-seq", "image/png"],
    "concatenated": ["text/event-stream", "application/json-seq", "application/xml"],
    "array": ["application/x-ndjson", "application/jsonl", "text/html"],
    "json-seq": ["application/x-ndjson", "text/html", 'text/html; a="b, application/json"'],
}


@pytest.mark.parametrize("framing", PASS)
def test_types_of_the_framing_pass_and_others_do_not(framing: Any) -> None:
    for content_type in [None, "", *PASS[framing]]:
        assert list(EventStream(WithHeaders(content_type), framing=framing)) == []
    for content_type in FAIL[framing]:
        source = WithHeaders(content_type, TWO)
        opened: Any = EventStream(source, framing=framing)
        with pytest.raises(ContentTypeError) as caught:
            list(opened)
        assert source.log == ["closed"]
        assert caught.value.content_type == content_type
        assert opened.report.bytes == 0
        assert list(opened) == []


@pytest.mark.parametrize(
    ("content_type", "passes"),
    [
        ("*/*", ["text/html", "a/b"]),
        ("text/*", ["text/html", "Text/Plain; x=y"]),
        ("Text/Plain", ["text/plain"]),
        (["text/plain", "image/*"], ["text/plain", "image/png"]),
    ],
)
def test_media_ranges_take_the_place_of_the_types_of_the_framing(
    content_type: Any, passes: list[str]
) -> None:
    for sent in [*passes, None]:
        assert texts(EventStream(WithHeaders(sent, TWO), content_type=content_type)) == ["a", "b"]
    if content_type != "*/*":
        with pytest.raises(ContentTypeError, match="expected"):
            list(EventStream(WithHeaders("application/json", TWO), content_type=content_type))


def test_content_type_is_checked_before_the_block_is_entered(reader: Reader) -> None:
    source = reader.source(b"", b"<html>" * 9, b"never")
    source.headers = {"content-type": "text/html"}
    with pytest.raises(ContentTypeError) as caught:
        reader.enter(EventStream(source))
    assert source.log == ["closed"]
    assert caught.value.excerpt == b""
    source = reader.source(b"<html>" * 9, b"never")
    source.headers = {"content-type": "text/html" * 99}
    with pytest.raises(ContentTypeError) as caught:
        reader.enter(EventStream(source, excerpt_bytes=8))
    assert source.log == [b"<html>" * 9, "closed"]
    assert caught.value.excerpt == b"<html><h"
    assert len(str(caught.value)) < 200


# --- time -----------------------------------------------------------------------------------


async def stalling(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
    await asyncio.Event().wait()


@pytest.mark.parametrize("what", ["items", "batches", "parsed"])
def test_idle_source_is_an_error_after_all_that_was_complete(what: str) -> None:
    async def main() -> None:
        source = AsyncSource()
        source.__class__ = type("Stalling", (AsyncSource,), {"__aiter__": lambda _: stalling(TWO)})
        options: Any = {"parse": True} if what == "parsed" else {}
        opened: Any = EventStream(source, idle_timeout=0.05, **options)
        found = 0

        async def consume() -> None:
            nonlocal found
            async for item in opened.batches() if what == "batches" else opened:
                found += len(item) if what == "batches" else 1

        with pytest.raises(IdleTimeoutError, match=r"no bytes for 0\.05 seconds"):
            await consume()
        assert found == 2
        assert source.closed == 1
        assert opened.report.events == 2
        task = asyncio.current_task()
        assert task is not None
        assert sys.version_info < (3, 11) or task.cancelling() == 0
        await asyncio.sleep(0)  # and nothing is left that would cancel it

    asyncio.run(main())


def test_slow_consumer_is_no_idle_source() -> None:
    async def main() -> list[str]:
        found = []
        async for event in EventStream(AsyncSource(*[TWO] * 5), idle_timeout=0.02):
            found.append(event.data)
            await asyncio.sleep(0.015)
        return found

    assert asyncio.run(main()) == ["a", "b"] * 5


def test_only_items_reset_the_time_where_that_is_asked_for() -> None:
    async def main(resets_on: Any) -> list[str]:
        async def source() -> AsyncIterator[bytes]:
            for number in range(30):
                yield b": heartbeat\n" if number % 15 else b"data: a\n\n"
                await asyncio.sleep(0.02)

        found = []
        try:
            async for event in EventStream(source(), idle_timeout=0.2, idle_resets_on=resets_on):
                found.append(event.data)  # noqa: PERF401 - what came before
        except IdleTimeoutError as error:
            found.append(error.awaited)
        return found

    assert asyncio.run(main("bytes")) == ["a", "a"]
    assert asyncio.run(main("items")) == ["a", "items"]


def test_cancellation_is_not_taken_for_a_time_out() -> None:
    async def main() -> None:
        task = asyncio.create_task(anext(aiter(EventStream(stalling(), idle_timeout=60))))  # type: ignore[arg-type, var-annotated]
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_source_that_answers_the_time_out_with_bytes_is_heard() -> None:
    async def main() -> list[str]:
        async def source() -> AsyncIterator[bytes]:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                yield TWO

        found = [event.data async for event in EventStream(source(), idle_timeout=0.02)]
        task = asyncio.current_task()
        assert task is not None
        assert sys.version_info < (3, 11) or task.cancelling() == 0
        return found

    assert asyncio.run(main()) == ["a", "b"]


def test_socket_keeps_the_time_and_gets_its_own_back() -> None:
    here, there = socket.socketpair()
    with here, there:
        here.settimeout(30)
        there.sendall(TWO)
        opened = EventStream(here.makefile("rb"), idle_timeout=0.05)
        items = iter(opened)
        assert texts([next(items), next(items)]) == ["a", "b"]
        with pytest.raises(IdleTimeoutError) as caught:
            next(items)
        assert isinstance(caught.value.__cause__, TimeoutError)
        assert here.gettimeout() == 30


def test_socket_that_somebody_else_uses_by_now_keeps_their_time() -> None:
    here, there = socket.socketpair()
    with here, there:
        here.settimeout(30)
        there.sendall(TWO)
        opened = EventStream(here.makefile("rb"), idle_timeout=0.1 + 0.2)  # not a whole nanosecond
        items = iter(opened)
        assert texts([next(items), next(items)]) == ["a", "b"]
        here.settimeout(7)
        opened.close()
        assert here.gettimeout() == 7


def test_time_limit_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    (tmp_path / "recorded").write_bytes(TWO)
    for source in ([TWO], (tmp_path / "recorded").open("rb")):
        with (
            pytest.raises(ValueError, match="idle_timeout"),
            EventStream(source, idle_timeout=1) as opened,
        ):
            list(opened)
    with pytest.raises(RuntimeError, match="event loop"):
        list(without_waiting(EventStream(stalling(TWO), idle_timeout=1).__aiter__()))


@pytest.mark.parametrize("parse", [False, True])
@pytest.mark.parametrize("chunks", ["small", "huge"])
def test_source_that_never_waits_leaves_others_their_turns(chunks: str, parse: bool) -> None:
    stream = b'data: {"a": 1}\n\n' * 20_000
    cut = [stream] if chunks == "huge" else at_cuts(stream, list(range(0, len(stream), 320)))

    async def main() -> tuple[int, float]:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(others())
        started = time.thread_time()
        number = 0
        async for item in EventStream(AsyncSource(*cut), parse=parse):  # type: ignore[call-overload]
            number += 1
            while time.thread_time() < started + number * 10e-6:
                assert item is not None  # what a consumer does
        taken = time.thread_time() - started
        assert number == 20_000
        task.cancel()
        return turns, taken

    turns, taken = asyncio.run(main())
    assert taken >= 0.2
    assert turns >= taken / 0.04


def test_huge_chunk_gives_the_same_items_in_an_event_loop(implementation: Implementation) -> None:
    stream = "".join(f"id: {n}\ndata: {'é' * (n % 700)}\r\n\r\n" for n in range(500)).encode()
    expected = implementation.SSEDecoder().feed(stream)

    async def main(**options: Any) -> list[Any]:
        return [item async for item in EventStream(AsyncSource(stream, DONE), **options)]

    assert tuple(asyncio.run(main())) == expected
    assert tuple(item.event for item in asyncio.run(main(parse=True))) == expected

    async def batches() -> list[int]:
        return [len(batch) async for batch in EventStream(AsyncSource(stream)).batches()]

    assert asyncio.run(batches()) == [500]


# --- arguments ------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [b"x", bytearray(b"x"), memoryview(b"x"), "x"])
def test_single_chunk_is_no_source(source: Any) -> None:
    with pytest.raises(TypeError, match="wrap it in a list"):
        EventStream(source)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"framing": "xml"}, ValueError),
        ({"framing": 5}, TypeError),
        ({"on_error": "ignore"}, ValueError),
        ({"on_error": None}, TypeError),
        ({"on_error": "raise"}, ValueError),
        ({"on_error": "skip"}, ValueError),
        ({"on_error": "quarantine", "quarantine": print}, ValueError),
        ({"on_error": "quarantine", "parse": True}, ValueError),
        ({"quarantine": print, "parse": True}, ValueError),
        ({"on_error": "quarantine", "parse": True, "quarantine": 5}, TypeError),
        ({"on_error": "quarantine", "parse": True, "quarantine": b"path"}, TypeError),
        ({"parse": 1}, TypeError),
        ({"done": 5}, TypeError),
        ({"limits": 5}, TypeError),
        ({"on_limit": "drop"}, ValueError),
        ({"on_torn": "drop"}, ValueError),
        ({"loads": 5}, TypeError),
        ({"last_event_id": None}, TypeError),
        ({"labels": [("a", "b")]}, TypeError),
        ({"labels": {"a": 1}}, TypeError),
        ({"content_type": 5}, TypeError),
        ({"content_type": [5]}, TypeError),
        ({"content_type": []}, ValueError),
        ({"content_type": "text"}, ValueError),
        ({"content_type": "text/html; charset=utf-8"}, ValueError),
        ({"content_type": ["text/plain", "*"]}, ValueError),
        ({"excerpt_bytes": -1}, ValueError),
        ({"excerpt_bytes": 1.0}, TypeError),
        ({"excerpt_bytes": True}, TypeError),
        ({"idle_timeout": 0}, ValueError),
        ({"idle_timeout": -1.0}, ValueError),
        ({"idle_timeout": float("nan")}, ValueError),
        ({"idle_timeout": float("inf")}, ValueError),
        ({"idle_timeout": 1e10}, ValueError),
        ({"idle_timeout": "1"}, TypeError),
        ({"idle_timeout": True}, TypeError),
        ({"idle_resets_on": "comments"}, ValueError),
        ({"idle_resets_on": None}, TypeError),
        ({"framing": "ndjson", "on_torn": "flush"}, ValueError),
        ({"framing": "ndjson", "last_event_id": "1"}, ValueError),
        ({"framing": "ndjson", "model": {}}, ValueError),
        ({"unknown": 1}, TypeError),
    ],
)
def test_wrong_arguments_are_refused_at_once(options: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        EventStream([], **options)


@pytest.mark.parametrize("source", [None, 5, object(), int])
def test_what_gives_no_chunks_is_no_source(source: Any) -> None:
    with pytest.raises(TypeError, match="iterable"):
        EventStream(source)


def test_coroutine_functions_are_no_sinks() -> None:
    async def sink(entry: Any) -> None: ...

    class Sink:
        async def __call__(self, entry: Any) -> None: ...

    for quarantine in (sink, Sink()):
        with pytest.raises(TypeError, match="awaited"):
            EventStream([], parse=True, on_error="quarantine", quarantine=quarantine)


# --- Parsed ---------------------------------------------------------------------------------


def test_parsed_is_a_tuple_with_names() -> None:
    event = Event(data="1")
    parsed = Parsed(event, 1, None)
    assert parsed == (event, 1, None)
    assert (parsed.event, parsed.value, parsed.error) == tuple(parsed)
    assert repr(parsed) == f"Parsed(event={event!r}, value=1, error=None)"
    assert pickle.loads(pickle.dumps(parsed)) == parsed
    assert Parsed[int].__origin__ is Parsed  # type: ignore[attr-defined]
    match parsed:
        case Parsed(_, value, None):
            assert value == 1
        case _:
            pytest.fail("no match")
    with pytest.raises(TypeError):
        type("Sub", (Parsed,), {})
    with pytest.raises(AttributeError):
        parsed.value = 2  # type: ignore[misc]


# --- properties -----------------------------------------------------------------------------

BLOCKS = st.lists(
    st.sampled_from(
        [
            *(b"data: {}\n\n", b"data: {x\n\n", b"data: t\n\n", b"data: [1]\r\r", DONE),
            *(b": c\n\n", b"data: 12345678901234567890\n\n", b"d"),
        ]
    ),
    max_size=8,
)


def taken(items: Iterator[Any]) -> list[Any]:
    """What comes out, the exception included."""
    seen: list[Any] = []
    try:
        for item in items:
            event, *rest = item if isinstance(item, tuple) else (item,)
            seen.append((event, event.offset, *map(repr, rest)))
    except LimitExceededError as error:
        seen.append(repr(error))
    return seen


def without_waiting(iterator: Any) -> Iterator[Any]:
    """Take from an asynchronous iterator that never has to wait, without an event loop."""
    end = object()

    async def step() -> Any:
        return await anext(iterator, end)

    while True:
        try:
            step().send(None)
        except StopIteration as stepped:  # noqa: PERF203
            if stepped.value is end:
                return
            yield stepped.value


@given(
    blocks=BLOCKS,
    cuts=st.lists(st.integers(0, 120), max_size=8),
    parse=st.booleans(),
    limit=st.sampled_from([12, 1000]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_for_and_async_for_and_batches_agree_for_every_cut(
    blocks: list[bytes],
    cuts: list[int],
    parse: bool,
    limit: int,
    implementation: Implementation,
) -> None:
    stream = b"".join(blocks)
    chunks = at_cuts(stream, [min(cut, len(stream)) for cut in cuts])
    limits = Limits(max_event_bytes=limit)

    async def source() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    def opened(source: Any) -> Any:
        return EventStream(source, parse=parse, limits=limits)

    decoder = implementation.SSEDecoder(limits=limits)
    events = taken(decoder.iter([stream], done=b"[DONE]"))
    whole = opened([stream])
    expected = taken(iter(whole))
    assert [item if isinstance(item, str) else item[:2] for item in expected] == events
    for items in (
        iter(opened(chunks)),
        without_waiting(opened(source()).__aiter__()),
        chain.from_iterable(opened(chunks).batches()),
        chain.from_iterable(without_waiting(opened(source()).batches().__aiter__())),
    ):
        assert taken(items) == expected
