"""The stand-ins beside their originals: `python -m benches.dropins`.

Both read the same responses in one process, in turns, by thread CPU time; what counts is the median
of the ratios. Each job first shows that it gives the right data. The responses of the first table
are those of httpx and httpx2, with their own machinery and the bytes at hand; those of the second
come over a connection on the loopback interface.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib.metadata
import json
import platform
import statistics
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import httpx
import httpx2
import httpx_sse
import sseclient

import seamstream
import seamstream.compat.httpx2
import seamstream.compat.httpx_sse
import seamstream.compat.sseclient_py
from benches.quick import at_least
from benches.workloads import Cut, Workload, japanese, openai
from seamstream.testing import FragmentingServer

HEADERS = {"content-type": "text/event-stream"}
CUTS: tuple[Cut, ...] = (16384, 1460, "event")
now = time.thread_time_ns

Use = Callable[[Any], Any]
Job = Callable[[list[bytes], Use | None], int]


def by_data(event: Any) -> Any:
    return event.data


def by_json(event: Any) -> Any:
    return event.json()


def by_loads(event: Any) -> Any:
    return json.loads(event.data)


def pull(open_events: Callable[[list[bytes]], Any]) -> Job:
    def job(chunks: list[bytes], use: Use | None) -> int:
        events = open_events(chunks)
        start = now()
        if use is None:
            for _ in events:
                pass
        else:
            for event in events:
                use(event)
        return now() - start

    return job


def apull(open_events: Callable[[AsyncIterator[bytes]], Any]) -> Job:
    async def take(chunks: list[bytes], use: Use | None) -> int:
        events = open_events(asynchronous(chunks))
        start = now()
        if use is None:
            async for _ in events:
                pass
        else:
            async for event in events:
                use(event)
        return now() - start

    return lambda chunks, use: asyncio.run(take(chunks, use))


async def asynchronous(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def response_of(http: Any, content: Any) -> Any:
    request = http.Request("GET", "http://localhost/")
    return http.Response(200, headers=HEADERS, content=content, request=request)


def of_httpx_sse(library: Any) -> Job:
    return pull(lambda chunks: library.EventSource(response_of(httpx, iter(chunks))).iter_sse())


def of_httpx_sse_async(library: Any) -> Job:
    return apull(lambda chunks: library.EventSource(response_of(httpx, chunks)).aiter_sse())


def of_httpx2(library: Any) -> Job:
    return pull(lambda chunks: iter(library.EventSource(response_of(httpx2, iter(chunks)))))


def of_httpx2_async(library: Any) -> Job:
    return apull(lambda chunks: library.EventSource(response_of(httpx2, chunks)))


def of_sseclient(library: Any) -> Job:
    return pull(lambda chunks: library.SSEClient(chunks).events())


SEAM = seamstream.compat
PAIRS: dict[str, tuple[Job, Job, dict[str, Use | None]]] = {
    "httpx-sse, iter_sse": (
        of_httpx_sse(httpx_sse),
        of_httpx_sse(SEAM.httpx_sse),
        {"": None, ".data": by_data, ".json()": by_json},
    ),
    "httpx-sse, aiter_sse": (
        of_httpx_sse_async(httpx_sse),
        of_httpx_sse_async(SEAM.httpx_sse),
        {".data": by_data, ".json()": by_json},
    ),
    "httpx2, for": (
        of_httpx2(httpx2),
        of_httpx2(SEAM.httpx2),
        {".data": by_data, ".json()": by_json},
    ),
    "httpx2, async for": (
        of_httpx2_async(httpx2),
        of_httpx2_async(SEAM.httpx2),
        {".data": by_data, ".json()": by_json},
    ),
    "sseclient-py, events": (
        of_sseclient(sseclient),
        of_sseclient(SEAM.sseclient_py),
        {".data": by_data, "json.loads(.data)": by_loads},
    ),
}


def check(job: Job, workload: Workload, chunks: list[bytes]) -> None:
    seen: list[str] = []
    job(chunks, lambda event: seen.append(event.data))
    assert seen == [payload.decode() for payload in workload.payloads]


def measure(
    original: Job, ours: Job, chunks: list[bytes], use: Use | None, turns: int
) -> tuple[float, ...]:
    times = []
    for _ in range(turns):
        gc.collect()
        times.append(
            (
                min(original(chunks, use), original(chunks, use)),
                min(ours(chunks, use), ours(chunks, use)),
            )
        )
    theirs, mine = zip(*times, strict=True)
    return (
        statistics.median(theirs),
        statistics.median(mine),
        statistics.median(a / b for a, b in times),
    )


def over_a_connection(library: Any, url: str) -> tuple[int, list[str]]:
    with httpx.Client() as client, library.connect_sse(client, "GET", url) as source:
        start = now()
        data = [event.data for event in source.iter_sse()]
        return now() - start, data


def measure_connections(workload: Workload, write_size: int, turns: int) -> tuple[float, ...]:
    body = b"".join(workload.blocks())
    with FragmentingServer(body, write_size=write_size) as server:
        times = []
        for _ in range(turns):
            theirs, data = over_a_connection(httpx_sse, server.url)
            mine, same = over_a_connection(SEAM.httpx_sse, server.url)
            assert data == same == [payload.decode() for payload in workload.payloads]
            times.append((theirs, mine))
    theirs, mine = map(statistics.median, zip(*times, strict=True))
    return theirs, mine, statistics.median(a / b for a, b in times)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.dropins", description=__doc__)
    parser.add_argument("--events", type=at_least(1), default=2000, help="a job (default: 2000)")
    parser.add_argument("--turns", type=at_least(1), default=11, help="of each job (default: 11)")
    options = parser.parse_args(arguments)
    assert seamstream.backend == "rust"
    versions = (
        f"{name} {importlib.metadata.version(name)}"
        for name in ("seamstream", "httpx-sse", "httpx2", "sseclient-py", "httpx", "orjson")
    )
    print(f"{platform.python_implementation()} {platform.python_version()}, {platform.machine()};")
    print(", ".join(versions))
    print()
    print("| CPU time an event, ns | chunks | original | ours | ratio |")
    print("|---|---|---:|---:|---:|")
    for workload in (openai(options.events), japanese(options.events)):
        for cut in CUTS:
            per = len(workload.payloads)
            chunks = workload.chunks(cut)
            for name, (original, ours, uses) in PAIRS.items():
                check(original, workload, chunks)
                check(ours, workload, chunks)
                for reads, use in uses.items():
                    theirs, mine, ratio = measure(original, ours, chunks, use, options.turns)
                    size = "one event" if cut == "event" else f"{cut:,} B"
                    print(
                        f"| {workload.name}: {name} {reads} | {size} |"
                        f" {theirs / per:,.0f} | {mine / per:,.0f} | {ratio:.1f} × |",
                        flush=True,
                    )
    print()
    print("| over a connection, ns an event | bytes a write | original | ours | ratio |")
    print("|---|---|---:|---:|---:|")
    workload = openai(min(options.events, 500))
    per = len(workload.payloads)
    for write_size in (290, 1460, 16384):
        theirs, mine, ratio = measure_connections(workload, write_size, options.turns)
        print(
            f"| {workload.name}: httpx-sse, iter_sse .data | {write_size:,} |"
            f" {theirs / per:,.0f} | {mine / per:,.0f} | {ratio:.1f} × |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
