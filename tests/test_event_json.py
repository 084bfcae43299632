"""`json()`, `value` and `parse_error`: what a payload is, and what is said about one that is not.

The expected offsets are byte positions in `raw`, counted by hand.
"""

from __future__ import annotations

import json
import math
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Implementation
from seamstream import JSONDecodeError, TornError
from stream_strategies import ILL_FORMED, JSON_PIECES


def fed(implementation: Implementation, payload: bytes, **options: Any) -> Any:
    """The event that carries a payload without line endings."""
    decoder = implementation.SSEDecoder(**options)
    (event,) = decoder.feed(b"data: " + payload + b"\n\n")
    assert event.raw == payload
    return event


def refused(event: Any) -> JSONDecodeError:
    with pytest.raises(JSONDecodeError) as caught:
        event.json()
    error = caught.value
    assert error.kind == "syntax"
    assert error.doc == ""
    assert error.pos == error.offset
    assert (error.lineno, error.colno) == (1, error.offset + 1)
    assert str(error) == f"{error.msg} at byte {error.offset}"
    return error


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        ('{"a": [1, 1.5, true, null, "é"]}', {"a": [1, 1.5, True, None, "é"]}),
        ("[]", []),
        ("1.50", 1.5),
        ('"text"', "text"),
        ("null", None),
        ("true", True),
        (" \t{}", {}),
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
    ],
)
def test_json_payload_is_parsed(
    implementation: Implementation, payload: str, value: object
) -> None:
    event = fed(implementation, payload.encode())
    for parsed in (event.json(), event.value):
        assert parsed == value
        assert type(parsed) is type(value)
    assert event.parse_error is None
    assert event.data == payload


def test_payload_is_kept_exactly_as_sent_beside_its_value(implementation: Implementation) -> None:
    event = fed(implementation, b'{ "price":1.50 }')
    assert event.raw == b'{ "price":1.50 }'
    assert event.data == '{ "price":1.50 }'
    assert event.value == {"price": 1.5}


@pytest.mark.parametrize(
    "payload", ["", "hello", "NaN", "-Infinity", "it's {}", "\ufeff{}", "\x0b{", "\u00a0[", "1 2"]
)
def test_text_payload_is_its_own_value_and_no_error(
    implementation: Implementation, payload: str
) -> None:
    event = fed(implementation, payload.encode())
    assert event.value == event.data == payload
    assert event.parse_error is None
    refused(event)


@pytest.mark.parametrize(
    ("payload", "offset"),
    [
        (b"{", 1),
        (b"[1,2", 4),
        (b"[NaN]", 1),
        (b" \t[x", 3),
        ('{"é": x}'.encode(), 7),
        ('["漢字", x]'.encode(), 11),
        ('["🚀", "\\udc00"]'.encode(), None),
        (b'{"a":1,}', None),
        (b'{"a":"\x1b"}', None),
        (b"{'a':1}", None),
        (b"[1] [2]", None),
    ],
)
def test_broken_object_or_array_is_flagged_and_kept_as_text(
    implementation: Implementation, payload: bytes, offset: int | None
) -> None:
    event = fed(implementation, payload)
    assert event.parse_error == "syntax"
    assert event.value == event.data == payload.decode()
    error = refused(event)
    assert error.__cause__ is not None
    if offset is None:
        # Which byte of a wrong construct is named is up to the parser; it is in the payload.
        assert 0 < error.offset <= len(payload)
    else:
        assert error.offset == offset


@pytest.mark.parametrize(
    ("payload", "offset"),
    [
        (b'{"a":"\xff"}', 6),
        (b'["\xe6\xbc\xa2\xe2\x82"]', 5),
        (b"[\xed\xa0\x80", 1),
        (b'["x\xc3', 3),
        (b"[x \xff", 3),
    ],
)
def test_ill_formed_payload_is_flagged_at_its_first_ill_formed_byte(
    implementation: Implementation, payload: bytes, offset: int
) -> None:
    event = fed(implementation, payload)
    assert event.parse_error == "syntax"
    assert refused(event).offset == offset
    assert event.value == event.data == payload.decode("utf-8", "replace")


def test_json_error_names_no_payload_text(implementation: Implementation) -> None:
    secret = "the prompt"
    for options in ({}, {"loads": json.loads}):
        event = fed(implementation, b'["' + secret.encode() + b'", x]', **options)
        error = refused(event)
        assert secret not in str(error)
        assert secret not in repr(error)
        assert all(secret not in repr(value) for value in vars(error).values())


def test_parser_message_is_kept_for_orjson_only(implementation: Implementation) -> None:
    with pytest.raises(orjson.JSONDecodeError) as caught:
        orjson.loads(b"[")
    assert refused(fed(implementation, b"[")).msg == caught.value.msg
    error = refused(fed(implementation, b"[", loads=json.loads))
    assert error.msg == "loads refused the payload"


def test_newlines_in_a_payload_do_not_change_the_offset(implementation: Implementation) -> None:
    event = implementation.Event(data=b'{\n"a": 1,\n\n"b": x}')
    assert refused(event).offset == 16
    assert refused(event).lineno == 1
    (event,) = implementation.SSEDecoder(loads=json.loads).feed(b"data: [1,\ndata: x]\n\n")
    assert refused(event).offset == 4


def test_deeply_nested_payload_is_refused_and_not_a_crash(implementation: Implementation) -> None:
    for payload in (b"[" * 100_000, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000):
        for options in ({}, {"loads": json.loads}):
            event = fed(implementation, payload, **options)
            assert event.parse_error == "syntax"
            assert event.value == payload.decode()
            error = refused(event)
            assert 0 <= error.offset <= len(payload)
    event = fed(implementation, b"[" * 1000 + b"]" * 1000)
    value, depth = event.value, 0
    while value is not None:
        value, depth = value[0] if value else None, depth + 1
    assert depth == 1000


def test_integers_beyond_64_bits_become_floats_unless_loads_keeps_them(
    implementation: Implementation,
) -> None:
    payload = b"[18446744073709551617]"
    (number,) = fed(implementation, payload).value
    assert type(number) is float
    assert number == 2.0**64
    assert fed(implementation, payload, loads=json.loads).value == [2**64 + 1]


def test_nan_is_no_json_unless_loads_takes_it(implementation: Implementation) -> None:
    assert fed(implementation, b"[NaN]").value == "[NaN]"
    (number,) = fed(implementation, b"[NaN]", loads=json.loads).value
    assert math.isnan(number)


def test_lone_surrogate_escape_is_no_json_unless_loads_takes_it(
    implementation: Implementation,
) -> None:
    payload = b'["\\ud800"]'
    assert fed(implementation, payload).parse_error == "syntax"
    event = fed(implementation, payload, loads=json.loads)
    assert event.parse_error is None
    assert event.value == ["\ud800"]


def test_sentinel_is_text_without_error(implementation: Implementation) -> None:
    event = fed(implementation, b" [DONE]\t")
    assert event.is_done
    assert event.value == " [DONE]\t"
    assert event.parse_error is None
    refused(event)


def test_torn_event_is_never_parsed(implementation: Implementation) -> None:
    def loads(payload: bytes) -> object:
        pytest.fail("parsed")

    decoder = implementation.SSEDecoder(loads=loads)
    assert decoder.feed(b":c\n{}") == ()
    (torn,) = decoder.close()
    made = implementation.Event(data="{}", torn=True)
    for event, offset in ((torn, 3), (made, 0)):
        assert event.parse_error == "torn"
        assert event.value == "{}"
        with pytest.raises(TornError) as caught:
            event.json()
        assert (caught.value.kind, caught.value.offset) == ("torn", offset)


def test_loads_gets_the_exact_payload_at_every_access(implementation: Implementation) -> None:
    calls: list[bytes] = []

    def loads(payload: bytes) -> int:
        calls.append(payload)
        return len(calls)

    event = fed(implementation, b'{"a": 1}', loads=loads)
    assert (event.value, event.json(), event.value) == (1, 2, 3)
    assert calls == [b'{"a": 1}'] * 3
    assert {type(call) for call in calls} == {bytes}


def test_parse_error_is_found_once_and_kept(implementation: Implementation) -> None:
    for error, expected in ((ValueError, "syntax"), (KeyError, "loads"), (None, None)):
        calls = []

        def loads(payload: bytes, error: Any = error, calls: Any = calls) -> None:
            calls.append(payload)
            if error:
                raise error

        event = fed(implementation, b"{}", loads=loads)
        assert [event.parse_error for _ in range(3)] == [expected] * 3
        assert len(calls) == 1


def test_parse_error_asks_loads_only_about_objects_and_arrays(
    implementation: Implementation,
) -> None:
    def loads(payload: bytes) -> None:
        pytest.fail("asked")

    for payload in (b"text", b"1", b'"{"', b"", b"[DONE]", b" [DONE]"):
        assert fed(implementation, payload, loads=loads).parse_error is None


@pytest.mark.parametrize("exception", [ValueError("secret"), RecursionError("secret")])
def test_loads_refusal_becomes_a_json_error_with_its_cause(
    implementation: Implementation, exception: Exception
) -> None:
    def loads(payload: bytes) -> None:
        raise exception

    event = fed(implementation, b"{}", loads=loads)
    error = refused(event)
    assert error.msg == "loads refused the payload"
    assert error.offset == 0
    assert error.__cause__ is exception
    assert event.value == "{}"
    assert event.parse_error == "syntax"


def test_loads_position_in_characters_becomes_an_offset_in_bytes(
    implementation: Implementation,
) -> None:
    event = fed(implementation, '{"é漢🚀": x}'.encode(), loads=json.loads)
    # The x is character 8; two, three and four bytes stand for three of those before it.
    assert refused(event).offset == 14


def test_loads_position_that_makes_no_sense_does_no_harm(implementation: Implementation) -> None:
    class OddError(ValueError):
        def __init__(self, pos: object) -> None:
            super().__init__("odd")
            self.pos = pos

    for pos in ("3", None, 1.5, b""):

        def loads(payload: bytes, pos: object = pos) -> None:
            raise OddError(pos)

        assert refused(fed(implementation, b"{}", loads=loads)).offset == 0
    for pos in (-5, 10**30, 3, -(10**30)):

        def loads(payload: bytes, pos: object = pos) -> None:
            raise OddError(pos)

        assert 0 <= refused(fed(implementation, b"{}", loads=loads)).offset <= 2


@pytest.mark.parametrize("exception", [KeyError("k"), MemoryError(), ZeroDivisionError()])
def test_other_exceptions_of_loads_pass_through(
    implementation: Implementation, exception: Exception
) -> None:
    def loads(payload: bytes) -> None:
        raise exception

    event = fed(implementation, b"{}", loads=loads)
    for access in (event.json, lambda: event.value):
        with pytest.raises(type(exception)) as caught:
            access()
        assert caught.value is exception
    assert event.parse_error == "loads"
    assert event.data == "{}"


def test_loads_must_be_callable(implementation: Implementation) -> None:
    with pytest.raises(TypeError, match="loads"):
        implementation.SSEDecoder(loads="json")


def test_event_made_by_hand_parses_as_one_from_a_stream(implementation: Implementation) -> None:
    for payload in (b'{"a":1}', b"[", b"text", b'{"a":"\xff"}'):
        made = implementation.Event(data=payload)
        from_stream = fed(implementation, payload)
        assert made.value == from_stream.value
        assert made.parse_error == from_stream.parse_error


payloads = st.lists(
    st.one_of(
        st.sampled_from([*JSON_PIECES, *ILL_FORMED, b",", b":", b"1", b'"a"', "漢".encode()]),
        st.binary(max_size=3),
    ),
    max_size=10,
).map(b"".join)


@given(payload=payloads, loads=st.sampled_from([None, json.loads]))
def test_compiled_parses_and_refuses_exactly_as_the_reference(
    compiled: Implementation, reference: Implementation, payload: bytes, loads: Any
) -> None:
    payload = payload.replace(b"\r", b"").replace(b"\n", b"")

    def answers(implementation: Implementation) -> list[Any]:
        event = fed(implementation, payload, loads=loads)
        log = [event.parse_error, repr(event.value), event.is_done, event.data, event.replaced]
        try:
            log.append(repr(event.json()))
        except JSONDecodeError as error:
            log += [str(error), vars(error), type(error.__cause__)]
        return log

    assert answers(compiled) == answers(reference)
