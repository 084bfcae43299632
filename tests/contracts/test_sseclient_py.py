"""`seamstream.compat.sseclient_py` beside sseclient-py: the same surface, behaviour and events.

A test with the fixture `library` holds for both, so that what it says of ours is what the original
does.
"""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import requests
import sseclient as original
import urllib3

import seamstream
import seamstream.compat.sseclient_py as ours
from conftest import Implementation
from event_streams import (
    CORPUS,
    RANDOM_BODIES,
    VECTORS,
    corpus_body,
    fields,
    for_sseclient,
    reasons_for_sseclient,
    samples,
    some_fragmentations,
)
from seamstream.testing import FragmentingServer


@pytest.fixture(autouse=True)
def decoders(implementation: Implementation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ours use the decoder of the implementation under test."""
    monkeypatch.setattr("seamstream.compat._reading.SSEDecoder", implementation.SSEDecoder)


@pytest.fixture(params=[original, ours], ids=["original", "ours"])
def library(request: pytest.FixtureRequest) -> Any:
    return request.param


def read(library: Any, chunks: Iterable[bytes], *arguments: Any, **options: Any) -> list[Any]:
    return [*library.SSEClient(chunks, *arguments, **options).events()]


def take_into(seen: list[str], client: Any) -> None:
    """Put the data of events into a list as they come; what ends them passes through."""
    # Not list(): that would lose what came before an exception.
    for event in client.events():
        seen.append(event.data)  # noqa: PERF401


# --- The surface


def test_all_names_are_those_of_the_original() -> None:
    assert ours.__all__ == original.__all__ == ["SSEClient"]
    assert ours.Event.__name__ == original.Event.__name__


def parameters(call: Any) -> dict[str, tuple[Any, Any]]:
    return {p.name: (p.kind, p.default) for p in inspect.signature(call).parameters.values()}


@pytest.mark.parametrize("name", ["SSEClient", "Event"])
def test_calls_take_what_those_of_the_original_take(name: str) -> None:
    found, expected = parameters(getattr(ours, name)), parameters(getattr(original, name))
    for added in ("profile", "limits") if name == "SSEClient" else ():
        assert found.pop(added)[0] is inspect.Parameter.KEYWORD_ONLY
    assert found == expected
    assert [*found] == [*expected]


@pytest.mark.parametrize("name", ["SSEClient", "Event"])
def test_members_are_those_of_the_original(name: str) -> None:
    def members(cls: Any) -> set[str]:
        return {member for member in dir(cls) if not member.startswith("_")}

    added = members(getattr(ours, name)) - members(getattr(original, name))
    assert added == ({"stats", "torn"} if name == "SSEClient" else set())


def test_events_are_a_generator(library: Any) -> None:
    assert inspect.isgenerator(library.SSEClient([]).events())


def test_close_closes_the_source(library: Any) -> None:
    class Source:
        closed = 0

        def close(self) -> None:
            self.closed += 1

    source = Source()
    client = library.SSEClient(source)
    client.close()
    client.close()
    assert source.closed == 2


# --- Event


def test_event_has_defaults_and_may_be_changed(library: Any) -> None:
    event = library.Event()
    assert vars(event) == {"id": None, "event": "message", "data": "", "retry": None}
    event.data = "x"
    event.note = "y"
    assert (event.data, event.note) == ("x", "y")


def test_event_takes_its_arguments_in_order(library: Any) -> None:
    event = library.Event("7", "ping", "{}", "3")
    assert fields([event]) == [("ping", "{}", "7", "3")]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({}, "message event, no data"),
        ({"data": "é"}, "message event, 1 bytes"),
        ({"event": "ping", "id": "7", "data": "{}"}, "ping event #7, 2 bytes"),
        ({"id": "", "retry": "3"}, "message event, no data, retry in 3ms"),
    ],
)
def test_event_as_text(library: Any, arguments: dict[str, Any], shown: str) -> None:
    assert str(library.Event(**arguments)) == shown


def test_event_equals_itself_only(library: Any) -> None:
    one, other = (read(library, [b"data: x\n\n"])[0] for _ in range(2))
    assert one != other
    assert len({one, other, one}) == 2


def test_event_survives_pickle_and_copy(library: Any) -> None:
    (event,) = read(library, [b"event: ping\ndata: x\nid: 7\nretry: 3\n\n"])
    pickled = [pickle.dumps(event, p) for p in range(pickle.HIGHEST_PROTOCOL + 1)]
    for each in (*map(pickle.loads, pickled), copy.copy(event), copy.deepcopy(event)):
        assert type(each) is library.Event
        assert vars(each) == {"id": "7", "event": "ping", "data": "x", "retry": "3"}


def test_event_fields_are_text(library: Any) -> None:
    plain, full = read(library, [b"data: x\n\nevent: ping\ndata: x\nid: 7\nretry: 3\n\n"])
    assert vars(plain) == {"id": None, "event": "message", "data": "x", "retry": None}
    assert vars(full) == {"id": "7", "event": "ping", "data": "x", "retry": "3"}


# --- SSEClient


def test_events_come_out_with_the_chunk_that_completes_them(library: Any) -> None:
    pulled = []

    def chunks() -> Iterator[bytes]:
        for chunk in (b"data: 1\n\ndata: 2\n", b"\ndata: 3", b"\n\n"):
            pulled.append(chunk)
            yield chunk

    seen = [(event.data, len(pulled)) for event in library.SSEClient(chunks()).events()]
    assert seen == [("1", 1), ("2", 2), ("3", 3)]


def test_error_of_the_source_comes_after_the_events(library: Any) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"data: 1\n\ndata: 2\n\ndata: 3"
        raise ConnectionResetError

    seen: list[str] = []
    with pytest.raises(ConnectionResetError):
        take_into(seen, library.SSEClient(chunks()))
    assert seen == ["1", "2"]


def test_events_of_a_list_can_be_read_again(library: Any) -> None:
    client = library.SSEClient([b"data: x\n\n"])
    assert [[event.data for event in client.events()] for _ in range(2)] == [["x"], ["x"]]


def test_source_is_not_closed_at_its_end(library: Any) -> None:
    class Source(list[bytes]):
        def close(self) -> None:
            raise AssertionError("closed")

    assert len(read(library, Source([b"data: x\n\n"]))) == 1


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
@pytest.mark.parametrize("chunks", [["data: x\n\n"], [None], [7], 7])
def test_source_of_something_else_is_an_error(library: Any, chunks: Any, encoding: str) -> None:
    with pytest.raises((TypeError, AttributeError)):
        read(library, chunks, encoding)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_source_of_other_buffers_is_read(library: Any, encoding: str) -> None:
    chunks: Any = [bytearray(b"data: 1\n\nda"), bytearray(b"ta: 2\n\n")]
    assert [event.data for event in read(library, chunks, encoding)] == ["1", "2"]


def test_block_without_data_is_no_event_but_an_empty_line_of_data_is(library: Any) -> None:
    body = b"id: 1\nevent: a\n\ndata\n\nevent: b\ndata: \nid: 1\n\n"
    assert [(e.event, e.data) for e in read(library, [body])] == [("message", ""), ("b", "")]


def test_empty_name_is_the_default(library: Any) -> None:
    assert [event.event for event in read(library, [b"event:\ndata: x\n\n"])] == ["message"]


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_cut_event_is_an_event(library: Any, end: str) -> None:
    body = b"data: 1\n\nevent: a\ndata: cut" + end.encode()
    for chunks in some_fragmentations(body):
        assert [(e.event, e.data) for e in read(library, chunks)] == [
            ("message", "1"),
            ("a", "cut"),
        ]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "shift_jis", "gbk", "UTF8", "ascii"])
def test_other_encodings_may_be_asked_for(library: Any, encoding: str) -> None:
    text = {"shift_jis": "縫い目", "gbk": "接缝", "UTF8": "縫", "ascii": "x"}.get(encoding, "é")
    body = f"event: {text}\nid: {text}\ndata: {text}\n\n".encode(encoding)
    for chunks in some_fragmentations(body):
        assert fields(read(library, chunks, encoding)) == [(text, text, text, None)]


def test_other_encoding_that_does_not_fit_is_an_error(library: Any) -> None:
    body = b"data: 1\n\ndata: \x81\n\ndata: 3\n\n"
    for chunks in some_fragmentations(body):
        seen: list[str] = []
        with pytest.raises(UnicodeDecodeError):
            take_into(seen, library.SSEClient(chunks, "cp1252"))
        assert seen == ["1"]


def test_character_that_the_end_cuts_in_another_encoding_is_an_error(library: Any) -> None:
    body = "data: 1\n\ndata: 接".encode("gbk")[:-1]
    for chunks in some_fragmentations(body):
        seen: list[str] = []
        with pytest.raises(UnicodeDecodeError):
            take_into(seen, library.SSEClient(chunks, "gbk"))
        assert seen == ["1"]


@pytest.mark.parametrize("name", ["nothing", "hex", "rot13"])
def test_unknown_encoding_is_an_error(library: Any, name: str) -> None:
    with pytest.raises(LookupError, match=name):
        read(library, [b"data: x\n\n"], name)


def test_encoding_with_wide_characters_is_read_right() -> None:
    body = "data: é\n\ndata: 縫\n\n".encode("utf-16")
    with pytest.raises(UnicodeDecodeError):
        read(original, [body], "utf-16")
    for chunks in some_fragmentations(body):
        assert [event.data for event in read(ours, chunks, "utf-16")] == ["é", "縫"]


# --- The same events


def assert_same_events(body: bytes, chunks: list[bytes]) -> None:
    needed = for_sseclient(body)
    expected = [vars(event) for event in read(original, [needed])]
    assert [vars(event) for event in read(ours, chunks)] == expected, chunks
    if needed == body:
        assert [vars(event) for event in read(original, chunks)] == expected


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vectors_give_the_events_of_the_original(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["input"])
    for chunks in some_fragmentations(body):
        assert_same_events(body, chunks)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vectors_give_the_events_of_the_standard_with_its_profile(vector: dict[str, Any]) -> None:
    expected = [
        {
            **event,
            "id": event["id"] or None,
            "retry": None if event["retry"] is None else str(event["retry"]),
        }
        for event in vector["events"]
    ]
    for chunks in some_fragmentations(bytes.fromhex(vector["input"])):
        client = ours.SSEClient(chunks, profile="whatwg")
        assert [vars(event) for event in client.events()] == expected
        assert (client.torn is not None) == vector["torn"]


def test_random_bodies_give_the_events_of_the_original() -> None:
    for body in RANDOM_BODIES:
        for chunks in some_fragmentations(body):
            assert_same_events(body, chunks)


@pytest.mark.needs_shared
@pytest.mark.parametrize("family", sorted({entry["family"] for entry in CORPUS}) or ["absent"])
def test_recorded_bodies_give_the_events_of_the_original(family: str) -> None:
    for entry in (entry for entry in CORPUS if entry["family"] == family):
        body = corpus_body(entry)
        faults = reasons_for_sseclient(body) - {"id", "line ends of two kinds"}
        assert not faults, "a real body meets another fault: look at it"
        for chunks in some_fragmentations(body):
            assert_same_events(body, chunks)


@pytest.mark.parametrize("write_size", [1, 16, 64, 1460])
def test_fragments_of_a_server_give_the_events_of_the_original(write_size: int) -> None:
    for make in samples(write_size):
        with (
            FragmentingServer(make().body, write_size=write_size) as server,
            urllib3.PoolManager() as pool,
        ):
            seen = []
            for library in (original, ours):
                with requests.get(server.url, stream=True, timeout=30) as response:
                    seen.append([vars(e) for e in library.SSEClient(response).events()])
                raw = pool.request("GET", server.url, preload_content=False)
                client = library.SSEClient(raw)
                seen.append([vars(event) for event in client.events()])
                client.close()
                assert raw.closed
        assert len(seen[0]) > 1
        assert seen == [seen[0]] * 4


# --- What is different, and right

# A body, what the original gives for it (or raises), and what the standard says.
DIFFERENCES: dict[str, tuple[bytes, Any, list[Any]]] = {
    "byte order mark": (
        b"\xef\xbb\xbfdata: 1\n\ndata: 2\n\n",
        [("message", "2", None, None)],
        [("message", "1", None, None), ("message", "2", None, None)],
    ),
    "empty line of another kind": (
        b"data: 1\n\r\ndata: 2\n\n",
        [("message", "1\n2", None, None)],
        [("message", "1", None, None), ("message", "2", None, None)],
    ),
    "ill-formed bytes": (
        b"data: 1\n\ndata: a\xffb\n\ndata: 3\n\n",
        UnicodeDecodeError,
        [("message", text, None, None) for text in ("1", "a\ufffdb", "3")],
    ),
    "id of an earlier event": (
        b"id: 7\ndata: 1\n\ndata: 2\n\n",
        [("message", "1", "7", None), ("message", "2", None, None)],
        [("message", "1", "7", None), ("message", "2", "7", None)],
    ),
    "id with NUL": (
        b"id: a\0b\ndata: x\n\n",
        [("message", "x", "a\0b", None)],
        [("message", "x", None, None)],
    ),
    "retry that is no number": (
        b"retry: soon\ndata: x\n\n",
        [("message", "x", None, "soon")],
        [("message", "x", None, None)],
    ),
    "retry that no client can hold": (
        b"retry: 99999999999999999999\ndata: x\n\n",
        [("message", "x", None, "99999999999999999999")],
        [("message", "x", None, "9007199254740991")],
    ),
    "empty id": (
        b"id:\ndata: x\n\n",
        [("message", "x", "", None)],
        [("message", "x", None, None)],
    ),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_difference_is_as_the_page_says(name: str) -> None:
    body, theirs, right = DIFFERENCES[name]
    for chunks in some_fragmentations(body):
        if isinstance(theirs, list):
            assert fields(read(original, chunks)) == theirs
        else:
            with pytest.raises(theirs):
                read(original, chunks)
        for profile in ("sseclient_py", "whatwg"):
            assert fields(read(ours, chunks, profile=profile)) == right


def test_profile_chooses_what_becomes_of_a_cut_event(caplog: pytest.LogCaptureFixture) -> None:
    body = b'data: {"n": 1}\n\ndata: {"n": 1'
    for chunks in some_fragmentations(body):
        theirs = fields(read(original, chunks))
        assert [event[1] for event in theirs] == ['{"n": 1}', '{"n": 1']
        each: tuple[dict[str, Any], ...] = ({}, {"profile": "sseclient_py"})
        for options in each:
            client = ours.SSEClient(chunks, **options)
            assert fields(client.events()) == theirs
            assert client.torn is None
        assert caplog.records == []
        client = ours.SSEClient(chunks, profile="whatwg")
        assert fields(client.events()) == theirs[:1]
        assert client.torn is not None
        assert (client.torn.raw, client.torn.offset) == (body[16:], 16)
        assert client.stats == seamstream.Stats(bytes=len(body), events=1, torn=1)
        (record,) = caplog.records
        assert (record.name, record.levelname) == ("seamstream.compat", "WARNING")
        caplog.clear()


@pytest.mark.parametrize("profile", ["openai", "anthropic"])
def test_event_of_any_profile_has_a_name(profile: Any) -> None:
    assert [event.event for event in read(ours, [b"data: x\n\n"], profile=profile)] == ["message"]


def test_unknown_profile_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="profile"):
        ours.SSEClient([], profile="nothing")  # type: ignore[arg-type]


def test_event_beyond_the_limit_is_an_error_after_the_events_before_it() -> None:
    limits = seamstream.Limits(max_event_bytes=20)
    body = b"data: 1\n\ndata: 0123456789012345\n\ndata: 3\n\n"
    assert len(read(original, [body])) == 3  # which has no limit
    for chunks in some_fragmentations(body):
        seen: list[str] = []
        with pytest.raises(seamstream.LimitExceededError):
            take_into(seen, ours.SSEClient(chunks, limits=limits))
        assert seen == ["1"]
