"""Let the Anthropic SDK read its streams through seamstream.

    from seamstream.compat.anthropic import Anthropic    # one client
    client = patch(anthropic.Anthropic())                # one that there is
    install()                                            # all clients of the process

Streams give the same objects. What is different, and what it gains: docs/coming-from/anthropic.md.
"""

# The hook is private: what happens when it moves is said here, and tested.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seamstream import Event

from ._blocks import lines_of
from ._private_names import PrivateName, require
from ._stainless import Decoder, Hook, MadeOfOurs, is_patched

TESTED = "2.14.0"

try:
    import anthropic
    from anthropic._base_client import BaseClient
    from anthropic._streaming import ServerSentEvent as StockEvent
except ImportError as error:
    raise require(error, __name__, "anthropic", TESTED) from error

__all__ = [
    "Anthropic",
    "AsyncAnthropic",
    "SSEDecoder",
    "install",
    "patch",
    "uninstall",
    "unpatch",
]


class ServerSentEvent(MadeOfOurs, StockEvent):
    """An event as the SDK has it, made of one of ours."""

    @property
    def raw(self) -> list[str]:
        """The lines of the event as they came, comments and unknown fields included."""
        return [line.decode("utf-8", "replace") for line in lines_of(self._source)]


class SSEDecoder(Decoder[ServerSentEvent]):
    """Decode event streams for the Anthropic SDK, in place of its own decoder.

    Args:
        limits: How large an event may grow. Default 256 MiB; the SDK's own decoder has no limit.
    """

    _profile = "anthropic"
    _event_class = ServerSentEvent

    def _keeps_without_data(self, event: Event) -> bool:
        return True  # as the SDK's own does: this SDK passes over them itself


class _Patched(type):
    """The class of the clients below.

    The SDK looks for credentials, and takes them along to copies, in clients of exactly its own
    classes: a subclass would work with an API key only. So these give clients of the SDK's classes,
    patched. A subclass of them is one as it would be of the SDK's.
    """

    if not TYPE_CHECKING:  # which would take what it returns for the type of the clients

        def __call__(cls, *arguments: Any, **options: Any) -> Any:
            stock = _STOCK.get(cls)
            make = super().__call__ if stock is None else stock
            return patch(make(*arguments, **options))

    def __instancecheck__(cls, instance: object) -> bool:
        stock = _STOCK.get(cls)
        if stock is None:
            return super().__instancecheck__(instance)
        return isinstance(instance, stock) and is_patched(instance)


class Anthropic(anthropic.Anthropic, metaclass=_Patched):
    """An `anthropic.Anthropic` that reads its streams through seamstream."""


class AsyncAnthropic(anthropic.AsyncAnthropic, metaclass=_Patched):
    """An `anthropic.AsyncAnthropic` that reads its streams through seamstream."""


_STOCK: dict[type, Any] = {
    Anthropic: anthropic.Anthropic,
    AsyncAnthropic: anthropic.AsyncAnthropic,
}


def _raw_events(response: Any) -> Any:
    return SSEDecoder().iter_bytes(response.iter_bytes())


def _async_raw_events(response: Any) -> Any:
    return SSEDecoder().aiter_bytes(response.aiter_bytes())


_STREAMS = "anthropic._streaming"
_RAW_EVENTS = [  # which have no client to ask for a decoder
    PrivateName(_STREAMS, "Stream.raw_events", lambda _: staticmethod(_raw_events), ("response",)),
    PrivateName(
        _STREAMS, "AsyncStream.raw_events", lambda _: staticmethod(_async_raw_events), ("response",)
    ),
]
_hook = Hook(BaseClient, SSEDecoder, distribution="anthropic", tested=TESTED, others=_RAW_EVENTS)
patch, unpatch = _hook.patch, _hook.unpatch
install, uninstall = _hook.install, _hook.uninstall
