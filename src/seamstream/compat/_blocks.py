"""What an event does not tell of the block that it was made of; for decoders with `keep_wire`."""

from __future__ import annotations

import re

from seamstream import Event

__all__ = ["has_data_line", "has_line", "lines_of"]

_DATA_LINE = re.compile(rb"(?:\A|[\r\n])data[:\r\n]")
_LINE = re.compile(rb"(?:\A|[\r\n])(?:data|event|id|retry)[:\r\n]")


def lines_of(event: Event) -> list[bytes]:
    """Give the lines of the block, comments and unknown fields included."""
    # The last one is the empty line that ended it. Bytes are split at CR, LF and CRLF only.
    return (event.wire or b"").splitlines()[:-1]


def has_data_line(event: Event) -> bool:
    """Say whether there was data, if only empty: without, there is no event by the standard."""
    return bool(event.raw) or _DATA_LINE.search(event.wire or b"") is not None


def has_line(event: Event) -> bool:
    """Say whether there was any field: some make an event of an empty line alone."""
    return bool(event.raw) or _LINE.search(event.wire or b"") is not None
