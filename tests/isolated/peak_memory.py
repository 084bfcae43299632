"""Print by how much one event of 8,000,000 payload bytes, in chunks of 1 KB, raises the peak of
resident memory.
"""

from __future__ import annotations

import importlib
import sys

from resident_memory import peak_resident_bytes

PAYLOAD = 8_000_000

decoder = importlib.import_module(sys.argv[1]).SSEDecoder()
chunk = b"x" * 1000
assert len(decoder.feed(b"data: small\n\n")) == 1
before = peak_resident_bytes()
decoder.feed(b"data: ")
for _ in range(PAYLOAD // len(chunk)):
    assert decoder.feed(chunk) == ()
(event,) = decoder.feed(b"\n\n")
grown = peak_resident_bytes() - before
assert len(event.raw) == PAYLOAD
assert event.raw.count(b"x") == PAYLOAD
print(grown)
