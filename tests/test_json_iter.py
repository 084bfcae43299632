"""`iter` and `aiter` of a JSON stream decoder.

What the iterators of both decoders have in common is in test_iter.py. Here a byte may settle
several frames, and the end of the stream too.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from conftest import Implementation
from fragmentations import fragmentations
from frame_observations import FRAMINGS, brief, state_of, stats_of
from pullers import Puller, asynchronous
from seamstream import LimitExceededError, Limits, StreamStateError

# Its last bracket settles two errors: a needless comma, and then it closes the array.
ARRAY = b"[[1]\n,[2] ,]"
# Where `}` fails, the lines before it that begin with a comma are read again: two frames come out.
AT_ONE_BYTE = b"[[1\n,2\n,3}"


@pytest.fixture(params=["iter", "aiter"])
def puller(request: pytest.FixtureRequest) -> Puller:
    return Puller(request.param)


def test_iterator_gives_the_frames_of_feed_and_close(
    implementation: Implementation, puller: Puller
) -> None:
    for framing, stream, expected in (
        ("concatenated", b'[1]x {"a":1} "s" tr', [b"[1]", (b"x", "garbage"), b'{"a":1}', b'"s"']),
        ("ndjson", b"[1]\nx\n\n", [b"[1]", (b"x", "syntax")]),
        ("array", b"[[1],,2]", [b"[1]", (b",", "separator"), b"2"]),
        ("json-seq", b"x\x1e[1]\n\x1e2\x1e", [(b"x", "garbage"), b"[1]", (b"2", "truncated")]),
    ):
        if framing == "concatenated":
            expected = [*expected, (b"tr", "torn")]
        for chunks in fragmentations(stream):
            decoder = implementation.JSONStreamDecoder(framing=framing)
            assert brief(puller.rest(puller.open(decoder, chunks))) == expected
            assert decoder.stats.bytes == len(stream)
            with pytest.raises(StreamStateError, match="closed"):
                decoder.feed(b"")


def test_iterator_gives_all_frames_of_the_end_one_by_one(
    implementation: Implementation, puller: Puller
) -> None:
    decoder = implementation.JSONStreamDecoder()
    iterator = puller.open(decoder, [b'[1]x {"a":', b' 1} {"b"'])
    assert puller.next(iterator).raw == b"[1]"
    assert brief(puller.rest(iterator)) == [
        (b"x", "garbage"),
        b'{"a": 1}',
        (b'{"b"', "torn"),
    ]
    decoder.reset()
    iterator = puller.open(decoder, [b'x {"a":'])
    assert brief([puller.next(iterator)]) == [(b"x", "garbage")]
    # The decoder is closed by now; what its end settled is the iterator's.
    assert stats_of(decoder) == {"bytes": 7, "garbage": 1, "torn": 1}
    assert decoder.close() == ()
    with pytest.raises(StreamStateError, match="closed"):
        decoder.feed(b"")
    assert brief([puller.next(iterator)]) == [(b'{"a":', "torn")]
    assert puller.rest(iterator) == []


def test_exact_bytes_are_parsed_as_frames_are_taken(
    implementation: Implementation, puller: Puller
) -> None:
    decoder = implementation.JSONStreamDecoder(framing="array")
    iterator = puller.open(decoder, [ARRAY])
    for raw, consumed in ((b"[1]", 4), (b"[2]", 9)):
        frame = puller.next(iterator)
        assert (frame.raw, decoder.stats.bytes) == (raw, consumed)
        assert decoder.at_boundary
    assert puller.next(iterator).kind == "separator"
    assert decoder.array_closed
    assert puller.rest(iterator) == []


def test_frames_of_one_byte_come_one_by_one_with_the_state_behind_all_of_them(
    implementation: Implementation, puller: Puller
) -> None:
    # The byte that failed has yet to be read when the lines before it have been read again.
    for chunk, consumed in ((AT_ONE_BYTE, 9), (bytearray(AT_ONE_BYTE), 10)):
        decoder = implementation.JSONStreamDecoder(framing="array")
        iterator = puller.open(decoder, [chunk, b"\n, 4]"])
        frames = []
        for _ in range(2):
            frames.append(puller.next(iterator))
            assert stats_of(decoder) == {"bytes": consumed, "frames": 1, "syntax": 1}
            assert decoder.pending_bytes == consumed - 8
        frames += puller.rest(iterator)
        assert brief(frames) == [(b"[1", "syntax"), b"2", (b"3}", "syntax"), b"4"]


def test_decoder_is_taken_while_frames_of_the_same_byte_are_left(
    implementation: Implementation, puller: Puller
) -> None:
    for chunk in (AT_ONE_BYTE, bytearray(AT_ONE_BYTE)):
        decoder = implementation.JSONStreamDecoder(framing="array")
        iterator = puller.open(decoder, [chunk])
        assert brief([puller.next(iterator)]) == [(b"[1", "syntax")]
        for call in (
            lambda decoder=decoder: decoder.feed(b"]"),
            decoder.close,
            lambda decoder=decoder: decoder.iter([]),
            lambda decoder=decoder: decoder.aiter(asynchronous([])),
        ):
            with pytest.raises(StreamStateError):
                call()
        assert brief([puller.next(iterator)]) == [b"2"]
        assert brief(decoder.feed(b",")) == [(b"3}", "syntax")]
        assert puller.rest(iterator) == []
        assert stats_of(decoder) == {"bytes": 11, "frames": 1, "syntax": 2}


def test_done_ends_the_iteration_at_a_frame_of_these_bytes(
    implementation: Implementation, puller: Puller
) -> None:
    decoder = implementation.JSONStreamDecoder(framing="ndjson")
    chunks = [b'{"a":1}\n{"done": true}\n ', b"never pulled\n"]
    iterator = puller.open(decoder, chunks, done=b'{"done": true}\n')
    assert brief(puller.rest(iterator)) == [b'{"a":1}']
    assert puller.rest(iterator) == []
    assert decoder.stats.frames == 2
    assert brief(decoder.feed(b"[2]\n")) == [b"[2]"]


def test_done_may_be_the_bytes_of_an_error_but_never_torn_ones(
    implementation: Implementation, puller: Puller
) -> None:
    decoder = implementation.JSONStreamDecoder(framing="ndjson")
    iterator = puller.open(decoder, [b"[1]\n[DONE]\n", b"[2]\n"], done=b"[DONE]")
    assert brief(puller.rest(iterator)) == [b"[1]"]
    assert decoder.stats.errors.syntax == 1
    decoder.reset()
    iterator = puller.open(decoder, [b"[1]\n[DONE]"], done=b"[DONE]")
    assert brief(puller.rest(iterator)) == [b"[1]", (b"[DONE]", "torn")]


def test_done_drops_what_the_end_settles_behind_it(
    implementation: Implementation, puller: Puller
) -> None:
    decoder = implementation.JSONStreamDecoder()
    iterator = puller.open(decoder, [b'[1]x {"a":1} '], done=b"x")
    assert brief(puller.rest(iterator)) == [b"[1]"]
    assert puller.rest(iterator) == []
    assert stats_of(decoder) == {"bytes": 13, "frames": 2, "garbage": 1}


def test_done_fails_the_decoder_when_frames_are_left_behind_it(
    implementation: Implementation, puller: Puller
) -> None:
    for chunk in (b"[[1],[2]", b"[[1]\n,x,", bytearray(b"[[1],[2]"), b"[[1\n,1\n,}"):
        done = b"[1" if chunk == b"[[1\n,1\n,}" else b"[1]"
        decoder = implementation.JSONStreamDecoder(framing="array")
        assert puller.rest(puller.open(decoder, [chunk], done=done)) == []
        with pytest.raises(StreamStateError, match=r"reset\(\)"):
            decoder.feed(b"")
        decoder.reset()
        assert brief(decoder.feed(b"[3,")) == [b"3"]


def test_source_exception_passes_through_and_the_decoder_stays_open(
    implementation: Implementation, puller: Puller
) -> None:
    def source() -> Iterator[bytes]:
        yield b'[1]{"a":'
        raise ConnectionError("cut")

    decoder = implementation.JSONStreamDecoder()
    iterator = puller.open(decoder, source())
    assert puller.next(iterator).raw == b"[1]"
    with pytest.raises(ConnectionError, match="cut"):
        puller.next(iterator)
    assert puller.rest(iterator) == []
    assert decoder.pending_bytes == 5
    assert brief(decoder.feed(b"2}")) == [b'{"a":2}']


def test_source_of_wrong_chunks_raises_what_feed_raises(
    implementation: Implementation, puller: Puller
) -> None:
    for wrong, error in (
        ("text", TypeError),
        (None, TypeError),
        (memoryview(b"abcd")[::2], BufferError),
    ):
        decoder = implementation.JSONStreamDecoder()
        iterator = puller.open(decoder, [b"[1][", wrong])
        assert puller.next(iterator).raw == b"[1]"
        with pytest.raises(error):
            puller.next(iterator)
        assert brief(decoder.feed(b"2]")) == [b"[2]"]


def test_iter_refuses_what_is_no_iterable_at_once(implementation: Implementation) -> None:
    decoder = implementation.JSONStreamDecoder()
    for wrong in (5, None, object(), asynchronous([])):
        with pytest.raises(TypeError):
            decoder.iter(wrong)
    for wrong in (5, None, [b""], object()):
        with pytest.raises(TypeError):
            decoder.aiter(wrong)
    for wrong in (b"[1]", bytearray(b"[1]"), memoryview(b"[1]"), "[1]"):
        with pytest.raises(TypeError, match="list"):
            decoder.iter(wrong)
        with pytest.raises(TypeError):
            decoder.aiter(wrong)
    for wrong in ("x", 1, [b"x"], bytearray(b"x")):
        with pytest.raises(TypeError, match="done"):
            decoder.iter([], done=wrong)
        with pytest.raises(TypeError, match="done"):
            decoder.aiter(asynchronous([]), done=wrong)
    assert brief(decoder.feed(b"[1]")) == [b"[1]"]


def test_error_comes_after_the_frames_before_it(
    implementation: Implementation, puller: Puller
) -> None:
    for buffer in (bytes, bytearray):
        decoder = implementation.JSONStreamDecoder(limits=Limits(max_event_bytes=5))
        iterator = puller.open(decoder, [buffer(b"[1],[2] [12345] [3]"), b"never"])
        frames = [puller.next(iterator) for _ in range(3)]
        assert brief(frames) == [b"[1]", (b",", "garbage"), b"[2]"]
        with pytest.raises(LimitExceededError) as caught:
            puller.next(iterator)
        assert caught.value.offset == 13
        assert stats_of(decoder) == {"bytes": 13, "frames": 2, "garbage": 1}
        assert puller.rest(iterator) == []
        with pytest.raises(StreamStateError):
            decoder.feed(b"")


def test_error_at_the_end_of_the_source_ends_the_iteration(
    implementation: Implementation, puller: Puller
) -> None:
    decoder = implementation.JSONStreamDecoder(limits=Limits(max_event_bytes=1))
    iterator = puller.open(decoder, [b"\xef\xbb"])
    with pytest.raises(LimitExceededError):
        puller.next(iterator)
    assert puller.rest(iterator) == []


def test_iterator_dropped_with_frames_left_fails_the_decoder(
    implementation: Implementation, puller: Puller
) -> None:
    for chunk in (ARRAY, bytearray(ARRAY), AT_ONE_BYTE, b"[[1], [1234567890123456789]"):
        decoder = implementation.JSONStreamDecoder(
            framing="array", limits=Limits(max_event_bytes=12)
        )
        iterator = puller.open(decoder, [chunk])
        assert puller.next(iterator).raw[:2] == b"[1"
        del iterator
        gc.collect()
        with pytest.raises(StreamStateError, match=r"reset\(\)"):
            decoder.feed(b"")
        assert decoder.close() == ()
        assert decoder.pending_bytes == 0
        decoder.reset()
        assert brief(decoder.feed(b"[3,")) == [b"3"]


def test_iterator_dropped_without_frames_left_leaves_the_decoder_open(
    implementation: Implementation, puller: Puller
) -> None:
    decoder = implementation.JSONStreamDecoder()
    for chunk in (b'[1] {"a":', bytearray(b'1} {"a":')):
        iterator = puller.open(decoder, [chunk])
        assert puller.next(iterator).kind is None
        del iterator
        gc.collect()
    assert decoder.pending_bytes == 5
    assert brief(decoder.feed(b"2}")) == [b'{"a":2}']


def test_reset_forgets_the_rest_and_the_iterator_goes_on_with_its_next_chunk(
    implementation: Implementation, puller: Puller
) -> None:
    for chunk in (AT_ONE_BYTE, bytearray(AT_ONE_BYTE), ARRAY):
        decoder = implementation.JSONStreamDecoder(framing="array")
        fresh = state_of(decoder)
        iterator = puller.open(decoder, [chunk, b"[7]"])
        puller.next(iterator)
        decoder.reset()
        assert state_of(decoder) == fresh
        frame = puller.next(iterator)
        assert (frame.raw, frame.offset) == (b"7", 1)
        assert puller.rest(iterator) == []
        assert stats_of(decoder) == {"bytes": 3, "frames": 1}


def test_iterators_hold_neither_chunk_nor_source_once_exhausted(
    implementation: Implementation,
) -> None:
    class Chunks(list):  # type: ignore[type-arg]
        pass

    for framing in FRAMINGS:
        decoder = implementation.JSONStreamDecoder(framing=framing)
        frames: list[Any] = list(decoder.iter(Chunks([b"[1]\n"])))
        assert len(frames) == 1
    gc.collect()
    assert not any(isinstance(thing, Chunks) for thing in gc.get_objects())
