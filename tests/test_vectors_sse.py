"""Every event stream vector, under every way of cutting it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conftest import TESTS, Implementation
from fragmentations import byte_by_byte, fragmentations
from observations import observe

VECTORS = json.loads((TESTS / "vectors" / "sse.json").read_text("utf-8"))["vectors"]


def test_vectors_are_all_there() -> None:
    assert len(VECTORS) == 215
    assert len({vector["name"] for vector in VECTORS}) == 215


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vector_holds_for_every_fragmentation(
    implementation: Implementation, vector: dict[str, Any]
) -> None:
    stream = bytes.fromhex(vector["input"])
    for chunks in fragmentations(stream):
        decoder = implementation.SSEDecoder()
        outcome = observe(decoder, chunks)
        events = outcome.events
        torn = bool(events) and events[-1].torn
        complete = events[:-1] if torn else events
        assert outcome.error is None
        assert [
            {"event": e.event, "data": e.data, "id": e.id, "retry": e.retry} for e in complete
        ] == vector["events"], chunks
        assert not any(e.torn for e in complete)
        assert torn == vector["torn"], chunks
        assert decoder.stats.torn == int(vector["torn"])
        assert decoder.stats.events == len(vector["events"])
        assert decoder.stats.bytes == len(stream)
        assert decoder.last_event_id == vector["last_event_id"], chunks
        assert decoder.reconnection_time_ms == vector["reconnection_time"], chunks


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vector_events_come_out_with_the_byte_that_completes_them(
    implementation: Implementation, vector: dict[str, Any]
) -> None:
    stream = bytes.fromhex(vector["input"])
    decoder = implementation.SSEDecoder()
    ready = []
    for position, byte in enumerate(byte_by_byte(stream), 1):
        ready += [position] * len(decoder.feed(byte))
    assert ready == vector["ready"]
    for cut in range(len(stream) + 1):
        fresh = implementation.SSEDecoder()
        assert len(fresh.feed(stream[:cut])) == sum(byte <= cut for byte in vector["ready"])
