"""Let the OpenAI SDK read its streams through seamstream.

    from seamstream.compat.openai import OpenAI    # one client
    client = patch(openai.OpenAI())                # one that there is
    install()                                      # all clients of the process

Streams give the same objects. What is different, and what it gains: docs/coming-from/openai.md.
"""

# The hook is private: what happens when it moves is said here, and tested.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from ._private_names import require
from ._stainless import Decoder, Hook, MadeOfOurs

TESTED = "3.57.0"

try:
    import openai
    from openai._base_client import BaseClient
    from openai._streaming import ServerSentEvent as StockEvent
except ImportError as error:
    raise require(error, __name__, "openai", TESTED) from error

__all__ = [
    "AsyncAzureOpenAI",
    "AsyncOpenAI",
    "AzureOpenAI",
    "OpenAI",
    "SSEDecoder",
    "install",
    "patch",
    "uninstall",
    "unpatch",
]


class ServerSentEvent(MadeOfOurs, StockEvent):
    """An event as the SDK has it, made of one of ours."""


class SSEDecoder(Decoder[ServerSentEvent]):
    """Decode event streams for the OpenAI SDK, in place of its own decoder.

    Args:
        limits: How large an event may grow. Default 256 MiB; the SDK's own decoder has no limit.
    """

    _profile = "openai"
    _event_class = ServerSentEvent


class OpenAI(openai.OpenAI):
    """An `openai.OpenAI` that reads its streams through seamstream."""

    def _make_sse_decoder(self) -> SSEDecoder:
        return SSEDecoder()


class AsyncOpenAI(openai.AsyncOpenAI):
    """An `openai.AsyncOpenAI` that reads its streams through seamstream."""

    def _make_sse_decoder(self) -> SSEDecoder:
        return SSEDecoder()


class AzureOpenAI(openai.AzureOpenAI):
    """An `openai.AzureOpenAI` that reads its streams through seamstream."""

    def _make_sse_decoder(self) -> SSEDecoder:
        return SSEDecoder()


class AsyncAzureOpenAI(openai.AsyncAzureOpenAI):
    """An `openai.AsyncAzureOpenAI` that reads its streams through seamstream."""

    def _make_sse_decoder(self) -> SSEDecoder:
        return SSEDecoder()


_hook = Hook(BaseClient, SSEDecoder, distribution="openai", tested=TESTED)
patch, unpatch = _hook.patch, _hook.unpatch
install, uninstall = _hook.install, _hook.uninstall
