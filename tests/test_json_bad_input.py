"""What an upstream may send by mistake or malice: it is flagged, and the next good frame is out.

Each input is damage with a good frame behind it, in every framing, whole and in pieces.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest

from conftest import MODULES, Implementation
from fragmentations import byte_by_byte, of_size
from frame_observations import FRAMINGS, observe
from observations import attempt
from seamstream import JSONDecodeError, LimitExceededError, Limits

GOOD = b'{"ok":1}'
# What brings each framing back in step behind the damage.
PREFIX = {"concatenated": b"", "ndjson": b"", "array": b"[", "json-seq": b"\x1e"}
BEHIND = {"concatenated": b"\n", "ndjson": b"\n", "array": b"\n,", "json-seq": b"\n\x1e"}
END = {"concatenated": b" ", "ndjson": b"\n", "array": b"]", "json-seq": b"\n"}


def framed(framing: str, damage: bytes) -> bytes:
    return PREFIX[framing] + damage + BEHIND[framing] + GOOD + END[framing]


def cuts(stream: bytes) -> Iterator[list[bytes]]:
    yield [stream]
    yield of_size(stream, 1000)
    if len(stream) < 5_000:
        yield byte_by_byte(stream)


DEPTH = 20_000
# Closed, so that the framings without other marks know where it ends.
BOMBS = {
    "arrays": b"[" * DEPTH + b"]" * DEPTH,
    "objects": b'{"a":' * DEPTH + b"1" + b"}" * DEPTH,
    "both": b'[{"a":' * DEPTH + b"[]" + b"}]" * DEPTH,
    "1025 levels": b"[" * 1025 + b"]" * 1025,
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("framing", FRAMINGS)
def test_closed_depth_bomb_is_one_syntax_error(
    implementation: Implementation, framing: str, bomb: str
) -> None:
    for chunks in cuts(framed(framing, BOMBS[bomb])):
        decoder = implementation.JSONStreamDecoder(framing=framing)
        flagged, good = observe(decoder, chunks).frames
        assert (flagged.raw, flagged.kind) == (BOMBS[bomb], "syntax")
        assert (good.raw, good.kind, good.torn) == (GOOD, None, False)


OPEN_BOMBS = {"arrays": b"[" * DEPTH, "objects": b'{"a":' * DEPTH, "both": b'[{"a":' * DEPTH}


@pytest.mark.parametrize("bomb", OPEN_BOMBS)
def test_open_depth_bomb_is_one_error_or_torn(implementation: Implementation, bomb: str) -> None:
    damage = OPEN_BOMBS[bomb]
    for framing, kind in (("ndjson", "syntax"), ("array", "syntax"), ("json-seq", "truncated")):
        for chunks in cuts(framed(framing, damage)):
            decoder = implementation.JSONStreamDecoder(framing=framing)
            flagged, good = observe(decoder, chunks).frames
            assert (flagged.raw, flagged.kind) == (damage, kind)
            assert (good.raw, good.kind) == (GOOD, None)
    # What is glued to it is inside it.
    decoder = implementation.JSONStreamDecoder()
    (torn,) = observe(decoder, of_size(damage + GOOD, 1000)).frames
    assert torn.torn
    assert torn.raw == damage + GOOD


@pytest.mark.parametrize("framing", FRAMINGS)
def test_depth_bomb_that_outgrows_the_limit_is_dropped(
    implementation: Implementation, framing: str
) -> None:
    stream = framed(framing, BOMBS["arrays"])
    for chunks in cuts(stream):
        limits = Limits(max_event_bytes=1000)
        decoder = implementation.JSONStreamDecoder(framing=framing, limits=limits)
        outcome = observe(decoder, chunks)
        begin = len(PREFIX[framing])
        assert outcome.error == ("LimitExceededError", 1000, 1001, begin + 1000)
        decoder = implementation.JSONStreamDecoder(framing=framing, limits=limits, on_limit="skip")
        frames = observe(decoder, chunks).frames
        assert [(frame.raw, frame.kind) for frame in frames] == [(b"", "oversize"), (GOOD, None)]


@pytest.mark.parametrize("digits", [4301, 5000, 20_000])
@pytest.mark.parametrize("framing", FRAMINGS)
def test_number_of_thousands_of_digits_is_a_value_or_flagged(
    implementation: Implementation, framing: str, digits: int
) -> None:
    """CPython refuses to convert it, and a caller must never meet that ``ValueError``."""
    number = b"9" * digits
    for damage in (number, b'{"n":' + number + b"}", b"[-" + number + b",1]", number + b"e1"):
        for chunks in cuts(framed(framing, damage)):
            for loads in (None, json.loads):
                decoder = implementation.JSONStreamDecoder(framing=framing, loads=loads)
                frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
                flagged, good = [*frames, *decoder.close()]
                assert (good.raw, good.kind) == (GOOD, None)
                assert flagged.raw == damage
                assert isinstance(flagged.value, (float, str, dict, list))
                _, error = attempt(flagged.json)
                if error is not None:
                    assert type(error) is JSONDecodeError
                    assert 0 <= error.offset <= len(damage)
                    assert flagged.kind == "syntax" or loads is json.loads


def accepted(text: bytes) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


CONTROLS = [bytes([byte]) for byte in range(0x20)]
ILL_FORMED = [
    b"\xff",
    b"\x80",
    b"\xc3",
    b"\xe6\xbc",
    b"\xed\xa0\x80",
    b"\xc0\xaf",
    b"\xf4\x90\x80\x80",
]
LONE_SURROGATES = [b"\\ud800", b"\\udfff", b"\\ud83d\\u0041", b"\\uDE00\\uD83D"]


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("bad", [*CONTROLS, *ILL_FORMED, *LONE_SURROGATES])
def test_bad_bytes_in_keys_and_strings_are_flagged(
    implementation: Implementation, framing: str, bad: bytes
) -> None:
    for damage in (
        b'{"a%sb":1}' % bad,
        b'{"a":"%s"}' % bad,
        b'{"a":{"b":["%sc", 2]},"d":{"e":3}}' % bad,
    ):
        assert not accepted(damage)
        stream = framed(framing, damage)
        for chunks in cuts(stream):
            decoder = implementation.JSONStreamDecoder(framing=framing)
            frames = observe(decoder, chunks).frames
            values = [frame.raw for frame in frames if frame.kind is None and not frame.torn]
            errors = [frame for frame in frames if frame.kind is not None]
            assert values == [GOOD]
            assert errors != []
            assert errors[0].offset == len(PREFIX[framing])
            if (framing, bad) in (("ndjson", b"\n"), ("json-seq", b"\x1e")):  # it ends an element
                assert b"".join(frame.raw for frame in errors) == damage.replace(bad, b"")
            else:
                assert [(frame.raw, frame.kind) for frame in errors] == [(damage, "syntax")]


def test_every_byte_in_place_of_any_other_is_told_from_a_value(
    implementation: Implementation,
) -> None:
    """No text of a line is handed out that orjson does not take, and none that it takes is lost."""
    text = b'{"a\\u00e9":[-1.5e+3,true],"b":null}'
    for place in range(len(text)):
        lines = [text[:place] + bytes([byte]) + text[place + 1 :] for byte in range(256)]
        stream = b"".join(line + b"\n" for line in lines if b"\n" not in line)
        lines = [line for line in lines if b"\n" not in line]
        decoder = implementation.JSONStreamDecoder(framing="ndjson")
        frames = decoder.feed(stream)
        assert [frame.kind is None for frame in frames] == list(map(accepted, lines))
        assert [frame.raw for frame in frames] == [line.strip(b" \t\r") for line in lines]


def test_unterminated_string_of_many_megabytes_ends_with_its_line_or_record(
    implementation: Implementation,
) -> None:
    damage = b'{"text":"' + b"x" * (12 << 20)
    for framing, kind in (("ndjson", "syntax"), ("json-seq", "truncated"), ("array", "syntax")):
        stream = PREFIX[framing] + damage + BEHIND[framing].lstrip(b"\n" * (framing == "json-seq"))
        stream += GOOD + END[framing]
        decoder = implementation.JSONStreamDecoder(
            framing=framing, limits=Limits(max_event_bytes=16 << 20)
        )
        flagged, good = observe(decoder, of_size(stream, 65_521)).frames
        assert (flagged.raw, flagged.kind) == (damage, kind)
        assert (good.raw, good.kind) == (GOOD, None)


def test_what_outgrew_the_limit_is_not_held(
    implementation: Implementation, run_python: Callable[..., str]
) -> None:
    """Strings, keys, white space, brackets, garbage and objects in it, without end."""
    limit, total, framings = {
        "rust": (1 << 20, 24 << 20, FRAMINGS),
        "reference": (1 << 18, 1 << 19, ("concatenated",)),
    }[implementation.name]
    module = MODULES[implementation.name]
    grown = int(run_python("endless_json.py", module, limit, total, *framings))
    assert grown <= 3 * limit + (1 << 20)


def test_error_object_in_place_of_a_stream_is_seen(implementation: Implementation) -> None:
    body = json.dumps({"error": {"code": 429, "message": "slow down"}}, indent=2).encode()
    (frame,) = observe(implementation.JSONStreamDecoder(), byte_by_byte(body)).frames
    assert json.loads(frame.raw)["error"]["code"] == 429
    for framing, kind in (("array", "garbage"), ("json-seq", "garbage")):
        decoder = implementation.JSONStreamDecoder(framing=framing)
        (frame,) = observe(decoder, byte_by_byte(body)).frames
        assert (frame.raw, frame.kind) == (body, kind)
        assert not decoder.array_closed


def test_html_and_compressed_bytes_give_no_value(implementation: Implementation) -> None:
    page = b"<!DOCTYPE html>\n<html><body class='e'>502 Bad Gateway {x}</body></html>\n"
    compressed = bytes.fromhex("1f8b0800000000000003ab564a2e2d2a4acd2b51b2520200") + b"\xff{}" * 9
    for body in (page, compressed):
        for framing in FRAMINGS:
            for chunks in cuts(body):
                decoder = implementation.JSONStreamDecoder(framing=framing)
                frames = observe(decoder, chunks).frames
                assert decoder.stats.frames == 0
                assert frames != []


def test_limit_errors_hold_no_payload(implementation: Implementation) -> None:
    decoder = implementation.JSONStreamDecoder(limits=Limits(max_event_bytes=10))
    with pytest.raises(LimitExceededError) as caught:
        decoder.feed(b'{"secret":"the prompt"}')
    shown: list[Any] = [str(caught.value), repr(caught.value), vars(caught.value)]
    assert "secret" not in repr(shown)
    assert "prompt" not in repr(shown)
