"""Ways to cut a stream into chunks. Boundaries carry no meaning, so every way must agree."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator


def byte_by_byte(stream: bytes) -> list[bytes]:
    return [stream[i : i + 1] for i in range(len(stream))]


def of_size(stream: bytes, size: int) -> list[bytes]:
    return [stream[i : i + size] for i in range(0, len(stream), size)]


def with_empty_chunks(chunks: list[bytes]) -> list[bytes]:
    """An empty chunk before, between and after all others."""
    return [b"", *(piece for chunk in chunks for piece in (chunk, b""))]


def two_way_splits(stream: bytes) -> Iterator[list[bytes]]:
    """Every cut in two, the two with an empty part included."""
    for cut in range(len(stream) + 1):
        yield [stream[:cut], stream[cut:]]


def at_cuts(stream: bytes, cuts: list[int]) -> list[bytes]:
    """Cut at the given places; a place named twice makes an empty chunk."""
    places = [0, *sorted(cuts), len(stream)]
    return [stream[a:b] for a, b in itertools.pairwise(places)]


def random_cuts(stream: bytes, seed: int, mean: int = 16) -> list[bytes]:
    """Cut at reproducible random places, about one in ``mean`` bytes."""
    source = random.Random(seed)
    count = len(stream) // mean + 1
    return at_cuts(stream, [source.randint(0, len(stream)) for _ in range(count)])


def fragmentations(stream: bytes) -> Iterator[list[bytes]]:
    """Whole, every two-way split, byte by byte, with empty chunks, fixed sizes, random cuts."""
    yield [stream]
    yield from two_way_splits(stream)
    yield byte_by_byte(stream)
    yield with_empty_chunks(byte_by_byte(stream))
    for size in (2, 3, 5, 7, 16, 33):
        yield of_size(stream, size)
    for seed in range(4):
        yield random_cuts(stream, seed)
