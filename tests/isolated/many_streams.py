"""Print how memory grows over thousands of streams, after a warm-up: the interpreter's allocated
blocks, and resident bytes.

Streams that end well, are abandoned halfway, fail, are torn, are read by iterators that are
dropped, and events that are used in every way, big ones too.
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
STREAM = "".join(
    f'event: e{i % 7}\nid: {i}\nretry: {i}\ndata: {{"i": {i}, "text": "漢 🚀"}}\n\n: comment\n'
    for i in range(20)
).encode()
CUT = STREAM[: len(STREAM) // 2]


def attempt(call: Callable[..., object], *arguments: object) -> None:
    with contextlib.suppress(SeamstreamError, TypeError):
        call(*arguments)


def use(event: object) -> None:
    seamstream.Event._restore(*event.__reduce__()[1])  # type: ignore[attr-defined]
    repr(event)
    hash(event)
    assert event == event  # noqa: PLR0124
    assert event.data  # type: ignore[attr-defined]
    assert event.value  # type: ignore[attr-defined]
    assert event.parse_error in (None, "syntax", "loads", "torn")  # type: ignore[attr-defined]
    attempt(event.json)  # type: ignore[attr-defined]
    assert pickle.loads(pickle.dumps(event)).raw == event.raw  # type: ignore[attr-defined]


def refuse(payload: bytes) -> None:
    raise KeyError(payload)


async def asynchronous(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def one_round(number: int) -> None:
    loads = (None, json.loads, lambda payload: payload, refuse)[number % 4]
    decoder = module.SSEDecoder(loads=loads, keep_wire=number % 2 == 0)
    for position in range(0, len(STREAM), 67):
        events = decoder.feed(STREAM[position : position + 67])
    assert decoder.stats.events == 20
    for event in events:
        if loads is not refuse:
            use(event)
        else:
            assert event.parse_error == "loads"

    abandoned = module.SSEDecoder(keep_wire=number % 2 == 1)
    abandoned.feed(CUT)
    abandoned.feed(bytearray(CUT))
    torn = module.SSEDecoder()
    torn.feed(CUT)
    (event,) = torn.close()
    use(event)
    torn.reset("again")
    torn.feed(b"data: [x\n\n")

    failed = module.SSEDecoder(limits=Limits(max_event_bytes=40))
    for _ in range(3):
        for wrong in (b"data: fits\n\ndata: " + b"x" * 50, b"", "text", None):
            attempt(failed.feed, wrong)
        failed.reset()
    skipping = module.SSEDecoder(limits=Limits(max_event_bytes=40), on_limit="skip")
    skipping.feed(STREAM)
    assert skipping.stats.skipped == 20

    for chunks in ([STREAM], [bytearray(STREAM)], [CUT, STREAM], [CUT, "text"]):
        for taken in (0, 1, 5, 100):
            iterator = module.SSEDecoder().iter(chunks, done=b"[DONE]")
            attempt(list, itertools.islice(iterator, taken))
    driven = module.SSEDecoder().aiter(asynchronous([CUT, STREAM]))

    async def consume(count: int) -> None:
        async for event in driven:
            assert event.id
            count -= 1
            if not count:
                return

    for count in (1, 3, 100):
        with contextlib.suppress(StopIteration):
            consume(count).send(None)

    if number % 25 == 0:
        big = module.SSEDecoder()
        big.feed(b"data: ")
        for _ in range(100):
            big.feed(b"y" * 10_000)
        if number % 50 == 0:
            (event,) = big.feed(b"\n\n")
            assert len(event.data) == 1_000_000

    for errors in ("replace", "strict"):
        text = module.UTF8Decoder(errors, skip_bom=True)
        for chunk in (b"\xef\xbb", b"\xbf\xe6", b"\xbc\xa2", b"\xff", b"\xf0"):
            attempt(text.decode, chunk)
        text.setstate(text.getstate())
    made = module.Event(data=b"[" + b"x" * 100, event="e", id="i", retry=10**20)
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
