"""`seamstream.compat.httpx2` beside httpx2's own: the same surface, behaviour and events.

A test with the fixture `library` holds for both, so that what it says of ours is what the original
does.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import inspect
import json
import pickle
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

import httpx2 as original
import pytest

import seamstream
import seamstream.compat.httpx2 as ours
from conftest import Implementation
from event_streams import (
    CORPUS,
    RANDOM_BODIES,
    VECTORS,
    asynchronous,
    corpus_body,
    fields,
    samples,
    some_fragmentations,
    with_last_cr_paired,
    with_plain_retry,
    without_mark,
)
from pullers import collect, run
from seamstream.testing import FragmentingServer

EVENT_STREAM = {"content-type": "text/event-stream"}
REQUEST = original.Request("GET", "http://localhost/")


@pytest.fixture(autouse=True)
def decoders(implementation: Implementation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ours use the decoder of the implementation under test."""
    monkeypatch.setattr("seamstream.compat._reading.SSEDecoder", implementation.SSEDecoder)


@pytest.fixture(params=[original, ours], ids=["original", "ours"])
def library(request: pytest.FixtureRequest) -> Any:
    return request.param


def response_of(chunks: Any, headers: dict[str, str] = EVENT_STREAM) -> original.Response:
    return original.Response(200, headers=headers, content=chunks, request=REQUEST)


def read(library: Any, chunks: Iterable[bytes], *arguments: Any, **options: Any) -> list[Any]:
    return [*library.EventSource(response_of(iter(chunks)), *arguments, **options)]


def aread(library: Any, chunks: Iterable[bytes], *arguments: Any, **options: Any) -> list[Any]:
    source = library.EventSource(response_of(asynchronous(chunks)), *arguments, **options)
    return run(collect(source))


def take_into(seen: list[str], source: Any, *, asynchronously: bool) -> None:
    """Put the data of events into a list as they come; what ends them passes through."""
    # Not list(): that would lose what came before an exception.
    if not asynchronously:
        for event in source:
            seen.append(event.data)  # noqa: PERF401
        return

    async def main() -> None:
        async for event in source:
            seen.append(event.data)  # noqa: PERF401

    run(main())


# --- The surface


def test_all_names_are_those_of_the_original() -> None:
    assert sorted(ours.__all__) == sorted(original._sse.__all__)
    assert {*ours.__all__} <= {*original.__all__}


def test_events_and_errors_are_the_originals() -> None:
    assert issubclass(ours.ServerSentEvent, original.ServerSentEvent)
    assert ours.SSEError is original.SSEError
    assert issubclass(ours.EventSource, original.EventSource)


def parameters(call: Any) -> dict[str, tuple[Any, Any]]:
    return {p.name: (p.kind, p.default) for p in inspect.signature(call).parameters.values()}


def test_event_takes_what_that_of_the_original_takes() -> None:
    found, expected = parameters(ours.ServerSentEvent), parameters(original.ServerSentEvent)
    assert found == expected
    assert [*found] == [*expected]
    described = [
        [(f.name, f.default, f.init, f.compare) for f in dataclasses.fields(cls)]
        for cls in (ours.ServerSentEvent, original.ServerSentEvent)
    ]
    assert described[0] == described[1]


def test_source_takes_what_that_of_the_original_takes() -> None:
    found, expected = parameters(ours.EventSource), parameters(original.EventSource)
    assert found.pop("profile") == (inspect.Parameter.KEYWORD_ONLY, "httpx2")
    assert found == expected
    assert [*found] == [*expected]


def test_members_are_those_of_the_original() -> None:
    def members(cls: Any) -> set[str]:
        return {name for name in dir(cls) if not name.startswith("_")}

    assert members(ours.EventSource) - members(original.EventSource) == {"stats", "torn"}
    for name in ("__iter__", "__aiter__"):
        for tell in (inspect.isgeneratorfunction, inspect.isasyncgenfunction):
            assert tell(getattr(ours.EventSource, name)) == tell(
                getattr(original.EventSource, name)
            )


def test_import_without_httpx2_names_the_extra(run_python: Any) -> None:
    code = """
import sys
sys.modules["httpx2"] = None  # as if it were not installed
try:
    import seamstream.compat.httpx2
except ImportError as error:
    print(error)
"""
    assert "pip install 'seamstream[httpx2]'" in run_python(code=code)


# --- Events


def test_event_is_what_the_constructor_makes(library: Any) -> None:
    body = "event: ping\ndata: é\nid: 7\nretry: 3\n\ndata: x\n\n".encode()
    for take in (read, aread):
        events = take(library, [body])
        made = [
            library.ServerSentEvent("ping", "é", "7", 3),
            library.ServerSentEvent(data="x", id="7"),
        ]
        assert events == made
        for show in (type, hash, repr, vars, dataclasses.asdict, dataclasses.astuple):
            assert [show(event) for event in events] == [show(event) for event in made]
        assert dataclasses.replace(events[0], data="y").data == "y"
        assert type(dataclasses.replace(events[0])) is library.ServerSentEvent
        pickled = [pickle.dumps(events[0], p) for p in range(pickle.HIGHEST_PROTOCOL + 1)]
        for each in (*map(pickle.loads, pickled), copy.copy(events[0]), copy.deepcopy(events[0])):
            assert type(each) is library.ServerSentEvent
            assert each == made[0]
        for event in (events[0], made[0]):
            for name in ("data", "note"):
                with pytest.raises(dataclasses.FrozenInstanceError):
                    setattr(event, name, "y")
                with pytest.raises(dataclasses.FrozenInstanceError):
                    delattr(event, name)
        match events[1]:
            case original.ServerSentEvent("message", "x", "7", None):
                pass
            case _:
                pytest.fail("does not match its fields")


def test_event_has_defaults(library: Any) -> None:
    event = library.ServerSentEvent()
    assert fields([event]) == [("message", "", "", None)]
    assert repr(event) == "ServerSentEvent(event='message', data='', id='', retry=None)"


def test_event_of_ours_and_of_the_original_are_equal_both_ways() -> None:
    arguments = [("a", "b", "c", 1), ("a", "b", "c", 2), ("message", "", "", None)]
    mine = [ours.ServerSentEvent(*each) for each in arguments]
    theirs = [original.ServerSentEvent(*each) for each in arguments]
    assert mine == theirs
    assert theirs == mine
    assert list(map(hash, mine)) == list(map(hash, theirs))
    assert list(map(repr, mine)) == list(map(repr, theirs))
    for one, other in ((mine, theirs), (theirs, mine), (mine, mine)):
        assert one[0] != other[1]
        assert one[0] != arguments[0]
    assert len({*mine, *theirs}) == 3


def test_event_json_is_that_of_json(library: Any) -> None:
    number = 2**70
    (event,) = read(library, [b'data: {"n": %d, "x": NaN}\n\n' % number])
    assert event.json()["n"] == number
    assert repr(event.json()["x"]) == "nan"
    (event,) = read(library, [b"data: [DONE]\n\n"])
    with pytest.raises(json.JSONDecodeError, match="Expecting value"):
        event.json()
    assert library.ServerSentEvent(data='"\\ud800"').json() == "\ud800"
    with pytest.raises(json.JSONDecodeError):
        library.ServerSentEvent(data="\ud800").json()
    with pytest.raises(TypeError):
        library.ServerSentEvent(data=None).json()


def test_event_is_made_by_its_constructor_where_it_cannot_be_made_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @dataclasses.dataclass(frozen=True, slots=True)
    class Slotted:
        event: str = "message"
        data: str = ""
        id: str = ""
        retry: int | None = None

    monkeypatch.setattr(ours, "ServerSentEvent", Slotted)
    assert ours._find_constructor() is Slotted


# --- EventSource


def test_source_has_its_response(library: Any) -> None:
    response = response_of(b"")
    assert library.EventSource(response).response is response


def test_source_gives_generators(library: Any) -> None:
    source = library.EventSource(response_of(b""))
    assert inspect.isgenerator(iter(source))
    assert inspect.isasyncgen(aiter(source))


@pytest.mark.parametrize(
    "content_type", ["text/event-stream", "Text/Event-Stream", " text/event-stream ; charset=x"]
)
def test_content_type_of_an_event_stream_is_accepted(library: Any, content_type: str) -> None:
    source = library.EventSource(response_of(b"data: x\n\n", {"content-type": content_type}))
    assert [event.data for event in source] == ["x"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        *(
            {"content-type": content_type}
            for content_type in ("", "text/html", "x/text/event-stream", "text/event-stream+x")
        ),
    ],
)
def test_other_content_type_is_an_error_at_the_first_event(
    library: Any, headers: dict[str, str]
) -> None:
    source = library.EventSource(response_of(iter([b"data: x\n\n"]), headers))
    iterator, asynchronous_iterator = iter(source), aiter(source)
    takes: list[Callable[[], Any]]
    takes = [lambda: next(iterator), lambda: run(anext(asynchronous_iterator))]
    for take in takes:
        with pytest.raises(original.SSEError, match="text/event-stream") as caught:
            take()
        assert repr(headers.get("content-type", "")) in str(caught.value)
        assert caught.value.request is REQUEST


def test_response_without_a_request_is_the_error_of_httpx2(library: Any) -> None:
    source = library.EventSource(original.Response(200, headers=EVENT_STREAM, content=b""))
    with pytest.raises(RuntimeError, match="request"):
        next(iter(source))


@pytest.mark.parametrize("asynchronously", [False, True])
def test_transport_error_comes_after_the_events_and_with_its_request(
    library: Any, asynchronously: bool
) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"data: 1\n\ndata: 2\n\ndata: 3"
        raise original.ReadError("gone")

    async def asynchronous_chunks() -> AsyncIterator[bytes]:
        for chunk in chunks():
            yield chunk

    seen: list[str] = []
    content = asynchronous_chunks() if asynchronously else chunks()
    source = library.EventSource(response_of(content))
    with pytest.raises(original.ReadError, match="gone") as caught:
        take_into(seen, source, asynchronously=asynchronously)
    assert seen == ["1", "2"]
    assert caught.value.request is REQUEST


def test_events_come_out_with_the_chunk_that_completes_them(library: Any) -> None:
    pulled = []

    def chunks() -> Iterator[bytes]:
        for chunk in (b"data: 1\n\ndata: 2\n", b"\ndata: 3", b"\n\n"):
            pulled.append(chunk)
            yield chunk

    seen = [(e.data, len(pulled)) for e in library.EventSource(response_of(chunks()))]
    assert seen == [("1", 1), ("2", 2), ("3", 3)]


def test_response_that_was_read_gives_its_events_each_time(library: Any) -> None:
    source = library.EventSource(response_of(b"data: x\n\n"))
    assert [[event.data for event in source] for _ in range(2)] == [["x"], ["x"]]


def test_stream_that_was_consumed_is_the_error_of_httpx2(library: Any) -> None:
    source = library.EventSource(response_of(iter([b"data: x\n\n"])))
    assert len([*source]) == 1
    with pytest.raises(original.StreamConsumed):
        next(iter(source))


def test_dropped_async_iteration_is_closed_down_to_the_response(library: Any) -> None:
    closed = []

    async def chunks() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"data: x\n\n"
        finally:
            closed.append(True)

    async def take_one() -> None:
        response = response_of(chunks())
        iterator: Any = aiter(library.EventSource(response))
        assert (await anext(iterator)).data == "x"
        await iterator.aclose()
        await response.aclose()

    run(take_one())
    assert closed == [True]


def test_text_keeps_what_is_no_line_end_of_the_standard(library: Any) -> None:
    text = "a\u2028b\u2029c\u0085d\ve\ff\x1cg\x1dh\x1ei"
    for chunks in some_fragmentations(f"data: {text}\n\n".encode()):
        assert [event.data for event in read(library, chunks)] == [text]


# --- max_event_size


@pytest.mark.parametrize("asynchronously", [False, True])
@pytest.mark.parametrize("size", [0, -1, 1, 20])
def test_event_beyond_the_size_is_an_error_after_the_events_before_it(
    library: Any, size: int, asynchronously: bool
) -> None:
    body = b"data: 1\n\ndata: 2\n\ndata: 01234567890123456789\n\ndata: 3\n\n"
    for chunks in some_fragmentations(body):
        seen: list[str] = []
        content = asynchronous(chunks) if asynchronously else iter(chunks)
        source = library.EventSource(response_of(content), size)
        with pytest.raises(original.SSEError, match=rf"(^|\D){size}\b") as caught:
            take_into(seen, source, asynchronously=asynchronously)
        assert caught.value.request is REQUEST
        assert seen == (["1", "2"] if size == 20 else [])


def test_event_beyond_the_size_is_an_error_before_it_ends(library: Any) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"data: 1\n\n"
        yield b"data: "
        yield b"01234567890123456789"
        raise AssertionError("asked for more")

    seen: list[str] = []
    with pytest.raises(original.SSEError):
        take_into(seen, library.EventSource(response_of(chunks()), 20), asynchronously=False)
    assert seen == ["1"]


def test_size_none_is_no_limit(library: Any) -> None:
    body = b"data: " + b"x" * (2 << 20) + b"\n\n"
    with pytest.raises(original.SSEError):
        read(library, [body])  # the default is a MiB
    for size in (None, 4 << 20, 1 << 80):
        (event,) = read(library, [body], size)
        assert len(event.data) == 2 << 20


def test_size_counts_the_line_ends_and_comments_within_an_event() -> None:
    body = b"data: 1\n: c\ndata: 2\n\n"  # 7 + 7 without, 8 + 4 + 8 with
    assert len(read(original, [body], 14)) == 1
    for take in (read, aread):
        assert len(take(ours, [body], max_event_size=20)) == 1
        with pytest.raises(original.SSEError):
            take(ours, [body], max_event_size=19)


def test_wrong_arguments_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="profile"):
        ours.EventSource(response_of(b""), profile="nothing")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="max_event_size must be an int or None, not str"):
        ours.EventSource(response_of(b""), "20")  # type: ignore[arg-type]


def test_error_of_a_large_event_names_the_argument() -> None:
    with pytest.raises(original.SSEError) as caught:
        read(ours, [b"data: 1\n\n", b"data: 0123456789\n\n"], 10)
    assert str(caught.value) == "an event outgrew max_event_size=10 at byte 19"


# --- The same events


def needed_by_the_original(body: bytes) -> bytes:
    return with_last_cr_paired(with_plain_retry(without_mark(body)))


def assert_same_events(body: bytes, chunks: list[bytes]) -> None:
    expected = read(original, [needed_by_the_original(body)], None)
    assert read(ours, chunks, None) == expected, chunks
    assert aread(ours, chunks, None) == expected, chunks
    if needed_by_the_original(body) == body:
        assert read(original, chunks, None) == aread(original, chunks, None) == expected


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vectors_give_the_events_of_the_original(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["input"])
    for chunks in some_fragmentations(body):
        assert_same_events(body, chunks)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vectors_give_the_events_of_the_standard_with_its_profile(vector: dict[str, Any]) -> None:
    expected = [tuple(event.values()) for event in vector["events"]]
    for chunks in some_fragmentations(bytes.fromhex(vector["input"])):
        assert fields(read(ours, chunks, profile="whatwg")) == expected
        assert fields(aread(ours, chunks, profile="whatwg")) == expected


def test_random_bodies_give_the_events_of_the_original() -> None:
    for body in RANDOM_BODIES:
        for chunks in some_fragmentations(body):
            assert_same_events(body, chunks)


@pytest.mark.needs_shared
@pytest.mark.parametrize("family", sorted({entry["family"] for entry in CORPUS}) or ["absent"])
def test_recorded_bodies_give_the_events_of_the_original(family: str) -> None:
    for entry in (entry for entry in CORPUS if entry["family"] == family):
        body = corpus_body(entry)
        assert needed_by_the_original(body) == body, "a real body meets a fault: look at it"
        for chunks in some_fragmentations(body):
            assert_same_events(body, chunks)


@pytest.mark.parametrize("write_size", [1, 16, 64, 1460])
def test_fragments_of_a_server_give_the_events_of_the_original(write_size: int) -> None:
    async def aread_from(url: str) -> list[list[Any]]:
        async with original.AsyncClient() as client:
            async with client.sse(url) as source:
                theirs = [event async for event in source]
            async with client.sse(url) as source:
                return [theirs, [event async for event in ours.EventSource(source.response)]]

    for make in samples(write_size):
        sent = make()
        with (
            FragmentingServer(sent.body, write_size=write_size) as server,
            original.Client() as client,
        ):
            with client.sse(server.url) as source:
                expected = [*source]
            with client.sse(server.url) as source:
                assert [*ours.EventSource(source.response)] == expected
            assert asyncio.run(aread_from(server.url)) == [expected] * 2
        assert len(expected) > 1


# --- What is different, and right

# A body, what the original gives for it, and what the standard says. The page lists each.
DIFFERENCES: dict[str, tuple[bytes, list[Any], list[Any]]] = {
    "byte order mark": (
        b"\xef\xbb\xbfdata: 1\n\ndata: 2\n\n",
        [("message", "2", "", None)],
        [("message", "1", "", None), ("message", "2", "", None)],
    ),
    "retry with a sign": (
        b"retry: +5\ndata: x\n\n",
        [("message", "x", "", 5)],
        [("message", "x", "", None)],
    ),
    "retry with an underscore": (
        b"retry: 1_0\ndata: x\n\n",
        [("message", "x", "", 10)],
        [("message", "x", "", None)],
    ),
    "retry that no client can hold": (
        b"retry: 99999999999999999999\ndata: x\n\n",
        [("message", "x", "", 99999999999999999999)],
        [("message", "x", "", 2**53 - 1)],
    ),
    "cut after a CR": (
        b"data: 1\r\rdata: 2\r",
        [("message", "1", "", None), ("message", "2", "", None)],
        [("message", "1", "", None)],
    ),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_difference_is_as_the_page_says(name: str) -> None:
    body, theirs, right = DIFFERENCES[name]
    for chunks in some_fragmentations(body):
        assert fields(read(original, chunks)) == theirs
        for profile in ("httpx2", "whatwg"):
            assert fields(read(ours, chunks, profile=profile)) == right
            assert fields(aread(ours, chunks, profile=profile)) == right


# The same, where the original's behaviour is ours too, unless the standard's is asked for.
PROFILED: dict[str, tuple[bytes, list[Any], list[Any]]] = {
    "block with an id only": (b"id: 1\n\n\n", [("message", "", "1", None)], []),
    "block with an empty id": (b"id\n\n", [("message", "", "", None)], []),
    "block with an event only": (b"event: a\n\n", [("a", "", "", None)], []),
    "block with an empty event": (b"event:\n\n", [("message", "", "", None)], []),
    "block with a retry only": (b"retry: 1\n\n", [("message", "", "", 1)], []),
}


@pytest.mark.parametrize("name", PROFILED)
def test_profile_chooses_between_the_original_and_the_standard(name: str) -> None:
    body, theirs, right = PROFILED[name]
    for chunks in some_fragmentations(body):
        assert fields(read(original, chunks)) == theirs
        for take in (read, aread):
            assert fields(take(ours, chunks)) == theirs
            assert fields(take(ours, chunks, profile="httpx2")) == theirs
            assert fields(take(ours, chunks, profile="whatwg")) == right


@pytest.mark.parametrize("profile", ["openai", "anthropic"])
def test_event_of_any_profile_has_a_name(profile: Any) -> None:
    assert [event.event for event in read(ours, [b"data: x\n\n"], profile=profile)] == ["message"]


def test_charset_of_the_head_means_nothing() -> None:
    headers = {"content-type": "text/event-stream; charset=iso-8859-1"}
    body = "data: é\n\n".encode()
    assert [event.data for event in original.EventSource(response_of(body, headers))] == ["Ã©"]
    assert [event.data for event in ours.EventSource(response_of(body, headers))] == ["é"]


@pytest.mark.parametrize("asynchronously", [False, True])
def test_cut_event_is_no_event_but_is_kept(
    asynchronously: bool, caplog: pytest.LogCaptureFixture
) -> None:
    body = "data: 1\n\nid: 2\ndata: cut 縫".encode()[:-1]
    assert [event.data for event in read(original, [body])] == ["1"]
    for chunks in some_fragmentations(body):
        caplog.clear()
        content = asynchronous(chunks) if asynchronously else iter(chunks)
        source = ours.EventSource(response_of(content))
        assert source.torn is None
        seen: list[str] = []
        take_into(seen, source, asynchronously=asynchronously)
        assert seen == ["1"]
        assert source.torn is not None
        assert (source.torn.raw, source.torn.offset) == (body[9:], 9)
        assert source.stats == seamstream.Stats(bytes=len(body), events=1, torn=1, replaced=1)
        (record,) = caplog.records
        assert (record.name, record.levelname) == ("seamstream.compat", "WARNING")
