"""A budget of memory: the cheapest plan within it, what none can beat, and what is in its way."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Sequence as Orders
from functools import cached_property
from typing import Any, Final

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.records import dataclass
from lowtide.remat.bound import BoundSearch, RecomputeBound, without_rounding
from lowtide.remat.frontier import Frontier, Point, frontier
from lowtide.remat.measure import step_bytes
from lowtide.remat.tables import Int64Array, tables_of
from lowtide.remat.xla import xla_sequence
from lowtide.search.deadline import Deadline
from lowtide.search.effort import Effort

_MOST_TIME: Final = 0.25
"""The part of the time before a deadline that may be spent on the bound for one budget."""

METHODS: Final = ("frontier", "xla")
"""How to find plans, by name; `xla` is a baseline."""


@dataclass(frozen=True, eq=False, slots=True)
class BudgetPlan:
    """The time that a graph needs within a budget of bytes.

    `point` is the cheapest plan found, None where none fits. `least` is the plan of fewest bytes
    known; with `xla`, the plan for this budget. `bound` is proved for any order and any
    recomputation. `binding_node` is the node whose step keeps the memory from shrinking, None where
    that is all that lives to the end; `binding_bytes` is what it takes.
    """

    budget_bytes: int
    method: str
    point: Point | None
    least: Point
    bound: RecomputeBound
    binding_node: int | None
    binding_bytes: int
    base_seconds: float

    @property
    def is_feasible(self) -> bool:
        """Whether a plan within the budget is known."""
        return self.point is not None

    def document(self, names: Orders[str] = ()) -> dict[str, Any]:
        """Return the facts as JSON has them; `names` are those of the nodes, if there are any.

        `extra_seconds_bound` is null where no plan is within the budget, which is proved then.
        """
        point, bound = self.point, self.bound
        node = self.binding_node
        proved = None if bound.is_infeasible else bound.extra_seconds
        if point is not None:
            proved = without_rounding(bound.extra_seconds, point.extra_seconds)
        return {
            "bytes": self.budget_bytes,
            "method": self.method,
            "feasible": point is not None,
            "infeasible_proved": bound.is_infeasible,
            "peak_bytes": None if point is None else point.peak_bytes,
            "base_seconds": self.base_seconds,
            "extra_seconds": None if point is None else point.extra_seconds,
            "extra_seconds_bound": proved,
            "smallest_feasible_bytes": self.least.peak_bytes,
            "binding_node": node,
            "binding_name": names[node] if node is not None and names else None,
            "binding_bytes": self.binding_bytes,
        }


class Budgets:
    """Plans of one graph for many budgets: the frontier is made once, whatever is asked."""

    def __init__(
        self,
        graph: MemoryGraph,
        orders: Orders[Int64Array],
        effort: Effort = Effort.DEFAULT,
        deadline: Deadline | None = None,
        once: Collection[int] = (),
    ) -> None:
        """Take orders of all nodes; nodes in `once` never run again.

        Raises ValueError where there is no order, or where the graph has no times.
        """
        if not orders:
            raise ValueError("a budget needs an order to start from")
        self._tables = tables_of(graph, once)
        self._orders = orders
        self._effort = effort
        self._deadline = deadline
        self._once = once
        self._order = min(orders, key=self._peak)
        self._bounds = BoundSearch(self._tables, self._order, effort, deadline)
        self._proved: dict[int, RecomputeBound] = {}

    @cached_property
    def frontier(self) -> Frontier:
        """The frontier, searched when it is first asked for."""
        graph = self._tables.graph
        return frontier(graph, self._orders, self._effort, self._deadline, None, self._once)

    @property
    def bounds(self) -> BoundSearch:
        """The bounds, which also have the flows that prove them."""
        return self._bounds

    def prove(self, budget: int) -> RecomputeBound:
        """Return the bound for a budget in bytes, once it is proved in a part of the time left.

        Whoever has a deadline asks for it ahead of the frontier, which takes all of the time.
        """
        if budget not in self._proved:
            whole = self._deadline
            self._bounds.deadline = None if whole is None else whole.part(_MOST_TIME)
            self._proved[budget] = self._bounds.proved(budget)
            self._bounds.deadline = whole
        return self._proved[budget]

    def plan(self, budget: int, method: str = METHODS[0]) -> BudgetPlan:
        """Return the plan for a budget in bytes; raises ValueError for an unknown method."""
        if method not in METHODS:
            raise ValueError(f"no method {method!r}; there are: {', '.join(METHODS)}")
        least = self.frontier.least if method == METHODS[0] else self._xla(budget)
        point = self.frontier.within(budget) if method == METHODS[0] else least
        if point is not None and point.peak_bytes > budget:
            point = None
        bound = self.prove(budget)
        node, taken = bound.node, bound.fixed_bytes
        if not bound.is_infeasible:
            node, taken = self._highest(least if point is None else point)
        base = float(self._tables.graph.seconds.sum())
        return BudgetPlan(budget, method, point, least, bound, node, taken, base)

    def pareto(self) -> dict[str, Any]:
        """Return the frontier as JSON has it, and the proven least extra seconds beside it.

        The bound is for this graph, any order and recomputation only. It is given at the points'
        bytes and, with null, just below the least bytes that any sequence holds.
        """
        points = [(x.peak_bytes, x.extra_seconds) for x in self.frontier.points]
        for size, _ in points:
            self._bounds.at(size)
        lower = [(size, self._bounds.known(size).extra_seconds) for size, _ in points]
        return {
            "base_seconds": float(self._tables.graph.seconds.sum()),
            "points": [{"bytes": size, "extra_seconds": extra} for size, extra in points],
            "bound": [{"bytes": size, "extra_seconds": extra} for size, extra in lower],
            "infeasible_below_bytes": self._bounds.least_bytes,
        }

    def _peak(self, order: Int64Array) -> int:
        return int(step_bytes(self._tables, order).max(initial=0))

    def _highest(self, point: Point) -> tuple[int | None, int]:
        """The node of the largest step of a plan, and what that step takes."""
        sequence = np.array(point.sequence, np.int64)
        steps = step_bytes(self._tables, sequence)
        return (int(sequence[steps.argmax()]), point.peak_bytes) if len(steps) else (None, 0)

    def _xla(self, budget: int) -> Point:
        graph = self._tables.graph
        sequence = xla_sequence(graph, self._order, budget, once=self._once)
        extra = self._tables.seconds(sequence)
        return Point(self._peak(sequence), extra, tuple(sequence.tolist()))
