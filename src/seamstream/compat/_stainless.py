"""What the SDKs of OpenAI, Anthropic and Groq have in common: a decoder that clients make.

These SDKs are generated from one template. A client has a method `_make_sse_decoder`; each of its
streams calls it once, and reads the response's bytes through the `iter_bytes` or `aiter_bytes` of
what it got.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import seamstream
from seamstream import Event, Limits, Stats
from seamstream.profiles import Profile

from . import _exact_json
from ._blocks import has_data_line
from ._private_names import Installation, PrivateName, moved
from ._reading import LIMITS, log_torn

__all__ = ["Decoder", "Hook", "MadeOfOurs", "is_patched"]

ClientT = TypeVar("ClientT")
EventT = TypeVar("EventT")


class MadeOfOurs:
    """Make an event of the SDK's class out of one of ours: the base that comes before it."""

    def __init__(self, event: Event) -> None:
        of_sdk: Any = super()
        of_sdk.__init__(event=event.event, data=event.data, id=event.id or None, retry=event.retry)
        self._source = event

    def json(self) -> Any:
        """Parse the data as JSON, on every call, to what `json.loads` gives."""
        return _exact_json.loads(self._source)


class Decoder(Generic[EventT]):
    """Decode event streams for an SDK: what its `_make_sse_decoder` returns.

    Args:
        limits: How large an event may grow. Default 256 MiB; the SDKs' own have no limit.
    """

    _profile: ClassVar[Profile]
    _event_class: Callable[[Event], EventT]
    _new_core: ClassVar[Callable[..., seamstream.SSEDecoder]] = seamstream.SSEDecoder

    def __init__(self, *, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._core = self._make_core()

    @property
    def stats(self) -> Stats:
        """The counters of the stream that is being read, or was read last."""
        return self._core.stats

    # The next two are the same, once for each kind of source.

    def iter_bytes(self, iterator: Iterable[bytes]) -> Generator[EventT, None, None]:
        """Give the events of one stream.

        An event that the end of the stream cuts is none; it is counted in `stats.torn`, and logged.

        Raises:
            LimitExceededError: An event outgrew the limits.
        """
        self._core = self._make_core()
        for event in self._core.iter(iterator):
            if event.torn:
                log_torn(event)
            elif event.raw or self._keeps_without_data(event):
                yield self._convert(event)

    async def aiter_bytes(self, iterator: AsyncIterable[bytes]) -> AsyncGenerator[EventT, None]:
        """Give the events of one stream; as `iter_bytes` otherwise."""
        self._core = self._make_core()
        async for event in self._core.aiter(iterator):
            if event.torn:
                log_torn(event)
            elif event.raw or self._keeps_without_data(event):
                yield self._convert(event)

    def _make_core(self) -> seamstream.SSEDecoder:
        return type(self)._new_core(profile=self._profile, limits=self._limits, keep_wire=True)

    def _keeps_without_data(self, event: Event) -> bool:
        # By the standard a block without data is no event, and most of these SDKs take every event
        # for JSON, which the empty text is not. But an error must not go by without a sign.
        return event.event == "error" or has_data_line(event)

    def _convert(self, event: Event) -> EventT:
        return self._event_class(event)


_HOOK = "_make_sse_decoder"
_COPYING = ("copy", "with_options")  # two names of one method
_STATE = "__getstate__"
_REPLACED = (_HOOK, *_COPYING, _STATE)
_lock = threading.Lock()


class Hook(Installation):
    """The place where the clients of one SDK make their decoders.

    Args:
        base: The SDK's base class of clients.
        decoder: What makes our decoder.
        distribution: What pip calls the SDK.
        tested: The version of it that this place is known from.
        others: What else `install` has to replace.

    Raises:
        ImportError: The base class has no such place any more.
    """

    def __init__(
        self,
        base: type,
        decoder: Callable[[], Decoder[Any]],
        *,
        distribution: str,
        tested: str,
        others: Sequence[PrivateName] = (),
    ) -> None:
        path = f"{base.__qualname__}.{_HOOK}"
        if _HOOK not in vars(base):
            raise moved(distribution, tested, f"no {base.__module__}.{path}")

        def make_decoder(self: object) -> Decoder[Any]:
            return decoder()

        place = PrivateName(base.__module__, path, lambda _: make_decoder, ("self",))
        super().__init__(distribution, tested, [place, *others])
        self._base = base
        self._decoder = decoder
        self._plain = (vars(base)[_HOOK], make_decoder)

    def patch(self, client: ClientT) -> ClientT:
        """Let a client read its streams through seamstream; give it back.

        So do all that are copied from it afterwards, by `with_options()` or `copy()`; what
        `copy.copy` makes of it is not patched. It keeps its class, for SDKs ask for it. Streams and
        copies made before stay as they are. To patch twice does nothing more.

        Raises:
            TypeError: It is no client of this SDK, or has a decoder of its own.
        """
        own = self._attributes_of(client)
        with _lock:
            if isinstance(own.get(_HOOK), _Patch):
                return client
            hook: Any = getattr(type(client), _HOOK)
            is_ours = getattr(hook, "__module__", None) == self._decoder.__module__
            if _HOOK in own or not (is_ours or hook in self._plain):
                raise TypeError(
                    f"{type(client).__name__} has a decoder of its own:"
                    " what it reads may be no event stream"
                )
            patch = _Patch(self._decoder, {name: own[name] for name in _REPLACED if name in own})
            copying = {name: _patching(getattr(client, name), self.patch) for name in _COPYING}
            own.update(copying)
            own[_STATE] = functools.partial(_state_without_patch, own)
            own[_HOOK] = patch
        return client

    def unpatch(self, client: ClientT) -> ClientT:
        """Undo `patch`; give the client back. Copies made meanwhile stay patched.

        Raises:
            TypeError: It is no client of this SDK.
        """
        own = self._attributes_of(client)
        with _lock:
            patch = own.get(_HOOK)
            if isinstance(patch, _Patch):
                for name in _REPLACED:
                    del own[name]
                own.update(patch.previous)
        return client

    def _attributes_of(self, client: object) -> dict[str, Any]:
        if not isinstance(client, self._base):
            raise TypeError(
                f"a client of {self.distribution} is needed,"
                f" not {type(client).__module__}.{type(client).__qualname__}"
            )
        return vars(client)


class _Patch:
    """Stand for a client's method, and remember what else was there."""

    __slots__ = ("_decoder", "previous")

    def __init__(self, decoder: Callable[[], Decoder[Any]], previous: dict[str, Any]) -> None:
        self._decoder = decoder
        self.previous = previous

    def __call__(self) -> Decoder[Any]:
        return self._decoder()


def _state_without_patch(own: dict[str, Any]) -> dict[str, Any]:
    # What `copy.copy` takes along. The methods above belong to the client that they were made for:
    # a copy that had them would make copies of that one, not of itself.
    patch = own.get(_HOOK)
    previous = patch.previous if isinstance(patch, _Patch) else {}
    return {name: value for name, value in own.copy().items() if name not in _REPLACED} | previous


def _patching(copy: Callable[..., ClientT], patch: Callable[[ClientT], ClientT]) -> Any:
    @functools.wraps(copy)
    def copy_and_patch(*arguments: Any, **options: Any) -> ClientT:
        return patch(copy(*arguments, **options))

    return copy_and_patch


def is_patched(client: object) -> bool:
    """Say whether `patch` has changed this client, or the one that it was copied from."""
    return isinstance(vars(client).get(_HOOK), _Patch)
