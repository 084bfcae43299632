"""What has to be measured in a process of its own: peak memory for one big event, and the import.

The runner's times mean nothing here; the figures are in `extra_info`.
"""

from __future__ import annotations

import json
import signal
import statistics
import subprocess
import sys
from dataclasses import asdict
from typing import Any

import pytest

from benches.engines import ENGINES, OURS, ROOT, Outcome, of_group
from benches.suite import QUICK, Cell, leave_out
from benches.workloads import BIG, big_corpus

SIZE = BIG // 8 if QUICK else BIG
CELLS = [
    Cell("sse", engine.name, "big", 16384, "text" if "text" in engine.reads else "json", SIZE)
    for engine in of_group("sse")
    if engine.kind != "floor" and (not QUICK or engine.name in (OURS, "plain-bytes", "httpx-sse"))
]
IMPORT = """
import time
before = time.process_time()
import seamstream
print(time.process_time() - before)
"""


def python(*arguments: str) -> str | None:
    """Run an interpreter; gives what it printed, or None where its CPU time was over."""
    finished = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        check=False,
        cwd=ROOT,
        encoding="utf-8",
        timeout=300,
    )
    if finished.returncode == -signal.SIGXCPU:
        return None
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are read from /proc")
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_peak(benchmark: Any, cell: Cell) -> None:
    missing = ENGINES[cell.group, cell.engine].missing()
    if missing is not None:
        return leave_out(benchmark, cell, Outcome("unsupported", missing), facts_of(SIZE))

    def measure() -> tuple[int, dict[str, Any]]:
        """The size, a smaller one where the time is not enough, and what the process printed."""
        for size in (SIZE, SIZE // 8):
            command = ("-m", "benches.peak", cell.engine, cell.level, str(size), str(cell.cut))
            if (printed := python(*command)) is not None:
                return size, json.loads(printed)
        return SIZE, {"verdict": "unsupported", "detail": "it took too long"}

    size, found = benchmark.pedantic(measure, rounds=1)
    facts = facts_of(size)
    if found["verdict"] != "ok":
        return leave_out(benchmark, cell, Outcome(found["verdict"], found["detail"]), facts)
    benchmark.extra_info.update(
        asdict(cell) | {"size": size}, verdict="ok", facts=facts, peak_kib=found["peak_kib"]
    )
    return None


def facts_of(size: int) -> dict[str, Any]:
    body = big_corpus(size)
    return {"bytes": body.size, "events": 1, "corpus_sha256": body.sha256()}


def test_import(benchmark: Any) -> None:
    times = [float(python("-c", IMPORT) or "nan") * 1000 for _ in range(4 if QUICK else 14)]
    benchmark.pedantic(python, args=("-c", IMPORT), rounds=1)
    low, middle, high = statistics.quantiles(times, n=4)
    benchmark.extra_info["import_ms"] = [low, middle, high]
