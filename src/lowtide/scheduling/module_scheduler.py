"""Orders for a whole module, chosen by peak memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.analysis.dataflow import Dataflow
from lowtide.analysis.memory_graph import MemoryGraph
from lowtide.analysis.memory_profile import peak_bytes
from lowtide.analysis.module_graphs import ComputationGraph
from lowtide.ir import Computation, Instruction, Module, Schedule
from lowtide.scheduling.depth_first import depth_first_order, post_order
from lowtide.scheduling.list_scheduler import list_order
from lowtide.scheduling.module_model import model_graphs, model_order, program_order
from lowtide.scheduling.module_search import Searches
from lowtide.scheduling.proof import plain_bound
from lowtide.search.effort import Effort

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
    return best_and_peak(graph, plain_bound(graph), schedulers)[0]


def best_and_peak(
    graph: MemoryGraph, bound: int, schedulers: Mapping[str, Scheduler] = SCHEDULERS
) -> tuple[Int64Array, int]:
    """Return the order of `best_of` and its peak; no peak is below `bound`, both in bytes."""
    best: Int64Array | None = None
    least = 0
    for scheduler in schedulers.values():
        order = scheduler(graph)
        peak = peak_bytes(graph, order)
        if best is None or peak < least:
            best, least = order, peak
        if least <= bound:
            break
    assert best is not None
    return best, least


def searched(graph: MemoryGraph, searches: Searches) -> list[Int64Array]:
    """Return orders, best first: those of a search where they are lower, then the schedulers'.

    A node that has to run early or late keeps its place by the schedulers' rules, which a search
    does not know: there, and with effort fast, only they are asked. From the deadline on there is
    only the best of theirs.
    """
    if searches.deadline.passed:
        return [best_of(graph)]
    if plain_bound(graph) >= int(graph.buffer_bytes.sum()):
        return [list_order(graph)]  # All lives at once, in any order.
    orders = [scheduler(graph) for scheduler in SCHEDULERS.values()]
    orders.sort(key=lambda order: peak_bytes(graph, order))
    if searches.effort is Effort.FAST or graph.urgency.any():
        return orders
    return [*searches.bound(graph, orders[0]).lower, *orders]


def schedule_module(
    module: Module, flows: Dataflow | None = None, scheduler: Scheduler = best_of
) -> Schedule:
    """Return an order of all that a module runs.

    What a callee needs counts where it is called. An order that the module already has is kept.
    `flows` is the dataflow of the entry, where it is known.
    """
    models = model_graphs(module, flows, has_copies=False)
    return _candidates(module, models, lambda graph: [scheduler(graph)])[0]


def schedule_candidates(
    module: Module, models: Sequence[ComputationGraph], searches: Searches
) -> list[Schedule]:
    """Return orders which differ in the entry only, that of the least peak by its graph first.

    `models` are those that `model_graphs` makes of the module, which has to have all copies that it
    needs in any order that its control edges allow. Which one is best depends on where the peaks of
    callees meet those of the entry: to know, walk the flattened program. An order that the module
    already has is the only one.
    """
    return _candidates(module, models, lambda graph: searched(graph, searches))


def _candidates(
    module: Module,
    models: Sequence[ComputationGraph],
    orders_of: Callable[[MemoryGraph], list[Int64Array]],
) -> list[Schedule]:
    sequences: dict[Computation, tuple[Instruction, ...]] = {}
    found: list[Int64Array] = []
    peaks: list[int] = []
    for model in models:
        graph = model.holding(peaks)
        found = [np.array(model.order, np.int64)] if model.order else orders_of(graph)
        best = model_order(program_order(found[0], model), model)
        peaks.append(peak_bytes(graph, np.array(best, np.int64)))
        sequences[model.computation] = _sequence(model, found[0])
    entry = dict.fromkeys([_sequence(model, order) for order in found])
    return [Schedule({**sequences, module.entry: sequence}) for sequence in entry]


def _sequence(model: ComputationGraph, order: Int64Array) -> tuple[Instruction, ...]:
    return tuple([model.flow.nodes[node] for node in program_order(order, model)])
