"""The search for plans at levels: fixed shares of the peak without recomputation."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Orders
from dataclasses import replace
from typing import Final

import numpy as np

from lowtide.records import dataclass
from lowtide.remat.bound import BoundSearch, topological_order
from lowtide.remat.gaps import base_of
from lowtide.remat.greedy import scratch_of
from lowtide.remat.improve import Improver
from lowtide.remat.measure import step_bytes
from lowtide.remat.neighbourhood import searched
from lowtide.remat.recompute import Recompute, RematPlan
from lowtide.remat.slide import settled
from lowtide.remat.tables import Int64Array, RematTables, once_nodes
from lowtide.remat.xla import xla_sequence
from lowtide.search.deadline import Deadline
from lowtide.search.effort import Effort


@dataclass(frozen=True, slots=True)
class _Settings:
    """Limits of the search: levels, steps looked at in each, plans that are improved in each."""

    levels: int
    work: int
    improved: int


_SETTINGS: Final = {
    Effort.FAST: _Settings(levels=20, work=0, improved=1),
    Effort.DEFAULT: _Settings(levels=40, work=50_000_000, improved=3),
    Effort.PROOF: _Settings(levels=40, work=1_000_000_000, improved=6),
}
_LEVELS_BY_SIZE: Final = ((5_000, 40), (10_000, 20), (1 << 60, 10))
"""At most so many levels for graphs of fewer nodes than the number before."""
_LARGE: Final = 5_000
"""With this many nodes, one plan is improved in each level."""
_WALKED: Final = 400
"""With more nodes than this, XLA's walk takes too long to be tried."""
_TRIED_NODES: Final = 42_000
"""Orders are tried until they hold so many nodes together, but at least two."""
_PASSES: Final = 20
_REACH: Final = 60
_OTHER_REACHES: Final = (20, 400)
_SHORT_REACHES: Final = (20, 8, 3, 1)
_HALVINGS: Final = 4
_NEAR_BOUND: Final = 1.003
"""Levels whose plans are within this factor of their bound are not searched further."""
_SEARCHED: Final = 2


@dataclass(slots=True)
class _Level:
    """A cap of bytes, the plans found for it, cheapest first, and the best sequence."""

    cap: int
    plans: list[RematPlan]
    sequence: Int64Array | None = None


class LevelSearch:
    """Searches plans from orders; with a deadline it may end between any two of them."""

    def __init__(
        self,
        tables: RematTables,
        orders: Orders[Int64Array],
        effort: Effort,
        deadline: Deadline | None = None,
    ) -> None:
        self._tables = tables
        self._settings = _SETTINGS[effort]
        if tables.node_count >= _LARGE:
            self._settings = replace(self._settings, improved=1)
        self._deadline = deadline
        self._once = once_nodes(tables)
        self._is_deep = False
        """Whether a level had no plan that holds what it computes again for long."""
        self._scratch = scratch_of(tables.problem.graph)
        self._improver = Improver(tables)
        starts = self._starts(orders)
        self._peak = int(step_bytes(tables, starts[0]).max())
        self._makers = [Recompute(base_of(tables, order), self._scratch) for order in starts]
        self._bounds = BoundSearch(tables, starts[0], effort, deadline)

    def sequences(self) -> Iterator[Int64Array]:
        """Yield sequences with ever fewer bytes, then better ones at the same levels."""
        levels: list[_Level] = []
        for cap in self._caps():
            warm = levels[-1].plans if levels else []
            level = self._quick(cap, warm, is_thorough=self._tables.node_count < _LARGE)
            if level.sequence is None:
                yield from self._lowest(levels, cap)
                break
            levels.append(level)
            yield level.sequence
        for number, level in enumerate(levels if self._settings.work else []):
            if self._is_near_bound(level.sequence, level.cap):
                continue
            self._search(level, levels[number - 1].plans if number else [])
            if level.sequence is not None:
                yield level.sequence
        for lower, level in zip(reversed(levels), reversed(levels[:-1]), strict=False):
            if self._late() or lower.sequence is None:
                return
            self._keep(level, lower.sequence)
            if level.sequence is not None:
                yield level.sequence

    def within(self, cap: int) -> Int64Array | None:
        """Return the best sequence of at most `cap` bytes found at once, None without one."""
        return self._quick(cap, []).sequence if self._bounds.least_bytes <= cap else None

    def _starts(self, orders: Orders[Int64Array]) -> list[Int64Array]:
        """The orders, that of creation, and those settled near them, each once.

        That of the lowest peak is first, then those with the fewest bytes above half of it.
        """
        even = np.ones(self._tables.node_count, np.int64)
        given = [*orders, topological_order(self._tables)]
        near = [settled(self._tables, order, even, _PASSES) for order in given]
        found = {order.tobytes(): order for order in (*given, *near)}
        steps = {key: step_bytes(self._tables, order) for key, order in found.items()}
        lowest = min(found, key=lambda key: int(steps[key].max()))
        half = int(steps[lowest].max()) // 2
        by_excess = sorted(found, key=lambda key: int(np.maximum(0, steps[key] - half).sum()))
        ranked = dict.fromkeys([lowest, *by_excess])
        most = max(2, _TRIED_NODES // self._tables.node_count)
        return [found[key] for key in list(ranked)[:most]]

    def _caps(self) -> list[int]:
        most = next(most for size, most in _LEVELS_BY_SIZE if self._tables.node_count < size)
        count = min(self._settings.levels, most)
        caps = [self._peak * k // count for k in range(count - 1, 0, -1)]
        return [cap for cap in caps if cap >= self._bounds.least_bytes]

    def _late(self) -> bool:
        return self._deadline is not None and self._deadline.passed

    def _quick(self, cap: int, warm: list[RematPlan], *, is_thorough: bool = False) -> _Level:
        """A plan from each order, and from the best of them with other starts and reaches.

        Where it is not thorough, nodes overwrite what is read again if nothing else gives a plan.
        """
        plans = [plan for old in warm if (plan := self._again(old, cap))]
        plans += self._from_each(cap)
        if is_thorough:
            plans += self._from_each(cap, overwrites=True)
        is_deep = not plans or self._is_deep
        if not plans:
            self._is_deep = True
            plans += self._deep(cap) or self._from_each(cap, overwrites=True)
        plans.sort(key=lambda plan: plan.key)
        self._bounds.at(cap)
        for number in dict.fromkeys([plan.base for plan in plans[: self._settings.improved]]):
            plans += self._varied(number, cap)
        plans.sort(key=lambda plan: plan.key)
        level = _Level(cap, plans[: self._settings.improved])
        self._improve(level)
        if is_deep:
            self._walk(level)
        return level

    def _from_each(
        self, cap: int, reach: int = _REACH, *, overwrites: bool = False
    ) -> list[RematPlan]:
        """A plan from each order; with `overwrites`, from those in which that is something else."""
        found: list[RematPlan] = []
        for number, maker in enumerate(self._makers):
            if self._late():
                break
            if overwrites and not maker.overwrites:
                continue
            start = maker.base.nothing_dropped()
            if plan := maker.plan(number, start, cap, reach, overwrites):
                found.append(plan)
        return found

    def _walk(self, level: _Level) -> None:
        """Keep what XLA's walk makes of the first order, where it fits and is cheaper."""
        order = self._makers[0].base.order
        if self._late() or self._tables.node_count > _WALKED:
            return
        found = xla_sequence(
            self._tables.graph, order, level.cap, once=self._once, deadline=self._deadline
        )
        if step_bytes(self._tables, found).max() <= level.cap:
            self._keep(level, found)

    def _deep(self, cap: int) -> list[RematPlan]:
        """Plans that hold what is computed again for short: much is computed many times."""
        tried = (self._from_each(cap, reach) for reach in _SHORT_REACHES)
        return next((found for found in tried if found), [])

    def _varied(self, number: int, cap: int) -> list[RematPlan]:
        maker = self._makers[number]
        base = maker.base
        starts = [(base.nothing_dropped(), reach) for reach in _OTHER_REACHES]
        for node, buffers in self._bounds.held_sets(cap):
            starts += [
                (base.held_at(node, buffers), reach) for reach in (_REACH, _OTHER_REACHES[-1])
            ]
        found: list[RematPlan] = []
        for dropped, reach in starts:
            if self._late():
                break
            if plan := maker.plan(number, dropped, cap, reach):
                found.append(plan)
        return found

    def _again(self, plan: RematPlan, cap: int) -> RematPlan | None:
        """The plan with more gaps dropped, for a lower cap."""
        if self._late():
            return None
        return self._makers[plan.base].plan(plan.base, plan.dropped.copy(), cap, plan.reach)

    def _is_near_bound(self, sequence: Int64Array | None, cap: int) -> bool:
        """Whether no sequence within a cap can be much cheaper than this one, if there is one."""
        if sequence is None:
            return False
        extra = self._ticks(sequence) - int(self._tables.cost.sum())
        return extra <= self._bounds.known(cap).extra_ticks * _NEAR_BOUND

    def _search(self, level: _Level, warm: list[RematPlan]) -> None:
        """Search near the best plans of two orders: half of the work for each."""
        plans = [plan for old in warm[:1] if (plan := self._again(old, level.cap))]
        plans += [plan for plan in [self._adopted(level)] if plan]
        plans = sorted(plans + level.plans, key=lambda plan: plan.key)
        first_of = {plan.base: plan for plan in reversed(plans)}
        starts = sorted(first_of.values(), key=lambda plan: plan.key)[:_SEARCHED]
        for start in starts:
            if self._late():
                return
            maker = self._makers[start.base]
            work = self._settings.work // len(starts)
            plans.append(searched(maker, start, level.cap, work, self._late))
        level.plans = sorted(plans, key=lambda plan: plan.key)[: self._settings.improved]
        self._improve(level)

    def _adopted(self, level: _Level) -> RematPlan | None:
        """A plan on the order of the first runs in the best sequence of a level."""
        if level.sequence is None or self._late():
            return None
        _, first = np.unique(level.sequence, return_index=True)
        order = level.sequence[np.sort(first)]
        if any(np.array_equal(order, maker.base.order) for maker in self._makers):
            return None
        maker = Recompute(base_of(self._tables, order), self._scratch)
        self._makers.append(maker)
        dropped = maker.base.nothing_dropped()
        return maker.plan(len(self._makers) - 1, dropped, level.cap, _REACH)

    def _lowest(self, levels: list[_Level], failed: int) -> Iterator[Int64Array]:
        """Plans between the last cap that has one and the first that has none."""
        high = levels[-1].cap if levels else self._peak
        warm = levels[-1].plans if levels else []
        low = max(failed, self._bounds.least_bytes - 1)
        for _ in range(_HALVINGS):
            cap = (low + high) // 2
            if self._late() or not low < cap < high:
                return
            level = self._quick(cap, warm)
            if level.sequence is None:
                low = cap
                continue
            high, warm = cap, level.plans
            yield level.sequence

    def _improve(self, level: _Level) -> None:
        for plan in level.plans:
            if self._late() and level.sequence is not None:
                return
            sequence = self._makers[plan.base].sequence(plan.dropped, plan.reach)
            self._keep(level, sequence)

    def _keep(self, level: _Level, sequence: Int64Array) -> None:
        """Improve a sequence if there is time; keep it if it is the cheapest of its level."""
        late = self._late()
        improved = sequence if late else self._improver.improved(sequence, level.cap)
        if level.sequence is None or self._ticks(improved) < self._ticks(level.sequence):
            level.sequence = improved

    def _ticks(self, sequence: Int64Array) -> int:
        return int(self._tables.cost[sequence].sum())
