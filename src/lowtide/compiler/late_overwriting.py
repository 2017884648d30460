"""Results that lie beside what they are to overwrite until that is no longer read.

So that no copy is needed, whatever reads an argument runs before the result that overwrites it.
That result may be made of more than it is itself, all of which is kept until then: the update of a
weight waits for the gradient that reads the weight. Where the peak is there, it is made early, and
copied.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias, final

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph, lists
from lowtide.analysis.memory_profile import Int64Array, peak_bytes
from lowtide.analysis.module_graphs import ComputationGraph, module_graphs
from lowtide.analysis.topological_order import Edge
from lowtide.buffers.copy_insertion import CopyInsertion, InsertedCopy, insert_copies
from lowtide.compiler.stages import order_of_kernels
from lowtide.compiler.state import OrderedModule
from lowtide.cost.module_times import run_seconds
from lowtide.ir import Computation, Instruction, Module, Schedule
from lowtide.ir.clone import CloneMap, clone_module

_WORTH: Final = 1024
"""Less than one part in so many of the peak is not worth a copy."""

_LONGER: Final = 0.1
_BRIEF: Final = 5e-6
"""What part of the time copies may take, and seconds that they may take in any case.

Arguments are offered so that less memory is needed.
"""

_MOST_ORDERS: Final = 8
"""How many orders are looked at for one in which few results are copied."""

Sequences: TypeAlias = Mapping[Computation, Sequence[Instruction]]


def with_late_overwriting(ordered: OrderedModule) -> tuple[Module, CopyInsertion] | None:
    """Return a module without an order, with further copies, that may have a lower peak than one.

    None where no such copies help, where they take too long, and where memory is not to take time.
    """
    options, edges = ordered.options, _edges(ordered)
    if not (options.memory_priority and edges) or options.deadline.passed:
        return None
    sequences = _Orders(ordered, edges).best()
    if sequences is None:
        return None
    copies = CloneMap()
    module = clone_module(ordered.module, copies)
    for first, second in edges:
        copies.instructions[second].drop_control_predecessors([copies.instructions[first]])
    module.schedule = Schedule(
        {
            copies.computations[computation]: tuple([copies.instructions[x] for x in sequence])
            for computation, sequence in sequences.items()
        }
    )
    further = insert_copies(module).copies
    module.schedule = None
    machine = options.target.machine
    before, after = [run_seconds(x.entry, machine) for x in (ordered.module, module)]
    if after - before > max(_BRIEF, _LONGER * before):
        return None
    known = [InsertedCopy(copies.instructions[x.copy], x.reason) for x in ordered.copies.copies]
    return module, CopyInsertion((*known, *further), ())


def _edges(ordered: OrderedModule) -> list[Edge]:
    """What has a result wait for readers of what it overwrites, copies that are gone aside."""
    flows = ordered.flows
    return [
        (x, y)
        for x, y in ordered.copies.control_edges
        if x in flows[y.parent].number and y in flows[y.parent].number
    ]


class _Found(NamedTuple):
    """The peak of orders in which `early` run before other readers of what they overwrite."""

    peak: int
    early: list[Instruction]
    orders: list[Int64Array]


@final
class _Orders:
    """Orders of a module in which some results do not wait for what they overwrite."""

    def __init__(self, ordered: OrderedModule, edges: Sequence[Edge]) -> None:
        self.rows = module_graphs(ordered.module, ordered.flows)
        self.waits: dict[Instruction, list[Instruction]] = {}
        """What each result waits for because of what it overwrites."""
        for first, second in edges:
            self.waits.setdefault(second, []).append(first)
        self.left = _MOST_ORDERS
        self.deadline = ordered.options.deadline

    def best(self) -> Sequences | None:
        """Return an order of lower peak in which few results are early; None where none is lower.

        Those that need not be are left out by halves, quarters, and so on.
        """
        most = self._without(()).peak
        found = self._without(self.waits)
        if found.peak + most // _WORTH >= most:
            return None
        size = len(found.early) // 2
        while size and self.left:
            start = 0
            while start < len(found.early) and self.left:
                fewer = [*found.early[:start], *found.early[start + size :]]
                trial = self._without(fewer)
                if fewer and trial.peak <= found.peak:
                    found = trial
                else:
                    start += size
            size //= 2
        pairs = zip(self.rows, found.orders, strict=True)
        return {x.computation: [x.flow.nodes[node] for node in order] for x, order in pairs}

    def _without(self, free: Collection[Instruction]) -> _Found:
        """The orders in which some results need not wait; as the module has them without any."""
        peaks: list[int] = []
        early: list[Instruction] = []
        orders = []
        self.left = 0 if self.deadline.passed else self.left - bool(free)
        for row in self.rows:
            graph = row.holding(peaks)
            order = np.array(row.order, np.int64)
            own = {x for x in free if x.parent is row.computation}
            if own:
                graph = self._freed(row, graph, own)
                order = order_of_kernels(graph)
                early += self._early(row, order, own)
            peaks.append(peak_bytes(graph, order))
            orders.append(order)
        return _Found(peaks[-1], early, orders)

    def _freed(
        self, row: ComputationGraph, graph: MemoryGraph, free: Collection[Instruction]
    ) -> MemoryGraph:
        """The graph of a computation in which some results do not wait."""
        number = row.flow.number
        control = [
            [number[y] for y in x.control_predecessors if x not in free or y not in self.waits[x]]
            for x in row.flow.nodes
        ]
        return replace(graph, control=lists(control))

    def _early(
        self, row: ComputationGraph, order: Int64Array, free: Collection[Instruction]
    ) -> list[Instruction]:
        """Those that run before something that they would wait for."""
        place = {row.flow.nodes[node]: step for step, node in enumerate(order)}
        return [
            x for x in self.waits if x in free and any(place[x] < place[y] for y in self.waits[x])
        ]
