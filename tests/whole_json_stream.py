"""The rules of vectors/README.md, applied to a whole JSON stream at once.

A second reading of the rules, written to be compared with them: it has all bytes in hand, reads a
text by recursive descent and goes back as it likes, where the decoders keep states. Its time may
be quadratic. orjson decides what is valid; the descent only finds the first byte that no text
could have.
"""

from __future__ import annotations

import re
from collections import Counter

import orjson

from frame_observations import KINDS, Outcome, SeenFrame, State
from seamstream import JSONErrorCounts, JSONStats

BOM = b"\xef\xbb\xbf"
WHITE = b" \t\n\r"
MARKS = b",:]}"
SCALAR_BEGINS = b'"-0123456789tfn'
VALUE_BEGINS = b"{[" + SCALAR_BEGINS
BARE_BEGINS = b"-0123456789tfn"
DEFAULT_LIMIT = 8 << 20
LITERALS = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}

NOT_WHITE = re.compile(rb"[^ \t\n\r]")
MARKS_RUN = re.compile(rb"[,:\]} \t\n\r]*")
CANDIDATE = re.compile(rb'\{[ \t\n\r]*"[^ \t\n\r,:\]}]')
BEGUN_CANDIDATE = re.compile(rb'\{[ \t\n\r]*"?\Z')
BRACE_AT_END = re.compile(rb"\{ *\Z")
STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


class FailedError(Exception):
    """A byte that no valid text could have there."""

    def __init__(self, at: int) -> None:
        self.at = at


class UnfinishedError(Exception):
    """The bytes end inside a text that could still become valid."""


class OutgrownError(Exception):
    """Something outgrew the limit, with on_limit="error"."""

    def __init__(self, offset: int) -> None:
        self.offset = offset


class Text:
    """One JSON text, read from `begin` by recursive descent."""

    def __init__(self, data: bytes, begin: int, end: int, levels: int) -> None:
        self.data = data
        self.at = begin
        self.end = end
        self.levels = levels
        self.brackets = bytearray()  # those that are open
        self.string: tuple[int, int | None] | None = None  # the content of the last one

    def read(self) -> int:
        """Give the index after the text."""
        self.value()
        return self.at

    def byte(self) -> int:
        if self.at == self.end:
            raise UnfinishedError
        return self.data[self.at]

    def take(self, allowed: bytes) -> int:
        byte = self.byte()
        if byte not in allowed:
            raise FailedError(self.at)
        self.at += 1
        return byte

    def space(self) -> None:
        while self.byte() in WHITE:
            self.at += 1

    def value(self) -> None:
        byte = self.byte()
        if byte in b"{[":
            self.container(byte)
        elif byte == ord('"'):
            self.read_string()
        elif byte in LITERALS:
            for letter in LITERALS[byte]:
                self.take(bytes([letter]))
        else:
            self.number()

    def container(self, opener: int) -> None:
        if len(self.brackets) == self.levels:
            raise FailedError(self.at)
        self.brackets.append(opener)
        self.at += 1
        self.space()
        closer = opener + 2
        if self.byte() != closer:
            self.member(opener)
            while True:
                self.space()
                if self.byte() == closer:
                    break
                self.take(b",")
                self.space()
                self.member(opener)
        self.at += 1
        self.brackets.pop()

    def member(self, opener: int) -> None:
        if opener == ord("{"):
            if self.byte() != ord('"'):
                raise FailedError(self.at)
            self.read_string()
            self.space()
            self.take(b":")
            self.space()
        self.value()

    def read_string(self) -> None:
        begin = self.at + 1
        self.at = begin
        self.string = (begin, None)
        while (byte := self.byte()) != ord('"'):
            if byte < 0x20:
                raise FailedError(self.at)
            self.at += 1
            if byte == ord("\\") and self.take(b'"\\/bfnrtu') == ord("u"):
                for _ in range(4):
                    self.take(b"0123456789abcdefABCDEF")
        self.string = (begin, self.at)
        self.at += 1

    def number(self) -> None:
        """A number goes on as long as it can; one that the bytes end in is unfinished."""
        if self.byte() == ord("-"):
            self.at += 1
        if self.byte() == ord("0"):
            self.at += 1
        else:
            self.digits()
        if self.byte() == ord("."):
            self.at += 1
            self.digits()
        if self.byte() in b"eE":
            self.at += 1
            if self.byte() in b"+-":
                self.at += 1
            self.digits()

    def digits(self) -> None:
        self.take(b"0123456789")
        while self.byte() in b"0123456789":
            self.at += 1


class Reader:
    """All of a stream, or of the begin of one, and what comes out of it."""

    def __init__(
        self, stream: bytes, *, limit: int, skip: bool, max_depth: int, closed: bool
    ) -> None:
        self.data = stream
        self.total = len(stream)
        self.limit = limit
        self.skip = skip
        self.max_depth = min(max_depth, 1024)
        self.closed = closed
        self.frames: list[SeenFrame] = []
        self.open: list[int] = []  # where what is open begins; out of step a candidate too
        self.array_closed: bool | None = None

    # What all framings share.

    def text(self, begin: int, end: int | None = None) -> Text:
        return Text(self.data, begin, self.total if end is None else end, self.limit)

    def next(self, at: int, end: int | None = None) -> int:
        """The first byte at or after `at` that is not white space, or the end."""
        found = NOT_WHITE.search(self.data, at, self.total if end is None else end)
        return found.start() if found else self.total if end is None else end

    def is_valid(self, raw: bytes) -> bool:
        try:
            orjson.loads(raw)
        except ValueError:
            return False
        depth = deepest = 0
        for byte in STRING.sub(b"", raw):
            depth += (byte in b"[{") - (byte in b"]}")
            deepest = max(deepest, depth)
        return deepest <= self.max_depth

    def outgrows(self, begin: int, at: int) -> bool:
        """Whether what begins at `begin` and is open up to `at` has outgrown the limit."""
        if at - begin <= self.limit:
            return False
        if not self.skip:
            raise OutgrownError(begin + self.limit)
        return True

    def emit(self, raw: bytes, kind: str | None, offset: int, *, torn: bool = False) -> None:
        self.frames.append(SeenFrame(raw, kind, offset, torn))

    def settle(self, begin: int, end: int, at: int, kind: str | None = None) -> None:
        """Hand out data[begin:end], known at the byte `at`."""
        if self.outgrows(begin, at):
            self.emit(b"", "oversize", begin)
        elif kind is not None:
            self.emit(self.data[begin:end].rstrip(WHITE), kind, begin)
        else:
            raw = self.data[begin:end]
            self.emit(raw, None if self.is_valid(raw) else "syntax", begin)

    def end_in(self, begin: int, end: int | None = None, kind: str | None = None) -> None:
        """The bytes end in what began here, which is then a value or an error."""
        self.open.append(begin)
        self.outgrows(begin, self.total)
        if self.closed:
            self.settle(begin, self.total if end is None else end, self.total, kind)

    def tear(self, begin: int) -> None:
        """The bytes end in a value that began here."""
        self.open.append(begin)
        if self.outgrows(begin, self.total):
            if self.closed:
                self.emit(b"", "oversize", begin)
        elif self.closed:
            self.emit(self.data[begin:], None, begin, torn=True)

    def decided_by(self, byte: int, end: int, at: int) -> bool:
        """Whether a bare scalar that ends at `end` is a value when `byte` comes next, at `at`."""
        return byte in b'{["' or (at > end and byte in SCALAR_BEGINS)

    # concatenated

    def concatenated(self, at: int) -> None:
        while (begin := self.next(at)) < self.total:
            first = self.data[begin]
            if first in MARKS:
                run = MARKS_RUN.match(self.data, begin)
                assert run is not None
                at = run.end()
                if at == self.total:
                    return self.end_in(begin, kind="garbage")
                self.settle(begin, at, at, "garbage")
                continue
            text = self.text(begin)
            try:
                if first not in VALUE_BEGINS:
                    raise FailedError(begin)
                at = end = text.read()
                if first not in b"{[":
                    at = self.next(end)
                    if at == self.total:
                        return self.end_in(begin, end)
                    if not self.decided_by(self.data[at], end, at):
                        raise FailedError(at)
                self.settle(begin, end, at)
            except UnfinishedError:
                return self.tear(begin)
            except FailedError as failure:
                kind = "syntax" if first in b"{[" else "garbage"
                back = self.back_in_step(begin, kind, failure.at, text)
                if back is None:
                    return None
                at = back
        return None

    def back_in_step(self, begin: int, kind: str, at: int, text: Text) -> int | None:
        """Search for an object after a failing byte; where to go on, or None at the end."""
        search = self.search_begin(at, text)
        while True:
            found = CANDIDATE.search(self.data, search)
            if found is None:
                self.end_in(begin, kind=kind)
                begun = BEGUN_CANDIDATE.search(self.data, search)
                self.open += [begun.start()] if begun else []
                return None
            candidate = found.start()
            text = self.text(candidate)
            try:
                end = text.read()
            except UnfinishedError:
                self.open += [begin, candidate]
                self.outgrows(begin, self.total)
                if self.closed:
                    self.settle(begin, candidate, self.total, kind)
                    self.tear(candidate)
                return None
            except FailedError as failure:
                search = self.search_begin(failure.at, text)
                continue
            self.outgrows(begin, end)
            if not self.outgrows(candidate, end) and not self.is_valid(self.data[candidate:end]):
                search = end
                continue
            at = self.next(end)
            if at < self.total and self.data[at] in b",]}":
                search = at
                continue
            self.outgrows(begin, at)
            if at == self.total:
                self.open += [begin, candidate]
                if not self.closed:
                    return None
            self.settle(begin, candidate, at, kind)
            self.settle(candidate, end, at)
            return at

    def search_begin(self, at: int, text: Text) -> int:
        """Where a search begins: at the failing byte, or at the brace that ends a string."""
        if text.string is None:
            return at
        begin, end = text.string
        brace = BRACE_AT_END.search(self.data[begin : at if end is None else end])
        if brace is None:
            return at
        byte = self.data[at]
        inside = end is None and byte in WHITE
        behind = end is not None and at == end + 1 and byte not in WHITE + MARKS
        return begin + brace.start() if inside or behind else at

    # ndjson

    def ndjson(self, at: int) -> None:
        while (end := self.data.find(b"\n", at)) >= 0:
            begin = self.next(at, end)
            if begin < end:
                self.line(begin, end)
            at = end + 1
        begin = self.next(at)
        if begin == self.total:
            return
        raw = self.data[begin:].rstrip(WHITE)
        # A valid text that ends with a digit is a number.
        may_go_on = self.data[-1:].isdigit()
        if self.is_valid(raw) and not may_go_on and self.total - begin <= self.limit:
            self.end_in(begin, begin + len(raw))
        else:
            self.tear(begin)

    def line(self, begin: int, end: int) -> None:
        raw = self.data[begin:end].rstrip(WHITE)
        self.settle(begin, begin + len(raw), end, None if self.is_valid(raw) else "syntax")

    # json-seq

    def json_seq(self, at: int) -> None:
        separator = self.data.find(b"\x1e", at)
        self.garbage_to(at, separator)
        while separator >= 0:
            at, separator = separator + 1, self.data.find(b"\x1e", separator + 1)
            self.element(at, separator)

    def garbage_to(self, at: int, separator: int) -> None:
        end = self.total if separator < 0 else separator
        begin = self.next(at, end)
        if begin == end:
            return
        if separator < 0:
            self.end_in(begin, kind="garbage")
        else:
            self.settle(begin, end, end, "garbage")

    def element(self, at: int, separator: int) -> None:
        """What is between a record separator and the next, if there is a next."""
        end = self.total if separator < 0 else separator
        begin = self.next(at, end)
        if begin == end:
            return
        text = self.text(begin, end)
        try:
            if self.data[begin] not in VALUE_BEGINS:
                raise FailedError(begin)
            text_end = text.read()
        except UnfinishedError:
            is_number = self.data[begin] in b"-0123456789"
            whole = is_number and self.is_valid(self.data[begin:end])
            assert whole <= self.data[end - 1 : end].isdigit()
            if separator < 0:
                self.tear(begin)
            else:
                self.settle(begin, end, end, "truncated")
            return
        except FailedError:
            self.malformed_element(begin, separator)
            return
        line_end = self.data.find(b"\n", text_end, end)
        behind = self.next(text_end, end if line_end < 0 else line_end)
        if line_end >= 0 and behind == line_end:
            self.settle(begin, text_end, line_end)
            self.garbage_to(line_end + 1, separator)
        elif behind < end:
            self.malformed_element(begin, separator)
        elif text_end == end and self.data[begin] in BARE_BEGINS:
            if separator < 0:
                self.tear(begin)
            else:
                self.settle(begin, end, end, "truncated")
        elif separator < 0:
            self.end_in(begin, text_end)
        else:
            self.settle(begin, text_end, end)

    def malformed_element(self, begin: int, separator: int) -> None:
        if separator < 0:
            self.end_in(begin, kind="syntax")
        else:
            self.settle(begin, separator, separator, "syntax")

    # array

    def array(self, at: int) -> None:
        self.array_closed = False
        returns: Counter[int] = Counter()
        begin = self.next(at)
        if begin == self.total:
            return None
        if self.data[begin] != ord("["):
            return self.end_in(begin, kind="garbage")
        at = begin + 1
        comma: int | None = None  # right before, white space aside
        separator_is_due = False
        while (begin := self.next(at)) < self.total:
            byte = self.data[begin]
            if byte == ord(","):
                if not separator_is_due:
                    self.emit(b",", "separator", begin)
                comma, separator_is_due, at = begin, False, begin + 1
                continue
            if byte == ord("]"):
                if comma is not None:
                    self.emit(b",", "separator", comma)
                return self.after_array(begin + 1)
            kind = "syntax"
            if separator_is_due and byte in VALUE_BEGINS:
                self.emit(b"", "separator", begin)
            elif separator_is_due:
                kind = "garbage"
            comma = None
            after = self.array_element(begin, kind, returns)
            if after is None:
                return None
            at, separator_is_due = after, True
        return None

    def after_array(self, at: int) -> None:
        self.array_closed = True
        begin = self.next(at)
        if begin < self.total:
            self.end_in(begin, kind="garbage")

    def array_element(self, begin: int, kind: str, returns: Counter[int]) -> int | None:
        """Read an element; where to go on after it, or None at the end."""
        first = self.data[begin]
        text = self.text(begin)
        try:
            if first not in VALUE_BEGINS:
                raise FailedError(begin)
            at = end = text.read()
            if first not in b"{[":
                at = self.next(end)
                if at == self.total:
                    raise UnfinishedError
                if self.data[at] not in b",]" and not self.decided_by(self.data[at], end, at):
                    raise FailedError(at)
            self.settle(begin, end, at)
            return at
        except UnfinishedError:
            self.tear(begin)
            return None
        except FailedError as failure:
            failed_at = failure.at
        lines = [m.start() + 1 for m in re.finditer(rb"\n,", self.data[begin:failed_at])]
        if lines and not self.outgrows(begin, failed_at):
            returns[failed_at] += 1
            resync = begin + lines[0 if returns[failed_at] <= 8 else -1]
            self.settle(begin, resync, resync, kind)
            return resync
        separator = self.lost(failed_at, text)
        if separator is None:
            self.end_in(begin, kind=kind)
            return None
        self.settle(begin, separator, separator, kind)
        return separator

    def lost(self, failed_at: int, text: Text) -> int | None:
        """The separator, from the failing byte on, that puts the stream back in step."""
        found = [self.count(failed_at, text)]
        line = re.compile(rb"(?<=\n)[,\]]").search(self.data, failed_at)
        found.append(line.start() if line else None)
        return min((at for at in found if at is not None), default=None)

    def count(self, failed_at: int, text: Text) -> int | None:
        """Count brackets, by type, to the separator at the array's own depth."""
        brackets = bytearray(text.brackets)
        in_string = text.string is not None and text.string[1] is None
        before = 0  # the last byte that is not white space
        if text.string and text.string[1] is not None:
            string_end = text.string[1] + 1
            if not self.data[string_end:failed_at].strip(WHITE):
                before = ord('"')
        after_string = before == ord('"')
        at = failed_at
        while at < self.total:
            byte = self.data[at]
            if in_string:
                end = re.compile(rb'(?:[^"\\\n]|\\[^\n])*"', re.DOTALL).match(self.data, at)
                if end is None:
                    return None
                at, in_string, after_string, before = end.end(), False, True, ord('"')
                continue
            at += 1
            if byte in WHITE:
                continue
            if after_string and byte not in MARKS:
                return None
            after_string = False
            if byte == ord('"'):
                if not before or before not in b"{[,:":
                    return None
                in_string = True
            elif byte in b"{[":
                brackets.append(byte)
                if len(brackets) > self.limit:
                    return None
            elif byte in b",]" and not brackets:
                return at - 1
            elif byte in b"}]" and brackets and brackets.pop() != byte - 2:
                return None
            before = byte
        return None


def interpret(
    stream: bytes,
    framing: str,
    *,
    limit: int = DEFAULT_LIMIT,
    on_limit: str = "error",
    max_depth: int = 1024,
    closed: bool = True,
) -> Outcome:
    """What a decoder has to give for a stream; without `closed`, for the begin of one."""
    reader = Reader(
        stream, limit=limit, skip=on_limit == "skip", max_depth=max_depth, closed=closed
    )
    undecided = not closed and len(stream) < 3 and BOM.startswith(stream)
    error = None
    consumed = len(stream)
    if undecided:
        reader.array_closed = False if framing == "array" else None
    else:
        read = {
            "concatenated": reader.concatenated,
            "ndjson": reader.ndjson,
            "array": reader.array,
            "json-seq": reader.json_seq,
        }[framing]
        try:
            read(len(BOM) if stream.startswith(BOM) else 0)
        except OutgrownError as outgrown:
            consumed = outgrown.offset
            error = ("LimitExceededError", limit, limit + 1, outgrown.offset)
    ended = closed or error is not None
    kinds = Counter(frame.kind for frame in reader.frames if frame.kind)
    fitting = [begin for begin in reader.open if consumed - begin <= limit]
    state = State(
        pending_bytes=0 if ended or not fitting else consumed - fitting[0],
        at_boundary=ended or not (reader.open or (undecided and stream)),
        array_closed=reader.array_closed,
        stats=JSONStats(
            bytes=consumed,
            frames=sum(not frame.torn and frame.kind is None for frame in reader.frames),
            errors=JSONErrorCounts(**{kind: kinds[kind] for kind in KINDS}),
            skipped=kinds["oversize"],
            torn=sum(frame.torn for frame in reader.frames),
        ),
    )
    return Outcome(reader.frames, error, state)
