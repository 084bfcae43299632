"""`Event`: what it is made of, and what it promises as a Python object."""

from __future__ import annotations

import ast
import copy
import gc
import pickle
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import seamstream
from conftest import Implementation
from observations import decode, seen

MEMBERS = (
    *("event", "id", "retry", "raw", "is_done"),
    *("data", "torn", "replaced", "offset", "parse_error", "value", "wire"),
)


def decode_one(implementation: Implementation, stream: bytes, **options: Any) -> Any:
    decoder = implementation.SSEDecoder(**options)
    (event,) = [*decoder.feed(stream), *decoder.close()]
    return event


def test_event_from_a_stream_holds_exact_types(implementation: Implementation) -> None:
    event = decode_one(
        implementation,
        b": hi\nevent: delta\nid: 7\nretry: 2500\ndata: 1.50\n\n",
        keep_wire=True,
    )
    assert {name: getattr(event, name) for name in MEMBERS} == {
        "event": "delta",
        "id": "7",
        "retry": 2500,
        "raw": b"1.50",
        "is_done": False,
        "data": "1.50",
        "torn": False,
        "replaced": 0,
        "offset": 5,
        "parse_error": None,
        "value": 1.5,
        "wire": b": hi\nevent: delta\nid: 7\nretry: 2500\ndata: 1.50\n\n",
    }
    exact = {
        name: type(getattr(event, name))
        for name in ("event", "id", "retry", "raw", "is_done", "data", "torn", "replaced", "wire")
    }
    assert exact == {
        "event": str,
        "id": str,
        "retry": int,
        "raw": bytes,
        "is_done": bool,
        "data": str,
        "torn": bool,
        "replaced": int,
        "wire": bytes,
    }


def test_event_from_a_stream_has_the_documented_defaults(implementation: Implementation) -> None:
    event = decode_one(implementation, b"data\n\n")
    assert (event.event, event.id, event.retry, event.raw) == ("message", "", None, b"")
    assert (event.data, event.value, event.wire, event.offset) == ("", "", None, 0)


def test_torn_event_holds_the_tail_and_nothing_of_its_fields(
    implementation: Implementation,
) -> None:
    stream = b"id: 1\ndata: a\n\n: c\nevent: e\nid: 2\nretry: 5\ndata: {\xff"
    decoder = implementation.SSEDecoder(keep_wire=True)
    (complete,) = decoder.feed(stream)
    (torn,) = decoder.close()
    assert not complete.torn
    assert {name: getattr(torn, name) for name in MEMBERS} == {
        "event": "message",
        "id": "1",
        "retry": None,
        "raw": b"event: e\nid: 2\nretry: 5\ndata: {\xff",
        "is_done": False,
        "data": "event: e\nid: 2\nretry: 5\ndata: {\ufffd",
        "torn": True,
        "replaced": 1,
        "offset": 19,
        "parse_error": "torn",
        "value": "event: e\nid: 2\nretry: 5\ndata: {\ufffd",
        "wire": b": c\nevent: e\nid: 2\nretry: 5\ndata: {\xff",
    }
    assert decoder.close() == ()


def test_constructor_fills_every_member(implementation: Implementation) -> None:
    event = implementation.Event(data="é", event="e", id="i", retry=0, torn=True)
    assert (event.event, event.id, event.retry, event.raw) == ("e", "i", 0, "é".encode())
    assert (event.data, event.torn, event.parse_error) == ("é", True, "torn")
    assert (event.offset, event.wire, event.replaced) == (0, None, 0)
    plain = implementation.Event(data=b"")
    assert (plain.event, plain.id, plain.retry, plain.raw) == ("message", "", None, b"")
    assert (plain.torn, plain.is_done) == (False, False)
    assert implementation.Event(data="", event=None).event is None


def test_constructor_takes_bytes_as_they_are_and_counts_what_decoding_replaces(
    implementation: Implementation,
) -> None:
    sent = "\N{REPLACEMENT CHARACTER}".encode()
    event = implementation.Event(data=sent + b"a\xff\xe2\x82b")
    assert event.raw == sent + b"a\xff\xe2\x82b"
    assert event.data == "\ufffda\ufffd\ufffdb"
    assert event.replaced == 2


def test_constructor_refuses_wrong_types(implementation: Implementation) -> None:
    for arguments in (
        {},
        {"data": None},
        {"data": 1},
        {"data": bytearray(b"x")},
        {"data": "", "event": b"e"},
        {"data": "", "event": 1},
        {"data": "", "id": None},
        {"data": "", "id": b""},
        {"data": "", "retry": True},
        {"data": "", "retry": 1.0},
        {"data": "", "retry": "1"},
        {"data": "", "torn": 1},
        {"data": "", "torn": None},
        {"data": "", "other": 1},
    ):
        with pytest.raises(TypeError):
            implementation.Event(**arguments)
    with pytest.raises(TypeError):
        implementation.Event("data")
    with pytest.raises(ValueError, match="retry"):
        implementation.Event(data="", retry=-1)
    with pytest.raises(UnicodeEncodeError):
        implementation.Event(data="\ud800")


def test_constructor_makes_exact_types_of_subclass_instances(
    implementation: Implementation,
) -> None:
    class Text(str):
        __slots__ = ()

    class Bytes(bytes):
        __slots__ = ()

    class Integer(int):
        __slots__ = ()

    event = implementation.Event(data=Text("d"), event=Text("e"), id=Text("i"), retry=Integer(3))
    assert (event.event, event.id, event.retry, event.data) == ("e", "i", 3, "d")
    assert [type(v) for v in (event.event, event.id, event.retry, event.data)] == [
        *(str, str, int, str)
    ]
    event = implementation.Event(data=Bytes(b"d"))
    assert type(event.raw) is bytes
    assert event.raw == b"d"


def test_retry_of_an_event_may_be_any_size(implementation: Implementation) -> None:
    assert implementation.Event(data="", retry=10**30).retry == 10**30


def test_retry_of_a_stream_is_clamped_to_an_exact_double(implementation: Implementation) -> None:
    largest = 2**53 - 1
    for digits, expected in [
        (str(largest), largest),
        (str(largest + 1), largest),
        ("9" * 5000, largest),
        ("0" * 5000 + "12", 12),
    ]:
        decoder = implementation.SSEDecoder()
        (event,) = decoder.feed(f"retry: {digits}\ndata\n\n".encode())
        assert event.retry == decoder.reconnection_time_ms == expected


def test_event_is_immutable(implementation: Implementation) -> None:
    event = implementation.Event(data="x")
    for name in MEMBERS:
        with pytest.raises(AttributeError):
            setattr(event, name, getattr(event, name))
        with pytest.raises(AttributeError):
            delattr(event, name)
    with pytest.raises(AttributeError):
        event.new = 1
    assert not hasattr(event, "__dict__")
    with pytest.raises(TypeError):
        vars(event)


def test_event_type_is_final(implementation: Implementation) -> None:
    with pytest.raises(TypeError):
        type("Derived", (implementation.Event,), {})


def test_event_has_no_weak_references(implementation: Implementation) -> None:
    with pytest.raises(TypeError):
        weakref.ref(implementation.Event(data="x"))


def test_event_is_small_and_invisible_to_the_collector(compiled: Implementation) -> None:
    made = compiled.Event(data="x" * 1000)
    fed = decode_one(compiled, b"id: 1\nretry: 3\ndata: " + b"x" * 1000 + b"\n\n", keep_wire=True)
    for event in (made, fed):
        assert sys.getsizeof(event) <= 96
        assert not gc.is_tracked(event)


def test_event_members_are_the_same_object_at_every_access(
    implementation: Implementation,
) -> None:
    event = decode_one(implementation, "data: 漢字\n\n".encode())
    assert event.raw is event.raw
    assert event.data is event.data


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b"[DONE]", True),
        (b" \t[DONE]\n ", True),
        (b"\r[DONE]\r", True),
        (b"[DONE] ", True),
        (b"[done]", False),
        (b"[DONE]x", False),
        (b'"[DONE]"', False),
        (b"\x0b[DONE]", False),
        ("\N{NO-BREAK SPACE}[DONE]".encode(), False),
        (b"[ DONE]", False),
        (b"", False),
    ],
)
def test_is_done_marks_the_sentinel_alone(
    implementation: Implementation, payload: bytes, expected: bool
) -> None:
    assert implementation.Event(data=payload).is_done is expected
    if b"\r" not in payload:
        lines = b"".join(b"data:" + line + b"\n" for line in (b" " + payload).split(b"\n"))
        assert decode_one(implementation, lines + b"\n").is_done is expected


def test_is_done_is_false_when_torn(implementation: Implementation) -> None:
    assert implementation.Event(data="[DONE]", torn=True).is_done is False
    assert decode_one(implementation, b"[DONE]").is_done is False


def test_replaced_counts_data_name_and_id_of_the_block(implementation: Implementation) -> None:
    stream = (
        b"event: \xff\nid: \xc3\nid: a\xff\xffb\ndata: \xe2\x82\ndata: \xf0\x9f\x98x\n\n"
        b"data: the id stays\n\n"
        b"id: \xff\n\n"
        b"event: \xff\nevent: last wins\ndata\n\n"
        b"id: \xff\0\ndata\n\n"
    )
    decoder = implementation.SSEDecoder()
    events = decoder.feed(stream)
    # One in the name, two in the id that holds, and one for each of the two cut characters.
    assert [event.replaced for event in events] == [5, 0, 0, 0]
    assert [event.id for event in events] == ["a\ufffd\ufffdb"] * 2 + ["\ufffd"] * 2
    assert decoder.stats.replaced == 5
    assert decoder.stats.empty_blocks == 1


def test_replaced_does_not_count_a_replacement_character_that_was_sent(
    implementation: Implementation,
) -> None:
    stream = "event: \ufffd\nid: \ufffd\ndata: \ufffd".encode() + b"\xff\n\n"
    event = decode_one(implementation, stream)
    assert event.data == "\ufffd\ufffd"
    assert event.replaced == 1


def test_replaced_of_torn_events_is_in_the_stats(implementation: Implementation) -> None:
    decoder = implementation.SSEDecoder()
    decoder.feed(b"data: \xff\n\nid: \xff\xe2\x82")
    (torn,) = decoder.close()
    assert torn.replaced == 2
    assert decoder.stats.replaced == 3


def test_offset_is_the_first_field_line_of_the_block(implementation: Implementation) -> None:
    stream = "\N{ZERO WIDTH NO-BREAK SPACE}: c\r\n\r\n\r\n: d\r\nunknown\r\ndata: a\r\n\r\ndata\n\n"
    events = decode(implementation, stream.encode())
    # Three bytes of BOM, five of comment, two empty lines of two, and five of comment.
    assert [event.offset for event in events] == [17, 37]


def test_wire_is_the_whole_block_with_its_leading_comments(implementation: Implementation) -> None:
    blocks = [
        b": a\n\n",
        b": b\n: c\r\nid: 1\rdata: x\n\n",
        b"\n",
        b"event: e\n\n",
        b"data: y\r\n\r",
    ]
    stream = "\N{ZERO WIDTH NO-BREAK SPACE}".encode() + b"".join(blocks) + b"\ndata\n"
    for chunks in ([stream], [stream[i : i + 1] for i in range(len(stream))]):
        events = decode(implementation, *chunks, keep_wire=True)
        # A blank line begins a new block, so ": a" is in none; the LF after CR is in none.
        assert [event.wire for event in events] == [blocks[1], blocks[4], b"data\n"]
        assert [event.torn for event in events] == [False, False, True]


def test_wire_is_none_unless_it_is_asked_for(implementation: Implementation) -> None:
    assert [event.wire for event in decode(implementation, b"data: x\n\ndata: y\n")] == [None, None]


def test_wire_of_a_flushed_event_ends_with_the_input(implementation: Implementation) -> None:
    options: dict[str, Any] = {"keep_wire": True, "on_torn": "flush"}
    (event,) = decode(implementation, b":c\ndata: x", **options)
    assert (event.wire, event.data, event.torn) == (b":c\ndata: x", "x", False)


def test_repr_shows_event_id_and_data(implementation: Implementation) -> None:
    event = implementation.Event(data="it's \n漢", event="delta", id="7", retry=5)
    assert repr(event) == """Event(event='delta', id='7', data="it's \\n漢")"""
    assert repr(implementation.Event(data="", event=None)) == "Event(event=None, id='', data='')"
    torn = implementation.Event(data="x", torn=True)
    assert repr(torn) == "Event(event='message', id='', data='x', torn=True)"


def test_repr_cuts_data_at_80_characters(implementation: Implementation) -> None:
    fits = implementation.Event(data="漢" * 80)
    assert repr(fits) == f"Event(event='message', id='', data='{'漢' * 80}')"
    cut = implementation.Event(data="漢" * 81, torn=True)
    assert repr(cut) == f"Event(event='message', id='', data='{'漢' * 80}'..., torn=True)"


def test_equality_and_hash_are_over_the_five_members(implementation: Implementation) -> None:
    base: dict[str, Any] = {"data": "d", "event": "e", "id": "i", "retry": 1, "torn": False}
    event = implementation.Event(**base)
    assert event == implementation.Event(**base)
    assert hash(event) == hash(implementation.Event(**base))
    for change in (
        {"data": "D"},
        {"event": "E"},
        {"event": None},
        {"id": "I"},
        {"retry": 2},
        {"retry": None},
        {"torn": True},
    ):
        other = implementation.Event(**{**base, **change})
        assert event != other
        assert len({event, other}) == 2


def test_equality_is_over_the_bytes_and_not_the_text(implementation: Implementation) -> None:
    one = implementation.Event(data=b"\xff")
    other = implementation.Event(data="\ufffd")
    assert one.data == other.data
    assert one != other


def test_equality_leaves_offset_wire_and_replaced_out(implementation: Implementation) -> None:
    fed = decode_one(implementation, b":c\nid: i\ndata: d\n\n", keep_wire=True)
    made = implementation.Event(data="d", id="i")
    assert fed == made
    assert hash(fed) == hash(made)


def test_equality_with_other_types_is_left_to_them(implementation: Implementation) -> None:
    class Anything:
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    event = implementation.Event(data="d")
    assert event == Anything()
    assert event != "d"
    assert event != ("message", "d", "", None)
    assert event.__eq__("d") is NotImplemented
    with pytest.raises(TypeError):
        event < event  # noqa: B015, PLR0124


def test_equality_is_only_with_the_same_type(
    compiled: Implementation, reference: Implementation
) -> None:
    assert compiled.Event(data="d") != reference.Event(data="d")


def test_event_matches_by_position_and_keyword(implementation: Implementation) -> None:
    cls = implementation.Event
    assert cls.__match_args__ == ("event", "data", "id", "retry")
    match cls(data="d", event="e", id="i", retry=4):
        case cls("e", data, id, retry, torn=False):
            assert (data, id, retry) == ("d", "i", 4)
        case other:
            pytest.fail(f"no match: {other!r}")


def test_copies_are_the_event_itself(implementation: Implementation) -> None:
    event = implementation.Event(data="x")
    assert copy.copy(event) is event
    assert copy.deepcopy(event) is event
    assert copy.deepcopy([event])[0] is event


STREAM = (
    b"event: e\nid: 1\nretry: 3\ndata: {\xff\n\n"
    b": c\ndata: [DONE]\n\n"
    + "data: 漢\ndata: 🚀\n\n".encode()
    + b"data: big "
    + b"x" * 70_000
    + b"\n\n"
    + b"id: 2\ndata: torn \xff"
)


def stream_events(implementation: Implementation) -> list[Any]:
    events = []
    for keep_wire in (False, True):
        decoder = implementation.SSEDecoder(keep_wire=keep_wire, loads=bytes)
        events += [*decoder.feed(STREAM), *decoder.close()]
    assert len(events) == 10
    return [*events, implementation.Event(data=b"\xff", event=None, retry=10**30, torn=True)]


PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)


def test_event_unpickles_as_the_chosen_backend_with_its_whole_state(
    implementation: Implementation,
) -> None:
    events = stream_events(implementation)
    for protocol in PROTOCOLS:
        loaded = pickle.loads(pickle.dumps(events, protocol))
        assert [type(event) for event in loaded] == [seamstream.Event] * len(events)
        assert list(map(seen, loaded)) == list(map(seen, events))


def assert_loads_elsewhere(
    events: list[Any], run_python: Callable[..., str], path: Path, backend: str
) -> None:
    path.write_bytes(pickle.dumps([pickle.dumps(events, protocol) for protocol in PROTOCOLS]))
    module = {"reference": "seamstream._reference", "rust": "seamstream._core"}[backend]
    states = list(map(tuple, map(seen, events)))
    output = run_python("unpickle.py", path, module, "Event", backend=backend)
    assert ast.literal_eval(output) == [states for _ in PROTOCOLS]


def test_event_pickle_loads_on_the_reference(
    implementation: Implementation, run_python: Callable[..., str], tmp_path: Path
) -> None:
    events = stream_events(implementation)
    assert_loads_elsewhere(events, run_python, tmp_path / "events", "reference")


def test_event_pickle_of_the_compiled_module_loads_on_it(
    compiled: Implementation, run_python: Callable[..., str], tmp_path: Path
) -> None:
    assert_loads_elsewhere(stream_events(compiled), run_python, tmp_path / "events", "rust")


def test_event_pickle_of_the_reference_loads_on_the_compiled_module(
    compiled: Implementation,
    reference: Implementation,
    run_python: Callable[..., str],
    tmp_path: Path,
) -> None:
    assert compiled.name == "rust"
    assert_loads_elsewhere(stream_events(reference), run_python, tmp_path / "events", "rust")


def test_event_pickle_has_neither_loads_nor_its_stream(implementation: Implementation) -> None:
    decoder = implementation.SSEDecoder(loads=lambda payload: ["custom", payload])
    (event,) = decoder.feed(b"data: 1\n\n")
    assert event.value == ["custom", b"1"]
    assert pickle.loads(pickle.dumps(event)).value == 1


def test_event_outlives_its_decoder_and_its_chunk(implementation: Implementation) -> None:
    decoder = implementation.SSEDecoder(loads=lambda payload: payload[::-1])
    chunk = bytearray("data: 漢x\n\n".encode())
    (event,) = decoder.feed(chunk)
    del decoder
    chunk[:] = b"\0" * len(chunk)
    gc.collect()
    assert event.data == "漢x"
    assert event.value == "漢x".encode()[::-1]


WIDEST = ["", "\x7f", "\x80", "é", "ÿ", "Ā", "\u07ff", "\u0800", "時", "\ud7ff", "\ue000"]
WIDEST += ["\ufffd", "\uffff", "\U00010000", "🚀", "\U0010ffff"]


@pytest.mark.parametrize("widest", WIDEST)
@pytest.mark.parametrize("around", ["", "x", "plain text of some length, ", "öö", "時計の針"])
def test_data_is_the_text_however_wide(
    implementation: Implementation, widest: str, around: str
) -> None:
    text = f"{around}{widest}{around}"
    (event,) = implementation.SSEDecoder().feed(f"data: {text}\n\n".encode())
    # A `str` that is wider than it has to be equals no other.
    for found in (event.data, implementation.Event(data=text.encode()).data):
        assert found == text
        assert hash(found) == hash(text)
    json = f'{{"a":"{text}"}}'
    (event,) = implementation.SSEDecoder().feed(f"data: {json}\n\n".encode())
    for found in (event.get("a"), implementation.Event(data=json).get("a")):
        assert found == text
        assert hash(found) == hash(text)


@pytest.mark.parametrize("widest", ["z", "é", "Ā", "時", "🚀"])
@pytest.mark.parametrize("filling", ["x", "ö", "計", "🧵", 'a"b: ö, 計算 🧵 {} '])
def test_data_is_the_text_that_was_sent_whatever_its_width(
    implementation: Implementation, widest: str, filling: str
) -> None:
    for length in (0, 1, 2, 15, 16, 17, 33, 200, 1000, 1023, 1024, 1025, 5000):
        inside = (filling * length)[:length]
        for sent in (widest + inside, inside + widest, inside[: length // 2] + widest + inside):
            event = implementation.Event(data=sent.encode())
            assert event.data == sent
            # As wide as it has to be, and no wider: else equal texts would not be.
            assert sys.getsizeof(event.data) <= sys.getsizeof(str(sent.encode(), "utf-8"))
            text = implementation.UTF8Decoder()
            assert text.decode(sent.encode()) == sent
