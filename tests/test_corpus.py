"""Recorded response bodies of real services, at many chunk sizes."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import pytest

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
