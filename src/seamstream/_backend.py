"""The only place that chooses between the compiled module and the reference.

`SEAMSTREAM_BACKEND`, read once at import:

* unset: the compiled module; the reference only where there is no compiled module at all. One
  that is there but does not load is an error, never a quiet fallback to slow code.
* `rust`: the compiled module or `ImportError`.
* `reference`: plain Python.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal

__all__ = [
    "Event",
    "Frame",
    "JSONStreamDecoder",
    "SSEDecoder",
    "UTF8Decoder",
    "_exclusive",
    "_restore_event",
    "_restore_frame",
    "backend",
]

if TYPE_CHECKING:
    from ._core import Event, Frame, JSONStreamDecoder, SSEDecoder, UTF8Decoder, _exclusive


def _choose(wanted: str | None) -> Literal["rust", "reference"]:
    if wanted == "reference":
        return "reference"
    if wanted not in (None, "rust"):
        raise ImportError(f"SEAMSTREAM_BACKEND must be 'rust' or 'reference', not {wanted!r}")
    try:
        import_module(f"{__package__}._core")
    except ModuleNotFoundError as error:
        if wanted is None and error.name == f"{__package__}._core":
            return "reference"
        raise
    return "rust"


backend: Final = _choose(os.environ.get("SEAMSTREAM_BACKEND"))

if not TYPE_CHECKING:
    if backend == "rust":
        from ._core import Event, Frame, JSONStreamDecoder, SSEDecoder, UTF8Decoder, _exclusive
    else:
        from ._reference import Event, Frame, JSONStreamDecoder, SSEDecoder, UTF8Decoder, _exclusive


def _restore_event(*state: Any) -> Event:
    """Rebuild a pickled event, which may come from the other backend."""
    return Event._restore(*state)


def _restore_frame(*state: Any) -> Frame:
    """Rebuild a pickled frame, which may come from the other backend."""
    return Frame._restore(*state)
