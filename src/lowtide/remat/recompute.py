"""Plans to run nodes again: an order, a flag per gap, and the sequence that follows from them.

What a sequence is and costs stands in `replay.py`, which checks what is made here.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Final, TypeAlias

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.records import dataclass
from lowtide.remat.gaps import Base, base_of
from lowtide.remat.greedy import Scratch, fit, margins, prune, scratch_of
from lowtide.remat.improve import Improver
from lowtide.remat.lazy import unfold
from lowtide.remat.measure import NO_CAP, measure
from lowtide.remat.tables import Int64Array, tables_of

Sequence: TypeAlias = tuple[int, ...]
"""Numbers of nodes in the order in which they run, each at least once."""

_ROUNDS: Final = 400
"""Rounds of dropping gaps, and as many more per thousand nodes."""


@dataclass(frozen=True, eq=False, slots=True)
class RematPlan:
    """Gaps dropped in base `base`: the ticks that it takes beyond one run of each node.

    What is computed again is held for a use at most `reach` positions away.
    """

    ticks: int
    base: int
    reach: int
    dropped: Int64Array

    @property
    def key(self) -> tuple[int, int, int]:
        """By which plans are compared: the cheapest first, then that of the first order."""
        return self.ticks, self.base, self.reach


class Recompute:
    """Makes and changes plans on one order; `work` counts the steps that were looked at."""

    def __init__(self, base: Base, scratch: Scratch) -> None:
        self.base = base
        self.problem = base.tables.problem
        self.work = 0
        self._scratch = scratch
        self._once = int(base.tables.cost.sum())
        self._default = base.nothing_dropped()
        self._rounds = _ROUNDS + _ROUNDS * base.tables.node_count // 1000

    def dropped_gaps(self, dropped: Int64Array) -> Int64Array:
        """Return the numbers of the gaps that are dropped and need not be."""
        return np.flatnonzero(dropped > self._default)

    def fit(
        self, dropped: Int64Array, cap: int, reach: int, seed: int = 0, overwrites: bool = False
    ) -> bool:
        """Drop more gaps until the sequence holds at most `cap` bytes; whether that works.

        With a `seed` above 0, what a gap costs is blurred at random. With `overwrites`, what
        is read again later is overwritten, too.
        """
        before = len(self.dropped_gaps(dropped))
        length = fit(
            self.problem,
            self.base.gaps,
            dropped,
            cap,
            reach,
            self._rounds,
            seed,
            int(overwrites),
            self._scratch,
        )
        added = len(self.dropped_gaps(dropped)) - before
        self.work += (3 + max(0, added)) * self.base.tables.node_count
        return length >= 0

    def margins(self, dropped: Int64Array, gaps: Int64Array, reach: int) -> Int64Array:
        """Return how many ticks each of some gaps costs or saves if it alone changes."""
        margin = np.zeros(len(gaps) + 1, np.int64)
        margins(
            self.problem, self.base.gaps, dropped, gaps, len(gaps), reach, margin, self._scratch
        )
        self.work += (1 + len(gaps)) * self.base.tables.node_count
        return margin[: len(gaps)]

    def prune(self, dropped: Int64Array, cap: int, reach: int) -> int:
        """Hold what can be held within `cap` bytes, most ticks per byte first; return the ticks."""
        gaps = self.dropped_gaps(dropped)
        saved = self.margins(dropped, gaps, reach)
        size = self.base.sizes[gaps]
        gaps = gaps[np.argsort(saved / np.maximum(1, size), kind="stable")]
        ticks = prune(
            self.problem, self.base.gaps, dropped, gaps, len(gaps), cap, reach, self._scratch
        )
        self.work += (1 + len(gaps)) * self.base.tables.node_count
        return ticks - self._once

    @property
    def overwrites(self) -> bool:
        """Whether there are gaps with which a node overwrites what it reads."""
        base = self.base
        return bool(np.any(base.overwritable & (base.ends < base.tables.node_count)))

    def plan(
        self, number: int, dropped: Int64Array, cap: int, reach: int, overwrites: bool = False
    ) -> RematPlan | None:
        """Return the plan that `dropped` leads to, None where it does not fit."""
        if not self.fit(dropped, cap, reach, overwrites=overwrites):
            return None
        return RematPlan(self.prune(dropped, cap, reach), number, reach, dropped)

    def sequence(self, dropped: Int64Array, reach: int) -> Int64Array:
        """Return the sequence of gaps that are known to give one."""
        length = self._unfold(dropped, reach)
        return self._scratch.steps.node[:length].copy()

    def tight_positions(self, dropped: Int64Array, cap: int, reach: int) -> Int64Array:
        """Return the positions of the order in which nearly `cap` bytes are held."""
        s = self._scratch
        length = self._unfold(dropped, reach)
        measure(self.problem.graph, s.steps.node, length, NO_CAP, s.bytes, s.liveness)
        steps = s.bytes[:length]
        most = min(cap, int(steps.max(initial=0)))
        return np.unique(s.steps.position[:length][steps >= most - most // 50])

    def _unfold(self, dropped: Int64Array, reach: int) -> int:
        s = self._scratch
        graph = self.problem.graph
        return unfold(graph, self.base.gaps, dropped, reach, s.steps, s.unfolding)


_REACHES: Final = (60, 20, 8, 3, 1)
"""How many positions away what is computed again may be used, in turn: less holds fewer bytes."""


def quick_sequence(
    graph: MemoryGraph, order: Int64Array, cap: int, once: Collection[int] = ()
) -> Int64Array | None:
    """Return a sequence whose steps hold at most `cap` bytes, None where none is found.

    It is the order, in which what lives too long is dropped and computed again, less the runs that
    it can do without once others have moved. Nodes in `once` never run again. Raises ValueError
    where the graph does not say how long its nodes run.
    """
    tables = tables_of(graph, once)
    scratch = scratch_of(tables.problem.graph)
    maker = Recompute(base_of(tables, order), scratch)
    for overwrites, reach in itertools.product((False, True), _REACHES):
        plan = maker.plan(0, maker.base.nothing_dropped(), cap, reach, overwrites)
        if plan is not None:
            return Improver(tables).improved(maker.sequence(plan.dropped, plan.reach), cap)
    return None
