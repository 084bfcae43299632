"""The SDKs' clients over real connections: with our decoders they give the objects they gave."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from fragmentations import of_size
from loopback import Answer, Loopback
from sdks import (
    ANTHROPIC,
    CALLS,
    ENTRIES,
    GROQ,
    OPENAI,
    SDK,
    SDKS,
    async_outcome,
    body_of,
    observed,
    one_event_a_chunk,
    outcome,
)
from seamstream.testing import FragmentingServer
from seamstream.testing.payloads import anthropic_messages, openai_chat
from shared_folder import load_shared

SIZES = (1, 16, 64, 1460, None)
MOST_CHUNKS = 1000  # an HTTP client takes its time for each


@pytest.fixture(scope="module")
def loopback() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server


def fragmented(body: bytes, turn: int) -> list[bytes]:
    """Cut in one of five ways, by turns; larger bodies not in the smallest pieces."""
    size = SIZES[turn % len(SIZES)]
    while size is not None and len(body) > size * MOST_CHUNKS:
        turn += 1
        size = SIZES[turn % len(SIZES)]
    return one_event_a_chunk(body) if size is None else of_size(body, size)


class Recorded:
    """The bodies in the dialects of one SDK, and what the SDK makes of them by itself."""

    def __init__(self, sdk: SDK, loopback: Loopback) -> None:
        self.sdk, self.loopback = sdk, loopback
        calls = CALLS[sdk.name]
        self.entries = [entry for entry in ENTRIES if entry["api"] in calls]
        self.calls = [calls[entry["api"]] for entry in self.entries]
        with sdk.new(sdk.stock, "http://unused") as client:
            self.expected = [
                outcome(client.with_options(base_url=loopback.add([body_of(entry)])), call)
                for entry, call in zip(self.entries, self.calls, strict=True)
            ]

    def urls(self, turn: int) -> Iterator[str]:
        for at, entry in enumerate(self.entries):
            yield self.loopback.add(fragmented(body_of(entry), at + turn))


@pytest.fixture(scope="module", params=SDKS, ids=str)
def recorded(request: pytest.FixtureRequest, loopback: Loopback) -> Recorded:
    return Recorded(request.param, loopback)


@pytest.mark.needs_shared
def test_recorded_bodies_are_all_there(recorded: Recorded) -> None:
    counts = {"openai": (279, 9000), "anthropic": (47, 800), "groq": (165, 6000)}
    bodies, objects = counts[recorded.sdk.name]
    assert len(recorded.entries) == bodies
    assert sum(map(len, recorded.expected)) > objects


@pytest.mark.needs_shared
def test_every_recorded_body_gives_the_same_objects(recorded: Recorded) -> None:
    with recorded.sdk.new(recorded.sdk.ours, "http://unused") as client:
        for at, url in enumerate(recorded.urls(0)):
            found = outcome(client.with_options(base_url=url), recorded.calls[at])
            assert found == recorded.expected[at], recorded.entries[at]["file"]


@pytest.mark.needs_shared
def test_every_recorded_body_gives_the_same_objects_asynchronously(recorded: Recorded) -> None:
    async def compare() -> None:
        async with recorded.sdk.new(recorded.sdk.ours, "http://unused", is_async=True) as client:
            for at, url in enumerate(recorded.urls(2)):
                copy = client.with_options(base_url=url)
                found = await async_outcome(copy, recorded.calls[at])
                assert found == recorded.expected[at], recorded.entries[at]["file"]

    asyncio.run(compare())


def test_segments_of_tcp_do_not_matter_either() -> None:
    with FragmentingServer(openai_chat().body, write_size=7) as server:
        chunks = CALLS["openai"]["chat"](OPENAI.new(OPENAI.ours, server.url))
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == openai_chat().text
    with FragmentingServer(anthropic_messages().body, write_size=7) as server:
        events = CALLS["anthropic"]["messages"](ANTHROPIC.new(ANTHROPIC.ours, server.url))
        deltas = [event.delta for event in events if event.type == "content_block_delta"]
    assert "".join(delta.text for delta in deltas) == anthropic_messages().text


# --- what the SDKs get wrong by themselves

CHUNK = (
    'data: {"id":"1","object":"chat.completion.chunk",'
    '"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n'
)
DELTA = (
    'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    '"delta":{"type":"text_delta","text":"%s"}}\n\n'
)
DIALECTS = {OPENAI: ("chat", CHUNK), GROQ: ("chat", CHUNK), ANTHROPIC: ("messages", DELTA)}


def text_of(sdk: Any, items: list[tuple[str, Any]]) -> list[str]:
    if sdk is ANTHROPIC:
        return [item["delta"]["text"] for _, item in items]
    return [item["choices"][0]["delta"]["content"] for _, item in items]


@pytest.mark.parametrize("sdk", SDKS, ids=str)
def test_ill_formed_text_does_not_end_the_stream(sdk: Any, loopback: Loopback) -> None:
    dialect, event = DIALECTS[sdk]
    call = CALLS[sdk.name][dialect]
    body = (event % "縫い").encode() + (event % "X").encode().replace(b"X", b"a\xffb")
    url = loopback.add(of_size(body + (event % "目").encode(), 16))
    assert outcome(sdk.new(sdk.stock, url), call)[-1][0] == "UnicodeDecodeError"
    assert text_of(sdk, outcome(sdk.new(sdk.ours, url), call)) == ["縫い", "a\ufffdb", "目"]


@pytest.mark.parametrize("sdk", SDKS, ids=str)
def test_ill_formed_text_does_not_end_an_asynchronous_stream(sdk: Any, loopback: Loopback) -> None:
    dialect, event = DIALECTS[sdk]
    body = (event % "a").encode().replace(b'"a"', b'"a\xff"') + (event % "b").encode()

    async def read() -> list[tuple[str, Any]]:
        url = loopback.add(of_size(body, 16))
        async with sdk.new(sdk.ours, url, is_async=True) as client:
            return await async_outcome(client, CALLS[sdk.name][dialect])

    assert text_of(sdk, asyncio.run(read())) == ["a\ufffd", "b"]


@pytest.mark.parametrize("sdk", SDKS, ids=str)
def test_byte_order_mark_does_not_cost_the_first_event(sdk: Any, loopback: Loopback) -> None:
    dialect, event = DIALECTS[sdk]
    call = CALLS[sdk.name][dialect]
    url = loopback.add(of_size(b"\xef\xbb\xbf" + (event % "a" + event % "b").encode(), 1))
    stock = outcome(sdk.new(sdk.stock, url), call)
    assert text_of(sdk, stock) == ["b"]
    assert text_of(sdk, outcome(sdk.new(sdk.ours, url), call)) == ["a", "b"]


@pytest.mark.parametrize("sdk", [OPENAI, GROQ], ids=str)
def test_heartbeats_after_an_id_do_not_end_the_stream(sdk: Any, loopback: Loopback) -> None:
    body = f"id: 1\n{CHUNK % 'a'}: ping\n\n{CHUNK % 'b'}data: [DONE]\n\n"
    url = loopback.add([body.encode()])
    assert outcome(sdk.new(sdk.stock, url), CALLS[sdk.name]["chat"])[-1][0] == "JSONDecodeError"
    found = outcome(sdk.new(sdk.ours, url), CALLS[sdk.name]["chat"])
    assert text_of(sdk, found) == ["a", "b"]


# --- errors inside a stream, and its end

ERROR = 'data: {"error":{"message":"queue full","code":503}}\n\ndata: [DONE]\n\n'
NAMED = (
    'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n'
)


@pytest.mark.parametrize(
    ("sdk", "body", "message"),
    [(OPENAI, ERROR, "queue full"), (GROQ, ERROR, "queue full"), (ANTHROPIC, NAMED, "busy")],
    ids=str,
)
def test_error_within_the_stream_is_raised_after_the_text(
    sdk: Any, body: str, message: str, loopback: Loopback
) -> None:
    dialect, event = DIALECTS[sdk]
    url = loopback.add(of_size((event % "a" + body).encode(), 5))
    stock = outcome(sdk.new(sdk.stock, url), CALLS[sdk.name][dialect])
    found = outcome(sdk.new(sdk.ours, url), CALLS[sdk.name][dialect])
    assert found == stock
    assert text_of(sdk, found[:-1]) == ["a"]
    assert found[-1][0] == ("APIStatusError" if sdk is ANTHROPIC else "APIError")
    assert message in found[-1][1][0]


def test_stream_ends_at_its_marker_while_the_server_keeps_it_open(loopback: Loopback) -> None:
    held = threading.Event()
    chunks = [(CHUNK % "a").encode(), b"data: [DONE]\n\n", b": ping\n\n"]
    url = loopback.add(Answer(chunks, rest_after=held))
    with OPENAI.new(OPENAI.ours, url) as client:
        found = outcome(client, CALLS["openai"]["chat"])
        assert text_of(OPENAI, found) == ["a"]
        assert not held.is_set()
    held.set()


CASES = {case["id"]: case for case in load_shared("bugs/open.json", "cases")}


def chunks_of(case: str) -> list[bytes]:
    return list(map(bytes.fromhex, CASES[case]["chunks"]))


@pytest.mark.needs_shared
@pytest.mark.parametrize(
    ("sdk", "case", "message", "body"),
    [
        (OPENAI, "B29.1", "queue full", {"message": "queue full", "code": 503}),
        (GROQ, "B29.1", "queue full", {"message": "queue full", "code": 503}),
        (
            ANTHROPIC,
            "B30.1",
            "busy",
            {"type": "error", "error": {"type": "overloaded", "message": "busy"}},
        ),
    ],
    ids=str,
)
def test_reported_error_within_a_stream_is_raised_with_its_message(
    sdk: Any, case: str, message: str, body: object, loopback: Loopback
) -> None:
    sent = b"".join(chunks_of(case))
    for chunks in (chunks_of(case), of_size(sent, 1), of_size(sent, 7)):
        client = sdk.new(sdk.ours, loopback.add(chunks))
        *_, (kind, (text, found)) = outcome(client, CALLS[sdk.name][DIALECTS[sdk][0]])
        assert kind in ("APIError", "APIStatusError")
        assert message in text
        assert found == body


@pytest.mark.needs_shared
@pytest.mark.parametrize("sdk", [OPENAI, GROQ], ids=str)
def test_reported_stream_ends_at_its_marker_though_the_connection_stays(
    sdk: Any, loopback: Loopback
) -> None:
    held = threading.Event()
    url = loopback.add(Answer(chunks_of("B34.1"), rest_after=held))
    with sdk.new(sdk.ours, url) as client:
        items = iter(CALLS[sdk.name]["chat"](client))
        assert next(items).t == "a"
        if sdk is GROQ:
            held.set()  # this SDK reads to the end of the connection, after the marker too
        assert list(items) == []
        assert held.is_set() == (sdk is GROQ)


@pytest.mark.parametrize("sdk", SDKS, ids=str)
def test_connections_come_back_however_a_stream_ends(sdk: Any, loopback: Loopback) -> None:
    import httpx
    import httpx2

    library = httpx if sdk is GROQ else httpx2
    dialect, event = DIALECTS[sdk]
    call = CALLS[sdk.name][dialect]
    body = (event % "a" + event % "b").encode() + b"data: [DONE]\n\n"
    http = library.Client(limits=library.Limits(max_connections=2), timeout=5)
    with http, sdk.new(sdk.ours, loopback.add(of_size(body, 9)), http_client=http) as client:
        for _ in range(3):
            assert len(outcome(client, call)) == 2  # to the end
            with call(client) as stream:
                assert next(iter(stream))  # one, and out
            stream = call(client)
            next(iter(stream))
            stream.close()
            stream.close()
        assert len(outcome(client, call)) == 2


def test_helpers_of_the_sdks_work_on_ours(loopback: Loopback) -> None:
    """What accumulates a stream reads it through the same decoder."""
    url = loopback.add(of_size(openai_chat().body, 16))
    chat = OPENAI.new(OPENAI.ours, url).chat.completions
    with chat.stream(model="m", messages=[]) as stream:
        assert stream.get_final_completion().choices[0].message.content == openai_chat().text
    url = loopback.add(of_size(anthropic_messages().body, 16))
    messages = ANTHROPIC.new(ANTHROPIC.ours, url).messages
    with messages.stream(model="m", max_tokens=9, messages=[]) as stream:
        assert "".join(stream.text_stream) == anthropic_messages().text


def test_azure_clients_too(loopback: Loopback) -> None:
    ours, chat = OPENAI.ours, CALLS["openai"]["chat"]
    url = loopback.add([b"\xef\xbb\xbf" + (CHUNK % "a").encode()])
    options = {"api_key": "none", "api_version": "2024-02-01", "azure_endpoint": url}
    with ours.AzureOpenAI(**options) as client:
        assert text_of(OPENAI, outcome(client, chat)) == ["a"]

    async def use() -> None:
        async with ours.AsyncAzureOpenAI(**options) as client:
            assert text_of(OPENAI, await async_outcome(client, chat)) == ["a"]

    asyncio.run(use())


def test_raw_response_of_the_sdk_still_parses(loopback: Loopback) -> None:
    with OPENAI.new(OPENAI.ours, loopback.add([(CHUNK % "a").encode()])) as client:
        raw = client.chat.completions.with_raw_response.create(model="m", messages=[], stream=True)
        assert text_of(OPENAI, [observed(item) for item in raw.parse()]) == ["a"]
