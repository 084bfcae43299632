"""Recorded response bodies of real services, at many chunk sizes."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from typing import Any

import pytest

import frame_observations
from conftest import Implementation
from fragmentations import of_size, random_cuts
from observations import observe
from shared_folder import SHARED, load_shared

ENTRIES = [e for e in load_shared("corpus/manifest.json", "entries") if e["format"] == "sse"]
FAMILIES = sorted({entry["family"] for entry in ENTRIES}) or ["absent"]

pytestmark = pytest.mark.needs_shared


def read_expected(entry: dict[str, Any]) -> list[dict[str, Any]]:
    lines = (SHARED / "corpus" / entry["expected"]).read_text("utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


def test_corpus_is_all_there() -> None:
    assert len(ENTRIES) == 405
    assert sum(entry["events"] for entry in ENTRIES) == 15_466


@pytest.mark.parametrize("family", FAMILIES)
def test_recorded_bodies_decode_as_recorded_at_every_chunk_size(
    implementation: Implementation, family: str
) -> None:
    for entry in (entry for entry in ENTRIES if entry["family"] == family):
        body = (SHARED / "corpus" / entry["file"]).read_bytes()
        assert hashlib.sha256(body).hexdigest() == entry["sha256"]
        expected = read_expected(entry)
        fragmentations = [of_size(body, size) for size in (64, 1460, 16384)]
        fragmentations += [[body], random_cuts(body, seed=len(body), mean=40)]
        if len(body) <= 30_000:
            fragmentations += [of_size(body, size) for size in (1, 2, 3, 7)]
        for chunks in fragmentations:
            decoder = implementation.SSEDecoder()
            outcome = observe(decoder, chunks)
            assert outcome.error is None
            complete = [event for event in outcome.events if not event.torn]
            assert [
                {"event": e.event, "data": e.data, "id": e.id, "retry": e.retry} for e in complete
            ] == expected, entry["file"]
            stats = decoder.stats
            assert stats.bytes == entry["bytes"]
            assert stats.events == entry["events"]
            assert stats.replaced == 0
            if "pending_at_eof" in entry:
                assert stats.torn == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_recorded_bodies_give_the_manifest_counts(
    implementation: Implementation, family: str
) -> None:
    for entry in (entry for entry in ENTRIES if entry["family"] == family):
        decoder = implementation.SSEDecoder(on_torn="flush")
        body = (SHARED / "corpus" / entry["file"]).read_bytes()
        events = [*decoder.feed(body), *decoder.close()]
        # The manifest counts a comment that the end of the body cuts; a line must have ended.
        unended_comment = re.split(rb"[\r\n]", body)[-1].startswith(b":")
        assert decoder.stats.comments == entry["comments"] - unended_comment, entry["file"]
        assert decoder.stats.ignored_lines == entry["unknown_lines"], entry["file"]
        assert any(event.is_done for event in events) == entry["done_sentinel"], entry["file"]
        if "pending_at_eof" in entry:
            last = events[-1]
            assert {"event": last.event, "data": last.data} == {
                "event": entry["pending_at_eof"]["event"],
                "data": entry["pending_at_eof"]["data"],
            }


JSON_FRAMINGS = {"ndjson": "ndjson", "json": "array"}
JSON_ENTRIES = [
    entry
    for entry in load_shared("corpus/manifest.json", "entries")
    if entry["format"] in JSON_FRAMINGS
]
JSON_FAMILIES = sorted({entry["family"] for entry in JSON_ENTRIES}) or ["absent"]


def test_corpus_of_json_is_all_there() -> None:
    assert Counter(entry["format"] for entry in JSON_ENTRIES) == {"ndjson": 44, "json": 18}
    assert sum(entry["events"] for entry in JSON_ENTRIES) == 1838 + 67


def fragmentations_of(body: bytes) -> list[list[bytes]]:
    chunked = [of_size(body, size) for size in (64, 1460, 16384)]
    chunked += [[body], random_cuts(body, seed=len(body), mean=40)]
    if len(body) <= 10_000:
        chunked += [of_size(body, size) for size in (1, 2, 3, 7)]
    return chunked


@pytest.mark.parametrize("family", JSON_FAMILIES)
def test_recorded_json_comes_out_as_recorded_at_every_chunk_size(
    implementation: Implementation, family: str
) -> None:
    for entry in (entry for entry in JSON_ENTRIES if entry["family"] == family):
        body = (SHARED / "corpus" / entry["file"]).read_bytes()
        assert hashlib.sha256(body).hexdigest() == entry["sha256"]
        expected = read_expected(entry)
        for chunks in fragmentations_of(body):
            decoder = implementation.JSONStreamDecoder(framing=JSON_FRAMINGS[entry["format"]])
            frames = frame_observations.observe(decoder, chunks).frames
            assert [
                {"sha256": hashlib.sha256(frame.raw).hexdigest(), "bytes": len(frame.raw)}
                for frame in frames
            ] == expected, entry["file"]
            assert frame_observations.stats_of(decoder) == {
                "bytes": entry["bytes"],
                "frames": entry["events"],
            }
            assert decoder.array_closed is (True if entry["format"] == "json" else None)


@pytest.mark.parametrize("family", JSON_FAMILIES)
def test_recorded_json_needs_no_marks_between_its_values(
    implementation: Implementation, family: str
) -> None:
    """The same bodies as one value after another, glued, and as a sequence."""
    for entry in (entry for entry in JSON_ENTRIES if entry["family"] == family):
        body = (SHARED / "corpus" / entry["file"]).read_bytes()
        framing = JSON_FRAMINGS[entry["format"]]
        frames = [*frame_observations.frame_all(implementation, body, framing=framing)]
        texts = [frame.raw for frame in frames]
        for other, stream in (
            ("concatenated", b"".join(texts)),
            ("json-seq", b"".join(b"\x1e" + text + b"\n" for text in texts)),
            ("array", b"[" + b",".join(texts) + b"]"),
        ):
            for chunks in ([stream], of_size(stream, 1460), of_size(stream, 61)):
                decoder = implementation.JSONStreamDecoder(framing=other)
                outcome = frame_observations.observe(decoder, chunks)
                assert [frame.raw for frame in outcome.frames] == texts
                assert decoder.stats.frames == entry["events"]
