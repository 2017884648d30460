"""The least extra time of a scheduled module within a budget, whatever runs again, proved.

Bounds are for this module: its instructions and sizes, any order, and recomputation only; on a
target with a link to its host, also with values of the entry stored there.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Final

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.budgeting.graphs import BudgetGraphs
from lowtide.certificate.orders import Boundary
from lowtide.cost.machine import HostLink
from lowtide.ir import Instruction
from lowtide.records import dataclass
from lowtide.remat.bound import BoundSearch
from lowtide.remat.measure import footprints, step_bytes
from lowtide.remat.tables import RematTables, tables_of
from lowtide.search.deadline import Deadline
from lowtide.search.effort import Effort


@dataclass(frozen=True, slots=True)
class ModuleBound:
    """No recomputation brings a module within `budget_bytes` in less extra time.

    `extra_seconds` is infinite where none does at all; then `binding` is the instruction whose step
    takes `binding_bytes` whatever runs again, None where that is what the entry returns.
    """

    budget_bytes: int
    extra_seconds: float
    binding: Instruction | None
    binding_bytes: int

    @property
    def is_infeasible(self) -> bool:
        """Whether no recomputation brings the module within the budget."""
        return math.isinf(self.extra_seconds)


@dataclass(frozen=True, slots=True)
class _Need:
    """The bytes that a graph needs, and the search that proves it; None where its steps do."""

    tables: RematTables
    search: BoundSearch | None
    nbytes: int

    @property
    def node(self) -> int | None:
        """The node in whose step that is; None where it is what lives to the end."""
        if self.search is not None and self.nbytes > self.search.bytes_of_steps:
            return self.search.at(0).node
        least = footprints(self.tables)
        return int(least.argmax()) if least.max(initial=0) >= self.nbytes > 0 else None


_MOST_TIME: Final = 0.25
"""The part of the time before a deadline that may be spent on the bound for one budget."""


class ModuleBounds:
    """Bounds of one module for many budgets.

    The least that callees need counts in their callers. Extra times of different computations add
    up, each times its runs: the entry has to be within the budget, and a callee within what the
    least step of its caller leaves. Of modules with calls or conditionals, whose callees may end
    with less than their graphs say where something runs again, only results are counted. With a
    `link`, values of the entry may also be stored in the host's memory.
    """

    def __init__(
        self,
        graphs: BudgetGraphs,
        effort: Effort,
        deadline: Deadline | None = None,
        link: HostLink | None = None,
    ) -> None:
        self._graphs = graphs
        self._effort = effort
        self._deadline = deadline or Deadline()
        self._end = self._deadline.part(_MOST_TIME)
        """When what is being proved has to be."""
        self._link = link
        self._least: list[int] = []
        self._tables: list[RematTables] = []
        self._searches: dict[int, BoundSearch] = {}
        for graph in graphs.graphs:
            memory = graph.holding(self._least, graphs.totals)
            self._tables.append(tables_of(memory, graph.once))
            self._least.append(_least(memory, self._tables[-1], is_entry=graph is graphs.entry))

    @cached_property
    def least_bytes(self) -> int:
        """No recomputation needs fewer bytes than this."""
        return max(self._tightest[0], self._by_needs)

    @property
    def known_bytes(self) -> int:
        """What is known of `least_bytes` at once: all of it where that was asked before."""
        return self.least_bytes if "least_bytes" in self.__dict__ else self.bytes_of_steps

    @cached_property
    def _tightest(self) -> tuple[int, int | None]:
        """The least bytes of any recomputation, and which graph no step alone keeps to them.

        It is None where a step does, or all results do.
        """
        least, tightest = self.bytes_of_steps, None
        for number, graph in enumerate([] if self._graphs.has_calls else self._graphs.graphs):
            cap = self._caps(least)[number]
            beside_link = self._link is not None and graph is self._graphs.entry
            if not graph.count or not self._could_bind(number, cap):
                continue
            if self._is_left_out(number):
                break
            search = self._search(number)
            least_bytes = search.bytes_of_first_steps if beside_link else search.least_bytes
            lacking = least_bytes - cap
            if lacking > 0:
                least, tightest = least + lacking, number
        return least, tightest

    @cached_property
    def _by_needs(self) -> int:
        """Bytes that the entry holds, with what its callees need beside that."""
        if self._graphs.has_calls:
            return 0
        return max(0, self._needs[-1].nbytes - self._graphs.entry.state_bytes)

    @property
    def bytes_of_steps(self) -> int:
        """Bytes that some step needs alone, with what its callees need, or that all results do.

        They are known at once, other bounds are not.
        """
        state = self._graphs.entry.state_bytes
        if self._graphs.has_calls:
            memory = self._tables[-1].graph
            return max(0, int(memory.buffer_bytes[memory.live_out].sum()) - state)
        return max(0, self._least[-1] - state)

    @cached_property
    def _needs(self) -> list[_Need]:
        """The needs of graphs where callees need what no run can make again, from these up.

        Values of an entry beside a link can be made again by a copy, so its steps alone count.
        """
        found: list[_Need] = []
        for number, graph in enumerate(self._graphs.graphs):
            memory = graph.holding([x.nbytes for x in found], self._graphs.totals)
            tables = self._tables[number]
            is_same = np.array_equal(memory.inner_bytes, tables.graph.inner_bytes)
            tables = tables if is_same else tables_of(memory, graph.once)
            is_entry = graph is self._graphs.entry
            needed, search = _least(memory, tables, is_entry=is_entry), None
            highest = int(step_bytes(tables, graph.order).max(initial=0))
            beside_link = is_entry and self._link is not None
            if highest > needed and not beside_link and not self._end.passed:
                search = self._search(number) if is_same else self._new_search(number, tables)
                needed = max(needed, search.least_bytes)
            found.append(_Need(tables, search, needed))
        return found

    def at(self, budget: int) -> ModuleBound:
        """Return the bound for a budget in bytes: what is proved in a part of the time left."""
        self._end = self._deadline.part(_MOST_TIME)
        if budget < self.least_bytes:
            binding, needed = self.binding
            return ModuleBound(budget, math.inf, binding, needed)
        seconds = 0.0
        if self._graphs.has_calls:
            return ModuleBound(budget, seconds, None, 0)
        caps = self._caps(budget)
        for number, graph in enumerate(self._graphs.graphs):
            if not graph.count or not self._could_bind(number, caps[number]):
                continue
            if self._is_left_out(number):
                continue
            search = self._search(number)
            if self._link is not None and graph is self._graphs.entry:
                rate = self._link.bytes_per_second
                seconds = search.beside_link(caps[number], rate, seconds)
            else:
                seconds += graph.count * search.proved(caps[number]).extra_seconds
        return ModuleBound(budget, seconds, None, 0)

    def boundaries(self, budget: int) -> list[Boundary]:
        """Return for each graph which node's step proves most for a budget, and at which price.

        Where nothing is proved of a graph it is the step that takes most at least, at a price of 0:
        that is what keeps a budget from being enough, in the entry or in what it runs. The node
        behind all others stands for what the entry returns.
        """
        if self._tightest[0] <= budget < self._by_needs:
            return self._boundaries_of_needs()
        found = []
        caps = self._caps(budget)
        is_open = budget >= self.bytes_of_steps and not self._graphs.has_calls
        for number, graph in enumerate(self._graphs.graphs):
            boundary = self._largest_step(number)
            if is_open and graph.count and self._could_bind(number, caps[number]):
                bound = self._search(number).at(caps[number])
                if bound.node is not None and bound.price is None:
                    boundary = Boundary(bound.node, math.inf)
                elif bound.node is not None and bound.price is not None:
                    boundary = Boundary(bound.node, bound.price.value * bound.tick_seconds)
            found.append(boundary)
        return found

    def _boundaries_of_needs(self) -> list[Boundary]:
        """Per graph the node of the cut that proves what it needs, where running again is free."""
        found = []
        for need in self._needs:
            node = need.node
            is_cut = need.search is not None and need.nbytes > need.search.bytes_of_steps
            if node is None:
                found.append(Boundary(need.tables.node_count, 0.0))
            else:
                found.append(Boundary(node, math.inf if is_cut else 0.0))
        return found

    def _largest_step(self, number: int) -> Boundary:
        least = footprints(self._tables[number])
        if len(least) and least.max() >= self._least[number]:
            return Boundary(int(least.argmax()), 0.0)
        return Boundary(len(least), 0.0)

    @cached_property
    def binding(self) -> tuple[Instruction | None, int]:
        """The instruction whose step needs most at least, in whatever computation, and its bytes.

        None where all that the entry returns needs more.
        """
        number, needed = len(self._least) - 1, self.least_bytes
        found: Instruction | None = None
        if self._graphs.has_calls:
            return found, needed
        proved, tightest = self._tightest
        if self._by_needs > proved:
            seen = self._needs[-1].node
            return None if seen is None else self._graphs.entry.found.flow.nodes[seen], needed
        if tightest is not None:
            seen = self._search(tightest).at(0).node
            return self._graphs.graphs[tightest].found.flow.nodes[seen or 0], needed
        while True:
            graph = self._graphs.graphs[number]
            least = footprints(self._tables[number])
            node = int(least.argmax()) if len(least) else -1
            if node < 0 or least[node] < self._least[number]:
                return found, needed
            found = graph.found.flow.nodes[node]
            inner = int(self._tables[number].graph.inner_bytes[node])
            calls = [x for x in graph.found.calls if x.node == node]
            callee = [x.callee for x in calls if self._least[x.callee] - x.less == inner > 0]
            if not callee or not self._is_held_by_a_step(callee[0]):
                return found, needed
            number = callee[0]

    def _is_held_by_a_step(self, number: int) -> bool:
        """Whether the largest step of a callee reads and makes most of what it takes.

        A small step of a condition, say, takes the state of its loop: then the loop is what needs
        the memory.
        """
        memory = self._tables[number].graph
        node = int(footprints(self._tables[number]).argmax())
        reads = memory.consumers.row_numbers()[memory.consumers.items == node]
        touched = memory.producer == node
        touched[reads] = True
        own = int(memory.scratch_bytes[node] + memory.inner_bytes[node])
        return 2 * (own + int(memory.buffer_bytes[touched].sum())) >= self._least[number]

    def _caps(self, budget: int) -> list[int]:
        """The most bytes that each computation may hold where the entry is within a budget."""
        caps = [0] * len(self._least)
        caps[-1] = budget + self._graphs.entry.state_bytes
        for number in range(len(caps) - 1, -1, -1):
            graph, tables = self._graphs.graphs[number], self._tables[number]
            least = footprints(tables) if graph.found.calls else None
            for call in graph.found.calls:
                assert least is not None
                around = int(least[call.node]) - int(tables.graph.inner_bytes[call.node])
                room = caps[number] - around + call.less
                caps[call.callee] = max(caps[call.callee], room)
        return caps

    def _could_bind(self, number: int, cap: int) -> bool:
        """Whether the order at hand needs more than a cap; where none does, nothing is proved."""
        steps = step_bytes(self._tables[number], self._graphs.graphs[number].order)
        return int(steps.max(initial=0)) > cap

    def _is_left_out(self, number: int) -> bool:
        """Whether there is no time to begin with the bound of a graph."""
        return self._end.passed and number not in self._searches

    def _search(self, number: int) -> BoundSearch:
        if number not in self._searches:
            self._searches[number] = self._new_search(number, self._tables[number])
        self._searches[number].deadline = self._end
        return self._searches[number]

    def _new_search(self, number: int, tables: RematTables) -> BoundSearch:
        order = self._graphs.graphs[number].order
        return BoundSearch(tables, order, self._effort, self._end)


def _least(memory: MemoryGraph, tables: RematTables, *, is_entry: bool) -> int:
    """The bytes of the largest step at least; of the entry, also those of all results."""
    least = int(footprints(tables).max(initial=0))
    if not is_entry:
        return least
    return max(least, int(memory.buffer_bytes[memory.live_out].sum()))
