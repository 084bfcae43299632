"""What an event costs over a response of aiohttp: `python -m benches.aiohttp_stream`.

A server on the loopback interface, in a process of its own, writes twenty events at a time,
each write as a read of its own. What is measured is the thread CPU time of the client from the
response's head to its end: once the chunks are only taken, once an `async for` over `EventStream`
takes the events, once one over `decoder.aiter` of the chunks. First all are shown to give what was
sent. Then they take turns, the better of two each time. What an event costs is the median of the
differences of the turns.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import aiohttp

from benches.quick import at_least, heading
from benches.sdk_clients import server_of
from benches.workloads import openai
from seamstream import EventStream, SSEDecoder

now = time.thread_time_ns


def chunks_of(response: Any) -> Any:
    return response.content.iter_any()


def pulled(response: Any) -> Any:
    return SSEDecoder().aiter(chunks_of(response))


WAYS: dict[str, Callable[[Any], Any]] = {"`EventStream`": EventStream, "`decoder.aiter`": pulled}


async def spend(items: Any) -> int:
    start = now()
    async for _ in items:
        pass
    return now() - start


async def measure(url: str, payloads: Sequence[bytes], size: int, turns: int) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.get(url) as response:
            assert {len(chunk) async for chunk in chunks_of(response)} == {size}, (
                "reads, not writes"
            )
        for way in WAYS.values():
            async with session.get(url) as response:
                assert [event.raw async for event in way(response)] == list(payloads)

        async def least(way: Callable[[Any], Any]) -> int:
            times = []
            for _ in range(2):
                async with session.get(url) as response:
                    times.append(await spend(way(response)))
            return min(times)

        floors = []
        added: dict[str, list[float]] = {name: [] for name in WAYS}
        for _ in range(turns):
            gc.collect()
            floor = await least(chunks_of)
            floors.append(floor / len(payloads))
            for name, way in WAYS.items():
                added[name].append((await least(way) - floor) / len(payloads))
    print(f"  {'chunks only':26}{statistics.median(floors):7.0f} ns an event")
    for name, differences in added.items():
        low, middle, high = statistics.quantiles(differences, n=4)
        print(f"  {'`async for`, ' + name:26}{middle:+7.0f} (quartiles {low:.0f} and {high:.0f})")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.aiohttp_stream", description=__doc__)
    parser.add_argument(
        "--events", type=at_least(20), default=2000, help="a response (default: 2000)"
    )
    parser.add_argument("--turns", type=at_least(2), default=500, help="of each way (default: 500)")
    options = parser.parse_args(arguments)
    blocks = openai(5000).blocks()
    (length, _), *_ = Counter(map(len, blocks)).most_common(1)
    of_one_length = itertools.cycle(block for block in blocks if len(block) == length)
    chosen = list(itertools.islice(of_one_length, options.events))
    payloads = [block[len(b"data: ") : -2] for block in chosen]
    print(heading())
    print(f"aiohttp {version('aiohttp')}; {options.events} events of {length} bytes, 20 to a chunk")
    with server_of(b"".join(chosen), 20 * length) as url:
        asyncio.run(measure(url, payloads, 20 * length, options.turns))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
