"""Hypothesis strategies: bytes that look like event streams, ways to cut them, and options."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from fragmentations import at_cuts
from whole_stream import BOM, DEFAULT_LIMIT, PROFILES, REPLACEMENT

# A lead byte alone, cut sequences, a surrogate, an overlong form, beyond U+10FFFF, a lone
# continuation byte, and bytes that never occur.
ILL_FORMED = [
    bytes.fromhex(sequence)
    for sequence in ("c3", "e282", "f09f98", "eda080", "c0af", "f4908080", "80", "ff", "fe")
]
SPECIAL = [BOM, BOM[:1], BOM[:2], b"\0", REPLACEMENT.encode(), "漢".encode(), "🚀".encode()]
TERMINATORS = [b"\n", b"\r", b"\r\n"]
NAMES = [b"data", b"event", b"id", b"retry", b"dat", b"datax", b"Data", b"", b"event ", b"\xff"]
SEPARATORS = [b":", b": ", b":  ", b""]
JSON_PIECES = [b"{", b"}", b'{"a": 1}', b"[DONE]", b"[", b'"', b" "]
DIGITS = [b"0", b"7", b"3000", b"9007199254740991", b"9007199254740992", b"9" * 30, b"-1", b"1.5"]
# Around the widths of vector registers, and past them.
RUN_LENGTHS = sorted({k * width + d for width in (16, 32, 64) for k in (1, 2) for d in (-1, 0, 1)})

runs = st.builds(
    lambda unit, length: (unit * length)[:length],
    st.sampled_from([b"x", "é".encode(), "漢".encode(), "🚀".encode(), b"\x80", b":", b" "]),
    st.sampled_from([*RUN_LENGTHS, 200]),
)
values = st.one_of(
    st.binary(max_size=6),
    st.sampled_from([*ILL_FORMED, *SPECIAL, *JSON_PIECES, *DIGITS]),
    runs,
)
pieces = st.one_of(
    st.sampled_from([*TERMINATORS, *NAMES, *SEPARATORS]),
    values,
)
lines = st.builds(
    lambda name, separator, value, terminator: name + separator + value + terminator,
    st.sampled_from(NAMES),
    st.sampled_from(SEPARATORS),
    st.lists(values, max_size=2).map(b"".join),
    st.sampled_from([*TERMINATORS, b"\n\n", b"\r\r", b"\r\n\r\n", b"\n\r\n", b""]),
)


def streams(max_pieces: int = 12) -> st.SearchStrategy[bytes]:
    """Arbitrary bytes, with a strong leaning to what an event stream is made of."""
    return st.one_of(
        st.lists(lines, max_size=max_pieces).map(b"".join),
        st.lists(st.one_of(lines, pieces), max_size=max_pieces).map(b"".join),
        st.lists(pieces, max_size=max_pieces).map(b"".join),
        st.binary(max_size=40),
    )


@st.composite
def cut_streams(draw: st.DrawFn, max_pieces: int = 12) -> tuple[bytes, list[bytes]]:
    """A stream and one way to cut it, with empty chunks at times."""
    stream = draw(streams(max_pieces))
    cuts = draw(st.lists(st.integers(0, len(stream)), max_size=12))
    return stream, at_cuts(stream, cuts)


buffer_types = st.sampled_from([bytes, bytearray, memoryview])

# What the model in whole_stream.py takes; `limit` becomes `limits` for a decoder.
model_options: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "limit": st.one_of(st.integers(1, 40), st.sampled_from([64, 100, DEFAULT_LIMIT])),
        "on_limit": st.sampled_from(["error", "skip"]),
        "on_torn": st.sampled_from([None, "report", "flush"]),
        "profile": st.sampled_from(PROFILES),
        "keep_wire": st.booleans(),
        "last_event_id": st.sampled_from(["", "earlier", "é🚀"]),
    },
)
