"""The cases from public bug reports that are about clients, with the stand-ins as the client."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import socket
import threading
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import httpx2
import pytest

from conftest import MODULES, Implementation
from event_streams import asynchronous, fields, some_fragmentations
from pullers import collect, run
from seamstream.compat import httpx2 as compat_httpx2
from seamstream.compat import httpx_sse, sseclient_py
from shared_folder import load_shared

BY_ID = {case["id"]: case for case in load_shared("bugs/open.json", "cases")}
EVENT_STREAM = {"content-type": "text/event-stream"}

pytestmark = pytest.mark.needs_shared


@pytest.fixture(autouse=True)
def decoders(implementation: Implementation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the stand-ins use the decoder of the implementation under test."""
    monkeypatch.setattr("seamstream.compat._reading.SSEDecoder", implementation.SSEDecoder)


def response_of(http: Any, content: Any, headers: dict[str, str]) -> Any:
    request = http.Request("GET", "http://localhost/")
    return http.Response(200, headers=headers, content=content, request=request)


class Client:
    """One way to read a response: its source, and the iteration over it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, chunks: Any, headers: dict[str, str] = EVENT_STREAM) -> tuple[Any, list[Any]]:
        """Give the source and its events."""
        if self.name == "sseclient_py":
            client = sseclient_py.SSEClient(chunks, profile="whatwg")
            return client, [*client.events()]
        http = httpx2 if "httpx2" in self.name else httpx
        if self.name.endswith("_async"):
            content = asynchronous(chunks)
            if http is httpx2:
                later = compat_httpx2.EventSource(response_of(httpx2, content, headers))
                return later, run(collect(later))
            source = httpx_sse.EventSource(response_of(httpx, content, headers))
            return source, run(collect(source.aiter_sse()))
        if http is httpx2:
            direct = compat_httpx2.EventSource(response_of(httpx2, iter(chunks), headers))
            return direct, [*direct]
        source = httpx_sse.EventSource(response_of(httpx, iter(chunks), headers))
        return source, [*source.iter_sse()]


@pytest.fixture(params=["httpx_sse", "httpx_sse_async", "httpx2", "httpx2_async", "sseclient_py"])
def client(request: pytest.FixtureRequest) -> Client:
    return Client(request.param)


def expected_of(case: dict[str, Any], client: Client) -> list[tuple[Any, ...]]:
    empty_id = None if client.name == "sseclient_py" else ""
    return [
        (e["event"], e["data"], e["id"] or empty_id, e["retry"]) for e in case["expected"]["events"]
    ]


def body_of(case: dict[str, Any]) -> bytes:
    return bytes.fromhex("".join(case["chunks"]))


@pytest.mark.parametrize("name", ["B06.1", "B29.1", "B30.1", "B32.1", "B34.1"])
def test_events_of_the_case_come_out_and_nothing_is_lost(name: str, client: Client) -> None:
    case = BY_ID.get(name, {})
    headers = case.get("headers", EVENT_STREAM)
    for chunks in some_fragmentations(body_of(case)):
        source, events = client.read(chunks, headers)
        assert fields(events) == expected_of(case, client)
        for event, payload in zip(events, case["expected"].get("payloads", ()), strict=False):
            if payload["kind"] == "json":
                assert json.loads(event.data) == payload["value"]
        # What the server says in place of events can be shown.
        torn = b"" if source.torn is None else source.torn.raw
        assert torn == bytes.fromhex(case["expected"].get("tail", ""))


def test_compressed_events_come_out_with_their_chunk(client: Client) -> None:
    case = BY_ID.get("B56.1", {})
    if client.name == "sseclient_py":
        # Decompression is the business of its source: what it gets is decoded.
        inflate = zlib.decompressobj(wbits=31).decompress
        chunks = [inflate(bytes.fromhex(chunk)) for chunk in case["chunks"]]
        headers = EVENT_STREAM
    else:
        chunks = [*map(bytes.fromhex, case["chunks"])]
        headers = case["headers"]
    assert fields(client.read(chunks, headers)[1]) == expected_of(case, client)
    for count, ready in enumerate(case["expected"]["ready_after_chunk"], 1):
        assert len(client.read(chunks[:count], headers)[1]) == ready


# --- Connections


class LiveServer:
    """Answer with the chunks given, and hold the connection open until the client ends it."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        self.ended = threading.Semaphore(0)  # a client has ended its connection
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(30)
            while not connection.recv(65536).endswith(b"\r\n\r\n"):
                pass
            head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
            with contextlib.suppress(ConnectionError):  # the client may leave when it likes
                for chunk in self._chunks:
                    connection.sendall(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                while connection.recv(65536):
                    pass
        self.ended.release()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(30)


@contextmanager
def live_server(case: dict[str, Any]) -> Iterator[LiveServer]:
    server = LiveServer([*map(bytes.fromhex, case["chunks"])])
    try:
        yield server
    finally:
        server.close()


# A request that gets no connection fails at once; one that gets no bytes soon.
POOL = {"max_connections": 2}
TIMEOUT = {"timeout": 20, "pool": 0.1}


def connecting_httpx_sse() -> tuple[Any, Callable[[Any, str], Any]]:
    client = httpx.Client(limits=httpx.Limits(**POOL), timeout=httpx.Timeout(**TIMEOUT))

    @contextmanager
    def connect(client: Any, url: str) -> Iterator[Iterator[Any]]:
        with httpx_sse.connect_sse(client, "GET", url) as source:
            yield source.iter_sse()

    return client, connect


def connecting_httpx2() -> tuple[Any, Callable[[Any, str], Any]]:
    client = httpx2.Client(limits=httpx2.Limits(**POOL), timeout=httpx2.Timeout(**TIMEOUT))

    @contextmanager
    def connect(client: Any, url: str) -> Iterator[Iterator[Any]]:
        with client.sse(url) as source:
            yield iter(compat_httpx2.EventSource(source.response))

    return client, connect


@pytest.mark.parametrize("connecting", [connecting_httpx_sse, connecting_httpx2])
def test_marker_or_break_releases_the_connection_at_once(connecting: Any) -> None:
    with live_server(BY_ID.get("B34.1", {})) as server:
        client, connect = connecting()
        with client:
            for last in ("[DONE]", "[DONE]", '{"t":"a"}', '{"t":"a"}', "[DONE]"):
                with connect(client, server.url) as events:
                    for event in events:
                        if event.data == last:
                            break
                    else:
                        pytest.fail("the end of a stream that has none")
                assert server.ended.acquire(timeout=20)


@pytest.mark.parametrize("library", ["httpx_sse", "httpx2"])
def test_pool_of_two_survives_markers_breaks_and_cancellation(library: str) -> None:
    async def events_of(client: Any, url: str) -> AsyncIterator[Any]:
        if library == "httpx_sse":
            async with httpx_sse.aconnect_sse(client, "GET", url) as source:
                async for event in source.aiter_sse():
                    yield event
        else:
            async with client.sse(url) as source:
                async for event in compat_httpx2.EventSource(source.response):
                    yield event

    async def read_until(
        client: Any, url: str, last: str | None, marker_seen: asyncio.Event | None = None
    ) -> str:
        events = events_of(client, url)
        try:
            async for event in events:
                if event.data == last:
                    return event.data
                if event.data == "[DONE]" and marker_seen is not None:
                    marker_seen.set()
        finally:
            await events.aclose()  # type: ignore[attr-defined]
        raise AssertionError("the end of a stream that has none")

    async def main(server: LiveServer) -> None:
        http = httpx if library == "httpx_sse" else httpx2
        async with http.AsyncClient(
            limits=http.Limits(**POOL), timeout=http.Timeout(**TIMEOUT)
        ) as client:
            for last in ('{"n":1}', "[DONE]"):
                for _ in range(2):
                    assert await read_until(client, server.url, last) == last
            for _ in range(2):
                marker_seen = asyncio.Event()
                waits = asyncio.create_task(read_until(client, server.url, None, marker_seen))
                await marker_seen.wait()
                await asyncio.sleep(0)  # now it waits for more, which never comes
                waits.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waits
            assert await read_until(client, server.url, "[DONE]") == "[DONE]"
            assert await read_until(client, server.url, "[DONE]") == "[DONE]"

    with live_server(BY_ID.get("B59.1", {})) as server:
        asyncio.run(main(server))
        gc.collect()  # what nobody awaited would be heard of now


def test_closing_a_client_twice_is_harmless(client: Client) -> None:
    source, events = client.read([b"data: x\n\n"])
    assert len(events) == 1
    closed = []
    if client.name == "sseclient_py":

        class Source(list[bytes]):
            def close(self) -> None:
                closed.append(True)

        both = sseclient_py.SSEClient(Source([b"data: x\n\n"]))
        for _ in range(2):
            both.close()
        assert closed == [True, True]
    elif client.name.endswith("_async"):
        for _ in range(2):
            run(source.response.aclose())
    else:
        for _ in range(2):
            source.response.close()


def test_many_responses_leave_nothing_behind(
    implementation: Implementation, run_python: Callable[..., str]
) -> None:
    """What one round leaks would be there hundreds of times more than free lists keep."""
    rounds = 400
    output = run_python("many_responses.py", MODULES[implementation.name], rounds)
    blocks, resident = map(int, output.split())
    assert blocks < rounds
    assert resident <= 2 << 20


# --- Reconnecting


def test_cut_event_is_not_glued_to_the_next_connection() -> None:
    """The loop that httpx-sse's users write: the last id of an event goes into the next request."""
    case = BY_ID.get("B60.2", {})
    connections = [[*map(bytes.fromhex, chunks)] for chunks in case["connections"]]
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers.get("Last-Event-ID"))
        return httpx.Response(200, headers=EVENT_STREAM, content=iter(connections[len(asked) - 1]))

    events = []
    last_id = ""
    with httpx.Client(transport=httpx.MockTransport(answer)) as client:
        for _ in connections:
            headers = {"Last-Event-ID": last_id} if last_id else {}
            with httpx_sse.connect_sse(client, "GET", "http://x/", headers=headers) as source:
                for event in source.iter_sse():
                    last_id = event.id
                    events.append(event)
    assert asked == [None, "5", "5"]
    assert fields(events) == [tuple(event.values()) for event in case["expected"]["events"]]
