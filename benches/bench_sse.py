"""Event streams: every engine, workload, cut and level of work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from benches.suite import CUTS, QUICK, SIZES, Cell, cells, measure
from benches.workloads import CORPORA, Cut, corpus


def work() -> Iterator[tuple[str, Cut, str]]:
    """Text at every cut; the rest where it tells something that text does not."""
    if QUICK:
        for name in ("openai", "gemini_ja"):
            yield from ((name, cut, "text") for cut in (16384, "event", 8))
            yield name, 16384, "json"
        yield "openai", "event", "get"
        return
    for name in CORPORA:
        yield from ((name, cut, "text") for cut in CUTS)
        if name != "recorded":
            yield from ((name, cut, "json") for cut in (16384, 1460, "event"))
        if name in ("openai", "gemini_ja", "anthropic"):
            yield from ((name, cut, "get") for cut in (16384, "event"))
            yield from ((name, cut, "validate") for cut in (16384, "event"))


@cells("sse", work())
def test_decode(benchmark: Any, cell: Cell) -> None:
    try:
        stream = corpus(cell.workload).first(SIZES[cell.cut])
    except LookupError as error:
        pytest.skip(str(error))
    facts = {
        "bytes": stream.size,
        "events": len(stream.events),
        "corpus_sha256": stream.sha256(),
    }
    measure(benchmark, cell, stream.chunks(cell.cut), facts, corpus=stream)
