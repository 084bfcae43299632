"""Which framing a stream has, by its first bytes.

The rules, after a byte order mark and JSON white space, which decide nothing:

* A record separator: json-seq.
* `[` and then `{`: array. It is what `streamGenerateContent` sends, and each element of that is
  wanted when it arrives.
* The begin of any other JSON value: ndjson if the value is a line, that is, if it has no newline
  in it and one follows it; else concatenated. Until that is known the two do not differ in the
  value, which can be shown.
* Anything else: sse.

So `[1]` is a value: `[1]`, newline, `[2]` are two values of ndjson, not one array and something
after it. Lines of arrays of objects are the exception, and have to be called ndjson: to wait for
the end of the first line would be to show an array from Gemini when it is over.

Concatenated reads whatever ndjson reads, and values over several lines. But after a broken frame
ndjson is in step at the next newline, where concatenated may need an object or two. Hence ndjson
where the first line speaks for it, and only there.

Every fragmentation of a stream gives the same framing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from seamstream import Frame, JSONStreamDecoder, Limits

    Framing = Literal["sse", "ndjson", "concatenated", "array", "json-seq"]

__all__ = ["FRAMINGS", "REASONS", "Detector"]

FRAMINGS: tuple[Framing, ...] = ("sse", "ndjson", "array", "concatenated", "json-seq")

REASONS: dict[Framing, str] = {
    "sse": "it does not begin like JSON",
    "ndjson": "it begins with a line of one JSON value",
    "concatenated": "it begins like JSON, but not with a line of one value",
    "array": "it begins with [ and {",
    "json-seq": "it begins with a record separator",
}

_BOM = b"\xef\xbb\xbf"
_WHITE = re.compile(rb"[ \t\n\r]*")
_BLANK = re.compile(rb"[ \t\r]*")
# A longer run of white space inside or behind the first value is not waited for: it is looked at
# again with each chunk.
_MAX_WHITE = 4096

_BARE_BEGIN = re.compile(rb"-?[0-9]|true|false|null")
_BARE = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?|true|false|null")
_NOT_BARE = re.compile(rb"[^-+.0-9A-Za-z]")
_LITERALS = (b"true", b"false", b"null")

_RECORD_SEPARATOR, _LF, _OPEN_BRACE, _OPEN_BRACKET = b"\x1e\n{["


class Detector:
    """Find out the framing of a stream, and hold its bytes until then.

    What is held is at most one value as large as the limit, the white space around it, and a
    chunk. Linear in time.

    Args:
        limits: How large the first value may grow.

    Attributes:
        held: All bytes so far, for the decoder to begin with.
        first: The first value, when it is known to be the first frame in any framing that is still
            possible.
        probe: What looks for the first value, if need be.
    """

    def __init__(self, limits: Limits) -> None:
        self.held = bytearray()
        self.first: Frame | None = None
        self.probe: JSONStreamDecoder | None = None
        self._limits = limits
        self._begin: int | None = None  # of the first value, when it is a number or a literal
        self._searched = 0  # for its begin, or its end, up to here
        self._end: int | None = None  # of the first value, when it is whole

    def feed(self, chunk: bytes) -> Framing | None:
        """Take one chunk, and give the framing as soon as it is known."""
        self.held += chunk
        if self._end is None:
            if self.probe is not None:
                framing = self._look_for_end(chunk)
            elif self._begin is not None:
                framing = self._look_for_bare_end(self._begin)
            else:
                framing = self._look_at_begin()
            if framing is not None or self._end is None:
                return framing
        return self._look_behind(self._end)

    def close(self) -> Framing:
        """Give the framing of a stream that ended before it was known."""
        if self.probe is not None or self._begin is not None:
            return "concatenated"
        return "array" if b"[" in self.held else "sse"

    def _look_at_begin(self) -> Framing | None:
        held = self.held
        if len(held) < len(_BOM) and _BOM.startswith(held):
            return None
        start = len(_BOM) if held.startswith(_BOM) else 0
        begin = self._searched = _end_of(_WHITE, held, max(start, self._searched))
        if begin - start > max(_MAX_WHITE, self._limits.max_event_bytes):
            return "sse"  # in which it is held no longer
        if begin == len(held):
            return None
        first = held[begin]
        if first == _RECORD_SEPARATOR:
            return "json-seq"
        if first == _OPEN_BRACKET:
            inside = _end_of(_WHITE, held, begin + 1)
            if inside - begin > _MAX_WHITE:
                return "array"
            if inside == len(held):
                return None
            if held[inside] == _OPEN_BRACE:
                return "array"
        if first in b'[{"':
            return self._look_for_end(bytes(held))
        head = bytes(held[begin : begin + 5])
        if _BARE_BEGIN.match(head):
            self._begin = self._searched = begin
            return self._look_for_bare_end(begin)
        may_become = head == b"-" or any(literal.startswith(head) for literal in _LITERALS)
        return None if may_become else "sse"

    def _look_for_end(self, chunk: bytes) -> Framing | None:
        from seamstream import JSONStreamDecoder, LimitExceededError  # noqa: PLC0415

        if self.probe is None:
            self.probe = JSONStreamDecoder(framing="concatenated", limits=self._limits)
        try:
            frames = self.probe.feed(chunk)
        except LimitExceededError:
            return "concatenated"  # whose decoder will raise it, or leave the value out
        if frames:
            frame = frames[0]
            if frame.kind is not None or b"\n" in frame.raw:
                return "concatenated"
            self.first = frame
            self._end = frame.offset + len(frame.raw)
        return None

    def _look_for_bare_end(self, begin: int) -> Framing | None:
        found = _NOT_BARE.search(self.held, self._searched)
        self._searched = len(self.held)
        end = self._searched if found is None else found.start()
        if end - begin > self._limits.max_event_bytes:
            return "concatenated"
        if found is not None:
            if _BARE.fullmatch(self.held, begin, end) is None:
                return "concatenated"
            # Not yet a frame: in the concatenated framing what follows may take it along.
            self._end = end
        return None

    def _look_behind(self, end: int) -> Framing | None:
        behind = _end_of(_BLANK, self.held, end)
        if behind - end >= _MAX_WHITE:
            return "concatenated"
        if behind == len(self.held):
            return None
        return "ndjson" if self.held[behind] == _LF else "concatenated"


def _end_of(pattern: re.Pattern[bytes], held: bytearray, begin: int) -> int:
    found = pattern.match(held, begin)
    assert found is not None  # it matches nothing as well
    return found.end()
