"""`EventStream` over responses of the HTTP clients, from a server on the loopback interface."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import io
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import httpx2
import niquests
import openai
import pytest
import requests
import urllib3

import seamstream
from http_clients import CLIENTS, Client
from seamstream import ContentTypeError, EventStream, IdleTimeoutError
from stream_server import Answer, StreamServer

BODY = (
    'event: greeting\nid: 1\ndata: {"text": "縫い目"}\n\n: 心拍\n\ndata: é\r\n\r\n'
    "data: zwei\ndata: Zeilen\n\nid: 2\ndata: 🧵\n\n"
).encode()
EVENTS = [
    ("greeting", '{"text": "縫い目"}', "1"),
    ("message", "é", "1"),
    ("message", "zwei\nZeilen", "1"),
    ("message", "🧵", "2"),
]
DONE = b"data: [DONE]\n\n"
BLOCKS = [block + b"\n\n" for block in BODY.replace(b"\r\n\r\n", b"\n\n").split(b"\n\n")[:-1]]
ENDLESS = 60.0  # seconds that no test takes

POOLED = [client for client in CLIENTS if client.has_pool]
each_client = pytest.mark.parametrize("client", CLIENTS, ids=str)
each_pool = pytest.mark.parametrize("client", POOLED, ids=str)


def pieces(body: bytes, size: int | str) -> list[bytes]:
    if size == "event":
        return [block + b"\n\n" for block in body.split(b"\n\n")[:-1]]
    assert isinstance(size, int)
    return [body[at : at + size] for at in range(0, len(body), size)]


def facts(event: Any) -> tuple[str | None, str, str]:
    return (event.event, event.data, event.id)


class Exchange:
    """A client at work: what `for` and `async for` do, behind one interface."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def run(self, body: Callable[[Any], Awaitable[Any]], pool: int = 2) -> Any:
        """Run `body`, which is given a function that opens a response."""

        async def main() -> Any:
            if self.client.is_async:
                async with self.client.session(pool) as get:
                    return await asyncio.wait_for(body(get), ENDLESS)
            with self.client.session(pool) as get:

                async def get_at_once(url: str) -> Any:
                    return get(url)

                return await body(get_at_once)

        return asyncio.run(main())

    async def enter(self, stream: EventStream[Any]) -> None:
        if self.client.is_async:
            await stream.__aenter__()
        else:
            stream.__enter__()

    async def exit(self, stream: EventStream[Any], error: BaseException | None = None) -> None:
        arguments: Any = (None, None, None) if error is None else (type(error), error, None)
        if self.client.is_async:
            await stream.__aexit__(*arguments)
        else:
            stream.__exit__(*arguments)

    async def items(self, stream: Any) -> AsyncIterator[Any]:
        if self.client.is_async:
            async for item in stream:
                yield item
        else:
            for item in stream:
                yield item


def read(client: Client, url: str, **options: Any) -> tuple[list[Any], EventStream[Any]]:
    """Read a stream to its end; an exception is the last of its items."""
    exchange = Exchange(client)

    async def body(get: Any) -> tuple[list[Any], EventStream[Any]]:
        stream: Any = EventStream(await get(url), **options)
        found: list[Any] = []
        try:
            await exchange.enter(stream)
            try:
                async for item in exchange.items(stream):
                    found.append(item)  # noqa: PERF401 - what came before an exception
            finally:
                await exchange.exit(stream)
        except Exception as error:
            found.append(error)
        return found, stream

    result: tuple[list[Any], EventStream[Any]] = exchange.run(body)
    return result


# --- the events -----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 16, 64, 1460, "event"])
@pytest.mark.parametrize("encoding", ["identity", "gzip", "deflate", "br"])
@pytest.mark.parametrize("transfer", ["chunked", "length", "close"])
@each_client
def test_events_are_exactly_those_sent(
    client: Client, transfer: Any, encoding: Any, size: int | str
) -> None:
    if encoding != "identity" and not client.decodes:
        encoding = "identity"
    answer = Answer(pieces(BODY, size), encoding=encoding, transfer=transfer)
    with StreamServer(answer) as server:
        found, stream = read(client, server.url())
    assert [facts(event) for event in found] == EVENTS
    report = stream.report
    assert (report.bytes, report.replaced, report.torn) == (len(BODY), 0, 0)


@pytest.mark.parametrize("encoding", ["identity", "gzip", "br"])
@pytest.mark.parametrize("transfer", ["chunked", "length", "close"])
@each_client
def test_each_event_comes_when_it_was_sent_and_not_with_the_next(
    client: Client, transfer: Any, encoding: Any
) -> None:
    if encoding != "identity" and not client.decodes:
        encoding = "identity"
    # The next is sent once this one is here: who waits for more waits for ever.
    permits = threading.Semaphore(1)
    answer = Answer(pieces(BODY, "event"), encoding=encoding, transfer=transfer, permits=permits)
    exchange = Exchange(client)

    async def body(get: Any) -> list[Any]:
        found: list[Any] = []
        async for item in exchange.items(EventStream(await get(server.url()))):
            found.append(facts(item))
            permits.release()
        return found

    # Comments complete nothing, and so their piece waits for nobody.
    permits.release()
    permits.release()
    with StreamServer(answer) as server:
        assert exchange.run(body) == EVENTS


@each_client
def test_batches_and_models_are_those_of_any_source(client: Client) -> None:
    with StreamServer(Answer([b"data: 1\n\ndata: {\n\n", b"data: 3"])) as server:
        exchange = Exchange(client)

        async def body(get: Any) -> list[Any]:
            stream = EventStream(await get(server.url()), parse=True)
            return [
                (item.value, item.error and item.error.kind)
                async for batch in exchange.items(stream.batches())
                for item in batch
            ]

        assert exchange.run(body) == [(1, None), (None, "syntax"), (None, "torn")]


@each_client
def test_json_framings_are_read_as_well(client: Client) -> None:
    answer = Answer(pieces('{"a": "ä"}\n[2]\n'.encode(), 3), content_type="application/x-ndjson")
    with StreamServer(answer) as server:
        found, _ = read(client, server.url(), framing="ndjson")
    assert [frame.value for frame in found] == [{"a": "ä"}, [2]]


@pytest.mark.parametrize("options", [{}, {"idle_timeout": 5}], ids=["", "idle_timeout"])
def test_responses_whose_body_was_read_before_still_give_it(options: Any) -> None:
    with StreamServer(Answer([BODY], transfer="length")) as server:
        url = server.url()
        for response in (
            requests.get(url, timeout=20),
            niquests.get(url, timeout=20),
            httpx.get(url, trust_env=False),
            httpx2.get(url, trust_env=False),
            urllib3.request("GET", url, timeout=20),
            httpx.Response(200, content=BODY),
        ):
            stream: Any = EventStream(response, **options)
            assert [facts(event) for event in stream] == EVENTS

        async def main() -> None:
            async with aiohttp.ClientSession() as session, session.get(url) as answer:
                await answer.read()
                stream: Any = EventStream(answer, **options)
                assert [facts(event) async for event in stream] == EVENTS

        asyncio.run(main())


TAKERS: dict[str, Callable[[Any], Any]] = {
    "httpx": lambda response: [*response.iter_raw()],
    "httpx async": lambda response: response.aclose(),
    "httpx2": lambda response: [*response.iter_raw()],
    "httpx2 async": lambda response: response.aclose(),
    "requests": lambda response: [*response.iter_content(10)],
    "urllib3": lambda response: [*response.stream(10)],
    "urllib": lambda response: response.read(),
    "aiohttp": lambda response: response.content.read(),
    "niquests": lambda response: [*response.iter_content(10)],
    "niquests async": lambda response: response.close(),
}


@pytest.mark.parametrize("taken", ["read", "closed"])
@pytest.mark.parametrize("transfer", ["chunked", "length", "close"])
@each_client
def test_body_that_somebody_else_has_taken_is_an_error_and_no_empty_stream(
    client: Client, transfer: Any, taken: str
) -> None:
    exchange = Exchange(client)

    async def body(get: Any) -> Exception | None:
        response = await get(server.url())
        if taken == "read":
            taking = TAKERS[client.name](response)
        else:
            is_httpx_async = client.is_async and client.name.startswith("httpx")
            taking = response.aclose() if is_httpx_async else response.close()
        if hasattr(taking, "__await__"):
            await taking
        try:
            found = [event async for event in exchange.items(EventStream(response))]
        except Exception as error:
            return error
        raise AssertionError(f"{found} in place of an error")

    with StreamServer(Answer([BODY], transfer=transfer)) as server:
        error = exchange.run(body)
    if client.name.startswith("httpx"):
        assert type(error).__name__ in ("StreamConsumed", "StreamClosed")
    elif client.name in ("requests", "niquests") and taken == "read":
        assert type(error).__name__ == "StreamConsumedError"
    elif client.name == "aiohttp" and taken == "closed":
        assert isinstance(error, aiohttp.ClientConnectionError)
    else:
        assert isinstance(error, seamstream.StreamStateError)
        assert str(error) == "the response has no body left: it was read or closed before"


@pytest.mark.parametrize("transfer", ["chunked", "length", "close"])
@pytest.mark.parametrize("options", [{}, {"idle_timeout": 5}], ids=["", "idle_timeout"])
@each_client
def test_body_of_no_bytes_is_an_empty_stream(client: Client, transfer: Any, options: Any) -> None:
    with StreamServer(Answer([], transfer=transfer)) as server:
        assert read(client, server.url(), **options)[0] == []


@pytest.mark.parametrize("options", [{}, {"idle_timeout": 5}], ids=["", "idle_timeout"])
@pytest.mark.parametrize("kind", ["with_streaming_response", "with_raw_response"])
def test_responses_that_an_sdk_wraps_are_those_of_its_http_client(kind: str, options: Any) -> None:
    arguments: Any = {"model": "m", "messages": [], "stream": True}

    def read_all(client: openai.OpenAI) -> None:
        create = getattr(client.chat.completions, kind).create
        for _ in range(3):
            opened = create(**arguments)
            with opened if hasattr(opened, "__enter__") else nullcontext(opened) as response:
                stream: Any = EventStream(response, **options)
                assert [facts(event) for event in stream] == EVENTS
                assert stream.report.done_seen

    async def read_all_asynchronously(client: openai.AsyncOpenAI) -> None:
        create = getattr(client.chat.completions, kind).create
        for _ in range(3):
            opened = create(**arguments)
            entered = opened if hasattr(opened, "__aenter__") else nullcontext(await opened)
            async with entered as response:
                stream: Any = EventStream(response, **options)
                assert [facts(event) async for event in stream] == EVENTS
                assert stream.report.done_seen

    async def main(url: str) -> None:
        async with openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0) as client:
            await read_all_asynchronously(client)

    with StreamServer(**{"v1/chat/completions": Answer([BODY, DONE])}) as server:
        url = server.url("v1")
        with openai.OpenAI(api_key="none", base_url=url, max_retries=0) as client:
            read_all(client)
        asyncio.run(main(url))
        assert server.connections == 2


def test_response_that_only_reads_like_one_of_httpx_can_end_by_the_sentinel() -> None:
    class Response:
        def iter_bytes(self) -> list[bytes]:
            return [BODY, DONE]

    stream = EventStream(Response())  # type: ignore[call-overload]
    assert [facts(event) for event in stream] == EVENTS


def test_synchronous_close_of_an_asynchronous_response_is_refused_and_leaves_it_open() -> None:
    async def read_on(client: Client) -> None:
        async with client.session() as get:
            stream = EventStream(await get(server.url()))
            async with stream:
                with pytest.raises(TypeError, match=r"use `await stream.aclose\(\)`"):
                    stream.close()
                assert [facts(event) async for event in stream] == EVENTS

    with StreamServer(Answer([BODY])) as server:
        for client in CLIENTS:
            if client.is_async:
                asyncio.run(read_on(client))


def test_request_that_was_not_awaited_is_refused() -> None:
    async def main() -> None:
        async with aiohttp.ClientSession() as session:
            request = session.get(server.url())
            with pytest.raises(TypeError, match="await it first"):
                EventStream(request)
            (await request).close()  # its body may not have come yet
        async with httpx.AsyncClient(trust_env=False) as client:
            coroutine = client.get(server.url())
            with pytest.raises(TypeError, match="not coroutine: await it first"):
                EventStream(coroutine)
            await coroutine

    with StreamServer(Answer([BODY])) as server:
        asyncio.run(main())


def test_kind_of_a_response_decides_between_for_and_async_for() -> None:
    with StreamServer(Answer([BODY])) as server, httpx.Client(trust_env=False) as client:
        response = client.send(client.build_request("GET", server.url()), stream=True)
        with EventStream(response) as stream, pytest.raises(TypeError, match="use `for`"):
            stream.__aiter__()

        async def main() -> None:
            async with httpx.AsyncClient(trust_env=False) as client:
                response = await client.send(client.build_request("GET", server.url()), stream=True)
                async with EventStream(response) as stream:
                    with pytest.raises(TypeError, match="use `async for`"):
                        iter(stream)
            async with aiohttp.ClientSession() as session, session.get(server.url()) as answer:
                with pytest.raises(TypeError, match="use `async with`"):
                    EventStream(answer).__enter__()

        asyncio.run(main())


# --- content types --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content_type",
    [None, "Text/Event-Stream;charset=utf-8", 'text/event-stream; charset="shift_jis"'],
)
@each_client
def test_charset_and_letter_case_do_not_count_and_no_type_passes(
    client: Client, content_type: str | None
) -> None:
    with StreamServer(Answer(pieces(BODY, 16), content_type=content_type)) as server:
        found, _ = read(client, server.url())
    assert [facts(event) for event in found] == EVENTS


@each_client
def test_page_in_place_of_events_is_an_error_and_its_connection_is_free_again(
    client: Client,
) -> None:
    exchange = Exchange(client)
    page = "<html>geschützt</html>".encode()
    html = Answer([page], content_type="text/html; charset=utf-8")

    async def body(get: Any) -> None:
        for _ in range(3):  # with a pool of one
            stream = EventStream(await get(server.url("html")), excerpt_bytes=10)
            with pytest.raises(ContentTypeError) as caught:
                await exchange.enter(stream)
            assert caught.value.content_type == "text/html; charset=utf-8"
            assert caught.value.excerpt == page[:10]
            assert "geschützt" not in str(caught.value)
            stream = EventStream(await get(server.url("html")))
            with pytest.raises(ContentTypeError) as caught:
                async for _ in exchange.items(stream):
                    pass
            assert caught.value.excerpt == b""
            assert stream.report.bytes == 0
        stream = EventStream(await get(server.url("html")), content_type="text/*")
        assert [event.torn async for event in exchange.items(stream)] == [True]

    with StreamServer(html=html) as server:
        exchange.run(body, pool=1)


# --- errors ---------------------------------------------------------------------------------

BROKEN: dict[str, Any] = {
    "httpx": (httpx.RemoteProtocolError, httpx.ReadError),
    "httpx2": (httpx2.RemoteProtocolError, httpx2.ReadError),
    "requests": requests.RequestException,
    "urllib3": urllib3.exceptions.ProtocolError,
    "urllib": (OSError, http.client.IncompleteRead),
    "aiohttp": (aiohttp.ClientPayloadError, aiohttp.ClientOSError),
    "niquests": niquests.RequestException,
}


@pytest.mark.parametrize("transfer", ["chunked", "length", "close"])
@each_client
def test_connection_that_dies_gives_what_is_complete_and_then_the_library_s_own_error(
    client: Client, transfer: Any
) -> None:
    taken = threading.Event()  # a reset may take with it what is not read yet
    answer = Answer(
        [b"data: 1\n\ndata: 2\n\n", b"data: h"],
        transfer=transfer,
        ending="dies",
        before_the_end=lambda: taken.wait(20),
    )
    exchange = Exchange(client)

    async def body(get: Any) -> tuple[list[str], Exception | None, seamstream.Report]:
        stream = EventStream(await get(server.url()))
        found: list[str] = []
        try:
            async for event in exchange.items(stream):
                found.append(event.data)
                if len(found) == 2:
                    taken.set()
        except Exception as error:
            return found, error, stream.report
        return found, None, stream.report

    with StreamServer(answer) as server:
        found, error, report = exchange.run(body)
    if error is None:  # some libraries take a reset, or a body that is too short, for the end
        assert found.pop() == "data: h"
    else:
        assert isinstance(error, BROKEN[client.name.split()[0]])
    assert found == ["1", "2"]
    assert (report.events, report.torn) == (2, int(error is None))


@each_client
def test_stream_that_stalls_is_ended_by_the_idle_time_out(client: Client) -> None:
    answer = Answer([b"data: 1\n\ndata: 2\n\ndata: h"], ending="stalls")
    with StreamServer(answer) as server:
        started = time.monotonic()
        found, stream = read(client, server.url(), idle_timeout=0.3)
        assert 0.25 < time.monotonic() - started < 10
    *events, error = found
    assert [event.data for event in events] == ["1", "2"]
    assert type(error) is IdleTimeoutError
    assert (error.seconds, error.awaited) == (0.3, "bytes")
    assert (stream.report.events, stream.report.torn) == (2, 0)


@pytest.mark.parametrize("module", [httpx, httpx2], ids=["httpx", "httpx2"])
@pytest.mark.parametrize("before", [{"read": 20.0}, {}])
def test_time_outs_of_httpx_are_the_callers_again_in_the_end(
    module: Any, before: dict[str, float]
) -> None:
    timeouts = dict(before)  # one for many requests, say

    async def read_asynchronously(url: str) -> None:
        async with module.AsyncClient() as client:
            request = client.build_request("GET", url, extensions={"timeout": timeouts})
            opened = EventStream(await client.send(request, stream=True), idle_timeout=5)
            assert [event.data async for event in opened] == ["1"]

    with StreamServer(Answer([b"data: 1\n\n"])) as server:
        with module.Client() as client:
            request = client.build_request("GET", server.url(), extensions={"timeout": timeouts})
            opened = EventStream(client.send(request, stream=True), idle_timeout=5)
            assert [event.data for event in opened] == ["1"]
        assert timeouts == before
        asyncio.run(read_asynchronously(server.url()))
    assert timeouts == before


@pytest.mark.parametrize("module", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_idle_time_out_that_a_transport_would_not_keep_is_refused(module: Any) -> None:
    transport = module.MockTransport(lambda _: module.Response(200, content=iter([BODY])))
    with module.Client(transport=transport) as client:
        for response in (
            client.send(client.build_request("GET", "http://localhost"), stream=True),
            module.Response(200, content=iter([BODY])),
        ):
            with pytest.raises(ValueError, match="idle_timeout cannot be kept"):
                list(EventStream(response, idle_timeout=1))


@each_client
def test_comments_are_life_unless_only_items_are(client: Client) -> None:
    def heartbeats(answer: Answer) -> None:
        assert answer.permits is not None
        while not answer_is_over.wait(0.05):
            answer.permits.release()

    for resets_on, expected in (("bytes", ["1", "2"]), ("items", ["1"])):
        permits = threading.Semaphore(2)
        answer_is_over = threading.Event()
        beats = [b": beat\n"] * 20
        answer = Answer([b"data: 1\n\n", *beats, b"data: 2\n\n"], permits=permits)
        thread = threading.Thread(target=heartbeats, args=(answer,))
        with StreamServer(answer) as server:
            thread.start()
            found, _ = read(client, server.url(), idle_timeout=0.6, idle_resets_on=resets_on)
            answer_is_over.set()
            thread.join()
            for _ in beats:
                permits.release()
        failed = resets_on == "items"
        assert [event.data for event in found[: len(expected)]] == expected
        assert [type(error) for error in found[len(expected) :]] == [IdleTimeoutError] * failed


# --- connections ----------------------------------------------------------------------------


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
@each_pool
def test_connection_is_used_again_after_the_sentinel(
    client: Client, encoding: Any, joined: bool
) -> None:
    exchange = Exchange(client)
    answer = Answer([BODY, DONE], encoding=encoding, joined=joined)

    async def body(get: Any) -> None:
        for _ in range(20):
            stream = EventStream(await get(server.url()))
            assert [facts(event) async for event in exchange.items(stream)] == EVENTS
            assert stream.report.done_seen

    with StreamServer(answer) as server:
        exchange.run(body, pool=1)
        assert server.connections == 1


@each_client
def test_nobody_waits_for_a_server_that_goes_on_after_the_sentinel(client: Client) -> None:
    with StreamServer(Answer([BODY + DONE], ending="stalls")) as server:
        started = time.monotonic()
        found, stream = read(client, server.url())
        assert time.monotonic() - started < 15
    assert [facts(event) for event in found] == EVENTS
    assert stream.report.done_seen


SCENES = [
    *("ends", "sentinel", "break", "dies", "exception", "html", "sentinel", "cancelled", "dropped"),
    *("sentinel", "ends", "break", "lingers", "limit", "ends", "refused"),
]


async def play(exchange: Exchange, get: Any, server: StreamServer, scene: str) -> None:
    """Read one stream, in one of the ways that they are read and end."""
    name = {"break": "ends", "exception": "ends", "limit": "ends", "dropped": "stalls"}
    name |= {"cancelled": "stalls", "refused": "ends"}
    response = await get(server.url(name.get(scene, scene)))
    options: dict[str, Any] = {}
    if scene == "limit":
        options["limits"] = seamstream.Limits(max_event_bytes=20)
    stream = EventStream(response, **options)
    if scene == "dropped":
        async for _ in exchange.items(stream):
            break
        del stream, response  # which closes it, at once or in a turn of the event loop
        await asyncio.sleep(0)
        return
    found: list[str] = []

    async def consume() -> None:
        await exchange.enter(stream)
        try:
            async for event in exchange.items(stream):
                found.append(event.data)
                if scene == "break":
                    break
                if scene == "exception":
                    raise KeyError
        finally:
            await exchange.exit(stream)

    if scene == "cancelled":
        if not exchange.client.is_async:
            stream.close()
            return
        task = asyncio.create_task(consume())
        while not found and not task.done():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return
    if scene == "refused":
        await exchange.exit(stream)  # never begun
        return
    try:
        await consume()
    except (KeyError, ContentTypeError, seamstream.LimitExceededError):
        assert scene in ("exception", "html", "limit")
    except Exception:
        assert scene == "dies"
    if scene in ("ends", "sentinel", "lingers"):
        assert found == [data for _, data, _ in EVENTS]
        assert stream.report.done_seen == (scene != "ends")


@each_pool
def test_pool_of_two_loses_no_connection_over_a_thousand_streams(client: Client) -> None:
    exchange = Exchange(client)
    answers = {
        "ends": Answer(pieces(BODY, "event")),
        "sentinel": Answer([BODY, DONE]),
        "lingers": Answer([BODY + DONE], ending="stalls"),
        "stalls": Answer([BODY], ending="stalls"),
        "dies": Answer([BODY, b"data: h"], ending="dies"),
        "html": Answer([b"<html>"], content_type="text/html"),
    }

    async def body(get: Any) -> None:
        scenes = (SCENES[number % len(SCENES)] for number in range(1000))

        async def worker() -> None:
            for scene in scenes:
                await asyncio.wait_for(play(exchange, get, server, scene), 20)

        await asyncio.gather(*(worker() for _ in range(3 if client.is_async else 1)))

    with StreamServer(**answers) as server:
        finished = threading.Event()

        def run() -> None:
            exchange.run(body)
            finished.set()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(2 * ENDLESS)
        assert finished.is_set()


# --- urllib3 itself -------------------------------------------------------------------------


def test_response_that_nobody_sent_is_a_source() -> None:
    response = urllib3.HTTPResponse(
        body=io.BytesIO(gzip.compress(BODY)),
        headers={"content-encoding": "gzip", "content-type": "text/event-stream"},
        status=200,
        preload_content=False,
    )
    assert [facts(event) for event in EventStream(response)] == EVENTS


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_response_that_does_not_close_itself_ends_all_the_same(encoding: Any) -> None:
    with (
        StreamServer(Answer(pieces(BODY, 16), encoding=encoding)) as server,
        urllib3.PoolManager(timeout=20) as pool,
    ):
        response = pool.request("GET", server.url(), preload_content=False)
        response.auto_close = False  # as for a TextIOWrapper
        assert [facts(event) for event in EventStream(response)] == EVENTS


def test_all_of_this_holds_for_the_original_too() -> None:
    """niquests puts the fork of urllib3 that it needs in its place: it is what ran until here."""
    place = Path(sys.prefix) / "urllib3"
    assert (place / "urllib3").is_dir(), "`make .venv/.urllib3` installs it"
    code = "import urllib3; print(urllib3.__version__)"
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(place)}
    version = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
    assert version.stdout.strip() != urllib3.__version__
    chosen = "(requests or urllib3) and not thousand and not original"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    finished = subprocess.run(
        [*command, "-k", chosen], env=environment, capture_output=True, check=False, text=True
    )
    assert finished.returncode == 0, finished.stdout
    assert " passed" in finished.stdout.splitlines()[-1]
