"""Print by how much one event raises the peak of resident memory: run in a process of its own.

The chunks are made as they are asked for. A small event comes first, so that what an engine sets
up once is not counted. After CPU_SECONDS the system ends the process.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benches.engines import ENGINES, LEVELS, Outcome, compare, of_group
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


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.peak", description=__doc__)
    parser.add_argument("engine", choices=[engine.name for engine in of_group("sse")])
    parser.add_argument("level", choices=LEVELS)
    parser.add_argument("size", type=int, help="bytes of the payload")
    parser.add_argument("chunk", type=int, help="bytes of a chunk")
    of = parser.parse_args(arguments)
    if min(of.size, of.chunk) < 1:
        parser.error("size and chunk are 1 or more")
    outcome, peak = peak_kib(of.engine, of.level, of.size, of.chunk)
    print(json.dumps({"verdict": outcome.verdict, "detail": outcome.detail, "peak_kib": peak}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
