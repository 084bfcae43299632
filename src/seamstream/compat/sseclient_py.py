"""Stand in for sseclient-py: the same names, read by seamstream's decoder.

    import seamstream.compat.sseclient_py as sseclient

is the whole migration. What is different, and why: docs/coming-from/sseclient-py.md.
"""

from __future__ import annotations

import codecs
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

import seamstream
from seamstream import Limits, Stats

from ._reading import LIMITS, Reader

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from seamstream.profiles import Profile

__all__ = ["SSEClient"]


class Event:
    """An event of an event stream. It may be changed.

    Attributes:
        id: The last event ID, from this event or an earlier one; None when there was none.
        event: The event type.
        data: The data, its lines joined by LF.
        retry: The reconnection time that came with this event, in milliseconds, as text; or None.
    """

    def __init__(
        self,
        id: str | None = None,
        event: str = "message",
        data: str = "",
        retry: str | None = None,
    ) -> None:
        self.id = id
        self.event = event
        self.data = data
        self.retry = retry

    def __str__(self) -> str:
        identified = f" #{self.id}" if self.id else ""
        size = f"{len(self.data)} bytes" if self.data else "no data"
        reconnection = f", retry in {self.retry}ms" if self.retry else ""
        return f"{self.event} event{identified}, {size}{reconnection}"


class SSEClient:
    """Read the events of a source of bytes.

    Args:
        event_source: What gives the bytes when it is iterated over, in any pieces: a response of
            requests or urllib3 that was asked for with `stream=True` or `preload_content=False`.
        char_enc: The encoding. Event streams are always UTF-8, so this is for those that are not.
        profile: Whose behaviour to follow where sseclient-py and the standard differ; see
            `SSEDecoder`. "whatwg" is the standard: the end of the stream then makes no event of
            one that it cut.
        limits: How large an event may grow. Default: 256 MiB; sseclient-py has no limit.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: There is no such profile.
    """

    def __init__(
        self,
        event_source: Iterable[Buffer],
        char_enc: str = "utf-8",
        *,
        profile: Profile = "sseclient_py",
        limits: Limits = LIMITS,
    ) -> None:
        self._event_source = event_source
        self._char_enc = char_enc
        self._profile: Profile = profile
        self._limits = limits
        self._reader = self._new_reader()

    def _new_reader(self) -> Reader:
        return Reader(profile=self._profile, limits=self._limits)

    @property
    def torn(self) -> seamstream.Event | None:
        """What the end of the stream cut and no event was made of, or None.

        With `profile="sseclient_py"` an event is made of it.
        """
        return self._reader.torn

    @property
    def stats(self) -> Stats:
        """The counters of the last iteration so far."""
        return self._reader.stats

    def events(self) -> Generator[Event, None, None]:
        """Read the source and give its events as they complete.

        Raises:
            LimitExceededError: An event outgrew the limits.
            UnicodeDecodeError: The source is not in an encoding other than UTF-8 that `char_enc`
                names. In UTF-8, U+FFFD takes the place of what is ill-formed.
            LookupError: There is no such encoding.
        """
        reader = self._reader = self._new_reader()
        for batch in reader.batches(_as_utf8(self._event_source, self._char_enc)):
            for event in batch:
                retry = event.retry
                yield Event(
                    event.id or None,
                    event.event or "message",
                    event.data,
                    None if retry is None else str(retry),
                )

    def close(self) -> None:
        """Close the source."""
        source: Any = self._event_source
        source.close()


def _as_utf8(chunks: Iterable[Buffer], encoding: str) -> Iterable[Buffer]:
    " ".encode(encoding)  # refuses what is a codec, but not of text: hex, rot13
    codec = codecs.lookup(encoding)
    return chunks if codec.name == "utf-8" else _transcode(chunks, codec)


def _transcode(chunks: Iterable[Buffer], codec: codecs.CodecInfo) -> Generator[bytes, None, None]:
    decoder = codecs.getincrementaldecoder(codec.name)()
    for chunk in chunks:
        before = decoder.getstate()
        try:
            text = decoder.decode(chunk)
        except UnicodeDecodeError:
            # Once more, to give what is before the fault.
            decoder.setstate(before)
            for byte in memoryview(chunk).tobytes():
                yield decoder.decode(bytes((byte,))).encode("utf-8", "surrogatepass")
            raise
        yield text.encode("utf-8", "surrogatepass")
    yield decoder.decode(b"", True).encode("utf-8", "surrogatepass")
