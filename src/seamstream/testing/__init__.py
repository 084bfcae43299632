"""What a test of a streaming program needs: payloads, ways to cut and to damage them, a server.

* `seamstream.testing.payloads`: event streams in the shapes of well-known APIs.
* `seamstream.testing.fragmentations`: ways to cut a stream into chunks.
* `seamstream.testing.faults`: streams with one known fault in them, made from a seed.
* `seamstream.testing.FragmentingServer`: writes a payload to real sockets a few bytes at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .server import FragmentingServer

__all__ = ["FragmentingServer"]


def __getattr__(name: str) -> Any:
    # The server brings http.server with it, which most users of this package never need.
    if name == "FragmentingServer":
        from .server import FragmentingServer  # noqa: PLC0415

        return FragmentingServer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
