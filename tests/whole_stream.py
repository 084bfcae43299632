"""The standard applied to a whole stream at once: the answer that no cutting may change.

Written for the tests from HTML 9.2.6 and from the documented contract, independently of both
implementations: it sees all the bytes, splits them into lines with one regular expression, and
keeps no state between calls. Slow, and meant to be checked by reading.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from observations import STATS, Outcome, SeenEvent, State

BOM = "\N{ZERO WIDTH NO-BREAK SPACE}".encode()
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
LINE = re.compile(rb"([^\r\n]*)(\r\n|\r|\n|\Z)")
DEFAULT_LIMIT = 8 << 20

PROFILES = ("whatwg", "httpx_sse", "httpx2", "openai", "anthropic", "sseclient_py")
FIELD_IS_ENOUGH = ("httpx2",)
VALUE_IS_ENOUGH = ("httpx_sse", "openai", "anthropic")
NAMES_NO_EVENT = ("openai", "anthropic")
FLUSHES = ("sseclient_py",)


def text(encoded: bytes) -> str:
    return encoded.decode("utf-8", "replace")


def replaced(encoded: bytes) -> int:
    """U+FFFD that decoding puts in; one that was sent is not counted.

    EF begins a sequence wherever it stands, so EF BF BD is a sent U+FFFD wherever it stands.
    """
    return text(encoded).count(REPLACEMENT) - encoded.count(REPLACEMENT.encode())


@dataclass
class Block:
    """What the lines since the previous empty line have said."""

    wire_start: int
    origin: int | None = None  # where its counted bytes begin
    first_field: int | None = None
    data: list[bytes] = field(default_factory=list)
    event: bytes | None = None
    id: bytes | None = None
    retry: int | None = None
    skipped: bool = False


def interpret(
    body: bytes,
    *,
    closed: bool = True,
    limit: int = DEFAULT_LIMIT,
    on_limit: str = "error",
    on_torn: str | None = None,
    profile: str = "whatwg",
    keep_wire: bool = False,
    last_event_id: str = "",
) -> Outcome:
    """Give what a decoder has done after ``body``, and after the end of input if ``closed``."""
    stats = dict.fromkeys(STATS, 0)
    stats["bytes"] = len(body)
    events: list[SeenEvent] = []
    reconnection_time: int | None = None

    undecided = not closed and len(body) < len(BOM) and BOM.startswith(body)
    if on_torn is None:
        on_torn = "flush" if profile in FLUSHES else "report"
    default_event = None if profile in NAMES_NO_EVENT else "message"
    start = len(body) if undecided else len(BOM) if body.startswith(BOM) else 0
    block = Block(start)

    def take(line: bytes) -> None:
        nonlocal reconnection_time
        if line.startswith(b":"):
            stats["comments"] += 1
            return
        name, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if name == b"data":
            block.data.append(value)
        elif name == b"event":
            block.event = value
        elif name == b"id":
            if b"\0" in value:
                stats["invalid_fields"] += 1
            else:
                block.id = value
        elif name == b"retry":
            if re.fullmatch(rb"[0-9]+", value):
                block.retry = reconnection_time = min(int(value), 2**53 - 1)
            else:
                stats["invalid_fields"] += 1
        else:
            stats["ignored_lines"] += 1

    def is_event_without_data() -> bool:
        if profile in FIELD_IS_ENOUGH:
            return any(said is not None for said in (block.event, block.id, block.retry))
        if profile in VALUE_IS_ENOUGH:
            return bool(block.event or last_event_id) or block.retry is not None
        return False

    def dispatch(empty_line: int, wire_end: int) -> None:
        nonlocal last_event_id
        if block.id is not None:
            last_event_id = text(block.id)
        if not block.data:
            stats["empty_blocks"] += block.first_field is not None
            if not is_event_without_data():
                return
        raw = b"\n".join(block.data)
        count = replaced(raw) + replaced(block.event or b"") + replaced(block.id or b"")
        stats["events"] += 1
        stats["replaced"] += count
        events.append(
            SeenEvent(
                event=text(block.event or b"") or default_event,
                data=text(raw),
                id=last_event_id,
                retry=block.retry,
                raw=raw,
                is_done=raw.strip(b" \t\r\n") == b"[DONE]",
                torn=False,
                replaced=count,
                offset=empty_line if block.first_field is None else block.first_field,
                wire=body[block.wire_start : wire_end] if keep_wire else None,
            )
        )

    def outcome(error: tuple[str, int, int, int] | None, pending: int, boundary: bool) -> Outcome:
        state = State(last_event_id, reconnection_time, pending, boundary, tuple(stats.values()))
        return Outcome(events, error, state)

    tail = b""
    for match in LINE.finditer(body, start):
        line, terminator = match.groups()
        if not line and not terminator:
            break
        if not line:
            if not block.skipped:
                dispatch(match.start(), match.start() + 1)
            block = Block(match.end())
            continue
        if not terminator:
            tail = line
        if not line.startswith(b":") and block.first_field is None:
            block.first_field = match.start()
        if block.origin is None and (keep_wire or block.first_field is not None):
            block.origin = block.wire_start if keep_wire else block.first_field
        if block.skipped:
            continue
        exceeds_at = len(body) if block.origin is None else block.origin + limit
        if terminator and match.end(1) < exceeds_at:
            take(line)
        if exceeds_at < match.end():
            if on_limit == "error":
                stats["bytes"] = exceeds_at
                error = ("LimitExceededError", limit, limit + 1, exceeds_at)
                return outcome(error, 0, False)
            block.skipped = True
            stats["skipped"] += 1

    in_field_line = block.first_field is not None
    if not closed:
        pending = 0 if block.skipped or block.origin is None else len(body) - block.origin
        ended_a_line = not body or (len(body) > start and body[-1:] in (b"\r", b"\n"))
        return outcome(None, pending, ended_a_line and not in_field_line and not block.skipped)

    if in_field_line and not block.skipped:
        if on_torn == "flush":
            if tail:
                take(tail)
            dispatch(len(body), len(body))
        else:
            raw = body[block.first_field :]
            stats["torn"] = 1
            stats["replaced"] += replaced(raw)
            wire = body[block.wire_start :] if keep_wire else None
            events.append(
                SeenEvent(
                    event=default_event,
                    data=text(raw),
                    id=last_event_id,
                    retry=None,
                    raw=raw,
                    is_done=False,
                    torn=True,
                    replaced=replaced(raw),
                    offset=block.first_field or 0,
                    wire=wire,
                )
            )
    return outcome(None, 0, False)
