"""Values of a module's entry that are stored in the host's memory, beside what runs again.

Each value that may be stored comes back by a node whose time is that of its copy (`returns.py`). A
copy takes no time of the device as long as it runs beside computation, so it is searched at several
prices: parts of the time of a copy that count as time of the device. What a sequence takes is then
worked out with its copies on the link (`transfers.py`), whatever it was searched with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.budgeting.graphs import BudgetGraph
from lowtide.budgeting.once import ENDS
from lowtide.cost.machine import HostLink
from lowtide.ir import Opcode
from lowtide.remat.frontier import frontier
from lowtide.remat.returns import movable, with_returns, without_needless
from lowtide.remat.tables import tables_of
from lowtide.remat.transfers import Transfer, Transferred, with_fewer_waits
from lowtide.search.deadline import Deadline
from lowtide.search.effort import Effort

_PRICES: Final = (0.01, 0.25, 1.0)
"""Which part of the time of a copy a search takes for lost."""

_ROOMS: Final = (1.0, 1.02, 1.06, 1.15, 1.3, 1.6)
"""How much more than a sequence holds its copies may, so that they begin earlier or end later."""

_LEAST_PART: Final = 500
"""A value of less than this part of the peak stays."""


def offloaded(
    graph: BudgetGraph, memory: MemoryGraph, peak: int, link: HostLink, deadline: Deadline
) -> Iterator[Transferred]:
    """Yield sequences of instructions and transfers, with their bytes and extra seconds.

    `memory` is the graph with what callees need, of which the schedule holds `peak` bytes.
    """
    order = graph.found.order
    values = [x for x in movable(memory, order, peak // _LEAST_PART) if may_move(graph, x)]
    for price in _PRICES:
        chosen = _dear_values(graph, memory, values, link, price)
        if not chosen or deadline.passed:
            continue
        copies = np.array([link.seconds(int(memory.buffer_bytes[x])) for x in chosen])
        found = with_returns(memory, chosen, copies * price)
        tables = tables_of(found.graph, graph.once)
        start = found.order(order)
        curve = frontier(found.graph, [start], Effort.FAST, deadline, None, graph.once)
        if curve.was_interrupted and not deadline.was_interrupted:
            raise KeyboardInterrupt
        for point in curve.points:
            if deadline.passed:
                return
            sequence = without_needless(found, tables, np.array(point.sequence, np.int64))
            for room in _ROOMS:
                cap = int(point.peak_bytes * room)
                yield _of_instructions(
                    graph, with_fewer_waits(found, tables, sequence, cap, copies)
                )


def _dear_values(
    graph: BudgetGraph, memory: MemoryGraph, values: Sequence[int], link: HostLink, price: float
) -> list[int]:
    """The values that take no less time to make again than to copy, at a price of the copy.

    The others are left to recomputation.
    """
    found = []
    for value in values:
        maker = int(memory.producer[value])
        copy = price * link.seconds(int(memory.buffer_bytes[value]))
        if maker in graph.once or memory.seconds[maker] >= copy:
            found.append(value)
    return found


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
