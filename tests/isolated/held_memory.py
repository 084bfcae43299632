"""Print what one open block holds, for blocks of several shapes.

Each line: the shape, whether `keep_wire` is on, the block's `pending_bytes`, and the resident
bytes that one decoder with it has more than an idle one, on average over some decoders.
"""

from __future__ import annotations

import gc
import importlib
import sys

from resident_memory import resident_bytes

from seamstream import Limits

SSEDecoder = importlib.import_module(sys.argv[1]).SSEDecoder
LIMITS = Limits(max_event_bytes=64 << 20)
SHAPES = {
    "one data line": (b"data: ", b"x" * 1000),
    "many data lines": (b"", (b"data: " + b"x" * 60 + b"\n") * 15),
    "short data lines": (b"", b"data: x\n" * 125),
    "empty data lines": (b"", b"data\n" * 200),
    "data and comments": (b"", (b"data: " + b"x" * 30 + b"\r\n: " + b"y" * 30 + b"\r\n") * 14),
    "unknown fields": (b"", (b"unknown: " + b"x" * 30 + b"\n") * 25),
    "ids": (b"", (b"id: " + b"x" * 30 + b"\n") * 28),
    "event types": (b"", (b"event: " + b"x" * 30 + b"\n") * 26),
    "one-byte lines": (b"", b"x\n" * 500),
    "one-byte lines ended by CRLF": (b"", b"x\r\n" * 333),
}
kept: list[object] = []  # so that nothing measured later reuses memory that was freed


def measure(shape: str, keep_wire: bool, count: int, repetitions: int) -> tuple[int, float]:
    first, chunk = SHAPES[shape]
    decoders = [SSEDecoder(limits=LIMITS, keep_wire=keep_wire) for _ in range(count)]
    kept.append(decoders)
    gc.collect()
    before = resident_bytes()
    for decoder in decoders:
        decoder.feed(first)
        for _ in range(repetitions):
            decoder.feed(chunk)
    held = (resident_bytes() - before) / count
    (pending,) = {decoder.pending_bytes for decoder in decoders}
    assert pending == len(first) + len(chunk) * repetitions
    return pending, held


measure("one data line", True, 300, 10)  # takes up what the start of the process left free
for shape in SHAPES:
    for keep_wire in (False, True):
        for count, repetitions in ((100, 10), (1, 1000)):
            pending, held = measure(shape, keep_wire, count, repetitions)
            print(shape, keep_wire, pending, held, sep="\t")
