"""Time grows with the bytes, however they are cut.

The cost per byte of a stream is compared with that of one four times as long: quadratic work would
make it four times as large, linear work leaves it alone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from conftest import Implementation
from seamstream import Limits, sources

LIMITS = Limits(max_event_bytes=1 << 30)
GROWTH = 4
ALLOWED = 2.0  # times the cost per byte: exponent 1.5
ATTEMPTS, MOST_ATTEMPTS = 5, 50
PATIENCE = 5.0  # seconds of work: a neighbour's noise comes in bursts, longer than a few attempts


# The clock of a thread's own time ticks at 64 Hz on Windows.
clock = time.perf_counter_ns if sys.platform == "win32" else time.thread_time_ns


def seconds(work: Callable[[int], Any], size: int) -> float:
    begin = clock()
    work(size)
    return (clock() - begin) / 1e9


def assert_linear(work: Callable[[int], Any], size: int) -> None:
    """Noise only ever adds time, so one good measurement of each size is enough."""
    small = large = float("inf")
    begin = clock()
    for attempt in range(MOST_ATTEMPTS):
        if attempt >= ATTEMPTS and clock() - begin > PATIENCE * 1e9:
            break
        small = min(small, seconds(work, size))
        large = min(large, seconds(work, size * GROWTH))
        if large <= ALLOWED * GROWTH * small:
            return
    pytest.fail(f"{GROWTH} times the input took {large / small:.1f} times as long")


@pytest.mark.parametrize("repeated", ['\\"', '"\\', "a/b,"])
def test_content_type_is_read_in_linear_time(repeated: str) -> None:
    assert_linear(lambda size: sources.essence_of('a/b; c="' + repeated * size), 2_000)


def feed_all(decoder: Any, first: bytes, chunk: bytes, count: int, last: bytes) -> list[Any]:
    feed = decoder.feed
    events = list(feed(first))
    for _ in range(count):
        events += feed(chunk)
    events += feed(last)
    return events


# The reference takes about 3 µs for a call, the compiled module a hundredth of it.
COUNTS = {"reference": 10_000, "rust": 60_000}

# Where each chunk leaves an event that is held: with more of them the compiled module's time is
# that of memory which is touched for the first time.
HELD = {"reference": 10_000, "rust": 2_000}

# First bytes, a chunk that is repeated, last bytes; what each chunk adds to the payload, and what
# the last bytes add.
SHAPES = {
    "one big line": (b"data: ", b"x" * 32, b"\n\n", b"x" * 32, b""),
    "one big line, byte by byte": (b"data: ", b"x", b"\n\n", b"x", b""),
    "one big line of characters": (b"data: ", b"\xbc\xa2\xe6", b"\n\n", b"\xbc\xa2\xe6", b""),
    "many data lines": (b"data\n", b"data: x\n", b"\n", b"\nx", b""),
    "many data lines that chunks cut": (b"data\nda", b"ta: x\nda", b"ta\n\n", b"\nx", b"\n"),
    "many lines ended by CR": (b"data\r", b"\ndata: x\r", b"\n\r", b"\nx", b""),
    "one big comment": (b"data\n:", b"x" * 32, b"\n\n", b"", b""),
    "many comments in a block": (b"data\n", b": x\n", b"\n", b"", b""),
    "one big field name": (b"data\n", b"x" * 32, b"\n\n", b"", b""),
    "many unknown fields": (b"data\n", b"x: y\n", b"\n", b"", b""),
    "many ids": (b"data\n", b"id: 1\n", b"\n", b"", b""),
    "one big retry": (b"data\nretry: ", b"0" * 32, b"7\n\n", b"", b""),
}


@pytest.mark.parametrize("keep_wire", [False, True], ids=["", "wire"])
@pytest.mark.parametrize("shape", SHAPES)
def test_one_event_costs_time_linear_in_its_bytes(
    implementation: Implementation, shape: str, keep_wire: bool
) -> None:
    first, chunk, last, chunk_payload, last_payload = SHAPES[shape]

    def work(count: int) -> None:
        decoder = implementation.SSEDecoder(limits=LIMITS, keep_wire=keep_wire)
        (event,) = feed_all(decoder, first, chunk, count, last)
        assert event.raw == chunk_payload * count + last_payload

    assert_linear(work, COUNTS[implementation.name])


STREAMS = {
    "many events": (b"", b"data: x\n\n", b""),
    "many comments": (b"", b": x\n\n", b""),
    "many blank lines": (b"", b"\n", b""),
    "many blank lines ended by CRLF": (b"", b"\n\r", b""),
    "one endless comment": (b":", b"x" * 32, b"\n\n"),
    "many skipped blocks": (b"", b"data: " + b"x" * 30 + b"\n\n", b""),
    "one endless skipped block": (b"data: ", b"x" * 30 + b"\n", b"\n"),
}


@pytest.mark.parametrize("shape", STREAMS)
def test_stream_costs_time_linear_in_its_bytes(implementation: Implementation, shape: str) -> None:
    first, chunk, last = STREAMS[shape]

    def work(count: int) -> None:
        decoder = implementation.SSEDecoder(limits=Limits(max_event_bytes=20), on_limit="skip")
        events = feed_all(decoder, first, chunk, count, last)
        assert len(events) == (count if shape == "many events" else 0)
        assert decoder.stats.bytes == len(first) + len(chunk) * count + len(last)

    counts = HELD if shape == "many events" else COUNTS
    assert_linear(work, counts[implementation.name])


@pytest.mark.parametrize("shape", ["one line", "many lines", "many events", "many CR", "comments"])
def test_one_chunk_costs_time_linear_in_its_bytes(
    implementation: Implementation, shape: str
) -> None:
    """A search for CR must not run through the whole chunk for each LF, nor the other way round."""
    unit = {
        "one line": b"x" * 10,
        "many lines": b"\ndata: x",
        "many events": b"\n\ndata: x",
        "many CR": b"\rdata: x",
        "comments": b"\n: xxxxxx",
    }[shape]

    def work(count: int) -> None:
        decoder = implementation.SSEDecoder(limits=LIMITS)
        events = [*decoder.feed(b"data: x" + unit * count), *decoder.feed(b"\n\n")]
        assert len(events) == (count + 1 if shape == "many events" else 1)

    counts = HELD if shape == "many events" else COUNTS
    assert_linear(work, counts[implementation.name])


def test_iterator_costs_time_linear_in_its_bytes(implementation: Implementation) -> None:
    def work(count: int) -> None:
        decoder = implementation.SSEDecoder(limits=LIMITS)
        chunk = b"data: x\n\n" * count
        assert sum(1 for _ in decoder.iter([chunk, b"data: ", *[b"y" * 8] * count])) == count + 1

    assert_linear(work, COUNTS[implementation.name])


def test_utf8_decoder_costs_time_linear_in_its_bytes(implementation: Implementation) -> None:
    for pieces in ([b"\xe6", b"\xbc\xa2"], [b"x" * 32], [b"\xff"]):

        def work(count: int, pieces: list[bytes] = pieces) -> None:
            decode = implementation.UTF8Decoder().decode
            for _ in range(count):
                for piece in pieces:
                    decode(piece)

        assert_linear(work, COUNTS[implementation.name])


# Framing, first bytes, a chunk that is repeated, last bytes; and how many frames come out, for
# each chunk and besides.
JSON_SHAPES = {
    "one big string": ("concatenated", b'{"a":"', b"x" * 32, b'"}', 0, 1),
    "one big string, byte by byte": ("concatenated", b'{"a":"', b"x", b'"}', 0, 1),
    "one big string of escapes": ("concatenated", b'["', b"\\u00e9", b'"]', 0, 1),
    "one big key": ("ndjson", b'{"', b"x" * 32, b'":1}\n', 0, 1),
    "one array of many": ("array", b"[[1", b",1", b"],", 0, 1),
    "one big number": ("json-seq", b"\x1e1", b"7", b"\n", 0, 1),
    "many levels": ("concatenated", b"", b"[{", b"", 0, 1),
    "white space in a value": ("concatenated", b"[1", b" " * 32, b"]", 0, 1),
    "white space after a scalar": ("concatenated", b"1", b" " * 32, b"[]", 0, 2),
    "many values": ("concatenated", b"", b"{}[] 1", b"", 3, 0),
    "many marks": ("concatenated", b"", b",]", b"", 0, 1),
    "many objects in garbage": ("concatenated", b"x", b'{"a":1},', b"", 0, 1),
    "many objects that fail": ("concatenated", b"x", b'{"a"x', b"", 0, 1),
    "many braces that end a string": ("concatenated", b'["a', b'{"b', b'":1}', 0, 2),
    "spaces after a brace that ends a string": (
        *("concatenated", b'["a{', b" " * 32, b'"a":1}', 0, 2),
    ),
    "many lines": ("ndjson", b"", b"1\n", b"", 1, 0),
    "many bad lines": ("ndjson", b"", b"x\n", b"", 1, 0),
    "one big bad line": ("ndjson", b"x", b"y" * 32, b"\n", 0, 1),
    "many elements": ("array", b"[", b"[],1,", b"", 2, 0),
    "many bad elements": ("array", b"[", b"x,{y},", b"]", 2, 1),
    "one bad element": ("array", b"[x", b'["y",z]', b",", 0, 1),
    "many needless commas": ("array", b"[", b",", b"]", 1, 1),
    "many missing commas": ("array", b"[", b"[]", b"]", 2, -1),
    "many lines back at one byte": ("array", b"[", b"[1\n,", b"}", 0, 10),
    "many lines back among objects": ("array", b'[{"a":1', b'\n,"b":[1\n,{"a":1', b"]", 0, 18),
    "many lines back to elements": ("array", b"[[1", b"\n,2", b"}\n,", 1, 1),
    "many records": ("json-seq", b"", b"\x1e1\n", b"", 1, 0),
    "many cut records": ("json-seq", b"", b"\x1e[1", b"\x1e", 1, 0),
    "one record of garbage": ("json-seq", b"x", b"y" * 32, b"\x1e", 0, 1),
}


@pytest.mark.parametrize("shape", JSON_SHAPES)
@pytest.mark.parametrize("cut", ["chunks", "chunks, skipped", "one chunk", "one by one"])
def test_json_costs_time_linear_in_its_bytes(
    implementation: Implementation, shape: str, cut: str
) -> None:
    framing, first, chunk, last, frames_of_chunk, frames_besides = JSON_SHAPES[shape]
    limits = Limits(max_event_bytes=20) if cut == "chunks, skipped" else LIMITS
    size = COUNTS[implementation.name] // (4 if implementation.name == "reference" else 1)
    streams = {count: first + chunk * count + last for count in (size, size * GROWTH)}

    def work(count: int) -> None:
        decoder = implementation.JSONStreamDecoder(framing=framing, limits=limits, on_limit="skip")
        if cut == "one chunk":
            frames = [*decoder.feed(streams[count]), *decoder.close()]
        elif cut == "one by one":
            frames = list(decoder.iter([streams[count]]))
        else:
            frames = [*feed_all(decoder, first, chunk, count, last), *decoder.close()]
        if limits is LIMITS:
            assert len(frames) == frames_of_chunk * count + frames_besides
        assert decoder.stats.bytes == len(streams[count])

    assert_linear(work, size)
