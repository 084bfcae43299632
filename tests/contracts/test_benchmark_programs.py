"""The programs of benches: what they say of their arguments, and of a process that dies."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benches import compare, dropins, quick, rows, sdk_clients
from shared_folder import PROJECT

PROGRAMS = sorted(
    path.stem
    for path in (PROJECT / "benches").glob("*.py")
    if '__name__ == "__main__"' in path.read_text("utf-8")
)


def program(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"benches.{name}", *arguments],
        capture_output=True,
        check=False,
        cwd=PROJECT,
        encoding="utf-8",
        timeout=120,
    )


def test_programs_are_found() -> None:
    assert {"compare", "dropins", "node", "peak", "quick", "sdk_clients"} <= {*PROGRAMS}


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_measures_nothing(name: str) -> None:
    finished = program(name, "--help")
    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout.startswith(f"usage: python -m benches.{name} ")


@pytest.mark.parametrize("name", PROGRAMS)
def test_argument_that_there_is_not_is_an_error(name: str) -> None:
    finished = program(name, "--nothing")
    assert (finished.returncode, finished.stdout) == (2, "")
    assert finished.stderr.startswith(f"usage: python -m benches.{name} ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("sdk_clients", "--turns", "0"), "0 is less than 1"),
        (("sdk_clients", "--events", "-3"), "-3 is less than 1"),
        (("aiohttp_stream", "--turns", "1"), "1 is less than 2"),
        (("aiohttp_stream", "--events", "many"), "invalid number value: 'many'"),
        (("dropins", "--turns", "0"), "0 is less than 1"),
        (("peak", "nobody", "text", "8", "8"), "invalid choice: 'nobody'"),
        (("peak", "seamstream", "text", "8", "0"), "1 or more"),
        (("quick", "--only", "no such row"), "no row has 'no such row' in its name"),
        (("quick", "--only", "feed", "--record"), "--record takes all rows"),
    ],
    ids=" ".join,
)
def test_argument_that_cannot_be_is_an_error(arguments: tuple[str, ...], said: str) -> None:
    finished = program(*arguments)
    assert finished.returncode == 2
    assert said in finished.stderr.splitlines()[-1]


def test_stand_ins_are_measured_beside_their_originals(capsys: pytest.CaptureFixture[str]) -> None:
    assert dropins.main(["--events", "20", "--turns", "1"]) == 0
    lines = [line.split("|") for line in capsys.readouterr().out.splitlines() if "×" in line]
    assert len(lines) == 69
    assert all(
        float(line[3].replace(",", "")) > 0 < float(line[4].replace(",", "")) for line in lines
    )


# --- a gate on some rows


@pytest.mark.parametrize(("limit", "status"), [(1e9, 0), (1e-9, 1)])
def test_gate_on_some_rows_fails_where_they_are_over_their_limit(
    limit: float, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "openai: feed, 16 KB chunks"
    gates = tmp_path / "gates.json"
    gates.write_text(json.dumps({name: limit}), "utf-8")
    monkeypatch.setattr(quick, "GATES", gates)
    monkeypatch.setattr(sys, "argv", ["quick", "--only", name, "--gate"])
    monkeypatch.setattr("gc.freeze", lambda: None)  # what is alive now belongs to other tests
    assert quick.main() == status


def test_every_row_with_a_budget_has_a_limit_and_no_limit_is_left_over() -> None:
    budgeted = {row.name for row in rows.rows(0.05) if math.isfinite(row.budget)}
    assert json.loads(quick.GATES.read_text("utf-8")).keys() == budgeted


# --- a process that dies


def test_number_of_a_process_that_dies_is_an_error() -> None:
    assert quick.in_process("print(1.5)") == 1.5
    with pytest.raises(SystemExit, match="ended with 7"):
        quick.in_process("import sys; sys.exit(7)")


def serve_nothing(body: bytes, write_size: int, parent: object) -> None:
    os._exit(7)


def test_server_that_dies_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdk_clients, "serve", serve_nothing)
    with pytest.raises(RuntimeError, match="ended with 7"), sdk_clients.server_of(b"", 1):
        pass


def dying(tmp_path: Path, code: str) -> Path:
    """A folder whose seamstream runs this instead of being one."""
    package = tmp_path / "seamstream"
    package.mkdir()
    (package / "__init__.py").write_text(code, "utf-8")
    return tmp_path


def test_revision_that_does_not_start_is_an_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    site = dying(tmp_path, "raise ImportError('not built')")
    with pytest.raises(SystemExit, match=f"the process of {tmp_path.name} ended with 1"):
        compare.times(site, site, "")
    assert "not built" in capfd.readouterr().err


@pytest.mark.parametrize("answers", [0, 1])
def test_revision_that_dies_while_it_is_measured_is_an_error(
    answers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = f"""
import os, sys
print('{{"a": 1}}', flush=True)
for line in [sys.stdin.readline() for _ in range({answers})]:
    print(5, flush=True)
os._exit(9)
"""
    site = dying(tmp_path, code)
    with pytest.raises(SystemExit, match=f"the process of {tmp_path.name} ended with 9"):
        compare.times(site, site, "")


def test_program_that_fails_is_an_error() -> None:
    with pytest.raises(SystemExit, match=rf"{Path(sys.executable).name} ended with 3"):
        compare.run(sys.executable, "-c", "raise SystemExit(3)")
