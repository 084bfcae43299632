"""`iter` and `aiter`: a decoder that pulls its chunks."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from typing import Any

import pytest

from conftest import Implementation
from fragmentations import fragmentations
from observations import state_of
from pullers import Puller, asynchronous, collect, first
from seamstream import LimitExceededError, Limits, Stats, StreamStateError

TWO = b"data: a\n\ndata: b\n\n"


def data(events: Any) -> list[str]:
    return [event.data for event in events]


@pytest.fixture(params=["iter", "aiter"])
def puller(request: pytest.FixtureRequest) -> Puller:
    return Puller(request.param)


# --- what comes out


def test_iterator_gives_the_events_of_feed_and_the_torn_one_last(
    implementation: Implementation, puller: Puller
) -> None:
    stream = b"id: 1\ndata: a\r\n\r\n:c\ndata: b\n\nretry: 5\n"
    for chunks in fragmentations(stream):
        decoder = implementation.SSEDecoder()
        events = puller.rest(puller.open(decoder, chunks))
        assert [(e.data, e.id, e.torn) for e in events] == [
            ("a", "1", False),
            ("b", "1", False),
            ("retry: 5\n", "1", True),
        ]
        assert decoder.stats == Stats(bytes=len(stream), events=2, comments=1, torn=1)
        with pytest.raises(StreamStateError, match="closed"):
            decoder.feed(b"")


def test_iterator_of_nothing_closes_the_decoder(
    implementation: Implementation, puller: Puller
) -> None:
    decoder = implementation.SSEDecoder()
    decoder.feed(b"data: a")
    (torn,) = puller.rest(puller.open(decoder, []))
    assert (torn.data, torn.torn) == ("data: a", True)


def test_iterator_goes_on_where_feed_left_off(
    implementation: Implementation, puller: Puller
) -> None:
    decoder = implementation.SSEDecoder()
    decoder.feed(b"data: 1")
    assert data(puller.rest(puller.open(decoder, [b"2\n", b"\n"]))) == ["12"]


def test_iterator_is_its_own_iterator_and_stays_exhausted(
    implementation: Implementation,
) -> None:
    decoder = implementation.SSEDecoder()
    iterator = decoder.iter([TWO])
    assert iter(iterator) is iterator
    assert data(iterator) == ["a", "b"]
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(iterator)

    async def main() -> None:
        decoder.reset()
        iterator = decoder.aiter(asynchronous([TWO]))
        assert iterator.__aiter__() is iterator
        assert data([event async for event in iterator]) == ["a", "b"]
        for _ in range(2):
            with pytest.raises(StopAsyncIteration):
                await iterator.__anext__()
        assert not hasattr(iterator, "aclose")

    asyncio.run(main())


def test_iterator_pulls_a_chunk_only_when_the_one_before_is_used_up(
    implementation: Implementation, puller: Puller
) -> None:
    pulled = []

    def source() -> Iterator[bytes]:
        for chunk in (b"", TWO, b": c\n", b"data: c\n\n: d\n", b"data: e\n\n"):
            pulled.append(chunk)
            yield chunk

    iterator = puller.open(implementation.SSEDecoder(), source())
    counts = []
    for _ in range(4):
        puller.next(iterator)
        counts.append(len(pulled))
    assert counts == [2, 2, 4, 5]


def test_exact_bytes_are_parsed_as_events_are_taken(
    implementation: Implementation, puller: Puller
) -> None:
    decoder = implementation.SSEDecoder()
    chunk = b":x\nid: 1\ndata: a\r\n\r\n:y\nid: 2\nretry: 3\ndata: b\n\nid: 3\n"
    iterator = puller.open(decoder, [chunk])
    assert puller.next(iterator).data == "a"
    # Right behind the first event's empty line, the LF of its CRLF included.
    assert decoder.stats == Stats(bytes=20, events=1, comments=1)
    assert state_of(decoder)[:4] == ("1", None, 0, True)
    assert puller.next(iterator).data == "b"
    assert decoder.stats == Stats(bytes=47, events=2, comments=2)
    assert state_of(decoder)[:4] == ("2", 3, 0, True)
    assert puller.next(iterator).torn
    assert decoder.stats == Stats(bytes=53, events=2, comments=2, torn=1)


def test_other_buffers_are_parsed_whole_on_arrival(
    implementation: Implementation, puller: Puller
) -> None:
    class Bytes(bytes):
        __slots__ = ()

    for buffer in (bytearray(TWO), memoryview(TWO), Bytes(TWO)):
        decoder = implementation.SSEDecoder()
        iterator = puller.open(decoder, [buffer])
        assert puller.next(iterator).data == "a"
        assert decoder.stats == Stats(bytes=18, events=2)
        if isinstance(buffer, bytearray):
            buffer.extend(b"no buffer is exported")
            buffer[:] = b"\0" * len(buffer)
        with pytest.raises(StreamStateError):
            decoder.feed(b"")
        assert puller.next(iterator).data == "b"
        assert decoder.feed(b"") == ()


# --- the end that `done` makes


def test_done_ends_the_iteration_without_closing(
    implementation: Implementation, puller: Puller
) -> None:
    decoder = implementation.SSEDecoder()
    iterator = puller.open(
        decoder, [b"data: a\n\ndata: [DONE]\n\n: c\n", b"data: never pulled\n\n"], done=b"[DONE]"
    )
    assert data(puller.rest(iterator)) == ["a"]
    assert puller.rest(iterator) == []
    assert decoder.stats.events == 2
    assert data(decoder.feed(b"data: open\n\n")) == ["open"]


def test_done_is_a_whole_payload_that_is_not_torn(
    implementation: Implementation, puller: Puller
) -> None:
    decoder = implementation.SSEDecoder()
    chunks = [b"data: [DONE]!\n\ndata: say [DONE]\n\nevent: [DONE]\ndata\n\n[DONE]"]
    assert data(puller.rest(puller.open(decoder, chunks, done=b"[DONE]"))) == [
        *("[DONE]!", "say [DONE]", "", "[DONE]")
    ]
    decoder.reset()
    iterator = puller.open(decoder, [b"data: a\n\ndata: stop\n\ndata: b\n\n"], done=b"stop")
    assert data(puller.rest(iterator)) == ["a"]
    decoder.reset()
    assert data(puller.rest(puller.open(decoder, [b"data: [DONE]\n\n"]))) == ["[DONE]"]


def test_done_fails_the_decoder_when_events_are_left_behind_it(
    implementation: Implementation, puller: Puller
) -> None:
    decoder = implementation.SSEDecoder()
    iterator = puller.open(decoder, [b"data: [DONE]\n\ndata: lost\n\n"], done=b"[DONE]")
    assert puller.rest(iterator) == []
    with pytest.raises(StreamStateError, match=r"reset\(\)"):
        decoder.feed(b"")
    decoder.reset()
    assert decoder.feed(b"") == ()


def test_done_leaves_the_source_where_it_is(implementation: Implementation) -> None:
    source = iter([b"data: [DONE]\n\n", b"next"])
    assert list(implementation.SSEDecoder().iter(source, done=b"[DONE]")) == []
    assert next(source) == b"next"


# --- the source


def test_source_exception_passes_through_and_the_decoder_stays_open(
    implementation: Implementation, puller: Puller
) -> None:
    def source() -> Iterator[bytes]:
        yield b"data: a\n\ndata: hal"
        raise ConnectionError("cut")

    decoder = implementation.SSEDecoder()
    iterator = puller.open(decoder, source())
    assert puller.next(iterator).data == "a"
    with pytest.raises(ConnectionError, match="cut"):
        puller.next(iterator)
    assert puller.rest(iterator) == []
    assert decoder.pending_bytes == 9
    assert data(decoder.feed(b"f\n\n")) == ["half"]


def test_source_is_never_closed(implementation: Implementation) -> None:
    log = []

    def source() -> Iterator[bytes]:
        try:
            yield b"data: a\n\n"
            yield b"data: b\n\n"
        finally:
            log.append("closed")

    generator = source()
    iterator = implementation.SSEDecoder().iter(generator)
    assert next(iterator).data == "a"
    del iterator
    gc.collect()
    assert log == []
    assert next(generator) == b"data: b\n\n"


def test_source_of_wrong_chunks_raises_what_feed_raises(
    implementation: Implementation, puller: Puller
) -> None:
    for wrong, error in (
        ("text", TypeError),
        (None, TypeError),
        (5, TypeError),
        (memoryview(b"abcd")[::2], BufferError),
    ):
        decoder = implementation.SSEDecoder()
        iterator = puller.open(decoder, [b"data: a\n\ndata: ", wrong])
        assert puller.next(iterator).data == "a"
        with pytest.raises(error):
            puller.next(iterator)
        assert data(decoder.feed(b"b\n\n")) == ["b"]


def test_iter_refuses_what_is_no_iterable_at_once(implementation: Implementation) -> None:
    decoder = implementation.SSEDecoder()
    for wrong in (5, None, object(), asynchronous([])):
        with pytest.raises(TypeError):
            decoder.iter(wrong)
    for wrong in (5, None, [b""], object()):
        with pytest.raises(TypeError):
            decoder.aiter(wrong)
    for wrong in (TWO, bytearray(TWO), memoryview(TWO), "data: a\n\n"):
        with pytest.raises(TypeError, match="list"):
            decoder.iter(wrong)
        with pytest.raises(TypeError):
            decoder.aiter(wrong)
    for wrong in ("[DONE]", 1, [b"[DONE]"], bytearray(b"[DONE]")):
        with pytest.raises(TypeError, match="done"):
            decoder.iter([], done=wrong)
        with pytest.raises(TypeError, match="done"):
            decoder.aiter(asynchronous([]), done=wrong)
    with pytest.raises(TypeError):
        decoder.iter([], b"[DONE]")
    assert data(decoder.feed(TWO)) == ["a", "b"]


def test_source_may_not_ask_the_iterator_that_asks_it(implementation: Implementation) -> None:
    def source() -> Iterator[bytes]:
        with pytest.raises(StreamStateError):
            next(iterator)
        yield TWO

    iterator = implementation.SSEDecoder().iter(source())
    assert data(iterator) == ["a", "b"]


def test_source_may_use_the_decoder_while_it_is_asked(implementation: Implementation) -> None:
    decoder = implementation.SSEDecoder()
    inner = []

    def source() -> Iterator[bytes]:
        inner.extend(decoder.feed(b"data: 1\n\ndata: 2"))
        yield b"3\n\n"
        decoder.reset()
        yield b"data: 4\n\n"
        decoder.close()

    assert data(decoder.iter(source())) == ["23", "4"]
    assert data(inner) == ["1"]


# --- errors of the decoder


def test_error_comes_after_the_events_before_it(
    implementation: Implementation, puller: Puller
) -> None:
    for buffer in (bytes, bytearray):
        decoder = implementation.SSEDecoder(limits=Limits(max_event_bytes=10))
        iterator = puller.open(decoder, [buffer(TWO + b"data: 12345\n\n" + TWO), b"never"])
        assert data(puller.next(iterator) for _ in range(2)) == ["a", "b"]
        with pytest.raises(LimitExceededError) as caught:
            puller.next(iterator)
        assert caught.value.offset == 28
        assert decoder.stats == Stats(bytes=28, events=2)
        assert puller.rest(iterator) == []
        with pytest.raises(StreamStateError):
            decoder.feed(b"")


def test_iterator_raises_an_error_that_feed_left_held(
    implementation: Implementation, puller: Puller
) -> None:
    decoder = implementation.SSEDecoder(limits=Limits(max_event_bytes=10))
    assert data(decoder.feed(b"data: a\n\ndata: 12345")) == ["a"]
    iterator = puller.open(decoder, [b"data: never\n\n"])
    with pytest.raises(LimitExceededError):
        puller.next(iterator)
    assert puller.rest(iterator) == []


def test_iterator_on_a_closed_decoder_takes_no_chunk_but_ends_quietly(
    implementation: Implementation, puller: Puller
) -> None:
    decoder = implementation.SSEDecoder()
    decoder.close()
    with pytest.raises(StreamStateError, match="closed"):
        puller.next(puller.open(decoder, [b"data: a\n\n"]))
    assert puller.rest(puller.open(decoder, [])) == []
    decoder = implementation.SSEDecoder()
    iterator = puller.open(decoder, [b"data: a\n\n"])
    assert puller.next(iterator).data == "a"
    decoder.close()
    assert puller.rest(iterator) == []


# --- events left in a chunk


def test_decoder_is_taken_while_an_iterator_has_events_left(
    implementation: Implementation, puller: Puller
) -> None:
    decoder = implementation.SSEDecoder()
    iterator = puller.open(decoder, [TWO + b"data: c\n\n: d\ndata: ", b"x\n\n"])
    assert puller.next(iterator).data == "a"
    for call in (
        lambda: decoder.feed(b"data: x\n\n"),
        lambda: decoder.feed("not even bytes"),
        decoder.close,
        lambda: decoder.iter([]),
        lambda: decoder.aiter(asynchronous([])),
    ):
        with pytest.raises(StreamStateError):
            call()
    assert puller.next(iterator).data == "b"
    with pytest.raises(StreamStateError):
        decoder.close()
    assert puller.next(iterator).data == "c"
    # What is left has no event in it: it is consumed before the call goes on.
    assert decoder.feed(b"1") == ()
    assert decoder.stats == Stats(bytes=38, events=3, comments=1)
    assert puller.next(iterator).data == "1x"


def test_close_takes_in_what_an_iterator_has_left_without_events(
    implementation: Implementation, puller: Puller
) -> None:
    decoder = implementation.SSEDecoder()
    iterator = puller.open(decoder, [b"data: a\n\nid: 1\nda", b"never"])
    assert puller.next(iterator).data == "a"
    (torn,) = decoder.close()
    assert torn.raw == b"id: 1\nda"
    with pytest.raises(StreamStateError):
        puller.next(iterator)


def test_an_error_left_in_a_chunk_counts_as_an_event(
    implementation: Implementation, puller: Puller
) -> None:
    decoder = implementation.SSEDecoder(limits=Limits(max_event_bytes=10))
    iterator = puller.open(decoder, [b"data: a\n\ndata: 12345"])
    assert puller.next(iterator).data == "a"
    with pytest.raises(StreamStateError):
        decoder.feed(b"")
    with pytest.raises(LimitExceededError):
        puller.next(iterator)


def test_at_boundary_is_false_as_soon_as_an_error_is_known(
    implementation: Implementation, puller: Puller
) -> None:
    stream = b"data: a\n\nevent: ping\ndata: b\n\n"  # fails where a line begins
    for chunk, is_known in ((bytearray(stream), True), (stream, False)):
        decoder = implementation.SSEDecoder(limits=Limits(max_event_bytes=12))
        iterator = puller.open(decoder, [chunk])
        assert puller.next(iterator).data == "a"
        assert decoder.at_boundary is not is_known
        with pytest.raises(StreamStateError, match="events left"):
            decoder.feed(b"")
        assert not decoder.at_boundary


def test_iterator_dropped_with_events_left_fails_the_decoder(
    implementation: Implementation, puller: Puller
) -> None:
    for chunk in (
        TWO,
        bytearray(TWO),
        b"data: a\n\ndata: too long for the limit of twenty",
    ):
        decoder = implementation.SSEDecoder(limits=Limits(max_event_bytes=20))
        iterator = puller.open(decoder, [chunk])
        assert puller.next(iterator).data == "a"
        del iterator
        gc.collect()
        with pytest.raises(StreamStateError, match=r"reset\(\)"):
            decoder.feed(b"")
        assert decoder.close() == ()
        assert decoder.pending_bytes == 0
        decoder.reset()
        assert data(decoder.feed(TWO)) == ["a", "b"]


def test_iterator_dropped_without_events_left_leaves_the_decoder_open(
    implementation: Implementation, puller: Puller
) -> None:
    decoder = implementation.SSEDecoder()
    for chunk in (b"data: a\n\n: c\ndata: ", bytearray(b"a\n\n: c\ndata: ")):
        iterator = puller.open(decoder, [chunk])
        assert puller.next(iterator).data == "a"
        del iterator
        gc.collect()
    assert data(decoder.feed(b"b\n\n")) == ["b"]
    assert decoder.stats == Stats(bytes=35, events=3, comments=2)
    del decoder
    iterator = puller.open(implementation.SSEDecoder(), [])  # never used, and dropped first
    del iterator


def test_iterator_that_goes_away_while_another_takes_a_chunk_takes_nothing_from_it(
    implementation: Implementation,
) -> None:
    chunk = bytearray(b"".join(b"data: %d\n\n" % n for n in range(30)))
    thresholds = gc.get_threshold()
    gc.collect()
    gc.disable()
    try:
        decoder = implementation.SSEDecoder()
        other = decoder.iter([chunk])
        first_one: list[Any] = [decoder.iter([b"data: first\n\n"])]
        assert next(first_one[0]).data == "first"
        first_one.append(first_one)  # only the collector ends it
        del first_one
        kept: list[Any] = [[] for _ in range(2000)]
        gc.set_threshold(1)
        gc.enable()  # up to CPython 3.11 it comes with the next tuple, which `other` makes inside
        event = next(other)
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()
    del kept
    assert [event.data, *data(other)] == [str(n) for n in range(30)]


def test_reset_forgets_the_rest_and_the_iterator_goes_on_with_its_next_chunk(
    implementation: Implementation, puller: Puller
) -> None:
    for buffer in (bytes, bytearray):
        decoder = implementation.SSEDecoder()
        iterator = puller.open(decoder, [buffer(TWO + b"data: half"), b"data: c\n\n"])
        assert puller.next(iterator).data == "a"
        decoder.reset("9")
        assert decoder.stats == Stats()
        event = puller.next(iterator)
        assert (event.data, event.id, event.offset) == ("c", "9", 0)
        assert puller.rest(iterator) == []
        assert decoder.stats == Stats(bytes=9, events=1)


def test_two_iterators_take_turns_at_chunk_ends_and_lose_nothing(
    implementation: Implementation, puller: Puller
) -> None:
    decoder = implementation.SSEDecoder()
    one = puller.open(decoder, [b"data: 1\n\n", b"data: 2\n\n"])
    other = puller.open(decoder, [b"data: 3\n\ndata: 4\n\n"])
    assert puller.next(one).data == "1"
    assert puller.next(other).data == "3"
    with pytest.raises(StreamStateError):
        puller.next(one)
    assert puller.next(other).data == "4"
    assert puller.next(one).data == "2"


# --- asynchronous sources only


class Suspension:
    """An awaitable that gives a value to whoever drives it and takes one back."""

    def __init__(self, given: object) -> None:
        self.given = given

    def __await__(self) -> Generator[object, Any, Any]:
        received = yield self.given
        return received


class Source:
    """An async iterator that is no generator: its `__anext__` may give any awaitable."""

    def __init__(self, step: Callable[[], Awaitable[Any]]) -> None:
        self.step = step

    def __aiter__(self) -> Source:
        return self

    def __anext__(self) -> Awaitable[Any]:
        return self.step()


def test_aiter_passes_through_what_any_event_loop_sends_and_throws(
    implementation: Implementation,
) -> None:
    source = Source(lambda: Suspension("waiting"))
    decoder = implementation.SSEDecoder()

    iterator = decoder.aiter(source)
    task = first(iterator)
    assert task.send(None) == "waiting"
    with pytest.raises(StopIteration) as finished:
        task.send(b"data: a\n\ndata: b\n\nda")
    assert finished.value.value.data == "a"
    with pytest.raises(StopIteration) as finished:
        first(iterator).send(None)  # the second event of the chunk needs no waiting
    assert finished.value.value.data == "b"
    task = first(iterator)
    assert task.send(None) == "waiting"
    assert task.send(b"ta: c\n") == "waiting"  # no event yet: the source is asked again
    with pytest.raises(StopIteration) as finished:
        task.send(b"\n")
    assert finished.value.value.data == "c"
    task = first(iterator)
    assert task.send(None) == "waiting"
    with pytest.raises(ConnectionError):
        task.throw(ConnectionError())
    with pytest.raises(StopAsyncIteration):
        first(iterator).send(None)
    assert decoder.feed(b"") == ()


def test_aiter_takes_awaitables_of_every_kind(implementation: Implementation) -> None:
    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        chunks = iter([b"data: a\n", b"\ndata: b\n\n"])

        def step() -> Awaitable[bytes]:
            future = loop.create_future()
            chunk = next(chunks, None)
            if chunk is None:
                future.set_exception(StopAsyncIteration())
            else:
                loop.call_soon(future.set_result, chunk)
            return future

        return await collect(implementation.SSEDecoder().aiter(Source(step)))

    assert data(asyncio.run(main())) == ["a", "b"]


def test_aiter_of_what_is_not_awaitable_is_a_type_error(implementation: Implementation) -> None:
    decoder = implementation.SSEDecoder()
    iterator = decoder.aiter(Source(lambda: b"data: a\n\n"))  # type: ignore[arg-type,return-value]
    with pytest.raises(TypeError):
        asyncio.run(collect(iterator))
    assert decoder.feed(b"") == ()


def test_cancellation_reaches_the_source_and_leaves_the_decoder_open(
    implementation: Implementation,
) -> None:
    log: list[str] = []

    async def main() -> None:
        waiting = asyncio.Event()

        async def source() -> AsyncIterator[bytes]:
            yield b"data: a\n\ndata: ha"
            try:
                waiting.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                log.append("cancelled")
                raise

        decoder = implementation.SSEDecoder()
        iterator = decoder.aiter(source())
        taken = []

        async def consume() -> None:
            async for event in iterator:
                taken.append(event.data)  # noqa: PERF401 - what came before the cancellation

        task = asyncio.create_task(consume())
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert taken == ["a"]
        assert log == ["cancelled"]
        assert await collect(iterator) == []
        assert data(await collect(decoder.aiter(asynchronous([b"lf\n\n"])))) == ["half"]

    asyncio.run(main())


def test_wait_for_around_the_next_event_gives_it_or_times_out(
    implementation: Implementation,
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        decoder = implementation.SSEDecoder()
        iterator = decoder.aiter(Source(queue.get))
        loop.call_soon(queue.put_nowait, b"data: a\n\ndata: b\n\ndata: ")
        for expected in ("a", "b"):
            event = await asyncio.wait_for(iterator.__anext__(), 60)
            assert event.data == expected
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(iterator.__anext__(), 0.001)
        # The source was cancelled; its decoder holds the half event and goes on with another.
        queue.put_nowait(b"c\n\n")
        event = await asyncio.wait_for(decoder.aiter(Source(queue.get)).__anext__(), 60)
        assert event.data == "c"

    asyncio.run(main())


def test_two_tasks_may_not_wait_for_one_iterator(implementation: Implementation) -> None:
    async def main() -> None:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        waiting = asyncio.Event()

        async def step() -> bytes:
            waiting.set()
            return await queue.get()

        iterator = implementation.SSEDecoder().aiter(Source(step))
        first = asyncio.ensure_future(iterator.__anext__())
        await waiting.wait()
        with pytest.raises(StreamStateError):
            await iterator.__anext__()
        queue.put_nowait(b"data: a\n\n")
        assert (await first).data == "a"

    asyncio.run(main())


def test_many_streams_interleave_in_one_event_loop(implementation: Implementation) -> None:
    async def one(number: int) -> list[str]:
        async def source() -> AsyncIterator[bytes]:
            for event in range(5):
                stream = f"data: {number} 漢 {event}\n\n".encode()
                for position in range(len(stream)):
                    await asyncio.sleep(0)
                    yield stream[position : position + 1]

        return data(await collect(implementation.SSEDecoder().aiter(source())))

    async def main() -> list[list[str]]:
        return await asyncio.gather(*map(one, range(20)))

    assert asyncio.run(main()) == [[f"{i} 漢 {k}" for k in range(5)] for i in range(20)]


def test_iterators_hold_neither_chunk_nor_source_once_exhausted(
    implementation: Implementation,
) -> None:
    class Chunks(list):  # type: ignore[type-arg]
        pass

    decoder = implementation.SSEDecoder()
    events = list(decoder.iter(Chunks([TWO])))
    gc.collect()
    assert data(events) == ["a", "b"]
    assert not any(isinstance(thing, Chunks) for thing in gc.get_objects())


def test_flushed_event_ends_the_iteration_as_an_ordinary_one(
    implementation: Implementation, puller: Puller
) -> None:
    decoder = implementation.SSEDecoder(on_torn="flush")
    events = puller.rest(puller.open(decoder, [b"data: a\n\ndata: b"]))
    assert [(event.data, event.torn) for event in events] == [("a", False), ("b", False)]


# --- sources that are told ------------------------------------------------------------------


class Told:
    """A source that is told why the iteration ends before it does, and closes itself then."""

    def __init__(self, *chunks: Any) -> None:
        self.chunks = chunks
        self.log: list[Any] = []

    def _on_stop(self, failure: BaseException | None) -> None:
        self.log.append(failure)

    def __iter__(self) -> Iterator[Any]:
        for chunk in self.chunks:
            yield chunk
            if self.log:
                self.log.append("closed")
                if self.log[0] is not None:
                    raise self.log[0]
                return
        self.log.append("ended")

    async def __aiter__(self) -> AsyncIterator[Any]:
        for chunk in self:
            await asyncio.sleep(0)
            yield chunk


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    ("chunks", "expected", "log"),
    [
        ([b"data: a\n\ndata: [DONE]\n\ndata: b\n\n", b"data: c\n\n"], [], ["None", "closed"]),
        ([b"data: a\n\n", 5], ["TypeError"], ["TypeError", "closed"]),
        ([b"data: a\n\ndata: " + b"x" * 30, b"data: b\n\n"], ["L"], ["LimitExc", "closed"]),
        ([b"data: a\n\n", b"data: [DONE]"], [], ["ended", "None"]),
        ([b"data: a\n\n"], [], ["ended"]),
    ],
)
def test_source_is_told_when_the_iteration_ends_before_it_and_asked_once_more(
    implementation: Implementation,
    chunks: list[Any],
    expected: list[str],
    log: list[str],
    asynchronous: bool,
) -> None:
    source = Told(*chunks)
    decoder = implementation.SSEDecoder(limits=Limits(max_event_bytes=20), on_torn="flush")
    found: list[str] = []

    async def consume() -> None:
        async for event in decoder.aiter(source, done=b"[DONE]"):
            found.append(event.data)  # noqa: PERF401 - what came before an exception

    try:
        if asynchronous:
            asyncio.run(consume())
        else:
            for event in decoder.iter(source, done=b"[DONE]"):
                found.append(event.data)  # noqa: PERF401
    except Exception as error:
        found.append(type(error).__name__)
    assert found[0] == "a"
    assert [name[: len(want)] for name, want in zip(found[1:], expected, strict=True)] == expected
    names = [entry if isinstance(entry, str) else repr(entry) for entry in source.log]
    assert [name[: len(want)] for name, want in zip(names, log, strict=True)] == log


@pytest.mark.parametrize("asynchronous", [False, True])
def test_source_that_was_told_and_gives_more_is_not_listened_to(
    implementation: Implementation, asynchronous: bool
) -> None:
    class Deaf(Told):
        def __iter__(self) -> Iterator[Any]:
            for chunk in self.chunks:
                self.log.append(chunk)
                yield chunk

    source = Deaf(b"data: a\n\ndata: [DONE]\n\n", b"data: b\n\n", b"data: c\n\n")
    decoder = implementation.SSEDecoder()

    async def consume() -> list[str]:
        return [event.data async for event in decoder.aiter(source, done=b"[DONE]")]

    if asynchronous:
        assert asyncio.run(consume()) == ["a"]
    else:
        assert [event.data for event in decoder.iter(source, done=b"[DONE]")] == ["a"]
    assert b"data: c\n\n" not in source.log


def test_exception_of_the_method_that_is_told_comes_out(implementation: Implementation) -> None:
    class Rude(Told):
        def _on_stop(self, failure: BaseException | None) -> None:
            raise KeyError("rude")

    items = implementation.SSEDecoder().iter(Rude(b"data: [DONE]\n\n"), done=b"[DONE]")
    with pytest.raises(KeyError, match="rude"):
        next(items)
    assert list(items) == []
