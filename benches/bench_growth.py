"""One event that grows: how the time for it grows.

Memory that is touched for the first time costs more than a fast engine does, and is not its growth.
So the allocator is told to keep what is freed, and a round that is not timed comes first. What is
left is that a megabyte fits into a cache and eight do not: up to 1.4 is still linear.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from dataclasses import asdict
from functools import cache
from typing import Any

import pytest

from benches.engines import ENGINES, Outcome, UnsupportedError, compare, of_group
from benches.suite import QUICK, Cell, leave_out, now
from benches.workloads import big_corpus

SIZES = (250_000, 500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000)
CUTS = (16384, 1460)
CAP = 0.1 if QUICK else 1.2
"""Seconds that one run may be expected to take: a larger size is left out."""

CELLS = [
    Cell("sse", engine.name, "big", cut, "text" if "text" in engine.reads else "json", size)
    for engine in of_group("sse")
    if engine.kind != "floor"  # it takes no chunks
    for cut in CUTS
    for size in SIZES
]

taken: defaultdict[tuple[str, Any], list[float]] = defaultdict(list)
"""What the sizes before took, by engine and cut."""


@cache
def keep_freed_memory() -> None:
    """Ask glibc not to give memory back to the system; it cannot be told to do so again."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return  # another allocator: the figures have more of the system in them
    m_trim_threshold, m_mmap_threshold = -1, -3
    mallopt(m_trim_threshold, 1 << 30)
    mallopt(m_mmap_threshold, 32 << 20)


def forecast(before: list[float]) -> float:
    """The time for twice the size, from those for the sizes before."""
    if len(before) < 2:
        return 2 * before[0] if before else 0.0
    return before[-1] * max(2.0, before[-1] / before[-2])


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_growth(benchmark: Any, cell: Cell) -> None:
    assert cell.size is not None
    keep_freed_memory()
    before = taken[cell.engine, cell.cut]
    coming = forecast(before)
    if coming > CAP:
        before.append(coming)
        pytest.skip(f"it would take {coming:.1f} s")
    body = big_corpus(cell.size)
    facts = {"bytes": body.size, "events": 1, "corpus_sha256": body.sha256()}
    streams = body.chunks(cell.cut)
    engine = ENGINES[cell.group, cell.engine]
    benchmark.extra_info.update(asdict(cell), facts=facts)
    rounds = max(1, min(9, int(0.1 / coming))) if coming else 3
    warm_up = int(rounds > 1)
    try:
        loop = engine.prepare(cell.level)
        start = now()
        found = benchmark.pedantic(
            loop.collect, args=(streams,), rounds=rounds, warmup_rounds=warm_up
        )
        before.append((now() - start) / (rounds + warm_up))
    except (UnsupportedError, ImportError) as error:
        return leave_out(benchmark, cell, Outcome("unsupported", str(error)), facts)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"[:200]
        return leave_out(benchmark, cell, Outcome("error", text), facts)
    outcome = compare(found, body.events if loop.typed else [data for _, data in body.events])
    benchmark.extra_info.update(verdict=outcome.verdict, detail=outcome.detail)
    assert outcome.verdict == "ok" or engine.kind != "ours", outcome
    return None
