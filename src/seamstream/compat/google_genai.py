"""Let the Google Gen AI SDK read its streams through seamstream, in the whole process.

    seamstream.compat.google_genai.install()

Streams give the same objects. What is different: docs/coming-from/other-sdks.md.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

from seamstream import LimitExceededError, SSEDecoder

from . import _speakeasy
from ._private_names import Installation, PrivateName
from ._reading import LIMITS

__all__ = ["install", "uninstall"]

TESTED = "3.6.1"

BOM = b"\xef\xbb\xbf"
# In the place of another line, so that a line feed after that is none after a CR before it.
COMMENT = b":\n"
BLANK = b" \t\r\n"
MAX_BLANK = 64  # bytes at the begin of a line, which may be one of JSON; more are of another line


class _Beginnings:
    """How lines of an event stream begin.

    Args:
        fields: The names of fields.
        signs: What else one may begin with, but for blank lines.
    """

    def __init__(self, *fields: bytes, signs: tuple[bytes, ...]) -> None:
        ends = (b":", b"\r", b"\n")
        self._whole = (b"\r", b"\n", *signs, *(name + end for name in fields for end in ends))
        self._begun = {name[:end] for name in fields for end in range(1, len(name) + 1)}

    def fit(self, line: bytes) -> bool:
        """Say whether a line is one of an event stream, whatever may still come of it."""
        return line.startswith(self._whole) or (line[-1] in b"\r\n" and not line.strip(BLANK))

    def may_fit(self, line: bytes) -> bool:
        """Say whether one may be, once there is more of it."""
        return line in self._begun or (len(line) <= MAX_BLANK and not line.strip(BLANK))


_OF_STREAM = _Beginnings(b"data", b"event", b"id", b"retry", signs=(b":",))
_BETWEEN_OTHER_LINES = _Beginnings(b"data", signs=())  # `: 1}` may be a line of JSON
_WHOLE_FIELDS = (b"data", b"event", b"id", b"retry")
_MARK = re.compile(rb'["\\{}]')


class _OtherLines:
    """Join lines until their braces match, as the SDK does: they may be one JSON object.

    Attributes:
        is_open: Whether there are lines that wait for others.
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._size = 0
        self._begin()

    def _begin(self) -> None:
        self._lines: list[bytes] = []
        self._depth = 0
        self._is_in_string = False
        self._escaped_at = -1  # in the line
        self.is_open = False

    def add(self, part: bytes, end: int) -> None:
        """Take a part of a line, which ends at this offset of the stream.

        Raises:
            LimitExceededError: The lines outgrew the limits.
        """
        self._line += part
        self._size += len(part)
        limit = LIMITS.max_event_bytes
        if self._size > limit:
            raise LimitExceededError(limit, limit + 1, end - (self._size - limit))

    def end_line(self) -> str | None:
        """Give the text of all lines if this is the last one. Time is linear in the line."""
        line = bytes(self._line).rstrip(b"\r\n")
        self._line.clear()
        self._lines.append(line)
        for mark in _MARK.finditer(line):
            if self._is_in_string:
                if mark.start() == self._escaped_at:
                    continue
                if mark[0] == b"\\":
                    self._escaped_at = mark.end()
                self._is_in_string = mark[0] != b'"'
            elif mark[0] == b'"':
                self._is_in_string = True
            elif mark[0] == b"{":
                self._depth += 1
            elif mark[0] == b"}":
                self._depth -= 1
        self._escaped_at -= len(line)
        self.is_open = self._depth != 0
        return None if self.is_open else self._take()

    def close(self) -> str:
        """Give the text of what has come, which may be none."""
        if self._line:
            self._lines.append(bytes(self._line))
        return self._take()

    def _take(self) -> str:
        text = b"".join(self._lines).decode("utf-8", "replace")
        self._size = 0
        self._begin()
        return text


class _Payloads:
    """Take the texts out of a response that the SDK reads as JSON.

    They are the data of events, and what stands there instead: an error is a JSON object, written
    over several lines, at the start or among events. Any other line is given as it is, as the SDK
    does, which then says that it is no JSON; to ignore it, as the standard has it, could be to
    ignore an error.
    """

    def __init__(self) -> None:
        self._events = SSEDecoder(on_torn="flush", limits=LIMITS)
        self._others = _OtherLines()
        self._beginnings = _OF_STREAM
        self._begun: bytes = b""  # a line's begin of which the rest must decide what it is
        self._offset = 0  # of what comes after it
        self._is_at_start = True
        self._is_in_line = False
        self._is_in_other_line = False
        self._is_after_cr = False  # that ended another line: a line feed belongs to it

    def feed(self, chunk: bytes) -> Generator[str, None, None]:
        """Give the texts that this chunk completes. Time is linear in its bytes."""
        self._offset += len(chunk)
        chunk = self._begun + chunk
        self._begun = b""
        if self._is_at_start:
            if len(chunk) < len(BOM) and BOM.startswith(chunk):
                self._begun = chunk
                return
            chunk = chunk.removeprefix(BOM)
            self._is_at_start = False
        fed = end = 0
        for line in chunk.splitlines(keepends=True):  # which knows LF, CR and CRLF
            begin, end = end, end + len(line)
            is_rest_of_end = self._is_after_cr and line == b"\n"
            self._is_after_cr = False
            if is_rest_of_end:
                fed = end
            elif self._is_in_other_line:
                yield from self._take_other(line, end - len(chunk))
                fed = end
            elif self._is_in_line or self._beginnings.fit(line):
                self._is_in_line = line[-1] not in b"\r\n"
            else:
                yield from self._feed_events(chunk[fed:begin])
                if line[-1] not in b"\r\n" and self._beginnings.may_fit(line):
                    self._begun = line
                else:
                    self._events.feed(COMMENT)
                    yield from self._take_other(line, end - len(chunk))
                fed = end
        yield from self._feed_events(chunk[fed:])

    def close(self) -> Generator[str, None, None]:
        """Give the texts that the end of the response completes."""
        if self._begun in _WHOLE_FIELDS or not self._begun.strip(BLANK):
            rest = self._events.feed(self._begun)
        else:
            self._others.add(self._begun, self._offset)
            rest = ()
        if text := self._others.close():
            yield text
        for event in (*rest, *self._events.close()):
            yield event.data

    def _feed_events(self, part: bytes) -> Generator[str, None, None]:
        if part:
            for event in self._events.feed(part):
                yield event.data

    def _take_other(self, part: bytes, end: int) -> Generator[str, None, None]:
        """Take a part of another line; it ends so many bytes from the offset."""
        self._others.add(part, self._offset + end)
        self._is_in_other_line = part[-1] not in b"\r\n"
        if not self._is_in_other_line:
            text = self._others.end_line()
            if text is not None:
                yield text
            self._beginnings = _BETWEEN_OTHER_LINES if self._others.is_open else _OF_STREAM
            self._is_after_cr = part[-1:] == b"\r"


# The next two are the same, once for each kind of source.


def _iter_payloads(original: Callable[..., Any]) -> Callable[..., Generator[str, None, None]]:
    def _iter_response_stream(self: Any) -> Generator[str, None, None]:
        response = self.response_stream
        if hasattr(response, "iter_bytes"):
            chunks = response.iter_bytes()
        elif hasattr(response, "iter_content"):
            chunks = response.iter_content(chunk_size=512)  # as the SDK does
        else:
            yield from original(self)  # which says what is wrong with it
            return
        payloads = _Payloads()
        for chunk in chunks:
            yield from payloads.feed(chunk)
        yield from payloads.close()

    return _iter_response_stream


def _aiter_payloads(original: Callable[..., Any]) -> Callable[..., AsyncGenerator[str, None]]:
    async def _aiter_response_stream(self: Any) -> AsyncGenerator[str, None]:
        response = self.response_stream
        if hasattr(response, "aiter_bytes"):
            chunks = response.aiter_bytes()
        elif hasattr(response, "content") and hasattr(response.content, "iter_any"):
            chunks = response.content.iter_any()
        else:
            async for text in original(self):
                yield text
            return
        payloads = _Payloads()
        try:
            async for chunk in chunks:
                for text in payloads.feed(chunk):
                    yield text
            for text in payloads.close():
                yield text
        finally:
            # As the SDK does, so that the connection can be used again.
            if hasattr(response, "aclose"):
                await response.aclose()
            else:
                response.release()

    return _aiter_response_stream


_API_CLIENT = "google.genai._api_client"
_installation = Installation(
    "google-genai",
    TESTED,
    [
        PrivateName(_API_CLIENT, "HttpResponse._iter_response_stream", _iter_payloads, ("self",)),
        PrivateName(_API_CLIENT, "HttpResponse._aiter_response_stream", _aiter_payloads, ("self",)),
        *_speakeasy.names_in("google.genai._gaos.utils.eventstreaming"),
    ],
)
install, uninstall = _installation.install, _installation.uninstall
