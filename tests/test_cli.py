"""The command line: what it prints, when, and the status it ends with."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import seamstream
from seamstream.cli import main
from seamstream.testing.payloads import SAMPLES
from shared_folder import SHARED

Run = Callable[..., tuple[int, bytes, str]]


@pytest.fixture
def run(capfdbinary: Any, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command in this process, with these bytes on standard input."""

    def call(
        *arguments: str, stdin: bytes = b"", write_size: int = 1 << 20
    ) -> tuple[int, bytes, str]:
        writes = io.BufferedReader(_Writes(stdin, write_size))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(writes))
        try:
            status = main(arguments)
        except SystemExit as end:
            status = int(end.code or 0)
        sys.stdout.flush()
        output, errors = capfdbinary.readouterr()
        return status, output, errors.decode()

    return call


class _Writes(io.RawIOBase):
    """What a reader gets who is always quicker than the writer."""

    def __init__(self, stream: bytes, size: int) -> None:
        self._rest = memoryview(stream)
        self._size = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = min(self._size, len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


@contextlib.contextmanager
def start(*arguments: str, **rest: Any) -> Iterator[subprocess.Popen[bytes]]:
    """The command in a process of its own, which does not outlive a test that fails."""
    command = [sys.executable, "-m", "seamstream", *arguments]
    # What a background job starts ignores SIGINT, as it does itself; a handler is not handed on.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **rest)
    finally:
        signal.signal(signal.SIGINT, handler)
    with process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def records(output: bytes) -> list[Any]:
    return [json.loads(line) for line in output.decode("utf-8").splitlines()]


def summary(errors: str) -> dict[str, int]:
    line = errors.splitlines()[-1]
    return {name: int(value) for name, _, value in (word.partition("=") for word in line.split())}


# decode


def test_decode_prints_one_json_object_a_line(run: Run) -> None:
    stream = 'id: 7\nevent: delta\nretry: 10\ndata: {"a": "縫"}\n\ndata: b\ndata: c\n\n'.encode()
    status, output, _ = run("decode", stdin=stream)
    assert status == 0
    assert records(output) == [
        {"event": "delta", "id": "7", "retry": 10, "data": '{"a": "縫"}', "offset": 0},
        {"event": "message", "id": "7", "retry": None, "data": "b\nc", "offset": 49},
    ]
    assert output.count(b"\n") == 2
    assert "縫".encode() in output


@pytest.mark.parametrize("name", SAMPLES)
def test_decode_gives_every_sample_whole(run: Run, name: str, tmp_path: Path) -> None:
    payload = SAMPLES[name]()
    path = tmp_path / "stream"
    path.write_bytes(payload.body)
    status, output, errors = run("decode", str(path))
    events = seamstream.SSEDecoder().feed(payload.body)
    assert status == 0
    assert [record["data"] for record in records(output)] == [event.data for event in events]
    assert summary(errors) == {
        "events": payload.events,
        "torn": 0,
        "parse_errors": 0,
        "replaced": 0,
        "skipped": 0,
        "ignored_lines": 0,
        "comments": 0,
        "bytes": len(payload.body),
    }


@pytest.mark.parametrize(
    ("stream", "flags", "counted", "status"),
    [
        (b"data: [DONE]\n\n", {"is_done": True}, {}, 0),
        (b"data: {]\n\n", {"parse_error": "syntax"}, {"parse_errors": 1}, 1),
        (b"data: {}\xff\n\n", {"parse_error": "syntax", "replaced": 1}, {"replaced": 1}, 1),
        (b"data: x\n", {"torn": True, "parse_error": "torn"}, {"torn": 1, "parse_errors": 0}, 1),
        (b"nonsense\n:ping\n:\ndata\n\n", {}, {"ignored_lines": 1, "comments": 2, "events": 1}, 0),
    ],
)
def test_decode_flags_what_is_wrong_and_ends_with_it(
    run: Run, stream: bytes, flags: dict[str, Any], counted: dict[str, int], status: int
) -> None:
    got, output, errors = run("decode", stdin=stream)
    (record,) = records(output)
    assert {key: record[key] for key in record if key not in PLAIN} == flags
    assert summary(errors).items() >= counted.items()
    assert got == status


PLAIN = {"event", "id", "retry", "data", "offset"}


def test_decode_of_nothing_is_all_well(run: Run) -> None:
    assert run("decode")[:2] == (0, b"")


def test_decode_escapes_what_a_terminal_might_obey(run: Run) -> None:
    stream = (
        "event: \x1b]0;\x07\ndata: \x1b[31m\t\x7f\x9b\x00 縫い目\N{ZERO WIDTH JOINER}\n\n".encode()
    )
    for form in ("json", "text"):
        _, output, _ = run("decode", "--format", form, stdin=stream)
        text = output.decode("utf-8")
        assert not set(text) & set("\x00\x07\x1b\x7f\x9b")
        assert "縫い目" in text
    _, output, _ = run("decode", stdin=stream)
    assert records(output)[0]["data"] == "\x1b[31m\t\x7f\x9b\x00 縫い目\N{ZERO WIDTH JOINER}"


def test_decode_as_text_is_made_for_reading(run: Run) -> None:
    stream = (
        b"id: 7\nretry: 5\ndata: one\ndata: two\n\nevent: e\ndata: {\n\ndata: \xff\n\ndata: rest"
    )
    status, output, _ = run("decode", "--format", "text", stdin=stream)
    assert status == 1
    assert output.decode("utf-8").splitlines() == [
        "message  id=7  retry=5  offset=0",
        "    one",
        "    two",
        "e  id=7  offset=36  NOT JSON (syntax)",
        "    {",
        "message  id=7  offset=54  REPLACED 1",
        "    \N{REPLACEMENT CHARACTER}",
        "message  id=7  offset=63  TORN",
        "    data: rest",
    ]


def test_decode_stops_at_done_and_leaves_it_out(run: Run) -> None:
    stream = b"data: 1\n\ndata: [DONE]\n\ndata: 2\n\n"
    status, output, errors = run("decode", "--done", "[DONE]", stdin=stream)
    assert status == 0
    assert [record["data"] for record in records(output)] == ["1"]
    assert summary(errors)["torn"] == 0


def test_decode_takes_each_file_as_a_stream_of_its_own(run: Run, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"id: 1\ndata: a\n\ndata: torn")
    two.write_bytes(b"data: b\n\n")
    status, output, errors = run("decode", str(one), "-", str(two), stdin=b"data: i\n\n")
    assert status == 1
    assert [(r["source"], r["data"], r["id"], r["offset"]) for r in records(output)] == [
        (str(one), "a", "1", 0),
        (str(one), "data: torn", "1", 15),
        ("-", "i", "", 0),
        (str(two), "b", "", 0),
    ]
    assert (summary(errors)["events"], summary(errors)["torn"]) == (3, 1)


def test_decode_goes_on_after_a_file_that_cannot_be_read(run: Run, tmp_path: Path) -> None:
    good, missing = tmp_path / "good", tmp_path / "missing"
    good.write_bytes(b"data: a\n\n")
    status, output, errors = run("decode", str(missing), str(good))
    assert status == 2
    assert len(records(output)) == 1
    assert errors.splitlines()[0].startswith(f"seamstream: {missing}: ")


def test_decode_ends_at_an_event_beyond_the_limit(run: Run) -> None:
    stream = b"data: 1\n\ndata: " + b"x" * 50 + b"\n\ndata: 2\n\n"
    status, output, errors = run("decode", "--max-event-bytes", "20", stdin=stream)
    assert status == 2
    assert [record["data"] for record in records(output)] == ["1"]
    assert "standard input: an event outgrew max_event_bytes=20 at byte" in errors
    assert "xxx" not in errors


def test_decode_skips_an_event_beyond_the_limit_on_request(run: Run) -> None:
    stream = b"data: 1\n\ndata: " + b"x" * 50 + b"\n\ndata: 2\n\n"
    arguments = ["decode", "--max-event-bytes", "20", "--on-limit", "skip"]
    status, output, errors = run(*arguments, stdin=stream)
    assert status == 1
    assert [record["data"] for record in records(output)] == ["1", "2"]
    assert summary(errors)["skipped"] == 1


def test_decode_is_quiet_on_request(run: Run) -> None:
    status, _, errors = run("decode", "-q", stdin=b"data: {\n\n")
    assert (status, errors) == (1, "")


def test_decode_prints_an_event_while_the_stream_goes_on() -> None:
    with start("decode", stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stream = "data: 縫\n\n".encode()
        for i in range(len(stream)):
            process.stdin.write(stream[i : i + 1])
            process.stdin.flush()
        assert json.loads(process.stdout.readline())["data"] == "縫"
        assert process.poll() is None
        output, errors = process.communicate(b"data: 2\n\n", timeout=30)
    assert process.returncode == 0
    assert len(records(output)) == 1
    assert summary(errors.decode())["events"] == 2


def test_decode_ends_quietly_when_its_reader_is_gone() -> None:
    with start("decode", stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"data: 1\n\n")
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.close()
        process.stdin.write(b"data: 2\n\n")
        process.stdin.flush()
        errors = process.stderr.read()
        process.wait(30)
    assert process.returncode == 141
    assert len(errors.splitlines()) == 2  # the framing, the summary


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_decode_names_the_output_when_it_cannot_be_written() -> None:
    with open("/dev/full", "wb") as full:
        finished = subprocess.run(
            [sys.executable, "-m", "seamstream", "decode"],
            input=b"data: 1\n\n",
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert finished.returncode == 2
    error = finished.stderr.decode().splitlines()[-1]
    assert error.startswith("seamstream: standard output: ")


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_decode_ends_with_its_summary_when_interrupted() -> None:
    with start("decode", stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"data: 1\n\n")
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert summary(errors.decode())["events"] == 1
    assert len(errors.splitlines()) == 2  # the framing, the summary


@pytest.mark.parametrize("size", ["0", "-1", "many", "9" * 20])
def test_decode_refuses_a_limit_that_is_no_size(run: Run, size: str) -> None:
    status, _, errors = run("decode", f"--max-event-bytes={size}")
    assert status == 2
    assert "--max-event-bytes" in errors
    assert "Traceback" not in errors


def test_decode_documents_its_exit_statuses(run: Run) -> None:
    status, output, _ = run("decode", "--help")
    assert status == 0
    for documented in (b"  0  ", b"  1  ", b"  2  ", b"  130  ", b"  141  "):
        assert documented in output


# decode: JSON streams

# Where JSON white space does not matter, each with its framing.
STREAMS = [
    (b"data: 1\n\n", "sse"),
    (b"\n\n:comment\ndata: 1\n\n", "sse"),
    (b" data: 1\n\n", "sse"),
    (b"", "sse"),
    (b"\n", "sse"),
    (b"nul", "sse"),
    (b"nonsense: {}\n\n", "sse"),
    (b"-", "sse"),
    (b"-- boundary\n", "sse"),
    (b"event: e\ndata: [\n\n", "sse"),
    (b"\n" * 5000 + b"data: 1\n\n", "sse"),
    (b'{"a":1}\n{"a":2}\n', "ndjson"),
    (b'\n{"a":1} \r\n{"a":2}', "ndjson"),
    (b"{}\n", "ndjson"),
    (b"\n" * 5000 + b"{}\n", "ndjson"),  # which keep a connection alive
    (b"[1]\n[2]\n", "ndjson"),
    (b"[]\n", "ndjson"),
    (b"1\n2\n", "ndjson"),
    (b"-0.5e-3\nnull\n", "ndjson"),
    (b"true\r\nfalse\n", "ndjson"),
    (b'"a"\n"b"\n', "ndjson"),
    (b'{"a":1}', "concatenated"),
    (b'{"a":1}{"a":2}\n', "concatenated"),
    (b'{"a":1} {"a":2}\n', "concatenated"),
    (b'{\n"a":1\n}\n{\n"a":2\n}\n', "concatenated"),
    (b'{"a":1,}\n{"a":2}\n{"a":3}\n', "concatenated"),
    (b"[1][2]\n", "concatenated"),
    (b"[1,\n2]\n", "concatenated"),
    (b"1 2\n", "concatenated"),
    (b'1{"a":1}', "concatenated"),
    (b"01\n", "concatenated"),
    (b"null", "concatenated"),
    (b'{"a":1}' + b" " * 4096 + b"\n", "concatenated"),
    (b'[{"a":1}\n,\n{"a":2}]', "array"),
    (b' [\n  {"a":1}]\n', "array"),
    (b'[{"a":1}]\n[{"a":2}]\n', "array"),
    (b"[", "array"),
    (b'\x1e{"a":1}\n\x1e{"a":2}\n', "json-seq"),
    (b"\n\x1e1\n", "json-seq"),
]


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"], ids=["", "bom"])
@pytest.mark.parametrize(("stream", "framing"), STREAMS)
def test_decode_chooses_the_framing_by_the_first_bytes(
    run: Run, stream: bytes, framing: str, bom: bytes
) -> None:
    expected = run("decode", "--framing", framing, stdin=bom + stream)
    for write_size in (1, 2, 5, 1 << 20):
        status, output, errors = run("decode", stdin=bom + stream, write_size=write_size)
        choice, rest = errors.split("\n", 1)
        assert choice.startswith(f"seamstream: standard input: framing {framing} (")
        assert (status, output, rest) == expected


def test_decode_holds_white_space_up_to_the_limit(run: Run) -> None:
    arguments = ["decode", "--max-event-bytes", "6000"]
    for count, framing in ((6000, "ndjson"), (6001, "sse")):
        errors = run(*arguments, stdin=b" " * count + b"{}\n", write_size=999)[2]
        assert f": framing {framing} (" in errors


@pytest.mark.needs_shared
def test_decode_chooses_the_framing_of_every_recorded_stream(run: Run) -> None:
    entries = json.loads((SHARED / "corpus/manifest.json").read_bytes())["entries"]
    expected = {"sse": "sse", "ndjson": "ndjson", "json": "array"}
    chosen = Counter[tuple[str, str]]()
    for entry in entries:
        if entry["format"] in expected:
            _, output, errors = run("decode", str(SHARED / "corpus" / entry["file"]))
            framing = errors.partition(": framing ")[2].partition(" ")[0]
            chosen[entry["format"], framing] += 1
            if framing == expected[entry["format"]]:
                assert len(records(output)) >= entry["events"]
            else:  # an error's body where a stream was expected: one value over many lines
                assert (framing, len(records(output))) == ("concatenated", 1)
    assert chosen == {
        ("sse", "sse"): 396,
        ("sse", "concatenated"): 9,
        ("ndjson", "ndjson"): 44,
        ("json", "array"): 18,
    }


@pytest.mark.parametrize("framing", ["sse", "ndjson", "array", "concatenated", "json-seq"])
def test_decode_says_no_framing_that_it_was_told(run: Run, framing: str) -> None:
    _, _, errors = run("decode", "--framing", framing, stdin=b"[]")
    assert len(errors.splitlines()) == 1
    assert run("decode", "-q", stdin=b"[]")[2] == ""


def test_decode_chooses_a_framing_for_each_file(run: Run, tmp_path: Path) -> None:
    sse, array = tmp_path / "sse", tmp_path / "array"
    sse.write_bytes(b"data: {\n\n")
    array.write_bytes(b'[{"a":1},,{"a":2}]')
    status, output, errors = run("decode", str(sse), str(array))
    assert status == 1
    assert [(r["source"], r["data"]) for r in records(output)] == [
        (str(sse), "{"),
        (str(array), '{"a":1}'),
        (str(array), ","),
        (str(array), '{"a":2}'),
    ]
    assert [line.split(" (")[0] for line in errors.splitlines()[:-1]] == [
        f"seamstream: {sse}: framing sse",
        f"seamstream: {array}: framing array",
    ]
    counted = {name: count for name, count in summary(errors).items() if count}
    assert counted == {"events": 1, "frames": 2, "parse_errors": 1, "separator": 1, "bytes": 27}


@pytest.mark.parametrize(
    ("framing", "stream", "expected", "counted", "status"),
    [
        ("ndjson", b"1.50\n", [{"data": "1.50", "offset": 0}], {"frames": 1, "bytes": 5}, 0),
        (
            "ndjson",
            b'{"a":}\n {"a": 1} \n',
            [
                {"data": '{"a":}', "offset": 0, "kind": "syntax", "parse_error": "syntax"},
                {"data": '{"a": 1}', "offset": 8},
            ],
            {"frames": 1, "syntax": 1, "bytes": 18},
            1,
        ),
        (
            "concatenated",
            b'{}}"a\xe7',
            [
                {"data": "{}", "offset": 0},
                {"data": "}", "offset": 2, "kind": "garbage", "parse_error": "garbage"},
                {"data_base64": "ImHn", "offset": 3, "torn": True, "parse_error": "torn"},
            ],
            {"frames": 1, "garbage": 1, "torn": 1, "bytes": 6},
            1,
        ),
        (
            "array",
            b"[1 2]",
            [
                {"data": "1", "offset": 1},
                {"data": "", "offset": 3, "kind": "separator", "parse_error": "separator"},
                {"data": "2", "offset": 3},
            ],
            {"frames": 2, "separator": 1, "bytes": 5},
            1,
        ),
        (
            "array",
            b"[1,",
            [{"data": "1", "offset": 1}],
            {"frames": 1, "unclosed": 1, "bytes": 3},
            1,
        ),
        (
            "json-seq",
            b"\x1e[1\x1e2\n",
            [
                {"data": "[1", "offset": 1, "kind": "truncated", "parse_error": "truncated"},
                {"data": "2", "offset": 4},
            ],
            {"frames": 1, "truncated": 1, "bytes": 6},
            1,
        ),
    ],
)
def test_decode_prints_and_counts_frames(
    run: Run,
    framing: str,
    stream: bytes,
    expected: list[dict[str, Any]],
    counted: dict[str, int],
    status: int,
) -> None:
    got, output, errors = run("decode", "--framing", framing, stdin=stream)
    assert records(output) == expected
    assert {name: count for name, count in summary(errors).items() if count} == counted
    assert list(summary(errors)) == [
        "frames", "torn", "unclosed", "syntax", "garbage", "separator", "truncated", "oversize",
        "skipped", "bytes",
    ]  # fmt: skip
    assert got == status


def test_decode_as_text_shows_frames_for_reading(run: Run) -> None:
    stream = b'{\n"a":"\xe7\xb8\xab"}}\x1b{"a":"\xe7\xb8'
    status, output, _ = run("decode", "--format", "text", stdin=stream)
    assert status == 1
    assert output.decode("utf-8").splitlines() == [
        "value  offset=0",
        "    {",
        '    "a":"縫"}',
        "ERROR (garbage)  offset=12",
        "    }",
        "ERROR (garbage)  offset=13",
        "    \\x1b",
        "value  offset=14  TORN",
        '    {"a":"\\xe7\\xb8',
    ]


@pytest.mark.parametrize("write_size", [1, 1 << 20])
@pytest.mark.parametrize("stream", [b"[1]\n[DONE]\n[2]\n", b"[1]\n[3]\n[2]\n", b"[3] \n[2]\n"])
def test_decode_stops_at_a_frame_that_says_done(run: Run, stream: bytes, write_size: int) -> None:
    done = "[DONE]" if b"D" in stream else "[3]"
    status, output, errors = run("decode", "--done", done, stdin=stream, write_size=write_size)
    assert status == 0
    assert [record["data"] for record in records(output)] == ["[1]"] * stream.count(b"1")
    assert summary(errors)["unclosed"] == 0


def test_decode_of_an_array_that_is_done_is_not_unclosed(run: Run) -> None:
    status, _, errors = run("decode", "--done", '{"b":2}', stdin=b'[{"a":1},{"b":2},{"c"')
    assert (status, summary(errors)["unclosed"]) == (0, 0)


@pytest.mark.parametrize("write_size", [1, 1 << 20])
@pytest.mark.parametrize("first", [b"1\n", b"[]\n", b'{"a":1}', b"[{},", b"\x1e1\n"])
def test_decode_holds_frames_to_the_limit(run: Run, first: bytes, write_size: int) -> None:
    stream = first + b'{"b":"' + b"x" * 50 + b'"}'
    arguments = ["decode", "--max-event-bytes", "20"]
    status, output, errors = run(*arguments, stdin=stream, write_size=write_size)
    assert (status, len(records(output))) == (2, 1)
    assert "standard input: an event outgrew max_event_bytes=20 at byte" in errors
    status, output, errors = run(*arguments, "--on-limit", "skip", stdin=stream)
    assert status == 1
    assert summary(errors)["skipped"] == 1


@pytest.mark.parametrize("write_size", [1, 1 << 20])
@pytest.mark.parametrize("stream", [b'{"b":"' + b"x" * 50 + b'"}\n2\n', b"1" * 50 + b"\n2\n"])
def test_decode_holds_the_first_value_to_the_limit(
    run: Run, stream: bytes, write_size: int
) -> None:
    arguments = ["decode", "--max-event-bytes", "20"]
    status, output, errors = run(*arguments, stdin=stream, write_size=write_size)
    assert (status, output) == (2, b"")
    assert "an event outgrew max_event_bytes=20 at byte 20" in errors
    arguments += ["--on-limit", "skip"]
    expected = run(*arguments, "--framing", "concatenated", stdin=stream)
    assert run(*arguments, stdin=stream, write_size=write_size)[:2] == expected[:2]
    assert expected[0] == 1


@pytest.mark.parametrize(
    ("writes", "printed"),
    [
        # A value is shown before it is known how the next one will be separated from it.
        ([b'{"a":', b"1}", b" ", b"\n", b"2\n"], [[], ['{"a":1}'], [], [], ["2"]]),
        ([b'{"a":1}', b'{"a":2}', b"{"], [['{"a":1}'], ['{"a":2}'], ["{"]]),
        ([b"17", b"\n", b"18\n"], [[], ["17"], ["18"]]),
        ([b"[", b'{"a":1}', b"\n", b",{}", b"]"], [[], ['{"a":1}'], [], ["{}"], []]),
        ([b"\x1e", b"[1]\n", b"\x1e2\n"], [[], ["[1]"], ["2"]]),
    ],
)
def test_decode_prints_a_frame_while_the_stream_goes_on(
    writes: list[bytes], printed: list[list[str]]
) -> None:
    with start("decode", stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for write, lines in zip(writes[:-1], printed[:-1], strict=True):
            process.stdin.write(write)
            process.stdin.flush()
            for data in lines:
                assert json.loads(process.stdout.readline())["data"] == data
        assert process.poll() is None
        output, errors = process.communicate(writes[-1], timeout=30)
    assert [record["data"] for record in records(output)] == printed[-1]
    assert summary(errors.decode())["bytes"] == len(b"".join(writes))


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_decode_counts_what_it_read_when_interrupted_before_the_framing_is_known() -> None:
    with start("decode", stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"a":1}')
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert (summary(errors.decode())["frames"], summary(errors.decode())["bytes"]) == (1, 7)


# decode: quarantine


def test_decode_quarantines_what_is_not_json_and_goes_on(run: Run, tmp_path: Path) -> None:
    sse, ndjson, file = tmp_path / "sse", tmp_path / "ndjson", tmp_path / "bad.jsonl"
    sse.write_bytes(b'data: {"a":1}\n\ndata: {"a\n\ndata: text\xff\n\ndata: [DONE]\n\ndata: {"')
    ndjson.write_bytes(b'{"a":2}\n{"a\xe7\n{"a":3}\n{"a":')
    status, output, errors = run("decode", "--quarantine", str(file), str(sse), str(ndjson))
    assert status == 1
    assert [record["data"] for record in records(output)] == [
        '{"a":1}',
        "text\N{REPLACEMENT CHARACTER}",
        "[DONE]",
        '{"a":2}',
        '{"a":3}',
    ]
    entries = records(file.read_bytes())
    assert [(e["labels"]["source"], e["kind"], e["offset"]) for e in entries] == [
        (str(sse), "syntax", 15),
        (str(sse), "torn", 53),
        (str(ndjson), "syntax", 8),
        (str(ndjson), "torn", 21),
    ]
    assert [entry.get("raw") for entry in entries] == ['{"a', 'data: {"', None, '{"a":']
    assert entries[2]["raw_base64"] == "eyJh5w=="
    counted = summary(errors)
    assert (counted["quarantined"], counted["sink_errors"]) == (4, 0)
    assert (counted["torn"], counted["parse_errors"], counted["syntax"]) == (2, 1, 1)


def test_decode_quarantines_error_frames(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    arguments = [
        "decode",
        "--max-event-bytes",
        "30",
        "--on-limit",
        "skip",
        "--quarantine",
        str(file),
    ]
    stream = b'[{"a":1},,{"a":"' + b"x" * 50 + b'"},{"a":2}]]'
    status, output, _ = run(*arguments, stdin=stream)
    assert status == 1
    assert [record["data"] for record in records(output)] == ['{"a":1}', '{"a":2}']
    assert [(e["kind"], e["raw"], e["labels"]) for e in records(file.read_bytes())] == [
        ("separator", ",", {"source": "-"}),
        ("oversize", "", {"source": "-"}),
        ("garbage", "]", {"source": "-"}),
    ]


def test_decode_appends_to_the_quarantine_and_makes_none_for_nothing(
    run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "bad.jsonl"
    assert run("decode", "--quarantine", str(file), stdin=b"data: {}\n\n")[0] == 0
    assert not file.exists()
    for _ in range(2):
        status, output, _ = run("decode", "--quarantine", str(file), stdin=b"data: {\n\n")
        assert (status, output) == (1, b"")
    assert len(records(file.read_bytes())) == 2


def test_decode_quarantines_an_event_while_the_stream_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    with start("decode", "--quarantine", str(file), stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"data: {\n\ndata: {}\n\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["data"] == "{}"
        assert [entry["raw"] for entry in records(file.read_bytes())] == ["{"]
        process.communicate(timeout=30)
    assert process.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_decode_prints_what_the_quarantine_does_not_take(run: Run) -> None:
    stream = b"data: {\n\ndata: [\n\ndata: {}\n\n"
    status, output, errors = run("decode", "--quarantine", "/dev/full", stdin=stream)
    assert status == 2
    assert [record["data"] for record in records(output)] == ["{", "[", "{}"]
    assert errors.count("seamstream: /dev/full: ") == 1
    assert summary(errors)["sink_errors"] == 2


def test_decode_refuses_a_quarantine_without_a_directory(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "missing" / "bad.jsonl"
    status, output, errors = run("decode", "--quarantine", str(file), stdin=b"data: {}\n\n")
    assert (status, output) == (2, b"")
    assert errors.startswith("seamstream: ")
    assert "Traceback" not in errors


# serve


@pytest.mark.parametrize("name", SAMPLES)
def test_serve_prints_its_address_and_serves_a_sample(name: str) -> None:
    arguments = ["serve", "--once", "--write-size", "100", "--payload", name]
    with start(*arguments, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        with urllib.request.urlopen(url, timeout=30) as response:
            assert response.headers["Content-Type"] == "text/event-stream"
            assert response.read() == SAMPLES[name]().body
        output, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert output == b""
    assert name.encode() in errors


def test_serve_serves_a_file_as_often_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "stream"
    path.write_bytes(b"data: \xff\x00\n\n")
    arguments = ["serve", "--requests", "2", "--write-size", "0", "--payload", str(path)]
    with start(*arguments, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        for _ in range(2):
            with urllib.request.urlopen(url, timeout=30) as response:
                assert response.read() == path.read_bytes()
        process.communicate(timeout=30)
    assert process.returncode == 0


def test_serve_and_decode_meet_over_a_socket() -> None:
    # As `curl -sN URL | seamstream decode` would.
    arguments = ["serve", "--once", "--write-size", "1", "--payload", "anthropic"]
    with start(*arguments, stderr=subprocess.DEVNULL) as server:
        assert server.stdout is not None
        url = server.stdout.readline().decode().strip()
        with (
            urllib.request.urlopen(url, timeout=30) as response,
            start("decode", stderr=subprocess.PIPE) as decoder,
        ):
            assert decoder.stdin is not None
            while chunk := response.read1(65536):
                decoder.stdin.write(chunk)
                decoder.stdin.flush()
            output, _ = decoder.communicate(timeout=30)
        server.communicate(timeout=30)
    assert decoder.returncode == 0
    values = [json.loads(record["data"]) for record in records(output)]
    texts = [value["delta"]["text"] for value in values if value["type"] == "content_block_delta"]
    assert "".join(texts) == SAMPLES["anthropic"]().text


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_serve_ends_when_interrupted() -> None:
    with start("serve", stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Traceback" not in errors


@pytest.mark.parametrize(
    "wrong",
    [
        ["--payload", "no-such-sample-or-file"],
        ["--write-size", "-1"],
        ["--delay", "-1"],
        ["--delay", "nan"],
        ["--delay", "inf"],
        ["--requests", "0"],
        ["--port", "65536"],
        ["--once", "--requests", "2"],
    ],
)
def test_serve_refuses_what_it_cannot_do(run: Run, wrong: list[str]) -> None:
    status, output, errors = run("serve", *wrong)
    assert (status, output) == (2, b"")
    assert errors
    assert "Traceback" not in errors


# doctor, and the command itself


def test_doctor_names_the_backend_and_the_versions(run: Run) -> None:
    status, output, _ = run("doctor")
    facts = dict(line.split(":", 1) for line in output.decode().splitlines())
    assert facts["backend"].strip() == seamstream.backend
    assert {"seamstream", "build profile", "python", "platform", "orjson"} <= facts.keys()
    assert status == (1 if facts["build profile"].strip() == "debug" else 0)


def test_command_prints_its_version(run: Run) -> None:
    status, output, _ = run("--version")
    assert status == 0
    assert output.startswith(b"seamstream ")
    assert seamstream.backend.encode() in output


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["decode", "--nonsense"]])
def test_command_ends_with_2_on_wrong_usage(run: Run, arguments: list[str]) -> None:
    status, output, errors = run(*arguments)
    assert (status, output) == (2, b"")
    assert errors.startswith("usage: seamstream")


@pytest.mark.parametrize("command", ["decode", "serve", "demo", "doctor"])
def test_command_helps_within_80_columns(
    run: Run, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    status, output, _ = run(command, "--help")
    assert status == 0
    assert all(len(line) <= 80 for line in output.decode().splitlines())
    assert command.encode() in run("--help")[1]


def test_command_does_not_load_what_decoding_does_not_need() -> None:
    code = (
        "import sys; from seamstream.cli import main; main(['decode', '-q']);"
        "print(sorted({'http', 'http.server', 'socket', 'importlib.metadata', 'asyncio'}"
        " & set(sys.modules)))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        env=os.environ,
    )
    assert finished.stdout.strip() == b"[]"
