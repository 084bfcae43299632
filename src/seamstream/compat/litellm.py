"""Let LiteLLM read its streams through seamstream, in the whole process.

    seamstream.compat.litellm.install()

It has three ways to read a stream. The clients of the OpenAI SDK, which it makes for OpenAI and
many that are compatible: for these call `seamstream.compat.openai.install()` as well. The decoder
of that SDK by itself, for the Responses API. And its own line splitter, for most other providers:
this is right but for a byte order mark. The last two are what is replaced here.

What is different: docs/coming-from/other-sdks.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._private_names import Installation, PrivateName
from .openai import SSEDecoder

__all__ = ["install", "uninstall"]

TESTED = "1.110.2"


def _without_byte_order_mark(stock: Callable[[], Any]) -> type:
    """Make a line splitter that drops one U+FEFF before the first line."""

    class SSELineSplitter:
        def __init__(self) -> None:
            self._splitter = stock()
            self._is_at_start = True

        def feed(self, text: str) -> tuple[str, ...]:
            if self._is_at_start and text:
                self._is_at_start = False
                text = text.removeprefix("\ufeff")
            lines: tuple[str, ...] = self._splitter.feed(text)
            return lines

        def flush(self) -> tuple[str, ...]:
            lines: tuple[str, ...] = self._splitter.flush()
            return lines

    return SSELineSplitter


_installation = Installation(
    "litellm",
    TESTED,
    [
        PrivateName("litellm.responses.streaming_iterator", "SSEDecoder", lambda _: SSEDecoder),
        PrivateName(
            "litellm.llms.bigmodel.messages.transformation", "SSEDecoder", lambda _: SSEDecoder
        ),
        PrivateName(
            "litellm.llms.custom_httpx.sse_lines", "_SSELineSplitter", _without_byte_order_mark
        ),
    ],
)
install, uninstall = _installation.install, _installation.uninstall
