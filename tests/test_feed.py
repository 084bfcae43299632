"""What `feed` takes, refuses and keeps, of either decoder and in every framing."""

from __future__ import annotations

import array
import copy
import mmap
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import frame_observations
import observations
from conftest import Implementation
from frame_observations import FRAMINGS, TWO
from reentrant_buffer import ReentrantBuffer
from seamstream import StreamStateError


@dataclass(frozen=True)
class Stream:
    """Two items and a part of a third, then the rest of that."""

    decoder: str
    options: dict[str, Any]
    begin: bytes
    end: bytes
    raws: list[bytes]

    def __str__(self) -> str:
        return self.options.get("framing", self.decoder)

    def open(self, implementation: Implementation) -> Any:
        return getattr(implementation, self.decoder)(**self.options)

    def state_of(self, decoder: Any) -> Any:
        of = observations if self.decoder == "SSEDecoder" else frame_observations
        return of.state_of(decoder)


STREAMS = [
    Stream(
        "SSEDecoder",
        {"keep_wire": True},
        b"id: 1\ndata: 1\n\ndata: 2\n\n: c\ndata: 3",
        b"4\n\n",
        [b"1", b"2", b"34"],
    ),
    *(
        Stream(
            "JSONStreamDecoder",
            {"framing": framing},
            TWO[framing],
            b"3}\n",
            [b'{"a":1}', b'{"a":2}', b'{"a":3}'],
        )
        for framing in FRAMINGS
    ),
]


@pytest.fixture(params=STREAMS, ids=str)
def stream(request: pytest.FixtureRequest) -> Stream:
    found: Stream = request.param
    return found


def facts(items: Any) -> list[Any]:
    return [(item, item.raw, item.offset, getattr(item, "wire", None)) for item in items]


# --- what it takes


class Bytes(bytes):
    __slots__ = ()


def whole(data: bytes) -> list[Any]:
    """The same bytes, which are a multiple of four, in all kinds of buffers."""
    assert len(data) % 4 == 0
    anonymous = mmap.mmap(-1, len(data))
    anonymous.write(data)
    return [
        data,
        Bytes(data),
        bytearray(data),
        memoryview(data),
        memoryview(b"xx" + data + b"xx")[2:-2],
        memoryview(data).cast("I"),
        memoryview(data).cast("B", (4, len(data) // 4)),
        array.array("i", data),
        anonymous,
    ]


def test_feed_takes_any_contiguous_buffer_as_its_bytes(
    implementation: Implementation, stream: Stream
) -> None:
    sent = stream.begin + stream.end
    # An empty line, or white space between values.
    buffers = whole(sent + b"\n" * (-len(sent) % 4))
    expected = facts(stream.open(implementation).feed(buffers[0]))
    assert [raw for _, raw, _, _ in expected] == stream.raws
    for buffer in buffers:
        decoder = stream.open(implementation)
        assert facts(decoder.feed(buffer)) == expected
        assert decoder.stats.bytes == len(buffers[0])
    buffers[-1].close()


# --- what it refuses


def test_feed_refuses_what_is_no_buffer_and_stays_unharmed(
    implementation: Implementation, stream: Stream
) -> None:
    decoder = stream.open(implementation)
    expected = facts(decoder.feed(stream.begin + stream.end))
    decoder.reset()
    items = facts(decoder.feed(stream.begin))
    before = stream.state_of(decoder)
    for wrong in ("data: x\n\n", "[1]", "", None, 3, [b"x"], (b"x",), object(), {b"x"}):
        with pytest.raises(TypeError):
            decoder.feed(wrong)
        assert stream.state_of(decoder) == before
    for view in (memoryview(stream.begin)[::2], memoryview(stream.begin)[::-1]):
        with pytest.raises(BufferError):
            decoder.feed(view)
        assert stream.state_of(decoder) == before
    for arguments, keywords in (((), {}), ((b"", b""), {}), ((), {"chunk": b""})):
        with pytest.raises(TypeError):
            decoder.feed(*arguments, **keywords)
        assert stream.state_of(decoder) == before
    assert items + facts(decoder.feed(stream.end)) == expected


def test_feed_of_str_is_refused_with_a_hint(implementation: Implementation, stream: Stream) -> None:
    with pytest.raises(TypeError, match="encode"):
        stream.open(implementation).feed("[1]")


def test_what_is_no_chunk_is_refused_in_the_same_words(
    compiled: Implementation, reference: Implementation
) -> None:
    def refusal(call: Callable[..., Any], *arguments: Any) -> tuple[type, str]:
        with pytest.raises((TypeError, ValueError, BufferError)) as caught:
            call(*arguments)
        return caught.type, str(caught.value)

    for wrong in ("text", 5, None, [b"x"], memoryview(b"abcd")[::2]):
        expected = refusal(reference.SSEDecoder().feed, wrong)
        for implementation in (compiled, reference):
            assert refusal(implementation.SSEDecoder().feed, wrong) == expected
            assert refusal(implementation.UTF8Decoder().decode, wrong) == expected
            assert refusal(implementation.JSONStreamDecoder().feed, wrong) == expected
    for wrong in (5, (b"",), (b"a", 1), (b"\xe6\x97\xa5", 0)):
        assert refusal(compiled.UTF8Decoder().setstate, wrong) == refusal(
            reference.UTF8Decoder().setstate, wrong
        )


def test_feed_after_the_end_says_so_even_to_a_wrong_argument(
    implementation: Implementation, stream: Stream
) -> None:
    decoder = stream.open(implementation)
    decoder.close()
    with pytest.raises(StreamStateError):
        decoder.feed("text")


# --- what it keeps


def test_feed_keeps_no_buffer(implementation: Implementation, stream: Stream) -> None:
    expected = facts(stream.open(implementation).feed(stream.begin + stream.end))
    decoder = stream.open(implementation)
    buffer = bytearray(stream.begin)
    items = decoder.feed(buffer)
    buffer[:] = b"X" * len(buffer)
    buffer.extend(b"resized: no buffer is exported")
    view = memoryview(stream.end)
    items += decoder.feed(view)
    view.release()
    assert facts(items) == expected
    mapped = mmap.mmap(-1, 16)
    decoder.feed(mapped)
    mapped.close()


def test_feed_holds_no_reference_to_the_chunk(
    implementation: Implementation, stream: Stream
) -> None:
    chunk = stream.begin + b'"' + b"x" * 100
    before = sys.getrefcount(chunk)
    decoder = stream.open(implementation)
    items = decoder.feed(chunk)
    assert sys.getrefcount(chunk) == before
    assert len(items) == 2


# --- the object


def test_decoder_is_final_and_cannot_be_pickled_or_copied(
    implementation: Implementation, stream: Stream
) -> None:
    decoder = stream.open(implementation)
    with pytest.raises(TypeError):
        type("Derived", (type(decoder),), {})
    ways: list[Callable[[Any], object]] = [copy.copy, copy.deepcopy]
    ways += [
        lambda decoder, protocol=protocol: pickle.dumps(decoder, protocol)
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
    ]
    for way in ways:
        with pytest.raises(TypeError):
            way(decoder)


def test_decoder_attributes_cannot_be_set(implementation: Implementation, stream: Stream) -> None:
    decoder = stream.open(implementation)
    names = [name for name in dir(decoder) if not name.startswith("_")]
    assert {"pending_bytes", "at_boundary", "stats", "feed"} < {*names}
    for name in [*names, "new"]:
        with pytest.raises(AttributeError):
            setattr(decoder, name, None)


# --- re-entry

if sys.version_info >= (3, 12):

    def test_reentry_from_a_buffer_is_refused_and_the_outer_call_goes_on(
        implementation: Implementation, stream: Stream
    ) -> None:
        expected = facts(stream.open(implementation).feed(stream.begin + stream.end))
        decoder = stream.open(implementation)
        items = decoder.feed(stream.begin)
        buffer = ReentrantBuffer(
            stream.end,
            lambda: decoder.feed(stream.end),
            decoder.close,
            decoder.reset,
            lambda: next(decoder.iter([stream.end])),
        )
        items += decoder.feed(buffer)
        assert buffer.refused == 4
        assert facts(items) == expected
        assert decoder.stats.bytes == len(stream.begin + stream.end)

    def test_buffer_that_raises_leaves_the_decoder_usable(
        implementation: Implementation, stream: Stream
    ) -> None:
        class Refusing:
            def __buffer__(self, flags: int) -> memoryview:
                raise ZeroDivisionError

        decoder = stream.open(implementation)
        decoder.feed(stream.begin)
        before = stream.state_of(decoder)
        with pytest.raises(ZeroDivisionError):
            decoder.feed(Refusing())
        assert stream.state_of(decoder) == before
        assert len(decoder.feed(stream.end)) == 1
