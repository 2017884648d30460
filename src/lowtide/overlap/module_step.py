"""The simulated step of a whole module, and the search for its order, callees before callers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.analysis.memory_profile import peak_bytes, step_bytes
from lowtide.analysis.module_graphs import ComputationGraph
from lowtide.ir import Computation, Schedule
from lowtide.overlap.clock import SimulatedStep, simulated
from lowtide.overlap.step_bound import step_bound
from lowtide.overlap.step_graph import (
    CalleeTime,
    Order,
    StepGraph,
    StepModel,
    links_of,
    sending_seconds,
)
from lowtide.overlap.step_order import shortest_order
from lowtide.records import dataclass
from lowtide.search.deadline import Deadline

_FREE: Final = 1 << 62

Orderer = Callable[[StepGraph, MemoryGraph, Order, int], Order]
"""What finds an order of a computation, given one that takes no more bytes than a limit."""


@dataclass(frozen=True, eq=False, slots=True)
class ModuleStep:
    """The step of a module: its entry's graph and order as simulated, and the bound in seconds.

    `sending` is the time of all transfers, and `waiting` what the device waits for them, in
    seconds; loops count as often as they run.
    """

    entry: ComputationGraph
    graph: StepGraph
    order: tuple[int, ...]
    step: SimulatedStep
    bound_seconds: float
    sending: float

    @property
    def hidden(self) -> float:
        """The part of the time of transfers in which the device does not wait; 1 without any."""
        return max(0.0, 1.0 - self.step.waiting / self.sending) if self.sending else 1.0


def module_step(model: StepModel) -> ModuleStep:
    """Return the step of a scheduled module in its order."""
    orders = {x.computation: x.order for x in model.graphs}
    return _step_in(model, orders)


def shortest_schedule(
    model: StepModel, limit: int, deadline: Deadline | None = None
) -> tuple[Schedule, int]:
    """Return the best schedule found, and how many orders of computations were tried.

    The entry takes at most `limit` live bytes by its memory graph, if it does so in the order that
    the module has. Callees may take what is free where they run.
    """
    tried = 0

    def search(graph: StepGraph, memory: MemoryGraph, given: Order, most: int) -> Order:
        nonlocal tried
        found = shortest_order(graph, memory, given, most, deadline)
        tried += found.tried
        return found.order

    return schedule_by(model, limit, search), tried


def schedule_by(model: StepModel, limit: int, orderer: Orderer) -> Schedule:
    """Return the schedule in which `orderer` orders what has collectives, callees first."""
    limits = _limits(model, limit)
    times: dict[Computation, CalleeTime] = {}
    peaks: list[int] = []
    sequences = {}
    for found in model.graphs:
        memory = found.holding(peaks)
        graph = model.step_graph(found, times)
        order: Order = found.order
        if any(graph.transfer):
            order = orderer(graph, memory, order, limits[found.computation])
        times[found.computation] = _callee_time(graph, simulated(graph, order))
        peaks.append(peak_bytes(memory, np.array(order, np.int64)))
        sequences[found.computation] = tuple([found.flow.nodes[x] for x in order])
    return Schedule(sequences)


def _step_in(model: StepModel, orders: dict[Computation, tuple[int, ...]]) -> ModuleStep:
    times: dict[Computation, CalleeTime] = {}
    least: dict[Computation, CalleeTime] = {}
    for found in model.graphs:
        graph = model.step_graph(found, times)
        order = orders[found.computation]
        step = simulated(graph, order)
        times[found.computation] = _callee_time(graph, step)
        bound = step_bound(model.step_graph(found, least))
        least[found.computation] = CalleeTime(bound, 0.0, 0.0, links_of(graph))
    return ModuleStep(found, graph, order, step, bound, sending_seconds(graph))


def _callee_time(graph: StepGraph, step: SimulatedStep) -> CalleeTime:
    return CalleeTime(step.seconds, sending_seconds(graph), step.waiting, links_of(graph))


def _limits(model: StepModel, limit: int) -> dict[Computation, int]:
    """The most live bytes of each computation such that its callers stay within their own."""
    peaks: list[int] = []
    steps = []
    for found in model.graphs:
        order = np.array(found.order, np.int64)
        live = step_bytes(found.holding(peaks), order)
        peaks.append(int(live.max(initial=0)))
        steps.append(live)
    own = [_FREE] * len(peaks)
    own[-1] = limit
    for number in reversed(range(len(peaks))):
        found = model.graphs[number]
        place = {node: k for k, node in enumerate(found.order)}
        for call in found.calls:
            free = max(0, own[number] - int(steps[number][place[call.node]]))
            own[call.callee] = min(own[call.callee], peaks[call.callee] + free)
    return {x.computation: own[k] for k, x in enumerate(model.graphs)}
