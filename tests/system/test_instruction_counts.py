"""The gate on instruction counts passes what is equal and fails what is a little slower."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from benches import instructions
from benches.instructions import CONTROL, CONTROLLED, Counts, faults

pytestmark = pytest.mark.usefixtures("valgrind")

TOOLS = {"python": "this"}
OTHERS = {"python": "that"}


@pytest.fixture(scope="module")
def counts() -> Counts:
    return instructions.count(only=CONTROLLED)


def recorded(counts: Counts) -> dict[str, object]:
    rows = {name: list(row) for name, row in counts.rows.items() if name != CONTROL}
    return {"toolchain": TOOLS, "rows": rows}


def with_row(counts: Counts, factor: float) -> Counts:
    job, floor = counts.rows[CONTROLLED]
    return replace(counts, rows=counts.rows | {CONTROLLED: (job * factor, floor)})


def test_count_is_repeatable(counts: Counts) -> None:
    again = instructions.count(only=CONTROLLED)
    assert again.rows.keys() == counts.rows.keys() == {CONTROLLED, CONTROL}
    for name, (job, _) in counts.rows.items():
        assert again.rows[name][0] == pytest.approx(job, rel=0.005)
    assert faults(again, recorded(counts), TOOLS) == []


def test_count_is_of_the_loop_alone(counts: Counts) -> None:
    job, floor = counts.rows[CONTROLLED]
    assert 100 < job < 2000  # an event; the start of Python is three hundred million
    assert 100 < floor < 3000


def test_gate_fails_on_a_slower_feed(counts: Counts) -> None:
    _, floor = counts.rows[CONTROLLED]
    slow, _ = counts.rows[CONTROL]
    slower = replace(counts, rows=counts.rows | {CONTROLLED: (slow, floor)})
    found = faults(slower, recorded(counts), TOOLS)
    assert any(fault.startswith(f"{CONTROLLED}: ") and "recorded" in fault for fault in found)


@pytest.mark.parametrize(
    ("tools", "factor", "fails"),
    [(TOOLS, 1.01, False), (TOOLS, 1.03, True), (OTHERS, 1.2, False), (OTHERS, 1.3, True)],
)
def test_gate_is_wider_for_another_toolchain(
    counts: Counts, tools: dict[str, str], factor: float, fails: bool
) -> None:
    changed = with_row(counts, factor)
    changed.rows[CONTROL] = (changed.rows[CONTROLLED][0] * 1.05, 1.0)
    assert bool(faults(changed, recorded(counts), tools)) == fails


@pytest.mark.parametrize(
    ("job", "floor", "fails"),
    [
        (1.5, 1.5, False),  # a compiler or an interpreter that needs more for everything
        (0.5, 0.5, False),
        (1.24, 1.0, False),
        (1.26, 1.0, True),
        (1.0, 0.75, True),  # what everything gained from, but for this
        (0.6, 0.4, True),
        (0.5, 1.0, False),
    ],
)
def test_other_toolchain_is_judged_by_the_ratio_to_the_floor(
    job: float, floor: float, fails: bool
) -> None:
    counts = Counts({"row": (700.0 * job, 900.0 * floor)}, frozenset(), {})
    record: dict[str, Any] = {"toolchain": TOOLS, "rows": {"row": [700.0, 900.0]}}
    found = faults(counts, record, OTHERS)
    ratio = f"{7 / 9 * job / floor:.2f} of its floor, recorded 0.78"
    assert found == ([f"row: {ratio}"] if fails else [])


def test_toolchain_is_what_the_record_names() -> None:
    tools = instructions.toolchain()
    record = json.loads(instructions.RECORD.read_text("utf-8"))
    assert tools.keys() == record["toolchain"].keys()
    assert all(tools.values())
    assert tools["rustc"] != "unknown"


def test_gate_is_wider_for_the_work_of_others(counts: Counts) -> None:
    changed = with_row(counts, 1.05)
    changed.rows[CONTROL] = (changed.rows[CONTROLLED][0] * 1.05, 1.0)
    assert faults(changed, recorded(counts), TOOLS)
    assert not faults(replace(changed, foreign=frozenset({CONTROLLED})), recorded(counts), TOOLS)


def test_gate_fails_where_it_could_not(counts: Counts) -> None:
    same = replace(counts, rows=counts.rows | {CONTROL: counts.rows[CONTROLLED]})
    assert [fault for fault in faults(same, recorded(counts), TOOLS) if "cannot fail" in fault]


def test_gate_fails_on_rows_that_come_or_go(counts: Counts) -> None:
    record = recorded(counts)
    fewer = replace(counts, rows={CONTROL: counts.rows[CONTROL]})
    assert [fault for fault in faults(fewer, record, TOOLS) if "gone" in fault]
    record["rows"] = {}
    assert [fault for fault in faults(counts, record, TOOLS) if "not recorded" in fault]


def test_gate_fails_on_growth_that_is_not_linear(counts: Counts) -> None:
    grown = replace(counts, growth={"lines": 1.0, "values": 1.9})
    assert [fault for fault in faults(grown, recorded(counts), TOOLS) if "1.900" in fault]
