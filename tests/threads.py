"""Threads that change as often as the interpreter can."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable


def run_threads(count: int, work: Callable[[int], None]) -> None:
    """Run ``work(number)`` in that many threads at once; what it raises fails the test."""
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as failure:
            failures.append(failure)
            raise

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert failures == []
