"""Orders for a whole module, chosen by peak memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.analysis.call_graph import CallRole, call_sites
from lowtide.analysis.dataflow import ComputationDataflow, Dataflow
from lowtide.analysis.donation import Alias
from lowtide.analysis.footprint import body_aliases
from lowtide.analysis.memory_graph import MemoryGraph, memory_graph
from lowtide.analysis.memory_profile import peak_bytes
from lowtide.ir import Computation, Instruction, Schedule
from lowtide.planning.search import Effort
from lowtide.scheduling.cut_bound import cut_bound
from lowtide.scheduling.depth_first import depth_first_order, post_order
from lowtide.scheduling.list_scheduler import list_order
from lowtide.scheduling.plain_bound import plain_bound
from lowtide.scheduling.search import search_order

Int64Array = npt.NDArray[np.int64]
Scheduler = Callable[[MemoryGraph], Int64Array]

SCHEDULERS: Final[Mapping[str, Scheduler]] = {
    "list": list_order,
    "dfs": depth_first_order,
    "post_order": post_order,
}
"""By name, those to prefer among equals first."""


def best_of(graph: MemoryGraph, schedulers: Mapping[str, Scheduler] = SCHEDULERS) -> Int64Array:
    """Return the order of lowest peak; of equal ones, that of the first scheduler."""
    orders = [scheduler(graph) for scheduler in schedulers.values()]
    return min(orders, key=lambda order: peak_bytes(graph, order))


def searched(graph: MemoryGraph, effort: Effort = Effort.DEFAULT) -> list[Int64Array]:
    """Return orders, best first: those of a search where they are lower, then the schedulers'.

    A node that has to run early or late keeps its place by the schedulers' rules, which a search
    does not know: there, and with effort fast, only they are asked.
    """
    orders = [scheduler(graph) for scheduler in SCHEDULERS.values()]
    orders.sort(key=lambda order: peak_bytes(graph, order))
    if effort is Effort.FAST or graph.urgency.any():
        return orders
    least = peak_bytes(graph, orders[0])
    if least == plain_bound(graph) or least == cut_bound(graph, orders[0]):
        return orders
    found = search_order(graph, effort)
    if found.peak_bytes < peak_bytes(graph, orders[0]):
        return [found.order, *found.others, *orders]
    return orders


def schedule_module(
    flows: Dataflow, root: Computation, aliases: tuple[Alias, ...], scheduler: Scheduler = best_of
) -> Schedule:
    """Return an order of `root` and of all that it runs.

    Computations in `flows` stand callees first; what a callee needs counts where it is called. An
    order that the module already has is kept.
    """
    sequences, graph = _scheduled_callees(flows, root, aliases, scheduler)
    if root not in sequences:
        sequences[root] = _sequence(flows[root], scheduler(graph))
    return Schedule(sequences)


def schedule_candidates(
    flows: Dataflow,
    root: Computation,
    aliases: tuple[Alias, ...],
    effort: Effort = Effort.DEFAULT,
) -> list[Schedule]:
    """Return orders which differ in `root` only, that of the least peak by its graph first.

    Which one is best depends on where the peaks of callees meet those of `root`: to know, walk the
    flattened program. An order that the module already has is the only one.
    """
    sequences, graph = _scheduled_callees(
        flows, root, aliases, lambda callee: searched(callee, effort)[0]
    )
    if root in sequences:
        return [Schedule(sequences)]
    found = dict.fromkeys([_sequence(flows[root], x) for x in searched(graph, effort)])
    return [Schedule({**sequences, root: sequence}) for sequence in found]


def _scheduled_callees(
    flows: Dataflow, root: Computation, aliases: tuple[Alias, ...], scheduler: Scheduler
) -> tuple[dict[Computation, tuple[Instruction, ...]], MemoryGraph]:
    """The orders of all that `root` runs, and all that are given; and the graph of `root`."""
    given = root.module.schedule
    bodies = {
        callee
        for computation in flows
        for _, role, callee in call_sites(computation)
        if role is CallRole.BODY
    }
    peaks: dict[Computation, int] = {}
    sequences: dict[Computation, tuple[Instruction, ...]] = {}
    for computation, flow in flows.items():
        if given is not None and computation in given.sequences:
            sequences[computation] = given.sequences[computation]
        if computation is root:
            continue
        bound = body_aliases(flow) if computation in bodies else ()
        graph = memory_graph(flow, bound, _inner_peaks(computation, peaks))
        if computation in sequences:
            order = np.array([flow.number[x] for x in sequences[computation]], np.int64)
        else:
            order = scheduler(graph)
            sequences[computation] = _sequence(flow, order)
        peaks[computation] = peak_bytes(graph, order) - _bytes_of(flow, bound)
    return sequences, memory_graph(flows[root], aliases, _inner_peaks(root, peaks))


def _sequence(flow: ComputationDataflow, order: Int64Array) -> tuple[Instruction, ...]:
    return tuple([flow.nodes[node] for node in order.tolist()])


def _inner_peaks(
    computation: Computation, peaks: Mapping[Computation, int]
) -> dict[Instruction, int]:
    inner: dict[Instruction, int] = {}
    for instruction, _, callee in call_sites(computation):
        inner[instruction] = max(inner.get(instruction, 0), peaks[callee])
    return inner


def _bytes_of(flow: ComputationDataflow, aliases: tuple[Alias, ...]) -> int:
    return sum([flow.value_bytes[flow.parameters[alias.parameter]] for alias in aliases])
