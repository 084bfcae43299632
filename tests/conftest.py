"""Which implementations the suite runs on, and what counts as having run.

Every behavioural test takes the fixture ``implementation`` and so runs on both, the reference and
the compiled module. A compiled module that cannot be imported fails the tests that need it. Only
``SEAMSTREAM_BACKEND=reference``, the run on a wheel that has none, leaves those tests out.

With ``SEAMSTREAM_FAIL_ON_SKIP=1`` a test that is skipped or expected to fail fails, unless it is
marked ``needs_shared`` and the shared folder is absent.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from shared_folder import SHARED, SHARED_IS_PRESENT

TESTS = Path(__file__).resolve().parent
MODULES = {"reference": "seamstream._reference", "rust": "seamstream._core"}
REFERENCE_ONLY = os.environ.get("SEAMSTREAM_BACKEND") == "reference"
FAIL_ON_SKIP = os.environ.get("SEAMSTREAM_FAIL_ON_SKIP") == "1"

settings.register_profile("dev", max_examples=100, deadline=None)
settings.register_profile(
    "ci", max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("nightly", parent=settings.get_profile("ci"), max_examples=20_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


@dataclass(frozen=True)
class Implementation:
    """One importable variant of the decoders."""

    name: str
    Event: Any
    Frame: Any
    JSONStreamDecoder: Any
    SSEDecoder: Any
    UTF8Decoder: Any

    def __str__(self) -> str:
        return self.name


def load_implementation(name: str) -> Implementation:
    module = importlib.import_module(MODULES[name])
    return Implementation(
        name,
        module.Event,
        module.Frame,
        module.JSONStreamDecoder,
        module.SSEDecoder,
        module.UTF8Decoder,
    )


@pytest.fixture(scope="session", params=["reference"] if REFERENCE_ONLY else list(MODULES))
def implementation(request: pytest.FixtureRequest) -> Implementation:
    return load_implementation(request.param)


@pytest.fixture(scope="session")
def reference() -> Implementation:
    return load_implementation("reference")


@pytest.fixture(scope="session")
def compiled() -> Implementation:
    """The compiled module, for what only it has to do, and for comparisons with the reference."""
    return load_implementation("rust")


@pytest.fixture
def decoders(implementation: Implementation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every `EventStream` use the decoders of the implementation under test."""
    module = importlib.import_module(MODULES[implementation.name])
    for name in ("SSEDecoder", "JSONStreamDecoder", "_exclusive"):
        monkeypatch.setattr(f"seamstream.stream.{name}", getattr(module, name))


@pytest.fixture(scope="session")
def run_python() -> Callable[..., str]:
    """Run a script of tests/isolated, or code, in an interpreter of its own; gives its output."""

    def run(
        script: str | None = None,
        *arguments: object,
        code: str | None = None,
        backend: str | None = None,
        path: Path | None = None,
        fails: bool = False,
    ) -> str:
        environment = dict(os.environ)
        environment.pop("SEAMSTREAM_BACKEND", None)
        if backend is not None:
            environment["SEAMSTREAM_BACKEND"] = backend
        inherited = environment.get("PYTHONPATH", "").split(os.pathsep)
        places = [str(path)] if path else []
        places += [os.path.abspath(place) for place in inherited if place]
        environment["PYTHONPATH"] = os.pathsep.join(places)
        environment["PYTHONIOENCODING"] = "utf-8"
        command = [sys.executable, "-W", "error"]
        command += ["-c", code] if code is not None else [str(TESTS / "isolated" / str(script))]
        finished = subprocess.run(
            [*command, *map(str, arguments)],
            capture_output=True,
            check=False,
            encoding="utf-8",
            env=environment,
            timeout=300,
        )
        if fails:
            assert finished.returncode == 1, finished.stdout + finished.stderr
            return finished.stderr
        assert finished.returncode == 0, finished.stdout + finished.stderr
        return finished.stdout

    return run


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if REFERENCE_ONLY:
        left_out = [item for item in items if "compiled" in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("needs_shared") and not SHARED_IS_PRESENT:
        pytest.skip(f"NOT TESTED: the recorded streams are not at {SHARED}")


def fail_if_left_out(report: Any) -> None:
    """Make a failure of a test, or a whole file, that was not run or may fail."""
    if FAIL_ON_SKIP and (report.skipped or hasattr(report, "wasxfail")):
        report.outcome = "failed"
        report.longrepr = f"left out, with SEAMSTREAM_FAIL_ON_SKIP=1: {report.longrepr}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    if SHARED_IS_PRESENT or not item.get_closest_marker("needs_shared"):
        fail_if_left_out(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    report = yield
    fail_if_left_out(report)
    return report


def pytest_report_header() -> list[str]:
    backends = "reference only" if REFERENCE_ONLY else ", ".join(MODULES)
    presence = "present" if SHARED_IS_PRESENT else "ABSENT: what needs them is not tested"
    return [f"seamstream implementations: {backends}", f"recorded streams: {presence} ({SHARED})"]
