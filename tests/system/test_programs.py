"""What the system has to have, and what its lack looks like."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["chromium", "node", "valgrind"])
def test_program_runs(request: pytest.FixtureRequest, name: str) -> None:
    path = request.getfixturevalue(name)
    answer = subprocess.run([path, "--version"], capture_output=True, check=True, timeout=60)
    assert any(digit in answer.stdout.decode() for digit in "0123456789")


def test_program_that_is_missing_fails_the_test_and_says_what_installs_it() -> None:
    finished = run_pytest("tests/system/test_programs.py", "-k", "runs and valgrind", PATH="")
    assert finished.returncode == 1
    assert "valgrind is not installed; .ci/system-packages installs it" in finished.stdout
    assert "1 failed" in finished.stdout.splitlines()[-1]


def test_suite_without_an_argument_leaves_these_tests_out() -> None:
    finished = run_pytest("--collect-only", "--quiet", "--ignore", "tests/contracts")
    assert finished.returncode == 0, finished.stdout
    assert "tests/test_version.py" in finished.stdout
    assert "tests/system" not in finished.stdout


def run_pytest(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        capture_output=True,
        check=False,
        cwd=ROOT,
        encoding="utf-8",
        env=os.environ | environment,
        timeout=300,
    )
