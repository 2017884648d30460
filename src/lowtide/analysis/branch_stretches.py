"""Stretches in which values are needed that only some branches of a conditional read.

position     1   2   3   4   5   6
step         x   A   A   B   B   conditional with the branches A and B
reads of x       *           *
x is live    #   #       #   #      its place is free at 3: branch A does not read it any more
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

Stretch = tuple[int, int]
"""The first and the last position of a time, both included."""


class BranchStretches:
    """The branches of a conditional: first and last position, and the last reads within."""

    def __init__(self) -> None:
        self.spans: list[Stretch] = []
        self.reads: dict[int, dict[int, int]] = {}
        """Per value from outside, the last read in each branch, by its number."""

    def add(self, first: int, last: int, given: Sequence[int], last_read: Sequence[int]) -> None:
        """Append a branch that is given some values, after it was walked."""
        for value in given:
            reads = self.reads.setdefault(value, {})
            if last_read[value] >= first:
                reads[len(self.spans)] = last_read[value]
        self.spans.append((first, last))

    def unneeded(self, value: int) -> Iterator[Stretch]:
        """Yield the stretches, perhaps empty, of branches that do not read a value any more."""
        reads = self.reads[value]
        for number, (first, last) in enumerate(self.spans):
            yield reads.get(number, first - 1) + 1, last


def branch_stretches(
    choices: Sequence[BranchStretches], made: Sequence[int], last_read: Sequence[int]
) -> dict[int, tuple[Stretch, ...]]:
    """Return the stretches of the values which only branches of a conditional need to the end."""
    unneeded: dict[int, list[Stretch]] = {}
    for choice in choices:
        start, end = choice.spans[0][0], choice.spans[-1][1]
        for value in choice.reads:
            if start <= last_read[value] <= end:
                unneeded.setdefault(value, []).extend(choice.unneeded(value))
    found = {}
    for value, gaps in unneeded.items():
        stretches = []
        begin, last = made[value], last_read[value]
        for since, until in sorted(gaps):
            if since > last:
                break
            if begin < since:
                stretches.append((begin, since - 1))
            begin = max(begin, until + 1)
        if begin <= last:
            stretches.append((begin, last))
        if len(stretches) > 1:
            found[value] = tuple(stretches)
    return found


def last_reads_in_branches(
    choices: Sequence[BranchStretches], stretches: Mapping[int, Sequence[Stretch]]
) -> frozenset[tuple[int, int]]:
    """Return the pairs of a value and a position in a branch after which it is not needed there."""
    return frozenset(
        [
            (value, position)
            for choice in choices
            for value, reads in choice.reads.items()
            for position in reads.values()
            if any(last == position for _, last in stretches.get(value, ()))
        ]
    )
