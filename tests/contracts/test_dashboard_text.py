"""The dashboard without a browser: what it refuses, what it says in words, what it lets through."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from plotly.offline import get_plotlyjs

from bench_records import HOSTILE, made_up_run, record
from benches import dashboard

Run = dict[str, Any]


def write(place: Path, run: Any) -> Path:
    path = place / "records.json"
    path.write_text(json.dumps(run), "utf-8")
    return path


def test_dashboard_is_written_from_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "a" / "index.html"
    assert dashboard.main([str(write(tmp_path, made_up_run())), str(page)]) == 0
    assert str(page) in capsys.readouterr().out
    text = page.read_text("utf-8")
    assert "plotly.js" in text
    assert "{{" not in text.partition("<script>")[0]


def change(path: str, value: Any) -> Callable[[Run], None]:
    """Put a value in, or take it out where it is `...`."""

    def apply(run: Run) -> None:
        *places, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        found: Any = run
        for step in places:
            found = found[step]
        if value is ...:
            del found[last]
        else:
            found[last] = value

    return apply


@pytest.mark.parametrize(
    ("apply", "message"),
    [
        (change("schema", "seamstream-bench/2"), "the schema is 'seamstream-bench/2', not"),
        (change("schema", ...), "no 'schema'"),
        (change("host", ...), "the run has no 'host'"),
        (change("commit", 7), "the run: 'commit' has the wrong type, int"),
        (change("host.cores", "2"), "'host': 'cores' has the wrong type, str"),
        (change("host.cores", True), "'host': 'cores' has the wrong type, bool"),
        (change("created", "yesterday"), "'created' is no ISO time"),
        (change("records", {}), "'records' has the wrong type, dict"),
        (change("records.3", 7), "record 3 must be an object, not int"),
        (change("records.3.chunk", ...), "record 3 has no 'chunk'"),
        (change("records.3.chunk", "half"), "'chunk' is 'half'"),
        (change("records.3.group", "xml"), "'group' is 'xml', not sse or json or utf8"),
        (change("records.3.verdict", "fine"), "'verdict' is 'fine', not ok or wrong"),
        (change("records.3.engine", "nobody"), "no engine is called 'nobody'"),
        (change("records.3.value", None), "a value belongs to the verdict 'ok'"),
        (change("records.3.value", -1.0), "'value' is negative"),
        (change("records.3.value", float("nan")), "'value' is nan"),
        (change("records.3.correct", False), "'correct' and 'verdict' contradict each other"),
        (change("engines.hare.kind", "rival"), "engine 'hare': 'kind' is 'rival'"),
        (change("engines.hare", ["peer"]), "engine 'hare' must be an object, not list"),
    ],
)
def test_dashboard_refuses_what_is_not_in_the_schema(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    apply: Callable[[Run], None],
    message: str,
) -> None:
    run = made_up_run()
    apply(run)
    page = tmp_path / "index.html"
    assert dashboard.main([str(write(tmp_path, run)), str(page)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {tmp_path / 'records.json'}: ")
    assert message in error
    assert not page.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "not JSON"), ("[]", "no 'schema'"), ("\udcff", "not JSON"), (None, "No such file")],
)
def test_dashboard_refuses_a_file_that_is_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, message: str
) -> None:
    path = tmp_path / "records.json"
    if text is not None:
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert dashboard.main([str(path), str(tmp_path / "index.html")]) == 2
    assert message in capsys.readouterr().err


def test_dashboard_embeds_the_records_and_lets_no_markup_through() -> None:
    run = made_up_run()
    run["engines"]["hare"]["note"] = run["host"]["cpu"] = run["version"] = HOSTILE
    run["records"][0]["detail"] = "\u2028<!--<script>"
    page = dashboard.render(run)
    assert HOSTILE not in page
    assert "<img" not in page.partition("<script>")[0]
    embedded = re.search(r'<script type="application/json" id="records">(.*?)</script>', page)
    assert embedded is not None
    assert embedded[1].isascii()
    assert "<" not in embedded[1]
    assert json.loads(embedded[1]) == run


def test_dashboard_asks_for_nothing_from_a_network() -> None:
    page = dashboard.render(made_up_run())
    ours = page.replace(get_plotlyjs(), "")
    assert "://" not in ours
    assert "default-src 'none'" in ours
    assert not re.search(r"<(script|link|img|iframe)[^>]* src=", ours)
    assert not re.search(r"@import|url\(", ours)


def test_headlines_compare_with_the_fastest_peer_and_the_floor() -> None:
    found = {what: figure for figure, what in dashboard.headlines(made_up_run())}
    assert found == {
        "as fast as the fastest peer, event streams, payloads as text: median of 8 rows, "
        "from 10× to 10×": "10×",
        "as fast as the fastest peer, JSON streams, parsed as JSON: one row": "0.67×",
        "the time of orjson alone, which reads no stream, when all is parsed, 16 KB chunks: "
        "one row": "1.80×",
        "exponent by which time grows with the size of one event, at worst; 1 is linear. "
        "Peers from 1.00 to 2.00": "1.00",
        "peak memory for one event of 8 MB. Peers from 156 MiB to 312 MiB": "15.6 MiB",
    }


def test_losses_name_every_row_where_a_peer_is_better_and_no_other() -> None:
    run = made_up_run()
    found, rows = dashboard.losses(run)
    assert rows == 2 * 4 + 1 + 1 + 1
    assert [(loss.what, loss.engine, loss.theirs, loss.ours, loss.factor) for loss in found] == [
        ("JSON streams: values, 16,384 bytes a chunk, parsed as JSON", "hare", "600 ns/event",
         "900 ns/event", 1.5),
    ]  # fmt: skip
    assert not found[0].overlaps
    run["records"].append(record("tortoise", "cpu_time", 850.0, **JSON_ROW))
    run["records"].append(record("kangaroo", "cpu_time", 590.0, **JSON_ROW))
    assert dashboard.losses(run)[0][0].engine == "kangaroo"
    assert "1 of the 11 rows" in dashboard.render(run)


JSON_ROW = {"group": "json", "level": "json", "workload": "values"}


def test_loss_within_the_ranges_says_so() -> None:
    run = made_up_run()
    run["records"].append(record("kangaroo", "cpu_time", 50 * 1.9, chunk="event"))
    run["records"] = [r for r in run["records"] if (r["engine"], r["value"]) != ("kangaroo", 500.0)]
    found, _ = dashboard.losses(run)
    assert [loss.overlaps for loss in found] == [False, True]
    assert "ranges overlap" in dashboard.render(run)


def test_growth_within_what_is_linear_is_no_loss() -> None:
    run = made_up_run()
    ours = next(r for r in run["records"] if r["metric"] == "growth_exponent")
    assert ours["engine"] == "seamstream"
    ours["value"] = 1.39
    assert len(dashboard.losses(run)[0]) == 1
    ours["value"] = 1.5
    assert {loss.ours for loss in dashboard.losses(run)[0]} == {"900 ns/event", "1.50"}


def test_engine_that_was_wrong_has_no_figure_anywhere() -> None:
    run = made_up_run()
    only = copy.deepcopy(run)
    only["records"] = [r for r in run["records"] if r["engine"] != "mole"]
    assert dashboard.headlines(only) == dashboard.headlines(run)
    assert dashboard.losses(only) == dashboard.losses(run)


def test_dashboard_of_a_run_outside_of_git_says_so() -> None:
    run = made_up_run()
    run["commit"] = None  # as `benches.export` has it then
    assert "<dt>Commit</dt><dd>not known</dd>" in dashboard.render(run)


def test_dashboard_without_records_says_so() -> None:
    run = made_up_run()
    run["records"] = []
    page = dashboard.render(run)
    assert "No figures of the engine “seamstream” in these records." in page
    assert "Nothing to compare" in page


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.0853, "ns/byte", "0.085 ns/byte"),
        (5.0, "ns/event", "5.00 ns/event"),
        (9999.0, "ns/event", "9,999 ns/event"),
        (61760.0, "ns/event", "61.8 µs/event"),
        (3.4e8, "ns/event", "340 ms/event"),
        (15565.0, "KiB", "15.2 MiB"),
        (393.5, "MB/s", "394 MB/s"),
        (1.99, "", "1.99 "),
    ],
)
def test_figure_has_a_unit_that_fits(value: float, unit: str, shown: str) -> None:
    assert dashboard.figure(value, unit) == shown
