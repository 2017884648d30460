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
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from lowtide.remat.branches import ticks_by_cases
from lowtide.remat.network import ANCESTOR, DESCENDANT, Networks
from lowtide.remat.prices import CutLines

_WINDOWS: Final = 24
"""From each node so many windows are tried, those first behind which most is proved: of equal ones
the longest."""


class WindowBound:
    """Sums over windows for one budget; `behind` are ticks proved behind the first run of nodes."""

    def __init__(
        self, networks: Networks, budget: int, behind: Mapping[int, int], late: Callable[[], bool]
    ) -> None:
        self._networks = networks
        self._budget = budget
        self._behind = behind
        self._late = late

    def proved(self) -> int:
        """Return the most ticks that windows prove together, as far as there is time."""
        position = self._networks.position
        best: dict[int, int] = {}
        for node in sorted(self._behind, key=lambda v: -int(position[v])):
            if self._late():
                break
            best[node] = self._best(node, best)
        return max(best.values(), default=0)

    def _best(self, node: int, later: Mapping[int, int]) -> int:
        """The most ticks that windows prove behind a node, of which `later` ones are known.

        No window proves more than what has no end.
        """
        most = alone = self._behind[node]
        kinds = self._networks.kinds(node)
        ends = {x: v for v, x in list(later.items())[::-1] if x > 0 and kinds[v] == DESCENDANT}
        for end in sorted(ends.values(), key=lambda v: -later[v])[:_WINDOWS]:
            if alone + later[end] <= most or self._late():
                break
            most = max(most, later[end] + self._ticks(node, end))
        return most

    def _ticks(self, node: int, end: int) -> int:
        """The ticks that runs in a window cost."""
        networks = self._networks
        within = self._networks.kinds(end) == ANCESTOR
        within &= networks.kinds(node) == DESCENDANT
        lines = CutLines(networks.window(node, within))
        lines.refine(networks, self._budget, self._late)
        return ticks_by_cases(networks, lines, self._budget, self._late)
