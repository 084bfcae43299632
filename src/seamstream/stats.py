"""What a decoder has met so far."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["JSONErrorCounts", "JSONStats", "Stats"]


@dataclass(frozen=True, slots=True)
class Stats:
    """Count what an event stream held, in a snapshot that does not change.

    The counts are the same for every fragmentation of the same bytes, and start again
    at `reset()`.

    Attributes:
        bytes: Bytes consumed. After a `LimitExceededError`, its offset.
        events: Events handed out, the torn one not included.
        comments: Ended lines that start with a colon.
        ignored_lines: Ended lines with a field name that the standard does not know.
        invalid_fields: `retry` fields that are not ASCII digits, `id` fields with a NUL.
        empty_blocks: Blocks with at least one line that is no comment, but no `data`. They give
            no event; where the profile of the decoder makes one of some, they count here too.
        replaced: U+FFFD put in for ill-formed UTF-8, in all events and the torn one.
        skipped: Blocks dropped because they outgrew the limit (`on_limit="skip"`).
        torn: 1 if the stream ended inside an event and this was reported, else 0.
    """

    bytes: int = 0
    events: int = 0
    comments: int = 0
    ignored_lines: int = 0
    invalid_fields: int = 0
    empty_blocks: int = 0
    replaced: int = 0
    skipped: int = 0
    torn: int = 0


@dataclass(frozen=True, slots=True)
class JSONErrorCounts:
    """Count error frames by their kind.

    Attributes:
        syntax: What began like a value, or a whole line, but is not one JSON text.
        garbage: Runs of bytes where no value can be.
        separator: Needless or missing commas of an array.
        truncated: Texts of a sequence that the next record separator cut.
        oversize: What outgrew the limit (`on_limit="skip"`).
    """

    syntax: int = 0
    garbage: int = 0
    separator: int = 0
    truncated: int = 0
    oversize: int = 0


@dataclass(frozen=True, slots=True)
class JSONStats:
    """Count what a JSON stream held, in a snapshot that does not change.

    The counts are the same for every fragmentation of the same bytes, and start again
    at `reset()`.

    Attributes:
        bytes: Bytes consumed. After a `LimitExceededError`, its offset.
        frames: Whole values handed out.
        errors: Error frames handed out, by kind.
        skipped: Values, lines, elements and error runs dropped because they outgrew the limit.
        torn: 1 if the stream ended inside a value, else 0.
    """

    bytes: int = 0
    frames: int = 0
    errors: JSONErrorCounts = field(default_factory=JSONErrorCounts)
    skipped: int = 0
    torn: int = 0
