"""Hypothesis strategies: bytes that look like JSON streams, ways to cut them, and options."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from fragmentations import at_cuts
from frame_observations import FRAMINGS
from stream_strategies import ILL_FORMED, RUN_LENGTHS
from whole_json_stream import BOM, DEFAULT_LIMIT

TOKENS = [b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\"]
WHITE_SPACE = [b" ", b"\n", b"\t", b"\r", b"\r\n", b"\n,", b"\n]", b",\n", b"  "]
SCALARS = [
    *(b"0", b"-1.5e3", b"12", b"-", b"01", b"1.", b"2e", b"1e999", b"18446744073709551616"),
    *(b"true", b"false", b"null", b"tru", b"nul", b"NaN", b"Infinity", b"x"),
    *(b'"a"', b'""', b'"', b'"\\u00e9"', b'"\\ud83d\\ude80"', b'"\\ud800"', b'"\\x"', b"'a'"),
]
IN_STRINGS = [b'\\"', b"\\\\", b"\\u12", b"\\ud800", b"{", b'{"', b'{ "', b"}", b"\x00", b"\x1f"]
VALUES = [
    *(b"{}", b"[]", b'{"a":1}', b'{"b": [1, 2]}', b'{"c":{"d":"x"}}', b'{"":1}', b"[1,2]"),
    *(b'{"a":"{"}', b'{"a":1,}', b'{"k":"\xff"}', b"[[[[", b"]]]]", b'{"a":{"b":', b"[1\n,"),
    *(b'{\n "a": 1\n}', b'{"text":"', b'"},{"x":2}', b'{"error":{"code":5}}'),
]
SPECIAL = [BOM, BOM[:1], BOM[:2], b"\x1e", b"\x1e\x1e", b"\x0b", b"\xc2\xa0", "漢🚀".encode()]

runs = st.builds(
    lambda unit, length: (unit * length)[:length],
    st.sampled_from([b"x", "漢".encode(), b" ", b"[", b'"', b"\\", b"1"]),
    st.sampled_from([*RUN_LENGTHS, 200]),
)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        st.sampled_from(['{"', '"}', "{ ", "\n,", "],[", "\x1e", "\\", '"']),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), inner),
    ),
    max_leaves=6,
)
json_texts = st.builds(
    lambda value, ascii_only, indent: json.dumps(
        value, ensure_ascii=ascii_only, indent=indent
    ).encode(),
    json_values,
    st.booleans(),
    st.sampled_from([None, None, 0, 1]),
)
pieces = st.one_of(
    st.sampled_from(TOKENS),
    st.sampled_from([*WHITE_SPACE, *SPECIAL]),
    st.sampled_from([*SCALARS, *IN_STRINGS]),
    st.sampled_from(VALUES),
    st.sampled_from(ILL_FORMED),
    json_texts,
    st.binary(max_size=3),
    runs,
)


@st.composite
def broken_texts(draw: st.DrawFn) -> bytes:
    """A text with one stretch of it replaced."""
    text = draw(json_texts)
    begin = draw(st.integers(0, len(text)))
    end = draw(st.integers(begin, min(len(text), begin + 3)))
    return text[:begin] + draw(st.one_of(st.just(b""), pieces)) + text[end:]


PREFIXES = {"concatenated": b"", "ndjson": b"", "array": b"[", "json-seq": b"\x1e"}
SEPARATORS = {
    "concatenated": [b"", b"", b"\n", b" ", b","],
    "ndjson": [b"\n", b"\n", b"\r\n", b"\n\n", b""],
    "array": [b",", b",\n", b"\n,\n", b",,", b"", b"]"],
    "json-seq": [b"\n\x1e", b"\n\x1e", b"\x1e", b"\n", b" \n\x1e\x1e"],
}


@st.composite
def json_streams(draw: st.DrawFn, framing: str, max_pieces: int = 12) -> bytes:
    """Arbitrary bytes, with a strong leaning to what a JSON stream in a framing is made of."""
    prefix = draw(st.sampled_from([b"", *[PREFIXES[framing]] * 4]))
    texts = st.one_of(json_texts, broken_texts(), st.sampled_from(VALUES))
    separators = st.sampled_from(SEPARATORS[framing])
    framed = st.builds(bytes.__add__, texts, separators)
    body = draw(
        st.one_of(
            st.lists(framed, max_size=max_pieces // 2).map(b"".join),
            st.lists(st.one_of(framed, pieces, separators), max_size=max_pieces).map(b"".join),
            st.lists(pieces, max_size=max_pieces).map(b"".join),
        )
    )
    return prefix + body + draw(st.sampled_from([b"", b"", b"]", b"\n"]))


@st.composite
def cut_json_streams(
    draw: st.DrawFn, max_pieces: int = 12, framings: tuple[str, ...] = FRAMINGS
) -> tuple[str, bytes, list[bytes]]:
    """A framing, a stream and one way to cut it, with empty chunks at times."""
    framing = draw(st.sampled_from(framings))
    stream = draw(json_streams(framing, max_pieces))
    cuts = draw(st.lists(st.integers(0, len(stream)), max_size=12))
    return framing, stream, at_cuts(stream, cuts)


# What the model in whole_json_stream.py takes; a decoder takes the first and the last as `limits`.
json_options: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "limit": st.one_of(st.integers(1, 40), st.sampled_from([64, 100, DEFAULT_LIMIT])),
        "on_limit": st.sampled_from(["error", "skip"]),
        "max_depth": st.sampled_from([1, 2, 3, 1024, 5000]),
    },
)
