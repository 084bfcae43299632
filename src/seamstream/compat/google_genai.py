"""Let the Google Gen AI SDK read its streams through seamstream, in the whole process.

    seamstream.compat.google_genai.install()

Streams give the same objects. What is different: docs/coming-from/other-sdks.md.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

from seamstream import Frame, JSONStreamDecoder, SSEDecoder

from . import _speakeasy
from ._private_names import Installation, PrivateName
from ._reading import LIMITS

__all__ = ["install", "uninstall"]

TESTED = "3.6.1"

BOM = b"\xef\xbb\xbf"

# How the lines of an event stream begin, blank ones included; and what may be such a beginning, at
# the end of a chunk.
_FIELD = rb"(?:data|event|id|retry)[:\r\n]|:|[ \t]*[\r\n]"
_BEGUN = rb"(?:d|da|dat|data|e|ev|eve|even|event|i|id|r|re|ret|retr|retry|[ \t]{1,64})\Z"
_OTHER = rb"(?!" + _FIELD + rb"|" + _BEGUN + rb"|\Z)"
_OTHER_AT_START = re.compile(_OTHER)
_OTHER_LINE = re.compile(rb"[\r\n]" + _OTHER)
_BEGUN_AT_START = re.compile(_BEGUN)
_BEGUN_LINE = re.compile(rb"[\r\n](?=" + _BEGUN + rb")")
_OBJECT = re.compile(rb"[ \t]*\{")
_END_OF_LINE = re.compile(rb"[\r\n]")


class _Payloads:
    """Take the texts out of a response that the SDK reads as JSON.

    They are the data of events, and what stands there instead: an error is a JSON object, written
    over several lines, at the start or after events. Any other line is given as it is, as the SDK
    does, which then says that it is no JSON; to ignore it, as the standard has it, could be to
    ignore an error. It is given whole, but for one that outgrows the limits: a part could be JSON.
    """

    def __init__(self) -> None:
        self._events = SSEDecoder(on_torn="flush", limits=LIMITS)
        self._object: JSONStreamDecoder | None = None
        self._begun = b""  # a line's begin of which the rest must decide what it is: 64 bytes
        self._is_at_start = True
        self._is_in_line = False
        self._is_in_other_line = False
        self._other_line = bytearray()

    def feed(self, chunk: bytes) -> Generator[str, None, None]:
        """Give the texts that this chunk completes. Time is linear in its bytes."""
        chunk = self._begun + chunk
        self._begun = b""
        if self._is_at_start:
            if len(chunk) < len(BOM) and BOM.startswith(chunk):
                self._begun = chunk
                return
            chunk = chunk.removeprefix(BOM)
            self._is_at_start = False
        at = 0
        while at < len(chunk):
            if self._object is not None:
                end = _end_of_line(chunk, at)
                yield from self._feed_object(self._object, chunk[at:end])
            elif self._is_in_other_line:
                end = _end_of_line(chunk, at)
                self._other_line += chunk[at:end]
                if chunk[end - 1] in b"\r\n":
                    yield self._take_other_line()
                    self._is_in_other_line = False
                elif len(self._other_line) > LIMITS.max_event_bytes:
                    yield self._take_other_line()
            else:
                end = self._find_other_line(chunk, at)
                yield from self._feed_events(chunk[at:end])
                if end < len(chunk):
                    if _OBJECT.match(chunk, end):
                        self._object = JSONStreamDecoder(framing="concatenated", limits=LIMITS)
                    else:
                        self._is_in_other_line = True
            at = end

    def close(self) -> Generator[str, None, None]:
        """Give the texts that the end of the response completes."""
        if self._object is not None:
            for frame in self._object.close():
                yield _text_of(frame)
        if self._is_in_other_line:
            yield self._take_other_line()
        for event in (*self._events.feed(self._begun), *self._events.close()):
            yield event.data

    def _take_other_line(self) -> str:
        line = self._other_line.decode("utf-8", "replace").rstrip("\r\n")
        self._other_line.clear()
        return line

    def _find_other_line(self, chunk: bytes, at: int) -> int:
        if not self._is_in_line and _OTHER_AT_START.match(chunk, at):
            return at
        line = _OTHER_LINE.search(chunk, at)
        return len(chunk) if line is None else line.end()

    def _feed_events(self, part: bytes) -> Generator[str, None, None]:
        begun = _BEGUN_LINE.search(part)
        if begun is not None:
            begin = begun.end()
        elif not self._is_in_line and _BEGUN_AT_START.match(part):
            begin = 0
        else:
            begin = len(part)
        self._begun = part[begin:]
        if begin:
            self._is_in_line = part[begin - 1] not in b"\r\n"
            for event in self._events.feed(part[:begin]):
                yield event.data

    def _feed_object(self, decoder: JSONStreamDecoder, part: bytes) -> Generator[str, None, None]:
        frames = decoder.feed(part)
        for frame in frames:
            yield _text_of(frame)
        if frames and not decoder.pending_bytes:
            self._object = None
            self._is_in_line = False


def _end_of_line(chunk: bytes, at: int) -> int:
    end = _END_OF_LINE.search(chunk, at)
    return len(chunk) if end is None else end.end()


def _text_of(frame: Frame) -> str:
    return frame.raw.decode("utf-8", "replace")


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
