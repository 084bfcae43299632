"""An event stream decoder in plain Python, as short as one can be that is right and linear.

It stands for what a careful user writes without a library, and is built as the fastest one in
plain Python is: bytes are split into lines by `bytes.splitlines`, which knows LF, CR and CRLF and
nothing else, parts of a line are joined once, and each line of data is decoded once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

BOM = b"\xef\xbb\xbf"


def lines_of(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a stream, as soon as they end; linear in the bytes and the chunks."""
    parts: list[bytes] = []
    after_cr = False
    for chunk in chunks:
        if after_cr and chunk:
            after_cr = False
            if chunk[0] == 0x0A:
                chunk = chunk[1:]
        if not chunk:
            continue
        lines = chunk.splitlines()
        last = chunk[-1]
        rest = None if last in (0x0A, 0x0D) else lines.pop()
        after_cr = last == 0x0D
        if lines:
            if parts:
                parts.append(lines[0])
                lines[0] = b"".join(parts)
                parts = []
            yield from lines
        if rest is not None:
            parts.append(rest)


def decode(chunks: Iterable[bytes]) -> Iterator[tuple[str, str, str]]:
    """The events of a stream: type, data and last event ID."""
    data: list[bytes] = []
    kind = last_event_id = b""
    first = True
    for line in lines_of(chunks):
        if first:
            line, first = line.removeprefix(BOM), False
        if line.startswith(b"data: "):
            data.append(line[6:])
        elif not line:
            if data:
                text = (data[0] if len(data) == 1 else b"\n".join(data)).decode("utf-8", "replace")
                yield (
                    kind.decode("utf-8", "replace") or "message",
                    text,
                    last_event_id.decode("utf-8", "replace"),
                )
                data = []
            kind = b""
        else:
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                data.append(value)
            elif name == b"event":
                kind = value
            elif name == b"id" and b"\0" not in value:
                last_event_id = value
