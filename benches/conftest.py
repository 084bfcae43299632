"""What the suites add to the runner: a refusal, a calm heap, and the cells that have no figure."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from benches import suite
from benches.engines import ENGINES
from seamstream import _core


def pytest_sessionstart() -> None:
    suite.refuse_debug_build(_core.build_profile)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the growth last: it changes how the process gets its memory."""
    items.sort(key=lambda item: item.nodeid.startswith("benches/bench_growth.py"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Import what will be measured, and keep all that out of the garbage collector's way.

    The collector stays on: what an engine makes is for it to pay, but not what others imported.
    """
    if session.config.option.collectonly:
        return
    cells = [item.callspec.params["cell"] for item in session.items if hasattr(item, "callspec")]
    for engine in {(cell.group, cell.engine) for cell in cells}:
        ENGINES[engine].missing()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_json(output_json: dict[str, Any]) -> None:
    output_json["not_timed"] = suite.NOT_TIMED
    output_json["quick"] = suite.QUICK
