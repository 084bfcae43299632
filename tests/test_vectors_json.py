"""Every JSON framing vector, under every way of cutting it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import orjson
import pytest

from conftest import TESTS, Implementation
from fragmentations import byte_by_byte, fragmentations
from frame_observations import KINDS, observe, stats_of

VECTORS = json.loads((TESTS / "vectors" / "json_stream.json").read_text("utf-8"))["vectors"]


def test_vectors_are_all_there() -> None:
    assert len(VECTORS) == len({vector["name"] for vector in VECTORS}) == 207
    assert Counter(vector["mode"] for vector in VECTORS) == {
        "concatenated": 98,
        "ndjson": 30,
        "array": 46,
        "json-seq": 33,
    }


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vector_holds_for_every_fragmentation(
    implementation: Implementation, vector: dict[str, Any]
) -> None:
    stream = bytes.fromhex(vector["input"])
    kinds = Counter(item["error"] for item in vector["items"] if "error" in item)
    for chunks in fragmentations(stream):
        decoder = implementation.JSONStreamDecoder(framing=vector["mode"])
        outcome = observe(decoder, chunks)
        assert outcome.error is None
        assert [
            {"error": frame.kind, "raw": frame.raw.hex()}
            if frame.kind
            else {"ok": orjson.loads(frame.raw)}
            for frame in outcome.frames
            if not frame.torn
        ] == vector["items"], chunks
        rest = b"".join(frame.raw for frame in outcome.frames if frame.torn)
        assert rest.hex() == vector["rest"], chunks
        assert not any(frame.torn for frame in outcome.frames[:-1])
        assert decoder.array_closed == vector.get("closed"), chunks
        counted = stats_of(decoder)
        assert counted.get("bytes", 0) == len(stream)
        assert counted.get("frames", 0) == len(vector["items"]) - kinds.total()
        assert {kind: counted.get(kind, 0) for kind in KINDS if kind in counted} == kinds
        assert counted.get("torn", 0) == bool(vector["rest"])


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vector_frames_are_bytes_of_the_stream_and_come_in_its_order(
    implementation: Implementation, vector: dict[str, Any]
) -> None:
    stream = bytes.fromhex(vector["input"])
    decoder = implementation.JSONStreamDecoder(framing=vector["mode"])
    end = 0
    for frame in observe(decoder, byte_by_byte(stream)).frames:
        assert frame.offset >= end
        assert stream[frame.offset : frame.offset + len(frame.raw)] == frame.raw
        # A comma may be needless in two ways.
        end = frame.offset + (0 if frame.kind == "separator" else len(frame.raw))
    assert end <= len(stream)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vector_frames_come_out_with_the_byte_that_settles_them(
    implementation: Implementation, vector: dict[str, Any]
) -> None:
    stream = bytes.fromhex(vector["input"])
    decoder = implementation.JSONStreamDecoder(framing=vector["mode"])
    ready = []
    for position, byte in enumerate(byte_by_byte(stream), 1):
        ready += [position] * len(decoder.feed(byte))
    settled_at_the_end = len(vector["items"]) - len(ready)
    assert ready + [None] * settled_at_the_end == vector["ready"]
    for cut in range(len(stream) + 1):
        fresh = implementation.JSONStreamDecoder(framing=vector["mode"])
        assert len(fresh.feed(stream[:cut])) == sum(byte <= cut for byte in ready)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vector_values_parse_and_errors_do_not(
    implementation: Implementation, vector: dict[str, Any]
) -> None:
    decoder = implementation.JSONStreamDecoder(framing=vector["mode"])
    frames = [*decoder.feed(bytes.fromhex(vector["input"])), *decoder.close()]
    values = [frame for frame in frames if frame.parse_error is None]
    assert [frame.json() for frame in values] == [
        item["ok"] for item in vector["items"] if "ok" in item
    ]
    for frame in frames:
        if frame.parse_error is None:
            assert frame.value == frame.json()
        else:
            assert frame.value == frame.raw.decode("utf-8", "replace")
