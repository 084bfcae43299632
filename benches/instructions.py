"""Instructions of the hot paths, counted by valgrind: `make bench-instructions`.

What else a machine does moves a time; it does not move a count. The rows of rows.py, made small,
run in one process under callgrind, which writes down what it has counted and begins again at zero
each time that `getpgid` is called: once before and once after each loop. So nothing is counted but
loops.

The counts in instructions.json hold for one compiler, interpreter, orjson and C library. With
exactly these a row fails where it takes 2 % more than recorded. With others its ratio to its floor,
counted in the same run, is compared with the recorded ratio, at a wider tolerance. Each run also
counts a `feed` that was made a little slower, and fails where that would pass.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

import seamstream
from benches import rows
from benches.workloads import openai
from seamstream import _core

RECORD = Path(__file__).with_name("instructions.json")
SCALE = 0.1
TOLERANCE = 1.02
"""What a count may be over the recorded one. From run to run it differs by a tenth of that."""
FOREIGN_TOLERANCE = 1.06
"""The same for rows that are mostly orjson or memcpy, whose counts vary with where objects lie."""
OTHER_TOLERANCE = 1.25
"""What a ratio to the floor may be over the recorded one, with another toolchain."""
RUNS = 8
"""The least of as many counts: the first runs fill caches, and some meet with bad luck."""
GROWTH = 1.05
SIZES = (200_000, 400_000, 800_000, 1_600_000)
CONTROLLED = "openai: feed, 16 KB chunks"
CONTROL = f"{CONTROLLED}, made slower"


@dataclass(frozen=True)
class Counts:
    """Instructions for each event (or byte, or chunk): of the job and of the floor, by row."""

    rows: dict[str, tuple[float, float]]
    foreign: frozenset[str]
    """The rows that are mostly the work of others."""
    growth: dict[str, float]
    """Exponents, by what grows."""


# --- the process under callgrind


def mark() -> int:
    """Make callgrind write down what it has counted. Nothing else here calls `getpgid`."""
    os.getpgid(0)
    return 0


def slower(chunks: list[bytes]) -> rows.Job:
    """`feed`, and of every fortieth event what no loop asks for."""

    def job() -> int:
        take = seamstream.SSEDecoder().feed
        start = rows.now()
        for chunk in chunks:
            for event in take(chunk)[::40]:
                event.data  # noqa: B018 (text that is made on first access)
        return rows.now() - start

    return job


def broken(error: Exception) -> None:
    print(f"rows left out: {error!r}", file=sys.stderr)


def run_marked(only: str) -> None:
    """Run all loops between marks, and print what they are, in order."""
    plan: list[dict[str, Any]] = []
    rows.now = mark
    gc.collect()
    gc.freeze()
    gc.disable()

    held: list[object] = []

    def run(name: str, part: str, per: float, job: rows.Job, times: int = RUNS) -> None:
        for _ in range(times):
            # A loop whose objects just fill a pool of Python's allocator opens and closes the next
            # one each time round, for 3 % more. So it is shifted a little for each run.
            held.append([bytes(size) for size in range(0, 480, 16)])
            job()
            plan.append({"name": name, "part": part, "per": per})

    for row in rows.rows(SCALE, only, broken):
        run(row.name, "foreign job" if row.is_foreign else "job", row.per, row.job)
        run(row.name, "floor", row.per, row.floor)
    work = openai(int(2000 * SCALE))
    run(CONTROL, "job", len(work.payloads), slower(work.chunks(16384)))
    for growing in rows.growing():
        for size in SIZES if not only else ():
            run(growing.name, "growth", size, growing.job(size), 1)
    print(json.dumps(plan))


# --- the process that asks


def count(python_path: Path | None = None, only: str = "") -> Counts:
    """Count the rows whose names contain `only`, and the control.

    With the seamstream that is in the folder `python_path`, if one is given.
    """
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise SystemExit("there is no valgrind; .ci/system-packages installs it")
    # Nothing else, for the size of the environment decides where objects lie; hashes decide about
    # collisions, and what malloc learns about where large objects go.
    environment = {"PYTHONHASHSEED": "0", "MALLOC_MMAP_THRESHOLD_": str(128 << 10)}
    if python_path is not None:
        environment["PYTHONPATH"] = str(python_path)
    with tempfile.TemporaryDirectory() as place:
        out = Path(place, "callgrind")
        command = [valgrind, "--tool=callgrind", f"--log-file={place}/log"]
        command += [f"--callgrind-out-file={out}", "--dump-before=getpgid"]
        command += [sys.executable, "-m", "benches.instructions", "--marked", f"--only={only}"]
        finished = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, check=False, encoding="utf-8"
        )
        if finished.returncode != 0:
            raise SystemExit(f"the process under valgrind ended with {finished.returncode}")
        plan = json.loads(finished.stdout)
        # What was counted up to each mark: up to every other one it was a loop.
        dumps = [out.with_name(f"callgrind.{2 * at}") for at in range(1, len(plan) + 1)]
        if not plan or out.with_name(f"callgrind.{2 * len(plan) + 1}").exists():
            raise SystemExit("the marks are out of step")
        totals = [_total(dump) for dump in dumps]
    least: dict[tuple[str, str], float] = {}
    points: dict[str, list[tuple[int, float]]] = {}
    for loop, total in zip(plan, totals, strict=True):
        if loop["part"] == "growth":
            points.setdefault(loop["name"], []).append((loop["per"], total))
        else:
            key = loop["name"], loop["part"]
            least[key] = min(total / loop["per"], least.get(key, math.inf))
    return Counts(
        {
            name: (each, least.get((name, "floor"), math.nan))
            for (name, part), each in least.items()
            if part != "floor"
        },
        frozenset(name for name, part in least if part == "foreign job"),
        {name: rows.exponent(of) for name, of in points.items()},
    )


def _total(dump: Path) -> int:
    found = re.search(r"^totals: (\d+)", dump.read_text("utf-8"), re.MULTILINE)
    if found is None:
        raise SystemExit(f"no total in {dump.name} of callgrind")
    return int(found[1])


def toolchain() -> dict[str, str]:
    """What the counts depend on."""
    compiled = Path(_core.__file__).read_bytes()
    rustc = re.search(rb"rustc version (\d+\.\d+\.\d+[^ ]*)", compiled)
    cpu = Path("/proc/cpuinfo").read_text("utf-8").split()
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "rustc": rustc[1].decode() if rustc else "unknown",
        "orjson": orjson.__version__,
        "libc": " ".join(platform.libc_ver()),
        "machine": platform.machine() + (" with AVX2" if "avx2" in cpu else ""),
    }


def faults(counts: Counts, record: dict[str, Any], tools: dict[str, str]) -> list[str]:
    """What a gate fails for."""
    found: list[str] = []
    is_same = tools == record["toolchain"]
    for name, (job, floor) in counts.rows.items():
        if name == CONTROL:
            if job <= counts.rows.get(CONTROLLED, (0.0, 0.0))[0] * TOLERANCE:
                found.append(f"{name}: it passes, so that this gate cannot fail")
        elif name not in record["rows"]:
            found.append(f"{name}: not recorded; see --record")
        else:
            known, known_floor = record["rows"][name]
            tolerance = FOREIGN_TOLERANCE if name in counts.foreign else TOLERANCE
            if is_same and job > known * tolerance:
                found.append(f"{name}: {job:.0f} instructions, recorded {known:.0f}")
            if not is_same and job / floor > known / known_floor * OTHER_TOLERANCE:
                ratios = f"{job / floor:.2f} of its floor, recorded {known / known_floor:.2f}"
                found.append(f"{name}: {ratios}")
    found += [
        f"{name}: recorded, and gone; see --record"
        for name in record["rows"]
        if name not in counts.rows
    ]
    found += [
        f"{name}: grows with exponent {exponent:.3f}"
        for name, exponent in counts.growth.items()
        if exponent > GROWTH
    ]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.instructions", description=__doc__)
    parser.add_argument("--gate", action="store_true", help="fail where a count is exceeded")
    parser.add_argument("--record", action="store_true", help="write instructions.json anew")
    parser.add_argument("--only", default="", help="rows whose names contain this")
    parser.add_argument("--marked", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if seamstream.backend != "rust" or _core.build_profile != "release":
        print("only a release build of the compiled module is worth counting", file=sys.stderr)
        return 2
    if options.marked:
        run_marked(options.only)
        return 0
    tools = toolchain()
    counts = count(only=options.only)
    if counts.rows.keys() == {CONTROL}:
        parser.error(f"no row has {options.only!r} in its name")
    if options.record:
        recorded = {
            name: [round(part, 1) for part in parts]
            for name, parts in counts.rows.items()
            if name != CONTROL
        }
        if options.only:
            recorded = json.loads(RECORD.read_text("utf-8"))["rows"] | recorded
        text = json.dumps({"toolchain": tools, "rows": recorded}, indent=2)
        text = re.sub(r"\[\s+([\d.]+),\s+([\d.]+)\s+\]", r"[\1, \2]", text)
        RECORD.write_text(text + "\n", "utf-8")
    record = json.loads(RECORD.read_text("utf-8"))
    print(", ".join(tools.values()), end=": ")
    is_same = tools == record["toolchain"]
    print("as recorded" if is_same else "recorded was " + ", ".join(record["toolchain"].values()))
    print(
        f"\n{'instructions an event (byte, chunk)':58}{'':9}{'recorded':>9}{'floor':>9}{'ratio':>7}"
    )
    for name, (job, floor) in counts.rows.items():
        known = record["rows"].get(name, ["–"])[0]
        beside = f"{known:>9}{floor:9.1f}{job / floor:7.3f}" if name != CONTROL else ""
        print(f"{name:58}{job:9.1f}{beside}")
    print()
    for name, exponent in counts.growth.items():
        print(f"growth of {name}, exponent: {exponent:.3f}  (gate ≤ {GROWTH})")
    if options.only:
        record["rows"] = {
            name: known for name, known in record["rows"].items() if name in counts.rows
        }
    found = faults(counts, record, tools)
    if found:
        print("\nover the recorded counts:", *found, sep="\n  ")
    return 1 if found and options.gate else 0


if __name__ == "__main__":
    sys.exit(main())
