"""Print the resident bytes of one idle decoder, of 10,000: fresh, and after one event or frame."""

from __future__ import annotations

import importlib
import sys

from resident_memory import resident_bytes

COUNT = 10_000
STREAMS = {
    "SSEDecoder": b"event: e\nid: 1\ndata: x\n\n",
    "JSONStreamDecoder": b'{"a": [1, {"b": "c"}]}\n',
}

_, module, name = sys.argv
Decoder = getattr(importlib.import_module(module), name)
# These take the memory that was freed before, which the others would seem to have for nothing.
warm = [Decoder() for _ in range(5_000)]
for decoder in warm:
    assert len(decoder.feed(STREAMS[name])) == 1
decoders = [None] * COUNT
before = resident_bytes()
for index in range(COUNT):
    decoders[index] = Decoder()
fresh = resident_bytes() - before
for decoder in decoders:
    assert len(decoder.feed(STREAMS[name])) == 1
used = resident_bytes() - before
print(fresh / COUNT, used / COUNT)
