"""Event streams to measure with, the same on every run, and ways to cut them."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Literal

Cut = int | Literal["whole", "event"]


@dataclass(frozen=True)
class Workload:
    """One event stream and what must come out of it."""

    name: str
    payloads: tuple[bytes, ...]
    event: str = "message"
    eol: bytes = b"\n"

    def blocks(self) -> list[bytes]:
        prefix = b"" if self.event == "message" else b"event: " + self.event.encode() + self.eol
        return [prefix + b"data: " + payload + self.eol * 2 for payload in self.payloads]

    def chunks(self, cut: Cut, per_chunk: int = 1) -> list[bytes]:
        """Cut the stream: whole, so many events a chunk, or so many bytes a chunk."""
        blocks = self.blocks()
        if cut == "event":
            groups = range(0, len(blocks), per_chunk)
            return [b"".join(blocks[at : at + per_chunk]) for at in groups]
        body = b"".join(blocks)
        return (
            [body] if cut == "whole" else [body[at : at + cut] for at in range(0, len(body), cut)]
        )


WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "then", "more"]
JAPANESE = (
    "古い時計の針がゆっくりと進み、窓の外では雨が静かに降りつづけている。"
    "駅前の小さな本屋には、今日も遅くまで明かりが灯っていた。"
)


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def openai(events: int = 2000) -> Workload:
    """Chat completion chunks, about 290 bytes an event, ASCII."""
    draw = random.Random(7)
    payloads = (
        _compact(
            {
                "id": "chatcmpl-9xYz01234567",
                "object": "chat.completion.chunk",
                "created": 1_760_000_000 + number // 50,
                "model": "gpt-4o-2024-08-06",
                "service_tier": "default",
                "system_fingerprint": f"fp_{draw.getrandbits(40):010x}",
                "choices": [
                    {
                        "index": 0,
                        "delta": {"content": " " + draw.choice(WORDS)},
                        "logprobs": None,
                        "finish_reason": None,
                    }
                ],
            }
        )
        for number in range(events)
    )
    return Workload("openai", tuple(payloads))


def japanese(events: int = 2000) -> Workload:
    """Gemini-shaped chunks with CRLF, about 350 bytes an event, a third of it Japanese text."""
    draw = random.Random(8)

    def text() -> str:
        start, length = draw.randrange(len(JAPANESE)), draw.randrange(10, 60)
        return (JAPANESE * 3)[start : start + length]

    payloads = (
        _compact(
            {
                "candidates": [{"content": {"parts": [{"text": text()}], "role": "model"}}],
                "usageMetadata": {"promptTokenCount": 12, "totalTokenCount": 12 + number},
                "modelVersion": "gemini-3.6-flash",
            }
        )
        for number in range(events)
    )
    return Workload("japanese", tuple(payloads), eol=b"\r\n")


def anthropic(events: int = 2000) -> Workload:
    """Named events, about 150 bytes each."""
    draw = random.Random(9)
    payloads = (
        _compact(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": f" {draw.choice(WORDS)}"},
            }
        )
        for _ in range(events)
    )
    return Workload("anthropic", tuple(payloads), event="content_block_delta")


def big(size: int) -> Workload:
    """One event of so many payload bytes."""
    return Workload(f"big-{size}", (b"QUJDREVG" * (size // 8),))


FRAMINGS = ("concatenated", "ndjson", "array", "json-seq")


def objects(number: int = 1000) -> tuple[bytes, ...]:
    """Gemini-shaped objects of about 345 bytes."""
    draw = random.Random(10)
    return tuple(
        _compact(
            {
                "candidates": [
                    {
                        "content": {
                            "parts": [{"text": " ".join(draw.choices(WORDS, k=32))}],
                            "role": "model",
                        },
                        "index": 0,
                    }
                ],
                "usageMetadata": {
                    "promptTokenCount": 12,
                    "candidatesTokenCount": at,
                    "totalTokenCount": 12 + at,
                },
                "modelVersion": "gemini-3.6-flash",
            }
        )
        for at in range(number)
    )


def framed(values: tuple[bytes, ...], framing: str, size: int) -> list[bytes]:
    """Frame values as one stream, cut into chunks of so many bytes."""
    body = {
        "concatenated": b"".join(values),
        "ndjson": b"".join(value + b"\n" for value in values),
        "array": b"[" + b",\n".join(values) + b"]",
        "json-seq": b"".join(b"\x1e" + value + b"\n" for value in values),
    }[framing]
    return [body[at : at + size] for at in range(0, len(body), size)]
