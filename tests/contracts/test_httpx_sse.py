"""`seamstream.compat.httpx_sse` beside httpx-sse: the same surface, behaviour and events.

A test with the fixture `library` holds for both, so that what it says of ours is what the original
does.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import inspect
import json
import pickle
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import httpx
import httpx_sse as original
import pytest

import seamstream
import seamstream.compat.httpx_sse as ours
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
    with_plain_retry,
    without_mark,
)
from pullers import collect, run
from seamstream.testing import FragmentingServer

EVENT_STREAM = {"content-type": "text/event-stream"}


@pytest.fixture(autouse=True)
def decoders(implementation: Implementation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ours use the decoder of the implementation under test."""
    monkeypatch.setattr("seamstream.compat._reading.SSEDecoder", implementation.SSEDecoder)


@pytest.fixture(params=[original, ours], ids=["original", "ours"])
def library(request: pytest.FixtureRequest) -> Any:
    return request.param


def response_of(chunks: Any, headers: dict[str, str] = EVENT_STREAM) -> httpx.Response:
    return httpx.Response(200, headers=headers, content=chunks)


def read(library: Any, chunks: Iterable[bytes], **options: Any) -> list[Any]:
    return [*library.EventSource(response_of(iter(chunks)), **options).iter_sse()]


def aread(library: Any, chunks: Iterable[bytes], **options: Any) -> list[Any]:
    source = library.EventSource(response_of(asynchronous(chunks)), **options)
    return run(collect(source.aiter_sse()))


def take_into(seen: list[str], source: Any, take: str) -> None:
    """Put the data of events into a list as they come; what ends them passes through."""
    # Not list(): that would lose what came before an exception.
    if take == "iter_sse":
        for event in source.iter_sse():
            seen.append(event.data)  # noqa: PERF401
        return

    async def main() -> None:
        async for event in source.aiter_sse():
            seen.append(event.data)  # noqa: PERF401

    run(main())


def client_of(chunks: Any, **rest: Any) -> httpx.Client:
    def answer(request: httpx.Request) -> httpx.Response:
        return response_of(chunks, **rest)

    return httpx.Client(transport=httpx.MockTransport(answer))


# --- The surface


def test_all_names_are_those_of_the_original() -> None:
    assert sorted(ours.__all__) == sorted(original.__all__)
    for name in ours.__all__:
        assert type(getattr(ours, name)) is type(getattr(original, name))


def test_version_is_that_of_the_original_it_was_tested_with() -> None:
    assert ours.__version__ == original.__version__


def parameters(call: Any) -> dict[str, tuple[Any, Any]]:
    return {p.name: (p.kind, p.default) for p in inspect.signature(call).parameters.values()}


@pytest.mark.parametrize(
    ("name", "ours_alone"),
    [
        ("EventSource", {"profile", "limits"}),
        ("EventSource.iter_sse", set()),
        ("EventSource.aiter_sse", set()),
        ("ServerSentEvent", set()),
        ("ServerSentEvent.json", set()),
        ("SSEError", set()),
        ("connect_sse", {"profile", "limits"}),
        ("aconnect_sse", {"profile", "limits"}),
    ],
)
def test_calls_take_what_those_of_the_original_take(name: str, ours_alone: set[str]) -> None:
    theirs: Any = original
    mine: Any = ours
    for part in name.split("."):
        theirs, mine = getattr(theirs, part), getattr(mine, part)
    expected, found = parameters(theirs), parameters(mine)
    assert {key: value for key, value in found.items() if key not in ours_alone} == expected
    assert [*expected] == [key for key in found if key not in ours_alone]
    for added in ours_alone:
        kind, default = found[added]
        assert kind is inspect.Parameter.KEYWORD_ONLY
        assert default is not inspect.Parameter.empty
    for tell in (inspect.isgeneratorfunction, inspect.isasyncgenfunction, inspect.isclass):
        assert tell(mine) == tell(theirs)


@pytest.mark.parametrize("name", ["EventSource", "ServerSentEvent"])
def test_members_are_those_of_the_original(name: str) -> None:
    def members(cls: Any) -> dict[str, type]:
        return {key: type(getattr(cls, key)) for key in dir(cls) if not key.startswith("_")}

    found, expected = members(getattr(ours, name)), members(getattr(original, name))
    ours_alone = found.keys() - expected.keys()
    assert ours_alone == ({"stats", "torn"} if name == "EventSource" else set())
    assert {key: found[key] for key in expected} == expected


def test_error_is_a_transport_error_of_httpx(library: Any) -> None:
    assert library.SSEError.__bases__ == (httpx.TransportError,)
    request = httpx.Request("GET", "http://localhost")
    assert library.SSEError("x", request=request).request is request
    with pytest.raises(RuntimeError):
        _ = library.SSEError("x").request


@pytest.mark.parametrize("missing", ["httpx", "idna"])
def test_import_without_httpx_names_the_extra(run_python: Any, missing: str) -> None:
    code = f"""
import sys
sys.modules[{missing!r}] = None  # as if it were not installed
try:
    import seamstream.compat.httpx_sse
except ImportError as error:
    print(type(error).__name__, error)
"""
    printed = run_python(code=code)
    if missing == "httpx":
        assert "pip install 'seamstream[httpx]'" in printed
    else:  # that httpx itself is broken is another matter
        assert "idna" in printed
        assert "seamstream[" not in printed


# --- ServerSentEvent


def test_event_has_defaults(library: Any) -> None:
    event = library.ServerSentEvent()
    assert fields([event]) == [("message", "", "", None)]
    assert repr(event) == "ServerSentEvent(event='message')"


def test_event_takes_none_and_the_empty_name_for_the_defaults(library: Any) -> None:
    assert fields([library.ServerSentEvent(None, None, None, None)]) == [("message", "", "", None)]
    assert library.ServerSentEvent("").event == "message"


def test_event_takes_its_arguments_in_order(library: Any) -> None:
    event = library.ServerSentEvent("ping", "{}", "7", 0)
    assert fields([event]) == [("ping", "{}", "7", 0)]
    assert repr(event) == "ServerSentEvent(event='ping', data='{}', id='7', retry=0)"


@pytest.mark.parametrize("name", ["event", "data", "id", "retry"])
def test_event_fields_cannot_be_set_but_others_can(library: Any, name: str) -> None:
    (read_event,) = read(library, [b"data: x\n\n"])
    for event in (library.ServerSentEvent(data="x"), read_event):
        with pytest.raises(AttributeError):
            setattr(event, name, "y")
        with pytest.raises(AttributeError):
            delattr(event, name)
        event.note = "y"
        assert (event.note, event.data) == ("y", "x")


def test_event_equals_itself_only(library: Any) -> None:
    one, other = (read(library, [b"data: x\n\n"])[0] for _ in range(2))
    assert one != other
    assert [one, other].index(other) == 1
    assert len({one, other, one}) == 2
    assert library.ServerSentEvent() != library.ServerSentEvent()


def test_event_can_be_subclassed(library: Any) -> None:
    class Named(library.ServerSentEvent):
        def __init__(self, name: str) -> None:
            super().__init__(event=name)
            self.name = name

    event = Named("ping")
    assert (event.event, event.data, event.name) == ("ping", "", "ping")
    assert isinstance(event, library.ServerSentEvent)


def test_event_survives_pickle_and_copy(library: Any) -> None:
    made = library.ServerSentEvent("ping", "é", "7", 3)
    (from_stream,) = read(library, ["event: ping\ndata: é\nid: 7\nretry: 3\n\n".encode()])
    for event in (made, from_stream):
        event.note = ["x"]
        copies = [pickle.loads(pickle.dumps(event, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1)]
        for each in [*copies, copy.copy(event), copy.deepcopy(event)]:
            assert type(each) is library.ServerSentEvent
            assert fields([each]) == [("ping", "é", "7", 3)]
            assert each.note == ["x"]


def test_event_fields_are_of_the_exact_types(library: Any) -> None:
    (event,) = read(library, ["event: é\ndata: é\nid: é\nretry: 3\n\n".encode()])
    assert [type(field) for field in fields([event])[0]] == [str, str, str, int]
    assert type(event) is library.ServerSentEvent


JSON_TEXTS = [
    *('{"a": [1, 2.5, null, true]}', '"é"', "  7 ", "[DONE]", "", " ", "{", '{"a":1,}', "nul"),
    *("NaN", "[Infinity, -Infinity]", "1e400", "-0", "-0.0", "1.0", "0.1", "01", "1.", ".5"),
    *("9223372036854775808", "18446744073709551616", "-9223372036854775809", "1" * 30, "1" * 400),
    *('{"n": 123456789012345678901234567890}', '{"t": "99999999999999999999999"}', "1e5", "1E-7"),
    *('"\\ud800"', '"\\ud83d\\ude00"', '"\\u0000"', '{"a":1,"b":2,"a":3}', '"\\q"', '"\t"'),
    *("1.7976931348623157e308", "5e-324", "2.2250738585072014e-308", "0.30000000000000004"),
    *("[" * 40 + "]" * 40, "[" * 2000 + "]" * 2000, '{"a":' * 30 + "1" + "}" * 30, "\ufeff1"),
    *('"\u2028"', "[1]\u2028", "'x'", "{'a': 1}", '{"a" 1}', "[1 2]", '"abc', "\u00a01", "true x"),
]


def outcome(call: Any) -> Any:
    """What a call gives, exactly: the types within, and all of an exception."""
    try:
        value = call()
    except json.JSONDecodeError as error:
        return type(error), error.args, error.msg, error.doc, error.pos
    except (ValueError, RecursionError) as error:
        return type(error)
    return repr(value)


@pytest.mark.parametrize("text", JSON_TEXTS, ids=range(len(JSON_TEXTS)))
def test_event_json_gives_what_json_gives(library: Any, text: str) -> None:
    lines = text.encode().splitlines() or [b""]
    (from_stream,) = read(library, [b"".join(b"data: %b\n" % line for line in lines), b"\n"])
    for event in (from_stream, library.ServerSentEvent(data=text)):
        assert outcome(event.json) == outcome(lambda event=event: json.loads(event.data))


def test_event_json_of_ill_formed_text_is_that_of_the_replaced_text(library: Any) -> None:
    (event,) = read(library, [b'data: ["\xff", 1]\n\n'])
    assert event.json() == ["\N{REPLACEMENT CHARACTER}", 1]


def test_event_json_is_parsed_on_every_call(library: Any) -> None:
    (event,) = read(library, [b"data: [1]\n\n"])
    event.json().append(2)
    assert event.json() == [1]


# --- EventSource


def test_source_has_its_response(library: Any) -> None:
    response = response_of(b"")
    source = library.EventSource(response)
    assert source.response is response
    with pytest.raises(AttributeError):
        source.response = response


def test_source_gives_generators(library: Any) -> None:
    source = library.EventSource(response_of(iter([b"data: x\n\n"])))
    assert inspect.isgenerator(source.iter_sse())
    assert inspect.isasyncgen(source.aiter_sse())


@pytest.mark.parametrize(
    "content_type",
    [
        *("text/event-stream", "text/event-stream; charset=utf-8", "text/event-stream;charset=x"),
        *(" text/event-stream ", "x text/event-stream", "text/event-stream+x"),
    ],
)
def test_content_type_of_an_event_stream_is_accepted(library: Any, content_type: str) -> None:
    response = response_of(iter([b"data: x\n\n"]), {"content-type": content_type})
    assert fields(library.EventSource(response).iter_sse()) == [("message", "x", "", None)]


@pytest.mark.parametrize("headers", [{}, {"content-type": ""}, {"content-type": "text/html"}])
def test_other_content_type_is_an_error_at_the_first_event(
    library: Any, headers: dict[str, str]
) -> None:
    taken = []

    def chunks() -> Iterator[bytes]:
        taken.append(b"")
        yield b"data: x\n\n"

    source = library.EventSource(response_of(chunks(), headers))
    iterator = source.iter_sse()
    with pytest.raises(library.SSEError, match="text/event-stream") as caught:
        next(iterator)
    assert repr(headers.get("content-type", "")) in str(caught.value)
    asynchronous_iterator = source.aiter_sse()
    with pytest.raises(library.SSEError, match="text/event-stream"):
        run(collect(asynchronous_iterator))
    assert taken == []


def test_content_type_in_its_parameters_does_not_count(library: Any) -> None:
    response = response_of(b"", {"content-type": "text/html; text/event-stream"})
    with pytest.raises(library.SSEError):
        next(library.EventSource(response).iter_sse())


def test_events_come_out_with_the_chunk_that_completes_them(library: Any) -> None:
    pulled = []

    def chunks() -> Iterator[bytes]:
        for chunk in (b"data: 1\n\ndata: 2\n", b"\ndata: 3", b"\n\n"):
            pulled.append(chunk)
            yield chunk

    seen = [(e.data, len(pulled)) for e in library.EventSource(response_of(chunks())).iter_sse()]
    assert seen == [("1", 1), ("2", 2), ("3", 3)]


def test_events_before_a_transport_error_come_first(library: Any) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"data: 1\n\ndata: 2\n\ndata: 3"
        raise httpx.ReadError("gone")

    async def asynchronous_chunks() -> AsyncIterator[bytes]:
        for chunk in chunks():
            yield chunk

    for source, take in ((chunks(), "iter_sse"), (asynchronous_chunks(), "aiter_sse")):
        seen: list[str] = []
        with pytest.raises(httpx.ReadError, match="gone"):
            take_into(seen, library.EventSource(response_of(source)), take)
        assert seen == ["1", "2"]


def test_response_that_was_read_gives_its_events_each_time(library: Any) -> None:
    response = response_of(b"data: x\n\n")
    assert response.read()
    source = library.EventSource(response)
    for _ in range(2):
        assert fields(source.iter_sse()) == [("message", "x", "", None)]


def test_stream_that_was_consumed_is_the_error_of_httpx(library: Any) -> None:
    source = library.EventSource(response_of(iter([b"data: x\n\n"])))
    assert len([*source.iter_sse()]) == 1
    with pytest.raises(httpx.StreamConsumed):
        next(source.iter_sse())


def test_wrong_kind_of_iteration_is_the_error_of_httpx(library: Any) -> None:
    with pytest.raises(RuntimeError, match="sync"):
        next(library.EventSource(response_of(asynchronous([b""]))).iter_sse())
    with pytest.raises(RuntimeError, match="async"):
        run(collect(library.EventSource(response_of(iter([b""]))).aiter_sse()))


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
        iterator = library.EventSource(response).aiter_sse()
        assert (await iterator.__anext__()).data == "x"
        await iterator.aclose()
        with pytest.raises(StopAsyncIteration):
            await iterator.__anext__()
        await response.aclose()

    run(take_one())
    assert closed == [True]


def test_text_keeps_what_is_no_line_end_of_the_standard(library: Any) -> None:
    text = "a\u2028b\u2029c\u0085d\ve\ff\x1cg\x1dh\x1ei"
    body = f"data: {text}\n\n".encode()
    for chunks in some_fragmentations(body):
        assert fields(read(library, chunks)) == [("message", text, "", None)]


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_line_ends_may_be_cut(library: Any, end: str) -> None:
    body = end.join(["event: a", "data: 1", "data: 2", "", "data: 3", "", ""]).encode()
    expected = [("a", "1\n2", "", None), ("message", "3", "", None)]
    for chunks in some_fragmentations(body):
        assert fields(read(library, chunks)) == expected
        assert fields(aread(library, chunks)) == expected


# --- connect_sse


def test_connect_sets_headers_in_the_mapping_it_was_given(library: Any) -> None:
    seen = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return response_of(b"data: x\n\n")

    headers = {"Accept": "application/json", "X-Mine": "1"}
    with httpx.Client(transport=httpx.MockTransport(answer)) as client:
        with library.connect_sse(
            client, "POST", "http://localhost/a", headers=headers, params={"q": "1"}, json=[1]
        ) as source:
            assert type(source) is library.EventSource
            assert [e.data for e in source.iter_sse()] == ["x"]
        with library.connect_sse(client, "GET", "http://localhost/b"):
            pass
    wanted = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
    assert headers == {**wanted, "X-Mine": "1"}
    post, get = seen
    assert (post.method, str(post.url), post.content) == ("POST", "http://localhost/a?q=1", b"[1]")
    assert post.headers["X-Mine"] == "1"
    for request in seen:
        assert wanted.items() <= {k.title(): v for k, v in request.headers.items()}.items()
    assert get.headers.get_list("accept") == ["text/event-stream"]


def test_connect_takes_headers_of_httpx(library: Any) -> None:
    headers = httpx.Headers({"accept": "application/json"})
    with client_of(b"") as client, library.connect_sse(client, "GET", "http://x", headers=headers):
        pass
    assert headers.get_list("Accept") == ["text/event-stream"]


@pytest.mark.parametrize("headers", [None, [("X-Mine", "1")]])
def test_connect_of_ours_takes_all_that_httpx_takes_for_headers(headers: Any) -> None:
    with client_of(b"") as client:
        with (
            pytest.raises(TypeError),
            original.connect_sse(client, "GET", "http://x", headers=headers),
        ):
            pass
        with ours.connect_sse(client, "GET", "http://x", headers=headers) as source:
            request = source.response.request
    assert request.headers["Accept"] == "text/event-stream"
    assert request.headers.get("X-Mine") == (None if headers is None else "1")


@pytest.mark.parametrize("how", ["end", "break", "error"])
def test_connect_closes_the_response_however_the_block_is_left(library: Any, how: str) -> None:
    with client_of(iter([b"data: x\n\n", b"data: y\n\n"])) as client:
        with (
            contextlib.suppress(ZeroDivisionError),
            library.connect_sse(client, "GET", "http://localhost") as source,
        ):
            for _ in source.iter_sse():
                if how == "break":
                    break
                if how == "error":
                    raise ZeroDivisionError
        assert source.response.is_closed


def test_aconnect_does_so_with_an_application(library: Any) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-type", b"text/event-stream")],
            }
        )
        for part in (b"data: ", headers[b"accept"], b"\n\n", b"data: ", headers[b"cache-control"]):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"\n\n"})

    headers = {"X-Mine": "1"}

    async def main() -> list[str]:
        transport = httpx.ASGITransport(app=application)
        async with (
            httpx.AsyncClient(transport=transport) as client,
            library.aconnect_sse(client, "GET", "http://localhost", headers=headers) as source,
        ):
            return [event.data async for event in source.aiter_sse()]

    assert asyncio.run(main()) == ["text/event-stream", "no-store"]
    assert headers == {
        "X-Mine": "1",
        "Accept": "text/event-stream",
        "Cache-Control": "no-store",
    }


# --- The same events


def needed_by_the_original(body: bytes) -> bytes:
    return with_plain_retry(without_mark(body))


def assert_same_events(body: bytes, chunks: list[bytes]) -> None:
    expected = fields(read(original, [needed_by_the_original(body)]))
    assert fields(read(ours, chunks)) == expected, chunks
    assert fields(aread(ours, chunks)) == expected, chunks
    if needed_by_the_original(body) == body:
        assert fields(read(original, chunks)) == fields(aread(original, chunks)) == expected


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
    async def aread_from(library: Any, url: str) -> list[Any]:
        async with (
            httpx.AsyncClient() as client,
            library.aconnect_sse(client, "GET", url) as source,
        ):
            return [event async for event in source.aiter_sse()]

    for make in samples(write_size):
        sent = make()
        with (
            FragmentingServer(sent.body, write_size=write_size) as server,
            httpx.Client() as client,
        ):
            seen = []
            for library in (original, ours):
                with library.connect_sse(client, "POST", server.url, json={}) as source:
                    seen.append(fields(source.iter_sse()))
                seen.append(fields(asyncio.run(aread_from(library, server.url))))
        assert len(seen[0]) > 1
        assert seen == [seen[0]] * 4


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
    "retry with a minus": (
        b"retry: -5\ndata: x\n\n",
        [("message", "x", "", -5)],
        [("message", "x", "", None)],
    ),
    "retry with an underscore": (
        b"retry: 1_0\ndata: x\n\n",
        [("message", "x", "", 10)],
        [("message", "x", "", None)],
    ),
    "retry with other digits": (
        "retry: ٣\ndata: x\n\n".encode(),
        [("message", "x", "", 3)],
        [("message", "x", "", None)],
    ),
    "retry with a space": (
        b"retry:  5\ndata: x\n\n",
        [("message", "x", "", 5)],
        [("message", "x", "", None)],
    ),
    "retry that no client can hold": (
        b"retry: 99999999999999999999\ndata: x\n\n",
        [("message", "x", "", 99999999999999999999)],
        [("message", "x", "", 2**53 - 1)],
    ),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_difference_is_as_the_page_says(name: str) -> None:
    body, theirs, right = DIFFERENCES[name]
    for chunks in some_fragmentations(body):
        assert fields(read(original, chunks)) == theirs
        for profile in ("httpx_sse", "whatwg"):
            assert fields(read(ours, chunks, profile=profile)) == right
            assert fields(aread(ours, chunks, profile=profile)) == right


# The same, where the original's behaviour is ours too, unless the standard's is asked for.
PROFILED: dict[str, tuple[bytes, list[Any], list[Any]]] = {
    "block with an id only": (b"id: 1\n\n", [("message", "", "1", None)], []),
    "block with an event only": (b"event: a\n\n", [("a", "", "", None)], []),
    "block with a retry only": (b"retry: 1\n\n", [("message", "", "", 1)], []),
    "empty lines after an id": (
        b"id: 1\ndata: x\n\n\n: comment\n\n",
        [("message", "x", "1", None), ("message", "", "1", None), ("message", "", "1", None)],
        [("message", "x", "1", None)],
    ),
}


@pytest.mark.parametrize("name", PROFILED)
def test_profile_chooses_between_the_original_and_the_standard(name: str) -> None:
    body, theirs, right = PROFILED[name]
    for chunks in some_fragmentations(body):
        assert fields(read(original, chunks)) == theirs
        for take in (read, aread):
            assert fields(take(ours, chunks)) == theirs
            assert fields(take(ours, chunks, profile="httpx_sse")) == theirs
            assert fields(take(ours, chunks, profile="whatwg")) == right


def test_profile_is_an_argument_of_connect_too() -> None:
    with (
        client_of(b"id: 1\n\n") as client,
        ours.connect_sse(client, "GET", "http://x", profile="whatwg") as source,
    ):
        assert [*source.iter_sse()] == []

    async def main() -> list[Any]:
        transport = httpx.MockTransport(lambda request: response_of(b"id: 1\n\n"))
        async with (
            httpx.AsyncClient(transport=transport) as client,
            ours.aconnect_sse(client, "GET", "http://x", profile="whatwg") as source,
        ):
            return [event async for event in source.aiter_sse()]

    assert asyncio.run(main()) == []


def test_unknown_profile_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="profile"):
        ours.EventSource(response_of(b""), profile="nothing")  # type: ignore[arg-type]


def test_charset_of_the_head_means_nothing() -> None:
    headers = {"content-type": "text/event-stream; charset=iso-8859-1"}
    body = "data: é\n\n".encode()
    assert [e.data for e in original.EventSource(response_of(body, headers)).iter_sse()] == ["Ã©"]
    assert [e.data for e in ours.EventSource(response_of(body, headers)).iter_sse()] == ["é"]


def test_content_type_in_capitals_is_the_same() -> None:
    headers = {"content-type": "Text/Event-Stream"}
    with pytest.raises(original.SSEError):
        next(original.EventSource(response_of(b"data: x\n\n", headers)).iter_sse())
    (event,) = ours.EventSource(response_of(b"data: x\n\n", headers)).iter_sse()
    assert event.data == "x"


def test_cut_event_is_no_event_but_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    body = "data: 1\n\nid: 2\ndata: cut 縫".encode()[:-1]
    assert fields(read(original, [body])) == [("message", "1", "", None)]
    for chunks in some_fragmentations(body):
        for make, take in ((iter, read_source), (asynchronous, aread_source)):
            caplog.clear()
            source = ours.EventSource(response_of(make(chunks)))
            assert source.torn is None
            assert fields(take(source)) == [("message", "1", "", None)]
            assert source.torn is not None
            assert (source.torn.raw, source.torn.offset) == (body[9:], 9)
            assert source.stats == seamstream.Stats(bytes=len(body), events=1, torn=1, replaced=1)
            (record,) = caplog.records
            assert (record.name, record.levelname) == ("seamstream.compat", "WARNING")
            assert "cut" not in record.getMessage().split("inside an event")[1]


def read_source(source: Any) -> list[Any]:
    return [*source.iter_sse()]


def aread_source(source: Any) -> list[Any]:
    return run(collect(source.aiter_sse()))


def test_whole_stream_leaves_nothing_and_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    source = ours.EventSource(response_of(iter([b": comment\ndata: 1\n\n", b": the end"])))
    assert [e.data for e in source.iter_sse()] == ["1"]
    assert source.torn is None
    assert source.stats.torn == 0
    assert source.stats.comments == 1
    assert caplog.records == []


def test_event_beyond_the_limit_is_an_error_after_the_events_before_it() -> None:
    limits = seamstream.Limits(max_event_bytes=20)
    body = b"data: 1\n\ndata: 2\n\ndata: 0123456789012345\n\ndata: 3\n\n"
    assert len(read(original, [body])) == 4  # which has no limit
    for chunks in some_fragmentations(body):
        for make, take in ((iter, "iter_sse"), (asynchronous, "aiter_sse")):
            source = ours.EventSource(response_of(make(chunks)), limits=limits)
            seen: list[str] = []
            with pytest.raises(ours.SSEError, match="20") as caught:
                take_into(seen, source, take)
            assert seen == ["1", "2"]
            assert isinstance(caught.value.__cause__, seamstream.LimitExceededError)
            assert caught.value.__cause__.offset == 38


@pytest.mark.parametrize("take", ["iter_sse", "aiter_sse"])
def test_error_beyond_the_limit_does_not_wait_for_the_next_chunk(take: str) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"data: 1\n\n" + b"data: 01234567890123456789"
        raise AssertionError("asked for more")

    async def asynchronous_chunks() -> AsyncIterator[bytes]:
        for chunk in chunks():
            yield chunk

    content = chunks() if take == "iter_sse" else asynchronous_chunks()
    source = ours.EventSource(response_of(content), limits=seamstream.Limits(max_event_bytes=20))
    seen: list[str] = []
    with pytest.raises(ours.SSEError):
        take_into(seen, source, take)
    assert seen == ["1"]


def test_dropped_async_iteration_closes_what_it_reads_before_it_returns() -> None:
    class Chunks:
        closed = False

        def __aiter__(self) -> Chunks:
            return self

        async def __anext__(self) -> bytes:
            return b"data: x\n\n"

        async def aclose(self) -> None:
            self.closed = True

    class Response:
        headers = EVENT_STREAM

        def __init__(self) -> None:
            self.chunks = Chunks()

        def aiter_bytes(self) -> Chunks:
            return self.chunks

    async def main() -> None:
        response: Any = Response()
        iterator = ours.EventSource(response).aiter_sse()
        assert (await anext(iterator)).data == "x"
        await iterator.aclose()
        assert response.chunks.closed

    asyncio.run(main())


@pytest.mark.parametrize("profile", ["openai", "anthropic", "httpx2", "sseclient_py"])
def test_event_of_any_profile_has_a_name(profile: Any) -> None:
    assert [e.event for e in read(ours, [b"data: x\n\n"], profile=profile)] == ["message"]


def test_large_event_is_within_the_default_limit() -> None:
    payload = b"x" * (20 << 20)
    chunks = [b"data: ", payload, b"\n\n"]
    (event,) = read(ours, chunks)
    assert len(event.data) == len(payload)
    assert sys.getsizeof(event) < 200
