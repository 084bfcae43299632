"""Validation with pydantic, straight from the bytes of a payload."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Generic, List, Literal, TypeVar, Union  # noqa: UP035

import pydantic
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator
from typing_extensions import TypedDict

from conftest import Implementation
from seamstream import EventStream, JSONDecodeError, SchemaError, TornError
from seamstream.validation import ADAPTERS_KEPT, _make_adapter, validate_event, validate_frame

SECRET = "a secret"


class Delta(BaseModel):
    id: str
    index: int
    content: str = ""
    finish_reason: str | None = None


class Start(BaseModel):
    type: Literal["start"]
    model: str


class Stop(BaseModel):
    type: Literal["stop"]
    reason: str


class Strict(BaseModel):
    """What only JSON's own parser can give a strict model: there are no dates in JSON."""

    model_config = ConfigDict(strict=True)
    day: date
    pair: tuple[int, int]


@dataclass
class Point:
    x: int
    y: int


class Named(TypedDict):
    name: str


T = TypeVar("T")


class Page(BaseModel, Generic[T]):
    items: list[T]


AnyAdapter = TypeAdapter(Any)
Chunk = Annotated[Union[Start, Stop], Field(discriminator="type")]  # noqa: UP007


@pytest.fixture(autouse=True)
def decoders(implementation: Implementation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every stream use the decoders of the implementation under test."""
    for name in ("SSEDecoder", "JSONStreamDecoder"):
        monkeypatch.setattr(f"seamstream.stream.{name}", getattr(implementation, name))


@pytest.fixture
def validate(implementation: Implementation) -> Callable[[bytes, Any], Any]:
    return lambda raw, target: validate_event(implementation.Event(data=raw), target)


# --- targets --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "raw"),
    [
        (Delta, b'{"id": "1", "index": 0, "content": "x", "more": 1}'),
        (TypeAdapter(Delta), b'{"id": "1", "index": 0}'),
        (Strict, b'{"day": "2026-11-30", "pair": [1, 2]}'),
        (Page[int], b'{"items": [1, 2]}'),
        (Point, b'{"x": 1, "y": 2}'),
        (pydantic.dataclasses.dataclass(Point), b'{"x": 1, "y": 2}'),
        (Named, b'{"name": "a"}'),
        (list[Delta], b'[{"id": "1", "index": 0}]'),
        (dict[str, float], b'{"a": 1}'),
        (Chunk, b'{"type": "stop", "reason": "length"}'),
        (int | str, b'"5"'),
        (int, b"12345678901234567890123"),
        (Any, b'{"a": [1, null, "x"]}'),
        (None, b"null"),
    ],
)
def test_value_is_that_of_a_type_adapter(
    implementation: Implementation, target: Any, raw: bytes
) -> None:
    adapter = target if isinstance(target, TypeAdapter) else TypeAdapter(target)
    expected = adapter.validate_json(raw)
    for value in (
        validate_event(implementation.Event(data=raw), target),
        validate_frame(implementation.Frame(raw=raw), target),
    ):
        assert value == expected
        assert type(value) is type(expected)


def test_order_of_a_union_counts(validate: Callable[[bytes, Any], Any]) -> None:
    class A(BaseModel):
        x: int

    class B(BaseModel):
        x: int

    assert (A | B) == (B | A)
    assert type(validate(b'{"x": 1}', A | B)) is A
    assert type(validate(b'{"x": 1}', B | A)) is B
    assert type(validate(b'[{"x": 1}]', list[A | B])[0]) is A
    assert type(validate(b'[{"x": 1}]', list[B | A])[0]) is B


def test_adapters_are_kept_up_to_a_number(validate: Callable[[bytes, Any], Any]) -> None:
    _make_adapter.cache_clear()
    for _ in range(5):
        assert validate(b"[1]", List[int]) == [1]  # noqa: UP006 - equal, not the same
        assert validate(b'{"x": 1, "y": 2}', Point) == Point(1, 2)
    assert _make_adapter.cache_info().misses == 2
    for number in range(ADAPTERS_KEPT * 2):
        validate(b"1", Annotated[int, Field(lt=number + 2)])
    assert _make_adapter.cache_info().currsize == ADAPTERS_KEPT


def test_target_that_cannot_be_hashed_works(validate: Callable[[bytes, Any], Any]) -> None:
    assert validate(b"1", Annotated[int, {"not": "hashable"}]) == 1


def test_plain_subclass_of_a_pydantic_dataclass_is_validated_as_itself(
    validate: Callable[[bytes, Any], Any],
) -> None:
    @pydantic.dataclasses.dataclass
    class Base:
        x: int

    class Sub(Base):
        pass

    assert type(validate(b'{"x": 1}', Base)) is Base
    assert type(validate(b'{"x": 1}', Sub)) is type(TypeAdapter(Sub).validate_json(b'{"x": 1}'))


def test_model_that_is_built_later_or_again_is_used_as_it_is_then(
    validate: Callable[[bytes, Any], Any],
) -> None:
    class Deferred(BaseModel):
        model_config = ConfigDict(defer_build=True)
        x: int

    assert validate(b'{"x": 1}', Deferred) == Deferred(x=1)

    class Waiting(BaseModel):
        child: Later | None = None  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(pydantic.PydanticUserError):
        validate(b"{}", Waiting)
    Waiting.model_rebuild(_types_namespace={"Later": int})
    assert validate(b'{"child": 1}', Waiting).child == 1


@pytest.mark.parametrize("target", [5, "Delta", Delta(id="1", index=0), object()])
def test_what_pydantic_cannot_validate_is_a_type_error_or_pydantics_own(target: Any) -> None:
    with pytest.raises((TypeError, pydantic.errors.PydanticUserError)):
        EventStream([], model=target)


# --- what is JSON ---------------------------------------------------------------------------

NOT_JSON = [
    *(b"", b" ", b"{", b'{"a": 1,}', b"{'a': 1}", b'{"a": 1} x', b"01", b"1.", b"+1", b"nul"),
    *(b"NaN", b'{"b": NaN}', b'{"b": [Infinity]}', b'{"b": -Infinity}', b'{"a": "x", "b": NaN}'),
    *(rb'{"b": "\ud800"}', rb'{"\udc00": 1}', rb'{"b": "\x41"}', b'{"b": "\x01"}', b'{"b": "\n"}'),
    *(b'{"b": "\xff"}', b'{"\xff": 1}', b'{"a": "\xed\xa0\x80"}', b"\xef\xbb\xbf{}", b"{}\0"),
    *(b"[" * 2000, b'{"b": ' + b"1" * 5000 + b"}"),
]


class Loose(BaseModel):
    a: Any = None


class Text(BaseModel):
    a: str = ""


@pytest.mark.parametrize("raw", NOT_JSON)
@pytest.mark.parametrize("target", [Loose, Text, AnyAdapter, int])
def test_payload_that_json_refuses_is_the_same_syntax_error(
    implementation: Implementation, raw: bytes, target: Any
) -> None:
    event = implementation.Event(data=raw)
    with pytest.raises(JSONDecodeError) as expected:
        event.json()
    with pytest.raises(JSONDecodeError) as caught:
        validate_event(event, target)
    assert caught.value.kind == "syntax"
    assert (caught.value.msg, caught.value.offset) == (expected.value.msg, expected.value.offset)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "NaN Infinity", "N", "I", "Ñ"])
def test_words_that_are_no_numbers_are_text_in_a_string(
    validate: Callable[[bytes, Any], Any], text: str
) -> None:
    raw = json.dumps({"a": text}, ensure_ascii=False).encode()
    assert validate(raw, Text).a == text


def test_numbers_and_nesting_differ_from_json_as_documented(
    validate: Callable[[bytes, Any], Any],
) -> None:
    assert validate(b"1e400", float) == float("inf")
    with pytest.raises(JSONDecodeError):  # refused by the model, and then no JSON at all
        validate(b"1e400", Annotated[float, Field(allow_inf_nan=False)])
    big = int("1" * 400)
    assert validate(str(big).encode(), int) == big
    with pytest.raises(SchemaError) as caught:
        validate(b"[" * 300 + b"]" * 300, AnyAdapter)
    assert caught.value.errors[0]["type"] == "json_invalid"


TOKENS = st.lists(
    st.sampled_from(
        [
            *(b"{", b"}", b"[", b"]", b",", b":", b'"', b" ", b"\n", b"\t", b"\\u00", b"\\", b"41"),
            *(b"1", b"0", b"-", b".", b"e", b"null", b"true", b"NaN", b"Infinity", b'"a"', b'"a":'),
            *(b"[1]", b"{}", b"\xe3\x81\x82", b"\xff", b"\x00"),
        ]
    ),
    max_size=10,
)


@given(tokens=TOKENS)
@example(tokens=[b'{"a":', b"NaN", b"}"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_validate_and_json_agree_on_what_is_json(
    implementation: Implementation, tokens: list[bytes]
) -> None:
    event = implementation.Event(data=b"".join(tokens))
    outcomes = []
    for parse in (event.json, lambda: validate_event(event, AnyAdapter)):
        try:
            outcomes.append(parse())
        except JSONDecodeError as error:  # noqa: PERF203
            outcomes.append((error.msg, error.offset))
    assert outcomes[0] == outcomes[1]


# --- errors ---------------------------------------------------------------------------------


def refusal(validate: Callable[[bytes, Any], Any], raw: bytes, target: Any) -> SchemaError:
    with pytest.raises(SchemaError) as caught:
        validate(raw, target)
    return caught.value


def test_schema_error_tells_what_pydantic_says_without_the_payload(
    validate: Callable[[bytes, Any], Any],
) -> None:
    raw = json.dumps({"id": [SECRET], "index": SECRET, SECRET: 1}).encode()
    error = refusal(validate, raw, Delta)
    assert (error.kind, error.offset) == ("schema", 0)
    assert str(error) == "Delta refused the value, 2 errors: string_type, int_parsing"
    assert [entry["loc"] for entry in error.errors] == [("id",), ("index",)]
    assert SECRET not in repr(error.errors)
    assert type(error.__cause__) is ValidationError
    assert error.__cause__.errors()[0]["input"] == [SECRET]
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.errors) == (str(error), error.errors)


def test_message_names_kinds_of_errors_and_never_what_was_found(
    validate: Callable[[bytes, Any], Any],
) -> None:
    raw = json.dumps({"type": SECRET}).encode()
    assert SECRET not in str(refusal(validate, raw, Chunk))
    error = refusal(validate, b"{}", Delta)
    assert str(error) == "Delta refused the value, 2 errors: missing"
    assert str(refusal(validate, b"5", Delta)) == "Delta refused the value, 1 error: model_type"

    class Wide(BaseModel):
        a: int
        b: str
        c: list[int]
        d: dict[str, int]
        e: bool
        f: date

    raw = b'{"a": [], "b": 1, "c": 1, "d": 1, "e": [], "f": []}'
    assert str(refusal(validate, raw, Wide)).endswith(
        "6 errors: int_type, string_type, list_type, dict_type, bool_type, ..."
    )


def test_errors_of_a_models_own_checks_are_schema_errors(
    validate: Callable[[bytes, Any], Any],
) -> None:
    class Checked(BaseModel):
        x: int

        @field_validator("x")
        @classmethod
        def check(cls, x: int) -> int:
            if x == 1:
                raise ValueError(SECRET)
            if x == 2:
                raise KeyError(x)
            return x

    error = refusal(validate, b'{"x": 1}', Checked)
    assert error.errors[0]["type"] == "value_error"
    assert SECRET not in str(error)
    with pytest.raises(KeyError):
        validate(b'{"x": 2}', Checked)
    assert validate(b'{"x": 3}', Checked).x == 3


def test_json_within_json_is_no_syntax_error_of_the_payload(
    validate: Callable[[bytes, Any], Any],
) -> None:
    error = refusal(validate, b'"{broken"', pydantic.Json[int])
    assert error.errors[0]["type"] == "json_invalid"


def test_torn_events_and_error_frames_are_not_validated(implementation: Implementation) -> None:
    with pytest.raises(TornError):
        validate_event(implementation.Event(data=b"{}", torn=True), Loose)
    with pytest.raises(TornError):
        validate_frame(implementation.Frame(raw=b"{}", torn=True), Loose)
    for kind in ("garbage", "separator", "truncated", "oversize"):
        with pytest.raises(JSONDecodeError) as caught:
            validate_frame(implementation.Frame(raw=b"", kind=kind), Loose)
        assert caught.value.kind == kind
    with pytest.raises(SchemaError):
        validate_frame(implementation.Frame(raw=b"5"), Loose)


# --- streams --------------------------------------------------------------------------------


def sse(*payloads: Any, event: str | None = None) -> bytes:
    name = f"event: {event}\n" if event else ""
    return "".join(
        f"{name}data: {p if isinstance(p, str) else json.dumps(p)}\n\n" for p in payloads
    ).encode()


def test_stream_gives_models_and_flags_what_they_refuse() -> None:
    stream = EventStream(
        [sse({"id": "1", "index": 0}, {"id": 1}, "{broken", "text"), sse("[DONE]")], model=Delta
    )
    items = list(stream)
    assert [item.value for item in items] == [Delta(id="1", index=0), None, None, None]
    errors = [item.error and item.error.kind for item in items]
    assert errors == [None, "schema", "syntax", "syntax"]
    assert isinstance(items[1].error.__cause__, ValidationError)  # type: ignore[union-attr]
    report = stream.report
    assert (report.parse_errors, report.schema_errors, report.done_seen) == (2, 1, True)


@pytest.mark.parametrize("framing", ["ndjson", "concatenated", "array", "json-seq"])
def test_json_streams_give_models_too(framing: Any) -> None:
    begin, between, end = {
        "ndjson": ("", "\n", "\n"),
        "concatenated": ("", "", ""),
        "array": ("[", ",", "]"),
        "json-seq": ("\x1e", "\n\x1e", "\n"),
    }[framing]
    values = [json.dumps(value) for value in ({"id": "1", "index": 0}, {"id": 1}, {"x": [1]})]
    body = (begin + between.join(values) + end).encode()
    opened = EventStream([body], framing=framing, model=Delta)
    assert [item.error and item.error.kind for item in opened] == [None, "schema", "schema"]
    opened = EventStream([body[: body.rindex(b"1]")]], framing=framing, model=Delta)
    assert [item.error and item.error.kind for item in opened] == [None, "schema", "torn"]


def test_sentinel_handed_out_as_any_event_is_no_model() -> None:
    (item,) = EventStream([sse("[DONE]")], model=Delta, done=None)
    assert item.error is not None
    assert item.error.kind == "syntax"


def test_models_by_event_name() -> None:
    body = (
        sse({"type": "start", "model": "m"}, event="start")
        + sse({"type": "start"}, event="start")
        + sse({"any": 1}, "text", "{broken", event="ping")
        + sse("text", event="stop")
        + sse({"type": "stop", "reason": "x"}, event="stop")
        + sse({"no": "name"})
    )
    opened = EventStream([body], model={"start": Start, "stop": TypeAdapter(Stop)})
    items = list(opened)
    assert [item.value for item in items] == [
        Start(type="start", model="m"),
        None,
        {"any": 1},
        "text",
        None,
        None,
        Stop(type="stop", reason="x"),
        {"no": "name"},
    ]
    kinds = [item.error and item.error.kind for item in items]
    assert kinds == [None, "schema", None, None, "syntax", "syntax", None, None]
    report = opened.report
    assert (report.parse_errors, report.schema_errors) == (2, 1)
    with pytest.raises(TypeError, match="event name"):
        EventStream([], model={5: Start})  # type: ignore[dict-item]


def test_schema_errors_do_as_on_error_says() -> None:
    body = [sse({"id": "1", "index": 0}, {"id": 1}, {"id": "2", "index": 1})]
    entries: list[Any] = []
    for on_error in ("skip", "quarantine"):
        opened: Any = EventStream(
            body,
            model=Delta,
            on_error=on_error,
            quarantine=entries.append if on_error == "quarantine" else None,
        )
        assert [item.value.id for item in opened] == ["1", "2"]
        assert opened.report.schema_errors == 1
    assert [(entry.kind, entry.offset) for entry in entries] == [("schema", 31)]
    with pytest.raises(SchemaError):
        list(EventStream(body, model=Delta, on_error="raise"))


# --- pydantic is an extra -------------------------------------------------------------------


def test_pydantic_is_imported_only_when_something_is_validated(
    run_python: Callable[..., str],
) -> None:
    code = """
import sys, seamstream
list(seamstream.EventStream([b"data: 1\\n\\n"], parse=True))
print(*[name for name in sys.modules if "pydantic" in name])
"""
    assert run_python(code=code).split() == []


def test_missing_pydantic_is_an_import_error_that_names_the_extra(
    run_python: Callable[..., str],
) -> None:
    code = """
import sys, seamstream
sys.modules["pydantic"] = None
try:
    seamstream.EventStream([], model=int)
except ImportError as error:
    print(error)
"""
    assert "seamstream[pydantic]" in run_python(code=code)
