"""The search for an order of one graph, step by step from both sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from lowtide.analysis.graph_tables import GraphTables
from lowtide.records import dataclass
from lowtide.scheduling.branch import Answer, branch
from lowtide.scheduling.divide import Workbench, divide
from lowtide.scheduling.proof import CutBound, KeptBytes, OrderRefutation, Proof
from lowtide.scheduling.propagation import PropagationWork
from lowtide.scheduling.settling import settled
from lowtide.scheduling.stretches import WAYS
from lowtide.search.effort import Effort
from lowtide.search.kernels import Array

NEAR: Final = 5e-6
"""A gap between bound and peak, as a share of the peak, that is closed before the last bytes."""

MOST_ORDERS: Final = 5
FIRST_NODES: Final = 8
"""Nodes of a tree that it takes mostly to refute the last byte, if it is easy."""

FEW_NODES: Final = 64
"""Graphs up to this size are searched to the end at any effort but fast."""


@dataclass(frozen=True, slots=True)
class SolverLimits:
    """Limits of a search.

    `rounds` of dividing per start; `starts` greedy orders to divide; `cuts` for the bound; `words`
    that the probes of branch and bound may read, in `nodes` of a tree per target.
    """

    starts: int
    rounds: int
    cuts: int
    words: int
    nodes: int


LIMITS: Final = {
    Effort.FAST: SolverLimits(starts=1, rounds=8, cuts=16, words=0, nodes=0),
    Effort.DEFAULT: SolverLimits(starts=9, rounds=120, cuts=2000, words=3 * 10**8, nodes=200),
    Effort.PROOF: SolverLimits(starts=9, rounds=400, cuts=1 << 40, words=10**12, nodes=10**6),
}


class _Start(NamedTuple):
    """An order, and the bytes of each of its steps."""

    order: Array
    profile: Array

    @property
    def peak(self) -> int:
        """The largest step."""
        return int(self.profile.max(initial=0))


class Solver:
    """The best order so far, and the bound with its proof."""

    def __init__(
        self,
        tables: GraphTables,
        limits: SolverLimits,
        passed: Callable[[], bool],
        tell: Callable[[], None],
    ) -> None:
        self.tables, self.limits, self.passed, self.tell = tables, limits, passed, tell
        self.bench = Workbench(tables)
        self.orders: list[Array] = []
        self.peak = self.bound = self.enough = 0
        self.proof: Proof = KeptBytes(0)
        self.starts: list[_Start] = []
        self.looked_at = np.zeros(tables.nodes, bool)
        self.has_begun = False
        self._profiled: _Start | None = None

    def begin(self) -> None:
        """Find the greedy orders, what is held at the end, and what the highest step needs."""
        count = self.tables.nodes
        given = settled(self.tables, np.arange(count))
        assert given is not None
        stretches = self.bench.stretches
        found = [_Start(given, stretches.profile(given))]
        for way in range(WAYS):
            if way and self.passed():
                break
            found.append(_Start(*stretches.arranged(given, way)))
        self.starts = sorted(found, key=lambda x: x.peak)
        self.peak = self.starts[0].peak
        self._profiled = self.starts[0]
        self.orders = [x.order for x in self.starts if x.peak == self.peak][:MOST_ORDERS]
        held = int(self.tables.size[self.tables.live_out != 0].sum())
        self._raise(KeptBytes(held))
        if self.tables.nodes:
            highest = self._profile().argmax()
            self._look_at(int(self.orders[0][highest]))
        self.has_begun = True
        self.tell()

    def run(self, enough: int) -> None:
        """Search until the peak is the bound, or at most `enough`, or the limits are reached."""
        self.enough = enough
        self._divide_all()
        self._bound(self.limits.cuts)
        self._close()

    @property
    def is_done(self) -> bool:
        """Whether no lower peak is possible or wanted."""
        return self.peak <= max(self.bound, self.enough) or self.passed()

    def _divide_all(self) -> None:
        for start in self.starts[: self.limits.starts]:
            self._bound(min(self.limits.cuts, 16))
            if self.is_done:
                return
            goal = max(self.bound, self.enough)
            rounds = self.limits.rounds
            found = divide(self.bench, start.order, goal, rounds, start.profile, self.passed)
            self._take(found.order, found.peak)

    def _take(self, order: Array, peak: int) -> None:
        if peak > self.peak or (peak == self.peak and len(self.orders) == MOST_ORDERS):
            return
        if peak < self.peak:
            self.peak, self.orders = peak, []
        if not any(np.array_equal(order, other) for other in self.orders):
            self.orders.append(order)
            self.tell()

    def _raise(self, proof: Proof) -> None:
        if proof.bytes > self.bound or not self.has_begun:
            self.bound, self.proof = proof.bytes, proof
            if self.has_begun:
                self.tell()

    def _bound(self, cuts: int) -> None:
        """Look at the highest steps of the best order until they are within the bound."""
        order = self.orders[0]
        profile = self._profile()
        for place in np.argsort(-profile, kind="stable").tolist():
            if profile[place] <= self.bound or cuts <= 0 or self.passed():
                return
            node = int(order[place])
            if self.looked_at[node]:
                continue
            cuts -= 1
            self._look_at(node)

    def _profile(self) -> Array:
        """The bytes of each step of the best order, which is walked once."""
        order = self.orders[0]
        if self._profiled is None or self._profiled.order is not order:
            self._profiled = _Start(order, self.bench.stretches.profile(order))
        return self._profiled.profile

    def _look_at(self, node: int) -> None:
        self.looked_at[node] = True
        value = self.bench.cuts.least(node)
        if value > self.bound:
            self._raise(CutBound(value, node))

    def _close(self) -> None:
        """Ask for orders at targets between bound and peak, until none is left.

        To refute the last byte is mostly no harder than to refute a low target: it is tried first,
        and again whenever the bound has moved. As long as targets are refuted they come nearer and
        nearer to the peak.
        """
        work = PropagationWork(self.limits.words, self.passed)
        step, refuted, at_once = 0, 0, True
        while not self.is_done and step < len(_ASKS):
            share, nodes = _ASKS[step]
            gap = self.peak - self.bound
            share = 1 - (1 - share) / 2**refuted
            target = min(self.bound + int(gap * share), int(self.peak / (1 + NEAR)))
            is_last = gap <= NEAR * self.peak
            if is_last or at_once:
                target, nodes = self.peak - 1, self._last_nodes() if is_last else FIRST_NODES
            answer = self._ask(target, work, min(nodes, self.limits.nodes))
            if answer is Answer.OPEN and is_last:
                return
            refuted = refuted + 1 if answer is Answer.NONE else refuted if at_once else 0
            step += answer is Answer.OPEN and not at_once
            at_once = answer is Answer.NONE and not at_once

    def _last_nodes(self) -> int:
        return 1 << 20 if self.tables.nodes <= FEW_NODES else 24

    def _ask(self, target: int, work: PropagationWork, nodes: int) -> Answer:
        found = branch(self.tables, target, self.orders[0], work, nodes)
        if found.answer is Answer.FOUND and found.order is not None:
            self._take(found.order, self.bench.peak(found.order))
        if found.answer is Answer.NONE:
            self._raise(OrderRefutation(target, found.cases))
        return found.answer


_ASKS: Final = ((0.98, 32), (0.25, 12), (0.5, 24), (0.75, 48), (1.0, 1 << 20))
"""Where between bound and peak a target lies, and how many nodes of a tree it is worth.

The next one is tried where the answer stays open.
"""
