"""Print by how much one event, or JSON text, of 8,000,000 payload bytes, in chunks of 1 KB, raises
the peak of resident memory.
"""

from __future__ import annotations

import importlib
import sys

from resident_memory import peak_resident_bytes, resident_bytes

PAYLOAD = 8_000_000
BEGIN_AND_END = {"SSEDecoder": (b"data: ", b"\n\n"), "JSONStreamDecoder": (b'{"a":"', b'"}')}

_, module, name = sys.argv
begin, end = BEGIN_AND_END[name]
decoder = getattr(importlib.import_module(module), name)()
chunk = b"x" * 1000
assert len(decoder.feed(begin + b"small" + end)) == 1
before = resident_bytes()  # the peak so far may be the import of all this
decoder.feed(begin)
for _ in range(PAYLOAD // len(chunk)):
    assert decoder.feed(chunk) == ()
(item,) = decoder.feed(end)
grown = peak_resident_bytes() - before
assert item.raw.count(b"x") == PAYLOAD
print(grown)
