"""What `help()` says: the same calls on both backends, and a docstring on everything public."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from conftest import Implementation

MEMBERS = {
    "Event": (
        *("event", "id", "retry", "raw", "is_done", "data", "torn", "replaced", "offset"),
        *("parse_error", "value", "wire", "json", "get", "get_many", "validate"),
    ),
    "Frame": (
        "raw",
        "kind",
        "torn",
        "offset",
        "parse_error",
        "value",
        "json",
        "get",
        "get_many",
        "validate",
    ),
    "JSONStreamDecoder": (
        *("feed", "close", "iter", "aiter", "reset"),
        *("pending_bytes", "at_boundary", "array_closed", "stats"),
    ),
    "SSEDecoder": (
        *("feed", "close", "iter", "aiter", "reset"),
        *("last_event_id", "reconnection_time_ms", "pending_bytes", "at_boundary", "stats"),
    ),
    "UTF8Decoder": ("decode", "getstate", "setstate", "reset", "errors", "replaced"),
}
CALLS = [
    *((name, None) for name in MEMBERS),
    *(
        (item, name)
        for item in ("Event", "Frame")
        for name in ("json", "get", "get_many", "validate")
    ),
    *(
        (decoder, name)
        for decoder in ("SSEDecoder", "JSONStreamDecoder")
        for name in ("feed", "close", "iter", "aiter", "reset")
    ),
    *(("UTF8Decoder", name) for name in ("decode", "getstate", "setstate", "reset")),
]


def member(implementation: Implementation, name: str, attribute: str | None) -> Any:
    cls = getattr(implementation, name)
    return cls if attribute is None else getattr(cls, attribute)


def parameters(call: Any) -> list[tuple[str, Any, Any]]:
    """Names, kinds and defaults; annotations are the stubs' business.

    A signature in text cannot say `Limits()`, so of that default only the presence is looked at.
    """
    found = inspect.signature(call).parameters.values()
    return [
        (p.name, p.kind, p.default is p.empty if p.name == "limits" else p.default)
        for p in found
        if p.name not in ("self", "cls")
    ]


@pytest.mark.parametrize(("name", "attribute"), CALLS)
def test_calls_take_the_same_arguments_on_both_backends(
    compiled: Implementation, reference: Implementation, name: str, attribute: str | None
) -> None:
    assert parameters(member(compiled, name, attribute)) == parameters(
        member(reference, name, attribute)
    )


@pytest.mark.parametrize("name", MEMBERS)
def test_public_members_have_docstrings(implementation: Implementation, name: str) -> None:
    for attribute in (None, *MEMBERS[name]):
        docstring = inspect.getdoc(member(implementation, name, attribute))
        assert docstring, attribute
        assert docstring.split("\n")[0].rstrip().endswith((".", ":")) or "\n" in docstring


@pytest.mark.parametrize("name", MEMBERS)
def test_no_member_is_public_but_the_documented(implementation: Implementation, name: str) -> None:
    cls = getattr(implementation, name)
    assert {member for member in dir(cls) if not member.startswith("_")} == set(MEMBERS[name])


def test_types_have_the_names_of_the_public_api(implementation: Implementation) -> None:
    for name in MEMBERS:
        assert getattr(implementation, name).__name__ == name
