"""Incremental UTF-8 decoding (WHATWG Encoding, "UTF-8 decode").

The rule for ill-formed input is the Unicode "substitution of maximal subparts": the longest
prefix of a character that could still have become one is replaced by a single U+FFFD, and
decoding goes on at the byte that could not follow. CPython's own codec does just this; what is
added here is that the decision never depends on where the chunks were cut, absolute offsets,
and a count of what was replaced.
"""

# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import codecs
import threading
from typing import TYPE_CHECKING, Literal, NoReturn, final

from seamstream.errors import StreamStateError, UTF8DecodeError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "BOM",
    "UTF8Decoder",
    "check_choice",
    "count_replacements",
    "first_ill_formed",
    "to_bytes",
]

BOM = codecs.BOM_UTF8
REPLACEMENT = "\ufffd"


def check_choice(name: str, value: str, *choices: str) -> None:
    """Refuse an argument that is none of its values.

    Raises:
        TypeError: It is not `str`.
        ValueError: It is another `str`.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} must be str, not {type(value).__name__}")
    if value not in choices:
        allowed = " or ".join(map(repr, choices))
        raise ValueError(f"{name} must be {allowed}, not {value[:80]!r}")


def to_bytes(chunk: Buffer) -> bytes:
    """Give the bytes of any C-contiguous buffer; exact `bytes` are not copied.

    Raises:
        TypeError: There is no buffer in `chunk`; for `str` with a hint.
        BufferError: The buffer is not contiguous.
    """
    if type(chunk) is bytes:
        return chunk
    if isinstance(chunk, str):
        raise TypeError("a chunk is bytes, not str: take the response's bytes, or encode the text")
    try:
        view = memoryview(chunk)
    except TypeError as error:
        name = type(chunk).__name__
        raise TypeError(f"a chunk is a bytes-like object, not {name}") from error
    with view:
        if not view.c_contiguous:
            raise BufferError("memoryview: underlying buffer is not C-contiguous")
        return view.tobytes()


def first_ill_formed(data: bytes) -> int | None:
    """Find the first byte that is not well-formed UTF-8, a cut character included."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


def count_replacements(data: bytes) -> int:
    """Count the U+FFFD that decoding puts into `data`, those that were sent not included.

    EF is a lead byte wherever it stands, so every EF BF BD among the bytes is a U+FFFD that
    was sent, whatever is around it.
    """
    if data.isascii():
        return 0
    found = data.decode("utf-8", "replace").count(REPLACEMENT)
    return found - data.count(b"\xef\xbf\xbd") if found else 0


def _may_begin_character(held: bytes) -> bool:
    """Whether more bytes can make a character of these.

    CPython's codec holds back a lead byte and a continuation byte that cannot follow it (ED A0)
    until a third one comes; the standard's decoder replaces them at once.
    """
    if len(held) < 2:
        return True
    length = 3 if held[0] < 0xF0 else 4
    try:
        (held + b"\x80\x80")[:length].decode()
    except UnicodeDecodeError:
        return False
    return True


@final
class UTF8Decoder:
    """Decode UTF-8 that arrives in pieces.

    A duck type of `codecs.IncrementalDecoder`. A character that is cut by the end of a piece is
    held (at most 3 bytes) until the next one; any fragmentation of the same bytes gives the
    same text, counts and offsets.

    Args:
        errors: "replace" puts one U+FFFD for each maximal ill-formed subpart; "strict" raises.
        skip_bom: Drop one byte order mark at the very start.

    Raises:
        TypeError: `errors` is not `str`.
        ValueError: `errors` is neither of the two.
    """

    __slots__ = ("_busy", "_errors", "_offset", "_pending", "_replaced", "_skip_bom", "_started")

    _errors: Literal["replace", "strict"]

    def __init__(
        self, errors: Literal["replace", "strict"] = "replace", *, skip_bom: bool = False
    ) -> None:
        check_choice("errors", errors, "replace", "strict")
        self._errors = errors
        self._skip_bom = bool(skip_bom)
        self._busy = threading.Lock()
        self._replaced: int = 0
        self._pending: bytes = b""  # the begin of a character
        self._started = False  # whether the first character is out, or the end was signalled
        self._offset = 0  # of the first pending byte, absolute

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("type 'UTF8Decoder' is not an acceptable base type")

    def __reduce__(self) -> NoReturn:
        raise TypeError("cannot pickle 'UTF8Decoder' object")

    @property
    def errors(self) -> Literal["replace", "strict"]:
        """What is done with ill-formed bytes: "replace" or "strict"."""
        return self._errors

    @property
    def replaced(self) -> int:
        """How many U+FFFD were put in since the start or `reset()`."""
        return self._replaced

    def decode(self, data: Buffer, final: bool = False) -> str:
        """Decode one piece and return the text that is certain by now.

        Args:
            data: Any C-contiguous buffer of bytes; not kept after the call.
            final: The input ends here: a held character is cut for good. The decoder may be
                used on afterwards; a byte order mark is not skipped again.

        Returns:
            The text, without the character that the end of `data` cuts; often empty.

        Raises:
            UTF8DecodeError: With errors="strict": the bytes are ill-formed. Nothing of `data`
                is consumed.
            StreamStateError: Another call is in this decoder.
            TypeError: `data` is no bytes-like object.
            BufferError: `data` is not contiguous.
        """
        self._enter()
        try:
            # At most 3 bytes are pending: one copy of `data`, however long the stream.
            given = self._pending + to_bytes(data)
            # A cut byte order mark is held like any other cut character.
            begin = 0
            if self._skip_bom and not self._started and given.startswith(BOM):
                begin = len(BOM)
            try:
                text, used = codecs.utf_8_decode(given[begin:], self._errors, bool(final))
                if not _may_begin_character(given[begin + used :]):
                    text, used = codecs.utf_8_decode(given[begin:], self._errors, True)
            except UnicodeDecodeError as error:
                start, stop, reason = error.start, error.end, error.reason
            else:
                end = begin + used
                if self._errors == "replace":
                    sent = given.count(b"\xef\xbf\xbd", begin, end)
                    self._replaced += text.count(REPLACEMENT) - sent
                self._started = self._started or end > 0 or bool(final)
                self._pending = given[end:]
                self._offset += end
                return text
            # Outside of the handler: the codec's error, which holds all of `data`, would be the
            # context of ours.
            raise UTF8DecodeError(
                given[begin:][start:stop],
                self._offset + begin + start,
                reason,
                "truncated" if reason == "unexpected end of data" else "ill-formed",
            )
        finally:
            self._busy.release()

    def getstate(self) -> tuple[bytes, int]:
        """Return what is held and whether the stream has begun.

        Returns:
            The held bytes, and 0 before the first character is out or 1 after that.
        """
        return self._pending, int(self._started)

    def setstate(self, state: tuple[bytes, int]) -> None:
        """Go on from what `getstate()` returned; offsets count from 0, the first held byte.

        Args:
            state: What `getstate()` returned.

        Raises:
            TypeError: `state` is not a tuple of `bytes` and `int`.
            ValueError: The bytes are not the begin of one character.
            StreamStateError: Another call is in this decoder.
        """
        try:
            pending, flag = state
        except (TypeError, ValueError):
            raise TypeError("state must be what getstate() returned") from None
        if not isinstance(pending, bytes):
            raise TypeError(f"the state's bytes must be bytes, not {type(pending).__name__}")
        if not isinstance(flag, int):
            raise TypeError(f"the state's flag must be an int, not {type(flag).__name__}")
        if codecs.utf_8_decode(pending, "replace", False)[1] != 0:
            raise ValueError("state must hold the begin of one character, or nothing")
        self._enter()
        self._pending = bytes(pending)
        self._started = bool(flag)
        self._offset = 0
        self._busy.release()

    def reset(self) -> None:
        """Forget what is held and begin a new stream: offsets and `replaced` are 0 again.

        Raises:
            StreamStateError: Another call is in this decoder.
        """
        self._enter()
        self._pending = b""
        self._started = False
        self._offset = 0
        self._replaced = 0
        self._busy.release()

    def _enter(self) -> None:
        if not self._busy.acquire(blocking=False):
            raise StreamStateError("the decoder is in use by another call")
