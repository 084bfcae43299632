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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import seamstream
from seamstream.cli import main
from seamstream.testing.payloads import SAMPLES

Run = Callable[..., tuple[int, bytes, str]]


@pytest.fixture
def run(capfdbinary: Any, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command in this process, with these bytes on standard input."""

    def call(*arguments: str, stdin: bytes = b"") -> tuple[int, bytes, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        try:
            status = main(arguments)
        except SystemExit as end:
            status = int(end.code or 0)
        sys.stdout.flush()
        output, errors = capfdbinary.readouterr()
        return status, output, errors.decode()

    return call


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
    assert len(errors.splitlines()) == 1  # the summary


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
    _, error = finished.stderr.decode().splitlines()
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
    assert len(errors.splitlines()) == 1


@pytest.mark.parametrize("size", ["0", "-1", "many"])
def test_decode_refuses_a_limit_that_is_no_size(run: Run, size: str) -> None:
    status, _, errors = run("decode", f"--max-event-bytes={size}")
    assert status == 2
    assert "--max-event-bytes" in errors


def test_decode_documents_its_exit_statuses(run: Run) -> None:
    status, output, _ = run("decode", "--help")
    assert status == 0
    for documented in (b"  0  ", b"  1  ", b"  2  ", b"  130  ", b"  141  "):
        assert documented in output


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
