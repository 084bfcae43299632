"""Let the A2A SDK read its streams through seamstream, in the whole process.

    seamstream.compat.a2a.install()

Streams give the same objects. What is different: docs/coming-from/other-sdks.md.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from seamstream import SSEDecoder

from ._private_names import Installation, PrivateName
from ._reading import LIMITS, log_torn

__all__ = ["install", "uninstall"]

TESTED = "1.3.0"


async def _parse_sse_stream(response: Any) -> AsyncGenerator[tuple[str, str], None]:
    async for event in SSEDecoder(limits=LIMITS).aiter(response.aiter_bytes()):
        if event.torn:
            log_torn(event)
        else:
            yield event.event or "message", event.data


_installation = Installation(
    "a2a-sdk",
    TESTED,
    [
        PrivateName(
            "a2a.client.transports.http_helpers",
            "parse_sse_stream",
            lambda _: _parse_sse_stream,
            ("response",),
        )
    ],
)
install, uninstall = _installation.install, _installation.uninstall
