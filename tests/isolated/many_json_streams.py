"""Print how memory grows over thousands of JSON streams, after a warm-up: the interpreter's
allocated blocks, and resident bytes.

Streams in every framing that end well, are abandoned halfway, fail, are torn, are read by
iterators that are dropped, and frames that are used in every way, big ones too.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import itertools
import json
import pickle
import sys
from collections.abc import AsyncIterator, Callable

from resident_memory import resident_bytes

import seamstream
from seamstream import Limits, SeamstreamError

module = importlib.import_module(sys.argv[1])
rounds = int(sys.argv[2])
FRAMINGS = {
    "concatenated": ("", "", " x"),
    "ndjson": ("", "\n", "x\n"),
    "array": ("[", ",", "x\n,"),
    "json-seq": ("", "\n", "\x1e[1"),
}


def stream(framing: str) -> bytes:
    first, separator, damage = FRAMINGS[framing]
    record = "\x1e" if framing == "json-seq" else ""
    values = "".join(
        f'{record}{{"i{i % 7}": {i}, "text": "漢 \\u00e9 {{ 🚀"}}{separator}' for i in range(10)
    )
    return (first + values + damage + values + record + '{"half": ["').encode()


STREAMS = {framing: stream(framing) for framing in FRAMINGS}


def attempt(call: Callable[..., object], *arguments: object) -> None:
    with contextlib.suppress(SeamstreamError, TypeError):
        call(*arguments)


def use(frame: object) -> None:
    seamstream.Frame._restore(*frame.__reduce__()[1])  # type: ignore[attr-defined]
    repr(frame)
    hash(frame)
    assert frame == frame  # noqa: PLR0124
    attempt(frame.json)  # type: ignore[attr-defined]
    assert frame.value is not None  # type: ignore[attr-defined]
    assert pickle.loads(pickle.dumps(frame)).raw == frame.raw  # type: ignore[attr-defined]


def refuse(raw: bytes) -> None:
    raise ValueError(raw)


async def asynchronous(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def one_round(number: int) -> None:
    framing = list(FRAMINGS)[number % 4]
    body = STREAMS[framing]
    loads = (None, json.loads, lambda raw: raw, refuse)[number // 4 % 4]
    decoder = module.JSONStreamDecoder(framing=framing, loads=loads)
    frames = []
    for position in range(0, len(body), 67):
        frames += decoder.feed(body[position : position + 67])
    frames += decoder.close()
    assert frames[-1].torn
    for frame in frames:
        use(frame)

    abandoned = module.JSONStreamDecoder(framing=framing)
    abandoned.feed(body)
    abandoned.feed(bytearray(body))
    abandoned.reset()
    abandoned.feed(body)
    for on_limit in ("error", "skip"):
        limits = Limits(max_event_bytes=20)
        limited = module.JSONStreamDecoder(framing=framing, limits=limits, on_limit=on_limit)
        for _ in range(3):
            for wrong in (body, b"", "text", None):
                attempt(limited.feed, wrong)
            attempt(limited.close)
            limited.reset()

    for chunks in ([body], [bytearray(body)], [body, "text"]):
        for taken in (0, 1, 5, 100):
            iterator = module.JSONStreamDecoder(framing=framing).iter(chunks, done=b"x")
            attempt(list, itertools.islice(iterator, taken))
    driven = module.JSONStreamDecoder(framing=framing).aiter(asynchronous([body, b" "]))

    async def consume(count: int) -> None:
        async for _ in driven:
            count -= 1
            if not count:
                return

    for count in (1, 3, 100):
        with contextlib.suppress(StopIteration):
            consume(count).send(None)

    if number % 25 == 0:
        big = module.JSONStreamDecoder()
        big.feed(b'["')
        for _ in range(100):
            big.feed(b"y" * 10_000)
        if number % 50 == 0:
            (frame,) = big.feed(b'"]')
            assert len(frame.value[0]) == 1_000_000
        deep = module.JSONStreamDecoder()
        deep.feed(b"[" * 10_000)
    made = module.Frame(raw=b"[" + b"x" * 100, kind="syntax")
    attempt(made.json)


def settle() -> tuple[int, int]:
    gc.collect()
    return sys.getallocatedblocks(), resident_bytes()


asyncio.run(asyncio.sleep(0))
seen = [settle()]
for number in range(3 * rounds):
    one_round(number)
    if (number + 1) % rounds == 0:
        seen.append(settle())
# The first third warms up, the count itself included. What leaks does so in both others; what
# only settles down late is in one of them.
second, third = (
    (after[0] - before[0], after[1] - before[1]) for before, after in itertools.pairwise(seen[1:])
)
print(*map(min, second, third))
