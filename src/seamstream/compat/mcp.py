"""Let the MCP SDK read its streams through seamstream, in the whole process.

    seamstream.compat.mcp.install()

Streams give the same objects. What is different: docs/coming-from/other-sdks.md.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from ._private_names import Installation, PrivateName
from .httpx2 import EventSource

__all__ = ["install", "uninstall"]

TESTED = "2.3.0"


def _sse_within_origin(
    original: Callable[..., AbstractAsyncContextManager[Any]],
) -> Callable[..., AbstractAsyncContextManager[EventSource]]:
    @asynccontextmanager
    async def sse_within_origin(
        client: Any, url: Any, *, headers: Any = None, max_event_size: int | None = 1 << 20
    ) -> AsyncGenerator[EventSource, None]:
        async with original(client, url, headers=headers, max_event_size=max_event_size) as source:
            yield EventSource(source.response, max_event_size)

    return sse_within_origin


_PARAMETERS = ("client", "url", "headers", "max_event_size")
_installation = Installation(
    "mcp",
    TESTED,
    [
        PrivateName("mcp.client.streamable_http", "EventSource", lambda _: EventSource),
        *(
            PrivateName(module, "sse_within_origin", _sse_within_origin, _PARAMETERS)
            for module in ("mcp.client.streamable_http", "mcp.client.sse")
        ),
    ],
)
install, uninstall = _installation.install, _installation.uninstall
