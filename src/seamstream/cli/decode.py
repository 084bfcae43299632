"""``seamstream decode``: from bytes on standard input, or in files, to events."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from seamstream import Event, SSEDecoder

_DESCRIPTION = """\
Read event streams and print each event as soon as it is complete:

  curl -sN https://... | seamstream decode

With --format json, one JSON object a line, with the keys event, id, retry,
data (the text, as it was sent) and offset (of the event's first byte); and
only where they apply:

  torn         true: the stream ended inside the event; data is what there was
  parse_error  it begins like JSON and is not, or it is torn
  replaced     how many U+FFFD stand for bytes that were not UTF-8
  is_done      true: it is the sentinel [DONE]
  source       the file, when there are several

With --format text, something to read. Control characters are escaped in both.

A summary goes to standard error. Each file is a stream of its own.
"""

_EPILOG = """\
exit status:
  0    every stream was read to its end (or to --done) and nothing was wrong
  1    the same, but something was wrong: an event torn or skipped, JSON that
       is not, bytes that are not UTF-8
  2    wrong usage, a file that cannot be read, an event that outgrew the limit
  130  interrupted from the keyboard
  141  the reader of the output is gone (as with `| head`)
"""

_READ_BYTES = 1 << 16


def configure(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "decode",
        help="print the events of a stream, live",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "files", nargs="*", metavar="FILE", default=["-"], help="default: standard input, also `-`"
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
        "--max-event-bytes",
        type=_positive,
        metavar="N",
        help="how large an event may become (default: 8388608)",
    )
    parser.add_argument(
        "--on-limit",
        choices=("error", "skip"),
        default="error",
        help="what to do with a larger one: end with status 2, or leave it out (default: error)",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no summary")
    parser.set_defaults(run=run)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


@dataclass
class _Tally:
    events: int = 0
    torn: int = 0
    parse_errors: int = 0
    replaced: int = 0
    skipped: int = 0
    ignored_lines: int = 0
    comments: int = 0
    bytes: int = 0

    def add_event(self, event: Event) -> None:
        # Torn ones are counted by the decoder, and are no parse errors here.
        if event.parse_error is not None and not event.torn:
            self.parse_errors += 1

    def add_stream(self, decoder: SSEDecoder) -> None:
        stats = decoder.stats
        for name in ("events", "torn", "replaced", "skipped", "ignored_lines", "comments", "bytes"):
            setattr(self, name, getattr(self, name) + getattr(stats, name))

    def something_is_wrong(self) -> bool:
        return bool(self.torn or self.parse_errors or self.replaced or self.skipped)

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in vars(self).items())


def run(options: argparse.Namespace) -> int:
    from seamstream import LimitExceededError, Limits, SSEDecoder  # noqa: PLC0415

    limits = (
        Limits(max_event_bytes=options.max_event_bytes) if options.max_event_bytes else Limits()
    )
    done = None if options.done is None else os.fsencode(options.done)
    show = _as_json if options.format == "json" else _as_text
    tally = _Tally()
    failed = False
    try:
        for name in options.files:
            decoder = SSEDecoder(limits=limits, on_limit=options.on_limit)
            source = name if len(options.files) > 1 else None
            try:
                with _open(name) as file:
                    for event in decoder.iter(_chunks(file), done=done):
                        tally.add_event(event)
                        _print(show(event, source))
            except _OutputError as failure:
                raise failure.reason from None
            except (OSError, LimitExceededError) as error:
                failed = True
                print(f"seamstream: {_describe(name, error)}", file=sys.stderr)
            finally:
                tally.add_stream(decoder)
    finally:
        if not options.quiet:
            print(tally, file=sys.stderr)
    return 2 if failed else int(tally.something_is_wrong())


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


def _describe(name: str, error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"{'standard input' if name == '-' else name}: {reason}"


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


def _as_json(event: Event, source: str | None) -> bytes:
    record: dict[str, Any] = {} if source is None else {"source": source}
    record |= {
        "event": event.event,
        "id": event.id,
        "retry": event.retry,
        "data": event.data,
        "offset": event.offset,
    }
    if event.is_done:
        record["is_done"] = True
    if event.torn:
        record["torn"] = True
    if event.parse_error is not None:
        record["parse_error"] = event.parse_error
    if event.replaced:
        record["replaced"] = event.replaced
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    # JSON lets these through; a terminal may take them for commands.
    text = re.sub("[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", text)
    # A file name may hold what is not UTF-8.
    return text.encode("utf-8", "surrogateescape") + b"\n"


def _as_text(event: Event, source: str | None) -> bytes:
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
    if source is not None:
        words.append(f"source={source}")
    lines = ["  ".join(words), *("    " + line for line in event.data.split("\n"))]
    return ("\n".join(map(_escape, lines)) + "\n").encode("utf-8", "surrogateescape")


def _escape(line: str) -> str:
    """Escape control characters: what a server sends must not steer the terminal."""
    if line.isprintable():
        return line
    return "".join(
        repr(c)[1:-1] if unicodedata.category(c) == "Cc" and c != "\t" else c for c in line
    )
