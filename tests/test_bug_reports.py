"""The cases collected from public bug reports of other libraries, by wire format."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

import frame_observations
from conftest import Implementation
from fragmentations import byte_by_byte, fragmentations, of_size, two_way_splits
from observations import decode, observe
from seamstream import JSONDecodeError, LimitExceededError, Limits
from shared_folder import load_shared

CASES = [case for case in load_shared("bugs/open.json", "cases") if case["format"] == "sse"]
BY_ID = {case["id"]: case for case in load_shared("bugs/open.json", "cases")}
SMALL = [case for case in CASES if "parts" not in case]
LARGE = [case for case in CASES if "parts" in case and "overflow" not in case["expected"]]
ENDLESS = [case for case in CASES if "overflow" in case["expected"]]
# What a case may say and these tests look at; anything else would go by unseen.
LOOKED_AT = {
    *("events", "torn", "tail", "payloads", "ready_after_chunk", "last_event_id"),
    *("reconnection_time", "sentinel_seen", "events_count", "data_len", "data_sha256", "overflow"),
}
OTHERS_LOOK_AT = {"client_must", "no_eof", "time_rule"}  # a client's business; test_linear_time.py

pytestmark = pytest.mark.needs_shared


def parametrized(cases: list[dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "case", cases or ["absent"], ids=lambda case: case["id"] if cases else case
    )


def assert_payload(event: Any, payload: dict[str, Any]) -> None:
    kind = payload["kind"]
    assert event.is_done == (kind == "sentinel")
    if kind == "json":
        assert event.parse_error is None
        assert event.value == event.json() == payload["value"]
    elif kind == "parse_error":
        assert event.parse_error == "syntax"
        assert event.value == event.data
    else:
        assert kind in ("text", "empty", "sentinel")
        assert event.parse_error is None
        assert event.value == event.data
        assert (event.raw == b"") == (kind == "empty")


def test_cases_are_all_there() -> None:
    assert (len(SMALL), len(LARGE), len(ENDLESS)) == (27, 2, 2)
    assert {key for case in CASES for key in case["expected"]} <= LOOKED_AT | OTHERS_LOOK_AT


@parametrized(SMALL)
def test_case_holds_for_every_fragmentation(
    implementation: Implementation, case: dict[str, Any]
) -> None:
    expected = case["expected"]
    reported = list(map(bytes.fromhex, case["chunks"]))
    stream = b"".join(reported)
    cuts = fragmentations(stream) if len(stream) < 2000 else map(list, [reported, [stream]])
    for chunks in [reported, *cuts]:
        decoder = implementation.SSEDecoder()
        outcome = observe(decoder, chunks)
        assert outcome.error is None
        complete = [event for event in outcome.events if not event.torn]
        assert [
            {"event": e.event, "data": e.data, "id": e.id, "retry": e.retry} for e in complete
        ] == expected["events"]
        assert decoder.stats.torn == int(expected["torn"])
        if "tail" in expected:
            assert outcome.events[-1].torn
            assert outcome.events[-1].raw == bytes.fromhex(expected["tail"])
        if "last_event_id" in expected:
            assert decoder.last_event_id == expected["last_event_id"]
        if "reconnection_time" in expected:
            assert decoder.reconnection_time_ms == expected["reconnection_time"]
        if "sentinel_seen" in expected:
            assert any(e.is_done for e in complete) == expected["sentinel_seen"]


@parametrized([case for case in SMALL if "payloads" in case["expected"]])
def test_case_payloads_are_json_or_flagged_or_text(
    implementation: Implementation, case: dict[str, Any]
) -> None:
    decoder = implementation.SSEDecoder()
    events = decoder.feed(bytes.fromhex("".join(case["chunks"])))
    assert len(events) == len(case["expected"]["payloads"])
    for event, payload in zip(events, case["expected"]["payloads"], strict=True):
        assert_payload(event, payload)


@parametrized([case for case in SMALL if "ready_after_chunk" in case["expected"]])
def test_case_events_are_out_after_the_chunk_that_completes_them(
    implementation: Implementation, case: dict[str, Any]
) -> None:
    decoder = implementation.SSEDecoder()
    counts = []
    for chunk in map(bytes.fromhex, case["chunks"]):
        decoder.feed(chunk)
        counts.append(decoder.stats.events)
    assert counts == case["expected"]["ready_after_chunk"]


@parametrized(LARGE)
def test_case_of_a_large_event_holds(implementation: Implementation, case: dict[str, Any]) -> None:
    limits = Limits(**case.get("limits", {}))
    stream = b"".join(bytes.fromhex(part["hex"]) * part["times"] for part in case["parts"])
    for chunks in ([stream], of_size(stream, case["chunk_size"])):
        events = decode(implementation, *chunks, limits=limits)
        assert len(events) == case["expected"]["events_count"]
        (event,) = events
        assert len(event.raw) == case["expected"]["data_len"]
        assert hashlib.sha256(event.raw).hexdigest() == case["expected"]["data_sha256"]
        assert not event.torn


@parametrized(ENDLESS)
def test_case_without_end_meets_the_limit(
    implementation: Implementation, case: dict[str, Any]
) -> None:
    limits = Limits(**case["limits"])
    stream = b"".join(bytes.fromhex(part["hex"]) * part["times"] for part in case["parts"])
    decoder = implementation.SSEDecoder(limits=limits)
    fed = 0

    def feed_all() -> None:
        nonlocal fed
        for chunk in of_size(stream, case["chunk_size"]):
            fed += len(chunk)
            assert decoder.feed(chunk) == ()

    with pytest.raises(LimitExceededError) as caught:
        feed_all()
    assert fed <= case["expected"]["overflow"]["after_bytes_at_most"]
    # Both begin with a field line at byte 0, so the first byte past the limit is at the limit.
    assert caught.value.offset == caught.value.limit == limits.max_event_bytes
    assert decoder.stats.bytes == limits.max_event_bytes


def test_compressed_bytes_fed_by_mistake_give_no_event(implementation: Implementation) -> None:
    compressed = bytes.fromhex("".join(BY_ID["B56.1"]["chunks"]))
    for chunks in two_way_splits(compressed):
        decoder = implementation.SSEDecoder()
        outcome = observe(decoder, chunks)
        assert outcome.error is None
        assert decoder.stats.events == 0
        assert decoder.stats.torn + decoder.stats.ignored_lines >= 1


def test_reset_between_connections_drops_the_cut_event(implementation: Implementation) -> None:
    connections = BY_ID["B60.2"]["connections"]
    expected = BY_ID["B60.2"]["expected"]["events"]
    decoder = implementation.SSEDecoder()
    sent_ids, events = [], []
    for chunks in connections:
        sent_ids.append(decoder.last_event_id)
        decoder.reset(decoder.last_event_id)
        for byte in byte_by_byte(bytes.fromhex("".join(chunks))):
            events.extend(decoder.feed(byte))
    assert sent_ids == ["", "5", "5"]
    assert [
        {"event": e.event, "data": e.data, "id": e.id, "retry": e.retry} for e in events
    ] == expected


# --- JSON streams

# The partial ones are about showing an open value, which no decoder does.
JSON_CASES = [
    case
    for case in load_shared("bugs/open.json", "cases")
    if case["format"] == "json" and case["mode"] != "partial"
]
JSON_FRAMINGS = {
    "concat": "concatenated",
    "ndjson": "ndjson",
    "array": "array",
    "seq": "json-seq",
}
REASONS = {
    "nan-or-infinity": "syntax",
    "invalid-json": "syntax",
    "truncated": "truncated",
    "maybe-truncated-scalar": "truncated",
}
JSON_LOOKED_AT = {
    *("values", "quarantined", "torn", "tail", "raw", "ready_after_chunk"),
    *("values_count", "string_len", "string_sha256", "first_frame"),
}


def stream_of(case: dict[str, Any]) -> bytes:
    if "parts" in case:
        return b"".join(bytes.fromhex(part["hex"]) * part["times"] for part in case["parts"])
    return bytes.fromhex("".join(case["chunks"]))


def json_decoder(implementation: Implementation, case: dict[str, Any]) -> Any:
    assert case.get("loads") in (None, "json.loads")
    return implementation.JSONStreamDecoder(
        framing=JSON_FRAMINGS[case["mode"]],
        limits=Limits(**case.get("limits", {})),
        loads=json.loads if "loads" in case else None,
    )


def test_json_cases_are_all_there() -> None:
    assert len(JSON_CASES) == 15
    assert {key for case in JSON_CASES for key in case["expected"]} <= (
        JSON_LOOKED_AT | OTHERS_LOOK_AT
    )


@parametrized(JSON_CASES)
def test_json_case_holds_for_every_fragmentation(
    implementation: Implementation, case: dict[str, Any]
) -> None:
    expected = case["expected"]
    stream = stream_of(case)
    if "parts" in case:
        cuts = [[stream], of_size(stream, case["chunk_size"])]
    else:
        cuts = [list(map(bytes.fromhex, case["chunks"])), *fragmentations(stream)]
    for chunks in cuts:
        decoder = json_decoder(implementation, case)
        frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
        frames += decoder.close()
        if "first_frame" in expected:
            assert_exact_or_flagged(frames.pop(0))
        values = [frame for frame in frames if frame.parse_error is None]
        errors = [frame for frame in frames if frame.kind is not None]
        if "values_count" in expected:
            assert len(values) == expected["values_count"]
            (string,) = values[0].json().values()
            assert len(string) == expected["string_len"]
            assert hashlib.sha256(string.encode()).hexdigest() == expected["string_sha256"]
        else:
            assert [frame.json() for frame in values] == expected["values"]
            assert [frame.value for frame in values] == expected["values"]
        if "raw" in expected:
            assert [frame.raw.hex() for frame in values] == expected["raw"]
        assert [(frame.raw.hex(), frame.kind) for frame in errors] == [
            (slice_["hex"], REASONS[slice_["reason"]]) for slice_ in expected["quarantined"]
        ]
        torn = b"".join(frame.raw for frame in frames if frame.torn)
        assert torn.hex() == expected.get("tail", "")
        assert decoder.stats.torn == int(expected["torn"])


def assert_exact_or_flagged(frame: Any) -> None:
    """A number of thousands of digits is what it says, or an error; never another number."""
    try:
        value = frame.json()
    except JSONDecodeError:
        assert isinstance(frame.value, str)
    else:
        (number,) = value.values()
        assert str(number) in frame.raw.decode()


@parametrized([case for case in JSON_CASES if "ready_after_chunk" in case["expected"]])
def test_json_case_values_are_out_after_the_chunk_that_settles_them(
    implementation: Implementation, case: dict[str, Any]
) -> None:
    decoder = json_decoder(implementation, case)
    counts = []
    for chunk in map(bytes.fromhex, case["chunks"]):
        decoder.feed(chunk)
        counts.append(decoder.stats.frames)
    assert counts == case["expected"]["ready_after_chunk"]


def test_number_of_thousands_of_digits_is_no_uncaught_error_with_any_parser(
    implementation: Implementation,
) -> None:
    case = BY_ID["B52.3"]
    for loads in (None, json.loads):
        decoder = implementation.JSONStreamDecoder(framing="ndjson", loads=loads)
        number, after = decoder.feed(stream_of(case))
        assert_exact_or_flagged(number)
        assert [after.json()] == case["expected"]["values"]


def test_json_cases_leave_nothing_unaccounted(implementation: Implementation) -> None:
    """Values, errors and the torn rest are all of a stream but what separates them."""
    for case in JSON_CASES:
        stream = stream_of(case)
        decoder = implementation.JSONStreamDecoder(framing=JSON_FRAMINGS[case["mode"]])
        left = bytearray(stream)
        for frame in frame_observations.observe(decoder, [stream]).frames:
            end = frame.offset + len(frame.raw)
            left[frame.offset : end] = b" " * len(frame.raw)
        assert left.strip(b" \t\r\n\x1e").removeprefix(b"\xef\xbb\xbf").strip(b" \n") == b""
