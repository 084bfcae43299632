"""The reference compiled by Cython, a row of the benchmarks, gives what the reference gives."""

from __future__ import annotations

import importlib
import json
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import frame_observations
import observations
from conftest import TESTS, Implementation
from fragmentations import byte_by_byte, of_size, random_cuts, with_empty_chunks
from json_strategies import cut_json_streams, json_options
from pullers import Puller
from seamstream import Limits, UTF8DecodeError
from stream_strategies import cut_streams, model_options

ROOT = TESTS.parent
REFERENCE = ROOT / "src" / "seamstream" / "_reference"
BUILT = ROOT / "build" / "cyref"


def vectors(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((TESTS / "vectors" / name).read_text("utf-8"))[
        "vectors"
    ]
    assert len(found) > 100
    return found


def cuts(stream: bytes) -> list[list[bytes]]:
    singly = byte_by_byte(stream)
    random = [random_cuts(stream, seed, mean=6) for seed in range(8)]
    return [[stream], singly, with_empty_chunks(singly), of_size(stream, 3), *random]


@pytest.fixture(scope="session")
def cython() -> Implementation:
    suffix = EXTENSION_SUFFIXES[0]  # of this Python: each has its own
    modules = list(BUILT.glob(f"seamstream_cyref/*{suffix}"))
    if len(modules) != 5:
        pytest.fail(f"there is no Cython build in {BUILT}: `make cyref` makes it", pytrace=False)
    oldest = min(path.stat().st_mtime for path in modules)
    sources = [ROOT / "setup.py", *REFERENCE.glob("*.p[yx]*")]
    if any(path.stat().st_mtime > oldest for path in sources):
        pytest.fail("the Cython build is older than its sources: `make cyref`", pytrace=False)
    sys.path.insert(0, str(BUILT))
    try:
        module = importlib.import_module("seamstream_cyref")
    finally:
        sys.path.remove(str(BUILT))
    decoders = module.JSONStreamDecoder, module.SSEDecoder, module.UTF8Decoder
    return Implementation("cython", module.Event, module.Frame, *decoders)


def test_cython_build_is_compiled_and_typed(cython: Implementation) -> None:
    for name in ("sse", "json_stream", "pull", "utf8"):
        path = sys.modules[f"seamstream_cyref.{name}"].__file__
        assert path is not None
        assert Path(path).suffix in (".so", ".pyd")
    # Typed attributes are fields of a C structure, out of reach from Python.
    assert not hasattr(cython.SSEDecoder, "_offset")
    assert not hasattr(cython.JSONStreamDecoder, "_framer")


@pytest.mark.parametrize("vector", vectors("sse.json"), ids=lambda vector: vector["name"])
def test_cython_agrees_on_event_streams(
    reference: Implementation, cython: Implementation, vector: dict[str, Any]
) -> None:
    for chunks in cuts(bytes.fromhex(vector["input"])):
        for options in ({}, {"keep_wire": True, "on_torn": "flush", "last_event_id": "縫"}):
            expected = observations.observe(reference.SSEDecoder(**options), chunks)
            assert observations.observe(cython.SSEDecoder(**options), chunks) == expected


@pytest.mark.parametrize("vector", vectors("json_stream.json"), ids=lambda vector: vector["name"])
def test_cython_agrees_on_json_streams(
    reference: Implementation, cython: Implementation, vector: dict[str, Any]
) -> None:
    for chunks in cuts(bytes.fromhex(vector["input"])):
        for framing in frame_observations.FRAMINGS:
            expected = frame_observations.observe(
                reference.JSONStreamDecoder(framing=framing), chunks
            )
            decoder = cython.JSONStreamDecoder(framing=framing)
            assert frame_observations.observe(decoder, chunks) == expected


@pytest.mark.parametrize("vector", vectors("utf8.json"), ids=lambda vector: vector["name"])
def test_cython_agrees_on_text(
    reference: Implementation, cython: Implementation, vector: dict[str, Any]
) -> None:
    for chunks in cuts(bytes.fromhex(vector["input"])):
        for errors in ("replace", "strict"):
            expected, found = (
                decode_text(implementation.UTF8Decoder(errors, skip_bom=True), chunks)
                for implementation in (reference, cython)
            )
            assert found == expected


def decode_text(decoder: Any, chunks: list[bytes]) -> tuple[list[str], tuple[Any, ...] | None, int]:
    """Every piece of text, the error, and how much was replaced."""
    text: list[str] = []
    try:
        for chunk in chunks:
            text.append(decoder.decode(chunk))  # noqa: PERF401 - what came before an error counts
        text.append(decoder.decode(b"", final=True))
    except UTF8DecodeError as error:
        return text, observations.described(error), decoder.replaced
    return text, None, decoder.replaced


@given(cut=cut_streams(), options=model_options)
def test_cython_agrees_on_arbitrary_event_streams(
    reference: Implementation, cython: Implementation, cut: Any, options: dict[str, Any]
) -> None:
    _, chunks = cut
    expected, found = (
        observations.observe(implementation.SSEDecoder(**with_limits(options)), chunks)
        for implementation in (reference, cython)
    )
    assert found == expected


@given(cut=cut_json_streams(), options=json_options)
def test_cython_agrees_on_arbitrary_json_streams(
    reference: Implementation, cython: Implementation, cut: Any, options: dict[str, Any]
) -> None:
    framing, _, chunks = cut
    expected, found = (
        frame_observations.observe(
            implementation.JSONStreamDecoder(framing=framing, **with_limits(options)), chunks
        )
        for implementation in (reference, cython)
    )
    assert found == expected


def with_limits(options: dict[str, Any]) -> dict[str, Any]:
    names = {"limit": "max_event_bytes", "max_depth": "max_depth"}
    limits = {name: options[option] for option, name in names.items() if option in options}
    others = {option: value for option, value in options.items() if option not in names}
    return {"limits": Limits(**limits), **others}


@pytest.mark.parametrize("name", ["iter", "aiter"])
def test_cython_agrees_when_it_pulls(
    reference: Implementation, cython: Implementation, name: str
) -> None:
    chunks = of_size("data: 縫\n\ndata: い目\n\ndata: [DONE]\n\ndata: never\n\n".encode(), 7)
    puller = Puller(name)
    for done in (None, b"[DONE]"):
        expected, found = (
            [
                observations.seen(event)
                for event in puller.rest(puller.open(decoder, chunks, done=done))
            ]
            for decoder in (reference.SSEDecoder(), cython.SSEDecoder())
        )
        assert len(expected) == (4 if done is None else 2)
        assert found == expected
