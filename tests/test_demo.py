"""The demonstration measures the published table, and says so when it does not come out."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from seamstream.cli import demo, main
from seamstream.testing import payloads
from seamstream.testing.fragmentations import of_size
from seamstream.testing.payloads import Payload

# bytes a write: boundaries, characters split, U+FFFD from decoding each read on its own, and
# events that a parser finds which keeps nothing between reads.
JAPANESE = {
    8: (175, 21, 54, 0),
    12: (117, 20, 40, 0),
    16: (87, 10, 26, 0),
    24: (58, 9, 18, 0),
    32: (43, 5, 13, 0),
    48: (29, 4, 8, 0),
    64: (21, 2, 5, 0),
    128: (10, 1, 2, 0),
    256: (5, 0, 0, 3),
    512: (2, 0, 0, 6),
    None: (0, 0, 0, 8),
}


def figures(reading: demo.Reading) -> tuple[int, int, int, int]:
    return (
        reading.boundaries,
        reading.characters_split,
        reading.replaced_per_chunk,
        reading.recovered_unbuffered,
    )


def test_demo_reads_at_the_published_sizes() -> None:
    assert tuple(JAPANESE) == demo.WRITE_SIZES


@pytest.mark.parametrize("size", JAPANESE)
def test_demo_measures_the_published_figures_on_japanese(size: int | None) -> None:
    reading = demo.read(payloads.gemini_japanese(), size)
    assert reading.is_cut_as_written
    assert figures(reading) == JAPANESE[size]
    assert reading.recovered == 8
    assert reading.is_exact


@pytest.mark.parametrize("size", JAPANESE)
def test_demo_measures_no_corruption_on_english(size: int | None) -> None:
    reading = demo.read(payloads.gemini_english(), size)
    boundaries, _, _, unbuffered = JAPANESE[size]
    assert reading.is_cut_as_written
    assert figures(reading) == (boundaries, 0, 0, unbuffered)
    assert reading.recovered == 8
    assert reading.is_exact


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_demo_counts_a_character_once_however_often_it_is_cut(size: int) -> None:
    payload = payloads.gemini_shaped(["🧵縫"])
    body = payload.body
    reading = demo.Reading(payload, size, tuple(of_size(body, size)), ())
    ends = {}
    for at, byte in enumerate(body):
        ends.setdefault(at if byte & 0xC0 != 0x80 else max(ends), set()).add(at // size)
    assert reading.characters_split == sum(len(chunks) > 1 for chunks in ends.values())


def faults(reading: demo.Reading) -> Iterator[demo.Reading]:
    other: Payload = payloads.gemini_english()
    yield replace(reading, events=reading.events[:-1])
    yield replace(reading, events=reading.events[::-1])
    yield replace(reading, events=(*reading.events, reading.events[-1]))
    yield replace(reading, events=())
    yield replace(reading, chunks=reading.chunks[:-1])
    yield replace(reading, payload=replace(other, events=8))


def test_demo_fails_when_what_came_out_is_not_what_was_sent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    good = demo.read(payloads.gemini_japanese(), None)
    assert demo.conclude([good], demo.Style(False)) == 0
    assert "equals the text sent in 1 of 1 readings" in capsys.readouterr().out
    for bad in faults(good):
        assert not bad.is_exact
        assert demo.conclude([good, bad], demo.Style(False)) == 1
        assert "WRONG" in capsys.readouterr().out


def test_demo_prints_the_table_it_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    output = capsys.readouterr().out
    rows = [
        line.replace("|", "").split() for line in output.splitlines() if line.endswith("8 of 8")
    ]
    english = {size: (row[0], 0, 0, row[3]) for size, row in JAPANESE.items()}
    assert [" ".join(row) for row in rows] == [
        f"{size or 'all'} {row[0]} {row[1]} {row[2]} {row[3]} of 8 0 8 of 8"
        for table in (JAPANESE, english)
        for size, row in table.items()
    ]
    assert "\x1b" not in output
    assert "lost or damaged text in 20 of 22 readings" in output
    assert "equals the text sent in 22 of 22 readings" in output
    assert all(len(line) <= 90 for line in output.splitlines())


def test_demo_prints_where_the_terminal_knows_no_japanese() -> None:
    # A console that can show only ASCII.
    finished = subprocess.run(
        [sys.executable, "-m", "seamstream", "demo"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert finished.stderr == b""
    assert finished.returncode == 0
    assert b"22 of 22 readings" in finished.stdout
