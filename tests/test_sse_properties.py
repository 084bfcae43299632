"""Event streams under Hypothesis: arbitrary bytes, arbitrary cuts, all options.

Each implementation is held against the standard applied to the whole stream at once
(whole_stream.py), and the two against each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from conftest import Implementation
from fragmentations import byte_by_byte, of_size
from observations import Outcome, attempt, described, error_of, observe, seen, state_of
from seamstream import Limits
from stream_strategies import buffer_types, cut_streams, model_options, streams
from whole_stream import interpret

Options = dict[str, Any]
END = object()


def decoder_with(implementation: Implementation, options: Options) -> Any:
    arguments = dict(options)
    if "limit" in arguments:
        arguments["limits"] = Limits(max_event_bytes=arguments.pop("limit"))
    return implementation.SSEDecoder(**arguments)


def without_boundary(outcome: Outcome) -> Outcome:
    """`at_boundary` says nothing once the stream is over."""
    return outcome._replace(state=outcome.state._replace(at_boundary=False))


@given(cut=cut_streams(), options=model_options, buffer=buffer_types)
@example(cut=(b"\xef\xbb", [b"\xef", b"\xbb"]), options={"on_torn": "flush"}, buffer=bytes)
@example(cut=(b"\xef\xbbx", [b"\xef\xbb", b"x"]), options={"limit": 1}, buffer=bytes)
@example(cut=(b"data: x\r\n\r\n", [b"data: x\r", b"\n\r\n"]), options={"limit": 8}, buffer=bytes)
@example(
    cut=(b":c\n\ndata: x\r\rid: 1\n\n", [b":c\n\ndata: x\r", b"\rid: 1\n\n"]),
    options={"keep_wire": True},
    buffer=bytearray,
)
def test_decoder_gives_the_whole_stream_answer_for_every_cut(
    implementation: Implementation,
    cut: tuple[bytes, list[bytes]],
    options: Options,
    buffer: Callable[[bytes], Any],
) -> None:
    stream, chunks = cut
    decoder = decoder_with(implementation, options)
    outcome = observe(decoder, map(buffer, chunks))
    assert without_boundary(outcome) == interpret(stream, **options)


@given(stream=streams(max_pieces=7), options=model_options)
@example(stream=b"\xef\xbb\xbf\n", options={})
@example(stream=b"\xef\xbbdata: x\n\n", options={"limit": 9})
@example(stream=b":ab\r\n:cd\r\nid: 1\r\n\r\n:", options={"keep_wire": True, "limit": 6})
def test_decoder_state_after_every_byte_is_that_of_the_prefix(
    implementation: Implementation, stream: bytes, options: Options
) -> None:
    decoder = decoder_with(implementation, options)
    events = []
    for position, byte in enumerate(byte_by_byte(stream), 1):
        expected = interpret(stream[:position], closed=False, **options)
        completed, error = attempt(decoder.feed, byte)
        events.extend(map(seen, completed or ()))
        assert events == expected.events
        assert state_of(decoder) == expected.state
        if error is not None:
            assert error_of(error) == expected.error
            break
        assert expected.error is None


@given(cut=cut_streams(max_pieces=7), options=model_options)
def test_every_chunk_brings_what_it_completes_and_errors_come_at_once_or_next(
    implementation: Implementation, cut: tuple[bytes, list[bytes]], options: Options
) -> None:
    _, chunks = cut
    decoder = decoder_with(implementation, options)
    fed, handed_out, held = b"", 0, None
    for chunk in [*chunks, b""]:
        if held is None:
            fed += chunk
        expected = interpret(fed, closed=False, **options)
        fresh = expected.events[handed_out:]
        events, error = attempt(decoder.feed, chunk)
        if error is not None:
            # At once if nothing completed in this chunk, else by the next call.
            assert error_of(error) == expected.error
            assert fresh == []
            break
        assert held is None
        assert list(map(seen, events)) == fresh
        handed_out += len(fresh)
        if expected.error is not None:
            held = expected.error
            assert fresh != []
            assert decoder.stats.bytes == held[-1]
        else:
            assert state_of(decoder) == expected.state
    else:
        assert held is None


@given(cut=cut_streams(), options=model_options, buffer=buffer_types)
def test_compiled_does_exactly_what_the_reference_does(
    compiled: Implementation,
    reference: Implementation,
    cut: tuple[bytes, list[bytes]],
    options: Options,
    buffer: Callable[[bytes], Any],
) -> None:
    """Call by call: results, errors, and the whole state after each call."""

    def calls(implementation: Implementation) -> list[Any]:
        decoder = decoder_with(implementation, options)
        log: list[Any] = []

        def record(call: Callable[..., Any], *arguments: Any) -> None:
            events, error = attempt(call, *arguments)
            if error is not None:
                log.append(described(error))
            log.append([(seen(e), repr(e), e.parse_error) for e in events or ()])
            log.append(state_of(decoder))

        for chunk in cut[1]:
            record(decoder.feed, buffer(chunk))
        for _ in range(3):
            record(decoder.close)
        record(decoder.feed, b"data: late\n\n")
        record(decoder.reset)
        record(decoder.feed, b"data: anew\n\n")
        return log

    assert calls(compiled) == calls(reference)


@given(
    cut=cut_streams(),
    done=st.sampled_from([None, b"", b"[DONE]", b"x", b"data", b"0"]),
    options=model_options,
)
def test_compiled_iterator_does_exactly_what_the_reference_does(
    compiled: Implementation,
    reference: Implementation,
    cut: tuple[bytes, list[bytes]],
    done: bytes | None,
    options: Options,
) -> None:
    """The decoder's state included, as it stands after each event taken."""

    def steps(implementation: Implementation) -> list[Any]:
        decoder = decoder_with(implementation, options)
        iterator = decoder.iter(cut[1], done=done)
        log: list[Any] = []
        event = error = None
        while event is not END:
            event, error = attempt(next, iterator, END)
            log.append((seen(event) if event not in (None, END) else None, state_of(decoder)))
            if error is not None:
                log.append(described(error))
        return log

    assert steps(compiled) == steps(reference)


@given(cut=cut_streams(), options=model_options)
def test_iterator_gives_what_feed_and_close_give(
    implementation: Implementation, cut: tuple[bytes, list[bytes]], options: Options
) -> None:
    decoder = decoder_with(implementation, options)
    events: list[Any] = []
    _, error = attempt(events.extend, map(seen, decoder.iter(cut[1])))
    expected = interpret(cut[0], **options)
    assert events == expected.events
    assert (error and error_of(error)) == expected.error
    assert state_of(decoder)._replace(at_boundary=False) == expected.state


@given(cut=cut_streams(), limit=st.integers(1, 60), keep_wire=st.booleans())
def test_pending_bytes_never_exceed_the_limit(
    implementation: Implementation,
    cut: tuple[bytes, list[bytes]],
    limit: int,
    keep_wire: bool,
) -> None:
    options = {"limit": limit, "on_limit": "skip", "keep_wire": keep_wire}
    decoder = decoder_with(implementation, options)
    for chunk in cut[1]:
        decoder.feed(chunk)
        assert decoder.pending_bytes <= limit


def test_special_bytes_are_found_at_every_place_of_lines_of_every_length(
    implementation: Implementation,
) -> None:
    """Lines around the widths of vector registers, with one other byte somewhere in them."""
    lengths = [*range(36), *range(60, 70), *range(124, 132)]
    for special in (b"\r", b"\n", b"\0", b":", b" ", b"\xff", b"\xe2\x82", "é".encode()):
        decoder = implementation.SSEDecoder()
        bodies, expected = [], []
        for length in lengths:
            for place in range(length + 1):
                value = b"x" * place + special + b"y" * (length - place)
                body = b"event: e\ndata:" + value + b"\ndata: z\n\n"
                bodies.append(body)
                expected.append(interpret(body).events)
        handed_out = [decoder.feed(body) for body in bodies]
        assert [[e.data for e in events] for events in handed_out] == [
            [e.data for e in events] for events in expected
        ]
        # The same bytes in one piece and in pieces that begin anywhere.
        stream = b"".join(bodies)
        whole = observe(implementation.SSEDecoder(), [stream]).events
        assert [e.data for e in whole] == [e.data for events in expected for e in events]
        assert [e.replaced for e in whole] == [e.replaced for events in expected for e in events]
        assert observe(implementation.SSEDecoder(), of_size(stream, 67)).events == whole


def test_terminators_are_found_behind_every_line_length(implementation: Implementation) -> None:
    for terminator in (b"\n", b"\r", b"\r\n"):
        stream, expected, offset = b"", [], 0
        for length in range(300):
            block = b"data:" + b"x" * length + terminator * 2
            expected.append(("x" * length, offset))
            stream += block
            offset += len(block)
        for chunks in ([stream], of_size(stream, 64), of_size(stream, 61)):
            events = observe(implementation.SSEDecoder(), chunks).events
            assert [(e.data, e.offset) for e in events] == expected
