"""The decoders for SDKs beside the SDKs' own: on recorded bodies, and where those are wrong."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Implementation
from fragmentations import of_size, random_cuts, two_way_splits
from sdks import ANTHROPIC, ENTRIES, SDKS, body_of, fields_of, one_event_a_chunk
from seamstream import LimitExceededError, Limits

sdks = pytest.mark.parametrize("sdk", SDKS, ids=str)


def decoder_of(sdk: Any, implementation: Implementation, **options: Any) -> Any:
    """Our decoder for an SDK, on one backend."""

    class OnOneBackend(sdk.ours.SSEDecoder):
        _new_core = implementation.SSEDecoder

    return OnOneBackend(**options)


def decode(decoder: Any, chunks: list[bytes]) -> list[Any]:
    return list(decoder.iter_bytes(iter(chunks)))


async def source_of(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def adecode(decoder: Any, chunks: list[bytes]) -> list[Any]:
    return [event async for event in decoder.aiter_bytes(source_of(chunks))]


def json_of(event: Any) -> Any:
    try:
        return event.json()
    except json.JSONDecodeError as error:
        return type(error), str(error)


def stock_events(sdk: Any, body: bytes) -> list[Any]:
    """What the SDK's own decoder gives, without what is no event and no SDK can make use of.

    Once an id was sent, it makes an event of every empty line. The SDKs that take each event for
    JSON raise there; Anthropic's passes over them.
    """
    events = decode(sdk.stock_decoder(), [body])
    if sdk is ANTHROPIC:
        return events
    blocks = [event.raw for event in decode(ANTHROPIC.stock_decoder(), [body])]
    return [
        event
        for event, lines in zip(events, blocks, strict=True)
        if any(line.partition(":")[0] == "data" for line in lines)
    ]


@pytest.mark.needs_shared
@sdks
def test_recorded_bodies_give_the_events_of_the_sdks_own_decoder(
    sdk: Any, implementation: Implementation
) -> None:
    for entry in ENTRIES:
        body = body_of(entry)
        if implementation.name == "reference" and len(body) > 2_000:
            continue  # which is held to the other in other tests, and slow
        stock = stock_events(sdk, body)
        expected = fields_of(stock)
        chunkings = [of_size(body, size) for size in (1, 16, 64, 1460)]
        for chunks in [*chunkings, one_event_a_chunk(body), [body]]:
            events = decode(decoder_of(sdk, implementation), chunks)
            assert fields_of(events) == expected, entry["file"]
        assert list(map(json_of, events)) == list(map(json_of, stock))
        assert list(map(repr, events)) == list(map(repr, stock))


@pytest.mark.needs_shared
@sdks
def test_recorded_bodies_give_the_same_events_asynchronously(
    sdk: Any, implementation: Implementation
) -> None:
    async def compare() -> None:
        for entry in ENTRIES:
            body = body_of(entry)
            chunks = one_event_a_chunk(body)
            events = await adecode(decoder_of(sdk, implementation), chunks)
            assert fields_of(events) == fields_of(stock_events(sdk, body)), entry["file"]
            stock = await adecode(sdk.stock_decoder(), chunks)
            assert fields_of(stock) == fields_of(decode(sdk.stock_decoder(), [body]))

    asyncio.run(compare())


@pytest.mark.needs_shared
def test_recorded_bodies_give_the_lines_of_their_events(implementation: Implementation) -> None:
    for entry in ENTRIES:
        body = body_of(entry)
        if implementation.name == "reference" and len(body) > 2_000:
            continue
        stock = decode(ANTHROPIC.stock_decoder(), [body])
        events = decode(decoder_of(ANTHROPIC, implementation), of_size(body, 64))
        assert [event.raw for event in events] == [event.raw for event in stock], entry["file"]


LINES = st.sampled_from(
    [
        *("data: {}", "data:[1]", "data: 縫い目", "data", "data: a\u2028b\x85c", "event: ping"),
        *("event: thread.run", "event", "id: 7", "id: 8", "retry: 250", ": ping", "unknown: x", ""),
    ]
)


@sdks
@settings(max_examples=50)  # six times
@given(data=st.data(), lines=st.lists(LINES, max_size=12), end=st.sampled_from(["\n", "\r\n"]))
def test_streams_that_are_right_give_the_events_of_the_sdks_own_decoder(
    sdk: Any, implementation: Implementation, data: st.DataObject, lines: list[str], end: str
) -> None:
    body = "".join(line + end for line in lines).encode()
    chunks = random_cuts(body, data.draw(st.integers(0, 1000)), mean=5)
    events = decode(decoder_of(sdk, implementation), chunks)
    assert fields_of(events) == fields_of(stock_events(sdk, body))


# --- where the SDKs' own decoders raise or lose something


@sdks
@pytest.mark.parametrize("sent", [b"\xff", b"\xe7\xb8", b"\xed\xa0\x80", b"\xc3"])
def test_ill_formed_text_is_replaced_where_the_sdk_raises(
    sdk: Any, implementation: Implementation, sent: bytes
) -> None:
    body = b'event: x\ndata: {"text": "a' + sent + b'b"}\n\nevent: x\ndata: {"text": "c"}\n\n'
    with pytest.raises(UnicodeDecodeError):
        decode(sdk.stock_decoder(), [body])
    for chunks in two_way_splits(body):
        events = decode(decoder_of(sdk, implementation), chunks)
        assert [event.json() for event in events] == [
            {"text": "a" + sent.decode("utf-8", "replace") + "b"},
            {"text": "c"},
        ]


@sdks
def test_stream_that_ends_inside_a_character_raises_nothing(
    sdk: Any, implementation: Implementation, caplog: pytest.LogCaptureFixture
) -> None:
    body = 'data: {"text": "a"}\n\ndata: {"text": "縫'.encode()[:-1]
    with pytest.raises(UnicodeDecodeError):
        decode(sdk.stock_decoder(), [body])
    decoder = decoder_of(sdk, implementation)
    with caplog.at_level(logging.WARNING, logger="seamstream"):
        events = decode(decoder, of_size(body, 3))
    assert [event.data for event in events] == ['{"text": "a"}']
    assert decoder.stats.torn == 1
    assert "ended inside an event: the 18 bytes from byte 21 on" in caplog.text
    assert "text" not in caplog.text


@sdks
def test_byte_order_mark_costs_no_event(sdk: Any, implementation: Implementation) -> None:
    body = b"\xef\xbb\xbfdata: 1\n\ndata: 2\n\n"
    assert [event.data for event in decode(sdk.stock_decoder(), [body])] == ["2"]
    for chunks in two_way_splits(body):
        events = decode(decoder_of(sdk, implementation), chunks)
        assert [event.data for event in events] == ["1", "2"]


@pytest.mark.parametrize("sdk", [sdk for sdk in SDKS if sdk is not ANTHROPIC], ids=str)
@pytest.mark.parametrize("block", ["", ": ping\n", "event: ping\n", "retry: 5\n", "data_: 1\n"])
def test_block_without_data_is_no_event_for_an_sdk_that_takes_every_event_for_json(
    sdk: Any, implementation: Implementation, block: str
) -> None:
    body = f"id: 1\ndata: 1\n\n{block}\ndata: 2\n\n".encode()
    assert [event.data for event in decode(sdk.stock_decoder(), [body])] == ["1", "", "2"]
    events = decode(decoder_of(sdk, implementation), [body])
    assert [(event.data, event.id) for event in events] == [("1", "1"), ("2", "1")]


@pytest.mark.parametrize("sdk", SDKS, ids=str)
def test_error_event_without_data_is_one(sdk: Any, implementation: Implementation) -> None:
    events = decode(decoder_of(sdk, implementation), [b"event: error\n\n"])
    assert fields_of(events) == [("error", "", None, None)]


@sdks
@pytest.mark.parametrize(
    ("field", "stock", "ours"),
    [
        ("id:", (None, "1", "", None), (None, "1", None, None)),
        ("retry: 9007199254740993", (None, "1", None, 2**53 + 1), (None, "1", None, 2**53 - 1)),
    ],
)
def test_empty_id_is_none_and_no_retry_is_more_than_any_client_can_hold(
    sdk: Any, implementation: Implementation, field: str, stock: Any, ours: Any
) -> None:
    body = f"{field}\ndata: 1\n\n".encode()
    assert fields_of(decode(sdk.stock_decoder(), [body])) == [stock]
    for chunks in two_way_splits(body):
        assert fields_of(decode(decoder_of(sdk, implementation), chunks)) == [ours]


@sdks
@pytest.mark.parametrize("sent", ["+5", "1_0", " 5", "٥"])
def test_retry_that_is_not_all_ascii_digits_is_ignored(
    sdk: Any, implementation: Implementation, sent: str
) -> None:
    body = f"retry: {sent}\ndata: 1\n\n".encode()
    assert fields_of(decode(sdk.stock_decoder(), [body])) == [(None, "1", None, int(sent))]
    events = decode(decoder_of(sdk, implementation), [body])
    assert fields_of(events) == [(None, "1", None, None)]


# --- JSON


@sdks
@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        "[-Infinity, 1e400]",
        '{"n": 18446744073709551616}',
        '{"n": -9223372036854775809, "m": 1}',
        "123456789012345678901234567890",
        "[0.1234567890123456789]",
        '"12345678901234567890"',
        '"\\ud800"',
        '{"a": 1, "a": 2}',
        " [1, 2] ",
        "-0",
        "-0.0",
        "1E5",
    ],
)
def test_json_is_what_the_standard_library_gives(
    sdk: Any, implementation: Implementation, text: str
) -> None:
    (event,) = decode(decoder_of(sdk, implementation), [f"data: {text}\n\n".encode()])
    assert repr(event.json()) == repr(json.loads(event.data))
    (stock,) = decode(sdk.stock_decoder(), [f"data: {text}\n\n".encode()])
    assert repr(stock.json()) == repr(event.json())


@sdks
@pytest.mark.parametrize("text", ["{", "", "[1,]", "nothing", '{"a": 1}}', "9" * 5000])
def test_text_that_is_no_json_raises_what_the_standard_library_raises(
    sdk: Any, implementation: Implementation, text: str
) -> None:
    (event,) = decode(decoder_of(sdk, implementation), [f"event: error\ndata: {text}\n\n".encode()])
    with pytest.raises(ValueError) as expected:
        json.loads(text)
    with pytest.raises(type(expected.value)) as caught:
        event.json()
    assert str(caught.value) == str(expected.value)


NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.integers(2**63 - 2, 2**64 + 2),
    st.floats(allow_nan=False),
    st.sampled_from([10**18, 10**19 - 1, -(10**18), math.inf, -math.inf]),
)
VALUES = st.recursive(
    NUMBERS | st.text() | st.none() | st.booleans(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(value=VALUES, is_ascii=st.booleans())
def test_any_json_is_what_the_standard_library_gives(value: Any, is_ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    (event,) = decode(SDKS[0].ours.SSEDecoder(), [b"data: " + text + b"\n\n"])
    found, expected = event.json(), json.loads(event.data)
    assert found == expected
    assert repr(found) == repr(expected)  # of the same types, too


# --- the rest of the contract


@sdks
def test_events_are_of_the_sdks_class(sdk: Any, implementation: Implementation) -> None:
    (event,) = decode(decoder_of(sdk, implementation), [b"data: 1\n\n"])
    (stock,) = decode(sdk.stock_decoder(), [b"data: 1\n\n"])
    assert isinstance(event, type(stock))
    assert type(event.data) is str
    assert event.event is event.id is event.retry is None


@sdks
def test_event_comes_with_the_chunk_that_completes_it(
    sdk: Any, implementation: Implementation
) -> None:
    taken = 0

    def chunks() -> Any:
        nonlocal taken
        for chunk in (b"data: 1\n", b"\ndata: 2", b"\n\n"):
            taken += 1
            yield chunk

    counts = [taken for _ in decoder_of(sdk, implementation).iter_bytes(chunks())]
    assert counts == [2, 3]


@sdks
def test_error_of_the_source_passes_through(sdk: Any, implementation: Implementation) -> None:
    def chunks() -> Any:
        yield b"data: 1\n\ndata: 2"
        raise ConnectionResetError

    events = decoder_of(sdk, implementation).iter_bytes(chunks())
    assert next(events).data == "1"
    with pytest.raises(ConnectionResetError):
        next(events)


@sdks
def test_large_events_pass_and_the_limit_can_be_set(
    sdk: Any, implementation: Implementation
) -> None:
    chunk = bytes(1 << 20)
    large = [b"data: ", *[chunk] * 20, b"\n\n"]
    (event,) = decode(decoder_of(sdk, implementation), large)
    assert len(event.data) == 20 << 20
    decoder = decoder_of(sdk, implementation, limits=Limits(max_event_bytes=1 << 20))
    with pytest.raises(LimitExceededError):
        decode(decoder, large)


@sdks
def test_decoder_can_read_one_stream_after_another(
    sdk: Any, implementation: Implementation
) -> None:
    decoder = decoder_of(sdk, implementation)
    decode(decoder, [b"id: 1\ndata: 1\n\ndata: torn"])
    assert fields_of(decode(decoder, [b"data: 2\n\n"])) == [(None, "2", None, None)]
    assert decoder.stats.events == 1
