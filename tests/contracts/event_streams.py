"""Bodies to give to an original and to ours, and what has to be done to a body for the original.

Where an original departs from the standard, a body that meets the fault is rewritten until the
original is right about it. What it then gives has to be what ours gives for the body as it was: so
each difference has a reason that is computed, and there is no other.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from fragmentations import byte_by_byte, of_size, random_cuts
from seamstream.testing.payloads import SAMPLES, Payload
from shared_folder import SHARED, load_shared
from stream_strategies import (
    DIGITS,
    ILL_FORMED,
    JSON_PIECES,
    NAMES,
    SEPARATORS,
    SPECIAL,
    TERMINATORS,
)
from whole_stream import BOM

LINE = re.compile(rb"([^\r\n]*)(\r\n|\r|\n|\Z)")
MAX_RETRY = 2**53 - 1
VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).resolve().parent.parent / "vectors" / "sse.json").read_text("utf-8")
)["vectors"]
CORPUS = [
    entry for entry in load_shared("corpus/manifest.json", "entries") if entry["format"] == "sse"
]


# --- Bodies, and ways to cut them


def random_body(seed: int) -> bytes:
    """Lines that make a decoder work: mixed ends, ill-formed bytes, odd fields; some good ones."""
    source = random.Random(seed)
    body = b""
    for _ in range(source.randint(1, 14)):
        name = source.choice([b"data", b"data", b"id", b"event", b"retry", *NAMES])
        values = [b"", b"x", b" y", *ILL_FORMED, *SPECIAL, *JSON_PIECES, *DIGITS, b"+5", b"1_0"]
        value = b"".join(source.choices(values, k=source.randint(0, 2)))
        ends = [b"\n", b"\n\n", *TERMINATORS, b"\r\r", b"\r\n\r\n", b"\n\r\n", b"\r\n\n"]
        body += name + source.choice(SEPARATORS) + value + source.choice(ends)
    return body


RANDOM_BODIES = [random_body(seed) for seed in range(400)]


def corpus_body(entry: dict[str, Any]) -> bytes:
    return (SHARED / "corpus" / entry["file"]).read_bytes()


def samples(write_size: int) -> list[Callable[[], Payload]]:
    """What to have a server send; one that is short where each byte is a write."""
    return [SAMPLES["gemini-ja"]] if write_size == 1 else [*SAMPLES.values()]


def some_fragmentations(body: bytes) -> Iterator[list[bytes]]:
    """Whole, in the sizes of networks, at random, and byte by byte where that is quick."""
    yield [body]
    yield from (of_size(body, size) for size in (64, 1460) if len(body) > size)
    seed = len(body)
    yield random_cuts(body, seed=seed, mean=40)
    if len(body) < 2000:
        yield byte_by_byte(body)
        yield from (random_cuts(body, seed=seed + more, mean=5) for more in range(1, 4))


async def asynchronous(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def fields(events: Iterable[Any]) -> list[tuple[Any, ...]]:
    return [(event.event, event.data, event.id, event.retry) for event in events]


# --- What an original needs


def without_mark(body: bytes) -> bytes:
    """No original drops a byte order mark. The standard: one, at the start (UTF-8 decode)."""
    return body.removeprefix(BOM)


def field_of(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b":")
    return name, value.removeprefix(b" ")


def right_retry(value: bytes) -> int | None:
    if value.isdigit():  # bytes: ASCII only
        return MAX_RETRY if len(value.lstrip(b"0")) > 16 else min(int(value), MAX_RETRY)
    return None


def retry_by_int(value: bytes) -> int | None:
    try:
        return int(value.decode("utf-8", "replace"))
    except ValueError:
        return None


def with_plain_retry(body: bytes) -> bytes:
    """The original takes what `int()` takes: signs, underscores, spaces, digits of any script, and
    integers of any size. The standard: ASCII digits; ours up to 2**53 - 1."""

    def plain(line: re.Match[bytes]) -> bytes:
        name, value = field_of(line[1])
        if name == b"retry" and retry_by_int(value) != right_retry(value):
            right = right_retry(value)
            return (b":" if right is None else b"retry: %d" % right) + line[2]
        return line[0]

    return LINE.sub(plain, body)


def with_last_cr_paired(body: bytes) -> bytes:
    """httpx2 takes a CR at the very end for the end of its line and an empty line after it."""
    return body + b"\n" if body.endswith(b"\r") else body


def reasons_for_sseclient(body: bytes) -> set[str]:
    """Name what is in a body that sseclient-py may be wrong about; nothing else may differ."""
    lines = LINE.findall(body)
    by_name = [field_of(line) for line, _ in lines]
    found = {
        "byte order mark": body.startswith(BOM),
        "ill-formed bytes": body.decode("utf-8", "ignore").encode() != body,
        "line ends of two kinds": len({end for _, end in lines if end}) > 1,
        "id": any(name == b"id" for name, _ in by_name),
        "retry": any(
            name == b"retry" and str(right_retry(value)).encode() != value
            for name, value in by_name
        ),
    }
    return {reason for reason, holds in found.items() if holds}


def for_sseclient(body: bytes) -> bytes:
    """sseclient-py ends a block at two line ends of one kind only, decodes strictly, keeps what
    `id` and `retry` say whatever it is, and forgets the id with each block."""
    if not reasons_for_sseclient(body):
        return body
    text = without_mark(body).decode("utf-8", "replace").encode()
    rewritten: list[bytes] = []
    last_id = b""
    new_id: bytes | None = None
    for line, end in [*LINE.findall(text), (b"", b"")]:
        name, value = field_of(line)
        if line == b"":
            last_id = last_id if new_id is None else new_id
            new_id = None
            if last_id:  # ours gives None for the empty one
                rewritten.append(b"id: " + last_id)
            if not end:
                break
            rewritten.append(b"")
        elif name == b"id":
            new_id = new_id if b"\0" in value else value
        elif name == b"retry":
            right = right_retry(value)
            rewritten += [] if right is None else [b"retry: %d" % right]
        else:
            rewritten.append(line)
    return b"\n".join([*rewritten, b""])
