"""How much a decoder may hold, and how deep it may go."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bound what one event or JSON value may cost.

    Args:
        max_event_bytes: Bytes that one open event may have on the wire, counted from its first
            line that is neither empty nor a comment; terminators and the comments between its
            lines are counted, the empty line that ends it is not. Default 8 MiB.
        max_depth: Levels to which JSON arrays and objects may be nested. Default 1024.

    Raises:
        TypeError: A limit is not an `int` (a `bool` is none).
        ValueError: A limit is less than 1 or more than `sys.maxsize`.
    """

    max_event_bytes: int = 8 << 20
    max_depth: int = 1024

    def __post_init__(self) -> None:
        for field in fields(self):
            limit = getattr(self, field.name)
            if not isinstance(limit, int) or isinstance(limit, bool):
                raise TypeError(f"{field.name} must be an int, not {type(limit).__name__}")
            if not 1 <= limit <= sys.maxsize:
                raise ValueError(f"{field.name} must be from 1 to {sys.maxsize}, not {limit}")
