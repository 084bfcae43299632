"""JSON streams: every engine, framing and cut, down to the parsed value."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from benches.engines import FRAMINGS
from benches.suite import CUTS, QUICK, SIZES, Cell, cells, measure
from benches.workloads import Cut, cut_blocks, framed_values, objects


def work() -> Iterator[tuple[str, Cut, str]]:
    for framing in FRAMINGS:
        yield from ((framing, cut, "json") for cut in ((16384, "event") if QUICK else CUTS))


@cells("json", work())
def test_decode(benchmark: Any, cell: Cell) -> None:
    values = objects(1000)
    values = values[: max(2, SIZES[cell.cut] // len(values[0]))]
    pieces = framed_values(values, cell.workload)
    body = b"".join(pieces)
    facts = {
        "bytes": len(body),
        "events": len(values),
        "corpus_sha256": hashlib.sha256(body).hexdigest(),
    }
    measure(
        benchmark,
        cell,
        [cut_blocks(pieces, cell.cut)],
        facts,
        framing=cell.workload,
        payloads=values,
        wanted=[json.loads(value) for value in values],
    )
