"""What the stand-ins parse JSON with gives what `json.loads` gives, to the type and the message."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from json_strategies import broken_texts, json_texts
from seamstream import Event
from seamstream.compat._exact_json import loads, loads_text

numbers = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.integers(0, 400).map(lambda digits: "1" * digits),
    st.floats().map(repr),
    st.from_regex(r"-?[0-9]{1,25}(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,4})?", fullmatch=True),
    st.sampled_from(["NaN", "Infinity", "-Infinity", "-0", "1e400", "-1e-400", "9" * 5000]),
)
around = st.sampled_from(["{}", "[{}]", '{{"a": {}}}', '["{}"]', '{{"{}": 1}}', "{} ", "\ufeff{}"])


def outcome(call: Any, *arguments: object) -> Any:
    try:
        value = call(*arguments)
    except json.JSONDecodeError as error:
        return type(error), error.args, error.msg, error.doc, error.pos
    except (ValueError, RecursionError) as error:  # too many digits, or too deep
        return type(error), str(error)
    return repr(value)  # which tells 1 from 1.0, and 0.0 from -0.0


def assert_exact(payload: bytes) -> None:
    event = Event(data=payload)
    expected = outcome(json.loads, event.data)
    assert outcome(loads, event) == expected
    assert outcome(loads_text, event.data) == expected


@given(st.one_of(json_texts, broken_texts(), st.binary(max_size=20)))
@example(b"")
@example(b'"\xff"')
@example(b'{"a": 1, "b": 2, "a": 3}')
@example(b'"\\ud800"')
@example(b'"\\ud83d\\ude00"')
def test_texts_give_what_json_gives(payload: bytes) -> None:
    assert_exact(payload)


@given(numbers, around)
def test_numbers_give_what_json_gives(number: str, around: str) -> None:
    assert_exact(around.format(number).encode())


def nested(depth: int, opening: str, closing: str) -> str:
    return opening * depth + "1" + closing * depth


# Not by Hypothesis, which raises the limit on recursion. orjson goes to 1024.
@pytest.mark.parametrize("brackets", [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
@pytest.mark.parametrize("depth", [1, 99, 100, 101, 199, 200, 201, 500, 512, 900, 1000, 1024, 1025])
def test_depth_is_what_json_can_do(depth: int, brackets: tuple[str, str]) -> None:
    text = nested(depth, *brackets)
    expected = outcome(json.loads, text)
    for found in (outcome(loads, Event(data=text)), outcome(loads_text, text)):
        if found[0] is RecursionError:
            # Ours calls json from one call deeper.
            assert outcome(json.loads, nested(depth + 5, *brackets))[0] is RecursionError
        else:
            assert found == expected


@given(st.text(st.characters(), max_size=10))
@example("\ud800")
def test_text_that_utf_8_cannot_hold_gives_what_json_gives(text: str) -> None:
    for made in (text, json.dumps(text), json.dumps(text, ensure_ascii=False)):
        assert outcome(loads_text, made) == outcome(json.loads, made)
