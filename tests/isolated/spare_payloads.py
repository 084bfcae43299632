"""Make events and drop them, so that payloads of all lengths take the memory of others.

With an allocator that checks (PYTHONMALLOC=debug), a byte written past one's own ends the process.
"""

from __future__ import annotations

import importlib
import sys

module = importlib.import_module(sys.argv[1])
LENGTHS = range(600)
orders = [LENGTHS, LENGTHS[::-1], [length * 7 % 600 for length in LENGTHS]]

for order in orders:
    for cut in (0, 8):
        decoder = module.SSEDecoder()
        for length in order:
            payload = bytes(33 + (length + at) % 90 for at in range(length))
            block = b"data: %b\n\n" % payload
            events = [*decoder.feed(block[:cut]), *decoder.feed(block[cut:])]
            # By hand: the payload's memory is of somebody else's making.
            events.append(module.Event(data=bytes(bytearray(payload))))
            assert [event.raw for event in events] == [payload] * 2
            assert [hash(event.raw) for event in events] == [hash(payload)] * 2
print("intact")
