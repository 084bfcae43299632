"""`get` and `get_many`: values out of a payload, the same answers as parsing all of it."""

from __future__ import annotations

import json
import weakref
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Implementation
from seamstream import JSONDecodeError, TornError
from seamstream.paths import compile_path, walk

CHUNK = (
    '{"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}],'
    '"usage":{"total":%d},"a.b":[1,[2,3]],"0":"zero","π":"pi"}'
)


def block(payload: bytes) -> bytes:
    return b"data: " + payload + b"\n\n"


def test_get_takes_a_dotted_path_or_a_tuple(implementation: Implementation) -> None:
    event = implementation.Event(data=CHUNK % ("hé 🚀", 7))
    for path, value in (
        ("choices.0.delta.content", "hé 🚀"),
        (("choices", 0, "delta", "content"), "hé 🚀"),
        ("choices.0.finish_reason", None),
        ("usage.total", 7),
        ("usage", {"total": 7}),
        (("a.b", 1, 0), 2),
        ("0", "zero"),
        (("0",), "zero"),
        ("π", "pi"),
    ):
        assert event.get(path, "absent") == value
    assert event.get("") == event.get(()) == event.json()
    frame = implementation.Frame(raw=b'[10,{"a":20}]')
    assert (frame.get("0"), frame.get("1.a"), frame.get((1, "a"))) == (10, 20, 20)


def test_get_gives_the_default_where_there_is_no_value(implementation: Implementation) -> None:
    event = implementation.Event(data=CHUNK % ("x", 7))
    for path in (
        *("choice", "choices.1", "choices.first", "choices.0.delta.content.0", "usage.total.0"),
        *(("choices", "0"), (0,), ("choices", 5, "x"), "", ())[:3],
        *("id.", ".id", "a.b", "choices..0"),
    ):
        assert event.get(path) is None
        assert event.get(path, 5) == event.get(path, default=5) == 5


def test_get_checks_all_of_the_payload(implementation: Implementation) -> None:
    good = (CHUNK % ("x", 7)).encode()
    for bad in (
        good[:-1],
        good + b"}",
        good.replace(b'"zero"', b"zero"),
        good.replace(b'"zero"', b'"\xff"'),
        good.replace(b'"zero"', b'"\\ud800"'),
        good.replace(b'"zero"', b"NaN"),
        good.replace(b"7", b"07"),
        b"",
        b"text",
    ):
        event = implementation.Event(data=bad)
        with pytest.raises(JSONDecodeError) as refused:
            event.json()
        for path in ("id", "choices.0.delta.content", "absent"):
            with pytest.raises(JSONDecodeError) as caught:
                event.get(path)
            assert (str(caught.value), caught.value.offset) == (
                str(refused.value),
                refused.value.offset,
            )


def test_get_takes_the_last_of_equal_names(implementation: Implementation) -> None:
    event = implementation.Event(data='{"a":1,"\\u0061":{"b":2},"a":{"b":3}}')
    assert event.get("a.b") == 3


def test_get_refuses_wrong_paths(implementation: Implementation) -> None:
    for event in (
        implementation.Event(data="[1]"),
        implementation.Event(data="x", torn=True),
        implementation.Frame(raw=b"[1]"),
    ):
        for wrong in (None, 5, ["a"], b"a", ("a", True), (1.0,), (None,)):
            with pytest.raises(TypeError):
                event.get(wrong)
        for wrong in ((-1,), ("a", -5), "\ud800"):
            with pytest.raises(ValueError):
                event.get(wrong)
        for arguments, names in (((), {}), (("a", 1, 2), {}), (("a",), {"other": 1})):
            with pytest.raises(TypeError):
                event.get(*arguments, **names)


def test_get_of_what_has_no_value_raises_as_json_does(implementation: Implementation) -> None:
    with pytest.raises(TornError):
        implementation.Event(data="{}", torn=True).get("a")
    with pytest.raises(JSONDecodeError) as caught:
        implementation.Frame(raw=b"{", kind="garbage").get("a")
    assert caught.value.kind == "garbage"


def test_get_keeps_no_path_that_may_refer_to_more(implementation: Implementation) -> None:
    class Name(str):
        refers_to: object

    class Number(int):
        refers_to: object

    class Thing:
        pass

    (event,) = implementation.SSEDecoder().feed(block(b'{"a":[1]}'))
    for make in (
        lambda name, number: name,
        lambda name, number: (name,),
        lambda name, number: ("a", number),
    ):
        name, number = Name("a"), Number(0)
        name.refers_to = number.refers_to = thing = Thing()
        alive = weakref.ref(thing)
        path = make(name, number)
        assert event.get(path) in ([1], 1)
        assert event.get_many((path,)) == event.get_many([path]) == (event.get(path),)
        del name, number, path, thing
        assert alive() is None


def test_get_uses_the_decoders_own_parser(implementation: Implementation) -> None:
    big = 2**70
    decoder = implementation.SSEDecoder(loads=json.loads)
    (event,) = decoder.feed(block(b'{"a":[%d]}' % big))
    assert event.get("a.0") == big
    (event,) = decoder.feed(block(b'{"a":'))
    with pytest.raises(JSONDecodeError, match="loads"):
        event.get("a")


def test_get_remembers_nothing_that_differs(implementation: Implementation) -> None:
    """Payloads that begin or end alike, and not quite: each its own answer."""
    payloads = [
        b'{"a":{"t":"x"},"z":1}',
        b'{"a":{"t":"yy"},"z":1}',
        b'{"a":{"t":"x"},"z":1}}',
        b'{"a":{"t":"x"},"a":{"t":"w"},"z":1}',
        b'{"a":{"t":12},"z":1}',
        b'{"a":{"t":123},"z":1}',
        b'{"a":{"t":12.5e3},"z":1}',
        b'{"a":{"t":"x"},"z":1,"a":0}',
        b'{"a":{"t":"x"},"z":01}',
        b'{"a":{"t":"\\u00e9"},"z":1}',
        b'{"a":{"t":"x}',
        b'{"a":{"t":"x"},"z":1}',
        b'{"b":{"t":"x"},"z":1}',
    ] * 3
    decoder = implementation.SSEDecoder()
    for payload in payloads:
        (event,) = decoder.feed(block(payload))
        assert outcome(lambda e=event: e.get("a.t", "absent")) == expected(payload, "a.t")


def outcome(call: Any) -> Any:
    try:
        return call()
    except JSONDecodeError:
        return JSONDecodeError


def expected(payload: bytes, path: Any) -> Any:
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return JSONDecodeError
    return walk(value, compile_path(path), "absent")


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.text(max_size=12)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "0", "é", 'q"\\', ""]), inner, max_size=3)
    ),
    max_leaves=12,
)
steps = st.sampled_from(["a", "b", "0", "é", 'q"\\', "", 0, 1, 2])
paths = st.lists(steps, max_size=4).map(tuple) | st.lists(
    st.sampled_from(["a", "b", "0", "1", "é"]), max_size=4
).map(".".join)


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """Payloads of one shape, some of them damaged by a byte."""
    shape = draw(values)
    payloads = []
    for _ in range(draw(st.integers(1, 6))):
        value = {"a": shape, "b": [draw(values)], "0": 1} if draw(st.booleans()) else draw(values)
        payload = orjson.dumps(value)
        if draw(st.integers(0, 2)) == 0:
            at = draw(st.integers(0, len(payload)))
            byte = draw(st.sampled_from(list(b'"\\{}[],:0e\xc3 ')))
            payload = draw(
                st.sampled_from(
                    [
                        payload[:at],
                        payload[:at] + payload[at + 1 :],
                        payload[:at] + bytes([byte]) + payload[at:],
                        payload[:at] + bytes([byte]) + payload[at + 1 :],
                    ]
                )
            )
        payloads.append(payload)
    return payloads


def test_get_many_gives_values_in_the_order_of_the_paths(implementation: Implementation) -> None:
    event = implementation.Event(data=CHUNK % ("hé 🚀", 7))
    assert event.get_many(
        (
            *("choices.0.finish_reason", "choices.0.delta.content", ("a.b", 1, 0), "usage.total"),
            *("absent", "usage", "choices.0.delta.content", "choices.0.delta"),
        )
    ) == (None, "hé 🚀", 2, 7, None, {"total": 7}, "hé 🚀", {"content": "hé 🚀"})
    assert event.get_many(["id", "nothing"], 5) == ("chatcmpl-1", 5)
    assert event.get_many(("nothing",), default=5) == (5,)
    assert event.get_many(()) == event.get_many([]) == ()
    frame = implementation.Frame(raw=b'[10,{"a":true},false]')
    assert frame.get_many(("1.a", "0", "2", "")) == (True, 10, False, [10, {"a": True}, False])
    many = tuple(str(index) for index in range(200))
    frame = implementation.Frame(raw=orjson.dumps(list(range(150))))
    assert frame.get_many(many) == (*range(150), *[None] * 50)


def test_get_many_checks_all_of_the_payload(implementation: Implementation) -> None:
    for bad in (b'{"a":1,"b":2', b'{"a":1,"b":2}}', b'{"a":1,"b":02}', b'{"a":"\xff"}', b"", b"x"):
        event = implementation.Event(data=bad)
        with pytest.raises(JSONDecodeError) as refused:
            event.json()
        for paths in (("a", "b"), ("absent",), ()):
            with pytest.raises(JSONDecodeError) as caught:
                event.get_many(paths)
            assert (str(caught.value), caught.value.offset) == (
                str(refused.value),
                refused.value.offset,
            )


def test_get_many_refuses_wrong_paths(implementation: Implementation) -> None:
    wrong: Any
    for item in (
        implementation.Event(data="[1]"),
        implementation.Event(data="x", torn=True),
        implementation.Frame(raw=b"[1]"),
    ):
        for wrong in (None, 5, "a", b"a", {"a"}, iter("a"), ("a", 0), (["a"],), (("a", True),)):
            with pytest.raises(TypeError):
                item.get_many(wrong)
        for wrong in (("a", (-1,)), [("a", -5)], ("\ud800",)):
            with pytest.raises(ValueError):
                item.get_many(wrong)
        for arguments, names in (((), {}), ((("a",), 1, 2), {}), ((("a",),), {"other": 1})):
            with pytest.raises(TypeError):
                item.get_many(*arguments, **names)


def test_get_many_of_what_has_no_value_raises_as_json_does(implementation: Implementation) -> None:
    with pytest.raises(TornError):
        implementation.Event(data="{}", torn=True).get_many(("a",))
    with pytest.raises(JSONDecodeError) as caught:
        implementation.Frame(raw=b"{", kind="garbage").get_many(())
    assert caught.value.kind == "garbage"


def test_get_many_uses_the_decoders_own_parser(implementation: Implementation) -> None:
    big = 2**70
    decoder = implementation.SSEDecoder(loads=json.loads)
    (event,) = decoder.feed(block(b'{"a":[%d],"b":null}' % big))
    assert event.get_many(("a.0", "b", "c"), 5) == (big, None, 5)
    (event,) = decoder.feed(block(b'{"a":'))
    with pytest.raises(JSONDecodeError, match="loads"):
        event.get_many(("a",))


def test_get_many_takes_a_list_as_it_is_at_the_call(implementation: Implementation) -> None:
    (event,) = implementation.SSEDecoder().feed(block(b'{"a":"x","b":"y"}'))
    paths = ["a", "b"]
    assert event.get_many(paths) == ("x", "y")
    paths.reverse()
    assert event.get_many(paths) == ("y", "x")
    paths.clear()
    assert event.get_many(paths) == ()


def test_get_many_forgets_the_oldest_paths_only(implementation: Implementation) -> None:
    """More groups than any cache keeps, in one stream, each asked again and again."""
    names = [f"n{index}" for index in range(40)]
    decoder = implementation.SSEDecoder()
    for turn in range(3):
        payload = orjson.dumps({name: f"{name}-{turn}" for name in names})
        (event,) = decoder.feed(block(payload))
        for one, other in zip(names, reversed(names), strict=True):
            assert event.get_many((one, other)) == (f"{one}-{turn}", f"{other}-{turn}")


@given(
    stream=streams(),
    asked=st.lists(st.lists(paths, max_size=5).map(tuple), min_size=1, max_size=4),
)
def test_get_many_equals_get_of_each_path(
    implementation: Implementation, stream: list[bytes], asked: list[Any]
) -> None:
    decoder = implementation.SSEDecoder()
    for payload in stream:
        if b"\n" in payload or b"\r" in payload:
            continue
        (event,) = decoder.feed(block(payload))
        for group in asked:
            got = outcome(lambda e=event, g=group: e.get_many(g, "absent"))
            want: Any = tuple(expected(event.raw, path) for path in group)
            if expected(event.raw, "") is JSONDecodeError:
                want = JSONDecodeError
            assert got == want
            if want is not JSONDecodeError:
                assert list(map(type, got)) == list(map(type, want))


@given(stream=streams(), asked=st.lists(paths, min_size=1, max_size=5))
def test_get_equals_parsing_all_and_walking(
    implementation: Implementation, stream: list[bytes], asked: list[Any]
) -> None:
    decoder = implementation.SSEDecoder()
    for payload in stream:
        if b"\n" in payload or b"\r" in payload:
            continue
        (event,) = decoder.feed(block(payload))
        for path in asked:
            got = outcome(lambda e=event, p=path: e.get(p, "absent"))
            want = expected(event.raw, path)
            assert got == want
            assert type(got) is type(want)


def test_path_parts_that_are_digits_are_both_name_and_index() -> None:
    assert compile_path("a.10.007") == (("a", None), ("10", 10), ("007", 7))
    assert compile_path(("10", 10)) == (("10", None), (None, 10))
    assert compile_path("") == compile_path(()) == ()
    assert compile_path("9" * 19) == (("9" * 19, None),)
