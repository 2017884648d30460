"""The items to be placed in one address space: buffers of more than 0 bytes, region borders."""

from __future__ import annotations

from math import gcd, lcm
from typing import Final

import numpy as np

from lowtide.planning.problem import ARENA, FREE, MOST_BYTES, Int64Array, PackingProblem
from lowtide.records import dataclass

NOBODY: Final = -1
"""In place of the number of a buffer: a border between regions."""


@dataclass(frozen=True, eq=False, slots=True)
class Space:
    """The addresses of a problem: regions begin at `bases`, and the arena at `arena`.

    The smallest region lies lowest, so that an item has to lie above all regions it is too large
    for: that makes bounds stronger.
    """

    bases: Int64Array
    arena: int

    @classmethod
    def of(cls, problem: PackingProblem) -> Space:
        """Return the addresses; raises ValueError where there are not enough of them."""
        if not len(problem.region_bytes):
            return cls(np.zeros(0, np.int64), 0)
        unit = lcm(*problem.alignment.tolist())
        bases, end = np.zeros(len(problem.region_bytes), np.int64), 0
        for region in np.argsort(problem.region_bytes, kind="stable").tolist():
            bases[region] = end
            end = (end + int(problem.region_bytes[region])) // unit * unit + unit
        if end >= MOST_BYTES:
            raise ValueError(f"regions at multiples of {unit:,} need {end:,} addresses: too many")
        return cls(bases, end)

    def addresses(self, region: Int64Array, offset: Int64Array) -> Int64Array:
        """Return addresses; an offset that is `FREE` stays so."""
        base = np.append(self.bases, self.arena)[region]
        return np.where(offset == FREE, FREE, base + offset)

    def places(self, addresses: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return regions and offsets of addresses."""
        order = np.append(np.argsort(self.bases), ARENA)
        bases = np.append(np.sort(self.bases), self.arena)
        region = order[np.searchsorted(bases, addresses, side="right") - 1]
        return region, addresses - np.append(self.bases, self.arena)[region]


@dataclass(frozen=True, eq=False, slots=True)
class Items:
    """Items and when they are live.

    `numbers` are those of the buffers in the problem, `NOBODY` for a border. Rows stand in order of
    `item`, then `first`; times are those of `steps`, numbered from 0. `lower` and `upper` are the
    first and the last time of each item.
    """

    numbers: Int64Array
    size: Int64Array
    alignment: Int64Array
    fixed: Int64Array
    item: Int64Array
    first: Int64Array
    last: Int64Array
    lower: Int64Array
    upper: Int64Array
    steps: Int64Array

    def __len__(self) -> int:
        return len(self.size)

    @property
    def granule(self) -> int:
        """A number of bytes that divides the height of every smallest packing."""
        step = gcd(*self.size.tolist(), *self.fixed[self.fixed != FREE].tolist())
        alignments, before = sorted(set(self.alignment.tolist())), -1
        while step != before:
            before = step
            for alignment in alignments:
                step = step if step % alignment == 0 else gcd(step, alignment)
        return max(step, 1)

    @property
    def common_alignment(self) -> int:
        """The greatest number that all addresses are multiples of."""
        return max(int(np.gcd.reduce(self.alignment)), 1)

    def live(self, amount: Int64Array) -> Int64Array:
        """Return for each time the sum of an amount over the items live then."""
        change = np.zeros(len(self.steps) + 1, np.int64)
        np.add.at(change, self.first, amount[self.item])
        np.subtract.at(change, self.last + 1, amount[self.item])
        return np.cumsum(change)[:-1]


def items_of(problem: PackingProblem, space: Space) -> Items:
    """Return the buffers of a problem that take any bytes, then the borders of its regions."""
    kept = np.flatnonzero(problem.nbytes)
    renumbered = np.full(len(problem), NOBODY)
    renumbered[kept] = np.arange(len(kept))
    rows = np.flatnonzero(renumbered[problem.item] != NOBODY)
    steps = np.unique(problem.first[rows])
    item, first = renumbered[problem.item[rows]], np.searchsorted(steps, problem.first[rows])
    last = np.searchsorted(steps, problem.last[rows], side="right") - 1
    fixed = space.addresses(problem.region_of, problem.fixed_offset)[kept]
    numbers, size, alignment = kept, problem.nbytes[kept], problem.alignment[kept]
    if len(space.bases) and len(rows):
        ends = space.bases + problem.region_bytes
        count = len(ends)
        numbers = np.concatenate([numbers, np.full(count, NOBODY)])
        bases = np.append(np.sort(space.bases), space.arena)
        borders = bases[np.searchsorted(bases, space.bases, side="right")] - ends
        size = np.concatenate([size, borders])
        alignment = np.concatenate([alignment, np.ones(count, np.int64)])
        fixed = np.concatenate([fixed, ends])
        item = np.concatenate([item, len(kept) + np.arange(count)])
        first = np.concatenate([first, np.zeros(count, np.int64)])
        last = np.concatenate([last, np.full(count, len(steps) - 1)])
    order = np.lexsort([first, item])
    item, first, last = item[order], first[order], last[order]
    begins = np.searchsorted(item, np.arange(len(size)))
    ends = np.searchsorted(item, np.arange(len(size)), side="right") - 1
    return Items(
        numbers, size, alignment, fixed, item, first, last, first[begins], last[ends], steps
    )
