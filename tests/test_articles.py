"""Inputs of published stream readers that those readers get wrong, coming out right.

One keeps the stream as one string that it searches from its start for each chunk; one splits at
LF LF alone; most decode each chunk by itself.
"""

from __future__ import annotations

import json
import time

from conftest import Implementation
from fragmentations import byte_by_byte, of_size, two_way_splits
from observations import decode
from seamstream import Limits

TEXTS = (
    "こんにちは、世界の皆さん",
    "文字は途中で切れます。",
    "それでも全部届くはず",
    "三バイトの文字が並び",
)


def gemini_shaped(text: str) -> str:
    part = {"candidates": [{"content": {"parts": [{"text": text}], "role": "model"}, "index": 0}]}
    return json.dumps(part, ensure_ascii=False)


def test_characters_cut_by_the_transport_come_out_whole_at_every_write_size(
    implementation: Implementation,
) -> None:
    """Decoding each chunk alone puts U+FFFD into this stream at nearly every size."""
    stream = "".join(f"data: {gemini_shaped(text)}\n\n" for text in TEXTS).encode()
    for size in (8, 16, 32, 64, 128, 512, *range(1, 8)):
        chunks = of_size(stream, size)
        events = decode(implementation, *chunks)
        assert [event.data for event in events] == [gemini_shaped(text) for text in TEXTS]
        assert [event.replaced for event in events] == [0] * len(TEXTS)
        alone = "".join(chunk.decode("utf-8", "replace") for chunk in chunks)
        assert ("\N{REPLACEMENT CHARACTER}" in alone) == (size < 128)


def test_blank_lines_of_any_two_terminators_end_events(implementation: Implementation) -> None:
    """A reader that splits at LF LF gives one lump for all but the first of these."""
    for blank in ("\n\n", "\r\n\r\n", "\r\r", "\n\r\n", "\r\n\n", "\n\r", "\r\n\r"):
        payloads = [gemini_shaped(text) for text in TEXTS]
        stream = "".join(f"data: {payload}{blank}" for payload in payloads).encode()
        for chunks in ([stream], byte_by_byte(stream), of_size(stream, 19)):
            events = decode(implementation, *chunks)
            assert [event.data for event in events] == payloads, blank
            assert not any(event.torn for event in events)
    for chunks in two_way_splits(b"data: a\r\n\r\ndata: b\r\rdata: c\n\r\n"):
        assert [event.data for event in decode(implementation, *chunks)] == ["a", "b", "c"]


def test_tail_that_was_never_delimited_is_reported_and_not_lost(
    implementation: Implementation,
) -> None:
    """A reader that never flushes its decoder drops the cut character and the last event."""
    stream = f"data: {gemini_shaped('一')}\n\ndata: {gemini_shaped('二')}".encode()[:-32]
    for chunks in two_way_splits(stream):
        complete, torn = decode(implementation, *chunks)
        assert json.loads(complete.data)["candidates"][0]["content"]["parts"] == [{"text": "一"}]
        assert torn.torn
        assert torn.raw == stream[stream.index(b"\n\n") + 2 :]
    cut_character = "data: 漢".encode()[:-1]
    (torn,) = decode(implementation, *byte_by_byte(cut_character))
    assert (torn.data, torn.replaced) == ("data: \ufffd", 1)


def test_events_in_one_chunk_all_come_out_and_the_rest_waits(
    implementation: Implementation,
) -> None:
    decoder = implementation.SSEDecoder()
    assert [event.data for event in decoder.feed(b"data: 1\n\ndata: 2\n\ndata: 3")] == ["1", "2"]
    assert [event.data for event in decoder.feed(b"4\n\n")] == ["34"]


def test_payload_text_stays_as_sent_beside_its_value(implementation: Implementation) -> None:
    decoder = implementation.SSEDecoder()
    number, broken, text = decoder.feed(b'data: 1.50\n\ndata: {"a":\n\ndata: plain\n\n')
    assert (number.data, number.value, number.parse_error) == ("1.50", 1.5, None)
    assert (broken.data, broken.value, broken.parse_error) == ('{"a":', '{"a":', "syntax")
    assert (text.data, text.value, text.parse_error) == ("plain", "plain", None)


def test_large_event_in_small_chunks_costs_no_search_from_its_start(
    implementation: Implementation,
) -> None:
    """A buffer searched from its start for each chunk takes minutes for this one."""
    decoder = implementation.SSEDecoder(limits=Limits(max_event_bytes=1 << 26))
    chunk = "漢字 ".encode() * 5
    count = 120_000
    decoder.feed(b"data: ")
    begin = time.thread_time()
    for _ in range(count):
        decoder.feed(chunk)
    (event,) = decoder.feed(b"\n\n")
    assert time.thread_time() - begin < 10
    assert event.data == "漢字 " * 5 * count
