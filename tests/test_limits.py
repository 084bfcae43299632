"""`Limits`, and what happens to an event that outgrows them."""

from __future__ import annotations

import dataclasses
import pickle
import sys
from typing import Any

import pytest

from conftest import Implementation
from fragmentations import byte_by_byte, fragmentations, of_size
from observations import observe, stats_of
from seamstream import LimitExceededError, Limits, StreamStateError


def limited(implementation: Implementation, max_event_bytes: int, **options: Any) -> Any:
    return implementation.SSEDecoder(limits=Limits(max_event_bytes=max_event_bytes), **options)


def test_limits_have_the_documented_defaults() -> None:
    assert Limits() == Limits(max_event_bytes=8 * 1024 * 1024, max_depth=1024)


def test_limits_are_frozen_hashable_and_without_dict() -> None:
    limits = Limits(max_event_bytes=5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        limits.max_event_bytes = 6  # type: ignore[misc]
    assert hash(limits) == hash(Limits(max_event_bytes=5))
    assert not hasattr(limits, "__dict__")
    assert pickle.loads(pickle.dumps(limits)) == limits


@pytest.mark.parametrize("name", ["max_event_bytes", "max_depth"])
def test_limits_refuse_what_is_no_limit(name: str) -> None:
    for wrong in (True, 1.0, "8", None, b"8"):
        with pytest.raises(TypeError, match=name):
            Limits(**{name: wrong})
    for wrong in (0, -1, sys.maxsize + 1):
        with pytest.raises(ValueError, match=name):
            Limits(**{name: wrong})
    assert getattr(Limits(**{name: 1}), name) == 1
    assert getattr(Limits(**{name: sys.maxsize}), name) == sys.maxsize


def test_decoder_takes_the_largest_limit(implementation: Implementation) -> None:
    (event,) = limited(implementation, sys.maxsize).feed(b"data: x\n\n")
    assert event.data == "x"


def test_limit_counts_the_block_and_not_its_empty_line(implementation: Implementation) -> None:
    stream = b"data: 1234\n\n"  # ten bytes and a terminator, then the empty line
    assert observe(limited(implementation, 11), [stream]).events[0].data == "1234"
    for chunks in fragmentations(stream):
        outcome = observe(limited(implementation, 10), chunks)
        assert outcome.events == []
        assert outcome.error == ("LimitExceededError", 10, 11, 10)


def test_limit_is_exceeded_at_the_first_byte_past_it(implementation: Implementation) -> None:
    stream = b":comment\n\n\ndata: 123456789"  # the block begins at byte 11
    for chunks in fragmentations(stream):
        decoder = limited(implementation, 8)
        outcome = observe(decoder, chunks)
        assert outcome.error == ("LimitExceededError", 8, 9, 19), chunks
        assert stats_of(decoder) == {"bytes": 19, "comments": 1}


def test_limit_error_is_raised_by_the_very_byte(implementation: Implementation) -> None:
    decoder = limited(implementation, 8)
    for byte in byte_by_byte(b"data: 12"):
        assert decoder.feed(byte) == ()
    assert decoder.pending_bytes == 8
    with pytest.raises(LimitExceededError):
        decoder.feed(b"3")
    assert decoder.pending_bytes == 0


def test_limit_counts_comments_inside_a_block_but_none_before(
    implementation: Implementation,
) -> None:
    before = b": a long comment before\n" * 100
    (event,) = observe(limited(implementation, 8), [before + b"data: x\n\n"]).events
    assert event.data == "x"
    assert event.offset == 2400
    inside = b"data: x\n:c\n\n"  # eight bytes, then three of comment
    assert observe(limited(implementation, 11), [inside]).events[0].data == "x"
    assert observe(limited(implementation, 10), [inside]).error == (
        "LimitExceededError",
        10,
        11,
        10,
    )


def test_limit_counts_a_swallowed_lf_after_a_field_line(implementation: Implementation) -> None:
    stream = b"data: x\r\n\r\n"
    assert observe(limited(implementation, 9), [stream]).events[0].data == "x"
    for chunks in fragmentations(stream):
        outcome = observe(limited(implementation, 8), chunks)
        assert outcome.error == ("LimitExceededError", 8, 9, 8), chunks


def test_limit_never_counts_an_lf_after_the_cr_that_dispatches(
    implementation: Implementation,
) -> None:
    stream = b"data: x\r\r\ndata: y\r\r\n"
    for chunks in fragmentations(stream):
        outcome = observe(limited(implementation, 8), chunks)
        assert [event.data for event in outcome.events] == ["x", "y"]
        assert outcome.error is None


def test_limit_counts_leading_comments_with_keep_wire_only(
    implementation: Implementation,
) -> None:
    stream = b":12\ndata: x\n\n"  # four bytes of comment and eight of field
    assert observe(limited(implementation, 8), [stream]).error is None
    assert observe(limited(implementation, 12, keep_wire=True), [stream]).error is None
    for chunks in fragmentations(stream):
        outcome = observe(limited(implementation, 11, keep_wire=True), chunks)
        assert outcome.error == ("LimitExceededError", 11, 12, 11)


def test_limit_never_counts_a_byte_order_mark(implementation: Implementation) -> None:
    stream = "\N{ZERO WIDTH NO-BREAK SPACE}data: x\n\n".encode()
    for keep_wire in (False, True):
        for chunks in fragmentations(stream):
            decoder = limited(implementation, 8, keep_wire=keep_wire)
            assert [event.offset for event in observe(decoder, chunks).events] == [3]


def test_bytes_that_turn_out_to_be_no_byte_order_mark_count_at_once(
    implementation: Implementation,
) -> None:
    decoder = limited(implementation, 2)
    assert decoder.feed(b"\xef\xbb") == ()
    assert decoder.pending_bytes == 0
    with pytest.raises(LimitExceededError) as caught:
        decoder.feed(b"x")
    assert (caught.value.offset, caught.value.observed) == (2, 3)


def test_complete_events_come_first_and_the_error_with_the_next_call(
    implementation: Implementation,
) -> None:
    stream = b"id: 1\ndata: ok\n\nid: 2\nretry: 9\ndata: far too long\n\ndata: never\n\n"
    for call in ("feed", "close"):
        decoder = limited(implementation, 20)
        events = decoder.feed(stream)
        assert [event.data for event in events] == ["ok"]
        # At the error's offset: the second block begins at byte 16.
        assert decoder.stats.bytes == 36
        assert decoder.last_event_id == "1"
        assert decoder.reconnection_time_ms == 9
        with pytest.raises(LimitExceededError) as caught:
            decoder.feed(b"data: not looked at\n\n") if call == "feed" else decoder.close()
        error = caught.value
        assert (error.limit, error.observed, error.offset) == (20, 21, 36)
        assert decoder.stats.bytes == 36
        assert stats_of(decoder) == {"bytes": 36, "events": 1}


def test_held_error_comes_before_a_wrong_argument(implementation: Implementation) -> None:
    decoder = limited(implementation, 8)
    assert len(decoder.feed(b"data: x\n\ndata: 1234567\n\n")) == 1
    with pytest.raises(LimitExceededError):
        decoder.feed("no bytes at all")
    with pytest.raises(StreamStateError):
        decoder.feed("no bytes at all")


def test_decoder_stays_failed_after_the_error_until_reset(implementation: Implementation) -> None:
    decoder = limited(implementation, 4, last_event_id="7")
    with pytest.raises(LimitExceededError):
        decoder.feed(b"data: x")
    for _ in range(3):
        with pytest.raises(StreamStateError, match=r"reset\(\)"):
            decoder.feed(b"")
    assert decoder.close() == ()
    assert decoder.last_event_id == "7"
    assert decoder.pending_bytes == 0
    decoder.reset()
    assert decoder.feed(b"\n") == ()
    assert stats_of(decoder) == {"bytes": 1}


def test_skip_drops_the_event_and_goes_on_after_its_empty_line(
    implementation: Implementation,
) -> None:
    stream = (
        b"id: 1\ndata: ok\n\n"
        b"id: 2\nretry: 9\nevent: e\ndata: far too long\nid: 3\nretry: 10\nbad\n:c\nid: \0\n\n"
        b"data: next\n\n"
    )
    for chunks in fragmentations(stream):
        decoder = limited(implementation, 24, on_limit="skip")
        outcome = observe(decoder, chunks)
        assert outcome.error is None
        assert [(e.event, e.data, e.id, e.retry) for e in outcome.events] == [
            ("message", "ok", "1", None),
            ("message", "next", "1", None),
        ]
        assert decoder.last_event_id == "1"
        # Its line had ended before the limit; the retry after it is not looked at.
        assert decoder.reconnection_time_ms == 9
        assert stats_of(decoder) == {"bytes": len(stream), "events": 2, "skipped": 1}


def test_skip_counts_what_it_interpreted_before_the_limit(implementation: Implementation) -> None:
    stream = b"bad\n:c\nretry: x\ndata: 1\nbad\n:c\nretry: x\n\n"
    for chunks in fragmentations(stream):
        decoder = limited(implementation, 24, on_limit="skip")
        assert observe(decoder, chunks).events == []
        assert stats_of(decoder) == {
            "bytes": len(stream),
            "comments": 1,
            "ignored_lines": 1,
            "invalid_fields": 1,
            "skipped": 1,
        }


def test_skip_at_the_end_of_input_is_not_torn(implementation: Implementation) -> None:
    for tail in (b"", b"\n", b"\nid: 4\n", b"\n:c"):
        for chunks in fragmentations(b"id: 3\ndata: too long" + tail):
            decoder = limited(implementation, 16, on_limit="skip")
            outcome = observe(decoder, chunks)
            assert outcome.events == []
            assert outcome.error is None
            assert decoder.stats.skipped == 1
            assert decoder.stats.torn == 0
            assert decoder.last_event_id == ""


def test_skip_holds_nothing_and_is_at_no_boundary_until_the_empty_line(
    implementation: Implementation,
) -> None:
    decoder = limited(implementation, 8, on_limit="skip")
    decoder.feed(b"data: 12")
    assert decoder.pending_bytes == 8
    for byte in byte_by_byte(b"3\ndata: 4\r\n"):
        assert decoder.feed(byte) == ()
        assert decoder.pending_bytes == 0
        assert not decoder.at_boundary
    assert decoder.stats.skipped == 1
    assert decoder.feed(b"\n") == ()
    assert decoder.at_boundary


def test_skip_drops_leading_comments_that_alone_outgrow_the_limit_with_keep_wire(
    implementation: Implementation,
) -> None:
    stream = b":123\n:456\ndata: a\n\ndata: b\n\n"
    for chunks in fragmentations(stream):
        decoder = limited(implementation, 9, on_limit="skip", keep_wire=True)
        outcome = observe(decoder, chunks)
        assert [event.data for event in outcome.events] == ["b"]
        assert outcome.events[0].wire == b"data: b\n\n"
        # The terminator of the second comment is the first byte past the limit: never looked at.
        assert stats_of(decoder) == {
            "bytes": len(stream),
            "events": 1,
            "comments": 1,
            "skipped": 1,
        }


def test_skip_goes_on_from_block_to_block(implementation: Implementation) -> None:
    stream = b"data: 12345678\n\n" * 3 + b"data: 1\n\n" + b"data: 12345678\r\n\r\n" * 2
    for chunks in fragmentations(stream):
        decoder = limited(implementation, 10, on_limit="skip")
        outcome = observe(decoder, chunks)
        assert [event.data for event in outcome.events] == ["1"]
        assert decoder.stats.skipped == 5


def test_limit_does_not_stop_a_long_stream_of_short_events_or_comments(
    implementation: Implementation,
) -> None:
    stream = b"data: 1234\n\n: keep-alive, longer than the limit\n\n" * 1000
    decoder = limited(implementation, 11)
    outcome = observe(decoder, of_size(stream, 999))
    assert len(outcome.events) == 1000
    assert outcome.error is None
    assert decoder.stats.comments == 1000
