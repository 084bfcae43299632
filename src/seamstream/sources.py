"""Sources of bytes: what can be one, how it is read without waiting for more, how it is closed.

None of the libraries that responses come from is imported: what a source is, its attributes say.
What they have in common is that their plain ways of reading wait until a buffer is full, cut the
body into lines, or decode it as text; so for each kind there is a class here that knows the call
that gives decoded content as it comes.
"""

# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

import io
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from inspect import isasyncgenfunction
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from .errors import StreamStateError

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Iterable
    from typing import Protocol

    from typing_extensions import Buffer

    class BytesResponse(Protocol):
        """A response of httpx or httpx2."""

        def iter_bytes(self) -> Iterator[bytes]: ...

    class AsyncBytesResponse(Protocol):
        def aiter_bytes(self) -> AsyncIterator[bytes]: ...

    class ContentResponse(Protocol):
        """A response of aiohttp."""

        @property
        def content(self) -> AsyncIterable[bytes]: ...

    # Not by its base classes: what gives bytes in pieces has many shapes.
    Source = (
        Iterable[Buffer]
        | AsyncIterable[Buffer]
        | BytesResponse
        | AsyncBytesResponse
        | ContentResponse
    )

__all__ = [
    "Adapter",
    "Reads",
    "adapt",
    "as_media_ranges",
    "content_type_of",
    "is_timeout",
    "names_framing",
]

READ_BYTES = 64 << 10  # at most, at a time
DRAIN_SECONDS = 0.05  # for what comes after the sentinel: usually there already
DRAIN_BYTES = 64 << 10
NO_BODY_LEFT = "the response has no body left: it was read or closed before"


# --- Kinds of sources -----------------------------------------------------------------------


class Adapter:
    """Read and close a source; here: any iterable or asynchronous iterable of bytes."""

    __slots__ = ("source",)

    def __init__(self, source: Any) -> None:
        self.source = source

    @property
    def is_sync(self) -> bool:
        """Whether it can be read with `for`."""
        return _of_class(self.source, "__iter__")

    @property
    def is_async(self) -> bool:
        """Whether it can be read with `async for`."""
        return _of_class(self.source, "__aiter__")

    @property
    def is_reusable(self) -> bool:
        """Whether what is left of a response is worth reading, to use its connection again."""
        return False

    def chunks(self) -> Iterator[Buffer]:
        """Give the chunks as they come."""
        return iter(self.source)

    def async_chunks(self) -> AsyncIterator[Buffer]:
        """Do as `chunks`, asynchronously."""
        return aiter(self.source)

    def limit_reads(self, seconds: float) -> Callable[[], object] | None:
        """Have no read wait longer for the next bytes, those after the sentinel excepted.

        Returns:
            What takes the limit away again; None if this cannot be done.
        """
        return None

    def drain(self, chunks: Iterator[Buffer]) -> None:
        """Read a connection to the end of its response, if that is there, to use it again."""

    def close(self) -> None:
        """Close the source, if it can be closed."""
        close = getattr(self.source, "close", None)
        if callable(close):
            close()

    async def aclose(self) -> None:
        """Close an asynchronous source."""
        close: Any = getattr(self.source, "aclose", None) or getattr(self.source, "close", None)
        if callable(close):
            closed: Any = close()
            if hasattr(closed, "__await__"):  # not every close() is asynchronous
                await closed


class Reads:
    """An asynchronous iterator over what a coroutine function reads, until that is nothing."""

    __slots__ = ("read",)

    def __init__(self, read: Callable[[], Awaitable[bytes]]) -> None:
        self.read = read

    def __aiter__(self) -> Reads:
        return self

    async def __anext__(self) -> bytes:
        chunk = await self.read()
        if not chunk:
            raise StopAsyncIteration
        return chunk


class _File(Adapter):
    """Anything with `read1`, and files without a buffer: `read` waits for all, lines are no chunks.

    `http.client` and what `makefile` of a socket gives are among them.
    """

    __slots__ = ()

    @property
    def is_sync(self) -> bool:
        return True

    def chunks(self) -> Iterator[Buffer]:
        read: Any = getattr(self.source, "read1", None)
        if read is None:
            read = self.source.read  # with no buffer to fill it does not wait
        is_closed: Any = getattr(self.source, "isclosed", None)  # only http.client has it
        if callable(is_closed) and is_closed():
            _require_no_body(self.source)
        return iter(partial(read, READ_BYTES), b"")

    def limit_reads(self, seconds: float) -> Callable[[], object] | None:
        return _limit_socket(self.source, seconds)


class _AsyncReader(Adapter):
    """The readers of asyncio and aiohttp, which iterate over lines and refuse long ones."""

    __slots__ = ()

    def async_chunks(self) -> AsyncIterator[Buffer]:
        return Reads(partial(self.source.read, READ_BYTES))


class _HTTPX(Adapter):
    """Responses of httpx and httpx2, and what reads like them."""

    __slots__ = ()

    @property
    def is_sync(self) -> bool:
        stream = getattr(self.source, "stream", None)
        is_async_only = hasattr(stream, "__aiter__") and not hasattr(stream, "__iter__")
        read = getattr(self.source, "iter_bytes", None)
        return not (read is None or is_async_only or isasyncgenfunction(read))

    @property
    def is_async(self) -> bool:
        stream = getattr(self.source, "stream", None)
        is_sync_only = hasattr(stream, "__iter__") and not hasattr(stream, "__aiter__")
        if hasattr(self.source, "aiter_bytes"):
            return not is_sync_only
        return isasyncgenfunction(self.source.iter_bytes)

    def chunks(self) -> Iterator[Buffer]:
        return iter(self.source.iter_bytes())

    def async_chunks(self) -> AsyncIterator[Buffer]:
        read: Any = getattr(self.source, "aiter_bytes", None) or self.source.iter_bytes
        return aiter(read())

    @property
    def is_reusable(self) -> bool:
        # Over HTTP/2 a connection outlives the stream that is closed.
        extensions: Any = getattr(self.source, "extensions", {})
        return extensions.get("http_version") == b"HTTP/1.1" and _has_an_end(self.source)

    def limit_reads(self, seconds: float) -> Callable[[], object] | None:
        if getattr(self.source, "is_stream_consumed", False):
            return _nothing  # is left to wait for
        # Another transport than that of the library may keep no time.
        if "network_stream" not in getattr(self.source, "extensions", ()):
            return None
        extensions: Any = self.source.request.extensions
        # The documented place for it, looked at when the body is first read.
        timeouts: Any = extensions.get("timeout")
        if not hasattr(timeouts, "__setitem__"):
            return None
        before = timeouts.get("read", timeouts)  # which it is not

        def undo() -> None:  # the mapping may be the caller's, for more than this request
            if before is timeouts:
                timeouts.pop("read", None)
            else:
                timeouts["read"] = before

        timeouts["read"] = seconds
        return undo

    def drain(self, chunks: Iterator[Buffer]) -> None:
        # By now the limit is fixed; what is left is the stream, which has a documented `read`.
        stream: Any = self.is_reusable and self.source.extensions.get("network_stream")
        if not stream:
            return
        end, mine, read = monotonic() + DRAIN_SECONDS, get_ident(), stream.read

        def read_soon(max_bytes: int, timeout: float | None = None) -> bytes:
            if get_ident() == mine:  # it may be somebody else's as soon as the response ends
                timeout = max(end - monotonic(), 0.001)
            data: bytes = read(max_bytes, timeout)
            return data

        stream.read = read_soon
        try:
            _read_to_end(chunks, end)
        finally:
            del stream.read


class _URLLib3(Adapter):
    """Responses of urllib3, of its first version and of urllib3-future too."""

    __slots__ = ()

    def chunks(self) -> Iterator[Buffer]:
        return _as_it_comes(self.source)

    @property
    def _response(self) -> Any:
        return self.source

    def limit_reads(self, seconds: float) -> Callable[[], object] | None:
        undo = _limit_socket(self._response, seconds)
        if undo is None and getattr(self._response, "closed", False):
            return _nothing  # is left to wait for
        return undo

    @property
    def is_reusable(self) -> bool:
        return _has_an_end(self._response)

    def drain(self, chunks: Iterator[Buffer]) -> None:
        if self.is_reusable:
            undo = self.limit_reads(DRAIN_SECONDS)
            if undo is not None:
                try:
                    _read_to_end(chunks, monotonic() + DRAIN_SECONDS)
                finally:
                    undo()

    def close(self) -> None:
        self.source.close()
        self.source.release_conn()  # a closed connection, too, has a place in the pool


class _URLLib3Async(_URLLib3):
    """What niquests reads from, asynchronously."""

    __slots__ = ()

    @property
    def is_sync(self) -> bool:
        return False

    @property
    def is_async(self) -> bool:
        return True

    def async_chunks(self) -> AsyncIterator[Buffer]:
        return Reads(partial(_Raw(self.source).read, READ_BYTES, decode_content=True))

    async def aclose(self) -> None:
        await self.source.close()
        self.source.release_conn()


class _Requests(_URLLib3):
    """Responses of requests and niquests.

    Their `iter_content` waits for a full buffer, or to the end where the length of the body is
    known, but it is what knows whether the content was read before, and which exceptions to raise.
    So it is called, with another way of reading below it.
    """

    __slots__ = ()

    @property
    def _response(self) -> Any:
        return self.source.raw

    def chunks(self) -> Iterator[Buffer]:
        iter_content: Any = _class_of(self.source).iter_content
        return iter(iter_content(_Reading(self.source), READ_BYTES))

    def close(self) -> None:
        self.source.close()


class _NiquestsAsync(_Requests):
    """Asynchronous responses of niquests."""

    __slots__ = ()

    @property
    def is_sync(self) -> bool:
        return False

    @property
    def is_async(self) -> bool:
        return True

    def async_chunks(self) -> AsyncIterator[Buffer]:
        return self._read()

    async def _read(self) -> AsyncGenerator[Buffer, None]:
        iter_content: Any = _class_of(self.source).iter_content
        chunk: Buffer
        async for chunk in await iter_content(_Reading(self.source), -1):
            yield chunk


class _AIOHTTP(Adapter):
    """Responses of aiohttp."""

    __slots__ = ()

    @property
    def is_async(self) -> bool:
        return True

    def async_chunks(self) -> AsyncIterator[Buffer]:
        content = self.source.content
        if getattr(content, "total_bytes", 0) and content.at_eof():
            return self._read_again()
        read: Any = getattr(content, "readany", None)  # which is what iter_any() calls
        return aiter(content.iter_any()) if read is None else Reads(read)

    async def _read_again(self) -> AsyncGenerator[Buffer, None]:
        # Gives what it has kept, if it was this that read the body.
        data: bytes = await self.source.read()
        if not data:
            raise StreamStateError(NO_BODY_LEFT)
        yield data

    @property
    def is_reusable(self) -> bool:
        return _has_an_end(self.source)

    async def aclose(self) -> None:
        # Which closes the connection unless the response is at its end.
        self.source.release()


def adapt(source: Any) -> Adapter:
    """Find out what a source is.

    Raises:
        TypeError: It is none.
    """
    given = type(source).__name__
    if isinstance(source, (bytes, bytearray, memoryview, str)):
        raise TypeError(f"source must be an iterable of chunks, not {given}: wrap it in a list")
    if isinstance(source, io.TextIOBase):
        raise TypeError("source is a file that was opened as text: open it as binary")
    inner = getattr(source, "http_response", None)
    if hasattr(inner, "iter_bytes"):
        source = inner  # which SDKs wrap
    kind = Adapter if isinstance(source, type) else _kind_of(source)
    adapter = kind(source)
    is_awaitable = hasattr(source, "__await__") and not adapter.is_async
    if is_awaitable or not (adapter.is_sync or adapter.is_async):
        hint = ": await it first" if is_awaitable else ""
        raise TypeError(f"source must be an iterable or async iterable of bytes, not {given}{hint}")
    return adapter


def _class_of(source: Any) -> Any:
    return cast("Any", type)(source)


def _of_class(source: Any, name: str) -> bool:
    # As the interpreter looks for these.
    return hasattr(_class_of(source), name)


def _kind_of(source: Any) -> type[Adapter]:
    def has(*names: str) -> bool:
        return all(callable(getattr(source, name, None)) for name in names)

    is_async = _of_class(source, "__aiter__")
    if has("iter_bytes") or has("aiter_bytes"):
        return _HTTPX
    if has("iter_content") and hasattr(source, "raw"):
        return _NiquestsAsync if is_async else _Requests
    if has("stream", "read", "release_conn"):
        return _URLLib3Async if is_async else _URLLib3
    if has("read", "readuntil", "at_eof"):
        return _AsyncReader
    if has("read1") or isinstance(source, io.RawIOBase):
        return _File
    # In other classes `content` may be a property that reads the body.
    if not is_async and not _of_class(source, "__iter__") and has("release"):
        content = getattr(source, "content", None)
        if callable(getattr(content, "iter_any", None)):
            return _AIOHTTP
    return Adapter


# --- How they are read ----------------------------------------------------------------------


def _as_it_comes(response: Any) -> Iterator[Buffer]:
    """Give the decoded content of a response of urllib3 as it comes."""
    if not getattr(response, "auto_close", True):
        response.auto_close = True  # by which its end is known
    if getattr(response, "closed", False):
        if data := response.data:  # read before, and kept
            yield data
        else:
            _require_no_body(response)
        return
    read: Any = getattr(response, "read1", None)
    if read is None:  # in old versions only single bytes come without waiting for more
        yield from response.stream(1, decode_content=True)
        return
    while True:
        chunk = read(READ_BYTES, decode_content=True)
        if chunk:
            yield chunk
        elif response.closed:  # else what came was only the head of a compressed body
            return


class _Reading:
    """Stand for a response of requests whose `raw` gives the content as it comes."""

    def __init__(self, response: Any) -> None:
        raw = response.raw
        if hasattr(raw, "stream"):
            raw = _Raw(raw)
        self.__dict__.update(_response=response, raw=raw)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._response, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._response, name, value)


class _Raw:
    """Stand for a response of urllib3 that gives the content as it comes."""

    def __init__(self, response: Any) -> None:
        self._response = response
        self._has_begun = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._response, name)

    def stream(self, amt: int, decode_content: bool) -> Iterator[Buffer]:
        return _as_it_comes(self._response)

    async def read(self, amt: int, decode_content: bool) -> bytes:
        # Its own read waits for more where little was compressed, and what a compressed body
        # begins with gives nothing yet, and is not its end.
        if not self._has_begun:
            self._has_begun = True
            if self._response.closed:
                _require_no_body(self._response)
        while True:
            chunk: bytes = await self._response.read1(amt, decode_content=decode_content)
            if chunk or self._response.closed:
                return chunk


def _require_no_body(response: Any) -> None:
    """Refuse a response that has ended before it was read: it would pass for an empty stream."""
    length: Any = response.headers.get("content-length") or ""
    if length.strip() == "0" or response.status in (204, 304):
        return
    if getattr(response, "version", 0) >= 20 and not response.tell():
        return  # with HTTP/2 the head can be the end, too
    raise StreamStateError(NO_BODY_LEFT)


def _nothing() -> None:
    """Take no limit away."""


def _read_to_end(chunks: Iterator[Buffer], end: float) -> None:
    left = DRAIN_BYTES
    with suppress(Exception):  # nothing of it matters any more
        for chunk in chunks:
            left -= len(memoryview(chunk))
            if left < 0 or monotonic() > end:
                return


def _has_an_end(response: Any) -> bool:
    """Tell whether a response of HTTP/1.1 ends before its connection does."""
    headers: Any = response.headers
    if "close" in (headers.get("connection") or "").lower():
        return False
    return bool(headers.get("transfer-encoding") or headers.get("content-length"))


def _limit_socket(source: Any, seconds: float) -> Callable[[], object] | None:
    """Set the time-out of the socket that is somewhere in a source."""
    socket = _socket_in(source, 6)
    if socket is None:
        return None
    before = socket.gettimeout()
    socket.settimeout(seconds)
    return partial(_restore, socket, before, socket.gettimeout())


def _socket_in(place: Any, depth: int) -> Any:
    # There is no public way to it: what is not found is refused, not ignored. One at a time, for
    # in urllib3-future `fp` opens a file.
    if callable(getattr(place, "settimeout", None)):
        return place
    for name in ("connection", "sock", "_fp", "fp", "raw", "_sock"):
        inner = getattr(place, name, None) if depth else None
        if inner is not None and (socket := _socket_in(inner, depth - 1)) is not None:
            return socket
    return None


def _restore(socket: Any, timeout: float | None, ours: float | None) -> None:
    # A response that has ended has given its connection back, and somebody else may have it now.
    with suppress(OSError):  # closed
        if socket.gettimeout() == ours:
            socket.settimeout(timeout)


def is_timeout(error: BaseException | None) -> bool:
    """Tell whether an exception says, by itself or its cause, that a time-out has passed."""
    for _ in range(8):
        if error is None:
            return False
        if isinstance(error, TimeoutError):
            return True
        error = error.__cause__ or error.__context__
    return False


# --- Content types --------------------------------------------------------------------------

MEDIA_RANGE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+*-]+|\*/\*", re.ASCII)
# One that is not closed goes to the end: so each byte is looked at once.
QUOTED = re.compile(r'"(?:[^"\\]|\\.?)*(?:"|\Z)')
GENERIC = ("text/plain", "application/octet-stream", "binary/octet-stream")
"""What servers of files say when they do not know."""


def content_type_of(source: Any) -> str | None:
    """Give the header of a source that has headers and among them this one."""
    get: Any = getattr(getattr(source, "headers", None), "get", None)
    if not callable(get):
        return None
    value: Any = get("content-type") or get("Content-Type")  # a dict of somebody's own
    return value if isinstance(value, str) and value.strip() else None


def essence_of(content_type: str) -> str:
    """Give the type and subtype in lower case, without parameters; of several, the last."""
    return QUOTED.sub("", content_type).rpartition(",")[2].partition(";")[0].strip().lower()


def names_framing(content_type: str, framing: str) -> bool:
    """Tell whether a body of this type may be framed so.

    An event stream has a type of its own. JSON is sent as many types, all of which have `json` in
    their name; those that name another framing, and what is not JSON, are refused.
    """
    essence = essence_of(content_type)
    if framing == "sse":
        return essence == "text/event-stream"
    subtype = essence.partition("/")[2]
    if "json-seq" in subtype:
        return framing == "json-seq"
    if any(name in subtype for name in ("ndjson", "jsonl", "json-l")):
        return framing in ("ndjson", "concatenated")
    return "json" in subtype or essence in GENERIC


def usual_types(framing: str) -> tuple[str, ...]:
    """Say which types to expect, for a message."""
    return {
        "sse": ("text/event-stream",),
        "ndjson": ("application/x-ndjson", "application/json"),
        "json-seq": ("application/json-seq", "application/json"),
    }.get(framing, ("application/json",))


def as_media_ranges(content_type: Any) -> tuple[str, ...]:
    """Check the option: one media range or several.

    Raises:
        TypeError: It is neither.
        ValueError: It is none, or there is none.
    """
    ranges = (content_type,) if isinstance(content_type, str) else tuple(content_type)
    for media_range in ranges:
        if not isinstance(media_range, str):
            raise TypeError(f"a content type must be str, not {type(media_range).__name__}")
        if MEDIA_RANGE.fullmatch(media_range) is None:
            raise ValueError(
                "a content type must be like 'text/plain', 'text/*' or '*/*', "
                f"not {media_range[:80]!r}"
            )
    if not ranges:
        raise ValueError("content_type must name a type; '*/*' for any")
    return tuple(media_range.lower() for media_range in ranges)


def is_among(content_type: str, media_ranges: tuple[str, ...]) -> bool:
    """Tell whether a type is in one of the media ranges."""
    essence = essence_of(content_type)
    either = (essence, essence.partition("/")[0] + "/*", "*/*")
    return any(media_range in either for media_range in media_ranges)
