"""`SSEDecoder` as an object: its states, its counters, and what misuse does to it."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from conftest import Implementation
from fragmentations import byte_by_byte, fragmentations
from observations import attempt, decode, observe, state_of, stats_of
from seamstream import LimitExceededError, Limits, Stats, StreamStateError
from threads import run_threads
from whole_stream import PROFILES

# --- results


def test_feed_returns_a_tuple_that_is_often_empty(implementation: Implementation) -> None:
    decoder = implementation.SSEDecoder()
    results = [decoder.feed(chunk) for chunk in (b"", b"data: a\n", b"\ndata: b\n\nda", b"\n")]
    assert {type(result) for result in results} == {tuple}
    assert [[event.data for event in result] for result in results] == [[], [], ["a", "b"], []]
    assert type(decoder.close()) is tuple


def test_feed_dispatches_at_cr_and_swallows_lf(implementation: Implementation) -> None:
    decoder = implementation.SSEDecoder()
    counts = [len(decoder.feed(byte)) for byte in byte_by_byte(b"data: a\r\n\r\ndata: b\r\r\n\n")]
    assert counts == [0] * 9 + [1] + [0] * 9 + [1] + [0] * 2
    assert decoder.stats.empty_blocks == 0
    assert decoder.stats.events == 2


def test_feed_ends_an_event_at_every_mix_of_terminators(implementation: Implementation) -> None:
    for first in (b"\n", b"\r", b"\r\n"):
        for second in (b"\n", b"\r", b"\r\n"):
            # CR then LF is one terminator, so this mix needs one more.
            third = b"\n" if (first, second) == (b"\r", b"\n") else b""
            stream = b"data: 1" + first + b"data: 2" + first + second + third + b"data: 3\n\n"
            for chunks in fragmentations(stream):
                events = decode(implementation, *chunks)
                assert [event.data for event in events] == ["1\n2", "3"], (first, second, chunks)


def test_close_reports_unfinished_event_as_torn(implementation: Implementation) -> None:
    for tail in (b"d", b"data: x", b"data: x\n", b"data: x\r", b"retry: 5\n", b"nope\n:c\n: d"):
        stream = b"data: a\n\n: c\n" + tail
        for chunks in fragmentations(stream):
            decoder = implementation.SSEDecoder()
            fed = [event for chunk in chunks for event in decoder.feed(chunk)]
            assert [event.raw for event in fed] == [b"a"]
            (torn,) = decoder.close()
            assert torn.torn
            assert (torn.raw, torn.offset) == (tail, 13)
            assert decoder.close() == ()
            assert decoder.stats.torn == 1


def test_close_reports_nothing_after_comments_and_blank_lines(
    implementation: Implementation,
) -> None:
    for tail in (b"", b":", b": c", b": c\n", b"\n\n", b"\r", b"\r\n", b": c\r\n: d"):
        decoder = implementation.SSEDecoder()
        decoder.feed(b"data: a\n\n" + tail)
        assert decoder.close() == ()
        assert decoder.stats.torn == 0


def test_close_counts_ended_lines_only(implementation: Implementation) -> None:
    decoder = implementation.SSEDecoder()
    decoder.feed(b":1\n\nnope\n:2\nretry: x\n")
    decoder.feed(b":3")
    decoder.close()
    assert stats_of(decoder) == {
        "bytes": 23,
        "comments": 2,
        "ignored_lines": 1,
        "invalid_fields": 1,
        "torn": 1,
    }


def test_partial_byte_order_mark_is_undecided_until_the_end_decides(
    implementation: Implementation,
) -> None:
    for partial in (b"\xef", b"\xef\xbb"):
        decoder = implementation.SSEDecoder()
        decoder.feed(partial)
        assert decoder.pending_bytes == 0
        assert not decoder.at_boundary
        (torn,) = decoder.close()
        assert (torn.raw, torn.offset, torn.replaced, torn.data) == (partial, 0, 1, "\ufffd")


def test_byte_order_mark_is_dropped_once_at_the_start(implementation: Implementation) -> None:
    stream = "\ufeffdata: a\n\n\ufeffdata: b\n\ndata: \ufeffc\n\n".encode()
    for chunks in fragmentations(stream):
        decoder = implementation.SSEDecoder()
        outcome = observe(decoder, chunks)
        assert [event.data for event in outcome.events] == ["a", "\ufeffc"]
        assert stats_of(decoder) == {
            "bytes": len(stream),
            "events": 2,
            "ignored_lines": 1,
            "empty_blocks": 1,
        }
    only = implementation.SSEDecoder()
    assert only.feed("\ufeff".encode()) == ()
    assert not only.at_boundary
    assert only.close() == ()
    assert stats_of(only) == {"bytes": 3}


def test_flush_ends_the_last_line_and_the_block(implementation: Implementation) -> None:
    for tail, expected in [
        (b"event: e\nid: 9\nretry: 5\ndata: x", [("e", "x", "9", 5)]),
        (b"data: x\n", [("message", "x", "1", None)]),
        (b"data: x\r\nid: 9", [("message", "x", "9", None)]),
        (b"data: x\n: c", [("message", "x", "1", None)]),
        (b"id: 9\n", []),
        (b"nope", []),
        (b": c", []),
        (b"", []),
    ]:
        stream = b"id: 1\ndata: a\n\n" + tail
        for chunks in fragmentations(stream):
            decoder = implementation.SSEDecoder(on_torn="flush")
            outcome = observe(decoder, chunks)
            assert [(e.event, e.data, e.id, e.retry) for e in outcome.events[1:]] == expected
            assert not any(event.torn for event in outcome.events)
            assert decoder.stats.torn == 0
            assert decoder.stats.events == 1 + len(expected)
            assert decoder.last_event_id == ("9" if b"id: 9" in tail else "1")


def test_flush_counts_the_unended_line_of_an_open_block(implementation: Implementation) -> None:
    for tail, expected in [
        (b"nope", {"ignored_lines": 1, "empty_blocks": 1}),
        (b"data: x\n:c", {"comments": 1, "events": 1}),
        (b"retry: x", {"invalid_fields": 1, "empty_blocks": 1}),
        (b"\xef\xbb", {"ignored_lines": 1, "empty_blocks": 1}),
        (b":c", {}),
    ]:
        decoder = implementation.SSEDecoder(on_torn="flush")
        observe(decoder, [tail])
        assert stats_of(decoder) == {"bytes": len(tail), **expected}


# --- counters and attributes


def test_stats_are_an_immutable_snapshot(implementation: Implementation) -> None:
    decoder = implementation.SSEDecoder()
    before = decoder.stats
    assert type(before) is Stats
    assert before == Stats()
    decoder.feed(b":c\ndata\n\n")
    assert before == Stats()
    assert decoder.stats == Stats(bytes=9, events=1, comments=1)
    with pytest.raises(AttributeError):
        before.bytes = 1
    assert pickle.loads(pickle.dumps(decoder.stats)) == decoder.stats


def test_stats_count_every_kind_of_line(implementation: Implementation) -> None:
    stream = (
        b":one\n:\n"
        b"nope\nDATA: x\ndata : x\n\n"
        b"retry\nretry: \nretry: -1\nretry: 1.5\nretry:  5\nid: a\0b\n\n"
        b"retry: 7\nid: 4\n\n"
        b"data: x\n\n\n\n"
    )
    for chunks in fragmentations(stream):
        decoder = implementation.SSEDecoder()
        observe(decoder, chunks)
        assert stats_of(decoder) == {
            "bytes": len(stream),
            "events": 1,
            "comments": 2,
            "ignored_lines": 3,
            "invalid_fields": 6,
            "empty_blocks": 3,
        }
        assert decoder.last_event_id == "4"
        assert decoder.reconnection_time_ms == 7


def test_retry_takes_ascii_digits_only(implementation: Implementation) -> None:
    for value in ("٣", "１", "²", "1_0", "+1", " 1", "1 ", "0x1", "1\0"):
        decoder = implementation.SSEDecoder()
        (event,) = decoder.feed(f"retry: {value}\ndata\n\n".encode())
        assert event.retry is None
        assert decoder.reconnection_time_ms is None
        assert decoder.stats.invalid_fields == 1


def test_last_event_id_is_committed_by_an_empty_line_only(implementation: Implementation) -> None:
    decoder = implementation.SSEDecoder(last_event_id="start")
    ids = []
    for chunk in (
        b"id: 1\n",
        b"\n",
        b"id: 2\ndata: x\n\n",
        b"id\n",
        b"\n",
        b"id: 3\nid: \0\n",
        b"\n",
    ):
        decoder.feed(chunk)
        ids.append(decoder.last_event_id)
    assert ids == ["start", "1", "2", "2", "", "", "3"]


def test_events_carry_the_id_the_decoder_was_given(implementation: Implementation) -> None:
    decoder = implementation.SSEDecoder(last_event_id="é🚀")
    first, second = decoder.feed(b"data: a\n\nid\ndata: b\n\n")
    assert (first.id, second.id) == ("é🚀", "")


def test_reconnection_time_counts_at_its_lines_end(implementation: Implementation) -> None:
    decoder = implementation.SSEDecoder()
    times = []
    for chunk in (b"retry: 10", b"0", b"\r", b"\nretry: x\n", b"retry: 5", b""):
        decoder.feed(chunk)
        times.append(decoder.reconnection_time_ms)
    assert times == [None, None, 100, 100, 100, 100]
    decoder.close()
    assert decoder.reconnection_time_ms == 100


def test_pending_bytes_count_from_the_first_field_line(implementation: Implementation) -> None:
    stream = b": c\n\ndata: a\r\n: c\r\n\r\nda"
    decoder = implementation.SSEDecoder()
    pending = []
    for byte in byte_by_byte(stream):
        decoder.feed(byte)
        pending.append(decoder.pending_bytes)
    assert pending == [0] * 5 + list(range(1, 15)) + [0, 0, 1, 2]
    decoder.close()
    assert decoder.pending_bytes == 0


def test_pending_bytes_count_leading_comments_with_keep_wire(
    implementation: Implementation,
) -> None:
    decoder = implementation.SSEDecoder(keep_wire=True)
    pending = []
    for byte in byte_by_byte(b": c\n\r\n:d\nid\n\n"):
        decoder.feed(byte)
        pending.append(decoder.pending_bytes)
    assert pending == [1, 2, 3, 4, 0, 0, 1, 2, 3, 4, 5, 6, 0]


def test_at_boundary_tells_where_a_comment_may_be_written(implementation: Implementation) -> None:
    decoder = implementation.SSEDecoder()
    assert decoder.at_boundary
    at_boundary = ""
    stream = b"\n: c\r\n:\ndata: a\r\n\r\nid"
    for byte in byte_by_byte(stream):
        decoder.feed(byte)
        at_boundary += "y" if decoder.at_boundary else "."
    assert at_boundary == "y" + "...yy" + ".y" + "........." + "yy" + ".."


def test_memory_of_the_stream_is_not_in_the_counters_of_the_next(
    implementation: Implementation,
) -> None:
    one, other = implementation.SSEDecoder(), implementation.SSEDecoder()
    one.feed(b"id: 1\nretry: 5\ndata: x\n\ndata: half")
    other.feed(b" of it\n\n")
    assert (other.last_event_id, other.reconnection_time_ms) == ("", None)
    assert other.close() == ()


# --- states


def test_feed_after_close_is_refused_and_close_stays_empty(implementation: Implementation) -> None:
    decoder = implementation.SSEDecoder()
    decoder.feed(b"id: 1\ndata: x\n\n")
    assert decoder.close() == ()
    for _ in range(2):
        with pytest.raises(StreamStateError, match="closed"):
            decoder.feed(b"data: y\n\n")
    assert decoder.close() == ()
    assert decoder.last_event_id == "1"
    assert decoder.stats == Stats(bytes=15, events=1)


def test_reset_begins_a_new_connection(implementation: Implementation) -> None:
    for ending in ("open", "torn", "closed", "failed", "held"):
        decoder = implementation.SSEDecoder(
            limits=Limits(max_event_bytes=20), keep_wire=True, last_event_id="0"
        )
        decoder.feed(b"retry: 9\nid: 1\n\n")
        if ending == "torn":
            decoder.feed(b"event: e\ndata: half")
            decoder.close()
        elif ending == "closed":
            decoder.close()
        elif ending == "failed":
            with pytest.raises(LimitExceededError):
                decoder.feed(b"data: " + b"x" * 20)
        elif ending == "held":
            assert len(decoder.feed(b"data\n\ndata: " + b"x" * 20)) == 1
        else:
            decoder.feed(b"event: e\ndata: half\r")
        decoder.reset("7")
        assert decoder.stats == Stats()
        assert decoder.pending_bytes == 0
        assert decoder.at_boundary
        assert decoder.last_event_id == "7"
        assert decoder.reconnection_time_ms == 9
        # A byte order mark is at the start again, and an LF is not one after a CR.
        (event,) = decoder.feed("\ufeff\ndata: x\n\n".encode())
        assert (event.event, event.data, event.id, event.offset) == ("message", "x", "7", 4)
        assert event.wire == b"data: x\n\n"
        decoder.reset()
        assert decoder.last_event_id == ""


def test_reset_keeps_the_options(implementation: Implementation) -> None:
    decoder = implementation.SSEDecoder(
        limits=Limits(max_event_bytes=10), on_limit="skip", on_torn="flush", loads=bytes.upper
    )
    decoder.reset()
    events = [*decoder.feed(b"data: too long\n\ndata: ab"), *decoder.close()]
    assert [event.value for event in events] == [b"AB"]


def test_reset_takes_a_str_only(implementation: Implementation) -> None:
    decoder = implementation.SSEDecoder()
    decoder.feed(b"id: 1\n\ndata: x\n")
    before = state_of(decoder)
    for wrong in (None, b"1", 1):
        with pytest.raises(TypeError):
            decoder.reset(wrong)
    assert state_of(decoder) == before


# --- misuse


def test_constructor_refuses_wrong_arguments(implementation: Implementation) -> None:
    for wrong in (
        {"limits": 5},
        {"limits": None},
        {"limits": {"max_event_bytes": 5}},
        {"last_event_id": None},
        {"last_event_id": b"1"},
        {"loads": 1},
        {"unknown": 1},
    ):
        with pytest.raises(TypeError):
            implementation.SSEDecoder(**wrong)
    with pytest.raises(TypeError):
        implementation.SSEDecoder(Limits())
    for name, wrong, valid in (
        ("on_limit", "raise", ("error", "skip")),
        ("on_torn", "drop", ("report", "flush")),
        ("profile", "openai ", PROFILES),
    ):
        with pytest.raises(ValueError, match=name) as caught:
            implementation.SSEDecoder(**{name: wrong})
        assert all(choice in str(caught.value) for choice in valid)


# --- re-entry and threads


@pytest.mark.parametrize("padding", [0, 200_000])
def test_threads_in_one_decoder_are_refused_and_lose_nothing(
    implementation: Implementation, padding: int
) -> None:
    """Each call is taken whole or refused whole, also when the chunk is scanned without a lock."""
    decoder = implementation.SSEDecoder()
    chunk = b":" + b"c" * padding + b"\nid: 1\ndata: x\n\n"
    taken: list[Any] = []
    refused: list[StreamStateError] = []

    def work(number: int) -> None:
        for _ in range(300 if padding else 1500):
            events, error = attempt(decoder.feed, chunk)
            if error is None:
                taken.extend(events)
            else:
                assert type(error) is StreamStateError
                refused.append(error)

    run_threads(4, work)
    assert {event.data for event in taken} == {"x"}
    stats = decoder.stats
    assert stats.events == stats.comments == len(taken)
    assert stats.bytes == len(taken) * len(chunk)
    assert len(taken) + len(refused) == 4 * (300 if padding else 1500)
    (event,) = decoder.feed(b"data: still in order\n\n")
    assert event.data == "still in order"


def test_threads_that_use_everything_at_once_do_no_harm(implementation: Implementation) -> None:
    decoder = implementation.SSEDecoder(limits=Limits(max_event_bytes=50), keep_wire=True)
    chunk = b"id: 1\ndata: x\n\n:c\ndata: half " + b"y" * 10

    def work(number: int) -> None:
        for _ in range(400):
            for call in (
                lambda: decoder.feed(chunk),
                lambda: list(decoder.iter([chunk, bytearray(chunk)])),
                decoder.close,
                decoder.reset,
            ):
                events, error = attempt(call)
                assert error is None or isinstance(error, (StreamStateError, LimitExceededError))
                assert all(event.raw[:1] in b"xdh" for event in events or ())
            for name in ("stats", "last_event_id"):
                value, error = attempt(getattr, decoder, name)
                assert error is None or isinstance(error, StreamStateError)
                assert error is not None or value in ("", "1") or isinstance(value.bytes, int)

    run_threads(4, work)
    decoder.reset()
    assert [event.data for event in decoder.feed(b"data: after\n\n")] == ["after"]


def test_threads_may_share_events(implementation: Implementation) -> None:
    decoder = implementation.SSEDecoder(loads=lambda payload: payload.decode())
    events = decoder.feed(b"".join(f"data: [é {i}\n\n".encode() for i in range(500)))
    expected = [f"[é {i}" for i in range(500)]

    def work(number: int) -> None:
        assert [event.data for event in events] == expected
        assert [event.value for event in events] == expected
        assert {event.parse_error for event in events} == {None}
        assert len({hash(event) for event in events}) == 500

    run_threads(4, work)
