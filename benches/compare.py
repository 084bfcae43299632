"""Two revisions side by side: `make bench-compare BASE=<rev>`.

Both are built in the same way and put in folders of their own; the rows are those of the working
tree, which is the head. Instructions are counted as by instructions.py. For time each revision has
a process, and they run each row in turns, by thread CPU time: what counts is the median of the
ratios. A row is marked where the two differ by more than two runs of one revision do.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from benches import instructions, rows

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "build" / "compare"
TURNS = 15
LOOKS = 3
"""What is really slower stays so."""
TIME_TOLERANCE = 1.10
"""Two processes with the same code differ by half as much on a busy machine."""


STEADY = {
    "PYTHONHASHSEED": "0",
    # Pages that malloc gave back and takes again cost more than an event, now and then.
    "MALLOC_MMAP_THRESHOLD_": str(1 << 25),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}


def run(*command: str, **options: Any) -> bytes:
    """Run a program, whose complaints are seen; what it printed.

    Raises:
        SystemExit: It failed.
    """
    finished = subprocess.run(command, stdout=subprocess.PIPE, check=False, **options)
    if finished.returncode != 0:
        raise SystemExit(f"{Path(command[0]).name} ended with {finished.returncode}")
    return finished.stdout


def build(tree: Path, target: Path, site: Path) -> None:
    """Build the package in `tree`, by cargo in `target`, and unpack it in `site`."""
    shutil.rmtree(site, ignore_errors=True)
    wheels = site.with_name(f"{site.name}-wheels")
    shutil.rmtree(wheels, ignore_errors=True)
    maturin = [str(Path(sys.executable).with_name("maturin")), "build", "--release", "--quiet"]
    maturin += ["--interpreter", sys.executable, "--target-dir", str(target), "--out", str(wheels)]
    run(*maturin, cwd=tree)
    (wheel,) = wheels.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site)]
    run(*pip, str(wheel))


def check_out(revision: str, tree: Path) -> str:
    """Put the files of a revision in `tree`; its short name."""
    git = ["git", "-C", str(ROOT)]
    name = ["rev-parse", "--verify", "--quiet", "--short", f"{revision}^{{commit}}"]
    found = subprocess.run([*git, *name], stdout=subprocess.PIPE, check=False, encoding="utf-8")
    if found.returncode != 0:
        raise SystemExit(f"no such revision: {revision}")
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    archive = run(*git, "archive", found.stdout.strip())
    # With the time of today: cargo goes by it.
    run("tar", "--extract", "--touch", "--directory", str(tree), input=archive)
    return found.stdout.strip()


# --- time


def serve(only: str) -> None:
    """Say which rows there are; then, for each number that comes, run that row and say its time."""
    jobs = list(rows.rows(only=only, broken=instructions.broken))
    gc.collect()
    gc.freeze()
    print(json.dumps({row.name: row.per for row in jobs}), flush=True)
    for line in sys.stdin:
        job = jobs[int(line)].job
        print(min(job(), job()), flush=True)


class Revision:
    """A process with one revision's package."""

    def __init__(self, site: Path, only: str) -> None:
        self.site = site
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benches.compare", "--serve", f"--only={only}"],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(site)} | STEADY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        self.rows: dict[str, int] = {}
        self.numbers: dict[str, int] = {}

    def __enter__(self) -> Revision:
        try:
            self.rows = self.answer()
        except BaseException:
            self.__exit__()
            raise
        self.numbers = {name: number for number, name in enumerate(self.rows)}
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(BrokenPipeError):  # it has ended before
            self.process.communicate()

    def answer(self) -> Any:
        """What it says next.

        Raises:
            SystemExit: It has ended instead; what it had to say about that is on standard error.
        """
        output: IO[str] | None = self.process.stdout
        assert output is not None
        line = output.readline()
        if not line:
            raise SystemExit(f"the process of {self.site.name} ended with {self.process.wait()}")
        return json.loads(line)

    def run(self, name: str) -> float:
        """Nanoseconds for each event (byte, chunk)."""
        questions: IO[str] | None = self.process.stdin
        assert questions is not None
        with suppress(BrokenPipeError):  # the answer will tell
            questions.write(f"{self.numbers[name]}\n")
            questions.flush()
        return float(self.answer()) / self.rows[name]


def times(base: Path, head: Path, only: str) -> dict[str, tuple[float, float, float]]:
    """For each row that both have: the base's time, the head's, and the ratio."""
    with Revision(base, only) as of_base, Revision(head, only) as of_head:
        return times_of(of_base, of_head)


def times_of(base: Revision, head: Revision) -> dict[str, tuple[float, float, float]]:
    measured: dict[str, tuple[float, float, float]] = {}
    for name in head.rows:
        if name not in base.rows:
            continue
        looks: list[tuple[float, float, float]] = []
        while len(looks) < LOOKS and not (looks and verdict(looks[-1][2], TIME_TOLERANCE) == ""):
            turns = [(base.run(name), head.run(name)) for _ in range(TURNS)]
            ratio = statistics.median(of_head / of_base for of_base, of_head in turns)
            of_base, of_head = (statistics.median(of) for of in zip(*turns, strict=True))
            looks.append((of_base, of_head, ratio))
        measured[name] = min(looks, key=lambda look: abs(math.log(look[2])))
    return measured


# --- the table


def verdict(change: float, tolerance: float) -> str:
    if change > tolerance:
        return "slower"
    return "faster" if change < 1 / tolerance else ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.compare", description=__doc__)
    parser.add_argument("base", nargs="?", default="HEAD", help="a revision; by default HEAD")
    parser.add_argument("--only", default="", help="rows whose names contain this")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.only)
        return 0
    tree = PLACE / "tree"
    # Names of one length: that of the environment decides where objects lie.
    base, head = PLACE / "base", PLACE / "head"
    name = check_out(options.base, tree)
    build(tree, PLACE / "target", base)
    build(ROOT, ROOT / "ext" / "target", head)
    counted = [instructions.count(site, options.only) for site in (base, head)]
    timed = times(base, head, options.only)
    print(f"base: {name}, head: the working tree; {', '.join(instructions.toolchain().values())}")
    print(f"\n{'':56}{'instructions':^27}{'ns':^25}")
    print(f"{'':56}{'base':>10}{'head':>10}{'':7}{'base':>9}{'head':>9}{'':7}")
    for row, (job, _) in counted[1].rows.items():
        if row == instructions.CONTROL:
            continue
        of_base, _ = counted[0].rows.get(row, (math.nan, math.nan))
        before, after, ratio = timed.get(row, (math.nan, math.nan, math.nan))
        tolerance = instructions.TOLERANCE
        if row in counted[1].foreign:
            tolerance = instructions.FOREIGN_TOLERANCE
        verdicts = {
            "instructions": verdict(job / of_base, tolerance),
            "time": verdict(ratio, TIME_TOLERANCE),
        }
        marks = ", ".join(f"{what} {is_what}" for what, is_what in verdicts.items() if is_what)
        print(
            f"{row:56}{of_base:10.1f}{job:10.1f}{(job / of_base - 1) * 100:+6.1f}%"
            f"{before:9.1f}{after:9.1f}{(ratio - 1) * 100:+6.1f}%  {marks}".rstrip()
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
