"""The least extra time within a budget, by which of several large steps runs first.

The network of one node knows what comes before it and behind it, not when the rest runs: gradients
of weights, say, may each have run, or wait for room and keep what they read. But one of them runs
first. Let S be nodes behind a node `u`, and x0 = u, x1, x2, ... a chain of nodes of which each runs
before the next. In the step in which the first node of S runs, some of the chain have run and the
others have not:

    time       x0    x1    w    x2    x3        w: the first of S
    has run    --------------                   w, x1, and all that comes before them
    has not                  ---------------    the others of S, x2, and all that comes behind them

So each sequence is one of the cases (w, how many of the chain have run). In the network of w
(`network.py`), what has run counts as its ancestors, and what has not as its descendants: the proof
there asks for no more. No sequence takes less than the least of what the cases prove.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from lowtide.records import dataclass
from lowtide.remat.network import ANCESTOR, DESCENDANT, Flags, Networks, Price
from lowtide.remat.prices import CutLines
from lowtide.remat.tables import Int64Array

_MOST_LARGE: Final = 128
"""At most so many nodes are the first of S in some sequence."""
_SIZES: Final = 8
"""So many sets S are tried: nodes whose steps take this many bytes or more."""
_POINTS: Final = 64
"""A chain has at most so many nodes."""
_LOOKED_AT: Final = 512
"""At most so many nodes are looked at for a chain, and for a set S."""
_PRICES: Final = 3
"""So many prices that proved something are tried in the next network."""
NOTHING: Final = 1 << 62
"""More ticks than there are: what a set proves of which no case was looked at yet."""


@dataclass(frozen=True, eq=False, slots=True)
class LargeSteps:
    """Nodes of which one runs first, and `waiting`: they and all that comes behind them."""

    first: tuple[int, ...]
    waiting: Flags


@dataclass(frozen=True, eq=False, slots=True)
class ChainNode:
    """A node of a chain: all that runs up to it, itself included, and all that waits for it."""

    node: int
    before: Flags
    behind: Flags


@dataclass(frozen=True, eq=False, slots=True)
class LargeCase:
    """The node of S that runs first, what else `ran` by then, and what is `waiting`, S included."""

    node: int
    ran: Flags
    waiting: Flags


class FirstLarge:
    """The cases behind a node; `least` are the bytes of the step of each node at least."""

    def __init__(
        self, networks: Networks, least: Int64Array, node: int, late: Callable[[], bool]
    ) -> None:
        self._networks = networks
        self._least = least
        self._late = late
        self._known: dict[int, ChainNode] = {}
        self._behind = self._at(node).behind
        self._chain = self._nodes_of_chain(node)

    def proved(self, budget: int, known: int, price: Price, most: int) -> tuple[int, int]:
        """Return the most ticks that some set S proves for a budget, and how many cuts that took.

        They are at least the `known` ticks. `price` is tried first in each network. A set whose
        cases were not all looked at after `most` cuts, or when it was late, proves nothing.
        """
        prices, cuts = [price], 0
        for steps in self._sets():
            proved = NOTHING
            for case in self._cases(steps):
                if cuts >= most or self._late():
                    return known, cuts
                found, more = self._ticks(case, budget, prices, proved)
                proved, cuts = min(found, proved), cuts + more
                if proved <= known:
                    break
            if proved < NOTHING:
                known = max(known, proved)
        return known, cuts

    def _ticks(
        self, case: LargeCase, budget: int, prices: list[Price], enough: int
    ) -> tuple[int, int]:
        """The most ticks that a case proves, or some that are `enough`, and how many cuts it took.

        The price that did it comes to the front.
        """
        lines = CutLines(self._networks.case(case.node, case.ran, case.waiting))
        for price in prices:
            lines.cut(price)
            if lines.ticks(price, budget) >= enough:
                break
        else:
            lines.refine(self._networks, budget, self._late)
        best = lines.best(budget)
        if best in prices:
            prices.remove(best)
        prices.insert(0, best)
        del prices[_PRICES:]
        return lines.ticks(best, budget), len(lines.cuts)

    def _nodes_of_chain(self, node: int) -> list[ChainNode]:
        """A chain that begins with a node: of those behind it, ever fewer behind each."""
        order = self._networks.order
        places = np.flatnonzero(self._behind[order])
        count = min(_LOOKED_AT, len(places))
        looked = places[np.linspace(0, len(places) - 1, count).astype(np.int64)]
        members = [self._at(int(v)) for v in order[looked]]
        members.sort(key=lambda x: (-int(x.behind.sum()), int(self._networks.position[x.node])))
        chain = [self._at(node)]
        for member in members:
            if chain[-1].behind[member.node]:
                chain.append(member)
        step = -(-len(chain) // _POINTS)
        return chain[::step]

    def _at(self, node: int) -> ChainNode:
        if node not in self._known:
            kinds = self._networks.kinds(node)
            self._known[node] = ChainNode(node, kinds == ANCESTOR, kinds == DESCENDANT)
        return self._known[node]

    def _sets(self) -> Iterator[LargeSteps]:
        """Sets S, of ever smaller steps, as long as few of them are first."""
        behind = np.flatnonzero(self._behind)
        largest = behind[np.argsort(-self._least[behind], kind="stable")[:_LOOKED_AT]]
        sizes = np.unique(self._least[largest])[::-1]
        before: tuple[int, ...] = ()
        found = 0
        for size in sizes.tolist():
            steps = self._large(largest[self._least[largest] >= size])
            if len(steps.first) > _MOST_LARGE or found == _SIZES or self._late():
                return
            if steps.first != before:
                before, found = steps.first, found + 1
                yield steps

    def _large(self, nodes: Int64Array) -> LargeSteps:
        """Those of some nodes that none of them comes before, and all that waits for them."""
        waiting = np.zeros(len(self._behind), np.bool_)
        first = []
        for node in nodes[np.argsort(self._networks.position[nodes])].tolist():
            if not waiting[node]:
                first.append(node)
                waiting |= self._at(node).behind
                waiting[node] = True
        return LargeSteps(tuple(first), waiting)

    def _cases(self, steps: LargeSteps) -> Iterator[LargeCase]:
        """The cases of a set, but for those that cannot be: of a node that has run and waits."""
        for number, member in enumerate(self._chain):
            if steps.waiting[member.node]:
                return
            waiting = steps.waiting.copy()
            if number + 1 < len(self._chain):
                waiting[self._chain[number + 1].node] = True
                waiting |= self._chain[number + 1].behind
            for node in steps.first:
                if np.count_nonzero(self._at(node).before & waiting) == 1:  # The node itself.
                    yield LargeCase(node, member.before, waiting)
