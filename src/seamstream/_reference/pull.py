"""What decoders have in common: their states, and how they pull from a source of chunks.

A decoder says in `_scan` how a chunk becomes items, one by one; that is all an iterator needs to
parse a chunk as its items are taken.

A source that has to be closed can be told when the iteration ends before it does: `chunks` may have
a method `_on_stop`, which is called with None at `done`, or with the exception that the decoder
raised. The source is then asked once more. It ends, or raises: that comes out.
"""

# The classes of this module share their private parts.
# pyright: reportPrivateUsage=false, reportUnnecessaryIsInstance=false

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from seamstream.errors import LimitExceededError, StreamStateError

from .utf8 import to_bytes

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["AsyncPull", "Decoder", "Pull", "check_source", "exclusive"]

JSON_SPACE = b" \t\n\r"  # RFC 8259

OPEN = "open"
HELD = "held"  # an error is held back until the next call
FAILED = "failed"
CLOSED = "closed"

IS_ASKING = "this iterator is waiting for its source"


class Item(Protocol):
    """What a decoder gives, as far as an iterator cares."""

    @property
    def raw(self) -> bytes: ...
    @property
    def torn(self) -> bool: ...


T = TypeVar("T", bound=Item)


class Decoder(ABC, Generic[T]):
    """Keep the states of a decoder: open, an error held, failed, closed."""

    __slots__ = ("_busy", "_error", "_rest", "_state")

    def __init__(self) -> None:
        self._busy = threading.Lock()
        self._open()

    # What each decoder defines.

    @abstractmethod
    def _scan(self, chunk: bytes) -> Iterator[T]:
        """Consume one chunk, giving each item when its last byte is reached.

        At each item, at the end and at an error the decoder's attributes say where the stream
        stands.
        """

    @abstractmethod
    def _end_stream(self) -> tuple[T, ...]:
        """Close the decoder and give what the end of the stream settles."""

    @abstractmethod
    def _forget(self) -> None:
        """Drop what is pending: the decoder has failed."""

    # States.

    def _open(self) -> None:
        self._state = OPEN
        self._error: LimitExceededError | None = None  # while HELD
        self._rest: Rest[T] | None = None  # what an iterator has left of its chunk

    def _enter(self) -> None:
        if not self._busy.acquire(blocking=False):
            raise StreamStateError("the decoder is in use by another call")

    def _require_open(self) -> None:
        if self._state == HELD:
            error = self._error
            self._fail()
            assert error is not None
            raise error
        if self._state != OPEN:
            how = "is closed" if self._state == CLOSED else "has failed"
            raise StreamStateError(f"the decoder {how}; reset() opens it for a new connection")

    def _hold_back(self, error: LimitExceededError) -> None:
        self._state = HELD
        self._error = error

    def _fail(self) -> None:
        self._state = FAILED
        self._error = None
        self._forget()

    def _collect(self, items: Iterator[T]) -> tuple[list[T], LimitExceededError | None]:
        collected: list[T] = []
        try:
            # Not list(): that would lose what came before an error.
            for item in items:
                collected.append(item)  # noqa: PERF402
        except LimitExceededError as error:
            return collected, error.with_traceback(None)  # whose frames hold the chunk
        except BaseException:  # out of memory, or interrupted: nobody knows where
            self._fail()
            raise
        return collected, None

    def _feed(self, chunk: Buffer) -> tuple[T, ...]:
        self._enter()
        try:
            if self._rest is not None:
                self._settle_rest()
            if self._state != OPEN:
                self._require_open()
            items, error = self._collect(self._scan(to_bytes(chunk)))
            if error is not None:
                if not items:
                    self._fail()
                    raise error
                self._hold_back(error)
            return tuple(items)
        finally:
            self._busy.release()

    def _close(self) -> tuple[T, ...]:
        self._enter()
        try:
            self._settle_rest()
            if self._state in (CLOSED, FAILED):
                return ()
            self._require_open()
            return self._end_stream()
        finally:
            self._busy.release()

    # What the iterators need.

    def _settle_rest(self) -> None:
        """Parse an iterator's rest to its end, if there is no item in it.

        Raises:
            StreamStateError: There is one. The iterator gives it next.
        """
        rest = self._rest
        if rest is None:
            return
        try:
            is_exhausted = rest.is_exhausted()
        except BaseException:
            self._rest = None
            self._fail()
            raise
        if is_exhausted:
            self._rest = None
        elif rest.is_dropped:
            self._rest = None
            self._fail()
        else:
            if rest.error is not None:
                self._hold_back(rest.error)
            raise StreamStateError("an iterator has events left in its chunk")

    def _check_free(self) -> None:
        self._enter()
        try:
            self._settle_rest()
        finally:
            self._busy.release()

    def _accept(self, chunk: Buffer) -> Rest[T]:
        """Take an iterator's next chunk."""
        self._enter()
        try:
            self._settle_rest()
            self._require_open()
            if type(chunk) is bytes:
                self._rest = Rest(self._scan(chunk))
            else:  # its owner may change it while the items are taken
                items, error = self._collect(self._scan(to_bytes(chunk)))
                self._rest = Rest(_replay(items, error))
                if error is not None:
                    self._hold_back(error)
            return self._rest
        finally:
            self._busy.release()

    def _take(self, rest: Rest[T]) -> T | None:
        """Give the next item of an iterator's chunk, or None at its end."""
        if self._rest is not rest:  # at its end already, or forgotten by reset()
            return None
        self._enter()
        try:
            item = rest.take()
            if item is None:
                self._rest = None
            return item
        except BaseException:
            self._rest = None
            self._fail()
            raise
        finally:
            self._busy.release()

    def _drop(self, rest: Rest[T]) -> None:
        """See to what an iterator leaves behind: the decoder fails if there are items."""
        if self._rest is not rest:
            return
        rest.is_dropped = True
        # When the decoder is busy, its next call settles it.
        if self._busy.acquire(blocking=False):
            try:
                self._settle_rest()
            finally:
                self._busy.release()


def check_source(chunks: object, done: object) -> None:
    """Refuse one chunk in place of a source of chunks, and a `done` that is not bytes."""
    given = type(chunks).__name__
    if isinstance(chunks, (bytes, bytearray, memoryview, str)):
        raise TypeError(f"chunks must be an iterable of chunks, not {given}: wrap it in a list")
    if not (done is None or isinstance(done, bytes)):
        raise TypeError(f"done must be bytes or None, not {type(done).__name__}")


def _replay(items: Iterable[T], error: LimitExceededError | None) -> Iterator[T]:
    yield from items
    if error is not None:
        raise error


class Rest(Generic[T]):
    """What an iterator has not handed out yet of the chunk that it pulled."""

    __slots__ = ("_items", "_next", "error", "is_dropped")

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items
        self._next: T | None = None  # looked at, but not taken
        self.error: LimitExceededError | None = None  # the same
        self.is_dropped = False

    def take(self) -> T | None:
        """Give the next item, or None; raise the error that comes after them."""
        if self.error is not None:
            raise self.error
        item, self._next = self._next, None
        return next(self._items, None) if item is None else item

    def is_exhausted(self) -> bool:
        """Tell whether neither an item nor an error is left."""
        if self.error is None and self._next is None:
            try:
                self._next = next(self._items, None)
            except LimitExceededError as error:
                self.error = error
        return self.error is None and self._next is None


class _Puller(Generic[T]):
    """What the two iterators have in common: all but how the source is asked."""

    __slots__ = (
        "_decoder",
        "_done",
        "_is_asking",
        "_is_exhausted",
        "_is_stopping",
        "_last",
        "_on_stop",
        "_rest",
    )

    def __init__(self, decoder: Decoder[T], chunks: object, done: bytes | None) -> None:
        self._decoder = decoder
        self._done = None if done is None else done.strip(JSON_SPACE)
        self._rest: Rest[T] | None = None
        self._last: deque[T] = deque()  # what the end of the stream settled
        self._is_exhausted = False  # the source is not asked again
        self._is_asking = False
        self._on_stop: Callable[[BaseException | None], None] | None
        self._on_stop = getattr(chunks, "_on_stop", None)
        self._is_stopping = False  # it has been told, and the source is asked for its end

    def _next_held(self) -> T | None:
        """Give the next item of the chunk; None when the source must be asked, or never again."""
        if self._is_asking:
            raise StreamStateError(IS_ASKING)
        if self._last:
            return self._last.popleft()
        if self._rest is not None and not self._is_exhausted:
            try:
                item = self._decoder._take(self._rest)
            except LimitExceededError as error:
                self._stop(error)
                return None
            if item is not None:
                if not self._is_done(item):
                    return item
                self._stop(None)
                return None
            self._rest = None
        if not (self._is_exhausted or self._is_stopping):
            # Before the source is asked: a chunk that cannot be taken would be lost.
            self._decoder._check_free()
        return None

    def _is_done(self, item: T) -> bool:
        if self._done is None or item.torn:
            return False
        return item.raw.strip(JSON_SPACE) == self._done

    def _stop(self, error: BaseException | None) -> None:
        """End the iteration before the source has ended: at `done`, or by an error."""
        rest, self._rest = self._rest, None
        if rest is not None:
            self._decoder._drop(rest)
        on_stop, self._on_stop = self._on_stop, None
        if on_stop is None:
            self._is_exhausted = True
            if error is not None:
                raise error
            return
        self._is_stopping = True
        try:
            on_stop(error)
        except BaseException:
            self._is_exhausted = True
            raise

    def _accept_chunk(self, chunk: Buffer) -> None:
        if self._is_stopping:
            self._is_exhausted = True  # it was to end
            return
        try:
            self._rest = self._decoder._accept(chunk)
        except BaseException as error:
            self._stop(error)

    def _finish(self) -> T | None:
        """Close the decoder at the end of the source."""
        self._exhaust()
        if self._is_stopping:
            return None
        for item in self._decoder._close():
            if self._is_done(item):
                self._stop(None)
                break
            self._last.append(item)
        return self._last.popleft() if self._last else None

    def _exhaust(self) -> None:
        self._is_exhausted = True
        rest, self._rest = self._rest, None
        if rest is not None:
            self._decoder._drop(rest)

    def __del__(self) -> None:
        if getattr(self, "_rest", None) is not None:
            self._exhaust()


class Pull(_Puller[T]):
    """Pull from an iterator of chunks."""

    __slots__ = ("_source",)

    def __init__(self, decoder: Decoder[T], chunks: Iterable[Buffer], done: bytes | None) -> None:
        super().__init__(decoder, chunks, done)
        self._source = iter(chunks)

    def __iter__(self) -> Pull[T]:
        return self

    def __next__(self) -> T:
        while True:
            item = self._next_held()
            if item is not None:
                return item
            if self._is_exhausted:
                raise StopIteration
            self._is_asking = True
            try:
                chunk = next(self._source)
            except StopIteration:
                item = self._finish()
                if item is not None:
                    return item
                raise
            except BaseException:
                self._exhaust()
                raise
            finally:
                self._is_asking = False
            self._accept_chunk(chunk)


class AsyncPull(_Puller[T]):
    """Pull from an async iterator of chunks."""

    __slots__ = ("_source",)

    def __init__(
        self, decoder: Decoder[T], chunks: AsyncIterable[Buffer], done: bytes | None
    ) -> None:
        super().__init__(decoder, chunks, done)
        self._source = aiter(chunks)

    def __aiter__(self) -> AsyncPull[T]:
        return self

    async def __anext__(self) -> T:
        while True:
            item = self._next_held()
            if item is not None:
                return item
            if self._is_exhausted:
                raise StopAsyncIteration
            self._is_asking = True
            try:
                chunk = await anext(self._source)
            except StopAsyncIteration:
                item = self._finish()
                if item is not None:
                    return item
                raise
            except BaseException:
                self._exhaust()
                raise
            finally:
                self._is_asking = False
            self._accept_chunk(chunk)


# --- Iterators over items that others made


def exclusive(items: Any) -> Any:
    """Give the items of an iterator, asynchronous or not, to one task or thread at a time.

    A generator that is asked while it runs raises what only the interpreter knows the meaning of;
    this raises `StreamStateError`.
    """
    return _Exclusive(items) if hasattr(items, "__next__") else _AsyncExclusive(items)


class _Exclusive:
    __slots__ = ("_is_asking", "_items")

    def __init__(self, items: Iterator[Any]) -> None:
        self._items = items
        self._is_asking = False

    def __iter__(self) -> _Exclusive:
        return self

    def __next__(self) -> Any:
        if self._is_asking:
            raise StreamStateError(IS_ASKING)
        self._is_asking = True
        try:
            return next(self._items)
        finally:
            self._is_asking = False


class _AsyncExclusive:
    __slots__ = ("_is_asking", "_items")

    def __init__(self, items: AsyncIterator[Any]) -> None:
        self._items = items
        self._is_asking = False

    def __aiter__(self) -> _AsyncExclusive:
        return self

    async def __anext__(self) -> Any:
        if self._is_asking:
            raise StreamStateError(IS_ASKING)
        self._is_asking = True
        try:
            return await anext(self._items)
        finally:
            self._is_asking = False
