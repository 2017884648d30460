"""Items in the form that the searches work on: by section of time.

```
        address                      section: a time at which as much is live as possible: what is
   height  |----------------         live there is not part of what is live in another section
           |  3  |    2    |
           |-----+---------|
           |  3  |  1 |  4 |
           +-----+----+----+ section
              0     1    2
```
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lowtide.planning.exact.items import Items
from lowtide.planning.problem import FREE, Int64Array
from lowtide.records import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class Instance:
    """Some items, to be placed from address 0 up, and in which sections of time each is live.

    `chosen` are their numbers among all items. `sections[starts[i]:starts[i + 1]]` are the sections
    in which the one at `i` is live, ascending; `cover` are likewise the items by section. `steps`
    are the steps of the problem that the sections stand for.
    """

    chosen: Int64Array
    size: Int64Array
    alignment: Int64Array
    fixed: Int64Array
    starts: Int64Array
    sections: Int64Array
    cover_starts: Int64Array
    cover: Int64Array
    steps: Int64Array

    def __len__(self) -> int:
        return len(self.size)

    @property
    def common_alignment(self) -> int:
        """The greatest number that all addresses are multiples of."""
        return max(int(np.gcd.reduce(self.alignment)), 1)

    def live(self, amount: Int64Array) -> Int64Array:
        """Return for each section the sum of an amount over the items live there."""
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(amount[self.cover])])
        live: Int64Array = np.diff(sums[self.cover_starts])
        return live

    def spans(self) -> tuple[Int64Array, Int64Array]:
        """Return the first and the last section of each item."""
        return self.sections[self.starts[:-1]], self.sections[self.starts[1:] - 1]

    def fixed_neighbours(self) -> Iterator[tuple[int, Int64Array]]:
        """Yield each fixed item, the lowest first, and the others that live together with it."""
        fixed = np.flatnonzero(self.fixed != FREE)
        if not len(fixed):
            return
        owner = np.repeat(np.arange(len(self)), np.diff(self.starts))
        joined = (owner[1:] == owner[:-1]) & (self.sections[1:] == self.sections[:-1] + 1)
        begins = np.flatnonzero(np.append(True, ~joined))
        runs, first = owner[begins], self.sections[begins]
        last = self.sections[np.append(begins[1:], len(owner)) - 1]
        of_run = np.searchsorted(runs, np.arange(len(self) + 1))
        for i in fixed[np.argsort(self.fixed[fixed], kind="stable")].tolist():
            met = np.zeros(len(self), bool)
            for run in range(int(of_run[i]), int(of_run[i + 1])):
                met[runs[(first <= last[run]) & (last >= first[run])]] = True
            met[i] = False
            yield i, np.flatnonzero(met)


def instance_of(items: Items, chosen: Int64Array, fixed: Int64Array | None = None) -> Instance:
    """Return some of the items, in ascending order, perhaps at other fixed addresses.

    A time is a section where something ends: before, no more is live than then.
    """
    renumbered = np.full(len(items), -1)
    renumbered[chosen] = np.arange(len(chosen))
    item = renumbered[items.item]
    rows = np.flatnonzero(item >= 0)
    item, first, last = item[rows], items.first[rows], items.last[rows]
    begins = np.unique(first)
    first = np.searchsorted(begins, first)
    last = np.searchsorted(begins, last, side="right") - 1
    kept = np.unique(last)
    first, last = np.searchsorted(kept, first), np.searchsorted(kept, last)
    lengths = last - first + 1
    behind = np.cumsum(lengths)
    sections = np.arange(int(behind[-1]) if len(behind) else 0)
    sections += np.repeat(first - (behind - lengths), lengths)
    owner = np.repeat(item, lengths)
    by_section = np.argsort(sections, kind="stable")
    return Instance(
        chosen,
        items.size[chosen],
        items.alignment[chosen],
        (items.fixed if fixed is None else fixed)[chosen],
        np.searchsorted(owner, np.arange(len(chosen) + 1)),
        sections,
        np.searchsorted(sections[by_section], np.arange(len(kept) + 1)),
        owner[by_section],
        items.steps[begins[kept]],
    )
