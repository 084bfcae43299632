"""A buffer that uses a decoder while the decoder asks it for its bytes: Python 3.12, PEP 688."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from seamstream import StreamStateError


class ReentrantBuffer:
    """Makes the calls, each of which must be refused, and then gives its content."""

    def __init__(self, content: bytes, *calls: Callable[[], Any]) -> None:
        self.content = content
        self.calls = calls
        self.refused = 0

    def __buffer__(self, flags: int) -> memoryview:
        for call in self.calls:
            with pytest.raises(StreamStateError):
                call()
            self.refused += 1
        return memoryview(self.content)
