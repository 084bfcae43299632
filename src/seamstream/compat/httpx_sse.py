"""Stand in for httpx-sse: the same names, read by seamstream's decoder.

    import seamstream.compat.httpx_sse as httpx_sse

is the whole migration. What is different, and why: docs/coming-from/httpx-sse.md. Needs httpx, the
extra `seamstream[httpx]`.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Generator, Iterator, MutableMapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, cast

from seamstream import Event, LimitExceededError, Limits, Stats

from . import _exact_json
from ._extras import missing_extra
from ._reading import LIMITS, Reader

try:
    import httpx
except ModuleNotFoundError as error:
    if error.name != "httpx":
        raise  # it is there, and something that it needs in turn is not
    raise missing_extra(__name__, "httpx") from error

if TYPE_CHECKING:
    from seamstream.profiles import Profile

__all__ = [
    "EventSource",
    "SSEError",
    "ServerSentEvent",
    "__version__",
    "aconnect_sse",
    "connect_sse",
]

__version__ = "0.4.3"  # of httpx-sse, the version that this module stands in for

MEDIA_TYPE = "text/event-stream"


class SSEError(httpx.TransportError):
    """Report a response that is no event stream, or an event that is too large."""


class _Fields(NamedTuple):
    """What an event made by hand consists of."""

    event: str | None
    data: str
    id: str
    retry: int | None


class ServerSentEvent:
    """An event of an event stream.

    Args:
        event: The event type. None and the empty string: "message".
        data: The data. None: the empty string.
        id: The last event ID. None: the empty string.
        retry: The reconnection time in milliseconds.
    """

    # One slot is filled in faster than a dictionary, which is there for those who put things in it.
    # That what is in the slot decodes its text only when asked saves as much again.
    __slots__ = ("__dict__", "__weakref__", "_fields")

    _fields: Event | _Fields

    def __init__(
        self,
        event: str | None = None,
        data: str | None = None,
        id: str | None = None,
        retry: int | None = None,
    ) -> None:
        self._fields = _Fields(
            event,
            "" if data is None else data,
            "" if id is None else id,
            retry,
        )

    @property
    def event(self) -> str:
        """The event type."""
        return self._fields.event or "message"

    @property
    def data(self) -> str:
        """The data, its lines joined by LF."""
        return self._fields.data

    @property
    def id(self) -> str:
        """The last event ID, from this event or an earlier one."""
        return self._fields.id

    @property
    def retry(self) -> int | None:
        """The reconnection time that came with this event, in milliseconds, or None."""
        return self._fields.retry

    def json(self) -> Any:
        """Parse the data as JSON, on every call, as `json.loads` does.

        Raises:
            json.JSONDecodeError: It is not JSON.
        """
        fields = self._fields
        if isinstance(fields, _Fields):
            return json.loads(fields.data)
        return _exact_json.loads(fields)

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        # The first two protocols know no slots, but can take what the third makes of them.
        return super().__reduce_ex__(max(index(protocol), 2))

    def __repr__(self) -> str:
        shown = [f"event={self.event!r}"]
        if self.data != "":
            shown.append(f"data={self.data!r}")
        if self.id != "":
            shown.append(f"id={self.id!r}")
        if self.retry is not None:
            shown.append(f"retry={self.retry!r}")
        return f"ServerSentEvent({', '.join(shown)})"


class EventSource:
    """Read the events of a response of httpx.

    Args:
        response: The response, not read yet.
        profile: Whose behaviour to follow where httpx-sse and the standard differ; see
            `SSEDecoder`. "whatwg" is the standard.
        limits: How large an event may grow. Default: 256 MiB; httpx-sse has no limit.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: There is no such profile.
    """

    def __init__(
        self,
        response: httpx.Response,
        *,
        profile: Profile = "httpx_sse",
        limits: Limits = LIMITS,
    ) -> None:
        self._response = response
        self._profile: Profile = profile
        self._limits = limits
        self._reader = self._new_reader()

    def _new_reader(self) -> Reader:
        return Reader(profile=self._profile, limits=self._limits, too_large=_too_large)

    @property
    def response(self) -> httpx.Response:
        """The response."""
        return self._response

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

    def iter_sse(self) -> Iterator[ServerSentEvent]:
        """Read the response and give its events as they complete.

        Raises:
            SSEError: At the first event: the response is no event stream. Later: an event is too
                large.
            httpx.HTTPError: From httpx, after all events that were complete.
        """
        self._check_content_type()
        reader = self._reader = self._new_reader()
        new, cls = object.__new__, ServerSentEvent
        for batch in reader.batches(self._response.iter_bytes()):
            for event in batch:
                sse = new(cls)
                sse._fields = event
                yield sse

    async def aiter_sse(self) -> AsyncGenerator[ServerSentEvent, None]:
        """Do as `iter_sse`, for the response of an asynchronous client."""
        self._check_content_type()
        reader = self._reader = self._new_reader()
        new, cls = object.__new__, ServerSentEvent
        async with aclosing(reader.abatches(self._response.aiter_bytes())) as batches:
            async for batch in batches:
                for event in batch:
                    sse = new(cls)
                    sse._fields = event
                    yield sse

    def _check_content_type(self) -> None:
        media_type = self._response.headers.get("content-type", "").partition(";")[0]
        if MEDIA_TYPE not in media_type.lower():
            raise SSEError(
                f"the Content-Type of the response is {media_type!r}, not {MEDIA_TYPE!r}"
            )


@contextmanager
def connect_sse(
    client: httpx.Client,
    method: str,
    url: str,
    *,
    profile: Profile = "httpx_sse",
    limits: Limits = LIMITS,
    **kwargs: Any,
) -> Generator[EventSource, None, None]:
    """Send a request for an event stream; close the response at the end of the `with` block.

    Args:
        client: The client to send it with.
        method: Its method.
        url: Its address.
        profile: As for `EventSource`.
        limits: As for `EventSource`.
        kwargs: What else `client.stream` takes. In `headers`, the mapping itself, `Accept` and
            `Cache-Control` are set to what an event stream asks for.
    """
    kwargs["headers"] = _set_headers(kwargs.get("headers"))
    with client.stream(method, url, **kwargs) as response:
        yield EventSource(response, profile=profile, limits=limits)


@asynccontextmanager
async def aconnect_sse(
    client: httpx.AsyncClient,
    method: str,
    url: str,
    *,
    profile: Profile = "httpx_sse",
    limits: Limits = LIMITS,
    **kwargs: Any,
) -> AsyncGenerator[EventSource, None]:
    """Do as `connect_sse`, with an asynchronous client."""
    kwargs["headers"] = _set_headers(kwargs.get("headers"))
    async with client.stream(method, url, **kwargs) as response:
        yield EventSource(response, profile=profile, limits=limits)


def _too_large(error: LimitExceededError) -> SSEError:
    return SSEError(str(error))


def _set_headers(headers: Any) -> MutableMapping[str, str]:
    if isinstance(headers, MutableMapping):
        asked = cast("MutableMapping[str, str]", headers)
    else:  # None, or pairs
        asked = httpx.Headers(headers)
    asked["Accept"] = MEDIA_TYPE
    asked["Cache-Control"] = "no-store"
    return asked
