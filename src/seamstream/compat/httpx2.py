"""Stand in for the event streams of httpx2: the same names, read by seamstream's decoder.

    from seamstream.compat.httpx2 import EventSource

    with client.sse(url) as source:
        for sse in EventSource(source.response): ...

The events are `ServerSentEvent`s of httpx2, and the error is its `SSEError`, so that programs that
know them go on as before. What is different, and why: docs/coming-from/httpx2.md. Needs
httpx2, the extra `seamstream[httpx2]`.
"""

# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from seamstream import Event, LimitExceededError, Limits, Stats

from . import _exact_json
from ._extras import missing_extra
from ._reading import Reader

try:
    import httpx2
    from httpx2 import SSEError
except ModuleNotFoundError as error:
    if error.name != "httpx2":
        raise  # it is there, and something that it needs in turn is not
    raise missing_extra(__name__, "httpx2") from error

if TYPE_CHECKING:
    from seamstream.profiles import Profile

__all__ = ["EventSource", "SSEError", "ServerSentEvent"]

MEDIA_TYPE = "text/event-stream"


@dataclass(frozen=True, eq=False)
class ServerSentEvent(httpx2.ServerSentEvent):
    """An event of an event stream: httpx2's own, but for how it parses JSON.

    Each is equal to one of httpx2's that has the same fields.

    Args:
        event: The event type.
        data: The data, its lines joined by LF.
        id: The last event ID, from this event or an earlier one.
        retry: The reconnection time that came with this event, in milliseconds, or None.
    """

    def json(self) -> object:
        """Parse the data as JSON, on every call, as `json.loads` does.

        Raises:
            json.JSONDecodeError: It is not JSON.
        """
        return _exact_json.loads_text(self.data)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, httpx2.ServerSentEvent):
            return NotImplemented
        return _fields_of(self) == _fields_of(other)

    __hash__ = httpx2.ServerSentEvent.__hash__


_fields_of = attrgetter(*(field.name for field in fields(httpx2.ServerSentEvent)))


class _Draft:
    """Become a `ServerSentEvent` once it is filled in.

    Its own constructor goes through `object.__setattr__`, as in any frozen dataclass, and takes
    three times as long.
    """

    def __init__(self, event: str, data: str, id: str, retry: int | None) -> None:
        self.event = event
        self.data = data
        self.id = id
        self.retry = retry
        self.__class__ = cast("Any", ServerSentEvent)


def _find_constructor() -> Callable[[str, str, str, int | None], ServerSentEvent]:
    new = cast("Callable[[str, str, str, int | None], ServerSentEvent]", _Draft)
    try:
        new("", "", "", None)
    except TypeError:  # a later httpx2 may have given it slots
        return ServerSentEvent
    return new


_new_event = _find_constructor()


class EventSource(httpx2.EventSource):
    """Read the events of a response of httpx2, with `for` or `async for`.

    Args:
        response: The response, not read yet.
        max_event_size: How many bytes an event may have on the wire, as
            `Limits.max_event_bytes` counts them. None: any number.
        profile: Whose behaviour to follow where httpx2 and the standard differ; see
            `SSEDecoder`. "whatwg" is the standard.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: There is no such profile.
    """

    def __init__(
        self,
        response: httpx2.Response,
        max_event_size: int | None = 1 << 20,
        *,
        profile: Profile = "httpx2",
    ) -> None:
        super().__init__(response, max_event_size)
        self._size = max_event_size
        self._profile: Profile = profile
        self._limits = _as_limits(max_event_size)
        self._reader = self._new_reader()

    def _new_reader(self) -> Reader:
        return Reader(profile=self._profile, limits=self._limits, too_large=self._too_large)

    def _too_large(self, error: LimitExceededError) -> SSEError:
        return SSEError(f"an event outgrew max_event_size={self._size} at byte {error.offset}")

    @property
    def torn(self) -> Event | None:
        """What the end of the stream cut, which is not among the events; or None.

        `raw` is all of it, from the first line of the unfinished event on.
        """
        return self._reader.torn

    @property
    def stats(self) -> Stats:
        """The counters of the last iteration so far."""
        return self._reader.stats

    def __iter__(self) -> Generator[ServerSentEvent, None, None]:
        """Read the response and give its events as they complete.

        Raises:
            SSEError: At the first event: the response is no event stream. Later: an event is
                larger than `max_event_size`.
            httpx2.HTTPError: From httpx2, after all events that were complete.
        """
        request = self.response.request
        try:
            self._check_content_type()
            reader = self._reader = self._new_reader()
            for batch in reader.batches(self.response.iter_bytes()):
                for event in batch:
                    yield _new_event(event.event or "message", event.data, event.id, event.retry)
        except httpx2.RequestError as error:
            error.request = request
            raise

    async def __aiter__(self) -> AsyncGenerator[ServerSentEvent, None]:
        """Do as `__iter__`, for the response of an asynchronous client."""
        request = self.response.request
        try:
            self._check_content_type()
            reader = self._reader = self._new_reader()
            async with aclosing(reader.abatches(self.response.aiter_bytes())) as batches:
                async for batch in batches:
                    for event in batch:
                        yield _new_event(
                            event.event or "message", event.data, event.id, event.retry
                        )
        except httpx2.RequestError as error:
            error.request = request
            raise

    def _check_content_type(self) -> None:
        media_type = self.response.headers.get("content-type", "").partition(";")[0].strip()
        if media_type.lower() != MEDIA_TYPE:
            raise SSEError(
                f"the Content-Type of the response is {media_type!r}, not {MEDIA_TYPE!r}"
            )


def _as_limits(max_event_size: int | None) -> Limits:
    if max_event_size is None:
        return Limits(max_event_bytes=sys.maxsize)
    if not isinstance(max_event_size, int):
        given = type(max_event_size).__name__
        raise TypeError(f"max_event_size must be an int or None, not {given}")
    # An event of one byte is a line that does not end: what refuses all does not go below 1.
    return Limits(max_event_bytes=min(max(int(max_event_size), 1), sys.maxsize))
