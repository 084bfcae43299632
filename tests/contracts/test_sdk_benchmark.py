"""The figures for users of SDKs: a row only where each way of reading gives the text."""

from __future__ import annotations

import dataclasses

import pytest

from benches import sdk_clients

GROQ = sdk_clients.SDKS[-1]


def test_rows_are_printed_once_the_texts_are_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert sdk_clients.main(["--events", "4", "--turns", "1", "--sdk", "groq"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split("|") for line in lines if line.startswith("| groq")]
    assert [row[2].strip() for row in rows] == ["one event", "64 bytes", "64 KiB"] * 2
    assert all(float(figure) > 0 for row in rows for figure in row[3:-1])


def test_way_that_gives_another_text_has_no_figure() -> None:
    sdk = dataclasses.replace(GROQ, path="id")
    events, text = sdk_clients.events_of(GROQ, 2)
    with pytest.raises(AssertionError, match=r"groq.*path"):
        sdk_clients.measure(sdk, events, 64, 1, text)
