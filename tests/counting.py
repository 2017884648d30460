"""Work that is counted, so that no test has to ask the clock how long something takes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

Found = TypeVar("Found")


def counted(work: Callable[[], Found]) -> tuple[Found, int]:
    """Return what `work` returns, and how many lines of Python it runs, as `lines_run` counts."""
    found: list[Found] = []
    lines = lines_run(lambda: found.append(work()))
    return found[0], lines


def lines_run(work: Callable[[], object]) -> int:
    """Return how many lines of Python `work` runs, those of each round of a comprehension too.

    What NumPy and the interpreter do within a line is not counted.
    """
    count = 0

    def follow(frame: FrameType, event: str, given: Any) -> Any:
        nonlocal count
        count += event == "line"
        return follow

    before = sys.gettrace()
    sys.settrace(follow)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
