"""JSON texts out of a byte stream that is cut anywhere, glued together, or broken.

The rules of recovery, by framing (RFC 8259 for the texts, RFC 7464 for json-seq):

* Nothing is repaired. A value that is handed out is, byte for byte, one JSON text of the stream
  that orjson accepts.
* Bytes that were given up are one error frame, in order, before the value that put the stream
  back in step.
* What comes out after a prefix of the stream is the begin of what comes out at its end, so the
  fragmentation cannot matter.

How it works: a framer keeps the bytes of what is open (`held`), and an absolute position that
moves over them (`at`). A resumable recogniser of the JSON grammar (`_Grammar`) looks at each byte
once; orjson sees a value once, when it is whole. The position goes back only in the array framing,
and there at most 9 times for one failing byte.
"""

# The classes of this module share their private parts.
# pyright: reportPrivateUsage=false, reportUnnecessaryIsInstance=false

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, cast, final

import orjson

from seamstream.errors import JSONDecodeError, LimitExceededError, TornError
from seamstream.limits import Limits
from seamstream.paths import Path, Paths, compile_path, compile_paths, walk, walk_all
from seamstream.stats import JSONErrorCounts, JSONStats

from .pull import CLOSED, AsyncPull, Decoder, Pull, check_source
from .utf8 import BOM, check_choice, first_ill_formed

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Frame", "JSONStreamDecoder"]

Loads = Callable[[bytes], Any]
Kind = Literal["syntax", "garbage", "separator", "truncated", "oversize"]
Framing = Literal["concatenated", "ndjson", "array", "json-seq"]

WHITE = b" \t\n\r"  # RFC 8259
MARKS = b",:]}"  # what can only follow a value, or a key
SCALAR_BEGINS = b'"-0123456789tfn'
VALUE_BEGINS = b"{[" + SCALAR_BEGINS
SELF_DELIMITED = b'{["'
RECORD_SEPARATOR = 0x1E
MAX_DEPTH = 1024  # orjson takes no deeper text, whatever `Limits` says
REPR_BYTES = 80

_KINDS: tuple[Kind, ...] = ("syntax", "garbage", "separator", "truncated", "oversize")
_WHITE_RUN = re.compile(rb"[ \t\n\r]*")
_PLAIN_RUN = re.compile(rb'[^"\\\x00-\x1f]*')  # what needs no look inside a string
_HEX = frozenset(b"0123456789abcdefABCDEF")
_DIGITS = frozenset(b"0123456789")
_ESCAPED = frozenset(b'"\\/bfnrt')

_QUOTE, _BACKSLASH, _COMMA, _LF = b'"\\,\n'
_COLON = ord(":")
_OPEN_BRACE, _CLOSE_BRACE, _OPEN_BRACKET, _CLOSE_BRACKET = b"{}[]"


# --- Frame ----------------------------------------------------------------------------------


class _FrameState:
    """Hold what a frame is made of."""

    __slots__ = {
        "_loads": "the decoder's parser, None for orjson",
        "kind": "Why the bytes are no value; None for a value, torn or not.",
        "offset": "Absolute position in the stream of the first byte.",
        "raw": "The bytes as sent; those of an error without the white space at both ends.",
        "torn": "Whether the stream ended inside this value.",
    }

    raw: bytes
    kind: Kind | None
    torn: bool
    offset: int
    _loads: Loads | None


class _Draft(_FrameState):
    """Become a `Frame`, which refuses assignment, once it is filled in."""

    __slots__ = ()

    def __init__(
        self, raw: bytes, kind: Kind | None, torn: bool, offset: int, loads: Loads | None
    ) -> None:
        self.raw = raw
        self.kind = kind
        self.torn = torn
        self.offset = offset
        self._loads = loads
        self.__class__ = Frame  # type: ignore[assignment]


@final
class Frame(_FrameState):
    """One delimited unit of a JSON stream: a value, an error, or the torn rest. It is immutable.

    Equality and hash are over `(raw, kind, torn)`. Pickles load on either backend; `loads` is
    not part of them.

    Args:
        raw: The bytes exactly as sent.
        kind: None for a value, else why the bytes are no value.
        torn: Whether the stream ended inside this value.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `kind` is none of its values, or a torn frame has one.
    """

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ("raw", "kind")

    def __new__(cls, *, raw: bytes, kind: Kind | None = None, torn: bool = False) -> Frame:
        if not isinstance(raw, bytes):
            raise TypeError(f"raw must be bytes, not {type(raw).__name__}")
        if not isinstance(torn, bool):
            raise TypeError(f"torn must be bool, not {type(torn).__name__}")
        if kind is not None:
            check_choice("kind", kind, *_KINDS)
            kind = _KINDS[_KINDS.index(kind)]  # of exact type
            if torn:
                raise ValueError("a torn frame has no kind")
        return cls._restore(bytes(memoryview(raw)), kind, torn, 0)

    @classmethod
    def _restore(cls, raw: bytes, kind: Kind | None, torn: bool, offset: int) -> Frame:
        return cast("Frame", _Draft(raw, kind, torn, offset, None))

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("type 'Frame' is not an acceptable base type")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"'Frame' object attribute {name!r} is read-only")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"'Frame' object attribute {name!r} is read-only")

    @property
    def parse_error(self) -> Kind | Literal["torn"] | None:
        """Why this is no value: its kind, or "torn"; None when it is one."""
        return "torn" if self.torn else self.kind

    @property
    def value(self) -> Any:
        """The parsed value, or the bytes as text when they are no value.

        Parses on every access.
        """
        try:
            return self.json()
        except (JSONDecodeError, TornError):
            return self.raw.decode("utf-8", "replace")

    def json(self) -> Any:
        """Parse the value, anew on every call.

        orjson on `raw`; integers beyond 64 bits become floats (`loads=json.loads` keeps them).

        Raises:
            JSONDecodeError: This is an error frame, whose `kind` it has; or `loads` raised
                `ValueError` or `RecursionError`, which is the cause (kind "syntax"). Its `offset`
                is within `raw`.
            TornError: The stream ended inside this value.
        """
        if self.torn:
            raise TornError(self.offset)
        if self.kind is not None:
            raise self._explain(self.kind)
        loads = self._loads
        try:
            return orjson.loads(self.raw) if loads is None else loads(self.raw)
        except (ValueError, RecursionError) as error:
            # The message of a caller's function may hold payload text; orjson's does not.
            message = "loads refused the payload"
            if loads is None:
                message = getattr(error, "msg", "not JSON")
            raise JSONDecodeError(message, self._fault_offset(error)) from error

    def get(self, path: Path, /, default: object = None) -> Any:
        """Return one value out of the JSON, without building the rest.

        All of the payload is checked all the same.

        Args:
            path: `"choices.0.delta.content"`: names and indices joined by dots, where digits are
                an index in an array and a name in an object. Or a tuple, of which each `str` is a
                name and each `int` an index: `("a.b", 0)`. `""` and `()` are the whole value.
            default: What to return where there is no such value.

        Raises:
            JSONDecodeError: This is an error frame, whose `kind` it has.
            TornError: The stream ended inside this value.
            TypeError: The path, or a part of it, has the wrong type.
            ValueError: An index is negative, or a name is not Unicode text.
        """
        steps = compile_path(path)
        return walk(self.json(), steps, default)

    def get_many(self, paths: Paths, /, default: object = None) -> tuple[Any, ...]:
        """Return several values out of the JSON, in one pass, as a tuple.

        They are in the order of the paths. All of the payload is checked all the same.

        Args:
            paths: A tuple or a list of paths, each as of `get`.
            default: What stands for a value that is not there.

        Raises:
            JSONDecodeError: This is an error frame, whose `kind` it has.
            TornError: The stream ended inside this value.
            TypeError: `paths` is no tuple or list, or a path, or a part of it, has the wrong type.
            ValueError: An index is negative, or a name is not Unicode text.
        """
        compiled = compile_paths(paths)
        return walk_all(self.json(), compiled, default)

    def validate(self, target: Any, /) -> Any:
        """Validate the value with pydantic, straight from its bytes, on every call.

        Args:
            target: A subclass of `pydantic.BaseModel`, a `pydantic.TypeAdapter`, or a type that
                one can be made for.

        Raises:
            JSONDecodeError: This is an error frame, whose `kind` it has.
            SchemaError: It is JSON that the model refuses. pydantic's error is the cause.
            TornError: The stream ended inside this value.
            ImportError: pydantic 2 is not installed.
            TypeError: `target` is nothing that pydantic can validate.
        """
        from seamstream.validation import validate_frame  # noqa: PLC0415 - not for those who only read

        return validate_frame(self, target)

    def _explain(self, kind: Kind) -> JSONDecodeError:
        """Make the error of a frame that is no value."""
        if kind == "syntax":
            try:
                orjson.loads(self.raw)
            except orjson.JSONDecodeError as error:
                return JSONDecodeError(error.msg, self._fault_offset(error))
            return JSONDecodeError("nested deeper than max_depth", 0)
        if kind == "truncated":
            return JSONDecodeError("the text is cut", len(self.raw), kind)
        if kind == "separator":
            return JSONDecodeError("needless comma" if self.raw else "missing comma", 0, kind)
        if kind == "oversize":
            return JSONDecodeError("outgrew max_event_bytes", 0, kind)
        return JSONDecodeError("no JSON value can be here", 0, kind)

    def _fault_offset(self, error: Exception) -> int:
        """Turn a parser's position, in characters, into bytes of `raw`."""
        ill_formed = first_ill_formed(self.raw)
        if ill_formed is not None:
            return ill_formed
        position = getattr(error, "pos", None)
        if not isinstance(position, int) or position <= 0:
            return 0
        return len(self.raw.decode()[:position].encode())

    def __eq__(self, other: object) -> bool:
        if type(other) is not Frame:
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[bytes, Kind | None, bool]:
        return self.raw, self.kind, self.torn

    def __repr__(self) -> str:
        shown = repr(self.raw[:REPR_BYTES]) + ("..." if len(self.raw) > REPR_BYTES else "")
        kind = "" if self.kind is None else f", kind={self.kind!r}"
        return f"Frame(raw={shown}{kind}{', torn=True' if self.torn else ''})"

    def __copy__(self) -> Frame:
        return self

    def __deepcopy__(self, memo: object) -> Frame:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        from seamstream._backend import _restore_frame  # noqa: PLC0415 - it imports this package

        return _restore_frame, (self.raw, self.kind, self.torn, self.offset)


# --- The grammar ----------------------------------------------------------------------------

_MORE, _WHOLE, _FAILED = range(3)

# What the grammar expects next. In a number: which part was read last.
(
    _IN_VALUE,  # any value
    _IN_ARRAY,  # a value or `]`
    _IN_OBJECT,  # a key or `}`
    _IN_KEY,  # a key
    _IN_COLON,
    _IN_AFTER,  # `,` or a closer
    _IN_STRING,
    _IN_ESCAPE,
    _IN_HEX,
    _IN_LITERAL,
    _AFTER_MINUS,
    _AFTER_ZERO,
    _AFTER_INTEGER,
    _AFTER_POINT,
    _AFTER_FRACTION,
    _AFTER_E,
    _AFTER_SIGN,
    _AFTER_EXPONENT,
) = range(18)

_NUMBER_ENDS = frozenset((_AFTER_ZERO, _AFTER_INTEGER, _AFTER_FRACTION, _AFTER_EXPONENT))
_NUMBER_DIGIT = {
    _AFTER_INTEGER: _AFTER_INTEGER,
    _AFTER_POINT: _AFTER_FRACTION,
    _AFTER_FRACTION: _AFTER_FRACTION,
    _AFTER_E: _AFTER_EXPONENT,
    _AFTER_SIGN: _AFTER_EXPONENT,
    _AFTER_EXPONENT: _AFTER_EXPONENT,
}
_LITERALS = {ord("t"): b"rue", ord("f"): b"alse", ord("n"): b"ull"}


def _next_in_number(state: int, byte: int) -> int | None:
    if byte in _DIGITS:
        if state == _AFTER_MINUS:
            return _AFTER_ZERO if byte == ord("0") else _AFTER_INTEGER
        return _NUMBER_DIGIT.get(state)
    if byte == ord(".") and state in (_AFTER_ZERO, _AFTER_INTEGER):
        return _AFTER_POINT
    if byte in b"eE" and state in (_AFTER_ZERO, _AFTER_INTEGER, _AFTER_FRACTION):
        return _AFTER_E
    if byte in b"+-" and state == _AFTER_E:
        return _AFTER_SIGN
    return None


class _Grammar:
    """Recognise one JSON text, resumable at every byte.

    A text is whole, or it fails at the first byte that no valid text could have there. What only
    a parser refuses (ill-formed UTF-8, lone surrogates, a number too large, too many levels) is
    not looked at. No recursion: the open containers are a stack of their opening bytes, which is
    never longer than the text, nor than `max_levels`.

    Args:
        max_levels: Containers that may be open; the byte that opens one more fails.
        line_feed_fails: Whether LF between tokens fails, as it does where it ends a line.
    """

    __slots__ = (
        "after_string",
        "brace",
        "deepest",
        "hex_digits",
        "is_key",
        "line_feed_fails",
        "literal",
        "max_levels",
        "quote_end",
        "stack",
        "state",
    )

    def __init__(self, max_levels: int, *, line_feed_fails: bool = False) -> None:
        self.max_levels = max_levels
        self.line_feed_fails = line_feed_fails
        self.begin()

    def begin(self) -> None:
        """Expect a new text."""
        self.state = _IN_VALUE
        self.stack = bytearray()
        self.deepest = 0
        self.is_key = False
        self.literal = b""
        self.hex_digits = 0
        self.after_string = False  # whether the last token read is a string
        self.brace = -1  # offset of the `{` that the last string ends with, spaces after it allowed
        self.quote_end = -1  # offset after the closing quote of the last string

    def begin_in_key(self) -> None:
        """Expect the rest of a text that begins with `{` and the opening quote of a key."""
        self.begin()
        self.stack.append(_OPEN_BRACE)
        self.deepest = 1
        self.state = _IN_STRING
        self.is_key = True

    def scan(self, data: bytearray, index: int, end: int, base: int) -> tuple[int, int]:
        """Read on.

        Args:
            data: Bytes of the stream.
            index: Where to go on in them.
            end: Where to stop.
            base: The absolute offset of `data[0]`.

        Returns:
            `_MORE` and `end`; `_WHOLE` and the index after the text; or `_FAILED` and the index
            of the failing byte.
        """
        while index < end:
            state = self.state
            if state == _IN_STRING:
                begin = index
                match = _PLAIN_RUN.match(data, index, end)
                index = match.end() if match else index
                self._note_tail(data, begin, index, base)
                if index == end:
                    break
                byte = data[index]
                if byte == _QUOTE:
                    index += 1
                    self.after_string = True
                    self.quote_end = base + index
                    if self.is_key:
                        self.state = _IN_COLON
                    elif self._value_ends():
                        return _WHOLE, index
                elif byte == _BACKSLASH:
                    index += 1
                    self.brace = -1
                    self.state = _IN_ESCAPE
                else:
                    return _FAILED, index
                continue
            byte = data[index]
            if state == _IN_ESCAPE:
                if byte in _ESCAPED:
                    self.state = _IN_STRING
                elif byte == ord("u"):
                    self.hex_digits = 0
                    self.state = _IN_HEX
                else:
                    return _FAILED, index
            elif state == _IN_HEX:
                if byte not in _HEX:
                    return _FAILED, index
                self.hex_digits += 1
                if self.hex_digits == 4:
                    self.state = _IN_STRING
            elif state == _IN_LITERAL:
                if byte != self.literal[0]:
                    return _FAILED, index
                self.literal = self.literal[1:]
                if not self.literal and self._value_ends():
                    return _WHOLE, index + 1
            elif state >= _AFTER_MINUS:
                following = _next_in_number(state, byte)
                if following is None:
                    if state not in _NUMBER_ENDS:
                        return _FAILED, index
                    if self._value_ends():
                        return _WHOLE, index
                    continue  # the byte is not part of the number
                self.state = following
            elif byte in WHITE:
                if byte == _LF and self.line_feed_fails:
                    return _FAILED, index
            elif not self._token(byte):
                return _FAILED, index
            elif self.state == _IN_AFTER and not self.stack:
                return _WHOLE, index + 1
            index += 1
        return _MORE, index

    def _token(self, byte: int) -> bool:
        """Take the first byte of a token; false when none can begin with it here."""
        state = self.state
        if state == _IN_AFTER:
            opener = self.stack[-1]
            if byte == _COMMA:
                self.state = _IN_KEY if opener == _OPEN_BRACE else _IN_VALUE
            elif byte == (_CLOSE_BRACE if opener == _OPEN_BRACE else _CLOSE_BRACKET):
                self.stack.pop()
            else:
                return False
        elif state == _IN_COLON:
            if byte != _COLON:
                return False
            self.state = _IN_VALUE
        elif state in (_IN_KEY, _IN_OBJECT):
            if byte == _QUOTE:
                self._string_begins(is_key=True)
            elif byte == _CLOSE_BRACE and state == _IN_OBJECT:
                self.stack.pop()
                self.state = _IN_AFTER
            else:
                return False
        elif byte in b"{[":
            if len(self.stack) == self.max_levels:
                return False
            self.stack.append(byte)
            self.deepest = max(self.deepest, len(self.stack))
            self.state = _IN_OBJECT if byte == _OPEN_BRACE else _IN_ARRAY
        elif byte == _QUOTE:
            self._string_begins(is_key=False)
        elif byte == ord("-"):
            self.state = _AFTER_MINUS
        elif byte in _DIGITS:
            self.state = _AFTER_ZERO if byte == ord("0") else _AFTER_INTEGER
        elif byte in _LITERALS:
            self.literal = _LITERALS[byte]
            self.state = _IN_LITERAL
        elif byte == _CLOSE_BRACKET and state == _IN_ARRAY:
            self.stack.pop()
            self.state = _IN_AFTER
        else:
            return False
        self.after_string = False
        return True

    def _string_begins(self, *, is_key: bool) -> None:
        self.state = _IN_STRING
        self.is_key = is_key
        self.brace = -1

    def _value_ends(self) -> bool:
        """Leave a scalar; true when it is the whole text."""
        self.state = _IN_AFTER
        return not self.stack

    def _note_tail(self, data: bytearray, begin: int, end: int, base: int) -> None:
        """Keep `brace` true: a stretch of plain string bytes was read."""
        while end > begin and data[end - 1] == ord(" "):
            end -= 1
        if end > begin:
            self.brace = base + end - 1 if data[end - 1] == _OPEN_BRACE else -1


# --- The framers ----------------------------------------------------------------------------


class _OutgrownError(Exception):
    """Something outgrew the limit, and this is to be an error."""

    def __init__(self, offset: int) -> None:
        self.offset = offset


Item = tuple[bytes, "Kind | None", bool, int]  # raw, kind, torn, offset


class _Framer(ABC):
    """Cut a stream into items; the framings differ in their steps.

    A *unit* is what is open: a value, a line, an element, or a run of bytes that were given up.
    It begins at `start`. Its bytes are held until it is settled, or until it outgrows the limit:
    then nothing of it is kept, and it is one "oversize" item in the end. Nothing is decided in
    between that needs its bytes, so it makes no difference where the chunks were cut.

    `step` is what to do at `at`. A step reads at least one byte or changes `step`; it leaves a
    byte that only decides (the one after a bare scalar, say) to the next step.
    """

    def __init__(self, limits: Limits, *, skip: bool) -> None:
        self.limit = limits.max_event_bytes
        self.max_depth = min(limits.max_depth, MAX_DEPTH)
        self.skip = skip
        self.held = bytearray()
        self.base = 0  # absolute offset of held[0]
        self.at: int = 0  # absolute offset of the next byte to look at
        self.start: int | None = None  # absolute offset of the open unit
        self.end: int = 0  # absolute offset after what is whole and waits for a byte that decides
        self.candidate: int | None = None  # see _Concatenated
        self.last_byte = 0  # of the chunks before
        self.replay_end = 0  # up to here the bytes were looked at before
        self.visible = 0  # the steps look at the bytes up to here
        self.kind: Kind = "syntax"
        self.items: list[Item] = []
        self.array_closed: bool | None = None
        self.grammar = _Grammar(self.limit)
        self.step: Callable[[], None] = self._first

    # What each framing defines.

    @abstractmethod
    def _first(self) -> None:
        """Take the first step of the stream."""

    @abstractmethod
    def _last(self) -> None:
        """Settle what the end of the stream settles."""

    # Running.

    def take(self, chunk: bytes) -> None:
        """Add a chunk; `held` is what is open, so this is amortised O(len(chunk))."""
        self.held += chunk

    @property
    def total(self) -> int:
        """The absolute offset after all bytes."""
        return self.base + len(self.held)

    def run(self) -> None:
        """Go on until a byte settles something, or to the end of the bytes."""
        while True:
            # What is read again is read to its end before anything else.
            self.visible = self.replay_end if self.at < self.replay_end else self.total
            if self.at == self.visible:
                break
            if self.items and self.at >= self.replay_end:
                return
            self.step()
        if self.start is not None:
            self._outgrows(self.start)
        if self.held:
            self.last_byte = self.held[-1]
        keep = self.keep_from()
        del self.held[: keep - self.base]
        self.base = keep

    def finish(self) -> None:
        """End the stream."""
        if self.start is not None:
            self._last()
        self.start = self.candidate = None

    def forget(self) -> None:
        """Hold nothing any more."""
        self.held.clear()
        self.base = self.at
        self.start = self.candidate = None

    def keep_from(self) -> int:
        """Give the offset of the first byte that may still be needed."""
        for begin in (self.start, self.candidate):
            if begin is not None and self.at - begin <= self.limit:
                return begin
        return self.at

    # What the steps use.

    def _byte(self) -> int:
        return self.held[self.at - self.base]

    def _next(self) -> int:
        """Skip white space and give the next byte, -1 when there is none yet."""
        match = _WHITE_RUN.match(self.held, self.at - self.base, self.visible - self.base)
        self.at = self.base + (match.end() if match else 0)
        return -1 if self.at == self.visible else self._byte()

    def _find(self, byte: int) -> bool:
        """Move to the next `byte`, or to the end."""
        found = self.held.find(byte, self.at - self.base, self.visible - self.base)
        self.at = self.visible if found < 0 else self.base + found
        return found >= 0

    def _scan(self) -> int:
        base = self.base
        outcome, index = self.grammar.scan(self.held, self.at - base, self.visible - base, base)
        self.at = self.base + index
        return outcome

    def _begin(self, *, value: bool = False) -> None:
        self.start = self.at
        if value:
            self.grammar.begin()

    def _outgrows(self, start: int) -> bool:
        """Tell whether the unit has outgrown the limit by now; raise if that is an error."""
        if self.at - start <= self.limit:
            return False
        if not self.skip:
            raise _OutgrownError(start + self.limit)
        return True

    def _slice(self, begin: int, end: int) -> bytes:
        return bytes(self.held[begin - self.base : end - self.base])

    def _is_valid(self, raw: bytes) -> bool:
        """Tell whether the parser takes what the grammar took."""
        if self.grammar.deepest > self.max_depth:
            return False
        try:
            orjson.loads(raw)
        except orjson.JSONDecodeError:
            return False
        return True

    def _emit(self, raw: bytes, kind: Kind | None, offset: int) -> None:
        self.items.append((raw, kind, False, offset))

    def _settle(self, start: int, end: int, kind: Kind | None) -> None:
        """Hand out a unit: a value if `kind` is None, and the parser takes it."""
        if self._outgrows(start):
            self._emit(b"", "oversize", start)
        elif kind is None:
            raw = self._slice(start, end)
            self._emit(raw, None if self._is_valid(raw) else "syntax", start)
        else:
            self._emit(self._slice(start, end).rstrip(WHITE), kind, start)
        self.start = None

    def _rest(self, start: int) -> None:
        """Hand out what the end of the stream cuts."""
        if self._outgrows(start):
            self._emit(b"", "oversize", start)
        else:
            self.items.append((self._slice(start, self.at), None, True, start))


class _Concatenated(_Framer):
    """One value after another.

    Out of step, `candidate` is where an object may begin, or begins, that puts the stream back in
    step; `start` is then where the run of bytes begins that were given up.
    """

    def _first(self) -> None:
        """In step: nothing is open."""
        byte = self._next()
        if byte < 0:
            return
        self._begin(value=True)
        if byte in VALUE_BEGINS:
            self.is_container = byte in b"{["
            self.step = self._value
        elif byte in MARKS:
            self.step = self._marks
        else:
            self.kind = "garbage"
            self.step = self._seek

    def _value(self) -> None:
        assert self.start is not None
        outcome = self._scan()
        if outcome == _FAILED:
            self.kind = "syntax" if self.is_container else "garbage"
            self._search()
        elif outcome == _WHOLE and self.is_container:
            self._settle(self.start, self.at, None)
            self.step = self._first
        elif outcome == _WHOLE:
            self.end = self.at
            self.step = self._scalar

    def _scalar(self) -> None:
        """A bare scalar is whole; what follows decides whether it is a value."""
        assert self.start is not None
        byte = self._next()
        if byte < 0:
            return
        if byte in SELF_DELIMITED or (self.at > self.end and byte in SCALAR_BEGINS):
            self._settle(self.start, self.end, None)
            self.step = self._first
        else:
            self.kind = "garbage"
            self._search()

    def _marks(self) -> None:
        """Marks where no value is open."""
        assert self.start is not None
        byte = self._next()
        if byte < 0:
            return
        if byte in MARKS:
            self.at += 1
        else:
            self._settle(self.start, self.at, "garbage")
            self.step = self._first

    # Out of step.

    def _search(self) -> None:
        """Begin a search at the failing byte, or at the brace that ended a string.

        A frame that was cut inside a string swallows the opening brace of the next one: its
        string ends where the first key of that frame begins.
        """
        grammar = self.grammar
        byte = self._byte()
        self._give_up()
        if grammar.brace < 0:
            return
        if grammar.quote_end == self.at and byte not in WHITE and byte not in MARKS:
            self._go_back_to(grammar.brace, b'"')
            grammar.begin_in_key()
            self.step = self._object
        elif grammar.state == _IN_STRING and byte in WHITE:
            self._go_back_to(grammar.brace, b"")
            self.step = self._seek_quote

    def _go_back_to(self, brace: int, quote: bytes) -> None:
        """Begin a candidate in bytes that were read; if they are not held they are known."""
        self.candidate = brace
        if brace < self.base and self.at - brace <= self.limit:
            spaces = b" " * (self.at - brace - 1 - len(quote))
            self.held[:0] = (b"{" + spaces + quote)[: self.base - brace]
            self.base = brace

    def _give_up(self) -> None:
        self.candidate = None
        self.step = self._seek

    def _seek(self) -> None:
        if self._find(_OPEN_BRACE):
            self.candidate = self.at
            self.at += 1
            self.step = self._seek_quote

    def _seek_quote(self) -> None:
        byte = self._next()
        if byte == _QUOTE:
            self.at += 1
            self.step = self._seek_key
        elif byte >= 0:
            self._give_up()

    def _seek_key(self) -> None:
        byte = self._byte()
        if byte in WHITE or byte in MARKS:
            self._give_up()
        else:
            self.grammar.begin_in_key()
            self.step = self._object

    def _object(self) -> None:
        """Read the candidate."""
        assert self.start is not None
        assert self.candidate is not None
        outcome = self._scan()
        if outcome == _FAILED:
            self._search()
        elif outcome == _WHOLE:
            self._outgrows(self.start)
            self.end = self.at
            if self._outgrows(self.candidate) or self._is_valid(
                self._slice(self.candidate, self.end)
            ):
                self.step = self._object_whole
            else:
                self._give_up()

    def _object_whole(self) -> None:
        """Decide by the next byte whether the candidate is nested in what was given up."""
        byte = self._next()
        if byte < 0:
            return
        if byte in b",]}":
            self._give_up()
        else:
            self._settle_candidate()
            self.step = self._first

    def _settle_candidate(self) -> None:
        assert self.start is not None
        assert self.candidate is not None
        begin = self.candidate
        self._settle(self.start, begin, self.kind)
        if self._outgrows(begin):
            self._emit(b"", "oversize", begin)
        else:
            self._emit(self._slice(begin, self.end), None, begin)
        self.candidate = None

    def _last(self) -> None:
        assert self.start is not None
        start = self.start
        if self.step == self._value:
            self._rest(start)
        elif self.step == self._scalar:
            self._settle(start, self.end, None)
        elif self.step == self._marks:
            self._settle(start, self.at, "garbage")
        elif self.step == self._object:
            assert self.candidate is not None
            self._settle(start, self.candidate, self.kind)
            self._rest(self.candidate)
        elif self.step == self._object_whole:
            self._settle_candidate()
        else:
            self._settle(start, self.at, self.kind)


class _Lines(_Framer):
    """One value a line; a line ends at LF."""

    def __init__(self, limits: Limits, *, skip: bool) -> None:
        super().__init__(limits, skip=skip)
        self.grammar = _Grammar(self.limit, line_feed_fails=True)

    def _first(self) -> None:
        byte = self._next()
        if byte >= 0:
            self._begin(value=True)
            self.step = self._text if byte in VALUE_BEGINS else self._bad

    def _text(self) -> None:
        outcome = self._scan()
        if outcome == _WHOLE:
            self.end = self.at
            self.step = self._whole
        elif outcome == _FAILED:
            self.step = self._bad

    def _whole(self) -> None:
        assert self.start is not None
        byte = self._byte()
        if byte == _LF:
            self._settle(self.start, self.end, None)
            self.at += 1
            self.step = self._first
        elif byte in WHITE:
            self.at += 1
        else:
            self.step = self._bad

    def _bad(self) -> None:
        assert self.start is not None
        if self._find(_LF):
            self._settle(self.start, self.at, "syntax")
            self.at += 1
            self.step = self._first

    def _last(self) -> None:
        assert self.start is not None
        if (
            self.step == self._whole
            and self.at - self.start <= self.limit
            and self._is_valid(self._slice(self.start, self.end))
        ):
            self._settle(self.start, self.end, None)
        else:
            self._rest(self.start)


class _Sequence(_Framer):
    """RFC 7464: a record separator before each text, and LF after it."""

    def _first(self) -> None:
        """Before the first record separator, or after the LF that ended a text."""
        byte = self._next()
        if byte == RECORD_SEPARATOR:
            self._separator()
        elif byte >= 0:
            self._begin()
            self.step = self._garbage

    def _separator(self) -> None:
        self.at += 1
        self.step = self._element

    def _garbage(self) -> None:
        assert self.start is not None
        if self._find(RECORD_SEPARATOR):
            self._settle(self.start, self.at, "garbage")
            self._separator()

    def _element(self) -> None:
        byte = self._next()
        if byte == RECORD_SEPARATOR:
            self._separator()
        elif byte >= 0:
            self._begin(value=True)
            self.is_bare = byte not in SELF_DELIMITED
            self.step = self._text if byte in VALUE_BEGINS else self._bad

    def _text(self) -> None:
        assert self.start is not None
        outcome = self._scan()
        if outcome == _WHOLE:
            self.end = self.at
            self.step = self._whole
        elif outcome == _FAILED and self._byte() == RECORD_SEPARATOR:
            self._settle(self.start, self.at, "truncated")
            self._separator()
        elif outcome == _FAILED:
            self.step = self._bad

    def _whole(self) -> None:
        assert self.start is not None
        byte = self._byte()
        if byte == _LF:
            self._settle(self.start, self.end, None)
            self.at += 1
            self.step = self._first
        elif byte in WHITE:
            self.at += 1
        elif byte == RECORD_SEPARATOR:
            cut = self.is_bare and self.at == self.end
            self._settle(self.start, self.end, "truncated" if cut else None)
            self._separator()
        else:
            self.step = self._bad

    def _bad(self) -> None:
        assert self.start is not None
        if self._find(RECORD_SEPARATOR):
            self._settle(self.start, self.at, "syntax")
            self._separator()

    def _last(self) -> None:
        assert self.start is not None
        if self.step == self._garbage:
            self._settle(self.start, self.at, "garbage")
        elif self.step == self._bad:
            self._settle(self.start, self.at, "syntax")
        elif self.step == self._whole and not (self.is_bare and self.at == self.end):
            self._settle(self.start, self.end, None)
        else:
            self._rest(self.start)


class _Array(_Framer):
    """The elements of one top-level array."""

    MAX_RETURNS = 8  # to the first line with a comma, for one failing byte: keeps the work linear

    def __init__(self, limits: Limits, *, skip: bool) -> None:
        super().__init__(limits, skip=skip)
        self.array_closed = False
        self.comma = 0  # offset of the last separator
        self.failed_at = -1  # the failing byte of the last return
        self.returns = 0  # made for it
        self.counting = False  # whether brackets can be trusted, see _lost
        self.stack = bytearray()
        self.previous = 0  # the last byte that is not white space since the failing one
        self.at_line_begin = False

    def _first(self) -> None:
        byte = self._next()
        if byte == _OPEN_BRACKET:
            self.at += 1
            self.step = self._before_element
        elif byte >= 0:
            self._begin()
            self.step = self._garbage

    def _garbage(self) -> None:
        """Not an array, or after it: all the rest is one error."""
        self.at = self.visible

    def _after_array(self) -> None:
        if self._next() >= 0:
            self._begin()
            self.step = self._garbage

    def _before_element(self) -> None:
        """After the opening bracket; or where an element begins though its comma is missing."""
        byte = self._next()
        if byte == _COMMA:
            self._needless(self.at)
            self._separator()
        elif byte == _CLOSE_BRACKET:
            self._close()
        elif byte >= 0:
            self._element_begins(byte)

    def _after_comma(self) -> None:
        byte = self._next()
        if byte == _COMMA:
            self._needless(self.at)
            self._separator()
        elif byte == _CLOSE_BRACKET:
            self._needless(self.comma)
            self._close()
        elif byte >= 0:
            self._element_begins(byte)

    def _after_element(self) -> None:
        byte = self._next()
        if byte == _COMMA:
            self._separator()
        elif byte == _CLOSE_BRACKET:
            self._close()
        elif byte >= 0 and byte in VALUE_BEGINS:
            self._emit(b"", "separator", self.at)
            self.step = self._before_element
        elif byte >= 0:
            self._begin(value=True)
            self._malformed("garbage")

    def _needless(self, comma: int) -> None:
        self._emit(b",", "separator", comma)

    def _separator(self) -> None:
        self.comma = self.at
        self.at += 1
        self.step = self._after_comma

    def _close(self) -> None:
        self.at += 1
        self.array_closed = True
        self.step = self._after_array

    def _element_begins(self, byte: int) -> None:
        self._begin(value=True)
        if byte in VALUE_BEGINS:
            self.is_container = byte in b"{["
            self.step = self._element
        else:
            self._malformed("syntax")

    def _element(self) -> None:
        assert self.start is not None
        outcome = self._scan()
        if outcome == _FAILED:
            self._malformed("syntax")
        elif outcome == _WHOLE and self.is_container:
            self._settle(self.start, self.at, None)
            self.step = self._after_element
        elif outcome == _WHOLE:
            self.end = self.at
            self.step = self._scalar

    def _scalar(self) -> None:
        """A bare scalar is whole; what follows decides whether it is an element."""
        assert self.start is not None
        byte = self._next()
        if byte < 0:
            return
        if (
            byte in b",]"
            or byte in SELF_DELIMITED
            or (self.at > self.end and byte in SCALAR_BEGINS)
        ):
            self._settle(self.start, self.end, None)
            self.step = self._after_element
        else:
            self._malformed("syntax")

    # Out of step.

    def _malformed(self, kind: Kind) -> None:
        """Resync after the failing byte: in what was read of the element, or further on."""
        assert self.start is not None
        self.kind = kind
        if not self._outgrows(self.start):
            begin, end = self.start - self.base, self.at - self.base
            comma = self.held.find(b"\n,", begin, end) + 1
            if comma > 0:
                if self.failed_at != self.at:
                    self.failed_at = self.at
                    self.returns = 0
                if self.returns == self.MAX_RETURNS:
                    comma = self.held.rfind(b"\n,", begin, end) + 1
                self.returns += 1
                self.replay_end = max(self.replay_end, self.at)
                self.at = self.base + comma
                self._resync()
                return
        grammar = self.grammar
        self.stack = grammar.stack
        self.counting = True
        self.in_string = _IN_STRING <= grammar.state <= _IN_HEX
        self.escaped = False
        self.after_string = grammar.after_string and not self.in_string
        self.previous = 0
        index = self.at - self.base
        self.at_line_begin = (self.held[index - 1] if index > 0 else self.last_byte) == _LF
        self.step = self._lost

    def _lost(self) -> None:
        """Look for the separator that puts the stream back in step.

        It is a comma or bracket that begins a line; or one at the array's own depth, as long as
        the count of brackets and strings holds good.
        """
        assert self.start is not None
        byte = self._byte()
        if (self.at_line_begin and byte in b",]") or (self.counting and self._count(byte)):
            self._resync()
            return
        self.at_line_begin = byte == _LF
        self.at += 1

    def _resync(self) -> None:
        assert self.start is not None
        self._settle(self.start, self.at, self.kind)
        self.step = self._after_element

    def _count(self, byte: int) -> bool:
        """Count one byte; true when it is a separator at the array's own depth."""
        if self.in_string:
            if byte == _LF:
                self.counting = False
            elif self.escaped:
                self.escaped = False
            elif byte == _BACKSLASH:
                self.escaped = True
            elif byte == _QUOTE:
                self.in_string = False
                self.after_string = True
                self.previous = byte
            return False
        if byte in WHITE:
            return False
        if self.after_string and byte not in MARKS:
            self.counting = False
            return False
        self.after_string = False
        if byte == _QUOTE:
            self.in_string = True
            self.counting = self.previous in b"{[,:" and self.previous != 0
        elif byte in b"{[":
            self.stack.append(byte)
            self.counting = len(self.stack) <= self.limit
        elif byte in b",]" and not self.stack:
            return True
        elif byte in b"}]" and self.stack:
            self.counting = self.stack.pop() == byte - 2  # `{|}` and `[\]` in ASCII
        self.previous = byte
        return False

    def _last(self) -> None:
        assert self.start is not None
        if self.step == self._garbage:
            self._settle(self.start, self.at, "garbage")
        elif self.step == self._lost:
            self._settle(self.start, self.at, self.kind)
        else:
            self._rest(self.start)


_FRAMERS: dict[str, type[_Framer]] = {
    "concatenated": _Concatenated,
    "ndjson": _Lines,
    "array": _Array,
    "json-seq": _Sequence,
}


# --- The decoder ----------------------------------------------------------------------------


@final
class JSONStreamDecoder(Decoder[Frame]):
    """Put JSON texts that arrive in chunks together again.

    Sans-I/O: give the chunks to `feed()` and the end to `close()`, or a source of chunks to
    `iter()` or `aiter()`. Chunk boundaries carry no meaning: any fragmentation of the same
    bytes gives the same frames, errors, counters and offsets, and each frame comes out with the
    chunk that settles it.

    What is not one JSON text (RFC 8259, as strict as orjson) is a frame with a `kind`; the
    stream goes on after it, and no part of it is ever handed out as a value.

    A decoder is open until `close()` or an error; `reset()` opens it again for a new
    connection. It may be used by one thread at a time.

    Args:
        framing: How the stream separates its texts: "concatenated" (one after another, with or
            without white space between them), "ndjson" (one a line), "array" (the elements of
            one top-level array) or "json-seq" (RFC 7464).
        limits: `max_event_bytes` is what an open value, line, element or run of bytes that were
            given up may have; values nested deeper than `max_depth`, and never more than 1024
            levels, are "syntax" errors.
        on_limit: What becomes of what outgrows the limit: "error" raises `LimitExceededError`;
            "skip" drops it, gives one frame of kind "oversize" without bytes, and goes on.
        loads: What `Frame.json()` parses with in place of `orjson.loads`, from `bytes`. Which
            bytes are a value does not depend on it.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `framing` or `on_limit` is none of its values.
    """

    __slots__ = ("_at_start", "_counts", "_framer", "_framing", "_limits", "_loads", "_skip")

    def __init__(
        self,
        *,
        framing: Framing = "concatenated",
        limits: Limits = Limits(),  # noqa: B008 - immutable
        on_limit: Literal["error", "skip"] = "error",
        loads: Loads | None = None,
    ) -> None:
        check_choice("framing", framing, *_FRAMERS)
        if not isinstance(limits, Limits):
            raise TypeError(f"limits must be Limits, not {type(limits).__name__}")
        check_choice("on_limit", on_limit, "error", "skip")
        if loads is not None and not callable(loads):
            raise TypeError(f"loads must be callable or None, not {type(loads).__name__}")
        self._framing = framing
        self._limits = limits
        self._skip = on_limit == "skip"
        self._loads = loads
        super().__init__()
        self._begin_stream()

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("type 'JSONStreamDecoder' is not an acceptable base type")

    def __reduce__(self) -> NoReturn:
        raise TypeError("cannot pickle 'JSONStreamDecoder' object")

    def _begin_stream(self) -> None:
        self._open()
        self._framer = _FRAMERS[self._framing](self._limits, skip=self._skip)
        self._at_start = True  # the bytes so far, if any, may become a byte order mark
        self._counts = dict.fromkeys(("value", "torn", *_KINDS), 0)

    # --- What a caller sees

    @property
    def pending_bytes(self) -> int:
        """How many bytes are held: of the open value, line, element or error run."""
        return 0 if self._at_start else self._framer.at - self._framer.keep_from()

    @property
    def at_boundary(self) -> bool:
        """Whether nothing is open: no value, line, element or error run has begun."""
        framer = self._framer
        return framer.start is None and (not self._at_start or framer.total == 0)

    @property
    def array_closed(self) -> bool | None:
        """Whether the array's own closing bracket was read; None in other framings."""
        return self._framer.array_closed

    @property
    def stats(self) -> JSONStats:
        """A snapshot of the counters, the same for every fragmentation."""
        counts = self._counts
        return JSONStats(
            bytes=self._framer.total if self._at_start else self._framer.at,
            frames=counts["value"],
            errors=JSONErrorCounts(**{kind: counts[kind] for kind in _KINDS}),
            skipped=counts["oversize"],
            torn=counts["torn"],
        )

    def feed(self, chunk: Buffer, /) -> tuple[Frame, ...]:
        """Consume one chunk and return the frames it settles.

        Nothing settled is lost: when an error comes after frames of the same chunk, they are
        returned, and the next `feed()` or `close()` raises it.

        Args:
            chunk: Any C-contiguous buffer of bytes; not kept after the call.

        Returns:
            Values and errors in the order of the stream; often empty.

        Raises:
            LimitExceededError: Something outgrew `Limits.max_event_bytes` and `on_limit` is
                "error". The decoder has failed.
            StreamStateError: The decoder is closed or has failed, an iterator has frames left
                in its chunk, or another call is in the decoder.
            TypeError: `chunk` is no bytes-like object. Nothing changed.
            BufferError: `chunk` is not contiguous. Nothing changed.
        """
        return self._feed(chunk)

    def close(self) -> tuple[Frame, ...]:
        """Signal the end of the stream and return what it settles.

        Returns:
            Frames, the unfinished value last (`torn=True`); when the decoder is closed or has
            failed: `()`.

        Raises:
            LimitExceededError: An error was held, or two bytes that could have been the begin
                of a byte order mark outgrew the limit. The decoder has failed.
            StreamStateError: An iterator has frames left in its chunk, or another call is in
                the decoder.
        """
        return self._close()

    def iter(self, chunks: Iterable[Buffer], *, done: bytes | None = None) -> Iterator[Frame]:
        """Pull chunks from an iterable and give their frames one by one.

        A chunk's frames are given, then its error if it has one, before the next chunk is
        pulled. When the source ends, `close()` is called and its frames come last. When the
        source raises, the exception passes through and the decoder stays open. The source is
        never closed.

        A chunk of exact `bytes` is held and parsed as the frames are taken. Until all of them
        are, `feed()`, `close()` and another iterator raise `StreamStateError`; an iterator
        dropped before that leaves the decoder failed.

        Args:
            chunks: An iterable of buffers of bytes.
            done: Bytes of a frame that ends the iteration without being given, JSON white space
                around them ignored. Default: none.

        Raises:
            TypeError: `chunks` is no iterable, or is itself bytes or text; `done` is neither
                `bytes` nor None.
            StreamStateError: Another iterator has frames left in its chunk.
        """
        self._check_free()
        check_source(chunks, done)
        return Pull(self, chunks, done)

    def aiter(
        self, chunks: AsyncIterable[Buffer], *, done: bytes | None = None
    ) -> AsyncIterator[Frame]:
        """Pull chunks from an async iterable and give their frames one by one.

        All that `iter()` says holds here too.

        Args:
            chunks: An async iterable of buffers of bytes.
            done: Bytes of a frame that ends the iteration without being given. Default: none.

        Raises:
            TypeError: `chunks` is no async iterable, or is itself bytes or text; `done` is
                neither `bytes` nor None.
            StreamStateError: Another iterator has frames left in its chunk.
        """
        self._check_free()
        check_source(chunks, done)
        return AsyncPull(self, chunks, done)

    def reset(self) -> None:
        """Open the decoder again for a new connection.

        Offsets and counters start again at 0, what was pending is forgotten, as is what an
        iterator has left of its chunk.

        Raises:
            StreamStateError: Another call is in the decoder.
        """
        self._enter()
        try:
            self._begin_stream()
        finally:
            self._busy.release()

    # --- The parser

    def _forget(self) -> None:
        self._framer.forget()

    def _scan(self, chunk: bytes) -> Iterator[Frame]:
        framer = self._framer
        framer.take(chunk)
        if self._at_start:
            if framer.total < len(BOM) and BOM.startswith(framer.held):
                return
            self._at_start = False
            if framer.held.startswith(BOM):
                framer.at = len(BOM)
        while True:
            error = None
            try:
                framer.run()
            except _OutgrownError as outgrown:
                error = self._exceed(outgrown.offset)
            items = self._take_items()
            yield from items
            if error is not None:
                raise error
            if not items:
                return

    def _end_stream(self) -> tuple[Frame, ...]:
        framer = self._framer
        self._at_start = False
        try:
            framer.run()
            framer.finish()
        except _OutgrownError as outgrown:  # by the begin of a byte order mark
            error = self._exceed(outgrown.offset)
            self._fail()
            raise error from None
        frames = tuple(self._take_items())
        self._state = CLOSED
        framer.forget()
        return frames

    def _exceed(self, offset: int) -> LimitExceededError:
        """Stand where something outgrew the limit."""
        self._framer.forget()
        self._framer.at = self._framer.base = offset
        limit = self._limits.max_event_bytes
        return LimitExceededError(limit, limit + 1, offset)

    def _take_items(self) -> list[Frame]:
        frames: list[Frame] = []
        for raw, kind, torn, offset in self._framer.items:
            self._counts["torn" if torn else kind or "value"] += 1
            frames.append(cast("Frame", _Draft(raw, kind, torn, offset, self._loads)))
        self._framer.items.clear()
        return frames
