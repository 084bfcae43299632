"""The speed budget, measured: `make bench-quick`.

All jobs of a row run in turns, by thread CPU time, and what counts is the median of the ratios to
the row's floor, timed in the same turns. Nanoseconds are for the eye; they belong to one machine.
`--gate` fails where a ratio stays over its limit in gates.json by more than the tolerance.
`--noisy` is for machines with neighbours: it fails only on what they cannot explain, and leaves
the rest to the instruction counts.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import orjson

import seamstream
from benches.rows import Growing, exponent, growing, rows
from seamstream import _core

GATES = Path(__file__).with_name("gates.json")
TOLERANCE = 1.25
"""What a ratio may be over its limit."""
NOISY_TOLERANCE = 2.0
"""The same with neighbours, which have made 1.3 of it."""
GROWTH = 1.05
NOISY_GROWTH = 1.3
"""The exponent of what grows with the square is nearer to 2 than to this."""
LOOKS = 4
"""A slower parser stays slow; a busy machine does not stay busy."""


# --- growth and memory


def growth_of(work: Growing) -> float:
    """The slope of log time over log size, 1 to 8 MB; 1 is linear."""
    points = []
    for size in (1_000_000, 2_000_000, 4_000_000, 8_000_000):
        job = work.job(size)
        if work.floor is None:
            time_taken = float(min(job() for _ in range(7)))
        else:
            floor = work.floor(size)
            ratios = (min(job(), job()) / min(floor(), floor()) for _ in range(9))
            time_taken = statistics.median(ratios) * size
        points.append((size, time_taken))
    return exponent(points)


RESIDENT = """
def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096
"""

IDLE = (
    RESIDENT
    + """
import gc, seamstream
seamstream.SSEDecoder()
number = 50_000
keep = [None] * number
gc.collect()
before = resident()
for at in range(number):
    keep[at] = seamstream.SSEDecoder()
print((resident() - before) / number)
"""
)

PEAK = """
import seamstream
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
size = 8_000_000
chunk = b"x" * 1000
decoder = seamstream.SSEDecoder(limits=seamstream.Limits(max_event_bytes=2 * size))
with open("/proc/self/clear_refs", "w") as clear:
    clear.write("5")  # the peak begins anew
before = peak()
decoder.feed(b"data: ")
for _ in range(size // 1000):
    decoder.feed(chunk)
(event,) = decoder.feed(b"\\n\\n")
assert len(event.raw) == size
print((peak() - before) * 1024 / size)
"""


def in_process(code: str) -> float:
    """Give the number that a process of its own prints.

    Raises:
        SystemExit: It ended otherwise.
    """
    finished = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, check=False, encoding="utf-8"
    )
    if finished.returncode != 0:
        raise SystemExit(f"the process that measures memory ended with {finished.returncode}")
    return float(finished.stdout)


def at_least(least: int) -> Callable[[str], int]:
    """Make the type of an argument that is a number from `least` on."""

    def number(text: str) -> int:
        found = int(text)
        if found < least:
            raise argparse.ArgumentTypeError(f"{found} is less than {least}")
        return found

    return number


def heading() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        cpu = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        cpu = platform.processor()
    return (
        f"seamstream {_core.__version__} ({seamstream.backend}, {_core.build_profile}), "
        f"orjson {orjson.__version__}, {platform.python_implementation()} "
        f"{platform.python_version()}, {cpu}, {os.cpu_count()} cores, {platform.system()}"
    )


def held_at(name: str, ratio: float, budget: float) -> float:
    """The limit to record: where the budget is met, or a little over where a row is short of it."""
    held = ratio * 1.15
    return round(budget if held < budget * 1.05 else held, 3)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.quick", description=__doc__)
    parser.add_argument("--gate", action="store_true", help="fail where a limit is exceeded")
    parser.add_argument(
        "--noisy", action="store_true", help="with --gate: allow for what neighbours do"
    )
    parser.add_argument(
        "--record", action="store_true", help="set the limits: the ratios that meet the budget"
    )
    parser.add_argument("--only", default="", help="rows whose names contain this, and no more")
    options = parser.parse_args()
    if options.record and options.only:
        parser.error("--record takes all rows")
    if seamstream.backend != "rust" or _core.build_profile != "release":
        print("only a release build of the compiled module is worth measuring", file=sys.stderr)
        return 2
    limits: dict[str, float] = json.loads(GATES.read_text("utf-8")) if GATES.exists() else {}
    tolerance = NOISY_TOLERANCE if options.noisy else TOLERANCE
    over: list[str] = []
    short: list[str] = []
    gc.collect()
    gc.freeze()
    print(heading())
    print(f"\n{'':52}{'ns':>8} {'floor':>8} {'ratio':>7} {'limit':>7}  {'budget':>9} {'goal':>8}")
    recorded: dict[str, float] = {}
    measured = 0
    for row in rows(only=options.only):
        measured += 1
        row.measure()
        if math.isfinite(row.budget):
            recorded[row.name] = held_at(row.name, row.ratio, row.limit_ratio)
        limit = limits.get(row.name, math.inf)
        for _ in range(LOOKS - 1):
            if row.ratio <= limit:
                break
            best = row.ratio, row.ns, row.floor_ns
            row.measure()
            row.ratio, row.ns, row.floor_ns = min(best, (row.ratio, row.ns, row.floor_ns))
        if row.figure > row.budget:
            short.append(f"{row.name}: {row.figure:.3g} {row.unit}, budget {row.budget:g}")
        if row.ratio > limit * tolerance:
            over.append(f"{row.name}: {row.ratio:.3f} × its floor, limit {limit}")
        budget, goal = (
            f"{figure:g} {row.unit}" if math.isfinite(figure) else "–"
            for figure in (row.budget, row.goal)
        )
        print(
            f"{row.name:52}{row.ns:8.1f} {row.floor_ns:8.1f} {row.ratio:7.3f} "
            f"{limit if math.isfinite(limit) else '–':>7}  {budget:>9} {goal:>8}",
            flush=True,
        )
    if options.only and not measured:
        parser.error(f"no row has {options.only!r} in its name")
    if options.only:
        return judge(short, over, gate=options.gate)
    growth = NOISY_GROWTH if options.noisy else GROWTH
    figures: list[tuple[str, Callable[[], float], float]] = [
        (f"growth of {work.name}, exponent", partial(growth_of, work), growth) for work in growing()
    ]
    figures += [
        ("peak memory of an 8 MB event, × payload", lambda: in_process(PEAK), 2.2),
        ("idle decoder, bytes", lambda: in_process(IDLE), 256),
    ]
    print()
    for name, measure, limit in figures:
        figure = measure()
        for _ in range(LOOKS - 1):
            if figure <= limit:
                break
            figure = min(figure, measure())
        print(f"{name:54}{figure:8.2f}  (gate ≤ {limit})")
        if figure > limit:
            over.append(f"{name}: {figure:.2f}, limit {limit}")
    if options.record:
        GATES.write_text(json.dumps(recorded, indent=2) + "\n", "utf-8")
    return judge(short, over, gate=options.gate)


def judge(short: list[str], over: list[str], *, gate: bool) -> int:
    """Say which rows are short of the budget or over their limit; give the exit status."""
    if short:
        print("\nshort of the budget:", *short, sep="\n  ")
    if over:
        print("\nover the limit:", *over, sep="\n  ")
    return 1 if over and gate else 0


if __name__ == "__main__":
    sys.exit(main())
