"""What happens to JSON that outgrows `Limits`; all offsets are worked out by hand."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from conftest import Implementation
from fragmentations import byte_by_byte, fragmentations, of_size
from frame_observations import FRAMINGS, SeenFrame, brief, observe, stats_of
from seamstream import LimitExceededError, Limits, StreamStateError


def limited(
    implementation: Implementation, max_event_bytes: int, framing: str = "concatenated", **more: Any
) -> Any:
    limits = Limits(max_event_bytes=max_event_bytes)
    return implementation.JSONStreamDecoder(framing=framing, limits=limits, **more)


def test_decoder_takes_the_largest_limit(implementation: Implementation) -> None:
    for framing in FRAMINGS:
        decoder = limited(implementation, sys.maxsize, framing)
        prefix = {"array": b"[", "json-seq": b"\x1e"}.get(framing, b"")
        assert brief(decoder.feed(prefix + b"[1]\n")) == [b"[1]"]


# A stream, the largest unit in it, and where that begins: one byte less is too little.
UNITS = [
    ("concatenated", b' \n{"a":1} [1]', 7, 2),
    ("concatenated", b'"abc" [', 6, 0),  # white space, as long as it is not decided
    ("concatenated", b"[1] 12345 ", 6, 4),
    ("concatenated", b",],  [1]", 5, 0),  # the white space too
    ("concatenated", b"[1]\xff{[1]", 5, 3),
    # What was given up, with the object that ends it, to the byte that decides.
    ("concatenated", b'x {"a":1} [1]', 10, 0),
    ("ndjson", b'[1]\n {"a":1} \r\n2\n', 9, 5),  # all of the line but its LF
    ("ndjson", b"1\nxyz\n2\n", 3, 2),
    ("ndjson", b"\n\n\n   12345", 5, 6),
    ("array", b' [ {"a":1} ,2]', 7, 3),
    ("array", b'[2, "abc"  ,1]', 7, 4),  # a bare scalar is open to the comma
    ("array", b"[[1],xyz ,[2]]", 4, 5),
    ("array", b"[1] xyz ", 4, 4),
    ("array", b"xyz [1]", 7, 0),
    ("array", b'[{"a":1\n,"b"\n,[2]]', 12, 1),  # to the failing byte, not the line's comma
    ("json-seq", b'\x1e {"a":1} \n\x1e2\n', 8, 2),  # all but the LF
    ("json-seq", b"xyz \x1e[1]\n", 4, 0),
    ("json-seq", b"\x1e[1]\nxyz\n\x1e", 4, 5),
    ("json-seq", b"\x1e[1, \x1e2\n", 4, 1),
]


@pytest.mark.parametrize(("framing", "stream", "size", "begin"), UNITS)
def test_limit_is_exceeded_at_the_first_byte_past_it(
    implementation: Implementation, framing: str, stream: bytes, size: int, begin: int
) -> None:
    for chunks in fragmentations(stream):
        assert observe(limited(implementation, size, framing), chunks).error is None
        decoder = limited(implementation, size - 1, framing)
        outcome = observe(decoder, chunks)
        assert outcome.error == ("LimitExceededError", size - 1, size, begin + size - 1)
        assert decoder.stats.bytes == begin + size - 1
        assert (decoder.pending_bytes, decoder.stats.skipped) == (0, 0)


@pytest.mark.parametrize(("framing", "stream", "size", "begin"), UNITS)
def test_skip_gives_one_empty_frame_in_place_of_what_outgrew(
    implementation: Implementation, framing: str, stream: bytes, size: int, begin: int
) -> None:
    fitting = observe(limited(implementation, size, framing), [stream]).frames
    for chunks in fragmentations(stream):
        decoder = limited(implementation, size - 1, framing, on_limit="skip")
        outcome = observe(decoder, chunks)
        assert outcome.error is None
        (oversize,) = (frame for frame in outcome.frames if frame.kind == "oversize")
        assert oversize == SeenFrame(b"", "oversize", begin)
        assert decoder.stats.skipped == decoder.stats.errors.oversize == 1
        assert decoder.stats.bytes == len(stream)
        # All that began elsewhere comes out as ever; but an array's element that outgrew the limit
        # has no lines left to go back to.
        gone = range(begin, begin + (size if b"\n," in stream else 1))
        others = [frame for frame in outcome.frames if frame.kind != "oversize"]
        assert others == [frame for frame in fitting if frame.offset not in gone]


def test_limit_error_is_raised_by_the_very_byte(implementation: Implementation) -> None:
    decoder = limited(implementation, 8)
    for byte in byte_by_byte(b' {"a":12'):
        assert decoder.feed(byte) == ()
    assert decoder.pending_bytes == 7
    assert decoder.feed(b"3") == ()
    assert decoder.pending_bytes == 8
    with pytest.raises(LimitExceededError):
        decoder.feed(b"}")
    assert decoder.pending_bytes == 0
    assert (decoder.stats.bytes, decoder.stats.frames) == (9, 0)


def test_settled_frames_come_first_and_the_error_with_the_next_call(
    implementation: Implementation,
) -> None:
    for call in ("feed", "close"):
        decoder = limited(implementation, 8)
        frames = decoder.feed(b'[1],{"a":12345} [2]')
        assert brief(frames) == [b"[1]", (b",", "garbage")]
        # At the error's offset: the object begins at byte 4.
        assert stats_of(decoder) == {"bytes": 12, "frames": 1, "garbage": 1}
        with pytest.raises(LimitExceededError) as caught:
            decoder.feed(b"[3]") if call == "feed" else decoder.close()
        error = caught.value
        assert (error.limit, error.observed, error.offset) == (8, 9, 12)
        assert str(error) == "an event outgrew max_event_bytes=8 at byte 12"
        assert stats_of(decoder) == {"bytes": 12, "frames": 1, "garbage": 1}


def test_held_error_comes_before_a_wrong_argument(implementation: Implementation) -> None:
    decoder = limited(implementation, 4)
    assert len(decoder.feed(b"[1] [12345]")) == 1
    with pytest.raises(LimitExceededError):
        decoder.feed("no bytes at all")
    with pytest.raises(StreamStateError):
        decoder.feed("no bytes at all")


def test_decoder_stays_failed_after_the_error_until_reset(implementation: Implementation) -> None:
    for framing in FRAMINGS:
        prefix = {"array": b"[", "json-seq": b"\x1e"}.get(framing, b"")
        decoder = limited(implementation, 4, framing)
        with pytest.raises(LimitExceededError) as caught:
            decoder.feed(prefix + b"[1234]")
        assert caught.value.offset == len(prefix) + 4
        for _ in range(3):
            with pytest.raises(StreamStateError, match=r"reset\(\)"):
                decoder.feed(b"")
        assert decoder.close() == ()
        assert stats_of(decoder) == {"bytes": len(prefix) + 4}
        decoder.reset()
        assert brief(decoder.feed(prefix + b"[12]\n")) == [b"[12]"]


def test_bytes_that_turn_out_to_be_no_byte_order_mark_count_at_once(
    implementation: Implementation,
) -> None:
    for framing in FRAMINGS:
        decoder = limited(implementation, 2, framing)
        assert decoder.feed(b"\xef\xbb") == ()
        with pytest.raises(LimitExceededError) as caught:
            decoder.feed(b"x")
        assert (caught.value.offset, caught.value.observed) == (2, 3)
        decoder = limited(implementation, 1, framing)
        assert decoder.feed(b"\xef\xbb") == ()
        with pytest.raises(LimitExceededError) as caught:
            decoder.close()
        assert caught.value.offset == 1
        assert decoder.close() == ()
        skipping = limited(implementation, 1, framing, on_limit="skip")
        assert skipping.feed(b"\xef\xbb") == ()
        assert brief(skipping.close()) == [(b"", "oversize")]
        never_counted = limited(implementation, 4, framing)
        prefix = {"array": b"[", "json-seq": b"\x1e"}.get(framing, b"")
        assert brief(never_counted.feed(b"\xef\xbb\xbf" + prefix + b"[12]\n")) == [b"[12]"]


def test_skip_holds_nothing_of_what_outgrew(implementation: Implementation) -> None:
    decoder = limited(implementation, 8, on_limit="skip")
    decoder.feed(b'{"a":"12')
    assert decoder.pending_bytes == 8
    for byte in byte_by_byte(b'3","b":[1,{}]'):
        assert decoder.feed(byte) == ()
        assert decoder.pending_bytes == 0
        assert not decoder.at_boundary
    assert decoder.stats.skipped == 0
    assert brief(decoder.feed(b"}")) == [(b"", "oversize")]
    assert decoder.at_boundary
    assert decoder.stats.skipped == 1


def test_skip_at_the_end_of_input_is_not_torn(implementation: Implementation) -> None:
    for framing, stream in (
        ("concatenated", b'{"a":"12345'),
        ("ndjson", b'{"a":"12345"}'),
        ("array", b'[{"a":"12345'),
        ("array", b"[{x:1,2345"),
        ("json-seq", b'\x1e{"a":"12345'),
    ):
        for chunks in fragmentations(stream):
            decoder = limited(implementation, 8, framing, on_limit="skip")
            outcome = observe(decoder, chunks)
            assert brief(outcome.frames) == [(b"", "oversize")]
            assert outcome.frames[0].offset == stream.index(b"{")
            assert (decoder.stats.skipped, decoder.stats.torn) == (1, 0)


def test_skip_drops_the_run_and_keeps_the_object_that_ends_it(
    implementation: Implementation,
) -> None:
    garbage = b"x" * 20
    for after, expected in ((b"[2]", b"[2]"), (b"", None), (b" \n", None)):
        for chunks in fragmentations(garbage + b'{"a":1}' + after):
            frames = observe(limited(implementation, 12, on_limit="skip"), chunks).frames
            assert frames[:2] == [SeenFrame(b"", "oversize", 0), SeenFrame(b'{"a":1}', None, 20)]
            assert [frame.raw for frame in frames[2:]] == ([expected] if expected else [])
    # An object that outgrew the limit puts the stream in step as well, and is dropped.
    for chunks in fragmentations(garbage + b'{"a":12345678}[2]'):
        frames = observe(limited(implementation, 12, on_limit="skip"), chunks).frames
        assert brief(frames) == [(b"", "oversize"), (b"", "oversize"), b"[2]"]
        assert [frame.offset for frame in frames] == [0, 20, 34]
    # One that is cut is open to the end.
    for chunks in fragmentations(garbage + b'{"a":12'):
        frames = observe(limited(implementation, 12, on_limit="skip"), chunks).frames
        assert brief(frames) == [(b"", "oversize"), (b'{"a":12', "torn")]


def test_skip_finds_the_brace_that_ended_a_string_though_nothing_is_held(
    implementation: Implementation,
) -> None:
    """A frame that was cut in a string, the next one behind it, with every limit between."""
    for space in (b"", b" ", b"   ", b"\n "):
        stream = b'{"text":"cut here{' + space + b'"a":1}[2]'
        object_size = 7 + len(space)
        for limit in range(object_size, len(stream)):
            for chunks in fragmentations(stream):
                decoder = limited(implementation, limit, on_limit="skip")
                frames = observe(decoder, chunks).frames
                assert brief(frames[1:]) == [b"{" + space + b'"a":1}', b"[2]"]
                # The run is open to the byte that decides, after the object.
                fits = limit >= 17 + object_size
                assert frames[0] == (
                    SeenFrame(b'{"text":"cut here', "syntax")
                    if fits
                    else SeenFrame(b"", "oversize")
                )


def test_limit_does_not_stop_a_long_stream_of_short_frames(
    implementation: Implementation,
) -> None:
    for framing, first, unit in (
        ("concatenated", b"", b'{"a":1}   \n\n      {"b":2}'),
        ("ndjson", b"", b'{"a":1}\n       \n\n  {"b":2}\n'),
        ("array", b"[", b'{"a":1}       ,\n          {"b":2},'),
        ("json-seq", b"", b'\x1e\x1e        {"a":1}\n      \x1e{"b":2}\n'),
    ):
        stream = first + unit * 300
        decoder = limited(implementation, 8, framing)
        outcome = observe(decoder, of_size(stream, 99))
        assert outcome.error is None
        assert decoder.stats.frames == 600


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def test_depth_is_limited_by_max_depth_and_never_beyond_1024(
    implementation: Implementation,
) -> None:
    for max_depth, deepest in ((1, 1), (3, 3), (1023, 1023), (1024, 1024), (5000, 1024)):
        limits = Limits(max_depth=max_depth)
        for framing, prefix in zip(FRAMINGS, (b"", b"", b"[", b"\x1e"), strict=True):
            decoder = implementation.JSONStreamDecoder(framing=framing, limits=limits)
            (fits,) = decoder.feed(prefix + nested(deepest) + b"\n")
            assert fits.kind is None
            assert isinstance(fits.value, list)
            decoder.reset()
            too_deep = nested(deepest + 1)
            (frame,) = decoder.feed(prefix + too_deep + b"\n")
            assert (frame.raw, frame.kind) == (too_deep, "syntax")


def test_depth_counts_open_containers_and_not_brackets(implementation: Implementation) -> None:
    stream = b'[[],{},[{}],"[[[[",{"[[[[":[]}]'
    for max_depth, kind in ((3, None), (2, "syntax")):
        limits = Limits(max_depth=max_depth)
        for chunks in fragmentations(stream):
            decoder = implementation.JSONStreamDecoder(limits=limits)
            (frame,) = observe(decoder, chunks).frames
            assert (frame.raw, frame.kind) == (stream, kind)


def test_value_that_is_too_deep_leaves_the_stream_in_step(implementation: Implementation) -> None:
    decoder = implementation.JSONStreamDecoder(limits=Limits(max_depth=1))
    assert brief(decoder.feed(b"[[1]][2]3 {}")) == [(b"[[1]]", "syntax"), b"[2]", b"3", b"{}"]
    # An object that is too deep does not put it back in step.
    decoder.reset()
    frames = decoder.feed(b'x{"a":[]}{"b":1}[2]')
    assert brief(frames) == [(b'x{"a":[]}', "garbage"), b'{"b":1}', b"[2]"]
