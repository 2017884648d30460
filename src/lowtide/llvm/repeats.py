"""Things that a function has more than once: how often, and results that it has already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, final


@final
class Repeats:
    """How often things were written in a function, and the results of calls in each block."""

    __slots__ = ("_counts", "_results")

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._results: dict[Any, str] = {}

    def count(self, what: str) -> int:
        """Count one more of something that is written; return how many there are by now."""
        self._counts[what] += 1
        return self._counts[what]

    def once(self, block: str, call: str, values: tuple[str, ...], write: Callable[[], str]) -> str:
        """Return the name of the result of a call, which `write` writes where it is new in a block.

        What is called has no result but for these values, and changes nothing. Lines of a block run
        in the order in which they are written.
        """
        key = (block, call, values)
        if key not in self._results:
            self._results[key] = write()
        return self._results[key]
