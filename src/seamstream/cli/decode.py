"""``seamstream decode``: from bytes on standard input, or in files, to events and frames."""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from io import BufferedReader
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from .framing import FRAMINGS, REASONS, Detector

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from seamstream import DecodeError, Event, Frame, JSONStreamDecoder, SSEDecoder

    from .framing import Framing

    Item = Event | Frame
    Decoder = SSEDecoder | JSONStreamDecoder

_DESCRIPTION = """\
Read event streams and JSON streams, and print each event or JSON value as soon
as it is complete:

  curl -sN https://... | seamstream decode

With --format json, one JSON object a line. Of an event it has the keys event,
id, retry, data (the text, as it was sent) and offset (of the first byte); of a
JSON stream's frame, data and offset; and only where they apply:

  torn         true: the stream ended inside it; data is what there was
  kind         what is wrong with a frame that is no value: syntax, garbage,
               separator, truncated, oversize
  parse_error  it is not JSON and should be: the kind, or syntax, or torn
  replaced     how many U+FFFD stand for bytes that were not UTF-8 in an event
  data_base64  in place of data, in a frame that is not UTF-8
  is_done      true: it is the sentinel [DONE]
  source       the file, when there are several

With --format text, something to read. Control characters are escaped in both.

A summary goes to standard error. Each file is a stream of its own.
"""

_EPILOG = """\
framings:
  sse           an event stream
  ndjson        one JSON value a line
  array         one JSON array: its elements
  concatenated  JSON values, one after another, white space between them or not
  json-seq      JSON values with record separators before them (RFC 7464)
  auto          by the first bytes, and told on standard error:
                  a record separator       json-seq
                  [ and then {             array
                  any other JSON value     ndjson if it is a line of its own,
                                           else concatenated
                  anything else            sse
                Lines of arrays of objects begin like one array: give ndjson.

quarantine:
  An object a line, with the keys time_ns, reason, kind, offset, raw (at most
  64 KiB of it; raw_base64 when it is not UTF-8), raw_bytes (the whole length)
  and labels (the source). The file is its owner's only, and is renamed to
  FILE.1, and so on to FILE.3, before it grows beyond 64 MiB.

exit status:
  0    every stream was read to its end (or to --done) and nothing was wrong
  1    the same, but something was wrong: an event or frame torn or skipped,
       JSON that is not, an array that was not closed, bytes that are not UTF-8
  2    wrong usage, a file that cannot be read, a quarantine that cannot be
       written, an event or value that outgrew the limit
  130  interrupted from the keyboard
  141  the reader of the output is gone (as with `| head`)
"""

_READ_BYTES = 1 << 16
_JSON_SPACE = b" \t\n\r"

_KINDS = ("syntax", "garbage", "separator", "truncated", "oversize")
_WRONG = ("torn", "parse_errors", "replaced", "unclosed", *_KINDS, "skipped")

# What the summary counts, in its order.
_OF_EVENTS = frozenset(("events", "parse_errors", "replaced", "ignored_lines", "comments"))
_OF_FRAMES = frozenset(("frames", "unclosed", *_KINDS))
_OF_QUARANTINE = ("quarantined", "sink_errors")
_ALWAYS = frozenset(("torn", "skipped", "bytes"))
_ORDER = ("events", "frames", *_WRONG, "ignored_lines", "comments", "bytes", *_OF_QUARANTINE)


def configure(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "decode",
        help="print the events or JSON values of a stream, live",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "files", nargs="*", metavar="FILE", default=["-"], help="default: standard input, also `-`"
    )
    parser.add_argument(
        "--framing",
        metavar="FRAMING",
        choices=("auto", *FRAMINGS),
        default="auto",
        help="what the stream is, see below; default: %(default)s",
    )
    parser.add_argument(
        "--format", choices=("json", "text"), default="json", help="default: %(default)s"
    )
    parser.add_argument(
        "--done",
        metavar="TEXT",
        help="stop at an event with this data, e.g. '[DONE]', and do not print it",
    )
    parser.add_argument(
        "--quarantine",
        metavar="FILE",
        help="append what has a parse_error to this file, instead of printing it",
    )
    parser.add_argument(
        "--max-event-bytes",
        type=_positive,
        metavar="N",
        help="how large an event or value may become (default: 8388608)",
    )
    parser.add_argument(
        "--on-limit",
        choices=("error", "skip"),
        default="error",
        help="what to do with a larger one: end with status 2, or leave it out (default: error)",
    )
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="neither the summary nor the framing chosen"
    )
    parser.set_defaults(run=run)


def _positive(text: str) -> int:
    number = int(text)
    if not 1 <= number <= sys.maxsize:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to {sys.maxsize}")
    return number


class _Tally:
    """Count what all streams held, under the names of `Stats`, `JSONStats` and `Report`."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._shown = _ALWAYS

    def show(self, names: Iterable[str]) -> None:
        self._shown |= {*names}

    def add_item(self, item: Item) -> None:
        # Not by the decoder, which counts an error for the `[DONE]` that ends a JSON stream too.
        if item.parse_error is not None and not item.torn:
            self.counts["parse_errors" if _is_event(item) else item.parse_error] += 1

    def add_stream(self, reading: _Reading) -> None:
        decoder: Any = reading.decoder
        if decoder is None:
            return
        self.show(_OF_FRAMES if hasattr(decoder, "array_closed") else _OF_EVENTS)
        for name in _ORDER:
            self.counts[name] += getattr(decoder.stats, name, 0)
        if reading.is_at_end and getattr(decoder, "array_closed", None) is False:
            self.counts["unclosed"] += 1

    def something_is_wrong(self) -> bool:
        return any(self.counts[name] for name in _WRONG)

    def __str__(self) -> str:
        shown = self._shown
        if not shown & {"events", "frames"}:
            shown |= _OF_EVENTS
        return " ".join(f"{name}={self.counts[name]}" for name in _ORDER if name in shown)


def run(options: argparse.Namespace) -> int:
    from seamstream import LimitExceededError  # noqa: PLC0415

    tally = _Tally()
    quarantine = None
    if options.quarantine is not None:
        quarantine = _Quarantine(options.quarantine, tally)
    show = _as_json if options.format == "json" else _as_text
    failed = False
    try:
        for name in options.files:
            reading = _Reading(name, options)
            source = name if len(options.files) > 1 else None
            try:
                with _open(name) as file:
                    for item in reading.items(_chunks(file)):
                        tally.add_item(item)
                        if quarantine is None or not quarantine.takes(item, name):
                            _print(show(item, source))
            except _OutputError as failure:
                raise failure.reason from None
            except (OSError, LimitExceededError) as error:
                failed = True
                _say(name, _describe(error))
            finally:
                tally.add_stream(reading)
    finally:
        if quarantine is not None:
            quarantine.close()
        if not options.quiet:
            print(tally, file=sys.stderr)
    if failed or tally.counts["sink_errors"]:
        return 2
    return int(tally.something_is_wrong())


class _OutputError(Exception):
    """Keeps what went wrong in writing apart from what goes wrong in reading."""

    def __init__(self, reason: OSError) -> None:
        self.reason = reason


def _print(line: bytes) -> None:
    try:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    except OSError as error:
        error.filename = "standard output"
        raise _OutputError(error) from error


def _say(name: str, what: str) -> None:
    print(f"seamstream: {'standard input' if name == '-' else name}: {what}", file=sys.stderr)


def _describe(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def _open(name: str) -> contextlib.AbstractContextManager[BufferedReader]:
    if name != "-":
        return open(name, "rb")
    if sys.stdin is None:
        raise OSError("there is none")
    return contextlib.nullcontext(cast("BufferedReader", sys.stdin.buffer))


def _chunks(file: BufferedReader) -> Iterator[bytes]:
    # read1 gives what is there; read would wait until it has all it was asked for.
    while chunk := file.read1(_READ_BYTES):
        yield chunk


class _Reading:
    """One stream, and how far it was read."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        from seamstream import Limits  # noqa: PLC0415

        self.decoder: Decoder | None = None
        self.is_at_end = False
        self._name = name
        self._options = options
        size = options.max_event_bytes
        self._limits = Limits(max_event_bytes=size) if size else Limits()
        self._done = None if options.done is None else os.fsencode(options.done)

    def items(self, chunks: Iterator[bytes]) -> Iterator[Item]:
        framing, early, chunks = self._options.framing, None, self._to_end(chunks)
        if framing == "auto":
            detector = Detector(self._limits)
            for chunk in chunks:
                framing = detector.feed(chunk)
                self.decoder = detector.probe  # what there is to count, if there is no more
                if framing is not None:
                    break
                if early is None and detector.first is not None:
                    early = detector.first
                    if self._done is not None and early.raw == self._done.strip(_JSON_SPACE):
                        return
                    yield early
            else:
                framing = detector.close()
            chunks = chain((bytes(detector.held),), chunks)
            if not self._options.quiet:
                _say(self._name, f"framing {framing} ({REASONS[framing]})")
        self.decoder = self._make_decoder(framing)
        items: Iterator[Item] = self.decoder.iter(chunks, done=self._done)
        if early is not None:
            first = next(items, None)
            if first is not None and first != early:
                yield first
        yield from items

    def _to_end(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        yield from chunks
        self.is_at_end = True

    def _make_decoder(self, framing: Framing) -> Decoder:
        from seamstream import JSONStreamDecoder, SSEDecoder  # noqa: PLC0415

        on_limit = self._options.on_limit
        if framing == "sse":
            return SSEDecoder(limits=self._limits, on_limit=on_limit)
        return JSONStreamDecoder(framing=framing, limits=self._limits, on_limit=on_limit)


class _Quarantine:
    """Give a sink what is wrong, and tell once if it does not take it."""

    def __init__(self, path: str, tally: _Tally) -> None:
        from seamstream import JSONLinesSink  # noqa: PLC0415

        tally.show(_OF_QUARANTINE)
        self._sink = JSONLinesSink(path)
        self._path = path
        self._counts = tally.counts

    def takes(self, item: Item, name: str) -> bool:
        """Tell whether an item is in the file now, and so is not to be printed."""
        from seamstream import DecodeError  # noqa: PLC0415

        try:
            if item.parse_error is not None:
                item.json()
        except DecodeError as error:
            return self._write(item, error, name)
        return False

    def close(self) -> None:
        self._sink.close()

    def _write(self, item: Item, error: DecodeError, name: str) -> bool:
        from seamstream.quarantine import make_entry  # noqa: PLC0415

        # A file name may hold what is not UTF-8.
        source = os.fsencode(name).decode("utf-8", "backslashreplace")
        self._counts["quarantined"] += 1
        try:
            self._sink(make_entry(item, error, {"source": source}))
        except OSError as failure:
            self._counts["sink_errors"] += 1
            if self._counts["sink_errors"] == 1:
                _say(self._path, f"{_describe(failure)}; what it does not take is printed")
            return False
        return True


def _as_json(item: Item, source: str | None) -> bytes:
    record: dict[str, Any] = {} if source is None else {"source": source}
    record |= _event_fields(item) if _is_event(item) else _frame_fields(item)
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    # JSON lets these through; a terminal may take them for commands.
    text = re.sub("[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", text)
    # A file name may hold what is not UTF-8.
    return text.encode("utf-8", "surrogateescape") + b"\n"


def _is_event(item: Item) -> TypeIs[Event]:
    return hasattr(item, "event")


def _event_fields(event: Event) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "event": event.event,
        "id": event.id,
        "retry": event.retry,
        "data": event.data,
        "offset": event.offset,
    }
    if event.is_done:
        fields["is_done"] = True
    if event.torn:
        fields["torn"] = True
    if event.parse_error is not None:
        fields["parse_error"] = event.parse_error
    if event.replaced:
        fields["replaced"] = event.replaced
    return fields


def _frame_fields(frame: Frame) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    try:
        fields["data"] = frame.raw.decode()
    except UnicodeDecodeError:
        fields["data_base64"] = base64.b64encode(frame.raw).decode()
    fields["offset"] = frame.offset
    if frame.torn:
        fields["torn"] = True
    if frame.kind is not None:
        fields["kind"] = frame.kind
    if frame.parse_error is not None:
        fields["parse_error"] = frame.parse_error
    return fields


def _as_text(item: Item, source: str | None) -> bytes:
    if _is_event(item):
        words, data = _event_words(item), item.data
    else:
        words, data = _frame_words(item), item.raw.decode("utf-8", "backslashreplace")
    if source is not None:
        words.append(f"source={source}")
    lines = ["  ".join(words), *("    " + line for line in data.split("\n"))]
    return ("\n".join(map(_escape, lines)) + "\n").encode("utf-8", "surrogateescape")


def _event_words(event: Event) -> list[str]:
    words = [event.event or "(none)"]
    if event.id:
        words.append(f"id={event.id}")
    if event.retry is not None:
        words.append(f"retry={event.retry}")
    words.append(f"offset={event.offset}")
    if event.torn:
        words.append("TORN")
    elif event.parse_error is not None:
        words.append(f"NOT JSON ({event.parse_error})")
    if event.replaced:
        words.append(f"REPLACED {event.replaced}")
    return words


def _frame_words(frame: Frame) -> list[str]:
    words = ["value" if frame.kind is None else f"ERROR ({frame.kind})", f"offset={frame.offset}"]
    if frame.torn:
        words.append("TORN")
    return words


def _escape(line: str) -> str:
    """Escape control characters: what a server sends must not steer the terminal."""
    if line.isprintable():
        return line
    return "".join(
        repr(c)[1:-1] if unicodedata.category(c) == "Cc" and c != "\t" else c for c in line
    )
