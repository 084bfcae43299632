"""Ways to cut a stream into chunks.

Chunk boundaries carry no meaning, so a program that reads a stream must give the same result for
every one of them. All cuts are made in bytes: a character, a line ending, an event may be cut.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

__all__ = [
    "byte_by_byte",
    "fragmentations",
    "of_size",
    "random_cuts",
    "two_way_splits",
    "with_empty_chunks",
]


def of_size(stream: bytes, size: int) -> list[bytes]:
    """Cut into chunks of ``size`` bytes; the last one may be shorter."""
    if size < 1:
        raise ValueError(f"a chunk has at least one byte, not {size}")
    return [stream[i : i + size] for i in range(0, len(stream), size)]


def byte_by_byte(stream: bytes) -> list[bytes]:
    """Cut between all bytes."""
    return of_size(stream, 1)


def two_way_splits(stream: bytes) -> Iterator[list[bytes]]:
    """Cut in two, at every place; the first and the last way have an empty part."""
    for cut in range(len(stream) + 1):
        yield [stream[:cut], stream[cut:]]


def random_cuts(stream: bytes, seed: int, *, mean: int = 16) -> list[bytes]:
    """Cut at random places into non-empty chunks of ``mean`` bytes or so.

    The same seed gives the same cuts, on every platform and version of Python.
    """
    if mean < 1:
        raise ValueError(f"a chunk has at least one byte, not {mean}")
    source = random.Random(seed)
    cuts = [cut for cut in range(1, len(stream)) if source.random() * mean < 1]
    places = [0, *cuts, len(stream)]
    return [stream[a:b] for a, b in itertools.pairwise(places) if a < b]


def with_empty_chunks(chunks: list[bytes]) -> list[bytes]:
    """Put an empty chunk before, between and after the others."""
    return [b"", *(piece for chunk in chunks for piece in (chunk, b""))]


def fragmentations(stream: bytes, *, seeds: int = 4) -> Iterator[list[bytes]]:
    """Cut in every way of this module, one after another.

    Whole, at every place in two, byte by byte, with empty chunks between, at fixed sizes, and at
    random places with each of ``seeds`` seeds. There are len(stream) + 16 or so of them, so the
    work is quadratic in the stream's length: use it on short streams.
    """
    yield [stream]
    yield from two_way_splits(stream)
    yield byte_by_byte(stream)
    yield with_empty_chunks(byte_by_byte(stream))
    for size in (2, 3, 5, 7, 16, 33, 128):
        yield of_size(stream, size)
    for seed in range(seeds):
        yield random_cuts(stream, seed)
