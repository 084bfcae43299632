"""The compiled module reads and writes no memory but its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ISOLATED = Path(__file__).resolve().parents[1] / "isolated"


@pytest.mark.parametrize("script", ["every_kind_of_work.py", "spare_payloads.py"])
def test_valgrind_sees_no_invalid_access(valgrind: str, script: str) -> None:
    # What is undefined it is not asked for: CPython itself looks at that, and means no harm.
    checks = ["--undef-value-errors=no", "--error-exitcode=9", "--quiet"]
    finished = subprocess.run(
        [valgrind, *checks, sys.executable, str(ISOLATED / script), "seamstream._core"],
        capture_output=True,
        check=False,
        encoding="utf-8",
        env=os.environ | {"PYTHONMALLOC": "malloc"},
        timeout=300,
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout in ("done\n", "intact\n")
