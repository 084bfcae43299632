"""Print the resident bytes of one idle decoder, of 10,000: fresh, and after one event."""

from __future__ import annotations

import importlib
import sys

from resident_memory import resident_bytes

COUNT = 10_000

SSEDecoder = importlib.import_module(sys.argv[1]).SSEDecoder
warm = [SSEDecoder() for _ in range(100)]
for decoder in warm:
    assert len(decoder.feed(b"event: e\nid: 1\ndata: x\n\n")) == 1
decoders = [None] * COUNT
before = resident_bytes()
for index in range(COUNT):
    decoders[index] = SSEDecoder()
fresh = resident_bytes() - before
for decoder in decoders:
    assert len(decoder.feed(b"event: e\nid: 1\ndata: x\n\n")) == 1
used = resident_bytes() - before
print(fresh / COUNT, used / COUNT)
