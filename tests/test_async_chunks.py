"""`async for` over `EventStream`: whatever comes between two chunks, and in their place.

The compiled decoders take chunks past the generator that the reference asks for each. A stream here
begins with one that both give to the generator, so that the next ones are taken so.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import traceback
import types
import weakref
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import suppress
from typing import Any

import pytest

from conftest import Implementation
from seamstream import EventStream, LimitExceededError, Limits, StreamStateError
from seamstream.stream import PIECE_BYTES

pytestmark = pytest.mark.usefixtures("decoders")

FIRST, SECOND, THIRD = b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n"
DONE = b"data: [DONE]\n\n"


class Source:
    """Gives what is listed: bytes; an exception is raised; what is called gives the awaitable."""

    def __init__(self, *steps: Any) -> None:
        self.steps = iter(steps)
        self.asked = 0
        self.closed = 0

    def __aiter__(self) -> Source:
        return self

    async def __anext__(self) -> Any:
        self.asked += 1
        step: Any = next(self.steps, StopAsyncIteration())
        if isinstance(step, BaseException):
            raise step
        return await step() if callable(step) else step

    async def aclose(self) -> None:
        await asyncio.sleep(0)
        self.closed += 1


class AtOnce(Source):
    """The same, without a coroutine: what can be raised is, and the rest is awaitable."""

    def __anext__(self) -> Any:
        self.asked += 1
        step: Any = next(self.steps, StopAsyncIteration())
        if isinstance(step, BaseException):
            raise step
        return step() if callable(step) else Given(step)


class Given:
    def __init__(self, chunk: Any) -> None:
        self.chunk = chunk

    def __await__(self) -> Generator[Any, Any, Any]:
        yield from ()
        return self.chunk


class Reader(Source):
    """The same, as the readers of asyncio and aiohttp are asked, which end with nothing."""

    readuntil = at_eof = print

    async def read(self, number: int) -> Any:
        assert number > 0
        chunk: Any = b""
        with suppress(StopAsyncIteration):
            while isinstance(chunk, bytes) and not chunk:
                chunk = await self.__anext__()
        return chunk


@pytest.fixture(params=[Source, AtOnce, Reader])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


async def collect(stream: Any, found: list[str] | None = None) -> list[str]:
    found = [] if found is None else found
    async for event in stream:
        found.append(event.data)
    return found


async def forever() -> Any:
    await asyncio.Event().wait()


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


# --- chunks ---------------------------------------------------------------------------------


def test_generator_does_not_run_for_each_chunk(implementation: Implementation) -> None:
    resumed = 0

    def count(frame: types.FrameType, event: str, argument: Any) -> None:
        nonlocal resumed
        is_ours = frame.f_globals.get("__name__", "").startswith("seamstream.")
        resumed += event == "call" and is_ours

    async def main(steps: list[Any]) -> int:
        events = aiter(EventStream(Source(*steps)))
        sys.setprofile(count)
        try:
            return len([event async for event in events])
        finally:
            sys.setprofile(None)

    started = time.perf_counter()
    assert asyncio.run(main([FIRST] * 1000)) == 1000
    turns = (time.perf_counter() - started) / 0.005
    assert resumed < 100 + 10 * turns or implementation.name == "reference"

    async def late() -> bytes:
        await asyncio.sleep(0.006)  # longer than a turn, which others have had meanwhile
        return FIRST

    resumed = 0
    assert asyncio.run(main([late] * 100)) == 100
    assert resumed < 100 or implementation.name == "reference"


def test_chunks_of_every_size_and_type_come_out_in_order(
    implementation: Implementation, kind: Any
) -> None:
    class Text(bytes):
        pass

    large = f"data: {'é' * PIECE_BYTES}\n\n".encode()
    chunks = [
        *(FIRST, SECOND, b"", bytearray(THIRD), b"data", b"", b": 4\n", memoryview(b"\n")),
        *(large, large[:5], large[5:], FIRST, Text(SECOND), array("B", THIRD), large * 3),
        *(bytearray(large), b"id: 5\ndata: 5\n", b"\n", memoryview(b"data: to")),
    ]
    stream = b"".join(bytes(chunk) for chunk in chunks)
    decoder = implementation.SSEDecoder()
    expected = [*decoder.feed(stream), *decoder.close()]

    async def main() -> list[Any]:
        opened: EventStream[Any] = EventStream(kind(*chunks))
        events = [event async for event in opened]
        assert opened.report.bytes == len(stream)
        return events

    events = asyncio.run(main())
    assert events == expected
    assert [event.offset for event in events] == [event.offset for event in expected]
    assert [event.torn for event in events] == [False] * (len(expected) - 1) + [True]


def test_each_event_comes_before_the_next_chunk_is_asked_for(kind: Any) -> None:
    async def main() -> list[int]:
        source = kind(FIRST, SECOND + SECOND, b"", b"data: 3\n", b"\n", bytearray(THIRD), THIRD)
        return [source.asked async for _ in EventStream(source)]

    assert asyncio.run(main()) == [1, 2, 2, 5, 6, 7]


def test_report_knows_when_the_last_byte_came() -> None:
    async def main() -> None:
        arrived: list[int] = []

        def at(chunk: bytes) -> Callable[[], Awaitable[bytes]]:
            async def give() -> bytes:
                await asyncio.sleep(0.002)
                arrived.append(time.perf_counter_ns())
                return chunk

            return give

        opened: EventStream[Any] = EventStream(Source(at(FIRST), at(SECOND), at(THIRD), at(b"")))
        events = aiter(opened)
        for number in range(3):
            await anext(events)
            last = opened.report.last_byte_ns
            assert arrived[number] <= last <= time.perf_counter_ns()  # type: ignore[operator]
        assert await anext(events, None) is None
        report = opened.report
        assert arrived[2] <= report.last_byte_ns < arrived[3]  # type: ignore[operator]
        assert arrived[0] <= report.first_event_ns < arrived[1]  # type: ignore[operator]

    asyncio.run(main())


@pytest.mark.parametrize("chunk", ["text", 5, None, memoryview(b"data: x\n\n")[::2], (1, 2, 3, 4)])
@pytest.mark.parametrize("kind", [Source, AtOnce])
def test_what_is_no_chunk_is_refused_and_the_source_closed(kind: Any, chunk: Any) -> None:
    async def main() -> list[str]:
        source, found = kind(FIRST, SECOND, chunk, THIRD), list[str]()
        with pytest.raises((TypeError, BufferError)):
            await collect(EventStream(source), found)
        assert (source.asked, source.closed) == (3, 1)
        return found

    assert asyncio.run(main()) == ["1", "2"]


# --- the end --------------------------------------------------------------------------------


def test_end_of_the_source_closes_it_before_the_torn_event(kind: Any) -> None:
    async def main() -> None:
        source = kind(FIRST, SECOND, b"data: to")
        opened: EventStream[Any] = EventStream(source)
        seen = [(event.data, event.torn, source.closed) async for event in opened]
        assert seen == [("1", False, 0), ("2", False, 0), ("data: to", True, 1)]
        assert await collect(opened) == []
        assert (opened.report.torn, opened.report.events) == (1, 2)
        assert "ended" in repr(opened)

    asyncio.run(main())


def test_error_of_the_source_comes_as_it_was_raised_after_what_is_complete(kind: Any) -> None:
    error = ConnectionResetError("gone")
    error.__cause__ = cause = OSError("below")

    async def main() -> None:
        source, found = kind(FIRST, SECOND + b"data: ha", error, THIRD), list[str]()
        opened: EventStream[Any] = EventStream(source)
        with pytest.raises(ConnectionResetError) as caught:
            await collect(opened, found)
        assert found == ["1", "2"]
        assert caught.value is error
        assert error.__cause__ is cause
        assert error.__context__ is None
        assert "__anext__" in [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        assert (source.asked, source.closed, opened.report.torn) == (3, 1, 0)
        assert await collect(opened) == []

    asyncio.run(main())
    error.__traceback__ = None


def test_error_that_is_raised_while_another_is_handled_has_it_as_context() -> None:
    old, new = KeyError("old"), OSError("new")

    async def main() -> None:
        events = aiter(EventStream(Source(FIRST, SECOND, new)))
        await anext(events)
        try:
            raise old
        except KeyError:
            await collect(events)

    with pytest.raises(OSError, match="new"):
        asyncio.run(main())
    assert new.__context__ is old


def test_stop_iteration_of_a_source_is_an_error(kind: Any) -> None:
    async def main() -> list[str]:
        source, found = kind(FIRST, SECOND, StopIteration(THIRD)), list[str]()
        with pytest.raises(RuntimeError, match="StopIteration"):
            await collect(EventStream(source), found)
        assert source.closed == 1
        return found

    assert asyncio.run(main()) == ["1", "2"]


def test_sentinel_ends_the_stream_without_another_chunk(kind: Any) -> None:
    async def main() -> None:
        for last in (DONE, SECOND + DONE + THIRD, bytearray(DONE)):
            source = kind(FIRST, last, THIRD)
            opened: EventStream[Any] = EventStream(source)
            assert await collect(opened) == (["1", "2"] if last.startswith(SECOND) else ["1"])
            assert (source.asked, source.closed, opened.report.done_seen) == (2, 1, True)
            assert await collect(opened) == []

    asyncio.run(main())


def test_failure_of_the_decoder_ends_the_stream_without_another_chunk(kind: Any) -> None:
    async def main() -> None:
        source = kind(FIRST, SECOND, THIRD + b"data: " + b"x" * 40, THIRD)
        opened: EventStream[Any] = EventStream(source, limits=Limits(max_event_bytes=20))
        found: list[str] = []
        with pytest.raises(LimitExceededError) as caught:
            await collect(opened, found)
        assert found == ["1", "2", "3"]
        assert caught.value.offset == 27 + 20
        assert (source.asked, source.closed) == (3, 1)
        assert not opened.report.done_seen
        assert await collect(opened) == []

    asyncio.run(main())


# --- awaitables -----------------------------------------------------------------------------


def test_source_may_give_any_awaitable() -> None:
    async def main() -> list[str]:
        loop = asyncio.get_running_loop()

        def future(chunk: Any) -> Callable[[], Any]:
            def give() -> Any:
                made = loop.create_future()
                if isinstance(chunk, BaseException):
                    loop.call_soon(made.set_exception, chunk)
                else:
                    loop.call_soon(made.set_result, chunk)
                return made

            return give

        @types.coroutine
        def marked() -> Generator[Any, Any, bytes]:
            yield
            return b"data: marked\n\n"

        source = AtOnce(
            FIRST, future(SECOND), marked, lambda: Given(THIRD), future(StopAsyncIteration())
        )
        return await collect(EventStream(source))

    assert asyncio.run(main()) == ["1", "2", "marked", "3"]


@pytest.mark.parametrize("given", [b"data: 3\n\n", None, iter([])])
def test_what_cannot_be_awaited_is_refused(given: Any) -> None:
    async def main() -> list[str]:
        source, found = AtOnce(FIRST, SECOND, lambda: given), list[str]()
        with pytest.raises(TypeError, match=r"await|__anext__"):
            await collect(EventStream(source), found)
        assert source.closed == 1
        return found

    assert asyncio.run(main()) == ["1", "2"]


def test_any_event_loop_may_send_and_throw() -> None:
    class Suspension:
        def __await__(self) -> Generator[str, Any, Any]:
            return (yield "waiting")

    async def step() -> Any:
        return await anext(events)

    async def suspended() -> Any:
        return await Suspension()

    source = Source(FIRST, suspended, suspended, suspended)
    source.aclose = None  # type: ignore[assignment,method-assign]
    events = aiter(EventStream(source))
    with pytest.raises(StopIteration) as finished:
        step().send(None)
    assert finished.value.value.data == "1"
    for chunk in (SECOND, bytearray(THIRD)):
        task = step()
        assert task.send(None) == "waiting"
        with pytest.raises(StopIteration) as finished:
            task.send(chunk)
        assert finished.value.value.data == chunk[6:7].decode()
    task = step()
    assert task.send(None) == "waiting"
    with pytest.raises(ConnectionError):
        task.throw(ConnectionError())
    with pytest.raises(StopAsyncIteration):
        step().send(None)


# --- cancellation ---------------------------------------------------------------------------


def test_cancellation_while_waiting_reaches_the_source_and_closes_it(kind: Any) -> None:
    log: list[str] = []

    async def main() -> None:
        waiting = asyncio.Event()

        async def wait() -> Any:
            waiting.set()
            try:
                await forever()
            except asyncio.CancelledError:
                log.append("cancelled")
                raise

        source, found = kind(FIRST, SECOND + b"data: ha", wait, THIRD), list[str]()
        opened: EventStream[Any] = EventStream(source)
        task = asyncio.create_task(collect(opened, found))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert found == ["1", "2"]
        assert log == ["cancelled"]
        assert (source.asked, source.closed) == (3, 1)
        assert opened.report.events == 2
        assert await collect(opened) == []

    asyncio.run(main())


def test_cancellation_between_chunks_leaves_the_source_to_the_block() -> None:
    async def main() -> None:
        source, found, reached = Source(FIRST, SECOND, THIRD), list[str](), asyncio.Event()
        opened: EventStream[Any] = EventStream(source)

        async def consume() -> None:
            async with opened:
                async for event in opened:
                    found.append(event.data)
                    if len(found) == 2:
                        reached.set()
                        await forever()

        task = asyncio.create_task(consume())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert found == ["1", "2"]
        assert (source.asked, source.closed) == (2, 1)

    asyncio.run(main())


def test_source_that_answers_a_cancellation_with_bytes_is_heard(kind: Any) -> None:
    async def main(answer: Any) -> list[str]:
        waiting = asyncio.Event()

        async def stubborn() -> Any:
            waiting.set()
            try:
                await forever()
            except asyncio.CancelledError:
                return answer

        task = asyncio.create_task(collect(EventStream(kind(FIRST, SECOND, stubborn))))
        await waiting.wait()
        task.cancel()
        return await task

    for answer in (THIRD, bytearray(THIRD)):
        assert asyncio.run(main(answer)) == ["1", "2", "3"]


def test_wait_for_that_gives_up_closes_the_source(kind: Any) -> None:
    async def main() -> None:
        source = kind(FIRST, SECOND, forever, THIRD)
        events = aiter(EventStream(source))
        for expected in "12":
            assert (await asyncio.wait_for(anext(events), 60)).data == expected
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(events), 0.001)
        assert source.closed == 1
        assert await collect(events) == []

    asyncio.run(main())


# --- closing --------------------------------------------------------------------------------


def test_stream_closed_between_chunks_asks_for_no_other(kind: Any) -> None:
    async def main() -> None:
        source, found = kind(FIRST, SECOND + THIRD, THIRD), list[str]()
        opened: EventStream[Any] = EventStream(source)
        async for event in opened:
            found.append(event.data)
            if len(found) == 2:
                await opened.aclose()
        assert found == ["1", "2", "3"]  # what is complete in its chunk
        assert (source.asked, source.closed, opened.report.torn) == (2, 1, 0)

    asyncio.run(main())


@pytest.mark.parametrize("answer", [THIRD, bytearray(THIRD), StopAsyncIteration(), OSError("no")])
def test_stream_closed_by_another_task_while_it_waits_ends(kind: Any, answer: Any) -> None:
    async def main() -> None:
        waiting, go_on = asyncio.Event(), asyncio.Event()

        async def wait() -> Any:
            waiting.set()
            await go_on.wait()
            if isinstance(answer, BaseException):
                raise answer
            return answer

        source, found = kind(FIRST, SECOND, wait, b"data: never\n\n"), list[str]()
        opened: EventStream[Any] = EventStream(source)
        task = asyncio.create_task(collect(opened, found))
        await waiting.wait()
        await opened.aclose()
        go_on.set()
        if isinstance(answer, OSError):
            with pytest.raises(OSError, match="no"):
                await task
        else:
            await task
        assert found == ["1", "2", "3"][: 3 if isinstance(answer, (bytes, bytearray)) else 2]
        assert (source.asked, source.closed, opened.report.torn) == (3, 1, 0)

    asyncio.run(main())


def test_break_closes_the_source_in_a_block_and_by_the_loop_without_one() -> None:
    async def main(in_block: bool) -> int:
        source = Source(FIRST, SECOND, THIRD)
        opened: EventStream[Any] = EventStream(source)
        if in_block:
            async with opened:
                async for event in opened:
                    if event.data == "2":
                        break
            return source.closed
        async for event in opened:
            if event.data == "2":
                break
        gone = weakref.ref(opened)
        del opened
        assert gone() is None
        await turns(10)
        assert source.asked == 2
        return source.closed

    assert [asyncio.run(main(True)), asyncio.run(main(False))] == [1, 1]


def test_generator_that_is_a_source_is_closed_when_the_stream_is_dropped() -> None:
    async def main() -> list[str]:
        log: list[str] = []

        async def source() -> AsyncIterator[bytes]:
            try:
                yield FIRST
                yield SECOND
                yield THIRD
            finally:
                await asyncio.sleep(0)
                log.append("closed")

        async for event in EventStream(source()):
            if event.data == "2":
                break
        await turns(10)
        return log

    assert asyncio.run(main()) == ["closed"]


def test_stream_that_is_dropped_while_it_waits_closes_what_it_waits_for() -> None:
    log: list[str] = []

    class Never:
        def __await__(self) -> Iterator[None]:
            try:
                yield None
            finally:
                log.append("closed")

    async def wait() -> Any:
        await Never()

    def waiting() -> tuple[Any, Any]:
        source = Source(FIRST, SECOND, wait)
        source.aclose = None  # type: ignore[assignment,method-assign]
        events = aiter(EventStream(source))
        for _ in range(2):
            with pytest.raises(StopIteration):
                anext(events).__await__().__next__()
        awaitable = anext(events).__await__()
        assert next(awaitable) is None
        return events, awaitable

    events, awaitable = waiting()
    del events, awaitable
    assert log == ["closed"]
    events, awaitable = waiting()
    awaitable.close()
    del events, awaitable
    assert log == ["closed"] * 2


def test_collector_frees_a_stream_that_its_source_refers_to(kind: Any) -> None:
    async def main() -> None:
        source = kind(FIRST, SECOND, THIRD)
        source.stream = opened = EventStream(source)
        events = aiter(opened)
        for _ in range(2):
            await anext(events)
        source.events = events
        gone = weakref.ref(opened)
        del source, opened, events
        gc.collect()
        await turns(10)
        gc.collect()
        assert gone() is None

    asyncio.run(main())


# --- one at a time --------------------------------------------------------------------------


def test_source_may_not_ask_the_stream_that_asks_it(kind: Any) -> None:
    async def main() -> list[str]:
        async def ask() -> Any:
            return await anext(events)

        source, found = kind(FIRST, SECOND, ask), list[str]()
        events = aiter(EventStream(source))
        with pytest.raises(StreamStateError):
            await collect(events, found)
        assert source.closed == 1
        return found

    assert asyncio.run(main()) == ["1", "2"]


def test_two_tasks_may_not_wait_for_one_stream(kind: Any) -> None:
    async def main() -> list[str]:
        waiting, go_on = asyncio.Event(), asyncio.Event()

        async def wait() -> bytes:
            waiting.set()
            await go_on.wait()
            return THIRD

        events = aiter(EventStream(kind(FIRST, SECOND, wait)))
        found = [(await anext(events)).data for _ in range(2)]
        task = asyncio.create_task(collect(events, found))
        await waiting.wait()
        with pytest.raises(StreamStateError):
            await anext(events)
        go_on.set()
        return await task

    assert asyncio.run(main()) == ["1", "2", "3"]


# --- turns ----------------------------------------------------------------------------------


def test_source_that_never_waits_leaves_turns_whatever_its_chunks(kind: Any) -> None:
    async def main(chunk: Any) -> tuple[int, int]:
        turned = number = 0

        async def others() -> None:
            nonlocal turned
            while True:
                turned += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(others())
        end = time.perf_counter() + 0.2
        async for _ in EventStream(kind(*[chunk] * 1_000_000)):
            number += 1
            if time.perf_counter() > end:
                break
        task.cancel()
        return turned, number

    for chunk in (FIRST, bytearray(FIRST), FIRST * 3000):
        turned, number = asyncio.run(main(chunk))
        assert number > 100
        assert turned >= 5
