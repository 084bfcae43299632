"""Print by how much one event raises the peak of resident memory: run in a process of its own.

usage: python -m benches.peak ENGINE LEVEL PAYLOAD-BYTES CHUNK-BYTES

The chunks are made as they are asked for. A small event comes first, so that what an engine sets
up once is not counted. After CPU_SECONDS the system ends the process.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benches.engines import ENGINES, Outcome, compare
from benches.workloads import big_corpus

CPU_SECONDS = 10


def resident_kib(name: str) -> int:
    """VmRSS or VmHWM, its peak."""
    status = Path("/proc/self/status").read_text("utf-8")
    return next(int(line.split()[1]) for line in status.split("\n") if line.startswith(name))


def lazily(size: int, chunk: int) -> Iterator[bytes]:
    """The same stream as `big_corpus`, never there as a whole."""
    unit = b"QUJDREVG" * (chunk // 8 + 2)
    yield b"data: "
    for at in range(0, size, chunk):
        length = min(chunk, size - at)
        yield unit[at % 8 : at % 8 + length]
    yield b"\n\n"


def peak_kib(name: str, level: str, size: int, chunk: int) -> tuple[Outcome, int]:
    """The verdict on what came out, and the growth of the peak."""
    engine = ENGINES["sse", name]
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
    collect: Any = engine.prepare(level).collect
    small = collect([[b"data: small\n", b"\n"]])
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", "utf-8")  # the peak begins anew
    before = resident_kib("VmRSS")
    try:
        found = collect([lazily(size, chunk)])
    except Exception as error:
        return Outcome("error", f"{type(error).__name__}: {error}"[:200]), 0
    grown = resident_kib("VmHWM") - before
    (event,) = big_corpus(size).events
    typed = isinstance(small[0], tuple)
    return compare(found, [event if typed else event[1]]), grown


if __name__ == "__main__":
    outcome, peak = peak_kib(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    print(json.dumps({"verdict": outcome.verdict, "detail": outcome.detail, "peak_kib": peak}))
