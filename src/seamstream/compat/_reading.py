"""Read a response for a stand-in, and keep what it has no way to hand out.

The libraries that are stood in for drop an event that the end of the stream cuts. Here it goes to
`Reader.torn` and the log, so that it is not lost in silence.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any

from seamstream import Event, LimitExceededError, Limits, SSEDecoder, Stats

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from seamstream.profiles import Profile

__all__ = ["LIMITS", "Reader", "log_torn"]

# Where the original has no limit. Images come in single events.
LIMITS = Limits(max_event_bytes=256 << 20)

logger = logging.getLogger("seamstream.compat")
# A program that has not set up logging sees nothing, as with the originals.
logger.addHandler(logging.NullHandler())


def log_torn(event: Event) -> None:
    """Report an event that the end of the stream cut, without its text."""
    logger.warning(
        "the stream ended inside an event: the %d bytes from byte %d on give none",
        len(event.raw),
        event.offset,
    )


class Reader:
    """Decode the chunks of one event stream.

    Args:
        profile: As for `SSEDecoder`.
        limits: How large an event may grow.
        too_large: Makes, of the `LimitExceededError` for an event that outgrows it, what to raise
            in its place. None: nothing, it comes out itself.

    Attributes:
        torn: What the end of the stream cut, or None.
    """

    __slots__ = ("_decoder", "_too_large", "torn")

    def __init__(
        self,
        *,
        profile: Profile,
        limits: Limits,
        too_large: Callable[[LimitExceededError], Exception] | None = None,
    ) -> None:
        self._decoder = SSEDecoder(profile=profile, limits=limits)
        self._too_large = too_large
        self.torn: Event | None = None

    @property
    def stats(self) -> Stats:
        """The counters of the stream so far."""
        return self._decoder.stats

    # The next two are the same, once for each kind of source.

    def batches(self, chunks: Iterable[Buffer]) -> Generator[tuple[Event, ...], None, None]:
        """Give the events that each chunk completes, for each that completes any."""
        feed = self._decoder.feed
        try:
            for chunk in chunks:
                events = feed(chunk)
                if events:
                    yield events
                    feed(b"")  # raises an error that came after them
            events = self._finish()
        except LimitExceededError as error:
            if self._too_large is None:
                raise
            raise self._too_large(error) from error
        if events:
            yield events

    async def abatches(
        self, chunks: AsyncIterable[Buffer]
    ) -> AsyncGenerator[tuple[Event, ...], None]:
        """Do so for an asynchronous source; close it in the end, if it is a generator."""
        feed = self._decoder.feed
        try:
            async for chunk in chunks:
                events = feed(chunk)
                if events:
                    yield events
                    feed(b"")
            events = self._finish()
        except LimitExceededError as error:
            if self._too_large is None:
                raise
            raise self._too_large(error) from error
        finally:
            aclose: Any = getattr(chunks, "aclose", None)
            if aclose is not None:
                await aclose()
        if events:
            yield events

    def _finish(self) -> tuple[Event, ...]:
        events = self._decoder.close()
        if events and events[0].torn:
            self.torn = events[0]
            log_torn(events[0])
            return ()
        return events
