"""`UTF8Decoder`, against CPython's own incremental decoder and beyond it."""

from __future__ import annotations

import array
import codecs
import io
import pickle
import re
import sys
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from conftest import Implementation
from fragmentations import at_cuts, byte_by_byte, fragmentations, two_way_splits
from reentrant_buffer import ReentrantBuffer
from seamstream import UTF8DecodeError
from stream_strategies import ILL_FORMED, SPECIAL, runs
from whole_stream import BOM, replaced

texts = st.lists(
    st.one_of(
        st.sampled_from([*ILL_FORMED, *SPECIAL, b"a", b"\n", "é".encode()]),
        st.binary(max_size=3),
        runs,
    ),
    max_size=8,
).map(b"".join)


def codec_attempt(call: Any, *arguments: Any) -> tuple[str, UnicodeDecodeError | None]:
    """The text that CPython's codec gives, or its error."""
    try:
        return call(*arguments), None
    except UnicodeDecodeError as error:
        return "", error


def decode_all(decoder: Any, chunks: Any) -> str:
    return "".join(map(decoder.decode, chunks)) + decoder.decode(b"", final=True)


@given(text=texts, cuts=st.lists(st.integers(0, 300), max_size=8), skip_bom=st.booleans())
def test_replacing_gives_what_decoding_the_whole_gives(
    implementation: Implementation, text: bytes, cuts: list[int], skip_bom: bool
) -> None:
    decoder = implementation.UTF8Decoder(skip_bom=skip_bom)
    chunks = at_cuts(text, [min(cut, len(text)) for cut in cuts])
    expected = text.decode("utf-8", "replace")
    if skip_bom:
        expected = expected.removeprefix("\ufeff")
    assert decode_all(decoder, chunks) == expected
    assert decoder.replaced == replaced(text)


@given(text=texts, cuts=st.lists(st.integers(0, 300), max_size=8))
def test_every_call_gives_what_the_codec_gives(
    implementation: Implementation, text: bytes, cuts: list[int]
) -> None:
    # ED and a byte from A0 on are hopeless at once; the codec waits for a third byte.
    assume(not re.search(rb"\xed[\xa0-\xbf]", text))
    for errors in ("replace", "strict"):
        ours = implementation.UTF8Decoder(errors)
        codec = codecs.getincrementaldecoder("utf-8")(errors)
        for chunk in at_cuts(text, [min(cut, len(text)) for cut in cuts]):
            expected, theirs = codec_attempt(codec.decode, chunk)
            if theirs is not None:
                with pytest.raises(UTF8DecodeError) as caught:
                    ours.decode(chunk)
                assert caught.value.reason == theirs.reason
                assert caught.value.object == theirs.object[theirs.start : theirs.end]
                break
            assert ours.decode(chunk) == expected
            assert ours.getstate()[0] == codec.getstate()[0]


@given(text=texts, cuts=st.lists(st.integers(0, 300), max_size=8))
def test_strict_reports_the_first_ill_formed_sequence_at_its_absolute_offset(
    implementation: Implementation, text: bytes, cuts: list[int]
) -> None:
    decoder = implementation.UTF8Decoder("strict")
    chunks = at_cuts(text, [min(cut, len(text)) for cut in cuts])
    expected, theirs = codec_attempt(text.decode)
    if theirs is None:
        assert decode_all(decoder, chunks) == expected
        return
    with pytest.raises(UTF8DecodeError) as caught:
        decode_all(decoder, chunks)
    ours = caught.value
    assert ours.offset == theirs.start
    assert ours.object == theirs.object[theirs.start : theirs.end]
    assert ours.reason == theirs.reason
    at_end = theirs.reason == "unexpected end of data"
    assert ours.kind == ("truncated" if at_end else "ill-formed")


@given(text=texts, cuts=st.lists(st.integers(0, 300), max_size=8), skip_bom=st.booleans())
def test_compiled_does_exactly_what_the_reference_does(
    compiled: Implementation,
    reference: Implementation,
    text: bytes,
    cuts: list[int],
    skip_bom: bool,
) -> None:
    def calls(implementation: Implementation, errors: str) -> list[Any]:
        decoder = implementation.UTF8Decoder(errors, skip_bom=skip_bom)
        log: list[Any] = []
        chunks = at_cuts(text, [min(cut, len(text)) for cut in cuts])
        for number, chunk in enumerate([*chunks, b"", b"", BOM]):
            try:
                log.append(decoder.decode(chunk, number >= len(chunks)))
            except UTF8DecodeError as error:
                log.append((str(error), vars(error), error.object, error.reason))
            log.append((decoder.getstate(), decoder.replaced, decoder.errors))
        return log

    for errors in ("replace", "strict"):
        assert calls(compiled, errors) == calls(reference, errors)


def test_character_cut_anywhere_comes_out_whole_with_its_last_byte(
    implementation: Implementation,
) -> None:
    decoder = implementation.UTF8Decoder()
    pieces = [decoder.decode(byte) for byte in byte_by_byte("aé漢🚀".encode())]
    assert pieces == ["a", "", "é", "", "", "漢", "", "", "", "🚀"]
    assert decoder.decode(b"", final=True) == ""
    assert decoder.replaced == 0


def test_ill_formed_sequence_is_replaced_as_soon_as_it_is_known(
    implementation: Implementation,
) -> None:
    decoder = implementation.UTF8Decoder()
    stream = bytes.fromhex("f09f61 ff eda0 e282e282ac c0af")
    pieces = [decoder.decode(byte) for byte in byte_by_byte(stream)]
    # F0 9F may still become a character; ED may not with A0, nor C0 with anything.
    assert pieces == [
        *("", "", "\ufffda", "\ufffd"),
        *("", "\ufffd\ufffd", "", "", "\ufffd", "", "€"),
        *("\ufffd", "\ufffd"),
    ]
    assert decoder.replaced == 7


def test_tail_is_flushed_at_the_end_and_never_lost(implementation: Implementation) -> None:
    for tail in (b"\xc3", b"\xe6\xbc", b"\xf0\x9f\x9a"):
        decoder = implementation.UTF8Decoder()
        assert decoder.decode(b"x" + tail) == "x"
        assert decoder.replaced == 0
        assert decoder.decode(b"", final=True) == "\ufffd"
        assert decoder.replaced == 1
        assert decoder.decode(b"", final=True) == ""
        assert decoder.decode(b"y" + tail, True) == "y\ufffd"
        assert decoder.decode(b"z") == "z"
        assert decoder.replaced == 2


def test_sent_replacement_characters_are_not_counted(implementation: Implementation) -> None:
    stream = "\ufffda\ufffd".encode() + b"\xef\xbf" + "\ufffd".encode()
    for chunks in fragmentations(stream):
        decoder = implementation.UTF8Decoder()
        assert decode_all(decoder, chunks) == "\ufffda\ufffd\ufffd\ufffd"
        assert decoder.replaced == 1


def test_one_byte_order_mark_is_dropped_on_request(implementation: Implementation) -> None:
    for chunks in fragmentations(BOM + BOM + b"x" + BOM):
        kept, dropped = implementation.UTF8Decoder(), implementation.UTF8Decoder(skip_bom=True)
        assert decode_all(kept, chunks) == "\ufeff\ufeffx\ufeff"
        assert decode_all(dropped, chunks) == "\ufeffx\ufeff"
    for partial in (BOM[:1], BOM[:2]):
        decoder = implementation.UTF8Decoder(skip_bom=True)
        assert decoder.decode(partial) == ""
        assert decoder.decode(b"", final=True) == "\ufffd"
        assert decoder.decode(BOM) == "\ufeff"
        strict = implementation.UTF8Decoder("strict", skip_bom=True)
        strict.decode(partial)
        with pytest.raises(UTF8DecodeError) as caught:
            strict.decode(b"", final=True)
        assert (caught.value.offset, caught.value.object) == (0, partial)


def test_strict_error_says_what_and_where(implementation: Implementation) -> None:
    decoder = implementation.UTF8Decoder("strict")
    assert decoder.decode("é".encode() * 2000 + b"secret") == "é" * 2000 + "secret"
    assert decoder.decode(b"more\xe2") == "more"
    with pytest.raises(UTF8DecodeError) as caught:
        decoder.decode(b"\x82(secret")
    error = caught.value
    # 4,006 and 4 bytes before it, of which one call held back the lead byte.
    assert error.offset == 4010
    assert (error.encoding, error.object, error.start, error.end) == ("utf-8", b"\xe2\x82", 0, 2)
    assert error.reason == "invalid continuation byte"
    assert error.kind == "ill-formed"
    assert str(error) == "ill-formed utf-8 at byte 4010: 0xe2 0x82"
    with pytest.raises(UTF8DecodeError) as caught:
        implementation.UTF8Decoder("strict").decode(b"x\xf0\x9f", final=True)
    assert (caught.value.kind, caught.value.offset) == ("truncated", 1)
    assert caught.value.reason == "unexpected end of data"
    with pytest.raises(UTF8DecodeError) as caught:
        implementation.UTF8Decoder("strict").decode(b"\xff")
    assert caught.value.reason == "invalid start byte"


def test_strict_error_counts_a_dropped_byte_order_mark(implementation: Implementation) -> None:
    for chunks in two_way_splits(BOM + b"ab\xff"):
        decoder = implementation.UTF8Decoder("strict", skip_bom=True)
        with pytest.raises(UTF8DecodeError) as caught:
            decode_all(decoder, chunks)
        assert caught.value.offset == 5


def test_strict_error_consumes_nothing_of_its_call(implementation: Implementation) -> None:
    decoder = implementation.UTF8Decoder("strict")
    assert decoder.decode(b"ab\xe6\xbc") == "ab"
    for _ in range(2):
        with pytest.raises(UTF8DecodeError) as caught:
            decoder.decode(b"\xa2cd\xff")
        assert caught.value.offset == 7
        assert decoder.getstate()[0] == b"\xe6\xbc"
    assert decoder.decode(b"\xa2cd") == "漢cd"


def test_state_can_be_taken_to_another_decoder(implementation: Implementation) -> None:
    for stream in ("a漢🚀b".encode(), BOM + b"x", b"a\xf0\x9f"):
        for first, second in two_way_splits(stream):
            for skip_bom in (False, True):
                one = implementation.UTF8Decoder(skip_bom=skip_bom)
                text = one.decode(first)
                other = implementation.UTF8Decoder(skip_bom=skip_bom)
                other.decode(b"something else \xe6")
                other.setstate(one.getstate())
                expected = stream.decode("utf-8", "replace")
                if skip_bom:
                    expected = expected.removeprefix("\ufeff")
                assert text + other.decode(second, final=True) == expected


def test_state_says_what_is_held_and_whether_the_stream_has_begun(
    implementation: Implementation,
) -> None:
    decoder = implementation.UTF8Decoder(skip_bom=True)
    states = [decoder.getstate()]
    for chunk in (b"", BOM[:1], BOM[1:2], BOM[2:], b"\xf0\x9f", b"\x9a\x80"):
        decoder.decode(chunk)
        states.append(decoder.getstate())
    assert states == [
        *[(b"", 0)] * 2,
        (BOM[:1], 0),
        (BOM[:2], 0),
        (b"", 1),
        (b"\xf0\x9f", 1),
        (b"", 1),
    ]
    decoder.reset()
    assert decoder.getstate() == (b"", 0)


def test_setstate_refuses_what_no_decoder_can_hold(implementation: Implementation) -> None:
    decoder = implementation.UTF8Decoder()
    decoder.decode(b"\xe6\xbc")
    for wrong in (None, 5, (b"",), (b"", 0, 0), ("", 0), (b"", "0"), (None, 0), (b"", None)):
        with pytest.raises(TypeError):
            decoder.setstate(wrong)
    for wrong in ((b"a", 1), (b"\xff", 1), (b"\xf0\x9f\x9a\x80", 1), (b"\xe6\xe6", 1)):
        with pytest.raises(ValueError):
            decoder.setstate(wrong)
    assert decoder.decode(b"\xa2") == "漢"


def test_offsets_count_from_reset_and_setstate(implementation: Implementation) -> None:
    decoder = implementation.UTF8Decoder("strict")

    def offset(chunk: bytes) -> int:
        with pytest.raises(UTF8DecodeError) as caught:
            decoder.decode(chunk)
        return caught.value.offset

    decoder.decode(b"abc")
    assert offset(b"d\xff") == 4
    decoder.setstate((b"\xe6\xbc", 1))
    assert offset(b"\xa2\xff") == 3
    decoder.reset()
    assert offset(b"\xff") == 0


def test_reset_forgets_all_and_setstate_keeps_the_count(implementation: Implementation) -> None:
    decoder = implementation.UTF8Decoder(skip_bom=True)
    assert decoder.decode(BOM + b"\xff\xe6") == "\ufffd"
    decoder.setstate((b"", 0))
    assert decoder.replaced == 1
    assert decoder.decode(BOM + b"\xff\xe6") == "\ufffd"
    assert decoder.replaced == 2
    decoder.reset()
    assert decoder.replaced == 0
    assert decoder.decode(BOM + b"x") == "x"


def test_decoder_serves_where_a_codec_decoder_does(implementation: Implementation) -> None:
    stream = "one 漢\r\ntwo 🚀\nthree".encode()
    newlines = io.IncrementalNewlineDecoder(implementation.UTF8Decoder(), translate=True)
    text = "".join(map(newlines.decode, byte_by_byte(stream))) + newlines.decode(b"", final=True)
    assert text == "one 漢\ntwo 🚀\nthree"
    state = newlines.getstate()
    newlines.reset()
    newlines.setstate(state)


def test_decode_takes_any_contiguous_buffer(implementation: Implementation) -> None:
    for buffer in (
        bytearray(b"text"),
        memoryview(b"text"),
        memoryview(b"xtextx")[1:-1],
        array.array("i", b"text"),
    ):
        assert implementation.UTF8Decoder().decode(buffer) == "text"
    buffer = bytearray(b"te\xc3")
    decoder = implementation.UTF8Decoder()
    assert decoder.decode(data=buffer, final=False) == "te"
    buffer.extend(b"no buffer is exported")
    buffer[2] = 0
    assert decoder.decode(b"\xa9") == "é"


def test_decode_refuses_what_is_no_buffer_and_stays_unharmed(
    implementation: Implementation,
) -> None:
    decoder = implementation.UTF8Decoder()
    decoder.decode(b"\xe6\xbc")
    with pytest.raises(TypeError, match="encode"):
        decoder.decode("text")
    for wrong in (None, 5, [b""], object()):
        with pytest.raises(TypeError):
            decoder.decode(wrong)
    with pytest.raises(BufferError):
        decoder.decode(memoryview(b"abcd")[::2])
    with pytest.raises(TypeError):
        decoder.decode()
    assert decoder.decode(b"\xa2") == "漢"


def test_constructor_refuses_wrong_arguments(implementation: Implementation) -> None:
    for wrong in ("ignore", "surrogateescape", "", "Strict"):
        with pytest.raises(ValueError, match=r"'replace'.*'strict'"):
            implementation.UTF8Decoder(wrong)
    for wrong in (None, 1, b"strict"):
        with pytest.raises(TypeError):
            implementation.UTF8Decoder(wrong)
    with pytest.raises(TypeError):
        implementation.UTF8Decoder("strict", True)
    assert implementation.UTF8Decoder().errors == "replace"
    assert implementation.UTF8Decoder(errors="strict").errors == "strict"


def test_decoder_is_final_and_cannot_be_pickled(implementation: Implementation) -> None:
    with pytest.raises(TypeError):
        type("Derived", (implementation.UTF8Decoder,), {})
    with pytest.raises(TypeError):
        pickle.dumps(implementation.UTF8Decoder())
    for name in ("errors", "replaced", "new"):
        with pytest.raises(AttributeError):
            setattr(implementation.UTF8Decoder(), name, 1)


def test_every_three_byte_sequence_of_telling_bytes_is_decoded_as_the_codec_does(
    implementation: Implementation,
) -> None:
    """All combinations of the bytes at the edges of the tables, at every cut."""
    edges = bytes.fromhex(
        "00 41 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 ff"
    )
    for first in edges:
        for second in edges:
            for third in edges:
                sequence = bytes((first, second, third))
                expected = sequence.decode("utf-8", "replace")
                for chunks in (byte_by_byte(sequence), [sequence]):
                    assert decode_all(implementation.UTF8Decoder(), chunks) == expected, sequence


def test_large_input_is_decoded_whole(implementation: Implementation) -> None:
    text = "漢字とEnglish and 🚀 " * 20_000
    stream = text.encode()
    for size in (len(stream), 4093):
        decoder = implementation.UTF8Decoder()
        chunks = [stream[i : i + size] for i in range(0, len(stream), size)]
        assert decode_all(decoder, chunks) == text
    assert decoder.replaced == 0


if sys.version_info >= (3, 12):

    def test_reentry_from_a_buffer_is_refused_and_the_outer_call_goes_on(
        implementation: Implementation,
    ) -> None:
        decoder = implementation.UTF8Decoder()
        decoder.decode(b"\xe6\xbc")
        buffer = ReentrantBuffer(b"\xa2", lambda: decoder.decode(b"\xa2"))
        assert decoder.decode(buffer) == "漢"
        assert buffer.refused == 1
