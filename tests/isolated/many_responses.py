"""Print how memory grows over thousands of responses that the stand-ins read, after a warm-up: the
interpreter's allocated blocks, and resident bytes.

Short streams and some of 5 MB, read to their end, cut, refused, or abandoned halfway.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import itertools
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import httpx
import httpx2
from resident_memory import resident_bytes

from seamstream import Limits
from seamstream.compat import _reading, httpx_sse, sseclient_py
from seamstream.compat import httpx2 as compat_httpx2

_reading.SSEDecoder = importlib.import_module(sys.argv[1]).SSEDecoder
rounds = int(sys.argv[2])
HEADERS = {"content-type": "text/event-stream"}
SHORT = [b'id: 1\ndata: {"n":1}\n\ndata: \xe6', b"\xbc\xa2\n\ndata: half"]
LONG = [b"data: ", *[b"y" * 16_000] * 160, b"\n\n", b"data: ", *[b"z" * 16_000] * 160]
SMALL = Limits(max_event_bytes=12)


async def asynchronous(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def response_of(http: Any, content: Any) -> Any:
    request = http.Request("GET", "http://localhost/")
    return http.Response(200, headers=HEADERS, content=content, request=request)


def sources(chunks: list[bytes]) -> Iterator[Any]:
    yield httpx_sse.EventSource(response_of(httpx, iter(chunks))).iter_sse()
    yield httpx_sse.EventSource(response_of(httpx, iter(chunks)), limits=SMALL).iter_sse()
    yield iter(compat_httpx2.EventSource(response_of(httpx2, iter(chunks))))
    yield sseclient_py.SSEClient(chunks).events()
    yield httpx_sse.EventSource(response_of(httpx, asynchronous(chunks))).aiter_sse()
    yield aiter(compat_httpx2.EventSource(response_of(httpx2, asynchronous(chunks)), None))


async def take(source: Any, count: int) -> None:
    async for event in source:
        assert event.data
        count -= 1
        if not count:
            break
    await source.aclose()


def one_round(number: int) -> None:
    for source in sources(LONG if number % 100 == 0 else SHORT):
        count = 1 if number % 10 == 0 else 100
        with contextlib.suppress(httpx.TransportError, httpx2.TransportError, StopIteration):
            if hasattr(source, "__anext__"):
                take(source, count).send(None)
            else:
                for event in itertools.islice(source, count):
                    assert event.data


def settle() -> tuple[int, int]:
    gc.collect()
    return sys.getallocatedblocks(), resident_bytes()


seen = [settle()]
for number in range(3 * rounds):
    one_round(number)
    if (number + 1) % rounds == 0:
        seen.append(settle())
# The first third warms up. What leaks does so in both others.
second, third = (
    (after[0] - before[0], after[1] - before[1]) for before, after in itertools.pairwise(seen[1:])
)
print(*map(min, second, third))
