"""What is measured: jobs, the floors they are compared with, and what must come out of both.

A job runs its loop once between two calls of `now` and returns their difference. A floor is work
that any implementation has to do. `quick.py` times the rows, `instructions.py` counts their
instructions, `compare.py` does both for two revisions.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import orjson
from pydantic import BaseModel, TypeAdapter

import seamstream
from benches.workloads import (
    FRAMINGS,
    Cut,
    Workload,
    anthropic,
    big,
    framed,
    japanese,
    objects,
    openai,
)

TURNS = 15

now: Callable[[], int] = time.thread_time_ns
"""What jobs measure with; `instructions.py` puts its own in the place."""

Job = Callable[[], int]


@dataclass
class Row:
    """One line of the table."""

    name: str
    floor: Job
    floor_name: str
    job: Job
    per: int
    """Events, chunks or bytes in one run of the job."""
    check: Callable[[], None]
    """Refuses to measure what is wrong."""
    budget: float = math.inf
    """What the row's figure may be: nanoseconds, the ratio to the floor where `by_ratio`, or the
    nanoseconds that come on top of the floor where `is_added`."""
    goal: float = math.nan
    by_ratio: bool = False
    is_added: bool = False
    is_foreign: bool = False
    """Most of the work is orjson's, pydantic's or memcpy's, or depends on the clock."""
    floor_ns: float = math.nan
    ns: float = math.nan
    ratio: float = math.nan

    def measure(self) -> None:
        """Time job and floor in turns."""
        times: list[tuple[int, int]] = []
        for _ in range(TURNS):
            floor = min(self.floor(), self.floor())
            times.append((floor, min(self.job(), self.job())))
        self.floor_ns = statistics.median(floor for floor, _ in times) / self.per
        self.ns = statistics.median(job for _, job in times) / self.per
        self.ratio = statistics.median(job / floor for floor, job in times)

    @property
    def figure(self) -> float:
        if self.is_added:
            return self.ns - self.floor_ns
        return self.ratio if self.by_ratio else self.ns

    @property
    def limit_ratio(self) -> float:
        """The ratio to the floor at which the budget is just met."""
        if self.is_added:
            return (self.floor_ns + self.budget) / self.floor_ns
        return self.budget if self.by_ratio else self.ratio * self.budget / self.ns

    @property
    def unit(self) -> str:
        return "×" if self.by_ratio else "ns more" if self.is_added else "ns"


# --- jobs: each returns the thread CPU time of its loop


def feed(chunks: list[bytes], **options: Any) -> Job:
    def job() -> int:
        take = seamstream.SSEDecoder(**options).feed
        start = now()
        for chunk in chunks:
            take(chunk)
        return now() - start

    return job


def feed_json(chunks: list[bytes]) -> Job:
    def job() -> int:
        take = seamstream.SSEDecoder().feed
        start = now()
        for chunk in chunks:
            for event in take(chunk):
                event.json()
        return now() - start

    return job


def feed_get(chunks: list[bytes], path: Any) -> Job:
    def job() -> int:
        take = seamstream.SSEDecoder().feed
        start = now()
        for chunk in chunks:
            for event in take(chunk):
                event.get(path)
        return now() - start

    return job


def feed_get_each(chunks: list[bytes], paths: tuple[Any, ...]) -> Job:
    first, second = paths

    def job() -> int:
        take = seamstream.SSEDecoder().feed
        start = now()
        for chunk in chunks:
            for event in take(chunk):
                event.get(first)
                event.get(second)
        return now() - start

    return job


def feed_get_many(chunks: list[bytes], paths: tuple[Any, ...]) -> Job:
    def job() -> int:
        take = seamstream.SSEDecoder().feed
        start = now()
        for chunk in chunks:
            for event in take(chunk):
                event.get_many(paths)
        return now() - start

    return job


def pull(chunks: list[bytes], parse: bool = False) -> Job:
    def job() -> int:
        decoder = seamstream.SSEDecoder()
        start = now()
        if parse:
            for event in decoder.iter(chunks):
                event.json()
        else:
            for _ in decoder.iter(chunks):
                pass
        return now() - start

    return job


class Ready:
    """An async iterable whose items are there already."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._items()

    async def _items(self) -> AsyncIterator[Any]:
        for item in self.items:
            yield item


def apull(chunks: list[bytes]) -> Job:
    async def loop() -> int:
        decoder = seamstream.SSEDecoder()
        start = now()
        async for _ in decoder.aiter(Ready(chunks)):
            pass
        return now() - start

    return lambda: asyncio.run(loop())


def stream(chunks: list[bytes]) -> Job:
    def job() -> int:
        events = iter(seamstream.EventStream(chunks))
        start = now()
        for _ in events:
            pass
        return now() - start

    return job


def astream(chunks: list[bytes]) -> Job:
    async def loop() -> int:
        events = seamstream.EventStream(Ready(chunks))
        start = now()
        async for _ in events:
            pass
        return now() - start

    return lambda: asyncio.run(loop())


def frame_json(chunks: list[bytes], framing: Any) -> Job:
    def job() -> int:
        take = seamstream.JSONStreamDecoder(framing=framing).feed
        start = now()
        for chunk in chunks:
            for frame in take(chunk):
                frame.json()
        return now() - start

    return job


def frame(chunks: list[bytes], framing: Any, **options: Any) -> Job:
    def job() -> int:
        take = seamstream.JSONStreamDecoder(framing=framing, **options).feed
        start = now()
        for chunk in chunks:
            take(chunk)
        return now() - start

    return job


def validate(events: list[seamstream.Event], target: Any) -> Job:
    def job() -> int:
        start = now()
        for event in events:
            event.validate(target)
        return now() - start

    return job


def validate_json(payloads: tuple[bytes, ...], target: Any) -> Job:
    def job() -> int:
        check = TypeAdapter(target).validate_json
        start = now()
        for payload in payloads:
            check(payload)
        return now() - start

    return job


# --- floors


def loads(payloads: tuple[bytes, ...]) -> Job:
    def job() -> int:
        parse = orjson.loads
        start = now()
        for payload in payloads:
            parse(payload)
        return now() - start

    return job


def split(chunks: list[bytes], eol: bytes) -> Job:
    """What C code costs that makes one object for each event: bytes.split at the empty lines."""

    def job() -> int:
        at = eol * 2
        start = now()
        for chunk in chunks:
            chunk.split(at)
        return now() - start

    return job


def prebuilt_iterator(chunks: list[bytes]) -> Job:
    """The iterator of a list of events made before."""

    def job() -> int:
        decoder = seamstream.SSEDecoder()
        events = [event for chunk in chunks for event in decoder.feed(chunk)]
        start = now()
        for _ in events:
            pass
        return now() - start

    return job


def prebuilt_async(chunks: list[bytes]) -> Job:
    """An async generator that gives events made before."""

    async def loop() -> int:
        decoder = seamstream.SSEDecoder()
        events = [event for chunk in chunks for event in decoder.feed(chunk)]
        start = now()
        async for _ in Ready(events):
            pass
        return now() - start

    return lambda: asyncio.run(loop())


def empty_call(chunks: list[bytes]) -> Job:
    """A built-in function of one argument that does nothing with it: `callable`."""

    def job() -> int:
        call = callable
        start = now()
        for chunk in chunks:
            call(chunk)
        return now() - start

    return job


def extend(chunks: list[bytes]) -> Job:
    def job() -> int:
        collect = bytearray().extend
        start = now()
        for chunk in chunks:
            collect(chunk)
        return now() - start

    return job


# --- what must come out


def check(work: Workload, chunks: list[bytes], **options: Any) -> None:
    want = [(work.event, payload) for payload in work.payloads]
    decoder = seamstream.SSEDecoder(**options)
    fed = [event for chunk in chunks for event in decoder.feed(chunk)]
    assert [(event.event, event.raw) for event in fed] == want, work.name
    assert decoder.close() == ()
    assert decoder.stats.replaced == 0
    pulled = seamstream.SSEDecoder(**options).iter(chunks)
    assert [(event.event, event.raw) for event in pulled] == want, work.name

    async def collect() -> list[tuple[str | None, bytes]]:
        events = seamstream.SSEDecoder(**options).aiter(Ready(chunks))
        return [(event.event, event.raw) async for event in events]

    assert asyncio.run(collect()) == want, work.name
    stream = seamstream.EventStream(chunks, **options)
    assert [(event.event, event.raw) for event in stream] == want, work.name

    async def collect_stream() -> list[tuple[str | None, bytes]]:
        events = seamstream.EventStream(Ready(chunks), **options)
        return [(event.event, event.raw) async for event in events]

    assert asyncio.run(collect_stream()) == want, work.name
    if len(work.payloads) > 1:
        assert [event.json() for event in fed] == [orjson.loads(raw) for raw in work.payloads]


def check_get(work: Workload, chunks: list[bytes], path: Any) -> None:
    def found(payload: bytes) -> Any:
        value = orjson.loads(payload)
        for step in path.split(".") if isinstance(path, str) else path:
            value = value[step]
        return value

    decoder = seamstream.SSEDecoder()
    got = [event.get(path) for chunk in chunks for event in decoder.feed(chunk)]
    assert got == [found(payload) for payload in work.payloads], work.name


def check_get_many(work: Workload, chunks: list[bytes], paths: tuple[Any, ...]) -> None:
    def found(payload: bytes, path: tuple[str | int, ...]) -> Any:
        value = orjson.loads(payload)
        for step in path:
            value = value[step]
        return value

    want = [tuple(found(payload, path) for path in paths) for payload in work.payloads]
    decoder = seamstream.SSEDecoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    assert [event.get_many(paths) for event in events] == want, work.name
    assert [tuple(event.get(path) for path in paths) for event in events] == want, work.name


def check_frames(
    chunks: list[bytes], framing: Any, values: tuple[bytes, ...], **options: Any
) -> None:
    decoder = seamstream.JSONStreamDecoder(framing=framing, **options)
    frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
    frames += decoder.close()
    assert [(frame.raw, frame.kind, frame.torn) for frame in frames] == [
        (value, None, False) for value in values
    ]


def check_validation(events: list[seamstream.Event], target: Any) -> None:
    expected = [TypeAdapter(target).validate_json(event.raw) for event in events]
    assert [event.validate(target) for event in events] == expected


BIG = 8_000_000
BIG_OPTIONS = {"limits": seamstream.Limits(max_event_bytes=2 * BIG)}


LABELS: dict[Cut, str] = {16384: "16 KB chunks", "event": "one event a chunk"}


def feed_rows(events: int) -> Iterator[Row]:
    budgets: dict[tuple[str, Cut], tuple[float, float]] = {
        ("openai", 16384): (50, 35),
        ("openai", "event"): (105, 80),
        ("japanese", 16384): (80, 50),
        ("japanese", "event"): (135, 100),
    }
    unset = (math.inf, math.nan)
    for work in (openai(events), japanese(events), anthropic(events)):
        for cut, label in LABELS.items():
            chunks = work.chunks(cut)
            right = cache(partial(check, work, chunks))
            budget, goal = budgets.get((work.name, cut), unset)
            yield Row(
                f"{work.name}: feed, {label}",
                split(chunks, work.eol),
                "bytes.split at the empty lines",
                feed(chunks),
                events,
                right,
                budget,
                goal,
            )
            budget, goal = (1.09, 1.06) if cut == 16384 else (1.22, 1.12)
            for job, how in ((feed_json(chunks), "feed"), (pull(chunks, True), "iter")):
                if how == "iter" and cut != "event":
                    continue
                is_held = work.name == "openai" and how == "feed"
                yield Row(
                    f"{work.name}: {how} + json(), {label}",
                    loads(work.payloads),
                    "orjson.loads on payloads cut before",
                    job,
                    events,
                    right,
                    budget if is_held else math.inf,
                    goal if work.name == "openai" else math.nan,
                    by_ratio=True,
                    is_foreign=True,
                )


def get_rows(events: int) -> Iterator[Row]:
    """One value out of each payload.

    "shuffled": no payload is built as the one before; "new": other values differ as well; "live":
    they do not; "as recorded": some do, as with the services.
    """
    openai_path = ("choices", 0, "delta", "content")
    anthropic_path = "delta.text"
    japanese_path = ("candidates", 0, "content", "parts", 0, "text")
    unset = (math.inf, math.nan)
    for work, path, kind, budgets, goals in (
        (openai(events, "shuffled"), openai_path, "shuffled", unset, unset),
        (openai(events), openai_path, "new", (0.30, 0.42), unset),
        (openai(events, "repeats"), openai_path, "live", (0.14, 0.25), (0.09, math.nan)),
        (openai(events, "recorded"), openai_path, "as recorded", unset, unset),
        (anthropic(events, "new"), anthropic_path, "new", (0.48, 0.60), unset),
        (anthropic(events), anthropic_path, "live", (0.30, 0.42), (0.20, math.nan)),
        (anthropic(events, "recorded"), anthropic_path, "as recorded", unset, unset),
        (japanese(events, "new"), japanese_path, "new", (0.46, 0.54), unset),
        (japanese(events, "repeats"), japanese_path, "live", (0.36, 0.44), (0.25, math.nan)),
        (japanese(events), japanese_path, "as recorded", unset, unset),
    ):
        for (cut, label), budget, goal in zip(LABELS.items(), budgets, goals, strict=True):
            chunks = work.chunks(cut)
            yield Row(
                f"{work.name} ({kind}): feed + get, {label}",
                loads(work.payloads),
                "orjson.loads on payloads cut before",
                feed_get(chunks, path),
                events,
                partial(check_get, work, chunks, path),
                budget,
                goal,
                by_ratio=True,
            )


def get_many_rows(events: int) -> Iterator[Row]:
    """Two values of each payload, by one pass over what two calls of `get` take."""
    paths = (("choices", 0, "delta", "content"), ("choices", 0, "finish_reason"))
    for work, kind, budget in (
        (openai(events), "new", 0.95),
        (openai(events, "repeats"), "live", 0.95),
        (openai(events, "recorded"), "as recorded", math.inf),
    ):
        chunks = work.chunks(16384)
        yield Row(
            f"{work.name} ({kind}): feed + get_many, 2 values",
            feed_get_each(chunks, paths),
            "feed, and get for each value",
            feed_get_many(chunks, paths),
            events,
            partial(check_get_many, work, chunks, paths),
            budget,
            by_ratio=True,
        )


def pull_rows(events: int) -> Iterator[Row]:
    work = openai(events)
    for per_chunk, iter_budget, aiter_budget in (
        (20, (85, 50), (170, 120)),
        (1, (190, 110), (500, 300)),
    ):
        chunks = work.chunks("event", per_chunk)
        right = cache(partial(check, work, chunks))
        label = "one event a chunk" if per_chunk == 1 else f"{per_chunk} events a chunk"
        floors = (
            (prebuilt_iterator(chunks), "a list's iterator over events made before"),
            (prebuilt_async(chunks), "an async generator over events made before"),
        )
        for name, job, (floor, floor_name), (budget, goal) in (
            ("iter", pull, floors[0], iter_budget),
            ("async for", apull, floors[1], aiter_budget),
        ):
            yield Row(
                f"openai: {name}, {label}",
                floor,
                floor_name,
                job(chunks),
                events,
                right,
                budget,
                goal,
            )


def stream_rows(events: int) -> Iterator[Row]:
    # As many that what is done once for a stream, in 7 or 17 µs, is no part of it.
    work = openai(events * 10)
    for per_chunk, budget in ((20, 15), (1, math.inf)):
        chunks = work.chunks("event", per_chunk)
        right = cache(partial(check, work, chunks))
        label = "one event a chunk" if per_chunk == 1 else f"{per_chunk} events a chunk"
        for name, job, floor, floor_name in (
            ("for", stream, pull, "decoder.iter over the same chunks"),
            ("async for", astream, apull, "decoder.aiter over the same chunks"),
        ):
            yield Row(
                f"openai: EventStream, {name}, {label}",
                floor(chunks),
                floor_name,
                job(chunks),
                len(work.payloads),
                right,
                budget,
                is_added=True,
                is_foreign=job is astream,  # how often others had a turn is a matter of time
            )


def one_byte_rows(events: int) -> Iterator[Row]:
    work = openai(events)
    chunks = work.chunks(1)
    yield Row(
        "openai: feed, 1-byte chunks",
        empty_call(chunks),
        "callable(chunk)",
        feed(chunks),
        len(chunks),
        partial(check, work, chunks),
        1.5,
        1.2,
        by_ratio=True,
    )


def big_rows(size: int) -> Iterator[Row]:
    work = big(size)
    chunks = work.chunks(1024)
    yield Row(
        "8 MB in one event: feed, 1 KB chunks",
        extend(chunks),
        "bytearray.extend",
        feed(chunks, **BIG_OPTIONS),
        len(chunks),
        partial(check, work, chunks, **BIG_OPTIONS),
        1.1,
        0.9,
        by_ratio=True,
        is_foreign=True,
    )
    value = (b'"' + b"QUJDREVG" * (size // 8) + b'"',)
    chunks = framed(value, "ndjson", 1024)
    yield Row(
        "JSON: 8 MB in one value, 1 KB chunks",
        extend(chunks),
        "bytearray.extend",
        frame(chunks, "ndjson", **BIG_OPTIONS),
        len(chunks),
        partial(check_frames, chunks, "ndjson", value, **BIG_OPTIONS),
        is_foreign=True,
    )


def json_rows(number: int) -> Iterator[Row]:
    values = objects(number)
    for framing in FRAMINGS:
        chunks = framed(values, framing, 16384)
        yield Row(
            f"JSON, {framing}: feed + json(), 16 KB chunks",
            loads(values),
            "orjson.loads on slices cut before",
            frame_json(chunks, framing),
            len(values),
            partial(check_frames, chunks, framing, values),
            1.35,
            1.20,
            by_ratio=True,
            is_foreign=True,
        )
    few = values[: number // 10]
    for framing in FRAMINGS:
        chunks = framed(few, framing, 1)
        yield Row(
            f"JSON, {framing}: feed, 1-byte chunks",
            empty_call(chunks),
            "callable(chunk)",
            frame(chunks, framing),
            len(chunks),
            partial(check_frames, chunks, framing, few),
            40,
        )
    events = [seamstream.Event(data=payload) for payload in values]
    yield Row(
        "validate(model)",
        validate_json(values, Answer),
        "TypeAdapter.validate_json",
        validate(events, Answer),
        len(values),
        partial(check_validation, events, Answer),
        1.1,
        by_ratio=True,
        is_foreign=True,
    )


GROUPS: tuple[tuple[Callable[[int], Iterator[Row]], int], ...] = (
    (feed_rows, 2000),
    (get_rows, 2000),
    (get_many_rows, 2000),
    (pull_rows, 2000),
    (stream_rows, 2000),
    (one_byte_rows, 200),
    (big_rows, BIG),
    (json_rows, 1000),
)


def rows(
    scale: float = 1, only: str = "", broken: Callable[[Exception], None] | None = None
) -> Iterator[Row]:
    """The rows whose names contain `only`, each once its results have proved right.

    `scale` is for who wants less of the same: a tenth of the events, say. An exception goes to
    `broken`, if given, and takes the rest of its group along: an older revision may not have what
    is asked for.
    """
    for group, size in GROUPS:
        try:
            for row in group(int(size * scale)):
                if only in row.name:
                    row.check()
                    yield row
        except Exception as error:  # noqa: PERF203
            if broken is None:
                raise
            broken(error)


@dataclass
class Growing:
    """Work that must be linear in its size."""

    name: str
    job: Callable[[int], Job]
    floor: Callable[[int], Job] | None = None
    """A loop that is linear: what fresh pages cost is not the parser's growth."""


def growing() -> Iterator[Growing]:
    def pieces(body: bytes) -> list[bytes]:
        return [body[at : at + 1024] for at in range(0, len(body), 1024)]

    def value(size: int) -> list[bytes]:
        return framed((b'"' + b"x" * size + b'"',), "concatenated", 1024)

    yield Growing(
        "an event in 1 KB chunks",
        lambda size: feed(big(size).chunks(1024), **BIG_OPTIONS),
        lambda size: extend(big(size).chunks(1024)),
    )
    yield Growing(
        "a JSON value in 1 KB chunks",
        lambda size: frame(value(size), "concatenated", **BIG_OPTIONS),
        lambda size: extend(value(size)),
    )
    yield Growing(
        "`[` + `[1\\n,` × n + `}` in an array",
        lambda size: frame(pieces(b"[" + b"[1\n," * (size // 20) + b"}"), "array", **BIG_OPTIONS),
    )


def exponent(points: list[tuple[int, float]]) -> float:
    """The slope of log cost over log size."""
    logs = [(math.log(size), math.log(cost)) for size, cost in points]
    mean_x, mean_y = (statistics.mean(axis) for axis in zip(*logs, strict=True))
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum(
        (x - mean_x) ** 2 for x, _ in logs
    )


class Part(BaseModel):
    text: str


class Content(BaseModel):
    parts: list[Part]
    role: str


class Candidate(BaseModel):
    content: Content
    index: int


class Usage(BaseModel):
    promptTokenCount: int
    candidatesTokenCount: int
    totalTokenCount: int


class Answer(BaseModel):
    """What the values of the JSON rows are."""

    candidates: list[Candidate]
    usageMetadata: Usage
    modelVersion: str
