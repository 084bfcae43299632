"""What is raised: its tree, its attributes, and how it travels."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

import seamstream
from seamstream import (
    ContentTypeError,
    DecodeError,
    IdleTimeoutError,
    JSONDecodeError,
    LimitExceededError,
    SchemaError,
    SeamstreamError,
    StreamStateError,
    TornError,
    UTF8DecodeError,
)

EXAMPLES: dict[str, tuple[SeamstreamError, str, dict[str, Any]]] = {
    "SeamstreamError": (SeamstreamError("what"), "what", {}),
    "DecodeError": (
        DecodeError("what", 5, "some-kind"),
        "what",
        {"offset": 5, "kind": "some-kind"},
    ),
    "UTF8DecodeError": (
        UTF8DecodeError(b"\xe2\x28", 4113, "invalid continuation byte"),
        "ill-formed utf-8 at byte 4113: 0xe2 0x28",
        {
            "offset": 4113,
            "kind": "ill-formed",
            "encoding": "utf-8",
            "object": b"\xe2\x28",
            "start": 0,
            "end": 2,
            "reason": "invalid continuation byte",
        },
    ),
    "UTF8DecodeError at the end": (
        UTF8DecodeError(b"\xf0\x9f", 7, "unexpected end of data", "truncated"),
        "truncated utf-8 at byte 7: 0xf0 0x9f",
        {"offset": 7, "kind": "truncated", "object": b"\xf0\x9f"},
    ),
    "JSONDecodeError": (
        JSONDecodeError("unexpected end of data", 12),
        "unexpected end of data at byte 12",
        {
            "offset": 12,
            "kind": "syntax",
            "msg": "unexpected end of data",
            "doc": "",
            "pos": 12,
            "lineno": 1,
            "colno": 13,
        },
    ),
    "SchemaError": (
        SchemaError("2 validation errors", [{"type": "missing", "loc": ("id",)}], 3),
        "2 validation errors",
        {"offset": 3, "kind": "schema", "errors": [{"type": "missing", "loc": ("id",)}]},
    ),
    "TornError": (
        TornError(99),
        "the stream ended inside this event, which begins at byte 99",
        {"offset": 99, "kind": "torn"},
    ),
    "LimitExceededError": (
        LimitExceededError(10, 11, 25),
        "an event outgrew max_event_bytes=10 at byte 25",
        {"limit": 10, "observed": 11, "offset": 25},
    ),
    "StreamStateError": (StreamStateError("closed"), "closed", {}),
    "IdleTimeoutError": (
        IdleTimeoutError(1.5, "items"),
        "no items for 1.5 seconds",
        {"seconds": 1.5, "awaited": "items"},
    ),
    "ContentTypeError": (
        ContentTypeError('text/html; a="b"', ("text/event-stream",), b"<html>"),
        "content type 'text/html; a=\"b\"', expected text/event-stream",
        {
            "content_type": 'text/html; a="b"',
            "expected": ("text/event-stream",),
            "excerpt": b"<html>",
        },
    ),
}

examples = pytest.mark.parametrize(
    ("error", "message", "attributes"), EXAMPLES.values(), ids=EXAMPLES.keys()
)


def test_error_tree_is_as_documented() -> None:
    bases = {
        SeamstreamError: (Exception,),
        DecodeError: (SeamstreamError, ValueError),
        UTF8DecodeError: (DecodeError, UnicodeDecodeError),
        JSONDecodeError: (DecodeError, json.JSONDecodeError),
        SchemaError: (DecodeError,),
        TornError: (DecodeError,),
        LimitExceededError: (SeamstreamError,),
        StreamStateError: (SeamstreamError, RuntimeError),
        IdleTimeoutError: (SeamstreamError, TimeoutError),
        ContentTypeError: (SeamstreamError,),
    }
    assert {error: error.__bases__ for error in bases} == bases
    exported = {name for name in seamstream.__all__ if name.endswith("Error")}
    assert exported == {error.__name__ for error in bases}


@examples
def test_error_says_what_and_where(
    error: SeamstreamError, message: str, attributes: dict[str, Any]
) -> None:
    assert str(error) == message
    assert {name: getattr(error, name) for name in attributes} == attributes
    assert not message.endswith(".")


@examples
def test_error_pickles_and_copies_with_all_it_holds(
    error: SeamstreamError, message: str, attributes: dict[str, Any]
) -> None:
    noted = copy.copy(error)
    noted.__dict__["noted"] = "by the caller"
    travellers = [pickle.loads(pickle.dumps(noted, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1)]
    for other in (*travellers, copy.copy(noted), copy.deepcopy(noted)):
        assert type(other) is type(error)
        assert other is not noted
        assert str(other) == message
        assert repr(other) == repr(error)
        assert other.args == error.args
        assert {name: getattr(other, name) for name in attributes} == attributes
        assert other.noted == "by the caller"


def test_error_is_caught_by_the_standard_names() -> None:
    for error, standard in (
        (UTF8DecodeError(b"\xff", 0, "invalid start byte"), UnicodeDecodeError),
        (UTF8DecodeError(b"\xff", 0, "invalid start byte"), ValueError),
        (JSONDecodeError("unexpected", 0), json.JSONDecodeError),
        (TornError(0), ValueError),
        (StreamStateError("closed"), RuntimeError),
        (IdleTimeoutError(1.0), TimeoutError),
    ):
        with pytest.raises(standard):
            raise error
