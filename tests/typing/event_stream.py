"""`EventStream` as a type checker sees it. Checked by mypy --strict and pyright, never run."""

from __future__ import annotations

import asyncio
import http.client
import io
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Sequence
from typing import Any

import aiohttp
import httpx
import httpx2
import niquests
import requests
import urllib3
from pydantic import BaseModel, TypeAdapter
from typing_extensions import assert_type

from seamstream import (
    Event,
    EventStream,
    Frame,
    JSONDecodeError,
    JSONLinesSink,
    LoggingSink,
    Parsed,
    QuarantineEntry,
    Report,
    SchemaError,
    TornError,
)


class Model(BaseModel):
    x: int


def sink(entry: QuarantineEntry) -> None:
    assert_type(entry.raw, bytes)


def kinds_of_items(
    chunks: list[bytes],
    asynchronous: AsyncIterable[bytes],
    file: io.BufferedReader,
    reader: asyncio.StreamReader,
) -> None:
    assert_type(EventStream(chunks), EventStream[Event])
    assert_type(EventStream(chunks, framing="ndjson"), EventStream[Frame])
    assert_type(EventStream(chunks, parse=True), EventStream[Parsed[Any, Event]])
    assert_type(EventStream(chunks, parse=True, framing="array"), EventStream[Parsed[Any, Frame]])
    assert_type(EventStream(asynchronous, model=Model), EventStream[Parsed[Model | None]])
    assert_type(EventStream(file, model=Model, on_error="skip"), EventStream[Parsed[Model]])
    assert_type(
        EventStream(reader, model=TypeAdapter(list[int]), on_error="raise"),
        EventStream[Parsed[list[int]]],
    )
    assert_type(
        EventStream(chunks, model=Model, framing="ndjson"),
        EventStream[Parsed[Model | None, Frame]],
    )
    assert_type(
        EventStream(
            chunks,
            model=Model,
            framing="ndjson",
            on_error="quarantine",
            quarantine=sink,
            labels={"a": "b"},
        ),
        EventStream[Parsed[Model, Frame]],
    )
    assert_type(
        EventStream(chunks, model={"a": Model, "b": TypeAdapter(int)}),
        EventStream[Parsed[Any, Event]],
    )
    EventStream(chunks, parse=True, on_error="quarantine", quarantine="path")
    EventStream(chunks, parse=True, on_error="quarantine", quarantine=JSONLinesSink("path"))
    EventStream(chunks, parse=True, on_error="quarantine", quarantine=LoggingSink(), done=None)


def responses(
    of_httpx: httpx.Response,
    of_httpx2: httpx2.Response,
    of_requests: requests.Response,
    of_urllib3: urllib3.HTTPResponse,
    of_urllib: http.client.HTTPResponse,
    of_aiohttp: aiohttp.ClientResponse,
    of_niquests: niquests.Response,
    of_niquests_async: niquests.AsyncResponse,
) -> None:
    assert_type(EventStream(of_httpx), EventStream[Event])
    assert_type(EventStream(of_httpx2), EventStream[Event])
    assert_type(EventStream(of_requests), EventStream[Event])
    assert_type(EventStream(of_urllib3), EventStream[Event])
    assert_type(EventStream(of_urllib), EventStream[Event])
    assert_type(EventStream(of_aiohttp), EventStream[Event])
    assert_type(EventStream(of_niquests), EventStream[Event])
    assert_type(EventStream(of_niquests_async), EventStream[Event])
    EventStream(of_httpx, idle_timeout=30, idle_resets_on="items", excerpt_bytes=200)
    EventStream(of_httpx, content_type="*/*")
    EventStream(of_httpx, content_type=["text/plain", "application/*"])


def iteration(chunks: list[bytes]) -> None:
    stream = EventStream(chunks, model=Model)
    assert_type(iter(stream), Iterator[Parsed[Model | None]])
    assert_type(stream.report, Report)
    for event, value, error in stream:
        assert_type(event, Event)
        assert_type(value, Model | None)
        assert_type(error, JSONDecodeError | SchemaError | TornError | None)
    for parsed in stream:
        assert_type(parsed.value, Model | None)
        assert_type(parsed.event.id, str)
    for batch in stream.batches():
        assert_type(batch, Sequence[Parsed[Model | None]])
    with EventStream(chunks, framing="array") as frames:
        for frame in frames:
            assert_type(frame, Frame)


async def asynchronous_iteration(chunks: AsyncIterable[bytes]) -> None:
    async with EventStream(chunks, parse=True) as stream:
        assert_type(stream.__aiter__(), AsyncIterator[Parsed[Any]])
        async for parsed in stream:
            assert_type(parsed.value, Any)
        async for batch in stream.batches():
            assert_type(batch, Sequence[Parsed[Any]])


def refused(chunks: list[bytes]) -> None:
    EventStream(chunks, framing="xml")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    EventStream(chunks, on_error="skip")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    EventStream(b"x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    EventStream(chunks, idle_resets_on="comments")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    EventStream("x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
