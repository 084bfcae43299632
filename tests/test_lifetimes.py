"""What code that runs at a bad moment may do: finalizers, the collector, the end of the process."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from conftest import MODULES, Implementation
from seamstream import LimitExceededError, Limits, StreamStateError

TWO = b"data: 1\n\ndata: 2\n\n"


def test_source_that_asks_its_iterator_while_it_is_closed_finds_it_ended(
    compiled: Implementation,
) -> None:
    answers: list[object] = []

    def source() -> Iterator[bytes]:
        try:
            yield b"data: 1\n\ndata: [DONE]\n\n"
        finally:
            answers.append(next(iterator, "ended"))

    iterator = compiled.SSEDecoder().iter(source(), done=b"[DONE]")
    assert [event.data for event in iterator] == ["1"]
    gc.collect()
    assert answers == ["ended"]


def test_source_that_asks_its_iterator_after_an_error_finds_it_ended(
    compiled: Implementation,
) -> None:
    answers: list[object] = []

    def source() -> Iterator[bytes]:
        try:
            yield b"data: too long"
        finally:
            answers.append(next(iterator, "ended"))

    limits = Limits(max_event_bytes=4)
    iterator = compiled.SSEDecoder(limits=limits).iter(source())
    with pytest.raises(LimitExceededError):
        next(iterator)
    gc.collect()
    assert answers == ["ended"]


def test_collector_leaves_loads_to_events_that_live(implementation: Implementation) -> None:
    decoder: Any = implementation.SSEDecoder(loads=lambda raw: ("loaded", raw))
    (event,) = decoder.feed(b"data: x\n\n")
    cycle: list[Any] = [decoder]
    cycle.append(cycle)
    del decoder, cycle
    gc.collect()
    assert event.json() == ("loaded", b"x")


def test_collector_frees_a_decoder_whose_loads_refers_to_it(
    implementation: Implementation,
) -> None:
    class Client:
        def __init__(self) -> None:
            self.decoder = implementation.SSEDecoder(loads=self.loads)

        def loads(self, raw: bytes) -> bytes:
            return raw

        def __del__(self) -> None:
            freed.append(True)

    freed: list[bool] = []
    Client()
    gc.collect()
    assert freed == [True]


def test_iterator_dropped_by_the_decoders_own_call_leaves_no_claim(
    implementation: Implementation,
) -> None:
    """An argument may run any code when its buffer is asked for: here, drop the iterator."""
    decoder = implementation.SSEDecoder()
    held = [decoder.iter([TWO])]
    next(held[0])
    with pytest.raises(StreamStateError):
        decoder.feed(b"")
    held.clear()
    gc.collect()
    assert decoder.close() == ()
    with pytest.raises(StreamStateError, match="failed"):
        decoder.feed(b"data: x\n\n")
    decoder.reset()
    assert [event.data for event in decoder.feed(TWO)] == ["1", "2"]


def test_constructors_are_not_fooled_by_a_class_that_lies(implementation: Implementation) -> None:
    class Text(str):
        @property  # type: ignore[misc]
        def __class__(self) -> type:
            return bytes

    class Number(int):
        @property  # type: ignore[misc]
        def __class__(self) -> type:
            return bytes

    for liar in (Text("hello" * 10), Number(7)):
        for make in (
            lambda raw: implementation.Frame(raw=raw),
            lambda raw: implementation.Frame._restore(raw, None, False, 0),
            lambda raw: implementation.Event._restore("message", "", None, raw, False, 0, 0, None),
        ):
            try:
                made = make(liar)
            except (TypeError, ValueError):
                continue
            # What gets in must be what it is said to be.
            assert implementation.name == "reference" or type(made.raw) is bytes


def test_awaitable_that_is_dropped_half_way_closes_what_it_waits_for(
    compiled: Implementation,
) -> None:
    closed: list[str] = []

    class Never:
        def __await__(self) -> Iterator[None]:
            try:
                yield None
            finally:
                closed.append("closed")

    async def source() -> AsyncIterator[bytes]:
        await Never()
        yield TWO

    iterator = compiled.SSEDecoder().aiter(source())
    awaitable = iterator.__anext__().__await__()
    assert next(awaitable) is None
    del awaitable
    assert closed == ["closed"]

    async def go_on() -> list[Any]:
        return [event async for event in iterator]

    assert asyncio.run(go_on()) == []


def test_stop_iteration_of_a_source_is_no_item(compiled: Implementation) -> None:
    class Source:
        def __aiter__(self) -> Source:
            return self

        def __anext__(self) -> Any:
            raise StopIteration(b"data: z\n\n")

    async def collect() -> list[Any]:
        return [event async for event in compiled.SSEDecoder().aiter(Source())]

    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(collect())


def test_iterators_are_no_source_of_chunks(compiled: Implementation) -> None:
    decoder = compiled.SSEDecoder()
    with pytest.raises(TypeError, match="chunks"):
        decoder.iter(decoder.iter([TWO]))


@pytest.mark.parametrize(
    "code",
    [
        # An iterator with events left, at the end of the process.
        "iterator = decoder.iter([b'data: 1\\n\\ndata: 2\\n\\n'])\nprint(next(iterator).data)",
        # A decoder used by a finalizer.
        "class Late:\n    def __del__(self): decoder.feed(5)\nlate = Late()\nprint(1)",
        "class Late:\n    def __del__(self): event.json()\n"
        "event = decoder.feed(b'data: {x\\n\\n')[0]\nlate = Late()\nprint(1)",
    ],
)
def test_process_ends_well(
    implementation: Implementation, run_python: Callable[..., str], code: str
) -> None:
    module = MODULES[implementation.name]
    start = f"from {module} import SSEDecoder\ndecoder = SSEDecoder()\n"
    assert run_python(code=start + code).strip() == "1"


def test_long_event_type_is_not_remembered(
    compiled: Implementation, run_python: Callable[..., str]
) -> None:
    code = (
        "import tracemalloc\n"
        f"from {MODULES['rust']} import SSEDecoder\n"
        "decoder = SSEDecoder()\n"
        "stream = b'event: ' + b'n' * (4 << 20) + '\\U0001f680'.encode() + b'\\ndata\\n\\n'\n"
        "tracemalloc.start()\n"
        "assert len(decoder.feed(stream)) == 1\n"
        "print(tracemalloc.get_traced_memory()[0])\n"
    )
    assert compiled.name == "rust"
    assert int(run_python(code=code)) < 64 * 1024


def test_raw_is_the_same_whatever_came_before_it(implementation: Implementation) -> None:
    decoder = implementation.SSEDecoder()
    kept: dict[bytes, str] = {}
    for number in range(4000):
        # Lengths that fall and rise by little and by much, past what small objects may have.
        length = (number * 7) % 40 + (number // 100 * 97) % 520 + 1
        digits = f"{number % 9 + 1}" * min(length, 300) + "0" * max(length - 300, 0)
        (event,) = decoder.feed(f"data: {digits}\n\n".encode())
        assert event.raw == digits.encode()
        assert hash(event.raw) == hash(digits.encode())
        if length <= 300:
            assert float(event.raw) == float(digits)  # which takes a NUL after the last byte
        if number % 13 == 0:
            kept[event.raw] = digits
    assert [raw.decode() for raw in kept] == [*kept.values()]
