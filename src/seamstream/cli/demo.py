"""``seamstream demo``: what a stream loses between two reads, and what is left of it here."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seamstream import Event
    from seamstream.testing.payloads import Payload

_DESCRIPTION = """\
Read the same stream over a real connection in fragments of many sizes; take
each read apart on its own, as many programs do, and the whole with
seamstream; print what came out.

exit status:
  0  seamstream gave exactly what was sent, in every reading
  1  it did not
"""

WRITE_SIZES = (8, 12, 16, 24, 32, 48, 64, 128, 256, 512, None)

_READ_BYTES = 1 << 16
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# Pauses to try where the platform cannot tell when a client has read (see testing.server).
_DELAYS = (0.005, 0.025)


def configure(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "demo",
        help="see a stream arrive in pieces, and come out whole",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)


@dataclass(frozen=True)
class Reading:
    """One stream as read from the connection, and what became of it."""

    payload: Payload
    write_size: int | None
    chunks: tuple[bytes, ...]
    """What each read gave."""
    events: tuple[Event, ...]
    """What seamstream made of them."""

    @property
    def is_cut_as_written(self) -> bool:
        """Whether each read gave one write."""
        size = self.write_size or len(self.payload.body)
        return {len(chunk) for chunk in self.chunks[:-1]} <= {size}

    @property
    def boundaries(self) -> int:
        """How often one read ended and the next began."""
        return len(self.chunks) - 1

    @property
    def characters_split(self) -> int:
        """How many characters lie in more than one read."""
        body = b"".join(self.chunks)
        split: set[int] = set()
        end = 0
        for chunk in self.chunks[:-1]:
            end += len(chunk)
            if _continues(body, end):
                split.add(_start_of_character(body, end))
        return len(split)

    @property
    def decoded_per_chunk(self) -> list[str]:
        """Each read decoded on its own."""
        return [chunk.decode("utf-8", "replace") for chunk in self.chunks]

    @property
    def replaced_per_chunk(self) -> int:
        """How many U+FFFD decoding each read on its own puts in."""
        return sum(text.count(_REPLACEMENT) for text in self.decoded_per_chunk)

    @property
    def recovered_unbuffered(self) -> int:
        """How many events a parser finds that keeps nothing between reads."""
        return sum(1 for text in self.decoded_per_chunk for _ in _parse_alone(text))

    @property
    def survives_alone(self) -> bool:
        """Whether decoding and parsing each read on its own gives all the text."""
        values = [value for text in self.decoded_per_chunk for value in _parse_alone(text)]
        return tuple(map(_text_of, values)) == self.payload.parts

    @property
    def texts(self) -> tuple[str, ...]:
        """The text of each event."""
        return tuple(_text_of(event.json()) for event in self.events if event.parse_error is None)

    @property
    def recovered(self) -> int:
        """How many events came out with the text that was sent, each in its place."""
        return sum(a == b for a, b in zip(self.texts, self.payload.parts, strict=False))

    @property
    def replaced(self) -> int:
        """How many U+FFFD seamstream put in."""
        return sum(event.replaced for event in self.events)

    @property
    def is_exact(self) -> bool:
        """Whether the stream came out as it was sent: whole, nothing added, nothing flagged."""
        return (
            b"".join(self.chunks) == self.payload.body
            and self.texts == self.payload.parts
            and self.replaced == 0
            and not any(event.torn for event in self.events)
        )


def _continues(body: bytes, at: int) -> bool:
    """Whether the byte is not the first one of its character."""
    return body[at] & 0b1100_0000 == 0b1000_0000


def _start_of_character(body: bytes, at: int) -> int:
    while _continues(body, at):
        at -= 1
    return at


def _parse_alone(text: str) -> Iterator[Any]:
    """The parser that everybody writes first: one read, split at blank lines, errors dropped."""
    for block in text.split("\n\n"):
        if block.startswith("data: "):
            try:
                yield json.loads(block.removeprefix("data: "))
            except ValueError:
                continue


def _text_of(value: Any) -> str:
    return str(value["candidates"][0]["content"]["parts"][0]["text"])


def read(payload: Payload, write_size: int | None) -> Reading:
    """Serve the payload on a free port and read it over a connection of our own."""
    reading = _read_once(payload, write_size, 0.0)
    for delay in _DELAYS:
        if reading.is_cut_as_written:
            break
        reading = _read_once(payload, write_size, delay)
    return reading


def _read_once(payload: Payload, write_size: int | None, delay: float) -> Reading:
    import http.client  # noqa: PLC0415

    from seamstream import SSEDecoder  # noqa: PLC0415
    from seamstream.testing.server import FragmentingServer  # noqa: PLC0415

    decoder = SSEDecoder()
    chunks: list[bytes] = []
    events: list[Event] = []
    with (
        FragmentingServer(payload.body, write_size=write_size, delay=delay) as server,
        closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection,
    ):
        connection.request("GET", "/")
        response = connection.getresponse()
        while chunk := response.read1(_READ_BYTES):
            chunks.append(chunk)
            events.extend(decoder.feed(chunk))
    events.extend(decoder.close())
    return Reading(payload, write_size, tuple(chunks), tuple(events))


def run(options: argparse.Namespace) -> int:
    from seamstream.testing import payloads  # noqa: PLC0415

    reconfigure: Callable[..., None] | None = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")  # a terminal that cannot show Japanese
    style = Style(sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    _print_introduction(style)
    japanese = [read(payloads.gemini_japanese(), size) for size in WRITE_SIZES]
    _print_example(japanese[0], style)
    _print_table("Japanese text", "", japanese, style)
    english = [read(payloads.gemini_english(), size) for size in WRITE_SIZES]
    remark = "No character is longer than a byte, so none is split and no text is corrupted."
    _print_table("English text, cut at the same places", remark, english, style)
    return conclude(japanese + english, style)


class Style:
    """How the terminal sets off good and bad."""

    def __init__(self, has_colour: bool) -> None:
        self._has_colour = has_colour

    def __call__(self, code: int, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._has_colour else text

    def strong(self, text: str) -> str:
        return self(1, text)

    def faint(self, text: str) -> str:
        return self(2, text)

    def judged(self, is_good: bool, text: str) -> str:
        return self(32 if is_good else 31, text)


def _print_introduction(style: Style) -> None:
    from .doctor import describe_backend, describe_python, version  # noqa: PLC0415

    print(style.strong(f"seamstream {version()}") + f", {describe_backend()}, {describe_python()}")
    print(
        f"""
One event stream, written to a real connection a few bytes at a time, each write a TCP
segment of its own, and taken apart twice: with each read decoded and parsed alone, as if
it were whole, and by seamstream. U+FFFD ({_REPLACEMENT}) stands for bytes that are no character."""
    )


def _print_example(reading: Reading, style: Style) -> None:
    """Show one event's text, as sent and as it came out."""
    blocks = "".join(reading.decoded_per_chunk).split("\n\n")[:-1]
    damaged = [_text_of(json.loads(block.removeprefix("data: "))) for block in blocks]
    # The event that shows most.
    index = max(range(len(damaged)), key=lambda i: damaged[i].count(_REPLACEMENT))
    sent = reading.payload.parts[index]
    ours = "".join(reading.texts[index : index + 1])
    print(
        f"\nThe text of event {index + 1} of {len(damaged)}, {reading.write_size} bytes a write:\n"
    )
    print(f"    sent             {sent}")
    print(f"    each read alone  {style.judged(damaged[index] == sent, damaged[index])}")
    print(f"    seamstream       {style.judged(ours == sent, ours)}")


_HEAD = """\
    bytes               characters |    each read alone    |      seamstream
  a write   boundaries       split |   U+FFFD       events |   U+FFFD       events
  ---------------------------------+-----------------------+----------------------"""


def _print_table(title: str, remark: str, readings: list[Reading], style: Style) -> None:
    payload = readings[0].payload
    print(f"\n{style.strong(title)}: {payload.events} events, {len(payload.body):,} bytes")
    if remark:
        print(remark)
    print("\n" + style.faint(_HEAD))
    for reading in readings:
        sent = reading.payload.events
        size = str(reading.write_size or "all")
        alone, ours = reading.recovered_unbuffered, reading.recovered
        bad_alone, bad_ours = reading.replaced_per_chunk, reading.replaced
        bar = style.faint("|")
        cells = [
            f"{size:>9} {reading.boundaries:>12} {reading.characters_split:>11} {bar}",
            style.judged(bad_alone == 0, f"{bad_alone:>8}"),
            style.judged(alone == sent, f"{alone} of {sent}".rjust(12)),
            bar,
            style.judged(bad_ours == 0, f"{bad_ours:>8}"),
            style.judged(reading.is_exact, f"{ours} of {sent}".rjust(12)),
        ]
        if not reading.is_cut_as_written:
            cells.append("(writes came joined)")
        print(*cells)


def conclude(readings: list[Reading], style: Style) -> int:
    """Say whether what came out is what was sent; give the exit status."""
    damaged = sum(not reading.survives_alone for reading in readings)
    exact = sum(reading.is_exact for reading in readings)
    of = f"of {len(readings)} readings"
    print(f"\nDecoding each read alone lost or damaged text in {damaged} {of}.")
    verdict = f"The text from seamstream, compared whole, equals the text sent in {exact} {of}."
    print(style.judged(exact == len(readings), verdict))
    for reading in readings:
        if not reading.is_exact:
            print(f"WRONG: {reading.payload.name} at {reading.write_size or 'one write'}")
    return int(exact != len(readings))
