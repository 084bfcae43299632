"""Waiting on an event loop of asyncio: for how long, and whose turn it is.

Only a running loop is used, and asyncio never imported: on another kind of loop there is no time
limit and no turn to give, and what drives a coroutine by hand needs neither.
"""

from __future__ import annotations

import sys
from time import perf_counter_ns
from types import coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task, TimerHandle
    from collections.abc import Generator

__all__ = ["Alarm", "Turns", "running_loop"]

TURN_NS = 5_000_000  # as long as CPython leaves one thread its turn
NEVER_NS = (1 << 63) - 1  # as a time: more than sys.maxsize where that has 31 bits


def running_loop() -> AbstractEventLoop | None:
    """Give the event loop of asyncio that runs here, if any."""
    asyncio: Any = sys.modules.get("asyncio")
    if asyncio is None:
        return None
    try:
        loop: AbstractEventLoop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    return loop


@coroutine
def _one_turn() -> Generator[None, None, None]:
    yield  # which is what asyncio.sleep(0) does


class Turns:
    """See to it that the others on the loop get their turns, at 2 × `TURN_NS` at the latest.

    A source that always has data ready never waits, and a loop over it would be all that runs.
    Whether the loop has turned meanwhile, a callback tells: to give it a turn that it has had costs
    more than an event.
    """

    __slots__ = ("_has_turned", "_loop", "due_ns")

    def __init__(self, loop: AbstractEventLoop | None) -> None:
        self._loop = loop
        self._has_turned = True
        self.due_ns: int = 0 if loop is not None else NEVER_NS

    async def give(self) -> None:
        """Give a turn if there was none since the last call; to be called from `due_ns` on."""
        if not self._has_turned:
            await _one_turn()
        self.due_ns = perf_counter_ns() + TURN_NS
        self._has_turned = False
        assert self._loop is not None
        self._loop.call_soon(self._turned)

    def _turned(self) -> None:
        self._has_turned = True


class Alarm:
    """Cancel the task that waits once so much time has passed.

    One timer, that looks at what has happened when it goes off, and not one for each wait: to set
    a timer and take it back costs ten times what a chunk does.

        alarm.begin(now)
        try:
            await something
        except BaseException:
            if alarm.has_rung():
                ...
            raise
        finally:
            alarm.end()
    """

    __slots__ = ("_cancels", "_handle", "_loop", "_ns", "_rung", "_since", "_task", "_task_of")

    def __init__(self, loop: AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._ns = int(seconds * 1e9)
        self._handle: TimerHandle | None = None
        self._since: int | None = None  # when the waiting began
        self._task: Task[Any] | None = None  # what waits, while it does
        self._task_of: Any = sys.modules["asyncio"].current_task
        self._cancels = 0  # that the task was asked for by others before
        self._rung = False

    def begin(self, now: int) -> None:
        """Begin to wait, or go on with it if there was no `forget` meanwhile."""
        if self._since is None:
            self._since = now
        task: Task[Any] | None = self._task_of(self._loop)
        if task is None:
            raise RuntimeError("a time limit needs a task")
        self._task = task
        if self._handle is None:
            self._handle = self._loop.call_later(self._ns / 1e9, self._look)

    def end(self) -> None:
        """Wait no longer."""
        if self._rung:  # and what waited took no notice
            self.has_rung()
        self._task = None

    def forget(self) -> None:
        """Begin anew: what was waited for has come."""
        self._since = None

    def cancel(self) -> None:
        """Take the timer away."""
        self._task = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def has_rung(self) -> bool:
        """Tell whether what was raised is this alarm's doing; to be called once for each wait."""
        rung, self._rung = self._rung, False
        if rung and sys.version_info >= (3, 11) and self._task is not None:
            # Else somebody else has cancelled the task as well.
            return self._task.uncancel() <= self._cancels
        return rung

    def _left(self) -> float:
        """Give how many seconds are left, while something waits."""
        assert self._since is not None
        return (self._ns - (perf_counter_ns() - self._since)) / 1e9

    def _look(self) -> None:
        self._handle = None
        if self._task is None or self._since is None:
            return  # the next wait sets it again
        left = self._left()
        if left > 0:
            self._handle = self._loop.call_later(left, self._look)
        else:
            # A turn later: what has come in this one is handed over before that.
            self._loop.call_soon(self._ring)

    def _ring(self) -> None:
        if self._task is not None and self._since is not None and self._left() <= 0:
            if sys.version_info >= (3, 11):
                self._cancels = self._task.cancelling()
            self._rung = True
            self._task.cancel()
        elif self._task is not None and self._handle is None:
            self._look()
