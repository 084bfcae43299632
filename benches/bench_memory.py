"""What has to be measured in a process of its own: peak memory for one big event, and the import.

The runner's times mean nothing here; the figures are in `extra_info`.
"""

from __future__ import annotations

import json
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


def python(*arguments: str) -> str:
    finished = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        check=False,
        cwd=ROOT,
        encoding="utf-8",
        timeout=120,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are read from /proc")
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_peak(benchmark: Any, cell: Cell) -> None:
    missing = ENGINES[cell.group, cell.engine].missing()
    body = big_corpus(SIZE)
    facts = {"bytes": body.size, "events": 1, "corpus_sha256": body.sha256()}
    if missing is not None:
        leave_out(benchmark, cell, Outcome("unsupported", missing), facts)
    command = ("-m", "benches.peak", cell.engine, cell.level, str(SIZE), str(cell.cut))
    found = json.loads(benchmark.pedantic(python, args=command, rounds=1))
    if found["verdict"] != "ok":
        leave_out(benchmark, cell, Outcome(found["verdict"], found["detail"]), facts)
    benchmark.extra_info.update(asdict(cell), verdict="ok", facts=facts, peak_kib=found["peak_kib"])


def test_import(benchmark: Any) -> None:
    times = [float(python("-c", IMPORT)) * 1000 for _ in range(4 if QUICK else 14)]
    benchmark.pedantic(python, args=("-c", IMPORT), rounds=1)
    low, middle, high = statistics.quantiles(times, n=4)
    benchmark.extra_info["import_ms"] = [low, middle, high]
