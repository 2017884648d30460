"""The least extra time within a budget, added up over windows between first runs of nodes.

Let u1, u2, ... be nodes of which each comes before the next. The steps behind the first run of u1,
up to the first run of u2, are a window; so are those from there to u3, and the last window has no
end. What runs in a window and has run before costs extra time, and no step is in two windows:

    time       u1 ------------> u2 ------------> u3 --------------------->
    window        runs again 1     runs again 2     runs again 3

What comes behind u1 and before u2, and u2 itself, runs in the first window for sure. A network like
that of one node (`network.py`) proves what this costs: of the step in which u1 first runs, in which
these nodes have not run, u1 and all before it have, and what else runs in the window costs nothing.
What a node in the window reads is made in it or in memory as it begins. So is what nothing can make
again and something behind u1 reads, in whatever window. Extra time is at least the sum of what the
networks prove, for each choice of u1, u2, ...: the largest sum is found from the last node on.
The windows of that sum are then divided into more cases (`branches.py`), and the largest sum is
found again, as long as it has windows that were not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from lowtide.remat.branches import DEEP_SPLITS, Cases, ticks_by_cases
from lowtide.remat.network import ANCESTOR, DESCENDANT, Networks
from lowtide.remat.prices import CutLines

_WINDOWS: Final = 24
"""From each node so many windows are tried, those first behind which most is proved: of equal ones
the longest."""


_DEEP_WINDOWS: Final = 12
"""So many windows of largest sums are divided further."""

Window = tuple[int, int | None]
"""The node behind whose first run a window begins, and the one with whose it ends, if any."""


class WindowBound:
    """Sums over windows for one budget; `behind` are ticks proved behind the first run of nodes."""

    def __init__(
        self, networks: Networks, budget: int, behind: Mapping[int, int], late: Callable[[], bool]
    ) -> None:
        self._networks = networks
        self._budget = budget
        self._proved: dict[Window, int] = {(node, None): x for node, x in behind.items()}
        position = networks.position
        self._nodes = sorted(behind, key=lambda v: -int(position[v]))
        self._late = late

    def proved(self) -> int:
        """Return the most ticks that windows prove together, as far as there is time."""
        best: dict[int, int] = {}
        for node in self._nodes:
            if self._late():
                break
            best[node] = self._best(node, best)
        return self._deepened()

    def _best(self, node: int, later: Mapping[int, int]) -> int:
        """The most ticks that windows prove behind a node, of which `later` ones are known.

        No window proves more than what has no end.
        """
        most = alone = self._proved[node, None]
        kinds = self._networks.kinds(node)
        ends = {x: v for v, x in list(later.items())[::-1] if x > 0 and kinds[v] == DESCENDANT}
        for end in sorted(ends.values(), key=lambda v: -later[v])[:_WINDOWS]:
            if alone + later[end] <= most or self._late():
                break
            lines = self._lines(node, end)
            ticks = ticks_by_cases(self._networks, lines, self._budget, self._late)
            self._proved[node, end] = ticks
            most = max(most, later[end] + ticks)
        return most

    def _deepened(self) -> int:
        """The most ticks, where the windows that prove them are divided further."""
        deep: set[Window] = set()
        while True:
            most, chain = self._largest_sum()
            left = [window for window in chain if window not in deep]
            if not left or len(deep) >= _DEEP_WINDOWS or self._late():
                return most
            window = max(left, key=lambda x: self._proved[x])
            cases = Cases(self._networks, self._lines(*window), self._budget)
            ticks = cases.divide(DEEP_SPLITS, self._late)
            self._proved[window] = max(self._proved[window], ticks)
            deep.add(window)

    def _largest_sum(self) -> tuple[int, list[Window]]:
        """The most ticks that the windows looked at prove together, and which do."""
        found: dict[int | None, tuple[int, list[Window]]] = {None: (0, [])}
        ends: dict[int, list[int | None]] = {}
        for node, end in self._proved:
            ends.setdefault(node, []).append(end)
        for node in self._nodes:
            sums = [(self._proved[node, end] + found[end][0], end) for end in ends[node]]
            most, chosen = max(sums, key=lambda x: x[0])
            found[node] = most, [(node, chosen), *found[chosen][1]]
        return max(found.values(), key=lambda x: x[0])

    def _lines(self, node: int, end: int | None) -> CutLines:
        """The cuts of a window, with the best price for the budget."""
        networks = self._networks
        if end is None:
            network = networks.of(node)
        else:
            within = networks.kinds(end) == ANCESTOR
            within &= networks.kinds(node) == DESCENDANT
            network = networks.window(node, within)
        lines = CutLines(network)
        lines.refine(networks, self._budget, self._late)
        return lines
