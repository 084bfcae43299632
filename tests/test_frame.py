"""`Frame`: what it is made of, what it promises as a Python object, and what its bytes are.

The expected offsets are byte positions, counted by hand.
"""

from __future__ import annotations

import ast
import copy
import gc
import json
import math
import pickle
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seamstream
from conftest import MODULES, Implementation
from frame_observations import FRAMINGS, KINDS, SeenFrame, brief, seen
from json_strategies import broken_texts, json_texts
from observations import attempt, described
from seamstream import JSONDecodeError, TornError

MEMBERS = ("raw", "kind", "torn", "offset", "parse_error", "value")


def framed(implementation: Implementation, stream: bytes, **options: Any) -> list[Any]:
    decoder = implementation.JSONStreamDecoder(**options)
    return [*decoder.feed(stream), *decoder.close()]


def framed_line(implementation: Implementation, line: bytes, **options: Any) -> Any:
    """The frame of one line."""
    (frame,) = framed(implementation, line + b"\n", framing="ndjson", **options)
    assert frame.raw == line.strip(b" \t\r")
    return frame


def refused(frame: Any) -> JSONDecodeError:
    with pytest.raises(JSONDecodeError) as caught:
        frame.json()
    error = caught.value
    assert error.kind == (frame.kind or "syntax")
    assert error.doc == ""
    assert error.pos == error.offset
    assert (error.lineno, error.colno) == (1, error.offset + 1)
    assert str(error) == f"{error.msg} at byte {error.offset}"
    assert 0 <= error.offset <= len(frame.raw)
    return error


# One frame of each sort, a value and a torn one first.
STREAM = b' {"a": [1, 2.50, "\xe6\xbc\xa2"]}\n x, [1,] \n\n{"b": "\xff'


def frames_of_every_sort(implementation: Implementation, **options: Any) -> list[Any]:
    value, syntax, torn = framed(implementation, STREAM, framing="ndjson", **options)
    garbage, truncated = framed(implementation, b"x \x1e[1\x1e", framing="json-seq", **options)
    needless, missing, *_ = framed(implementation, b"[,1 2", framing="array", **options)[::2]
    limits = seamstream.Limits(max_event_bytes=2)
    (oversize,) = framed(implementation, b"[1]", limits=limits, on_limit="skip", **options)
    big = framed_line(implementation, b'"' + b"x" * 70_000 + b'"', **options)
    return [value, torn, syntax, garbage, needless, missing, truncated, oversize, big]


# --- what it is made of


def test_frame_from_a_stream_holds_exact_types(implementation: Implementation) -> None:
    value, torn, syntax, *others, big = frames_of_every_sort(implementation)
    assert seen(value) == SeenFrame(STREAM[1:24], None, 1)
    assert {name: getattr(value, name) for name in MEMBERS} == {
        "raw": b'{"a": [1, 2.50, "\xe6\xbc\xa2"]}',
        "kind": None,
        "torn": False,
        "offset": 1,
        "parse_error": None,
        "value": {"a": [1, 2.5, "漢"]},
    }
    assert {name: getattr(torn, name) for name in MEMBERS} == {
        "raw": b'{"b": "\xff',
        "kind": None,
        "torn": True,
        "offset": 36,
        "parse_error": "torn",
        "value": '{"b": "\ufffd',
    }
    assert {name: getattr(syntax, name) for name in MEMBERS} == {
        "raw": b"x, [1,]",
        "kind": "syntax",
        "torn": False,
        "offset": 26,
        "parse_error": "syntax",
        "value": "x, [1,]",
    }
    assert list(map(seen, others)) == [
        SeenFrame(b"x", "garbage", 0),
        SeenFrame(b",", "separator", 1),
        SeenFrame(b"", "separator", 4),
        SeenFrame(b"[1", "truncated", 3),
        SeenFrame(b"", "oversize", 0),
    ]
    for frame in (value, torn, syntax, *others, big):
        assert (type(frame.raw), type(frame.offset), type(frame.torn)) == (bytes, int, bool)
        assert type(frame.kind) in (str, type(None))
        assert frame.raw is frame.raw


def test_constructor_fills_every_member(implementation: Implementation) -> None:
    plain = implementation.Frame(raw=b"[1]")
    assert seen(plain) == SeenFrame(b"[1]")
    assert plain.value == [1]
    torn = implementation.Frame(raw=b"[1", torn=True)
    assert seen(torn) == SeenFrame(b"[1", None, 0, torn=True)
    assert implementation.Frame(raw=b"", kind=None, torn=False) == implementation.Frame(raw=b"")
    for kind in KINDS:
        frame = implementation.Frame(raw=b"x", kind=kind)
        assert (frame.kind, frame.parse_error, frame.value) == (kind, kind, "x")


def test_constructor_refuses_wrong_arguments(implementation: Implementation) -> None:
    for wrong in (
        {},
        {"raw": None},
        {"raw": "text"},
        {"raw": bytearray(b"x")},
        {"raw": memoryview(b"x")},
        {"raw": b"", "kind": 1},
        {"raw": b"", "kind": b"syntax"},
        {"raw": b"", "torn": 1},
        {"raw": b"", "torn": None},
        {"raw": b"", "offset": 1},
        {"raw": b"", "other": 1},
    ):
        with pytest.raises(TypeError):
            implementation.Frame(**wrong)
    with pytest.raises(TypeError):
        implementation.Frame(b"raw")
    for unknown in ("", "Syntax", "torn", "value"):
        with pytest.raises(ValueError, match="kind") as caught:
            implementation.Frame(raw=b"", kind=unknown)
        assert all(kind in str(caught.value) for kind in KINDS)
    for kind in KINDS:
        with pytest.raises(ValueError, match="torn"):
            implementation.Frame(raw=b"", kind=kind, torn=True)


def test_constructor_makes_exact_types_of_subclass_instances(
    implementation: Implementation,
) -> None:
    class Bytes(bytes):
        __slots__ = ()

    class Text(str):
        __slots__ = ()

    frame = implementation.Frame(raw=Bytes(b"r"), kind=Text("syntax"))
    assert (frame.raw, frame.kind) == (b"r", "syntax")
    assert (type(frame.raw), type(frame.kind)) == (bytes, str)


# --- what it promises


def test_frame_is_immutable(implementation: Implementation) -> None:
    frame = implementation.Frame(raw=b"1")
    for name in MEMBERS:
        with pytest.raises(AttributeError):
            setattr(frame, name, getattr(frame, name))
        with pytest.raises(AttributeError):
            delattr(frame, name)
    with pytest.raises(AttributeError):
        frame.new = 1
    assert not hasattr(frame, "__dict__")
    with pytest.raises(TypeError):
        vars(frame)


def test_frame_type_is_final(implementation: Implementation) -> None:
    with pytest.raises(TypeError):
        type("Derived", (implementation.Frame,), {})


def test_frame_has_no_weak_references(implementation: Implementation) -> None:
    with pytest.raises(TypeError):
        weakref.ref(implementation.Frame(raw=b"x"))


def test_frame_is_small_and_invisible_to_the_collector(compiled: Implementation) -> None:
    made = compiled.Frame(raw=b"x" * 1000, kind="syntax")
    for frame in (made, *frames_of_every_sort(compiled, loads=json.loads)):
        assert sys.getsizeof(frame) <= 64
        assert not gc.is_tracked(frame)


def test_repr_shows_the_bytes_and_what_is_wrong(implementation: Implementation) -> None:
    frame = implementation.Frame
    assert repr(frame(raw=b"it's \n\xff")) == """Frame(raw=b"it's \\n\\xff")"""
    assert repr(frame(raw=b"", kind="oversize")) == "Frame(raw=b'', kind='oversize')"
    assert repr(frame(raw=b"[", torn=True)) == "Frame(raw=b'[', torn=True)"


def test_repr_cuts_the_bytes_at_80(implementation: Implementation) -> None:
    fits = implementation.Frame(raw=b"x" * 80)
    assert repr(fits) == f"Frame(raw=b'{'x' * 80}')"
    cut = implementation.Frame(raw=b"x" * 81, kind="syntax")
    assert repr(cut) == f"Frame(raw=b'{'x' * 80}'..., kind='syntax')"


def test_equality_and_hash_are_over_bytes_kind_and_torn(implementation: Implementation) -> None:
    frame = implementation.Frame(raw=b"[1]")
    assert frame == implementation.Frame(raw=b"[1]")
    assert hash(frame) == hash(implementation.Frame(raw=b"[1]"))
    for change in ({"raw": b"[2]"}, {"raw": b"[1] "}, {"kind": "syntax"}, {"torn": True}):
        other = implementation.Frame(**{"raw": b"[1]", **change})
        assert frame != other
        assert len({frame, other}) == 2


def test_equality_leaves_offset_and_loads_out(implementation: Implementation) -> None:
    first, second = framed(implementation, b"[1] [1]", loads=lambda raw: None)
    assert (first.offset, second.offset) == (0, 4)
    assert first == second == implementation.Frame(raw=b"[1]")
    assert len({first, second, implementation.Frame(raw=b"[1]")}) == 1


def test_equality_with_other_types_is_left_to_them(implementation: Implementation) -> None:
    class Anything:
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    frame = implementation.Frame(raw=b"1")
    assert frame == Anything()
    assert frame != b"1"
    assert frame != (b"1", None, False)
    assert frame.__eq__(b"1") is NotImplemented
    with pytest.raises(TypeError):
        frame < frame  # noqa: B015, PLR0124


def test_equality_is_only_with_the_same_type(
    compiled: Implementation, reference: Implementation
) -> None:
    assert compiled.Frame(raw=b"1") != reference.Frame(raw=b"1")
    assert compiled.Frame(raw=b"1") != compiled.Event(data=b"1")


def test_frame_matches_by_position_and_keyword(implementation: Implementation) -> None:
    cls = implementation.Frame
    assert cls.__match_args__ == ("raw", "kind")
    match cls(raw=b"x", kind="garbage"):
        case cls(raw, "garbage", torn=False):
            assert raw == b"x"
        case other:
            pytest.fail(f"no match: {other!r}")


def test_copies_are_the_frame_itself(implementation: Implementation) -> None:
    frame = implementation.Frame(raw=b"x")
    assert copy.copy(frame) is frame
    assert copy.deepcopy(frame) is frame
    assert copy.deepcopy([frame])[0] is frame


PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)


def test_frame_unpickles_as_the_chosen_backend_with_its_whole_state(
    implementation: Implementation,
) -> None:
    frames = frames_of_every_sort(implementation)
    for protocol in PROTOCOLS:
        loaded = pickle.loads(pickle.dumps(frames, protocol))
        assert [type(frame) for frame in loaded] == [seamstream.Frame] * len(frames)
        assert list(map(seen, loaded)) == list(map(seen, frames))


def assert_loads_elsewhere(
    frames: list[Any], run_python: Callable[..., str], path: Path, backend: str
) -> None:
    path.write_bytes(pickle.dumps([pickle.dumps(frames, protocol) for protocol in PROTOCOLS]))
    output = run_python("unpickle.py", path, MODULES[backend], "Frame", backend=backend)
    states = list(map(tuple, map(seen, frames)))
    assert ast.literal_eval(output) == [states for _ in PROTOCOLS]


def test_frame_pickle_loads_on_the_reference(
    implementation: Implementation, run_python: Callable[..., str], tmp_path: Path
) -> None:
    frames = frames_of_every_sort(implementation)
    assert_loads_elsewhere(frames, run_python, tmp_path / "frames", "reference")


def test_frame_pickles_of_both_load_on_the_compiled_module(
    compiled: Implementation,
    reference: Implementation,
    run_python: Callable[..., str],
    tmp_path: Path,
) -> None:
    frames = frames_of_every_sort(compiled) + frames_of_every_sort(reference)
    assert_loads_elsewhere(frames, run_python, tmp_path / "frames", "rust")


def test_frame_pickle_has_neither_loads_nor_its_stream(implementation: Implementation) -> None:
    (frame,) = framed(implementation, b"[1]", loads=lambda raw: ["custom", raw])
    assert frame.value == ["custom", b"[1]"]
    assert pickle.loads(pickle.dumps(frame)).value == [1]


def test_frame_outlives_its_decoder_and_its_chunk(implementation: Implementation) -> None:
    decoder = implementation.JSONStreamDecoder(loads=lambda raw: raw[::-1])
    chunk = bytearray('{"a":"漢"}'.encode())
    (frame,) = decoder.feed(chunk)
    del decoder
    chunk[:] = b"\0" * len(chunk)
    gc.collect()
    assert frame.raw == '{"a":"漢"}'.encode()
    assert frame.value == frame.raw[::-1]


# --- its value


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ('{"a": [1, 1.5, true, null, "é"]}', {"a": [1, 1.5, True, None, "é"]}),
        ("[]", []),
        ("1.50", 1.5),
        ('"text"', "text"),
        ("null", None),
        ("true", True),
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
        ('{"a": 1, "a": 2}', {"a": 2}),
        ('"\\ud83d\\ude80\\u0000"', "🚀\0"),
    ],
)
def test_value_is_parsed(implementation: Implementation, raw: str, value: object) -> None:
    frame = framed_line(implementation, raw.encode())
    for parsed in (frame.json(), frame.value):
        assert parsed == value
        assert type(parsed) is type(value)
    assert frame.parse_error is None


def test_value_is_parsed_anew_at_every_access(implementation: Implementation) -> None:
    frame = framed_line(implementation, b"[[]]")
    assert frame.value == frame.value
    assert frame.value is not frame.value
    assert frame.json() is not frame.json()


@pytest.mark.parametrize(
    ("raw", "offset"),
    [
        (b"x", 0),
        (b"[1,2", 4),
        (b"[NaN]", 1),
        ('{"é": x}'.encode(), 7),
        ('["漢字", x]'.encode(), 11),
        (b'{"a":"\xff"}', 6),
        (b'["\xe6\xbc\xa2\xe2\x82"]', 5),
        (b'{"\xed\xa0\x80":1}', 2),
        (b"[x \xff", 3),
        ('["🚀", "\\udc00"]'.encode(), None),
        (b'{"a":1,}', None),
        (b'{"a":"\x1b"}', None),
        (b"{'a':1}", None),
        (b"1 2", None),
        (b"[1] [2]", None),
        (b"-Infinity", None),
        (b"01", None),
        (b"\xef\xbb\xbf1", None),
    ],
)
def test_syntax_error_is_kept_as_text_and_says_where(
    implementation: Implementation, raw: bytes, offset: int | None
) -> None:
    before, frame = framed(implementation, b"0\n" + raw + b"\n", framing="ndjson")
    assert (before.value, frame.raw, frame.offset) == (0, raw, 2)
    assert (frame.kind, frame.parse_error) == ("syntax", "syntax")
    assert frame.value == raw.decode("utf-8", "replace")
    error = refused(frame)
    if offset is not None:
        # Else which byte of a wrong construct is named is up to the parser.
        assert error.offset == offset


def test_errors_of_other_kinds_say_what_they_are(implementation: Implementation) -> None:
    _, torn, _, *others, _ = frames_of_every_sort(implementation)
    assert [(frame.kind, str(refused(frame))) for frame in others] == [
        ("garbage", "no JSON value can be here at byte 0"),
        ("separator", "needless comma at byte 0"),
        ("separator", "missing comma at byte 0"),
        ("truncated", "the text is cut at byte 2"),
        ("oversize", "outgrew max_event_bytes at byte 0"),
    ]
    assert [frame.value for frame in others] == ["x", ",", "", "[1", ""]
    with pytest.raises(TornError) as caught:
        torn.json()
    assert (caught.value.kind, caught.value.offset) == ("torn", 36)


def test_text_that_is_too_deep_is_a_syntax_error(implementation: Implementation) -> None:
    limits = seamstream.Limits(max_depth=2)
    fits, deep, after = framed(implementation, b'[[1]]{"a":[{}]}[]', limits=limits)
    assert brief([fits, deep, after]) == [b"[[1]]", (b'{"a":[{}]}', "syntax"), b"[]"]
    assert str(refused(deep)) == "nested deeper than max_depth at byte 0"
    # No more is known of an error that was made by hand.
    made = implementation.Frame(raw=b"[1]", kind="syntax")
    assert str(refused(made)) == "nested deeper than max_depth at byte 0"


def test_frame_made_by_hand_is_not_checked_until_it_is_parsed(
    implementation: Implementation,
) -> None:
    frame = implementation.Frame(raw=b" [1,")
    assert frame.parse_error is None
    assert frame.value == " [1,"
    assert refused(frame).offset == 4


def test_json_error_names_no_payload_text(implementation: Implementation) -> None:
    secret = "the prompt"
    line = b'["' + secret.encode() + b'", x]'
    for frame in (
        framed_line(implementation, line),
        implementation.Frame(raw=line),
        *(implementation.Frame(raw=line, kind=kind) for kind in KINDS),
    ):
        error = refused(frame)
        assert secret not in str(error)
        assert secret not in repr(error)
        assert all(secret not in repr(value) for value in vars(error).values())


def test_parser_message_is_kept_for_orjson_only(implementation: Implementation) -> None:
    with pytest.raises(orjson.JSONDecodeError) as caught:
        orjson.loads(b"[1,]")
    assert refused(framed_line(implementation, b"[1,]")).msg == caught.value.msg
    assert refused(implementation.Frame(raw=b"[1,]")).msg == caught.value.msg


# --- loads


def test_integers_beyond_64_bits_become_floats_unless_loads_keeps_them(
    implementation: Implementation,
) -> None:
    raw = b'{"id":18446744073709551617,"neg":-9223372036854775809}'
    number = framed_line(implementation, raw).value["id"]
    assert type(number) is float
    assert number == 2.0**64
    assert framed_line(implementation, raw, loads=json.loads).value == {
        "id": 2**64 + 1,
        "neg": -(2**63) - 1,
    }


def test_what_is_a_value_does_not_depend_on_loads(implementation: Implementation) -> None:
    for line in (b"[NaN]", b'["\\ud800"]', b"[1,]"):
        frame = framed_line(implementation, line, loads=lambda raw: pytest.fail("asked"))
        assert frame.kind == "syntax"
        assert frame.value == line.decode()
        refused(frame)
    assert math.isnan(json.loads(b"[NaN]")[0])


def test_loads_gets_the_exact_bytes_at_every_access(implementation: Implementation) -> None:
    calls: list[bytes] = []

    def loads(raw: bytes) -> int:
        calls.append(raw)
        return len(calls)

    (frame,) = framed(implementation, b' {"a": 1} ', loads=loads)
    assert frame.parse_error is None
    assert calls == []
    assert (frame.value, frame.json(), frame.value) == (1, 2, 3)
    assert calls == [b'{"a": 1}'] * 3
    assert {type(call) for call in calls} == {bytes}


def test_loads_is_never_asked_about_what_is_no_value(implementation: Implementation) -> None:
    frames = frames_of_every_sort(implementation, loads=lambda raw: pytest.fail("asked"))
    for frame in frames[1:-1]:
        assert isinstance(frame.value, str)
        with pytest.raises(seamstream.DecodeError):
            frame.json()


@pytest.mark.parametrize("exception", [ValueError("secret"), RecursionError("secret")])
def test_loads_refusal_becomes_a_json_error_with_its_cause(
    implementation: Implementation, exception: Exception
) -> None:
    def loads(raw: bytes) -> None:
        raise exception

    frame = framed_line(implementation, b"{}", loads=loads)
    error = refused(frame)
    assert error.msg == "loads refused the payload"
    assert error.offset == 0
    assert error.__cause__ is exception
    assert frame.value == "{}"
    assert frame.parse_error is None  # the bytes are a JSON text


def test_loads_position_in_characters_becomes_an_offset_in_bytes(
    implementation: Implementation,
) -> None:
    def loads(raw: bytes) -> None:
        raise json.JSONDecodeError("odd", raw.decode(), 8)

    frame = framed_line(implementation, '{"é漢🚀": 1}'.encode(), loads=loads)
    # Two, three and four bytes stand for three of the eight characters.
    assert refused(frame).offset == 14


def test_loads_position_that_makes_no_sense_does_no_harm(implementation: Implementation) -> None:
    class OddError(ValueError):
        def __init__(self, pos: object) -> None:
            super().__init__("odd")
            self.pos = pos

    for pos in ("3", None, 1.5, b"", -5, 10**30, 3, -(10**30)):

        def loads(raw: bytes, pos: object = pos) -> None:
            raise OddError(pos)

        assert 0 <= refused(framed_line(implementation, b"{}", loads=loads)).offset <= 2


@pytest.mark.parametrize("exception", [KeyError("k"), MemoryError(), ZeroDivisionError()])
def test_other_exceptions_of_loads_pass_through(
    implementation: Implementation, exception: Exception
) -> None:
    def loads(raw: bytes) -> None:
        raise exception

    frame = framed_line(implementation, b"{}", loads=loads)
    for access in (frame.json, lambda: frame.value):
        with pytest.raises(type(exception)) as caught:
            access()
        assert caught.value is exception
    assert frame.parse_error is None
    assert frame.raw == b"{}"


@given(
    line=st.one_of(broken_texts(), json_texts).map(lambda text: text.replace(b"\n", b"")),
    framing=st.sampled_from(FRAMINGS),
    loads=st.sampled_from([None, json.loads]),
)
def test_compiled_parses_and_refuses_exactly_as_the_reference(
    compiled: Implementation,
    reference: Implementation,
    line: bytes,
    framing: str,
    loads: Any,
) -> None:
    prefix = {"array": b"[", "json-seq": b"\x1e"}.get(framing, b"")

    def answers(implementation: Implementation) -> list[Any]:
        log: list[Any] = []
        for frame in framed(implementation, prefix + line + b"\n,", framing=framing, loads=loads):
            value, error = attempt(frame.json)
            log.append((seen(frame), repr(frame), repr(frame.value), repr(value)))
            if error is not None:
                log += [described(error), type(error.__cause__)]
        return log

    assert answers(compiled) == answers(reference)
