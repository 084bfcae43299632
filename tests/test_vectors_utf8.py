"""Every UTF-8 vector, under every way of cutting it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conftest import TESTS, Implementation
from fragmentations import fragmentations

VECTORS = json.loads((TESTS / "vectors" / "utf8.json").read_text("utf-8"))["vectors"]


def test_vectors_are_all_there() -> None:
    assert len(VECTORS) == 134
    assert len({vector["name"] for vector in VECTORS}) == 134


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vector_holds_for_every_fragmentation(
    implementation: Implementation, vector: dict[str, Any]
) -> None:
    stream = bytes.fromhex(vector["input"])
    put_in = vector["text"].count("\N{REPLACEMENT CHARACTER}") - stream.count(
        "\N{REPLACEMENT CHARACTER}".encode()
    )
    for chunks in fragmentations(stream):
        kept = implementation.UTF8Decoder()
        dropped = implementation.UTF8Decoder(skip_bom=True)
        assert "".join(map(kept.decode, chunks)) + kept.decode(b"", final=True) == vector["text"], (
            chunks
        )
        assert (
            "".join(map(dropped.decode, chunks)) + dropped.decode(b"", final=True)
            == vector["text_without_bom"]
        ), chunks
        assert kept.replaced == dropped.replaced == put_in, chunks


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vector_holds_inside_an_event(
    implementation: Implementation, vector: dict[str, Any]
) -> None:
    """The same bytes as the value of a data line, where no BOM is dropped and CR and LF end it."""
    value = bytes.fromhex(vector["input"])
    expected = vector["text"]
    if b"\r" in value or b"\n" in value:
        value = value.replace(b"\r", b"").replace(b"\n", b"")
        expected = value.decode("utf-8", "replace")
    for chunks in fragmentations(b"data: " + value + b"\n\n"):
        decoder = implementation.SSEDecoder()
        (event,) = [event for chunk in chunks for event in decoder.feed(chunk)]
        assert event.data == expected, chunks
        assert event.raw == value
