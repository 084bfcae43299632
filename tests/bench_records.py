"""Made-up benchmark records, of engines that do not exist, to test the dashboard with."""

from __future__ import annotations

from typing import Any

HOSTILE = '</script><img src=x onerror="window.attacked=1">&lt;'
ENGINES = {
    "seamstream": "ours",
    "floor": "floor",
    "tortoise": "peer",
    "hare": "peer",
    "mole": "peer",
    HOSTILE: "peer",
    "kangaroo": "other-runtime",
}
FACTORS = {"seamstream": 2, "floor": 1, "tortoise": 40, "hare": 20, HOSTILE: 30, "kangaroo": 10}
WORKLOADS = ("plain", "fancy")
CHUNKS = ("whole", "16384", "event", "1")
SIZES = (1_000_000, 2_000_000, 4_000_000)
EXPONENTS = {"seamstream": 1.0, "tortoise": 2.0, "hare": 1.0}
VERDICTS = {"plain": "wrong", "fancy": "lost"}
"""What becomes of the mole."""


def record(engine: str, metric: str, value: float | None, **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "group": "sse",
        "workload": "plain",
        "chunk": "16384",
        "level": "text",
        "unit": "ns/event",
        "better": "lower",
        "size_bytes": None,
        "events": 1000,
        "bytes": 300_000,
        "verdict": "ok",
        "detail": "",
        **more,
    }
    name = f"{engine}-{fields['group']}-{fields['workload']}-{fields['chunk']}-{fields['level']}"
    return {
        "id": f"made_up.py::test_{metric}[{name}-{fields['size_bytes']}]",
        "engine": engine,
        "corpus_sha256": "0" * 64,
        "metric": metric,
        "value": value,
        "low": None if value is None else value * 0.9,
        "high": None if value is None else value * 1.1,
        "rounds": None if value is None else 5,
        "correct": fields["verdict"] == "ok",
        **fields,
    }


def made_up_run() -> dict[str, Any]:
    """A run of every metric: ours beats the peers tenfold, and loses one JSON row to the hare."""
    records: list[dict[str, Any]] = []
    where: dict[str, Any]
    more: dict[str, Any]
    for workload in WORKLOADS:
        for chunk in CHUNKS:
            where = {"workload": workload, "chunk": chunk}
            for engine, factor in FACTORS.items():
                records.append(record(engine, "cpu_time", 50.0 * factor, **where))
            verdict = VERDICTS[workload]
            lacking = {"verdict": verdict, "detail": "event 3 of 1000"}
            records.append(record("mole", "cpu_time", None, **where, **lacking))
    for engine, value in (("seamstream", 6000.0), ("hare", 300.0)):
        where = {"unit": "MB/s", "better": "higher"}
        records.append(record(engine, "throughput", value, **where))
    where = {"group": "utf8", "unit": "ns/byte", "events": None}
    records.append(record("seamstream", "cpu_time", 0.5, **where))
    for engine, value in (("seamstream", 900.0), ("hare", 600.0), ("floor", 500.0)):
        where = {"group": "json", "level": "json", "workload": "values"}
        records.append(record(engine, "cpu_time", value, **where))
    where = {"group": "json", "level": "json", "workload": "values", "verdict": "unsupported"}
    records.append(record("mole", "cpu_time", None, **where))
    for engine, exponent in EXPONENTS.items():
        where = {"workload": "big", "events": 1}
        for size in SIZES:
            value = FACTORS[engine] * (size / 1e6) ** exponent
            more = {"size_bytes": size, "bytes": size + 8, "unit": "ms"}
            records.append(record(engine, "growth_time", value, **where, **more))
        records.append(record(engine, "growth_exponent", exponent, unit="exponent", **where))
        more = {"size_bytes": 8_000_000, "unit": "KiB"}
        records.append(record(engine, "peak_memory", 8000.0 * FACTORS[engine], **where, **more))
    return {
        "schema": "seamstream-bench/1",
        "created": "2000-01-02T03:04:05+00:00",
        "commit": "0123456789abcdef0123456789abcdef01234567-dirty",
        "version": "0.0.0",
        "host": {
            "cpu": "made up",
            "cores": 1,
            "os": "none",
            "python": "none",
            "gil": True,
            "rustc": None,
            "build_profile": "none",
        },
        "engines": {
            name: {"version": None, "kind": kind, "note": "made up"}
            for name, kind in ENGINES.items()
        },
        "records": records,
    }
