"""`SEAMSTREAM_BACKEND` and the choice between the compiled module and the reference."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import seamstream
from conftest import REFERENCE_ONLY, Implementation

WHICH = """\
import sys, seamstream
print(seamstream.backend, seamstream.Event.__module__, "seamstream._core" in sys.modules)
event, = seamstream.SSEDecoder().feed(b"data: x\\n\\n")
assert type(event) is seamstream.Event
assert event.data == seamstream.UTF8Decoder().decode(b"x")
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package without its compiled module; gives the folder to import it from."""
    source = Path(seamstream.__file__).parent
    skipped = shutil.ignore_patterns("_core*.so", "_core*.pyd", "__pycache__")
    shutil.copytree(source, tmp_path / "seamstream", ignore=skipped)
    return tmp_path


def test_backend_of_this_run_is_the_chosen_one() -> None:
    assert seamstream.backend == ("reference" if REFERENCE_ONLY else "rust")


def test_backend_is_the_compiled_module_by_default_and_on_request(
    compiled: Implementation, run_python: Callable[..., str]
) -> None:
    for backend in (None, compiled.name):
        assert run_python(code=WHICH, backend=backend).startswith("rust seamstream")
        assert run_python(code=WHICH, backend=backend).endswith("True\n")


def test_backend_reference_never_imports_the_compiled_module(
    run_python: Callable[..., str],
) -> None:
    output = run_python(code=WHICH, backend="reference")
    assert output.startswith("reference seamstream._reference")
    assert output.endswith("False\n")


def test_backend_of_another_name_is_an_import_error_naming_the_valid_ones(
    run_python: Callable[..., str],
) -> None:
    for wrong in ("python", "Rust", ""):
        stderr = run_python(code="import seamstream", backend=wrong, fails=True)
        last = stderr.rstrip().split("\n")[-1]
        assert last.startswith("ImportError: ")
        assert "rust" in last
        assert "reference" in last


def test_backend_is_read_once_at_import(run_python: Callable[..., str]) -> None:
    code = """\
import os, seamstream
os.environ["SEAMSTREAM_BACKEND"] = "nonsense"
import seamstream._backend, seamstream.errors
print(seamstream.backend, seamstream._backend.backend)
"""
    assert run_python(code=code, backend="reference") == "reference reference\n"


def test_backend_is_the_reference_where_there_is_no_compiled_module(
    package: Path, run_python: Callable[..., str]
) -> None:
    output = run_python(code=WHICH, path=package)
    assert output == "reference seamstream._reference.sse False\n"
    stderr = run_python(code=WHICH, path=package, backend="rust", fails=True)
    assert "No module named 'seamstream._core'" in stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("raise ImportError('undefined symbol: PyNothing')", "undefined symbol"),
        ("import module_that_is_missing", "No module named 'module_that_is_missing'"),
        ("raise SystemError('initialization failed')", "initialization failed"),
        ("Event = Frame = None", "cannot import name 'JSONStreamDecoder'"),
    ],
)
def test_broken_compiled_module_is_an_error_and_never_a_quiet_fallback(
    package: Path, run_python: Callable[..., str], content: str, message: str
) -> None:
    (package / "seamstream" / "_core.py").write_text(content + "\n", "utf-8")
    for backend in (None, "rust"):
        stderr = run_python(code=WHICH, path=package, backend=backend, fails=True)
        assert message in stderr.rstrip().split("\n")[-1]
    output = run_python(code=WHICH, path=package, backend="reference")
    assert output == "reference seamstream._reference.sse False\n"


def test_reference_does_not_import_the_compiled_module_when_imported_by_name(
    package: Path, run_python: Callable[..., str]
) -> None:
    (package / "seamstream" / "_core.py").write_text("raise AssertionError\n", "utf-8")
    code = "import seamstream._reference, sys; print('seamstream._core' in sys.modules)"
    assert run_python(code=code, path=package, backend="reference") == "False\n"
