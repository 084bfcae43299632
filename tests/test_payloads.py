"""The sample payloads have the shapes, lengths and texts that others count on."""

from __future__ import annotations

import json
from typing import Any

import pytest

import seamstream
from seamstream.testing import payloads
from seamstream.testing.payloads import SAMPLES, Payload


def values_of(payload: Payload) -> list[Any]:
    """Split by hand: these payloads are well-formed, whole, and use LF only."""
    blocks = payload.body.decode("utf-8").split("\n\n")
    assert blocks.pop() == ""
    data = [line for block in blocks for line in block.split("\n") if line.startswith("data: ")]
    texts = [line.removeprefix("data: ") for line in data]
    return [text if text == "[DONE]" else json.loads(text) for text in texts]


def test_gemini_japanese_has_the_lengths_of_the_published_measurement() -> None:
    payload = payloads.gemini_japanese()
    assert len(payload.body) == 1406
    assert payload.events == 8
    assert [len(part) for part in payload.parts] == [11, 10, 9, 9, 10, 12, 10, 14]
    assert all(len(character.encode("utf-8")) == 3 for character in payload.text)


def test_gemini_japanese_has_exactly_the_bytes_of_its_shape() -> None:
    payload = payloads.gemini_japanese()
    first, *_, last = payload.body.decode("utf-8").split("\n\n")[:-1]
    assert first == (
        'data: {"candidates": [{"content": {"parts": [{"text": "川の水は石に当たって分"}], '
        '"role": "model"}, "index": 0}], "modelVersion": "gemini-3.6-flash"}'
    )
    assert last == (
        'data: {"candidates": [{"content": {"parts": [{"text": "、言葉は一つも欠けないのだ。"}], '
        '"role": "model"}, "index": 0, "finishReason": "STOP"}], '
        '"modelVersion": "gemini-3.6-flash", "usageMetadata": {"promptTokenCount": 48, '
        '"candidatesTokenCount": 96, "totalTokenCount": 144}}'
    )


def test_gemini_english_differs_in_the_alphabet_only() -> None:
    japanese, english = payloads.gemini_japanese(), payloads.gemini_english()
    assert english.body.isascii()
    assert len(english.body) == len(japanese.body)
    assert [len(part) for part in english.parts] == [len(p.encode()) for p in japanese.parts]


@pytest.mark.parametrize("name", ["gemini-ja", "gemini-en", "emoji"])
def test_gemini_shaped_payloads_carry_their_parts(name: str) -> None:
    payload = SAMPLES[name]()
    candidates = [value["candidates"][0] for value in values_of(payload)]
    assert tuple(c["content"]["parts"][0]["text"] for c in candidates) == payload.parts
    assert [c.get("finishReason") for c in candidates] == [None] * (payload.events - 1) + ["STOP"]


def test_emoji_has_four_byte_characters_and_joined_ones() -> None:
    text = payloads.emoji().text
    assert sum(len(character.encode("utf-8")) == 4 for character in text) > len(text) / 3
    assert "\N{ZERO WIDTH JOINER}" in text


def test_openai_chat_ends_with_a_finish_reason_then_usage_then_the_sentinel() -> None:
    payload = payloads.openai_chat()
    *values, sentinel = values_of(payload)
    assert sentinel == "[DONE]"
    assert {value["object"] for value in values} == {"chat.completion.chunk"}
    choices = [value["choices"][0] for value in values if value["choices"]]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert choices[-1]["finish_reason"] == "stop"
    assert values[-1]["usage"]["completion_tokens"] == len(payload.parts)
    assert "".join(c["delta"].get("content", "") for c in choices) == payload.text


def test_anthropic_messages_name_each_event_as_its_type() -> None:
    payload = payloads.anthropic_messages()
    values = values_of(payload)
    blocks = payload.body.decode("utf-8").split("\n\n")[:-1]
    assert [block.split("\n")[0] for block in blocks] == [f"event: {v['type']}" for v in values]
    assert [value["type"] for value in values if value["type"] != "content_block_delta"] == [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    deltas = [value["delta"] for value in values if value["type"] == "content_block_delta"]
    assert tuple(delta["text"] for delta in deltas) == payload.parts


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_state_their_name_and_number_of_events(name: str) -> None:
    payload = SAMPLES[name]()
    assert payload.name == name
    assert len(values_of(payload)) == payload.events
    assert payload.body.endswith(b"\n\n")
    assert SAMPLES[name]() == payload


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_come_out_whole_byte_by_byte(name: str, implementation: Any) -> None:
    payload = SAMPLES[name]()
    decoder = implementation.SSEDecoder()
    events = [
        event for i in range(len(payload.body)) for event in decoder.feed(payload.body[i : i + 1])
    ]
    assert decoder.close() == ()
    assert [e.data if e.is_done else e.json() for e in events] == values_of(payload)
    assert decoder.stats.events == payload.events
    assert decoder.stats.replaced == 0


def test_builders_take_any_text() -> None:
    parts = ["", "\n\n", '"', "\\", "\N{NULL}", "縫い目", "\N{LINE SEPARATOR}"]
    for payload in (
        payloads.gemini_shaped(parts),
        payloads.openai_chat(parts),
        payloads.anthropic_messages(parts),
    ):
        events = seamstream.SSEDecoder().feed(payload.body)
        assert len(events) == payload.events
        assert not any(event.parse_error for event in events)
