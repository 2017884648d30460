"""Values of a module's entry that are stored in the host's memory, beside what runs again.

Each value that may be stored comes back by a node whose time is that of its copy (`returns.py`). A
copy takes no time of the device as long as it runs beside computation, so sequences are searched
at several prices: parts of the time of a copy that count as time of the device. A value that may
be stored is not made again, so some are left to that: the cheapest ones for the time of their
copy, more of them each time. What a sequence takes is then worked out with its copies on the link
(`transfers.py`), whatever it was searched with.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.budgeting.graphs import BudgetGraph
from lowtide.cost.machine import HostLink
from lowtide.ir import Opcode
from lowtide.ir.opcode import ENDS
from lowtide.remat.levels import LevelSearch
from lowtide.remat.returns import movable, with_returns, without_needless
from lowtide.remat.tables import tables_of
from lowtide.remat.transfers import Transfer, Transferred, with_fewer_waits
from lowtide.search.deadline import Deadline
from lowtide.search.effort import Effort

_MADE_AGAIN: Final = (0.0, 0.15, 0.3, 0.5)
"""Which parts of the values are not stored in a search."""

_PRICES: Final = (0.01, 1.0)
"""Which part of the time of a copy a search takes for lost."""

_FIRST_ROOMS: Final = (1.0, 1.05)
_ROOMS: Final = (1.1, 1.2, 1.4)
"""How much more than a sequence holds its copies may, so that they begin earlier or end later: the
first are tried in each search, the others in the best ones."""

_BEST: Final = 2
"""In how many of the searches more is tried."""

_LEAST_PART: Final = 1000
"""A value of less than this part of what fits stays."""


def offloaded(
    graph: BudgetGraph, memory: MemoryGraph, cap: int, link: HostLink, deadline: Deadline
) -> Iterator[Transferred]:
    """Yield sequences of instructions and transfers that hold at most `cap` bytes.

    `memory` is the graph with what callees need. The search ends with one that takes no more time
    than the schedule.
    """
    values = _by_time_for_their_copies(graph, memory, cap // _LEAST_PART, link)
    parts = dict.fromkeys([int(len(values) * part) for part in _MADE_AGAIN])
    searches = (
        _LinkSearch(graph, memory, sorted(values[left:]), link, price, deadline)
        for left, price in itertools.product(parts, _PRICES)
        if left < len(values) and not deadline.passed
    )
    least: list[tuple[float, _LinkSearch]] = []
    for search in searches:
        made = list(search.within(cap, _FIRST_ROOMS))
        yield from made
        least.append((min([x.extra_seconds for x in made], default=math.inf), search))
        if least[-1][0] <= 0:
            return
    for _, search in sorted(least, key=lambda x: x[0])[:_BEST]:
        yield from search.within(cap, _ROOMS)


class _LinkSearch:
    """Sequences in which some values may be stored, found at one price of their copies."""

    def __init__(
        self,
        graph: BudgetGraph,
        memory: MemoryGraph,
        values: Sequence[int],
        link: HostLink,
        price: float,
        deadline: Deadline,
    ) -> None:
        self._graph = graph
        self._deadline = deadline
        self._copies = np.array([link.seconds(int(memory.buffer_bytes[x])) for x in values])
        self._found = with_returns(memory, values, self._copies * price)
        self._tables = tables_of(self._found.graph, graph.once)
        start = self._found.order(graph.found.order)
        self._search = LevelSearch(self._tables, [start], Effort.FAST, deadline)

    def within(self, cap: int, rooms: Sequence[float]) -> Iterator[Transferred]:
        """Yield sequences of at most `cap` bytes, up to the first that takes no more time.

        `rooms` are how much more than the sequence its copies may hold.
        """
        for room in rooms:
            sequence = None if self._late() else self._search.within(int(cap / room))
            if sequence is None:
                continue
            late = self._late
            sequence = without_needless(self._found, self._tables, sequence, late)
            made = with_fewer_waits(self._found, self._tables, sequence, cap, self._copies, late)
            yield _of_instructions(self._graph, made)
            if made.extra_seconds <= 0:
                return

    def _late(self) -> bool:
        return self._deadline.passed


def _by_time_for_their_copies(
    graph: BudgetGraph, memory: MemoryGraph, least_bytes: int, link: HostLink
) -> list[int]:
    """The values that may be stored, those first that take least time to make for their copies."""
    ratios: dict[int, float] = {}
    for value in movable(memory, graph.found.order, least_bytes):
        if may_move(graph, value):
            maker = int(memory.producer[value])
            again = math.inf if maker in graph.once else float(memory.seconds[maker])
            ratios[value] = again / link.seconds(int(memory.buffer_bytes[value]))
    return sorted(ratios, key=lambda value: (ratios[value], value))


def _of_instructions(graph: BudgetGraph, made: Transferred) -> Transferred:
    """The same without the nodes that only begin calls."""
    count = len(graph.found.flow.nodes)
    steps = tuple([x for x in made.steps if isinstance(x, Transfer) or x < count])
    return replace(made, steps=steps)


def may_move(graph: BudgetGraph, value: int) -> bool:
    """Whether readers of a value of an entry can be told apart from those of other values.

    That is an array in the device's memory, by itself or an element of a tuple of which only
    elements are read; its size is known.
    """
    flow = graph.found.flow
    if value >= len(flow.value_node):
        return False
    x = flow.nodes[flow.value_node[value]]
    _, shape = list(x.shape.leaves())[flow.value_leaf[value]]
    if not shape.is_array or shape.memory_space or any(shape.dynamic):
        return False
    if x.opcode is Opcode.CONSTANT or any(y.opcode in ENDS for y in x.users):
        return False
    return not x.shape.is_tuple or all(y.opcode is Opcode.GET_TUPLE_ELEMENT for y in x.users)
