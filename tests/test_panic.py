"""A panic in the compiled module is an exception and a failed decoder, not a dead process."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

from conftest import Implementation
from seamstream import SeamstreamError, StreamStateError


def provoke_panic(decoder: Any) -> None:
    importlib.import_module("seamstream._core")._provoke_panic(decoder)


def test_panic_is_an_exception_and_fails_the_decoder_until_reset(
    compiled: Implementation, capfd: pytest.CaptureFixture[str]
) -> None:
    decoder = compiled.SSEDecoder()
    (event,) = decoder.feed(b"id: 1\ndata: before\n\nid: 2\ndata: half")
    for _ in range(3):
        with pytest.raises(SeamstreamError) as caught:
            provoke_panic(decoder)
        assert type(caught.value) is SeamstreamError
        for _ in range(2):
            with pytest.raises(StreamStateError, match=r"reset\(\)"):
                decoder.feed(b"data: x\n\n")
        assert decoder.close() == ()
        assert decoder.pending_bytes == 0
        assert decoder.stats.events in (0, 1)
        decoder.reset("7")
        (after,) = decoder.feed(b"data: after\n\n")
        assert (after.data, after.id, after.offset) == ("after", "7", 0)
    assert event.data == "before"
    assert "half" not in capfd.readouterr().err


def test_panic_in_one_decoder_leaves_the_others_alone(compiled: Implementation) -> None:
    one, other = compiled.SSEDecoder(), compiled.SSEDecoder()
    other.feed(b"data: a")
    with pytest.raises(SeamstreamError):
        provoke_panic(one)
    (event,) = other.feed(b"b\n\n")
    assert event.data == "ab"


def test_panic_leaves_the_process_alive(
    compiled: Implementation, run_python: Callable[..., str]
) -> None:
    assert compiled.name == "rust"
    code = """\
import seamstream, seamstream._core as core
for number in range(100):
    decoder = core.SSEDecoder()
    decoder.feed(b"data: half")
    try:
        core._provoke_panic(decoder)
    except seamstream.SeamstreamError:
        print(number)
"""
    assert run_python(code=code) == "".join(f"{number}\n" for number in range(100))


def test_panic_needs_a_decoder(compiled: Implementation, reference: Implementation) -> None:
    for wrong in (None, 1, compiled.Event(data=""), reference.SSEDecoder()):
        with pytest.raises(TypeError):
            provoke_panic(wrong)
