"""JSON streams under Hypothesis: arbitrary bytes, arbitrary cuts, all options.

Each implementation is held against the rules applied to the whole stream at once
(whole_json_stream.py), and the two against each other.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conftest import Implementation
from fragmentations import at_cuts, byte_by_byte, of_size
from frame_observations import FRAMINGS, Outcome, SeenFrame, frame_all, observe, seen, state_of
from json_strategies import cut_json_streams, json_options, json_streams, json_texts
from observations import attempt, described, error_of
from pullers import Puller
from seamstream import Limits
from stream_strategies import buffer_types
from whole_json_stream import interpret

Options = dict[str, Any]
CutStream = tuple[str, bytes, list[bytes]]
END = object()


def decoder_with(implementation: Implementation, framing: str, options: Options) -> Any:
    arguments = {"framing": framing, **options}
    limits: Options = {}
    if "limit" in arguments:
        limits["max_event_bytes"] = arguments.pop("limit")
    if "max_depth" in arguments:
        limits["max_depth"] = arguments.pop("max_depth")
    return implementation.JSONStreamDecoder(limits=Limits(**limits), **arguments)


def whole(framing: str, stream: bytes) -> CutStream:
    return framing, stream, [stream]


@given(cut=cut_json_streams(), options=json_options, buffer=buffer_types)
@example(cut=("ndjson", b"\xef\xbb", [b"\xef", b"\xbb"]), options={"limit": 1}, buffer=bytes)
@example(cut=whole("concatenated", b'["{"a":1}'), options={}, buffer=bytearray)
@example(cut=whole("concatenated", b'["{ \n"a":1}[0]'), options={"limit": 3}, buffer=bytes)
@example(
    cut=("concatenated", b'[123, "{   "a":1} ', [b'[123, "{  ', b' "a":1} ']),
    options={"limit": 8, "on_limit": "skip"},
    buffer=bytes,
)
@example(
    cut=("concatenated", b'[123, "{ \n "a":1} ', [b'[123, "{ ', b'\n "a":1} ']),
    options={"limit": 9, "on_limit": "skip"},
    buffer=bytes,
)
@example(
    cut=whole("concatenated", b'x{"a":"\\ud800"} {"b":[{"c":1}]}{"d":1}'),
    options={"max_depth": 2},
    buffer=bytes,
)
@example(cut=whole("array", b"[" + b"[1\n," * 12 + b"}\n,2]"), options={}, buffer=bytes)
@example(cut=whole("array", b'[{"a":"\\x\n,1]'), options={"on_limit": "skip"}, buffer=bytes)
@example(cut=whole("json-seq", b"\x1e[1]\n\x1e12\x1etrue"), options={}, buffer=memoryview)
def test_decoder_gives_the_whole_stream_answer_for_every_cut(
    implementation: Implementation,
    cut: CutStream,
    options: Options,
    buffer: Callable[[bytes], Any],
) -> None:
    framing, stream, chunks = cut
    decoder = decoder_with(implementation, framing, options)
    assert observe(decoder, map(buffer, chunks)) == interpret(stream, framing, **options)


def outcome_so_far(frames: list[SeenFrame], error: Any, decoder: Any) -> Outcome:
    return Outcome(frames, error and error_of(error), state_of(decoder))


@given(cut=cut_json_streams(max_pieces=5), options=json_options)
@example(cut=("array", b"\xef\xbb\xbf[", []), options={})
@example(cut=("concatenated", b'x{"a":1 }  {"b', []), options={"limit": 9, "on_limit": "skip"})
def test_decoder_state_after_every_byte_is_that_of_the_prefix(
    implementation: Implementation, cut: CutStream, options: Options
) -> None:
    framing, stream, _ = cut
    decoder = decoder_with(implementation, framing, options)
    frames: list[SeenFrame] = []
    for position, byte in enumerate(byte_by_byte(stream[:60]), 1):
        settled, error = attempt(decoder.feed, byte)
        frames.extend(map(seen, settled or ()))
        expected = interpret(stream[:position], framing, closed=False, **options)
        assert outcome_so_far(frames, error, decoder) == expected
        if error is not None:
            break


@given(cut=cut_json_streams(max_pieces=7), options=json_options)
def test_every_chunk_brings_what_it_settles_and_errors_come_at_once_or_next(
    implementation: Implementation, cut: CutStream, options: Options
) -> None:
    framing, _, chunks = cut
    decoder = decoder_with(implementation, framing, options)
    fed, frames, held = b"", list[SeenFrame](), False
    for chunk in [*chunks, b""]:
        if not held:
            fed += chunk
        expected = interpret(fed, framing, closed=False, **options)
        settled, error = attempt(decoder.feed, chunk)
        if error is not None:
            # At once if nothing was settled in this chunk, else by the next call.
            assert outcome_so_far(frames, error, decoder) == expected
            break
        assert not held
        assert (settled != ()) == (len(expected.frames) > len(frames))
        frames.extend(map(seen, settled))
        held = expected.error is not None
        assert Outcome(frames, expected.error, state_of(decoder)) == expected
    else:
        assert not held


@given(cut=cut_json_streams(), options=json_options, buffer=buffer_types)
def test_compiled_does_exactly_what_the_reference_does(
    compiled: Implementation,
    reference: Implementation,
    cut: CutStream,
    options: Options,
    buffer: Callable[[bytes], Any],
) -> None:
    """Call by call: results, errors, and the whole state after each call."""
    framing, _, chunks = cut

    def calls(implementation: Implementation) -> list[Any]:
        decoder = decoder_with(implementation, framing, options)
        log: list[Any] = []

        def record(call: Callable[..., Any], *arguments: Any) -> None:
            frames, error = attempt(call, *arguments)
            if error is not None:
                log.append(described(error))
            log.append([(seen(f), repr(f), *parsed(f)) for f in frames or ()])
            log.append(state_of(decoder))

        for chunk in chunks:
            record(decoder.feed, buffer(chunk))
        for _ in range(3):
            record(decoder.close)
        record(decoder.feed, b'{"late":1}\n')
        record(decoder.reset)
        record(decoder.feed, b'[{"anew":1}\n')
        return log

    assert calls(compiled) == calls(reference)


def parsed(frame: Any) -> tuple[Any, ...]:
    """What `json()` and `value` give; as text, in which NaN is itself and 1 is not 1.0."""
    value, error = attempt(frame.json)
    if error is None:
        return repr(value), repr(frame.value), None
    return repr(frame.value), described(error), repr(error.__cause__)


@given(
    cut=cut_json_streams(),
    done=st.sampled_from([None, b"", b'{"a":1}', b"\t[] ", b",", b"x"]),
    options=json_options,
)
@example(cut=whole("array", b"[[1\n,}]"), done=b"[1", options={})
@example(cut=whole("array", b"[[1\n,}]"), done=b"", options={})
@example(cut=whole("concatenated", b'x{"a":1} 2'), done=b"x", options={})
def test_compiled_iterators_do_exactly_what_those_of_the_reference_do(
    compiled: Implementation,
    reference: Implementation,
    cut: CutStream,
    done: bytes | None,
    options: Options,
) -> None:
    """The decoder's state included, as it stands after each frame taken."""
    framing, _, chunks = cut

    def steps(implementation: Implementation, puller: Puller) -> list[Any]:
        decoder = decoder_with(implementation, framing, options)
        iterator = puller.open(decoder, chunks, done=done)
        log: list[Any] = []
        frame: Any = None
        while frame is not END:
            frame, error = attempt(puller.next, iterator, END)
            what = seen(frame) if frame not in (None, END) else error and described(error)
            log.append((what, state_of(decoder)))
        log.append(attempt(decoder.feed, b"0 ")[1] is None)
        return log

    expected = steps(reference, Puller("iter"))
    assert steps(compiled, Puller("iter")) == expected
    assert steps(reference, Puller("aiter")) == expected
    assert steps(compiled, Puller("aiter")) == expected


@given(cut=cut_json_streams(), options=json_options)
def test_iterator_gives_what_feed_and_close_give(
    implementation: Implementation, cut: CutStream, options: Options
) -> None:
    framing, stream, chunks = cut
    decoder = decoder_with(implementation, framing, options)
    frames: list[SeenFrame] = []
    _, error = attempt(frames.extend, map(seen, decoder.iter(chunks)))
    assert outcome_so_far(frames, error, decoder) == interpret(stream, framing, **options)


@given(cut=cut_json_streams(), limit=st.integers(1, 60))
def test_no_more_is_pending_than_the_limit(
    implementation: Implementation, cut: CutStream, limit: int
) -> None:
    framing, _, chunks = cut
    decoder = decoder_with(implementation, framing, {"limit": limit, "on_limit": "skip"})
    for chunk in chunks:
        for frame in decoder.feed(chunk):
            assert len(frame.raw) <= limit
        assert decoder.pending_bytes <= limit


@given(cut=cut_json_streams())
def test_values_are_what_orjson_takes_and_errors_what_it_does_not(
    implementation: Implementation, cut: CutStream
) -> None:
    framing, stream, chunks = cut
    for frame in observe(implementation.JSONStreamDecoder(framing=framing), chunks).frames:
        accepted = attempt_orjson(frame.raw)
        if frame.kind is None and not frame.torn:
            assert accepted
            assert frame.raw.strip(b" \t\n\r") == frame.raw
        elif frame.kind == "syntax":
            assert not accepted
        if frame.kind != "oversize":
            assert stream[frame.offset :].startswith(frame.raw)
        if frame.torn:
            assert stream[frame.offset :] == frame.raw


def attempt_orjson(raw: bytes) -> bool:
    try:
        orjson.loads(raw)
    except orjson.JSONDecodeError:
        return False
    return True


@given(stream=json_streams("ndjson"))
def test_ndjson_value_is_every_line_that_orjson_takes(
    implementation: Implementation, stream: bytes
) -> None:
    lines = [line for line in stream.split(b"\n") if line.strip(b" \t\r")]
    if stream.startswith(b"\xef\xbb\xbf"):
        lines = [line for line in stream[3:].split(b"\n") if line.strip(b" \t\r")]
    frames = frame_all(implementation, stream + b"\n", framing="ndjson")
    assert [frame.raw for frame in frames] == [line.strip(b" \t\r") for line in lines]
    assert [frame.kind is None for frame in frames] == list(map(attempt_orjson, lines))


@given(texts=st.lists(json_texts, max_size=6), data=st.data())
def test_texts_that_are_framed_well_all_come_out(
    implementation: Implementation, texts: list[bytes], data: st.DataObject
) -> None:
    """As they were sent, and as the values that they are, in any framing and cut."""
    one_line = [b" ".join(text.split(b"\n")) for text in texts]
    streams = {
        "concatenated": b"".join(text + b"\n" for text in texts),
        "ndjson": b"".join(text + b"\n" for text in one_line),
        "array": b"[" + b",".join(texts) + b"]",
        "json-seq": b"".join(b"\x1e" + text + b"\n" for text in texts),
    }
    for framing in FRAMINGS:
        stream = streams[framing]
        cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=5))
        decoder = implementation.JSONStreamDecoder(framing=framing, loads=json.loads)
        chunks = at_cuts(stream, cuts)
        frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
        frames += decoder.close()
        assert [frame.raw for frame in frames] == (one_line if framing == "ndjson" else texts)
        assert [frame.json() for frame in frames] == list(map(json.loads, texts))
        assert decoder.array_closed is (True if framing == "array" else None)
        assert decoder.stats.frames == len(texts)
        assert decoder.at_boundary


@given(text=json_texts, data=st.data())
def test_glued_objects_and_arrays_need_nothing_between_them(
    implementation: Implementation, text: bytes, data: st.DataObject
) -> None:
    unit = b"[" + text + b"]" + b'{"k":' + text + b"}" + b'"s"'
    cuts = data.draw(st.lists(st.integers(0, 3 * len(unit)), max_size=5))
    frames = frame_all(implementation, *at_cuts(unit * 3, cuts))
    assert [frame.raw for frame in frames] == [
        *(b"[" + text + b"]", b'{"k":' + text + b"}", b'"s"')
    ] * 3


@given(text=json_texts, cut=st.data())
def test_text_that_is_cut_anywhere_is_torn_and_never_a_wrong_value(
    implementation: Implementation, text: bytes, cut: st.DataObject
) -> None:
    text = b'{"k":' + text + b"}"
    part = text[: cut.draw(st.integers(1, len(text) - 1))]
    for framing, prefix in zip(FRAMINGS, (b"", b"", b"[", b"\x1e"), strict=True):
        if framing == "ndjson" and b"\n" in part:
            continue
        assert frame_all(implementation, prefix + part, framing=framing) == [
            SeenFrame(part, None, len(prefix), torn=True)
        ]


class Alphabet(NamedTuple):
    """Pieces of which every sequence of a length is made, between two parts that stay."""

    framing: str
    before: bytes
    pieces: list[bytes]
    length: int
    behind: bytes


IN_STEP_AGAIN = b'{"k":1} 5 '
ALPHABETS = {
    "values": Alphabet(
        "concatenated", b"", [b'{"a":1}', b"[", b"]", b",", b"12", b'"s"', b" ", b"x"], 4, b""
    ),
    "out of step": Alphabet(
        *("concatenated", b'["a', [b"{", b'"', b"a", b":1", b"}", b",", b" ", b"\n"]),
        *(4, IN_STEP_AGAIN),
    ),
    "farther out of step": Alphabet(
        "concatenated", b'["a', [b"{", b'"', b"a", b'":1', b"}", b","], 5, IN_STEP_AGAIN
    ),
    "garbage": Alphabet(
        *("concatenated", b"x", [b"{", b'"a"', b":", b"[", b"]", b"}", b"\\", b" "]),
        *(4, IN_STEP_AGAIN),
    ),
    "lines": Alphabet("ndjson", b"", [b"1", b"\n", b" ", b"[]", b"x", b'"', b"\r"], 4, b""),
    "elements": Alphabet("array", b"[", [b"[", b"1", b"\n", b",", b"}", b'"a"', b"]"], 5, b"\n,9]"),
    "lost": Alphabet(
        *("array", b'[{"a":', [b"{", b"}", b"[", b"]", b",", b'"', b"\\", b"x", b"\n"]),
        *(4, b"},5]"),
    ),
    "lost in a string": Alphabet(
        "array", b'[["a\t', [b"]", b",", b'"', b"\\", b"x", b"\n", b":"], 5, b"},5]"
    ),
    "records": Alphabet(
        "json-seq", b"\x1e", [b"\x1e", b"1", b"\n", b" ", b"[", b"]", b"x"], 5, b""
    ),
}


@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_every_short_sequence_of_pieces_comes_out_by_the_rules(
    implementation: Implementation, alphabet: str
) -> None:
    framing, before, pieces, length, behind = ALPHABETS[alphabet]
    all_options: list[Options] = [
        {"limit": limit, "on_limit": on_limit, "max_depth": 1 + limit % 3}
        for limit in (1, 2, 3, 4, 5, 6, 8, 11)
        for on_limit in ("error", "skip")
    ]
    for number, sequence in enumerate(itertools.product(pieces, repeat=length)):
        stream = before + b"".join(sequence) + behind
        cut = number % len(stream)
        for options in ({}, all_options[number % len(all_options)]):
            decoder = decoder_with(implementation, framing, options)
            outcome = observe(decoder, [stream[:cut], stream[cut:]])
            assert outcome == interpret(stream, framing, **options), (stream, cut, options)


def test_special_bytes_are_found_at_every_place_of_strings_of_every_length(
    implementation: Implementation,
) -> None:
    """Strings around the widths of vector registers, with one other byte somewhere in them."""
    lengths = [*range(36), *range(60, 70), *range(124, 132)]
    for special in (b"{", b'\\"', b"\\\\", b"\n", b"\x1f", b"\x7f", b"\xff", "é".encode()):
        texts = [
            b'{"k":["' + b"x" * place + special + b"y" * (length - place) + b'"]}'
            for length in lengths
            for place in range(length + 1)
        ]
        for framing, prefix, separator in (
            ("concatenated", b"", b""),
            ("ndjson", b"", b"\n"),
            ("array", b"[", b",\n"),
            ("json-seq", b"\x1e", b"\n\x1e"),
        ):
            stream = prefix + separator.join(texts)
            if framing == "array" and special == b"\n":
                continue  # the rest would be lost, by the rules
            expected = interpret(stream[:6000], framing).frames
            for chunks in ([stream[:6000]], of_size(stream[:6000], 67)):
                decoder = implementation.JSONStreamDecoder(framing=framing)
                assert observe(decoder, chunks).frames == expected
            if attempt_orjson(texts[0]):
                assert [f.raw for f in frame_all(implementation, stream, framing=framing)] == texts


def test_white_space_of_every_length_is_skipped(implementation: Implementation) -> None:
    for space in (b" ", b"\n", b" \t\r"):
        runs = [(space * length)[:length] for length in range(140)]
        texts = [b"{" + run + b'"k"' + run + b":" + run + b"1" + run + b"}" for run in runs]
        stream = b"".join(run + text for run, text in zip(runs, texts, strict=True))
        for chunks in ([stream], of_size(stream, 61)):
            decoder = implementation.JSONStreamDecoder()
            assert [frame.raw for frame in observe(decoder, chunks).frames] == texts
