"""The loop over `iter_lines()` beside ours: the same where all is well, and where it goes wrong."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
import requests

import seamstream
from fragmentations import fragmentations
from seamstream.testing import FragmentingServer
from seamstream.testing.payloads import anthropic_messages, gemini_japanese, openai_chat
from shared_folder import PROJECT

PAGE = PROJECT / "docs" / "coming-from" / "iter-lines.md"
CONTENT_TYPE = "text/event-stream"


def response_of(body: bytes, content_type: str = CONTENT_TYPE) -> httpx.Response:
    return httpx.Response(200, headers={"Content-Type": content_type}, content=body)


def payloads_of_the_loop(response: Any) -> list[str]:
    found = []
    for line in response.iter_lines():
        text = line.decode() if isinstance(line, bytes) else line  # requests gives bytes
        if text.startswith("data: "):
            found.append(text.removeprefix("data: "))
    return found


def events_of(response: httpx.Response) -> list[seamstream.Event]:
    return [*seamstream.EventStream(response, done=None)]


@pytest.mark.parametrize("make", [openai_chat, anthropic_messages])
def test_well_behaved_streams_give_the_loop_the_same_payloads(make: Any) -> None:
    body = make().body
    assert payloads_of_the_loop(response_of(body)) == [
        event.data for event in events_of(response_of(body))
    ]


@pytest.mark.parametrize("write_size", [1, 16, 64, 1460])
def test_fragments_of_a_server_give_the_loop_the_same_payloads(write_size: int) -> None:
    sent = gemini_japanese() if write_size == 1 else openai_chat()  # the first is short
    with FragmentingServer(sent.body, write_size=write_size) as server:
        with httpx.stream("GET", server.url) as response:
            by_lines = payloads_of_the_loop(response)
        with requests.get(server.url, stream=True, timeout=10) as response:
            assert payloads_of_the_loop(response) == by_lines
        with (
            httpx.stream("GET", server.url) as response,
            seamstream.EventStream(response, done=None) as stream,
        ):
            assert [event.data for event in stream] == by_lines


# What the page's table names: the body, what the loop takes for payloads, and what is right.
DIFFERENCES = {
    **{
        f"U+{ord(mark):04X}": (
            f'data: {{"t": "a{mark}b"}}\n\n',
            ['{"t": "a'],
            [f'{{"t": "a{mark}b"}}'],
        )
        for mark in "\u2028\u2029\u0085\v\f"
    },
    "no space": ("data:1\n\n", [], ["1"]),
    "several lines": ("data: [1,\ndata: 2]\n\n", ["[1,", "2]"], ["[1,\n2]"]),
    "byte order mark": ("\ufeffdata: 1\n\ndata: 2\n\n", ["2"], ["1", "2"]),
}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_loop_goes_wrong_where_the_page_says(name: str) -> None:
    body, by_lines, right = DIFFERENCES[name]
    assert payloads_of_the_loop(response_of(body.encode())) == by_lines
    for chunks in fragmentations(body.encode()):
        stream = seamstream.EventStream(chunks)
        assert [event.data for event in stream] == right
        assert stream.report.torn == stream.report.replaced == 0


def test_loop_decodes_by_the_charset_of_the_head() -> None:
    body = "data: é\n\n".encode()
    content_type = "text/event-stream; charset=iso-8859-1"
    assert payloads_of_the_loop(response_of(body, content_type)) == ["Ã©"]
    assert [event.data for event in events_of(response_of(body, content_type))] == ["é"]


def test_loop_takes_a_cut_payload_for_a_whole_one() -> None:
    body = b"data: 1234\n\ndata: 12"
    assert payloads_of_the_loop(response_of(body)) == ["1234", "12"]
    whole, cut = events_of(response_of(body))
    assert (whole.json(), whole.torn) == (1234, False)
    assert (cut.raw, cut.torn) == (b"data: 12", True)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [("text/html", b"<p>Busy\n"), ("application/json", b'{"error": "busy"}')],
)
def test_loop_takes_another_page_for_a_stream_without_events(
    content_type: str, body: bytes
) -> None:
    assert payloads_of_the_loop(response_of(body, content_type)) == []
    with pytest.raises(seamstream.ContentTypeError, match=content_type):
        events_of(response_of(body, content_type))


def test_loop_does_not_see_what_kind_of_event_it_is() -> None:
    body = b'event: error\ndata: {"message": "busy"}\n\n'
    (payload,) = payloads_of_the_loop(response_of(body))
    (event,) = events_of(response_of(body))
    assert json.loads(payload) == event.json() == {"message": "busy"}
    assert event.event == "error"


def test_page_names_as_many_differences_as_are_tested_here() -> None:
    table = PAGE.read_text("utf-8").split("|---|---|---|---|\n")[1]
    marks = 5  # in one row
    others = 4
    assert len(table.strip().splitlines()) == len(DIFFERENCES) - marks + 1 + others
