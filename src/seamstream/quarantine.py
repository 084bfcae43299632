"""Where what could not be used goes: dead-letter sinks.

A sink is any callable that takes a `QuarantineEntry`. It runs in the thread of whoever iterates
over the stream, without a queue, so it should be quick.
"""

# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import binascii
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, final

import orjson

if TYPE_CHECKING:
    from logging import Logger

    from typing_extensions import Self

    from ._backend import Event, Frame
    from .errors import DecodeError

__all__ = ["JSONLinesSink", "LoggingSink", "QuarantineEntry", "Sink", "make_entry"]

MAX_RAW_BYTES = 64 << 10


class QuarantineEntry(NamedTuple):
    """Describe what was taken out of a stream, and why.

    Attributes:
        time_ns: When, as `time.time_ns()` has it.
        reason: What was wrong, in words that hold no payload text.
        kind: The same as a code: "schema", "torn", "syntax", or another `kind` of a `Frame`.
        offset: Absolute position in the stream, in bytes.
        raw: The payload, or its first 64 KiB; a character is not cut in two. Empty for what
            outgrew the limit.
        raw_bytes: The length of the whole payload.
        labels: The labels of the stream.
    """

    time_ns: int
    reason: str
    kind: str
    offset: int
    raw: bytes
    raw_bytes: int
    labels: Mapping[str, str]


Sink = Callable[[QuarantineEntry], object]


def make_entry(
    item: Event | Frame, error: DecodeError, labels: Mapping[str, str]
) -> QuarantineEntry:
    """Describe an item that gave an error."""
    raw = item.raw
    end = MAX_RAW_BYTES
    if len(raw) > end:
        # Not before a continuation byte; of those there are three at most.
        while raw[end] & 0xC0 == 0x80 and end > MAX_RAW_BYTES - 3:
            end -= 1
    return QuarantineEntry(
        time.time_ns(), str(error), error.kind, item.offset, raw[:end], len(raw), dict(labels)
    )


@final
class JSONLinesSink:
    """Append entries to a file, one JSON object a line.

    The names are those of `QuarantineEntry`. `raw` is there as text when it is UTF-8; otherwise
    `raw_base64` is there in its place. Each entry is with the operating system when the call
    ends.

    Before an entry would make the file larger than `max_bytes`, the file is renamed to `path.1`,
    that one to `path.2`, and so on; the one after `path.{keep}` is lost. One sink may serve any
    number of streams and threads. The file is opened with the first entry, readable by its owner
    only, and opened again when it was moved or removed.

    Args:
        path: The file. Its directory must exist.
        max_bytes: How large the file may grow; a single entry may be larger.
        keep: How many renamed files to keep; with 0 the file begins anew.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `max_bytes` is less than 1, or `keep` less than 0.
        OSError: The directory does not exist, or `path` is one.
    """

    __slots__ = ("_file", "_is_closed", "_keep", "_lock", "_max_bytes", "_path")

    def __init__(
        self, path: str | os.PathLike[str], *, max_bytes: int = 64 << 20, keep: int = 3
    ) -> None:
        given = os.fspath(path)
        if not isinstance(given, str):
            raise TypeError(f"path must be str or os.PathLike[str], not {type(given).__name__}")
        _check_int("max_bytes", max_bytes, 1)
        _check_int("keep", keep, 0)
        # Wherever the program changes to, it stays the same file.
        self._path = os.path.abspath(given)
        if not os.path.isdir(os.path.dirname(self._path)):
            raise FileNotFoundError(f"no such directory: {os.path.dirname(self._path)!r}")
        if os.path.isdir(self._path):
            raise IsADirectoryError(f"a directory, not a file: {self._path!r}")
        self._max_bytes = max_bytes
        self._keep = keep
        self._lock = threading.Lock()
        self._file: BinaryIO | None = None
        self._is_closed = False

    def __call__(self, entry: QuarantineEntry, /) -> None:
        """Write one entry.

        Raises:
            OSError: The file could not be written. The next entry begins on a line of its own.
            ValueError: The sink is closed.
        """
        line = _as_line(entry)
        with self._lock:
            if self._is_closed:
                raise ValueError("the sink is closed")
            try:
                self._write(line)
            except BaseException:
                self._close_file()  # opened again, it is seen whether it ends with a whole line
                raise

    def close(self) -> None:
        """Close the file; later entries are refused."""
        with self._lock:
            self._is_closed = True
            self._close_file()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"JSONLinesSink({self._path!r}, max_bytes={self._max_bytes}, keep={self._keep})"

    def _write(self, line: bytes) -> None:
        file, size = self._open()
        if size and size + len(line) > self._max_bytes:
            self._close_file()
            self._rotate()
            file, _ = self._open()
        view = memoryview(line)
        while view:  # a write without a buffer may write a part
            view = view[file.write(view) :]

    def _open(self) -> tuple[BinaryIO, int]:
        """Give the file and its size; a new one, if it is no longer at its path."""
        file = self._file
        if file is not None:
            status = os.fstat(file.fileno())
            try:
                if os.path.samestat(status, os.stat(self._path)):
                    return file, status.st_size
            except FileNotFoundError:
                pass
            self._close_file()
        self._file = file = open(self._path, "ab+", buffering=0, opener=_open_private)  # noqa: SIM115
        size = file.seek(0, os.SEEK_END)
        if size:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":  # a part of an entry
                size += file.write(b"\n")
        return file, size

    def _rotate(self) -> None:
        if not self._keep:
            os.remove(self._path)
        for number in range(self._keep, 0, -1):
            newer = f"{self._path}.{number - 1}" if number > 1 else self._path
            if os.path.exists(newer):
                os.replace(newer, f"{self._path}.{number}")

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _check_int(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be {least} or more, not {value}")


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _as_line(entry: QuarantineEntry) -> bytes:
    fields: dict[str, Any] = entry._asdict()
    raw = fields.pop("raw")
    try:
        fields["raw"] = raw.decode()
    except UnicodeDecodeError:
        fields["raw_base64"] = binascii.b2a_base64(raw, newline=False).decode()
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


@final
class LoggingSink:
    """Log entries, without their payload unless asked for.

    Args:
        logger: The logger or its name. Default: "seamstream.quarantine".
        level: The level; 30 is `logging.WARNING`.
        with_raw: Log the payload too, as the `repr` of its bytes.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `level` is less than 0.
    """

    __slots__ = ("_level", "_logger", "_with_raw")

    def __init__(
        self,
        logger: Logger | str = "seamstream.quarantine",
        *,
        level: int = 30,
        with_raw: bool = False,
    ) -> None:
        import logging  # noqa: PLC0415 - few programs need it on account of this module

        if isinstance(logger, str):
            logger = logging.getLogger(logger)
        if not callable(getattr(logger, "log", None)):
            raise TypeError(f"logger must be a logger or its name, not {type(logger).__name__}")
        _check_int("level", level, 0)
        self._logger = logger
        self._level = level
        self._with_raw = with_raw

    def __call__(self, entry: QuarantineEntry, /) -> None:
        """Log one entry."""
        message = "quarantined %s at byte %d, %d bytes: %s"
        values: list[object] = [entry.kind, entry.offset, entry.raw_bytes, entry.reason]
        if entry.labels:
            message += "; labels %r"
            values.append(dict(entry.labels))
        if self._with_raw:
            message += "; raw %r"
            values.append(entry.raw)
        self._logger.log(self._level, message, *values)
