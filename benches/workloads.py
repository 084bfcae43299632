"""Event streams to measure with, the same on every run, and ways to cut them."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

Cut = int | Literal["whole", "event"]
Around = Literal["new", "repeats", "recorded", "shuffled"]
"""What stands around the token of an event: something new before it each time; the same each time;
or what the recorded streams of that API have, which repeat to the token and differ after it."""


def cut_blocks(blocks: list[bytes], cut: Cut, per_chunk: int = 1) -> list[bytes]:
    """Cut a stream: whole, so many events a chunk, or so many bytes a chunk."""
    if cut == "event":
        groups = range(0, len(blocks), per_chunk)
        return [b"".join(blocks[at : at + per_chunk]) for at in groups]
    body = b"".join(blocks)
    return [body] if cut == "whole" else [body[at : at + cut] for at in range(0, len(body), cut)]


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
        return cut_blocks(self.blocks(), cut, per_chunk)

    def body(self) -> Body:
        text = (payload.decode() for payload in self.payloads)
        return Body(tuple(self.blocks()), tuple((self.event, data) for data in text))


WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "then", "more"]
EMOJI = ["🚀", "👩‍💻", "✨", "👍🏽", "🎉", "é", "—", "漢"]
JAPANESE = (
    "古い時計の針がゆっくりと進み、窓の外では雨が静かに降りつづけている。"
    "駅前の小さな本屋には、今日も遅くまで明かりが灯っていた。"
)


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _letters(draw: random.Random) -> str:
    return "".join(draw.choices(string.ascii_letters + string.digits, k=draw.randrange(2, 12)))


def openai(events: int = 2000, around: Around = "new") -> Workload:
    """Chat completion chunks, about 290 bytes an event, ASCII."""
    draw = random.Random(7)
    varies = around in ("new", "shuffled")

    def completion(number: int) -> dict[str, object]:
        whole: dict[str, object] = {
            "id": "chatcmpl-9xYz01234567",
            "object": "chat.completion.chunk",
            "created": 1_760_000_000 + number // 50 * varies,
            "model": "gpt-4o-2024-08-06",
            "service_tier": "default",
            "system_fingerprint": f"fp_{draw.getrandbits(40) if varies else 7:010x}",
            "choices": [
                {
                    "index": 0,
                    "delta": {"content": " " + draw.choice(WORDS)},
                    "logprobs": None,
                    "finish_reason": None,
                }
            ],
            # Random letters, so that sizes do not tell the words.
            **({"obfuscation": _letters(draw)} if around == "recorded" else {}),
        }
        return dict(draw.sample(list(whole.items()), len(whole))) if around == "shuffled" else whole

    return Workload("openai", tuple(_compact(completion(number)) for number in range(events)))


def japanese(events: int = 2000, around: Around = "recorded") -> Workload:
    """Gemini-shaped chunks with CRLF, about 350 bytes an event, a third of it Japanese text."""
    draw = random.Random(8)

    def text() -> str:
        start, length = draw.randrange(len(JAPANESE)), draw.randrange(10, 60)
        return (JAPANESE * 3)[start : start + length]

    payloads = (
        _compact(
            {
                **({"responseId": f"{number:08x}"} if around == "new" else {}),
                "candidates": [{"content": {"parts": [{"text": text()}], "role": "model"}}],
                "usageMetadata": {
                    "promptTokenCount": 12,
                    "totalTokenCount": 12 + number * (around == "recorded"),
                },
                "modelVersion": "gemini-3.6-flash",
            }
        )
        for number in range(events)
    )
    return Workload("japanese", tuple(payloads), eol=b"\r\n")


def anthropic(events: int = 2000, around: Around = "repeats") -> Workload:
    """Named events, about 150 bytes each."""
    draw = random.Random(9)
    payloads = (
        _compact(
            {
                "type": "content_block_delta",
                "index": number if around == "new" else 0,
                "delta": {"type": "text_delta", "text": f" {draw.choice(WORDS)}"},
            }
        )
        # White space before the last brace, so that sizes do not tell the words.
        .removesuffix(b"}")
        + b" " * (draw.randrange(16) if around == "recorded" else 0)
        + b"}"
        for number in range(events)
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


def framed_values(values: tuple[bytes, ...], framing: str) -> list[bytes]:
    """One stream of the values, in pieces that each end where a value ends."""
    if framing == "array":
        first, *rest = values
        pieces = [b"[" + first, *(b",\n" + value for value in rest)]
        pieces[-1] += b"]"
        return pieces
    before, after = {
        "concatenated": (b"", b""),
        "ndjson": (b"", b"\n"),
        "json-seq": (b"\x1e", b"\n"),
    }[framing]
    return [before + value + after for value in values]


def framed(values: tuple[bytes, ...], framing: str, size: int) -> list[bytes]:
    """Frame values as one stream, cut into chunks of so many bytes."""
    return cut_blocks(framed_values(values, framing), size)


TEXTS = ("ascii", "japanese", "emoji", "ill-formed")


def text(name: str, size: int) -> bytes:
    """Text of one kind, about this long, in UTF-8 but for the kind that is not."""
    source = {
        "ascii": " ".join(WORDS).encode(),
        "japanese": JAPANESE.encode(),
        "emoji": "".join(EMOJI).encode(),
        "ill-formed": JAPANESE.encode()[:-1] + b"\xff\xc3 \xed\xa0\x80",
    }[name]
    return source * (size // len(source) + 1)


# --- what the peers are compared on


@dataclass(frozen=True)
class Body:
    """One event stream in blocks, and the type and data of each event that must come out."""

    blocks: tuple[bytes, ...]
    events: tuple[tuple[str, str], ...]

    @property
    def size(self) -> int:
        return sum(map(len, self.blocks))

    def first(self, size: int) -> Body:
        """As many whole events as fit into the size, one at least; each block must be one event."""
        assert len(self.blocks) == len(self.events)
        number, taken = 0, 0
        for block in self.blocks:
            taken += len(block)
            if taken > size and number:
                break
            number += 1
        return Body(self.blocks[:number], self.events[:number])


@dataclass(frozen=True)
class Corpus:
    """Event streams of one kind.

    Where one value of each event is wanted, `path` says which in our words, and `index` in Python,
    to be put behind the parsed JSON.
    """

    name: str
    bodies: tuple[Body, ...]
    path: str = ""
    index: str = ""
    model: type[BaseModel] | None = None
    json: bool = True
    """Whether each event's data is JSON."""

    @property
    def size(self) -> int:
        return sum(body.size for body in self.bodies)

    @property
    def events(self) -> list[tuple[str, str]]:
        return [event for body in self.bodies for event in body.events]

    def first(self, size: int) -> Corpus:
        """The part that is about this big: of one body its events, of many the first bodies."""
        if len(self.bodies) == 1:
            bodies: tuple[Body, ...] = (self.bodies[0].first(size),)
        else:
            number, taken = 0, 0
            for body in self.bodies:
                taken += body.size
                if taken > size and number:
                    break
                number += 1
            bodies = self.bodies[:number]
        return Corpus(self.name, bodies, self.path, self.index, self.model, self.json)

    def chunks(self, cut: Cut) -> list[list[bytes]]:
        """The chunks of each body."""
        return [cut_blocks(list(body.blocks), cut) for body in self.bodies]

    def sha256(self) -> str:
        blocks = (block for body in self.bodies for block in body.blocks)
        return hashlib.sha256(b"".join(blocks)).hexdigest()


class ChatDelta(BaseModel):
    content: str


class ChatChoice(BaseModel):
    index: int
    delta: ChatDelta
    finish_reason: str | None


class ChatChunk(BaseModel):
    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatChoice]


class TextPart(BaseModel):
    text: str


class Content(BaseModel):
    parts: list[TextPart]
    role: str


class Candidate(BaseModel):
    content: Content


class GenerateChunk(BaseModel):
    candidates: list[Candidate]
    modelVersion: str


class BlockDelta(BaseModel):
    type: str | None = None
    text: str | None = None


class MessageEvent(BaseModel):
    type: str
    index: int | None = None
    delta: BlockDelta | None = None


def _named(value: dict[str, Any]) -> tuple[bytes, tuple[str, str]]:
    data = _compact(value)
    block = b"event: " + value["type"].encode() + b"\ndata: " + data + b"\n\n"
    return block, (value["type"], data.decode())


def messages(events: int) -> Body:
    """Anthropic-shaped: named events, a ping now and then, an emoji in every third."""
    draw = random.Random(11)

    def values() -> Iterator[dict[str, Any]]:
        yield {"type": "message_start", "message": {"id": "msg_01XyZ", "role": "assistant"}}
        yield {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        }
        for number in range(events - 5):
            if number % 40 == 39:
                yield {"type": "ping"}
                continue
            text = " " + draw.choice(WORDS) + (draw.choice(EMOJI) if number % 3 == 0 else "")
            yield {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": text},
            }
        yield {"type": "content_block_stop", "index": 0}
        yield {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
        yield {"type": "message_stop"}

    blocks, wanted = zip(*map(_named, values()), strict=True)
    return Body(blocks, wanted)


def commented(body: Body) -> Body:
    """The same with a comment and an empty line before every second event."""
    heartbeat = b": OPENROUTER PROCESSING\n\n"
    blocks = (heartbeat * (at % 2) + block for at, block in enumerate(body.blocks))
    return Body(tuple(blocks), body.events)


def multiline(events: int) -> Body:
    """Indented JSON, 50 data lines and 2.5 KB an event."""
    draw = random.Random(12)
    blocks, wanted = [], []
    for number in range(events):
        value: dict[str, Any] = {
            f"field {at}": " ".join(draw.choices(WORDS, k=7)) for at in range(47)
        }
        text = json.dumps(value | {"number": number}, indent=2)
        blocks.append(b"".join(b"data: %b\n" % line.encode() for line in text.split("\n")) + b"\n")
        wanted.append(("message", text))
    return Body(tuple(blocks), tuple(wanted))


SHARED = Path(os.environ.get("SEAMSTREAM_SHARED") or Path(__file__).parents[2] / "shared")
"""The folder of recorded streams, which is not part of the project."""


def recorded(largest: int = 30_000) -> tuple[Body, ...]:
    """Bodies of real services, one of each family; none where the recordings are absent."""
    manifest = SHARED / "corpus" / "manifest.json"
    if not manifest.is_file():
        return ()
    bodies = {}
    for entry in json.loads(manifest.read_text("utf-8"))["entries"]:
        if entry["format"] != "sse" or entry["bytes"] > largest or "pending_at_eof" in entry:
            continue
        if entry["family"] in bodies or not entry["events"]:
            continue
        body = (SHARED / "corpus" / entry["file"]).read_bytes()
        lines = (SHARED / "corpus" / entry["expected"]).read_text("utf-8").split("\n")
        wanted = (json.loads(line) for line in lines if line)
        blocks = re.findall(rb"(?s).+?(?:\r\n\r\n|\n\n|\r\r|\Z)", body)
        assert b"".join(blocks) == body
        bodies[entry["family"]] = Body(
            tuple(blocks), tuple((event["event"], event["data"]) for event in wanted)
        )
    return tuple(bodies.values())


BIG = 8_000_000
CORPORA = ("openai", "gemini_ja", "anthropic", "comments", "multiline", "recorded")


@cache
def corpus(name: str, events: int = 3000) -> Corpus:
    """A corpus by its name, at most so many events of it.

    Raises:
        LookupError: There is none of this name, or its recordings are absent.
    """
    if name in ("openai", "comments"):
        body = openai(events).body()
        path, index = "choices.0.delta.content", '["choices"][0]["delta"]["content"]'
        if name == "comments":
            body = commented(body)
        return Corpus(name, (body,), path, index, ChatChunk)
    if name == "gemini_ja":
        path = "candidates.0.content.parts.0.text"
        index = '["candidates"][0]["content"]["parts"][0]["text"]'
        return Corpus(name, (japanese(events).body(),), path, index, GenerateChunk)
    if name == "anthropic":
        index = '.get("delta", {}).get("text")'
        return Corpus(name, (messages(events),), "delta.text", index, MessageEvent)
    if name == "multiline":
        return Corpus(name, (multiline(events // 10),), "number", '["number"]')
    if name == "recorded" and (bodies := recorded()):
        return Corpus(name, bodies, json=False)
    raise LookupError(f"no corpus {name!r}" if name != "recorded" else f"no recordings at {SHARED}")


def big_corpus(size: int) -> Corpus:
    """One event of so many payload bytes."""
    return Corpus("big", (big(size).body(),), json=False)
