"""UTF-8: chunks in, text out, ill-formed bytes replaced."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from benches.suite import CUTS, QUICK, SIZES, Cell, cells, measure
from benches.workloads import TEXTS, Cut, cut_blocks, text


def work() -> Iterator[tuple[str, Cut, str]]:
    for name in TEXTS:
        for cut in (16384, 64) if QUICK else CUTS:
            if cut != "event":
                yield name, cut, "text"


@cells("utf8", work())
def test_decode(benchmark: Any, cell: Cell) -> None:
    body = text(cell.workload, SIZES[cell.cut])
    facts = {
        "bytes": len(body),
        "events": None,
        "corpus_sha256": hashlib.sha256(body).hexdigest(),
    }
    wanted = [body.decode("utf-8", "replace")]
    measure(benchmark, cell, [cut_blocks([body], cell.cut)], facts, wanted=wanted)
