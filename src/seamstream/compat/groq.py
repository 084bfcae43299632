"""Let the Groq SDK read its streams through seamstream.

    from seamstream.compat.groq import Groq    # one client
    client = patch(groq.Groq())                # one that there is
    install()                                  # all clients of the process

Streams give the same objects. What is different, and what it gains: docs/coming-from/groq.md.
"""

# The hook is private: what happens when it moves is said here, and tested.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from ._private_names import require
from ._stainless import Decoder, Hook, MadeOfOurs

TESTED = "1.7.0"

try:
    import groq
    from groq._base_client import BaseClient
    from groq._streaming import ServerSentEvent as StockEvent
except ImportError as error:
    raise require(error, __name__, "groq", TESTED) from error

__all__ = [
    "AsyncGroq",
    "Groq",
    "SSEDecoder",
    "install",
    "patch",
    "uninstall",
    "unpatch",
]


class ServerSentEvent(MadeOfOurs, StockEvent):
    """An event as the SDK has it, made of one of ours."""


class SSEDecoder(Decoder[ServerSentEvent]):
    """Decode event streams for the Groq SDK, in place of its own decoder.

    Args:
        limits: How large an event may grow. Default 256 MiB; the SDK's own decoder has no limit.
    """

    _profile = "openai"
    _event_class = ServerSentEvent


class Groq(groq.Groq):
    """A `groq.Groq` that reads its streams through seamstream."""

    def _make_sse_decoder(self) -> SSEDecoder:
        return SSEDecoder()


class AsyncGroq(groq.AsyncGroq):
    """A `groq.AsyncGroq` that reads its streams through seamstream."""

    def _make_sse_decoder(self) -> SSEDecoder:
        return SSEDecoder()


_hook = Hook(BaseClient, SSEDecoder, distribution="groq", tested=TESTED)
patch, unpatch = _hook.patch, _hook.unpatch
install, uninstall = _hook.install, _hook.uninstall
