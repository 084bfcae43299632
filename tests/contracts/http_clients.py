"""The HTTP clients whose responses are sources, behind one interface."""

from __future__ import annotations

import contextlib
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import Any

import aiohttp
import httpx
import httpx2
import niquests
import requests
import urllib3


@dataclass(frozen=True)
class Client:
    """A library: `session` gives a function that gets the response of a URL, its body unread."""

    name: str
    session: Callable[..., Any]
    is_async: bool = False
    decodes: bool = True  # compressed content
    has_pool: bool = True

    def __str__(self) -> str:
        return self.name


def session_of_httpx(module: Any) -> Callable[..., AbstractContextManager[Any]]:
    @contextlib.contextmanager
    def session(pool: int = 2) -> Iterator[Any]:
        limits = module.Limits(max_connections=pool)
        with module.Client(limits=limits, timeout=20, trust_env=False) as client:
            yield lambda url: client.send(client.build_request("GET", url), stream=True)

    return session


def async_session_of_httpx(module: Any) -> Callable[..., AbstractAsyncContextManager[Any]]:
    @contextlib.asynccontextmanager
    async def session(pool: int = 2) -> AsyncIterator[Any]:
        limits = module.Limits(max_connections=pool)
        async with module.AsyncClient(limits=limits, timeout=20, trust_env=False) as client:
            yield lambda url: client.send(client.build_request("GET", url), stream=True)

    return session


def session_of_requests(module: Any) -> Callable[..., AbstractContextManager[Any]]:
    @contextlib.contextmanager
    def session(pool: int = 2) -> Iterator[Any]:
        with module.Session() as opened:
            opened.trust_env = False
            adapter = module.adapters.HTTPAdapter(
                pool_connections=1, pool_maxsize=pool, pool_block=True
            )
            opened.mount("http://", adapter)
            yield lambda url: opened.get(url, stream=True, timeout=20)

    return session


@contextlib.asynccontextmanager
async def async_session_of_niquests(pool: int = 2) -> AsyncIterator[Any]:
    async with niquests.AsyncSession(pool_connections=1, pool_maxsize=pool) as opened:
        opened.trust_env = False
        yield lambda url: opened.get(url, stream=True, timeout=20)


@contextlib.contextmanager
def session_of_urllib3(pool: int = 2) -> Iterator[Any]:
    with urllib3.PoolManager(maxsize=pool, block=True) as manager:
        headers = {"Accept-Encoding": "gzip, deflate, br"}
        yield lambda url: manager.request(
            "GET", url, preload_content=False, pool_timeout=20, timeout=20, headers=headers
        )


@contextlib.contextmanager
def session_of_urllib(pool: int = 2) -> Iterator[Any]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    yield lambda url: opener.open(url, timeout=20)


@contextlib.asynccontextmanager
async def session_of_aiohttp(pool: int = 2) -> AsyncIterator[Any]:
    connector = aiohttp.TCPConnector(limit=pool)
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as opened:
        yield opened.get


CLIENTS = [
    Client("httpx", session_of_httpx(httpx)),
    Client("httpx async", async_session_of_httpx(httpx), is_async=True),
    Client("httpx2", session_of_httpx(httpx2)),
    Client("httpx2 async", async_session_of_httpx(httpx2), is_async=True),
    Client("requests", session_of_requests(requests)),
    Client("urllib3", session_of_urllib3),
    Client("urllib", session_of_urllib, decodes=False, has_pool=False),
    Client("aiohttp", session_of_aiohttp, is_async=True),
    Client("niquests", session_of_requests(niquests)),
    Client("niquests async", async_session_of_niquests, is_async=True),
]
