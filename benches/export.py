"""Turn what the suites measured into records that any dashboard can take.

Writes records.json, the two lists that github-action-benchmark reads (bigger.json, smaller.json),
and table.md. A cell whose output was not right has a verdict and no figure. With --record the run
is also kept in benches/record, a line for each record and only what cannot be derived.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benches.engines import ENGINES, OURS, ROOT

Record = dict[str, Any]
SCHEMA = "seamstream-bench/1"


# --- records


def record(cell: dict[str, Any], metric: str, unit: str, **rest: Any) -> Record:
    """A record of the schema, from a cell and what is known of it; the value is to come."""
    facts = cell["facts"]
    return {
        "id": cell["id"],
        "group": cell["group"],
        "engine": cell["engine"],
        "workload": cell["workload"],
        "corpus_sha256": facts["corpus_sha256"],
        "chunk": str(cell["cut"]),
        "level": cell["level"],
        "metric": metric,
        "unit": unit,
        "better": "higher" if metric == "throughput" else "lower",
        "value": None,
        "low": None,
        "high": None,
        "rounds": None,
        "events": facts["events"],
        "bytes": facts["bytes"],
        "size_bytes": cell.get("size"),
        "correct": cell["verdict"] == "ok",
        "verdict": cell["verdict"],
        "detail": cell.get("detail", ""),
        **rest,
    }


def time_records(cells: list[dict[str, Any]]) -> list[Record]:
    """Time of each cell, and its throughput.

    An engine's time is its ratio to ours, the median of rounds in turns, times what ours took for
    this work, the median of all the cells where it ran in turns. So what a record is of another is
    what was measured side by side, not what the machine was at in two moments.
    """
    beside: dict[tuple[Any, ...], list[float]] = {}
    for cell in cells:
        if timed(cell) and "ratios" in cell:
            beside.setdefault(place(cell), []).append(cell["beside"])
    ours = {where: statistics.median(times) for where, times in beside.items()}
    records = []
    for cell in cells:
        per_event = cell["facts"]["events"] is not None
        unit = "ns/event" if per_event else "ns/byte"
        time = record(cell, "cpu_time", unit)
        records.append(time)
        if not timed(cell):
            continue
        count = cell["facts"]["events"] if per_event else cell["facts"]["bytes"]
        low, middle, high = cell["quartiles"]
        if "ratios" in cell:
            low, middle, high = (ratio * ours[place(cell)] for ratio in cell["ratios"])
        seconds = {"value": middle, "low": low, "high": high}
        time["rounds"] = cell["rounds"]
        time.update({name: rounded(taken * 1e9 / count) for name, taken in seconds.items()})
        if cell["level"] == "text" or cell["group"] == "json":
            size = cell["facts"]["bytes"]
            speed = record(cell, "throughput", "MB/s", rounds=cell["rounds"])
            speed["id"] += ":throughput"
            speed["value"] = rounded(size / middle / 1e6)
            speed["low"], speed["high"] = rounded(size / high / 1e6), rounded(size / low / 1e6)
            records.append(speed)
    return records


def place(cell: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(cell[name] for name in ("group", "workload", "cut", "level"))


def timed(cell: dict[str, Any]) -> bool:
    return cell["verdict"] == "ok" and "median" in cell


def growth_records(cells: list[dict[str, Any]]) -> list[Record]:
    """Time by size, and its exponent for each engine and cut."""
    records = []
    curves: dict[tuple[str, Any], list[dict[str, Any]]] = {}
    for cell in cells:
        point = record(cell, "growth_time", "ms")
        if timed(cell):
            point["rounds"] = cell["rounds"]
            low, middle, high = cell["quartiles"]
            point.update(
                value=rounded(middle * 1e3), low=rounded(low * 1e3), high=rounded(high * 1e3)
            )
        records.append(point)
        curves.setdefault((cell["engine"], cell["cut"]), []).append(cell)
    for curve in curves.values():
        good = [cell for cell in curve if timed(cell)]
        bad = next((cell for cell in curve if cell["verdict"] != "ok"), None)
        largest = good[-1] if good else curve[-1]
        exponent = record({**largest, "size": None}, "growth_exponent", "exponent")
        exponent["id"] = f"{largest['id'].rpartition('-')[0]}]"
        if bad is not None:
            exponent.update(correct=False, verdict=bad["verdict"], detail=bad.get("detail", ""))
        elif len(good) >= 3:
            large = [cell for cell in good if cell["size"] >= 1_000_000]
            points = large if len(large) >= 3 else good
            value = slope([(cell["size"], cell["least"]) for cell in points])
            sizes = f"{points[0]['size'] / 1e6:g} to {points[-1]['size'] / 1e6:g} MB"
            exponent.update(
                value=round(value, 3), rounds=len(points), detail=f"fitted over {sizes}"
            )
        else:
            exponent.update(correct=False, verdict="unsupported", detail="too few sizes in time")
        records.append(exponent)
    return records


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Of log y over log x, by least squares: 1 is linear."""
    x, y = zip(*((math.log(x), math.log(y)) for x, y in points), strict=True)
    return statistics.linear_regression(x, y).slope


def memory_records(cells: list[dict[str, Any]]) -> list[Record]:
    records = []
    for cell in cells:
        peak = record(cell, "peak_memory", "KiB")
        if cell["verdict"] == "ok":
            peak.update(value=cell["peak_kib"], rounds=1)
        records.append(peak)
    return records


def rounded(value: float) -> float:
    """Four digits; a dashboard needs no more."""
    return float(f"{value:.4g}")


# --- what a run says


def cells_of(run: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The cells of a run by suite, timed or not."""
    suites: dict[str, list[dict[str, Any]]] = {"time": [], "growth": [], "memory": []}
    for benchmark in run["benchmarks"]:
        extra = benchmark["extra_info"]
        if "engine" not in extra:
            continue
        stats = benchmark["stats"]
        cell = {
            **extra,
            "id": benchmark["fullname"],
            "median": stats["median"],
            "quartiles": [stats["q1"], stats["median"], stats["q3"]],
            "least": stats["min"],
            "rounds": stats["rounds"],
        }
        suites[suite_of(cell["id"])].append(cell)
    for cell in run["not_timed"]:
        suites[suite_of(cell["id"])].append(cell)
    return suites


def suite_of(identity: str) -> str:
    for name in ("growth", "memory"):
        if identity.startswith(f"benches/bench_{name}.py"):
            return name
    return "time"


def node_cells(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells of another runtime; process CPU time, not in turns with ours."""
    cells = []
    for cell in found["cells"]:
        cell = dict(cell)
        rounds = cell.pop("seconds")
        if cell["verdict"] == "ok":
            low, middle, high = statistics.quantiles(rounds, n=4)
            cell.update(median=middle, quartiles=[low, middle, high], rounds=len(rounds))
        cells.append(cell)
    return cells


def output_of(*command: str) -> str | None:
    try:
        finished = subprocess.run(
            command, capture_output=True, check=True, cwd=ROOT, encoding="utf-8", timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return finished.stdout.strip()


def host(run: dict[str, Any]) -> dict[str, Any]:
    from seamstream import _core  # noqa: PLC0415 (only a whole run needs it)

    gil = getattr(sys, "_is_gil_enabled", lambda: True)
    return {
        "cpu": run["machine_info"]["cpu"].get("brand_raw", platform.processor()),
        "cores": os.cpu_count(),
        "os": platform.platform(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "gil": gil(),
        "rustc": output_of("rustc", "--version"),
        "build_profile": _core.build_profile,
    }


def engines(node: dict[str, Any] | None) -> dict[str, Any]:
    """Every engine of the registry, present or not."""
    found: dict[str, Any] = {}
    for engine in ENGINES.values():
        entry = found.setdefault(
            engine.name, {"version": None, "kind": engine.kind, "note": engine.note}
        )
        if entry["note"] != engine.note:
            entry["note"] += f"; {engine.group}: {engine.note}"
        if missing := engine.missing():
            entry["note"] += f" ({missing})"
        else:
            entry["version"] = engine.version or f"Python {platform.python_version()}"
    if node is not None:
        found[node["engine"]] = {
            "version": node["version"],
            "kind": "other-runtime",
            "note": node["note"],
        }
    return found


def export(run: dict[str, Any], node: dict[str, Any] | None) -> dict[str, Any]:
    suites = cells_of(run)
    times = time_records(suites["time"])
    if node is not None:
        times += time_records(node_cells(node))
    commit = output_of("git", "rev-parse", "HEAD")
    if commit and output_of("git", "status", "--porcelain", "--untracked-files=no"):
        commit += "-dirty"
    return {
        "schema": SCHEMA,
        "created": run["datetime"],
        "commit": commit,
        "version": importlib.metadata.version("seamstream"),
        "host": host(run),
        "engines": engines(node),
        "records": times + growth_records(suites["growth"]) + memory_records(suites["memory"]),
    }


# --- the two lists of github-action-benchmark: ours, for alerts on a change


def lists(
    exported: dict[str, Any], run: dict[str, Any]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What is better when bigger, and what when smaller."""
    bigger, smaller = [], []
    for found in exported["records"]:
        if exported["engines"][found["engine"]]["kind"] != "ours" or found["value"] is None:
            continue
        name = f"{found['engine']}: {found['group']}, {found['workload']}, {found['chunk']}"
        name += f", {found['level']}"
        spread = f"{found['low']} to {found['high']}" if found["low"] is not None else ""
        entry = {"name": name, "unit": found["unit"], "value": found["value"], "range": spread}
        if found["metric"] == "throughput":
            bigger.append(entry)
            if found["events"] is not None:
                events = found["value"] * 1e6 / found["bytes"] * found["events"]
                bigger.append({"name": name, "unit": "events/s", "value": rounded(events)})
        elif found["metric"] in ("cpu_time", "peak_memory"):
            smaller.append(entry)
    for benchmark in run["benchmarks"]:
        if taken := benchmark["extra_info"].get("import_ms"):
            low, middle, high = map(rounded, taken)
            smaller.append(
                {
                    "name": "import seamstream",
                    "unit": "ms",
                    "value": middle,
                    "range": f"{low} to {high}",
                }
            )
    return bigger, smaller


# --- what is kept of a run

KEPT = (
    *("group", "engine", "workload", "chunk", "level", "metric", "size_bytes"),
    *("value", "low", "high", "rounds", "verdict", "detail"),
)


def kept(exported: dict[str, Any]) -> str:
    """Records as rows: no throughput, which follows from time, and nothing that is not offered."""
    head = {name: exported[name] for name in ("schema", "created", "commit", "version", "host")}
    rows = [
        json.dumps([found[name] for name in KEPT], ensure_ascii=False, separators=(",", ":"))
        for found in exported["records"]
        if found["metric"] != "throughput" and found["verdict"] != "unsupported"
    ]
    corpora = {
        f"{found['workload']}, {found['bytes']} bytes": found["corpus_sha256"]
        for found in exported["records"]
    }
    parts = [
        *(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()),
        f'"engines": {json.dumps(exported["engines"], indent=1, ensure_ascii=False)}',
        f'"corpora": {json.dumps(corpora, indent=1)}',
        f'"fields": {json.dumps(KEPT)}',
        '"records": [\n' + ",\n".join(rows) + "\n]",
    ]
    return "{" + ",\n".join(parts) + "}\n"


def name_of_record(exported: dict[str, Any]) -> str:
    """The date and the processor: 2026-11-30-amd-epyc."""
    processor = re.sub(r"[^a-z0-9]+", "-", exported["host"]["cpu"].lower()).strip("-")
    return f"{exported['created'][:10]}-{processor}.json"


# --- the table

COLUMNS: dict[str, tuple[str, str, str, str, str]] = {
    "16 KB chunks": ("openai", "16384", "text", "cpu_time", "sse"),
    "1,460 B": ("openai", "1460", "text", "cpu_time", "sse"),
    "one event a chunk": ("openai", "event", "text", "cpu_time", "sse"),
    "8 B": ("openai", "8", "text", "cpu_time", "sse"),
    "Japanese, 16 KB": ("gemini_ja", "16384", "text", "cpu_time", "sse"),
    "named events, 16 KB": ("anthropic", "16384", "text", "cpu_time", "sse"),
    "and JSON, 16 KB": ("openai", "16384", "json", "cpu_time", "sse"),
    "exponent": ("big", "1460", "", "growth_exponent", "sse"),
    "peak memory": ("big", "16384", "", "peak_memory", "sse"),
}


def table(exported: dict[str, Any]) -> str:
    """Markdown: nanoseconds an event and, in brackets, times ours; a word where it is not right."""
    cells: dict[tuple[str, str], Record] = {}
    for title, (workload, chunk, level, metric, group) in COLUMNS.items():
        for found in exported["records"]:
            if (found["workload"], found["chunk"]) != (workload, chunk) or found["group"] != group:
                continue
            if found["metric"] == metric and level in ("", found["level"]):
                cells[title, found["engine"]] = found
    titles = [title for title in COLUMNS if any(column == title for column, _ in cells)]
    names = [name for name in exported["engines"] if any(engine == name for _, engine in cells)]

    def order(name: str) -> float:
        values = [cells[title, name]["value"] for title in titles if (title, name) in cells]
        return next((value for value in values if value is not None), math.inf)

    rows = [["engine", *titles], ["---", *("---:" for _ in titles)]]
    rows += [
        [name, *(shown(cells, title, name) for title in titles)]
        for name in sorted(names, key=order)
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def shown(cells: dict[tuple[str, str], Record], title: str, name: str) -> str:
    found = cells.get((title, name))
    if found is None:
        return "–"
    if found["value"] is None:
        return "–" if found["verdict"] == "unsupported" else found["verdict"]
    if found["metric"] == "growth_exponent":
        return f"{found['value']:.2f}"
    if found["metric"] == "peak_memory":
        return f"{found['value'] * 1024 / found['bytes']:.1f} ×"
    ours = cells.get((title, OURS))
    if ours is None or not ours["value"]:
        return f"{found['value']:,.0f}"
    ratio = found["value"] / ours["value"]
    times = f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.1f}" if ratio >= 0.1 else f"{ratio:.2f}"
    return f"{found['value']:,.0f} ({times} ×)"


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.export", description=__doc__)
    parser.add_argument("run", type=Path, help="what pytest --benchmark-json wrote")
    parser.add_argument("node", type=Path, nargs="?", help="what benches.node wrote")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench")
    parser.add_argument("--record", action="store_true", help="keep the run in benches/record")
    options = parser.parse_args(None if arguments is None else list(arguments))
    try:
        run = json.loads(options.run.read_text("utf-8"))
        node = json.loads(options.node.read_text("utf-8")) if options.node else None
    except (OSError, ValueError) as error:
        parser.error(str(error))
    exported = export(run, node)
    bigger, smaller = lists(exported, run)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, content in (("records", exported), ("bigger", bigger), ("smaller", smaller)):
        text = json.dumps(content, indent=1, ensure_ascii=False)
        (options.out / f"{name}.json").write_text(text + "\n", "utf-8")
    (options.out / "table.md").write_text(table(exported), "utf-8")
    if options.record:
        record_file = ROOT / "benches" / "record" / name_of_record(exported)
        record_file.parent.mkdir(exist_ok=True)
        record_file.write_text(kept(exported), "utf-8")
    print(table(exported))
    print(f"in {options.out}: records.json, bigger.json, smaller.json, table.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
