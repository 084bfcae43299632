"""Quarantine: what an entry holds, and the sinks."""

from __future__ import annotations

import base64
import json
import logging
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from conftest import Implementation
from seamstream import EventStream, JSONLinesSink, LoggingSink, QuarantineEntry

BAD = b"data: {broken\n\n"
SECRET = "a secret"


@pytest.fixture(autouse=True)
def decoders(implementation: Implementation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every stream use the decoders of the implementation under test."""
    for name in ("SSEDecoder", "JSONStreamDecoder"):
        monkeypatch.setattr(f"seamstream.stream.{name}", getattr(implementation, name))


def quarantine(*chunks: bytes, sink: Any, **options: Any) -> EventStream[Any]:
    """Open a stream that quarantines, and read it to its end."""
    opened: Any = EventStream(chunks, parse=True, on_error="quarantine", quarantine=sink, **options)
    list(opened)
    return opened


def entry(raw: bytes = b"{", **changes: Any) -> QuarantineEntry:
    return QuarantineEntry(1, "because", "syntax", 5, raw, len(raw), {})._replace(**changes)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


# --- entries --------------------------------------------------------------------------------


def test_entry_tells_what_was_wrong_where_and_of_which_stream() -> None:
    entries: list[QuarantineEntry] = []
    labels = {"upstream": "a"}
    opened = quarantine(b": c\ndata: 1\n\n" + BAD, b"data: to", sink=entries.append, labels=labels)
    labels["upstream"] = "changed"
    broken, torn = entries
    assert type(broken) is QuarantineEntry
    assert (broken.kind, broken.offset, broken.raw, broken.raw_bytes) == (
        ("syntax", 13, b"{broken", 7)
    )
    assert "at byte 1" in broken.reason
    assert (torn.kind, torn.offset, torn.raw) == ("torn", 28, b"data: to")
    assert broken.labels == torn.labels == {"upstream": "a"}
    assert 1.6e18 < broken.time_ns <= torn.time_ns
    assert (opened.report.quarantined, opened.report.sink_errors) == (2, 0)


def test_entry_of_an_error_frame_has_its_kind() -> None:
    entries: list[QuarantineEntry] = []
    quarantine(b"[1,,2]x", sink=entries.append, framing="array")
    assert [(one.kind, one.offset, one.raw) for one in entries] == [
        ("separator", 3, b","),
        ("garbage", 6, b"x"),
    ]


@pytest.mark.parametrize("character", ["x", "é", "漢", "😀"])
def test_entry_holds_64_kib_and_no_cut_character(character: str) -> None:
    entries: list[QuarantineEntry] = []
    for shift in range(4):
        payload = ("{" + "-" * shift + character * 70_000).encode()
        quarantine(b"data: " + payload + b"\n\n", sink=entries.append)
        held = entries.pop()
        assert held.raw_bytes == len(payload)
        assert 65_536 - len(character.encode()) < len(held.raw) <= 65_536
        assert payload.startswith(held.raw)
        held.raw.decode()


def test_entry_of_bytes_that_are_no_text_is_cut_all_the_same() -> None:
    entries: list[QuarantineEntry] = []
    quarantine(b"data: {" + b"\x80" * 70_000 + b"\n\n", sink=entries.append)
    assert 65_533 <= len(entries[0].raw) <= 65_536


def test_reason_holds_no_payload_text() -> None:
    entries: list[QuarantineEntry] = []
    body = json.dumps({SECRET: 1}).encode()[:-1]

    def loads(raw: bytes) -> Any:
        raise ValueError(raw)

    quarantine(b"data: " + body + b"\n\n", sink=entries.append)
    quarantine(b"data: " + body + b"\n\n", sink=entries.append, loads=loads)
    assert all(SECRET not in one.reason for one in entries)


# --- sinks that fail ------------------------------------------------------------------------


def test_failing_sink_is_counted_and_logged_once_and_ends_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def sink(entry: QuarantineEntry) -> None:
        raise ValueError(entry.raw)

    body = b"data: {secret\n\n" * 3 + b"data: 1\n\n"
    opened: Any = EventStream([body], parse=True, on_error="quarantine", quarantine=sink)
    with caplog.at_level(logging.DEBUG):
        assert [item.value for item in opened] == [1]
    assert (opened.report.quarantined, opened.report.sink_errors) == (3, 3)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("seamstream", "ERROR")
    assert "ValueError" in record.getMessage()
    assert "secret" not in caplog.text


def test_failing_disk_is_named_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with JSONLinesSink(folder / "bad") as sink:
        folder.rmdir()
        opened = quarantine(BAD, BAD, sink=sink)
        assert opened.report.sink_errors == 2
        assert "FileNotFoundError: No such file" in caplog.text
        folder.mkdir()
        quarantine(BAD, sink=sink)
    assert len(lines(folder / "bad")) == 1


def test_interrupt_in_a_sink_passes_through() -> None:
    def sink(entry: QuarantineEntry) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quarantine(BAD, sink=sink)


# --- JSON Lines -----------------------------------------------------------------------------


def test_file_has_one_object_a_line_with_text_or_else_base64(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    with JSONLinesSink(path) as sink:
        text = '{é漢😀\u2028\n"\\'
        sink(entry(text.encode(), labels={"a": "b"}))
        sink(entry(b"{\xff\x00"))
        assert lines(path) == [
            {
                "time_ns": 1,
                "reason": "because",
                "kind": "syntax",
                "offset": 5,
                "raw": text,
                "raw_bytes": len(text.encode()),
                "labels": {"a": "b"},
            },
            {
                "time_ns": 1,
                "reason": "because",
                "kind": "syntax",
                "offset": 5,
                "raw_base64": base64.b64encode(b"{\xff\x00").decode(),
                "raw_bytes": 3,
                "labels": {},
            },
        ]
    with pytest.raises(ValueError, match="closed"):
        sink(entry())


def test_file_is_appended_to_and_rotated_by_size(tmp_path: Path) -> None:
    path = tmp_path / "bad"
    for number in range(20):  # each time anew: what is there already counts
        with JSONLinesSink(path, max_bytes=300, keep=2) as sink:
            sink(entry(offset=number))
    files = [path.with_name("bad.2"), path.with_name("bad.1"), path]
    assert sorted(tmp_path.iterdir()) == sorted(files)
    assert all(file.stat().st_size <= 300 for file in files)
    kept = [line["offset"] for file in files for line in lines(file)]
    assert kept == list(range(20 - len(kept), 20))
    assert len(lines(files[0])) == len(lines(files[1])) > 1


def test_without_renamed_files_the_file_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "bad"
    with JSONLinesSink(path, max_bytes=1, keep=0) as sink:
        for number in range(3):
            sink(entry(offset=number))
    assert [line["offset"] for line in lines(path)] == [2]
    assert list(tmp_path.iterdir()) == [path]


def test_file_that_was_moved_or_removed_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "bad"
    with JSONLinesSink(path) as sink:
        sink(entry(offset=1))
        path.rename(tmp_path / "moved")
        sink(entry(offset=2))
        path.unlink()
        sink(entry(offset=3))
    assert [line["offset"] for line in lines(path)] == [3]
    assert [line["offset"] for line in lines(tmp_path / "moved")] == [1]


def test_part_of_an_entry_stays_on_its_own_line(tmp_path: Path) -> None:
    path = tmp_path / "bad"
    path.write_bytes(b'{"offset": 0}\n{"off')
    with JSONLinesSink(path) as sink:
        sink(entry(offset=1))
    first, part, last = path.read_bytes().splitlines()
    assert (json.loads(first)["offset"], part, json.loads(last)["offset"]) == (0, b'{"off', 1)


def test_one_sink_serves_many_streams_and_threads(tmp_path: Path) -> None:
    path = tmp_path / "bad"
    with JSONLinesSink(path, max_bytes=4000, keep=100) as sink:
        threads = [
            threading.Thread(
                target=quarantine, args=(BAD,) * 30, kwargs={"sink": sink, "labels": {"n": str(n)}}
            )
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = [line["labels"]["n"] for file in tmp_path.iterdir() for line in lines(file)]
    assert sorted(found) == sorted(str(n) for n in range(8) for _ in range(30))


def test_two_sinks_of_one_path_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "bad"
    with (
        JSONLinesSink(path, max_bytes=300, keep=20) as one,
        JSONLinesSink(path, max_bytes=300, keep=20) as other,
    ):
        for number in range(20):
            (one if number % 2 else other)(entry(offset=number))
    found = [line["offset"] for file in tmp_path.iterdir() for line in lines(file)]
    assert sorted(found) == list(range(20))


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
def test_file_can_be_read_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "bad"
    with JSONLinesSink(path) as sink:
        sink(entry())
    assert path.stat().st_mode & 0o777 == 0o600


def test_no_file_is_made_before_there_is_an_entry(tmp_path: Path) -> None:
    quarantine(b"data: 1\n\n", sink=tmp_path / "bad")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("as_text", [True, False])
def test_path_given_to_a_stream_is_a_file_closed_with_it(tmp_path: Path, as_text: bool) -> None:
    path = tmp_path / "bad"
    with EventStream(
        [BAD + b"data: 1\n\n", BAD],
        parse=True,
        on_error="quarantine",
        quarantine=str(path) if as_text else path,
    ) as opened:
        assert next(iter(opened)).value == 1
        assert len(lines(path)) == 1
    assert len(lines(path)) == 1
    opened = quarantine(BAD, b"data: to", sink=path)
    assert [line["kind"] for line in lines(path)] == ["syntax", "syntax", "torn"]
    with pytest.raises(ValueError, match="closed"):
        opened._intake.sink(entry())  # type: ignore[misc]


def test_path_stays_what_it_was_when_the_program_changes_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sink = JSONLinesSink("bad")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    with sink:
        sink(entry())
    assert (tmp_path / "bad").exists()
    assert repr(sink) == f"JSONLinesSink({str(tmp_path / 'bad')!r}, max_bytes=67108864, keep=3)"


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        ((5,), {}, TypeError),
        ((b"bad",), {}, TypeError),
        (("bad",), {"max_bytes": 0}, ValueError),
        (("bad",), {"max_bytes": 1.5}, TypeError),
        (("bad",), {"max_bytes": True}, TypeError),
        (("bad",), {"keep": -1}, ValueError),
        ((os.path.join("no", "such", "folder"),), {}, FileNotFoundError),
        ((os.curdir,), {}, IsADirectoryError),
    ],
)
def test_wrong_arguments_are_refused_at_once(
    arguments: Any, options: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        JSONLinesSink(*arguments, **options)


# --- logging --------------------------------------------------------------------------------


def test_log_names_the_fault_and_not_the_payload(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        quarantine(b"data: {secret\n\n", sink=LoggingSink(), labels={"upstream": "a"})
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("seamstream.quarantine", "WARNING")
    message = record.getMessage()
    assert message.startswith("quarantined syntax at byte 0, 7 bytes: ")
    assert message.endswith("; labels {'upstream': 'a'}")
    assert "secret" not in message


def test_logger_level_and_payload_are_the_callers_choice(caplog: pytest.LogCaptureFixture) -> None:
    for logger in ("mine", logging.getLogger("mine")):
        caplog.clear()
        with caplog.at_level(logging.DEBUG):
            LoggingSink(logger, level=logging.INFO, with_raw=True)(entry(b"{\n\xff"))
        (record,) = caplog.records
        assert (record.name, record.levelname) == ("mine", "INFO")
        expected = "quarantined syntax at byte 5, 3 bytes: because; raw b'{\\n\\xff'"
        assert record.getMessage() == expected
    with pytest.raises(TypeError):
        LoggingSink(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        LoggingSink(level="INFO")  # type: ignore[arg-type]
