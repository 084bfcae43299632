"""The two iterators of a decoder, driven alike."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest


async def asynchronous(chunks: Any) -> AsyncIterator[Any]:
    for chunk in chunks:
        yield chunk


async def collect(source: Any) -> list[Any]:
    return [item async for item in source]


async def first(source: Any) -> Any:
    return await source.__anext__()


def run(coroutine: Any) -> Any:
    """Run what never has to wait, without an event loop, which would end its sources too."""
    with pytest.raises(StopIteration) as finished:
        coroutine.send(None)
    return finished.value.value


class Puller:
    """`iter` and `aiter` behind one interface, so that what holds for both is written once."""

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, decoder: Any, chunks: Any, **options: Any) -> Any:
        if self.name == "iter":
            return decoder.iter(chunks, **options)
        return decoder.aiter(asynchronous(chunks), **options)

    def next(self, iterator: Any, *default: Any) -> Any:
        """The next item; at the end the default, or `EOFError`."""
        try:
            if self.name == "iter":
                return next(iterator)
            return run(first(iterator))
        except (StopIteration, StopAsyncIteration):
            if default:
                return default[0]
            raise EOFError from None

    def rest(self, iterator: Any) -> list[Any]:
        return list(iterator) if self.name == "iter" else run(collect(iterator))
