"""Each profile beside the decoder that it is named after, at the version of benches/peers.lock.

A profile does what its original does in three things; in all else it follows the standard, and
the originals do not always. Where they leave it is written down here, deviation by deviation, in a
model that reads whole streams. The originals have to give what the model gives with all of their
deviations, ours what it gives with none, and the two have to be the same exactly where no deviation
matters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import anthropic._streaming
import httpx
import httpx2
import httpx_sse
import openai._streaming
import pytest
import sseclient
from hypothesis import example, given
from hypothesis import strategies as st

from conftest import TESTS, Implementation
from fragmentations import byte_by_byte, random_cuts, two_way_splits
from shared_folder import SHARED, load_shared
from stream_strategies import cut_streams

Chunks = list[bytes]
BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"

# What an original makes of the standard.
BOM_STAYS = "a byte order mark stays, and is part of the name of the first field"
STRICT_UTF8 = "a line that is ill-formed UTF-8 raises"
INT_RETRY = "retry is what int() makes of it: signs, white space, underscores, digits of any script"
TEXT_RETRY = "retry is any text"
NUL_IN_ID = "an id may have a NUL"
OWN_ID = "an event has the id of its own block alone"
FINAL_CR = "a CR at the end of the stream ends its line and one more, which is empty"
CUT_CR_LF = "CR CR LF cut before its LF has an empty line more"
MIXED_ENDS = "an empty line is none when its end is not like that of the line before"

DEVIATIONS = {
    "httpx_sse": (BOM_STAYS, INT_RETRY),
    "httpx2": (BOM_STAYS, INT_RETRY, FINAL_CR),
    "openai": (BOM_STAYS, STRICT_UTF8, INT_RETRY),
    "anthropic": (BOM_STAYS, STRICT_UTF8, INT_RETRY, CUT_CR_LF),
    "sseclient_py": (BOM_STAYS, STRICT_UTF8, TEXT_RETRY, NUL_IN_ID, OWN_ID, MIXED_ENDS),
}
PROFILES = tuple(DEVIATIONS)


class Given(NamedTuple):
    """What all decoders say of an event. An id that was never set is "", as one that is empty."""

    event: str | None
    data: str
    id: str
    retry: int | str | None


class Answer(NamedTuple):
    """The events of a stream, and whether ill-formed UTF-8 ended it."""

    events: list[Given]
    raised: bool = False


# --- The originals --------------------------------------------------------------------------

TYPE = {"Content-Type": "text/event-stream"}


def by_httpx_sse(chunks: Chunks) -> Iterable[Any]:
    response = httpx.Response(200, headers=TYPE, content=iter(chunks))
    return httpx_sse.EventSource(response).iter_sse()


def by_httpx2(chunks: Chunks) -> Iterable[Any]:
    request = httpx2.Request("GET", "http://localhost/")
    response = httpx2.Response(200, headers=TYPE, content=iter(chunks), request=request)
    return httpx2.EventSource(response, max_event_size=None)


def by_openai(chunks: Chunks) -> Iterable[Any]:
    return openai._streaming.SSEDecoder().iter_bytes(iter(chunks))


def by_anthropic(chunks: Chunks) -> Iterable[Any]:
    return anthropic._streaming.SSEDecoder().iter_bytes(iter(chunks))


def by_sseclient_py(chunks: Chunks) -> Iterable[Any]:
    events: Iterable[Any] = sseclient.SSEClient(iter(chunks)).events()
    return events


ORIGINALS: dict[str, Callable[[Chunks], Iterable[Any]]] = {
    "httpx_sse": by_httpx_sse,
    "httpx2": by_httpx2,
    "openai": by_openai,
    "anthropic": by_anthropic,
    "sseclient_py": by_sseclient_py,
}


def as_number(retry: int | str | None) -> int | str | None:
    """A time that the standard takes as it is, from an original that leaves it a text."""
    if isinstance(retry, str) and re.fullmatch("[0-9]{1,15}", retry):
        return int(retry)
    return retry


def answer_of_original(profile: str, chunks: Chunks) -> Answer:
    events: list[Given] = []
    given = ORIGINALS[profile](chunks)
    try:
        # What was given before an exception stays in the list.
        events.extend(Given(e.event, e.data, e.id or "", as_number(e.retry)) for e in given)
    except UnicodeDecodeError:
        return Answer(events, raised=True)
    return Answer(events)


def answer_of_ours(implementation: Implementation, profile: str, chunks: Chunks) -> Answer:
    """Without a torn tail that is reported: the originals that do not flush it lose it."""
    decoder = implementation.SSEDecoder(profile=profile)
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    events += decoder.close()
    assert not any(event.torn for event in events[:-1])
    assert not (events and events[-1].torn and profile == "sseclient_py")
    return Answer([Given(e.event, e.data, e.id, e.retry) for e in events if not e.torn])


# --- The model ------------------------------------------------------------------------------


class Line(NamedTuple):
    text: bytes
    end: bytes
    cut: bool  # between its CR and its LF


def lines_of(chunks: Chunks) -> Iterator[Line]:
    body = b"".join(chunks)
    cuts, position = set(), 0
    for chunk in chunks:
        position += len(chunk)
        cuts.add(position)
    for match in re.finditer(rb"([^\r\n]*)(\r\n|\r|\n|\Z)", body):
        text, end = match.groups()
        if text or end:
            yield Line(text, end, end == b"\r\n" and match.end() - 1 in cuts)


def answer_of_model(profile: str, chunks: Chunks, deviations: Iterable[str]) -> Answer:
    """What the original would give if it left the standard in these things alone."""
    deviations = set(deviations)
    events: list[Given] = []
    data: list[str] = []
    name: str | None = None
    last_id, own_id = "", None
    retry: int | str | None = None

    def take(line: str) -> None:
        nonlocal name, last_id, own_id, retry
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
        elif field == "id" and (NUL_IN_ID in deviations or "\0" not in value):
            last_id = own_id = value
        elif field == "retry":
            if TEXT_RETRY in deviations:
                retry = as_number(value)
            elif INT_RETRY in deviations:
                with suppress(ValueError):
                    retry = int(value)
            elif re.fullmatch("[0-9]+", value):
                retry = min(int(value.lstrip("0")[:17] or "0"), 2**53 - 1)

    def end_block() -> None:
        nonlocal name, own_id, retry
        is_event = bool(data)
        if profile == "httpx2":
            is_event = is_event or any(said is not None for said in (name, own_id, retry))
        elif profile != "sseclient_py":
            is_event = is_event or bool(name or last_id) or retry is not None
        if is_event:
            default = None if profile in ("openai", "anthropic") else "message"
            identifier = (own_id or "") if OWN_ID in deviations else last_id
            events.append(Given(name or default, "\n".join(data), identifier, retry))
        data.clear()
        name = own_id = retry = None

    before = None  # the end of the line before, if that was not the end of a block
    line = Line(b"", b"", False)
    for number, line in enumerate(lines_of(chunks)):
        text = line.text
        if STRICT_UTF8 in deviations:
            try:
                text.decode()
            except UnicodeDecodeError:
                return Answer(events, raised=True)
        decoded = text.decode("utf-8", "replace")
        if number == 0 and BOM_STAYS not in deviations:
            decoded = decoded.removeprefix(BOM)
        is_alike = (before, line.end) in ALIKE
        is_cut = (before, line.end, line.cut) == (b"\r", b"\r\n", True)
        if decoded:
            if not decoded.startswith(":"):
                take(decoded)
        elif is_alike or is_cut or before is None or MIXED_ENDS not in deviations:
            end_block()
            if is_cut and CUT_CR_LF in deviations:
                end_block()
        before = line.end
        if not text and (is_alike or is_cut):
            before = b"\n" if is_cut else None

    if profile == "sseclient_py" or (FINAL_CR in deviations and line.end == b"\r"):
        end_block()
    return Answer(events)


# The ends of a line and of the empty line after it in which some see the end of a block.
ALIKE = {(b"\n", b"\n"), (b"\r", b"\r"), (b"\r\n", b"\r\n"), (b"\r\n", b"\n")}


def reasons(profile: str, chunks: Chunks) -> set[str]:
    """The deviations that matter in this stream, by the model alone."""
    everything = set(DEVIATIONS[profile])
    standard = answer_of_model(profile, chunks, ())
    original = answer_of_model(profile, chunks, everything)
    if standard == original:
        return set()
    return {
        deviation
        for deviation in everything
        if answer_of_model(profile, chunks, everything - {deviation}) != original
        or answer_of_model(profile, chunks, {deviation}) != standard
    }


def check(implementation: Implementation, profile: str, chunks: Chunks) -> set[str]:
    """Compare event for event; gives why the two differ."""
    ours = answer_of_ours(implementation, profile, chunks)
    original = answer_of_original(profile, chunks)
    assert ours == answer_of_model(profile, chunks, ()), chunks
    assert original == answer_of_model(profile, chunks, DEVIATIONS[profile]), chunks
    why = reasons(profile, chunks)
    assert (ours != original) == bool(why), (chunks, why)
    return why


# --- The tests ------------------------------------------------------------------------------

VECTORS = {
    vector["name"]: bytes.fromhex(vector["input"])
    for vector in json.loads((TESTS / "vectors" / "sse.json").read_text("utf-8"))["vectors"]
}
ENTRIES = [e for e in load_shared("corpus/manifest.json", "entries") if e["format"] == "sse"]

pytestmark = pytest.mark.parametrize("profile", PROFILES)

# For each deviation a stream in which nothing else matters.
ALONE: dict[str, Chunks] = {
    BOM_STAYS: ["\N{ZERO WIDTH NO-BREAK SPACE}data: x\n\n".encode()],
    STRICT_UTF8: [b"data: x\n\ndata: \xff\n\ndata: y\n\n"],
    INT_RETRY: [b"retry: +5\ndata: x\n\n"],
    TEXT_RETRY: [b"retry: soon\ndata: x\n\n"],
    NUL_IN_ID: [b"id: 1\0\ndata: x\n\n"],
    OWN_ID: [b"id: 1\ndata: x\n\ndata: y\n\n"],
    FINAL_CR: [b"data: x\r"],
    CUT_CR_LF: [b"id: 1\r\r", b"\n"],
    MIXED_ENDS: [b"data: x\n\r\ndata: y\n\n"],
}


def test_every_deviation_is_real_and_may_be_the_only_one(
    implementation: Implementation, profile: str
) -> None:
    for deviation in DEVIATIONS[profile]:
        assert check(implementation, profile, ALONE[deviation]) == {deviation}


def test_streams_without_a_reason_are_the_same(
    implementation: Implementation, profile: str
) -> None:
    """What the profiles are about: blocks without data, names, the end of the stream."""
    for body in (
        b"event: a\n\n",
        b"event\n\n",
        b"event: a\nevent\n\n",
        b"retry: 5\n\n",
        b"id: 1\n\n\n:c\n\nfoo\n\nid\n\n\n",
        b"id: 1\0\nretry: x\nfoo\n:c\n\n",
        b"data\n\ndata:\ndata:\n\n",
        b"event:\ndata: x\r\n\r\n\r\n",
        b"data: x\r\rdata: y\r\r\r",
        b"data: x",
        b"data: x\nid: 1\n",
    ):
        for chunks in [[body], byte_by_byte(body), *two_way_splits(body)]:
            assert check(implementation, profile, chunks) == set()


def test_vectors_are_as_the_original_has_them_but_for_reasons(
    implementation: Implementation, profile: str
) -> None:
    met: set[str] = set()
    same = 0
    for body in VECTORS.values():
        for chunks in ([body], byte_by_byte(body), random_cuts(body, seed=1, mean=4)):
            why = check(implementation, profile, chunks)
            met |= why
            same += not why
    assert met <= set(DEVIATIONS[profile])
    assert same > len(VECTORS)


@pytest.mark.needs_shared
def test_recorded_bodies_are_as_the_original_has_them_but_for_reasons(
    implementation: Implementation, profile: str
) -> None:
    assert len(ENTRIES) == 405
    for number, entry in enumerate(ENTRIES):
        body = (SHARED / "corpus" / entry["file"]).read_bytes()
        why = check(implementation, profile, random_cuts(body, seed=number, mean=40))
        assert why <= {OWN_ID}, entry["file"]


@given(cut=cut_streams())
@example(cut=(b"", [b"retry: +5\r"]))
@example(cut=(b"", [b"\xef\xbb\xbf\n", b"id: 1\n\n"]))
@example(cut=(b"", [b"id: 1\r\r\r", b"\n"]))
@example(cut=(b"", [b"data: x\r\r", b"\n\n", b"data: y\r\n\r", b"\n\r"]))
def test_any_stream_is_as_the_original_has_it_but_for_reasons(
    implementation: Implementation, profile: str, cut: tuple[bytes, Chunks]
) -> None:
    check(implementation, profile, cut[1])


@given(
    bodies=st.lists(st.sampled_from(sorted(VECTORS.values())), min_size=1, max_size=4),
    seed=st.integers(0, 2**32),
)
def test_vectors_one_after_another_are_as_the_original_has_them_but_for_reasons(
    implementation: Implementation, profile: str, bodies: Chunks, seed: int
) -> None:
    check(implementation, profile, random_cuts(b"".join(bodies), seed, mean=6))
