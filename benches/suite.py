"""How one engine is timed: what comes out is checked, then it runs in turns with ours.

The fixture `benchmark` is all that is asked of the runner, so pytest-benchmark and CodSpeed both
run the suites. Noise of a shared machine is met so: in front of every round, ours does the same
work, and what is kept is the median of the ratios of the rounds.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pytest

from benches.engines import ENGINES, OURS, Group, Outcome, Streams, judge
from benches.workloads import Cut

QUICK = os.environ.get("BENCH") == "quick"
"""A selection that takes a minute, for a first look."""
SECONDS = 0.05 if QUICK else 0.1
"""Thread CPU time that a cell may take for its rounds, but for the least number of them."""
LEAST, MOST = 3, 15
now = time.thread_time

CUTS: tuple[Cut, ...] = ("whole", 16384, 1460, "event", 64, 8, 1)
SIZES: dict[Cut, int] = {
    "whole": 300_000,
    16384: 300_000,
    1460: 300_000,
    "event": 300_000,
    64: 60_000,
    8: 15_000,
    1: 6_000,
}
"""Bytes of the stream: the smaller the chunks, the more of them a byte costs."""


@dataclass(frozen=True)
class Cell:
    """One figure: an engine at one workload, cut, and level."""

    group: Group
    engine: str
    workload: str
    cut: Cut
    level: str
    size: int | None = None
    """Of the payload, where it is what is varied."""

    def __str__(self) -> str:
        name = f"{self.engine}-{self.workload}-{self.cut}-{self.level}"
        return name if self.size is None else f"{name}-{self.size}"


def cells(group: Group, work: Iterator[tuple[str, Cut, str]]) -> Any:
    """Parametrize a test: for each piece of work every engine, one after the other."""
    engines = [engine.name for engine in ENGINES.values() if engine.group == group]
    found = [
        Cell(group, engine, workload, cut, level)
        for workload, cut, level in work
        for engine in engines
        if level in ENGINES[group, engine].reads
    ]
    return pytest.mark.parametrize("cell", found, ids=str)


NOT_TIMED: list[dict[str, Any]] = []
"""Cells without a figure, and why: what the runner's own report has no place for."""


def leave_out(benchmark: Any, cell: Cell, outcome: Outcome, facts: dict[str, Any]) -> None:
    """Note that a cell has no figure, and why, and skip; one of ours has to be right, though."""
    NOT_TIMED.append(
        {
            **asdict(cell),
            "id": getattr(benchmark, "fullname", ""),  # CodSpeed has none, and no report
            "verdict": outcome.verdict,
            "detail": outcome.detail,
            "facts": facts,
        }
    )
    engine = ENGINES[cell.group, cell.engine]
    ours = engine.kind == "ours" and not engine.stands_for
    assert not ours or outcome.verdict == "unsupported", f"{outcome.verdict}: {outcome.detail}"
    pytest.skip(f"{outcome.verdict}: {outcome.detail}")


def seconds(run: Callable[[Streams], None], streams: Streams) -> float:
    start = now()
    run(streams)
    return now() - start


def quartiles(values: list[float]) -> list[float]:
    """The first quartile, the median, and the third."""
    if len(values) == 1:
        return values * 3
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return [low, middle, high]


def measure(
    benchmark: Any,
    cell: Cell,
    streams: Streams,
    facts: dict[str, Any],
    **work: Any,
) -> None:
    """Check an engine's output, then time it, with ours in front of every round.

    Args:
        benchmark: The runner's fixture.
        cell: What is measured.
        streams: The chunks.
        facts: What the record says about the work: bytes, events, corpus_sha256.
        work: What `judge` takes to prepare the engine and to know what is wanted.
    """
    outcome, loop = judge(ENGINES[cell.group, cell.engine], streams, cell.level, **work)
    if loop is None:
        return leave_out(benchmark, cell, outcome, facts)
    first, ours = judge(ENGINES[cell.group, OURS], streams, cell.level, **work)
    assert ours is not None, first
    expected = seconds(loop.run, streams) + 2 * seconds(ours.run, streams)
    rounds = max(LEAST, min(MOST, int(SECONDS / expected)))
    beside: list[float] = []

    def run_ours() -> tuple[tuple[Streams], dict[str, Any]]:
        ours.run(streams)  # finds the caches as the last round left them
        beside.append(seconds(ours.run, streams))
        return (streams,), {}

    benchmark.extra_info.update(asdict(cell), verdict="ok", facts=facts)
    benchmark.pedantic(loop.run, setup=run_ours, rounds=rounds)
    stats = getattr(getattr(benchmark, "stats", None), "stats", None)
    if stats is not None:  # CodSpeed keeps its own
        ratios = [taken / of_ours for taken, of_ours in zip(stats.data, beside, strict=True)]
        benchmark.extra_info.update(beside=statistics.median(beside), ratios=quartiles(ratios))
    return None


def refuse_debug_build(build_profile: str) -> None:
    """Allow only a release build of the compiled module: no figure of another means anything.

    Raises:
        pytest.UsageError: It is not one.
    """
    if build_profile != "release":
        raise pytest.UsageError(f"seamstream is a {build_profile} build: not measured")
