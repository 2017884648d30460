"""A solver in a thread of its own, so that Ctrl-C and deadlines can stop it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final, TypeVar

Result = TypeVar("Result")

POLL_SECONDS: Final = 0.05


def run_stoppable(
    solve: Callable[[], Result], stop: Callable[[], None], over: Callable[[], bool]
) -> Result:
    """Return what `solve` does, with `stop` called from when `over` is true.

    `solve` has to release the interpreter's lock and to return soon after `stop`. Ctrl-C stops it
    too, and then raises KeyboardInterrupt.
    """
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(solve)
        try:
            while not _done(future):
                if over():
                    stop()
        except KeyboardInterrupt:
            while not _done(future):
                stop()
            raise
        return future.result()


def _done(future: Future[Result]) -> bool:
    """Wait a moment and return whether the future is done."""
    return bool(wait([future], POLL_SECONDS).done)
