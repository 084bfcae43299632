"""Print how much resident memory grows over a long stream of comments and blank lines."""

from __future__ import annotations

import importlib
import sys

from resident_memory import resident_bytes

decoder = importlib.import_module(sys.argv[1]).SSEDecoder()
comments = b": keep-alive " + b"x" * 1000 + b"\n\n: another\r\n"
endless = b"x" * 4096  # one comment that never ends
assert decoder.feed(comments * 10) == ()
before = resident_bytes()
for _ in range(20_000):
    assert decoder.feed(comments) == ()
    assert decoder.pending_bytes == 0
decoder.feed(b":")
for _ in range(10_000):
    assert decoder.feed(endless) == ()
    assert decoder.pending_bytes == 0
assert decoder.close() == ()
assert decoder.stats.comments == 40_020
print(resident_bytes() - before)
