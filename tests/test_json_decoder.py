"""`JSONStreamDecoder` as an object: its states, its counters, and what misuse does to it."""

from __future__ import annotations

import json
import pickle
import sys
from typing import Any

import pytest

from conftest import Implementation
from fragmentations import byte_by_byte, fragmentations
from frame_observations import (
    FRAMINGS,
    TWO,
    SeenFrame,
    brief,
    frame_all,
    observe,
    state_of,
    stats_of,
)
from observations import attempt
from seamstream import (
    JSONErrorCounts,
    JSONStats,
    LimitExceededError,
    Limits,
    StreamStateError,
)
from threads import run_threads

BOM = b"\xef\xbb\xbf"


# --- results


@pytest.mark.parametrize("framing", FRAMINGS)
def test_feed_gives_values_and_close_the_torn_one(
    implementation: Implementation, framing: str
) -> None:
    for chunks in fragmentations(TWO[framing]):
        decoder = implementation.JSONStreamDecoder(framing=framing)
        frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
        assert [frame.value for frame in frames] == [{"a": 1}, {"a": 2}]
        (torn,) = decoder.close()
        assert torn.torn
        assert (torn.raw, torn.kind, torn.parse_error) == (b'{"a":', None, "torn")
        assert torn.offset == len(TWO[framing]) - 5
        assert decoder.close() == ()
        assert stats_of(decoder) == {"bytes": len(TWO[framing]), "frames": 2, "torn": 1}


def test_framing_is_concatenated_unless_said_otherwise(implementation: Implementation) -> None:
    assert brief(frame_all(implementation, b'[1]{"a":2}"s"')) == [b"[1]", b'{"a":2}', b'"s"']


def test_feed_returns_a_tuple_that_is_often_empty(implementation: Implementation) -> None:
    decoder = implementation.JSONStreamDecoder()
    results = [decoder.feed(chunk) for chunk in (b"", b"[1", b"][2][", b"]")]
    assert {type(result) for result in results} == {tuple}
    assert list(map(brief, results)) == [[], [], [b"[1]", b"[2]"], [b"[]"]]
    assert type(decoder.close()) is tuple


def test_close_gives_all_that_the_end_settles_in_order(implementation: Implementation) -> None:
    for framing, tail, expected in (
        ("concatenated", b"x", [(b"x", "garbage")]),
        ("concatenated", b',x{"a":1} ', [(b",", "garbage"), (b"x", "garbage"), b'{"a":1}']),
        ("concatenated", b'x {"a": ', [(b"x", "garbage"), (b'{"a": ', "torn")]),
        ("concatenated", b"true \n", [b"true"]),
        ("concatenated", b"12", [(b"12", "torn")]),
        ("concatenated", b"12 ", [b"12"]),
        ("ndjson", b'{"a":1} \r', [b'{"a":1}']),
        ("ndjson", b"x ", [(b"x ", "torn")]),
        ("ndjson", b"12", [(b"12", "torn")]),
        ("ndjson", b"null", [b"null"]),
        ("array", b"[1", [(b"1", "torn")]),
        ("array", b"[[1] ", [b"[1]"]),
        ("array", b"[x ", [(b"x", "syntax")]),
        ("array", b"[] x", [(b"x", "garbage")]),
        ("array", b"{} ", [(b"{}", "garbage")]),
        ("json-seq", b"x ", [(b"x", "garbage")]),
        ("json-seq", b"\x1e[1] ", [b"[1]"]),
        ("json-seq", b"\x1etrue", [(b"true", "torn")]),
        ("json-seq", b"\x1e[1]x", [(b"[1]x", "syntax")]),
    ):
        for chunks in fragmentations(tail):
            frames = frame_all(implementation, *chunks, framing=framing)
            assert brief(frames) == expected, (framing, chunks)


def test_byte_order_mark_is_dropped_once_at_the_start(implementation: Implementation) -> None:
    for framing in FRAMINGS:
        stream = BOM + TWO[framing]
        for chunks in fragmentations(stream):
            decoder = implementation.JSONStreamDecoder(framing=framing)
            frames = observe(decoder, chunks).frames
            assert brief(frames) == [b'{"a":1}', b'{"a":2}', (b'{"a":', "torn")]
            assert frames[0].offset == 3 + TWO[framing].index(b"{")
            assert decoder.stats.bytes == len(stream)
        only = implementation.JSONStreamDecoder(framing=framing)
        assert only.feed(BOM) == only.close() == ()
        assert stats_of(only) == {"bytes": 3}
    twice = frame_all(implementation, BOM + BOM + b"1\n", framing="ndjson")
    assert twice == [SeenFrame(BOM + b"1", "syntax", 3)]


def test_partial_byte_order_mark_is_undecided_until_the_end_decides(
    implementation: Implementation,
) -> None:
    for framing in FRAMINGS:
        for partial in (b"\xef", b"\xef\xbb"):
            decoder = implementation.JSONStreamDecoder(framing=framing)
            decoder.feed(partial)
            assert (decoder.pending_bytes, decoder.at_boundary) == (0, False)
            assert decoder.stats.bytes == len(partial)
            (frame,) = decoder.close()
            assert (frame.raw, frame.offset) == (partial, 0)
            assert frame.torn == (framing == "ndjson")
    decoder = implementation.JSONStreamDecoder(framing="ndjson")
    decoder.feed(b"\xef\xbb")
    assert brief(decoder.feed(b"x\n1\n")) == [(b"\xef\xbbx", "syntax"), b"1"]


# --- counters and attributes


def test_stats_are_an_immutable_snapshot(implementation: Implementation) -> None:
    decoder = implementation.JSONStreamDecoder()
    before = decoder.stats
    assert (type(before), type(before.errors)) == (JSONStats, JSONErrorCounts)
    assert before == JSONStats()
    decoder.feed(b"[1],[")
    assert before == JSONStats()
    assert decoder.stats == JSONStats(bytes=5, frames=1, errors=JSONErrorCounts(garbage=1))
    with pytest.raises(AttributeError):
        before.bytes = 1
    with pytest.raises(AttributeError):
        before.errors.syntax = 1
    assert pickle.loads(pickle.dumps(decoder.stats)) == decoder.stats


def test_stats_count_every_kind_of_frame(implementation: Implementation) -> None:
    for framing, stream, expected in (
        ("concatenated", b"[1],\xff{} [", {"frames": 1, "garbage": 2}),
        ("concatenated", b"[1],[2", {"frames": 1, "garbage": 1, "torn": 1}),
        ("ndjson", b"1\nx\n\n[2]\n3,\n4", {"frames": 2, "syntax": 2, "torn": 1}),
        ("array", b"[,1 2,x,]]", {"frames": 2, "syntax": 1, "separator": 3, "garbage": 1}),
        ("json-seq", b"x\x1e1\n\x1e2\x1e3 4\x1e[", {"frames": 1, "garbage": 1, "truncated": 1}),
    ):
        for chunks in fragmentations(stream):
            decoder = implementation.JSONStreamDecoder(framing=framing)
            observe(decoder, chunks)
            counted = stats_of(decoder)
            assert counted.pop("bytes") == len(stream)
            if framing == "json-seq":
                expected = {**expected, "syntax": 1, "torn": 1}
            assert counted == expected, chunks


# What is pending after each byte; nothing is open where it is 0.
PENDING = [
    ("concatenated", b' {"a":1} 12 [2]', [0, 1, 2, 3, 4, 5, 6, 0, 0, 1, 2, 3, 1, 2, 0]),
    # What was given up is open until the byte after the object that ends it.
    ("concatenated", b'x{"a":1} ]1', [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
    ("concatenated", b'x{"a":1} [1]', [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 0]),
    ("concatenated", b",] [", [1, 2, 3, 1]),
    ("ndjson", b" [1]\r\nx \n\n 1", [0, 1, 2, 3, 4, 0, 1, 2, 0, 0, 0, 1]),
    ("array", b" [1 ,[2]\n,x ,] y", [0, 0, 1, 2, 0, 1, 2, 0, 0, 0, 1, 2, 0, 0, 0, 1]),
    ("json-seq", b"x\x1e[1]\ny\x1e 12 \x1e", [1, 0, 1, 2, 3, 0, 1, 0, 0, 1, 2, 3, 0]),
]


@pytest.mark.parametrize(("framing", "stream", "expected"), PENDING)
def test_pending_bytes_are_those_of_what_is_open(
    implementation: Implementation, framing: str, stream: bytes, expected: list[int]
) -> None:
    decoder = implementation.JSONStreamDecoder(framing=framing)
    pending = []
    for byte in byte_by_byte(stream):
        decoder.feed(byte)
        pending.append(decoder.pending_bytes)
        assert decoder.at_boundary == (pending[-1] == 0)
    assert pending == expected
    decoder.close()
    assert (decoder.pending_bytes, decoder.at_boundary) == (0, True)


def test_array_closed_tells_whether_its_own_bracket_was_read(
    implementation: Implementation,
) -> None:
    for framing in ("concatenated", "ndjson", "json-seq"):
        decoder = implementation.JSONStreamDecoder(framing=framing)
        assert decoder.array_closed is None
        observe(decoder, [b"[]"])
        assert decoder.array_closed is None
    decoder = implementation.JSONStreamDecoder(framing="array")
    closed = []
    for byte in byte_by_byte(b" [[1]\n] x]"):
        closed.append(decoder.array_closed)
        decoder.feed(byte)
    assert closed == [False] * 7 + [True] * 3
    decoder.close()
    assert decoder.array_closed is True
    decoder.reset()
    assert decoder.array_closed is False
    decoder.feed(b"[{}")
    decoder.close()
    assert decoder.array_closed is False


def test_decoders_share_nothing(implementation: Implementation) -> None:
    one, other = implementation.JSONStreamDecoder(), implementation.JSONStreamDecoder()
    one.feed(b'x{"a":')
    assert brief(other.feed(b"[1]")) == [b"[1]"]
    assert other.close() == ()


# --- states


def test_feed_after_close_is_refused_and_close_stays_empty(implementation: Implementation) -> None:
    decoder = implementation.JSONStreamDecoder()
    decoder.feed(b"[1]")
    assert decoder.close() == ()
    for _ in range(2):
        with pytest.raises(StreamStateError, match="closed"):
            decoder.feed(b"[2]")
    assert decoder.close() == ()
    assert stats_of(decoder) == {"bytes": 3, "frames": 1}


@pytest.mark.parametrize("framing", FRAMINGS)
def test_reset_begins_a_new_connection(implementation: Implementation, framing: str) -> None:
    stream = TWO[framing]
    fresh = state_of(implementation.JSONStreamDecoder(framing=framing))
    for ending in ("open", "closed", "failed", "held", "out of step"):
        limits = Limits(max_event_bytes=20)
        decoder = implementation.JSONStreamDecoder(framing=framing, limits=limits)
        decoder.feed(stream)
        if ending == "closed":
            decoder.close()
        elif ending == "failed":
            with pytest.raises(LimitExceededError):
                decoder.feed(b"x" * 20)
        elif ending == "held":
            decoder.reset()
            assert len(decoder.feed(stream + b'"' + b"x" * 20)) == 2
        elif ending == "out of step":
            decoder.feed(b"x")
        decoder.reset()
        assert state_of(decoder) == fresh
        # A byte order mark is at the start again.
        frames = decoder.feed(BOM + stream)
        assert [frame.value for frame in frames] == [{"a": 1}, {"a": 2}]
        assert frames[0].offset == 3 + stream.index(b"{")


def test_reset_keeps_the_options(implementation: Implementation) -> None:
    decoder = implementation.JSONStreamDecoder(
        framing="ndjson",
        limits=Limits(max_event_bytes=4, max_depth=1),
        on_limit="skip",
        loads=bytes.upper,
    )
    for _ in range(2):
        frames = decoder.feed(b'["a"]\nnull\n[[]]\n')
        assert brief(frames) == [(b"", "oversize"), b"null", (b"[[]]", "syntax")]
        assert frames[1].value == b"NULL"
        decoder.reset()
    with pytest.raises(TypeError):
        decoder.reset("")


# --- misuse


def test_constructor_refuses_wrong_arguments(implementation: Implementation) -> None:
    for wrong in (
        {"framing": None},
        {"framing": b"ndjson"},
        {"limits": 5},
        {"limits": None},
        {"on_limit": None},
        {"loads": 1},
        {"loads": "json"},
        {"unknown": 1},
        {"keep_wire": True},
    ):
        with pytest.raises(TypeError):
            implementation.JSONStreamDecoder(**wrong)
    with pytest.raises(TypeError):
        implementation.JSONStreamDecoder("ndjson")
    for name, wrong, valid in (
        ("framing", "jsonl", FRAMINGS),
        ("framing", "NDJSON", FRAMINGS),
        ("framing", "", FRAMINGS),
        ("on_limit", "raise", ("error", "skip")),
    ):
        with pytest.raises(ValueError, match=name) as caught:
            implementation.JSONStreamDecoder(**{name: wrong})
        assert all(choice in str(caught.value) for choice in valid)


def test_one_whole_text_in_a_chunk_is_no_reference_to_it(implementation: Implementation) -> None:
    """`bytes(b)` of exact `bytes` is the same object."""
    chunk = b'{"a": "' + b"x" * 100 + b'"}'
    before = sys.getrefcount(chunk)
    (frame,) = implementation.JSONStreamDecoder().feed(chunk)
    assert frame.raw == chunk
    assert frame.raw is not chunk
    assert sys.getrefcount(chunk) == before


# --- re-entry and threads


@pytest.mark.parametrize("padding", [0, 200_000])
def test_threads_in_one_decoder_are_refused_and_lose_nothing(
    implementation: Implementation, padding: int
) -> None:
    """Each call is taken whole or refused whole, also when the chunk is scanned without a lock."""
    decoder = implementation.JSONStreamDecoder(framing="ndjson", loads=json.loads)
    chunk = b'["' + b"y" * padding + b'"]\nx\n'
    rounds = 100 if padding else 800
    taken: list[Any] = []
    refused: list[StreamStateError] = []

    def work(number: int) -> None:
        for _ in range(rounds):
            frames, error = attempt(decoder.feed, chunk)
            if error is None:
                assert [frame.kind for frame in frames] == [None, "syntax"]
                taken.extend(frames)
            else:
                assert type(error) is StreamStateError
                refused.append(error)

    run_threads(4, work)
    assert len(taken) + 2 * len(refused) == 8 * rounds
    stats = decoder.stats
    assert stats.frames == stats.errors.syntax == len(taken) // 2
    assert stats.bytes == stats.frames * len(chunk)
    assert brief(decoder.feed(b"2\n")) == [b"2"]


def test_threads_that_use_everything_at_once_do_no_harm(implementation: Implementation) -> None:
    decoder = implementation.JSONStreamDecoder(limits=Limits(max_event_bytes=50))
    chunk = b'{"a":1},[2] x{"b":' + b"3" * 10

    def work(number: int) -> None:
        for _ in range(200):
            for call in (
                lambda: decoder.feed(chunk),
                lambda: list(decoder.iter([chunk, bytearray(chunk)])),
                decoder.close,
                decoder.reset,
            ):
                frames, error = attempt(call)
                assert error is None or isinstance(error, (StreamStateError, LimitExceededError))
                for frame in frames or ():
                    assert frame.kind or frame.torn or json.loads(frame.raw) == frame.value
            stats, error = attempt(lambda: decoder.stats)
            assert error is None or isinstance(error, StreamStateError)
            assert error is not None or isinstance(stats.bytes, int)

    run_threads(4, work)
    decoder.reset()
    assert brief(decoder.feed(b"[1]")) == [b"[1]"]
