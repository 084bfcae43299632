"""Every way to cut a stream keeps its bytes, and cuts where it says."""

from __future__ import annotations

import pytest

from seamstream.testing import fragmentations as cut

STREAM = "data: 縫い目\n\n".encode()


@pytest.mark.parametrize("stream", [b"", b"a", STREAM, STREAM * 9])
def test_fragmentations_keep_every_byte(stream: bytes) -> None:
    ways = list(cut.fragmentations(stream))
    assert all(b"".join(chunks) == stream for chunks in ways)
    assert [stream] in ways


def test_of_size_leaves_a_shorter_last_chunk() -> None:
    assert cut.of_size(b"abcdefg", 3) == [b"abc", b"def", b"g"]
    assert cut.of_size(b"abcdef", 3) == [b"abc", b"def"]
    assert cut.of_size(b"", 3) == []


@pytest.mark.parametrize("size", [0, -1])
def test_of_size_refuses_sizes_that_give_no_chunks(size: int) -> None:
    with pytest.raises(ValueError, match="at least one byte"):
        cut.of_size(b"abc", size)


def test_byte_by_byte_cuts_between_all_bytes() -> None:
    assert cut.byte_by_byte("縫".encode()) == [b"\xe7", b"\xb8", b"\xab"]


def test_two_way_splits_cut_at_every_place_once() -> None:
    assert list(cut.two_way_splits(b"ab")) == [[b"", b"ab"], [b"a", b"b"], [b"ab", b""]]


def test_with_empty_chunks_puts_one_between_all() -> None:
    assert cut.with_empty_chunks([b"a", b"b"]) == [b"", b"a", b"", b"b", b""]


def test_random_cuts_depend_on_the_seed_alone() -> None:
    stream = bytes(range(256)) * 4
    assert cut.random_cuts(stream, 7) == cut.random_cuts(stream, 7)
    assert cut.random_cuts(stream, 7) != cut.random_cuts(stream, 8)
    # The same on every platform and version.
    lengths = [len(chunk) for chunk in cut.random_cuts(bytes(40), 1, mean=4)]
    assert lengths == [1, 8, 1, 4, 3, 3, 1, 4, 2, 1, 3, 1, 1, 3, 4]


def test_random_cuts_give_no_empty_chunks_of_about_the_mean_size() -> None:
    stream = bytes(10_000)
    for mean in (1, 2, 16, 100):
        chunks = cut.random_cuts(stream, 3, mean=mean)
        assert all(chunks)
        assert len(stream) / mean / 2 <= len(chunks) <= len(stream) / mean * 2
    assert cut.random_cuts(b"", 1) == []


def test_random_cuts_refuse_a_mean_below_one() -> None:
    with pytest.raises(ValueError, match="at least one byte"):
        cut.random_cuts(b"abc", 1, mean=0)
