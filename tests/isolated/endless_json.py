"""Print by how much JSON streams without end raise the peak of resident memory, where what
outgrows a limit is skipped: several shapes, in the framings that are named.
"""

from __future__ import annotations

import importlib
import sys

from resident_memory import peak_resident_bytes

from seamstream import Limits

_, module, limit, total, *framings = sys.argv
JSONStreamDecoder = importlib.import_module(module).JSONStreamDecoder
PREFIXES = {"array": b"[", "json-seq": b"\x1e"}
CHUNK = 1 << 14
SHAPES = {  # the first bytes, and what is repeated
    "string": (b'{"a":"', b"x"),
    "escapes": (b'["', b"\\u0041"),
    "key": (b'{"', b"x"),
    "white space": (b"[1", b" "),
    "levels": (b"", b"["),
    "garbage": (b"x ", b"] x "),
    "candidates": (b"x ", b'{"a":[1,2]},'),
    "number": (b"[", b"7"),
}


def run(framing: str, first: bytes, unit: bytes, size: int) -> None:
    limits = Limits(max_event_bytes=int(limit))
    decoder = JSONStreamDecoder(framing=framing, limits=limits, on_limit="skip")
    decoder.feed(PREFIXES.get(framing, b"") + first)
    chunk = unit * (CHUNK // len(unit))
    fed = 0
    while fed < size:
        frames = decoder.feed(chunk)
        assert all(len(frame.raw) <= int(limit) for frame in frames)
        assert decoder.pending_bytes <= int(limit)
        fed += len(chunk)
    assert decoder.stats.bytes >= size
    decoder.close()
    # In an array these are elements again behind the first comma.
    assert decoder.stats.skipped == (0 if framing == "array" and b"}," in unit else 1)


# A little of everything, for what the interpreter keeps anyway.
for framing in framings:
    for first, unit in SHAPES.values():
        JSONStreamDecoder(framing=framing).feed(first + unit * 1000)
before = peak_resident_bytes()
for framing in framings:
    for first, unit in SHAPES.values():
        run(framing, first, unit, int(total))
print(peak_resident_bytes() - before)
