"""The stand-ins as a type checker sees them. Checked by mypy --strict and pyright, never run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterator

import httpx
import httpx2
import requests
from typing_extensions import assert_type

import seamstream
import seamstream.compat.httpx_sse as httpx_sse  # noqa: PLR0402 - as the docs say it
import seamstream.compat.sseclient_py as sseclient
from seamstream.compat.httpx2 import EventSource, ServerSentEvent, SSEError


def of_httpx_sse(client: httpx.Client, response: httpx.Response) -> None:
    with httpx_sse.connect_sse(client, "GET", "http://localhost/", profile="whatwg") as source:
        assert_type(source, httpx_sse.EventSource)
        assert_type(source.iter_sse(), Iterator[httpx_sse.ServerSentEvent])
        for sse in source.iter_sse():
            assert_type(sse.event, str)
            assert_type(sse.data, str)
            assert_type(sse.id, str)
            assert_type(sse.retry, int | None)
    assert_type(source.torn, seamstream.Event | None)
    assert_type(source.stats, seamstream.Stats)
    error: httpx.TransportError = httpx_sse.SSEError("x")
    print(error)
    httpx_sse.EventSource(response, limits=seamstream.Limits(max_event_bytes=1 << 20))
    httpx_sse.EventSource(response, profile="nothing")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def of_httpx_sse_async(client: httpx.AsyncClient) -> None:
    async with httpx_sse.aconnect_sse(client, "GET", "http://localhost/") as source:
        assert_type(source.aiter_sse(), AsyncGenerator[httpx_sse.ServerSentEvent, None])
        async for sse in source.aiter_sse():
            assert_type(sse, httpx_sse.ServerSentEvent)


def of_httpx2(response: httpx2.Response) -> None:
    source: httpx2.EventSource = EventSource(response, max_event_size=None, profile="httpx2")
    print(source)
    for sse in EventSource(response):
        assert_type(sse, ServerSentEvent)
        original: httpx2.ServerSentEvent = sse
        print(original)
    error: type[httpx2.SSEError] = SSEError
    print(error)


async def of_httpx2_async(response: httpx2.Response) -> None:
    async for sse in EventSource(response):
        assert_type(sse.retry, int | None)


def of_sseclient(response: requests.Response) -> None:
    client = sseclient.SSEClient(response, "utf-8", profile="whatwg")
    assert_type(client.events(), Generator[sseclient.Event, None, None])
    for event in client.events():
        assert_type(event.id, str | None)
        event.data = event.data.upper()
