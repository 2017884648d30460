"""The least extra time of any order and any recomputation within a budget, proved by cuts."""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection
from dataclasses import replace
from typing import Final

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.records import dataclass
from lowtide.remat.branches import DEEP_SPLITS, Cases, ticks_by_cases
from lowtide.remat.first_large import FirstLarge
from lowtide.remat.first_steps import first_footprints
from lowtide.remat.link_bound import LINK_PRICES, RunTimes, least_beside_link
from lowtide.remat.measure import footprints, step_bytes
from lowtide.remat.network import Flow, Networks, Price
from lowtide.remat.prices import CutLines
from lowtide.remat.tables import Int64Array, RematTables, tables_of
from lowtide.remat.windows import WindowBound
from lowtide.search.deadline import Deadline
from lowtide.search.effort import Effort

_NODES: Final = {Effort.FAST: 24, Effort.DEFAULT: 96, Effort.PROOF: 1000}
"""How many nodes are looked at."""
_BEST: Final = {Effort.FAST: 2, Effort.DEFAULT: 6, Effort.PROOF: 24}
"""For how many of them the best price is worked out."""
_SHARES: Final = (0.75, 0.5, 0.3)
"""Budgets, as shares of the peak, for which nodes are chosen."""
_CUTS: Final = {Effort.FAST: 0, Effort.DEFAULT: 20_000, Effort.PROOF: 400_000}
"""So many cuts are made for which of large steps runs first, for all budgets together."""


@dataclass(frozen=True, eq=False, slots=True)
class RecomputeBound:
    """No sequence within `budget_bytes` has less extra time.

    `extra_seconds` is infinite where none is within the budget. Then there is no price: the first
    step of `node` takes `fixed_bytes` whatever runs again, or all that lives to the end does if
    there is no node. `extra_ticks` are ticks of `tick_seconds`, rounded down, that a flow in the
    network of `node` at `price` proves (`network.py`, `BoundSearch.flow`): its value less
    `price * (budget_bytes - fixed_bytes)`.
    """

    budget_bytes: int
    extra_seconds: float
    extra_ticks: int
    tick_seconds: float
    node: int | None
    fixed_bytes: int
    price: Price | None

    @property
    def is_infeasible(self) -> bool:
        """Whether no sequence is within the budget."""
        return math.isinf(self.extra_seconds)


def recompute_bound(
    graph: MemoryGraph,
    budget: int,
    order: Int64Array | None = None,
    effort: Effort = Effort.DEFAULT,
    once: Collection[int] = (),
) -> RecomputeBound:
    """Return a proven least extra time of any sequence that holds at most `budget` bytes.

    `order` (each node once) only guides the search; the better it is, the better the bound. Nodes
    in `once` are never run again. Raises ValueError where the graph has no times.
    """
    tables = tables_of(graph, once)
    guide = topological_order(tables) if order is None else order
    return BoundSearch(tables, guide, effort).at(budget)


def topological_order(tables: RematTables) -> Int64Array:
    """Return an order of all nodes: by creation, as far as operands allow."""
    graph = tables.graph
    followers: list[list[int]] = [[] for _ in range(tables.node_count)]
    waiting = [0] * tables.node_count
    for before in (graph.operands, graph.control):
        for node, other in zip(before.row_numbers().tolist(), before.items.tolist(), strict=True):
            followers[other].append(node)
            waiting[node] += 1
    ready = [node for node, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        node = heapq.heappop(ready)
        order.append(node)
        for follower in followers[node]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, follower)
    return np.array(order, np.int64)


class BoundSearch:
    """Bounds for many budgets of one graph, from cuts at the nodes that promise most.

    What is worked out for one budget serves the others: the bound never rises with the budget once
    all budgets have been asked for.
    """

    def __init__(
        self,
        tables: RematTables,
        order: Int64Array,
        effort: Effort,
        deadline: Deadline | None = None,
    ) -> None:
        self.tables = tables
        self._networks = Networks(tables, order)
        self.deadline = deadline
        """When cuts have to end; what is known by then is a bound."""
        self._least = footprints(tables)
        self._first = first_footprints(tables)
        self._live_out = int(tables.graph.buffer_bytes[tables.graph.live_out].sum())
        self._profile = step_bytes(tables, order)
        self._order = order
        self._lines: dict[int, CutLines] = {}
        self._effort = effort
        self._cuts_left = _CUTS[effort]
        self._needed: dict[int, int] = {}
        self._by_cases: dict[int, int] = {}
        """Ticks proved by which of large steps runs first and by windows, per budget."""
        self._chosen = self._promising()

    @property
    def bytes_of_steps(self) -> int:
        """Bytes that the step of one node takes alone, or that all results do."""
        return max(int(self._least.max(initial=0)), self._live_out)

    @property
    def bytes_of_first_steps(self) -> int:
        """The same, with what nothing makes and later nodes read: it has to stay where it is."""
        return max(int(self._first.max(initial=0)), self.bytes_of_steps)

    @property
    def least_bytes(self) -> int:
        """Bytes that every sequence holds at some step, with what no run can make again."""
        for node in self._chosen:
            if node in self._needed:
                continue
            if self._late():
                break
            self._needed[node] = self._lines_of(node).needed
        return max([self.bytes_of_steps, *self._needed.values()])

    def at(self, budget: int) -> RecomputeBound:
        """Return the bound for a budget in bytes."""
        if budget < self.least_bytes:
            return self._infeasible(budget)
        self._refine(budget)
        return self.known(budget)

    def proved(self, budget: int) -> RecomputeBound:
        """Return the bound for a budget, also by which of large steps runs first, and by windows.

        It may be above what the flow of its price proves. It takes longer than `at`.
        """
        bound = self.at(budget)
        if bound.node is None or bound.price is None:
            return bound
        if budget not in self._by_cases and not self._late():
            node, price = bound.node, bound.price
            known = self._by_case(budget, node, price, bound.extra_ticks)
            self._by_cases[budget] = self._by_windows(budget, node, price, known)
        ticks = max([ticks for most, ticks in self._by_cases.items() if most >= budget], default=0)
        seconds = max(bound.extra_seconds, ticks * self.tables.tick_seconds)
        return replace(bound, extra_seconds=seconds)

    def _by_case(self, budget: int, node: int, price: Price, known: int) -> int:
        """The ticks that are proved behind a node by which of large steps runs first."""
        if self._cuts_left <= 0:
            return known
        cases = FirstLarge(self._networks, self._least, node, self._late)
        ticks, cuts = cases.proved(budget, known, price, self._cuts_left)
        self._cuts_left -= cuts
        return ticks

    def _by_windows(self, budget: int, node: int, price: Price, known: int) -> int:
        """The ticks that windows prove together, of which some are `known` behind one node."""
        largest = np.argsort(-self._first, kind="stable")[: _NODES[self._effort] // 2]
        cases = Cases(self._networks, self._lines_of(node), budget)
        known = max(known, cases.divide(DEEP_SPLITS, self._late))
        behind: dict[int, int] = {}
        for other in dict.fromkeys([*self._lines, *largest.tolist()]):
            if self._late():
                break
            lines = self._lines_of(other)
            lines.refine(self._networks, budget, self._late, price)
            behind[other] = ticks_by_cases(self._networks, lines, budget, self._late)
        behind[node] = max(behind.get(node, 0), known)
        return WindowBound(self._networks, budget, behind, self._late).proved()

    def known(self, budget: int) -> RecomputeBound:
        """Return the best bound for a budget among the cuts made so far."""
        if budget < self.least_bytes:
            return self._infeasible(budget)
        ticks, best, price = 0, None, None
        for node, lines in self._lines.items():
            for tried in lines.cuts:
                proved = lines.ticks(tried, budget)
                if proved > ticks:
                    ticks, best, price = proved, node, tried
        seconds = ticks * self.tables.tick_seconds
        if best is None or price is None:
            return RecomputeBound(budget, 0.0, 0, self.tables.tick_seconds, None, 0, None)
        fixed = self._lines[best].network.fixed_bytes
        return RecomputeBound(budget, seconds, ticks, self.tables.tick_seconds, best, fixed, price)

    def beside_link(self, budget: int, bytes_per_second: float, others: float = 0.0) -> float:
        """Return the least extra seconds where values may also be stored behind a link.

        `others` are seconds proved to be lost inside of nodes. What nothing makes is not stored.
        `link_bound.py` has the proof.
        """
        if budget < self.bytes_of_first_steps:
            return math.inf
        self._refine(budget)
        tick, best = self.tables.tick_seconds, others
        base = float(self.tables.graph.seconds.sum())
        for lines in [self._lines[node] for node in self._chosen if node in self._lines]:
            network = lines.network
            for part in () if self._late() else LINK_PRICES:
                lines.cut(self._networks.price(part / (bytes_per_second * tick)))
            for price in lines.cuts:
                proved = lines.ticks(price, budget) * tick
                share = price.value * tick * bytes_per_second
                before, behind = network.seconds_before, network.seconds_behind
                times = RunTimes(base, before, behind, others)
                best = max(best, least_beside_link(proved, share, times))
        return best

    def held_sets(self, budget: int) -> list[tuple[int, Int64Array]]:
        """Return what the best cuts for a budget hold, as (node, buffers): starts of a search.

        They are the cut that holds least beyond the budget, and the one that holds most within.
        """
        bound = self.known(budget)
        if bound.node is None:
            return []
        lines = self._lines[bound.node]
        room = budget - lines.network.fixed_bytes
        by_bytes = sorted(lines.cuts.items(), key=lambda x: (x[1].held_bytes, x[0].value))
        within = [price for price, cut in by_bytes if cut.held_bytes <= room][-1:]
        beyond = [price for price, cut in by_bytes if cut.held_bytes > room][:1]
        return [(bound.node, lines.network.held(price)) for price in within + beyond]

    def flow(self, bound: RecomputeBound) -> Flow:
        """Return the flow that proves a bound which has a price."""
        if bound.node is None or bound.price is None:
            raise ValueError("this bound needs no flow")
        return self._networks.of(bound.node).flow(bound.price)

    def _infeasible(self, budget: int) -> RecomputeBound:
        node: int | None = int(self._least.argmax())
        needed, least = self.bytes_of_steps, self.least_bytes
        if needed < least:
            node = next(v for v, nbytes in self._needed.items() if nbytes == least)
            needed = least
        elif self._least[node] <= budget:
            node = None
        return RecomputeBound(budget, math.inf, 0, self.tables.tick_seconds, node, needed, None)

    def _refine(self, budget: int) -> None:
        """Find the best price for a budget at each of the chosen nodes, while there is time."""
        for node in self._chosen:
            if self._late():
                return
            self._lines_of(node).refine(self._networks, budget, self._late)

    def _lines_of(self, node: int) -> CutLines:
        if node not in self._lines:
            self._lines[node] = CutLines(self._networks.of(node))
        return self._lines[node]

    def _late(self) -> bool:
        return self.deadline is not None and self.deadline.passed

    def _promising(self) -> list[int]:
        """The nodes whose networks prove most, for several budgets, at the price of the peak's."""
        if not len(self._order):
            return []
        peak = int(self._profile.max())
        first = int(self._order[self._profile.argmax()])
        count = _NODES[self._effort]
        highest = np.argsort(-self._profile, kind="stable")[: count // 2]
        spread = np.linspace(0, len(self._order) - 1, min(count // 2, len(self._order)))
        places = np.unique(np.concatenate([highest, spread.astype(np.int64)]))
        chosen = {first: None, int(self._first.argmax()): None}
        for share in _SHARES:
            if self._late() and first in self._lines:
                break
            budget = max(self.bytes_of_steps, int(peak * share))
            self._lines_of(first).refine(self._networks, budget, self._late)
            price = self._lines[first].best(budget)
            proved = [(self._proved(int(v), price, budget), int(v)) for v in self._order[places]]
            proved.sort(key=lambda x: (-x[0], x[1]))
            chosen.update(dict.fromkeys([v for _, v in proved[: _BEST[self._effort]]]))
        return list(chosen)

    def _proved(self, node: int, price: Price, budget: int) -> int:
        if self._late() or self._least[node] > budget:
            return -1
        self._lines_of(node).cut(price)
        return self._lines[node].ticks(price, budget)


def is_above(proved: float, extra_seconds: float) -> bool:
    """Whether a plan that takes so much more shows that the bound is wrong, rounding aside."""
    return proved > extra_seconds * (1 + 1e-9) + 1e-12


def without_rounding(proved: float, extra_seconds: float) -> float:
    """Return the seconds that are proved: those of a plan where only rounding is above them."""
    return proved if is_above(proved, extra_seconds) else min(proved, extra_seconds)
