"""Event streams in the shapes of well-known APIs, with texts of our own.

Every stream is built from ``str`` and encoded once, so what a client has to get back is known as
text: `Payload.text`. The builders take any pieces of text; the samples use those below.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

__all__ = [
    "SAMPLES",
    "Payload",
    "anthropic_messages",
    "emoji",
    "gemini_english",
    "gemini_japanese",
    "gemini_shaped",
    "openai_chat",
]

# The characters of each piece are three bytes long in UTF-8, and there are 11, 10, 9, 9, 10, 12,
# 10 and 14 of them: the table of `seamstream demo` depends on it.
_JAPANESE = (
    "川の水は石に当たって分",
    "かれ、また一つになる",
    "。文字も途中で切れ",
    "ることがあるけれど",
    "、順に待てば元どおり",
    "になる。急がず、最後まで",
    "受け取ってから読むと",
    "、言葉は一つも欠けないのだ。",
)

# The same numbers of bytes: only the alphabet differs, every cut falls where it did.
_ENGLISH = (
    "The water of the river parts at t",
    "he stone and is one again a bi",
    "t further on. Letters may b",
    "e cut in two on their way a",
    "s well: whoever waits for the ",
    "rest, and reads only what is whole, ",
    "finds in the end that not a si",
    "ngle word of all that was sent is missing.",
)

# Four bytes a character, and clusters of them: skin tones, flags, joined families, a keycap.
_EMOJI = (
    "🌊🪨🌊",
    "👩‍🚀 waves 👋🏽",
    " at 🇯🇵🇳🇿",
    " and 👨‍👩‍👧‍👦",
    ", 1️⃣2️⃣3️⃣",
    " 🏳️‍🌈✨🧵🪡",
)

# One, two, three and four bytes a character in one text.
_MIXED = (
    "A seam",
    " is where",
    " two edges",
    " meet: naïve",
    " – façade –",
    " шов,",
    " 縫い目,",
    " 솔기,",
    " 🧵",
    ' "quoted"',
    "\n\tand\\or",
    " done.",
)


@dataclass(frozen=True)
class Payload:
    """An event stream and what a client has to make of it."""

    name: str
    body: bytes
    parts: tuple[str, ...]
    """The pieces of text, one for each event that carries some."""
    events: int
    """How many events the whole stream has."""

    @property
    def text(self) -> str:
        """All the text of the stream."""
        return "".join(self.parts)


def _block(value: Any, *, event: str | None = None, compact: bool = True) -> str:
    separators = (",", ":") if compact else None
    data = value if isinstance(value, str) else _json(value, separators)
    name = "" if event is None else f"event: {event}\n"
    return f"{name}data: {data}\n\n"


def _json(value: Any, separators: tuple[str, str] | None) -> str:
    return json.dumps(value, ensure_ascii=False, separators=separators)


def _payload(name: str, blocks: Sequence[str], parts: Iterable[str]) -> Payload:
    return Payload(name, "".join(blocks).encode("utf-8"), tuple(parts), len(blocks))


def gemini_shaped(
    parts: Sequence[str], *, name: str = "gemini", model: str = "gemini-3.6-flash"
) -> Payload:
    """Build a stream in the shape of Gemini's ``streamGenerateContent?alt=sse``."""
    blocks: list[str] = []
    for index, part in enumerate(parts):
        is_last = index == len(parts) - 1
        candidate: dict[str, Any] = {
            "content": {"parts": [{"text": part}], "role": "model"},
            "index": 0,
        }
        value: dict[str, Any] = {"candidates": [candidate], "modelVersion": model}
        if is_last:
            candidate["finishReason"] = "STOP"
            value["usageMetadata"] = {
                "promptTokenCount": 48,
                "candidatesTokenCount": 96,
                "totalTokenCount": 144,
            }
        blocks.append(_block(value, compact=False))
    return _payload(name, blocks, parts)


def gemini_japanese() -> Payload:
    """Build eight Gemini-shaped events, 1,406 bytes, Japanese text."""
    return gemini_shaped(_JAPANESE, name="gemini-ja")


def gemini_english() -> Payload:
    """Build the same eight events with as many bytes of ASCII text."""
    return gemini_shaped(_ENGLISH, name="gemini-en")


def emoji() -> Payload:
    """Build Gemini-shaped events whose text is mostly four-byte characters."""
    return gemini_shaped(_EMOJI, name="emoji")


def openai_chat(parts: Sequence[str] = _MIXED, *, model: str = "example-1") -> Payload:
    """Build a stream in the shape of OpenAI's chat completions, ``[DONE]`` included."""

    def chunk(choices: list[dict[str, Any]], **rest: Any) -> str:
        return _block(
            {
                "id": "chatcmpl-seamstream-0001",
                "object": "chat.completion.chunk",
                "created": 1_800_000_000,
                "model": model,
                "choices": choices,
                **rest,
            }
        )

    def choice(delta: dict[str, str], finish_reason: str | None = None) -> list[dict[str, Any]]:
        return [{"index": 0, "delta": delta, "finish_reason": finish_reason}]

    usage = {"prompt_tokens": 9, "completion_tokens": len(parts), "total_tokens": 9 + len(parts)}
    blocks = [
        chunk(choice({"role": "assistant", "content": ""})),
        *(chunk(choice({"content": part})) for part in parts),
        chunk(choice({}, "stop")),
        chunk([], usage=usage),
        _block("[DONE]"),
    ]
    return _payload("openai", blocks, parts)


def anthropic_messages(parts: Sequence[str] = _MIXED, *, model: str = "example-1") -> Payload:
    """Build a stream in the shape of Anthropic's messages: named events, a ping among them."""

    def named(kind: str, **rest: Any) -> str:
        return _block({"type": kind, **rest}, event=kind)

    message: dict[str, Any] = {
        "id": "msg_seamstream_0001",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 1},
    }
    blocks = [
        named("message_start", message=message),
        named("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        named("ping"),
        *(
            named("content_block_delta", index=0, delta={"type": "text_delta", "text": part})
            for part in parts
        ),
        named("content_block_stop", index=0),
        named(
            "message_delta",
            delta={"stop_reason": "end_turn", "stop_sequence": None},
            usage={"output_tokens": len(parts)},
        ),
        named("message_stop"),
    ]
    return _payload("anthropic", blocks, parts)


SAMPLES: Mapping[str, Callable[[], Payload]] = MappingProxyType(
    {
        "gemini-ja": gemini_japanese,
        "gemini-en": gemini_english,
        "emoji": emoji,
        "openai": openai_chat,
        "anthropic": anthropic_messages,
    }
)
"""The samples by the names that `seamstream serve --payload` knows."""
