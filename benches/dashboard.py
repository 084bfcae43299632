"""One page that shows what `make bench` measured: charts, filters, the records, no network.

usage: python -m benches.dashboard build/bench/records.json build/bench/index.html

The page holds everything: the records, its style and program (dashboard.css, dashboard.js), and
plotly.js, which comes with the Python package of that name. The figures at its head and the list
of rows where others are faster are computed here, so that they can be read without a browser.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from plotly.offline import get_plotlyjs

SCHEMA = "seamstream-bench/1"
PRIMARY = "seamstream"
"""The engine that headlines and losses speak of: compiled, `feed` and `close`."""
LINEAR = 1.4
"""A growth exponent up to here is linear growth, measured: a megabyte fits into a cache, eight do
not (bench_growth.py)."""

Record = dict[str, Any]
Row = tuple[str, str, str, str]  # group, workload, chunk, level

TEMPLATE = Path(__file__).with_suffix(".html")


class RecordsError(ValueError):
    """The file is not what `benches.export` writes."""


# --- reading

NUMBER = (int, float)
OPTIONAL_NUMBER = (int, float, type(None))
TOP: dict[str, Any] = {
    "created": str,
    "commit": (str, type(None)),
    "version": str,
    "host": dict,
    "engines": dict,
    "records": list,
}
HOST: dict[str, Any] = {
    "cpu": str,
    "cores": int,
    "os": str,
    "python": str,
    "gil": bool,
    "rustc": (str, type(None)),
    "build_profile": str,
}
ENGINE: dict[str, Any] = {"version": (str, type(None)), "kind": str, "note": str}
RECORD: dict[str, Any] = {
    "id": str,
    "group": str,
    "engine": str,
    "workload": str,
    "corpus_sha256": str,
    "chunk": str,
    "level": str,
    "metric": str,
    "unit": str,
    "better": str,
    "value": OPTIONAL_NUMBER,
    "low": OPTIONAL_NUMBER,
    "high": OPTIONAL_NUMBER,
    "rounds": (int, type(None)),
    "events": (int, type(None)),  # UTF-8 has none
    "bytes": int,
    "size_bytes": (int, type(None)),
    "correct": bool,
    "verdict": str,
    "detail": str,
}
WORDS = {
    "group": ("sse", "json", "utf8"),
    "level": ("text", "json", "get", "validate"),
    "metric": ("cpu_time", "throughput", "growth_exponent", "growth_time", "peak_memory"),
    "better": ("lower", "higher"),
    "verdict": ("ok", "wrong", "lost", "error", "unsupported"),
}
KINDS = ("ours", "peer", "floor", "other-runtime")


def check(place: str, found: Any, wanted: dict[str, Any]) -> None:
    """Refuse an object that lacks one of the fields, or has one of another type."""
    if not isinstance(found, dict):
        raise RecordsError(f"{place} must be an object, not {type(found).__name__}")
    for name, types in wanted.items():
        if name not in found:
            raise RecordsError(f"{place} has no {name!r}")
        value = found[name]
        of_type = isinstance(value, types) and (types is bool or not isinstance(value, bool))
        if not of_type:
            raise RecordsError(f"{place}: {name!r} has the wrong type, {type(value).__name__}")
        if isinstance(value, float) and not math.isfinite(value):
            raise RecordsError(f"{place}: {name!r} is {value}")


def check_word(place: str, name: str, value: str, allowed: Iterable[str]) -> None:
    if value not in allowed:
        raise RecordsError(f"{place}: {name!r} is {value[:80]!r}, not {' or '.join(allowed)}")


def read_records(path: Path) -> dict[str, Any]:
    """Read what `benches.export` wrote.

    Raises:
        RecordsError: It is not JSON, has another schema, lacks a field, or contradicts itself.
        OSError: It cannot be read.
    """
    try:
        run = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise RecordsError(f"not JSON: {error}") from error
    if not isinstance(run, dict) or "schema" not in run:
        raise RecordsError("no 'schema': these are not benchmark records")
    if run["schema"] != SCHEMA:
        raise RecordsError(f"the schema is {str(run['schema'])[:80]!r}, not {SCHEMA!r}")
    check("the run", run, TOP)
    check("'host'", run["host"], HOST)
    try:
        datetime.fromisoformat(run["created"].replace("Z", "+00:00"))  # Z: for Python 3.10
    except ValueError:
        raise RecordsError(f"'created' is no ISO time: {run['created'][:80]!r}") from None
    for name, engine in run["engines"].items():
        check(f"engine {name[:80]!r}", engine, ENGINE)
        check_word(f"engine {name[:80]!r}", "kind", engine["kind"], KINDS)
    for number, record in enumerate(run["records"]):
        check_record(f"record {number}", record, run["engines"])
    return run


def check_record(place: str, record: Any, engines: dict[str, Any]) -> None:
    check(place, record, RECORD)
    place += f" ({record['id'][:120]})"
    for name, allowed in WORDS.items():
        check_word(place, name, record[name], allowed)
    if re.fullmatch(r"whole|event|[1-9][0-9]*", record["chunk"]) is None:
        raise RecordsError(f"{place}: 'chunk' is {record['chunk'][:80]!r}")
    if record["engine"] not in engines:
        raise RecordsError(f"{place}: no engine is called {record['engine'][:80]!r}")
    is_right = record["verdict"] == "ok"
    if record["correct"] != is_right:
        raise RecordsError(f"{place}: 'correct' and 'verdict' contradict each other")
    if (record["value"] is None) == is_right:
        raise RecordsError(f"{place}: a value belongs to the verdict 'ok', and to no other")
    if is_right and record["value"] < 0 and record["metric"] != "growth_exponent":
        raise RecordsError(f"{place}: 'value' is negative")
    if record["chunk"] == "event" and not record["events"]:
        raise RecordsError(f"{place}: one event a chunk, but 'events' is {record['events']}")
    if record["metric"] == "growth_time" and not record["size_bytes"]:
        raise RecordsError(f"{place}: growth, but 'size_bytes' is {record['size_bytes']}")


# --- what the head of the page says


class Headline(NamedTuple):
    figure: str
    text: str


class Loss(NamedTuple):
    """A row in which somebody else is better."""

    what: str
    engine: str
    theirs: str
    ours: str
    factor: float
    overlaps: bool


GROUPS = {"sse": "event streams", "json": "JSON streams", "utf8": "UTF-8 text"}
LEVELS = {
    "text": "payloads as text",
    "json": "parsed as JSON",
    "get": "one value out of the JSON",
    "validate": "validated by a model",
}
HEADLINED = (("sse", "text"), ("sse", "json"), ("json", "json"), ("utf8", "text"))
CHUNKS = {"whole": "in one piece", "event": "one event a chunk", "1": "1 byte a chunk"}

SCALES = {"ns": ("ns", "µs", "ms", "s"), "ms": ("ms", "s"), "KiB": ("KiB", "MiB", "GiB")}


def chunk_name(chunk: str) -> str:
    return CHUNKS.get(chunk, f"{int(chunk):,} bytes a chunk" if chunk.isdigit() else chunk)


def level_name(group: str, level: str) -> str:
    return "" if group == "utf8" else f", {LEVELS[level]}"


def figure(value: float, unit: str) -> str:
    """A value with its unit, to three digits."""
    base, slash, per = unit.partition("/")
    step = 1024 if base == "KiB" else 1000
    names = list(SCALES.get(base, (base,)))
    while len(names) > 1 and value >= 10 * step:
        value /= step
        del names[0]
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 0.1 else 3
    return f"{value:,.{digits}f} {names[0]}{slash}{per}"


def times(factor: float) -> str:
    return f"{factor:.{0 if factor >= 9.5 else 1 if factor >= 2 else 2}f}×"


def spread(ratios: list[float]) -> str:
    if len(ratios) == 1:
        return "one row"
    return f"median of {len(ratios)} rows, from {times(min(ratios))} to {times(max(ratios))}"


def of_metric(run: dict[str, Any], metric: str) -> Iterator[tuple[Row, dict[str, Record]]]:
    """Rows and, by engine, their records that have a value."""
    rows: dict[tuple[Row, Any], dict[str, Record]] = {}
    for record in run["records"]:
        if record["metric"] == metric and record["verdict"] == "ok":
            row = record["group"], record["workload"], record["chunk"], record["level"]
            rows.setdefault((row, record["size_bytes"]), {})[record["engine"]] = record
    for (row, _), by_engine in rows.items():
        yield row, by_engine


def peers_of(run: dict[str, Any], by_engine: dict[str, Record]) -> list[Record]:
    return [r for name, r in by_engine.items() if run["engines"][name]["kind"] == "peer"]


def headlines(run: dict[str, Any]) -> list[Headline]:
    """The figures in large type; each is left out where its records are missing."""
    found: list[Headline] = []
    to_peers: dict[tuple[str, str], list[float]] = {}
    to_floor: list[float] = []
    for (group, _, chunk, level), by_engine in of_metric(run, "cpu_time"):
        ours = by_engine.get(PRIMARY)
        if ours is None or not ours["value"]:
            continue
        peers = peers_of(run, by_engine)
        if peers:
            fastest = min(peer["value"] for peer in peers)
            to_peers.setdefault((group, level), []).append(fastest / ours["value"])
        floor = by_engine.get("floor")
        if floor is not None and floor["value"] and (level, chunk) == ("json", "16384"):
            to_floor.append(ours["value"] / floor["value"])
    for group, level in HEADLINED:
        ratios = to_peers.get((group, level))
        if ratios:
            text = (
                f"as fast as the fastest peer, {GROUPS[group]}{level_name(group, level)}: "
                f"{spread(ratios)}"
            )
            found.append(Headline(times(statistics.median(ratios)), text))
    if to_floor:
        text = (
            "the time of orjson alone, which reads no stream, when all is parsed, 16 KB chunks: "
            f"{spread(to_floor)}"
        )
        found.append(Headline(times(statistics.median(to_floor)), text))
    exponents = [rows for _, rows in of_metric(run, "growth_exponent") if PRIMARY in rows]
    if exponents:
        worst = max(rows[PRIMARY]["value"] for rows in exponents)
        others = [peer["value"] for rows in exponents for peer in peers_of(run, rows)]
        text = "exponent by which time grows with the size of one event, at worst; 1 is linear"
        if others:
            text += f". Peers from {min(others):.2f} to {max(others):.2f}"
        found.append(Headline(f"{worst:.2f}", text))
    for _, rows in of_metric(run, "peak_memory"):
        if PRIMARY in rows:
            ours, peers = rows[PRIMARY], peers_of(run, rows)
            size = (ours["size_bytes"] or ours["bytes"]) / 1e6
            text = f"peak memory for one event of {size:g} MB"
            if peers:
                values = [peer["value"] for peer in peers]
                least, most = (figure(bound, ours["unit"]) for bound in (min(values), max(values)))
                text += f". Peers from {least} to {most}"
            found.append(Headline(figure(ours["value"], ours["unit"]), text))
            break
    return found


def losses(run: dict[str, Any]) -> tuple[list[Loss], int]:
    """The rows in which a peer or another runtime is better, worst first; and how many there are.

    The floors are no rivals: they leave out the work.
    """
    found: list[Loss] = []
    rows = 0
    for metric in ("cpu_time", "growth_exponent", "peak_memory"):
        for (group, workload, chunk, level), by_engine in of_metric(run, metric):
            ours = by_engine.get(PRIMARY)
            rivals = [
                record
                for name, record in by_engine.items()
                if run["engines"][name]["kind"] in ("peer", "other-runtime")
            ]
            if ours is None or not rivals:
                continue
            rows += 1
            best = min(rivals, key=lambda record: record["value"])
            if best["value"] >= ours["value"]:
                continue
            if metric == "growth_exponent" and ours["value"] <= LINEAR:
                continue
            what = f"{GROUPS[group]}: {workload}, {chunk_name(chunk)}{level_name(group, level)}"
            if metric != "cpu_time":
                what += f" ({metric.replace('_', ' ')})"
            unit = "" if ours["unit"] == "exponent" else ours["unit"]
            overlaps = None not in (best["high"], ours["low"]) and best["high"] >= ours["low"]
            found.append(
                Loss(
                    what,
                    best["engine"],
                    figure(best["value"], unit).strip(),
                    figure(ours["value"], unit).strip(),
                    ours["value"] / best["value"] if best["value"] else math.inf,
                    overlaps,
                )
            )
    return sorted(found, key=lambda loss: -loss.factor), rows


# --- the page


def embed(value: Any) -> str:
    """JSON that may stand in a script element, whatever is in it."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def render_headlines(run: dict[str, Any]) -> str:
    cards = [
        f"<li><strong>{escape(figure)}</strong> <span>{escape(text)}</span></li>"
        for figure, text in headlines(run)
    ]
    if not cards:
        return f'<p class="empty">No figures of the engine “{PRIMARY}” in these records.</p>'
    return f'<ul class="headlines">{"".join(cards)}</ul>'


def render_losses(run: dict[str, Any]) -> str:
    found, rows = losses(run)
    if not rows:
        return '<p class="empty">Nothing to compare: no row has seamstream and a peer.</p>'
    if not found:
        return f"<p>In none of the {rows} rows of these records is a peer better.</p>"
    body = "".join(
        f"<tr><th scope='row'>{escape(loss.what)}</th><td>{escape(loss.engine)}</td>"
        f"<td class='number'>{escape(loss.theirs)}</td><td class='number'>{escape(loss.ours)}</td>"
        f"<td class='number'>{times(loss.factor)}{' <small>ranges overlap</small>' * loss.overlaps}"
        "</td></tr>"
        for loss in found
    )
    return (
        f"<p>A peer or another runtime is better than seamstream in {len(found)} of the {rows} "
        "rows of these records in which both gave the right output.</p>"
        "<div class='scroll' tabindex='0' role='region' aria-label='Rows where seamstream loses'>"
        "<table><thead><tr><th scope='col'>Work</th><th scope='col'>Best</th>"
        "<th scope='col'>Theirs</th><th scope='col'>seamstream</th><th scope='col'>Factor</th></tr>"
        f"</thead><tbody>{body}</tbody></table></div>"
    )


def render_engines(run: dict[str, Any]) -> str:
    kinds = {"ours": "ours", "peer": "peer", "floor": "floor", "other-runtime": "other runtime"}
    body = "".join(
        f"<tr><th scope='row'>{escape(name)}</th><td>{escape(engine['version'] or '–')}</td>"
        f"<td>{kinds[engine['kind']]}</td><td>{escape(engine['note'])}</td></tr>"
        for name, engine in run["engines"].items()
    )
    return (
        "<div class='scroll' tabindex='0' role='region' aria-label='Engines'><table><thead><tr>"
        "<th scope='col'>Engine</th><th scope='col'>Version</th><th scope='col'>Kind</th>"
        f"<th scope='col'>What is run</th></tr></thead><tbody>{body}</tbody></table></div>"
    )


def render_facts(run: dict[str, Any]) -> str:
    host = run["host"]
    created = datetime.fromisoformat(run["created"].replace("Z", "+00:00"))
    commit, _, state = (run["commit"] or "not known").partition("-")
    facts = {
        "Measured": f"{created:%Y-%m-%d %H:%M} {created.tzname() or ''}".strip(),
        "Version": run["version"],
        "Commit": commit[:12] + (f" ({state})" if state else ""),
        "Processor": f"{host['cpu']}, {host['cores']} core{'s' * (host['cores'] != 1)}",
        "System": host["os"],
        "Python": f"{host['python']}, {'with' if host['gil'] else 'without'} the GIL",
        "Rust": f"{host['rustc'] or 'not known'}, {host['build_profile']} build",
    }
    return "".join(
        f"<div><dt>{name}</dt><dd>{escape(fact)}</dd></div>" for name, fact in facts.items()
    )


def render(run: dict[str, Any]) -> str:
    """The page, whole. What comes from the records is escaped."""
    parts = {
        "css": TEMPLATE.with_suffix(".css").read_text("utf-8"),
        "facts": render_facts(run),
        "headlines": render_headlines(run),
        "losses": render_losses(run),
        "engines": render_engines(run),
        "records": embed(run),
        "primary": embed(PRIMARY),
        "plotly": get_plotlyjs(),
        "js": TEMPLATE.with_suffix(".js").read_text("utf-8"),
    }
    # In one pass: what is put in is not looked at again.
    return re.sub(r"\{\{(\w+)\}\}", lambda hole: parts[hole[1]], TEMPLATE.read_text("utf-8"))


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.dashboard", description=__doc__)
    parser.add_argument("records", type=Path, help="what benches.export wrote")
    parser.add_argument("page", type=Path, help="where to write the page")
    options = parser.parse_args(None if arguments is None else list(arguments))
    try:
        page = render(read_records(options.records))
    except (RecordsError, OSError) as error:
        print(f"error: {options.records}: {error}", file=sys.stderr)
        return 2
    options.page.parent.mkdir(parents=True, exist_ok=True)
    options.page.write_text(page, "utf-8")
    print(f"{options.page}: {len(page) / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
