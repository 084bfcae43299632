"""What the decoders hold, and that they give it back.

Each measurement runs in an interpreter of its own, on resident memory, since the compiled module
does not allocate through the interpreter alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conftest import MODULES, Implementation
from fragmentations import of_size
from seamstream import Limits


def test_event_of_64_mib_comes_out_right(implementation: Implementation) -> None:
    line = bytes(range(0x20, 0x7F)) * 11 + "漢字🚀".encode()
    lines = [b"%d:" % number + line for number in range((64 << 20) // len(line) + 1)]
    payload = b"\n".join(lines)
    assert len(payload) > 64 << 20
    stream = b"id: 1\n" + b"".join(b"data: " + line + b"\n" for line in lines) + b"\n"
    limits = Limits(max_event_bytes=len(stream) - 1)
    for chunks in ([stream], of_size(stream, 65_521)):
        decoder = implementation.SSEDecoder(limits=limits)
        events: list[Any] = []
        for chunk in chunks:
            events += decoder.feed(chunk)
        (event,) = events
        assert event.raw == payload
        assert (event.id, event.replaced, event.torn) == ("1", 0, False)
        assert decoder.close() == ()


def test_torn_event_of_16_mib_comes_out_right(implementation: Implementation) -> None:
    lines = b"".join(b"data: %d\r\n: %d\r\nid: %d\r" % (n, n, n) for n in range(400_000))
    assert len(lines) > 12 << 20
    decoder = implementation.SSEDecoder(limits=Limits(max_event_bytes=16 << 20))
    for chunk in of_size(lines, 10_007):
        assert decoder.feed(chunk) == ()
    assert decoder.pending_bytes == len(lines)
    (event,) = decoder.close()
    assert event.torn
    assert event.raw == lines


@pytest.mark.parametrize(("decoder", "bound"), [("SSEDecoder", 256), ("JSONStreamDecoder", 384)])
def test_idle_decoder_holds_next_to_nothing(
    compiled: Implementation, run_python: Callable[..., str], decoder: str, bound: int
) -> None:
    output = run_python("idle_decoders.py", MODULES[compiled.name], decoder)
    fresh, used = map(float, output.split())
    assert fresh <= bound
    assert used <= bound


def test_open_block_is_held_at_most_twice(
    implementation: Implementation, run_python: Callable[..., str]
) -> None:
    output = run_python("held_memory.py", MODULES[implementation.name])
    rows = [line.split("\t") for line in output.split("\n") if line]
    assert len(rows) == 40
    for shape, keep_wire, pending, held in rows:
        # The operating system counts in pages, here of up to 16 KiB.
        page = 16_384 if int(pending) > 100_000 else 0
        assert float(held) <= 2 * int(pending) + 1024 + page, (shape, keep_wire)
    # At least the block itself must be there, or nothing was measured.
    assert all(float(held) >= 0.5 * int(pending) for shape, _, pending, held in rows if shape)


@pytest.mark.parametrize("allocator", ["debug", "malloc_debug"])
def test_payload_stays_within_its_memory(
    implementation: Implementation,
    run_python: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    allocator: str,
) -> None:
    monkeypatch.setenv("PYTHONMALLOC", allocator)
    assert run_python("spare_payloads.py", MODULES[implementation.name]) == "intact\n"


def test_comments_alone_retain_nothing(
    implementation: Implementation, run_python: Callable[..., str]
) -> None:
    assert int(run_python("comments_only.py", MODULES[implementation.name])) <= 256 * 1024


@pytest.mark.parametrize("decoder", ["SSEDecoder", "JSONStreamDecoder"])
def test_large_payload_in_small_chunks_is_not_copied_again_at_its_end(
    implementation: Implementation, run_python: Callable[..., str], decoder: str
) -> None:
    # The reference holds the bytes that came, and reads the payload out of them at the end; for
    # JSON orjson reads it as well.
    copies = {"rust": 2.2, "reference": 4.2}[implementation.name]
    grown = int(run_python("peak_memory.py", MODULES[implementation.name], decoder))
    assert 0.9 <= grown / 8_000_000 <= copies


def test_many_streams_leave_nothing_behind(
    implementation: Implementation, run_python: Callable[..., str]
) -> None:
    """What one round leaks would be there hundreds of times more than free lists keep."""
    rounds = {"rust": 750, "reference": 350}[implementation.name]
    output = run_python("many_streams.py", MODULES[implementation.name], rounds)
    blocks, resident = map(int, output.split())
    assert blocks < rounds
    assert resident <= 2 << 20


def test_many_json_streams_leave_nothing_behind(
    implementation: Implementation, run_python: Callable[..., str]
) -> None:
    rounds = {"rust": 500, "reference": 125}[implementation.name]
    output = run_python("many_json_streams.py", MODULES[implementation.name], rounds)
    blocks, resident = map(int, output.split())
    assert blocks < rounds
    assert resident <= 2 << 20


def test_json_text_of_64_mib_comes_out_right(compiled: Implementation) -> None:
    members = b",".join(b'"%d":["\\u6f22 { \\"",%d.5e1,null]' % (n, n) for n in range(2_000_000))
    text = b"{" + members + b"}"
    assert len(text) > 64 << 20
    stream = b"[" + text + b",1]"
    limits = Limits(max_event_bytes=len(text))
    for chunks in ([stream], of_size(stream, 65_521)):
        decoder = compiled.JSONStreamDecoder(framing="array", limits=limits)
        frames: list[Any] = []
        for chunk in chunks:
            frames += decoder.feed(chunk)
        assert [frame.kind for frame in frames] == [None, None]
        assert frames[0].raw == text
        assert decoder.array_closed
