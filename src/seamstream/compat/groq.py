"""Let the Groq SDK read its streams through seamstream.

    from seamstream.compat.groq import Groq    # one client
    client = patch(groq.Groq())                # one that there is
    install()                                  # all clients of the process

Streams give the same objects. What is different, and what it gains: docs/coming-from/groq.md.
"""

# The hook is private: what happens when it moves is said here, and tested.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import Any

from seamstream import Event

from . import _exact_json
from ._private_names import require
from ._stainless import Decoder, Hook

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


class ServerSentEvent(StockEvent):
    """An event as the SDK has it, made of one of ours."""

    def __init__(self, event: Event) -> None:
        super().__init__(event=event.event, data=event.data, id=event.id or None, retry=event.retry)
        self._source = event

    def json(self) -> Any:
        """Parse the data as JSON, on every call, to what `json.loads` gives."""
        return _exact_json.loads(self._source)


class SSEDecoder(Decoder[ServerSentEvent]):
    """Decode event streams for the Groq SDK, in place of its own decoder.

    Args:
        limits: How large an event may grow. Default 256 MiB; the SDK's own decoder has no limit.
    """

    _profile = "openai"

    def _convert(self, event: Event) -> ServerSentEvent:
        return ServerSentEvent(event)


class Groq(groq.Groq):
    """A `groq.Groq` that reads its streams through seamstream."""

    def _make_sse_decoder(self) -> SSEDecoder:
        return SSEDecoder()


class AsyncGroq(groq.AsyncGroq):
    """An `groq.AsyncGroq` that reads its streams through seamstream."""

    def _make_sse_decoder(self) -> SSEDecoder:
        return SSEDecoder()


_hook = Hook(BaseClient, SSEDecoder, distribution="groq", tested=TESTED)
patch, unpatch = _hook.patch, _hook.unpatch
install, uninstall = _hook.install, _hook.uninstall
