"""The values live at the peak of a simple order of the instructions of a module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.analysis.memory_profile import lifetimes, step_bytes
from lowtide.analysis.module_graphs import ComputationGraph, module_graphs
from lowtide.ir import Computation, Instruction, Module
from lowtide.ir.traversal import post_order
from lowtide.records import dataclass
from lowtide.transforms.memory.fused_graph import as_if_fused

Order: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Planner:
    """What passes ask of those who know how modules are planned.

    `footprint` tells how many bytes a module needs once it is optimized and scheduled, `order` in
    which order the nodes of a memory graph would run.
    """

    footprint: Callable[[Module], int]
    order: Callable[[MemoryGraph], Order]


@dataclass(frozen=True, eq=False, slots=True)
class PeakValues:
    """The values live at the peak of a module, in the computation in which most of them are.

    `position` has the step of each instruction of that computation, `at` is the step of the peak.
    `live` are the bytes live in that step by the instruction that makes them, `last` the last step
    in which these are read. `nbytes` is the peak of the whole module.
    """

    computation: Computation
    position: Mapping[Instruction, int]
    at: int
    live: Mapping[Instruction, int]
    last: Mapping[Instruction, int]
    nbytes: int

    def late_readers(self, x: Instruction) -> list[Instruction]:
        """Return what reads a value after the peak, in order."""
        late = [y for y in x.users if self.position[y] > self.at]
        return sorted(late, key=self.position.__getitem__)


def peak_values(module: Module, planner: Planner | None = None) -> PeakValues:
    """Return what is live at the peak.

    The order of each computation is that of a planner, by default operands before their readers as
    the result needs them. Simple operations count as computed by their readers. Where most of a
    step is what a loop or call holds inside, the peak is looked for in there.
    """
    graphs = [as_if_fused(row) for row in module_graphs(module)]
    peaks: list[int] = []
    orders: list[Order] = []
    for row in graphs:
        graph = row.holding(peaks)
        orders.append(_order(row, graph, planner))
        peaks.append(int(step_bytes(graph, orders[-1]).max(initial=0)))
    number, at = _innermost(graphs, orders, peaks)
    row, order = graphs[number], orders[number]
    _, first, last = lifetimes(row.graph, order)
    producer, nbytes = row.graph.producer, row.graph.buffer_bytes
    (buffers,) = np.nonzero((first <= at) & (at <= last) & (nbytes > 0) & (producer >= 0))
    live: dict[Instruction, int] = {}
    until: dict[Instruction, int] = {}
    for buffer in buffers.tolist():
        maker = row.flow.nodes[int(producer[buffer])]
        live[maker] = live.get(maker, 0) + int(nbytes[buffer])
        until[maker] = max(until.get(maker, 0), int(last[buffer]))
    position = {row.flow.nodes[node]: i for i, node in enumerate(order.tolist())}
    return PeakValues(row.computation, position, at, live, until, peaks[-1])


def _innermost(
    graphs: Sequence[ComputationGraph], orders: Sequence[Order], peaks: Sequence[int]
) -> tuple[int, int]:
    """The number of the graph that holds most of the peak, and its highest step."""
    number = len(graphs) - 1
    while True:
        graph = graphs[number].holding(peaks)
        steps = step_bytes(graph, orders[number])
        at = int(steps.argmax())
        node = int(orders[number][at])
        inside = [x.callee for x in graphs[number].calls if x.node == node]
        if not inside or 2 * int(graph.inner_bytes[node]) < int(steps[at]):
            return number, at
        number = max(inside, key=lambda x: peaks[x])


def _order(row: ComputationGraph, graph: MemoryGraph, planner: Planner | None) -> Order:
    if planner is not None:
        return planner.order(graph)
    return np.array([row.flow.number[x] for x in post_order(row.computation)], np.int64)
