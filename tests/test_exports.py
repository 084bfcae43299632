"""The public names, and what importing them costs."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

import seamstream
from conftest import Implementation

PUBLIC = {
    *("SSEDecoder", "JSONStreamDecoder", "UTF8Decoder", "Event", "Frame", "Limits"),
    *("Stats", "JSONStats", "JSONErrorCounts", "backend", "__version__"),
    *("EventStream", "Parsed", "Report", "JSONLinesSink", "LoggingSink", "QuarantineEntry"),
    *("SeamstreamError", "DecodeError", "UTF8DecodeError", "JSONDecodeError", "SchemaError"),
    *(
        "TornError",
        "LimitExceededError",
        "StreamStateError",
        "ContentTypeError",
        "IdleTimeoutError",
    ),
}


def test_all_names_exactly_what_is_public() -> None:
    assert set(seamstream.__all__) == PUBLIC
    assert len(seamstream.__all__) == len(PUBLIC)


def test_all_names_can_be_imported() -> None:
    namespace: dict[str, object] = {}
    exec("from seamstream import *", namespace)
    assert set(namespace) - {"__builtins__"} == PUBLIC
    assert None not in namespace.values()


def test_no_other_public_name_is_in_the_package() -> None:
    names = {name for name in vars(seamstream) if not name.startswith("_")}
    modules = {name for name in names if isinstance(getattr(seamstream, name), ModuleType)}
    assert modules <= {
        *("cli", "compat", "errors", "limits", "paths", "profiles", "quarantine", "sources"),
        *("stats", "stream", "testing", "validation", "waiting"),
    }
    assert names - modules - {"annotations"} == PUBLIC - {"__version__"}


def test_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'seamstream' has no attribute 'nothing'"):
        seamstream.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_decoders_are_those_of_the_chosen_backend(implementation: Implementation) -> None:
    names = ("Event", "Frame", "JSONStreamDecoder", "SSEDecoder", "UTF8Decoder")
    chosen = implementation.name == seamstream.backend
    for name in names:
        assert (getattr(seamstream, name) is getattr(implementation, name)) == chosen


def test_import_pulls_in_no_slow_module(run_python: Callable[..., str]) -> None:
    code = "import sys, seamstream; print(*sys.modules)"
    imported = set(run_python(code=code, backend=seamstream.backend).split())
    assert "seamstream.errors" in imported
    unwanted = (
        *("asyncio", "concurrent", "socket", "ssl", "http", "urllib.request", "email", "logging"),
        *("argparse", "importlib.metadata", "pydantic", "typing_extensions", "selectors"),
        *("multiprocessing", "subprocess", "tempfile", "unittest", "xml", "sqlite3", "decimal"),
        *("seamstream.cli", "seamstream.testing"),
    )
    bare = set(run_python(code="import sys, json, orjson; print(*sys.modules)").split())
    assert (imported - bare).isdisjoint(unwanted)


def test_command_line_module_is_part_of_the_package() -> None:
    from seamstream.cli import main

    assert callable(main)
