"""What each profile makes of a block without data, of an unnamed event and of a torn tail."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import seamstream
from conftest import Implementation
from fragmentations import byte_by_byte, fragmentations, two_way_splits
from observations import attempt, decode, observe, seen, stats_of
from seamstream import EventStream, LimitExceededError, Limits
from seamstream.profiles import Profile
from stream_strategies import cut_streams
from whole_stream import PROFILES

# What one event is, in the tables: its type (DEFAULT when none is named), data, id, retry, offset.
DEFAULT = "the default"
ANY_VALUE = ("httpx_sse", "openai", "anthropic")
NOTHING: list[Any] = []


def empty(offset: int, event: str = DEFAULT, id: str = "", retry: int | None = None) -> Any:
    return (event, "", id, retry, offset)


# A stream; what is an event of it under no rule, with any field, and with any value.
TABLE: list[tuple[bytes, list[Any], list[Any], list[Any]]] = [
    # Nothing but data is data.
    (b"", NOTHING, NOTHING, NOTHING),
    (b"\n\r\n\r\r", NOTHING, NOTHING, NOTHING),
    (b": ping\n\n", NOTHING, NOTHING, NOTHING),
    (b"data\n\n", [empty(0)], [empty(0)], [empty(0)]),
    (b"data:\ndata:\n\n", *[[(DEFAULT, "\n", "", None, 0)]] * 3),
    (b"event: e\nid: 1\ndata: x\nretry: 5\n\n", *[[("e", "x", "1", 5, 0)]] * 3),
    # One field of each kind, and its empty form.
    (b"event: e\n\n", NOTHING, [empty(0, "e")], [empty(0, "e")]),
    (b"event:\n\n", NOTHING, [empty(0)], NOTHING),
    (b"event\n\n", NOTHING, [empty(0)], NOTHING),
    (b"event: e\nevent: \n\n", NOTHING, [empty(0)], NOTHING),
    (b"event: \nevent: e\n\n", NOTHING, [empty(0, "e")], [empty(0, "e")]),
    (b"retry: 3000\n\n", NOTHING, [empty(0, retry=3000)], [empty(0, retry=3000)]),
    (b"retry: 0\n\n", NOTHING, [empty(0, retry=0)], [empty(0, retry=0)]),
    (b"id: 7\n\n", NOTHING, [empty(0, id="7")], [empty(0, id="7")]),
    (b"id\n\n", NOTHING, [empty(0)], NOTHING),
    (b"id: 7\nid\n\n", NOTHING, [empty(0)], NOTHING),
    # What is ignored is no field, and takes nothing back.
    (b"retry\n\n", NOTHING, NOTHING, NOTHING),
    (b"retry: +5\nid: \0\nfoo: bar\nDATA: x\n\n", NOTHING, NOTHING, NOTHING),
    (b"id: 7\nid: 8\0\nretry: 1\nretry: x\n\n", NOTHING, *[[empty(0, id="7", retry=1)]] * 2),
    (b"\xef\xbb\xbfid: 7\n\n", NOTHING, [empty(3, id="7")], [empty(3, id="7")]),
    (b"\xef\xbb\xbf\xef\xbb\xbfid: 7\n\n", NOTHING, NOTHING, NOTHING),
    # Once there is an id, every empty line.
    (
        b"id: 7\n\n\n\r\n: ping\n\nfoo\n\n",
        NOTHING,
        [empty(0, id="7")],
        [empty(at, id="7") for at in (0, 7, 8, 17, 18)],
    ),
    (
        b"id: 7\ndata: x\n\n\n",
        [(DEFAULT, "x", "7", None, 0)],
        [(DEFAULT, "x", "7", None, 0)],
        [(DEFAULT, "x", "7", None, 0), empty(15, id="7")],
    ),
    (
        b"id: 7\r\rid:\r\r\rdata: x\r\r\r",
        [(DEFAULT, "x", "", None, 13)],
        [empty(0, id="7"), empty(7), (DEFAULT, "x", "", None, 13)],
        [empty(0, id="7"), (DEFAULT, "x", "", None, 13)],
    ),
    (
        b"retry: 5\n\n\n: c\nevent: e\n\ndata: x\n\n",
        [(DEFAULT, "x", "", None, 25)],
        *[[empty(0, retry=5), empty(15, "e"), (DEFAULT, "x", "", None, 25)]] * 2,
    ),
]


def expected_events(
    profile: str, dropped: list[Any], any_field: list[Any], any_value: list[Any]
) -> list[Any]:
    events = {"httpx2": any_field, "whatwg": dropped, "sseclient_py": dropped}
    unnamed = None if profile in ("openai", "anthropic") else "message"
    return [
        (unnamed if event[0] is DEFAULT else event[0], *event[1:])
        for event in events.get(profile, any_value)
    ]


def outline(events: list[Any]) -> list[Any]:
    return [(e.event, e.data, e.id, e.retry, e.offset) for e in events]


@pytest.fixture(params=PROFILES)
def profile(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_names_of_profiles_are_those_of_the_type() -> None:
    assert get_args(Profile) == PROFILES


@pytest.mark.parametrize("keep_wire", [False, True])
@pytest.mark.parametrize("row", TABLE, ids=lambda row: repr(row[0]))
def test_events_are_those_of_the_profile_at_every_cut(
    implementation: Implementation, profile: str, row: Any, keep_wire: bool
) -> None:
    stream, *choices = row
    expected = expected_events(profile, *choices)
    whole = observe(implementation.SSEDecoder(profile=profile, keep_wire=keep_wire), [stream])
    assert outline(whole.events) == expected
    assert [e.raw for e in whole.events] == [e.data.encode() for e in whole.events]
    assert not any(e.is_done or e.torn for e in whole.events)
    for chunks in fragmentations(stream):
        decoder = implementation.SSEDecoder(profile=profile, keep_wire=keep_wire)
        assert observe(decoder, chunks) == whole
    standard = implementation.SSEDecoder()
    observe(standard, [stream])
    # How many blocks have no data is a fact of the stream.
    assert decoder.stats.empty_blocks == standard.stats.empty_blocks
    assert decoder.stats.events == len(expected)


def test_events_without_data_come_with_the_byte_that_completes_them(
    implementation: Implementation,
) -> None:
    stream = b"id: 7\r\n\r\n\r\n:c\n\n\n"
    decoder = implementation.SSEDecoder(profile="openai")
    ready = [at for at, byte in enumerate(byte_by_byte(stream)) if decoder.feed(byte)]
    assert ready == [7, 9, 14, 15]


def test_wire_of_an_event_without_data_is_its_whole_block(implementation: Implementation) -> None:
    stream = b": a\nid: 7\r\n\r\n\n\r\n: b\n: c\n\r: d\nfoo\n\n"
    wires = [b": a\nid: 7\r\n\r", b"\n", b"\r", b": b\n: c\n\r", b": d\nfoo\n\n"]
    for chunks in fragmentations(stream):
        events = decode(implementation, *chunks, profile="anthropic", keep_wire=True)
        assert [event.wire for event in events] == wires
    (event,) = decode(implementation, stream, profile="httpx2", keep_wire=True)
    assert event.wire == wires[0]


def test_replacements_in_an_event_without_data_are_counted(implementation: Implementation) -> None:
    stream = b"event: \xff\nid: \xc3\n\nfoo: \xff\n\n"
    counts = {"whatwg": [], "httpx2": [2], "openai": [2, 0]}
    for profile, expected in counts.items():
        for chunks in fragmentations(stream):
            decoder = implementation.SSEDecoder(profile=profile)
            outcome = observe(decoder, chunks)
            assert [event.replaced for event in outcome.events] == expected
            assert stats_of(decoder).get("replaced", 0) == sum(expected)
            assert decoder.last_event_id == "\N{REPLACEMENT CHARACTER}"


def test_id_given_at_the_start_counts_as_one_that_was_sent(implementation: Implementation) -> None:
    decoder = implementation.SSEDecoder(profile="httpx_sse", last_event_id="7")
    assert outline(decoder.feed(b"\n:c\n\n")) == [
        ("message", "", "7", None, 0),
        ("message", "", "7", None, 4),
    ]
    decoder.reset()
    assert decoder.feed(b"\n:c\n\n") == ()
    decoder.reset(last_event_id="8")
    assert outline(decoder.feed(b"\n")) == [("message", "", "8", None, 0)]
    for other in ("whatwg", "httpx2", "sseclient_py"):
        decoder = implementation.SSEDecoder(profile=other, last_event_id="7")
        assert decoder.feed(b"\n:c\n\n") == ()


# What the end of the stream makes of a tail: reported, flushed, and flushed with an id from before.
TAILS: list[tuple[bytes, list[Any]]] = [
    (b"", NOTHING),
    (b": c", NOTHING),
    (b": c\n", NOTHING),
    (b"data: x", [(DEFAULT, "x", "", None, 0)]),
    (b"data: x\n", [(DEFAULT, "x", "", None, 0)]),
    (b"data: x\r", [(DEFAULT, "x", "", None, 0)]),
    (b"data: x\nretry: 5", [(DEFAULT, "x", "", 5, 0)]),
    (b"data: x\n: c", [(DEFAULT, "x", "", None, 0)]),
]


@pytest.mark.parametrize(("tail", "flushed"), TAILS, ids=repr)
def test_torn_tail_is_what_the_profile_or_on_torn_says(
    implementation: Implementation, profile: str, tail: bytes, flushed: list[Any]
) -> None:
    unnamed = None if profile in ("openai", "anthropic") else "message"
    torn = [(unnamed, tail.decode(), "", None, 0)] if flushed else []
    flushed = expected_events(profile, flushed, flushed, flushed)
    by_default = flushed if profile == "sseclient_py" else torn
    for on_torn, expected in ((None, by_default), ("report", torn), ("flush", flushed)):
        for chunks in fragmentations(tail):
            events = decode(implementation, *chunks, profile=profile, on_torn=on_torn)
            assert outline(events) == expected
            assert all(event.torn == (expected is torn) for event in events)


def test_flushed_tail_without_data_is_an_event_as_its_empty_line_would_make_it(
    implementation: Implementation, profile: str
) -> None:
    for row in TABLE:
        for tail in (row[0].rstrip(b"\r\n"), row[0]):
            for earlier in (b"", b"id: 1\ndata: y\n\n"):
                stream = earlier + tail
                options = {"profile": profile, "on_torn": "flush", "keep_wire": True}
                got = decode(implementation, stream, **options)
                # A tail of comments, or of nothing, is not torn and ends in no empty line.
                fields = [line for line in tail.split(b"\n\n")[-1].splitlines() if line]
                is_torn = any(not line.startswith(b":") for line in fields)
                ended = decode(implementation, stream + b"\n\n" * is_torn, **options)
                kept = len(got)
                assert [e._replace(wire=None) for e in got] == [
                    e._replace(wire=None) for e in ended[:kept]
                ]
                assert all(e.data == "" and e.offset >= len(stream) for e in ended[kept:])
                for chunks in two_way_splits(stream):
                    assert decode(implementation, *chunks, **options) == got


def test_skipped_block_makes_no_event_under_any_profile(
    implementation: Implementation, profile: str
) -> None:
    stream = b"id: 7\ndata: x\n\nevent: much too long\n\n\n"
    for chunks in fragmentations(stream):
        decoder = implementation.SSEDecoder(
            profile=profile, on_limit="skip", limits=Limits(max_event_bytes=14)
        )
        events = observe(decoder, chunks).events
        assert [event.data for event in events] == ["x"] + [""] * (profile in ANY_VALUE)
        assert (decoder.stats.skipped, decoder.stats.empty_blocks) == (1, 0)


def test_limit_is_the_same_under_every_profile(
    implementation: Implementation, profile: str
) -> None:
    for stream, fits in ((b"event: e\nid: 7\n\n\n", 15), (b"retry: 5\r\n: c\r\n\r\n", 15)):
        for chunks in fragmentations(stream):
            limits = Limits(max_event_bytes=fits)
            assert observe(implementation.SSEDecoder(profile=profile, limits=limits), chunks)
            limits = Limits(max_event_bytes=fits - 1)
            decoder = implementation.SSEDecoder(profile=profile, limits=limits)
            assert observe(decoder, chunks).error == (
                *("LimitExceededError", fits - 1, fits),
                fits - 1,
            )
    # Events of the same chunk come first, those without data too.
    decoder = implementation.SSEDecoder(profile="openai", limits=Limits(max_event_bytes=8))
    assert len(decoder.feed(b"id: 7\n\n\ndata: too long\n\n")) == 2
    with pytest.raises(LimitExceededError):
        decoder.feed(b"")


def test_event_without_a_name_is_an_event_like_any_other(implementation: Implementation) -> None:
    decoder = implementation.SSEDecoder(profile="openai")
    event, named, empty_name = decoder.feed(
        b"id: 1\ndata: {}\n\nevent: e\ndata: {}\n\nevent:\ndata: {}\n\n"
    )
    assert (event.event, named.event, empty_name.event) == (None, "e", None)
    by_hand = implementation.Event(data="{}", event=None, id="1")
    assert event == by_hand == empty_name
    assert hash(event) == hash(by_hand)
    assert event != implementation.Event(data="{}", id="1")
    assert repr(event) == "Event(event=None, id='1', data='{}')"
    assert event.json() == {}
    (torn,) = [*decoder.feed(b"data: x"), *decoder.close()]
    assert (torn.torn, torn.event) == (True, None)
    for item in (event, torn):
        again = pickle.loads(pickle.dumps(item))
        assert seen(again) == seen(item)
        assert again.event is None


def test_event_without_data_is_an_event_like_any_other(implementation: Implementation) -> None:
    (event,) = implementation.SSEDecoder(profile="httpx2").feed(b":\nid: 1\nretry: 5\n\n")
    assert event == implementation.Event(data="", id="1", retry=5)
    assert (event.raw, event.is_done, event.parse_error, event.value) == (b"", False, None, "")
    assert repr(event) == "Event(event='message', id='1', data='')"
    assert seen(pickle.loads(pickle.dumps(event))) == seen(event)
    with pytest.raises(seamstream.JSONDecodeError):
        event.json()


def pull(decoder: Any, chunks: list[bytes], done: bytes | None = None) -> Iterator[Any]:
    return iter(decoder.iter(chunks, done=done))


def test_iterator_gives_events_without_data_one_by_one(implementation: Implementation) -> None:
    stream = b"id: 7\n\n\r\n:c\n\ndata: [DONE]\n\n"
    for chunks in fragmentations(stream):
        decoder = implementation.SSEDecoder(profile="anthropic")
        events = pull(decoder, chunks, b"[DONE]")
        taken = [(next(events).offset, decoder.stats.events) for _ in range(3)]
        assert taken == [(0, 1), (7, 2), (12, 3)]
        assert next(events, None) is None
    # The sentinel may be the empty payload, which an event without data has.
    decoder = implementation.SSEDecoder(profile="anthropic")
    events = pull(decoder, [b"id: 7\ndata: x\n\n\ndata: y\n\n"], b"")
    assert [event.data for event in events] == ["x"]


def test_profile_outlives_reset_and_close(implementation: Implementation) -> None:
    decoder = implementation.SSEDecoder(profile="openai")
    for _ in range(3):
        (event, again) = decoder.feed(b"retry: 5\nid: 1\n\n\n")
        assert (event.event, event.retry, again.retry, again.id) == (None, 5, None, "1")
        assert decoder.close() == ()
        decoder.reset()
    decoder = implementation.SSEDecoder(profile="sseclient_py")
    for _ in range(2):
        assert [*decoder.feed(b"data: x"), *decoder.close()] == [implementation.Event(data="x")]
        decoder.reset()


def test_event_stream_passes_the_profile_on() -> None:
    stream = [b"id: 1\n\ndata: x\n\ndata: y"]
    with EventStream(stream, profile="openai") as events:
        assert [(e.event, e.data, e.torn) for e in events] == [
            (None, "", False),
            (None, "x", False),
            (None, "data: y", True),
        ]
    with EventStream(stream, profile="sseclient_py") as events:
        assert [(e.event, e.data, e.torn) for e in events] == [
            ("message", "x", False),
            ("message", "y", False),
        ]
    with EventStream(stream, profile="openai", on_torn="flush", parse=True) as parsed:
        assert [(item.value, item.error) for item in parsed] == [
            ("", None),
            ("x", None),
            ("y", None),
        ]
    with pytest.raises(ValueError, match="profile needs framing='sse'"):
        EventStream(stream, framing="ndjson", profile="openai")
    with pytest.raises(ValueError, match="profile must be"):
        EventStream(stream, profile="nobody")  # type: ignore[call-overload]


@given(cut=cut_streams(), profile=st.sampled_from(PROFILES))
@example(cut=(b"id: 1\n\n\n", [b"id: 1\n\n\n"]), profile="openai")
def test_profiles_differ_from_the_standard_in_three_things_alone(
    implementation: Implementation, cut: tuple[bytes, list[bytes]], profile: str
) -> None:
    """What has data is the same; so is the state, but for the events that are more."""
    stream, chunks = cut
    decoder = implementation.SSEDecoder(profile=profile, on_torn="report")
    standard = implementation.SSEDecoder()
    got, expected = observe(decoder, chunks), observe(standard, [stream])
    named = [e._replace(event=e.event or "message") for e in got.events]
    offsets = {event.offset for event in expected.events}
    more = [event for event in named if event.offset not in offsets]
    assert [event for event in named if event.offset in offsets] == expected.events
    assert all((e.raw, e.is_done, e.torn) == (b"", False, False) for e in more)
    assert got.state[:-1] == expected.state[:-1]
    added = {"events": len(more), "replaced": sum(event.replaced for event in more)}
    for name, value in stats_of(decoder).items():
        assert value == getattr(standard.stats, name) + added.get(name, 0)
    if profile in ("whatwg", "sseclient_py"):
        assert more == []
    _, error = attempt(decoder.feed, b"late")
    assert error is not None
