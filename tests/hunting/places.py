"""Places that values take one after the other, as far as no two of them are there at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import product
from typing import final

Stretch = tuple[int, int]
"""The first and the last step at which a value is there, both included."""


@final
class Places:
    """Values by number, each at first in a place of its own from `born` to `last`.

    `pairs` are of a value and one that may be written over it, where it is read last.
    """

    def __init__(
        self, born: Sequence[int], last: Sequence[int], pairs: Collection[tuple[int, int]]
    ) -> None:
        self._born, self._last = born, last
        self._pairs = frozenset([(x, y) for x, y in pairs if last[x] == born[y]])
        self._place = list(range(len(born)))
        self._values: dict[int, list[int]] = {x: [x] for x in self._place}
        self._bound: set[int] = set()

    def bind(self, value: int, heir: int) -> None:
        """Put a value and what has to follow it in one place, which the two are known to allow."""
        one = self._joined(self._place[value], self._place[heir])
        self._bound.add(one)

    def unite(self, value: int, made: int) -> bool:
        """Put the two values of a pair in one place; return whether they may be there.

        They may not where both places are bound to others, or where two values in them are there at
        once and are no pair.
        """
        one, other = self._place[value], self._place[made]
        if one == other:
            return True
        if one in self._bound and other in self._bound:
            return False
        for a, b in product(self._values[one], self._values[other]):
            if self._meet(a, b) and (a, b) not in self._pairs and (b, a) not in self._pairs:
                return False
        self._joined(one, other)
        return True

    def taken(self) -> Iterator[tuple[list[int], list[Stretch]]]:
        """Return for each place its values, and the stretches in which it is taken."""
        for values in self._values.values():
            yield values, _united([(self._born[x], self._last[x]) for x in values])

    def _meet(self, a: int, b: int) -> bool:
        return max(self._born[a], self._born[b]) <= min(self._last[a], self._last[b])

    def _joined(self, one: int, other: int) -> int:
        if one == other:
            return one
        for value in self._values[other]:
            self._place[value] = one
        self._values[one] += self._values.pop(other)
        if other in self._bound:
            self._bound.discard(other)
            self._bound.add(one)
        return one


def _united(stretches: list[Stretch]) -> list[Stretch]:
    """Return stretches in order, with those that meet or overlap made one."""
    found: list[Stretch] = []
    for first, last in sorted(stretches):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return found
