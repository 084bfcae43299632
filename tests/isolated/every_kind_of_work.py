"""Have the compiled module do what it does with memory of its own, once for many lengths."""

from __future__ import annotations

import gc
import json
from typing import Any

from seamstream import _core

CHUNK = '{"id":"c-%d","choices":[{"delta":{"content":"%s"}}],"usage":{"total":%d},"π":"pi"}'
PATHS = ("choices.0.delta.content", "usage", "π", ("id",), "")


def read(item: Any) -> None:
    for path in PATHS:
        item.get(path, "absent")
    item.get_many(PATHS)
    item.get_many(["usage.total", "absent"])
    repr(item), hash(item), item.value, item.parse_error


for loads in (None, json.loads):
    decoder = _core.SSEDecoder(loads=loads, keep_wire=loads is not None)
    for length in range(130):
        content = "wörd 夜 🚀"[: length % 9] * length if length % 3 else "a" * length
        payload = CHUNK % (length * 7919, content, length)
        block = f"event: e{length % 3}\ndata: {payload}\nid: {content}\n\n".encode()
        for begin, end in ((0, length), (length, length + 9), (length + 9, None)):
            for event in decoder.feed(block[begin:end]):
                assert event.data == payload
                read(event)
    decoder.feed(b"data: torn")
    assert decoder.close()[0].torn

for event in _core.SSEDecoder().iter([b"data: 1\n\ndata: 2\n\n", bytearray(b"data: 3\n\n")]):
    read(event)
frames = _core.JSONStreamDecoder(framing="ndjson")
for length in range(60):
    good, bad = frames.feed((CHUNK % (length, "z" * length, 1)).encode() + b"\n{x\n")
    read(good)
    assert bad.parse_error == "syntax"
utf8 = _core.UTF8Decoder()
for length in range(90):
    text = "é夜🚀a" * length
    assert utf8.decode(text.encode()[:-2]) + utf8.decode(text.encode()[-2:]) == text
gc.collect()
print("done")
