"""Whose behaviour an event-stream decoder follows where decoders differ.

A profile sets three things. All else, the byte order mark, ill-formed UTF-8, line ends, the grammar
of `retry` and a NUL in `id`, is as in the standard under every profile.

| Profile        | A block without data            | `event` when none is named | `on_torn=None` |
|----------------|---------------------------------|----------------------------|----------------|
| `whatwg`       | is no event                     | `"message"`                | `"report"`     |
| `httpx_sse`    | is an event if it has any value | `"message"`                | `"report"`     |
| `httpx2`       | is an event if it has any field | `"message"`                | `"report"`     |
| `openai`       | is an event if it has any value | None                       | `"report"`     |
| `anthropic`    | is an event if it has any value | None                       | `"report"`     |
| `sseclient_py` | is no event                     | `"message"`                | `"flush"`      |

Any field: an `event`, an `id` or a `retry` line, with or without a value. Any value: a `retry`, an
event type that is not empty, or a last event ID that is not empty, whenever it was set: from the
first such id on every empty line is an event, also one after comments alone or after nothing. `id`
with NUL and `retry` that is not ASCII digits are ignored, and so no fields here.

An event without data has `data == ""`, and `retry` and `id` like any other. Where its block has no
line but comments, its `offset` is that of the empty line. An `event` line with an empty value names
no event type.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["Profile"]

Profile = Literal["whatwg", "httpx_sse", "httpx2", "openai", "anthropic", "sseclient_py"]
