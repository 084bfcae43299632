"""The comparison with the peers: what it measures is right, and what is not right has no figure."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benches import dashboard, export, suite
from benches.engines import (
    DECODE,
    ENGINES,
    FRAMINGS,
    LEVELS,
    OURS,
    PULL,
    PUSH,
    Engine,
    compare,
    judge,
    of_group,
)
from benches.workloads import (
    CORPORA,
    TEXTS,
    Body,
    Corpus,
    Cut,
    big_corpus,
    corpus,
    cut_blocks,
    framed_values,
    objects,
    text,
)
from shared_folder import PROJECT, SHARED_IS_PRESENT

SMALL: dict[Cut, int] = {cut: min(size, 12_000) for cut, size in suite.SIZES.items()}
PRESENT = [name for name in CORPORA if name != "recorded" or SHARED_IS_PRESENT]
SSE = {engine.name: engine for engine in of_group("sse")}
OUR_NAMES = [name for name, engine in SSE.items() if engine.kind == "ours"]
PEER_NAMES = [name for name, engine in SSE.items() if engine.kind == "peer"]
MAY_BE_ABSENT = "seamstream-cython"


def small(name: str, cut: Cut) -> Corpus:
    return corpus(name).first(SMALL[cut])


def verdict(engine: Engine, work: Corpus, cut: Cut, level: str) -> str:
    outcome, loop = judge(engine, work.chunks(cut), level, work)
    assert (loop is not None) == (outcome.verdict == "ok")
    return outcome.verdict


# --- the registry


@pytest.mark.parametrize("name", OUR_NAMES)
@pytest.mark.parametrize("workload", PRESENT)
def test_ours_are_right_at_every_cut_and_level(name: str, workload: str) -> None:
    engine = SSE[name]
    if engine.missing():
        assert name == MAY_BE_ABSENT
        return
    for cut in suite.CUTS:
        work = small(workload, cut)
        for level in LEVELS:
            offered = level == "text" or work.json
            offered &= level != "validate" or work.model is not None
            wanted = "ok" if offered else "unsupported"
            if engine.stands_for:
                wanted = verdict(SSE[engine.stands_for], work, cut, level)
            assert verdict(engine, work, cut, level) == wanted, (cut, level)


@pytest.mark.parametrize("name", OUR_NAMES)
def test_ours_are_right_on_one_big_event(name: str) -> None:
    if SSE[name].missing():
        assert name == MAY_BE_ABSENT
        return
    for cut in suite.CUTS:
        assert verdict(SSE[name], big_corpus(SMALL[cut]), cut, "text") == "ok"


@pytest.mark.parametrize("name", PEER_NAMES)
def test_each_peer_runs_at_every_cut_and_is_right_somewhere(name: str) -> None:
    """What it gets wrong is found by running it; all wrong would be our way of asking it."""
    engine = SSE[name]
    level = "text" if "text" in engine.reads else "json"
    for cut in suite.CUTS:
        found = {
            workload: verdict(engine, small(workload, cut), cut, level) for workload in PRESENT
        }
        assert "ok" in found.values(), (cut, found)


@pytest.mark.parametrize("name", [e.name for e in of_group("json")])
@pytest.mark.parametrize("framing", FRAMINGS)
def test_json_engines_are_right_on_the_framings_they_read(name: str, framing: str) -> None:
    engine = ENGINES["json", name]
    if engine.missing():
        assert name == MAY_BE_ABSENT
        return
    values = objects(30)
    pieces = framed_values(values, framing)
    for cut in suite.CUTS:
        outcome, _ = judge(
            engine,
            [cut_blocks(pieces, cut)],
            "json",
            framing=framing,
            payloads=values,
            wanted=[json.loads(value) for value in values],
        )
        assert outcome.verdict == ("ok" if framing in engine.framings else "unsupported"), outcome


@pytest.mark.parametrize("name", [e.name for e in of_group("utf8")])
@pytest.mark.parametrize("kind", TEXTS)
def test_utf8_engines_are_right(name: str, kind: str) -> None:
    body = text(kind, 2000)
    for cut in suite.CUTS:
        chunks = cut_blocks([body], cut)
        wanted = [body.decode("utf-8", "replace")]
        outcome, _ = judge(ENGINES["utf8", name], [chunks], "text", wanted=wanted)
        assert outcome.verdict == "ok"


def test_engines_are_installed_as_the_lock_says() -> None:
    lock = (PROJECT / "benches" / "peers.lock").read_text("utf-8")
    pinned = dict(re.findall(r"(?m)^([A-Za-z0-9._-]+)==(\S+)$", lock))
    absent = {engine.name for engine in ENGINES.values() if engine.missing()}
    assert absent <= {MAY_BE_ABSENT}
    for engine in ENGINES.values():
        if engine.distribution not in (None, "seamstream"):
            assert engine.version == pinned[engine.distribution], engine.name


def test_first_takes_whole_events() -> None:
    work = corpus("anthropic")
    part = work.first(1000)
    assert 0 < len(part.events) < len(work.events)
    assert part.events == work.events[: len(part.events)]
    assert b"".join(part.chunks("whole")[0]).endswith(b"\n\n")
    assert 800 < part.size <= 1000
    assert len(work.first(1).events) == 1


# --- what the checker finds


@dataclasses.dataclass
class Item:
    data: str
    event: str = "message"


WORK = Corpus(
    "three",
    (
        Body(
            tuple(b'data: {"n":%d}\n\n' % number for number in range(3)),
            tuple(("message", f'{{"n":{number}}}') for number in range(3)),
        ),
    ),
    path="n",
    index='["n"]',
)


def right(chunks: list[bytes]) -> list[Item]:
    return [Item(line[6:].decode()) for line in b"".join(chunks).split(b"\n") if line]


def make(take: Callable[..., Any], **changes: Any) -> Engine:
    template = ENGINES["sse", "httpx-sse"]
    return dataclasses.replace(template, name="made", load=lambda: take, **changes)


def out_of_order(chunks: list[bytes]) -> list[Item]:
    return right(chunks)[::-1]


def one_twice(chunks: list[bytes]) -> list[Item]:
    return [*right(chunks), right(chunks)[-1]]


def another_type(chunks: list[bytes]) -> list[Item]:
    return [Item(item.data, "ping") for item in right(chunks)]


def another_text(chunks: list[bytes]) -> list[Item]:
    return [Item(item.data.replace("2", "3")) for item in right(chunks)]


def dropped(chunks: list[bytes]) -> list[Item]:
    return right(chunks)[1:]


def nothing(chunks: list[bytes]) -> list[Item]:
    return []


def raises_late(chunks: list[bytes]) -> Any:
    yield from right(chunks)
    raise ValueError("after all events")


@pytest.mark.parametrize(
    ("take", "wanted"),
    [
        (right, "ok"),
        (out_of_order, "wrong"),
        (one_twice, "wrong"),
        (another_type, "wrong"),
        (another_text, "wrong"),
        (dropped, "lost"),
        (nothing, "lost"),
        (raises_late, "error"),
    ],
)
def test_checker_tells_what_is_wrong(take: Callable[..., Any], wanted: str) -> None:
    assert verdict(make(take), WORK, 5, "text") == wanted
    if take is not another_type:  # the other levels look at the data alone
        assert verdict(make(take), WORK, 5, "json") == wanted
        assert verdict(make(take), WORK, 5, "get") == wanted


def test_checker_tells_what_is_not_offered() -> None:
    def not_there() -> Any:
        raise ModuleNotFoundError("no module named made")

    absent = dataclasses.replace(make(right), load=not_there)
    assert verdict(absent, WORK, 5, "text") == "unsupported"
    assert absent.missing() == "not installed: no module named made"
    assert verdict(make(right, reads={"json": "item"}), WORK, 5, "text") == "unsupported"
    assert verdict(make(right), WORK, 5, "validate") == "unsupported"
    assert verdict(make(right), dataclasses.replace(WORK, json=False), 5, "json") == "unsupported"


def test_checker_compares_each_item() -> None:
    assert compare([1, 2], [1, 2]).verdict == "ok"
    assert compare([], []).verdict == "ok"
    assert compare([1, 3], [1, 2]).detail == "item 1 of 2 is not what was sent"
    assert compare([1], [1, 2]).detail == "1 of 2 items came out"


@pytest.mark.parametrize("loop", [PULL, PUSH, DECODE], ids=["pull", "push", "decode"])
def test_what_is_timed_reads_every_item(loop: str) -> None:
    read: list[bytes] = []

    class Decoder:
        def feed(self, chunk: bytes) -> list[bytes]:
            return [chunk]

        def decode(self, chunk: bytes, final: bool = False) -> str:
            return chunk.decode()

        def close(self) -> list[bytes]:
            return [b"last"]

    def take(chunks: Any = ()) -> Any:
        return chunks if loop is PULL else Decoder()

    def note(item: Any) -> str:
        read.append(item)
        return ""

    take.note = note  # type: ignore[attr-defined]
    engine = make(take, loop=loop, reads={"text": "take.note(item)"}, type=None)
    ready = engine.prepare("text")
    ready.run([[b"a", b"b"], [b"c"]])
    timed, read = read, []
    ready.collect([[b"a", b"b"], [b"c"]])
    assert timed == read
    assert len(timed) == {PULL: 3, PUSH: 5, DECODE: 5}[loop]


# --- what becomes of it


def cell(engine: str, identity: str = "", **rest: Any) -> dict[str, Any]:
    return {
        "group": "sse",
        "engine": engine,
        "workload": "openai",
        "cut": 16384,
        "level": "text",
        "size": None,
        "id": identity or f"benches/bench_sse.py::test_decode[{engine}-openai-16384-text]",
        "verdict": "ok",
        "facts": {"bytes": 300_000, "events": 1000, "corpus_sha256": "0" * 64},
        **rest,
    }


def timed(engine: str, median: float, ratio: float, **rest: Any) -> dict[str, Any]:
    """What the runner would say of a cell whose ratio to ours in turns is as given."""
    around = [0.9, 1, 1.2]
    return cell(
        engine,
        median=median,
        quartiles=[median * of for of in around],
        beside=median / ratio,
        ratios=[ratio * of for of in around],
        least=median * 0.8,
        rounds=7,
        **rest,
    )


def test_time_of_a_peer_is_its_ratio_to_ours_in_turns() -> None:
    slow = timed("anthropic", 3000e-6, 30.0)  # ours took 100 µs beside it, and 50 at other times
    cells = [timed(OURS, 50e-6, 1.0), slow, timed("httpx-sse", 1000e-6, 20.0)]
    records = {record["id"]: record for record in export.time_records(cells)}
    ours, ours_speed, calmed, _, peer, peer_speed = records.values()
    assert (ours["value"], ours["low"], ours["high"]) == (50, 45, 60)
    assert (calmed["value"], calmed["low"], calmed["high"]) == (1500, 1350, 1800)
    assert (peer["value"], peer["low"], peer["high"]) == (1000, 900, 1200)
    assert (peer["metric"], peer["unit"], peer["better"]) == ("cpu_time", "ns/event", "lower")
    assert (peer_speed["value"], peer_speed["unit"], peer_speed["better"]) == (
        300,
        "MB/s",
        "higher",
    )
    assert peer_speed["low"] < 300 < peer_speed["high"]
    assert ours_speed["value"] == 6000
    assert (peer["rounds"], peer["events"], peer["bytes"]) == (7, 1000, 300_000)


@pytest.mark.parametrize("verdict", ["wrong", "lost", "error", "unsupported"])
def test_what_is_not_right_has_no_figure(verdict: str) -> None:
    bad = cell("httpx-sse", verdict=verdict, detail="why")
    cells = [timed(OURS, 50e-6, 1.0), bad | {"median": 1e-9, "quartiles": [1, 2, 3], "rounds": 3}]
    (record,) = [r for r in export.time_records(cells) if r["engine"] == "httpx-sse"]
    assert [record[name] for name in ("value", "low", "high", "rounds")] == [None] * 4
    assert (record["correct"], record["verdict"], record["detail"]) == (False, verdict, "why")


def growing(engine: str, power: float, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    return [
        timed(
            engine,
            (size / 1e6) ** power,
            1.0,
            size=size,
            workload="big",
            identity=f"benches/bench_growth.py::test_growth[{engine}-big-16384-text-{size}]",
        )
        for size in sizes
    ]


def test_growth_is_the_slope_of_the_logarithms() -> None:
    sizes = (250_000, 500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000)
    cells = [*growing(OURS, 1, sizes), *growing("anthropic", 2, sizes[:4])]
    records = export.growth_records(cells)
    points = [record for record in records if record["metric"] == "growth_time"]
    assert [point["size_bytes"] for point in points] == [*sizes, *sizes[:4]]
    assert points[2]["value"] == pytest.approx(1000)
    ours, peer = [record for record in records if record["metric"] == "growth_exponent"]
    assert ours["value"] == pytest.approx(1)
    assert peer["value"] == pytest.approx(2)
    assert ours["detail"] == "fitted over 1 to 8 MB"
    assert peer["detail"] == "fitted over 0.25 to 2 MB"
    assert ours["id"] == f"benches/bench_growth.py::test_growth[{OURS}-big-16384-text]"


def test_growth_of_what_fails_or_is_too_slow_has_no_exponent() -> None:
    sizes = (250_000, 500_000, 1_000_000, 2_000_000)
    failed = growing("made", 1, sizes)
    failed[-1].update(verdict="error", detail="ValueError: too long")
    exponent = export.growth_records(failed)[-1]
    assert (exponent["value"], exponent["verdict"]) == (None, "error")
    exponent = export.growth_records(growing("made", 1, sizes[:2]))[-1]
    assert (exponent["value"], exponent["verdict"]) == (None, "unsupported")


def test_table_has_ratios_and_words() -> None:
    cells = [
        timed(OURS, 50e-6, 1.0),
        timed("httpx-sse", 1000e-6, 20.0),
        cell("anthropic", verdict="lost"),
    ]
    exported = {
        "engines": {name: {} for name in (OURS, "anthropic", "httpx-sse")},
        "records": export.time_records(cells),
    }
    assert export.table(exported) == (
        "| engine | 16 KB chunks |\n| --- | ---: |\n"
        f"| {OURS} | 50 (1.0 ×) |\n| httpx-sse | 1,000 (20 ×) |\n| anthropic | lost |\n"
    )


def test_other_runtime_has_its_own_row() -> None:
    good = cell("eventsource-parser", seconds=[3e-4, 2e-4, 4e-4])
    bad = cell("eventsource-parser", "another", verdict="wrong", detail="why", seconds=[])
    records = export.time_records(export.node_cells({"cells": [good, bad]}))
    assert [record["value"] for record in records] == [300, 1000, None]
    assert records[0]["rounds"] == 3
    assert (records[2]["verdict"], records[2]["detail"]) == ("wrong", "why")


def test_other_runtime_that_is_absent_is_said_to_be(tmp_path: Path) -> None:
    shown = run("benches.node", tmp_path / "node.json", PATH="")
    assert shown == "not measured: eventsource-parser: npm is not there\n"
    found = json.loads((tmp_path / "node.json").read_text("utf-8"))
    assert found["cells"] == []
    entry = export.engines(found)["eventsource-parser"]
    assert (entry["version"], entry["kind"]) == (None, "other-runtime")
    assert entry["note"].endswith("(absent: npm is not there)")


@pytest.mark.parametrize("missing", ["run.json", "node.json"])
def test_export_refuses_a_file_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], missing: str
) -> None:
    for name in {"run.json", "node.json"} - {missing}:
        (tmp_path / name).write_text("{}", "utf-8")
    files = [str(tmp_path / name) for name in ("run.json", "node.json")]
    with pytest.raises(SystemExit) as caught:
        export.main([*files, "--out", str(tmp_path / "out")])
    assert caught.value.code == 2
    assert f"No such file or directory: '{tmp_path / missing}'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_kept_run_has_each_figure_and_what_was_not_right() -> None:
    cells = [
        timed(OURS, 50e-6, 1.0),
        cell("anthropic", verdict="lost", detail="2 of 3"),
        cell("mistralai", verdict="unsupported"),
    ]
    exported = {
        "schema": export.SCHEMA,
        "created": "2026-11-30T04:00:00+00:00",
        "commit": "c0ffee",
        "version": "0.1.0",
        "host": {"cpu": "AMD EPYC (Milan)"},
        "engines": {OURS: {"version": "0.1.0"}},
        "records": export.time_records(cells),
    }
    found = json.loads(export.kept(exported))
    assert found["records"] == [
        ["sse", OURS, "openai", "16384", "text", "cpu_time", None, 50, 45, 60, 7, "ok", ""],
        ["sse", "anthropic", "openai", "16384", "text", "cpu_time", *[None] * 5, "lost", "2 of 3"],
    ]
    assert found["corpora"] == {"openai, 300000 bytes": "0" * 64}
    assert found["host"] == {"cpu": "AMD EPYC (Milan)"}
    assert export.name_of_record(exported) == "2026-11-30-amd-epyc-milan.json"


def test_debug_build_is_refused() -> None:
    suite.refuse_debug_build("release")
    with pytest.raises(pytest.UsageError, match="debug build"):
        suite.refuse_debug_build("debug")


# --- the runners


def run(*arguments: object, **environment: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        capture_output=True,
        check=False,
        cwd=PROJECT,
        encoding="utf-8",
        env={**os.environ, "BENCH": "quick", "PYTHONIOENCODING": "utf-8", **environment},
        timeout=300,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def test_run_becomes_records(tmp_path: Path) -> None:
    parts = (
        "import",
        "openai-16384-text and (seamstream-openai or httpx-sse or google-genai)",
        "big-16384 and (seamstream-big or httpx-sse)",
    )
    chosen = ("-k", " or ".join(f"({part})" for part in parts))
    json_file = tmp_path / "run.json"
    timer = "--benchmark-timer=time.thread_time"
    shown = run(
        *("pytest", "benches", "--quiet", "--benchmark-enable", timer, *chosen),
        f"--benchmark-json={json_file}",
    )
    assert " passed" in shown
    table = run("benches.export", json_file, "--out", tmp_path / "out")
    exported = json.loads((tmp_path / "out" / "records.json").read_text("utf-8"))
    assert dashboard.read_records(tmp_path / "out" / "records.json") == exported
    assert exported["schema"] == "seamstream-bench/1"
    assert exported["host"]["build_profile"] == "release"
    assert set(exported["engines"]) >= {OURS, "httpx-sse", "google-genai"}
    assert exported["engines"]["httpx-sse"]["version"] == ENGINES["sse", "httpx-sse"].version
    records = exported["records"]
    assert len({record["id"] for record in records}) == len(records)
    by_id = {record["id"]: record for record in records}
    ours = by_id[f"benches/bench_sse.py::test_decode[{OURS}-openai-16384-text]"]
    peer = by_id["benches/bench_sse.py::test_decode[httpx-sse-openai-16384-text]"]
    assert 0 < ours["value"] < peer["value"]
    assert ours["corpus_sha256"] == peer["corpus_sha256"]
    metrics = {record["metric"] for record in records}
    assert metrics >= {"cpu_time", "throughput", "growth_time", "growth_exponent"}
    if sys.platform == "linux":
        peak = next(record for record in records if record["metric"] == "peak_memory")
        assert peak["value"] * 1024 > peak["bytes"]
    for record in records:
        assert (record["value"] is not None) <= record["correct"]
        assert record["value"] is None or math.isfinite(record["value"])
    smaller = json.loads((tmp_path / "out" / "smaller.json").read_text("utf-8"))
    bigger = json.loads((tmp_path / "out" / "bigger.json").read_text("utf-8"))
    assert {entry["unit"] for entry in bigger} == {"MB/s", "events/s"}
    assert {entry["unit"] for entry in smaller} >= {"ns/event", "ms"}
    names = [entry["name"] + entry["unit"] for entry in [*bigger, *smaller]]
    assert len(set(names)) == len(names)
    assert table.startswith("| engine | 16 KB chunks |")


def test_suites_run_under_codspeed(tmp_path: Path) -> None:
    shown = run(
        *("pytest", "benches", "--codspeed", "--codspeed-max-time=0.05", "--quiet"),
        *("-k", f"{OURS}-openai or {OURS}-ndjson or {OURS}-ascii"),
        CODSPEED_PROFILE_FOLDER=str(tmp_path),
    )
    assert "failed" not in shown
    (results,) = (tmp_path / "results").glob("*.json")
    names = {found["name"] for found in json.loads(results.read_text("utf-8"))["benchmarks"]}
    assert f"test_decode[{OURS}-openai-16384-text]" in names


def test_without_a_runner_the_suites_only_check() -> None:
    assert "passed" in run("pytest", "benches", "--quiet", "-k", f"{OURS}-openai-16384")


def test_identities_stay() -> None:
    listed = run("pytest", "benches", "--collect-only", "--quiet", BENCH="").split("\n")
    for identity in (
        "bench_sse.py::test_decode[seamstream-openai-1460-text]",
        "bench_sse.py::test_decode[httpx-sse-recorded-whole-text]",
        "bench_sse.py::test_decode[openai-gemini_ja-event-validate]",
        "bench_json.py::test_decode[splitstream-concatenated-64-json]",
        "bench_utf8.py::test_decode[codecs-ill-formed-1-text]",
        "bench_growth.py::test_growth[anthropic-big-1460-text-8000000]",
        "bench_memory.py::test_peak[niquests-big-16384-text-8000000]",
    ):
        assert f"benches/{identity}" in listed


# --- what the pages quote


def rows_of(markdown: str) -> list[list[str]]:
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def table_of_newest_run() -> str:
    kept = json.loads(max((PROJECT / "benches" / "record").glob("*.json")).read_text("utf-8"))
    records = [dict(zip(kept["fields"], row, strict=True)) for row in kept["records"]]
    for found in records:
        found["bytes"] = (found["size_bytes"] or 0) + len(b"data: \n\n")
    return export.table({**kept, "records": records})


def test_page_of_the_benchmarks_has_the_table_of_the_newest_run() -> None:
    table = table_of_newest_run()
    assert len(table.splitlines()) > 20
    page = rows_of((PROJECT / "benches" / "README.md").read_text("utf-8"))
    head, _, *rows = rows_of(table)
    at = page.index(head)
    assert page[at + 2 : at + 2 + len(rows)] == rows


def test_readme_quotes_the_figures_of_the_newest_run() -> None:
    head, _, *rows = rows_of(table_of_newest_run())
    readme = (PROJECT / "README.md").read_text("utf-8")
    quoted = rows_of(readme[readme.index("\n| engine |") : readme.index("\n## Backends")])
    assert quoted[0][1:4] == ["16 KB chunks", "one event a chunk", "and JSON, 16 KB"]
    columns = [head.index(title) for title in quoted[0][1:4]]
    known = [[row[column] for column in columns] for row in rows]
    for row in quoted[2:]:
        cells = [cell or "–" for cell in row[1:4]]
        ours = [f"{cell} (1.0 ×)" for cell in cells]
        assert cells in known or ours in known, row
