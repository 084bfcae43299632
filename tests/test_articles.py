"""Inputs of published stream readers that those readers get wrong, coming out right.

One keeps the stream as one string that it searches from its start for each chunk; one splits at
LF LF alone; most decode each chunk by itself. One looks for JSON objects by their brackets, from
its buffer's start for each chunk, but with the depth that the last chunk ended with.
"""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from conftest import Implementation
from fragmentations import at_cuts, byte_by_byte, of_size, two_way_splits
from frame_observations import observe
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


# --- JSON objects one after another


def objects(count: int) -> list[bytes]:
    """Objects as a model API streams them, with brackets, quotes and escapes in their texts."""
    texts = ('{"a": [1}', 'a "}" b', "C:\\", "}{", "文字\n", '\\"', "🚀]", "")
    return [
        json.dumps(
            {
                "id": f"frame-{index}",
                "index": index,
                "content": {"parts": [{"text": texts[index % len(texts)] * (index % 5 + 1)}]},
                "finish_reason": None if index < count - 1 else "stop",
            },
            ensure_ascii=index % 2 == 0,
        ).encode()
        for index in range(count)
    ]


def bracket_reader(chunks: list[bytes]) -> Iterator[Any]:
    """The published loop: right for any object that lies in one chunk alone with the depth at 0."""
    buffer = bytearray()
    depth, in_string, escaped, begin = 0, False, False, -1
    for chunk in chunks:
        buffer += chunk
        index = 0
        while index < len(buffer):
            byte = buffer[index]
            if in_string:
                escaped, in_string = byte == 0x5C and not escaped, byte != 0x22 or escaped
            elif byte == 0x22:
                in_string = True
            elif byte == 0x7B:
                begin = index if depth == 0 else begin
                depth += 1
            elif byte == 0x7D:
                depth -= 1
                if depth == 0 and begin >= 0:
                    yield json.loads(buffer[begin : index + 1])
                    del buffer[: index + 1]
                    index, begin = -1, -1
            index += 1


def read_with_brackets(chunks: list[bytes]) -> list[Any]:
    found: list[Any] = []
    with contextlib.suppress(ValueError):  # nothing reads on after it
        found.extend(bracket_reader(chunks))
    return found


@pytest.mark.parametrize("separator", [b"", b"\n", b" \r\n"])
def test_objects_that_chunks_cut_all_come_out_at_every_chunk_size(
    implementation: Implementation, separator: bytes
) -> None:
    sent = objects(400)
    assert len(read_with_brackets([separator.join(sent)])) == len(sent)
    for size, count in ((16_384, 400), (1460, 400), (64, 20), (7, 10), (1, 10)):
        chunks = of_size(separator.join(sent[:count]), size)
        assert len(read_with_brackets(chunks)) <= count / 2
        decoder = implementation.JSONStreamDecoder()
        frames = observe(decoder, chunks).frames
        assert [frame.raw for frame in frames] == sent[:count]
        assert decoder.stats.errors.garbage == decoder.stats.torn == 0


def test_object_cut_at_every_byte_comes_out_once(implementation: Implementation) -> None:
    sent = objects(3)
    for chunks in two_way_splits(b"".join(sent)):
        decoder = implementation.JSONStreamDecoder()
        handed_out = [frame.raw for chunk in chunks for frame in decoder.feed(chunk)]
        assert handed_out == sent
        assert decoder.close() == ()


def test_broken_object_is_set_aside_and_the_loop_goes_on(implementation: Implementation) -> None:
    """A loop that counts brackets never comes back to depth 0 after an object that was cut."""
    sent = objects(60)
    source = random.Random(5)
    damaged, good, cut_in_text = list(sent), list(sent), []
    for index in (7, 21, 40):
        cut = sent[index].rindex(b'"text"') + 12
        damaged[index] = sent[index][:cut]
        cut_in_text.append(sent[index][:cut])
        good.remove(sent[index])
    stream = b"".join(damaged)
    for _ in range(10):
        chunks = at_cuts(stream, [source.randrange(len(stream)) for _ in range(40)])
        decoder = implementation.JSONStreamDecoder()
        frames = observe(decoder, chunks).frames
        assert [frame.raw for frame in frames if frame.kind is None] == good
        assert [frame.raw for frame in frames if frame.kind] == cut_in_text
        assert decoder.stats.errors.syntax == 3
        assert len(read_with_brackets(chunks)) < 10


def test_one_large_object_in_small_chunks_costs_no_scan_from_its_start(
    implementation: Implementation,
) -> None:
    """A loop that starts again at index 0 for each chunk takes minutes for this one."""
    decoder = implementation.JSONStreamDecoder(limits=Limits(max_event_bytes=1 << 26))
    chunk = '漢字 {[\\"'.encode() * 5
    count = 100_000
    decoder.feed(b'{"text":"')
    begin = time.thread_time()
    for _ in range(count):
        assert decoder.feed(chunk) == ()
    (frame,) = decoder.feed(b'"}')
    assert time.thread_time() - begin < 20
    assert frame.value == {"text": '漢字 {["' * 5 * count}
