"""Faults are where they say they are, and a decoder loses no more to them than the rules allow.

The frames carry texts that look like JSON, and all are told apart by their bytes. A *lost* frame is
one that is whole in the stream and is not handed out; a *wrong* value is one that is neither such
a frame nor the damaged one, whole.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import math
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import orjson
import pytest

import seamstream
from conftest import REFERENCE_ONLY, Implementation
from seamstream.testing import payloads
from seamstream.testing.faults import ERROR_OBJECT, Fault, Faulty, Framing, inject

T = TypeVar("T")

CUTS = (Fault.CUT, Fault.CUT_IN_STRING, Fault.TRUNCATED_KEY, Fault.ERROR_AFTER_CUT)
IN_FRAME = tuple(f for f in Fault if f not in (Fault.MISSING_DELIMITER, Fault.GARBAGE))
ANYWHERE = (Fault.CUT, Fault.ERROR_AFTER_CUT, Fault.BYTE_CHANGED, Fault.BYTE_REMOVED)
JSON_FRAMINGS: tuple[Framing, ...] = ("concatenated", "ndjson", "array", "json-seq")

PIECES = (
    *("{", "}", "[", "]", '"', "\\", ":", ",", " ", "\n", "'", "//", "\x1e", "\x7f"),
    *('{"', '"}', '": ', ", ", "],[", "]}", "}{", "}\n", "\n,", "\n]", '{ "k" : [', "/*"),
    *('{"a": 1}', "[1, 2]", '{"id": 0}', '{"error": {}}', "[]", "{}", "null", "NaN", "1", "-1.5e3"),
    *("a", "Text", "end", "é", "縫い目", "🧵", "\N{LINE SEPARATOR}", "data: {}"),
)


def pick(source: random.Random, choices: Sequence[T]) -> T:
    """Choose the same in every version of Python."""
    return choices[int(source.random() * len(choices))]


def text_like_json(source: random.Random) -> str:
    return "".join(pick(source, PIECES) for _ in range(pick(source, range(1, 15))))


def frame_like_an_api(index: int, source: random.Random) -> bytes:
    text = text_like_json(source)
    value: Any = pick(
        source,
        [
            {"id": index, "text": text},
            {
                "candidates": [
                    {"content": {"parts": [{"text": text}], "role": "model"}, "index": index}
                ],
                "modelVersion": "example-1",
            },
            {
                "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}],
                "created": 1_800_000_000 + index,
            },
            {
                "type": "delta",
                "index": index,
                "delta": {"tool": "f", "partial_json": text},
                "done": False,
            },
        ],
    )
    separators = pick(source, [None, (",", ":")])
    written = json.dumps(value, ensure_ascii=source.random() < 0.5, separators=separators)
    return written.encode("utf-8")


def five_frames(seed: int) -> list[bytes]:
    source = random.Random(seed)
    return [frame_like_an_api(index, source) for index in range(5)]


FRAMES = [five_frames(seed) for seed in range(300)]


def event_blocks(seed: int) -> list[bytes]:
    source = random.Random(seed)
    parts = [text_like_json(source) for _ in range(3)]
    build = pick(source, [payloads.anthropic_messages, payloads.openai_chat])
    body = build(parts).body
    end = b"\n\n"
    return [block + end for block in body.split(end)[:-1]]


BLOCKS = [event_blocks(seed) for seed in range(40)]


def frames_for(framing: Framing, seed: int) -> list[bytes]:
    pool = BLOCKS if framing == "sse" else FRAMES
    return pool[seed % len(pool)]


# --- the streams ---------------------------------------------------------------------------------


@pytest.mark.parametrize("framing", [*JSON_FRAMINGS, "sse"])
@pytest.mark.parametrize("fault", Fault)
def test_inject_replaces_one_stretch_and_nothing_else(fault: Fault, framing: Framing) -> None:
    for seed, cut_delimiter in itertools.product(range(30), (False, True)):
        frames = frames_for(framing, seed)
        faulty = inject(frames, fault, seed=seed, framing=framing, cut_delimiter=cut_delimiter)
        begin, end = faulty.offset, faulty.offset + len(faulty.removed)
        assert faulty.healthy[begin:end] == faulty.removed
        assert faulty.stream == faulty.healthy[:begin] + faulty.inserted + faulty.healthy[end:]
        assert faulty.stream != faulty.healthy
        assert (faulty.fault, faulty.framing, faulty.seed) == (fault, framing, seed)
        assert faulty.frames == tuple(frames)
        check_what_is_left(faulty)


def check_what_is_left(faulty: Faulty) -> None:
    """The frames that are named as intact are in the stream, in order; so is the damaged one."""
    place = 0
    for frame in faulty.intact:
        place = faulty.stream.index(frame, place) + len(frame)
    if faulty.damaged is None:
        assert faulty.fault in (Fault.MISSING_DELIMITER, Fault.GARBAGE)
        assert faulty.intact == faulty.frames
        return
    frame = faulty.frames[faulty.index]
    assert faulty.damaged != frame
    begin = faulty.healthy.index(frame)
    assert begin <= faulty.offset < begin + len(frame)
    assert faulty.stream[begin : begin + len(faulty.damaged)] == faulty.damaged
    others = [f for f in faulty.intact if ERROR_OBJECT not in f]
    assert others == [f for f in faulty.frames if f != frame]
    assert len(faulty.intact) - len(others) == (faulty.fault is Fault.ERROR_AFTER_CUT)


@pytest.mark.parametrize("framing", [*JSON_FRAMINGS, "sse"])
@pytest.mark.parametrize("fault", Fault)
def test_inject_depends_on_its_arguments_alone(fault: Fault, framing: Framing) -> None:
    made = [
        inject(frames_for(framing, 1), name, seed=seed, framing=framing)
        for name, seed in ((fault, 7), (fault.value, 7), (fault, 8), (fault, 9), (fault, 10))
    ]
    assert made[0] == made[1]
    assert len({faulty.stream for faulty in made}) > 1


PINNED = {
    Fault.CUT: (21, b'"b"}', b""),
    Fault.CUT_IN_STRING: (23, b'"}', b""),
    Fault.TRUNCATED_KEY: (14, b't": "a\\"b"}', b""),
    Fault.ERROR_AFTER_CUT: (21, b'"b"}', b"\n" + ERROR_OBJECT),
    Fault.BROKEN_QUOTE: (20, b"\\", b""),
    Fault.CONTROL_CHARACTER: (22, b"", b"\b"),
    Fault.NAN: (7, b"1", b"-Infinity"),
    Fault.BYTE_CHANGED: (21, b'"', b"B"),
    Fault.BYTE_REMOVED: (21, b'"', b""),
    Fault.MISSING_DELIMITER: (25, b"\n", b""),
    Fault.GARBAGE: (0, b"", "Ошибка шлюза 🧵\n".encode()),
}


def test_inject_does_the_same_everywhere() -> None:
    frames = [b'{"id": 1, "text": "a\\"b"}', '{"id": 2, "text": "縫い目"}'.encode()]
    for fault, expected in PINNED.items():
        faulty = inject(frames, fault, seed=1)
        assert (faulty.offset, faulty.removed, faulty.inserted) == expected, fault
    assert list(PINNED) == list(Fault)


def a_frame(*, text: str = 'a{"b\\', key: str = "te,xt", number: object = -1.5e3) -> bytes:
    return json.dumps({key: number, "t": [text]}).encode("utf-8")


def seen_places(fault: Fault, frame: bytes, **options: Any) -> set[int]:
    return {inject([frame], fault, seed=seed, **options).offset for seed in range(600)}


def strings_of(frame: bytes) -> list[tuple[int, int, bool]]:
    """Where the strings of a frame are, found without the module's help: begin, end, is a key."""
    found, begin, escaped = [], -1, False
    for place, byte in enumerate(frame.decode("latin-1")):
        if begin < 0:
            begin = place if byte == '"' else -1
        elif escaped or byte == "\\":
            escaped = not escaped
        elif byte == '"':
            is_key = frame[place + 1 : place + 2] == b":"
            found.append((begin, place + 1, is_key))
            begin = -1
    return found


@pytest.mark.parametrize(
    ("fault", "is_key"),
    [
        (Fault.CUT_IN_STRING, False),
        (Fault.TRUNCATED_KEY, True),
        (Fault.CONTROL_CHARACTER, None),
    ],
)
def test_inject_reaches_every_place_in_strings_and_no_other(
    fault: Fault, is_key: bool | None
) -> None:
    frame = a_frame()
    assert seen_places(fault, frame) == {
        place
        for begin, end, key in strings_of(frame)
        for place in range(begin + 1, end)
        if is_key is None or key == is_key
    }


def test_inject_breaks_outer_quotes_and_escaped_ones() -> None:
    frame = a_frame()
    outer = {place for begin, end, _ in strings_of(frame) for place in (begin, end - 1)}
    inner = frame.index(b'\\"')
    assert seen_places(Fault.BROKEN_QUOTE, frame) == {*outer, inner}


def test_inject_cuts_anywhere_but_leaves_a_byte_and_takes_one() -> None:
    frame = a_frame()
    for fault in (Fault.CUT, Fault.ERROR_AFTER_CUT):
        assert seen_places(fault, frame) == set(range(1, len(frame)))
    for fault in (Fault.BYTE_CHANGED, Fault.BYTE_REMOVED):
        assert seen_places(fault, frame) == set(range(len(frame)))


def test_inject_takes_whole_numbers_outside_strings() -> None:
    frame = a_frame(text="12", key="34")
    made = [inject([frame], Fault.NAN, seed=seed) for seed in range(50)]
    assert {faulty.removed for faulty in made} == {b"-1500.0"}
    names = {faulty.inserted.decode() for faulty in made}
    assert names == {"NaN", "Infinity", "-Infinity"}


def test_inject_takes_any_frame_in_turn() -> None:
    frames = FRAMES[0]
    for fault in Fault:
        seen = {inject(frames, fault, seed=seed).index for seed in range(100)}
        assert seen == set(range(4 if fault is Fault.MISSING_DELIMITER else 5)), fault


def test_inject_changes_and_inserts_every_byte_it_may() -> None:
    frame = b"0"
    changed = {inject([frame], Fault.BYTE_CHANGED, seed=s).stream[:1] for s in range(6000)}
    assert changed == {bytes([byte]) for byte in range(256)} - {frame}
    frame = '["縫い目"]'.encode()
    inserted = {inject([frame], Fault.CONTROL_CHARACTER, seed=s).inserted for s in range(1000)}
    assert inserted == {bytes([byte]) for byte in range(0x20)}


GARBAGE_AND_FRAMES = [
    ("concatenated", "\n", "{1}\n{2}\n", "{1}\n<garbage>\n{2}\n"),
    ("concatenated", "", "{1}{2}", "{1}<garbage>{2}"),
    ("ndjson", "\r\n", "{1}\r\n{2}\r\n", "{1}\r\n<garbage>\r\n{2}\r\n"),
    ("array", ",", "[{1},{2}]", "[{1}<garbage>,{2}]"),
    ("array", "\n,\n", "[{1}\n,\n{2}\n]\n", "[{1}<garbage>\n,\n{2}\n]\n"),
    ("json-seq", "\n", "\x1e{1}\n\x1e{2}\n", "\x1e{1}\n<garbage>\n\x1e{2}\n"),
]


@pytest.mark.parametrize(("framing", "delimiter", "healthy", "stream"), GARBAGE_AND_FRAMES)
def test_inject_puts_garbage_where_the_framing_has_room(
    framing: Framing, delimiter: str, healthy: str, stream: str
) -> None:
    frames = [b"{1}", b"{2}"]
    for seed in range(20):
        faulty = inject(
            frames, Fault.GARBAGE, seed=seed, framing=framing, delimiter=delimiter.encode(), at=1
        )
        assert faulty.healthy == healthy.encode()
        before, after = stream.encode().split(b"<garbage>")
        assert faulty.stream.startswith(before)
        assert faulty.stream.endswith(after)
        garbage = faulty.stream[len(before) : len(faulty.stream) - len(after)]
        assert garbage
        with pytest.raises(orjson.JSONDecodeError):
            orjson.loads(garbage)


@pytest.mark.parametrize(
    ("framing", "delimiter", "stream"),
    [
        ("concatenated", "\n", "{1}{2}\n{3}\n"),
        ("ndjson", "\n", "{1}{2}\n{3}\n"),
        ("array", " ,\n", "[{1}{2} ,\n{3} ]\n"),
        ("json-seq", "\n", "\x1e{1}\n{2}\n\x1e{3}\n"),
    ],
)
def test_inject_removes_one_delimiter(framing: Framing, delimiter: str, stream: str) -> None:
    frames = [f"{{{number}}}".encode() for number in (1, 2, 3)]
    faulty = inject(
        frames,
        Fault.MISSING_DELIMITER,
        seed=1,
        framing=framing,
        delimiter=delimiter.encode(),
        at=0,
    )
    assert faulty.stream == stream.encode()


ERROR = ERROR_OBJECT.decode("utf-8")


@pytest.mark.parametrize(
    ("framing", "at", "kept", "glued"),
    [
        ("concatenated", 0, f"C\n{ERROR}\n{{2}}\n", f"C{ERROR}\n{{2}}\n"),
        ("concatenated", 1, f"{{1}}\nC\n{ERROR}\n", f"{{1}}\nC{ERROR}\n"),
        ("ndjson", 0, f"C\n{ERROR}\n{{2}}\n", f"C{ERROR}\n{{2}}\n"),
        ("array", 0, f"[C,\n{ERROR},\n{{2}}]\n", f"[C{ERROR},\n{{2}}]\n"),
        ("array", 1, f"[{{1}},\nC,\n{ERROR}]\n", f"[{{1}},\nC{ERROR}]\n"),
        ("json-seq", 0, f"\x1eC\n\x1e{ERROR}\n\x1e{{2}}\n", f"\x1eC\x1e{ERROR}\n\x1e{{2}}\n"),
    ],
)
def test_inject_writes_the_error_object_as_a_frame_or_glued_to_the_cut_one(
    framing: Framing, at: int, kept: str, glued: str
) -> None:
    frames = [b"{1}", b"{2}"]
    for seed, cut_delimiter in itertools.product(range(10), (False, True)):
        faulty = inject(
            frames,
            Fault.ERROR_AFTER_CUT,
            seed=seed,
            framing=framing,
            at=at,
            cut_delimiter=cut_delimiter,
        )
        assert faulty.damaged is not None
        left = faulty.damaged.decode()
        assert left in ("{", f"{{{at + 1}")
        assert faulty.stream.decode() == (glued if cut_delimiter else kept).replace("C", left)


@pytest.mark.parametrize(
    ("framing", "at", "stream"),
    [
        ("concatenated", 0, "C{2}\n"),
        ("ndjson", 1, "{1}\nC"),
        ("array", 0, "[C{2}]\n"),
        ("array", 1, "[{1},\nC"),
        ("json-seq", 0, "\x1eC\x1e{2}\n"),
    ],
)
def test_inject_cuts_the_delimiter_too_when_told(framing: Framing, at: int, stream: str) -> None:
    frames = [b"{1}", b"{2}"]
    faulty = inject(frames, Fault.CUT, seed=3, framing=framing, at=at, cut_delimiter=True)
    assert faulty.damaged is not None
    assert faulty.stream == stream.replace("C", faulty.damaged.decode()).encode()


def test_inject_damages_the_data_of_event_blocks_only() -> None:
    blocks = [
        b": {comment}\n\n",
        b'event: e\r\ndata:{"n": 1, "t": "x\\"y"}\r\nid: "i"\r\n\r\n',
        b'data: {"n": 1,\ndata: "t": "two lines"}\n\n',
        b"data: [DONE]\r\r",
    ]
    begin, end = (blocks[1].index(piece.encode()) for piece in ('{"n', "\r\nid"))
    for fault, seed in itertools.product(IN_FRAME, range(100)):
        faulty = inject(blocks, fault, seed=seed, framing="sse")
        assert faulty.healthy == b"".join(blocks)
        assert faulty.index in (1, 3)
        assert faulty.damaged is not None
        if faulty.index == 1:
            assert begin <= faulty.offset - len(blocks[0]) < end
            assert faulty.damaged.startswith(blocks[1][:begin])
            assert faulty.damaged.endswith(blocks[1][end:])
            data = faulty.damaged[begin : len(faulty.damaged) - len(blocks[1][end:])]
            assert not set(data.decode("latin-1")) & set("\r\n")
        else:  # it is no JSON
            assert fault in ANYWHERE


def test_inject_takes_the_end_of_event_blocks() -> None:
    for end, line_end in (("\n\n", "\n"), ("\r\n\r\n", "\r\n"), ("\r\r", "\r"), ("\n\r\n", "\n")):
        blocks = [f"data: {{1}}{end}".encode(), f"data: {{2}}{end}".encode()]
        faulty = inject(blocks, Fault.MISSING_DELIMITER, seed=0, framing="sse")
        assert faulty.stream == f"data: {{1}}{line_end}data: {{2}}{end}".encode()
        assert faulty.intact == (blocks[1],)
        faulty = inject(blocks, "cut", seed=0, framing="sse", at=0, cut_delimiter=True)
        assert faulty.stream.decode() in (f"data: {{data: {{2}}{end}", f"data: {{1data: {{2}}{end}")


def test_intact_frames_hold_the_error_event_of_event_blocks() -> None:
    blocks = BLOCKS[0]
    faulty = inject(blocks, Fault.ERROR_AFTER_CUT, seed=1, framing="sse", at=2)
    error = f"event: error\ndata: {ERROR}\n\n".encode()
    assert faulty.intact == (*blocks[:2], error, *blocks[3:])
    assert faulty.damaged is not None
    assert faulty.stream == b"".join([*blocks[:2], faulty.damaged, error, *blocks[3:]])


def test_inject_chooses_among_the_frames_that_a_fault_can_befall() -> None:
    frames = [text.encode() for text in ("[DONE]", '{"a": []}', '["b"]', "[1]", "{NaN: 1}", "")]
    for fault, expected in (
        (Fault.TRUNCATED_KEY, {1}),
        (Fault.CUT_IN_STRING, {2}),
        (Fault.NAN, {3}),
        (Fault.BROKEN_QUOTE, {1, 2}),
        (Fault.CUT, {0, 1, 2, 3, 4}),
        (Fault.GARBAGE, {0, 1, 2, 3, 4, 5}),
    ):
        seen = {inject(frames, fault, seed=seed).index for seed in range(100)}
        assert seen == expected, fault


@pytest.mark.parametrize(
    ("frames", "fault", "options", "message"),
    [
        ([], Fault.CUT, {}, "cut cannot befall any of the frames"),
        (["[1]"], Fault.CUT_IN_STRING, {}, "cut-in-string cannot befall any of the frames"),
        (["[1]", '["a"]'], Fault.NAN, {"at": 1}, "nan cannot befall frame 1"),
        (["1"], Fault.MISSING_DELIMITER, {}, "missing-delimiter cannot befall any"),
        (["{}", "{}"], Fault.MISSING_DELIMITER, {"delimiter": b""}, "cannot befall any"),
        (["{}", "{}"], Fault.CUT, {"at": 2}, "there is no frame 2: there are 2 of them"),
        (["{}", "{}"], Fault.CUT, {"at": -1}, "there is no frame -1"),
        (["{\n}"], Fault.CUT, {"framing": "ndjson"}, "frame 0 holds an LF"),
        (["{}"], Fault.CUT, {"framing": "sse"}, "frame 0 is not one event block"),
        (["data: 1\r\n"], Fault.CUT, {"framing": "sse"}, "frame 0 is not one event block"),
        (["data: 1\n\n\n"], Fault.CUT, {"framing": "sse"}, "frame 0 is not one event block"),
        (["{}"], Fault.CUT, {"framing": "lines"}, "framing must be one of concatenated, ndjson"),
        (["{}"], "bent", {}, "fault must be one of cut, cut-in-string"),
        (["{}"], "cut", {"delimiter": b","}, "concatenated frames cannot have"),
        (["{}"], "cut", {"delimiter": b"", "framing": "ndjson"}, "ndjson frames cannot"),
        (["{}"], "cut", {"delimiter": b",,", "framing": "array"}, "array frames cannot"),
        (["{}"], "cut", {"delimiter": b" ", "framing": "json-seq"}, "json-seq frames"),
    ],
)
def test_inject_refuses_what_cannot_be(
    frames: list[str], fault: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        inject([frame.encode() for frame in frames], fault, seed=0, **options)


def test_inject_refuses_wrong_types() -> None:
    frame: Any
    for frame in ("{}", bytearray(2), None):
        with pytest.raises(TypeError, match="frame 0 must be bytes"):
            inject([frame], Fault.CUT, seed=0)
    for frames in (a_frame(), "{}"):
        with pytest.raises(TypeError, match="wrap one frame in a list"):
            inject(frames, Fault.CUT, seed=0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="seed must be an int"):
        inject([a_frame()], Fault.CUT, seed=None)  # type: ignore[arg-type]


def test_faults_are_written_as_their_names() -> None:
    assert [str(fault) for fault in Fault] == [fault.value for fault in Fault]
    assert f"{Fault.NAN}" == "nan"


def test_error_object_is_json() -> None:
    assert orjson.loads(ERROR_OBJECT)["error"]["code"] == 502


# --- chunks --------------------------------------------------------------------------------------


def test_chunks_are_the_stream_cut_at_bytes() -> None:
    faulty = inject(FRAMES[3], Fault.CUT, seed=11)
    chunks = list(faulty.chunks())
    assert b"".join(chunks) == faulty.stream
    assert all(chunks)
    assert len(faulty.stream) / 32 < len(chunks) < len(faulty.stream) / 8
    assert chunks == list(faulty.chunks(seed=11)) != list(faulty.chunks(seed=12))
    assert [len(chunk) for chunk in faulty.chunks(mean=1)] == [1] * len(faulty.stream)


def test_achunks_are_the_same_chunks_and_let_others_run() -> None:
    faulty = inject(FRAMES[3], Fault.CUT, seed=11)
    turns: list[str] = []

    async def consume() -> list[bytes]:
        chunks = []
        async for chunk in faulty.achunks(seed=4, mean=9, delay=0.0):
            chunks.append(chunk)
            turns.append("chunk")
        return chunks

    async def tick() -> None:
        while True:
            turns.append("tick")
            await asyncio.sleep(0)

    async def main() -> list[bytes]:
        ticker = asyncio.create_task(tick())
        chunks = await consume()
        ticker.cancel()
        return chunks

    assert asyncio.run(main()) == list(faulty.chunks(seed=4, mean=9))
    assert all(a != b for a, b in itertools.pairwise(turns))


# --- the JSON decoders ---------------------------------------------------------------------------


def json_modules() -> dict[str, str]:
    modules = {"reference": "seamstream._reference.json_stream"}
    stub = Path(seamstream.__file__).with_name("_core.pyi").read_text("utf-8")
    if "class JSONStreamDecoder" in stub and not REFERENCE_ONLY:
        modules["rust"] = "seamstream._core"
    return modules


class JSONImplementation(NamedTuple):
    name: str
    JSONStreamDecoder: Any

    @property
    def is_quick(self) -> bool:
        return self.name == "rust"

    def frames(self, framing: Framing, stream: bytes) -> list[Any]:
        decoder = self.JSONStreamDecoder(framing=framing)
        return [*decoder.feed(stream), *decoder.close()]


@pytest.fixture(scope="module", params=json_modules())
def json_implementation(request: pytest.FixtureRequest) -> JSONImplementation:
    module = importlib.import_module(json_modules()[request.param])
    return JSONImplementation(request.param, module.JSONStreamDecoder)


class Bound(NamedTuple):
    """What a fault may cost, or a measure of what it did."""

    most: int = 0
    """Frames lost in one stream."""
    losing: float = 0.0
    """The share of the streams that lose a frame."""
    wrong: float = 0.0
    """The share of the streams with a wrong value."""
    least: int = 0
    """Frames lost in every stream where one is left to lose."""


# One cut after `:`, `[` or `,` takes the next frame for its member, and what a lost backslash or a
# changed byte ends early may be a whole JSON text: no framing can see either.
SWALLOWING = Bound(most=1, losing=0.13)
CONCATENATED: dict[Fault, Bound] = {
    Fault.CUT: SWALLOWING,
    Fault.ERROR_AFTER_CUT: SWALLOWING,
    Fault.BROKEN_QUOTE: Bound(wrong=0.015),
    Fault.BYTE_CHANGED: Bound(wrong=0.015),
    Fault.BYTE_REMOVED: Bound(wrong=0.002),
}
# Two texts on a line are none, whichever of them is whole.
GLUED = Bound(most=1, losing=1.0, least=1)
NDJSON: dict[Fault, Bound] = {Fault.MISSING_DELIMITER: Bound(most=2, losing=1.0, least=2)}
NDJSON_GLUED = dict.fromkeys(CUTS, GLUED)
# Between LF and the next record separator everything is garbage.
SEQUENCE: dict[Fault, Bound] = {Fault.MISSING_DELIMITER: GLUED}
# A line that begins with a comma brings the stream back. It cannot if the cut frame ends within an
# inner array after one of its members, which goes on with that comma; nor is it needed if a broken
# text holds such a line itself, or a bracket where it counts: what follows there may be a value.
RARELY_ALL = Bound(most=5, losing=0.01)
COMMA_FIRST: dict[Fault, Bound] = {
    Fault.CUT: RARELY_ALL,
    Fault.ERROR_AFTER_CUT: RARELY_ALL,
    Fault.BROKEN_QUOTE: Bound(most=4, losing=0.01, wrong=0.015),
    Fault.CONTROL_CHARACTER: Bound(most=4, losing=0.01, wrong=0.005),
    Fault.BYTE_CHANGED: Bound(most=4, losing=0.01, wrong=0.015),
    Fault.BYTE_REMOVED: Bound(most=4, losing=0.01, wrong=0.005),
    Fault.GARBAGE: Bound(most=1, losing=0.25),  # before the first element: it is part of it
}
COMMA_FIRST_GLUED = {
    **dict.fromkeys(CUTS, GLUED),
    Fault.CUT: Bound(most=4, losing=1.0, least=1),
    Fault.ERROR_AFTER_CUT: Bound(most=5, losing=1.0, least=1),
}
# In a compact array a cut element takes the rest with it, and so may one with a broken string.
ALL_AFTER = Bound(most=4, losing=1.0, least=4)
SOME_AFTER = Bound(most=4, losing=0.5, wrong=0.015)
COMPACT: dict[Fault, Bound] = {
    **dict.fromkeys(CUTS, ALL_AFTER),
    Fault.ERROR_AFTER_CUT: Bound(most=5, losing=1.0, least=5),
    Fault.BROKEN_QUOTE: Bound(most=4, losing=1.0, wrong=0.015, least=1),
    Fault.CONTROL_CHARACTER: SOME_AFTER,
    Fault.BYTE_CHANGED: SOME_AFTER,
    Fault.BYTE_REMOVED: SOME_AFTER,
    Fault.GARBAGE: Bound(most=5, losing=0.5),
}

WIRES: list[tuple[Framing, str, bool, dict[Fault, Bound]]] = [
    ("concatenated", "", False, CONCATENATED),
    ("concatenated", "\n", False, CONCATENATED),
    ("concatenated", "\n", True, {fault: CONCATENATED.get(fault, Bound()) for fault in CUTS}),
    ("ndjson", "\n", False, NDJSON),
    ("ndjson", "\n", True, NDJSON_GLUED),
    ("json-seq", "\n", False, SEQUENCE),
    ("json-seq", "\n", True, dict.fromkeys(CUTS, Bound())),
    ("array", "\n,\n", False, COMMA_FIRST),
    ("array", "\n,\n", True, COMMA_FIRST_GLUED),
    ("array", ",", False, COMPACT),
]


CASES = [
    pytest.param(
        framing,
        delimiter.encode(),
        cut_delimiter,
        fault,
        bounds.get(fault, Bound()),
        id=f"{framing}-{delimiter!r}{'-glued' * cut_delimiter}-{fault}",
    )
    for framing, delimiter, cut_delimiter, bounds in WIRES
    for fault in (CUTS if cut_delimiter else Fault)
    if delimiter or fault is not Fault.MISSING_DELIMITER
]


@pytest.mark.parametrize(("framing", "delimiter", "cut_delimiter", "fault", "bound"), CASES)
def test_fault_costs_no_more_than_the_rules_say(
    json_implementation: JSONImplementation,
    framing: Framing,
    delimiter: bytes,
    cut_delimiter: bool,
    fault: Fault,
    bound: Bound,
) -> None:
    if framing == "concatenated":
        streams = 3000 if json_implementation.is_quick else 300
    else:
        streams = 600 if json_implementation.is_quick else 150
    lost_by_stream: Counter[int] = Counter()
    wrong = 0
    for seed in range(streams):
        faulty = inject(
            FRAMES[seed % len(FRAMES)],
            fault,
            seed=seed,
            framing=framing,
            delimiter=delimiter,
            cut_delimiter=cut_delimiter,
        )
        frames = json_implementation.frames(framing, faulty.stream)
        values = [frame.raw for frame in frames if frame.kind is None and not frame.torn]
        assert values[: faulty.index] == list(faulty.frames[: faulty.index]), "lost before"
        lost = list((Counter(faulty.intact) - Counter(values)).elements())
        allowed = [*faulty.intact, *([] if faulty.damaged is None else [faulty.damaged])]
        wrong += bool(Counter(values) - Counter(allowed))
        assert [v for v in values if v in faulty.intact] == [
            frame for frame in faulty.intact if frame not in lost
        ], "out of order"
        lost_by_stream[len(lost)] += 1
        left_to_lose = len(faulty.intact) - faulty.index
        assert min(bound.least, left_to_lose) <= len(lost) <= bound.most, faulty
    assert streams - lost_by_stream[0] <= math.ceil(bound.losing * streams), lost_by_stream
    assert wrong <= math.ceil(bound.wrong * streams)


def in_full(frames: Any) -> list[tuple[Any, ...]]:
    return [(f.raw, f.kind, f.torn, f.offset, f.parse_error) for f in frames]


NOT_IN_FRAMES = {
    "concatenated": r"[ \t\n\r]*",
    "ndjson": r"[ \t\n\r]*",
    "array": r"[][, \t\n\r]*",
    "json-seq": r"[\x1e \t\n\r]*",
}


def check_that_all_bytes_are_accounted_for(
    framing: Framing, stream: bytes, frames: list[Any]
) -> None:
    """What is neither a value nor flagged nor torn has no meaning of its own."""
    end = 0
    for frame in frames:
        assert stream[frame.offset : frame.offset + len(frame.raw)] == frame.raw
        assert frame.offset >= end
        between = stream[end : frame.offset].decode("latin-1")
        assert re.fullmatch(NOT_IN_FRAMES[framing], between), between
        end = frame.offset + len(frame.raw)
    assert re.fullmatch(NOT_IN_FRAMES[framing], stream[end:].decode("latin-1"))


@pytest.mark.parametrize("framing", JSON_FRAMINGS)
@pytest.mark.parametrize("fault", Fault)
def test_damaged_stream_comes_out_the_same_in_any_fragmentation(
    json_implementation: JSONImplementation, framing: Framing, fault: Fault
) -> None:
    for seed in range(12):
        faulty = inject(
            FRAMES[seed], fault, seed=seed, framing=framing, cut_delimiter=seed % 2 == 1
        )
        whole = json_implementation.frames(framing, faulty.stream)
        expected = in_full(whole)
        check_that_all_bytes_are_accounted_for(framing, faulty.stream, whole)
        for mean in (1, 3, 20):
            decoder = json_implementation.JSONStreamDecoder(framing=framing)
            fed = [frame for chunk in faulty.chunks(mean=mean) for frame in decoder.feed(chunk)]
            assert in_full([*fed, *decoder.close()]) == expected, (seed, mean)
            assert decoder.stats.bytes == len(faulty.stream)
        decoder.reset()
        assert in_full(decoder.iter(faulty.chunks(seed=seed + 1))) == expected


async def collect(source: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in source]


@pytest.mark.parametrize("framing", JSON_FRAMINGS)
def test_damaged_streams_come_out_the_same_from_an_async_generator(
    json_implementation: JSONImplementation, framing: Framing
) -> None:
    for seed, fault in enumerate(Fault):
        faulty = inject(FRAMES[seed], fault, seed=seed, framing=framing)
        decoder = json_implementation.JSONStreamDecoder(framing=framing)
        frames = asyncio.run(collect(decoder.aiter(faulty.achunks(mean=5))))
        assert in_full(frames) == in_full(json_implementation.frames(framing, faulty.stream))


# --- event streams -------------------------------------------------------------------------------


def decode_events(decoder: Any, chunks: Any) -> list[Any]:
    return [*(event for chunk in chunks for event in decoder.feed(chunk)), *decoder.close()]


def essence(event: Any) -> tuple[Any, ...]:
    return event.event, event.raw, event.torn


@pytest.mark.parametrize("cut_delimiter", [False, True], ids=["kept", "glued"])
@pytest.mark.parametrize("fault", Fault)
def test_fault_in_an_event_block_costs_that_event_only(
    implementation: Implementation, fault: Fault, cut_delimiter: bool
) -> None:
    if cut_delimiter and fault not in CUTS:
        return
    decoder = implementation.SSEDecoder()
    for seed in range(40):
        faulty = inject(
            BLOCKS[seed % len(BLOCKS)],
            fault,
            seed=seed,
            framing="sse",
            cut_delimiter=cut_delimiter,
        )
        decoder.reset()
        intact = [essence(event) for block in faulty.intact for event in decoder.feed(block)]
        assert len(intact) == len(faulty.intact)
        decoder.reset()
        events = decode_events(decoder, [faulty.stream])
        seen = [essence(event) for event in events]
        lost = list((Counter(intact) - Counter(seen)).elements())
        # Two blocks that are glued together are one event, and no JSON.
        is_glued = cut_delimiter or fault is Fault.MISSING_DELIMITER
        followed = faulty.index < len(faulty.intact)
        assert len(lost) == (is_glued and followed)
        bad = [event for event, what in zip(events, seen, strict=True) if what not in intact]
        assert len(bad) == (fault is not Fault.GARBAGE)
        assert decoder.stats.torn == sum(event.torn for event in bad)
        assert decoder.stats.torn == (is_glued and not followed)
        sentinel = "[DONE]" in faulty.frames[faulty.index].decode()
        if fault not in (Fault.BYTE_CHANGED, Fault.BYTE_REMOVED) and not sentinel:
            assert all(event.parse_error in ("syntax", "torn") for event in bad)
        decoder.reset()
        chunks = faulty.chunks(mean=7)
        assert [essence(event) for event in decode_events(decoder, chunks)] == seen
