"""What seamstream raises.

The hierarchy::

    SeamstreamError
    ├── DecodeError (ValueError)
    │   ├── UTF8DecodeError (UnicodeDecodeError)
    │   ├── JSONDecodeError (json.JSONDecodeError)
    │   ├── SchemaError
    │   └── TornError
    ├── LimitExceededError
    ├── StreamStateError (RuntimeError)
    ├── IdleTimeoutError (TimeoutError)
    └── ContentTypeError

Messages say what was found and where, and never hold payload text: prompts and
answers are private, and messages end up in logs.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = [
    "ContentTypeError",
    "DecodeError",
    "IdleTimeoutError",
    "JSONDecodeError",
    "LimitExceededError",
    "SchemaError",
    "SeamstreamError",
    "StreamStateError",
    "TornError",
    "UTF8DecodeError",
]


class SeamstreamError(Exception):
    """Base of everything that seamstream raises on purpose.

    Wrong argument types are not part of it: they raise `TypeError`.
    """


class DecodeError(SeamstreamError, ValueError):
    """Report input that cannot be decoded.

    Args:
        message: What was found and where, without payload text.
        offset: Position of the fault, in bytes from 0; each subclass says from where.
        kind: A kebab-case code out of a closed set.

    Attributes:
        offset: As above.
        kind: As above.
    """

    kind: str
    offset: int

    def __init__(self, message: str, offset: int, kind: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.kind = kind

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.offset, self.kind), self.__dict__


class UTF8DecodeError(DecodeError, UnicodeDecodeError):
    """Report bytes that are not UTF-8.

    Unlike the `UnicodeDecodeError` of a codec it holds the ill-formed bytes only, not
    the input around them: `start` is 0 and `end` is `len(object)`.

    Args:
        object: The ill-formed bytes: one maximal subpart, 1 to 3 bytes.
        offset: Absolute position in the stream of the first of them, in bytes.
        reason: CPython's words: "invalid start byte", "invalid continuation byte" or
            "unexpected end of data".
        kind: "ill-formed", or "truncated" when the stream ended inside a character.
    """

    def __init__(self, object: bytes, offset: int, reason: str, kind: str = "ill-formed") -> None:
        UnicodeDecodeError.__init__(self, "utf-8", object, 0, len(object), reason)
        self.offset = offset
        self.kind = kind

    def __str__(self) -> str:
        found = " ".join(f"0x{byte:02x}" for byte in self.object)
        return f"{self.kind} utf-8 at byte {self.offset}: {found}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.object, self.offset, self.reason, self.kind), self.__dict__


class JSONDecodeError(DecodeError, json.JSONDecodeError):
    """Report a payload that is not JSON.

    `except json.JSONDecodeError` catches it too. The payload is not in it: `doc` is empty,
    so `lineno` is 1 and `colno` is `offset + 1`.

    Args:
        msg: What was found, without payload text.
        offset: Position of the fault within `raw`, in bytes; also `pos`.
        kind: "syntax".
    """

    def __init__(self, msg: str, offset: int, kind: str = "syntax") -> None:
        # Not by way of json.JSONDecodeError, which looks for line and column in a document.
        ValueError.__init__(self, f"{msg} at byte {offset}")
        self.offset = offset
        self.kind = kind
        self.msg = msg
        self.doc = ""
        self.pos = offset
        self.lineno = 1
        self.colno = offset + 1

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.offset, self.kind), self.__dict__


class SchemaError(DecodeError):
    """Report JSON that a model refused.

    Args:
        msg: What was refused, without payload text.
        errors: The validator's list of errors.
        offset: Position within `raw`, in bytes.

    Attributes:
        errors: As above.
        kind: "schema".
    """

    errors: Any

    def __init__(self, msg: str, errors: Any, offset: int = 0) -> None:
        super().__init__(msg, offset, "schema")
        self.errors = errors

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.errors, self.offset), self.__dict__


class TornError(DecodeError):
    """Report a use of the payload of an event inside which the stream ended.

    Args:
        offset: Absolute position in the stream of the event's first byte.

    Attributes:
        kind: "torn".
    """

    def __init__(self, offset: int) -> None:
        message = f"the stream ended inside this event, which begins at byte {offset}"
        super().__init__(message, offset, "torn")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.offset,), self.__dict__


class LimitExceededError(SeamstreamError):
    """Report an event that outgrew `Limits.max_event_bytes`.

    Args:
        limit: The limit, in bytes.
        observed: The size at which it was noticed: `limit + 1`.
        offset: Absolute position in the stream of the first byte past the limit.

    Attributes:
        limit: As above.
        observed: As above.
        offset: As above.
    """

    limit: int
    observed: int
    offset: int

    def __init__(self, limit: int, observed: int, offset: int) -> None:
        super().__init__(f"an event outgrew max_event_bytes={limit} at byte {offset}")
        self.limit = limit
        self.observed = observed
        self.offset = offset

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.limit, self.observed, self.offset), self.__dict__


class StreamStateError(SeamstreamError, RuntimeError):
    """Report a call that the decoder's state does not allow.

    The decoder is closed, has failed, is in use by another thread, was called from inside
    itself, or an iterator still has events to hand out. Or an `EventStream` is closed, or its
    source was read before.
    """


class IdleTimeoutError(SeamstreamError, TimeoutError):
    """Report that a source gave nothing for too long.

    Args:
        seconds: The limit, in seconds.
        awaited: What did not come: "bytes" or "items".

    Attributes:
        seconds: As above.
        awaited: As above.
    """

    seconds: float
    awaited: str

    def __init__(self, seconds: float, awaited: str = "bytes") -> None:
        super().__init__(f"no {awaited} for {seconds:g} seconds")
        self.seconds = seconds
        self.awaited = awaited

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.seconds, self.awaited), self.__dict__


class ContentTypeError(SeamstreamError):
    """Report a response whose content type is not the expected one.

    Args:
        content_type: What the response says it is: the header, parameters included.
        expected: The media ranges that were expected.
        excerpt: How the body begins, if that was asked for.

    Attributes:
        content_type: As above.
        expected: As above.
        excerpt: As above; never in the message.
    """

    content_type: str
    expected: tuple[str, ...]
    excerpt: bytes

    def __init__(
        self, content_type: str, expected: tuple[str, ...] = (), excerpt: bytes = b""
    ) -> None:
        found = repr(content_type[:80])
        super().__init__(f"content type {found}, expected {' or '.join(expected) or 'another'}")
        self.content_type = content_type
        self.expected = expected
        self.excerpt = excerpt

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.content_type, self.expected, self.excerpt), self.__dict__
