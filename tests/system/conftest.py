"""Programs of the system that these tests drive. `make test` does not come here, `.ci/run` does.

A program that is missing fails the tests that need it: what CI runs, no test may leave out.
"""

from __future__ import annotations

import shutil

import pytest

PROGRAMS = {
    "chromium": ("chromium", "chromium-browser", "google-chrome"),
    "node": ("node",),
    "valgrind": ("valgrind",),
}


def find_program(name: str) -> str:
    """Give the path of a program, or fail the test."""
    found = next(filter(None, map(shutil.which, PROGRAMS[name])), None)
    if found is None:
        pytest.fail(f"{name} is not installed; .ci/system-packages installs it", pytrace=False)
    return found


@pytest.fixture(scope="session")
def chromium() -> str:
    return find_program("chromium")


@pytest.fixture(scope="session")
def node() -> str:
    return find_program("node")


@pytest.fixture(scope="session")
def valgrind() -> str:
    return find_program("valgrind")
