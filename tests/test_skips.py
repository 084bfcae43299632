"""`SEAMSTREAM_FAIL_ON_SKIP`: what CI runs, no test may quietly leave out."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import TESTS

SUITE = """\
import pytest

def test_runs(): pass
def test_skips(): pytest.skip("not today")
@pytest.mark.xfail(strict=False)
def test_fails_as_expected(): assert False
@pytest.mark.xfail(strict=False)
def test_passes_unexpectedly(): pass
@pytest.mark.parametrize("entry", [])
def test_has_no_parameters(entry): pass
@pytest.mark.needs_shared
def test_needs_the_shared_folder(): pass
@pytest.mark.needs_shared
@pytest.mark.parametrize("entry", [])
def test_has_no_entries(entry): pass
"""


@pytest.mark.parametrize(
    ("switch", "shared", "expected"),
    [
        ("", "absent", {"passed": 1, "skipped": 4, "xfailed": 1, "xpassed": 1}),
        ("1", "absent", {"passed": 1, "skipped": 2, "failed": 3, "error": 1}),
        ("1", "present", {"passed": 2, "failed": 3, "errors": 2}),
    ],
)
def test_skip_fails_if_ci_says_so_and_nothing_excuses_it(
    tmp_path: Path, switch: str, shared: str, expected: dict[str, int]
) -> None:
    status, output = run_suite(tmp_path, SUITE, switch=switch, shared=shared)
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", output[-1])}
    assert {word: counts.get(word) for word in expected} == expected
    assert sum(counts[word] for word in expected) == 7
    assert status == (1 if switch else 0)


def test_file_that_is_skipped_as_a_whole_fails_too(tmp_path: Path) -> None:
    suite = 'import pytest\npytest.skip("not here", allow_module_level=True)\n'
    status, output = run_suite(tmp_path, suite, switch="1", shared="absent")
    assert status != 0
    assert "left out, with SEAMSTREAM_FAIL_ON_SKIP=1" in "".join(output)


def run_suite(place: Path, suite: str, *, switch: str, shared: str) -> tuple[int, list[str]]:
    """Run a suite of its own with the conftest of this one; gives exit status and output."""
    for name in ("conftest.py", "shared_folder.py"):
        shutil.copy(TESTS / name, place)
    (place / "test_suite.py").write_text(suite, "utf-8")
    (place / "pytest.ini").write_text("[pytest]\nmarkers = needs_shared\n", "utf-8")
    (place / "present" / "corpus").mkdir(parents=True)
    (place / "present" / "corpus" / "manifest.json").write_text("{}", "utf-8")
    environment = {
        **os.environ,
        "SEAMSTREAM_FAIL_ON_SKIP": switch,
        "SEAMSTREAM_SHARED": str(place / shared),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(place)],
        capture_output=True,
        check=False,
        cwd=place,
        encoding="utf-8",
        env=environment,
        timeout=60,
    )
    return finished.returncode, finished.stdout.splitlines()
